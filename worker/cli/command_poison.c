/* SPDX-License-Identifier: MIT */
/*
 * `tableward poison list|show|retry|drop`: poisoned and failed runs. They are
 * read from the ledger, because only the first 32 messages of a queue can be
 * peeked.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/one_run.h"
#include "worker/cli/reason.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/cli/status_print.h"
#include "worker/run/control.h"
#include "worker/run/runs.h"
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
    _Atomic size_t failed;   /* number of runs for which the action failed */
    _Atomic size_t changed;  /* number of runs that are queued again under a
                                changed definition of their job */
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

/* Add the first line of the error; the lines below it name entities. */
static void add_first_line(struct buf *line, struct slice error)
{
    const char *end = error.len > 0 ? memchr(error.at, '\n', error.len) : NULL;

    if (end)
        error.len = (size_t)(end - error.at);
    text_visible(line, error);
    buf_add_text(line, end ? " ..." : "");
}

/* Print one line for the runs that ended for the same reason. run: the newest
 * of these runs. id: the id of one of them. more: the number of the other
 * runs. */
static void list_line(
    const struct ledger_run *run, struct slice id, size_t more)
{
    char time[TEXT_TIME_MAX];
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    buf_add_format(&line, "%s  %-8s  ", print_time(run->finished_ticks, time),
        ledger_state_name(run->state));
    text_visible(&line, run->job);
    buf_add_text(&line, "  ");
    text_visible(&line, id);
    if (more > 0) {
        buf_add_text(&line, " and ");
        print_count(&line, (int64_t)more);
        buf_add_text(&line, " more");
    }
    buf_add_text(&line, "  ");
    add_first_line(&line, run->error);
    printf("%s\n", buf_text(&line));
    buf_done(&line);
}

static int list_one(struct poison *poison, const struct ledger_run *run)
{
    (void)poison;
    list_line(run, run->id, 0);
    return EXIT_DONE;
}

/* Add the body of the run's message in the poison queue. Only the first 32
 * messages can be peeked, so the body of a later message is not added. */
static void add_message(
    struct poison *poison, const struct ledger_run *run, struct buf *to)
{
    struct runs_reader reader = session_reader(&poison->session, poison->store);
    struct slice queue, text;
    struct arena arena;
    struct err err;

