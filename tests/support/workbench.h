/* SPDX-License-Identifier: MIT */
/*
 * A worker's surroundings without its command line: an embedded store in
 * memory behind a wrapper that counts, delays and fails requests, one job whose
 * kind does what the test says, and a definition around it.
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
    BENCH_CREATE, /* tables and queues */
    BENCH_OTHER,
    BENCH_CALLS,
};

enum bench_fault {
    BENCH_PASS,
    BENCH_FAIL,         /* TW_BUSY, nothing done */
    BENCH_THROTTLE,     /* TW_BUSY, nothing done, an answer of 503 */
    BENCH_LOCK,         /* TW_BUSY, nothing done, an answer of 409 */
    BENCH_REFUSE,       /* TW_REFUSED, nothing done */
    BENCH_FORBID,       /* TW_FORBIDDEN, nothing done */
    BENCH_LOSE_ANSWER,  /* done, TW_UNKNOWN */
    BENCH_LOSE_REQUEST, /* nothing done, TW_UNKNOWN */
    BENCH_CONFLICT,     /* TW_CONFLICT, nothing done */
    BENCH_GONE,         /* TW_NOT_FOUND, nothing done */
    BENCH_INVALID,      /* TW_INVALID, nothing done, an answer of 400 */
};

struct workbench;

/* How attempt n (from 1) of the kind goes; called without the lock. */
typedef enum run_end bench_script(struct workbench *bench, struct run *run,
    unsigned attempt, struct err *err);

/* What requests number first .. last of a sort meet. */
struct bench_fate {
    enum bench_call call;
    unsigned first, last;
    enum bench_fault fault;
};

#define BENCH_FATES 8

struct bench_store {
    union { /* first */
        struct interposed outer;
        struct { /* of outer */
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
    struct store *two_stores[2]; /* see workbench_add_store() */
    const char *two_names[2];
    struct setup_queue queues[2]; /* BENCH_QUEUE, and BENCH_BOUND, bound */
    struct setup setup;
    struct definition definition;
    struct request_pool *request_pool;
    struct renewer *renewer;
    struct attempt_environment environment; /* stopping: says `stop` */

    _Atomic(struct bench_run *)
        runs; /* that workbench_stored() and _new_run() gave */

    struct platform_mutex lock; /* guards all below */
    struct platform_cond changed;
    bool stop;
    unsigned calls[BENCH_CALLS];
    unsigned ledger_writes; /* batches to the ledger's table */
    int64_t delay_ms;       /* of every request */
    int64_t paused_ms;      /* so long a hypervisor has paused this machine */
    int64_t scan_max_ms; /* what the last scan may take, as its deadline says */
    int64_t hidden_s;    /* for so long the last Get hid its messages */
    /* fault: what the n-th (from 1) of that sort meets; lock held. */
    enum bench_fault (*fault)(
        struct workbench *bench, enum bench_call call, unsigned n);
    struct bench_fate fates[BENCH_FATES]; /* see workbench_meets() */
    size_t fate_count;
    bool down;              /* every request fails */
    const char *down_queue; /* no message of this queue can be received, */
    int64_t down_queue_ms;  /* and that takes so long */
    /* between: called before the n-th of that sort is made, without the lock:
     * what somebody else does meanwhile. */
    void (*between)(struct workbench *bench, enum bench_call call, unsigned n);

