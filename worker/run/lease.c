/* SPDX-License-Identifier: MIT */
/* The right of one attempt to work on one run. */
#include "worker/run/lease.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/bound.h"
#include "worker/run/ledger_change.h"
#include "worker/run/message.h"
#include "worker/run/queue.h"
#include "worker/run/setup.h"
#include "worker/store/retry.h"

/* If max_attempts attempts without progress have crashed in a row, the next
 * attempt waits until the last lease has expired, and then for this many
 * visibility timeouts. */
#define CRASHED_SPACING 10
/* Meanwhile the run is read again at this interval, in case an operator asks
 * for `pause` or `cancel`. */
#define CRASHED_READ_TICKS (5 * TICKS_PER_S)
#define HIDE_MAX_S INT64_C(604800)
/* Errors of Date: Date is cut to whole seconds, and the clocks of the service's
 * servers differ by up to 2 s. */
#define DATE_TICKS TICKS_PER_S
#define DIFFER_TICKS (2 * TICKS_PER_S)
/* Before a retry, a held run waits for as long as it has been held so far,
 * within these limits. */
#define HELD_MIN_TICKS (5 * TICKS_PER_S)
#define HELD_MAX_TICKS (HOLD_MAX_MS * TICKS_PER_MS)
/* Maximum age of a Date that is used to insert a run without reading the run
 * first. */
#define DATE_KEPT_MS 60000
/* Minimum time that the message of a run with a live owner is hidden. */
#define HIDDEN_MIN_TICKS (2 * TICKS_PER_S)

/* ---- clocks and deadlines ---- */

/* Note the Date of a response of the ledger, and count the request. */
static void note_clock(struct lease *lease, const struct exchange *exchange)
{
    if (exchange->sent_ms != 0)
        lease->requests++;
    if (exchange->date_ticks == 0)
        return;
    lease->date_ticks = exchange->date_ticks;
    lease->date_sent_ms = exchange->sent_ms;
    lease->date_answered_ms = platform_boot_ms() + 1; /* an upper bound of the
                                                         time of the response */
}

/* Count a request to the queue service. Its Date is not used. */
static void count_request(struct lease *lease, const struct exchange *exchange)
{
    if (exchange->sent_ms != 0)
        lease->requests++;
}

int64_t lease_now_ticks(const struct lease *lease)
{
    if (lease->date_ticks == 0)
        return platform_wall_ticks();
    return lease->date_ticks +
           (platform_boot_ms() - lease->date_answered_ms) * TICKS_PER_MS;
}

int64_t lease_boot_ms(const struct lease *lease, int64_t ticks)
{
    int64_t left_ms =
        (ticks - lease_now_ticks(lease) + TICKS_PER_MS - 1) / TICKS_PER_MS;

    return platform_boot_ms() + (left_ms > 0 ? left_ms : 0);
}

/* Returns an upper bound of the service's clock at boot time at_ms, plus the
 * visibility timeout: see lease.h. If the machine was paused since the last
 * response to a request of this lease, a later response of the ledger's store
 * gives a higher bound. */
static int64_t lease_until(const struct lease *lease, int64_t at_ms)
{
    int64_t now = lease->date_ticks + DATE_TICKS +
                  (at_ms - lease->date_sent_ms) * TICKS_PER_MS;
    int64_t shown = 0;

    if (lease_clock_in_doubt(&lease->clock))
        shown = lease_clock_ledger_ms(&lease->clock, at_ms) * TICKS_PER_MS;
    return (now > shown ? now : shown) + DIFFER_TICKS +
           lease->visibility_timeout_ms * TICKS_PER_MS;
}

/* Move the deadlines after a write. sent_ms: when the write's first try was
 * sent. */
static void set_deadline(struct lease *lease, int64_t sent_ms)
{
    lease->deadline_ms = sent_ms + lease->visibility_timeout_ms;
    deadline_move(&lease->deadline, lease->deadline_ms);
    deadline_move(&lease->own, lease->deadline_ms + lease->own.request_ms);
}

static struct exchange new_exchange(struct lease *lease)
{
    return (struct exchange){.deadline = &lease->own, .retry_after_ms = -1};
}

/* Wait before the next try. False: no time or no tries are left. */
static bool try_again(
    struct lease *lease, const struct exchange *exchange, struct retry *retry)
{
    return retry_wait(retry, exchange,
        &(struct retry_limits){&lease->own, PLATFORM_NEVER, PLATFORM_NEVER});
}

/* ---- a lease ---- */

static void copy_name(char *to, size_t room, struct slice from)
{
    assert(from.len < room);
    (void)snprintf(to, room, "%.*s", SLICE_ARG(from));
}

static void take_message(
    struct lease *lease, const struct lease_message *message)
{
    lease->has_message = true;
    lease->message_sent_ms = message->sent_ms;
    lease->text = mem_text(message->text.at, message->text.len);
    lease->text_len = message->text.len;
    copy_name(lease->queue, sizeof(lease->queue), slice_of(message->queue));
    copy_name(lease->message_id, sizeof(lease->message_id), message->id);
    copy_name(
        lease->pop_receipt, sizeof(lease->pop_receipt), message->pop_receipt);
}

void lease_init(struct lease *lease, const struct lease_request *request)
{
    *lease = (struct lease){.store = request->store,
        .visibility_timeout_ms = request->visibility_timeout_s * 1000,
        .lock_file = request->lock_file,
        .noted = LOCK_FILE_NOWHERE,
        .deadline_ms = PLATFORM_NEVER};
    ledger_run_init(&lease->run);
    ledger_run_init(&lease->stored);
    deadline_init(&lease->deadline, PLATFORM_NEVER,
        deadline_request_ms(lease->visibility_timeout_ms));
    deadline_init(&lease->own, PLATFORM_NEVER, lease->deadline.request_ms / 2);
    lease_clock_init(&lease->clock, lease->store, lease->visibility_timeout_ms);
    deadline_watch(&lease->deadline, &lease->clock, false);
    deadline_watch(&lease->own, &lease->clock, true);
    if (request->message)
        take_message(lease, request->message);
}

