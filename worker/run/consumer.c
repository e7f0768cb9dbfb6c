/* SPDX-License-Identifier: MIT */
/*
 * The consumer's thread runs a loop of short steps: tell the watchdog, reload
 * if asked, prepare what is missing, poll the queues that are due, look for
 * orphans, see whether a drain is over, wait for the next thing due. Slots
 * report back under `lock` and wake it.
 *
 * Isolation. A queue that cannot be read or created delays only itself (1 s,
 * doubling to 10 s). A run whose store or archive is the cause is held
 * (work.h): no other run notices. Only where the ledger itself cannot be read
 * or written no messages are taken, until a request to it succeeds. The log
 * reports each of these when it begins, the present cause once a minute, and at
 * its end how long it lasted.
 */
#include "worker/run/consumer.h"

#include <assert.h>

#include <inttypes.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/run/drain.h"
#include "worker/run/ledger.h"
#include "worker/run/notify.h"
#include "worker/run/orphans.h"
#include "worker/run/prune.h"
#include "worker/run/renewer.h"
#include "worker/run/slots.h"
#include "worker/store/lanes.h"
#include "worker/store/store.h"

#define OUTAGE_MIN_MS 1000
#define OUTAGE_MAX_MS 10000
#define ORPHANS_EVERY_MS INT64_C(600000)
/* Names of runs that a drain leaves: as many as fit. */
#define LEFT_NAMES_BYTES 2000
#define PRUNE_EVERY_MS INT64_C(3600000)

/* A drain looks at the open runs of hidden messages at once, then after 1 s,
 * and each time after twice as long. */
#define LEFT_FIRST_MS 1000
#define LEFT_MOST_MS 8000
/* While draining, an idle look is never further away than this. */
#define DRAIN_POLL_MAX_MS 1000

/* How many moments at which hidden messages come back are remembered. */
#define LATER_MAX 64

/* Messages are hidden for whole seconds, rounded up. */
#define HIDE_ROUNDED_MS 1050

/* The log repeats the present cause of what lasts so often. */
#define REPEAT_MS 60000

/* When a queue is asked next. */
struct poll {
    int64_t due_ms;
    int64_t wait_ms; /* 0: the last answer had messages, or there was none */
    bool created;    /* the queue is there, and the poison queue */
    bool poison_created;
    int64_t failing_since_ms; /* 0: its last request succeeded */
    int64_t failing_wait_ms;  /* to the next request */
    int64_t repeat_ms;        /* when the log repeats the cause */
    struct err cause;
};

struct consumer {
    struct consumer_options options;
    struct definition *definition; /* the newest; a reference is held */
    struct lanes *lanes;
    struct renewer *renewer;
    struct slots *slots;
    struct fence fence; /* for timeouts only: no lease bounds the consumer */
    struct work_place place;

    struct poll *polls;    /* one for each of the definition's queues */
    size_t turn;           /* which queue comes first */
    int64_t next_later_ms; /* a run that waits is to go on then */
    bool prepared;         /* the ledger is there */
    bool ready;            /* the manager has been told */
    struct messages messages;
    struct orphans orphans;
    int64_t orphans_due_ms;
    struct prune prune;
    int64_t prune_due_ms;
    int64_t left_due_ms; /* the next look at what is left, while messages are */
    int64_t left_wait_ms; /* from one such look to the next */
    size_t shown_busy;    /* in the last status */

    bool outage; /* of the ledger */
    int64_t outage_wait_ms, outage_until_ms, outage_since_ms, outage_repeat_ms;
    size_t shown_failing;   /* queues, in the last status */
    int64_t held_repeat_ms; /* when the log may tell of held runs again */

    struct world_mutex lock; /* guards all below */
    struct world_cond changed;
    bool stopping, reloading;
    uint64_t reports;            /* of slots, so far */
    int64_t later_ms[LATER_MAX]; /* when runs that wait are to go on */
    size_t later_count;
    bool work_failed; /* a slot could not use the ledger since the last look */
    struct err work_err;
    uint64_t held; /* runs that were held, since the log told of them */
    struct err held_err;
    struct consumer_result result;
};

#define OBJECT "worker"

