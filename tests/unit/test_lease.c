/* SPDX-License-Identifier: MIT */
/*
 * The lease: how each response of the ledger and of the queue changes the right
 * to work on a run, and from when on. The clock is virtual, so waits take no
 * time.
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
#include "worker/run/ledger_change.h"
#include "worker/store/retry.h"

#define JOB "delete-channel"
#define ALWAYS 1, UINT_MAX

/* Hash of the job's definition: at first, and after a change. */
#define FIRST_HASH "0123456789abcdef"
#define SECOND_HASH "fedcba9876543210"

struct fixture {
    struct workbench bench;
    struct lease_request request;
    char id[8];
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
    f->request = workbench_lease_request(&f->bench, "r1");
    lease_init(&f->lease, &f->request);
}

static void done(struct fixture *f)
{
    lease_done(&f->lease);
    messages_done(&f->taken);
    workbench_done(&f->bench);
    virtual_platform_end();
}

/* Sets up the fixture again for the next case of a table. */
static void begin_anew(struct fixture *f)
{
    done(f);
    memset(f, 0, sizeof(*f));
    init(f);
}

/* Makes f->request request run n0, n1, ..., so that each case has a run of its
 * own. */
static void request_run(struct fixture *f, size_t number)
{
    (void)snprintf(f->id, sizeof(f->id), "n%zu", number);
    f->request.id = slice_of(f->id);
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

static enum lease_outcome take(struct fixture *f)
{
    lease_done(&f->lease);
    lease_init(&f->lease, &f->request);
    return lease_acquire(&f->lease, &f->request, &f->outcome, &f->err);
}

/* Returns the run that f->request requests, as the ledger has it. */
static struct ledger_run *read_run(struct fixture *f)
{
    return workbench_stored(&f->bench, JOB, f->request.id.at);
}

static struct ledger_run *acquire(struct fixture *f)
{
    assert_int_equal(take(f), LEASE_ACQUIRED);
    return read_run(f);
}

static void renew(struct fixture *f)
{
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_VALID);
}

/* Moves the run to this state and releases the lease, as attempt.c does. */
static enum lease_status release(struct fixture *f, enum ledger_state state)
{
    assert_ok(ledger_move(&f->lease.run, state, &f->err));
    return lease_release(&f->lease, &f->err);
}

static void let_go(struct fixture *f)
{
    assert_int_equal(release(f, LEDGER_QUEUED), LEASE_VALID);
}

/* Puts a message, receives it, and acquires the lease of the requested run with
 * it. */
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
    f->request.message = &f->message;
    acquire(f);
}

static void store(struct fixture *f, struct ledger_run *run)
{
    assert_ok(workbench_store_run(&f->bench, run));
}

static void expect_state(struct fixture *f, const char *state)
{
    assert_string_equal(
        workbench_state(&f->bench, JOB, f->request.id.at), state);
}

/* Gives the job another definition, with this hash. */
static void redefine(struct fixture *f, const char *hash)
{
    memcpy(f->bench.job.hash, hash, 16);
}

/* Overwrites the run's entity as another process would, with this state and
 * owner and with an Epoch that is higher by epoch_more. */
static void rewrite(struct fixture *f, enum ledger_state state,
    const char *owner, int32_t epoch_more)
{
    struct ledger_run *run = read_run(f);

    run->state = state;
    run->owner = ledger_text(run, slice_of(owner));
    run->epoch += epoch_more;
    store(f, run);
}

/* ---- acquiring ---- */

FIXTURE_TEST(a_claim_says_what_the_store_said)
{
    static const struct {
        const char *name;
        struct bench_fault_range meets[2];
        enum tw_err outcome;
        const char *why;
    } cases[] = {
        {"the read is busy", {{BENCH_GET, ALWAYS, BENCH_FAIL}}, TW_BUSY,
            "the store is down"},
        {"the read is forbidden", {{BENCH_GET, ALWAYS, BENCH_REFUSE}},
            TW_REFUSED, "the key is wrong"},
        {"the read has no answer", {{BENCH_GET, ALWAYS, BENCH_LOSE_ANSWER}},
            TW_BUSY, "the answer was lost"},
        /* Status 400 refuses the request, not the run. */
        {"the read is invalid", {{BENCH_GET, ALWAYS, BENCH_INVALID}}, TW_BUSY,
            "the service says 400"},
        {"the write is forbidden", {{BENCH_BATCH, ALWAYS, BENCH_REFUSE}},
            TW_REFUSED, "the key is wrong"},
        {"the table may not be made",
            {{BENCH_BATCH, ALWAYS, BENCH_GONE},
                {BENCH_CREATE, ALWAYS, BENCH_REFUSE}},
            TW_REFUSED, "the key is wrong"},
        {"the table cannot be made",
            {{BENCH_BATCH, ALWAYS, BENCH_GONE},
                {BENCH_CREATE, ALWAYS, BENCH_LOSE_REQUEST}},
            TW_BUSY, "the answer was lost"},
        {"an unknown write cannot be read",
            {{BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER},
                {BENCH_GET, 2, UINT_MAX, BENCH_FAIL}},
            TW_UNKNOWN, "the store is down"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        f->bench.fault_count = 0;
        workbench_meets_each(&f->bench, cases[i].meets, 2);
        test_case("%s", cases[i].name);
        expect_state(f, "none");
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, cases[i].outcome);
        assert_non_null(strstr(f->err.text, cases[i].why));
    }
}

/* ---- a message that is delivered for the first time ---- */

/* Acquires the lease of another run, so that the ledger's Date is known. Then
 * makes f->request request run r2, for a message with this id that is delivered
 * for the first time. */
static void request_for_r2(struct fixture *f, const char *id)
{
    acquire(f);
    f->request.id = slice_of("r2");
    f->message = (struct lease_message){.queue = BENCH_QUEUE,
        .id = slice_of(id),
        .pop_receipt = slice_of("p"),
        .text = slice_of("wake-up"),
        .inserted_ticks = platform_wall_ticks(),
        .dequeue_count = 1};
    f->request.message = &f->message;
    memset(f->bench.calls, 0, sizeof(f->bench.calls));
}

