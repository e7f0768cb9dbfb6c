/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server of `worker.listen`: metrics, health, dashboard. The server's
 * one thread calls the handler of each request, which fills the response. A
 * handler must be quick and wait for nothing, because all other requests wait
 * for it.
 */
#ifndef TW_MONITOR_SERVER_H
#define TW_MONITOR_SERVER_H

#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

/* A request: borrowed for the call. The body is at most 64 KiB; a longer one
 * is refused before any handler is called. */
struct http_request {
    const char *method; /* "GET", "HEAD" (handled like GET; the body is not
                           sent), "POST" */
    const char *path;   /* path of the URL, without the query, percent-
                           decoded */
    struct slice body;
    void *connection; /* connection of the library, for the two functions
                         below */
};

/* http_request_header: return the value of the header `name`.
 * http_request_query: return the value of the query argument `name`, decoded.
 * Both return NULL if it is absent. */
const char *http_request_header(
    const struct http_request *request, const char *name);
const char *http_request_query(
    const struct http_request *request, const char *name);

struct http_response {
    unsigned status;          /* 200 unless the handler changes it */
    const char *content_type; /* static; NULL: text/plain; charset=utf-8 */
    struct buf body;          /* initialised; the handler adds to it */
};

struct http_route {
    const char *method; /* GET also answers HEAD */
    const char *path;   /* the whole path of the URLs */
    void (*handle)(void *context, const struct http_request *request,
        struct http_response *response);
    void *context; /* borrowed */
};

struct http_server;

/* http_server_start: listen on address, such as "127.0.0.1:9464" or
 * "[::1]:9464" (port 0: any free port), and serve the `count` routes. The
 * routes are copied; their contexts are borrowed until http_server_stop().
 * TW_REFUSED: the address cannot be listened on now. TW_INVALID: the address is
 * wrong.
 *
 * Every response has headers for security: nothing is cached, no type is
 * guessed, the page can load only its own files, and no Referer is sent.
 *
 * http_server_port: return the port on which the server listens. */
enum tw_err http_server_start(const char *address,
    const struct http_route *routes, size_t count, struct http_server **ret,
    struct err *err);
unsigned http_server_port(const struct http_server *server);
/* http_server_stop: end the server. Does nothing if given NULL. */
void http_server_stop(struct http_server *server);

#endif
