/* SPDX-License-Identifier: MIT */
/*
 * A task of a worker thread: a message, or an orphan (orphans.h). A message is
 * parsed, and an attempt is made at its run (attempt.h). An invalid message is
 * moved to the poison queue. A message whose job was removed is hidden, and its
 * run is held (lease.h).
 */
#ifndef TW_RUN_TASK_H
#define TW_RUN_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/run/attempt.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

struct task {
    struct definition *definition;   /* the thread that has the task holds a
                                        reference */
    const struct setup_queue *queue; /* queue of the message or the orphan */
    struct message message;          /* unset for an orphan */
    int64_t sent_ms; /* when the Get that returned the message was sent */
    const struct job *orphan_job; /* NULL: the task is a message */
    struct slice orphan_id;
};

/* How a task ended. */
struct task_report {
    struct attempt_result result;
    bool poisoned; /* the message went to the poison queue */
    bool orphan;   /* the task was an orphan */
    bool former;   /* the configuration was read again since the task began; set
                      by worker_threads.c */
};

/* task_do: process task on the calling thread. arena: scratch memory. */
void task_do(const struct task *task,
    const struct attempt_environment *environment, struct arena *arena,
    struct task_report *ret);

#endif
