/* SPDX-License-Identifier: MIT */
/* The reasons of errors. */
#include "worker/cli/reason.h"

#include <stdbool.h>
#include <string.h>

/* How store/azure/azure.c adds the id to an error. */
#define REQUEST_ID " (request id "

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the length of text up to and including the first `end` after its
 * first byte; 0: there is no such `end`. */
static size_t len_to(struct slice text, char end)
{
    const char *at =
        text.len > 1 ? memchr(text.at + 1, end, text.len - 1) : NULL;

    return at ? (size_t)(at - text.at) + 1 : 0;
}

/* Returns the length of the number, such as 12,004 or 0.5, that text begins
 * with. */
static size_t number_len(struct slice text)
{
    size_t len = 0;

    while (len < text.len &&
           (is_digit(text.at[len]) ||
               (len > 0 && len + 1 < text.len &&
                   (text.at[len] == ',' || text.at[len] == '.') &&
                   is_digit(text.at[len + 1]))))
        len++;
    return len;
}

/* Add the next part of text to `to`. Returns the length of that part. */
static size_t add_part(struct slice text, struct buf *to)
{
    size_t len = 0;

    if (slice_begins(text, slice_of(REQUEST_ID)))
        len = len_to(text, ')');
    if (len > 0)
        return len;
    len = number_len(text);
    if (len > 0) {
        buf_add_char(to, '0');
        return len;
    }
    if (text.at[0] == '\'')
        len = len_to(text, '\'');
    if (len == 0)
        len = 1;
    buf_add_slice(to, (struct slice){text.at, len});
    return len;
}

void reason_add(struct slice error, struct buf *to)
{
    while (error.len > 0 && error.at[0] != '\n') {
        size_t len = add_part(error, to);

        error.at += len;
        error.len -= len;
    }
}
