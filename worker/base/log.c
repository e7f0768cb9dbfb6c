/* SPDX-License-Identifier: MIT */
/* Each line is built in memory and written by one write(2), so that threads
 * need no lock. */
#include "worker/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* The maximum length of a message. A longer one is cut, so that no input can
 * flood the log. */
#define MESSAGE_MAX_BYTES ((size_t)16 * 1024)
/* The maximum length of a line. Escaping makes up to six bytes of one. */
#define LINE_MAX_BYTES (MESSAGE_MAX_BYTES * 8)

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

static const char *const format_names[] = {
    [LOG_TEXT] = "text",
    [LOG_JSON] = "json",
};

static atomic_int shown_level = LOG_INFO;
static atomic_int shown_format = LOG_TEXT;

void log_set(enum log_level level, enum log_format format)
{
    atomic_store(&shown_level, (int)level);
    atomic_store(&shown_format, (int)format);
}

/* The index of name, or -1. */
static int named(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

bool log_level_named(const char *name, enum log_level *ret)
{
    int level = named(level_names, LOG_DEBUG + 1, name);

    if (level < 0)
        return false;
    *ret = (enum log_level)level;
    return true;
}

bool log_format_named(const char *name, enum log_format *ret)
{
    int format = named(format_names, LOG_JSON + 1, name);

    if (format < 0)
        return false;
    *ret = (enum log_format)format;
    return true;
}

bool log_shows(enum log_level level)
{
    return (int)level <= atomic_load(&shown_level);
}

/* Add the time: 2026-11-21T12:00:00.000Z */
static void add_time(struct buf *line)
{
    struct text_date now = text_date_of(platform_wall_ticks());

    buf_add_format(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", now.year,
        now.month, now.day, now.hour, now.minute, now.second,
        now.fraction / (int)TICKS_PER_MS);
}

static void add_text_line(struct buf *line, enum log_level level,
    const char *object, struct slice message)
{
    add_time(line);
    buf_add_format(line, " %s ", level_names[level]);
    text_visible(line, slice_of(object));
    buf_add_text(line, ": ");
    text_visible(line, message);
    buf_add_char(line, '\n');
}

/* Add a member whose value may hold any bytes. */
static void add_member(struct buf *line, const char *name, struct slice value)
{
    struct buf visible;

    buf_init(&visible, LINE_MAX_BYTES);
    text_visible(&visible, value);
    buf_add_format(line, ",\"%s\":", name);
    json_add_string(line, buf_slice(&visible));
    buf_done(&visible);
}

static void add_json_line(struct buf *line, enum log_level level,
    const char *object, struct slice message)
{
    buf_add_text(line, "{\"time\":\"");
    add_time(line);
    buf_add_format(line, "\",\"level\":\"%s\"", level_names[level]);
    add_member(line, "object", slice_of(object));
    add_member(line, "message", message);
    buf_add_text(line, "}\n");
}

/* One write(2). If a full pipe takes only part of the line, the rest is lost:
 * writing it later could put it between lines of other processes. */
static void write_line(struct slice line)
{
    ssize_t wrote;

    do
        wrote = write(STDERR_FILENO, line.at, line.len);
    while (wrote < 0 && errno == EINTR);
}

/* The message, cut if it is too long. Owned. */
static TW_PRINTF(1, 0) char *message_of(const char *format, va_list args)
{
    char *text = mem_alloc(MESSAGE_MAX_BYTES + 1);
    int len = vsnprintf(text, MESSAGE_MAX_BYTES + 1, format, args);

    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len > MESSAGE_MAX_BYTES)
        text_end_cut(text, MESSAGE_MAX_BYTES + 1);
    return text;
}

void log_line(enum log_level level, const char *object, const char *format, ...)
{
    int before = errno;
    struct buf line;
    va_list args;
    char *message;

    if (!log_shows(level))
        return;
    va_start(args, format);
    message = message_of(format, args);
    va_end(args);
    buf_init(&line, 2 * LINE_MAX_BYTES);
    if (atomic_load(&shown_format) == LOG_JSON)
        add_json_line(&line, level, object, slice_of(message));
    else
        add_text_line(&line, level, object, slice_of(message));
    write_line(buf_slice(&line));
    buf_done(&line);
    mem_free(message);
    errno = before;
}
