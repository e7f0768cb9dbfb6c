/* SPDX-License-Identifier: MIT */
/*
 * Front ends: processes that send requests to the service, each at its own
 * pace. The kind decides what a front end does; here is what all of them have
 * in common.
 */
#ifndef TW_TESTS_SIMULATE_FRONT_H
#define TW_TESTS_SIMULATE_FRONT_H

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct entity;
struct sim;

#define FRONT_PAUSES 4

/* The front ends of a kind; the functions get the kind's state. */
struct front {
    void (*act)(void *state); /* one action of a front end */

    /* last (or NULL): called when the last front end is about to stop. */
    void (*last)(void *state);

    unsigned acts; /* each front end makes at least 5 actions and less than 5 +
                      `acts` */
    unsigned pauses_ms[FRONT_PAUSES]; /* limits of a pause; each front end uses
                                         one of them */
};

/* front_start: starts one or several front ends of the kind. Each stops by
 * itself. */
void front_start(struct sim *sim);

/* front_thinks: sleeps up to most_ms, or only lets other threads run. */
void front_thinks(unsigned most_ms);

/* front_sets_bystanders: sets random properties of all types. large, small:
 * names of the Int64 and the Int32 property. */
void front_sets_bystanders(struct arena *arena, struct entity *entity,
    const char *large, const char *small);

/* front_asks: requests a run with the argument `what`, with an id or without
 * one; sometimes twice, as if the first response was lost. */
void front_asks(struct sim *sim, const char *what);

#endif
