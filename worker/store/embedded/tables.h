/* SPDX-License-Identifier: MIT */
/* The tables of an embedded store. Call only through store.h, which checks the
 * arguments. */
#ifndef TW_STORE_EMBEDDED_TABLES_H
#define TW_STORE_EMBEDDED_TABLES_H

#include "worker/store/store.h"

TW_MUST_USE enum tw_err tables_create(
    struct store *store, struct exchange *exchange, const char *table);
TW_MUST_USE enum tw_err tables_list(struct store *store,
    struct exchange *exchange, struct continuation from, struct page *ret);
TW_MUST_USE enum tw_err tables_scan(struct store *store,
    struct exchange *exchange, const struct scan_request *request,
    struct page *ret);
TW_MUST_USE enum tw_err tables_get(struct store *store,
    struct exchange *exchange, const char *table, struct slice partition_key,
    struct slice row_key, struct page *ret);
TW_MUST_USE enum tw_err tables_batch(struct store *store,
    struct exchange *exchange, const struct batch *batch,
    struct batch_result *ret);

#endif