/* ---- what other threads say ---- */

static bool is_stopping(void *context)
{
    struct consumer *consumer = context;
    bool stopping;

    world_lock(&consumer->lock);
    stopping = consumer->stopping;
    world_unlock(&consumer->lock);
    return stopping;
}

/* Lock held. */
static void count_end(
    struct consumer_result *result, const struct slots_report *report)
{
    if (report->result.end != WORK_ENDED || report->result.already)
        return;
    if (report->result.state == LEDGER_SUCCEEDED)
        result->succeeded++;
    if (report->result.state == LEDGER_FAILED)
        result->failed++;
    if (report->result.state == LEDGER_POISONED)
        result->poisoned++;
    if (report->result.state == LEDGER_FAILED ||
        report->result.state == LEDGER_POISONED)
        result->err = report->result.err;
}

/* Lock held. A moment that finds no room is left to the usual polling. */
static void remember_later(struct consumer *consumer, int64_t until_ms)
{
    if (consumer->later_count < LATER_MAX)
        consumer->later_ms[consumer->later_count++] = until_ms;
}

static void take_report(void *context, const struct slots_report *report)
{
    struct consumer *consumer = context;

    world_lock(&consumer->lock);
    consumer->reports++;
    count_end(&consumer->result, report);
    if (report->result.end == WORK_LATER) {
        remember_later(consumer, report->result.until_ms);
        remember_later(consumer, report->result.until_ms + HIDE_ROUNDED_MS);
    }
    if (report->result.end == WORK_OUTAGE) {
        consumer->work_failed = true;
        consumer->work_err = report->result.err;
    }
    if (report->result.end == WORK_LATER && report->result.for_cause) {
        consumer->held++;
        consumer->held_err = report->result.err;
    }
    world_wake_all(&consumer->changed);
    world_unlock(&consumer->lock);
}

void consumer_stop(struct consumer *consumer)
{
    world_lock(&consumer->lock);
    consumer->stopping = true;
    world_wake_all(&consumer->changed);
    world_unlock(&consumer->lock);
}

void consumer_reload(struct consumer *consumer)
{
    world_lock(&consumer->lock);
    consumer->reloading = true;
    world_wake_all(&consumer->changed);
    world_unlock(&consumer->lock);
}

/* ---- outages ---- */

static int64_t seconds_since(int64_t since_ms)
{
    return (world_boot_ms() - since_ms) / 1000;
}

static int64_t longer(int64_t wait_ms)
{
    if (wait_ms == 0)
        return OUTAGE_MIN_MS;
    return wait_ms < OUTAGE_MAX_MS / 2 ? 2 * wait_ms : OUTAGE_MAX_MS;
}

static void outage_begins(struct consumer *consumer, const char *why)
{
    int64_t now_ms = world_boot_ms();

    if (!consumer->outage) {
        consumer->outage_since_ms = now_ms;
        consumer->outage_wait_ms = consumer->outage_repeat_ms = 0;
    }
    if (now_ms >= consumer->outage_repeat_ms) {
        log_error(OBJECT, "takes no messages for now: %s", why);
        notify_status(
            consumer->options.notify, "takes no messages for now: %s", why);
        consumer->outage_repeat_ms = now_ms + REPEAT_MS;
    }
    consumer->outage = true;
    consumer->prepared = false;
    consumer->outage_wait_ms = longer(consumer->outage_wait_ms);
    consumer->outage_until_ms = now_ms + consumer->outage_wait_ms;
}

static void outage_ends(struct consumer *consumer)
{
    if (!consumer->outage)
        return;
    consumer->outage = false;
    consumer->shown_busy = SIZE_MAX;
    log_info(OBJECT, "takes messages again, after %" PRId64 " s",
        seconds_since(consumer->outage_since_ms));
}

/* A request about the queue has failed: the others are not affected. */
static void queue_fails(
    struct consumer *consumer, struct poll *poll, const struct err *why)
{
    const struct setup *setup = consumer->definition->setup;
    int64_t now_ms = world_boot_ms();

