/* SPDX-License-Identifier: MIT */
/*
 * What became of a batch that was refused or whose answer was lost: read what
 * is there, and let each operation's kind decide again. Used by batch writer
 * alone.
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
 * resolve_begin: batch (borrowed) was answered with TW_CONFLICT, TW_NOT_FOUND
 * or TW_UNKNOWN; what is there is asked for. Never blocks. Owned: resolve_end()
 * or resolve_free() takes it.
 */
struct resolving *resolve_begin(
    struct run *run, struct batch_buffer *batch_buffer);

/* resolve_bytes: what the first of its requests may take, of what all requests
 * of all runs may. */
size_t resolve_bytes(const struct resolving *resolving);

/* resolve_is_ready: has it come, so that resolve_end() rarely waits? */
bool resolve_is_ready(const struct resolving *resolving);

/*
 * resolve_end: waits for what is missing. On TW_OK each entry has its fate, and
 * what is to be sent again carries the ETag just read. Anything else: the reads
 * failed, or a table is missing that is to be written; the fates mean nothing.
 *
 * One request for one refused operation, and for a whole batch whose
 * RowKeys lie close together; where they do not, one for each.
 */
TW_MUST_USE enum tw_err resolve_end(
    struct resolving *resolving, struct err *err);

/* resolve_free: it is not wanted any more. NULL: nothing. */
void resolve_free(struct resolving *resolving);

#endif
