/* SPDX-License-Identifier: MIT */
/*
 * The lease: what each answer of the ledger and the queue does to the right to
 * work on a run. In a virtual world, so that its waits cost nothing.
 */
#include "tests/support/workbench.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/lease.h"
#include "worker/store/retry.h"

#define JOB "delete-channel"
#define ALWAYS 1, UINT_MAX

struct fixture {
    struct workbench bench;
    struct lease_request wish;
    struct lease_message message;
    struct messages taken;
    struct lease lease;
    enum tw_err outcome;
    struct err err;
};

static int set_up(void **state)
{
    struct fixture *f = test_malloc(sizeof(*f));

    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    memset(f, 0, sizeof(*f));
    workbench_init(&f->bench);
    messages_init(&f->taken);
    f->wish = workbench_wish(&f->bench, "r1");
    lease_init(&f->lease, &f->wish);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    lease_done(&f->lease);
    messages_done(&f->taken);
    workbench_done(&f->bench);
    virtual_platform_end();
    test_free(f);
    return 0;
}

static enum lease_outcome take(struct fixture *f)
{
    lease_done(&f->lease);
    lease_init(&f->lease, &f->wish);
    return lease_acquire(&f->lease, &f->wish, &f->outcome, &f->err);
}

/* A lease of r1 that a message has rung for. */
static void take_with_message(struct fixture *f, const char *text)
{
    int64_t sent_ms;

    workbench_put(&f->bench, BENCH_QUEUE, text);
    sent_ms = workbench_take(&f->bench, BENCH_QUEUE, &f->taken);
    f->message = (struct lease_message){.queue = BENCH_QUEUE,
        .sent_ms = sent_ms,
        .id = f->taken.list[0].id,
        .pop_receipt = f->taken.list[0].pop_receipt,
        .text = f->taken.list[0].text,
        .inserted_ticks = f->taken.list[0].inserted_ticks};
    f->wish.message = &f->message;
    assert_int_equal(take(f), LEASE_ACQUIRED);
}

static void read_run(struct fixture *f, struct ledger_run *ret)
{
    ledger_run_init(ret);
    assert_true(workbench_run(&f->bench, JOB, "r1", ret));
}

/* What somebody else writes over what is there; change may be NULL. */
static void rewrite(struct fixture *f, enum ledger_state state,
    const char *owner, int32_t epoch_more)
{
    struct ledger_run run;

    read_run(f, &run);
    run.state = state;
    run.owner = ledger_text(&run, slice_of(owner));
    run.epoch += epoch_more;
    assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
    ledger_run_done(&run);
}

/* The run's entity as something that is no run; gone where json is NULL. */
static void spoil_run(struct fixture *f, bool remove)
{
    struct ledger_run run;
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    read_run(f, &run);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    entity_set_int32(&entity, &arena, "State", 5);
    entity.etag = run.etag;
    workbench_write(
        &f->bench, remove ? OPERATION_DELETE : OPERATION_REPLACE, &entity);
    ledger_run_done(&run);
    arena_done(&arena);
}

/* ---- taking ---- */

static void a_claim_says_what_the_store_said(void **state)
{
    static const struct {
        enum bench_fault fault;
        enum tw_err outcome;
    } CASES[] = {
        {BENCH_FAIL, TW_BUSY}, {BENCH_REFUSE, TW_REFUSED},
        {BENCH_LOSE_ANSWER, TW_BUSY},
        {BENCH_INVALID, TW_BUSY}, /* the request was refused, not the run */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, BENCH_GET, ALWAYS, CASES[i].fault);
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, CASES[i].outcome);
        assert_true(f->err.text[0] != '\0');
    }
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "none");
}

static void a_run_that_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    spoil_run(f, false);
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_non_null(strstr(f->err.text, "'delete-channel' / 'r1'"));
}

static void a_table_that_cannot_be_made_is_an_outage(void **state)
{
    static const struct {
        enum bench_fault fault;
        enum tw_err outcome;
    } CASES[] = {{BENCH_REFUSE, TW_REFUSED}, {BENCH_LOSE_REQUEST, TW_BUSY}};
    struct fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_GONE);
        workbench_meets(&f->bench, BENCH_CREATE, ALWAYS, CASES[i].fault);
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, CASES[i].outcome);
    }
}

/* The request was lost: what is there is not ours, and is claimed again. */
static void a_claim_that_was_lost_is_made_again(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.epoch, 1);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 2);
    virtual_sleep(120000);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.previous_owner_crashed);
    read_run(f, &run);
    assert_int_equal(run.epoch, 2);
    assert_int_equal(run.attempt, 2);
    assert_true(slice_is(run.owner, f->lease.owner));
    ledger_run_done(&run);
}

/* ---- a message that comes for the first time ---- */

/* A lease of another run has brought the ledger's Date. */
static void ring_for_r2(struct fixture *f, int64_t dequeue_count)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->wish.id = slice_of("r2");
    f->message = (struct lease_message){.queue = BENCH_QUEUE,
        .id = slice_of("r2"),
        .pop_receipt = slice_of("p"),
        .text = slice_of("wake-up"),
        .inserted_ticks = platform_wall_ticks(),
        .dequeue_count = dequeue_count};
    f->wish.message = &f->message;
    memset(f->bench.calls, 0, sizeof(f->bench.calls));
}

static void a_first_message_takes_its_run_with_one_request(void **state)
{
    struct fixture *f = *state;
    int64_t taken_ms;

    ring_for_r2(f, 1);
    virtual_sleep(30000);
    taken_ms = platform_boot_ms();
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 0);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
    assert_true(
        f->lease.stored.lease_until_ticks >=
        platform_wall_ticks() + f->wish.visibility_timeout_s * TICKS_PER_S);
    assert_true(f->lease.deadline_ms <=
                platform_boot_ms() + f->wish.visibility_timeout_s * 1000);
    assert_true(deadline_is_open(&f->lease.deadline, taken_ms));
    assert_true(llabs(f->lease.run.started_ticks - platform_wall_ticks()) <
                2 * TICKS_PER_S);
}

