/* SPDX-License-Identifier: MIT */
/* One attempt: what it claims, and what each end writes and where. */
#include "tests/support/workbench.h"

#include "worker/base/text.h"
#include "worker/store/embedded/embedded.h"

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

static struct slice args_names[] = {{"channel", 7}};
static struct slice args_values[] = {{"Football", 8}};
static const struct run_args football = {1, args_names, args_values};

/* One attempt at run `id`, rung by a message taken from the queue, or not. */
static struct work_result attempt_id(
    struct workbench *bench, const char *id, bool with_message)
{
    struct claim_wish wish = workbench_wish(bench, id);
    struct claim_message message = {.queue = BENCH_QUEUE};
    struct work_result result;
    struct messages taken;

    messages_init(&taken);
    if (with_message) {
        message.sent_ms = workbench_take(bench, BENCH_QUEUE, &taken);
        message.id = taken.list[0].id;
        message.pop_receipt = taken.list[0].pop_receipt;
        message.text = taken.list[0].text;
        message.inserted_ticks = taken.list[0].inserted_ticks;
        wish.message = &message;
    }
    work_attempt(&bench->place, &bench->definition, &wish, &football, &result);
    messages_done(&taken);
    return result;
}

static struct work_result attempt(struct workbench *bench)
{
    return attempt_id(bench, "r1", true);
}

static void read_run(struct workbench *bench, struct ledger_run *ret)
{
    ledger_run_init(ret);
    assert_true(workbench_run(bench, JOB, "r1", ret));
}

/* ---- scripts ---- */

static enum run_end works(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)attempt_number;
    (void)err;
    assert_true(slice_is(run->args.values[0], "Football"));
    atomic_fetch_add(&run->counts.deleted, 7);
    return RUN_SUCCEEDED;
}

static enum run_end fails(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)attempt_number;
    run->host->failed(
        run, "Blogs", slice_of("p"), slice_of("r"), "cannot be converted");
    (void)err_fail(err, TW_INVALID, "there is more than refuse_above");
    return RUN_FAILED;
}

static enum run_end stumbles(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)run;
    (void)err_fail(err, TW_INVALID, "stumble %u", attempt_number);
    return RUN_TRY_AGAIN;
}

static enum run_end stumbles_ahead(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    run->host->save(run, slice_of("{\"at\":1}"), true);
    return stumbles(bench, run, attempt_number, err);
}

static enum run_end waits(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)attempt_number;
    (void)err;
    run->host->save(run, slice_of("{\"look\":1}"), true);
    run->resumes_ticks = world_wall_ticks() + 3600 * TICKS_PER_S;
    return RUN_WAITING;
}

static enum run_end meets_outage(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)run;
    (void)attempt_number;
    (void)err_fail(err, TW_BUSY, "503 from the tables");
    return RUN_OUTAGE;
}

static enum run_end is_stopped(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)attempt_number;
    (void)err;
    assert_false(run_stopping(run));
    world_lock(&bench->lock);
    bench->stop = true;
    world_unlock(&bench->lock);
    assert_true(run_stopping(run));
    run->host->save(run, slice_of("{\"at\":9}"), false);
    return RUN_STOPPED;
}

/* ---- ends ---- */

static void success_is_in_the_ledger_and_then_the_message_goes(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct work_result result;

    bench->script = works;
    workbench_put(bench, BENCH_QUEUE, "bell");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_ENDED);
    assert_int_equal(result.state, LEDGER_SUCCEEDED);
    assert_false(result.already);
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_SUCCEEDED);
    assert_true(run.deleted == 7);
    assert_int_equal(run.epoch, 1);
    assert_int_equal(run.attempt, 1);
    assert_int_equal(run.owner.len, 0);
    assert_true(slice_is(run.queue, BENCH_QUEUE));
    assert_true(slice_is(run.kind, "scripted"));
    assert_true(run.finished_ticks >= run.started_ticks);
    assert_true(run.transactions >= 3);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    ledger_run_done(&run);
}

static void a_clean_attempt_makes_at_most_six_ledger_requests(void **state)
{
    struct workbench *bench = *state;

    bench->script = works;
    workbench_put(bench, BENCH_QUEUE, "bell");
    (void)attempt(bench);
    assert_int_equal(bench->ledger_writes, 2);
    assert_true(bench->calls[BENCH_GET] + bench->calls[BENCH_BATCH] +
                    bench->calls[BENCH_SCAN] <=
                6);
}