    if (poll->failing_since_ms == 0) {
        poll->failing_since_ms = now_ms;
        poll->failing_wait_ms = poll->repeat_ms = 0;
    }
    poll->cause = *why;
    if (now_ms >= poll->repeat_ms) {
        log_error(OBJECT, "queue %s: takes no messages for now: %s",
            setup->queues[poll - consumer->polls].name, why->text);
        poll->repeat_ms = now_ms + REPEAT_MS;
    }
    poll->failing_wait_ms = longer(poll->failing_wait_ms);
    poll->wait_ms = 0;
    poll->due_ms = now_ms + poll->failing_wait_ms;
}

static void queue_works(struct consumer *consumer, struct poll *poll)
{
    if (poll->failing_since_ms == 0)
        return;
    log_info(OBJECT, "queue %s: takes messages again, after %" PRId64 " s",
        consumer->definition->setup->queues[poll - consumer->polls].name,
        seconds_since(poll->failing_since_ms));
    poll->failing_since_ms = 0;
}

/* What the slots have met since the last look. */
static void heed_reports(struct consumer *consumer)
{
    int64_t now_ms = world_boot_ms();
    uint64_t held = 0;
    bool failed;
    struct err err, held_err;

    world_lock(&consumer->lock);
    failed = consumer->work_failed;
    err = consumer->work_err;
    consumer->work_failed = false;
    if (consumer->held > 0 && now_ms >= consumer->held_repeat_ms) {
        held = consumer->held;
        held_err = consumer->held_err;
        consumer->held = 0;
        consumer->held_repeat_ms = now_ms + REPEAT_MS;
    }
    world_unlock(&consumer->lock);
    if (failed)
        outage_begins(consumer, err.text);
    if (held > 0)
        log_warn(OBJECT, "%" PRIu64 " run%s held or waiting; last cause: %s",
            held, held == 1 ? "" : "s", held_err.text);
}

/* ---- preparing ---- */

static struct attempt own_attempt(struct consumer *consumer)
{
    return (struct attempt){.fence = &consumer->fence, .retry_after_ms = -1};
}

/* Rights may allow to use a queue and not to create one. */
static enum tw_err queue_usable(
    struct consumer *consumer, struct attempt *attempt, const char *queue)
{
    struct store *store = definition_store(consumer->definition);
    struct attempt look = own_attempt(consumer);
    enum tw_err outcome = store_queue_create(store, attempt, queue);

    if (outcome != TW_FORBIDDEN)
        return outcome;
    if (store_queue_peek(store, &look, queue, 1, &consumer->messages) == TW_OK)
        return TW_OK;
    return outcome;
}

static enum tw_err ledger_usable(
    struct consumer *consumer, struct attempt *attempt)
{
    struct store *store = definition_store(consumer->definition);
    struct attempt look = own_attempt(consumer);
    struct page page;
    enum tw_err outcome = ledger_create(store, attempt);

    if (outcome != TW_FORBIDDEN)
        return outcome;
    page_init(&page);
    if (ledger_scan_index(store, &look,
            &(struct ledger_index_scan){.job = slice_of(LEDGER_UNREADABLE)},
            (struct continuation){0}, &page) == TW_OK)
        outcome = TW_OK;
    page_done(&page);
    return outcome;
}

/* The poison queue may be out of our rights until it is needed. */
static enum tw_err poison_queue_usable(struct consumer *consumer,
    struct attempt *attempt, const char *poison_queue)
{
    enum tw_err outcome = queue_usable(consumer, attempt, poison_queue);

    if (outcome != TW_FORBIDDEN)
        return outcome;
    log_warn(OBJECT, "cannot see to poison queue %s: %s", poison_queue,
        attempt->err.text);
    return TW_OK;
}

/* The queue, then its poison queue; goes on where it failed the last time. */
static enum tw_err create_queues(
    struct consumer *consumer, struct poll *poll, struct err *err)
{
    const struct setup_queue *queue =
        &consumer->definition->setup->queues[poll - consumer->polls];
    struct attempt attempt = own_attempt(consumer);
    enum tw_err outcome = TW_OK;

    if (!poll->created)
        outcome = queue_usable(consumer, &attempt, queue->name);
    poll->created = outcome == TW_OK;
    if (outcome == TW_OK && !poll->poison_created) {
        attempt = own_attempt(consumer);
        outcome = poison_queue_usable(consumer, &attempt, queue->poison_queue);
        poll->poison_created = outcome == TW_OK;
    }
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", attempt.err.text);
    return outcome;
}

