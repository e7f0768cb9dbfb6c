/* SPDX-License-Identifier: MIT */
/* Enqueue, cancel, retry, drop. */
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "tests/support/workbench.h"

#include <limits.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/control.h"
#include "worker/run/message.h"
#include "worker/run/poison.h"

/* What control_cancel() says beside: not looked at here. */
static bool asked;

static struct control_retried retried;
static struct control_resumed resumed;

#define JOB "delete-channel"

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

VIRTUAL_BENCH_TEST(enqueued_is_on_the_queue_and_in_the_ledger)
{
    struct control_enqueue order = what(bench, 0, football, NULL);
    struct messages taken;
    struct request request;
    struct ledger_run *run;
    struct arena arena;
    struct err err;
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
    assert_int_equal(strlen(id), 32);
    run = workbench_stored(bench, JOB, id);
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_true(slice_is(run->args, "{\"channel\":\"Football\"}"));
    assert_true(run->requested_ticks > 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    messages_init(&taken);
    arena_init(&arena);
    (void)workbench_take(bench, BENCH_QUEUE, &taken);
    assert_ok(message_read(&bench->queues[0], &bench->jobs, taken.list[0].text,
        &arena, &request, &err));
    assert_true(slice_is(request.id, id));
    assert_true(slice_is(request.args.values[0], "Football"));
    arena_done(&arena);
    messages_done(&taken);
}

VIRTUAL_BENCH_TEST(on_a_bound_queue_the_body_is_the_argument)
{
    struct control_enqueue order = what(bench, 1, football, NULL);
    struct messages taken;
    struct err err;
    char id[129];

    bench->queues[1].base64 = true;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    messages_init(&taken);
    (void)workbench_take(bench, BENCH_BOUND, &taken);
    assert_true(slice_is(taken.list[0].text, "Rm9vdGJhbGw="));
    assert_true(slice_is(taken.list[0].id, id));
    messages_done(&taken);
    assert_string_equal(workbench_state(bench, JOB, id), "queued");
}

/* U+FFFF: XML, in which a queue carries texts, has no such character. */
static struct slice noncharacter[] = {{"a\xef\xbf\xbf", 4}};

static void expect_message_of_noncharacter(struct workbench *bench)
{
    struct messages taken;
    struct request request;
    struct arena arena;
    struct err err;

    messages_init(&taken);
    arena_init(&arena);
    (void)workbench_take(bench, BENCH_QUEUE, &taken);
    assert_int_equal(taken.count, 1);
    assert_ok(message_read(&bench->queues[0], &bench->jobs, taken.list[0].text,
        &arena, &request, &err));
    assert_true(slice_is(request.id, "r1"));
    assert_true(slice_equal(request.args.values[0], noncharacter[0]));
    arena_done(&arena);
    messages_done(&taken);
}

VIRTUAL_BENCH_TEST(a_text_that_no_queue_carries_is_put_as_base64)
{
    struct control_enqueue order = what(bench, 0, noncharacter, "r1");
    struct ledger_run *run;
    struct err err = {""};
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
    expect_message_of_noncharacter(bench);
    run = workbench_stored(bench, JOB, "r1");
    run->state = LEDGER_PAUSED;
    assert_ok(workbench_store_run(bench, run));
    assert_ok(control_resume(
        &bench->definition, slice_of(JOB), slice_of("r1"), &resumed, &err));
    expect_message_of_noncharacter(bench);
    run = workbench_stored(bench, JOB, "r1");
    run->state = LEDGER_FAILED;
    assert_ok(workbench_store_run(bench, run));
    assert_ok(control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        true, &retried, &err));
    expect_message_of_noncharacter(bench);
}

/* Base64 would be another argument. */
VIRTUAL_BENCH_TEST(an_argument_that_no_queue_carries_is_refused)
{
    struct control_enqueue order = what(bench, 1, noncharacter, NULL);
    struct err err;
    char id[129];

    bench->queues[1].base64 = false;
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_INVALID);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 0);
}

VIRTUAL_BENCH_TEST(an_open_run_accepts_deletes_from_now_on)
{
    static const bool accepts[] = {false, true, false};
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct err err;
    char id[129];

    for (size_t i = 0; TEST_EACH(i, accepts); i++) {
        order.accept_deletes = accepts[i];
        assert_ok(control_enqueue(bench->store, &order, id, &err));
        assert_int_equal(
            workbench_stored(bench, JOB, "r1")->accept_deletes, i > 0);
    }
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 3);
}

VIRTUAL_BENCH_TEST(an_open_id_is_rung_again_and_another_one_is_not)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct ledger_run *before;
    struct err err;
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
    order = what(bench, 0, tennis, "r1");
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "other arguments"));
    before = workbench_new_run(bench);
    assert_ok(control_cancel(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, &err));
    order = what(bench, 0, football, "r1");
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "cancelled"));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
}

/* A worker would receive the message, and leave the run as it is. */
VIRTUAL_BENCH_TEST(an_id_that_is_paused_or_being_cancelled_is_not_rung)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct ledger_run *run;
    struct err err;
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
    assert_ok(control_pause(bench->store, slice_of(JOB), slice_of("r1"),
        workbench_new_run(bench), &asked, &err));
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "`resume`"));
    run = workbench_stored(bench, JOB, "r1");
    run->state = LEDGER_RUNNING;
    run->control = slice_of(LEDGER_CONTROL_CANCEL);
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "being cancelled"));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

VIRTUAL_BENCH_TEST(a_delay_hides_message_and_run)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct exchange exchange = {0};
    struct messages taken;
    struct ledger_run *run;
    struct err err;
    char id[129];

    order.delay_s = 300;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    messages_init(&taken);
    assert_ok(
        store_queue_get(bench->store, &exchange, BENCH_QUEUE, 1, 30, &taken));
    assert_int_equal(taken.count, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    messages_done(&taken);
    run = workbench_stored(bench, JOB, "r1");
    assert_true(run->resumes_ticks == run->requested_ticks + 300 * TICKS_PER_S);
}

/* Pruning must know of every message that may come after the run's end. */
VIRTUAL_BENCH_TEST(the_ledger_knows_how_long_a_message_is_hidden)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct ledger_run *run, *before = workbench_new_run(bench);
    int64_t first_ticks;
    struct err err;
    char id[129];

    order.delay_s = 300;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    run = workbench_stored(bench, JOB, "r1");
    first_ticks = run->resumes_ticks;
    assert_true(run->message_until_ticks == first_ticks);
    order.delay_s = 5;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_true(run->message_until_ticks == first_ticks);
    order.delay_s = 900;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_true(run->message_until_ticks >= first_ticks + 600 * TICKS_PER_S);
    assert_true(run->resumes_ticks == first_ticks);
    run->message_until_ticks = 0;
    assert_ok(workbench_store_run(bench, run));
    assert_ok(control_pause(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_true(run->message_until_ticks == first_ticks);
}

/* The put of a further message has failed: the run stays. */
VIRTUAL_BENCH_TEST(a_known_run_is_not_withdrawn)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct err err;
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
    order.delay_s = 900;
    workbench_meets(bench, BENCH_PUT, 1, UINT_MAX, BENCH_REFUSE);
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_REFUSED);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
}

VIRTUAL_BENCH_TEST(cancel_says_what_it_met)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct ledger_run *before = workbench_new_run(bench);
    struct err err;
    char id[129];

    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         before, &asked, &err),
        TW_NOT_FOUND);
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    assert_ok(control_cancel(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, &err));
    assert_int_equal(before->state, LEDGER_QUEUED);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
    assert_int_equal(control_cancel(bench->store, slice_of(JOB), slice_of("r1"),
                         before, &asked, &err),
        TW_CONFLICT);
    assert_int_equal(before->state, LEDGER_CANCELLED);
}

/* A run that has failed, with its copy in the poison queue. */
static void leave_failed(struct workbench *bench)
{
    struct exchange exchange = {0};
    struct messages put;
    struct ledger_run *run;

    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    messages_init(&put);
    assert_ok(store_queue_put(bench->wrapped.inner, &exchange,
        BENCH_QUEUE "-poison", slice_of("copy"), 0, &put));
    run = workbench_football(bench, "r1");
    run->state = LEDGER_FAILED;
    run->queue = slice_of(BENCH_QUEUE);
    run->checkpoint = slice_of("{\"at\":1}");
    run->error = slice_of("no");
    run->failures = 3;
    run->epoch = 5;
    run->requested_ticks = TICKS_1970 + 77;
    run->finished_ticks = TICKS_1970 + 99;
    run->poison_id = put.list[0].id;
    run->poison_receipt = put.list[0].pop_receipt;
    run->ending = slice_of("5 failed no"); /* an older version has kept it */
    exchange = (struct exchange){0};
    assert_ok(workbench_store_run(bench, run));
    messages_done(&put);
}

