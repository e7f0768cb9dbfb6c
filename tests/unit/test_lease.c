/* SPDX-License-Identifier: MIT */
/*
 * The lease: what each answer of the ledger and the queue does to the right to
 * work on a run. In a virtual world, so that its waits cost nothing.
 */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/bound.h"
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

static void init(struct fixture *f)
{
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    workbench_init(&f->bench);
    messages_init(&f->taken);
    f->wish = workbench_wish(&f->bench, "r1");
    lease_init(&f->lease, &f->wish);
}

static void done(struct fixture *f)
{
    lease_done(&f->lease);
    messages_done(&f->taken);
    workbench_done(&f->bench);
    virtual_platform_end();
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

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

static struct ledger_run *read_run(struct fixture *f)
{
    return workbench_stored(&f->bench, JOB, "r1");
}

/* What somebody else writes over what is there; change may be NULL. */
static void rewrite(struct fixture *f, enum ledger_state state,
    const char *owner, int32_t epoch_more)
{
    struct ledger_run *run = read_run(f);

    run->state = state;
    run->owner = ledger_text(run, slice_of(owner));
    run->epoch += epoch_more;
    assert_ok(workbench_store_run(&f->bench, run));
}

/* The run's entity as something that is no run; gone where json is NULL. */
static void spoil_run(struct fixture *f, bool remove)
{
    struct ledger_run *run;
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    run = read_run(f);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    entity_set_int32(&entity, &arena, "State", 5);
    entity.etag = run->etag;
    workbench_write(
        &f->bench, remove ? OPERATION_DELETE : OPERATION_REPLACE, &entity);
    arena_done(&arena);
}

/* ---- taking ---- */

FIXTURE_TEST(a_claim_says_what_the_store_said)
{
    static const struct {
        enum bench_fault fault;
        enum tw_err outcome;
    } CASES[] = {
        {BENCH_FAIL, TW_BUSY}, {BENCH_REFUSE, TW_REFUSED},
        {BENCH_LOSE_ANSWER, TW_BUSY},
        {BENCH_INVALID, TW_BUSY}, /* the request was refused, not the run */
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, BENCH_GET, ALWAYS, CASES[i].fault);
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, CASES[i].outcome);
        assert_true(f->err.text[0] != '\0');
    }
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "none");
}

FIXTURE_TEST(a_run_that_makes_no_sense_is_refused)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    spoil_run(f, false);
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_non_null(strstr(f->err.text, "'delete-channel' / 'r1'"));
}

FIXTURE_TEST(a_table_that_cannot_be_made_is_an_outage)
{
    static const struct {
        enum bench_fault fault;
        enum tw_err outcome;
    } CASES[] = {{BENCH_REFUSE, TW_REFUSED}, {BENCH_LOSE_REQUEST, TW_BUSY}};

    for (size_t i = 0; i < 2; i++) {
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_GONE);
        workbench_meets(&f->bench, BENCH_CREATE, ALWAYS, CASES[i].fault);
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, CASES[i].outcome);
    }
}

/* The request was lost: what is there is not ours, and is claimed again. */
FIXTURE_TEST(a_claim_that_was_lost_is_made_again)
{
    struct ledger_run *run;

    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.epoch, 1);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 2);
    virtual_sleep(120000);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.previous_owner_crashed);
    run = read_run(f);
    assert_int_equal(run->epoch, 2);
    assert_int_equal(run->attempt, 2);
    assert_true(slice_is(run->owner, f->lease.owner));
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

FIXTURE_TEST(a_first_message_takes_its_run_with_one_request)
{
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

FIXTURE_TEST(a_message_that_came_before_reads_first)
{
    ring_for_r2(f, 2);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 1);
}

/* It may be one of `enqueue`, which has written the run before. */
FIXTURE_TEST(a_message_that_names_its_run_reads_first)
{
    ring_for_r2(f, 1);
    f->message.id = slice_of("m");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 1);
}

FIXTURE_TEST(a_date_of_a_minute_ago_begins_no_run)
{
    ring_for_r2(f, 1);
    virtual_sleep(60001);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 1);
}

/* Two messages with the id of one run. */
FIXTURE_TEST(a_first_message_of_a_run_at_work_changes_nothing)
{
    struct ledger_run *run;

    ring_for_r2(f, 1);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(take(f), LEASE_HELD);
    assert_false(f->lease.may_own);
    run = workbench_stored(&f->bench, JOB, "r2");
    assert_int_equal(run->epoch, 1);
    assert_int_equal(run->attempt, 1);
}

FIXTURE_TEST(a_first_message_whose_answer_is_lost_is_recognised)
{
    ring_for_r2(f, 1);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.epoch, 1);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
}

static void pause_machine(struct fixture *f, int64_t ms)
{
    workbench_locked(&f->bench, f->bench.paused_ms += ms);
}

/* The Date that is known is from before a pause: what is written may be a lease
 * that is over soon, so nothing starts before the next write is stored. */
