/* SPDX-License-Identifier: MIT */
/* `tableward pause ID`. */
#include <stdio.h>

#include "worker/cli/commands.h"
#include "worker/cli/one_run.h"
#include "worker/cli/say.h"
#include "worker/run/control.h"
#include "worker/transfer/import_ledger.h"

static bool has_stopped(const struct ledger_run *run)
{
    return run->state == LEDGER_PAUSED || ledger_state_ended(run->state);
}

static int end_paused(const struct one_run *one)
{
    printf("%.*s is paused\n", SLICE_ARG(one->run->id));
    say("`tableward resume %.*s` continues it", SLICE_ARG(one->run->id));
    return EXIT_DONE;
}

static int end_ended(const struct ledger_run *run)
{
    say("run %.*s has ended already: %.*s", SLICE_ARG(run->id),
        SLICE_ARG(ledger_state_shown(run)));
    return EXIT_FAILED;
}

static int wait_for_owner(struct one_run *one)
{
    struct ledger_run now;
    int code;

    ledger_run_init(&now);
    code = one_run_wait(one, has_stopped, &now);
    if (code == EXIT_DONE)
        code = now.state == LEDGER_PAUSED ? end_paused(one) : end_ended(&now);
    ledger_run_done(&now);
    return code;
}

static int pause_run(struct one_run *one)
{
    struct ledger_run was;
    bool asked = false;
    struct err err;
    enum tw_err outcome;
    int code;

    ledger_run_init(&was);
    outcome = control_pause(
        one->store, one->run->job, one->run->id, &was, &asked, &err);
    if (outcome == TW_OK)
        code = asked ? wait_for_owner(one) : end_paused(one);
    else if (outcome == TW_CONFLICT && ledger_state_ended(was.state))
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

    if (code == EXIT_DONE && slice_is(one.run->job, IMPORT_LEDGER_JOB))
        code = say_usage(
            "%s is an import: stop its process instead", invocation->args[0]);
    if (code == EXIT_DONE)
        code = pause_run(&one);
    one_run_close(&one);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

const struct command command_pause = {
    .name = "pause",
    .arguments = "ID",
    .summary = "stops a run until `resume`, and frees its slot",
    .details = "Acted on within 10 s: the run stops gracefully (a move first "
               "finishes its current\nload), its message is deleted, its locks "
               "stay. JOB/ID if several jobs have a run\nof that ID.\n",
    .required = REQUIRED,
    .max_args = 1,
    .run = run,
};
