/* SPDX-License-Identifier: MIT */
/*
 * One lock guards all that worker threads share. While a worker thread is busy,
 * only that thread uses its task; other threads write only an idle thread's
 * task.
 *
 * One idle worker thread is the watcher: it waits until the next queue is due;
 * all others wait without a time limit. A watcher that begins to poll or to
 * work wakes another idle thread.
 */
#include "worker/run/worker_threads.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/run/outage.h"
#include "worker/run/receive.h"

#define OBJECT "worker"

/* Longest interval between two polls of a queue during a drain. */
#define DRAIN_WAIT_MAX_MS 1000

/* Longest interval between two polls of a queue while any_waits is true. */
#define ANY_WAITS_MAX_MS 8000

/* Capacity of visible_ms. */
#define VISIBLE_MAX 64

/* When a queue is polled next. */
struct poll {
    int64_t due_ms;
    int64_t wait_ms; /* interval after an empty response; 0 after any other
                        outcome */
    bool asked;      /* a worker thread is polling this queue */
    struct receive_seen seen;
    struct outage outage;
};

enum thread_state { THREAD_IDLE, THREAD_POLLS, THREAD_BUSY };

struct worker_thread {
    struct worker_threads *threads;
    struct platform_thread thread;
    struct arena arena;
    struct messages messages; /* received by this thread */
    struct platform_cond wake;
    enum thread_state state;
    struct task task; /* during a poll only definition and queue are set */
    size_t poll;      /* during a poll: index of the queue */
    unsigned reading; /* during a poll: threads->reading when the poll began */
    size_t asks_for;  /* during a poll: number of messages asked for */
};

struct worker_threads {
    struct worker_threads_options options;
    struct worker_thread *list; /* room for SETUP_SLOTS_MAX threads; the first
                                   `made` exist */
    bool begun;                 /* worker_threads_start() was called */
    size_t started;             /* number of threads that were started */

    struct platform_mutex lock; /* guards all fields below, and the fields of
                                   all worker threads */
    size_t count; /* slots: how many may be busy or poll at once */
    size_t made;  /* threads that exist; more than count after a reload with
                     fewer slots */
    struct definition *definition; /* owns a reference */
    unsigned reading;              /* number of reloads so far */
    struct poll *polls;            /* one for each queue of definition */
    /* The times at which messages that attempts have hidden become visible. At
     * each of these times all queues are polled. */
    int64_t visible_ms[VISIBLE_MAX];
    size_t visible_count;
    /* any_waits: a run may wait until an operator resumes or finishes the run.
     * released: since the begin of the last pass over the open runs, an attempt
     * has released such a run. */
    bool any_waits, released;
    struct outage_past past; /* the outage of a queue that ended last */
    size_t turn;             /* index of the queue to check first */
    struct worker_thread *watcher;
    size_t reserved; /* idle worker threads kept for worker_threads_assign() */
    bool wanted;     /* worker_threads_reserve() found no free thread */
    bool paused, ending;
};

/* ---- what may be polled ---- (lock held) */

static const struct setup *setup_of(const struct worker_threads *threads)
{
    return threads->definition->setup;
}

/* Returns the number of threads that are not busy, not reserved, and not kept
 * for the messages of a poll. */
static size_t free_threads(const struct worker_threads *threads)
{
    size_t taken = threads->reserved;

    for (size_t i = 0; i < threads->made; i++) {
        const struct worker_thread *thread = &threads->list[i];

        if (thread->state == THREAD_BUSY)
            taken++;
        else if (thread->state == THREAD_POLLS)
            taken += thread->asks_for;
    }
    return threads->count > taken ? threads->count - taken : 0;
}

/* Returns how many more runs the queue may have. Queues are compared by name,
 * so that runs that began before a reload count too. */
static size_t room_of(
    const struct worker_threads *threads, const struct setup_queue *queue)
{
    size_t taken = 0;

    if (queue->slots == 0)
        return threads->count;
    for (size_t i = 0; i < threads->made; i++) {
        const struct worker_thread *thread = &threads->list[i];

        if (thread->state != THREAD_IDLE &&
            strcmp(thread->task.queue->name, queue->name) == 0)
            taken += thread->state == THREAD_POLLS ? thread->asks_for : 1;
    }
    return queue->slots > taken ? queue->slots - taken : 0;
}

