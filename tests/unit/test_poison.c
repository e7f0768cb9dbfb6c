/* SPDX-License-Identifier: MIT */
/*
 * A message that cannot be understood: a poison copy is put, the run is stored
 * in the ledger, and then the message is deleted, in this order, whatever the
 * store responds. On a virtual clock.
 */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/poison.h"

#define JOB "delete-channel"
#define ALWAYS 1, UINT_MAX

struct fixture {
    struct workbench bench;
    struct messages taken;
    struct lease_message message;
    char id[QUEUE_ID_MAX];
    struct err err;
};

/* Receives the message. If it was received before, first waits until it is
 * visible again. */
static void receive(struct fixture *f)
{
    if (f->taken.count > 0)
        virtual_step_clocks(0, 61000, 61000);
    f->message.sent_ms = workbench_take(&f->bench, BENCH_QUEUE, &f->taken);
    f->message.id = f->taken.list[0].id;
    f->message.pop_receipt = f->taken.list[0].pop_receipt;
    f->message.text = f->taken.list[0].text;
}

static void init(struct fixture *f)
{
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    workbench_init(&f->bench);
    messages_init(&f->taken);
    strcpy(f->id, workbench_put(&f->bench, BENCH_QUEUE, "not json"));
    f->message.queue = BENCH_QUEUE;
    receive(f);
}

static void done(struct fixture *f)
{
    messages_done(&f->taken);
    workbench_done(&f->bench);
    virtual_platform_end();
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

static enum tw_err poison(struct fixture *f, const char *job)
{
    return poison_message(f->bench.store, job, &f->bench.queues[0], &f->message,
        60, "not JSON", &f->err);
}

/* Fails unless the message is still in its queue and the ledger has no run of
 * it. */
static void expect_untouched(struct fixture *f)
{
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 1);
    assert_string_equal(
        workbench_state(&f->bench, LEDGER_UNREADABLE, f->id), "none");
    assert_string_equal(workbench_state(&f->bench, JOB, f->id), "none");
}

static void expect_poisoned(struct fixture *f, const char *job)
{
    struct ledger_run *run = workbench_stored(&f->bench, job, f->id);

    assert_int_equal(run->state, LEDGER_POISONED);
    assert_true(slice_is(run->error, "not JSON"));
    assert_true(slice_is(run->binding, "none"));
    assert_true(run->poison_id.len > 0);
    assert_true(run->finished_ticks > 0);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 1);
    assert_int_equal(workbench_listed(&f->bench, job, LEDGER_INDEX_OPEN), 0);
}

FIXTURE_TEST(it_leaves_a_copy_and_the_reason)
{
    static const struct {
        const char *name;
        struct bench_fault_range meets[2];
        const char *job;
        enum tw_err outcome;
        const char *stored_as; /* job of the stored run; NULL: none, and the
                                  message stays in its queue */
    } cases[] = {
        {"no request fails", {{0}}, LEDGER_UNREADABLE, TW_OK,
            LEDGER_UNREADABLE},
        {"its job is known", {{0}}, JOB, TW_OK, JOB},
        {"the ledger cannot be read", {{BENCH_GET, ALWAYS, BENCH_FAIL}}, JOB,
            TW_BUSY, NULL},
        {"the ledger is busy",
            {{BENCH_GET, 1, 1, BENCH_THROTTLE},
                {BENCH_BATCH, 1, 1, BENCH_THROTTLE}},
            LEDGER_UNREADABLE, TW_OK, LEDGER_UNREADABLE},
        {"there can be no copy", {{BENCH_PUT, ALWAYS, BENCH_FAIL}},
            LEDGER_UNREADABLE, TW_BUSY, NULL},
        {"the ledger is missing", {{BENCH_BATCH, 1, 1, BENCH_GONE}},
            LEDGER_UNREADABLE, TW_OK, LEDGER_UNREADABLE},
        {"the ledger cannot be made",
            {{BENCH_BATCH, ALWAYS, BENCH_GONE},
                {BENCH_CREATE, 2, UINT_MAX, BENCH_REFUSE}},
            LEDGER_UNREADABLE, TW_REFUSED, NULL},
        {"the reason is stored without an answer",
            {{BENCH_BATCH, 1, 1, BENCH_LOSE_ANSWER}}, LEDGER_UNREADABLE, TW_OK,
            LEDGER_UNREADABLE},
        {"whether the reason was stored is unknown",
            {{BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST},
                {BENCH_GET, 2, 2, BENCH_FAIL}},
            LEDGER_UNREADABLE, TW_UNKNOWN, NULL},
        {"what is there under its id cannot be read",
            {{BENCH_GET, 1, 1, BENCH_INVALID}}, JOB, TW_OK, LEDGER_UNREADABLE},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        done(f);
        memset(f, 0, sizeof(*f));
        init(f);
        workbench_meets_each(&f->bench, cases[i].meets, 2);
        assert_int_equal(poison(f, cases[i].job), cases[i].outcome);
        if (cases[i].stored_as) {
            expect_poisoned(f, cases[i].stored_as);
            continue;
        }
        expect_untouched(f);
        f->bench.fault_count = 0; /* the next delivery poisons it */
        assert_ok(poison(f, cases[i].job));
        assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 0);
    }
}