FIXTURE_TEST(a_first_message_takes_its_run_with_one_request)
{
    static const struct {
        const char *name, *id;
        int64_t dequeue_count, after_ms;
        unsigned reads;
    } cases[] = {
        {"it comes for the first time", "r2", 1, 30000, 0},
        {"it came before", "r2", 2, 0, 1},
        /* The message may be from `enqueue`, which wrote the run before. */
        {"it names its run", "m", 1, 0, 1},
        {"the last Date is of a minute ago", "r2", 1, 60001, 1},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        int64_t timeout_s = f->request.visibility_timeout_s, taken_ms;

        test_case("%s", cases[i].name);
        begin_anew(f);
        request_for_r2(f, cases[i].id);
        f->message.dequeue_count = cases[i].dequeue_count;
        virtual_sleep(cases[i].after_ms);
        taken_ms = platform_boot_ms();
        acquire(f);
        assert_int_equal(f->bench.calls[BENCH_GET], cases[i].reads);
        assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
        assert_true(f->lease.stored.lease_until_ticks >=
                    platform_wall_ticks() + timeout_s * TICKS_PER_S);
        assert_true(
            f->lease.deadline_ms <= platform_boot_ms() + timeout_s * 1000);
        assert_true(deadline_is_open(&f->lease.deadline, taken_ms));
        assert_true(llabs(f->lease.run.started_ticks - platform_wall_ticks()) <
                    2 * TICKS_PER_S);
    }
}

/* A second message has the id of a run that an attempt already works on. */
FIXTURE_TEST(a_first_message_of_a_run_at_work_changes_nothing)
{
    request_for_r2(f, "r2");
    acquire(f);
    assert_int_equal(take(f), LEASE_HELD);
    assert_false(f->lease.may_own);
    assert_int_equal(read_run(f)->epoch, 1);
    assert_int_equal(read_run(f)->attempt, 1);
}

/* The last Date that the worker knows is from before a pause, so the lease that
 * it writes may expire soon. The run's job sends no requests until the next
 * write of the lease is stored. */
FIXTURE_TEST(a_run_begun_after_a_pause_starts_nothing_at_once)
{
    request_for_r2(f, "r2");
    f->bench.paused_ms = 30000;
    acquire(f);
    assert_int_equal(f->bench.calls[BENCH_GET], 0);
    assert_false(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
    renew(f);
    assert_true(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
}

/* The pause is longer than the lease. So the lease is over when it is stored,
 * and another worker may have the run. */
FIXTURE_TEST(a_run_begun_after_a_long_pause_is_not_worked)
{
    request_for_r2(f, "r2");
    f->bench.paused_ms = f->request.visibility_timeout_s * 1000 + 10000;
    acquire(f);
    assert_true(lease_clock_is_over(&f->lease.clock));
    assert_false(deadline_is_open(&f->lease.deadline, platform_boot_ms()));
}

BENCH_BETWEEN(stall_before_the_second_batch)
{
    if (call == BENCH_BATCH && n == 1)
        virtual_sleep(70000);
}

/* The first write may have been stored, and its lease has expired since then.
 * So the write is not repeated. */
FIXTURE_TEST(a_claim_is_not_tried_after_the_lease_of_its_first_try)
{
    f->bench.between = stall_before_the_second_batch;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_OUTAGE);
    assert_int_equal(f->bench.calls[BENCH_BATCH], 1);
}

/* What another process writes into the run's entity before request number n of
 * kind `call`. */
static struct meddling {
    struct fixture *f;
    enum bench_call call;
    unsigned n;
    enum ledger_state state;
    const char *owner;
    int32_t epoch_more;
} meddling;

BENCH_BETWEEN(meddle)
{
    if (call != meddling.call || n < meddling.n)
        return;
    bench->between = NULL;
    rewrite(meddling.f, meddling.state, meddling.owner, meddling.epoch_more);
}

/* Another worker stored its lease with the same Epoch. An attempt that got no
 * response reads the run and compares the Owner. */
FIXTURE_TEST(a_claim_that_another_one_beat_is_not_ours)
{
    acquire(f);
    rewrite(f, LEDGER_QUEUED, "", 0);
    meddling =
        (struct meddling){f, BENCH_BATCH, 1, LEDGER_RUNNING, "somebody", 1};
    f->bench.between = meddle;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(take(f), LEASE_HELD);
    assert_true(slice_is(f->lease.run.owner, "somebody"));
    assert_int_equal(f->lease.run.epoch, 2);
}

FIXTURE_TEST(a_claim_is_tried_again)
{
    static const struct {
        const char *name;
        struct bench_fault_range meets[3];
        unsigned writes;
    } cases[] = {
        {"each response is lost once",
            {{BENCH_GET, 1, 1, BENCH_LOSE_ANSWER},
                {BENCH_GET, 3, 3, BENCH_LOSE_ANSWER},
                {BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER}},
            1},
        {"the read is throttled", {{BENCH_GET, 1, 3, BENCH_THROTTLE}}, 1},
        {"the write is throttled", {{BENCH_BATCH, 1, 3, BENCH_THROTTLE}}, 4},
        /* The ledger has no lease of this attempt, so the write is repeated. */
        {"the write is lost", {{BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST}}, 2},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        begin_anew(f);
        workbench_meets_each(&f->bench, cases[i].meets, 3);
        acquire(f);
        assert_int_equal(f->lease.run.epoch, 1);
        assert_int_equal(f->lease.run.attempt, 1);
        assert_int_equal(f->bench.calls[BENCH_BATCH], cases[i].writes);
    }
}

/* The ledger works, so this is no outage that other runs would wait for. */
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

/* The attempt gives up within a third of the lease, and its slot becomes free.
 * Its first write may have stored a lease; this lease is not over yet. */
FIXTURE_TEST(a_ledger_that_stays_busy_is_an_outage)
{
    static const struct {
        int64_t timeout_s, most_ms;
    } cases[] = {{6, 2000}, {3600, 10000}};

    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_THROTTLE);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        int64_t begun_ms = platform_boot_ms();

        f->request.visibility_timeout_s = cases[i].timeout_s;
        assert_int_equal(take(f), LEASE_OUTAGE);
        assert_int_equal(f->outcome, TW_BUSY);
        assert_true(platform_boot_ms() - begun_ms <= cases[i].most_ms);
    }
}

/* The run's entity has as many properties as the service allows, so the lease
 * cannot be stored. */
