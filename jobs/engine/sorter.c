/* SPDX-License-Identifier: MIT */
/*
 * What is held lies in one piece each, without the room that a parsed entity
 * takes: the more fit in, the fuller the batches are. The pieces lie in one
 * block, which is there only while there are any: what has been poured is with
 * the flow, and of two sorters that feed each other one is empty.
 */
#include "jobs/engine/sorter.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/mem.h"

/* A larger piece gets memory of its own, so that the block need not keep room
 * for the largest. */
#define LARGE_BYTES (16 * 1024)

/* Gathering packs are worth their memory while their partition may come again
 * in the next pouring; among so many it may not. */
#define PARTITIONS_KEPT_OPEN 32

/* An item; its bytes are PartitionKey, RowKey and ETag, then each property:
 * the lengths of name and value, its type, its name, its value. */
struct held {
    struct store *store;
    const char *table;
    enum flow_verdict (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void (*settled)(void *context, const struct flow_settled *how);
    void *context;
    uint32_t order;
    uint32_t partition_key_len, row_key_len, etag_len;
    uint32_t property_count;
    enum operation_type type;
    char bytes[];
};

struct sorter {
    char *block; /* SORTER_MAX_BYTES, of which so many are used; or NULL */
    size_t used;
    struct arena large;
    struct held **held;
    size_t count;
    bool pouring;
};

/* ---- in ---- */

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
    sorter->used += bytes;
    return held;
}

/* Puts bytes at *at, which moves behind them. */
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

static void fold(struct held *held, const struct flow_item *item)
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

void sorter_add(struct sorter *sorter, const struct flow_item *item)
{
    struct held *held;

    assert(!sorter->pouring && !sorter_is_full(sorter));
    held = held_alloc(sorter, sizeof *held + bytes_of(&item->operation));
    fold(held, item);
    held->order = (uint32_t)sorter->count;
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

/* ---- out ---- */

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
        order = a->order < b->order ? -1 : 1;
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

/* The operation as it came; its properties are listed in arena. */
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

static enum tw_err pour_one(const struct held *held, struct flow *flow,
    struct arena *scratch, struct err *err)
{
    const struct flow_item item = {
        .store = held->store,
        .table = held->table,
        .operation = unfold(held, scratch),
        .decide = held->decide,
        .settled = held->settled,
        .context = held->context,
    };
    enum tw_err code = flow_add(flow, &item, err);

    arena_clear(scratch);
    return code;
}

/* Does another partition begin at i? */
static bool begins(const struct sorter *sorter, size_t i)
{
    return i > 0 &&
           compare_partitions(sorter->held[i - 1], sorter->held[i]) != 0;
}

static size_t count_partitions(const struct sorter *sorter)
{
    size_t count = 1;

    for (size_t i = 0; i < sorter->count; i++)
        count += begins(sorter, i);
    return count;
}

static enum tw_err pour_all(
    const struct sorter *sorter, struct flow *flow, struct err *err)
{
    bool cuts = count_partitions(sorter) > PARTITIONS_KEPT_OPEN;
    enum tw_err code = TW_OK;
    struct arena scratch;

    arena_init(&scratch);
    for (size_t i = 0; i < sorter->count && code == TW_OK; i++) {
        if (cuts && begins(sorter, i))
            code = flow_cut(flow, err);
        if (code == TW_OK)
            code = pour_one(sorter->held[i], flow, &scratch, err);
    }
    arena_done(&scratch);
    return code;
}

static void empty(struct sorter *sorter)
{
    sorter->count = 0;
    sorter->used = 0;
    mem_free(sorter->block);
    sorter->block = NULL;
    arena_done(&sorter->large);
}

enum tw_err sorter_pour(
    struct sorter *sorter, struct flow *flow, struct err *err)
{
    enum tw_err code;

    qsort(sorter->held, sorter->count, sizeof *sorter->held, compare);
    sorter->pouring = true;
    code = pour_all(sorter, flow, err);
    sorter->pouring = false;
    empty(sorter);
    mem_give_back();
    return code;
}

/* ---- the sorter ---- */

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
