/* SPDX-License-Identifier: MIT */
/*
 * Slots: a fixed number of threads, each a place for one run. Idle slots take
 * turns: one receives messages, as many as slots are idle (32 at most), keeps
 * the first and hands on the others. Then another slot waits for the next time
 * at which a queue is due. So no thread is between a queue and the work, and a
 * queue that does not answer costs the slot that asked, and no other queue.
 *
 * A queue that cannot be read or created is asked again after 1 s, doubling to
 * 10 s. An empty answer doubles the wait, from poll.min to poll.max. A queue
 * has at most as many runs at once as its `slots:` say.
 */
#ifndef TW_RUN_SLOTS_H
#define TW_RUN_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/attempt.h"
#include "worker/run/outage.h"
#include "worker/run/setup.h"
#include "worker/run/task.h"

struct slots;

struct slots_options {
    const struct attempt_environment *environment; /* borrowed */
    bool drain; /* no queue waits longer than a second for its next Get */

    /* ended: a task has ended, and its slot is idle. changed: look again, at
     * slots_look() or slots_reserve(). Both on a slot's thread, no lock held.
     */
    void (*ended)(void *context, const struct task_report *report);
    void (*changed)(void *context);
    void *context;
};

/*
 * slots_new: as many slots as definition's setup has, and no thread yet; they
 * pause. A reference to definition is taken. Owned.
 */
struct slots *slots_new(
    const struct slots_options *options, struct definition *definition);

/* slots_free: receives no more, waits for all tasks, then ends the threads. */
void slots_free(struct slots *slots);

/*
 * slots_see_to_queues: before slots_start(): create the queues that are
 * missing, on this thread. An outage of one is left to its next turn. Else, of
 * the first that can never work: TW_REFUSED, TW_FORBIDDEN, TW_INVALID.
 */
TW_MUST_USE enum tw_err slots_see_to_queues(
    struct slots *slots, struct err *err);

void slots_start(struct slots *slots);

/* slots_pause: receive nothing (true), or again (false). Tasks go on. */
void slots_pause(struct slots *slots, bool pause);

/* slots_use: a new configuration: serve its queues from now on. A reference is
 * taken. The number of slots stays. */
void slots_use(struct slots *slots, struct definition *definition);

/* slots_expect: hidden messages come back about now: ask every queue that
 * answers, and begin the waits anew. */
void slots_expect(struct slots *slots);

/* slots_ask_now: a message may have come: no queue waits for its next turn. An
 * empty answer makes that wait longer all the same. Any thread. */
void slots_ask_now(struct slots *slots);

/* slots_queue_fails: a request of somebody else about the index-th queue has
 * failed: it is asked again later. */
void slots_queue_fails(
    struct slots *slots, size_t index, const struct err *why);

/* ---- giving a task ---- */

/* slots_reserve: keep one idle slot for slots_give(). False: none is idle;
 * changed() will be called when one is. One reservation at a time. */
bool slots_reserve(struct slots *slots);
void slots_release(struct slots *slots);

/* slots_give: to the slot that was reserved. Its texts are copied, a reference
 * to its definition is taken. */
void slots_give(struct slots *slots, const struct task *task);

/* slots_has_room: has this queue fewer runs at work than it may have? */
bool slots_has_room(struct slots *slots, const struct setup_queue *queue);

/* ---- looking ---- */

struct slots_view {
    size_t busy;             /* slots at work */
    size_t queues_failing;   /* queues that cannot be served now, */
    struct err cause;        /* and why the last of them cannot */
    struct outage_past past; /* of the queues */
    bool all_empty; /* every queue's last answer was empty, none is being
                       asked, and none is at work */
};
void slots_look(struct slots *slots, struct slots_view *ret);

/* slots_found_empty: was the queue's last answer empty? */
bool slots_found_empty(struct slots *slots, const struct setup_queue *queue);

#endif
