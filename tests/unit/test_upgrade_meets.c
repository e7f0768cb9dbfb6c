/* SPDX-License-Identifier: MIT */
/* An upgrade whose entities, or whose rows beside the ledger, are written by
 * others meanwhile; and the texts of its verification and dry run. */
#include <stdio.h>
#include <string.h>

#include "jobs/upgrade/applied.h"
#include "jobs/upgrade/checkpoint.h"
#include "jobs/upgrade/record.h"
#include "tests/support/quotes.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

static const char JOBS[] =
    "u:\n"
    "  kind: schema-upgrade\n"
    "  table: Blogs\n"
    "  filter: \"T eq 'b'\"\n"
    "  version: {property: V, absent: 1}\n"
    "  versions:\n"
    "  - to: 2\n"
    "    steps:\n"
    "    - rename: {property: Text, to: Body}\n"
    "    - retype: {property: R, to: Edm.Int32, on_error: skip}\n"
    "  - {to: 3, steps: [remove: {property: Legacy}]}\n"
    "  - {to: 4, steps: [set: {property: S, type: Edm.Int32, value: 1}]}\n"
    "some:\n"
    "  kind: schema-upgrade\n"
    "  table: Posts\n"
    "  args: [n]\n"
    "  filter: \"N eq {n}\"\n"
    "  version: {property: V, absent: 1}\n"
    "  versions:\n"
    "  - {to: 2, steps: [remove: {property: Legacy}]}\n"
    "renamed:\n"
    "  kind: schema-upgrade\n"
    "  table: Names\n"
    "  version: {property: V, absent: 1}\n"
    "  versions:\n"
    "  - {to: 2, steps: [rename: {property: Text, to: Body}]}\n";

static int set_up(void **state)
{
    scene_begin(JOBS, "Blogs Names Posts TablewardRuns");
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)

/* Inserts an entity in partition 'a'. JSON is written with single quotes. */
static void put(const char *table, const char *row_key, const char *properties)
{
    scene_put(table, "a", row_key, quoted(&h.arena, properties));
}

static void is(const char *table, const char *row_key, const char *json)
{
    scene_check_is(table, "a", row_key, quoted(&h.arena, json));
}

static void run(const char *job, const char *phase, enum run_end wanted)
{
    scene_new_run();
    h.kind_arg = phase;
    scene_attempt(job, "1", wanted);
}

static void notes(const char *part)
{
    if (!strstr(h.note, part))
        fail_msg("'%s' is not in '%s'", part, h.note);
}

/* ---- an entity that others write ---- */

static const char *meanwhile; /* new properties; NULL: delete it */

static void write_it(struct hosted *callbacks)
{
    if (meanwhile)
        hosted_replace(
            callbacks, "Blogs", "a", "1", quoted(&callbacks->arena, meanwhile));
    else
        hosted_remove(callbacks, "Blogs", "a", "1");
}

