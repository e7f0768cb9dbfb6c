/* SPDX-License-Identifier: MIT */
/* An upgrade whose entities, or whose rows beside the ledger, are written by
 * others meanwhile; and the texts of its verification and dry run. */
#include <stdio.h>
#include <string.h>

#include "jobs/upgrade/applied.h"
#include "jobs/upgrade/checkpoint.h"
#include "jobs/upgrade/record.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
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

#define B "\"T\":\"b\","

static void run(const char *job, const char *phase, enum run_end wanted)
{
    scene_new_run();
    h.kind_arg = phase;
    scene_attempt(job, "1", wanted);
}

/* Calls what() before the first write of the entity is carried out. */
static void before_the_write(void (*what)(struct hosted *h), enum run_end end)
{
    scene_put("Blogs", "a", "1", B "\"Text\":\"x\"");
    script_batch(&s, "Blogs", OPERATION_REPLACE, 1, 1)->before = what;
    run("u", "all", end);
}

/* ---- an entity that others write ---- */

static void delete_it(struct hosted *callbacks)
{
    hosted_remove(callbacks, "Blogs", "a", "1");
}

FIXTURE_TEST(an_entity_that_was_deleted_is_not_brought_back)
{
    before_the_write(delete_it, RUN_SUCCEEDED);
    scene_check_is("Blogs", "a", "1", "none");
}

static void select_it_no_more(struct hosted *callbacks)
{
    hosted_replace(callbacks, "Blogs", "a", "1", "\"T\":\"c\",\"Text\":\"x\"");
}

FIXTURE_TEST(an_entity_that_is_not_selected_any_more_stays_as_it_is)
{
    before_the_write(select_it_no_more, RUN_SUCCEEDED);
    scene_check_is("Blogs", "a", "1", "{\"T\":\"c\",\"Text\":\"x\"}");
}

static void give_it_a_newer_version(struct hosted *callbacks)
{
    hosted_replace(callbacks, "Blogs", "a", "1", B "\"V\":9");
}

FIXTURE_TEST(an_entity_beyond_the_document_stays_as_it_is)
{
    before_the_write(give_it_a_newer_version, RUN_SUCCEEDED);
    scene_check_is("Blogs", "a", "1", "{\"T\":\"b\",\"V\":9}");
}

static void give_it_a_value_that_cannot_be_converted(struct hosted *callbacks)
{
    hosted_replace(
        callbacks, "Blogs", "a", "1", B "\"Text\":\"x\",\"R\":\"many\"");
}

FIXTURE_TEST(an_entity_that_on_error_skips_now_is_counted)
{
    before_the_write(give_it_a_value_that_cannot_be_converted, RUN_SUCCEEDED);
    scene_check_is(
        "Blogs", "a", "1", "{\"T\":\"b\",\"Text\":\"x\",\"R\":\"many\"}");
    assert_int_equal(h.skipped, 1);
}

/* Rule U8: the digest of a version is stored before its steps are carried out,
 * also if only a conflict shows that the steps of this version are needed. */
static void refuse_digests(struct hosted *callbacks)
{
    struct script_event *event =
        script_batch(&s, "TablewardRuns", OPERATION_INSERT, 1, 99);

    event->answer = TW_REFUSED;
    event->unsent = true;
    hosted_replace(callbacks, "Blogs", "a", "1", B "\"Text\":\"x\",\"V\":1");
}

FIXTURE_TEST(no_step_is_carried_out_before_its_digest_is_stored)
{
    scene_put("Blogs", "a", "1", B "\"V\":3"); /* only version 4 is missing */
    script_batch(&s, "Blogs", OPERATION_REPLACE, 1, 1)->before = refuse_digests;
    run("u", "all", RUN_OUTAGE);
    scene_check_is("Blogs", "a", "1", "{\"T\":\"b\",\"Text\":\"x\",\"V\":1}");
    script_clear(&s);
    if (hosted_attempt(&h, "u", "") != RUN_SUCCEEDED)
        fail_msg("%s", h.err.text);
    scene_check_is(
        "Blogs", "a", "1", "{\"T\":\"b\",\"V\":4,\"Body\":\"x\",\"S\":1}");
}

