/* SPDX-License-Identifier: MIT */
/*
 * Worker threads: their number is `slots:`, and each makes one attempt at a
 * time. The idle threads take turns. One of them receives messages, at most as
 * many as threads are idle and at most 32. It keeps the first message and hands
 * the others to idle threads. Then another idle thread waits until the next
 * queue is due. So a message changes threads at most once, and a queue that
 * does not respond occupies one thread and delays no other queue.
 *
 * A queue that cannot be read or created is polled again after 1 s, doubling to
 * 10 s. An empty response doubles the interval, from poll.min up to poll.max.
 * While there is a waiting run that an operator may resume or finish, the
 * interval is 8 s at most. When a message that an attempt has hidden becomes
 * visible, every queue without an outage is polled at once, and its interval
 * begins again at poll.min. `slots:` of a queue limits the queue's concurrent
 * runs.
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
    bool drain; /* poll each queue at least once a second, except during an
                   outage of this queue */

    /* ended() is called when a task has ended and its worker thread is idle
     * again; changed() is called when the result of worker_threads_read_view()
     * or worker_threads_reserve() may have changed. Both are called on a worker
     * thread that holds no lock. */
    void (*ended)(void *context, const struct task_report *report);
    void (*changed)(void *context);
    void *context;
};

/*
 * worker_threads_new: prepare as many worker threads as definition's `slots:`.
 * They are not started yet, and paused. Takes a reference to definition. Owned.
 */
struct worker_threads *worker_threads_new(
    const struct worker_threads_options *options,
    struct definition *definition);

/* worker_threads_free: stop receiving, wait until all tasks have ended, then
 * end the threads. */
void worker_threads_free(struct worker_threads *threads);

/*
 * worker_threads_ensure_queues: call before worker_threads_start(). Creates the
 * missing queues, on the calling thread. A queue with an outage is retried at
 * its next poll. TW_REFUSED, TW_FORBIDDEN, TW_INVALID: a queue can never be
 * used; err has the cause, and the queues after it are not created.
 */
TW_MUST_USE enum tw_err worker_threads_ensure_queues(
    struct worker_threads *threads, struct err *err);

void worker_threads_start(struct worker_threads *threads);

/* worker_threads_pause: stop receiving (true) or resume it (false). Running
 * tasks continue. */
void worker_threads_pause(struct worker_threads *threads, bool pause);

/* worker_threads_reload: serve the queues of a new configuration from now on.
 * Takes a reference to definition. If there are more slots, further threads
 * start. If there are fewer, running tasks continue, and no further task is
 * taken until enough of them have ended. Call on the thread that called
 * worker_threads_start(). */
void worker_threads_reload(
    struct worker_threads *threads, struct definition *definition);

/* worker_threads_poll_now: call when a queue may have a new message. Polls
 * every queue without an outage now. An empty response still doubles the
 * queue's interval. Any thread. */
void worker_threads_poll_now(struct worker_threads *threads);

/*
 * worker_threads_begin_pass, worker_threads_end_pass: call at the beginning and
 * at the end of a pass over all open runs. any_waits: the pass found a run that
 * waits until an operator resumes or finishes the run. If any_waits is true, or
 * an attempt has released such a run since the pass began, queues are polled at
 * least every 8 s until the end of the next pass. So the message of `resume` or
 * `finish` is received within 10 s. Any thread.
 */
void worker_threads_begin_pass(struct worker_threads *threads);
void worker_threads_end_pass(struct worker_threads *threads, bool any_waits);

/* worker_threads_queue_fails: call when a request that the caller made to the
 * index-th queue has failed with the error `why`. The queue is polled again
 * after a backoff. */
void worker_threads_queue_fails(
    struct worker_threads *threads, size_t index, const struct err *why);

/* ---- assigning a task ---- */

/* worker_threads_reserve: keep one idle worker thread for
 * worker_threads_assign(). False: no thread is free; options.changed() is
 * called when a thread may be free. At most one reservation at a time.
 * worker_threads_release: end the reservation without a task. */
bool worker_threads_reserve(struct worker_threads *threads);
void worker_threads_release(struct worker_threads *threads);

/* worker_threads_assign: give task to the reserved worker thread. Copies the
 * task's texts and takes a reference to the task's definition. */
void worker_threads_assign(
    struct worker_threads *threads, const struct task *task);

/* worker_threads_has_room: does the queue have fewer runs than `slots:` allows?
 */
bool worker_threads_has_room(
    struct worker_threads *threads, const struct setup_queue *queue);

/* ---- state ---- */

struct worker_threads_view {
    size_t busy;           /* worker threads with a task */
    size_t queues_failing; /* queues that have an outage now */
    struct err cause; /* the error of a queue that has an outage; of several,
                         the last one in the configuration */
    struct outage_past past; /* the outage of a queue that ended last */
    bool all_empty; /* the last response of every queue was empty, and every
                       worker thread is idle */
};
void worker_threads_read_view(
    struct worker_threads *threads, struct worker_threads_view *ret);

/* worker_threads_found_empty: was the queue's last response empty? */
bool worker_threads_found_empty(
    struct worker_threads *threads, const struct setup_queue *queue);

/* worker_threads_queue_is_failing: does the served queue of this name have an
 * outage? */
bool worker_threads_queue_is_failing(
    struct worker_threads *threads, const char *queue);

#endif
