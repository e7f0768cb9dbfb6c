/* SPDX-License-Identifier: MIT */
/*
 * Queues and their messages. The catalog (catalog.h) keeps metadata, expiry
 * times and changed texts.
 *
 * Source: Queue service REST; recorded answers.
 */
#include "tests/azsim/queue_service.h"

#include <inttypes.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <string.h>
#include <strings.h>

#include "tests/azsim/azsim.h"
#include "tests/azsim/catalog.h"
#include "tests/azsim/exchange.h"
#include "tests/azsim/knobs.h"
#include "worker/base/crypto.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

#define BOM "\xef\xbb\xbf"
#define XML_HEAD BOM "<?xml version=\"1.0\" encoding=\"utf-8\"?>"
#define HIDE_MAX_S 604800
#define TTL_DEFAULT_S 604800
#define LIST_MAX 5000

/* A pop receipt consists of these bytes and the scrambled number of the store's
 * pop receipt. */
#define RECEIPT_BYTES 20
static const unsigned char RECEIPT_HEAD[12] = {2, 0, 0, 0, 3};
#define RECEIPT_MIX UINT64_C(0xfbefbe01d5a3c7ff)

struct visit {
    struct azsim *azsim;
    struct account *account;
    struct http_exchange *exchange;
    struct slice queue, id; /* .at NULL: not in the path */
    bool messages;          /* the path is /queue/messages */
    char stored[CATALOG_NAME_BYTES];
};

void queue_service_init(void)
{
    xmlInitParser();
}

/* ---- pop receipts ---- */

static struct slice write_receipt(struct arena *arena, struct slice stored)
{
    unsigned char bytes[RECEIPT_BYTES];
    int64_t number = 0;
    uint64_t mixed;
    struct slice receipt;
    struct buf text;

    (void)text_int64(stored, 0, INT64_MAX, &number);
    mixed = (uint64_t)number ^ RECEIPT_MIX;
    memcpy(bytes, RECEIPT_HEAD, sizeof(RECEIPT_HEAD));
    memcpy(bytes + sizeof(RECEIPT_HEAD), &mixed, sizeof(mixed));
    buf_init(&text, 64);
    crypto_base64(&text, (struct slice){(const char *)bytes, sizeof(bytes)});
    receipt = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return receipt;
}

static enum failure read_receipt(
    struct http_exchange *exchange, struct slice *ret)
{
    struct slice text = exchange_argument(exchange, "popreceipt");
    enum failure failure = FAIL_RECEIPT;
    uint64_t mixed;
    struct buf bytes;

    buf_init(&bytes, 256);
    if (crypto_unbase64(&bytes, text) && bytes.len == RECEIPT_BYTES &&
        memcmp(bytes.at, RECEIPT_HEAD, sizeof(RECEIPT_HEAD)) == 0) {
        memcpy(&mixed, bytes.at + sizeof(RECEIPT_HEAD), sizeof(mixed));
        *ret = arena_format(&exchange->arena, "%" PRIu64, mixed ^ RECEIPT_MIX);
        failure = FAIL_NONE;
    }
    buf_done(&bytes);
    return failure;
}

/* ---- XML ---- */

static void add_escaped(struct buf *to, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.at[i]) {
        case '&':
            buf_add_text(to, "&amp;");
            break;
        case '<':
            buf_add_text(to, "&lt;");
            break;
        case '>':
            buf_add_text(to, "&gt;");
            break;
        case '\r':
            buf_add_text(to, "&#xD;");
            break;
        default:
            buf_add_char(to, text.at[i]);
        }
    }
}

static void add_element(struct buf *to, const char *name, struct slice text)
{
    if (text.len == 0) {
        buf_add_format(to, "<%s />", name);
        return;
    }
    buf_add_format(to, "<%s>", name);
    add_escaped(to, text);
    buf_add_format(to, "</%s>", name);
}

static void add_date(struct buf *to, const char *name, int64_t ticks)
{
    char date[TEXT_TIME_MAX];

    if (ticks > TICKS_MAX)
        ticks = TICKS_MAX;
    add_element(to, name, slice_of(text_http_date(ticks, date)));
}

static void begin_xml(struct http_exchange *exchange, int status)
{
    exchange->status = status;
    exchange_field(exchange, "Content-Type", "application/xml");
    buf_add_text(&exchange->answer, XML_HEAD);
}

static void ignore_error(void *context, const char *format, ...)
{
}

/* Returns the text of QueueMessage/MessageText. False: there is no such
 * element. */
