/* SPDX-License-Identifier: MIT */
/*
 * The rejects file: the rejected lines of an import, unchanged, so that an
 * operator can correct the lines and import them. The file is created at the
 * beginning, so that an error is found before anything is imported, and removed
 * at the end if no line was rejected. Content that another process or an
 * operator wrote, or corrected in place, is never overwritten. One process at a
 * time writes it. A new file is readable by its owner alone.
 */
#ifndef TW_TRANSFER_REJECTS_H
#define TW_TRANSFER_REJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct rejects;

/*
 * rejects_open: create the file, or open an existing one unchanged, and lock it
 * against other imports. path is borrowed. TW_FULL: the disk is full.
 * TW_INVALID: the file cannot be written for another reason. TW_STOPPED:
 * another process writes the file. The caller owns *ret.
 */
TW_MUST_USE enum tw_err rejects_open(
    const char *path, struct rejects **ret, struct err *err);

/* `bytes` of rejects_begin() if no earlier process of the same import wrote the
 * file. */
#define REJECTS_NEW (-1)

/* rejects_is_edited: do the first `bytes` bytes no longer have this digest?
 * False also if the digest is 0 (unknown) or the file was removed. */
bool rejects_is_edited(struct rejects *rejects, int64_t bytes, int64_t digest);

/*
 * rejects_begin: prepare the file; call before anything is added. bytes is one
 * of:
 *
 *   - the size that an earlier process recorded in the ledger: the file is
 *     truncated to it;
 *   - 0: the file is emptied, and header (which may be empty) is written;
 *   - REJECTS_NEW: the file must be empty, and header is written.
 *
 * header is borrowed. TW_FULL: the disk is full. TW_INVALID: the file cannot be
 * written for another reason, or is not empty although bytes is REJECTS_NEW.
 */
TW_MUST_USE enum tw_err rejects_begin(struct rejects *rejects,
    struct slice header, int64_t bytes, struct err *err);

/* rejects_add: add a record and a newline. rejects_sync() reports errors. */
void rejects_add(struct rejects *rejects, struct slice raw);

/* rejects_file: return the stream of the file, for records_keep_long().
 * Borrowed. */
FILE *rejects_file(struct rejects *rejects);

/* rejects_sync: write the file to disk; *ret_bytes: its size. If a write
 * failed: TW_FULL if the disk is full, else TW_INVALID. */
TW_MUST_USE enum tw_err rejects_sync(
    struct rejects *rejects, int64_t *ret_bytes, struct err *err);

/* rejects_digest: return a digest, above 0, of the first `bytes` bytes, which
 * must be on disk. 0: the file is shorter, or not a regular file. */
int64_t rejects_digest(struct rejects *rejects, int64_t bytes);

/* rejects_close: closes the file. Removes it if no line was rejected, unless it
 * existed before the import. Does nothing if given NULL. */
void rejects_close(struct rejects *rejects);

#endif
