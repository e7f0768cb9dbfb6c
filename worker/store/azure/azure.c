/* SPDX-License-Identifier: MIT */
/*
 * The azure store: each operation of the store contract is one request. The
 * pure codecs in this folder build the request, http.h sends it once, answer.h
 * determines the outcome of the response.
 */
#include "worker/store/azure/azure.h"

#include <stdio.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/access_token.h"
#include "worker/store/azure/account.h"
#include "worker/store/azure/answer.h"
#include "worker/store/azure/batch.h"
#include "worker/store/azure/credential.h"
#include "worker/store/azure/http.h"
#include "worker/store/azure/identity.h"
#include "worker/store/azure/odata.h"
#include "worker/store/azure/queue_xml.h"
#include "worker/store/azure/redact.h"
#include "worker/store/azure/sign.h"
#include "worker/store/store.h"

#define API_VERSION "2019-02-02"
#define JSON_TYPE "application/json"
#define JSON_ACCEPT "application/json;odata=minimalmetadata"
#define XML_TYPE "application/xml"
#define BEARER "Bearer "

/* Maximum size of a URL: room for the largest filter and continuation. */
#define URL_MAX_BYTES (1024 * 1024)
/* Maximum size of a response with one entity: 1 MiB, of which each UTF-16 unit
 * may be written as \uXXXX. */
#define ENTITY_ANSWER_MAX (16 * 1024 * 1024)
/* Maximum size of a response with messages: 32 messages of 64 KiB each, with
 * every character escaped. */
#define MESSAGES_ANSWER_MAX (16 * 1024 * 1024)
/* Maximum size of all other responses. */
#define ANSWER_MAX (1024 * 1024)
/* The part of a batch's maximum size that is reserved for everything except the
 * JSON of the entities. An entity needs some 350 bytes of it, or some 10 KiB if
 * its keys make a long URL. */
#define BATCH_FRAME_BYTES (256 * 1024)
#define COSMOS_BATCH_MAX_BYTES 2000000
/* The service's time limit for a request is 30 s. */
#define SERVER_TIMEOUT_MAX_S 30
#define SERVER_TIMEOUT_MARGIN_MS 500
/* If the local clock is wrong by this time or more, it is the probable cause of
 * a refused signature. */
#define CLOCK_OFF_TICKS (300 * TICKS_PER_S)

/* Maximum size of an Authorization header's value. */
#define AUTHORIZATION_MAX (IDENTITY_TOKEN_MAX + 512)

struct azure {
    struct store store;
    struct credential *credential; /* the account: addresses, key or SAS */
    struct http *http;
    struct identity *acts_as;   /* the identity whose access tokens are sent;
                                   NULL: a key or a SAS is used */
    struct access_token *token; /* the access token of acts_as */
    char *log_name;             /* "store main" */
    char *place;                /* address of the table endpoint */
    char *identity;
    char *account_name;  /* NULL: unknown */
    char *cloud_account; /* NULL: unknown */
};

/* One request and its response, from call_init() to call_done(). */
struct call {
    struct azure *azure;
    /* The store's newest account when the call began. Owned. */
    struct account *account;
    struct exchange *exchange;
    const char *operation; /* such as "scan"; error texts and log lines name a
                              call by operation and target */
    const char *target;    /* the table's or queue's name                */
    bool queue;            /* the request is for the queue service */
    bool write;            /* the request changes something */
    bool needs_resource;   /* the request names a table or an entity, so a 404
                              ResourceNotFound means that the table or entity is
                              missing */
    const char *method;    /* GET unless set                             */
    const char *type;      /* Content-Type, "": no body                  */
    const char *prefer;    /* the Prefer header, NULL: none              */
    size_t max_answer_bytes;
    const struct scan_request
        *scan;        /* the scan whose page is requested, or NULL */
    struct buf path;  /* path below the endpoint's path, percent-encoded */
    struct buf query; /* the operation's own parameters, percent-encoded */
    struct buf body;
    struct buf authorization; /* value of the Authorization header; empty: a SAS
                                 is used */
    uint64_t token_number;    /* number of the token in authorization; 0: no
                                 token */
    struct http_answer answer;
    struct answer_error error; /* code and message of an error response */
};

static struct azure *azure_of(struct store *store)
{
    return (struct azure *)store;
}

static void call_init(struct call *call, struct store *store,
    struct exchange *exchange, const char *operation, const char *target)
{
    *call = (struct call){
        .azure = azure_of(store),
        .account = credential_account(azure_of(store)->credential),
        .exchange = exchange,
        .operation = operation,
        .target = target,
        .method = "GET",
        .type = "",
        .max_answer_bytes = ANSWER_MAX,
    };
    buf_init(&call->path, URL_MAX_BYTES);
    buf_init(&call->query, URL_MAX_BYTES);
    buf_init(&call->body, BATCH_MAX_BYTES);
    buf_init(&call->authorization, AUTHORIZATION_MAX);
    http_answer_init(&call->answer);
}

static void hide_secrets(const struct call *call, char *text)
{
    redact(text, redact_signature(buf_slice(&call->authorization)));
    redact_sas(text, call->account->sas);
}

static void wipe(struct buf *buf)
{
    if (buf->at != NULL)
        crypto_wipe(buf->at, buf->room);
    buf_done(buf);
}

