/* SPDX-License-Identifier: MIT */
/*
 * A seed decides one simulation: a store in memory as the service, workers,
 * front ends, and a judge, which sees every request in the order in which the
 * service carries them out.
 *
 *   front end ------------------------------+
 *   worker -- wire (its own network) -- faulty -- judge -- embedded store
 *
 * book.c judges what is the same for every kind of job: the ledger, the queues
 * and the deadlines. The kind's own file (such as cascade.c) judges its tables.
 */
#ifndef TW_TESTS_SIMULATE_SIM_H
#define TW_TESTS_SIMULATE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "tests/simulate/front.h"
#include "tests/simulate/trouble.h"
#include "tests/support/direct.h"
#include "tests/support/faulty.h"
#include "tests/support/interpose.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/arena.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

#define SIM_WORKERS_MAX 3
#define SIM_QUEUE "work"     /* JSON messages */
#define SIM_BOUND "channels" /* a queue bound to SIM_JOB */
#define SIM_JOB "work"       /* name of the kind's first job */
#define SIM_ARGUMENT "what"  /* name of the job's only argument */
#define SIM_DEFINITIONS                                                        \
    2 /* versions of the job; workers may have different                       \
         ones */

struct sim;
struct book;
struct worker;

/* An operation that the service has carried out. */
struct sim_change {
    bool by_front_end;
    bool by_worker; /* if neither by_worker nor by_front_end is true, the
                     * service carried out a delayed request of a sender that
                     * no longer waits */
    const char *table;
    const struct operation *operation;
    const char *etag; /* the new ETag */
};

/* A run, as it is stored in the ledger. */
struct sim_run {
    struct sim_run *next;
    struct ledger_run now;
    char key[QUEUE_ID_MAX + 64]; /* JOB/ID */
    char what[64];               /* value of the run's argument */
    bool ended;
    bool was_paused; /* the run was paused at least once */
    bool was_asked;  /* an operator asked at least once to pause or
                      * cancel the run */
    unsigned lists;  /* bit set of the lists of the ledger index that have the
                        run; 1: the open runs; 2: any other list */
    int64_t acquired_ms; /* when a worker first acquired the run; 0: not yet */
};

/* What a kind of job adds to the simulation. */
struct sim_kind {
    const char *name;
    const char *more_args; /* JSON members that follow SIM_ARGUMENT in a
                              message's args; NULL: none */
    bool two_jobs;         /* front ends also request runs of a second job; the
                              jobs have no argument, and SIM_BOUND is not bound
                              to a job */

    /* begin: choose the design of this simulation by chance, create the tables
     * and fill them. */
    void *(*begin)(struct sim *sim);

    /* job: the YAML of version n of the jobs, the map below `jobs:`, with
     * SIM_JOB first. The caller frees it (mem_free). */
    char *(*job)(void *state, unsigned n);

    struct front front;

    /* front_ends: start the front ends of the kind; NULL: front_start() starts
     * those of `front`. */
    void (*front_ends)(void *state);

    /* changed (or NULL): called after each operation on a table other than the
     * ledger. */
    void (*changed)(void *state, const struct sim_change *change);

    /* run_ended (or NULL): called after each write to the ledger of a run that
     * has ended. */
    void (*run_ended)(void *state, const struct sim_run *run);

    /* end: called when all runs have ended and all workers have stopped:
     * complains unless the tables are as they must be. */
    void (*end)(void *state);
};

extern const struct sim_kind sim_cascade;
extern const struct sim_kind sim_upgrade;
extern const struct sim_kind sim_delete;
extern const struct sim_kind sim_copy;
extern const struct sim_kind sim_move;

/* Fixed settings of a simulation that measures. It has one worker, with the
 * default settings of the configuration. */
struct sim_script {
    const struct faulty_share *shares;
    size_t share_count;
    int64_t outage_after_ms, outage_ms; /* 0: no outage */
    /* called for each request of the worker during the outage */
    void (*unreached)(void *ctx, int64_t at_ms, bool queue);
    void *ctx;
};

/* Options of one simulation. */
struct sim_options {
    uint64_t seed;
    const struct sim_kind *kind;
    const struct sim_script *script; /* NULL: the seed decides */
    bool trace;
};

/* Result of one simulation. */
struct sim_result {
    uint64_t seed, hash, steps;
    int64_t virtual_ms;
    unsigned requests, faults, runs, crashes, stalls;
    unsigned troubles;     /* bit set of the troubles that occurred
                              (trouble.h) */
    int64_t beside_ms;     /* time that the run of the job beside took
                              (trouble.h) */
    int64_t peace_ms;      /* from the end of all trouble to the end of all
                              runs */
    unsigned taken_early;  /* runs acquired before the lease of a dead process
                              had expired */
    unsigned late_landed;  /* delayed requests that reached the service */
    unsigned late_taken;   /* delayed requests that the service carried out */
    unsigned zombie_sent;  /* requests that an attempt started after it had lost
                              its lease */
    unsigned pauses;       /* pauses that an operator asked for; each run was
                              resumed */
    unsigned zombie_taken; /* requests of attempts that had lost their lease and
                              that changed something */
    unsigned worker_requests;
    int64_t done_ms;      /* virtual time until all runs had ended */
    char complaint[1024]; /* empty: nothing is wrong */
};

