/* SPDX-License-Identifier: MIT */
/*
 * Places in a pass up to which everything has been handed to a batch writer,
 * but is not settled yet. Each comes with the checkpoint that may be saved once
 * it is.
 */
#ifndef TW_JOBS_ENGINE_CHECKPOINT_QUEUE_H
#define TW_JOBS_ENGINE_CHECKPOINT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct run;

#define CHECKPOINT_QUEUE_MAX 32

struct queued_checkpoint {
    uint64_t sequence; /* settled up to here: the place is reached */
    char *checkpoint;  /* owned */
};

/* All zero: none. */
struct checkpoint_queue {
    struct queued_checkpoint list[CHECKPOINT_QUEUE_MAX];
    size_t count;
};

/* checkpoint_queue_add: the newest one; where there is no room it takes the
 * place of the one before it. checkpoint is taken. */
void checkpoint_queue_add(struct checkpoint_queue *checkpoint_queue,
    uint64_t sequence, char *checkpoint);

/* checkpoint_queue_save: hand over, as progress, the last one that low_water
 * has reached, and drop all up to it. */
void checkpoint_queue_save(struct checkpoint_queue *checkpoint_queue,
    struct run *run, uint64_t low_water);

/* checkpoint_queue_take: drop all up to low_water, and return the checkpoint of
 * the last of these. Owned; NULL: none is reached. */
char *checkpoint_queue_take(
    struct checkpoint_queue *checkpoint_queue, uint64_t low_water);

/* checkpoint_queue_drop: all of them. */
void checkpoint_queue_drop(struct checkpoint_queue *checkpoint_queue);

#endif
