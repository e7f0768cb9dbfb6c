/* SPDX-License-Identifier: MIT */
/* The embedded store: opening, closing, and its table of functions. */
#include "worker/store/embedded/embedded.h"

#include <stdint.h>
#include <sys/stat.h>

#include "worker/base/mem.h"
#include "worker/store/embedded/pool.h"
#include "worker/store/embedded/queues.h"
#include "worker/store/embedded/tables.h"
#include "worker/store/store.h"

struct embedded {
    struct store store; /* first, so that one is the other */
    struct pool *pool;
    char *place; /* owned; NULL: in memory */
};

static struct pool *pool_of(struct store *store)
{
    return ((struct embedded *)store)->pool;
}

static enum tw_err create_table(
    struct store *store, struct attempt *attempt, const char *table)
{
    return tables_create(pool_of(store), attempt, table);
}

static enum tw_err list_tables(struct store *store, struct attempt *attempt,
    struct continuation from, struct page *ret)
{
    return tables_list(pool_of(store), attempt, from, ret);
}

static enum tw_err scan(struct store *store, struct attempt *attempt,
    const struct scan_request *request, struct page *ret)
{
    return tables_scan(pool_of(store), attempt, request, ret);
}

static enum tw_err get(struct store *store, struct attempt *attempt,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    return tables_get(
        pool_of(store), attempt, table, partition_key, row_key, ret);
}

static enum tw_err batch(struct store *store, struct attempt *attempt,
    const struct batch *operations, struct batch_result *ret)
{
    return tables_batch(pool_of(store), attempt, operations, ret);
}

static enum tw_err queue_create(
    struct store *store, struct attempt *attempt, const char *queue)
{
    return queues_create(pool_of(store), attempt, queue);
}

static enum tw_err queue_put(struct store *store, struct attempt *attempt,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    return queues_put(pool_of(store), attempt, queue, text, hide_s, ret);
}

static enum tw_err queue_get(struct store *store, struct attempt *attempt,
    const char *queue, unsigned count, int64_t visibility_timeout_s,
    struct messages *ret)
{
    return queues_get(
        pool_of(store), attempt, queue, count, visibility_timeout_s, ret);
}

static enum tw_err queue_renew(struct store *store, struct attempt *attempt,
    const char *queue, struct slice id, char *pop_receipt, int64_t hide_s)
{
    return queues_renew(
        pool_of(store), attempt, queue, id, pop_receipt, hide_s);
}

static enum tw_err queue_delete(struct store *store, struct attempt *attempt,
    const char *queue, struct slice id, struct slice pop_receipt)
{
    return queues_delete(pool_of(store), attempt, queue, id, pop_receipt);
}

static enum tw_err queue_peek(struct store *store, struct attempt *attempt,
    const char *queue, unsigned count, struct messages *ret)
{
    return queues_peek(pool_of(store), attempt, queue, count, ret);
}

static enum tw_err queue_count(struct store *store, struct attempt *attempt,
    const char *queue, int64_t *ret)
{
    return queues_count(pool_of(store), attempt, queue, ret);
}

static void close_store(struct store *store)
{
    pool_close(pool_of(store));
    mem_free(((struct embedded *)store)->place);
    mem_free(store);
}

static const struct store_ops OPS = {
    .create_table = create_table,
    .list_tables = list_tables,
    .scan = scan,
    .get = get,
    .batch = batch,
    .queue_create = queue_create,
    .queue_put = queue_put,
    .queue_get = queue_get,
    .queue_renew = queue_renew,
    .queue_delete = queue_delete,
    .queue_peek = queue_peek,
    .queue_count = queue_count,
    .close = close_store,
};

/* A file has many names. */
static char *place_of(const char *path)
{
    struct stat stat_of;

    if (stat(path, &stat_of) != 0)
        return NULL;
    return mem_format("file %ju on %ju", (uintmax_t)stat_of.st_ino,
        (uintmax_t)stat_of.st_dev);
}

enum tw_err embedded_open(
    const char *name, const char *path, struct store **ret, struct err *err)
{
    struct embedded *embedded;
    struct pool *pool;
    enum tw_err code = pool_open(path, &pool, err);

    if (code != TW_OK)
        return code;
    embedded = mem_alloc(sizeof(*embedded));
    embedded->pool = pool;
    embedded->place = place_of(path);
    embedded->store = (struct store){
        .ops = &OPS,
        .name = name,
        .traits =
            {
                .kind = "embedded",
                .ordered = true,
                .has_queues = true,
                .late_writes = false,
                .local = true,
                .batch_max_bytes = BATCH_MAX_BYTES,
                .place = embedded->place,
                .identity = pool_identity(pool),
            },
    };
    *ret = &embedded->store;
    return TW_OK;
}
