/* SPDX-License-Identifier: MIT */
/*
 * The folder of `export --all` and `import --all`: one file for each table,
 * TABLE.jsonl or TABLE.csv.
 *
 * Until an export is complete, it keeps a progress file in the folder, so that
 * an import of all tables refuses a folder in which tables are missing. The
 * file is export-ID.progress, or export-@STORE.progress for an export without
 * an id, which cannot be continued. The first line of the progress file
 * identifies the store: the store's name, and a hash of the account. Two lines
 * follow for each table. The first of them is written before the table's file
 * is begun, the second when the partial file (export_file.h) is complete,
 * before the partial file is renamed:
 *
 *   store main 0123456789abcdef0123456789abcdef
 *   Blogs
 *   Blogs 1048576 1764133440123456789    size, and time of the last change, ns
 *
 * So a table's file is complete if it has the size and the time of the last
 * line for that table. If it has not, another process has written or changed
 * the file, and the table is exported again.
 */
#ifndef TW_TRANSFER_FOLDER_H
#define TW_TRANSFER_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/transfer/records.h"

struct folder_file {
    const char *table; /* name of the table, as in the name of the file */
    const char *path;
    enum records_format format;
};

struct folder {
    struct arena arena;              /* memory of all other fields */
    const struct folder_file *files; /* files in the order of their tables,
                                        ignoring case */
    size_t count;
    const char *unfinished; /* path of a file that an interrupted export left;
                               NULL: none */
    const char *unknown;    /* path of a file that is not the file of a table,
                               but seems to contain entities, as Blogs.jsonl.gz
                               does; NULL: none */
};

/*
 * folder_read: find the files of tables. Calls other() (may be NULL) for every
 * entry of the folder that is not the file of a table, except for files that an
 * export or an import keeps there. TW_INVALID: the folder cannot be read. Call
 * folder_done() in any case.
 */
TW_MUST_USE enum tw_err folder_read(struct folder *folder, const char *path,
    void (*other)(void *context, const char *path), void *context,
    struct err *err);
void folder_done(struct folder *folder);

/* folder_path: make the path of a table's file, in arena. */
const char *folder_path(const char *folder, const char *table,
    enum records_format format, struct arena *arena);

/* folder_create: create the folder, for its owner alone, if it does not exist.
 * TW_CONFLICT: path is not a folder. TW_INVALID: it cannot be created. */
TW_MUST_USE enum tw_err folder_create(const char *path, struct err *err);

/* ---- the progress of an export ---- */

struct folder_progress;
struct store;

/*
 * folder_progress_open: create the progress file, or open and lock that of an
 * interrupted export. id is valid for text_is_run_id(), or NULL: none.
 *
 *   TW_CONFLICT   the id belongs to an export of another store, or of another
 *                 account that the configuration calls by the same name
 *   TW_STOPPED    another process exports with this id or, if id is NULL,
 *                 exports the same store without an id
 *   TW_INVALID    the file cannot be written
 *   TW_FULL       the disk is full
 *
 * The caller owns *ret.
 */
TW_MUST_USE enum tw_err folder_progress_open(const char *folder, const char *id,
    const struct store *store, struct folder_progress **ret, struct err *err);

/* folder_progress_begun: did this export begin to write the table's file at
 * path? *ret_done: did it also complete the file that is at path now? */
bool folder_progress_begun(const struct folder_progress *progress,
    const char *table, const char *path, bool *ret_done);

/* folder_progress_begin: call before the table's file is begun.
 * folder_progress_complete: call when the table's partial file is complete,
 * before the partial file is renamed. part: the path of the partial file. Both
 * return TW_INVALID or TW_FULL if the progress file cannot be written. */
TW_MUST_USE enum tw_err folder_progress_begin(
    struct folder_progress *progress, const char *table, struct err *err);
TW_MUST_USE enum tw_err folder_progress_complete(
    struct folder_progress *progress, const char *table, const char *part,
    struct err *err);

/* folder_progress_drop_deleted: remove the partial files of tables that are not
 * among names. Before this export was interrupted, it had begun these files;
 * the tables were deleted since. Calls dropped() for each partial file before
 * it is removed. */
void folder_progress_drop_deleted(const struct folder_progress *progress,
    const char *const *names, size_t count,
    void (*dropped)(const char *table, const char *part));

/* folder_progress_close: removes the progress file if the export is complete or
 * has not begun. If the export is complete, also removes the progress file that
 * an export of the same store without an id has left. Does nothing if given
 * NULL. */
void folder_progress_close(struct folder_progress *progress, bool complete);

#endif
