/* SPDX-License-Identifier: MIT */
/*
 * The connections of an embedded store: a few that read, one that writes.
 * Writers that come at the same time share one transaction, and so one fsync.
 */
#ifndef TW_STORE_EMBEDDED_POOL_H
#define TW_STORE_EMBEDDED_POOL_H

#include "worker/base/err.h"
#include "worker/store/embedded/db.h"

struct exchange;
struct pool;
struct watch;

/* pool_open: path is borrowed. Fails as db_open. Owned. */
TW_MUST_USE enum tw_err pool_open(
    const char *path, struct pool **ret, struct err *err);
void pool_close(struct pool *pool); /* NULL: nothing */

/* pool_identity: the file's, as of db_identity(). Lives as long as pool. */
const char *pool_identity(const struct pool *pool);

/* pool_watch: of the file; as store_watch(). NULL also in memory. */
struct watch *pool_watch(
    struct pool *pool, void (*changed)(void *context), void *context);

/*
 * pool_read: run body on a connection that sees all that was committed.
 * pool_write: run body in a transaction; what it did is stored when pool_write
 * returns TW_OK, and undone where body returned anything else. It may run on
 * another thread, while the one that asked for it waits.
 *
 * Both ask the deadline last of all before body (TW_STOPPED), wait for others
 * no longer than it gives a request (TW_BUSY), run body at most once, and fill
 * the attempt; body's err is the attempt's.
 */
TW_MUST_USE enum tw_err pool_read(struct pool *pool, struct exchange *exchange,
    enum tw_err (*body)(struct db *, void *, struct err *), void *arg);
TW_MUST_USE enum tw_err pool_write(struct pool *pool, struct exchange *exchange,
    enum tw_err (*body)(struct db *, void *, struct err *), void *arg);

#endif
