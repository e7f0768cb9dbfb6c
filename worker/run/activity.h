/* SPDX-License-Identifier: MIT */
/*
 * What a worker's attempts are doing and have done, for its metrics: runs in
 * progress, runs ended, entities, lost leases, held runs. Each run counts its
 * own entities; these counts are read in activity_jobs() and activity_end().
 * The memory is bounded: the names are only those of configured jobs and
 * stores. Of a held run a hash is kept, for a limited number of held runs. Any
 * thread may call any function. The functions that count do nothing if activity
 * is NULL.
 */
#ifndef TW_RUN_ACTIVITY_H
#define TW_RUN_ACTIVITY_H

#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct activity;
struct run;

struct activity *activity_new(void); /* owned */
void activity_free(struct activity *activity);

/* activity_add_job: let activity_jobs() return the job, even before it runs. */
void activity_add_job(struct activity *activity, const char *job);

/* activity_begin: call when a kind begins to work on run. run is borrowed until
 * activity_end(). */
void activity_begin(struct activity *activity, const struct run *run);
void activity_end(struct activity *activity, const struct run *run);

/* activity_run_ended: count a run of job that has ended with state. */
void activity_run_ended(
    struct activity *activity, const char *job, enum ledger_state state);

/* activity_lease_lost: count an attempt that ended because its lease was lost
 * or had expired. job: the job of the attempt's run. */
void activity_lease_lost(struct activity *activity, const char *job);

/* activity_held: count the run as held, or as waiting for its turn, until
 * until_ms (boot clock). waits_for: the run's WaitsFor; store: the name of the
 * store that the run waits for. activity_not_held: stop counting the run as
 * held. */
void activity_held(struct activity *activity, struct slice job, struct slice id,
    const char *store, struct slice waits_for, int64_t until_ms);
void activity_not_held(
    struct activity *activity, struct slice job, struct slice id);

/* ---- reading ---- */

enum activity_entities {
    ACTIVITY_READ,
    ACTIVITY_WRITTEN,
    ACTIVITY_DELETED,
    ACTIVITY_SKIPPED,
    ACTIVITY_FAILED,
    ACTIVITY_ENTITIES
};

enum activity_result {
    ACTIVITY_RUN_SUCCEEDED,
    ACTIVITY_RUN_FAILED,
    ACTIVITY_RUN_POISONED,
    ACTIVITY_RUN_CANCELLED,
    ACTIVITY_RESULTS
};

struct activity_job {
    const char *name;
    int64_t in_progress;
    int64_t ended[ACTIVITY_RESULTS];
    int64_t entities[ACTIVITY_ENTITIES]; /* these sums never fall */
    int64_t leases_lost;
};

/* activity_jobs: return the jobs with their counts, in the order in which the
 * jobs became known. Owned array; the names live as long as activity. */
struct activity_job *activity_jobs(
    struct activity *activity, size_t *ret_count);

/* Held runs of one store and cause. */
struct activity_hold {
    const char *store, *cause; /* cause: store, archive, definition, turn, other
                                */
    int64_t count;
};

/* activity_holds: return the number of held runs that this worker knows, for
 * each pair of store and cause. A pair that once held a run is returned even if
 * it holds none now. Owned array; the texts live as long as activity. */
struct activity_hold *activity_holds(
    struct activity *activity, size_t *ret_count);

#endif
