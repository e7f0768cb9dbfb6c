/* SPDX-License-Identifier: MIT */
/*
 * A message that cannot be understood leaves its queue at once: its copy is
 * put into the poison queue, the reason into the ledger (PartitionKey "-" where
 * the job could not be told; RowKey: the message's id), then it is deleted.
 */
#ifndef TW_RUN_POISON_H
#define TW_RUN_POISON_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/lease.h"

struct store;

/*
 * poison_message: job: the job's name, or LEDGER_UNREADABLE. TW_OK: it is
 * gone, and a line says why. Anything else: an outage; the message comes again.
 */
TW_MUST_USE enum tw_err poison_message(struct store *store, const char *job,
    const struct lease_message *message, int64_t visibility_timeout_s,
    const char *reason, struct err *err);

#endif
