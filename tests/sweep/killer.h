/* SPDX-License-Identifier: MIT */
/* A store that counts requests, delays each, and kills the process with SIGKILL
 * at one of them. Use it only on the virtual platform. */
#ifndef TW_TESTS_SWEEP_KILLER_H
#define TW_TESTS_SWEEP_KILLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/interpose.h"

enum kill_point {
    KILL_BEFORE_SEND,  /* the request never reached the store */
    KILL_AFTER_COMMIT, /* the request took effect, but this process has no
                          response */
    KILL_AFTER_ANSWER, /* the response has come, and the process has continued
                          for a moment */
    KILL_POINTS,
};

/* kill_point_name: returns "before-send", ... kill_point_named: returns false
 * if there is no such point. */
const char *kill_point_name(enum kill_point point);
bool kill_point_named(const char *name, enum kill_point *ret);

/* When to kill the process: at request number `request`; 0: never. */
struct kill_plan {
    unsigned request;
    enum kill_point point;
};

/* Results of a process, in memory that outlives it. */
struct last_words {
    unsigned requests; /* number of requests that the process has sent */
    int64_t boot_ms;   /* the clocks when the process ended */
    int64_t wall_ticks;
    bool acted; /* the front end has acted (scenario.h) */
    /* Of the operator (person.h). */
    int64_t asked_ms; /* boot clock when the run was asked to stop; 0: it was
                         not asked */
    bool resumed;     /* the run was resumed after that */
    bool stopped;     /* the run was seen paused or cancelled */
    bool over;        /* the case needs no further process */
    char why[2000];   /* what is wrong; empty: nothing */
};

struct killer {
    struct interposed outer; /* first: use &killer->outer.store */
    int64_t way_max_ms;
    struct kill_plan plan;
    struct last_words *words; /* borrowed */
    int64_t effect_ms; /* when a run that was asked to stop must have stopped */
    /* The function `signal` is called, in a thread of its own, when request
     * number signal_at is sent. */
    unsigned signal_at; /* 0: never */
    void (*signal)(void *context);
    void *signal_context;
};

/* killer_init: wraps inner, which the caller still owns. A request takes less
 * than way_max_ms (> 0) to reach the store, and so does its response. */
void killer_init(struct killer *killer, struct store *inner, int64_t way_max_ms,
    struct kill_plan plan, struct last_words *words);

/* killer_note_end: stores the clocks, so that the next process begins later. */
void killer_note_end(struct killer *killer);

#endif