FIXTURE_TEST(what_another_writes_before_the_upgrade_is_decided_anew)
{
    static const struct {
        const char *name, *meanwhile, *then;
        int64_t skipped;
    } cases[] = {
        {"a deleted one is not brought back", NULL, "none", 0},
        {"one that is not selected any more stays as it is",
            "'T':'c','Text':'x'", "{'T':'c','Text':'x'}", 0},
        {"one beyond the document stays as it is", "'T':'b','V':9",
            "{'T':'b','V':9}", 0},
        {"one that on_error skips now is counted",
            "'T':'b','Text':'x','R':'many'", "{'T':'b','Text':'x','R':'many'}",
            1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        test_case("%s", cases[i].name);
        meanwhile = cases[i].meanwhile;
        put("Blogs", "1", "'T':'b','Text':'x'");
        script_batch(&s, "Blogs", OPERATION_REPLACE, 1, 1)->before = write_it;
        run("u", "all", RUN_SUCCEEDED);
        is("Blogs", "1", cases[i].then);
        assert_int_equal(h.skipped, cases[i].skipped);
        script_clear(&s);
        if (meanwhile)
            scene_remove("Blogs", "a", "1");
    }
}

/* Writes the entity, as another program, and refuses to store digests from then
 * on. Rule U8: the digest of a version is stored before its steps are carried
 * out, also if only a conflict shows that these steps are needed. */
static void refuse_digests(struct hosted *callbacks)
{
    struct script_event *event =
        script_batch(&s, "TablewardRuns", OPERATION_INSERT, 1, 99);

    event->answer = TW_REFUSED;
    event->unsent = true;
    write_it(callbacks);
}

FIXTURE_TEST(no_step_is_carried_out_before_its_digest_is_stored)
{
    meanwhile = "'T':'b','Text':'x','V':1";
    put("Blogs", "1", "'T':'b','V':3"); /* only version 4 is missing */
    script_batch(&s, "Blogs", OPERATION_REPLACE, 1, 1)->before = refuse_digests;
    run("u", "all", RUN_OUTAGE);
    is("Blogs", "1", "{'T':'b','Text':'x','V':1}");
    script_clear(&s);
    scene_attempt("u", "", RUN_SUCCEEDED);
    is("Blogs", "1", "{'T':'b','V':4,'Body':'x','S':1}");
}

/* ---- rows beside the ledger ---- */

static void lose(enum operation_type type, unsigned last, bool unsent)
{
    struct script_event *event =
        script_batch(&s, "TablewardRuns", type, 1, last);

    event->answer = TW_UNKNOWN;
    event->unsent = unsent;
}

FIXTURE_TEST(a_digest_whose_write_stays_unknown_ends_the_attempt)
{
    put("Blogs", "1", "'T':'b','V':3");
    lose(OPERATION_INSERT, 99, true);
    run("u", "all", RUN_OUTAGE);
    is("Blogs", "1", "{'T':'b','V':3}");
    script_clear(&s);
    lose(OPERATION_INSERT, 1, false);
    run("u", "all", RUN_SUCCEEDED);
    is("Blogs", "1", "{'T':'b','V':4,'S':1}");
}

FIXTURE_TEST(an_expand_that_cannot_say_how_far_it_is_ends_the_attempt)
{
    put("Names", "1", "'Text':'x'");
    lose(OPERATION_INSERT, 99, true);
    run("renamed", "expand", RUN_OUTAGE);
    is("Names", "1", "{'Text':'x'}");
    script_clear(&s);
    lose(OPERATION_INSERT, 1, true);
    lose(OPERATION_REPLACE, 1, false);
    run("renamed", "expand", RUN_SUCCEEDED);
    script_clear(&s);
    run("renamed", "contract", RUN_SUCCEEDED);
    is("Names", "1", "{'Body':'x','V':2}");
}

/* Replaces the properties of the row that has the state of the expand. */
static void edit_expand_row(const char *properties)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(APPLIED_PARTITION))};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    bool found = false;

    page_init(&page);
    assert_ok(store_scan(s.inner, &exchange, &request, &page));
    for (size_t i = 0; i < page.count; i++) {
        struct slice key = page.entities[i].row_key;

        if (key.len < 7 || memcmp(key.at + key.len - 7, ".expand", 7) != 0)
            continue;
        scene_replace("TablewardRuns", APPLIED_PARTITION,
            arena_copy(&h.arena, key).at, quoted(&h.arena, properties));
        found = true;
    }
    page_done(&page);
    assert_true(found);
}

/* Makes a dry run of `contract`, which must say, with text `part`, why the run
 * would be refused; NULL: the run would not be refused. */
static void check_contract_refused(const char *part)
{
    struct job_estimate estimate;

    h.kind_arg = "contract";
    assert_ok(hosted_estimate(&h, "renamed", "", &estimate));
    if (part) {
        assert_non_null(estimate.refused);
        assert_non_null(strstr(estimate.refused, part));
    } else {
        assert_null(estimate.refused);
    }
    assert_null(estimate.note);
    arena_done(&estimate.arena);
}

FIXTURE_TEST(contract_says_how_far_the_expand_is_behind)
{
    static const struct {
        const char *row, *part;
    } cases[] = {
        {"'Version':2,'Behind':1,'Job':'renamed','Run':'x'",
            "run renamed/x (phase=expand) ended with 1 entity written during "
            "its last"},
        {"'Version':2,'Behind':2",
            "run / (phase=expand) ended with 2 entities"},
        {"'Version':2,'Behind':-1", "has not ended"},
    };
    /* Rows of another version, without a valid Behind, or with Behind 0. */
    static const char *const none[] = {"'Version':1,'Behind':5", "'Behind':5",
        "'Version':'2','Behind':5", "'Version':2", "'Version':2,'Behind':'x'",
        "'Version':2,'Behind':0"};

    put("Names", "1", "'Text':'x'");
    check_contract_refused(NULL); /* without an expand there is no row */
    run("renamed", "expand", RUN_SUCCEEDED);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        edit_expand_row(cases[i].row);
        check_contract_refused(cases[i].part);
        run("renamed", "contract", RUN_FAILED);
        if (!strstr(h.err.text, cases[i].part))
            fail_msg("%s", h.err.text);
    }
    for (size_t i = 0; TEST_EACH(i, none); i++) {
        edit_expand_row(none[i]);
        check_contract_refused(NULL);
        run("renamed", "contract", RUN_SUCCEEDED);
    }
    is("Names", "1", "{'Body':'x','V':2}");
}

