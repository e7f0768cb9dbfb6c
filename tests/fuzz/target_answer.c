/* SPDX-License-Identifier: MIT */
/*
 * Whole HTTP answers, head and body, to every request of the azure store. The
 * first byte chooses the request. The other bytes are the answer as on the
 * wire: status line, fields, an empty line and the body. A test double replaces
 * http_send().
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/azure/answer.h"
#include "worker/store/azure/azure.h"
#include "worker/store/azure/http.h"

enum tw_err __real_http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err);
enum tw_err __wrap_http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err);

/* What the test double answers. While it is not active, it passes the request
 * to the real function. */
static struct {
    bool active;
    struct slice wire;
    char url[4096]; /* of the request that the double received */
} double_;

/* ---- the test double ---- */

static struct slice take_line(struct slice *rest)
{
    const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;
    struct slice line = {
        rest->at, end ? (size_t)(end - rest->at) + 1 : rest->len};

    rest->at += line.len;
    rest->len -= line.len;
    return line;
}

static int status_of(struct slice line)
{
    int64_t status;

    return line.len >= 12 &&
                   text_int64((struct slice){line.at + 9, 3}, 100, 999, &status)
               ? (int)status
               : 200;
}

enum tw_err __wrap_http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err)
{
    struct slice rest = double_.wire, line;

    if (!double_.active)
        return __real_http_send(http, request, deadline, ret, err);
    FUZZ_CHECK(strncmp(request->url, "https://acct.", 13) == 0);
    snprintf(double_.url, sizeof(double_.url), "%s", request->url);
    line = take_line(&rest);
    ret->status = status_of(line);
    do {
        line = take_line(&rest);
        http_answer_line(ret, line);
    } while (line.len > 0 && line.at[0] != '\r' && line.at[0] != '\n');
    buf_done(&ret->body);
    buf_init(&ret->body, request->max_answer_bytes);
    buf_add_slice(&ret->body, rest);
    ret->sent_ms = 1;
    return TW_OK;
}

/* ---- requests ---- */

static const struct scan_request everything = {.table = "Blogs"};

static void check_exchange(const struct exchange *exchange, enum tw_err outcome)
{
    FUZZ_CHECK(outcome <= TW_FULL);
    if (outcome != TW_OK)
        fuzz_said(&exchange->err);
    /* the length of a lease is added to this time, and the sum is written */
    FUZZ_CHECK(exchange->date_ticks == 0 ||
               (exchange->date_ticks > TICKS_1970 &&
                   exchange->date_ticks < TICKS_MAX - TICKS_PER_S * 604800));
    FUZZ_CHECK(
        exchange->retry_after_ms >= -1 && exchange->retry_after_ms <= 3600000);
    /* a signature is shown only if the answer contained it */
    FUZZ_CHECK(strstr(exchange->err.text, "sig=") == NULL ||
               memmem(double_.wire.at, double_.wire.len, "sig=", 4));
}

/* Checks that the continuation of a page goes into the next URL, and that no
 * character in it is unsafe there. */
static void check_page(
    struct store *store, struct page *page, enum tw_err outcome, bool tables)
{
    struct scan_request request = everything;
    struct exchange exchange = {0};
    struct page next;

    if (outcome != TW_OK) {
        FUZZ_CHECK(page->count == 0 && !page->next.more);
        return;
    }
    for (size_t i = 0; i < page->count; i++)
        FUZZ_CHECK(page->entities[i].partition_key.at != NULL);
    if (!page->next.more)
        return;
    page_init(&next);
    request.from = page->next;
    double_.wire =
        slice_of("HTTP/1.1 200 OK\r\nx-ms-version: 1\r\n\r\n{\"value\":[]}");
    double_.url[0] = '\0';
    outcome = tables ? store_list_tables(store, &exchange, page->next, &next)
                     : store_scan(store, &exchange, &request, &next);
    FUZZ_CHECK(outcome == TW_OK);
    FUZZ_CHECK(
        strstr(double_.url, tables ? "NextTableName=" : "NextPartitionKey=") ||
        strstr(double_.url, "NextRowKey="));
    for (const char *c = double_.url; *c != '\0'; c++)
        FUZZ_CHECK(*c > 0x20 && *c < 0x7f && *c != '#');
    page_done(&next);
}

static void ask_page(struct store *store, unsigned which)
{
    struct exchange exchange = {0};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    if (which == 0)
        outcome = store_scan(store, &exchange, &everything, &page);
    else if (which == 1)
        outcome = store_list_tables(
            store, &exchange, (struct continuation){.more = false}, &page);
    else
        outcome = store_get(
            store, &exchange, "Blogs", slice_of("p"), slice_of("r"), &page);
    check_exchange(&exchange, outcome);
    if (which == 2)
        FUZZ_CHECK(page.count == (outcome == TW_OK));
    else
        check_page(store, &page, outcome, which == 1);
    page_done(&page);
}

