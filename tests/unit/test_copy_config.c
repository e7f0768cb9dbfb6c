/* SPDX-License-Identifier: MIT */
/* A copy job in the configuration; its dry run; its verification. */
#include <stdio.h>

#include "jobs/copy/rules.h"
#include "tests/support/loading.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"

#define HEAD "c: {kind: copy, from: {table: Blogs}, "

/* ---- the configuration ---- */

TEST(what_is_wrong_in_a_job_is_reported)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"c: {kind: copy, to: {table: Copies}}", "from"},
        {"c: {kind: copy, from: {table: Blogs}}", "to"},
        {HEAD "to: {table: Blogs}}", "keys of their sources"},
        {HEAD "to: {table: blogs, row_key: \"{RowKey}\"}}",
            "keys of their sources"},
        {HEAD "to: [{table: Copies}, {table: Blogs}]}",
            "keys of their sources"},
        {HEAD "to: [{table: Copies}, {table: copies}]}", "the same keys"},
        {HEAD "to: []}", "1 to 16"},
        {HEAD "to: {table: Copies}, on_conflict: merge}", "merge"},
        {HEAD "to: {table: Copies}, on_conflict: accept_equal}",
            "accept_equal"},
        {HEAD "to: {table: Copies}, args: [a]}", "no arguments"},
        {HEAD "to: {table: Copies}, follow: often}", "follow"},
        {HEAD "to: {table: Copies}, flow: true}", "follow"},
        {HEAD "to: {table: Copies, row_key: \"{nothing(}\"}}",
            "unknown function"},
        {HEAD "to: {table: Copies, row_key: \"a/{B}\"}}", "RowKey 'a/'"},
        {HEAD "to: {table: Copies}, properties: [TablewardSource]}",
            "reserved"},
        {HEAD "to: {table: Copies, properties: {drop: [RowKey]}}}", "RowKey"},
        {HEAD "to: {store: elsewhere, table: Copies}}", "elsewhere"},
        {"c: {kind: copy, from: {table: Blogs, filter: \"N eq\"}, to: {table: "
         "Copies}}",
            "filter"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        loading_refused(cases[i].text, cases[i].part);
}

static void note_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    struct buf *to = ctx;

    buf_add_format(
        to, "%s %zu/%s ", access == JOB_READS ? "read" : "write", store, table);
}

LOADING_TEST(one_copy_or_a_list_of_them)
{
    const struct copy_rules *rules;
    struct buf text;

    loading_good(l,
        "c:\n"
        "  kind: copy\n"
        "  from: {table: Blogs, partition_key: p}\n"
        "  to: [{table: Blogs, row_key: \"i:{N}\"}, {store: other, table: "
        "Copies, properties: [A]}]\n"
        "  properties: {drop: [B]}\n"
        "  on_conflict: replace\n"
        "  follow: true\n");
    rules = l->jobs.list[0].settings;
    assert_int_equal(rules->target_count, 2);
    assert_true(copy_rules_is_index(rules, &rules->targets[0]));
    assert_false(copy_rules_is_index(rules, &rules->targets[1]));
    assert_int_equal(rules->targets[0].shape.drop_count, 1);
    assert_int_equal(rules->targets[1].shape.keep_count, 1);
    assert_int_equal(rules->on_conflict, COPY_CONFLICT_REPLACE);
    assert_true(l->jobs.list[0].kind->follows(&l->jobs.list[0]));
    assert_true(l->jobs.list[0].kind->table_job);
    buf_init(&text, 1024);
    l->jobs.list[0].kind->tables(&l->jobs.list[0], note_table, &text);
    assert_string_equal(
        buf_text(&text), "read 0/Blogs write 0/Blogs write 1/Copies ");
    buf_done(&text);
}

#define WAY(name, from, to, more)                                              \
    name ": {kind: copy, from: {table: " from "}, to: " to more "}\n"

LOADING_TEST(replacing_in_both_directions_is_warned_of)
{
    loading_good(
        l, WAY("fwd", "Old", "{table: New}", "") WAY("back", "New",
               "[{table: Third}, {table: old}]", ", on_conflict: replace"));
    assert_int_equal(l->problems.warnings, 1);
    assert_true(loading_says(l,
        "job back copies New to old with `on_conflict: replace`, and job "
        "fwd copies the other way: an entity that the application writes "
        "to this destination is overwritten with an older copy of the same "
        "entity"));
    loading_good(l, WAY("fwd", "Old", "{store: other, table: Old}",
                        ", on_conflict: replace") "back: {kind: copy, from: "
                                                  "{store: other, table: Old}, "
                                                  "to: {table: Old}, "
                                                  "on_conflict: replace}\n");
    assert_int_equal(l->problems.warnings, 2);
    assert_true(loading_says(l, "job fwd copies Old to Old in another store"));
    assert_true(loading_says(l, "job back copies Old to Old in another store"));
}

LOADING_TEST(copies_that_replace_nothing_of_each_other_are_not_warned_of)
{
    loading_good(l, WAY("fwd", "Old", "{table: New}", "")
                        WAY("back", "New", "{table: Old}", ""));
    assert_int_equal(l->problems.warnings, 0);
    loading_good(l,
        WAY("one", "Old", "{table: New}", ", on_conflict: replace")
            WAY("two", "New", "{table: Third}", ", on_conflict: replace"));
    assert_int_equal(l->problems.warnings, 0);
    /* Two indexes: no job reads a row of an index as a source. */
    loading_good(
        l, WAY("one", "Old", "{table: Old, row_key: \"a{N}\"}",
               ", on_conflict: replace") WAY("two", "Old",
               "{table: Old, row_key: \"b{N}\"}", ", on_conflict: replace"));
    assert_int_equal(l->problems.warnings, 0);
}

