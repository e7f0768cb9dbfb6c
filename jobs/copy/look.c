/* SPDX-License-Identifier: MIT */
/* Reads both sides of a copy job. Writes nothing. */
#include "jobs/copy/look.h"

#include "jobs/copy/work.h"
#include "jobs/engine/parts.h"
#include "jobs/engine/run.h"
#include "worker/store/store.h"

/* Calls page() for every page. */
static enum tw_err look_at(struct copy_work *work, const struct scan_spec *spec,
    const struct parts_sample *sample,
    enum tw_err (*page)(struct copy_work *work, size_t table,
        const struct copy_look *look, const struct page *page),
    size_t table, const struct copy_look *look, int64_t *ret_pages)
{
    struct parts *parts = parts_open(work->run->request_pool, spec, sample);
    const struct page *next = NULL;
    enum tw_err outcome;

    do {
        outcome = run_stopping(work->run)
                      ? err_fail(work->err, TW_STOPPED, "stopped")
                      : parts_next(parts, &next, work->err);
        if (outcome != TW_OK || !next)
            break;
        atomic_fetch_add(&work->run->counts.read, (int64_t)next->count);
        outcome = page(work, table, look, next);
        arena_clear(&work->scratch);
    } while (outcome == TW_OK);
    if (ret_pages)
        *ret_pages += (int64_t)parts_pages(parts);
    parts_close(parts);
    return outcome;
}

static enum tw_err look_at_source(struct copy_work *work,
    const struct copy_look *look, const struct entity *source)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < work->rules->target_count && outcome == TW_OK; i++) {
        struct entity copy;
        struct err why;
        bool made =
            copy_make(work, i, source, &work->scratch, &copy, &why) == TW_OK;

        outcome = look->source(
            look->ctx, source, i, made ? &copy : NULL, made ? NULL : why.text);
    }
    return outcome;
}

static enum tw_err source_page(struct copy_work *work, size_t table,
    const struct copy_look *look, const struct page *page)
{
    enum tw_err outcome = TW_OK;

    (void)table;
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
        if (copy_is_selected(work, &page->entities[i]))
            outcome = look_at_source(work, look, &page->entities[i]);
    return outcome;
}

enum tw_err copy_look_at_sources(
    struct copy_work *work, const struct copy_look *look, int64_t *ret_pages)
{
    struct scan_spec spec = {.store = work->from_store,
        .table = work->rules->from.table,
        .run = work->run};

    selection_spec_sure(&work->selection, &work->arena, &spec);
    return look_at(
        work, &spec, &work->sources, source_page, 0, look, ret_pages);
}

static enum tw_err own_page(struct copy_work *work, size_t table,
    const struct copy_look *look, const struct page *page)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        struct source is;

        if (copy_is_own(work, table, &page->entities[i], &work->scratch, &is))
            outcome = look->own(look->ctx, table, &page->entities[i], &is);
    }
    return outcome;
}

enum tw_err copy_look_at_own(
    struct copy_work *work, const struct copy_look *look, int64_t *ret_pages)
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

        outcome = look_at(
            work, &spec, &work->tables[i].copies, own_page, i, look, ret_pages);
        if (outcome == TW_NOT_FOUND && !work->tables[i].is_index)
            outcome = TW_OK;
    }
    buf_done(&filter);
    return outcome;
}