static bool find_text(xmlNode *root, struct arena *arena, struct slice *ret)
{
    xmlNode *node = root != NULL ? root->children : NULL;
    xmlChar *content;

    while (node != NULL && strcmp((const char *)node->name, "MessageText") != 0)
        node = node->next;
    if (node == NULL)
        return false;
    content = xmlNodeGetContent(node);
    *ret = arena_copy(arena, slice_of(content ? (const char *)content : ""));
    xmlFree(content);
    return true;
}

static enum failure read_text(struct http_exchange *exchange, struct slice *ret)
{
    struct buf *body = &exchange->body;
    xmlDoc *document;
    bool good;

    xmlSetGenericErrorFunc(NULL, ignore_error);
    document = xmlReadMemory(buf_text(body), (int)body->len, NULL, NULL,
        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
            XML_PARSE_HUGE);
    if (document == NULL)
        return FAIL_XML;
    good = find_text(xmlDocGetRootElement(document), &exchange->arena, ret);
    xmlFreeDoc(document);
    if (!good)
        return FAIL_XML;
    return ret->len > QUEUE_MAX_MESSAGE_BYTES ? FAIL_BODY_TOO_LARGE : FAIL_NONE;
}

/* ---- queues ---- */

/* Returns the x-ms-meta-* headers, each in a line. */
static struct slice read_metadata(struct http_exchange *exchange)
{
    struct slice metadata;
    struct buf text;

    buf_init(&text, 16384);
    for (size_t i = 0; i < exchange->headers.count; i++) {
        const struct pair *pair = &exchange->headers.list[i];

        if (pair->name.len > 10 &&
            strncasecmp(pair->name.at, "x-ms-meta-", 10) == 0)
            buf_add_format(&text, "%.*s:%.*s\n", SLICE_ARG(pair->name),
                SLICE_ARG(pair->value));
    }
    metadata = arena_copy(&exchange->arena, buf_slice(&text));
    buf_done(&text);
    return metadata;
}

static enum failure create_queue(struct visit *visit)
{
    struct slice metadata = read_metadata(visit->exchange);
    enum failure failure =
        catalog_create(visit->account, SERVICE_QUEUE, visit->queue, metadata);

    visit->exchange->status = 201;
    visit->exchange->changed = failure == FAIL_NONE;
    if (failure != FAIL_QUEUE_EXISTS ||
        !slice_equal(metadata, catalog_metadata(visit->account, visit->queue)))
        return failure;
    visit->exchange->status = 204;
    return FAIL_NONE;
}

static enum failure delete_queue(struct visit *visit)
{
    struct knobs knobs = gates_knobs(visit->azsim->gates);

    visit->exchange->status = 204;
    visit->exchange->changed = true;
    return catalog_delete(visit->account, SERVICE_QUEUE, visit->queue,
        platform_wall_ticks() + knobs.being_deleted_ms * TICKS_PER_MS);
}

static void add_metadata_fields(
    struct http_exchange *exchange, struct slice text)
{
    while (text.len > 0) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = (size_t)(end - text.at);
        const char *colon = memchr(text.at, ':', len);
        struct slice name = arena_copy(&exchange->arena,
            (struct slice){text.at, (size_t)(colon - text.at)});

        exchange_field(
            exchange, name.at, "%.*s", (int)(end - colon - 1), colon + 1);
        text.at += len + 1;
        text.len -= len + 1;
    }
}

static enum failure get_metadata(struct visit *visit)
{
    struct exchange store_exchange = {.deadline = NULL};
    int64_t count = 0;

    if (store_queue_count(catalog_store(visit->account), &store_exchange,
            visit->stored, &count) != TW_OK)
        return FAIL_INTERNAL;
    visit->exchange->status = 200;
    exchange_field(
        visit->exchange, "x-ms-approximate-messages-count", "%" PRId64, count);
    add_metadata_fields(
        visit->exchange, catalog_metadata(visit->account, visit->queue));
    return FAIL_NONE;
}

static enum failure set_metadata(struct visit *visit)
{
    catalog_set_metadata(
        visit->account, visit->queue, read_metadata(visit->exchange));
    visit->exchange->status = 204;
    visit->exchange->changed = true;
    return FAIL_NONE;
}

static enum failure list_queues(struct visit *visit)
{
    struct http_exchange *exchange = visit->exchange;
    struct slice prefix = exchange_argument(exchange, "prefix");
    struct slice marker = exchange_argument(exchange, "marker");
    struct slice *names;
    size_t count =
        catalog_list(visit->account, SERVICE_QUEUE, &exchange->arena, &names);
    struct buf *to = &exchange->answer;
    int64_t max, written = 0;

