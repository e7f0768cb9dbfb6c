/* SPDX-License-Identifier: MIT */
/*
 * The circuit breaker of one service of a store. Where one request after the
 * other gets no response at all, it opens: one request a second is let through
 * as a probe, whoever makes it, and all others fail at once. The first response
 * closes it. An error that the service itself answers (503, 500) is a response.
 * A connection that is refused, or a name that is not found, tells more than an
 * answer that does not come: four of these in a row are enough. Any thread.
 */
#ifndef TW_STORE_BREAKER_H
#define TW_STORE_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many failures in a row open it. Where three in ten fail by chance that is
 * one row of them in 200,000. */
#define BREAKER_FAILURES 10
/* As many is one that could not even be sent. */
#define BREAKER_UNSENT 3
#define BREAKER_PROBE_MS 1000

#define BREAKER_CAUSE_MAX 256

/* All zero: closed. */
struct breaker {
    _Atomic unsigned failures; /* since the last response, unsent ones thrice */
    _Atomic bool refused;      /* the last response refused the credentials */
    _Atomic bool reached;      /* a request was sent */
    _Atomic int64_t probe_ms;  /* when the next probe may leave */
    _Atomic int64_t since_ms;  /* when the first of the failures was sent */
    _Atomic bool locked;       /* guards cause, for as long as a copy takes */
    char cause[BREAKER_CAUSE_MAX];
};

/* breaker_wait_ms: how long until a request at now_ms (boot clock) may leave;
 * 0: it may, and where the breaker is open it is the probe. */
int64_t breaker_wait_ms(struct breaker *breaker, int64_t now_ms);

/* breaker_is_away: is the service taken for one that does not respond, or
 * refuses the credentials whatever it is asked? */
bool breaker_is_away(const struct breaker *breaker);

/* breaker_reached: was a request sent to the service, now (sent_ms, 0: not) or
 * before? */
bool breaker_reached(struct breaker *breaker, int64_t sent_ms);

/* breaker_respond: a response came to a request that was sent at sent_ms; one
 * that was sent before the first of the failures ends no row of them. refused:
 * it refused the credentials, which opens nothing. breaker_fail: there was
 * none, to a request that was sent at sent_ms (0: it was not); cause: a
 * sentence, cut where it is too long. True: it is open now. */
void breaker_respond(struct breaker *breaker, int64_t sent_ms, bool refused);
bool breaker_fail(struct breaker *breaker, int64_t now_ms, int64_t sent_ms,
    const char *cause);

/* breaker_cause: the cause of the last failure. */
void breaker_cause(struct breaker *breaker, char ret[BREAKER_CAUSE_MAX]);

#endif
