/* SPDX-License-Identifier: MIT */
/* Creates a queue if it is missing, and puts messages. */
#ifndef TW_RUN_QUEUE_H
#define TW_RUN_QUEUE_H

#include <stdbool.h>

#include "worker/base/err.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/*
 * queue_ensure: create the queue unless it exists. TW_OK: the queue exists.
 * call: begun by the caller. It limits how long the request is retried while
 * the service is busy. Afterwards call->exchange holds the last request and its
 * response. waits_for_deletion: retry also while the queue is being deleted
 * (409), which locks its name for half a minute or more.
 *
 * Source: Create Queue: 204 if the same queue exists.
 */
TW_MUST_USE enum tw_err queue_ensure(struct store *store, const char *queue,
    struct retry_call *call, bool waits_for_deletion);

/* queue_put: like store_queue_put(), but if the text cannot be sent as XML (for
 * example, because it has U+FFFF), its base64 is put. Call only for a text
 * whose readers take both forms. exchange: begun by the caller; afterwards it
 * holds the last request and its response. */
TW_MUST_USE enum tw_err queue_put(struct store *store,
    struct exchange *exchange, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret);

#endif
