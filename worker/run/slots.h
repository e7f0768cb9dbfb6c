/* SPDX-License-Identifier: MIT */
/*
 * Slots: a fixed number of threads, each a place for one run. The consumer
 * gives a task only where a slot is free; the slot reads the message, claims
 * the run, works and lets go (work.h), then reports and is free again.
 */
#ifndef TW_RUN_SLOTS_H
#define TW_RUN_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "worker/run/claim.h"
#include "worker/run/setup.h"
#include "worker/run/work.h"

struct slots;

/* What a slot is given: a message of a queue, or an orphan (queue NULL). */
struct slots_task {
    struct definition *definition; /* a reference of its own is taken */
    const struct setup_queue *queue;
    struct message message; /* copied */
    int64_t sent_ms;        /* of the Get that brought it */
    const struct job *job;  /* an orphan's */
    struct slice id;        /* an orphan's; copied */
};

/* How a task ended. */
struct slots_report {
    struct work_result result;
    bool poisoned; /* the message could not be understood */
};

/*
 * slots_new: count threads. place is borrowed. report is called on the slot's
 * thread, no lock held, when the slot is free again. Owned.
 */
struct slots *slots_new(size_t count, const struct work_place *place,
    void (*report)(void *context, const struct slots_report *report),
    void *context);

/* slots_free: wait for all tasks, then end the threads. */
void slots_free(struct slots *slots);

size_t slots_idle(struct slots *slots); /* how many can be given a task */
size_t slots_busy(struct slots *slots);

/* slots_give: slots_idle() must not be 0. Only one thread gives. */
void slots_give(struct slots *slots, const struct slots_task *task);

#endif
