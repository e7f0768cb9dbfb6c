/* SPDX-License-Identifier: MIT */
/* Creates a queue if it is missing. */
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

#endif
