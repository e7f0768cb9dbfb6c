/* SPDX-License-Identifier: MIT */
/* When a storage call is retried. */
#include "worker/store/retry.h"

#include "worker/base/platform.h"
#include "worker/base/stop.h"

/* Maximum wait that a service can ask for. */
#define HINT_MAX_MS (60 * 1000)

int64_t retry_backoff_ms(
    unsigned tries, bool responded, uint64_t random, int64_t hint_ms)
{
    int64_t limit_ms = responded ? RETRY_RESPONDED_BASE_MS : RETRY_BASE_MS;

    if (hint_ms >= 0)
        return hint_ms < HINT_MAX_MS ? hint_ms : HINT_MAX_MS;
    while (tries-- > 1 && limit_ms < RETRY_CAP_MS)
        limit_ms *= responded ? RETRY_RESPONDED_FACTOR : RETRY_FACTOR;
    if (limit_ms > RETRY_CAP_MS)
        limit_ms = RETRY_CAP_MS;
    return (int64_t)(random % (uint64_t)(limit_ms + 1));
}

bool retry_is_throttled(const struct exchange *last)
{
    return last->http_status == 429 || last->http_status == 503;
}

bool retry_is_locked(const struct exchange *last)
{
    return last->http_status == 409;
}

void retry_begin(struct retry *retry)
{
    retry->tries++;
}

bool retry_may_follow(struct retry *retry, const struct exchange *last)
{
    retry->throttled += retry_is_throttled(last);
    return retry->tries - retry->throttled < RETRY_TRIES;
}

int64_t retry_delay_ms(const struct retry *retry, const struct exchange *last)
{
    uint64_t random;

    platform_random(&random, sizeof(random));
    return retry_backoff_ms(
        retry->tries, last->http_status != 0, random, last->retry_after_ms);
}

struct pause {
    struct platform_mutex mutex;
    struct platform_cond cond;
    bool over; /* guarded by mutex */
};

static void end_pause(void *context)
{
    struct pause *pause = context;

    platform_lock(&pause->mutex);
    pause->over = true;
    platform_wake_all(&pause->cond);
    platform_unlock(&pause->mutex);
}

/* Waits for ms. Returns false, before ms have passed, if the process ends. */
static bool pause_ms(int64_t ms)
{
    int64_t until_ms = platform_boot_ms() + ms;
    struct pause pause = {.over = false};
    struct stop_hook hook = {.told = end_pause, .context = &pause};

    platform_mutex_init(&pause.mutex);
    platform_cond_init(&pause.cond);
    stop_hook_add(&hook);
    platform_lock(&pause.mutex);
    while (!pause.over && platform_wait(&pause.cond, &pause.mutex, until_ms))
        continue;
    platform_unlock(&pause.mutex);
    stop_hook_remove(&hook);
    platform_cond_done(&pause.cond);
    platform_mutex_done(&pause.mutex);
    return !pause.over;
}

bool retry_wait(struct retry *retry, const struct exchange *last,
    const struct retry_limits *limits)
{
    int64_t now_ms = platform_boot_ms(), delay_ms;
    int64_t until_ms =
        last->http_status == 0 && limits->unanswered_ms < limits->until_ms
            ? limits->unanswered_ms
            : limits->until_ms;

    retry_begin(retry);
    if (!retry_may_follow(retry, last))
        return false;
    delay_ms = retry_delay_ms(retry, last);
    if (until_ms - now_ms <= delay_ms ||
        !deadline_is_open(limits->deadline, now_ms + delay_ms))
        return false;
    return pause_ms(delay_ms);
}

static struct exchange exchange_before(const struct deadline *deadline)
{
    return (struct exchange){.deadline = deadline, .retry_after_ms = -1};
}

struct retry_call retry_call(
    const struct deadline *deadline, int64_t busy_ms, int64_t unanswered_ms)
{
    int64_t now_ms = platform_boot_ms();

    return (struct retry_call){.exchange = exchange_before(deadline),
        .limits = {deadline, now_ms + busy_ms, now_ms + unanswered_ms}};
}

bool retry_call_again(struct retry_call *call, enum tw_err outcome)
{
    if (outcome != TW_BUSY ||
        !retry_wait(&call->retry, &call->exchange, &call->limits))
        return false;
    call->exchange = exchange_before(call->limits.deadline);
    return true;
}