FIXTURE_TEST(a_run_begun_after_a_pause_starts_nothing_at_once)
{
    ring_for_r2(f, 1);
    pause_machine(f, 30000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->bench.calls[BENCH_GET], 0);
    assert_false(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_true(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
}

/* ... or over already: then it is another worker's. */
FIXTURE_TEST(a_run_begun_after_a_long_pause_is_not_worked)
{
    ring_for_r2(f, 1);
    pause_machine(f, f->wish.visibility_timeout_s * 1000 + 10000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(lease_clock_is_over(&f->lease.clock));
    assert_false(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
}

BENCH_BETWEEN(stall_before_the_second_batch)
{
    if (call == BENCH_BATCH && n == 1)
        virtual_sleep(70000);
}

/* The first one may be stored by now: its lease has expired. */
FIXTURE_TEST(a_claim_is_not_tried_after_the_lease_of_its_first_try)
{
    f->bench.between = stall_before_the_second_batch;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
}

static struct fixture *thief;

BENCH_BETWEEN(steal_first)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    rewrite(thief, LEDGER_RUNNING, "somebody", 1);
}

/* Same epoch, another owner: whose answer is lost looks whose it is. */
FIXTURE_TEST(a_claim_that_another_one_beat_is_not_ours)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_QUEUED, "", 0);
    thief = f;
    f->bench.between = steal_first;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_HELD);
    assert_true(slice_is(f->lease.run.owner, "somebody"));
    assert_int_equal(f->lease.run.epoch, 2);
}

BENCH_BETWEEN(cancel_first)
{
    if (call != BENCH_GET || n < 2)
        return;
    bench->between = NULL;
    rewrite(thief, LEDGER_CANCELLED, thief->lease.owner, 0);
}

/* The lease was taken and its answer lost; then somebody cancelled the run. */
FIXTURE_TEST(a_run_cancelled_before_its_claim_was_known_stays_cancelled)
{
    struct ledger_run *run;

    thief = f;
    f->bench.between = cancel_first;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(take(f), LEASE_RUN_ENDED);
    run = read_run(f);
    assert_int_equal(run->state, LEDGER_CANCELLED);
}

/* What the old checkpoint knew, a late insert for one, is lost with it. */
FIXTURE_TEST(a_checkpoint_that_is_not_used_is_told_of)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.starts_over);
    f->lease.run.checkpoint = ledger_text(&f->lease.run, slice_of("{}"));
    assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.starts_over);
    assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    run = read_run(f);
    bound_accept_definition(run, &f->bench.job);
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.starts_over);
    assert_false(f->lease.previous_owner_crashed);
}

FIXTURE_TEST(an_unknown_claim_that_cannot_be_read_is_an_outage)
{
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->outcome, TW_UNKNOWN);
}

FIXTURE_TEST(one_lost_response_is_no_outage)
{
    workbench_meets(&f->bench, BENCH_GET, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 3, 3, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.attempt, 1);
}

FIXTURE_TEST(a_write_that_is_refused_is_an_outage)
{
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_REFUSE);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->outcome, TW_REFUSED);
    assert_string_equal(f->err.text, "the key is wrong");
}

/* The ledger is well: no other run waits for this one. */
FIXTURE_TEST(a_run_that_keeps_changing_is_left_for_later)
{
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_CONFLICT);
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(f->lease.until_ticks - lease_now_ticks(&f->lease),
        4 * TICKS_PER_S, 5 * TICKS_PER_S);
    assert_string_equal(f->err.text,
        "run delete-channel/r1 changed before each attempt to write it");
    assert_int_equal(f->bench.calls[BENCH_BATCH], 8);
}

FIXTURE_TEST(a_ledger_that_is_busy_is_waited_for)
{
    static const enum bench_call CALLS[] = {BENCH_GET, BENCH_BATCH};

    for (size_t i = 0; i < 2; i++) {
        f->bench.fate_count = 0;
        workbench_meets(&f->bench, CALLS[i], 1, 3, BENCH_THROTTLE);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        rewrite(f, LEDGER_QUEUED, "", 0);
    }
}

/* Not for ever: its slot is free, and the lease that the first try may have
 * brought is not over, within a third of it. */
FIXTURE_TEST(a_ledger_that_stays_busy_is_an_outage)
{
    static const int64_t TIMEOUTS_S[] = {6, 3600};
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
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_QUEUED, "", 0);
    run = read_run(f);
    run->started_ticks = 0; /* room for one that acquiring needs */
    workbench_fill_run(&f->bench, run);
}

FIXTURE_TEST(a_run_that_cannot_be_stored_is_left_alone)
{
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
FIXTURE_TEST(a_run_that_vanishes_meanwhile_is_begun_again)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_QUEUED, "", 0);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_GONE);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.epoch, 2);
}