FIXTURE_TEST(a_run_that_cannot_be_stored_is_left_alone)
{
    struct lease_message message = {.queue = BENCH_QUEUE,
        .id = slice_of("m1"),
        .pop_receipt = slice_of("receipt"),
        .text = slice_of("wake-up")};
    struct ledger_run *run;

    acquire(f);
    let_go(f);
    run = read_run(f);
    run->started_ticks = 0; /* acquiring sets it again */
    workbench_fill_run(&f->bench, run);
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_int_equal(f->outcome, TW_INVALID);
    assert_non_null(strstr(f->err.text, "properties"));
    f->request.message = &message;
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(f->lease.until_ticks - lease_now_ticks(&f->lease),
        299 * TICKS_PER_S, 300 * TICKS_PER_S);
    expect_state(f, "queued");
}

FIXTURE_TEST(requested_at_is_the_time_of_lease_request_message_or_now)
{
    acquire(f);
    assert_true(llabs(f->lease.run.requested_ticks -
                      f->lease.run.started_ticks) < TICKS_PER_S);
    f->bench.store->capabilities.local = false;
    request_run(f, 1);
    acquire(f);
    assert_true(f->lease.run.requested_ticks == f->lease.run.started_ticks);
    request_run(f, 2);
    take_with_message(f, "wake-up");
    assert_true(f->lease.run.requested_ticks == f->message.inserted_ticks);
    request_run(f, 3);
    f->request.requested_ticks = TICKS_1970 + 77;
    acquire(f);
    assert_true(f->lease.run.requested_ticks == TICKS_1970 + 77);
    request_run(f, 4);
    f->request.message = NULL;
    acquire(f);
    assert_true(f->lease.run.requested_ticks == TICKS_1970 + 77);
    request_run(f, 5);
    f->request.requested_ticks = TICKS_MAX; /* after the message was put */
    take_with_message(f, "wake-up");
    assert_true(f->lease.run.requested_ticks == f->message.inserted_ticks);
}

FIXTURE_TEST(clocks_are_the_service_s_once_it_has_answered)
{
    int64_t now_ticks = lease_now_ticks(&f->lease);

    assert_true(platform_wall_ticks() - now_ticks < TICKS_PER_MS);
    acquire(f);
    virtual_sleep(10000);
    now_ticks = lease_now_ticks(&f->lease);
    assert_in_range(platform_wall_ticks() - now_ticks, 0, 2 * TICKS_PER_S - 1);
    assert_true(lease_boot_ms(&f->lease, 0) <= platform_boot_ms() + 1);
    assert_true(lease_boot_ms(&f->lease, now_ticks + 60 * TICKS_PER_S) >=
                platform_boot_ms() + 59000);
}

/* The ledger may have any numbers, because other programs may write it. */
FIXTURE_TEST(attempts_are_counted_up_to_the_end_of_numbers)
{
    struct ledger_run *run = acquire(f);

    run->attempt = run->epoch = run->silent = INT32_MAX;
    run->lease_until_ticks = TICKS_1970;
    store(f, run);
    for (int i = 0; i < 2; i++) {
        virtual_sleep(24 * 3600000);
        acquire(f);
        assert_int_equal(f->lease.run.attempt, INT32_MAX);
        assert_int_equal(f->lease.run.epoch, INT32_MAX);
        assert_int_equal(f->lease.run.silent, INT32_MAX);
    }
}

/* RequestedAt of a run is compared with times that other programs take from the
 * wall clock. */
FIXTURE_TEST(a_request_is_dated_by_the_wall_clock_of_a_local_store)
{
    int64_t requested;

    virtual_step_clocks(0, -2 * 86400000, 0);
    acquire(f);
    requested = f->lease.run.requested_ticks;
    assert_true(llabs(requested - platform_wall_ticks()) < TICKS_PER_S);
    assert_true(f->lease.run.started_ticks > requested + 86400 * TICKS_PER_S);
}

/* A step of the wall clock forward does not end a lease early, and a step back
 * does not make it longer. */
FIXTURE_TEST(a_step_of_the_wall_clock_moves_no_lease)
{
    static const int64_t steps_ms[] = {
        3600000, -3600000, 2 * 86400000, -2 * 86400000};

    for (size_t i = 0; TEST_EACH(i, steps_ms); i++) {
        request_run(f, i);
        acquire(f);
        virtual_step_clocks(0, steps_ms[i], 0);
        assert_int_equal(take(f), LEASE_HELD);
        virtual_sleep(f->request.visibility_timeout_s * 1000 - 1000);
        assert_int_equal(take(f), LEASE_HELD);
        virtual_sleep(f->request.visibility_timeout_s * 1000 / 8 + 5000);
        acquire(f);
    }
}

/* ---- deadlines ---- */

/* A slow response must not make the lease longer. */
FIXTURE_TEST(deadlines_count_from_the_sending)
{
    take_with_message(f, "wake-up");
    f->bench.delay_ms = 300;
    renew(f);
    assert_true(f->lease.deadline_ms <=
                platform_boot_ms() - 300 + f->lease.visibility_timeout_ms);
}

/* Only the ledger sets the deadline. If the message is visible again or
 * deleted, the deadline stays, and the message is no longer renewed. */
FIXTURE_TEST(the_deadline_is_the_ledgers)
{
    static const enum bench_fault lost[] = {BENCH_CONFLICT, BENCH_GONE};

    for (size_t i = 0; TEST_EACH(i, lost); i++) {
        int64_t last_ms;

        request_run(f, i);
        take_with_message(f, "wake-up");
        renew(f);
        last_ms = f->lease.deadline_ms - f->lease.deadline.request_ms;
        workbench_meets(&f->bench, BENCH_RENEW, 1, 1, BENCH_FAIL);
        workbench_meets(&f->bench, BENCH_RENEW, 3, 3, lost[i]);
        assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_BUSY);
        assert_string_equal(f->err.text, "the store is down");
        assert_true(f->lease.has_message);
        assert_ok(lease_renew_message(&f->lease, &f->err));
        assert_int_equal(lease_renew_message(&f->lease, &f->err), TW_CONFLICT);
        assert_false(f->lease.has_message);
        assert_true(deadline_is_open(&f->lease.deadline, last_ms));
        assert_false(deadline_is_open(&f->lease.deadline, last_ms + 1));
    }
}

