/* SPDX-License-Identifier: MIT */
/*
 * One HTTP request and its answer: truly one attempt, without an opinion about
 * what the answer means (answer.h). Only user of libcurl.
 */
#ifndef TW_STORE_AZURE_HTTP_H
#define TW_STORE_AZURE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct deadline;
struct http_answer;

struct http_header {
    const char *name, *value; /* no line ends in either */
};

/* All borrowed for the time of the call. */
struct http_request {
    const char *method; /* "GET" has no body; every other one has, if empty */
    const char *url;    /* as it is sent. May hold a SAS: never shown        */
    const char *peer;   /* "host port 443": for messages                     */
    bool no_proxy;
    const struct http_header *headers;
    size_t header_count;
    const struct http_header *echo; /* one of headers, or NULL: see below    */
    struct slice body;
    size_t max_answer_bytes;
    /* Asked about once a second until the whole answer has come; comes: 16 KiB
     * of it have, since the last time. True: the request is given up. NULL: it
     * never is. */
    bool (*gives_up)(void *context, bool comes);
    void *context;
    /* Called when the head of the answer is whole and its body has not come.
     * NULL: nobody waits for that. */
    void (*head)(void *context, const struct http_answer *head);
    void *head_context;
};

#define HTTP_MAX_FIELDS 64
#define HTTP_MAX_FIELD_BYTES (64 * 1024) /* of all fields together */

struct http_field {
    struct slice name, value;
};

/* http_answer_init before first use, http_answer_done frees; an answer can be
 * filled again. */
struct http_answer {
    int status;
    struct arena arena; /* the fields live here */
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t field_count;
    struct buf body;
    int64_t sent_ms; /* platform_boot_ms() when the request left; 0: never */
};
void http_answer_init(struct http_answer *answer);
void http_answer_done(struct http_answer *answer);

/* http_answer_add: a header field as it came; beyond HTTP_MAX_FIELDS they are
 * dropped. Copied. */
void http_answer_add(
    struct http_answer *answer, struct slice name, struct slice value);

/*
 * http_answer_line: one line of an answer's head as it came, its end included.
 * A status line begins another answer (100 Continue came before): the fields
 * so far are given up. What is no field, or holds a NUL, is passed over.
 */
void http_answer_line(struct http_answer *answer, struct slice line);

/* http_answer_field: the value of the field of that name, in any case; empty
 * where there is none. */
struct slice http_answer_field(
    const struct http_answer *answer, const char *name);

struct http; /* a set of connections that are kept alive */

/* http_new: owned, for http_free(); no call may be under way then. */
struct http *http_new(void);
void http_free(struct http *http);

/*
 * http_send: send request once, within deadline_timeout_ms(deadline), also
 * where no address is found in that time; where the process is to end, within
 * stop_until_ms() and the second until that is seen. May be called
 * from several threads. The deadline is asked in the last moment before bytes
 * leave. sent_ms of the answer is set on every return. Trailers behind a body
 * are passed over.
 *
 * An answer in which the field of echo's name has another value than echo was
 * meant for another request, that came before over the same connection: it is
 * none, and the connection is closed. Nor is one whose fields cannot all be
 * kept: more than HTTP_MAX_FIELDS or HTTP_MAX_FIELD_BYTES, or folded lines; nor
 * one that says its length twice.
 *
 * TW_OK         a whole answer is there, whatever its status.
 * TW_BUSY       nothing was sent: no address, no connection, no TLS, or it was
 *               given up before.
 * TW_STOPPED    nothing was sent: the deadline was shut.
 * TW_UNKNOWN    it may have been sent, and no whole answer came.
 * TW_TOO_LARGE  the answer is larger than max_answer_bytes.
 */
TW_MUST_USE enum tw_err http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err);

#endif