/* The rows name a table by its account, or by the store's name in the
 * configuration if the store does not know its account. */
FIXTURE_TEST(the_steps_of_a_table_are_known_in_whatever_way_it_is_named)
{
    static const struct {
        const char *row_key, *identity, *place;
        unsigned rows;
    } cases[] = {{"0", "host/account", NULL, 1}, {"1", NULL, "/a.db", 2},
        {"2", NULL, NULL, 3}, {"3", "host/account", "/a.db", 3}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        put("Names", cases[i].row_key, "'Text':'x'");
        h.store->capabilities.identity = cases[i].identity;
        h.store->capabilities.endpoint = cases[i].place;
        run("renamed", "all", RUN_SUCCEEDED);
        scene_quietly(
            assert_int_equal(hosted_count(&h, "TablewardRuns"), cases[i].rows));
    }
}

/* ---- what a run notes ---- */

FIXTURE_TEST(what_older_steps_should_have_removed_is_noted)
{
    put("Blogs", "1", "'T':'b','V':4,'S':1,'Legacy':true");
    run("u", "all", RUN_SUCCEEDED);
    notes("1 entity has a property that a step of an older version removed or "
          "retyped, e.g. Legacy (version 3) in 'a' / '1'; unchanged");
    put("Blogs", "2", "'T':'b','V':4,'S':1,'Text':'x'");
    put("Blogs", "3", "'T':'b','V':4,'S':1,'R':'4'");
    run("u", "all", RUN_SUCCEEDED);
    notes("3 entities have a property that a step");
    put("Blogs", "4", "'T':'b','V':8");
    put("Blogs", "5", "'T':'b','V':1.5");
    run("u", "all", RUN_SUCCEEDED);
    notes("2 entities are at a version that `versions:` does not contain; "
          "unchanged");
    is("Blogs", "3", "{'T':'b','V':4,'S':1,'R':'4'}");
}

FIXTURE_TEST(a_version_may_be_beyond_32_bits)
{
    hosted_load(&h, "far: {kind: schema-upgrade, table: Names, version: "
                    "{property: V, absent: -5000000000}, versions: [{to: "
                    "-4000000000, steps: [remove: {property: A}]}]}\n");
    put("Names", "1", "'A':1");
    run("far", "all", RUN_SUCCEEDED);
    is("Names", "1", "{'V@odata.type':'Edm.Int64','V':'-4000000000'}");
    hosted_load(&h, "far: {kind: schema-upgrade, table: Names, version: "
                    "{property: V, absent: 1}, versions: [{to: 4000000000, "
                    "steps: [remove: {property: A}]}]}\n");
    put("Names", "2", "'A':1");
    scene_remove("Names", "a", "1");
    run("far", "all", RUN_SUCCEEDED);
    is("Names", "2", "{'V@odata.type':'Edm.Int64','V':'4000000000'}");
}

/* A property that a later step removes or makes again is not reported as a
 * leftover of an older step. */
FIXTURE_TEST(what_a_later_step_names_is_no_rest)
{
    hosted_load(&h,
        "again: {kind: schema-upgrade, table: Names, version: {property: V, "
        "absent: 1}, versions: [{to: 2, steps: [remove: {property: A}, rename: "
        "{property: B, to: C}, retype: {property: D, to: Edm.Int32}]}, {to: 3, "
        "steps: [add: {property: A, type: Edm.Int32, value: 1}, rename: "
        "{property: E, to: B}]}]}\n");
    put("Names", "1", "'A':1,'B':2,'D':4,'V':3");
    run("again", "all", RUN_SUCCEEDED);
    assert_string_equal(h.note, "");
    put("Names", "2", "'A':1,'D':'4','V':3");
    run("again", "all", RUN_SUCCEEDED);
    notes("e.g. D (version 2) in 'a' / '2'");
}

