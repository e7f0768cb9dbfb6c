/* SPDX-License-Identifier: MIT */
/* The azure store with a service that misbehaves: the request of each
 * operation, and the outcome of every kind of response. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/http_script.h"
#include "tests/support/interpose.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/azure.h"
#include "worker/store/store.h"

#define KEY "c2VjcmV0LWtleS1ieXRlcw=="
#define SAS "sv=2019-02-02&ss=qt&sig=top%2Fsecret%3D"
#define BY_KEY "AccountName=acct;AccountKey=" KEY
#define BY_SAS "SharedAccessSignature=" SAS
#define ANSWERS_MAX 8

/* A store whose table and queue services are one scripted server. */
struct bench {
    struct script_step steps[ANSWERS_MAX];
    struct http_script *script;
    struct store *store;
    struct exchange exchange;
    struct page page;
    struct messages messages;
    struct batch_result result;
    struct arena arena;
};

/* Opens a store whose services are those of the bench, with endpoints below
 * `path`. */
static struct store *open_below(
    struct bench *bench, const char *credentials, const char *path)
{
    int port = http_script_port(bench->script);
    struct store *store = NULL;
    struct err err = {""};
    char text[512];

    snprintf(text, sizeof(text),
        "%s;TableEndpoint=http://127.0.0.1:%d%s;"
        "QueueEndpoint=http://127.0.0.1:%d%s",
        credentials, port, path, port, path);
    if (azure_open("main", slice_of(text), false, &store, &err) != TW_OK)
        fail_msg("%s", err.text);
    return store;
}

/* Starts a server that accepts `count` connections and sends answers[i] on
 * connection number i (NULL: no response). */
static void bench_begin(
    struct bench *bench, const char *const *answers, size_t count)
{
    *bench = (struct bench){.result.failed = 99};
    for (size_t i = 0; i < count; i++)
        bench->steps[i] = (struct script_step){SCRIPT_LAST, answers[i], 0};
    bench->script = http_script_start(bench->steps, count);
    page_init(&bench->page);
    messages_init(&bench->messages);
    arena_init(&bench->arena);
}

static void bench_open(struct bench *bench, const char *credentials,
    const char *const *answers, size_t count)
{
    bench_begin(bench, answers, count);
    bench->store = open_below(bench, credentials, "/acct");
}

static void bench_answers(struct bench *bench, const char *answer)
{
    bench_open(bench, BY_SAS, &answer, 1);
}

/* Closes the client first, so that the server sees the end of each connection.
 */
static void bench_end(struct bench *bench)
{
    store_close(bench->store);
    http_script_end(bench->script);
}

static void bench_done(struct bench *bench)
{
    http_script_free(bench->script);
    page_done(&bench->page);
    messages_done(&bench->messages);
    arena_done(&bench->arena);
}

/* ---- one of each operation ---- */

static enum tw_err run(struct bench *bench, enum store_call call)
{
    struct scan_request scan = {.table = "Blogs", .max_bytes = 1000};
    struct operation operations[2] = {
        {.type = OPERATION_INSERT}, {.type = OPERATION_DELETE}};
    struct batch batch = {"Blogs", operations, 2};
    char receipt[QUEUE_RECEIPT_MAX] = "Ag+/=";
    int64_t number = -1;
    struct store_request request = {
        .call = call,
        .name = call < CALL_QUEUE_CREATE ? "Blogs" : "work",
        .partition_key = slice_of("p"),
        .row_key = slice_of("r"),
        .scan = &scan,
        .batch = &batch,
        .text = slice_of("a<b"),
        .id = slice_of("id-1"),
        .pop_receipt = slice_of("Ag+/="),
        .count = call == CALL_QUEUE_PEEK ? 1 : 32,
        .seconds = call == CALL_QUEUE_PUT ? 5 : 30,
        .page = &bench->page,
        .messages = &bench->messages,
        .result = &bench->result,
        .receipt = receipt,
        .number = &number,
    };
    enum tw_err outcome;

    entity_init(
        &operations[0].entity, &bench->arena, slice_of("p"), slice_of("1"));
    entity_init(
        &operations[1].entity, &bench->arena, slice_of("p"), slice_of("2"));
    operations[1].entity.etag = slice_of("W/\"e\"");
    outcome = request_send(bench->store, &bench->exchange, &request);
    assert_string_equal(receipt,
        outcome == TW_OK && call == CALL_QUEUE_RENEW ? "next" : "Ag+/=");
    assert_int_equal(
        number, outcome == TW_OK && call == CALL_QUEUE_COUNT ? 7 : -1);
    return outcome;
}