FIXTURE_TEST(the_time_of_the_request_is_the_wish_s_the_message_s_or_now)
{
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

FIXTURE_TEST(clocks_are_the_service_s_once_it_has_answered)
{
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
FIXTURE_TEST(attempts_are_counted_up_to_the_end_of_numbers)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    run = read_run(f);
    run->attempt = run->epoch = run->silent = INT32_MAX;
    run->lease_until_ticks = TICKS_1970;
    assert_ok(workbench_store_run(&f->bench, run));
    for (int i = 0; i < 2; i++) {
        virtual_sleep(24 * 3600000);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        assert_int_equal(f->lease.run.attempt, INT32_MAX);
        assert_int_equal(f->lease.run.epoch, INT32_MAX);
        assert_int_equal(f->lease.run.silent, INT32_MAX);
    }
}

FIXTURE_TEST(attempts_that_crash_without_progress_are_counted)
{
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
FIXTURE_TEST(a_request_is_dated_by_the_wall_clock_of_a_local_store)
{
    int64_t request;

    virtual_step_clocks(0, -2 * 86400000, 0);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    request = f->lease.run.requested_ticks;
    assert_true(llabs(request - platform_wall_ticks()) < TICKS_PER_S);
    assert_true(f->lease.run.started_ticks > request + 86400 * TICKS_PER_S);
}

/* Nor does one forward let another in, nor one back keep it out. */
FIXTURE_TEST(a_step_of_the_wall_clock_moves_no_lease)
{
    static const int64_t steps_ms[] = {
        3600000, -3600000, 2 * 86400000, -2 * 86400000};

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

FIXTURE_TEST(a_message_renewal_that_fails_says_why)
{
    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_RENEW, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_BUSY);
    assert_string_equal(f->err.text, "the store is down");
    assert_true(f->lease.has_message);
    assert_ok(lease_renew_message(&f->lease, &f->err));
}

FIXTURE_TEST(a_message_lost_to_another_is_no_longer_waited_for)
{
    static const enum bench_fault LOST[] = {BENCH_CONFLICT, BENCH_GONE};

    for (size_t i = 0; i < 2; i++) {
        f->wish.id = slice_of(i == 0 ? "r1" : "r2");
        take_with_message(f, "wake-up");
        workbench_meets(&f->bench, BENCH_RENEW, 1, 1, LOST[i]);
        assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_CONFLICT);
        assert_false(f->lease.has_message);
        assert_true(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
    }
}

FIXTURE_TEST(a_write_moves_the_deadline_only_when_it_is_stored)
{
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
FIXTURE_TEST(what_others_merge_meanwhile_stays)
{
    struct property note = {
        slice_of("Remark"), EDM_STRING, slice_of("\"hello\"")};
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    run = read_run(f);
    run->others = &note;
    run->other_count = 1;
    assert_ok(workbench_store_run(&f->bench, run));
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    run = read_run(f);
    assert_int_equal(run->other_count, 1);
    assert_true(slice_is(run->others[0].json, "\"hello\""));
}

FIXTURE_TEST(what_is_stored_says_whose_it_is)
{
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

FIXTURE_TEST(a_run_that_was_spoilt_is_not_ours_any_more)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    spoil_run(f, false);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
}

/* What a person asks of the owner; the next renewal stores it beside. */
static void ask(struct fixture *f, const char *control, const char *finish)
{
    struct ledger_run *run = read_run(f);

    run->control = ledger_text(run, slice_of(control));
    run->finish = ledger_text(run, slice_of(finish));
    assert_ok(workbench_store_run(&f->bench, run));
}

FIXTURE_TEST(a_renewal_brings_what_people_ask)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    ask(f, LEDGER_CONTROL_PAUSE, LEDGER_FINISH);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_int_equal(f->lease.asked, LEASE_ASKED_PAUSE);
    assert_true(slice_is(f->lease.run.finish, LEDGER_FINISH));
    ask(f, LEDGER_CONTROL_CANCEL, "");
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_int_equal(f->lease.asked, LEASE_ASKED_CANCEL);
}

/* A person accepted deletes in the meantime: the renewal does not undo it. */
FIXTURE_TEST(a_renewal_keeps_the_accepted_deletes)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    run = read_run(f);
    ledger_accept_deletes(run, true, run->updated_ticks);
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_true(read_run(f)->accept_deletes);
}

/* `--accept-deletes` for a run that existed was ignored. */
FIXTURE_TEST(a_run_that_exists_accepts_deletes_from_now_on)
{
    static const bool asked[] = {false, true, false};

    for (size_t i = 0; TEST_EACH(i, asked); i++) {
        f->wish.accept_deletes = asked[i];
        assert_int_equal(take(f), LEASE_ACQUIRED);
        assert_int_equal(f->lease.run.accept_deletes, i > 0);
        assert_int_equal(read_run(f)->accept_deletes, i > 0);
        assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
        assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    }
}

/* The message of a run is received again for each of its attempts. */
FIXTURE_TEST(a_message_accepts_deletes_once)
{
    f->wish.accept_deletes = true;
    take_with_message(f, "wake-up");
    assert_true(f->lease.run.accept_deletes);
    f->lease.run.accept_deletes = false;
    assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_false(read_run(f)->accept_deletes);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.run.accept_deletes);
    assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    f->message.inserted_ticks += TICKS_PER_S; /* another message */
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(read_run(f)->accept_deletes);
}

/* Asked after the last renewal: an open run becomes what was asked for, one
 * that has just succeeded has succeeded. */
FIXTURE_TEST(what_is_asked_decides_what_an_open_run_becomes)
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

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char id[8];
        struct ledger_run *run;

        (void)snprintf(id, sizeof(id), "c%zu", i);
        f->wish.id = slice_of(id);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        run = workbench_stored(&f->bench, JOB, id);
        run->control = slice_of(cases[i].control);
        assert_ok(workbench_store_run(&f->bench, run));
        assert_ok(ledger_move(&f->lease.run, cases[i].end, &f->err));
        assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
        assert_int_equal(f->lease.run.state, cases[i].stored);
        run = workbench_stored(&f->bench, JOB, id);
        assert_int_equal(run->state, cases[i].stored);
        assert_int_equal(run->control.len, 0);
        assert_true(
            (run->finished_ticks > 0) == ledger_state_ended(run->state));
    }
}

