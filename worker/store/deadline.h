/* SPDX-License-Identifier: MIT */
/*
 * The deadline of a run: until when its requests may start. It is asked before
 * a request is made and once more in the last moment before bytes leave, so a
 * worker that was only asleep starts nothing after its time has run out.
 */
#ifndef TW_STORE_DEADLINE_H
#define TW_STORE_DEADLINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lease_clock;

struct deadline {
    _Atomic int64_t at_ms;     /* on platform_boot_ms(); PLATFORM_NEVER: none */
    _Atomic bool shut;         /* for good: overtaken, or given up */
    int64_t request_ms;        /* what one request may take at most */
    struct lease_clock *clock; /* borrowed; NULL: none */
    bool renews; /* for the renewals: open although the clock is in doubt */
};

/* What a request may take where no lease bounds it: the service's own limit
 * of 30 s and the way there and back. */
#define DEADLINE_REQUEST_MAX_MS 35000
#define DEADLINE_REQUEST_MIN_MS 1000

/* deadline_init: an open deadline. request_ms is held to 1 s .. 35 s. */
void deadline_init(
    struct deadline *deadline, int64_t deadline_ms, int64_t request_ms);

/* deadline_request_ms: a quarter of the visibility timeout, 1 s .. 35 s. */
int64_t deadline_request_ms(int64_t visibility_timeout_ms);

/* deadline_move: set the deadline (the renewer only; either direction). */
void deadline_move(struct deadline *deadline, int64_t deadline_ms);

/* deadline_watch: from now on the deadline is closed too while responses show
 * that the lease is over, or may be (lease_clock.h). clock is borrowed. */
void deadline_watch(
    struct deadline *deadline, struct lease_clock *clock, bool renews);

/* deadline_close: nothing starts any more, for good. */
void deadline_close(struct deadline *deadline);

/* deadline_is_open: may a request start at now_ms? There must be time for the
 * whole of one. NULL is always open. */
bool deadline_is_open(const struct deadline *deadline, int64_t now_ms);

/*
 * deadline_may_reopen: it is closed at now_ms only because too little time is
 * left for a whole request, or because the clock is in doubt; a renewal may
 * open it again. Worth waiting for until the deadline itself.
 */
bool deadline_may_reopen(const struct deadline *deadline, int64_t now_ms);

/* deadline_timeout_ms: what a request that starts now may take; for NULL
 * DEADLINE_REQUEST_MAX_MS. */
int64_t deadline_timeout_ms(const struct deadline *deadline);

#endif
