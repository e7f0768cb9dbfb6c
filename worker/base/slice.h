/* SPDX-License-Identifier: MIT */
/* A string of bytes, which is owned elsewhere; it may contain NUL bytes. */
#ifndef TW_BASE_SLICE_H
#define TW_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *at; /* may be NULL when len is 0 */
    size_t len;
};

/* For printf("%.*s", SLICE_ARG(slice)). */
#define SLICE_ARG(slice) (int)(slice).len, (slice).at ? (slice).at : ""

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, text ? strlen(text) : 0};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equal(a, slice_of(text));
}

static inline bool slice_begins(struct slice a, struct slice prefix)
{
    return a.len >= prefix.len &&
           (prefix.len == 0 || memcmp(a.at, prefix.at, prefix.len) == 0);
}

/* slice_compare: compare by bytes, which for UTF-8 is the order of code points.
 */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared ? memcmp(a.at, b.at, shared) : 0;

    if (order != 0)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

#endif
