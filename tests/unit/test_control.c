/* SPDX-License-Identifier: MIT */
/* The commands of operators: enqueue, cancel, retry, drop, pause, resume,
 * finish. */
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "tests/support/workbench.h"

#include <limits.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/control.h"
#include "worker/run/message.h"
#include "worker/run/poison.h"

#define JOB "delete-channel"
#define ARGS "{\"channel\":\"Football\"}"
#define HASH "0123456789abcdef"
#define OTHER_HASH "fedcba9876543210"
#define ALWAYS 1, UINT_MAX

static struct slice names[] = {{"channel", 7}};
static struct slice football[] = {{"Football", 8}};
static struct slice tennis[] = {{"Tennis", 6}};

/* ---- commands, for run r1 unless they name another run ---- */

/* The error text and results of the last command. */
static struct err err;
static char new_id[QUEUE_ID_MAX + 1];
static struct ledger_run *before;
static bool asked;
static struct control_retried retried;
static struct control_resumed resumed;
static char finishing[1024];

static struct control_enqueue what(struct workbench *bench, size_t queue,
    const struct slice *values, const char *id)
{
    return (struct control_enqueue){.queue = &bench->queues[queue],
        .job = &bench->job,
        .args = {1, names, values},
        .id = slice_of(id)};
}

static enum tw_err place(
    struct workbench *bench, const struct control_enqueue *order)
{
    return control_enqueue(bench->store, order, new_id, &err);
}

static enum tw_err enqueue(struct workbench *bench)
{
    struct control_enqueue order = what(bench, 0, football, "r1");

    return place(bench, &order);
}

static enum tw_err enqueue_later(struct workbench *bench, int64_t delay_s)
{
    struct control_enqueue order = what(bench, 0, football, "r1");

    order.delay_s = delay_s;
    return place(bench, &order);
}

static enum tw_err enqueue_bound(struct workbench *bench)
{
    struct control_enqueue order = what(bench, 1, football, NULL);

    return place(bench, &order);
}

typedef enum tw_err asking_function(struct store *store, struct slice job,
    struct slice id, struct ledger_run *ret, bool *ret_asked, struct err *err);

static enum tw_err ask(struct workbench *bench, asking_function *function)
{
    asked = false;
    before = workbench_new_run(bench);
    return function(
        bench->store, slice_of(JOB), slice_of("r1"), before, &asked, &err);
}

static enum tw_err cancel(struct workbench *bench)
{
    return ask(bench, control_cancel);
}

static enum tw_err pause_run(struct workbench *bench)
{
    return ask(bench, control_pause);
}

static enum tw_err resume(struct workbench *bench)
{
    return control_resume(
        &bench->definition, slice_of(JOB), slice_of("r1"), &resumed, &err);
}

static enum tw_err finish(struct workbench *bench, bool now)
{
    struct buf done;
    enum tw_err outcome;

    buf_init(&done, sizeof(finishing) - 1);
    outcome = control_finish(
        &bench->definition, slice_of(JOB), slice_of("r1"), now, &done, &err);
    (void)snprintf(finishing, sizeof(finishing), "%s", buf_text(&done));
    buf_done(&done);
    return outcome;
}

static enum tw_err retry_id(
    struct workbench *bench, const char *job, const char *id)
{
    return control_retry(
        &bench->definition, slice_of(job), slice_of(id), true, &retried, &err);
}

static enum tw_err retry(struct workbench *bench)
{
    return retry_id(bench, JOB, "r1");
}

static enum tw_err retry_of_many(struct workbench *bench)
{
    return control_retry(&bench->definition, slice_of(JOB), slice_of("r1"),
        false, &retried, &err);
}

static enum tw_err drop(struct workbench *bench)
{
    return control_drop(bench->store, slice_of(JOB), slice_of("r1"), &err);
}

/* Fails unless a command had this outcome, and its error text is `text`. */
static void expect_said(
    enum tw_err outcome, enum tw_err wanted, const char *text)
{
    assert_int_equal(outcome, wanted);
    assert_string_equal(err.text, text);
}

/* Fails unless a command had this outcome, and its error text contains
 * `part`. */
static void expect_named(
    enum tw_err outcome, enum tw_err wanted, const char *part)
{
    assert_int_equal(outcome, wanted);
    assert_non_null(strstr(err.text, part));
}

/* ---- the ledger and the queues ---- */

static struct ledger_run *read_run(struct workbench *bench)
{
    return workbench_stored(bench, JOB, "r1");
}

static void store_run(struct workbench *bench, struct ledger_run *run)
{
    assert_ok(workbench_store_run(bench, run));
}

/* Writes run r1 in this state, as a worker or another command does. */
static void set_state(struct workbench *bench, enum ledger_state state)
{
    struct ledger_run *run = read_run(bench);

    run->state = state;
    run->updated_ticks = TICKS_1970 + 5;
    store_run(bench, run);
}

static int64_t messages(struct workbench *bench)
{
    return workbench_count(bench, BENCH_QUEUE) +
           workbench_count(bench, BENCH_BOUND);
}

static int64_t copies(struct workbench *bench)
{
    return workbench_count(bench, BENCH_QUEUE "-poison");
}

/* Fails unless run r1 is in `state` and both queues together have `count`
 * messages. */
static void expect_left(
    struct workbench *bench, const char *state, int64_t count)
{
    assert_string_equal(workbench_state(bench, JOB, "r1"), state);
    assert_int_equal(messages(bench), count);
}

static void expect_hidden(struct workbench *bench, const char *queue)
{
    struct messages taken;

    messages_init(&taken);
    assert_ok(store_queue_get(
        bench->store, &(struct exchange){0}, queue, 1, 30, &taken));
    assert_int_equal(taken.count, 0);
    messages_done(&taken);
}

/* Receives the next message of queue `work`; fails unless it names run `id` and
 * has the argument `value`. */
static void expect_message(
    struct workbench *bench, const char *id, struct slice value)
{
    struct messages taken;
    struct request request;
    struct arena arena;

    messages_init(&taken);
    arena_init(&arena);
    (void)workbench_take(bench, BENCH_QUEUE, &taken);
    assert_ok(message_read(&bench->queues[0], &bench->jobs, taken.list[0].text,
        &arena, &request, &err));
    assert_true(slice_is(request.id, id));
    assert_true(slice_equal(request.args.values[0], value));
    arena_done(&arena);
    messages_done(&taken);
}

/* ---- enqueue ---- */

VIRTUAL_BENCH_TEST(enqueued_is_on_the_queue_and_in_the_ledger)
{
    struct control_enqueue order = what(bench, 0, football, NULL);
    struct ledger_run *run;

    assert_ok(place(bench, &order));
    assert_int_equal(strlen(new_id), 32);
    run = workbench_stored(bench, JOB, new_id);
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_true(slice_is(run->args, ARGS));
    assert_true(run->requested_ticks > 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    expect_message(bench, new_id, football[0]);
}

VIRTUAL_BENCH_TEST(on_a_bound_queue_the_body_is_the_argument)
{
    struct messages taken;

    bench->queues[1].base64 = true;
    assert_ok(enqueue_bound(bench));
    messages_init(&taken);
    (void)workbench_take(bench, BENCH_BOUND, &taken);
    assert_true(slice_is(taken.list[0].text, "Rm9vdGJhbGw="));
    assert_true(slice_is(taken.list[0].id, new_id));
    messages_done(&taken);
    assert_string_equal(workbench_state(bench, JOB, new_id), "queued");
}

/* U+FFFF is no character of XML, and a queue sends texts as XML. */
static struct slice noncharacter[] = {{"a\xef\xbf\xbf", 4}};

VIRTUAL_BENCH_TEST(a_text_that_no_queue_carries_is_put_as_base64)
{
    struct control_enqueue order = what(bench, 0, noncharacter, "r1");

    assert_ok(place(bench, &order));
    expect_message(bench, "r1", noncharacter[0]);
    set_state(bench, LEDGER_PAUSED);
    assert_ok(resume(bench));
    expect_message(bench, "r1", noncharacter[0]);
    set_state(bench, LEDGER_FAILED);
    assert_ok(retry(bench));
    expect_message(bench, "r1", noncharacter[0]);
}

/* The queue is bound as plain text, so base64 would be read as another
 * argument. */
VIRTUAL_BENCH_TEST(an_argument_that_no_queue_carries_is_refused)
{
    struct control_enqueue order = what(bench, 1, noncharacter, NULL);

    bench->queues[1].base64 = false;
    assert_int_equal(place(bench, &order), TW_INVALID);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 0);
}

