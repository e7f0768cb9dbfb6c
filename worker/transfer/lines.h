/* SPDX-License-Identifier: MIT */
/* The lines of a file of any size, in bounded memory. */
#ifndef TW_TRANSFER_LINES_H
#define TW_TRANSFER_LINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

/* Maximum length of a line. An entity has at most 1 MiB, and each byte of it
 * takes at most six bytes in JSON (\u0001). */
#define LINES_MAX_BYTES (8 * 1024 * 1024)

struct lines;

/* lines_open: open the file at path, or standard input for "-". stopped is
 * borrowed and may be NULL: setting *stopped ends a wait for input from a pipe
 * or a terminal. TW_INVALID: the file cannot be read; err says why. The caller
 * owns *ret. */
TW_MUST_USE enum tw_err lines_open(const char *path,
    const _Atomic bool *stopped, struct lines **ret, struct err *err);
void lines_close(struct lines *lines); /* does nothing if given NULL */

/*
 * lines_next: read the next line. *ret: the line without its newline, borrowed
 * until the next call. *ret_end: true at the end of the file, where *ret is not
 * set. TW_TOO_LARGE: the line is longer than LINES_MAX_BYTES; call
 * lines_skip_long() next. TW_INVALID: the file cannot be read, or begins with
 * the byte order mark of UTF-16. TW_STOPPED: *stopped was set during a wait.
 */
TW_MUST_USE enum tw_err lines_next(
    struct lines *lines, struct slice *ret, bool *ret_end, struct err *err);

/*
 * lines_skip_long: read to the end of the line that was too long, and write the
 * whole line and a newline to `to`, which the caller checks for write errors.
 * `to` NULL: drop the line. TW_INVALID, TW_STOPPED: as for lines_next().
 */
TW_MUST_USE enum tw_err lines_skip_long(
    struct lines *lines, FILE *to, struct err *err);

/* lines_number: return the number, from 1, of the last line that lines_next()
 * returned. */
uint64_t lines_number(const struct lines *lines);

/* lines_share: return how many thousandths of the file are read; -1: unknown.
 * May be called from another thread. */
int lines_share(const struct lines *lines);

#endif