static void a_repeated_bell_of_an_ended_run_is_deleted(void **state)
{
    struct workbench *bench = *state;
    struct work_result result;

    bench->script = works;
    workbench_put(bench, BENCH_QUEUE, "bell");
    workbench_put(bench, BENCH_QUEUE, "bell");
    (void)attempt(bench);
    result = attempt(bench);
    assert_int_equal(result.end, WORK_ENDED);
    assert_true(result.already);
    assert_int_equal(bench->attempts, 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

static void a_failed_run_leaves_a_copy_and_the_reason(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct messages copy;
    struct work_result result;

    bench->script = fails;
    workbench_put(bench, BENCH_QUEUE, "the body");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_ENDED);
    assert_int_equal(result.state, LEDGER_FAILED);
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_FAILED);
    assert_non_null(strstr(run.error.at, "there is more than refuse_above"));
    assert_non_null(strstr(run.error.at, "Blogs 'p' / 'r': cannot be conv"));
    assert_int_equal(workbench_markers(bench, JOB), 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
    messages_init(&copy);
    (void)workbench_take(bench, BENCH_QUEUE "-poison", &copy);
    assert_true(slice_is(copy.list[0].text, "the body"));
    assert_true(slice_equal(copy.list[0].id, run.poison_id));
    assert_true(run.poison_receipt.len > 0);
    messages_done(&copy);
    ledger_run_done(&run);
}

static enum bench_fault no_puts(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)n;
    (void)bench;
    return call == BENCH_PUT ? BENCH_REFUSE : BENCH_PASS;
}

static void without_a_copy_nothing_is_poisoned(void **state)
{
    struct workbench *bench = *state;

    bench->script = fails;
    bench->fault = no_puts;
    workbench_put(bench, BENCH_QUEUE, "the body");
    assert_int_equal(attempt(bench).end, WORK_OUTAGE);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

static void failures_without_progress_end_in_poison(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct work_result result;

    bench->script = stumbles;
    workbench_put(bench, BENCH_QUEUE, "bell");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_LATER);
    assert_false(result.held);
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_WAITING);
    assert_int_equal(run.failures, 1);
    assert_non_null(strstr(run.error.at, "stumble 1"));
    assert_true(run.resumes_ticks > run.updated_ticks);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    ledger_run_done(&run);
    while ((result = attempt_id(bench, "r1", false)).end == WORK_LATER)
        assert_int_equal(bench->attempts, 1); /* not its time yet */
    assert_int_equal(result.state, LEDGER_POISONED);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "poisoned");
    assert_int_equal(workbench_count(bench, BENCH_QUEUE "-poison"), 1);
}

static void progress_starts_the_count_again(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;

    bench->script = stumbles_ahead;
    bench->setup.max_attempts = 1;
    workbench_put(bench, BENCH_QUEUE, "bell");
    assert_int_equal(attempt(bench).end, WORK_LATER);
    read_run(bench, &run);
    assert_int_equal(run.failures, 0);
    assert_int_equal(run.state, LEDGER_WAITING);
    assert_true(slice_is(run.checkpoint, "{\"at\":1}"));
    ledger_run_done(&run);
}

static void pauses_double_from_a_second(void **state)
{
    (void)state;
    assert_int_equal(work_retry_ms(0), 1000);
    assert_int_equal(work_retry_ms(1), 1000);
    assert_int_equal(work_retry_ms(2), 2000);
    assert_int_equal(work_retry_ms(3), 4000);
    assert_int_equal(work_retry_ms(1000), 3600000);
}

static void waiting_frees_the_run_and_hides_the_message(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct work_result result;

    bench->script = waits;
    workbench_put(bench, BENCH_QUEUE, "bell");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_LATER);
    assert_true(result.until_ms > world_boot_ms() + 3500 * 1000);
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_WAITING);
    assert_int_equal(run.owner.len, 0);
    assert_int_equal(run.silent, 0);
    assert_true(slice_is(run.checkpoint, "{\"look\":1}"));
    assert_int_equal(workbench_markers(bench, JOB), 1);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    ledger_run_done(&run);
    /* Who comes too early leaves it alone. */
    result = attempt_id(bench, "r1", false);
    assert_int_equal(result.end, WORK_LATER);
    assert_int_equal(bench->attempts, 1);
}

static void an_outage_is_no_failure(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct work_result result;

    bench->script = meets_outage;
    workbench_put(bench, BENCH_QUEUE, "bell");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_OUTAGE);
    assert_string_equal(result.err.text, "503 from the tables");
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_QUEUED);
    assert_int_equal(run.failures, 0);
    assert_int_equal(run.owner.len, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    ledger_run_done(&run);
}

