/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints that wait: all operations before each of them have been added to
 * a batch writer, but are not completed yet. A checkpoint may be saved once
 * they are.
 */
#ifndef TW_JOBS_ENGINE_CHECKPOINT_QUEUE_H
#define TW_JOBS_ENGINE_CHECKPOINT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct run;

#define CHECKPOINT_QUEUE_MAX 32

struct queued_checkpoint {
    uint64_t sequence; /* all operations up to it must be completed */
    char *checkpoint;  /* owned */
};

/* All zero: empty. */
struct checkpoint_queue {
    struct queued_checkpoint list[CHECKPOINT_QUEUE_MAX];
    size_t count;
};

/* checkpoint_queue_add: append a checkpoint; the queue takes ownership. If the
 * queue is full, the checkpoint replaces the last one. */
void checkpoint_queue_add(struct checkpoint_queue *checkpoint_queue,
    uint64_t sequence, char *checkpoint);

/* checkpoint_queue_save: save the last checkpoint that low_water has reached,
 * as progress, and drop all up to it. */
void checkpoint_queue_save(struct checkpoint_queue *checkpoint_queue,
    struct run *run, uint64_t low_water);

/* checkpoint_queue_take: drop all checkpoints up to low_water, and return the
 * last of these. Owned; NULL: low_water has reached none. */
char *checkpoint_queue_take(
    struct checkpoint_queue *checkpoint_queue, uint64_t low_water);

/* checkpoint_queue_drop: drop all checkpoints. */
void checkpoint_queue_drop(struct checkpoint_queue *checkpoint_queue);

#endif
