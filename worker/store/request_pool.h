/* SPDX-License-Identifier: MIT */
/*
 * Request pool: places for storage requests in flight, shared by all slots, and
 * the one retry layer. A task is one request; a request thread thread makes one
 * attempt at a time (a caller that waits makes its own); an attempt that should
 * be made again goes back to the queue with a not-before time and frees its
 * request thread. Request pool are given out round robin over clients, so that
 * a large run does not starve a small one.
 *
 * Retried here: TW_BUSY, and TW_UNKNOWN of tasks that are repeatable (reads).
 * Never retried: TW_UNKNOWN of a write; its owner reads, then decides. The
 * last outcome stands after RETRY_TRIES tries (those that were throttled do not
 * count), at once where the store's circuit breaker is open or it is silent, or
 * when the client stops or the process is to end (stop.h). A task that waits
 * for its next try when the deadline comes is over (TW_STOPPED); a deadline
 * that is moved meanwhile moves that too.
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
    /* Set by the owner before request_pool_submit(); borrowed until it is done.
     */
    enum tw_err (*send)(struct pool_request *task, struct exchange *exchange);
    bool repeatable;     /* a read: an unknown outcome is simply tried again */
    struct store *store; /* whose account's rate it counts against */
    uint64_t partition;  /* hash of table and PartitionKey; 0: none */
    unsigned entities;   /* that it reads or writes, as it is expected to */
    bool scans;          /* a page: attempt asks for no more than `most` */
    size_t bytes; /* memory it may hold while under way, for the budget */

    /* For attempt: */
    unsigned most; /* entities; 0: any number */
    unsigned came; /* as many as expected; set it where that is wrong */

    /* Set by the request pool; read it once request_pool_done(). */
    enum tw_err outcome;
    struct exchange last; /* the last attempt's */
    struct retry retry;

    /* The request pool's own. */
    bool done;
    bool cancelled;
    bool by_caller; /* its caller makes the attempts ... */
    bool given;     /* ... now */
    struct pool_request *next;
    struct pool_client *client;
    int64_t not_before_ms, retry_ms, left_ms; /* boot clock */
    bool watched;     /* it counts for the silence of its store */
    bool refused;     /* it was not sent, or ended, because its store is */
    int64_t quiet_ms; /* silent, for so long, or ... */
    bool useless;     /* ... serves nothing */
    struct rate_key key;
    unsigned expected;
};

/*
 * request_pool_new: count tasks under way at once (1..256), and no more
 * threads. max_entities_per_second: 0 for no ceiling; see request_pool_spend().
 * Owned; request_pool_free() waits for what is under way; all clients must be
 * gone.
 */
struct request_pool *request_pool_new(
    unsigned count, int64_t max_entities_per_second);
void request_pool_free(struct request_pool *request_pool);

/*
 * pool_client_new: a run's (or a command's) access. deadline is borrowed; NULL
 * for none. Owned; pool_client_free() gives up tasks that have not started
 * (TW_STOPPED) and waits for those that have.
 */
struct pool_client *pool_client_new(
    struct request_pool *request_pool, const struct deadline *deadline);
void pool_client_free(struct pool_client *client);

/* request_pool_reach_until: to a service that could not even be sent a request
 * so far no other try begins after until_ms (boot clock): a person waits, and
 * the address is probably wrong. One that was reached is given the usual time.
 */
void request_pool_reach_until(struct pool_client *client, int64_t until_ms);

/*
 * request_pool_watch_silence: the client is of a run that occupies a slot. A
 * store that is silent occupies one slot of all such clients together
 * (silence.h): a request to it is refused (TW_BUSY, breaker_open), or given up.
 * Except for the tables of `ledger` (borrowed): without them no slot can do
 * anything. request_pool_is_silent: is a request to the store refused for this
 * now?
 */
void request_pool_watch_silence(
    struct pool_client *client, const struct store *ledger);
bool request_pool_is_silent(
    struct request_pool *request_pool, const struct store *store);

/* request_pool_submit: task is borrowed until it is done. Never blocks. */
void request_pool_submit(struct pool_client *client, struct pool_request *task);

/* request_pool_submit_at: the same, but no sooner than not_before_ms (boot
 * clock). */
void request_pool_submit_at(struct pool_client *client,
    struct pool_request *task, int64_t not_before_ms);

/*
 * request_pool_cancel: take a submitted task back: one that has not started, or
 * waits for its next try, ends with TW_STOPPED; one under way is waited for. It
 * is done when this returns.
 */
void request_pool_cancel(struct pool_client *client, struct pool_request *task);

/* request_pool_give_up: the same without waiting for it: it is not made again.
 */
void request_pool_give_up(
    struct pool_client *client, struct pool_request *task);

/* request_pool_done: is it over? request_pool_wait: until it is. */
bool request_pool_done(
    struct pool_client *client, const struct pool_request *task);
void request_pool_wait(struct pool_client *client, struct pool_request *task);

/* request_pool_wait_any: until a task of this client ends after `seen` of them
 * have (0 at first), returns how many have ended so far. */
uint64_t request_pool_wait_any(struct pool_client *client, uint64_t seen);

/* request_pool_call: submit and wait; the attempts are made on the calling
 * thread. Returns task->outcome. */
TW_MUST_USE enum tw_err request_pool_call(
    struct pool_client *client, struct pool_request *task);
TW_MUST_USE enum tw_err request_pool_call_at(struct pool_client *client,
    struct pool_request *task, int64_t not_before_ms);

/*
 * request_pool_stop: no further retries and no task that has not started: they
 * end with TW_STOPPED (or their last outcome). What is under way ends by
 * itself.
 */
void request_pool_stop(struct pool_client *client);

/*
 * request_pool_hurry: the run is to stop, and what is under way may still end
 * well; but no task of the client waits for its next try longer than wait_ms
 * from now: each is tried once more then, and is over (TW_STOPPED). A service
 * that refuses everything would hold up the run for as long as it does.
 * PLATFORM_NEVER: it is not to stop after all.
 */
void request_pool_hurry(struct pool_client *client, int64_t wait_ms);

/* request_pool_requests: attempts that left for the store so far
 * (Transactions). */
int64_t request_pool_requests(const struct pool_client *client);

/* request_pool_throttled: of these, those answered 429 or 503. */
int64_t request_pool_throttled(const struct pool_client *client);

/* request_pool_is_indeterminate: was the outcome of a write unknown, so that it
 * may still be carried out later? Never of a store without such writes. */
bool request_pool_is_indeterminate(const struct pool_client *client);

/*
 * pool_client_of: the client is a run's of that job; all of them together send
 * so many entities a second at most (0: any number), or what was set before.
 * request_pool_set_ceiling: so many from now on, by the runs that there are,
 * too. NULL: by all jobs together.
 */
void pool_client_of(struct pool_client *client, const char *job,
    int64_t max_entities_per_second);
void request_pool_set_ceiling(struct request_pool *request_pool,
    const char *job, int64_t max_entities_per_second);

/*
 * request_pool_spend: may count entities be sent under the ceilings? Called by
 * the owner before it submits a batch. false: not yet; it has waited a while,
 * at most a quarter of a second, and is to be called again. true: they are
 * counted, or the client is stopped.
 */
TW_MUST_USE bool request_pool_spend(struct pool_client *client, unsigned count);

#endif
