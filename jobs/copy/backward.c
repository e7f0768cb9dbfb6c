/* SPDX-License-Identifier: MIT */
/*
 * The backward step of a round: reads the job's own copies, and deletes those
 * whose sources no longer make them.
 *
 * A filter on TablewardSource selects the copies of this job in each
 * destination. Without --accept-deletes a first scan only counts the copies to
 * delete (rule C6), and a second scan deletes them. In a round with a
 * comparison, the first scan keeps up to DELETES_MAX deletes in the sorter. If
 * there are no more than these, the round sends them without a second scan.
 */
#include "jobs/copy/backward.h"

#include <stdio.h>

#include "jobs/copy/decide.h"
#include "jobs/copy/scan.h"
#include "jobs/copy/work.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/call.h"
#include "jobs/engine/difference.h"
#include "jobs/engine/gets.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/sorter.h"
#include "worker/base/log.h"
#include "worker/store/store.h"

/* Without --accept-deletes a round deletes at most DELETES_MAX copies, or a
 * tenth of the job's own copies if a tenth is more (rule C6). */
#define DELETES_MAX 100

/* Maximum number of edited copies that a round reports in the log. */
#define EDITED_NAMED_MAX 100

/* One scan over the own copies. */
struct backward {
    struct copy_work *work;
    size_t table; /* index into work->tables */

    bool counts;  /* count the copies to delete */
    bool holds;   /* keep the deletes in the sorter until the scan has ended */
    bool deletes; /* send the deletes page by page */
    bool quiet;   /* this is a dry run, which does not report single copies */
};

/* ---- scanning ---- */

static struct scan *open_scan(struct copy_work *work, size_t number)
{
    const struct copy_table *table = &work->tables[number];
    struct scan_spec spec = {
        .store = table->store, .table = table->table, .run = work->run};
    struct scan *scan;
    struct buf filter;

    buf_init(&filter, 1024);
    source_filter(slice_of(work->job->name), &filter);
    spec.filter = buf_slice(&filter);
    if (work->at.resumes && work->at.table == number) {
        spec.resumed = true;
        spec.after_partition_key = work->at.partition_key;
        spec.after_row_key = work->at.row_key;
        work->at.resumes = false;
    }
    scan = scan_open(work->run->pool_client, &spec);
    buf_done(&filter);
    return scan;
}

/* ---- own copies found ---- */

/* Counts and reports an edited copy, and does nothing else with it (rule
 * C3). */
static void name_edited(struct backward *b, const struct entity *copy)
{
    struct copy_work *work = b->work;
    struct buf keys;

    atomic_fetch_add(&work->run->counts.skipped, 1);
    if (work->edited++ >= EDITED_NAMED_MAX)
        return;
    buf_init(&keys, sizeof(work->first_edited));
    buf_add_format(&keys, "%s ", work->tables[b->table].table);
    entity_add_keys(&keys, copy->partition_key, copy->row_key);
    log_run_warn(run_log(work->run), "copy %s was edited and is left unchanged",
        buf_text(&keys));
    if (work->edited == 1)
        (void)snprintf(work->first_edited, sizeof(work->first_edited), "%s",
            buf_text(&keys));
    buf_done(&keys);
}

static enum tw_err find_own(
    void *ctx, size_t table, const struct entity *copy, const struct source *is)
{
    struct backward *b = ctx;
    bool edited = !source_is_intact(is, copy),
         stays = edited && copy_keeps_edits(b->work, table);

    b->table = table;
    if (stays)
        name_edited(b, copy);
    difference_found(b->work->difference, copy->partition_key, copy->row_key,
        copy_digest(copy, edited && !stays));
    return TW_OK;
}

enum tw_err copy_own(struct copy_work *work)
{
    struct backward b = {.work = work};
    const struct copy_visitor visitor = {.ctx = &b, .own = find_own};

    return copy_scan_own(work, &visitor, NULL);
}

/* ---- deletes ---- */

static enum tw_err send_delete(struct backward *b, const struct entity *copy)
{
    struct copy_table *table = &b->work->tables[b->table];
    const struct batch_item item = {
        .store = table->store,
        .table = table->table,
        .operation = {.type = OPERATION_DELETE, .entity = *copy},
        .decide = copy_decide_delete,
        .context = table,
    };

    return copy_send(b->work, &item);
}

static enum tw_err delete_copy(
    struct backward *b, const struct entity *copy, const struct source *is)
{
    struct copy_work *work = b->work;

    if (b->counts) {
        work->at.deletes++;
        work->at.former += copy_needs_consent(is);
    }
    if (b->holds && work->at.deletes > DELETES_MAX) {
        /* There are too many deletes to keep in the sorter, so a second scan
         * sends all of them. */
        sorter_free(work->sorter);
        work->sorter = sorter_new();
        b->holds = false;
    }
    return b->deletes || b->holds ? send_delete(b, copy) : TW_OK;
}

