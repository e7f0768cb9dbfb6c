/* SPDX-License-Identifier: MIT */
/*
 * Request pool: makes storage requests for all worker threads, and is the one
 * retry layer. A task is one request with its tries. A request thread makes one
 * exchange at a time; a caller that waits makes its own. A task to be tried
 * again returns to the queue with a not-before time and frees its request
 * thread. Request threads serve the clients round robin, so that a large run
 * does not starve a small one.
 *
 * Retried here: TW_BUSY, and TW_UNKNOWN of repeatable tasks (reads). Never
 * retried: TW_UNKNOWN of a write; its owner reads, then decides. The last
 * outcome is final after RETRY_TRIES tries (throttled tries do not count), and
 * at once when the store's circuit breaker is open, the store is silent, the
 * client stops or the process ends (stop.h). A task that waits for its next try
 * when the deadline comes ends with TW_STOPPED; if the deadline is moved
 * meanwhile, the new one counts.
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
    struct store *store; /* the rate limit of its account applies */
    uint64_t partition;  /* hash of table and PartitionKey; 0: none */
    unsigned entities;   /* expected number of entities read or written */
    bool scans;          /* a page: send requests at most `most` */
    size_t bytes; /* memory it may hold while in flight, for the budget */

    /* For send: */
    unsigned most; /* entities; 0: any number */
    unsigned came; /* entities read or written; preset to expected, send
                      corrects it */

    /* Set by the request pool; read it once request_pool_done(). */
    enum tw_err outcome;
    struct exchange last; /* the last exchange's */
    struct retry retry;

    /* Private to the request pool. */
    bool done;
    bool cancelled;
    bool by_caller; /* its caller makes the exchanges ... */
    bool given;     /* ... and may do so now */
    struct pool_request *next;
    struct pool_client *client;
    int64_t not_before_ms, retry_ms, left_ms; /* boot clock */
    bool watched;     /* it counts for the silence of its store */
    bool refused;     /* not sent, or ended: its store is silent or useless */
    int64_t quiet_ms; /* for how long, ms */
    bool useless;     /* the store responds, but serves nothing */
    struct rate_key key;
    unsigned expected;
};

/*
 * request_pool_new: at most count tasks in flight (1..256) and as many threads.
 * max_entities_per_second: 0 for no ceiling; see request_pool_spend(). Owned;
 * request_pool_free() waits for tasks in flight; all clients must be freed
 * before.
 */
struct request_pool *request_pool_new(
    unsigned count, int64_t max_entities_per_second);
void request_pool_free(struct request_pool *request_pool);

/*
 * pool_client_new: the access of a run (or a command). deadline is borrowed;
 * NULL: none. Owned; pool_client_free() ends tasks that have not started
 * (TW_STOPPED) and waits for those in flight.
 */
struct pool_client *pool_client_new(
    struct request_pool *request_pool, const struct deadline *deadline);
void pool_client_free(struct pool_client *client);

/* request_pool_reach_until: while no request could be sent to a service, no
 * further try begins after until_ms (boot clock): a person waits, and the
 * address is probably wrong. A service that was reached gets the usual time. */
void request_pool_reach_until(struct pool_client *client, int64_t until_ms);

/*
 * request_pool_watch_silence: the client belongs to a run that occupies a
 * worker thread. A silent store occupies one worker thread of all such clients
 * together (silence.h): further requests to it are refused (TW_BUSY,
 * breaker_open) or given up. Tables of `ledger` (borrowed) are exempt: without
 * them no worker thread can work. request_pool_is_silent: are requests to the
 * store refused for this reason now?
 */
void request_pool_watch_silence(
    struct pool_client *client, const struct store *ledger);
bool request_pool_is_silent(
    struct request_pool *request_pool, const struct store *store);

/* request_pool_submit: task is borrowed until it is done. Never blocks. */
void request_pool_submit(struct pool_client *client, struct pool_request *task);

/* request_pool_submit_at: the same, not sent before not_before_ms (boot
 * clock). */
void request_pool_submit_at(struct pool_client *client,
    struct pool_request *task, int64_t not_before_ms);

/*
 * request_pool_cancel: cancel a submitted task. A task that has not started, or
 * waits for its next try, ends with TW_STOPPED; the call waits for a task in
 * flight. The task is done when this returns.
 */
void request_pool_cancel(struct pool_client *client, struct pool_request *task);

/* request_pool_give_up: cancel without waiting: the task is not tried again. */
void request_pool_give_up(
    struct pool_client *client, struct pool_request *task);

/* request_pool_done: has the task ended? request_pool_wait: wait until it
 * has. */
bool request_pool_done(
    struct pool_client *client, const struct pool_request *task);
void request_pool_wait(struct pool_client *client, struct pool_request *task);

/* request_pool_wait_any: wait until more than `seen` tasks of this client (0 at
 * first) have ended. Returns how many have ended so far. */
uint64_t request_pool_wait_any(struct pool_client *client, uint64_t seen);

/* request_pool_call: submit and wait; the exchanges are made on the calling
 * thread. Returns task->outcome. */
TW_MUST_USE enum tw_err request_pool_call(
    struct pool_client *client, struct pool_request *task);
TW_MUST_USE enum tw_err request_pool_call_at(struct pool_client *client,
    struct pool_request *task, int64_t not_before_ms);

/*
 * request_pool_stop: no further retries, and no task starts: waiting tasks end
 * with TW_STOPPED (err keeps the text of their last try). Tasks in flight end
 * by themselves.
 */
void request_pool_stop(struct pool_client *client);

/*
 * request_pool_hurry: the run stops soon; tasks in flight may still succeed. No
 * task of the client waits for its next try longer than wait_ms from now: each
 * is then tried once more and ends (TW_STOPPED). Otherwise a service that
 * refuses everything would hold up the run. PLATFORM_NEVER: the run does not
 * stop after all.
 */
void request_pool_hurry(struct pool_client *client, int64_t wait_ms);

/* request_pool_requests: requests sent to the store so far (Transactions). */
int64_t request_pool_requests(const struct pool_client *client);

/* request_pool_throttled: of these, those with a response of 429 or 503. */
int64_t request_pool_throttled(const struct pool_client *client);

/* request_pool_is_indeterminate: did a write have an indeterminate outcome, so
 * that the store may still apply it? Always false for a store without late
 * writes. */
bool request_pool_is_indeterminate(const struct pool_client *client);

/*
 * pool_client_of: the client is a run's of that job. All runs of the job
 * together send at most so many entities a second (0: no limit), or the number
 * set before. request_pool_set_ceiling: sets this number, also for running
 * attempts. job NULL: the ceiling of all jobs together.
 */
void pool_client_of(struct pool_client *client, const char *job,
    int64_t max_entities_per_second);
void request_pool_set_ceiling(struct request_pool *request_pool,
    const char *job, int64_t max_entities_per_second);

/*
 * request_pool_spend: may count entities be sent under the ceilings? The owner
 * calls it before it submits a batch. false: not yet; the call has waited up to
 * a quarter of a second, call it again. true: they are counted, or the client
 * is stopped or its deadline closed.
 */
TW_MUST_USE bool request_pool_spend(struct pool_client *client, unsigned count);

#endif