static void a_message_that_came_before_reads_first(void **state)
{
    struct fixture *f = *state;

    ring_for_r2(f, 2);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 1);
}

/* It may be one of `enqueue`, which has written the run before. */
static void a_message_that_names_its_run_reads_first(void **state)
{
    struct fixture *f = *state;

    ring_for_r2(f, 1);
    f->message.id = slice_of("m");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 1);
}

static void a_date_of_a_minute_ago_begins_no_run(void **state)
{
    struct fixture *f = *state;

    ring_for_r2(f, 1);
    virtual_sleep(60001);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 1);
}

/* Two messages with the id of one run. */
static void a_first_message_of_a_run_at_work_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    ring_for_r2(f, 1);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(take(f), LEASE_HELD);
    assert_false(f->lease.may_own);
    ledger_run_init(&run);
    assert_true(workbench_run(&f->bench, JOB, "r2", &run));
    assert_int_equal(run.epoch, 1);
    assert_int_equal(run.attempt, 1);
    ledger_run_done(&run);
}

static void a_first_message_whose_answer_is_lost_is_recognised(void **state)
{
    struct fixture *f = *state;

    ring_for_r2(f, 1);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.epoch, 1);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
}

static void pause_machine(struct fixture *f, int64_t ms)
{
    platform_lock(&f->bench.lock);
    f->bench.paused_ms += ms;
    platform_unlock(&f->bench.lock);
}

/* The Date that is known is from before a pause: what is written may be a lease
 * that is over soon, so nothing starts before the next write is stored. */
static void a_run_begun_after_a_pause_starts_nothing_at_once(void **state)
{
    struct fixture *f = *state;

    ring_for_r2(f, 1);
    pause_machine(f, 30000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 0);
    assert_false(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_true(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
}

/* ... or over already: then it is another worker's. */
static void a_run_begun_after_a_long_pause_is_not_worked(void **state)
{
    struct fixture *f = *state;

    ring_for_r2(f, 1);
    pause_machine(f, f->wish.visibility_timeout_s * 1000 + 10000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(lease_clock_is_over(&f->lease.clock));
    assert_false(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
}

static void stall_before_the_second_batch(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)bench;
    if (call == BENCH_BATCH && n == 1)
        virtual_sleep(70000);
}

/* The first one may be stored by now: its lease has expired. */
static void a_claim_is_not_tried_after_the_lease_of_its_first_try(void **state)
{
    struct fixture *f = *state;

    f->bench.between = stall_before_the_second_batch;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
}

static struct fixture *thief;

static void steal_first(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)n;
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    rewrite(thief, LEDGER_RUNNING, "somebody", 1);
}

/* Same epoch, another owner: whose answer is lost looks whose it is. */
static void a_claim_that_another_one_beat_is_not_ours(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_QUEUED, "", 0);
    thief = f;
    f->bench.between = steal_first;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_HELD);
    assert_true(slice_is(f->lease.run.owner, "somebody"));
    assert_int_equal(f->lease.run.epoch, 2);
}

static void cancel_first(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    if (call != BENCH_GET || n < 2)
        return;
    bench->between = NULL;
    rewrite(thief, LEDGER_CANCELLED, thief->lease.owner, 0);
}

/* The lease was taken and its answer lost; then somebody cancelled the run. */
static void a_run_cancelled_before_its_claim_was_known_stays_cancelled(
    void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    thief = f;
    f->bench.between = cancel_first;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(take(f), LEASE_RUN_ENDED);
    read_run(f, &run);
    assert_int_equal(run.state, LEDGER_CANCELLED);
    ledger_run_done(&run);
}

/* What the old checkpoint knew, a late insert for one, is lost with it. */
static void a_checkpoint_that_is_not_used_is_told_of(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.starts_over);
    f->lease.run.checkpoint = ledger_text(&f->lease.run, slice_of("{}"));
    assert_int_equal(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err), TW_OK);
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.starts_over);
    assert_int_equal(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err), TW_OK);
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.starts_over);
    assert_false(f->lease.previous_owner_crashed);
}

static void an_unknown_claim_that_cannot_be_read_is_an_outage(void **state)
{
    struct fixture *f = *state;

    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->outcome, TW_UNKNOWN);
}

static void one_lost_response_is_no_outage(void **state)
{
    struct fixture *f = *state;

    workbench_meets(&f->bench, BENCH_GET, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 3, 3, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.attempt, 1);
}

static void a_write_that_is_refused_is_an_outage(void **state)
{
    struct fixture *f = *state;

    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_REFUSE);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->outcome, TW_REFUSED);
    assert_string_equal(f->err.text, "the key is wrong");
}

/* The ledger is well: no other run waits for this one. */
static void a_run_that_keeps_changing_is_left_for_later(void **state)
{
    struct fixture *f = *state;

    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_CONFLICT);
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(f->lease.until_ticks - lease_now_ticks(&f->lease),
        4 * TICKS_PER_S, 5 * TICKS_PER_S);
    assert_string_equal(f->err.text,
        "run delete-channel/r1 changed before each attempt to write it");
    assert_int_equal(f->bench.calls[BENCH_BATCH], 8);
}

static void a_ledger_that_is_busy_is_waited_for(void **state)
{
    static const enum bench_call CALLS[] = {BENCH_GET, BENCH_BATCH};
    struct fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, CALLS[i], 1, 3, BENCH_THROTTLE);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        rewrite(f, LEDGER_QUEUED, "", 0);
    }
}

/* Not for ever: its slot is free, and the lease that the first try may have
 * brought is not over, within a third of it. */