VIRTUAL_BENCH_TEST(an_open_run_accepts_deletes_from_now_on)
{
    static const bool accepts[] = {false, true, false};
    struct control_enqueue order = what(bench, 0, football, "r1");

    for (size_t i = 0; TEST_EACH(i, accepts); i++) {
        order.accept_deletes = accepts[i];
        assert_ok(place(bench, &order));
        assert_int_equal(read_run(bench)->accept_deletes, i > 0);
    }
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 3);
}

VIRTUAL_BENCH_TEST(an_open_id_is_rung_again_and_another_one_is_not)
{
    struct control_enqueue other = what(bench, 0, tennis, "r1");

    assert_ok(enqueue(bench));
    assert_ok(enqueue(bench));
    expect_left(bench, "queued", 2);
    expect_named(place(bench, &other), TW_CONFLICT, "other arguments");
    assert_ok(cancel(bench));
    expect_named(enqueue(bench), TW_CONFLICT, "cancelled");
    expect_left(bench, "cancelled", 2);
}

/* No message is put: a worker would receive it and leave the run as it is. */
VIRTUAL_BENCH_TEST(an_id_that_is_paused_or_being_cancelled_is_not_rung)
{
    struct ledger_run *run;

    assert_ok(enqueue(bench));
    assert_ok(pause_run(bench));
    expect_named(enqueue(bench), TW_CONFLICT, "`resume`");
    run = read_run(bench);
    run->state = LEDGER_RUNNING;
    run->control = slice_of(LEDGER_CONTROL_CANCEL);
    store_run(bench, run);
    expect_named(enqueue(bench), TW_CONFLICT, "being cancelled");
    expect_left(bench, "running", 1);
}

VIRTUAL_BENCH_TEST(a_delay_hides_message_and_run)
{
    struct ledger_run *run;

    assert_ok(enqueue_later(bench, 300));
    expect_hidden(bench, BENCH_QUEUE);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    run = read_run(bench);
    assert_true(run->resumes_ticks == run->requested_ticks + 300 * TICKS_PER_S);
}

/* Pruning must know when the last message of a run can still be received. */
VIRTUAL_BENCH_TEST(the_ledger_knows_how_long_a_message_is_hidden)
{
    struct ledger_run *run;
    int64_t first_ticks;

    assert_ok(enqueue_later(bench, 300));
    run = read_run(bench);
    first_ticks = run->resumes_ticks;
    assert_true(run->message_until_ticks == first_ticks);
    assert_ok(enqueue_later(bench, 5));
    assert_true(read_run(bench)->message_until_ticks == first_ticks);
    assert_ok(enqueue_later(bench, 900));
    run = read_run(bench);
    assert_true(run->message_until_ticks >= first_ticks + 600 * TICKS_PER_S);
    assert_true(run->resumes_ticks == first_ticks);
    run->message_until_ticks = 0;
    store_run(bench, run);
    assert_ok(pause_run(bench));
    assert_true(read_run(bench)->message_until_ticks == first_ticks);
}

VIRTUAL_BENCH_TEST(cancel_says_what_it_met)
{
    assert_int_equal(cancel(bench), TW_NOT_FOUND);
    assert_ok(enqueue(bench));
    assert_ok(cancel(bench));
    assert_int_equal(before->state, LEDGER_QUEUED);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
    assert_int_equal(cancel(bench), TW_CONFLICT);
    assert_int_equal(before->state, LEDGER_CANCELLED);
}

/* ---- retry and drop ---- */

/* Stores run r1 as failed, with the copy of its message in the poison queue. */
static void leave_failed(struct workbench *bench)
{
    struct ledger_run *run = workbench_football(bench, "r1");
    struct messages put;

    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    messages_init(&put);
    assert_ok(store_queue_put(bench->wrapped.inner, &(struct exchange){0},
        BENCH_QUEUE "-poison", slice_of("copy"), 0, &put));
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
    run->ending = slice_of("5 failed no"); /* left by an older version */
    store_run(bench, run);
    messages_done(&put);
}

