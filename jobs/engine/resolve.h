/* SPDX-License-Identifier: MIT */
/*
 * What became of a batch that was refused or whose answer was lost: read what
 * is there, and let each operation's kind decide anew. Used by flow alone.
 */
#ifndef TW_JOBS_ENGINE_RESOLVE_H
#define TW_JOBS_ENGINE_RESOLVE_H

#include "worker/base/err.h"

struct pack;
struct run;

/*
 * resolve_pack: pack was answered with TW_CONFLICT, TW_NOT_FOUND or
 * TW_UNKNOWN. On TW_OK each entry has its fate, and what is to be sent again
 * carries the ETag just read. Anything else: the reads failed, or a table is
 * missing that is to be written; the fates mean nothing.
 *
 * One request for one refused operation, and for a whole batch whose
 * RowKeys lie close together; where they do not, one for each.
 */
TW_MUST_USE enum tw_err resolve_pack(
    struct run *run, struct pack *pack, struct err *err);

#endif
