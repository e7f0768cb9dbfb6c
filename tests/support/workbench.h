/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of a worker without its command line: an embedded store in
 * memory, behind a store that counts, delays and fails requests; one job, whose
 * kind does what the test says; and a definition of both. "Directly" means: in
 * the embedded store, so that the request is not counted and meets no fault.
 */
#ifndef TW_TESTS_SUPPORT_WORKBENCH_H
#define TW_TESTS_SUPPORT_WORKBENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "tests/support/interpose.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/run/attempt.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

#define BENCH_QUEUE "work"
#define BENCH_BOUND "channels"

enum bench_call {
    BENCH_GET,
    BENCH_BATCH,
    BENCH_SCAN,
    BENCH_QUEUE_GET,
    BENCH_PUT,
    BENCH_RENEW,
    BENCH_DELETE,
    BENCH_PEEK,
    BENCH_CREATE, /* of tables and queues */
    BENCH_OTHER,
    BENCH_CALLS,
};

enum bench_fault {
    BENCH_PASS,
    BENCH_FAIL,         /* TW_BUSY, nothing done */
    BENCH_THROTTLE,     /* TW_BUSY, nothing done, the answer is 503 */
    BENCH_LOCK,         /* TW_BUSY, nothing done, the answer is 409 */
    BENCH_REFUSE,       /* TW_REFUSED, nothing done */
    BENCH_FORBID,       /* TW_FORBIDDEN, nothing done */
    BENCH_LOSE_ANSWER,  /* done, TW_UNKNOWN */
    BENCH_LOSE_REQUEST, /* nothing done, TW_UNKNOWN */
    BENCH_CONFLICT,     /* TW_CONFLICT, nothing done */
    BENCH_GONE,         /* TW_NOT_FOUND, nothing done */
    BENCH_INVALID,      /* TW_INVALID, nothing done, the answer is 400 */
};

struct workbench;

/* Makes attempt number `attempt` of the kind, counted from 1. Called without
 * the lock. */
typedef enum run_end bench_script(struct workbench *bench, struct run *run,
    unsigned attempt, struct err *err);

/* The requests number `first` to `last` of this call, counted from 1, meet this
 * fault. */
struct bench_fault_range {
    enum bench_call call;
    unsigned first, last;
    enum bench_fault fault;
};

#define BENCH_FAULTS 8

struct bench_store {
    union { /* first member */
        struct interposed outer;
        struct { /* the members of outer */
            struct store store;
            struct store *inner;
        };
    };
    struct workbench *bench;
};

struct workbench {
    struct bench_store wrapped;
    struct store *store; /* &wrapped.store */

    struct kind kind;
    struct job job; /* "delete-channel", one argument "channel" */
    struct job_arg arg;
    struct jobs jobs;
    struct store *stores_list[1];
    const char *store_names[1];
    struct job_stores stores;
    struct store *two_stores[2]; /* stores_list[0] and the store of
                                    workbench_add_store() */
    const char *two_names[2];
    struct setup_queue queues[2]; /* the second one has `job:` */
    struct setup setup;
    struct definition definition;
    struct request_pool *request_pool;
    struct renewer *renewer;
    struct attempt_environment environment; /* its stopping() returns `stop` */

    _Atomic(struct bench_run *)
        runs; /* those of workbench_stored() and workbench_new_run() */

    struct platform_mutex lock; /* guards all members below */
    struct platform_cond changed;
    bool stop;
    unsigned calls[BENCH_CALLS];
    unsigned ledger_writes; /* batches to the table of the ledger */
    int64_t delay_ms;       /* delay of every request */
    int64_t paused_ms; /* time for which this machine was paused; the service's
                          clock is ahead by this time */
    int64_t scan_max_ms; /* timeout of the last scan, by its deadline */
    int64_t hidden_s;    /* visibility timeout of the last Get Messages */
    /* fault: returns what the n-th request (from 1) of this call meets. Called
     * with the lock held. */
    enum bench_fault (*fault)(
        struct workbench *bench, enum bench_call call, unsigned n);
    struct bench_fault_range faults[BENCH_FAULTS]; /* see workbench_meets() */
    size_t fault_count;
    bool down;              /* every request fails */
    const char *down_queue; /* Get Messages on this queue fails ... */
    int64_t down_queue_ms;  /* ... after this time */
    /* between: does what another process does at this time. Called without the
     * lock, before the n-th request of this call is made. */
    void (*between)(struct workbench *bench, enum bench_call call, unsigned n);

