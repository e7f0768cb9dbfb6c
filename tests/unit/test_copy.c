/* SPDX-License-Identifier: MIT */
/* The kind copy: at least one test for each of the rules C1 to C7
 * (jobs/GUIDE.md). */
#include <stdio.h>
#include <string.h>

#include "tests/support/scene.h"
#include "tests/support/test.h"

#define TO_SIZE                                                                \
    "  to: {table: BySize, partition_key: \"{Size}\", row_key: "               \
    "\"{RowKey}\"}\n"
#define SHOES_TO_SIZE "  from: {table: Shoes}\n" TO_SIZE
#define INDEX                                                                  \
    "  to: {table: Shoes, row_key: \"size:{Size}\", properties: [Size, "       \
    "Name]}\n"

static const char JOBS[] =
    "by-size:\n  kind: copy\n"
    "  from: {table: Shoes, filter: \"Hidden eq false\"}\n" TO_SIZE
    "all-by-size:\n  kind: copy\n" SHOES_TO_SIZE
    "skips:\n  kind: copy\n  on_conflict: skip\n" SHOES_TO_SIZE
    "adopts:\n  kind: copy\n  on_conflict: replace\n" SHOES_TO_SIZE
    "index:\n  kind: copy\n  from: {table: Shoes}\n" INDEX
    "index-adopts:\n  kind: copy\n  on_conflict: replace\n"
    "  from: {table: Shoes, row_key_below: \"t\"}\n" INDEX
    "two:\n  kind: copy\n  from: {table: Shoes}\n"
    "  to:\n"
    "    - {table: BySize, partition_key: \"{Size}\", row_key: \"{RowKey}\"}\n"
    "    - {table: BySize, partition_key: \"{Other}\", row_key: \"{RowKey}\"}\n"
    "follows:\n  kind: copy\n  follow: true\n" SHOES_TO_SIZE;

/* ---- what the application does ---- */

static const char *shoe_of(int size)
{
    static char properties[128];

    snprintf(properties, sizeof(properties),
        "\"Size\":%d,\"Name\":\"n%d\",\"Hidden\":false", size, size);
    return properties;
}

static void shoe(const char *row_key, int size)
{
    scene_put("Shoes", "p", row_key, shoe_of(size));
}

static int set_up(void **state)
{
    scene_begin(JOBS, "Shoes");
    return 0;
}

static int set_up_shoe(void **state)
{
    (void)set_up(state);
    shoe("a", 1);
    return 0;
}

/* The reason why a source is not copied if a foreign entity has the keys that
 * its copy would have. */
#define FOREIGN                                                                \
    "the keys of its copy are taken by an entity that is no copy of this job"

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)
/* A test that begins with one source, shoe a of size 1. */
#define SHOE_TEST(name) TEST_IN(name, set_up_shoe, scene_end)

static const char *number(unsigned i)
{
    static char key[16];

    snprintf(key, sizeof(key), "k%05u", i);
    return key;
}

static void many_shoes(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        shoe(number(i), (int)(i % 5));
}

static void remove_shoes(unsigned from, unsigned below)
{
    for (unsigned i = from; i < below; i++)
        scene_remove("Shoes", "p", number(i));
}

static void change(const char *row_key, int size)
{
    scene_replace("Shoes", "p", row_key, shoe_of(size));
}

/* ---- runs ---- */

static void succeeds(const char *job)
{
    scene_new_run();
    scene_run(job, "", RUN_SUCCEEDED);
}

/* Makes a run that must succeed; fails unless the table then has these keys. */
static void leaves(const char *job, const char *table, const char *keys)
{
    succeeds(job);
    scene_check_keys(table, keys);
}

static void fails(const char *job, const char *part)
{
    scene_new_run();
    scene_run(job, "", RUN_FAILED);
    if (!strstr(h.err.text, part) && !strstr(reports, part))
        fail_msg("\"%s\" is not in: %s; %s", part, h.err.text, reports);
}

static void check_written(int64_t written, int64_t deleted)
{
    assert_int_equal(h.written, written);
    assert_int_equal(h.deleted, deleted);
}

/* ---- entities that a run copies ---- */

