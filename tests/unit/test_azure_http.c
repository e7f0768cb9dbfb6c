/* SPDX-License-Identifier: MIT */
/* Each call sends its request at most once, whatever happens to the connection,
 * and the outcome is unknown unless it is certain. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/http_script.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/store/azure/http.h"
#include "worker/store/deadline.h"

/* This test uses real time, and the machine may be paused for seconds. A call
 * that does not keep its time limit waits longer than this. */
#define LONG_MS 15000

#define STEPS(...)                                                             \
    (const struct script_step[])                                               \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static const char ok[] = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 "
                         "GMT\r\nContent-Length: 5\r\n\r\nhello";

/* A client, and its server. */
struct bench {
    struct http_script *script;
    struct http *http;
    struct http_answer answer;
    struct err err;
    char url[64], peer[64];
    size_t max_answer_bytes;
    unsigned asks_at_most; /* gives_up() returns true at this call; 0: never */
    /* asks: number of calls of gives_up(). comes: number of those calls whose
     * argument `comes` is true. */
    unsigned asks, comes;
};

static void bench_open(
    struct bench *bench, const struct script_step *steps, size_t count)
{
    bench->script = http_script_start(steps, count);
    bench->http = http_new();
    http_answer_init(&bench->answer);
    bench->err.text[0] = '\0';
    bench->max_answer_bytes = 1000;
    bench->asks_at_most = bench->asks = bench->comes = 0;
    snprintf(bench->url, sizeof(bench->url), "http://127.0.0.1:%d/a?b=%%2Fc",
        http_script_port(bench->script));
    snprintf(bench->peer, sizeof(bench->peer), "127.0.0.1 port %d",
        http_script_port(bench->script));
}

static bool gives_up(void *context, bool comes)
{
    struct bench *bench = context;

    bench->comes += comes;
    return ++bench->asks == bench->asks_at_most;
}

static enum tw_err send_in_time(struct bench *bench, const char *method,
    const char *body, const struct deadline *deadline)
{
    const struct http_header headers[] = {
        {"Accept", "application/json"}, {"Content-Type", "text/x"}};
    static const struct http_header echo = {"X-Id", "mine"};
    struct http_request request = {
        .method = method,
        .url = bench->url,
        .peer = bench->peer,
        .no_proxy = true,
        .headers = headers,
        .header_count = body != NULL ? 2 : 1,
        .echo = &echo,
        .body = slice_of(body),
        .max_answer_bytes = bench->max_answer_bytes,
        .gives_up = bench->asks_at_most > 0 ? gives_up : NULL,
        .context = bench,
    };

    return http_send(
        bench->http, &request, deadline, &bench->answer, &bench->err);
}

static enum tw_err send_once(
    struct bench *bench, const char *method, const char *body)
{
    return send_in_time(bench, method, body, NULL);
}

/* Closes the client first, so that the server sees the end of each connection.
 */
static void bench_end(struct bench *bench, size_t requests)
{
    http_free(bench->http);
    http_script_end(bench->script);
    assert_int_equal(http_script_requests(bench->script), requests);
}

static void bench_done(struct bench *bench)
{
    http_answer_done(&bench->answer);
    http_script_free(bench->script);
}

/* Checks the outcome of one request over a new connection. */
static void check_step(
    struct script_step step, enum tw_err expected, const char *says)
{
    struct bench bench;
    enum tw_err outcome;

    bench_open(&bench, &step, 1);
    outcome = send_once(&bench, "POST", "body");
    if (outcome != expected || strstr(bench.err.text, says) == NULL)
        fail_msg(
            "%s: '%s', expected '%s'", err_name(outcome), bench.err.text, says);
    assert_true(bench.answer.sent_ms > 0);
    bench_end(&bench, 1);
    bench_done(&bench);
}

/* Sends one request to a server that responds `answer` and closes the
 * connection; checks the outcome. */
static void check_outcome(
    const char *answer, enum tw_err expected, const char *says)
{
    check_step((struct script_step){SCRIPT_LAST, answer, 0}, expected, says);
}

TEST_FIXTURE(bench, struct bench, TEST_NOTHING, bench_done)

#define WIRE_TEST(name)                                                        \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *bench)