    bench_script *script; /* NULL: each attempt succeeds */
    unsigned attempts;    /* attempts begun */
    unsigned running;     /* attempts that have begun and not ended */
    unsigned together;    /* maximum of `running` */
    unsigned gate;        /* for scripts: see workbench_open_gate() */
};

/* BENCH_SCRIPT, BENCH_FAULT, BENCH_BETWEEN: begin the definition of a function
 * for the member script, fault or between. */
#define BENCH_SCRIPT(name)                                                     \
    static enum run_end name(struct workbench *bench, struct run *run,         \
        unsigned attempt_number, struct err *err)
#define BENCH_FAULT(name)                                                      \
    static enum bench_fault name(                                              \
        struct workbench *bench, enum bench_call call, unsigned n)
#define BENCH_BETWEEN(name)                                                    \
    static void name(struct workbench *bench, enum bench_call call, unsigned n)

/* workbench_open_store: opens another store in memory, with the table of the
 * ledger. Its requests meet the faults of the bench. Close it with
 * store_close(ret->inner). */
void workbench_open_store(
    struct workbench *bench, const char *name, struct bench_store *ret);

/* workbench_add_store: gives the jobs a second store beside the one of the
 * bench. */
void workbench_add_store(struct workbench *bench, struct store *store);

void workbench_init(struct workbench *bench);
void workbench_done(struct workbench *bench);

/* workbench_set_up, workbench_tear_down: a set-up and a tear-down of cmocka,
 * with a new workbench as *state. The virtual ones also begin and end virtual
 * clocks. */
int workbench_set_up(void **state);
int workbench_tear_down(void **state);
int workbench_set_up_virtual(void **state);
int workbench_tear_down_virtual(void **state);

/* BENCH_TEST: a test with a new workbench `bench`.
 * VIRTUAL_BENCH_TEST: the same with virtual clocks, so that waits take no
 * time. */
#define BENCH_TEST(name)                                                       \
    TEST_WITH(                                                                 \
        name, workbench_set_up, workbench_tear_down, struct workbench *bench)
#define VIRTUAL_BENCH_TEST(name)                                               \
    TEST_WITH(name, workbench_set_up_virtual, workbench_tear_down_virtual,     \
        struct workbench *bench)

/* workbench_meets: of the next requests of this call, the requests number
 * `first` to `last` meet the fault (1: the next request). */
void workbench_meets(struct workbench *bench, enum bench_call call,
    unsigned first, unsigned last, enum bench_fault fault);

/* workbench_meets_each: calls workbench_meets() for each element of an array.
 * Elements with BENCH_PASS are skipped. */
void workbench_meets_each(struct workbench *bench,
    const struct bench_fault_range *faults, size_t count);

/* workbench_log_begin: keeps what is logged from now on.
 * workbench_log_end: stops this, and returns how many of the kept lines contain
 * text. */
void workbench_log_begin(void);
unsigned workbench_log_end(const char *text);

/* workbench_wait: waits until condition(bench) is true; fails the test after 30
 * s. */
