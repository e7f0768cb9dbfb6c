/* SPDX-License-Identifier: MIT */
/*
 * The consumer puts a task into a free slot's hands under `lock`; from then
 * until its report the task is the slot's own.
 */
#include "worker/run/slots.h"

#include <assert.h>

#include "worker/base/arena.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/run/ledger_change.h"
#include "worker/run/message.h"
#include "worker/run/poison.h"

/* A held message is hidden so long at least. */
#define HELD_MIN_MS 5000

struct slot {
    struct slots *slots;
    struct world_thread thread;
    struct arena arena;     /* the task's texts; the giver's until `given` */
    struct slots_task task; /* likewise */
    bool given;             /* guarded by slots->lock */
};

struct slots {
    const struct work_place *place;
    void (*report)(void *context, const struct slots_report *report);
    void *context;
    struct slot *list;
    size_t count;

    struct world_mutex lock; /* guards all below and slot.given */
    struct world_cond changed;
    size_t busy;
    bool ending;
};

/* ---- one task ---- */

static struct claim_wish wish_of(const struct slots_task *task)
{
    const struct setup *setup = task->definition->setup;

    return (struct claim_wish){.store = definition_store(task->definition),
        .visibility_timeout_s = setup->visibility_timeout_s,
        .max_attempts = setup->max_attempts};
}

static void do_orphan(struct slot *slot, struct slots_report *report)
{
    const struct slots_task *task = &slot->task;
    struct claim_wish wish = wish_of(task);

    wish.job = task->job;
    wish.id = task->id;
    wish.must_exist = true;
    work_attempt(
        slot->slots->place, task->definition, &wish, NULL, &report->result);
}

static void poison(struct slot *slot, const struct claim_message *message,
    const struct job *job, const char *reason, struct slots_report *report)
{
    const struct definition *definition = slot->task.definition;
    struct err err = {""};

    report->result.outcome = poison_message(definition_store(definition),
        job ? job->name : LEDGER_UNREADABLE, message,
        definition->setup->visibility_timeout_s, reason, &err);
    report->poisoned = report->result.outcome == TW_OK;
    report->result.end = report->poisoned ? WORK_ENDED : WORK_OUTAGE;
    report->result.state = LEDGER_POISONED;
    if (report->poisoned)
        (void)err_fail(&err, TW_INVALID, "%s", reason);
    report->result.err = err;
}

/* A bound queue's body may be the bell of a run that is in the ledger. */
static bool do_bell(struct slot *slot, const struct claim_message *message,
    const struct request *request, struct slots_report *report)
{
    struct claim_wish wish = wish_of(&slot->task);

    if (request->bell_id.len == 0)
        return false;
    wish.job = request->job;
    wish.id = request->bell_id;
    wish.args_json = request->bell_args_json;
    wish.message = message;
    wish.must_exist = true;
    work_attempt(slot->slots->place, slot->task.definition, &wish, NULL,
        &report->result);
    return report->result.end != WORK_MISSING &&
           report->result.end != WORK_REFUSED;
}

static void do_request(struct slot *slot, const struct claim_message *message,
    const struct request *request, struct slots_report *report)
{
    struct claim_wish wish = wish_of(&slot->task);

    wish.job = request->job;
    wish.id = request->id.len > 0 ? request->id : message->id;
    wish.args_json = request->args_json;
    wish.requested_ticks = request->requested_ticks;
    wish.traceparent = request->traceparent;
    wish.accept_deletes = request->accept_deletes;
    wish.message = message;
    work_attempt(slot->slots->place, slot->task.definition, &wish,
        &request->args, &report->result);
    if (report->result.end == WORK_REFUSED)
        poison(slot, message, request->job, report->result.err.text, report);
}

/* What a change of the ledger by hold_unknown() knows. */
struct holding {
    int64_t until_ticks, now_ticks;
};

static enum tw_err apply_hold(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    struct holding *holding = context;
    enum tw_err outcome;

    if (run->etag.len == 0 || ledger_state_ended(run->state))
        return TW_NOT_FOUND;
    holding->now_ticks = now_ticks;
    holding->until_ticks = run->resumes_ticks;
    if (run->state == LEDGER_PAUSED || run->resumes_ticks > now_ticks ||
        ledger_lease_is_live(run, now_ticks))
        return TW_CONFLICT;
    outcome = claim_hold(run, LEDGER_WAITS_FOR_DEFINITION, now_ticks, 0,
        "its job is not in the configuration: restore it, or cancel the run",
        err);
    holding->until_ticks = run->resumes_ticks;
    return outcome;
}

/*
 * A message for a job that the configuration does not have. Where the ledger
 * has its run, open, the job was removed: the run is held, and so is its
 * message. False: there is no such run, or it has ended.
 */