/* Call before the first write that may acquire the lease. */
static void begin_owning(struct lease *lease)
{
    lease->may_own = true;
    lease->noted =
        lock_file_note(lease->lock_file, lease->stored.job, lease->stored.id);
}

void lease_done(struct lease *lease)
{
    lock_file_forget(lease->lock_file, lease->noted,
        lease->may_own ? lease->deadline_ms : 0);
    lease->noted = LOCK_FILE_NOWHERE;
    ledger_run_done(&lease->run);
    ledger_run_done(&lease->stored);
    mem_free(lease->text);
    lease->text = NULL;
}

/* ---- the ledger ---- */

static void note_request(void *context, const struct exchange *exchange)
{
    struct lease *lease = *(struct lease **)context;

    note_clock(lease, exchange);
}

/* ---- acquiring ---- */

static void set_worker(struct ledger_run *run)
{
    char host[256] = "", name[300];

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(name, sizeof(name), "%s:%d", host, (int)getpid());
    run->worker = ledger_text(run, slice_of(name));
}

/* Context of the ledger change in lease_acquire(). */
struct taking {
    struct lease *lease; /* must be first, for note_request() */
    const struct lease_request *request;
    enum lease_outcome outcome;
    int64_t sent_ms; /* when the first try was sent. The deadlines count from
                        then, because any of the tries may be the stored one */
};

/* Fill in a run that is not in the ledger yet. */
static void begin_run(
    struct ledger_run *run, const struct lease_request *request)
{
    run->args = ledger_text(run, request->args_json);
    run->traceparent = ledger_text(run, request->traceparent);
    run->accept_deletes = request->accept_deletes;
}

/* Let the run accept deletes if the request says so. The same message is
 * received for each attempt, so its acceptance is applied only once. */
static void take_acceptance(struct ledger_run *run,
    const struct lease_request *request, int64_t now_ticks)
{
    if (!request->accept_deletes)
        return;
    if (!request->message)
        ledger_accept_deletes(run, true, now_ticks);
    else if (request->message->inserted_ticks > run->accepted_ticks)
        ledger_accept_deletes(run, true, request->message->inserted_ticks);
}

/* Set RequestedAt, unless it is set: to the earlier of request->requested_ticks
 * and the message's InsertionTime, or to the time now if neither is known. Jobs
 * compare RequestedAt with times that applications write. For a local store
 * (store_capabilities.local) these are times of this machine's clock. */
static void set_request(
    struct ledger_run *run, const struct lease_request *request)
{
    if (run->requested_ticks != 0)
        return;
    run->requested_ticks = request->requested_ticks;
    if (request->message &&
        (run->requested_ticks == 0 ||
            run->requested_ticks > request->message->inserted_ticks))
        run->requested_ticks = request->message->inserted_ticks;
    if (run->requested_ticks == 0)
        run->requested_ticks = request->store->capabilities.local
                                   ? platform_wall_ticks()
                                   : run->started_ticks;
}

/* ---- the definition that a run is bound to ---- */

enum tw_err lease_hold_run(struct ledger_run *run, const char *waits_for,
    int64_t now_ticks, int64_t most_ticks, const char *why, struct err *err)
{
    int64_t wait;
    enum tw_err outcome;

    ledger_note_idle(run, now_ticks);
    outcome = ledger_wait(run, waits_for, now_ticks, 0, err);
    if (outcome != TW_OK)
        return outcome;
    if (most_ticks == 0 || most_ticks > HELD_MAX_TICKS)
        most_ticks = HELD_MAX_TICKS;
    wait = now_ticks - run->waits_since_ticks;
    if (wait < HELD_MIN_TICKS)
        wait = HELD_MIN_TICKS;
    run->resumes_ticks = now_ticks + (wait < most_ticks ? wait : most_ticks);
    run->updated_ticks = now_ticks;
    ledger_drop_owner(run);
    ledger_set_error(run, why);
    return TW_OK;
}

enum tw_err lease_hold_without_job(
    struct ledger_run *run, int64_t now_ticks, struct err *err)
{
    return lease_hold_run(run, LEDGER_WAITS_FOR_DEFINITION, now_ticks, 0,
        "its job is not in the configuration: restore it, or cancel the run",
        err);
}

/* Returns the sentence for the Note of a run whose definition or accounts have
 * changed. */
static const char *change_note(
    const struct ledger_run *run, const struct job *job)
{
    if (job->kind->table_job)
        return "a changed definition was accepted: began again with the first "
               "round";
    if (bound_definition_changed(run, job) && !bound_accepted(run, job))
        return "rules were added to the definition: started over with the new "
               "definition";
    return "a changed definition was accepted: started over with this "
           "definition";
}

/* Bind the run to the job. A checkpoint and a phase that were reached under
 * another definition, or in other accounts, are dropped. */
static void set_definition(struct lease *lease, struct ledger_run *run,
    const struct lease_request *request)
{
    const struct job *job = request->job;
    const struct log_run log = {.job = job->name, .id = run->id.at};
    bool changed = bound_definition_changed(run, job) ||
                   bound_accounts_changed(run, job, request->accounts);

    lease->starts_over = changed && run->checkpoint.len > 0;
    lease->binds = run->definition.len == 0;
    if (changed) {
        run->phase = (struct slice){0};
        ledger_add_note(run, slice_of(change_note(run, job)));
    }
    if (lease->starts_over) {
        run->checkpoint = (struct slice){0};
        log_run_info(&log,
            "%.*s/%.*s: the job's definition has changed since the "
            "checkpoint: starting over",
            SLICE_ARG(run->job), SLICE_ARG(run->id));
    }
    bound_set(run, job, request->accounts);
}

