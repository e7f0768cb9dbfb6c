/* SPDX-License-Identifier: MIT */
/*
 * Each operation is stored as one compact piece, smaller than a parsed entity:
 * the more operations fit into the sorter, the fuller the batches are. The
 * pieces lie in one block, which is allocated only while the sorter has
 * operations.
 */
#include "jobs/engine/sorter.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/mem.h"

/* Size limit of a piece in the block, in bytes. A larger piece is allocated
 * separately, so that the block need not reserve space for the largest possible
 * piece. */
#define LARGE_BYTES (16 * 1024)

/* The largest number of partitions whose batches are left open after a flush.
 * With more partitions, each batch is sealed: a partition then probably has no
 * operations in the next flush, so an open batch would only occupy memory. */
#define PARTITIONS_KEPT_OPEN 32

/* A piece: a stored item. `bytes` has PartitionKey, RowKey and ETag, then for
 * each property the lengths of name and value, the type, the name, the
 * value. */
struct held {
    struct store *store;
    const char *table;
    enum write_decision (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void (*settled)(void *context, const struct batch_writer_settled *how);
    void *context;
    uint64_t number; /* number of operations added before this one */
    uint32_t size;   /* size of the piece, in bytes */
    uint32_t partition_key_len, row_key_len, etag_len;
    uint32_t property_count;
    enum operation_type type;
    char bytes[];
};

struct sorter {
    char *block; /* SORTER_MAX_BYTES bytes, of which `used` are in use; NULL:
                  * not allocated */
    size_t used;
    struct arena large;
    struct held **held;
    size_t count;
    uint64_t added;
    uint64_t oldest; /* the least number of the stored operations; equal to
                      * `added` if there are none */
    bool pouring;    /* operations are being handed over: none may be added */
};

/* ---- adding ---- */

static size_t properties_of(const struct operation *operation)
{
    return operation->type == OPERATION_DELETE
               ? 0
               : operation->entity.property_count;
}

static size_t bytes_of(const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    size_t count = properties_of(operation);
    size_t bytes =
        entity->partition_key.len + entity->row_key.len + entity->etag.len;

    for (size_t i = 0; i < count; i++)
        bytes += 2 * sizeof(uint32_t) + 1 + entity->properties[i].name.len +
                 entity->properties[i].json.len;
    return bytes;
}

static struct held *held_alloc(struct sorter *sorter, size_t bytes)
{
    size_t align = alignof(struct held);
    struct held *held;

    bytes = (bytes + align - 1) / align * align;
    if (bytes > LARGE_BYTES)
        return arena_alloc(&sorter->large, bytes);
    if (!sorter->block)
        sorter->block = mem_alloc(SORTER_MAX_BYTES);
    held = (struct held *)(void *)(sorter->block + sorter->used);
    held->size = (uint32_t)bytes;
    sorter->used += bytes;
    return held;
}

/* Copies len bytes to *at, and moves *at behind the copy. */
static void put(char **at, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(*at, bytes, len);
    *at += len;
}

static void put_slice(char **at, struct slice slice)
{
    put(at, slice.at, slice.len);
}

static void put_property(char **at, const struct property *property)
{
    uint32_t lengths[] = {
        (uint32_t)property->name.len, (uint32_t)property->json.len};
    char type = (char)property->type;

    put(at, lengths, sizeof lengths);
    put(at, &type, 1);
    put_slice(at, property->name);
    put_slice(at, property->json);
}

static void fold(struct held *held, const struct batch_item *item)
{
    const struct entity *entity = &item->operation.entity;
    char *at = held->bytes;

    held->store = item->store;
    held->table = item->table;
    held->decide = item->decide;
    held->settled = item->settled;
    held->context = item->context;
    held->type = item->operation.type;
    held->partition_key_len = (uint32_t)entity->partition_key.len;
    held->row_key_len = (uint32_t)entity->row_key.len;
    held->etag_len = (uint32_t)entity->etag.len;
    held->property_count = (uint32_t)properties_of(&item->operation);
    put_slice(&at, entity->partition_key);
    put_slice(&at, entity->row_key);
    put_slice(&at, entity->etag);
    for (size_t i = 0; i < held->property_count; i++)
        put_property(&at, &entity->properties[i]);
}

void sorter_add(struct sorter *sorter, const struct batch_item *item)
{
    struct held *held;

    assert(!sorter->pouring && !sorter_is_full(sorter));
    held = held_alloc(sorter, sizeof *held + bytes_of(&item->operation));
    fold(held, item);
    held->number = sorter->added++;
    sorter->held[sorter->count++] = held;
}

bool sorter_is_full(const struct sorter *sorter)
{
    return sorter->count >= SORTER_MAX_OPERATIONS ||
           sorter->used + sorter->large.bytes + LARGE_BYTES > SORTER_MAX_BYTES;
}

size_t sorter_count(const struct sorter *sorter)
{
    return sorter->count;
}

uint64_t sorter_added(const struct sorter *sorter)
{
    return sorter->added;
}

uint64_t sorter_oldest(const struct sorter *sorter)
{
    return sorter->oldest;
}

/* ---- sorting ---- */

static struct slice partition_key_of(const struct held *held)
{
    return (struct slice){held->bytes, held->partition_key_len};
}

static struct slice row_key_of(const struct held *held)
{
    return (struct slice){
        held->bytes + held->partition_key_len, held->row_key_len};
}

static int compare_partitions(const struct held *a, const struct held *b)
{
    int order = strcmp(a->store->name, b->store->name);

    if (order == 0)
        order = strcmp(a->table, b->table);
    if (order == 0)
        order = slice_compare(partition_key_of(a), partition_key_of(b));
    return order;
}

static int compare(const void *left, const void *right)
{
    const struct held *a = *(struct held *const *)left;
    const struct held *b = *(struct held *const *)right;
    int order = compare_partitions(a, b);

    if (order == 0)
        order = slice_compare(row_key_of(a), row_key_of(b));
    if (order == 0)
        order = a->number < b->number ? -1 : 1;
    return order;
}

static struct slice take(const char **at, size_t len)
{
    struct slice slice = {*at, len};

