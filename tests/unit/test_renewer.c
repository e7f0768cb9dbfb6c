/* SPDX-License-Identifier: MIT */
/* The renewer: renewals, checkpoints, a lost lease, cancel, slow and missing
 * responses. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/control.h"
#include "worker/run/renewer.h"
#include "worker/store/request_pool.h"

#define JOB "delete-channel"

/* A run with its lease and its renewal, as an attempt has them. */
struct held {
    struct workbench *bench;
    struct lease lease;
    struct run run;
    struct renewal *renewal; /* NULL: let_go() has stopped it */
    bool progress;
};

static struct held held; /* the run of the current test */

static struct err last_err;

static enum lease_status let_go(void)
{
    enum lease_status word = renewal_stop(held.renewal, &held.progress);

    pool_client_free(held.run.pool_client);
    held.renewal = NULL;
    return word;
}

/* Stops the renewal, unless the test has stopped it. The lease must still be
 * valid then. */
static void end_held(void)
{
    if (held.renewal)
        assert_int_equal(let_go(), LEASE_VALID);
    lease_done(&held.lease);
}

static int set_up(void **state)
{
    (void)workbench_set_up(state);
    ((struct workbench *)*state)->setup.visibility_timeout_s = 2;
    return 0;
}

/* After a failed test the renewal still runs and uses the workbench, so nothing
 * is freed. */
static int tear_down(void **state)
{
    if (!test_passed())
        return 0;
    end_held();
    return workbench_tear_down(state);
}

static int tear_down_virtual(void **state)
{
    (void)tear_down(state);
    virtual_platform_end();
    return 0;
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, tear_down, struct workbench *bench)
#define VIRTUAL_TEST(name)                                                     \
    TEST_WITH(name, workbench_set_up_virtual, tear_down_virtual,               \
        struct workbench *bench)

/* Starts a renewal of the lease in `held`. */
static void keep_again(void)
{
    held.run.pool_client =
        pool_client_new(held.bench->request_pool, &held.lease.deadline);
    held.renewal = renewal_start(
        held.bench->renewer, &held.lease, &held.run, held.run.pool_client);
}

static void hold_after(struct workbench *bench, bool message, int64_t wait_ms)
{
    struct lease_request request = workbench_lease_request(bench, "r1");
    struct lease_message wake_up = {.queue = BENCH_QUEUE};
    struct messages taken;
    enum tw_err outcome;

    held = (struct held){.bench = bench};
    messages_init(&taken);
    if (message) {
        workbench_put(bench, BENCH_QUEUE, "wake-up");
        wake_up.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
        wake_up.id = taken.list[0].id;
        wake_up.pop_receipt = taken.list[0].pop_receipt;
        wake_up.text = taken.list[0].text;
        request.message = &wake_up;
    }
    lease_init(&held.lease, &request);
    assert_int_equal(lease_acquire(&held.lease, &request, &outcome, &last_err),
        LEASE_ACQUIRED);
    messages_done(&taken);
    held.run.job = JOB;
    held.run.deadline = &held.lease.deadline;
    if (wait_ms > 0)
        virtual_sleep(wait_ms);
    keep_again();
}

static void hold(struct workbench *bench, bool message)
{
    hold_after(bench, message, 0);
}

static int set_up_held(void **state)
{
    (void)workbench_set_up_virtual(state);
    hold(*state, false);
    return 0;
}

/* HELD_TEST: the run has a lease, but no message. */
#define HELD_TEST(name)                                                        \
    TEST_WITH(name, set_up_held, tear_down_virtual, struct workbench *bench)

static bool is_open(void)
{
    return deadline_is_open(&held.lease.deadline, platform_boot_ms());
}

static enum tw_err enter_parent(const char *checkpoint)
{
    return renewal_phase(
        held.renewal, "parent", slice_of(checkpoint), &last_err);
}

/* Asks for the cancel of the run, as a person does. */
static void cancel(struct workbench *bench)
{
    bool asked;

    assert_ok(control_cancel(bench->wrapped.inner, slice_of(JOB),
        slice_of("r1"), workbench_new_run(bench), &asked, &last_err));
    assert_true(asked);
}