/* Does copy have the ETag of its source? Such a copy may be the source itself,
 * under another name of its store (rule C5). */
static bool has_etag_of_source(const struct entity *copy,
    const struct source *is, const struct entity *source)
{
    return slice_equal(copy->etag, is->etag) ||
           (source && slice_equal(copy->etag, source->etag));
}

/* Decides about one own copy. source is the entity at the source keys in `is`,
 * or NULL if none exists. */
static enum tw_err judge(struct backward *b, const struct entity *copy,
    const struct source *is, const struct entity *source)
{
    struct copy_work *work = b->work;
    enum copy_source_state state_of_source =
        copy_source_state(work, is, source);
    bool edited = !source_is_intact(is, copy),
         stays = edited && !work->tables[b->table].is_index,
         has_source =
             state_of_source == COPY_HAS_KEY || state_of_source == COPY_UNCLEAR,
         was_named = work->difference && copy_keeps_edits(work, b->table);

    if (stays && b->counts && !b->quiet && !was_named &&
        (!has_source || copy_keeps_edits(work, b->table)))
        name_edited(b, copy);
    if (has_source || stays)
        return TW_OK;
    if (!work->tables[b->table].may_be_index ||
        !has_etag_of_source(copy, is, source))
        return delete_copy(b, copy, is);
    if (b->counts && !b->quiet)
        work->run->callbacks->failed(work->run,
            &(struct run_failure){work->tables[b->table].table,
                copy->partition_key, copy->row_key, "delete",
                "the copy has the ETag of its source: the copy may be the "
                "source itself, under another name of its account"});
    return TW_OK;
}

/* Reads the sources of up to GETS_MAX own copies, beginning with
 * page->entities[*at], and decides about each copy. Sets *at to the index of
 * the next copy. */
static enum tw_err judge_some(
    struct backward *b, const struct page *page, size_t *at)
{
    struct copy_work *work = b->work;
    const struct entity *copies[GETS_MAX];
    struct source is[GETS_MAX];
    struct gets gets = {.count = 0};
    enum tw_err outcome;

    for (; *at < page->count && gets.count < GETS_MAX; ++*at) {
        const struct entity *copy = &page->entities[*at];
        struct source *source = &is[gets.count];

        if (!copy_is_own(work, b->table, copy, &work->scratch, source))
            continue;
        work->at.own += b->counts;
        if (work->difference && !difference_is_at(work->difference,
                                    copy->partition_key, copy->row_key))
            continue;
        copies[gets.count] = copy;
        gets_add(&gets, work->from_store, work->rules->from.table,
            source->partition_key, source->row_key);
    }
    outcome = gets_read(&gets, work->run->pool_client, work->err);
    for (size_t i = 0; i < gets.count && outcome == TW_OK; i++)
        outcome = judge(b, copies[i], &is[i], gets.list[i].found);
    gets_done(&gets);
    return outcome;
}

static enum tw_err backward_page(struct backward *b, const struct page *page)
{
    enum tw_err outcome = TW_OK;
    size_t at = 0;

    while (at < page->count && outcome == TW_OK)
        outcome = judge_some(b, page, &at);
    if (outcome == TW_OK && b->deletes)
        outcome = copy_flush(b->work);
    if (outcome == TW_OK)
        copy_reached(b->work, b->table, &page->entities[page->count - 1]);
    return outcome;
}

static enum tw_err scan_table(struct backward *b)
{
    struct copy_work *work = b->work;
    struct scan *scan = open_scan(work, b->table);
    const struct page *page = NULL;
    enum tw_err outcome;

    do {
        outcome = run_stopping(work->run)
                      ? err_fail(work->err, TW_STOPPED, "stopped")
                      : scan_next(scan, &page, work->err);
        if (outcome != TW_OK || !page)
            break;
        atomic_fetch_add(&work->run->counts.read, (int64_t)page->count);
        outcome = backward_page(b, page);
        arena_clear(&work->scratch);
    } while (outcome == TW_OK);
    scan_close(scan);
    return outcome;
}

/* ---- the limit of deletes ---- */

static enum tw_err refuse_former(struct copy_work *work)
{
    long long count = work->at.former;

    return err_fail(work->err, TW_INVALID,
        "%lld former %s would be deleted (made by earlier key templates of "
        "this job, by an entry since removed from `to:`, or in another account "
        "before an import): restore the templates, the entry or the missing "
        "sources, or run the job with --accept-deletes",
        count, count == 1 ? "copy" : "copies");
}

/* Refuses too many deletes, and any delete of a former copy or of a restored
 * index row (rule C6). */
static enum tw_err brake(struct copy_work *work)
{
    const struct copy_progress *at = &work->at;

