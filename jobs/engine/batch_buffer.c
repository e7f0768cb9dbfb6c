/* SPDX-License-Identifier: MIT */
/* A batch: its operations, their states, and the request that sends them. */
#include "jobs/engine/batch_buffer.h"

#include <string.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

/*
 * For the estimated size of an operation in a batch, in bytes:
 *
 *   OPERATION_BYTES  the boundaries, the headers and the account's URL
 *   KEY_FACTOR       for each byte of a key: three bytes in the URL, where
 *                    the key is percent-encoded, and as many in the body
 *   PROPERTY_BYTES   the type of a property
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

struct batch_buffer *batch_buffer_new(const struct batch_item *item)
{
    struct batch_buffer *batch_buffer = mem_alloc(sizeof *batch_buffer);

    arena_init(&batch_buffer->arena);
    batch_buffer->store = item->store;
    batch_buffer->table = item->table;
    batch_buffer->partition_key =
        arena_copy(&batch_buffer->arena, item->operation.entity.partition_key);
    batch_buffer->in_order = true;
    return batch_buffer;
}

void batch_buffer_free(struct batch_buffer *batch_buffer)
{
    arena_done(&batch_buffer->arena);
    mem_free(batch_buffer->entries);
    mem_free(batch_buffer);
}

bool batch_buffer_takes(
    const struct batch_buffer *batch_buffer, const struct batch_item *item)
{
    return batch_buffer->store == item->store &&
           slice_equal(batch_buffer->partition_key,
               item->operation.entity.partition_key) &&
           strcmp(batch_buffer->table, item->table) == 0;
}

/* Does the batch have an entry with that RowKey? Operations are mostly added in
 * the order of their keys. The last key is then the greatest, so one comparison
 * is enough. */
static bool has_key(
    const struct batch_buffer *batch_buffer, struct slice row_key)
{
    if (batch_buffer->in_order &&
        slice_compare(row_key, batch_buffer->last_row_key) > 0)
        return false;
    return batch_buffer_find(batch_buffer, row_key) != NULL;
}

bool batch_buffer_has_room(
    const struct batch_buffer *batch_buffer, const struct batch_item *item)
{
    return batch_buffer->count < BATCH_MAX_OPERATIONS &&
           batch_buffer->bytes + encoded_bytes(&item->operation) <=
               batch_buffer->store->capabilities.batch_max_bytes &&
           !has_key(batch_buffer, item->operation.entity.row_key);
}

static void append(
    struct batch_buffer *batch_buffer, const struct batch_buffer_entry *from)
{
    struct batch_buffer_entry *entry;

    if (batch_buffer->count == batch_buffer->room) {
        batch_buffer->room =
            batch_buffer->room ? batch_buffer->room * 2 : FIRST_ROOM;
        batch_buffer->entries = mem_resize(batch_buffer->entries,
            batch_buffer->room * sizeof *batch_buffer->entries);
    }
    entry = &batch_buffer->entries[batch_buffer->count];
    *entry = *from;
    copy_operation(
        &entry->item.operation, &batch_buffer->arena, &from->item.operation);
    batch_buffer->bytes += encoded_bytes(&entry->item.operation);
    if (batch_buffer->count > 0 &&
        slice_compare(entry->item.operation.entity.row_key,
            batch_buffer->last_row_key) < 0)
        batch_buffer->in_order = false;
    batch_buffer->last_row_key = entry->item.operation.entity.row_key;
    batch_buffer->count++;
}

void batch_buffer_add(struct batch_buffer *batch_buffer,
    const struct batch_item *item, uint64_t sequence)
{
    struct batch_buffer_entry entry = {
        .item = *item,
        .sequence = sequence,
        .state = ENTRY_SEND,
    };

    append(batch_buffer, &entry);
}

struct batch_buffer_entry *batch_buffer_find(
    const struct batch_buffer *batch_buffer, struct slice row_key)
{
    for (size_t i = 0; i < batch_buffer->count; i++)
        if (slice_equal(batch_buffer->entries[i].item.operation.entity.row_key,
                row_key))
            return &batch_buffer->entries[i];
    return NULL;
}

