/* SPDX-License-Identifier: MIT */
/* `tableward resume ID`: continues a paused run. */
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/one_run.h"
#include "worker/cli/say.h"
#include "worker/cli/status_print.h"
#include "worker/run/control.h"
#include "worker/transfer/import_ledger.h"

#define SENTENCE_MAX 65536

static bool is_resumable(const struct ledger_run *run)
{
    return run->state == LEDGER_PAUSED ||
           (run->state == LEDGER_RUNNING &&
               slice_is(run->control, LEDGER_CONTROL_PAUSE)) ||
           slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION);
}

/* Print that the run accepts the definition of its job, which has changed. */
static void note_accepts(const struct one_run *one)
{
    say_note("run %.*s starts over under the present definition of job %.*s, "
             "which has changed since the run began",
        SLICE_ARG(one->run->id), SLICE_ARG(one->run->job));
}

static int end_unserved(
    const struct one_run *one, const struct control_resumed *resumed)
{
    struct buf command;

    if (resumed->accepts)
        note_accepts(one);

    buf_init(&command, SENTENCE_MAX);
    one_run_add_command(one->run, &command);
    say("run %.*s does not continue: no queue serves job %.*s; continue it "
        "with: %s",
        SLICE_ARG(one->run->id), SLICE_ARG(one->run->job), buf_text(&command));
    buf_done(&command);
    return EXIT_UNREACHABLE;
}

/* Print that the run continues. A run that has not begun yet keeps the time at
 * which it is to begin. */
static void print_continues(
    const struct ledger_run *run, const struct control_resumed *resumed)
{
    char time[TEXT_TIME_MAX];

    if (resumed->will_be_held)
        printf("%.*s is queued\n", SLICE_ARG(run->id));
    else if (run->attempt == 0 && run->resumes_ticks > platform_wall_ticks() &&
             (run->state == LEDGER_PAUSED || run->state == LEDGER_QUEUED))
        printf("%.*s begins at %s\n", SLICE_ARG(run->id),
            print_time(run->resumes_ticks, time));
    else
        printf("%.*s continues\n", SLICE_ARG(run->id));
}

static int resume(struct one_run *one)
{
    struct control_resumed resumed;
    struct err err;
    enum tw_err outcome = control_resume(load_lend(one->session.load),
        one->run->job, one->run->id, &resumed, &err);

    if (outcome == TW_NOT_FOUND && resumed.unserved && one->job)
        return end_unserved(one, &resumed);
    if (outcome == TW_NOT_FOUND && resumed.unserved) {
        say("%s", err.text);
        return EXIT_UNREACHABLE;
    }
    if (outcome != TW_OK)
        return print_failed(outcome, &err);
    print_continues(one->run, &resumed);
    if (resumed.moved_to)
        say_note("no worker of this configuration serves queue %.*s: the run "
                 "is on queue %s now",
            SLICE_ARG(one->run->queue), resumed.moved_to->name);
    if (resumed.accepts)
        note_accepts(one);
    if (resumed.will_be_held)
        say_note("the definition of job %.*s has changed since run %.*s began: "
                 "a worker will hold the run; then restore the definition, or "
                 "repeat `tableward resume %.*s` to accept it",
            SLICE_ARG(one->run->job), SLICE_ARG(one->run->id),
            SLICE_ARG(one->run->id));
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct one_run one;
    int code = one_run_open(&one, invocation, is_resumable);

    if (code == EXIT_DONE && slice_is(one.run->job, IMPORT_LEDGER_JOB))
        code = print_usage("%s is an import: `tableward import ... --id %.*s` "
                           "continues it",
            invocation->args[0], SLICE_ARG(one.run->id));
    if (code == EXIT_DONE)
        code = resume(&one);
    one_run_close(&one);
    return code;
}

static const char *const REQUIRED[] = {"ID", NULL};

const struct command command_resume = {
    .name = "resume",
    .arguments = "ID",
    .summary = "continues a paused run, or a run held since its job changed",
    .details =
        "Puts a new message for the run on its queue; the exit code is 69 if "
        "no queue serves the\njob, or the job is not in the configuration. A "
        "run whose queue is not served any more\nmoves to the queue that "
        "serves the job. If a run is held because its job was "
        "changed,\n`resume` accepts the present definition, and the run starts "
        "over. If such a run is\npaused, the first `resume` makes it held, and "
        "the second one accepts the definition. A\nrun that was enqueued with "
        "--delay, and has not begun, still begins after its delay. If\nseveral "
        "jobs have a run of that ID, write JOB/ID.\n",
    .required = REQUIRED,
    .max_args = 1,
    .run = run,
};