/* ---- helpers ---- */

/* Move the first word of rest to *ret_word and drop the space after the word.
 * False: rest has no space. */
static bool cut_word(struct slice *rest, struct slice *ret_word)
{
    const char *space = rest->len > 0 ? memchr(rest->at, ' ', rest->len) : NULL;

    if (space == NULL)
        return false;
    *ret_word = (struct slice){rest->at, (size_t)(space - rest->at)};
    rest->len -= ret_word->len + 1;
    rest->at = space + 1;
    return true;
}

/* Add 1 unless the count is INT32_MAX: a count in the ledger may have any
 * value. If Epoch cannot rise, only Owner distinguishes the attempts. */
static void count_one(int32_t *count)
{
    if (*count < INT32_MAX)
        ++*count;
}

/* ---- the ending of a run, before its poison copy ---- */

/*
 * Reads the property Ending, which is "EPOCH STATE REASON". A version of
 * tableward that does not know Ending keeps the property, repeats the work and
 * raises only the run's Epoch. So an Ending whose Epoch is not the run's is of
 * an earlier attempt, and is ignored.
 */
bool lease_ending(const struct ledger_run *run, enum ledger_state *ret_state,
    struct slice *ret_reason)
{
    struct slice rest = run->ending, epoch, state;
    int64_t number;

    if (!cut_word(&rest, &epoch) || !cut_word(&rest, &state) ||
        !text_int64(epoch, 0, INT32_MAX, &number) || number != run->epoch ||
        !ledger_state_named(state, ret_state))
        return false;
    *ret_reason = rest;
    return *ret_state == LEDGER_FAILED || *ret_state == LEDGER_POISONED;
}

static void write_ending(
    struct ledger_run *run, enum ledger_state state, struct slice reason)
{
    struct buf text;

    reason = text_cut(reason, LEDGER_MAX_ERROR_BYTES);
    buf_init(&text, 2 * LEDGER_MAX_ERROR_BYTES);
    buf_add_format(&text, "%d %s ", (int)run->epoch, ledger_state_name(state));
    buf_add_slice(&text, reason);
    run->ending = ledger_text(run, buf_slice(&text));
    buf_done(&text);
}

/* Raise Epoch in the run and in a valid Ending; remove an invalid Ending. */
static void raise_epoch(struct ledger_run *run)
{
    enum ledger_state state;
    struct slice reason;
    bool is_ending = lease_ending(run, &state, &reason);

    count_one(&run->epoch);
    if (is_ending)
        write_ending(run, state, reason);
    else
        run->ending = (struct slice){0};
}

/* ---- what an operator asks of the owner ---- */

static void note_asked(struct lease *lease, const struct ledger_run *stored)
{
    if (slice_is(stored->control, LEDGER_CONTROL_CANCEL))
        lease->asked = LEASE_ASKED_CANCEL;
    else if (slice_is(stored->control, LEDGER_CONTROL_PAUSE))
        lease->asked = LEASE_ASKED_PAUSE;
    else
        lease->asked = LEASE_ASKED_NOTHING;
    lease->run.finish = ledger_text(&lease->run, stored->finish);
    if (stored->accept_deletes &&
        stored->accepted_ticks > lease->run.accepted_ticks) {
        lease->run.accept_deletes = lease->newly_accepted = true;
        lease->run.accepted_ticks = stored->accepted_ticks;
    }
}

/* May an earlier attempt of the run have left a load that is not complete? Not
 * if the run has only waited for its locks, because it then has no definition.
 * Uses the kind in the ledger, because the job may be of another kind now. */
static bool may_have_load(const struct ledger_run *run, const struct job *job)
{
    const struct kind *kind =
        slice_is(run->kind, job->kind->name) ? job->kind : jobs_kind(run->kind);

    return run->attempt > 0 && run->definition.len > 0 && kind &&
           kind->ends_load;
}

/* ---- acquiring: the write ---- */

/* Make the lease the owner of run. Call after check_acquirable() returned
 * LEASE_ACQUIRED. */
static enum tw_err become_owner(
    struct taking *taking, struct ledger_run *run, struct err *err)
{
    struct lease *lease = taking->lease;
    const struct lease_request *request = taking->request;
    enum tw_err outcome;

    ledger_note_idle(run, lease_now_ticks(lease));
    outcome = ledger_move(run, LEDGER_RUNNING, err);
    if (outcome != TW_OK)
        return outcome;
    /* Any try of this write may be the one that is stored. So the deadline
     * counts from the first try. */
    if (taking->sent_ms == 0) {
        taking->sent_ms = platform_boot_ms();
        set_deadline(lease, taking->sent_ms);
        begin_owning(lease);
    }
    lease->previous_owner_crashed = ledger_has_crashed_owner(run);
    lease->load_open = may_have_load(run, request->job);
    if (run->failed_logged < 0)
        run->failed_logged = 0; /* another program wrote it: tableward writes no
                                   such value */
    run->owner = ledger_text(run, slice_of(lease->owner));
    if (run->control.len > 0)
        run->ending = (struct slice){0}; /* the attempt completes a load, then
                                            obeys Control */
    raise_epoch(run);
    count_one(&run->attempt);
    count_one(&run->silent);
    run->resumes_ticks = 0;
    run->lease_until_ticks = lease_until(lease, platform_boot_ms());
    run->updated_ticks = lease_now_ticks(lease);
    if (run->started_ticks == 0)
        run->started_ticks = run->updated_ticks;
    set_request(run, request);
    take_acceptance(run, request, run->updated_ticks);
    /* If the run has a kind already, it is that of the job (bound_check()), or
     * the attempt only stores the run's end. */
    if (run->kind.len == 0)
        run->kind = ledger_text(run, slice_of(request->job->kind->name));
    if (request->message)
        run->queue = ledger_text(run, slice_of(request->message->queue));
    set_worker(run);
    /* If Control is set, the attempt may only complete a load. So the run is
     * not bound to the present definition, which perhaps no operator has
     * accepted. */
    lease->only_load = run->control.len > 0;
    if (run->ending.len == 0 && !lease->only_load)
        set_definition(lease, run, request);
    return TW_OK;
}

