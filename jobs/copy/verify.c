/* SPDX-License-Identifier: MIT */
/*
 * `verify` of a copy job: compares both sides in constant memory. The first
 * pass adds the digests of both sides to buckets (jobs/engine/difference.h).
 * The second pass reads the entities of the buckets that differ once more, one
 * by one. A difference is counted only if this second read confirms it.
 */
#include "jobs/copy/verify.h"

#include "jobs/copy/scan.h"
#include "jobs/copy/work.h"
#include "jobs/engine/call.h"
#include "jobs/engine/difference.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

enum {
    MISSING,
    STALE,
    ORPHANED,
    EDITED,
    FORMER,
    IMPOSSIBLE,
    DIFFERENCES,
};

static const char *const NAMES[DIFFERENCES] = {
    [MISSING] = "sources without a copy",
    [STALE] = "copies that differ from their sources",
    [ORPHANED] = "copies without a source",
    [EDITED] = "edited copies",
    [FORMER] = "copies of a former entry of `to:` or of former key templates",
    [IMPOSSIBLE] = "sources that cannot be copied",
};

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_difference *)0)->first_keys) / sizeof(char *))

struct verifying {
    struct copy_work *work;
    struct job_verification *ret;
    bool confirms; /* true in the second pass */
};

static void count(struct verifying *v, int which, const char *table,
    const struct entity *entity)
{
    struct job_difference *difference = &v->ret->differences[which];

    if ((size_t)difference->count < FIRST_KEYS)
        difference->first_keys[difference->count] =
            arena_format(&v->ret->arena, "%s %.*s %.*s", table,
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key))
                .at;
    difference->count++;
}

/* Reads the entity at the keys of `entity` into page. *ret_found becomes the
 * entity as it is now, or NULL if none exists. */
