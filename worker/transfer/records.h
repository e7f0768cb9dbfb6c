/* SPDX-License-Identifier: MIT */
/*
 * The entities of a file, in either format that import reads: JSON Lines, or
 * CSV, whose records may take several lines. One that is wrong is told with its
 * line, and the next one comes all the same: of a CSV record whose quote is
 * never closed only the first line is passed over.
 */
#ifndef TW_CLI_RECORDS_H
#define TW_CLI_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* A CSV record: every quote of 1 MiB of text twice, and base64. */
#define RECORDS_MAX_BYTES (4 * 1024 * 1024)

enum records_format {
    RECORDS_JSON_LINES,
    RECORDS_CSV,
};

struct records;

/*
 * records_open: path and stopped as lines_open() has them. Of CSV the header
 * is read. TW_INVALID: the file cannot be read, or its header names no keys;
 * err says which line. TW_STOPPED. Owned.
 */
TW_MUST_USE enum tw_err records_open(const char *path,
    enum records_format format, const _Atomic bool *stopped,
    struct records **ret, struct err *err);
void records_close(struct records *records); /* NULL: nothing */

/* records_header: the CSV header as it came, with its newline; empty: there is
 * none. Borrowed. */
struct slice records_header(const struct records *records);

/* records_spill: where lines go that are too long to be held; lines_spill(). */
void records_spill(struct records *records, FILE *to);

/* records_skip: pass over all lines up to this number, from 1; before the
 * first records_next(). */
TW_MUST_USE enum tw_err records_skip(
    struct records *records, uint64_t line, struct err *err);

struct record {
    uint64_t first, last; /* its lines, from 1 */
    struct slice raw;     /* as it came, without its last newline; borrowed
                             until the next call */
    bool spilled;         /* raw is empty: it was too long */
    bool blank;           /* nothing is in it */
    bool wrong;           /* no store takes it: why */
    struct err why;
    struct entity entity; /* else; points into raw, and lives in the arena */
};

/*
 * records_next: the next record. *ret_end (then *ret is not set): there is
 * none. TW_INVALID: the file cannot be read. TW_STOPPED.
 */
TW_MUST_USE enum tw_err records_next(struct records *records,
    struct arena *arena, struct record *ret, bool *ret_end, struct err *err);

/* records_digest: of all lines up to the last one that records_next() gave or
 * records_skip() passed over; above 0. */
int64_t records_digest(const struct records *records);

/* records_share: as lines_share(). */
int records_share(const struct records *records);

#endif
