/* SPDX-License-Identifier: MIT */
/*
 * HTTP requests for handlers that are called without a server: this file
 * defines http_request_header() and http_request_query(), so that the linker
 * leaves worker/monitor/server.c out. A test includes it once.
 */
#ifndef TW_TESTS_SUPPORT_FAKE_REQUEST_H
#define TW_TESTS_SUPPORT_FAKE_REQUEST_H

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "worker/monitor/server.h"

#define FAKE_FIELDS 8

struct fake_field {
    const char *name, *value; /* value NULL: absent */
};

struct fake_request {
    struct fake_field headers[FAKE_FIELDS], query[FAKE_FIELDS];
};

static const char *fake_find(const struct fake_field *fields, const char *name)
{
    for (size_t i = 0; i < FAKE_FIELDS && fields[i].name; i++)
        if (strcasecmp(fields[i].name, name) == 0)
            return fields[i].value;
    return NULL;
}

const char *http_request_header(
    const struct http_request *request, const char *name)
{
    const struct fake_request *fake = request->connection;

    return fake_find(fake->headers, name);
}

const char *http_request_query(
    const struct http_request *request, const char *name)
{
    const struct fake_request *fake = request->connection;

    return fake_find(fake->query, name);
}

/* fake_header: adds or changes a header; value NULL: removes it. */
static void fake_header(
    struct fake_request *fake, const char *name, const char *value)
{
    for (size_t i = 0; i < FAKE_FIELDS; i++)
        if (!fake->headers[i].name ||
            strcasecmp(fake->headers[i].name, name) == 0) {
            fake->headers[i] = (struct fake_field){name, value};
            return;
        }
}

#define FAKE_TOKEN "0123456789abcdef-of-a-test"

/* A request as the dashboard's page sends it, with the token. */
static const struct fake_request fake_good = {
    .headers = {{"Host", "localhost:9464"},
        {"Content-Type", "application/json"}, {"X-Tableward", "1"},
        {"Authorization", "Bearer " FAKE_TOKEN},
        {"Origin", "http://localhost:9464"}},
};

#endif
