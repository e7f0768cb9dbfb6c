/* SPDX-License-Identifier: MIT */
/*
 * Whether a store is silent: requests of runs are in flight to it, and no
 * response comes. It accepts connections, or drops them, and never answers.
 * Each such request occupies the slot of its run for as long as a request may
 * take, so that a few of them would occupy every slot of a worker.
 *
 * - To a store that has not responded within the last ten seconds (or never)
 *   one request leaves. The next ones wait for its response, a second at most.
 * - A store is silent when no response has come for ten seconds, and for a
 *   second since a request left, and for three times as long as its slowest
 *   response took: a store that is slow is not silent. Further requests are
 *   refused. Those in flight are given up, except one (request threads.c),
 * which may take its whole time.
 * - Where the last request in flight ended without a response, requests are
 *   refused for as long as it took, five seconds at least. So a silent store
 *   occupies half of one slot, where many runs need it, and less where few do.
 *
 * The first response ends all of this. A connection that is refused or reset at
 * once is no silence: the circuit breaker counts those.
 *
 * A store that responds, but serves nothing (it is busy, it fails, its proxy
 * has lost it), ten times and for ten seconds, is no more use to its runs:
 * after each such response requests are refused for five seconds, until one is
 * served.
 */
#ifndef TW_STORE_SILENCE_H
#define TW_STORE_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Azure responds to a query within five seconds, with a continuation. */
#define SILENCE_LATELY_MS 10000
#define SILENCE_FIRST_MS 900 /* requests in flight ask once a second */
/* A slow store may take so many times what it took before. */
#define SILENCE_SLOWER 3
#define SILENCE_PAUSE_MIN_MS 5000
/* Of a store that refuses half of its requests one in a thousand has so many
 * refusals behind it. */
#define SILENCE_USELESS 10
/* No request takes longer (deadline.h); the clock may go on by hours meanwhile,
 * while the machine is suspended or the process is stopped. */
#define SILENCE_TOOK_MAX_MS 35000

/* All zero: nothing is known. All times are on platform_boot_ms(). */
struct silence {
    unsigned in_flight;
    int64_t quiet_ms;     /* since then requests are in flight, and no response
                             has come */
    int64_t responded_ms; /* the last response; 0: none */
    int64_t slowest_ms;   /* of the responses; old ones count less */
    int64_t refused_until_ms;
    int64_t lasted_ms;  /* how long the request took that ended so */
    unsigned useless;   /* responses since it served a request ... */
    int64_t useless_ms; /* ... and when the first of them came */
    int64_t useless_until_ms;
};

/* What the end of a request tells about the store. */
enum silence_end { SILENCE_RESPONSE, SILENCE_NO_RESPONSE, SILENCE_UNTOLD };

/* silence_wait_ms: how long until the next request may leave, or is refused; 0:
 * now. */
int64_t silence_wait_ms(const struct silence *silence, int64_t now_ms);

/* silence_refuses: is a request refused now? *ret: no response for how long. */
bool silence_refuses(
    const struct silence *silence, int64_t now_ms, int64_t *ret);

/* silence_begin: a request leaves. silence_end: it has ended. silence_move:
 * a part of a response has come. */
void silence_begin(struct silence *silence, int64_t now_ms);
void silence_end(struct silence *silence, int64_t now_ms, int64_t left_ms,
    enum silence_end end);
void silence_move(struct silence *silence, int64_t now_ms);

/* silence_note_served: a response, of use or not. silence_is_useless: none of
 * use has come for long. */
void silence_note_served(struct silence *silence, int64_t now_ms, bool served);
bool silence_is_useless(const struct silence *silence, int64_t now_ms);

/* silence_is_silent: may all requests in flight but one be given up? */
bool silence_is_silent(const struct silence *silence, int64_t now_ms);

#endif
