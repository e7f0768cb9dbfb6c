/* SPDX-License-Identifier: MIT */
/* Changes runs for the dashboard. */
#include "worker/monitor/change.h"

#include <stdbool.h>
#include <stddef.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/run/control.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

struct change {
    const char *name;
    enum tw_err (*make)(const struct definition *definition, struct slice job,
        struct slice id, struct buf *done, struct err *err);
};

#define STARTS_OVER                                                            \
    " The definition of its job has changed since the run began: the run "     \
    "starts over under the present one."

static enum tw_err retry(const struct definition *definition, struct slice job,
    struct slice id, struct buf *done, struct err *err)
{
    struct control_retried retried;
    enum tw_err outcome =
        control_retry(definition, job, id, true, &retried, err);

    buf_add_format(done, "Run %.*s is queued again.", SLICE_ARG(id));
    if (retried.changed)
        buf_add_text(done, STARTS_OVER);
    return outcome;
}

static enum tw_err drop(const struct definition *definition, struct slice job,
    struct slice id, struct buf *done, struct err *err)
{
    buf_add_format(done, "Run %.*s is dropped.", SLICE_ARG(id));
    return control_drop(definition_store(definition), job, id, err);
}

/* Wake a worker if the request is stored for the next owner, because a load of
 * a move is half done. Without a queue that serves the run nothing is done. */
static enum tw_err wake_next_owner(const struct definition *definition,
    const struct ledger_run *was, bool asked, struct err *err)
{
    bool unserved = false;

    if (!asked || was->owner.len > 0)
        return TW_OK;
    return control_wake(definition, was, &unserved, err);
}

/* Returns a text that says how soon a run of this job acts on a request. */
static const char *how_soon(
    const struct definition *definition, struct slice name)
{
    const struct job *job = jobs_find(definition->jobs, name);

    return job && job->kind->ends_load
               ? "within 10 s, or when its current load has ended"
               : "within 10 s";
}

/* Add a sentence about a change of the run. If `asked` is true, the run's
 * worker was only asked to make the change: `will` says what the run does then,
 * such as "stops". Otherwise the change was made: `done` says what the run is
 * now, such as "paused". */
static void add_outcome(struct buf *to, const struct definition *definition,
    struct slice job, struct slice id, bool asked, const char *will,
    const char *done)
{
    if (asked)
        buf_add_format(to, "Run %.*s %s when its worker sees the request, %s.",
            SLICE_ARG(id), will, how_soon(definition, job));
    else
        buf_add_format(to, "Run %.*s is %s.", SLICE_ARG(id), done);
}

static enum tw_err pause(const struct definition *definition, struct slice job,
    struct slice id, struct buf *done, struct err *err)
{
    struct ledger_run was;
    bool asked = false;
    enum tw_err outcome;

    ledger_run_init(&was);
    outcome =
        control_pause(definition_store(definition), job, id, &was, &asked, err);
    if (outcome == TW_OK)
        outcome = wake_next_owner(definition, &was, asked, err);
    ledger_run_done(&was);
    add_outcome(done, definition, job, id, asked, "stops", "paused");
    return outcome;
}

static enum tw_err resume(const struct definition *definition, struct slice job,
    struct slice id, struct buf *done, struct err *err)
{
    struct control_resumed resumed;
    enum tw_err outcome = control_resume(definition, job, id, &resumed, err);

    buf_add_format(done, "Run %.*s %s.", SLICE_ARG(id),
        resumed.will_be_held ? "is queued" : "continues");
    if (resumed.accepts)
        buf_add_text(done, STARTS_OVER);
    if (resumed.will_be_held)
        buf_add_text(done,
            " The definition of its job has changed since the run began: a "
            "worker will hold the run; then restore the definition, or resume "
            "the run once more to accept it.");
    if (resumed.moved_to)
        buf_add_format(done,
            " It is on queue %s now, because its former queue "
            "is not served.",
            resumed.moved_to->name);
    return outcome;
}

static enum tw_err cancel(const struct definition *definition, struct slice job,
    struct slice id, struct buf *done, struct err *err)
{
    struct ledger_run was;
    bool asked = false;
    enum tw_err outcome;

    ledger_run_init(&was);
    outcome = control_cancel(
        definition_store(definition), job, id, &was, &asked, err);
    if (outcome == TW_OK)
        outcome = wake_next_owner(definition, &was, asked, err);
    add_outcome(done, definition, job, id, asked, "ends", "cancelled");
    if (was.started_ticks > 0)
        buf_add_text(done, " What it has done stays done.");
    ledger_run_done(&was);
    return outcome;
}

static enum tw_err finish(const struct definition *definition, struct slice job,
    struct slice id, struct buf *done, struct err *err)
{
    const struct job *found = jobs_find(definition->jobs, job);
    enum tw_err outcome;

    if (!found || !found->kind->follows || !found->kind->follows(found))
        return err_fail(err, TW_CONFLICT,
            "run %.*s needs no finish: job %.*s has no `follow: true`, so its "
            "runs end by themselves",
            SLICE_ARG(id), SLICE_ARG(job));
    buf_add_format(done, "Run %.*s ", SLICE_ARG(id));
    outcome = control_finish(definition, job, id, false, done, err);
    buf_add_char(done, '.');
    return outcome;
}

static const struct change changes[] = {
    {"retry", retry},
    {"drop", drop},
    {"pause", pause},
    {"resume", resume},
    {"cancel", cancel},
    {"finish", finish},
};

const struct change *change_named(struct slice name)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        if (slice_is(name, changes[i].name))
            return &changes[i];
    return NULL;
}

enum tw_err change_make(const struct change *change,
    const struct definition *definition, struct slice job, struct slice id,
    struct buf *done, struct err *err)
{
    if (slice_is(job, LEDGER_IMPORTS))
        return err_fail(err, TW_CONFLICT,
            "%.*s is an import: `tableward import ... --id %.*s` continues it",
            SLICE_ARG(id), SLICE_ARG(id));
    return change->make(definition, job, id, done, err);
}
