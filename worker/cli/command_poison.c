/* SPDX-License-Identifier: MIT */
/*
 * `tableward poison list|show|retry|drop`: poisoned and failed runs. They are
 * read from the ledger, because only the first 32 messages of a queue can be
 * peeked.
 */
#include <stdio.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/one_run.h"
#include "worker/cli/runs.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/run/control.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"

/* The width of the names of a run's fields. */
#define NAME_WIDTH 10
#define LINE_MAX_BYTES ((size_t)1 << 30)

struct poison {
    const struct invocation *invocation;
    struct session session;
    struct store *store; /* NULL: the store's file does not exist yet */
    const struct action *action;
    struct runs_query query; /* selects the runs for list and --all */
};

struct action {
    const char *name;
    bool wants_id;  /* an ID, or --all if takes_all, is required */
    bool takes_all; /* --all is accepted and selects all poisoned and failed
                       runs */
    bool shows;     /* the action only prints, and accepts --json */
    int (*act)(struct poison *poison, const struct ledger_run *run);
};

/* ---- actions on one run ---- */

static int list_one(struct poison *poison, const struct ledger_run *run)
{
    char time[TEXT_TIME_MAX];
    struct buf line;

    (void)poison;
    buf_init(&line, LINE_MAX_BYTES);
    buf_add_format(&line, "%s  %-8s  ", print_time(run->finished_ticks, time),
        ledger_state_name(run->state));
    text_visible(&line, run->job);
    buf_add_text(&line, "  ");
    text_visible(&line, run->id);
    buf_add_text(&line, "  ");
    text_visible(&line, run->error);
    printf("%s\n", buf_text(&line));
    buf_done(&line);
    return EXIT_DONE;
}

/* ---- the message's body ---- */

struct peeking {
    struct store *store;
    char *queue;
    struct messages messages;
};

static enum tw_err peek(void *context, struct exchange *exchange)
{
    struct peeking *peeking = context;

    return store_queue_peek(peeking->store, exchange, peeking->queue,
        QUEUE_MAX_GET, &peeking->messages);
}

static const struct message *find_copy(
    const struct messages *messages, struct slice id)
{
    for (size_t i = 0; i < messages->count; i++)
        if (slice_equal(messages->list[i].id, id))
            return &messages->list[i];
    return NULL;
}

/* Add the body of the run's message in the poison queue. Only the first 32
 * messages can be peeked: the body of a later one is not added. */
static void add_message(
    struct poison *poison, const struct ledger_run *run, struct buf *to)
{
    struct peeking peeking = {.store = poison->store};
    const struct message *copy = NULL;
    struct err err;

    if (run->queue.len == 0 || run->poison_id.len == 0)
        return;
    peeking.queue =
        mem_format("%.*s" SETUP_POISON_SUFFIX, SLICE_ARG(run->queue));
    messages_init(&peeking.messages);
    if (session_call(&poison->session, poison->store, peek, &peeking, true,
            &err) == TW_OK)
        copy = find_copy(&peeking.messages, run->poison_id);
    if (copy) {
        print_field(to, NAME_WIDTH, "message", copy->text);
    } else {
        buf_add_format(to, "%-*s not among the first %d of queue ", NAME_WIDTH,
            "message", QUEUE_MAX_GET);
        text_visible(to, slice_of(peeking.queue));
        buf_add_char(to, '\n');
    }
    messages_done(&peeking.messages);
    mem_free(peeking.queue);
}

static int show_one(struct poison *poison, const struct ledger_run *run)
{
    char time[TEXT_TIME_MAX];
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    print_field(&line, NAME_WIDTH, "job", run->job);
    print_field(&line, NAME_WIDTH, "id", run->id);
    print_field(
        &line, NAME_WIDTH, "state", slice_of(ledger_state_name(run->state)));
    print_field(&line, NAME_WIDTH, "arguments", run->args);
    print_field(&line, NAME_WIDTH, "queue", run->queue);
    print_field(&line, NAME_WIDTH, "requested",
        slice_of(print_time(run->requested_ticks, time)));
    print_field(&line, NAME_WIDTH, "finished",
        slice_of(print_time(run->finished_ticks, time)));
    print_field(&line, NAME_WIDTH, "error", run->error);
    add_message(poison, run, &line);
    fputs(buf_text(&line), stdout);
    buf_done(&line);
    return EXIT_DONE;
}

