/* SPDX-License-Identifier: MIT */
/* Reads runs from the ledger. */
#include "worker/run/runs.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/engine/call.h"
#include "jobs/jobs.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/setup.h"
#include "worker/store/request_pool.h"
#include "worker/store/store.h"

/* The maximum number of runs that are read at the same time. */
#define FETCH_MAX 32

/* Make room for one more run, and return the empty run there. The caller raises
 * runs->count to keep the run. */
static struct ledger_run *next_run(struct runs *runs)
{
    struct ledger_run *run;

    if (runs->count == runs->room) {
        runs->room = runs->room ? 2 * runs->room : 64;
        runs->list = mem_resize(runs->list, runs->room * sizeof(*runs->list));
    }
    run = &runs->list[runs->count];
    ledger_run_init(run);
    return run;
}

static int newest_first(const void *a, const void *b)
{
    const struct ledger_run *one = a, *other = b;

    if (one->requested_ticks != other->requested_ticks)
        return one->requested_ticks > other->requested_ticks ? -1 : 1;
    return slice_compare(one->id, other->id);
}

static void sort_runs(struct runs *runs)
{
    if (runs->count > 1)
        qsort(runs->list, runs->count, sizeof(*runs->list), newest_first);
}

void runs_done(struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        ledger_run_done(&runs->list[i]);
    mem_free(runs->list);
    *runs = (struct runs){.list = NULL};
}

/* Make the request, which only reads, and name the store if it fails. */
static enum tw_err call(const struct runs_reader *reader,
    enum tw_err (*request)(void *context, struct exchange *exchange),
    void *context, struct err *err)
{
    enum tw_err outcome =
        call_any(reader->client, reader->store, request, context, true, err);

    if (outcome != TW_OK)
        store_explain(reader->store, outcome, err);
    return outcome;
}

/* ---- the jobs that have runs ---- */

struct next_job {
    struct store *store;
    struct slice after, found;
    struct arena *arena;
};

static enum tw_err find_next_job(void *context, struct exchange *exchange)
{
    struct next_job *next = context;

    return ledger_next_job(
        next->store, exchange, next->after, next->arena, &next->found);
}