/* ---- rows beside the ledger ---- */

static void lose(
    const char *table, enum operation_type type, unsigned last, bool unsent)
{
    struct script_event *event = script_batch(&s, table, type, 1, last);

    event->answer = TW_UNKNOWN;
    event->unsent = unsent;
}

FIXTURE_TEST(a_digest_whose_write_stays_unknown_ends_the_attempt)
{
    scene_put("Blogs", "a", "1", B "\"V\":3");
    lose("TablewardRuns", OPERATION_INSERT, 99, true);
    run("u", "all", RUN_OUTAGE);
    scene_check_is("Blogs", "a", "1", "{\"T\":\"b\",\"V\":3}");
    script_clear(&s);
    lose("TablewardRuns", OPERATION_INSERT, 1, false);
    run("u", "all", RUN_SUCCEEDED);
    scene_check_is("Blogs", "a", "1", "{\"T\":\"b\",\"V\":4,\"S\":1}");
}

FIXTURE_TEST(an_expand_that_cannot_say_how_far_it_is_ends_the_attempt)
{
    scene_put("Names", "a", "1", "\"Text\":\"x\"");
    lose("TablewardRuns", OPERATION_INSERT, 99, true);
    run("renamed", "expand", RUN_OUTAGE);
    scene_check_is("Names", "a", "1", "{\"Text\":\"x\"}");
    script_clear(&s);
    lose("TablewardRuns", OPERATION_INSERT, 1, true);
    lose("TablewardRuns", OPERATION_REPLACE, 1, false);
    run("renamed", "expand", RUN_SUCCEEDED);
    script_clear(&s);
    run("renamed", "contract", RUN_SUCCEEDED);
    scene_check_is("Names", "a", "1", "{\"Body\":\"x\",\"V\":2}");
}

/* Replaces the row with the state of the expand. */
static void edit_expand_row(const char *properties)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(APPLIED_PARTITION))};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    bool found = false;

    page_init(&page);
    assert_ok(store_scan(s.inner, &exchange, &request, &page));
    s.quiet = true;
    for (size_t i = 0; i < page.count; i++) {
        struct slice key = page.entities[i].row_key;

        if (key.len < 7 || memcmp(key.at + key.len - 7, ".expand", 7) != 0)
            continue;
        hosted_replace(&h, "TablewardRuns", APPLIED_PARTITION,
            arena_copy(&h.arena, key).at, properties);
        found = true;
    }
    s.quiet = false;
    page_done(&page);
    assert_true(found);
}

/* A dry run of `contract` says why the run would be refused; NULL: it would not
 * be. */
static void check_contract_refused(const char *part)
{
    struct job_estimate estimate = {.table_count = 0};

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
        {"\"Version\":2,\"Behind\":1,\"Job\":\"renamed\",\"Run\":\"x\"",
            "the expand renamed/x ended with 1 entity written during its last"},
        {"\"Version\":2,\"Behind\":2", "the expand / ended with 2 entities"},
        {"\"Version\":2,\"Behind\":-1", "has not ended"},
    };
    /* Of another version, or without a valid Behind. */
    static const char *const none[] = {"\"Version\":1,\"Behind\":5",
        "\"Behind\":5", "\"Version\":\"2\",\"Behind\":5", "\"Version\":2",
        "\"Version\":2,\"Behind\":\"x\"", "\"Version\":2,\"Behind\":0"};

    scene_put("Names", "a", "1", "\"Text\":\"x\"");
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
    scene_check_is("Names", "a", "1", "{\"Body\":\"x\",\"V\":2}");
}

/* Contract without any expand: no row forbids it. */
FIXTURE_TEST(contract_without_an_expand_brings_all_to_the_newest)
{
    scene_put("Names", "a", "1", "\"Text\":\"x\"");
    run("renamed", "contract", RUN_SUCCEEDED);
    scene_check_is("Names", "a", "1", "{\"Body\":\"x\",\"V\":2}");
}

