/* SPDX-License-Identifier: MIT */
/* The ledger: its entity, its states, its markers. */
#include "tests/support/workbench.h"

#include "worker/base/buf.h"
#include "worker/base/text.h"

#define JOB "delete-channel"

static void fill(struct ledger_run *run, const char *id)
{
    run->job = ledger_text(run, slice_of(JOB));
    run->id = ledger_text(run, slice_of(id));
    run->kind = ledger_text(run, slice_of("scripted"));
    run->args = ledger_text(run, slice_of("{\"channel\":\"Fu\\u00dfball\"}"));
    run->queue = ledger_text(run, slice_of("work"));
    run->read = INT64_C(5000000000);
    run->attempt = 3;
    run->requested_ticks = TICKS_1970 + 7;
}

static struct ledger_run stored_run(struct workbench *bench, const char *id)
{
    struct ledger_run run;
    struct attempt attempt = {0};

    ledger_run_init(&run);
    fill(&run, id);
    assert_int_equal(ledger_insert(bench->store, &attempt, &run), TW_OK);
    return run;
}

static void what_is_stored_is_what_is_read(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1"), back;

    ledger_run_init(&back);
    assert_true(workbench_run(bench, JOB, "r1", &back));
    assert_int_equal(back.state, LEDGER_QUEUED);
    assert_true(slice_equal(back.args, run.args));
    assert_true(slice_equal(back.etag, run.etag));
    assert_true(back.read == run.read);
    assert_int_equal(back.attempt, 3);
    assert_true(back.requested_ticks == TICKS_1970 + 7);
    assert_true(back.finished_ticks == 0);
    ledger_run_done(&back);
    ledger_run_done(&run);
}

static void every_property_has_the_documented_type(void **state)
{
    static const struct {
        const char *name;
        enum edm_type type;
    } wanted[] = {
        {"State", EDM_STRING},
        {"Kind", EDM_STRING},
        {"Args", EDM_STRING},
        {"Queue", EDM_STRING},
        {"Worker", EDM_STRING},
        {"Owner", EDM_STRING},
        {"Phase", EDM_STRING},
        {"Checkpoint", EDM_STRING},
        {"Error", EDM_STRING},
        {"Attempt", EDM_INT32},
        {"Failures", EDM_INT32},
        {"Passes", EDM_INT32},
        {"Epoch", EDM_INT32},
        {"EntitiesRead", EDM_INT64},
        {"EntitiesWritten", EDM_INT64},
        {"EntitiesDeleted", EDM_INT64},
        {"EntitiesSkipped", EDM_INT64},
        {"EntitiesFailed", EDM_INT64},
        {"Transactions", EDM_INT64},
        {"RequestedAt", EDM_DATETIME},
        {"StartedAt", EDM_DATETIME},
        {"UpdatedAt", EDM_DATETIME},
        {"LeaseUntil", EDM_DATETIME},
        {"ResumesAt", EDM_DATETIME},
        {"FinishedAt", EDM_DATETIME},
    };
    struct ledger_run run;
    struct entity entity;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    ledger_run_init(&run);
    fill(&run, "r1");
    run.started_ticks = run.updated_ticks = run.lease_until_ticks =
        run.resumes_ticks = run.finished_ticks = TICKS_1970;
    ledger_entity(&run, &arena, &entity);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        const struct property *property =
            entity_find(&entity, slice_of(wanted[i].name));

        if (property == NULL)
            fail_msg("%s is missing", wanted[i].name);
        assert_int_equal(property->type, wanted[i].type);
    }
    ledger_run_done(&run);
    arena_done(&arena);
}

static void properties_of_others_are_kept(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1"), back;
    struct attempt attempt = {0};
    struct property other = {
        slice_of("Note"), EDM_STRING, slice_of("\"hello\"")};

    run.others = &other;
    run.other_count = 1;
    assert_int_equal(
        ledger_update(bench->store, &attempt, &run, LEDGER_MARKER_KEEP), TW_OK);
    ledger_run_init(&back);
    assert_true(workbench_run(bench, JOB, "r1", &back));
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_update(bench->store, &attempt, &back, LEDGER_MARKER_KEEP),
        TW_OK);
    assert_true(workbench_run(bench, JOB, "r1", &back));
    assert_int_equal(back.other_count, 1);
    assert_true(slice_is(back.others[0].json, "\"hello\""));
    ledger_run_done(&back);
    ledger_run_done(&run);
}

