/* SPDX-License-Identifier: MIT */
/* The callbacks of a run without a ledger: they store nothing. */
#include "worker/run/local_run.h"

#include <string.h>

#include "worker/base/platform.h"

static bool stopping(struct run *run)
{
    const struct local_run *local = run->owner;

    return atomic_load(local->options.stopped);
}

static void save(struct run *run, struct slice checkpoint, bool progress)
{
    (void)run;
    (void)checkpoint;
    (void)progress;
}

static enum tw_err phase(
    struct run *run, const char *name, struct slice checkpoint, struct err *err)
{
    (void)run;
    (void)checkpoint;
    return err_fail(err, TW_INVALID, "phase %s: this run has no ledger", name);
}

/* Returns false for every run: a local run writes no tombstones and has no use
 * for the answer. */
static enum tw_err is_open(struct run *run, struct slice job, struct slice id,
    bool *ret, struct err *err)
{
    (void)run;
    (void)job;
    (void)id;
    (void)err;
    *ret = false;
    return TW_OK;
}

static void forget_failed(struct run *run, int64_t count)
{
    atomic_store(&run->counts.failed, count);
}

static void failed(struct run *run, const struct run_failure *failure)
{
    const struct local_run *local = run->owner;

    local->options.failed(local->options.context, failure);
}

/* Does nothing, because there is no ledger to store the note in. */
static void note(struct run *run, const char *sentence)
{
    (void)run;
    (void)sentence;
}

static const struct run_callbacks HOST = {
    .stopping = stopping,
    .save = save,
    .phase = phase,
    .is_open = is_open,
    .failed = failed,
    .note = note,
    .forget_failed = forget_failed,
};

void local_run_init(
    struct local_run *local, const struct local_run_options *options)
{
    memset(local, 0, sizeof(*local));
    local->options = *options;
    deadline_init(&local->deadline, PLATFORM_NEVER, DEADLINE_REQUEST_MAX_MS);
    local->run.job = options->name;
    local->run.id = "local";
    local->log.object = options->object;
    local->run.log = &local->log;
    local->run.requested_ticks = platform_wall_ticks();
    local->run.epoch = 1;
    local->run.archive_folder = options->archive_folder;
    local->run.pool_client = options->client;
    local->run.deadline = &local->deadline;
    atomic_init(&local->run.share, -1);
    local->run.callbacks = &HOST;
    local->run.owner = local;
}