VIRTUAL_BENCH_TEST(retry_keeps_checkpoint_and_time_of_request)
{
    struct ledger_run *run;

    leave_failed(bench);
    assert_ok(retry(bench));
    run = read_run(bench);
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_true(slice_is(run->checkpoint, "{\"at\":1}"));
    assert_true(run->requested_ticks == TICKS_1970 + 77);
    assert_int_equal(run->failures, 0);
    assert_int_equal(run->error.len, 0);
    assert_int_equal(run->epoch, 5);
    assert_int_equal(run->ending.len, 0);
    assert_true(run->poison_id.len > 0); /* shows that the run was retried */
    assert_int_equal(run->definition.len, 0); /* it was not bound */
    assert_false(retried.changed);
    assert_true(run->finished_ticks == 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    workbench_consume(bench, BENCH_QUEUE,
        "{\"job\":\"delete-channel\",\"args\":" ARGS ",\"id\":\"r1\"}");
    assert_int_equal(copies(bench), 1);
}

/* Rule A4: `retry` may come less than 30 s after the crash, while requests of
 * the former attempt may still arrive. */
VIRTUAL_BENCH_TEST(retry_keeps_that_the_last_owner_crashed)
{
    static const int32_t SILENT[] = {0, 1, 7};

    leave_failed(bench);
    for (size_t i = 0; TEST_EACH(i, SILENT); i++) {
        struct ledger_run *run = read_run(bench);

        run->state = LEDGER_FAILED;
        run->silent = SILENT[i];
        store_run(bench, run);
        assert_ok(retry(bench));
        assert_int_equal(read_run(bench)->silent, SILENT[i] > 0);
    }
}

/* The run may now delete other entities than those whose deletion was accepted
 * when it began. */
VIRTUAL_BENCH_TEST(retry_accepts_no_deletes)
{
    struct ledger_run *run;

    leave_failed(bench);
    run = read_run(bench);
    run->accept_deletes = true;
    store_run(bench, run);
    assert_ok(retry(bench));
    assert_false(read_run(bench)->accept_deletes);
}

/* Does run r1 accept deletes after it has received a message that was put at
 * inserted_ticks and accepts them? */
static bool accepts_deletes_of(struct workbench *bench, int64_t inserted_ticks)
{
    const struct lease_message message = {
        .queue = BENCH_QUEUE, .inserted_ticks = inserted_ticks};
    struct lease_request request = workbench_lease_request(bench, "r1");
    struct lease lease;
    enum tw_err outcome;
    bool accepts;

    request.message = &message;
    request.accept_deletes = true;
    lease_init(&lease, &request);
    assert_int_equal(
        lease_acquire(&lease, &request, &outcome, &err), LEASE_ACQUIRED);
    accepts = lease.run.accept_deletes;
    assert_ok(ledger_move(&lease.run, LEDGER_QUEUED, &err));
    assert_int_equal(lease_release(&lease, &err), LEASE_VALID);
    lease_done(&lease);
    return accepts;
}

/* The message was put before `retry`, and was hidden while the run was
 * executed. */
VIRTUAL_BENCH_TEST(a_message_sent_before_retry_accepts_no_deletes)
{
    int64_t sent_ticks = platform_wall_ticks();

    leave_failed(bench);
    virtual_sleep(60000);
    assert_ok(retry(bench));
    assert_false(accepts_deletes_of(bench, sent_ticks));
    virtual_sleep(60000);
    assert_true(accepts_deletes_of(bench, platform_wall_ticks()));
}

/* Only the command `run` can execute the run, so the copy stays. If the run is
 * cancelled, the copy is deleted. */
VIRTUAL_BENCH_TEST(a_retried_run_that_no_queue_serves_keeps_its_copy)
{
    leave_failed(bench);
    bench->setup.queue_count = 0;
    expect_named(retry(bench), TW_NOT_FOUND, "run delete-channel --id r1");
    assert_true(retried.unserved);
    expect_left(bench, "queued", 0);
    assert_int_equal(copies(bench), 2);
    assert_ok(cancel(bench));
    assert_int_equal(copies(bench), 1);
}

VIRTUAL_BENCH_TEST(drop_takes_the_copy_and_leaves_the_reason)
{
    struct ledger_run *run;

    leave_failed(bench);
    assert_ok(drop(bench));
    assert_int_equal(copies(bench), 1);
    run = read_run(bench);
    assert_int_equal(run->state, LEDGER_CANCELLED);
    assert_true(slice_is(run->error, "no"));
    assert_true(run->finished_ticks == TICKS_1970 + 99);
    assert_int_equal(run->poison_id.len, 0);
}

/* `drop` used to report success, but the next `retry` of all failed runs
 * executed the run. */
VIRTUAL_BENCH_TEST(what_was_dropped_is_neither_retried_nor_dropped_again)
{
    static const char SAYS[] = "run delete-channel/r1 is cancelled";

    leave_failed(bench);
    assert_ok(drop(bench));
    expect_said(retry(bench), TW_CONFLICT, SAYS);
    expect_said(drop(bench), TW_CONFLICT, SAYS);
    assert_int_equal(messages(bench), 0);
}

/* The ledger used to forget the copy, which stayed in the poison queue for
 * ever. */
VIRTUAL_BENCH_TEST(a_drop_that_is_cut_off_can_be_asked_for_again)
{
    static const enum bench_call FAILING[] = {BENCH_DELETE, BENCH_BATCH};

    leave_failed(bench);
    for (size_t i = 0; TEST_EACH(i, FAILING); i++) {
        workbench_meets(bench, FAILING[i], ALWAYS, BENCH_FAIL);
        assert_int_equal(drop(bench), TW_BUSY);
        bench->fault_count = 0;
    }
    assert_int_equal(copies(bench), 1);
    assert_ok(drop(bench));
    assert_int_equal(copies(bench), 1);
}

/* ---- refused messages ---- */

/* Poisons a message of queue "work" with this text. job: the job that could be
 * read from it, or LEDGER_UNREADABLE. id: is set to the message's id. */
static void poison(struct workbench *bench, const char *job, const char *text,
    int64_t inserted_s, char id[QUEUE_ID_MAX + 1])
{
    struct lease_message message;
    struct messages taken;

    messages_init(&taken);
    (void)snprintf(
        id, QUEUE_ID_MAX + 1, "%s", workbench_put(bench, BENCH_QUEUE, text));
    message = workbench_receive(bench, BENCH_QUEUE, &taken);
    message.inserted_ticks = TICKS_1970 + inserted_s * TICKS_PER_S;
    assert_ok(poison_message(
        bench->store, job, &bench->queues[0], &message, 60, "no", &err));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(copies(bench), 1);
    messages_done(&taken);
}

#define CHANNEL_MESSAGE "{\"job\":\"delete-channel\",\"args\":" ARGS
#define JSON_BODY CHANNEL_MESSAGE "}"

/* A retried message once became a new request with a new id. That request also
 * deleted a parent that was created after the first request, and repeated a run
 * that had succeeded. */
VIRTUAL_BENCH_TEST(a_retried_message_is_still_the_same_request)
{
    char id[QUEUE_ID_MAX + 1], *expected;

    poison(bench, LEDGER_UNREADABLE, JSON_BODY, 77, id);
    assert_ok(retry_id(bench, LEDGER_UNREADABLE, id));
    assert_int_equal(copies(bench), 0);
    assert_string_equal(
        workbench_state(bench, LEDGER_UNREADABLE, id), "cancelled");
    expected = mem_format(CHANNEL_MESSAGE
        ",\"id\":\"%s\",\"at\":\"1970-01-01T00:01:17.0000000Z\"}",
        id);
    workbench_consume(bench, BENCH_QUEUE, expected);
    mem_free(expected);
}

/* ---- responses of the store to a command ---- */

/* The command used to fail and to leave the run in the ledger, so that a worker
 * executed it. */
VIRTUAL_BENCH_TEST(what_is_refused_is_not_in_the_ledger)
{
    workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_REFUSE);
    expect_said(enqueue(bench), TW_REFUSED, "the key is wrong");
    expect_left(bench, "none", 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
    assert_ok(enqueue(bench));
    workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_REFUSE);
    expect_said(enqueue(bench), TW_REFUSED, "the key is wrong");
    expect_left(bench, "queued", 1);
}

/* The first request may have put the message, whatever the outcome of the later
 * requests is. So the run must stay in the ledger. */
VIRTUAL_BENCH_TEST(what_one_try_may_have_put_stays_in_the_ledger)
{
    static const struct {
        enum bench_fault later;
        int messages; /* in the queue after this case */
    } CASES[] = {{BENCH_FAIL, 1}, {BENCH_REFUSE, 2}, {BENCH_LOSE_ANSWER, 5}};

    workbench_make_queue(bench, BENCH_QUEUE);
    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
        workbench_meets(bench, BENCH_PUT, 2, UINT_MAX, CASES[i].later);
        expect_named(enqueue(bench), TW_UNKNOWN,
            "with --id r1, which makes no second run");
        expect_left(bench, "queued", CASES[i].messages);
        bench->fault_count = 0;
    }
}

/* Two messages with one id are one run. On a bound queue each message is a run,
 * so the message is put only once. */
VIRTUAL_BENCH_TEST(a_message_that_names_its_run_is_put_again)
{
    workbench_meets(bench, BENCH_PUT, 2, 2, BENCH_LOSE_ANSWER);
    assert_ok(enqueue(bench));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 2);
    bench->fault_count = 0;
    assert_ok(enqueue_bound(bench));
    workbench_meets(bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
    assert_int_equal(enqueue_bound(bench), TW_UNKNOWN);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 2);
}

/* If the service responds that it is busy, the command waits and tries again,
 * so its caller (a front end) need not repeat it. */
VIRTUAL_BENCH_TEST(enqueue_waits_where_it_is_throttled)
{
    static const enum bench_call BUSY[] = {BENCH_GET, BENCH_BATCH, BENCH_PUT};

    for (size_t i = 0; TEST_EACH(i, BUSY); i++)
        workbench_meets(bench, BUSY[i], 1, 5, BENCH_THROTTLE);
    assert_ok(enqueue(bench));
    expect_left(bench, "queued", 1);
    workbench_meets(bench, BENCH_GET, 1, 5, BENCH_THROTTLE);
    workbench_meets(bench, BENCH_BATCH, 1, 5, BENCH_THROTTLE);
    assert_ok(cancel(bench));
    expect_left(bench, "cancelled", 1);
}

/* Fails unless the command ends within 3 s without a response, and has written
 * nothing. */
static void expect_no_response(
    struct workbench *bench, enum tw_err (*command)(struct workbench *bench))
{
    int64_t began_ms = platform_boot_ms();

    workbench_meets(bench, BENCH_GET, ALWAYS, BENCH_FAIL);
    expect_said(command(bench), TW_BUSY, "the store is down");
    assert_in_range(platform_boot_ms() - began_ms, 1, 3000);
    assert_int_equal(bench->calls[BENCH_BATCH], 0);
}

