/* SPDX-License-Identifier: MIT */
/* The deadline of an attempt's requests. */
#include "worker/store/deadline.h"

#include <stddef.h>

#include "worker/base/platform.h"
#include "worker/store/lease_clock.h"

static int64_t held_between(int64_t value, int64_t low, int64_t high)
{
    if (value < low)
        return low;
    return value > high ? high : value;
}

void deadline_init(
    struct deadline *deadline, int64_t deadline_ms, int64_t request_ms)
{
    atomic_init(&deadline->at_ms, deadline_ms);
    atomic_init(&deadline->shut, false);
    deadline->request_ms = held_between(
        request_ms, DEADLINE_REQUEST_MIN_MS, DEADLINE_REQUEST_MAX_MS);
    deadline->clock = NULL;
    deadline->renews = deadline->brief = false;
}

void deadline_watch(
    struct deadline *deadline, struct lease_clock *clock, bool renews)
{
    deadline->clock = clock;
    deadline->renews = renews;
}

int64_t deadline_request_ms(int64_t visibility_timeout_ms)
{
    return held_between(visibility_timeout_ms / 4, DEADLINE_REQUEST_MIN_MS,
        DEADLINE_REQUEST_MAX_MS);
}

void deadline_move(struct deadline *deadline, int64_t deadline_ms)
{
    atomic_store(&deadline->at_ms, deadline_ms);
}

void deadline_close(struct deadline *deadline)
{
    atomic_store(&deadline->shut, true);
}

/* Was the deadline closed by deadline_close(), or is the lease over? A renewal
 * that was sent before the lease was over may be stored afterwards, which
 * reopens the deadline. */
static bool is_over(const struct deadline *deadline)
{
    return atomic_load(&deadline->shut) ||
           (deadline->clock && lease_clock_is_over(deadline->clock));
}

bool deadline_is_open(const struct deadline *deadline, int64_t now_ms)
{
    int64_t deadline_ms;

    if (deadline == NULL)
        return true;
    if (is_over(deadline))
        return false;
    if (deadline->clock && !deadline->renews &&
        lease_clock_in_doubt(deadline->clock))
        return false;
    deadline_ms = atomic_load(&deadline->at_ms);
    return deadline_ms == PLATFORM_NEVER ||
           now_ms <= deadline_ms - deadline->request_ms;
}

bool deadline_may_reopen(const struct deadline *deadline, int64_t now_ms)
{
    return deadline && !is_over(deadline) &&
           now_ms < atomic_load(&deadline->at_ms);
}

int64_t deadline_timeout_ms(const struct deadline *deadline)
{
    return deadline ? deadline->request_ms : DEADLINE_REQUEST_MAX_MS;
}
