/* SPDX-License-Identifier: MIT */
/*
 * Re-reads the entities of a batch that was refused or whose outcome is
 * unknown.
 *
 * If the response reports the index of the refused operation, one get reads the
 * entity that caused the conflict. In these cases the range of the whole batch
 * is read instead:
 *
 *   - SINGLES_MAX refusals of this batch were handled by such a get before;
 *   - no response came, or the response reports no index;
 *   - the refused operation is the first of the batch, and an insert. A
 *     crashed attempt may then have sent the same batch, so the entities of
 *     all its inserts may exist.
 *
 * If the batch has only deletes, only keys and ETags of the range are read at
 * first. A missing entity needs no delete, a delete with an unchanged ETag is
 * sent again, and only changed entities are read whole.
 *
 * The first request, which resolve_begin() submits, does not block the run. All
 * other requests, which are rare, are made by resolve_end(), after the first
 * response has arrived.
 */
#include "jobs/engine/resolve.h"

#include <assert.h>

#include "jobs/engine/batch_buffer.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/request_pool.h"

/* The number of refusals of one batch that are handled by a single get each. */
#define SINGLES_MAX 3

/* Maximum number of pages of a range that are read. After these pages, entities
 * that were not found are read by gets. If the response names the refused
 * operation, only the entity of that operation is read. */
#define RANGE_PAGES_MAX 4

/* Estimated memory of one entity while it is read, in bytes, for the request
 * pool's budget. */
#define GET_BYTES (2 * 1024 * 1024)

enum seen {
    UNSEEN,
    SEEN,
    CHANGED /* the ETag is not the one that was sent; the
             * entity must be read whole */
};

#define NONE SIZE_MAX

struct get {
    struct pool_request task; /* first member: cast to struct get */
    const struct batch_buffer *batch_buffer;
    struct slice row_key;
    struct page page;
};

struct resolving {
    struct run *run;
    struct batch_buffer *batch_buffer;
    size_t named;      /* index of the refused entry; batch_buffer->count:
                        * unknown */
    bool alone;        /* only the refused entry is re-read */
    struct scan *scan; /* scan of the range; NULL: entries are read one by
                        * one */
    bool bare;         /* the scan reads only keys and ETags */
    struct get get;
    size_t asked;         /* index of the entry that `get` reads; NONE: no read
                             is in flight */
    struct arena scratch; /* memory that is cleared after each decision */
    enum seen seen[BATCH_MAX_OPERATIONS];
};

/* ---- decisions ---- */

static struct slice etag_of(const struct entity *now)
{
    return now ? now->etag : (struct slice){0};
}

static void ask_kind(struct resolving *r, struct batch_buffer_entry *entry,
    const struct entity *now)
{
    struct batch_item *item = &entry->item;
    struct operation again = {0};
    struct err why = {""};

    switch (item->decide(
        item->context, &item->operation, now, &r->scratch, &again, &why)) {
    case WRITE_SEND:
        assert(
            slice_equal(again.entity.row_key, item->operation.entity.row_key));
        batch_buffer_change(r->batch_buffer, entry, &again);
        break;
    case WRITE_IS_DONE:
        batch_buffer_store(r->batch_buffer, entry, ENTRY_DONE, etag_of(now));
        break;
    case WRITE_NO_OP:
        batch_buffer_store(r->batch_buffer, entry, ENTRY_NO_OP, etag_of(now));
        break;
    case WRITE_SKIP:
        entry->state = ENTRY_SKIPPED;
        break;
    case WRITE_FAIL:
        batch_buffer_fail(r->batch_buffer, entry, why.text);
        break;
    }
    arena_clear(&r->scratch);
}

static bool is_unchanged(const struct operation *sent, const struct entity *now)
{
    return sent->type != OPERATION_INSERT &&
           slice_equal(sent->entity.etag, now->etag);
}

/* Decide on entry, or let the kind decide. now is the whole entity as it is
 * stored, or NULL if it does not exist. */