/* The port is closed or the address is wrong: the operator learns it soon. */
VIRTUAL_BENCH_TEST(where_nothing_responds_it_is_said_within_three_seconds)
{
    expect_no_response(bench, cancel);
}

/* The time of the request must come from the service. If this machine's clock
 * were slow, the parent would look as if it was created after the request. */
VIRTUAL_BENCH_TEST(without_the_service_s_clock_nothing_is_enqueued)
{
    expect_no_response(bench, enqueue);
}

VIRTUAL_BENCH_TEST(a_message_over_64_kib_is_refused_before_anything_is_stored)
{
    char *channel = mem_format("%0*d", QUEUE_MAX_MESSAGE_BYTES, 0);
    struct slice value = slice_of(channel);
    struct control_enqueue order = what(bench, 0, &value, "r1");

    expect_named(
        place(bench, &order), TW_TOO_LARGE, "a queue takes at most 64 KiB");
    assert_int_equal(bench->calls[BENCH_BATCH], 0);
    mem_free(channel);
}

VIRTUAL_BENCH_TEST(the_run_s_arguments_may_be_too_long_for_a_wake_up_message)
{
    struct ledger_run *run = workbench_football(bench, "r1");
    struct buf args;

    buf_init(&args, 2 * QUEUE_MAX_MESSAGE_BYTES);
    buf_add_text(&args, "{\"channel\":\"");
    while (args.len < QUEUE_MAX_MESSAGE_BYTES - 20)
        buf_add_text(&args, "\xe2\x82\xac");
    buf_add_text(&args, "\"}");
    run->state = LEDGER_PAUSED;
    run->args = buf_slice(&args);
    store_run(bench, run);
    expect_named(resume(bench), TW_TOO_LARGE,
        "is queued, but its arguments are too long");
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    buf_done(&args);
}

VIRTUAL_BENCH_TEST(a_bound_queue_s_entity_comes_after_its_message)
{
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(enqueue_bound(bench), TW_BUSY);
    assert_int_equal(bench->ledger_writes, 0);
    bench->fault_count = 0;
    assert_ok(enqueue_bound(bench));
    workbench_consume(bench, BENCH_BOUND, "Football");
    assert_string_equal(workbench_state(bench, JOB, new_id), "queued");
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_FAIL);
    assert_ok(enqueue_bound(bench));
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_REFUSE);
    assert_int_equal(enqueue_bound(bench), TW_REFUSED);
}

/* ---- another command or worker writes first ---- */

/* Sets the state of run r1 before the next request of this kind. */
static struct {
    enum bench_call call;
    enum ledger_state state;
} faster;

BENCH_BETWEEN(be_faster)
{
    if (call != faster.call)
        return;
    bench->between = NULL;
    set_state(bench, faster.state);
}

static void somebody_sets(struct workbench *bench, enum ledger_state state,
    enum bench_call before_call)
{
    faster.call = before_call;
    faster.state = state;
    bench->between = be_faster;
}

/* The run is cancelled, but by another command. */
VIRTUAL_BENCH_TEST(another_s_cancel_is_not_taken_for_ours)
{
    assert_ok(enqueue(bench));
    somebody_sets(bench, LEDGER_CANCELLED, BENCH_BATCH);
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    expect_named(
        cancel(bench), TW_CONFLICT, "run delete-channel/r1 is cancelled");
}

/* The other `retry` may fail before it puts its message. */
VIRTUAL_BENCH_TEST(of_two_retries_at_once_each_puts_a_message)
{
    leave_failed(bench);
    somebody_sets(bench, LEDGER_QUEUED, BENCH_BATCH);
    assert_ok(retry(bench));
    expect_left(bench, "queued", 1);
    assert_int_equal(copies(bench), 1);
}

/* Another `retry` was first, and the run has succeeded since. */
VIRTUAL_BENCH_TEST(a_run_that_succeeded_meanwhile_is_not_retried)
{
    leave_failed(bench);
    somebody_sets(bench, LEDGER_SUCCEEDED, BENCH_BATCH);
    expect_named(
        retry(bench), TW_CONFLICT, "run delete-channel/r1 is succeeded");
    expect_left(bench, "succeeded", 0);
}

VIRTUAL_BENCH_TEST(a_run_that_is_retried_meanwhile_is_not_dropped)
{
    leave_failed(bench);
    somebody_sets(bench, LEDGER_QUEUED, BENCH_DELETE);
    expect_said(drop(bench), TW_CONFLICT, "run delete-channel/r1 is queued");
    expect_left(bench, "queued", 0);
}

/* ---- runs that can be retried or dropped, and runs that cannot ---- */

/* A failed run of a copy job must not be retried as a run of a job that
 * deletes. */
VIRTUAL_BENCH_TEST(a_failed_run_of_another_kind_is_not_retried)
{
    struct ledger_run *run;

    leave_failed(bench);
    run = read_run(bench);
    run->kind = slice_of("copy");
    store_run(bench, run);
    expect_named(
        retry(bench), TW_CONFLICT, "is a scripted now, and was a copy");
    expect_left(bench, "failed", 0);
    assert_int_equal(copies(bench), 2);
}

/* The copy stays until the message is put. */
VIRTUAL_BENCH_TEST(a_retry_that_put_no_message_is_repeated)
{
    leave_failed(bench);
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    expect_named(retry(bench), TW_BUSY, "repeat the command");
    expect_left(bench, "queued", 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    assert_int_equal(copies(bench), 2);
    bench->fault_count = 0;
    assert_ok(retry(bench));
    expect_left(bench, "queued", 1);
    assert_int_equal(copies(bench), 1);
}

VIRTUAL_BENCH_TEST(a_queued_run_that_never_failed_is_not_retried)
{
    assert_ok(enqueue(bench));
    assert_int_equal(retry(bench), TW_CONFLICT);
    expect_left(bench, "queued", 1);
}

/* Stores a run that has only some of the properties that identify the copy of
 * its message. The ledger may contain such runs. */
static void leave_without_copy(struct workbench *bench, const char *queue,
    const char *poison_id, const char *args)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->state = args[0] ? LEDGER_FAILED : LEDGER_POISONED;
    run->args = slice_of(args);
    run->queue = slice_of(queue);
    run->poison_id = slice_of(poison_id);
    store_run(bench, run);
}

VIRTUAL_BENCH_TEST(a_copy_whose_receipt_is_not_known_stays)
{
    leave_without_copy(bench, BENCH_QUEUE, "an-id", ARGS);
    assert_ok(retry(bench));
    assert_int_equal(bench->calls[BENCH_DELETE], 0);
    expect_left(bench, "queued", 1);
}

VIRTUAL_BENCH_TEST(an_unreadable_message_without_its_copy_is_left_as_it_is)
{
    leave_without_copy(bench, BENCH_QUEUE, "an-id", "");
    assert_int_equal(retry(bench), TW_NOT_FOUND); /* the poison queue does not
                                                     exist */
    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    expect_named(retry(bench), TW_INVALID,
        "is not among the first 32 messages of queue work-poison");
    expect_left(bench, "poisoned", 0);
}

VIRTUAL_BENCH_TEST(an_unreadable_message_that_cannot_be_put_back_stays)
{
    const char *id;

    workbench_put(bench, BENCH_QUEUE "-poison", "another's");
    id = workbench_put(bench, BENCH_QUEUE "-poison", JSON_BODY);
    leave_without_copy(bench, BENCH_QUEUE, id, "");
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    assert_int_equal(retry(bench), TW_BUSY);
    expect_left(bench, "poisoned", 0);
    assert_int_equal(copies(bench), 2);
    bench->fault_count = 0;
    assert_ok(retry(bench));
    expect_left(bench, "cancelled", 1);
}

