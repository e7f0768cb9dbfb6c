/* SPDX-License-Identifier: MIT */
/*
 * A sorter gathers operations before they are added to a batch writer, and
 * hands them over by table, PartitionKey and RowKey: operations scattered over
 * many partitions so still make full batches. The sorter is bounded in
 * operations and in bytes, so that memory does not grow with the work. When it
 * is full, it hands over the partitions with the most operations and keeps all
 * others.
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

/* Once this many operations were added after it, an operation is among the next
 * that are handed over. */
#define SORTER_MAX_AGE (2 * SORTER_MAX_OPERATIONS)

struct sorter;

/*
 * sorter_new: owned. sorter_free: drops the operations held; NULL is allowed.
 */
struct sorter *sorter_new(void);
void sorter_free(struct sorter *sorter);

/* sorter_add: the operation is copied. Its context and table are borrowed until
 * the batch writer has completed it, or it is dropped. */
void sorter_add(struct sorter *sorter, const struct batch_item *item);

/* sorter_is_full: true: the caller must make room before it adds more. */
bool sorter_is_full(const struct sorter *sorter);
size_t sorter_count(const struct sorter *sorter);

/* sorter_added: how many operations were added so far. sorter_oldest: how many
 * of these, counted from the first, have all been handed over. */
uint64_t sorter_added(const struct sorter *sorter);
uint64_t sorter_oldest(const struct sorter *sorter);

/*
 * sorter_flush: hand all operations to the batch writer, sorted (those of one
 * key in the order in which they were added). The sorter is then empty. If the
 * batch writer takes no more operations, its outcome is returned, and the
 * remaining operations are dropped.
 *
 * sorter_make_room: the same with at least half of the operations, from the
 * partitions that fill most batches: one batch for each started hundred of such
 * a partition.
 */
TW_MUST_USE enum tw_err sorter_flush(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err);
TW_MUST_USE enum tw_err sorter_make_room(
    struct sorter *sorter, struct batch_writer *batch_writer, struct err *err);

#endif
