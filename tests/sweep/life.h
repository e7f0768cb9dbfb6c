/* SPDX-License-Identifier: MIT */
/* One life of a worker: from the opening of its file to the end of its queue,
 * or to the request at which it is killed. In a forked process of its own. */
#ifndef TW_TESTS_SWEEP_LIFE_H
#define TW_TESTS_SWEEP_LIFE_H

#include <stdint.h>

#include "tests/sweep/killer.h"
#include "tests/sweep/scenario.h"

/* The first life begins at these clocks. */
#define LIFE_FIRST_MS ((int64_t)1000000)
#define LIFE_FIRST_TICKS (TICKS_1970 + (int64_t)1800000000 * TICKS_PER_S)

struct life {
    const struct scenario *scenario;
    const struct stage *stage;
    const char *folder; /* of the file and the archive */
    uint64_t seed;
    int64_t boot_ms, wall_ticks;
    struct kill_plan plan;
    unsigned number;  /* lives before this one */
    unsigned killed;  /* of them, so many were killed */
    unsigned asks_at; /* request at which the person asks; 0: at none */
    bool aloud;       /* lines on standard error */
    struct last_words *words;
};

/* life_prepare: make the file of a scenario in folder: its stage's tables,
 * entities and messages. Ends the process where that fails. */
void life_prepare(
    const struct scenario *scenario, struct stage *stage, const char *folder);

/* life_live: 0: it came to its end and all was well; else words->why. Does not
 * return where the plan comes true. */
int life_live(const struct life *life);

#endif
