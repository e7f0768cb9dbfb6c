/* SPDX-License-Identifier: MIT */
/*
 * What storms share: runs of one seed each, in which chance decides what fails,
 * what others write, and where an attempt is stopped or killed.
 */
#ifndef TW_TESTS_SUPPORT_STORM_H
#define TW_TESTS_SUPPORT_STORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/hosted.h"
#include "worker/base/err.h"

/* storm_mix: one step of splitmix64. storm_roll: a number below `below`, or 0;
 * changes the dice. */
uint64_t storm_mix(uint64_t x);
unsigned storm_roll(uint64_t *dice, unsigned below);

/* STORM_PICK: one of an array. */
#define STORM_PICK(dice, list)                                                 \
    (list)[storm_roll((dice), sizeof(list) / sizeof((list)[0]))]

/* storm_complain: put what went wrong first into complaint, which has that many
 * bytes and is empty at first. */
void storm_complain(char *complaint, size_t size, const char *format, ...)
    TW_PRINTF(3, 4);

/* The newest checkpoints of a run: an attempt that is killed may have stored
 * any of them as its last, or none. */
#define STORM_SAVES_MAX 8
struct storm_saves {
    char *list[STORM_SAVES_MAX];
    unsigned count; /* so far */
};

/* storm_save: the host's checkpoint is one more. storm_forget_some: it is one
 * of them again, or NULL, as the dice say. storm_saves_done: free them. */
void storm_save(struct storm_saves *saves, const struct hosted *host);
void storm_forget_some(
    struct storm_saves *saves, struct hosted *host, uint64_t *dice);
void storm_saves_done(struct storm_saves *saves);

/*
 * storm_each_seed: play seeds 1 to everyday, or as the environment says:
 * TABLEWARD_SEEDS=5000: so many; TABLEWARD_SEED=17: only that one, and alone is
 * true.
 */
void storm_each_seed(
    void (*play)(uint64_t seed, bool alone), uint64_t everyday);

#endif