/* Must the run wait for CRASHED_SPACING? Not if an operator has asked for
 * `pause` or `cancel` and no attempt must complete a load first. */
static bool is_spaced(
    const struct lease_request *request, const struct ledger_run *run)
{
    return run->owner.len > 0 && run->silent >= request->max_attempts &&
           (run->control.len == 0 || may_have_load(run, request->job));
}

/* Returns until when the run may not be acquired; 0: it may be acquired now.
 * The lease of an owner whose process has died is ignored. The wait of
 * CRASHED_SPACING is not ignored. */
static int64_t held_until(const struct lease *lease,
    const struct lease_request *request, const struct ledger_run *run)
{
    int64_t until = run->resumes_ticks;
    int64_t expires = run->owner.len > 0 ? run->lease_until_ticks : 0;

    if (expires > 0 && is_spaced(request, run))
        expires +=
            CRASHED_SPACING * lease->visibility_timeout_ms * TICKS_PER_MS;
    else if (expires > lease->date_ticks &&
             lock_file_is_dead(lease->lock_file, run->owner))
        expires = 0;
    if (expires > until)
        until = expires;
    return until > lease->date_ticks ? until : 0;
}

/*
 * Returns when the message of a run that may not be acquired is to become
 * visible again. While the owner lives, the message may be an additional
 * message of the run, which is deleted only after the run's end. So the message
 * is hidden for as long as the run has taken so far. Then the additional
 * message of a run that takes 1 s is deleted after a few seconds, not only
 * after a whole lease. If a crashed run waits for CRASHED_SPACING, its message
 * becomes visible every CRASHED_READ_TICKS, so that a worker sees a `pause` or
 * `cancel` in Control.
 */
static int64_t visible_at(const struct lease *lease,
    const struct lease_request *request, const struct ledger_run *run)
{
    int64_t now = lease->date_ticks, until = lease->until_ticks;
    int64_t wait = now - run->started_ticks;

    if (request->message == NULL || run->resumes_ticks > now)
        return until;
    if (is_spaced(request, run) &&
        (!ledger_lease_is_live(run, now) ||
            lock_file_is_dead(lease->lock_file, run->owner)))
        return until - now < CRASHED_READ_TICKS ? until
                                                : now + CRASHED_READ_TICKS;
    if (!ledger_lease_is_live(run, now))
        return until;
    if (wait < HIDDEN_MIN_TICKS)
        wait = HIDDEN_MIN_TICKS;
    return wait < until - now ? now + wait : until;
}

/*
 * Must the run wait until an operator restores the definition, or accepts the
 * changed one? why gets the reason. A run with a valid Ending need not wait,
 * because it does no more work. A run that obeys Control needs only the former
 * kind and accounts, because it only completes a load that it has begun.
 */
static bool waits_for_definition(const struct taking *taking,
    const struct ledger_run *run, bool obeys, struct err *why)
{
    const struct lease_request *request = taking->request;
    enum ledger_state state;
    struct slice reason;

    if (lease_ending(run, &state, &reason) && !obeys)
        return false;
    if (obeys && !bound_kind_changed(run, request->job) &&
        !bound_accounts_changed(run, request->job, request->accounts))
        return false;
    return bound_check(run, request->job, request->accounts, why) != TW_OK;
}

/* Decide whether run, as just read, may be acquired. LEASE_ACQUIRED: it may.
 * Any other result is the reason why it may not; for LEASE_HELD
 * lease->until_ticks is set. */
static enum lease_outcome check_acquirable(
    struct taking *taking, const struct ledger_run *run, struct err *err)
{
    const struct lease_request *request = taking->request;
    struct lease *lease = taking->lease;

    if (run->etag.len == 0)
        return request->must_exist ? LEASE_RUN_MISSING : LEASE_ACQUIRED;
    if (request->args_json.len > 0 &&
        !message_args_same(request->args_json, run->args)) {
        (void)err_fail(err, TW_INVALID,
            "the id %.*s was used before with other arguments",
            SLICE_ARG(request->id));
        return LEASE_REFUSED;
    }
    if (ledger_state_ended(run->state))
        return LEASE_RUN_ENDED;
    if (run->state == LEDGER_PAUSED)
        return request->resumes_paused ? LEASE_ACQUIRED : LEASE_RUN_PAUSED;
    lease->until_ticks = held_until(lease, request, run);
    if (lease->until_ticks != 0)
        lease->until_ticks = visible_at(lease, request, run);
    return lease->until_ticks != 0 ? LEASE_HELD : LEASE_ACQUIRED;
}

/* Returns the state that an operator has asked for in Control. */
static enum ledger_state asked_state(const struct ledger_run *run)
{
    return slice_is(run->control, LEDGER_CONTROL_CANCEL) ? LEDGER_CANCELLED
                                                         : LEDGER_PAUSED;
}