static const struct step {
    const char *name; /* how its error texts begin */
    bool write;
    const char *line, *last; /* the first line and the body of the request */
} all[STORE_CALLS] = {
    [CALL_CREATE_TABLE] = {"create table Blogs", true,
        "POST /acct/Tables?timeout=30 HTTP/1.1\r\n",
        "\r\n\r\n{\"TableName\":\"Blogs\"}"},
    [CALL_LIST_TABLES] = {"list tables", false,
        "GET /acct/Tables?timeout=30 HTTP/1.1\r\n", "\r\n\r\n"},
    [CALL_SCAN] = {"scan Blogs", false,
        "GET /acct/Blogs()?$top=1000&timeout=30 HTTP/1.1\r\n", "\r\n\r\n"},
    [CALL_GET] = {"get Blogs", false,
        "GET /acct/Blogs(PartitionKey='p',RowKey='r')?timeout=30 HTTP/1.1\r\n",
        "\r\n\r\n"},
    [CALL_BATCH] = {"batch Blogs", true,
        "POST /acct/$batch?timeout=30 HTTP/1.1\r\n", "--\r\n"},
    [CALL_QUEUE_CREATE] = {"create queue work", true,
        "PUT /acct/work?timeout=30 HTTP/1.1\r\n", "\r\n\r\n"},
    [CALL_QUEUE_PUT] = {"put message into work", true,
        "POST /acct/work/messages?messagettl=-1&visibilitytimeout=5&timeout=30"
        " HTTP/1.1\r\n",
        "\r\n\r\n<QueueMessage><MessageText>a&lt;b</MessageText>"
        "</QueueMessage>"},
    [CALL_QUEUE_GET] = {"get messages from work", false,
        "GET /acct/work/messages?numofmessages=32&visibilitytimeout=30&"
        "timeout=30 HTTP/1.1\r\n",
        "\r\n\r\n"},
    [CALL_QUEUE_RENEW] = {"renew message in work", true,
        "PUT /acct/work/messages/id-1?popreceipt=Ag%2B%2F%3D&"
        "visibilitytimeout=30&timeout=30 HTTP/1.1\r\n",
        "\r\n\r\n"},
    [CALL_QUEUE_DELETE] = {"delete message from work", true,
        "DELETE /acct/work/messages/id-1?popreceipt=Ag%2B%2F%3D&timeout=30 "
        "HTTP/1.1\r\n",
        "\r\n\r\n"},
    [CALL_QUEUE_PEEK] = {"peek messages of work", false,
        "GET /acct/work/messages?peekonly=true&numofmessages=1&timeout=30 "
        "HTTP/1.1\r\n",
        "\r\n\r\n"},
    [CALL_QUEUE_COUNT] = {"count messages of work", false,
        "GET /acct/work?comp=metadata&timeout=30 HTTP/1.1\r\n", "\r\n\r\n"},
};

/* Sends the request of `call` to a server that responds `answer`; fails unless
 * the outcome is `wanted` and its text contains `says`. */
static void expect_answered(enum store_call call, const char *answer,
    enum tw_err wanted, const char *says)
{
    const char *name = all[call].name;
    struct bench bench;
    enum tw_err outcome;
    struct err err;

    bench_answers(&bench, answer);
    outcome = run(&bench, call);
    err = bench.exchange.err;
    if (outcome != wanted || strstr(err.text, says) == NULL)
        fail_msg("%s: %s, '%s'", name, err_name(outcome), err.text);
    if (outcome != TW_OK && strncmp(err.text, name, strlen(name)) != 0)
        fail_msg("'%s' does not begin with '%s'", err.text, name);
    assert_null(strstr(err.text, "secret"));
    assert_int_equal(bench.page.count, 0);
    assert_int_equal(bench.messages.count, 0);
    assert_true(bench.exchange.sent_ms > 0);
    bench_end(&bench);
    assert_int_equal(http_script_requests(bench.script), 1);
    bench_done(&bench);
}

#define BARE_HEAD(status)                                                      \
    "HTTP/1.1 " status "\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"           \
    "Connection: close\r\nx-ms-request-id: req-1\r\n"
#define HEAD(status) BARE_HEAD(status) "x-ms-version: 2019-02-02\r\n"
#define EMPTY(status) HEAD(status) "Content-Length: 0\r\n\r\n"
#define CODE(code) "{\"odata.error\":{\"code\":\"" code "\"}}\n"
#define ERROR(code, message)                                                   \
    "{\"odata.error\":{\"code\":\"" code                                       \
    "\",\"message\":{\"value\":\"" message "\"}}}"

/* ---- tests ---- */

