/* SPDX-License-Identifier: MIT */
/* Scripts of a Table service. */
#include "tests/faults/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/http_script.h"

#define HEAD(status)                                                           \
    "HTTP/1.1 " status "\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"           \
    "Connection: close\r\nx-ms-request-id: r\r\n"                              \
    "x-ms-version: 2019-02-02\r\n"

#define PAGE(entities)                                                         \
    "Content-Type: application/json\r\n\r\n{\"value\":[" entities "]}"

#define ENTITY(key)                                                            \
    "{\"odata.etag\":\"W/\\\"1\\\"\",\"PartitionKey\":\"Football\","           \
    "\"RowKey\":\"" key "\",\"Text\":\"\\u20ac\",\"N@odata.type\":"            \
    "\"Edm.Int64\",\"N\":\"7\"}"

#define CREATED                                                                \
    "--c\r\nContent-Type: application/http\r\n\r\n"                            \
    "HTTP/1.1 204 No Content\r\nETag: W/\"1\"\r\n\r\n\r\n"

static const struct script_step PAGES[] = {
    {SCRIPT_LAST,
        HEAD("200 OK") "x-ms-continuation-NextPartitionKey: 1!8!Rm9vdA--\r\n"
                       "x-ms-continuation-NextRowKey: 1!4!Mw--\r\n" PAGE(
                           ENTITY("1") "," ENTITY("2")),
        0},
    {SCRIPT_LAST, HEAD("200 OK") PAGE(ENTITY("3")), 0},
};

static const struct script_step BATCH[] = {
    {SCRIPT_LAST,
        HEAD("404 Not Found") "x-ms-error-code: TableNotFound\r\n"
                              "Content-Length: 0\r\n\r\n",
        0},
    {SCRIPT_LAST, HEAD("204 No Content") "\r\n", 0},
    {SCRIPT_LAST,
        HEAD("202 Accepted") "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
                             "--b\r\nContent-Type: multipart/mixed; "
                             "boundary=c\r\n\r\n" CREATED CREATED CREATED
                             "--c--\r\n--b--\r\n",
        0},
};

struct http_script *fault_service_start(const char *script)
{
    struct http_script *service;
    char text[256];

    if (!script)
        return NULL;
    service = strcmp(script, "pages") == 0
                  ? http_script_start(PAGES, sizeof(PAGES) / sizeof(PAGES[0]))
                  : http_script_start(BATCH, sizeof(BATCH) / sizeof(BATCH[0]));
    (void)snprintf(text, sizeof text,
        "AccountName=acct;AccountKey=c2VjcmV0LWtleS1ieXRlcw==;"
        "TableEndpoint=http://127.0.0.1:%05d/acct;"
        "QueueEndpoint=http://127.0.0.1:%05d/acct",
        http_script_port(service), http_script_port(service));
    if (setenv("FAULTS_AZURE", text, 1) != 0)
        abort();
    return service;
}

void fault_service_stop(struct http_script *service)
{
    if (!service)
        return;
    http_script_end(service);
    http_script_free(service);
}