static void meet(struct resolving *r, struct batch_buffer_entry *entry,
    const struct entity *now)
{
    const struct operation *sent = &entry->item.operation;

    if (!now && sent->type == OPERATION_DELETE)
        entry->state = ENTRY_ABSENT;
    else if (!now && sent->type == OPERATION_INSERT)
        entry->state = ENTRY_SEND;
    else if (now && is_unchanged(sent, now))
        entry->state = ENTRY_SEND;
    else
        ask_kind(r, entry, now);
}

/* Handle a table that does not exist. Deletes are then not needed; if the batch
 * has any other operation, the outcome is TW_NOT_FOUND. */
static enum tw_err meet_no_table(struct resolving *r, struct err *err)
{
    struct batch_buffer *batch_buffer = r->batch_buffer;

    for (size_t i = 0; i < batch_buffer->count; i++) {
        if (batch_buffer->entries[i].item.operation.type != OPERATION_DELETE)
            return err_fail(err, TW_NOT_FOUND, "table %s does not exist",
                batch_buffer->table);
        batch_buffer->entries[i].state = ENTRY_ABSENT;
    }
    return TW_OK;
}

/* ---- one entity ---- */

static enum tw_err send_get(
    struct pool_request *task, struct exchange *exchange)
{
    struct get *get = (struct get *)task;

    return store_get(get->batch_buffer->store, exchange,
        get->batch_buffer->table, get->batch_buffer->partition_key,
        get->row_key, &get->page);
}

static void ask_one(struct resolving *r, size_t index)
{
    const struct batch_buffer *batch_buffer = r->batch_buffer;

    r->asked = index;
    r->get = (struct get){
        .task = {.send = send_get,
            .repeatable = true,
            .store = batch_buffer->store,
            .partition = rate_limiter_partition(
                batch_buffer->table, batch_buffer->partition_key),
            .bytes = GET_BYTES},
        .batch_buffer = batch_buffer,
        .row_key = batch_buffer->entries[index].item.operation.entity.row_key,
    };
    page_init(&r->get.page);
    request_pool_submit(r->run->pool_client, &r->get.task);
}

static enum tw_err read_one(struct resolving *r, size_t index, struct err *err)
{
    struct batch_buffer_entry *entry = &r->batch_buffer->entries[index];
    enum tw_err outcome;

    if (r->asked != index)
        ask_one(r, index);
    r->asked = NONE;
    request_pool_wait(r->run->pool_client, &r->get.task);
    outcome = r->get.task.outcome;
    if (outcome == TW_OK)
        meet(r, entry, &r->get.page.entities[0]);
    else if (outcome == TW_NOT_FOUND)
        meet(r, entry, NULL);
    else
        (void)err_fail(err, outcome, "table %s: %s", r->batch_buffer->table,
            r->get.task.last.err.text);
    page_done(&r->get.page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/* Read each entry whose state is `marked`. */
static enum tw_err read_each(
    struct resolving *r, enum seen marked, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < r->batch_buffer->count && outcome == TW_OK; i++)
        if (r->seen[i] == marked)
            outcome = read_one(r, i, err);
    return outcome;
}

/* ---- the range ---- */

/*
 * Find the least and the greatest RowKey of the batch. False if these differ
 * between the two orders in which stores sort keys (by UTF-16 code units, by
 * code points).
 */
static bool bounds(const struct batch_buffer *batch_buffer,
    struct slice *ret_least, struct slice *ret_most)
{
    struct slice least = batch_buffer->entries[0].item.operation.entity.row_key;
    struct slice most = least;

