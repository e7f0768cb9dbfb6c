/* SPDX-License-Identifier: MIT */
/* `tableward run JOB ...`: makes one run now, without a queue. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/dry_run.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/cli/signals.h"
#include "worker/run/control.h"
#include "worker/run/lock_file.h"
#include "worker/run/locks.h"
#include "worker/run/single.h"

#define RANDOM_ID_MAX 33

struct request {
    const struct job *job;
    struct run_args args;
    struct slice id;
    char random_id[RANDOM_ID_MAX];
    bool accept_deletes, reopen;
};

static int read_id(const char *text, struct request *request)
{
    if (!text) {
        text_random_id(request->random_id);
        request->id = slice_of(request->random_id);
        return EXIT_DONE;
    }
    return args_read_id(text, &request->id);
}

/* The signal callback while files are opened, which may be pipes that block.
 * Exits at once, because no run is in progress. */
static void end_at_once(void *context, int number)
{
    (void)context;
    if (number != SIGHUP)
        signals_exit_now(session_stopped());
}

static int read_request(struct session *session,
    const struct invocation *invocation, struct arena *arena,
    struct request *request)
{
    int code = session_job(session, invocation->args[0], &request->job);

    if (code == EXIT_DONE)
        code = read_id(invocation->values[OPTION_ID], request);
    if (code == EXIT_DONE)
        code = args_read(request->job, invocation->args + 1,
            invocation->arg_count - 1, arena, &request->args);
    request->accept_deletes = invocation->values[OPTION_ACCEPT_DELETES] != NULL;
    request->reopen = invocation->values[OPTION_REOPEN] != NULL;
    return code;
}

/* ---- the confirmation ---- */

static void show_plan(const struct request *request)
{
    struct buf plan;

    buf_init(&plan, 1024 * 1024);
    buf_add_format(&plan, "%s", request->job->name);
    for (size_t i = 0; i < request->args.count; i++) {
        buf_add_format(&plan, " %.*s=", SLICE_ARG(request->args.names[i]));
        text_visible(&plan, request->args.values[i]);
    }
    buf_add_char(&plan, '\n');
    request->job->kind->explain(request->job, &plan);
    fputs(buf_text(&plan), stderr);
    buf_done(&plan);
}

/* Is the answer on standard input yes? Signals are unblocked during the wait,
 * so that they end the process. */
static bool is_yes(void)
{
    char answer[16];
    const char *line;
    size_t len;

    fputs("Continue? [y/N] ", stderr);
    signals_unblock();
    line = fgets(answer, sizeof(answer), stdin);
    signals_block();
    if (!line)
        return false;
    len = strcspn(answer, "\n");
    answer[len] = '\0';
    return strcmp(answer, "y") == 0 || strcmp(answer, "Y") == 0 ||
           strcmp(answer, "yes") == 0;
}

/* Ask before a job that deletes or overwrites. If the result is not EXIT_DONE,
 * the job must not run. */
static int ask(const struct request *request, bool yes)
{
    if (yes || !request->job->kind->destructive)
        return EXIT_DONE;
    if (isatty(STDIN_FILENO) != 1)
        return print_usage(
            "job %s deletes or overwrites: without a terminal to ask on, --yes "
            "is required (--dry-run shows what it would do)",
            request->job->name);
    show_plan(request);
    if (is_yes())
        return EXIT_DONE;
    say_note("nothing was done");
    return EXIT_STOPPED;
}

/* ---- the run ---- */

static void on_signal(void *context, int number)
{
    if (number != SIGHUP)
        single_stop(context);
}

static void look(void *context, struct progress_state *ret)
{
    struct single_progress now;
    int64_t left_ms;

    single_read_progress(context, &now);
    ret->done = now.deleted + now.written;
    ret->share = now.share;
    left_ms = now.until_ms - platform_boot_ms();
    if (now.held_by_another)
        snprintf(ret->note, sizeof(ret->note), "another process has the run");
    else if (!now.working && now.until_ms > 0 && left_ms > 0)
        snprintf(ret->note, sizeof(ret->note), "waits %" PRId64 " s",
            (left_ms + 999) / 1000);
}

static void add_part(
    struct buf *line, const char *separator, int64_t count, const char *what)
{
    buf_add_text(line, separator);
    print_count(line, count);
    buf_add_format(line, " %s", what);
}