/* The queue of the message was renamed in the configuration. */
VIRTUAL_BENCH_TEST(an_unreadable_message_is_put_back_where_a_worker_is)
{
    const char *id = workbench_put(bench, "former-poison", JSON_BODY);

    leave_without_copy(bench, "former", id, "");
    assert_ok(retry(bench));
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    assert_int_equal(workbench_count(bench, "former"), 0);
    assert_int_equal(workbench_count(bench, "former-poison"), 1);
    expect_left(bench, "cancelled", 1);
}

VIRTUAL_BENCH_TEST(
    a_message_that_no_served_queue_takes_stays_in_the_poison_queue)
{
    const char *id = workbench_put(bench, "former-poison", "Football");

    leave_without_copy(bench, "former", id, "");
    for (size_t count = 2; count-- > 0;) {
        bench->setup.queue_count = count;
        expect_named(
            retry(bench), TW_NOT_FOUND, "bind queue former in this way again");
        assert_true(retried.unserved);
    }
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(bench, "former"), 0);
    assert_int_equal(workbench_count(bench, "former-poison"), 1);
    expect_left(bench, "poisoned", 0);
}

/* ---- refused messages of a queue that is bound differently now ---- */

/* How a queue is bound: to no job, to JOB with encoding text, to JOB with
 * encoding base64, or to another job. */
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
    enum bound was; /* of queue "work" when the message was refused */
    /* At the retry: of queue "work", and of queue "channels". */
    enum bound now, other;
    const char *job; /* the job under which the ledger has the message;
                        NULL: "-" */
    const char *body;
    const char *to;   /* queue of the message after the retry; NULL: the poison
                         queue */
    const char *said; /* text of the message if `to` is set, else a part of the
                         error */
    bool former;      /* written by a version without Binding */
};

#define RETOLD_AT CHANNEL_MESSAGE ",\"at\":\"1970-01-01T00:00:05.0000000Z\"}"
#define JSON_BASE64                                                            \
    "eyJqb2IiOiJkZWxldGUtY2hhbm5lbCIsImFyZ3MiOnsiY2hhbm5lbCI6IkZv"             \
    "b3RiYWxsIn19"
/* Args of a run whose only argument is `text`. */
#define ARGUMENT(text) "{\"channel\":\"" text "\"}"
#define JSON_BODY_AS_ARGUMENT                                                  \
    ARGUMENT("{\\\"job\\\":\\\"delete-channel\\\",\\\"args\\\":{"              \
             "\\\"channel\\\":\\\"Football\\\"}}")
#define NO_JOB "the ledger does not say for which job it was"
#define NO_FREE "`queues` has no queue without `job:`"
#define AS_TEXT "was bound to job delete-channel with encoding text"
#define AS_BASE64 "was bound to job delete-channel with encoding base64"

static const struct rebinding rebindings[] = {
    /* The ledger keeps the refused message as a cancelled run, under the
     * message's id. So the new message must not name this id. */
    {"JSON, its queue is as before", FREE, FREE, CHANNEL_TEXT, JOB, JSON_BODY,
        BENCH_QUEUE, RETOLD_AT, false},
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

/* Puts a message into queue "work" and poisons it as refused. */
static void leave_refused(struct workbench *bench,
    const struct rebinding *rebinding, char id[QUEUE_ID_MAX + 1])
{
    const char *job = rebinding->job ? rebinding->job : LEDGER_UNREADABLE;
    struct ledger_run *run;

    poison(bench, job, rebinding->body, 5, id);
    if (!rebinding->former)
        return;
    run = workbench_stored(bench, job, id);
    run->binding = (struct slice){0};
    store_run(bench, run);
}

/* Fails unless the refused message is now a queued run, with the time at which
 * the message was put as its RequestedAt. */
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
    enum tw_err outcome = retry_id(bench, job, id);
    struct messages taken;

    assert_int_equal(outcome, rebinding->to ? TW_OK : TW_NOT_FOUND);
    assert_int_equal(retried.unserved, rebinding->to == NULL);
    assert_string_equal(workbench_state(bench, job, id), runs ? "queued"
                                                         : rebinding->to
                                                             ? "cancelled"
                                                             : "poisoned");
    assert_int_equal(messages(bench), rebinding->to ? 1 : 0);
    assert_int_equal(copies(bench), rebinding->to ? 0 : 1);
    if (!rebinding->to) {
        assert_non_null(strstr(err.text, rebinding->said));
        assert_ok(
            control_drop(bench->store, slice_of(job), slice_of(id), &err));
        return;
    }
    if (!runs) {
        workbench_consume(bench, rebinding->to, rebinding->said);
        return;
    }
    messages_init(&taken);
    (void)workbench_take(bench, rebinding->to, &taken);
    expect_run(bench, id, rebinding->said, taken.list[0].text);
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

/* Returns run r1 in this state, without storing it. live: its lease is valid,
 * else it has expired. */
static struct ledger_run *new_run(struct workbench *bench,
    enum ledger_state run_state, const char *waits_for, bool live)
{
    struct ledger_run *run = workbench_football(bench, "r1");
    int64_t now_ticks = platform_wall_ticks();

    run->state = run_state;
    run->definition = slice_of(HASH);
    run->waits_for = slice_of(waits_for);
    if (run_state == LEDGER_RUNNING)
        run->owner = slice_of("somebody");
    run->lease_until_ticks = now_ticks + (live ? 60 : -60) * TICKS_PER_S;
    if (run_state == LEDGER_WAITING)
        run->resumes_ticks = now_ticks + 3600 * TICKS_PER_S;
    return run;
}

static void leave_run(struct workbench *bench, enum ledger_state run_state,
    const char *waits_for, bool live)
{
    store_run(bench, new_run(bench, run_state, waits_for, live));
}

static void leave_paused(struct workbench *bench)
{
    leave_run(bench, LEDGER_PAUSED, "", false);
}

/* Stores run r1 with an owner whose lease is valid. */
static void leave_running(struct workbench *bench)
{
    leave_run(bench, LEDGER_RUNNING, "", true);
}

static void leave_between_rounds(struct workbench *bench)
{
    leave_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, false);
}

/* Stores run r1 as it is after an attempt has found that the definition of the
 * job has changed. */
static void leave_held(struct workbench *bench, bool accepts_deletes)
{
    struct ledger_run *run =
        new_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_DEFINITION, false);

    run->definition = slice_of("!" OTHER_HASH ":" HASH);
    run->accept_deletes = accepts_deletes;
    store_run(bench, run);
}

/* Stores run r1 with a queue that is no longer in the configuration. */
static void strand_run(struct workbench *bench, enum ledger_state run_state,
    const char *waits_for, bool live)
{
    struct ledger_run *run = new_run(bench, run_state, waits_for, live);

    run->queue = slice_of("old");
    store_run(bench, run);
}

static void expect_control(struct workbench *bench, const char *control)
{
    assert_true(slice_is(read_run(bench)->control, control));
}

/* Fails unless run r1 is in `state` and bound to `definition`. Returns the
 * run. */
static struct ledger_run *expect_bound(
    struct workbench *bench, enum ledger_state state, const char *definition)
{
    struct ledger_run *run = read_run(bench);

    assert_int_equal(run->state, state);
    assert_true(slice_is(run->definition, definition));
    return run;
}

/* `resume` used to say only "is waiting", and the cascade was never
 * completed. */
