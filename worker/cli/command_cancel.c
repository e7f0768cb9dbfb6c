/* SPDX-License-Identifier: MIT */
/* `tableward cancel ID`. */
#include <stdio.h>

#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/runs.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/run/control.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"

static void say_cancelled(const struct ledger_run *was, bool asked)
{
    printf("%.*s is %s\n", SLICE_ARG(was->id),
        asked ? "being cancelled" : "cancelled");
    if (asked)
        say("the worker that has it stops within 10 s");
    say("what it has done stays done; a parent that it has marked as deleted "
        "stays marked");
}

static int end_conflict(const struct ledger_run *was, const struct err *err)
{
    char time[TEXT_TIME_MAX];

    if (was->id.len == 0 || !ledger_state_ended(was->state))
        return say_failed(TW_CONFLICT, err);
    if (was->state == LEDGER_CANCELLED) {
        say("run %.*s was cancelled at %s: nothing is left to do",
            SLICE_ARG(was->id), say_time(was->finished_ticks, time));
        return EXIT_DONE;
    }
    say("run %.*s has ended already: %s", SLICE_ARG(was->id),
        ledger_state_name(was->state));
    return EXIT_FAILED;
}

static int cancel_one(struct store *store, const struct ledger_run *run)
{
    bool asked = false;
    struct ledger_run was;
    struct err err;
    enum tw_err code;
    int exit_code = EXIT_DONE;

    ledger_run_init(&was);
    code = control_cancel(store, run->job, run->id, &was, &asked, &err);
    if (code == TW_OK)
        say_cancelled(&was, asked);
    else if (code == TW_CONFLICT)
        exit_code = end_conflict(&was, &err);
    else
        exit_code = say_failed(code, &err);
    ledger_run_done(&was);
    return exit_code;
}

static bool is_open(const struct ledger_run *run)
{
    return !ledger_state_ended(run->state) &&
           !slice_is(run->job, IMPORT_LEDGER_JOB);
}

static int cancel(struct session *session, struct store *store, const char *id)
{
    struct runs runs = {.list = NULL};
    const struct ledger_run *run;
    struct err err;
    enum tw_err code;
    int exit_code;

    code = runs_find(session, store, slice_of(""), id, &runs, &err);
    if (code == TW_OK)
        code = runs_pick(&runs, is_open, &run, &err);
    exit_code = code == TW_OK ? cancel_one(store, run) : say_failed(code, &err);
    runs_done(&runs);
    return exit_code;
}

static int run(const struct invocation *invocation)
{
    struct store *store = NULL;
    struct session session;
    int code = session_open(&session, invocation, SESSION_SOME);

    if (code == EXIT_DONE)
        code = session_ledger(&session, false, &store);
    if (code == EXIT_DONE && !store) {
        code = EXIT_FAILED;
    } else if (code == EXIT_DONE) {
        session_lanes(&session);
        code = cancel(&session, store, invocation->args[0]);
    }
    session_close(&session);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

const struct command command_cancel = {
    .name = "cancel",
    .arguments = "ID",
    .summary = "stops a run for good",
    .details = "Within 10 s. What it has done "
               "stays done, and a\ntombstone stays. Where several jobs have an "
               "open run of that ID, JOB/ID names one.\n",
    .required = REQUIRED,
    .max_args = 1,
    .run = run,
};
