/* SPDX-License-Identifier: MIT */
/* `tableward status [ID]`: runs, from the ledger. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/cli/commands.h"
#include "worker/cli/runs.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"

#define RECENT_TICKS (24 * 3600 * TICKS_PER_S)
#define WATCH_MS 2000

/* An error is shown this far in the table; `status ID` has all of it. */
#define ERROR_SHOWN 60
#define COLUMNS 7
#define OUTPUT_MAX ((size_t)1 << 40)
/* Of the names of a run's fields. */
#define NAME_WIDTH 14

struct query {
    const struct invocation *invocation;
    struct session *session;
    struct store *store; /* NULL: nothing has been stored yet */
    struct slice job;
    const char *id;
};

/* ---- one run, for people ---- */

static void print_text(const char *name, struct slice text)
{
    struct buf lines;

    buf_init(&lines, OUTPUT_MAX);
    say_field(&lines, NAME_WIDTH, name, text);
    fputs(buf_text(&lines), stdout);
    buf_done(&lines);
}

static void print_number(const char *name, int64_t number)
{
    struct buf line;

    buf_init(&line, 64);
    say_count(&line, number);
    printf("%-*s %s\n", NAME_WIDTH, name, buf_text(&line));
    buf_done(&line);
}

static void print_moment(const char *name, int64_t ticks)
{
    char time[TEXT_TIME_MAX];

    if (ticks > 0)
        printf("%-*s %s\n", NAME_WIDTH, name, say_time(ticks, time));
}

static void print_run(const struct ledger_run *run)
{
    print_text("job", run->job);
    print_text("id", run->id);
    print_text("state", slice_of(ledger_state_name(run->state)));
    print_text("kind", run->kind);
    print_text("arguments", run->args);
    print_text("queue", run->queue);
    print_text("phase", run->phase);
    print_text("worker", run->worker);
    print_number("attempts", run->attempt);
    print_number("failures", run->failures);
    print_number("passes", run->passes);
    print_number("read", run->read);
    print_number("written", run->written);
    print_number("deleted", run->deleted);
    print_number("skipped", run->skipped);
    print_number("failed", run->failed);
    print_number("transactions", run->transactions);
    print_moment("requested", run->requested_ticks);
    print_moment("started", run->started_ticks);
    print_moment("updated", run->updated_ticks);
    print_moment("resumes", run->resumes_ticks);
    print_moment("finished", run->finished_ticks);
    print_text("error", run->error);
}

/* One id may be several jobs' run. */
static void print_each(const struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        if (i > 0)
            putchar('\n');
        print_run(&runs->list[i]);
    }
}

/* ---- many, as a table ---- */

struct row {
    const char *cells[COLUMNS];
};

static const struct row HEADER = {
    {"JOB", "ID", "STATE", "PHASE", "DONE", "REQUESTED", "ERROR"}};

static const char *visible(struct arena *arena, struct slice text, size_t max)
{
    struct slice shown = text;
    struct buf line;

    if (shown.len > max) {
        shown.len = max;
        while (
            shown.len > 0 && ((unsigned char)text.at[shown.len] & 0xC0) == 0x80)
            shown.len--;
    }
    buf_init(&line, OUTPUT_MAX);
    text_visible(&line, shown);
    if (shown.len < text.len)
        buf_add_text(&line, "...");
    shown = arena_copy(arena, buf_slice(&line));
    buf_done(&line);
    return shown.at;
}

static struct row row_of(const struct ledger_run *run, struct arena *arena)
{
    char *time = arena_alloc(arena, TEXT_TIME_MAX);
    struct buf done;
    struct row row;

    buf_init(&done, 64);
    say_count(&done, run->deleted + run->written);
    row = (struct row){{
        visible(arena, run->job, SIZE_MAX),
        visible(arena, run->id, SIZE_MAX),
        ledger_state_name(run->state),
        visible(arena, run->phase, SIZE_MAX),
        arena_copy(arena, buf_slice(&done)).at,
        say_time(run->requested_ticks, time),
        visible(arena, run->error, ERROR_SHOWN),
    }};
    buf_done(&done);
    return row;
}

static void widen(int widths[COLUMNS], const struct row *row)
{
    for (int i = 0; i < COLUMNS; i++) {
        struct slice cell = slice_of(row->cells[i]);
        int width = (int)text_utf16_units(cell);

        if (width > widths[i])
            widths[i] = width;
    }
}

/* The last column is not padded: nothing stands behind it. */
static void print_row(const int widths[COLUMNS], const struct row *row)
{
    for (int i = 0; i < COLUMNS - 1; i++) {
        int used = (int)text_utf16_units(slice_of(row->cells[i]));

        printf("%s%*s", row->cells[i], widths[i] - used + 2, "");
    }
    printf("%s\n", row->cells[COLUMNS - 1]);
}