static unsigned calls(struct workbench *bench, enum bench_call call)
{
    unsigned n;

    workbench_locked(bench, n = bench->calls[call]);
    return n;
}

static unsigned writes(struct workbench *bench)
{
    unsigned n;

    workbench_locked(bench, n = bench->ledger_writes);
    return n;
}

static bool four_renewals(struct workbench *bench)
{
    return calls(bench, BENCH_RENEW) >= 4;
}

FIXTURE_TEST(a_lease_outlives_its_visibility_timeout)
{
    int64_t began_ms = platform_boot_ms();

    hold(bench, true);
    workbench_wait(bench, four_renewals);
    assert_true(platform_boot_ms() - began_ms > 2000);
    assert_true(is_open());
    /* The ledger is written about once for each renewal of the message. */
    assert_true(writes(bench) <= calls(bench, BENCH_RENEW) + 2);
    assert_int_equal(let_go(), LEASE_VALID);
    lease_delete_message(&held.lease); /* with the newest PopReceipt */
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

static void stays_open(int seconds)
{
    for (int s = 0; s < seconds; s++) {
        virtual_sleep(1000);
        assert_int_equal(renewal_status(held.renewal), LEASE_VALID);
        assert_true(is_open());
    }
}

/* For 16 runs there are several threads: one waits for the next renewal while
 * another sends one. */
VIRTUAL_TEST(several_threads_keep_one_lease)
{
    renewer_free(bench->renewer);
    bench->renewer = renewer_new(16);
    hold(bench, false);
    stays_open(300);
}

/* As after a reload with more `slots`: threads are added while one thread
 * renews the lease. */
VIRTUAL_TEST(threads_are_added_beside_a_lease)
{
    renewer_free(bench->renewer);
    bench->renewer = renewer_new(1);
    hold(bench, false);
    stays_open(5);
    renewer_set_runs(bench->renewer, 256);
    stays_open(300);
}

/* Checkpoints are stored every 5 s, however long the visibility timeout is. So
 * a crash repeats the work of 5 s at most. */
VIRTUAL_TEST(the_newest_checkpoint_comes_with_a_renewal)
{
    struct ledger_run *run;
    unsigned before;

    bench->setup.visibility_timeout_s = 7200;
    hold(bench, false);
    virtual_sleep(62000);
    before = writes(bench);
    atomic_fetch_add(&held.run.counts.read, 11);
    renewal_save(held.renewal, slice_of("{\"at\":1}"), true);
    renewal_save(held.renewal, slice_of("{\"at\":2}"), false);
    assert_int_equal(writes(bench), before);
    virtual_sleep(5100);
    run = workbench_stored(bench, JOB, "r1");
    assert_true(slice_is(run->checkpoint, "{\"at\":2}"));
    assert_int_equal(run->read, 11);
    assert_int_equal(run->silent, 0);
    assert_int_equal(let_go(), LEASE_VALID);
    assert_true(held.progress);
}

static bool accepts_again(void)
{
    return atomic_load(&held.run.accept_deletes);
}

static bool accepts_none(struct workbench *bench)
{
    return !workbench_stored(bench, JOB, "r1")->accept_deletes;
}

/* Does what `enqueue JOB --id r1 --accept-deletes` does while r1 is
 * executed. */
static void accept_deletes(struct workbench *bench)
{
    static struct slice names[] = {{"channel", 7}},
                        values[] = {{"Football", 8}};
    struct control_enqueue order = {.queue = &bench->queues[0],
        .job = &bench->job,
        .args = {1, names, values},
        .id = slice_of("r1"),
        .accept_deletes = true};
    struct err err;
    char id[129];

    assert_ok(control_enqueue(bench->store, &order, id, &err));
}

/* Ends the acceptance of deletes and saves a checkpoint, as a copy does after
 * the round that used the acceptance. */
static void complete_round(void)
{
    atomic_store(&held.run.accept_deletes, false);
    renewal_save(held.renewal, slice_of("{\"round\":2}"), true);
}

/* The end of the acceptance and the checkpoint are stored in one write. If a
 * process crashed between two writes, the next round could delete without
 * acceptance, or the repeated round would be refused. */
HELD_TEST(an_acceptance_ends_with_the_checkpoint_of_the_next_round)
{
    accept_deletes(bench);
    virtual_sleep(6000);
    assert_true(accepts_again());
    atomic_store(&held.run.accept_deletes, false);
    virtual_sleep(6000); /* the kind has saved nothing yet */
    assert_false(accepts_none(bench));
    complete_round();
    virtual_sleep(6000);
    assert_true(accepts_none(bench));
    assert_true(slice_is(
        workbench_stored(bench, JOB, "r1")->checkpoint, "{\"round\":2}"));
    accept_deletes(bench); /* a person accepts deletes again */
    virtual_sleep(6000);
    assert_true(accepts_again());
    assert_false(accepts_none(bench));
}

/* When a person accepts deletes again, the ledger still has the acceptance that
 * the last round used. The new acceptance would be lost if it were taken for
 * the old one. */
HELD_TEST(deletes_accepted_before_the_used_acceptance_is_removed_count)
{
    accept_deletes(bench);
    virtual_sleep(6000);
    assert_true(accepts_again());
    complete_round();
    assert_false(accepts_none(bench));
    accept_deletes(bench);
    virtual_sleep(6000);
    assert_true(accepts_again());
    assert_false(accepts_none(bench));
}

HELD_TEST(a_phase_is_stored_before_the_call_returns)
{
    static const struct {
        const char *name, *checkpoint;
        unsigned fails;
        enum bench_fault fault;
        unsigned writes;
        int64_t most_ms;
    } cases[] = {
        {"at once", "{\"at\":1}", 0, BENCH_PASS, 1, 100},
        {"its answer is lost", "{\"at\":2}", 1, BENCH_LOSE_ANSWER, 1, 100},
        {"it is refused once", "{\"at\":3}", 1, BENCH_FAIL, 2, 3000},
        {"it is refused twice", "{\"at\":4}", 2, BENCH_FAIL, 3, 30000},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        unsigned before = writes(bench);
        int64_t began_ms = platform_boot_ms();
        struct ledger_run *run;

        test_case("%s", cases[i].name);
        bench->fault_count = 0;
        workbench_meets(bench, BENCH_BATCH, 1, cases[i].fails, cases[i].fault);
        assert_ok(enter_parent(cases[i].checkpoint));
        assert_true(platform_boot_ms() - began_ms < cases[i].most_ms);
        run = workbench_stored(bench, JOB, "r1");
        assert_true(slice_is(run->phase, "parent"));
        assert_true(slice_is(run->checkpoint, cases[i].checkpoint));
        assert_int_equal(writes(bench) - before, cases[i].writes);
    }
}

/* Writes the run's entity, as another process would, with Epoch raised by
 * `epochs`. */
static void meddle(struct workbench *bench, int32_t epochs)
{
    struct ledger_run *run = workbench_stored(bench, JOB, "r1");

    run->epoch += epochs;
    assert_ok(workbench_store_run(bench, run));
}

static bool overtaken(struct workbench *bench)
{
    return renewal_status(held.renewal) == LEASE_LOST;
}

FIXTURE_TEST(another_epoch_closes_the_deadline)
{
    hold(bench, true);
    meddle(bench, 1);
    workbench_wait(bench, overtaken);
    assert_false(is_open());
    assert_int_equal(enter_parent("{}"), TW_STOPPED);
    assert_string_equal(
        last_err.text, "the phase 'parent' could not be written to the ledger");
    assert_int_equal(let_go(), LEASE_LOST);
}

FIXTURE_TEST(a_changed_etag_of_ours_is_an_echo)
{
    hold(bench, false);
    meddle(bench, 0);
    assert_ok(enter_parent("{}"));
}

static bool cancelled(struct workbench *bench)
{
    return renewal_asked(held.renewal) == LEASE_ASKED_CANCEL;
}

FIXTURE_TEST(a_cancelled_run_is_told_within_a_renewal)
{
    hold(bench, true);
    cancel(bench);
    workbench_wait(bench, cancelled);
    /* The lease is kept, so that requests in flight can complete. */
    assert_true(is_open());
    assert_int_equal(let_go(), LEASE_VALID);
    assert_ok(ledger_move(&held.lease.run, LEDGER_QUEUED, &last_err));
    assert_int_equal(lease_release(&held.lease, &last_err), LEASE_VALID);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
}

/* Replaces standard error by a full pipe. *ret_was: the former standard error.
 * Returns the end from which the pipe is read. */
static int fill_standard_error(int *ret_was)
{
    static const char bytes[4096];
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    *ret_was = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(ends[1]), 0);
    return ends[0];
}

