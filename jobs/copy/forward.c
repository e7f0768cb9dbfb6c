/* SPDX-License-Identifier: MIT */
/*
 * The forward step of a round: reads the sources, and writes their copies.
 *
 * The sorter gathers operations and passes them to the batch writer, one
 * destination partition after the other, so that batches are full even if key
 * templates scatter the copies.
 */
#include "jobs/copy/forward.h"

#include "jobs/copy/decide.h"
#include "jobs/copy/work.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/difference.h"
#include "jobs/engine/parts.h"
#include "jobs/engine/run.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* ---- the scan ---- */

/* Opens a scan of the sources with a Timestamp of at least since_ticks, or of
 * all sources if since_ticks is 0. A checkpoint has one position only, so a
 * scan with checkpoints has one part. */
static struct parts *open_parts(struct copy_work *work, int64_t since_ticks)
{
    bool at_once = work->at.mode == COPY_COMPARE && since_ticks == 0;
    struct scan_spec spec = {.store = work->from_store,
        .table = work->rules->from.table,
        .run = work->run,
        /* A comparison reads the sources twice, so its scans set no share. */
        .tells_share = work->rounds.number == 1 && since_ticks == 0 &&
                       work->at.mode != COPY_COMPARE};
    struct parts *parts;
    struct arena arena;
    struct buf filter;
    char room[TEXT_TIME_MAX];

    arena_init(&arena);
    buf_init(&filter, 256);
    selection_spec_sure(&work->selection, &arena, &spec);
    if (since_ticks > 0) {
        buf_add_format(&filter, "Timestamp ge datetime'%s'",
            text_from_ticks(since_ticks, room));
        spec.filter = buf_slice(&filter);
    }
    if (work->at.resumes) {
        spec.resumed = true;
        spec.after_partition_key = work->at.partition_key;
        spec.after_row_key = work->at.row_key;
        work->at.resumes = false;
    }
    parts = parts_open(
        work->run->pool_client, &spec, at_once ? &work->sources : NULL);
    buf_done(&filter);
    arena_done(&arena);
    return parts;
}

/* ---- one source ---- */

/* Does the present step send the copies of this source? In a comparison
 * COPY_FORWARD sends the sources that changed since the previous round.
 * COPY_REPAIR sends all other sources, and again the sources that changed
 * during this round. So a source that did not change during the round is sent,
 * and reported, only once. */
static bool is_due(const struct copy_work *work, const struct entity *source)
{
    const struct rounds *rounds = &work->rounds;
    bool repairs = work->at.step == COPY_REPAIR;
    int64_t ticks;

    if (rounds->number == 1)
        return repairs;
    if (!text_ticks(source->timestamp, &ticks))
        return !repairs;
    if (!repairs)
        return ticks >= rounds->since_ticks;
    return ticks < rounds->since_ticks || ticks >= rounds->began_ticks;
}

static bool is_sent(const struct copy_work *work, const struct entity *source,
    const struct entity *copy)
{
    if (work->at.mode != COPY_COMPARE)
        return true;
    return is_due(work, source) && (work->at.step == COPY_FORWARD ||
                                       difference_is_at(work->difference,
                                           copy->partition_key, copy->row_key));
}

static enum tw_err send_copy(struct copy_work *work, size_t entry,
    const struct entity *source, const struct entity *copy)
{
    const struct copy_table *table = &work->tables[work->entries[entry].table];
    const struct batch_item item = {
        .store = table->store,
        .table = table->table,
        .operation = {.type = OPERATION_INSERT, .entity = *copy},
        .decide = copy_decide_write,
        .context = work,
    };

    if (work->rounds.stage >= ROUNDS_LAST)
        repaired_add(&work->repaired, source->partition_key, source->row_key,
            source->etag);
    return copy_send(work, &item);
}

static enum tw_err forward_copy(
    struct copy_work *work, size_t entry, const struct entity *source)
{
    struct entity copy;
    struct err why;
    enum tw_err outcome =
        copy_make(work, entry, source, &work->scratch, &copy, &why);

    if (outcome != TW_OK) {
        /* COPY_REPAIR reads this source again, so only COPY_FORWARD reports the
         * source. */
        if (work->at.step == COPY_FORWARD)
            copy_name_source(work, source, why.text);
        return TW_OK;
    }
    if (work->difference && work->at.step == COPY_FORWARD)
        difference_expect(work->difference, copy.partition_key, copy.row_key,
            copy_digest(&copy, false));
    parts_sample_add(&work->tables[work->entries[entry].table].copies, &copy);
    if (!is_sent(work, source, &copy))
        return TW_OK;
    return send_copy(work, entry, source, &copy);
}

static enum tw_err forward_source(
    struct copy_work *work, const struct entity *source)
{
    enum tw_err outcome = TW_OK;

    if (!copy_is_selected(work, source))
        return TW_OK;
    parts_sample_add(&work->sources, source);
    work->selected += work->at.step == COPY_FORWARD;
    for (size_t i = 0; i < work->rules->target_count && outcome == TW_OK; i++)
        outcome = forward_copy(work, i, source);
    arena_clear(&work->scratch);
    return outcome;
}

/* ---- the step ---- */

static enum tw_err forward_page(struct copy_work *work, const struct page *page)
{
    enum tw_err outcome = TW_OK;

    atomic_fetch_add(&work->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
        outcome = forward_source(work, &page->entities[i]);
    if (outcome == TW_OK)
        copy_reached(work, 0, &page->entities[page->count - 1]);
    return outcome;
}

static enum tw_err forward_pages(struct copy_work *work, struct parts *parts)
{
    const struct page *page = NULL;
    enum tw_err outcome;

    do {
        outcome = run_stopping(work->run)
                      ? err_fail(work->err, TW_STOPPED, "stopped")
                      : parts_next(parts, &page, work->err);
        if (outcome == TW_OK && page)
            outcome = forward_page(work, page);
    } while (outcome == TW_OK && page);
    return outcome;
}

enum tw_err copy_forward(struct copy_work *work)
{
    int64_t since_ticks =
        work->at.mode == COPY_SEND_NEWER ? work->rounds.since_ticks : 0;
    struct parts *parts = open_parts(work, since_ticks);
    enum tw_err outcome;

    copy_begin_step(work);
    outcome = forward_pages(work, parts);
    outcome = copy_end_step(work, outcome);
    parts_close(parts);
    return outcome;
}

/* ---- how far behind ---- */

enum tw_err copy_count_behind(struct copy_work *work, int64_t *ret)
{
    struct parts *parts =
        open_parts(work, rounds_margin(work->rounds.began_ticks));
    const struct page *page = NULL;
    enum tw_err outcome;

    *ret = 0;
    do {
        outcome = parts_next(parts, &page, work->err);
        for (size_t i = 0; outcome == TW_OK && page && i < page->count; i++)
            *ret += repaired_is_behind(&work->repaired, &page->entities[i]) &&
                    copy_is_selected(work, &page->entities[i]);
    } while (outcome == TW_OK && page);
    parts_close(parts);
    return outcome;
}
