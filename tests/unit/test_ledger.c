/* SPDX-License-Identifier: MIT */
/* The ledger: its entity, its states, its lists. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"
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

    ledger_run_init(&run);
    fill(&run, id);
    assert_ok(workbench_store_run(bench, &run));
    return run;
}

BENCH_TEST(what_is_stored_is_what_is_read)
{
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

BENCH_TEST(every_property_has_the_documented_type)
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
        {"Format", EDM_INT32},
        {"Failures", EDM_INT32},
        {"Throttled", EDM_INT32},
        {"Behind", EDM_INT64},
        {"Share", EDM_DOUBLE},
        {"ParentFound", EDM_BOOLEAN},
        {"AcceptDeletes", EDM_BOOLEAN},
        {"AcceptedAt", EDM_DATETIME},
        {"Note", EDM_STRING},
        {"WaitsFor", EDM_STRING},
        {"WaitsSince", EDM_DATETIME},
        {"CaughtUpTo", EDM_DATETIME},
        {"MessageUntil", EDM_DATETIME},
        {"Rounds", EDM_INT32},
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
    struct ledger_run *run;
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    run = workbench_new_run(bench);
    fill(run, "r1");
    run->started_ticks = run->updated_ticks = run->lease_until_ticks =
        run->resumes_ticks = run->finished_ticks = run->caught_up_ticks =
            run->waits_since_ticks = run->message_until_ticks =
                run->accepted_ticks = TICKS_1970;
    run->behind = 0;
    run->share = 0.5;
    run->parent_found = 0;
    run->accept_deletes = true;
    run->note = run->waits_for = slice_of("x");
    ledger_entity(run, &arena, &entity);
    for (size_t i = 0; TEST_EACH(i, wanted); i++) {
        const struct property *property =
            entity_find(&entity, slice_of(wanted[i].name));

        if (property == NULL)
            fail_msg("%s is missing", wanted[i].name);
        assert_int_equal(property->type, wanted[i].type);
    }
    arena_done(&arena);
}

BENCH_TEST(a_scan_shows_runs_and_no_index_rows)
{
    struct ledger_run a = stored_run(bench, "r1"), b = stored_run(bench, "r2");
    struct exchange exchange = {0};
    struct page page;

    page_init(&page);
    for (int with_job = 0; with_job < 2; with_job++) {
        exchange = (struct exchange){0};
        assert_ok(ledger_scan(bench->store, &exchange,
            with_job ? slice_of(JOB) : (struct slice){0},
            slice_of("State eq 'queued'"), (struct continuation){0}, &page));
        assert_int_equal(page.count, 2);
        assert_true(slice_is(page.entities[0].row_key, "r1"));
    }
    page_done(&page);
    ledger_run_done(&b);
    ledger_run_done(&a);
}

/* Whatever an owner calls itself: other programs may write the ledger. */
TEST(a_run_whose_owner_is_dropped_is_known_as_taken_over)
{
    struct ledger_run run = {.owner = slice_of("o"), .lease_until_ticks = 10};

    assert_true(ledger_lease_is_live(&run, 9));
    assert_false(ledger_lease_is_live(&run, 10));
    ledger_drop_owner(&run);
    assert_int_equal(run.owner.len, 0);
    assert_int_equal(run.silent, 1);
    assert_true(ledger_takes_over(&run));
    run.owner = slice_of("o");
    run.silent = 5;
    ledger_drop_owner(&run);
    assert_int_equal(run.silent, 5);
    run.silent = 0;
    ledger_drop_owner(&run);
    assert_int_equal(run.silent, 0);
    assert_false(ledger_takes_over(&run));
}

/* The owner knows a new acceptance by its later time. */
TEST(each_acceptance_of_deletes_has_a_later_time)
{
    static const int64_t at_ticks[] = {500, 500, 400};
    struct ledger_run run;
    int64_t before = 0;

    ledger_run_init(&run);
    for (size_t i = 0; TEST_EACH(i, at_ticks); i++) {
        ledger_accept_deletes(&run, i != 1, at_ticks[i]);
        assert_int_equal(run.accept_deletes, i != 1);
        assert_true(run.accepted_ticks > before);
        before = run.accepted_ticks;
    }
    assert_int_equal(before, 502);
    ledger_run_done(&run);
}

