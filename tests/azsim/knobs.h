/* SPDX-License-Identifier: MIT */
/*
 * The settings that a test changes while the server runs, and their effects:
 * latency, limits, pages and gates. Any thread may call any function.
 */
#ifndef TW_AZSIM_KNOBS_H
#define TW_AZSIM_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#define KNOBS_MAX_WORKERS 16

/* A share is a number of 1000: of requests, refusals or pages, as its comment
 * says. Latency and waits are in real time. */
struct knobs {
    int64_t seed;            /* of all random decisions */
    int64_t latency_ms;      /* shortest wait before a request is carried out */
    int64_t latency_more_ms; /* maximum random addition to latency_ms */
    int64_t slow_worker; /* -1: answer_ms is for all workers; else only for this
                            worker */
    int64_t skew_s;      /* maximum error of a request's date; 0: any date */
    int64_t answer_ms;   /* wait before the answer of a request is sent */
    int64_t account_limit;   /* entities/s, 0: none (the service: 20,000)   */
    int64_t partition_limit; /* entities/s, 0: none (the service: 2,000)    */
    int64_t busy_share;      /* of requests: get 503 or 500, whatever the
                                limits are */
    int64_t hint_share;      /* of refusals (503): have Retry-After: 1 */
    int64_t empty_share;     /* of pages: without an entity, but with a token */
    int64_t short_share; /* of pages: with fewer entities than requested, and a
                            token */
    int64_t keys;        /* accepted keys: 1 the first, 2 the second, 3 both */
    int64_t being_deleted_ms; /* how long the name of a deleted table or queue
                                 cannot be used */
};

struct gates;

/* gates_new: all gates are open; no limits; no slow worker; dates may differ as
 * in the service. Owned by the caller. */
struct gates *gates_new(void);
void gates_free(struct gates *gates);

/* gates_knobs: returns a copy of the settings.
 * gates_turn: replaces all settings. */
struct knobs gates_knobs(struct gates *gates);
void gates_turn(struct gates *gates, const struct knobs *knobs);

/* How a worker's requests are treated. */
enum gate {
    GATE_OPEN,
    GATE_HELD,  /* requests were read, but are not carried out yet; their
                   timeouts run */
    GATE_STUCK, /* requests are still on their way: the service does not know
                   them */
};

/* gates_set: sets the gate of a worker, also for the requests that wait
 * there. */
void gates_set(struct gates *gates, unsigned worker, enum gate gate);

/* gates_pass: waits for the latency, and then until the gate is open. True:
 * meanwhile the gate was GATE_STUCK. */
bool gates_pass(struct gates *gates, unsigned worker);

/* gates_waiting: returns the number of the worker's requests at its gate. */
unsigned gates_waiting(struct gates *gates, unsigned worker);

/* gates_after: waits answer_ms before the answer to this worker is sent. */
void gates_after(struct gates *gates, unsigned worker);

/* gates_draw: returns true in `share` of 1000 cases, at random by the seed. */
bool gates_draw(struct gates *gates, int64_t share);

/* gates_below: returns a random number from 0 to limit-1; limit > 0. */
int64_t gates_below(struct gates *gates, int64_t limit);

#endif
