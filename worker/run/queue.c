/* SPDX-License-Identifier: MIT */
/* Creates a queue if it is missing. */
#include "worker/run/queue.h"

enum tw_err queue_ensure(struct store *store, const char *queue,
    struct retry_call *call, bool waits_for_deletion)
{
    enum tw_err outcome;

    do {
        outcome = store_queue_create(store, &call->exchange, queue);
        if (outcome == TW_UNKNOWN) /* creating the queue again is safe */
            outcome = TW_BUSY;
    } while ((waits_for_deletion || !retry_is_locked(&call->exchange)) &&
             retry_call_again(call, outcome));
    return outcome;
}
