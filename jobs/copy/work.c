/* SPDX-License-Identifier: MIT */
/* The shared state of a copy attempt. */
#include "jobs/copy/work.h"

#include <strings.h>

#include "jobs/copy/checkpoint.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/call.h"
#include "jobs/engine/difference.h"
#include "jobs/engine/run.h"
#include "jobs/engine/sorter.h"
#include "jobs/index_row.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* Maximum number of batches of one run in flight. */
#define BATCHES_IN_FLIGHT 16

/* ---- the locations ---- */

/* May this table be the source table, under another name of its store (rule
 * C5)? Returns false for embedded stores. Their identity is known, and rule C5
 * cannot compare their ETags, because different entities of an embedded store
 * may have equal ETags. */
static bool may_be_index(
    const struct copy_work *work, const struct store *store, const char *table)
{
    return strcasecmp(table, work->rules->from.table) == 0 &&
           strcmp(store->capabilities.kind,
               work->from_store->capabilities.kind) == 0 &&
           strcmp(store->capabilities.kind, "embedded") != 0;
}

static size_t table_of(
    struct copy_work *work, const struct table_ref *table_ref)
{
    struct store *store = work->stores->stores[table_ref->store];
    const struct source_table at = source_table_of(store, table_ref->table);
    struct copy_table *table = work->tables;

    for (size_t i = 0; i < work->table_count; i++)
        if (source_table_equal(&work->tables[i].at, &at))
            return i;
    table += work->table_count;
    *table = (struct copy_table){
        .work = work,
        .store = store,
        .table = table_ref->table,
        .at = at,
        .is_index = source_table_equal(&at, &work->from),
    };
    table->may_be_index =
        !table->is_index && may_be_index(work, store, table_ref->table);
    work->has_index |= table->is_index;
    return work->table_count++;
}

static void digest_templates(
    const struct copying_target *target, char to[COPY_BY_CHARACTERS + 1])
{
    unsigned char sha256[CRYPTO_SHA256_BYTES];
    struct buf text;

    buf_init(&text, SIZE_MAX / 2);
    copying_add_templates(target, &text);
    crypto_sha256(buf_slice(&text), sha256);
    text_hex(to, sha256, COPY_BY_CHARACTERS / 2);
    buf_done(&text);
}

static void init_entries(struct copy_work *work)
{
    for (size_t i = 0; i < work->rules->target_count; i++) {
        const struct copying_target *target = &work->rules->targets[i];
        struct copy_entry *entry = &work->entries[i];

        entry->target = target;
        entry->table = table_of(work, &target->table_ref);
        digest_templates(target, entry->by);
        entry->stamp = (struct source){
            .job = slice_of(work->job->name),
            .entry = (int64_t)i,
            .by = slice_of(entry->by),
            .from = work->from,
            .at = work->tables[entry->table].at,
        };
        entry->stamp.head = source_head(&entry->stamp, &work->arena);
    }
}

enum tw_err copy_work_init(struct copy_work *work, const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    const struct copy_rules *rules = job->settings;

    memset(work, 0, sizeof(*work));
    work->job = job;
    work->rules = rules;
    work->stores = stores;
    work->run = run;
    work->err = err;
    arena_init(&work->arena);
    arena_init(&work->scratch);
    work->from_store = stores->stores[rules->from.store];
    work->from = source_table_of(work->from_store, rules->from.table);
    init_entries(work);
    work->rounds.follow = rules->follow;
    work->accepts = atomic_load(&run->accept_deletes);
    if (run->checkpoint.len > 0)
        work->saved = mem_text(run->checkpoint.at, run->checkpoint.len);
    return selection_of_run(
        &rules->selector, &run->args, &work->arena, &work->selection, err);
}

void copy_work_done(struct copy_work *work)
{
    mem_free(work->saved);
    parts_sample_clear(&work->sources);
    for (size_t i = 0; i < work->table_count; i++)
        parts_sample_clear(&work->tables[i].copies);
    difference_free(work->difference);
    arena_done(&work->scratch);
    arena_done(&work->arena);
}