static void ask_batch(struct store *store, size_t count, struct arena *arena)
{
    struct operation operations[3] = {{.type = OPERATION_INSERT},
        {.type = OPERATION_REPLACE}, {.type = OPERATION_DELETE}};
    struct batch batch = {"Blogs", operations, count};
    struct batch_result *result = arena_alloc(arena, sizeof(*result));
    struct exchange exchange = {0};
    enum tw_err outcome;

    for (size_t i = 0; i < count; i++) {
        entity_init(&operations[i].entity, arena, slice_of("p"),
            arena_format(arena, "%zu", i));
        if (i > 0)
            operations[i].entity.etag = slice_of("W/\"1\"");
    }
    outcome = store_batch(store, &exchange, &batch, result);
    check_exchange(&exchange, outcome);
    if (outcome != TW_OK)
        FUZZ_CHECK(result->failed <= count);
    for (size_t i = 0; i < count && outcome == TW_OK; i++)
        FUZZ_CHECK((strlen(result->etags[i]) > 0) == (i < 2));
}

static void ask_messages(struct store *store, unsigned which)
{
    struct exchange exchange = {0};
    struct messages messages;
    enum tw_err outcome;

    messages_init(&messages);
    if (which == 0)
        outcome = store_queue_get(store, &exchange, "work", 2, 30, &messages);
    else if (which == 1)
        outcome = store_queue_peek(store, &exchange, "work", 2, &messages);
    else
        outcome = store_queue_put(
            store, &exchange, "work", slice_of("text"), 0, &messages);
    check_exchange(&exchange, outcome);
    if (outcome != TW_OK)
        FUZZ_CHECK(messages.count == 0);
    else if (which == 2)
        FUZZ_CHECK(messages.count == 1);
    for (size_t i = 0; i < messages.count; i++)
        FUZZ_CHECK(messages.list[i].id.len > 0 &&
                   (which == 1 || messages.list[i].pop_receipt.len > 0));
    messages_done(&messages);
}

static void ask_for_one(struct store *store, unsigned which)
{
    struct exchange exchange = {0};
    char receipt[QUEUE_RECEIPT_MAX] = "receipt";
    int64_t count = -1;
    enum tw_err outcome;

    if (which == 0) {
        outcome = store_queue_renew(
            store, &exchange, "work", slice_of("id"), receipt, 30);
        FUZZ_CHECK(strlen(receipt) > 0);
        if (outcome != TW_OK)
            FUZZ_CHECK(strcmp(receipt, "receipt") == 0);
    } else if (which == 1) {
        outcome = store_queue_delete(
            store, &exchange, "work", slice_of("id"), slice_of("receipt"));
    } else if (which == 2) {
        outcome = store_queue_count(store, &exchange, "work", &count);
        FUZZ_CHECK((outcome == TW_OK) == (count >= 0));
    } else if (which == 3) {
        outcome = store_queue_create(store, &exchange, "work");
    } else {
        outcome = store_create_table(store, &exchange, "Blogs");
    }
    check_exchange(&exchange, outcome);
}

static void ask(struct store *store, unsigned which, struct arena *arena)
{
    if (which < 3)
        ask_page(store, which);
    else if (which < 6)
        ask_batch(store, which - 2, arena);
    else if (which < 9)
        ask_messages(store, which - 6);
    else
        ask_for_one(store, which - 9);
}
#define REQUESTS 14

static struct store *the_store(void)
{
    static struct store *store;
    struct err err;

    if (store == NULL &&
        azure_open("fuzz",
            slice_of("AccountName=acct;SharedAccessSignature=sv=1&sig=abc"),
            false, &store, &err) != TW_OK)
        abort();
    return store;
}

/* ---- answers that were made up ---- */

static void add_field(struct fuzz_source *in, struct buf *to)
{
    static const char *const names[] = {"x-ms-continuation-NextPartitionKey",
        "x-ms-continuation-NextRowKey", "x-ms-continuation-NextTableName",
        "x-ms-error-code", "X-MS-PopReceipt", "x-ms-request-id", "Retry-After",
        "x-ms-approximate-messages-count", "retry-after-ms", "Date"};
    char time[TEXT_TIME_MAX];

    buf_add_format(to, "%s: ", names[fuzz_below(in, 10)]);
    switch (fuzz_byte(in) % 5) {
    case 0:
        buf_add_slice(to, fuzz_word(in, 0, 20));
        break;
    case 1: /* about as long as the memory that it is stored in */
        buf_add_slice(to, fuzz_word(in, 254, 258));
        break;
    case 2:
        buf_add_format(to, "%lld", (long long)fuzz_int64(in));
        break;
    case 3:
        buf_add_text(to, text_http_date(fuzz_ticks(in), time));
        break;
    default:
        buf_add_slice(to, fuzz_key(in, 20));
    }
    buf_add_text(to, "\r\n");
}

static void add_page(struct fuzz_source *in, struct buf *to)
{
    size_t count = (size_t)fuzz_below(in, 4);

    buf_add_text(to, "{\"value\":[");
    for (size_t i = 0; i < count; i++) {
        struct entity entity = fuzz_entity(in);

        buf_add_text(to, i > 0 ? "," : "");
        entity_write(&entity, to);
    }
    /* sometimes followed by an entity that cannot be read */
    buf_add_text(to, fuzz_yes(in) ? "]}" : ",{\"PartitionKey\":5}]}");
}

