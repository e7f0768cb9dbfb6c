/* SPDX-License-Identifier: MIT */
/*
 * When a storage call that was not made is made again: one policy for all that
 * call a store. The wait before the next try is random below a growing limit,
 * or what the service asks for. A try that was throttled (429, 503) does not
 * count: the service is there, and will answer.
 */
#ifndef TW_STORE_RETRY_H
#define TW_STORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/store/deadline.h"
#include "worker/store/store.h"

/* So many tries that were not throttled are made. */
#define RETRY_TRIES 7
#define RETRY_BASE_MS 800
#define RETRY_FACTOR 2
#define RETRY_CAP_MS 6400
/* A service that responds may refuse by chance, and a scan, which has one
 * request in flight, waits for the next try: the first ones come soon. */
#define RETRY_RESPONDED_BASE_MS 8
#define RETRY_RESPONDED_FACTOR 8

/*
 * retry_backoff_ms: how long to wait before try number tries+1 (tries >= 1):
 * a random time below a limit that is multiplied with each try. responded: the
 * last try had a response. random: uniform 64 bits. hint_ms: the service's, -1:
 * none; it wins, up to a minute.
 */
int64_t retry_backoff_ms(
    unsigned tries, bool responded, uint64_t random, int64_t hint_ms);

/* One call and its tries. All zero: none yet. */
struct retry {
    unsigned tries;     /* begun */
    unsigned throttled; /* of these, answered 429 or 503 */
};

/* retry_is_throttled: did the service answer that it is busy? */
bool retry_is_throttled(const struct exchange *last);

/* retry_is_locked: is the queue or table being deleted? Its name stays locked
 * for half a minute or more: too long for a thread to wait for it. */
bool retry_is_locked(const struct exchange *last);

/* retry_begin: one more try begins. */
void retry_begin(struct retry *retry);

/* retry_may_follow: it has ended with `last`; once for each try. False: there
 * were enough. */
bool retry_may_follow(struct retry *retry, const struct exchange *last);

/* retry_delay_ms: how long to wait before the next try, >= 0. */
int64_t retry_delay_ms(const struct retry *retry, const struct exchange *last);

/* Until when a thread waits for one call to be made. */
struct retry_limits {
    const struct deadline *deadline; /* NULL: none */
    int64_t until_ms;                /* boot clock */
    int64_t unanswered_ms;           /* the same where no response comes */
};

/*
 * retry_wait: for who makes the call on its own thread and begins no tries: the
 * call has ended with `last`, wait until it may be made again. False, at once:
 * that would be too often, or too late, or the process is to end.
 */
bool retry_wait(struct retry *retry, const struct exchange *last,
    const struct retry_limits *limits);

/* One call that a thread makes itself, again while it was certainly not made:
 *
 *     struct retry_call call = retry_call(deadline, busy_ms, unanswered_ms);
 *     do
 *         outcome = store_...(store, &call.attempt, ...);
 *     while (retry_call_again(&call, outcome));
 */
struct retry_call {
    struct exchange exchange; /* the last one's */
    struct retry retry;
    struct retry_limits limits;
};

/* How long a worker's own threads wait for a service that is busy, before they
 * take it for one that does not serve them. */
#define RETRY_BUSY_MS 10000

/* How long a command tries where nothing responds: a person waits, and the
 * address is probably wrong. */
#define RETRY_UNANSWERED_MS 2000

/* retry_call: for busy_ms at most, or where no response comes for
 * unanswered_ms (0: no other try). deadline is borrowed; NULL: none. */
struct retry_call retry_call(
    const struct deadline *deadline, int64_t busy_ms, int64_t unanswered_ms);
bool retry_call_again(struct retry_call *call, enum tw_err outcome);

#endif
