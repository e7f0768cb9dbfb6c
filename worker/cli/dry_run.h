/* SPDX-License-Identifier: MIT */
/* Estimates what a run would do, without writing to a store. */
#ifndef TW_CLI_DRY_RUN_H
#define TW_CLI_DRY_RUN_H

struct job;
struct run_args;
struct session;

/*
 * dry_run: print, for each table, the number of entities with the first five
 * keys, and the batches; then billed transactions, estimated cost, and time at
 * the service's published targets. The job's stores must be open; calls
 * session_request_pool(). Returns an exit code.
 */
int dry_run(struct session *session, const struct job *job,
    const struct run_args *args);

#endif
