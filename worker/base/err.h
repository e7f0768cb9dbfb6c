/* SPDX-License-Identifier: MIT */
/* The outcomes of operations: a value by which the caller decides, and a
 * sentence for an operator. */
#ifndef TW_BASE_ERR_H
#define TW_BASE_ERR_H

#include <stdarg.h>

#define TW_MUST_USE __attribute__((warn_unused_result))
#define TW_PRINTF(at, first) __attribute__((format(printf, at, first)))

/*
 * An operation that may have an effect outside this process has one of three
 * outcomes: done (TW_OK), unknown (TW_UNKNOWN) or not done (all other values).
 * The outcome says what the caller can do next; err says the cause.
 */
enum tw_err {
    TW_OK = 0,
    TW_NOT_FOUND, /* not done: the object does not exist */
    TW_CONFLICT,  /* not done: the ETag or the pop receipt did not match, or an
                     entity with the keys of an insert exists; read, then decide
                     again */
    TW_UNKNOWN,   /* sent, no response: it may have been done; read, then decide
                   */
    TW_BUSY,      /* not done: throttled or unreachable; a later try may
                     succeed */
    TW_REFUSED,   /* not done: the credentials are refused, until an operator
                     corrects them */
    TW_FORBIDDEN, /* not done: a right for the operation is missing, in the
                     service or on the local disk; each retry fails too */
    TW_INVALID,   /* not done: the request or the input can never succeed */
    TW_TOO_LARGE, /* not done: the request is too large; smaller parts of it may
                     succeed */
    TW_STOPPED, /* not done: the deadline closed before the request was sent */
    TW_FULL, /* not done: the local disk or a store's file is full, damaged or
                cannot be written, until an operator acts */
};

/* err_name: return the name of an outcome for logs, "ok", "not found", ...
 * Static.
 */
const char *err_name(enum tw_err outcome);

/*
 * One sentence about what went wrong and where, for the operator who must act.
 * No newline, no secret. Begins in lower case, ends without a full stop.
 */
struct err {
    char text[1024];
};

/*
 * err_fail: put a sentence into err (which may be NULL) and return outcome, so
 * that a failure is one line: return err_fail(err, TW_INVALID, "...", ...).
 * A text that does not fit ends in "...".
 */
enum tw_err err_fail(struct err *err, enum tw_err outcome, const char *format,
    ...) TW_PRINTF(3, 4);

/* err_put: put a sentence into err as err_fail() does, with the arguments as a
 * va_list. */
void err_put(struct err *err, const char *format, va_list args) TW_PRINTF(2, 0);

/* err_prefix: put "prefix: " before the text of err (may be NULL). */
void err_prefix(struct err *err, const char *format, ...) TW_PRINTF(2, 3);

#endif
