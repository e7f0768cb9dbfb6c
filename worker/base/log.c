/* SPDX-License-Identifier: MIT */
/* Each line is built in memory and written by one write(2), so that threads
 * need no lock. */
#include "worker/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* The maximum length of a message. A longer one is cut, so that no input can
 * flood the log. */
#define MESSAGE_MAX_BYTES ((size_t)16 * 1024)
/* The maximum length of a line. Escaping may make six bytes of one byte of the
 * message; the rest is for the other fields. */
#define LINE_MAX_BYTES (MESSAGE_MAX_BYTES * 8)

const char *const log_level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
    NULL,
};

/* The priorities of syslog(3), as sd-daemon(3) writes them. */
static const char *const priorities[] = {
    [LOG_ERROR] = "<3>",
    [LOG_WARN] = "<4>",
    [LOG_INFO] = "<6>",
    [LOG_DEBUG] = "<7>",
};

static const char *const format_names[] = {
    [LOG_TEXT] = "text",
    [LOG_JSON] = "json",
};

static atomic_int shown_level = LOG_INFO;
static atomic_int shown_format = LOG_TEXT;
static atomic_bool to_journal;

/* Is standard error the stream that $JOURNAL_STREAM names, "DEVICE:INODE"? That
 * the variable is set is not enough, because a process whose standard error was
 * redirected inherits it too. */
static bool is_journal(const char *stream)
{
    struct stat info;
    char name[64];

    if (stream == NULL || fstat(STDERR_FILENO, &info) != 0)
        return false;
    (void)snprintf(name, sizeof(name), "%ju:%ju", (uintmax_t)info.st_dev,
        (uintmax_t)info.st_ino);
    return strcmp(name, stream) == 0;
}

void log_set(enum log_level level, enum log_format format)
{
    atomic_store(&to_journal, is_journal(getenv("JOURNAL_STREAM")));
    atomic_store(&shown_level, (int)level);
    atomic_store(&shown_format, (int)format);
}

void log_set_level(enum log_level level)
{
    atomic_store(&shown_level, (int)level);
}

/* Returns the index of name in names; -1: names does not have it. */
static int named(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

bool log_level_named(const char *name, enum log_level *ret)
{
    int level = named(log_level_names, LOG_DEBUG + 1, name);

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

bool log_is_json(void)
{
    return atomic_load(&shown_format) == LOG_JSON;
}

const char *log_priority(enum log_level level)
{
    return atomic_load(&to_journal) ? priorities[level] : "";
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
    buf_add_format(line, " %s ", log_level_names[level]);
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

static void add_text_field(struct buf *line, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        add_member(line, name, slice_of(text));
}

static void add_number_field(struct buf *line, const char *name, int64_t number)
{
    buf_add_format(line, ",\"%s\":%" PRId64, name, number);
}

/* The trace id is the second part of a traceparent: 32 hexadecimal digits. */
#define TRACE_ID_AT 3
#define TRACE_ID_LEN 32

static void add_trace(struct buf *line, const char *traceparent)
{
    if (traceparent == NULL || strlen(traceparent) < TRACE_ID_AT + TRACE_ID_LEN)
        return;
    add_member(line, "trace_id",
        (struct slice){traceparent + TRACE_ID_AT, TRACE_ID_LEN});
    add_text_field(line, "traceparent", traceparent);
}

static void add_run_fields(struct buf *line, const struct log_run *run)
{
    add_text_field(line, "job", run->job);
    add_text_field(line, "run", run->id);
    if (run->attempt > 0)
        add_number_field(line, "attempt", run->attempt);
    if (run->args != NULL && run->args[0] == '{')
        buf_add_format(line, ",\"args\":%s", run->args);
    add_text_field(line, "store", run->store);
    add_trace(line, run->traceparent);
}

/* The contents of a line, except its time. */
struct said {
    enum log_level level;
    const char *object;
    struct slice message;
    const struct log_run *run;        /* NULL: the line is about no run */
    const struct log_number *numbers; /* NULL: none */
};

static void add_json_line(struct buf *line, const struct said *said)
{
    buf_add_text(line, "{\"time\":\"");
    add_time(line);
    buf_add_format(line, "\",\"level\":\"%s\"", log_level_names[said->level]);
    add_member(line, "object", slice_of(said->object));
    add_member(line, "message", said->message);
    if (said->run != NULL)
        add_run_fields(line, said->run);
    for (const struct log_number *at = said->numbers; at && at->name; at++)
        add_number_field(line, at->name, at->value);
    buf_add_text(line, "}\n");
}

/* Write the line with one write(2). If a full pipe takes only a part of the
 * line, the rest is dropped: if it were written later, it could land between
 * lines of other processes. */
static void write_line(struct slice line)
{
    ssize_t wrote;

    do
        wrote = write(STDERR_FILENO, line.at, line.len);
    while (wrote < 0 && errno == EINTR);
}

/* Returns the message, cut if it is too long. Owned. */
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

static void write_said(const struct said *said)
{
    struct buf line;

    buf_init(&line, 3 * LINE_MAX_BYTES);
    buf_add_text(&line, log_priority(said->level));
    if (log_is_json())
        add_json_line(&line, said);
    else
        add_text_line(&line, said->level, said->object, said->message);
    write_line(buf_slice(&line));
    buf_done(&line);
}

/* Write the line with this message. */
static TW_PRINTF(2, 0) void write_message(
    struct said *said, const char *format, va_list args)
{
    int before = errno;
    char *message;

    message = message_of(format, args);
    said->message = slice_of(message);
    write_said(said);
    mem_free(message);
    errno = before;
}

void log_line(enum log_level level, const char *object, const char *format, ...)
{
    va_list args;

    if (!log_shows(level))
        return;
    va_start(args, format);
    write_message(
        &(struct said){.level = level, .object = object}, format, args);
    va_end(args);
}

void log_anyway(
    enum log_level level, const char *object, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_message(
        &(struct said){.level = level, .object = object}, format, args);
    va_end(args);
}

void log_run_line(enum log_level level, const struct log_run *run,
    const struct log_number *numbers, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_run_vline(level, run, numbers, format, args);
    va_end(args);
}

void log_run_vline(enum log_level level, const struct log_run *run,
    const struct log_number *numbers, const char *format, va_list args)
{
    if (!log_shows(level))
        return;
    write_message(&(struct said){.level = level,
                      .object = run->object ? run->object : "run",
                      .run = run,
                      .numbers = numbers},
        format, args);
}
