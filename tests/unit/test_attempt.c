/* SPDX-License-Identifier: MIT */
/* One attempt at a run: when it takes the lease, and what each outcome writes
 * to the ledger and the queues. */
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "tests/support/workbench.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/engine/call.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/text.h"
#include "worker/run/ledger_change.h"
#include "worker/run/locks.h"
#include "worker/store/embedded/embedded.h"

#define JOB "delete-channel"
#define ALWAYS 1, UINT_MAX

static struct slice args_names[] = {{"channel", 7}};
static struct slice args_values[] = {{"Football", 8}};
static const struct run_args football = {1, args_names, args_values};

/* Makes one attempt. args: NULL if the attempt takes the arguments from the
 * ledger. */
static struct attempt_result attempt(struct workbench *bench,
    const struct lease_request *request, const struct run_args *args)
{
    struct attempt_result result;

    attempt_run(
        &bench->environment, &bench->definition, request, args, &result);
    return result;
}

/* Makes one attempt at run `id` without a message. */
static struct attempt_result play(
    struct workbench *bench, bench_script *script, const char *id)
{
    struct lease_request request = workbench_lease_request(bench, id);

    bench->script = script;
    return attempt(bench, &request, &football);
}

/* Makes one attempt at run `id`, which must be in the ledger, without arguments
 * of a message. */
static struct attempt_result play_orphan(
    struct workbench *bench, bench_script *script, const char *id)
{
    struct lease_request request = workbench_lease_request(bench, id);

    request.args_json = (struct slice){0};
    request.must_exist = true;
    bench->script = script;
    return attempt(bench, &request, NULL);
}

/* Receives the next message of the queue and makes one attempt at run `id` with
 * it. */
static struct attempt_result play_with_message(
    struct workbench *bench, bench_script *script, const char *id)
{
    struct lease_request request = workbench_lease_request(bench, id);
    struct lease_message message;
    struct attempt_result result;
    struct messages taken;

    messages_init(&taken);
    message = workbench_receive(bench, BENCH_QUEUE, &taken);
    request.message = &message;
    bench->script = script;
    result = attempt(bench, &request, &football);
    messages_done(&taken);
    return result;
}

/* Puts a message with this body and makes one attempt at run r1 with it. */
static struct attempt_result attempt_with_body(
    struct workbench *bench, bench_script *script, const char *body)
{
    workbench_put(bench, BENCH_QUEUE, body);
    return play_with_message(bench, script, "r1");
}

static struct attempt_result attempt_with_message(
    struct workbench *bench, bench_script *script)
{
    return attempt_with_body(bench, script, "wake-up");
}

static struct ledger_run *read_run(struct workbench *bench)
{
    return workbench_stored(bench, JOB, "r1");
}

/* Makes one attempt without a message; fails unless it ends as `end` and leaves
 * the run in `state`. Returns the run. */
static struct ledger_run *expect_play(struct workbench *bench,
    bench_script *script, const char *id, enum attempt_outcome end,
    enum ledger_state state)
{
    struct attempt_result result = play(bench, script, id);
    struct ledger_run *run = workbench_stored(bench, JOB, id);

    assert_int_equal(result.end, end);
    assert_int_equal(run->state, state);
    if (end == ATTEMPT_RUN_ENDED)
        assert_int_equal(result.state, state);
    return run;
}

/* Fails unless the queue has `messages` messages, and its poison queue has
 * `copies`. */
static void expect_queues(
    struct workbench *bench, int64_t messages, int64_t copies)
{
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), messages);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), copies);
}

/* Fails unless run r1 is in `state`, and the queues are as expect_queues()
 * wants them. */
static void expect_left(struct workbench *bench, const char *state,
    int64_t messages, int64_t copies)
{
    assert_string_equal(workbench_state(bench, JOB, "r1"), state);
    expect_queues(bench, messages, copies);
}

/* Fails unless the poison queue has one message only, the copy that run r1
 * names, with this text (NULL: any text). */
static void expect_copy(struct workbench *bench, const char *text)
{
    struct messages copy;

    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
    messages_init(&copy);
    (void)workbench_take(bench, BENCH_QUEUE "-poison", &copy);
    if (text)
        assert_true(slice_is(copy.list[0].text, text));
    assert_true(slice_equal(copy.list[0].id, read_run(bench)->poison_id));
    messages_done(&copy);
}

/* Fails unless run r1 is held, that is, waits with this WaitsFor. Returns the
 * run. */
static struct ledger_run *expect_held(
    struct workbench *bench, const char *waits_for)
{
    struct ledger_run *run = read_run(bench);

    assert_true(ledger_is_held(run));
    assert_true(slice_is(run->waits_for, waits_for));
    return run;
}

/* ---- scripts ---- */

BENCH_SCRIPT(works)
{
    assert_true(slice_is(run->args.values[0], "Football"));
    atomic_fetch_add(&run->counts.deleted, 7);
    return RUN_SUCCEEDED;
}

/* Reports that an entity of the table failed. */
static void fail_entity(
    struct run *run, const char *table, const char *key, const char *why)
{
    run->callbacks->failed(run,
        &(struct run_failure){table, slice_of(key), slice_of("r"), NULL, why});
}

BENCH_SCRIPT(fails)
{
    fail_entity(run, "Blogs", "p", "cannot be converted");
    (void)err_fail(err, TW_INVALID, "there is more than refuse_above");
    return RUN_FAILED;
}

/* Fails unless run r1 failed with the error of fails(). Returns the run. */
static struct ledger_run *expect_failed(struct workbench *bench)
{
    struct ledger_run *run = read_run(bench);

    assert_int_equal(run->state, LEDGER_FAILED);
    assert_non_null(strstr(run->error.at, "there is more than refuse_above"));
    assert_non_null(strstr(run->error.at, "Blogs 'p' / 'r': cannot be conv"));
    return run;
}

BENCH_SCRIPT(stumbles)
{
    (void)err_fail(err, TW_INVALID, "stumble %u", attempt_number);
    return RUN_TRY_AGAIN;
}

BENCH_SCRIPT(stumbles_ahead)
{
    run->callbacks->save(run, slice_of("{\"at\":1}"), true);
    return stumbles(bench, run, attempt_number, err);
}

BENCH_SCRIPT(waits)
{
    run->callbacks->save(run, slice_of("{\"look\":1}"), true);
    run->resumes_ticks = platform_wall_ticks() + 3600 * TICKS_PER_S;
    return RUN_WAITING;
}

BENCH_SCRIPT(meets_outage)
{
    (void)err_fail(err, TW_BUSY, "503 from the tables");
    return RUN_OUTAGE;
}

BENCH_SCRIPT(is_stopped)
{
    assert_false(run_stopping(run));
    workbench_locked(bench, bench->stop = true);
    assert_true(run_stopping(run));
    run->callbacks->save(run, slice_of("{\"at\":9}"), false);
    return RUN_STOPPED;
}

/* Fails with texts that are cut at every position within a character of 2 or of
 * 4 bytes, and with texts that are not UTF-8. */
BENCH_SCRIPT(fails_in_other_scripts)
{
    static const char *const letters[] = {
        "\xd0\x96", "\xf0\x9f\x98\x80", "\xd0"};
    char why[1200], *at = why;
    unsigned pad = attempt_number % 4;
    const char *letter = letters[attempt_number / 4 % 3];

    memset(why, 'x', pad);
    for (at += pad; at + 5 < why + sizeof(why); at += strlen(letter))
        memcpy(at, letter, strlen(letter) + 1);
    fail_entity(run, "Blogs", "p", why);
    (void)err_fail(err, TW_INVALID, "%s", why);
    return RUN_TRY_AGAIN;
}

/* ---- ends ---- */

/* A text that was cut within a character used to be stored in a row of the
 * ledger. After that no command could read the ledger. */
BENCH_TEST(a_failure_in_any_script_leaves_a_ledger_that_can_be_read)
{
    for (unsigned i = 0; i < 12; i++) {
        struct ledger_run *run;
        char id[16];

        (void)snprintf(id, sizeof(id), "r%u", i);
        run = expect_play(bench, fails_in_other_scripts, id, ATTEMPT_DEFERRED,
            LEDGER_WAITING);
        assert_true(text_is_utf8(run->error));
        assert_true(text_is_utf8(run->failed_entities));
        assert_true(run->error.len > 500);
    }
}

BENCH_TEST(success_is_in_the_ledger_and_then_the_message_goes)
{
    struct attempt_result result = attempt_with_message(bench, works);
    struct ledger_run *run = read_run(bench);

    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_int_equal(result.state, LEDGER_SUCCEEDED);
    assert_false(result.already);
    assert_true(run->deleted == 7);
    assert_int_equal(run->epoch, 1);
    assert_int_equal(run->attempt, 1);
    assert_int_equal(run->owner.len, 0);
    assert_true(slice_is(run->queue, BENCH_QUEUE));
    assert_true(slice_is(run->kind, "scripted"));
    assert_true(run->finished_ticks >= run->started_ticks);
    assert_true(run->transactions >= 3);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
    expect_left(bench, "succeeded", 0, 0);
    assert_int_equal(bench->ledger_writes, 2);
    assert_true(bench->calls[BENCH_GET] + bench->calls[BENCH_BATCH] +
                    bench->calls[BENCH_SCAN] <=
                6);
    /* The run has ended, so another message of this run is deleted too. */
    result = attempt_with_message(bench, works);
    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_true(result.already);
    assert_int_equal(bench->attempts, 1);
    expect_queues(bench, 0, 0);
}

