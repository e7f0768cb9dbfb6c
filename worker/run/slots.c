/* SPDX-License-Identifier: MIT */
/*
 * One lock guards all that slots share. A slot's task is its own from when it
 * works until it is idle again; only an idle slot's task is written by others.
 *
 * Of the idle slots one watches: it waits for the next time at which a queue is
 * due, all others wait without end. Who watches and leaves wakes another.
 */
#include "worker/run/slots.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/run/outage.h"
#include "worker/run/receive.h"

#define OBJECT "worker"

/* While draining, a queue is never asked later than after this. */
#define DRAIN_WAIT_MAX_MS 1000

/* When a queue is asked next. */
struct poll {
    int64_t due_ms;
    int64_t wait_ms; /* 0: the last answer had messages, or there was none */
    bool asked;      /* a slot is asking */
    struct receive_seen seen;
    struct outage outage;
};

enum slot_state { SLOT_IDLE, SLOT_ASKS, SLOT_WORKS };

struct slot {
    struct slots *slots;
    struct platform_thread thread;
    struct arena arena;
    struct messages messages; /* its own */
    struct platform_cond wake;
    enum slot_state state;
    struct task task; /* while it asks: the definition and the queue */
    size_t poll;      /* it asks: index of the queue, */
    unsigned reading; /* of this configuration, */
    size_t asks_for;  /* and how many slots the messages may take */
};

struct slots {
    struct slots_options options;
    struct slot *list;
    size_t count, started;

    struct platform_mutex lock;    /* guards all below, and in each slot */
    struct definition *definition; /* a reference is held */
    unsigned reading;              /* how many there were before */
    struct poll *polls;            /* one for each of its queues */
    struct outage_past past;       /* of the queues */
    size_t turn;                   /* which queue comes first */
    struct slot *watcher;
    size_t reserved; /* idle slots kept for slots_give() */
    bool wanted;     /* slots_reserve() found none */
    bool paused, ending;
};

/* ---- who may take what ---- (lock held) */

static const struct setup *setup_of(const struct slots *slots)
{
    return slots->definition->setup;
}

/* Slots that nobody has or is about to have. */
static size_t free_slots(const struct slots *slots)
{
    size_t taken = slots->reserved;

    for (size_t i = 0; i < slots->count; i++) {
        const struct slot *slot = &slots->list[i];

        if (slot->state == SLOT_WORKS)
            taken++;
        else if (slot->state == SLOT_ASKS)
            taken += slot->asks_for;
    }
    assert(taken <= slots->count);
    return slots->count - taken;
}

/* How many more runs of the queue there may be. By its name: after a reload
 * the runs of before still count. */
static size_t room_of(
    const struct slots *slots, const struct setup_queue *queue)
{
    size_t taken = 0;

    if (queue->slots == 0)
        return slots->count;
    for (size_t i = 0; i < slots->count; i++) {
        const struct slot *slot = &slots->list[i];

        if (slot->state != SLOT_IDLE &&
            strcmp(slot->task.queue->name, queue->name) == 0)
            taken += slot->state == SLOT_ASKS ? slot->asks_for : 1;
    }
    return queue->slots > taken ? queue->slots - taken : 0;
}

/* With several queues one slot is left, to ask the others while this one does
 * not answer; and one that has not answered keeps no slots free for what may
 * never come. */
static size_t messages_to_ask_for(const struct slots *slots, size_t index)
{
    size_t room = room_of(slots, &setup_of(slots)->queues[index]);
    size_t most = free_slots(slots);

    if (most > 1 && setup_of(slots)->queue_count > 1)
        most = slots->polls[index].outage.lasts ? 1 : most - 1;
    if (most > room)
        most = room;
    return most < QUEUE_MAX_GET ? most : QUEUE_MAX_GET;
}

static bool receives(struct slots *slots)
{
    const struct attempt_environment *environment = slots->options.environment;

    return !slots->paused && !slots->ending &&
           !environment->stopping(environment->context) &&
           free_slots(slots) > 0;
}

static void begin_asking(struct slot *slot, size_t index, size_t count)
{
    struct slots *slots = slot->slots;

    slot->state = SLOT_ASKS;
    slot->asks_for = count;
    slot->poll = index;
    slot->reading = slots->reading;
    slot->task = (struct task){.definition = definition_hold(slots->definition),
        .queue = &setup_of(slots)->queues[index]};
    slots->polls[index].asked = true;
    slots->turn = index + 1;
}

