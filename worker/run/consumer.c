/* SPDX-License-Identifier: MIT */
/*
 * The consumer's thread runs a loop of short steps: notify the watchdog, reload
 * if asked, ensure the ledger's tables, search for orphans, prune, check
 * whether a drain is complete, wait until the next step is due. Worker threads
 * receive messages themselves (worker_threads.h); they report results under
 * `lock` and wake the consumer.
 *
 * Isolation. A queue that cannot be read or created delays no other queue. A
 * run whose store or archive fails is held (lease.h) and delays no other run.
 * The worker stops receiving messages only while the ledger cannot be read or
 * written. The log reports the begin of each outage, its present cause once a
 * minute, and its duration when it ends.
 */
#include "worker/run/consumer.h"

#include <assert.h>

#include <inttypes.h>
#include <string.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/drain.h"
#include "worker/run/give_back.h"
#include "worker/run/ledger.h"
#include "worker/run/notify.h"
#include "worker/run/orphans.h"
#include "worker/run/outage.h"
#include "worker/run/prune.h"
#include "worker/run/renewer.h"
#include "worker/run/worker_threads.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"
#include "worker/store/watch.h"

/* Interval of passes over all open runs, which find orphans (orphans.h). */
#define ORPHANS_EVERY_MS INT64_C(600000)
/* Wait before the next pass if an orphan was found whose queue had as many runs
 * as its `slots:` allow. */
#define ORPHANS_AGAIN_MS INT64_C(60000)
/* Maximum length of the text in which a drain logs the names of the runs that
 * it does not wait for. As many names as fit are logged. */
#define LEFT_NAMES_BYTES 2000
/* Interval at which the consumer checks whether other processes of this host
 * have died. */
#define FIND_DEAD_EVERY_MS 1000
/* Interval of passes that delete old runs (prune.h). */
#define PRUNE_EVERY_MS INT64_C(3600000)
/* Wait before a busy worker checks again whether it is idle and may give space
 * back. */
#define GIVE_BACK_BUSY_MS 10000

/* First and longest interval at which a drain reads the open runs while only
 * hidden messages are left; the interval doubles. */
#define LEFT_FIRST_MS 1000
#define LEFT_MOST_MS 8000
/* If a run is held again, the log does not count it again. This works for up to
 * this number of held runs. */
#define HELD_MAX 64

#define STATUS_MAX 500

struct consumer {
    struct consumer_options options;
    struct definition *definition; /* the newest; owns a reference */
    struct request_pool *request_pool;
    struct renewer *renewer;
    struct worker_threads *threads;
    struct watch *watch; /* calls ask_now() after writes to the queues' store;
                            NULL: not supported */
    struct deadline deadline; /* only for the timeouts of requests: no lease
                                 limits the consumer */
    struct attempt_environment environment;

    bool prepared; /* the ledger's tables are known to exist */
    bool ready;    /* the service manager knows that messages are received */
    struct orphans orphans;
    int64_t orphans_due_ms;
    int64_t dead_due_ms; /* when the search for dead processes is due */
    struct prune prune;
    int64_t prune_due_ms;
    int64_t give_back_due_ms; /* when unused space is given back next;
                                 PLATFORM_NEVER: never, in a drain */
    int64_t left_due_ms;      /* when a drain reads the open runs again */
    int64_t left_wait_ms;     /* interval of a drain's reads of the open runs */
    char shown[STATUS_MAX];   /* the last status of report_status() */
    bool reload_refused;      /* the last reload was refused */

    struct outage outage;    /* outage of the ledger */
    struct outage_past past; /* the ledger's last outage that is over */
    size_t shown_unserved;   /* number of runs in the last line of
                                log_unserved() */
    bool no_slot; /* the search for orphans waits for a worker thread */
    int64_t held_repeat_ms; /* when held runs may be logged again */
    int64_t held_due_ms; /* when held runs are logged next; PLATFORM_NEVER: no
                            run is held */
    uint64_t shown_held; /* number of held runs in the last log line */
    struct err shown_cause; /* cause of the last report of a held run */

    struct platform_mutex lock; /* guards all fields below up to view */
    struct platform_cond changed;
    bool stopping, reloading;
    uint64_t reports;        /* number of calls of take_report() and
                                wake_consumer() */
    int64_t orphan_later_ms; /* when the first orphan whose attempt was deferred
                                is due again */
    bool attempt_failed;     /* an attempt could not use the ledger, and
                                handle_results() has not yet handled this */
    struct err attempt_err;
    uint64_t held; /* number of held runs reported since the last log line */
    uint64_t held_runs[HELD_MAX]; /* hashes of the first of these runs */
    int64_t held_until_ms; /* latest time at which one of the held runs is
                              retried */
    struct err held_err;
    struct consumer_result result;
    struct consumer_view view; /* written by show(), except the member
                                  `threads` */

    /* This lock is held while a thread other than the consumer's uses `threads`
     * or request_pool, so that these are not freed meanwhile. It is taken
     * before any other lock. Both pointers are NULL before the threads and the
     * pool are created, and after they are freed. */
    struct platform_mutex view_lock;
};