static enum tw_err create_ledger(struct consumer *consumer, struct err *err)
{
    struct attempt attempt = own_attempt(consumer);
    enum tw_err outcome = ledger_usable(consumer, &attempt);

    if (outcome != TW_OK)
        return err_fail(err, outcome, "%s", attempt.err.text);
    consumer->prepared = true;
    return TW_OK;
}

/* The ledger is there, or an outage keeps us from seeing to it. */
static void see_to_ledger(struct consumer *consumer)
{
    struct err err;

    if (create_ledger(consumer, &err) == TW_OK)
        outage_ends(consumer);
    else
        outage_begins(consumer, err.text);
}

/* ---- reloading ---- */

static void begin_polls(struct consumer *consumer)
{
    mem_free(consumer->polls);
    consumer->polls = mem_array(
        consumer->definition->setup->queue_count + 1, sizeof(struct poll));
    consumer->turn = 0;
    consumer->prepared = false;
    orphans_done(&consumer->orphans);
    orphans_init(&consumer->orphans, &consumer->fence);
    consumer->prune.under_way = false; /* its store may be closed */
    consumer->orphans_due_ms = world_boot_ms();
}

static bool same_places(const struct setup *a, const struct setup *b)
{
    return a->slots == b->slots && a->lanes == b->lanes &&
           a->max_entities_per_second == b->max_entities_per_second;
}

static void take_definition(
    struct consumer *consumer, struct definition *definition)
{
    if (!same_places(definition->setup, consumer->definition->setup))
        log_warn(OBJECT, "slots, lanes and max_entities_per_second stay as "
                         "they were until a restart");
    definition_drop(consumer->definition);
    consumer->definition = definition;
    begin_polls(consumer);
    log_info(OBJECT, "has read its configuration again");
}

/* Could a worker of that configuration ever work? */
static enum tw_err check_store(
    const struct definition *definition, struct err *err)
{
    const struct store *store = definition_store(definition);

    if (store == NULL)
        return err_fail(err, TW_INVALID,
            "the worker has no store: name one with `store:` in `worker:`");
    if (!store->traits.has_queues)
        return err_fail(err, TW_INVALID,
            "store '%s' has no queues: the worker needs another one",
            store->name);
    return TW_OK;
}

static void reload(struct consumer *consumer)
{
    const struct consumer_options *options = &consumer->options;
    struct definition *definition;
    struct err err;

    world_lock(&consumer->lock);
    consumer->reloading = false;
    world_unlock(&consumer->lock);
    if (options->reload == NULL)
        return;
    notify_reloading(options->notify);
    definition = options->reload(options->context);
    if (definition && check_store(definition, &err) != TW_OK) {
        log_error(OBJECT,
            "the new configuration is refused, the old one "
            "stays: %s",
            err.text);
        definition_drop(definition);
        definition = NULL;
    }
    if (definition)
        take_definition(consumer, definition);
    notify_ready(options->notify);
}

/* ---- polling ---- */

static void give_messages(
    struct consumer *consumer, const struct setup_queue *queue, int64_t sent_ms)
{
    for (size_t i = 0; i < consumer->messages.count; i++) {
        struct slots_task task = {.definition = consumer->definition,
            .queue = queue,
            .message = consumer->messages.list[i],
            .sent_ms = sent_ms};

        slots_give(consumer->slots, &task);
    }
}

/* An empty answer doubles the wait; messages end it. */
static void set_next_poll(
    struct consumer *consumer, struct poll *poll, bool empty)
{
    const struct setup *setup = consumer->definition->setup;
    int64_t most_ms = setup->poll_max_ms;

    if (consumer->options.drain && most_ms > DRAIN_POLL_MAX_MS)
        most_ms = DRAIN_POLL_MAX_MS;
    if (!empty)
        poll->wait_ms = 0;
    else if (poll->wait_ms == 0)
        poll->wait_ms = setup->poll_min_ms;
    else
        poll->wait_ms *= 2;
    if (poll->wait_ms > most_ms)
        poll->wait_ms = most_ms;
    poll->due_ms = world_boot_ms() + poll->wait_ms;
}