/* `finish` that comes while the last round ends is not put off for a minute;
 * another wait is none of its business. */
FIXTURE_TEST(finish_waits_for_no_round)
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

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char id[8];
        struct ledger_run *run;
        int64_t now, later;

        (void)snprintf(id, sizeof(id), "f%zu", i);
        f->wish.id = slice_of(id);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        run = workbench_stored(&f->bench, JOB, id);
        run->finish = slice_of(cases[i].finish);
        assert_ok(workbench_store_run(&f->bench, run));
        now = lease_now_ticks(&f->lease);
        later = now + 60 * TICKS_PER_S;
        assert_ok(ledger_wait(
            &f->lease.run, cases[i].waits_for, now, later, &f->err));
        assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
        assert_int_equal(f->lease.run.state, LEDGER_WAITING);
        if (cases[i].goes_on)
            assert_true(f->lease.run.resumes_ticks < later);
        else
            assert_int_equal(f->lease.run.resumes_ticks, later);
    }
}

FIXTURE_TEST(a_paused_run_is_left_to_who_resumes_it)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_PAUSED, "", 0);
    assert_int_equal(take(f), LEASE_RUN_PAUSED);
    f->wish.resumes_paused = true;
    assert_int_equal(take(f), LEASE_ACQUIRED);
}

/* Store the run as an attempt, or a person, has left it. */
static void leave_as(
    struct fixture *f, enum ledger_state state, const char *waits_for)
{
    struct ledger_run *run = read_run(f);

    run->state = state;
    run->owner = (struct slice){0};
    run->waits_for = ledger_text(run, slice_of(waits_for));
    run->idle_s = 5;
    assert_ok(workbench_store_run(&f->bench, run));
}

/* A rate of which the time without a worker is a part would be too low. */
FIXTURE_TEST(time_without_an_attempt_is_not_that_of_the_work)
{
    static const struct {
        enum ledger_state state;
        const char *waits_for;
        bool counts_as_work;
    } cases[] = {
        {LEDGER_WAITING, LEDGER_WAITS_FOR_STORE, false},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_ARCHIVE, false},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_DEFINITION, false},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_TURN, false},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, false},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, false},
        {LEDGER_WAITING, "", true}, /* a retry after a failure */
        {LEDGER_QUEUED, "", false},
        {LEDGER_PAUSED, "", false}, /* `tableward run --id` */
    };

    f->wish.resumes_paused = true;
    assert_int_equal(take(f), LEASE_ACQUIRED);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        int32_t idle_s = cases[i].counts_as_work ? 5 : 1005;

        leave_as(f, cases[i].state, cases[i].waits_for);
        virtual_sleep(1000000);
        assert_int_equal(take(f), LEASE_ACQUIRED);
        assert_in_range(f->lease.run.idle_s, idle_s - 2, idle_s + 2);
        assert_int_equal(read_run(f)->idle_s, f->lease.run.idle_s);
    }
}

/* The run did not begin before its first attempt. */
FIXTURE_TEST(the_wait_for_the_first_attempt_is_no_time_of_the_run)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    leave_as(f, LEDGER_QUEUED, "");
    run = read_run(f);
    run->started_ticks = 0;
    run->idle_s = 0;
    assert_ok(workbench_store_run(&f->bench, run));
    virtual_sleep(1000000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(f->lease.run.idle_s, 0);
}

/* Its worker was killed 240 s ago. */
FIXTURE_TEST(time_after_an_expired_lease_is_not_that_of_the_work)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    virtual_sleep(4 * 60000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_in_range(f->lease.run.idle_s, 175, 180);
    /* The lease that was acquired then has expired, too. */
    ask(f, LEDGER_CONTROL_CANCEL, "");
    virtual_sleep(4 * 60000);
    assert_int_equal(take(f), LEASE_RUN_ENDED);
    run = read_run(f);
    assert_in_range(run->idle_s, 350, 360);
}

/* The owner crashed before it saw what was asked. */
FIXTURE_TEST(what_a_crashed_owner_was_asked_is_done)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    ask(f, LEDGER_CONTROL_CANCEL, "");
    virtual_sleep(4 * 60000);
    assert_int_equal(take(f), LEASE_RUN_ENDED);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "cancelled");
    run = read_run(f);
    assert_in_range(run->finished_ticks, run->started_ticks + 239 * TICKS_PER_S,
        run->started_ticks + 242 * TICKS_PER_S);
    assert_true(run->updated_ticks == run->finished_ticks);
    assert_true(run->lease_until_ticks == run->finished_ticks);
    assert_int_equal(workbench_listed(&f->bench, JOB, LEDGER_INDEX_ENDED), 1);
}

/* Its requests may still arrive late: the next owner is to know, although the
 * run has no owner any more. */
FIXTURE_TEST(whoever_resumes_it_knows_that_its_owner_crashed)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.silent = 0; /* it makes progress */
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    ask(f, LEDGER_CONTROL_PAUSE, "");
    virtual_sleep(64000);
    assert_int_equal(take(f), LEASE_RUN_PAUSED);
    rewrite(f, LEDGER_QUEUED, "", 0); /* `resume` */
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.previous_owner_crashed);
    assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_false(f->lease.previous_owner_crashed);
}

