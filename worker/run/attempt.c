/* SPDX-License-Identifier: MIT */
/* One attempt at one run, from acquiring the lease to its release. */
#include "worker/run/attempt.h"

#include <stdarg.h>

#include "jobs/engine/call.h"
#include "worker/base/arena.h"
#include "worker/base/hash.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/activity.h"
#include "worker/run/bound.h"
#include "worker/run/failures.h"
#include "worker/run/ledger_change.h"
#include "worker/run/locks.h"
#include "worker/run/message.h"
#include "worker/run/renewer.h"
#include "worker/run/report.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"

#define RETRY_MAX_MS INT64_C(3600000)
/* Maximum length of a failed entity's reason, in Error and in the log. */
#define FAILED_WHY_MAX_BYTES 200
/* How long a message is hidden after an attempt that ended with an outage. */
#define OUTAGE_HIDE_MS 5000
/* Maximum wait before the `run` command retries a held run: shorter than the
 * wait of a worker, because an operator waits for the run. */
#define RUN_HELD_TICKS (10 * TICKS_PER_S)
/* Wait before the `run` command retries after an outage that may be over. */
#define RUN_AGAIN_MS 1000

struct attempt {
    const struct attempt_environment *environment;
    const struct definition *definition;
    const struct lease_request *request;
    struct lease lease;
    struct arena arena;        /* memory of the arguments from the ledger, of
                                  names, and of the texts of run */
    struct log_run log;        /* the run, for log lines; texts in arena */
    int64_t begun_ms;          /* when the attempt began; boot clock */
    struct run run;            /* the run as the kind sees it */
    struct renewal *renewal;   /* NULL except while the kind runs */
    struct failures *failures; /* the `failures:` file; NULL: none */
    enum lease_status lease_status; /* status of the lease when the renewal
                                       stopped */
    bool took_locks_over; /* the attempt took a lock that an ended run had not
                             released */
    bool indeterminate; /* a write of this attempt had no response and may still
                           be carried out */
    bool progress;
    struct slice held_for;    /* WaitsFor before this attempt; in arena */
    int64_t held_since_ticks; /* WaitsSince before this attempt */
    int64_t held_ticks;       /* how long the run waited before this attempt */
    const char *away; /* name of the store that find_store_away() found; NULL:
                         none, and count_end() uses the ledger's store */
    struct err err;   /* reason why the kind, or a step before the kind,
                         failed */
    struct attempt_result *result;
};

int64_t attempt_retry_ms(int64_t failures)
{
    int64_t wait_ms = 1000;

    while (failures-- > 1 && wait_ms < RETRY_MAX_MS)
        wait_ms *= 2;
    return wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
}

/* ---- callbacks of the kind ---- */

static struct attempt *attempt_of(struct run *run)
{
    return run->owner;
}

static bool on_stopping(struct run *run)
{
    struct attempt *attempt = attempt_of(run);

    return renewal_status(attempt->renewal) != LEASE_VALID ||
           (!run->in_load &&
               (attempt->lease.only_load ||
                   renewal_asked(attempt->renewal) != LEASE_ASKED_NOTHING)) ||
           attempt->environment->stopping(attempt->environment->context);
}

static void on_save(struct run *run, struct slice checkpoint, bool progress)
{
    renewal_save(attempt_of(run)->renewal, checkpoint, progress);
}

static enum tw_err on_phase(struct run *run, const char *phase,
    struct slice checkpoint, struct err *err)
{
    struct attempt *attempt = attempt_of(run);
    enum tw_err outcome =
        renewal_phase(attempt->renewal, phase, checkpoint, err);

    if (outcome == TW_OK)
        run->phase = arena_copy(&attempt->arena, slice_of(phase));
    return outcome;
}

