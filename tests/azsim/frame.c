/* SPDX-License-Identifier: MIT */
/* Finds the end of an HTTP message: the head ends at an empty line, the body by
 * its length or its chunks. */
#include "tests/azsim/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "worker/base/text.h"

#define PIECE_BYTES 65536

/* Receives more bytes. */
static bool receive(struct stream *stream)
{
    char piece[PIECE_BYTES];
    ssize_t got;

    do
        got = recv(stream->socket, piece, sizeof(piece), 0);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return false;
    buf_add(&stream->in, piece, (size_t)got);
    return !stream->in.overflow;
}

/* Receives until `bytes` bytes are there. */
static bool want(struct stream *stream, size_t bytes)
{
    while (stream->in.len < bytes)
        if (!receive(stream))
            return false;
    return true;
}

/* Returns where the first `text` after `from` ends; 0: it is not there. */
static size_t end_of(const struct buf *buf, size_t from, const char *text)
{
    const char *at = buf->len > from ? memmem(buf->at + from, buf->len - from,
                                           text, strlen(text))
                                     : NULL;

    return at ? (size_t)(at - buf->at) + strlen(text) : 0;
}

static bool want_text(
    struct stream *stream, size_t from, const char *text, size_t *ret)
{
    while ((*ret = end_of(&stream->in, from, text)) == 0)
        if (!receive(stream))
            return false;
    return true;
}

static struct slice field_of(struct slice head, const char *name)
{
    size_t len = strlen(name);

    while (head.len > len + 2) {
        const char *end = memchr(head.at, '\n', head.len);
        size_t used = end ? (size_t)(end - head.at) + 1 : head.len;

        if (used > len + 3 && strncasecmp(head.at, name, len) == 0 &&
            head.at[len] == ':') {
            struct slice value = {head.at + len + 1, used - len - 3};

            while (value.len > 0 && value.at[0] == ' ') {
                value.at++;
                value.len--;
            }
            return value;
        }
        head.at += used;
        head.len -= used;
    }
    return (struct slice){NULL, 0};
}

/* Receives all chunks, each with its length in a line, up to the chunk of
 * length 0. */
static bool want_chunks(struct stream *stream, size_t *end)
{
    for (;;) {
        size_t line_end;
        unsigned long len;

        if (!want_text(stream, *end, "\r\n", &line_end))
            return false;
        len = strtoul(stream->in.at + *end, NULL, 16);
        if (len > stream->in.max || !want(stream, line_end + len + 2))
            return false;
        *end = line_end + len + 2;
        if (len == 0)
            return true;
    }
}

static bool has_no_body(struct slice head, const char *answer_to)
{
    if (answer_to == NULL)
        return false;
    return strcmp(answer_to, "HEAD") == 0 ||
           slice_begins(head, slice_of("HTTP/1.1 204")) ||
           slice_begins(head, slice_of("HTTP/1.1 304"));
}

static void take(struct stream *stream, size_t bytes, struct buf *ret)
{
    buf_clear(ret);
    buf_add(ret, stream->in.at, bytes);
    memmove(stream->in.at, stream->in.at + bytes, stream->in.len - bytes);
    stream->in.len -= bytes;
}

bool frame_read(struct stream *stream, const char *answer_to, struct buf *ret)
{
    struct slice head, length, coding;
    int64_t bytes = 0;
    size_t end;

    if (!want_text(stream, 0, "\r\n\r\n", &end))
        return false;
    head = (struct slice){stream->in.at, end};
    length = field_of(head, "Content-Length");
    coding = field_of(head, "Transfer-Encoding");
    if (!has_no_body(head, answer_to)) {
        if (coding.len > 0) {
            if (!want_chunks(stream, &end))
                return false;
        } else if (length.at != NULL) {
            if (!text_int64(length, 0, (int64_t)stream->in.max, &bytes) ||
                !want(stream, end + (size_t)bytes))
                return false;
        }
    }
    take(stream, end + (size_t)bytes, ret);
    return true;
}
