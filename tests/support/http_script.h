/* SPDX-License-Identifier: MIT */
/*
 * A server on a free port of 127.0.0.1 that follows a script: the first step
 * says what it does with the first request, the second step with the second
 * request, and so on. It serves one connection after the other, and keeps the
 * requests that it received.
 */
#ifndef TW_TESTS_HTTP_SCRIPT_H
#define TW_TESTS_HTTP_SCRIPT_H

#include <stddef.h>

enum script_act {
    SCRIPT_ANSWER, /* send text, keep the connection                    */
    SCRIPT_LAST,   /* send text (NULL: nothing), then close the connection */
    SCRIPT_RESET,  /* send text (NULL: nothing), then reset the connection */
    SCRIPT_SILENT, /* send nothing until the client closes the connection */
};

struct script_step {
    enum script_act act;
    const char *text;
    size_t text_len; /* number of bytes of text to send; 0: all of it */
};

struct http_script; /* a running server */

/* http_script_start: starts a server. After the last step it closes the
 * connection of each further request. steps are borrowed. Owned:
 * http_script_end() ends it, http_script_free() releases it. */
struct http_script *http_script_start(
    const struct script_step *steps, size_t count);

int http_script_port(const struct http_script *script);

/* http_script_end: waits until every connection is closed, and stops the
 * server. What it received can be read afterwards. */
void http_script_end(struct http_script *script);

/* http_script_requests, http_script_connections: return how many requests and
 * connections the server received. */
size_t http_script_requests(const struct http_script *script);
size_t http_script_connections(const struct http_script *script);

/* http_script_request: returns the index-th request, head and body. */
const char *http_script_request(const struct http_script *script, size_t index);

void http_script_free(struct http_script *script);

#endif