BENCH_TEST(a_failed_run_leaves_a_copy_and_the_reason)
{
    struct attempt_result result = attempt_with_body(bench, fails, "the body");

    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_int_equal(result.state, LEDGER_FAILED);
    assert_true(expect_failed(bench)->poison_receipt.len > 0);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 0);
    expect_queues(bench, 0, 1);
    expect_copy(bench, "the body");
}

/* Stores run r1 as `poison retry` leaves it if no queue serves its job:
 * `queued`, with the copy of its message in the poison queue. */
static void leave_retried(struct workbench *bench)
{
    struct ledger_run *run = workbench_football(bench, "r1");
    struct messages put;

    workbench_make_queue(bench, BENCH_QUEUE "-poison");
    messages_init(&put);
    assert_ok(store_queue_put(bench->wrapped.inner, &(struct exchange){0},
        BENCH_QUEUE "-poison", slice_of("former"), 0, &put));
    run->queue = slice_of(BENCH_QUEUE);
    run->poison_id = put.list[0].id;
    run->poison_receipt = put.list[0].pop_receipt;
    assert_ok(workbench_store_run(bench, run));
    messages_done(&put);
}

BENCH_TEST(success_deletes_the_copy_that_retry_has_left)
{
    leave_retried(bench);
    expect_left(bench, "queued", 0, 1);
    assert_int_equal(play(bench, works, "r1").state, LEDGER_SUCCEEDED);
    expect_left(bench, "succeeded", 0, 0);
}

BENCH_TEST(a_new_copy_replaces_the_copy_that_retry_has_left)
{
    leave_retried(bench);
    assert_int_equal(play(bench, fails, "r1").state, LEDGER_FAILED);
    expect_copy(bench, NULL);
}

/* Makes an attempt with the next message. Fails unless the attempt could not
 * put the copy into the poison queue and run r1 waits for that reason. */
static void expect_held_for_its_copy(struct workbench *bench)
{
    struct attempt_result result = play_with_message(bench, fails, "r1");

    assert_int_equal(result.end, ATTEMPT_DEFERRED);
    assert_true(result.for_cause);
    assert_true(slice_begins(expect_held(bench, LEDGER_WAITS_FOR_STORE)->error,
        slice_of("the run has failed, and its message cannot be put "
                 "into the poison queue: ")));
    assert_int_equal(bench->attempts, 1);
}

BENCH_TEST(without_a_copy_nothing_is_poisoned)
{
    workbench_meets(bench, BENCH_PUT, ALWAYS, BENCH_FORBID);
    workbench_put(bench, BENCH_QUEUE, "the body");
    expect_held_for_its_copy(bench);
    expect_queues(bench, 1, 0);
}

#define OWN_BODY                                                               \
    "{\"job\":\"" JOB "\",\"id\":\"r1\",\"args\":{\"channel\":\"Football\"}}"

/* Does this call get no response? While the gate is closed, the queue service
 * carries out these requests but does not respond. */
static bool is_silent(const struct workbench *bench, enum bench_call call)
{
    return bench->gate == 0 && (call == BENCH_PUT || call == BENCH_PEEK ||
                                   call == BENCH_RENEW || call == BENCH_DELETE);
}

BENCH_FAULT(silent_queues)
{
    return is_silent(bench, call) ? BENCH_LOSE_ANSWER : BENCH_PASS;
}

/* An attempt waits for the response to such a request for an eighth of its
 * lease: 7.5 s of 60 s. */
BENCH_BETWEEN(wait_for_silent_queues)
{
    if (is_silent(bench, call))
        virtual_sleep(7500);
}

/* Makes three attempts without responses of the queue service, and one with
 * them; fails unless there are `copies` copies at the end. */
static void expect_copies_after_silence(
    struct workbench *bench, const char *body, int64_t copies)
{
    bench->fault = silent_queues;
    bench->between = wait_for_silent_queues;
    workbench_make_queue(bench, BENCH_QUEUE "-poison");
    workbench_put(bench, BENCH_QUEUE, body);
    for (unsigned i = 0; i < 3; i++) {
        expect_held_for_its_copy(bench);
        assert_int_equal(bench->calls[BENCH_PUT], 1);
        virtual_sleep(310000); /* a run waits 5 min at most */
    }
    bench->gate = 1;
    assert_int_equal(
        play_with_message(bench, fails, "r1").state, LEDGER_FAILED);
    assert_int_equal(bench->attempts, 1);
    expect_left(bench, "failed", 0, copies);
}

/* Each attempt used to put one more copy and to repeat the work. */
VIRTUAL_BENCH_TEST(a_silent_queue_service_repeats_neither_work_nor_copy)
{
    struct ledger_run *run;

    expect_copies_after_silence(bench, OWN_BODY, 1);
    expect_copy(bench, OWN_BODY);
    run = expect_failed(bench);
    assert_int_equal(run->poison_receipt.len, 0);
    assert_int_equal(run->ending.len, 0);
}

/* The copy may belong to another run, so one more copy is put when the service
 * responds again. */
VIRTUAL_BENCH_TEST(a_copy_that_names_no_run_is_put_once_more)
{
    expect_copies_after_silence(bench, "Football", 2);
}

/* Leaves run r1 as a worker does that is killed after it has put the copy and
 * before it has stored the end. */
static void leave_copy_without_end(struct workbench *bench)
{
    workbench_meets(bench, BENCH_BATCH, 3, UINT_MAX, BENCH_FAIL);
    assert_int_equal(
        attempt_with_body(bench, fails, OWN_BODY).end, ATTEMPT_OUTAGE);
    expect_queues(bench, 1, 1);
    bench->fault_count = 0;
    virtual_sleep(100000);
}

/* The attempt has no message. It would write another body than that of the
 * copy. It recognises the copy because the copy names the run. */
VIRTUAL_BENCH_TEST(an_orphan_finds_the_copy_of_its_message)
{
    leave_copy_without_end(bench);
    assert_int_equal(play(bench, fails, "r1").state, LEDGER_FAILED);
    assert_int_equal(bench->attempts, 1);
    expect_queues(bench, 1, 1);
}

VIRTUAL_BENCH_TEST(without_a_reason_in_the_ledger_there_is_no_copy)
{
    workbench_meets(bench, BENCH_BATCH, 2, UINT_MAX, BENCH_FAIL);
    assert_int_equal(
        attempt_with_body(bench, fails, "the body").end, ATTEMPT_OUTAGE);
    assert_int_equal(bench->calls[BENCH_PUT], 0);
    expect_queues(bench, 1, 0);
}

VIRTUAL_BENCH_TEST(a_reason_that_is_refused_by_chance_is_stored)
{
    workbench_meets(bench, BENCH_BATCH, 2, 3, BENCH_THROTTLE);
    assert_int_equal(
        attempt_with_body(bench, fails, "the body").state, LEDGER_FAILED);
    expect_queues(bench, 0, 1);
}

/* Changes run r1 in the ledger, as another worker or command does. */
static void rewrite(struct workbench *bench, enum ledger_state run_state,
    const char *owner, int32_t epoch_more)
{
    struct ledger_run *run = read_run(bench);

    run->state = run_state;
    run->owner = ledger_text(run, slice_of(owner));
    run->epoch += epoch_more;
    run->finished_ticks =
        ledger_state_ended(run_state) ? platform_wall_ticks() : 0;
    assert_ok(workbench_store_run(bench, run));
}

BENCH_SCRIPT(fails_lease_lost)
{
    rewrite(bench, LEDGER_RUNNING, "another", 1);
    return fails(bench, run, attempt_number, err);
}

VIRTUAL_BENCH_TEST(who_is_overtaken_puts_no_copy)
{
    assert_int_equal(attempt_with_body(bench, fails_lease_lost, "the body").end,
        ATTEMPT_LEASE_LOST);
    assert_int_equal(bench->calls[BENCH_PUT], 0);
    expect_queues(bench, 1, 0);
}

#define ACCEPTED "~0123456789abcdef:"

static void leave_ending(struct workbench *bench, const char *id,
    const char *ending, const char *definition)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->queue = slice_of(BENCH_QUEUE);
    run->epoch = 2;
    run->definition = slice_of(definition);
    run->ending = slice_of(ending);
    assert_ok(workbench_store_run(bench, run));
}

/* `Ending` was written by an attempt other than the last one, or cannot be
 * read. */
VIRTUAL_BENCH_TEST(an_ending_of_another_attempt_means_nothing)
{
    static const char *const endings[] = {"1 failed no", "3 failed no", "2",
        "2 failed", "x failed no", "2 queued no", "2 succeeded no",
        "2 nothing no", " failed no"};

    for (unsigned i = 0; TEST_EACH(i, endings); i++) {
        struct ledger_run *run;
        char id[16];

        (void)snprintf(id, sizeof(id), "r%u", i);
        leave_ending(bench, id, endings[i], ACCEPTED "another");
        run =
            expect_play(bench, works, id, ATTEMPT_RUN_ENDED, LEDGER_SUCCEEDED);
        assert_int_equal(bench->attempts, i + 1);
        assert_int_equal(run->ending.len, 0);
    }
}

/* The run was poisoned under the former definition, so it need not wait until
 * somebody accepts the new one. */
