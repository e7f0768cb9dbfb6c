/* SPDX-License-Identifier: MIT */
/*
 * The lines that an import passes over, as they came, in a file of their own:
 * mended, it can be imported in its turn. It is there from the beginning, so
 * that one which cannot be written is known at once, and is gone at the end
 * where nothing was passed over. What somebody else has put there, or mends in
 * its place, is never written over; nor do two processes write it at a time.
 */
#ifndef TW_CLI_REJECTS_H
#define TW_CLI_REJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct rejects;

/*
 * rejects_open: make the file, or open it as it is, and keep other imports from
 * it. path is borrowed. TW_INVALID: it cannot be written; TW_STOPPED: another
 * process is at it. Owned.
 */
TW_MUST_USE enum tw_err rejects_open(
    const char *path, struct rejects **ret, struct err *err);

/* The file is of no earlier process of the same import. */
#define REJECTS_NEW (-1)

/* rejects_is_mended: somebody has changed its first bytes, whose digest this
 * was, since then; 0: nobody knows it. False: it was taken away. */
bool rejects_is_mended(struct rejects *rejects, int64_t bytes, int64_t digest);

/*
 * rejects_begin: goes_on_bytes: what an earlier process wrote and knew to be
 * written; beyond it the file is cut off. 0: it begins anew, with header, which
 * may be empty; REJECTS_NEW: the same, and nothing may be in it yet. header is
 * borrowed. Before anything is added. TW_INVALID: it cannot be written, or
 * something is in it.
 */
TW_MUST_USE enum tw_err rejects_begin(struct rejects *rejects,
    struct slice header, int64_t goes_on_bytes, struct err *err);

/* rejects_add: a record, to which a newline is added. An error is told by
 * rejects_sync(). */
void rejects_add(struct rejects *rejects, struct slice raw);

/* rejects_spill: for lines_spill(). */
FILE *rejects_spill(struct rejects *rejects);

/* rejects_sync: all of it is on disk, *ret_bytes of it. TW_INVALID, or
 * TW_STOPPED where the disk is full: something is not. */
TW_MUST_USE enum tw_err rejects_sync(
    struct rejects *rejects, int64_t *ret_bytes, struct err *err);

/* rejects_digest: of its first bytes, which are on disk; above 0. 0: it is no
 * file that can be read again, or is shorter. */
int64_t rejects_digest(struct rejects *rejects, int64_t bytes);

/* rejects_close: the file is removed where nothing was passed over, unless it
 * was there before. NULL: nothing. */
void rejects_close(struct rejects *rejects);

#endif