/* Print that no message was put, because no queue serves the job of the run. */
static int end_unserved(const struct ledger_run *run)
{
    struct buf command;

    buf_init(&command, LINE_MAX_BYTES);
    one_run_add_command(run, &command);
    say("run %.*s is no longer %.*s, but no queue serves job %.*s; continue it "
        "with: %s",
        SLICE_ARG(run->id), SLICE_ARG(ledger_state_shown(run)),
        SLICE_ARG(run->job), buf_text(&command));
    buf_done(&command);
    return EXIT_UNREACHABLE;
}

static int retry_one(struct poison *poison, const struct ledger_run *run)
{
    bool unserved = false;
    struct err err;
    enum tw_err outcome = control_retry(
        load_lend(poison->session.load), run->job, run->id, &unserved, &err);

    if (outcome == TW_NOT_FOUND && unserved)
        return end_unserved(run);
    if (outcome != TW_OK)
        return print_failed(outcome, &err);
    printf("%.*s is queued again\n", SLICE_ARG(run->id));
    return EXIT_DONE;
}

static int drop_one(struct poison *poison, const struct ledger_run *run)
{
    struct err err;
    enum tw_err outcome = control_drop(poison->store, run->job, run->id, &err);

    if (outcome != TW_OK)
        return print_failed(outcome, &err);
    printf("%.*s is dropped\n", SLICE_ARG(run->id));
    return EXIT_DONE;
}

static const struct action ACTIONS[] = {
    {"list", false, true, true, list_one},
    {"show", true, false, true, show_one},
    {"retry", true, true, false, retry_one},
    {"drop", true, true, false, drop_one},
};

#define ACTION_COUNT (sizeof(ACTIONS) / sizeof(ACTIONS[0]))

static bool as_json(const struct poison *poison)
{
    return poison->invocation->values[OPTION_JSON] != NULL;
}

/* ---- which runs ---- */

/* Is run failed or poisoned? False for an import, which cannot be queued
 * again. */
static bool is_poisoned(const struct ledger_run *run)
{
    return (run->state == LEDGER_FAILED || run->state == LEDGER_POISONED) &&
           !slice_is(run->job, IMPORT_LEDGER_JOB);
}

static int act_on_found(
    struct poison *poison, const struct ledger_run *run, const char *id)
{
    if (slice_is(run->job, IMPORT_LEDGER_JOB)) {
        say("%s is an import, not a job: `tableward import ... --id %.*s` goes "
            "on with it",
            id, SLICE_ARG(run->id));
        return EXIT_FAILED;
    }
    if (!is_poisoned(run)) {
        say("run %s is neither failed nor poisoned: it is %.*s", id,
            SLICE_ARG(ledger_state_shown(run)));
        return EXIT_FAILED;
    }
    if (as_json(poison)) {
        runs_print_json(run, 1);
        return EXIT_DONE;
    }
    return poison->action->act(poison, run);
}

static int act_on_each(struct poison *poison, const struct runs *runs)
{
    int exit_code = EXIT_DONE;

    if (as_json(poison)) {
        runs_print_json(runs->list, runs->count);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < runs->count; i++) {
        int one = poison->action->act(poison, &runs->list[i]);

        exit_code = one == EXIT_DONE ? exit_code : one;
    }
    return exit_code;
}

static int act_on_one(struct poison *poison, const char *id)
{
    struct runs runs = {.list = NULL};
    const struct ledger_run *run;
    struct err err;
    enum tw_err code = runs_find(
        &poison->session, poison->store, slice_of(""), id, &runs, &err);
    int exit_code;

    if (code == TW_OK)
        code = runs_pick(&runs, is_poisoned, &run, &err);
    exit_code = code == TW_OK ? act_on_found(poison, run, id)
                              : print_failed(code, &err);
    runs_done(&runs);
    return exit_code;
}

static int act_on_all(struct poison *poison)
{
    struct runs runs = {.list = NULL};
    struct err err;
    enum tw_err outcome =
        runs_list(&poison->session, poison->store, &poison->query, &runs, &err);
    int exit_code = outcome == TW_OK ? act_on_each(poison, &runs)
                                     : print_failed(outcome, &err);

    runs_done(&runs);
    return exit_code;
}

