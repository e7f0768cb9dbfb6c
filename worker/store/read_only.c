/* SPDX-License-Identifier: MIT */
/* A store that cannot write: what reads goes on to the store behind it, what
 * changes anything ends here. */
#include "worker/store/read_only.h"

#include <stdatomic.h>

#include "worker/base/mem.h"

struct read_only {
    struct store store; /* first: what callers see */
    struct store *inner;
    _Atomic bool failed; /* the last request, whichever thread's */
};

static struct store *inner_of(struct store *store)
{
    return ((struct read_only *)store)->inner;
}

/* ---- what goes through ---- */

/* The door was passed at the outer store (store.c): the inner one's functions
 * are asked directly. */
#define PASS(store, call, ...)                                                 \
    noted(store, inner_of(store)->ops->call(inner_of(store), __VA_ARGS__))

static enum tw_err noted(struct store *store, enum tw_err outcome)
{
    atomic_store(&((struct read_only *)store)->failed,
        outcome == TW_BUSY || outcome == TW_UNKNOWN || outcome == TW_REFUSED ||
            outcome == TW_FORBIDDEN);
    return outcome;
}

static enum tw_err list_tables(struct store *store, struct attempt *attempt,
    struct continuation from, struct page *ret)
{
    return PASS(store, list_tables, attempt, from, ret);
}

static enum tw_err scan(struct store *store, struct attempt *attempt,
    const struct scan_request *request, struct page *ret)
{
    return PASS(store, scan, attempt, request, ret);
}

static enum tw_err get(struct store *store, struct attempt *attempt,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    return PASS(store, get, attempt, table, partition_key, row_key, ret);
}

static enum tw_err queue_peek(struct store *store, struct attempt *attempt,
    const char *queue, unsigned count, struct messages *ret)
{
    return PASS(store, queue_peek, attempt, queue, count, ret);
}

static enum tw_err queue_count(struct store *store, struct attempt *attempt,
    const char *queue, int64_t *ret)
{
    return PASS(store, queue_count, attempt, queue, ret);
}

/* ---- what does not ---- */

static enum tw_err refuse(
    struct store *store, struct attempt *attempt, const char *what)
{
    return err_fail(&attempt->err, TW_INVALID,
        "store '%s' is open for reading only: %s; nothing was sent",
        store->name, what);
}

static enum tw_err create_table(
    struct store *store, struct attempt *attempt, const char *table)
{
    (void)table;
    return refuse(store, attempt, "no table is created");
}

static enum tw_err batch(struct store *store, struct attempt *attempt,
    const struct batch *operations, struct batch_result *ret)
{
    (void)operations, (void)ret;
    return refuse(store, attempt, "no entity is written");
}

static enum tw_err queue_create(
    struct store *store, struct attempt *attempt, const char *queue)
{
    (void)queue;
    return refuse(store, attempt, "no queue is created");
}

static enum tw_err queue_put(struct store *store, struct attempt *attempt,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    (void)queue, (void)text, (void)hide_s, (void)ret;
    return refuse(store, attempt, "no message is put");
}

/* A get hides what it brings. */
static enum tw_err queue_get(struct store *store, struct attempt *attempt,
    const char *queue, unsigned count, int64_t visibility_timeout_s,
    struct messages *ret)
{
    (void)queue, (void)count, (void)visibility_timeout_s, (void)ret;
    return refuse(store, attempt, "no message is taken");
}

static enum tw_err queue_renew(struct store *store, struct attempt *attempt,
    const char *queue, struct slice id, char *pop_receipt, int64_t hide_s)
{
    (void)queue, (void)id, (void)pop_receipt, (void)hide_s;
    return refuse(store, attempt, "no message is hidden");
}

static enum tw_err queue_delete(struct store *store, struct attempt *attempt,
    const char *queue, struct slice id, struct slice pop_receipt)
{
    (void)queue, (void)id, (void)pop_receipt;
    return refuse(store, attempt, "no message is deleted");
}

bool read_only_failed(const struct store *store)
{
    return atomic_load(&((const struct read_only *)store)->failed);
}

static void close_outer(struct store *store)
{
    mem_free(store);
}

struct store *read_only_new(struct store *inner)
{
    static const struct store_ops ops = {
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
        .close = close_outer,
    };
    struct read_only *outer = mem_alloc(sizeof(*outer));

    outer->store = (struct store){
        .ops = &ops, .traits = inner->traits, .name = inner->name};
    outer->inner = inner;
    return &outer->store;
}