    if (run->queue.len == 0 || run->poison_id.len == 0)
        return;
    arena_init(&arena);
    if (runs_message(&reader, run, &arena, &queue, &text, &err) == TW_OK) {
        print_field(to, NAME_WIDTH, "message", text);
    } else {
        buf_add_format(to, "%-*s not among the first %d messages of queue ",
            NAME_WIDTH, "message", QUEUE_MAX_GET);
        text_visible(to, queue);
        buf_add_char(to, '\n');
    }
    arena_done(&arena);
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

/* Is the message's body in the poison queue only? It is if the message never
 * became a run. */
static bool is_body_only_queued(const struct ledger_run *run)
{
    return run->args.len == 0 && run->queue.len > 0;
}

/* Is a run retried if the definition of its job has changed? A single run is,
 * and the command prints a sentence about the change. With --all such runs are
 * retried only if --accept-definition is given. */
static bool accepts_definitions(const struct poison *poison)
{
    return !poison->invocation->values[OPTION_ALL] ||
           poison->invocation->values[OPTION_ACCEPT_DEFINITION];
}

static void note_changed(struct poison *poison, const struct ledger_run *run)
{
    atomic_fetch_add(&poison->changed, 1);
    if (!poison->invocation->values[OPTION_ALL])
        say_note("the definition of job %.*s has changed since run %.*s began: "
                 "the run starts over under the present one",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
}

static int retry_one(struct poison *poison, const struct ledger_run *run)
{
    struct control_retried retried;
    struct err err;
    enum tw_err outcome = control_retry(load_lend(poison->session.load),
        run->job, run->id, accepts_definitions(poison), &retried, &err);

    if (retried.changed && outcome != TW_CONFLICT)
        note_changed(poison, run);
    if (outcome == TW_NOT_FOUND && retried.unserved &&
        !is_body_only_queued(run) &&
        jobs_find(&poison->session.load->jobs, run->job))
        return end_unserved(run);
    if (outcome == TW_NOT_FOUND && retried.unserved) {
        say("%s", err.text);
        return EXIT_UNREACHABLE;
    }
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
        say("%s is an import, not a job: `tableward import ... --id %.*s` "
            "continues it",
            id, SLICE_ARG(run->id));
        return EXIT_FAILED;
    }
    if (!is_poisoned(run) &&
        !(poison->action->act == retry_one && control_was_retried(run))) {
        say("run %s is neither failed nor poisoned: it is %.*s", id,
            SLICE_ARG(ledger_state_shown(run)));
        return EXIT_FAILED;
    }
    if (as_json(poison)) {
        status_print_json(run, 1);
        return EXIT_DONE;
    }
    return poison->action->act(poison, run);
}

/* ---- list: one line for all runs that ended for the same reason ---- */

/* A run and the reason of its error (reason.h). */
struct reasoned {
    const struct ledger_run *run;
    struct slice reason;
};

/* Runs of one job that ended in the same state for the same reason. The line of
 * a group has the id of its oldest run, whose message `show` can most likely
 * print: only the first messages of a poison queue can be peeked, and they
 * belong to the oldest runs. */
struct group {
    const struct ledger_run *newest, *oldest;
    size_t count;
};

/* Order by job, state and reason, so that each group is contiguous. Within a
 * group keep the order of the list, which has the newest run first. */
static int compare_reasons(const void *a, const void *b)
{
    const struct reasoned *one = a, *other = b;
    int order = slice_compare(one->run->job, other->run->job);

    if (order == 0)
        order = (int)one->run->state - (int)other->run->state;
    if (order == 0)
        order = slice_compare(one->reason, other->reason);
    return order != 0 ? order
                      : (one->run > other->run) - (one->run < other->run);
}

static bool is_same_reason(const struct reasoned *a, const struct reasoned *b)
{
    return a->run->state == b->run->state &&
           slice_equal(a->run->job, b->run->job) &&
           slice_equal(a->reason, b->reason);
}

static int compare_newest(const void *a, const void *b)
{
    const struct group *one = a, *other = b;

    return (one->newest > other->newest) - (one->newest < other->newest);
}

/* Sort the runs with compare_reasons(). Owned: mem_free(). */
static struct reasoned *sort_by_reason(
    const struct runs *runs, struct arena *arena)
{
    struct reasoned *sorted = mem_array(runs->count + 1, sizeof(*sorted));
    struct buf reason;

    buf_init(&reason, LINE_MAX_BYTES);
    for (size_t i = 0; i < runs->count; i++) {
        buf_clear(&reason);
        reason_add(runs->list[i].error, &reason);
        sorted[i] = (struct reasoned){
            &runs->list[i], arena_copy(arena, buf_slice(&reason))};
    }
    buf_done(&reason);
    qsort(sorted, runs->count, sizeof(*sorted), compare_reasons);
    return sorted;
}

/* Make the groups of runs; the group with the newest run is the first. Owned:
 * mem_free(). */
static struct group *make_groups(const struct runs *runs, size_t *ret_count)
{
    struct group *groups = mem_array(runs->count + 1, sizeof(*groups));
    struct reasoned *sorted;
    struct arena arena;
    size_t count = 0;

    arena_init(&arena);
    sorted = sort_by_reason(runs, &arena);
    for (size_t i = 0; i < runs->count; i++) {
        if (i == 0 || !is_same_reason(&sorted[i - 1], &sorted[i]))
            groups[count++] = (struct group){sorted[i].run, NULL, 0};
        groups[count - 1].oldest = sorted[i].run;
        groups[count - 1].count++;
    }
    qsort(groups, count, sizeof(*groups), compare_newest);
    mem_free(sorted);
    arena_done(&arena);
    *ret_count = count;
    return groups;
}

static void list_groups(const struct runs *runs)
{
    size_t count;
    struct group *groups = make_groups(runs, &count);

    for (size_t i = 0; i < count; i++)
        list_line(groups[i].newest, groups[i].oldest->id, groups[i].count - 1);
    mem_free(groups);
}

/* ---- retry and drop of many runs ---- */

/* Maximum number of threads that act on runs, besides the calling thread. The
 * action on a run makes several requests, one after another. */
#define AT_ONCE 16

/* Runs that several threads act on. */
struct crew {
    struct poison *poison;
    const struct ledger_run **runs;
    size_t count;
    _Atomic size_t next;
    _Atomic int exit_code; /* exit code of the action that failed last */
};

static void act_on_next(void *arg)
{
    struct crew *crew = arg;
    size_t i;

    while (!atomic_load(&crew->poison->session.stopped) &&
           (i = atomic_fetch_add(&crew->next, 1)) < crew->count) {
        int code = crew->poison->action->act(crew->poison, crew->runs[i]);

        if (code == EXIT_DONE)
            continue;
        atomic_store(&crew->exit_code, code);
        atomic_fetch_add(&crew->poison->failed, 1);
    }
}

/* Act on all runs. If the action failed for a run, returns the exit code of
 * such a run. */
static int act_at_once(
    struct poison *poison, const struct ledger_run **runs, size_t count)
{
    struct crew crew = {.poison = poison, .runs = runs, .count = count};
    struct platform_thread threads[AT_ONCE];
    size_t started = 0;