/* Ends a call. Hides secrets in the error text, which goes to logs and the
 * ledger and may quote the service or a proxy. */
static void call_done(struct call *call)
{
    hide_secrets(call, call->exchange->err.text);
    wipe(&call->authorization);
    buf_done(&call->path);
    buf_done(&call->query);
    buf_done(&call->body);
    http_answer_done(&call->answer);
    account_free(call->account);
}

static const struct endpoint *call_endpoint(const struct call *call)
{
    const struct account *account = call->account;

    return call->queue ? &account->queue : &account->table;
}

/* Puts the operation before the error text: "scan Blogs: ...". Returns code. */
static enum tw_err call_named(const struct call *call, enum tw_err outcome)
{
    err_prefix(&call->exchange->err, "%s%s%s", call->operation,
        call->target[0] != '\0' ? " " : "", call->target);
    return outcome;
}

/* ---- sending ---- */

/* Limits the service's time, so that it does not work on a request for which
 * the client no longer waits. Cosmos DB documents no such parameter. */
static void add_server_timeout(struct call *call)
{
    int64_t timeout_ms = deadline_timeout_ms(call->exchange->deadline);
    int64_t timeout_s = (timeout_ms - SERVER_TIMEOUT_MARGIN_MS) / 1000;

    if (call->account->cosmos)
        return;
    if (timeout_s > SERVER_TIMEOUT_MAX_S)
        timeout_s = SERVER_TIMEOUT_MAX_S;
    buf_add_format(&call->query, "%stimeout=%d", call->query.len > 0 ? "&" : "",
        timeout_s < 1 ? 1 : (int)timeout_s);
}

struct headers {
    struct http_header list[12];
    size_t count;
    size_t echo; /* index of the header that every response repeats */
    char date[TEXT_TIME_MAX];
    char request_id[TRACEPARENT_LEN + 1 + TEXT_UUID_MAX];
};

static void add_header(
    struct headers *headers, const char *name, const char *value)
{
    headers->list[headers->count++] = (struct http_header){name, value};
}

/* Makes a value that no other request has, so that a response that repeats it
 * belongs to this request. If the run has a traceparent, the value begins with
 * the traceparent, so that the service's logs show the trace of the request. */
static void make_request_id(const struct call *call, struct headers *headers)
{
    const char *trace = call->exchange->traceparent;
    char id[TEXT_UUID_MAX];

    text_random_uuid(id);
    (void)snprintf(headers->request_id, sizeof(headers->request_id), "%.*s%s%s",
        TRACEPARENT_LEN, trace ? trace : "", trace ? "/" : "", id);
}

static void add_common_headers(const struct call *call, struct headers *headers)
{
    text_http_date(platform_wall_ticks(), headers->date);
    make_request_id(call, headers);
    add_header(headers, "User-Agent", "tableward/" TABLEWARD_VERSION);
    add_header(headers, "Accept", call->queue ? XML_TYPE : JSON_ACCEPT);
    add_header(headers, "x-ms-version", API_VERSION);
    add_header(headers, "x-ms-date", headers->date);
    headers->echo = headers->count;
    add_header(headers, "x-ms-client-request-id", headers->request_id);
    if (!call->queue) {
        add_header(headers, "DataServiceVersion", "3.0;");
        add_header(headers, "MaxDataServiceVersion", "3.0;NetFx");
    }
    if (call->type[0] != '\0')
        add_header(headers, "Content-Type", call->type);
    if (call->prefer != NULL)
        add_header(headers, "Prefer", call->prefer);
}

/* Sets call->authorization to "Bearer TOKEN", with a different token than
 * before. TW_CONFLICT: there is no other token, see access_token_add(); err and
 * authorization are unchanged. */
static enum tw_err get_token(struct call *call)
{
    struct exchange *exchange = call->exchange;
    const struct access_token_wait wait = {
        exchange->deadline, exchange->gives_up, exchange->context};
    struct buf fresh;
    enum tw_err outcome;

    if (call->azure->token == NULL)
        return TW_OK;
    buf_init(&fresh, AUTHORIZATION_MAX);
    buf_add_text(&fresh, BEARER);
    outcome = access_token_add(call->azure->token, call->token_number, &wait,
        &fresh, &call->token_number, &exchange->err);
    if (outcome == TW_OK) {
        wipe(&call->authorization);
        call->authorization = fresh;
    } else {
        wipe(&fresh);
    }
    /* Other requests would fail for the same reason now, so the caller need not
     * retry at once. */
    exchange->breaker_open = outcome == TW_BUSY;
    return outcome;
}

/* Adds the Authorization header of a signature. path: as sent, including the
 * endpoint's own path. */
static void add_signature(
    struct call *call, struct slice path, struct headers *headers)
{
    const struct account *account = call->account;
    struct sign_request request = {
        .method = call->method,
        .account = account->name,
        .path = path,
        .query = buf_slice(&call->query),
        .content_type = call->type,
        .content_length = call->body.len,
        .date = headers->date,
        .headers = headers->list,
        .header_count = headers->count,
    };

    sign_authorization(call->queue ? SIGN_QUEUE : SIGN_TABLE, &request,
        account->key, &call->authorization);
    add_header(headers, "Authorization", buf_text(&call->authorization));
}