void batch_buffer_change(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const struct operation *operation)
{
    copy_operation(&entry->item.operation, &batch_buffer->arena, operation);
    entry->state = ENTRY_SEND;
}

void batch_buffer_store(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, enum entry_state state, struct slice etag)
{
    entry->state = state;
    entry->etag = arena_copy(&batch_buffer->arena, etag);
}

void batch_buffer_doubt(struct batch_buffer *batch_buffer)
{
    for (size_t i = 0; i < batch_buffer->count; i++)
        batch_buffer->entries[i].indeterminate = true;
}

void batch_buffer_fail(struct batch_buffer *batch_buffer,
    struct batch_buffer_entry *entry, const char *why)
{
    entry->why = arena_copy(&batch_buffer->arena, slice_of(why)).at;
    entry->state = ENTRY_FAILED;
}

/* Copies the entries of `from` in state ENTRY_SEND, beginning at index `first`,
 * to the batch `to`, with all the data that the entries refer to. */
static void move_entries(
    struct batch_buffer *to, const struct batch_buffer *from, size_t first)
{
    for (size_t i = first; i < from->count; i++)
        if (from->entries[i].state == ENTRY_SEND)
            append(to, &from->entries[i]);
}

void batch_buffer_compact(struct batch_buffer *batch_buffer)
{
    struct batch_buffer was = *batch_buffer;

    arena_init(&batch_buffer->arena);
    batch_buffer->partition_key =
        arena_copy(&batch_buffer->arena, was.partition_key);
    batch_buffer->entries = NULL;
    batch_buffer->count = batch_buffer->room = batch_buffer->bytes = 0;
    batch_buffer->in_order = true;
    batch_buffer->result = NULL;
    move_entries(batch_buffer, &was, 0);
    arena_done(&was.arena);
    mem_free(was.entries);
}

struct batch_buffer *batch_buffer_split(struct batch_buffer *batch_buffer)
{
    struct batch_buffer *second =
        batch_buffer_new(&batch_buffer->entries[0].item);
    size_t middle = batch_buffer->count / 2;

    second->unknowns = batch_buffer->unknowns;
    second->not_before_ms = batch_buffer->not_before_ms;
    move_entries(second, batch_buffer, middle);
    batch_buffer->count = middle;
    batch_buffer_compact(batch_buffer);
    return second;
}

static enum tw_err send_batch(
    struct pool_request *task, struct exchange *exchange)
{
    struct batch_buffer *batch_buffer = (struct batch_buffer *)task;

    return store_batch(batch_buffer->store, exchange, &batch_buffer->batch,
        batch_buffer->result);
}

static void make_task(struct batch_buffer *batch_buffer)
{
    struct operation *operations = arena_alloc(
        &batch_buffer->arena, batch_buffer->count * sizeof *operations);

    for (size_t i = 0; i < batch_buffer->count; i++)
        operations[i] = batch_buffer->entries[i].item.operation;
    batch_buffer->batch = (struct batch){
        .table = batch_buffer->table,
        .operations = operations,
        .count = batch_buffer->count,
    };
    batch_buffer->result =
        arena_alloc(&batch_buffer->arena, sizeof *batch_buffer->result);
    batch_buffer->task = (struct pool_request){
        .send = send_batch,
        .store = batch_buffer->store,
        .partition = rate_limiter_partition(
            batch_buffer->table, batch_buffer->partition_key),
        .entities = (unsigned)batch_buffer->count,
        .bytes = batch_buffer->bytes,
        .from_ms = batch_buffer->not_before_ms,
    };
}

void batch_buffer_submit(
    struct batch_buffer *batch_buffer, struct pool_client *pool_client)
{
    make_task(batch_buffer);
    request_pool_submit(pool_client, &batch_buffer->task);
}

void batch_buffer_call(
    struct batch_buffer *batch_buffer, struct pool_client *pool_client)
{
    make_task(batch_buffer);
    (void)!request_pool_call(pool_client, &batch_buffer->task);
}