WIRE_TEST(request_leaves_as_it_is_described)
{
    static const struct {
        const char *method, *body, *sent; /* sent: the request after the header
                                             Host */
    } cases[] = {
        {"GET", NULL, "Accept: application/json\r\n\r\n"},
        {"PATCH", "12345",
            "Accept: application/json\r\nContent-Type: text/x\r\n"
            "Content-Length: 5\r\n\r\n12345"},
        {"PUT", NULL, "Accept: application/json\r\nContent-Length: 0\r\n\r\n"},
    };

    bench_open(bench,
        STEPS({SCRIPT_ANSWER, ok, 0}, {SCRIPT_ANSWER, ok, 0},
            {SCRIPT_ANSWER, ok, 0}),
        3);
    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_ok(send_once(bench, cases[i].method, cases[i].body));
    bench_end(bench, 3);
    assert_int_equal(http_script_connections(bench->script), 1);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char expected[512];

        snprintf(expected, sizeof(expected),
            "%s /a?b=%%2Fc HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s",
            cases[i].method, http_script_port(bench->script), cases[i].sent);
        assert_string_equal(http_script_request(bench->script, i), expected);
    }
}

WIRE_TEST(large_body_is_sent_without_asking_first)
{
    static char body[4 * 1024 * 1024 + 1];

    memset(body, 'x', sizeof(body) - 1);
    bench_open(bench, STEPS({SCRIPT_ANSWER, ok, 0}), 1);
    assert_ok(send_once(bench, "POST", body));
    bench_end(bench, 1);
    assert_null(strstr(http_script_request(bench->script, 0), "Expect"));
    assert_true(
        strlen(http_script_request(bench->script, 0)) > sizeof(body) - 1);
}

WIRE_TEST(answer_is_read_whole)
{
    static const char chunked[] =
        "HTTP/1.1 100 Continue\r\nX: early\r\n\r\n"
        "HTTP/1.1 409 Conflict\r\nX-MS-Error-Code:  EntityAlreadyExists \r\n"
        "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";

    bench_open(
        bench, STEPS({SCRIPT_ANSWER, chunked, 0}, {SCRIPT_ANSWER, ok, 0}), 2);
    assert_ok(send_once(bench, "POST", "b"));
    assert_int_equal(bench->answer.status, 409);
    assert_true(slice_is(http_answer_field(&bench->answer, "x-ms-error-code"),
        "EntityAlreadyExists"));
    assert_int_equal(http_answer_field(&bench->answer, "X").len, 0);
    assert_string_equal(buf_text(&bench->answer.body), "hello");
    assert_ok(send_once(bench, "GET", NULL));
    assert_int_equal(bench->answer.status, 200);
    assert_int_equal(
        http_answer_field(&bench->answer, "x-ms-error-code").len, 0);
    assert_string_equal(buf_text(&bench->answer.body), "hello");
    bench_end(bench, 2);
}

/* The response to the second request has the id of another request, as if the
 * server had sent a response twice. If it were accepted, each later response
 * would be taken for the response to the next request. */
WIRE_TEST(answer_to_another_request_is_none)
{
    static const char others[] = "HTTP/1.1 200 OK\r\nx-id: other\r\n"
                                 "Content-Length: 5\r\n\r\nhello";
    static const char mine[] = "HTTP/1.1 200 OK\r\nx-id: mine\r\n"
                               "Content-Length: 5\r\n\r\nhello";

    bench_open(bench,
        STEPS({SCRIPT_ANSWER, mine, 0}, {SCRIPT_ANSWER, others, 0},
            {SCRIPT_ANSWER, mine, 0}),
        3);
    assert_ok(send_once(bench, "POST", "b"));
    assert_int_equal(send_once(bench, "POST", "b"), TW_UNKNOWN);
    assert_non_null(
        strstr(bench->err.text, "the answer belongs to another request"));
    assert_ok(send_once(bench, "POST", "b"));
    bench_end(bench, 3);
    assert_int_equal(http_script_connections(bench->script), 2);
}