VIRTUAL_BENCH_TEST(a_run_that_ends_waits_for_no_definition)
{
    struct ledger_run *run;

    bench->kind.table_job = true;
    leave_ending(bench, "r1", "2 poisoned it was so", "another");
    run = expect_play(bench, NULL, "r1", ATTEMPT_RUN_ENDED, LEDGER_POISONED);
    assert_int_equal(bench->attempts, 0);
    assert_true(slice_is(run->error, "it was so"));
    assert_true(slice_is(run->definition, "another"));
    expect_queues(bench, 0, 1);
}

BENCH_TEST(failures_without_progress_end_in_poison)
{
    struct attempt_result result = attempt_with_message(bench, stumbles);
    struct ledger_run *run = read_run(bench);

    assert_int_equal(result.end, ATTEMPT_DEFERRED);
    assert_false(result.held);
    assert_int_equal(run->failures, 1);
    assert_non_null(strstr(run->error.at, "stumble 1"));
    assert_true(run->resumes_ticks > run->updated_ticks);
    expect_left(bench, "waiting", 1, 0);
    while ((result = play(bench, stumbles, "r1")).end == ATTEMPT_DEFERRED)
        assert_int_equal(bench->attempts, 1); /* before ResumesAt */
    assert_int_equal(result.state, LEDGER_POISONED);
    expect_left(bench, "poisoned", 1, 1);
}

BENCH_TEST(progress_starts_the_count_again)
{
    struct ledger_run *run;

    bench->setup.max_attempts = 1;
    assert_int_equal(
        attempt_with_message(bench, stumbles_ahead).end, ATTEMPT_DEFERRED);
    run = read_run(bench);
    assert_int_equal(run->failures, 0);
    assert_int_equal(run->state, LEDGER_WAITING);
    assert_true(slice_is(run->checkpoint, "{\"at\":1}"));
}

TEST(pauses_double_from_a_second)
{
    assert_int_equal(attempt_retry_ms(0), 1000);
    assert_int_equal(attempt_retry_ms(1), 1000);
    assert_int_equal(attempt_retry_ms(2), 2000);
    assert_int_equal(attempt_retry_ms(3), 4000);
    assert_int_equal(attempt_retry_ms(1000), 3600000);
}

BENCH_TEST(waiting_frees_the_run_and_hides_the_message)
{
    struct attempt_result result = attempt_with_message(bench, waits);
    struct ledger_run *run = read_run(bench);

    assert_int_equal(result.end, ATTEMPT_DEFERRED);
    assert_true(result.until_ms > platform_boot_ms() + 3500 * 1000);
    assert_int_equal(run->owner.len, 0);
    assert_int_equal(run->silent, 0);
    assert_true(slice_is(run->checkpoint, "{\"look\":1}"));
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
    expect_left(bench, "waiting", 1, 0);
    /* An attempt before ResumesAt does nothing. */
    assert_int_equal(play(bench, waits, "r1").end, ATTEMPT_DEFERRED);
    assert_int_equal(bench->attempts, 1);
}

/* Makes run r1 open and as large as an entity may be, so that nothing can be
 * added to it. */
static void fill_run(struct workbench *bench)
{
    struct ledger_run *run = read_run(bench);

    run->state = LEDGER_QUEUED;
    run->finished_ticks = 0;
    workbench_fill_run(bench, run);
}

/* Another attempt is made later, and other runs do not wait for it. */
VIRTUAL_BENCH_TEST(a_run_whose_end_cannot_be_stored_is_no_outage)
{
    struct attempt_result result;

    assert_int_equal(play(bench, works, "r1").end, ATTEMPT_RUN_ENDED);
    fill_run(bench);
    result = attempt_with_message(bench, works);
    assert_int_equal(bench->attempts, 2);
    assert_int_equal(result.end, ATTEMPT_DEFERRED);
    assert_true(result.for_cause);
    assert_non_null(strstr(result.err.text, "properties"));
    expect_queues(bench, 1, 0);
}

/* Cancels the run; then the store refuses each request as busy. */
BENCH_SCRIPT(asks_a_busy_store)
{
    struct page page;
    enum tw_err outcome;

    (void)workbench_cancel(bench, "r1");
    workbench_meets(bench, BENCH_SCAN, 1, 200, BENCH_THROTTLE);
    page_init(&page);
    outcome = call_scan(run->pool_client, bench->store,
        &(struct scan_request){.table = "Blogs"}, &page, err);
    page_done(&page);
    return outcome == TW_STOPPED ? RUN_STOPPED : RUN_SUCCEEDED;
}

/* The run ends within ten seconds, even if the service is busy for longer; only
 * a move completes its load first (rule M8). */
VIRTUAL_BENCH_TEST(a_run_on_a_busy_store_is_soon_cancelled)
{
    int64_t begun_ms = platform_boot_ms();

    (void)expect_play(
        bench, asks_a_busy_store, "r1", ATTEMPT_RUN_ENDED, LEDGER_CANCELLED);
    assert_in_range(platform_boot_ms() - begun_ms, 0, 10000);
}

VIRTUAL_BENCH_TEST(a_move_on_a_busy_store_ends_its_load_first)
{
    int64_t begun_ms = platform_boot_ms();

    bench->kind.ends_load = true;
    (void)expect_play(
        bench, asks_a_busy_store, "r1", ATTEMPT_RUN_ENDED, LEDGER_SUCCEEDED);
    assert_true(platform_boot_ms() - begun_ms > 10000);
}

static struct store away = {
    .name = "away", .breakers = {{.failures = BREAKER_FAILURES}}};

/* An operator must replace the credentials. Then the run continues: it has not
 * failed. */
BENCH_TEST(refused_credentials_hold_a_run)
{
    static struct store locked = {
        .name = "locked", .breakers = {{.refused = true}}};

    workbench_add_store(bench, &locked);
    assert_true(attempt_with_message(bench, meets_outage).for_cause);
    (void)expect_held(bench, LEDGER_WAITS_FOR_STORE);
}

BENCH_SCRIPT(works_for_100_s)
{
    virtual_sleep(100000);
    return works(bench, run, attempt_number, err);
}

/* The time of the work that follows is not counted. */
VIRTUAL_BENCH_TEST(how_long_a_run_was_held_is_said)
{
    workbench_add_store(bench, &away);
    assert_true(attempt_with_message(bench, meets_outage).for_cause);
    virtual_sleep(10000);
    workbench_log_begin();
    assert_int_equal(
        play_with_message(bench, works_for_100_s, "r1").end, ATTEMPT_RUN_ENDED);
    assert_int_equal(
        workbench_log_end("continued, after it was held for 10 s"), 1);
}

/* ---- a store that does not respond ---- */

#define SILENT_MS 15000

static unsigned silent_asked; /* number of requests to the silent store that
                                 store/silence.c counts as in flight */

/* Waits for the whole time of the request, without a response. */
static enum tw_err never_responds(struct store *store,
    struct exchange *exchange, const char *table, struct slice partition_key,
    struct slice row_key, struct page *ret)
{
    silent_asked += store->silence.in_flight > 0;
    exchange->sent_ms = platform_boot_ms();
    virtual_sleep(SILENT_MS);
    return err_fail(&exchange->err, TW_UNKNOWN, "no answer came in time");
}

static const struct store_ops silent_ops = {.get = never_responds};

static enum tw_err read_with_err(
    struct run *run, struct store *store, struct err *err)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(run->pool_client, store, LEDGER_TABLE, slice_of(JOB),
        slice_of("r1"), &page, NULL, err);
    page_done(&page);
    return outcome;
}

/* Reads from two stores, as a copy does. The first one responds. */
BENCH_SCRIPT(needs_another_store)
{
    assert_ok(read_with_err(run, bench->store, err));
    return read_with_err(run, bench->stores.stores[1], err) == TW_NOT_FOUND
               ? RUN_SUCCEEDED
               : RUN_OUTAGE;
}

static void add_silent_store(struct workbench *bench)
{
    static struct store silent;

    silent = (struct store){.ops = &silent_ops,
        .name = "silent",
        .capabilities = {.late_writes = true}};
    workbench_add_store(bench, &silent);
    silent_asked = 0;
}

/* The request of the first attempt has no response. That of the second attempt
 * is not sent. The ledger has the cause, and the time at which the wait
 * began. */
VIRTUAL_BENCH_TEST(a_run_on_a_silent_store_is_held)
{
    struct ledger_run *run;
    int64_t began_ms, since_ticks;

    bench->wrapped.store.capabilities.late_writes = true;
    add_silent_store(bench);
    assert_true(attempt_with_message(bench, needs_another_store).for_cause);
    assert_int_equal(silent_asked, 1);
    run = expect_held(bench, LEDGER_WAITS_FOR_STORE);
    assert_true(slice_is(run->error, "no answer came in time"));
    assert_int_equal(run->failures, 0);
    since_ticks = run->waits_since_ticks;
    virtual_sleep(6000);
    began_ms = platform_boot_ms();
    assert_true(play(bench, needs_another_store, "r1").for_cause);
    assert_int_equal(silent_asked, 1);
    assert_in_range(platform_boot_ms() - began_ms, 0, 1000);
    run = expect_held(bench, LEDGER_WAITS_FOR_STORE);
    assert_true(slice_is(run->error, "store 'silent' does not respond: a "
                                     "request had no response for 15 s"));
    assert_true(run->waits_since_ticks == since_ticks);
}

/* An operator waits for the command `run`, and the attempt of this command
 * takes no slot of a worker. So requests of this attempt are not given up
 * early. */
