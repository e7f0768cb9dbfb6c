/* SPDX-License-Identifier: MIT */
/*
 * A run without a worker: a job from a piece of configuration, an embedded
 * store in memory, and callbacks that keep the checkpoint as a ledger would. So
 * a test can stop an attempt anywhere and begin the next one.
 */
#ifndef TW_TESTS_SUPPORT_HOSTED_H
#define TW_TESTS_SUPPORT_HOSTED_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/engine/run.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/store/store.h"

struct deadline;
struct request_pool;

struct hosted {
    struct store *store;               /* owned */
    struct store *ledger;              /* borrowed; NULL: store */
    struct request_pool *request_pool; /* owned */
    struct arena arena;
    struct jobs jobs;
    struct job_stores stores;
    const char *store_name;
    char folder[FOLDER_BYTES]; /* an empty folder of this run, for archives */

    /* What a ledger would store of the run. */
    char *checkpoint, *phase;
    int32_t epoch, passes;
    int64_t requested_ticks;

    /* Settings of the run and of its callbacks. */
    const char *id;       /* run id, "r1" */
    const char *kind_arg; /* value of the kind's own argument, such as
                             "expand"; NULL: the run leaves it out */
    int64_t stop_after;   /* stopping() returns true from this call on (counted
                             from 0); -1: never */
    bool other_open; /* whether is_open() says that the other run is open ... */
    enum tw_err open_outcome; /* ... with this outcome */
    bool previous_owner_crashed;
    bool accept_deletes; /* as of the last save(), as in a ledger */
    enum run_finish finish;
    void (*between)(struct hosted *h); /* called by every stopping(), or NULL */
    void (*saved)(struct hosted *h);   /* called by every save(), or NULL */

    /* failing: called by every failed(); NULL: nothing is called. */
    void (*failing)(struct hosted *h, const struct run_failure *failure);

    /* phasing: returns the outcome of phase(), and in *ret_stored (false at
     * first) whether the phase was stored. NULL: it is stored, and phase()
     * succeeds. */
    enum tw_err (*phasing)(struct hosted *h, bool *ret_stored);
    void *owner; /* for the functions above: the test that set them */

    struct deadline *deadline; /* of the attempt under way, or NULL */

    /* Results of the last attempt; written and deleted are the sums of all
     * attempts. */
    enum run_end end;
    struct err err;
    int64_t read, written, deleted, skipped, failed, stopping_calls;
    int64_t resumes_ticks, resumes_ms, caught_up_ticks, behind;
    bool closes_job;
    int share; /* how much of the work is done, in thousandths; -1: not known.
                  between() may read it too */
    enum run_waits_for waits_for;
    char failed_why[1024], failed_step[160];
    char note[4096]; /* the notes of all attempts, each in a line */
    int parent_found;
};

/* hosted_init: begins a hosted run. configuration: its jobs, as the YAML map
 * below `jobs:`. A problem in it ends the test. */
void hosted_init(struct hosted *h, const char *configuration);

/* hosted_begin: hosted_init(), and creates these tables, separated by
 * blanks. */
void hosted_begin(
    struct hosted *h, const char *configuration, const char *tables);
void hosted_done(struct hosted *h);

/* HOSTED_TEST: a test with a hosted run `h`. The test itself calls
 * hosted_init(); hosted_done() is called after the test. */
int hosted_set_up(void **state);
int hosted_tear_down(void **state);
#define HOSTED_TEST(name)                                                      \
    TEST_WITH(name, hosted_set_up, hosted_tear_down, struct hosted *h)

/* HOSTED_FIXTURE: a hosted run `h` for the whole file, with set_up() and
 * tear_down() for TEST_IN(): they call hosted_begin() and hosted_done(). */
#define HOSTED_FIXTURE(configuration, tables)                                  \
    static struct hosted h;                                                    \
    static int set_up(void **state)                                            \
    {                                                                          \
        (void)state;                                                           \
        hosted_begin(&h, configuration, tables);                               \
        return 0;                                                              \
    }                                                                          \
    static int tear_down(void **state)                                         \
    {                                                                          \
        (void)state;                                                           \
        hosted_done(&h);                                                       \
        return 0;                                                              \
    }

/* hosted_restart: hosted_begin(). If h was begun before, it is ended first. */
void hosted_restart(
    struct hosted *h, const char *configuration, const char *tables);

