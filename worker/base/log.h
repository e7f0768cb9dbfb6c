/* SPDX-License-Identifier: MIT */
/*
 * Lines for operators, on standard error, one write(2) each. A message begins
 * with the object that it concerns. No line has an account key, a signature, a
 * token or a property value. Safe from every thread.
 *
 *   text  2026-11-21T12:00:00.000Z info run delete-channel/7f3a: succeeded: ...
 *   json  {"time":"...","level":"info","object":"run ...","message":"...",
 *          "job":"delete-channel","run":"7f3a","attempt":1,...}
 *
 * If standard error is a stream of the journal ($JOURNAL_STREAM), each line
 * begins with its priority, such as <4>, which the journal removes:
 * sd-daemon(3).
 */
#ifndef TW_BASE_LOG_H
#define TW_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* log_set: set the most detailed level that is printed, and the format;
 * initially LOG_INFO, LOG_TEXT. */
void log_set(enum log_level level, enum log_format format);

/* log_set_level: like log_set(), but the format is unchanged. */
void log_set_level(enum log_level level);

/* The names of the levels, in the order of enum log_level, ended by NULL. */
extern const char *const log_level_names[];

/* log_level_named, log_format_named: parse a name; false: unknown. */
bool log_level_named(const char *name, enum log_level *ret);
bool log_format_named(const char *name, enum log_format *ret);

bool log_shows(enum log_level level);

/* log_is_json: is LOG_JSON the format? log_priority: return the text that
 * begins each line of this level, such as "<4>" for the journal, else "". */
bool log_is_json(void);
const char *log_priority(enum log_level level);

/*
 * The run that a line is about: fields of a JSON line beside its message. All
 * borrowed. A member that is NULL, and attempt 0, are left out.
 */
struct log_run {
    const char *object; /* "run delete-channel/7f3a"; NULL: "run" */
    const char *job, *id;
    const char *args;        /* a JSON object, without control characters */
    const char *store;       /* the store of the run's queue and ledger */
    const char *traceparent; /* a valid traceparent of W3C Trace Context */
    int64_t attempt;
};

/* A number in a JSON line: the name of the field, in lower case, and its value.
 */
struct log_number {
    const char *name;
    int64_t value;
};

/*
 * log_line: called by the macros below. object: the subject of the line
 * ("worker", "queue tableward", "run delete-channel/7f3a"), borrowed. Control
 * characters and invalid UTF-8 in object and message are escaped.
 */
void log_line(enum log_level level, const char *object, const char *format, ...)
    TW_PRINTF(3, 4);

/*
 * log_run_line: write a line about a run. numbers: further fields of a JSON
 * line, ended by a NULL name; NULL: none. The message must contain the numbers
 * too, because a text line has only the message.
 */
void log_run_line(enum log_level level, const struct log_run *run,
    const struct log_number *numbers, const char *format, ...) TW_PRINTF(4, 5);
void log_run_vline(enum log_level level, const struct log_run *run,
    const struct log_number *numbers, const char *format, va_list args)
    TW_PRINTF(4, 0);

/* log_anyway: like log_line(), but also if lines of this level are not shown:
 * for what a command prints for an operator. */
void log_anyway(enum log_level level, const char *object, const char *format,
    ...) TW_PRINTF(3, 4);

#define log_error(object, ...) log_line(LOG_ERROR, object, __VA_ARGS__)
#define log_warn(object, ...) log_line(LOG_WARN, object, __VA_ARGS__)
#define log_info(object, ...) log_line(LOG_INFO, object, __VA_ARGS__)
#define log_debug(object, ...)                                                 \
    do {                                                                       \
        if (log_shows(LOG_DEBUG))                                              \
            log_line(LOG_DEBUG, object, __VA_ARGS__);                          \
    } while (0)

#define log_run_error(run, ...) log_run_line(LOG_ERROR, run, NULL, __VA_ARGS__)
#define log_run_warn(run, ...) log_run_line(LOG_WARN, run, NULL, __VA_ARGS__)
#define log_run_info(run, ...) log_run_line(LOG_INFO, run, NULL, __VA_ARGS__)
#define log_run_debug(run, ...) log_run_line(LOG_DEBUG, run, NULL, __VA_ARGS__)

#endif
