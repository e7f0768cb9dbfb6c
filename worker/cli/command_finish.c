/* SPDX-License-Identifier: MIT */
/* `tableward finish ID [--now]`: ends a run with `follow: true`. */
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/cli/commands.h"
#include "worker/cli/one_run.h"
#include "worker/cli/say.h"
#include "worker/run/bound.h"
#include "worker/run/control.h"
#include "worker/transfer/import_ledger.h"

#define SENTENCE_MAX 65536

static bool follows(const struct one_run *one)
{
    return one->job && one->job->kind->follows &&
           one->job->kind->follows(one->job);
}

static int refuse_kind(const struct one_run *one)
{
    char *what = bound_kind_sentence(one->run, one->job);
    int code = print_usage(
        "run %.*s cannot be finished: %s", SLICE_ARG(one->run->id), what);

    mem_free(what);
    return code;
}

static int refuse(const struct one_run *one)
{
    if (slice_is(one->run->job, IMPORT_LEDGER_JOB))
        return print_usage(
            "%.*s is an import, which ends by itself", SLICE_ARG(one->run->id));
    if (!one->job)
        return print_usage("run %.*s: job %.*s is not configured, so it cannot "
                           "be finished",
            SLICE_ARG(one->run->id), SLICE_ARG(one->run->job));
    if (bound_kind_changed(one->run, one->job))
        return refuse_kind(one);
    return print_usage("run %.*s needs no finish: job %s has no `follow: "
                       "true`, so its runs end by themselves",
        SLICE_ARG(one->run->id), one->job->name);
}

static int end_ended(const struct ledger_run *run)
{
    int code = one_run_say_ended(run);

    return run->state == LEDGER_SUCCEEDED ? EXIT_DONE : code;
}

static int finish(struct one_run *one, bool now)
{
    const struct ledger_run *run = one->run;
    struct buf done;
    struct err err;
    enum tw_err outcome;

    if (!follows(one))
        return refuse(one);
    if (ledger_state_ended(run->state))
        return end_ended(run);
    buf_init(&done, SENTENCE_MAX);
    outcome = control_finish(
        load_lend(one->session.load), run->job, run->id, now, &done, &err);
    if (outcome == TW_OK)
        printf("%.*s %s\n", SLICE_ARG(run->id), buf_text(&done));
    buf_done(&done);
    return outcome == TW_OK ? EXIT_DONE : print_failed(outcome, &err);
}

static int run(const struct invocation *invocation)
{
    bool now = invocation->values[OPTION_NOW] != NULL;
    struct one_run one;
    int code = one_run_open(&one, invocation, one_run_is_open);

    if (code == EXIT_DONE)
        code = finish(&one, now);
    one_run_close(&one);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_NOW,
        "make one last round only, even if entities changed again meanwhile"},
    {OPTION_COUNT, NULL},
};

const struct command command_finish = {
    .name = "finish",
    .arguments = "ID",
    .summary = "ends a run with `follow: true` after its last rounds",
    .details = "The run makes further complete rounds until no entity changes "
               "during a round, and then\nends. A run that is paused or held "
               "makes these rounds when it continues. After a copy\nrun has "
               "ended, runs of its job and of any other job that copies "
               "between the same tables\nare refused, except `run --reopen`. "
               "If several jobs have a run of that ID, write JOB/ID.\n",
    .required = REQUIRED,
    .max_args = 1,
    .options = OPTIONS,
    .run = run,
};
