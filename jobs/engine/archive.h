/* SPDX-License-Identifier: MIT */
/*
 * The archive of a run: a copy of every entity that the run deletes, written
 * before the delete. The lines have the format that `tableward import` reads;
 * there is one file per table and epoch: FOLDER/JOB/RUN/EPOCH-TABLE.jsonl.
 * Lines are appended and made durable before the deletes that they cover are
 * sent. A reader ignores an incomplete last line; of several lines with the
 * same keys the last one is valid. FOLDER may be a symbolic link; the folders
 * and files below it may not.
 */
#ifndef TW_JOBS_ENGINE_ARCHIVE_H
#define TW_JOBS_ENGINE_ARCHIVE_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/entity.h"

struct archive;

/*
 * archive_open: folder is an absolute path; it is created if missing. The run's
 * own folder below it (mode 0700) is created when the first entity is added.
 * TW_FULL: the folder cannot be created or written now, but a retry may
 * succeed. TW_FORBIDDEN: the folder cannot be created or written, and a retry
 * cannot help. err has path and reason. Owned.
 */
TW_MUST_USE enum tw_err archive_open(const char *folder, const char *job,
    const char *id, int32_t epoch, struct archive **ret, struct err *err);

/* archive_add: append entity as a line; the line is not yet durable. TW_FULL,
 * TW_FORBIDDEN: as archive_open(). TW_TOO_LARGE: the line is too long. */
TW_MUST_USE enum tw_err archive_add(struct archive *archive, const char *table,
    const struct entity *entity, struct err *err);

/* archive_sync: make all added lines and the run's folder durable. A failed
 * fsync ends the process, because the lost data cannot be determined. */
TW_MUST_USE enum tw_err archive_sync(struct archive *archive, struct err *err);

/* archive_close: NULL is allowed. */
void archive_close(struct archive *archive);

#endif
