/* SPDX-License-Identifier: MIT */
/* Processes one message or one orphan. */
#include "worker/run/task.h"

#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/activity.h"
#include "worker/run/lease.h"
#include "worker/run/ledger_change.h"
#include "worker/run/message.h"
#include "worker/run/poison.h"
#include "worker/store/retry.h"

/* How long a message is hidden if, at its first delivery, it cannot be moved to
 * the poison queue. Also how long it is hidden if the job of its run is not
 * configured here, but an owner of another configuration executes the run. */
#define HELD_MIN_MS 5000

struct doing {
    const struct task *task;
    const struct attempt_environment *environment;
    struct arena *arena;
};

static struct lease_request lease_request_of(const struct doing *doing)
{
    const struct definition *definition = doing->task->definition;
    const struct setup *setup = definition->setup;

    return (struct lease_request){.store = definition_store(definition),
        .visibility_timeout_s = setup->visibility_timeout_s,
        .max_attempts = setup->max_attempts,
        .lock_file = doing->environment->lock_file};
}

static void do_orphan(const struct doing *doing, struct task_report *report)
{
    const struct task *task = doing->task;
    struct lease_request lease_request = lease_request_of(doing);

    lease_request.job = task->orphan_job;
    lease_request.id = task->orphan_id;
    lease_request.must_exist = true;
    attempt_run(doing->environment, task->definition, &lease_request, NULL,
        &report->result);
}

/* Hide the message for wait_ms. Other messages are not delayed. */
static void hide(const struct doing *doing, const struct lease_message *message,
    int64_t wait_ms, struct task_report *report)
{
    struct lease_request lease_request = lease_request_of(doing);
    struct lease lease;

    lease_request.message = message;
    lease_init(&lease, &lease_request);
    lease_hide_message_ms(&lease, wait_ms);
    lease_done(&lease);
    report->result.end = ATTEMPT_DEFERRED;
    report->result.until_ms = platform_boot_ms() + wait_ms;
}

static void delete_message(
    const struct doing *doing, const struct lease_message *message)
{
    struct lease_request lease_request = lease_request_of(doing);
    struct lease lease;

    lease_request.message = message;
    lease_init(&lease, &lease_request);
    lease_delete_message(&lease);
    lease_done(&lease);
}

/* Returns how long a message is hidden if it cannot be moved to the poison
 * queue: longer at each delivery. */
static int64_t hide_ms(const struct lease_message *message)
{
    int64_t most = HOLD_MAX_MS / HELD_MIN_MS;
    int64_t count = message->dequeue_count;

    return HELD_MIN_MS * (count < 1 ? 1 : count < most ? count : most);
}

/* Move the message to the poison queue. If its poison copy cannot be put, or
 * the reason cannot be stored in the ledger, the message is hidden and moved at
 * a later delivery. Other messages are not delayed, because perhaps only the
 * poison queue fails. */
static void poison(const struct doing *doing,
    const struct lease_message *message, const struct job *job,
    const char *reason, struct task_report *report)
{
    const struct definition *definition = doing->task->definition;
    struct err *err = &report->result.err;

    report->result.outcome = poison_message(definition_store(definition),
        job ? job->name : LEDGER_UNREADABLE, doing->task->queue, message,
        definition->setup->visibility_timeout_s, reason, err);
    report->poisoned = report->result.outcome == TW_OK;
    report->result.state = LEDGER_POISONED;
    report->result.end = ATTEMPT_RUN_ENDED;
    if (report->poisoned) {
        activity_run_ended(doing->environment->activity,
            job ? job->name : LEDGER_UNREADABLE, LEDGER_POISONED);
        (void)err_fail(err, TW_INVALID, "%s", reason);
        return;
    }
    hide(doing, message, hide_ms(message), report);
    report->result.for_cause = true;
    err_prefix(err,
        "message %.*s of queue %s cannot be moved to the poison queue",
        SLICE_ARG(message->id), message->queue);
}

/* Make an attempt at the run that a wake-up message names. False: the ledger
 * has no usable run with the message's id and arguments. */
static bool do_wake_up(const struct doing *doing,
    const struct lease_message *message, const struct request *request,
    struct task_report *report)
{
    struct lease_request lease_request = lease_request_of(doing);

    lease_request.job = request->wake_up_job;
    lease_request.id =
        request->wake_up_id.len > 0 ? request->wake_up_id : message->id;
    lease_request.args_json = request->wake_up_args_json;
    lease_request.message = message;
    lease_request.must_exist = true;
    attempt_run(doing->environment, doing->task->definition, &lease_request,
        NULL, &report->result);
    return report->result.end != ATTEMPT_RUN_MISSING &&
           report->result.end != ATTEMPT_REFUSED;
}

/* Make an attempt at the run of a message that was put while its queue was
 * bound to a job: the ledger has the run under the message's id, with the body
 * as the argument. False: the ledger has no such run of a configured job. */
static bool do_former_argument(const struct doing *doing,
    const struct lease_message *message, struct task_report *report)
{
    const struct jobs *jobs = doing->task->definition->jobs;
    struct request request;

    for (size_t i = 0; i < jobs->count; i++)
        for (int base64 = 0; base64 < 2; base64++)
            if (message_read_as_bound(&jobs->list[i], base64, message->text,
                    doing->arena, &request) &&
                do_wake_up(doing, message, &request, report))
                return true;
    return false;
}

static void do_request(const struct doing *doing,
    const struct lease_message *message, const struct request *request,
    struct task_report *report)
{
    struct lease_request lease_request = lease_request_of(doing);