/* A thread that cannot write to the log must not hold a lock that threads of
 * other runs, or the end of the process, need. */
FIXTURE_TEST(a_log_that_takes_no_more_lines_holds_no_lock)
{
    char bytes[4096];
    int was, from;

    hold(bench, true);
    log_set_level(LOG_INFO);
    from = fill_standard_error(&was);
    alarm(30);
    cancel(bench);
    workbench_wait(bench, cancelled);
    alarm(0);
    assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
    while (read(from, bytes, sizeof(bytes)) > 0)
        ;
    assert_int_equal(let_go(), LEASE_VALID);
    (void)close(from);
    (void)close(was);
}

static bool message_gone(struct workbench *bench)
{
    return calls(bench, BENCH_RENEW) >= 1 && writes(bench) >= 4;
}

FIXTURE_TEST(a_lost_message_does_not_end_the_lease)
{
    struct exchange exchange = {0};
    char receipt[QUEUE_RECEIPT_MAX];

    hold(bench, true);
    /* Another receiver now has the message. */
    memcpy(receipt, held.lease.pop_receipt, sizeof(receipt));
    assert_ok(store_queue_renew(bench->wrapped.inner, &exchange, BENCH_QUEUE,
        slice_of(held.lease.message_id), receipt, 100));
    workbench_wait(bench, message_gone);
    assert_true(is_open());
    assert_int_equal(let_go(), LEASE_VALID);
    assert_false(held.lease.has_message);
    lease_delete_message(&held.lease);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

/* ---- outages, on a virtual clock ---- */

/* 45 s pass after the lease was acquired and before the renewal starts: the
 * renewals of the lease and of the message are overdue. */
VIRTUAL_TEST(an_overdue_renewal_is_sent_at_once)
{
    unsigned before;

    hold_after(bench, true, 45000);
    before = writes(bench);
    virtual_sleep(100);
    assert_int_equal(calls(bench, BENCH_RENEW), 1);
    assert_int_equal(writes(bench), before + 1);
}

/* Delays each renewal of the message by 25 s. The renewal fails afterwards. */
BENCH_BETWEEN(answer_messages_late)
{
    if (call == BENCH_RENEW)
        virtual_sleep(25000);
}

VIRTUAL_TEST(a_silent_queue_service_costs_no_lease)
{
    bench->setup.visibility_timeout_s = 4;
    hold(bench, true);
    bench->between = answer_messages_late;
    workbench_meets(bench, BENCH_RENEW, 1, UINT_MAX, BENCH_FAIL);
    stays_open(120);
    assert_true(calls(bench, BENCH_RENEW) > 3);
    /* let_go() waits for the last renewal of the message; meanwhile the lease
     * is renewed. */
    assert_int_equal(let_go(), LEASE_VALID);
    assert_true(is_open());
}

HELD_TEST(a_phase_that_cannot_be_stored_says_why)
{
    workbench_meets(bench, BENCH_BATCH, 1, UINT_MAX, BENCH_FAIL);
    assert_int_equal(enter_parent("{}"), TW_STOPPED);
    assert_non_null(strstr(last_err.text,
        "the phase 'parent' could not be written to the ledger: "));
    assert_int_equal(let_go(), LEASE_LOST);
    assert_false(is_open());
}

/* The ledger refuses the ETag of the run, and the first read of the ledger
 * fails. */
HELD_TEST(an_echo_that_cannot_be_read_at_once_is_read_later)
{
    unsigned before = writes(bench);

    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_CONFLICT);
    workbench_meets(bench, BENCH_BATCH, 2, 2, BENCH_GONE);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    virtual_sleep(30000);
    assert_true(writes(bench) >= before + 3);
    assert_int_equal(renewal_status(held.renewal), LEASE_VALID);
    assert_true(held.lease.deadline_ms > platform_boot_ms() + 30000);
}