TEST(an_ended_run_is_retried_or_dropped_at_most)
{
    struct ledger_run run;
    struct err err;

    ledger_run_init(&run);
    run.job = slice_of(JOB);
    run.id = slice_of("r1");
    assert_int_equal(ledger_move(&run, LEDGER_SUCCEEDED, &err), TW_INVALID);
    assert_string_equal(err.text,
        "run delete-channel/r1 is queued: it cannot become succeeded");
    assert_int_equal(run.state, LEDGER_QUEUED);
    assert_ok(ledger_move(&run, LEDGER_RUNNING, &err));
    assert_ok(ledger_move(&run, LEDGER_SUCCEEDED, &err));
    assert_true(ledger_state_ended(run.state));
    for (int to = LEDGER_QUEUED; to <= LEDGER_CANCELLED; to++)
        assert_true(ledger_may_move(LEDGER_SUCCEEDED, (enum ledger_state)to) ==
                    (to == LEDGER_SUCCEEDED));
    assert_false(ledger_may_move(LEDGER_FAILED, LEDGER_RUNNING));
    assert_true(ledger_may_move(LEDGER_FAILED, LEDGER_QUEUED));
    assert_true(ledger_may_move(LEDGER_FAILED, LEDGER_CANCELLED));
    assert_false(ledger_may_move(LEDGER_CANCELLED, LEDGER_QUEUED));
    assert_false(ledger_may_move(LEDGER_NEWER, LEDGER_QUEUED));
}

TEST(since_when_it_waits_is_kept_for_one_cause)
{
    struct ledger_run run;
    struct err err;

    ledger_run_init(&run);
    assert_ok(ledger_wait(&run, LEDGER_WAITS_FOR_TURN, 100, 200, &err));
    assert_ok(ledger_move(&run, LEDGER_RUNNING, &err));
    assert_ok(ledger_wait(&run, LEDGER_WAITS_FOR_TURN, 300, 400, &err));
    assert_true(run.waits_since_ticks == 100);
    assert_true(run.resumes_ticks == 400);
    assert_false(ledger_is_held(&run));
    assert_ok(ledger_wait(&run, LEDGER_WAITS_FOR_DEFINITION, 500, 600, &err));
    assert_true(run.waits_since_ticks == 500);
    assert_true(ledger_is_held(&run));
    assert_ok(ledger_move(&run, LEDGER_QUEUED, &err));
    assert_true(run.waits_since_ticks == 0 && run.waits_for.len == 0);
    ledger_run_done(&run);
}

TEST(a_note_has_each_sentence_once_and_an_end)
{
    struct ledger_run run;
    char long_text[2000];

    ledger_run_init(&run);
    ledger_add_note(&run, slice_of("the parent did not exist"));
    ledger_add_note(&run, slice_of("nothing was selected"));
    ledger_add_note(&run, slice_of("the parent did not exist"));
    ledger_add_note(&run, slice_of("nothing"));
    assert_true(slice_is(
        run.note, "the parent did not exist; nothing was selected; nothing"));
    for (unsigned i = 0; i < 20; i++) {
        memset(long_text, (int)('a' + i), sizeof(long_text) - 1);
        long_text[sizeof(long_text) - 1] = '\0';
        ledger_add_note(&run, slice_of(long_text));
    }
    assert_true(run.note.len <= LEDGER_MAX_NOTE_BYTES);
    ledger_run_done(&run);
}

/* ---- the index ---- */

