/* SPDX-License-Identifier: MIT */
/* The kind copy: at least one test for each of the rules C1 to C7
 * (jobs/GUIDE.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

#define TO_SIZE                                                                \
    "  to: {table: BySize, partition_key: \"{Size}\", row_key: "               \
    "\"{RowKey}\"}\n"
#define INDEX                                                                  \
    "  to: {table: Shoes, row_key: \"size:{Size}\", properties: [Size, "       \
    "Name]}\n"

static const char JOBS[] =
    "by-size:\n"
    "  kind: copy\n"
    "  from: {table: Shoes, filter: \"Hidden eq false\"}\n" TO_SIZE
    "all-by-size:\n"
    "  kind: copy\n"
    "  from: {table: Shoes}\n" TO_SIZE "skips:\n"
    "  kind: copy\n"
    "  from: {table: Shoes}\n" TO_SIZE "  on_conflict: skip\n"
    "adopts:\n"
    "  kind: copy\n"
    "  from: {table: Shoes}\n" TO_SIZE "  on_conflict: replace\n"
    "index:\n"
    "  kind: copy\n"
    "  from: {table: Shoes}\n" INDEX "index-adopts:\n"
    "  kind: copy\n"
    "  from: {table: Shoes, row_key_below: \"t\"}\n" INDEX
    "  on_conflict: replace\n"
    "two:\n"
    "  kind: copy\n"
    "  from: {table: Shoes}\n"
    "  to:\n"
    "    - {table: BySize, partition_key: \"{Size}\", row_key: \"{RowKey}\"}\n"
    "    - {table: BySize, partition_key: \"{Other}\", row_key: \"{RowKey}\"}\n"
    "follows:\n"
    "  kind: copy\n"
    "  from: {table: Shoes}\n" TO_SIZE "  follow: true\n";

HOSTED_FIXTURE(JOBS, "Shoes")

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

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
    hosted_put(&h, "Shoes", "p", row_key, shoe_of(size));
}

static void change(const char *row_key, int size)
{
    hosted_replace(&h, "Shoes", "p", row_key, shoe_of(size));
}

/* The properties of an entity, with the text `from` replaced by `to`. */
static const char *edited(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to)
{
    const char *json = hosted_json(&h, table, partition_key, row_key);
    struct buf text;
    const char *at, *copy;

    assert_non_null(json);
    at = strstr(json, from);
    assert_non_null(at);
    buf_init(&text, 1 << 20);
    buf_add_slice(&text, (struct slice){json + 1, (size_t)(at - json - 1)});
    buf_add_text(&text, to);
    at += strlen(from);
    buf_add_slice(&text, (struct slice){at, strlen(at) - 1});
    copy = arena_copy(&h.arena, buf_slice(&text)).at;
    buf_done(&text);
    return copy;
}

/* An application reads an entity and writes it back with another Name. */
static void edit(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to)
{
    hosted_replace(&h, table, partition_key, row_key,
        edited(table, partition_key, row_key, from, to));
}

static void check_has(const char *table, const char *partition_key,
    const char *row_key, const char *part)
{
    const char *json = hosted_json(&h, table, partition_key, row_key);

    if (!json)
        fail_msg("no %s %s/%s: %s", table, partition_key, row_key,
            hosted_dump(&h, table));
    else if (!strstr(json, part))
        fail_msg("%s is not in %s", part, json);
}

static void check_table(const char *table, const char *dump)
{
    assert_string_equal(hosted_dump(&h, table), dump);
}

/* ---- runs ---- */

static void new_run(void)
{
    static char ids[64][8];
    static unsigned count;
    char *id = ids[count++ % 64];

    snprintf(id, 8, "r%u", count);
    hosted_forget(&h, id);
    h.written = h.deleted = 0;
}

static void run_ends(const char *job, enum run_end end)
{
    new_run();
    if (hosted_run(&h, job, "") != end)
        fail_msg(
            "%s ended %d: %s (%s)", job, (int)h.end, h.err.text, h.failed_why);
}

static void succeeds(const char *job)
{
    run_ends(job, RUN_SUCCEEDED);
}

static void fails(const char *job, const char *part)
{
    run_ends(job, RUN_FAILED);
    if (!strstr(h.err.text, part) && !strstr(h.failed_why, part))
        fail_msg("\"%s\" is not in: %s; %s", part, h.err.text, h.failed_why);
}

