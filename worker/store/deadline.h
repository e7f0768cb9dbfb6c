/* SPDX-License-Identifier: MIT */
/*
 * The deadline of an attempt: until when its requests may start. The deadline
 * is checked before a request is made and again just before bytes are sent, so
 * a worker that was suspended starts no request after its lease expired.
 */
#ifndef TW_STORE_DEADLINE_H
#define TW_STORE_DEADLINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lease_clock;

struct deadline {
    _Atomic int64_t at_ms; /* platform_boot_ms(); PLATFORM_NEVER: no deadline */
    _Atomic bool shut;     /* closed for good, because the lease is lost or the
                              attempt was given up */
    int64_t request_ms;    /* maximum duration of one request */
    struct lease_clock *clock; /* borrowed; NULL: none */
    bool renews; /* this deadline is for lease renewals, so it is open even
                    while the clock is in doubt */
    bool brief;  /* request_ms is shorter than the time that requests of runs
                    may take, so a missing response within request_ms does not
                    count as a failure of the service (breaker.h) */
};

/* Maximum duration of a request that no lease bounds: the service's own limit
 * of 30 s, and network time. */
#define DEADLINE_REQUEST_MAX_MS 35000
#define DEADLINE_REQUEST_MIN_MS 1000

/* deadline_init: set the deadline to deadline_ms. It is not closed. request_ms
 * is clamped to 1 s .. 35 s. */
void deadline_init(
    struct deadline *deadline, int64_t deadline_ms, int64_t request_ms);

/* deadline_request_ms: return a quarter of the visibility timeout, clamped to
 * 1 s .. 35 s. */
int64_t deadline_request_ms(int64_t visibility_timeout_ms);

/* deadline_move: set an earlier or later deadline. Only the renewer calls it.
 */
void deadline_move(struct deadline *deadline, int64_t deadline_ms);

/* deadline_watch: from now on the deadline is also closed while responses show
 * that the lease is over or in doubt (lease_clock.h). clock is borrowed.
 * renews: see struct deadline. */
void deadline_watch(
    struct deadline *deadline, struct lease_clock *clock, bool renews);

/* deadline_close: no further request starts, for good. */
void deadline_close(struct deadline *deadline);

/* deadline_is_open: may a request start at now_ms? False also if the time that
 * is left is shorter than a whole request. NULL is always open. */
bool deadline_is_open(const struct deadline *deadline, int64_t now_ms);

/*
 * deadline_may_reopen: call when the deadline is closed at now_ms. Returns true
 * if the only cause is that the time left is shorter than a whole request, or
 * that the clock is in doubt. A renewal may then reopen the deadline, so the
 * caller may wait until the time of the deadline itself.
 */
bool deadline_may_reopen(const struct deadline *deadline, int64_t now_ms);

/* deadline_timeout_ms: return the maximum duration of a request that starts
 * now; for NULL it is DEADLINE_REQUEST_MAX_MS. */
int64_t deadline_timeout_ms(const struct deadline *deadline);

#endif