/* ---- sources and their copies ---- */

bool copy_is_selected(const struct copy_work *work, const struct entity *entity)
{
    return selection_matches(&work->selection, entity) &&
           !is_index_row(entity, work->rules->from.table);
}

static bool has_same_keys(const struct entity *a, const struct entity *b)
{
    return slice_equal(a->partition_key, b->partition_key) &&
           slice_equal(a->row_key, b->row_key);
}

enum tw_err copy_make(const struct copy_work *work, size_t number,
    const struct entity *source, struct arena *arena, struct entity *ret,
    struct err *err)
{
    const struct copy_entry *entry = &work->entries[number];
    const struct copy_table *table = &work->tables[entry->table];
    struct source stamp = entry->stamp;
    enum tw_err outcome = copying_make(entry->target, &work->run->args, source,
        slice_of(SOURCE_PROPERTY), arena, ret, err);

    if (outcome != TW_OK)
        return outcome;
    if (table->is_index && has_same_keys(ret, source))
        return err_fail(err, TW_INVALID,
            "its copy would have the keys and the table of the source");
    stamp.partition_key = source->partition_key;
    stamp.row_key = source->row_key;
    stamp.etag = source->etag;
    source_stamp(ret, &stamp, arena);
    outcome = entity_check(ret, err);
    if (outcome != TW_OK)
        err_prefix(err, "the copy with " SOURCE_PROPERTY);
    return outcome;
}

static bool has_made(const struct copy_work *work, int64_t entry, size_t table,
    const struct source *is)
{
    return entry < (int64_t)work->rules->target_count &&
           work->entries[entry].table == table &&
           slice_is(is->by, work->entries[entry].by);
}

/* Returns the index of the entry that made an own copy in this table; see
 * work.h. */
static int64_t entry_of(
    const struct copy_work *work, size_t table, const struct source *is)
{
    if (has_made(work, is->entry, table, is))
        return is->entry;
    for (int64_t i = 0; i < (int64_t)work->rules->target_count; i++)
        if (has_made(work, i, table, is))
            return i;
    return COPY_FORMER;
}

/* Is entity an index row of this table that was written in another account? */
static bool is_restored(const struct copy_table *table,
    const struct entity *entity, const struct source *is)
{
    return table->is_index && source_is_index_row(is, entity, &table->at) &&
           !source_table_equal(&is->at, &table->at);
}

/* Rule C1: the entity is an own copy only if all conditions that this function
 * checks are true. */
bool copy_is_own(const struct copy_work *work, size_t table,
    const struct entity *entity, struct arena *arena, struct source *ret)
{
    const struct copy_table *here = &work->tables[table];
    bool is_own;

    if (!source_read(entity, arena, ret))
        return false;
    ret->restored = is_restored(here, entity, ret);
    is_own = slice_is(ret->job, work->job->name) &&
             (ret->restored || (source_table_equal(&ret->from, &work->from) &&
                                   source_is_at(ret, entity, &here->at)));
    if (is_own)
        ret->entry = entry_of(work, table, ret);
    ret->from = work->from;
    ret->at = here->at;
    return is_own;
}

bool copy_is_of_same(const struct source *is, const struct source *mine)
{
    return (is->entry == mine->entry || is->entry == COPY_FORMER) &&
           slice_equal(is->partition_key, mine->partition_key) &&
           slice_equal(is->row_key, mine->row_key);
}

bool copy_needs_consent(const struct source *is)
{
    return is->entry == COPY_FORMER || is->restored;
}

static enum copy_source_state state_for_entry(const struct copy_work *work,
    const struct copy_entry *entry, const struct source *is,
    const struct entity *source)
{
    enum copy_source_state state_of_source = COPY_HAS_OTHER;
    struct entity copy;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    if (copying_make(entry->target, &work->run->args, source,
            slice_of(SOURCE_PROPERTY), &arena, &copy, &err) != TW_OK)
        state_of_source = COPY_UNCLEAR;
    else if (slice_equal(copy.partition_key, is->own_partition_key) &&
             slice_equal(copy.row_key, is->own_row_key))
        state_of_source = COPY_HAS_KEY;
    arena_done(&arena);
    return state_of_source;
}