static void check_written(int64_t written, int64_t deleted)
{
    assert_int_equal(h.written, written);
    assert_int_equal(h.deleted, deleted);
}

/* ---- what a run does ---- */

FIXTURE_TEST(each_source_gets_its_copy)
{
    shoe("a", 1);
    shoe("b", 2);
    hosted_put(&h, "Shoes", "p", "c", "\"Size\":3,\"Hidden\":true");
    succeeds("by-size");
    check_table("BySize", "1/a 2/b ");
    check_has("BySize", "1", "a", "\"Name\":\"n1\"");
    check_has("BySize", "1", "a", "\\\"job\\\":\\\"by-size\\\",\\\"to\\\":0");
    check_written(2, 0);
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.skipped, 0);
    assert_int_equal(h.behind, 0);
    assert_false(h.closes_job);
}

FIXTURE_TEST(a_second_run_writes_nothing)
{
    hosted_fill(&h, "Shoes", "p", 0);
    for (int i = 0; i < 50; i++) {
        char key[8];

        snprintf(key, sizeof(key), "k%02d", i);
        shoe(key, i % 7);
    }
    succeeds("all-by-size");
    check_written(50, 0);
    succeeds("all-by-size");
    check_written(0, 0);
}

FIXTURE_TEST(a_later_run_does_what_is_left)
{
    shoe("a", 1);
    shoe("b", 2);
    shoe("c", 3);
    shoe("d", 4);
    succeeds("by-size");
    change("a", 7);
    hosted_remove(&h, "Shoes", "p", "b");
    hosted_replace(&h, "Shoes", "p", "c", "\"Size\":3,\"Hidden\":true");
    shoe("e", 5);
    hosted_remove(&h, "BySize", "4", "d");
    succeeds("by-size");
    check_table("BySize", "4/d 5/e 7/a ");
    check_written(3, 3);
}

FIXTURE_TEST(another_shape_rewrites_the_copies)
{
    struct jobs before;

    shoe("a", 1);
    succeeds("by-size");
    before = h.jobs;
    hosted_load(&h,
        "by-size:\n  kind: copy\n"
        "  from: {table: Shoes}\n" TO_SIZE "  properties: [Size]\n");
    succeeds("by-size");
    check_written(1, 0);
    assert_null(strstr(hosted_json(&h, "BySize", "1", "a"), "Name"));
    h.jobs = before;
}

FIXTURE_TEST(a_source_that_cannot_be_copied_is_named_and_the_rest_is_copied)
{
    shoe("a", 1);
    hosted_put(&h, "Shoes", "p", "b", "\"Name\":\"x\"");
    fails("all-by-size", "property Size is missing");
    assert_int_equal(h.failed, 1);
    check_table("BySize", "1/a ");
}

/* The former copy stays, because it is unknown what the copy should be. */
FIXTURE_TEST(a_source_that_can_no_longer_be_copied_keeps_its_copy)
{
    shoe("a", 1);
    succeeds("all-by-size");
    hosted_replace(&h, "Shoes", "p", "a", "\"Name\":\"x\"");
    fails("all-by-size", "property Size is missing");
    check_table("BySize", "1/a ");
}

FIXTURE_TEST(copies_of_one_source_can_swap_their_keys)
{
    hosted_put(&h, "Shoes", "p", "a", "\"Size\":1,\"Other\":8");
    succeeds("two");
    check_table("BySize", "1/a 8/a ");
    hosted_replace(&h, "Shoes", "p", "a", "\"Size\":8,\"Other\":1");
    succeeds("two");
    check_table("BySize", "1/a 8/a ");
    check_has("BySize", "8", "a", "\\\"to\\\":0");
    check_has("BySize", "1", "a", "\\\"to\\\":1");
}

/* ---- C1: own copies ---- */

/* The application copied an index row with all its properties, so with
 * TablewardSource. */
FIXTURE_TEST(an_entity_with_a_copied_source_is_not_the_jobs)
{
    shoe("a", 1);
    succeeds("index");
    check_table("Shoes", "p/a p/size:1 ");
    hosted_put(
        &h, "Shoes", "q", "mine", edited("Shoes", "p", "size:1", "n1", "mine"));
    succeeds("index");
    check_has("Shoes", "q", "mine", "\"Name\":\"mine\"");
    check_table("Shoes", "p/a p/size:1 q/mine q/size:1 ");
    hosted_remove(&h, "Shoes", "p", "a");
    succeeds("index");
    check_table("Shoes", "q/mine q/size:1 ");
}

