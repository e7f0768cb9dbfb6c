/* SPDX-License-Identifier: MIT */
/* A growing byte buffer that never exceeds the maximum set by its creator. */
#include "worker/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "worker/base/mem.h"

#define FIRST_ROOM 64

void buf_init(struct buf *buf, size_t max)
{
    /* SIZE_MAX - 1 leaves one byte for the NUL. */
    *buf = (struct buf){.max = max < SIZE_MAX ? max : SIZE_MAX - 1};
}

void buf_done(struct buf *buf)
{
    mem_free(buf->at);
    *buf = (struct buf){.max = buf->max};
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->overflow = false;
    if (buf->at)
        buf->at[0] = '\0';
}

static bool fits(const struct buf *buf, size_t more)
{
    return !buf->overflow && more <= buf->max - buf->len;
}

/* Allocate memory for `more` bytes and the NUL. Call only if `more` bytes
 * fit. */
static void grow(struct buf *buf, size_t more)
{
    size_t needed = buf->len + more + 1;
    size_t room = buf->room ? buf->room : FIRST_ROOM;

    if (needed <= buf->room)
        return;
    while (room < needed)
        room = room > SIZE_MAX / 2 ? SIZE_MAX : room * 2;
    if (room > buf->max + 1)
        room = buf->max + 1;
    buf->at = mem_resize(buf->at, room);
    buf->room = room;
}

/* Make room for `more` bytes and the NUL; false: over the maximum. */
static bool make_room(struct buf *buf, size_t more)
{
    if (!fits(buf, more)) {
        buf->overflow = true;
        return false;
    }
    grow(buf, more);
    return true;
}

void buf_reserve(struct buf *buf, size_t more)
{
    if (!fits(buf, more))
        return;
    grow(buf, more);
    buf->at[buf->len] = '\0';
}

void buf_add(struct buf *buf, const void *at, size_t len)
{
    if (!make_room(buf, len))
        return;
    if (len > 0)
        memcpy(buf->at + buf->len, at, len);
    buf->len += len;
    buf->at[buf->len] = '\0';
}

void buf_add_slice(struct buf *buf, struct slice slice)
{
    buf_add(buf, slice.at, slice.len);
}

void buf_add_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

/* Adds a formatted text. The first vsnprintf() writes into the free room, which
 * is usually large enough. */
void buf_add_format(struct buf *buf, const char *format, ...)
{
    size_t room = buf->overflow ? 0 : buf->room - buf->len;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(room > 0 ? buf->at + buf->len : NULL, room, format, args);
    va_end(args);
    if (len >= 0 && (size_t)len < room) {
        buf->len += (size_t)len;
        return;
    }
    if (room > 0)
        buf->at[buf->len] = '\0';
    if (len < 0) {
        buf->overflow = true;
        return;
    }
    if (!make_room(buf, (size_t)len))
        return;
    va_start(args, format);
    vsnprintf(buf->at + buf->len, (size_t)len + 1, format, args);
    va_end(args);
    buf->len += (size_t)len;
}

bool buf_keep(struct buf *buf, size_t before, size_t more)
{
    if (fits(buf, more))
        return true;
    buf->overflow = false;
    buf->len = before;
    if (buf->at)
        buf->at[before] = '\0';
    return false;
}

struct slice buf_slice(const struct buf *buf)
{
    return (struct slice){buf->at, buf->len};
}

const char *buf_text(const struct buf *buf)
{
    return buf->at ? buf->at : "";
}

char *buf_take(struct buf *buf)
{
    char *text = buf->at ? buf->at : mem_text("", 0);

    *buf = (struct buf){.max = buf->max};
    return text;
}