static void a_ledger_that_stays_busy_is_an_outage(void **state)
{
    static const int64_t TIMEOUTS_S[] = {6, 3600};
    struct fixture *f = *state;
    int64_t begun_ms;

    for (size_t i = 0; i < 2; i++) {
        f->wish.visibility_timeout_s = TIMEOUTS_S[i];
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_THROTTLE);
        begun_ms = platform_boot_ms();
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, TW_BUSY);
        assert_true(platform_boot_ms() - begun_ms <= (i == 0 ? 2000 : 10000));
    }
}

/* The ledger has a run that the service would take no larger. */
static void fill_run(struct fixture *f)
{
    struct ledger_run run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_QUEUED, "", 0);
    read_run(f, &run);
    run.started_ticks = 0; /* room for one that acquiring needs */
    workbench_fill_run(&f->bench, &run);
    ledger_run_done(&run);
}

static void a_run_that_cannot_be_stored_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct lease_message message = {.queue = BENCH_QUEUE,
        .id = slice_of("m1"),
        .pop_receipt = slice_of("receipt"),
        .text = slice_of("wake-up")};

    fill_run(f);
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_int_equal(f->outcome, TW_INVALID);
    assert_non_null(strstr(f->err.text, "properties"));
    f->wish.message = &message;
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(f->lease.until_ticks - lease_now_ticks(&f->lease),
        299 * TICKS_PER_S, 300 * TICKS_PER_S);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "queued");
}

/* Between the look and the write it went: begun anew. */
static void a_run_that_vanishes_meanwhile_is_begun_again(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_QUEUED, "", 0);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_GONE);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.epoch, 2);
}

static void the_time_of_the_request_is_the_wish_s_the_message_s_or_now(
    void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(llabs(f->lease.run.requested_ticks -
                      f->lease.run.started_ticks) < TICKS_PER_S);
    f->bench.store->capabilities.local = false;
    f->wish.id = slice_of("r0");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.run.requested_ticks == f->lease.run.started_ticks);
    f->wish.id = slice_of("r2");
    f->wish.requested_ticks = TICKS_1970 + 77;
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.run.requested_ticks == TICKS_1970 + 77);
    f->wish.id = slice_of("r3");
    f->wish.requested_ticks = 0;
    take_with_message(f, "wake-up");
    assert_true(f->lease.run.requested_ticks == f->message.inserted_ticks);
    f->wish.id = slice_of("r4");
    f->wish.requested_ticks = TICKS_1970 + 78;
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.run.requested_ticks == TICKS_1970 + 78);
}

static void clocks_are_the_service_s_once_it_has_answered(void **state)
{
    struct fixture *f = *state;

    assert_true(
        platform_wall_ticks() - lease_now_ticks(&f->lease) < TICKS_PER_MS);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    virtual_sleep(10000);
    assert_true(lease_now_ticks(&f->lease) <= platform_wall_ticks());
    assert_true(
        lease_now_ticks(&f->lease) > platform_wall_ticks() - 2 * TICKS_PER_S);
    assert_true(lease_boot_ms(&f->lease, 0) <= platform_boot_ms() + 1);
    assert_true(lease_boot_ms(
                    &f->lease, lease_now_ticks(&f->lease) + 60 * TICKS_PER_S) >=
                platform_boot_ms() + 59000);
}

/* What the ledger has may be anything. */
static void attempts_are_counted_up_to_the_end_of_numbers(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    read_run(f, &run);
    run.attempt = run.epoch = run.silent = INT32_MAX;
    run.lease_until_ticks = TICKS_1970;
    assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
    ledger_run_done(&run);
    for (int i = 0; i < 2; i++) {
        virtual_sleep(24 * 3600000);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        assert_int_equal(f->lease.run.attempt, INT32_MAX);
        assert_int_equal(f->lease.run.epoch, INT32_MAX);
        assert_int_equal(f->lease.run.silent, INT32_MAX);
    }
}

static void attempts_that_crash_without_progress_are_counted(void **state)
{
    struct fixture *f = *state;

    f->wish.max_attempts = 3;
    for (int crashed = 0; crashed < 3; crashed++) {
        assert_int_equal(take(f), LEASE_ACQUIRED);
        assert_int_equal(f->lease.run.silent, crashed + 1);
        virtual_sleep(64000);
    }
    assert_int_equal(take(f), LEASE_HELD);
    virtual_sleep(10 * 60000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.silent, 4);
}

/* Who dates what the run is compared with, sees the wall clock. */
static void a_request_is_dated_by_the_wall_clock_of_a_local_store(void **state)
{
    struct fixture *f = *state;
    int64_t request;

    virtual_step_clocks(0, -2 * 86400000, 0);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    request = f->lease.run.requested_ticks;
    assert_true(llabs(request - platform_wall_ticks()) < TICKS_PER_S);
    assert_true(f->lease.run.started_ticks > request + 86400 * TICKS_PER_S);
}

/* Nor does one forward let another in, nor one back keep it out. */
static void a_step_of_the_wall_clock_moves_no_lease(void **state)
{
    static const int64_t steps_ms[] = {
        3600000, -3600000, 2 * 86400000, -2 * 86400000};
    struct fixture *f = *state;

    for (size_t i = 0; i < 4; i++) {
        char id[8];

        (void)snprintf(id, sizeof(id), "s%zu", i);
        f->wish.id = slice_of(id);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        virtual_step_clocks(0, steps_ms[i], 0);
        assert_int_equal(take(f), LEASE_HELD);
        virtual_sleep(f->wish.visibility_timeout_s * 1000 - 1000);
        assert_int_equal(take(f), LEASE_HELD);
        virtual_sleep(f->wish.visibility_timeout_s * 1000 / 8 + 5000);
        assert_int_equal(take(f), LEASE_ACQUIRED);
    }
}

/* ---- keeping ---- */

static void a_message_renewal_that_fails_says_why(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_RENEW, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_BUSY);
    assert_string_equal(f->err.text, "the store is down");
    assert_true(f->lease.has_message);
    assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_OK);
}