/* The copy of a copy has no source: if it counted as the job's own, it would be
 * deleted. */
FIXTURE_TEST(a_copy_that_was_copied_on_is_not_the_jobs)
{
    shoe("a", 1);
    succeeds("all-by-size");
    hosted_put(
        &h, "BySize", "1", "mine", edited("BySize", "1", "a", "n1", "mine"));
    hosted_remove(&h, "Shoes", "p", "a");
    succeeds("all-by-size");
    check_table("BySize", "1/mine ");
}

FIXTURE_TEST(copies_of_another_job_are_foreign)
{
    shoe("a", 1);
    succeeds("all-by-size");
    fails("by-size", "an entity that is no copy of this job has the keys");
    hosted_remove(&h, "Shoes", "p", "a");
    succeeds("by-size");
    check_table("BySize", "1/a ");
    check_written(0, 0);
}

/* Two deployments have a job of the same name, with the same destination. */
FIXTURE_TEST(copies_of_another_source_table_are_foreign)
{
    shoe("a", 1);
    succeeds("all-by-size");
    hosted_load(
        &h, "all-by-size:\n  kind: copy\n  from: {table: Others}\n" TO_SIZE);
    hosted_table(&h, "Others");
    succeeds("all-by-size");
    check_table("BySize", "1/a ");
    hosted_put(&h, "Others", "p", "a", "\"Size\":1,\"Name\":\"other\"");
    fails("all-by-size", "an entity that is no copy of this job has the keys");
    check_has("BySize", "1", "a", "n1");
}

FIXTURE_TEST(copies_in_another_table_are_sources_for_another_job)
{
    shoe("a", 1);
    succeeds("all-by-size");
    hosted_load(&h, "second:\n  kind: copy\n"
                    "  from: {table: BySize}\n"
                    "  to: {table: Third}\n");
    succeeds("second");
    check_has("Third", "1", "a", "\\\"job\\\":\\\"second\\\"");
}

/* The sources of this index are copies that another job made. */
FIXTURE_TEST(an_index_of_copied_entities_is_built)
{
    shoe("a", 1);
    succeeds("all-by-size");
    hosted_load(&h, "names:\n  kind: copy\n"
                    "  from: {table: BySize}\n"
                    "  to: {table: BySize, row_key: \"name:{Name}\"}\n");
    succeeds("names");
    check_table("BySize", "1/a 1/name:n1 ");
    succeeds("names");
    check_written(0, 0);
}

FIXTURE_TEST(index_rows_are_never_sources)
{
    shoe("a", 1);
    succeeds("index");
    hosted_load(&h, "away:\n  kind: copy\n"
                    "  from: {table: Shoes}\n"
                    "  to: {table: Third}\n");
    succeeds("away");
    check_table("Third", "p/a ");
}

/* ---- C2: two copies with one key ---- */

FIXTURE_TEST(of_two_sources_with_one_key_the_second_is_named)
{
    hosted_put(&h, "Shoes", "p", "a", "\"Size\":1,\"Name\":\"first\"");
    succeeds("index");
    hosted_put(&h, "Shoes", "p", "b", "\"Size\":1,\"Name\":\"second\"");
    for (int i = 0; i < 2; i++) {
        fails("index", "the copy of 'p' / 'a' have the same keys");
        assert_int_equal(h.failed, 1);
        check_has("Shoes", "p", "size:1", "first");
    }
    hosted_remove(&h, "Shoes", "p", "a");
    succeeds("index");
    check_has("Shoes", "p", "size:1", "second");
}

FIXTURE_TEST(sources_that_swap_their_keys_keep_both_copies)
{
    shoe("a", 1);
    shoe("b", 2);
    succeeds("index");
    hosted_replace(&h, "Shoes", "p", "a", "\"Size\":2,\"Name\":\"a\"");
    hosted_replace(&h, "Shoes", "p", "b", "\"Size\":1,\"Name\":\"b\"");
    succeeds("index");
    check_table("Shoes", "p/a p/b p/size:1 p/size:2 ");
    check_has("Shoes", "p", "size:2", "\"Name\":\"a\"");
    check_has("Shoes", "p", "size:1", "\"Name\":\"b\"");
    check_written(2, 0);
}

