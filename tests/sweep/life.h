/* SPDX-License-Identifier: MIT */
/* A life is one worker process: it opens the store's file, and works until the
 * queue is empty or until the request at which it is killed. Each life is a
 * forked process. */
#ifndef TW_TESTS_SWEEP_LIFE_H
#define TW_TESTS_SWEEP_LIFE_H

#include <stdint.h>

#include "tests/sweep/killer.h"
#include "tests/sweep/scenario.h"

/* The clocks at which the first process begins. */
#define LIFE_FIRST_MS ((int64_t)1000000)
#define LIFE_FIRST_TICKS (TICKS_1970 + (int64_t)1800000000 * TICKS_PER_S)

struct life {
    const struct scenario *scenario;
    const struct stage *stage;
    const char *folder; /* folder of the store's file and of the archive */
    uint64_t seed;
    int64_t boot_ms, wall_ticks;
    struct kill_plan plan;
    unsigned number;  /* number of processes of this case before this one */
    unsigned killed;  /* number of these that were killed */
    unsigned asks_at; /* request at which the operator asks (person.h); 0: at
                         none */
    bool aloud;       /* write log lines to standard error */
    struct last_words *words;
};

/* life_prepare: create the store of a scenario in folder, with the tables,
 * entities and messages of the stage. If this fails, exits. */
void life_prepare(
    const struct scenario *scenario, struct stage *stage, const char *folder);

/* life_live: runs a worker. 0: it ended as it must; 1: words->why says what is
 * wrong. Does not return if the worker is killed. */
int life_live(const struct life *life);

#endif