/* Returns how many messages to ask of the queue. With several queues one worker
 * thread is left free, to poll the other queues if this queue does not respond.
 * A queue with an outage is asked for one message, so that its poll keeps only
 * one thread. */
static size_t messages_to_ask_for(
    const struct worker_threads *threads, size_t index)
{
    size_t room = room_of(threads, &setup_of(threads)->queues[index]);
    size_t most = free_threads(threads);

    if (most > 1 && setup_of(threads)->queue_count > 1)
        most = threads->polls[index].outage.lasts ? 1 : most - 1;
    if (most > room)
        most = room;
    return most < QUEUE_MAX_GET ? most : QUEUE_MAX_GET;
}

static bool receives(struct worker_threads *threads)
{
    const struct attempt_environment *environment =
        threads->options.environment;

    return !threads->paused && !threads->ending &&
           !environment->stopping(environment->context) &&
           free_threads(threads) > 0;
}

static void begin_asking(
    struct worker_thread *thread, size_t index, size_t count)
{
    struct worker_threads *threads = thread->threads;

    thread->state = THREAD_POLLS;
    thread->asks_for = count;
    thread->poll = index;
    thread->reading = threads->reading;
    thread->task =
        (struct task){.definition = definition_hold(threads->definition),
            .queue = &setup_of(threads)->queues[index]};
    threads->polls[index].asked = true;
    threads->turn = index + 1;
}

/* Make all queues without an outage due now. short_waits: true if the interval
 * of each of these queues begins again at poll.min. */
static void make_due(struct worker_threads *threads, bool short_waits)
{
    for (size_t i = 0; i < setup_of(threads)->queue_count; i++) {
        struct poll *poll = &threads->polls[i];

        if (poll->outage.lasts)
            continue;
        poll->due_ms = 0;
        if (short_waits)
            poll->wait_ms = 0;
    }
}

/* Returns the longest interval between two polls of a queue without an outage.
 */
static int64_t longest_wait_ms(const struct worker_threads *threads)
{
    int64_t most_ms = setup_of(threads)->poll_max_ms;

    if (threads->any_waits && most_ms > ANY_WAITS_MAX_MS)
        most_ms = ANY_WAITS_MAX_MS;
    if (threads->options.drain && most_ms > DRAIN_WAIT_MAX_MS)
        most_ms = DRAIN_WAIT_MAX_MS;
    return most_ms;
}

/* Set any_waits. A poll that is due later than any_waits allows becomes due
 * earlier. */
static void set_any_waits(struct worker_threads *threads, bool any_waits)
{
    int64_t until_ms;

    threads->any_waits = any_waits;
    until_ms = platform_boot_ms() + longest_wait_ms(threads);
    for (size_t i = 0; i < setup_of(threads)->queue_count; i++) {
        struct poll *poll = &threads->polls[i];

        if (!poll->outage.lasts && poll->due_ms > until_ms)
            poll->due_ms = until_ms;
    }
}

/* Note that an attempt has released a run that an operator may resume or
 * finish. */
static void note_released(
    struct worker_threads *threads, const struct attempt_result *result)
{
    if (result->end != ATTEMPT_PAUSED &&
        (result->end != ATTEMPT_DEFERRED || result->held))
        return;
    threads->released = true;
    set_any_waits(threads, true);
}

/* Note when the message of a task that was deferred becomes visible. The queue
 * may round the time up, so the queues are polled twice. If the list is full,
 * the usual polling finds the message. */
static void note_hidden(
    struct worker_threads *threads, const struct attempt_result *result)
{
    if (result->end != ATTEMPT_DEFERRED ||
        threads->visible_count + 2 > VISIBLE_MAX)
        return;
    threads->visible_ms[threads->visible_count++] = result->until_ms;
    threads->visible_ms[threads->visible_count++] =
        result->until_ms + HIDE_ROUNDED_MS;
}