/* The 3 s are 1 s for the fraction that Date cuts off, and 2 s by which the
 * clocks of the service's servers may differ. */
FIXTURE_TEST(the_lease_is_three_seconds_longer_than_the_deadline)
{
    int64_t date_ticks, lasts_ms;

    take_with_message(f, "wake-up");
    date_ticks = f->lease.date_ticks;
    lasts_ms = -f->lease.date_sent_ms;
    virtual_sleep(1250);
    renew(f);
    lasts_ms += f->lease.deadline_ms + 3000;
    assert_true(
        f->lease.run.lease_until_ticks == date_ticks + lasts_ms * TICKS_PER_MS);
}

/* The clock of the queue service may be wrong by any amount. */
FIXTURE_TEST(the_clock_of_the_queue_service_is_not_used)
{
    const struct poison_copy copy = {
        slice_of(BENCH_QUEUE), slice_of("copy"), false};
    int64_t date_ticks, sent_ms;

    take_with_message(f, "wake-up");
    date_ticks = f->lease.date_ticks;
    sent_ms = f->lease.date_sent_ms;
    virtual_sleep(10000);
    assert_ok(lease_renew_message(&f->lease, &f->err));
    lease_hide_message_ms(&f->lease, 1000);
    assert_ok(lease_put_poison_copy(&f->lease, &copy, &f->err));
    lease_delete_message(&f->lease);
    assert_true(f->lease.date_ticks == date_ticks);
    assert_true(f->lease.date_sent_ms == sent_ms);
}

/* ---- renewing ---- */

FIXTURE_TEST(a_write_moves_the_deadline_only_when_it_is_stored)
{
    int64_t deadline_ms;

    acquire(f);
    deadline_ms = f->lease.deadline_ms;
    virtual_sleep(5000);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_UNKNOWN);
    assert_true(f->lease.deadline_ms == deadline_ms);
    renew(f);
    assert_true(f->lease.deadline_ms >= deadline_ms + 5000);
}

/* A front end may store properties of its own in the run's entity. Earlier, a
 * renewal removed them. */
FIXTURE_TEST(what_others_merge_meanwhile_stays)
{
    struct property note = {
        slice_of("Remark"), EDM_STRING, slice_of("\"hello\"")};
    struct ledger_run *run = acquire(f);

    run->others = &note;
    run->other_count = 1;
    store(f, run);
    renew(f);
    renew(f);
    run = read_run(f);
    assert_int_equal(run->other_count, 1);
    assert_true(slice_is(run->others[0].json, "\"hello\""));
}

FIXTURE_TEST(what_is_stored_says_whose_it_is)
{
    static const struct {
        enum ledger_state state;
        const char *owner;
        int32_t epoch_more;
    } others[] = {
        {LEDGER_RUNNING, "somebody", 0}, {LEDGER_CANCELLED, "", 0},
        {LEDGER_RUNNING, "", 1},
        {LEDGER_QUEUED, "", 1}, /* another attempt has released it */
    };
    struct exchange exchange = {0};

    acquire(f);
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_UNKNOWN);
    renew(f);
    for (size_t i = 0; TEST_EACH(i, others); i++) {
        rewrite(f, others[i].state, others[i].owner, others[i].epoch_more);
        assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    }
    assert_ok(ledger_remove(f->bench.wrapped.inner, &exchange, read_run(f)));
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    acquire(f);
    workbench_spoil_run(&f->bench, JOB, "r1");
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
}

/* Stores what an operator asks of the owner. The next renewal reads it and
 * keeps it. */
static void ask(struct fixture *f, const char *control, const char *finish)
{
    struct ledger_run *run = read_run(f);

    run->control = ledger_text(run, slice_of(control));
    run->finish = ledger_text(run, slice_of(finish));
    store(f, run);
}

FIXTURE_TEST(a_renewal_brings_what_people_ask)
{
    acquire(f);
    ask(f, LEDGER_CONTROL_PAUSE, LEDGER_FINISH);
    renew(f);
    assert_int_equal(f->lease.asked, LEASE_ASKED_PAUSE);
    assert_true(slice_is(f->lease.run.finish, LEDGER_FINISH));
    ask(f, LEDGER_CONTROL_CANCEL, "");
    renew(f);
    assert_int_equal(f->lease.asked, LEASE_ASKED_CANCEL);
}

/* Earlier, `--accept-deletes` was ignored for a run that existed. */
FIXTURE_TEST(a_run_that_exists_accepts_deletes_from_now_on)
{
    static const bool asked[] = {false, true, false};

    for (size_t i = 0; TEST_EACH(i, asked); i++) {
        f->request.accept_deletes = asked[i];
        acquire(f);
        assert_int_equal(f->lease.run.accept_deletes, i > 0);
        assert_int_equal(read_run(f)->accept_deletes, i > 0);
        let_go(f);
    }
}

/* The message of a run is received again for each attempt of the run, but it
 * accepts deletes only once. */
FIXTURE_TEST(a_message_accepts_deletes_once)
{
    f->request.accept_deletes = true;
    take_with_message(f, "wake-up");
    assert_true(f->lease.run.accept_deletes);
    f->lease.run.accept_deletes = false;
    let_go(f);
    assert_false(read_run(f)->accept_deletes);
    acquire(f);
    assert_false(f->lease.run.accept_deletes);
    let_go(f);
    f->message.inserted_ticks += TICKS_PER_S; /* another message */
    acquire(f);
    assert_true(read_run(f)->accept_deletes);
}

/* The operator asks after the last renewal. An open run then gets the state
 * that was asked for; a run that has just ended keeps its state. */
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
        struct ledger_run *run;

        request_run(f, i);
        acquire(f);
        ask(f, cases[i].control, "");
        assert_int_equal(release(f, cases[i].end), LEASE_VALID);
        assert_int_equal(f->lease.run.state, cases[i].stored);
        run = read_run(f);
        assert_int_equal(run->state, cases[i].stored);
        assert_int_equal(run->control.len, 0);
        assert_true(
            (run->finished_ticks > 0) == ledger_state_ended(run->state));
    }
}

/* If `finish` is requested while a round ends, the run does not wait a minute
 * for its next round. The wait for anything else is unchanged. */
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
        int64_t now, later;

        request_run(f, i);
        acquire(f);
        ask(f, "", cases[i].finish);
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