SCRATCH_TEST(an_index_row_names_its_run)
{
    static const struct {
        enum ledger_state run_state;
        enum ledger_index index;
        const char *key;
    } cases[] = {
        {LEDGER_QUEUED, LEDGER_INDEX_OPEN, "!open!r1"},
        {LEDGER_PAUSED, LEDGER_INDEX_OPEN, "!open!r1"},
        {LEDGER_FAILED, LEDGER_INDEX_FAILED, "!failed!r1"},
        {LEDGER_POISONED, LEDGER_INDEX_FAILED, "!failed!r1"},
        {LEDGER_SUCCEEDED, LEDGER_INDEX_ENDED, "!ended!2026-11-22!r1"},
        {LEDGER_CANCELLED, LEDGER_INDEX_ENDED, "!ended!2026-11-22!r1"},
    };
    struct slice id;

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct ledger_run run;
        struct slice key;

        ledger_run_init(&run);
        run.id = slice_of("r1");
        run.state = cases[i].run_state;
        assert_true(
            text_ticks(slice_of("2026-11-22T23:59:59Z"), &run.finished_ticks));
        key = ledger_index_key(&run, &scratch);
        assert_true(slice_is(key, cases[i].key));
        assert_int_equal(ledger_index_of(run.state), cases[i].index);
        assert_true(ledger_index_id(key, &id));
        assert_true(slice_is(id, "r1"));
    }
    assert_false(ledger_index_id(slice_of("!closed"), &id));
    assert_false(ledger_index_id(slice_of("!open!"), &id));
    assert_false(ledger_index_id(slice_of("!ended!2026-11-22!"), &id));
    assert_false(ledger_index_id(slice_of("r1"), &id));
}

static void stored_as(struct workbench *bench, const char *job, const char *id,
    enum ledger_state run_state, const char *day)
{
    struct ledger_run *run = workbench_new_run(bench);

    fill(run, id);
    run->job = ledger_text(run, slice_of(job));
    run->state = run_state;
    if (day)
        assert_true(text_ticks(slice_of(day), &run->finished_ticks));
    assert_ok(workbench_store_run(bench, run));
}

static size_t count_ended(
    struct workbench *bench, const char *from, const char *below)
{
    const struct ledger_index_scan scan = {.job = slice_of(JOB),
        .index = LEDGER_INDEX_ENDED,
        .from_day = from,
        .below_day = below};
    struct exchange exchange = {0};
    struct page page;
    size_t count;

    page_init(&page);
    assert_ok(ledger_scan_index(
        bench->store, &exchange, &scan, (struct continuation){0}, &page));
    count = page.count;
    page_done(&page);
    return count;
}

BENCH_TEST(ended_runs_are_listed_by_day)
{
    stored_as(bench, JOB, "a", LEDGER_SUCCEEDED, "2026-11-20T10:00:00Z");
    stored_as(bench, JOB, "b", LEDGER_CANCELLED, "2026-11-21T10:00:00Z");
    stored_as(bench, JOB, "c", LEDGER_SUCCEEDED, "2026-11-22T10:00:00Z");
    stored_as(bench, JOB, "d", LEDGER_FAILED, "2026-11-22T10:00:00Z");
    stored_as(bench, JOB, "e", LEDGER_WAITING, NULL);
    assert_int_equal(count_ended(bench, NULL, NULL), 3);
    assert_int_equal(count_ended(bench, "2026-11-21", NULL), 2);
    assert_int_equal(count_ended(bench, NULL, "2026-11-21"), 1);
    assert_int_equal(count_ended(bench, "2026-11-21", "2026-11-22"), 1);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_FAILED), 1);
    assert_int_equal(workbench_listed(bench, JOB, LEDGER_INDEX_OPEN), 1);
}

BENCH_TEST(a_row_tells_what_a_list_shows)
{
    const struct ledger_index_scan scan = {
        .job = slice_of(JOB), .index = LEDGER_INDEX_FAILED};
    struct exchange exchange = {0};
    struct ledger_row row;
    struct arena arena;
    struct page page;

    arena_init(&arena);
    page_init(&page);
    stored_as(bench, JOB, "r1", LEDGER_POISONED, "2026-11-20T10:00:00Z");
    assert_ok(ledger_scan_index(
        bench->store, &exchange, &scan, (struct continuation){0}, &page));
    assert_true(ledger_index_row(&page.entities[0], &arena, &row));
    assert_true(slice_is(row.job, JOB));
    assert_true(slice_is(row.id, "r1"));
    assert_int_equal(row.state, LEDGER_POISONED);
    assert_true(slice_is(row.queue, "work"));
    assert_true(row.requested_ticks == TICKS_1970 + 7);
    assert_true(row.finished_ticks > row.requested_ticks);
    page_done(&page);
    arena_done(&arena);
}

