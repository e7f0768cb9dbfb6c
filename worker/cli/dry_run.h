/* SPDX-License-Identifier: MIT */
/* What a run would do, counted; nothing is written. */
#ifndef TW_CLI_DRY_RUN_H
#define TW_CLI_DRY_RUN_H

struct job;
struct run_args;
struct session;

/*
 * dry_run: print entities for each table with the first five keys, batches,
 * billed transactions, estimated cost, and time at the service's published
 * targets. The job's stores are open; session_request_pool() is called here. An
 * exit code.
 */
int dry_run(struct session *session, const struct job *job,
    const struct run_args *args);

#endif
