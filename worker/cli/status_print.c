/* SPDX-License-Identifier: MIT */
/* Lays out runs of the ledger for people. */
#include "worker/cli/status_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/run/estimate.h"
#include "worker/run/queues.h"
#include "worker/run/runs.h"

/* The width of the names of a run's fields. */
#define NAME_WIDTH 14
/* The maximum number of bytes of a cell of the table; `status ID` prints the
 * whole text. */
#define ARGUMENTS_SHOWN 40
#define REASON_SHOWN 60
#define CELL_MAX ((size_t)1024 * 1024)
#define JSON_MAX_BYTES ((size_t)1 << 40)

/* ---- values computed from several properties ---- */

/* Add the state and what the run waits for: "waiting: settle", or "held: store"
 * if an operator or a service must remove the cause. */
static void add_state(const struct ledger_run *run, struct buf *to)
{
    if (run->state != LEDGER_WAITING || run->waits_for.len == 0) {
        text_visible(to, ledger_state_shown(run));
        return;
    }
    buf_add_text(to, ledger_is_held(run) ? "held: " : "waiting: ");
    text_visible(to, run->waits_for);
}

/* Add the arguments as on the command line: channel=Football. */
static void add_arguments(const struct ledger_run *run, struct buf *to)
{
    struct json *args = NULL;

    if (run->args.len == 0 || json_parse(run->args, 1, &args, NULL) != TW_OK) {
        text_visible(to, run->args);
        return;
    }
    for (size_t i = 0; json_type(args) == JSON_OBJECT && i < json_count(args);
         i++) {
        if (i > 0)
            buf_add_char(to, ' ');
        text_visible(to, json_name(args, i));
        buf_add_char(to, '=');
        if (json_type(json_value(args, i)) == JSON_STRING)
            text_visible(to, json_string(json_value(args, i)));
    }
    json_free(args);
}

/* ---- one run ---- */

static void add_text(struct buf *to, const char *name, struct slice text)
{
    print_field(to, NAME_WIDTH, name, text);
}

static void add_number(struct buf *to, const char *name, int64_t number)
{
    buf_add_format(to, "%-*s ", NAME_WIDTH, name);
    print_count(to, number);
    buf_add_char(to, '\n');
}

static void add_moment(struct buf *to, const char *name, int64_t ticks)
{
    char time[TEXT_TIME_MAX];

    if (ticks > 0)
        buf_add_format(
            to, "%-*s %s\n", NAME_WIDTH, name, print_time(ticks, time));
}

/* Add the state of the lease: "renewed 3 s ago, expires in 57 s". */
static void add_lease(
    const struct ledger_run *run, int64_t now_ticks, struct buf *to)
{
    int64_t left = run->lease_until_ticks - now_ticks;

    if (run->state != LEDGER_RUNNING || run->updated_ticks == 0)
        return;
    buf_add_format(to, "%-*s renewed ", NAME_WIDTH, "lease");
    print_age(to, now_ticks - run->updated_ticks);
    buf_add_text(to, " ago");
    if (estimate_run(run, now_ticks).expired) {
        buf_add_text(to, ", expired ");
        print_age(to, -left);
        buf_add_text(to, " ago: its worker was killed, hangs or cannot reach "
                         "the ledger; another worker can continue the run");
    } else if (run->owner.len > 0 && run->lease_until_ticks > 0) {
        buf_add_text(to, ", expires in ");
        print_age(to, left);
    }
    buf_add_char(to, '\n');
}

static void add_progress(
    const struct ledger_run *run, int64_t now_ticks, struct buf *to)
{
    struct estimate estimate = estimate_run(run, now_ticks);

    if (estimate.share >= 0)
        buf_add_format(
            to, "%-*s %.1f %%\n", NAME_WIDTH, "share", 100 * estimate.share);
    if (estimate.rate >= 0)
        buf_add_format(to, "%-*s %.1f/s\n", NAME_WIDTH, "rate", estimate.rate);
    if (estimate.left_ticks >= 0) {
        buf_add_format(to, "%-*s ", NAME_WIDTH, "time left");
        print_age(to, estimate.left_ticks);
        buf_add_char(to, '\n');
    }
    add_lease(run, now_ticks, to);
}

static void add_counts(const struct ledger_run *run, struct buf *to)
{
    add_number(to, "read", run->read);
    add_number(to, "written", run->written);
    add_number(to, "deleted", run->deleted);
    add_number(to, "skipped", run->skipped);
    add_number(to, "failed", run->failed);
    if (run->behind >= 0)
        add_number(to, "behind", run->behind);
    add_number(to, "transactions", run->transactions);
    if (run->throttled > 0)
        add_number(to, "throttled", run->throttled);
}