VIRTUAL_BENCH_TEST(run_itself_gives_nothing_up)
{
    struct lease_request request = workbench_lease_request(bench, "r1");

    add_silent_store(bench);
    bench->script = needs_another_store;
    request.resumes_paused = true;
    (void)attempt(bench, &request, &football);
    assert_int_equal(silent_asked, 0);
}

BENCH_SCRIPT(archive_is_full)
{
    run->archive_full = true;
    return meets_outage(bench, run, attempt_number, err);
}

BENCH_SCRIPT(a_store_is_closed)
{
    run->store_closed = true;
    return meets_outage(bench, run, attempt_number, err);
}

VIRTUAL_BENCH_TEST(a_run_is_held_for_a_store_that_cannot_be_opened)
{
    assert_int_equal(
        play(bench, a_store_is_closed, "r1").end, ATTEMPT_DEFERRED);
    (void)expect_held(bench, LEDGER_WAITS_FOR_STORE);
}

/* A run that waits (a held run) is tried again after 5 s, 10 s, ... 5 min: the
 * longer the same cause has lasted, the later. */
VIRTUAL_BENCH_TEST(a_held_run_is_looked_at_ever_more_rarely)
{
    static const int64_t WAITS_S[] = {5, 5, 10, 20, 40, 80, 160, 300, 300};
    int64_t since = 0;

    workbench_add_store(bench, &away);
    for (size_t i = 0; TEST_EACH(i, WAITS_S); i++) {
        int64_t before_ms = platform_boot_ms();
        struct attempt_result result = play(bench, meets_outage, "r1");
        int64_t wait_ms = result.until_ms - before_ms;
        struct ledger_run *run = read_run(bench);

        assert_int_equal(result.end, ATTEMPT_DEFERRED);
        assert_in_range(
            wait_ms, WAITS_S[i] * 1000 - 1, WAITS_S[i] * 1000 + 1500);
        assert_true(i == 0 || run->waits_since_ticks == since);
        since = run->waits_since_ticks;
        virtual_sleep(wait_ms + 10);
    }
    /* With another cause the intervals begin again. */
    assert_int_equal(play(bench, archive_is_full, "r1").end, ATTEMPT_DEFERRED);
    assert_true(
        expect_held(bench, LEDGER_WAITS_FOR_ARCHIVE)->waits_since_ticks >
        since);
}

BENCH_TEST(stopped_in_order_everything_is_back_at_once)
{
    struct ledger_run *run;

    assert_int_equal(
        attempt_with_message(bench, is_stopped).end, ATTEMPT_STOPPED);
    run = read_run(bench);
    assert_int_equal(run->state, LEDGER_QUEUED);
    assert_int_equal(run->owner.len, 0);
    assert_true(slice_is(run->checkpoint, "{\"at\":9}"));
    assert_true(run->lease_until_ticks <= platform_wall_ticks() + TICKS_PER_MS);
    workbench_consume(bench, BENCH_QUEUE, "wake-up");
}

/* ---- taking the lease ---- */

BENCH_TEST(an_id_with_other_arguments_is_refused)
{
    struct lease_request request = workbench_lease_request(bench, "r1");
    struct attempt_result result;

    (void)play(bench, works, "r1");
    request.args_json = slice_of("{\"channel\":\"Tennis\"}");
    result = attempt(bench, &request, &football);
    assert_int_equal(result.end, ATTEMPT_REFUSED);
    assert_non_null(strstr(result.err.text, "other arguments"));
    assert_int_equal(bench->attempts, 1);
}

/* Stores run r1 as another attempt left it, with a lease until
 * lease_until_ticks (0: no owner). */
static void leave_run(struct workbench *bench, int64_t lease_until_ticks,
    int32_t silent, const char *definition)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->state = LEDGER_RUNNING;
    run->owner = slice_of(lease_until_ticks > 0 ? "somebody" : "");
    run->epoch = 4;
    run->attempt = 4;
    run->silent = silent;
    run->deleted = 100;
    run->lease_until_ticks = lease_until_ticks;
    run->checkpoint = slice_of("{\"old\":1}");
    run->definition = slice_of(definition);
    run->phase = slice_of("parent");
    assert_ok(workbench_store_run(bench, run));
}

/* Stores run r1 with an owner whose lease has expired. */
static void leave_crashed(struct workbench *bench)
{
    leave_run(bench, platform_wall_ticks() - TICKS_PER_S, 1, bench->job.hash);
}

/* The run has two messages and another owner, whose lease is valid, so the
 * second message is hidden. A run that has lasted 1 s until now is expected to
 * end soon, so the message is hidden for a few seconds only, and not until the
 * lease expires. */
VIRTUAL_BENCH_TEST(a_second_message_comes_back_as_soon_as_the_run_has_lasted)
{
    static const struct {
        int64_t lasted_s, back_s;
    } CASES[] = {{0, 2}, {1, 2}, {7, 7}, {3000, 60}};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        int64_t now_ticks = platform_wall_ticks(),
                before_ms = platform_boot_ms();
        struct ledger_run *run;
        struct attempt_result result;
        char id[8];

        (void)snprintf(id, sizeof(id), "d%zu", i);
        run = workbench_football(bench, id);
        run->state = LEDGER_RUNNING;
        run->owner = slice_of("somebody");
        run->started_ticks = now_ticks - CASES[i].lasted_s * TICKS_PER_S;
        run->lease_until_ticks = now_ticks + 60 * TICKS_PER_S;
        assert_ok(workbench_store_run(bench, run));
        workbench_put(bench, BENCH_QUEUE, "wake-up");
        result = play_with_message(bench, NULL, id);
        assert_int_equal(result.end, ATTEMPT_DEFERRED);
        assert_true(result.held);
        assert_in_range(result.until_ms - before_ms,
            CASES[i].back_s * 1000 - 1000, CASES[i].back_s * 1000 + 1500);
        run = workbench_stored(bench, JOB, id);
        assert_true(slice_is(run->owner, "somebody"));
        expect_queues(bench, (int64_t)i + 1, 0);
    }
    assert_int_equal(bench->attempts, 0);
    assert_int_equal(bench->ledger_writes, 0);
}

BENCH_SCRIPT(previous_owner_crashed)
{
    assert_true(run->previous_owner_crashed);
    assert_int_equal(run->epoch, 5);
    assert_true(slice_is(run->checkpoint, "{\"old\":1}"));
    assert_true(slice_is(run->phase, "parent"));
    assert_true(atomic_load(&run->counts.deleted) == 100);
    return RUN_SUCCEEDED;
}

BENCH_TEST(a_lease_that_is_over_is_taken_over)
{
    leave_crashed(bench);
    assert_int_equal(
        play(bench, previous_owner_crashed, "r1").end, ATTEMPT_RUN_ENDED);
    assert_int_equal(bench->attempts, 1);
}

/* The checkpoint and phase of another definition are dropped: a run that
 * continued in its last phase would leave out what the new definition adds. */
BENCH_SCRIPT(starts_over)
{
    assert_int_equal(run->checkpoint.len, 0);
    assert_int_equal(run->phase.len, 0);
    assert_true(atomic_load(&run->counts.deleted) == 100);
    return RUN_SUCCEEDED;
}

BENCH_TEST(a_checkpoint_of_another_definition_is_not_used)
{
    leave_run(bench, 0, 0, ACCEPTED "ffffffffffffffff");
    assert_int_equal(play(bench, starts_over, "r1").end, ATTEMPT_RUN_ENDED);
    assert_int_equal(bench->attempts, 1);
}

/* The second attempt logs nothing, because the consumer logs the cause once a
 * minute. */
BENCH_TEST(a_run_held_for_its_definition_is_named_in_the_log_once)
{
    bench->kind.table_job = true;
    leave_run(bench, 0, 0, "ffffffffffffffff");
    workbench_log_begin();
    for (int i = 0; i < 2; i++)
        assert_int_equal(play(bench, NULL, "r1").end, ATTEMPT_DEFERRED);
    assert_int_equal(
        workbench_log_end("run delete-channel/r1: is held, but has not failed: "
                          "the definition of its job has changed"),
        1);
    assert_int_equal(bench->attempts, 0);
}

BENCH_TEST(a_ledger_that_is_gone_comes_back)
{
    struct err err;

    /* a new store, without the ledger's table */
    store_close(bench->wrapped.inner);
    assert_ok(embedded_open("main", ":memory:", &bench->wrapped.inner, &err));
    (void)expect_play(bench, works, "r1", ATTEMPT_RUN_ENDED, LEDGER_SUCCEEDED);
}

/* ---- on a virtual clock: attempts whose end cannot be stored ---- */

static enum run_end wanted_end; /* returned by is_beaten() and
                                   meets_darkness() */

BENCH_SCRIPT(is_beaten)
{
    (void)err_fail(err, TW_INVALID, "what the kind says");
    run->resumes_ticks = platform_wall_ticks() + 3600 * TICKS_PER_S;
    rewrite(bench, LEDGER_RUNNING, "somebody", 1);
    return wanted_end;
}

/* Another owner has taken the lease. The attempt changes neither the run nor
 * the message, whatever its script returns. */
VIRTUAL_BENCH_TEST(an_attempt_that_was_beaten_touches_nothing)
{
    static const enum run_end ENDS[] = {RUN_SUCCEEDED, RUN_WAITING, RUN_FAILED,
        RUN_TRY_AGAIN, RUN_OUTAGE, RUN_STOPPED, RUN_LEASE_LOST};

    for (size_t i = 0; TEST_EACH(i, ENDS); i++) {
        struct attempt_result result;

        wanted_end = ENDS[i];
        result = attempt_with_message(bench, is_beaten);
        assert_int_equal(result.end, ATTEMPT_LEASE_LOST);
        assert_false(result.lease_expired);
        assert_true(slice_is(read_run(bench)->owner, "somebody"));
        expect_left(bench, "running", (int64_t)i + 1, 0);
        virtual_sleep(180000);
        rewrite(bench, LEDGER_QUEUED, "", 0);
    }
}

