/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server of `worker.listen`. The only module that calls libmicrohttpd.
 *
 * One thread does everything: it waits for the library's epoll descriptor or
 * for the event that stops it, lets the library do what is due, and then closes
 * the connections that take too long. The library's own timeout ends only
 * connections on which nothing is sent; a client that sends one byte every few
 * seconds would keep its connection for hours.
 *
 * All memory is bounded: CONNECTIONS_MAX connections, each with a fixed pool
 * for its request's head and one body of at most BODY_MAX bytes. Further
 * connections wait in the kernel's backlog.
 */
#include "worker/monitor/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/base/address.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"

#define BODY_MAX ((size_t)64 * 1024)
/* Maximum size of a response; the metrics of hundreds of stores fit into it. */
#define RESPONSE_MAX ((size_t)16 * 1024 * 1024)
#define CONNECTIONS_MAX 64
#define CONNECTION_BYTES ((size_t)16 * 1024)
#define BACKLOG 256
/* A connection on which nothing is sent or received is closed after this time.
 */
#define IDLE_S 10u
/* A connection is closed if a request is not read and answered within
 * REQUEST_MAX_MS. While CROWDED connections or more are open, the limit is
 * CROWDED_MAX_MS, so that clients that only hold connections do not keep a
 * health probe waiting. */
#define REQUEST_MAX_MS 20000
#define CROWDED_MAX_MS 1000
#define CROWDED (CONNECTIONS_MAX * 3 / 4)
/* How often open connections are checked for requests that take too long. */
#define LOOK_MS 1000

struct connection {
    int fd;
    bool used;
    int64_t since_ms; /* when the connection began, or its last request ended */
    bool closed; /* the connection took too long and was shut down; the library
                    closes it */
};

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_route *routes;
    size_t count;
    bool loopback;
    unsigned port;
    int stop_fd; /* an eventfd: http_server_stop() makes it readable */
    _Atomic bool stopping;
    struct platform_thread thread;
    struct connection connections[CONNECTIONS_MAX]; /* used by the server's
                                                       thread only */
};

/* A request while it is read. */
struct reading {
    struct buf body;
    bool too_large;
};

static const char *const security_headers[][2] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};
#define SECURITY_HEADERS                                                       \
    (sizeof(security_headers) / sizeof(security_headers[0]))

/* ---- what handlers may ask ---- */

const char *http_request_header(
    const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(
        request->connection, MHD_HEADER_KIND, name);
}

