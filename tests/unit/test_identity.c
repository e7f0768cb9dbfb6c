/* SPDX-License-Identifier: MIT */
/*
 * How an access token is requested for each kind of identity, and how a store
 * uses access tokens; with a scripted token server and a scripted service.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/http_script.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/base/buf.h"
#include "worker/store/azure/azure.h"
#include "worker/store/azure/http.h"
#include "worker/store/azure/identity.h"
#include "worker/store/store.h"

#define CLIENT "11111111-2222-3333-4444-555555555555"
#define HEADER "a-header-that-nobody-may-see"
#define ASSERTION "eyJhc3NlcnRpb24.that-nobody.may_see"
#define TOKEN "eyJ0b2tlbg.that-nobody-may-see.1"
#define NEXT "eyJ0b2tlbg.that-nobody-may-see.2"
#define JSON(token)                                                            \
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"access_token\":\"" token   \
    "\",\"expires_in\":\"3600\",\"token_type\":\"Bearer\"}"
#define STATUS(line, body) "HTTP/1.1 " line "\r\nConnection: close\r\n\r\n" body

static const char *const variables[] = {"AZURE_CLIENT_ID", "AZURE_TENANT_ID",
    "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT",
    "IDENTITY_HEADER", "AZURE_POD_IDENTITY_AUTHORITY_HOST", "http_proxy",
    "HTTPS_PROXY", "https_proxy", "ALL_PROXY"};

/* A store, its token server, and one request for the list of its tables. */
static struct {
    struct script_step token_steps[4], service_steps[4];
    struct http_script *tokens, *service; /* NULL: not opened */
    struct store *store;
    struct exchange exchange;
} bench;

static void bench_free(void)
{
    if (bench.tokens)
        http_script_free(bench.tokens);
    if (bench.service)
        http_script_free(bench.service);
    memset(&bench, 0, sizeof(bench));
}

static int setup(void **state)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    return 0;
}

static int tear_down(void **state)
{
    bench_free();
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, setup, tear_down)

/* Sets the environment variable `name` to the address of the script's server,
 * followed by path. */
static void set_address(
    const char *name, const struct http_script *script, const char *path)
{
    char text[100];

    snprintf(text, sizeof(text), "http://127.0.0.1:%d%s",
        http_script_port(script), path);
    setenv(name, text, 1);
}

/* Starts a server that sends one response. */
static struct http_script *serve(const char *text)
{
    static struct script_step step;

    step = (struct script_step){SCRIPT_LAST, text, 0};
    return http_script_start(&step, 1);
}

/* Result of the last fetch(): the outcome of one request for a token, and the
 * request that the server received. */
static struct {
    enum tw_err outcome;
    struct identity_answer answer;
    int64_t retry_ms;
    struct err err;
    char request[2048]; /* the first request */
    size_t requests;
} fetched;

static void fetch(enum identity_kind kind, struct http_script *script)
{
    const struct identity_options options = {.kind = kind};
    const _Atomic bool closing = false;
    struct http *http = http_new();
    struct identity *identity;
    int64_t sent_ms;

    memset(&fetched, 0, sizeof(fetched));
    if (identity_new(&options, http, &identity, &fetched.err) != TW_OK)
        fail_msg("%s", fetched.err.text);
    fetched.outcome = identity_fetch(identity, &closing, &fetched.answer,
        &sent_ms, &fetched.retry_ms, &fetched.err);
    identity_free(identity);
    http_free(http);
    http_script_end(script);
    fetched.requests = http_script_requests(script);
    if (fetched.requests > 0)
        snprintf(fetched.request, sizeof(fetched.request), "%s",
            http_script_request(script, 0));
    http_script_free(script);
    assert_null(strstr(
        fetched.err.text, kind == IDENTITY_MANAGED ? HEADER : ASSERTION));
}

static void fetch_token(enum identity_kind kind, struct http_script *script)
{
    fetch(kind, script);
    if (fetched.outcome != TW_OK)
        fail_msg("%s", fetched.err.text);
    assert_string_equal(fetched.answer.token, TOKEN);
    assert_int_equal(fetched.answer.lifetime_ms, 3600000);
    identity_answer_done(&fetched.answer);
}