VIRTUAL_BENCH_TEST(retry_keeps_checkpoint_and_time_of_request)
{
    struct messages wake_up;
    struct ledger_run *run;
    struct err err;

    leave_failed(bench);
    assert_ok(control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        true, &retried, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_true(slice_is(run->checkpoint, "{\"at\":1}"));
    assert_true(run->requested_ticks == TICKS_1970 + 77);
    assert_int_equal(run->failures, 0);
    assert_int_equal(run->error.len, 0);
    assert_int_equal(run->epoch, 5);
    assert_int_equal(run->ending.len, 0);
    assert_true(run->poison_id.len > 0); /* known, as one that is no copy now */
    assert_true(run->finished_ticks == 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    messages_init(&wake_up);
    (void)workbench_take(bench, BENCH_QUEUE, &wake_up);
    assert_true(slice_is(wake_up.list[0].text,
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"},"
        "\"id\":\"r1\"}"));
    messages_done(&wake_up);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* Rule A4: a retry may come within 30 s of the crash. */
VIRTUAL_BENCH_TEST(retry_keeps_that_the_last_owner_crashed)
{
    static const int32_t SILENT[] = {0, 1, 7};
    struct ledger_run *run;
    struct err err;

    leave_failed(bench);
    for (size_t i = 0; TEST_EACH(i, SILENT); i++) {
        run = workbench_stored(bench, JOB, "r1");
        run->state = LEDGER_FAILED;
        run->silent = SILENT[i];
        assert_ok(workbench_store_run(bench, run));
        assert_ok(control_retry(&bench->definition, slice_of(JOB),
            slice_of("r1"), true, &retried, &err));
        run = workbench_stored(bench, JOB, "r1");
        assert_int_equal(run->silent, SILENT[i] > 0);
    }
}

/* What would be deleted now is not what was accepted when the run began. */
VIRTUAL_BENCH_TEST(retry_accepts_no_deletes)
{
    struct ledger_run *run;
    struct err err;

    leave_failed(bench);
    run = workbench_stored(bench, JOB, "r1");
    run->accept_deletes = true;
    assert_ok(workbench_store_run(bench, run));
    assert_ok(control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        true, &retried, &err));
    assert_false(workbench_stored(bench, JOB, "r1")->accept_deletes);
}

/* Does run r1 accept deletes when it receives a message of that time that says
 * so? */
static bool accepts_deletes_of(struct workbench *bench, int64_t inserted_ticks)
{
    const struct lease_message message = {
        .queue = BENCH_QUEUE, .inserted_ticks = inserted_ticks};
    struct lease_request wish = workbench_wish(bench, "r1");
    struct lease lease;
    enum tw_err outcome;
    struct err err;
    bool accepts;

    wish.message = &message;
    wish.accept_deletes = true;
    lease_init(&lease, &wish);
    assert_int_equal(
        lease_acquire(&lease, &wish, &outcome, &err), LEASE_ACQUIRED);
    accepts = lease.run.accept_deletes;
    assert_ok(ledger_move(&lease.run, LEDGER_QUEUED, &err));
    assert_int_equal(lease_release(&lease, &err), LEASE_VALID);
    lease_done(&lease);
    return accepts;
}

/* The message was hidden while the run was executed. */
VIRTUAL_BENCH_TEST(a_message_sent_before_retry_accepts_no_deletes)
{
    int64_t sent_ticks = platform_wall_ticks();
    struct err err;

    leave_failed(bench);
    virtual_sleep(60000);
    assert_ok(control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        true, &retried, &err));
    assert_false(accepts_deletes_of(bench, sent_ticks));
    virtual_sleep(60000);
    assert_true(accepts_deletes_of(bench, platform_wall_ticks()));
}

/* It became `queued`, and its copy was deleted: no worker executed it, and
 * monitoring did not see it. */
VIRTUAL_BENCH_TEST(a_failed_run_without_its_job_stays_failed_with_its_copy)
{
    struct err err;

    leave_failed(bench);
    bench->jobs.count = 0;
    assert_int_equal(control_retry(&bench->definition, slice_of(JOB),
                         slice_of("r1"), true, &retried, &err),
        TW_NOT_FOUND);
    assert_true(retried.unserved);
    assert_non_null(strstr(err.text, "stays failed: job delete-channel is not "
                                     "in the configuration"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "failed");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 2);
}

/* Only `run` can execute the run. Cancelled, it needs the copy no more. */
VIRTUAL_BENCH_TEST(a_retried_run_that_no_queue_serves_keeps_its_copy)
{
    struct ledger_run *before = workbench_new_run(bench);
    struct err err;

    leave_failed(bench);
    bench->setup.queue_count = 0;
    assert_int_equal(control_retry(&bench->definition, slice_of(JOB),
                         slice_of("r1"), true, &retried, &err),
        TW_NOT_FOUND);
    assert_true(retried.unserved);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 2);
    assert_ok(control_cancel(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

VIRTUAL_BENCH_TEST(drop_takes_the_copy_and_leaves_the_reason)
{
    struct ledger_run *run;
    struct err err;

    leave_failed(bench);
    assert_ok(control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_CANCELLED);
    assert_true(slice_is(run->error, "no"));
    assert_true(run->finished_ticks == TICKS_1970 + 99);
    assert_int_equal(run->poison_id.len, 0);
}

/* It was said to be dropped, and the next retry of all ran it. */
VIRTUAL_BENCH_TEST(what_was_dropped_is_neither_retried_nor_dropped_again)
{
    struct err err;

    leave_failed(bench);
    assert_ok(control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err));
    assert_int_equal(control_retry(&bench->definition, slice_of(JOB),
                         slice_of("r1"), true, &retried, &err),
        TW_CONFLICT);
    assert_string_equal(err.text, "run delete-channel/r1 is cancelled");
    assert_int_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err),
        TW_CONFLICT);
    assert_string_equal(err.text, "run delete-channel/r1 is cancelled");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

BENCH_FAULT(fails_deletes)
{
    return call == BENCH_DELETE ? BENCH_FAIL : BENCH_PASS;
}

BENCH_FAULT(fails_batches)
{
    return call == BENCH_BATCH ? BENCH_FAIL : BENCH_PASS;
}

/* The ledger had forgotten a copy that was still in the poison queue, where
 * nothing would ever take it away. */
VIRTUAL_BENCH_TEST(a_drop_that_is_cut_off_can_be_asked_for_again)
{
    struct err err;

    leave_failed(bench);
    bench->fault = fails_deletes;
    assert_int_not_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err), TW_OK);
    bench->fault = fails_batches;
    assert_int_not_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err), TW_OK);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    bench->fault = NULL;
    assert_ok(control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* A message with that text is poisoned, of job as far as that could be told,
 * and retried: what is on the queue then is taken. */
static void retry_unread(struct workbench *bench, const char *job,
    const char *text, int64_t inserted_ticks, char id[QUEUE_ID_MAX + 1],
    struct messages *taken)
{
    struct lease_message message = {
        .queue = BENCH_QUEUE, .inserted_ticks = inserted_ticks};
    struct err err;

    (void)snprintf(
        id, QUEUE_ID_MAX + 1, "%s", workbench_put(bench, BENCH_QUEUE, text));
    message.sent_ms = workbench_take(bench, BENCH_QUEUE, taken);
    message.id = taken->list[0].id;
    message.pop_receipt = taken->list[0].pop_receipt;
    message.text = taken->list[0].text;
    assert_ok(poison_message(
        bench->store, job, &bench->queues[0], &message, 60, "no", &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_ok(control_retry(
        &bench->definition, slice_of(job), slice_of(id), true, &retried, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 0);
    assert_string_equal(workbench_state(bench, job, id), "cancelled");
    (void)workbench_take(bench, BENCH_QUEUE, taken);
}

VIRTUAL_BENCH_TEST(an_unreadable_message_is_put_back_as_it_was)
{
    struct messages taken;
    char id[QUEUE_ID_MAX + 1];

    messages_init(&taken);
    retry_unread(bench, LEDGER_UNREADABLE, "not json", TICKS_1970, id, &taken);
    assert_true(slice_is(taken.list[0].text, "not json"));
    messages_done(&taken);
}

#define CHANNEL_MESSAGE                                                        \
    "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"}"

/* Its request became one of now, so that a parent that was made since went;
 * and another run, so that one that had been done was done again. */
VIRTUAL_BENCH_TEST(a_retried_message_is_still_the_same_request)
{
    struct messages taken;
    char id[QUEUE_ID_MAX + 1], *expected;

    messages_init(&taken);
    retry_unread(bench, LEDGER_UNREADABLE, CHANNEL_MESSAGE "}",
        TICKS_1970 + 77 * TICKS_PER_S, id, &taken);
    expected = mem_format(CHANNEL_MESSAGE
        ",\"id\":\"%s\",\"at\":\"1970-01-01T00:01:17.0000000Z\"}",
        id);
    assert_true(slice_is(taken.list[0].text, expected));
    mem_free(expected);
    messages_done(&taken);
}

/* Its entity has the id: a run of that id would be cancelled already. */
VIRTUAL_BENCH_TEST(a_retried_message_of_a_known_job_gets_another_id)
{
    struct messages taken;
    char id[QUEUE_ID_MAX + 1];

    messages_init(&taken);
    retry_unread(bench, JOB, CHANNEL_MESSAGE "}", TICKS_1970 + 77 * TICKS_PER_S,
        id, &taken);
    assert_true(slice_is(taken.list[0].text,
        CHANNEL_MESSAGE ",\"at\":\"1970-01-01T00:01:17.0000000Z\"}"));
    messages_done(&taken);
}

VIRTUAL_BENCH_TEST(a_poisoned_message_that_comes_again_only_goes)
{
    struct lease_message message = {.queue = BENCH_QUEUE};
    struct messages taken;
    struct err err;

    messages_init(&taken);
    workbench_put(bench, BENCH_QUEUE, "not json");
    message.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
    message.id = taken.list[0].id;
    message.pop_receipt = taken.list[0].pop_receipt;
    message.text = taken.list[0].text;
    for (int i = 0; i < 2; i++)
        assert_ok(poison_message(bench->store, LEDGER_UNREADABLE,
            &bench->queues[0], &message, 60, "not JSON", &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    messages_done(&taken);
}

BENCH_FAULT(loses_first_batch)
{
    return call == BENCH_BATCH && n == 1 ? BENCH_LOSE_ANSWER : BENCH_PASS;
}

VIRTUAL_BENCH_TEST(a_lost_answer_is_read_back)
{
    struct ledger_run *before;
    struct err err;

    leave_failed(bench);
    bench->fault = loses_first_batch;
    assert_ok(control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        true, &retried, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    before = workbench_new_run(bench);
    assert_ok(control_cancel(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, &err));
}

/* ---- what the store says on the way ---- */

static bool is_there(struct workbench *bench, const char *id)
{
    struct ledger_run run;
    bool there;

    ledger_run_init(&run);
    there = workbench_run(bench, JOB, id, &run);
    ledger_run_done(&run);
    return there;
}

#define ALWAYS 1, UINT_MAX

static enum tw_err enqueue(struct workbench *bench, struct err *err)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    char id[129];

    return control_enqueue(bench->store, &order, id, err);
}

VIRTUAL_BENCH_TEST(where_no_ledger_can_be_made_nothing_is_enqueued)
{
    struct err err;

    workbench_meets(bench, BENCH_BATCH, ALWAYS, BENCH_GONE);
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_REFUSE);
    assert_int_equal(enqueue(bench, &err), TW_REFUSED);
    assert_string_equal(err.text, "the key is wrong");
    assert_int_equal(bench->calls[BENCH_PUT], 0);
}

VIRTUAL_BENCH_TEST(a_ledger_that_is_missing_is_made)
{
    struct err err;

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_GONE);
    assert_ok(enqueue(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

VIRTUAL_BENCH_TEST(a_queue_that_cannot_be_made_is_said)
{
    struct err err;

    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_REFUSE);
    assert_int_equal(enqueue(bench, &err), TW_REFUSED);
    assert_int_equal(bench->calls[BENCH_PUT], 1);
}

/* Made or not: it may be made again. */
VIRTUAL_BENCH_TEST(a_queue_whose_making_had_no_answer_is_made_again)
{
    static const enum bench_fault FAULTS[] = {
        BENCH_LOSE_REQUEST, BENCH_LOSE_ANSWER};
    struct err err;

    for (size_t i = 0; i < 2; i++) {
        struct control_enqueue order = what(bench, 0, football, NULL);
        char id[129];

        bench->queues[0].name = i == 0 ? "first" : "second";
        bench->fate_count = 0;
        workbench_meets(bench, BENCH_CREATE, 1, 1, FAULTS[i]);
        assert_ok(control_enqueue(bench->store, &order, id, &err));
        assert_int_equal(workbench_count(bench, bench->queues[0].name), 1);
    }
}

/* It had been told that it is refused, and a worker found its entity. */
VIRTUAL_BENCH_TEST(what_is_refused_is_not_in_the_ledger)
{
    struct err err;

    workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_REFUSE);
    assert_int_equal(enqueue(bench, &err), TW_REFUSED);
    assert_string_equal(err.text, "the key is wrong");
    assert_false(is_there(bench, "r1"));
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
    assert_ok(enqueue(bench, &err));
    workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_REFUSE);
    assert_int_equal(enqueue(bench, &err), TW_REFUSED);
    assert_string_equal(err.text, "the key is wrong");
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

VIRTUAL_BENCH_TEST(what_may_be_on_the_queue_stays_in_the_ledger)
{
    struct err err;

    workbench_meets(bench, BENCH_PUT, 2, UINT_MAX, BENCH_LOSE_ANSWER);
    assert_int_equal(enqueue(bench, &err), TW_UNKNOWN);
    assert_non_null(
        strstr(err.text, "with --id r1, which makes no second run"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_true(workbench_count(bench, BENCH_QUEUE) > 0);
}

/* A later try that was certainly not made says nothing about the first one. */
VIRTUAL_BENCH_TEST(what_one_try_may_have_put_stays_in_the_ledger)
{
    static const enum bench_fault LATER[] = {BENCH_FAIL, BENCH_REFUSE};
    struct err err;

    workbench_make_queue(bench, BENCH_QUEUE);
    for (size_t i = 0; i < 2; i++) {
        workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
        workbench_meets(bench, BENCH_PUT, 2, UINT_MAX, LATER[i]);
        assert_int_equal(enqueue(bench, &err), TW_UNKNOWN);
        assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
        assert_int_equal(workbench_count(bench, BENCH_QUEUE), i + 1);
        bench->fate_count = 0;
    }
}

/* Two messages of one id are one run; on a bound queue they are two. */
VIRTUAL_BENCH_TEST(a_message_that_names_its_run_is_put_again)
{
    struct control_enqueue order = what(bench, 1, football, NULL);
    struct err err;
    char id[129];

    workbench_meets(bench, BENCH_PUT, 2, 2, BENCH_LOSE_ANSWER);
    assert_ok(enqueue(bench, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
    bench->fate_count = 0;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_UNKNOWN);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 2);
}

static enum tw_err cancel(struct workbench *bench, struct err *err)
{
    struct ledger_run *before = workbench_new_run(bench);
    enum tw_err outcome;

    outcome = control_cancel(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, err);
    return outcome;
}

/* A service that is busy is there: a front end need not try again itself. */
VIRTUAL_BENCH_TEST(enqueue_waits_where_it_is_throttled)
{
    static const enum bench_call CALLS[] = {BENCH_GET, BENCH_BATCH, BENCH_PUT};
    struct err err;

    for (size_t i = 0; TEST_EACH(i, CALLS); i++)
        workbench_meets(bench, CALLS[i], 1, 5, BENCH_THROTTLE);
    assert_ok(enqueue(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    workbench_meets(bench, BENCH_GET, 1, 5, BENCH_THROTTLE);
    workbench_meets(bench, BENCH_BATCH, 1, 5, BENCH_THROTTLE);
    assert_ok(cancel(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
}

/* A closed port, or an address that is wrong: a person is told soon. */
VIRTUAL_BENCH_TEST(where_nothing_responds_it_is_said_within_three_seconds)
{
    int64_t began_ms = platform_boot_ms();
    struct err err;

    workbench_meets(bench, BENCH_GET, ALWAYS, BENCH_FAIL);
    assert_int_equal(cancel(bench, &err), TW_BUSY);
    assert_in_range(platform_boot_ms() - began_ms, 1, 3000);
}

VIRTUAL_BENCH_TEST(an_entity_that_cannot_be_withdrawn_is_said)
{
    struct err err;

    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    workbench_meets(bench, BENCH_BATCH, 2, 2, BENCH_FAIL);
    assert_int_equal(enqueue(bench, &err), TW_BUSY);
    assert_string_equal(err.text,
        "the store is down; the ledger still has run delete-channel/r1, so a "
        "worker may execute it: cancel it, or enqueue it again");
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
}

VIRTUAL_BENCH_TEST(a_message_over_64_kib_is_refused_before_anything_is_stored)
{
    char *channel = mem_format("%0*d", QUEUE_MAX_MESSAGE_BYTES, 0);
    struct slice value = slice_of(channel);
    struct control_enqueue order = what(bench, 0, &value, "r1");
    char id[QUEUE_ID_MAX + 1];
    struct err err;

    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_TOO_LARGE);
    assert_non_null(strstr(err.text, "a queue takes at most 64 KiB"));
    assert_int_equal(bench->calls[BENCH_BATCH], 0);
    mem_free(channel);
}

VIRTUAL_BENCH_TEST(an_entity_that_was_stored_without_an_answer_is_rung_for)
{
    struct err err;

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER);
    assert_ok(enqueue(bench, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
}

VIRTUAL_BENCH_TEST(without_an_entity_nothing_is_on_the_queue)
{
    struct err err;

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    workbench_meets(bench, BENCH_GET, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(enqueue(bench, &err), TW_UNKNOWN);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    bench->fate_count = 0;
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_CONFLICT);
    workbench_meets(bench, BENCH_GET, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(enqueue(bench, &err), TW_BUSY);
    assert_string_equal(err.text, "the store is down");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

/* Our own clock may be behind: the parent would pass for a new one. */
VIRTUAL_BENCH_TEST(without_the_service_s_clock_nothing_is_enqueued)
{
    int64_t began_ms = platform_boot_ms();
    struct err err;

    workbench_meets(bench, BENCH_GET, ALWAYS, BENCH_FAIL);
    assert_int_equal(enqueue(bench, &err), TW_BUSY);
    assert_string_equal(err.text, "the store is down");
    assert_in_range(platform_boot_ms() - began_ms, 0, 3000);
    assert_int_equal(bench->calls[BENCH_BATCH], 0);
}

VIRTUAL_BENCH_TEST(the_run_s_arguments_may_be_too_long_for_a_wake_up_message)
{
    struct ledger_run *run;
    struct buf args;
    struct err err;

    buf_init(&args, 2 * QUEUE_MAX_MESSAGE_BYTES);
    buf_add_text(&args, "{\"channel\":\"");
    while (args.len < QUEUE_MAX_MESSAGE_BYTES - 20)
        buf_add_text(&args, "\xe2\x82\xac");
    buf_add_text(&args, "\"}");
    run = workbench_new_run(bench);
    run->job = slice_of(JOB);
    run->id = slice_of("r1");
    run->state = LEDGER_PAUSED;
    run->args = buf_slice(&args);
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(control_resume(&bench->definition, slice_of(JOB),
                         slice_of("r1"), &resumed, &err),
        TW_TOO_LARGE);
    assert_non_null(
        strstr(err.text, "is queued, but its arguments are too long"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    buf_done(&args);
}

VIRTUAL_BENCH_TEST(a_bound_queue_s_entity_comes_after_its_message)
{
    struct control_enqueue order = what(bench, 1, football, NULL);
    struct messages taken;
    struct err err;
    char id[129];

    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(control_enqueue(bench->store, &order, id, &err), TW_BUSY);
    assert_int_equal(bench->ledger_writes, 0);
    bench->fate_count = 0;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    messages_init(&taken);
    (void)workbench_take(bench, BENCH_BOUND, &taken);
    assert_true(slice_is(taken.list[0].text, "Football"));
    messages_done(&taken);
    assert_string_equal(workbench_state(bench, JOB, id), "queued");
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_REFUSE);
    assert_int_equal(
        control_enqueue(bench->store, &order, id, &err), TW_REFUSED);
}

VIRTUAL_BENCH_TEST(a_cancel_that_was_lost_is_made_again)
{
    struct err err;

    assert_ok(enqueue(bench, &err));
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_ok(cancel(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
}

VIRTUAL_BENCH_TEST(a_cancel_of_which_nothing_is_known_says_so)
{
    struct err err;

    assert_ok(enqueue(bench, &err));
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    workbench_meets(bench, BENCH_GET, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(cancel(bench, &err), TW_BUSY);
    assert_string_equal(err.text, "the store is down");
}

VIRTUAL_BENCH_TEST(a_run_that_keeps_changing_is_said)
{
    struct err err;

    assert_ok(enqueue(bench, &err));
    workbench_meets(bench, BENCH_BATCH, ALWAYS, BENCH_CONFLICT);
    assert_int_equal(cancel(bench, &err), TW_BUSY);
    assert_non_null(strstr(err.text,
        "run delete-channel/r1 changed before each attempt to write it"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
}

/* Write the run in a state, as somebody else would. */
static void set_state(struct workbench *bench, enum ledger_state state)
{
    struct ledger_run *run = workbench_stored(bench, JOB, "r1");

    run->state = state;
    run->updated_ticks = TICKS_1970 + 5;
    assert_ok(workbench_store_run(bench, run));
}

BENCH_BETWEEN(cancel_before_us)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    set_state(bench, LEDGER_CANCELLED);
}

/* The same state, but not our write. */
VIRTUAL_BENCH_TEST(another_s_cancel_is_not_taken_for_ours)
{
    struct err err;

    assert_ok(enqueue(bench, &err));
    bench->between = cancel_before_us;
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(cancel(bench, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "run delete-channel/r1 is cancelled"));
}

static enum tw_err retry(struct workbench *bench, struct err *err)
{
    return control_retry(
        &bench->definition, slice_of(JOB), slice_of("r1"), true, &retried, err);
}

BENCH_BETWEEN(queue_before_us)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    set_state(bench, LEDGER_QUEUED);
}

/* A failed copy is not retried as a delete. */
VIRTUAL_BENCH_TEST(a_failed_run_of_another_kind_is_not_retried)
{
    struct ledger_run *run;
    struct err err;

    leave_failed(bench);
    run = workbench_stored(bench, JOB, "r1");
    run->kind = slice_of("copy");
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(retry(bench, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "is a scripted now, and was a copy"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "failed");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 2);
}

/* The other one may have failed before it put its message. */
VIRTUAL_BENCH_TEST(of_two_retries_at_once_each_puts_a_message)
{
    struct err err;

    leave_failed(bench);
    bench->between = queue_before_us;
    assert_ok(retry(bench, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

BENCH_BETWEEN(succeed_before_us)
{
    if (call != BENCH_BATCH)
        return;
    bench->between = NULL;
    set_state(bench, LEDGER_SUCCEEDED);
}

/* Another retry was first, and its run has ended. */
VIRTUAL_BENCH_TEST(a_run_that_succeeded_meanwhile_is_not_retried)
{
    struct err err;

    leave_failed(bench);
    bench->between = succeed_before_us;
    assert_int_equal(retry(bench, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "run delete-channel/r1 is succeeded"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

VIRTUAL_BENCH_TEST(a_retry_that_put_no_message_is_repeated)
{
    struct err err;

    leave_failed(bench);
    workbench_meets(bench, BENCH_PUT, 1, UINT_MAX, BENCH_FAIL);
    assert_int_equal(retry(bench, &err), TW_BUSY);
    assert_non_null(strstr(err.text, "repeat the command"));
    bench->fate_count = 0;
    assert_ok(retry(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

VIRTUAL_BENCH_TEST(a_queued_run_that_never_failed_is_not_retried)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    struct err err;
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
    assert_int_equal(retry(bench, &err), TW_CONFLICT);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

VIRTUAL_BENCH_TEST(a_copy_stays_while_its_wake_up_could_not_be_put)
{
    struct err err;

    leave_failed(bench);
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(retry(bench, &err), TW_BUSY);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 2);
}

VIRTUAL_BENCH_TEST(deleting_a_copy_is_tried_twice)
{
    struct err err;

    leave_failed(bench);
    workbench_meets(bench, BENCH_DELETE, 1, 1, BENCH_FAIL);
    assert_ok(retry(bench, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

/* A run as the ledger may have it: fields of the copy are missing. */
static void leave_without_copy(struct workbench *bench, const char *queue,
    const char *poison_id, const char *args)
{
    struct ledger_run *run = workbench_new_run(bench);

    run->job = slice_of(JOB);
    run->id = slice_of("r1");
    run->state = args[0] ? LEDGER_FAILED : LEDGER_POISONED;
    run->args = slice_of(args);
    run->queue = slice_of(queue);
    run->poison_id = slice_of(poison_id);
    assert_ok(workbench_store_run(bench, run));
}

#define ARGS "{\"channel\":\"Football\"}"

/* Loss 10: `run` began it, and its retry put a message nowhere. */
VIRTUAL_BENCH_TEST(a_run_that_no_message_began_gets_one_from_retry)
{
    struct err err;

    leave_without_copy(bench, "", "", ARGS);
    assert_ok(retry(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE) +
                         workbench_count(bench, BENCH_BOUND),
        1);
    assert_int_equal(bench->calls[BENCH_DELETE], 0);
}

VIRTUAL_BENCH_TEST(where_no_queue_serves_it_retry_names_the_command)
{
    struct err err;

    leave_without_copy(bench, "", "", ARGS);
    bench->setup.queue_count = 0;
    assert_int_equal(retry(bench, &err), TW_NOT_FOUND);
    assert_true(retried.unserved);
    assert_non_null(strstr(err.text, "run delete-channel --id r1"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
}

VIRTUAL_BENCH_TEST(a_copy_whose_receipt_is_not_known_stays)
{
    struct err err;

    leave_without_copy(bench, BENCH_QUEUE, "an-id", ARGS);
    assert_ok(retry(bench, &err));
    assert_int_equal(bench->calls[BENCH_DELETE], 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

VIRTUAL_BENCH_TEST(what_is_not_poisoned_is_not_dropped)
{
    struct err err;

    assert_ok(enqueue(bench, &err));
    assert_int_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err),
        TW_CONFLICT);
    assert_string_equal(err.text, "run delete-channel/r1 is queued");
    assert_int_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r2"), &err),
        TW_NOT_FOUND);
}

BENCH_BETWEEN(queue_before_the_copy_goes)
{
    if (call != BENCH_DELETE)
        return;
    bench->between = NULL;
    set_state(bench, LEDGER_QUEUED);
}

VIRTUAL_BENCH_TEST(a_run_that_is_retried_meanwhile_is_not_dropped)
{
    struct err err;

    leave_failed(bench);
    bench->between = queue_before_the_copy_goes;
    assert_int_equal(
        control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err),
        TW_CONFLICT);
    assert_string_equal(err.text, "run delete-channel/r1 is queued");
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
}

VIRTUAL_BENCH_TEST(a_copy_whose_queue_is_gone_is_dropped)
{
    struct err err;

    leave_failed(bench);
    workbench_meets(bench, BENCH_DELETE, 1, 1, BENCH_GONE);
    assert_ok(control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
}

VIRTUAL_BENCH_TEST(an_unreadable_message_without_its_copy_is_left_as_it_is)
{
    struct err err;

    leave_without_copy(bench, BENCH_QUEUE, "an-id", "");
    assert_int_equal(retry(bench, &err), TW_NOT_FOUND); /* no such queue */
    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    assert_int_equal(retry(bench, &err), TW_INVALID);
    assert_non_null(strstr(
        err.text, "is not among the first 32 messages of queue work-poison"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "poisoned");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

VIRTUAL_BENCH_TEST(an_unreadable_message_that_cannot_be_put_back_stays)
{
    const char *id;
    struct err err;

    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    id = workbench_put(bench, BENCH_QUEUE "-poison", CHANNEL_MESSAGE "}");
    leave_without_copy(bench, BENCH_QUEUE, id, "");
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(retry(bench, &err), TW_BUSY);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "poisoned");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 2);
    bench->fate_count = 0;
    assert_ok(retry(bench, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
}

/* Its queue was renamed in the configuration. */
VIRTUAL_BENCH_TEST(an_unreadable_message_is_put_back_where_a_worker_is)
{
    struct err err;
    const char *id = workbench_put(bench, "former-poison",
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Football\"}}");

    leave_without_copy(bench, "former", id, "");
    assert_ok(retry(bench, &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_int_equal(workbench_count(bench, "former"), 0);
    assert_int_equal(workbench_count(bench, "former-poison"), 1);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
}

VIRTUAL_BENCH_TEST(
    a_message_that_no_served_queue_takes_stays_in_the_poison_queue)
{
    struct err err;
    const char *id = workbench_put(bench, "former-poison", "Football");

    leave_without_copy(bench, "former", id, "");
    for (size_t count = 2; count-- > 0;) {
        bench->setup.queue_count = count;
        assert_int_equal(retry(bench, &err), TW_NOT_FOUND);
        assert_true(retried.unserved);
        assert_non_null(strstr(err.text, "bind queue former so again"));
    }
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, "former"), 0);
    assert_int_equal(workbench_count(bench, "former-poison"), 1);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "poisoned");
}

/* ---- a refused message whose queue is bound differently since ---- */

/* How a queue is bound. */
enum bound { FREE, CHANNEL_TEXT, CHANNEL_BASE64, OTHER };

static void bind_queue(
    struct workbench *bench, size_t index, struct job *other, enum bound bound)
{
    struct setup_queue *queue = &bench->queues[index];

    queue->job = bound == FREE ? NULL : bound == OTHER ? other : &bench->job;
    queue->base64 = bound == CHANNEL_BASE64;
}

struct rebinding {
    const char *name;
    enum bound was;        /* queue "work" when the message was refused */
    enum bound now, other; /* queues "work" and "channels" at the retry */
    const char *job;       /* whose entity the message got; NULL: "-" */
    const char *body;
    const char *to;   /* where the message is then; NULL: it stays */
    const char *said; /* with to: its text; else a part of the reason */
    bool former;      /* the entity is of a version without Binding */
};

#define JSON_BODY CHANNEL_MESSAGE "}"
#define RETOLD_AT CHANNEL_MESSAGE ",\"at\":\"1970-01-01T00:00:05.0000000Z\"}"
#define JSON_BASE64                                                            \
    "eyJqb2IiOiJkZWxldGUtY2hhbm5lbCIsImFyZ3MiOnsiY2hhbm5lbCI6IkZv"             \
    "b3RiYWxsIn19"
/* The arguments of a run that a refused argument becomes. */
#define ARGUMENT(text) "{\"channel\":\"" text "\"}"
#define JSON_BODY_AS_ARGUMENT                                                  \
    ARGUMENT("{\\\"job\\\":\\\"delete-channel\\\",\\\"args\\\":{"              \
             "\\\"channel\\\":\\\"Football\\\"}}")
#define NO_JOB "the ledger does not say for which job it was"
#define NO_FREE "no queue in `queues` is without a job"
#define AS_TEXT "was bound to job delete-channel with encoding text"
#define AS_BASE64 "was bound to job delete-channel with encoding base64"

static const struct rebinding rebindings[] = {
    {"JSON, its queue is bound now", FREE, OTHER, FREE, JOB, JSON_BODY,
        BENCH_BOUND, RETOLD_AT, false},
    {"JSON, its queue is bound to its job now", FREE, CHANNEL_TEXT, FREE, JOB,
        JSON_BODY, BENCH_BOUND, RETOLD_AT, false},
    {"JSON, all queues are bound now", FREE, OTHER, CHANNEL_TEXT, JOB,
        JSON_BODY, NULL, NO_FREE, false},
    {"JSON that would be refused again", FREE, OTHER, FREE, NULL,
        "{\"job\":\"purge\"}", NULL, "unknown job 'purge'", false},
    {"no JSON, its queue is as before", FREE, FREE, CHANNEL_TEXT, NULL,
        "Football", BENCH_QUEUE, "Football", false},
    {"no JSON, its queue is bound now", FREE, CHANNEL_TEXT, CHANNEL_TEXT, NULL,
        "Football", NULL, NO_JOB, false},
    {"an argument, its queue is as before", CHANNEL_TEXT, CHANNEL_TEXT, FREE,
        JOB, JSON_BODY, BENCH_QUEUE, JSON_BODY_AS_ARGUMENT, false},
    {"an argument, its queue has another job", CHANNEL_TEXT, OTHER, FREE, JOB,
        "Football", NULL, AS_TEXT, false},
    {"an argument, another queue has its job", CHANNEL_TEXT, OTHER,
        CHANNEL_TEXT, JOB, "Football", BENCH_BOUND, ARGUMENT("Football"),
        false},
    {"an argument, another queue has its job, in base64", CHANNEL_TEXT, OTHER,
        CHANNEL_BASE64, JOB, "Football", NULL, AS_TEXT, false},
    {"an argument, no queue is bound", CHANNEL_TEXT, FREE, FREE, JOB,
        "Football", NULL, AS_TEXT, false},
    {"an argument of another job", OTHER, CHANNEL_TEXT, CHANNEL_TEXT,
        "archive-user", "Football", NULL, "was bound to job archive-user",
        false},
    {"an argument, base64 since", CHANNEL_TEXT, CHANNEL_BASE64, FREE, JOB,
        "Football", NULL, AS_TEXT, false},
    {"an argument in base64, text since", CHANNEL_BASE64, CHANNEL_TEXT, FREE,
        JOB, "Rm9vdGJhbGw=", NULL, AS_BASE64, false},
    {"no base64, text since", CHANNEL_BASE64, CHANNEL_TEXT, FREE, JOB,
        "Foot ball!", BENCH_QUEUE, ARGUMENT("Foot ball!"), false},
    {"no base64, not even now", CHANNEL_BASE64, CHANNEL_BASE64, FREE, JOB,
        JSON_BODY, BENCH_QUEUE, JSON_BODY, false},
    {"a request that was an argument, its queue is free now", CHANNEL_TEXT,
        FREE, FREE, JOB, JSON_BODY, BENCH_QUEUE, RETOLD_AT, false},
    {"former: JSON, its queue is bound now", FREE, CHANNEL_TEXT, FREE, JOB,
        JSON_BODY, BENCH_BOUND, RETOLD_AT, true},
    {"former: JSON, all queues are bound now", FREE, CHANNEL_TEXT, CHANNEL_TEXT,
        JOB, JSON_BODY, NULL, NO_FREE, true},
    {"former: JSON in base64, all queues are bound now", FREE, CHANNEL_TEXT,
        CHANNEL_TEXT, JOB, JSON_BASE64, NULL, NO_FREE, true},
    {"former: no JSON, its queue is bound now", FREE, CHANNEL_TEXT, FREE, NULL,
        "Football", NULL, NO_JOB, true},
    {"former: an argument, its queue has its job", CHANNEL_TEXT, CHANNEL_TEXT,
        FREE, JOB, "Football", BENCH_QUEUE, ARGUMENT("Football"), true},
    {"former: an argument, its queue has another job", CHANNEL_TEXT, OTHER,
        FREE, JOB, "Football", NULL, "was bound to job delete-channel", true},
    {"former: an argument, another queue has its job", CHANNEL_TEXT, OTHER,
        CHANNEL_TEXT, JOB, "Football", NULL, "was bound to job delete-channel",
        true},
};

/* A message of queue "work" is refused. */
static void leave_refused(struct workbench *bench,
    const struct rebinding *rebinding, char id[QUEUE_ID_MAX + 1])
{
    const char *job = rebinding->job ? rebinding->job : LEDGER_UNREADABLE;
    struct lease_message message = {
        .queue = BENCH_QUEUE, .inserted_ticks = TICKS_1970 + 5 * TICKS_PER_S};
    struct ledger_run *run;
    struct messages taken;
    struct err err;

    messages_init(&taken);
    (void)snprintf(id, QUEUE_ID_MAX + 1, "%s",
        workbench_put(bench, BENCH_QUEUE, rebinding->body));
    message.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
    message.id = taken.list[0].id;
    message.pop_receipt = taken.list[0].pop_receipt;
    message.text = taken.list[0].text;
    assert_ok(poison_message(
        bench->store, job, &bench->queues[0], &message, 60, "no", &err));
    messages_done(&taken);
    if (!rebinding->former)
        return;
    run = workbench_stored(bench, job, id);
    run->binding = (struct slice){0};
    assert_ok(workbench_store_run(bench, run));
}

/* The entity of a refused argument is the run now, requested when its message
 * was put. */
static void expect_run(struct workbench *bench, const char *id,
    const char *args, struct slice text)
{
    const struct ledger_run *run = workbench_stored(bench, JOB, id);

    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_int_equal(run->requested_ticks, TICKS_1970 + 5 * TICKS_PER_S);
    assert_true(slice_is(run->args, args));
    assert_true(
        message_is_of(text, slice_of(JOB), slice_of(id), slice_of(args)));
}

static void expect_retried(
    struct workbench *bench, const struct rebinding *rebinding, const char *id)
{
    const char *job = rebinding->job ? rebinding->job : LEDGER_UNREADABLE;
    bool runs = strncmp(rebinding->said, "{\"channel\"", 10) == 0;
    struct messages taken;
    struct err err = {""};
    enum tw_err outcome = control_retry(
        &bench->definition, slice_of(job), slice_of(id), true, &retried, &err);

    assert_int_equal(outcome, rebinding->to ? TW_OK : TW_NOT_FOUND);
    assert_int_equal(retried.unserved, rebinding->to == NULL);
    assert_string_equal(workbench_state(bench, job, id), runs ? "queued"
                                                         : rebinding->to
                                                             ? "cancelled"
                                                             : "poisoned");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE) +
                         workbench_count(bench, BENCH_BOUND),
        rebinding->to ? 1 : 0);
    assert_int_equal(
        workbench_count(bench, BENCH_QUEUE "-poison"), rebinding->to ? 0 : 1);
    if (!rebinding->to) {
        assert_non_null(strstr(err.text, rebinding->said));
        assert_ok(
            control_drop(bench->store, slice_of(job), slice_of(id), &err));
        return;
    }
    messages_init(&taken);
    (void)workbench_take(bench, rebinding->to, &taken);
    if (runs)
        expect_run(bench, id, rebinding->said, taken.list[0].text);
    else
        assert_true(slice_is(taken.list[0].text, rebinding->said));
    assert_ok(store_queue_delete(bench->store, &(struct exchange){0},
        rebinding->to, taken.list[0].id, taken.list[0].pop_receipt));
    messages_done(&taken);
}

VIRTUAL_BENCH_TEST(a_refused_message_is_only_read_again_as_it_was_read)
{
    struct job other = bench->job;
    char id[QUEUE_ID_MAX + 1];

    other.name = "archive-user";
    for (size_t i = 0; i < sizeof(rebindings) / sizeof(*rebindings); i++) {
        test_case("%s", rebindings[i].name);
        bind_queue(bench, 0, &other, rebindings[i].was);
        leave_refused(bench, &rebindings[i], id);
        bind_queue(bench, 0, &other, rebindings[i].now);
        bind_queue(bench, 1, &other, rebindings[i].other);
        expect_retried(bench, &rebindings[i], id);
    }
}

/* ---- pause, resume, finish ---- */

/* A run of that state, with an owner whose lease is live (or not). */
static void leave_run(struct workbench *bench, enum ledger_state run_state,
    const char *waits_for, bool live)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->state = run_state;
    run->definition = slice_of("0123456789abcdef");
    run->waits_for = slice_of(waits_for);
    if (run_state == LEDGER_RUNNING)
        run->owner = slice_of("somebody");
    run->lease_until_ticks =
        platform_wall_ticks() + (live ? 60 : -60) * TICKS_PER_S;
    run->resumes_ticks = run_state == LEDGER_WAITING
                             ? platform_wall_ticks() + 3600 * TICKS_PER_S
                             : 0;
    assert_ok(workbench_store_run(bench, run));
}

#define OTHER_HASH "fedcba9876543210"

/* A run that an attempt held, because the job's definition had changed. */
static void leave_held(struct workbench *bench)
{
    struct ledger_run *run;

    leave_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_DEFINITION, false);
    run = workbench_stored(bench, JOB, "r1");
    run->definition = slice_of("!" OTHER_HASH ":"
                               "0123456789abcdef");
    assert_ok(workbench_store_run(bench, run));
}

typedef enum tw_err asking_function(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err);

static enum tw_err ask(
    struct workbench *bench, asking_function *function, struct err *err)
{
    struct ledger_run *before;
    enum tw_err outcome;

    asked = false;
    before = workbench_new_run(bench);
    outcome = function(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, err);
    return outcome;
}

static void expect_control(struct workbench *bench, const char *control)
{
    struct ledger_run *run = workbench_stored(bench, JOB, "r1");

    assert_true(slice_is(run->control, control));
}

static int64_t messages(struct workbench *bench)
{
    return workbench_count(bench, BENCH_QUEUE) +
           workbench_count(bench, BENCH_BOUND);
}

static enum tw_err resume(struct workbench *bench, struct err *err)
{
    return control_resume(
        &bench->definition, slice_of(JOB), slice_of("r1"), &resumed, err);
}

/* A run of a queue that is not served any more. */
static void strand_run(struct workbench *bench, enum ledger_state run_state,
    const char *waits_for, bool live)
{
    struct ledger_run *run;

    leave_run(bench, run_state, waits_for, live);
    run = workbench_stored(bench, JOB, "r1");
    run->queue = slice_of("old");
    assert_ok(workbench_store_run(bench, run));
}

/* `resume` said "is waiting", and the parent stayed half deleted. */
VIRTUAL_BENCH_TEST(a_run_of_a_renamed_queue_is_moved)
{
    struct ledger_run *run;
    struct messages taken;
    struct err err;

    strand_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, false);
    assert_ok(resume(bench, &err));
    assert_non_null(resumed.moved_to);
    assert_string_equal(resumed.moved_to->name, BENCH_BOUND);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_WAITING);
    assert_true(slice_is(run->queue, BENCH_BOUND));
    assert_true(run->resumes_ticks > platform_wall_ticks());
    assert_true(run->message_until_ticks >= run->resumes_ticks);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 1);
    messages_init(&taken);
    assert_ok(store_queue_get(
        bench->store, &(struct exchange){0}, BENCH_BOUND, 1, 30, &taken));
    assert_int_equal(taken.count, 0); /* hidden until the run continues */
    messages_done(&taken);
    /* On its new queue it waits as any other run. */
    assert_int_equal(resume(bench, &err), TW_CONFLICT);
    assert_null(resumed.moved_to);
    assert_non_null(strstr(err.text, "is waiting"));
}

VIRTUAL_BENCH_TEST(a_run_of_a_renamed_queue_is_moved_in_each_state)
{
    static const struct {
        enum ledger_state before, after;
        const char *waits_for;
    } states[] = {
        {LEDGER_QUEUED, LEDGER_QUEUED, ""},
        {LEDGER_RUNNING, LEDGER_RUNNING, ""},
        {LEDGER_PAUSED, LEDGER_QUEUED, ""},
        {LEDGER_WAITING, LEDGER_QUEUED, LEDGER_WAITS_FOR_DEFINITION},
    };
    struct ledger_run *run;
    struct err err;

    strand_run(bench, LEDGER_QUEUED, "", false);
    for (size_t i = 0; TEST_EACH(i, states); i++) {
        run = workbench_stored(bench, JOB, "r1");
        run->state = states[i].before;
        run->waits_for = slice_of(states[i].waits_for);
        run->queue = slice_of("old");
        assert_ok(workbench_store_run(bench, run));
        assert_ok(resume(bench, &err));
        run = workbench_stored(bench, JOB, "r1");
        assert_int_equal(run->state, states[i].after);
        assert_true(slice_is(run->queue, BENCH_BOUND));
        assert_int_equal(workbench_count(bench, BENCH_BOUND), (int)i + 1);
    }
}

VIRTUAL_BENCH_TEST(a_run_of_a_renamed_queue_is_left_to_its_live_owner)
{
    struct err err;

    strand_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(ask(bench, control_pause, &err));
    expect_control(bench, LEDGER_CONTROL_PAUSE);
    for (int i = 0; i < 2; i++) {
        assert_ok(resume(bench, &err));
        assert_null(resumed.moved_to);
        expect_control(bench, "");
    }
    assert_true(slice_is(workbench_stored(bench, JOB, "r1")->queue, "old"));
    assert_int_equal(messages(bench), 0);
}

VIRTUAL_BENCH_TEST(the_message_of_a_moved_run_cannot_be_put)
{
    struct err err;

    strand_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, false);
    workbench_meets(bench, BENCH_PUT, 1, UINT_MAX, BENCH_REFUSE);
    assert_int_equal(resume(bench, &err), TW_REFUSED);
    assert_non_null(strstr(err.text,
        "could not be put; a worker of its queue finds the run within ten "
        "minutes"));
}

VIRTUAL_BENCH_TEST(the_owner_of_a_live_lease_is_asked)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(ask(bench, control_pause, &err));
    assert_true(asked);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "running");
    expect_control(bench, "pause");
    assert_ok(ask(bench, control_pause, &err));
    assert_ok(ask(bench, control_cancel, &err));
    assert_true(asked);
    expect_control(bench, "cancel");
    /* To be cancelled is more than to be paused. */
    assert_int_equal(ask(bench, control_pause, &err), TW_CONFLICT);
    expect_control(bench, "cancel");
}

VIRTUAL_BENCH_TEST(without_a_live_lease_it_is_done_at_once)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", false);
    assert_ok(ask(bench, control_pause, &err));
    assert_false(asked);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "paused");
    assert_ok(ask(bench, control_pause, &err));
    assert_ok(ask(bench, control_cancel, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
    assert_int_equal(ask(bench, control_pause, &err), TW_CONFLICT);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 1);
}

VIRTUAL_BENCH_TEST(a_paused_run_is_resumed_with_a_message)
{
    struct err err;

    leave_run(bench, LEDGER_PAUSED, "", false);
    assert_ok(resume(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(messages(bench), 1);
}

/* After a night its rate would be a part of what it is. */
VIRTUAL_BENCH_TEST(the_time_of_a_pause_is_not_that_of_the_work)
{
    struct ledger_run *run;
    struct err err;

    leave_run(bench, LEDGER_PAUSED, "", false);
    run = workbench_stored(bench, JOB, "r1");
    run->started_ticks = platform_wall_ticks() - 500 * TICKS_PER_S;
    run->updated_ticks = platform_wall_ticks() - 400 * TICKS_PER_S;
    run->idle_s = 7;
    assert_ok(workbench_store_run(bench, run));
    assert_ok(resume(bench, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_in_range(run->idle_s, 406, 408);
    /* The time in the queue is added, and the time of the pause not again. */
    virtual_sleep(50000);
    assert_ok(ask(bench, control_pause, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_in_range(run->idle_s, 456, 459);
}

VIRTUAL_BENCH_TEST(a_resume_that_put_no_message_is_repeated)
{
    struct err err;

    leave_run(bench, LEDGER_PAUSED, "", false);
    workbench_meets(bench, BENCH_PUT, 1, UINT_MAX, BENCH_FAIL);
    assert_int_equal(resume(bench, &err), TW_BUSY);
    assert_non_null(strstr(err.text, "repeat the command"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    bench->fate_count = 0;
    assert_ok(resume(bench, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(messages(bench), 1);
    bench->setup.queue_count = 0;
    assert_int_equal(resume(bench, &err), TW_NOT_FOUND);
    assert_true(resumed.unserved);
}

static void expect_hidden(struct workbench *bench)
{
    struct exchange exchange = {0};
    struct messages taken;

    messages_init(&taken);
    assert_ok(
        store_queue_get(bench->store, &exchange, BENCH_QUEUE, 1, 30, &taken));
    assert_int_equal(taken.count, 0);
    messages_done(&taken);
}

VIRTUAL_BENCH_TEST(a_run_that_was_to_begin_later_still_does_after_resume)
{
    struct control_enqueue order = what(bench, 0, football, "r1");
    int64_t begins_ticks;
    struct err err;
    char id[129];

    order.delay_s = 300;
    assert_ok(control_enqueue(bench->store, &order, id, &err));
    begins_ticks = workbench_stored(bench, JOB, "r1")->resumes_ticks;
    for (int i = 0; i < 2; i++) {
        assert_ok(ask(bench, control_pause, &err));
        virtual_sleep(10000);
        assert_ok(resume(bench, &err));
        assert_ok(resume(bench, &err));
        assert_true(
            workbench_stored(bench, JOB, "r1")->resumes_ticks == begins_ticks);
    }
    expect_hidden(bench);
    assert_int_equal(messages(bench), 5);
    /* Its time comes while it is paused. */
    assert_ok(ask(bench, control_pause, &err));
    virtual_sleep(300000);
    assert_ok(resume(bench, &err));
    assert_true(workbench_stored(bench, JOB, "r1")->resumes_ticks == 0);
}

/* A worker is to complete a load of it before (move). */
VIRTUAL_BENCH_TEST(a_queued_run_that_is_being_cancelled_is_not_resumed)
{
    struct ledger_run *run = workbench_football(bench, "r1");
    struct err err;

    run->control = slice_of(LEDGER_CONTROL_CANCEL);
    run->attempt = 1;
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(resume(bench, &err), TW_CONFLICT);
    assert_string_equal(err.text, "run delete-channel/r1 is being cancelled");
    assert_int_equal(retry(bench, &err), TW_CONFLICT);
    assert_int_equal(messages(bench), 0);
}

/* A worker has taken the run before the command was repeated. */
VIRTUAL_BENCH_TEST(resume_of_a_run_at_work_changes_nothing)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(resume(bench, &err));
    assert_int_equal(messages(bench), 0);
    assert_ok(ask(bench, control_cancel, &err));
    assert_int_equal(resume(bench, &err), TW_CONFLICT);
    expect_control(bench, LEDGER_CONTROL_CANCEL);
}

VIRTUAL_BENCH_TEST(a_run_of_another_kind_is_not_resumed)
{
    struct ledger_run *run;
    struct err err;

    leave_run(bench, LEDGER_PAUSED, "", false);
    run = workbench_stored(bench, JOB, "r1");
    run->kind = slice_of("copy");
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(resume(bench, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "is a scripted now, and was a copy"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "paused");
    assert_int_equal(messages(bench), 0);
}

VIRTUAL_BENCH_TEST(where_no_queue_serves_it_it_stays_paused)
{
    struct err err;

    leave_run(bench, LEDGER_PAUSED, "", false);
    bench->setup.queue_count = 0;
    assert_int_equal(resume(bench, &err), TW_NOT_FOUND);
    assert_true(resumed.unserved);
    assert_non_null(strstr(err.text, "run delete-channel --id r1"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "paused");
}

VIRTUAL_BENCH_TEST(a_pause_that_was_not_seen_yet_is_taken_back)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(ask(bench, control_pause, &err));
    assert_ok(resume(bench, &err));
    expect_control(bench, "");
    assert_int_equal(messages(bench), 0);
}

/* The owner was killed before it saw the pause: nothing acts on it until the
 * run is taken over, and `resume` is the last word. */
VIRTUAL_BENCH_TEST(a_pause_that_a_dead_owner_never_saw_is_taken_back)
{
    struct ledger_run *run;
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(ask(bench, control_pause, &err));
    run = workbench_stored(bench, JOB, "r1");
    run->lease_until_ticks = platform_wall_ticks() - TICKS_PER_S;
    assert_ok(workbench_store_run(bench, run));
    expect_control(bench, LEDGER_CONTROL_PAUSE);
    bench->setup.queue_count = 0;
    assert_int_equal(resume(bench, &err), TW_NOT_FOUND);
    assert_true(resumed.unserved);
    expect_control(bench, LEDGER_CONTROL_PAUSE);
    bench->setup.queue_count = 1;
    assert_int_equal(messages(bench), 0);
    assert_ok(resume(bench, &err));
    expect_control(bench, "");
    assert_string_equal(workbench_state(bench, JOB, "r1"), "running");
    assert_int_equal(messages(bench), 1);
    assert_ok(resume(bench, &err)); /* as if no message was put */
    assert_int_equal(messages(bench), 2);
}

VIRTUAL_BENCH_TEST(resume_accepts_a_changed_definition)
{
    struct ledger_run *run;
    struct err err;

    leave_held(bench);
    run = workbench_stored(bench, JOB, "r1");
    run->accept_deletes = true; /* under the former definition */
    assert_ok(workbench_store_run(bench, run));
    memcpy(bench->job.hash, OTHER_HASH, 16);
    assert_ok(resume(bench, &err));
    assert_true(resumed.accepts);
    assert_false(resumed.will_be_held);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_false(run->accept_deletes);
    assert_true(slice_is(run->definition, "?" OTHER_HASH ":"
                                          "0123456789abcdef"));
    assert_true(run->resumes_ticks == 0);
    assert_int_equal(messages(bench), 1);
}

/* The message was hidden while the run was held. */
VIRTUAL_BENCH_TEST(
    a_message_sent_under_the_former_definition_accepts_no_deletes)
{
    int64_t sent_ticks = platform_wall_ticks();
    struct err err;

    leave_held(bench);
    memcpy(bench->job.hash, OTHER_HASH, 16);
    virtual_sleep(60000);
    assert_ok(resume(bench, &err));
    assert_true(resumed.accepts);
    assert_false(accepts_deletes_of(bench, sent_ticks));
    virtual_sleep(60000);
    assert_true(accepts_deletes_of(bench, platform_wall_ticks()));
}

/* A worker that has not read the restored definition yet would carry out the
 * other one. */
VIRTUAL_BENCH_TEST(resume_under_a_restored_definition_accepts_nothing)
{
    struct ledger_run *run;
    struct err err;

    leave_held(bench);
    assert_ok(resume(bench, &err));
    assert_false(resumed.accepts || resumed.will_be_held);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_true(slice_is(run->definition, "!" OTHER_HASH ":"
                                          "0123456789abcdef"));
}

/* The person has not read yet that the job would delete something else. */
VIRTUAL_BENCH_TEST(resume_of_a_paused_run_accepts_no_changed_definition)
{
    struct ledger_run *run;
    struct err err;

    memcpy(bench->job.hash, OTHER_HASH, 16);
    leave_run(bench, LEDGER_PAUSED, "", false);
    for (int i = 0; i < 2; i++) {
        assert_ok(resume(bench, &err));
        assert_true(resumed.will_be_held);
        assert_false(resumed.accepts);
        run = workbench_stored(bench, JOB, "r1");
        assert_int_equal(run->state, LEDGER_QUEUED);
        assert_true(slice_is(run->definition, "0123456789abcdef"));
    }
}

/* Whether the definition has changed is not known here. */
VIRTUAL_BENCH_TEST(resume_says_nothing_of_a_job_with_an_unset_variable)
{
    struct err err;

    memcpy(bench->job.hash, OTHER_HASH, 16);
    bench->job.unset = "MONTH";
    leave_run(bench, LEDGER_PAUSED, "", false);
    assert_ok(resume(bench, &err));
    assert_false(resumed.will_be_held);
}

/* Else `run` would say that `resume` is needed, and `resume` that `run` is. */
VIRTUAL_BENCH_TEST(a_definition_is_accepted_also_if_no_queue_serves_the_run)
{
    struct ledger_run *run;
    struct err err;

    bench->setup.queue_count = 0;
    leave_held(bench);
    memcpy(bench->job.hash, OTHER_HASH, 16);
    assert_int_equal(resume(bench, &err), TW_NOT_FOUND);
    assert_true(resumed.unserved && resumed.accepts);
    assert_non_null(strstr(err.text, "run delete-channel --id r1"));
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_WAITING);
    assert_true(run->resumes_ticks == 0);
    assert_true(slice_is(run->definition, "?" OTHER_HASH ":"
                                          "0123456789abcdef"));

    run->state = LEDGER_PAUSED; /* `run` has refused it */
    run->definition = slice_of("!" OTHER_HASH ":"
                               "0123456789abcdef");
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(resume(bench, &err), TW_NOT_FOUND);
    assert_true(resumed.unserved && resumed.accepts);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_PAUSED);
    assert_true(slice_is(run->definition, "?" OTHER_HASH ":"
                                          "0123456789abcdef"));
    assert_int_equal(messages(bench), 0);
}

/* Leave a failed run that began under another definition. */
static void leave_changed(struct workbench *bench, const char *definition)
{
    struct ledger_run *run;

    memcpy(bench->job.hash, OTHER_HASH, 16);
    leave_failed(bench);
    run = workbench_stored(bench, JOB, "r1");
    run->definition = slice_of(definition);
    assert_ok(workbench_store_run(bench, run));
}

static enum tw_err retry_of_many(struct workbench *bench, struct err *err)
{
    return control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        false, &retried, err);
}

VIRTUAL_BENCH_TEST(retry_accepts_a_changed_definition_and_says_so)
{
    struct err err;

    leave_changed(bench, "0123456789abcdef");
    assert_ok(retry(bench, &err));
    assert_true(retried.changed);
    assert_true(slice_is(workbench_stored(bench, JOB, "r1")->definition,
        "~" OTHER_HASH ":"
        "0123456789abcdef"));
}

VIRTUAL_BENCH_TEST(retry_of_many_leaves_a_run_whose_definition_has_changed)
{
    struct err err;

    leave_changed(bench, "0123456789abcdef");
    assert_int_equal(retry_of_many(bench, &err), TW_CONFLICT);
    assert_true(retried.changed);
    assert_non_null(strstr(err.text,
        "the definition of job delete-channel has changed since run r1 began: "
        "restore it, or accept the new one with `poison retry r1`"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "failed");
    memcpy(bench->job.hash, "0123456789abcdef", 16); /* restored */
    assert_ok(retry_of_many(bench, &err));
    assert_false(retried.changed);
}

VIRTUAL_BENCH_TEST(retry_of_many_takes_a_run_to_whose_job_rules_were_added)
{
    struct err err;

    bench->job.parts = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb";
    leave_changed(bench, "0123456789abcdef/aaaaaaaaaaaaaaaa");
    assert_ok(retry_of_many(bench, &err));
    assert_true(retried.changed);
    assert_true(slice_is(workbench_stored(bench, JOB, "r1")->definition,
        "0123456789abcdef/aaaaaaaaaaaaaaaa"));
}

/* The worker, which has the variable, holds the run if it has changed. */
VIRTUAL_BENCH_TEST(retry_accepts_nothing_if_a_variable_is_not_set)
{
    struct err err;

    bench->job.unset = "MONTH";
    leave_changed(bench, "0123456789abcdef");
    assert_ok(retry(bench, &err));
    assert_false(retried.changed);
    assert_true(slice_is(
        workbench_stored(bench, JOB, "r1")->definition, "0123456789abcdef"));
}

VIRTUAL_BENCH_TEST(a_run_that_waits_for_anything_else_is_not_resumed)
{
    struct err err;

    leave_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_TURN, false);
    assert_int_equal(resume(bench, &err), TW_CONFLICT);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "waiting");
}

/* What the last finish() said. */
static char finishing[1024];

static enum tw_err finish(struct workbench *bench, bool now, struct err *err)
{
    struct buf done;
    enum tw_err outcome;

    buf_init(&done, sizeof(finishing) - 1);
    outcome = control_finish(
        &bench->definition, slice_of(JOB), slice_of("r1"), now, &done, err);
    (void)snprintf(finishing, sizeof(finishing), "%s", buf_text(&done));
    buf_done(&done);
    return outcome;
}

VIRTUAL_BENCH_TEST(finish_wakes_a_run_between_its_rounds)
{
    struct ledger_run *run;
    struct err err;

    leave_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, false);
    assert_ok(finish(bench, false, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_true(slice_is(run->finish, LEDGER_FINISH));
    assert_true(run->resumes_ticks <= platform_wall_ticks() + TICKS_PER_S);
    assert_int_equal(messages(bench), 1);
    assert_string_equal(finishing, "makes its last rounds and ends");
    assert_ok(finish(bench, true, &err));
    run = workbench_stored(bench, JOB, "r1");
    assert_true(slice_is(run->finish, LEDGER_FINISH_NOW));
    assert_string_equal(finishing, "makes its last round and ends");
}

/* `finish` said of each that it makes its last rounds and ends. */
VIRTUAL_BENCH_TEST(finish_says_what_must_happen_before)
{
    static const struct {
        enum ledger_state state;
        const char *waits_for, *control, *error, *says;
        int messages; /* that were put by this and the cases before */
    } cases[] = {
        {LEDGER_QUEUED, "", "", "",
            "is queued: once a worker takes it, it makes", 0},
        {LEDGER_PAUSED, "", "", "",
            "is paused: once `tableward resume r1` continues it, it makes", 0},
        {LEDGER_RUNNING, "", LEDGER_CONTROL_PAUSE, "",
            "is being paused: once `tableward resume r1` continues it, it "
            "makes",
            0},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_TURN, "", "another run has the lock",
            "waits for its turn: then it makes", 1},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_STORE, "", "the store is down",
            "is held (the store is down): once it continues, it makes", 2},
        {LEDGER_WAITING, LEDGER_WAITS_FOR_DEFINITION, "", "restore it",
            "is held (restore it): once it continues, it makes", 3},
    };
    struct ledger_run *run;
    struct err err;

    leave_run(bench, LEDGER_QUEUED, "", false);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char expected[256];

        run = workbench_stored(bench, JOB, "r1");
        run->state = cases[i].state;
        run->waits_for = slice_of(cases[i].waits_for);
        run->control = slice_of(cases[i].control);
        run->error = slice_of(cases[i].error);
        assert_ok(workbench_store_run(bench, run));
        assert_ok(finish(bench, false, &err));
        (void)snprintf(expected, sizeof(expected),
            "%s its last rounds and ends", cases[i].says);
        assert_string_equal(finishing, expected);
        run = workbench_stored(bench, JOB, "r1");
        assert_int_equal(run->state, cases[i].state);
        assert_true(slice_is(run->finish, LEDGER_FINISH));
        assert_int_equal(messages(bench), cases[i].messages);
    }
}

/* The worker that will take the run has not seen the change yet. */
VIRTUAL_BENCH_TEST(finish_says_that_the_run_will_be_held)
{
    struct err err;

    bench->kind.table_job = true;
    memcpy(bench->job.hash, "fedcba9876543210", 16);
    leave_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, false);
    assert_ok(finish(bench, false, &err));
    assert_non_null(strstr(finishing,
        "is held (the definition of its job has changed: restore it, or accept "
        "the new one with `resume`): once it continues, it makes"));
}

VIRTUAL_BENCH_TEST(where_no_queue_serves_it_finish_names_the_command)
{
    struct err err;

    leave_run(bench, LEDGER_QUEUED, "", false);
    bench->setup.queue_count = 0;
    assert_ok(finish(bench, false, &err));
    assert_non_null(strstr(
        finishing, "start `tableward run delete-channel --id r1`: it makes"));
}

/* Its own message lies where no worker receives it. */
VIRTUAL_BENCH_TEST(finish_refuses_a_run_of_another_kind)
{
    struct ledger_run *run;
    struct err err;

    leave_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, false);
    run = workbench_stored(bench, JOB, "r1");
    run->kind = slice_of("copy");
    assert_ok(workbench_store_run(bench, run));
    assert_int_equal(finish(bench, false, &err), TW_CONFLICT);
    assert_int_equal(workbench_stored(bench, JOB, "r1")->finish.len, 0);
    assert_int_equal(messages(bench), 0);
}

VIRTUAL_BENCH_TEST(finish_wakes_a_run_of_a_renamed_queue)
{
    struct err err;

    strand_run(bench, LEDGER_QUEUED, "", false);
    assert_ok(finish(bench, false, &err));
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 1);
}

VIRTUAL_BENCH_TEST(a_run_that_is_being_cancelled_is_not_finished)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(ask(bench, control_cancel, &err));
    assert_int_equal(finish(bench, false, &err), TW_CONFLICT);
    assert_non_null(strstr(err.text, "is being cancelled"));
}

VIRTUAL_BENCH_TEST(finish_of_a_running_one_is_a_request)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(finish(bench, false, &err));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "running");
    assert_int_equal(messages(bench), 0);
    assert_ok(ask(bench, control_cancel, &err));
}

VIRTUAL_BENCH_TEST(what_is_not_there_is_not_found)
{
    struct err err;

    leave_run(bench, LEDGER_RUNNING, "", false);
    assert_ok(ask(bench, control_cancel, &err));
    assert_int_equal(finish(bench, false, &err), TW_CONFLICT);
    assert_int_equal(resume(bench, &err), TW_CONFLICT);
    assert_int_equal(control_resume(&bench->definition, slice_of(JOB),
                         slice_of("r2"), &resumed, &err),
        TW_NOT_FOUND);
    assert_false(resumed.unserved);
    assert_ok(control_reopen(bench->store, slice_of(JOB), &err));
}
