/* SPDX-License-Identifier: MIT */
/* The lease: from when it counts, and whose is what a claim reads. */
#include "tests/support/workbench.h"

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"

#define DELAY_MS 300

static void take(struct claim *claim, const struct claim_wish *wish)
{
    enum tw_err outcome;
    struct err err;

    claim_init(claim, wish);
    assert_int_equal(claim_take(claim, wish, &outcome, &err), CLAIM_TAKEN);
}

/* Take with a message; its texts are the claim's own by then. */
static void take_with_message(struct workbench *bench, struct claim *claim)
{
    struct claim_wish wish = workbench_wish(bench, "r1");
    struct claim_message bell = {.queue = BENCH_QUEUE};
    struct messages taken;

    messages_init(&taken);
    workbench_put(bench, BENCH_QUEUE, "bell");
    bell.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
    bell.id = taken.list[0].id;
    bell.pop_receipt = taken.list[0].pop_receipt;
    bell.text = taken.list[0].text;
    wish.message = &bell;
    take(claim, &wish);
    messages_done(&taken);
}

/* ---- deadlines ---- */

/* An answer that takes long must not make the lease longer. */
static void deadlines_count_from_the_sending(void **state)
{
    struct workbench *bench = *state;
    struct claim claim;
    struct err err;

    take_with_message(bench, &claim);
    platform_lock(&bench->lock);
    bench->delay_ms = DELAY_MS;
    platform_unlock(&bench->lock);
    assert_int_equal(claim_write(&claim, &err), TW_OK);
    assert_true(claim.deadline_ms <=
                platform_boot_ms() - DELAY_MS + claim.visibility_timeout_ms);
    claim_done(&claim);
}

/* Only the ledger's: the message may be visible again, or lost. */
static void the_deadline_is_the_ledgers(void **state)
{
    struct workbench *bench = *state;
    struct claim claim;
    int64_t last_ms;
    struct err err;

    take_with_message(bench, &claim);
    assert_int_equal(claim_write(&claim, &err), TW_OK);
    last_ms = claim.deadline_ms - claim.deadline.request_ms;
    workbench_meets(bench, BENCH_RENEW, 1, 1, BENCH_FAIL);
    assert_int_equal(claim_renew_message(&claim, &err), TW_BUSY);
    assert_int_equal(claim_renew_message(&claim, &err), TW_OK);
    workbench_meets(bench, BENCH_RENEW, 1, 1, BENCH_CONFLICT);
    assert_int_equal(claim_renew_message(&claim, &err), TW_CONFLICT);
    assert_true(deadline_is_open(&claim.deadline, last_ms));
    assert_false(deadline_is_open(&claim.deadline, last_ms + 1));
    claim_done(&claim);
}

/* 3 s: what Date cuts off, and what the service's servers differ by. */
static void the_lease_is_three_seconds_longer_than_the_deadline(void **state)
{
    struct workbench *bench = *state;
    int64_t date_ticks, sent_ms;
    struct claim claim;
    struct err err;

    take_with_message(bench, &claim);
    date_ticks = claim.date_ticks;
    sent_ms = claim.date_sent_ms;
    virtual_sleep(1250);
    assert_int_equal(claim_write(&claim, &err), CLAIM_MINE);
    assert_true(claim.run.lease_until_ticks ==
                date_ticks + 3 * TICKS_PER_S +
                    (claim.deadline_ms - sent_ms) * TICKS_PER_MS);
    claim_done(&claim);
}

/* Its clock may be wrong by any amount. */
static void the_clock_of_the_queue_service_is_not_used(void **state)
{
    struct workbench *bench = *state;
    int64_t date_ticks, sent_ms;
    struct claim claim;
    struct err err;

    take_with_message(bench, &claim);
    date_ticks = claim.date_ticks;
    sent_ms = claim.date_sent_ms;
    virtual_sleep(10000);
    assert_int_equal(claim_renew_message(&claim, &err), TW_OK);
    claim_hide_ms(&claim, 1000);
    assert_int_equal(claim_put_copy(&claim,
                         &(struct claim_copy){
                             slice_of(BENCH_QUEUE), slice_of("copy"), false},
                         &err),
        TW_OK);
    claim_delete_message(&claim);
    assert_true(claim.date_ticks == date_ticks);
    assert_true(claim.date_sent_ms == sent_ms);
    claim_done(&claim);
}

/* ---- whose ---- */

static struct claim rival;

/* Between our look and our write somebody else claims the run. */
static void claim_in_between(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    struct claim_wish wish = workbench_wish(bench, "r1");

    if (call != BENCH_BATCH || n != 1)
        return;
    wish.store = bench->wrapped.inner;
    take(&rival, &wish);
}

static void lost_claim_of_a_run_that_another_took_is_not_ours(void **state)
{
    struct workbench *bench = *state;
    struct claim_wish wish = workbench_wish(bench, "r1");
    struct claim claim;
    enum tw_err outcome;
    struct err err;

    bench->between = claim_in_between;
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    claim_init(&claim, &wish);
    assert_int_equal(claim_take(&claim, &wish, &outcome, &err), CLAIM_HELD);
    assert_string_equal(rival.owner, claim.run.owner.at);
    claim_done(&claim);
    claim_done(&rival);
}

/* Somebody else has had the run since, and has let go of it in order. */
static void let_go_by_another_epoch(struct workbench *bench)
{
    struct attempt attempt = {0};
    struct ledger_run run;

    ledger_run_init(&run);
    assert_int_equal(ledger_get(bench->wrapped.inner, &attempt,
                         slice_of(bench->job.name), slice_of("r1"), &run),
        TW_OK);
    run.epoch++;
    run.owner = (struct slice){0};
    run.state = LEDGER_QUEUED;
    assert_int_equal(workbench_store_run(bench, &run), TW_OK);
    ledger_run_done(&run);
}

static void what_another_epoch_let_go_is_not_ours(void **state)
{
    struct workbench *bench = *state;
    struct claim_wish wish = workbench_wish(bench, "r1");
    struct claim claim;
    struct err err;

    take(&claim, &wish);
    let_go_by_another_epoch(bench);
    assert_int_equal(claim_write(&claim, &err), CLAIM_OVERTAKEN);
    claim_done(&claim);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, workbench_set_up, workbench_tear_down)

#define VIRTUAL(f)                                                             \
    cmocka_unit_test_setup_teardown(                                           \
        f, workbench_set_up_virtual, workbench_tear_down_virtual)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(deadlines_count_from_the_sending),
        TEST(the_deadline_is_the_ledgers),
        VIRTUAL(the_lease_is_three_seconds_longer_than_the_deadline),
        VIRTUAL(the_clock_of_the_queue_service_is_not_used),
        TEST(lost_claim_of_a_run_that_another_took_is_not_ours),
        TEST(what_another_epoch_let_go_is_not_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
