/* SPDX-License-Identifier: MIT */
/* The pairs of a load, and reads at their keys. */
#include "jobs/move/load.h"

#include <assert.h>
#include <stdlib.h>

#include "jobs/engine/call.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* A load is full once its copies have LOAD_MAX_BYTES; the last copy may exceed
 * this. A copy of at least LARGE_COPY_BYTES is always the last of its load. */
#define LOAD_MAX_BYTES (1024 * 1024)
#define LARGE_COPY_BYTES (256 * 1024)

/* A load is full once the intent's list of its pairs (intent.h) has
 * LISTED_MAX_BYTES. Then the list, with quotes escaped, fits into one batch to
 * the ledger's store. */
#define LISTED_MAX_BYTES (1280 * 1024)

/* Maximum bytes of one pair in the intent's list, without its keys: both ETags,
 * the digest and the separators. */
#define LISTED_BYTES (2 * ETAG_MAX + 2 * DIGEST_BYTES + 8)

/* RANGES_AT_ONCE ranges of keys are read at once. If the copies of the load
 * have more than LARGE_LOAD_BYTES, only one range is read at once. */
#define LARGE_LOAD_BYTES (512 * 1024)
#define RANGES_AT_ONCE 4
/* Entities up to this average size in bytes are read in full pages (1,000
 * entities). */
#define SMALL_ENTITY_BYTES 512

/* After this number of consecutive pages without any of the wanted keys, the
 * remaining keys of the range are read one by one. */
#define IDLE_PAGES_MAX 3

/* ---- a load ---- */

void move_load_init(struct load *load)
{
    *load = (struct load){.count = 0};
    arena_init(&load->arena);
    arena_init(&load->bodies);
    load->pairs = mem_array(LOAD_MAX_PAIRS, sizeof(*load->pairs));
    load->order = mem_array(LOAD_MAX_PAIRS, sizeof(struct pair *));
}

void move_load_done(struct load *load)
{
    arena_done(&load->arena);
    arena_done(&load->bodies);
    mem_free(load->pairs);
    mem_free(load->order);
}

void move_load_drop_bodies(struct load *load)
{
    arena_done(&load->bodies);
    for (size_t i = 0; i < load->count; i++)
        load->pairs[i].copy = NULL;
}

void move_load_clear(struct load *load)
{
    move_load_drop_bodies(load);
    arena_done(&load->arena);
    memset(load->pairs, 0, load->count * sizeof(*load->pairs));
    memset(load->slots, 0, sizeof(load->slots));
    load->count = 0;
    load->bytes = load->listed_bytes = 0;
    load->has_large = false;
}

/* Returns the maximum number of pairs. A pair counts as two entities, because
 * one is inserted and one is deleted. */
size_t move_load_limit(int64_t per_s)
{
    int64_t pairs = (per_s + 1) / 2;

    return per_s > 0 && pairs < LOAD_MAX_PAIRS ? (size_t)pairs : LOAD_MAX_PAIRS;
}

bool move_load_is_full(const struct load *load, size_t limit)
{
    return load->count >= limit || load->has_large ||
           load->bytes >= LOAD_MAX_BYTES ||
           load->listed_bytes >= LISTED_MAX_BYTES;
}

bool etag_copy(char to[ETAG_MAX], struct slice etag)
{
    to[0] = '\0';
    if (etag.len >= ETAG_MAX)
        return false;
    if (etag.len > 0)
        memcpy(to, etag.at, etag.len);
    to[etag.len] = '\0';
    return true;
}

/* Returns the first slot to search for these keys (FNV-1a). Keys with equal
 * hashes are told apart by comparing them. */
static size_t slot_of(struct slice partition_key, struct slice row_key)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < partition_key.len; i++)
        hash = (hash ^ (unsigned char)partition_key.at[i]) *
               UINT64_C(1099511628211);
    hash = (hash ^ 0xff) * UINT64_C(1099511628211);
    for (size_t i = 0; i < row_key.len; i++)
        hash = (hash ^ (unsigned char)row_key.at[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 32) % LOAD_SLOTS;
}

struct pair *move_load_find(
    const struct load *load, struct slice partition_key, struct slice row_key)
{
    size_t at = slot_of(partition_key, row_key);

    for (; load->slots[at] > 0; at = (at + 1) % LOAD_SLOTS) {
        struct pair *pair = &load->pairs[load->slots[at] - 1];
        const struct keys *keys = &pair->keys[PAIR_COPY];

        if (slice_equal(keys->partition_key, partition_key) &&
            slice_equal(keys->row_key, row_key))
            return pair;
    }
    return NULL;
}

static struct keys copy_keys(struct arena *arena, const struct keys *keys)
{
    return (struct keys){arena_copy(arena, keys->partition_key),
        arena_copy(arena, keys->row_key)};
}

