/* SPDX-License-Identifier: MIT */
/* Creates a queue if it is missing, and puts messages. */
#include "worker/run/queue.h"

#include "worker/base/buf.h"
#include "worker/base/crypto.h"

enum tw_err queue_ensure(struct store *store, const char *queue,
    struct retry_call *call, bool waits_for_deletion)
{
    enum tw_err outcome;

    do {
        outcome = store_queue_create(store, &call->exchange, queue);
        if (outcome == TW_UNKNOWN) /* the queue can be created again without
                                      harm */
            outcome = TW_BUSY;
    } while ((waits_for_deletion || !retry_is_locked(&call->exchange)) &&
             retry_call_again(call, outcome));
    return outcome;
}

enum tw_err queue_put(struct store *store, struct exchange *exchange,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    const struct exchange begun = *exchange;
    enum tw_err outcome =
        store_queue_put(store, exchange, queue, text, hide_s, ret);
    struct buf encoded;

    if (outcome != TW_INVALID)
        return outcome;
    buf_init(&encoded, 2 * QUEUE_MAX_MESSAGE_BYTES);
    crypto_base64(&encoded, text);
    *exchange = begun;
    outcome = store_queue_put(
        store, exchange, queue, buf_slice(&encoded), hide_s, ret);
    buf_done(&encoded);
    return outcome;
}
