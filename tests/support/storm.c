/* SPDX-License-Identifier: MIT */
/* Random numbers and seeds of storms: see storm.h. */
#include "tests/support/storm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/base/hash.h"

uint64_t storm_mix(uint64_t x)
{
    return hash_mix(x + UINT64_C(0x9e3779b97f4a7c15));
}

unsigned storm_roll(uint64_t *dice, unsigned below)
{
    *dice = storm_mix(*dice);
    return below > 0 ? (unsigned)(*dice % below) : 0;
}

void storm_complain(char *complaint, size_t size, const char *format, ...)
{
    va_list args;

    if (complaint[0])
        return;
    va_start(args, format);
    (void)vsnprintf(complaint, size, format, args);
    va_end(args);
}

void storm_each_seed(void (*play)(uint64_t seed, bool alone), uint64_t everyday)
{
    const char *one = getenv("TABLEWARD_SEED");
    const char *many = getenv("TABLEWARD_SEEDS");
    uint64_t seeds = many ? strtoull(many, NULL, 10) : everyday;

    if (one) {
        play(strtoull(one, NULL, 10), true);
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++)
        play(seed, false);
}
