/* SPDX-License-Identifier: MIT */
/*
 * A worker beside other processes of its host: it continues the runs of
 * processes that have died, and no other runs. In these tests each open lock
 * file represents a process, and notes the runs that the process owns. Closing
 * the lock file represents the end of the process, at which the kernel closes
 * it.
 */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/consumer.h"
#include "worker/run/lease.h"
#include "worker/run/lock_file.h"
#include "worker/run/orphans.h"
#include "worker/run/single.h"

#define JOB "delete-channel"
#define ARGS "{\"channel\":\"Football\"}"
#define MESSAGE(id) "{\"job\":\"" JOB "\",\"args\":" ARGS ",\"id\":\"" id "\"}"
#define ALWAYS 1, UINT_MAX
#define TIMEOUT_S 60

/* Another process of this host, which owns runs. */
struct other {
    struct lock_file *lock_file;
    struct lease lease;
    struct messages taken;
};

struct fixture {
    struct workbench bench;
    struct lock_file *lock_file; /* lock file of this process */
    struct other other;
    struct lease lease;
    enum tw_err outcome;
    struct err err;
};

static void init(struct fixture *f)
{
    char folder[] = "same-host.XXXXXX";

    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    workbench_init(&f->bench);
    assert_non_null(mkdtemp(folder));
    f->bench.definition.lock_folder = mem_text(folder, strlen(folder));
    f->lock_file = definition_lock_file(&f->bench.definition);
    f->other.lock_file = definition_lock_file(&f->bench.definition);
    assert_non_null(f->lock_file);
    assert_non_null(f->other.lock_file);
    messages_init(&f->other.taken);
}

static void done(struct fixture *f)
{
    lease_done(&f->lease);
    messages_done(&f->other.taken);
    lock_file_close(f->other.lock_file);
    lock_file_close(f->lock_file);
    mem_free((char *)(uintptr_t)f->bench.definition.lock_folder);
    workbench_done(&f->bench);
    virtual_platform_end();
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

/* ---- the other process ---- */

/* The other process tries to acquire the lease of a run, as a worker does, but
 * without a message. */
static enum lease_outcome other_tries(struct fixture *f, const char *id)
{
    struct lease_request request = workbench_lease_request(&f->bench, id);

    request.lock_file = f->other.lock_file;
    lease_init(&f->other.lease, &request);
    return lease_acquire(&f->other.lease, &request, &f->outcome, &f->err);
}

static void other_claims(struct fixture *f, const char *id)
{
    assert_int_equal(other_tries(f, id), LEASE_ACQUIRED);
}

/* Puts a message with this text, which the other process receives. */
static void other_takes(struct fixture *f, const char *queue, const char *text)
{
    (void)workbench_put(&f->bench, queue, text);
    (void)workbench_take(&f->bench, queue, &f->other.taken);
}

/* The other process dies: its lock file is closed, and its memory is freed. */
static void other_dies(struct fixture *f)
{
    lock_file_close(f->other.lock_file);
    f->other.lock_file = f->other.lease.lock_file = NULL;
    lease_done(&f->other.lease);
}

/* One more process acquires the lease of r1 and dies. max_attempts is 2. */
static void other_crashes(struct fixture *f)
{
    if (!f->other.lock_file)
        f->other.lock_file = definition_lock_file(&f->bench.definition);
    other_claims(f, "r1");
    other_dies(f);
}

/* ---- acquiring ---- */

/* A process with this lock file (NULL: without one) tries to acquire the lease
 * of r1. The outcome must be `wanted`. */
static void expect_take(
    struct fixture *f, struct lock_file *lock_file, enum lease_outcome wanted)
{
    struct lease_request request = workbench_lease_request(&f->bench, "r1");

    request.lock_file = lock_file;
    lease_done(&f->lease);
    lease_init(&f->lease, &request);
    assert_int_equal(
        lease_acquire(&f->lease, &request, &f->outcome, &f->err), wanted);
}

/* This process must acquire the lease of r1. */
static void expect_taken(struct fixture *f)
{
    expect_take(f, f->lock_file, LEASE_ACQUIRED);
}

static void expect_held(struct fixture *f)
{
    expect_take(f, f->lock_file, LEASE_HELD);
}

FIXTURE_TEST(the_lease_of_a_dead_owner_is_no_obstacle)
{
    int64_t began_ms = platform_boot_ms();

    other_claims(f, "r1");
    expect_held(f);
    other_dies(f);
    expect_taken(f);
    assert_true(platform_boot_ms() - began_ms < 2000);
    assert_int_equal(f->lease.run.epoch, 2);
    /* Rule A4: requests of the dead process may still arrive. */
    assert_true(f->lease.previous_owner_crashed);
}

/* A process died. Then a process without a lock file, for example of an older
 * version, acquired the lease. No lock file shows whether the second process
 * lives, so the end of its lease must be waited for. */
FIXTURE_TEST(the_lock_file_is_the_owner_s_and_not_the_run_s)
{
    f->bench.setup.max_attempts = 5; /* no attempt waits for CRASHED_SPACING */
    other_crashes(f);
    virtual_sleep(70000);
    expect_take(f, NULL, LEASE_ACQUIRED);
    expect_held(f);
}

/* Two processes died, and the run made no progress between their attempts. The
 * next attempt waits for CRASHED_SPACING, as it does if no lock file shows the
 * deaths. */
FIXTURE_TEST(crashed_attempts_are_spaced_all_the_same)
{
    other_crashes(f);
    other_crashes(f);
    expect_held(f);
    virtual_sleep(10 * TIMEOUT_S * 1000);
    expect_held(f);
    virtual_sleep((TIMEOUT_S + 4) * 1000);
    expect_taken(f);
}

FIXTURE_TEST(a_run_that_crashed_its_workers_is_cancelled_at_once)
{
    other_crashes(f);
    other_crashes(f);
    expect_held(f);
    assert_true(workbench_cancel(&f->bench, "r1"));
    expect_take(f, f->lock_file, LEASE_RUN_ENDED);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "cancelled");
}