/* Stores the run as an attempt or an operator has left it. */
static void leave_as(
    struct fixture *f, enum ledger_state state, const char *waits_for)
{
    struct ledger_run *run = read_run(f);

    run->state = state;
    run->owner = (struct slice){0};
    run->waits_for = ledger_text(run, slice_of(waits_for));
    run->idle_s = 5;
    store(f, run);
}

/* The rate of a run would be too low if time without a worker counted as work.
 */
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
        {LEDGER_PAUSED, "", false}, /* by `tableward run --id` */
    };

    acquire(f);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        int32_t idle_s = cases[i].counts_as_work ? 5 : 1005;

        leave_as(f, cases[i].state, cases[i].waits_for);
        virtual_sleep(1000000);
        f->request.resumes_paused = false;
        if (cases[i].state == LEDGER_PAUSED)
            assert_int_equal(take(f), LEASE_RUN_PAUSED);
        f->request.resumes_paused = true;
        acquire(f);
        assert_in_range(f->lease.run.idle_s, idle_s - 2, idle_s + 2);
        assert_int_equal(read_run(f)->idle_s, f->lease.run.idle_s);
    }
}

/* A run begins with its first attempt, so the wait before it is not idle time.
 */
FIXTURE_TEST(the_wait_for_the_first_attempt_is_no_time_of_the_run)
{
    struct ledger_run *run;

    acquire(f);
    leave_as(f, LEDGER_QUEUED, "");
    run = read_run(f);
    run->started_ticks = 0;
    run->idle_s = 0;
    store(f, run);
    virtual_sleep(1000000);
    acquire(f);
    assert_int_equal(f->lease.run.idle_s, 0);
}

/* Two owners crashed, the second one before it saw that the run was to be
 * cancelled. From the end of each lease to the next attempt, three minutes
 * passed: these minutes are idle time. */
FIXTURE_TEST(what_a_crashed_owner_was_asked_is_done)
{
    struct ledger_run *run;

    acquire(f);
    virtual_sleep(4 * 60000);
    acquire(f);
    assert_in_range(f->lease.run.idle_s, 175, 180);
    ask(f, LEDGER_CONTROL_CANCEL, "");
    virtual_sleep(4 * 60000);
    assert_int_equal(take(f), LEASE_RUN_ENDED);
    expect_state(f, "cancelled");
    run = read_run(f);
    assert_in_range(run->idle_s, 350, 360);
    assert_in_range(run->finished_ticks, run->started_ticks + 479 * TICKS_PER_S,
        run->started_ticks + 482 * TICKS_PER_S);
    assert_true(run->updated_ticks == run->finished_ticks);
    assert_true(run->lease_until_ticks == run->finished_ticks);
    assert_int_equal(workbench_listed(&f->bench, JOB, LEDGER_INDEX_ENDED), 1);
}

/* Requests of the crashed owner may still arrive late. The next owner must know
 * this, although the paused run has no Owner any more. */
FIXTURE_TEST(whoever_resumes_it_knows_that_its_owner_crashed)
{
    acquire(f);
    f->lease.run.silent = 0; /* the attempt makes progress */
    renew(f);
    ask(f, LEDGER_CONTROL_PAUSE, "");
    virtual_sleep(64000);
    assert_int_equal(take(f), LEASE_RUN_PAUSED);
    rewrite(f, LEDGER_QUEUED, "", 0); /* `resume` */
    acquire(f);
    assert_true(f->lease.previous_owner_crashed);
    let_go(f);
    acquire(f);
    assert_false(f->lease.previous_owner_crashed);
}

/* ---- what a newer version has written ---- */

FIXTURE_TEST(what_a_newer_version_stored_is_left_alone)
{
    struct ledger_run *run = acquire(f);

    run->state = LEDGER_QUEUED;
    run->owner = slice_of("");
    run->format = LEDGER_FORMAT + 1;
    store(f, run);
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_int_equal(lease_write_run(&f->lease, NULL, &f->err), LEASE_LOST);
    assert_true(slice_equal(read_run(f)->etag, run->etag));
}

/* ---- a definition that changes ---- */

static struct ledger_run *attempt_begins(struct fixture *f)
{
    f->bench.kind.table_job = true;
    acquire(f);
    assert_false(f->lease.starts_over);
    f->lease.run.checkpoint = ledger_text(&f->lease.run, slice_of("{}"));
    f->lease.run.phase = ledger_text(&f->lease.run, slice_of("copying"));
    let_go(f);
    return read_run(f);
}

static void expect_begun_again(struct fixture *f, const char *why)
{
    acquire(f);
    assert_true(f->lease.starts_over);
    assert_int_equal(f->lease.run.checkpoint.len, 0);
    assert_int_equal(f->lease.run.phase.len, 0);
    assert_non_null(strstr(f->lease.run.note.at, why));
}

/* Accepts the new definition, as `resume` does. */
static void accept_definition(struct fixture *f)
{
    struct ledger_run *run = read_run(f);

    assert_true(bound_accept(run, &f->bench.job));
    run->resumes_ticks = 0;
    store(f, run);
}

/* A run of any kind waits for its definition: for example, a delete from
 * another table would delete what was not asked for. After an operator has
 * accepted the new definition, a table job begins again with its first round.
 */
FIXTURE_TEST(a_run_waits_for_its_definition)
{
    static const bool table_job[] = {false, true};

    for (size_t i = 0; TEST_EACH(i, table_job); i++) {
        struct ledger_run *run;

        begin_anew(f);
        attempt_begins(f);
        f->bench.kind.table_job = table_job[i];
        redefine(f, SECOND_HASH);
        assert_int_equal(take(f), LEASE_HELD);
        run = read_run(f);
        assert_int_equal(run->state, LEDGER_WAITING);
        assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION));
        assert_true(ledger_is_held(run));
        assert_true(run->error.len > 0);
        assert_true(slice_is(run->checkpoint, "{}"));
        assert_in_range(run->resumes_ticks - run->updated_ticks,
            5 * TICKS_PER_S, 10 * TICKS_PER_S - 1);
        virtual_sleep(1000000);
        assert_int_equal(take(f), LEASE_HELD);
        run = read_run(f);
        assert_true(
            run->resumes_ticks - run->updated_ticks == 300 * TICKS_PER_S);
        accept_definition(f);
        expect_begun_again(
            f, table_job[i] ? "began again with the first round" : "");
        assert_true(slice_is(f->lease.run.definition, SECOND_HASH));
    }
}

