/* SPDX-License-Identifier: MIT */
/* A batch in the making. */
#include "jobs/engine/pack.h"

#include <string.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

/*
 * What an operation takes in a batch: boundaries, headers and the URL of the
 * account in OPERATION_BYTES, its keys percent-encoded in the URL (three
 * bytes for one) and again in the body, each property with its type.
 */
#define OPERATION_BYTES 1024
#define KEY_FACTOR 6
#define PROPERTY_BYTES 64

#define FIRST_ROOM 8

static size_t encoded_bytes(const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    size_t bytes = OPERATION_BYTES + KEY_FACTOR * (entity->partition_key.len +
                                                      entity->row_key.len);

    if (operation->type == OPERATION_DELETE)
        return bytes;
    for (size_t i = 0; i < entity->property_count; i++)
        bytes += PROPERTY_BYTES + 2 * entity->properties[i].name.len +
                 entity->properties[i].json.len;
    return bytes;
}

static void copy_operation(
    struct operation *to, struct arena *arena, const struct operation *from)
{
    struct entity bare = from->entity;

    if (from->type == OPERATION_DELETE) {
        bare.properties = NULL;
        bare.property_count = 0;
    }
    to->type = from->type;
    entity_copy(&to->entity, arena, &bare);
}

struct pack *pack_new(const struct flow_item *item)
{
    struct pack *pack = mem_alloc(sizeof *pack);

    arena_init(&pack->arena);
    pack->store = item->store;
    pack->table = item->table;
    pack->partition_key =
        arena_copy(&pack->arena, item->operation.entity.partition_key);
    pack->in_order = true;
    return pack;
}

void pack_free(struct pack *pack)
{
    arena_done(&pack->arena);
    mem_free(pack->entries);
    mem_free(pack);
}

bool pack_takes(const struct pack *pack, const struct flow_item *item)
{
    return pack->store == item->store &&
           slice_equal(
               pack->partition_key, item->operation.entity.partition_key) &&
           strcmp(pack->table, item->table) == 0;
}

/* Operations mostly come in the order of their keys: then the last is the
 * greatest, and one look is enough. */
static bool has_key(const struct pack *pack, struct slice row_key)
{
    if (pack->in_order && slice_compare(row_key, pack->last_row_key) > 0)
        return false;
    return pack_find(pack, row_key) != NULL;
}

bool pack_has_room(const struct pack *pack, const struct flow_item *item)
{
    return pack->count < BATCH_MAX_OPERATIONS &&
           pack->bytes + encoded_bytes(&item->operation) <=
               pack->store->traits.batch_max_bytes &&
           !has_key(pack, item->operation.entity.row_key);
}

static void append(struct pack *pack, const struct pack_entry *from)
{
    struct pack_entry *entry;

    if (pack->count == pack->room) {
        pack->room = pack->room ? pack->room * 2 : FIRST_ROOM;
        pack->entries =
            mem_resize(pack->entries, pack->room * sizeof *pack->entries);
    }
    entry = &pack->entries[pack->count];
    *entry = *from;
    copy_operation(&entry->item.operation, &pack->arena, &from->item.operation);
    pack->bytes += encoded_bytes(&entry->item.operation);
    if (pack->count > 0 && slice_compare(entry->item.operation.entity.row_key,
                               pack->last_row_key) < 0)
        pack->in_order = false;
    pack->last_row_key = entry->item.operation.entity.row_key;
    pack->count++;
}

void pack_add(struct pack *pack, const struct flow_item *item, uint64_t ticket)
{
    struct pack_entry entry = {
        .item = *item,
        .ticket = ticket,
        .fate = PACK_SEND,
    };

    append(pack, &entry);
}

struct pack_entry *pack_find(const struct pack *pack, struct slice row_key)
{
    for (size_t i = 0; i < pack->count; i++)
        if (slice_equal(
                pack->entries[i].item.operation.entity.row_key, row_key))
            return &pack->entries[i];
    return NULL;
}

void pack_change(struct pack *pack, struct pack_entry *entry,
    const struct operation *operation)
{
    copy_operation(&entry->item.operation, &pack->arena, operation);
    entry->fate = PACK_SEND;
}

void pack_store(struct pack *pack, struct pack_entry *entry,
    enum pack_fate fate, struct slice etag)
{
    entry->fate = fate;
    entry->etag = arena_copy(&pack->arena, etag);
}

void pack_doubt(struct pack *pack)
{
    for (size_t i = 0; i < pack->count; i++)
        pack->entries[i].unsure = true;
}

void pack_fail(struct pack *pack, struct pack_entry *entry, const char *why)
{
    entry->why = arena_copy(&pack->arena, slice_of(why)).at;
    entry->fate = PACK_FAILED;
}

/* Moves entries first..count-1 that are to be sent into to, with copies of
 * all that they refer to. */
static void move_entries(struct pack *to, const struct pack *from, size_t first)
{
    for (size_t i = first; i < from->count; i++)
        if (from->entries[i].fate == PACK_SEND)
            append(to, &from->entries[i]);
}

void pack_compact(struct pack *pack)
{
    struct pack was = *pack;

    arena_init(&pack->arena);
    pack->partition_key = arena_copy(&pack->arena, was.partition_key);
    pack->entries = NULL;
    pack->count = pack->room = pack->bytes = 0;
    pack->in_order = true;
    pack->result = NULL;
    move_entries(pack, &was, 0);
    arena_done(&was.arena);
    mem_free(was.entries);
}

struct pack *pack_split(struct pack *pack)
{
    struct pack *second = pack_new(&pack->entries[0].item);
    size_t middle = pack->count / 2;

    second->unknowns = pack->unknowns;
    second->not_before_ms = pack->not_before_ms;
    move_entries(second, pack, middle);
    pack->count = middle;
    pack_compact(pack);
    return second;
}

static enum tw_err send_batch(
    struct lanes_task *task, struct exchange *exchange)
{
    struct pack *pack = (struct pack *)task;

    return store_batch(pack->store, exchange, &pack->batch, pack->result);
}

static void make_task(struct pack *pack)
{
    struct operation *operations =
        arena_alloc(&pack->arena, pack->count * sizeof *operations);

    for (size_t i = 0; i < pack->count; i++)
        operations[i] = pack->entries[i].item.operation;
    pack->batch = (struct batch){
        .table = pack->table,
        .operations = operations,
        .count = pack->count,
    };
    pack->result = arena_alloc(&pack->arena, sizeof *pack->result);
    pack->task = (struct lanes_task){
        .send = send_batch,
        .store = pack->store,
        .partition = rate_limiter_partition(pack->table, pack->partition_key),
        .entities = (unsigned)pack->count,
        .bytes = pack->bytes,
    };
}

void pack_submit(struct pack *pack, struct lanes_client *lanes)
{
    make_task(pack);
    lanes_submit_at(lanes, &pack->task, pack->not_before_ms);
}

void pack_call(struct pack *pack, struct lanes_client *lanes)
{
    make_task(pack);
    (void)!lanes_call_at(lanes, &pack->task, pack->not_before_ms);
}