/* A run is to be cancelled, but an attempt must first complete its load. This
 * attempt may crash, too, so it also waits for CRASHED_SPACING. */
FIXTURE_TEST(an_attempt_that_completes_a_load_before_a_cancel_is_spaced)
{
    f->bench.kind.ends_load = true;
    other_crashes(f);
    other_crashes(f);
    assert_true(workbench_cancel(&f->bench, "r1"));
    expect_held(f);
    virtual_sleep(12 * TIMEOUT_S * 1000);
    expect_taken(f);
}

/* Without a lock file the run is cancelled when the lease has expired. */
FIXTURE_TEST(a_cancel_waits_for_the_lease_and_not_for_the_spacing)
{
    other_crashes(f);
    other_crashes(f);
    assert_true(workbench_cancel(&f->bench, "r1"));
    expect_take(f, NULL, LEASE_HELD);
    virtual_sleep((TIMEOUT_S + 4) * 1000);
    expect_take(f, NULL, LEASE_RUN_ENDED);
}

/* The message becomes visible every 5 s, so that a worker sees a `pause` or
 * `cancel`. */
FIXTURE_TEST(
    the_message_of_a_run_that_crashed_its_workers_is_not_hidden_for_long)
{
    struct lease_request request = workbench_lease_request(&f->bench, "r1");
    struct lease_message message = {.queue = BENCH_QUEUE,
        .id = slice_of("m1"),
        .pop_receipt = slice_of("p1"),
        .text = slice_of("{}"),
        .dequeue_count = 2};

    request.message = &message;
    request.lock_file = f->lock_file;
    other_crashes(f);
    other_crashes(f);
    virtual_sleep(40000); /* for i = 0 the lease is still valid, for i = 1 it
                             has expired */
    for (int i = 0; i < 2; i++) {
        lease_done(&f->lease);
        lease_init(&f->lease, &request);
        assert_int_equal(
            lease_acquire(&f->lease, &request, &f->outcome, &f->err),
            LEASE_HELD);
        assert_true(
            f->lease.until_ticks <= f->lease.date_ticks + 5 * TICKS_PER_S);
        virtual_sleep(TIMEOUT_S * 1000);
    }
}

