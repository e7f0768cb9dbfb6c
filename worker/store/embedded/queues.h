/* SPDX-License-Identifier: MIT */
/* The queues of an embedded store. Call only through store.h, which checks the
 * arguments. */
#ifndef TW_STORE_EMBEDDED_QUEUES_H
#define TW_STORE_EMBEDDED_QUEUES_H

#include "worker/store/store.h"

TW_MUST_USE enum tw_err queues_create(
    struct store *store, struct exchange *exchange, const char *queue);
TW_MUST_USE enum tw_err queues_put(struct store *store,
    struct exchange *exchange, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret);
TW_MUST_USE enum tw_err queues_get(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    int64_t visibility_timeout_s, struct messages *ret);
TW_MUST_USE enum tw_err queues_renew(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    char *pop_receipt, int64_t hide_s);
TW_MUST_USE enum tw_err queues_delete(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    struct slice pop_receipt);
TW_MUST_USE enum tw_err queues_peek(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    struct messages *ret);
TW_MUST_USE enum tw_err queues_count(struct store *store,
    struct exchange *exchange, const char *queue, int64_t *ret);

#endif
