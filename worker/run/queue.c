/* SPDX-License-Identifier: MIT */
/* Queues that are made where they are missing. */
#include "worker/run/queue.h"

enum tw_err queue_ensure(struct store *store, const char *queue,
    struct retry_call *call, bool waits_for_deletion)
{
    enum tw_err outcome;

    do {
        outcome = store_queue_create(store, &call->exchange, queue);
        if (outcome == TW_UNKNOWN) /* what is there may be made again */
            outcome = TW_BUSY;
    } while ((waits_for_deletion || !retry_is_locked(&call->exchange)) &&
             retry_call_again(call, outcome));
    return outcome;
}
