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
    int64_t slow_worker;      /* -1: answer_ms is for all; else for this one */
    int64_t skew_s;           /* a date may be so far off; 0: as it likes    */
    int64_t answer_ms;        /* the same after it, before the answer        */
    int64_t account_limit;    /* entities/s, 0: none (the service: 20,000)   */
    int64_t partition_limit;  /* entities/s, 0: none (the service: 2,000)    */
    int64_t busy_share;       /* answered 503 or 500 whatever the limits     */
    int64_t hint_share;       /* of refusals: with Retry-After: 1             */
    int64_t empty_share;      /* of pages: no entity, but a token            */
    int64_t short_share;      /* of pages: fewer than asked for, and a token */
    int64_t keys;             /* accepted: 1 the first, 2 the second, 3 both */
    int64_t being_deleted_ms; /* a name stays locked, by the server's clock  */
};

struct gates;

/* gates_new: all open, no limits, no worker slower than others, the service's
 * own skew. Owned. */
struct gates *gates_new(void);
void gates_free(struct gates *gates);

/* gates_knobs: a copy; gates_turn: replace all. */
struct knobs gates_knobs(struct gates *gates);
void gates_turn(struct gates *gates, const struct knobs *knobs);

/* How a worker's requests are treated. */
enum gate {
    GATE_OPEN,
    GATE_HELD,  /* read, but not carried out yet: their timeouts run        */
    GATE_STUCK, /* on their way still, so the service knows nothing of them */
};

/* gates_set: those at the gate, and those that come. */
void gates_set(struct gates *gates, unsigned worker, enum gate gate);

/* gates_pass: wait for the latency, and while the gate is not open. True: the
 * request has been stuck. */
bool gates_pass(struct gates *gates, unsigned worker);

/* gates_waiting: how many requests of the worker are at its gate. */
unsigned gates_waiting(struct gates *gates, unsigned worker);

/* gates_after: wait before the answer to this worker leaves. */
void gates_after(struct gates *gates, unsigned worker);

/* gates_draw: true in share of 1000 cases, by the seed. */
bool gates_draw(struct gates *gates, int64_t share);

/* gates_below: drawn, 0..limit-1; limit > 0. */
int64_t gates_below(struct gates *gates, int64_t limit);

#endif
