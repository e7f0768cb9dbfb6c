/* SPDX-License-Identifier: MIT */
/* Reads what the dashboard shows. */
#include "worker/monitor/view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/estimate.h"
#include "worker/run/queues.h"
#include "worker/run/runs.h"
#include "worker/run/setup.h"
#include "worker/store/request_pool.h"
#include "worker/store/store.h"

#define REQUESTS 8
/* A reading ends, and a request of it ends, after this time at the latest. */
#define READING_MS 8000
#define REQUEST_MS 3000
/* Time for which the ledger index rows that were read are used again, because
 * several pages may be made from the same rows. */
#define ROWS_FRESH_MS 1500
/* Runs that ended longer ago are not listed. */
#define SINCE_TICKS (INT64_C(86400) * TICKS_PER_S)

/* Maximum numbers of runs in the overview. */
#define OPEN_MAX 200
#define FAILED_MAX 100
/* Maximum number of runs that are read for a page, to find those in the wanted
 * states. */
#define PAGE_READS_MAX 2000
/* Maximum length of a text in a list; view_run() adds the whole text. */
#define TEXT_SHOWN 500

enum { LIST_OPEN, LIST_FAILED, LIST_ENDED, LISTS };

static const unsigned list_states[LISTS] = {
    [LIST_OPEN] = RUNS_STATE(LEDGER_QUEUED) | RUNS_STATE(LEDGER_RUNNING) |
                  RUNS_STATE(LEDGER_WAITING) | RUNS_STATE(LEDGER_PAUSED) |
                  RUNS_STATE(LEDGER_NEWER) | RUNS_STATE(LEDGER_DAMAGED),
    [LIST_FAILED] = RUNS_STATE(LEDGER_FAILED) | RUNS_STATE(LEDGER_POISONED),
    [LIST_ENDED] = RUNS_STATE(LEDGER_SUCCEEDED) | RUNS_STATE(LEDGER_CANCELLED),
};

struct list {
    struct runs_rows rows;
    const struct definition
        /* The definition whose ledger was read; only compared; NULL: none. */
        *of;
    int64_t read_ms;
};

struct view {
    struct request_pool *request_pool;
    struct list lists[LISTS];

    struct platform_mutex lock;
    struct pool_client *client; /* client of the reading under way, or NULL;
                                   guarded by lock */
    bool stopped;               /* guarded by lock */
};

struct view *view_new(void)
{
    struct view *view = mem_alloc(sizeof(*view));

    view->request_pool = request_pool_new(REQUESTS, 0);
    platform_mutex_init(&view->lock);
    return view;
}

void view_free(struct view *view)
{
    if (!view)
        return;
    for (int i = 0; i < LISTS; i++)
        runs_rows_done(&view->lists[i].rows);
    request_pool_free(view->request_pool);
    platform_mutex_done(&view->lock);
    mem_free(view);
}

void view_stop(struct view *view)
{
    platform_lock(&view->lock);
    view->stopped = true;
    if (view->client)
        request_pool_stop(view->client);
    platform_unlock(&view->lock);
}

/* ---- a reading ---- */

struct reading {
    struct view *view;
    const struct definition *definition;
    struct runs_reader reader;
    struct deadline deadline;
};

static void begin(struct reading *reading, struct view *view,
    const struct definition *definition)
{
    int64_t now_ms = platform_boot_ms();

    reading->view = view;
    reading->definition = definition;
    deadline_init(&reading->deadline, now_ms + READING_MS, REQUEST_MS);
    reading->deadline.brief = true;
    reading->reader = (struct runs_reader){
        .client = pool_client_new(view->request_pool, &reading->deadline),
        .store = definition_store(definition),
        .jobs = definition->jobs,
    };
    request_pool_reach_until(
        reading->reader.client, now_ms + RETRY_UNANSWERED_MS);
    platform_lock(&view->lock);
    view->client = reading->reader.client;
    if (view->stopped)
        request_pool_stop(view->client);
    platform_unlock(&view->lock);
}

/* End the reading. If outcome is TW_STOPPED, err says that the store has not
 * responded, instead of "the deadline has passed". */
static void end(struct reading *reading, enum tw_err outcome, struct err *err)
{
    if (outcome == TW_STOPPED)
        (void)err_fail(err, outcome,
            "store %s has not responded within %d s: older data is shown",
            reading->reader.store->name, READING_MS / 1000);
    platform_lock(&reading->view->lock);
    reading->view->client = NULL;
    platform_unlock(&reading->view->lock);
    pool_client_free(reading->reader.client);
}

