/* SPDX-License-Identifier: MIT */
/* `tableward status [ID]`: queues, and runs from the ledger. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/cli/status_print.h"
#include "worker/run/queues.h"
#include "worker/run/runs.h"
#include "worker/run/unserved.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"

#define WATCH_MS 2000
#define SINCE_MS INT64_C(86400000)
#define OLDER_MS INT64_C(600000)
#define LIMIT 50
#define LIMIT_MAX 1000000
#define OUTPUT_MAX ((size_t)1 << 40)

struct query {
    const struct invocation *invocation;
    struct session *session;
    struct store *store; /* NULL: the store's file does not exist yet */
    const char *id;
    struct runs_query runs;
    size_t failing_limit; /* --failing: maximum number of runs that are printed;
                             0: all */
    int64_t since_ms, older_ms;
};

static bool is_given(const struct query *query, enum option option)
{
    return query->invocation->values[option] != NULL;
}

/* ---- printing ---- */

/* Add each run in detail. There may be several, because several runs may have
 * the given id, or an id that begins with the given text. */
static void add_each(const struct runs *runs, int64_t now_ticks, struct buf *to)
{
    for (size_t i = 0; i < runs->count; i++) {
        if (i > 0)
            buf_add_char(to, '\n');
        status_add_run(&runs->list[i], now_ticks, to);
    }
}

static void print_runs(
    const struct query *query, const struct runs *runs, int64_t now_ticks)
{
    struct buf text;

    if (is_given(query, OPTION_JSON)) {
        status_print_json(runs->list, runs->count);
        return;
    }
    buf_init(&text, OUTPUT_MAX);
    if (query->id)
        add_each(runs, now_ticks, &text);
    else if (runs->count > 0)
        status_add_table(runs, now_ticks, &text);
    else if (!is_given(query, OPTION_FAILING))
        buf_add_text(&text, "no runs\n");
    fputs(buf_text(&text), stdout);
    buf_done(&text);
}

/* ---- reading ---- */

static enum tw_err read_runs(
    struct query *query, struct runs *ret, struct err *err)
{
    struct runs_reader reader = session_reader(query->session, query->store);

    if (!query->store && query->id)
        return err_fail(
            err, TW_NOT_FOUND, "the ledger has no run '%s'", query->id);
    if (!query->store)
        return TW_OK;
    if (query->id)
        return runs_find_prefix(&reader, query->runs.job, query->id, ret, err);
    query->runs.since_ticks =
        platform_wall_ticks() - query->since_ms * TICKS_PER_MS;
    if (is_given(query, OPTION_FAILING) && is_given(query, OPTION_SINCE))
        query->runs.failed_ticks = query->runs.since_ticks;
    return runs_list(&reader, &query->runs, ret, err);
}

/* Put the reason why no worker can take the run into run->error, unless the run
 * has an error. With --json the properties stay those of the ledger. */
static void show_unserved(const struct query *query, struct ledger_run *run)
{
    const struct load *load = query->session->load;
    struct buf reason;

    if (run->error.len > 0 || is_given(query, OPTION_JSON))
        return;
    buf_init(&reason, LEDGER_MAX_ERROR_BYTES);
    unserved_add_reason(&load->jobs, &load->setup, run, &reason);
    ledger_set_error(run, buf_text(&reason));
    buf_done(&reason);
}

/* Is the run failed, poisoned, damaged or held, or can no worker take it? */
static bool is_failing(
    const struct query *query, struct ledger_run *run, int64_t now_ticks)
{
    const struct load *load = query->session->load;

    if (unserved_is(&load->jobs, &load->setup, run, now_ticks)) {
        show_unserved(query, run);
        return true;
    }
    return run->state == LEDGER_FAILED || run->state == LEDGER_POISONED ||
           run->state == LEDGER_DAMAGED || ledger_is_held(run);
}

static void keep_failing(
    const struct query *query, struct runs *runs, int64_t now_ticks)
{
    size_t kept = 0;

    for (size_t i = 0; i < runs->count; i++) {
        struct ledger_run *run = &runs->list[i];

        if (is_failing(query, run, now_ticks))
            runs->list[kept++] = *run;
        else
            ledger_run_done(run);
    }
    runs->count = kept;
}

static enum tw_err read_queues(
    struct query *query, struct queues *ret, struct err *err)
{
    struct runs_reader reader = session_reader(query->session, query->store);

