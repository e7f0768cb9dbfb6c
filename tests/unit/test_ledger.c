/* SPDX-License-Identifier: MIT */
/* The ledger: its entities, the states of runs, and its index. */
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

static struct ledger_run *stored_run(struct workbench *bench, const char *id)
{
    struct ledger_run *run = workbench_new_run(bench);

    fill(run, id);
    assert_ok(workbench_store_run(bench, run));
    return run;
}

/* A ledger run, and an entity delete-channel/r1 without properties. */
struct fixture {
    struct ledger_run run;
    struct arena arena;
    struct entity entity;
    struct err err;
};

static void init(struct fixture *f)
{
    ledger_run_init(&f->run);
    arena_init(&f->arena);
    entity_init(&f->entity, &f->arena, slice_of(JOB), slice_of("r1"));
}

static void done(struct fixture *f)
{
    arena_done(&f->arena);
    ledger_run_done(&f->run);
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define RUN_TEST(name)                                                         \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

static void set_text(struct fixture *f, const char *name, const char *text)
{
    entity_set_string(&f->entity, &f->arena, name, slice_of(text));
}

static void expect_no_run(struct fixture *f, const char *why)
{
    assert_int_equal(ledger_parse(&f->entity, &f->run, &f->err), TW_INVALID);
    assert_non_null(strstr(f->err.text, why));
}

static void expect_run(struct fixture *f)
{
    assert_ok(ledger_parse(&f->entity, &f->run, &f->err));
}

RUN_TEST(every_property_has_the_documented_type)
{
    static const struct {
        enum edm_type type;
        const char *names[24];
    } wanted[] = {
        {EDM_STRING, {"State", "Kind", "Args", "Queue", "Worker", "Owner",
                         "Phase", "Checkpoint", "Error", "Note", "WaitsFor"}},
        {EDM_INT32,
            {"Attempt", "Format", "Failures", "Throttled", "Rounds", "Epoch"}},
        {EDM_INT64,
            {"Behind", "EntitiesRead", "EntitiesWritten", "EntitiesDeleted",
                "EntitiesSkipped", "EntitiesFailed", "Transactions"}},
        {EDM_DOUBLE, {"Share"}},
        {EDM_BOOLEAN, {"ParentFound", "AcceptDeletes"}},
        {EDM_DATETIME,
            {"AcceptedAt", "WaitsSince", "CaughtUpTo", "MessageUntil",
                "RequestedAt", "StartedAt", "UpdatedAt", "LeaseUntil",
                "ResumesAt", "FinishedAt"}},
    };
    struct ledger_run *run = &f->run;

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
    ledger_entity(run, &f->arena, &f->entity);
    for (size_t i = 0; TEST_EACH(i, wanted); i++)
        for (const char *const *name = wanted[i].names; *name; name++) {
            const struct property *property =
                entity_find(&f->entity, slice_of(*name));

            if (property == NULL)
                fail_msg("%s is missing", *name);
            assert_int_equal(property->type, wanted[i].type);
        }
}

BENCH_TEST(a_scan_shows_runs_and_no_index_rows)
{
    static const char *const jobs[] = {"", JOB};
    struct page page;

    (void)stored_run(bench, "r1");
    (void)stored_run(bench, "r2");
    page_init(&page);
    for (size_t i = 0; TEST_EACH(i, jobs); i++) {
        struct exchange exchange = {0};

        assert_ok(ledger_scan(bench->store, &exchange, slice_of(jobs[i]),
            slice_of("State eq 'queued'"), (struct continuation){0}, &page));
        assert_int_equal(page.count, 2);
        assert_true(slice_is(page.entities[0].row_key, "r1"));
    }
    page_done(&page);
}

/* An Owner may be any text, because other programs may write the ledger. */
TEST(a_run_whose_owner_is_dropped_is_known_as_taken_over)
{
    struct ledger_run run = {.owner = slice_of("o"), .lease_until_ticks = 10};

    assert_true(ledger_lease_is_live(&run, 9));
    assert_false(ledger_lease_is_live(&run, 10));
    ledger_drop_owner(&run);
    assert_int_equal(run.owner.len, 0);
    assert_int_equal(run.silent, 1);
    assert_true(ledger_has_crashed_owner(&run));
    run.owner = slice_of("o");
    run.silent = 5;
    ledger_drop_owner(&run);
    assert_int_equal(run.silent, 5);
    run.silent = 0;
    ledger_drop_owner(&run);
    assert_int_equal(run.silent, 0);
    assert_false(ledger_has_crashed_owner(&run));
}

/* The owner recognises a new acceptance of deletes by its later time. */
RUN_TEST(each_acceptance_of_deletes_has_a_later_time)
{
    static const struct {
        int64_t at_ticks, stored_ticks;
        bool accepts;
    } cases[] = {{500, 500, true}, {500, 501, false}, {400, 502, true}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        ledger_accept_deletes(&f->run, cases[i].accepts, cases[i].at_ticks);
        assert_int_equal(f->run.accept_deletes, cases[i].accepts);
        assert_int_equal(f->run.accepted_ticks, cases[i].stored_ticks);
    }
}

RUN_TEST(an_ended_run_is_retried_or_dropped_at_most)
{
    static const struct {
        enum ledger_state from, to;
        bool may;
    } moves[] = {
        {LEDGER_SUCCEEDED, LEDGER_QUEUED, false},
        {LEDGER_SUCCEEDED, LEDGER_RUNNING, false},
        {LEDGER_SUCCEEDED, LEDGER_WAITING, false},
        {LEDGER_SUCCEEDED, LEDGER_PAUSED, false},
        {LEDGER_SUCCEEDED, LEDGER_FAILED, false},
        {LEDGER_SUCCEEDED, LEDGER_POISONED, false},
        {LEDGER_SUCCEEDED, LEDGER_CANCELLED, false},
        {LEDGER_SUCCEEDED, LEDGER_SUCCEEDED, true},
        {LEDGER_FAILED, LEDGER_RUNNING, false},
        {LEDGER_FAILED, LEDGER_QUEUED, true},
        {LEDGER_FAILED, LEDGER_CANCELLED, true},
        {LEDGER_CANCELLED, LEDGER_QUEUED, false},
        {LEDGER_NEWER, LEDGER_QUEUED, false},
    };

    fill(&f->run, "r1");
    assert_int_equal(
        ledger_move(&f->run, LEDGER_SUCCEEDED, &f->err), TW_INVALID);
    assert_string_equal(f->err.text,
        "run delete-channel/r1 is queued: it cannot become succeeded");
    assert_int_equal(f->run.state, LEDGER_QUEUED);
    assert_ok(ledger_move(&f->run, LEDGER_RUNNING, &f->err));
    assert_ok(ledger_move(&f->run, LEDGER_SUCCEEDED, &f->err));
    assert_true(ledger_state_ended(f->run.state));
    for (size_t i = 0; TEST_EACH(i, moves); i++)
        assert_int_equal(
            ledger_may_move(moves[i].from, moves[i].to), moves[i].may);
}

RUN_TEST(since_when_it_waits_is_kept_for_one_cause)
{
    struct ledger_run *run = &f->run;

    assert_ok(ledger_wait(run, LEDGER_WAITS_FOR_TURN, 100, 200, &f->err));
    assert_ok(ledger_move(run, LEDGER_RUNNING, &f->err));
    assert_ok(ledger_wait(run, LEDGER_WAITS_FOR_TURN, 300, 400, &f->err));
    assert_true(run->waits_since_ticks == 100);
    assert_true(run->resumes_ticks == 400);
    assert_false(ledger_is_held(run));
    assert_ok(ledger_wait(run, LEDGER_WAITS_FOR_DEFINITION, 500, 600, &f->err));
    assert_true(run->waits_since_ticks == 500);
    assert_true(ledger_is_held(run));
    assert_ok(ledger_move(run, LEDGER_QUEUED, &f->err));
    assert_true(run->waits_since_ticks == 0 && run->waits_for.len == 0);
}

RUN_TEST(a_note_has_each_sentence_once_and_an_end)
{
    static const char *const sentences[] = {"the parent did not exist",
        "nothing was selected", "the parent did not exist", "nothing"};
    char long_text[2000] = "";

    for (size_t i = 0; TEST_EACH(i, sentences); i++)
        ledger_add_note(&f->run, slice_of(sentences[i]));
    assert_true(slice_is(f->run.note,
        "the parent did not exist; nothing was selected; nothing"));
    for (unsigned i = 0; i < 20; i++) {
        memset(long_text, (int)('a' + i), sizeof(long_text) - 1);
        ledger_add_note(&f->run, slice_of(long_text));
    }
    assert_true(f->run.note.len <= LEDGER_MAX_NOTE_BYTES);
}

/* ---- the index ---- */

RUN_TEST(an_index_row_names_its_run)
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
        /* A run whose state is of a newer version, or cannot be read, counts as
         * open. */
        {LEDGER_NEWER, LEDGER_INDEX_OPEN, "!open!r1"},
        {LEDGER_DAMAGED, LEDGER_INDEX_OPEN, "!open!r1"},
    };
    static const char *const of_none[] = {
        "!closed", "!open!", "!ended!2026-11-22!", "r1"};
    struct slice id;

    f->run.id = slice_of("r1");
    assert_true(
        text_ticks(slice_of("2026-11-22T23:59:59Z"), &f->run.finished_ticks));
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct slice key;

        f->run.state = cases[i].run_state;
        key = ledger_index_key(&f->run, &f->arena);
        assert_true(slice_is(key, cases[i].key));
        assert_int_equal(ledger_index_of(f->run.state), cases[i].index);
        assert_true(ledger_index_id(key, &id));
        assert_true(slice_is(id, "r1"));
    }
    for (size_t i = 0; TEST_EACH(i, of_none); i++)
        assert_false(ledger_index_id(slice_of(of_none[i]), &id));
}