static void stopped_in_order_everything_is_back_at_once(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct messages again;

    bench->script = is_stopped;
    workbench_put(bench, BENCH_QUEUE, "bell");
    assert_int_equal(attempt(bench).end, WORK_STOPPED);
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_QUEUED);
    assert_int_equal(run.owner.len, 0);
    assert_true(slice_is(run.checkpoint, "{\"at\":9}"));
    assert_true(run.lease_until_ticks <= world_wall_ticks() + TICKS_PER_MS);
    ledger_run_done(&run);
    messages_init(&again);
    (void)workbench_take(bench, BENCH_QUEUE, &again);
    messages_done(&again);
}

/* ---- claims ---- */

static enum bench_fault loses_first_batch(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)bench;
    return call == BENCH_BATCH && n == 1 ? BENCH_LOSE_ANSWER : BENCH_PASS;
}

static void a_claim_whose_answer_was_lost_is_recognised(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;

    bench->script = works;
    bench->fault = loses_first_batch;
    assert_int_equal(attempt_id(bench, "r1", false).end, WORK_ENDED);
    read_run(bench, &run);
    assert_int_equal(run.state, LEDGER_SUCCEEDED);
    assert_int_equal(run.epoch, 1);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    ledger_run_done(&run);
}

static enum bench_fault loses_second_batch(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)bench;
    return call == BENCH_BATCH && n == 2 ? BENCH_LOSE_ANSWER : BENCH_PASS;
}

static void an_end_whose_answer_was_lost_is_recognised(void **state)
{
    struct workbench *bench = *state;

    bench->script = works;
    bench->fault = loses_second_batch;
    workbench_put(bench, BENCH_QUEUE, "bell");
    assert_int_equal(attempt(bench).end, WORK_ENDED);
    assert_int_equal(bench->ledger_writes, 2);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 0);
}

static void an_id_with_other_arguments_is_refused(void **state)
{
    struct workbench *bench = *state;
    struct claim_wish wish = workbench_wish(bench, "r1");
    struct work_result result;

    bench->script = works;
    (void)attempt_id(bench, "r1", false);
    wish.args_json = slice_of("{\"channel\":\"Tennis\"}");
    work_attempt(&bench->place, &bench->definition, &wish, &football, &result);
    assert_int_equal(result.end, WORK_REFUSED);
    assert_non_null(strstr(result.err.text, "other arguments"));
    assert_int_equal(bench->attempts, 1);
}

static void what_must_exist_is_not_begun(void **state)
{
    struct workbench *bench = *state;
    struct claim_wish wish = workbench_wish(bench, "r1");
    struct work_result result;

    wish.must_exist = true;
    work_attempt(&bench->place, &bench->definition, &wish, NULL, &result);
    assert_int_equal(result.end, WORK_MISSING);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "none");
}

/* The entity as somebody else left it. */
static void leave_run(struct workbench *bench, const char *owner,
    int64_t lease_until_ticks, int32_t silent, const char *definition)
{
    struct ledger_run run;
    struct attempt attempt_at = {0};

    ledger_run_init(&run);
    run.job = slice_of(JOB);
    run.id = slice_of("r1");
    run.state = LEDGER_RUNNING;
    run.args = slice_of("{\"channel\":\"Football\"}");
    run.owner = slice_of(owner);
    run.epoch = 4;
    run.attempt = 4;
    run.silent = silent;
    run.deleted = 100;
    run.lease_until_ticks = lease_until_ticks;
    run.checkpoint = slice_of("{\"old\":1}");
    run.definition = slice_of(definition);
    run.phase = slice_of("parent");
    assert_int_equal(
        ledger_insert(bench->wrapped.inner, &attempt_at, &run), TW_OK);
    ledger_run_done(&run);
}

static void another_owner_s_lease_is_respected(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run;
    struct work_result result;

    leave_run(bench, "somebody", world_wall_ticks() + 60 * TICKS_PER_S, 1,
        bench->job.hash);
    workbench_put(bench, BENCH_QUEUE, "bell");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_LATER);
    assert_true(result.held);
    assert_int_equal(bench->attempts, 0);
    assert_int_equal(bench->ledger_writes, 0);
    read_run(bench, &run);
    assert_int_equal(run.epoch, 4);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
    ledger_run_done(&run);
}

static enum run_end took_over(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)attempt_number;
    (void)err;
    assert_true(run->took_over);
    assert_int_equal(run->epoch, 5);
    assert_true(slice_is(run->checkpoint, "{\"old\":1}"));
    assert_true(slice_is(run->phase, "parent"));
    assert_true(atomic_load(&run->counts.deleted) == 100);
    return RUN_SUCCEEDED;
}

