/* SPDX-License-Identifier: MIT */
/* The address of a service: parsing, and where plain http is allowed. Pure. */
#ifndef TW_STORE_AZURE_ENDPOINT_H
#define TW_STORE_AZURE_ENDPOINT_H

#include <stdbool.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

/* origin NULL: there is no such service. */
struct endpoint {
    char *origin;  /* "https://host[:port]"                               */
    char *path;    /* "" or "/account" (path style): prefix of every path */
    char *peer;    /* "host port 443", for messages                       */
    bool loopback; /* 127.0.0.0/8, [::1] or localhost: no proxy, and http is
                      allowed */
};

/* The hosts, beside loopback, to which plain http is allowed. */
enum endpoint_http {
    ENDPOINT_HTTP_NONE,  /* none; the error text proposes allow_http, which
                            would allow all */
    ENDPOINT_HTTP_ALL,   /* all hosts */
    ENDPOINT_HTTP_TOKEN, /* none, because an access token, or the secret that is
                            exchanged for one, is sent there */
    ENDPOINT_HTTP_LINK,  /* 169.254.0.0/16: packets to it never leave the
                            machine's link */
};

/*
 * endpoint_read: parse "https://host[:port][/path]"; a trailing '/' is dropped.
 * `what` names the address in messages. TW_INVALID: not such an address, or
 * http where it is not allowed. Call endpoint_done() in any case.
 */
TW_MUST_USE enum tw_err endpoint_read(struct slice url, const char *what,
    enum endpoint_http http, struct endpoint *ret, struct err *err);

/* endpoint_done: frees the texts; does nothing if endpoint is all zero. */
void endpoint_done(struct endpoint *endpoint);

/* endpoint_port: find the start of the port, ':' included, in "host:port" or
 * "[::1]:port"; NULL: no port. */
const char *endpoint_port(const char *authority);

#endif
