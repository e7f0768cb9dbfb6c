/* SPDX-License-Identifier: MIT */
/* One attempt at one run, from acquiring the lease to its release. */
#include "worker/run/work.h"

#include "jobs/engine/call.h"
#include "worker/base/arena.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/failures.h"
#include "worker/run/ledger_change.h"
#include "worker/run/locks.h"
#include "worker/run/message.h"
#include "worker/run/renewer.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"

#define RETRY_MAX_MS INT64_C(3600000)
/* So many failed entities of a run are in the log. */
#define FAILED_LOGGED 100
/* Of the reason why one entity failed, in Error and in the log. */
#define FAILED_WHY_MAX_BYTES 200
/* A message that an outage sent back is hidden so long. */
#define OUTAGE_HIDE_MS 5000
/* `run` looks after a held run more often: a person waits for it. */
#define RUN_HELD_TICKS (10 * TICKS_PER_S)
/* ... and tries again so soon what may have passed. */
#define RUN_AGAIN_MS 1000

struct work {
    const struct work_place *place;
    const struct definition *definition;
    const struct lease_request *wish;
    struct lease lease;
    struct arena arena;        /* args from the ledger, names */
    const char *object;        /* "run JOB/ID" */
    struct run run;            /* what the kind sees */
    struct renewal *renewal;   /* while the kind runs */
    struct failures *failures; /* the `failures:` file; NULL: none */
    enum lease_status word;    /* how the renewer left it */
    bool took_locks_over; /* of a run that ended and did not release them */
    bool unsure;          /* a write of this attempt may still arrive late */
    bool progress;
    struct slice held_for;    /* the cause for which it was held before this */
    int64_t held_since_ticks; /* attempt, and since when; in arena */
    int64_t held_ticks;       /* how long, when this attempt began */
    struct err err;           /* the kind's */
    struct work_result *result;
};

int64_t work_retry_ms(int64_t failures)
{
    int64_t wait_ms = 1000;

    while (failures-- > 1 && wait_ms < RETRY_MAX_MS)
        wait_ms *= 2;
    return wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
}

/* ---- what the kind is lent ---- */

static struct work *work_of(struct run *run)
{
    return run->owner;
}

static bool host_stopping(struct run *run)
{
    struct work *work = work_of(run);

    return renewal_word(work->renewal) != LEASE_VALID ||
           renewal_asked(work->renewal) != LEASE_ASKED_NOTHING ||
           work->place->stopping(work->place->context);
}

static void host_save(struct run *run, struct slice checkpoint, bool progress)
{
    renewal_save(work_of(run)->renewal, checkpoint, progress);
}

static enum tw_err host_phase(struct run *run, const char *phase,
    struct slice checkpoint, struct err *err)
{
    struct work *work = work_of(run);
    enum tw_err outcome = renewal_phase(work->renewal, phase, checkpoint, err);

    if (outcome == TW_OK)
        run->phase = arena_copy(&work->arena, slice_of(phase));
    return outcome;
}

static enum tw_err host_is_open(struct run *run, struct slice job,
    struct slice id, bool *ret, struct err *err)
{
    struct work *work = work_of(run);
    struct ledger_run other;
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    ledger_run_init(&other);
    outcome = call_get(run->request_pool, work->wish->store, LEDGER_TABLE, job,
        id, &page, NULL, err);
    if (outcome == TW_OK)
        outcome = ledger_parse(&page.entities[0], &other, err);
    if (outcome == TW_OK)
        *ret = !ledger_state_ended(other.state);
    if (outcome == TW_NOT_FOUND) {
        *ret = false;
        outcome = TW_OK;
    }
    ledger_run_done(&other);
    page_done(&page);
    return outcome;
}

