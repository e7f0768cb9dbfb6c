/* SPDX-License-Identifier: MIT */
/* One thread accepts a connection, reads a request, does what the script says,
 * and repeats this. */
#include "tests/support/http_script.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/loopback.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"

#define REQUEST_MAX_BYTES (8 * 1024 * 1024)
#define REQUESTS_MAX 1024

struct http_script {
    const struct script_step *steps;
    size_t step_count;
    int listener;
    uint16_t port;
    struct platform_thread thread;
    /* What it received: only the thread may use this until it is joined. */
    size_t connections, request_count;
    char *requests[REQUESTS_MAX];
};

static void must(int done)
{
    if (!done)
        abort();
}

/* Returns the length of the request at the start of text; 0: the request is not
 * complete yet. */
static size_t request_bytes(const char *text, size_t len)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4);
    const char *length;
    size_t head, body = 0;

    if (end == NULL)
        return 0;
    head = (size_t)(end + 4 - text);
    length = strcasestr(text, "\r\nContent-Length:");
    if (length != NULL && length < end)
        body = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    return len >= head + body ? head + body : 0;
}

/* Reads a request. False: the client closed the connection first. */
static int read_request(struct http_script *script, int connection)
{
    struct buf buf;
    char piece[65536];
    ssize_t got = 1;

    buf_init(&buf, REQUEST_MAX_BYTES);
    while (got > 0 && request_bytes(buf_text(&buf), buf.len) == 0) {
        got = recv(connection, piece, sizeof(piece), 0);
        if (got > 0)
            buf_add(&buf, piece, (size_t)got);
    }
    if (got > 0 && script->request_count < REQUESTS_MAX)
        script->requests[script->request_count++] = buf_take(&buf);
    buf_done(&buf);
    return got > 0;
}

static void wait_for_close(int connection)
{
    char piece[4096];

    while (recv(connection, piece, sizeof(piece), 0) > 0)
        continue;
}

/* Does the step of the last request. False: the connection must be closed. */
static int act(const struct http_script *script, int connection)
{
    static const struct script_step close_it = {.act = SCRIPT_LAST};
    size_t index = script->request_count - 1;
    const struct script_step *step =
        index < script->step_count ? &script->steps[index] : &close_it;
    size_t len = step->text != NULL ? strlen(step->text) : 0;

    if (step->text_len > 0)
        len = step->text_len;
    (void)loopback_send(connection, (struct slice){step->text, len});
    if (step->act == SCRIPT_RESET)
        loopback_reset(connection);
    if (step->act == SCRIPT_SILENT)
        wait_for_close(connection);
    return step->act == SCRIPT_ANSWER;
}

static void serve(void *arg)
{
    struct http_script *script = arg;
    int connection;

    while ((connection = accept(script->listener, NULL, NULL)) >= 0) {
        script->connections++;
        while (read_request(script, connection) && act(script, connection))
            continue;
        close(connection);
    }
}

struct http_script *http_script_start(
    const struct script_step *steps, size_t count)
{
    struct http_script *script = mem_alloc(sizeof(*script));

    script->steps = steps;
    script->step_count = count;
    script->listener = loopback_listen(&script->port);
    platform_start(&script->thread, "script", serve, script);
    return script;
}

int http_script_port(const struct http_script *script)
{
    return script->port;
}

void http_script_end(struct http_script *script)
{
    shutdown(script->listener, SHUT_RDWR);
    platform_join(&script->thread);
    close(script->listener);
}

size_t http_script_requests(const struct http_script *script)
{
    return script->request_count;
}

size_t http_script_connections(const struct http_script *script)
{
    return script->connections;
}

const char *http_script_request(const struct http_script *script, size_t index)
{
    must(index < script->request_count);
    return script->requests[index];
}

void http_script_free(struct http_script *script)
{
    for (size_t i = 0; i < script->request_count; i++)
        mem_free(script->requests[i]);
    mem_free(script);
}
