/* SPDX-License-Identifier: MIT */
/* Checkpoints that wait until the operations before them are completed. */
#include "jobs/engine/checkpoint_queue.h"

#include <string.h>

#include "jobs/engine/run.h"
#include "worker/base/mem.h"

void checkpoint_queue_add(struct checkpoint_queue *checkpoint_queue,
    uint64_t sequence, char *checkpoint)
{
    struct queued_checkpoint *queued_checkpoint;

    if (checkpoint_queue->count == CHECKPOINT_QUEUE_MAX) {
        queued_checkpoint = &checkpoint_queue->list[CHECKPOINT_QUEUE_MAX - 1];
        mem_free(queued_checkpoint->checkpoint);
    } else {
        queued_checkpoint = &checkpoint_queue->list[checkpoint_queue->count++];
    }
    queued_checkpoint->sequence = sequence;
    queued_checkpoint->checkpoint = checkpoint;
}

static void drop_first(struct checkpoint_queue *checkpoint_queue, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(checkpoint_queue->list[i].checkpoint);
    checkpoint_queue->count -= count;
    memmove(checkpoint_queue->list, checkpoint_queue->list + count,
        checkpoint_queue->count * sizeof(checkpoint_queue->list[0]));
}

char *checkpoint_queue_take(
    struct checkpoint_queue *checkpoint_queue, uint64_t low_water)
{
    size_t reached = 0;
    char *checkpoint;

    while (reached < checkpoint_queue->count &&
           checkpoint_queue->list[reached].sequence <= low_water)
        reached++;
    if (reached == 0)
        return NULL;
    checkpoint = checkpoint_queue->list[reached - 1].checkpoint;
    checkpoint_queue->list[reached - 1].checkpoint = NULL;
    drop_first(checkpoint_queue, reached);
    return checkpoint;
}

void checkpoint_queue_save(struct checkpoint_queue *checkpoint_queue,
    struct run *run, uint64_t low_water)
{
    char *checkpoint = checkpoint_queue_take(checkpoint_queue, low_water);

    if (!checkpoint)
        return;
    run->callbacks->save(run, slice_of(checkpoint), true);
    mem_free(checkpoint);
}

void checkpoint_queue_drop(struct checkpoint_queue *checkpoint_queue)
{
    drop_first(checkpoint_queue, checkpoint_queue->count);
}
