/* SPDX-License-Identifier: MIT */
/*
 * The `failures:` file of a run: one JSON object a line for each entity that
 * the run could not process, in the job's folder as JOB-ID.jsonl:
 *
 *   {"table":"Blogs","PartitionKey":"Football","RowKey":"0017",
 *    "step":"retype Rating","reason":"..."}
 *
 * Every attempt and round in which the entity fails appends a line. A write
 * error is logged once and does not end the run: the run's report still has the
 * number of failed entities, and the ledger and the log have the first of them.
 */
#ifndef TW_RUN_FAILURES_H
#define TW_RUN_FAILURES_H

#include "jobs/engine/run.h"

struct failures;

/*
 * failures_new: prepare the file of the run `id` of job. The file is opened
 * when the first line is appended. A relative folder is below base; object is
 * the subject of log lines. All texts are copied. Owned; failures_free(NULL)
 * does nothing.
 */
struct failures *failures_new(const char *base, const char *folder,
    const char *job, const char *id, const char *object);
void failures_free(struct failures *failures);

/* failures_add: append one line at once. Any thread. */
void failures_add(struct failures *failures, const struct run_failure *failure);

#endif
