/* SPDX-License-Identifier: MIT */
/* A set of names with open addressing, never more than half full. */
#include "worker/transfer/columns.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "worker/base/arena.h"
#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/store/entity.h"
#include "worker/transfer/csv.h"

/* The number of buckets: a power of two, at least twice CSV_MAX_PROPERTIES. */
#define BUCKETS 32768

struct columns {
    struct arena arena;
    struct slice names[CSV_MAX_PROPERTIES];
    size_t count;
    bool sorted;               /* names are sorted; buckets are out of date */
    uint16_t buckets[BUCKETS]; /* index in names, plus 1; 0: empty bucket */
};

struct columns *columns_new(void)
{
    struct columns *columns = mem_alloc(sizeof(*columns));

    arena_init(&columns->arena);
    return columns;
}

void columns_free(struct columns *columns)
{
    if (!columns)
        return;
    arena_done(&columns->arena);
    mem_free(columns);
}

/* Returns the bucket of name, or the empty bucket for name if it was not
 * added. */
static uint16_t *bucket_of(struct columns *columns, struct slice name)
{
    size_t at = hash_mix(hash_slice(HASH_BEGIN, name)) % BUCKETS;

    while (columns->buckets[at] &&
           !slice_equal(columns->names[columns->buckets[at] - 1], name))
        at = (at + 1) % BUCKETS;
    return &columns->buckets[at];
}

static void rebuild(struct columns *columns)
{
    memset(columns->buckets, 0, sizeof(columns->buckets));
    for (size_t i = 0; i < columns->count; i++)
        *bucket_of(columns, columns->names[i]) = (uint16_t)(i + 1);
    columns->sorted = false;
}

enum tw_err columns_add(
    struct columns *columns, struct slice name, struct err *err)
{
    uint16_t *bucket;
    enum tw_err outcome;

    if (columns->sorted)
        rebuild(columns);
    bucket = bucket_of(columns, name);
    if (*bucket)
        return TW_OK;
    outcome = entity_check_name(name, err);
    if (outcome != TW_OK)
        return outcome;
    if (columns->count == CSV_MAX_PROPERTIES)
        return err_fail(err, TW_INVALID,
            "the entities have more than %d different properties, the most "
            "that a CSV file can have: use --select, or export JSON Lines",
            CSV_MAX_PROPERTIES);
    columns->names[columns->count++] = arena_copy(&columns->arena, name);
    *bucket = (uint16_t)columns->count;
    return TW_OK;
}

static int compare_names(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

const struct slice *columns_names(struct columns *columns, size_t *ret_count)
{
    qsort(
        columns->names, columns->count, sizeof(*columns->names), compare_names);
    columns->sorted = true;
    *ret_count = columns->count;
    return columns->names;
}