    bench_script *script; /* NULL: it succeeds */
    unsigned attempts;    /* begun */
    unsigned running;     /* attempts under way */
    unsigned together;    /* the most at once */
    unsigned gate;        /* for scripts */
};

/* BENCH_SCRIPT, BENCH_FAULT, BENCH_BETWEEN: a function for the member script,
 * fault or between; it need not use its parameters. */
#define BENCH_SCRIPT(name)                                                     \
    static enum run_end name(struct workbench *bench, struct run *run,         \
        unsigned attempt_number, struct err *err)
#define BENCH_FAULT(name)                                                      \
    static enum bench_fault name(                                              \
        struct workbench *bench, enum bench_call call, unsigned n)
#define BENCH_BETWEEN(name)                                                    \
    static void name(struct workbench *bench, enum bench_call call, unsigned n)

/* workbench_open_store: one more, with a ledger's table, that meets what the
 * bench's own store meets. Ended with store_close(ret->inner). */
void workbench_open_store(
    struct workbench *bench, const char *name, struct bench_store *ret);

/* workbench_add_store: jobs have this store beside the bench's own one. */
void workbench_add_store(struct workbench *bench, struct store *store);

void workbench_init(struct workbench *bench);
void workbench_done(struct workbench *bench);

/* workbench_set_up, workbench_tear_down: one as *state, for a test. The virtual
 * ones: in a virtual world of its own. */
int workbench_set_up(void **state);
int workbench_tear_down(void **state);
int workbench_set_up_virtual(void **state);
int workbench_tear_down_virtual(void **state);

/* BENCH_TEST: a test with a new workbench, `bench`. VIRTUAL_BENCH_TEST: the
 * same in a new virtual world, in which waits cost nothing. */
#define BENCH_TEST(name)                                                       \
    TEST_WITH(                                                                 \
        name, workbench_set_up, workbench_tear_down, struct workbench *bench)
#define VIRTUAL_BENCH_TEST(name)                                               \
    TEST_WITH(name, workbench_set_up_virtual, workbench_tear_down_virtual,     \
        struct workbench *bench)

/* workbench_meets: what the first-th to last-th request of that sort from now
 * on (1: the next) meet. */
void workbench_meets(struct workbench *bench, enum bench_call call,
    unsigned first, unsigned last, enum bench_fault fault);

/* workbench_meets_each: the same for each of an array, of which those that are
 * zero say nothing. */
void workbench_meets_each(
    struct workbench *bench, const struct bench_fate *fates, size_t count);

/* workbench_log_begin: what is logged from now on is kept. workbench_log_end:
 * until now; how many of its lines have text in them. */
void workbench_log_begin(void);
unsigned workbench_log_end(const char *text);

/* workbench_wait: until condition(bench) holds; fails the test after 30 s. */
#define workbench_wait(bench, condition)                                       \
    workbench_wait_for((bench), (condition), #condition, __FILE__, __LINE__)
void workbench_wait_for(struct workbench *bench,
    bool (*condition)(struct workbench *bench), const char *what,
    const char *file, int line);

/* workbench_locked: this statement, with the lock of the bench held. */
#define workbench_locked(bench, ...)                                           \
    do {                                                                       \
        platform_lock(&(bench)->lock);                                         \
        __VA_ARGS__;                                                           \
        platform_unlock(&(bench)->lock);                                       \
    } while (0)

/* workbench_open_gate, workbench_pass_gate: a script waits until the gate has
 * been opened n times; false: the run was told to stop first. */
void workbench_open_gate(struct workbench *bench);
bool workbench_pass_gate(struct workbench *bench, struct run *run, unsigned n);

/* workbench_make_queue: past the bench. */
void workbench_make_queue(struct workbench *bench, const char *queue);

/* workbench_put: a message; its id, valid until the end of the bench. */
const char *workbench_put(
    struct workbench *bench, const char *queue, const char *text);

/* workbench_take: Get one message, hidden for the visibility timeout. ret is
 * init'ed by the caller. Returns when the request was sent. */
int64_t workbench_take(
    struct workbench *bench, const char *queue, struct messages *ret);

/* workbench_receive: workbench_take(), and the message as a lease has it, valid
 * as long as taken. */
struct lease_message workbench_receive(
    struct workbench *bench, const char *queue, struct messages *taken);

/* workbench_consume: Get one message, which must have that text, and delete
 * it. */
void workbench_consume(
    struct workbench *bench, const char *queue, const char *text);

/* workbench_count: messages of a queue, visible or hidden; 0: no queue. */
int64_t workbench_count(struct workbench *bench, const char *queue);

/* workbench_run: the ledger's entity; ret is init'ed by the caller. False:
 * there is none. */
bool workbench_run(struct workbench *bench, const char *job, const char *id,
    struct ledger_run *ret);

/* workbench_stored: the run as it is in the ledger, which must have it. Any
 * thread may call it.
 * workbench_new_run: one without a property. Both belong to the bench and live
 * until its end; the caller may change them. */
struct ledger_run *workbench_stored(
    struct workbench *bench, const char *job, const char *id);
struct ledger_run *workbench_new_run(struct workbench *bench);

/* workbench_football: a new run of delete-channel with {"channel":"Football"},
 * of the same life. */
struct ledger_run *workbench_football(struct workbench *bench, const char *id);

/* workbench_state: its state's name, "none" where there is no run. */
const char *workbench_state(
    struct workbench *bench, const char *job, const char *id);

/* workbench_listed: how many runs of the job are on that list of the index. */
size_t workbench_listed(
    struct workbench *bench, const char *job, enum ledger_index index);

/* workbench_store_run: store run as it is, past the bench: its first write, or
 * (with an ETag) over what is stored. The ledger index row stays as it is. run
 * gets its ETags. TW_CONFLICT: it is there already, or not as it was. */
enum tw_err workbench_store_run(
    struct workbench *bench, struct ledger_run *run);

/* workbench_spoil_run: the run's entity is one that is no run, as written by a
 * tool that knows no types. */
void workbench_spoil_run(
    struct workbench *bench, const char *job, const char *id);

/* workbench_fill_run: store run with so many properties beside it that the
 * service takes no more. */
void workbench_fill_run(struct workbench *bench, struct ledger_run *run);

/* workbench_write: an entity of the ledger's table as somebody else writes it,
 * past the bench: no request of it is counted, or fails. */
void workbench_write(struct workbench *bench, enum operation_type type,
    const struct entity *entity);

/* workbench_cancel: what a person says who cancels run id of delete-channel,
 * past the bench. True: its owner was asked to. */
bool workbench_cancel(struct workbench *bench, const char *id);

/* workbench_wish: for delete-channel with {"channel":"Football"}. */
struct lease_request workbench_wish(struct workbench *bench, const char *id);

#endif
