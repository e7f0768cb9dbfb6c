/* SPDX-License-Identifier: MIT */
/* The embedded store: opening, closing, and its table of functions. */
#include "worker/store/embedded/embedded.h"

#include <stdatomic.h>
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
    char *place;                 /* owned; NULL: in memory */
    _Atomic int64_t spare_pages; /* result of the last db_spare_pages() */
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

/* ---- space that is given back ---- */

static enum tw_err find_spare_pages(struct db *db, void *arg, struct err *err)
{
    struct embedded *embedded = arg;
    int64_t pages = 0;
    enum tw_err outcome = db_spare_pages(
        db, atomic_load(&embedded->spare_pages) > 0, &pages, err);

    if (outcome == TW_OK)
        atomic_store(&embedded->spare_pages, pages);
    return outcome;
}

static enum tw_err give_back_pages(struct db *db, void *arg, struct err *err)
{
    struct embedded *embedded = arg;

    return db_give_back(db, atomic_load(&embedded->spare_pages), err);
}

/* Gives space back. Reads the number of free pages first, so that the file is
 * locked only if there is space to give back. */
static enum tw_err give_back(
    struct store *store, struct exchange *exchange, bool *ret_more)
{
    struct embedded *embedded = (struct embedded *)store;
    enum tw_err outcome =
        pool_read(embedded->pool, exchange, find_spare_pages, embedded);

    if (outcome != TW_OK || atomic_load(&embedded->spare_pages) == 0)
        return outcome;
    outcome = pool_write(embedded->pool, exchange, give_back_pages, embedded);
    *ret_more = outcome == TW_OK;
    return outcome;
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
    .give_back = give_back,
    .watch = watch_store,
    .close = close_store,
};

/* Returns a name of the file by its inode, because a file can have several
 * paths. */
static char *place_of(const char *path)
{
    struct stat stat_of;

    if (stat(path, &stat_of) != 0)
        return NULL;
    return mem_format("file %ju on %ju", (uintmax_t)stat_of.st_ino,
        (uintmax_t)stat_of.st_dev);
}

static struct store *new_store(
    const char *name, const char *path, struct pool *pool)
{
    struct embedded *embedded;

    embedded = mem_alloc(sizeof(*embedded));
    embedded->pool = pool;
    embedded->place = place_of(path);
    embedded->store = (struct store){
        .ops = &OPS,
        .name = name,
        .read_only = pool_is_read_only(pool),
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
    return &embedded->store;
}

static enum tw_err open_store(const char *name, const char *path,
    bool only_reads, struct store **ret, struct err *err)
{
    struct pool *pool;
    enum tw_err outcome = pool_open(path, only_reads, &pool, err);

    if (outcome == TW_OK)
        *ret = new_store(name, path, pool);
    return outcome;
}

enum tw_err embedded_open(
    const char *name, const char *path, struct store **ret, struct err *err)
{
    return open_store(name, path, false, ret, err);
}

enum tw_err embedded_open_to_read(
    const char *name, const char *path, struct store **ret, struct err *err)
{
    return open_store(name, path, true, ret, err);
}