/* Makes the whole URL; *ret_path is the part of the URL that is signed. */
static void make_url(
    const struct call *call, struct buf *url, struct slice *ret_path)
{
    const struct endpoint *endpoint = call_endpoint(call);
    const char *sas = call->account->sas;
    size_t path_begin = strlen(endpoint->origin), path_end;
    char separator = '?';

    buf_add_format(url, "%s%s", endpoint->origin, endpoint->path);
    buf_add_slice(url, buf_slice(&call->path));
    path_end = url->len;
    if (call->query.len > 0) {
        buf_add_char(url, separator);
        buf_add_slice(url, buf_slice(&call->query));
        separator = '&';
    }
    if (sas != NULL) {
        /* Room is reserved first. Otherwise url might move while sas is added,
         * and a part of sas would stay in the memory that url has left. */
        buf_reserve(url, strlen(sas) + 1);
        buf_add_format(url, "%c%s", separator, sas);
    }
    *ret_path =
        (struct slice){buf_text(url) + path_begin, path_end - path_begin};
}

static void log_call(const struct call *call, int64_t begun_ms)
{
    log_debug(call->azure->log_name,
        "%s%s%s: %d%s%s in %lld ms, %zu bytes sent, %zu received",
        call->operation, call->target[0] != '\0' ? " " : "", call->target,
        call->answer.status, call->error.code[0] != '\0' ? " " : "",
        call->error.code, (long long)(platform_boot_ms() - begun_ms),
        call->body.len, call->answer.body.len);
}

/* Does the response have the service's own Date? The Date of a proxy is from
 * another clock, and no lease may be computed from it. Azure and Azurite put at
 * least one of the fields in names into every response. Cosmos DB does not, but
 * no ledger is on Cosmos DB. */
