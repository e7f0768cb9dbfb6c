/* SPDX-License-Identifier: MIT */
/* Makes keys from templates. */
#include "tests/support/cascade_key.h"

#include "worker/base/buf.h"

struct slice cascade_key(struct arena *arena, const char *template,
    const char *channel, struct slice above, unsigned number)
{
    struct buf text;
    struct slice key;

    buf_init(&text, 4096);
    for (; *template; template ++) {
        if (*template != '%')
            buf_add_char(&text, *template);
        else if (*++template == 'c')
            buf_add_text(&text, channel);
        else if (*template == 'a')
            buf_add_slice(&text, above);
        else
            buf_add_format(&text, "%u", number);
    }
    key = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return key;
}