SHOE_TEST(a_later_run_does_what_is_left)
{
    shoe("b", 2);
    shoe("c", 3);
    shoe("d", 4);
    succeeds("by-size");
    change("a", 7);
    scene_remove("Shoes", "p", "b");
    scene_replace("Shoes", "p", "c", "\"Size\":3,\"Hidden\":true");
    shoe("e", 5);
    scene_remove("BySize", "4", "d");
    leaves("by-size", "BySize", "4/d 5/e 7/a ");
    check_written(3, 3);
}

SHOE_TEST(another_shape_rewrites_the_copies)
{
    succeeds("by-size");
    hosted_load(&h,
        "by-size:\n  kind: copy\n"
        "  from: {table: Shoes}\n" TO_SIZE "  properties: [Size]\n");
    succeeds("by-size");
    check_written(1, 0);
    scene_check_has("BySize", "1", "a", "{\"Size\":1,\"Tableward");
    assert_null(strstr(scene_json("BySize", "1", "a"), "Name"));
}

/* The copy that was made before stays, because it is unknown what it should be
 * now. */
SHOE_TEST(a_source_that_can_no_longer_be_copied_keeps_its_copy)
{
    succeeds("all-by-size");
    scene_replace("Shoes", "p", "a", "\"Name\":\"x\"");
    shoe("b", 2);
    fails("all-by-size", "property Size is missing");
    assert_int_equal(h.failed, 1);
    scene_check_keys("BySize", "1/a 2/b ");
}

FIXTURE_TEST(copies_of_one_source_can_swap_their_keys)
{
    scene_put("Shoes", "p", "a", "\"Size\":1,\"Other\":8");
    leaves("two", "BySize", "1/a 8/a ");
    scene_replace("Shoes", "p", "a", "\"Size\":8,\"Other\":1");
    leaves("two", "BySize", "1/a 8/a ");
    scene_check_has("BySize", "8", "a", "\\\"to\\\":0");
    scene_check_has("BySize", "1", "a", "\\\"to\\\":1");
}

/* ---- C1: own copies ---- */

/* The application copied an index row with all its properties, including
 * TablewardSource. */
SHOE_TEST(an_entity_with_a_copied_source_is_not_the_jobs)
{
    leaves("index", "Shoes", "p/a p/size:1 ");
    scene_put("Shoes", "q", "mine",
        scene_edited("Shoes", "p", "size:1", "n1", "mine"));
    succeeds("index");
    scene_check_has("Shoes", "q", "mine", "\"Name\":\"mine\"");
    scene_check_keys("Shoes", "p/a p/size:1 q/mine q/size:1 ");
    scene_remove("Shoes", "p", "a");
    leaves("index", "Shoes", "q/mine q/size:1 ");
}

SHOE_TEST(copies_of_another_job_are_foreign)
{
    succeeds("all-by-size");
    fails("by-size", FOREIGN);
    scene_remove("Shoes", "p", "a");
    leaves("by-size", "BySize", "1/a ");
    check_written(0, 0);
}

/* Two deployments have a job of the same name, with the same destination. */
SHOE_TEST(copies_of_another_source_table_are_foreign)
{
    succeeds("all-by-size");
    hosted_load(
        &h, "all-by-size:\n  kind: copy\n  from: {table: Others}\n" TO_SIZE);
    hosted_table(&h, "Others");
    leaves("all-by-size", "BySize", "1/a ");
    scene_put("Others", "p", "a", "\"Size\":1,\"Name\":\"other\"");
    fails("all-by-size", FOREIGN);
    scene_check_has("BySize", "1", "a", "n1");
}

/* The sources of this index are copies that another job made. */
SHOE_TEST(an_index_of_copied_entities_is_built)
{
    succeeds("all-by-size");
    hosted_load(&h, "names:\n  kind: copy\n"
                    "  from: {table: BySize}\n"
                    "  to: {table: BySize, row_key: \"name:{Name}\"}\n");
    leaves("names", "BySize", "1/a 1/name:n1 ");
    succeeds("names");
    check_written(0, 0);
}

/* ---- C2: two copies with one key ---- */

FIXTURE_TEST(of_two_sources_with_one_key_the_second_is_named)
{
    scene_put("Shoes", "p", "a", "\"Size\":1,\"Name\":\"first\"");
    succeeds("index");
    scene_put("Shoes", "p", "b", "\"Size\":1,\"Name\":\"second\"");
    for (int i = 0; i < 2; i++) {
        fails("index", "the copy of 'p' / 'a' have the same keys");
        assert_int_equal(h.failed, 1);
        scene_check_has("Shoes", "p", "size:1", "first");
    }
    scene_remove("Shoes", "p", "a");
    succeeds("index");
    scene_check_has("Shoes", "p", "size:1", "second");
}

