/* SPDX-License-Identifier: MIT */
/*
 * The dry run of a copy job: counts the sources, and the copies that a run
 * would write. If own copies exist already, the dry run compares both sides as
 * a run does (jobs/engine/difference.h).
 */
#include "jobs/copy/count.h"

#include <stdlib.h>

#include "jobs/copy/backward.h"
#include "jobs/copy/scan.h"
#include "jobs/copy/work.h"
#include "jobs/engine/difference.h"
#include "jobs/engine/run.h"
#include "jobs/engine/sorter.h"
#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_estimate_table *)0)->first_keys) / sizeof(char *))

/* Table and partition of an operation in the sorter. Operations with the same
 * table and partition share batches. */
struct operation_position {
    size_t table;
    uint64_t partition;
};

struct estimating {
    struct copy_work *work;
    struct job_estimate *ret;
    struct operation_position *positions; /* array with room for
                                             SORTER_MAX_OPERATIONS positions */
    size_t position_count;
    int64_t own, former; /* own: number of own copies; former: number of former
                            copies among them */
    bool only_differing; /* true in the second scan of the sources, which counts
                            only the copies whose bucket differs */
};

/* ---- batches ---- */

static int compare_positions(const void *left, const void *right)
{
    const struct operation_position *a = left, *b = right;

    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return 0;
}

/* Returns the estimate of a destination table. In job_estimate.tables the
 * source is the first table; the destinations come after it. */
static struct job_estimate_table *shown_of(struct estimating *e, size_t table)
{
    return &e->ret->tables[1 + table];
}

static void count_batches(struct estimating *e)
{
    size_t in_batch = 0;

    qsort(e->positions, e->position_count, sizeof(*e->positions),
        compare_positions);
    for (size_t i = 0; i < e->position_count; i++) {
        bool begins =
            i == 0 || in_batch == BATCH_MAX_OPERATIONS ||
            compare_positions(&e->positions[i - 1], &e->positions[i]) != 0;

        in_batch = begins ? 1 : in_batch + 1;
        shown_of(e, e->positions[i].table)->batches += begins;
    }
    e->position_count = 0;
}

static void add_operation(
    struct estimating *e, size_t table, const struct entity *copy)
{
    e->positions[e->position_count++] = (struct operation_position){
        table, hash_slice(HASH_BEGIN, copy->partition_key)};
    if (e->position_count == SORTER_MAX_OPERATIONS)
        count_batches(e);
}

/* ---- both sides ---- */

static void count_entity(struct job_estimate_table *shown,
    const struct entity *entity, struct arena *arena)
{
    if ((size_t)shown->entities < FIRST_KEYS)
        shown->first_keys[shown->entities] = arena_format(arena, "%.*s/%.*s",
            SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key))
                                                 .at;
    shown->entities++;
}

static enum tw_err on_source(void *ctx, const struct entity *source,
    size_t entry, const struct entity *copy, const char *why)
{
    struct estimating *e = ctx;
    const struct difference *difference = e->work->difference;
    size_t table = e->work->entries[entry].table;

    (void)why;
    if (!e->only_differing && entry == 0)
        count_entity(&e->ret->tables[0], source, &e->ret->arena);
    if (!copy)
        return TW_OK;
    if (difference && !e->only_differing) {
        difference_expect(e->work->difference, copy->partition_key,
            copy->row_key, copy_digest(copy, false));
        return TW_OK;
    }
    if (difference &&
        !difference_is_at(difference, copy->partition_key, copy->row_key))
        return TW_OK;
    count_entity(shown_of(e, table), copy, &e->ret->arena);
    add_operation(e, table, copy);
    return TW_OK;
}

static enum tw_err on_own(
    void *ctx, size_t table, const struct entity *copy, const struct source *is)
{
    struct estimating *e = ctx;
    bool edited = !source_is_intact(is, copy);

    e->own++;
    e->former += is->entry == COPY_FORMER;
    difference_found(e->work->difference, copy->partition_key, copy->row_key,
        copy_digest(copy, edited && !copy_keeps_edits(e->work, table)));
    return TW_OK;
}

/* Handles the outcome of a check of rule C6. If the rule refuses the run, this
 * is a result of the dry run, and the dry run itself does not fail. */
static enum tw_err note_refusal(struct estimating *e, enum tw_err outcome)
{
    if (outcome != TW_INVALID)
        return outcome;
    e->ret->refused =
        arena_copy(&e->ret->arena, slice_of(e->work->err->text)).at;
    return TW_OK;
}

