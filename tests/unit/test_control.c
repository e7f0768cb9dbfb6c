/* SPDX-License-Identifier: MIT */
/* Enqueue, cancel, retry, drop. */
#include "tests/support/workbench.h"

#include "worker/base/text.h"
#include "worker/run/control.h"
#include "worker/run/message.h"
#include "worker/run/poison.h"

#define JOB "delete-channel"

static int set_up(void **state)
{
    struct workbench *bench = test_malloc(sizeof(*bench));

    workbench_init(bench);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    workbench_done(*state);
    test_free(*state);
    return 0;
}

static struct slice names[] = {{"channel", 7}};
static struct slice football[] = {{"Football", 8}};
static struct slice tennis[] = {{"Tennis", 6}};

static struct control_enqueue what(struct workbench *bench, size_t queue,
    const struct slice *values, const char *id)
{
    return (struct control_enqueue){.queue = &bench->queues[queue],
        .job = &bench->job,
        .args = {1, names, values},
        .id = slice_of(id)};
}

static void enqueued_is_on_the_queue_and_in_the_ledger(void **state)
{
    struct workbench *bench = *state;
    struct control_enqueue order = what(bench, 0, football, NULL);
    struct messages taken;
    struct request request;
    struct ledger_run run;
    struct arena arena;
    struct err err;
    char id[129];

    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_OK);
    assert_int_equal(strlen(id), 32);
    ledger_run_init(&run);
    assert_true(workbench_run(bench, JOB, id, &run));
    assert_int_equal(run.state, LEDGER_QUEUED);
    assert_true(slice_is(run.args, "{\"channel\":\"Football\"}"));
    assert_true(run.requested_ticks > 0);
    assert_int_equal(workbench_markers(bench, JOB), 1);
    messages_init(&taken);
    arena_init(&arena);
    (void)workbench_take(bench, BENCH_QUEUE, &taken);
    assert_int_equal(message_read(&bench->queues[0], &bench->jobs,
                         taken.list[0].text, &arena, &request, &err),
        TW_OK);
    assert_true(slice_is(request.id, id));
    assert_true(slice_is(request.args.values[0], "Football"));
    arena_done(&arena);
    messages_done(&taken);
    ledger_run_done(&run);
}

static void on_a_bound_queue_the_body_is_the_argument(void **state)
{
    struct workbench *bench = *state;
    struct control_enqueue order = what(bench, 1, football, NULL);
    struct messages taken;
    struct err err;
    char id[129];

    bench->queues[1].base64 = true;
    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_OK);
    messages_init(&taken);
    (void)workbench_take(bench, BENCH_BOUND, &taken);
    assert_true(slice_is(taken.list[0].text, "Rm9vdGJhbGw="));
    assert_true(slice_is(taken.list[0].id, id));
    messages_done(&taken);
    assert_string_equal(workbench_state(bench, JOB, id), "queued");
}

static void an_open_id_is_rung_again_and_another_one_is_not(void **state)
{
    struct workbench *bench = *state;
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct ledger_run before;
    struct err err;
    char id[129];

    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_OK);
    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
    order = what(bench, 0, tennis, "r1");
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "other arguments"));
    ledger_run_init(&before);
    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         &before, &err),
        TW_OK);
    ledger_run_done(&before);
    order = what(bench, 0, football, "r1");
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "cancelled"));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
}

static void a_delay_hides_message_and_run(void **state)
{
    struct workbench *bench = *state;
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct attempt attempt = {0};
    struct messages taken;
    struct ledger_run run;
    struct err err;
    char id[129];

    order.delay_s = 300;
    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_OK);
    messages_init(&taken);
    assert_int_equal(
        store_queue_get(bench->store, &attempt, BENCH_QUEUE, 1, 30, &taken),
        TW_OK);
    assert_int_equal(taken.count, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    messages_done(&taken);
    ledger_run_init(&run);
    assert_true(workbench_run(bench, JOB, "r1", &run));
    assert_true(run.resumes_ticks == run.requested_ticks + 300 * TICKS_PER_S);
    ledger_run_done(&run);
}

static void cancel_says_what_it_met(void **state)
{
    struct workbench *bench = *state;
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct ledger_run before;
    struct err err;
    char id[129];

    ledger_run_init(&before);
    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         &before, &err),
        TW_NOT_FOUND);
    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_OK);
    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         &before, &err),
        TW_OK);
    assert_int_equal(before.state, LEDGER_QUEUED);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         &before, &err),
        TW_CONFLICT);
    assert_int_equal(before.state, LEDGER_CANCELLED);
    ledger_run_done(&before);
}