/* A proxy would forward the request to the metadata service of the proxy's own
 * machine. */
FIXTURE_TEST(a_machine_is_asked_for_without_a_proxy)
{
    struct http_script *script = serve(JSON(TOKEN));

    set_address("AZURE_POD_IDENTITY_AUTHORITY_HOST", script, "/");
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:9", 1);
    fetch_token(IDENTITY_MANAGED, script);
    assert_contains(fetched.request,
        "GET /metadata/identity/oauth2/token?api-version=2018-02-01&"
        "resource=https%3A%2F%2Fstorage.azure.com%2F HTTP/1.1\r\n");
    assert_contains(fetched.request, "\r\nMetadata: true\r\n");
}

FIXTURE_TEST(an_app_is_asked_for_with_its_header)
{
    struct http_script *script = serve(JSON(TOKEN));

    set_address("IDENTITY_ENDPOINT", script, "/msi/token/");
    setenv("IDENTITY_HEADER", HEADER, 1);
    setenv("AZURE_CLIENT_ID", CLIENT, 1);
    fetch_token(IDENTITY_MANAGED, script);
    assert_contains(fetched.request,
        "GET /msi/token?api-version=2019-08-01&"
        "resource=https%3A%2F%2Fstorage.azure.com%2F&client_id=" CLIENT
        " HTTP/1.1\r\n");
    assert_contains(fetched.request, "\r\nX-IDENTITY-HEADER: " HEADER "\r\n");
    assert_null(strstr(fetched.request, "Metadata"));
}

static struct http_script *serve_workload(const char *text)
{
    struct http_script *script = serve(text);

    set_address("AZURE_AUTHORITY_HOST", script, "/");
    setenv("AZURE_TENANT_ID", "tenant.example", 1);
    setenv("AZURE_CLIENT_ID", CLIENT, 1);
    setenv("AZURE_FEDERATED_TOKEN_FILE", "assertion", 1);
    text_file_write("assertion", ASSERTION "\n");
    return script;
}

FIXTURE_TEST(a_workload_exchanges_the_token_of_its_cluster)
{
    fetch_token(IDENTITY_WORKLOAD, serve_workload(JSON(TOKEN)));
    assert_contains(
        fetched.request, "POST /tenant.example/oauth2/v2.0/token HTTP/1.1");
    assert_contains(fetched.request,
        "\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    assert_contains(fetched.request,
        "\r\n\r\ngrant_type=client_credentials&client_id=" CLIENT
        "&scope=https%3A%2F%2Fstorage.azure.com%2F.default"
        "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A"
        "client-assertion-type%3Ajwt-bearer&client_assertion=" ASSERTION);
}

/* Responses that any token server may send; one of them contains the secrets of
 * the request. */
static const struct {
    const char *text;
    enum tw_err outcome;
    const char *says;
} no_tokens[] = {
    {STATUS("400 Bad Request", "{\"error\":\"invalid_request\","
                               "\"error_description\":\"Identity not found\"}"),
        TW_REFUSED, "400 invalid_request: Identity not found; check th"},
    {STATUS("401 Unauthorized",
         "{\"error\":\"" HEADER "\",\"error_description\":\"" ASSERTION "\"}"),
        TW_REFUSED, "*****"},
    {STATUS("302 Found", "Location: http://127.0.0.1:9/"), TW_REFUSED,
        "302: the server redirects to another address, which is not "
        "followed"},
    {STATUS("503 Busy", ""), TW_BUSY, ": 503"},
    {STATUS("200 OK", "<html>"), TW_BUSY, "not the JSON of a token server"},
    {STATUS("200 OK", "{\"access_token\":\"a\"}"), TW_BUSY,
        "its validity is unknown"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", TW_BUSY,
        "the answer is incomplete"},
    {"SSH-2.0", TW_BUSY, "127.0.0.1"},
    {NULL, TW_BUSY, "127.0.0.1"},
};