static bool is_from_service(const struct call *call)
{
    static const char *const names[] = {
        "x-ms-version", "x-ms-request-id", "x-ms-error-code"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (http_answer_field(&call->answer, names[i]).len > 0)
            return true;
    return call->account->cosmos;
}

/* Copies what the response shows into the exchange, for any status. */
static void keep_answer(struct call *call)
{
    struct exchange *exchange = call->exchange;
    const struct http_answer *answer = &call->answer;

    exchange->sent_ms = answer->sent_ms;
    exchange->http_status = answer->status;
    exchange->date_ticks =
        is_from_service(call) ? answer_date_ticks(answer) : 0;
    exchange->retry_after_ms = answer_retry_after_ms(answer);
    if (answer->status < 200 || answer->status > 299)
        answer_read_error(answer, &call->error);
    hide_secrets(call, call->error.code);
    hide_secrets(call, call->error.message);
}

#define NEXT_PARTITION "x-ms-continuation-NextPartitionKey"
#define NEXT_ROW "x-ms-continuation-NextRowKey"

static struct continuation continuation_of(
    const struct http_answer *answer, const char *first, const char *second)
{
    struct slice partition_key = http_answer_field(answer, first);
    struct slice row_key = http_answer_field(answer, second);

    return (struct continuation){
        .partition_key = partition_key,
        .row_key = row_key,
        .more = partition_key.len > 0 || row_key.len > 0,
    };
}

/* Reports where the next page begins, before this page's body has arrived. */
static void take_head(void *context, const struct http_answer *head)
{
    const struct call *call = context;
    const struct scan_request *scan = call->scan;
    const struct continuation next =
        continuation_of(head, NEXT_PARTITION, NEXT_ROW);

    if (head->status == 200 && next.more && scan->follows != NULL)
        scan->follows(scan->context, &next);
}

static void add_authorization(
    struct call *call, struct slice path, struct headers *headers)
{
    if (call->token_number != 0)
        add_header(headers, "Authorization", buf_text(&call->authorization));
    else if (call->account->key != NULL)
        add_signature(call, path, headers);
}

static enum tw_err transfer(
    struct call *call, struct buf *url, struct headers *headers)
{
    const struct endpoint *endpoint = call_endpoint(call);
    struct exchange *exchange = call->exchange;
    int64_t begun_ms = platform_boot_ms();
    struct slice path;
    enum tw_err outcome;

    make_url(call, url, &path);
    add_common_headers(call, headers);
    add_authorization(call, path, headers);
    if (url->overflow || call->path.overflow || call->query.overflow)
        return err_fail(&exchange->err, TW_INVALID,
            "the filter and the keys need a URL of more than %d bytes",
            URL_MAX_BYTES);
    outcome = http_send(call->azure->http,
        &(struct http_request){
            .method = call->method,
            .url = buf_text(url),
            .peer = endpoint->peer,
            .no_proxy = endpoint->loopback,
            .headers = headers->list,
            .header_count = headers->count,
            .echo = &headers->list[headers->echo],
            .body = buf_slice(&call->body),
            .max_answer_bytes = call->max_answer_bytes,
            .gives_up = exchange->gives_up,
            .context = exchange->context,
            .head = call->scan != NULL ? take_head : NULL,
            .head_context = call,
        },
        exchange->deadline, &call->answer, &exchange->err);
    keep_answer(call);
    log_call(call, begun_ms);
    /* A change may have been applied although its response is too long. */
    return outcome == TW_TOO_LARGE && call->write ? TW_UNKNOWN : outcome;
}

/* ---- judging ---- */

/* May the service's message be shown? The messages of 401 and 403 may quote the
 * signed text. */
static bool shows_message(const struct call *call)
{
    return call->error.message[0] != '\0' && call->answer.status != 401 &&
           call->answer.status != 403;
}

/* Adds "; the clock of this machine is 20 minutes fast" if the clock is the
 * probable cause of a 403. */
static void add_clock(const struct call *call, struct buf *sentence)
{
    int64_t off = call->exchange->date_ticks - platform_wall_ticks();

    if (call->answer.status != 403 || call->exchange->date_ticks == 0)
        return;
    if (off > -CLOCK_OFF_TICKS && off < CLOCK_OFF_TICKS)
        return;
    buf_add_format(sentence, "; the clock of this machine is %lld minutes %s",
        (long long)((off < 0 ? -off : off) / (60 * TICKS_PER_S)),
        off < 0 ? "fast" : "slow");
}

static void add_request_id(const struct call *call, struct buf *sentence)
{
    struct slice id = http_answer_field(&call->answer, "x-ms-request-id");

    if (id.len == 0 || id.len >= 128)
        return;
    buf_add_text(sentence, " (request id ");
    text_visible(sentence, id);
    buf_add_char(sentence, ')');
}

/* May the message contain an address with a SAS? The SAS may be that of this
 * store or of another one. */
static bool quotes_signature(const char *message)
{
    return strcasestr(message, "sig=") != NULL ||
           strcasestr(message, "sig%3d") != NULL;
}

/* Makes the error text, such as "403 AuthenticationFailed: check the account
 * key ... (request id ...)". Received text is escaped, because the error text
 * goes into logs and the ledger. */
static enum tw_err refuse(struct call *call, int status, const char *code,
    const char *message, enum tw_err outcome)
{
    const char *advice = call->token_number != 0
                             ? answer_token_advice(status, code, call->queue)
                             : answer_advice(status, code);
    struct buf sentence;

    buf_init(&sentence, sizeof(call->exchange->err.text) - 1);
    buf_add_format(
        &sentence, "%d%s%s", status, code[0] != '\0' ? " " : "", code);
    if (advice != NULL) {
        buf_add_format(&sentence, ": %s", advice);
    } else if (message[0] != '\0' && !quotes_signature(message)) {
        buf_add_text(&sentence, ": ");
        text_visible(&sentence, slice_of(message));
    }
    add_clock(call, &sentence);
    add_request_id(call, &sentence);
    err_fail(&call->exchange->err, outcome, "%s", buf_text(&sentence));
    buf_done(&sentence);
    return outcome;
}

/* Use this for an invalid 2xx response, after the reason was put into
 * exchange->err. Returns TW_UNKNOWN for a change, which may have been applied,
 * and TW_BUSY for a read, which may be retried. */
static enum tw_err garbled(struct call *call)
{
    err_prefix(&call->exchange->err,
        "%d, but the response is not from a storage service (check the "
        "endpoint and any proxy)",
        call->answer.status);
    return call_named(call, call->write ? TW_UNKNOWN : TW_BUSY);
}

/*
 * Does a 404 come from a wrong address? True for a 404 without a code, which
 * the service does not send. True also for ResourceNotFound if the request
 * names no table or entity, because the account then does not exist. Such a 404
 * shows nothing about what is stored.
 */
static bool is_wrong_address(const struct call *call)
{
    const char *code = call->error.code;

    return code[0] == '\0' ||
           (!call->needs_resource && strcmp(code, "ResourceNotFound") == 0);
}

static enum tw_err judge_status(struct call *call)
{
    int status = call->answer.status;
    enum tw_err outcome = answer_outcome(status, call->error.code, call->write);

    if (outcome == TW_OK)
        return TW_OK;
    if (outcome == TW_NOT_FOUND && is_wrong_address(call))
        return refuse(call, status, call->error.code,
            "check the endpoint and the account's name", TW_REFUSED);
    return refuse(call, status, call->error.code,
        shows_message(call) ? call->error.message : "", outcome);
}

/* Does the response contain the signature of the request? No entity and no
 * message contains it, so such a response does not come from the service. */
static bool repeats_signature(const struct call *call)
{
    struct slice signature = redact_signature(buf_slice(&call->authorization));
    struct slice body = buf_slice(&call->answer.body);

    return signature.len > 0 && body.len > 0 &&
           memmem(body.at, body.len, signature.at, signature.len) != NULL;
}

/*
 * Checks that a 2xx response comes from the service. The service responds 200
 * to every read, and never to a change. So a change with status 200 was
 * answered by something else, for instance a login page. Azure and Azurite put
 * x-ms-version into every success (Cosmos DB does not). If this field is
 * missing, a page's continuation may be missing too, and a scan would end
 * early.
 */
static enum tw_err check_success(struct call *call)
{
    struct err *err = &call->exchange->err;

    if ((call->answer.status == 200) == call->write)
        err_fail(err, TW_UNKNOWN, "another status was expected");
    else if (!call->account->cosmos &&
             http_answer_field(&call->answer, "x-ms-version").len == 0)
        err_fail(err, TW_UNKNOWN,
            "it has no x-ms-version: a proxy removed header fields, or this is "
            "not Azure Storage");
    else if (repeats_signature(call))
        err_fail(err, TW_UNKNOWN, "it contains the signature that was sent");
    else
        return TW_OK;
    return garbled(call);
}

/* Sends the request once. TW_OK: a 2xx response has come. */
static enum tw_err send_once(struct call *call)
{
    struct headers headers = {.count = 0};
    struct buf url;
    enum tw_err outcome;

    buf_init(&url, 2 * URL_MAX_BYTES);
    outcome = transfer(call, &url, &headers);
    if (outcome == TW_OK)
        outcome = judge_status(call);
    wipe(&url);
    return outcome;
}

/* Did the service refuse the access token itself, and not the operation? The
 * status of such a response depends on the version of the service. */
static bool is_token_refused(const struct call *call)
{
    return call->token_number != 0 &&
           answer_is_token_refused(call->answer.status, call->error.code);
}

/* Sends a request once more with a new token. The request was refused, so it
 * was not carried out. Returns `refusal` if there is no new token. */
static enum tw_err send_with_new_token(struct call *call, enum tw_err refusal)
{
    enum tw_err outcome = get_token(call);

    if (outcome == TW_CONFLICT)
        return refusal;
    if (outcome != TW_OK)
        return outcome;
    log_debug(call->azure->log_name,
        "%s %s: the access token was refused; the request is retried with a "
        "new token",
        call->operation, call->target);
    call->exchange->err.text[0] = '\0';
    call->error = (struct answer_error){.code = ""};
    return send_once(call);
}

/* Sends the request, and maps every error response to its outcome. On TW_OK the
 * response has the expected status. */
static enum tw_err call_send(struct call *call)
{
    enum tw_err outcome;

    add_server_timeout(call);
    outcome = get_token(call);
    if (outcome == TW_OK)
        outcome = send_once(call);
    if (outcome == TW_REFUSED && is_token_refused(call))
        outcome = send_with_new_token(call, outcome);
    if (outcome != TW_OK)
        return call_named(call, outcome);
    return check_success(call);
}

static bool call_met(const struct call *call, const char *code)
{
    return strcmp(call->error.code, code) == 0;
}

/* ---- tables ---- */

/* Creates a resource that may exist already. */
static enum tw_err send_creation(struct call *call, const char *exists_code)
{
    enum tw_err outcome = call_send(call);

    if (outcome == TW_CONFLICT && call_met(call, exists_code)) {
        call->exchange->err.text[0] = '\0';
        return TW_OK;
    }
    return outcome;
}

static enum tw_err azure_create_table(
    struct store *store, struct exchange *exchange, const char *table)
{
    struct call call;
    enum tw_err outcome;

    call_init(&call, store, exchange, "create table", table);
    call.write = true;
    call.method = "POST";
    call.type = JSON_TYPE;
    call.prefer = "return-no-content";
    buf_add_text(&call.path, "/Tables");
    buf_add_format(&call.body, "{\"TableName\":\"%s\"}", table);
    outcome = send_creation(&call, "TableAlreadyExists");
    call_done(&call);
    return outcome;
}

/* Lets the response use the memory of the page's previous body. */
static void lend_body(struct call *call, struct page *page)
{
    call->answer.body = page->body;
    buf_init(&page->body, 0);
}

/* Moves the response's body into the page, whose entities point into it. */
static struct slice keep_body(struct call *call, struct page *page)
{
    page->body = call->answer.body;
    buf_init(&call->answer.body, 0);
    return buf_slice(&page->body);
}

/* Copies the continuation from the response's header fields into the page's
 * arena. */
static struct continuation read_continuation(
    struct call *call, struct page *page, const char *first, const char *second)
{
    struct continuation next = continuation_of(&call->answer, first, second);

    next.partition_key = arena_copy(&page->arena, next.partition_key);
    next.row_key = arena_copy(&page->arena, next.row_key);
    return next;
}

/* Returns the outcome of a list or scan; code is the outcome of parsing its
 * page. */
static enum tw_err judge_page(
    struct call *call, struct page *page, enum tw_err outcome)
{
    if (outcome != TW_OK) {
        page->count = 0;
        page->next = (struct continuation){.more = false};
    }
    if (outcome == TW_UNKNOWN)
        return garbled(call);
    return outcome == TW_OK ? TW_OK : call_named(call, outcome);
}

static enum tw_err azure_list_tables(struct store *store,
    struct exchange *exchange, struct continuation from, struct page *ret)
{
    struct call call;
    enum tw_err outcome;

    call_init(&call, store, exchange, "list tables", "");
    buf_add_text(&call.path, "/Tables");
    odata_add_tables_query(&call.query, &from);
    lend_body(&call, ret);
    outcome = call_send(&call);
    if (outcome == TW_OK) {
        ret->next =
            read_continuation(&call, ret, "x-ms-continuation-NextTableName",
                "x-ms-continuation-NextTableName");
        outcome = judge_page(&call, ret,
            odata_tables(keep_body(&call, ret), ret, &exchange->err));
    }
    call_done(&call);
    return outcome;
}

static enum tw_err azure_scan(struct store *store, struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    struct call call;
    enum tw_err outcome;

    call_init(&call, store, exchange, "scan", request->table);
    call.max_answer_bytes = request->max_bytes;
    /* Cosmos DB responds ResourceNotFound for a missing table. */
    call.needs_resource = true;
    call.scan = request;
    buf_add_format(&call.path, "/%s()", request->table);
    odata_add_scan_query(&call.query, request);
    lend_body(&call, ret);
    outcome = call_send(&call);
    if (outcome == TW_OK) {
        ret->next = read_continuation(&call, ret, NEXT_PARTITION, NEXT_ROW);
        outcome = judge_page(&call, ret,
            odata_page(keep_body(&call, ret), true, ret, &exchange->err));
    }
    call_done(&call);
    return outcome;
}

/* Reads the entity of the response, which must be the requested one. */
static enum tw_err read_asked(struct call *call, struct slice partition_key,
    struct slice row_key, struct page *page)
{
    struct err *err = &call->exchange->err;
    enum tw_err outcome = odata_entity(keep_body(call, page), true, page, err);
    const struct entity *entity = page->entities;

    if (outcome == TW_OK &&
        !(slice_equal(entity->partition_key, partition_key) &&
            slice_equal(entity->row_key, row_key)))
        outcome = err_fail(
            err, TW_UNKNOWN, "it has an entity that was not requested");
    return judge_page(call, page, outcome);
}

static enum tw_err azure_get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    struct call call;
    enum tw_err outcome;

    call_init(&call, store, exchange, "get", table);
    call.max_answer_bytes = ENTITY_ANSWER_MAX;
    call.needs_resource = true;
    odata_add_entity_path(&call.path, table, partition_key, row_key);
    lend_body(&call, ret);
    outcome = call_send(&call);
    if (outcome == TW_OK)
        outcome = read_asked(&call, partition_key, row_key, ret);
    call_done(&call);
    return outcome;
}

