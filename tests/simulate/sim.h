/* SPDX-License-Identifier: MIT */
/*
 * One seed is one world: a store in memory as the service, workers, front
 * ends, and a judge who sees every request in the order in which the service
 * takes them.
 *
 *   front end ------------------------------+
 *   worker -- wire (its own network) -- faulty -- judge -- embedded store
 *
 * What is judged for every kind is in book.c (ledger, queues, deadlines); what
 * a kind's own tables may be is the kind's (cascade.c).
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
#define SIM_BOUND "channels" /* bound to the kind's job */
#define SIM_JOB "work"       /* the kind's job */
#define SIM_ARGUMENT "what"  /* its one argument */
#define SIM_DEFINITIONS 2    /* of the job; workers may differ in it */

struct sim;
struct book;
struct worker;

/* An operation that the service has taken. */
struct sim_change {
    bool by_front_end;
    bool by_worker; /* neither: it landed late, in nobody's name */
    const char *table;
    const struct operation *operation;
    const char *etag; /* new */
};

/* A run, as the ledger has it. */
struct sim_run {
    struct sim_run *next;
    struct ledger_run now;
    char key[QUEUE_ID_MAX + 64]; /* JOB/ID */
    char what[64];               /* its argument */
    bool ended;
    bool was_paused;     /* ever */
    bool was_asked;      /* ever to be paused or cancelled */
    unsigned lists;      /* of the index that it is on: 1 open, 2 any other */
    int64_t acquired_ms; /* when it was claimed first; 0: not yet */
};

/* What a kind of jobs brings along. */
struct sim_kind {
    const char *name;
    const char *more_args; /* members of a message's args behind SIM_ARGUMENT;
                              NULL: none */
    bool plain;            /* its jobs have no argument; SIM_BOUND is bound to
                              none */
    bool two_jobs;         /* front ends ask for a second one, too */

    /* begin: draw what this world is like, make tables, fill them. */
    void *(*begin)(struct sim *sim);

    /* job: YAML of definition n, the map below `jobs:`: SIM_JOB first. Owned
     * (mem_free). */
    char *(*job)(void *state, unsigned n);

    struct front front;

    /* front_ends: start others than these. NULL: there are none. */
    void (*front_ends)(void *state);

    /* changed (NULL: nobody asks): a table other than the ledger. */
    void (*changed)(void *state, const struct sim_change *change);

    /* run_moved: run has been claimed, has ended, ...; was: its state. */
    void (*run_moved)(
        void *state, const struct sim_run *run, enum ledger_state was);

    /* end: nothing moves any more: are the tables as they must be? */
    void (*end)(void *state);
};

extern const struct sim_kind sim_cascade;
extern const struct sim_kind sim_upgrade;
extern const struct sim_kind sim_delete;
extern const struct sim_kind sim_copy;
extern const struct sim_kind sim_move;

/* A world that is told how to be, to measure by. One worker, with the settings
 * a user begins with. */
struct sim_script {
    const struct faulty_share *shares;
    size_t share_count;
    int64_t outage_after_ms, outage_ms; /* 0: none */
    /* each request of the worker in the outage */
    void (*unreached)(void *ctx, int64_t at_ms, bool queue);
    void *ctx;
};

/* What one world is asked to be. */
struct sim_options {
    uint64_t seed;
    const struct sim_kind *kind;
    const struct sim_script *script; /* NULL: the seed decides */
    bool trace;
};

/* What came of it. */
struct sim_result {
    uint64_t seed, hash, steps;
    int64_t virtual_ms;
    unsigned requests, faults, runs, crashes, stalls;
    unsigned troubles;     /* a set of those that came (trouble.h) */
    int64_t beside_ms;     /* that the run beside took (trouble.h) */
    int64_t peace_ms;      /* from the end of all trouble to that of all runs */
    unsigned taken_early;  /* runs, from processes that had died */
    unsigned late_landed;  /* requests that landed late */
    unsigned late_taken;   /* ... and that the service took */
    unsigned zombie_sent;  /* requests started after their run was overtaken */
    unsigned pauses;       /* asked for, each until it is resumed */
    unsigned zombie_taken; /* requests of the overtaken that changed anything */
    unsigned worker_requests;
    int64_t done_ms;      /* virtual time until all runs had ended */
    char complaint[1024]; /* empty: nothing is wrong */
};