FIXTURE_TEST(what_is_no_token_is_an_outage_or_a_refusal)
{
    for (size_t i = 0; TEST_EACH(i, no_tokens); i++)
        for (int managed = 0; managed < 2; managed++) {
            struct http_script *script;

            setup(NULL);
            script = serve_workload(no_tokens[i].text);
            set_address("IDENTITY_ENDPOINT", script, "/token");
            setenv("IDENTITY_HEADER", HEADER, 1);
            fetch(managed ? IDENTITY_MANAGED : IDENTITY_WORKLOAD, script);
            assert_fails(fetched.outcome, no_tokens[i].outcome, &fetched.err,
                no_tokens[i].says);
            assert_int_equal(fetched.requests, 1);
            assert_memory_equal(
                fetched.err.text, "no access token for the ", 24);
        }
}

FIXTURE_TEST(an_endless_answer_is_cut_off)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    buf_add_text(&text, "HTTP/1.1 200 OK\r\n\r\n{\"access_token\":\"");
    while (text.len < 200000)
        buf_add_text(&text, TOKEN);
    fetch(IDENTITY_WORKLOAD, serve_workload(buf_text(&text)));
    assert_fails(
        fetched.outcome, TW_BUSY, &fetched.err, "larger than 65536 bytes");
    buf_done(&text);
}

FIXTURE_TEST(what_the_server_asks_to_wait_is_known)
{
    fetch(IDENTITY_WORKLOAD,
        serve_workload("HTTP/1.1 429 Busy\r\nRetry-After: 7\r\n"
                       "Content-Length: 0\r\n\r\n"));
    assert_int_equal(fetched.outcome, TW_BUSY);
    assert_int_equal(fetched.retry_ms, 7000);
}

/* The cluster replaces the file from time to time, so the file may be missing
 * or incomplete when it is read. */
FIXTURE_TEST(a_file_without_a_token_is_named)
{
    static const char *const contents[] = {"", " \n", "two\nlines", NULL};

    for (size_t i = 0; TEST_EACH(i, contents); i++) {
        struct http_script *script = serve_workload(JSON(TOKEN));

        if (contents[i])
            text_file_write("assertion", contents[i]);
        else
            unlink("assertion");
        fetch(IDENTITY_WORKLOAD, script);
        assert_fails(fetched.outcome, TW_REFUSED, &fetched.err, "assertion");
        assert_int_equal(fetched.requests, 0);
    }
}

/* ---- an environment that has no identity ---- */

static void refuse(enum identity_kind kind, const char *says)
{
    const struct identity_options options = {.kind = kind};
    struct identity *identity = NULL;
    struct err err = {""};

    assert_fails(
        identity_new(&options, NULL, &identity, &err), TW_INVALID, &err, says);
    assert_null(strstr(err.text, HEADER));
}

FIXTURE_TEST(what_the_environment_lacks_is_named)
{
    refuse(IDENTITY_WORKLOAD, "variable AZURE_FEDERATED_TOKEN_FILE");
    setenv("AZURE_FEDERATED_TOKEN_FILE", "assertion", 1);
    refuse(IDENTITY_WORKLOAD, "variable AZURE_TENANT_ID");
    setenv("AZURE_TENANT_ID", "a/b", 1);
    refuse(IDENTITY_WORKLOAD, "variable AZURE_CLIENT_ID");
    setenv("AZURE_CLIENT_ID", CLIENT, 1);
    refuse(IDENTITY_WORKLOAD, "AZURE_TENANT_ID is not a tenant id");
    setenv("AZURE_TENANT_ID", "t", 1);
    setenv("AZURE_AUTHORITY_HOST", "http://login.example", 1);
    refuse(IDENTITY_WORKLOAD, "AZURE_AUTHORITY_HOST is plain http");
    setenv("AZURE_CLIENT_ID", "me", 1);
    refuse(IDENTITY_WORKLOAD, "AZURE_CLIENT_ID is not a client id");
    setup(NULL);
    setenv("IDENTITY_ENDPOINT", "http://10.0.0.1/token", 1);
    refuse(IDENTITY_MANAGED, "but not IDENTITY_HEADER");
    setenv("IDENTITY_HEADER", HEADER "\r\nX-Other: 1", 1);
    refuse(IDENTITY_MANAGED, "IDENTITY_HEADER has blanks");
    setup(NULL);
    setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://10.0.0.1", 1);
    refuse(IDENTITY_MANAGED, "is plain http");
}