/* ---- batches ---- */

static enum tw_err write_batch(
    struct call *call, const struct batch *batch, struct buf *type)
{
    const struct account *account = call->account;
    char batch_id[37], changeset_id[37];
    struct batch_style style = {
        .origin = account->table.origin,
        .path = account->table.path,
        .batch_id = batch_id,
        .changeset_id = changeset_id,
        .post_merge = account->cosmos,
    };

    text_random_uuid(batch_id);
    text_random_uuid(changeset_id);
    batch_add_type(&style, type);
    batch_write(&style, batch, &call->body);
    if (!call->body.overflow)
        return TW_OK;
    err_fail(&call->exchange->err, TW_TOO_LARGE,
        "the batch with its URLs takes more than %zu bytes", call->body.max);
    return call_named(call, TW_TOO_LARGE);
}

/* Returns the index of the operation at fault, if the batch was refused as a
 * whole. Cosmos DB may name this operation. count: the index is unknown. */
static size_t outer_failed_index(struct call *call, size_t count)
{
    size_t index = batch_failed_index(call->error.message, count);

    return call->answer.status == 400 ? index : count;
}

static enum tw_err keep_etags(struct call *call, const struct batch_part *parts,
    const struct batch *batch, struct batch_result *ret)
{
    const size_t room = sizeof(ret->etags[0]);
    struct err no_etag;

    for (size_t i = 0; i < batch->count; i++) {
        bool deleted = batch->operations[i].type == OPERATION_DELETE;
        struct slice etag = parts[i].etag;

        if (!deleted &&
            (etag.len >= room || store_check_etag(etag, &no_etag) != TW_OK)) {
            err_fail(&call->exchange->err, TW_UNKNOWN,
                "part %zu has no usable ETag", i);
            return garbled(call);
        }
        if (deleted)
            etag.len = 0;
        if (etag.len > 0)
            memcpy(ret->etags[i], etag.at, etag.len);
        ret->etags[i][etag.len] = '\0';
    }
    return TW_OK;
}

