/* SPDX-License-Identifier: MIT */
/* A store that counts requests, lets each take a while, and kills the process
 * with SIGKILL at one of them. Only inside a virtual world. */
#ifndef TW_TESTS_SWEEP_KILLER_H
#define TW_TESTS_SWEEP_KILLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/interpose.h"

enum kill_point {
    KILL_BEFORE_SEND,  /* it never reached the store                        */
    KILL_AFTER_COMMIT, /* it took effect; nobody here knows                 */
    KILL_AFTER_ANSWER, /* its answer has come, and some of what follows it  */
    KILL_POINTS,
};

/* "before-send", ...; kill_point_named: false: no such point. */
const char *kill_point_name(enum kill_point point);
bool kill_point_named(const char *name, enum kill_point *ret);

/* When to die: at the request-th request; 0: never. */
struct kill_plan {
    unsigned request;
    enum kill_point point;
};

/* Where a life leaves word, in memory that outlives it. */
struct last_words {
    unsigned requests; /* so far */
    int64_t boot_ms;   /* the clocks when it ended */
    int64_t wall_ticks;
    bool acted; /* the front end has: see scenario.h */
    /* Of a person: see person.h. */
    int64_t asked_ms; /* boot clock: when the run was asked to stop; 0: it was
                         not */
    bool resumed;     /* ... and was resumed */
    bool stopped;     /* the run was seen paused or cancelled */
    bool over;        /* the case needs no further life */
    char why[2000];   /* what was wrong; empty: nothing */
};

struct killer {
    struct interposed outer; /* first: use &killer->outer.store */
    int64_t way_max_ms;
    struct kill_plan plan;
    struct last_words *words; /* borrowed */
    int64_t effect_ms; /* when a run that was asked to stop must have stopped */
    /* Called in a thread of its own when request signal_at sets out. */
    unsigned signal_at; /* 0: never */
    void (*signal)(void *context);
    void *signal_context;
};

/* killer_init: wrap inner, which stays the caller's. A request takes less than
 * way_max_ms (> 0) to get there, and so does its answer. */
void killer_init(struct killer *killer, struct store *inner, int64_t way_max_ms,
    struct kill_plan plan, struct last_words *words);

/* killer_note_end: what the clocks say now, for who comes after. */
void killer_note_end(struct killer *killer);

#endif
