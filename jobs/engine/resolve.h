/* SPDX-License-Identifier: MIT */
/*
 * Decides what becomes of a batch that was refused or whose outcome is unknown:
 * re-reads the entities, and lets the kind decide again on each operation. Only
 * the batch writer uses it.
 */
#ifndef TW_JOBS_ENGINE_RESOLVE_H
#define TW_JOBS_ENGINE_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"

struct batch_buffer;
struct resolving;
struct run;

/*
 * resolve_begin: batch (borrowed) ended with TW_CONFLICT, TW_NOT_FOUND or
 * TW_UNKNOWN; the first re-read is requested. Never blocks. Owned:
 * resolve_end() or resolve_free() takes ownership.
 */
struct resolving *resolve_begin(
    struct run *run, struct batch_buffer *batch_buffer);

/* resolve_bytes: the memory that the first request may take, as part of the
 * budget of all requests of all runs. */
size_t resolve_bytes(const struct resolving *resolving);

/* resolve_is_ready: has the first response arrived, so that resolve_end()
 * rarely waits? */
bool resolve_is_ready(const struct resolving *resolving);

/*
 * resolve_end: wait for the missing responses. On TW_OK each entry has its
 * state, and what must be sent again carries the ETag just read. Any other
 * outcome: the reads failed, or a table to be written does not exist; the
 * states are then invalid.
 *
 * Makes one request for one refused operation, or for a whole batch whose
 * RowKeys lie close together; otherwise one request for each operation.
 */
TW_MUST_USE enum tw_err resolve_end(
    struct resolving *resolving, struct err *err);

/* resolve_free: cancel the re-read. NULL is allowed. */
void resolve_free(struct resolving *resolving);

#endif
