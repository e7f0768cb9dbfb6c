/* SPDX-License-Identifier: MIT */
/* The served queues for `status`: how much waits there, and since when. */
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
    int64_t messages;     /* hidden ones too */
    int64_t oldest_ticks; /* InsertionTime of the first visible message; 0:
                             none is visible */
    int64_t poisoned;     /* messages of its poison queue */
};

struct queues {
    struct queue_status *list; /* owned; names are the configuration's */
    size_t count;
};

/* queues_read: every served queue; one that is missing holds nothing.
 * queues_done() always. */
TW_MUST_USE enum tw_err queues_read(struct session *session,
    struct store *store, struct queues *ret, struct err *err);
void queues_done(struct queues *queues);

/* queues_is_late: a visible message has waited longer than so many ticks. */
bool queues_is_late(
    const struct queue_status *queue, int64_t now_ticks, int64_t older_ticks);

/* queues_print: a line each, on standard output; late_ticks not negative: only
 * those that are late. */
void queues_print(
    const struct queues *queues, int64_t now_ticks, int64_t late_ticks);

/* queues_print_json: one array of objects: Queue, Messages, Oldest (absent: no
 * message is visible), Poisoned. */
void queues_print_json(const struct queues *queues);

#endif
