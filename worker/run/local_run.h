/* SPDX-License-Identifier: MIT */
/*
 * A run without a ledger, for commands that use the engine by themselves: it
 * ends when the command is stopped, and keeps no checkpoint.
 */
#ifndef TW_RUN_LOCAL_RUN_H
#define TW_RUN_LOCAL_RUN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "jobs/engine/run.h"
#include "worker/store/deadline.h"

struct pool_client;

/* All of it is borrowed for the life of the run. */
struct local_run_options {
    const char *name;   /* what stands for the job */
    const char *object; /* for log lines */
    struct pool_client *client;
    const _Atomic bool *stopped;
    const char *archive_folder; /* where relative `archive:` starts; or NULL */

    /* failed: an entity that cannot be processed. */
    void (*failed)(void *context, const struct run_failure *failure);
    void *context;
};

struct local_run {
    struct run run;
    struct deadline deadline;
    struct local_run_options options;
};

/* local_run_init: there is nothing to free. */
void local_run_init(
    struct local_run *local, const struct local_run_options *options);

#endif