/* Calls each(context, job) for every job that has runs, in order of names. */
static enum tw_err each_job(const struct runs_reader *reader,
    enum tw_err (*each)(void *context, struct slice job, struct err *err),
    void *context, struct err *err)
{
    struct next_job next = {.store = reader->store};
    enum tw_err outcome;
    struct arena arena;

    arena_init(&arena);
    next.arena = &arena;
    do {
        outcome = call(reader, find_next_job, &next, err);
        next.after = next.found;
        if (outcome == TW_OK)
            outcome = each(context, next.found, err);
    } while (outcome == TW_OK);
    arena_done(&arena);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/* ---- lists: ledger index rows first ---- */

struct listing {
    const struct runs_reader *reader;
    const struct runs_query *query;
    struct runs_rows *rows;

    /* One request: its arguments and its result. */
    struct ledger_index_scan scan;
    struct continuation from;
    struct page page;
};

static enum tw_err read_rows(void *context, struct exchange *exchange)
{
    struct listing *listing = context;

    return ledger_scan_index(listing->reader->store, exchange, &listing->scan,
        listing->from, &listing->page);
}

/* Did the run of row end late enough for the query? True also if row has no
 * FinishedAt: then the run itself is read. */
static bool is_recent(
    const struct listing *listing, const struct ledger_row *row)
{
    int64_t since_ticks = listing->scan.index == LEDGER_INDEX_ENDED
                              ? listing->query->since_ticks
                          : listing->scan.index == LEDGER_INDEX_FAILED
                              ? listing->query->failed_ticks
                              : 0;

    return row->finished_ticks == 0 || row->finished_ticks >= since_ticks;
}

static void add_row(struct runs_rows *rows, const struct ledger_row *row)
{
    if (rows->count == rows->room) {
        rows->room = rows->room ? 2 * rows->room : 64;
        rows->list = mem_resize(rows->list, rows->room * sizeof(*rows->list));
    }
    rows->list[rows->count++] = *row;
}

static void add_rows(struct listing *listing)
{
    for (size_t i = 0; i < listing->page.count; i++) {
        struct ledger_row row;

        if (ledger_index_row(
                &listing->page.entities[i], &listing->rows->arena, &row) &&
            is_recent(listing, &row))
            add_row(listing->rows, &row);
    }
}

/* Can the list `index` have a run in a state that query selects? */
static bool wants_list(const struct runs_query *query, enum ledger_index index)
{
    if (query->states == 0)
        return true;
    for (int i = LEDGER_QUEUED; i <= LEDGER_DAMAGED; i++) {
        enum ledger_state state = (enum ledger_state)i;

        if ((query->states & RUNS_STATE(state)) &&
            ledger_index_of(state) == index)
            return true;
    }
    return false;
}

/* Read the rows of one list of one job. */
static enum tw_err list_rows(struct listing *listing, struct err *err)
{
    size_t most = listing->query->most_rows;
    enum tw_err outcome;

    listing->from = (struct continuation){.more = false};
    do {
        if (most > 0 && listing->rows->count >= most) {
            listing->rows->cut = true;
            return TW_OK;
        }
        outcome = call(listing->reader, read_rows, listing, err);
        if (outcome == TW_OK)
            add_rows(listing);
        listing->from = listing->page.next;
    } while (outcome == TW_OK && listing->from.more);
    return outcome;
}

static enum tw_err list_job(void *context, struct slice job, struct err *err)
{
    static const enum ledger_index LISTS[] = {
        LEDGER_INDEX_OPEN, LEDGER_INDEX_FAILED, LEDGER_INDEX_ENDED};
    struct listing *listing = context;
    enum tw_err outcome = TW_OK;
    char day[LEDGER_DAY_MAX];

    if (listing->query->no_imports && slice_is(job, LEDGER_IMPORTS))
        return TW_OK;
    for (size_t i = 0; i < 3 && outcome == TW_OK; i++) {
        if (!wants_list(listing->query, LISTS[i]))
            continue;
        listing->scan =
            (struct ledger_index_scan){.job = job, .index = LISTS[i]};
        if (listing->query->since_ticks > 0)
            listing->scan.from_day =
                ledger_day(listing->query->since_ticks, day);
        outcome = list_rows(listing, err);
    }
    return outcome;
}

int runs_compare_rows(
    const struct ledger_row *one, const struct ledger_row *other)
{
    int64_t one_ticks =
        one->requested_ticks > 0 ? one->requested_ticks : INT64_MAX;
    int64_t other_ticks =
        other->requested_ticks > 0 ? other->requested_ticks : INT64_MAX;
    int order;

    if (one_ticks != other_ticks)
        return one_ticks > other_ticks ? -1 : 1;
    order = slice_compare(one->id, other->id);
    return order != 0 ? order : slice_compare(one->job, other->job);
}

static int newest_row_first(const void *a, const void *b)
{
    return runs_compare_rows(a, b);
}

enum tw_err runs_read_rows(const struct runs_reader *reader,
    const struct runs_query *query, struct runs_rows *ret, struct err *err)
{
    struct listing listing = {.reader = reader, .query = query, .rows = ret};
    enum tw_err outcome;

    page_init(&listing.page);
    outcome = query->job.len > 0 ? list_job(&listing, query->job, err)
                                 : each_job(reader, list_job, &listing, err);
    if (outcome == TW_NOT_FOUND)
        outcome = TW_OK;
    if (ret->count > 1)
        qsort(ret->list, ret->count, sizeof(*ret->list), newest_row_first);
    page_done(&listing.page);
    return outcome;
}

void runs_rows_done(struct runs_rows *rows)
{
    arena_done(&rows->arena);
    mem_free(rows->list);
    *rows = (struct runs_rows){.list = NULL};
}

/* ---- then the runs ---- */

struct fetch {
    struct pool_request task; /* must be first: is cast to struct fetch */
    struct store *store;
    const struct ledger_row *row;
    struct ledger_run run;
};

static enum tw_err fetch_run(
    struct pool_request *task, struct exchange *exchange)
{
    struct fetch *fetch = (struct fetch *)task;

    return ledger_get(
        fetch->store, exchange, fetch->row->job, fetch->row->id, &fetch->run);
}

static void fetch_begin(struct fetch *fetch, const struct runs_reader *reader,
    const struct ledger_row *row)
{
    memset(fetch, 0, sizeof(*fetch));
    fetch->task.send = fetch_run;
    fetch->task.repeatable = true;
    fetch->task.store = reader->store;
    fetch->store = reader->store;
    fetch->row = row;
    ledger_run_init(&fetch->run);
    request_pool_submit(reader->client, &fetch->task);
}

static void mark_damaged(
    struct ledger_run *run, const struct ledger_row *row, const struct err *why)
{
    run->job = ledger_text(run, row->job);
    run->id = ledger_text(run, row->id);
    run->state = LEDGER_DAMAGED;
    run->requested_ticks = row->requested_ticks;
    ledger_set_error(run, why->text);
}

static bool is_wanted(
    const struct runs_query *query, const struct ledger_run *run)
{
    bool odd = run->state == LEDGER_DAMAGED || run->state == LEDGER_NEWER;

    return (odd || query->states == 0 ||
               (query->states & RUNS_STATE(run->state))) &&
           (query->queue.len == 0 || slice_equal(run->queue, query->queue));
}

/* Wait until the run is read, then move it into runs, or free it. A run that is
 * not found has been pruned after its ledger index row was read. */
static enum tw_err fetch_end(struct fetch *fetch,
    const struct runs_reader *reader, const struct runs_query *query,
    struct runs *runs, struct err *err)
{
    enum tw_err outcome;
    bool full = query->limit > 0 && runs->count == query->limit;

    request_pool_wait(reader->client, &fetch->task);
    outcome = fetch->task.outcome;
    if (outcome == TW_INVALID) {
        mark_damaged(&fetch->run, fetch->row, &fetch->task.last.err);
        outcome = TW_OK;
    }
    if (outcome == TW_OK && !full && is_wanted(query, &fetch->run)) {
        *next_run(runs) = fetch->run;
        runs->count++;
        return TW_OK;
    }
    ledger_run_done(&fetch->run);
    if (outcome == TW_OK || outcome == TW_NOT_FOUND)
        return TW_OK;
    *err = fetch->task.last.err;
    store_explain(reader->store, outcome, err);
    return outcome;
}

/* Read the runs of count rows, at most FETCH_MAX, at the same time. */
static enum tw_err fetch_some(const struct runs_reader *reader,
    const struct runs_query *query, struct fetch *fetches,
    const struct ledger_row *list, size_t count, struct runs *runs,
    struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count; i++)
        fetch_begin(&fetches[i], reader, &list[i]);
    for (size_t i = 0; i < count; i++) {
        struct err why;
        enum tw_err one = fetch_end(&fetches[i], reader, query, runs, &why);

        if (outcome == TW_OK && one != TW_OK) {
            outcome = one;
            *err = why;
        }
    }
    return outcome;
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many of the rows that are left are read next. If query selects
 * every run, this is not more than the number of runs that the list still
 * lacks. */
static size_t next_rows(
    const struct runs_query *query, const struct runs *runs, size_t left)
{
    bool all_wanted = query->states == 0 && query->queue.len == 0;
    size_t rows = lesser(left, FETCH_MAX);

    if (query->limit > 0 && all_wanted)
        rows = lesser(rows, query->limit - runs->count);
    return rows;
}

enum tw_err runs_fetch(const struct runs_reader *reader,
    const struct runs_query *query, const struct ledger_row *list, size_t count,
    struct runs *ret, struct err *err)
{
    struct fetch *fetches = mem_array(FETCH_MAX, sizeof(*fetches));
    enum tw_err outcome = TW_OK;

    for (size_t at = 0; at < count && outcome == TW_OK &&
                        (query->limit == 0 || ret->count < query->limit);) {
        size_t some = next_rows(query, ret, count - at);

        outcome = fetch_some(reader, query, fetches, &list[at], some, ret, err);
        at += some;
    }
    mem_free(fetches);
    return outcome;
}

enum tw_err runs_list(const struct runs_reader *reader,
    const struct runs_query *query, struct runs *ret, struct err *err)
{
    struct runs_rows rows = {.list = NULL};
    enum tw_err outcome = runs_read_rows(reader, query, &rows, err);

    if (outcome == TW_OK)
        outcome = runs_fetch(reader, query, rows.list, rows.count, ret, err);
    sort_runs(ret);
    runs_rows_done(&rows);
    return outcome;
}

/* ---- by an id ---- */

struct finding {
    const struct runs_reader *reader;
    struct slice id;
    struct runs *runs;

    /* One request: its arguments and its result. */
    struct slice job;
    struct ledger_run *run;
    struct continuation from;
    struct page page;
};

static enum tw_err get_run(void *context, struct exchange *exchange)
{
    struct finding *finding = context;

    return ledger_get(finding->reader->store, exchange, finding->job,
        finding->id, finding->run);
}

/* Add the run of job with the id finding->id. TW_OK also if the job has no such
 * run. */
static enum tw_err find_in(void *context, struct slice job, struct err *err)
{
    struct finding *finding = context;
    enum tw_err outcome;

    finding->job = job;
    finding->run = next_run(finding->runs);
    outcome = call(finding->reader, get_run, finding, err);
    if (outcome == TW_INVALID) {
        mark_damaged(finding->run,
            &(struct ledger_row){.job = job, .id = finding->id}, err);
        outcome = TW_OK;
    }
    if (outcome == TW_OK)
        finding->runs->count++;
    else
        ledger_run_done(finding->run);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/* Search all configured jobs, because several jobs may have a run with the same
 * id. */
static enum tw_err find_in_configured(struct finding *finding, struct err *err)
{
    static const char *const others[] = {LEDGER_UNREADABLE, LEDGER_IMPORTS};
    const struct jobs *jobs = finding->reader->jobs;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < jobs->count && outcome == TW_OK; i++)
        outcome = find_in(finding, slice_of(jobs->list[i].name), err);
    for (size_t i = 0; i < 2 && outcome == TW_OK; i++)
        outcome = find_in(finding, slice_of(others[i]), err);
    return outcome;
}

static bool is_searched(const struct finding *finding, struct slice job)
{
    return jobs_find(finding->reader->jobs, job) ||
           slice_is(job, LEDGER_UNREADABLE) || slice_is(job, LEDGER_IMPORTS);
}

/* Find the run in a job that was removed from the configuration, or renamed. */
static enum tw_err find_in_other(
    void *context, struct slice job, struct err *err)
{
    return is_searched(context, job) ? TW_OK : find_in(context, job, err);
}

static enum tw_err find_by(struct finding *finding, struct slice job,
    enum tw_err (*find)(void *context, struct slice job, struct err *err),
    struct err *err)
{
    if (job.len > 0)
        return find(finding, job, err);
    return each_job(finding->reader, find, finding, err);
}

static enum tw_err scan_prefix(void *context, struct exchange *exchange)
{
    struct finding *finding = context;
    struct scan_request request = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(finding->job),
        .top = RUNS_PREFIX_MAX,
        .damaged_too = true,
        .from = finding->from};
    enum tw_err outcome;
    struct arena arena;

    arena_init(&arena);
    request.row_key = key_range_prefix(finding->id, &arena);
    outcome =
        store_scan(finding->reader->store, exchange, &request, &finding->page);
    arena_done(&arena);
    return outcome;
}