/* Is there a queue to ask? Else *ret_due_ms: when there will be one. */
static bool choose_queue(struct slot *slot, int64_t *ret_due_ms)
{
    struct slots *slots = slot->slots;
    size_t queues = setup_of(slots)->queue_count;
    int64_t now_ms = platform_boot_ms();

    *ret_due_ms = PLATFORM_NEVER;
    if (!receives(slots))
        return false;
    for (size_t i = 0; i < queues; i++) {
        size_t index = (slots->turn + i) % queues;
        const struct poll *poll = &slots->polls[index];
        size_t count = messages_to_ask_for(slots, index);

        if (poll->asked || count == 0)
            continue;
        if (poll->due_ms <= now_ms) {
            begin_asking(slot, index, count);
            return true;
        }
        if (poll->due_ms < *ret_due_ms)
            *ret_due_ms = poll->due_ms;
    }
    return false;
}

static struct slot *idle_slot(struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->list[i].state == SLOT_IDLE)
            return &slots->list[i];
    return NULL;
}

/* What is due may be another now: who watches looks again. */
static void wake_watcher(struct slots *slots)
{
    struct slot *slot = slots->watcher ? slots->watcher : idle_slot(slots);

    if (slot)
        platform_wake_all(&slot->wake);
}

static void wait_idle(struct slot *slot, int64_t due_ms)
{
    struct slots *slots = slot->slots;
    bool watches = slots->watcher == NULL;

    if (watches)
        slots->watcher = slot;
    (void)platform_wait(
        &slot->wake, &slots->lock, watches ? due_ms : PLATFORM_NEVER);
    if (watches)
        slots->watcher = NULL;
}

/* A slot is idle again, or its reservation has ended. Unlocks. */
static void unlock_after_end(struct slots *slots, bool changed)
{
    const struct slots_options *options = &slots->options;

    changed = changed || slots->wanted;
    slots->wanted = false;
    wake_watcher(slots);
    platform_unlock(&slots->lock);
    if (changed)
        options->changed(options->context);
}

/* ---- one Get ---- */

/* An empty answer doubles the wait; messages end it. */
static void set_next_poll(
    const struct slots *slots, struct poll *poll, bool empty)
{
    int64_t most_ms = setup_of(slots)->poll_max_ms;

    if (slots->options.drain && most_ms > DRAIN_WAIT_MAX_MS)
        most_ms = DRAIN_WAIT_MAX_MS;
    if (!empty)
        poll->wait_ms = 0;
    else if (poll->wait_ms == 0)
        poll->wait_ms = setup_of(slots)->poll_min_ms;
    else
        poll->wait_ms *= 2;
    if (poll->wait_ms > most_ms)
        poll->wait_ms = most_ms;
    poll->due_ms = platform_boot_ms() + poll->wait_ms;
}

static void log_failing(const struct setup_queue *queue, const struct err *why)
{
    log_error(OBJECT, "queue %s: takes no messages for now: %s", queue->name,
        why->text);
}

/* True: the log is to say so. */
static bool poll_failed(struct poll *poll, const struct err *why)
{
    bool says = outage_failed(&poll->outage, platform_boot_ms(), why);

    poll->wait_ms = 0;
    poll->due_ms = poll->outage.until_ms;
    return says;
}

/* What came of the Get, for the queue's next one. */
static void note_answer(struct slot *slot, const struct receive_seen *seen,
    enum tw_err outcome, const struct err *err)
{
    struct slots *slots = slot->slots;
    struct poll *poll = &slots->polls[slot->poll];
    int64_t lasted_s;

    poll->asked = false;
    poll->seen = *seen;
    if (outcome != TW_OK) {
        if (poll_failed(poll, err))
            log_failing(slot->task.queue, err);
        return;
    }
    lasted_s = outage_ends(&poll->outage, platform_boot_ms());
    outage_note_end(&slots->past, lasted_s);
    if (lasted_s >= 0)
        log_info(OBJECT, "queue %s: takes messages again, after %" PRId64 " s",
            slot->task.queue->name, lasted_s);
    if (seen->queue)
        set_next_poll(slots, poll, slot->messages.count == 0);
    else
        poll->due_ms = platform_boot_ms();
}

/* Lock held; slot is idle, or the one that asked. */
static void put_task(struct slot *slot, const struct task *task)
{
    slot->task = *task;
    slot->task.definition = definition_hold(task->definition);
    slot->task.message.id = arena_copy(&slot->arena, task->message.id);
    slot->task.message.pop_receipt =
        arena_copy(&slot->arena, task->message.pop_receipt);
    slot->task.message.text = arena_copy(&slot->arena, task->message.text);
    slot->task.orphan_id = arena_copy(&slot->arena, task->orphan_id);
    slot->state = SLOT_WORKS;
}

/* The first message is for the slot that asked, the others are for idle ones:
 * so many were kept free. Lock held. */
