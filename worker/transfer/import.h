/* SPDX-License-Identifier: MIT */
/*
 * An import of the records of a file into a table. If an equal entity exists,
 * it is accepted, so an import can be repeated. An import with an id continues
 * after the last line that an earlier process with this id stored.
 */
#ifndef TW_TRANSFER_IMPORT_H
#define TW_TRANSFER_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/transfer/records.h"
#include "worker/transfer/transfer.h"

/* What to do if a different entity with the same keys exists. */
enum import_conflict {
    IMPORT_CONFLICT_FAIL, /* reject the record */
    IMPORT_CONFLICT_SKIP,
    IMPORT_CONFLICT_REPLACE,
    IMPORT_CONFLICT_MERGE,
};

/* All texts are borrowed for the life of the import. */
struct import_options {
    const char *path; /* "-": standard input */
    enum records_format format;
    enum import_conflict on_conflict;
    bool skip_errors;         /* reject invalid records and continue */
    const char *rejects_path; /* rejects file; NULL: lines are not kept */
    const char *id; /* id under which the import continues; NULL: no ledger */
};

struct import_result {
    /* Numbers of entities that this process wrote and skipped. */
    int64_t written, skipped;
    int64_t rejected; /* number of lines that all processes with the id
                         have rejected */
    bool repeated;    /* the id succeeded before with the same content,
                         so nothing was done */
};

struct import;

/* import_new: make an import, which import_run() begins. Copies *transfer.
 * Later only `client` of the copy changes: to the client that restart()
 * returns. The caller owns the import. */
struct import *import_new(
    const struct transfer *transfer, const struct import_options *options);
void import_free(struct import *import); /* does nothing if given NULL */

/*
 * import_run: import the file. Call once.
 *
 *   TW_OK         each record is stored, skipped or rejected
 *   TW_INVALID    a record is invalid and skip_errors is false (err is about
 *                 the first such record), or a file cannot be used
 *   TW_CONFLICT   the id belongs to another import; or the import with this id
 *                 has succeeded with other content; or it has skipped
 *                 entities, and on_conflict is another one now; or the table
 *                 was deleted or emptied since lines were stored in it under
 *                 this id
 *   TW_STOPPED    a stop signal has come, or another process uses the id or
 *                 the rejects file
 *   TW_FULL       the disk is full
 *
 * All other codes are outcomes of the store.
 */
TW_MUST_USE enum tw_err import_run(struct import *import, struct err *err);

/* import_result: call after import_run(). */
struct import_result import_result(const struct import *import);

/* import_progress: return the number of entities done. *ret_share: thousandths
 * of the file that are read, as records_share(). Any thread may call it. */
int64_t import_progress(struct import *import, int *ret_share);

#endif
