/* SPDX-License-Identifier: MIT */
/*
 * What a slot is given: a message, or an orphan (orphans.h). A message is read,
 * its run claimed, worked on and let go (attempt.h); one that cannot be
 * understood is poisoned; one whose job was removed is held.
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
    struct definition *definition; /* a reference is held by who has the task */
    const struct setup_queue *queue; /* its message's, or the orphan's */
    struct message message;          /* not of an orphan */
    int64_t sent_ms;                 /* of the Get that brought it */
    const struct job *orphan_job;    /* NULL: it is a message */
    struct slice orphan_id;
};

/* How a task ended. */
struct task_report {
    struct attempt_result result;
    bool poisoned; /* the message could not be understood */
    bool orphan;   /* it had none */
};

/* task_do: all of it, on this thread. arena: for what it needs meanwhile. */
void task_do(const struct task *task,
    const struct attempt_environment *environment, struct arena *arena,
    struct task_report *ret);

#endif