static void hand_out(struct slot *asked, int64_t sent_ms)
{
    struct slots *slots = asked->slots;
    struct task task = asked->task;

    assert(asked->messages.count <= asked->asks_for);
    task.sent_ms = sent_ms;
    asked->state = SLOT_IDLE;
    asked->asks_for = 0;
    for (size_t i = 0; i < asked->messages.count; i++) {
        struct slot *slot = i == 0 ? asked : idle_slot(slots);

        assert(slot != NULL);
        task.message = asked->messages.list[i];
        put_task(slot, &task);
        if (slot != asked)
            platform_wake_all(&slot->wake);
    }
}

static void ask(struct slot *slot, struct receive_seen seen)
{
    struct slots *slots = slot->slots;
    struct definition *definition = slot->task.definition;
    int64_t sent_ms = 0;
    struct err err = {""};
    enum tw_err outcome = receive_messages(definition, slot->task.queue, &seen,
        (unsigned)slot->asks_for, &slot->messages, &sent_ms, &err);
    bool quiet = outcome == TW_OK && slot->messages.count == 0;

    platform_lock(&slots->lock);
    if (slot->reading == slots->reading)
        note_answer(slot, &seen, outcome, &err);
    hand_out(slot, sent_ms);
    unlock_after_end(slots, !quiet || slots->options.drain);
    definition_drop(definition);
}

/* ---- the threads ---- */

static void work(struct slot *slot)
{
    struct slots *slots = slot->slots;
    const struct slots_options *options = &slots->options;
    struct definition *definition = slot->task.definition;
    struct task_report report;

    task_do(&slot->task, options->environment, &slot->arena, &report);
    arena_clear(&slot->arena);
    platform_lock(&slots->lock);
    slot->state = SLOT_IDLE;
    unlock_after_end(slots, false);
    definition_drop(definition); /* the queue's name was its */
    options->ended(options->context, &report);
}

static void serve(void *arg)
{
    struct slot *slot = arg;
    struct slots *slots = slot->slots;

    platform_lock(&slots->lock);
    while (slot->state == SLOT_WORKS || !slots->ending) {
        int64_t due_ms;

        if (slot->state == SLOT_WORKS) {
            if (slots->watcher == NULL)
                wake_watcher(slots);
            platform_unlock(&slots->lock);
            work(slot);
            platform_lock(&slots->lock);
        } else if (choose_queue(slot, &due_ms)) {
            struct receive_seen seen = slots->polls[slot->poll].seen;

            wake_watcher(slots);
            platform_unlock(&slots->lock);
            ask(slot, seen);
            platform_lock(&slots->lock);
        } else {
            wait_idle(slot, due_ms);
        }
    }
    platform_unlock(&slots->lock);
}

/* ---- all of them ---- */

static void begin_polls(struct slots *slots)
{
    mem_free(slots->polls);
    slots->polls =
        mem_array(setup_of(slots)->queue_count + 1, sizeof(*slots->polls));
    slots->turn = 0;
}

struct slots *slots_new(
    const struct slots_options *options, struct definition *definition)
{
    struct slots *slots = mem_alloc(sizeof(*slots));

    slots->options = *options;
    slots->definition = definition_hold(definition);
    slots->count = (size_t)setup_of(slots)->slots;
    slots->list = mem_array(slots->count, sizeof(*slots->list));
    slots->paused = true;
    platform_mutex_init(&slots->lock);
    begin_polls(slots);
    for (size_t i = 0; i < slots->count; i++) {
        struct slot *slot = &slots->list[i];

        slot->slots = slots;
        arena_init(&slot->arena);
        messages_init(&slot->messages);
        platform_cond_init(&slot->wake);
    }
    return slots;
}

void slots_start(struct slots *slots)
{
    for (; slots->started < slots->count; slots->started++) {
        struct slot *slot = &slots->list[slots->started];

        platform_start(&slot->thread, "slot", serve, slot);
    }
}

void slots_free(struct slots *slots)
{
    if (slots == NULL)
        return;
    platform_lock(&slots->lock);
    slots->ending = true;
    for (size_t i = 0; i < slots->count; i++)
        platform_wake_all(&slots->list[i].wake);
    platform_unlock(&slots->lock);
    for (size_t i = 0; i < slots->started; i++)
        platform_join(&slots->list[i].thread);
    for (size_t i = 0; i < slots->count; i++) {
        arena_done(&slots->list[i].arena);
        messages_done(&slots->list[i].messages);
        platform_cond_done(&slots->list[i].wake);
    }
    definition_drop(slots->definition);
    platform_mutex_done(&slots->lock);
    mem_free(slots->polls);
    mem_free(slots->list);
    mem_free(slots);
}