/* A run that has failed, with its copy in the poison queue. */
static void leave_failed(struct workbench *bench)
{
    struct attempt attempt = {0};
    struct messages put;
    struct ledger_run run;

    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    messages_init(&put);
    assert_int_equal(store_queue_put(bench->wrapped.inner, &attempt,
                         BENCH_QUEUE "-poison", slice_of("copy"), 0, &put),
        TW_OK);
    ledger_run_init(&run);
    run.job = slice_of(JOB);
    run.id = slice_of("r1");
    run.state = LEDGER_FAILED;
    run.args = slice_of("{\"channel\":\"Football\"}");
    run.queue = slice_of(BENCH_QUEUE);
    run.checkpoint = slice_of("{\"at\":1}");
    run.error = slice_of("no");
    run.failures = 3;
    run.epoch = 5;
    run.requested_ticks = TICKS_1970 + 77;
    run.finished_ticks = TICKS_1970 + 99;
    run.poison_id = put.list[0].id;
    run.poison_receipt = put.list[0].pop_receipt;
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_insert(bench->wrapped.inner, &attempt, &run), TW_OK);
    ledger_run_done(&run);
    messages_done(&put);
}

static void retry_keeps_checkpoint_and_time_of_request(void **state)
{
    struct workbench *bench = *state;
    struct messages bell;
    struct ledger_run run;
    struct err err;

    leave_failed(bench);
    assert_int_equal(
        control_retry(bench->store, slice_of(JOB), slice_of("r1"), &err),
        TW_OK);
    ledger_run_init(&run);
    assert_true(workbench_run(bench, JOB, "r1", &run));
    assert_int_equal(run.state, LEDGER_QUEUED);
    assert_true(slice_is(run.checkpoint, "{\"at\":1}"));
    assert_true(run.requested_ticks == TICKS_1970 + 77);
    assert_int_equal(run.failures, 0);
    assert_int_equal(run.error.len, 0);
    assert_int_equal(run.epoch, 5);
    assert_true(run.finished_ticks == 0);
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_done(&run);
    messages_init(&bell);
    (void)workbench_take(bench, BENCH_QUEUE, &bell);
    assert_true(slice_is(bell.list[0].text,
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"},"
        "\"id\":\"r1\"}"));
    messages_done(&bell);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    assert_int_equal(
        control_retry(bench->store, slice_of(JOB), slice_of("r1"), &err),
        TW_CONFLICT);
}

static void drop_takes_the_copy_and_leaves_the_reason(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct err err;

    leave_failed(bench);
    assert_int_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err), TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    ledger_run_init(&run);
    assert_true(workbench_run(bench, JOB, "r1", &run));
    assert_int_equal(run.state, LEDGER_FAILED);
    assert_true(slice_is(run.error, "no"));
    assert_int_equal(run.poison_id.len, 0);
    ledger_run_done(&run);
}

static void an_unreadable_message_is_put_back_as_it_was(void **state)
{
    struct workbench *bench = *state;
    struct claim_message message = {.queue = BENCH_QUEUE};
    struct messages taken;
    struct err err;
    const char *id = workbench_put(bench, BENCH_QUEUE, "not json");

    messages_init(&taken);
    message.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
    message.id = taken.list[0].id;
    message.pop_receipt = taken.list[0].pop_receipt;
    message.text = taken.list[0].text;
    assert_int_equal(poison_message(bench->store, LEDGER_UNREADABLE, &message,
                         60, "not JSON", &err),
        TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(control_retry(bench->store, slice_of(LEDGER_UNREADABLE),
                         slice_of(id), &err),
        TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 0);
    assert_string_equal(
        workbench_state(bench, LEDGER_UNREADABLE, id), "cancelled");
    (void)workbench_take(bench, BENCH_QUEUE, &taken);
    assert_true(slice_is(taken.list[0].text, "not json"));
    messages_done(&taken);
}

static void a_poisoned_message_that_comes_again_only_goes(void **state)
{
    struct workbench *bench = *state;
    struct claim_message message = {.queue = BENCH_QUEUE};
    struct messages taken;
    struct err err;

    messages_init(&taken);
    workbench_put(bench, BENCH_QUEUE, "not json");
    message.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
    message.id = taken.list[0].id;
    message.pop_receipt = taken.list[0].pop_receipt;
    message.text = taken.list[0].text;
    for (int i = 0; i < 2; i++)
        assert_int_equal(poison_message(bench->store, LEDGER_UNREADABLE,
                             &message, 60, "not JSON", &err),
            TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    messages_done(&taken);
}

static enum bench_fault loses_first_batch(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)bench;
    return call == BENCH_BATCH && n == 1 ? BENCH_LOSE_ANSWER : BENCH_PASS;
}

static void a_lost_answer_is_read_back(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run before;
    struct err err;

    leave_failed(bench);
    bench->fault = loses_first_batch;
    assert_int_equal(
        control_retry(bench->store, slice_of(JOB), slice_of("r1"), &err),
        TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    ledger_run_init(&before);
    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         &before, &err),
        TW_OK);
    ledger_run_done(&before);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(enqueued_is_on_the_queue_and_in_the_ledger),
        TEST(on_a_bound_queue_the_body_is_the_argument),
        TEST(an_open_id_is_rung_again_and_another_one_is_not),
        TEST(a_delay_hides_message_and_run),
        TEST(cancel_says_what_it_met),
        TEST(retry_keeps_checkpoint_and_time_of_request),
        TEST(drop_takes_the_copy_and_leaves_the_reason),
        TEST(an_unreadable_message_is_put_back_as_it_was),
        TEST(a_poisoned_message_that_comes_again_only_goes),
        TEST(a_lost_answer_is_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
