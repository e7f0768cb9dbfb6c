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
    say_note("`tableward resume %.*s` continues it", SLICE_ARG(one->run->id));
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct one_run one;
    int code = one_run_open(&one, invocation, one_run_is_open);

    if (code == EXIT_DONE && slice_is(one.run->job, IMPORT_LEDGER_JOB))
        code = print_usage(
            "%s is an import: stop its process instead", invocation->args[0]);
    if (code == EXIT_DONE)
        code = one_run_ask(
            &one, &(struct one_run_ask){control_pause, has_stopped,
                      LEDGER_PAUSED, end_paused, one_run_say_ended});
    one_run_close(&one);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

const struct command command_pause = {
    .name = "pause",
    .arguments = "ID",
    .summary = "stops a run until `resume`, and frees its slot",
    .details =
        "The run stops gracefully within 10 s (a move first finishes its "
        "current load). The\nmessage of the run is deleted, but the run keeps "
        "its locks. If several jobs have a run\nof that ID, write JOB/ID.\n",
    .required = REQUIRED,
    .max_args = 1,
    .run = run,
};