struct sim {
    const struct sim_kind *kind;
    void *state; /* the kind's */
    const struct sim_script *script;
    struct sim_result *result;
    struct arena arena;

    struct store *service; /* the embedded store */
    struct interposed judge;
    struct faulty faults;
    const char *put_run; /* of the message a front end puts: JOB/ID */
    bool by_worker;      /* whose request the service has in hand */
    bool by_front_end;   /* ... a write to an entity */
    struct book *book;

    const char *folder;      /* where archives are kept */
    const char *lock_folder; /* NULL: no worker has a lock file */
    unsigned hosts;          /* that share it */
    struct jobs jobs[SIM_DEFINITIONS];
    struct worker *workers[SIM_WORKERS_MAX];
    unsigned worker_count;

    /* The weather. */
    int64_t latency_ms;    /* at most, mostly */
    bool dates_cut;        /* the service's dates have whole seconds */
    bool once;             /* what was sent once is done once: nobody between
                              repeats it */
    int64_t down_until_ms; /* nobody reaches the service */
    struct troubles troubles;
    unsigned front_ends; /* still at work */
    unsigned ids;        /* that they have given to runs */
};

/* sim_run: a whole world, from the beginning to the judgement. */
void sim_play(const struct sim_options *options, struct sim_result *ret);

/* sim_measure: what it must show in numbers; 1 where it does not. */
int sim_measure(void);

/* sim_complain: what is wrong; the first counts. */
void sim_complain(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* sim_draw: below n (n > 0). sim_chance: n of a hundred. */
unsigned sim_draw(unsigned n);
bool sim_chance(unsigned percent);
#define SIM_PICK(list) ((list)[sim_draw(sizeof(list) / sizeof((list)[0]))])

/* sim_keep_alive: every worker that has ended is started again. */
void sim_keep_alive(struct sim *sim);

/* ---- for kinds: at the service, in no time ---- */

void sim_create_table(struct sim *sim, const char *table);

/* sim_each: has each entity of a table seen (NULL: nobody looks); how many they
 * are. A table that is not there has -1. */
typedef void sim_seen(
    void *ctx, const char *table, const struct entity *entity);
int sim_each(struct sim *sim, const char *table, sim_seen *seen, void *ctx);

/* ---- for front ends: the same ---- */

int64_t sim_now_ticks(void);

/* sim_get: false: it is not there. */
bool sim_get(struct sim *sim, const char *table, struct slice partition_key,
    struct slice row_key, struct page *page);

/* sim_write: one operation; its new ETag goes to etag (96 bytes, or NULL). */
enum tw_err sim_write(struct sim *sim, const char *table,
    enum operation_type type, const struct entity *entity, char *etag);

/*
 * sim_enqueue: a message for the kind's job with that argument. id empty: the
 * message's own. bound: on the queue that is bound to the job. at_ticks: when
 * it was asked for, 0: it does not say.
 */
void sim_enqueue(struct sim *sim, const char *what, const char *id, bool bound,
    int64_t at_ticks);

/* sim_control_enqueue: the same as `tableward enqueue` does it.
 * sim_control_enqueue_job: for another of the kind's jobs. */
void sim_control_enqueue(struct sim *sim, const char *what, const char *id);
void sim_control_enqueue_job(
    struct sim *sim, size_t job, const char *what, const char *id);

/* sim_ask: what a person asks of some run of SIM_JOB: to be cancelled; or
 * paused, and after a while resumed. Returns when both are done. */
void sim_ask(struct sim *sim);

/* sim_control_enqueue_beside: a run of the job beside (trouble.h). */
void sim_control_enqueue_beside(struct sim *sim, const char *id);

/* sim_control_enqueue_phase: a run of the kind's job with that phase. */
void sim_control_enqueue_phase(
    struct sim *sim, const char *what, const char *id, const char *phase);

/* sim_enqueue_garbage: a message that nobody can understand. */
void sim_enqueue_garbage(struct sim *sim);

#endif
