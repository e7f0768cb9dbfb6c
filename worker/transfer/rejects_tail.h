/* SPDX-License-Identifier: MIT */
/*
 * The tail of a rejects file: the bytes that a killed process wrote after its
 * last ledger update. The next process cuts off the tail and rejects the same
 * lines again, unless an operator has corrected lines of the tail in place
 * meanwhile.
 */
#ifndef TW_TRANSFER_REJECTS_TAIL_H
#define TW_TRANSFER_REJECTS_TAIL_H

#include <stdbool.h>
#include <stdint.h>

struct rejects;

/*
 * rejects_tail_is_edited: does the tail (the rejects file after its first
 * `bytes` bytes) have a whole line that is not among the lines of the file
 * `input` after line number `line`? False also if the lines cannot be compared,
 * because input is not a regular file, input has a line over LINES_MAX_BYTES,
 * or the tail has more than 65,536 lines.
 */
bool rejects_tail_is_edited(
    struct rejects *rejects, int64_t bytes, const char *input, uint64_t line);

#endif
