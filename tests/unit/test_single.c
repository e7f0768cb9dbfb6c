/* SPDX-License-Identifier: MIT */
/* One run without a queue, from the beginning of the command `tableward run` to
 * its end. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <limits.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/text.h"
#include "worker/run/estimate.h"
#include "worker/run/single.h"

#define JOB "delete-channel"
#define ALWAYS 1, UINT_MAX

static struct slice args_names[] = {{"channel", 7}};
static struct slice football[] = {{"Football", 8}};
static struct slice tennis[] = {{"Tennis", 6}};

/* A command `run` on a thread of its own. */
struct started {
    struct single *single;
    struct single_result result;
    enum tw_err outcome;
    struct err err;
    struct platform_thread thread;
};

static struct started started; /* of tests that start one command */

static void run_single(void *arg)
{
    struct started *one = arg;

    one->outcome = single_run(one->single, &one->result, &one->err);
}

static void start(
    struct started *one, struct workbench *bench, const struct slice *values)
{
    struct single_options options = {.definition = &bench->definition,
        .job = &bench->job,
        .args = {1, args_names, values},
        .id = slice_of("r1"),
        .accept_deletes = true};

    *one = (struct started){.single = single_new(&options)};
    platform_start(&one->thread, "single", run_single, one);
}

static void finish(struct started *one)
{
    platform_join(&one->thread);
    single_free(one->single);
}

/* Runs the whole command. `script` makes the attempts. */
static void play(struct workbench *bench, bench_script *script)
{
    bench->script = script;
    start(&started, bench, football);
    finish(&started);
}

/* Calls play(). The run must end in `state`, after `attempts` attempts in
 * all. */
static void expect_end(struct workbench *bench, bench_script *script,
    enum ledger_state state, unsigned attempts)
{
    play(bench, script);
    assert_ok(started.outcome);
    assert_int_equal(started.result.state, state);
    assert_int_equal(bench->attempts, attempts);
}

/* Stops the command, as a person does. The run must be paused, so that it can
 * be continued. */
static void stop_it(struct workbench *bench)
{
    single_stop(started.single);
    finish(&started);
    assert_ok(started.outcome);
    assert_true(started.result.stopped);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "paused");
}

BENCH_SCRIPT(counts)
{
    assert_false(run->queued);
    atomic_fetch_add(&run->counts.deleted, 3);
    return workbench_pass_gate(bench, run, 1) ? RUN_SUCCEEDED : RUN_STOPPED;
}

BENCH_TEST(it_runs_to_the_end_and_an_id_is_used_once)
{
    struct ledger_run *run;

    bench->gate = 1;
    expect_end(bench, counts, LEDGER_SUCCEEDED, 1);
    assert_false(started.result.already);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->queue.len, 0);
    assert_true(run->deleted == 3);
    assert_true(run->requested_ticks > 0);
    assert_true(started.result.finished_ticks == run->finished_ticks);
    expect_end(bench, counts, LEDGER_SUCCEEDED, 1);
    assert_true(started.result.already);
    start(&started, bench, tennis);
    finish(&started);
    assert_int_equal(started.outcome, TW_CONFLICT);
    assert_non_null(strstr(started.err.text, "other arguments"));
}

BENCH_TEST(an_id_that_succeeded_under_another_definition_is_told)
{
    bench->gate = 1;
    play(bench, counts);
    play(bench, counts);
    assert_true(started.result.already);
    assert_false(started.result.otherwise);
    memcpy(bench->job.hash, "fedcba9876543210", 16);
    play(bench, counts);
    assert_true(started.result.already);
    assert_true(started.result.otherwise);
    assert_int_equal(bench->attempts, 1);
}

BENCH_SCRIPT(settles_twice)
{
    if (attempt_number > 2)
        return RUN_SUCCEEDED;
    run->resumes_ticks = platform_wall_ticks() + TICKS_PER_S / 5;
    return RUN_WAITING;
}

BENCH_TEST(it_waits_through_settle)
{
    expect_end(bench, settles_twice, LEDGER_SUCCEEDED, 3);
}

static bool accepted[3]; /* whether each attempt accepted deletes */