/* ---- what a newer version has written ---- */

FIXTURE_TEST(what_a_newer_version_stored_is_left_alone)
{
    struct ledger_run *run;
    struct slice etag;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    run = read_run(f);
    run->state = LEDGER_QUEUED;
    run->owner = slice_of("");
    run->format = LEDGER_FORMAT + 1;
    assert_ok(workbench_store_run(&f->bench, run));
    etag = run->etag;
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    {
        struct ledger_run *now;

        now = read_run(f);
        assert_true(slice_equal(now->etag, etag));
    }
}

/* ---- a definition that changes ---- */

static void attempt_begins(struct fixture *f)
{
    f->bench.kind.table_job = true;
    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.checkpoint = ledger_text(&f->lease.run, slice_of("{}"));
    f->lease.run.phase = ledger_text(&f->lease.run, slice_of("copying"));
    assert_ok(ledger_move(&f->lease.run, LEDGER_QUEUED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
}

/* Of any kind: a delete of another table would delete what nobody asked for. */
FIXTURE_TEST(a_run_waits_for_its_definition)
{
    struct ledger_run *run;
    int64_t first;

    attempt_begins(f);
    f->bench.kind.table_job = false;
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_HELD);
    run = read_run(f);
    assert_int_equal(run->state, LEDGER_WAITING);
    assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION));
    assert_true(ledger_is_held(run));
    assert_true(run->error.len > 0);
    assert_true(slice_is(run->checkpoint, "{}"));
    first = run->resumes_ticks - run->updated_ticks;
    assert_true(first >= 5 * TICKS_PER_S && first < 10 * TICKS_PER_S);
    virtual_sleep(1000000);
    assert_int_equal(take(f), LEASE_HELD);
    run = read_run(f);
    assert_true(run->resumes_ticks - run->updated_ticks == 300 * TICKS_PER_S);
}

/* Each delivery of its message finds it held, and stores the run. */
FIXTURE_TEST(time_of_a_changed_definition_is_not_that_of_the_work)
{
    char hash[17];

    attempt_begins(f);
    memcpy(hash, f->bench.job.hash, sizeof(hash));
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    virtual_sleep(100000);
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(read_run(f)->idle_s, 98, 102);
    virtual_sleep(1000000);
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(read_run(f)->idle_s, 1096, 1104);
    memcpy(f->bench.job.hash, hash, sizeof(hash));
    virtual_sleep(1000000);
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_in_range(f->lease.run.idle_s, 2094, 2106);
}

/* It was held with the crash unseen. */
FIXTURE_TEST(a_crash_before_the_definition_changed_stays_known)
{
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

FIXTURE_TEST(a_definition_that_is_restored_goes_on_where_it_was)
{
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

static void expect_held(struct fixture *f, const char *why)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_HELD);
    run = read_run(f);
    assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION));
    assert_non_null(strstr(run->error.at, why));
    virtual_sleep(400000);
}

/* Whatever the two kinds are: a delete does not do what a copy was asked for.
 * No person can accept that. */
FIXTURE_TEST(a_run_waits_while_its_job_is_of_another_kind)
{
    const char *name = f->bench.kind.name;
    struct ledger_run *run;

    attempt_begins(f);
    f->bench.kind.table_job = false;
    f->bench.kind.name = "delete";
    expect_held(f, "is a delete now, and was a scripted");
    run = read_run(f);
    assert_true(bound_accept(run, &f->bench.job));
    assert_ok(workbench_store_run(&f->bench, run));
    expect_held(f, "is a delete now, and was a scripted");
    f->bench.kind.name = name;
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(slice_is(f->lease.run.checkpoint, "{}"));
}

/* An attempt that only ends the run leaves its kind: `poison retry` would carry
 * out another one. */
FIXTURE_TEST(a_run_that_ends_keeps_its_kind)
{
    struct ledger_run *run;

    attempt_begins(f);
    run = read_run(f);
    run->kind = slice_of("copy");
    run->ending = slice_of("5 failed no");
    run->epoch = 5;
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(slice_is(f->lease.run.kind, "copy"));
}

/* `run JOB --id` may continue a paused run, but not as another one. */
FIXTURE_TEST(a_paused_run_of_another_kind_stays_paused)
{
    struct ledger_run *run;

    attempt_begins(f);
    run = read_run(f);
    run->state = LEDGER_PAUSED;
    run->kind = slice_of("copy");
    assert_ok(workbench_store_run(&f->bench, run));
    f->wish.resumes_paused = true;
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_non_null(strstr(f->err.text, "is a scripted now, and was a copy"));
    assert_int_equal(read_run(f)->state, LEDGER_PAUSED);
}

/* So that `resume` accepts what `run` has refused. */
FIXTURE_TEST(a_paused_run_notes_the_definition_that_was_refused)
{
    struct ledger_run *run;

    attempt_begins(f);
    run = read_run(f);
    run->state = LEDGER_PAUSED;
    assert_ok(workbench_store_run(&f->bench, run));
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    f->wish.resumes_paused = true;
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_non_null(strstr(f->err.text, "accept the new one with `resume`"));
    run = read_run(f);
    assert_int_equal(run->state, LEDGER_PAUSED);
    assert_true(
        slice_is(run->definition, "!fedcba9876543210:0123456789abcdef"));
    assert_true(bound_accept(run, &f->bench.job));
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(take(f), LEASE_ACQUIRED);
}