static void host_failed(struct run *run, const struct run_failure *failure)
{
    int64_t before = atomic_fetch_add(&run->counts.failed, 1);
    struct buf line;

    buf_init(&line, 4096);
    buf_add_format(&line, "%s ", failure->table);
    entity_add_keys(&line, failure->partition_key, failure->row_key);
    buf_add_text(&line, ": ");
    text_repair(&line, text_cut(slice_of(failure->why), FAILED_WHY_MAX_BYTES));
    if (before < FAILED_LOGGED)
        log_warn(run_object(run), "%s", buf_text(&line));
    if (before == FAILED_LOGGED)
        log_warn(run_object(run),
            "more entities fail; the log has the first %d", FAILED_LOGGED);
    renewal_failed(work_of(run)->renewal, buf_text(&line));
    if (work_of(run)->failures)
        failures_add(work_of(run)->failures, failure);
    buf_done(&line);
}

static void host_forget_failed(struct run *run, int64_t count)
{
    atomic_store(&run->counts.failed, count);
    if (count == 0)
        renewal_forget_failed(work_of(run)->renewal);
}

static void host_note(struct run *run, const char *sentence)
{
    log_info(run_object(run), "%s", sentence);
    renewal_note(work_of(run)->renewal, sentence);
}

static const struct run_host host = {
    .stopping = host_stopping,
    .save = host_save,
    .phase = host_phase,
    .is_open = host_is_open,
    .failed = host_failed,
    .note = host_note,
    .forget_failed = host_forget_failed,
};

static void set_counts(struct run *run, const struct ledger_run *from)
{
    atomic_init(&run->counts.read, from->read);
    atomic_init(&run->counts.written, from->written);
    atomic_init(&run->counts.deleted, from->deleted);
    atomic_init(&run->counts.skipped, from->skipped);
    atomic_init(&run->counts.failed, from->failed);
    atomic_init(&run->rounds, from->rounds);
    atomic_init(&run->share, from->share < 0 ? -1 : (int)(from->share * 1000));
    atomic_init(&run->behind, from->behind);
    atomic_init(&run->caught_up_ticks, from->caught_up_ticks);
    atomic_init(&run->parent_found, from->parent_found);
    atomic_init(&run->finish,
        slice_is(from->finish, LEDGER_FINISH)       ? RUN_FINISHING
        : slice_is(from->finish, LEDGER_FINISH_NOW) ? RUN_FINISHING_NOW
                                                    : RUN_NOT_FINISHING);
}

/* The run as the kind sees it; its texts outlive changes of the lease. */
static void set_run(struct work *work, const struct run_args *args)
{
    const struct ledger_run *stored = &work->lease.run;
    struct run *run = &work->run;

    run->job = work->wish->job->name;
    run->id = arena_copy(&work->arena, stored->id).at;
    run->object = work->object;
    run->args = *args;
    run->requested_ticks = stored->requested_ticks;
    run->queued = stored->queue.len > 0;
    run->epoch = stored->epoch;
    run->previous_owner_crashed = work->lease.previous_owner_crashed ||
                                  work->lease.starts_over ||
                                  work->took_locks_over;
    run->accept_deletes = stored->accept_deletes;
    run->checkpoint = arena_copy(&work->arena, stored->checkpoint);
    run->phase = arena_copy(&work->arena, stored->phase);
    run->archive_folder = work->definition->archive_folder;
    run->deadline = &work->lease.deadline;
    run->host = &host;
    run->owner = work;
    set_counts(run, stored);
}

/* ---- what is written when it ends ---- */

static void say_outage(struct work *work, const char *what)
{
    work->result->end = WORK_OUTAGE;
    work->result->outcome = TW_BUSY;
    log_warn(work->object, "%s: %s", what, work->result->err.text);
    if (!work->lease.unstorable)
        return;
    /* The ledger is well: no other run is to wait for this one. */
    lease_hide_message_ms(&work->lease, HOLD_MAX_MS);
    work->result->end = WORK_LATER;
    work->result->until_ms = platform_boot_ms() + HOLD_MAX_MS;
    work->result->for_cause = true;
}

/*
 * A run that has succeeded has waited for its late requests. Of any other run
 * that may have some, the locks stay: who takes the lock of a run that has
 * ended waits for them (rule A4).
 */