    *at += len;
    return slice;
}

static struct property take_property(const char **at)
{
    struct property property;
    uint32_t lengths[2];

    memcpy(lengths, take(at, sizeof lengths).at, sizeof lengths);
    property.type = (enum edm_type) * take(at, 1).at;
    property.name = take(at, lengths[0]);
    property.json = take(at, lengths[1]);
    return property;
}

/*
 * The operation as it was added. Its list of properties is allocated in arena;
 * its texts are borrowed from held.
 */
static struct operation unfold(const struct held *held, struct arena *arena)
{
    struct operation operation = {.type = held->type};
    struct entity *entity = &operation.entity;
    const char *at = held->bytes;

    entity->partition_key = take(&at, held->partition_key_len);
    entity->row_key = take(&at, held->row_key_len);
    entity->etag = take(&at, held->etag_len);
    entity->property_count = held->property_count;
    entity->properties =
        arena_alloc(arena, entity->property_count * sizeof *entity->properties);
    for (size_t i = 0; i < entity->property_count; i++)
        entity->properties[i] = take_property(&at);
    return operation;
}

static enum tw_err flush_one(const struct held *held,
    struct batch_writer *batch_writer, struct arena *scratch, struct err *err)
{
    const struct batch_item item = {
        .store = held->store,
        .table = held->table,
        .operation = unfold(held, scratch),
        .decide = held->decide,
        .settled = held->settled,
        .context = held->context,
    };
    enum tw_err code = batch_writer_add(batch_writer, &item, err);

    arena_clear(scratch);
    return code;
}

/* ---- choosing partitions ---- */

/* The operations of one partition, which are adjacent after sorting. */
struct group {
    size_t first, count;
    size_t goes; /* number of operations to flush, from the first */
    bool old;    /* an operation of the group has at least the age
                  * SORTER_MAX_AGE */
};

static bool begins(const struct sorter *sorter, size_t i)
{
    return i == 0 ||
           compare_partitions(sorter->held[i - 1], sorter->held[i]) != 0;
}

static bool is_old(const struct sorter *sorter, const struct held *held)
{
    return sorter->added - held->number >= SORTER_MAX_AGE;
}

/* The groups of the sorted operations, in the order of their partitions.
 * Owned. */
static struct group *list_groups(const struct sorter *sorter, size_t *ret_count)
{
    struct group *groups = mem_array(sorter->count + 1, sizeof *groups);
    size_t count = 0;