static void add_moments(const struct ledger_run *run, struct buf *to)
{
    add_moment(to, "requested", run->requested_ticks);
    add_moment(to, "started", run->started_ticks);
    add_moment(to, "updated", run->updated_ticks);
    add_moment(to, "waits since", run->waits_since_ticks);
    add_moment(to, "resumes", run->resumes_ticks);
    add_moment(to, "caught up to", run->caught_up_ticks);
    add_moment(to, "finished", run->finished_ticks);
}

void status_add_run(
    const struct ledger_run *run, int64_t now_ticks, struct buf *to)
{
    struct buf state;

    buf_init(&state, CELL_MAX);
    add_state(run, &state);
    add_text(to, "job", run->job);
    add_text(to, "id", run->id);
    add_text(to, "state", buf_slice(&state));
    add_text(to, "asked to", run->control);
    add_text(to, "kind", run->kind);
    add_text(to, "arguments", run->args);
    add_text(to, "queue", run->queue);
    add_text(to, "phase", run->phase);
    add_text(to, "worker", run->worker);
    add_number(to, "attempts", run->attempt);
    add_number(to, "failures", run->failures);
    add_number(to, "rounds", run->rounds);
    add_progress(run, now_ticks, to);
    add_counts(run, to);
    if (run->parent_found >= 0)
        add_text(
            to, "parent found", slice_of(run->parent_found > 0 ? "yes" : "no"));
    add_moments(run, to);
    add_text(to, "note", run->note);
    add_text(to, "error", run->error);
    buf_done(&state);
}

/* ---- many, as a table ---- */

enum column {
    COLUMN_JOB,
    COLUMN_ID,
    COLUMN_STATE,
    COLUMN_ARGUMENTS,
    COLUMN_DONE,
    COLUMN_SHARE,
    COLUMN_RATE,
    COLUMN_LEFT,
    COLUMN_LEASE,
    COLUMN_REQUESTED,
    COLUMN_REASON, /* see add_reason() */
    COLUMN_COUNT,
};

struct row {
    struct slice cells[COLUMN_COUNT];
};

static const char *const HEADINGS[COLUMN_COUNT] = {"JOB", "ID", "STATE",
    "ARGUMENTS", "DONE", "SHARE", "RATE", "LEFT", "LEASE", "REQUESTED",
    "ERROR, NOTE"};

/* Add text without control characters, cut to max bytes at a character
 * boundary. */
static void add_cut(struct buf *to, struct slice text, size_t max)
{
    struct slice shown = text;

    if (shown.len > max) {
        shown.len = max;
        while (
            shown.len > 0 && ((unsigned char)text.at[shown.len] & 0xC0) == 0x80)
            shown.len--;
    }
    text_visible(to, shown);
    if (shown.len < text.len)
        buf_add_text(to, "...");
}

static void add_progress_cell(const struct ledger_run *run, enum column column,
    int64_t now_ticks, struct buf *to)
{
    struct estimate estimate = estimate_run(run, now_ticks);
    bool runs = run->state == LEDGER_RUNNING;

    if (column == COLUMN_SHARE && estimate.share >= 0 &&
        run->finished_ticks == 0)
        buf_add_format(to, "%d %%", (int)(100 * estimate.share));
    else if (column == COLUMN_RATE && runs && estimate.rate >= 0)
        buf_add_format(to, "%.0f/s", estimate.rate);
    else if (column == COLUMN_LEFT && estimate.left_ticks >= 0)
        print_age(to, estimate.left_ticks);
    else if (column == COLUMN_LEASE && estimate.expired)
        buf_add_text(to, "expired");
    else if (column == COLUMN_LEASE && runs && run->updated_ticks > 0)
        print_age(to, now_ticks - run->updated_ticks);
}

/* Add the error. For a run without an error: if it is running and throttled,
 * add how many requests were refused, else add the note. */
static void add_reason(const struct ledger_run *run, struct buf *to)
{
    bool throttled = run->state == LEDGER_RUNNING && run->throttled > 0;

    if (run->error.len == 0 && throttled)
        buf_add_format(to, "throttled: %" PRId32 " of %" PRId64 " requests",
            run->throttled, run->transactions);
    else
        add_cut(to, run->error.len > 0 ? run->error : run->note, REASON_SHOWN);
}