/* It is not known whether the first delivery has put a poison copy. While the
 * poison queue does not respond, no later delivery puts another one. */
FIXTURE_TEST(a_message_that_comes_again_is_put_where_the_queue_answers)
{
    f->message.dequeue_count = 1;
    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    workbench_meets(&f->bench, BENCH_PUT, 1, 1, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_PEEK, ALWAYS, BENCH_LOSE_REQUEST);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poison(f, LEDGER_UNREADABLE), TW_UNKNOWN);
        expect_untouched(f);
        assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 1);
        receive(f);
        f->message.dequeue_count = f->taken.list[0].dequeue_count;
    }
    f->bench.fault_count = 0;
    assert_ok(poison(f, LEDGER_UNREADABLE));
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 0);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE "-poison"), 2);
}

FIXTURE_TEST(somebody_else_s_insert_is_as_good)
{
    assert_ok(poison(f, LEDGER_UNREADABLE));
    assert_ok(poison(f, LEDGER_UNREADABLE)); /* a second delivery: the run is
                                                stored, so only the message is
                                                deleted */
    expect_poisoned(f, LEDGER_UNREADABLE);
    workbench_meets(&f->bench, BENCH_GET, 1, 1, BENCH_GONE);
    assert_ok(poison(f, LEDGER_UNREADABLE));
    assert_string_equal(
        workbench_state(&f->bench, LEDGER_UNREADABLE, f->id), "poisoned");
}

FIXTURE_TEST(a_run_that_has_the_id_keeps_it)
{
    struct ledger_run *run = workbench_football(&f->bench, f->id);

    run->queue = slice_of(BENCH_QUEUE);
    assert_ok(workbench_store_run(&f->bench, run));
    assert_ok(poison(f, JOB));
    assert_string_equal(workbench_state(&f->bench, JOB, f->id), "queued");
    expect_poisoned(f, LEDGER_UNREADABLE);
}

/* ---- a message whose visibility timeout has ended ---- */

static struct fixture *slow;
static struct messages taken_again;

/* Advances the clock, as if this worker were stopped or its machine suspended,
 * until another worker has received and poisoned the message. */
BENCH_BETWEEN(another_is_faster)
{
    struct lease_message message = slow->message;
    struct err err;

    bench->between = NULL;
    virtual_step_clocks(0, 61000, 61000);
    message.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken_again);
    message.pop_receipt = taken_again.list[0].pop_receipt;
    message.dequeue_count = taken_again.list[0].dequeue_count;
    assert_int_equal(message.dequeue_count, 2);
    assert_ok(poison_message(bench->wrapped.inner, LEDGER_UNREADABLE,
        &bench->queues[0], &message, 60, "not JSON", &err));
}

BENCH_BETWEEN(pause_before_the_put)
{
    if (call == BENCH_PUT)
        another_is_faster(bench, call, n);
}

BENCH_BETWEEN(slow_ledger_and_pause)
{
    if (call == BENCH_GET)
        virtual_step_clocks(0, 20000, 20000);
    if (call == BENCH_RENEW)
        another_is_faster(bench, call, n);
}

static void check_one_copy(struct fixture *f,
    void (*between)(struct workbench *, enum bench_call, unsigned),
    enum tw_err outcome)
{
    slow = f;
    messages_init(&taken_again);
    f->message.dequeue_count = 1;
    f->bench.between = between;
    assert_int_equal(poison(f, LEDGER_UNREADABLE), outcome);
    assert_null(f->bench.between);
    expect_poisoned(f, LEDGER_UNREADABLE);
    messages_done(&taken_again);
}

FIXTURE_TEST(a_copy_is_put_no_later_than_the_message_is_ours)
{
    check_one_copy(f, pause_before_the_put, TW_STOPPED);
}

FIXTURE_TEST(a_message_that_another_has_received_is_not_copied)
{
    check_one_copy(f, slow_ledger_and_pause, TW_CONFLICT);
}

/* The visibility timeout is over, but no other worker has received the message.
 * So this worker renews it for another visibility timeout. */
FIXTURE_TEST(a_message_that_is_poisoned_late_is_renewed)
{
    virtual_step_clocks(0, 70000, 70000);
    assert_ok(poison(f, LEDGER_UNREADABLE));
    assert_int_equal(f->bench.calls[BENCH_RENEW], 1);
    expect_poisoned(f, LEDGER_UNREADABLE);
}
