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
    struct store store; /* must be first: store points to this struct */
    struct pool *pool;
    char *place; /* owned; NULL: in memory */
};

struct pool *embedded_pool(struct store *store)
{
    return ((struct embedded *)store)->pool;
}

static void close_store(struct store *store)
{
    pool_close(embedded_pool(store));
    mem_free(((struct embedded *)store)->place);
    mem_free(store);
}

static struct watch *watch_store(
    struct store *store, void (*changed)(void *context), void *context)
{
    return pool_watch(embedded_pool(store), changed, context);
}

static const struct store_ops OPS = {
    .create_table = tables_create,
    .list_tables = tables_list,
    .scan = tables_scan,
    .get = tables_get,
    .batch = tables_batch,
    .queue_create = queues_create,
    .queue_put = queues_put,
    .queue_get = queues_get,
    .queue_renew = queues_renew,
    .queue_delete = queues_delete,
    .queue_peek = queues_peek,
    .queue_count = queues_count,
    .watch = watch_store,
    .close = close_store,
};

/* Names the file by its inode, because a file can have several paths. */
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
        .capabilities =
            {
                .kind = "embedded",
                .ordered = true,
                .has_queues = true,
                .late_writes = false,
                .local = true,
                .batch_max_bytes = BATCH_MAX_BYTES,
                .endpoint = embedded->place,
                .identity = pool_identity(pool),
            },
    };
    *ret = &embedded->store;
    return TW_OK;
}
