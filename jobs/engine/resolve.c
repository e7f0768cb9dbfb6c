/* SPDX-License-Identifier: MIT */
/*
 * Reading again what a batch met.
 *
 * A refused operation is named by its index, so one get tells what stands in
 * its way; after a few such rounds the whole range of the batch is read, and
 * so it is when nothing is named, or when an insert is that is the first of its
 * batch: what is sent again after a crash is there from the first to the last.
 * Deletes need no more than keys and ETags of that range: what is gone is done,
 * what still has its ETag goes again, and only what has changed is read whole.
 *
 * The first of these requests does not hold up the run: it is made when the
 * pack begins to be resolved, and the rest, which is rare, when it has come.
 */
#include "jobs/engine/resolve.h"

#include <assert.h>

#include "jobs/engine/flow.h"
#include "jobs/engine/pack.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/lanes.h"

/* Refusals of one pack that are looked at one by one. */
#define SINGLES_MAX 3

/* Pages of a range that are read before it counts as sparse. */
#define RANGE_PAGES_MAX 4

/* What one entity may take while it is read, for the lanes' budget. */
#define GET_BYTES (2 * 1024 * 1024)

enum seen { UNSEEN, SEEN, CHANGED /* to be read whole */ };

#define NONE SIZE_MAX

struct get {
    struct lanes_task task; /* first, so that it leads back to the get */
    const struct pack *pack;
    struct slice row_key;
    struct page page;
};

struct resolving {
    struct run *run;
    struct pack *pack;
    size_t named;      /* the entry that was refused, or pack->count */
    bool alone;        /* it alone is looked at */
    struct scan *scan; /* of the range; NULL: entries are read one by one */
    bool bare;         /* it reads keys alone */
    struct get get;
    size_t asked;         /* the entry that get is for, or NONE */
    struct arena scratch; /* of one decision */
    enum seen seen[BATCH_MAX_OPERATIONS];
};

/* ---- decisions ---- */

static struct slice etag_of(const struct entity *now)
{
    return now ? now->etag : (struct slice){0};
}

static void ask_kind(
    struct resolving *r, struct pack_entry *entry, const struct entity *now)
{
    struct flow_item *item = &entry->item;
    struct operation again = {0};
    struct err why = {""};

    switch (item->decide(
        item->context, &item->operation, now, &r->scratch, &again, &why)) {
    case FLOW_SEND:
        assert(
            slice_equal(again.entity.row_key, item->operation.entity.row_key));
        pack_change(r->pack, entry, &again);
        break;
    case FLOW_DONE:
        pack_store(r->pack, entry, PACK_DONE, etag_of(now));
        break;
    case FLOW_KEEP:
        pack_store(r->pack, entry, PACK_KEPT, etag_of(now));
        break;
    case FLOW_SPARE:
        entry->fate = PACK_SPARED;
        break;
    case FLOW_FAIL:
        pack_fail(r->pack, entry, why.text);
        break;
    }
    arena_clear(&r->scratch);
}

static bool is_unchanged(const struct operation *sent, const struct entity *now)
{
    return sent->type != OPERATION_INSERT &&
           slice_equal(sent->entity.etag, now->etag);
}

/* now: the entity as it is, whole; NULL: there is none. */
static void meet(
    struct resolving *r, struct pack_entry *entry, const struct entity *now)
{
    const struct operation *sent = &entry->item.operation;

    if (!now && sent->type == OPERATION_DELETE)
        entry->fate = PACK_GONE;
    else if (!now && sent->type == OPERATION_INSERT)
        entry->fate = PACK_SEND;
    else if (now && is_unchanged(sent, now))
        entry->fate = PACK_SEND;
    else
        ask_kind(r, entry, now);
}

/* The table itself is not there: what was to be deleted is gone. */
static enum tw_err meet_no_table(struct resolving *r, struct err *err)
{
    struct pack *pack = r->pack;

    for (size_t i = 0; i < pack->count; i++) {
        if (pack->entries[i].item.operation.type != OPERATION_DELETE)
            return err_fail(
                err, TW_NOT_FOUND, "table %s does not exist", pack->table);
        pack->entries[i].fate = PACK_GONE;
    }
    return TW_OK;
}

/* ---- one entity ---- */