    for (size_t i = 1; i < batch_buffer->count; i++) {
        struct slice key =
            batch_buffer->entries[i].item.operation.entity.row_key;

        if (slice_compare(key, least) < 0)
            least = key;
        if (slice_compare(key, most) > 0)
            most = key;
    }
    for (size_t i = 0; i < batch_buffer->count; i++) {
        struct slice key =
            batch_buffer->entries[i].item.operation.entity.row_key;

        if (text_utf16_compare(key, least) < 0 ||
            text_utf16_compare(key, most) > 0)
            return false;
    }
    *ret_least = least;
    *ret_most = most;
    return true;
}

static bool only_deletes(const struct batch_buffer *batch_buffer)
{
    for (size_t i = 0; i < batch_buffer->count; i++)
        if (batch_buffer->entries[i].item.operation.type != OPERATION_DELETE)
            return false;
    return true;
}

/* Handle the entities of one page of the range. If only keys and ETags were
 * read, a changed entity is marked as CHANGED. Returns the number of entries
 * that were found on this page and not before. */
static size_t meet_page(struct resolving *r, const struct page *page)
{
    size_t met = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct entity *now = &page->entities[i];
        struct batch_buffer_entry *entry =
            batch_buffer_find(r->batch_buffer, now->row_key);
        size_t index;

        if (!entry)
            continue;
        index = (size_t)(entry - r->batch_buffer->entries);
        if (r->seen[index] != UNSEEN)
            continue;
        met++;
        if (r->bare && !is_unchanged(&entry->item.operation, now)) {
            r->seen[index] = CHANGED;
            continue;
        }
        r->seen[index] = SEEN;
        meet(r, entry, now);
    }
    return met;
}

/*
 * Read at most RANGE_PAGES_MAX pages, from the least to the greatest RowKey,
 * until every entry is found. *ret_whole becomes true if the range was read to
 * its end, so that entities that were not found do not exist.
 */
static enum tw_err read_pages(
    struct resolving *r, bool *ret_whole, struct err *err)
{
    const struct page *page = NULL;
    size_t left = r->batch_buffer->count;

    *ret_whole = false;
    while (left > 0 && scan_pages(r->scan) < RANGE_PAGES_MAX) {
        enum tw_err outcome = scan_next(r->scan, &page, err);

        if (outcome != TW_OK)
            return outcome;
        if (!page) {
            *ret_whole = true;
            break;
        }
        left -= meet_page(r, page);
    }
    return TW_OK;
}

static struct scan *open_range(
    struct resolving *r, struct slice least, struct slice most)
{
    static const struct slice keys_only[1];
    struct scan_spec spec = {
        .store = r->batch_buffer->store,
        .table = r->batch_buffer->table,
        .partition_key = key_range_exact(r->batch_buffer->partition_key),
        /* The bound is the greatest RowKey with "!" appended. Nearly all longer
         * keys that begin with this RowKey are after the bound, because only a
         * space and the characters that are forbidden in keys come before '!'.
         */
        .row_key = {.has_from = true,
            .has_below = true,
            .from = least,
            .below = arena_format(
                &r->batch_buffer->arena, "%.*s!", SLICE_ARG(most))},
        .select = r->bare ? keys_only : NULL,
        .entity_bytes = r->batch_buffer->bytes / r->batch_buffer->count,
    };

    return scan_open(r->run->pool_client, &spec);
}

static enum tw_err meet_the_rest(
    struct resolving *r, bool whole, struct err *err)
{
    struct batch_buffer *batch_buffer = r->batch_buffer;

    if (!whole && r->named < batch_buffer->count)
        return r->seen[r->named] == UNSEEN ? read_one(r, r->named, err) : TW_OK;
    if (!whole)
        return read_each(r, UNSEEN, err);
    for (size_t i = 0; i < batch_buffer->count; i++)
        if (r->seen[i] == UNSEEN)
            meet(r, &batch_buffer->entries[i], NULL);
    return TW_OK;
}

static void ask_range(struct resolving *r)
{
    struct slice least, most;

    r->bare = only_deletes(r->batch_buffer);
    if (r->batch_buffer->count == 1 || !bounds(r->batch_buffer, &least, &most))
        ask_one(r, 0);
    else
        r->scan = open_range(r, least, most);
}

static enum tw_err read_range(struct resolving *r, struct err *err)
{
    bool whole;
    enum tw_err outcome = read_pages(r, &whole, err);