static void a_second_insert_is_a_conflict(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1"), twin;
    struct attempt attempt = {0};

    ledger_run_init(&twin);
    fill(&twin, "r1");
    assert_int_equal(ledger_insert(bench->store, &attempt, &twin), TW_CONFLICT);
    ledger_run_done(&twin);
    ledger_run_done(&run);
}

static void a_write_on_a_stale_etag_is_a_conflict(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1"), stale;
    struct attempt attempt = {0};

    ledger_run_init(&stale);
    ledger_copy(&stale, &run);
    assert_int_equal(
        ledger_update(bench->store, &attempt, &run, LEDGER_MARKER_KEEP), TW_OK);
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_update(bench->store, &attempt, &stale, LEDGER_MARKER_KEEP),
        TW_CONFLICT);
    ledger_run_done(&stale);
    ledger_run_done(&run);
}

static void the_marker_comes_with_the_first_write_and_goes_with_the_last(
    void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1"), back;
    struct attempt attempt = {0};

    assert_int_equal(workbench_markers(bench, JOB), 1);
    /* As a later attempt would see it, which does not know the marker. */
    ledger_run_init(&back);
    assert_true(workbench_run(bench, JOB, "r1", &back));
    assert_true(ledger_move(&back, LEDGER_RUNNING));
    assert_true(ledger_move(&back, LEDGER_SUCCEEDED));
    assert_int_equal(
        ledger_update(bench->store, &attempt, &back, LEDGER_MARKER_REMOVE),
        TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_update(bench->store, &attempt, &back, LEDGER_MARKER_REMOVE),
        TW_OK);
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_update(bench->store, &attempt, &back, LEDGER_MARKER_ADD), TW_OK);
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_update(bench->store, &attempt, &back, LEDGER_MARKER_ADD), TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_done(&back);
    ledger_run_done(&run);
}

static void put_marker(struct workbench *bench, const char *key)
{
    struct entity marker;
    struct arena arena;

    arena_init(&arena);
    entity_init(&marker, &arena, slice_of(JOB), slice_of(key));
    workbench_write(bench, OPERATION_INSERT, &marker);
    arena_done(&arena);
}

/* The run was deleted by hand, and could never begin again. */
static void a_marker_that_was_left_is_no_run(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run, again;
    struct attempt attempt = {0};

    put_marker(bench, "!r1");
    run = stored_run(bench, "r1");
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_init(&again);
    fill(&again, "r1");
    assert_int_equal(
        ledger_insert(bench->store, &attempt, &again), TW_CONFLICT);
    ledger_run_done(&again);
    (void)ledger_move(&run, LEDGER_RUNNING);
    (void)ledger_move(&run, LEDGER_SUCCEEDED);
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_update(bench->store, &attempt, &run, LEDGER_MARKER_REMOVE),
        TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    ledger_run_done(&run);
}

static void a_scan_shows_runs_and_no_markers(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run a = stored_run(bench, "r1"), b = stored_run(bench, "r2");
    struct attempt attempt = {0};
    struct page page;

    page_init(&page);
    for (int with_job = 0; with_job < 2; with_job++) {
        attempt = (struct attempt){0};
        assert_int_equal(
            ledger_scan(bench->store, &attempt,
                with_job ? slice_of(JOB) : (struct slice){0},
                slice_of("State eq 'queued'"), (struct continuation){0}, &page),
            TW_OK);
        assert_int_equal(page.count, 2);
        assert_true(slice_is(page.entities[0].row_key, "r1"));
    }
    page_done(&page);
    ledger_run_done(&b);
    ledger_run_done(&a);
}

static void an_ended_run_is_retried_or_dropped_at_most(void **state)
{
    struct ledger_run run;

    (void)state;
    ledger_run_init(&run);
    assert_false(ledger_move(&run, LEDGER_SUCCEEDED));
    assert_true(ledger_move(&run, LEDGER_RUNNING));
    assert_true(ledger_move(&run, LEDGER_SUCCEEDED));
    assert_true(ledger_state_ended(run.state));
    for (int to = LEDGER_QUEUED; to <= LEDGER_CANCELLED; to++)
        if (to != LEDGER_SUCCEEDED)
            assert_false(ledger_move(&run, (enum ledger_state)to));
    run.state = LEDGER_FAILED;
    assert_false(ledger_move(&run, LEDGER_RUNNING));
    assert_true(ledger_move(&run, LEDGER_QUEUED));
    run.state = LEDGER_FAILED;
    assert_true(ledger_move(&run, LEDGER_CANCELLED));
    assert_false(ledger_move(&run, LEDGER_QUEUED));
}