TEST(requests_are_what_the_service_expects)
{
    static const char *const answer = EMPTY("429 Too Many Requests");

    for (enum store_call i = 0; TEST_EACH(i, all); i++) {
        bool queue = strstr(all[i].line, "/work") != NULL;
        struct bench bench;
        const char *got;

        bench_open(&bench, BY_KEY, &answer, 1);
        assert_int_equal(run(&bench, i), TW_BUSY);
        bench_end(&bench);
        got = http_script_request(bench.script, 0);
        if (strncmp(got, all[i].line, strlen(all[i].line)) != 0)
            fail_msg("%s", got);
        assert_string_equal(
            got + strlen(got) - strlen(all[i].last), all[i].last);
        assert_non_null(strstr(got, "\r\nAuthorization: SharedKey acct:"));
        assert_non_null(strstr(got, "\r\nx-ms-version: 2019-02-02\r\n"));
        assert_non_null(strstr(got, "\r\nx-ms-date: "));
        assert_non_null(strstr(got, "\r\nx-ms-client-request-id: "));
        assert_non_null(strstr(got, "\r\nUser-Agent: tableward/"));
        assert_null(strstr(got, "Expect"));
        assert_non_null(strstr(got,
            queue ? "\r\nAccept: application/xml\r\n"
                  : "\r\nAccept: application/json;odata=minimalmetadata\r\n"));
        assert_true(queue == !strstr(got, "\r\nDataServiceVersion: 3.0;\r\n"));
        if (i == CALL_BATCH) {
            assert_non_null(strstr(
                got, "\r\nContent-Type: multipart/mixed; boundary=batch_"));
            assert_non_null(strstr(got, "\r\n\r\nPOST http://127.0.0.1:"));
            assert_non_null(strstr(
                got, "/acct/Blogs(PartitionKey='p',RowKey='2') HTTP/1.1\r\n"));
        }
        bench_done(&bench);
    }
}

TEST_FIXTURE(bench, struct bench, TEST_NOTHING, bench_done)

#define WIRE_TEST(name)                                                        \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *bench)

WIRE_TEST(a_traceparent_is_in_the_request_id_and_each_is_another)
{
    static const char trace[] =
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    static const char name[] = "\r\nx-ms-client-request-id: ";
    static const char *const answers[] = {
        EMPTY("429 Too Many Requests"), EMPTY("429 Too Many Requests")};
    const char *ids[2];

    bench_open(bench, BY_KEY, answers, 2);
    for (int i = 0; i < 2; i++) {
        bench->exchange.traceparent = trace;
        assert_int_equal(run(bench, CALL_SCAN), TW_BUSY);
    }
    bench_end(bench);
    for (int i = 0; i < 2; i++) {
        ids[i] = strstr(http_script_request(bench->script, i), name);
        assert_non_null(ids[i]);
        ids[i] += sizeof(name) - 1;
        assert_memory_equal(ids[i], trace, sizeof(trace) - 1);
        assert_int_equal(strcspn(ids[i], "\r"), sizeof(trace) - 1 + 1 + 36);
    }
    assert_memory_not_equal(ids[0], ids[1], sizeof(trace) + 36);
}

/* After a reload the store of the new configuration may be closed before the
 * store of the old one. */
WIRE_TEST(stores_of_one_account_share_the_newest_credential)
{
    static const char *const expected[] = {
        "&timeout=30&sig=old%2Fer HTTP/1.1\r\n", "&sig=second ", "&sig=third ",
        "&sig=third "};
    static const char *const answers[] = {
        EMPTY("500 No"), EMPTY("500 No"), EMPTY("500 No"), EMPTY("500 No")};
    struct store *second, *third, *other;

    bench_open(bench, "SharedAccessSignature=?sig=old%2Fer", answers, 4);
    second = open_below(bench, "SharedAccessSignature=sig=second", "/acct");
    third = open_below(bench, "SharedAccessSignature=sig=third", "/acct");
    other = open_below(bench, "SharedAccessSignature=sig=other", "/other");
    assert_int_equal(run(bench, CALL_SCAN), TW_BUSY);
    store_share_credential(second, bench->store);
    assert_int_equal(run(bench, CALL_SCAN), TW_BUSY);
    store_share_credential(third, second);
    store_close(second);
    store_share_credential(other, third);
    assert_int_equal(run(bench, CALL_SCAN), TW_BUSY);
    store_close(third);
    store_close(other);
    assert_int_equal(run(bench, CALL_SCAN), TW_BUSY);
    bench_end(bench);
    for (int i = 0; i < 4; i++) {
        const char *got = http_script_request(bench->script, i);

        assert_non_null(strstr(got, expected[i]));
        assert_null(strstr(got, "Authorization"));
    }
}

WIRE_TEST(short_time_is_passed_on_to_the_service)
{
    struct deadline deadline;

    deadline_init(&deadline, PLATFORM_NEVER, 5000);
    bench_answers(bench, EMPTY("500 No"));
    bench->exchange.deadline = &deadline;
    assert_int_equal(run(bench, CALL_GET), TW_BUSY);
    bench_end(bench);
    assert_non_null(
        strstr(http_script_request(bench->script, 0), "?timeout=4&"));
}