FIXTURE_TEST(two_copies_of_one_source_collide_too)
{
    scene_put("Shoes", "p", "a", "\"Size\":1,\"Other\":1");
    fails("two", "have the same keys: each copy needs different keys");
    assert_int_equal(h.failed, 1);
    scene_check_keys("BySize", "1/a ");
}

/* ---- C3: edited copies ---- */

SHOE_TEST(an_edited_copy_stays_and_is_counted)
{
    shoe("b", 2);
    succeeds("all-by-size");
    scene_edit("BySize", "1", "a", "n1", "edited");
    succeeds("all-by-size");
    assert_int_equal(h.skipped, 1);
    check_written(0, 0);
    assert_non_null(strstr(h.note, "1 edited copy is unchanged"));
    assert_non_null(strstr(h.note, "BySize '1' / 'a'"));
    scene_replace("Shoes", "p", "a", "\"Size\":1,\"Name\":\"newer\"");
    succeeds("all-by-size");
    scene_check_has("BySize", "1", "a", "edited");
    scene_remove("Shoes", "p", "a");
    succeeds("all-by-size");
    assert_int_equal(h.skipped, 1);
    scene_check_has("BySize", "1", "a", "edited");
}

SHOE_TEST(replace_restores_an_edited_copy_while_its_source_has_this_key)
{
    struct job_estimate estimate = {.table_count = 0};

    succeeds("adopts");
    scene_edit("BySize", "1", "a", "n1", "edited");
    assert_ok(hosted_estimate(&h, "adopts", "", &estimate));
    assert_int_equal(estimate.tables[1].batches, 1);
    arena_done(&estimate.arena);
    succeeds("adopts");
    scene_check_has("BySize", "1", "a", "n1");
    scene_edit("BySize", "1", "a", "n1", "edited");
    change("a", 2);
    succeeds("adopts");
    assert_int_equal(h.skipped, 1);
    scene_check_has("BySize", "1", "a", "edited");
    scene_check_has("BySize", "2", "a", "n2");
}

SHOE_TEST(an_edited_copy_is_not_overwritten_by_another_sources)
{
    hosted_load(&h, "by-name:\n  kind: copy\n  from: {table: Shoes}\n"
                    "  to: {table: ByName, row_key: \"{Name}\"}\n"
                    "  on_conflict: replace\n");
    succeeds("by-name");
    scene_edit("ByName", "p", "n1", "\"Hidden\":false", "\"Hidden\":true");
    scene_remove("Shoes", "p", "a");
    scene_put("Shoes", "p", "b", "\"Name\":\"n1\"");
    fails("by-name", "an edited copy of another source");
    scene_check_has("ByName", "p", "n1", "\"Hidden\":true");
}

SHOE_TEST(an_edited_index_row_is_restored_and_deleted)
{
    shoe("b", 2);
    succeeds("index");
    scene_edit("Shoes", "p", "size:1", "n1", "edited");
    scene_edit("Shoes", "p", "size:2", "n2", "edited");
    scene_remove("Shoes", "p", "b");
    leaves("index", "Shoes", "p/a p/size:1 ");
    scene_check_has("Shoes", "p", "size:1", "n1");
    assert_int_equal(h.skipped, 0);
}

/* ---- foreign entities, C4 ---- */

SHOE_TEST(a_foreign_entity_is_decided_by_on_conflict)
{
    hosted_table(&h, "BySize");
    /* An entity without TablewardSource is foreign, even if it equals the
     * copy. */
    scene_put("BySize", "1", "a", shoe_of(1));
    fails("all-by-size", FOREIGN);
    scene_check_is(
        "BySize", "1", "a", "{\"Size\":1,\"Name\":\"n1\",\"Hidden\":false}");
    scene_replace("BySize", "1", "a", "\"Name\":\"foreign\"");
    fails("all-by-size", FOREIGN);
    succeeds("skips");
    assert_int_equal(h.skipped, 1);
    scene_check_has("BySize", "1", "a", "foreign");
    succeeds("adopts");
    scene_check_has("BySize", "1", "a", "n1");
}

