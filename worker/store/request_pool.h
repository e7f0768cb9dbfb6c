/* SPDX-License-Identifier: MIT */
/*
 * Request pool: makes storage requests for all worker threads, and is the one
 * retry layer. A task is one request and all its tries. A request thread makes
 * one exchange at a time; a caller that waits for its task makes the exchanges
 * of the task itself. A task that is to be retried returns to its client's list
 * with the time of the next try, and frees its request thread. Request threads
 * serve the clients round robin, so that a large run does not starve a small
 * one.
 *
 * Retried here: TW_BUSY, and TW_UNKNOWN of repeatable tasks (reads). Never
 * retried: TW_UNKNOWN of a write; the owner of the task reads, then decides.
 * The outcome of a try is final
 *
 * - after RETRY_TRIES tries, of which throttled ones do not count;
 * - at once if the store's circuit breaker is open, the store is silent or
 *   useless (silence.h), the client stops or the process ends (stop.h).
 *
 * If the deadline comes while a task waits for its next try, the task ends with
 * TW_STOPPED. If the deadline is moved meanwhile, the new deadline counts.
 */
#ifndef TW_STORE_REQUEST_POOL_H
#define TW_STORE_REQUEST_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/deadline.h"
#include "worker/store/rate_limiter.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

struct request_pool;
struct pool_client;

#define REQUEST_POOL_BUDGET_BYTES (16 * 1024 * 1024)

struct pool_request {
    /* Set by the owner before request_pool_submit(); borrowed until the task is
     * done. */
    enum tw_err (*send)(struct pool_request *task, struct exchange *exchange);
    bool repeatable;     /* a read: retried after an indeterminate outcome */
    struct store *store; /* target; the rate limit of its account applies */
    uint64_t partition;  /* hash of table and PartitionKey; 0: none */
    unsigned entities;   /* expected number of entities read or written */
    bool scans;      /* the task reads a page; its send requests at most `most`
                        entities */
    size_t bytes;    /* memory that the task may use while in flight; counts
                        against REQUEST_POOL_BUDGET_BYTES */
    int64_t from_ms; /* boot clock: the task is not sent before; 0: at once */

    /* For send: */
    unsigned most; /* maximum number of entities to request; 0: no limit */
    unsigned came; /* entities read or written; preset to the expected number,
                      corrected by send */

    /* Set by the request pool; valid once request_pool_done() is true. */
    enum tw_err outcome;
    struct exchange last; /* the exchange of the last try */
    struct retry retry;

    /* Private to the request pool. */
    bool done;
    bool cancelled;
    bool by_caller; /* the caller makes the exchanges of this task */
    bool given; /* by_caller only: the caller may make the next exchange now */
    struct pool_request *next;
    struct pool_client *client;
    /* Boot clock. not_before_ms: when the next try may start; retry_ms: when
     * the next try would start if there were no deadline; left_ms: when the
     * last try started. */
    int64_t not_before_ms, retry_ms, left_ms;
    bool watched; /* the task counts for the silence of its store */
    bool refused; /* not sent, or not retried, because its store is silent or
                     useless */
    int64_t quiet_ms; /* how long the store has been silent or useless, ms */
    bool useless; /* the task is refused because the store responds, but serves
                     nothing */
    struct rate_key key;
    unsigned expected;
};

/*
 * request_pool_new: make a pool that has at most count (1..256) tasks in flight
 * and as many threads. max_entities_per_second: 0 for no ceiling; see
 * request_pool_spend(). Owned. Free all clients before request_pool_free(),
 * which ends the threads.
 */
#define REQUEST_POOL_MAX 256
struct request_pool *request_pool_new(
    unsigned count, int64_t max_entities_per_second);

/* request_pool_set_count: allow at most count (1..256) tasks in flight from now
 * on. Tasks that are in flight continue. */
void request_pool_set_count(struct request_pool *request_pool, unsigned count);
void request_pool_free(struct request_pool *request_pool);

/*
 * pool_client_new: make a client, through which one run (or command) submits
 * its tasks. deadline is borrowed; NULL: none. Owned; pool_client_free() ends
 * tasks that have not started (TW_STOPPED) and waits for those in flight.
 */
struct pool_client *pool_client_new(
    struct request_pool *request_pool, const struct deadline *deadline);
void pool_client_free(struct pool_client *client);

/* request_pool_reach_until: as long as no request could be sent to a service,
 * begin no further try after until_ms (boot clock). The address is then
 * probably wrong, and an operator waits. For a service that was reached, the
 * usual limits apply. */
void request_pool_reach_until(struct pool_client *client, int64_t until_ms);