/* libcurl quotes the address of the proxy with its password. */
TEST(the_proxy_s_password_is_not_shown)
{
    static const char *const proxies[] = {"http://user:secret word@127.0.0.1:1",
        "odd://user:secret@127.0.0.1:1", "http://user:secret@127.0.0.1:x"};

    for (size_t i = 0; TEST_EACH(i, proxies); i++) {
        struct http_request request = {.method = "GET",
            .url = "http://a.test/",
            .peer = "a.test port 80",
            .max_answer_bytes = 1000};
        struct bench bench;

        bench_open(&bench, NULL, 0);
        setenv("http_proxy", proxies[i], 1);
        assert_int_equal(
            http_send(bench.http, &request, NULL, &bench.answer, &bench.err),
            TW_BUSY);
        unsetenv("http_proxy");
        if (strstr(bench.err.text, "secret") != NULL ||
            strstr(bench.err.text, "the proxy in the environment") == NULL)
            fail_msg("%s", bench.err.text);
        bench_end(&bench, 0);
        bench_done(&bench);
    }
}

/* A field that is dropped may be the continuation token of a page. */
TEST(answer_whose_fields_are_not_all_kept_is_none)
{
    struct buf text;

    buf_init(&text, 4096);
    buf_add_text(&text, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < HTTP_MAX_FIELDS; i++)
        buf_add_format(&text, "X-%d: v\r\n", i);
    buf_add_text(&text, "Content-Length: 5\r\n\r\nhello");
    check_outcome(buf_text(&text), TW_UNKNOWN, "more than 64 header fields");
    buf_done(&text);
}

TEST(what_is_no_answer_is_unknown)
{
    check_step(
        (struct script_step){SCRIPT_RESET, NULL, 0}, TW_UNKNOWN, "sent to");
    check_outcome(NULL, TW_UNKNOWN, "sent to");
    check_outcome("garbage\r\n\r\n", TW_UNKNOWN, "sent to");
    check_outcome("\x16\x03\x01\x02", TW_UNKNOWN, "sent to");
}

TEST(answer_cut_off_anywhere_is_unknown)
{
    static const char chunked[] =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";

    for (size_t len = 1; len < strlen(ok); len += 7)
        check_step(
            (struct script_step){SCRIPT_LAST, ok, len}, TW_UNKNOWN, "sent to");
    /* The response is cut off at several places, all of them before the line
     * "0". */
    for (size_t len = 1; len < strlen(chunked) - 4; len += 7)
        check_step((struct script_step){SCRIPT_LAST, chunked, len}, TW_UNKNOWN,
            "sent to");
}

/* libcurl would send the request again over a new connection. */
TEST(dead_kept_connection_is_one_request)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    static const enum script_act deaths[] = {SCRIPT_LAST, SCRIPT_RESET};

    for (size_t i = 0; i < 8; i++) {
        const struct script_step steps[] = {
            {SCRIPT_ANSWER, ok, 0},
            {deaths[i % 2], NULL, 0},
            {SCRIPT_ANSWER, ok, 0},
        };
        const char *body = i / 2 == 0 ? NULL : "b";
        struct bench bench;

        bench_open(&bench, steps, 3);
        assert_ok(send_once(&bench, methods[i / 2], body));
        assert_int_equal(send_once(&bench, methods[i / 2], body), TW_UNKNOWN);
        assert_non_null(strstr(bench.err.text, "sent to"));
        /* The next request uses a new connection. */
        assert_ok(send_once(&bench, methods[i / 2], body));
        bench_end(&bench, 3);
        bench_done(&bench);
    }
}

WIRE_TEST(unreachable_is_not_sent)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int taken = socket(AF_INET, SOCK_STREAM, 0); /* bound, but not listening */
    char expected[128];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(taken, (struct sockaddr *)&address, len), 0);
    getsockname(taken, (struct sockaddr *)&address, &len);
    bench_open(bench, NULL, 0);
    snprintf(bench->url, sizeof(bench->url), "http://127.0.0.1:%d/",
        ntohs(address.sin_port));
    snprintf(bench->peer, sizeof(bench->peer), "127.0.0.1 port %d",
        ntohs(address.sin_port));
    assert_int_equal(send_once(bench, "POST", "b"), TW_BUSY);
    snprintf(expected, sizeof(expected),
        "cannot connect to %s: Connection refused", bench->peer);
    assert_string_equal(bench->err.text, expected);
    assert_int_equal(bench->answer.sent_ms, 0);
    bench_end(bench, 0);
    close(taken);
}