BENCH_SCRIPT(is_cancelled)
{
    run->resumes_ticks = platform_wall_ticks() + 3600 * TICKS_PER_S;
    rewrite(bench, LEDGER_CANCELLED, "", 0);
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_cancelled_run_stays_so_and_its_message_goes)
{
    struct attempt_result result = attempt_with_message(bench, is_cancelled);

    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_int_equal(result.state, LEDGER_CANCELLED);
    expect_left(bench, "cancelled", 0, 0);
}

BENCH_SCRIPT(meets_darkness)
{
    (void)err_fail(err, TW_BUSY, "the tables are away");
    run->resumes_ticks = platform_wall_ticks() + 3600 * TICKS_PER_S;
    workbench_meets(bench, BENCH_BATCH, ALWAYS, BENCH_FAIL);
    return wanted_end;
}

/* The attempt ends as an outage, whatever its script returns. */
VIRTUAL_BENCH_TEST(an_end_that_cannot_be_stored_is_an_outage)
{
    static const enum run_end ENDS[] = {RUN_SUCCEEDED, RUN_OUTAGE};

    for (unsigned i = 0; TEST_EACH(i, ENDS); i++) {
        struct attempt_result result;

        wanted_end = ENDS[i];
        result = attempt_with_message(bench, meets_darkness);
        assert_int_equal(result.end, ATTEMPT_OUTAGE);
        assert_int_equal(result.outcome, TW_BUSY);
        assert_string_equal(result.err.text, "the store is down");
        expect_left(bench, "running", i + 1, 0);
        bench->fault_count = 0;
        virtual_sleep(120000);
    }
}

BENCH_SCRIPT(has_no_time)
{
    (void)err_fail(err, TW_STOPPED, "no time for a request");
    return RUN_LEASE_LOST;
}

/* The script got no time for its requests, although the lease in the ledger is
 * still valid. */
VIRTUAL_BENCH_TEST(a_run_without_time_is_let_go_while_the_lease_stands)
{
    assert_int_equal(
        attempt_with_message(bench, has_no_time).end, ATTEMPT_STOPPED);
    assert_int_equal(read_run(bench)->owner.len, 0);
    expect_left(bench, "queued", 1, 0);
}

/* Fails unless the attempt's lease has expired and run r1 is in `state`. If
 * `state` is "running", the run must still have its owner. */
static void expect_expired(struct workbench *bench,
    const struct attempt_result *result, const char *state)
{
    assert_int_equal(result->end, ATTEMPT_LEASE_LOST);
    assert_true(result->lease_expired);
    assert_string_equal(workbench_state(bench, JOB, "r1"), state);
    if (strcmp(state, "running") == 0)
        assert_true(read_run(bench)->owner.len > 0);
}

/* ---- the hypervisor pauses the virtual machine: the boot clock stops ---- */

#define PAUSE_MS 70000
#define SHORT_PAUSE_MS 40000 /* shorter than the lease */

static struct bench_store data; /* store of another account */

/* Pauses the machine: the stores' clocks advance by pause_ms, and the machine's
 * own clocks stop. */
static void pause_machine(struct workbench *bench, int64_t pause_ms)
{
    workbench_locked(bench, bench->paused_ms += pause_ms);
}

static enum tw_err read_from(struct run *run, struct store *store)
{
    struct err err;

    return read_with_err(run, store, &err);
}

BENCH_SCRIPT(is_paused_beyond_its_lease)
{
    unsigned calls = bench->calls[BENCH_BATCH];
    int64_t began_ms = platform_boot_ms();

    pause_machine(bench, PAUSE_MS);
    assert_true(deadline_is_open(run->deadline, platform_boot_ms()));
    assert_ok(read_from(run, bench->store));
    assert_false(deadline_is_open(run->deadline, platform_boot_ms()));
    assert_int_equal(read_from(run, bench->store), TW_STOPPED);
    while (!run_stopping(run))
        virtual_sleep(1000);
    /* The attempt stops at the next renewal, before its deadline. */
    assert_true(platform_boot_ms() < began_ms + 10000);
    assert_int_equal(bench->calls[BENCH_BATCH], calls);
    return RUN_SUCCEEDED;
}

/* The header Date of the response shows the pause. The lease is not renewed any
 * more. */
VIRTUAL_BENCH_TEST(the_first_response_after_a_pause_ends_the_attempt)
{
    struct attempt_result result =
        attempt_with_message(bench, is_paused_beyond_its_lease);

    expect_expired(bench, &result, "running");
    expect_queues(bench, 1, 0);
}

/* During the pause another worker has ended the run. */
BENCH_SCRIPT(meets_another_account_first)
{
    assert_int_equal(read_from(run, &data.store), TW_NOT_FOUND);
    pause_machine(bench, PAUSE_MS);
    rewrite(bench, LEDGER_SUCCEEDED, "", 1);
    assert_int_equal(read_from(run, &data.store), TW_NOT_FOUND);
    assert_int_equal(read_from(run, &data.store), TW_STOPPED);
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_store_of_another_account_shows_a_pause_too)
{
    workbench_open_store(bench, "data", &data);
    assert_int_equal(
        attempt_with_message(bench, meets_another_account_first).end,
        ATTEMPT_LEASE_LOST);
    expect_left(bench, "succeeded", 1, 0);
    store_close(data.inner);
}

/* ---- two stores, two clocks ---- */

BENCH_SCRIPT(waits_for_its_own_store)
{
    int64_t date_ticks = 0;
    struct page page;

    page_init(&page);
    assert_int_equal(call_get(run->pool_client, &data.store, LEDGER_TABLE,
                         slice_of("a"), slice_of("b"), &page, &date_ticks, err),
        TW_NOT_FOUND);
    page_done(&page);
    run->waits_for = RUN_WAITS_FOR_SETTLE;
    run_wait(run, &data.store, date_ticks, date_ticks + 5 * TICKS_PER_S);
    return RUN_WAITING;
}

/* Opens the other store after a step of the wall clock, so that the two stores'
 * clocks differ by step_ms, and fails unless the run waits 5 s. */
static void check_wait(struct workbench *bench, const char *id, int64_t step_ms)
{
    struct attempt_result result;
    struct ledger_run *run;

    virtual_step_clocks(0, step_ms, 0);
    workbench_open_store(bench, "data", &data);
    result = play(bench, waits_for_its_own_store, id);
    assert_int_equal(result.end, ATTEMPT_DEFERRED);
    assert_in_range(result.until_ms - platform_boot_ms(), 4000, 7000);
    run = workbench_stored(bench, JOB, id);
    assert_in_range(run->resumes_ticks - run->updated_ticks, 4 * TICKS_PER_S,
        7 * TICKS_PER_S);
    store_close(data.inner);
}

VIRTUAL_BENCH_TEST(a_run_waits_as_long_as_its_store_s_clock_says)
{
    check_wait(bench, "r1", 3600000);
    check_wait(bench, "r2", -7200000);
}

BENCH_SCRIPT(is_paused_at_its_end)
{
    pause_machine(bench, PAUSE_MS);
    rewrite(bench, LEDGER_SUCCEEDED, "", 1);
    return RUN_FAILED;
}

/* The first request after the pause is the write that stores the end. Its
 * response shows that the lease has expired, which is no outage. */
VIRTUAL_BENCH_TEST(an_end_after_a_pause_is_not_stored)
{
    struct attempt_result result = play(bench, is_paused_at_its_end, "r1");

    expect_expired(bench, &result, "succeeded");
}

static struct store *shows; /* the store whose response shows the pause */

BENCH_SCRIPT(is_paused_within_its_lease)
{
    enum tw_err found = shows == &data.store ? TW_NOT_FOUND : TW_OK;
    int64_t began_ms = platform_boot_ms();

    assert_int_equal(read_from(run, shows), found);
    pause_machine(bench, SHORT_PAUSE_MS);
    assert_int_equal(read_from(run, shows), found);
    assert_false(deadline_is_open(run->deadline, platform_boot_ms()));
    assert_true(deadline_may_reopen(run->deadline, platform_boot_ms()));
    assert_ok(read_from(run, bench->store));
    assert_true(deadline_is_open(run->deadline, platform_boot_ms()));
    /* This took no longer than the wait for the next renewal, which was due
     * anyway, and one more renewal. */
    assert_true(platform_boot_ms() < began_ms + 7000);
    /* The lease is as long as it would be without the pause. */
    assert_true(read_run(bench)->lease_until_ticks >=
                platform_wall_ticks() + SHORT_PAUSE_MS * TICKS_PER_MS +
                    60 * TICKS_PER_S);
    return RUN_SUCCEEDED;
}

/* Fails unless the run waits after a short pause until its lease is renewed,
 * and then succeeds. `by` is the store whose response shows the pause. */
static void goes_on_after_a_pause(struct workbench *bench, struct store *by)
{
    struct attempt_result result;

    shows = by;
    result = attempt_with_message(bench, is_paused_within_its_lease);
    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_int_equal(result.state, LEDGER_SUCCEEDED);
    expect_queues(bench, 0, 0);
}