/* Cancel or pause the run, as an operator asked of an owner that crashed before
 * it obeyed. Do not call for a run that may have an open load, because an
 * attempt must complete the load first. */
static enum tw_err apply_control(
    struct taking *taking, struct ledger_run *run, struct err *err)
{
    enum tw_err outcome;

    ledger_note_idle(run, lease_now_ticks(taking->lease));
    outcome = ledger_move(run, asked_state(run), err);
    if (outcome != TW_OK)
        return outcome;
    ledger_drop_owner(run);
    run->control = (struct slice){0};
    run->updated_ticks = run->lease_until_ticks =
        lease_now_ticks(taking->lease);
    run->resumes_ticks = 0;
    taking->outcome = LEASE_RUN_PAUSED;
    if (run->state == LEDGER_CANCELLED) {
        run->finished_ticks = run->updated_ticks;
        taking->outcome = LEASE_RUN_ENDED;
    }
    return TW_OK;
}

/* Hold the run until an operator restores the definition, or accepts the
 * definition that the job has now. A paused run, which the `run` command wants
 * to acquire, stays paused. */
static enum tw_err hold_for_definition(struct taking *taking,
    struct ledger_run *run, int64_t now_ticks, const struct err *why,
    struct err *err)
{
    enum tw_err outcome;

    bound_offer(run, taking->request->job, taking->request->accounts);
    if (run->state == LEDGER_PAUSED) {
        taking->outcome = LEASE_REFUSED;
        (void)err_fail(err, TW_CONFLICT, "%s", why->text);
        return TW_OK; /* store the definition that bound_offer() noted */
    }
    outcome = lease_hold_run(
        run, LEDGER_WAITS_FOR_DEFINITION, now_ticks, 0, why->text, err);
    taking->outcome = LEASE_HELD;
    taking->lease->until_ticks = run->resumes_ticks;
    taking->lease->newly_held = run->waits_since_ticks == now_ticks;
    return outcome;
}

/* Makes the ledger change of lease_acquire(): decides whether run may be
 * acquired, then makes the lease its owner. run is the run as the ledger has it
 * now; without an ETag it is not in the ledger. */
static enum tw_err apply_acquire(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct taking *taking = context;
    const struct lease_request *request = taking->request;
    bool obeys; /* an operator has asked to cancel or pause the run */
    struct err why;

    taking->outcome = check_acquirable(taking, run, err);
    if (taking->outcome != LEASE_ACQUIRED)
        return TW_CONFLICT;
    obeys =
        run->control.len > 0 && ledger_may_move(run->state, asked_state(run));
    if (obeys && !may_have_load(run, request->job))
        return apply_control(taking, run, err);
    if (run->etag.len == 0)
        begin_run(run, request);
    if (waits_for_definition(taking, run, obeys, &why))
        return hold_for_definition(taking, run, now_ticks, &why, err);
    return become_owner(taking, run, err);
}

/* Skip the run for wait_ticks. Only the run's own message is delayed. */
static enum lease_outcome leave_alone(
    struct lease *lease, int64_t wait_ticks, const struct err *why)
{
    const struct log_run log = {
        .job = lease->stored.job.at, .id = lease->stored.id.at};

    lease->until_ticks = lease_now_ticks(lease) + wait_ticks;
    log_run_warn(&log, "%.*s/%.*s is skipped for now: %s",
        SLICE_ARG(lease->stored.job), SLICE_ARG(lease->stored.id), why->text);
    return LEASE_HELD;
}

/* Returns the outcome of lease_acquire() after ledger_change() failed for
 * another reason than a decision of check_acquirable(). A problem of one run is
 * not LEASE_OUTAGE, because an outage delays other runs. */
static enum lease_outcome not_taken(struct lease *lease,
    const struct ledger_change *change, enum tw_err outcome,
    enum tw_err *ret_outcome, struct err *err)
{
    *ret_outcome = outcome;
    if (change->of_run && outcome == TW_BUSY)
        return leave_alone(lease, HELD_MIN_TICKS, err);
    if (change->of_run && !change->damaged && lease->has_message)
        return leave_alone(lease, HELD_MAX_TICKS, err);
    if (change->of_run)
        *ret_outcome = TW_INVALID;
    else if (outcome == TW_INVALID)
        *ret_outcome = TW_BUSY;
    return change->of_run ? LEASE_REFUSED : LEASE_OUTAGE;
}

/* Returns how long lease_acquire() retries while the service is busy or does
 * not respond. This is a third of the lease at most, because the first try may
 * have acquired the lease. Without retries one lost response would be an outage
 * of the ledger, and all worker threads would stop receiving. */
static struct retry_limits take_limits(const struct lease *lease)
{
    int64_t now_ms = platform_boot_ms(), wait_ms = RETRY_BUSY_MS;

    if (wait_ms > lease->visibility_timeout_ms / 3)
        wait_ms = lease->visibility_timeout_ms / 3;
    return (struct retry_limits){
        &lease->own, now_ms + wait_ms, now_ms + wait_ms / 5};
}

/* Use the newest Date that this process has received, so that no read of the
 * run is needed for a Date. If the machine was paused after that response, the
 * response to the insert shows the pause (lease_clock.h). */
static bool use_last_date(struct lease *lease)
{
    struct lease_response last;

    if (!store_last_date(lease->store, &last) ||
        platform_boot_ms() - last.sent_ms > DATE_KEPT_MS)
        return false;
    lease_clock_note(&lease->clock, lease->store, &last);
    lease->date_ticks = last.date_ticks;
    lease->date_sent_ms = last.sent_ms;
    lease->date_answered_ms = last.answered_ms;
    return true;
}