    atomic_init(&crew.next, 0);
    atomic_init(&crew.exit_code, EXIT_DONE);
    for (; started + 1 < count && started < AT_ONCE; started++)
        platform_start(&threads[started], "poison", act_on_next, &crew);
    act_on_next(&crew);
    while (started > 0)
        platform_join(&threads[--started]);
    return atomic_load(&crew.exit_code);
}

/* Runs to act on, sorted by the ids of their poison copies (PoisonId). done[i]:
 * runs[i] was acted on, or is being acted on. */
struct left {
    const struct ledger_run **runs;
    bool *done;
    size_t count;
};

static int compare_copies(const void *a, const void *b)
{
    const struct ledger_run *const *one = a, *const *other = b;

    return slice_compare((*one)->poison_id, (*other)->poison_id);
}

/* Returns the index in left of the run whose poison copy has this id;
 * left->count: there is none. */
static size_t find_left(const struct left *left, struct slice copy_id)
{
    size_t from = 0, below = left->count;

    while (from < below) {
        size_t middle = from + (below - from) / 2;

        if (slice_compare(left->runs[middle]->poison_id, copy_id) < 0)
            from = middle + 1;
        else
            below = middle;
    }
    return from < left->count &&
                   slice_equal(left->runs[from]->poison_id, copy_id)
               ? from
               : left->count;
}

/* Find the runs in left that are not done and whose copies are among the first
 * messages of queue, and mark them as done. Returns their number. */
static size_t take_first(struct poison *poison, struct slice queue,
    struct left *left, const struct ledger_run *ret[QUEUE_MAX_GET])
{
    struct runs_reader reader = session_reader(&poison->session, poison->store);
    struct messages copies;
    struct err err;
    size_t count = 0;

