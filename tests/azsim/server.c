/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server: libmicrohttpd with a thread for each connection. A request
 * is read whole. Then its signature is checked, and it waits at the gate. With
 * the account's lock held it is carried out and written into the journal.
 */
#include "tests/azsim/server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "tests/azsim/azsim.h"
#include "tests/azsim/catalog.h"
#include "tests/azsim/console.h"
#include "tests/azsim/exchange.h"
#include "tests/azsim/journal.h"
#include "tests/azsim/knobs.h"
#include "tests/azsim/queue_service.h"
#include "tests/azsim/signature.h"
#include "tests/azsim/table_service.h"
#include "tests/support/bent_platform.h"
#include "tests/support/real_threads.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* Memory for one connection; a URL may contain a filter of some 100 KiB. */
#define CONNECTION_BYTES (256 * 1024)
/* The service stops a request after this time, or earlier if the request has a
 * shorter timeout. */
#define TIMEOUT_MAX_S 30

struct door {
    struct server *server;
    unsigned worker;
    enum service service;
    struct MHD_Daemon *daemon;
};

struct server {
    struct azsim *azsim;
    struct bend *bend;
    unsigned workers;
    struct door doors[KNOBS_MAX_WORKERS][2];
};

/* ---- the steps of a request ---- */

/* Returns whether the timeout of the request is over, by the server's clock. If
 * it is over, the request is not carried out. */
static bool is_over(const struct http_exchange *exchange, int64_t arrived_ms)
{
    int64_t timeout_s;

    if (!exchange_integer(
            exchange, "timeout", TIMEOUT_MAX_S, 1, TIMEOUT_MAX_S, &timeout_s))
        timeout_s = TIMEOUT_MAX_S;
    return platform_boot_ms() - arrived_ms > timeout_s * 1000;
}

static bool is_signed(
    const struct azsim *azsim, const struct http_exchange *exchange)
{
    struct knobs knobs = gates_knobs(azsim->gates);

    for (int i = 0; i < 2; i++)
        if ((knobs.keys & (1 << i)) != 0 &&
            signature_good(exchange, azsim->keys[i], knobs.skew_s))
            return true;
    return false;
}

static enum failure check(struct azsim *azsim, struct http_exchange *exchange)
{
    if (!is_signed(azsim, exchange))
        return FAIL_AUTHENTICATION;
    if (exchange_header(exchange, "x-ms-version").len != strlen("2019-02-02"))
        return FAIL_VERSION;
    if (exchange->body.overflow)
        return FAIL_BODY_TOO_LARGE;
    return FAIL_NONE;
}

static enum failure check_time(
    struct azsim *azsim, struct http_exchange *exchange, bool over)
{
    struct knobs knobs = gates_knobs(azsim->gates);

    if (over)
        return FAIL_TIMED_OUT;
    if (!gates_draw(azsim->gates, knobs.busy_share))
        return FAIL_NONE;
    if (gates_draw(azsim->gates, 250))
        return FAIL_TIMED_OUT;
    if (gates_draw(azsim->gates, knobs.hint_share))
        exchange_field(exchange, "Retry-After", "1");
    return FAIL_SERVER_BUSY;
}

static void carry_out(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange, int64_t arrived_ms)
{
    enum failure failure;

    catalog_lock(account);
    failure = check_time(
        azsim, exchange, !exchange->stuck && is_over(exchange, arrived_ms));
    if (failure != FAIL_NONE)
        exchange_fail(exchange, failure);
    else if (exchange->service == SERVICE_QUEUE)
        queue_service_answer(azsim, account, exchange);
    else
        table_service_answer(azsim, account, exchange);
    if (exchange->status >= 400)
        exchange->changed = false;
    exchange->effected_us = real_threads_us();
    journal_add(azsim->journal, exchange);
    catalog_unlock(account);
}

static void add_common_fields(struct http_exchange *exchange)
{
    struct slice client_id =
        exchange_header(exchange, "x-ms-client-request-id");
    struct slice version = exchange_header(exchange, "x-ms-version");
    char date[TEXT_TIME_MAX];

    exchange_field(
        exchange, "Date", "%s", text_http_date(platform_wall_ticks(), date));
    if (version.at != NULL && exchange->failure != FAIL_AUTHENTICATION)
        exchange_field(exchange, "x-ms-version", "%.*s", SLICE_ARG(version));
    if (client_id.at != NULL && client_id.len <= 1024)
        exchange_field(
            exchange, "x-ms-client-request-id", "%.*s", SLICE_ARG(client_id));
}