FIXTURE_TEST(two_copies_of_one_source_collide_too)
{
    hosted_put(&h, "Shoes", "p", "a", "\"Size\":1,\"Other\":1");
    fails("two", "have the same keys: each copy needs different keys");
    assert_int_equal(h.failed, 1);
    check_table("BySize", "1/a ");
}

/* ---- C3: edited copies ---- */

FIXTURE_TEST(an_edited_copy_stays_and_is_counted)
{
    shoe("a", 1);
    shoe("b", 2);
    succeeds("all-by-size");
    edit("BySize", "1", "a", "n1", "edited");
    succeeds("all-by-size");
    assert_int_equal(h.skipped, 1);
    check_written(0, 0);
    assert_non_null(strstr(h.note, "1 edited copy is unchanged"));
    assert_non_null(strstr(h.note, "BySize '1' / 'a'"));
    hosted_replace(&h, "Shoes", "p", "a", "\"Size\":1,\"Name\":\"newer\"");
    succeeds("all-by-size");
    check_has("BySize", "1", "a", "edited");
    hosted_remove(&h, "Shoes", "p", "a");
    succeeds("all-by-size");
    assert_int_equal(h.skipped, 1);
    check_has("BySize", "1", "a", "edited");
}

FIXTURE_TEST(replace_restores_an_edited_copy_while_its_source_has_this_key)
{
    shoe("a", 1);
    succeeds("adopts");
    edit("BySize", "1", "a", "n1", "edited");
    succeeds("adopts");
    check_has("BySize", "1", "a", "n1");
    edit("BySize", "1", "a", "n1", "edited");
    change("a", 2);
    succeeds("adopts");
    assert_int_equal(h.skipped, 1);
    check_has("BySize", "1", "a", "edited");
    check_has("BySize", "2", "a", "n2");
}

FIXTURE_TEST(an_edited_copy_is_not_overwritten_by_another_sources)
{
    shoe("a", 1);
    hosted_load(&h, "by-name:\n  kind: copy\n  from: {table: Shoes}\n"
                    "  to: {table: ByName, row_key: \"{Name}\"}\n"
                    "  on_conflict: replace\n");
    succeeds("by-name");
    edit("ByName", "p", "n1", "\"Hidden\":false", "\"Hidden\":true");
    hosted_remove(&h, "Shoes", "p", "a");
    hosted_put(&h, "Shoes", "p", "b", "\"Name\":\"n1\"");
    fails("by-name", "an edited copy of another source");
    check_has("ByName", "p", "n1", "\"Hidden\":true");
}

FIXTURE_TEST(an_edited_index_row_is_restored_and_deleted)
{
    shoe("a", 1);
    shoe("b", 2);
    succeeds("index");
    edit("Shoes", "p", "size:1", "n1", "edited");
    edit("Shoes", "p", "size:2", "n2", "edited");
    hosted_remove(&h, "Shoes", "p", "b");
    succeeds("index");
    check_table("Shoes", "p/a p/size:1 ");
    check_has("Shoes", "p", "size:1", "n1");
    assert_int_equal(h.skipped, 0);
}

/* ---- foreign entities, C4 ---- */

FIXTURE_TEST(a_foreign_entity_is_decided_by_on_conflict)
{
    shoe("a", 1);
    hosted_table(&h, "BySize");
    hosted_put(&h, "BySize", "1", "a", "\"Name\":\"foreign\"");
    fails("all-by-size", "an entity that is no copy of this job has the keys");
    succeeds("skips");
    assert_int_equal(h.skipped, 1);
    check_has("BySize", "1", "a", "foreign");
    succeeds("adopts");
    check_has("BySize", "1", "a", "n1");
}

/* An entity without TablewardSource is foreign, even if it equals the copy. */
FIXTURE_TEST(an_equal_foreign_entity_is_foreign)
{
    shoe("a", 1);
    hosted_table(&h, "BySize");
    hosted_put(&h, "BySize", "1", "a", shoe_of(1));
    fails("all-by-size", "an entity that is no copy of this job has the keys");
    assert_null(strstr(hosted_json(&h, "BySize", "1", "a"), "Tableward"));
}

