/* SPDX-License-Identifier: MIT */
/*
 * How fast, and when again: pure arithmetic. A window of requests in flight
 * rises by one for each round of successes and halves when the service says
 * that it is busy; a retry waits a random time below a doubling limit, or as
 * long as the server asks.
 */
#ifndef TW_STORE_PACE_H
#define TW_STORE_PACE_H

#include <stdint.h>

#define PACE_TRIES 7
#define PACE_BASE_MS 800
#define PACE_CAP_MS 6400

struct pace_window {
    unsigned limit; /* may be in flight at once, 1 .. ceiling */
    unsigned ceiling;
    unsigned in_flight;
    unsigned successes; /* since the limit last moved */
    int64_t halved_ms;  /* when it was last halved: once per round only */
};

void pace_window_init(struct pace_window *window, unsigned ceiling);
void pace_started(struct pace_window *window);
/* pace_ended: busy: throttled or timed out. started_ms, now_ms: boot clock. */
void pace_ended(
    struct pace_window *window, int busy, int64_t started_ms, int64_t now_ms);

/*
 * pace_delay_ms: how long to wait before try number `tries`+1 (tries >= 1).
 * random: uniform 64 bits. hint_ms: the server's, -1 none; it wins.
 */
int64_t pace_delay_ms(unsigned tries, uint64_t random, int64_t hint_ms);

#endif