static void add_messages(struct fuzz_source *in, struct buf *to)
{
    size_t count = (size_t)fuzz_below(in, 4);

    buf_add_text(to, "<QueueMessagesList>");
    for (size_t i = 0; i < count; i++)
        buf_add_format(to,
            "<QueueMessage><MessageId>%s</MessageId><InsertionTime>Fri, 09 Oct "
            "2009 21:04:30 GMT</InsertionTime><PopReceipt>%s</PopReceipt>"
            "</QueueMessage>",
            fuzz_word(in, 0, 140).at, fuzz_word(in, 0, 300).at);
    buf_add_text(to, "</QueueMessagesList>");
}

static void add_parts(struct fuzz_source *in, struct buf *to)
{
    size_t count = (size_t)fuzz_below(in, 5);

    for (size_t i = 0; i < count; i++)
        buf_add_format(to, "--b\r\nHTTP/1.1 %d Word\r\nETag: %s\r\n\r\n%s\r\n",
            fuzz_yes(in) ? 204 : 409, fuzz_word(in, 0, 120).at,
            fuzz_yes(in) ? "{\"odata.error\":{\"code\":\"A\",\"message\":"
                           "{\"value\":\"7:b\"}}}"
                         : "");
}

static void answer_that_was_made_up(struct fuzz_source *in)
{
    static const int statuses[] = {
        200, 200, 201, 202, 204, 204, 400, 404, 409, 412, 500, 503};
    static void (*const bodies[])(struct fuzz_source *, struct buf *) = {
        add_page, add_messages, add_parts};
    unsigned which = (unsigned)fuzz_below(in, REQUESTS);
    size_t fields = (size_t)fuzz_below(in, 5);
    struct buf *wire = fuzz_buf();

    buf_add_format(wire, "HTTP/1.1 %d Word\r\n", statuses[fuzz_below(in, 12)]);
    buf_add_text(wire, "x-ms-version: 2019-02-02\r\n");
    buf_add_text(wire, "Content-Type: multipart/mixed; boundary=b\r\n");
    for (size_t i = 0; i < fields; i++)
        add_field(in, wire);
    buf_add_text(wire, "\r\n");
    if (!fuzz_yes(in))
        bodies[fuzz_below(in, 3)](in, wire);
    double_.wire = buf_slice(wire);
    ask(the_store(), which, in->arena);
}

/* ---- errors that were made up ---- */

static void add_xml_escaped(struct buf *to, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr("<>&", text.at[i]) && text.at[i] != '\0')
            buf_add_format(to, "&#%d;", text.at[i]);
        else if ((unsigned char)text.at[i] >= 0x20)
            buf_add_char(to, text.at[i]);
}

/* The code of an error is read back from a body in XML or JSON. */
static void error_is_read_back(struct fuzz_source *in)
{
    struct slice code = fuzz_word(in, 1, 60), message;
    bool xml = fuzz_yes(in);
    struct answer_error error;
    struct buf *body = fuzz_buf();

    message = xml ? fuzz_xml_text(in, 30) : fuzz_key(in, 30);
    if (xml) {
        buf_add_format(
            body, "<Error><Code>%.*s</Code><Message>", SLICE_ARG(code));
        add_xml_escaped(body, message);
        buf_add_text(body, "\nRequestId:1</Message></Error>");
    } else {
        buf_add_format(
            body, "{\"odata.error\":{\"code\":\"%.*s\",", SLICE_ARG(code));
        buf_add_text(body, "\"message\":{\"lang\":\"en\",\"value\":");
        json_add_string(body, message);
        buf_add_text(body, "}}}");
    }
    answer_body_error(buf_slice(body), &error);
    FUZZ_SAME(slice_of(error.code), code);
    FUZZ_CHECK(text_is_utf8(slice_of(error.message)));
    if (message.len > 0 && !xml)
        FUZZ_SAME(slice_of(error.message), message);
}

static void outcomes_are_sound(struct fuzz_source *in)
{
    struct slice code = fuzz_word(in, 1, 20);
    int status = (int)fuzz_below(in, 1000);
    enum tw_err read = answer_outcome(status, code.at, false);
    enum tw_err write = answer_outcome(status, code.at, true);

    FUZZ_CHECK((read == TW_OK) == (status >= 200 && status < 300));
    FUZZ_CHECK((write == TW_OK) == (read == TW_OK));
    FUZZ_CHECK(read != TW_UNKNOWN);
}

FUZZ_TARGET(answer)
{
    struct answer_error error;

    double_.active = true;
    if (text.len > 0) {
        double_.wire = (struct slice){text.at + 1, text.len - 1};
        ask(the_store(), (unsigned char)text.at[0] % REQUESTS, in->arena);
    }
    answer_that_was_made_up(in);
    fuzz_again(in);
    double_.active = false;
    answer_body_error(text, &error);
    FUZZ_CHECK(text_is_utf8(slice_of(error.message)));
    error_is_read_back(in);
    outcomes_are_sound(in);
}
