/* SPDX-License-Identifier: MIT */
/* Outcome names and err formatting. */
#include "worker/base/err.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "worker/base/text.h"

static const char *const names[] = {
    [TW_OK] = "ok",
    [TW_NOT_FOUND] = "not found",
    [TW_CONFLICT] = "conflict",
    [TW_UNKNOWN] = "unknown",
    [TW_BUSY] = "busy",
    [TW_REFUSED] = "refused",
    [TW_FORBIDDEN] = "forbidden",
    [TW_INVALID] = "invalid",
    [TW_TOO_LARGE] = "too large",
    [TW_STOPPED] = "stopped",
    [TW_FULL] = "full",
};

const char *err_name(enum tw_err outcome)
{
    size_t index = (size_t)outcome;

    return index < sizeof(names) / sizeof(names[0]) ? names[index] : "?";
}

void err_put(struct err *err, const char *format, va_list args)
{
    struct err made; /* not *err itself, because an argument may be err->text */
    int len = vsnprintf(made.text, sizeof(made.text), format, args);

    if (len < 0)
        made.text[0] = '\0';
    else if ((size_t)len >= sizeof(made.text))
        text_end_cut(made.text, sizeof(made.text));
    memcpy(err->text, made.text, strlen(made.text) + 1);
}

enum tw_err err_fail(
    struct err *err, enum tw_err outcome, const char *format, ...)
{
    va_list args;

    if (!err)
        return outcome;
    va_start(args, format);
    err_put(err, format, args);
    va_end(args);
    return outcome;
}

void err_prefix(struct err *err, const char *format, ...)
{
    struct err made;
    va_list args;
    int len;

    if (!err)
        return;
    va_start(args, format);
    len = vsnprintf(made.text, sizeof(made.text), format, args);
    va_end(args);
    if (len < 0)
        return;
    if ((size_t)len < sizeof(made.text))
        len += snprintf(made.text + len, sizeof(made.text) - (size_t)len,
            ": %s", err->text);
    if ((size_t)len >= sizeof(made.text))
        text_end_cut(made.text, sizeof(made.text));
    memcpy(err->text, made.text, strlen(made.text) + 1);
}
