/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints that wait to be saved. The operations before a checkpoint have
 * been added to a batch writer; the checkpoint may be saved once all of them
 * are completed.
 */
#ifndef TW_JOBS_ENGINE_CHECKPOINT_QUEUE_H
#define TW_JOBS_ENGINE_CHECKPOINT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct run;

#define CHECKPOINT_QUEUE_MAX 32

struct queued_checkpoint {
    uint64_t sequence; /* the checkpoint may be saved once all operations up to
                        * this sequence number are completed */
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

/* checkpoint_queue_save: save the last checkpoint whose sequence is at most
 * low_water; the run then counts as advanced. Drop this checkpoint and all
 * before it. */
void checkpoint_queue_save(struct checkpoint_queue *checkpoint_queue,
    struct run *run, uint64_t low_water);

/* checkpoint_queue_take: drop all checkpoints whose sequence is at most
 * low_water, and return the last of these, owned by the caller, or NULL if
 * there was none. */
char *checkpoint_queue_take(
    struct checkpoint_queue *checkpoint_queue, uint64_t low_water);

/* checkpoint_queue_drop: drop all checkpoints. */
void checkpoint_queue_drop(struct checkpoint_queue *checkpoint_queue);

#endif
