/* SPDX-License-Identifier: MIT */
/* Single requests through the request pool; each function waits for the
 * response. */
#ifndef TW_JOBS_ENGINE_CALL_H
#define TW_JOBS_ENGINE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

struct pool_client;

/*
 * call_get: call store_get() with the request pool's retries. *ret_date_ticks
 * (ret_date_ticks may be NULL) becomes the `Date` of the response, also for
 * TW_NOT_FOUND, or 0 if there was no response.
 */
TW_MUST_USE enum tw_err call_get(struct pool_client *pool_client,
    struct store *store, const char *table, struct slice partition_key,
    struct slice row_key, struct page *page, int64_t *ret_date_ticks,
    struct err *err);

/*
 * call_batch: call store_batch() with the request pool's retries. TW_UNKNOWN is
 * not retried, because the batch may have been carried out: the caller must
 * read the entities before it sends the batch again. *ret_date_ticks: as in
 * call_get().
 */
TW_MUST_USE enum tw_err call_batch(struct pool_client *pool_client,
    struct store *store, const struct batch *batch, struct batch_result *ret,
    int64_t *ret_date_ticks, struct err *err);

/* call_scan: call store_scan() with the request pool's retries. Reads one page,
 * which may be empty although more pages follow. */
TW_MUST_USE enum tw_err call_scan(struct pool_client *pool_client,
    struct store *store, const struct scan_request *request, struct page *page,
    struct err *err);

/* call_any: make one request by request(context, exchange). If repeatable is
 * true, the request pool retries the request after an unknown outcome too. */
TW_MUST_USE enum tw_err call_any(struct pool_client *pool_client,
    struct store *store,
    enum tw_err (*request)(void *context, struct exchange *exchange),
    void *context, bool repeatable, struct err *err);

/* call_create_table: call store_create_table() with the request pool's retries.
 * TW_OK also if the table exists. */
TW_MUST_USE enum tw_err call_create_table(struct pool_client *pool_client,
    struct store *store, const char *table, struct err *err);

#endif