static void handle(struct server *server, struct http_exchange *exchange)
{
    struct azsim *azsim = server->azsim;
    int64_t arrived_ms = platform_boot_ms();
    struct account *account;
    enum failure failure;

    if (console_answer(azsim, server->bend, exchange))
        return;
    account = catalog_account(azsim->catalog, exchange->account);
    failure = account ? check(azsim, exchange) : FAIL_AUTHENTICATION;
    if (failure != FAIL_NONE) {
        exchange_fail(exchange, failure);
        journal_add(azsim->journal, exchange);
    } else {
        exchange->stuck = gates_pass(azsim->gates, exchange->worker);
        carry_out(azsim, account, exchange, arrived_ms);
    }
    add_common_fields(exchange);
    gates_after(azsim->gates, exchange->worker);
}

/* ---- libmicrohttpd ---- */

static void *begin(void *arg, const char *uri, struct MHD_Connection *ours)
{
    struct http_exchange *exchange = mem_alloc(sizeof(*exchange));
    const struct door *door = arg;

    exchange_init(exchange, door->service, slice_of(uri));
    exchange->arrived_us = real_threads_us();
    exchange->worker = door->worker;
    return exchange;
}

static enum MHD_Result keep_header(
    void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct http_exchange *exchange = arg;
    struct pairs *headers = &exchange->headers;

    if (headers->count < EXCHANGE_MAX_PAIRS)
        headers->list[headers->count++] =
            (struct pair){arena_copy(&exchange->arena, slice_of(name)),
                arena_copy(&exchange->arena, slice_of(value ? value : ""))};
    return MHD_YES;
}

static enum MHD_Result send_answer(
    struct MHD_Connection *connection, struct http_exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        exchange->answer.len, (void *)(uintptr_t)buf_text(&exchange->answer),
        MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result;

    for (size_t i = 0; i < exchange->fields.count; i++)
        (void)MHD_add_response_header(response,
            exchange->fields.list[i].name.at,
            exchange->fields.list[i].value.at);
    result =
        MHD_queue_response(connection, (unsigned)exchange->status, response);
    MHD_destroy_response(response);
    return result;
}

/* libmicrohttpd calls this with the headers, then with each piece of the body,
 * and then once more at the end. */
static enum MHD_Result serve(void *arg, struct MHD_Connection *connection,
    const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_bytes, void **state)
{
    const struct door *door = arg;
    struct http_exchange *exchange = *state;

    if (exchange->method == NULL) {
        exchange->method = arena_copy(&exchange->arena, slice_of(method)).at;
        (void)MHD_get_connection_values(
            connection, MHD_HEADER_KIND, keep_header, exchange);
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        buf_add(&exchange->body, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    handle(door->server, exchange);
    return send_answer(connection, exchange);
}

static void end(void *arg, struct MHD_Connection *connection, void **state,
    enum MHD_RequestTerminationCode code)
{
    if (*state != NULL) {
        exchange_done(*state);
        mem_free(*state);
    }
    *state = NULL;
}

static bool open_door(struct server *server, unsigned worker, int service)
{
    struct door *door = &server->doors[worker][service];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

    *door = (struct door){
        .server = server, .worker = worker, .service = (enum service)service};
    door->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD |
                                        MHD_USE_THREAD_PER_CONNECTION |
                                        MHD_USE_SUPPRESS_DATE_NO_CLOCK,
        0, NULL, NULL, serve, door, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_URI_LOG_CALLBACK, begin, door, MHD_OPTION_NOTIFY_COMPLETED,
        end, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, 1000u, MHD_OPTION_END);
    return door->daemon != NULL;
}

struct server *server_start(
    struct azsim *azsim, struct bend *bend, unsigned workers)
{
    struct server *server = mem_alloc(sizeof(*server));

    server->azsim = azsim;
    server->bend = bend;
    server->workers = workers;
    for (unsigned i = 0; i < workers; i++)
        if (!open_door(server, i, 0) || !open_door(server, i, 1)) {
            server_stop(server);
            return NULL;
        }
    return server;
}

uint16_t server_port(
    const struct server *server, unsigned worker, unsigned service)
{
    return MHD_get_daemon_info(
        server->doors[worker][service].daemon, MHD_DAEMON_INFO_BIND_PORT)
        ->port;
}

void server_stop(struct server *server)
{
    for (unsigned i = 0; i < KNOBS_MAX_WORKERS; i++) {
        gates_set(server->azsim->gates, i, GATE_OPEN);
        for (int service = 0; service < 2; service++)
            if (server->doors[i][service].daemon != NULL)
                MHD_stop_daemon(server->doors[i][service].daemon);
    }
    mem_free(server);
}
