/* SPDX-License-Identifier: MIT */
/* Receives the messages of one queue; creates the queue if missing. */
#ifndef TW_RUN_RECEIVE_H
#define TW_RUN_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

/* Are the queue and its poison queue known to exist? */
struct receive_seen {
    bool queue, poison_queue;
};

/*
 * receive_create: create the queue and its poison queue, except those in *seen.
 * After a failure another call creates what is still missing. The right to
 * create queues is not needed if the queue exists. If the right to use the
 * poison queue is missing, this is only logged. scratch: its contents are lost.
 */
TW_MUST_USE enum tw_err receive_create(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen,
    struct messages *scratch, struct err *err);

/*
 * receive_messages: create the missing queues, then get up to count (1 .. 32)
 * messages under the visibility timeout of the definition, with one request.
 * *ret_sent_ms: when the Get was sent. If the queue was deleted: TW_OK without
 * messages; the next call creates the queue.
 */
TW_MUST_USE enum tw_err receive_messages(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen, unsigned count,
    struct messages *ret, int64_t *ret_sent_ms, struct err *err);

#endif