/* Refused credentials, a right that is missing or a name that is invalid: it
 * would never work. */
static bool is_hopeless(enum tw_err outcome)
{
    return outcome == TW_REFUSED || outcome == TW_FORBIDDEN ||
           outcome == TW_INVALID;
}

enum tw_err slots_see_to_queues(struct slots *slots, struct err *err)
{
    const struct setup *setup = setup_of(slots);

    for (size_t i = 0; i < setup->queue_count; i++) {
        struct poll *poll = &slots->polls[i];
        enum tw_err outcome = receive_create(slots->definition,
            &setup->queues[i], &poll->seen, &slots->list[0].messages, err);

        if (is_hopeless(outcome))
            return outcome;
        if (outcome != TW_OK && poll_failed(poll, err))
            log_failing(&setup->queues[i], err);
    }
    return TW_OK;
}

void slots_pause(struct slots *slots, bool pause)
{
    platform_lock(&slots->lock);
    slots->paused = pause;
    if (!pause)
        wake_watcher(slots);
    platform_unlock(&slots->lock);
}

void slots_use(struct slots *slots, struct definition *definition)
{
    struct definition *former;

    platform_lock(&slots->lock);
    former = slots->definition;
    slots->definition = definition_hold(definition);
    slots->reading++;
    begin_polls(slots);
    wake_watcher(slots);
    platform_unlock(&slots->lock);
    definition_drop(former);
}

/* All queues that respond are polled now; short_waits: the waits begin again
 * with the shortest. */
static void poll_now(struct slots *slots, bool short_waits)
{
    platform_lock(&slots->lock);
    for (size_t i = 0; i < setup_of(slots)->queue_count; i++) {
        struct poll *poll = &slots->polls[i];

        if (poll->outage.lasts)
            continue;
        poll->due_ms = 0;
        if (short_waits)
            poll->wait_ms = 0;
    }
    wake_watcher(slots);
    platform_unlock(&slots->lock);
}

void slots_expect(struct slots *slots)
{
    poll_now(slots, true);
}

void slots_ask_now(struct slots *slots)
{
    poll_now(slots, false);
}

void slots_queue_fails(struct slots *slots, size_t index, const struct err *why)
{
    platform_lock(&slots->lock);
    if (poll_failed(&slots->polls[index], why))
        log_failing(&setup_of(slots)->queues[index], why);
    platform_unlock(&slots->lock);
}

/* ---- giving a task ---- */

bool slots_reserve(struct slots *slots)
{
    bool reserved;

    platform_lock(&slots->lock);
    assert(slots->reserved == 0);
    reserved = free_slots(slots) > 0;
    slots->reserved = reserved;
    slots->wanted = !reserved;
    platform_unlock(&slots->lock);
    return reserved;
}

void slots_release(struct slots *slots)
{
    platform_lock(&slots->lock);
    slots->reserved = 0;
    wake_watcher(slots);
    platform_unlock(&slots->lock);
}

void slots_give(struct slots *slots, const struct task *task)
{
    struct slot *slot;

    platform_lock(&slots->lock);
    assert(slots->reserved > 0);
    slots->reserved = 0;
    slot = idle_slot(slots);
    assert(slot != NULL);
    put_task(slot, task);
    platform_wake_all(&slot->wake);
    platform_unlock(&slots->lock);
}

bool slots_has_room(struct slots *slots, const struct setup_queue *queue)
{
    bool room;

    platform_lock(&slots->lock);
    room = room_of(slots, queue) > 0;
    platform_unlock(&slots->lock);
    return room;
}

/* ---- looking ---- */

void slots_look(struct slots *slots, struct slots_view *ret)
{
    *ret = (struct slots_view){.all_empty = true};
    platform_lock(&slots->lock);
    ret->past = slots->past;
    for (size_t i = 0; i < slots->count; i++) {
        ret->busy += slots->list[i].state == SLOT_WORKS;
        if (slots->list[i].state != SLOT_IDLE)
            ret->all_empty = false;
    }
    for (size_t i = 0; i < setup_of(slots)->queue_count; i++) {
        const struct poll *poll = &slots->polls[i];

        if (poll->wait_ms == 0)
            ret->all_empty = false;
        if (poll->outage.lasts) {
            ret->queues_failing++;
            ret->cause = poll->outage.cause;
        }
    }
    platform_unlock(&slots->lock);
}

bool slots_found_empty(struct slots *slots, const struct setup_queue *queue)
{
    const struct setup *setup;
    bool empty;

    platform_lock(&slots->lock);
    setup = setup_of(slots);
    empty = slots->polls[queue - setup->queues].wait_ms > 0;
    platform_unlock(&slots->lock);
    return empty;
}
