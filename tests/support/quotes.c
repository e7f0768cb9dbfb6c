/* SPDX-License-Identifier: MIT */
/* JSON without backslashes: see quotes.h. */
#include "tests/support/quotes.h"

#include <string.h>

const char *quoted(struct arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *ret = arena_alloc(arena, size);

    memcpy(ret, text, size);
    for (char *at = ret; (at = strchr(at, '\'')) != NULL; at++)
        *at = '"';
    return ret;
}
