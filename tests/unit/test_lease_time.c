/* SPDX-License-Identifier: MIT */
/* The lease: from when it counts, and whose is what a lease reads. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"

#define DELAY_MS 300

static void take(struct lease *lease, const struct lease_request *wish)
{
    enum tw_err outcome;
    struct err err;

    lease_init(lease, wish);
    assert_int_equal(
        lease_acquire(lease, wish, &outcome, &err), LEASE_ACQUIRED);
}

/* Take with a message; its texts are the lease's own by then. */
static void take_with_message(struct workbench *bench, struct lease *lease)
{
    struct lease_request wish = workbench_wish(bench, "r1");
    struct lease_message wake_up = {.queue = BENCH_QUEUE};
    struct messages taken;

    messages_init(&taken);
    workbench_put(bench, BENCH_QUEUE, "wake-up");
    wake_up.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
    wake_up.id = taken.list[0].id;
    wake_up.pop_receipt = taken.list[0].pop_receipt;
    wake_up.text = taken.list[0].text;
    wish.message = &wake_up;
    take(lease, &wish);
    messages_done(&taken);
}

/* ---- deadlines ---- */

/* An answer that takes long must not make the lease longer. */
BENCH_TEST(deadlines_count_from_the_sending)
{
    struct lease lease;
    struct err err;

    take_with_message(bench, &lease);
    workbench_locked(bench, bench->delay_ms = DELAY_MS);
    assert_ok(lease_write_run(&lease, NULL, &err));
    assert_true(lease.deadline_ms <=
                platform_boot_ms() - DELAY_MS + lease.visibility_timeout_ms);
    lease_done(&lease);
}

/* Only the ledger's: the message may be visible again, or lost. */
BENCH_TEST(the_deadline_is_the_ledgers)
{
    struct lease lease;
    int64_t last_ms;
    struct err err;

    take_with_message(bench, &lease);
    assert_ok(lease_write_run(&lease, NULL, &err));
    last_ms = lease.deadline_ms - lease.deadline.request_ms;
    workbench_meets(bench, BENCH_RENEW, 1, 1, BENCH_FAIL);
    assert_int_equal(lease_renew_message(&lease, &err), TW_BUSY);
    assert_ok(lease_renew_message(&lease, &err));
    workbench_meets(bench, BENCH_RENEW, 1, 1, BENCH_CONFLICT);
    assert_int_equal(lease_renew_message(&lease, &err), TW_CONFLICT);
    assert_true(deadline_is_open(&lease.deadline, last_ms));
    assert_false(deadline_is_open(&lease.deadline, last_ms + 1));
    lease_done(&lease);
}

/* 3 s: what Date cuts off, and what the service's servers differ by. */
VIRTUAL_BENCH_TEST(the_lease_is_three_seconds_longer_than_the_deadline)
{
    int64_t date_ticks, sent_ms;
    struct lease lease;
    struct err err;

    take_with_message(bench, &lease);
    date_ticks = lease.date_ticks;
    sent_ms = lease.date_sent_ms;
    virtual_sleep(1250);
    assert_int_equal(lease_write_run(&lease, NULL, &err), LEASE_VALID);
    assert_true(lease.run.lease_until_ticks ==
                date_ticks + 3 * TICKS_PER_S +
                    (lease.deadline_ms - sent_ms) * TICKS_PER_MS);
    lease_done(&lease);
}

/* Its clock may be wrong by any amount. */
VIRTUAL_BENCH_TEST(the_clock_of_the_queue_service_is_not_used)
{
    int64_t date_ticks, sent_ms;
    struct lease lease;
    struct err err;

    take_with_message(bench, &lease);
    date_ticks = lease.date_ticks;
    sent_ms = lease.date_sent_ms;
    virtual_sleep(10000);
    assert_ok(lease_renew_message(&lease, &err));
    lease_hide_message_ms(&lease, 1000);
    assert_ok(lease_put_poison_copy(&lease,
        &(struct poison_copy){slice_of(BENCH_QUEUE), slice_of("copy"), false},
        &err));
    lease_delete_message(&lease);
    assert_true(lease.date_ticks == date_ticks);
    assert_true(lease.date_sent_ms == sent_ms);
    lease_done(&lease);
}

/* ---- whose ---- */

static struct lease rival;

/* Between our look and our write somebody else claims the run. */
BENCH_BETWEEN(lease_in_between)
{
    struct lease_request wish = workbench_wish(bench, "r1");

    if (call != BENCH_BATCH || n != 1)
        return;
    wish.store = bench->wrapped.inner;
    take(&rival, &wish);
}

BENCH_TEST(lost_claim_of_a_run_that_another_took_is_not_ours)
{
    struct lease_request wish = workbench_wish(bench, "r1");
    struct lease lease;
    enum tw_err outcome;
    struct err err;

    bench->between = lease_in_between;
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    lease_init(&lease, &wish);
    assert_int_equal(lease_acquire(&lease, &wish, &outcome, &err), LEASE_HELD);
    assert_string_equal(rival.owner, lease.run.owner.at);
    lease_done(&lease);
    lease_done(&rival);
}

/* Somebody else has had the run since, and has let go of it in order. */
static void let_go_by_another_epoch(struct workbench *bench)
{
    struct exchange exchange = {0};
    struct ledger_run *run = workbench_new_run(bench);

    assert_ok(ledger_get(bench->wrapped.inner, &exchange,
        slice_of(bench->job.name), slice_of("r1"), run));
    run->epoch++;
    run->owner = (struct slice){0};
    run->state = LEDGER_QUEUED;
    assert_ok(workbench_store_run(bench, run));
}

BENCH_TEST(what_another_epoch_let_go_is_not_ours)
{
    struct lease_request wish = workbench_wish(bench, "r1");
    struct lease lease;
    struct err err;

    take(&lease, &wish);
    let_go_by_another_epoch(bench);
    assert_int_equal(lease_write_run(&lease, NULL, &err), LEASE_LOST);
    lease_done(&lease);
}