    if (!query->store || !query->store->capabilities.has_queues)
        return TW_OK;
    return queues_read(&reader, &query->session->load->setup, ret, err);
}

/* ---- what is shown ---- */

static void print_queues_json(const struct queues *queues)
{
    struct buf text;

    buf_init(&text, OUTPUT_MAX);
    queues_add_json(queues, &text);
    printf("%s\n", buf_text(&text));
    buf_done(&text);
}

static int show_queues(struct query *query)
{
    struct queues queues = {.list = NULL};
    struct err err;
    enum tw_err outcome = read_queues(query, &queues, &err);

    if (outcome == TW_OK && is_given(query, OPTION_JSON))
        print_queues_json(&queues);
    else if (outcome == TW_OK)
        status_print_queues(&queues, platform_wall_ticks(), -1);
    queues_done(&queues);
    return outcome == TW_OK ? EXIT_DONE : print_failed(outcome, &err);
}

static int show_runs(struct query *query)
{
    struct runs runs = {.list = NULL};
    struct err err;
    enum tw_err outcome = read_runs(query, &runs, &err);

    if (outcome == TW_OK)
        print_runs(query, &runs, platform_wall_ticks());
    runs_done(&runs);
    return outcome == TW_OK ? EXIT_DONE : print_failed(outcome, &err);
}

static size_t count_late(
    const struct queues *queues, int64_t now_ticks, int64_t older_ticks)
{
    size_t late = 0;

    for (size_t i = 0; i < queues->count; i++)
        late += queues_is_late(&queues->list[i], now_ticks, older_ticks);
    return late;
}

/* Print the newest of the failing runs, as many as --limit or the screen
 * allows. */
static void print_failing(
    const struct query *query, const struct runs *runs, int64_t now_ticks)
{
    struct runs shown = *runs;

    if (query->failing_limit > 0 && shown.count > query->failing_limit)
        shown.count = query->failing_limit;
    print_runs(query, &shown, now_ticks);
}

/* Print failing runs and late queues, for monitoring; prints nothing if there
 * are none. */
static int show_failing(struct query *query)
{
    int64_t now_ticks = platform_wall_ticks();
    int64_t older_ticks = query->older_ms * TICKS_PER_MS;
    struct queues queues = {.list = NULL};
    struct runs runs = {.list = NULL};
    struct err err;
    enum tw_err outcome = read_queues(query, &queues, &err);
    size_t late = 0;

    if (outcome == TW_OK)
        outcome = read_runs(query, &runs, &err);
    if (outcome == TW_OK) {
        keep_failing(query, &runs, now_ticks);
        late = count_late(&queues, now_ticks, older_ticks);
        if (!is_given(query, OPTION_JSON))
            status_print_queues(&queues, now_ticks, older_ticks);
        print_failing(query, &runs, now_ticks);
        if (runs.count + late > 0)
            say("%zu %s failed, poisoned or held, %zu %s late", runs.count,
                runs.count == 1 ? "run is" : "runs are", late,
                late == 1 ? "queue is" : "queues are");
    }
    late += runs.count;
    runs_done(&runs);
    queues_done(&queues);
    if (outcome != TW_OK)
        return print_failed(outcome, &err);
    return late > 0 ? EXIT_FAILED : EXIT_DONE;
}

static int show_all(struct query *query)
{
    bool queues = !query->id && !is_given(query, OPTION_JSON) &&
                  query->runs.job.len == 0 && query->runs.states == 0;
    int code = queues ? show_queues(query) : EXIT_DONE;

    return code == EXIT_DONE ? show_runs(query) : code;
}

static int show_once(struct query *query)
{
    /* With --watch the store's file may be created between two calls. */
    if (!query->store) {
        int opened = session_ledger(query->session, false, &query->store);

        if (opened != EXIT_DONE)
            return opened;
    }
    if (is_given(query, OPTION_QUEUES))
        return show_queues(query);
    if (is_given(query, OPTION_FAILING))
        return show_failing(query);
    return show_all(query);
}

/* Number of lines of the screen that show no run: the headings, and the line
 * below the last run, where the cursor stays. With --failing, fit_screen() adds
 * 1 for the line that counts the runs. */
#define OTHER_LINES 2
/* Control sequences of a terminal. CLEAR_AND_CUT_LINES: clear the screen, and
 * from now on cut lines that are longer than the screen is wide. WRAP_LINES:
 * from now on wrap such lines. */
