/* SPDX-License-Identifier: MIT */
/*
 * Each operation is stored as one compact piece, because batches get fuller if
 * more operations fit into the sorter. Operations that differ only in their
 * keys and values share a shape, which has everything else: the table, the
 * callbacks, and the names and types of the properties. A shape also has the
 * beginning of each value of its first operation, and a piece has only the rest
 * of each value, from the first byte that differs. This saves much:
 * TablewardSource begins with the same 200 bytes in all copies of one job. The
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
 * If there are more partitions, each batch is sealed, because a partition then
 * probably has no operations in the next flush, and an open batch would only
 * occupy memory. */
#define PARTITIONS_KEPT_OPEN 32

/* Number of shapes that a new operation is compared with: the shapes of the
 * newest operations. */
#define SHAPES_KNOWN 16

/* Maximum number of bytes of a value that a shape stores. */
#define SHAPE_VALUE_BYTES 512

/* A value longer than this is stored whole, and its shape is not used. Sharing
 * would save little of it. And when the operation is handed over, the two parts
 * of the value would be joined in new memory of the same size. */
#define SHARING_MAX_BYTES 2048

/*
 * sorter_make_room() hands over 1/ROOM_PART of all operations and of their
 * bytes, beginning with the largest partitions. The smaller this share is, the
 * fuller are the batches. With a small share, the partitions that are handed
 * over have about twice as many operations as the average partition, because
 * partitions of all smaller sizes remain in the sorter. With a share of one
 * half, they would have only 1.5 times as many. A small share also has two
 * other effects: fewer batches are under way at once, and the partitions are
 * listed more often.
 */
#define ROOM_PART 8

/* Limit of the bytes of all shapes. Beyond it the next flush hands over all
 * operations, because shapes are freed only with all of their operations. */
#define SHAPES_MAX_BYTES (SORTER_MAX_BYTES / 16)

/* Limit of the bytes of a number that put_number() writes. */
#define NUMBER_BYTES 10

/* What similar operations share. */
struct shape {
    size_t users; /* number of pieces with this shape, and 1 more while the
                   * shape is known */
    size_t bytes; /* size of the whole allocation */
    struct store *store;
    const char *table;
    enum write_decision (*decide)(void *context, const struct operation *sent,
        const struct entity *now, struct arena *arena, struct operation *ret,
        struct err *err);
    void (*completed)(void *context, const struct batch_writer_completed *how);
    enum operation_type type;
    size_t property_count;
    struct property properties[]; /* `json` of each has only the beginning of a
                                     value. The texts follow in the same
                                     allocation */
};

/*
 * A piece is a stored item. Its `bytes` are:
 *
 *   PartitionKey, RowKey
 *   the length of the ETag, and the ETag
 *   for each property of the shape: the number of bytes that the value
 *       shares with the shape, the length of the rest, and the rest
 */
struct held {
    struct shape *shape;
    void *context;
    uint64_t number; /* number of operations added before this one */
    uint32_t size;   /* size of the piece, in bytes */
    uint32_t index;  /* index in sorter->held; set only while gaps are closed */
    uint32_t partition_key_len, row_key_len;
    char bytes[];
};

struct sorter {
    char *block; /* SORTER_MAX_BYTES bytes, of which `used` are in use; NULL:
                  * not allocated */
    size_t used;
    struct arena large;
    struct held **held;
    size_t count, sorted; /* the first `sorted` pieces are in order */
    struct shape *known[SHAPES_KNOWN]; /* the most recently used first */
    size_t known_count;
    size_t shape_bytes; /* memory of all shapes that are known or in use */
    uint64_t added;
    uint64_t oldest; /* the least number of the stored operations; equal to
                      * `added` if there are none */
    bool pouring; /* operations are being handed over, and none may be added */
};

/* ---- texts ---- */

/* Each put_ function writes at *at, and moves *at behind what was written. */

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

/* Write a number with seven bits in each byte, the low bits first. Only the
 * last byte is less than 128. */
