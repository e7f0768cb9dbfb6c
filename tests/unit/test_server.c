/* SPDX-License-Identifier: MIT */
/* The HTTP server of `worker.listen`, and what hostile clients do to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/support/fast_platform.h"
#include "tests/support/test.h"
#include "worker/base/address.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/monitor/server.h"

#define RESPONSE_MAX ((size_t)1024 * 1024)
#define PATIENCE_S 60

static struct http_server *server;

/* Responds with the contents of the request. */
static void echo(void *context, const struct http_request *request,
    struct http_response *response)
{
    const char *value = http_request_header(request, "X-Test");
    const char *query = http_request_query(request, "q");

    buf_add_format(&response->body, "%s %s %s header=%s q=%s body=%zu ",
        (const char *)context, request->method, request->path,
        value ? value : "none", query ? query : "none", request->body.len);
    if (request->body.len < 100)
        buf_add_slice(&response->body, request->body);
}

static void teapot(void *context, const struct http_request *request,
    struct http_response *response)
{
    response->status = 418;
    response->content_type = "text/html; charset=utf-8";
    buf_add_text(&response->body, "<p>short");
}

static char context[] = "route";
static const struct http_route routes[] = {
    {"GET", "/echo", echo, context},
    {"POST", "/echo", echo, context},
    {"GET", "/tea pot", teapot, NULL},
};

