/* SPDX-License-Identifier: MIT */
/* Several point reads at once. */
#include "jobs/engine/gets.h"

#include <assert.h>

/* Estimated memory of one entity while it is read, in bytes, for the request
 * pool's budget. Larger entities are rare. */
#define GET_BYTES (128 * 1024)

static enum tw_err send_get(
    struct pool_request *task, struct exchange *exchange)
{
    struct get *get =
        (struct get *)(void *)((char *)task - offsetof(struct get, task));

    return store_get(get->store, exchange, get->table, get->partition_key,
        get->row_key, &get->page);
}

void gets_add(struct gets *gets, struct store *store, const char *table,
    struct slice partition_key, struct slice row_key)
{
    struct get *get = &gets->list[gets->count++];

    assert(gets->count <= GETS_MAX);
    *get = (struct get){.store = store,
        .table = table,
        .partition_key = partition_key,
        .row_key = row_key,
        .task = {.send = send_get,
            .repeatable = true,
            .store = store,
            .partition = rate_limiter_partition(table, partition_key),
            .bytes = GET_BYTES}};
    page_init(&get->page);
}

static enum tw_err result_of(struct get *get, struct err *err)
{
    if (get->task.outcome == TW_OK)
        get->found = &get->page.entities[0];
    if (get->task.outcome == TW_OK || get->task.outcome == TW_NOT_FOUND)
        return TW_OK;
    return err_fail(err, get->task.outcome, "table %s: %s", get->table,
        get->task.last.err.text);
}

enum tw_err gets_read(
    struct gets *gets, struct pool_client *pool_client, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < gets->count; i++)
        request_pool_submit(pool_client, &gets->list[i].task);
    for (size_t i = 0; i < gets->count; i++)
        request_pool_wait(pool_client, &gets->list[i].task);
    for (size_t i = 0; i < gets->count && outcome == TW_OK; i++)
        outcome = result_of(&gets->list[i], err);
    return outcome;
}

void gets_done(struct gets *gets)
{
    for (size_t i = 0; i < gets->count; i++)
        page_done(&gets->list[i].page);
    gets->count = 0;
}