static void poll_queue(struct consumer *consumer, size_t index)
{
    const struct setup *setup = consumer->definition->setup;
    const struct setup_queue *queue = &setup->queues[index];
    struct poll *poll = &consumer->polls[index];
    struct attempt attempt = own_attempt(consumer);
    size_t idle = slots_idle(consumer->slots);
    unsigned count = (unsigned)(idle < QUEUE_MAX_GET ? idle : QUEUE_MAX_GET);
    struct err err;

    if ((!poll->created || !poll->poison_created) &&
        create_queues(consumer, poll, &err) != TW_OK) {
        queue_fails(consumer, poll, &err);
        return;
    }
    switch (store_queue_get(definition_store(consumer->definition), &attempt,
        queue->name, count, setup->visibility_timeout_s, &consumer->messages)) {
    case TW_OK:
        queue_works(consumer, poll);
        give_messages(consumer, queue, attempt.sent_ms);
        set_next_poll(consumer, poll, consumer->messages.count == 0);
        break;
    case TW_NOT_FOUND: /* deleted: it is made again */
        poll->created = false;
        poll->due_ms = world_boot_ms();
        break;
    default:
        queue_fails(consumer, poll, &attempt.err);
        break;
    }
}

static bool outage_pauses(const struct consumer *consumer)
{
    return consumer->outage && world_boot_ms() < consumer->outage_until_ms;
}

/* The earliest moment at which a run is to go on; those that have come are
 * forgotten, *ret_come says that there were some. */
static int64_t next_later_ms(struct consumer *consumer, bool *ret_come)
{
    int64_t now_ms = world_boot_ms(), next_ms = WORLD_NEVER;
    size_t kept = 0;

    world_lock(&consumer->lock);
    for (size_t i = 0; i < consumer->later_count; i++) {
        int64_t later_ms = consumer->later_ms[i];

        if (later_ms > now_ms)
            consumer->later_ms[kept++] = later_ms;
        if (later_ms > now_ms && later_ms < next_ms)
            next_ms = later_ms;
    }
    *ret_come = kept < consumer->later_count;
    consumer->later_count = kept;
    world_unlock(&consumer->lock);
    return next_ms;
}

/* A hidden message is about to come back: begin the idle waits anew. */
static void expect_messages(struct consumer *consumer)
{
    bool come;

    consumer->next_later_ms = next_later_ms(consumer, &come);
    for (size_t i = 0; come && i < consumer->definition->setup->queue_count;
         i++)
        if (consumer->polls[i].failing_since_ms == 0)
            consumer->polls[i].due_ms = consumer->polls[i].wait_ms = 0;
}

/* Ask each queue that is due, while slots are idle, one after the other. */
static void poll_queues(struct consumer *consumer)
{
    size_t count = consumer->definition->setup->queue_count;

    for (size_t i = 0; i < count; i++) {
        size_t index = (consumer->turn + i) % count;

        if (slots_idle(consumer->slots) == 0 || is_stopping(consumer))
            return;
        if (consumer->polls[index].due_ms > world_boot_ms())
            continue;
        poll_queue(consumer, index);
        consumer->turn = index + 1;
    }
}

/* ---- orphans ---- */

/*
 * An orphan is taken by a worker that serves its queue; one that is `queued`
 * only while that queue is empty: its own message may lie there still.
 */
static bool may_take_orphan(
    const struct consumer *consumer, const struct job *job)
{
    const struct ledger_run *run = &consumer->orphans.run;
    const struct setup *setup = consumer->definition->setup;
    const struct setup_queue *queue =
        setup_queue_of_run(setup, job, run->queue);

    if (queue == NULL)
        return false;
    return run->state != LEDGER_QUEUED ||
           consumer->polls[queue - setup->queues].wait_ms > 0;
}