static bool may_release_locks(const struct work *work)
{
    const struct ledger_run *run = &work->lease.run;

    return run->state == LEDGER_SUCCEEDED ||
           (run->attempt <= 1 && !work->unsure);
}

/* Locks go after the run has ended, in this order: who finds one of a run that
 * has ended takes it (locks.h). */
static void release_locks(struct work *work)
{
    if (work->wish->job->kind->table_job && may_release_locks(work))
        locks_release(work->wish->store, &work->lease.own, work->lease.run.job,
            work->lease.run.id);
}

static void set_ended(struct work *work)
{
    work->result->end = WORK_ENDED;
    work->result->state = work->lease.run.state;
    work->result->finished_ticks = work->lease.run.finished_ticks;
    release_locks(work);
}

/* By our clock, or by what the ledger's service shows. */
static bool is_lapsed(const struct work *work)
{
    return platform_boot_ms() >= work->lease.deadline_ms ||
           lease_clock_is_over(&work->lease.clock);
}

static void set_lapsed(struct work *work)
{
    work->result->end = WORK_OVERTAKEN;
    work->result->lapsed = is_lapsed(work);
    log_warn(work->object, "its time has run out: nothing more is touched");
}

/* What is stored is another end than ours: what a person asked for. */
static void end_as_asked(struct work *work)
{
    lease_delete_message(&work->lease);
    if (work->lease.run.state == LEDGER_CANCELLED) {
        set_ended(work);
        log_info(work->object, "cancelled; what it has done stays done");
    } else {
        work->result->end = WORK_PAUSED;
        log_info(work->object, "paused: `resume` continues it");
    }
}

/* How a write of the end, or of what is to be the end, went. True: it is
 * stored. False: the result is set. */
static bool is_written(struct work *work, enum lease_status word)
{
    switch (word) {
    case LEASE_VALID:
        return true;
    case LEASE_LOST:
        work->result->end = WORK_OVERTAKEN;
        log_warn(work->object, "overtaken by another worker");
        return false;
    case LEASE_UNKNOWN:
        if (lease_clock_is_over(&work->lease.clock))
            set_lapsed(work);
        else
            say_outage(work, "its end could not be put into the ledger");
        break;
    }
    return false;
}

/* True: the state is stored as the end wanted it. False: the result is set. */
static bool stored(struct work *work)
{
    enum ledger_state wanted = work->lease.run.state;

    if (!is_written(work, lease_release(&work->lease, &work->result->err)))
        return false;
    if (work->lease.run.state == wanted)
        return true;
    end_as_asked(work);
    return false;
}

/* Move to the state and store it. True: stored as wanted. */
static bool move_and_store(struct work *work, enum ledger_state state)
{
    if (ledger_move(&work->lease.run, state, &work->result->err) == TW_OK)
        return stored(work);
    say_outage(work, "its end is not possible");
    return false;
}

static void say_counts(struct work *work)
{
    const struct ledger_run *run = &work->lease.run;

    log_info(work->object,
        "succeeded: %lld read, %lld written, %lld deleted, %lld skipped, "
        "%lld requests, attempt %d",
        (long long)run->read, (long long)run->written, (long long)run->deleted,
        (long long)run->skipped, (long long)run->transactions,
        (int)run->attempt);
}

static void end_succeeded(struct work *work)
{
    struct ledger_run *run = &work->lease.run;

    ledger_set_error(run, "");
    run->finish = (struct slice){0};
    if (run->share >= 0)
        run->share = 1;
    work->lease.closes_job = work->run.closes_job;
    if (!move_and_store(work, LEDGER_SUCCEEDED))
        return;
    lease_delete_message(&work->lease);
    set_ended(work);
    say_counts(work);
}

/* A person stopped `run` itself: workers leave the run alone. */
static void end_paused(struct work *work)
{
    if (!move_and_store(work, LEDGER_PAUSED))
        return;
    lease_delete_message(&work->lease);
    work->result->end = WORK_PAUSED;
    log_info(work->object, "paused: `run` with this id, or `resume`, continues "
                           "it");
}

