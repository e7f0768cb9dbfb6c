/* SPDX-License-Identifier: MIT */
/*
 * What a command says to a person, on standard error: one sentence a line,
 * control characters made visible. Each returns the exit code to end with, so
 * that a failure is one line: return print_usage("...").
 */
#ifndef TW_CLI_SAY_H
#define TW_CLI_SAY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

/* say: "tableward: ...". */
void say(const char *format, ...) TW_PRINTF(1, 2);

/* print_usage: the same; EXIT_USAGE_64. */
int print_usage(const char *format, ...) TW_PRINTF(1, 2);

/* print_unknown: "unknown KIND 'word', did you mean 'near'?" (near may be
 * NULL); EXIT_USAGE_64. */
int print_unknown(const char *kind, const char *word, const char *near);

/* print_failed: what err says of an outcome of a store; print_exit(code). */
int print_failed(enum tw_err code, const struct err *err);

/* print_exit: the exit code for the outcome of something asked of a store:
 * 69 where it cannot be reached or refuses, 75 where it was stopped (also where
 * no answer came because the process is to end) or the disk is full, 1 for all
 * else. */
int print_exit(enum tw_err code);

/* log_no_store: neither store nor ledger is named; EXIT_CONFIG_78. */
int log_no_store(void);

/* print_output_end: standard output is written out; when it could not be, says
 * so and returns 75 for a full disk, 1 for all else; else exit_code. */
int print_output_end(int exit_code);

/* print_count: add a number with commas: 12,000. */
void print_count(struct buf *to, int64_t number);

/* print_number: the same, and what it counts: 1 line, 12,000 lines. */
void print_number(
    struct buf *to, int64_t number, const char *one, const char *several);

/* print_age: add how long that is, in its largest unit: 12 s, 5 min, 3 h, 2 d.
 */
void print_age(struct buf *to, int64_t ticks);

/* print_field: add "name  text" and a line end, the name width wide; further
 * lines of text stand below the first. Nothing for an empty text. */
void print_field(
    struct buf *to, int width, const char *name, struct slice text);

/* print_time: a moment as status shows it, 2026-11-21 12:00:00Z; "-" for 0. to
 * holds TEXT_TIME_MAX bytes; returns to. */
const char *print_time(int64_t ticks, char *to);

#endif