    if (!exchange_integer(exchange, "maxresults", LIST_MAX, 1, LIST_MAX, &max))
        return FAIL_OUT_OF_RANGE;
    begin_xml(exchange, 200);
    buf_add_text(to, "<EnumerationResults><Queues>");
    for (size_t i = 0; i < count && written <= max; i++) {
        if (!slice_begins(names[i], prefix) ||
            slice_compare(names[i], marker) < 0)
            continue;
        if (written++ < max)
            buf_add_format(
                to, "<Queue><Name>%.*s</Name></Queue>", SLICE_ARG(names[i]));
        else
            marker = names[i];
    }
    buf_add_text(to, "</Queues>");
    add_element(
        to, "NextMarker", written > max ? marker : (struct slice){"", 0});
    buf_add_text(to, "</EnumerationResults>");
    return FAIL_NONE;
}

/* ---- messages ---- */

/* The operation that is answered. It decides which elements a message in the
 * answer has. */
enum shape { SHAPE_PUT, SHAPE_GET, SHAPE_PEEK };

static void add_message(struct visit *visit, const struct message *message,
    enum shape shape, struct buf *to)
{
    struct arena *arena = &visit->exchange->arena;
    const struct note *note = catalog_note(visit->account, message->id, false);

    buf_add_text(to, "<QueueMessage>");
    add_element(to, "MessageId", message->id);
    add_date(to, "InsertionTime", message->inserted_ticks);
    add_date(to, "ExpirationTime", note ? note->expires_ticks : INT64_MAX);
    if (shape != SHAPE_PEEK) {
        add_element(
            to, "PopReceipt", write_receipt(arena, message->pop_receipt));
        add_date(to, "TimeNextVisible", message->next_visible_ticks);
    }
    if (shape != SHAPE_PUT) {
        buf_add_format(to, "<DequeueCount>%" PRId64 "</DequeueCount>",
            message->dequeue_count);
        add_element(to, "MessageText",
            note && note->has_text ? note->text : message->text);
    }
    buf_add_text(to, "</QueueMessage>");
}

static bool is_expired(struct visit *visit, const struct message *message)
{
    const struct note *note = catalog_note(visit->account, message->id, false);

    return note != NULL && note->expires_ticks <= platform_wall_ticks();
}

/* Deletes an expired message from the store when a request finds it. */
static void drop_expired(struct visit *visit, const struct message *message)
{
    struct exchange store_exchange = {.deadline = NULL};

    if (message->pop_receipt.len > 0 &&
        store_queue_delete(catalog_store(visit->account), &store_exchange,
            visit->stored, message->id, message->pop_receipt) == TW_OK)
        catalog_forget(visit->account, message->id);
}

static void write_messages(
    struct visit *visit, const struct messages *messages, enum shape shape)
{
    struct http_exchange *exchange = visit->exchange;
    struct buf list;

    buf_init(&list, EXCHANGE_MAX_ANSWER_BYTES);
    for (size_t i = 0; i < messages->count; i++) {
        if (is_expired(visit, &messages->list[i]))
            drop_expired(visit, &messages->list[i]);
        else
            add_message(visit, &messages->list[i], shape, &list);
    }
    begin_xml(exchange, shape == SHAPE_PUT ? 201 : 200);
    if (list.len == 0) {
        buf_add_text(&exchange->answer, "<QueueMessagesList />");
    } else {
        buf_add_text(&exchange->answer, "<QueueMessagesList>");
        buf_add_slice(&exchange->answer, buf_slice(&list));
        buf_add_text(&exchange->answer, "</QueueMessagesList>");
    }
    buf_done(&list);
}

static enum failure read_put(
    struct http_exchange *exchange, int64_t *ret_hide_s, int64_t *ret_ttl_s)
{
    if (!exchange_integer(
            exchange, "messagettl", TTL_DEFAULT_S, -1, INT32_MAX, ret_ttl_s) ||
        *ret_ttl_s == 0)
        return FAIL_OUT_OF_RANGE;
    if (!exchange_integer(
            exchange, "visibilitytimeout", 0, 0, HIDE_MAX_S, ret_hide_s))
        return FAIL_OUT_OF_RANGE;
    if (*ret_ttl_s > 0 && *ret_hide_s >= *ret_ttl_s)
        return FAIL_OUT_OF_RANGE;
    return FAIL_NONE;
}