/* The owner died before it saw the `cancel`. */
FIXTURE_TEST(what_the_dead_was_asked_is_done_at_once)
{
    other_claims(f, "r1");
    assert_true(workbench_cancel(&f->bench, "r1"));
    other_dies(f);
    expect_take(f, f->lock_file, LEASE_RUN_ENDED);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "cancelled");
}

/* ---- what an owner notes ---- */

static void count_found(void *context, struct slice job, struct slice id)
{
    (*(unsigned *)context)++;
}

/* Lets the other process die. Returns the number of runs that its lock file
 * notes. */
static unsigned noted_by_the_dead(struct fixture *f)
{
    unsigned found = 0;

    other_dies(f);
    lock_file_find_dead(f->lock_file, count_found, &found);
    return found;
}

static void let_go(struct fixture *f)
{
    assert_ok(ledger_move(&f->other.lease.run, LEDGER_QUEUED, &f->err));
    (void)lease_release(&f->other.lease, &f->err);
    lease_done(&f->other.lease);
}

FIXTURE_TEST(a_run_that_was_let_go_of_is_not_noted)
{
    other_claims(f, "r1");
    let_go(f);
    assert_int_equal(noted_by_the_dead(f), 0);
}

/* The store does not respond, so the lease stays in the ledger. */
FIXTURE_TEST(a_run_that_could_not_be_let_go_of_stays_noted)
{
    other_claims(f, "r1");
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_FAIL);
    let_go(f);
    assert_int_equal(noted_by_the_dead(f), 1);
}

