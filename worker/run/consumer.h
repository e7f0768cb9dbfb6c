/* SPDX-License-Identifier: MIT */
/*
 * The service: polls the queues, hands messages to slots, looks for orphans,
 * backs off through outages, stops in order. consumer_run() is the whole of
 * `tableward worker`.
 *
 * Threads: consumer_run() is the consumer and owns all else: slots (slots.h),
 * the renewer (renewer.h), the request pool. consumer_stop() and
 * consumer_reload() may be called from any other thread (they take a lock, so
 * not from a signal handler: wait for signals with sigwait).
 */
#ifndef TW_RUN_CONSUMER_H
#define TW_RUN_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/setup.h"

struct consumer;
struct lock_file;
struct notify;

struct consumer_options {
    struct definition *definition; /* a reference is taken over */
    bool drain;
    struct notify *notify; /* borrowed; NULL: nobody to tell */

    /* of this process; borrowed. NULL: none: nobody sees at once that it has
     * died, and it sees that of nobody */
    struct lock_file *lock_file;

    /*
     * reload: read the configuration again. A new definition (its reference
     * is taken over), or NULL after having logged why it is refused. Called
     * on the consumer's thread. NULL: nothing is ever reloaded.
     */
    struct definition *(*reload)(void *context);
    void *context;
};

struct consumer_result {
    int64_t succeeded, failed, poisoned; /* runs and messages of this worker */
    int64_t left;   /* of a drain: open runs that it did not wait for: held,
                       paused, following */
    bool stopped;   /* consumer_stop() ended it */
    struct err err; /* why the last of them failed */
};

/* consumer_new: nothing is sent yet. Owned; consumer_free after run. */
struct consumer *consumer_new(const struct consumer_options *options);
void consumer_free(struct consumer *consumer);

/*
 * consumer_run: serve until stopped, or (drain) until every served queue holds
 * no message, visible or hidden, and no slot is busy. A drain does not wait for
 * runs that are held, paused or following: it names them.
 *
 * TW_OK       ended as asked; ret says how the runs went.
 * TW_REFUSED  at the start, the store refuses the credentials; err says it.
 * TW_INVALID  no store is named for the worker, or it has no queues.
 * An outage, at the start or later, never ends it: it backs off, says so and
 * stays.
 */
TW_MUST_USE enum tw_err consumer_run(
    struct consumer *consumer, struct consumer_result *ret, struct err *err);

/* consumer_stop: let go of everything in order and come back. */
void consumer_stop(struct consumer *consumer);

/* consumer_reload: call options.reload soon. */
void consumer_reload(struct consumer *consumer);

#endif
