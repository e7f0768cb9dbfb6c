/* SPDX-License-Identifier: MIT */
/*
 * An entity group transaction as multipart bytes, and its answer. Pure.
 *
 * Source: Table service REST, "Performing entity group transactions".
 */
#ifndef TW_STORE_AZURE_BATCH_H
#define TW_STORE_AZURE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

/* How a batch is to be written. All borrowed. */
struct batch_style {
    const char *origin, *path; /* of the table endpoint, as in its URLs */
    const char *batch_id;      /* UUIDs of the two boundaries */
    const char *changeset_id;
    bool post_merge; /* Cosmos DB: POST with X-HTTP-Method, not PATCH */
};

/* batch_add_type: add the Content-Type of the request. */
void batch_add_type(const struct batch_style *style, struct buf *to);

/* batch_write: add the body. Line ends are CRLF; URLs are absolute. */
void batch_write(
    const struct batch_style *style, const struct batch *batch, struct buf *to);

/* One part of an answer; slices point into the body. */
struct batch_part {
    int status;
    struct slice etag; /* empty where there is none */
    struct slice body;
};

/*
 * batch_read: the parts of an answer's body with that Content-Type, read
 * leniently: CRLF or LF, extra empty lines and junk before a status line, no
 * final boundary. Fills at most room parts and returns how many there are; 0:
 * it is no answer to a batch.
 */
size_t batch_read(struct slice content_type, struct slice body,
    struct batch_part *parts, size_t room);

/*
 * batch_failed_index: cut the index off the message of a refusal, "2:The
 * specified entity already exists.": zero-based digits before the first ':'.
 * Without them a batch of one failed at 0, and of a longer one nobody knows:
 * count.
 */
size_t batch_failed_index(char *message, size_t count);

/* What an answer says about a batch of count operations. */
struct batch_answer {
    bool applied;  /* as many parts as operations, all 2xx                 */
    bool refused;  /* exactly one part, not 2xx: nothing was applied. With
                      neither the answer makes no sense                    */
    int status;    /* of the refusing part */
    char code[64]; /* its error code, or "" */
    char message[512]; /* without the index before it */
    size_t failed;     /* index of the operation; count: not known */
};

/* batch_judge: parts as batch_read() returned them, part_count of them. */
void batch_judge(const struct batch_part *parts, size_t part_count,
    size_t count, struct batch_answer *ret);

#endif