/* The lease is 2 s long, a response takes 200 ms, and some renewals fail. Each
 * renewal is sent early enough for a second try. */
VIRTUAL_TEST(a_slow_connection_never_finds_the_deadline_closed)
{
    int64_t until_ms;

    bench->setup.visibility_timeout_s = 2;
    bench->delay_ms = 200;
    hold(bench, true);
    for (unsigned n = 10; n <= 40; n += 10)
        workbench_meets(bench, BENCH_BATCH, n, n, BENCH_FAIL);
    until_ms = platform_boot_ms() + 60000;
    while (is_open() && platform_boot_ms() < until_ms)
        virtual_sleep(5);
    assert_true(platform_boot_ms() >= until_ms);
    assert_int_equal(let_go(), LEASE_VALID);
    assert_true(calls(bench, BENCH_BATCH) > 40);
}

/* A response takes 20 s, and the lease is a minute long. So a renewal must
 * always be in flight. */
HELD_TEST(very_slow_answers_are_asked_for_all_the_time)
{
    workbench_locked(bench, bench->delay_ms = 20000);
    stays_open(600);
}

static void fail_twelve(void)
{
    char line[32];

    for (int i = 0; i < 12; i++) {
        (void)snprintf(line, sizeof(line), "line %d", i);
        renewal_failed(held.renewal, line);
    }
}