/* Would a run delete too many copies? Call once both sides were compared. */
static enum tw_err check_deletes(struct estimating *e)
{
    if (e->work->accepts || e->ret->refused ||
        difference_is_none(e->work->difference))
        return TW_OK;
    return note_refusal(e, copy_check_deletes(e->work));
}

/* Counts what a run would do. If there are no own copies, one scan of the
 * sources is enough. */
static enum tw_err count_all(struct estimating *e, bool any_own)
{
    const struct copy_visitor visitor = {
        .ctx = e, .source = on_source, .own = on_own};
    struct job_estimate_table *tables = e->ret->tables;
    int64_t own_pages = 0;
    enum tw_err outcome;

    if (any_own)
        e->work->difference = difference_new();
    outcome = copy_scan_sources(e->work, &visitor, &tables[0].pages);
    if (outcome == TW_OK && any_own)
        outcome = copy_scan_own(e->work, &visitor, &own_pages);
    if (outcome == TW_OK && any_own)
        outcome = check_deletes(e);
    e->only_differing = true;
    if (outcome == TW_OK && any_own && !difference_is_none(e->work->difference))
        outcome = copy_scan_sources(e->work, &visitor, NULL);
    count_batches(e);
    tables[1].pages = own_pages;
    return outcome;
}

/* Computes the totals for a run of two full rounds: each round reads the
 * sources, and the second round also reads the new copies. */
static void sum_up(struct estimating *e)
{
    struct job_estimate *ret = e->ret;
    int64_t copies = 0;

    ret->transactions = 2 * ret->tables[0].pages + 2 * ret->tables[1].pages;
    for (size_t i = 1; i < ret->table_count; i++) {
        copies += ret->tables[i].entities;
        ret->transactions += ret->tables[i].batches;
    }
    ret->transactions += copies / PAGE_MAX_ENTITIES + 1;
    ret->read = 2 * ret->tables[0].entities + e->own + copies;
    if (e->own > 0)
        ret->details = arena_format(&ret->arena,
            "%lld %s of this job; a copy without a source would be deleted\n",
            (long long)e->own, e->own == 1 ? "copy exists" : "copies exist")
                           .at;
    if (e->former > 0)
        ret->details = arena_format(&ret->arena,
            "%s%lld of them %s made by earlier key templates, or by an entry "
            "that `to:` no longer has; --accept-deletes deletes such copies\n",
            ret->details, (long long)e->former, e->former == 1 ? "was" : "were")
                           .at;
    if (ret->tables[0].entities == 0)
        ret->note = "nothing is selected";
    else if (copies == 0)
        ret->note = "every copy is current";
}

/* Sets *ret_any to whether there are own copies, and notes whether a run would
 * be refused because of former copies among them. The dry run counts even if a
 * run would be refused. */
static enum tw_err check_for_own(struct estimating *e, bool *ret_any)
{
    bool accepts = e->work->accepts;
    enum tw_err outcome = note_refusal(e, copy_check_for_own(e->work, ret_any));

    if (outcome != TW_OK || !e->ret->refused)
        return outcome;
    e->work->accepts = true;
    outcome = copy_check_for_own(e->work, ret_any);
    e->work->accepts = accepts;
    return outcome;
}

static enum tw_err estimate(struct copy_work *work, struct job_estimate *ret)
{
    struct estimating e = {.work = work, .ret = ret};
    bool any_own = false;
    enum tw_err outcome;

    ret->table_count = 1 + work->table_count;
    ret->tables =
        arena_alloc(&ret->arena, ret->table_count * sizeof(*ret->tables));
    ret->tables[0].table = work->rules->from.table;
    ret->tables[0].table_scan = selector_scans_table(&work->rules->selector);
    for (size_t i = 0; i < work->table_count; i++)
        shown_of(&e, i)->table = work->tables[i].table;
    outcome = check_for_own(&e, &any_own);
    if (outcome != TW_OK)
        return outcome;
    e.positions = mem_array(SORTER_MAX_OPERATIONS, sizeof(*e.positions));
    outcome = count_all(&e, any_own);
    mem_free(e.positions);
    if (outcome == TW_OK)
        sum_up(&e);
    return outcome;
}

enum tw_err copy_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    struct copy_work *work = mem_alloc(sizeof(*work));
    enum tw_err outcome = copy_work_init(work, job, stores, run, err);

    if (outcome == TW_OK)
        outcome = estimate(work, ret);
    copy_work_done(work);
    mem_free(work);
    return outcome;
}
