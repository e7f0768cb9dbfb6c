/* SPDX-License-Identifier: MIT */
/*
 * A sorter gathers operations before they go into a batch writer, and hands
 * them over by table, PartitionKey and RowKey: what a scan meets scattered over
 * many partitions makes full batches all the same. It is bounded in entities
 * and in bytes, so that memory does not grow with the work. When it is full,
 * the partitions of which it holds most are handed over, and all others gather
 * on.
 */
#ifndef TW_JOBS_ENGINE_SORTER_H
#define TW_JOBS_ENGINE_SORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/batch_writer.h"
#include "worker/base/err.h"

#define SORTER_MAX_OPERATIONS 8192
#define SORTER_MAX_BYTES (4 * 1024 * 1024)

/* Once so many others have come after it, an operation is among the next that
 * are handed over. */
#define SORTER_MAX_AGE (2 * SORTER_MAX_OPERATIONS)

struct sorter;

/* sorter_new: owned. sorter_free: what it holds is dropped; NULL: nothing. */
struct sorter *sorter_new(void);
void sorter_free(struct sorter *sorter);

/* sorter_add: the operation is copied, its context and table are borrowed until
 * it is settled by the batch writer, or dropped. */
void sorter_add(struct sorter *sorter, const struct batch_item *item);

/* sorter_is_full: make room before more is added. */
bool sorter_is_full(const struct sorter *sorter);
size_t sorter_count(const struct sorter *sorter);

/* sorter_added: how many operations were added so far. sorter_oldest: how many
 * of these, from the first one on, have all been handed over. */
uint64_t sorter_added(const struct sorter *sorter);
uint64_t sorter_oldest(const struct sorter *sorter);

/*
 * sorter_flush: everything goes into batch writer, sorted (of one key, in the
 * order in which it came), and the sorter is empty, also where the batch writer
 * takes no more: then the outcome is the batch writer's, and what was left is
 * dropped.
 *
 * sorter_make_room: the same with half of it at least, from the partitions that
 * fill most batches. A batch per started hundred of each of these.
 */
TW_MUST_USE enum tw_err sorter_flush(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err);
TW_MUST_USE enum tw_err sorter_make_room(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err);

#endif
