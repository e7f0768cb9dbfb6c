/* SPDX-License-Identifier: MIT */
/* A thread for each connection, which reads a request and sends the answer. */
#include "tests/hostile/server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/loopback.h"

#define HEAD_MAX 65536
#define SIGNATURES_MAX 256
#define PIECE_MAX 65536

static struct {
    int listener;
    const struct answer *answers;
    size_t count;
    pthread_mutex_t mutex; /* guards all members below */
    unsigned served[8];
    char signatures[SIGNATURES_MAX][64];
    size_t signature_count;
} server = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct connection {
    int socket;
    char head[HEAD_MAX];
    size_t len; /* number of bytes read of the next request */
    char authorization[512];
};

static const char page[] =
    "HTTP/1.1 200 OK\r\nx-ms-version: 2019-02-02\r\nContent-Length: 12\r\n\r\n"
    "{\"value\":[]}";

/* Copies text to `to` with $AUTH replaced. Returns its length. */
static size_t fill_in(
    const struct connection *connection, const char *text, char *to)
{
    const char *at = text != NULL ? strstr(text, "$AUTH") : NULL;

    if (at == NULL)
        return (size_t)snprintf(to, PIECE_MAX, "%s", text != NULL ? text : "");
    return (size_t)snprintf(to, PIECE_MAX, "%.*s%s%s", (int)(at - text), text,
        connection->authorization, at + strlen("$AUTH"));
}

static size_t send_repeated(int to, const char *unit, size_t count)
{
    static const size_t room = PIECE_MAX;
    size_t len = unit != NULL ? strlen(unit) : 0, each;
    char *many;

    if (len == 0 || count == 0)
        return 0;
    each = room / len > 0 ? room / len : 1;
    many = malloc(each * len);
    for (size_t i = 0; i < each; i++)
        memcpy(many + i * len, unit, len);
    for (size_t left = count; left > 0;) {
        size_t now = left < each ? left : each;

        if (!loopback_send(to, (struct slice){many, now * len}))
            break;
        left -= now;
    }
    free(many);
    return count * len;
}

static void send_answer(
    struct connection *connection, const struct answer *answer)
{
    const struct piece *body = &answer->body;
    char *text = malloc(PIECE_MAX), frame[96] = "";
    size_t before, after, len;

    after = fill_in(connection, body->after, text);
    before = fill_in(connection, body->before, text);
    len = before + after +
          (body->unit != NULL ? body->count * strlen(body->unit) : 0);
    if (answer->head != NULL) {
        if (!answer->unframed)
            snprintf(frame, sizeof(frame), "Content-Length: %zu\r\n\r\n", len);
        loopback_send(connection->socket,
            (struct slice){text, fill_in(connection, answer->head, text)});
        loopback_send(connection->socket, slice_of(frame));
    }
    loopback_send(connection->socket,
        (struct slice){text, fill_in(connection, body->before, text)});
    send_repeated(connection->socket, body->unit, body->count);
    loopback_send(connection->socket,
        (struct slice){text, fill_in(connection, body->after, text)});
    free(text);
}

static void wait_for_close(int socket)
{
    char byte[512];

    while (recv(socket, byte, sizeof(byte), 0) > 0)
        continue;
}

/* Ends an answer. False: the connection must be closed. */
static bool end_answer(struct connection *connection, enum ending ending)
{
    switch (ending) {
    case END_KEEP:
        return true;
    case END_CLOSE:
        return false;
    case END_RESET:
        loopback_reset(connection->socket);
        return false;
    case END_SILENT:
        wait_for_close(connection->socket);
        return false;
    case END_DRIP:
        while (loopback_send(connection->socket, slice_of(" ")))
            sleep(1);
        return false;
    }
    return false;
}

/* Returns the answer to a request, and counts it; NULL: none fits. */
static const struct answer *choose(const char *head)
{
    const struct answer *found = NULL;

    pthread_mutex_lock(&server.mutex);
    for (size_t i = 0; i < server.count && found == NULL; i++) {
        const struct answer *answer = &server.answers[i];

        if ((answer->head == NULL && answer->body.before == NULL &&
                answer->ending == END_KEEP) ||
            (answer->match != NULL && strstr(head, answer->match) == NULL) ||
            (answer->times > 0 && server.served[i] >= answer->times))
            continue;
        server.served[i]++;
        found = answer;
    }
    pthread_mutex_unlock(&server.mutex);
    return found;
}

static void keep_authorization(struct connection *connection)
{
    const char *at = strcasestr(connection->head, "\r\nAuthorization: ");
    const char *colon;

    connection->authorization[0] = '\0';
    if (at == NULL)
        return;
    at += strlen("\r\nAuthorization: ");
    snprintf(connection->authorization, sizeof(connection->authorization),
        "%.*s", (int)strcspn(at, "\r"), at);
    colon = strchr(connection->authorization, ':');
    pthread_mutex_lock(&server.mutex);
    if (colon != NULL && server.signature_count < SIGNATURES_MAX)
        snprintf(
            server.signatures[server.signature_count++], 64, "%s", colon + 1);
    pthread_mutex_unlock(&server.mutex);
}

bool server_has_signature(const char *text)
{
    bool found = false;

    pthread_mutex_lock(&server.mutex);
    for (size_t i = 0; i < server.signature_count && !found; i++) {
        server.signatures[i][20] = '\0'; /* a part must not be shown either */
        found = strstr(text, server.signatures[i]) != NULL;
    }
    pthread_mutex_unlock(&server.mutex);
    return found;
}

/* Reads a request: its head into connection->head; its body is dropped. False:
 * the client has closed the connection. */
static bool read_request(struct connection *connection)
{
    size_t left = 0;
    char *end, *length, byte[4096];

    connection->len = 0;
    do {
        ssize_t got =
            recv(connection->socket, connection->head + connection->len,
                HEAD_MAX - 1 - connection->len, 0);

        if (got <= 0)
            return false;
        connection->len += (size_t)got;
        connection->head[connection->len] = '\0';
        end = strstr(connection->head, "\r\n\r\n");
    } while (end == NULL);
    length = strcasestr(connection->head, "\r\nContent-Length:");
    if (length != NULL && length < end)
        left = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    end += 4;
    left -= connection->len - (size_t)(end - connection->head);
    end[0] = '\0';
    while (left > 0) {
        ssize_t got = recv(connection->socket, byte,
            left < sizeof(byte) ? left : sizeof(byte), 0);

        if (got <= 0)
            return false;
        left -= (size_t)got;
    }
    return true;
}

static void *serve(void *arg)
{
    struct connection *connection = arg;
    bool more = true;

    while (more && read_request(connection)) {
        const struct answer *answer;

        keep_authorization(connection);
        answer = choose(connection->head);
        if (answer == NULL) {
            more = loopback_send(connection->socket, slice_of(page));
            continue;
        }
        send_answer(connection, answer);
        more = end_answer(connection, answer->ending);
    }
    close(connection->socket);
    free(connection);
    return NULL;
}

static void *listen_for_ever(void *arg)
{
    int socket;

    while ((socket = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct connection *connection = calloc(1, sizeof(*connection));
        pthread_t thread;

        connection->socket = socket;
        pthread_create(&thread, NULL, serve, connection);
        pthread_detach(thread);
    }
    return NULL;
}

int server_start(const struct answer *answers, size_t count)
{
    uint16_t port;
    pthread_t thread;

    server.answers = answers;
    server.count = count;
    server.listener = loopback_listen(&port);
    pthread_create(&thread, NULL, listen_for_ever, NULL);
    pthread_detach(thread);
    return port;
}