static enum failure put_message(struct visit *visit)
{
    struct exchange store_exchange = {.deadline = NULL};
    int64_t hide_s, ttl_s;
    struct messages messages;
    struct slice text = {NULL, 0};
    enum failure failure = read_put(visit->exchange, &hide_s, &ttl_s);

    if (failure == FAIL_NONE)
        failure = read_text(visit->exchange, &text);
    if (failure != FAIL_NONE)
        return failure;
    messages_init(&messages);
    if (store_queue_put(catalog_store(visit->account), &store_exchange,
            visit->stored, text, hide_s, &messages) != TW_OK) {
        failure = FAIL_XML; /* XML does not allow this text */
    } else {
        if (ttl_s > 0)
            catalog_note(visit->account, messages.list[0].id, true)
                ->expires_ticks = platform_wall_ticks() + ttl_s * TICKS_PER_S;
        visit->exchange->changed = true;
        write_messages(visit, &messages, SHAPE_PUT);
    }
    messages_done(&messages);
    return failure;
}

static enum failure get_messages(struct visit *visit)
{
    struct exchange store_exchange = {.deadline = NULL};
    struct http_exchange *exchange = visit->exchange;
    struct store *store = catalog_store(visit->account);
    bool peek = slice_is(exchange_argument(exchange, "peekonly"), "true");
    struct messages messages;
    int64_t count, hide_s = 30;
    enum tw_err outcome;

    if (!exchange_integer(
            exchange, "numofmessages", 1, 1, QUEUE_MAX_GET, &count) ||
        (!peek && !exchange_integer(exchange, "visibilitytimeout", 30, 1,
                      HIDE_MAX_S, &hide_s)))
        return FAIL_OUT_OF_RANGE;
    messages_init(&messages);
    outcome = peek ? store_queue_peek(store, &store_exchange, visit->stored,
                         (unsigned)count, &messages)
                   : store_queue_get(store, &store_exchange, visit->stored,
                         (unsigned)count, hide_s, &messages);
    if (outcome == TW_OK) {
        exchange->changed = !peek && messages.count > 0;
        write_messages(visit, &messages, peek ? SHAPE_PEEK : SHAPE_GET);
    }
    messages_done(&messages);
    return outcome == TW_OK ? FAIL_NONE : FAIL_INTERNAL;
}

static enum failure clear_messages(struct visit *visit)
{
    visit->exchange->status = 204;
    visit->exchange->changed = true;
    return catalog_clear(visit->account, visit->queue);
}

static enum failure lost_or(enum tw_err outcome)
{
    if (outcome == TW_CONFLICT)
        return FAIL_MESSAGE_MISSING;
    return outcome == TW_OK ? FAIL_NONE : FAIL_INTERNAL;
}

static enum failure renew_message(struct visit *visit, int64_t hide_s,
    struct slice stored_receipt, const struct slice *text)
{
    struct exchange store_exchange = {.deadline = NULL};
    struct http_exchange *exchange = visit->exchange;
    char receipt[QUEUE_RECEIPT_MAX], date[TEXT_TIME_MAX];
    enum tw_err outcome;

    memcpy(receipt, stored_receipt.at, stored_receipt.len + 1);
    outcome = store_queue_renew(catalog_store(visit->account), &store_exchange,
        visit->stored, visit->id, receipt, hide_s);
    if (outcome != TW_OK)
        return lost_or(outcome);
    if (text != NULL)
        catalog_set_text(catalog_note(visit->account, visit->id, true), *text);
    exchange->changed = true;
    exchange->status = 204;
    exchange_field(exchange, "x-ms-popreceipt", "%.*s",
        SLICE_ARG(write_receipt(&exchange->arena, slice_of(receipt))));
    exchange_field(exchange, "x-ms-time-next-visible", "%s",
        text_http_date(platform_wall_ticks() + hide_s * TICKS_PER_S, date));
    return FAIL_NONE;
}

static enum failure update_message(struct visit *visit)
{
    struct http_exchange *exchange = visit->exchange;
    bool has_text = exchange->body.len > 0;
    struct slice receipt, text;
    int64_t hide_s;
    enum failure failure = read_receipt(exchange, &receipt);

    if (exchange_argument(exchange, "visibilitytimeout").at == NULL ||
        !exchange_integer(
            exchange, "visibilitytimeout", 0, 0, HIDE_MAX_S, &hide_s))
        return FAIL_OUT_OF_RANGE;
    if (failure == FAIL_NONE && has_text)
        failure = read_text(exchange, &text);
    if (failure != FAIL_NONE)
        return failure;
    return renew_message(visit, hide_s, receipt, has_text ? &text : NULL);
}

