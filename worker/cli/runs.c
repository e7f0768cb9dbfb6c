/* SPDX-License-Identifier: MIT */
/* Reads runs from the ledger. */
#include "worker/cli/runs.h"

#include <stdlib.h>

#include "worker/base/buf.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/session.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

#define FILTER_MAX_BYTES 4096

/* ---- pages ---- */

struct reading {
    struct store *store;
    struct slice job, filter;
    struct continuation from;
    struct page page;
};

static enum tw_err read_page(void *context, struct attempt *attempt)
{
    struct reading *reading = context;

    return ledger_scan(reading->store, attempt, reading->job, reading->filter,
        reading->from, &reading->page);
}

static void add_run(struct runs *runs, const struct entity *entity)
{
    struct ledger_run *run;
    struct err err;

    if (runs->count == runs->room) {
        runs->room = runs->room ? 2 * runs->room : 64;
        runs->list = mem_resize(runs->list, runs->room * sizeof(*runs->list));
    }
    run = &runs->list[runs->count];
    ledger_run_init(run);
    if (ledger_parse(entity, run, &err) == TW_OK) {
        runs->count++;
        return;
    }
    log_warn("ledger", "%.*s/%.*s is passed over: %s",
        SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key), err.text);
    ledger_run_done(run);
}

static int newest_first(const void *a, const void *b)
{
    const struct ledger_run *one = a, *other = b;

    if (one->requested_ticks != other->requested_ticks)
        return one->requested_ticks > other->requested_ticks ? -1 : 1;
    return slice_compare(one->id, other->id);
}

enum tw_err runs_read(struct session *session, struct store *store,
    struct slice job, struct slice filter, struct runs *ret, struct err *err)
{
    struct reading reading = {.store = store, .job = job, .filter = filter};
    enum tw_err code;

    page_init(&reading.page);
    do {
        code = session_call(session, store, read_page, &reading, true, err);
        for (size_t i = 0; i < reading.page.count && code == TW_OK; i++)
            add_run(ret, &reading.page.entities[i]);
        reading.from = reading.page.next;
    } while (code == TW_OK && reading.from.more);
    page_done(&reading.page);
    if (code == TW_NOT_FOUND)
        code = TW_OK;
    if (ret->count > 1)
        qsort(ret->list, ret->count, sizeof(*ret->list), newest_first);
    return code;
}

void runs_done(struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        ledger_run_done(&runs->list[i]);
    mem_free(runs->list);
    *runs = (struct runs){.list = NULL};
}

/* ---- one by its id ---- */

struct finding {
    struct store *store;
    struct slice *jobs;
    size_t job_count;
    struct slice id;
    struct ledger_run *run;
};

static enum tw_err find(void *context, struct attempt *attempt)
{
    struct finding *finding = context;

    return ledger_find(finding->store, attempt, finding->jobs,
        finding->job_count, finding->id, finding->run);
}

/* Of a job that the configuration no longer has: the whole ledger is read. */
static enum tw_err find_anywhere(struct session *session, struct store *store,
    struct slice id, struct ledger_run *ret, struct err *err)
{
    struct runs runs = {.list = NULL};
    struct buf filter;
    enum tw_err code;

    buf_init(&filter, FILTER_MAX_BYTES);
    buf_add_text(&filter, "RowKey eq ");
    filter_add_literal(&filter, id);
    code =
        runs_read(session, store, slice_of(""), buf_slice(&filter), &runs, err);
    if (code == TW_OK && runs.count == 0)
        code = err_fail(
            err, TW_NOT_FOUND, "the ledger has no run '%.*s'", SLICE_ARG(id));
    else if (code == TW_OK)
        ledger_copy(ret, &runs.list[0]);
    runs_done(&runs);
    buf_done(&filter);
    return code;
}

enum tw_err runs_find(struct session *session, struct store *store,
    const char *id, struct ledger_run *ret, struct err *err)
{
    const struct jobs *jobs = &session->load->jobs;
    struct finding finding = {.store = store, .id = slice_of(id), .run = ret};
    enum tw_err code;

    if (!text_is_run_id(finding.id))
        return err_fail(err, TW_NOT_FOUND, "'%s' is no run id", id);
    finding.jobs = mem_array(jobs->count + 2, sizeof(*finding.jobs));
    for (size_t i = 0; i < jobs->count; i++)
        finding.jobs[finding.job_count++] = slice_of(jobs->list[i].name);
    finding.jobs[finding.job_count++] = slice_of(LEDGER_UNREADABLE);
    finding.jobs[finding.job_count++] = slice_of(RUNS_IMPORT);
    code = session_call(session, store, find, &finding, true, err);
    mem_free(finding.jobs);
    return code == TW_NOT_FOUND
               ? find_anywhere(session, store, finding.id, ret, err)
               : code;
}
