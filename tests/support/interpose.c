/* SPDX-License-Identifier: MIT */
/* A store in front of another. */
#include "tests/support/interpose.h"

#include <string.h>

#include "worker/base/mem.h"

/* ---- from a struct store_request to the call ---- */

static enum tw_err send_scan(struct store *store, struct exchange *exchange,
    const struct store_request *r)
{
    const struct scan_request *scan = r->scan;
    struct scan_request alone = *scan;
    enum tw_err outcome;

    /* The store of Azure calls follows() before the page is complete; an
     * embedded store never calls it. Here only the outermost store calls it, so
     * that it is called once. */
    alone.follows = NULL;
    outcome = store_scan(store, exchange, &alone, r->page);
    if (outcome == TW_OK && scan->follows && r->page->next.more)
        scan->follows(scan->context, &r->page->next);
    return outcome;
}

static enum tw_err send_get(struct store *store, struct exchange *exchange,
    const struct store_request *r)
{
    return store_get(
        store, exchange, r->name, r->partition_key, r->row_key, r->page);
}

static enum tw_err send_batch(struct store *store, struct exchange *exchange,
    const struct store_request *r)
{
    return store_batch(store, exchange, r->batch, r->result);
}

static enum tw_err send_create_table(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_create_table(store, exchange, r->name);
}

static enum tw_err send_list_tables(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_list_tables(store, exchange, r->from, r->page);
}

static enum tw_err send_queue_create(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_create(store, exchange, r->name);
}

static enum tw_err send_queue_put(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_put(
        store, exchange, r->name, r->text, r->seconds, r->messages);
}

static enum tw_err send_queue_get(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_get(
        store, exchange, r->name, r->count, r->seconds, r->messages);
}

static enum tw_err send_queue_renew(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_renew(
        store, exchange, r->name, r->id, r->receipt, r->seconds);
}

static enum tw_err send_queue_delete(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_delete(store, exchange, r->name, r->id, r->pop_receipt);
}

static enum tw_err send_queue_peek(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_peek(store, exchange, r->name, r->count, r->messages);
}

static enum tw_err send_queue_count(struct store *store,
    struct exchange *exchange, const struct store_request *r)
{
    return store_queue_count(store, exchange, r->name, r->number);
}

static const struct {
    const char *name;
    enum tw_err (*send)(
        struct store *, struct exchange *, const struct store_request *);
} KINDS[STORE_CALLS] = {
    [CALL_SCAN] = {"scan", send_scan},
    [CALL_GET] = {"get", send_get},
    [CALL_BATCH] = {"batch", send_batch},
    [CALL_CREATE_TABLE] = {"create-table", send_create_table},
    [CALL_LIST_TABLES] = {"list-tables", send_list_tables},
    [CALL_QUEUE_CREATE] = {"queue-create", send_queue_create},
    [CALL_QUEUE_PUT] = {"queue-put", send_queue_put},
    [CALL_QUEUE_GET] = {"queue-get", send_queue_get},
    [CALL_QUEUE_RENEW] = {"queue-renew", send_queue_renew},
    [CALL_QUEUE_DELETE] = {"queue-delete", send_queue_delete},
    [CALL_QUEUE_PEEK] = {"queue-peek", send_queue_peek},
    [CALL_QUEUE_COUNT] = {"queue-count", send_queue_count},
};

enum tw_err request_send(struct store *store, struct exchange *exchange,
    const struct store_request *request)
{
    return KINDS[request->call].send(store, exchange, request);
}

const char *call_name(enum store_call call)
{
    return KINDS[call].name;
}

bool call_in(unsigned set, enum store_call call)
{
    return (set & CALL_SET(call)) != 0;
}

/* ---- from a call to the struct store_request ---- */

static enum tw_err meet(struct store *store, struct exchange *exchange,
    const struct store_request *request)
{
    struct interposed *self = (struct interposed *)store;

    return self->meet(self, exchange, request);
}