/*
 * Returns the state of the source of a former copy. Only the entries of `to:`
 * for this table count:
 *
 *   COPY_HAS_KEY    an entry makes a copy with the key of the former copy
 *   COPY_UNCLEAR    no entry does, and an entry cannot make its copy
 *   COPY_HAS_OTHER  no entry does, and each entry can make its copy
 */
static enum copy_source_state state_for_former(const struct copy_work *work,
    const struct source *is, const struct entity *source)
{
    enum copy_source_state state_of_source = COPY_HAS_OTHER;

    for (size_t i = 0; i < work->rules->target_count; i++) {
        const struct copy_entry *entry = &work->entries[i];
        enum copy_source_state state = COPY_HAS_OTHER;

        if (source_table_equal(&work->tables[entry->table].at, &is->at))
            state = state_for_entry(work, entry, is, source);
        if (state == COPY_HAS_KEY)
            return state;
        if (state == COPY_UNCLEAR)
            state_of_source = state;
    }
    return state_of_source;
}

enum copy_source_state copy_source_state(struct copy_work *work,
    const struct source *is, const struct entity *source)
{
    if (!source || !copy_is_selected(work, source))
        return COPY_IS_GONE;
    return is->entry == COPY_FORMER
               ? state_for_former(work, is, source)
               : state_for_entry(work, &work->entries[is->entry], is, source);
}

enum tw_err copy_read_source(struct copy_work *work, const struct source *is,
    enum copy_source_state *ret, struct slice *ret_etag, struct arena *arena,
    struct err *err)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(work->run->pool_client, work->from_store,
        work->rules->from.table, is->partition_key, is->row_key, &page, NULL,
        err);
    *ret_etag = (struct slice){0};
    if (outcome == TW_OK)
        *ret_etag = arena_copy(arena, page.entities[0].etag);
    if (outcome == TW_OK || outcome == TW_NOT_FOUND)
        *ret = copy_source_state(
            work, is, outcome == TW_OK ? &page.entities[0] : NULL);
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

struct digest copy_digest(const struct entity *copy, bool edited)
{
    const struct property *property =
        entity_find(copy, slice_of(SOURCE_PROPERTY));
    struct slice text;
    struct digest digest;
    struct arena arena;

    arena_init(&arena);
    if (!property || !property_peek_text(property, &arena, &text))
        text = slice_of("");
    digest = digest_of(source_without_entry(text));
    if (edited)
        digest.low = ~digest.low;
    arena_done(&arena);
    return digest;
}

bool copy_keeps_edits(const struct copy_work *work, size_t table)
{
    return !work->tables[table].is_index &&
           work->rules->on_conflict != COPY_CONFLICT_REPLACE;
}

void copy_name_source(
    struct copy_work *work, const struct entity *source, const char *why)
{
    work->run->callbacks->failed(
        work->run, &(struct run_failure){work->rules->from.table,
                       source->partition_key, source->row_key, "copy", why});
}

/* ---- a step ---- */

void copy_begin_step(struct copy_work *work)
{
    work->batch_writer = batch_writer_new(work->run, BATCHES_IN_FLIGHT);
    work->sorter = sorter_new();
    work->broken = TW_OK;
}

static enum tw_err check_broken(struct copy_work *work)
{
    if (work->broken == TW_OK)
        return TW_OK;
    return err_fail(work->err, work->broken, "%s", work->why.text);
}

static void set_saved(struct copy_work *work, const char *text)
{
    mem_free(work->saved);
    work->saved = mem_text(text, strlen(text));
}

static void save_reached(struct copy_work *work)
{
    uint64_t low_water = batch_writer_low_water(work->batch_writer);
    struct checkpoint_queue *checkpoint_queue = &work->checkpoint_queue;

    if (work->broken != TW_OK)
        return;
    for (size_t i = 0; i < checkpoint_queue->count; i++)
        if (checkpoint_queue->list[i].sequence <= low_water)
            set_saved(work, checkpoint_queue->list[i].checkpoint);
    checkpoint_queue_save(checkpoint_queue, work->run, low_water);
}