#define CLEAR_AND_CUT_LINES "\033[H\033[2J\033[?7l"
#define WRAP_LINES "\033[?7h"

/* Lowers limit (0: no limit) to the number of runs that fit on the screen below
 * the lines of the queues. */
static size_t fit_screen(const struct query *query, size_t limit)
{
    size_t others = query->session->load->setup.queue_count + OTHER_LINES +
                    is_given(query, OPTION_FAILING);
    struct winsize size;
    size_t room;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
        return limit;
    room = size.ws_row > others ? size.ws_row - others : 1;
    return limit == 0 || limit > room ? room : limit;
}

/* Is the screen drawn again after a call that ended with code? Yes if the call
 * succeeded, if --failing found something, and during an outage. No if the
 * first call could not reach the store, because its address or its credentials
 * may be wrong. */
static bool goes_on(const struct query *query, int code, bool was_shown)
{
    return code == EXIT_DONE ||
           (code == EXIT_FAILED && is_given(query, OPTION_FAILING)) ||
           (code == EXIT_UNREACHABLE && was_shown);
}

static int watch(struct query *query)
{
    bool terminal = isatty(STDOUT_FILENO) == 1, was_shown = false;
    size_t *limit = is_given(query, OPTION_FAILING) ? &query->failing_limit
                                                    : &query->runs.limit;
    size_t asked = *limit;
    int code;

    do {
        if (terminal) {
            *limit = fit_screen(query, asked);
            printf(CLEAR_AND_CUT_LINES);
        }
        code = show_once(query);
        if (terminal)
            printf(WRAP_LINES);
        if (fflush(stdout) != 0)
            return code;
        was_shown |= code != EXIT_UNREACHABLE;
    } while (goes_on(query, code, was_shown) &&
             !session_wait(query->session, WATCH_MS));
    return atomic_load(&query->session->stopped) ? EXIT_DONE : code;
}

static int show(struct query *query)
{
    session_request_pool(query->session);
    return is_given(query, OPTION_WATCH) ? watch(query) : show_once(query);
}

/* ---- the command line ---- */

static int read_job(struct query *query)
{
    const char *job = query->invocation->values[OPTION_JOB];
    const struct jobs *jobs = &query->session->load->jobs;

    if (!job)
        return EXIT_DONE;
    query->runs.job = slice_of(job);
    if (jobs_find(jobs, query->runs.job) ||
        strcmp(job, LEDGER_UNREADABLE) == 0 ||
        strcmp(job, IMPORT_LEDGER_JOB) == 0)
        return EXIT_DONE;
    return print_unknown("job", job, jobs_nearest(jobs, query->runs.job));
}

static int read_state(struct slice name, unsigned *states)
{
    const char *names[LEDGER_NEWER];
    enum ledger_state state;
    char word[64];

    if (ledger_state_named(name, &state)) {
        *states |= RUNS_STATE(state);
        return EXIT_DONE;
    }
    for (int i = 0; i < LEDGER_NEWER; i++)
        names[i] = ledger_state_name((enum ledger_state)i);
    (void)snprintf(word, sizeof(word), "%.*s",
        (int)(name.len < 63 ? name.len : 63), name.at);
    return print_unknown(
        "state", word, text_nearest(name, names, LEDGER_NEWER));
}

static int read_states(struct query *query)
{
    const char *at = query->invocation->values[OPTION_STATE];
    int code = EXIT_DONE;

    while (at && code == EXIT_DONE) {
        size_t len = strcspn(at, ",");

        code = read_state((struct slice){at, len}, &query->runs.states);
        at = at[len] ? at + len + 1 : NULL;
    }
    return code;
}

static int read_duration(const struct query *query, enum option option,
    const char *name, int64_t *ms)
{
    const char *text = query->invocation->values[option];

    if (text && (!text_duration_ms(slice_of(text), ms) ||
                    *ms > INT64_MAX / 4 / TICKS_PER_MS))
        return print_usage(
            "--%s must be a duration, such as 10m or 2d, not '%s'", name, text);
    return EXIT_DONE;
}

static int read_limit(struct query *query)
{
    const char *text = query->invocation->values[OPTION_LIMIT];
    int64_t limit = LIMIT;

    if (text && !text_int64(slice_of(text), 0, LIMIT_MAX, &limit))
        return print_usage(
            "--limit must be a number from 0 (all) to %d, not '%s'", LIMIT_MAX,
            text);
    query->runs.limit = (size_t)limit;
    return EXIT_DONE;
}