SHOE_TEST(replace_never_adopts_a_source_of_the_job)
{
    scene_put("Shoes", "p", "size:1", "\"Size\":9,\"Name\":\"source\"");
    fails("index-adopts",
        "the keys of its copy are taken by another source of this job");
    scene_check_has("Shoes", "p", "size:1", "\"Name\":\"source\"");
    assert_null(strstr(scene_json("Shoes", "p", "size:1"), "Tableward"));
}

FIXTURE_TEST(replace_adopts_what_the_job_does_not_select)
{
    hosted_load(&h, "index-adopts:\n  kind: copy\n"
                    "  from: {table: Shoes, row_key_below: \"b\"}\n" INDEX
                    "  on_conflict: replace\n");
    shoe("a", 1);
    scene_put("Shoes", "p", "size:1", "\"Name\":\"foreign\"");
    succeeds("index-adopts");
    scene_check_has("Shoes", "p", "size:1", "n1");
}

FIXTURE_TEST(a_copy_with_the_keys_of_its_source_is_refused)
{
    scene_put("Shoes", "p", "size:1", "\"Size\":1");
    fails("index", "the keys and the table of the source");
    scene_check_is("Shoes", "p", "size:1", "{\"Size\":1}");
}

/* ---- C6: too many deletes ---- */

/* Puts `count` sources and copies them; then deletes the sources from number
 * `from` to `below` - 1. */
static void copy_and_remove(unsigned count, unsigned from, unsigned below)
{
    many_shoes(count);
    succeeds("all-by-size");
    remove_shoes(from, below);
}

/* Fails unless a dry run says that the run would be refused with this text;
 * NULL: that it would not be refused. */
static void estimate_says(const char *job, const char *refused)
{
    struct job_estimate estimate;

    assert_ok(hosted_estimate(&h, job, "", &estimate));
    if (refused)
        assert_non_null(
            strstr(estimate.refused ? estimate.refused : "", refused));
    else
        assert_null(estimate.refused);
    arena_done(&estimate.arena);
}

FIXTURE_TEST(a_tenth_of_the_copies_is_not_deleted_without_consent)
{
    many_shoes(300);
    estimate_says("all-by-size", NULL);
    succeeds("all-by-size");
    estimate_says("all-by-size", NULL);
    remove_shoes(0, 100);
    estimate_says("all-by-size", NULL);
    remove_shoes(100, 101);
    estimate_says("all-by-size", "101 of 300 copies have no source and");
    fails("all-by-size", "101 of 300 copies have no source and");
    check_written(0, 0);
    h.accept_deletes = true;
    estimate_says("all-by-size", NULL);
    assert_int_equal(hosted_count(&h, "BySize"), 300);
    succeeds("all-by-size");
    check_written(0, 101);
    assert_int_equal(hosted_count(&h, "BySize"), 199);
}

/* One of the destinations does not exist yet, and a dry run does not create
 * it. */
FIXTURE_TEST(a_dry_run_with_a_new_destination_says_what_needs_consent)
{
    many_shoes(200);
    hosted_load(&h, "two: {kind: copy, from: {table: Shoes}, to: [{table: "
                    "BySize, partition_key: a}]}\n");
    succeeds("two");
    remove_shoes(0, 150);
    hosted_load(&h, "two: {kind: copy, from: {table: Shoes}, to: [{table: "
                    "BySize, partition_key: a}, {table: Other, partition_key: "
                    "b}]}\n");
    estimate_says("two", "150 of 200 copies have no source and");
}

/* The acceptance used to last for ever: months later a following run deleted
 * every copy, because all sources had disappeared. */
FIXTURE_TEST(deletes_are_accepted_for_one_round)
{
    copy_and_remove(300, 0, 110);
    scene_new_run();
    h.accept_deletes = true;
    scene_attempt("all-by-size", "", RUN_SUCCEEDED);
    check_written(0, 110);
    assert_false(h.accept_deletes);
    remove_shoes(110, 211);
    fails("all-by-size", "101 of 190 copies have no source and");
    check_written(0, 0);
}

FIXTURE_TEST(a_following_run_accepts_deletes_for_one_round)
{
    many_shoes(300);
    scene_new_run();
    h.accept_deletes = true;
    scene_attempt("follows", "", RUN_WAITING);
    assert_false(h.accept_deletes);
    remove_shoes(0, 101);
    h.finish = RUN_FINISHING_NOW;
    scene_attempt("follows", "", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "101 of 300 copies have no source"));
    assert_int_equal(hosted_count(&h, "BySize"), 300);
}