static void end_stopped(struct work *work)
{
    if (work->wish->resumes_paused &&
        work->place->stopping(work->place->context)) {
        end_paused(work);
        return;
    }
    if (!move_and_store(work, LEDGER_QUEUED))
        return;
    lease_hide_message(&work->lease, 0);
    work->result->end = WORK_STOPPED;
    log_info(work->object, "let go in order%s%s", work->err.text[0] ? ": " : "",
        work->err.text);
}

/* It waits for nothing now; what it was held for counts if it is held again. */
static void stop_waiting(struct work *work)
{
    struct ledger_run *run = &work->lease.run;

    work->held_for = arena_copy(&work->arena, run->waits_for);
    work->held_since_ticks = run->waits_since_ticks;
    work->held_ticks = lease_now_ticks(&work->lease) - run->waits_since_ticks;
    run->waits_since_ticks = 0;
    run->waits_for = (struct slice){0};
}

/* A run that was held for the same cause, and has not come further, is held
 * since then. */
static void keep_held_since(struct work *work, const char *waits_for)
{
    struct ledger_run *run = &work->lease.run;

    if (work->progress || !slice_is(work->held_for, waits_for))
        return;
    run->waits_for = ledger_text(run, work->held_for);
    run->waits_since_ticks = work->held_since_ticks;
}

/* Does a store of the configuration not respond, or refuse the credentials? */
static bool is_store_away(const struct work *work)
{
    const struct job_stores *stores = work->definition->stores;

    for (size_t i = 0; i < stores->count; i++) {
        const struct store *store = stores->stores[i];

        for (size_t k = 0; store && k < STORE_SERVICES; k++)
            if (breaker_is_away(&store->breakers[k]))
                return true;
        if (store && request_pool_is_silent(work->place->request_pool, store))
            return true;
    }
    return false;
}

static void set_later(struct work *work, int64_t until_ms)
{
    work->result->end = WORK_LATER;
    work->result->archive_full = work->run.archive_full;
    work->result->err = work->err;
    work->result->until_ms = until_ms;
}

/* The run is held, its slot is free. */
static void end_held(struct work *work, const char *waits_for)
{
    struct ledger_run *run = &work->lease.run;
    int64_t now_ticks = lease_now_ticks(&work->lease);

    keep_held_since(work, waits_for);
    if (lease_hold_run(run, waits_for, now_ticks,
            work->wish->resumes_paused ? RUN_HELD_TICKS : 0, work->err.text,
            &work->result->err) != TW_OK ||
        !move_and_store(work, LEDGER_WAITING))
        return;
    lease_hide_message(&work->lease, run->resumes_ticks);
    set_later(work, lease_boot_ms(&work->lease, run->resumes_ticks));
    work->result->for_cause = true;
    /* `run` prints each new cause itself. */
    if (run->waits_since_ticks == now_ticks && !work->wish->resumes_paused)
        log_warn(work->object, "is held%s: %s",
            run->ending.len > 0 ? "" : ", no failure of its own",
            work->err.text);
}

/* An error of the service or of our machine, never a failure of the job. What
 * lasts holds the run; what may have passed already is tried again soon. */
static void end_outage(struct work *work)
{
    int64_t hide_ms = work->wish->message ? OUTAGE_HIDE_MS : RUN_AGAIN_MS;

    if (work->run.archive_full) {
        end_held(work, LEDGER_WAITS_FOR_ARCHIVE);
    } else if (is_store_away(work)) {
        end_held(work, LEDGER_WAITS_FOR_STORE);
    } else if (move_and_store(work, LEDGER_QUEUED)) {
        lease_hide_message_ms(&work->lease, hide_ms);
        set_later(work, platform_boot_ms() + hide_ms);
        log_warn(
            work->object, "let go, no failure of its own: %s", work->err.text);
    }
}

/* The wake-up message of the run. One that no queue would take goes without its
 * arguments: they are in the ledger, where `poison retry` finds them. */
