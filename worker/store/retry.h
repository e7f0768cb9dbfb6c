/* SPDX-License-Identifier: MIT */
/*
 * When a storage call that was not carried out is retried: one policy for all
 * callers of a store. The wait before the next try is random below a growing
 * limit, or what the service asks for. A throttled try (429, 503) does not
 * count towards RETRY_TRIES, because the service is up and will serve later.
 */
#ifndef TW_STORE_RETRY_H
#define TW_STORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/deadline.h"
#include "worker/store/store.h"

/* Maximum number of tries that were not throttled. */
#define RETRY_TRIES 7
#define RETRY_BASE_MS 800
#define RETRY_FACTOR 2
#define RETRY_CAP_MS 6400
/* After a try with a response, the limit of the wait begins with
 * RETRY_RESPONDED_BASE_MS, and is multiplied by RETRY_RESPONDED_FACTOR for each
 * further try. The first retries are early, because a service that responds may
 * refuse at random, and a scan with one request in flight waits for the next
 * try. */
#define RETRY_RESPONDED_BASE_MS 8
#define RETRY_RESPONDED_FACTOR 8

/*
 * retry_backoff_ms: return how long to wait before try number tries+1 (tries >=
 * 1), a random time below a limit that grows with each try. responded: the last
 * try had a response. random: uniform 64 bits. hint_ms: the service's
 * Retry-After; -1: none. It has priority, but is limited to a minute.
 */
int64_t retry_backoff_ms(
    unsigned tries, bool responded, uint64_t random, int64_t hint_ms);

/* One call and its tries. All zero: no try yet. */
struct retry {
    unsigned tries;     /* number of tries started */
    unsigned throttled; /* number of tries answered with 429 or 503 */
};

/* retry_is_throttled: did the service respond that it is busy? */
bool retry_is_throttled(const struct exchange *last);

/* retry_is_locked: is the queue or table being deleted? Its name stays locked
 * for half a minute or more, which is too long for a thread to wait. */
bool retry_is_locked(const struct exchange *last);

/* retry_begin: count the start of one more try. */
void retry_begin(struct retry *retry);

/* retry_may_follow: may another try follow the one that ended with `last`? Call
 * once after each try. */
bool retry_may_follow(struct retry *retry, const struct exchange *last);

/* retry_delay_ms: return how long to wait before the next try, >= 0. */
int64_t retry_delay_ms(const struct retry *retry, const struct exchange *last);

/* How long a thread waits for one call to succeed. */
struct retry_limits {
    const struct deadline *deadline; /* NULL: none */
    int64_t until_ms;                /* no try starts later; boot clock */
    int64_t unanswered_ms; /* like until_ms, if the last try had no response */
};

/*
 * retry_wait: for a caller that makes the call on its own thread, without
 * retry_begin(). Call it when a try has ended with `last`. It waits until the
 * next try may start, and returns true. It returns false at once if no tries or
 * no time are left, or the process ends.
 */
bool retry_wait(struct retry *retry, const struct exchange *last,
    const struct retry_limits *limits);

/*
 * One call that a thread makes itself and retries as long as it was certainly
 * not carried out:
 *
 *     struct retry_call call = retry_call(deadline, busy_ms, unanswered_ms);
 *     do
 *         outcome = store_...(store, &call.exchange, ...);
 *     while (retry_call_again(&call, outcome));
 */
struct retry_call {
    struct exchange exchange; /* the exchange of the current or last try */
    struct retry retry;
    struct retry_limits limits;
};

/* How long a worker's own threads wait for a busy service before they conclude
 * that the service does not serve them. */
#define RETRY_BUSY_MS 10000

/* How long a command retries if nothing responds. It is short, because an
 * operator waits, and the address is probably wrong. */
#define RETRY_UNANSWERED_MS 2000

/* retry_call: retry for at most busy_ms; after a try without a response, for at
 * most unanswered_ms from now (0: no retry). deadline is borrowed; NULL: none.
 */
struct retry_call retry_call(
    const struct deadline *deadline, int64_t busy_ms, int64_t unanswered_ms);
bool retry_call_again(struct retry_call *call, enum tw_err outcome);

#endif
