/* SPDX-License-Identifier: MIT */
/* Reads runs from the ledger, and writes them for programs. */
#include "worker/cli/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/session.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"

#define FILTER_MAX_BYTES 4096
#define JSON_MAX_BYTES ((size_t)1 << 40)

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

/* Room for one more, an empty one; it counts once runs->count is raised. */
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

static void add_run(struct runs *runs, const struct entity *entity)
{
    ledger_parse_any(entity, next_run(runs));
    runs->count++;
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

/* ---- by an id ---- */

struct finding {
    struct store *store;
    struct slice job, id;
    struct ledger_run *run;
};

static enum tw_err find(void *context, struct attempt *attempt)
{
    struct finding *finding = context;

    return ledger_get(
        finding->store, attempt, finding->job, finding->id, finding->run);
}

/* TW_OK also where the job has none. */
static enum tw_err find_in(struct session *session, struct store *store,
    struct slice job, struct slice id, struct runs *ret, struct err *err)
{
    struct finding finding = {
        .store = store, .job = job, .id = id, .run = next_run(ret)};
    enum tw_err code = session_call(session, store, find, &finding, true, err);

    if (code == TW_OK)
        ret->count++;
    else
        ledger_run_done(finding.run);
    return code == TW_NOT_FOUND ? TW_OK : code;
}

/* In every job: one id may be two jobs' run. */
static enum tw_err find_in_all(struct session *session, struct store *store,
    struct slice id, struct runs *ret, struct err *err)
{
    static const char *const others[] = {LEDGER_UNREADABLE, IMPORT_LEDGER_JOB};
    const struct jobs *jobs = &session->load->jobs;
    enum tw_err code = TW_OK;

    for (size_t i = 0; i < jobs->count && code == TW_OK; i++)
        code =
            find_in(session, store, slice_of(jobs->list[i].name), id, ret, err);
    for (size_t i = 0; i < 2 && code == TW_OK; i++)
        code = find_in(session, store, slice_of(others[i]), id, ret, err);
    return code;
}

/* Of a job that the configuration no longer has: the whole ledger is read. */
static enum tw_err find_anywhere(struct session *session, struct store *store,
    struct slice id, struct runs *ret, struct err *err)
{
    struct buf filter;
    enum tw_err code;

    buf_init(&filter, FILTER_MAX_BYTES);
    buf_add_text(&filter, "RowKey eq ");
    filter_add_literal(&filter, id);
    code =
        runs_read(session, store, slice_of(""), buf_slice(&filter), ret, err);
    buf_done(&filter);
    return code;
}

enum tw_err runs_find(struct session *session, struct store *store,
    struct slice job, const char *id, struct runs *ret, struct err *err)
{
    const char *slash = strrchr(id, '/');
    struct slice run_id = slice_of(slash ? slash + 1 : id);
    enum tw_err code;

    if (slash)
        job = (struct slice){id, (size_t)(slash - id)};
    if (!text_is_run_id(run_id))
        return err_fail(err, TW_NOT_FOUND, "'%s' is no run id", id);
    code = job.len > 0 ? find_in(session, store, job, run_id, ret, err)
                       : find_in_all(session, store, run_id, ret, err);
    if (code == TW_OK && ret->count == 0 && job.len == 0)
        code = find_anywhere(session, store, run_id, ret, err);
    if (code == TW_OK && ret->count == 0)
        code = err_fail(err, TW_NOT_FOUND, "the ledger has no run '%s'", id);
    return code;
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
        "several jobs have a run of this id, name one of them: %s%s",
        buf_text(&names),
        hyphen ? " (one that begins with a hyphen after --)" : "");
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

/* ---- for programs ---- */

void runs_print_json(const struct ledger_run *list, size_t count)
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
