/* SPDX-License-Identifier: MIT */
/*
 * The circuit breaker of one service of a store. The breaker opens when
 * consecutive requests get no response at all. While it is open, one request a
 * second passes as a probe, from any caller, and all others fail at once. The
 * first response closes the breaker. An error response of the service (503,
 * 500) is a response. A refused connection or an unknown host name shows more
 * than a missing response that the service is down: four in a row open the
 * breaker. If a request has a shorter time limit than the requests of runs
 * (deadline.h: brief), its time-out is not counted. Any thread may call any
 * function.
 */
#ifndef TW_STORE_BREAKER_H
#define TW_STORE_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/spin_lock.h"

/* The number of failures in a row that opens the breaker. If three of ten
 * requests fail at random, one sequence in 200,000 reaches this number. */
#define BREAKER_FAILURES 10
/* A request that could not be sent counts as this number of failures. */
#define BREAKER_UNSENT 3
#define BREAKER_PROBE_MS 1000

#define BREAKER_CAUSE_MAX 256

/* All zero: closed. */
struct breaker {
    _Atomic unsigned failures; /* failures since the last response; a request
                                  that could not be sent counts as
                                  BREAKER_UNSENT */
    _Atomic bool refused;      /* the last response refused the credentials */
    _Atomic bool reached; /* a request was sent to the service at least once */
    _Atomic int64_t probe_ms; /* when the next probe may be sent */
    _Atomic int64_t since_ms; /* when the first of the failed requests was sent,
                                 or failed without being sent */
    struct spin_lock cause_lock; /* guards cause */
    char cause[BREAKER_CAUSE_MAX];
};

/* breaker_wait_ms: return how long a request at now_ms (boot clock) must wait
 * before it may be sent; 0: send it now. If the breaker is open and the result
 * is 0, the request is the probe. */
int64_t breaker_wait_ms(struct breaker *breaker, int64_t now_ms);

/* breaker_is_away: does the service not respond (the breaker is open), or did
 * it refuse the credentials? */
bool breaker_is_away(const struct breaker *breaker);

/* breaker_reached: note that a request was sent at sent_ms (0: it was not
 * sent). Returns true if this or any earlier request was sent to the service.
 */
bool breaker_reached(struct breaker *breaker, int64_t sent_ms);

/* breaker_respond: record a response to a request sent at sent_ms. If that
 * request was sent before the first of the failures, the failures still count.
 * refused: the response refused the credentials, which does not open the
 * breaker. */
void breaker_respond(struct breaker *breaker, int64_t sent_ms, bool refused);

/* breaker_fail: record that a request sent at sent_ms (0: it was not sent) got
 * no response. cause: a sentence; it is truncated if it is too long. Returns
 * whether the breaker is open now. */
bool breaker_fail(struct breaker *breaker, int64_t now_ms, int64_t sent_ms,
    const char *cause);

/* breaker_cause: copy the cause of the last failure to ret. */
void breaker_cause(struct breaker *breaker, char ret[BREAKER_CAUSE_MAX]);

#endif