/* Returns what is known of the run before its first request. A run whose id is
 * the message's id cannot be in the ledger before the message's first delivery.
 * A run whose id is in the message's body may be in the ledger, because
 * `enqueue` and `retry` write a run to the ledger before they put its
 * message. */
static enum ledger_known what_is_known(
    struct lease *lease, const struct lease_request *request)
{
    bool is_first = request->message && request->message->dequeue_count <= 1 &&
                    slice_equal(request->message->id, request->id);

    return is_first && !request->must_exist && use_last_date(lease)
               ? LEDGER_ABSENT
               : LEDGER_READ;
}

enum lease_outcome lease_acquire(struct lease *lease,
    const struct lease_request *request, enum tw_err *ret_outcome,
    struct err *err)
{
    struct taking taking = {lease, request, LEASE_OUTAGE, 0};
    const struct retry_limits limits = take_limits(lease);
    struct ledger_change change = {.store = lease->store,
        .deadline = &lease->own,
        .apply = apply_acquire,
        .made = note_request,
        .context = &taking,
        .limits = &limits};
    enum tw_err outcome;

    (void)lock_file_owner(lease->lock_file, lease->owner);
    lease->stored.job =
        ledger_text(&lease->stored, slice_of(request->job->name));
    lease->stored.id = ledger_text(&lease->stored, request->id);
    outcome = ledger_change(
        &change, what_is_known(lease, request), &lease->stored, err);
    ledger_copy(&lease->run, &lease->stored);
    *ret_outcome = TW_CONFLICT;
    if (outcome == TW_OK ||
        (outcome == TW_CONFLICT && taking.outcome != LEASE_ACQUIRED &&
            taking.outcome != LEASE_OUTAGE)) {
        lease->may_own = taking.outcome == LEASE_ACQUIRED;
        if (lease->may_own) {
            lease_clock_take(&lease->clock, lease->stored.lease_until_ticks);
            note_asked(lease, &lease->stored);
        }
        return taking.outcome;
    }
    return not_taken(lease, &change, outcome, ret_outcome, err);
}

/* ---- renewing ---- */

enum tw_err lease_renew_message(struct lease *lease, struct err *err)
{
    struct exchange exchange = new_exchange(lease);
    enum tw_err outcome = store_queue_renew(lease->store, &exchange,
        lease->queue, slice_of(lease->message_id), lease->pop_receipt,
        lease->visibility_timeout_ms / 1000);

    if (outcome == TW_CONFLICT || outcome == TW_NOT_FOUND) {
        lease->has_message = false;
        outcome = TW_CONFLICT;
    }
    count_request(lease, &exchange);
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", exchange.err.text);
    return outcome;
}

/* Does the ledger still have this lease? Each lease has its own Epoch and a
 * random Owner. */
static bool is_ours(const struct lease *lease, const struct ledger_run *stored)
{
    return stored->epoch == lease->run.epoch &&
           slice_is(stored->owner, lease->owner);
}

/* Context of a ledger change by the owner. */
struct keeping {
    struct lease *lease; /* must be first, for note_request() */
    bool lost;
    bool stored;     /* an earlier try stored the release, or no release is
                        needed */
    int64_t sent_ms; /* when the first try was sent. The deadlines count from
                        then, because any of the tries may be the stored one */
};

static enum tw_err apply_renewal(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct keeping *keeping = context;
    struct lease *lease = keeping->lease;

    (void)now_ticks;
    keeping->lost = !is_ours(lease, run);
    if (keeping->lost)
        return err_fail(err, TW_CONFLICT, "another owner has the run");
    note_asked(lease, run);
    if (keeping->sent_ms == 0)
        keeping->sent_ms = platform_boot_ms();
    lease->run.lease_until_ticks = lease_until(lease, platform_boot_ms());
    lease->run.updated_ticks = lease_now_ticks(lease);
    ledger_take_over(run, &lease->run);
    return TW_OK;
}

enum lease_status lease_write_run(
    struct lease *lease, struct exchange *ret_last, struct err *err)
{
    struct keeping keeping = {.lease = lease};
    struct ledger_change change = {.store = lease->store,
        .deadline = &lease->own,
        .apply = apply_renewal,
        .made = note_request,
        .context = &keeping};
    struct lease_mark mark = lease_clock_mark(&lease->clock);
    enum tw_err outcome;

    ledger_compact(&lease->run);
    outcome = ledger_change(&change, LEDGER_STORED, &lease->stored, err);
    if (ret_last)
        *ret_last = change.last;
    if (outcome == TW_OK) {
        set_deadline(lease, keeping.sent_ms);
        lease_clock_renew(
            &lease->clock, &mark, lease->stored.lease_until_ticks);
        return LEASE_VALID;
    }
    lease->unstorable = change.of_run && outcome != TW_BUSY;
    if (!keeping.lost && !change.damaged && !change.left_alone)
        return LEASE_UNKNOWN;
    lease->may_own = false;
    return LEASE_LOST;
}

enum lease_status lease_store_ending(struct lease *lease,
    enum ledger_state state, const char *reason, struct err *err)
{
    struct retry retry = {0};
    struct exchange last;
    enum lease_status status;

    write_ending(&lease->run, state, slice_of(reason));
    do {
        lease->run.transactions++; /* the count includes this write */
        status = lease_write_run(lease, &last, err);
    } while (status == LEASE_UNKNOWN && !lease->unstorable &&
             try_again(lease, &last, &retry));
    return status;
}

/* ---- releasing ---- */

/* Returns the present time or StartedAt, whichever is later. The service's
 * clock is known only approximately (Date is cut to whole seconds and ages in
 * transit), and no run may end before its start. */