static void a_message_lost_to_another_is_no_longer_waited_for(void **state)
{
    static const enum bench_fault LOST[] = {BENCH_CONFLICT, BENCH_GONE};
    struct fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        f->wish.id = slice_of(i == 0 ? "r1" : "r2");
        take_with_message(f, "wake-up");
        workbench_meets(&f->bench, BENCH_RENEW, 1, 1, LOST[i]);
        assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_CONFLICT);
        assert_false(f->lease.has_message);
        assert_true(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
    }
}

static void a_write_moves_the_deadline_only_when_it_is_stored(void **state)
{
    struct fixture *f = *state;
    int64_t deadline_ms;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    deadline_ms = f->lease.deadline_ms;
    virtual_sleep(5000);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_UNKNOWN);
    assert_true(f->lease.deadline_ms == deadline_ms);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_true(f->lease.deadline_ms >= deadline_ms + 5000);
}

/* A front end may keep its own beside ours: a renewal wrote over it. */
static void what_others_merge_meanwhile_stays(void **state)
{
    struct fixture *f = *state;
    struct property note = {
        slice_of("Remark"), EDM_STRING, slice_of("\"hello\"")};
    struct ledger_run run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    read_run(f, &run);
    run.others = &note;
    run.other_count = 1;
    assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
    ledger_run_done(&run);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    read_run(f, &run);
    assert_int_equal(run.other_count, 1);
    assert_true(slice_is(run.others[0].json, "\"hello\""));
    ledger_run_done(&run);
}

static void what_is_stored_says_whose_it_is(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_UNKNOWN);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    rewrite(f, LEDGER_RUNNING, "somebody", 0);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    rewrite(f, LEDGER_CANCELLED, "", 0);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    rewrite(f, LEDGER_RUNNING, "", 1);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    spoil_run(f, true);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
}

static void a_run_that_was_spoilt_is_not_ours_any_more(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    spoil_run(f, false);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
}

/* What a person asks of the owner; the next renewal stores it beside. */
static void ask(struct fixture *f, const char *control, const char *finish)
{
    struct ledger_run run;

    read_run(f, &run);
    run.control = ledger_text(&run, slice_of(control));
    run.finish = ledger_text(&run, slice_of(finish));
    assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
    ledger_run_done(&run);
}

static void a_renewal_brings_what_people_ask(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    ask(f, LEDGER_CONTROL_PAUSE, LEDGER_FINISH);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_int_equal(f->lease.asked, LEASE_ASKED_PAUSE);
    assert_true(slice_is(f->lease.run.finish, LEDGER_FINISH));
    ask(f, LEDGER_CONTROL_CANCEL, "");
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_int_equal(f->lease.asked, LEASE_ASKED_CANCEL);
}

/* Asked after the last renewal: an open run becomes what was asked for, one
 * that has just succeeded has succeeded. */
static void what_is_asked_decides_what_an_open_run_becomes(void **state)
{
    static const struct {
        const char *control;
        enum ledger_state end, stored;
    } cases[] = {
        {LEDGER_CONTROL_CANCEL, LEDGER_QUEUED, LEDGER_CANCELLED},
        {LEDGER_CONTROL_CANCEL, LEDGER_WAITING, LEDGER_CANCELLED},
        {LEDGER_CONTROL_PAUSE, LEDGER_QUEUED, LEDGER_PAUSED},
        {LEDGER_CONTROL_CANCEL, LEDGER_SUCCEEDED, LEDGER_SUCCEEDED},
        {LEDGER_CONTROL_PAUSE, LEDGER_FAILED, LEDGER_FAILED},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char id[8];
        struct ledger_run run;

        (void)snprintf(id, sizeof(id), "c%zu", i);
        f->wish.id = slice_of(id);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        ledger_run_init(&run);
        assert_true(workbench_run(&f->bench, JOB, id, &run));
        run.control = slice_of(cases[i].control);
        assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
        ledger_run_done(&run);
        assert_int_equal(
            ledger_move(&f->lease.run, cases[i].end, &f->err), TW_OK);
        assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
        assert_int_equal(f->lease.run.state, cases[i].stored);
        ledger_run_init(&run);
        assert_true(workbench_run(&f->bench, JOB, id, &run));
        assert_int_equal(run.state, cases[i].stored);
        assert_int_equal(run.control.len, 0);
        assert_true((run.finished_ticks > 0) == ledger_state_ended(run.state));
        ledger_run_done(&run);
    }
}

/* `finish` that comes while the last round ends is not put off for a minute;
 * another wait is none of its business. */
static void finish_waits_for_no_round(void **state)
{
    static const struct {
        const char *finish, *waits_for;
        bool goes_on;
    } cases[] = {
        {"", LEDGER_WAITS_FOR_ROUND, false},
        {LEDGER_FINISH, LEDGER_WAITS_FOR_ROUND, true},
        {LEDGER_FINISH_NOW, LEDGER_WAITS_FOR_ROUND, true},
        {LEDGER_FINISH, LEDGER_WAITS_FOR_TURN, false},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char id[8];
        struct ledger_run run;
        int64_t now, later;

        (void)snprintf(id, sizeof(id), "f%zu", i);
        f->wish.id = slice_of(id);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        ledger_run_init(&run);
        assert_true(workbench_run(&f->bench, JOB, id, &run));
        run.finish = slice_of(cases[i].finish);
        assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
        ledger_run_done(&run);
        now = lease_now_ticks(&f->lease);
        later = now + 60 * TICKS_PER_S;
        assert_int_equal(
            ledger_wait(&f->lease.run, cases[i].waits_for, now, later, &f->err),
            TW_OK);
        assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
        assert_int_equal(f->lease.run.state, LEDGER_WAITING);
        if (cases[i].goes_on)
            assert_true(f->lease.run.resumes_ticks < later);
        else
            assert_int_equal(f->lease.run.resumes_ticks, later);
    }
}