/* Waits for the batches in flight and saves their checkpoint, even after an
 * error. */
enum tw_err copy_end_step(struct copy_work *work, enum tw_err outcome)
{
    if (outcome == TW_OK)
        outcome = copy_flush(work);
    if (outcome == TW_OK)
        outcome = batch_writer_drain(work->batch_writer, work->err);
    batch_writer_finish(work->batch_writer);
    save_reached(work);
    checkpoint_queue_drop(&work->gathering);
    checkpoint_queue_drop(&work->checkpoint_queue);
    if (outcome == TW_OK)
        outcome = check_broken(work);
    work->rounds.found += batch_writer_done(work->batch_writer);
    if (batch_writer_is_indeterminate(work->batch_writer))
        for (size_t i = 0; i < work->table_count; i++)
            late_note(&work->late, work->tables[i].store);
    batch_writer_free(work->batch_writer);
    sorter_free(work->sorter);
    work->batch_writer = NULL;
    work->sorter = NULL;
    return outcome;
}

/* Queues the newest checkpoint for which the sorter has handed over all earlier
 * operations. */
static void note_flushed(struct copy_work *work)
{
    char *checkpoint =
        checkpoint_queue_take(&work->gathering, sorter_oldest(work->sorter));

    if (checkpoint)
        checkpoint_queue_add(&work->checkpoint_queue,
            batch_writer_sequence(work->batch_writer), checkpoint);
}

static enum tw_err end_flush(struct copy_work *work, enum tw_err outcome)
{
    if (outcome != TW_OK)
        return outcome;
    note_flushed(work);
    return check_broken(work);
}

enum tw_err copy_flush(struct copy_work *work)
{
    return end_flush(
        work, sorter_flush(work->sorter, work->batch_writer, work->err));
}

enum tw_err copy_send(struct copy_work *work, const struct batch_item *item)
{
    enum tw_err outcome = TW_OK;

    while (outcome == TW_OK && sorter_is_full(work->sorter))
        outcome = end_flush(work,
            sorter_make_room(work->sorter, work->batch_writer, work->err));
    if (outcome == TW_OK)
        sorter_add(work->sorter, item);
    return outcome;
}

/* ---- the checkpoint ---- */

static char *checkpoint_of(struct copy_work *work)
{
    struct rounds rounds = work->rounds;
    struct copy_progress at = work->at;

    if (work->batch_writer)
        rounds.found += batch_writer_done(work->batch_writer);
    at.late |= work->late.any ||
               (work->batch_writer &&
                   batch_writer_is_indeterminate(work->batch_writer));
    return copy_checkpoint_write(&rounds, &at);
}

void copy_save(struct copy_work *work, bool progress)
{
    char *text = checkpoint_of(work);

    work->run->callbacks->save(work->run, slice_of(text), progress);
    set_saved(work, text);
    mem_free(text);
}

void copy_save_late(struct copy_work *work)
{
    struct rounds rounds = {.follow = work->rules->follow};
    struct copy_progress at = {.mode = COPY_SEND_ALL};
    char *text;

    if (!work->late.any)
        return;
    (void)copy_checkpoint_read(
        slice_of(work->saved), &work->arena, &rounds, &at);
    at.late = true;
    text = copy_checkpoint_write(&rounds, &at);
    work->run->callbacks->save(work->run, slice_of(text), false);
    mem_free(text);
}

void copy_reached(
    struct copy_work *work, size_t table, const struct entity *last)
{
    save_reached(work);
    if (work->at.mode == COPY_COMPARE)
        return;
    work->at.resumes = true;
    work->at.table = table;
    work->at.partition_key = last->partition_key;
    work->at.row_key = last->row_key;
    checkpoint_queue_add(
        &work->gathering, sorter_added(work->sorter), checkpoint_of(work));
    work->at.resumes = false;
    note_flushed(work);
}
