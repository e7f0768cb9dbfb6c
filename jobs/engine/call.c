/* SPDX-License-Identifier: MIT */
/* Single requests through the request pool. */
#include "jobs/engine/call.h"

#include "worker/store/request_pool.h"

struct get_task {
    struct pool_request task; /* first member: the request pool's pointer to it
                               * is cast to the struct */
    const char *table;
    struct slice partition_key, row_key;
    struct page *page;
};

struct batch_task {
    struct pool_request task;
    const struct batch *batch;
    struct batch_result *result;
};

struct scan_task {
    struct pool_request task;
    const struct scan_request *request;
    struct page *page;
};

struct any_task {
    struct pool_request task;
    enum tw_err (*request)(void *context, struct exchange *exchange);
    void *context;
};

static enum tw_err send_get(
    struct pool_request *task, struct exchange *exchange)
{
    struct get_task *get = (struct get_task *)task;

    return store_get(task->store, exchange, get->table, get->partition_key,
        get->row_key, get->page);
}

static enum tw_err send_batch(
    struct pool_request *task, struct exchange *exchange)
{
    struct batch_task *batch = (struct batch_task *)task;

    return store_batch(task->store, exchange, batch->batch, batch->result);
}

static enum tw_err send_scan(
    struct pool_request *task, struct exchange *exchange)
{
    struct scan_task *scan = (struct scan_task *)task;

    enum tw_err outcome =
        store_scan(task->store, exchange, scan->request, scan->page);

    if (outcome == TW_OK && scan->page->count > 0)
        task->came = (unsigned)scan->page->count;
    return outcome;
}

static enum tw_err send_any(
    struct pool_request *task, struct exchange *exchange)
{
    struct any_task *any = (struct any_task *)task;

    return any->request(any->context, exchange);
}

static enum tw_err call(struct pool_client *pool_client,
    struct pool_request *task, int64_t *ret_date_ticks, struct err *err)
{
    enum tw_err outcome = request_pool_call(pool_client, task);

    if (ret_date_ticks)
        *ret_date_ticks = task->last.date_ticks;
    if (outcome != TW_OK)
        *err = task->last.err;
    return outcome;
}

enum tw_err call_get(struct pool_client *pool_client, struct store *store,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *page, int64_t *ret_date_ticks, struct err *err)
{
    struct get_task get = {
        .task = {.send = send_get,
            .repeatable = true,
            .store = store,
            .partition = rate_limiter_partition(table, partition_key),
            .bytes = ENTITY_MAX_BYTES},
        .table = table,
        .partition_key = partition_key,
        .row_key = row_key,
        .page = page,
    };

    return call(pool_client, &get.task, ret_date_ticks, err);
}

enum tw_err call_batch(struct pool_client *pool_client, struct store *store,
    const struct batch *batch, struct batch_result *ret,
    int64_t *ret_date_ticks, struct err *err)
{
    struct batch_task task = {
        .task = {.send = send_batch,
            .store = store,
            .partition = rate_limiter_partition(
                batch->table, batch->operations[0].entity.partition_key),
            .entities = (unsigned)batch->count,
            .bytes = ENTITY_MAX_BYTES},
        .batch = batch,
        .result = ret,
    };

    return call(pool_client, &task.task, ret_date_ticks, err);
}

enum tw_err call_scan(struct pool_client *pool_client, struct store *store,
    const struct scan_request *request, struct page *page, struct err *err)
{
    struct scan_task task = {
        .task = {.send = send_scan,
            .repeatable = true,
            .store = store,
            .entities = request->top > 0 ? request->top : PAGE_MAX_ENTITIES,
            .bytes = ENTITY_MAX_BYTES},
        .request = request,
        .page = page,
    };

    return call(pool_client, &task.task, NULL, err);
}

enum tw_err call_any(struct pool_client *pool_client, struct store *store,
    enum tw_err (*request)(void *context, struct exchange *exchange),
    void *context, bool repeatable, struct err *err)
{
    struct any_task any = {
        .task = {.send = send_any, .repeatable = repeatable, .store = store},
        .request = request,
        .context = context,
    };

    return call(pool_client, &any.task, NULL, err);
}

struct creation {
    struct store *store;
    const char *table;
};

static enum tw_err create(void *context, struct exchange *exchange)
{
    struct creation *creation = context;

    return store_create_table(creation->store, exchange, creation->table);
}

enum tw_err call_create_table(struct pool_client *pool_client,
    struct store *store, const char *table, struct err *err)
{
    struct creation creation = {store, table};

    return call_any(pool_client, store, create, &creation, true, err);
}