/* ---- a store ---- */

#define AZURE(line, more)                                                      \
    "HTTP/1.1 " line "\r\nx-ms-version: 2019-02-02\r\nx-ms-request-id: 1\r\n"  \
    "Connection: close\r\n" more "\r\n"
#define PAGE AZURE("200 OK", "") "{\"value\":[]}"
#define EXPIRED                                                                \
    AZURE("401 Unauthorized", "x-ms-error-code: "                              \
                              "InvalidAuthenticationInfo\r\n")
#define OLD_EXPIRED                                                            \
    AZURE("403 Forbidden", "x-ms-error-code: AuthenticationFailed\r\n")

/* Starts a server that sends the responses `texts` in turn: at most four. NULL
 * ends a shorter list. */
static struct http_script *serve_all(
    const char *const *texts, struct script_step steps[4])
{
    size_t count = 0;

    for (; count < 4 && texts[count]; count++)
        steps[count] = (struct script_step){SCRIPT_LAST, texts[count], 0};
    return http_script_start(steps, count);
}

static void bench_open(const char *const *tokens, const char *const *answers)
{
    const struct identity_options options = {.kind = IDENTITY_MANAGED};
    char text[200];
    struct err err = {""};
    int port;

    bench_free();
    bench.tokens = serve_all(tokens, bench.token_steps);
    bench.service = serve_all(answers, bench.service_steps);
    port = http_script_port(bench.service);
    set_address("AZURE_POD_IDENTITY_AUTHORITY_HOST", bench.tokens, "");
    snprintf(text, sizeof(text),
        "TableEndpoint=http://127.0.0.1:%d/acct;"
        "QueueEndpoint=http://127.0.0.1:%d/acct",
        port, port);
    if (azure_open_identity(
            "main", slice_of(text), &options, &bench.store, &err) != TW_OK)
        fail_msg("%s", err.text);
}

static enum tw_err list(void)
{
    struct continuation from = {.more = false};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_list_tables(bench.store, &bench.exchange, from, &page);
    page_done(&page);
    assert_null(strstr(bench.exchange.err.text, "that-nobody-may-see"));
    return outcome;
}

/* Closes the store and ends both servers. The service must have received
 * `requests` requests. */
static void bench_end(size_t requests)
{
    store_close(bench.store);
    http_script_end(bench.tokens);
    http_script_end(bench.service);
    assert_int_equal(http_script_requests(bench.service), requests);
}

static void carries(size_t index, const char *token)
{
    char line[200];

    snprintf(line, sizeof(line), "\r\nAuthorization: Bearer %s\r\n", token);
    assert_contains(http_script_request(bench.service, index), line);
    assert_contains(http_script_request(bench.service, index),
        "\r\nx-ms-version: 2019-02-02\r\n");
}

static const char *const one_token[] = {JSON(TOKEN), NULL};
static const char *const two_tokens[] = {JSON(TOKEN), JSON(NEXT), NULL};

FIXTURE_TEST(a_request_whose_token_was_refused_is_sent_again_with_a_new_one)
{
    static const char *const refusals[] = {EXPIRED, OLD_EXPIRED,
        AZURE("400 Bad Request",
            "x-ms-error-code: InvalidAuthenticationInfo\r\n")};

    for (size_t i = 0; TEST_EACH(i, refusals); i++) {
        bench_open(two_tokens, (const char *[]){refusals[i], PAGE, NULL});
        assert_ok(list());
        assert_string_equal(bench.exchange.err.text, "");
        bench_end(2);
        carries(0, TOKEN);
        carries(1, NEXT);
    }
}

