/* SPDX-License-Identifier: MIT */
/*
 * The archive of a run: every entity before it is deleted, as lines of import's
 * format, one file a table and epoch: FOLDER/JOB/RUN/EPOCH-TABLE.jsonl. Lines
 * are appended and made durable before the deletes that they cover are sent. A
 * torn last line does not count; the last line of a key is the one that
 * counts. FOLDER may be a symbolic link, what is below it may not.
 */
#ifndef TW_JOBS_ENGINE_ARCHIVE_H
#define TW_JOBS_ENGINE_ARCHIVE_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/entity.h"

struct archive;

/*
 * archive_open: folder is absolute, and made where it is missing; the run's own
 * folder is made below it, mode 0700, once something is added. TW_FULL: it
 * cannot be made or written; TW_FORBIDDEN: nor could it be later. err has path
 * and reason. Owned.
 */
TW_MUST_USE enum tw_err archive_open(const char *folder, const char *job,
    const char *id, int32_t epoch, struct archive **ret, struct err *err);

/* archive_add: append; not yet durable. TW_FULL as above. */
TW_MUST_USE enum tw_err archive_add(struct archive *archive, const char *table,
    const struct entity *entity, struct err *err);

/* archive_sync: all that was added is on disk, folders too. A failed fsync
 * ends the process: what it lost cannot be known. */
TW_MUST_USE enum tw_err archive_sync(struct archive *archive, struct err *err);

/* archive_close: NULL: nothing. */
void archive_close(struct archive *archive);

#endif