    if (outcome == TW_NOT_FOUND)
        return meet_no_table(r, err);
    if (outcome == TW_OK)
        outcome = read_each(r, CHANGED, err);
    if (outcome == TW_OK)
        outcome = meet_the_rest(r, whole, err);
    return outcome;
}

/* ---- the batch ---- */

/* Returns the index of the refused operation, or batch_buffer->count if it is
 * unknown. */
static size_t named_of(const struct batch_buffer *batch_buffer)
{
    if (batch_buffer->task.outcome == TW_UNKNOWN)
        return batch_buffer->count;
    if (batch_buffer->count == 1)
        return 0;
    return batch_buffer->result->failed < batch_buffer->count
               ? batch_buffer->result->failed
               : batch_buffer->count;
}

/* Was the batch probably sent before, so that the entities of all its inserts
 * exist? True if the refused operation, at index `named`, is the first of
 * several and an insert. */
static bool is_sent_again(const struct batch_buffer *batch_buffer, size_t named)
{
    return named == 0 && batch_buffer->count > 1 &&
           batch_buffer->entries[0].item.operation.type == OPERATION_INSERT;
}

/* Is the batch a single delete whose entity was not found? If so, nothing is
 * re-read. (In a batch of several operations, the index of the refused one may
 * be wrong.) */
static bool is_gone(const struct resolving *r)
{
    const struct batch_buffer *batch_buffer = r->batch_buffer;

    return batch_buffer->task.outcome == TW_NOT_FOUND &&
           batch_buffer->count == 1 &&
           batch_buffer->entries[r->named].item.operation.type ==
               OPERATION_DELETE;
}

/* Is the refused operation an insert that ended with TW_NOT_FOUND? If so, only
 * the table can be missing. */
static bool misses_table(const struct resolving *r)
{
    const struct batch_buffer *batch_buffer = r->batch_buffer;

    return r->named < batch_buffer->count &&
           batch_buffer->task.outcome == TW_NOT_FOUND &&
           batch_buffer->entries[r->named].item.operation.type ==
               OPERATION_INSERT;
}

struct resolving *resolve_begin(
    struct run *run, struct batch_buffer *batch_buffer)
{
    struct resolving *r = mem_alloc(sizeof(*r));

    r->run = run;
    r->batch_buffer = batch_buffer;
    r->named = named_of(batch_buffer);
    r->asked = NONE;
    arena_init(&r->scratch);
    if (misses_table(r))
        return r;
    r->alone = r->named < batch_buffer->count &&
               !is_sent_again(batch_buffer, r->named) &&
               batch_buffer->singles++ < SINGLES_MAX;
    if (!r->alone)
        ask_range(r);
    else if (!is_gone(r))
        ask_one(r, r->named);
    return r;
}

size_t resolve_bytes(const struct resolving *r)
{
    return r->scan ? scan_bytes(r->scan) : r->asked == NONE ? 0 : GET_BYTES;
}

bool resolve_is_ready(const struct resolving *r)
{
    if (r->scan)
        return scan_has_come(r->scan);
    return r->asked == NONE ||
           request_pool_done(r->run->pool_client, &r->get.task);
}

static enum tw_err resolve(struct resolving *r, struct err *err)
{
    if (misses_table(r))
        return err_fail(err, TW_NOT_FOUND, "table %s does not exist",
            r->batch_buffer->table);
    if (r->scan)
        return read_range(r, err);
    if (!r->alone)
        return read_each(r, UNSEEN, err);
    if (!is_gone(r))
        return read_one(r, r->named, err);
    r->batch_buffer->entries[r->named].state = ENTRY_ABSENT;
    return TW_OK;
}

void resolve_free(struct resolving *r)
{
    if (!r)
        return;
    if (r->asked != NONE) {
        request_pool_cancel(r->run->pool_client, &r->get.task);
        page_done(&r->get.page);
    }
    scan_close(r->scan);
    arena_done(&r->scratch);
    mem_free(r);
}

enum tw_err resolve_end(struct resolving *r, struct err *err)
{
    enum tw_err outcome = resolve(r, err);

    resolve_free(r);
    return outcome;
}