static void compose_bell(const struct ledger_run *run, struct buf *to)
{
    struct slice args = run->args;

    for (;;) {
        buf_clear(to);
        message_compose(run->job, args, run->id, run->requested_ticks,
            run->traceparent, run->accept_deletes, to);
        if (!to->overflow || slice_is(args, "{}"))
            return;
        args = slice_of("{}");
    }
}

/* A run that `run` has made has no message, and no queue for a copy. */
static bool wants_copy(const struct work *work)
{
    return work->lease.run.queue.len > 0;
}

/* The message's body, or the bell of a run that was found without one. */
static enum tw_err put_copy(struct work *work, bool may_be_there)
{
    struct lease *lease = &work->lease;
    struct ledger_run *run = &lease->run;
    struct poison_copy copy = {.queue = run->queue,
        .text = {lease->text, lease->text_len},
        .may_be_there = may_be_there};
    struct buf bell;
    struct err err;
    enum tw_err outcome;

    if (!wants_copy(work))
        return TW_OK;
    if (lease->text)
        return lease_put_poison_copy(lease, &copy, &work->err);
    buf_init(&bell, QUEUE_MAX_MESSAGE_BYTES);
    compose_bell(run, &bell);
    copy.text = buf_slice(&bell);
    outcome = lease_put_poison_copy(lease, &copy, &err);
    buf_done(&bell);
    /* What stands in the ledger is the name of no queue: none can have a copy,
     * and the run is to end all the same, for its own reason. */
    if (outcome == TW_INVALID)
        return TW_OK;
    if (outcome != TW_OK)
        work->err = err;
    return outcome;
}

static void set_error(struct work *work, const char *reason)
{
    struct ledger_run *run = &work->lease.run;
    struct buf text;

    buf_init(&text, 4 * LEDGER_MAX_ERROR_BYTES);
    buf_add_text(&text, reason);
    if (run->failed_entities.len > 0) {
        buf_add_text(&text, "; the first that failed:\n");
        buf_add_slice(&text, run->failed_entities);
    }
    ledger_set_error(run, buf_text(&text));
    buf_done(&text);
}

/* Copy to the poison queue, ledger, original: in this order. Without the copy
 * the run is held; its work is over, so nothing is repeated but this. */
static void end_with_copy(struct work *work, enum ledger_state state,
    const char *reason, bool may_be_there)
{
    if (put_copy(work, may_be_there) != TW_OK) {
        err_prefix(&work->err, "it has failed, and its message cannot be put "
                               "into the poison queue");
        end_held(work, LEDGER_WAITS_FOR_STORE);
        return;
    }
    set_error(work, reason);
    if (!move_and_store(work, state))
        return;
    lease_delete_message(&work->lease);
    set_ended(work);
    (void)err_fail(&work->result->err, TW_INVALID, "%s", reason);
    log_error(work->object, "%s: %s", ledger_state_name(state), reason);
}

/* Before the copy the ledger gets the reason: a worker that comes after this
 * attempt knows that the work is over, and that the copy may be there. */
static void end_badly(
    struct work *work, enum ledger_state state, const char *reason)
{
    if (wants_copy(work) &&
        !is_written(work, lease_store_ending(
                              &work->lease, state, reason, &work->result->err)))
        return;
    end_with_copy(work, state, reason, false);
}

/* An attempt before this one has come that far. */
static bool ends_as_before(struct work *work)
{
    enum ledger_state state;
    struct slice reason;

    if (!lease_ending(&work->lease, &state, &reason))
        return false;
    reason = arena_copy(&work->arena, reason);
    stop_waiting(work);
    end_with_copy(work, state, reason.at, true);
    return true;
}

static void end_failed(struct work *work)
{
    end_badly(work, LEDGER_FAILED, work->err.text);
}

/* Put the run aside until ticks; waits_for: as ledger_wait() takes it. */
static void set_aside(
    struct work *work, const char *waits_for, int64_t until_ticks)
{
    struct ledger_run *run = &work->lease.run;

