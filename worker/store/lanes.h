/* SPDX-License-Identifier: MIT */
/*
 * Lanes: places for storage requests in flight, shared by all slots, and the
 * one retry layer. A task is one request; a lane thread makes one attempt at a
 * time (a caller that waits makes its own); an attempt that should be made
 * again goes back to the queue with a not-before time and frees its lane. Lanes
 * are given out round robin over clients, so that a large run does not starve a
 * small one.
 *
 * Retried here: TW_BUSY, and TW_UNKNOWN of tasks that are repeatable (reads).
 * Never retried: TW_UNKNOWN of a write; its owner reads, then decides. The
 * last outcome stands after RETRY_TRIES tries (those that were throttled do not
 * count), at once where the store's circuit breaker is open or it is silent, or
 * when the client stops or the process is to end (stop.h). A task that waits
 * for its next try when the deadline comes is over (TW_STOPPED); a deadline
 * that is moved meanwhile moves that too.
 */
#ifndef TW_STORE_LANES_H
#define TW_STORE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/deadline.h"
#include "worker/store/rate_limiter.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

struct lanes;
struct lanes_client;

#define LANES_BUDGET_BYTES (16 * 1024 * 1024)

struct lanes_task {
    /* Set by the owner before lanes_submit(); borrowed until it is done. */
    enum tw_err (*send)(struct lanes_task *task, struct exchange *exchange);
    bool repeatable;     /* a read: an unknown outcome is simply tried again */
    struct store *store; /* whose account's rate it counts against */
    uint64_t partition;  /* hash of table and PartitionKey; 0: none */
    unsigned entities;   /* that it reads or writes, as it is expected to */
    bool scans;          /* a page: attempt asks for no more than `most` */
    size_t bytes; /* memory it may hold while under way, for the budget */

    /* For attempt: */
    unsigned most; /* entities; 0: any number */
    unsigned came; /* as many as expected; set it where that is wrong */

    /* Set by the lanes; read it once lanes_done(). */
    enum tw_err outcome;
    struct exchange last; /* the last attempt's */
    struct retry retry;

    /* The lanes' own. */
    bool done;
    bool cancelled;
    bool by_caller; /* its caller makes the attempts ... */
    bool given;     /* ... now */
    struct lanes_task *next;
    struct lanes_client *client;
    int64_t not_before_ms, retry_ms, left_ms; /* boot clock */
    bool watched;     /* it counts for the silence of its store */
    bool refused;     /* it was not sent, or ended, because its store is */
    int64_t quiet_ms; /* silent, for so long, or ... */
    bool useless;     /* ... serves nothing */
    struct rate_key key;
    unsigned expected;
};

/*
 * lanes_new: count tasks under way at once (1..256), and no more threads.
 * max_entities_per_second: 0 for no ceiling; see lanes_spend(). Owned;
 * lanes_free() waits for what is under way; all clients must be gone.
 */
struct lanes *lanes_new(unsigned count, int64_t max_entities_per_second);
void lanes_free(struct lanes *lanes);

/*
 * lanes_client_new: a run's (or a command's) access. deadline is borrowed; NULL
 * for none. Owned; lanes_client_free() gives up tasks that have not started
 * (TW_STOPPED) and waits for those that have.
 */
struct lanes_client *lanes_client_new(
    struct lanes *lanes, const struct deadline *deadline);
void lanes_client_free(struct lanes_client *client);

/* lanes_reach_until: to a service that could not even be sent a request so far
 * no other try begins after until_ms (boot clock): a person waits, and the
 * address is probably wrong. One that was reached is given the usual time. */
void lanes_reach_until(struct lanes_client *client, int64_t until_ms);

/*
 * lanes_watch_silence: the client is of a run that occupies a slot. A store
 * that is silent occupies one slot of all such clients together (silence.h): a
 * request to it is refused (TW_BUSY, breaker_open), or given up. Except for the
 * tables of `ledger` (borrowed): without them no slot can do anything.
 * lanes_is_silent: is a request to the store refused for this now?
 */
void lanes_watch_silence(
    struct lanes_client *client, const struct store *ledger);
bool lanes_is_silent(struct lanes *lanes, const struct store *store);

/* lanes_submit: task is borrowed until it is done. Never blocks. */
void lanes_submit(struct lanes_client *client, struct lanes_task *task);

/* lanes_submit_at: the same, but no sooner than not_before_ms (boot clock). */
void lanes_submit_at(struct lanes_client *client, struct lanes_task *task,
    int64_t not_before_ms);

/*
 * lanes_cancel: take a submitted task back: one that has not started, or waits
 * for its next try, ends with TW_STOPPED; one under way is waited for. It is
 * done when this returns.
 */
void lanes_cancel(struct lanes_client *client, struct lanes_task *task);

/* lanes_give_up: the same without waiting for it: it is not made again. */
void lanes_give_up(struct lanes_client *client, struct lanes_task *task);

/* lanes_done: is it over? lanes_wait: until it is. */
bool lanes_done(struct lanes_client *client, const struct lanes_task *task);
void lanes_wait(struct lanes_client *client, struct lanes_task *task);

/* lanes_wait_any: until a task of this client ends after `seen` of them have
 * (0 at first), returns how many have ended so far. */
uint64_t lanes_wait_any(struct lanes_client *client, uint64_t seen);

/* lanes_call: submit and wait; the attempts are made on the calling thread.
 * Returns task->outcome. */
TW_MUST_USE enum tw_err lanes_call(
    struct lanes_client *client, struct lanes_task *task);
TW_MUST_USE enum tw_err lanes_call_at(struct lanes_client *client,
    struct lanes_task *task, int64_t not_before_ms);

/*
 * lanes_stop: no further retries and no task that has not started: they end
 * with TW_STOPPED (or their last outcome). What is under way ends by itself.
 */
void lanes_stop(struct lanes_client *client);

/*
 * lanes_hurry: the run is to stop, and what is under way may still end well;
 * but no task of the client waits for its next try longer than wait_ms from
 * now: each is tried once more then, and is over (TW_STOPPED). A service that
 * refuses everything would hold up the run for as long as it does.
 * PLATFORM_NEVER: it is not to stop after all.
 */
void lanes_hurry(struct lanes_client *client, int64_t wait_ms);

/* lanes_requests: attempts that left for the store so far (Transactions). */
int64_t lanes_requests(const struct lanes_client *client);

/* lanes_throttled: of these, those answered 429 or 503. */
int64_t lanes_throttled(const struct lanes_client *client);

/* lanes_unsure: was the outcome of a write unknown, so that it may still be
 * carried out later? Never of a store without such writes. */
bool lanes_unsure(const struct lanes_client *client);

/*
 * lanes_client_of: the client is a run's of that job; all of them together send
 * so many entities a second at most (0: any number), or what was set before.
 * lanes_set_ceiling: so many from now on, by the runs that there are, too.
 * NULL: by all jobs together.
 */
void lanes_client_of(struct lanes_client *client, const char *job,
    int64_t max_entities_per_second);
void lanes_set_ceiling(
    struct lanes *lanes, const char *job, int64_t max_entities_per_second);

/*
 * lanes_spend: may count entities be sent under the ceilings? Called by the
 * owner before it submits a batch. false: not yet; it has waited a while, at
 * most a quarter of a second, and is to be called again. true: they are
 * counted, or the client is stopped.
 */
TW_MUST_USE bool lanes_spend(struct lanes_client *client, unsigned count);

#endif