/* Finds the outcome of the batch from its parts. If the status of a part is a
 * server error, the outcome is indeterminate, as after a whole response with
 * that status. */
static enum tw_err judge_parts(
    struct call *call, const struct batch *batch, struct batch_result *ret)
{
    struct batch_part parts[BATCH_MAX_OPERATIONS];
    struct batch_answer answer;
    enum tw_err outcome;
    size_t count = batch_read(http_answer_field(&call->answer, "Content-Type"),
        buf_slice(&call->answer.body), parts, BATCH_MAX_OPERATIONS);

    batch_judge(parts, count, batch->count, &answer);
    if (answer.applied)
        return keep_etags(call, parts, batch, ret);
    if (!answer.refused) {
        err_fail(&call->exchange->err, TW_UNKNOWN,
            "it has %zu parts for %zu operations", count, batch->count);
        return garbled(call);
    }
    ret->failed = answer.failed;
    outcome = refuse(call, answer.status, answer.code, answer.message,
        answer_outcome(answer.status, answer.code, true));
    if (answer.failed < batch->count)
        err_prefix(&call->exchange->err, "operation %zu of %zu",
            answer.failed + 1, batch->count);
    return call_named(call, outcome);
}

/* Sends a batch. Even a single operation is sent as a batch, with POST, and not
 * with PUT or DELETE. A proxy must not repeat a POST by itself, but may repeat
 * a DELETE (RFC 9110, 9.2.2), and the response to the second DELETE would be
 * 404. */
static enum tw_err azure_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, struct batch_result *ret)
{
    struct call call;
    struct buf type;
    enum tw_err outcome;