static void print_counts(struct single *single)
{
    struct single_progress now;
    struct buf line;

    single_read_progress(single, &now);
    buf_init(&line, 1024);
    add_part(&line, "succeeded: ", now.deleted, "deleted");
    add_part(&line, ", ", now.written, "written");
    add_part(&line, ", ", now.skipped, "skipped");
    add_part(&line, ", ", now.read, "read");
    printf("%s\n", buf_text(&line));
    buf_done(&line);
}

static int end_succeeded(struct single *single, const struct request *request,
    const struct single_result *result)
{
    char room[TEXT_TIME_MAX];
    const char *time = print_time(result->finished_ticks, room);

    if (!result->already) {
        print_counts(single);
        return EXIT_DONE;
    }
    if (result->otherwise)
        return print_usage("run %.*s succeeded at %s, under another definition "
                           "of job %s: nothing was done; leave --id out, to "
                           "start another run",
            SLICE_ARG(request->id), time, request->job->name);
    say_note("run %.*s succeeded at %s: nothing is left to do",
        SLICE_ARG(request->id), time);
    return EXIT_DONE;
}

/* Print the commands that continue the run. If the run is not paused, the next
 * worker that serves its job continues it too. */
static void print_how_to_continue(const struct request *request, bool paused)
{
    say_note(
        "stopped before the end%s: `tableward run %s ... --id %.*s` continues "
        "it%s",
        paused ? ", and paused" : "", request->job->name,
        SLICE_ARG(request->id),
        paused ? " here, `tableward resume` in a worker" : "");
}

static int end_as(struct single *single, const struct request *request,
    const struct single_result *result)
{
    if (result->overtaken) {
        say("another process has acquired the lease of the run");
        return EXIT_STOPPED;
    }
    if (result->elsewhere) {
        say("stopped waiting: another process executes run %.*s",
            SLICE_ARG(request->id));
        return EXIT_STOPPED;
    }
    if (result->stopped) {
        if (result->err.text[0])
            say("%s", result->err.text);
        print_how_to_continue(request, result->paused);
        return EXIT_STOPPED;
    }
    if (result->unreadable) {
        say("%s", result->err.text);
        return EXIT_FAILED;
    }
    if (result->state == LEDGER_SUCCEEDED)
        return end_succeeded(single, request, result);
    if (result->already && request->accept_deletes)
        say_note("--accept-deletes changes nothing for run %.*s, which has "
                 "ended: leave --id out, to start another run",
            SLICE_ARG(request->id));
    say("run %.*s is %s%s%s", SLICE_ARG(request->id),
        ledger_state_name(result->state), result->err.text[0] ? ": " : "",
        result->err.text);
    return EXIT_FAILED;
}

static int end_refused(
    struct session *session, enum tw_err outcome, struct err *err)
{
    switch (outcome) {
    case TW_CONFLICT:
        return print_usage("%s", err->text);
    case TW_INVALID:
        say("%s", err->text);
        return EXIT_CONFIG_78;
    default:
        store_explain(
            session->load->open[session->load->setup.store], outcome, err);
        return print_failed(outcome, err);
    }
}

static int perform(struct session *session, const struct request *request)
{
    struct definition *definition = load_definition(session->load);
    const struct single_options options = {
        .definition = definition,
        .lock_file = definition_lock_file(definition),
        .job = request->job,
        .args = request->args,
        .id = request->id,
        .accept_deletes = request->accept_deletes,
    };
    struct single_result result = {.state = LEDGER_QUEUED};
    struct single *single = single_new(&options);
    struct signals *signals = signals_start(on_signal, single);
    struct progress *progress = progress_start("run", "done", look, single);
    struct err err;
    enum tw_err outcome;
    int exit_code;

    printf("%.*s\n", SLICE_ARG(request->id));
    fflush(stdout);
    outcome = single_run(single, &result, &err);
    progress_end(progress);
    signals_stop(signals);
    exit_code = outcome == TW_OK ? end_as(single, request, &result)
                                 : end_refused(session, outcome, &err);
    single_free(single);
    lock_file_close(options.lock_file);
    return exit_code;
}

static void on_early_signal(void *context, int number)
{
    (void)context, (void)number;
}

/* Let a job that `finish` closed accept runs again. A signal only stops the
 * command, because no run is in progress. */
static int reopen(
    struct session *session, struct store *store, const struct request *request)
{
    const struct locks_request tables = {
        .store = store, .job = request->job, .stores = &session->load->stores};
    struct signals *signals;
    struct err err;
    enum tw_err outcome;