/* Refuse combinations of options that select different lists. */
static int check_together(const struct query *query)
{
    static const enum option others[] = {
        OPTION_STATE, OPTION_SINCE, OPTION_LIMIT, OPTION_JOB};
    bool failing = is_given(query, OPTION_FAILING);
    bool queues = is_given(query, OPTION_QUEUES);

    if (failing && queues)
        return print_usage("status takes --failing or --queues, not both");
    if ((failing || queues) && query->id)
        return print_usage(
            "status takes only one of ID, --failing and --queues");
    if (failing && is_given(query, OPTION_STATE))
        return print_usage("--failing shows failed, poisoned and held runs, so "
                           "it takes no --state");
    if (is_given(query, OPTION_OLDER) && !failing)
        return print_usage("--older needs --failing");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (queues && is_given(query, others[i]))
            return print_usage("--queues shows no runs, so it takes no "
                               "--state, --since, --limit or --job");
    return EXIT_DONE;
}

static void prepare_failing(struct query *query)
{
    query->failing_limit =
        is_given(query, OPTION_LIMIT) ? query->runs.limit : 0;
    query->runs.states = RUNS_STATE(LEDGER_FAILED) |
                         RUNS_STATE(LEDGER_POISONED) |
                         RUNS_STATE(LEDGER_WAITING) |
                         RUNS_STATE(LEDGER_QUEUED) | RUNS_STATE(LEDGER_RUNNING);
    query->runs.no_imports = true;
    query->runs.limit = 0;
}

static int read_query(struct query *query)
{
    int code = read_job(query);

    if (query->invocation->arg_count > 0)
        query->id = query->invocation->args[0];
    if (code == EXIT_DONE)
        code = read_states(query);
    if (code == EXIT_DONE)
        code = read_duration(query, OPTION_SINCE, "since", &query->since_ms);
    if (code == EXIT_DONE)
        code = read_duration(query, OPTION_OLDER, "older", &query->older_ms);
    if (code == EXIT_DONE)
        code = read_limit(query);
    if (code == EXIT_DONE)
        code = check_together(query);
    if (code == EXIT_DONE && is_given(query, OPTION_FAILING))
        prepare_failing(query);
    return code;
}

static int run(const struct invocation *invocation)
{
    struct session session;
    struct query query = {.invocation = invocation,
        .session = &session,
        .since_ms = SINCE_MS,
        .older_ms = OLDER_MS};
    int code = session_open(&session, invocation, SESSION_SOME);

    if (code == EXIT_DONE)
        code = read_query(&query);
    if (code == EXIT_DONE)
        code = show(&query);
    session_close(&session);
    return code;
}

static const struct command_option OPTIONS[] = {
    {OPTION_JOB, "only runs of this job"},
    {OPTION_STATE, "only runs in these states, such as failed,paused"},
    {OPTION_SINCE, "show succeeded and cancelled runs only if they ended "
                   "within this time (default: 1d); with --failing, the same "
                   "for failed and poisoned runs (default: all)"},
    {OPTION_LIMIT, "at most this many runs, newest first; default: 50; 0: all"},
    {OPTION_WATCH, "repeat every two seconds, until stopped"},
    {OPTION_QUEUES, "only the queues"},
    {OPTION_FAILING, "for monitoring: only failed, poisoned and held runs, and "
                     "late queues; exit code 1 if there are any"},
    {OPTION_OLDER, "with --failing: a queue is late if its oldest visible "
                   "message is older than this; default: 10m"},
    {OPTION_JSON, "one array of objects, for programs"},
    {OPTION_COUNT, NULL},
};

const struct command command_status = {
    .name = "status",
    .arguments = "[ID]",
    .summary = "shows queues, and runs from the ledger, newest first",
    .details = "Shows runs that have not ended, failed runs, and runs that "
               "ended in the last 24\n"
               "hours. With ID, or the beginning of an ID, shows everything "
               "about that run. Invalid\n"
               "messages that name no job of the configuration are listed "
               "under the job named \"-\",\n"
               "imports with --id under the job named \"" IMPORT_LEDGER_JOB
               "\". SHARE and LEFT are known in the\n"
               "first round of a run that has read 20,000 entities, except of "
               "a cascade.\n",
    .max_args = 1,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