static void an_error_is_cut_at_a_character(void **state)
{
    struct ledger_run run;
    char text[LEDGER_MAX_ERROR_BYTES + 10];

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text + LEDGER_MAX_ERROR_BYTES - 1, "\xc3\xbc", 2);
    text[sizeof(text) - 1] = '\0';
    ledger_run_init(&run);
    ledger_set_error(&run, text);
    assert_int_equal(run.error.len, LEDGER_MAX_ERROR_BYTES - 1);
    ledger_run_done(&run);
}

static void an_error_that_is_no_text_is_cut_too(void **state)
{
    struct ledger_run run;
    char text[LEDGER_MAX_ERROR_BYTES + 10];

    (void)state;
    memset(text, 0x80, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    ledger_run_init(&run);
    ledger_set_error(&run, text);
    assert_true(run.error.len <= LEDGER_MAX_ERROR_BYTES);
    ledger_run_done(&run);
}

static void a_copy_lives_on_without_what_it_is_of(void **state)
{
    struct property color = {
        slice_of("Color"), EDM_STRING, slice_of("\"red\"")};
    struct ledger_run run, copy;

    (void)state;
    ledger_run_init(&run);
    ledger_run_init(&copy);
    fill(&run, "r1");
    run.others = &color;
    run.other_count = 1;
    ledger_copy(&copy, &run);
    ledger_run_done(&run);
    ledger_compact(&copy);
    assert_true(slice_is(copy.id, "r1"));
    assert_int_equal(copy.other_count, 1);
    assert_true(slice_is(copy.others[0].name, "Color"));
    assert_true(slice_is(copy.others[0].json, "\"red\""));
    ledger_run_done(&copy);
}

/* ---- writes that meet another marker, or none, or no answer ---- */

static enum tw_err update(
    struct workbench *bench, struct ledger_run *run, enum ledger_marker marker)
{
    struct attempt attempt = {0};

    return ledger_update(bench->store, &attempt, run, marker);
}

/* Its marker as somebody else changes it; gone where remove. */
static void touch_marker(struct workbench *bench, bool remove)
{
    struct attempt attempt = {0};
    struct page page;

    page_init(&page);
    assert_int_equal(store_get(bench->wrapped.inner, &attempt, LEDGER_TABLE,
                         slice_of(JOB), slice_of("!r1"), &page),
        TW_OK);
    workbench_write(bench, remove ? OPERATION_DELETE : OPERATION_REPLACE,
        &page.entities[0]);
    page_done(&page);
}

static void a_marker_that_others_changed_goes_all_the_same(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1");

    assert_true(run.marker_etag.len > 0);
    touch_marker(bench, false);
    run.state = LEDGER_CANCELLED;
    assert_int_equal(update(bench, &run, LEDGER_MARKER_REMOVE), TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
    ledger_run_done(&run);
}

static void a_marker_that_is_gone_already_is_no_conflict(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1");

    touch_marker(bench, true);
    run.state = LEDGER_CANCELLED;
    assert_int_equal(update(bench, &run, LEDGER_MARKER_REMOVE), TW_OK);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "cancelled");
    run.state = LEDGER_QUEUED;
    run.marker_etag = (struct slice){0};
    assert_int_equal(update(bench, &run, LEDGER_MARKER_ADD), TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_done(&run);
}

/* The 2nd operation is refused, but then it is not the marker's fault. */
static void a_marker_that_was_missing_for_a_moment_is_added(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1");

    touch_marker(bench, true);
    workbench_meets(bench, BENCH_BATCH, 1, 1, BENCH_CONFLICT);
    assert_int_equal(update(bench, &run, LEDGER_MARKER_ADD), TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_done(&run);
}

static void a_marker_that_cannot_be_read_leaves_the_run_as_it_was(void **state)
{
    struct workbench *bench = *state;
    struct ledger_run run = stored_run(bench, "r1");

    workbench_meets(bench, BENCH_GET, 1, 2, BENCH_FAIL);
    touch_marker(bench, false);
    run.state = LEDGER_CANCELLED;
    assert_int_equal(update(bench, &run, LEDGER_MARKER_REMOVE), TW_BUSY);
    run.marker_etag = (struct slice){0};
    assert_int_equal(update(bench, &run, LEDGER_MARKER_REMOVE), TW_BUSY);
    assert_string_equal(workbench_state(bench, JOB, "r1"), "queued");
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_done(&run);
}

/* The 1st batch meets the marker, the 2nd writes it again. */
static void take_marker_away(
    struct workbench *bench, enum bench_call call, unsigned n)
{
    if (call == BENCH_BATCH && n == 2)
        touch_marker(bench, true);
}

/* A run whose marker is there, and nothing else; to be stored. */
static void run_with_marker_left(
    struct workbench *bench, struct ledger_run *run)
{
    ledger_run_init(run);
    fill(run, "r1");
    put_marker(bench, "!r1");
}

static void a_marker_that_was_left_and_goes_meanwhile_is_a_conflict(
    void **state)
{
    struct workbench *bench = *state;
    struct attempt attempt = {0};
    struct ledger_run run;

    run_with_marker_left(bench, &run);
    bench->between = take_marker_away;
    assert_int_equal(ledger_insert(bench->store, &attempt, &run), TW_CONFLICT);
    assert_int_equal(workbench_markers(bench, JOB), 0);
    bench->between = NULL;
    attempt = (struct attempt){0};
    assert_int_equal(ledger_insert(bench->store, &attempt, &run), TW_OK);
    assert_int_equal(workbench_markers(bench, JOB), 1);
    ledger_run_done(&run);
}

static void a_marker_that_was_left_and_cannot_be_read_stores_no_run(
    void **state)
{
    struct workbench *bench = *state;
    struct attempt attempt = {0};
    struct ledger_run run;

    run_with_marker_left(bench, &run);
    workbench_meets(bench, BENCH_GET, 1, 1, BENCH_FAIL);
    assert_int_equal(ledger_insert(bench->store, &attempt, &run), TW_BUSY);
    attempt = (struct attempt){0};
    assert_int_equal(
        ledger_get(bench->store, &attempt, slice_of(JOB), slice_of("r1"), &run),
        TW_NOT_FOUND);
    ledger_run_done(&run);
}

static void a_scan_that_fails_shows_nothing(void **state)
{
    struct workbench *bench = *state;
    struct attempt attempt = {0};
    struct page page;

    page_init(&page);
    workbench_meets(bench, BENCH_SCAN, 1, 1, BENCH_FAIL);
    assert_int_equal(ledger_scan(bench->store, &attempt, slice_of(JOB),
                         slice_of(""), (struct continuation){0}, &page),
        TW_BUSY);
    assert_string_equal(attempt.err.text, "the store is down");
    page_done(&page);
}

/* Somebody's own entity, in a table that is not theirs. */
static void an_entity_without_an_id_is_shown_too(void **state)
{
    struct workbench *bench = *state;
    struct attempt attempt = {0};
    struct entity entity;
    struct arena arena;
    struct page page;

    arena_init(&arena);
    page_init(&page);
    entity_init(&entity, &arena, slice_of(JOB), slice_of(""));
    workbench_write(bench, OPERATION_INSERT, &entity);
    assert_int_equal(ledger_scan(bench->store, &attempt, slice_of(""),
                         slice_of(""), (struct continuation){0}, &page),
        TW_OK);
    assert_int_equal(page.count, 1);
    page_done(&page);
    arena_done(&arena);
}

/* Loss 8: one row that cannot be read hides no other, and is named. */
static void a_damaged_row_is_shown_with_its_keys(void **state)
{
    struct workbench *bench = *state;
    struct attempt attempt = {0};
    struct ledger_run run;
    struct entity entity;
    struct arena arena;
    struct page page;
    struct buf json;

    arena_init(&arena);
    page_init(&page);
    ledger_run_init(&run);
    buf_init(&json, 10000);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    entity_set_int32(&entity, &arena, "State", 5);
    workbench_write(bench, OPERATION_INSERT, &entity);
    assert_int_equal(ledger_scan(bench->store, &attempt, slice_of(""),
                         slice_of(""), (struct continuation){0}, &page),
        TW_OK);
    assert_int_equal(page.count, 1);
    ledger_parse_any(&page.entities[0], &run);
    assert_int_equal(run.state, LEDGER_DAMAGED);
    assert_false(ledger_state_ended(run.state));
    assert_true(slice_is(run.id, "r1"));
    ledger_add_json(&run, &json);
    assert_non_null(strstr(buf_text(&json), "\"State\":\"damaged\""));
    assert_non_null(strstr(buf_text(&json), "State of run"));
    buf_done(&json);
    ledger_run_done(&run);
    page_done(&page);
    arena_done(&arena);
}

static void json_has_numbers_as_numbers(void **state)
{
    struct ledger_run run;
    struct buf json;

    (void)state;
    ledger_run_init(&run);
    fill(&run, "r1");
    run.traceparent = slice_of("00-11-22-01");
    buf_init(&json, 65536);
    ledger_add_json(&run, &json);
    assert_non_null(strstr(buf_text(&json),
        "{\"Job\":\"delete-channel\",\"Id\":\"r1\",\"State\":\"queued\""));
    assert_non_null(strstr(buf_text(&json), "\"EntitiesRead\":5000000000"));
    assert_non_null(strstr(buf_text(&json), "\"Attempt\":3"));
    assert_non_null(strstr(buf_text(&json), "\"RequestedAt\":\"1970-01-01T"));
    assert_null(strstr(buf_text(&json), "FinishedAt"));
    assert_non_null(strstr(buf_text(&json), "\"00-11-22-01\""));
    buf_done(&json);
    ledger_run_done(&run);
}

static void an_entity_that_is_no_run_is_refused(void **state)
{
    struct arena arena;
    struct entity entity;
    struct ledger_run run;
    struct err err;

    (void)state;
    arena_init(&arena);
    ledger_run_init(&run);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    entity_set_string(&entity, &arena, "Another", slice_of("thing"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "has no State"));
    entity_set_string(&entity, &arena, "State", slice_of("asleep"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    entity_set_string(&entity, &arena, "State", slice_of("queued"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_OK);
    entity_set_string(&entity, &arena, "Epoch", slice_of("one"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    ledger_run_done(&run);
    arena_done(&arena);
}

/* A key may hold what a terminal obeys. */
static void a_refusal_shows_the_keys_and_no_control_characters(void **state)
{
    struct arena arena;
    struct entity entity;
    struct ledger_run run;
    struct err err;

    (void)state;
    arena_init(&arena);
    ledger_run_init(&run);
    entity_init(&entity, &arena,
        slice_of("delete\x7f"
                 "-it"),
        slice_of("r\x1b"
                 "1"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "delete"));
    assert_null(strchr(err.text, 0x7f));
    entity_set_string(&entity, &arena, "LeaseUntil", slice_of("no time"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "LeaseUntil"));
    assert_null(strchr(err.text, 0x7f));
    assert_null(strchr(err.text, 0x1b));
    ledger_run_done(&run);
    arena_done(&arena);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, workbench_set_up, workbench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_stored_is_what_is_read),
        TEST(every_property_has_the_documented_type),
        TEST(properties_of_others_are_kept),
        TEST(a_second_insert_is_a_conflict),
        TEST(a_write_on_a_stale_etag_is_a_conflict),
        TEST(the_marker_comes_with_the_first_write_and_goes_with_the_last),
        TEST(a_marker_that_was_left_is_no_run),
        TEST(a_scan_shows_runs_and_no_markers),
        cmocka_unit_test(an_ended_run_is_retried_or_dropped_at_most),
        cmocka_unit_test(an_error_is_cut_at_a_character),
        cmocka_unit_test(json_has_numbers_as_numbers),
        cmocka_unit_test(an_entity_that_is_no_run_is_refused),
        cmocka_unit_test(a_refusal_shows_the_keys_and_no_control_characters),
        TEST(an_error_that_is_no_text_is_cut_too),
        TEST(a_copy_lives_on_without_what_it_is_of),
        TEST(a_marker_that_others_changed_goes_all_the_same),
        TEST(a_marker_that_is_gone_already_is_no_conflict),
        TEST(a_marker_that_was_missing_for_a_moment_is_added),
        TEST(a_marker_that_cannot_be_read_leaves_the_run_as_it_was),
        TEST(a_marker_that_was_left_and_goes_meanwhile_is_a_conflict),
        TEST(a_marker_that_was_left_and_cannot_be_read_stores_no_run),
        TEST(a_scan_that_fails_shows_nothing),
        TEST(an_entity_without_an_id_is_shown_too),
        TEST(a_damaged_row_is_shown_with_its_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