/* ---- an argument that makes no filter ---- */

FIXTURE_TEST(an_argument_that_makes_no_filter_fails_the_run)
{
    struct job_estimate estimate;
    struct job_verification found;
    const struct job *job = jobs_find(&h.jobs, slice_of("some"));
    const struct slice names[] = {slice_of("n"), slice_of("phase")};
    struct slice values[] = {slice_of("x y"), slice_of("all")};
    const struct run_args args = {2, names, values};
    struct err err;

    assert_int_equal(hosted_attempt(&h, "some", "x y"), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "filter"));
    assert_int_equal(hosted_estimate(&h, "some", "x y", &estimate), TW_INVALID);
    arena_done(&estimate.arena);
    assert_int_equal(hosted_verify(&h, "some", "x y", &found), TW_INVALID);
    arena_done(&found.arena);
    assert_int_equal(job->kind->accept(job, &args, &err), TW_INVALID);
    values[0] = slice_of("1");
    assert_ok(job->kind->accept(job, &args, &err));
}

FIXTURE_TEST(an_argument_selects)
{
    put("Posts", "1", "'N':1,'Legacy':true");
    put("Posts", "2", "'N':2,'Legacy':true");
    run("some", "all", RUN_SUCCEEDED);
    is("Posts", "1", "{'N':1,'V':2}");
    is("Posts", "2", "{'N':2,'Legacy':true}");
}

/* ---- verification ---- */

FIXTURE_TEST(verify_says_what_it_leaves_aside)
{
    struct job_verification all;

    put("Blogs", "1", "'T':'b','R':'many'");
    put("Blogs", "2", "'T':'b','V':9");
    put("Blogs", "3", "'T':'c'");
    assert_ok(hosted_verify(&h, "u", "", &all));
    assert_int_equal(all.read, 2);
    assert_non_null(strstr(all.note, "entities left below the newest version "
                                     "because of `on_error: skip`: 1; "
                                     "entities at versions that `versions:` "
                                     "does not contain: 1"));
    arena_done(&all.arena);
    scene_remove("Blogs", "a", "1");
    assert_ok(hosted_verify(&h, "u", "", &all));
    assert_non_null(strstr(all.note, "`on_error: skip`: 0;"));
    arena_done(&all.arena);
}

FIXTURE_TEST(verify_names_the_first_five_of_many)
{
    struct job_verification all;
    size_t below = 0;

    for (int i = 0; i < 7; i++)
        put("Blogs", (char[]){(char)('1' + i), '\0'}, "'T':'b','V':3");
    assert_ok(hosted_verify(&h, "u", "", &all));
    while (!strstr(all.differences[below].what, "below"))
        assert_true(++below < all.count);
    assert_int_equal(all.differences[below].count, 7);
    assert_string_equal(
        all.differences[below].first_keys[4], "Blogs 'a' / '5'");
    arena_done(&all.arena);
}

/* The entity is at the newest version, and a run cannot decide which of its two
 * values is kept. */
FIXTURE_TEST(verify_counts_what_a_run_would_name)
{
    put("Names", "1", "'Text':'x','Body':'y','V':2");
    assert_int_equal(hosted_differences(&h, "renamed", "below"), 0);
    assert_int_equal(hosted_differences(&h, "renamed", ""), 1);
    run("renamed", "all", RUN_FAILED);
    scene_check_reported("a/1: ");
}

FIXTURE_TEST(a_dry_run_shows_the_first_that_fail)
{
    struct job_estimate estimate;

    for (int i = 0; i < 12; i++)
        put("Names", arena_format(&h.arena, "%02d", i).at,
            "'Text':'x','Body':'y'");
    assert_ok(hosted_estimate(&h, "renamed", "", &estimate));
    assert_non_null(strstr(estimate.details, "'a' / '00'"));
    assert_null(strstr(estimate.details, "'a' / '11'"));
    assert_null(strstr(estimate.details, "\n\n\n"));
    arena_done(&estimate.arena);
}

/* ---- records and checkpoints ---- */

/* Fails unless record_read() returns `wanted` for the record `text`, which is
 * written with single quotes. */
