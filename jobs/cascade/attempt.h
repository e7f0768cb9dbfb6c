/* SPDX-License-Identifier: MIT */
/*
 * One attempt at a run of a cascade: the state that its steps share.
 *
 * A step returns how the attempt ends, or RUN_CONTINUES. The steps are in
 * precheck.h (before anything is written), parent.h (the tombstone, the delete
 * of the parent) and cascade.c (the passes).
 */
#ifndef TW_JOBS_CASCADE_ATTEMPT_H
#define TW_JOBS_CASCADE_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/cascade/checkpoint.h"
#include "jobs/cascade/rules.h"
#include "jobs/cascade/walk.h"
#include "jobs/engine/checkpoint_queue.h"
#include "jobs/engine/run.h"
#include "jobs/job.h"
#include "worker/store/store.h"

struct archive;
struct batch_writer;
struct held;
struct scan;

/* The progress of the first pass. The walk is ahead of the deletes, by the
 * operations in the batch writer. */
struct cascade_share {
    int begun;  /* run->share when the walk began, in thousandths; 0: unknown */
    int walked; /* the share of the keys that the walk has read; -1: unknown */
    int noted;  /* `walked` at the last call of walk_visitor.reached(); -1:
                   there was none */
    uint64_t sequence;  /* number of operations added before that call */
    uint64_t completed; /* number of operations completed in this walk */
};

struct cascade_attempt {
    const struct cascade *cascade;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;

    struct arena arena; /* memory of the parent's keys and of usable.rules */
    struct slice partition_key, row_key;
    char *owner;           /* JOB/ID, the value of TablewardRun; owned */
    struct page parent;    /* the parent as last read */
    bool parent_is_ours;   /* the last read of the parent found this run's
                              tombstone, and this run has not written to the
                              parent since */
    bool parent_lost;      /* set by cascade_watch_parent(): the parent no
                              longer names this run, so this pass sends no
                              more deletes */
    int64_t checked_ms;    /* platform_boot_ms() when cascade_watch_parent()
                              last read the parent */
    bool tombstone_sent;   /* this attempt sent the tombstone and got no
                              response; or an earlier attempt had archived the
                              parent, and may have sent the tombstone */
    bool delete_sent;      /* this attempt sent the delete of the parent, or an
                              earlier attempt may have sent it */
    struct cascade usable; /* the job's cascade; if the parent did not exist,
                              without the rules that read the parent's
                              properties */

    struct cascade_checkpoint state; /* what the checkpoint stores */
    struct walk_path *from;          /* path at which this pass resumes */

    int64_t read_ms;    /* CLOCK_BOOTTIME of this machine when the service's
                           clock was state.began_ticks */
    bool found;         /* this pass found something: if it was a settle pass,
                           another pass follows at once */
    bool last_settle;   /* this is the last settle pass, which may delete
                           entities with child rules */
    bool checked;       /* a check found that all tables exist */
    bool counted;       /* refuse_above has been checked */
    struct scan *ahead; /* scan of this pass, opened before the parent was read;
                           NULL: none */
    int64_t ahead_ticks; /* service's clock when `ahead` was opened; 0: `ahead`
                            was opened before the tombstone was written */
    struct batch_writer *batch_writer;
    struct cascade_share share;
    struct archive *archive;
    /* Checkpoints that wait for leaf deletes. */
    struct checkpoint_queue checkpoint_queue;
    struct held *held, **held_end;
    unsigned stuck;  /* number of stuck passes in a row, see check_circle() */
    char left[1024]; /* keys and table of the first entity that this pass did
                        not delete because something is under it */
};

/* cascade_parent: returns the parent as last read, or NULL if it did not exist.
 */
const struct entity *cascade_parent(const struct cascade_attempt *c);

struct store *cascade_parent_store(const struct cascade_attempt *c);

/* cascade_service_ticks: returns what the service's clock shows now, computed
 * from the time at which the pass began. The result is never ahead of the
 * service's actual clock. */
int64_t cascade_service_ticks(const struct cascade_attempt *c);

/* cascade_walk_plan: returns a plan with the rules of c->usable. If whole is
 * true, the walk reads whole entities, otherwise only keys and the properties
 * that rules read. */
struct walk_plan cascade_walk_plan(const struct cascade_attempt *c, bool whole);

/* cascade_end_of: returns RUN_FAILED for TW_INVALID, TW_NOT_FOUND and
 * TW_TOO_LARGE, which no later attempt can repair, else what run_end_of()
 * returns. */
enum run_end cascade_end_of(
    const struct cascade_attempt *c, enum tw_err outcome);

/* cascade_archive_outcome: sets run->archive_full to whether outcome, the
 * result of a call of the archive, is TW_FULL (the archive's disk is full), and
 * returns outcome. */
enum tw_err cascade_archive_outcome(
    const struct cascade_attempt *c, enum tw_err outcome);

/* cascade_save: hands c->state and path (as in cascade_checkpoint_write()) to
 * the run as its checkpoint (run_callbacks.save). The checkpoint is stored in
 * the ledger within a few seconds, or at the end of the attempt. progress is
 * true if the run has advanced. */
void cascade_save(
    struct cascade_attempt *c, const struct walk_path *path, bool progress);

/* cascade_enter_phase: stores phase and c->state, without a path, in the ledger
 * (run_callbacks.phase). After any result but RUN_CONTINUES it is unknown
 * whether the phase is stored. */
enum run_end cascade_enter_phase(struct cascade_attempt *c, const char *phase);

/* cascade_note: writes a warning to the log and to the ledger's Note. For
 * warnings that do not make the run fail. */
void cascade_note(struct cascade_attempt *c, const char *format, ...)
    TW_PRINTF(2, 3);

#endif