struct pair *move_load_add(struct load *load, const struct keys *source,
    struct slice source_etag, const struct keys *target,
    const struct entity *copy)
{
    struct pair *pair = &load->pairs[load->count++];
    size_t at = slot_of(target->partition_key, target->row_key);

    pair->keys[PAIR_SOURCE] = copy_keys(&load->arena, source);
    pair->keys[PAIR_COPY] = copy_keys(&load->arena, target);
    etag_copy(pair->etags[PAIR_SOURCE], source_etag);
    load->listed_bytes += source->partition_key.len + source->row_key.len +
                          target->partition_key.len + target->row_key.len +
                          LISTED_BYTES;
    pair->copy = copy;
    if (copy) {
        pair->digest = entity_digest(copy, slice_of(""));
        load->bytes += entity_size(copy);
        load->has_large |= entity_size(copy) >= LARGE_COPY_BYTES;
    }
    while (load->slots[at] > 0)
        at = (at + 1) % LOAD_SLOTS;
    load->slots[at] = (uint16_t)load->count;
    return pair;
}

/* ---- states ---- */

#define TO(state) (1u << (state))

static const unsigned state_moves[] = {
    [PAIR_READ] = TO(PAIR_COPIED) | TO(PAIR_LEFT) |
                  /* a takeover first sets the state that it found */
                  TO(PAIR_READ) | TO(PAIR_CHANGED) | TO(PAIR_ABSENT),
    [PAIR_COPIED] =
        TO(PAIR_DONE) | TO(PAIR_CHANGED) | TO(PAIR_ABSENT) | TO(PAIR_LEFT),
    [PAIR_CHANGED] = TO(PAIR_DONE) | TO(PAIR_LEFT),
    [PAIR_ABSENT] = TO(PAIR_LEFT),
    [PAIR_LEFT] = TO(PAIR_LEFT), /* the reason may be changed */
    [PAIR_DONE] = 0,
};

void pair_set_state(struct pair *pair, enum pair_state state)
{
    assert((state_moves[pair->state] & TO(state)) != 0);
    pair->state = state;
}

size_t move_load_count(const struct load *load, enum pair_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < load->count; i++)
        count += load->pairs[i].state == state;
    return count;
}

/* ---- sorting ---- */

static int compare_keys(const struct keys *a, const struct keys *b)
{
    int order = slice_compare(a->partition_key, b->partition_key);

    return order != 0 ? order : slice_compare(a->row_key, b->row_key);
}

static int compare_sources(const void *a, const void *b)
{
    return compare_keys(&(*(struct pair *const *)a)->keys[PAIR_SOURCE],
        &(*(struct pair *const *)b)->keys[PAIR_SOURCE]);
}

static int compare_copies(const void *a, const void *b)
{
    return compare_keys(&(*(struct pair *const *)a)->keys[PAIR_COPY],
        &(*(struct pair *const *)b)->keys[PAIR_COPY]);
}

size_t move_load_sort(
    struct load *load, enum pair_state state, enum pair_side side)
{
    size_t count = 0;

    for (size_t i = 0; i < load->count; i++)
        if (state == PAIR_ANY || load->pairs[i].state == state)
            load->order[count++] = &load->pairs[i];
    qsort(load->order, count, sizeof(struct pair *),
        side == PAIR_SOURCE ? compare_sources : compare_copies);
    return count;
}

/* ---- reading ---- */

void found_set(struct pair *pair, const struct entity *entity)
{
    struct digest digest;

    pair->found = (struct found){.there = entity != NULL};
    if (!entity)
        return;
    etag_copy(pair->found.etag, entity->etag);
    if (!text_ticks(entity->timestamp, &pair->found.ticks))
        pair->found.ticks = 0;
    digest = entity_digest(entity, slice_of(""));
    pair->found.equal =
        digest.low == pair->digest.low && digest.high == pair->digest.high;
}

/* Pairs of one partition, read by one scan. */
struct range {
    struct pair **pairs;
    size_t count;
    enum pair_side side;
    unsigned first_top; /* $top of the first page; 0: default */
    bool found[BATCH_MAX_OPERATIONS];
    struct scan *scan;
};

static const struct keys *keys_at(const struct range *range, size_t i)
{
    return &range->pairs[i]->keys[range->side];
}

/* Does key have only characters up to U+FFFF? The stores disagree about the
 * order of keys with higher characters, so each of those keys is read as a
 * range of its own. */
static bool is_plain(struct slice key)
{
    for (size_t i = 0; i < key.len; i++)
        if ((unsigned char)key.at[i] >= 0xf0)
            return false;
    return true;
}

static struct range cut_range(
    struct pair **pairs, size_t count, enum pair_side side)
{
    struct range range = {.pairs = pairs, .count = 1, .side = side};