static void check_record(const char *text, bool wanted)
{
    struct entity entity;
    struct record record;

    entity_init(&entity, &h.arena, slice_of("a"), slice_of("1"));
    entity_set_string(
        &entity, &h.arena, RECORD_PROPERTY, slice_of(quoted(&h.arena, text)));
    if (record_read(&entity, &h.arena, &record) != wanted)
        fail_msg("%s", text);
}

FIXTURE_TEST(a_record_is_read_whole_or_not_at_all)
{
#define D "'00000000000000000000000000000000'"
    static const char *const bad[] = {"", "[]", "7", "{}",
        "{'version':'2','pairs':[]}", "{'version':2}",
        "{'version':2,'in':7,'pairs':[]}", "{'version':2,'pairs':{}}",
        "{'version':2,'pairs':[7]}", "{'version':2,'pairs':[['A','B'," D "]]}",
        "{'version':2,'pairs':[[1,'B'," D "," D "]]}",
        "{'version':2,'pairs':[['A',2," D "," D "]]}",
        "{'version':2,'pairs':[['A','B',3," D "]]}",
        "{'version':2,'pairs':[['A','B'," D ",4]]}",
        "{'version':2,'pairs':[['A','B'," D ",'x']]}"};
    struct buf text;

    check_record("{'version':2,'pairs':[]}", true);
    check_record("{'version':2,'pairs':[['A','B'," D "," D "]]}", true);
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        check_record(bad[i], false);
    buf_init(&text, 1024 * 1024);
    buf_add_text(&text, "{'version':2,'pairs':[");
    for (int i = 0; i <= UPGRADE_MAX_STEPS; i++)
        buf_add_format(&text, "%s['A%d','B'," D "," D "]", i > 0 ? "," : "", i);
    buf_add_text(&text, "]}");
    check_record(buf_text(&text), false);
    buf_done(&text);
}

/* A record of another document, which is full. Its pairs belong to no step of
 * this document, so no step finds a pair; and no pair can be added. */
FIXTURE_TEST(a_record_that_is_full_takes_no_pair)
{
    static struct record record = {.count = UPGRADE_MAX_STEPS};
    const struct upgrade_step step = {
        .property = slice_of("A"), .to = slice_of("B")};

    for (size_t i = 0; i < record.count; i++) {
        record.pairs[i].old_name = slice_of("Other");
        record.pairs[i].new_name = slice_of("B");
    }
    assert_null(record_find(&record, &step));
    record_put(&record, &step, NULL, NULL);
    assert_int_equal(record.count, UPGRADE_MAX_STEPS);
    assert_null(record_find(&record, &step));
    record.count = 1;
    for (int times = 0; times < 2; times++) {
        record_put(&record, &step, NULL, NULL);
        assert_int_equal(record.count, 2);
    }
    assert_non_null(record_find(&record, &step));
}

FIXTURE_TEST(a_checkpoint_without_one_of_its_counts_is_a_new_run)
{
    static const char count[] = "\"selected\":4";
    static const char *const damages[] = {
        "\"selectee\":4", "\"selected\":\"\"", "\"selected\":-4"};
    struct upgrade_checkpoint at = {
        .rounds = {.number = 3, .under_way = true}, .selected = 4};
    char *text = upgrade_checkpoint_write(&at);
    const char *is_at = strstr(text, count);

    assert_non_null(is_at);
    upgrade_checkpoint_read(slice_of(text), &h.arena, &at);
    assert_int_equal(at.selected, 4);
    for (size_t i = 0; TEST_EACH(i, damages); i++) {
        struct slice damaged = arena_format(&h.arena, "%.*s%s%s",
            (int)(is_at - text), text, damages[i], is_at + strlen(count));

        upgrade_checkpoint_read(damaged, &h.arena, &at);
        assert_int_equal(at.selected, 0);
        assert_int_equal(at.rounds.number, 0);
    }
    mem_free(text);
}

/* A store without key order has no position to continue from. */
FIXTURE_TEST(a_store_without_order_is_read_again_from_its_beginning)
{
    h.store->capabilities.ordered = false;
    scene_quietly(hosted_fill(&h, "Names", "a", 2500));
    h.kind_arg = "all";
    h.stop_after = 2;
    scene_attempt("renamed", "", RUN_STOPPED);
    h.stop_after = -1;
    scene_attempt("renamed", "", RUN_SUCCEEDED);
    scene_check_has("Names", "a", "b02499", "\"V\":2");
    scene_check_has("Names", "a", "b00000", "\"V\":2");
}
