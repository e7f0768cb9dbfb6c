/* SPDX-License-Identifier: MIT */
/*
 * An invalid message leaves its queue at once: the worker puts a poison copy,
 * stores the reason in the ledger (PartitionKey: the job, or "-" if it is not
 * known; RowKey: the message's id), then deletes the message.
 */
#ifndef TW_RUN_POISON_H
#define TW_RUN_POISON_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/lease.h"

struct setup_queue;
struct store;

/*
 * poison_message: move a message of queue to the poison queue. job: the job's
 * name, or LEDGER_UNREADABLE. reason: why the message is invalid. The ledger
 * notes how queue is bound, because `poison retry` needs this (binding.h).
 * TW_OK: done, and the reason is logged. Any other outcome: the message is
 * delivered again.
 */
TW_MUST_USE enum tw_err poison_message(struct store *store, const char *job,
    const struct setup_queue *queue, const struct lease_message *message,
    int64_t visibility_timeout_s, const char *reason, struct err *err);

#endif