/* Get the rows of a list, at most fresh_ms old. *ret is borrowed. */
static enum tw_err read_list(struct reading *reading, int which,
    int64_t fresh_ms, const struct runs_rows **ret, struct err *err)
{
    struct list *list = &reading->view->lists[which];
    int64_t now_ms = platform_boot_ms();
    struct runs_query query = {
        .states = list_states[which],
        .since_ticks = platform_wall_ticks() - SINCE_TICKS,
        .most_rows = VIEW_MAX_ROWS,
    };
    enum tw_err outcome;

    *ret = &list->rows;
    if (list->of == reading->definition && now_ms - list->read_ms < fresh_ms)
        return TW_OK;
    runs_rows_done(&list->rows);
    outcome = runs_read_rows(&reading->reader, &query, &list->rows, err);
    list->of = outcome == TW_OK ? reading->definition : NULL;
    list->read_ms = now_ms;
    return outcome;
}

/* ---- a run ---- */

/* Remove the properties with which somebody could act as the run's owner, and
 * those that only tableward reads. */
static void keep_public(struct ledger_run *run)
{
    run->owner = run->operation = run->definition = (struct slice){0};
    run->checkpoint = run->ending = (struct slice){0};
    run->poison_receipt = (struct slice){0};
}

static void shorten(struct ledger_run *run)
{
    run->args = text_cut(run->args, TEXT_SHOWN);
    run->error = text_cut(run->error, TEXT_SHOWN);
    run->note = text_cut(run->note, TEXT_SHOWN);
    run->failed_entities = (struct slice){0};
}

static bool follows(const struct jobs *jobs, const struct ledger_run *run)
{
    const struct job *job = jobs_find(jobs, run->job);

    return job && job->kind->follows && job->kind->follows(job);
}

/* Add the public properties of the run, without the brace that ends the
 * object. */
static void add_run(
    const struct jobs *jobs, struct ledger_run *run, struct buf *to)
{
    struct estimate estimate = estimate_run(run, platform_wall_ticks());
    struct buf text;

    keep_public(run);
    buf_init(&text, VIEW_MAX_BYTES);
    ledger_add_json(run, &text);
    if (!text.overflow)
        buf_add(to, text.at, text.len - 1);
    else
        to->overflow = true;
    buf_done(&text);
    buf_add_format(to, ",\"Done\":%" PRId64, estimate.done);
    if (estimate.rate >= 0)
        buf_add_format(to, ",\"Rate\":%.2f", estimate.rate);
    if (estimate.left_ticks >= 0)
        buf_add_format(
            to, ",\"LeftSeconds\":%" PRId64, estimate.left_ticks / TICKS_PER_S);
    if (estimate.expired)
        buf_add_text(to, ",\"Expired\":true");
    if (ledger_is_held(run))
        buf_add_text(to, ",\"Held\":true");
    if (follows(jobs, run))
        buf_add_text(to, ",\"Follows\":true");
}

static void add_runs(const struct jobs *jobs, struct runs *runs, struct buf *to)
{
    buf_add_char(to, '[');
    for (size_t i = 0; i < runs->count; i++) {
        shorten(&runs->list[i]);
        buf_add_text(to, i > 0 ? ",\n" : "");
        add_run(jobs, &runs->list[i], to);
        buf_add_char(to, '}');
    }
    buf_add_char(to, ']');
}

/* ---- the overview ---- */

static void add_name(struct buf *to, const char *name)
{
    buf_add_format(to, ",\n\"%s\":", name);
}

static void add_jobs(const struct jobs *jobs, struct buf *to)
{
    add_name(to, "Jobs");
    buf_add_char(to, '[');
    for (size_t i = 0; i < jobs->count; i++) {
        buf_add_text(to, i > 0 ? "," : "");
        json_add_string(to, slice_of(jobs->list[i].name));
    }
    buf_add_char(to, ']');
}

static enum tw_err add_queues(
    struct reading *reading, struct buf *to, struct err *err)
{
    struct queues queues = {.list = NULL};
    enum tw_err outcome = TW_OK;

    if (reading->reader.store->capabilities.has_queues)
        outcome = queues_read(
            &reading->reader, reading->definition->setup, &queues, err);
    add_name(to, "Queues");
    queues_add_json(&queues, to);
    queues_done(&queues);
    return outcome;
}

/* Add the runs of `count` rows, beginning with the row `first`. */
static enum tw_err add_rows_runs(struct reading *reading, const char *name,
    const struct ledger_row *first, size_t count, struct buf *to,
    struct err *err)
{
    const struct runs_query query = {.limit = 0};
    struct runs runs = {.list = NULL};
    enum tw_err outcome =
        runs_fetch(&reading->reader, &query, first, count, &runs, err);

