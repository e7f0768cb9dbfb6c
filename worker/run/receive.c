/* SPDX-License-Identifier: MIT */
/* Creates the missing queues, then gets messages. */
#include "worker/run/receive.h"

#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/run/queue.h"
#include "worker/store/deadline.h"
#include "worker/store/retry.h"

/* Begins a request. Its own timeout limits the request; no lease does. */
static struct retry_call begin_call(
    const struct definition *definition, struct deadline *deadline)
{
    deadline_init(deadline, PLATFORM_NEVER,
        deadline_request_ms(definition->setup->visibility_timeout_s * 1000));
    return retry_call(deadline, RETRY_BUSY_MS, 0);
}

static enum tw_err create(const struct definition *definition,
    const char *queue, struct messages *scratch, struct err *err)
{
    struct store *store = definition_store(definition);
    struct deadline deadline;
    struct retry_call call = begin_call(definition, &deadline);
    struct exchange peek = call.exchange;
    enum tw_err outcome = queue_ensure(store, queue, &call, false);

    if (outcome == TW_FORBIDDEN &&
        store_queue_peek(store, &peek, queue, 1, scratch) == TW_OK)
        outcome = TW_OK;
    if (outcome != TW_OK)
        *err = call.exchange.err;
    return outcome;
}

enum tw_err receive_create(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen,
    struct messages *scratch, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (!seen->queue)
        outcome = create(definition, queue->name, scratch, err);
    seen->queue = outcome == TW_OK;
    if (outcome != TW_OK || seen->poison_queue)
        return outcome;
    outcome = create(definition, queue->poison_queue, scratch, err);
    if (outcome == TW_FORBIDDEN) {
        log_warn("worker",
            "cannot create or read poison queue %s, in which invalid messages "
            "are kept: %s",
            queue->poison_queue, err->text);
        outcome = TW_OK;
    }
    seen->poison_queue = outcome == TW_OK;
    return outcome;
}

enum tw_err receive_messages(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen, unsigned count,
    struct messages *ret, int64_t *ret_sent_ms, struct err *err)
{
    struct deadline deadline;
    struct retry_call call = begin_call(definition, &deadline);
    enum tw_err outcome = receive_create(definition, queue, seen, ret, err);

    ret->count = 0;
    if (outcome != TW_OK)
        return outcome;
    do
        outcome = store_queue_get(definition_store(definition), &call.exchange,
            queue->name, count, definition->setup->visibility_timeout_s, ret);
    while (retry_call_again(&call, outcome));
    *ret_sent_ms = call.exchange.sent_ms;
    if (outcome == TW_NOT_FOUND) {
        /* The queue was deleted, so let the next call create it. */
        seen->queue = false;
        ret->count = 0;
        return TW_OK;
    }
    if (outcome != TW_OK)
        *err = call.exchange.err;
    return outcome;
}
