/* SPDX-License-Identifier: MIT */
/*
 * A sorter gathers operations before they are added to a batch writer, and
 * hands them over sorted by table, PartitionKey and RowKey. So batches are full
 * even if the operations come from many partitions in any order. The sorter is
 * bounded in operations and in bytes, so that memory does not grow with the
 * work. When it is full, it hands over the partitions with the most operations
 * and keeps all others.
 */
#ifndef TW_JOBS_ENGINE_SORTER_H
#define TW_JOBS_ENGINE_SORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/batch_writer.h"
#include "worker/base/err.h"

#define SORTER_MAX_OPERATIONS 8192
#define SORTER_MAX_BYTES (2 * 1024 * 1024)

/* An operation is old once this number of operations have been added after it.
 * The next sorter_make_room() hands an old operation over. */
#define SORTER_MAX_AGE (2 * SORTER_MAX_OPERATIONS)

struct sorter;

/*
 * sorter_new: returns an empty sorter, owned by the caller. sorter_free: drops
 * the operations that were not handed over; does nothing if given NULL.
 */
struct sorter *sorter_new(void);
void sorter_free(struct sorter *sorter);

/* sorter_add: add a copy of the operation. Context and table of item are
 * borrowed until the batch writer has completed the operation, or the operation
 * is dropped. */
void sorter_add(struct sorter *sorter, const struct batch_item *item);

/* sorter_is_full: must the caller call sorter_make_room() before it adds
 * another operation? sorter_count: returns the number of operations in the
 * sorter. */
bool sorter_is_full(const struct sorter *sorter);
size_t sorter_count(const struct sorter *sorter);

/* sorter_added: returns the number of operations added so far. sorter_oldest:
 * returns the number of operations that were added before the oldest operation
 * in the sorter; all of these have been handed over. */
uint64_t sorter_added(const struct sorter *sorter);
uint64_t sorter_oldest(const struct sorter *sorter);

/*
 * sorter_flush: hand all operations to the batch writer, sorted (operations on
 * one entity in the order in which they were added). The sorter is then empty.
 * If the batch writer refuses an operation, its outcome is returned, and the
 * remaining operations are dropped.
 *
 * sorter_make_room: hand over at least an eighth of the operations in the same
 * way, beginning with the partitions that have the most operations, in full
 * batches if possible.
 */
TW_MUST_USE enum tw_err sorter_flush(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err);
TW_MUST_USE enum tw_err sorter_make_room(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err);

#endif
