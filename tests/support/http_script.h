/* SPDX-License-Identifier: MIT */
/*
 * A server of one script on a free port of 127.0.0.1: what it does with the
 * first request, with the second, and so on. It serves one connection after
 * the other, and keeps what it was sent.
 */
#ifndef TW_TESTS_HTTP_SCRIPT_H
#define TW_TESTS_HTTP_SCRIPT_H

#include <stddef.h>

enum script_act {
    SCRIPT_ANSWER, /* send text, keep the connection                    */
    SCRIPT_LAST,   /* send text (NULL: nothing), then close in order    */
    SCRIPT_RESET,  /* send text (NULL: nothing), then reset             */
    SCRIPT_SILENT, /* send nothing until the other side closes          */
};

struct script_step {
    enum script_act act;
    const char *text;
    size_t text_len; /* 0: all of text; else so many bytes of it        */
};

struct http_script; /* one running server */

/* http_script_start: beyond the last step it closes every connection. steps
 * are borrowed. Owned, for http_script_stop(). */
struct http_script *http_script_start(
    const struct script_step *steps, size_t count);

int http_script_port(const struct http_script *script);

/* http_script_end: wait until every connection is closed, and stop. What it
 * saw can be asked afterwards. */
void http_script_end(struct http_script *script);

/* http_script_requests, http_script_connections: how many came. */
size_t http_script_requests(const struct http_script *script);
size_t http_script_connections(const struct http_script *script);

/* http_script_request: the index-th request, head and body. */
const char *http_script_request(const struct http_script *script, size_t index);

void http_script_free(struct http_script *script);

#endif