    if (ledger_wait(run, waits_for, lease_now_ticks(&work->lease), until_ticks,
            &work->result->err) != TW_OK ||
        !move_and_store(work, LEDGER_WAITING))
        return;
    lease_hide_message(&work->lease, run->resumes_ticks);
    work->result->end = WORK_LATER;
    work->result->until_ms = lease_boot_ms(&work->lease, run->resumes_ticks);
}

static const char *const waits[] = {
    [RUN_WAITS_FOR_NOTHING] = LEDGER_WAITS_FOR_SETTLE,
    [RUN_WAITS_FOR_SETTLE] = LEDGER_WAITS_FOR_SETTLE,
    [RUN_WAITS_FOR_ROUND] = LEDGER_WAITS_FOR_ROUND,
};

/* What counts by another store's clock is translated to the ledger's, whose
 * Date is cut to its second. */
static int64_t resumes_at(const struct work *work)
{
    const struct run *run = &work->run;

    if (run->resumes_ms == 0)
        return run->resumes_ticks;
    return lease_now_ticks(&work->lease) + TICKS_PER_S +
           (run->resumes_ms - platform_boot_ms()) * TICKS_PER_MS;
}

static void end_waiting(struct work *work)
{
    char time[TEXT_TIME_MAX];

    work->lease.run.failures = 0;
    ledger_set_error(&work->lease.run, "");
    set_aside(work, waits[work->run.waits_for], resumes_at(work));
    if (work->result->end == WORK_LATER)
        log_info(work->object, "waits until %s",
            text_from_ticks(work->lease.run.resumes_ticks, time));
}

static void end_try_again(struct work *work)
{
    struct ledger_run *run = &work->lease.run;
    int64_t wait_ms;
    char *reason;

    if (work->progress)
        run->failures = 0;
    else if (run->failures < INT32_MAX)
        run->failures++;
    if (run->failures >= work->wish->max_attempts) {
        reason = mem_format("%d attempts failed without progress: %s",
            (int)run->failures, work->err.text);
        end_badly(work, LEDGER_POISONED, reason);
        mem_free(reason);
        return;
    }
    wait_ms = work_retry_ms(run->failures);
    set_error(work, work->err.text);
    set_aside(work, "", lease_now_ticks(&work->lease) + wait_ms * TICKS_PER_MS);
    if (work->result->end == WORK_LATER)
        log_warn(work->object, "attempt %d failed, again in %lld s: %s",
            (int)run->attempt, (long long)wait_ms / 1000, work->err.text);
}

/*
 * The deadline was closed. Overtaken: nothing is touched. Where the lease has
 * not expired (too little time was left for a request) the run is let go in
 * order.
 */
static void end_overtaken(struct work *work)
{
    if (work->word == LEASE_VALID &&
        deadline_is_open(&work->lease.own, platform_boot_ms())) {
        end_stopped(work);
        return;
    }
    set_lapsed(work);
}

static void (*const ends[])(struct work *) = {
    [RUN_SUCCEEDED] = end_succeeded,
    [RUN_WAITING] = end_waiting,
    [RUN_FAILED] = end_failed,
    [RUN_TRY_AGAIN] = end_try_again,
    [RUN_OUTAGE] = end_outage,
    [RUN_STOPPED] = end_stopped,
    [RUN_OVERTAKEN] = end_overtaken,
};

/* ---- the kind at work ---- */

static void watch(struct work *work, struct run *run)
{
    if (work->place->watch)
        work->place->watch(work->place->context, run);
}

static enum run_end run_kind(struct work *work)
{
    const struct job *job = work->wish->job;
    struct run *run = &work->run;
    enum run_end end;

    run->request_pool =
        pool_client_new(work->place->request_pool, &work->lease.deadline);
    pool_client_of(run->request_pool, job->name, job->max_entities_per_second);
    if (!work->wish->resumes_paused)
        request_pool_watch_silence(run->request_pool, work->wish->store);
    run->ledger = work->wish->store;
    run->ledger_table = LEDGER_TABLE;
    run->ends_load = job->kind->ends_load;
    if (job->failures)
        work->failures = failures_new(work->definition->archive_folder,
            job->failures, job->name, run->id, work->object);
    work->renewal = renewal_start(
        work->place->renewer, &work->lease, run, run->request_pool);
    watch(work, run);
    end = job->kind->run(job, work->definition->stores, run, &work->err);
    watch(work, NULL);
    work->word = renewal_stop(work->renewal, &work->progress);
    work->renewal = NULL;
    failures_free(work->failures);
    work->failures = NULL;
    work->unsure = request_pool_indeterminate(run->request_pool);
    pool_client_free(run->request_pool);
    return end;
}

