/* SPDX-License-Identifier: MIT */
/* `tableward cancel ID`. */
#include <stdio.h>

#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/one_run.h"
#include "worker/cli/say.h"
#include "worker/run/control.h"

static bool has_ended(const struct ledger_run *run)
{
    return ledger_state_ended(run->state);
}

/* A run that has not begun has done nothing. */
static void say_what_stays(const struct one_run *one)
{
    bool cascade = one->job ? one->job->kind->has_parent
                            : slice_is(one->run->kind, "cascade-delete");

    if (one->run->started_ticks == 0)
        return;
    say("what it has done stays done%s",
        cascade ? "; the tombstone on its parent stays, too" : "");
}

static int end_cancelled(const struct one_run *one)
{
    printf("%.*s is cancelled\n", SLICE_ARG(one->run->id));
    say_what_stays(one);
    return EXIT_DONE;
}

static int end_ended(const struct ledger_run *run)
{
    char time[TEXT_TIME_MAX];

    if (run->state == LEDGER_CANCELLED) {
        say("run %.*s was cancelled at %s: nothing is left to do",
            SLICE_ARG(run->id), say_time(run->finished_ticks, time));
        return EXIT_DONE;
    }
    say("run %.*s has ended already: %.*s", SLICE_ARG(run->id),
        SLICE_ARG(ledger_state_shown(run)));
    return EXIT_FAILED;
}

/* Its owner may have come to the end before it saw the request. */
static int wait_for_owner(struct one_run *one)
{
    struct ledger_run now;
    int code;

    ledger_run_init(&now);
    code = one_run_wait(one, has_ended, &now);
    if (code == EXIT_DONE)
        code = now.state == LEDGER_CANCELLED ? end_cancelled(one)
                                             : end_ended(&now);
    ledger_run_done(&now);
    return code;
}

static int cancel(struct one_run *one)
{
    struct ledger_run was;
    bool asked = false;
    struct err err;
    enum tw_err outcome;
    int code;

    ledger_run_init(&was);
    outcome = control_cancel(
        one->store, one->run->job, one->run->id, &was, &asked, &err);
    if (outcome == TW_OK)
        code = asked ? wait_for_owner(one) : end_cancelled(one);
    else if (outcome == TW_CONFLICT && has_ended(&was))
        code = end_ended(&was);
    else
        code = say_failed(outcome, &err);
    ledger_run_done(&was);
    return code;
}

static int run(const struct invocation *invocation)
{
    struct one_run one;
    int code = one_run_open(&one, invocation, one_run_is_open);

    if (code == EXIT_DONE)
        code = cancel(&one);
    one_run_close(&one);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

const struct command command_cancel = {
    .name = "cancel",
    .arguments = "ID",
    .summary = "ends a run for good",
    .details = "Acted on within 10 s. What the run has done stays done, and a "
               "tombstone stays; a\nmove first finishes its current load. If "
               "several jobs have an open run of that\nID, JOB/ID names one.\n",
    .required = REQUIRED,
    .max_args = 1,
    .run = run,
};