static void put_number(char **at, size_t number)
{
    for (; number >= 0x80; number >>= 7)
        *(*at)++ = (char)(number | 0x80);
    *(*at)++ = (char)number;
}

static struct slice take(const char **at, size_t len)
{
    struct slice slice = {*at, len};

    *at += len;
    return slice;
}

static size_t take_number(const char **at)
{
    size_t number = 0;
    unsigned shift = 0;
    unsigned char byte;

    do {
        byte = (unsigned char)*(*at)++;
        number |= (size_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte >= 0x80);
    return number;
}

/* Returns the number of bytes at the beginning that are the same in both texts.
 */
static size_t shared_bytes(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len, shared = 0;
    uint64_t left, right;

    for (; shared + sizeof left <= len; shared += sizeof left) {
        memcpy(&left, a.at + shared, sizeof left);
        memcpy(&right, b.at + shared, sizeof right);
        if (left != right)
            break;
    }
    while (shared < len && a.at[shared] == b.at[shared])
        shared++;
    return shared;
}

/* ---- shapes ---- */

static size_t properties_of(const struct operation *operation)
{
    return operation->type == OPERATION_DELETE
               ? 0
               : operation->entity.property_count;
}

static struct slice beginning(struct slice value)
{
    if (value.len > SHAPE_VALUE_BYTES)
        value.len = SHAPE_VALUE_BYTES;
    return value;
}

static struct slice put_copy(char **at, struct slice text)
{
    struct slice copy = {*at, text.len};

    put_slice(at, text);
    return copy;
}

static struct shape *shape_new(const struct batch_item *item)
{
    const struct property *properties = item->operation.entity.properties;
    size_t count = properties_of(&item->operation);
    size_t bytes = sizeof(struct shape) + count * sizeof *properties;
    struct shape *shape;
    char *at;

    for (size_t i = 0; i < count; i++)
        bytes += properties[i].name.len + beginning(properties[i].json).len;
    shape = mem_alloc(bytes);
    at = (char *)&shape->properties[count];
    shape->bytes = bytes;
    shape->store = item->store;
    shape->table = item->table;
    shape->decide = item->decide;
    shape->completed = item->completed;
    shape->type = item->operation.type;
    shape->property_count = count;
    for (size_t i = 0; i < count; i++) {
        shape->properties[i].name = put_copy(&at, properties[i].name);
        shape->properties[i].type = properties[i].type;
        shape->properties[i].json =
            put_copy(&at, beginning(properties[i].json));
    }
    return shape;
}

static void leave_shape(struct sorter *sorter, struct shape *shape)
{
    if (--shape->users > 0)
        return;
    sorter->shape_bytes -= shape->bytes;
    mem_free(shape);
}

static bool has_shape(const struct batch_item *item, const struct shape *shape)
{
    const struct property *properties = item->operation.entity.properties;

    if (item->store != shape->store || item->table != shape->table ||
        item->decide != shape->decide || item->completed != shape->completed ||
        item->operation.type != shape->type ||
        properties_of(&item->operation) != shape->property_count)
        return false;
    for (size_t i = 0; i < shape->property_count; i++)
        if (properties[i].type != shape->properties[i].type ||
            !slice_equal(properties[i].name, shape->properties[i].name))
            return false;
    return true;
}

/* Makes a new shape known. If there are too many, the shape that was not used
 * for the longest time is forgotten. */
static struct shape *add_shape(
    struct sorter *sorter, const struct batch_item *item)
{
    struct shape *shape = shape_new(item);

    if (sorter->known_count == SHAPES_KNOWN)
        leave_shape(sorter, sorter->known[--sorter->known_count]);
    sorter->known[sorter->known_count++] = shape;
    sorter->shape_bytes += shape->bytes;
    shape->users = 1;
    return shape;
}

/* Returns the shape of item, and counts one more user of it. */
static struct shape *shape_for(
    struct sorter *sorter, const struct batch_item *item)
{
    struct shape *shape;
    size_t i = 0;

    while (i < sorter->known_count && !has_shape(item, sorter->known[i]))
        i++;
    if (i < sorter->known_count) {
        shape = sorter->known[i];
    } else {
        shape = add_shape(sorter, item);
        i = sorter->known_count - 1;
    }
    memmove(&sorter->known[1], &sorter->known[0], i * sizeof *sorter->known);
    sorter->known[0] = shape;
    shape->users++;
    return shape;
}

static void forget_shapes(struct sorter *sorter)
{
    while (sorter->known_count > 0)
        leave_shape(sorter, sorter->known[--sorter->known_count]);
}

/* ---- adding ---- */

/* Returns an upper limit of the size of the piece of operation. */
static size_t most_bytes(const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    size_t count = properties_of(operation);
    size_t bytes = sizeof(struct held) + entity->partition_key.len +
                   entity->row_key.len + NUMBER_BYTES + entity->etag.len +
                   alignof(struct held);

    for (size_t i = 0; i < count; i++)
        bytes += 2 * NUMBER_BYTES + entity->properties[i].json.len;
    return bytes;
}

/* Returns memory for a piece of at most `bytes` bytes. */
static struct held *held_alloc(struct sorter *sorter, size_t bytes)
{
    if (bytes > LARGE_BYTES)
        return arena_alloc(&sorter->large, bytes);
    if (!sorter->block)
        sorter->block = mem_alloc(SORTER_MAX_BYTES);
    return (struct held *)(void *)(sorter->block + sorter->used);
}

static void put_value(
    char **at, const struct property *shape, struct slice value)
{
    size_t shared =
        value.len <= SHARING_MAX_BYTES ? shared_bytes(value, shape->json) : 0;

    put_number(at, shared);
    put_number(at, value.len - shared);
    put(at, value.at + shared, value.len - shared);
}

/* Writes the piece, and sets held->size. */
static void fold(struct held *held, struct shape *shape, uint64_t number,
    const struct batch_item *item)
{
    const struct entity *entity = &item->operation.entity;
    size_t align = alignof(struct held), size;
    char *at = held->bytes;

    held->shape = shape;
    held->context = item->context;
    held->number = number;
    held->partition_key_len = (uint32_t)entity->partition_key.len;
    held->row_key_len = (uint32_t)entity->row_key.len;
    put_slice(&at, entity->partition_key);
    put_slice(&at, entity->row_key);
    put_number(&at, entity->etag.len);
    put_slice(&at, entity->etag);
    for (size_t i = 0; i < shape->property_count; i++)
        put_value(&at, &shape->properties[i], entity->properties[i].json);
    size = (size_t)(at - (char *)held);
    held->size = (uint32_t)((size + align - 1) / align * align);
}

void sorter_add(struct sorter *sorter, const struct batch_item *item)
{
    size_t most = most_bytes(&item->operation);
    struct held *held;

    assert(!sorter->pouring && !sorter_is_full(sorter));
    held = held_alloc(sorter, most);
    fold(held, shape_for(sorter, item), sorter->added++, item);
    if (most <= LARGE_BYTES)
        sorter->used += held->size;
    sorter->held[sorter->count++] = held;
}

bool sorter_is_full(const struct sorter *sorter)
{
    return sorter->count >= SORTER_MAX_OPERATIONS ||
           sorter->used + sorter->large.bytes + sorter->shape_bytes +
                   LARGE_BYTES >
               SORTER_MAX_BYTES;
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

static int compare_tables(const struct shape *a, const struct shape *b)
{
    int order = a == b ? 0 : strcmp(a->store->name, b->store->name);

    if (order == 0 && a->table != b->table)
        order = strcmp(a->table, b->table);
    return order;
}

static int compare_partitions(const struct held *a, const struct held *b)
{
    int order = compare_tables(a->shape, b->shape);

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

/* Merges held[0..first) and held[first..count), each of which is in order. */
static void merge(struct held **held, size_t first, size_t count)
{
    size_t fresh_count = count - first, at = count;
    struct held **fresh = mem_array(fresh_count, sizeof *fresh);

    memcpy(fresh, held + first, fresh_count * sizeof *fresh);
    while (fresh_count > 0) {
        if (first > 0 && compare(&held[first - 1], &fresh[fresh_count - 1]) > 0)
            held[--at] = held[--first];
        else
            held[--at] = fresh[--fresh_count];
    }
    mem_free(fresh);
}

/* Sort only the new pieces, and merge them with the others, which are in order
 * since the previous flush. */
static void sort_pieces(struct sorter *sorter)
{
    size_t first = sorter->sorted;

    qsort(sorter->held + first, sorter->count - first, sizeof *sorter->held,
        compare);
    if (first > 0 && first < sorter->count)
        merge(sorter->held, first, sorter->count);
    sorter->sorted = sorter->count;
}

static struct slice take_value(
    const char **at, const struct property *shape, struct arena *arena)
{
    size_t shared = take_number(at), rest_len = take_number(at);
    struct slice rest = take(at, rest_len);
    char *value, *end;

    if (shared == 0)
        return rest;
    if (rest.len == 0)
        return (struct slice){shape->json.at, shared};
    value = end = arena_alloc(arena, shared + rest.len);
    put(&end, shape->json.at, shared);
    put_slice(&end, rest);
    return (struct slice){value, shared + rest.len};
}

/*
 * Returns the operation as it was added. Its list of properties is allocated in
 * arena; its texts are borrowed from held, its shape and arena.
 */
static struct operation unfold(const struct held *held, struct arena *arena)
{
    const struct shape *shape = held->shape;
    struct operation operation = {.type = shape->type};
    struct entity *entity = &operation.entity;
    const char *at = held->bytes;

    entity->partition_key = take(&at, held->partition_key_len);
    entity->row_key = take(&at, held->row_key_len);
    entity->etag = take(&at, take_number(&at));
    entity->property_count = shape->property_count;
    entity->properties =
        arena_alloc(arena, entity->property_count * sizeof *entity->properties);
    for (size_t i = 0; i < entity->property_count; i++) {
        entity->properties[i] = shape->properties[i];
        entity->properties[i].json =
            take_value(&at, &shape->properties[i], arena);
    }
    return operation;
}

static enum tw_err flush_one(const struct held *held,
    struct batch_writer *batch_writer, struct arena *scratch, struct err *err)
{
    const struct batch_item item = {
        .store = held->shape->store,
        .table = held->shape->table,
        .operation = unfold(held, scratch),
        .decide = held->shape->decide,
        .completed = held->shape->completed,
        .context = held->context,
    };
    enum tw_err outcome = batch_writer_add(batch_writer, &item, err);

    arena_clear(scratch);
    return outcome;
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

/* Returns the groups of the sorted operations, in the order of their
 * partitions, in a list owned by the caller. */
static struct group *list_groups(const struct sorter *sorter, size_t *ret_count)
{
    struct group *groups = NULL;
    size_t count = 0, room = 0;

    for (size_t i = 0; i < sorter->count; i++) {
        if (begins(sorter, i)) {
            if (count == room) {
                room = room > 0 ? 2 * room : 64;
                groups = mem_resize(groups, room * sizeof *groups);
            }
            groups[count++] = (struct group){.first = i};
        }
        groups[count - 1].count++;
        groups[count - 1].old |= is_old(sorter, sorter->held[i]);
    }
    *ret_count = count;
    return groups;
}

/* Returns how many operations of group to flush. If the group is old or has
 * less than a full batch: all. Otherwise only full batches, because the other
 * operations may become a full batch later. */
static size_t wanted(const struct group *group)
{
    if (group->old || group->count < BATCH_MAX_OPERATIONS)
        return group->count;
    return group->count - group->count % BATCH_MAX_OPERATIONS;
}

/* Order old groups first, then groups by falling number of operations. */
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
 * operations, until 1/ROOM_PART of all operations and 1/ROOM_PART of all bytes
 * are chosen. */
static void choose_fullest(
    const struct sorter *sorter, struct group *groups, size_t count)
{
    struct group **order = mem_array(count, sizeof *order);
    size_t goes = 0, bytes = 0;

    for (size_t i = 0; i < count; i++)
        order[i] = &groups[i];
    qsort(order, count, sizeof *order, compare_groups);
    for (size_t i = 0;
         i < count && (order[i]->old || ROOM_PART * goes < sorter->count ||
                          ROOM_PART * bytes < sorter->used);
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
    enum tw_err outcome = TW_OK;

    for (size_t i = group->first;
         i < group->first + group->goes && outcome == TW_OK; i++) {
        outcome = flush_one(sorter->held[i], batch_writer, scratch, err);
        leave_shape(sorter, sorter->held[i]->shape);
        sorter->held[i]->shape = NULL;
        sorter->held[i] = NULL;
    }
    return outcome;
}

static enum tw_err flush_groups(struct sorter *sorter,
    const struct group *groups, size_t count, struct batch_writer *batch_writer,
    struct err *err)
{
    bool cuts = count > PARTITIONS_KEPT_OPEN;
    enum tw_err outcome = TW_OK;
    struct arena scratch;

    arena_init(&scratch);
    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        if (groups[i].goes == 0)
            continue;
        outcome = flush_group(sorter, &groups[i], batch_writer, &scratch, err);
        if (outcome == TW_OK && cuts)
            outcome = batch_writer_seal(batch_writer, err);
    }
    arena_done(&scratch);
    return outcome;
}

static void empty(struct sorter *sorter)
{
    for (size_t i = 0; i < sorter->count; i++)
        if (sorter->held[i])
            leave_shape(sorter, sorter->held[i]->shape);
    forget_shapes(sorter);
    sorter->count = sorter->sorted = 0;
    sorter->used = 0;
    sorter->oldest = sorter->added;
    mem_free(sorter->block);
    sorter->block = NULL;
    arena_done(&sorter->large);
}

/* Remove from sorter->held the pieces that were handed over; all others stay in
 * order. */
static void close_places(struct sorter *sorter)
{
    size_t count = 0;

    sorter->oldest = sorter->added;
    for (size_t i = 0; i < sorter->count; i++) {
        struct held *held = sorter->held[i];

        if (!held)
            continue;
        held->index = (uint32_t)count;
        sorter->held[count++] = held;
        if (held->number < sorter->oldest)
            sorter->oldest = held->number;
    }
    sorter->count = sorter->sorted = count;
}

/* Move the remaining pieces to the front of the block, in the order of their
 * addresses. A piece without a shape was handed over. */
static void close_gaps(struct sorter *sorter)
{
    size_t used = sorter->used, to = 0;

    close_places(sorter);
    for (size_t from = 0, size; from < used; from += size) {
        struct held *held = (struct held *)(void *)(sorter->block + from);

        size = held->size;
        if (!held->shape)
            continue;
        sorter->held[held->index] = (struct held *)(void *)(sorter->block + to);
        memmove(sorter->block + to, held, size);
        to += size;
    }
    sorter->used = to;
}

static enum tw_err flush(struct sorter *sorter, bool everything,
    struct batch_writer *batch_writer, struct err *err)
{
    struct group *groups;
    enum tw_err outcome;
    size_t count;

    sort_pieces(sorter);
    groups = list_groups(sorter, &count);
    everything |=
        sorter->large.bytes > 0 || sorter->shape_bytes > SHAPES_MAX_BYTES;
    if (everything)
        choose_all(groups, count);
    else
        choose_fullest(sorter, groups, count);
    sorter->pouring = true;
    outcome = flush_groups(sorter, groups, count, batch_writer, err);
    sorter->pouring = false;
    mem_free(groups);
    if (!everything && outcome == TW_OK) {
        close_gaps(sorter);
        return TW_OK;
    }
    empty(sorter);
    mem_give_back();
    return outcome;
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
