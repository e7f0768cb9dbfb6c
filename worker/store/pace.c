/* SPDX-License-Identifier: MIT */
/* How fast, and when again: windows of requests in flight, and back-off. */
#include "worker/store/pace.h"

/* A window opens at a quarter of its ceiling, so that a short run is not slow
 * and a throttled account is not met with everything at once. */
#define PACE_FIRST_SHARE 4
#define PACE_FIRST_MIN 4

/* A server that asks for more than this is taken to mean this. */
#define PACE_HINT_MAX_MS (60 * 60 * 1000)

void pace_window_init(struct pace_window *window, unsigned ceiling)
{
    unsigned first = ceiling / PACE_FIRST_SHARE;

    if (first < PACE_FIRST_MIN)
        first = PACE_FIRST_MIN;
    *window = (struct pace_window){
        .limit = first < ceiling ? first : ceiling,
        .ceiling = ceiling,
        .halved_ms = INT64_MIN,
    };
}

void pace_started(struct pace_window *window)
{
    window->in_flight++;
}

static void halve(struct pace_window *window, int64_t now_ms)
{
    window->limit = window->limit > 1 ? window->limit / 2 : 1;
    window->successes = 0;
    window->halved_ms = now_ms;
}

static void succeed(struct pace_window *window)
{
    if (++window->successes < window->limit)
        return;
    window->successes = 0;
    if (window->limit < window->ceiling)
        window->limit++;
}

void pace_ended(
    struct pace_window *window, int busy, int64_t started_ms, int64_t now_ms)
{
    window->in_flight--;
    if (!busy)
        succeed(window);
    else if (started_ms > window->halved_ms)
        halve(window, now_ms);
}

int64_t pace_delay_ms(unsigned tries, uint64_t random, int64_t hint_ms)
{
    int64_t limit_ms = PACE_BASE_MS;

    if (hint_ms >= 0)
        return hint_ms < PACE_HINT_MAX_MS ? hint_ms : PACE_HINT_MAX_MS;
    while (tries-- > 1 && limit_ms < PACE_CAP_MS)
        limit_ms *= 2;
    if (limit_ms > PACE_CAP_MS)
        limit_ms = PACE_CAP_MS;
    return (int64_t)(random % (uint64_t)(limit_ms + 1));
}