/* Make the queues due if a hidden message has become visible. Returns when the
 * next hidden message becomes visible. */
static int64_t expect_messages(struct worker_threads *threads)
{
    int64_t now_ms = platform_boot_ms(), next_ms = PLATFORM_NEVER;
    size_t kept = 0;

    for (size_t i = 0; i < threads->visible_count; i++) {
        int64_t visible_ms = threads->visible_ms[i];

        if (visible_ms > now_ms)
            threads->visible_ms[kept++] = visible_ms;
        if (visible_ms > now_ms && visible_ms < next_ms)
            next_ms = visible_ms;
    }
    if (kept < threads->visible_count)
        make_due(threads, true);
    threads->visible_count = kept;
    return next_ms;
}

/* Chooses a queue that is due. True: `thread` begins to poll this queue. False:
 * no queue is due, and *ret_due_ms is when to check again. */
static bool choose_queue(struct worker_thread *thread, int64_t *ret_due_ms)
{
    struct worker_threads *threads = thread->threads;
    size_t queues = setup_of(threads)->queue_count;
    int64_t now_ms = platform_boot_ms();

    *ret_due_ms = PLATFORM_NEVER;
    if (!receives(threads))
        return false;
    *ret_due_ms = expect_messages(threads);
    for (size_t i = 0; i < queues; i++) {
        size_t index = (threads->turn + i) % queues;
        const struct poll *poll = &threads->polls[index];
        size_t count = messages_to_ask_for(threads, index);

        if (poll->asked || count == 0)
            continue;
        if (poll->due_ms <= now_ms) {
            begin_asking(thread, index, count);
            return true;
        }
        if (poll->due_ms < *ret_due_ms)
            *ret_due_ms = poll->due_ms;
    }
    return false;
}

static struct worker_thread *idle_thread(struct worker_threads *threads)
{
    for (size_t i = 0; i < threads->made; i++)
        if (threads->list[i].state == THREAD_IDLE)
            return &threads->list[i];
    return NULL;
}

/* Call if the next due time may have changed: wakes the watcher, or an idle
 * thread if there is no watcher, to check the queues. */
static void wake_watcher(struct worker_threads *threads)
{
    struct worker_thread *thread =
        threads->watcher ? threads->watcher : idle_thread(threads);

    if (thread)
        platform_wake_all(&thread->wake);
}

static void wait_idle(struct worker_thread *thread, int64_t due_ms)
{
    struct worker_threads *threads = thread->threads;
    bool watches = threads->watcher == NULL;

    if (watches)
        threads->watcher = thread;
    (void)platform_wait(
        &thread->wake, &threads->lock, watches ? due_ms : PLATFORM_NEVER);
    if (watches)
        threads->watcher = NULL;
}

/* Call after a poll or a task, with the lock held. Unlocks. Calls
 * options.changed() if `changed`, or if worker_threads_reserve() had failed. */
static void unlock_after_end(struct worker_threads *threads, bool changed)
{
    const struct worker_threads_options *options = &threads->options;

    changed = changed || threads->wanted;
    threads->wanted = false;
    wake_watcher(threads);
    platform_unlock(&threads->lock);
    if (changed)
        options->changed(options->context);
}

/* ---- one Get ---- */

/* Set when the queue is polled next. An empty response doubles the wait; after
 * a response with messages the queue is polled again at once. */
static void set_next_poll(
    const struct worker_threads *threads, struct poll *poll, bool empty)
{
    int64_t most_ms = longest_wait_ms(threads);

    if (!empty)
        poll->wait_ms = 0;
    else if (poll->wait_ms == 0)
        poll->wait_ms = setup_of(threads)->poll_min_ms;
    else
        poll->wait_ms *= 2;
    if (poll->wait_ms > most_ms)
        poll->wait_ms = most_ms;
    poll->due_ms = platform_boot_ms() + poll->wait_ms;
}

static void log_failing(const struct setup_queue *queue, const struct err *why)
{
    log_error(OBJECT, "queue %s: receives no messages during an outage: %s",
        queue->name, why->text);
}

/* Begin or continue the queue's outage. True: the caller logs the failure
 * now. */
