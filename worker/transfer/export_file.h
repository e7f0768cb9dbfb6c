/* SPDX-License-Identifier: MIT */
/*
 * The file of an export. A file is complete or does not exist: an export writes
 * a part beside it, syncs the part to disk, and renames it. The part of an
 * export with an id stays when the export is interrupted, and the next export
 * with that id continues after its last whole line:
 *
 *   blogs.jsonl.ID-0123456789abcdef.part     the hash is of what is exported
 *
 * A new file is readable by its owner alone. A replaced file keeps its mode,
 * and a link to it stays a link.
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
    char *target;     /* path, or the file that the link points to */
    char *part;       /* renamed to target at the end; NULL: written directly */
    bool with_id;     /* the part stays when the export is interrupted */
    bool ours;        /* this process has created or locked the part */
    bool force;       /* an existing file is replaced */
    FILE *file;

    int64_t lines;   /* whole lines that an earlier process wrote */
    struct buf last; /* the last of these lines, without its newline */
};

struct export_file_options {
    const char *path;  /* NULL or "-": standard output */
    bool force;        /* replace a file that exists */
    const char *id;    /* valid for text_is_run_id(); NULL: none */
    struct slice what; /* with an id: what is exported, in one text */
    bool continues;    /* false: an existing part is written again from the
                          beginning, because the store has no order */
};

/*
 * export_file_open: TW_CONFLICT: wrong usage: the file exists and force is
 * false, the id belongs to an export of something else, or standard output has
 * an id. TW_STOPPED: another process writes the part. TW_INVALID, or TW_FULL if
 * the disk is full: the file cannot be written. Call export_file_close() in any
 * case.
 */
TW_MUST_USE enum tw_err export_file_open(struct export_file *file,
    const struct export_file_options *options, struct err *err);

/* export_file_write: TW_INVALID, TW_FULL. */
TW_MUST_USE enum tw_err export_file_write(
    struct export_file *file, struct slice text, struct err *err);

/* export_file_finish: complete the export: rename the part to the file.
 * TW_INVALID, TW_FULL; TW_CONFLICT: the file was created meanwhile. */
TW_MUST_USE enum tw_err export_file_finish(
    struct export_file *file, struct err *err);

/* export_file_close: removes an unfinished part, unless it has an id and is not
 * empty. True: the part stays. */
bool export_file_close(struct export_file *file);

#endif
