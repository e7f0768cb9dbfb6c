/* SPDX-License-Identifier: MIT */
/*
 * Orphans: open runs without a valid lease and without a message. A pass reads
 * the ledger index rows of every job's open runs, and the entities of these
 * runs. A run is an orphan if it is not paused, and its LeaseUntil, UpdatedAt
 * and ResumesAt all passed two visibility timeouts ago. The worker continues an
 * orphan without a message. If the owner of a run was a process of this host
 * that has died, the run is continued at once, without a pass: the lock file of
 * that process names the run (lock_file.h). A step makes one request at most (a
 * few if the step holds a run, see below), so that the consumer can do other
 * things between steps.
 *
 * An orphan whose job is not configured is held for its definition, unless it
 * has a queue that this worker does not serve. A pass also counts the runs that
 * no worker of this configuration can take (unserved.h), and finds out whether
 * an operator may resume or finish any run.
 */
#ifndef TW_RUN_ORPHANS_H
#define TW_RUN_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/run/lock_file.h"
#include "worker/run/setup.h"
#include "worker/run/walk.h"
#include "worker/store/store.h"

struct orphans_noted;

struct orphans {
    struct definition *definition;   /* borrowed */
    const struct deadline *deadline; /* borrowed */
    struct lock_file *lock_file;     /* borrowed; NULL: none */

    struct orphans_noted *noted; /* runs that dead processes noted; the first is
                                    read next */
    size_t noted_count;

    struct walk walk; /* pass over open runs */
    bool any_waits;  /* this pass, or the last one, found a run that waits until
                        an operator resumes or finishes the run */
    size_t unserved; /* number of runs of this pass, or of the last one, for
                        which unserved_is() is true */
    char *unserved_example; /* one of these runs, as "JOB/ID: REASON"; NULL:
                               none */
    struct ledger_run run;
};

/* orphans_init: set up, without a pass. All pointers are borrowed. */
void orphans_init(struct orphans *orphans, const struct deadline *deadline,
    struct lock_file *lock_file);
void orphans_done(struct orphans *orphans);

/* orphans_use: use definition (borrowed) from now on. Ends a pass that is under
 * way. */
void orphans_use(struct orphans *orphans, struct definition *definition);

/* orphans_begin: start a pass over all jobs of the ledger. */
void orphans_begin(struct orphans *orphans);

/* orphans_find_dead: find processes of this host that died since the last call.
 * True: runs that dead processes noted are left to read. Makes no request. */
bool orphans_find_dead(struct orphans *orphans);

/*
 * orphans_step: make one step. WALK_FOUND: orphans->run has no live owner, and
 * the caller continues it. WALK_DONE: no run is left to read. Runs that dead
 * processes noted are read before the others. If an outage prevents the read of
 * such a run, the next step reads this run again.
 */
enum walk_step orphans_step(struct orphans *orphans, struct err *err);

/* orphans_patience_ms: return how long a run must be unchanged to be an orphan.
 */
int64_t orphans_patience_ms(int64_t visibility_timeout_s);

/* orphans_is: is run an orphan? now_ticks: the service's clock when run was
 * read. */
bool orphans_is(const struct ledger_run *run, int64_t now_ticks,
    int64_t visibility_timeout_s);

/*
 * orphans_may_be_queued: may the message of orphans->run, an orphan in state
 * `queued`, still wait on queue to be received? Peeks at the first messages of
 * the queue, which are roughly the oldest ones. False if there are none, or if
 * one of them was put after the run had become an orphan: then the run's own
 * message was received before, or was never put. True also if the queue cannot
 * be read.
 */
bool orphans_may_be_queued(const struct orphans *orphans, const char *queue);

#endif
