/* SPDX-License-Identifier: MIT */
/* What a flow has still to settle before a checkpoint may be saved. */
#include "jobs/engine/milestones.h"

#include <string.h>

#include "jobs/engine/run.h"
#include "worker/base/mem.h"

void milestones_add(
    struct milestones *milestones, uint64_t ticket, char *checkpoint)
{
    struct milestone *milestone;

    if (milestones->count == MILESTONES_MAX) {
        milestone = &milestones->list[MILESTONES_MAX - 1];
        mem_free(milestone->checkpoint);
    } else {
        milestone = &milestones->list[milestones->count++];
    }
    milestone->ticket = ticket;
    milestone->checkpoint = checkpoint;
}

static void drop_first(struct milestones *milestones, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(milestones->list[i].checkpoint);
    milestones->count -= count;
    memmove(milestones->list, milestones->list + count,
        milestones->count * sizeof(milestones->list[0]));
}

char *milestones_take(struct milestones *milestones, uint64_t low_water)
{
    size_t reached = 0;
    char *checkpoint;

    while (reached < milestones->count &&
           milestones->list[reached].ticket <= low_water)
        reached++;
    if (reached == 0)
        return NULL;
    checkpoint = milestones->list[reached - 1].checkpoint;
    milestones->list[reached - 1].checkpoint = NULL;
    drop_first(milestones, reached);
    return checkpoint;
}

void milestones_save(
    struct milestones *milestones, struct run *run, uint64_t low_water)
{
    char *checkpoint = milestones_take(milestones, low_water);

    if (!checkpoint)
        return;
    run->host->save(run, slice_of(checkpoint), true);
    mem_free(checkpoint);
}

void milestones_drop(struct milestones *milestones)
{
    drop_first(milestones, milestones->count);
}
