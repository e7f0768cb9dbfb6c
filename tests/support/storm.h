/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the storms. A storm makes one run for each seed; chance
 * decides which requests fail, what other writers write, and when an attempt is
 * stopped or killed.
 */
#ifndef TW_TESTS_SUPPORT_STORM_H
#define TW_TESTS_SUPPORT_STORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"

/* storm_mix: returns one step of splitmix64.
 * storm_roll: changes the dice and returns a number below `below`; 0 if below
 * is 0. */
uint64_t storm_mix(uint64_t x);
unsigned storm_roll(uint64_t *dice, unsigned below);

/* STORM_PICK: returns a random element of an array. */
#define STORM_PICK(dice, list)                                                 \
    (list)[storm_roll((dice), sizeof(list) / sizeof((list)[0]))]

/* storm_complain: writes the message to complaint, which has `size` bytes,
 * unless complaint already has one. */
void storm_complain(char *complaint, size_t size, const char *format, ...)
    TW_PRINTF(3, 4);

/*
 * storm_each_seed: calls play() for the seeds 1 to `everyday`; alone is false.
 * The environment may change this. With TABLEWARD_SEEDS=5000 the seeds are 1 to
 * 5000. With TABLEWARD_SEED=17 there is only the seed 17, and alone is true.
 */
void storm_each_seed(
    void (*play)(uint64_t seed, bool alone), uint64_t everyday);

#endif