FIXTURE_TEST(a_run_that_no_attempt_began_waits_for_its_kind_too)
{
    struct ledger_run *run = workbench_football(&f->bench, "r1");

    run->kind = slice_of("copy");
    assert_ok(workbench_store_run(&f->bench, run));
    expect_held(f, "is a scripted now, and was a copy");
}

/* The job's text is the same, but a store's name means another account. */
FIXTURE_TEST(a_run_waits_while_its_job_is_in_another_account)
{
    struct ledger_run *run;

    f->wish.accounts = slice_of(".aaaaaaaaaaaaaaaa Blogs (x)");
    attempt_begins(f);
    f->bench.kind.table_job = false;
    f->wish.accounts = slice_of(".bbbbbbbbbbbbbbbb Blogs (x)");
    expect_held(f, "is another account now");
    run = read_run(f);
    bound_accept_definition(run, &f->bench.job); /* as `poison retry` does */
    assert_ok(workbench_store_run(&f->bench, run));
    expect_held(f, "is another account now");
    run = read_run(f);
    assert_true(bound_accept(run, &f->bench.job)); /* as `resume` does */
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.starts_over);
    assert_int_equal(f->lease.run.checkpoint.len, 0);
    assert_int_equal(f->lease.run.phase.len, 0);
}

FIXTURE_TEST(an_accepted_definition_begins_with_the_first_round)
{
    struct ledger_run *run;

    attempt_begins(f);
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    assert_int_equal(take(f), LEASE_HELD);
    run = read_run(f);
    assert_true(bound_accept(run, &f->bench.job));
    run->resumes_ticks = 0;
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.starts_over);
    assert_int_equal(f->lease.run.checkpoint.len, 0);
    assert_int_equal(f->lease.run.phase.len, 0);
    assert_true(slice_is(f->lease.run.definition, "fedcba9876543210"));
    assert_non_null(
        strstr(f->lease.run.note.at, "began again with the first round"));
}

/* The person has read what it was when the run was held. */
FIXTURE_TEST(a_definition_that_changes_after_it_was_accepted_is_accepted_anew)
{
    struct ledger_run *run;

    attempt_begins(f);
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    expect_held(f, "the definition of its job has changed");
    run = read_run(f);
    assert_true(bound_accept(run, &f->bench.job));
    assert_ok(workbench_store_run(&f->bench, run));
    memcpy(f->bench.job.hash, "ffffffffffffffff", 16);
    expect_held(f, "the definition of its job has changed");
    assert_true(slice_is(read_run(f)->checkpoint, "{}"));
}

FIXTURE_TEST(a_run_starts_over_by_itself_if_rules_were_added)
{
    f->bench.job.parts = "aaaaaaaaaaaaaaaa";
    f->wish.accounts = slice_of(".cccccccccccccccc Blogs (x)");
    attempt_begins(f);
    f->bench.kind.table_job = false;
    memcpy(f->bench.job.hash, "fedcba9876543210", 16);
    f->bench.job.parts = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb";
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_true(f->lease.starts_over);
    assert_int_equal(f->lease.run.checkpoint.len, 0);
    assert_int_equal(f->lease.run.phase.len, 0);
    assert_non_null(
        strstr(f->lease.run.note.at, "rules were added to the definition"));
    assert_true(slice_is(f->lease.run.definition,
        "fedcba9876543210/aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb.cccccccccccccccc "
        "Blogs (x)"));
}

FIXTURE_TEST(a_time_of_request_after_the_insertion_is_the_insertion)
{
    f->wish.requested_ticks = TICKS_MAX;
    take_with_message(f, "wake-up");
    assert_true(
        f->lease.run.requested_ticks == f->taken.list[0].inserted_ticks);
}

/* ---- letting go ---- */

/* As work.c does it. */
static enum lease_status let_go(struct fixture *f, enum ledger_state state)
{
    assert_ok(ledger_move(&f->lease.run, state, &f->err));
    return lease_release(&f->lease, &f->err);
}

/* The later date says less: it was cut to its second, or came late. */
FIXTURE_TEST(a_run_never_ends_before_it_has_begun)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    virtual_step_clocks(0, -900, 0);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
    assert_ok(ledger_move(&f->lease.run, LEDGER_SUCCEEDED, &f->err));
    assert_int_equal(lease_release(&f->lease, &f->err), LEASE_VALID);
    assert_true(f->lease.run.finished_ticks >= f->lease.run.started_ticks);
}

FIXTURE_TEST(letting_go_is_tried_until_it_is_stored)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 2, BENCH_FAIL);
    workbench_meets(&f->bench, BENCH_BATCH, 3, 3, BENCH_LOSE_REQUEST);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_VALID);
    run = read_run(f);
    assert_int_equal(run->state, LEDGER_SUCCEEDED);
    assert_int_equal(run->owner.len, 0);
    assert_true(run->finished_ticks > 0);
    assert_int_equal(workbench_listed(&f->bench, JOB, LEDGER_INDEX_OPEN), 0);
}