static int act(struct poison *poison)
{
    bool one = poison->invocation->arg_count > 1;

    if (!poison->store && one)
        return EXIT_FAILED;
    if (!poison->store)
        return act_on_each(poison, &(struct runs){.count = 0});
    session_request_pool(&poison->session);
    return one ? act_on_one(poison, poison->invocation->args[1])
               : act_on_all(poison);
}

/* ---- the command ---- */

static int read_action(struct poison *poison)
{
    const struct invocation *invocation = poison->invocation;
    bool all = invocation->values[OPTION_ALL] != NULL;
    bool id = invocation->arg_count > 1;
    const char *names[ACTION_COUNT];
    const struct action *action;

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        names[i] = ACTIONS[i].name;
        if (strcmp(invocation->args[0], names[i]) == 0)
            poison->action = &ACTIONS[i];
    }
    action = poison->action;
    if (!action)
        return print_unknown("action", invocation->args[0],
            text_nearest(slice_of(invocation->args[0]), names, ACTION_COUNT));
    if (!action->wants_id && id)
        return print_usage("poison %s takes no ID", action->name);
    if (action->wants_id && !id && !(all && action->takes_all))
        return print_usage("poison %s wants ID%s", action->name,
            action->takes_all ? " (or --all)" : "");
    if (id && all)
        return print_usage(
            "poison %s takes an ID or --all, not both", action->name);
    if (!action->shows && as_json(poison))
        return print_usage("poison %s takes no --json", action->name);
    return EXIT_DONE;
}

static int read_query(struct poison *poison)
{
    const char *queue = poison->invocation->values[OPTION_QUEUE];
    const char *job = poison->invocation->values[OPTION_JOB];
    const char *since = poison->invocation->values[OPTION_SINCE];
    const struct jobs *jobs = &poison->session.load->jobs;
    const struct setup_queue *served;
    int64_t since_ms = 0;

    poison->query = (struct runs_query){
        .states = RUNS_STATE(LEDGER_FAILED) | RUNS_STATE(LEDGER_POISONED),
        .job = slice_of(job ? job : ""),
        .queue = slice_of(queue ? queue : ""),
        .no_imports = true,
    };
    if (job && !jobs_find(jobs, slice_of(job)) &&
        strcmp(job, LEDGER_UNREADABLE) != 0)
        return print_unknown("job", job, jobs_nearest(jobs, slice_of(job)));
    if (since && (!text_duration_ms(slice_of(since), &since_ms) ||
                     since_ms > INT64_MAX / 4 / TICKS_PER_MS))
        return print_usage(
            "--since wants a duration, such as 10m or 2d, not '%s'", since);
    if (since)
        poison->query.failed_ticks =
            platform_wall_ticks() - since_ms * TICKS_PER_MS;
    return queue ? session_queue(&poison->session, queue, &served) : EXIT_DONE;
}

static int open_ledger(struct poison *poison)
{
    if (poison->action->shows)
        session_only_reads(&poison->session);
    return session_ledger(&poison->session, false, &poison->store);
}

static int run(const struct invocation *invocation)
{
    struct poison poison = {.invocation = invocation};
    int code = read_action(&poison);

    if (code != EXIT_DONE)
        return code;
    code = session_open(&poison.session, invocation, SESSION_SOME);
    if (code == EXIT_DONE)
        code = read_query(&poison);
    if (code == EXIT_DONE)
        code = open_ledger(&poison);
    if (code == EXIT_DONE)
        code = act(&poison);
    session_close(&poison.session);
    return code;
}

static const char *const REQUIRED[] = {"list, show, retry or drop", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_QUEUE, "only those of this queue"},
    {OPTION_JOB, "only those of this job"},
    {OPTION_SINCE, "only those that ended so long ago, such as 2d"},
    {OPTION_ALL, "retry or drop every one of them"},
    {OPTION_JSON, "list and show: one array of objects, for programs"},
    {OPTION_COUNT, NULL},
};

const struct command command_poison = {
    .name = "poison",
    .arguments = "list | show ID | retry ID | drop ID",
    .summary = "shows failed and poisoned runs, queues them again, gives up",
    .details =
        "retry keeps the checkpoint and the time of the request, and puts a "
        "message on a\nqueue that serves the job. drop takes the copy from "
        "the\npoison queue, and the run is cancelled "
        "for good; the ledger keeps why it failed.\nJOB/ID where several jobs "
        "have a run of that ID.\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