static void add_found(struct finding *finding)
{
    struct runs *runs = finding->runs;

    for (size_t i = 0; i < finding->page.count; i++) {
        const struct entity *entity = &finding->page.entities[i];

        if (!slice_begins(entity->row_key, finding->id) ||
            runs->count >= RUNS_PREFIX_MAX)
            continue;
        ledger_parse_any(entity, next_run(runs));
        runs->count++;
    }
}

static enum tw_err find_prefix_in(
    void *context, struct slice job, struct err *err)
{
    struct finding *finding = context;
    enum tw_err outcome;

    finding->job = job;
    finding->from = (struct continuation){.more = false};
    do {
        outcome = call(finding->reader, scan_prefix, finding, err);
        if (outcome == TW_OK)
            add_found(finding);
        finding->from = finding->page.next;
    } while (outcome == TW_OK && finding->from.more &&
             finding->runs->count < RUNS_PREFIX_MAX);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err find(struct finding *finding, struct slice job,
    const char *id, bool prefix, struct err *err)
{
    const char *slash = strrchr(id, '/');
    enum tw_err outcome = TW_OK;

    finding->id = slice_of(slash ? slash + 1 : id);
    if (slash)
        job = (struct slice){id, (size_t)(slash - id)};
    if (!text_is_run_id(finding->id))
        return err_fail(err, TW_NOT_FOUND,
            "invalid run id '%s': 1 to 128 of A-Z a-z 0-9 . _ -, not beginning "
            "with a dot",
            id);
    if (job.len == 0)
        outcome = find_in_configured(finding, err);
    if (outcome == TW_OK)
        outcome =
            find_by(finding, job, job.len > 0 ? find_in : find_in_other, err);
    if (outcome == TW_OK && finding->runs->count == 0 && prefix) {
        outcome = find_by(finding, job, find_prefix_in, err);
        sort_runs(finding->runs);
    }
    if (outcome == TW_OK && finding->runs->count == 0)
        outcome = err_fail(err, TW_NOT_FOUND, "the ledger has no run '%s'", id);
    return outcome;
}

enum tw_err runs_find(const struct runs_reader *reader, struct slice job,
    const char *id, struct runs *ret, struct err *err)
{
    struct finding finding = {.reader = reader, .runs = ret};

    return find(&finding, job, id, false, err);
}

enum tw_err runs_find_prefix(const struct runs_reader *reader, struct slice job,
    const char *id, struct runs *ret, struct err *err)
{
    struct finding finding = {.reader = reader, .runs = ret};
    enum tw_err outcome;

    page_init(&finding.page);
    outcome = find(&finding, job, id, true, err);
    page_done(&finding.page);
    return outcome;
}

static enum tw_err name_them(const struct runs *runs,
    bool (*wanted)(const struct ledger_run *run), struct err *err)
{
    bool hyphen = false;
    struct buf names;

    buf_init(&names, sizeof(err->text));
    for (size_t i = 0; i < runs->count; i++) {
        const struct ledger_run *run = &runs->list[i];

        if (!wanted(run))
            continue;
        hyphen = hyphen || (run->job.len > 0 && run->job.at[0] == '-');
        buf_add_text(&names, names.len > 0 ? ", " : "");
        text_visible(&names, run->job);
        buf_add_format(&names, "/%.*s", SLICE_ARG(run->id));
    }
    (void)err_fail(err, TW_CONFLICT,
        "several jobs have a run with this id: write one of these names: %s%s",
        buf_text(&names),
        hyphen ? " (write -- before a name that begins with a hyphen)" : "");
    buf_done(&names);
    return TW_CONFLICT;
}

enum tw_err runs_pick(const struct runs *runs,
    bool (*wanted)(const struct ledger_run *run), const struct ledger_run **ret,
    struct err *err)
{
    const struct ledger_run *picked = NULL;

    for (size_t i = 0; i < runs->count; i++) {
        if (!wanted(&runs->list[i]))
            continue;
        if (picked)
            return name_them(runs, wanted, err);
        picked = &runs->list[i];
    }
    *ret = picked ? picked : &runs->list[0];
    return TW_OK;
}

/* ---- the message of a run ---- */

struct peeking {
    struct store *store;
    const char *queue;
    struct messages *messages;
};

static enum tw_err peek(void *context, struct exchange *exchange)
{
    struct peeking *peeking = context;

    return store_queue_peek(peeking->store, exchange, peeking->queue,
        QUEUE_MAX_GET, peeking->messages);
}

enum tw_err runs_peek(const struct runs_reader *reader, struct slice queue,
    struct messages *ret, struct err *err)
{
    struct peeking peeking = {.store = reader->store, .messages = ret};
    char *name = mem_format("%.*s" SETUP_POISON_SUFFIX, SLICE_ARG(queue));
    enum tw_err outcome;

    peeking.queue = name;
    outcome = call(reader, peek, &peeking, err);
    mem_free(name);
    return outcome;
}

static const struct message *find_copy(
    const struct messages *messages, struct slice id)
{
    for (size_t i = 0; i < messages->count; i++)
        if (slice_equal(messages->list[i].id, id))
            return &messages->list[i];
    return NULL;
}

enum tw_err runs_message(const struct runs_reader *reader,
    const struct ledger_run *run, struct arena *arena, struct slice *ret_queue,
    struct slice *ret_text, struct err *err)
{
    const struct message *copy;
    struct messages copies;
    enum tw_err outcome;

    if (run->queue.len == 0 || run->poison_id.len == 0)
        return err_fail(err, TW_NOT_FOUND, "the run has no message");
    *ret_queue =
        arena_format(arena, "%.*s" SETUP_POISON_SUFFIX, SLICE_ARG(run->queue));
    messages_init(&copies);
    outcome = runs_peek(reader, run->queue, &copies, err);
    copy = outcome == TW_OK ? find_copy(&copies, run->poison_id) : NULL;
    if (copy)
        *ret_text = arena_copy(arena, copy->text);
    else if (outcome == TW_OK)
        outcome = err_fail(err, TW_NOT_FOUND,
            "the message is not among the first %d messages of queue %.*s",
            QUEUE_MAX_GET, SLICE_ARG(*ret_queue));
    messages_done(&copies);
    return outcome;
}