FIXTURE_TEST(letting_go_whose_answer_was_lost_is_recognised)
{
    unsigned batches;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    batches = f->bench.calls[BENCH_BATCH];
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(let_go(f, LEDGER_WAITING), LEASE_VALID);
    assert_int_equal(f->bench.calls[BENCH_BATCH], batches + 1);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "waiting");
}

/* An earlier write of this very attempt landed late: ours, but not the end. */
FIXTURE_TEST(letting_go_is_not_an_earlier_write)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_RUNNING, f->lease.owner, 0);
    assert_int_equal(let_go(f, LEDGER_WAITING), LEASE_VALID);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "waiting");
}

BENCH_BETWEEN(queue_first)
{
    if (call != BENCH_GET)
        return;
    bench->between = NULL;
    rewrite(thief, LEDGER_QUEUED, "", 0);
}

/* It had failed, the answer was lost, and somebody has it tried again. */
FIXTURE_TEST(a_retry_is_not_undone_by_a_lost_answer)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    thief = f;
    f->bench.between = queue_first;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(let_go(f, LEDGER_FAILED), LEASE_LOST);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "queued");
}

FIXTURE_TEST(in_an_outage_letting_go_is_given_up)
{
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

FIXTURE_TEST(a_lease_that_is_nearly_over_is_not_let_go_again)
{
    unsigned batches;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    virtual_sleep(60000 - 50);
    batches = f->bench.calls[BENCH_BATCH];
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_FAIL);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_UNKNOWN);
    assert_true(f->bench.calls[BENCH_BATCH] <= batches + 2);
}

FIXTURE_TEST(an_overtaken_claim_lets_nothing_go)
{
    struct ledger_run *run;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    rewrite(f, LEDGER_RUNNING, "somebody", 1);
    assert_int_equal(let_go(f, LEDGER_SUCCEEDED), LEASE_LOST);
    run = read_run(f);
    assert_true(slice_is(run->owner, "somebody"));
    assert_int_equal(run->state, LEDGER_RUNNING);
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
        assert_ok(store_queue_get(
            f->bench.wrapped.inner, &exchange, BENCH_QUEUE, 1, 1, &got));
        if (got.count > 0)
            break;
        assert_true(waited_s < 110);
        virtual_sleep(1000);
    }
    messages_done(&got);
    return waited_s;
}

FIXTURE_TEST(a_message_is_hidden_until_its_time)
{
    take_with_message(f, "wake-up");
    lease_hide_message(
        &f->lease, lease_now_ticks(&f->lease) + 20 * TICKS_PER_S);
    assert_in_range((uintmax_t)visible_in_s(f), 19, 22);
}

FIXTURE_TEST(a_message_whose_time_has_come_is_visible_at_once)
{
    take_with_message(f, "wake-up");
    lease_hide_message(&f->lease, lease_now_ticks(&f->lease) - TICKS_PER_S);
    assert_int_equal(visible_in_s(f), 0);
}

FIXTURE_TEST(a_pause_below_zero_is_none)
{
    take_with_message(f, "wake-up");
    lease_hide_message_ms(&f->lease, -5000);
    assert_int_equal(visible_in_s(f), 0);
}

/* A queue hides a message for seven days at most. */
FIXTURE_TEST(a_longer_wait_is_cut_to_what_the_queue_takes)
{
    take_with_message(f, "wake-up");
    lease_hide_message(
        &f->lease, lease_now_ticks(&f->lease) + INT64_C(900000) * TICKS_PER_S);
    virtual_sleep(INT64_C(604700) * 1000);
    assert_in_range((uintmax_t)visible_in_s(f), 90, 105);
}

FIXTURE_TEST(a_message_that_cannot_be_hidden_stays_as_it_is)
{
    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_RENEW, ALWAYS, BENCH_FAIL);
    lease_hide_message_ms(&f->lease, 1000);
    assert_int_equal(f->bench.calls[BENCH_RENEW], 1);
    assert_in_range((uintmax_t)visible_in_s(f), 59, 61);
}

FIXTURE_TEST(without_a_message_nothing_is_hidden_or_deleted)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    lease_hide_message_ms(&f->lease, 1000);
    lease_delete_message(&f->lease);
    assert_int_equal(f->bench.calls[BENCH_RENEW], 0);
    assert_int_equal(f->bench.calls[BENCH_DELETE], 0);
}

FIXTURE_TEST(deleting_the_message_is_tried_again)
{
    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_DELETE, 1, 2, BENCH_FAIL);
    lease_delete_message(&f->lease);
    assert_int_equal(f->bench.calls[BENCH_DELETE], 3);
    assert_false(f->lease.has_message);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 0);
}

FIXTURE_TEST(a_message_that_cannot_be_deleted_comes_again)
{
    take_with_message(f, "wake-up");
    workbench_meets(&f->bench, BENCH_DELETE, ALWAYS, BENCH_FAIL);
    lease_delete_message(&f->lease);
    assert_true(f->lease.has_message);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 1);
    assert_true(f->bench.calls[BENCH_DELETE] <= RETRY_TRIES);
}