FIXTURE_TEST(replace_never_adopts_a_source_of_the_job)
{
    shoe("a", 1);
    hosted_put(&h, "Shoes", "p", "size:1", "\"Size\":9,\"Name\":\"source\"");
    fails("index-adopts", "another source of this job has the keys");
    check_has("Shoes", "p", "size:1", "\"Name\":\"source\"");
    assert_null(strstr(hosted_json(&h, "Shoes", "p", "size:1"), "Tableward"));
}

FIXTURE_TEST(replace_adopts_what_the_job_does_not_select)
{
    hosted_load(&h, "index-adopts:\n  kind: copy\n"
                    "  from: {table: Shoes, row_key_below: \"b\"}\n" INDEX
                    "  on_conflict: replace\n");
    shoe("a", 1);
    hosted_put(&h, "Shoes", "p", "size:1", "\"Name\":\"foreign\"");
    succeeds("index-adopts");
    check_has("Shoes", "p", "size:1", "n1");
}

FIXTURE_TEST(a_copy_with_the_keys_of_its_source_is_refused)
{
    hosted_put(&h, "Shoes", "p", "size:1", "\"Size\":1");
    fails("index", "its own keys in its own table");
    assert_null(strstr(hosted_json(&h, "Shoes", "p", "size:1"), "Tableward"));
}

/* ---- C6: too many deletes ---- */

static void many_shoes(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%05u", i);
        shoe(key, (int)(i % 5));
    }
}

static void remove_shoes(unsigned from, unsigned below)
{
    for (unsigned i = from; i < below; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%05u", i);
        hosted_remove(&h, "Shoes", "p", key);
    }
}

FIXTURE_TEST(a_tenth_of_the_copies_is_not_deleted_without_consent)
{
    many_shoes(300);
    succeeds("all-by-size");
    remove_shoes(0, 101);
    fails("all-by-size", "101 of 300 copies have no source and");
    check_written(0, 0);
    assert_int_equal(hosted_count(&h, "BySize"), 300);
    h.accept_deletes = true;
    succeeds("all-by-size");
    check_written(0, 101);
    assert_int_equal(hosted_count(&h, "BySize"), 199);
}

/* What a dry run says of a refusal is what the run says. */
static void estimate_says(const char *job, const char *refused)
{
    struct job_estimate estimate;

    assert_ok(hosted_estimate(&h, job, "", &estimate));
    if (refused) {
        assert_non_null(estimate.refused);
        assert_non_null(strstr(estimate.refused, refused));
    } else {
        assert_null(estimate.refused);
    }
    arena_done(&estimate.arena);
}

FIXTURE_TEST(a_dry_run_says_what_needs_consent)
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
    h.accept_deletes = true;
    estimate_says("all-by-size", NULL);
    assert_int_equal(hosted_count(&h, "BySize"), 300);
}

/* One of the destinations does not exist yet: a dry run creates none. */
FIXTURE_TEST(a_dry_run_with_a_new_destination_says_what_needs_consent)
{
    static const char JOB[] = "two:\n  kind: copy\n  from: {table: Shoes}\n"
                              "  to: [{table: BySize, partition_key: a}%s]\n";
    char *before = mem_format(JOB, ""),
         *after = mem_format(JOB, ", {table: Other, partition_key: b}");

    many_shoes(200);
    hosted_load(&h, before);
    succeeds("two");
    remove_shoes(0, 150);
    hosted_load(&h, after);
    estimate_says("two", "150 of 200 copies have no source and");
    mem_free(before);
    mem_free(after);
}

/* The acceptance was for ever: months later a following run deleted every copy,
 * because its sources had vanished. */
FIXTURE_TEST(deletes_are_accepted_for_one_round)
{
    many_shoes(300);
    succeeds("all-by-size");
    remove_shoes(0, 110);
    new_run();
    h.accept_deletes = true;
    (void)hosted_attempt(&h, "all-by-size", "");
    assert_int_equal(h.end, RUN_SUCCEEDED);
    check_written(0, 110);
    assert_false(h.accept_deletes);
    remove_shoes(110, 211);
    fails("all-by-size", "101 of 190 copies have no source and");
    check_written(0, 0);
}

FIXTURE_TEST(a_following_run_accepts_deletes_for_one_round)
{
    many_shoes(300);
    new_run();
    h.accept_deletes = true;
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_WAITING);
    assert_false(h.accept_deletes);
    remove_shoes(0, 101);
    h.finish = RUN_FINISHING_NOW;
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "101 of 300 copies have no source"));
    assert_int_equal(hosted_count(&h, "BySize"), 300);
    h.finish = RUN_NOT_FINISHING;
}