    add_name(to, name);
    add_runs(reading->definition->jobs, &runs, to);
    runs_done(&runs);
    return outcome;
}

static size_t at_most(size_t count, size_t most)
{
    return count < most ? count : most;
}

static void add_counts(
    const struct runs_rows *const rows[LISTS], struct buf *to)
{
    static const char *const names[LISTS] = {"Open", "Failed", "Ended"};
    bool cut = false;

    add_name(to, "Counts");
    for (int i = 0; i < LISTS; i++) {
        buf_add_format(
            to, "%s\"%s\":%zu", i > 0 ? "," : "{", names[i], rows[i]->count);
        cut = cut || rows[i]->cut;
    }
    buf_add_text(to, cut ? ",\"Cut\":true}" : "}");
}

static enum tw_err overview(
    struct reading *reading, struct buf *to, struct err *err)
{
    const struct runs_rows *rows[LISTS];
    enum tw_err outcome = add_queues(reading, to, err);
    size_t open;

    for (int i = 0; i < LISTS && outcome == TW_OK; i++)
        outcome = read_list(reading, i, 0, &rows[i], err);
    if (outcome != TW_OK)
        return outcome;
    add_counts(rows, to);
    /* The oldest open runs are the last rows. */
    open = at_most(rows[LIST_OPEN]->count, OPEN_MAX);
    outcome = add_rows_runs(reading, "Open",
        rows[LIST_OPEN]->list + (rows[LIST_OPEN]->count - open), open, to, err);
    if (outcome == TW_OK)
        outcome = add_rows_runs(reading, "Failed", rows[LIST_FAILED]->list,
            at_most(rows[LIST_FAILED]->count, FAILED_MAX), to, err);
    return outcome;
}

enum tw_err view_overview(struct view *view,
    const struct definition *definition, struct buf *to, struct err *err)
{
    struct reading reading;
    enum tw_err outcome;

    begin(&reading, view, definition);
    buf_add_text(to, "{\"Store\":");
    json_add_string(to, slice_of(reading.reader.store->name));
    add_jobs(definition->jobs, to);
    outcome = overview(&reading, to, err);
    buf_add_char(to, '}');
    end(&reading, outcome, err);
    return outcome;
}

/* ---- pages of runs ---- */

/* Parse the cursor of a page (`Next`), which has RequestedAt in ticks, the job
 * and the id of the page's last row. */
static bool read_cursor(struct slice text, struct ledger_row *ret)
{
    const char *space = memchr(text.at, ' ', text.len);
    const char *slash = NULL;

    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '/')
            slash = text.at + i;
    if (!space || !slash || slash < space)
        return false;
    *ret = (struct ledger_row){
        .job = {space + 1, (size_t)(slash - space - 1)},
        .id = {slash + 1, (size_t)(text.at + text.len - slash - 1)},
    };
    return text_int64((struct slice){text.at, (size_t)(space - text.at)}, 0,
        INT64_MAX, &ret->requested_ticks);
}

static void add_cursor(const struct ledger_row *row, struct buf *to)
{
    struct buf text;

    buf_init(&text, 4096);
    buf_add_format(&text, "%" PRId64 " %.*s/%.*s", row->requested_ticks,
        SLICE_ARG(row->job), SLICE_ARG(row->id));
    add_name(to, "Next");
    json_add_string(to, buf_slice(&text));
    buf_done(&text);
}

/* A page that is being made, and the rows of all lists that it may show. */
struct paging {
    const struct view_page *page;
    struct ledger_row before;
    struct ledger_row *rows; /* owned; their texts belong to the lists */
    size_t count;
};

static bool is_on_page(
    const struct paging *paging, const struct ledger_row *row)
{
    const struct view_page *page = paging->page;

    return (page->job.len == 0 || slice_equal(page->job, row->job)) &&
           (page->before.len == 0 ||
               runs_compare_rows(&paging->before, row) < 0);
}

static int compare_rows(const void *a, const void *b)
{
    return runs_compare_rows(a, b);
}

static enum tw_err collect_rows(
    struct reading *reading, struct paging *paging, struct err *err)
{
    const struct runs_rows *rows[LISTS];
    unsigned states = paging->page->states;
    enum tw_err outcome = TW_OK;
    size_t room = 1;