FIXTURE_TEST(a_message_that_is_another_s_or_gone_is_not_deleted_twice)
{
    static const enum bench_fault LOST[] = {BENCH_CONFLICT, BENCH_GONE};

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

FIXTURE_TEST(the_poison_queue_is_made_where_it_is_missing)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_ok(copy(f, slice_of("the body")));
    assert_int_equal(f->bench.calls[BENCH_CREATE], 1);
    expect_copy(f, "the body");
}

FIXTURE_TEST(a_poison_queue_that_cannot_be_made_is_said)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_CREATE, ALWAYS, BENCH_REFUSE);
    assert_int_equal(copy(f, slice_of("the body")), TW_REFUSED);
    assert_int_equal(f->bench.calls[BENCH_PUT], 1);
    assert_int_equal(f->lease.run.poison_id.len, 0);
}

/* Its queue was not made then: the run was retried for ever. */
FIXTURE_TEST(what_a_queue_cannot_carry_goes_as_base64)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_ok(copy(f, (struct slice){"a\x01z", 3}));
    expect_copy(f, "YQF6");
}

FIXTURE_TEST(a_copy_is_put_again_after_a_busy_answer)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_LOSE_REQUEST);
    workbench_meets(&f->bench, BENCH_PUT, 2, 2, BENCH_FAIL);
    assert_ok(copy(f, slice_of("the body")));
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
    assert_ok(lease_put_poison_copy(&f->lease,
        &(struct poison_copy){
            slice_of(BENCH_QUEUE), slice_of(OF_R1 ",\"at\":null}"), true},
        &f->err));
    if (workbench_count(&f->bench, BENCH_QUEUE "-poison") == 1) {
        assert_true(slice_is(f->lease.run.poison_id, id));
        assert_int_equal(f->lease.run.poison_receipt.len, 0);
    }
    return workbench_count(&f->bench, BENCH_QUEUE "-poison");
}

FIXTURE_TEST(a_copy_of_the_run_is_not_put_again)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(copies_beside(f, OF_R1 "}"), 1);
    assert_int_equal(f->bench.calls[BENCH_PUT], 0);
}

FIXTURE_TEST(the_copy_of_another_run_is_no_copy)
{
    int64_t count = 0;

    assert_int_equal(take(f), LEASE_ACQUIRED);
    count = copies_beside(f, OF_JOB "\"r2\"}");
    assert_int_equal(count, 2);
    assert_int_equal(f->bench.calls[BENCH_PUT], 1);
}

/* That message was refused, and has nothing to do with the run. */
FIXTURE_TEST(a_copy_with_other_arguments_is_another_s)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    assert_int_equal(
        copies_beside(f, OF_JOB "\"r1\",\"args\":{\"channel\":\"Arts\"}}"), 2);
}

/* A body that is an argument names no run: equal bodies are equal arguments. */
FIXTURE_TEST(an_equal_body_alone_is_another_s)
{
    struct poison_copy copy = {
        slice_of(BENCH_QUEUE), slice_of("Football"), true};

    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_put(&f->bench, BENCH_QUEUE "-poison", "Football");
    assert_ok(lease_put_poison_copy(&f->lease, &copy, &f->err));
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 2);
}

/* It was taken for the copy, and then deleted by the retry: none was left. */
FIXTURE_TEST(the_copy_that_a_retry_takes_away_is_no_copy)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    f->lease.run.poison_id = ledger_text(&f->lease.run,
        slice_of(workbench_put(&f->bench, BENCH_QUEUE "-poison", OF_R1 "}")));
    assert_int_equal(copies_beside(f, "another's"), 3);
    assert_true(f->lease.run.poison_receipt.len > 0);
}

/* The first put is made without a look; the next ones after one. */
FIXTURE_TEST(after_an_unknown_put_the_queue_is_looked_at)
{
    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_FAIL);
    workbench_meets(&f->bench, BENCH_PUT, 2, 2, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_PEEK, 1, 1, BENCH_THROTTLE);
    workbench_meets(&f->bench, BENCH_PEEK, 2, 2, BENCH_LOSE_REQUEST);
    assert_ok(copy(f, slice_of(OF_R1 "}")));
    assert_int_equal(f->bench.calls[BENCH_PUT], 2);
    assert_int_equal(f->bench.calls[BENCH_PEEK], 3);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 1);
    assert_true(f->lease.run.poison_id.len > 0);
}

FIXTURE_TEST(while_the_queue_does_not_answer_nothing_is_put)
{
    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_PEEK, ALWAYS, BENCH_LOSE_REQUEST);
    assert_int_equal(copy(f, slice_of("the body")), TW_UNKNOWN);
    assert_int_equal(f->bench.calls[BENCH_PUT], 1);
    assert_int_equal(f->lease.run.poison_id.len, 0);
}

/* A signature that may add and not read: a copy more is better than none. */
FIXTURE_TEST(who_may_not_peek_puts)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PEEK, ALWAYS, BENCH_FORBID);
    assert_int_equal(copies_beside(f, OF_R1 "}"), 2);
}

FIXTURE_TEST(in_an_outage_there_is_no_copy)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    workbench_meets(&f->bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(copy(f, slice_of("the body")), TW_BUSY);
    assert_string_equal(f->err.text, "the store is down");
    assert_true(f->bench.calls[BENCH_PUT] <= RETRY_TRIES);
    assert_int_equal(f->lease.run.poison_id.len, 0);
}