TEST(every_operation_takes_an_answer_alike)
{
    static const struct {
        const char *name, *answer;
        enum tw_err read, write;
        const char *says;
    } cases[] = {
        {"lost", NULL, TW_UNKNOWN, TW_UNKNOWN, "sent to 127.0.0.1 port"},
        {"lost in its head", "HTTP/1.1 204 No", TW_UNKNOWN, TW_UNKNOWN,
            "sent to"},
        {"lost in its body", HEAD("200 OK") "Content-Length: 9\r\n\r\n{",
            TW_UNKNOWN, TW_UNKNOWN, "sent to"},
        {"a server error leaves a write unknown",
            EMPTY("500 Internal Server Error"), TW_BUSY, TW_UNKNOWN,
            ": 500 (request id req-1)"},
        {"bad gateway", EMPTY("502 Bad Gateway"), TW_BUSY, TW_UNKNOWN, ": 502"},
        {"timeout", EMPTY("408 Timeout"), TW_BUSY, TW_UNKNOWN, ": 408"},
        {"from a proxy whose connection to the service broke",
            EMPTY("503 Service Unavailable"), TW_BUSY, TW_UNKNOWN, ": 503"},
        {"throttling is busy",
            HEAD("503 Busy") "x-ms-error-code: ServerBusy\r\n"
                             "Content-Length: 0\r\n\r\n",
            TW_BUSY, TW_BUSY, ": 503 ServerBusy"},
        {"throttling is busy", EMPTY("429 Slow Down"), TW_BUSY, TW_BUSY,
            ": 429"},
        /* Control characters must not reach a terminal, nor the ledger's JSON.
         */
        {"what the other side writes is made visible",
            "HTTP/1.1 500 Bad\r\nx-ms-request-id: a\x1b[2J\xff\r\n"
            "Content-Length: 0\r\n\r\n",
            TW_BUSY, TW_UNKNOWN, ": 500 (request id a\\x1b[2J\\xff)"},
        {"what the other side writes is made visible",
            "HTTP/1.1 400 Bad\r\nContent-Length: 58\r\n\r\n" ERROR(
                "A", "b\\u007f"),
            TW_INVALID, TW_INVALID, ": 400 A: b\\x7f"},
        {"refused credentials are explained",
            HEAD("403 Forbidden") "x-ms-error-code: AuthenticationFailed\r\n"
                                  "Content-Length: 9\r\n\r\nsecret=42",
            TW_REFUSED, TW_REFUSED,
            ": 403 AuthenticationFailed: check the account key or SAS, and the "
            "clock; the clock of this machine is "},
        {"no credentials", EMPTY("401 Unauthorized"), TW_REFUSED, TW_REFUSED,
            ": 401: check the credentials (request id req-1)"},
        {"redirected", EMPTY("301 Moved"), TW_REFUSED, TW_REFUSED,
            ": 301: the service redirects to another address"},
        /* This response must not count as a deleted entity. */
        {"not found by something else than the service", EMPTY("404 Not Found"),
            TW_REFUSED, TW_REFUSED, ": 404: check the endpoint"},
        {"not found by something else than the service",
            HEAD("404 Not Found") "Content-Length: 6\r\n\r\n<html>", TW_REFUSED,
            TW_REFUSED, ": 404: check the endpoint"},
        {"nonsense leaves a write unknown",
            HEAD("200 OK") "Content-Length: 15\r\n\r\n<html>hi</html>", TW_BUSY,
            TW_UNKNOWN, ": 200, but the response is not from"},
        /* This response belongs to another request, as after a response that
         * was sent twice. It may be the page of another scan, or the response
         * to another batch. */
        {"an answer that names another request",
            HEAD("200 OK") "x-ms-client-request-id: other\r\n"
                           "Content-Length: 0\r\n\r\n",
            TW_UNKNOWN, TW_UNKNOWN, ""},
        /* The message quotes the address of the request, whose query is the
         * SAS. */
        {"a message that quotes a signature is not shown",
            HEAD("400 No") "\r\n" ERROR(
                "InvalidUri", "/T()?SIG=top%2Fsecret is bad"),
            TW_INVALID, TW_INVALID, ": 400 InvalidUri (request id"},
        {"nor an escaped one",
            HEAD("400 No") "\r\n" ERROR("A", "%26sig%3Dtop%2Fsecret"),
            TW_INVALID, TW_INVALID, ": 400 A (request id"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        for (enum store_call j = 0; j < STORE_CALLS; j++)
            expect_answered(j, cases[i].answer,
                all[j].write ? cases[i].write : cases[i].read, cases[i].says);
    }
}

/* Sends a scan, to which the server responds 503. Returns the exchange. head:
 * the begin of the response, with the header Date. field: one more line of the
 * header, or "". */
static struct exchange refused_with(const char *head, const char *field)
{
    struct exchange exchange;
    struct bench bench;
    char text[256];

    snprintf(text, sizeof(text), "%s%sContent-Length: 0\r\n\r\n", head, field);
    bench_answers(&bench, text);
    assert_int_equal(run(&bench, CALL_SCAN), TW_BUSY);
    assert_int_equal(bench.exchange.http_status, 503);
    exchange = bench.exchange;
    bench_end(&bench);
    bench_done(&bench);
    return exchange;
}

TEST(retry_hints_and_the_date_are_kept)
{
    static const struct {
        const char *field;
        int64_t ms;
    } cases[] = {
        {"", -1},
        {"Retry-After: 3\r\n", 3000},
        {"Retry-After: Mon, 01 Jan 2024 00:00:07 GMT\r\n", 7000},
        {"Retry-After: Sun, 31 Dec 2023 00:00:00 GMT\r\n", 0},
        {"Retry-After: soon\r\n", -1},
        {"x-ms-retry-after-ms: 250\r\nRetry-After: 3\r\n", 250},
        {"retry-after-ms: 40\r\n", 40},
        {"Retry-After: 999999\r\n", 3600000},
    };
    int64_t ticks;

    assert_true(text_ticks(slice_of("2024-01-01T00:00:00Z"), &ticks));
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct exchange exchange =
            refused_with(HEAD("503 Busy"), cases[i].field);

        assert_int_equal(exchange.retry_after_ms, cases[i].ms);
        assert_int_equal(exchange.date_ticks, ticks);
    }
}