    messages_init(&copies);
    if (runs_peek(&reader, queue, &copies, &err) != TW_OK)
        copies.count = 0;
    for (size_t i = 0; i < copies.count; i++) {
        size_t at = find_left(left, copies.list[i].id);

        if (at == left->count || left->done[at] || count == QUEUE_MAX_GET)
            continue;
        left->done[at] = true;
        ret[count++] = left->runs[at];
    }
    messages_done(&copies);
    return count;
}

/*
 * Act on runs that may have the body of their message only in a poison queue.
 * Only the first 32 messages of a queue can be peeked. So the runs whose
 * copies are among these messages are acted on first, which removes the
 * copies, so that the next messages can be peeked.
 */
static int act_on_copies(struct poison *poison, struct left *left)
{
    const struct ledger_run *first[QUEUE_MAX_GET];
    int exit_code = EXIT_DONE, code;
    size_t count;

    qsort(left->runs, left->count, sizeof(*left->runs), compare_copies);
    for (size_t i = 0;
         i < left->count && !atomic_load(&poison->session.stopped);) {
        if (left->done[i]) {
            i++;
            continue;
        }
        count = take_first(poison, left->runs[i]->queue, left, first);
        if (count == 0) { /* no poison copy can be peeked: the action itself
                             reports this for each run */
            first[count++] = left->runs[i];
            left->done[i] = true;
        }
        code = act_at_once(poison, first, count);
        exit_code = code == EXIT_DONE ? exit_code : code;
    }
    return exit_code;
}

/* Act on all runs, the oldest first; runs has the newest first. */
static int act_on_many(struct poison *poison, const struct runs *runs)
{
    const struct ledger_run **list = mem_array(runs->count + 1, sizeof(*list));
    struct left left = {mem_array(runs->count + 1, sizeof(*left.runs)),
        mem_array(runs->count + 1, sizeof(*left.done)), 0};
    size_t count = 0;
    int exit_code, code;

    for (size_t i = runs->count; i-- > 0;) {
        if (is_body_only_queued(&runs->list[i]))
            left.runs[left.count++] = &runs->list[i];
        else
            list[count++] = &runs->list[i];
    }
    exit_code = act_at_once(poison, list, count);
    code = act_on_copies(poison, &left);
    mem_free(list);
    mem_free(left.runs);
    mem_free(left.done);
    if (atomic_load(&poison->session.stopped))
        return session_stopped();
    if (atomic_load(&poison->changed) > 0)
        say_note("runs that start over, because the definition of their job "
                 "has changed since they began: %zu",
            atomic_load(&poison->changed));
    if (runs->count > 1 && atomic_load(&poison->failed) > 0)
        say("poison %s did not succeed for %zu of %zu runs: the lines above "
            "say why",
            poison->action->name, atomic_load(&poison->failed), runs->count);
    return code == EXIT_DONE ? exit_code : code;
}

static int act_on_each(struct poison *poison, const struct runs *runs)
{
    bool all = poison->invocation->values[OPTION_ALL] != NULL;

    if (as_json(poison))
        status_print_json(runs->list, runs->count);
    else if (poison->action->shows && all)
        for (size_t i = 0; i < runs->count; i++)
            list_line(&runs->list[i], runs->list[i].id, 0);
    else if (poison->action->shows)
        list_groups(runs);
    else
        return act_on_many(poison, runs);
    return EXIT_DONE;
}

static int act_on_one(struct poison *poison, const char *id)
{
    struct runs_reader reader = session_reader(&poison->session, poison->store);
    struct runs runs = {.list = NULL};
    const struct ledger_run *run;
    struct err err;
    enum tw_err outcome =
        runs_find(&reader, poison->query.job, id, &runs, &err);
    int exit_code;

    if (outcome == TW_OK)
        outcome = runs_pick(&runs, is_poisoned, &run, &err);
    exit_code = outcome == TW_OK ? act_on_found(poison, run, id)
                                 : print_failed(outcome, &err);
    runs_done(&runs);
    return exit_code;
}

static int act_on_all(struct poison *poison)
{
    struct runs_reader reader = session_reader(&poison->session, poison->store);
    struct runs runs = {.list = NULL};
    struct err err;
    enum tw_err outcome = runs_list(&reader, &poison->query, &runs, &err);
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
        return print_usage("poison %s needs an ID%s", action->name,
            action->takes_all ? " (or --all)" : "");
    if (id && all)
        return print_usage(
            "poison %s takes an ID or --all, not both", action->name);
    if (invocation->values[OPTION_ACCEPT_DEFINITION] &&
        (action->act != retry_one || !all))
        return print_usage("--accept-definition is for poison retry --all");
    if (id &&
        (invocation->values[OPTION_QUEUE] || invocation->values[OPTION_SINCE]))
        return print_usage(
            "poison %s with an ID takes no --queue and no --since",
            action->name);
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
            "--since must be a duration, such as 10m or 2d, not '%s'", since);
    if (since)
        poison->query.failed_ticks =
            platform_wall_ticks() - since_ms * TICKS_PER_MS;
    return queue ? session_queue(&poison->session, queue, &served) : EXIT_DONE;
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
    if (code == EXIT_DONE && poison.action->shows)
        session_only_reads(&poison.session);
    if (code == EXIT_DONE)
        code = session_ledger(&poison.session, false, &poison.store);
    if (code == EXIT_DONE)
        code = act(&poison);
    session_close(&poison.session);
    return code;
}

static const char *const REQUIRED[] = {"list, show, retry or drop", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_QUEUE, "only runs of this queue"},
    {OPTION_JOB, "only runs of this job"},
    {OPTION_SINCE, "only runs that ended within this time, such as 2d"},
    {OPTION_ALL,
        "with retry and drop, all runs that the other options select; with "
        "list, one line for each run, not for each reason"},
    {OPTION_ACCEPT_DEFINITION,
        "with retry --all: also retry runs that began under another definition "
        "of their job; they start over"},
    {OPTION_JSON, "list and show: one array of objects, for programs"},
    {OPTION_COUNT, NULL},
};

const struct command command_poison = {
    .name = "poison",
    .arguments = "list | show ID | retry ID | drop ID",
    .summary =
        "shows failed and poisoned runs, queues them again, or drops them",
    .details =
        "`list` prints one line for all runs of a job that ended for the same "
        "reason: when the\nnewest ended, and the id of the oldest; `show` can "
        "print the message of that run.\nInvalid messages that name no job of "
        "the configuration are listed under the job named\n\"-\". `retry` "
        "keeps the checkpoint and the time of the request, and puts a message "
        "on a\nqueue that serves the job. If the job's definition has changed "
        "since the run began,\n`retry ID` says so, and the run starts over "
        "under the present one; `retry --all` does\nnot change such runs, and "
        "names them. `drop` deletes the message from the poison queue\nand "
        "cancels the run for good; the ledger keeps the reason of the failure. "
        "If several\njobs have a run of that ID, write JOB/ID.\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
