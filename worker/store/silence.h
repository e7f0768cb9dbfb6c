/* SPDX-License-Identifier: MIT */
/*
 * Whether a store is silent: requests of runs are in flight, and no response
 * comes. The store accepts or drops connections and never responds. Each such
 * request occupies the worker thread of its run for as long as a request may
 * take, so a few of them would occupy every thread of a worker.
 *
 * - If a store has not responded within the last ten seconds (or ever), one
 *   request is sent. Further requests wait for the response to that request,
 *   for at most a second.
 * - A store is silent when no response has come for ten seconds, and requests
 *   have been in flight for at least a second and at least three times the
 *   store's slowest response time. So a slow store is not taken for a silent
 *   one. Further requests are refused. Requests in flight are given up, except
 *   one (request_pool.c), which may take its whole time.
 * - When the last request in flight ended without a response, requests are
 *   refused for as long as that request took, at least five seconds. So a
 *   silent store occupies half of one worker thread if many runs need the
 *   store, less if few do.
 *
 * The first response ends all of this. A refused or reset connection is not
 * silence; the circuit breaker counts such failures.
 *
 * If a store responds but serves nothing (busy, errors, a proxy that cannot
 * reach it) for ten responses and ten seconds, it is useless to runs. After
 * each further response that serves nothing, requests are refused for five
 * seconds. A served request ends this.
 */
#ifndef TW_STORE_SILENCE_H
#define TW_STORE_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* A store that responded within this time is not silent: Azure responds to a
 * query within five seconds, with a continuation if need be. */
#define SILENCE_LATELY_MS 10000
/* A store may be silent only after this time without a response. It is below a
 * second, because a request in flight checks this once a second. */
#define SILENCE_FIRST_MS 900
/* A store may be silent only after this multiple of its slowest response
 * time. */
#define SILENCE_SLOWER 3
#define SILENCE_PAUSE_MIN_MS 5000
/* A store is useless after this many responses in a row that serve nothing. A
 * store that refuses half of its requests at random refuses this number in a
 * row once in a thousand. */
#define SILENCE_USELESS 10
/* A request's duration counts as at most this maximum (deadline.h): while the
 * machine is suspended or the process is stopped, the clock may advance by
 * hours. */
#define SILENCE_TOOK_MAX_MS 35000

/* All zero: nothing is known. All times are on platform_boot_ms(). */
struct silence {
    unsigned in_flight;
    int64_t quiet_ms;     /* since when requests have been in flight without a
                             response */
    int64_t responded_ms; /* time of the last response; 0: none */
    int64_t slowest_ms;   /* slowest response time; older responses count
                             less */
    int64_t refused_until_ms;
    int64_t lasted_ms;  /* duration of the last request without a response */
    unsigned useless;   /* number of responses since the last served request */
    int64_t useless_ms; /* time of the first response counted in useless */
    int64_t useless_until_ms;
};

/* What the end of a request shows about the store; UNTOLD: nothing. */
enum silence_end { SILENCE_RESPONSE, SILENCE_NO_RESPONSE, SILENCE_UNTOLD };

/* silence_wait_ms: return the time until the next request may be sent or is
 * refused; 0: now. */
int64_t silence_wait_ms(const struct silence *silence, int64_t now_ms);

/* silence_refuses: is a request refused now? *ret: for how long the store has
 * given no response, or has served no request, ms. */
bool silence_refuses(
    const struct silence *silence, int64_t now_ms, int64_t *ret);

/* Call silence_begin when a request is sent, silence_end when that request has
 * ended (left_ms: when it was sent), silence_move when a part of a response has
 * arrived. */
void silence_begin(struct silence *silence, int64_t now_ms);
void silence_end(struct silence *silence, int64_t now_ms, int64_t left_ms,
    enum silence_end end);
void silence_move(struct silence *silence, int64_t now_ms);

/* silence_note_served: call when a response has come; served: the request was
 * served. silence_is_useless: has the store served no request for
 * SILENCE_LATELY_MS and at least SILENCE_USELESS responses? */
void silence_note_served(struct silence *silence, int64_t now_ms, bool served);
bool silence_is_useless(const struct silence *silence, int64_t now_ms);

/* silence_is_silent: may all requests in flight but one be given up? */
bool silence_is_silent(const struct silence *silence, int64_t now_ms);

#endif