/* A refused request is repeated once, with a new token. After that, the token
 * server gets no further requests. */
FIXTURE_TEST(a_service_that_refuses_every_token_is_told_so)
{
    static const char *const answers[] = {EXPIRED, EXPIRED, EXPIRED, NULL};

    bench_open(two_tokens, answers);
    assert_fails(list(), TW_REFUSED, &bench.exchange.err,
        "401 InvalidAuthenticationInfo: the access token is refused");
    assert_int_equal(list(), TW_REFUSED);
    bench_end(3);
    assert_int_equal(http_script_requests(bench.tokens), 2);
}

FIXTURE_TEST(a_missing_role_is_named_and_asks_for_no_token)
{
    static const char *const answers[] = {
        AZURE("403 Forbidden",
            "x-ms-error-code: AuthorizationPermissionMismatch\r\n"),
        NULL};
    int64_t count;

    bench_open(one_token, answers);
    assert_fails(list(), TW_FORBIDDEN, &bench.exchange.err,
        "role Storage Table Data Contributor");
    bench_end(1);
    bench_open(one_token, answers);
    assert_fails(
        store_queue_count(bench.store, &bench.exchange, "work", &count),
        TW_FORBIDDEN, &bench.exchange.err,
        "role Storage Queue Data Contributor");
    bench_end(1);
}

FIXTURE_TEST(without_a_token_nothing_is_sent)
{
    static const char *const busy[] = {STATUS("500 No", ""),
        STATUS("500 No", ""), STATUS("500 No", ""), STATUS("500 No", "")};
    static const char *const refuses[] = {
        STATUS("400 No", "{\"error\":\"invalid_request\"}"), NULL};

    bench_open(busy, one_token);
    assert_fails(list(), TW_BUSY, &bench.exchange.err,
        "list tables: no access token for the managed identity of this "
        "machine (127.0.0.1 port ");
    assert_true(bench.exchange.breaker_open);
    assert_int_equal(bench.exchange.sent_ms, 0);
    bench_end(0);
    bench_open(refuses, one_token);
    assert_fails(list(), TW_REFUSED, &bench.exchange.err,
        "400 invalid_request; check that an identity is assigned");
    assert_false(bench.exchange.breaker_open);
    bench_end(0);
}

/* A proxy may quote the request in its error message. */
FIXTURE_TEST(a_message_that_quotes_the_token_does_not_show_it)
{
    static const char *const answers[] = {
        AZURE("409 Conflict",
            "x-ms-error-code: X\r\n") "{\"odata.error\":{\"code\":\"X\","
                                      "\"message\":{\"value\":"
                                      "\"Bearer " TOKEN " it was\"}}}",
        NULL};

    bench_open(one_token, answers);
    assert_fails(list(), TW_CONFLICT, &bench.exchange.err, "Bearer *****");
    bench_end(1);
}

FIXTURE_TEST(a_token_goes_to_https_or_this_host_only)
{
    static const struct {
        const char *endpoints, *says;
    } cases[] = {
        {"TableEndpoint=http://10.0.0.1/acct",
            "TableEndpoint is plain http, which would show an access token"},
        {"DefaultEndpointsProtocol=http;AccountName=acct",
            "is plain http, which would show an access token"},
        {"AccountName=acct;AccountKey=c2VjcmV0", "has a key or a signature"},
        {"UseDevelopmentStorage=true", "has a key or a signature"},
        {"TableEndpoint=https://a.table.core.windows.net;"
         "SharedAccessSignature=sv=1&sig=c2VjcmV0",
            "has a key or a signature"},
        {"TableEndpoint=https://a.table.cosmos.azure.com:443",
            "Cosmos DB for Table needs its key"},
    };
    const struct identity_options options = {.kind = IDENTITY_MANAGED};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct store *store = NULL;
        struct err err = {""};

        assert_fails(azure_open_identity("main", slice_of(cases[i].endpoints),
                         &options, &store, &err),
            TW_INVALID, &err, cases[i].says);
        assert_null(strstr(err.text, "c2VjcmV0"));
    }
}