/* Each delivery of the run's message finds the run held, and stores it again.
 * Under the restored definition the run continues from its checkpoint. */
FIXTURE_TEST(time_of_a_changed_definition_is_not_that_of_the_work)
{
    attempt_begins(f);
    redefine(f, SECOND_HASH);
    virtual_sleep(100000);
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(read_run(f)->idle_s, 98, 102);
    virtual_sleep(1000000);
    assert_int_equal(take(f), LEASE_HELD);
    assert_in_range(read_run(f)->idle_s, 1096, 1104);
    redefine(f, FIRST_HASH);
    virtual_sleep(1000000);
    acquire(f);
    assert_in_range(f->lease.run.idle_s, 2094, 2106);
    assert_true(slice_is(f->lease.run.checkpoint, "{}"));
    assert_false(f->lease.starts_over);
}

/* The attempt after the crash only stored that the run is held. The next owner
 * must still know of the crash. */
FIXTURE_TEST(a_crash_before_the_definition_changed_stays_known)
{
    attempt_begins(f);
    acquire(f);
    f->lease.run.silent = 0;
    renew(f);
    virtual_sleep(64000);
    redefine(f, SECOND_HASH);
    assert_int_equal(take(f), LEASE_HELD);
    redefine(f, FIRST_HASH);
    virtual_sleep(10000);
    acquire(f);
    assert_true(f->lease.previous_owner_crashed);
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

/* A run is never continued as a run of another kind: for example, a delete must
 * not do what was requested as a copy. An operator cannot accept a change of
 * the kind. */
FIXTURE_TEST(a_run_waits_while_its_job_is_of_another_kind)
{
    const char *name = f->bench.kind.name;

    attempt_begins(f);
    f->bench.kind.table_job = false;
    f->bench.kind.name = "delete";
    expect_held(f, "is a delete now, and was a scripted");
    accept_definition(f);
    expect_held(f, "is a delete now, and was a scripted");
    f->bench.kind.name = name;
    acquire(f);
    assert_true(slice_is(f->lease.run.checkpoint, "{}"));
}

/* An attempt that only ends the run does not change the run's kind. Otherwise
 * `poison retry` would carry out a job of another kind. */
FIXTURE_TEST(a_run_that_ends_keeps_its_kind)
{
    struct ledger_run *run = attempt_begins(f);

    run->kind = slice_of("copy");
    run->ending = slice_of("5 failed no");
    run->epoch = 5;
    store(f, run);
    acquire(f);
    assert_true(slice_is(f->lease.run.kind, "copy"));
}

/* `run JOB --id` may continue a paused run, but not as a run of another kind.
 */
FIXTURE_TEST(a_paused_run_of_another_kind_stays_paused)
{
    struct ledger_run *run = attempt_begins(f);

    run->state = LEDGER_PAUSED;
    run->kind = slice_of("copy");
    store(f, run);
    f->request.resumes_paused = true;
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_non_null(strstr(f->err.text, "is a scripted now, and was a copy"));
    assert_int_equal(read_run(f)->state, LEDGER_PAUSED);
}

/* The run notes the definition that `run` has refused, so that `resume` can
 * accept it. */
FIXTURE_TEST(a_paused_run_notes_the_definition_that_was_refused)
{
    attempt_begins(f);
    rewrite(f, LEDGER_PAUSED, "", 0);
    redefine(f, SECOND_HASH);
    f->request.resumes_paused = true;
    assert_int_equal(take(f), LEASE_REFUSED);
    assert_non_null(strstr(f->err.text, "accept the new one with `resume`"));
    expect_state(f, "paused");
    assert_true(
        slice_is(read_run(f)->definition, "!" SECOND_HASH ":" FIRST_HASH));
    accept_definition(f);
    acquire(f);
}

FIXTURE_TEST(a_run_that_no_attempt_began_waits_for_its_kind_too)
{
    struct ledger_run *run = workbench_football(&f->bench, "r1");

    run->kind = slice_of("copy");
    store(f, run);
    expect_held(f, "is a scripted now, and was a copy");
}

/* The job's text is the same, but a store's name means another account. */
FIXTURE_TEST(a_run_waits_while_its_job_is_in_another_account)
{
    struct ledger_run *run;

    f->request.accounts = slice_of(".aaaaaaaaaaaaaaaa Blogs (x)");
    attempt_begins(f);
    f->bench.kind.table_job = false;
    f->request.accounts = slice_of(".bbbbbbbbbbbbbbbb Blogs (x)");
    expect_held(f, "is another account now");
    run = read_run(f);
    bound_accept_definition(run, &f->bench.job); /* as `poison retry` does */
    store(f, run);
    expect_held(f, "is another account now");
    accept_definition(f);
    expect_begun_again(f, "");
}

/* The operator has read the definition that was refused when the run was held.
 * A later definition must be accepted again. */
FIXTURE_TEST(a_definition_that_changes_after_it_was_accepted_is_accepted_anew)
{
    attempt_begins(f);
    redefine(f, SECOND_HASH);
    expect_held(f, "the definition of its job has changed");
    accept_definition(f);
    redefine(f, "ffffffffffffffff");
    expect_held(f, "the definition of its job has changed");
    assert_true(slice_is(read_run(f)->checkpoint, "{}"));
}

FIXTURE_TEST(a_run_starts_over_by_itself_if_rules_were_added)
{
    f->bench.job.parts = "aaaaaaaaaaaaaaaa";
    f->request.accounts = slice_of(".cccccccccccccccc Blogs (x)");
    attempt_begins(f);
    f->bench.kind.table_job = false;
    redefine(f, SECOND_HASH);
    f->bench.job.parts = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb";
    expect_begun_again(f, "rules were added to the definition");
    assert_true(slice_is(f->lease.run.definition,
        SECOND_HASH "/aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb.cccccccccccccccc "
                    "Blogs (x)"));
}

/* ---- releasing ---- */

/* The clock may seem to go back: Date has whole seconds, and responses may come
 * late. */
FIXTURE_TEST(a_run_never_ends_before_it_has_begun)
{
    acquire(f);
    f->lease.run.started_ticks += TICKS_PER_S;
    assert_int_equal(release(f, LEDGER_SUCCEEDED), LEASE_VALID);
    assert_true(f->lease.run.finished_ticks >= f->lease.run.started_ticks);
}

FIXTURE_TEST(letting_go_is_tried_until_it_is_stored)
{
    static const struct {
        const char *name;
        struct bench_fault_range meets[2];
        int64_t after_ms;
        enum lease_status status;
        unsigned least, most; /* number of writes */
    } cases[] = {
        {"it fails for a while",
            {{BENCH_BATCH, 1, 2, BENCH_FAIL},
                {BENCH_BATCH, 3, 3, BENCH_LOSE_REQUEST}},
            0, LEASE_VALID, 4, 4},
        {"its answer is lost", {{BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER}}, 0,
            LEASE_VALID, 1, 1},
        {"an outage", {{BENCH_BATCH, ALWAYS, BENCH_FAIL}}, 0, LEASE_UNKNOWN, 2,
            RETRY_TRIES},
        {"the lease is nearly over", {{BENCH_BATCH, ALWAYS, BENCH_FAIL}}, 59950,
            LEASE_UNKNOWN, 0, 2},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        bool stored = cases[i].status == LEASE_VALID;
        unsigned before;
        struct ledger_run *run;

        test_case("%s", cases[i].name);
        begin_anew(f);
        acquire(f);
        before = f->bench.calls[BENCH_BATCH];
        virtual_sleep(cases[i].after_ms);
        workbench_meets_each(&f->bench, cases[i].meets, 2);
        assert_int_equal(release(f, LEDGER_SUCCEEDED), cases[i].status);
        assert_in_range(f->bench.calls[BENCH_BATCH] - before, cases[i].least,
            cases[i].most);
        run = read_run(f);
        assert_int_equal(
            run->state, stored ? LEDGER_SUCCEEDED : LEDGER_RUNNING);
        assert_int_equal(run->owner.len == 0, stored);
        assert_int_equal(run->finished_ticks > 0, stored);
        assert_int_equal(
            workbench_listed(&f->bench, JOB, LEDGER_INDEX_OPEN), !stored);
        if (!stored)
            assert_string_equal(f->err.text, "the store is down");
    }
}

/* An earlier write of this attempt, not the release, has changed the run, so
 * the run still has this attempt's Owner. The release is written again. */
FIXTURE_TEST(letting_go_is_not_an_earlier_write)
{
    acquire(f);
    rewrite(f, LEDGER_RUNNING, f->lease.owner, 0);
    assert_int_equal(release(f, LEDGER_WAITING), LEASE_VALID);
    expect_state(f, "waiting");
}

/* The run was stored as failed, and the response was lost. Then an operator had
 * the run retried. */
FIXTURE_TEST(a_retry_is_not_undone_by_a_lost_answer)
{
    acquire(f);
    meddling = (struct meddling){f, BENCH_GET, 1, LEDGER_QUEUED, "", 0};
    f->bench.between = meddle;
    workbench_meets(&f->bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(release(f, LEDGER_FAILED), LEASE_LOST);
    expect_state(f, "queued");
}

/* ---- the message ---- */

static int64_t visible_in_s(struct fixture *f)
{
    struct messages got;

    messages_init(&got);
    for (int64_t waited_s = 0; waited_s < 110; waited_s++) {
        struct exchange exchange = {0};

        assert_ok(store_queue_get(
            f->bench.wrapped.inner, &exchange, BENCH_QUEUE, 1, 1, &got));
        if (got.count > 0) {
            messages_done(&got);
            return waited_s;
        }
        virtual_sleep(1000);
    }
    fail_msg("the message stays hidden");
    return -1;
}

FIXTURE_TEST(a_message_is_hidden_until_its_time)
{
    static const struct {
        const char *name;
        int64_t hide_s, slept_s;
        uintmax_t least_s, most_s;
    } cases[] = {
        {"it is to come", 20, 0, 19, 22},
        {"it has come", -1, 0, 0, 0},
        {"a queue hides for seven days at most", 900000, 604700, 90, 105},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        begin_anew(f);
        take_with_message(f, "wake-up");
        lease_hide_message(&f->lease,
            lease_now_ticks(&f->lease) + cases[i].hide_s * TICKS_PER_S);
        virtual_sleep(cases[i].slept_s * 1000);
        assert_in_range(
            (uintmax_t)visible_in_s(f), cases[i].least_s, cases[i].most_s);
    }
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
    acquire(f);
    lease_hide_message_ms(&f->lease, 1000);
    lease_delete_message(&f->lease);
    assert_int_equal(f->bench.calls[BENCH_RENEW], 0);
    assert_int_equal(f->bench.calls[BENCH_DELETE], 0);
}

FIXTURE_TEST(deleting_the_message_is_tried_again)
{
    static const struct {
        const char *name;
        struct bench_fault_range meets;
        unsigned least, most; /* delete requests */
        int64_t left;         /* messages left */
        bool has_message;
    } cases[] = {
        {"it fails for a while", {BENCH_DELETE, 1, 2, BENCH_FAIL}, 3, 3, 0,
            false},
        {"it comes again", {BENCH_DELETE, ALWAYS, BENCH_FAIL}, 2, RETRY_TRIES,
            1, true},
        {"it is another's", {BENCH_DELETE, 1, 1, BENCH_CONFLICT}, 1, 1, 1,
            false},
        {"it is gone", {BENCH_DELETE, 1, 1, BENCH_GONE}, 1, 1, 1, false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        begin_anew(f);
        take_with_message(f, "wake-up");
        workbench_meets_each(&f->bench, &cases[i].meets, 1);
        lease_delete_message(&f->lease);
        assert_in_range(
            f->bench.calls[BENCH_DELETE], cases[i].least, cases[i].most);
        assert_int_equal(f->lease.has_message, cases[i].has_message);
        assert_int_equal(
            workbench_count(&f->bench, BENCH_QUEUE), cases[i].left);
    }
}

/* ---- the poison copy ---- */

#define POISON BENCH_QUEUE "-poison"

#define OF_JOB "{\"job\":\"" JOB "\",\"id\":"
#define OF_R1 OF_JOB "\"r1\",\"args\":{\"channel\":\"Football\"}"
#define OF_R1_COPIED OF_R1 ",\"at\":null}"

static enum tw_err copy(struct fixture *f, const char *text)
{
    return lease_put_poison_copy(&f->lease,
        &(struct poison_copy){slice_of(BENCH_QUEUE), slice_of(text), false},
        &f->err);
}

/* Fails unless the poison queue has a copy with this text, whose id the run has
 * noted. has_receipt: the run has noted a pop receipt too, from the response to
 * the put. */
static void expect_copy(struct fixture *f, const char *text, bool has_receipt)
{
    struct messages copies;

    messages_init(&copies);
    (void)workbench_take(&f->bench, POISON, &copies);
    assert_true(slice_is(copies.list[0].text, text));
    assert_true(slice_equal(copies.list[0].id, f->lease.run.poison_id));
    assert_int_equal(f->lease.run.poison_receipt.len > 0, has_receipt);
    messages_done(&copies);
}

FIXTURE_TEST(a_copy_is_put_whatever_its_requests_meet)
{
    static const struct {
        const char *name;
        bool queue_is_there;
        struct bench_fault_range meets[4];
        enum tw_err outcome;
        unsigned least, most, peeks; /* puts: least to most */
        bool has_receipt;
    } cases[] = {
        {"the queue is missing", false, {{0}}, TW_OK, 2, 2, 0, true},
        {"the queue may not be made", false,
            {{BENCH_CREATE, ALWAYS, BENCH_REFUSE}}, TW_REFUSED, 1, 1, 0, false},
        {"a busy answer", true,
            {{BENCH_PUT, 1, 1, BENCH_LOSE_REQUEST},
                {BENCH_PUT, 2, 2, BENCH_FAIL}},
            TW_OK, 3, 3, 2, true},
        /* The first put is made without a peek, the next ones after a peek. */
        {"an unknown put", true,
            {{BENCH_PUT, 1, 1, BENCH_FAIL},
                {BENCH_PUT, 2, 2, BENCH_LOSE_ANSWER},
                {BENCH_PEEK, 1, 1, BENCH_THROTTLE},
                {BENCH_PEEK, 2, 2, BENCH_LOSE_REQUEST}},
            TW_OK, 2, 2, 3, false},
        {"the queue does not answer", true,
            {{BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER},
                {BENCH_PEEK, ALWAYS, BENCH_LOSE_REQUEST}},
            TW_UNKNOWN, 1, 1, 5, false},
        {"an outage", true, {{BENCH_PUT, ALWAYS, BENCH_FAIL}}, TW_BUSY, 1,
            RETRY_TRIES, 0, false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        begin_anew(f);
        if (cases[i].queue_is_there)
            workbench_make_queue(&f->bench, POISON);
        acquire(f);
        workbench_meets_each(&f->bench, cases[i].meets, 4);
        assert_int_equal(copy(f, OF_R1 "}"), cases[i].outcome);
        assert_in_range(
            f->bench.calls[BENCH_PUT], cases[i].least, cases[i].most);
        assert_int_equal(f->bench.calls[BENCH_PEEK], cases[i].peeks);
        if (cases[i].outcome == TW_OK)
            expect_copy(f, OF_R1 "}", cases[i].has_receipt);
        else
            assert_int_equal(f->lease.run.poison_id.len, 0);
    }
}

/* The text has a character that no message may have. Earlier, if the poison
 * queue was also missing, it was not created, and the run was retried for ever.
 */
FIXTURE_TEST(what_a_queue_cannot_carry_goes_as_base64)
{
    acquire(f);
    assert_ok(copy(f, "a\x01z"));
    expect_copy(f, "YQF6", true);
}

/* Puts a message with `text` into the poison queue. Then calls
 * lease_put_poison_copy() with the text `copied`, which puts nothing if the
 * message may already be the run's poison copy. Returns the number of messages
 * that are then in the poison queue. */
static int64_t copies_beside(
    struct fixture *f, const char *text, const char *copied)
{
    const char *id = workbench_put(&f->bench, POISON, text);
    struct poison_copy copied_run = {
        slice_of(BENCH_QUEUE), slice_of(copied), true};

    assert_ok(lease_put_poison_copy(&f->lease, &copied_run, &f->err));
    if (workbench_count(&f->bench, POISON) == 1) {
        assert_true(slice_is(f->lease.run.poison_id, id));
        assert_int_equal(f->lease.run.poison_receipt.len, 0);
    }
    return workbench_count(&f->bench, POISON);
}

FIXTURE_TEST(a_copy_of_the_run_is_not_put_again)
{
    static const struct {
        const char *name, *text, *copied;
        unsigned puts;
    } cases[] = {
        {"it is the run's", OF_R1 "}", OF_R1_COPIED, 0},
        {"it is another run's", OF_JOB "\"r2\"}", OF_R1_COPIED, 1},
        /* A message with other arguments was refused and does not belong to the
         * run. */
        {"it has other arguments",
            OF_JOB "\"r1\",\"args\":{\"channel\":\"Arts\"}}", OF_R1_COPIED, 1},
        /* A body that is only an argument names no run, so equal bodies count
         * as the same poison copy. */
        {"it is an equal argument", "Football", "Football", 1},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        begin_anew(f);
        acquire(f);
        assert_int_equal(copies_beside(f, cases[i].text, cases[i].copied),
            1 + cases[i].puts);
        assert_int_equal(f->bench.calls[BENCH_PUT], cases[i].puts);
    }
}

/* The retry deletes the poison copy that the run has noted. Earlier, that copy
 * was taken for the new one, so no poison copy was left. */
FIXTURE_TEST(the_copy_that_a_retry_takes_away_is_no_copy)
{
    acquire(f);
    f->lease.run.poison_id =
        slice_of(workbench_put(&f->bench, POISON, OF_R1 "}"));
    assert_int_equal(copies_beside(f, "another's", OF_R1_COPIED), 3);
    assert_true(f->lease.run.poison_receipt.len > 0);
}

/* A shared access signature may allow adding but not reading. Then the poison
 * copy is put, because two copies are better than none. */
FIXTURE_TEST(who_may_not_peek_puts)
{
    acquire(f);
    workbench_meets(&f->bench, BENCH_PEEK, ALWAYS, BENCH_FORBID);
    assert_int_equal(copies_beside(f, OF_R1 "}", OF_R1_COPIED), 2);
}