/* Makes a run of three attempts, of which only the first may accept deletes. */
static void expect_accepted_once(struct workbench *bench, bench_script *script)
{
    expect_end(bench, script, LEDGER_SUCCEEDED, 3);
    assert_true(accepted[0]);
    assert_false(accepted[1] || accepted[2]);
}

/* Ends the acceptance of deletes, as a copy does after a complete round. */
BENCH_SCRIPT(uses_the_acceptance_up)
{
    accepted[attempt_number - 1] = atomic_load(&run->accept_deletes);
    atomic_store(&run->accept_deletes, false);
    run->callbacks->save(run, slice_of("{\"round\":2}"), true);
    return settles_twice(bench, run, attempt_number, err);
}

/* One command makes all attempts of a following run, perhaps for months. Later
 * attempts must not accept deletes: the sources may be gone by then. */
BENCH_TEST(deletes_are_accepted_once_and_not_at_each_attempt)
{
    expect_accepted_once(bench, uses_the_acceptance_up);
}

BENCH_SCRIPT(stumbles)
{
    (void)err_fail(err, TW_INVALID, "the archive folder is a file");
    return RUN_TRY_AGAIN;
}

BENCH_TEST(failing_attempts_count_as_in_a_worker)
{
    expect_end(bench, stumbles, LEDGER_POISONED, 2);
    assert_non_null(strstr(started.result.err.text, "archive folder"));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "poisoned");
}

BENCH_SCRIPT(meets_outage_once)
{
    (void)err_fail(err, TW_BUSY, "503");
    return attempt_number == 1 ? RUN_OUTAGE : RUN_SUCCEEDED;
}

BENCH_SCRIPT(meets_a_full_archive)
{
    (void)err_fail(err, TW_FULL, "archive: no space left");
    run->archive_full = attempt_number == 1;
    return attempt_number == 1 ? RUN_OUTAGE : RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_full_archive_ends_it_until_there_is_room)
{
    play(bench, meets_a_full_archive);
    assert_true(started.result.stopped);
    assert_string_equal(started.result.err.text, "archive: no space left");
    assert_string_equal(workbench_state(bench, JOB, "r1"), "waiting");
    expect_end(bench, meets_a_full_archive, LEDGER_SUCCEEDED, 2);
}

static bool one_running(struct workbench *bench)
{
    bool running;

    workbench_locked(bench, running = bench->running == 1);
    return running;
}

BENCH_TEST(stopped_it_can_be_taken_up_again)
{
    struct single_progress progress;

    bench->script = counts;
    start(&started, bench, football);
    workbench_wait(bench, one_running);
    single_stop(started.single);
    platform_join(&started.thread);
    assert_true(started.result.stopped);
    single_read_progress(started.single, &progress);
    assert_true(progress.deleted == 3);
    assert_false(progress.working);
    single_free(started.single);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "paused");
    workbench_open_gate(bench);
    expect_end(bench, counts, LEDGER_SUCCEEDED, 2);
}

BENCH_SCRIPT(is_stopped_once)
{
    atomic_fetch_add(&run->counts.deleted, 10);
    virtual_sleep(10000);
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    single_stop(started.single);
    return RUN_STOPPED;
}

/* `tableward run JOB --id ID` continues a run that was stopped an hour ago. */
VIRTUAL_BENCH_TEST(taken_up_again_its_pause_is_no_part_of_its_rate)
{
    struct ledger_run *run;

    play(bench, is_stopped_once);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "paused");
    virtual_sleep(3600000);
    expect_end(bench, is_stopped_once, LEDGER_SUCCEEDED, 2);
    run = workbench_stored(bench, JOB, "r1");
    assert_in_range(run->idle_s, 3598, 3602);
    assert_true(estimate_run(run, platform_wall_ticks()).rate > 0.8);
}

BENCH_SCRIPT(settles_for_an_hour)
{
    run->resumes_ticks = platform_wall_ticks() + 3600 * TICKS_PER_S;
    return RUN_WAITING;
}

/* The command waits an hour for its run, but must not sleep for the whole hour:
 * it reads Control every few seconds. */