    if (!request->reopen)
        return EXIT_DONE;
    signals = signals_start(on_early_signal, NULL);
    outcome = control_reopen(store, slice_of(request->job->name), &err);
    if (outcome == TW_OK && request->job->kind->table_job)
        outcome = locks_reopen(&tables, &err);
    signals_stop(signals);
    if (stop_is_asked())
        return session_stopped();
    if (outcome == TW_OK)
        return EXIT_DONE;
    store_explain(store, outcome, &err);
    return print_failed(outcome, &err);
}

/* Open the stores of job, and the ledger's store into *ret. */
static int open_stores(
    struct session *session, const struct job *job, struct store **ret)
{
    struct signals *signals = signals_start(end_at_once, NULL);
    int code = session_want_job(session, job);

    if (code == EXIT_DONE)
        code = session_ledger(session, true, ret);
    signals_stop(signals);
    return code;
}

/* ---- a dry run ---- */

/* Open the ledger's store. A dry run looks up there whether the job is closed
 * or its steps have changed. NULL: the dry run is made without the ledger,
 * because the ledger has no reason to refuse the run, or because its store
 * cannot be opened. */
static struct store *open_ledger_to_read(
    struct session *session, const struct request *request)
{
    const struct load *load = session->load;
    size_t number = load->setup.store;
    struct store *ledger = NULL;

    if (!request->job->kind->table_job || number >= load->stores.count ||
        load_is_new(load, number))
        return NULL;
    if (session_ledger(session, false, &ledger) != EXIT_DONE)
        say_note("the ledger cannot be read, so this dry run does not check "
                 "whether it would refuse a run of job %s (a job closed by "
                 "`finish`, or changed steps)",
            request->job->name);
    return ledger;
}

static int try_run(struct session *session, const struct request *request)
{
    struct dry_run what = {.job = request->job,
        .args = request->args,
        .accept_deletes = request->accept_deletes,
        .reopen = request->reopen};
    struct signals *signals = signals_start(end_at_once, NULL);
    int code;

    session_only_reads(session);
    code = session_want_job(session, request->job);
    if (code == EXIT_DONE)
        what.ledger = open_ledger_to_read(session, request);
    signals_stop(signals);
    return code == EXIT_DONE ? dry_run(session, &what) : code;
}

static int run_or_try(struct session *session,
    const struct invocation *invocation, const struct request *request)
{
    struct store *store;
    int code;

    if (invocation->values[OPTION_DRY_RUN])
        return try_run(session, request);
    code = ask(request, invocation->values[OPTION_YES] != NULL);
    if (code == EXIT_DONE)
        code = open_stores(session, request->job, &store);
    if (code == EXIT_DONE)
        code = reopen(session, store, request);
    return code == EXIT_DONE ? perform(session, request) : code;
}

static int run(const struct invocation *invocation)
{
    struct request request = {.job = NULL};
    struct session session;
    struct arena arena;
    struct signals *signals = signals_start(end_at_once, NULL);
    int code;

    arena_init(&arena);
    code = session_open(&session, invocation, SESSION_SOME);
    signals_stop(signals);
    if (code == EXIT_DONE)
        code = read_request(&session, invocation, &arena, &request);
    if (code == EXIT_DONE)
        code = run_or_try(&session, invocation, &request);
    session_close(&session);
    arena_done(&arena);
    return code;
}

static const char *const REQUIRED[] = {"JOB", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_DRY_RUN,
        "only print what the run would do, and what it would cost"},
    {OPTION_ID,
        "the run id; with the id of a run that was stopped, continue that run"},
    {OPTION_YES, "do not ask before something is deleted or overwritten"},
    {OPTION_ACCEPT_DELETES,
        "let a copy job delete any number of copies in its next complete "
        "round; without this option the limit is 100 copies, or a tenth of its "
        "copies if that is more. --yes does not imply it"},
    {OPTION_REOPEN,
        "let a copy job that `finish` has closed accept runs again, also if "
        "a job of another name was closed for the same tables"},
    {OPTION_COUNT, NULL},
};

const struct command command_run = {
    .name = "run",
    .arguments = "JOB [NAME=VALUE ...]",
    .summary = "runs a job now, without a queue",
    .details =
        "Prints the run id first. A run that SIGINT or SIGTERM stops is "
        "paused, with exit code\n75: --id continues it. A run whose process is "
        "killed is continued by a worker, or by\n--id. If the run with this id "
        "has succeeded already, `run` does nothing (exit code 0), or\nexits "
        "with code 64 if the definition of the job has changed since.\n",
    .required = REQUIRED,
    .max_args = (size_t)-1,
    .options = OPTIONS,
    .run = run,
};