#define workbench_wait(bench, condition)                                       \
    workbench_wait_for((bench), (condition), #condition, __FILE__, __LINE__)
void workbench_wait_for(struct workbench *bench,
    bool (*condition)(struct workbench *bench), const char *what,
    const char *file, int line);

/* workbench_locked: carries out this statement with the lock of the bench
 * held. */
#define workbench_locked(bench, ...)                                           \
    do {                                                                       \
        platform_lock(&(bench)->lock);                                         \
        __VA_ARGS__;                                                           \
        platform_unlock(&(bench)->lock);                                       \
    } while (0)

/* workbench_open_gate: opens the gate once more.
 * workbench_pass_gate: called by a script: waits until the gate was opened n
 * times. False: the run was told to stop before this. */
void workbench_open_gate(struct workbench *bench);
bool workbench_pass_gate(struct workbench *bench, struct run *run, unsigned n);

/* workbench_make_queue: creates a queue, directly. */
void workbench_make_queue(struct workbench *bench, const char *queue);

/* workbench_put: puts a message, directly. Returns its id, which lives until
 * the end of the bench. */
const char *workbench_put(
    struct workbench *bench, const char *queue, const char *text);

/* workbench_take: gets one message, directly, and hides it for the visibility
 * timeout of the bench. ret was initialized by the caller. Returns the time at
 * which the request was sent. */
int64_t workbench_take(
    struct workbench *bench, const char *queue, struct messages *ret);

/* workbench_receive: as workbench_take(), but returns the message in the form
 * that a lease takes. This form lives as long as `taken`. */
struct lease_message workbench_receive(
    struct workbench *bench, const char *queue, struct messages *taken);

/* workbench_consume: gets one message, directly, which must have this text, and
 * deletes it. */
void workbench_consume(
    struct workbench *bench, const char *queue, const char *text);

/* workbench_count: returns the number of messages of a queue, visible and
 * hidden; 0: there is no such queue. */
int64_t workbench_count(struct workbench *bench, const char *queue);

/* workbench_run: reads a run from the ledger, directly. ret was initialized by
 * the caller. False: there is no such run. */
bool workbench_run(struct workbench *bench, const char *job, const char *id,
    struct ledger_run *ret);

/* workbench_stored: returns the run as it is in the ledger; fails if there is
 * no such run. Any thread may call it.
 * workbench_new_run: returns a run without properties.
 * The runs of both belong to the bench and live until its end. The caller may
 * change them. */
struct ledger_run *workbench_stored(
    struct workbench *bench, const char *job, const char *id);
struct ledger_run *workbench_new_run(struct workbench *bench);

/* workbench_football: returns a new run of delete-channel with
 * {"channel":"Football"}. It too lives until the end of the bench. */
struct ledger_run *workbench_football(struct workbench *bench, const char *id);

/* workbench_state: returns the name of the state of the run; "none": there is
 * no such run. */
const char *workbench_state(
    struct workbench *bench, const char *job, const char *id);

/* workbench_listed: returns how many runs of the job are on this list of the
 * ledger's index. */
size_t workbench_listed(
    struct workbench *bench, const char *job, enum ledger_index index);

/* workbench_store_run: stores run, directly. Without an ETag it inserts run and
 * its ledger index row; with an ETag it replaces the stored run, but not the
 * index row. Sets the ETags of run. TW_CONFLICT: the run exists already, or the
 * stored one has another ETag. */
enum tw_err workbench_store_run(
    struct workbench *bench, struct ledger_run *run);

/* workbench_spoil_run: stores an entity that the worker cannot read as a run,
 * in place of the run if it exists. The entity's State is an Int32: a tool that
 * does not know the types of a run might write it so. */
void workbench_spoil_run(
    struct workbench *bench, const char *job, const char *id);

/* workbench_fill_run: adds a property to run and stores run, again and again,
 * until the store refuses one more property. */
void workbench_fill_run(struct workbench *bench, struct ledger_run *run);

/* workbench_write: makes a change to an entity of the ledger's table,
 * directly. */
void workbench_write(struct workbench *bench, enum operation_type type,
    const struct entity *entity);

/* workbench_cancel: cancels run id of delete-channel, directly, as an operator
 * does. True: the cancellation was stored as a request to the owner of the
 * run. */
bool workbench_cancel(struct workbench *bench, const char *id);

/* workbench_lease_request: returns a request for the lease of run id of
 * delete-channel, with {"channel":"Football"}. */
struct lease_request workbench_lease_request(
    struct workbench *bench, const char *id);

#endif
