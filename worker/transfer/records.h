/* SPDX-License-Identifier: MIT */
/*
 * The entities of a file in one of the two formats that import reads: JSON
 * Lines, or CSV, whose records may take several lines. An invalid record is
 * returned with its line number and the reason, and reading continues after it.
 * If a quote of a CSV record is never closed, only the first line of the record
 * counts as invalid.
 */
#ifndef TW_TRANSFER_RECORDS_H
#define TW_TRANSFER_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* Maximum length of a CSV record: enough for the commas of all columns, and for
 * an entity of 1 MiB whose values are base64, or have only quotes, which are
 * doubled. */
#define RECORDS_MAX_BYTES (4 * 1024 * 1024)

enum records_format {
    RECORDS_JSON_LINES,
    RECORDS_CSV,
};

struct records;

/*
 * records_open: open the file, and read the header of a CSV file. path and
 * stopped as in lines_open(). TW_INVALID: the file cannot be read, or its
 * header is invalid; err has the line number. TW_STOPPED: as for lines_next().
 * The caller owns *ret.
 */
TW_MUST_USE enum tw_err records_open(const char *path,
    enum records_format format, const _Atomic bool *stopped,
    struct records **ret, struct err *err);
void records_close(struct records *records); /* does nothing if given NULL */

/* records_header: return the CSV header as written in the file, with its
 * newline; empty for JSON Lines. Borrowed. */
struct slice records_header(const struct records *records);

/* records_keep_long: make records_next() write lines that are too long to this
 * file; NULL (the default): drop them. Borrowed. */
void records_keep_long(struct records *records, FILE *to);

/* records_skip: skip all lines up to number `line` (from 1), or to the end of
 * the file. Call before the first records_next(). TW_STOPPED: *stopped was
 * set. */
TW_MUST_USE enum tw_err records_skip(
    struct records *records, uint64_t line, struct err *err);

struct record {
    uint64_t first,
        last;         /* numbers of the record's first and last line, from 1 */
    struct slice raw; /* text of the record in the file, without the last
                         newline; borrowed until the next call */
    bool too_long; /* the record is longer than the maximum, and raw is empty;
                      see records_keep_long() */
    bool blank;    /* the record has only white space */
    bool invalid;  /* no store accepts the record; `why` has the reason */
    struct err why;
    struct entity entity; /* set if too_long, blank and invalid are all false;
                             points into raw, lives in the arena */
};

/*
 * records_next: read the next record into *ret, or set *ret_end at the end of
 * the file. TW_INVALID: the file cannot be read. TW_STOPPED: as for
 * lines_next().
 */
TW_MUST_USE enum tw_err records_next(struct records *records,
    struct arena *arena, struct record *ret, bool *ret_end, struct err *err);

/* records_digest: return a digest, above 0, of all lines that records_next()
 * has returned or records_skip() has skipped. */
int64_t records_digest(const struct records *records);

/* records_share: see lines_share(). */
int records_share(const struct records *records);

#endif
