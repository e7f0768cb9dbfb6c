/* SPDX-License-Identifier: MIT */
/*
 * The `failures:` file of a run: one JSON object a line for each entity that
 * it could not process, in the job's folder as JOB-ID.jsonl:
 *
 *   {"table":"Blogs","PartitionKey":"Football","RowKey":"0017",
 *    "step":"retype Rating","reason":"..."}
 *
 * It is appended to, by every attempt and round that meets the entity. What
 * cannot be written is said once in the log and ends nothing: the run's report
 * counts, and the ledger and the log have the first of them.
 */
#ifndef TW_RUN_FAILURES_H
#define TW_RUN_FAILURES_H

#include "jobs/engine/run.h"

struct failures;

/*
 * failures_new: nothing is opened before the first line. base: where a folder
 * that is relative starts; object: for log lines. All copied. Owned;
 * failures_free(NULL) does nothing.
 */
struct failures *failures_new(const char *base, const char *folder,
    const char *job, const char *id, const char *object);
void failures_free(struct failures *failures);

/* failures_add: one line, written at once. Any thread. */
void failures_add(struct failures *failures, const struct run_failure *failure);

#endif