/* A proxy has a clock of its own, from which no lease may be computed. */
TEST(a_proxys_date_is_not_the_services)
{
    static const struct {
        const char *field;
        bool counts;
    } cases[] = {
        {"", false},
        {"Server: a proxy\r\n", false},
        {"x-ms-version: 2019-02-02\r\n", true},
        {"x-ms-request-id: 1\r\n", true},
        {"x-ms-error-code: ServerBusy\r\n", true},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct exchange exchange = refused_with(
            "HTTP/1.1 503 Busy\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
            "Connection: close\r\n",
            cases[i].field);

        assert_int_equal(exchange.date_ticks != 0, cases[i].counts);
    }
}

/* What follows() has reported: where the next page starts. It is called before
 * the whole response has arrived. */
struct followed {
    unsigned times;
    char partition_key[16], row_key[16];
};

static void note_next(void *context, const struct continuation *next)
{
    struct followed *followed = context;

    followed->times++;
    assert_true(next->more);
    snprintf(followed->partition_key, sizeof(followed->partition_key), "%.*s",
        SLICE_ARG(next->partition_key));
    snprintf(followed->row_key, sizeof(followed->row_key), "%.*s",
        SLICE_ARG(next->row_key));
}

static enum tw_err followed_scan(const char *answer, struct followed *ret)
{
    struct scan_request request = {.table = "Blogs",
        .max_bytes = 1000,
        .follows = note_next,
        .context = ret};
    struct bench bench;
    enum tw_err outcome;

    *ret = (struct followed){0};
    bench_answers(&bench, answer);
    outcome = store_scan(bench.store, &bench.exchange, &request, &bench.page);
    bench_end(&bench);
    bench_done(&bench);
    return outcome;
}

#define NEXT                                                                   \
    "x-ms-continuation-NextPartitionKey: p2\r\n"                               \
    "x-ms-continuation-NextRowKey: r2\r\n"

TEST(where_the_next_page_begins_is_known_before_this_one_came)
{
    struct followed followed;

    assert_int_equal(
        followed_scan(
            HEAD("200 OK") NEXT "Content-Length: 90\r\n\r\n{\"val", &followed),
        TW_UNKNOWN);
    assert_int_equal(followed.times, 1);
    assert_string_equal(followed.partition_key, "p2");
    assert_string_equal(followed.row_key, "r2");
}

TEST(a_head_that_is_none_of_a_page_has_no_next_one)
{
    static const char *const heads[] = {
        HEAD("200 OK") "Content-Length: 90\r\n\r\n{\"val",
        HEAD("500 Error") NEXT "Content-Length: 90\r\n\r\n{\"val",
        HEAD("200 OK") NEXT "Content-Length: 90\r\nContent-Length: 9\r\n\r\n",
        HEAD("200 OK") NEXT "x-ms-client-request-id: another\r\n"
                            "Content-Length: 90\r\n\r\n{\"val",
        "HTTP/1.1 100 Continue\r\n" NEXT
        "\r\n" HEAD("200 OK") "Content-Length: 90\r\n\r\n{\"val",
    };

    for (size_t i = 0; TEST_EACH(i, heads); i++) {
        struct followed followed;

        assert_int_not_equal(followed_scan(heads[i], &followed), TW_OK);
        if (followed.times != 0)
            fail_msg("head %zu has a next page", i);
    }
}

/* A gateway that removes x-ms-* fields also removes continuation tokens. */
TEST(success_without_a_version_is_none)
{
    static const char read[] =
        BARE_HEAD("200 OK") "Content-Length: 12\r\n\r\n{\"value\":[]}";
    static const char change[] = BARE_HEAD("204 No Content") "\r\n";

    for (enum store_call i = 0; TEST_EACH(i, all); i++)
        expect_answered(i, all[i].write ? change : read,
            all[i].write ? TW_UNKNOWN : TW_BUSY, "it has no x-ms-version: ");
}

TEST(answer_beyond_its_bound_is_too_large)
{
    struct buf text;

    buf_init(&text, 8 * 1024 * 1024);
    buf_add_format(&text, "%s%*s", HEAD("200 OK") "\r\n", 3 * 1024 * 1024, "");
    expect_answered(
        CALL_SCAN, buf_text(&text), TW_TOO_LARGE, "larger than 1000 bytes");
    expect_answered(CALL_BATCH, buf_text(&text), TW_UNKNOWN, "");
    buf_done(&text);
}