static void stored_as(struct workbench *bench, const char *job, const char *id,
    enum ledger_state run_state, const char *finished)
{
    struct ledger_run *run = workbench_new_run(bench);

    fill(run, id);
    run->job = slice_of(job);
    run->state = run_state;
    if (finished)
        assert_true(text_ticks(slice_of(finished), &run->finished_ticks));
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

/* Jobs that are in no configuration are found too. Partitions that are no
 * job's, such as `!locks`, are passed over. */
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

RUN_TEST(a_state_of_a_newer_version_is_shown_as_it_is)
{
    set_text(f, "State", "dreaming");
    expect_run(f);
    assert_true(f->run.newer);
    assert_true(slice_is(ledger_state_shown(&f->run), "dreaming"));
    set_text(f, "State", "queued");
    entity_set_int32(&f->entity, &f->arena, "Format", LEDGER_FORMAT + 1);
    entity_set_int32(&f->entity, &f->arena, "Args", 5); /* a wrong type */
    expect_run(f);
    assert_true(f->run.newer);
    entity_set_int32(&f->entity, &f->arena, "Format", LEDGER_FORMAT);
    expect_no_run(f, "Args");
}

/* Other programs may write counters. They must not make the worker's counters
 * overflow. */
RUN_TEST(counters_of_others_are_held_within_bounds)
{
    set_text(f, "State", "queued");
    entity_set_int64(&f->entity, &f->arena, "Transactions", INT64_MAX);
    entity_set_int64(&f->entity, &f->arena, "EntitiesRead", INT64_MIN);
    entity_set_int64(&f->entity, &f->arena, "EntitiesWritten", 7);
    expect_run(f);
    assert_true(f->run.transactions == INT64_MAX / 4);
    assert_int_equal(f->run.read, 0);
    assert_int_equal(f->run.written, 7);
}

RUN_TEST(an_error_is_cut_at_a_character)
{
    char text[LEDGER_MAX_ERROR_BYTES + 10] = "";

    memset(text, 'a', sizeof(text) - 1);
    memcpy(text + LEDGER_MAX_ERROR_BYTES - 1, "\xc3\xbc", 2);
    ledger_set_error(&f->run, text);
    assert_int_equal(f->run.error.len, LEDGER_MAX_ERROR_BYTES - 1);
    memset(text, 0x80, sizeof(text) - 1); /* not UTF-8 */
    ledger_set_error(&f->run, text);
    assert_true(f->run.error.len <= LEDGER_MAX_ERROR_BYTES);
}

RUN_TEST(a_copy_lives_on_without_what_it_is_of)
{
    struct property color = {
        slice_of("Color"), EDM_STRING, slice_of("\"red\"")};
    struct ledger_run run;

    ledger_run_init(&run);
    fill(&run, "r1");
    run.others = &color;
    run.other_count = 1;
    ledger_copy(&f->run, &run);
    ledger_run_done(&run);
    ledger_compact(&f->run);
    assert_true(slice_is(f->run.id, "r1"));
    assert_int_equal(f->run.other_count, 1);
    assert_true(slice_is(f->run.others[0].name, "Color"));
    assert_true(slice_is(f->run.others[0].json, "\"red\""));
}

/* Another program has put an entity of its own into the ledger's table. */
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

/* A row that cannot be read does not hide other rows, and is shown with its
 * keys. */
BENCH_TEST(a_damaged_row_is_shown_with_its_keys)
{
    struct ledger_run *run = workbench_new_run(bench);
    struct exchange exchange = {0};
    struct page page;
    struct buf json;

    page_init(&page);
    buf_init(&json, 10000);
    workbench_spoil_run(bench, JOB, "r1");
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
}

RUN_TEST(json_has_numbers_as_numbers)
{
    static const char *const parts[] = {
        "{\"Job\":\"delete-channel\",\"Id\":\"r1\",\"State\":\"queued\"",
        "\"EntitiesRead\":5000000000", "\"Attempt\":3",
        "\"RequestedAt\":\"1970-01-01T", "\"00-11-22-01\""};
    struct buf json;

    fill(&f->run, "r1");
    f->run.traceparent = slice_of("00-11-22-01");
    buf_init(&json, 65536);
    ledger_add_json(&f->run, &json);
    for (size_t i = 0; TEST_EACH(i, parts); i++)
        assert_non_null(strstr(buf_text(&json), parts[i]));
    assert_null(strstr(buf_text(&json), "FinishedAt"));
    buf_done(&json);
}

/* A key may have control characters, which a terminal would obey. */
RUN_TEST(a_refusal_shows_the_keys_and_no_control_characters)
{
    entity_init(&f->entity, &f->arena,
        slice_of("delete\x7f"
                 "-it"),
        slice_of("r\x1b"
                 "1"));
    expect_no_run(f, "delete");
    assert_null(strchr(f->err.text, 0x7f));
    set_text(f, "LeaseUntil", "no time");
    expect_no_run(f, "LeaseUntil");
    assert_null(strchr(f->err.text, 0x7f));
    assert_null(strchr(f->err.text, 0x1b));
}