const char *http_request_query(
    const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(
        request->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* ---- responses ---- */

static enum MHD_Result send_response(struct MHD_Connection *connection,
    const struct http_response *from, const char *allow)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        from->body.len, from->body.at, MHD_RESPMEM_MUST_COPY);
    const char *type =
        from->content_type ? from->content_type : "text/plain; charset=utf-8";
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < SECURITY_HEADERS; i++)
        (void)MHD_add_response_header(
            response, security_headers[i][0], security_headers[i][1]);
    if (allow)
        (void)MHD_add_response_header(response, "Allow", allow);
    result = MHD_queue_response(connection, from->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_sentence(struct MHD_Connection *connection,
    unsigned status, const char *allow, const char *sentence)
{
    struct http_response response = {.status = status};
    enum MHD_Result result;

    buf_init(&response.body, 1024);
    buf_add_text(&response.body, sentence);
    buf_add_char(&response.body, '\n');
    result = send_response(connection, &response, allow);
    buf_done(&response.body);
    return result;
}

/* ---- which handler ---- */

/* Is the method that of the route? A GET route answers HEAD as well. */
static bool has_method(const struct http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* Adds the methods of the path's routes. */
static void add_allowed(
    const struct http_server *server, const char *path, struct buf *to)
{
    for (size_t i = 0; i < server->count; i++) {
        const struct http_route *route = &server->routes[i];

        if (strcmp(route->path, path) != 0)
            continue;
        buf_add_text(to, to->len > 0 ? ", " : "");
        buf_add_text(to,
            strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method);
    }
}

static enum MHD_Result send_no_route(const struct http_server *server,
    struct MHD_Connection *connection, const char *path)
{
    struct buf allowed;
    enum MHD_Result result;

    buf_init(&allowed, 256);
    add_allowed(server, path, &allowed);
    if (allowed.len > 0)
        result = send_sentence(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
            buf_text(&allowed), "this path does not support that method");
    else
        result = send_sentence(
            connection, MHD_HTTP_NOT_FOUND, NULL, "this path does not exist");
    buf_done(&allowed);
    return result;
}

static enum MHD_Result call_handler(const struct http_route *route,
    const struct http_request *request, struct MHD_Connection *connection)
{
    struct http_response response = {.status = MHD_HTTP_OK};
    enum MHD_Result result;

    buf_init(&response.body, RESPONSE_MAX);
    route->handle(route->context, request, &response);
    if (response.body.overflow)
        result = send_sentence(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
            "the response would be larger than this server allows");
    else
        result = send_response(connection, &response, NULL);
    buf_done(&response.body);
    return result;
}

/* May the name be an IP address? Only its characters are checked. */
static bool is_ip_address(const char *name, size_t len)
{
    if (name[0] == '[')
        return true;
    return strspn(name, "0123456789.") == len;
}

/*
 * May this server be asked under the name in the request's Host? The owner of
 * a web site can let a name of the site resolve to 127.0.0.1 (DNS rebinding).
 * Then a page of the site can make a browser send requests to this server
 * under that name, and read the responses. So on a loopback address only
 * requests to an IP address or to localhost are served.
 */
static bool is_for_us(
    const struct http_server *server, struct MHD_Connection *connection)
{
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    size_t len;

    if (!server->loopback || !host)
        return true;
    len = host[0] == '[' ? strlen(host) : strcspn(host, ":");
    return is_ip_address(host, len) ||
           (len == strlen("localhost") &&
               strncasecmp(host, "localhost", len) == 0);
}

static enum MHD_Result answer(const struct http_server *server,
    struct MHD_Connection *connection, const char *method, const char *path,
    const struct reading *reading)
{
    struct http_request request = {.method = method,
        .path = path,
        .body = buf_slice(&reading->body),
        .connection = connection};

    if (!is_for_us(server, connection))
        return send_sentence(connection, MHD_HTTP_MISDIRECTED_REQUEST, NULL,
            "the Host must be an IP address or localhost");
    for (size_t i = 0; i < server->count; i++)
        if (has_method(&server->routes[i], method) &&
            strcmp(server->routes[i].path, path) == 0)
            return call_handler(&server->routes[i], &request, connection);
    return send_no_route(server, connection, path);
}

/* ---- reading requests ---- */

static bool is_served_method(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
           strcmp(method, "POST") == 0;
}

/* Does the request announce, by its Content-Length, a body larger than
 * BODY_MAX? A chunked body announces no length, so its bytes are counted when
 * they come. */
static bool announces_too_much(struct MHD_Connection *connection)
{
    const char *length = MHD_lookup_connection_value(
        connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return length && strtoull(length, NULL, 10) > BODY_MAX;
}

/* Begin a request whose head has come. A response that is queued here is sent
 * without reading the body, and the connection is closed. */
static enum MHD_Result begin(
    struct MHD_Connection *connection, const char *method, void **state)
{
    struct reading *reading = mem_alloc(sizeof(*reading));

    buf_init(&reading->body, BODY_MAX);
    *state = reading;
    if (!is_served_method(method))
        return send_sentence(connection, MHD_HTTP_NOT_IMPLEMENTED,
            "GET, HEAD, POST", "only GET, HEAD and POST are supported");
    if (announces_too_much(connection))
        return send_sentence(connection, MHD_HTTP_CONTENT_TOO_LARGE, NULL,
            "the body is larger than 64 KiB");
    return MHD_YES;
}

/* The library calls this for the head, for each part of the body, and when the
 * request is complete. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection,
    const char *path, const char *method, const char *version, const char *part,
    size_t *part_len, void **state)
{
    struct reading *reading = *state;

    (void)version;
    if (!reading)
        return begin(connection, method, state);
    if (*part_len > 0) {
        buf_add(&reading->body, part, *part_len);
        reading->too_large |= reading->body.overflow;
        *part_len = 0;
        return MHD_YES;
    }
    if (reading->too_large)
        return send_sentence(connection, MHD_HTTP_CONTENT_TOO_LARGE, NULL,
            "the body is larger than 64 KiB");
    return answer(context, connection, method, path, reading);
}

/* ---- connections that take too long ---- */

static int fd_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD)
        ->connect_fd;
}

static struct connection *slot_of(struct http_server *server, int fd)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (server->connections[i].used && server->connections[i].fd == fd)
            return &server->connections[i];
    return NULL;
}

