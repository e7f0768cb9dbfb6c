/* SPDX-License-Identifier: MIT */
/*
 * azsim-proxy: a proxy between clients and a service on loopback that damages
 * connections, as a seed decides.
 *
 *   azsim-proxy --to PORT [--to PORT ...]
 *
 * Prints "port 40003 for 40001" for each, then "ready". Ends at the end of its
 * standard input. It is controlled by HTTP on any of its ports:
 *
 *   POST /azsim-proxy/control  {"seed":1,"reset_before":100,"slow_ms":200,...}
 *   GET  /azsim-proxy/counts   {"requests":123,"reset_before":12,...}
 *
 * The setting of a fault says how many of 1000 requests meet it. The seed and
 * the number of a request decide which ones do.
 *
 * Each connection has a thread, which handles one request after the other: it
 * reads the whole request, chooses a fault, passes the request on and reads the
 * whole answer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/azsim/frame.h"
#include "tests/support/loopback.h"
#include "worker/base/hash.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define MAX_DOORS 32
#define MESSAGE_MAX_BYTES (64 * 1024 * 1024)
#define SLOW_PIECES 8

enum fault {
    RESET_BEFORE, /* the request does not reach the service */
    RESET_AFTER,  /* the request is carried out, but no byte of the answer is
                     sent */
    HALF,         /* half of the answer, then the connection ends         */
    SLOW,         /* the answer in pieces, in slow_ms in total */
    TWICE,        /* the answer twice */
    GARBAGE,      /* other bytes in place of the answer */
    FAULTS,
    NO_FAULT = FAULTS,
};

static const char *const NAMES[FAULTS] = {
    "reset_before", "reset_after", "half", "slow", "twice", "garbage"};

struct door {
    int listener;
    uint16_t to;
};

struct passage {
    struct door *door;
    struct stream client, service;
    struct buf request, answer;
    char method[16];
    uint64_t drawn; /* random number of the present request */
};

static struct {
    pthread_mutex_t lock; /* guards all members below */
    int64_t seed, slow_ms;
    int64_t shares[FAULTS], counts[FAULTS];
    int64_t requests;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .slow_ms = 500};

static struct door doors[MAX_DOORS];
static unsigned door_count;

/* ---- the choice of a fault ---- */

/* Chooses the fault. Called with the lock held. */
static enum fault choose(uint64_t drawn)
{
    int64_t point = (int64_t)(drawn % 1000);

    for (int fault = 0; fault < FAULTS; fault++) {
        if (point < state.shares[fault])
            return (enum fault)fault;
        point -= state.shares[fault];
    }
    return NO_FAULT;
}

static enum fault next_fault(struct passage *passage)
{
    enum fault fault;

    pthread_mutex_lock(&state.lock);
    state.requests++;
    passage->drawn = hash_mix((uint64_t)state.seed * 0x9e3779b97f4a7c15u +
                              hash_mix((uint64_t)state.requests));
    fault = choose(passage->drawn);
    if (fault < FAULTS)
        state.counts[fault]++;
    pthread_mutex_unlock(&state.lock);
    return fault;
}

/* ---- the console ---- */

static bool set(struct slice name, int64_t value)
{
    int64_t *at = NULL;

    for (int i = 0; i < FAULTS; i++)
        if (slice_is(name, NAMES[i]))
            at = &state.shares[i];
    if (slice_is(name, "seed"))
        at = &state.seed;
    else if (slice_is(name, "slow_ms"))
        at = &state.slow_ms;
    if (at != NULL)
        *at = value;
    return at != NULL;
}

static bool control(struct slice body)
{
    struct json *json;
    bool good;

    if (json_parse(body, 2, &json, NULL) != TW_OK)
        return false;
    good = json_type(json) == JSON_OBJECT;
    pthread_mutex_lock(&state.lock);
    for (size_t i = 0; good && i < json_count(json); i++) {
        int64_t value;

        good = json_int64(json_value(json, i), &value) &&
               set(json_name(json, i), value);
    }
    pthread_mutex_unlock(&state.lock);
    json_free(json);
    return good;
}

