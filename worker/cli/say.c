/* SPDX-License-Identifier: MIT */
/* Prints sentences on standard error, and maps outcomes to exit codes. */
#include "worker/cli/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/problems.h"
#include "worker/base/log.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"

#define SENTENCE_MAX 4096

TW_PRINTF(2, 0)
static void print_all(enum log_level level, const char *format, va_list list)
{
    char sentence[SENTENCE_MAX];
    struct buf line;

    if (vsnprintf(sentence, sizeof(sentence), format, list) >= SENTENCE_MAX)
        text_end_cut(sentence, sizeof(sentence));
    if (log_is_json()) {
        log_anyway(level, "tableward", "%s", sentence);
        return;
    }
    buf_init(&line, 4 * SENTENCE_MAX);
    buf_add_text(&line, log_priority(level));
    buf_add_text(&line, "tableward: ");
    text_visible(&line, slice_of(sentence));
    buf_add_char(&line, '\n');
    fputs(buf_text(&line), stderr);
    buf_done(&line);
}

void say(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print_all(LOG_ERROR, format, list);
    va_end(list);
}

void say_note(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print_all(LOG_INFO, format, list);
    va_end(list);
}

int print_usage(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print_all(LOG_ERROR, format, list);
    va_end(list);
    return EXIT_USAGE_64;
}

int print_unknown(const char *kind, const char *word, const char *near)
{
    struct buf quoted;

    buf_init(&quoted, SENTENCE_MAX);
    text_quote(&quoted, slice_of(word));
    if (near)
        say("unknown %s %s, did you mean '%s'?", kind, buf_text(&quoted), near);
    else
        say("unknown %s %s", kind, buf_text(&quoted));
    buf_done(&quoted);
    return EXIT_USAGE_64;
}

void print_problems(const struct problems *problems)
{
    if (!log_is_json()) {
        problems_print(problems, stderr);
        return;
    }
    for (size_t i = 0; i < problems->count; i++) {
        const struct problem *problem = &problems->list[i];

        log_anyway(problem->warning ? LOG_WARN : LOG_ERROR, "configuration",
            "%s:%u:%u: %s", problem->mark.file, problem->mark.line,
            problem->mark.column, problem->text);
    }
}

int print_exit(enum tw_err outcome)
{
    switch (outcome) {
    case TW_OK:
        return EXIT_DONE;
    case TW_BUSY:
    case TW_UNKNOWN:
        return stop_is_asked() ? EXIT_STOPPED : EXIT_UNREACHABLE;
    case TW_REFUSED:
    case TW_FORBIDDEN:
        return EXIT_UNREACHABLE;
    case TW_STOPPED:
    case TW_FULL:
        return EXIT_STOPPED;
    case TW_NOT_FOUND:
    case TW_CONFLICT:
    case TW_INVALID:
    case TW_TOO_LARGE:
        break;
    }
    return EXIT_FAILED;
}

int print_failed(enum tw_err outcome, const struct err *err)
{
    say("%s", err->text);
    return print_exit(outcome);
}

int log_no_store(void)
{
    say("queues and ledger have no store: write `worker: {store: NAME}` or "
        "`default_store: NAME`");
    return EXIT_CONFIG_78;
}

int print_output_end(int exit_code)
{
    int cause;

    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    cause = errno;
    if (exit_code != EXIT_DONE)
        return exit_code;
    say("standard output could not be written%s%s", cause ? ": " : "",
        cause ? strerror(cause) : "");
    return cause == ENOSPC || cause == EDQUOT ? EXIT_STOPPED : EXIT_FAILED;
}

void print_count(struct buf *to, int64_t number)
{
    char digits[32];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, number);
    size_t start = digits[0] == '-';

    for (size_t i = 0; i < len; i++) {
        if (i > start && (len - i) % 3 == 0)
            buf_add_char(to, ',');
        buf_add_char(to, digits[i]);
    }
}

void print_number(
    struct buf *to, int64_t number, const char *one, const char *several)
{
    print_count(to, number);
    buf_add_format(to, " %s", number == 1 ? one : several);
}

void print_age(struct buf *to, int64_t ticks)
{
    int64_t seconds = ticks > 0 ? ticks / TICKS_PER_S : 0;

    if (seconds < 120)
        buf_add_format(to, "%" PRId64 " s", seconds);
    else if (seconds < 2 * 3600)
        buf_add_format(to, "%" PRId64 " min", seconds / 60);
    else if (seconds < 48 * 3600)
        buf_add_format(to, "%" PRId64 " h", seconds / 3600);
    else
        buf_add_format(to, "%" PRId64 " d", seconds / (24 * 3600));
}

void print_field(struct buf *to, int width, const char *name, struct slice text)
{
    while (text.len > 0) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;

        buf_add_format(to, "%-*s ", width, name);
        text_visible(to, (struct slice){text.at, len});
        buf_add_char(to, '\n');
        name = "";
        len += end != NULL;
        text.at += len;
        text.len -= len;
    }
}

const char *print_time(int64_t ticks, char *to)
{
    struct text_date date;

    if (ticks <= 0)
        return strcpy(to, "-");
    date = text_date_of(ticks);
    snprintf(to, TEXT_TIME_MAX, "%04d-%02d-%02d %02d:%02d:%02dZ",
        date.year % 10000, date.month % 100, date.day % 100, date.hour % 100,
        date.minute % 100, date.second % 100);
    return to;
}