VIRTUAL_BENCH_TEST(a_pause_shorter_than_the_lease_costs_a_renewal)
{
    workbench_open_store(bench, "data", &data);
    goes_on_after_a_pause(bench, &data.store);
    store_close(data.inner);
}

/* LeaseUntil was computed from the ledger's clock before the pause. A response
 * of the ledger's own store shows this; no other store is needed. */
VIRTUAL_BENCH_TEST(a_pause_that_the_ledgers_store_shows_shortens_no_lease)
{
    goes_on_after_a_pause(bench, bench->store);
}

BENCH_SCRIPT(is_beaten_and_hears)
{
    rewrite(bench, LEDGER_RUNNING, "somebody", 1);
    while (!run_stopping(run))
        virtual_sleep(1000);
    return RUN_LEASE_LOST;
}

/* If lease_expired were set, this worker would try to take the run again, while
 * another worker executes it. */
VIRTUAL_BENCH_TEST(whoever_hears_of_another_owner_has_not_let_it_lapse)
{
    struct attempt_result result = play(bench, is_beaten_and_hears, "r1");

    assert_int_equal(result.end, ATTEMPT_LEASE_LOST);
    assert_false(result.lease_expired);
}

BENCH_SCRIPT(outlives_its_lease)
{
    workbench_meets(bench, BENCH_BATCH, ALWAYS, BENCH_FAIL);
    while (!run_stopping(run))
        virtual_sleep(1000);
    return RUN_SUCCEEDED;
}

/* The lease has expired, so the RUN_SUCCEEDED of the kind does not count. */
VIRTUAL_BENCH_TEST(a_kind_that_succeeded_too_late_has_not)
{
    struct attempt_result result =
        attempt_with_message(bench, outlives_its_lease);

    bench->fault_count = 0;
    expect_expired(bench, &result, "running");
    expect_queues(bench, 1, 0);
}

BENCH_SCRIPT(enters_a_phase)
{
    struct ledger_run *stored;

    assert_ok(run->callbacks->phase(run, "parent", slice_of("{\"v\":2}"), err));
    assert_true(slice_is(run->phase, "parent"));
    stored = read_run(bench);
    assert_true(slice_is(stored->phase, "parent"));
    assert_true(slice_is(stored->checkpoint, "{\"v\":2}"));
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_phase_is_in_the_ledger_when_the_kind_goes_on)
{
    assert_int_equal(play(bench, enters_a_phase, "r1").end, ATTEMPT_RUN_ENDED);
}

/* ---- failed entities ---- */

static void fail_entities(struct run *run, int count)
{
    for (int i = 0; i < count; i++)
        fail_entity(run, "T", "p", "why");
}

/* A new pass forgets the failed entities of the pass before, and reports them
 * again. */
BENCH_SCRIPT(tells_failed_twice)
{
    fail_entities(run, 20);
    run->callbacks->forget_failed(run, 0);
    fail_entity(run, "T", "new", "why");
    run->callbacks->forget_failed(run, 7); /* the count is 7 from here on */
    return (void)err_fail(err, TW_INVALID, "7 failed"), RUN_FAILED;
}

VIRTUAL_BENCH_TEST(failures_that_are_told_again_are_counted_once)
{
    struct ledger_run *run = expect_play(
        bench, tells_failed_twice, "r1", ATTEMPT_RUN_ENDED, LEDGER_FAILED);

    assert_int_equal(run->failed, 7);
    assert_true(slice_is(run->failed_entities, "T 'new' / 'r': why"));
}

BENCH_SCRIPT(fails_round_after_round)
{
    for (int i = 0; i < 5; i++) {
        run->callbacks->forget_failed(run, 0);
        fail_entities(run, 60);
    }
    return attempt_number < 3 ? RUN_STOPPED : RUN_SUCCEEDED;
}

/* Makes three attempts; returns how many lines of the log contain `text`. */
static unsigned lines_of_rounds(struct workbench *bench, const char *text)
{
    workbench_log_begin();
    for (int i = 0; i < 3; i++)
        (void)play(bench, fails_round_after_round, "r1");
    return workbench_log_end(text);
}

BENCH_TEST(the_log_has_a_hundred_failed_entities_of_a_run)
{
    assert_int_equal(lines_of_rounds(bench, "T 'p' / 'r': why"), 100);
}

BENCH_TEST(that_no_more_failed_entities_are_logged_is_said_once)
{
    assert_int_equal(lines_of_rounds(bench, "more entities fail"), 1);
}

/* In the first attempt the store is down after the write, until the lease has
 * expired. In the ledger this looks as if the worker had been killed. */
BENCH_SCRIPT(is_killed_after_a_write)
{
    fail_entities(run, 60);
    virtual_sleep(INT64_C(60) * 1000);
    if (attempt_number > 1)
        return RUN_SUCCEEDED;
    workbench_locked(bench, bench->down = true);
    virtual_sleep(INT64_C(3600) * 1000);
    return (void)err_fail(err, TW_STOPPED, "killed"), RUN_STOPPED;
}

VIRTUAL_BENCH_TEST(a_kill_loses_no_line_that_the_ledger_has_counted)
{
    workbench_log_begin();
    for (unsigned i = 0; i < 2; i++) {
        (void)play(bench, is_killed_after_a_write, "r1");
        workbench_locked(bench, bench->down = false);
        virtual_sleep(INT64_C(3600) * 1000);
    }
    assert_int_equal(bench->attempts, 2);
    assert_in_range(workbench_log_end("T 'p' / 'r': why"), 61, 100);
}

/* ---- the log ---- */

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

/* The first and the last line of an attempt in the log. */
BENCH_TEST(json_lines_name_job_run_attempt_and_arguments)
{
    struct lease_request request = workbench_lease_request(bench, "r1");

    request.traceparent = slice_of(TRACE);
    bench->script = works;
    workbench_log_begin();
    log_set(LOG_INFO, LOG_JSON);
    (void)attempt(bench, &request, &football);
    log_set(LOG_INFO, LOG_TEXT);
    assert_int_equal(
        workbench_log_end(
            "\"job\":\"delete-channel\",\"run\":\"r1\",\"attempt\":1,"
            "\"args\":{\"channel\":\"Football\"},\"store\":\"main\","
            "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\","
            "\"traceparent\":\"" TRACE "\""),
        2);
}

BENCH_SCRIPT(works_for_three_minutes)
{
    for (int second = 0; second < 190; second++) {
        atomic_fetch_add(&run->counts.read, 50);
        atomic_store(&run->share, second * 1000 / 190);
        virtual_sleep(1000);
    }
    return RUN_SUCCEEDED;
}

static unsigned lines_of_progress(struct workbench *bench)
{
    workbench_log_begin();
    assert_int_equal(
        play(bench, works_for_three_minutes, "r1").end, ATTEMPT_RUN_ENDED);
    return workbench_log_end("r1: progress: ");
}

VIRTUAL_BENCH_TEST(progress_is_logged_once_a_minute)
{
    assert_int_equal(lines_of_progress(bench), 3);
}

static void shows_progress_itself(void *context, struct run *run)
{
}

/* The command `run` has its own line of progress. */
VIRTUAL_BENCH_TEST(progress_is_not_logged_beside_another_display)
{
    bench->environment.watch = shows_progress_itself;
    assert_int_equal(lines_of_progress(bench), 0);
}

/* ---- other runs, and odd contents of the ledger ---- */

static void leave_other(struct workbench *bench, const char *id,
    enum ledger_state run_state, bool spoilt)
{
    struct ledger_run *run = workbench_new_run(bench);
    struct property odd = {slice_of("Epoch"), EDM_STRING, slice_of("\"x\"")};

    run->job = slice_of("another-job");
    run->id = slice_of(id);
    run->state = run_state;
    if (spoilt) {
        run->others = &odd;
        run->other_count = 1;
    }
    assert_ok(workbench_store_run(bench, run));
}

static enum tw_err is_open(struct run *run, const char *id, bool *ret)
{
    struct err err;

    return run->callbacks->is_open(
        run, slice_of("another-job"), slice_of(id), ret, &err);
}

BENCH_SCRIPT(asks_for_others)
{
    bool open = false;

    assert_ok(is_open(run, "open", &open));
    assert_true(open);
    assert_ok(is_open(run, "ended", &open));
    assert_false(open);
    open = true;
    assert_ok(is_open(run, "nowhere", &open));
    assert_false(open);
    assert_int_equal(is_open(run, "spoilt", &open), TW_INVALID);
    workbench_meets(bench, BENCH_GET, ALWAYS, BENCH_REFUSE);
    assert_int_equal(is_open(run, "open", &open), TW_REFUSED);
    return RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(a_kind_may_ask_whether_another_run_is_open)
{
    leave_other(bench, "open", LEDGER_WAITING, false);
    leave_other(bench, "ended", LEDGER_CANCELLED, false);
    leave_other(bench, "spoilt", LEDGER_QUEUED, true);
    assert_int_equal(play(bench, asks_for_others, "r1").end, ATTEMPT_RUN_ENDED);
}

/* Stores run r1 with arguments of a former definition of its job. */
static void leave_former(struct workbench *bench, struct slice args)
{
    struct ledger_run *run = workbench_football(bench, "r1");

    run->args = args;
    run->queue = slice_of(BENCH_QUEUE);
    assert_ok(workbench_store_run(bench, run));
}

static void leave_run_of(struct workbench *bench, const char *id,
    const char *queue, int32_t failures)
{
    struct ledger_run *run = workbench_football(bench, id);

    run->queue = slice_of(queue);
    run->failures = failures;
    assert_ok(workbench_store_run(bench, run));
}

/* The ledger may name a queue that cannot exist. Such a run was once tried
 * again for ever. */
VIRTUAL_BENCH_TEST(a_run_of_what_is_no_queue_ends_without_a_copy)
{
    static const struct {
        const char *id, *queue;
    } CASES[] = {{"r1", "A B"}, {"r2", "--"},
        {"r3",
            "a-name-that-leaves-no-room-for-the-seven-characters-behind-it"}};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct attempt_result result;

        leave_run_of(bench, CASES[i].id, CASES[i].queue, 0);
        result = play_orphan(bench, fails, CASES[i].id);
        assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
        assert_string_equal(workbench_state(bench, JOB, CASES[i].id), "failed");
        assert_non_null(strstr(result.err.text, "there is more than refuse"));
    }
}