static void write_counts(struct buf *to)
{
    pthread_mutex_lock(&state.lock);
    buf_add_format(to, "{\"requests\":%" PRId64, state.requests);
    for (int i = 0; i < FAULTS; i++)
        buf_add_format(to, ",\"%s\":%" PRId64, NAMES[i], state.counts[i]);
    buf_add_text(to, "}");
    pthread_mutex_unlock(&state.lock);
}

/* Answers a request to the console. False: the request is not for the
 * console. */
static bool answer_console(struct passage *passage)
{
    struct slice request = buf_slice(&passage->request);
    const char *body = memmem(request.at, request.len, "\r\n\r\n", 4);
    struct buf text;
    bool good = true;

    buf_init(&text, 4096);
    if (slice_begins(request, slice_of("POST /azsim-proxy/control "))) {
        body += 4;
        good = control(
            (struct slice){body, (size_t)(request.at + request.len - body)});
    } else if (!slice_begins(request, slice_of("GET /azsim-proxy/counts "))) {
        return false;
    }
    write_counts(&text);
    buf_clear(&passage->answer);
    buf_add_format(&passage->answer,
        "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s",
        good ? "200 OK" : "400 Bad Request", text.len, buf_text(&text));
    buf_done(&text);
    return true;
}

/* ---- sockets ---- */

static void close_stream(struct stream *stream)
{
    if (stream->socket >= 0)
        (void)close(stream->socket);
    stream->socket = -1;
    buf_clear(&stream->in);
}

static void reset(struct stream *stream)
{
    loopback_reset(stream->socket);
    close_stream(stream);
}

static void no_delay(int socket)
{
    int yes = 1;

    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

/* Returns whether the connection can be used again, and was not closed by the
 * service. */
static bool is_usable(const struct stream *stream)
{
    struct pollfd look = {.fd = stream->socket, .events = POLLIN};

    return stream->socket >= 0 && poll(&look, 1, 0) == 0;
}

static bool connect_service(struct passage *passage)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
        .sin_addr = {htonl(INADDR_LOOPBACK)},
        .sin_port = htons(passage->door->to)};
    int made;

    if (is_usable(&passage->service))
        return true;
    close_stream(&passage->service);
    made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0)
        return false;
    passage->service.socket = made;
    no_delay(made);
    return connect(made, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool exchange(struct passage *passage)
{
    return connect_service(passage) &&
           loopback_send(
               passage->service.socket, buf_slice(&passage->request)) &&
           frame_read(&passage->service, passage->method, &passage->answer);
}

/* ---- faults ---- */

static void nap_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static bool send_half(struct passage *passage)
{
    struct slice half = buf_slice(&passage->answer);

    half.len /= 2;
    (void)loopback_send(passage->client.socket, half);
    if (passage->drawn & 1 << 20)
        reset(&passage->client);
    return false;
}

static bool send_slowly(struct passage *passage)
{
    struct slice rest = buf_slice(&passage->answer);
    size_t piece = rest.len / SLOW_PIECES + 1;
    int64_t slow_ms;

    pthread_mutex_lock(&state.lock);
    slow_ms = state.slow_ms;
    pthread_mutex_unlock(&state.lock);
    while (rest.len > 0) {
        struct slice next = {rest.at, rest.len < piece ? rest.len : piece};

        nap_ms(slow_ms / SLOW_PIECES);
        if (!loopback_send(passage->client.socket, next))
            return false;
        rest.at += next.len;
        rest.len -= next.len;
    }
    return true;
}

static bool send_twice(struct passage *passage)
{
    struct slice answer = buf_slice(&passage->answer);
    struct buf both;
    bool sent;

    buf_init(&both, 2 * MESSAGE_MAX_BYTES);
    buf_add_slice(&both, answer);
    buf_add_slice(&both, answer);
    sent = loopback_send(passage->client.socket, buf_slice(&both));
    buf_done(&both);
    return sent;
}

/* Sends bytes that are no HTTP, or an answer that did not come from the
 * service. */
static bool send_garbage(struct passage *passage)
{
    char bytes[64];
    struct buf text;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)hash_mix(passage->drawn + i);
    buf_init(&text, 1024);
    if (passage->drawn & 1 << 20)
        buf_add_text(&text, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                            "Content-Length: 64\r\n\r\n");
    buf_add(&text, bytes, sizeof(bytes));
    (void)loopback_send(passage->client.socket, buf_slice(&text));
    buf_done(&text);
    return false;
}