static enum tw_err send_get(struct lanes_task *task, struct exchange *exchange)
{
    struct get *get = (struct get *)task;

    return store_get(get->pack->store, exchange, get->pack->table,
        get->pack->partition_key, get->row_key, &get->page);
}

static void ask_one(struct resolving *r, size_t index)
{
    const struct pack *pack = r->pack;

    r->asked = index;
    r->get = (struct get){
        .task = {.send = send_get,
            .repeatable = true,
            .store = pack->store,
            .partition =
                rate_limiter_partition(pack->table, pack->partition_key),
            .bytes = GET_BYTES},
        .pack = pack,
        .row_key = pack->entries[index].item.operation.entity.row_key,
    };
    page_init(&r->get.page);
    lanes_submit(r->run->lanes, &r->get.task);
}

static enum tw_err read_one(struct resolving *r, size_t index, struct err *err)
{
    struct pack_entry *entry = &r->pack->entries[index];
    enum tw_err code;

    if (r->asked != index)
        ask_one(r, index);
    r->asked = NONE;
    lanes_wait(r->run->lanes, &r->get.task);
    code = r->get.task.outcome;
    if (code == TW_OK)
        meet(r, entry, &r->get.page.entities[0]);
    else if (code == TW_NOT_FOUND)
        meet(r, entry, NULL);
    else
        (void)err_fail(err, code, "table %s: %s", r->pack->table,
            r->get.task.last.err.text);
    page_done(&r->get.page);
    return code == TW_NOT_FOUND ? TW_OK : code;
}

/* Read each entry that is marked so. */
static enum tw_err read_each(
    struct resolving *r, enum seen marked, struct err *err)
{
    enum tw_err code = TW_OK;

    for (size_t i = 0; i < r->pack->count && code == TW_OK; i++)
        if (r->seen[i] == marked)
            code = read_one(r, i, err);
    return code;
}

/* ---- the range ---- */

/*
 * The least and the greatest RowKey. False where the two orders in which
 * stores keep keys (UTF-16, code points) do not agree on them.
 */
static bool bounds(
    const struct pack *pack, struct slice *ret_least, struct slice *ret_most)
{
    struct slice least = pack->entries[0].item.operation.entity.row_key;
    struct slice most = least;

    for (size_t i = 1; i < pack->count; i++) {
        struct slice key = pack->entries[i].item.operation.entity.row_key;

        if (slice_compare(key, least) < 0)
            least = key;
        if (slice_compare(key, most) > 0)
            most = key;
    }
    for (size_t i = 0; i < pack->count; i++) {
        struct slice key = pack->entries[i].item.operation.entity.row_key;

        if (text_utf16_compare(key, least) < 0 ||
            text_utf16_compare(key, most) > 0)
            return false;
    }
    *ret_least = least;
    *ret_most = most;
    return true;
}

static bool only_deletes(const struct pack *pack)
{
    for (size_t i = 0; i < pack->count; i++)
        if (pack->entries[i].item.operation.type != OPERATION_DELETE)
            return false;
    return true;
}

/* One page of the range; with bare entities what has changed is only noted.
 * Returns how many entries it held. */