WIRE_TEST(closed_deadline_stops_the_last_moment)
{
    struct deadline deadline;

    deadline_init(&deadline, PLATFORM_NEVER, 5000);
    deadline_close(&deadline);
    bench_open(bench, NULL, 0);
    assert_int_equal(send_in_time(bench, "POST", "b", &deadline), TW_STOPPED);
    assert_int_equal(bench->answer.sent_ms, 0);
    bench_end(bench, 0);
}

WIRE_TEST(silence_is_unknown_after_the_deadline)
{
    struct deadline deadline;
    int64_t begun_ms = platform_boot_ms();

    deadline_init(&deadline, PLATFORM_NEVER, DEADLINE_REQUEST_MIN_MS);
    bench_open(bench, STEPS({SCRIPT_SILENT, NULL, 0}), 1);
    assert_int_equal(send_in_time(bench, "POST", "b", &deadline), TW_UNKNOWN);
    assert_non_null(strstr(bench->err.text, "no answer came in time"));
    assert_in_range(platform_boot_ms() - begun_ms,
        DEADLINE_REQUEST_MIN_MS - 100,
        LONG_MS); /* -100: libcurl rounds times differently */
    bench_end(bench, 1);
}

/* Responses whose end a proxy and this client might find at different places.
 */
TEST(answer_whose_length_is_in_doubt_is_unknown)
{
    static const struct {
        const char *fields, *says;
    } cases[] = {
        {"Content-Length: 5\r\nContent-Length: 6\r\n", "more than one"},
        {"Content-Length: 5\r\nContent-Length: 5\r\n", "more than one"},
        {"Content-Length: 5, 5\r\n", "not a number"},
        {"Content-Length: 5x\r\n", "not a number"},
        {"Content-Length: -5\r\n", "Content-Length"},
        {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "both"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char text[256];

        snprintf(text, sizeof(text), "HTTP/1.1 204 No Content\r\n%s\r\n",
            cases[i].fields);
        check_outcome(text, TW_UNKNOWN, cases[i].says);
    }
}

/* Replaces libc's function: the name server does not respond. */
int getaddrinfo(const char *name, const char *service,
    const struct addrinfo *hints, struct addrinfo **ret)
{
    static int (*real)(const char *, const char *, const struct addrinfo *,
        struct addrinfo **);

    if (name != NULL && strcmp(name, "silent.example") == 0) {
        sleep(20);
        return EAI_AGAIN;
    }
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(name, service, hints, ret);
}

WIRE_TEST(a_name_server_that_is_silent_holds_up_nothing)
{
    int64_t begun_ms = platform_boot_ms();
    struct deadline deadline;

    deadline_init(&deadline, PLATFORM_NEVER, DEADLINE_REQUEST_MIN_MS);
    bench_open(bench, NULL, 0);
    snprintf(bench->url, sizeof(bench->url), "http://silent.example/");
    assert_int_equal(send_in_time(bench, "GET", NULL, &deadline), TW_BUSY);
    bench_end(bench, 0);
    assert_true(platform_boot_ms() - begun_ms < LONG_MS);
}

/* The outcome is unknown, because the request was sent. */
WIRE_TEST(a_request_is_given_up_when_its_caller_wants_it)
{
    char half[50100];

    snprintf(half, sizeof(half),
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n%050000d", 0);
    bench_open(
        bench, STEPS({SCRIPT_ANSWER, half, 0}, {SCRIPT_SILENT, NULL, 0}), 2);
    bench->max_answer_bytes = 1000000;
    bench->asks_at_most = 3;
    assert_int_equal(send_once(bench, "POST", "b"), TW_UNKNOWN);
    assert_non_null(strstr(bench->err.text, "nothing responds there"));
    assert_true(bench->answer.sent_ms > 0);
    assert_int_equal(bench->asks, 3);
    assert_int_equal(bench->comes, 1);
    bench_end(bench, 1);
}

WIRE_TEST(a_request_is_given_up_before_it_is_sent)
{
    bench_open(bench, NULL, 0);
    snprintf(bench->url, sizeof(bench->url), "http://silent.example/");
    bench->asks_at_most = 1;
    assert_int_equal(send_once(bench, "GET", NULL), TW_BUSY);
    assert_non_null(strstr(bench->err.text, "nothing responds there"));
    assert_int_equal(bench->answer.sent_ms, 0);
    bench_end(bench, 0);
}

static void ask_soon(void *arg)
{
    usleep(300000);
    stop_ask();
}

/* Without a stop a request may take 35 s. A stop ends the request. For a short
 * time after the stop, final requests may be sent; later requests are not sent.
 * If this machine was paused, the short time may be over before the test sends
 * its final request. */
TEST(a_stop_gives_up_what_is_under_way)
{
    static const char *const begun[] = {
        NULL, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"};

    for (size_t i = 0; i < 2; i++) {
        const struct script_step steps[] = {{SCRIPT_ANSWER, begun[i], 0},
            {SCRIPT_SILENT, NULL, 0}, {SCRIPT_SILENT, NULL, 0}};
        int64_t begun_ms = platform_boot_ms();
        struct platform_thread thread;
        struct bench bench;
        enum tw_err outcome;
        bool last_words;

        bench_open(&bench, steps + (i == 0), 2);
        platform_start(&thread, "signal", ask_soon, NULL);
        assert_int_equal(send_once(&bench, "POST", "b"), TW_UNKNOWN);
        assert_non_null(strstr(bench.err.text, "the process stops"));
        platform_join(&thread);
        outcome = send_once(&bench, "POST", "b");
        last_words = bench.answer.sent_ms != 0;
        assert_int_equal(outcome, last_words ? TW_UNKNOWN : TW_BUSY);
        assert_true(
            last_words || platform_boot_ms() - begun_ms >= STOP_LAST_MS - 100);
        while (platform_boot_ms() < stop_until_ms(PLATFORM_NEVER))
            usleep(1000);
        assert_int_equal(send_once(&bench, "POST", "b"), TW_BUSY);
        assert_int_equal(bench.answer.sent_ms, 0);
        assert_true(platform_boot_ms() - begun_ms < LONG_MS);
        stop_forget();
        bench_end(&bench, last_words ? 2 : 1);
        bench_done(&bench);
    }
}

/* After the signal to stop, every request ends before a service manager would
 * kill the process. */
TEST(a_stop_sets_when_requests_end)
{
    int64_t begun_ms = platform_boot_ms(), asked_ms;

    assert_true(stop_until_ms(begun_ms) == PLATFORM_NEVER);
    assert_true(stop_end_ms() == PLATFORM_NEVER);
    stop_ask();
    asked_ms = stop_end_ms() - STOP_END_MS;
    assert_in_range(asked_ms, begun_ms, platform_boot_ms());
    assert_int_equal(stop_until_ms(asked_ms - 1), asked_ms + 1500);
    assert_int_equal(stop_until_ms(asked_ms), asked_ms + 3500);
    assert_int_equal(stop_end_ms(), asked_ms + 4500);
    stop_forget();
}

/* ---- several threads ---- */

#define THREADS 6
#define PER_THREAD 20

static void send_many(void *arg)
{
    struct bench *bench = arg;
    struct bench own = *bench;

    http_answer_init(&own.answer);
    for (int i = 0; i < PER_THREAD; i++)
        if (send_once(&own, "POST", "b") != TW_OK)
            abort();
    http_answer_done(&own.answer);
}

WIRE_TEST(several_threads_may_send)
{
    static const char last[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
                               "Content-Length: 0\r\n\r\n";
    struct script_step steps[THREADS * PER_THREAD];
    struct platform_thread threads[THREADS];

    for (size_t i = 0; i < THREADS * PER_THREAD; i++)
        steps[i] = (struct script_step){SCRIPT_LAST, last, 0};
    bench_open(bench, steps, THREADS * PER_THREAD);
    for (size_t i = 0; i < THREADS; i++)
        platform_start(&threads[i], "sender", send_many, bench);
    for (size_t i = 0; i < THREADS; i++)
        platform_join(&threads[i]);
    bench_end(bench, THREADS * PER_THREAD);
}