    lease_request.job = request->job;
    lease_request.id = request->id.len > 0 ? request->id : message->id;
    lease_request.args_json = request->args_json;
    lease_request.requested_ticks = request->requested_ticks;
    lease_request.traceparent = request->traceparent;
    lease_request.accept_deletes = request->accept_deletes;
    lease_request.message = message;
    attempt_run(doing->environment, doing->task->definition, &lease_request,
        &request->args, &report->result);
    if (report->result.end == ATTEMPT_REFUSED) {
        /* A copy, because poison() overwrites result.err. */
        const struct err why = report->result.err;

        poison(doing, message, request->job, why.text, report);
    }
}

/* Context of the ledger change in hold_unknown(). */
struct holding {
    struct slice args_json; /* Args that the run must have; empty: any Args */

    /* Set by apply_hold(). until_ticks: ResumesAt of the run.
     * now_ticks: the time of the ledger. */
    int64_t until_ticks, now_ticks;
};

static enum tw_err apply_hold(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct holding *holding = context;
    enum tw_err outcome;

    if (run->etag.len == 0 || ledger_state_ended(run->state))
        return TW_NOT_FOUND;
    if (holding->args_json.len > 0 &&
        !message_args_same(holding->args_json, run->args))
        return TW_NOT_FOUND;
    holding->now_ticks = now_ticks;
    holding->until_ticks = run->resumes_ticks;
    if (run->state == LEDGER_PAUSED || run->resumes_ticks > now_ticks ||
        ledger_lease_is_live(run, now_ticks))
        return TW_CONFLICT;
    outcome = lease_hold_without_job(run, now_ticks, err);
    holding->until_ticks = run->resumes_ticks;
    return outcome;
}

/* Handle the message of a run whose job is not configured. */
static void hold_message(const struct doing *doing,
    const struct lease_message *message, const struct holding *holding,
    const struct ledger_run *run, struct task_report *report)
{
    const struct log_run log = {.job = run->job.at, .id = run->id.at};
    int64_t left = holding->until_ticks - holding->now_ticks;

    if (run->state == LEDGER_PAUSED) {
        delete_message(doing, message);
        report->result.end = ATTEMPT_PAUSED;
        return;
    }
    hide(doing, message, left > 0 ? left / TICKS_PER_MS : HELD_MIN_MS, report);
    activity_held(doing->environment->activity, run->job, run->id,
        definition_store(doing->task->definition)->name,
        slice_of(LEDGER_WAITS_FOR_DEFINITION), report->result.until_ms);
    log_run_warn(&log, "%.*s/%.*s is held: its job is not in the configuration",
        SLICE_ARG(run->job), SLICE_ARG(run->id));
}

/*
 * Handle a message for a job that is not configured. If the ledger has an open
 * run for the message, the job was removed: hold the run and hide the message.
 * False: the ledger has no such open run, or the run's entity cannot be read.
 */
static bool hold_unknown(const struct doing *doing,
    const struct lease_message *message, const struct request *request,
    struct task_report *report)
{
    struct holding holding = {.args_json = request->wake_up_args_json};
    const struct retry_call call = retry_call(NULL, RETRY_BUSY_MS, 0);
    struct ledger_change change = {
        .store = definition_store(doing->task->definition),
        .apply = apply_hold,
        .context = &holding,
        .limits = &call.limits};
    struct slice id = request->wake_up_id.len > 0 ? request->wake_up_id
                      : request->id.len > 0       ? request->id
                                                  : message->id;
    struct err *err = &report->result.err;
    struct ledger_run run;
    enum tw_err outcome;
    bool is_held;

    if (entity_check_key("PartitionKey", request->unknown_job, NULL) != TW_OK)
        return false;
    ledger_run_init(&run);
    run.job = ledger_text(&run, request->unknown_job);
    run.id = ledger_text(&run, id);
    outcome = ledger_change(&change, LEDGER_READ, &run, err);
    is_held = outcome != TW_NOT_FOUND && !change.damaged;
    if (outcome == TW_OK || outcome == TW_CONFLICT) {
        hold_message(doing, message, &holding, &run, report);
    } else if (change.of_run && is_held) {
        log_warn("run", "%s", err->text);
        hide(doing, message, HOLD_MAX_MS, report);
    } else if (is_held) {
        report->result.end = ATTEMPT_OUTAGE;
    }
    ledger_run_done(&run);
    return is_held;
}

void task_do(const struct task *task,
    const struct attempt_environment *environment, struct arena *arena,
    struct task_report *ret)
{
    struct doing doing = {task, environment, arena};
    struct lease_message message = {.queue = task->queue->name,
        .id = task->message.id,
        .pop_receipt = task->message.pop_receipt,
        .text = task->message.text,
        .inserted_ticks = task->message.inserted_ticks,
        .dequeue_count = task->message.dequeue_count,
        .sent_ms = task->sent_ms};
    struct request request;
    struct err err = {""};
    bool is_handled = false;
    enum tw_err outcome;

    *ret = (struct task_report){.orphan = task->orphan_job != NULL};
    if (task->orphan_job) {
        do_orphan(&doing, ret);
        return;
    }
    outcome = message_read(task->queue, task->definition->jobs,
        task->message.text, arena, &request, &err);
    if (request.unknown_job.len > 0)
        is_handled = hold_unknown(&doing, &message, &request, ret);
    else if (request.wake_up_job)
        is_handled = do_wake_up(&doing, &message, &request, ret);
    else if (outcome != TW_OK && !request.job)
        is_handled = do_former_argument(&doing, &message, ret);
    if (is_handled)
        return;
    if (outcome != TW_OK)
        poison(&doing, &message, request.job, err.text, ret);
    else
        do_request(&doing, &message, &request, ret);
}