/* Also of jobs that no configuration has; what is no job's is passed by. */
BENCH_TEST(the_jobs_that_have_runs_are_found_one_by_one)
{
    static const char *const wanted[] = {"-", "aaa", JOB, NULL};
    struct slice job = {0};
    struct entity lock;
    struct arena arena;

    arena_init(&arena);
    stored_as(bench, "aaa", "r1", LEDGER_QUEUED, NULL);
    stored_as(bench, "aaa", "r2", LEDGER_QUEUED, NULL);
    stored_as(bench, JOB, "r1", LEDGER_QUEUED, NULL);
    stored_as(bench, "-", "r1", LEDGER_POISONED, "2026-11-20T10:00:00Z");
    entity_init(&lock, &arena, slice_of("!locks"), slice_of("lock!a!b"));
    workbench_write(bench, OPERATION_INSERT, &lock);
    for (size_t i = 0; TEST_EACH(i, wanted); i++) {
        struct exchange exchange = {0};
        enum tw_err outcome =
            ledger_next_job(bench->store, &exchange, job, &arena, &job);

        assert_int_equal(outcome, wanted[i] ? TW_OK : TW_NOT_FOUND);
        if (wanted[i])
            assert_true(slice_is(job, wanted[i]));
    }
    arena_done(&arena);
}

SCRATCH_TEST(a_state_of_a_newer_version_is_shown_as_it_is)
{
    struct ledger_run run;
    struct entity entity;
    struct err err;

    ledger_run_init(&run);
    entity_init(&entity, &scratch, slice_of(JOB), slice_of("r1"));
    entity_set_string(&entity, &scratch, "State", slice_of("dreaming"));
    assert_ok(ledger_parse(&entity, &run, &err));
    assert_true(run.newer);
    assert_true(slice_is(ledger_state_shown(&run), "dreaming"));
    entity_set_string(&entity, &scratch, "State", slice_of("queued"));
    entity_set_int32(&entity, &scratch, "Format", LEDGER_FORMAT + 1);
    entity_set_int32(&entity, &scratch, "Args", 5); /* another type there */
    assert_ok(ledger_parse(&entity, &run, &err));
    assert_true(run.newer);
    entity_set_int32(&entity, &scratch, "Format", LEDGER_FORMAT);
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    ledger_run_done(&run);
}

/* Whoever writes them there must not make ours overflow. */
SCRATCH_TEST(counters_of_others_are_held_within_bounds)
{
    struct ledger_run run;
    struct entity entity;
    struct err err;

    ledger_run_init(&run);
    entity_init(&entity, &scratch, slice_of("job"), slice_of("id"));
    entity_set_string(&entity, &scratch, "State", slice_of("queued"));
    entity_set_int64(&entity, &scratch, "Transactions", INT64_MAX);
    entity_set_int64(&entity, &scratch, "EntitiesRead", INT64_MIN);
    entity_set_int64(&entity, &scratch, "EntitiesWritten", 7);
    assert_ok(ledger_parse(&entity, &run, &err));
    assert_true(run.transactions == INT64_MAX / 4);
    assert_int_equal(run.read, 0);
    assert_int_equal(run.written, 7);
    ledger_run_done(&run);
}

TEST(an_error_is_cut_at_a_character)
{
    struct ledger_run run;
    char text[LEDGER_MAX_ERROR_BYTES + 10];

    memset(text, 'a', sizeof(text));
    memcpy(text + LEDGER_MAX_ERROR_BYTES - 1, "\xc3\xbc", 2);
    text[sizeof(text) - 1] = '\0';
    ledger_run_init(&run);
    ledger_set_error(&run, text);
    assert_int_equal(run.error.len, LEDGER_MAX_ERROR_BYTES - 1);
    ledger_run_done(&run);
}

