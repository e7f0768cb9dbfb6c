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

/* Print that changes of the run are not undone. Prints nothing for a run that
 * was not started, because it has changed nothing. */
static void note_what_stays(const struct one_run *one)
{
    bool cascade = one->job ? one->job->kind->has_parent
                            : slice_is(one->run->kind, "cascade-delete");

    if (one->run->started_ticks == 0)
        return;
    say_note("what it has done stays done%s",
        cascade ? "; the tombstone on its parent stays too" : "");
}

static int end_cancelled(const struct one_run *one)
{
    printf("%.*s is cancelled\n", SLICE_ARG(one->run->id));
    note_what_stays(one);
    return EXIT_DONE;
}

static int end_ended(const struct ledger_run *run)
{
    char time[TEXT_TIME_MAX];

    if (run->state == LEDGER_CANCELLED) {
        say_note("run %.*s was cancelled at %s: nothing is left to do",
            SLICE_ARG(run->id), print_time(run->finished_ticks, time));
        return EXIT_DONE;
    }
    return one_run_say_ended(run);
}

static int run(const struct invocation *invocation)
{
    struct one_run one;
    int code = one_run_open(&one, invocation, one_run_is_open);

    if (code == EXIT_DONE)
        code =
            one_run_ask(&one, &(struct one_run_ask){control_cancel, has_ended,
                                  LEDGER_CANCELLED, end_cancelled, end_ended});
    one_run_close(&one);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

const struct command command_cancel = {
    .name = "cancel",
    .arguments = "ID",
    .summary = "ends a run for good",
    .details = "The run stops within 10 s; a move first finishes its current "
               "load. Changes that the\nrun has made are not undone, and the "
               "tombstone of a cascade stays. If several jobs\nhave an open "
               "run of that ID, write JOB/ID.\n",
    .required = REQUIRED,
    .max_args = 1,
    .run = run,
};