/*
 * request_pool_watch_silence: call for the client of a run that occupies a
 * worker thread. All such clients together lose at most one worker thread to a
 * silent store (silence.h), because further requests to the store are refused
 * (TW_BUSY, breaker_open) or given up. Tables of `ledger` (borrowed) are
 * exempt, because without them no worker thread can work.
 *
 * request_pool_is_silent: are requests to the store refused now because it is
 * silent or useless?
 */
void request_pool_watch_silence(
    struct pool_client *client, const struct store *ledger);
bool request_pool_is_silent(
    struct request_pool *request_pool, const struct store *store);

/* request_pool_rate: return the limit, in entities a second, that the rate
 * limiter applies to the account of store or, if of_partition, to the partition
 * of that account which was refused last; < 0: no limit is known. */
double request_pool_rate(struct request_pool *request_pool,
    const struct store *store, bool of_partition);

/* request_pool_submit: put task into the client's list, and return at once.
 * task is borrowed until it is done. */
void request_pool_submit(struct pool_client *client, struct pool_request *task);

/*
 * request_pool_cancel: cancel a submitted task. A task that has not started, or
 * waits for its next try, ends with TW_STOPPED. If the task is in flight, the
 * call waits until the exchange has ended. The task is done when this function
 * returns.
 */
void request_pool_cancel(struct pool_client *client, struct pool_request *task);

/* request_pool_give_up: like request_pool_cancel() without waiting: a task in
 * flight is not tried again. */
void request_pool_give_up(
    struct pool_client *client, struct pool_request *task);

/* request_pool_done: has the task ended? request_pool_wait: wait until it
 * has. */
bool request_pool_done(
    struct pool_client *client, const struct pool_request *task);
void request_pool_wait(struct pool_client *client, struct pool_request *task);

/* request_pool_wait_any: wait until more than `seen` tasks of this client have
 * ended, or no task is left. Returns how many have ended so far. Pass 0 as
 * `seen` in the first call, then the result of the call before. */
uint64_t request_pool_wait_any(struct pool_client *client, uint64_t seen);

/* request_pool_call: submit and wait; the exchanges are made on the calling
 * thread. Returns task->outcome. */
TW_MUST_USE enum tw_err request_pool_call(
    struct pool_client *client, struct pool_request *task);

/*
 * request_pool_stop: end the client's waiting tasks with TW_STOPPED (err keeps
 * the text of their last try); no further task starts. Tasks in flight end
 * without a retry.
 */
void request_pool_stop(struct pool_client *client);

/*
 * request_pool_hurry: call when the run stops soon. Without this call a service
 * that refuses everything, or does not respond, would hold up the run. Until
 * wait_ms from now, tasks in flight may still succeed. Then
 *
 * - each task that waits for its next try is tried once more. If that try
 *   fails, the task ends (TW_STOPPED).
 * - requests in flight are given up, within about a second. The outcome of a
 *   write that was given up is indeterminate. After a request was given up,
 *   later tasks of the client end unsent (TW_STOPPED).
 *
 * wait_ms PLATFORM_NEVER: the run does not stop after all.
 */
void request_pool_hurry(struct pool_client *client, int64_t wait_ms);

/* request_pool_requests: return how many requests the client has sent so far
 * (Transactions). */
int64_t request_pool_requests(const struct pool_client *client);

/* request_pool_throttled: return how many tries of the client the service
 * answered with 429 or 503. */
int64_t request_pool_throttled(const struct pool_client *client);

/* request_pool_is_indeterminate: did a write of the client have an
 * indeterminate outcome, so that the store may still apply it? Always false for
 * a store without late writes. */
bool request_pool_is_indeterminate(const struct pool_client *client);

/*
 * pool_client_of: call for the client of a run of job. All runs of the job
 * together send at most max_entities_per_second (0: no limit) or, if
 * request_pool_set_ceiling() was called for the job, the number given there.
 * request_pool_set_ceiling: set this number, also for running attempts. job
 * NULL: set the ceiling of all jobs together.
 */
void pool_client_of(struct pool_client *client, const char *job,
    int64_t max_entities_per_second);
void request_pool_set_ceiling(struct request_pool *request_pool,
    const char *job, int64_t max_entities_per_second);

/* pool_client_ceiling: return how many entities a second the client may send at
 * present, which is the lower one of the ceilings of its job and of all jobs
 * together; 0: no limit. */
int64_t pool_client_ceiling(const struct pool_client *client);

/* pool_client_trace: let each request of the client carry the traceparent of
 * its run (borrowed; NULL: none). Call before the first task. */
void pool_client_trace(struct pool_client *client, const char *traceparent);

/*
 * request_pool_spend: may `count` entities be sent under the ceilings? The
 * owner calls it before it submits a batch. false: not yet; the call has waited
 * up to a quarter of a second, call it again. true: the entities are counted,
 * or the client is stopped or its deadline closed.
 */
TW_MUST_USE bool request_pool_spend(struct pool_client *client, unsigned count);

#endif