BENCH_TEST(an_error_that_is_no_text_is_cut_too)
{
    struct ledger_run *run;
    char text[LEDGER_MAX_ERROR_BYTES + 10];

    memset(text, 0x80, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    run = workbench_new_run(bench);
    ledger_set_error(run, text);
    assert_true(run->error.len <= LEDGER_MAX_ERROR_BYTES);
}

BENCH_TEST(a_copy_lives_on_without_what_it_is_of)
{
    struct property color = {
        slice_of("Color"), EDM_STRING, slice_of("\"red\"")};
    struct ledger_run run, copy;

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

BENCH_TEST(a_scan_that_fails_shows_nothing)
{
    struct exchange exchange = {0};
    struct page page;

    page_init(&page);
    workbench_meets(bench, BENCH_SCAN, 1, 1, BENCH_FAIL);
    assert_int_equal(ledger_scan(bench->store, &exchange, slice_of(JOB),
                         slice_of(""), (struct continuation){0}, &page),
        TW_BUSY);
    assert_string_equal(exchange.err.text, "the store is down");
    page_done(&page);
}

/* Somebody's own entity, in a table that is not theirs. */
BENCH_TEST(an_entity_without_an_id_is_shown_too)
{
    struct exchange exchange = {0};
    struct entity entity;
    struct arena arena;
    struct page page;

    arena_init(&arena);
    page_init(&page);
    entity_init(&entity, &arena, slice_of(JOB), slice_of(""));
    workbench_write(bench, OPERATION_INSERT, &entity);
    assert_ok(ledger_scan(bench->store, &exchange, slice_of(""), slice_of(""),
        (struct continuation){0}, &page));
    assert_int_equal(page.count, 1);
    page_done(&page);
    arena_done(&arena);
}

/* Loss 8: one row that cannot be read hides no other, and is named. */
BENCH_TEST(a_damaged_row_is_shown_with_its_keys)
{
    struct exchange exchange = {0};
    struct ledger_run *run;
    struct entity entity;
    struct arena arena;
    struct page page;
    struct buf json;

    arena_init(&arena);
    page_init(&page);
    run = workbench_new_run(bench);
    buf_init(&json, 10000);
    entity_init(&entity, &arena, slice_of(JOB), slice_of("r1"));
    entity_set_int32(&entity, &arena, "State", 5);
    workbench_write(bench, OPERATION_INSERT, &entity);
    assert_ok(ledger_scan(bench->store, &exchange, slice_of(""), slice_of(""),
        (struct continuation){0}, &page));
    assert_int_equal(page.count, 1);
    ledger_parse_any(&page.entities[0], run);
    assert_int_equal(run->state, LEDGER_DAMAGED);
    assert_false(ledger_state_ended(run->state));
    assert_true(slice_is(run->id, "r1"));
    ledger_add_json(run, &json);
    assert_non_null(strstr(buf_text(&json), "\"State\":\"damaged\""));
    assert_non_null(strstr(buf_text(&json), "State of run"));
    buf_done(&json);
    page_done(&page);
    arena_done(&arena);
}

TEST(json_has_numbers_as_numbers)
{
    struct ledger_run run;
    struct buf json;

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

SCRATCH_TEST(an_entity_that_is_no_run_is_refused)
{
    struct entity entity;
    struct ledger_run run;
    struct err err;

    ledger_run_init(&run);
    entity_init(&entity, &scratch, slice_of(JOB), slice_of("r1"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    entity_set_string(&entity, &scratch, "Another", slice_of("thing"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "has no State"));
    entity_set_string(&entity, &scratch, "State", slice_of("queued"));
    assert_ok(ledger_parse(&entity, &run, &err));
    entity_set_string(&entity, &scratch, "Epoch", slice_of("one"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    ledger_run_done(&run);
}

/* A key may hold what a terminal obeys. */
SCRATCH_TEST(a_refusal_shows_the_keys_and_no_control_characters)
{
    struct entity entity;
    struct ledger_run run;
    struct err err;

    ledger_run_init(&run);
    entity_init(&entity, &scratch,
        slice_of("delete\x7f"
                 "-it"),
        slice_of("r\x1b"
                 "1"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "delete"));
    assert_null(strchr(err.text, 0x7f));
    entity_set_string(&entity, &scratch, "LeaseUntil", slice_of("no time"));
    assert_int_equal(ledger_parse(&entity, &run, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "LeaseUntil"));
    assert_null(strchr(err.text, 0x7f));
    assert_null(strchr(err.text, 0x1b));
    ledger_run_done(&run);
}