#define WITHOUT_RECEIPT(status)                                                \
    HEAD(status)                                                               \
    "\r\n<QueueMessagesList><QueueMessage><MessageId>1</MessageId>"            \
    "<InsertionTime>Mon, 01 Jan 2024 00:00:00 GMT</InsertionTime>"             \
    "</QueueMessage></QueueMessagesList>"

TEST(some_operations_have_answers_of_their_own)
{
    static const struct {
        const char *name;
        enum store_call call;
        const char *answer;
        enum tw_err outcome;
        const char *says;
    } cases[] = {
        {"creating what exists is done", CALL_CREATE_TABLE,
            HEAD("409 Conflict") "\r\n" CODE("TableAlreadyExists"), TW_OK, ""},
        {"but not while it is deleted", CALL_CREATE_TABLE,
            HEAD("409 Conflict") "\r\n" CODE("TableBeingDeleted"), TW_BUSY, ""},
        {"creating what exists is done", CALL_QUEUE_CREATE,
            HEAD("409 Conflict") "x-ms-error-code: QueueAlreadyExists\r\n"
                                 "Content-Length: 0\r\n\r\n",
            TW_OK, ""},
        {"no account", CALL_CREATE_TABLE,
            HEAD("404 Not Found") "\r\n" CODE("ResourceNotFound"), TW_REFUSED,
            "the account's name"},
        {"a lost receipt is a conflict", CALL_QUEUE_RENEW,
            HEAD("404 Not Found") "x-ms-error-code: MessageNotFound\r\n\r\n",
            TW_CONFLICT, ""},
        {"an old receipt is a conflict", CALL_QUEUE_DELETE,
            HEAD("400 Bad Request") "x-ms-error-code: PopReceiptMismatch\r\n"
                                    "\r\n",
            TW_CONFLICT, ""},
        {"the renewed receipt is a header field", CALL_QUEUE_RENEW,
            HEAD("204 No Content") "x-ms-popreceipt: next\r\n\r\n", TW_OK, ""},
        {"which must be there", CALL_QUEUE_RENEW, HEAD("204 No Content") "\r\n",
            TW_UNKNOWN, ""},
        {"the count is a header field", CALL_QUEUE_COUNT,
            HEAD("200 OK") "x-ms-approximate-messages-count: 7"
                           "\r\nContent-Length: 0\r\n\r\n",
            TW_OK, ""},
        /* Such a response shows nothing about the entity that was requested. */
        {"another RowKey is no answer to a get", CALL_GET,
            HEAD("200 OK") "\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"R\"}",
            TW_BUSY, "an entity that was not requested"},
        {"another PartitionKey is no answer to a get", CALL_GET,
            HEAD("200 OK") "\r\n{\"PartitionKey\":\"q\",\"RowKey\":\"r\"}",
            TW_BUSY, "an entity that was not requested"},
        {"a message without a receipt is not handed out", CALL_QUEUE_GET,
            WITHOUT_RECEIPT("200 OK"), TW_BUSY, "no PopReceipt"},
        {"nor was one put", CALL_QUEUE_PUT, WITHOUT_RECEIPT("201 Created"),
            TW_UNKNOWN, "no PopReceipt"},
        {"or none was put", CALL_QUEUE_PUT,
            HEAD("201 Created") "\r\n<QueueMessagesList/>", TW_UNKNOWN,
            "but has 0"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        expect_answered(
            cases[i].call, cases[i].answer, cases[i].outcome, cases[i].says);
    }
}

#define PARTS(text)                                                            \
    HEAD("202 Accepted")                                                       \
    "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"                 \
    "Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n" text        \
    "\r\n--c--\r\n--b--\r\n"

static enum tw_err batch_answered(
    const char *text, struct batch_result *ret, struct err *err)
{
    struct bench bench;
    enum tw_err outcome;

    bench_answers(&bench, text);
    outcome = run(&bench, CALL_BATCH);
    *ret = bench.result;
    *err = bench.exchange.err;
    bench_end(&bench);
    bench_done(&bench);
    return outcome;
}

TEST(batch_keeps_new_etags)
{
    static const char *const others[] = {"", "ETag: \x01\x7f\r\n"};
    struct batch_result result;
    struct err err;

    assert_ok(
        batch_answered(PARTS("HTTP/1.1 204 No Content\r\nETag: W/\"1\"\r\n\r\n"
                             "\r\n--c\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
            &result, &err));
    assert_string_equal(result.etags[0], "W/\"1\"");
    assert_string_equal(result.etags[1], "");
    for (size_t i = 0; TEST_EACH(i, others); i++) {
        char text[1024];

        snprintf(text, sizeof(text),
            PARTS("HTTP/1.1 204 No Content\r\n%s\r\n"
                  "\r\n--c\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
            others[i]);
        assert_int_equal(batch_answered(text, &result, &err), TW_UNKNOWN);
        assert_int_equal(result.failed, 2);
    }
}

TEST(refused_batch_names_its_operation)
{
    static const struct {
        const char *answer;
        enum tw_err outcome;
        size_t failed;
        const char *says;
    } cases[] = {
        {PARTS("HTTP/1.1 412 No\r\n\r\n" ERROR(
             "UpdateConditionNotSatisfied", "1:Not met.\\nRequestId:x")),
            TW_CONFLICT, 1,
            "batch Blogs: operation 2 of 2: 412 UpdateConditionNotSatisfied: "
            "Not met. (request id req-1)"},
        {PARTS("HTTP/1.1 404 No\r\n\r\n" ERROR("TableNotFound", "0:x")),
            TW_NOT_FOUND, 0, "the table does not exist"},
        {PARTS("HTTP/1.1 400 No\r\n\r\n" ERROR("EntityTooLarge", "1:x")),
            TW_TOO_LARGE, 1, "EntityTooLarge"},
        {PARTS("HTTP/1.1 400 No\r\n\r\n" ERROR("InvalidInput", "x")),
            TW_INVALID, 2, "batch Blogs: 400 InvalidInput: x"},
        /* The message quotes the address of the request, whose query is the
         * SAS. */
        {PARTS("HTTP/1.1 400 No\r\n\r\n" ERROR(
             "InvalidUri", "1:/T()?sig=top%2Fsecret is bad")),
            TW_INVALID, 1, "400 InvalidUri (request id"},
        {PARTS("HTTP/1.1 500 No\r\n\r\n" ERROR("OperationTimedOut", "0:x")),
            TW_UNKNOWN, 0, "500 OperationTimedOut"},
        {PARTS("HTTP/1.1 503 No\r\n\r\n" ERROR("ServerBusy", "x")), TW_BUSY, 2,
            "503 ServerBusy"},
        {PARTS("HTTP/1.1 429 No\r\n\r\n" ERROR("TooManyRequests", "x")),
            TW_BUSY, 2, "429 TooManyRequests"},
        /* The batch is refused as a whole. */
        {HEAD("413 Too Large") "\r\n" ERROR("RequestBodyTooLarge", "x"),
            TW_TOO_LARGE, 2, "413 RequestBodyTooLarge"},
        {HEAD("400 No") "\r\n" ERROR("InvalidDuplicateRow", "1:x"), TW_INVALID,
            1, "400 InvalidDuplicateRow"},
        {HEAD("202 Accepted") "Content-Type: multipart/mixed; boundary=b\r\n"
                              "\r\n--b--\r\n",
            TW_UNKNOWN, 2, "it has 0 parts for 2 operations"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct batch_result result = {.failed = 99};
        struct err err;
        enum tw_err outcome = batch_answered(cases[i].answer, &result, &err);

        if (outcome != cases[i].outcome || result.failed != cases[i].failed ||
            strstr(err.text, cases[i].says) == NULL)
            fail_msg("case %zu: %s, %zu, '%s'", i, err_name(outcome),
                result.failed, err.text);
        assert_null(strstr(err.text, "secret"));
    }
}

/* Two pages without entities, whose continuation tokens point to each other. */
WIRE_TEST(pages_that_lead_in_a_circle_are_none)
{
#define LEADS_TO(key)                                                          \
    HEAD("200 OK")                                                             \
    "X-MS-Continuation-NextPartitionKey: " key "\r\n\r\n{\"value\":[]}"
    /* The store remembers the token of the fourth page, c. So it detects the
     * circle when the seventh page has the same token. */
    static const char *const pages[] = {LEADS_TO("first"), LEADS_TO("a"),
        LEADS_TO("b"), LEADS_TO("c"), LEADS_TO("a"), LEADS_TO("b"),
        LEADS_TO("c")};
    enum { PAGES = sizeof(pages) / sizeof(pages[0]) };
    struct scan_request request = {.table = "Blogs"};
    unsigned asked = 0;
    enum tw_err outcome;

    bench_open(bench, BY_SAS, pages, PAGES);
    do {
        outcome =
            store_scan(bench->store, &bench->exchange, &request, &bench->page);
        request.from = bench->page.next;
        asked++;
    } while (outcome == TW_OK && asked < PAGES);
    assert_int_equal(outcome, TW_BUSY);
    assert_non_null(strstr(bench->exchange.err.text, "never end"));
    assert_int_equal(asked, PAGES);
    bench_end(bench);
}

/* The worker has no free slot for the second message. */
WIRE_TEST(more_messages_than_were_asked_for_are_not_taken)
{
#define MESSAGE                                                                \
    "<QueueMessage><MessageId>1</MessageId><PopReceipt>r</PopReceipt>"         \
    "<InsertionTime>Mon, 01 Jan 2024 00:00:00 GMT</InsertionTime>"             \
    "</QueueMessage>"
    static const char answer[] =
        HEAD("200 OK") "\r\n<QueueMessagesList>" MESSAGE MESSAGE
                       "</QueueMessagesList>";

    bench_answers(bench, answer);
    assert_int_equal(store_queue_get(bench->store, &bench->exchange, "work", 1,
                         30, &bench->messages),
        TW_BUSY);
    assert_non_null(strstr(bench->exchange.err.text,
        "it has 2 messages, but the request allows 1"));
    assert_int_equal(bench->messages.count, 0);
    bench_end(bench);
}

TEST(cosmos_has_other_traits)
{
    struct store *store;
    struct err err;

    assert_ok(azure_open("c",
        slice_of("AccountName=a;AccountKey=" KEY
                 ";TableEndpoint=https://a.table.cosmos.azure.com:443/"),
        false, &store, &err));
    assert_false(store->capabilities.ordered);
    assert_false(store->capabilities.has_queues);
    assert_true(store->capabilities.late_writes);
    assert_true(store->capabilities.batch_max_bytes < 2000000);
    store_close(store);
    assert_ok(azure_open(
        "d", slice_of("UseDevelopmentStorage=true"), false, &store, &err));
    assert_string_equal(store->capabilities.kind, "azure");
    assert_true(store->capabilities.ordered);
    assert_true(store->capabilities.has_queues);
    store_close(store);
}

/* The host names end in localhost in this test: libcurl resolves them to this
 * machine. */
WIRE_TEST(cosmos_answers_without_a_version)
{
    static const char *const answer =
        BARE_HEAD("200 OK") "Content-Length: 12\r\n\r\n{\"value\":[]}";
    struct err err;
    char text[128];

    unsetenv("http_proxy");
    bench_begin(bench, &answer, 1);
    snprintf(text, sizeof(text),
        "AccountName=a;AccountKey=" KEY
        ";TableEndpoint=http://a.table.cosmos.localhost:%d/",
        http_script_port(bench->script));
    assert_ok(azure_open("c", slice_of(text), true, &bench->store, &err));
    assert_false(bench->store->capabilities.ordered);
    assert_ok(run(bench, CALL_SCAN));
    bench_end(bench);
}

static struct store *opened(const char *name, const char *text)
{
    struct store *store;
    struct err err;

    if (azure_open(name, slice_of(text), false, &store, &err) != TW_OK)
        fail_msg("%s", err.text);
    return store;
}

/* The identity is stored in copies, so it must contain no secret. */
TEST(an_account_has_one_identity_however_it_is_written)
{
    static const struct {
        const char *text, *identity;
    } CASES[] = {
        {"AccountName=a;AccountKey=" KEY, "a.table.core.windows.net"},
        {"TableEndpoint=https://A.table.Core.windows.net:443/;" BY_SAS,
            "a.table.core.windows.net"},
        {"TableEndpoint=https://a-secondary.table.core.windows.net;" BY_SAS,
            "a.table.core.windows.net"},
        {"AccountName=b;AccountKey=" KEY, "b.table.core.windows.net"},
        {"AccountName=a;EndpointSuffix=core.chinacloudapi.cn;AccountKey=" KEY,
            "a.table.core.chinacloudapi.cn"},
        {"UseDevelopmentStorage=true", "127.0.0.1:10002/devstoreaccount1"},
        {"TableEndpoint=http://[::1]:80/One-secondary;" BY_SAS, "[::1]/one"},
        {"TableEndpoint=http://localhost:443/two;" BY_SAS, "localhost:443/two"},
        {"TableEndpoint=https://my-secondary-data.example;" BY_SAS,
            "my-secondary-data.example"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct store *store = opened("s", CASES[i].text);

        assert_string_equal(store->capabilities.identity, CASES[i].identity);
        store_close(store);
    }
}

/* The identity of such an address would not fit into the space that a copy has
 * for it. */
TEST(an_address_that_is_too_long_is_no_identity)
{
    char text[256];
    struct store *store;

    snprintf(text, sizeof(text), "TableEndpoint=https://%0*d;%s",
        STORE_IDENTITY_MAX, 0, BY_SAS);
    store = opened("s", text);
    assert_int_equal(strlen(store->capabilities.identity), STORE_IDENTITY_MAX);
    store_close(store);
    snprintf(text, sizeof(text), "TableEndpoint=https://%0*d;%s",
        STORE_IDENTITY_MAX + 1, 0, BY_SAS);
    store = opened("s", text);
    assert_null(store->capabilities.identity);
    store_close(store);
}

TEST(an_account_is_the_same_whatever_proves_our_rights)
{
    struct store *key = opened("key", "AccountName=a;AccountKey=" KEY);
    struct store *sas =
        opened("sas", "TableEndpoint=https://A.table.core.windows.net/;"
                      "SharedAccessSignature=sv=2019-02-02&sig=x");
    struct store *other = opened("other", "AccountName=b;AccountKey=" KEY);

    assert_true(store_same(key, key));
    assert_true(store_same(key, sas));
    assert_false(store_same(key, other));
    store_close(key);
    store_close(sas);
    store_close(other);
}