VIRTUAL_BENCH_TEST(failures_are_counted_up_to_the_end_of_numbers)
{
    leave_run_of(bench, "r1", BENCH_QUEUE, INT32_MAX);
    assert_int_equal(play_orphan(bench, stumbles, "r1").end, ATTEMPT_RUN_ENDED);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "poisoned");
}

/* A run without a message has arguments that the job no longer takes. A wake-up
 * message with these arguments would be too long, and would be cut off in the
 * middle of the arguments. */
VIRTUAL_BENCH_TEST(a_copy_that_no_queue_takes_goes_without_arguments)
{
    struct attempt_result result;
    struct messages copies;
    struct slice text;
    struct buf args;

    buf_init(&args, 2 * QUEUE_MAX_MESSAGE_BYTES);
    buf_add_text(&args, "{\"chanel\":\"");
    while (args.len < QUEUE_MAX_MESSAGE_BYTES - 20)
        buf_add_text(&args, "\xe6\x97\xa5");
    buf_add_text(&args, "\"}");
    leave_former(bench, buf_slice(&args));
    buf_done(&args);
    result = play_orphan(bench, NULL, "r1");
    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_int_equal(result.state, LEDGER_POISONED);
    assert_non_null(strstr(result.err.text, "chanel"));
    assert_int_equal(bench->attempts, 0);
    expect_left(bench, "poisoned", 0, 1);
    messages_init(&copies);
    (void)workbench_take(bench, BENCH_QUEUE "-poison", &copies);
    text = copies.list[0].text;
    assert_true(slice_begins(text,
        slice_of("{\"job\":\"" JOB "\",\"args\":{},\"id\":\"r1\",\"at\":\"")));
    assert_int_equal(text.at[text.len - 1], '}');
    messages_done(&copies);
}

/* ---- jobs that lock tables, and commands of operators ---- */

static void list_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    each(ctx, 0, "OnlyRead", JOB_READS);
    each(ctx, 0, "Blogs", JOB_WRITES);
}

static void be_table_job(struct workbench *bench)
{
    bench->kind.table_job = true;
    bench->kind.tables = list_tables;
}

static size_t lock_rows(struct workbench *bench)
{
    struct scan_request scan = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(slice_of("!locks"))};
    struct exchange other = {0};
    struct page page;
    size_t count;

    page_init(&page);
    assert_ok(store_scan(bench->wrapped.inner, &other, &scan, &page));
    count = page.count;
    page_done(&page);
    return count;
}

/* Makes an attempt at run `id` of a job that locks tables; fails unless the run
 * waits and keeps its lock. */
static void play_waits(struct workbench *bench, const char *id)
{
    (void)expect_play(bench, waits, id, ATTEMPT_DEFERRED, LEDGER_WAITING);
    assert_int_equal(lock_rows(bench), 1);
}

/* Makes an attempt at run `id` of a job that locks tables; fails unless the run
 * ends in `state` and there are `locks` locks afterwards. */
static void play_to_end(struct workbench *bench, bench_script *script,
    const char *id, enum ledger_state state, size_t locks)
{
    (void)expect_play(bench, script, id, ATTEMPT_RUN_ENDED, state);
    assert_int_equal(lock_rows(bench), locks);
}

/* Rule L1: the second run waits, names the run that it waits for, and has no
 * lock. */
VIRTUAL_BENCH_TEST(a_table_job_waits_for_its_turn)
{
    struct attempt_result result;
    struct ledger_run *run;

    be_table_job(bench);
    play_waits(bench, "r1");
    result = play(bench, works, "r2");
    assert_int_equal(result.end, ATTEMPT_DEFERRED);
    assert_true(result.for_cause);
    run = workbench_stored(bench, JOB, "r2");
    assert_int_equal(run->state, LEDGER_WAITING);
    assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_TURN));
    assert_true(run->waits_since_ticks > 0);
    assert_int_equal(run->definition.len, 0); /* unbound: it has not begun */
    assert_non_null(strstr(run->error.at, "run delete-channel/r1 has table "
                                          "Blogs and is waiting for settle"));
    assert_int_equal(bench->attempts, 1);
    virtual_sleep(3700000);
    assert_int_equal(play(bench, works, "r1").end, ATTEMPT_RUN_ENDED);
    play_to_end(bench, works, "r2", LEDGER_SUCCEEDED, 0);
    assert_int_equal(bench->attempts, 3);
}

/* A run is bound to a definition when it begins to work. An outage in its first
 * attempt, or a wait for its turn, does not bind it. */
VIRTUAL_BENCH_TEST(a_table_job_that_has_not_begun_is_not_bound)
{
    struct ledger_run *run;

    be_table_job(bench);
    workbench_meets(bench, BENCH_SCAN, ALWAYS, BENCH_FAIL);
    run = expect_play(bench, NULL, "r1", ATTEMPT_DEFERRED, LEDGER_QUEUED);
    assert_int_equal(run->definition.len, 0);
    bench->fault_count = 0;
    play_waits(bench, "r2");
    run = expect_play(bench, NULL, "r1", ATTEMPT_DEFERRED, LEDGER_WAITING);
    assert_int_equal(run->definition.len, 0);
    assert_int_equal(bench->attempts, 1);
}

/* The ledger refuses some requests once, as busy: those for the lease, for
 * `!closed` and for the lock. The attempt repeats these requests. */
VIRTUAL_BENCH_TEST(a_ledger_that_is_busy_costs_a_table_job_no_attempt)
{
    struct ledger_run *run;

    be_table_job(bench);
    workbench_meets(bench, BENCH_GET, 2, 2, BENCH_THROTTLE);
    workbench_meets(bench, BENCH_SCAN, 1, 1, BENCH_THROTTLE);
    workbench_meets(bench, BENCH_BATCH, 2, 2, BENCH_THROTTLE);
    run = expect_play(bench, works, "r1", ATTEMPT_RUN_ENDED, LEDGER_SUCCEEDED);
    assert_int_equal(run->attempt, 1);
}

BENCH_SCRIPT(loses_an_answer)
{
    struct operation operation = {.type = OPERATION_INSERT};
    struct batch batch = {"Blogs", &operation, 1};
    struct batch_result result;
    struct arena arena;

    arena_init(&arena);
    entity_init(&operation.entity, &arena, slice_of("p"), slice_of("r"));
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_LOSE_REQUEST);
    assert_int_equal(
        call_batch(run->pool_client, bench->store, &batch, &result, NULL, err),
        TW_UNKNOWN);
    arena_done(&arena);
    return fails(bench, run, attempt_number, err);
}

BENCH_SCRIPT(is_to_wait)
{
    assert_true(run->previous_owner_crashed);
    return RUN_SUCCEEDED;
}

/* Rule A4: the insert of the failed run may still arrive, so its lock stays.
 * The next run that takes the lock waits for the insert. */
VIRTUAL_BENCH_TEST(the_lock_of_a_failed_run_tells_of_its_late_requests)
{
    be_table_job(bench);
    bench->wrapped.store.capabilities.late_writes = true;
    play_to_end(bench, loses_an_answer, "r1", LEDGER_FAILED, 1);
    /* A message of a run that has ended does not release the lock. */
    assert_true(attempt_with_message(bench, works).already);
    assert_int_equal(lock_rows(bench), 1);
    play_to_end(bench, is_to_wait, "r2", LEDGER_SUCCEEDED, 1);
}

/* The command that cancels a run does not know whether requests of the run may
 * still arrive, so the lock stays. */
VIRTUAL_BENCH_TEST(the_lock_of_a_cancelled_run_tells_of_its_late_requests)
{
    be_table_job(bench);
    play_waits(bench, "r1");
    assert_false(workbench_cancel(bench, "r1"));
    assert_int_equal(lock_rows(bench), 1);
    (void)expect_play(
        bench, is_to_wait, "r2", ATTEMPT_RUN_ENDED, LEDGER_SUCCEEDED);
}

/* Rule L3: a run that fails releases its locks, so another run may have locked
 * the tables since. */
VIRTUAL_BENCH_TEST(a_retried_table_job_waits_for_its_turn)
{
    be_table_job(bench);
    play_to_end(bench, fails, "r1", LEDGER_FAILED, 0);
    play_waits(bench, "r2");
    rewrite(bench, LEDGER_QUEUED, "", 0);
    (void)expect_play(bench, works, "r1", ATTEMPT_DEFERRED, LEDGER_WAITING);
    assert_int_equal(bench->attempts, 2);
}

BENCH_SCRIPT(works_for_34_s)
{
    virtual_sleep(34000);
    return RUN_SUCCEEDED;
}