FIXTURE_TEST(a_tenth_needs_no_consent)
{
    copy_and_remove(1010, 500, 601);
    succeeds("all-by-size");
    check_written(0, 101);
    assert_int_equal(hosted_count(&h, "BySize"), 909);
}

SHOE_TEST(other_key_templates_need_consent)
{
    succeeds("by-size");
    hosted_load(&h, "by-size:\n  kind: copy\n  from: {table: Shoes}\n"
                    "  to: {table: BySize, partition_key: \"s{Size}\", "
                    "row_key: \"{RowKey}\"}\n");
    estimate_says("by-size", "earlier key templates");
    fails("by-size", "--accept-deletes");
    scene_check_keys("BySize", "1/a ");
    h.accept_deletes = true;
    leaves("by-size", "BySize", "s1/a ");
}

/* The run reads the first copies of the table before the first round. Here
 * these copies belong to the entry whose key templates have not changed. */
FIXTURE_TEST(other_key_templates_of_one_entry_need_consent)
{
    many_shoes(120);
    hosted_load(&h, "two: {kind: copy, from: {table: Shoes}, to: [{table: "
                    "BySize, partition_key: a}, {table: BySize, partition_key: "
                    "y}]}\n");
    succeeds("two");
    hosted_load(&h, "two: {kind: copy, from: {table: Shoes}, to: [{table: "
                    "BySize, partition_key: a}, {table: BySize, partition_key: "
                    "z}]}\n");
    fails("two", "earlier key templates");
    assert_true(hosted_has(&h, "BySize", "y", "k00000"));
    assert_int_equal(h.deleted, 0);
    h.accept_deletes = true;
    succeeds("two");
    assert_false(hosted_has(&h, "BySize", "y", "k00000"));
    assert_int_equal(hosted_count(&h, "BySize"), 240);
}

/* ---- C7: tables ---- */

FIXTURE_TEST(a_missing_table_of_sources_fails_the_run)
{
    hosted_load(&h, "gone:\n  kind: copy\n  from: {table: Gone}\n" TO_SIZE);
    fails("gone", "Gone");
    assert_false(h.written > 0 || h.deleted > 0);
}

/* ---- A5: runs that follow ---- */

/* Begins a following run, which copies shoe a. */
static void follow(void)
{
    scene_new_run();
    scene_attempt("follows", "", RUN_WAITING);
}

static void load_without_follow(void)
{
    hosted_load(&h, "follows:\n  kind: copy\n" SHOES_TO_SIZE);
}

TEST(a_following_run_copies_what_changes_and_ends_by_finish)
{
    static const enum run_finish finishes[] = {
        RUN_FINISHING, RUN_FINISHING_NOW};

    for (size_t i = 0; TEST_EACH(i, finishes); i++) {
        (void)set_up_shoe(NULL);
        follow();
        assert_int_equal(h.waits_for, RUN_WAITS_FOR_ROUND);
        scene_check_keys("BySize", "1/a ");
        shoe("b", 2);
        change("a", 3);
        scene_attempt("follows", "", RUN_WAITING);
        scene_check_has("BySize", "2", "b", "n2");
        scene_check_has("BySize", "3", "a", "n3");
        scene_remove("Shoes", "p", "a");
        h.finish = finishes[i];
        scene_attempt("follows", "", RUN_SUCCEEDED);
        scene_check_keys("BySize", "2/b ");
        assert_true(h.closes_job);
        assert_int_equal(h.behind, 0);
        (void)scene_end(NULL);
    }
}

/* The last round compares all entities. */
SHOE_TEST(a_run_ends_by_itself_if_its_job_does_not_follow_any_more)
{
    follow();
    scene_remove("BySize", "1", "a");
    shoe("b", 2);
    load_without_follow();
    scene_attempt("follows", "", RUN_SUCCEEDED);
    scene_check_keys("BySize", "1/a 2/b ");
    assert_false(h.closes_job);
}

/* `follow` was removed between `finish` and the last rounds. */
SHOE_TEST(finish_closes_a_job_that_does_not_follow_any_more)
{
    follow();
    load_without_follow();
    shoe("b", 2);
    h.finish = RUN_FINISHING;
    scene_attempt("follows", "", RUN_SUCCEEDED);
    scene_check_keys("BySize", "1/a 2/b ");
    assert_true(h.closes_job);
}
