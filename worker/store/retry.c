/* SPDX-License-Identifier: MIT */
/* When a storage call is made again. */
#include "worker/store/retry.h"

#include "worker/base/world.h"
#include "worker/store/fence.h"
#include "worker/store/pace.h"
#include "worker/store/store.h"

bool retry_is_throttled(const struct attempt *last)
{
    return last->http_status == 429 || last->http_status == 503;
}

void retry_begin(struct retry *retry)
{
    retry->tries++;
}

bool retry_may_follow(struct retry *retry, const struct attempt *last)
{
    retry->throttled += retry_is_throttled(last);
    return retry->tries - retry->throttled < PACE_TRIES;
}

int64_t retry_delay_ms(const struct retry *retry, const struct attempt *last)
{
    uint64_t random;

    world_random(&random, sizeof(random));
    return pace_delay_ms(retry->tries, random, last->retry_after_ms);
}

static void pause_ms(int64_t ms)
{
    int64_t until_ms = world_boot_ms() + ms;
    struct world_mutex mutex;
    struct world_cond cond;

    world_mutex_init(&mutex);
    world_cond_init(&cond);
    world_lock(&mutex);
    while (world_wait(&cond, &mutex, until_ms))
        continue;
    world_unlock(&mutex);
    world_cond_done(&cond);
    world_mutex_done(&mutex);
}

bool retry_wait(struct retry *retry, const struct attempt *last,
    const struct retry_limits *limits)
{
    int64_t now_ms = world_boot_ms(), delay_ms;
    int64_t until_ms =
        last->http_status == 0 && limits->unanswered_ms < limits->until_ms
            ? limits->unanswered_ms
            : limits->until_ms;

    retry_begin(retry);
    if (!retry_may_follow(retry, last))
        return false;
    delay_ms = retry_delay_ms(retry, last);
    if (until_ms - now_ms < delay_ms ||
        !fence_open(limits->fence, now_ms + delay_ms))
        return false;
    pause_ms(delay_ms);
    return true;
}
