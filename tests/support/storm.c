/* SPDX-License-Identifier: MIT */
/* Random numbers, checkpoints and seeds of storms: see storm.h. */
#include "tests/support/storm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

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

void storm_save(struct storm_saves *saves, const struct hosted *host)
{
    char **at = &saves->list[saves->count++ % STORM_SAVES_MAX];

    mem_free(*at);
    *at = mem_format("%s", host->checkpoint);
}

void storm_forget_some(
    struct storm_saves *saves, struct hosted *host, uint64_t *dice)
{
    unsigned newest =
        saves->count < STORM_SAVES_MAX ? saves->count : STORM_SAVES_MAX;
    unsigned back = storm_roll(dice, newest + newest / 2 + 2);

    mem_free(host->checkpoint);
    host->checkpoint = NULL;
    if (back < newest)
        host->checkpoint = mem_format(
            "%s", saves->list[(saves->count - 1 - back) % STORM_SAVES_MAX]);
}

void storm_saves_done(struct storm_saves *saves)
{
    for (size_t i = 0; i < STORM_SAVES_MAX; i++)
        mem_free(saves->list[i]);
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
