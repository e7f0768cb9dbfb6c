/* SPDX-License-Identifier: MIT */
/* Counts the operations on the entities of one table for an estimate. The
 * entities are added in key order; memory is constant. */
#ifndef TW_JOBS_COUNTING_H
#define TW_JOBS_COUNTING_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct counting {
    struct job_estimate_table *shown; /* the estimate to add to; borrowed */
    struct arena *arena;              /* owns the texts of shown->first_keys;
                                       * borrowed */
    size_t batch_max_bytes;
    int64_t in_batch; /* number of operations in the current batch */
    size_t bytes;     /* estimated bytes of the operations in the current
                       * batch */
    struct slice partition_key;
    char partition_key_room[ENTITY_MAX_KEY_BYTES];
};

/* counting_begin: start with all counts 0. batch_max_bytes is that of struct
 * store_capabilities. */
void counting_begin(struct counting *counting, struct job_estimate_table *shown,
    struct arena *arena, size_t batch_max_bytes);

/* counting_add: count one operation on entity that takes `bytes` bytes in its
 * batch (0: only the keys are sent). */
void counting_add(
    struct counting *counting, const struct entity *entity, size_t bytes);

#endif