static void a_paused_run_is_left_to_who_resumes_it(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_PAUSED, "", 0);
    assert_int_equal(take(f), LEASE_RUN_PAUSED);
    f->wish.resumes_paused = true;
    assert_int_equal(take(f), LEASE_ACQUIRED);
}

/* The owner crashed before it saw what was asked. */
static void what_a_crashed_owner_was_asked_is_done(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    ask(f, LEDGER_CONTROL_CANCEL, "");
    virtual_sleep(4 * 60000);
    assert_int_equal(take(f), LEASE_RUN_ENDED);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "cancelled");
    read_run(f, &run);
    assert_in_range(run.finished_ticks, run.started_ticks + 239 * TICKS_PER_S,
        run.started_ticks + 242 * TICKS_PER_S);
    assert_true(run.updated_ticks == run.finished_ticks);
    assert_true(run.lease_until_ticks == run.finished_ticks);
    ledger_run_done(&run);
    assert_int_equal(workbench_listed(&f->bench, JOB, LEDGER_INDEX_ENDED), 1);
}

/* Its requests may still arrive late: the next owner is to know, although the
 * run has no owner any more. */
static void whoever_resumes_it_knows_that_its_owner_crashed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.silent = 0; /* it makes progress */
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    ask(f, LEDGER_CONTROL_PAUSE, "");
    virtual_sleep(64000);
    assert_int_equal(take(f), LEASE_RUN_PAUSED);
    rewrite(f, LEDGER_QUEUED, "", 0); /* `resume` */
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.previous_owner_crashed);
    assert_int_equal(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err), TW_OK);
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.previous_owner_crashed);
}

/* ---- what a newer version has written ---- */

static void what_a_newer_version_stored_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;
    struct slice etag;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    read_run(f, &run);
    run.state = LEDGER_QUEUED;
    run.owner = slice_of("");
    run.format = LEDGER_FORMAT + 1;
    assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
    etag = run.etag;
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    {
        struct ledger_run now;

        read_run(f, &now);
        assert_true(slice_equal(now.etag, etag));
        ledger_run_done(&now);
    }
    ledger_run_done(&run);
}

/* ---- a definition that changes ---- */

static void attempt_begins(struct fixture *f)
{
    f->bench.kind.table_job = true;
    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.checkpoint = ledger_text(&f->lease.run, slice_of("{}"));
    f->lease.run.phase = ledger_text(&f->lease.run, slice_of("copying"));
    assert_int_equal(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err), TW_OK);
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
}

static void a_table_job_waits_for_its_definition(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;
    int64_t first;

    attempt_begins(f);
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_HELD);
    read_run(f, &run);
    assert_int_equal(run.state, LEDGER_WAITING);
    assert_true(slice_is(run.waits_for, LEDGER_WAITS_FOR_DEFINITION));
    assert_true(ledger_is_held(&run));
    assert_true(run.error.len > 0);
    assert_true(slice_is(run.checkpoint, "{}"));
    first = run.resumes_ticks - run.updated_ticks;
    assert_true(first >= 5 * TICKS_PER_S && first < 10 * TICKS_PER_S);
    ledger_run_done(&run);
    virtual_sleep(1000000);
    assert_int_equal(take(f), LEASE_HELD);
    read_run(f, &run);
    assert_true(run.resumes_ticks - run.updated_ticks == 300 * TICKS_PER_S);
    ledger_run_done(&run);
}

/* It was held with the crash unseen. */
static void a_crash_before_the_definition_changed_stays_known(void **state)
{
    struct fixture *f = *state;
    char before[17];

    attempt_begins(f);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.silent = 0;
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    virtual_sleep(64000);
    memcpy(before, f->bench.job.hash, sizeof(before));
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_HELD);
    memcpy(f->bench.job.hash, before, sizeof(before));
    virtual_sleep(10000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.previous_owner_crashed);
}

static void a_definition_that_is_restored_goes_on_where_it_was(void **state)
{
    struct fixture *f = *state;
    char before[17];

    attempt_begins(f);
    memcpy(before, f->bench.job.hash, sizeof(before));
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_HELD);
    memcpy(f->bench.job.hash, before, sizeof(before));
    virtual_sleep(10000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(slice_is(f->lease.run.checkpoint, "{}"));
    assert_false(f->lease.starts_over);
}

static void an_accepted_definition_begins_with_the_first_round(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    attempt_begins(f);
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_HELD);
    read_run(f, &run);
    lease_accept_definition(&run);
    lease_accept_definition(&run); /* once is enough */
    run.resumes_ticks = 0;
    assert_int_equal(workbench_store_run(&f->bench, &run), TW_OK);
    ledger_run_done(&run);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.starts_over);
    assert_int_equal(f->lease.run.checkpoint.len, 0);
    assert_int_equal(f->lease.run.phase.len, 0);
    assert_true(slice_is(f->lease.run.definition, "fedcba9876543210"));
    assert_non_null(
        strstr(f->lease.run.note.at, "began again with the first round"));
}

static void a_time_of_request_after_the_insertion_is_the_insertion(void **state)
{
    struct fixture *f = *state;

    f->wish.requested_ticks = TICKS_MAX;
    take_with_message(f, "wake-up");
    assert_true(
        f->lease.run.requested_ticks == f->taken.list[0].inserted_ticks);
}

/* ---- letting go ---- */

/* As work.c does it. */
static enum lease_status let_go(struct fixture *f, enum ledger_state state)
{
    assert_int_equal(ledger_move(&f->lease.run, state, &f->err), TW_OK);
    return lease_release(&f->lease, &f->err);
}

/* The later date says less: it was cut to its second, or came late. */
static void a_run_never_ends_before_it_has_begun(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    virtual_step_clocks(0, -900, 0);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_int_equal(
        ledger_move(&f->lease.run, LEDGER_SUCCEEDED, &f->err), TW_OK);
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_true(f->lease.run.finished_ticks >= f->lease.run.started_ticks);
}