/* What the renewer and the ledger's clock know overrides what the kind says. */
static enum run_end end_of(const struct work *work, enum run_end end)
{
    if (lease_clock_is_over(&work->lease.clock))
        return RUN_OVERTAKEN;
    return work->word == LEASE_LOST ? RUN_OVERTAKEN : end;
}

/* ---- a lease that came to nothing ---- */

static void lease_ended(struct work *work)
{
    work->unsure = true; /* of another's attempt nothing is known */
    set_ended(work);
    work->result->already = true;
    (void)err_fail(&work->result->err, TW_INVALID, "%.*s",
        SLICE_ARG(work->lease.run.error));
    lease_delete_message(&work->lease);
    log_info(work->object, "%s already: nothing to do",
        ledger_state_name(work->lease.run.state));
}

static void lease_held(struct work *work)
{
    char time[TEXT_TIME_MAX];

    lease_hide_message(&work->lease, work->lease.until_ticks);
    work->result->end = WORK_LATER;
    work->result->held = work->lease.run.owner.len > 0;
    work->result->for_cause = ledger_is_held(&work->lease.run);
    if (work->result->for_cause)
        (void)err_fail(&work->result->err, TW_CONFLICT, "%.*s",
            SLICE_ARG(work->lease.run.error));
    work->result->until_ms =
        lease_boot_ms(&work->lease, work->lease.until_ticks);
    log_debug(work->object, "%s until %s at least",
        work->result->held ? "another owner has it" : "not its time",
        text_from_ticks(work->lease.until_ticks, time));
}

static void lease_paused(struct work *work)
{
    lease_delete_message(&work->lease);
    work->result->end = WORK_PAUSED;
    log_info(work->object, "is paused: its message is deleted");
}

static void lease_missing(struct work *work)
{
    work->result->end = WORK_MISSING;
}

static void lease_refused(struct work *work)
{
    work->result->end = WORK_REFUSED;
}

static void lease_outage(struct work *work)
{
    work->result->end = WORK_OUTAGE;
    lease_hide_message_ms(&work->lease, OUTAGE_HIDE_MS);
}

static void (*const misses[])(struct work *) = {
    [LEASE_RUN_ENDED] = lease_ended,
    [LEASE_HELD] = lease_held,
    [LEASE_RUN_PAUSED] = lease_paused,
    [LEASE_RUN_MISSING] = lease_missing,
    [LEASE_REFUSED] = lease_refused,
    [LEASE_OUTAGE] = lease_outage,
};

/* ---- before the kind works ---- */

/* How long a run waits before it tries again to get its turn: longer, the
 * longer it has waited. */
#define TURN_MIN_TICKS (2 * TICKS_PER_S)
#define TURN_MAX_TICKS (30 * TICKS_PER_S)

static void end_without_turn(struct work *work)
{
    struct ledger_run *run = &work->lease.run;
    int64_t now = lease_now_ticks(&work->lease);
    int64_t waited =
        run->waits_since_ticks > 0 ? now - run->waits_since_ticks : 0;
    int64_t wait = waited / 4;

    if (wait < TURN_MIN_TICKS)
        wait = TURN_MIN_TICKS;
    if (wait > TURN_MAX_TICKS)
        wait = TURN_MAX_TICKS;
    ledger_set_error(run, work->err.text);
    if (work->lease.binds) /* nothing has been done under it */
        run->definition = (struct slice){0};
    work->result->err = work->err;
    work->result->for_cause = true;
    set_aside(work, LEDGER_WAITS_FOR_TURN, now + wait);
    if (work->result->end == WORK_LATER)
        log_info(work->object, "%s", work->err.text);
}

