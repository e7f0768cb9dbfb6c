/* SPDX-License-Identifier: MIT */
/*
 * Places in a pass up to which everything has been handed to a flow, but is
 * not settled yet. Each comes with the checkpoint that may be saved once it is.
 */
#ifndef TW_JOBS_ENGINE_MILESTONES_H
#define TW_JOBS_ENGINE_MILESTONES_H

#include <stddef.h>
#include <stdint.h>

struct run;

#define MILESTONES_MAX 32

struct milestone {
    uint64_t ticket;  /* settled up to here: the place is reached */
    char *checkpoint; /* owned */
};

/* All zero: none. */
struct milestones {
    struct milestone list[MILESTONES_MAX];
    size_t count;
};

/* milestones_add: the newest one; where there is no room it takes the place of
 * the one before it. checkpoint is taken. */
void milestones_add(
    struct milestones *milestones, uint64_t ticket, char *checkpoint);

/* milestones_save: hand over, as progress, the last one that low_water has
 * reached, and drop all up to it. */
void milestones_save(
    struct milestones *milestones, struct run *run, uint64_t low_water);

/* milestones_take: drop all up to low_water, and return the checkpoint of the
 * last of these. Owned; NULL: none is reached. */
char *milestones_take(struct milestones *milestones, uint64_t low_water);

/* milestones_drop: all of them. */
void milestones_drop(struct milestones *milestones);

#endif
