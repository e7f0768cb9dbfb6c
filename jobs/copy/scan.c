/* SPDX-License-Identifier: MIT */
/* Reads both sides of a copy job. Writes nothing. */
#include "jobs/copy/scan.h"

#include "jobs/copy/work.h"
#include "jobs/engine/parts.h"
#include "jobs/engine/run.h"
#include "worker/store/store.h"

/* Calls page() with each page of the scan that spec describes. */
static enum tw_err visit_pages(struct copy_work *work,
    const struct scan_spec *spec, const struct parts_sample *sample,
    enum tw_err (*page)(struct copy_work *work, size_t table,
        const struct copy_visitor *visitor, const struct page *page),
    size_t table, const struct copy_visitor *visitor, int64_t *ret_pages)
{
    struct parts *parts = parts_open(work->run->pool_client, spec, sample);
    const struct page *next = NULL;
    enum tw_err outcome;

    do {
        outcome = run_stopping(work->run)
                      ? err_fail(work->err, TW_STOPPED, "stopped")
                      : parts_next(parts, &next, work->err);
        if (outcome != TW_OK || !next)
            break;
        atomic_fetch_add(&work->run->counts.read, (int64_t)next->count);
        outcome = page(work, table, visitor, next);
        arena_clear(&work->scratch);
    } while (outcome == TW_OK);
    if (ret_pages)
        *ret_pages += (int64_t)parts_pages(parts);
    parts_close(parts);
    return outcome;
}

static enum tw_err visit_source(struct copy_work *work,
    const struct copy_visitor *visitor, const struct entity *source)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < work->rules->target_count && outcome == TW_OK; i++) {
        struct entity copy;
        struct err why;
        bool made =
            copy_make(work, i, source, &work->scratch, &copy, &why) == TW_OK;

        outcome = visitor->source(visitor->ctx, source, i, made ? &copy : NULL,
            made ? NULL : why.text);
    }
    return outcome;
}

static enum tw_err visit_source_page(struct copy_work *work, size_t table,
    const struct copy_visitor *visitor, const struct page *page)
{
    enum tw_err outcome = TW_OK;

    (void)table;
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
        if (copy_is_selected(work, &page->entities[i]))
            outcome = visit_source(work, visitor, &page->entities[i]);
    return outcome;
}

enum tw_err copy_scan_sources(struct copy_work *work,
    const struct copy_visitor *visitor, int64_t *ret_pages)
{
    struct scan_spec spec = {.store = work->from_store,
        .table = work->rules->from.table,
        .run = work->run};

    selection_spec_sure(&work->selection, &work->arena, &spec);
    return visit_pages(
        work, &spec, &work->sources, visit_source_page, 0, visitor, ret_pages);
}

static enum tw_err visit_own_page(struct copy_work *work, size_t table,
    const struct copy_visitor *visitor, const struct page *page)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        struct source is;

        if (copy_is_own(work, table, &page->entities[i], &work->scratch, &is))
            outcome =
                visitor->own(visitor->ctx, table, &page->entities[i], &is);
    }
    return outcome;
}

enum tw_err copy_scan_own(struct copy_work *work,
    const struct copy_visitor *visitor, int64_t *ret_pages)
{
    enum tw_err outcome = TW_OK;
    struct buf filter;

    buf_init(&filter, 1024);
    source_filter(slice_of(work->job->name), &filter);
    for (size_t i = 0; i < work->table_count && outcome == TW_OK; i++) {
        const struct scan_spec spec = {.store = work->tables[i].store,
            .table = work->tables[i].table,
            .filter = buf_slice(&filter),
            .run = work->run};

        outcome = visit_pages(work, &spec, &work->tables[i].copies,
            visit_own_page, i, visitor, ret_pages);
        if (outcome == TW_NOT_FOUND && !work->tables[i].is_index)
            outcome = TW_OK;
    }
    buf_done(&filter);
    return outcome;
}
