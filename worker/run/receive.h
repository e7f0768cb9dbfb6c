/* SPDX-License-Identifier: MIT */
/* Receives the messages of one queue; creates the queue if missing. */
#ifndef TW_RUN_RECEIVE_H
#define TW_RUN_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

/* Which queues are known to exist. */
struct receive_seen {
    bool queue, poison_queue;
};

/*
 * receive_create: create the queue and its poison queue, except those in *seen;
 * continues where an earlier call failed. The right to create queues is not
 * needed for one that exists. If the right to the poison queue is missing, this
 * is only logged. scratch: its contents are lost.
 */
TW_MUST_USE enum tw_err receive_create(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen,
    struct messages *scratch, struct err *err);

/*
 * receive_messages: create what is missing, then get up to count (1 .. 32)
 * messages under the visibility timeout of the definition, with one request.
 * *ret_sent_ms: when it was sent. If the queue was deleted: TW_OK without
 * messages; the next call creates it.
 */
TW_MUST_USE enum tw_err receive_messages(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen, unsigned count,
    struct messages *ret, int64_t *ret_sent_ms, struct err *err);

#endif