static void note_connection(void *context, struct MHD_Connection *connection,
    void **state, enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    int fd = fd_of(connection);
    struct connection *known = slot_of(server, fd);

    (void)state;
    if (code != MHD_CONNECTION_NOTIFY_STARTED) {
        if (known)
            known->used = false;
        return;
    }
    for (size_t i = 0; i < CONNECTIONS_MAX && !known; i++)
        if (!server->connections[i].used)
            known = &server->connections[i];
    if (known)
        *known = (struct connection){
            .fd = fd, .used = true, .since_ms = platform_boot_ms()};
}

/* Overwrite the token where it lies in the connection's pool, because the
 * library frees a request's head without overwriting it. */
static enum MHD_Result wipe_token(
    void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)context;
    (void)kind;
    if (value && strcasecmp(name, "Authorization") == 0)
        crypto_wipe((void *)(uintptr_t)value, strlen(value));
    return MHD_YES;
}

static void note_end(void *context, struct MHD_Connection *connection,
    void **state, enum MHD_RequestTerminationCode code)
{
    struct http_server *server = context;
    struct reading *reading = *state;
    struct connection *known = slot_of(server, fd_of(connection));

    (void)code;
    (void)MHD_get_connection_values(
        connection, MHD_HEADER_KIND, wipe_token, NULL);
    if (known)
        known->since_ms = platform_boot_ms();
    if (reading)
        buf_done(&reading->body);
    mem_free(reading);
    *state = NULL;
}

static size_t count_connections(const struct http_server *server)
{
    size_t count = 0;

    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        count += server->connections[i].used;
    return count;
}

/* Shuts down the connections that take too long. The library then reads an end
 * of input from each of them, and closes it. True: there are open connections.
 */
static bool close_late(struct http_server *server)
{
    size_t count = count_connections(server);
    int64_t since_ms = platform_boot_ms() -
                       (count < CROWDED ? REQUEST_MAX_MS : CROWDED_MAX_MS);

    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &server->connections[i];

        if (!connection->used || connection->closed ||
            connection->since_ms > since_ms)
            continue;
        connection->closed = true;
        (void)shutdown(connection->fd, SHUT_RDWR);
    }
    return count > 0;
}

/* ---- the thread ---- */

/* Returns how many milliseconds the thread may wait; -1: until a descriptor is
 * ready. */
static int wait_ms(struct http_server *server)
{
    bool any = close_late(server);
    MHD_UNSIGNED_LONG_LONG due_ms;
    int most_ms = any ? LOOK_MS : -1;

    if (MHD_get_timeout(server->daemon, &due_ms) != MHD_YES)
        return most_ms;
    return most_ms >= 0 && due_ms > (unsigned)most_ms ? most_ms : (int)due_ms;
}