static void letting_go_is_tried_until_it_is_stored(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 2, BENCH_FAIL);
    workbench_meets(&f->bench, BENCH_BATCH, 3, 3, BENCH_LOSE_REQUEST);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_VALID);
    read_run(f, &run);
    assert_int_equal(run.state, LEDGER_SUCCEEDED);
    assert_int_equal(run.owner.len, 0);
    assert_true(run.finished_ticks > 0);
    ledger_run_done(&run);
    assert_int_equal(workbench_listed(&f->bench, JOB, LEDGER_INDEX_OPEN), 0);
}

static void letting_go_whose_answer_was_lost_is_recognised(void **state)
{
    struct fixture *f = *state;
    unsigned batches;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    batches = f->bench.calls[BENCH_BATCH];
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(let_go(f, LEDGER_WAITING), LEASE_VALID);
    assert_int_equal(f->bench.calls[BENCH_BATCH], batches + 1);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "waiting");
}

/* An earlier write of this very attempt landed late: ours, but not the end. */
static void letting_go_is_not_an_earlier_write(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_RUNNING, f->lease.owner, 0);
    assert_int_equal(let_go(f, LEDGER_WAITING), LEASE_VALID);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "waiting");
}

static void queue_first(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)n;
    if (call != BENCH_GET)
        return;
    bench->between = NULL;
    rewrite(thief, LEDGER_QUEUED, "", 0);
}

/* It had failed, the answer was lost, and somebody has it tried again. */
static void a_retry_is_not_undone_by_a_lost_answer(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    thief = f;
    f->bench.between = queue_first;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(let_go(f, LEDGER_FAILED), LEASE_LOST);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "queued");
}

static void in_an_outage_letting_go_is_given_up(void **state)
{
    struct fixture *f = *state;
    unsigned batches;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    batches = f->bench.calls[BENCH_BATCH];
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_FAIL);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_UNKNOWN);
    assert_string_equal(f->err.text, "the store is down");
    assert_true(f->bench.calls[BENCH_BATCH] > batches + 1);
    assert_true(f->bench.calls[BENCH_BATCH] <= batches + RETRY_TRIES);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "running");
}

static void a_lease_that_is_nearly_over_is_not_let_go_again(void **state)
{
    struct fixture *f = *state;
    unsigned batches;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    virtual_sleep(60000 - 50);
    batches = f->bench.calls[BENCH_BATCH];
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_FAIL);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_UNKNOWN);
    assert_true(f->bench.calls[BENCH_BATCH] <= batches + 2);
}

static void an_overtaken_claim_lets_nothing_go(void **state)
{
    struct fixture *f = *state;
    struct ledger_run run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_RUNNING, "somebody", 1);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_LOST);
    read_run(f, &run);
    assert_true(slice_is(run.owner, "somebody"));
    assert_int_equal(run.state, LEDGER_RUNNING);
    ledger_run_done(&run);
}

/* ---- the message ---- */

static int64_t visible_in_s(struct fixture *f)
{
    struct exchange exchange = {0};
    struct messages got;
    int64_t waited_s = 0;

    messages_init(&got);
    for (;; waited_s++) {
        exchange = (struct exchange){0};
        assert_int_equal(store_queue_get(f->bench.wrapped.inner, &exchange,
                             BENCH_QUEUE, 1, 1, &got),
            TW_OK);
        if (got.count > 0)
            break;
        assert_true(waited_s < 110);
        virtual_sleep(1000);
    }
    messages_done(&got);
    return waited_s;
}

static void a_message_is_hidden_until_its_time(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    lease_hide_message(
        &f->lease, lease_now_ticks(&f->lease) + 20 * TICKS_PER_S);
    assert_in_range((uintmax_t)visible_in_s(f), 19, 22);
}

static void a_message_whose_time_has_come_is_visible_at_once(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    lease_hide_message(&f->lease, lease_now_ticks(&f->lease) - TICKS_PER_S);
    assert_int_equal(visible_in_s(f), 0);
}

static void a_pause_below_zero_is_none(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    lease_hide_message_ms(&f->lease, -5000);
    assert_int_equal(visible_in_s(f), 0);
}

/* A queue hides a message for seven days at most. */
static void a_longer_wait_is_cut_to_what_the_queue_takes(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    lease_hide_message(
        &f->lease, lease_now_ticks(&f->lease) + INT64_C(900000) * TICKS_PER_S);
    virtual_sleep(INT64_C(604700) * 1000);
    assert_in_range((uintmax_t)visible_in_s(f), 90, 105);
}

static void a_message_that_cannot_be_hidden_stays_as_it_is(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_RENEW, ALWAYS, BENCH_FAIL);
    lease_hide_message_ms(&f->lease, 1000);
    assert_int_equal(f->bench.calls[BENCH_RENEW], 1);
    assert_in_range((uintmax_t)visible_in_s(f), 59, 61);
}

static void without_a_message_nothing_is_hidden_or_deleted(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    lease_hide_message_ms(&f->lease, 1000);
    lease_delete_message(&f->lease);
    assert_int_equal(f->bench.calls[BENCH_RENEW], 0);
    assert_int_equal(f->bench.calls[BENCH_DELETE], 0);
}

static void deleting_the_message_is_tried_again(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_DELETE, 1, 2, BENCH_FAIL);
    lease_delete_message(&f->lease);
    assert_int_equal(f->bench.calls[BENCH_DELETE], 3);
    assert_false(f->lease.has_message);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 0);
}

static void a_message_that_cannot_be_deleted_comes_again(void **state)
{
    struct fixture *f = *state;

    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_DELETE, ALWAYS, BENCH_FAIL);
    lease_delete_message(&f->lease);
    assert_true(f->lease.has_message);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 1);
    assert_true(f->bench.calls[BENCH_DELETE] <= RETRY_TRIES);
}

