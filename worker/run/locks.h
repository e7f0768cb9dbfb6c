/* SPDX-License-Identifier: MIT */
/*
 * Locks of table jobs (rules L1 to L3): at most one open run for each table
 * that it writes or empties, from its first attempt to its end.
 *
 * They lie in one partition of the ledger, `!locks`, so that one batch takes
 * them all:
 *
 *   lock!ACCOUNT!TABLE            whose the table is: Job, Run, RequestedAt,
 *                                 LockedAt
 *   want!ACCOUNT!TABLE!JOB!RUN    who waits for it: Job, Run, RequestedAt
 *
 * Each has a Format, too: a lock that a newer version has written is never
 * free, nor is one that does not say whose it is.
 *
 * ACCOUNT is what identifies the store (two names of one store in the
 * configuration are one account), TABLE in lower case. Taking: scan the
 * partition. The run is blocked if one of its tables is locked by another run
 * that is open, or wanted by an older run that waits for its turn (L2).
 * Blocked: write its wants, hold nothing, wait. Else one batch inserts all
 * locks, and deletes the run's wants.
 *
 * Why this is right. Two runs never hold one table: its lock is one entity, and
 * an insert requires absence; a lock is replaced only with the ETag read, and
 * only after its run was read as ended or gone, which it stays. No deadlock:
 * who waits holds nothing, so who holds waits for nobody; and of those that
 * wait the oldest (RequestedAt, then job and id: a total order) is blocked by
 * holders only. No starvation: once the oldest has written its wants, no
 * younger run takes one of its tables; those that had read the partition before
 * may slip past, each once. A batch of unknown outcome is read, not counted: it
 * has taken all or nothing; if it lands while the run waits already, the run
 * finds its locks when its turn is tried next, and no one is blocked for
 * longer. A crash after the batch leaves locks of an open run, which finds them
 * as its own; a crash after the end leaves locks of an ended run, which are
 * free.
 *
 * A want does not count while its run cannot come: paused, held, failed, or
 * ten minutes late for its ResumesAt.
 */
#ifndef TW_RUN_LOCKS_H
#define TW_RUN_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct deadline;
struct store;

#define LOCKS_PARTITION "!locks"

struct locks_request {
    struct store *store; /* the ledger's */
    const struct deadline *deadline;
    const struct job *job; /* a table job */
    const struct job_stores *stores;
    struct slice id; /* of the run */
    int64_t requested_ticks;
};

enum locks_outcome {
    LOCKS_TAKEN,   /* all of them, now or before                         */
    LOCKS_BLOCKED, /* none; its wants are written. err: by which run, and
                      what blocks that one                                */
    LOCKS_OUTAGE,  /* the store; err                                      */
};

/* locks_take: *ret_taken_over: one was left by a run that has ended and did
 * not release it: its last requests may still arrive (rule A4). */
enum locks_outcome locks_take(
    const struct locks_request *request, bool *ret_taken_over, struct err *err);

/* locks_release: delete the run's locks and wants. Where that fails, they are
 * taken by the next run that needs them, for this one has ended. */
void locks_release(struct store *store, const struct deadline *deadline,
    struct slice job, struct slice id);

#endif