static void print_table(const struct runs *runs)
{
    struct row *rows = mem_array(runs->count + 1, sizeof(*rows));
    int widths[COLUMNS] = {0};
    struct arena arena;

    arena_init(&arena);
    widen(widths, &HEADER);
    for (size_t i = 0; i < runs->count; i++) {
        rows[i] = row_of(&runs->list[i], &arena);
        widen(widths, &rows[i]);
    }
    print_row(widths, &HEADER);
    for (size_t i = 0; i < runs->count; i++)
        print_row(widths, &rows[i]);
    arena_done(&arena);
    mem_free(rows);
}

static void print_runs(const struct query *query, const struct runs *runs)
{
    if (query->invocation->values[OPTION_JSON])
        runs_print_json(runs->list, runs->count);
    else if (query->id)
        print_each(runs);
    else if (runs->count == 0)
        printf("no runs\n");
    else
        print_table(runs);
}

/* ---- which ---- */

/* Those not ended, those failed, and the last 24 hours. */
static void add_filter(const struct query *query, struct buf *to)
{
    char time[TEXT_TIME_MAX];

    if (query->invocation->values[OPTION_ALL])
        return;
    for (int i = LEDGER_QUEUED; i <= LEDGER_CANCELLED; i++) {
        enum ledger_state state = (enum ledger_state)i;

        if (state != LEDGER_SUCCEEDED && state != LEDGER_CANCELLED)
            buf_add_format(to, "State eq '%s' or ", ledger_state_name(state));
    }
    buf_add_format(to, "FinishedAt ge datetime'%s'",
        text_from_ticks(world_wall_ticks() - RECENT_TICKS, time));
}

static enum tw_err read_many(
    const struct query *query, struct runs *ret, struct err *err)
{
    enum tw_err code;
    struct buf filter;

    buf_init(&filter, 1024);
    add_filter(query, &filter);
    code = runs_read(
        query->session, query->store, query->job, buf_slice(&filter), ret, err);
    buf_done(&filter);
    return code;
}

static enum tw_err read_runs(
    const struct query *query, struct runs *ret, struct err *err)
{
    if (!query->store && query->id)
        return err_fail(
            err, TW_NOT_FOUND, "the ledger has no run '%s'", query->id);
    if (!query->store)
        return TW_OK;
    if (!query->id)
        return read_many(query, ret, err);
    return runs_find(
        query->session, query->store, query->job, query->id, ret, err);
}

static int show_once(struct query *query)
{
    struct runs runs = {.list = NULL};
    struct err err;
    enum tw_err code;

    /* What is watched may be made while it is watched. */
    if (!query->store) {
        int opened = session_ledger(query->session, false, &query->store);

        if (opened != EXIT_DONE)
            return opened;
    }
    code = read_runs(query, &runs, &err);
    if (code == TW_OK)
        print_runs(query, &runs);
    runs_done(&runs);
    return code == TW_OK ? EXIT_DONE : say_failed(code, &err);
}

static int watch(struct query *query)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    int code;

    do {
        if (terminal)
            printf("\033[H\033[2J");
        code = show_once(query);
        if (fflush(stdout) != 0)
            return code;
    } while (code == EXIT_DONE && !session_wait(query->session, WATCH_MS));
    return atomic_load(&query->session->stopped) ? EXIT_DONE : code;
}

static int show(struct query *query)
{
    session_lanes(query->session);
    return query->invocation->values[OPTION_WATCH] ? watch(query)
                                                   : show_once(query);
}

/* ---- the command ---- */

static int read_query(struct query *query)
{
    const char *job = query->invocation->values[OPTION_JOB];
    const struct jobs *jobs = &query->session->load->jobs;

    if (query->invocation->arg_count > 0)
        query->id = query->invocation->args[0];
    if (!job)
        return EXIT_DONE;
    query->job = slice_of(job);
    if (jobs_find(jobs, query->job) || strcmp(job, LEDGER_UNREADABLE) == 0 ||
        strcmp(job, IMPORT_LEDGER_JOB) == 0)
        return EXIT_DONE;
    return say_unknown("job", job, jobs_nearest(jobs, query->job));
}

static int run(const struct invocation *invocation)
{
    struct session session;
    struct query query = {.invocation = invocation, .session = &session};
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
    {OPTION_ALL, "all runs, however old"},
    {OPTION_WATCH, "again every two seconds, until stopped"},
    {OPTION_JSON, "one array of objects, for programs"},
    {OPTION_COUNT, NULL},
};

const struct command command_status = {
    .name = "status",
    .arguments = "[ID]",
    .summary = "shows runs, from the ledger, newest first",
    .details = "Those that have not ended, those that failed, and those of the "
               "last 24 hours; with\nID, all that is known of one run. Job - "
               "holds messages that could not be read, job\n" IMPORT_LEDGER_JOB
               " what was imported with --id.\n",
    .max_args = 1,
    .options = OPTIONS,
    .run = run,
};
