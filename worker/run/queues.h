/* SPDX-License-Identifier: MIT */
/* The state of the served queues, for `status` and the dashboard. */
#ifndef TW_RUN_QUEUES_H
#define TW_RUN_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"

struct runs_reader;
struct setup;

struct queue_status {
    const char *name;
    int64_t messages;     /* number of messages, hidden ones included */
    int64_t oldest_ticks; /* InsertionTime of the first visible message; 0:
                             none is visible */
    int64_t poisoned; /* number of messages in the poison queue of this queue */
};

struct queues {
    struct queue_status *list; /* owned; the configuration owns the names */
    size_t count;
};

/* queues_read: read the state of every served queue; a missing queue counts as
 * empty. Call queues_done() in any case. */
TW_MUST_USE enum tw_err queues_read(const struct runs_reader *reader,
    const struct setup *setup, struct queues *ret, struct err *err);
void queues_done(struct queues *queues);

/* queues_is_late: has a visible message waited longer than older_ticks? */
bool queues_is_late(
    const struct queue_status *queue, int64_t now_ticks, int64_t older_ticks);

/* queues_add_json: add one array of objects: Queue, Messages, Oldest (absent:
 * no message is visible), Poisoned. */
void queues_add_json(const struct queues *queues, struct buf *to);

#endif
