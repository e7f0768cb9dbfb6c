/* SPDX-License-Identifier: MIT */
/* What a caller must decide, and the sentence a person reads. */
#ifndef TW_BASE_ERR_H
#define TW_BASE_ERR_H

#include <stdarg.h>

#define TW_MUST_USE __attribute__((warn_unused_result))
#define TW_PRINTF(at, first) __attribute__((format(printf, at, first)))

/*
 * The three outcomes of anything that may leave the process are done (TW_OK),
 * unknown (TW_UNKNOWN) and not done (all others). A code names the decision
 * that is left to the caller, not the cause; the cause is the sentence.
 */
enum tw_err {
    TW_OK = 0,
    TW_NOT_FOUND, /* not done: what it names is not there                   */
    TW_CONFLICT,  /* not done: an ETag, an existing entity or a lost receipt
                     stood in the way; read again, decide again             */
    TW_UNKNOWN,   /* sent, no answer: it may be done; read, then decide     */
    TW_BUSY,      /* not done: throttled or unreachable; later it may pass  */
    TW_REFUSED,   /* not done: the credentials are refused; a person must act,
                     then it passes                                         */
    TW_FORBIDDEN, /* not done: the right for this is missing, in the service
                     or on the local disk; it is refused each time          */
    TW_INVALID,   /* not done: the request or the input can never succeed   */
    TW_TOO_LARGE, /* not done: in smaller parts it may pass                 */
    TW_STOPPED, /* not done: the deadline was shut before it was sent        */
    TW_FULL,    /* not done: the local disk is full or fails; a person
                   must act, then it passes                               */
};

/* err_name: the name of a code for logs, "ok", "not found", ... Static. */
const char *err_name(enum tw_err code);

/*
 * One sentence about what went wrong and where, for a person who must act.
 * No newline, no secret. Begins in lower case, ends without a full stop.
 */
struct err {
    char text[1024];
};

/*
 * err_fail: put a sentence into err (which may be NULL) and return code, so
 * that a failure is one line: return err_fail(err, TW_INVALID, "...", ...).
 * A text that does not fit ends in "...".
 */
enum tw_err err_fail(struct err *err, enum tw_err code, const char *format, ...)
    TW_PRINTF(3, 4);

/* err_put: the same sentence for who has the arguments as a list. */
void err_put(struct err *err, const char *format, va_list args) TW_PRINTF(2, 0);

/* err_prefix: put "prefix: " before what err (may be NULL) says already. */
void err_prefix(struct err *err, const char *format, ...) TW_PRINTF(2, 3);

#endif
