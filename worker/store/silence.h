/* SPDX-License-Identifier: MIT */
/*
 * Whether a store is silent: requests of runs are in flight, and no response
 * comes. The store accepts or drops connections and never responds. Each such
 * request occupies the worker thread of its run for as long as a request may
 * take, so a few of them would occupy every thread of a worker.
 *
 * - If a store has not responded within the last ten seconds (or ever), one
 *   request is sent. Further ones wait for its response, at most a second.
 * - A store is silent when no response has come for ten seconds, and for a
 *   second since a request was sent, and for three times its slowest response
 *   time: a slow store is not silent. Further requests are refused. Those in
 *   flight are given up, except one (request_pool.c), which may take its whole
 *   time.
 * - When the last request in flight ended without a response, requests are
 *   refused for as long as it took, at least five seconds. So a silent store
 *   occupies half of one worker thread if many runs need it, less if few do.
 *
 * The first response ends all of this. A refused or reset connection is not
 * silence: the circuit breaker counts those.
 *
 * If a store responds but serves nothing (busy, errors, a proxy that cannot
 * reach it) for ten responses and ten seconds, runs cannot use it: after each
 * such response requests are refused for five seconds, until one is served.
 */
#ifndef TW_STORE_SILENCE_H
#define TW_STORE_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Azure responds to a query within five seconds, with a continuation. */
#define SILENCE_LATELY_MS 10000
#define SILENCE_FIRST_MS 900 /* requests in flight check once a second */
/* A store is silent only after this multiple of its slowest response time. */
#define SILENCE_SLOWER 3
#define SILENCE_PAUSE_MIN_MS 5000
/* A store that refuses half of its requests at random refuses this many in a
 * row once in a thousand. */
#define SILENCE_USELESS 10
/* Maximum duration of a request (deadline.h). The clock may advance by hours
 * meanwhile, while the machine is suspended or the process is stopped. */
#define SILENCE_TOOK_MAX_MS 35000

/* All zero: nothing is known. All times are on platform_boot_ms(). */
struct silence {
    unsigned in_flight;
    int64_t quiet_ms; /* since then requests are in flight without a response */
    int64_t responded_ms; /* time of the last response; 0: none */
    int64_t slowest_ms;   /* slowest response time; old ones count less */
    int64_t refused_until_ms;
    int64_t lasted_ms;  /* duration of the last request without a response */
    unsigned useless;   /* responses since the last served request ... */
    int64_t useless_ms; /* ... and the time of the first of them */
    int64_t useless_until_ms;
};

/* What the end of a request shows about the store; UNTOLD: nothing. */
enum silence_end { SILENCE_RESPONSE, SILENCE_NO_RESPONSE, SILENCE_UNTOLD };

/* silence_wait_ms: time until the next request may be sent, or is refused; 0:
 * now. */
int64_t silence_wait_ms(const struct silence *silence, int64_t now_ms);

/* silence_refuses: is a request refused now? *ret: time without a response,
 * ms. */
bool silence_refuses(
    const struct silence *silence, int64_t now_ms, int64_t *ret);

/* silence_begin: a request is sent. silence_end: it has ended. silence_move: a
 * part of a response has arrived. */
void silence_begin(struct silence *silence, int64_t now_ms);
void silence_end(struct silence *silence, int64_t now_ms, int64_t left_ms,
    enum silence_end end);
void silence_move(struct silence *silence, int64_t now_ms);

/* silence_note_served: a response has come, which served or did not.
 * silence_is_useless: no request was served for SILENCE_LATELY_MS. */
void silence_note_served(struct silence *silence, int64_t now_ms, bool served);
bool silence_is_useless(const struct silence *silence, int64_t now_ms);

/* silence_is_silent: may all requests in flight but one be given up? */
bool silence_is_silent(const struct silence *silence, int64_t now_ms);

#endif
