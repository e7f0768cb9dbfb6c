/* SPDX-License-Identifier: MIT */
/* The embedded store: tables and queues in one SQLite file. */
#ifndef TW_STORE_EMBEDDED_EMBEDDED_H
#define TW_STORE_EMBEDDED_EMBEDDED_H

#include "worker/base/err.h"

struct pool;
struct store;

/*
 * embedded_open: open or create the file at path (":memory:": a store in
 * memory, which is gone when it is closed). Several processes may open the
 * file, but only by one name, so a file that has several hard links, or that is
 * a mount point itself, is refused (file_names.h). name and path are borrowed;
 * *ret is owned by the caller.
 *
 * TW_FULL: the file cannot be created or written; err has the path and the
 * reason. TW_INVALID: the file is not a tableward file, has a newer version, or
 * has several names.
 */
TW_MUST_USE enum tw_err embedded_open(
    const char *name, const char *path, struct store **ret, struct err *err);

/* embedded_open_to_read: like embedded_open(), for a caller that writes
 * nothing: if the file cannot be written, it is opened with store->read_only.
 */
TW_MUST_USE enum tw_err embedded_open_to_read(
    const char *name, const char *path, struct store **ret, struct err *err);

/* embedded_pool: return the connections of store, which owns them. */
struct pool *embedded_pool(struct store *store);

#endif