/* ---- the dry run ---- */

static const char JOBS[] = "by-size:\n"
                           "  kind: copy\n"
                           "  from: {table: Shoes}\n"
                           "  to: {table: BySize, partition_key: \"{Size}\"}\n"
                           "index:\n"
                           "  kind: copy\n"
                           "  from: {table: Shoes}\n"
                           "  to: {table: Shoes, row_key: \"size:{Size}\"}\n";

static int set_up(void **state)
{
    scene_begin(JOBS, "Shoes");
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)

FIXTURE_TEST(a_job_explains_itself)
{
    hosted_load(&h,
        "c: {kind: copy, from: {table: Blogs, row_key_below: a}, to: {table: "
        "Copies, row_key: \"{N}\"}}");
    assert_string_equal(hosted_explained(&h, "c"),
        "read Blogs where RowKey is before \"a\"\nkeep a copy of each, with "
        "TablewardSource, in\n  Copies: PartitionKey of the source, RowKey "
        "\"{N}\"\nif an entity that is no copy of this job has the keys of a "
        "copy, the source is reported as failed, and the run fails at its "
        "end\ndelete copies of this job whose source does not exist, is no "
        "longer selected, or makes a copy with other keys\nrepeat rounds until "
        "a round takes under a minute, or more than half as long as the one "
        "before; then compare both sides once more\n");
}

static void shoes(int count)
{
    for (int i = 0; i < count; i++) {
        char key[16], properties[32];

        snprintf(key, sizeof(key), "k%03d", i);
        snprintf(properties, sizeof(properties), "\"Size\":%d", i % 3);
        scene_put("Shoes", "p", key, properties);
    }
}

static void succeeds(const char *job)
{
    scene_new_run();
    scene_run(job, "", RUN_SUCCEEDED);
}

FIXTURE_TEST(a_dry_run_counts_the_copies_and_their_batches)
{
    struct job_estimate estimate;

    assert_ok(hosted_estimate(&h, "by-size", "", &estimate));
    assert_int_equal(estimate.tables[0].entities, 0);
    assert_string_equal(estimate.note, "nothing is selected");
    arena_done(&estimate.arena);
    shoes(330);
    assert_ok(hosted_estimate(&h, "by-size", "", &estimate));
    assert_int_equal(estimate.table_count, 2);
    assert_string_equal(estimate.tables[0].table, "Shoes");
    assert_int_equal(estimate.tables[0].entities, 330);
    assert_int_equal(estimate.tables[1].entities, 330);
    assert_int_equal(estimate.tables[1].batches, 6);
    assert_string_equal(estimate.tables[1].first_keys[1], "1/k001");
    arena_done(&estimate.arena);
    assert_int_equal(hosted_count(&h, "Shoes"), 330);
}

FIXTURE_TEST(a_second_dry_run_counts_what_is_left)
{
    struct job_estimate estimate;

    shoes(30);
    succeeds("by-size");
    assert_ok(hosted_estimate(&h, "by-size", "", &estimate));
    assert_int_equal(estimate.tables[1].entities, 0);
    assert_string_equal(estimate.note, "every copy is current");
    arena_done(&estimate.arena);
    scene_replace("Shoes", "p", "k004", "\"Size\":9");
    assert_ok(hosted_estimate(&h, "by-size", "", &estimate));
    assert_int_equal(estimate.tables[1].entities, 1);
    assert_string_equal(estimate.tables[1].first_keys[0], "9/k004");
    arena_done(&estimate.arena);
}

/* ---- verify ---- */

/* Returns, for each difference that verify finds, "COUNT WHAT: FIRST KEYS;
 * ". */
static const char *verified(const char *job)
{
    struct job_verification found;
    const char *text = "";

    assert_ok(hosted_verify(&h, job, "", &found));
    for (size_t i = 0; i < found.count; i++)
        if (found.differences[i].count > 0)
            text = arena_format(&h.arena, "%s%lld %s: %s; ", text,
                (long long)found.differences[i].count,
                found.differences[i].what, found.differences[i].first_keys[0])
                       .at;
    arena_done(&found.arena);
    return text;
}

FIXTURE_TEST(each_difference_is_counted_in_both_directions)
{
    shoes(30);
    succeeds("by-size");
    assert_string_equal(verified("by-size"), "");
    scene_remove("BySize", "0", "k000");
    scene_remove("Shoes", "p", "k001");
    scene_replace("Shoes", "p", "k002", "\"Size\":2,\"A\":1");
    scene_put("Shoes", "p", "x", "\"A\":1");
    scene_edit("BySize", "1", "k004", "\"Size\":1", "\"Size\":1,\"A\":1");
    assert_string_equal(verified("by-size"),
        "1 sources without a copy: Shoes p k000; "
        "1 copies that differ from their sources: Shoes p k002; "
        "1 copies without a source: BySize 1 k001; "
        "1 edited copies: BySize 1 k004; "
        "1 sources that cannot be copied: Shoes p x; ");
    assert_int_equal(hosted_count(&h, "BySize"), 29);
}

FIXTURE_TEST(the_destination_may_be_missing)
{
    shoes(2);
    assert_string_equal(
        verified("by-size"), "2 sources without a copy: Shoes p k000; ");
}

FIXTURE_TEST(index_rows_are_verified_too)
{
    shoes(2);
    succeeds("index");
    assert_string_equal(verified("index"), "");
    scene_remove("Shoes", "p", "k001");
    assert_string_equal(
        verified("index"), "1 copies without a source: Shoes p size:1; ");
}