    call_init(&call, store, exchange, "batch", batch->table);
    buf_init(&type, 128);
    call.write = true;
    call.method = "POST";
    buf_add_text(&call.path, "/$batch");
    if (call.account->cosmos)
        call.body.max = COSMOS_BATCH_MAX_BYTES;
    ret->failed = batch->count;
    outcome = write_batch(&call, batch, &type);
    if (outcome != TW_OK)
        goto done;
    call.type = buf_text(&type);
    outcome = call_send(&call);
    if (outcome == TW_OK)
        outcome = judge_parts(&call, batch, ret);
    else
        ret->failed = outer_failed_index(&call, batch->count);
done:
    buf_done(&type);
    call_done(&call);
    return outcome;
}

/* ---- queues ---- */

static void call_init_queue(struct call *call, struct store *store,
    struct exchange *exchange, const char *operation, const char *queue)
{
    call_init(call, store, exchange, operation, queue);
    call->queue = true;
    buf_add_format(&call->path, "/%s", queue);
}

static enum tw_err azure_queue_create(
    struct store *store, struct exchange *exchange, const char *queue)
{
    struct call call;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "create queue", queue);
    call.write = true;
    call.method = "PUT";
    outcome = send_creation(&call, "QueueAlreadyExists");
    call_done(&call);
    return outcome;
}

static enum tw_err read_messages(struct call *call, struct messages *ret)
{
    if (queue_xml_messages(
            buf_slice(&call->answer.body), ret, &call->exchange->err) != TW_OK)
        return garbled(call);
    return TW_OK;
}

static enum tw_err azure_queue_put(struct store *store,
    struct exchange *exchange, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret)
{
    struct call call;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "put message into", queue);
    call.write = true;
    call.method = "POST";
    call.type = XML_TYPE;
    buf_add_text(&call.path, "/messages");
    buf_add_format(
        &call.query, "messagettl=-1&visibilitytimeout=%lld", (long long)hide_s);
    queue_xml_write(text, &call.body);
    outcome = call_send(&call);
    if (outcome == TW_OK)
        outcome = read_messages(&call, ret);
    if (outcome == TW_OK &&
        (ret->count != 1 || ret->list[0].pop_receipt.len == 0)) {
        if (ret->count != 1)
            err_fail(&exchange->err, TW_UNKNOWN,
                "it must have one message, the one that was put, but has %zu",
                ret->count);
        else
            err_fail(
                &exchange->err, TW_UNKNOWN, "its message has no PopReceipt");
        ret->count = 0;
        outcome = garbled(&call);
    }
    call_done(&call);
    return outcome;
}

/* Checks that ret has at most count messages, each with a pop receipt. */
static enum tw_err check_messages(
    struct call *call, unsigned count, struct messages *ret)
{
    if (ret->count > count) {
        err_fail(&call->exchange->err, TW_UNKNOWN,
            "it has %zu messages, but the request allows %u", ret->count,
            count);
        ret->count = 0;
        return garbled(call);
    }
    for (size_t i = 0; i < ret->count; i++) {
        if (ret->list[i].pop_receipt.len > 0)
            continue;
        ret->count = 0;
        err_fail(
            &call->exchange->err, TW_UNKNOWN, "a message has no PopReceipt");
        return garbled(call);
    }
    return TW_OK;
}

static enum tw_err azure_queue_get(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    int64_t visibility_timeout_s, struct messages *ret)
{
    struct call call;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "get messages from", queue);
    call.max_answer_bytes = MESSAGES_ANSWER_MAX;
    buf_add_text(&call.path, "/messages");
    buf_add_format(&call.query, "numofmessages=%u&visibilitytimeout=%lld",
        count, (long long)visibility_timeout_s);
    outcome = call_send(&call);
    if (outcome == TW_OK)
        outcome = read_messages(&call, ret);
    if (outcome == TW_OK)
        outcome = check_messages(&call, count, ret);
    call_done(&call);
    return outcome;
}

static void add_message_path(
    struct call *call, struct slice id, struct slice pop_receipt)
{
    buf_add_text(&call->path, "/messages/");
    text_percent_encode(&call->path, id);
    buf_add_text(&call->query, "popreceipt=");
    text_percent_encode(&call->query, pop_receipt);
}

static enum tw_err keep_receipt(struct call *call, char *pop_receipt)
{
    struct slice receipt = http_answer_field(&call->answer, "x-ms-popreceipt");

    if (receipt.len == 0 || receipt.len >= QUEUE_RECEIPT_MAX) {
        err_fail(&call->exchange->err, TW_UNKNOWN,
            "it has no usable x-ms-popreceipt");
        return garbled(call);
    }
    memcpy(pop_receipt, receipt.at, receipt.len);
    pop_receipt[receipt.len] = '\0';
    return TW_OK;
}

static enum tw_err azure_queue_renew(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    char *pop_receipt, int64_t hide_s)
{
    struct call call;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "renew message in", queue);
    call.write = true;
    call.method = "PUT";
    add_message_path(&call, id, slice_of(pop_receipt));
    buf_add_format(&call.query, "&visibilitytimeout=%lld", (long long)hide_s);
    outcome = call_send(&call);
    if (outcome == TW_OK)
        outcome = keep_receipt(&call, pop_receipt);
    call_done(&call);
    return outcome;
}

static enum tw_err azure_queue_delete(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    struct slice pop_receipt)
{
    struct call call;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "delete message from", queue);
    call.write = true;
    call.method = "DELETE";
    add_message_path(&call, id, pop_receipt);
    outcome = call_send(&call);
    call_done(&call);
    return outcome;
}

