/* SPDX-License-Identifier: MIT */
/*
 * Worker threads: a fixed number (`slots:`), each runs one attempt at a time.
 * The idle ones take turns: one receives messages, as many as threads are idle
 * (32 at most), keeps the first and hands on the others; then another one waits
 * for the next time at which a queue is due. So a message changes threads at
 * most once, and a queue that does not respond costs the thread that asked it,
 * and no other queue.
 *
 * A queue that cannot be read or created is polled again after 1 s, doubling to
 * 10 s. An empty response doubles the interval, from poll.min to poll.max. A
 * queue has at most as many runs at once as its `slots:` say.
 */
#ifndef TW_RUN_WORKER_THREADS_H
#define TW_RUN_WORKER_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/attempt.h"
#include "worker/run/outage.h"
#include "worker/run/setup.h"
#include "worker/run/task.h"

struct worker_threads;

struct worker_threads_options {
    const struct attempt_environment *environment; /* borrowed */
    bool drain; /* no queue waits longer than a second for its next Get */

    /* ended: a task has ended, and its worker thread is idle. changed: look
     * again, at worker_threads_look() or worker_threads_reserve(). Both on a
     * slot's thread, no lock held.
     */
    void (*ended)(void *context, const struct task_report *report);
    void (*changed)(void *context);
    void *context;
};

/*
 * worker_threads_new: as many worker threads as definition's setup has, and no
 * thread yet; they pause. A reference to definition is taken. Owned.
 */
struct worker_threads *worker_threads_new(
    const struct worker_threads_options *options,
    struct definition *definition);

/* worker_threads_free: receives no more, waits for all tasks, then ends the
 * threads. */
void worker_threads_free(struct worker_threads *threads);

/*
 * worker_threads_ensure_queues: before worker_threads_start(): create the
 * queues that are missing, on this thread. An outage of one is left to its next
 * turn. Else, of the first that can never work: TW_REFUSED, TW_FORBIDDEN,
 * TW_INVALID.
 */
TW_MUST_USE enum tw_err worker_threads_ensure_queues(
    struct worker_threads *threads, struct err *err);

void worker_threads_start(struct worker_threads *threads);

/* worker_threads_pause: receive nothing (true), or again (false). Tasks go on.
 */
void worker_threads_pause(struct worker_threads *threads, bool pause);

/* worker_threads_reload: a new configuration: serve its queues from now on. A
 * reference is taken. The number of worker threads stays. */
void worker_threads_reload(
    struct worker_threads *threads, struct definition *definition);

/* worker_threads_reset_poll_backoff: hidden messages come back about now: ask
 * every queue that answers, and begin the waits anew. */
void worker_threads_reset_poll_backoff(struct worker_threads *threads);

/* worker_threads_poll_now: a message may have come: no queue waits for its next
 * turn. An empty answer makes that wait longer all the same. Any thread. */
void worker_threads_poll_now(struct worker_threads *threads);

/* worker_threads_queue_fails: a request of somebody else about the index-th
 * queue has failed: it is asked again later. */
void worker_threads_queue_fails(
    struct worker_threads *threads, size_t index, const struct err *why);

/* ---- giving a task ---- */

/* worker_threads_reserve: keep one idle worker thread for
 * worker_threads_assign(). False: none is idle; changed() will be called when
 * one is. One reservation at a time. */
bool worker_threads_reserve(struct worker_threads *threads);
void worker_threads_release(struct worker_threads *threads);

/* worker_threads_assign: to the worker thread that was reserved. Its texts are
 * copied, a reference to its definition is taken. */
void worker_threads_assign(
    struct worker_threads *threads, const struct task *task);

/* worker_threads_has_room: has this queue fewer runs at work than it may have?
 */
bool worker_threads_has_room(
    struct worker_threads *threads, const struct setup_queue *queue);

/* ---- looking ---- */

struct worker_threads_view {
    size_t busy;             /* worker threads at work */
    size_t queues_failing;   /* queues that cannot be served now, */
    struct err cause;        /* and why the last of them cannot */
    struct outage_past past; /* of the queues */
    bool all_empty; /* every queue's last answer was empty, none is being
                       asked, and none is at work */
};
void worker_threads_look(
    struct worker_threads *threads, struct worker_threads_view *ret);

/* worker_threads_found_empty: was the queue's last answer empty? */
bool worker_threads_found_empty(
    struct worker_threads *threads, const struct setup_queue *queue);

#endif
