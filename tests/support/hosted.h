/* SPDX-License-Identifier: MIT */
/*
 * A run without a worker: a job from a piece of configuration, an embedded
 * store in memory, and a host that keeps the checkpoint as a ledger would, so
 * that a test can stop an attempt anywhere and begin the next one.
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
    char folder[FOLDER_BYTES]; /* an empty one of its own, for archives */

    /* What a ledger would keep of the run. */
    char *checkpoint, *phase;
    int32_t epoch, passes;
    int64_t requested_ticks;

    /* How the host behaves. */
    const char *id;           /* run id, "r1" */
    const char *kind_arg;     /* value of the kind's own argument, such as
                                 "expand"; NULL: the run leaves it out */
    int64_t stop_after;       /* stopping() says yes from this call on, counted
                                 from 0; -1: never */
    bool other_open;          /* what is_open() answers ... */
    enum tw_err open_outcome; /* ... with this outcome */
    bool previous_owner_crashed;
    bool accept_deletes; /* as of the last save(), as in a ledger */
    enum run_finish finish;
    void (*between)(struct hosted *h); /* called by every stopping() */
    void (*saved)(struct hosted *h);   /* called by every save() */

    /* failing: called by every failed(); NULL: nobody listens. */
    void (*failing)(struct hosted *h, const struct run_failure *failure);

    /* phasing: what phase() answers; *ret_stored: whether it did it (false
     * at first). NULL: done. */
    enum tw_err (*phasing)(struct hosted *h, bool *ret_stored);
    void *owner; /* whoever set these */

    struct deadline *deadline; /* of the attempt under way, or NULL */

    /* What came of the last attempt. */
    enum run_end end;
    struct err err;
    int64_t read, written, deleted, skipped, failed, stopping_calls;
    int64_t resumes_ticks, resumes_ms, caught_up_ticks, behind;
    bool closes_job;
    int share; /* in thousandths; -1: not known. Also up to date in between() */
    enum run_waits_for waits_for;
    char failed_why[1024], failed_step[160];
    char note[4096]; /* the sentences of all attempts, a line each */
    int parent_found;
};

/* hosted_init: configuration is YAML, the map below `jobs:`. A problem in it
 * ends the test. */
void hosted_init(struct hosted *h, const char *configuration);

/* hosted_begin: hosted_init(), and these tables, separated by blanks. */
void hosted_begin(
    struct hosted *h, const char *configuration, const char *tables);
void hosted_done(struct hosted *h);

/* HOSTED_TEST: a test with `h`, which it begins with hosted_init();
 * hosted_done() follows the test. */
int hosted_set_up(void **state);
int hosted_tear_down(void **state);
#define HOSTED_TEST(name)                                                      \
    TEST_WITH(name, hosted_set_up, hosted_tear_down, struct hosted *h)

/* HOSTED_FIXTURE: a host `h` of the file, and the set_up() and tear_down() for
 * TEST_IN(), which begin it with hosted_begin() and end it. */
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

/* hosted_restart: hosted_begin(); h is zero, or is ended before. */
void hosted_restart(
    struct hosted *h, const char *configuration, const char *tables);

/* hosted_load: another configuration takes the place of the former one. */
void hosted_load(struct hosted *h, const char *configuration);

/* hosted_table: create it. */
void hosted_table(struct hosted *h, const char *table);

/* hosted_put: insert an entity; properties as in service JSON without braces,
 * or NULL. */
void hosted_put(struct hosted *h, const char *table, const char *partition_key,
    const char *row_key, const char *properties);

/* hosted_fill: count entities b00000 ... in one partition. */
void hosted_fill(struct hosted *h, const char *table, const char *partition_key,
    unsigned count);

/* hosted_remove: delete it, whatever it is. */
void hosted_remove(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key);

/* hosted_has: is there such an entity? */
bool hosted_has(struct hosted *h, const char *table, const char *partition_key,
    const char *row_key);

/* hosted_json: its properties as service JSON, in h->arena; NULL: there is no
 * such entity. */
const char *hosted_json(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key);

/* hosted_replace: as hosted_put, over the one that is there. */
void hosted_replace(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key, const char *properties);

/* hosted_dump: every entity of a table, "pk/rk pk/rk ", in order; lives in
 * h->arena. */
const char *hosted_dump(struct hosted *h, const char *table);
unsigned hosted_count(struct hosted *h, const char *table);

/*
 * Entities in one line: "Channels News/; Blogs News/1 News/2(Thread=t,By=me)"
 * are PartitionKey/RowKey of two tables, the last one with two Strings.
 * hosted_rows: insert them. hosted_check: these tables hold these entities, in
 * order, and no others: "Blogs": none, "Blogs 3": so many, whichever they are.
 */
void hosted_rows(struct hosted *h, const char *rows);
void hosted_check(struct hosted *h, const char *rows);

/* hosted_attempt: one attempt at a run of job with its argument, if it has
 * one. */
enum run_end hosted_attempt(
    struct hosted *h, const char *job, const char *argument);

/* hosted_run: attempts until the run no longer waits; sleeps until it is to go
 * on, as `tableward run` does. */
enum run_end hosted_run(
    struct hosted *h, const char *job, const char *argument);

/* hosted_succeeds: hosted_run() must, and leave these rows (as of
 * hosted_check()). hosted_fails: it must fail; part of the reason is why.
 * hosted_waits: an attempt after which the run waits. */
void hosted_succeeds(
    struct hosted *h, const char *job, const char *argument, const char *rows);
void hosted_fails(struct hosted *h, const char *job, const char *argument,
    const char *why, const char *rows);
void hosted_waits(
    struct hosted *h, const char *job, const char *argument, const char *rows);

/* hosted_check_why, hosted_check_note: part of the reason with which the last
 * attempt ended, of the notes, is this. */
void hosted_check_why(const struct hosted *h, const char *part);
void hosted_check_note(const struct hosted *h, const char *part);

/* hosted_estimate: what a dry run would say. Release it with
 * arena_done(&ret->arena), whatever the outcome. */
enum tw_err hosted_estimate(struct hosted *h, const char *job,
    const char *argument, struct job_estimate *ret);

/* hosted_verify: do the tables match the job? */
enum tw_err hosted_verify(struct hosted *h, const char *job,
    const char *argument, struct job_verification *ret);

/* hosted_differences: verify a job without arguments; returns the number of
 * differences whose description contains `what`. */
int64_t hosted_differences(struct hosted *h, const char *job, const char *what);

/* hosted_explained: what the kind says of the job; lives in h->arena. */
const char *hosted_explained(struct hosted *h, const char *job);

/* hosted_forget: a new run: no checkpoint, no phase. The counts go on.
 * hosted_lose_checkpoint: as a new definition of the job does. */
void hosted_forget(struct hosted *h, const char *id);
void hosted_lose_checkpoint(struct hosted *h);

#endif