static bool poll_failed(struct poll *poll, const struct err *why)
{
    bool says = outage_failed(&poll->outage, platform_boot_ms(), why);

    poll->wait_ms = 0;
    poll->due_ms = poll->outage.until_ms;
    return says;
}

/* Note the outcome of a Get, and schedule the next poll. */
static void note_answer(struct worker_thread *thread,
    const struct receive_seen *seen, enum tw_err outcome, const struct err *err)
{
    struct worker_threads *threads = thread->threads;
    struct poll *poll = &threads->polls[thread->poll];
    int64_t lasted_s;

    poll->asked = false;
    poll->seen = *seen;
    if (outcome != TW_OK) {
        if (poll_failed(poll, err))
            log_failing(thread->task.queue, err);
        return;
    }
    lasted_s = outage_ends(&poll->outage, platform_boot_ms());
    outage_note_end(&threads->past, lasted_s);
    if (lasted_s >= 0)
        log_info(OBJECT,
            "queue %s: receives messages again, after %" PRId64 " s",
            thread->task.queue->name, lasted_s);
    if (seen->queue)
        set_next_poll(threads, poll, thread->messages.count == 0);
    else
        poll->due_ms = platform_boot_ms();
}

/* Give task to an idle thread. Call with the lock held. */
static void put_task(struct worker_thread *thread, const struct task *task)
{
    thread->task = *task;
    thread->task.definition = definition_hold(task->definition);
    thread->task.message.id = arena_copy(&thread->arena, task->message.id);
    thread->task.message.pop_receipt =
        arena_copy(&thread->arena, task->message.pop_receipt);
    thread->task.message.text = arena_copy(&thread->arena, task->message.text);
    thread->task.orphan_id = arena_copy(&thread->arena, task->orphan_id);
    thread->state = THREAD_BUSY;
}

/* Get messages from the queue that choose_queue() has chosen for thread. The
 * thread keeps the first message. Each other message goes to an idle thread,
 * which was kept free for it. */
static void poll_queue(struct worker_thread *thread, struct receive_seen seen)
{
    struct worker_threads *threads = thread->threads;
    struct task task = thread->task;
    struct err err = {""};
    enum tw_err outcome = receive_messages(task.definition, task.queue, &seen,
        (unsigned)thread->asks_for, &thread->messages, &task.sent_ms, &err);
    size_t count = thread->messages.count;

    platform_lock(&threads->lock);
    if (thread->reading == threads->reading)
        note_answer(thread, &seen, outcome, &err);
    assert(count <= thread->asks_for);
    thread->state = THREAD_IDLE;
    thread->asks_for = 0;
    for (size_t i = 0; i < count; i++) {
        struct worker_thread *receiver = i == 0 ? thread : idle_thread(threads);

        assert(receiver != NULL);
        task.message = thread->messages.list[i];
        put_task(receiver, &task);
        if (receiver != thread)
            platform_wake_all(&receiver->wake);
    }
    unlock_after_end(
        threads, outcome != TW_OK || count > 0 || threads->options.drain);
    definition_drop(task.definition);
}

/* ---- the threads ---- */

static void work(struct worker_thread *thread)
{
    struct worker_threads *threads = thread->threads;
    const struct worker_threads_options *options = &threads->options;
    struct definition *definition = thread->task.definition;
    struct task_report report;

    task_do(&thread->task, options->environment, &thread->arena, &report);
    arena_clear(&thread->arena);
    platform_lock(&threads->lock);
    thread->state = THREAD_IDLE;
    note_hidden(threads, &report.result);
    note_released(threads, &report.result);
    report.former = definition != threads->definition;
    unlock_after_end(threads, false);
    definition_drop(definition); /* owns task.queue */
    options->ended(options->context, &report);
}