/* Rule A5: a finished copy's job takes no more runs. False: the run has been
 * ended, or put back. */
static bool is_job_open(struct work *work)
{
    struct retry_call call = retry_call(&work->lease.own, RETRY_BUSY_MS, 0);
    struct slice by = {0};
    bool closed = false;
    enum tw_err outcome;

    do
        outcome = ledger_is_closed(work->wish->store, &call.exchange,
            work->lease.run.job, &work->arena, &closed, &by);
    while (retry_call_again(&call, outcome));
    if (outcome != TW_OK) {
        (void)err_fail(&work->err, outcome, "%s", call.exchange.err.text);
        end_outage(work);
        return false;
    }
    if (closed) {
        (void)err_fail(&work->err, TW_CONFLICT,
            "job %s was closed by the `finish` of run %.*s: `run --reopen` "
            "opens it again",
            work->wish->job->name, SLICE_ARG(by));
        end_failed(work);
    }
    return !closed;
}

/* Rules L1, L2. False: the run waits, or was put back. */
static bool get_turn(struct work *work)
{
    const struct ledger_run *run = &work->lease.run;
    struct locks_request request = {.store = work->wish->store,
        .deadline = &work->lease.own,
        .job = work->wish->job,
        .stores = work->definition->stores,
        .id = run->id,
        .requested_ticks = run->requested_ticks};

    switch (locks_take(&request, &work->took_locks_over, &work->err)) {
    case LOCKS_TAKEN:
        return true;
    case LOCKS_BLOCKED:
        end_without_turn(work);
        return false;
    case LOCKS_OUTAGE:
        break;
    }
    end_outage(work);
    return false;
}

static bool may_begin(struct work *work)
{
    return !work->wish->job->kind->table_job ||
           (is_job_open(work) && get_turn(work));
}

/* ---- the whole ---- */

/* A store or a disk was why it had to wait: how long. */
static void say_held(const struct work *work)
{
    if (slice_is(work->held_for, LEDGER_WAITS_FOR_STORE) ||
        slice_is(work->held_for, LEDGER_WAITS_FOR_ARCHIVE))
        log_info(work->object, "continued, after it was held for %lld s",
            (long long)(work->held_ticks / TICKS_PER_S));
}

static void work_with_lease(struct work *work, const struct run_args *args)
{
    struct ledger_run *run = &work->lease.run;
    struct run_args own;
    enum run_end end;

    log_info(work->object, "claimed, attempt %d%s", (int)run->attempt,
        work->lease.previous_owner_crashed
            ? ", from an owner that did not let go"
            : "");
    if (ends_as_before(work))
        return;
    if (args == NULL) {
        if (message_args_parse(work->wish->job, run->args, &work->arena, &own,
                &work->err) != TW_OK) {
            end_badly(work, LEDGER_POISONED, work->err.text);
            return;
        }
        args = &own;
    }
    if (!may_begin(work))
        return;
    stop_waiting(work);
    set_run(work, args);
    end = end_of(work, run_kind(work));
    if (end != RUN_OUTAGE)
        say_held(work);
    ends[end](work);
}

void work_attempt(const struct work_place *place,
    const struct definition *definition, const struct lease_request *wish,
    const struct run_args *args, struct work_result *ret)
{
    struct work work = {.place = place,
        .definition = definition,
        .wish = wish,
        .word = LEASE_VALID,
        .result = ret};
    enum lease_outcome outcome;

    *ret = (struct work_result){.end = WORK_OUTAGE};
    arena_init(&work.arena);
    work.object = arena_format(
        &work.arena, "run %s/%.*s", wish->job->name, SLICE_ARG(wish->id))
                      .at;
    lease_init(&work.lease, wish);
    outcome = lease_acquire(&work.lease, wish, &ret->outcome, &ret->err);
    if (outcome == LEASE_ACQUIRED)
        work_with_lease(&work, args);
    else
        misses[outcome](&work);
    lease_done(&work.lease);
    arena_done(&work.arena);
}