static void take_orphan(struct consumer *consumer)
{
    const struct ledger_run *run = &consumer->orphans.run;
    struct slots_task task = {.definition = consumer->definition,
        .job = jobs_find(consumer->definition->jobs, run->job),
        .id = run->id};

    assert(task.job != NULL); /* it was looked for under that job's name */
    if (!may_take_orphan(consumer, task.job))
        return;
    log_info(OBJECT, "takes up run %.*s/%.*s, which nobody works on",
        SLICE_ARG(run->job), SLICE_ARG(run->id));
    slots_give(consumer->slots, &task);
}

/* One step of a pass, where one is under way or due. */
static void look_for_orphans(struct consumer *consumer)
{
    struct orphans *orphans = &consumer->orphans;
    int64_t now_ms = world_boot_ms();
    struct err err;

    if (consumer->outage || slots_idle(consumer->slots) == 0 ||
        is_stopping(consumer))
        return;
    if (!orphans->under_way) {
        if (now_ms < consumer->orphans_due_ms)
            return;
        orphans_begin(orphans, consumer->definition);
        consumer->orphans_due_ms = now_ms + ORPHANS_EVERY_MS;
    }
    switch (orphans_step(orphans, &err)) {
    case ORPHANS_FOUND:
        take_orphan(consumer);
        break;
    case ORPHANS_FAILED:
        consumer->orphans_due_ms = now_ms;
        outage_begins(consumer, err.text);
        break;
    case ORPHANS_MORE:
    case ORPHANS_DONE:
        break;
    }
}

/* ---- pruning ---- */

/* One step of a pass, where one is under way or due. */
static void prune_runs(struct consumer *consumer)
{
    const struct setup *setup = consumer->definition->setup;
    struct prune *prune = &consumer->prune;
    int64_t now_ms = world_boot_ms();
    struct err err;

    if (setup->keep_runs_ms == 0 || consumer->outage || is_stopping(consumer))
        return;
    if (!prune->under_way) {
        if (now_ms < consumer->prune_due_ms)
            return;
        prune_begin(prune, definition_store(consumer->definition),
            &consumer->fence,
            world_wall_ticks() - setup->keep_runs_ms * TICKS_PER_MS);
        consumer->prune_due_ms = now_ms + PRUNE_EVERY_MS;
    }
    switch (prune_step(prune, &err)) {
    case PRUNE_DONE:
        if (prune->pruned > 0)
            log_info(OBJECT, "%" PRId64 " ended run%s pruned", prune->pruned,
                prune->pruned == 1 ? "" : "s");
        break;
    case PRUNE_FAILED:
        log_warn(OBJECT, "pruning ends early: %s", err.text);
        break;
    case PRUNE_MORE:
        break;
    }
}

/* ---- draining ---- */

/*
 * Is the drain over, apart from runs that it does not wait for? empty: no
 * message is left. Else it is over where messages only stand for such runs.
 */
static bool nothing_else_left(struct consumer *consumer, bool empty)
{
    struct buf names;
    struct err err;
    bool only = false, over;
    size_t count = 0;

    buf_init(&names, LEFT_NAMES_BYTES);
    if (drain_left(definition_store(consumer->definition), &consumer->fence,
            empty, &only, &count, &names, &err) != TW_OK)
        outage_begins(consumer, err.text);
    over = !consumer->outage && (empty || (only && count > 0));
    if (over && count > 0)
        log_warn(OBJECT, "does not wait for %zu open run%s: %s", count,
            count == 1 ? "" : "s", buf_text(&names));
    if (over)
        consumer->result.left = (int64_t)count;
    buf_done(&names);
    return over;
}

/* Messages are left, all of them hidden: are they of such runs alone? */
static bool only_such_left(struct consumer *consumer)
{
    int64_t now_ms = world_boot_ms();

    if (now_ms < consumer->left_due_ms)
        return false;
    if (nothing_else_left(consumer, false))
        return true;
    consumer->left_wait_ms = consumer->left_wait_ms == 0
                                 ? LEFT_FIRST_MS
                                 : 2 * consumer->left_wait_ms;
    if (consumer->left_wait_ms > LEFT_MOST_MS)
        consumer->left_wait_ms = LEFT_MOST_MS;
    consumer->left_due_ms = now_ms + consumer->left_wait_ms;
    return false;
}