static void a_message_that_is_another_s_or_gone_is_not_deleted_twice(
    void **state)
{
    static const enum bench_fault LOST[] = {BENCH_CONFLICT, BENCH_GONE};
    struct fixture *f = *state;

    for (unsigned i = 0; i < 2; i++) {
        f->wish.id = slice_of(i == 0 ? "r1" : "r2");
        take_with_message(f, "wake-up");
        workbench_meets(&f->bench, BENCH_DELETE, 1, 1, LOST[i]);
        lease_delete_message(&f->lease);
        assert_false(f->lease.has_message);
        assert_int_equal(f->bench.calls[BENCH_DELETE], i + 1);
    }
}

/* ---- the copy ---- */

static enum tw_err copy(struct fixture *f, struct slice text)
{
    return lease_put_poison_copy(&f->lease,
        &(struct poison_copy){slice_of(BENCH_QUEUE), text, false}, &f->err);
}

static void expect_copy(struct fixture *f, const char *text)
{
    struct messages copies;

    messages_init(&copies);
    (void)workbench_take(&f->bench, BENCH_QUEUE "-poison", &copies);
    assert_true(slice_is(copies.list[0].text, text));
    assert_true(slice_equal(copies.list[0].id, f->lease.run.poison_id));
    assert_true(f->lease.run.poison_receipt.len > 0);
    messages_done(&copies);
}

static void the_poison_queue_is_made_where_it_is_missing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(copy(f, slice_of("the body")), TW_OK);
    assert_int_equal(f->bench.calls[BENCH_CREATE], 1);
    expect_copy(f, "the body");
}

static void a_poison_queue_that_cannot_be_made_is_said(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_CREATE, ALWAYS, BENCH_REFUSE);
    assert_int_equal(copy(f, slice_of("the body")), TW_REFUSED);
    assert_int_equal(f->bench.calls[BENCH_PUT], 1);
    assert_int_equal(f->lease.run.poison_id.len, 0);
}

/* Its queue was not made then: the run was retried for ever. */
static void what_a_queue_cannot_carry_goes_as_base64(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(copy(f, (struct slice){"a\x01z", 3}), TW_OK);
    expect_copy(f, "YQF6");
}

static void a_copy_is_put_again_after_a_busy_answer(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_LOSE_REQUEST);
    workbench_meets(&f->bench, BENCH_PUT, 2, 2, BENCH_FAIL);
    assert_int_equal(copy(f, slice_of("the body")), TW_OK);
    expect_copy(f, "the body");
}

#define OF_JOB "{\"job\":\"" JOB "\",\"id\":"
#define OF_R1 OF_JOB "\"r1\",\"args\":{\"channel\":\"Football\"}"

/* Somebody has put text; may it be the copy? Then how many are there? */
static int64_t copies_beside(struct fixture *f, const char *text)
{
    char id[QUEUE_ID_MAX];

    (void)snprintf(id, sizeof(id), "%s",
        workbench_put(&f->bench, BENCH_QUEUE "-poison", text));
    assert_int_equal(lease_put_poison_copy(&f->lease,
                         &(struct poison_copy){slice_of(BENCH_QUEUE),
                             slice_of(OF_R1 ",\"at\":null}"), true},
                         &f->err),
        TW_OK);
    if (workbench_count(&f->bench, BENCH_QUEUE "-poison") == 1) {
        assert_true(slice_is(f->lease.run.poison_id, id));
        assert_int_equal(f->lease.run.poison_receipt.len, 0);
    }
    return workbench_count(&f->bench, BENCH_QUEUE "-poison");
}

static void a_copy_of_the_run_is_not_put_again(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(copies_beside(f, OF_R1 "}"), 1);
    assert_int_equal(f->bench.calls[BENCH_PUT], 0);
}

static void the_copy_of_another_run_is_no_copy(void **state)
{
    struct fixture *f = *state;
    int64_t count = 0;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    count = copies_beside(f, OF_JOB "\"r2\"}");
    assert_int_equal(count, 2);
    assert_int_equal(f->bench.calls[BENCH_PUT], 1);
}

/* That message was refused, and has nothing to do with the run. */
static void a_copy_with_other_arguments_is_another_s(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(
        copies_beside(f, OF_JOB "\"r1\",\"args\":{\"channel\":\"Arts\"}}"), 2);
}

/* A body that is an argument names no run: equal bodies are equal arguments. */
static void an_equal_body_alone_is_another_s(void **state)
{
    struct fixture *f = *state;
    struct poison_copy copy = {
        slice_of(BENCH_QUEUE), slice_of("Football"), true};

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_put(&f->bench, BENCH_QUEUE "-poison", "Football");
    assert_int_equal(lease_put_poison_copy(&f->lease, &copy, &f->err), TW_OK);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 2);
}

/* It was taken for the copy, and then deleted by the retry: none was left. */
static void the_copy_that_a_retry_takes_away_is_no_copy(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.poison_id = ledger_text(&f->lease.run,
        slice_of(workbench_put(&f->bench, BENCH_QUEUE "-poison", OF_R1 "}")));
    assert_int_equal(copies_beside(f, "another's"), 3);
    assert_true(f->lease.run.poison_receipt.len > 0);
}

/* The first put is made without a look; the next ones after one. */
static void after_an_unknown_put_the_queue_is_looked_at(void **state)
{
    struct fixture *f = *state;

    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_FAIL);
    workbench_meets(&f->bench, BENCH_PUT, 2, 2, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_PEEK, 1, 1, BENCH_THROTTLE);
    workbench_meets(&f->bench, BENCH_PEEK, 2, 2, BENCH_LOSE_REQUEST);
    assert_int_equal(copy(f, slice_of(OF_R1 "}")), TW_OK);
    assert_int_equal(f->bench.calls[BENCH_PUT], 2);
    assert_int_equal(f->bench.calls[BENCH_PEEK], 3);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 1);
    assert_true(f->lease.run.poison_id.len > 0);
}