VIRTUAL_BENCH_TEST(a_run_of_a_renamed_queue_is_moved)
{
    struct ledger_run *run;

    strand_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, false);
    assert_ok(resume(bench));
    assert_non_null(resumed.moved_to);
    assert_string_equal(resumed.moved_to->name, BENCH_BOUND);
    run = read_run(bench);
    assert_int_equal(run->state, LEDGER_WAITING);
    assert_true(slice_is(run->queue, BENCH_BOUND));
    assert_true(run->resumes_ticks > platform_wall_ticks());
    assert_true(run->message_until_ticks >= run->resumes_ticks);
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 1);
    expect_hidden(bench, BENCH_BOUND); /* until ResumesAt */
    /* Now the run waits as any other run of this queue. */
    expect_named(resume(bench), TW_CONFLICT, "is waiting");
    assert_null(resumed.moved_to);
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

    strand_run(bench, LEDGER_QUEUED, "", false);
    for (size_t i = 0; TEST_EACH(i, states); i++) {
        struct ledger_run *run = read_run(bench);

        run->state = states[i].before;
        run->waits_for = slice_of(states[i].waits_for);
        run->queue = slice_of("old");
        store_run(bench, run);
        assert_ok(resume(bench));
        run = read_run(bench);
        assert_int_equal(run->state, states[i].after);
        assert_true(slice_is(run->queue, BENCH_BOUND));
        assert_int_equal(workbench_count(bench, BENCH_BOUND), (int)i + 1);
    }
}

VIRTUAL_BENCH_TEST(a_run_of_a_renamed_queue_is_left_to_its_live_owner)
{
    strand_run(bench, LEDGER_RUNNING, "", true);
    assert_ok(pause_run(bench));
    expect_control(bench, LEDGER_CONTROL_PAUSE);
    for (int i = 0; i < 2; i++) {
        assert_ok(resume(bench));
        assert_null(resumed.moved_to);
        expect_control(bench, "");
    }
    assert_true(slice_is(read_run(bench)->queue, "old"));
    assert_int_equal(messages(bench), 0);
}

VIRTUAL_BENCH_TEST(the_owner_of_a_live_lease_is_asked)
{
    leave_running(bench);
    assert_ok(pause_run(bench));
    assert_true(asked);
    expect_left(bench, "running", 0);
    expect_control(bench, "pause");
    assert_ok(pause_run(bench));
    assert_ok(cancel(bench));
    assert_true(asked);
    expect_control(bench, "cancel");
    /* A request to cancel is not replaced by a request to pause. */
    assert_int_equal(pause_run(bench), TW_CONFLICT);
    expect_control(bench, "cancel");
}

VIRTUAL_BENCH_TEST(without_a_live_lease_it_is_done_at_once)
{
    leave_run(bench, LEDGER_RUNNING, "", false);
    assert_ok(pause_run(bench));
    assert_false(asked);
    expect_left(bench, "paused", 0);
    assert_ok(pause_run(bench));
    assert_ok(cancel(bench));
    expect_left(bench, "cancelled", 0);
    assert_int_equal(pause_run(bench), TW_CONFLICT);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_ENDED), 1);
}

/* If the time of a pause were counted as work, the rate of the run would look
 * too low. */
VIRTUAL_BENCH_TEST(the_time_of_a_pause_is_not_that_of_the_work)
{
    struct ledger_run *run = new_run(bench, LEDGER_PAUSED, "", false);

    run->started_ticks = platform_wall_ticks() - 500 * TICKS_PER_S;
    run->updated_ticks = platform_wall_ticks() - 400 * TICKS_PER_S;
    run->idle_s = 7;
    store_run(bench, run);
    assert_ok(resume(bench));
    assert_in_range(read_run(bench)->idle_s, 406, 408);
    /* The time in the queue is added, and that of the pause is not added a
     * second time. */
    virtual_sleep(50000);
    assert_ok(pause_run(bench));
    assert_in_range(read_run(bench)->idle_s, 456, 459);
}

VIRTUAL_BENCH_TEST(a_resume_that_put_no_message_is_repeated)
{
    leave_paused(bench);
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FAIL);
    expect_named(resume(bench), TW_BUSY, "repeat the command");
    expect_left(bench, "queued", 0);
    bench->fault_count = 0;
    assert_ok(resume(bench));
    expect_left(bench, "queued", 1);
    bench->setup.queue_count = 0;
    assert_int_equal(resume(bench), TW_NOT_FOUND);
    assert_true(resumed.unserved);
}

VIRTUAL_BENCH_TEST(a_run_that_was_to_begin_later_still_does_after_resume)
{
    int64_t begins_ticks;

    assert_ok(enqueue_later(bench, 300));
    begins_ticks = read_run(bench)->resumes_ticks;
    for (int i = 0; i < 2; i++) {
        assert_ok(pause_run(bench));
        virtual_sleep(10000);
        assert_ok(resume(bench));
        assert_ok(resume(bench));
        assert_true(read_run(bench)->resumes_ticks == begins_ticks);
    }
    expect_hidden(bench, BENCH_QUEUE);
    assert_int_equal(messages(bench), 5);
    /* ResumesAt passes while the run is paused. */
    assert_ok(pause_run(bench));
    virtual_sleep(300000);
    assert_ok(resume(bench));
    assert_true(read_run(bench)->resumes_ticks == 0);
}

/* A worker must complete a load of this run (a move) before the run is
 * cancelled. */
VIRTUAL_BENCH_TEST(a_queued_run_that_is_being_cancelled_is_not_resumed)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->control = slice_of(LEDGER_CONTROL_CANCEL);
    run->attempt = 1;
    store_run(bench, run);
    expect_said(
        resume(bench), TW_CONFLICT, "run delete-channel/r1 is being cancelled");
    assert_int_equal(retry(bench), TW_CONFLICT);
    assert_int_equal(messages(bench), 0);
}

/* A worker has begun an attempt before the command is repeated. */
VIRTUAL_BENCH_TEST(resume_of_a_run_at_work_changes_nothing)
{
    leave_running(bench);
    assert_ok(resume(bench));
    assert_int_equal(messages(bench), 0);
    assert_ok(cancel(bench));
    assert_int_equal(resume(bench), TW_CONFLICT);
    expect_control(bench, LEDGER_CONTROL_CANCEL);
}

VIRTUAL_BENCH_TEST(a_run_of_another_kind_is_not_resumed)
{
    struct ledger_run *run = new_run(bench, LEDGER_PAUSED, "", false);

    run->kind = slice_of("copy");
    store_run(bench, run);
    expect_named(
        resume(bench), TW_CONFLICT, "is a scripted now, and was a copy");
    expect_left(bench, "paused", 0);
}

VIRTUAL_BENCH_TEST(where_no_queue_serves_it_it_stays_paused)
{
    leave_paused(bench);
    bench->setup.queue_count = 0;
    expect_named(resume(bench), TW_NOT_FOUND, "run delete-channel --id r1");
    assert_true(resumed.unserved);
    expect_left(bench, "paused", 0);
}

/* The owner was killed before it read the request to pause. The next owner
 * would obey that request, but `resume` removes it before. */
VIRTUAL_BENCH_TEST(a_pause_that_a_dead_owner_never_saw_is_taken_back)
{
    struct ledger_run *run;

    leave_running(bench);
    assert_ok(pause_run(bench));
    run = read_run(bench);
    run->lease_until_ticks = platform_wall_ticks() - TICKS_PER_S;
    store_run(bench, run);
    expect_control(bench, LEDGER_CONTROL_PAUSE);
    bench->setup.queue_count = 0;
    assert_int_equal(resume(bench), TW_NOT_FOUND);
    assert_true(resumed.unserved);
    expect_control(bench, LEDGER_CONTROL_PAUSE);
    bench->setup.queue_count = 1;
    assert_int_equal(messages(bench), 0);
    assert_ok(resume(bench));
    expect_control(bench, "");
    expect_left(bench, "running", 1);
    assert_ok(resume(bench)); /* the first `resume` may have put no message */
    assert_int_equal(messages(bench), 2);
}

