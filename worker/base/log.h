/* SPDX-License-Identifier: MIT */
/*
 * Lines for operators, on standard error, one write(2) each. A message begins
 * with the object that it concerns. No line has a key, a signature or a
 * property value. Safe from every thread.
 *
 *   text  2026-11-21T12:00:00.000Z info run delete-channel/7f3a: succeeded: ...
 *   json  {"time":"...","level":"info","object":"run ...","message":"..."}
 */
#ifndef TW_BASE_LOG_H
#define TW_BASE_LOG_H

#include <stdbool.h>

#include "worker/base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* log_set: set the most detailed level that is printed, and the format;
 * initially LOG_INFO, LOG_TEXT. */
void log_set(enum log_level level, enum log_format format);

/* log_level_named, log_format_named: parse a name; false: unknown. */
bool log_level_named(const char *name, enum log_level *ret);
bool log_format_named(const char *name, enum log_format *ret);

bool log_shows(enum log_level level);

/*
 * log_line: called by the macros below. object: the subject of the line
 * ("worker", "queue tableward", "run delete-channel/7f3a"), borrowed. Control
 * characters and invalid UTF-8 in object and message are escaped.
 */
void log_line(enum log_level level, const char *object, const char *format, ...)
    TW_PRINTF(3, 4);

#define log_error(object, ...) log_line(LOG_ERROR, object, __VA_ARGS__)
#define log_warn(object, ...) log_line(LOG_WARN, object, __VA_ARGS__)
#define log_info(object, ...) log_line(LOG_INFO, object, __VA_ARGS__)
#define log_debug(object, ...)                                                 \
    do {                                                                       \
        if (log_shows(LOG_DEBUG))                                              \
            log_line(LOG_DEBUG, object, __VA_ARGS__);                          \
    } while (0)

#endif