static void while_the_queue_does_not_answer_nothing_is_put(void **state)
{
    struct fixture *f = *state;

    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_PEEK, ALWAYS, BENCH_LOSE_REQUEST);
    assert_int_equal(copy(f, slice_of("the body")), TW_UNKNOWN);
    assert_int_equal(f->bench.calls[BENCH_PUT], 1);
    assert_int_equal(f->lease.run.poison_id.len, 0);
}

/* A signature that may add and not read: a copy more is better than none. */
static void who_may_not_peek_puts(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PEEK, ALWAYS, BENCH_FORBID);
    assert_int_equal(copies_beside(f, OF_R1 "}"), 2);
}

static void in_an_outage_there_is_no_copy(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(copy(f, slice_of("the body")), TW_BUSY);
    assert_string_equal(f->err.text, "the store is down");
    assert_true(f->bench.calls[BENCH_PUT] <= RETRY_TRIES);
    assert_int_equal(f->lease.run.poison_id.len, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_claim_says_what_the_store_said),
        TEST(a_run_that_makes_no_sense_is_refused),
        TEST(a_table_that_cannot_be_made_is_an_outage),
        TEST(a_claim_that_was_lost_is_made_again),
        TEST(a_first_message_takes_its_run_with_one_request),
        TEST(a_message_that_came_before_reads_first),
        TEST(a_message_that_names_its_run_reads_first),
        TEST(a_date_of_a_minute_ago_begins_no_run),
        TEST(a_first_message_of_a_run_at_work_changes_nothing),
        TEST(a_first_message_whose_answer_is_lost_is_recognised),
        TEST(a_run_begun_after_a_pause_starts_nothing_at_once),
        TEST(a_run_begun_after_a_long_pause_is_not_worked),
        TEST(a_claim_is_not_tried_after_the_lease_of_its_first_try),
        TEST(a_claim_that_another_one_beat_is_not_ours),
        TEST(a_run_cancelled_before_its_claim_was_known_stays_cancelled),
        TEST(a_checkpoint_that_is_not_used_is_told_of),
        TEST(an_unknown_claim_that_cannot_be_read_is_an_outage),
        TEST(one_lost_response_is_no_outage),
        TEST(a_write_that_is_refused_is_an_outage),
        TEST(a_run_that_keeps_changing_is_left_for_later),
        TEST(a_ledger_that_is_busy_is_waited_for),
        TEST(a_ledger_that_stays_busy_is_an_outage),
        TEST(a_run_that_cannot_be_stored_is_left_alone),
        TEST(a_run_that_vanishes_meanwhile_is_begun_again),
        TEST(the_time_of_the_request_is_the_wish_s_the_message_s_or_now),
        TEST(clocks_are_the_service_s_once_it_has_answered),
        TEST(attempts_are_counted_up_to_the_end_of_numbers),
        TEST(attempts_that_crash_without_progress_are_counted),
        TEST(a_request_is_dated_by_the_wall_clock_of_a_local_store),
        TEST(a_step_of_the_wall_clock_moves_no_lease),
        TEST(a_run_never_ends_before_it_has_begun),
        TEST(a_message_renewal_that_fails_says_why),
        TEST(a_message_lost_to_another_is_no_longer_waited_for),
        TEST(a_write_moves_the_deadline_only_when_it_is_stored),
        TEST(what_others_merge_meanwhile_stays),
        TEST(what_is_stored_says_whose_it_is),
        TEST(a_renewal_brings_what_people_ask),
        TEST(what_is_asked_decides_what_an_open_run_becomes),
        TEST(finish_waits_for_no_round),
        TEST(a_paused_run_is_left_to_who_resumes_it),
        TEST(what_a_crashed_owner_was_asked_is_done),
        TEST(whoever_resumes_it_knows_that_its_owner_crashed),
        TEST(what_a_newer_version_stored_is_left_alone),
        TEST(a_table_job_waits_for_its_definition),
        TEST(a_crash_before_the_definition_changed_stays_known),
        TEST(a_definition_that_is_restored_goes_on_where_it_was),
        TEST(an_accepted_definition_begins_with_the_first_round),
        TEST(a_time_of_request_after_the_insertion_is_the_insertion),
        TEST(a_run_that_was_spoilt_is_not_ours_any_more),
        TEST(letting_go_is_tried_until_it_is_stored),
        TEST(letting_go_whose_answer_was_lost_is_recognised),
        TEST(letting_go_is_not_an_earlier_write),
        TEST(a_retry_is_not_undone_by_a_lost_answer),
        TEST(in_an_outage_letting_go_is_given_up),
        TEST(a_lease_that_is_nearly_over_is_not_let_go_again),
        TEST(an_overtaken_claim_lets_nothing_go),
        TEST(a_message_is_hidden_until_its_time),
        TEST(a_message_whose_time_has_come_is_visible_at_once),
        TEST(a_pause_below_zero_is_none),
        TEST(a_longer_wait_is_cut_to_what_the_queue_takes),
        TEST(a_message_that_cannot_be_hidden_stays_as_it_is),
        TEST(without_a_message_nothing_is_hidden_or_deleted),
        TEST(deleting_the_message_is_tried_again),
        TEST(a_message_that_cannot_be_deleted_comes_again),
        TEST(a_message_that_is_another_s_or_gone_is_not_deleted_twice),
        TEST(the_poison_queue_is_made_where_it_is_missing),
        TEST(a_poison_queue_that_cannot_be_made_is_said),
        TEST(what_a_queue_cannot_carry_goes_as_base64),
        TEST(a_copy_is_put_again_after_a_busy_answer),
        TEST(a_copy_of_the_run_is_not_put_again),
        TEST(the_copy_of_another_run_is_no_copy),
        TEST(a_copy_with_other_arguments_is_another_s),
        TEST(an_equal_body_alone_is_another_s),
        TEST(the_copy_that_a_retry_takes_away_is_no_copy),
        TEST(after_an_unknown_put_the_queue_is_looked_at),
        TEST(while_the_queue_does_not_answer_nothing_is_put),
        TEST(who_may_not_peek_puts),
        TEST(in_an_outage_there_is_no_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
