/* SPDX-License-Identifier: MIT */
/* Until when a run's requests may start. */
#include "worker/store/fence.h"

#include <stddef.h>

#include "worker/base/platform.h"
#include "worker/store/lease_clock.h"

static int64_t held_between(int64_t value, int64_t low, int64_t high)
{
    if (value < low)
        return low;
    return value > high ? high : value;
}

void fence_init(struct fence *fence, int64_t deadline_ms, int64_t request_ms)
{
    atomic_init(&fence->deadline_ms, deadline_ms);
    atomic_init(&fence->shut, false);
    fence->request_ms =
        held_between(request_ms, FENCE_REQUEST_MIN_MS, FENCE_REQUEST_MAX_MS);
    fence->clock = NULL;
    fence->renews = false;
}

void fence_watch(struct fence *fence, struct lease_clock *clock, bool renews)
{
    fence->clock = clock;
    fence->renews = renews;
}

int64_t fence_request_ms(int64_t visibility_timeout_ms)
{
    return held_between(
        visibility_timeout_ms / 4, FENCE_REQUEST_MIN_MS, FENCE_REQUEST_MAX_MS);
}

void fence_move(struct fence *fence, int64_t deadline_ms)
{
    atomic_store(&fence->deadline_ms, deadline_ms);
}

void fence_shut(struct fence *fence)
{
    atomic_store(&fence->shut, true);
}

/* For good, unless a renewal that was sent before is stored. */
static bool is_over(const struct fence *fence)
{
    return atomic_load(&fence->shut) ||
           (fence->clock && lease_clock_is_over(fence->clock));
}

bool fence_open(const struct fence *fence, int64_t now_ms)
{
    int64_t deadline_ms;

    if (fence == NULL)
        return true;
    if (is_over(fence))
        return false;
    if (fence->clock && !fence->renews && lease_clock_in_doubt(fence->clock))
        return false;
    deadline_ms = atomic_load(&fence->deadline_ms);
    return deadline_ms == PLATFORM_NEVER ||
           now_ms <= deadline_ms - fence->request_ms;
}

bool fence_may_reopen(const struct fence *fence, int64_t now_ms)
{
    return fence && !is_over(fence) &&
           now_ms < atomic_load(&fence->deadline_ms);
}

int64_t fence_timeout_ms(const struct fence *fence)
{
    return fence ? fence->request_ms : FENCE_REQUEST_MAX_MS;
}
