/* SPDX-License-Identifier: MIT */
/*
 * Locks of table jobs (rules L1 to L3): at most one open run writes or empties
 * a table, from the run's first attempt to its end.
 *
 * Locks are entities in one partition of the ledger, `!locks`, so that one
 * batch takes all locks of a run:
 *
 *   lock!ACCOUNT!TABLE            a lock. Properties: Job, Run (which run has
 *                                 the table), RequestedAt, LockedAt, Format,
 *                                 TakenOverAt (when it was taken from an ended
 *                                 run, which had not released it)
 *   want!ACCOUNT!TABLE!JOB!RUN    a want: the run waits for the table.
 *                                 Properties: Job, Run, RequestedAt, Format
 *   closed!ACCOUNT!TABLE!ACCOUNT!TABLE!JOB
 *                                 `finish` has closed the copy of the first
 *                                 table to the second (rule A5): no job copies
 *                                 between them, not even a job with another
 *                                 name. Properties: Job, Run, End, Format. The
 *                                 write that ends Run also inserts a row into
 *                                 the partition of Job. End is the RowKey of
 *                                 that row. Without that row the `closed!` row
 *                                 does not count
 *
 * A lock that a newer version wrote, or without Job or Run, is never free.
 *
 * ACCOUNT identifies the store (two names of one store in the configuration
 * give one ACCOUNT); TABLE is in lower case. Two hosts of one account have the
 * same tables, but each host gives another ACCOUNT. So a table of an Azure
 * account whose AccountName is known has a second lock, with `account.NAME` as
 * ACCOUNT. Accounts of different services (an emulator, Cosmos DB) may have the
 * same name. Then their table jobs wait for each other without need.
 *
 * To take its locks a run scans the partition. The run is blocked if another
 * open run has locked one of its tables, or an older run waits for one of them
 * (L2). A blocked run writes its wants, takes no lock and waits. If the run is
 * not blocked, one batch inserts all its locks and deletes its wants.
 *
 * Correctness.
 *
 * Two runs never lock one table, because a table's lock is one entity. Its
 * insert requires that it is absent. It is replaced only after its run was read
 * as ended or deleted, and only with the ETag that was read.
 *
 * There is no deadlock. A waiting run has no lock, so a run with locks waits
 * for no other run. The oldest waiting run is blocked only by runs with locks.
 * (The order is total: RequestedAt, then job and id.)
 *
 * A run has locks of former tables if the definition of its job was changed,
 * and an operator has accepted the change. It gives up the locks that it no
 * longer needs: their Run becomes an id that no run has. One deadlock remains:
 * two runs keep the lock of one table each, and both jobs were changed to use
 * both tables. These runs wait for each other until an operator cancels one of
 * them.
 *
 * There is no starvation, because no younger run takes a table of the oldest
 * run after the oldest run has written its wants. Only a younger run that had
 * read the partition before the wants were written may still take a table,
 * once.
 *
 * A batch of unknown outcome took all locks or none. The partition is read
 * again. If the batch arrives only when the run already waits, the run blocks
 * other runs until its next try, when it finds its locks.
 *
 * A crash after the batch leaves locks of an open run, which finds them as its
 * own. A crash after the run's end leaves locks of an ended run, which are
 * free. But an ended run can be reopened (`retry`) after another run has read
 * it as ended. So a run that finds its own locks writes them again, and the
 * batch of the other run, with the former ETag, is refused.
 *
 * The `closed!` rows are read after the locks are taken. Then no other run
 * closes these tables, because only a run with their locks does.
 *
 * A want is ignored if its run cannot take locks soon:
 *
 * - The run has ended or is paused.
 * - The run waits for something else than its turn or the retry after a failed
 *   attempt.
 * - The run waits, and its ResumesAt passed ten minutes ago; or it does not
 *   wait, and its UpdatedAt is older than ten minutes.
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
    struct store *store; /* store of the ledger */
    const struct deadline *deadline;
    const struct job *job; /* job of the run; its kind has table_job */
    const struct job_stores *stores;
    struct slice id; /* id of the run */
    int64_t requested_ticks;
};

enum locks_outcome {
    LOCKS_TAKEN,   /* the run has all its locks */
    LOCKS_BLOCKED, /* no lock is taken, the run's wants are written; err names
                      the blocking run, and what the blocking run waits for */
    LOCKS_CLOSED,  /* all locks are taken, but the `finish` of a run has closed
                      the copy between the job's tables; err names this run, and
                      the command that opens the copy again */
    LOCKS_OUTAGE,  /* the store failed, or the locks kept changing; err has the
                      cause */
};

/* locks_take: take all locks of the run. *ret_taken_over: true if requests of
 * an ended run may still arrive (rule A4), because this attempt or an earlier
 * one has recently taken over a lock that the ended run had not released. */
enum locks_outcome locks_take(
    const struct locks_request *request, bool *ret_taken_over, struct err *err);

/* locks_release: delete the wants of an ended run and, if locks_too is true,
 * its locks. Keeps a lock that the run took over so recently that requests of
 * the lock's former run may still arrive. Locks that cannot be deleted are
 * replaced by the next run that needs them. */
void locks_release(struct store *store, const struct deadline *deadline,
    struct slice job, struct slice id, bool locks_too);

/* ---- closed tables of copy jobs (rule A5) ---- */

/* locks_close: write that the run closes the copy from the job's source table
 * to each of its destinations. Call before the write that ends the run and
 * closes its job. If one table is both source and destination (an index),
 * nothing is closed, because one table may have several indexes. */
TW_MUST_USE enum tw_err locks_close(
    const struct locks_request *request, struct err *err);

/* locks_reopen: open the copy from the job's source table to each of its
 * destinations, whichever job closed it. request->id is empty. */
TW_MUST_USE enum tw_err locks_reopen(
    const struct locks_request *request, struct err *err);

/* locks_check_closed: check that `finish` has not closed the copy between the
 * job's tables. TW_CONFLICT: locks_take() would return LOCKS_CLOSED, with the
 * same err. request->id is empty. Any other failure is the store's. */
TW_MUST_USE enum tw_err locks_check_closed(
    const struct locks_request *request, struct err *err);

#endif