struct sim {
    const struct sim_kind *kind;
    void *state; /* state of the kind */
    const struct sim_script *script;
    struct sim_result *result;
    struct arena arena;

    struct store *service; /* the embedded store */
    struct interposed judge;
    struct faulty faults;
    const char *put_run; /* JOB/ID of the run of the message that a front end
                            puts */
    bool by_worker;      /* the service handles a request of a worker */
    bool by_front_end;   /* the service handles a write of a front end to an
                          * entity */
    struct book *book;

    const char *folder;      /* folder of the archives */
    const char *lock_folder; /* NULL: no worker has a lock file */
    unsigned hosts;          /* number of hosts on which the workers run */
    struct jobs jobs[SIM_DEFINITIONS];
    struct worker *workers[SIM_WORKERS_MAX];
    unsigned worker_count;

    /* The network and the service. */
    int64_t latency_ms;    /* most requests are delayed by at most this */
    bool dates_cut;        /* the Date headers of the service have whole
                              seconds */
    bool once;             /* the network never delivers a request twice */
    int64_t down_until_ms; /* until then no request reaches the service */
    struct troubles troubles;
    unsigned front_ends; /* front ends that have not stopped yet */
    unsigned ids;        /* ids of runs that the front ends have used */
};

/* sim_play: runs one simulation from the set-up to the final judgement. */
void sim_play(const struct sim_options *options, struct sim_result *ret);

/* sim_measure: measures the cost of errors and of an outage; 1: a measurement
 * is above its limit. */
int sim_measure(void);

/* sim_complain: records a violation; only the first is kept. */
void sim_complain(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* sim_draw: a random number below n (n > 0). sim_chance: true in `percent` of
 * 100 cases. */
unsigned sim_draw(unsigned n);
bool sim_chance(unsigned percent);
#define SIM_PICK(list) ((list)[sim_draw(sizeof(list) / sizeof((list)[0]))])

/* sim_keep_alive: starts each worker again whose process has ended. */
void sim_keep_alive(struct sim *sim);

/* ---- for kinds: direct calls of the service, in no virtual time ---- */

void sim_create_table(struct sim *sim, const char *table);

/* sim_each: calls `seen` (may be NULL) for each entity of a table. Returns the
 * number of entities; -1: there is no such table. */
typedef void sim_seen(
    void *ctx, const char *table, const struct entity *entity);
int sim_each(struct sim *sim, const char *table, sim_seen *seen, void *ctx);

/* ---- for front ends: direct calls of the service, too ---- */

int64_t sim_now_ticks(void);

/* sim_get: reads an entity; false: there is no such entity. */
bool sim_get(struct sim *sim, const char *table, struct slice partition_key,
    struct slice row_key, struct page *page);

/* sim_write: makes one operation; the new ETag is stored in etag (96 bytes, or
 * NULL). */
enum tw_err sim_write(struct sim *sim, const char *table,
    enum operation_type type, const struct entity *entity, char *etag);

/*
 * sim_enqueue: puts a message for SIM_JOB with the argument `what`. id: id of
 * the run; empty: the run gets the id of the message. bound: put the message on
 * the queue that is bound to the job. at_ticks: the time of the request that
 * the message states; 0: the message states none.
 */
void sim_enqueue(struct sim *sim, const char *what, const char *id, bool bound,
    int64_t at_ticks);

/* sim_control_enqueue: as `tableward enqueue` does it: stores the run in the
 * ledger and puts a wake-up message. sim_control_enqueue_job: for the job at
 * the index `job` of the kind's jobs. */
void sim_control_enqueue(struct sim *sim, const char *what, const char *id);
void sim_control_enqueue_job(
    struct sim *sim, size_t job, const char *what, const char *id);

/* sim_ask: acts as an operator who cancels some run of SIM_JOB, or pauses and
 * later resumes it. Returns when this is done. */
void sim_ask(struct sim *sim);

/* sim_control_enqueue_beside: requests a run of the job beside (trouble.h). */
void sim_control_enqueue_beside(struct sim *sim, const char *id);

/* sim_control_enqueue_phase: requests a run of SIM_JOB with the argument
 * `phase`. */
void sim_control_enqueue_phase(
    struct sim *sim, const char *what, const char *id, const char *phase);

/* sim_enqueue_garbage: puts a message for a job that does not exist. */
void sim_enqueue_garbage(struct sim *sim);

#endif