/* The rows name a table by its account, or by the store's name in the
 * configuration if the store does not know its account. */
FIXTURE_TEST(the_steps_of_a_table_are_known_in_whatever_way_it_is_named)
{
    static const struct {
        const char *identity, *place;
        unsigned rows;
    } cases[] = {{"host/account", NULL, 1}, {NULL, "/a.db", 2}, {NULL, NULL, 3},
        {"host/account", "/a.db", 3}};

    for (size_t i = 0; i < 4; i++) {
        char row_key[8];

        snprintf(row_key, sizeof(row_key), "%zu", i);
        scene_put("Names", "a", row_key, "\"Text\":\"x\"");
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
    scene_put("Blogs", "a", "1", B "\"V\":4,\"S\":1,\"Legacy\":true");
    run("u", "all", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note,
        "1 entity has a property that a step of an older version removed or "
        "retyped, e.g. Legacy (version 3) in 'a' / '1'; unchanged"));
    scene_put("Blogs", "a", "2", B "\"V\":4,\"S\":1,\"Text\":\"x\"");
    scene_put("Blogs", "a", "3", B "\"V\":4,\"S\":1,\"R\":\"4\"");
    run("u", "all", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "3 entities have a property that a step"));
    scene_check_is(
        "Blogs", "a", "3", "{\"T\":\"b\",\"V\":4,\"S\":1,\"R\":\"4\"}");
}

FIXTURE_TEST(versions_that_the_document_lacks_are_counted)
{
    scene_put("Blogs", "a", "1", B "\"V\":8");
    scene_put("Blogs", "a", "2", B "\"V\":9");
    scene_put("Blogs", "a", "3", B "\"V\":1.5");
    scene_put("Blogs", "a", "4", B "\"V\":1e300");
    run("u", "all", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "4 entities are at a version that "
                                   "`versions:` does not contain; unchanged"));
}

/* A number without a fraction is a version, whatever its type; another value is
 * at no version. */
FIXTURE_TEST(a_version_may_be_of_any_type_of_number)
{
    static const struct {
        const char *is, *becomes;
    } cases[] = {{"\"V\":1.0", "\"V\":2"},
        {"\"V@odata.type\":\"Edm.Int64\",\"V\":\"1\"", "\"V\":2"},
        {"\"V\":2.0", "\"V\":2.0"}, {"\"V\":-1e300", "\"V\":-1e"},
        {"\"V\":1e300", "\"V\":1e"}, {"\"V\":\"1\"", "\"V\":\"1\""}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char row_key[8];

        snprintf(row_key, sizeof(row_key), "%zu", i);
        scene_put("Names", "a", row_key, cases[i].is);
        run("renamed", "all", RUN_SUCCEEDED);
        if (!strstr(scene_json("Names", "a", row_key), cases[i].becomes))
            fail_msg("%s: %s", cases[i].is, scene_json("Names", "a", row_key));
    }
}

FIXTURE_TEST(a_version_may_be_beyond_32_bits)
{
    hosted_load(&h, "far: {kind: schema-upgrade, table: Names, version: "
                    "{property: V, absent: -5000000000}, versions: [{to: "
                    "-4000000000, steps: [remove: {property: A}]}]}\n");
    scene_put("Names", "a", "1", "\"A\":1");
    run("far", "all", RUN_SUCCEEDED);
    scene_check_is("Names", "a", "1",
        "{\"V@odata.type\":\"Edm.Int64\",\"V\":\"-4000000000\"}");
    hosted_load(&h, "far: {kind: schema-upgrade, table: Names, version: "
                    "{property: V, absent: 1}, versions: [{to: 4000000000, "
                    "steps: [remove: {property: A}]}]}\n");
    scene_put("Names", "a", "2", "\"A\":1");
    scene_remove("Names", "a", "1");
    run("far", "all", RUN_SUCCEEDED);
    scene_check_is("Names", "a", "2",
        "{\"V@odata.type\":\"Edm.Int64\",\"V\":\"4000000000\"}");
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
    scene_put("Names", "a", "1", "\"A\":1,\"B\":2,\"D\":4,\"V\":3");
    run("again", "all", RUN_SUCCEEDED);
    assert_string_equal(h.note, "");
    scene_put("Names", "a", "2", "\"A\":1,\"D\":\"4\",\"V\":3");
    run("again", "all", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "e.g. D (version 2) in 'a' / '2'"));
}