    while (range.count < count && range.count < BATCH_MAX_OPERATIONS &&
           is_plain(keys_at(&range, 0)->row_key) &&
           is_plain(keys_at(&range, range.count)->row_key) &&
           slice_equal(keys_at(&range, 0)->partition_key,
               keys_at(&range, range.count)->partition_key))
        range.count++;
    return range;
}

static void open_range(struct range *range, struct run *run,
    struct store *store, const char *table)
{
    static const struct slice keys_only[1];
    const struct keys *first = keys_at(range, 0),
                      *last = keys_at(range, range->count - 1);
    struct scan_spec spec = {.store = store,
        .table = table,
        .partition_key = key_range_exact(first->partition_key),
        .row_key = key_range_exact(first->row_key),
        .select = range->side == PAIR_SOURCE ? keys_only : NULL,
        .first_top = range->first_top};
    struct arena arena;

    arena_init(&arena);
    if (range->count > 1)
        /* The range ends below the last key with a '!' appended. This range
         * includes the last key itself and all keys that continue it with a
         * blank, the only character below '!' that the service allows in a key.
         */
        spec.row_key = (struct key_range){.has_from = true,
            .has_below = true,
            .from = first->row_key,
            .below = arena_format(&arena, "%.*s!", SLICE_ARG(last->row_key))};
    range->scan = scan_open(run->pool_client, &spec);
    arena_done(&arena);
}

static size_t find_in(const struct range *range, struct slice row_key)
{
    size_t low = 0, high = range->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = slice_compare(keys_at(range, middle)->row_key, row_key);

        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return range->count;
}

/* Returns the number of pairs whose keys are on the page. */
static size_t match_page(struct range *range, const struct page *page)
{
    size_t matched = 0;

    for (size_t i = 0; i < page->count; i++) {
        size_t at = find_in(range, page->entities[i].row_key);

        if (at == range->count || range->found[at])
            continue;
        found_set(range->pairs[at], &page->entities[i]);
        range->found[at] = true;
        matched++;
    }
    return matched;
}

static enum tw_err read_one(const struct range *range, size_t at,
    struct run *run, struct store *store, const char *table, struct err *err)
{
    const struct keys *keys = keys_at(range, at);
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(run->pool_client, store, table, keys->partition_key,
        keys->row_key, &page, NULL, err);
    if (outcome == TW_OK)
        found_set(range->pairs[at], &page.entities[0]);
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/* Reads until all keys are found, the range ends, or IDLE_PAGES_MAX pages have
 * none of the keys. *ret_whole becomes true if the range was read to its end,
 * so that keys that were not found have no entity. */
static enum tw_err read_pages(
    struct range *range, bool *ret_whole, struct err *err)
{
    size_t left = range->count, idle = 0;
    const struct page *page;

    *ret_whole = false;
    while (left > 0 && idle < IDLE_PAGES_MAX) {
        enum tw_err outcome = scan_next(range->scan, &page, err);
        size_t matched;

        if (outcome != TW_OK && outcome != TW_NOT_FOUND)
            return outcome;
        if (outcome == TW_NOT_FOUND || !page) {
            *ret_whole = true;
            break;
        }
        matched = match_page(range, page);
        left -= matched;
        idle = matched > 0 ? 0 : idle + 1;
    }
    return TW_OK;
}

static enum tw_err read_range(struct range *range, struct run *run,
    struct store *store, const char *table, struct err *err)
{
    enum tw_err outcome;
    bool whole;

    for (size_t i = 0; i < range->count; i++)
        found_set(range->pairs[i], NULL);
    outcome = read_pages(range, &whole, err);
    for (size_t i = 0; i < range->count && outcome == TW_OK && !whole; i++)
        if (!range->found[i])
            outcome = read_one(range, i, run, store, table, err);
    return outcome;
}

enum tw_err move_load_read(struct load *load, size_t count, enum pair_side side,
    struct run *run, struct store *store, const char *table, struct err *err)
{
    struct range ranges[RANGES_AT_ONCE];
    size_t most = load->bytes > LARGE_LOAD_BYTES ? 1 : RANGES_AT_ONCE;
    /* Small entities are read in full pages, because other entities may lie
     * between their keys. */
    bool full_pages =
        load->count > 0 && load->bytes / load->count <= SMALL_ENTITY_BYTES;
    enum tw_err outcome = TW_OK;
    size_t done = 0;

    while (done < count && outcome == TW_OK) {
        size_t opened = 0;

        for (; opened < most && done < count; opened++) {
            ranges[opened] = cut_range(load->order + done, count - done, side);
            ranges[opened].first_top = full_pages ? PAGE_MAX_ENTITIES : 0;
            open_range(&ranges[opened], run, store, table);
            done += ranges[opened].count;
        }
        for (size_t i = 0; i < opened; i++) {
            if (outcome == TW_OK)
                outcome = read_range(&ranges[i], run, store, table, err);
            scan_close(ranges[i].scan);
        }
    }
    return outcome;
}