VIRTUAL_BENCH_TEST(resume_accepts_a_changed_definition)
{
    struct ledger_run *run;

    leave_held(bench, true); /* accepted under the former definition */
    memcpy(bench->job.hash, OTHER_HASH, 16);
    assert_ok(resume(bench));
    assert_true(resumed.accepts);
    assert_false(resumed.will_be_held);
    run = expect_bound(bench, LEDGER_QUEUED, "?" OTHER_HASH ":" HASH);
    assert_false(run->accept_deletes);
    assert_true(run->resumes_ticks == 0);
    assert_int_equal(messages(bench), 1);
}

/* The message was put under the former definition, and was hidden while the run
 * waited. */
VIRTUAL_BENCH_TEST(
    a_message_sent_under_the_former_definition_accepts_no_deletes)
{
    int64_t sent_ticks = platform_wall_ticks();

    leave_held(bench, false);
    memcpy(bench->job.hash, OTHER_HASH, 16);
    virtual_sleep(60000);
    assert_ok(resume(bench));
    assert_true(resumed.accepts);
    assert_false(accepts_deletes_of(bench, sent_ticks));
    virtual_sleep(60000);
    assert_true(accepts_deletes_of(bench, platform_wall_ticks()));
}

/* If `resume` accepted the offered definition here, a worker that has not read
 * the restored definition yet would carry out the offered one. */
VIRTUAL_BENCH_TEST(resume_under_a_restored_definition_accepts_nothing)
{
    leave_held(bench, false);
    assert_ok(resume(bench));
    assert_false(resumed.accepts || resumed.will_be_held);
    (void)expect_bound(bench, LEDGER_QUEUED, "!" OTHER_HASH ":" HASH);
}

/* No attempt has told the operator yet that the job would now delete other
 * entities. */
VIRTUAL_BENCH_TEST(resume_of_a_paused_run_accepts_no_changed_definition)
{
    memcpy(bench->job.hash, OTHER_HASH, 16);
    leave_paused(bench);
    for (int i = 0; i < 2; i++) {
        assert_ok(resume(bench));
        assert_true(resumed.will_be_held);
        assert_false(resumed.accepts);
        (void)expect_bound(bench, LEDGER_QUEUED, HASH);
    }
}

/* A variable of the job is not set here, so it is unknown whether the
 * definition has changed. */
VIRTUAL_BENCH_TEST(resume_says_nothing_of_a_job_with_an_unset_variable)
{
    memcpy(bench->job.hash, OTHER_HASH, 16);
    bench->job.unset = "MONTH";
    leave_paused(bench);
    assert_ok(resume(bench));
    assert_false(resumed.will_be_held);
}

/* If `resume` did not accept the definition here, `run` would tell the operator
 * to use `resume`, and `resume` would say to use `run`. */
VIRTUAL_BENCH_TEST(a_definition_is_accepted_also_if_no_queue_serves_the_run)
{
    struct ledger_run *run;

    bench->setup.queue_count = 0;
    leave_held(bench, false);
    memcpy(bench->job.hash, OTHER_HASH, 16);
    expect_named(resume(bench), TW_NOT_FOUND, "run delete-channel --id r1");
    assert_true(resumed.unserved && resumed.accepts);
    run = expect_bound(bench, LEDGER_WAITING, "?" OTHER_HASH ":" HASH);
    assert_true(run->resumes_ticks == 0);

    run->state = LEDGER_PAUSED; /* as after `run` has refused the definition */
    run->definition = slice_of("!" OTHER_HASH ":" HASH);
    store_run(bench, run);
    assert_int_equal(resume(bench), TW_NOT_FOUND);
    assert_true(resumed.unserved && resumed.accepts);
    (void)expect_bound(bench, LEDGER_PAUSED, "?" OTHER_HASH ":" HASH);
    assert_int_equal(messages(bench), 0);
}

/* Stores run r1 as failed and bound to `definition`, while the job has another
 * one now. */
static void leave_changed(struct workbench *bench, const char *definition)
{
    struct ledger_run *run;

    memcpy(bench->job.hash, OTHER_HASH, 16);
    leave_failed(bench);
    run = read_run(bench);
    run->definition = slice_of(definition);
    store_run(bench, run);
}

VIRTUAL_BENCH_TEST(retry_accepts_a_changed_definition_and_says_so)
{
    leave_changed(bench, HASH);
    assert_ok(retry(bench));
    assert_true(retried.changed);
    (void)expect_bound(bench, LEDGER_QUEUED, "~" OTHER_HASH ":" HASH);
}

VIRTUAL_BENCH_TEST(retry_of_many_leaves_a_run_whose_definition_has_changed)
{
    leave_changed(bench, HASH);
    expect_named(retry_of_many(bench), TW_CONFLICT,
        "the definition of job delete-channel has changed since run r1 began: "
        "restore it, or accept the new one with `poison retry r1`");
    assert_true(retried.changed);
    expect_left(bench, "failed", 0);
    memcpy(bench->job.hash, HASH, 16); /* the definition is restored */
    assert_ok(retry_of_many(bench));
    assert_false(retried.changed);
}

VIRTUAL_BENCH_TEST(retry_of_many_takes_a_run_to_whose_job_rules_were_added)
{
    bench->job.parts = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb";
    leave_changed(bench, HASH "/aaaaaaaaaaaaaaaa");
    assert_ok(retry_of_many(bench));
    assert_true(retried.changed);
    (void)expect_bound(bench, LEDGER_QUEUED, HASH "/aaaaaaaaaaaaaaaa");
}

/* Whether the definition has changed is unknown here. A worker that has the
 * variable knows it; if the definition has changed, the run waits. */
VIRTUAL_BENCH_TEST(retry_accepts_nothing_if_a_variable_is_not_set)
{
    bench->job.unset = "MONTH";
    leave_changed(bench, HASH);
    assert_ok(retry(bench));
    assert_false(retried.changed);
    (void)expect_bound(bench, LEDGER_QUEUED, HASH);
}

VIRTUAL_BENCH_TEST(finish_wakes_a_run_between_its_rounds)
{
    struct ledger_run *run;

    leave_between_rounds(bench);
    assert_ok(finish(bench, false));
    run = read_run(bench);
    assert_true(slice_is(run->finish, LEDGER_FINISH));
    assert_true(run->resumes_ticks <= platform_wall_ticks() + TICKS_PER_S);
    assert_int_equal(messages(bench), 1);
    assert_string_equal(finishing, "makes its last rounds and ends");
    assert_ok(finish(bench, true));
    assert_true(slice_is(read_run(bench)->finish, LEDGER_FINISH_NOW));
    assert_string_equal(finishing, "makes its last round and ends");
}

/* `finish` used to say of all these runs only that they make their last rounds
 * and end. */
VIRTUAL_BENCH_TEST(finish_says_what_must_happen_before)
{
    static const struct {
        enum ledger_state state;
        const char *waits_for, *control, *error, *says;
        int messages; /* number of messages put up to this case */
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

    leave_run(bench, LEDGER_QUEUED, "", false);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct ledger_run *run = read_run(bench);
        char expected[256];

        run->state = cases[i].state;
        run->waits_for = slice_of(cases[i].waits_for);
        run->control = slice_of(cases[i].control);
        run->error = slice_of(cases[i].error);
        store_run(bench, run);
        assert_ok(finish(bench, false));
        (void)snprintf(expected, sizeof(expected),
            "%s its last rounds and ends", cases[i].says);
        assert_string_equal(finishing, expected);
        run = read_run(bench);
        assert_int_equal(run->state, cases[i].state);
        assert_true(slice_is(run->finish, LEDGER_FINISH));
        assert_int_equal(messages(bench), cases[i].messages);
    }
}

VIRTUAL_BENCH_TEST(where_no_queue_serves_it_finish_names_the_command)
{
    leave_run(bench, LEDGER_QUEUED, "", false);
    bench->setup.queue_count = 0;
    assert_ok(finish(bench, false));
    assert_non_null(strstr(
        finishing, "start `tableward run delete-channel --id r1`: it makes"));
}