    if (at->former > 0)
        return refuse_former(work);
    if (at->deletes <= DELETES_MAX || at->deletes * 10 <= at->own)
        return TW_OK;
    return err_fail(work->err, TW_INVALID,
        "%lld of %lld copies have no source and would be deleted: check the "
        "source table and `from:`, then run the job with --accept-deletes",
        (long long)at->deletes, (long long)at->own);
}

/* ---- the step ---- */

static enum tw_err scan_tables(struct backward *b)
{
    enum tw_err outcome = TW_OK;

    copy_begin_step(b->work);
    b->table = b->work->at.resumes ? b->work->at.table : 0;
    for (; b->table < b->work->table_count && outcome == TW_OK; b->table++) {
        outcome = scan_table(b);
        if (outcome == TW_NOT_FOUND && b->quiet &&
            !b->work->tables[b->table].is_index)
            outcome = TW_OK; /* a dry run creates no tables */
    }
    if (outcome == TW_OK && b->counts && !b->deletes)
        outcome = brake(b->work);
    return copy_end_step(b->work, outcome);
}

/* Fails if the source table is missing, because a missing source table must not
 * cause deletes (rule C7). */
enum tw_err copy_check_sources(struct copy_work *work)
{
    const struct scan_request request = {
        .table = work->rules->from.table, .top = 1};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_scan(
        work->run->pool_client, work->from_store, &request, &page, work->err);
    page_done(&page);
    if (outcome == TW_NOT_FOUND)
        (void)err_fail(work->err, outcome,
            "the source table %s does not exist in store %s",
            work->rules->from.table, work->from_store->name);
    return outcome;
}

enum tw_err copy_backward(struct copy_work *work)
{
    bool accepts = work->accepts;
    struct backward b = {.work = work,
        .counts = !work->at.checked,
        .holds = !work->at.checked && !accepts && work->at.mode == COPY_COMPARE,
        .deletes = work->at.checked || accepts};
    bool again;
    enum tw_err outcome = copy_check_sources(work);

    if (outcome == TW_OK)
        outcome = scan_tables(&b);
    again = !b.deletes && !b.holds && work->at.deletes > 0;
    if (outcome != TW_OK || !again)
        return outcome;
    work->at.checked = true;
    copy_save(work, true);
    b.counts = false;
    b.deletes = true;
    return scan_tables(&b);
}

enum tw_err copy_check_deletes(struct copy_work *work)
{
    struct backward b = {.work = work, .counts = true, .quiet = true};

    work->at = (struct copy_progress){.mode = COPY_COMPARE};
    return scan_tables(&b);
}

/* ---- before the first round ---- */

/* Refuses former copies before the first write (rule C6). An edited former copy
 * is not refused, because it is not deleted (rule C3). An edited index row is
 * refused, because it is deleted. */
static enum tw_err check_former(struct copy_work *work, size_t number,
    const struct entity *copy, const struct source *is)
{
    enum tw_err refused;
    struct buf keys;

    if (is->entry != COPY_FORMER || work->accepts ||
        (!work->tables[number].is_index && !source_is_intact(is, copy)))
        return TW_OK;
    buf_init(&keys, sizeof(work->err->text));
    entity_add_keys(&keys, copy->partition_key, copy->row_key);
    refused = err_fail(work->err, TW_INVALID,
        "table %s has copies made by earlier key templates of this job, or by "
        "an entry that `to:` no longer has (e.g. %s), which would be "
        "deleted: restore the templates or the entry, or run the job with "
        "--accept-deletes",
        work->tables[number].table, buf_text(&keys));
    buf_done(&keys);
    return refused;
}

static enum tw_err check_table_for_own(
    struct copy_work *work, size_t number, bool *ret)
{
    const struct copy_table *table = &work->tables[number];
    struct scan_request request = {.table = table->table, .top = 100};
    struct page page;
    struct buf filter;
    enum tw_err outcome;

    page_init(&page);
    buf_init(&filter, 1024);
    source_filter(slice_of(work->job->name), &filter);
    request.filter = buf_slice(&filter);
    outcome = call_scan(
        work->run->pool_client, table->store, &request, &page, work->err);
    if (outcome == TW_NOT_FOUND) /* a dry run creates no tables */
        outcome = TW_OK;
    for (size_t i = 0; i < page.count && outcome == TW_OK; i++) {
        struct source is;

        if (!copy_is_own(work, number, &page.entities[i], &work->scratch, &is))
            continue;
        *ret = true;
        outcome = check_former(work, number, &page.entities[i], &is);
    }
    arena_clear(&work->scratch);
    buf_done(&filter);
    page_done(&page);
    return outcome;
}

enum tw_err copy_check_for_own(struct copy_work *work, bool *ret)
{
    enum tw_err outcome = TW_OK;

    *ret = false;
    for (size_t i = 0; i < work->table_count && outcome == TW_OK; i++)
        outcome = check_table_for_own(work, i, ret);
    return outcome;
}