/* Let the library do what is due. After the maximum number of connections was
 * reached, the library accepts new connections only at the beginning of
 * MHD_run(). So MHD_run() is called again if connections have ended. */
static void run_daemon(struct http_server *server)
{
    size_t before;

    do {
        before = count_connections(server);
        (void)MHD_run(server->daemon);
    } while (count_connections(server) < before);
}

static void serve(void *arg)
{
    struct http_server *server = arg;
    struct pollfd fds[2] = {
        {.fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                   ->epoll_fd,
            .events = POLLIN},
        {.fd = server->stop_fd, .events = POLLIN},
    };

    while (!atomic_load(&server->stopping)) {
        (void)poll(fds, 2, wait_ms(server));
        run_daemon(server);
    }
}

/* ---- start and stop ---- */

static enum tw_err bind_failed(
    const char *address, const char *what, struct err *err)
{
    return err_fail(err, TW_REFUSED, "cannot listen on %s: %s: %s", address,
        what, strerror(errno));
}

/* Open a socket that listens on address; text is the address for messages. */
static enum tw_err listen_on(const char *text, const struct address *address,
    int *ret_fd, struct err *err)
{
    int fd = socket(address->socket.ss_family,
        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    enum tw_err outcome = TW_OK;

    if (fd < 0)
        return bind_failed(text, "socket", err);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&address->socket, address->len) != 0)
        outcome = errno == EADDRINUSE
                      ? err_fail(err, TW_REFUSED,
                            "cannot listen on %s: another process uses the "
                            "port; end it, or change `listen` of the worker",
                            text)
                      : bind_failed(text, "bind", err);
    else if (listen(fd, BACKLOG) != 0)
        outcome = bind_failed(text, "listen", err);
    if (outcome != TW_OK) {
        (void)close(fd);
        return outcome;
    }
    *ret_fd = fd;
    return TW_OK;
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof(at);

    if (getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        return 0;
    if (at.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
    return ntohs(((struct sockaddr_in *)&at)->sin_port);
}

/* Drop the library's own messages, which an operator cannot act on. */
static void drop_message(void *context, const char *format, va_list args)
{
    (void)context;
    (void)format;
    (void)args;
}

static struct MHD_Daemon *start_daemon(
    struct http_server *server, const struct address *address, int fd)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG;

    if (address->socket.ss_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, server,
        MHD_OPTION_EXTERNAL_LOGGER, drop_message, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, note_end, server,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_END);
}

enum tw_err http_server_start(const char *address,
    const struct http_route *routes, size_t count, struct http_server **ret,
    struct err *err)
{
    struct http_server *server;
    struct address at;
    int fd = -1;
    enum tw_err outcome = address_parse(slice_of(address), &at, err);

    if (outcome == TW_OK)
        outcome = listen_on(address, &at, &fd, err);
    if (outcome != TW_OK)
        return outcome;
    server = mem_alloc(sizeof(*server));
    server->routes = mem_array(count, sizeof(*routes));
    memcpy(server->routes, routes, count * sizeof(*routes));
    server->count = count;
    server->loopback = at.loopback;
    server->port = port_of(fd);
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->stop_fd >= 0)
        server->daemon = start_daemon(server, &at, fd);
    if (!server->daemon) {
        outcome = bind_failed(address, "the server cannot start", err);
        (void)close(fd);
        http_server_stop(server);
        return outcome;
    }
    platform_start(&server->thread, "monitor", serve, server);
    *ret = server;
    return TW_OK;
}

unsigned http_server_port(const struct http_server *server)
{
    return server->port;
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    if (server->daemon) {
        atomic_store(&server->stopping, true);
        (void)eventfd_write(server->stop_fd, 1);
        platform_join(&server->thread);
        MHD_stop_daemon(server->daemon);
    }
    if (server->stop_fd >= 0)
        (void)close(server->stop_fd);
    mem_free(server->routes);
    mem_free(server);
}
