/* SPDX-License-Identifier: MIT */
/* Receiving messages of one queue, which is created where it is missing. */
#ifndef TW_RUN_RECEIVE_H
#define TW_RUN_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

/* What is known to be there. */
struct receive_seen {
    bool queue, poison_queue;
};

/*
 * receive_create: create the queue and its poison queue, but for what was seen
 * before; goes on where it failed the last time. Rights that allow to use a
 * queue and not to create one are enough; the poison queue may be out of our
 * rights until it is needed. scratch: its contents are lost.
 */
TW_MUST_USE enum tw_err receive_create(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen,
    struct messages *scratch, struct err *err);

/*
 * receive_messages: create what is missing, then get up to count (1 .. 32)
 * messages under the visibility timeout of the definition, with one request.
 * *ret_sent_ms: when it was sent. A queue that was deleted meanwhile: TW_OK
 * without messages, and it is no longer seen.
 */
TW_MUST_USE enum tw_err receive_messages(const struct definition *definition,
    const struct setup_queue *queue, struct receive_seen *seen, unsigned count,
    struct messages *ret, int64_t *ret_sent_ms, struct err *err);

#endif
