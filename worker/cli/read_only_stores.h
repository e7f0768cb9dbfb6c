/* SPDX-License-Identifier: MIT */
/* The stores of a job for a command that must not write: dry run and verify. */
#ifndef TW_CLI_READ_ONLY_STORES_H
#define TW_CLI_READ_ONLY_STORES_H

#include "jobs/job.h"
#include "worker/base/err.h"

struct read_only_stores {
    struct job_stores stores; /* for the kind */
    struct store **list;      /* owned; NULL where a store is not open */
};

/* read_only_stores_init: wraps each of stores that is open. stores are borrowed
 * until read_only_stores_done(). */
void read_only_stores_init(
    struct read_only_stores *only, const struct job_stores *stores);
void read_only_stores_done(struct read_only_stores *only);

/* read_only_stores_explain: a kind does not say which of its stores did not
 * answer; err of such an outcome gets the store's name, and what to check. */
void read_only_stores_explain(
    const struct read_only_stores *only, enum tw_err code, struct err *err);

#endif