    for (int i = 0; i < LISTS && outcome == TW_OK; i++) {
        rows[i] = NULL;
        if (states == 0 || (states & list_states[i]))
            outcome = read_list(reading, i, ROWS_FRESH_MS, &rows[i], err);
        room += rows[i] ? rows[i]->count : 0;
    }
    if (outcome != TW_OK)
        return outcome;
    paging->rows = mem_array(room, sizeof(*paging->rows));
    for (int i = 0; i < LISTS; i++)
        for (size_t j = 0; rows[i] && j < rows[i]->count; j++)
            if (is_on_page(paging, &rows[i]->list[j]))
                paging->rows[paging->count++] = rows[i]->list[j];
    if (paging->count > 1)
        qsort(paging->rows, paging->count, sizeof(*paging->rows), compare_rows);
    return TW_OK;
}

/* Read runs until the page is full. A run in another state than those of the
 * page is left out, and one more run is read for it. */
static enum tw_err fill_page(struct reading *reading,
    const struct paging *paging, struct runs *runs, size_t *ret_read,
    struct err *err)
{
    const struct runs_query query = {.states = paging->page->states};
    size_t limit = paging->page->limit, at = 0;
    enum tw_err outcome = TW_OK;

    while (outcome == TW_OK && at < paging->count && runs->count < limit &&
           at < PAGE_READS_MAX) {
        size_t some = at_most(paging->count - at, limit - runs->count);

        outcome = runs_fetch(
            &reading->reader, &query, paging->rows + at, some, runs, err);
        at += some;
    }
    *ret_read = at;
    return outcome;
}

static enum tw_err add_page(struct reading *reading,
    const struct paging *paging, struct buf *to, struct err *err)
{
    struct runs runs = {.list = NULL};
    size_t read = 0;
    enum tw_err outcome = fill_page(reading, paging, &runs, &read, err);

    buf_add_format(to, "{\"Left\":%zu", paging->count - read);
    add_name(to, "Runs");
    add_runs(reading->definition->jobs, &runs, to);
    if (read < paging->count)
        add_cursor(&paging->rows[read - 1], to);
    buf_add_char(to, '}');
    runs_done(&runs);
    return outcome;
}

enum tw_err view_runs(struct view *view, const struct definition *definition,
    const struct view_page *page, struct buf *to, struct err *err)
{
    struct paging paging = {.page = page};
    struct reading reading;
    enum tw_err outcome;

    if (page->before.len > 0 && !read_cursor(page->before, &paging.before))
        return err_fail(err, TW_INVALID,
            "`before` must be the value of `Next` in an earlier page");
    begin(&reading, view, definition);
    outcome = collect_rows(&reading, &paging, err);
    if (outcome == TW_OK)
        outcome = add_page(&reading, &paging, to, err);
    mem_free(paging.rows);
    end(&reading, outcome, err);
    return outcome;
}

/* ---- one run ---- */

static void add_text(struct buf *to, const char *name, struct slice text)
{
    struct buf repaired;

    buf_init(&repaired, VIEW_MAX_BYTES);
    text_repair(&repaired, text);
    add_name(to, name);
    json_add_string(to, buf_slice(&repaired));
    buf_done(&repaired);
}

/* Add the run's message. If the message cannot be read, MessageError says why,
 * and the run is shown without it. */
static void add_message(
    struct reading *reading, const struct ledger_run *run, struct buf *to)
{
    struct slice queue = {0}, text;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    if (runs_message(&reading->reader, run, &arena, &queue, &text, &err) ==
        TW_OK)
        add_text(to, "Message", text);
    else if (queue.len > 0)
        add_text(to, "MessageError", slice_of(err.text));
    if (queue.len > 0)
        add_text(to, "PoisonQueue", queue);
    arena_done(&arena);
}

enum tw_err view_run(struct view *view, const struct definition *definition,
    struct slice job, struct slice id, struct buf *to, struct err *err)
{
    struct runs runs = {.list = NULL};
    struct reading reading;
    enum tw_err outcome;
    char *text = mem_text(id.at, id.len);

    begin(&reading, view, definition);
    outcome = runs_find(&reading.reader, job, text, &runs, err);
    if (outcome == TW_OK) {
        bool poisoned = runs.list[0].state == LEDGER_FAILED ||
                        runs.list[0].state == LEDGER_POISONED;

        add_run(definition->jobs, &runs.list[0], to);
        if (poisoned)
            add_message(&reading, &runs.list[0], to);
        buf_add_char(to, '}');
    }
    runs_done(&runs);
    end(&reading, outcome, err);
    mem_free(text);
    return outcome;
}
