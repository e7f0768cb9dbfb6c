/* SPDX-License-Identifier: MIT */
/*
 * Front ends: processes that act at the service, each at a pace of its own.
 * What one of them does is the kind's business; here is what all have in
 * common.
 */
#ifndef TW_TESTS_SIMULATE_FRONT_H
#define TW_TESTS_SIMULATE_FRONT_H

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct entity;
struct sim;

#define FRONT_PAUSES 4

/* The front ends of a kind, whose state they get. */
struct front {
    void (*act)(void *state); /* one thing that a front end does */

    /* last (NULL: nothing): before the last of them goes home. */
    void (*last)(void *state);

    unsigned acts; /* of each: five, and less than so many more */
    unsigned pauses_ms[FRONT_PAUSES]; /* its pauses are shorter than one */
};

/* front_start: one or some of those of the kind; each stops by itself in the
 * end. */
void front_start(struct sim *sim);

/* front_thinks: less than most_ms, or just long enough for others. */
void front_thinks(unsigned most_ms);

/* front_sets_bystanders: some properties, of all types. large, small: the names
 * of an Int64 and an Int32. */
void front_sets_bystanders(struct arena *arena, struct entity *entity,
    const char *large, const char *small);

/* front_asks: for a run with that argument, once, or twice because no answer
 * came; with an id or without. */
void front_asks(struct sim *sim, const char *what);

#endif