/* hosted_load: replaces the configuration. */
void hosted_load(struct hosted *h, const char *configuration);

/* hosted_table: creates a table. */
void hosted_table(struct hosted *h, const char *table);

/* hosted_put: inserts an entity. properties: the service's JSON without braces,
 * or NULL. */
void hosted_put(struct hosted *h, const char *table, const char *partition_key,
    const char *row_key, const char *properties);

/* hosted_fill: inserts `count` entities "b00000", "b00001", ... into one
 * partition. */
void hosted_fill(struct hosted *h, const char *table, const char *partition_key,
    unsigned count);

/* hosted_remove: deletes the entity, which must be there, whatever its
 * properties are. */
void hosted_remove(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key);

/* hosted_has: returns whether there is such an entity. */
bool hosted_has(struct hosted *h, const char *table, const char *partition_key,
    const char *row_key);

/* hosted_json: returns the properties of the entity as the service's JSON, in
 * h->arena; NULL: there is no such entity. */
const char *hosted_json(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key);

/* hosted_replace: as hosted_put(), but replaces the entity, which must be
 * there. */
void hosted_replace(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key, const char *properties);

/* hosted_dump: returns the keys of all entities of a table, in order, as "pk/rk
 * pk/rk ", in h->arena.
 * hosted_count: returns the number of the entities. */
const char *hosted_dump(struct hosted *h, const char *table);
unsigned hosted_count(struct hosted *h, const char *table);

/*
 * Entities in one line: in "Channels News/; Blogs News/1
 * News/2(Thread=t,By=me)" each table is followed by the PartitionKey/RowKey of
 * its entities; the last entity has two Strings.
 * hosted_rows: inserts these entities.
 * hosted_check: fails unless each of these tables has exactly these entities,
 * in this order (properties are not compared). "Blogs": no entity. "Blogs 3":
 * any three entities.
 */
void hosted_rows(struct hosted *h, const char *rows);
void hosted_check(struct hosted *h, const char *rows);

/* hosted_attempt: makes one attempt at a run of job. argument: the value of the
 * job's argument, if it has one. */
enum run_end hosted_attempt(
    struct hosted *h, const char *job, const char *argument);

/* hosted_run: makes attempts until the run no longer waits. Sleeps until each
 * next attempt is due, as `tableward run` does. */
enum run_end hosted_run(
    struct hosted *h, const char *job, const char *argument);

/* hosted_succeeds: calls hosted_run(), which must succeed and leave these rows
 * (see hosted_check()).
 * hosted_fails: the same for a run that must fail, with `why` as a part of the
 * reason.
 * hosted_waits: makes one attempt, after which the run must wait. */
void hosted_succeeds(
    struct hosted *h, const char *job, const char *argument, const char *rows);
void hosted_fails(struct hosted *h, const char *job, const char *argument,
    const char *why, const char *rows);
void hosted_waits(
    struct hosted *h, const char *job, const char *argument, const char *rows);

/* hosted_check_why: fails unless `part` is in the reason with which the last
 * attempt ended.
 * hosted_check_note: fails unless `part` is in the notes. */
void hosted_check_why(const struct hosted *h, const char *part);
void hosted_check_note(const struct hosted *h, const char *part);

/* hosted_estimate: does a dry run. Release the result with
 * arena_done(&ret->arena), whatever the outcome. */
enum tw_err hosted_estimate(struct hosted *h, const char *job,
    const char *argument, struct job_estimate *ret);

/* hosted_verify: compares the tables with what the job would make of them. */
enum tw_err hosted_verify(struct hosted *h, const char *job,
    const char *argument, struct job_verification *ret);

/* hosted_differences: verifies a job without arguments. Returns the number of
 * differences whose description contains `what`. */
int64_t hosted_differences(struct hosted *h, const char *job, const char *what);

/* hosted_explained: returns the text with which the kind explains the job; it
 * lives in h->arena. */
const char *hosted_explained(struct hosted *h, const char *job);

/* hosted_forget: begins a new run, without checkpoint and phase. The counts
 * continue.
 * hosted_lose_checkpoint: drops the checkpoint, as a new definition of the job
 * does. */
void hosted_forget(struct hosted *h, const char *id);
void hosted_lose_checkpoint(struct hosted *h);

#endif
