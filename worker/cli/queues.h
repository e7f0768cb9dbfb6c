/* SPDX-License-Identifier: MIT */
/* The state of the served queues, for `status`. */
#ifndef TW_CLI_QUEUES_H
#define TW_CLI_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"

struct session;
struct store;

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
TW_MUST_USE enum tw_err queues_read(struct session *session,
    struct store *store, struct queues *ret, struct err *err);
void queues_done(struct queues *queues);

/* queues_is_late: has a visible message waited longer than older_ticks? */
bool queues_is_late(
    const struct queue_status *queue, int64_t now_ticks, int64_t older_ticks);

/* queues_print: one line for each queue, on standard output; late_ticks >= 0:
 * only queues for which queues_is_late() is true. */
void queues_print(
    const struct queues *queues, int64_t now_ticks, int64_t late_ticks);

/* queues_print_json: one array of objects: Queue, Messages, Oldest (absent: no
 * message is visible), Poisoned. */
void queues_print_json(const struct queues *queues);

#endif
