/* SPDX-License-Identifier: MIT */
/*
 * The file of an export. The file is complete or does not exist, because an
 * export writes a partial file beside it, syncs the partial file to disk, and
 * renames it. If an export with an id is interrupted, its partial file stays,
 * and the next export with that id continues after the last whole line of the
 * partial file:
 *
 *   blogs.jsonl.ID-0123456789abcdef.part     hash of export_file_options.what
 *
 * A new file is readable by its owner alone. A file that replaces another one
 * gets the mode of the replaced file. A symbolic link to the file stays a
 * link.
 */
#ifndef TW_TRANSFER_EXPORT_FILE_H
#define TW_TRANSFER_EXPORT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct export_file {
    const char *path; /* borrowed; NULL: standard output */
    char *target;     /* path, or the file that the link at path points to */
    char *part;   /* path of the partial file, which is renamed to target at the
                     end; NULL: target is written directly */
    bool with_id; /* the export has an id, so that its partial file stays when
                     the export is interrupted */
    bool ours;    /* this process has created or locked the partial file */
    bool force;   /* an existing file is replaced */
    FILE *file;
    enum tw_err (*completes)(void *context, const char *part, struct err *err);
    void *context; /* as in export_file_options */

    int64_t lines;   /* number of whole lines that an earlier process wrote */
    struct buf last; /* last line of an earlier process, without newline */
};

struct export_file_options {
    const char *path;  /* NULL or "-": standard output */
    bool force;        /* an existing file is replaced */
    const char *id;    /* is valid for text_is_run_id(); NULL: none */
    struct slice what; /* store, table and options of an export with an id, as
                          one text */
    bool continues;    /* false: an existing partial file is written again from
                          the beginning, because scans of the store are not
                          ordered */
    /* completes: NULL, or called when the partial file is complete and on the
     * disk, before it is renamed. part: the path of the partial file. If the
     * outcome is not TW_OK, the partial file is not renamed. context is
     * borrowed. */
    enum tw_err (*completes)(void *context, const char *part, struct err *err);
    void *context;
};

/*
 * export_file_open: create the partial file, or open that of an interrupted
 * export with the same id.
 *
 *   TW_CONFLICT   the file exists and force is false; or the id belongs to
 *                 another export; or an id is given for standard output or a
 *                 special file
 *   TW_STOPPED    another process writes the partial file
 *   TW_FULL       the disk is full
 *   TW_INVALID    the file cannot be written for another reason
 *
 * Call export_file_close() in any case.
 */
TW_MUST_USE enum tw_err export_file_open(struct export_file *file,
    const struct export_file_options *options, struct err *err);

/* export_file_write: add text to the partial file. If that fails: TW_FULL if
 * the disk is full, else TW_INVALID. */
TW_MUST_USE enum tw_err export_file_write(
    struct export_file *file, struct slice text, struct err *err);

/* export_file_finish: call completes(), then rename the partial file to the
 * final name. If completes() did not return TW_OK, returns what it returned.
 * TW_CONFLICT: a file of the final name was created meanwhile. TW_INVALID,
 * TW_FULL: as for export_file_write(). */
TW_MUST_USE enum tw_err export_file_finish(
    struct export_file *file, struct err *err);

/* export_file_close: removes an unfinished partial file, unless the export has
 * an id and the partial file is not empty. True: the partial file stays. */
bool export_file_close(struct export_file *file);

/* export_file_is_part: is `name` the name of the partial file that an export
 * with that id writes for the file named `of`? */
bool export_file_is_part(const char *name, const char *of, const char *id);

#endif
