/* SPDX-License-Identifier: MIT */
/*
 * An export: the entities of a table as JSON Lines or CSV, in the order in
 * which the store returns them, each value in its canonical text, so that two
 * tables with the same content give the same file.
 *
 * A CSV header needs the names of all properties. A first scan of the table
 * collects them; if the second scan finds another property, the export fails.
 */
#ifndef TW_TRANSFER_EXPORT_H
#define TW_TRANSFER_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/transfer/records.h"
#include "worker/transfer/transfer.h"

/* All texts are borrowed for the life of the export. */
struct export_options {
    const char *path; /* NULL or "-": standard output */
    enum records_format format;
    struct slice filter;        /* OData filter; empty: all entities */
    const struct slice *select; /* NULL: all properties */
    size_t select_count;
    const char *id; /* id under which the export can be continued; NULL: none */
    bool force;     /* an existing file is replaced */
    /* completes and context are those of struct export_file_options. */
    enum tw_err (*completes)(void *context, const char *part, struct err *err);
    void *context;
};

struct export;

/* export_new: make an export; export_run() begins it. The caller owns the
 * result. export_free: if the export is not complete and has no id, removes its
 * partial file. If it is not complete and has an id, reports the path of the
 * partial file, which stays. Does nothing if given NULL. */
struct export *export_new(
    const struct transfer *transfer, const struct export_options *options);
void export_free(struct export *export);

/*
 * export_run: export the table. Call once.
 *
 *   TW_OK         the file is complete
 *   TW_NOT_FOUND  there is no such table, or it was deleted during the export.
 *                 The partial file is removed even if the export has an id,
 *                 because a later table of this name would be another one
 *   TW_CONFLICT   as for export_file_open()
 *   TW_INVALID    the file cannot be written, or an entity cannot be written
 *                 in this format
 *   TW_STOPPED    a stop signal has come, or another process writes the file
 *   TW_FULL       the disk is full
 *
 * All other codes are outcomes of the store.
 */
TW_MUST_USE enum tw_err export_run(struct export *export, struct err *err);

/* export_count: return how many entities are in the file so far.
 * export_is_collecting: is the export still in the first scan, which only
 * collects property names? Any thread may call both. */
int64_t export_count(const struct export *export);
bool export_is_collecting(const struct export *export);

/* export_abort: remove the file that export_free() would remove. Any thread may
 * call it before the process ends without export_free(). */
void export_abort(struct export *export);

#endif
