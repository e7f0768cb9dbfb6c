/* SPDX-License-Identifier: MIT */
/*
 * The connections of an embedded store: a few readers, one writer. Concurrent
 * writes share one transaction, and so one fsync.
 */
#ifndef TW_STORE_EMBEDDED_POOL_H
#define TW_STORE_EMBEDDED_POOL_H

#include "worker/base/err.h"
#include "worker/store/embedded/db.h"

struct exchange;
struct pool;
struct watch;

/*
 * pool_open: open the file at path (borrowed). only_reads: the caller writes
 * nothing; if the file cannot be written, it is opened with DB_READ_ONLY.
 * Returns what db_open() returned. The caller owns *ret.
 */
TW_MUST_USE enum tw_err pool_open(
    const char *path, bool only_reads, struct pool **ret, struct err *err);
void pool_close(struct pool *pool); /* does nothing if given NULL */

/* pool_is_read_only: was the file opened with DB_READ_ONLY? Then pool_write()
 * must not be called. */
bool pool_is_read_only(const struct pool *pool);

/* pool_identity: return the file's db_identity(). Lives as long as pool. */
const char *pool_identity(const struct pool *pool);

/* pool_watch: watch the file as store_watch() says. NULL also for a store in
 * memory. */
struct watch *pool_watch(
    struct pool *pool, void (*changed)(void *context), void *context);

/*
 * pool_read: run body on a connection that sees everything committed.
 * pool_write: run body in a transaction; its changes are stored when pool_write
 * returns TW_OK, and undone if body returned anything else. Body may run on
 * another thread while the caller waits.
 *
 * Both run body at most once, and fill the exchange; body's err is the
 * exchange's.
 *
 * TW_STOPPED  the deadline was closed just before body was to run.
 * TW_BUSY     other threads or processes were waited for as long as a request
 *             may take; or the file was opened with DB_READ_ONLY, and another
 *             process began to write during pool_read.
 */
TW_MUST_USE enum tw_err pool_read(struct pool *pool, struct exchange *exchange,
    enum tw_err (*body)(struct db *, void *, struct err *), void *arg);
TW_MUST_USE enum tw_err pool_write(struct pool *pool, struct exchange *exchange,
    enum tw_err (*body)(struct db *, void *, struct err *), void *arg);

#endif