static enum failure delete_message(struct visit *visit)
{
    struct exchange store_exchange = {.deadline = NULL};
    struct slice receipt;
    enum failure failure = read_receipt(visit->exchange, &receipt);

    if (failure == FAIL_NONE)
        failure = lost_or(store_queue_delete(catalog_store(visit->account),
            &store_exchange, visit->stored, visit->id, receipt));
    if (failure != FAIL_NONE)
        return failure;
    catalog_forget(visit->account, visit->id);
    visit->exchange->changed = true;
    visit->exchange->status = 204;
    return FAIL_NONE;
}

/* ---- the choice of the operation ---- */

enum place { PLACE_ACCOUNT, PLACE_QUEUE, PLACE_MESSAGES, PLACE_MESSAGE };

static const struct {
    enum place place;
    const char *method, *comp; /* comp NULL: none */
    bool anew;                 /* the queue need not exist before */
    enum failure (*answer)(struct visit *visit);
} ROUTES[] = {
    {PLACE_ACCOUNT, "GET", "list", true, list_queues},
    {PLACE_QUEUE, "PUT", NULL, true, create_queue},
    {PLACE_QUEUE, "DELETE", NULL, false, delete_queue},
    {PLACE_QUEUE, "GET", "metadata", false, get_metadata},
    {PLACE_QUEUE, "HEAD", "metadata", false, get_metadata},
    {PLACE_QUEUE, "PUT", "metadata", false, set_metadata},
    {PLACE_MESSAGES, "POST", NULL, false, put_message},
    {PLACE_MESSAGES, "GET", NULL, false, get_messages},
    {PLACE_MESSAGES, "DELETE", NULL, false, clear_messages},
    {PLACE_MESSAGE, "PUT", NULL, false, update_message},
    {PLACE_MESSAGE, "DELETE", NULL, false, delete_message},
};

/* Reads the decoded parts of the path: /queue/messages/id. */
static enum place read_place(struct visit *visit)
{
    struct arena *arena = &visit->exchange->arena;
    struct slice rest = visit->exchange->rest, parts[3] = {{NULL, 0}};
    size_t count = 0;

    while (rest.len > 1 && count < 3) {
        const char *end = memchr(rest.at + 1, '/', rest.len - 1);
        size_t len = end ? (size_t)(end - rest.at) : rest.len;
        struct buf part;

        buf_init(&part, len + 1);
        if (text_percent_decode(&part, (struct slice){rest.at + 1, len - 1}))
            parts[count++] = arena_copy(arena, buf_slice(&part));
        buf_done(&part);
        rest.at += len;
        rest.len -= len;
    }
    visit->queue = parts[0];
    visit->id = parts[2];
    visit->messages = slice_is(parts[1], "messages");
    if (count < 2)
        return count == 0 ? PLACE_ACCOUNT : PLACE_QUEUE;
    return count == 2 ? PLACE_MESSAGES : PLACE_MESSAGE;
}

static enum failure check_queue(struct visit *visit, bool anew)
{
    if (visit->queue.at == NULL)
        return FAIL_NONE;
    if (store_check_queue(visit->queue, NULL) != TW_OK)
        return FAIL_INVALID_NAME;
    if (anew)
        return FAIL_NONE;
    return catalog_find(
        visit->account, SERVICE_QUEUE, visit->queue, visit->stored);
}

static enum failure route(struct visit *visit)
{
    struct slice comp = exchange_argument(visit->exchange, "comp");
    enum place place = read_place(visit);

    visit->exchange->target = visit->queue;
    if (place >= PLACE_MESSAGES && !visit->messages)
        return FAIL_RESOURCE_MISSING;
    for (size_t i = 0; i < sizeof(ROUTES) / sizeof(ROUTES[0]); i++) {
        enum failure failure;

        if (ROUTES[i].place != place ||
            strcmp(ROUTES[i].method, visit->exchange->method) != 0 ||
            !slice_equal(comp, slice_of(ROUTES[i].comp)))
            continue;
        failure = check_queue(visit, ROUTES[i].anew);
        return failure == FAIL_NONE ? ROUTES[i].answer(visit) : failure;
    }
    return comp.at != NULL ? FAIL_NOT_IMPLEMENTED : FAIL_METHOD;
}

void queue_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange)
{
    struct visit visit = {
        .azsim = azsim, .account = account, .exchange = exchange};
    enum failure failure;

    exchange_field(exchange, "Cache-Control", "no-cache");
    failure = route(&visit);
    if (failure != FAIL_NONE)
        exchange_fail(exchange, failure);
}