/* Rule A4: the second run ends before late requests of the first have arrived,
 * so the third has to wait for them. */
VIRTUAL_BENCH_TEST(a_run_keeps_a_lock_that_it_took_over_just_before)
{
    be_table_job(bench);
    play_waits(bench, "r1");
    rewrite(bench, LEDGER_FAILED, "", 0); /* the run ends, and its lock stays */
    play_to_end(bench, fails, "r2", LEDGER_FAILED, 1);
    play_to_end(bench, works, "r3", LEDGER_SUCCEEDED, 1);
    /* A message of a run that has ended does not release the lock. */
    workbench_put(bench, BENCH_QUEUE, "wake-up");
    assert_true(play_with_message(bench, works, "r3").already);
    assert_int_equal(lock_rows(bench), 1);
    play_to_end(bench, works_for_34_s, "r4", LEDGER_SUCCEEDED, 0);
}

BENCH_SCRIPT(waits_for_its_turn)
{
    run->waits_for = RUN_WAITS_FOR_TURN;
    run->resumes_ticks = platform_wall_ticks() + 5 * TICKS_PER_S;
    (void)err_fail(err, TW_CONFLICT, "waits for its turn: run other has it");
    return RUN_WAITING;
}

/* A cascade waits in this way while another run deletes its parent. */
VIRTUAL_BENCH_TEST(a_run_says_since_when_it_waits_for_another)
{
    int64_t since_ticks = platform_wall_ticks();
    struct ledger_run *run;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            play(bench, waits_for_its_turn, "r1").end, ATTEMPT_DEFERRED);
        virtual_sleep(5000);
    }
    run = read_run(bench);
    assert_true(slice_is(run->waits_for, LEDGER_WAITS_FOR_TURN));
    assert_true(slice_is(run->error, "waits for its turn: run other has it"));
    assert_true(run->waits_since_ticks <= since_ticks + TICKS_PER_S);
}

BENCH_SCRIPT(need_not_wait)
{
    assert_false(run->previous_owner_crashed);
    return RUN_SUCCEEDED;
}

/* Makes an attempt that cannot read the locks. */
static void fail_to_take_locks(struct workbench *bench)
{
    workbench_meets(bench, BENCH_SCAN, ALWAYS, BENCH_FAIL);
    (void)expect_play(bench, NULL, "r1", ATTEMPT_DEFERRED, LEDGER_QUEUED);
    bench->fault_count = 0;
    assert_int_equal(bench->attempts, 0);
}

/* Rule A4: the crash stays known, because the next two attempts do not wait for
 * late requests of the crashed attempt: the first one cannot read the locks,
 * and the second one cannot read the tables. */
VIRTUAL_BENCH_TEST(a_crash_is_known_until_an_attempt_makes_progress)
{
    be_table_job(bench);
    leave_crashed(bench);
    fail_to_take_locks(bench);
    (void)expect_play(
        bench, meets_outage, "r1", ATTEMPT_DEFERRED, LEDGER_QUEUED);
    assert_int_equal(bench->attempts, 1);
    assert_int_equal(play(bench, is_to_wait, "r1").state, LEDGER_SUCCEEDED);
}

/* After an attempt has made progress, the checkpoint contains what the kind
 * must know about the crash. */
VIRTUAL_BENCH_TEST(a_crash_is_forgotten_after_progress)
{
    leave_crashed(bench);
    assert_int_equal(play(bench, stumbles_ahead, "r1").end, ATTEMPT_DEFERRED);
    virtual_sleep(5000);
    assert_int_equal(play(bench, need_not_wait, "r1").state, LEDGER_SUCCEEDED);
}

/* The dropped checkpoint may have said that a request is late, so the next
 * attempt counts as one after a crash. */
VIRTUAL_BENCH_TEST(a_dropped_checkpoint_is_known_until_a_kind_has_run)
{
    be_table_job(bench);
    leave_run(bench, 0, 0, ACCEPTED "ffffffffffffffff");
    fail_to_take_locks(bench);
    assert_int_equal(play(bench, is_to_wait, "r1").state, LEDGER_SUCCEEDED);
}

BENCH_SCRIPT(closes)
{
    run->closes_job = true;
    return RUN_SUCCEEDED;
}

/* Rule A5: after `finish` a job takes no runs until it is opened again. */
VIRTUAL_BENCH_TEST(a_closed_job_takes_no_more_runs)
{
    const struct locks_request tables = {.store = bench->wrapped.inner,
        .job = &bench->job,
        .stores = &bench->stores};
    struct exchange other = {0};
    struct attempt_result result;
    struct err err;

    be_table_job(bench);
    play_to_end(bench, closes, "r1", LEDGER_SUCCEEDED, 1);
    result = play(bench, closes, "r2");
    assert_int_equal(result.end, ATTEMPT_RUN_ENDED);
    assert_int_equal(result.state, LEDGER_FAILED);
    assert_non_null(strstr(result.err.text, "`finish` of run r1"));
    assert_ok(ledger_reopen(bench->wrapped.inner, &other, slice_of(JOB)));
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
    /* Its tables are still closed. */
    assert_int_equal(play(bench, works, "r3").state, LEDGER_FAILED);
    assert_int_equal(bench->attempts, 1);
    assert_ok(locks_reopen(&tables, &err));
    assert_int_equal(play(bench, works, "r4").state, LEDGER_SUCCEEDED);
}

/* Another run of the job ends by `finish` while this run takes its locks. */
BENCH_BETWEEN(closes_the_job)
{
    struct arena arena;
    struct entity entity;

    if (call != BENCH_SCAN || n != 1)
        return;
    bench->between = NULL;
    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(JOB), slice_of(LEDGER_CLOSED));
    workbench_write(bench, OPERATION_INSERT, &entity);
    arena_done(&arena);
}

VIRTUAL_BENCH_TEST(a_job_closed_while_locks_are_taken_takes_no_more_runs)
{
    be_table_job(bench);
    bench->between = closes_the_job;
    assert_int_equal(play(bench, works, "r1").state, LEDGER_FAILED);
    assert_int_equal(bench->attempts, 0);
}

static const char *to_ask;

/* An operator asks for a pause or a cancel. The kind knows it after the next
 * renewal of the lease, and stops. */
BENCH_SCRIPT(stops_when_asked)
{
    int64_t asked_ms = platform_boot_ms();
    struct ledger_run *stored = read_run(bench);

    stored->control = slice_of(to_ask);
    assert_ok(workbench_store_run(bench, stored));
    while (!run_stopping(run))
        virtual_sleep(100);
    assert_true(platform_boot_ms() - asked_ms <= 6000);
    return RUN_STOPPED;
}

VIRTUAL_BENCH_TEST(who_works_acts_on_what_people_ask)
{
    static const struct {
        const char *control, *run_state;
        enum attempt_outcome end;
    } cases[] = {
        {LEDGER_CONTROL_PAUSE, "paused", ATTEMPT_PAUSED},
        {LEDGER_CONTROL_CANCEL, "cancelled", ATTEMPT_RUN_ENDED},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct ledger_run *run;

        to_ask = cases[i].control;
        assert_int_equal(
            attempt_with_message(bench, stops_when_asked).end, cases[i].end);
        /* Guarantee 1: the message is deleted after the run is stored. */
        expect_left(bench, cases[i].run_state, 0, 0);
        run = read_run(bench);
        assert_int_equal(run->owner.len + run->control.len, 0);
        rewrite(bench, LEDGER_QUEUED, "", 0);
    }
}

VIRTUAL_BENCH_TEST(what_fails_is_in_the_job_s_failures_too)
{
    bench->job.failures = "failures";
    assert_int_equal(play(bench, fails, "r1").end, ATTEMPT_RUN_ENDED);
    bench->job.failures = NULL;
    text_file_check("failures/" JOB "-r1.jsonl",
        "{\"table\":\"Blogs\",\"PartitionKey\":\"p\",\"RowKey\":\"r\","
        "\"reason\":\"cannot be converted\"}\n");
}

BENCH_SCRIPT(tells_all)
{
    run->callbacks->note(run, "nothing was selected");
    run->callbacks->note(run, "nothing was selected");
    atomic_store(&run->behind, 3);
    atomic_store(&run->caught_up_ticks, TICKS_1970 + 5);
    atomic_store(&run->parent_found, 0);
    atomic_store(&run->share, attempt_number == 1 ? 250 : 0);
    return attempt_number <= 2 ? RUN_STOPPED : RUN_SUCCEEDED;
}

VIRTUAL_BENCH_TEST(what_the_kind_tells_is_in_the_ledger)
{
    struct ledger_run *run =
        expect_play(bench, tells_all, "r1", ATTEMPT_STOPPED, LEDGER_QUEUED);

    assert_true(slice_is(run->note, "nothing was selected"));
    assert_true(run->behind == 3);
    assert_true(run->caught_up_ticks == TICKS_1970 + 5);
    assert_int_equal(run->parent_found, 0);
    assert_true(run->share == 0.25);
    assert_int_equal(run->format, LEDGER_FORMAT);
    run = expect_play(bench, tells_all, "r1", ATTEMPT_STOPPED, LEDGER_QUEUED);
    assert_true(run->share >= 0 && run->share < 0.001);
    run = expect_play(
        bench, tells_all, "r1", ATTEMPT_RUN_ENDED, LEDGER_SUCCEEDED);
    assert_true(run->share > 0.999 && run->share < 1.001);
}