/* No response came, but the lease may be stored. */
FIXTURE_TEST(a_claim_without_an_answer_is_noted)
{
    workbench_meets(&f->bench, BENCH_BATCH, ALWAYS, BENCH_LOSE_ANSWER);
    workbench_meets(&f->bench, BENCH_GET, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(other_tries(f, "r1"), LEASE_OUTAGE);
    lease_done(&f->other.lease);
    assert_int_equal(noted_by_the_dead(f), 1);
}

FIXTURE_TEST(a_run_that_another_one_has_is_not_noted)
{
    expect_taken(f);
    assert_int_equal(other_tries(f, "r1"), LEASE_HELD);
    lease_done(&f->other.lease);
    assert_int_equal(noted_by_the_dead(f), 0);
}

FIXTURE_TEST(an_overtaken_run_is_not_noted)
{
    struct ledger_run *run;

    other_claims(f, "r1");
    run = workbench_stored(&f->bench, JOB, "r1");
    run->owner = slice_of("somebody");
    run->epoch++;
    assert_ok(workbench_store_run(&f->bench, run));
    assert_int_equal(
        lease_write_run(&f->other.lease, NULL, &f->err), LEASE_LOST);
    lease_done(&f->other.lease);
    assert_int_equal(noted_by_the_dead(f), 0);
}

/* ---- finding the runs of dead processes ---- */

static unsigned found_among_orphans(struct fixture *f)
{
    struct orphans orphans;
    enum walk_step step;
    unsigned found = 0;

    orphans_init(&orphans, NULL, f->lock_file);
    orphans_use(&orphans, &f->bench.definition);
    orphans_begin(&orphans);
    do {
        step = orphans_step(&orphans, &f->err);
        found += step == WALK_FOUND;
    } while (step == WALK_MORE || step == WALK_FOUND);
    orphans_done(&orphans);
    return found;
}

/* If the notes are lost, the pass that is made every ten minutes finds the
 * run. */
FIXTURE_TEST(a_pass_finds_the_runs_of_the_dead_too)
{
    other_claims(f, "r1");
    assert_int_equal(found_among_orphans(f), 0);
    other_dies(f);
    assert_int_equal(found_among_orphans(f), 1);
}

/* A noted run may have ended, or may have another owner by now. One request for
 * each note shows this. */
FIXTURE_TEST(a_note_that_is_no_longer_true_is_passed_over)
{
    struct orphans orphans;
    unsigned gets;

    other_claims(f, "r1");
    (void)lock_file_note(f->other.lock_file, slice_of(JOB), slice_of("gone"));
    (void)lock_file_note(f->other.lock_file, slice_of("other"), slice_of("r"));
    other_dies(f);
    expect_taken(f);
    orphans_init(&orphans, NULL, f->lock_file);
    orphans_use(&orphans, &f->bench.definition);
    gets = f->bench.calls[BENCH_GET];
    assert_true(orphans_find_dead(&orphans));
    for (int i = 0; i < 3; i++)
        assert_int_equal(orphans_step(&orphans, &f->err), WALK_MORE);
    assert_int_equal(orphans_step(&orphans, &f->err), WALK_DONE);
    assert_int_equal(f->bench.calls[BENCH_GET] - gets, 3);
    assert_false(orphans_find_dead(&orphans));
    orphans_done(&orphans);
}

/* ---- a worker ---- */

static struct {
    struct consumer *consumer;
    struct consumer_result result;
    enum tw_err outcome;
    struct err err;
    struct platform_thread thread;
} worker;

static void run_worker(void *arg)
{
    worker.outcome = consumer_run(worker.consumer, &worker.result, &worker.err);
}

static void make_worker(struct fixture *f, struct lock_file *lock_file)
{
    const struct consumer_options options = {
        .definition = definition_hold(&f->bench.definition),
        .lock_file = lock_file};

    memset(&worker, 0, sizeof(worker));
    worker.consumer = consumer_new(&options);
}

static void start_with(struct fixture *f, struct lock_file *lock_file)
{
    make_worker(f, lock_file);
    platform_start(&worker.thread, "service", run_worker, NULL);
}

static void start(struct fixture *f)
{
    start_with(f, f->lock_file);
}

static void stop(void)
{
    consumer_stop(worker.consumer);
    platform_join(&worker.thread);
    consumer_free(worker.consumer);
    assert_ok(worker.outcome);
}

/* Runs a worker for `for_ms`. */
static void work(struct fixture *f, int64_t for_ms)
{
    start(f);
    virtual_sleep(for_ms);
    stop();
}

static bool r1_succeeded(struct workbench *bench)
{
    return strcmp(workbench_state(bench, JOB, "r1"), "succeeded") == 0;
}

FIXTURE_TEST(an_idle_worker_takes_the_run_of_one_that_dies)
{
    int64_t died_ms;

    other_takes(f, BENCH_QUEUE, MESSAGE("r1"));
    other_claims(f, "r1");
    start(f);
    virtual_sleep(10000);
    assert_int_equal(f->bench.attempts, 0);
    died_ms = platform_boot_ms();
    other_dies(f);
    workbench_wait(&f->bench, r1_succeeded);
    assert_in_range((uintmax_t)(platform_boot_ms() - died_ms), 0, 2000);
    stop();
    assert_int_equal(worker.result.succeeded, 1);
    /* The message of the run is still hidden. When it becomes visible, the run
     * has ended, so the message is deleted. */
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 1);
    work(f, TIMEOUT_S * 1000);
    assert_int_equal(workbench_count(&f->bench, BENCH_QUEUE), 0);
    assert_int_equal(f->bench.attempts, 1);
}

BENCH_SCRIPT(takes_a_minute)
{
    for (int i = 0; i < 60 && !run_stopping(run); i++)
        virtual_sleep(1000);
    return run_stopping(run) ? RUN_STOPPED : RUN_SUCCEEDED;
}

/* With one slot, the run of the dead process is continued before a message is
 * received. */
FIXTURE_TEST(a_worker_that_starts_takes_the_runs_of_the_dead_first)
{
    f->bench.script = takes_a_minute;
    f->bench.setup.slots = 1;
    other_crashes(f);
    (void)workbench_put(&f->bench, BENCH_QUEUE, MESSAGE("r2"));
    start(f);
    virtual_sleep(2000);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "running");
    assert_string_equal(workbench_state(&f->bench, JOB, "r2"), "none");
    virtual_sleep(60000);
    assert_true(r1_succeeded(&f->bench));
    stop();
}