static bool send_answer(struct passage *passage)
{
    return loopback_send(passage->client.socket, buf_slice(&passage->answer));
}

static bool send_nothing(struct passage *passage)
{
    reset(&passage->client);
    return false;
}

/* Each function sends to the client what one fault makes of the answer. False:
 * the connection must be closed. */
static bool (*const ANSWERS[])(struct passage *passage) = {
    [RESET_BEFORE] = send_nothing,
    [RESET_AFTER] = send_nothing,
    [HALF] = send_half,
    [SLOW] = send_slowly,
    [TWICE] = send_twice,
    [GARBAGE] = send_garbage,
    [NO_FAULT] = send_answer,
};

/* ---- connections ---- */

static bool take_through(struct passage *passage)
{
    const char *blank;
    enum fault fault;

    if (!frame_read(&passage->client, NULL, &passage->request))
        return false;
    if (answer_console(passage))
        return send_answer(passage);
    blank = memchr(passage->request.at, ' ', passage->request.len);
    (void)snprintf(passage->method, sizeof(passage->method), "%.*s",
        blank ? (int)(blank - passage->request.at) : 0, passage->request.at);
    fault = next_fault(passage);
    if (fault != RESET_BEFORE && !exchange(passage))
        return false;
    return ANSWERS[fault](passage);
}

static void *pass(void *arg)
{
    struct passage *passage = arg;

    while (take_through(passage))
        ;
    close_stream(&passage->client);
    close_stream(&passage->service);
    buf_done(&passage->client.in);
    buf_done(&passage->service.in);
    buf_done(&passage->request);
    buf_done(&passage->answer);
    mem_free(passage);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct door *door = arg;

    for (;;) {
        int client = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);
        struct passage *passage;
        pthread_t thread;

        if (client < 0 && errno == EINTR)
            continue;
        if (client < 0)
            return NULL;
        no_delay(client);
        passage = mem_alloc(sizeof(*passage));
        passage->door = door;
        passage->client.socket = client;
        passage->service.socket = -1;
        buf_init(&passage->client.in, MESSAGE_MAX_BYTES);
        buf_init(&passage->service.in, MESSAGE_MAX_BYTES);
        buf_init(&passage->request, MESSAGE_MAX_BYTES);
        buf_init(&passage->answer, MESSAGE_MAX_BYTES);
        if (pthread_create(&thread, NULL, pass, passage) != 0)
            abort();
        (void)pthread_detach(thread);
    }
}

static void read_options(int count, char **words)
{
    int64_t port;

    for (int i = 1; i + 1 < count && strcmp(words[i], "--to") == 0; i += 2)
        if (door_count < MAX_DOORS &&
            text_int64(slice_of(words[i + 1]), 1, 65535, &port))
            doors[door_count++].to = (uint16_t)port;
    if (door_count == 0 || count != 1 + 2 * (int)door_count) {
        (void)fprintf(stderr, "usage: azsim-proxy --to PORT [--to PORT ...]\n");
        exit(64);
    }
}

int main(int count, char **words)
{
    char byte;

    read_options(count, words);
    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < door_count; i++) {
        pthread_t thread;
        uint16_t port;

        doors[i].listener = loopback_listen(&port);
        (void)printf("port %u for %u\n", port, doors[i].to);
        if (pthread_create(&thread, NULL, accept_all, &doors[i]) != 0)
            abort();
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}
