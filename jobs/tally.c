/* SPDX-License-Identifier: MIT */
/* Entities, the first keys, and the batches that they will make. */
#include "jobs/tally.h"

#include <string.h>

#include "worker/store/store.h"

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_estimate_table *)0)->first_keys) / sizeof(char *))

void tally_init(struct tally *tally, struct job_estimate_table *shown,
    struct arena *arena, size_t batch_max_bytes)
{
    tally->shown = shown;
    tally->arena = arena;
    tally->batch_max_bytes = batch_max_bytes;
    tally->in_batch = 0;
    tally->bytes = 0;
    tally->partition_key = (struct slice){tally->partition_key_room, 0};
}

static void keep_partition(struct tally *tally, struct slice partition_key)
{
    tally->partition_key.len = 0;
    if (partition_key.len == 0 || partition_key.len > TALLY_KEY_MAX)
        return;
    memcpy(tally->partition_key_room, partition_key.at, partition_key.len);
    tally->partition_key.len = partition_key.len;
}

/* Does it begin another batch? */
static bool is_cut(
    const struct tally *tally, const struct entity *entity, size_t bytes)
{
    return tally->in_batch == 0 || tally->in_batch == BATCH_MAX_OPERATIONS ||
           tally->bytes + bytes > tally->batch_max_bytes ||
           !slice_equal(tally->partition_key, entity->partition_key);
}

void tally_add(struct tally *tally, const struct entity *entity, size_t bytes)
{
    struct job_estimate_table *shown = tally->shown;

    if (is_cut(tally, entity, bytes)) {
        keep_partition(tally, entity->partition_key);
        tally->in_batch = 0;
        tally->bytes = 0;
        shown->batches++;
    }
    tally->in_batch++;
    tally->bytes += bytes;
    if ((size_t)shown->entities < FIRST_KEYS)
        shown->first_keys[shown->entities] =
            arena_format(tally->arena, "%.*s/%.*s",
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key))
                .at;
    shown->entities++;
}