VIRTUAL_BENCH_TEST(what_is_asked_while_it_waits_takes_effect_within_10_s)
{
    int64_t asked_ms;

    bench->script = settles_for_an_hour;
    bench->setup.visibility_timeout_s = 60;
    start(&started, bench, football);
    virtual_sleep(61000);
    asked_ms = platform_boot_ms();
    (void)workbench_cancel(bench, "r1");
    finish(&started);
    assert_int_equal(started.result.state, LEDGER_CANCELLED);
    assert_int_equal(bench->attempts, 1);
    assert_in_range(platform_boot_ms() - asked_ms, 0, 10000);
}

BENCH_TEST(what_would_never_work_is_said_before_the_first_claim)
{
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_REFUSE);
    play(bench, counts);
    assert_int_equal(started.outcome, TW_REFUSED);
    bench->down = true;
    play(bench, counts);
    assert_int_equal(started.outcome, TW_BUSY);
    bench->down = false;
    bench->setup.store = 1;
    play(bench, counts);
    assert_int_equal(started.outcome, TW_INVALID);
    assert_int_equal(bench->attempts, 0);
}

/* ---- on a virtual clock ---- */

VIRTUAL_BENCH_TEST(a_service_that_is_busy_at_the_start_is_waited_for)
{
    workbench_meets(bench, BENCH_CREATE, 1, 1, BENCH_LOSE_REQUEST);
    workbench_meets(bench, BENCH_CREATE, 2, 4, BENCH_THROTTLE);
    expect_end(bench, NULL, LEDGER_SUCCEEDED, 1);
}

VIRTUAL_BENCH_TEST(who_may_not_create_the_ledger_uses_what_is_there)
{
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_FORBID);
    expect_end(bench, NULL, LEDGER_SUCCEEDED, 1);
}

VIRTUAL_BENCH_TEST(a_ledger_of_which_nothing_is_known_is_an_outage)
{
    workbench_meets(bench, BENCH_CREATE, ALWAYS, BENCH_LOSE_ANSWER);
    play(bench, NULL);
    assert_int_equal(started.outcome, TW_BUSY);
    assert_int_equal(bench->attempts, 0);
    single_free(NULL);
}

