/* SPDX-License-Identifier: MIT */
/*
 * Handles a batch that was refused or whose outcome is unknown: re-reads the
 * entities, and lets the kind decide on each operation again. Only the batch
 * writer uses it.
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
 * resolve_begin: request the first re-read for batch_buffer (borrowed). Call
 * after the batch has ended with TW_CONFLICT, TW_NOT_FOUND or TW_UNKNOWN. Never
 * blocks. The caller owns the result and frees it with resolve_end() or
 * resolve_free().
 */
struct resolving *resolve_begin(
    struct run *run, struct batch_buffer *batch_buffer);

/* resolve_bytes: returns how many bytes of memory the request in flight may
 * take, as part of the budget of all requests of all runs. */
size_t resolve_bytes(const struct resolving *resolving);

/* resolve_is_ready: has the first response arrived, or is none needed? If so,
 * resolve_end() rarely waits. */
bool resolve_is_ready(const struct resolving *resolving);

/*
 * resolve_end: wait for the missing responses. On TW_OK each entry has its
 * state, and an operation that must be sent again has the ETag that was just
 * read. Any other outcome: a read failed, or the table does not exist although
 * the batch has other operations than deletes. The states are then invalid.
 *
 * If only one operation was refused, its entity is read by one request.
 * Otherwise the entities of the whole batch are read: by a few requests if
 * their RowKeys lie close together, else by one request for each operation.
 */
TW_MUST_USE enum tw_err resolve_end(
    struct resolving *resolving, struct err *err);

/* resolve_free: cancel the re-read. Does nothing if given NULL. */
void resolve_free(struct resolving *resolving);

#endif
