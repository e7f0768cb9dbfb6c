/* SPDX-License-Identifier: MIT */
/*
 * A run without a ledger, for commands that use the engine by themselves: it
 * stops with its session, and keeps no checkpoint.
 */
#ifndef TW_CLI_LOCAL_RUN_H
#define TW_CLI_LOCAL_RUN_H

#include "jobs/engine/run.h"
#include "worker/base/slice.h"
#include "worker/store/fence.h"

struct session;

struct local_run {
    struct run run;
    struct fence fence;
    struct session *session;

    /* failed: an entity cannot succeed. May be NULL: then it is said. */
    void (*failed)(void *context, const struct run_failure *failure);
    void *context;
};

/*
 * local_run_init: session has lanes already. name and object (for log lines)
 * are borrowed. There is nothing to free.
 */
void local_run_init(struct local_run *local, struct session *session,
    const char *name, const char *object);

#endif
