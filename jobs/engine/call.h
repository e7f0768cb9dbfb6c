/* SPDX-License-Identifier: MIT */
/* One request through the request pool, waited for: what a kind does step by
 * step. */
#ifndef TW_JOBS_ENGINE_CALL_H
#define TW_JOBS_ENGINE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

struct pool_client;

/*
 * call_get: store_get() with the request pool's retries. *ret_date_ticks (may
 * be NULL): the service's clock in the answer, also for TW_NOT_FOUND; 0: no
 * answer.
 */
TW_MUST_USE enum tw_err call_get(struct pool_client *request_pool,
    struct store *store, const char *table, struct slice partition_key,
    struct slice row_key, struct page *page, int64_t *ret_date_ticks,
    struct err *err);

/*
 * call_batch: store_batch(). A write: TW_UNKNOWN is not retried; read, then
 * decide. *ret_date_ticks as above.
 */
TW_MUST_USE enum tw_err call_batch(struct pool_client *request_pool,
    struct store *store, const struct batch *batch, struct batch_result *ret,
    int64_t *ret_date_ticks, struct err *err);

/* call_scan: store_scan(): one page, which may be empty though more follows. */
TW_MUST_USE enum tw_err call_scan(struct pool_client *request_pool,
    struct store *store, const struct scan_request *request, struct page *page,
    struct err *err);

/* call_any: request(context, attempt), one request. repeatable: it is made
 * again after an unknown outcome, too. */
TW_MUST_USE enum tw_err call_any(struct pool_client *request_pool,
    struct store *store,
    enum tw_err (*request)(void *context, struct exchange *exchange),
    void *context, bool repeatable, struct err *err);

/* call_create_table: store_create_table(): TW_OK also when it exists. */
TW_MUST_USE enum tw_err call_create_table(struct pool_client *request_pool,
    struct store *store, const char *table, struct err *err);

#endif
