/* SPDX-License-Identifier: MIT */
/* A run without a ledger, for commands that call the engine (jobs/engine)
 * directly. It stores no checkpoint: it ends when the command is stopped. */
#ifndef TW_RUN_LOCAL_RUN_H
#define TW_RUN_LOCAL_RUN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "jobs/engine/run.h"
#include "worker/base/log.h"
#include "worker/store/deadline.h"

struct pool_client;

/* All pointers are borrowed for the life of the run. */
struct local_run_options {
    const char *name;   /* name used in place of a job's name */
    const char *object; /* subject of log lines */
    struct pool_client *client;
    const _Atomic bool *stopped;
    const char *archive_folder; /* base of relative `archive:` paths; or NULL */

    /* failed: called for each entity that cannot be processed. */
    void (*failed)(void *context, const struct run_failure *failure);
    void *context;
};

struct local_run {
    struct run run;
    struct deadline deadline;
    struct local_run_options options;
    struct log_run log;
};

/* local_run_init: fill local; there is nothing to free. */
void local_run_init(
    struct local_run *local, const struct local_run_options *options);

#endif