BENCH_SCRIPT(meets_many_outages)
{
    (void)err_fail(err, TW_BUSY, "503");
    return attempt_number <= 12 ? RUN_OUTAGE : RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(errors_of_the_service_are_sat_out)
{
    int64_t began_ms = platform_boot_ms();

    expect_end(bench, meets_many_outages, LEDGER_SUCCEEDED, 13);
    /* One second for each outage, because the outage may be over then. */
    assert_in_range((uintmax_t)(platform_boot_ms() - began_ms), 12000, 14000);
}

BENCH_SCRIPT(is_always_out)
{
    (void)err_fail(err, TW_BUSY, "503");
    return RUN_OUTAGE;
}

VIRTUAL_BENCH_TEST(stopped_in_an_outage_it_waits_no_longer)
{
    bench->script = is_always_out;
    start(&started, bench, football);
    virtual_sleep(60000);
    stop_it(bench);
}

/* The command tries the store every ten seconds, but a person who reads the log
 * needs a line only once a minute. */
VIRTUAL_BENCH_TEST(of_a_store_that_is_away_the_log_tells_once_a_minute)
{
    static struct store away = {
        .name = "away", .breakers = {{.failures = BREAKER_FAILURES}}};

    workbench_add_store(bench, &away);
    bench->script = is_always_out;
    workbench_log_begin();
    start(&started, bench, football);
    virtual_sleep(250000);
    stop_it(bench);
    assert_in_range(workbench_log_end("r1: 503"), 4, 5);
}

VIRTUAL_BENCH_TEST(stopped_while_it_waits_it_waits_no_longer)
{
    struct single_progress progress;

    bench->script = settles_for_an_hour;
    start(&started, bench, football);
    virtual_sleep(65000);
    single_read_progress(started.single, &progress);
    assert_true(progress.until_ms > platform_boot_ms() + 3000 * 1000);
    stop_it(bench);
}

/* Gives the run another owner during the attempt. */
BENCH_SCRIPT(is_beaten)
{
    struct ledger_run *stored = workbench_stored(bench, JOB, "r1");

    stored->epoch++;
    stored->owner = slice_of("somebody");
    assert_ok(workbench_store_run(bench, stored));
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(overtaken_it_ends_and_says_so)
{
    play(bench, is_beaten);
    assert_ok(started.outcome);
    assert_true(started.result.overtaken);
    assert_false(started.result.stopped);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "running");
}

/* In attempt 1 no request succeeds until the lease has expired. */
BENCH_SCRIPT(is_cut_off)
{
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    bench->down = true;
    virtual_sleep((bench->setup.visibility_timeout_s + 5) * 1000);
    bench->down = false;
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_lease_that_nobody_took_is_taken_again)
{
    expect_end(bench, is_cut_off, LEDGER_SUCCEEDED, 2);
    assert_false(started.result.overtaken);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

/* Each attempt completes a round. Then attempt 1 loses its lease, and attempt 2
 * meets an outage. */
BENCH_SCRIPT(uses_the_acceptance_up_and_breaks_off)
{
    (void)uses_the_acceptance_up(bench, run, attempt_number, err);
    virtual_sleep(6000); /* until a renewal has stored the checkpoint */
    if (attempt_number == 2)
        return meets_outage_once(bench, run, 1, err);
    return is_cut_off(bench, run, attempt_number, err);
}

VIRTUAL_BENCH_TEST(
    an_attempt_after_a_lost_lease_or_an_outage_accepts_no_deletes)
{
    expect_accepted_once(bench, uses_the_acceptance_up_and_breaks_off);
}

BENCH_SCRIPT(is_stopped_and_cut_off)
{
    single_stop(started.single);
    return is_cut_off(bench, run, attempt_number, err);
}

VIRTUAL_BENCH_TEST(stopped_beyond_its_lease_it_was_not_overtaken)
{
    play(bench, is_stopped_and_cut_off);
    assert_true(started.result.stopped);
    assert_false(started.result.overtaken);
    assert_int_equal(bench->attempts, 1);
}

/* Stores, in place of run r1, an entity that is no valid run. */
static void spoil_run(struct workbench *bench)
{
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    entity_set_int32(&entity, &arena, "State", 5);
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

/* The command must not report wrong usage, as it does if the id belongs to
 * another run. */
VIRTUAL_BENCH_TEST(a_run_that_cannot_be_read_is_said)
{
    spoil_run(bench);
    play(bench, NULL);
    assert_ok(started.outcome);
    assert_true(started.result.unreadable);
    assert_non_null(strstr(started.result.err.text, "State"));
    assert_int_equal(bench->attempts, 0);
}

/* ---- two commands at once ---- */

static struct started first, second;

BENCH_SCRIPT(takes_long)
{
    atomic_fetch_add(&run->counts.read, 11);
    virtual_sleep(30000);
    return RUN_SUCCEEDED;
}

/* Starts two commands for one run. The second command waits for the first. */
static void start_two(struct workbench *bench)
{
    bench->script = takes_long;
    start(&first, bench, football);
    virtual_sleep(5000);
    start(&second, bench, football);
    virtual_sleep(10000);
}

VIRTUAL_BENCH_TEST(it_waits_while_another_process_is_at_it_and_tells_so)
{
    struct single_progress progress;

    start_two(bench);
    single_read_progress(first.single, &progress);
    assert_true(progress.working);
    assert_int_equal(progress.read, 11);
    single_read_progress(second.single, &progress);
    assert_true(progress.held_by_another);
    finish(&second);
    finish(&first);
    assert_int_equal(first.result.state, LEDGER_SUCCEEDED);
    assert_int_equal(second.result.state, LEDGER_SUCCEEDED);
    assert_true(second.result.already);
    assert_int_equal(bench->attempts, 1);
}

/* A command that only waits for the run must not pause it. */
VIRTUAL_BENCH_TEST(who_stops_waiting_leaves_the_run_to_its_owner)
{
    struct ledger_run *run;

    start_two(bench);
    single_stop(second.single);
    finish(&second);
    assert_ok(second.outcome);
    assert_true(second.result.stopped);
    assert_true(second.result.elsewhere);
    assert_false(second.result.paused);
    run = workbench_stored(bench, JOB, "r1");
    assert_int_equal(run->state, LEDGER_RUNNING);
    assert_int_equal(run->control.len, 0);
    finish(&first);
    assert_int_equal(first.result.state, LEDGER_SUCCEEDED);
}