static void a_lease_that_is_over_is_taken_over(void **state)
{
    struct workbench *bench = *state;

    leave_run(bench, "somebody", world_wall_ticks() - TICKS_PER_S, 1,
        bench->job.hash);
    bench->script = took_over;
    assert_int_equal(attempt_id(bench, "r1", false).end, WORK_ENDED);
    assert_int_equal(bench->attempts, 1);
}

static void silent_attempts_are_spaced(void **state)
{
    struct workbench *bench = *state;
    struct work_result result;

    leave_run(bench, "somebody", world_wall_ticks() - TICKS_PER_S, 2,
        bench->job.hash);
    result = attempt_id(bench, "r1", false);
    assert_int_equal(result.end, WORK_LATER);
    assert_int_equal(bench->attempts, 0);
    assert_true(result.until_ms > world_boot_ms() + 9 * 60000);
}

static enum run_end starts_over(struct workbench *bench, struct run *run,
    unsigned attempt_number, struct err *err)
{
    (void)bench;
    (void)attempt_number;
    (void)err;
    assert_int_equal(run->checkpoint.len, 0);
    assert_true(slice_is(run->phase, "parent"));
    assert_true(atomic_load(&run->counts.deleted) == 100);
    return RUN_SUCCEEDED;
}

static void a_checkpoint_of_another_definition_is_not_used(void **state)
{
    struct workbench *bench = *state;

    leave_run(bench, "", 0, 0, "ffffffffffffffff");
    bench->script = starts_over;
    assert_int_equal(attempt_id(bench, "r1", false).end, WORK_ENDED);
    assert_int_equal(bench->attempts, 1);
}

static enum bench_fault down_for_gets(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    (void)bench;
    (void)n;
    return call == BENCH_GET ? BENCH_FAIL : BENCH_PASS;
}

static void a_claim_in_an_outage_touches_nothing(void **state)
{
    struct workbench *bench = *state;
    struct work_result result;

    bench->fault = down_for_gets;
    workbench_put(bench, BENCH_QUEUE, "bell");
    result = attempt(bench);
    assert_int_equal(result.end, WORK_OUTAGE);
    assert_int_equal(result.outcome, TW_BUSY);
    assert_int_equal(bench->ledger_writes, 0);
    assert_int_equal(workbench_count(bench, BENCH_QUEUE), 1);
}

static void a_ledger_that_is_gone_comes_back(void **state)
{
    struct workbench *bench = *state;
    struct store *inner = bench->wrapped.inner;
    struct err err;

    /* A store in which the table was never made. */
    bench->script = works;
    store_close(inner);
    assert_int_equal(
        embedded_open("main", ":memory:", &bench->wrapped.inner, &err), TW_OK);
    assert_int_equal(attempt_id(bench, "r1", false).end, WORK_ENDED);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "succeeded");
}

static void two_claims_at_once_end_in_one_attempt(void **state)
{
    struct workbench *bench = *state;
    struct claim_wish wish = workbench_wish(bench, "r1");
    struct claim first, second;
    enum tw_err outcome;
    struct err err;

    claim_init(&first, &wish);
    claim_init(&second, &wish);
    assert_int_equal(claim_take(&first, &wish, &outcome, &err), CLAIM_TAKEN);
    assert_int_equal(claim_take(&second, &wish, &outcome, &err), CLAIM_HELD);
    assert_true(second.until_ticks > world_wall_ticks());
    assert_true(fence_open(&first.fence, world_boot_ms()));
    claim_done(&first);
    claim_done(&second);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(success_is_in_the_ledger_and_then_the_message_goes),
        TEST(a_clean_attempt_makes_at_most_six_ledger_requests),
        TEST(a_repeated_bell_of_an_ended_run_is_deleted),
        TEST(a_failed_run_leaves_a_copy_and_the_reason),
        TEST(without_a_copy_nothing_is_poisoned),
        TEST(failures_without_progress_end_in_poison),
        TEST(progress_starts_the_count_again),
        cmocka_unit_test(pauses_double_from_a_second),
        TEST(waiting_frees_the_run_and_hides_the_message),
        TEST(an_outage_is_no_failure),
        TEST(stopped_in_order_everything_is_back_at_once),
        TEST(a_claim_whose_answer_was_lost_is_recognised),
        TEST(an_end_whose_answer_was_lost_is_recognised),
        TEST(an_id_with_other_arguments_is_refused),
        TEST(what_must_exist_is_not_begun),
        TEST(another_owner_s_lease_is_respected),
        TEST(a_lease_that_is_over_is_taken_over),
        TEST(silent_attempts_are_spaced),
        TEST(a_checkpoint_of_another_definition_is_not_used),
        TEST(a_claim_in_an_outage_touches_nothing),
        TEST(a_ledger_that_is_gone_comes_back),
        TEST(two_claims_at_once_end_in_one_attempt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
