/* SPDX-License-Identifier: MIT */
/*
 * Makes exactly one exchange, an HTTP request and its response. The response is
 * interpreted by answer.h. Only http.c uses libcurl.
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
    const char *name, *value; /* without line ends */
};

/* All borrowed during the call. */
struct http_request {
    const char
        *method;     /* every method but "GET" has a body, which may be empty */
    const char *url; /* URL as sent. The URL may hold a SAS: never log it */
    const char *peer; /* "host port 443": for messages                     */
    bool no_proxy;
    const struct http_header *headers;
    size_t header_count;
    const struct http_header
        *echo; /* one of headers, or NULL: see http_send() */
    struct slice body;
    size_t max_answer_bytes;
    /* http_send() calls gives_up about once a second until the whole response
     * has come; comes: at least 16 KiB of the response have arrived since the
     * last call. If gives_up returns true, the request is given up. NULL: it is
     * never given up. */
    bool (*gives_up)(void *context, bool comes);
    void *context;
    /* Called when the head of the response is complete, before its body has
     * arrived. NULL: not needed. */
    void (*head)(void *context, const struct http_answer *head);
    void *head_context;
};

#define HTTP_MAX_FIELDS 64
#define HTTP_MAX_FIELD_BYTES (64 * 1024) /* size of all fields together */

struct http_field {
    struct slice name, value;
};

/* Call http_answer_init before first use; http_answer_done frees. A response
 * can be filled again. */
struct http_answer {
    int status;
    struct arena arena; /* memory of the fields */
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t field_count;
    struct buf body;
    int64_t sent_ms; /* platform_boot_ms() at sending; 0: not sent */
};
void http_answer_init(struct http_answer *answer);
void http_answer_done(struct http_answer *answer);

/* http_answer_add: add a received header field; fields beyond HTTP_MAX_FIELDS
 * are dropped. name and value are copied. */
void http_answer_add(
    struct http_answer *answer, struct slice name, struct slice value);

/*
 * http_answer_line: add one received line of a response's head, line end
 * included. A status line starts a new response (after a 100 Continue), so
 * earlier fields are discarded. A line that is not a field, or holds a NUL, is
 * ignored.
 */
void http_answer_line(struct http_answer *answer, struct slice line);

/* http_answer_field: return the value of the field with that name, whose case
 * is ignored; empty if there is none. */
struct slice http_answer_field(
    const struct http_answer *answer, const char *name);

struct http; /* a set of connections that are kept alive */

/* http_new: make a set without connections. The caller owns the result, and
 * calls http_free() when no call is in flight. */
struct http *http_new(void);
void http_free(struct http *http);

/*
 * http_send: send request once, within deadline_timeout_ms(deadline), including
 * name resolution. If the process ends meanwhile, the request is given up at
 * stop_until_ms(), which is compared with the clock once a second. Any thread
 * may call http_send(). The deadline is checked just before bytes are sent.
 * sent_ms of the response is set on every return. Trailers after a body are
 * ignored.
 *
 * If the response has a field with the name of `echo` but another value, the
 * response belongs to an earlier request on the same connection: it is invalid,
 * and the connection is closed. Also invalid are responses whose fields cannot
 * all be kept (more than HTTP_MAX_FIELDS or HTTP_MAX_FIELD_BYTES, or folded
 * lines), and those that state their length twice.
 *
 * TW_OK         a complete response has come, with any status.
 * TW_BUSY       nothing was sent: no address, no connection, no TLS, or the
 *               request was given up before it was sent.
 * TW_STOPPED    nothing was sent: the deadline was closed, or stop_until_ms()
 *               had passed.
 * TW_UNKNOWN    the request may have been sent; no complete response came.
 * TW_TOO_LARGE  the response is larger than max_answer_bytes.
 */
TW_MUST_USE enum tw_err http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err);

#endif
