/* SPDX-License-Identifier: MIT */
/*
 * Messages of a command to an operator, on standard error: one sentence a line,
 * control characters escaped. Functions that end a command return its exit
 * code, so that a failure is one line: return print_usage("...").
 */
#ifndef TW_CLI_SAY_H
#define TW_CLI_SAY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct problems;

/*
 * say: print "tableward: ..." for an error; with --log-format json a JSON line
 * of the log instead, of the level error. say_note: the same for information.
 * Both are printed at any --log-level.
 */
void say(const char *format, ...) TW_PRINTF(1, 2);
void say_note(const char *format, ...) TW_PRINTF(1, 2);

/* print_usage: print "tableward: ..."; returns EXIT_USAGE_64. */
int print_usage(const char *format, ...) TW_PRINTF(1, 2);

/* print_unknown: print "unknown KIND 'word', did you mean 'near'?" (near may be
 * NULL); returns EXIT_USAGE_64. */
int print_unknown(const char *kind, const char *word, const char *near);

/* print_failed: print the text of err; returns print_exit(outcome). */
int print_failed(enum tw_err outcome, const struct err *err);

/* print_problems: print the problems of a configuration, one a line; with
 * --log-format json as JSON lines. */
void print_problems(const struct problems *problems);

/* print_exit: return the exit code for an outcome of a store. 69: the store
 * cannot be reached, or it refuses the request. 75: the command was stopped
 * (also if no response came because the process must end), or the disk is full.
 * 1: any other failure. */
int print_exit(enum tw_err outcome);

/* log_no_store: print that no store is set for queues and ledger; returns
 * EXIT_CONFIG_78. */
int log_no_store(void);

/* print_output_end: flush standard output, and return exit_code. If flushing
 * fails and exit_code is EXIT_DONE, report the error and return 75 for a full
 * disk, 1 for any other error. */
int print_output_end(int exit_code);

/* print_count: add a number with commas: 12,000. */
void print_count(struct buf *to, int64_t number);

/* print_number: add a number with commas and the unit: 1 line, 12,000 lines. */
void print_number(
    struct buf *to, int64_t number, const char *one, const char *several);

/* print_age: add a duration in its largest unit: 12 s, 5 min, 3 h, 2 d. */
void print_age(struct buf *to, int64_t ticks);

/* print_field: add "name  text" and a line end, the name padded to width;
 * further lines of text are indented below the first. If text is empty, nothing
 * is added. */
void print_field(
    struct buf *to, int width, const char *name, struct slice text);

/* print_time: write a time as status prints it, 2026-11-21 12:00:00Z; "-" for
 * 0. to holds TEXT_TIME_MAX bytes; returns to. */
const char *print_time(int64_t ticks, char *to);

#endif
