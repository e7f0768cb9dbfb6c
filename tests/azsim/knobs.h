/* SPDX-License-Identifier: MIT */
/*
 * What a test sets while the server runs, and what follows from it: latency,
 * limits, pages, gates. Any call may be made from any thread.
 */
#ifndef TW_AZSIM_KNOBS_H
#define TW_AZSIM_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#define KNOBS_MAX_WORKERS 16

/* Shares are of 1000. */
struct knobs {
    int64_t seed;             /* of all that is drawn                        */
    int64_t latency_ms;       /* at least, in real time, before the effect   */
    int64_t latency_more_ms;  /* and up to so much more                      */
    int64_t answer_ms;        /* the same after it, before the answer        */
    int64_t account_limit;    /* entities/s, 0: none (the service: 20,000)   */
    int64_t partition_limit;  /* entities/s, 0: none (the service: 2,000)    */
    int64_t busy_share;       /* answered 503 or 500 whatever the limits     */
    int64_t empty_share;      /* of pages: no entity, but a token            */
    int64_t short_share;      /* of pages: fewer than asked for, and a token */
    int64_t being_deleted_ms; /* a name stays locked, by the server's clock  */
};

struct gates;

/* gates_new: all open, the service's own limits switched off. Owned. */
struct gates *gates_new(void);
void gates_free(struct gates *gates);

/* gates_knobs: a copy; gates_turn: replace all. */
struct knobs gates_knobs(struct gates *gates);
void gates_turn(struct gates *gates, const struct knobs *knobs);

/* gates_hold: requests of this worker wait at the gate, read but not carried
 * out, until they are let go. */
void gates_hold(struct gates *gates, unsigned worker, bool held);

/* gates_pass: wait for the latency, and while the worker's requests are held.
 */
void gates_pass(struct gates *gates, unsigned worker);

/* gates_waiting: how many requests of the worker are held at the gate. */
unsigned gates_waiting(struct gates *gates, unsigned worker);

/* gates_after: wait before the answer leaves. */
void gates_after(struct gates *gates);

/* gates_draw: true in share of 1000 cases, by the seed. */
bool gates_draw(struct gates *gates, int64_t share);

/* gates_below: drawn, 0..limit-1; limit > 0. */
int64_t gates_below(struct gates *gates, int64_t limit);

#endif