static bool hold_unknown(struct slot *slot, const struct claim_message *message,
    const struct request *request, struct slots_report *report)
{
    struct claim_wish wish = wish_of(&slot->task);
    struct holding holding = {0, 0};
    struct ledger_change change = {
        .store = wish.store, .apply = apply_hold, .context = &holding};
    struct ledger_run run;
    struct claim claim;
    enum tw_err outcome;

    if (request->unknown_job.len == 0 ||
        entity_check_key("PartitionKey", request->unknown_job, NULL) != TW_OK)
        return false;
    ledger_run_init(&run);
    run.job = ledger_text(&run, request->unknown_job);
    run.id = ledger_text(&run, request->id.len > 0 ? request->id : message->id);
    outcome = ledger_change(&change, LEDGER_READ, &run, &report->result.err);
    if (outcome != TW_NOT_FOUND) {
        int64_t left = holding.until_ticks - holding.now_ticks;

        wish.message = message;
        claim_init(&claim, &wish);
        claim_hide_ms(&claim, left > 0 ? left / TICKS_PER_MS : HELD_MIN_MS);
        report->result.until_ms =
            world_boot_ms() + (left > 0 ? left / TICKS_PER_MS : HELD_MIN_MS);
        claim_done(&claim);
        report->result.end = outcome == TW_OK || outcome == TW_CONFLICT
                                 ? WORK_LATER
                                 : WORK_OUTAGE;
        log_warn("run",
            "%.*s/%.*s is held: its job is not in the configuration",
            SLICE_ARG(run.job), SLICE_ARG(run.id));
    }
    ledger_run_done(&run);
    return outcome != TW_NOT_FOUND;
}

static void do_message(struct slot *slot, struct slots_report *report)
{
    const struct slots_task *task = &slot->task;
    struct claim_message message = {.queue = task->queue->name,
        .id = task->message.id,
        .pop_receipt = task->message.pop_receipt,
        .text = task->message.text,
        .inserted_ticks = task->message.inserted_ticks,
        .sent_ms = task->sent_ms};
    struct request request;
    struct err err = {""};
    enum tw_err outcome = message_read(task->queue, task->definition->jobs,
        task->message.text, &slot->arena, &request, &err);

    if (do_bell(slot, &message, &request, report))
        return;
    if (outcome != TW_OK && hold_unknown(slot, &message, &request, report))
        return;
    if (outcome != TW_OK)
        poison(slot, &message, request.job, err.text, report);
    else
        do_request(slot, &message, &request, report);
}

/* ---- the threads ---- */

static void do_task(struct slot *slot)
{
    struct slots_report report = {{0}, false};

    if (slot->task.queue)
        do_message(slot, &report);
    else
        do_orphan(slot, &report);
    definition_drop(slot->task.definition);
    arena_clear(&slot->arena);
    world_lock(&slot->slots->lock);
    slot->given = false;
    slot->slots->busy--;
    world_unlock(&slot->slots->lock);
    slot->slots->report(slot->slots->context, &report);
}

static void serve(void *arg)
{
    struct slot *slot = arg;
    struct slots *slots = slot->slots;

    world_lock(&slots->lock);
    while (slot->given || !slots->ending) {
        if (slot->given) {
            world_unlock(&slots->lock);
            do_task(slot);
            world_lock(&slots->lock);
        } else {
            (void)world_wait(&slots->changed, &slots->lock, WORLD_NEVER);
        }
    }
    world_unlock(&slots->lock);
}

struct slots *slots_new(size_t count, const struct work_place *place,
    void (*report)(void *context, const struct slots_report *report),
    void *context)
{
    struct slots *slots = mem_alloc(sizeof(*slots));

    slots->place = place;
    slots->report = report;
    slots->context = context;
    slots->count = count;
    slots->list = mem_array(count, sizeof(*slots->list));
    world_mutex_init(&slots->lock);
    world_cond_init(&slots->changed);
    for (size_t i = 0; i < count; i++) {
        slots->list[i].slots = slots;
        arena_init(&slots->list[i].arena);
        world_start(&slots->list[i].thread, "slot", serve, &slots->list[i]);
    }
    return slots;
}

void slots_free(struct slots *slots)
{
    if (slots == NULL)
        return;
    world_lock(&slots->lock);
    slots->ending = true;
    world_wake_all(&slots->changed);
    world_unlock(&slots->lock);
    for (size_t i = 0; i < slots->count; i++) {
        world_join(&slots->list[i].thread);
        arena_done(&slots->list[i].arena);
    }
    world_cond_done(&slots->changed);
    world_mutex_done(&slots->lock);
    mem_free(slots->list);
    mem_free(slots);
}

size_t slots_busy(struct slots *slots)
{
    size_t busy;

    world_lock(&slots->lock);
    busy = slots->busy;
    world_unlock(&slots->lock);
    return busy;
}

size_t slots_idle(struct slots *slots)
{
    return slots->count - slots_busy(slots);
}

static struct slot *idle_slot(struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++)
        if (!slots->list[i].given)
            return &slots->list[i];
    return NULL;
}

void slots_give(struct slots *slots, const struct slots_task *task)
{
    struct slot *slot;

    world_lock(&slots->lock);
    slot = idle_slot(slots);
    assert(slot != NULL);
    slot->task = *task;
    slot->task.definition = definition_hold(task->definition);
    slot->task.message.id = arena_copy(&slot->arena, task->message.id);
    slot->task.message.pop_receipt =
        arena_copy(&slot->arena, task->message.pop_receipt);
    slot->task.message.text = arena_copy(&slot->arena, task->message.text);
    slot->task.id = arena_copy(&slot->arena, task->id);
    slot->given = true;
    slots->busy++;
    world_wake_all(&slots->changed);
    world_unlock(&slots->lock);
}
