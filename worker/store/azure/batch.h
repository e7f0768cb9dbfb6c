/* SPDX-License-Identifier: MIT */
/*
 * An entity group transaction as multipart bytes, and its response. Pure.
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

/* How to write a batch. All borrowed. */
struct batch_style {
    const char *origin, *path; /* parts of the table endpoint's URLs */
    const char *batch_id;      /* UUID in the boundary of the batch */
    const char *changeset_id;  /* UUID in the boundary of the changeset */
    bool post_merge; /* merge with POST and X-HTTP-Method (Cosmos DB), not with
                        PATCH */
};

/* batch_add_type: add the Content-Type of the request. */
void batch_add_type(const struct batch_style *style, struct buf *to);

/* batch_write: add the body. Line ends are CRLF; URLs are absolute. */
void batch_write(
    const struct batch_style *style, const struct batch *batch, struct buf *to);

/* One part of a response; slices point into the body. */
struct batch_part {
    int status;
    struct slice etag; /* empty if there is none */
    struct slice body;
};

/*
 * batch_read: parse the parts of a response's body with that Content-Type.
 * Accepts CRLF and LF, extra empty lines and junk before a status line, and a
 * missing final boundary. Returns the number of parts in the body, of which at
 * most room are stored in parts; 0: the body is not a response to a batch.
 */
size_t batch_read(struct slice content_type, struct slice body,
    struct batch_part *parts, size_t room);

/*
 * batch_failed_index: remove the index of the failed operation from the start
 * of an error message, such as "2:The specified entity already exists.", and
 * return it. The first operation has index 0. Without an index the result is 0
 * for a batch of one, and count (unknown) for a longer batch.
 */
size_t batch_failed_index(char *message, size_t count);

/* What a response shows about a batch of count operations. */
struct batch_answer {
    bool applied;  /* all operations were applied: there is one part for each
                      operation, and all are 2xx */
    bool refused;  /* nothing was applied: there is exactly one part, and it is
                      not 2xx. If neither applied nor refused is set, the
                      response is invalid */
    int status;    /* HTTP status of the refused part */
    char code[64]; /* error code of the refused part, or "" */
    char message[512]; /* error message without the leading index */
    size_t failed;     /* index of the operation that failed; count: unknown */
};

/* batch_judge: find out what the part_count parts from batch_read() show about
 * the batch. */
void batch_judge(const struct batch_part *parts, size_t part_count,
    size_t count, struct batch_answer *ret);

#endif