static int64_t now_or_start(const struct lease *lease)
{
    int64_t now_ticks = lease_now_ticks(lease);

    return now_ticks > lease->run.started_ticks ? now_ticks
                                                : lease->run.started_ticks;
}

/* Did an operator cancel or pause the run after the lease expired, and has no
 * new owner acquired the run since? Then this state is kept, as if the operator
 * had asked the owner. */
static bool was_put_aside(
    const struct lease *lease, const struct ledger_run *stored)
{
    return stored->epoch == lease->run.epoch && stored->owner.len == 0 &&
           (stored->state == LEDGER_CANCELLED ||
               stored->state == LEDGER_PAUSED);
}

/* Does the request of an operator stay in the ledger, because the next owner
 * must complete a load before it can obey? */
static bool keeps_control(
    const struct lease *lease, const struct ledger_run *run)
{
    if (!lease->load_open || ledger_state_ended(run->state))
        return false;
    return run->state != LEDGER_PAUSED || lease->asked == LEASE_ASKED_CANCEL;
}

static enum tw_err apply_end(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct keeping *keeping = context;
    struct lease *lease = keeping->lease;
    enum tw_err outcome = TW_OK;

    (void)now_ticks;
    keeping->stored = (lease->end_operation[0] != '\0' &&
                          slice_is(run->operation, lease->end_operation)) ||
                      was_put_aside(lease, run);
    keeping->lost = !keeping->stored && !is_ours(lease, run);
    if (keeping->stored || keeping->lost)
        return err_fail(err, TW_CONFLICT, "another owner has the run");
    note_asked(lease, run);
    lease->run.silent = lease->keeps_crash ? 1 : 0;
    lease->run.lease_until_ticks = lease->run.updated_ticks =
        lease_now_ticks(lease);
    ledger_take_over(run, &lease->run);
    run->owner = (struct slice){0};
    if (!keeps_control(lease, run))
        run->control = (struct slice){0};
    else if (run->state == LEDGER_PAUSED) /* workers acquire no paused run */
        outcome = ledger_move(run, LEDGER_QUEUED, err);
    /* A cancel or pause that was asked for since the last renewal decides the
     * state of an open run. */
    if (!ledger_state_ended(run->state) && !lease->load_open &&
        lease->asked != LEASE_ASKED_NOTHING) {
        run->resumes_ticks = 0;
        outcome = ledger_move(run,
            lease->asked == LEASE_ASKED_CANCEL ? LEDGER_CANCELLED
                                               : LEDGER_PAUSED,
            err);
    }
    if (ledger_state_ended(run->state))
        run->finished_ticks = now_or_start(lease);
    /* If an operator asked for `finish` while the attempt ended to wait for the
     * next round, the run does not wait. */
    if (run->state == LEDGER_WAITING && run->finish.len > 0 &&
        slice_is(run->waits_for, LEDGER_WAITS_FOR_ROUND))
        run->resumes_ticks = lease->run.updated_ticks;
    return outcome;
}

enum lease_status lease_release(struct lease *lease, struct err *err)
{
    struct keeping keeping = {.lease = lease};
    struct ledger_change change = {.store = lease->store,
        .deadline = &lease->own,
        .apply = apply_end,
        .made = note_request,
        .context = &keeping,
        .closes_job =
            lease->closes_job && lease->run.state == LEDGER_SUCCEEDED};
    struct retry retry = {0};
    enum tw_err outcome;

    do {
        lease->run.transactions++; /* the count includes this write */
        outcome = ledger_change(&change, LEDGER_STORED, &lease->stored, err);
        if (outcome == TW_OK || keeping.stored) {
            lease->may_own = false;
            ledger_copy(&lease->run, &lease->stored);
            return LEASE_VALID;
        }
        lease->unstorable = change.of_run && outcome != TW_BUSY;
        if (outcome == TW_UNKNOWN)
            memcpy(lease->end_operation, change.operation,
                sizeof(lease->end_operation));
        if (keeping.lost || change.damaged || change.left_alone) {
            lease->may_own = false;
            return LEASE_LOST;
        }
    } while (!lease->unstorable && try_again(lease, &change.last, &retry));
    return LEASE_UNKNOWN;
}

/* ---- the message ---- */

void lease_hide_message_ms(struct lease *lease, int64_t wait_ms)
{
    struct exchange exchange = new_exchange(lease);
    int64_t seconds = (wait_ms + 999) / 1000;

    if (!lease->has_message)
        return;
    if (seconds > HIDE_MAX_S)
        seconds = HIDE_MAX_S;
    if (store_queue_renew(lease->store, &exchange, lease->queue,
            slice_of(lease->message_id), lease->pop_receipt,
            seconds < 0 ? 0 : seconds) != TW_OK)
        log_debug("queue",
            "%s: the visibility timeout of message %s could not be changed: %s",
            lease->queue, lease->message_id, exchange.err.text);
    count_request(lease, &exchange);
}

void lease_hide_message(struct lease *lease, int64_t until_ticks)
{
    int64_t left = until_ticks - lease_now_ticks(lease);

    lease_hide_message_ms(
        lease, left <= 0 ? 0 : (left + TICKS_PER_MS - 1) / TICKS_PER_MS);
}

void lease_delete_message(struct lease *lease)
{
    struct retry retry = {0};
    struct exchange exchange;
    enum tw_err outcome;

    while (lease->has_message) {
        exchange = new_exchange(lease);
        outcome = store_queue_delete(lease->store, &exchange, lease->queue,
            slice_of(lease->message_id), slice_of(lease->pop_receipt));
        count_request(lease, &exchange);
        if (outcome == TW_OK || outcome == TW_CONFLICT ||
            outcome == TW_NOT_FOUND)
            lease->has_message = false;
        else if (!try_again(lease, &exchange, &retry))
            return;
    }
}