static bool queues_done(struct consumer *consumer)
{
    const struct setup *setup = consumer->definition->setup;

    for (size_t i = 0; i < setup->queue_count; i++) {
        struct attempt attempt = own_attempt(consumer);
        int64_t count;

        if (store_queue_count(definition_store(consumer->definition), &attempt,
                setup->queues[i].name, &count) != TW_OK) {
            queue_fails(consumer, &consumer->polls[i], &attempt.err);
            return false;
        }
        if (count > 0)
            return only_such_left(consumer);
    }
    return nothing_else_left(consumer, true);
}

/* Every queue has just been found empty, nobody is at work: is it the end? */
static bool drained(struct consumer *consumer)
{
    size_t count = consumer->definition->setup->queue_count;

    if (!consumer->options.drain || consumer->outage ||
        consumer->orphans.under_way || slots_busy(consumer->slots) > 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (consumer->polls[i].wait_ms == 0)
            return false;
    return queues_done(consumer);
}

/* ---- the loop ---- */

static void say_status(struct consumer *consumer)
{
    size_t count = consumer->definition->setup->queue_count;
    size_t busy = slots_busy(consumer->slots), failing = 0;
    const char *cause = "";

    for (size_t i = 0; i < count; i++)
        if (consumer->polls[i].failing_since_ms != 0) {
            cause = consumer->polls[i].cause.text;
            failing++;
        }
    if (consumer->outage ||
        (busy == consumer->shown_busy && failing == consumer->shown_failing))
        return;
    consumer->shown_busy = busy;
    consumer->shown_failing = failing;
    if (failing > 0)
        notify_status(consumer->options.notify,
            "%zu of %" PRId64 " slots busy; %zu of %zu queues cannot be "
            "served: %s",
            busy, consumer->definition->setup->slots, failing, count, cause);
    else
        notify_status(consumer->options.notify, "%zu of %" PRId64 " slots busy",
            busy, consumer->definition->setup->slots);
}

static void say_ready(struct consumer *consumer)
{
    if (consumer->ready)
        return;
    consumer->ready = true;
    notify_ready(consumer->options.notify);
    log_info(OBJECT, "ready: %" PRId64 " slots, %zu queues of store '%s'",
        consumer->definition->setup->slots,
        consumer->definition->setup->queue_count,
        definition_store(consumer->definition)->name);
}

static int64_t next_due_ms(struct consumer *consumer)
{
    int64_t due_ms = consumer->orphans_due_ms;

    if (slots_idle(consumer->slots) == 0)
        return WORLD_NEVER;
    if (consumer->outage)
        return consumer->outage_until_ms;
    if (consumer->orphans.under_way || consumer->prune.under_way)
        return 0;
    if (consumer->definition->setup->keep_runs_ms > 0 &&
        consumer->prune_due_ms < due_ms)
        due_ms = consumer->prune_due_ms;
    if (consumer->next_later_ms < due_ms)
        due_ms = consumer->next_later_ms;
    for (size_t i = 0; i < consumer->definition->setup->queue_count; i++)
        if (consumer->polls[i].due_ms < due_ms)
            due_ms = consumer->polls[i].due_ms;
    return due_ms;
}

/* Wait for what is due next, a report, a stop, or the watchdog. */
static void wait_for_work(struct consumer *consumer, uint64_t seen)
{
    int64_t due_ms = next_due_ms(consumer);
    int64_t watchdog_ms = notify_watchdog_ms(consumer->options.notify);

    if (watchdog_ms > 0 && world_boot_ms() + watchdog_ms / 2 < due_ms)
        due_ms = world_boot_ms() + watchdog_ms / 2;
    world_lock(&consumer->lock);
    while (!consumer->stopping && !consumer->reloading &&
           consumer->reports == seen && world_boot_ms() < due_ms)
        (void)world_wait(&consumer->changed, &consumer->lock, due_ms);
    world_unlock(&consumer->lock);
}

static uint64_t reports_so_far(struct consumer *consumer, bool *ret_reload)
{
    uint64_t reports;

    world_lock(&consumer->lock);
    reports = consumer->reports;
    *ret_reload = consumer->reloading;
    world_unlock(&consumer->lock);
    return reports;
}

static void serve(struct consumer *consumer)
{
    bool asked_to_reload;
    uint64_t seen;

    while (!is_stopping(consumer)) {
        seen = reports_so_far(consumer, &asked_to_reload);
        notify_watchdog(consumer->options.notify);
        if (asked_to_reload)
            reload(consumer);
        heed_reports(consumer);
        if (!consumer->prepared && !outage_pauses(consumer))
            see_to_ledger(consumer);
        expect_messages(consumer);
        if (consumer->prepared)
            poll_queues(consumer);
        if (consumer->prepared)
            look_for_orphans(consumer);
        if (consumer->prepared)
            prune_runs(consumer);
        say_ready(consumer);
        say_status(consumer);
        if (drained(consumer))
            break;
        wait_for_work(consumer, seen);
    }
}

/* ---- the whole ---- */

struct consumer *consumer_new(const struct consumer_options *options)
{
    struct consumer *consumer = mem_alloc(sizeof(*consumer));
    const struct setup *setup = options->definition->setup;

    consumer->options = *options;
    consumer->definition = options->definition;
    consumer->shown_busy = SIZE_MAX;
    fence_init(&consumer->fence, WORLD_NEVER,
        fence_request_ms(setup->visibility_timeout_s * 1000));
    world_mutex_init(&consumer->lock);
    world_cond_init(&consumer->changed);
    messages_init(&consumer->messages);
    orphans_init(&consumer->orphans, &consumer->fence);
    prune_init(&consumer->prune);
    begin_polls(consumer);
    consumer->place =
        (struct work_place){.stopping = is_stopping, .context = consumer};
    return consumer;
}

void consumer_free(struct consumer *consumer)
{
    if (consumer == NULL)
        return;
    orphans_done(&consumer->orphans);
    prune_done(&consumer->prune);
    messages_done(&consumer->messages);
    mem_free(consumer->polls);
    world_cond_done(&consumer->changed);
    world_mutex_done(&consumer->lock);
    definition_drop(consumer->definition);
    mem_free(consumer);
}

/* Refused credentials, a right that is missing or a name that is invalid: it
 * would never work. */
static bool is_hopeless(enum tw_err outcome)
{
    return outcome == TW_REFUSED || outcome == TW_FORBIDDEN ||
           outcome == TW_INVALID;
}

/* Before anything else: would this ever work? */
static enum tw_err begin(struct consumer *consumer, struct err *err)
{
    size_t count = consumer->definition->setup->queue_count;
    enum tw_err outcome = check_store(consumer->definition, err);

    if (outcome == TW_OK)
        outcome = create_ledger(consumer, err);
    if (is_hopeless(outcome))
        return outcome;
    if (outcome != TW_OK)
        outage_begins(consumer, err->text);
    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        struct poll *poll = &consumer->polls[i];
        enum tw_err created = create_queues(consumer, poll, err);

        if (is_hopeless(created))
            return created;
        if (created != TW_OK)
            queue_fails(consumer, poll, err);
    }
    return TW_OK;
}

enum tw_err consumer_run(
    struct consumer *consumer, struct consumer_result *ret, struct err *err)
{
    const struct setup *setup = consumer->definition->setup;
    enum tw_err outcome = begin(consumer, err);

    if (outcome != TW_OK)
        return outcome;
    consumer->lanes =
        lanes_new((unsigned)setup->lanes, setup->max_entities_per_second);
    consumer->renewer = renewer_new((size_t)setup->slots);
    consumer->place.lanes = consumer->lanes;
    consumer->place.renewer = consumer->renewer;
    consumer->slots = slots_new(
        (size_t)setup->slots, &consumer->place, take_report, consumer);
    serve(consumer);
    notify_stopping(consumer->options.notify);
    slots_free(consumer->slots);
    renewer_free(consumer->renewer);
    lanes_free(consumer->lanes);
    *ret = consumer->result;
    ret->stopped = consumer->stopping;
    log_info(OBJECT,
        "%s: %" PRId64 " succeeded, %" PRId64 " failed, %" PRId64 " poisoned",
        ret->stopped ? "stopped" : "drained", ret->succeeded, ret->failed,
        ret->poisoned);
    return TW_OK;
}
