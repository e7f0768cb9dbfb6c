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
 * call (begun by the caller) limits how long a busy service is retried;
 * call->exchange is the last request. waits_for_deletion: a queue that is being
 * deleted (409) is retried too; its name stays locked for half a minute or
 * more.
 *
 * Source: Create Queue: 204 if the same queue exists.
 */
TW_MUST_USE enum tw_err queue_ensure(struct store *store, const char *queue,
    struct retry_call *call, bool waits_for_deletion);

/* queue_put: as store_queue_put(), but a text that cannot be sent as XML,
 * because of a character such as U+FFFF, is put as base64. Only for a text
 * whose readers take both. exchange, begun by the caller, is the last request.
 */
TW_MUST_USE enum tw_err queue_put(struct store *store,
    struct exchange *exchange, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret);

#endif