/* ---- an argument that makes no filter ---- */

FIXTURE_TEST(an_argument_that_makes_no_filter_fails_the_run)
{
    struct job_estimate estimate = {.table_count = 0};
    struct job_verification found = {.count = 0};
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
    scene_put("Posts", "a", "1", "\"N\":1,\"Legacy\":true");
    scene_put("Posts", "a", "2", "\"N\":2,\"Legacy\":true");
    run("some", "all", RUN_SUCCEEDED);
    scene_check_is("Posts", "a", "1", "{\"N\":1,\"V\":2}");
    scene_check_is("Posts", "a", "2", "{\"N\":2,\"Legacy\":true}");
}

/* ---- verification ---- */

static int64_t found(const struct job_verification *all, const char *what)
{
    for (size_t i = 0; i < all->count; i++)
        if (strstr(all->differences[i].what, what))
            return all->differences[i].count;
    fail_msg("no difference is named '%s'", what);
    return -1;
}

FIXTURE_TEST(verify_says_what_it_leaves_aside)
{
    struct job_verification all = {.count = 0};

    scene_put("Blogs", "a", "1", B "\"R\":\"many\"");
    scene_put("Blogs", "a", "2", B "\"V\":9");
    scene_put("Blogs", "a", "3", "\"T\":\"c\"");
    assert_ok(hosted_verify(&h, "u", "", &all));
    assert_int_equal(all.read, 2);
    assert_non_null(strstr(all.note, "1 left below the newest version because "
                                     "of on_error: skip; 1 at versions"));
    arena_done(&all.arena);
    scene_remove("Blogs", "a", "1");
    assert_ok(hosted_verify(&h, "u", "", &all));
    assert_non_null(strstr(all.note, "0 left below"));
    arena_done(&all.arena);
}

FIXTURE_TEST(verify_names_the_first_five_of_many)
{
    struct job_verification all = {.count = 0};

    for (int i = 0; i < 7; i++)
        scene_put("Blogs", "a", (char[]){(char)('1' + i), '\0'}, B "\"V\":3");
    assert_ok(hosted_verify(&h, "u", "", &all));
    assert_int_equal(found(&all, "below"), 7);
    for (size_t i = 0; i < all.count; i++)
        if (all.differences[i].count == 7)
            assert_string_equal(
                all.differences[i].first_keys[4], "Blogs 'a' / '5'");
    arena_done(&all.arena);
}

/* The entity is at the newest version, and a run cannot decide which of its two
 * values is kept. */
FIXTURE_TEST(verify_counts_what_a_run_would_name)
{
    struct job_verification all = {.count = 0};
    int64_t count = 0;

    scene_put("Names", "a", "1", "\"Text\":\"x\",\"Body\":\"y\",\"V\":2");
    assert_ok(hosted_verify(&h, "renamed", "", &all));
    assert_int_equal(found(&all, "below"), 0);
    for (size_t i = 0; i < all.count; i++)
        count += all.differences[i].count;
    assert_int_equal(count, 1);
    arena_done(&all.arena);
    run("renamed", "all", RUN_FAILED);
    assert_non_null(strstr(reports, "a/1: "));
}

FIXTURE_TEST(a_dry_run_shows_the_first_that_fail)
{
    struct job_estimate estimate = {.table_count = 0};

    for (int i = 0; i < 12; i++) {
        char row_key[8];

        snprintf(row_key, sizeof(row_key), "%02d", i);
        scene_put("Names", "a", row_key, "\"Text\":\"x\",\"Body\":\"y\"");
    }
    assert_ok(hosted_estimate(&h, "renamed", "", &estimate));
    assert_non_null(strstr(estimate.details, "'a' / '00'"));
    assert_null(strstr(estimate.details, "'a' / '11'"));
    assert_null(strstr(estimate.details, "\n\n\n"));
    arena_done(&estimate.arena);
}