FIXTURE_TEST(a_hundred_deletes_need_no_consent)
{
    many_shoes(120);
    succeeds("all-by-size");
    remove_shoes(0, 100);
    succeeds("all-by-size");
    check_written(0, 100);
}

FIXTURE_TEST(a_tenth_needs_no_consent)
{
    many_shoes(1010);
    succeeds("all-by-size");
    remove_shoes(500, 601);
    succeeds("all-by-size");
    check_written(0, 101);
    assert_int_equal(hosted_count(&h, "BySize"), 909);
}

FIXTURE_TEST(other_key_templates_need_consent)
{
    shoe("a", 1);
    succeeds("by-size");
    hosted_load(&h, "by-size:\n  kind: copy\n  from: {table: Shoes}\n"
                    "  to: {table: BySize, partition_key: \"s{Size}\", "
                    "row_key: \"{RowKey}\"}\n");
    estimate_says("by-size", "earlier key templates");
    fails("by-size", "--accept-deletes");
    check_table("BySize", "1/a ");
    h.accept_deletes = true;
    succeeds("by-size");
    check_table("BySize", "s1/a ");
}

/* The copies that are read before the first round belong to another entry of
 * `to:`. */
FIXTURE_TEST(other_key_templates_of_one_entry_need_consent)
{
    static const char TWO[] =
        "two:\n  kind: copy\n  from: {table: Shoes}\n"
        "  to: [{table: BySize, partition_key: a}, {table: BySize, "
        "partition_key: \"%s\"}]\n";
    char *before = mem_format(TWO, "y"), *after = mem_format(TWO, "z");

    many_shoes(120);
    hosted_load(&h, before);
    succeeds("two");
    hosted_load(&h, after);
    fails("two", "earlier key templates");
    assert_true(hosted_has(&h, "BySize", "y", "k00000"));
    assert_int_equal(h.deleted, 0);
    h.accept_deletes = true;
    succeeds("two");
    assert_false(hosted_has(&h, "BySize", "y", "k00000"));
    assert_int_equal(hosted_count(&h, "BySize"), 240);
    mem_free(before);
    mem_free(after);
}

/* ---- C7: the tables ---- */

FIXTURE_TEST(a_missing_table_of_sources_fails_the_run)
{
    hosted_load(&h, "gone:\n  kind: copy\n  from: {table: Gone}\n" TO_SIZE);
    fails("gone", "Gone");
    assert_false(h.written > 0 || h.deleted > 0);
}

/* ---- A5: following ---- */

FIXTURE_TEST(a_following_run_waits_and_ends_by_finish)
{
    shoe("a", 1);
    new_run();
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_WAITING);
    assert_int_equal(h.waits_for, RUN_WAITS_FOR_ROUND);
    check_table("BySize", "1/a ");
    shoe("b", 2);
    hosted_remove(&h, "Shoes", "p", "a");
    h.finish = RUN_FINISHING;
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_SUCCEEDED);
    check_table("BySize", "2/b ");
    assert_true(h.closes_job);
    assert_int_equal(h.behind, 0);
}

/* The last round compares everything. */
FIXTURE_TEST(a_run_ends_by_itself_if_its_job_does_not_follow_any_more)
{
    shoe("a", 1);
    new_run();
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_WAITING);
    hosted_remove(&h, "BySize", "1", "a");
    shoe("b", 2);
    hosted_load(&h, "follows:\n  kind: copy\n  from: {table: Shoes}\n" TO_SIZE);
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_SUCCEEDED);
    check_table("BySize", "1/a 2/b ");
    assert_false(h.closes_job);
}

/* `follow` was removed between `finish` and the last rounds. */
FIXTURE_TEST(finish_closes_a_job_that_does_not_follow_any_more)
{
    shoe("a", 1);
    new_run();
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_WAITING);
    hosted_load(&h, "follows:\n  kind: copy\n  from: {table: Shoes}\n" TO_SIZE);
    shoe("b", 2);
    h.finish = RUN_FINISHING;
    assert_int_equal(hosted_attempt(&h, "follows", ""), RUN_SUCCEEDED);
    check_table("BySize", "1/a 2/b ");
    assert_true(h.closes_job);
}
