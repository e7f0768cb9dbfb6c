/* SPDX-License-Identifier: MIT */
/*
 * The archive of a run: a copy of every entity that the run deletes, written
 * before the delete. The lines have the format that `tableward import` reads;
 * there is one file per table and epoch: FOLDER/JOB/RUN/EPOCH-TABLE.jsonl.
 * Lines are appended and made durable before the deletes that they cover are
 * sent. A reader ignores an incomplete last line. If several lines have the
 * same keys, the last of these lines is valid. FOLDER may be a symbolic link;
 * the folders and files below it may not.
 *
 * A run id may be used again once the ledger has forgotten its run. When the
 * new run archives its first entity, the folder of the former run is renamed to
 * RUN~1 (RUN~2, ...). So an import of the new run's files does not restore what
 * the former run deleted.
 */
#ifndef TW_JOBS_ENGINE_ARCHIVE_H
#define TW_JOBS_ENGINE_ARCHIVE_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/entity.h"

struct archive;

/* The attempt whose entities are archived; borrowed during archive_open(). */
struct archive_run {
    const char *job, *id;
    int32_t epoch;
    int64_t requested_ticks; /* RequestedAt, which differs between runs with
                                the same id */
};

/*
 * archive_open: open the archive in folder, an absolute path, which is created
 * if missing. The run's own folder below it (mode 0700) is created when the
 * first entity is added. The folder cannot be created or written: TW_FULL if a
 * retry may succeed, TW_FORBIDDEN if it cannot. err has the path and the
 * reason. *ret is owned by the caller.
 */
TW_MUST_USE enum tw_err archive_open(const char *folder,
    const struct archive_run *run, struct archive **ret, struct err *err);

/* archive_add: append entity as a line; the line is not yet durable. TW_FULL,
 * TW_FORBIDDEN: as archive_open(). TW_TOO_LARGE: the line is too long. */
TW_MUST_USE enum tw_err archive_add(struct archive *archive, const char *table,
    const struct entity *entity, struct err *err);

/* archive_sync: make all added lines and the run's folder durable. A failed
 * fsync ends the process, because the lost data cannot be determined. */
TW_MUST_USE enum tw_err archive_sync(struct archive *archive, struct err *err);

/* archive_close: close the archive; does nothing if given NULL. */
void archive_close(struct archive *archive);

#endif