    for (size_t i = 0; i < sorter->count; i++) {
        if (begins(sorter, i))
            groups[count++].first = i;
        groups[count - 1].count++;
        groups[count - 1].old |= is_old(sorter, sorter->held[i]);
    }
    *ret_count = count;
    return groups;
}

/* The number of operations of group to flush: only whole batches, because the
 * rest may become a full batch later; all operations, if the group is old or
 * has fewer than one batch. */
static size_t wanted(const struct group *group)
{
    if (group->old || group->count < BATCH_MAX_OPERATIONS)
        return group->count;
    return group->count - group->count % BATCH_MAX_OPERATIONS;
}

/* Order: old groups first, then groups by falling number of operations. */
static int compare_groups(const void *left, const void *right)
{
    const struct group *a = *(struct group *const *)left;
    const struct group *b = *(struct group *const *)right;

    if (a->old != b->old)
        return a->old ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return a->first < b->first ? -1 : 1;
}

static size_t bytes_going(
    const struct sorter *sorter, const struct group *group)
{
    size_t bytes = 0;

    for (size_t i = 0; i < group->goes; i++)
        bytes += sorter->held[group->first + i]->size;
    return bytes;
}

/* Choose what to flush: all old groups, then the groups with the most
 * operations, until half of all operations and half of all bytes are chosen. */
static void choose_fullest(
    const struct sorter *sorter, struct group *groups, size_t count)
{
    struct group **order = mem_array(count, sizeof *order);
    size_t goes = 0, bytes = 0;

    for (size_t i = 0; i < count; i++)
        order[i] = &groups[i];
    qsort(order, count, sizeof *order, compare_groups);
    for (size_t i = 0;
         i < count && (order[i]->old || 2 * goes < sorter->count ||
                          2 * bytes < sorter->used);
         i++) {
        order[i]->goes = wanted(order[i]);
        goes += order[i]->goes;
        bytes += bytes_going(sorter, order[i]);
    }
    mem_free(order);
}

static void choose_all(struct group *groups, size_t count)
{
    for (size_t i = 0; i < count; i++)
        groups[i].goes = groups[i].count;
}

/* ---- flushing ---- */

static enum tw_err flush_group(struct sorter *sorter, const struct group *group,
    struct batch_writer *batch_writer, struct arena *scratch, struct err *err)
{
    enum tw_err code = TW_OK;

    for (size_t i = group->first;
         i < group->first + group->goes && code == TW_OK; i++) {
        code = flush_one(sorter->held[i], batch_writer, scratch, err);
        sorter->held[i] = NULL;
    }
    return code;
}

static enum tw_err flush_groups(struct sorter *sorter,
    const struct group *groups, size_t count, struct batch_writer *batch_writer,
    struct err *err)
{
    bool cuts = count > PARTITIONS_KEPT_OPEN;
    enum tw_err code = TW_OK;
    struct arena scratch;

    arena_init(&scratch);
    for (size_t i = 0; i < count && code == TW_OK; i++) {
        if (groups[i].goes == 0)
            continue;
        code = flush_group(sorter, &groups[i], batch_writer, &scratch, err);
        if (code == TW_OK && cuts)
            code = batch_writer_seal(batch_writer, err);
    }
    arena_done(&scratch);
    return code;
}

static void empty(struct sorter *sorter)
{
    sorter->count = 0;
    sorter->used = 0;
    sorter->oldest = sorter->added;
    mem_free(sorter->block);
    sorter->block = NULL;
    arena_done(&sorter->large);
}

static int compare_tables(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t) * (struct held *const *)left;
    uintptr_t b = (uintptr_t) * (struct held *const *)right;

    return a < b ? -1 : a > b;
}

/* Move the remaining pieces to the front of the block. */
static void close_gaps(struct sorter *sorter)
{
    size_t count = 0;

    for (size_t i = 0; i < sorter->count; i++)
        if (sorter->held[i])
            sorter->held[count++] = sorter->held[i];
    qsort(sorter->held, count, sizeof *sorter->held, compare_tables);
    sorter->count = count;
    sorter->used = 0;
    sorter->oldest = sorter->added;
    for (size_t i = 0; i < count; i++) {
        struct held *from = sorter->held[i];
        size_t size = from->size;

        sorter->held[i] = (struct held *)(void *)(sorter->block + sorter->used);
        memmove(sorter->held[i], from, size);
        sorter->used += size;
        if (sorter->held[i]->number < sorter->oldest)
            sorter->oldest = sorter->held[i]->number;
    }
}

static enum tw_err flush(struct sorter *sorter, bool everything,
    struct batch_writer *batch_writer, struct err *err)
{
    struct group *groups;
    enum tw_err code;
    size_t count;

    qsort(sorter->held, sorter->count, sizeof *sorter->held, compare);
    groups = list_groups(sorter, &count);
    everything |= count <= PARTITIONS_KEPT_OPEN || sorter->large.bytes > 0;
    if (everything)
        choose_all(groups, count);
    else
        choose_fullest(sorter, groups, count);
    sorter->pouring = true;
    code = flush_groups(sorter, groups, count, batch_writer, err);
    sorter->pouring = false;
    if (everything || code != TW_OK)
        empty(sorter);
    else
        close_gaps(sorter);
    mem_free(groups);
    mem_give_back();
    return code;
}

enum tw_err sorter_flush(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err)
{
    return flush(sorter, true, batch_writer, err);
}

enum tw_err sorter_make_room(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err)
{
    return flush(sorter, false, batch_writer, err);
}

/* ---- public functions ---- */

struct sorter *sorter_new(void)
{
    struct sorter *sorter = mem_alloc(sizeof *sorter);

    sorter->held = mem_array(SORTER_MAX_OPERATIONS, sizeof *sorter->held);
    arena_init(&sorter->large);
    return sorter;
}

void sorter_free(struct sorter *sorter)
{
    if (!sorter)
        return;
    empty(sorter);
    mem_free(sorter->held);
    mem_free(sorter);
}
