/* SPDX-License-Identifier: MIT */
/* Whole HTTP messages from a socket: where one ends is all that is read. */
#ifndef TW_AZSIM_FRAME_H
#define TW_AZSIM_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

/* What came from one side and was not yet used. */
struct stream {
    int socket; /* -1: none */
    struct buf in;
};

/*
 * frame_read: the next message into ret, heads and all: with a Content-Length,
 * in chunks, or without a body. answer: an answer to that method, which has
 * none after HEAD, 204 and 304. False: the other side closed, or it is none.
 */
bool frame_read(struct stream *stream, const char *answer_to, struct buf *ret);

/* frame_send: all of it. False: the other side is gone. */
bool frame_send(int socket, struct slice bytes);

#endif