void lease_delete_poison_copy(
    struct lease *lease, struct slice id, struct slice receipt)
{
    char *poison_queue =
        mem_format("%.*s%s", SLICE_ARG(lease->run.queue), SETUP_POISON_SUFFIX);
    struct retry retry = {0};
    struct exchange exchange;
    enum tw_err outcome;

    do {
        exchange = new_exchange(lease);
        outcome = store_queue_delete(
            lease->store, &exchange, poison_queue, id, receipt);
        count_request(lease, &exchange);
    } while (outcome != TW_OK && outcome != TW_CONFLICT &&
             outcome != TW_NOT_FOUND && try_again(lease, &exchange, &retry));
    mem_free(poison_queue);
}

/* Put text, or its base64, into the poison queue; create the queue if it is
 * missing. */
static enum tw_err put_or_create(struct lease *lease, struct exchange *exchange,
    const char *poison_queue, struct slice text, struct messages *ret)
{
    struct retry_call once = retry_call(&lease->own, 0, 0);
    enum tw_err outcome;

    *exchange = new_exchange(lease);
    outcome = queue_put(lease->store, exchange, poison_queue, text, 0, ret);
    if (outcome != TW_NOT_FOUND)
        return outcome;
    outcome = queue_ensure(lease->store, poison_queue, &once, false);
    *exchange = once.exchange;
    if (outcome != TW_OK)
        return outcome;
    *exchange = new_exchange(lease);
    return queue_put(lease->store, exchange, poison_queue, text, 0, ret);
}

static void note_copy(struct lease *lease, const struct message *message)
{
    lease->run.poison_id = ledger_text(&lease->run, message->id);
    lease->run.poison_receipt = ledger_text(&lease->run, message->pop_receipt);
}

/* Is the message a poison copy of this run? The poison copy that was there
 * before a `retry` (poison_id) does not count, because `retry` deletes it. A
 * body that names no run does not count either, because it may be another
 * run's. */
static bool is_copy(const struct lease *lease, const struct poison_copy *copy,
    const struct message *message)
{
    const struct ledger_run *run = &lease->run;
    bool same = slice_equal(message->text, copy->text);
    struct slice args = {0};

    if (!same)
        args = run->args;
    return (same || run->args.len > 0) &&
           !slice_equal(message->id, run->poison_id) &&
           message_is_of(message->text, run->job, run->id, args);
}

/* Peek the poison queue. TW_OK: the poison queue has responded, perhaps with an
 * error, which the put will then get too. *ret_found: true if the poison copy
 * is among its first messages. */
static enum tw_err find_copy(struct lease *lease, struct exchange *exchange,
    const char *poison_queue, const struct poison_copy *copy, bool *ret_found)
{
    struct messages seen;
    enum tw_err outcome;

    *exchange = new_exchange(lease);
    messages_init(&seen);
    outcome = store_queue_peek(
        lease->store, exchange, poison_queue, QUEUE_MAX_GET, &seen);
    count_request(lease, exchange);
    for (size_t i = 0; outcome == TW_OK && i < seen.count && !*ret_found; i++) {
        *ret_found = is_copy(lease, copy, &seen.list[i]);
        if (*ret_found)
            note_copy(lease, &seen.list[i]);
    }
    messages_done(&seen);
    return outcome == TW_BUSY || outcome == TW_UNKNOWN || outcome == TW_STOPPED
               ? outcome
               : TW_OK;
}

/* Returns how long the put of the poison copy is retried. The remaining time of
 * the lease is kept for storing the run as held and for hiding the run's
 * message, because the queue service may not respond to the hiding either. */
static struct retry_limits copy_limits(const struct lease *lease)
{
    int64_t now_ms = platform_boot_ms();

    return (struct retry_limits){&lease->own,
        now_ms + lease->visibility_timeout_ms / 2,
        now_ms + lease->visibility_timeout_ms / 4};
}

/* Try once to put the poison copy. *may_be_there: true if it may be in the
 * poison queue; set to true after an indeterminate outcome. */
static enum tw_err put_unless_there(struct lease *lease,
    struct exchange *exchange, const char *poison_queue,
    const struct poison_copy *copy, bool *may_be_there)
{
    struct messages put;
    bool found = false;
    enum tw_err outcome = TW_OK;

    if (*may_be_there)
        outcome = find_copy(lease, exchange, poison_queue, copy, &found);
    if (outcome != TW_OK || found)
        return outcome;
    messages_init(&put);
    outcome = put_or_create(lease, exchange, poison_queue, copy->text, &put);
    count_request(lease, exchange);
    *may_be_there = *may_be_there || outcome == TW_UNKNOWN;
    if (outcome == TW_OK)
        note_copy(lease, &put.list[0]);
    messages_done(&put);
    return outcome;
}

enum tw_err lease_put_poison_copy(
    struct lease *lease, const struct poison_copy *copy, struct err *err)
{
    char *poison_queue =
        mem_format("%.*s%s", SLICE_ARG(copy->queue), SETUP_POISON_SUFFIX);
    bool may_be_there = copy->may_be_there;
    struct retry_limits limits = copy_limits(lease);
    struct retry retry = {0};
    struct exchange exchange;
    enum tw_err outcome;

    do
        outcome = put_unless_there(
            lease, &exchange, poison_queue, copy, &may_be_there);
    while ((outcome == TW_BUSY || outcome == TW_UNKNOWN) &&
           !retry_is_locked(&exchange) &&
           retry_wait(&retry, &exchange, &limits));
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "%s", exchange.err.text);
    mem_free(poison_queue);
    return outcome;
}