static int set_up(void **state)
{
    struct err err;

    return http_server_start("127.0.0.1:0", routes,
               sizeof(routes) / sizeof(routes[0]), &server, &err) == TW_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    http_server_stop(server);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* Sets up the server with clocks that run faster. */
static int set_up_fast(void **state)
{
    fast_platform_use();
    return set_up(state);
}

static int tear_down_fast(void **state)
{
    (void)tear_down(state);
    platform_use(NULL);
    return 0;
}

#define FAST_TEST(name) TEST_IN(name, set_up_fast, tear_down_fast)

/* ---- a client ---- */

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)http_server_port(server)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Sends a text. False: the server has closed the connection. */
static bool give(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        text += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* Returns all that the server sends until it closes the connection. Owned. */
static char *take(int fd)
{
    struct buf all;
    char part[4096];
    ssize_t got;

    buf_init(&all, RESPONSE_MAX);
    while ((got = recv(fd, part, sizeof(part), 0)) > 0)
        buf_add(&all, part, (size_t)got);
    if (got < 0)
        assert_int_equal(errno, ECONNRESET);
    (void)close(fd);
    buf_add_text(&all, "");
    return buf_take(&all);
}

/* Makes one request on a new connection. Returns the response (owned). */
static char *ask(const char *request)
{
    int fd = dial();

    (void)give(fd, request, strlen(request));
    return take(fd);
}

#define HELD_CONNECTIONS 200

static void dial_many(int fds[HELD_CONNECTIONS], const char *text)
{
    for (size_t i = 0; i < HELD_CONNECTIONS; i++)
        fds[i] = dial();
    for (size_t i = 0; i < HELD_CONNECTIONS; i++)
        (void)give(fds[i], text, strlen(text));
}

#define END "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"

static void expect(const char *request, const char *status, const char *text)
{
    char *response = ask(request);

    assert_contains(response, status);
    assert_contains(response, text);
    mem_free(response);
}

/* ---- what is answered ---- */

FIXTURE_TEST(a_route_gets_the_request)
{
    expect("GET /echo?q=a%20b&x=1 HTTP/1.1\r\nX-Test: yes\r\n" END,
        "HTTP/1.1 200 ", "route GET /echo header=yes q=a b body=0 ");
    expect("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n" END "hello",
        "HTTP/1.1 200 ", "route POST /echo header=none q=none body=5 hello");
}

FIXTURE_TEST(a_response_has_the_status_and_type_of_its_handler)
{
    expect("GET /tea%20pot HTTP/1.1\r\n" END, "HTTP/1.1 418 ",
        "Content-Type: text/html; charset=utf-8\r\n");
}

FIXTURE_TEST(a_head_request_has_no_body)
{
    char *response = ask("HEAD /echo HTTP/1.1\r\n" END);

    assert_contains(response, "HTTP/1.1 200 ");
    assert_contains(response, "Content-Length: ");
    assert_null(strstr(response, "route"));
    mem_free(response);
}

FIXTURE_TEST(every_response_forbids_what_a_page_does_not_need)
{
    static const char *const requests[] = {
        "GET /echo HTTP/1.1\r\n" END,
        "GET /none HTTP/1.1\r\n" END,
        "PUT /echo HTTP/1.1\r\n" END,
    };
    static const char *const headers[] = {
        "Cache-Control: no-store\r\n",
        "X-Content-Type-Options: nosniff\r\n",
        "Referrer-Policy: no-referrer\r\n",
        "Content-Security-Policy: default-src 'none'; script-src 'self'; ",
        "frame-ancestors 'none'",
    };

    for (size_t i = 0; TEST_EACH(i, requests); i++)
        for (size_t k = 0; TEST_EACH(k, headers); k++)
            expect(requests[i], "HTTP/1.1 ", headers[k]);
}

FIXTURE_TEST(what_has_no_route_is_refused)
{
    expect("GET /none HTTP/1.1\r\n" END, " 404 ", "this path does not exist");
    expect("GET /echo/ HTTP/1.1\r\n" END, " 404 ", "this path does not exist");
    expect("POST /tea%20pot HTTP/1.1\r\nContent-Length: 0\r\n" END, " 405 ",
        "Allow: GET, HEAD\r\n");
    expect("DELETE /echo HTTP/1.1\r\n" END, " 501 ", "GET, HEAD and POST");
}

/* A web site whose host name points to 127.0.0.1 must not be able to read
 * anything. */
FIXTURE_TEST(a_foreign_host_name_is_refused_on_loopback)
{
    static const struct {
        const char *host, *status, *text;
    } cases[] = {
        {"evil.example:9464", " 421 ", "IP address or localhost"},
        {"127.0.0.1.evil.example", " 421 ", "IP address or localhost"},
        {"LocalHost:9464", " 200 ", "route"},
        {"[::1]:9464", " 200 ", "route"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char *request = mem_format("GET /echo HTTP/1.1\r\nHost: %s\r\n"
                                   "Connection: close\r\n\r\n",
            cases[i].host);

        expect(request, cases[i].status, cases[i].text);
        mem_free(request);
    }
    expect("GET /echo HTTP/1.0\r\n\r\n", " 200 ", "route");
}

/* ---- limits ---- */

static char *request_with_body(size_t len, bool chunked)
{
    struct buf request;

    buf_init(&request, RESPONSE_MAX);
    buf_add_text(&request, "POST /echo HTTP/1.1\r\n");
    if (chunked)
        buf_add_format(
            &request, "Transfer-Encoding: chunked\r\n" END "%zx\r\n", len);
    else
        buf_add_format(&request, "Content-Length: %zu\r\n" END, len);
    for (size_t i = 0; i < len; i++)
        buf_add_char(&request, 'x');
    if (chunked)
        buf_add_text(&request, "\r\n0\r\n\r\n");
    return buf_take(&request);
}

FIXTURE_TEST(a_body_may_have_64_kib_and_no_more)
{
    static const struct {
        size_t len;
        bool chunked;
        const char *status, *text;
    } cases[] = {
        {65536, false, " 200 ", "body=65536"},
        {65536, true, " 200 ", "body=65536"},
        {65537, false, " 413 ", "larger than 64 KiB"},
        {65537, true, " 413 ", "larger than 64 KiB"},
        {500000, true, " 413 ", "larger than 64 KiB"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char *request = request_with_body(cases[i].len, cases[i].chunked);

        expect(request, cases[i].status, cases[i].text);
        mem_free(request);
    }
    /* The body never comes: the request is refused because of its head. */
    expect("POST /echo HTTP/1.1\r\nContent-Length: 99999999999999\r\n" END,
        " 413 ", "larger than 64 KiB");
}

FIXTURE_TEST(a_head_that_is_too_large_is_refused)
{
    struct buf request;
    char *response;

    buf_init(&request, RESPONSE_MAX);
    buf_add_text(&request, "GET /echo HTTP/1.1\r\nX-Test: ");
    for (size_t i = 0; i < 200000; i++)
        buf_add_char(&request, 'h');
    buf_add_text(&request, "\r\n" END);
    response = ask(buf_text(&request));
    /* If the server closes the connection before it has read all data, the
     * connection may be reset. */
    assert_true(response[0] == '\0' || strstr(response, " 431 ") != NULL ||
                strstr(response, " 413 ") != NULL);
    assert_null(strstr(response, " 200 "));
    mem_free(response);
    buf_done(&request);
    expect("GET /echo HTTP/1.1\r\n" END, " 200 ", "route");
}

FAST_TEST(what_is_no_request_is_refused)
{
    static const char *const requests[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /echo\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "GET /echo HTTP/1.1\r\nContent-Length: -1\r\n" END,
        "GET /echo HTTP/1.1\r\nContent-Length: x\r\n" END,
    };

    for (size_t i = 0; TEST_EACH(i, requests); i++) {
        char *response = ask(requests[i]);

        assert_null(strstr(response, " 200 "));
        mem_free(response);
    }
    expect("GET /echo HTTP/1.1\r\n" END, " 200 ", "route");
}

/* A client that sends a byte now and then must not keep its connection for
 * ever. */
FAST_TEST(a_client_that_never_ends_its_request_is_closed)
{
    int slow = dial();
    size_t sent = 0;

    assert_true(give(slow, "GET /echo HTTP/1.1\r\nX-Test: ", 28));
    while (give(slow, "x", 1)) {
        assert_true(sent++ < 500); /* 50 s */
        (void)usleep(100000);
    }
    (void)close(slow);
}

FIXTURE_TEST(two_hundred_connections_are_all_answered)
{
    int fds[HELD_CONNECTIONS];

    dial_many(fds, "GET /echo HTTP/1.1\r\n" END);
    for (size_t i = 0; i < HELD_CONNECTIONS; i++) {
        char *response = take(fds[i]);

        assert_contains(response, " 200 ");
        mem_free(response);
    }
}

FAST_TEST(clients_that_only_hold_connections_delay_no_probe)
{
    int fds[HELD_CONNECTIONS];

    dial_many(fds, "GET /");
    expect("GET /echo HTTP/1.1\r\n" END, " 200 ", "route");
    for (size_t i = 0; i < HELD_CONNECTIONS; i++)
        (void)close(fds[i]);
}

FIXTURE_TEST(a_stop_waits_for_no_client)
{
    int fd = dial();

    assert_true(give(fd, "GET /echo HT", 12));
    http_server_stop(server);
    mem_free(take(fd));
    assert_int_equal(set_up(NULL), 0);
}

/* ---- addresses ---- */

FIXTURE_TEST(a_port_that_is_taken_is_named)
{
    struct http_server *other;
    char address[32];
    struct err err;

    (void)snprintf(
        address, sizeof(address), "127.0.0.1:%u", http_server_port(server));
    assert_fails(http_server_start(address, routes, 1, &other, &err),
        TW_REFUSED, &err, address);
    assert_contains(err.text, "another process uses the port");
    assert_fails(http_server_start("192.0.2.1:0", routes, 1, &other, &err),
        TW_REFUSED, &err, "192.0.2.1");
}

TEST(addresses_are_numbers_or_localhost)
{
    static const char *const good[] = {"127.0.0.1:9464", "127.1.2.3:0",
        "[::1]:9464", "localhost:1", "0.0.0.0:9464", "[::]:9464",
        "192.168.0.1:65535"};
    static const char *const bad[] = {"", ":9464", "9464", "127.0.0.1",
        "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:http",
        "::1:9464", "[127.0.0.1]:9464", "[]:9464", "*:9464", "example.com:80",
        "1111111111111111111111111111111111111111111111111:80"};
    struct address address;
    struct err err;

    for (size_t i = 0; TEST_EACH(i, good); i++) {
        assert_ok(address_parse(slice_of(good[i]), &address, &err));
        assert_int_equal(address.loopback, i < 4);
    }
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_fails(address_parse(slice_of(bad[i]), &address, &err),
            TW_INVALID, &err, "127.0.0.1:9464");
    assert_int_equal(
        address_parse((struct slice){"127.0.0.1\0x:1", 13}, &address, &err),
        TW_INVALID);
}