static void serve(void *arg)
{
    struct worker_thread *thread = arg;
    struct worker_threads *threads = thread->threads;

    platform_lock(&threads->lock);
    while (thread->state == THREAD_BUSY || !threads->ending) {
        int64_t due_ms;

        if (thread->state == THREAD_BUSY) {
            if (threads->watcher == NULL)
                wake_watcher(threads);
            platform_unlock(&threads->lock);
            work(thread);
            platform_lock(&threads->lock);
        } else if (choose_queue(thread, &due_ms)) {
            struct receive_seen seen = threads->polls[thread->poll].seen;

            wake_watcher(threads);
            platform_unlock(&threads->lock);
            poll_queue(thread, seen);
            platform_lock(&threads->lock);
        } else {
            wait_idle(thread, due_ms);
        }
    }
    platform_unlock(&threads->lock);
}

/* ---- all of them ---- */

static void begin_polls(struct worker_threads *threads)
{
    mem_free(threads->polls);
    threads->polls =
        mem_array(setup_of(threads)->queue_count + 1, sizeof(*threads->polls));
    threads->turn = 0;
}

/* Prepare as many threads as there are slots. Call with the lock held, or
 * before any thread has started. */
static void make_threads(struct worker_threads *threads)
{
    for (; threads->made < threads->count; threads->made++) {
        struct worker_thread *thread = &threads->list[threads->made];

        thread->threads = threads;
        arena_init(&thread->arena);
        messages_init(&thread->messages);
        platform_cond_init(&thread->wake);
    }
}

struct worker_threads *worker_threads_new(
    const struct worker_threads_options *options, struct definition *definition)
{
    struct worker_threads *threads = mem_alloc(sizeof(*threads));

    threads->options = *options;
    threads->definition = definition_hold(definition);
    threads->count = (size_t)setup_of(threads)->slots;
    threads->list = mem_array(SETUP_SLOTS_MAX, sizeof(*threads->list));
    threads->paused = true;
    platform_mutex_init(&threads->lock);
    begin_polls(threads);
    make_threads(threads);
    return threads;
}

void worker_threads_start(struct worker_threads *threads)
{
    threads->begun = true;
    for (; threads->started < threads->made; threads->started++) {
        struct worker_thread *thread = &threads->list[threads->started];

        platform_start(&thread->thread, "worker", serve, thread);
    }
}

void worker_threads_free(struct worker_threads *threads)
{
    if (threads == NULL)
        return;
    platform_lock(&threads->lock);
    threads->ending = true;
    for (size_t i = 0; i < threads->made; i++)
        platform_wake_all(&threads->list[i].wake);
    platform_unlock(&threads->lock);
    for (size_t i = 0; i < threads->started; i++)
        platform_join(&threads->list[i].thread);
    for (size_t i = 0; i < threads->made; i++) {
        arena_done(&threads->list[i].arena);
        messages_done(&threads->list[i].messages);
        platform_cond_done(&threads->list[i].wake);
    }
    definition_drop(threads->definition);
    platform_mutex_done(&threads->lock);
    mem_free(threads->polls);
    mem_free(threads->list);
    mem_free(threads);
}

/* Would a retry never succeed? True for refused credentials, a missing right
 * and an invalid name. */
static bool is_hopeless(enum tw_err outcome)
{
    return outcome == TW_REFUSED || outcome == TW_FORBIDDEN ||
           outcome == TW_INVALID;
}

enum tw_err worker_threads_ensure_queues(
    struct worker_threads *threads, struct err *err)
{
    const struct setup *setup = setup_of(threads);

    for (size_t i = 0; i < setup->queue_count; i++) {
        struct poll *poll = &threads->polls[i];
        enum tw_err outcome = receive_create(threads->definition,
            &setup->queues[i], &poll->seen, &threads->list[0].messages, err);

        if (is_hopeless(outcome))
            return outcome;
        if (outcome != TW_OK)
            worker_threads_queue_fails(threads, i, err);
    }
    return TW_OK;
}

void worker_threads_pause(struct worker_threads *threads, bool pause)
{
    platform_lock(&threads->lock);
    threads->paused = pause;
    if (!pause)
        wake_watcher(threads);
    platform_unlock(&threads->lock);
}

void worker_threads_reload(
    struct worker_threads *threads, struct definition *definition)
{
    struct definition *former;