static enum tw_err read_again(struct verifying *v, struct store *store,
    const char *table, const struct entity *entity, struct page *page,
    const struct entity **ret_found)
{
    enum tw_err outcome = call_get(v->work->run->pool_client, store, table,
        entity->partition_key, entity->row_key, page, NULL, v->work->err);

    *ret_found = outcome == TW_OK ? &page->entities[0] : NULL;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/* ---- forward ---- */

/* Returns the kind of difference at the keys of a copy, or -1 if there is none.
 * found is the current entity, or NULL if none exists. */
static int judge(struct verifying *v, size_t table, const struct entity *copy,
    const struct entity *found)
{
    struct source is, wanted;
    struct arena arena;
    int which = -1;

    if (!found)
        return MISSING;
    arena_init(&arena);
    if (!copy_is_own(v->work, table, found, &arena, &is) ||
        !source_read(copy, &arena, &wanted) || !copy_is_of_same(&is, &wanted))
        which = MISSING;
    else if (!source_is_intact(&is, found))
        which = copy_keeps_edits(v->work, table) ? -1 : STALE;
    else if (is.restored || !slice_equal(is.etag, wanted.etag) ||
             !slice_equal(is.digest, wanted.digest))
        which = STALE;
    arena_done(&arena);
    return which;
}

/* Counts a difference if a second read of source and copy confirms it. */
static enum tw_err confirm_source(struct verifying *v,
    const struct entity *source, size_t entry, const struct entity *copy)
{
    const struct copy_work *work = v->work;
    size_t number = work->entries[entry].table;
    const struct copy_table *table = &work->tables[number];
    const struct entity *found, *now;
    struct page page;
    int which = -1;
    enum tw_err outcome;

    page_init(&page);
    outcome = read_again(v, table->store, table->table, copy, &page, &found);
    if (outcome == TW_OK)
        which = judge(v, number, copy, found);
    if (which >= 0) {
        outcome = read_again(
            v, work->from_store, work->rules->from.table, source, &page, &now);
        if (outcome == TW_OK && now && slice_equal(now->etag, source->etag))
            count(v, which, work->rules->from.table, source);
    }
    page_done(&page);
    return outcome;
}

static enum tw_err on_source(void *ctx, const struct entity *source,
    size_t entry, const struct entity *copy, const char *why)
{
    struct verifying *v = ctx;
    struct difference *difference = v->work->difference;

    (void)why;
    if (v->confirms)
        return copy && difference_is_at(
                           difference, copy->partition_key, copy->row_key)
                   ? confirm_source(v, source, entry, copy)
                   : TW_OK;
    if (copy)
        difference_expect(difference, copy->partition_key, copy->row_key,
            copy_digest(copy, false));
    else
        count(v, IMPOSSIBLE, v->work->rules->from.table, source);
    return TW_OK;
}

/* ---- backward ---- */

/* Sets *ret to the kind of difference of an own copy, or to -1 if there is
 * none. */
static enum tw_err judge_own(
    struct verifying *v, const struct source *is, struct arena *arena, int *ret)
{
    enum copy_source_state state_of_source;
    struct slice etag;
    enum tw_err outcome;

    *ret = FORMER;
    if (is->entry == COPY_FORMER)
        return TW_OK;
    *ret = -1;
    outcome = copy_read_source(
        v->work, is, &state_of_source, &etag, arena, v->work->err);
    if (outcome == TW_OK &&
        (state_of_source == COPY_IS_GONE || state_of_source == COPY_HAS_OTHER))
        *ret = ORPHANED;
    return outcome;
}

static enum tw_err confirm_own(
    struct verifying *v, size_t number, const struct entity *copy)
{
    const struct copy_table *table = &v->work->tables[number];
    const struct entity *found;
    struct source is;
    struct page page;
    struct arena arena;
    int which = -1;
    enum tw_err outcome;

    arena_init(&arena);
    page_init(&page);
    outcome = read_again(v, table->store, table->table, copy, &page, &found);
    if (outcome == TW_OK && found &&
        copy_is_own(v->work, number, found, &arena, &is))
        outcome = judge_own(v, &is, &arena, &which);
    if (which >= 0)
        count(v, which, table->table, copy);
    page_done(&page);
    arena_done(&arena);
    return outcome;
}

static enum tw_err on_own(
    void *ctx, size_t table, const struct entity *copy, const struct source *is)
{
    struct verifying *v = ctx;
    bool edited = !source_is_intact(is, copy),
         stays = edited && copy_keeps_edits(v->work, table);

    if (v->confirms)
        return !stays && difference_is_at(v->work->difference,
                             copy->partition_key, copy->row_key)
                   ? confirm_own(v, table, copy)
                   : TW_OK;
    if (stays)
        count(v, EDITED, v->work->tables[table].table, copy);
    difference_found(v->work->difference, copy->partition_key, copy->row_key,
        copy_digest(copy, edited && !stays));
    return TW_OK;
}

/* ---- the whole ---- */

static enum tw_err find_differences(struct verifying *v)
{
    const struct copy_visitor visitor = {
        .ctx = v, .source = on_source, .own = on_own};
    enum tw_err outcome = TW_OK;

    v->work->difference = difference_new();
    for (int i = 0; i < 2 && outcome == TW_OK; i++) {
        v->confirms = i > 0;
        if (v->confirms && difference_is_none(v->work->difference))
            break;
        outcome = copy_scan_sources(v->work, &visitor, NULL);
        if (outcome == TW_OK)
            outcome = copy_scan_own(v->work, &visitor, NULL);
    }
    return outcome;
}

enum tw_err copy_verify(const struct job *job, const struct job_stores *stores,
    struct run *run, struct job_verification *ret, struct err *err)
{
    struct copy_work *work = mem_alloc(sizeof(*work));
    struct verifying v = {.work = work, .ret = ret};
    enum tw_err outcome = copy_work_init(work, job, stores, run, err);

    ret->count = DIFFERENCES;
    ret->differences =
        arena_alloc(&ret->arena, DIFFERENCES * sizeof(*ret->differences));
    for (int i = 0; i < DIFFERENCES; i++)
        ret->differences[i].what = NAMES[i];
    if (outcome == TW_OK)
        outcome = find_differences(&v);
    ret->read = atomic_load(&run->counts.read);
    copy_work_done(work);
    mem_free(work);
    return outcome;
}
