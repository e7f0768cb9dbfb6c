/* SPDX-License-Identifier: MIT */
/* A growing byte buffer with a maximum size, always NUL-terminated. */
#ifndef TW_BASE_BUF_H
#define TW_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct buf {
    char *at; /* len bytes and a NUL; NULL while nothing was added */
    size_t len;
    size_t room;   /* number of bytes allocated */
    size_t max;    /* maximum of len */
    bool overflow; /* an addition did not fit, so the content is incomplete */
};

/*
 * buf_init: make buf empty, for at most max bytes. An addition that does not
 * fit sets overflow and is dropped whole, and all later additions are dropped
 * too. So a caller may add many times and check overflow once.
 */
void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);  /* frees; then only buf_init() is valid */
void buf_clear(struct buf *buf); /* empties buf, but keeps its memory */

/* buf_reserve: allocate memory for `more` more bytes at once, if the maximum
 * size allows them. An estimate is enough. */
void buf_reserve(struct buf *buf, size_t more);

void buf_add(struct buf *buf, const void *at, size_t len);
void buf_add_slice(struct buf *buf, struct slice slice);
void buf_add_text(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_add_format(struct buf *buf, const char *format, ...) TW_PRINTF(2, 3);

/*
 * buf_keep: make additions all or nothing. `before` was buf->len before the
 * additions. If the additions did not fit, or left no room for `more` further
 * bytes, buf_keep removes them, clears overflow and returns false. Call only if
 * overflow was false before the additions.
 */
bool buf_keep(struct buf *buf, size_t before, size_t more);

/* buf_slice: return the content; borrowed until the next change of buf. */
struct slice buf_slice(const struct buf *buf);

/* buf_text: return the content as a NUL-terminated text; "" if nothing was
 * added. Borrowed until the next change of buf. */
const char *buf_text(const struct buf *buf);

/* buf_take: move the content out of buf, as a NUL-terminated text. Owned; buf
 * is empty afterwards. */
char *buf_take(struct buf *buf);

#endif