/* ---- records and checkpoints ---- */

static void check_record(const char *text, bool wanted)
{
    struct entity entity = {.property_count = 0};
    struct record record;

    entity_init(&entity, &h.arena, slice_of("a"), slice_of("1"));
    entity_set_string(&entity, &h.arena, RECORD_PROPERTY, slice_of(text));
    if (record_read(&entity, &h.arena, &record) != wanted)
        fail_msg("%s", text);
}

FIXTURE_TEST(a_record_is_read_whole_or_not_at_all)
{
#define D "\"00000000000000000000000000000000\""
    static const char *const bad[] = {"", "[]", "7", "{}",
        "{\"version\":\"2\",\"pairs\":[]}", "{\"version\":2}",
        "{\"version\":2,\"in\":7,\"pairs\":[]}", "{\"version\":2,\"pairs\":{}}",
        "{\"version\":2,\"pairs\":[7]}",
        "{\"version\":2,\"pairs\":[[\"A\",\"B\"," D "]]}",
        "{\"version\":2,\"pairs\":[[1,\"B\"," D "," D "]]}",
        "{\"version\":2,\"pairs\":[[\"A\",2," D "," D "]]}",
        "{\"version\":2,\"pairs\":[[\"A\",\"B\",3," D "]]}",
        "{\"version\":2,\"pairs\":[[\"A\",\"B\"," D ",4]]}",
        "{\"version\":2,\"pairs\":[[\"A\",\"B\"," D ",\"x\"]]}"};
    struct buf text;

    check_record("{\"version\":2,\"pairs\":[]}", true);
    check_record("{\"version\":2,\"pairs\":[[\"A\",\"B\"," D "," D "]]}", true);
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        check_record(bad[i], false);
    buf_init(&text, 1024 * 1024);
    buf_add_text(&text, "{\"version\":2,\"pairs\":[");
    for (int i = 0; i <= UPGRADE_MAX_STEPS; i++)
        buf_add_format(
            &text, "%s[\"A%d\",\"B\"," D "," D "]", i > 0 ? "," : "", i);
    buf_add_text(&text, "]}");
    check_record(buf_text(&text), false);
    buf_done(&text);
}

/* The pairs of a record of another document belong to no step: none of them is
 * found, and a full record takes no more pairs. */
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
    record_put(&record, &step, NULL, NULL);
    assert_int_equal(record.count, 2);
    record_put(&record, &step, NULL, NULL);
    assert_int_equal(record.count, 2);
    assert_non_null(record_find(&record, &step));
}

FIXTURE_TEST(a_checkpoint_without_one_of_its_counts_is_a_new_run)
{
    struct upgrade_checkpoint at = {
        .rounds = {.number = 3, .under_way = true}, .selected = 4};
    char *text = upgrade_checkpoint_write(&at);

    upgrade_checkpoint_read(slice_of(text), &h.arena, &at);
    assert_int_equal(at.selected, 4);
    for (int way = 0; way < 3; way++) {
        static const char *const becomes[] = {
            "\"selectee\":4", "\"selected\":\"\"", "\"selected\":-4"};
        const char *is = strstr(text, "\"selected\":4");
        char *damaged;

        assert_non_null(is);
        damaged = mem_format("%.*s%s%s", (int)(is - text), text, becomes[way],
            is + strlen("\"selected\":4"));
        upgrade_checkpoint_read(slice_of(damaged), &h.arena, &at);
        assert_int_equal(at.selected, 0);
        assert_int_equal(at.rounds.number, 0);
        mem_free(damaged);
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
    assert_int_equal(hosted_attempt(&h, "renamed", ""), RUN_STOPPED);
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "renamed", ""), RUN_SUCCEEDED);
    assert_non_null(strstr(scene_json("Names", "a", "b02499"), "\"V\":2"));
    assert_non_null(strstr(scene_json("Names", "a", "b00000"), "\"V\":2"));
}
