/* SPDX-License-Identifier: MIT */
/* Estimates what a run would do, without writing to a store. */
#ifndef TW_CLI_DRY_RUN_H
#define TW_CLI_DRY_RUN_H

#include <stdbool.h>

#include "jobs/engine/run.h"

struct job;
struct session;
struct store;

struct dry_run {
    const struct job *job;
    struct run_args args;
    struct store *ledger; /* the ledger's store; NULL: do not look up whether
                             the ledger refuses the run */
    bool accept_deletes, reopen;
};

/*
 * dry_run: make an estimate, and print:
 *
 *   - for each table, the number of entities, batches and pages, and the first
 *     five keys;
 *   - billed transactions, estimated cost, and the time at the service's
 *     published targets;
 *   - if the run would be refused, the reason.
 *
 * The job's stores must be open; calls session_request_pool(). Returns an exit
 * code: EXIT_DONE also if the run would be refused.
 */
int dry_run(struct session *session, const struct dry_run *what);

#endif