/* There are more runs than slots. The other runs are continued as slots become
 * idle. */
FIXTURE_TEST(every_run_of_the_dead_is_taken_in_turn)
{
    for (char id[] = "r1"; id[1] <= '5'; id[1]++) {
        other_claims(f, id);
        f->other.lease.noted = LOCK_FILE_NOWHERE; /* the note stays */
        lease_done(&f->other.lease);
    }
    other_dies(f);
    work(f, 3000);
    assert_int_equal(worker.result.succeeded, 5);
}

/* Only another worker serves the queue of the run. */
FIXTURE_TEST(runs_of_other_queues_are_left_to_others)
{
    other_claims(f, "r1");
    f->other.lease.run.queue =
        ledger_text(&f->other.lease.run, slice_of("elsewhere"));
    assert_int_equal(
        lease_write_run(&f->other.lease, NULL, &f->err), LEASE_VALID);
    other_dies(f);
    work(f, 30 * 60000);
    assert_int_equal(f->bench.attempts, 0);
}

/* Dead processes are found by reading the folder of the lock files: there are
 * no more requests than without a lock file. */
FIXTURE_TEST(looking_sends_nothing)
{
    unsigned calls[2] = {0};

    f->bench.setup.poll_min_ms = f->bench.setup.poll_max_ms = 100000;
    for (int with = 0; with < 2; with++) {
        start_with(f, with ? f->lock_file : NULL);
        virtual_sleep(1000);
        for (int i = 0; i < BENCH_CALLS; i++)
            calls[with] -= f->bench.calls[i];
        virtual_sleep(60000);
        for (int i = 0; i < BENCH_CALLS; i++)
            calls[with] += f->bench.calls[i];
        stop();
    }
    assert_int_equal(calls[0], calls[1]);
}

/* The ledger does not respond when the other process dies. */
FIXTURE_TEST(after_an_outage_it_is_looked_at_again)
{
    other_claims(f, "r1");
    start(f);
    virtual_sleep(5000);
    f->bench.down = true;
    other_dies(f);
    virtual_sleep(10000);
    f->bench.down = false;
    virtual_sleep(12000);
    stop();
    assert_int_equal(worker.result.succeeded, 1);
}

/* The worker is told to stop before it looks for dead processes. */
FIXTURE_TEST(a_worker_that_stops_takes_nothing)
{
    make_worker(f, f->lock_file);
    other_crashes(f);
    consumer_stop(worker.consumer);
    run_worker(NULL);
    consumer_free(worker.consumer);
    assert_ok(worker.outcome);
    assert_int_equal(f->bench.attempts, 0);
}

/* ---- `run` ---- */

static struct slice names[] = {{"channel", 7}};
static struct slice football[] = {{"Football", 8}};

static struct single_result run_single(struct fixture *f)
{
    const struct single_options options = {.definition = &f->bench.definition,
        .job = &f->bench.job,
        .args = {1, names, football},
        .id = slice_of("r1"),
        .lock_file = f->lock_file};
    struct single *single = single_new(&options);
    struct single_result result;

    assert_ok(single_run(single, &result, &f->err));
    single_free(single);
    return result;
}

static unsigned named;

BENCH_SCRIPT(names_its_lock_file)
{
    struct lock_file *other = definition_lock_file(&bench->definition);
    struct ledger_run *stored = workbench_stored(bench, JOB, run->id);

    assert_false(lock_file_is_dead(other, stored->owner));
    named += memchr(stored->owner.at, '@', stored->owner.len) != NULL;
    lock_file_close(other);
    return RUN_SUCCEEDED;
}

FIXTURE_TEST(a_run_and_a_worker_s_message_name_the_lock_file)
{
    named = 0;
    f->bench.script = names_its_lock_file;
    (void)run_single(f);
    assert_int_equal(named, 1);
    (void)workbench_put(&f->bench, BENCH_QUEUE, MESSAGE("r2"));
    (void)workbench_put(&f->bench, BENCH_BOUND, "Football");
    work(f, 2000);
    assert_int_equal(named, 3);
}
