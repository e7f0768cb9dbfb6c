/* SPDX-License-Identifier: MIT */
/*
 * The consumer of `tableward worker`: starts the worker threads that poll the
 * queues, searches for orphans (orphans.h), backs off during outages, and
 * releases all leases before it stops.
 *
 * Threads: consumer_run() is the consumer's thread. It owns the worker threads
 * (worker_threads.h), the renewer (renewer.h) and the request pool. Any other
 * thread may call consumer_stop() and consumer_reload(), but no signal handler
 * may, because they take a lock; wait for signals with sigwait.
 */
#ifndef TW_RUN_CONSUMER_H
#define TW_RUN_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/outage.h"
#include "worker/run/setup.h"
#include "worker/run/worker_threads.h"

struct activity;
struct consumer;
struct lock_file;
struct notify;
struct store;

struct consumer_options {
    struct definition *definition; /* takes over one reference */
    bool drain;
    struct notify *notify; /* borrowed; NULL: no notifications */

    /* lock file of this process; borrowed. NULL: none. Then a crash of this
     * worker, or of another worker of this host, is noticed only when the
     * leases of the crashed worker expire */
    struct lock_file *lock_file;

    struct activity *activity; /* counts the runs; borrowed. NULL: none */

    /* Maximum time between two turns of the loop. The time of the last turn is
     * progress_ms of consumer_read_view(). 0: no maximum; the loop waits until
     * a step is due. */
    int64_t heartbeat_ms;

    /*
     * reload: read the configuration again. Returns a new definition (the
     * consumer takes over its reference), or NULL after logging why the
     * configuration is refused. Called on the consumer's thread. If reload is
     * NULL, the configuration is never reloaded.
     * reloaded: called after each reload(), on the same thread. accepted: the
     * definition that the consumer will use from now on. NULL: the new
     * definition was refused, by reload() or by the consumer, and the reason
     * was logged. reloaded may be NULL.
     */
    struct definition *(*reload)(void *context);
    void (*reloaded)(void *context, const struct definition *accepted);
    void *context;
};

struct consumer_result {
    int64_t succeeded, failed, poisoned; /* numbers of this worker's runs and
                                            messages that ended in these
                                            states */
    int64_t left;   /* open runs that a drain did not wait for (drain.h) */
    bool stopped;   /* consumer_stop() ended consumer_run() */
    struct err err; /* reason of the last failed or poisoned run or message */
};

/* consumer_new: create a consumer; sends no request. Owned. Call
 * consumer_free() after consumer_run() has returned. */
struct consumer *consumer_new(const struct consumer_options *options);
void consumer_free(struct consumer *consumer);

/*
 * consumer_run: serve until stopped. A drain also ends when no worker thread is
 * busy and every served queue is empty, except for hidden messages of runs that
 * it does not wait for (drain.h). The log names these runs.
 *
 * TW_OK         stopped or drained; ret has the counts of the runs.
 * TW_REFUSED    at the start, the store refuses the credentials; see err.
 * TW_FORBIDDEN  at the start, a right to the ledger or a queue is missing.
 * TW_INVALID    the worker has no store, its store has no queues, or a name is
 *               invalid.
 * An outage, at the start or later, does not end consumer_run(): the consumer
 * logs the outage, backs off and retries.
 */
TW_MUST_USE enum tw_err consumer_run(
    struct consumer *consumer, struct consumer_result *ret, struct err *err);

/* consumer_stop: make consumer_run() return as soon as all attempts have
 * released their leases. Does not wait. */
void consumer_stop(struct consumer *consumer);

/* consumer_reload: make the consumer's thread call options.reload soon. */
void consumer_reload(struct consumer *consumer);

/* ---- what others may see ---- Any thread may call these functions, from
 * consumer_new() to consumer_free(); they send no request. */

enum consumer_stage {
    CONSUMER_STARTS, /* until the first turn of the loop is over */
    CONSUMER_SERVES,
    CONSUMER_STOPS, /* consumer_stop() was called, or the drain is over */
};

struct consumer_view {
    enum consumer_stage stage;
    int64_t progress_ms;     /* boot clock: when the loop last began a turn; the
                                service manager's watchdog is notified then */
    bool outage;             /* the ledger has an outage: no messages are
                                received */
    int64_t outage_since_ms; /* boot clock; valid during an outage */
    struct err cause;        /* cause of the outage; "" if there is none */
    struct outage_past past; /* the last outage that is over, of the ledger or
                                of a queue */
    size_t slots;
    struct worker_threads_view threads; /* state of the worker threads; all zero
                                           while there are none */
};
void consumer_read_view(struct consumer *consumer, struct consumer_view *ret);

/* consumer_definition: return the newest definition. The caller gets a
 * reference of its own, for definition_drop(). */
struct definition *consumer_definition(struct consumer *consumer);

/* consumer_queue_fails: does the served queue of this name have an outage? */
bool consumer_queue_fails(struct consumer *consumer, const char *queue);

/* consumer_is_away: does the store not respond, or refuse the credentials? */
bool consumer_is_away(struct consumer *consumer, const struct store *store);

/* consumer_rate: return the limit, in entities a second, that the service has
 * shown by throttling (429, 503). This is the limit of the store's account or,
 * if of_partition is true, of the partition that was throttled last. < 0: no
 * limit is known. */
double consumer_rate(
    struct consumer *consumer, const struct store *store, bool of_partition);

#endif
