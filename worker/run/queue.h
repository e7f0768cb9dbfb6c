/* SPDX-License-Identifier: MIT */
/* Queues that are made where they are missing. */
#ifndef TW_RUN_QUEUE_H
#define TW_RUN_QUEUE_H

#include <stdbool.h>

#include "worker/base/err.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/*
 * queue_ensure: TW_OK: the queue is there. call (begun by the caller) says how
 * long a service that is busy is waited for; call->attempt is the last request.
 * waits_for_deletion: one that is being deleted (409) is waited for too; its
 * name stays locked for half a minute or more.
 *
 * Source: Create Queue: an equal one that exists is answered 204.
 */
TW_MUST_USE enum tw_err queue_ensure(struct store *store, const char *queue,
    struct retry_call *call, bool waits_for_deletion);

#endif