static enum tw_err on_scan(struct store *store, struct exchange *exchange,
    const struct scan_request *scan, struct page *ret)
{
    struct store_request request = {
        .call = CALL_SCAN, .name = scan->table, .scan = scan, .page = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    struct store_request request = {.call = CALL_GET,
        .name = table,
        .partition_key = partition_key,
        .row_key = row_key,
        .page = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, struct batch_result *ret)
{
    struct store_request request = {.call = CALL_BATCH,
        .name = batch->table,
        .batch = batch,
        .result = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_create_table(
    struct store *store, struct exchange *exchange, const char *table)
{
    struct store_request request = {.call = CALL_CREATE_TABLE, .name = table};

    return meet(store, exchange, &request);
}

static enum tw_err on_list_tables(struct store *store,
    struct exchange *exchange, struct continuation from, struct page *ret)
{
    struct store_request request = {
        .call = CALL_LIST_TABLES, .from = from, .page = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_create(
    struct store *store, struct exchange *exchange, const char *queue)
{
    struct store_request request = {.call = CALL_QUEUE_CREATE, .name = queue};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_put(struct store *store, struct exchange *exchange,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    struct store_request request = {.call = CALL_QUEUE_PUT,
        .name = queue,
        .text = text,
        .seconds = hide_s,
        .messages = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_get(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, int64_t visibility_timeout_s,
    struct messages *ret)
{
    struct store_request request = {.call = CALL_QUEUE_GET,
        .name = queue,
        .count = count,
        .seconds = visibility_timeout_s,
        .messages = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_renew(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    char *pop_receipt, int64_t hide_s)
{
    struct store_request request = {.call = CALL_QUEUE_RENEW,
        .name = queue,
        .id = id,
        .receipt = pop_receipt,
        .seconds = hide_s};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_delete(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    struct slice pop_receipt)
{
    struct store_request request = {.call = CALL_QUEUE_DELETE,
        .name = queue,
        .id = id,
        .pop_receipt = pop_receipt};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_peek(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, struct messages *ret)
{
    struct store_request request = {.call = CALL_QUEUE_PEEK,
        .name = queue,
        .count = count,
        .messages = ret};

    return meet(store, exchange, &request);
}

static enum tw_err on_queue_count(struct store *store,
    struct exchange *exchange, const char *queue, int64_t *ret)
{
    struct store_request request = {
        .call = CALL_QUEUE_COUNT, .name = queue, .number = ret};

    return meet(store, exchange, &request);
}

static void on_close(struct store *store)
{
    store_close(((struct interposed *)store)->inner);
}

void interposed_init(struct interposed *self, const char *name,
    struct store *inner,
    enum tw_err (*meet_one)(struct interposed *self, struct exchange *exchange,
        const struct store_request *request))
{
    static const struct store_ops ops = {
        .create_table = on_create_table,
        .list_tables = on_list_tables,
        .scan = on_scan,
        .get = on_get,
        .batch = on_batch,
        .queue_create = on_queue_create,
        .queue_put = on_queue_put,
        .queue_get = on_queue_get,
        .queue_renew = on_queue_renew,
        .queue_delete = on_queue_delete,
        .queue_peek = on_queue_peek,
        .queue_count = on_queue_count,
        .close = on_close,
    };

    *self = (struct interposed){
        .store = {.ops = &ops,
            .capabilities = inner->capabilities,
            .name = name},
        .inner = inner,
        .meet = meet_one,
    };
}

enum tw_err request_pass(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    return self->meet(self, exchange, request);
}

/* ---- answers ---- */

void request_forget(const struct store_request *request, const char *before)
{
    if (request->page) {
        page_done(request->page);
        page_init(request->page);
    }
    if (request->messages) {
        messages_done(request->messages);
        messages_init(request->messages);
    }
    if (request->batch)
        request->result->failed = request->batch->count;
    if (request->receipt && before)
        memcpy(request->receipt, before, QUEUE_RECEIPT_MAX);
}

static void copy_batch(struct request_copy *copy, const struct batch *batch)
{
    struct operation *operations =
        arena_alloc(&copy->arena, batch->count * sizeof(*operations));

    for (size_t i = 0; i < batch->count; i++) {
        operations[i].type = batch->operations[i].type;
        entity_copy(
            &operations[i].entity, &copy->arena, &batch->operations[i].entity);
    }
    copy->batch = (struct batch){copy->request.name, operations, batch->count};
    copy->request.batch = &copy->batch;
}

static void copy_texts(
    struct request_copy *copy, const struct store_request *request)
{
    struct store_request *to = &copy->request;

    if (request->name)
        to->name = arena_copy(&copy->arena, slice_of(request->name)).at;
    to->partition_key = arena_copy(&copy->arena, request->partition_key);
    to->row_key = arena_copy(&copy->arena, request->row_key);
    to->text = arena_copy(&copy->arena, request->text);
    to->id = arena_copy(&copy->arena, request->id);
    to->pop_receipt = arena_copy(&copy->arena, request->pop_receipt);
}

struct request_copy *request_copy(const struct store_request *request)
{
    struct request_copy *copy = mem_alloc(sizeof(*copy));

    copy->request = *request;
    arena_init(&copy->arena);
    page_init(&copy->page);
    messages_init(&copy->messages);
    copy_texts(copy, request);
    if (request->batch)
        copy_batch(copy, request->batch);
    if (request->receipt)
        memcpy(copy->receipt, request->receipt, QUEUE_RECEIPT_MAX);
    copy->request.page = &copy->page;
    copy->request.messages = &copy->messages;
    copy->request.result = &copy->result;
    copy->request.receipt = copy->receipt;
    copy->request.number = &copy->number;
    return copy;
}

void request_copy_free(struct request_copy *copy)
{
    page_done(&copy->page);
    messages_done(&copy->messages);
    arena_done(&copy->arena);
    mem_free(copy);
}