/* `finish` refuses, and puts no message for the run. */
VIRTUAL_BENCH_TEST(finish_refuses_a_run_of_another_kind)
{
    struct ledger_run *run =
        new_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_ROUND, false);

    run->kind = slice_of("copy");
    store_run(bench, run);
    assert_int_equal(finish(bench, false), TW_CONFLICT);
    assert_int_equal(read_run(bench)->finish.len, 0);
    assert_int_equal(messages(bench), 0);
}

VIRTUAL_BENCH_TEST(finish_wakes_a_run_of_a_renamed_queue)
{
    strand_run(bench, LEDGER_QUEUED, "", false);
    assert_ok(finish(bench, false));
    assert_int_equal(workbench_count(bench, BENCH_BOUND), 1);
}

VIRTUAL_BENCH_TEST(finish_of_a_running_one_is_a_request)
{
    leave_running(bench);
    assert_ok(finish(bench, false));
    expect_left(bench, "running", 0);
    assert_ok(cancel(bench));
    expect_named(finish(bench, false), TW_CONFLICT, "is being cancelled");
}

VIRTUAL_BENCH_TEST(what_is_not_there_is_not_found)
{
    assert_int_equal(resume(bench), TW_NOT_FOUND);
    assert_false(resumed.unserved);
    assert_int_equal(drop(bench), TW_NOT_FOUND);
    leave_run(bench, LEDGER_RUNNING, "", false);
    assert_ok(cancel(bench));
    assert_int_equal(finish(bench, false), TW_CONFLICT);
    assert_int_equal(resume(bench), TW_CONFLICT);
    assert_ok(control_reopen(bench->store, slice_of(JOB), &err));
}

/* ---- responses of the store to a command: a new store for each case ---- */

static void leave_queued(struct workbench *bench)
{
    assert_ok(enqueue(bench));
}

/* Stores a run that waits on a queue that is no longer in the configuration. */
static void leave_stranded(struct workbench *bench)
{
    strand_run(bench, LEDGER_WAITING, LEDGER_WAITS_FOR_SETTLE, false);
}

static const struct meeting {
    const char *name;
    void (*leave)(struct workbench *bench); /* stores the run; NULL: there is
                                               none */
    enum tw_err (*command)(struct workbench *bench);
    struct bench_fault_range
        faults[2]; /* the n of a request counts from the command */
    enum tw_err outcome;
    const char *says;  /* the error text; NULL: not checked */
    const char *state; /* of the run after the command */
    int messages, copies;
} MEETINGS[] = {
    {"a ledger that is missing is made", NULL, enqueue,
        {{BENCH_BATCH, 1, 1, BENCH_GONE}}, TW_OK, NULL, "queued", 1, 0},
    {"where no ledger can be made nothing is enqueued", NULL, enqueue,
        {{BENCH_BATCH, ALWAYS, BENCH_GONE},
            {BENCH_CREATE, ALWAYS, BENCH_REFUSE}},
        TW_REFUSED, "the key is wrong", "none", 0, 0},
    {"a queue that cannot be made is said", NULL, enqueue,
        {{BENCH_CREATE, ALWAYS, BENCH_REFUSE}}, TW_REFUSED, "the key is wrong",
        "none", 0, 0},
    {"a queue whose making was lost is made again", NULL, enqueue,
        {{BENCH_CREATE, 1, 1, BENCH_LOSE_REQUEST}}, TW_OK, NULL, "queued", 1,
        0},
    {"a queue whose making had no answer is made again", NULL, enqueue,
        {{BENCH_CREATE, 1, 1, BENCH_LOSE_ANSWER}}, TW_OK, NULL, "queued", 1, 0},
    {"an entity that was stored without an answer gets a message", NULL,
        enqueue, {{BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER}}, TW_OK, NULL,
        "queued", 1, 0},
    {"without an answer to the entity nothing is on the queue", NULL, enqueue,
        {{BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST},
            {BENCH_GET, 2, UINT_MAX, BENCH_FAIL}},
        TW_UNKNOWN,
        "the store is down; it is unknown whether the run was enqueued: "
        "`enqueue` it again with --id r1, which makes no second run",
        "none", 0, 0},
    {"without an entity nothing is on the queue", NULL, enqueue,
        {{BENCH_BATCH, 1, 1, BENCH_CONFLICT},
            {BENCH_GET, 2, UINT_MAX, BENCH_FAIL}},
        TW_BUSY, "the store is down", "none", 0, 0},
    {"an entity that cannot be withdrawn is said", NULL, enqueue,
        {{BENCH_PUT, ALWAYS, BENCH_FAIL}, {BENCH_BATCH, 2, 2, BENCH_FAIL}},
        TW_BUSY,
        "the store is down; the ledger still has run delete-channel/r1, so a "
        "worker may execute it: cancel it, or enqueue it again",
        "queued", 0, 0},
    {"a known run is not withdrawn when a further put fails", leave_queued,
        enqueue, {{BENCH_PUT, ALWAYS, BENCH_REFUSE}}, TW_REFUSED,
        "the key is wrong", "queued", 1, 0},
    {"a cancel that was lost is made again", leave_queued, cancel,
        {{BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST}}, TW_OK, NULL, "cancelled", 1,
        0},
    {"a cancel of which nothing is known says so", leave_queued, cancel,
        {{BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST},
            {BENCH_GET, 2, UINT_MAX, BENCH_FAIL}},
        TW_BUSY, "the store is down", "queued", 1, 0},
    {"a run that keeps changing is said", leave_queued, cancel,
        {{BENCH_BATCH, ALWAYS, BENCH_CONFLICT}}, TW_BUSY,
        "run delete-channel/r1 changed before each attempt to write it",
        "queued", 1, 0},
    {"a retry whose answer was lost is read back", leave_failed, retry,
        {{BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER}}, TW_OK, NULL, "queued", 1, 1},
    {"deleting a copy is tried twice", leave_failed, retry,
        {{BENCH_DELETE, 1, 1, BENCH_FAIL}}, TW_OK, NULL, "queued", 1, 1},
    {"a copy whose queue is gone is dropped", leave_failed, drop,
        {{BENCH_DELETE, 1, 1, BENCH_GONE}}, TW_OK, NULL, "cancelled", 0, 2},
    {"the message of a moved run cannot be put", leave_stranded, resume,
        {{BENCH_PUT, ALWAYS, BENCH_REFUSE}}, TW_REFUSED,
        "the ledger has the change of run delete-channel/r1, but the message "
        "for a worker could not be put; a worker of its queue finds the run "
        "within ten minutes: the key is wrong",
        "waiting", 0, 0},
};

static void expect_meeting(
    struct workbench *bench, const struct meeting *meeting)
{
    if (meeting->leave)
        meeting->leave(bench);
    for (size_t i = 0; i < 2 && meeting->faults[i].first > 0; i++)
        workbench_meets(bench, meeting->faults[i].call,
            meeting->faults[i].first, meeting->faults[i].last,
            meeting->faults[i].fault);
    err.text[0] = '\0';
    assert_int_equal(meeting->command(bench), meeting->outcome);
    if (meeting->says)
        assert_string_equal(err.text, meeting->says);
    expect_left(bench, meeting->state, meeting->messages);
    assert_int_equal(copies(bench), meeting->copies);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN),
        strcmp(meeting->state, "queued") == 0 ||
            strcmp(meeting->state, "waiting") == 0);
}

TEST(a_command_copes_with_what_the_store_says)
{
    for (size_t i = 0; i < sizeof(MEETINGS) / sizeof(*MEETINGS); i++) {
        void *bench;

        test_case("%s", MEETINGS[i].name);
        (void)workbench_set_up_virtual(&bench);
        expect_meeting(bench, &MEETINGS[i]);
        (void)workbench_tear_down_virtual(&bench);
    }
}