#define OBJECT "worker"
#define NO_QUEUE "receives no messages: `queues` of the configuration is empty"

/* ---- called by other threads ---- */

static bool is_stopping(void *context)
{
    struct consumer *consumer = context;
    bool stopping;

    platform_lock(&consumer->lock);
    stopping = consumer->stopping;
    platform_unlock(&consumer->lock);
    return stopping;
}

/* Call with the lock held. Counts a run that the attempt has ended. */
static void count_end(
    struct consumer_result *result, const struct task_report *report)
{
    if (report->result.end != ATTEMPT_RUN_ENDED || report->result.already)
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

static int64_t sooner(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* Call with the lock held. Count a held run, once between two log lines. */
static void count_held(struct consumer *consumer, uint64_t run)
{
    uint64_t known = consumer->held < HELD_MAX ? consumer->held : HELD_MAX;

    for (uint64_t i = 0; i < known; i++)
        if (consumer->held_runs[i] == run)
            return;
    if (known < HELD_MAX)
        consumer->held_runs[known] = run;
    consumer->held++;
}

static void take_report(void *context, const struct task_report *report)
{
    struct consumer *consumer = context;

    platform_lock(&consumer->lock);
    consumer->reports++;
    count_end(&consumer->result, report);
    if (report->result.end == ATTEMPT_DEFERRED && report->orphan)
        consumer->orphan_later_ms =
            sooner(consumer->orphan_later_ms, report->result.until_ms);
    /* An attempt that began under a former configuration used the store of that
     * configuration (host, credentials). Its outage does not show that the
     * present store fails. */
    if (report->result.end == ATTEMPT_OUTAGE && !report->former) {
        consumer->attempt_failed = true;
        consumer->attempt_err = report->result.err;
    }
    if (report->result.end == ATTEMPT_DEFERRED && report->result.for_cause) {
        count_held(consumer, report->result.run);
        consumer->held_err = report->result.err;
        if (report->result.until_ms > consumer->held_until_ms)
            consumer->held_until_ms = report->result.until_ms;
    }
    platform_wake_all(&consumer->changed);
    platform_unlock(&consumer->lock);
}

static void wake_consumer(void *context)
{
    struct consumer *consumer = context;

    platform_lock(&consumer->lock);
    consumer->reports++;
    platform_wake_all(&consumer->changed);
    platform_unlock(&consumer->lock);
}

void consumer_stop(struct consumer *consumer)
{
    platform_lock(&consumer->lock);
    consumer->stopping = true;
    platform_wake_all(&consumer->changed);
    platform_unlock(&consumer->lock);
}

void consumer_reload(struct consumer *consumer)
{
    platform_lock(&consumer->lock);
    consumer->reloading = true;
    platform_wake_all(&consumer->changed);
    platform_unlock(&consumer->lock);
}

/* ---- what others may see ---- */

/* Copy the state of this thread to where consumer_read_view() reads it. */
static void show(struct consumer *consumer, enum consumer_stage stage)
{
    const struct outage *outage = &consumer->outage;

    platform_lock(&consumer->lock);
    consumer->view.stage = stage;
    consumer->view.slots = (size_t)consumer->definition->setup->slots;
    consumer->view.progress_ms = platform_boot_ms();
    consumer->view.outage = outage->lasts;
    consumer->view.outage_since_ms = outage->since_ms;
    consumer->view.cause = outage->lasts ? outage->cause : (struct err){""};
    consumer->view.past = consumer->past;
    platform_unlock(&consumer->lock);
}

void consumer_read_view(struct consumer *consumer, struct consumer_view *ret)
{
    platform_lock(&consumer->view_lock);
    platform_lock(&consumer->lock);
    *ret = consumer->view;
    if (consumer->stopping)
        ret->stage = CONSUMER_STOPS;
    platform_unlock(&consumer->lock);
    if (consumer->threads) {
        worker_threads_read_view(consumer->threads, &ret->threads);
        ret->past = *outage_later(&ret->past, &ret->threads.past);
    }
    platform_unlock(&consumer->view_lock);
}

struct definition *consumer_definition(struct consumer *consumer)
{
    struct definition *definition;

    platform_lock(&consumer->lock);
    definition = definition_hold(consumer->definition);
    platform_unlock(&consumer->lock);
    return definition;
}

bool consumer_queue_fails(struct consumer *consumer, const char *queue)
{
    bool fails;

    platform_lock(&consumer->view_lock);
    fails = consumer->threads &&
            worker_threads_queue_is_failing(consumer->threads, queue);
    platform_unlock(&consumer->view_lock);
    return fails;
}

bool consumer_is_away(struct consumer *consumer, const struct store *store)
{
    bool away = false;

    for (size_t i = 0; i < STORE_SERVICES; i++)
        away = away || breaker_is_away(&store->breakers[i]);
    platform_lock(&consumer->view_lock);
    if (consumer->request_pool)
        away = away || request_pool_is_silent(consumer->request_pool, store);
    platform_unlock(&consumer->view_lock);
    return away;
}

double consumer_rate(
    struct consumer *consumer, const struct store *store, bool of_partition)
{
    double per_s = -1;

    platform_lock(&consumer->view_lock);
    if (consumer->request_pool)
        per_s = request_pool_rate(consumer->request_pool, store, of_partition);
    platform_unlock(&consumer->view_lock);
    return per_s;
}

/* ---- outages ---- */

static void outage_begins(struct consumer *consumer, const struct err *why)
{
    worker_threads_pause(consumer->threads, true);
    consumer->prepared = false;
    if (!outage_failed(&consumer->outage, platform_boot_ms(), why))
        return;
    log_error(OBJECT, "receives no messages during an outage: %s", why->text);
    notify_status(consumer->options.notify,
        "receives no messages during an outage: %s", why->text);
}

/* Call when the ledger works. Ends the outage of the ledger and lets the worker
 * threads receive messages. */
static void prepared(struct consumer *consumer)
{
    int64_t lasted_s = outage_ends(&consumer->outage, platform_boot_ms());

    consumer->prepared = true;
    worker_threads_pause(consumer->threads, false);
    outage_note_end(&consumer->past, lasted_s);
    if (lasted_s < 0)
        return;
    consumer->shown[0] = '\0';
    log_info(OBJECT, "receives messages again, after %" PRId64 " s", lasted_s);
}

static bool outage_pauses(const struct consumer *consumer)
{
    return consumer->outage.lasts &&
           platform_boot_ms() < consumer->outage.until_ms;
}

/* Call with the lock held. Returns true if the held runs must be logged now.
 * While runs are held this is so once a minute, even if no run was retried in
 * that minute. */
static bool take_held(struct consumer *consumer, int64_t now_ms)
{
    bool lasts = now_ms < consumer->held_until_ms;
    bool says =
        (consumer->held > 0 || lasts) && now_ms >= consumer->held_repeat_ms;

    consumer->shown_cause = consumer->held_err;
    if (says) {
        if (consumer->held > 0)
            consumer->shown_held = consumer->held;
        consumer->held = 0;
        consumer->held_repeat_ms = now_ms + OUTAGE_REPEAT_MS;
    }
    consumer->held_due_ms = lasts ? consumer->held_repeat_ms : PLATFORM_NEVER;
    return says;
}

/* Handle the results of attempts since the last call. */
static void handle_results(struct consumer *consumer)
{
    bool failed, says;
    struct err err;

    platform_lock(&consumer->lock);
    failed = consumer->attempt_failed;
    err = consumer->attempt_err;
    consumer->attempt_failed = false;
    says = take_held(consumer, platform_boot_ms());
    platform_unlock(&consumer->lock);
    if (failed)
        outage_begins(consumer, &err);
    if (says)
        log_warn(OBJECT, "%" PRIu64 " run%s held or waiting; last cause: %s",
            consumer->shown_held, consumer->shown_held == 1 ? "" : "s",
            consumer->shown_cause.text);
}

/* ---- the ledger's tables ---- */

static enum tw_err ensure_ledger(struct consumer *consumer, struct err *err)
{
    return ledger_ensure(
        definition_store(consumer->definition), &consumer->deadline, 0, err);
}

/* Create the ledger's tables, or note an outage of the ledger. */
static void ensure_ledger_tables(struct consumer *consumer)
{
    struct err err;

    if (ensure_ledger(consumer, &err) == TW_OK)
        prepared(consumer);
    else
        outage_begins(consumer, &err);
}

/* ---- reloading ---- */

/* Begin to use consumer->definition: ensure the tables of its ledger, and end
 * all passes, because stores of the former definition may be closed. */
static void use_definition(struct consumer *consumer)
{
    deadline_init(&consumer->deadline, PLATFORM_NEVER,
        deadline_request_ms(
            consumer->definition->setup->visibility_timeout_s * 1000));
    consumer->prepared = false;
    orphans_use(&consumer->orphans, consumer->definition);
    consumer->prune.walk.under_way = false;
    consumer->orphans_due_ms = platform_boot_ms();
    consumer->shown_unserved = 0;
}

/* Set the limits of entities per second. They hold for running attempts,
 * too. */
static void set_ceilings(struct consumer *consumer)
{
    const struct jobs *jobs = consumer->definition->jobs;

    request_pool_set_ceiling(consumer->request_pool, NULL,
        consumer->definition->setup->max_entities_per_second);
    for (size_t i = 0; i < jobs->count; i++)
        request_pool_set_ceiling(consumer->request_pool, jobs->list[i].name,
            jobs->list[i].max_entities_per_second);
}

static void ask_now(void *context)
{
    worker_threads_poll_now(((struct consumer *)context)->threads);
}

static void watch_store(struct consumer *consumer)
{
    consumer->watch =
        store_watch(definition_store(consumer->definition), ask_now, consumer);
}

/* Compose how messages of queue are read, for log lines. Owned. */
static char *reading_of(const struct setup_queue *queue)
{
    return queue->job
               ? mem_format("as the argument of job %s, in %s",
                     queue->job->name, queue->base64 ? "base64" : "plain text")
               : mem_format("as JSON messages of any job");
}

static void warn_rebound(
    const struct setup_queue *former, const struct setup_queue *queue)
{
    char *was = reading_of(former), *is = reading_of(queue);

    if (strcmp(was, is) != 0)
        log_warn(OBJECT,
            "the messages of queue %s were read %s; from now on they are read "
            "%s, also messages that are in the queue already",
            queue->name, was, is);
    mem_free(was);
    mem_free(is);
}

/* Warn about queues that are bound differently in the new configuration. */
static void warn_of_bindings(
    const struct setup *former, const struct setup *setup)
{
    for (size_t i = 0; i < setup->queue_count; i++) {
        const struct setup_queue *queue = &setup->queues[i];
        const struct setup_queue *same =
            setup_queue_named(former, slice_of(queue->name));

        if (same)
            warn_rebound(same, queue);
    }
}

static void take_definition(
    struct consumer *consumer, struct definition *definition)
{
    struct definition *former;

    watch_end(consumer->watch);
    definition_share_credentials(definition, consumer->definition);
    warn_of_bindings(consumer->definition->setup, definition->setup);
    platform_lock(&consumer->lock);
    former = consumer->definition;
    consumer->definition = definition;
    consumer->attempt_failed = false; /* the attempt used the former store */
    platform_unlock(&consumer->lock);
    definition_drop(former);
    set_ceilings(consumer);
    request_pool_set_count(
        consumer->request_pool, (unsigned)definition->setup->requests);
    worker_threads_pause(consumer->threads, true); /* no messages until the
                                                      ledger works */
    renewer_set_runs(consumer->renewer, (size_t)definition->setup->slots);
    worker_threads_reload(consumer->threads, definition);
    watch_store(consumer);
    use_definition(consumer);
    log_info(OBJECT,
        "configuration reloaded: %" PRId64 " slots, %" PRId64 " requests",
        definition->setup->slots, definition->setup->requests);
}

/* Fails with TW_INVALID if the configuration names no store that a worker can
 * use. */
static enum tw_err check_store(
    const struct definition *definition, struct err *err)
{
    const struct store *store = definition_store(definition);

    if (store == NULL)
        return err_fail(err, TW_INVALID,
            "the worker has no store: write `store:` in `worker:`");
    if (!store->capabilities.has_queues)
        return err_fail(err, TW_INVALID,
            "store '%s' has no queues: the worker needs another store",
            store->name);
    return TW_OK;
}

/* TW_INVALID: the new configuration has another ledger. The worker would forget
 * the runs, closed jobs and locks of the present ledger while the runs
 * continue. */
static enum tw_err check_ledger(const struct consumer *consumer,
    const struct definition *definition, struct err *err)
{
    const struct store *store = definition_store(definition);
    const struct store *former = definition_store(consumer->definition);

    if (store_is_one(store, former))
        return TW_OK;
    return err_fail(err, TW_INVALID,
        "store '%s' is another account or file than store '%s', which has the "
        "ledger now: runs, closed jobs and locks do not move; restart the "
        "worker if another ledger is meant",
        store->name, former->name);
}

static void reload(struct consumer *consumer)
{
    const struct consumer_options *options = &consumer->options;
    struct definition *definition;
    bool is_usable;
    struct err err;

    platform_lock(&consumer->lock);
    consumer->reloading = false;
    platform_unlock(&consumer->lock);
    if (options->reload == NULL)
        return;
    if (consumer->ready)
        notify_reloading(options->notify);
    definition = options->reload(options->context);
    is_usable = definition && check_store(definition, &err) == TW_OK &&
                check_ledger(consumer, definition, &err) == TW_OK;
    consumer->reload_refused = !is_usable;
    if (options->reloaded)
        options->reloaded(options->context, is_usable ? definition : NULL);
    if (is_usable) {
        take_definition(consumer, definition);
    } else if (definition) {
        log_error(OBJECT,
            "the new configuration is refused, and the old one stays: %s",
            err.text);
        definition_drop(definition);
    }
    if (consumer->ready)
        notify_ready(options->notify);
}

/* ---- orphans ---- */

/*
 * Assign the orphan that was found to the reserved worker thread. In three
 * cases release the reservation instead: this worker does not serve the
 * orphan's queue; the queue has no room for a run; or the orphan is `queued`,
 * and its own message may still be on the queue.
 */
static void take_orphan(struct consumer *consumer)
{
    const struct ledger_run *run = &consumer->orphans.run;
    struct definition *definition = consumer->definition;
    struct task task = {.definition = definition,
        .orphan_job = jobs_find(definition->jobs, run->job),
        .orphan_id = run->id};

    assert(task.orphan_job); /* the search finds only runs of configured jobs */
    task.queue =
        setup_queue_of_orphan(definition->setup, task.orphan_job, run->queue);
    if (task.queue == NULL ||
        (run->state == LEDGER_QUEUED &&
            !worker_threads_found_empty(consumer->threads, task.queue) &&
            orphans_may_be_queued(&consumer->orphans, task.queue->name))) {
        worker_threads_release(consumer->threads);
    } else if (!worker_threads_has_room(consumer->threads, task.queue)) {
        worker_threads_release(consumer->threads);
        consumer->orphans_due_ms = platform_boot_ms() + ORPHANS_AGAIN_MS;
    } else {
        log_info(OBJECT, "continues run %.*s/%.*s, which no worker executes",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
        worker_threads_assign(consumer->threads, &task);
    }
}

/* Call at the end of a pass. Logs the runs that no worker of this configuration
 * can take: after the start, after a reload, and when their number changes. */
static void log_unserved(struct consumer *consumer)
{
    const struct orphans *orphans = &consumer->orphans;

    if (orphans->unserved > 0 && orphans->unserved != consumer->shown_unserved)
        log_warn(OBJECT, "%zu open run%s cannot be continued%s %s",
            orphans->unserved, orphans->unserved == 1 ? "" : "s",
            orphans->unserved == 1 ? ":" : ", for example",
            orphans->unserved_example);
    consumer->shown_unserved = orphans->unserved;
}

/* Make one step of the search for orphans. Call with a worker thread reserved,
 * for the orphan that the step may find. */
static void step_orphans(struct consumer *consumer)
{
    struct err err;

    switch (orphans_step(&consumer->orphans, &err)) {
    case WALK_FOUND:
        take_orphan(consumer);
        return;
    case WALK_FAILED:
        consumer->orphans_due_ms = platform_boot_ms();
        outage_begins(consumer, &err);
        break;
    case WALK_DONE:
        log_unserved(consumer);
        worker_threads_end_pass(consumer->threads, consumer->orphans.any_waits);
        break;
    case WALK_MORE:
        break;
    }
    worker_threads_release(consumer->threads);
}

/* Make a pass due soon after the first deferred orphan is due. An orphan has no
 * hidden message, so only a pass finds it. */
static void expect_orphan(struct consumer *consumer)
{
    int64_t timeout_s = consumer->definition->setup->visibility_timeout_s;
    int64_t later_ms;

    platform_lock(&consumer->lock);
    later_ms = consumer->orphan_later_ms;
    consumer->orphan_later_ms = PLATFORM_NEVER;
    platform_unlock(&consumer->lock);
    if (later_ms < PLATFORM_NEVER)
        consumer->orphans_due_ms = sooner(consumer->orphans_due_ms,
            later_ms + orphans_patience_ms(timeout_s) + HIDE_ROUNDED_MS);
}

/* Check whether processes of this host have died. Makes no request. */
static void find_dead(struct consumer *consumer)
{
    int64_t now_ms = platform_boot_ms();

    if (consumer->options.lock_file == NULL || now_ms < consumer->dead_due_ms)
        return;
    consumer->dead_due_ms = now_ms + FIND_DEAD_EVERY_MS;
    (void)orphans_find_dead(&consumer->orphans);
}

/* Is a step of the search for orphans due? */
static bool is_search_due(const struct consumer *consumer)
{
    return consumer->orphans.noted_count > 0 ||
           consumer->orphans.walk.under_way ||
           platform_boot_ms() >= consumer->orphans_due_ms;
}

/* Make a step of the search for orphans if a pass is running or due, or if a
 * process has died. */
static void search_orphans(struct consumer *consumer)
{
    struct orphans *orphans = &consumer->orphans;

    find_dead(consumer);
    expect_orphan(consumer);
    if (consumer->outage.lasts || is_stopping(consumer) ||
        !is_search_due(consumer))
        return;
    consumer->no_slot = !worker_threads_reserve(consumer->threads);
    if (consumer->no_slot)
        return;
    if (orphans->noted_count == 0 && !orphans->walk.under_way) {
        worker_threads_begin_pass(consumer->threads);
        orphans_begin(orphans);
        consumer->orphans_due_ms = platform_boot_ms() + ORPHANS_EVERY_MS;
    }
    step_orphans(consumer);
}

/* Call at the start, before any message is received. Assigns the runs of dead
 * processes to worker threads. */
static void take_from_the_dead(struct consumer *consumer)
{
    do
        search_orphans(consumer);
    while (consumer->prepared && !consumer->no_slot && !is_stopping(consumer) &&
           consumer->orphans.noted_count > 0);
}

/* ---- pruning ---- */

/* Make one step of a pruning pass, if a pass is running or due. */
static void prune_runs(struct consumer *consumer)
{
    const struct setup *setup = consumer->definition->setup;
    struct prune *prune = &consumer->prune;
    int64_t now_ms = platform_boot_ms();
    struct err err;

    if (setup->keep_runs_ms == 0 || consumer->outage.lasts ||
        is_stopping(consumer))
        return;
    if (!prune->walk.under_way) {
        if (now_ms < consumer->prune_due_ms)
            return;
        prune_begin(prune, definition_store(consumer->definition),
            &consumer->deadline, platform_wall_ticks(),
            setup->keep_runs_ms * TICKS_PER_MS);
        consumer->prune_due_ms = now_ms + PRUNE_EVERY_MS;
    }
    switch (prune_step(prune, &err)) {
    case WALK_DONE:
        if (prune->pruned > 0)
            log_info(OBJECT, "%" PRId64 " ended run%s pruned", prune->pruned,
                prune->pruned == 1 ? "" : "s");
        break;
    case WALK_FAILED:
        log_warn(OBJECT,
            "pruning stopped early, and begins again within an hour: %s",
            err.text);
        break;
    case WALK_MORE:
    case WALK_FOUND:
        break;
    }
}

/* ---- draining ---- */

/*
 * Is the drain complete? Call if each queue has only hidden messages or none.
 * Reads the open runs of the ledger. If no queue has any message (`empty` is
 * true), the drain is complete. If messages are hidden, the drain is complete
 * only if the ledger lists open runs (they own these messages), and all of them
 * are runs that a drain does not wait for. When the drain is complete, the log
 * names these runs. False also if the ledger cannot be read, which begins an
 * outage.
 */
static bool check_open_runs(struct consumer *consumer, bool empty)
{
    struct buf names;
    struct err err;
    bool only = false, over;
    size_t count = 0;

    buf_init(&names, LEFT_NAMES_BYTES);
    if (drain_left(consumer->definition, &consumer->deadline, empty, &only,
            &count, &names, &err) != TW_OK)
        outage_begins(consumer, &err);
    over = !consumer->outage.lasts && (empty || (only && count > 0));
    if (over && count > 0)
        log_warn(OBJECT, "does not wait for %zu open run%s: %s", count,
            count == 1 ? "" : "s", buf_text(&names));
    if (over)
        consumer->result.left = (int64_t)count;
    buf_done(&names);
    return over;
}

/* Call if only hidden messages are left. True: the drain is complete. Reads the
 * open runs only at left_due_ms or later. */
static bool check_hidden_messages(struct consumer *consumer)
{
    int64_t now_ms = platform_boot_ms();

    if (now_ms < consumer->left_due_ms)
        return false;
    if (check_open_runs(consumer, false))
        return true;
    consumer->left_wait_ms = consumer->left_wait_ms == 0
                                 ? LEFT_FIRST_MS
                                 : 2 * consumer->left_wait_ms;
    if (consumer->left_wait_ms > LEFT_MOST_MS)
        consumer->left_wait_ms = LEFT_MOST_MS;
    consumer->left_due_ms = now_ms + consumer->left_wait_ms;
    return false;
}

/* Ask each queue for its number of messages, hidden ones too. True: the drain
 * is complete. A queue that does not respond is polled again after a backoff.
 */
static bool check_queues(struct consumer *consumer)
{
    const struct setup *setup = consumer->definition->setup;

    for (size_t i = 0; i < setup->queue_count; i++) {
        struct retry_call call =
            retry_call(&consumer->deadline, RETRY_BUSY_MS, 0);
        enum tw_err outcome;
        int64_t count;

        do
            outcome = store_queue_count(definition_store(consumer->definition),
                &call.exchange, setup->queues[i].name, &count);
        while (retry_call_again(&call, outcome));
        if (outcome != TW_OK) {
            worker_threads_queue_fails(
                consumer->threads, i, &call.exchange.err);
            return false;
        }
        if (count > 0)
            return check_hidden_messages(consumer);
    }
    return check_open_runs(consumer, true);
}

static bool all_empty(struct consumer *consumer)
{
    struct worker_threads_view view;

    worker_threads_read_view(consumer->threads, &view);
    return view.all_empty;
}

/* Is the drain complete? Counts the messages of the queues only if the last
 * response of every queue was empty and every worker thread is idle. While it
 * counts, the worker threads receive no messages. */
static bool check_drain(struct consumer *consumer)
{
    bool done;

    if (!consumer->options.drain || consumer->outage.lasts ||
        is_search_due(consumer) || !all_empty(consumer))
        return false;
    worker_threads_pause(consumer->threads, true);
    done = all_empty(consumer) && check_queues(consumer);
    if (!done && !consumer->outage.lasts)
        worker_threads_pause(consumer->threads, false);
    return done;
}

/* ---- space ---- */

/* Let embedded stores give unused space back to the file system. This is done
 * only while all worker threads are idle, so that no run waits for it. */
static void give_space_back(struct consumer *consumer)
{
    int64_t now_ms = platform_boot_ms();
    struct worker_threads_view view;

    if (consumer->options.drain || now_ms < consumer->give_back_due_ms)
        return;
    worker_threads_read_view(consumer->threads, &view);
    consumer->give_back_due_ms =
        now_ms + (view.busy > 0 ? GIVE_BACK_BUSY_MS
                                : give_back_some(consumer->definition->stores,
                                      &consumer->deadline));
}

/* ---- the loop ---- */

/* Add the outage that ended last. The status shows it until another outage has
 * ended. */
static void add_past(const struct outage_past *past, struct buf *to)
{
    char ended[TEXT_TIME_MAX];

    if (past->ended_ticks > 0)
        buf_add_format(to, "; the last outage ended at %s, after %" PRId64 " s",
            text_from_ticks(past->ended_ticks, ended), past->lasted_s);
}

/* Add how many runs have failed or were poisoned since the start: an operator
 * must handle them. */
static void add_failed(struct consumer *consumer, struct buf *to)
{
    int64_t failed, poisoned;

    platform_lock(&consumer->lock);
    failed = consumer->result.failed;
    poisoned = consumer->result.poisoned;
    platform_unlock(&consumer->lock);
    if (failed + poisoned > 0)
        buf_add_format(to,
            "; %" PRId64 " failed, %" PRId64
            " poisoned since the start: `tableward poison list`",
            failed, poisoned);
}

/* Add the state of the worker. An outage of the ledger or of a queue is shown
 * with its present cause. */
static void add_status(struct consumer *consumer,
    const struct worker_threads_view *view, struct buf *to)
{
    const struct setup *setup = consumer->definition->setup;

    if (setup->queue_count == 0)
        buf_add_text(to, NO_QUEUE "; ");
    buf_add_format(
        to, "%zu of %" PRId64 " slots busy", view->busy, setup->slots);
    if (consumer->reload_refused)
        buf_add_text(to, "; the last reload was refused: the worker uses the "
                         "former configuration");
    if (view->queues_failing > 0)
        buf_add_format(to, "; %zu of %zu queues cannot be served: %s",
            view->queues_failing, setup->queue_count, view->cause.text);
    if (consumer->held_due_ms < PLATFORM_NEVER)
        buf_add_format(
            to, "; runs are held or waiting: %s", consumer->shown_cause.text);
    add_failed(consumer, to);
    add_past(outage_later(&consumer->past, &view->past), to);
}

static void report_status(struct consumer *consumer)
{
    char status[STATUS_MAX] = "";
    struct worker_threads_view view;
    struct slice cut;
    struct buf text;

    if (consumer->outage.lasts)
        return;
    worker_threads_read_view(consumer->threads, &view);
    buf_init(&text, 8 * STATUS_MAX);
    add_status(consumer, &view, &text);
    cut = text_cut(buf_slice(&text), STATUS_MAX - 1);
    memcpy(status, cut.at, cut.len);
    buf_done(&text);
    if (strcmp(status, consumer->shown) == 0)
        return;
    memcpy(consumer->shown, status, sizeof(status));
    notify_status(consumer->options.notify, "%s", status);
}

/* Do the ledger and at least one queue work? If no queue is configured, the
 * ledger is enough. */
static bool receives_messages(struct consumer *consumer)
{
    size_t queues = consumer->definition->setup->queue_count;
    struct worker_threads_view view;

    if (!consumer->prepared || consumer->outage.lasts)
        return false;
    worker_threads_read_view(consumer->threads, &view);
    return queues == 0 || view.queues_failing < queues;
}

/* Notify the service manager once, as soon as messages are received, so that
 * units ordered after this unit find a worker that works. */
static void report_ready(struct consumer *consumer)
{
    const struct setup *setup = consumer->definition->setup;

    if (consumer->ready || !receives_messages(consumer))
        return;
    consumer->ready = true;
    notify_ready(consumer->options.notify);
    log_info(OBJECT, "ready: %" PRId64 " slots, %zu queue%s of store '%s'",
        setup->slots, setup->queue_count, setup->queue_count == 1 ? "" : "s",
        definition_store(consumer->definition)->name);
    if (setup->queue_count == 0)
        log_warn(OBJECT, NO_QUEUE);
}

static int64_t next_due_ms(struct consumer *consumer)
{
    int64_t due_ms = sooner(consumer->held_due_ms, consumer->give_back_due_ms);

    if (consumer->outage.lasts)
        return consumer->outage.until_ms;
    if (consumer->prune.walk.under_way)
        return 0;
    if (consumer->definition->setup->keep_runs_ms > 0)
        due_ms = sooner(due_ms, consumer->prune_due_ms);
    if (consumer->no_slot)
        return due_ms;
    if (consumer->orphans.walk.under_way || consumer->orphans.noted_count > 0)
        return 0;
    if (consumer->options.lock_file)
        due_ms = sooner(due_ms, consumer->dead_due_ms);
    return sooner(due_ms, consumer->orphans_due_ms);
}

/* Wait until the next step is due, a report has come, a stop or a reload was
 * asked for, or the watchdog must be notified. */
static void wait_for_work(struct consumer *consumer, uint64_t seen)
{
    int64_t due_ms = next_due_ms(consumer);
    int64_t watchdog_ms = notify_watchdog_ms(consumer->options.notify);
    int64_t heartbeat_ms = consumer->options.heartbeat_ms;

    if (watchdog_ms > 0)
        due_ms = sooner(due_ms, platform_boot_ms() + watchdog_ms / 2);
    if (heartbeat_ms > 0)
        due_ms = sooner(due_ms, platform_boot_ms() + heartbeat_ms);
    platform_lock(&consumer->lock);
    while (!consumer->stopping && !consumer->reloading &&
           consumer->reports == seen && platform_boot_ms() < due_ms)
        (void)platform_wait(&consumer->changed, &consumer->lock, due_ms);
    platform_unlock(&consumer->lock);
}

static uint64_t reports_so_far(struct consumer *consumer, bool *ret_reload)
{
    uint64_t reports;

    platform_lock(&consumer->lock);
    reports = consumer->reports;
    *ret_reload = consumer->reloading;
    platform_unlock(&consumer->lock);
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
        handle_results(consumer);
        if (!consumer->prepared && !outage_pauses(consumer))
            ensure_ledger_tables(consumer);
        if (consumer->prepared)
            search_orphans(consumer);
        if (consumer->prepared)
            prune_runs(consumer);
        report_ready(consumer);
        report_status(consumer);
        give_space_back(consumer);
        show(consumer, CONSUMER_SERVES);
        if (check_drain(consumer))
            break;
        wait_for_work(consumer, seen);
    }
}

/* ---- the consumer ---- */

struct consumer *consumer_new(const struct consumer_options *options)
{
    struct consumer *consumer = mem_alloc(sizeof(*consumer));

    consumer->options = *options;
    consumer->definition = options->definition;
    consumer->orphan_later_ms = consumer->held_due_ms = PLATFORM_NEVER;
    if (options->drain)
        consumer->give_back_due_ms = PLATFORM_NEVER;
    platform_mutex_init(&consumer->lock);
    platform_cond_init(&consumer->changed);
    platform_mutex_init(&consumer->view_lock);
    consumer->view.progress_ms = platform_boot_ms();
    orphans_init(&consumer->orphans, &consumer->deadline, options->lock_file);
    prune_init(&consumer->prune);
    use_definition(consumer);
    consumer->environment =
        (struct attempt_environment){.activity = options->activity,
            .stopping = is_stopping,
            .context = consumer};
    return consumer;
}

void consumer_free(struct consumer *consumer)
{
    if (consumer == NULL)
        return;
    orphans_done(&consumer->orphans);
    prune_done(&consumer->prune);
    platform_cond_done(&consumer->changed);
    platform_mutex_done(&consumer->lock);
    platform_mutex_done(&consumer->view_lock);
    definition_drop(consumer->definition);
    mem_free(consumer);
}

/* Create the ledger's tables and the queues. TW_OK also during an outage,
 * because the consumer retries later. Any other outcome: this configuration can
 * never work. */
static enum tw_err begin(struct consumer *consumer, struct err *err)
{
    enum tw_err outcome = ensure_ledger(consumer, err);

    switch (outcome) {
    case TW_OK:
        prepared(consumer);
        return worker_threads_ensure_queues(consumer->threads, err);
    case TW_REFUSED:
    case TW_FORBIDDEN:
    case TW_INVALID:
        return outcome;
    default:
        outage_begins(consumer, err);
        return TW_OK;
    }
}

static void serve_with_slots(struct consumer *consumer)
{
    const struct setup *setup = consumer->definition->setup;

    platform_lock(&consumer->view_lock);
    consumer->request_pool = request_pool_new(
        (unsigned)setup->requests, setup->max_entities_per_second);
    platform_unlock(&consumer->view_lock);
    consumer->renewer = renewer_new((size_t)setup->slots);
    set_ceilings(consumer);
    consumer->environment.request_pool = consumer->request_pool;
    consumer->environment.renewer = consumer->renewer;
    consumer->environment.lock_file = consumer->options.lock_file;
    if (consumer->prepared)
        take_from_the_dead(consumer);
    worker_threads_start(consumer->threads);
    watch_store(consumer);
    serve(consumer);
    watch_end(consumer->watch);
    show(consumer, CONSUMER_STOPS);
    notify_stopping(consumer->options.notify);
}

/* End the threads. The pointers are cleared before, so that no other thread
 * uses them. */
static void end_threads(struct consumer *consumer)
{
    struct worker_threads *threads = consumer->threads;
    struct request_pool *request_pool = consumer->request_pool;

    platform_lock(&consumer->view_lock);
    consumer->threads = NULL;
    consumer->request_pool = NULL;
    platform_unlock(&consumer->view_lock);
    worker_threads_free(threads);
    renewer_free(consumer->renewer);
    request_pool_free(request_pool);
}

enum tw_err consumer_run(
    struct consumer *consumer, struct consumer_result *ret, struct err *err)
{
    struct worker_threads_options options = {
        .environment = &consumer->environment,
        .drain = consumer->options.drain,
        .ended = take_report,
        .changed = wake_consumer,
        .context = consumer};
    enum tw_err outcome = check_store(consumer->definition, err);

    if (outcome != TW_OK)
        return outcome;
    platform_lock(&consumer->view_lock);
    consumer->threads = worker_threads_new(&options, consumer->definition);
    platform_unlock(&consumer->view_lock);
    outcome = begin(consumer, err);
    if (outcome == TW_OK)
        serve_with_slots(consumer);
    end_threads(consumer);
    if (outcome != TW_OK)
        return outcome;
    *ret = consumer->result;
    ret->stopped = is_stopping(consumer);
    log_info(OBJECT,
        "%s: %" PRId64 " succeeded, %" PRId64 " failed, %" PRId64 " poisoned",
        ret->stopped ? "stopped" : "drained", ret->succeeded, ret->failed,
        ret->poisoned);
    return TW_OK;
}