static enum tw_err azure_queue_peek(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    struct messages *ret)
{
    struct call call;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "peek messages of", queue);
    call.max_answer_bytes = MESSAGES_ANSWER_MAX;
    buf_add_text(&call.path, "/messages");
    buf_add_format(&call.query, "peekonly=true&numofmessages=%u", count);
    outcome = call_send(&call);
    if (outcome == TW_OK)
        outcome = read_messages(&call, ret);
    call_done(&call);
    return outcome;
}

static enum tw_err azure_queue_count(struct store *store,
    struct exchange *exchange, const char *queue, int64_t *ret)
{
    struct call call;
    int64_t count = 0;
    enum tw_err outcome;

    call_init_queue(&call, store, exchange, "count messages of", queue);
    buf_add_text(&call.query, "comp=metadata");
    outcome = call_send(&call);
    if (outcome == TW_OK && !text_int64(http_answer_field(&call.answer,
                                            "x-ms-approximate-messages-count"),
                                0, INT64_MAX, &count)) {
        err_fail(&exchange->err, TW_UNKNOWN,
            "it has no x-ms-approximate-messages-count");
        outcome = garbled(&call);
    }
    if (outcome == TW_OK)
        *ret = count;
    call_done(&call);
    return outcome;
}

/* ---- opening and closing ---- */

static void azure_close(struct store *store)
{
    struct azure *azure = azure_of(store);

    access_token_free(azure->token);
    identity_free(azure->acts_as);
    http_free(azure->http);
    credential_drop(azure->credential);
    mem_free(azure->place);
    mem_free(azure->identity);
    mem_free(azure->account_name);
    mem_free(azure->cloud_account);
    mem_free(azure->log_name);
    mem_free(azure);
}

/* Implements store_share_credential(). Only keys and SASs are shared, because
 * an access token is renewed anyway. */
static void azure_share_credential(struct store *store, struct store *former)
{
    struct azure *azure = azure_of(store), *other = azure_of(former);
    struct account *newest, *replaced;

    if (azure->acts_as != NULL || other->acts_as != NULL)
        return;
    newest = credential_account(azure->credential);
    replaced = credential_account(other->credential);
    if (account_same_services(newest, replaced)) {
        credential_replace(other->credential, account_hold(newest));
        credential_drop(azure->credential);
        azure->credential = credential_hold(other->credential);
    }
    account_free(replaced);
    account_free(newest);
}

static const struct store_ops azure_ops = {
    .create_table = azure_create_table,
    .list_tables = azure_list_tables,
    .scan = azure_scan,
    .get = azure_get,
    .batch = azure_batch,
    .queue_create = azure_queue_create,
    .queue_put = azure_queue_put,
    .queue_get = azure_queue_get,
    .queue_renew = azure_queue_renew,
    .queue_delete = azure_queue_delete,
    .queue_peek = azure_queue_peek,
    .queue_count = azure_queue_count,
    .share_credential = azure_share_credential,
    .close = azure_close,
};

/* Makes the store. Takes ownership of account. */
static struct azure *new_azure(
    const char *name, struct account *account, struct http *http)
{
    struct azure *azure = mem_alloc(sizeof(*azure));

    queue_xml_init();
    azure->credential = credential_new(account);
    azure->http = http;
    azure->log_name = mem_format("store %s", name);
    azure->place =
        mem_format("%s%s", account->table.origin, account->table.path);
    azure->identity = account_identity(account);
    azure->account_name = account_public_name(account);
    azure->cloud_account = account_in_cloud(account);
    azure->store = (struct store){
        .ops = &azure_ops,
        .name = name,
        .capabilities =
            {
                .kind = "azure",
                .ordered = !account->cosmos,
                .has_queues = account->queue.origin != NULL,
                .late_writes = true,
                .batch_max_bytes = (account->cosmos ? COSMOS_BATCH_MAX_BYTES
                                                    : BATCH_MAX_BYTES) -
                                   BATCH_FRAME_BYTES,
                .endpoint = azure->place,
                .identity = strlen(azure->identity) <= STORE_IDENTITY_MAX
                                ? azure->identity
                                : NULL,
                .account_name = azure->account_name,
                .cloud_account = azure->cloud_account,
            },
    };
    return azure;
}

enum tw_err azure_open(const char *name, struct slice connection_string,
    bool allow_http, struct store **ret, struct err *err)
{
    struct account *account;
    enum tw_err outcome =
        account_parse(connection_string, allow_http, &account, err);

    if (outcome == TW_OK)
        *ret = &new_azure(name, account, http_new())->store;
    return outcome;
}

enum tw_err azure_open_identity(const char *name,
    struct slice connection_string, const struct identity_options *options,
    struct store **ret, struct err *err)
{
    struct account *account;
    struct identity *identity;
    struct azure *azure;
    struct http *http;
    enum tw_err outcome =
        account_parse_endpoints(connection_string, &account, err);

    if (outcome != TW_OK)
        return outcome;
    http = http_new();
    outcome = identity_new(options, http, &identity, err);
    if (outcome != TW_OK) {
        http_free(http);
        account_free(account);
        return outcome;
    }
    azure = new_azure(name, account, http);
    azure->acts_as = identity;
    azure->token = access_token_new(&(struct access_token_source){
        identity_fetch, identity, azure->log_name});
    azure->store.capabilities.acts_as = identity_description(identity);
    *ret = &azure->store;
    return TW_OK;
}