static enum tw_err callback_is_open(struct run *run, struct slice job,
    struct slice id, bool *ret, struct err *err)
{
    struct attempt *attempt = attempt_of(run);
    struct ledger_run other;
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    ledger_run_init(&other);
    outcome = call_get(run->pool_client, attempt->request->store, LEDGER_TABLE,
        job, id, &page, NULL, err);
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

static void on_failed(struct run *run, const struct run_failure *failure)
{
    struct buf line;
    int logged;

    atomic_fetch_add(&run->counts.failed, 1);

    buf_init(&line, 4096);
    buf_add_format(&line, "%s ", failure->table);
    entity_add_keys(&line, failure->partition_key, failure->row_key);
    buf_add_text(&line, ": ");
    text_repair(&line, text_cut(slice_of(failure->why), FAILED_WHY_MAX_BYTES));
    logged = renewal_failed(attempt_of(run)->renewal, buf_text(&line));
    if (logged < LEDGER_FAILED_LOGGED_MAX)
        log_run_warn(run_log(run), "%s", buf_text(&line));
    if (logged == LEDGER_FAILED_LOGGED_MAX)
        log_run_warn(run_log(run),
            "more entities fail; the log names at most %d of a run's failed "
            "entities",
            LEDGER_FAILED_LOGGED_MAX);
    if (attempt_of(run)->failures)
        failures_add(attempt_of(run)->failures, failure);
    buf_done(&line);
}

static void on_forget_failed(struct run *run, int64_t count)
{
    atomic_store(&run->counts.failed, count);
    if (count == 0)
        renewal_forget_failed(attempt_of(run)->renewal);
}

static void on_note(struct run *run, const char *sentence)
{
    log_run_info(run_log(run), "%s", sentence);
    renewal_note(attempt_of(run)->renewal, sentence);
}

static const struct run_callbacks callbacks = {
    .stopping = on_stopping,
    .save = on_save,
    .phase = on_phase,
    .is_open = callback_is_open,
    .failed = on_failed,
    .note = on_note,
    .forget_failed = on_forget_failed,
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

/* Set the run that the kind sees. Its texts are copies, because the texts of
 * lease->run are freed when lease->run changes. */
static void set_run(struct attempt *attempt, const struct run_args *args)
{
    const struct ledger_run *stored = &attempt->lease.run;
    struct run *run = &attempt->run;

    run->job = attempt->request->job->name;
    run->id = arena_copy(&attempt->arena, stored->id).at;
    run->log = &attempt->log;
    run->args = *args;
    run->requested_ticks = stored->requested_ticks;
    run->queued = stored->queue.len > 0;
    run->epoch = stored->epoch;
    run->previous_owner_crashed =
        attempt->lease.keeps_crash || attempt->took_locks_over;
    atomic_init(&run->accept_deletes, stored->accept_deletes);
    run->checkpoint = arena_copy(&attempt->arena, stored->checkpoint);
    run->phase = arena_copy(&attempt->arena, stored->phase);
    run->archive_folder = attempt->definition->archive_folder;
    run->deadline = &attempt->lease.deadline;
    run->callbacks = &callbacks;
    run->owner = attempt;
    set_counts(run, stored);
}

/*
 * ---- how an attempt ends ----
 *
 * Each end_*() is one way to end: it stores the run's state if the lease allows
 * that, hides or deletes the message, sets attempt->result, and logs the end.
 * set_ended() and set_deferred() are their common steps.
 */

/* Returns the duration of the run, from its start to its end by the ledger's
 * clock. If this attempt was the only one, its own measurement is used, which
 * is more precise. */
static int64_t duration_ms(const struct attempt *attempt)
{
    const struct ledger_run *run = &attempt->lease.run;

    if (run->attempt <= 1 || run->started_ticks == 0 ||
        run->finished_ticks < run->started_ticks)
        return platform_boot_ms() - attempt->begun_ms;
    return (run->finished_ticks - run->started_ticks) / TICKS_PER_MS;
}

/* Log the end of the run, or of its attempt, with its counts. */
TW_PRINTF(3, 4)
static void log_ended(
    struct attempt *attempt, enum log_level level, const char *format, ...)
{
    struct log_number counts[REPORT_COUNTS];
    va_list args;

    report_counts(&attempt->lease.run, duration_ms(attempt), counts);
    va_start(args, format);
    log_run_vline(level, &attempt->log, counts, format, args);
    va_end(args);
}

/* End an attempt that could not store the state of the run in the ledger. what:
 * the failure, for the log; result->err has the cause of the failure. */
static void end_unwritten(struct attempt *attempt, const char *what)
{
    attempt->result->end = ATTEMPT_OUTAGE;
    attempt->result->outcome = TW_BUSY;
    log_run_warn(&attempt->log, "%s: %s", what, attempt->result->err.text);
    if (!attempt->lease.unstorable)
        return;
    /* Only this run's entity cannot be written. The ledger works, so the run
     * must not delay other runs. */
    lease_hide_message_ms(&attempt->lease, HOLD_MAX_MS);
    attempt->result->end = ATTEMPT_DEFERRED;
    attempt->result->until_ms = platform_boot_ms() + HOLD_MAX_MS;
    attempt->result->for_cause = true;
}

/*
 * May the run's locks be released? A late request is a request that got no
 * response and may still be carried out (rule A4). A run that succeeded has
 * waited for its late requests. Any other run that may have late requests keeps
 * its locks. The next run that needs such a lock then finds that the run with
 * the lock has ended, and waits until no late request can arrive.
 */
static bool may_release_locks(const struct attempt *attempt)
{
    const struct ledger_run *run = &attempt->lease.run;

    return run->state == LEDGER_SUCCEEDED ||
           (run->attempt <= 1 && !attempt->indeterminate);
}

/* Call after the run's end is stored. Locks that cannot be deleted are taken
 * over by the next run that needs them (locks.h). */
static void release_locks(struct attempt *attempt)
{
    if (attempt->request->job->kind->table_job)
        locks_release(attempt->request->store, &attempt->lease.own,
            attempt->lease.run.job, attempt->lease.run.id,
            may_release_locks(attempt));
}

static void set_ended(struct attempt *attempt)
{
    attempt->result->end = ATTEMPT_RUN_ENDED;
    attempt->result->state = attempt->lease.run.state;
    attempt->result->finished_ticks = attempt->lease.run.finished_ticks;
    release_locks(attempt);
}

/* End an attempt whose deadline is closed, without another write. Sets
 * result->lease_expired to true if the lease has expired by this machine's
 * clock, or by the Dates of the ledger's responses. */
static void end_lease_expired(struct attempt *attempt)
{
    const struct lease *lease = &attempt->lease;

    attempt->result->end = ATTEMPT_LEASE_LOST;
    attempt->result->lease_expired = platform_boot_ms() >= lease->deadline_ms ||
                                     lease_clock_is_over(&lease->clock);
    log_run_warn(&attempt->log, "the lease expired; no further writes");
}

/* Call if lease_release() has stored the state that an operator asked for,
 * instead of the state that the attempt had set. */
static void end_as_asked(struct attempt *attempt)
{
    lease_delete_message(&attempt->lease);
    if (attempt->lease.run.state == LEDGER_CANCELLED) {
        set_ended(attempt);
        log_ended(attempt, LOG_INFO, "cancelled; what it has done stays done");
    } else {
        attempt->result->end = ATTEMPT_PAUSED;
        log_ended(attempt, LOG_INFO, "paused: `resume` continues it");
    }
}

/* End the attempt after the run's end, or Ending, could not be stored. status:
 * the result of that write, which is not LEASE_VALID. */
static void end_not_stored(struct attempt *attempt, enum lease_status status)
{
    if (status == LEASE_LOST) {
        attempt->result->end = ATTEMPT_LEASE_LOST;
        log_run_warn(&attempt->log, "lease lost: another worker has the run");
    } else if (lease_clock_is_over(&attempt->lease.clock)) {
        end_lease_expired(attempt);
    } else {
        end_unwritten(
            attempt, "the end of the run could not be written to the ledger");
    }
}

/* Set the run's state and release the lease. True: the run is stored with this
 * state. False: the run is not stored, or it is stored with the state that an
 * operator asked for. In both cases this function has set the attempt's
 * result. */
static bool move_and_store(struct attempt *attempt, enum ledger_state state)
{
    struct lease *lease = &attempt->lease;
    struct err *err = &attempt->result->err;
    enum lease_status status;

    if (ledger_move(&lease->run, state, err) != TW_OK) {
        end_unwritten(attempt, "the end of the run cannot be stored");
        return false;
    }
    status = lease_release(lease, err);
    if (status != LEASE_VALID)
        end_not_stored(attempt, status);
    else if (lease->run.state != state)
        end_as_asked(attempt);
    return status == LEASE_VALID && lease->run.state == state;
}

/*
 * Delete the poison copy that the run had before a `retry`. (`retry` itself
 * deletes it, except if no queue serves the run.) id, receipt: PoisonId and
 * PoisonReceipt of that copy; empty: there was none, or its receipt is not
 * known.
 */
static void delete_former_copy(
    struct attempt *attempt, struct slice id, struct slice receipt)
{
    if (id.len > 0 && receipt.len > 0)
        lease_delete_poison_copy(&attempt->lease, id, receipt);
}

static void end_succeeded(struct attempt *attempt)
{
    struct ledger_run *run = &attempt->lease.run;

    ledger_set_error(run, "");
    run->finish = (struct slice){0};
    if (run->share >= 0)
        run->share = 1;
    attempt->lease.closes_job = attempt->run.closes_job;
    if (!move_and_store(attempt, LEDGER_SUCCEEDED))
        return;
    lease_delete_message(&attempt->lease);
    delete_former_copy(attempt, run->poison_id, run->poison_receipt);
    set_ended(attempt);
    log_ended(attempt, LOG_INFO,
        "succeeded: %lld read, %lld written, %lld deleted, %lld skipped, "
        "%lld requests, attempt %d, %.3f s",
        (long long)run->read, (long long)run->written, (long long)run->deleted,
        (long long)run->skipped, (long long)run->transactions,
        (int)run->attempt, (double)duration_ms(attempt) / 1000);
}

/* Pause the run, because an operator stopped the `run` command, and workers
 * must not continue the run. */
static void end_paused(struct attempt *attempt)
{
    if (!move_and_store(attempt, LEDGER_PAUSED))
        return;
    lease_delete_message(&attempt->lease);
    attempt->result->end = ATTEMPT_PAUSED;
    log_run_info(&attempt->log,
        "paused: `run` with this id, or `resume`, continues "
        "it");
}

static void end_stopped(struct attempt *attempt)
{
    if (attempt->request->resumes_paused &&
        attempt->environment->stopping(attempt->environment->context)) {
        end_paused(attempt);
        return;
    }
    if (!move_and_store(attempt, LEDGER_QUEUED))
        return;
    lease_hide_message(&attempt->lease, 0);
    attempt->result->end = ATTEMPT_STOPPED;
    log_run_info(&attempt->log, "lease released, run queued again%s%s",
        attempt->err.text[0] ? ": " : "", attempt->err.text);
}

/* End the wait of the run. The attempt keeps WaitsFor and WaitsSince in case
 * the run is held again. */
static void stop_waiting(struct attempt *attempt)
{
    struct ledger_run *run = &attempt->lease.run;

    attempt->held_for = arena_copy(&attempt->arena, run->waits_for);
    attempt->held_since_ticks = run->waits_since_ticks;
    attempt->held_ticks =
        lease_now_ticks(&attempt->lease) - run->waits_since_ticks;
    run->waits_since_ticks = 0;
    run->waits_for = (struct slice){0};
}

/* If the run is held again for the same cause, without progress, keep its
 * WaitsSince. */
static void keep_held_since(struct attempt *attempt, const char *waits_for)
{
    struct ledger_run *run = &attempt->lease.run;

    if (attempt->progress || !slice_is(attempt->held_for, waits_for))
        return;
    run->waits_for = ledger_text(run, attempt->held_for);
    run->waits_since_ticks = attempt->held_since_ticks;
}

static bool is_away(const struct attempt *attempt, const struct store *store)
{
    for (size_t i = 0; i < STORE_SERVICES; i++)
        if (breaker_is_away(&store->breakers[i]))
            return true;
    return request_pool_is_silent(attempt->environment->request_pool, store);
}

/* Set attempt->away to the first store of the configuration that does not
 * respond, or refuses the credentials. False: there is none. */
static bool find_store_away(struct attempt *attempt)
{
    const struct job_stores *stores = attempt->definition->stores;

    for (size_t i = 0; i < stores->count && !attempt->away; i++) {
        const struct store *store = stores->stores[i];

        if (store && is_away(attempt, store))
            attempt->away = store->name;
    }
    return attempt->away != NULL;
}

static void set_deferred(struct attempt *attempt, int64_t until_ms)
{
    attempt->result->end = ATTEMPT_DEFERRED;
    attempt->result->archive_full = attempt->run.archive_full;
    attempt->result->err = attempt->err;
    attempt->result->until_ms = until_ms;
}

/* Hold the run (lease_hold_run()) and release the lease, so that the worker
 * thread is free. */
static void end_held(struct attempt *attempt, const char *waits_for)
{
    struct ledger_run *run = &attempt->lease.run;
    int64_t now_ticks = lease_now_ticks(&attempt->lease);

    keep_held_since(attempt, waits_for);
    if (lease_hold_run(run, waits_for, now_ticks,
            attempt->request->resumes_paused ? RUN_HELD_TICKS : 0,
            attempt->err.text, &attempt->result->err) != TW_OK ||
        !move_and_store(attempt, LEDGER_WAITING))
        return;
    lease_hide_message(&attempt->lease, run->resumes_ticks);
    set_deferred(attempt, lease_boot_ms(&attempt->lease, run->resumes_ticks));
    attempt->result->for_cause = true;
    /* The `run` command prints each new cause itself. */
    if (run->waits_since_ticks == now_ticks &&
        !attempt->request->resumes_paused)
        log_run_warn(&attempt->log, "is held%s: %s",
            run->ending.len > 0 ? "" : ", but has not failed",
            attempt->err.text);
}

/* Call after an error that the service or this machine caused, not the job. If
 * a store does not respond or cannot be opened, or the disk of the archive is
 * full, hold the run. After any other error retry the run soon, because the
 * cause may be gone already. */
static void end_outage(struct attempt *attempt)
{
    int64_t hide_ms = attempt->request->message ? OUTAGE_HIDE_MS : RUN_AGAIN_MS;

    if (attempt->run.archive_full) {
        end_held(attempt, LEDGER_WAITS_FOR_ARCHIVE);
    } else if (attempt->run.store_closed) {
        end_held(attempt, LEDGER_WAITS_FOR_STORE);
    } else if (find_store_away(attempt)) {
        end_held(attempt, LEDGER_WAITS_FOR_STORE);
    } else if (move_and_store(attempt, LEDGER_QUEUED)) {
        lease_hide_message_ms(&attempt->lease, hide_ms);
        set_deferred(attempt, platform_boot_ms() + hide_ms);
        log_run_warn(&attempt->log, "queued again because of an outage: %s",
            attempt->err.text);
    }
}

/* Write the run's wake-up message to `to`. If the message is too long for a
 * queue, leave out the arguments, which `poison retry` finds in the ledger. */
static void compose_wake_up(const struct ledger_run *run, struct buf *to)
{
    struct slice args = run->args;

    for (;;) {
        buf_clear(to);
        message_compose(run->job, args, run->id, run->requested_ticks,
            run->traceparent, to);
        if (!to->overflow || slice_is(args, "{}"))
            return;
        args = slice_of("{}");
    }
}

/* Must a poison copy be put? A run that the `run` command created has no queue
 * and needs no poison copy. */
static bool wants_copy(const struct attempt *attempt)
{
    return attempt->lease.run.queue.len > 0;
}

/* Put the message's body, or the wake-up message of an orphan, into the poison
 * queue. */
static enum tw_err put_copy(struct attempt *attempt, bool may_be_there)
{
    struct lease *lease = &attempt->lease;
    struct ledger_run *run = &lease->run;
    struct poison_copy copy = {.queue = run->queue,
        .text = {lease->text, lease->text_len},
        .may_be_there = may_be_there};
    struct buf wake_up;
    struct err err;
    enum tw_err outcome;

    if (!wants_copy(attempt))
        return TW_OK;
    if (lease->text)
        return lease_put_poison_copy(lease, &copy, &attempt->err);
    buf_init(&wake_up, QUEUE_MAX_MESSAGE_BYTES);
    compose_wake_up(run, &wake_up);
    copy.text = buf_slice(&wake_up);
    outcome = lease_put_poison_copy(lease, &copy, &err);
    buf_done(&wake_up);
    /* The run's Queue in the ledger is not a valid queue name, so no poison
     * copy can be put, and the run ends without one. */
    if (outcome == TW_INVALID)
        return TW_OK;
    if (outcome != TW_OK)
        attempt->err = err;
    return outcome;
}

static void set_error(struct attempt *attempt, const char *reason)
{
    struct ledger_run *run = &attempt->lease.run;
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

/* Put the poison copy, write the ledger, delete the message, in this order. If
 * the poison copy cannot be put, the run is held, and the next attempt repeats
 * only these steps, because Ending shows that the work is over. */
static void end_with_copy(struct attempt *attempt, enum ledger_state state,
    const char *reason, bool may_be_there)
{
    const struct ledger_run *run = &attempt->lease.run;
    struct slice former = run->poison_id, receipt = run->poison_receipt;

    if (put_copy(attempt, may_be_there) != TW_OK) {
        err_prefix(&attempt->err, "the run has failed, and its message cannot "
                                  "be put into the poison queue");
        end_held(attempt, LEDGER_WAITS_FOR_STORE);
        return;
    }
    if (!slice_equal(former, run->poison_id))
        delete_former_copy(attempt, former, receipt);
    set_error(attempt, reason);
    if (!move_and_store(attempt, state))
        return;
    lease_delete_message(&attempt->lease);
    set_ended(attempt);
    (void)err_fail(&attempt->result->err, TW_INVALID, "%s", reason);
    log_ended(attempt, LOG_ERROR, "%s: %s", ledger_state_name(state), reason);
}

/* End the run as failed or poisoned. The reason is stored in Ending before the
 * poison copy is put, so that an attempt after a crash knows that the work is
 * over, and that the poison copy may exist. */
static void end_badly(
    struct attempt *attempt, enum ledger_state state, const char *reason)
{
    enum lease_status status = LEASE_VALID;

    if (wants_copy(attempt))
        status = lease_store_ending(
            &attempt->lease, state, reason, &attempt->result->err);
    if (status == LEASE_VALID)
        end_with_copy(attempt, state, reason, false);
    else
        end_not_stored(attempt, status);
}

/* Complete the end that an earlier attempt has stored in Ending. */
static void complete_ending(
    struct attempt *attempt, enum ledger_state state, struct slice reason)
{
    reason = arena_copy(&attempt->arena, reason); /* run->ending changes */
    stop_waiting(attempt);
    end_with_copy(attempt, state, reason.at, true);
}

static void end_failed(struct attempt *attempt)
{
    end_badly(attempt, LEDGER_FAILED, attempt->err.text);
}

/* Let the run wait until until_ticks. waits_for: as in ledger_wait(). */
static void end_deferred(
    struct attempt *attempt, const char *waits_for, int64_t until_ticks)
{
    struct ledger_run *run = &attempt->lease.run;

    if (ledger_wait(run, waits_for, lease_now_ticks(&attempt->lease),
            until_ticks, &attempt->result->err) != TW_OK ||
        !move_and_store(attempt, LEDGER_WAITING))
        return;
    lease_hide_message(&attempt->lease, run->resumes_ticks);
    attempt->result->end = ATTEMPT_DEFERRED;
    attempt->result->until_ms =
        lease_boot_ms(&attempt->lease, run->resumes_ticks);
}

static const char *const waits[] = {
    [RUN_WAITS_FOR_NOTHING] = LEDGER_WAITS_FOR_SETTLE,
    [RUN_WAITS_FOR_SETTLE] = LEDGER_WAITS_FOR_SETTLE,
    [RUN_WAITS_FOR_ROUND] = LEDGER_WAITS_FOR_ROUND,
};

/* Returns when the waiting run resumes, on the ledger's clock. The kind may
 * have set a time of the boot clock instead (resumes_ms). That time is
 * converted: the result is the ledger's time now plus the remaining wait, plus
 * 1 s because Date is cut to whole seconds. */
static int64_t resumes_at(const struct attempt *attempt)
{
    const struct run *run = &attempt->run;

    if (run->resumes_ms == 0)
        return run->resumes_ticks;
    return lease_now_ticks(&attempt->lease) + TICKS_PER_S +
           (run->resumes_ms - platform_boot_ms()) * TICKS_PER_MS;
}

/* Let the run wait for its turn. attempt->err says which run is at work. */
static void end_for_turn(struct attempt *attempt, int64_t until_ticks)
{
    ledger_set_error(&attempt->lease.run, attempt->err.text);
    attempt->result->err = attempt->err;
    attempt->result->for_cause = true;
    end_deferred(attempt, LEDGER_WAITS_FOR_TURN, until_ticks);
    if (attempt->result->end == ATTEMPT_DEFERRED)
        log_run_info(&attempt->log, "%s", attempt->err.text);
}

static void end_waiting(struct attempt *attempt)
{
    char time[TEXT_TIME_MAX];

    attempt->lease.run.failures = 0;
    if (attempt->run.waits_for == RUN_WAITS_FOR_TURN) {
        keep_held_since(attempt, LEDGER_WAITS_FOR_TURN);
        end_for_turn(attempt, resumes_at(attempt));
        return;
    }
    ledger_set_error(&attempt->lease.run, "");
    end_deferred(attempt, waits[attempt->run.waits_for], resumes_at(attempt));
    if (attempt->result->end == ATTEMPT_DEFERRED)
        log_run_info(&attempt->log, "waits until %s",
            text_from_ticks(attempt->lease.run.resumes_ticks, time));
}

static void end_try_again(struct attempt *attempt)
{
    struct ledger_run *run = &attempt->lease.run;
    int64_t wait_ms;
    char *reason;

    if (attempt->progress)
        run->failures = 0;
    else if (run->failures < INT32_MAX)
        run->failures++;
    if (run->failures >= attempt->request->max_attempts) {
        reason = mem_format("%d attempt%s failed without progress: %s",
            (int)run->failures, run->failures == 1 ? "" : "s",
            attempt->err.text);
        end_badly(attempt, LEDGER_POISONED, reason);
        mem_free(reason);
        return;
    }
    wait_ms = attempt_retry_ms(run->failures);
    set_error(attempt, attempt->err.text);
    end_deferred(
        attempt, "", lease_now_ticks(&attempt->lease) + wait_ms * TICKS_PER_MS);
    if (attempt->result->end == ATTEMPT_DEFERRED)
        log_run_warn(&attempt->log,
            "attempt %d failed, the next begins in %lld s: %s",
            (int)run->attempt, (long long)wait_ms / 1000, attempt->err.text);
}

/*
 * Call if the kind ended because the deadline was closed. If the lease was lost
 * or has expired, nothing more is written. If the lease is valid (too little
 * time was left for a request), the run is queued again and the lease is
 * released.
 */
static void end_lease_lost(struct attempt *attempt)
{
    if (attempt->lease_status == LEASE_VALID &&
        deadline_is_open(&attempt->lease.own, platform_boot_ms())) {
        end_stopped(attempt);
        return;
    }
    end_lease_expired(attempt);
}

static void (*const ends[])(struct attempt *) = {
    [RUN_SUCCEEDED] = end_succeeded,
    [RUN_WAITING] = end_waiting,
    [RUN_FAILED] = end_failed,
    [RUN_TRY_AGAIN] = end_try_again,
    [RUN_OUTAGE] = end_outage,
    [RUN_STOPPED] = end_stopped,
    [RUN_LEASE_LOST] = end_lease_lost,
};

/* ---- running the kind ---- */

static void watch(struct attempt *attempt, struct run *run)
{
    if (attempt->environment->watch)
        attempt->environment->watch(attempt->environment->context, run);
}

static enum run_end run_kind(struct attempt *attempt)
{
    const struct job *job = attempt->request->job;
    struct run *run = &attempt->run;
    enum run_end end;

    run->pool_client = pool_client_new(
        attempt->environment->request_pool, &attempt->lease.deadline);
    pool_client_of(run->pool_client, job->name, job->max_entities_per_second);
    pool_client_trace(run->pool_client, attempt->log.traceparent);
    if (!attempt->request->resumes_paused)
        request_pool_watch_silence(run->pool_client, attempt->request->store);
    run->ledger = attempt->request->store;
    run->ledger_table = LEDGER_TABLE;
    run->ends_load = job->kind->ends_load;
    run->load_open = attempt->lease.load_open;
    if (job->failures)
        attempt->failures = failures_new(attempt->definition->archive_folder,
            job->failures, job->name, run->id, attempt->log.object);
    attempt->renewal = renewal_start(
        attempt->environment->renewer, &attempt->lease, run, run->pool_client);
    if (!attempt->environment->watch)
        renewal_log_progress(attempt->renewal);
    watch(attempt, run);
    activity_begin(attempt->environment->activity, run);
    end = job->kind->run(job, attempt->definition->stores, run, &attempt->err);
    activity_end(attempt->environment->activity, run);
    watch(attempt, NULL);
    attempt->lease_status = renewal_stop(attempt->renewal, &attempt->progress);
    attempt->lease.load_open = run->ends_load && run->load_open;
    attempt->renewal = NULL;
    failures_free(attempt->failures);
    attempt->failures = NULL;
    attempt->indeterminate = request_pool_is_indeterminate(run->pool_client);
    pool_client_free(run->pool_client);
    /* A lost or expired lease overrides the outcome of the kind. */
    if (lease_clock_is_over(&attempt->lease.clock))
        return RUN_LEASE_LOST;
    return attempt->lease_status == LEASE_LOST ? RUN_LEASE_LOST : end;
}

/* ---- the lease was not acquired ---- */

static void end_run_ended(struct attempt *attempt)
{
    const struct ledger_run *run = &attempt->lease.run;
    const struct lease_request *request = attempt->request;

    /* Writes of another attempt may still be carried out. */
    attempt->indeterminate = true;
    set_ended(attempt);
    attempt->result->already = true;
    attempt->result->otherwise =
        run->state == LEDGER_SUCCEEDED &&
        (bound_kind_changed(run, request->job) ||
            bound_definition_changed(run, request->job) ||
            bound_accounts_changed(run, request->job, request->accounts));
    (void)err_fail(&attempt->result->err, TW_INVALID, "%.*s",
        SLICE_ARG(attempt->lease.run.error));
    lease_delete_message(&attempt->lease);
    log_run_info(&attempt->log, "%s already: nothing to do",
        ledger_state_name(attempt->lease.run.state));
}

static void end_lease_held(struct attempt *attempt)
{
    char time[TEXT_TIME_MAX];

    lease_hide_message(&attempt->lease, attempt->lease.until_ticks);
    attempt->result->end = ATTEMPT_DEFERRED;
    attempt->result->held = attempt->lease.run.owner.len > 0;
    attempt->result->for_cause = ledger_is_held(&attempt->lease.run);
    if (attempt->result->for_cause)
        (void)err_fail(&attempt->result->err, TW_CONFLICT, "%.*s",
            SLICE_ARG(attempt->lease.run.error));
    attempt->result->until_ms =
        lease_boot_ms(&attempt->lease, attempt->lease.until_ticks);
    if (attempt->lease.newly_held)
        log_run_warn(&attempt->log, "is held, but has not failed: %.*s",
            SLICE_ARG(attempt->lease.run.error));
    log_run_debug(&attempt->log, "%s; next attempt not before %s",
        attempt->result->held ? "another attempt has the lease"
                              : "the run waits",
        text_from_ticks(attempt->lease.until_ticks, time));
}

static void end_run_paused(struct attempt *attempt)
{
    lease_delete_message(&attempt->lease);
    attempt->result->end = ATTEMPT_PAUSED;
    log_run_info(&attempt->log, "is paused: its message was deleted");
}

static void end_run_missing(struct attempt *attempt)
{
    attempt->result->end = ATTEMPT_RUN_MISSING;
}

static void end_refused(struct attempt *attempt)
{
    attempt->result->end = ATTEMPT_REFUSED;
}

static void end_ledger_outage(struct attempt *attempt)
{
    attempt->result->end = ATTEMPT_OUTAGE;
    lease_hide_message_ms(&attempt->lease, OUTAGE_HIDE_MS);
}

static void (*const ends_without_lease[])(struct attempt *) = {
    [LEASE_RUN_ENDED] = end_run_ended,
    [LEASE_HELD] = end_lease_held,
    [LEASE_RUN_PAUSED] = end_run_paused,
    [LEASE_RUN_MISSING] = end_run_missing,
    [LEASE_REFUSED] = end_refused,
    [LEASE_OUTAGE] = end_ledger_outage,
};

/* ---- before the kind runs ---- */

/* A blocked run tries to take its locks again after a quarter of the time that
 * it has waited so far, within these limits. */
#define TURN_MIN_TICKS (2 * TICKS_PER_S)
#define TURN_MAX_TICKS (30 * TICKS_PER_S)

/* Let the run wait for its turn, because another run has a lock that this run
 * needs. */
static void end_blocked(struct attempt *attempt)
{
    const struct ledger_run *run = &attempt->lease.run;
    int64_t now = lease_now_ticks(&attempt->lease);
    int64_t waited =
        run->waits_since_ticks > 0 ? now - run->waits_since_ticks : 0;
    int64_t wait = waited / 4;

    if (wait < TURN_MIN_TICKS)
        wait = TURN_MIN_TICKS;
    if (wait > TURN_MAX_TICKS)
        wait = TURN_MAX_TICKS;
    end_for_turn(attempt, now + wait);
}

/* Has `finish` closed the job, so that it accepts no more runs (rule A5)?
 * RUN_CONTINUES: no. RUN_FAILED: yes. RUN_OUTAGE: the ledger cannot be read. In
 * the last two cases attempt->err has the cause. */
static enum run_end check_open(struct attempt *attempt)
{
    struct retry_call call = retry_call(&attempt->lease.own, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    do
        outcome = ledger_check_open(attempt->request->store, &call.exchange,
            attempt->lease.run.job, &attempt->err);
    while (retry_call_again(&call, outcome));
    if (outcome == TW_OK)
        return RUN_CONTINUES;
    if (outcome == TW_CONFLICT)
        return RUN_FAILED;
    (void)err_fail(&attempt->err, outcome, "%s", call.exchange.err.text);
    return RUN_OUTAGE;
}

static struct locks_request locks_of(const struct attempt *attempt)
{
    const struct ledger_run *run = &attempt->lease.run;

    return (struct locks_request){.store = attempt->request->store,
        .deadline = &attempt->lease.own,
        .job = attempt->request->job,
        .stores = attempt->definition->stores,
        .id = run->id,
        .requested_ticks = run->requested_ticks};
}

/* Take the run's locks (rules L1, L2). RUN_CONTINUES: all are taken.
 * RUN_WAITING: another run has one of them. RUN_FAILED: `finish` has closed the
 * job's tables. RUN_OUTAGE: the ledger cannot be used. In the last three cases
 * attempt->err has the cause. */
static enum run_end take_locks(struct attempt *attempt)
{
    const struct locks_request request = locks_of(attempt);

    switch (locks_take(&request, &attempt->took_locks_over, &attempt->err)) {
    case LOCKS_TAKEN:
        return RUN_CONTINUES;
    case LOCKS_BLOCKED:
        return RUN_WAITING;
    case LOCKS_CLOSED:
        return RUN_FAILED;
    case LOCKS_OUTAGE:
        break;
    }
    return RUN_OUTAGE;
}

/* Close the job's tables before its run ends. RUN_OUTAGE: the ledger could not
 * be written, so the run does not end. */
static enum run_end close_tables(struct attempt *attempt)
{
    const struct locks_request request = locks_of(attempt);

    return locks_close(&request, &attempt->err) == TW_OK ? RUN_SUCCEEDED
                                                         : RUN_OUTAGE;
}

/* Make the steps that a job with table_job needs before its kind is called.
 * True: the kind may be called. False: the attempt has ended. */
static bool begin_table_job(struct attempt *attempt)
{
    enum run_end end = check_open(attempt);

    if (end == RUN_CONTINUES)
        end = take_locks(attempt);
    if (end == RUN_CONTINUES) /* the job may have been closed since the first
                                 check */
        end = check_open(attempt);
    if (end != RUN_CONTINUES && attempt->lease.binds)
        attempt->lease.run.definition = (struct slice){0}; /* the run has done
                                                              no work under this
                                                              definition */
    if (end == RUN_WAITING)
        end_blocked(attempt);
    else if (end != RUN_CONTINUES)
        ends[end](attempt);
    return end == RUN_CONTINUES;
}

/* ---- one attempt ---- */

/* Log how long the run was held for a store or a disk. */
static void log_held(const struct attempt *attempt)
{
    if (slice_is(attempt->held_for, LEDGER_WAITS_FOR_STORE) ||
        slice_is(attempt->held_for, LEDGER_WAITS_FOR_ARCHIVE))
        log_run_info(&attempt->log, "continued, after it was held for %lld s",
            (long long)(attempt->held_ticks / TICKS_PER_S));
}

/* Set what log lines say about the run, as read from the ledger. */
static void describe_run(struct attempt *attempt)
{
    const struct ledger_run *run = &attempt->lease.run;

    attempt->log.attempt = run->attempt;
    attempt->log.args = report_args(run->args, &attempt->arena);
    if (message_is_traceparent(run->traceparent))
        attempt->log.traceparent =
            arena_copy(&attempt->arena, run->traceparent).at;
}

static void attempt_with_lease(
    struct attempt *attempt, const struct run_args *args)
{
    struct ledger_run *run = &attempt->lease.run;
    enum ledger_state state;
    struct slice reason;
    struct run_args own;
    enum run_end end;

    describe_run(attempt);
    attempt->lease.keeps_crash =
        attempt->lease.previous_owner_crashed || attempt->lease.starts_over;
    log_run_info(&attempt->log, "lease acquired, attempt %d%s",
        (int)run->attempt,
        attempt->lease.previous_owner_crashed ? ", previous owner crashed"
                                              : "");
    if (lease_ending(&attempt->lease.run, &state, &reason)) {
        complete_ending(attempt, state, reason);
        return;
    }
    if (args == NULL) {
        if (message_args_parse(attempt->request->job, run->args,
                &attempt->arena, &own, &attempt->err) != TW_OK) {
            end_badly(attempt, LEDGER_POISONED, attempt->err.text);
            return;
        }
        args = &own;
    }
    if (attempt->request->job->kind->table_job && !begin_table_job(attempt))
        return;
    stop_waiting(attempt);
    set_run(attempt, args);
    end = run_kind(attempt);
    /* From its first progress on, the kind's checkpoint notes which requests of
     * earlier attempts may still arrive. So the ledger no longer has to keep
     * that the previous owner crashed. */
    if (attempt->progress || end == RUN_SUCCEEDED || end == RUN_WAITING)
        attempt->lease.keeps_crash = false;
    if (end == RUN_SUCCEEDED && attempt->run.closes_job)
        end = close_tables(attempt);
    if (end != RUN_OUTAGE)
        log_held(attempt);
    ends[end](attempt);
}

/* Count how the attempt has ended. */
static void count_end(const struct attempt *attempt)
{
    struct activity *activity = attempt->environment->activity;
    const struct attempt_result *result = attempt->result;
    const struct ledger_run *run = &attempt->lease.run;
    const struct lease_request *request = attempt->request;
    struct slice job = slice_of(request->job->name);

    if (result->end == ATTEMPT_DEFERRED && result->for_cause)
        activity_held(activity, job, request->id,
            attempt->away ? attempt->away : request->store->name,
            run->waits_for, result->until_ms);
    else
        activity_not_held(activity, job, request->id);
    if (result->end == ATTEMPT_RUN_ENDED && !result->already)
        activity_run_ended(activity, request->job->name, result->state);
    if (result->end == ATTEMPT_LEASE_LOST)
        activity_lease_lost(activity, request->job->name);
}

void attempt_run(const struct attempt_environment *environment,
    const struct definition *definition, const struct lease_request *request,
    const struct run_args *args, struct attempt_result *ret)
{
    struct attempt attempt = {.environment = environment,
        .definition = definition,
        .lease_status = LEASE_VALID,
        .begun_ms = platform_boot_ms(),
        .result = ret};
    struct lease_request own = *request;
    enum lease_outcome outcome;

    *ret = (struct attempt_result){.end = ATTEMPT_OUTAGE};
    arena_init(&attempt.arena);
    own.accounts =
        bound_accounts(request->job, definition->stores, &attempt.arena);
    attempt.request = request = &own;
    attempt.log = (struct log_run){.job = request->job->name,
        .id = arena_copy(&attempt.arena, request->id).at,
        .store = request->store->name};
    attempt.log.object = arena_format(
        &attempt.arena, "run %s/%s", attempt.log.job, attempt.log.id)
                             .at;
    ret->run = hash_slice(HASH_BEGIN, slice_of(attempt.log.object));
    lease_init(&attempt.lease, request);
    outcome = lease_acquire(&attempt.lease, request, &ret->outcome, &ret->err);
    ret->acquired = outcome == LEASE_ACQUIRED;
    if (ret->acquired)
        attempt_with_lease(&attempt, args);
    else
        ends_without_lease[outcome](&attempt);
    count_end(&attempt);
    lease_done(&attempt.lease);
    arena_done(&attempt.arena);
}