/* Starts the renewal of the next attempt of a run; `failed` lists the entities
 * that failed before. */
static void keep_again_after(const char *failed)
{
    held.lease.run.failed_entities =
        ledger_text(&held.lease.run, slice_of(failed));
    keep_again();
}

static void expect_failed(const char *failed)
{
    assert_int_equal(let_go(), LEASE_VALID);
    assert_true(slice_is(held.lease.run.failed_entities, failed));
}

#define FIRST_TEN                                                              \
    "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n" \
    "line 9"

HELD_TEST(the_first_ten_that_failed_are_kept)
{
    fail_twelve();
    expect_failed(FIRST_TEN);
    /* The list is full, so another attempt of the run adds nothing to it. */
    keep_again();
    renewal_failed(held.renewal, "eleven");
    expect_failed(FIRST_TEN);
    /* The list has two entities, so the attempt adds a third one. */
    keep_again_after("one\ntwo");
    renewal_failed(held.renewal, "three");
    expect_failed("one\ntwo\nthree");
}

/* The ledger has the list of an earlier attempt. Once the list is dropped, it
 * takes the next ten entities that fail. */
HELD_TEST(what_failed_in_an_earlier_attempt_is_dropped_too)
{
    assert_int_equal(let_go(), LEASE_VALID);
    keep_again_after("one\ntwo");
    renewal_failed(held.renewal, "before");
    renewal_forget_failed(held.renewal);
    fail_twelve();
    expect_failed(FIRST_TEN);
}

/* After a slow response the interval of renewals is shorter, but only for a
 * while. */
HELD_TEST(one_slow_answer_is_forgotten)
{
    unsigned before;

    bench->delay_ms = 14000;
    virtual_sleep(10000);
    bench->delay_ms = 0;
    before = writes(bench);
    virtual_sleep(100000);
    assert_in_range(writes(bench) - before, 17, 22);
}

static enum tw_err busy_once(
    struct pool_request *task, struct exchange *exchange)
{
    exchange->sent_ms = platform_boot_ms();
    exchange->retry_after_ms = 0;
    if (task->retry.tries > 1)
        return TW_OK;
    exchange->http_status = 503;
    return err_fail(&exchange->err, TW_BUSY, "503, as the test wants");
}

HELD_TEST(throttled_requests_are_counted_in_the_ledger)
{
    struct pool_request task = {.send = busy_once, .repeatable = true};

    assert_ok(request_pool_call(held.run.pool_client, &task));
    assert_int_equal(let_go(), LEASE_VALID);
    assert_int_equal(held.lease.run.throttled, 1);
}