static void add_cell(const struct ledger_run *run, enum column column,
    int64_t now_ticks, struct buf *to)
{
    char time[TEXT_TIME_MAX];
    struct buf arguments;

    switch (column) {
    case COLUMN_JOB:
        text_visible(to, run->job);
        break;
    case COLUMN_ID:
        text_visible(to, run->id);
        break;
    case COLUMN_STATE:
        add_state(run, to);
        break;
    case COLUMN_ARGUMENTS:
        buf_init(&arguments, CELL_MAX);
        add_arguments(run, &arguments);
        add_cut(to, buf_slice(&arguments), ARGUMENTS_SHOWN);
        buf_done(&arguments);
        break;
    case COLUMN_DONE:
        print_count(to, estimate_run(run, now_ticks).done);
        break;
    case COLUMN_SHARE:
    case COLUMN_RATE:
    case COLUMN_LEFT:
    case COLUMN_LEASE:
        add_progress_cell(run, column, now_ticks, to);
        break;
    case COLUMN_REQUESTED:
        buf_add_text(to, print_time(run->requested_ticks, time));
        break;
    case COLUMN_REASON:
        add_reason(run, to);
        break;
    case COLUMN_COUNT:
        break;
    }
}

static struct row row_of(
    const struct ledger_run *run, int64_t now_ticks, struct arena *arena)
{
    struct row row;
    struct buf cell;

    buf_init(&cell, CELL_MAX);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        add_cell(run, (enum column)i, now_ticks, &cell);
        row.cells[i] = arena_copy(arena, buf_slice(&cell));
        buf_clear(&cell);
    }
    buf_done(&cell);
    return row;
}

static void widen(int widths[COLUMN_COUNT], const struct row *row)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        int width = (int)text_utf16_units(row->cells[i]);

        if (width > widths[i])
            widths[i] = width;
    }
}

/* Add a line of the table. The last column is not padded. */
static void add_row(
    const int widths[COLUMN_COUNT], const struct row *row, struct buf *to)
{
    for (int i = 0; i < COLUMN_COUNT - 1; i++) {
        int used = (int)text_utf16_units(row->cells[i]);

        buf_add_slice(to, row->cells[i]);
        buf_add_format(to, "%*s", widths[i] - used + 2, "");
    }
    buf_add_slice(to, row->cells[COLUMN_COUNT - 1]);
    buf_add_char(to, '\n');
}

void status_add_table(
    const struct runs *runs, int64_t now_ticks, struct buf *to)
{
    struct row *rows = mem_array(runs->count + 1, sizeof(*rows));
    int widths[COLUMN_COUNT] = {0};
    struct arena arena;

    arena_init(&arena);
    for (int i = 0; i < COLUMN_COUNT; i++)
        rows[0].cells[i] = slice_of(HEADINGS[i]);
    widen(widths, &rows[0]);
    for (size_t i = 0; i < runs->count; i++) {
        rows[i + 1] = row_of(&runs->list[i], now_ticks, &arena);
        widen(widths, &rows[i + 1]);
    }
    for (size_t i = 0; i <= runs->count; i++)
        add_row(widths, &rows[i], to);
    arena_done(&arena);
    mem_free(rows);
}

/* ---- queues ---- */

static void print_queue(const struct queue_status *queue, int64_t now_ticks)
{
    struct buf line;

    buf_init(&line, 1024);
    buf_add_format(&line, "queue %s: ", queue->name);
    print_number(&line, queue->messages, "message", "messages");
    if (queue->oldest_ticks > 0) {
        buf_add_text(&line, ", the oldest waits ");
        print_age(&line, now_ticks - queue->oldest_ticks);
    }
    if (queue->poisoned > 0) {
        buf_add_text(&line, ", ");
        print_count(&line, queue->poisoned);
        buf_add_text(&line, " poisoned");
    }
    printf("%s\n", buf_text(&line));
    buf_done(&line);
}

void status_print_queues(
    const struct queues *queues, int64_t now_ticks, int64_t late_ticks)
{
    for (size_t i = 0; i < queues->count; i++)
        if (late_ticks < 0 ||
            queues_is_late(&queues->list[i], now_ticks, late_ticks))
            print_queue(&queues->list[i], now_ticks);
}

/* ---- for programs ---- */

void status_print_json(const struct ledger_run *list, size_t count)
{
    struct buf line;

    buf_init(&line, JSON_MAX_BYTES);
    putchar('[');
    for (size_t i = 0; i < count; i++) {
        buf_clear(&line);
        ledger_add_json(&list[i], &line);
        printf("%s%s", i > 0 ? ",\n " : "", buf_text(&line));
    }
    printf("]\n");
    buf_done(&line);
}
