/* SPDX-License-Identifier: MIT */
/* Reads whole HTTP messages from a socket. It looks at a message only to find
 * its end. */
#ifndef TW_AZSIM_FRAME_H
#define TW_AZSIM_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

/* What was received from one side and is not used yet. */
struct stream {
    int socket; /* -1: not connected */
    struct buf in;
};

/*
 * frame_read: reads the next message into ret, head and body. The body has a
 * Content-Length or chunks, or is missing. answer_to: NULL: the message is a
 * request; else the method of the request to which the message is the answer.
 * An answer to HEAD, or with status 204 or 304, has no body. False: the other
 * side has closed the connection, or this is no HTTP message.
 */
bool frame_read(struct stream *stream, const char *answer_to, struct buf *ret);

#endif