static size_t meet_page(struct resolving *r, const struct page *page)
{
    size_t met = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct entity *now = &page->entities[i];
        struct pack_entry *entry = pack_find(r->pack, now->row_key);
        size_t index;

        if (!entry)
            continue;
        index = (size_t)(entry - r->pack->entries);
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
 * Read the pages from the least to the greatest RowKey until every entry was
 * met. *ret_whole: the range was read to its end, what was not met is gone.
 */
static enum tw_err read_pages(
    struct resolving *r, bool *ret_whole, struct err *err)
{
    const struct page *page = NULL;
    size_t left = r->pack->count;

    *ret_whole = false;
    while (left > 0 && scan_pages(r->scan) < RANGE_PAGES_MAX) {
        enum tw_err code = scan_next(r->scan, &page, err);

        if (code != TW_OK)
            return code;
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
        .store = r->pack->store,
        .table = r->pack->table,
        .partition_key = key_range_exact(r->pack->partition_key),
        /* Everything below "!" is below any key that is longer: only blanks
         * and what no key may hold come before it. */
        .row_key = {.has_from = true,
            .has_below = true,
            .from = least,
            .below = arena_format(&r->pack->arena, "%.*s!", SLICE_ARG(most))},
        .select = r->bare ? keys_only : NULL,
        .entity_bytes = r->pack->bytes / r->pack->count,
    };

    return scan_open(r->run->lanes, &spec);
}

static enum tw_err meet_the_rest(
    struct resolving *r, bool whole, struct err *err)
{
    struct pack *pack = r->pack;

    if (!whole && r->named < pack->count)
        return r->seen[r->named] == UNSEEN ? read_one(r, r->named, err) : TW_OK;
    if (!whole)
        return read_each(r, UNSEEN, err);
    for (size_t i = 0; i < pack->count; i++)
        if (r->seen[i] == UNSEEN)
            meet(r, &pack->entries[i], NULL);
    return TW_OK;
}

static void ask_range(struct resolving *r)
{
    struct slice least, most;

    r->bare = only_deletes(r->pack);
    if (r->pack->count == 1 || !bounds(r->pack, &least, &most))
        ask_one(r, 0);
    else
        r->scan = open_range(r, least, most);
}

static enum tw_err read_range(struct resolving *r, struct err *err)
{
    bool whole;
    enum tw_err code = read_pages(r, &whole, err);

    if (code == TW_NOT_FOUND)
        return meet_no_table(r, err);
    if (code == TW_OK)
        code = read_each(r, CHANGED, err);
    if (code == TW_OK)
        code = meet_the_rest(r, whole, err);
    return code;
}

/* ---- the pack ---- */

/* The index of the operation that was refused, or pack->count. */
static size_t named_of(const struct pack *pack)
{
    if (pack->task.outcome == TW_UNKNOWN)
        return pack->count;
    if (pack->count == 1)
        return 0;
    return pack->result->failed < pack->count ? pack->result->failed
                                              : pack->count;
}

/* Are the others likely to be there too? */
static bool is_sent_again(const struct pack *pack, size_t named)
{
    return named == 0 && pack->count > 1 &&
           pack->entries[0].item.operation.type == OPERATION_INSERT;
}

/* The named one was not found; of several, the index may have been told wrong.
 * It was to be deleted: done is what was looked for and not found. */
static bool is_gone(const struct resolving *r)
{
    const struct pack *pack = r->pack;

    return pack->task.outcome == TW_NOT_FOUND && pack->count == 1 &&
           pack->entries[r->named].item.operation.type == OPERATION_DELETE;
}

/* Nothing but its table can be missing for an insert. */
static bool misses_table(const struct resolving *r)
{
    const struct pack *pack = r->pack;

    return r->named < pack->count && pack->task.outcome == TW_NOT_FOUND &&
           pack->entries[r->named].item.operation.type == OPERATION_INSERT;
}

struct resolving *resolve_begin(struct run *run, struct pack *pack)
{
    struct resolving *r = mem_alloc(sizeof(*r));

    r->run = run;
    r->pack = pack;
    r->named = named_of(pack);
    r->asked = NONE;
    arena_init(&r->scratch);
    if (misses_table(r))
        return r;
    r->alone = r->named < pack->count && !is_sent_again(pack, r->named) &&
               pack->singles++ < SINGLES_MAX;
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
    return r->asked == NONE || lanes_done(r->run->lanes, &r->get.task);
}

static enum tw_err resolve(struct resolving *r, struct err *err)
{
    if (misses_table(r))
        return err_fail(
            err, TW_NOT_FOUND, "table %s does not exist", r->pack->table);
    if (r->scan)
        return read_range(r, err);
    if (!r->alone)
        return read_each(r, UNSEEN, err);
    if (!is_gone(r))
        return read_one(r, r->named, err);
    r->pack->entries[r->named].fate = PACK_GONE;
    return TW_OK;
}

void resolve_free(struct resolving *r)
{
    if (!r)
        return;
    if (r->asked != NONE) {
        lanes_cancel(r->run->lanes, &r->get.task);
        page_done(&r->get.page);
    }
    scan_close(r->scan);
    arena_done(&r->scratch);
    mem_free(r);
}

enum tw_err resolve_end(struct resolving *r, struct err *err)
{
    enum tw_err code = resolve(r, err);

    resolve_free(r);
    return code;
}