    platform_lock(&threads->lock);
    former = threads->definition;
    threads->definition = definition_hold(definition);
    threads->reading++;
    threads->count = (size_t)setup_of(threads)->slots;
    make_threads(threads);
    begin_polls(threads);
    wake_watcher(threads);
    platform_unlock(&threads->lock);
    definition_drop(former);
    if (threads->begun)
        worker_threads_start(threads);
}

void worker_threads_poll_now(struct worker_threads *threads)
{
    platform_lock(&threads->lock);
    make_due(threads, false);
    wake_watcher(threads);
    platform_unlock(&threads->lock);
}

void worker_threads_begin_pass(struct worker_threads *threads)
{
    platform_lock(&threads->lock);
    threads->released = false;
    platform_unlock(&threads->lock);
}

void worker_threads_end_pass(struct worker_threads *threads, bool any_waits)
{
    platform_lock(&threads->lock);
    set_any_waits(threads, any_waits || threads->released);
    wake_watcher(threads);
    platform_unlock(&threads->lock);
}

void worker_threads_queue_fails(
    struct worker_threads *threads, size_t index, const struct err *why)
{
    platform_lock(&threads->lock);
    if (poll_failed(&threads->polls[index], why))
        log_failing(&setup_of(threads)->queues[index], why);
    platform_unlock(&threads->lock);
}

/* ---- assigning a task ---- */

bool worker_threads_reserve(struct worker_threads *threads)
{
    bool reserved;

    platform_lock(&threads->lock);
    assert(threads->reserved == 0);
    reserved = free_threads(threads) > 0;
    threads->reserved = reserved;
    threads->wanted = !reserved;
    platform_unlock(&threads->lock);
    return reserved;
}

void worker_threads_release(struct worker_threads *threads)
{
    platform_lock(&threads->lock);
    threads->reserved = 0;
    wake_watcher(threads);
    platform_unlock(&threads->lock);
}

void worker_threads_assign(
    struct worker_threads *threads, const struct task *task)
{
    struct worker_thread *thread;

    platform_lock(&threads->lock);
    assert(threads->reserved > 0);
    threads->reserved = 0;
    thread = idle_thread(threads);
    assert(thread != NULL);
    put_task(thread, task);
    platform_wake_all(&thread->wake);
    platform_unlock(&threads->lock);
}

bool worker_threads_has_room(
    struct worker_threads *threads, const struct setup_queue *queue)
{
    bool room;

    platform_lock(&threads->lock);
    room = room_of(threads, queue) > 0;
    platform_unlock(&threads->lock);
    return room;
}

/* ---- state ---- */

void worker_threads_read_view(
    struct worker_threads *threads, struct worker_threads_view *ret)
{
    *ret = (struct worker_threads_view){.all_empty = true};
    platform_lock(&threads->lock);
    (void)expect_messages(threads);
    ret->past = threads->past;
    for (size_t i = 0; i < threads->made; i++) {
        ret->busy += threads->list[i].state == THREAD_BUSY;
        if (threads->list[i].state != THREAD_IDLE)
            ret->all_empty = false;
    }
    for (size_t i = 0; i < setup_of(threads)->queue_count; i++) {
        const struct poll *poll = &threads->polls[i];

        if (poll->wait_ms == 0)
            ret->all_empty = false;
        if (poll->outage.lasts) {
            ret->queues_failing++;
            ret->cause = poll->outage.cause;
        }
    }
    platform_unlock(&threads->lock);
}

bool worker_threads_found_empty(
    struct worker_threads *threads, const struct setup_queue *queue)
{
    const struct setup *setup;
    bool empty;

    platform_lock(&threads->lock);
    (void)expect_messages(threads);
    setup = setup_of(threads);
    empty = threads->polls[queue - setup->queues].wait_ms > 0;
    platform_unlock(&threads->lock);
    return empty;
}

bool worker_threads_queue_is_failing(
    struct worker_threads *threads, const char *queue)
{
    bool fails = false;

    platform_lock(&threads->lock);
    for (size_t i = 0; i < setup_of(threads)->queue_count; i++)
        if (strcmp(setup_of(threads)->queues[i].name, queue) == 0)
            fails = threads->polls[i].outage.lasts;
    platform_unlock(&threads->lock);
    return fails;
}
