/* SPDX-License-Identifier: MIT */
/* Counts entities and the batches that operations on them need, and stores the
 * first keys. */
#include "jobs/counting.h"

#include <string.h>

#include "worker/store/store.h"

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_estimate_table *)0)->first_keys) / sizeof(char *))

void counting_begin(struct counting *counting, struct job_estimate_table *shown,
    struct arena *arena, size_t batch_max_bytes)
{
    counting->shown = shown;
    counting->arena = arena;
    counting->batch_max_bytes = batch_max_bytes;
    counting->in_batch = 0;
    counting->bytes = 0;
    counting->partition_key = (struct slice){counting->partition_key_room, 0};
}

static void keep_partition(
    struct counting *counting, struct slice partition_key)
{
    counting->partition_key.len = 0;
    if (partition_key.len == 0 || partition_key.len > ENTITY_MAX_KEY_BYTES)
        return;
    memcpy(counting->partition_key_room, partition_key.at, partition_key.len);
    counting->partition_key.len = partition_key.len;
}

/* Does an operation on entity begin a new batch? */
static bool is_cut(
    const struct counting *counting, const struct entity *entity, size_t bytes)
{
    return counting->in_batch == 0 ||
           counting->in_batch == BATCH_MAX_OPERATIONS ||
           counting->bytes + bytes > counting->batch_max_bytes ||
           !slice_equal(counting->partition_key, entity->partition_key);
}

void counting_add(
    struct counting *counting, const struct entity *entity, size_t bytes)
{
    struct job_estimate_table *shown = counting->shown;

    if (is_cut(counting, entity, bytes)) {
        keep_partition(counting, entity->partition_key);
        counting->in_batch = 0;
        counting->bytes = 0;
        shown->batches++;
    }
    counting->in_batch++;
    counting->bytes += bytes;
    if ((size_t)shown->entities < FIRST_KEYS)
        shown->first_keys[shown->entities] =
            arena_format(counting->arena, "%.*s/%.*s",
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key))
                .at;
    shown->entities++;
}
