/* SPDX-License-Identifier: MIT */
/* The jobs of a configuration: their names, arguments, kinds and hashes. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define REST                                                                   \
    "  kind: cascade-delete\n"                                                 \
    "  parent: {table: Channels, partition_key: all, row_key: x, "             \
    "tombstone: {Deleted: true}}\n"                                            \
    "  children: [{table: Blogs, partition_key: x}]\n"

/* 65 characters. */
#define LONG_NAME                                                              \
    "a2345678901234567890123456789012345678901234567890123456789012345"

/* ---- names ---- */

LOADING_TEST(a_jobs_name_is_one_that_a_queue_can_have)
{
    static const char *const BAD[] = {
        "Purge", "9purge", "pur_ge", "purgE", "pur~ge", "''", LONG_NAME};

    for (size_t i = 0; TEST_EACH(i, BAD); i++) {
        char *text = mem_format("%s: {kind: cascade-delete}\n", BAD[i]);

        loading_refused(text, "a job's name must be at most");
        mem_free(text);
    }
    loading_good(l, "purge-2-z:\n" REST);
    assert_int_equal(l->jobs.count, 1);
    assert_string_equal(l->jobs.list[0].name, "purge-2-z");
}

TEST(each_mistake_of_a_job_is_named)
{
    static const struct {
        const char *text, *says;
    } CASES[] = {
        {"[purge]\n", "jobs must be a map of names"},
        {"purge: cascade-delete\n",
            "job purge must be a map, beginning with `kind:`"},
        {"purge: {settle: 5s}\n", "`kind:` is missing"},
        {"purge: {kind: cascade-delte}\n", "cascade-delete"},
        {"purge: {kind: [cascade-delete]}\n", "kind"},
        {"mv: {kind: move, from: {table: Blogs}, to: [{table: Months}]}\n",
            "which a move no longer takes"},
        {"mv: {kind: move, from: {table: Blogs}, to: []}\n",
            "`to` is a list, but a move has one destination"},
        {"up: {kind: schema-upgrade, args: [phase], table: Blogs, version: "
         "{property: V, absent: 1}, versions: [{to: 2, steps: [remove: "
         "{property: Old}]}]}\n",
            "every job of kind schema-upgrade has an argument phase"},
        {"purge:\n  args: channel\n" REST, "args must be a list"},
        {"purge:\n  args: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, "
         "r, s, t, u, v, w, x, y, z, A, B, C, D, E, F, G]\n" REST,
            "args must be a list of at most 32"},
        {"purge:\n  args: [a, b, a]\n" REST, "argument a is listed twice"},
        {"purge:\n  args: [{b: {allow_empty: perhaps}}]\n" REST, "allow_empty"},
        {"purge:\n  args: [{b: {alow: true}}]\n" REST, "alow"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++)
        loading_refused(CASES[i].text, CASES[i].says);
}

LOADING_TEST(a_job_with_mistakes_does_not_hide_the_others)
{
    loading_begin(l, "first: {kind: cascade-delete}\nsecond:\n" REST);
    assert_int_equal(l->jobs.count, 1);
    assert_non_null(jobs_find(&l->jobs, slice_of("second")));
    assert_null(jobs_find(&l->jobs, slice_of("first")));
    assert_int_equal(l->jobs.broken_count, 1);
    assert_string_equal(l->jobs.broken[0], "first");
    assert_string_equal(jobs_nearest(&l->jobs, slice_of("secnd")), "second");
}

/* ---- following jobs (rule L3) ---- */

#define COPY(name, to, follow)                                                 \
    name ": {kind: copy, from: {table: Blogs}, to: {table: " to                \
         ", row_key: \"x{RowKey}\"}, follow: " follow "}\n"

LOADING_TEST(two_following_jobs_of_one_table_are_refused)
{
    loading_begin(
        l, COPY("one", "Copies", "true") COPY("other", "copies", "true"));
    assert_int_equal(l->problems.errors, 1);
    assert_true(loading_says(l,
        "jobs one and other both have `follow: true` and write table Copies"));
    loading_good(
        l, COPY("one", "Copies", "true") COPY("other", "Others", "true"));
    assert_int_equal(l->problems.warnings, 0);
}

LOADING_TEST(a_job_that_waits_for_a_following_one_is_a_warning)
{
    loading_good(
        l, COPY("once", "Copies", "false") COPY("always", "Copies", "true"));
    assert_int_equal(l->problems.warnings, 1);
    assert_true(loading_says(l, "job always has `follow: true`: while a run of "
                                "it is open, runs of job once wait"));
    loading_good(
        l, COPY("once", "Copies", "false") COPY("too", "Copies", "false"));
    assert_int_equal(l->problems.warnings, 0);
}

/* ---- arguments ---- */

LOADING_TEST(arguments_are_names_that_a_template_can_hold)
{
    static const char *const BAD[] = {
        "''", "9lives", "a-b", "'a~'", "[a]", "{a: {}, b: {}}", LONG_NAME};

    for (size_t i = 0; TEST_EACH(i, BAD); i++) {
        char *text = mem_format("purge:\n  args: [%s]\n" REST, BAD[i]);

        loading_refused(text, "an argument must be a name");
        mem_free(text);
    }
    loading_good(l, "purge:\n  args: [a_9, _B, Zz]\n" REST);
    assert_int_equal(l->jobs.list[0].arg_count, 3);
    assert_int_equal(job_arg_index(&l->jobs.list[0], slice_of("_B")), 1);
    assert_int_equal(job_arg_index(&l->jobs.list[0], slice_of("b")), 3);
}

/* ---- the hash of a definition ---- */

/* Returns the hash of the first job in text. Valid until the second call of
 * hash_of() after this call. */
static const char *hash_of(const char *text)
{
    static char hashes[2][17];
    static unsigned calls;
    struct loading l = {.names = {NULL}};
    char *hash = hashes[calls++ % 2];

    loading_good(&l, text);
    memcpy(hash, l.jobs.list[0].hash, 17);
    loading_done(&l);
    return hash;
}

static void expect_same_hash(const char *one, const char *other)
{
    assert_string_equal(hash_of(one), hash_of(other));
}

static void expect_other_hash(const char *one, const char *other)
{
    assert_string_not_equal(hash_of(one), hash_of(other));
}

/* The values of variables are a part of the definition. If they were not, a run
 * would continue with another selection after a variable has changed. */
TEST(a_variable_that_changes_is_another_definition)
{
#define OF_MONTH(month)                                                        \
    "purge: {kind: delete, table: Log, filter: \"Month eq '" month "'\"}\n"

    assert_int_equal(setenv("MONTH", "11", 1), 0);
    expect_same_hash(OF_MONTH("${MONTH}"), OF_MONTH("11"));
    assert_int_equal(setenv("MONTH", "10", 1), 0);
    expect_same_hash(OF_MONTH("${MONTH}"), OF_MONTH("10"));
    expect_other_hash(OF_MONTH("${MONTH}"), OF_MONTH("11"));
    assert_int_equal(unsetenv("MONTH"), 0);
}

TEST(a_definition_that_says_something_else_has_another_hash)
{
    static const char *const OTHERS[] = {
        "purge:\n  settle: 6s\n" REST,
        "purge:\n  settle: [5s]\n" REST,
        "purge:\n  settle: '5s'\n" REST,
        "purge:\n  refuse_above: 5\n" REST,
        "purge:\n" REST,
        /* another order of keys */
        "purge: # a comment\n" REST "  settle:    5s\n",
    };

    expect_same_hash("purge:\n  settle: 5s\n" REST,
        "erase: # a comment\n  settle:    5s\n" REST);
    for (size_t i = 0; TEST_EACH(i, OTHERS); i++)
        expect_other_hash("purge:\n  settle: 5s\n" REST, OTHERS[i]);
}

/* A run continues if limits or folders of its job have changed, because they do
 * not decide what the run changes. */
TEST(a_run_is_not_bound_to_limits_and_files)
{
    static const char *const SAME[] = {
        "purge:\n  refuse_above: 5\n" REST,
        "purge:\n  archive: archive\n" REST,
        "purge:\n  failures: failed\n" REST,
    };

    for (size_t i = 0; TEST_EACH(i, SAME); i++)
        expect_same_hash("purge:\n" REST, SAME[i]);
}

/* ---- the parts of a definition ---- */

#define PARENT                                                                 \
    "  parent: {table: Channels, partition_key: '{c}', row_key: x, "           \
    "tombstone: {Deleted: true}}\n"
#define BLOGS "{table: Blogs, partition_key: '{c}'"
#define POSTS "{table: Posts, partition_key: '{PartitionKey}'"
#define CASCADE(parent, children)                                              \
    "purge:\n  kind: cascade-delete\n  args: [c]\n" parent                     \
    "  children: [" children "]\n"
#define BEFORE CASCADE(PARENT, BLOGS ", children: [" POSTS "}]}")

/* Returns whether the job of `text` still has all parts that the job of BEFORE
 * has. */
static bool has_parts_of_before(const char *text)
{
    struct loading l = {.names = {NULL}}, now = {.names = {NULL}};
    const char *parts, *parts_now;
    bool all = true;

    loading_good(&l, BEFORE);
    loading_good(&now, text);
    parts = l.jobs.list[0].parts;
    parts_now = now.jobs.list[0].parts;
    assert_int_equal(strlen(parts), 3 * 16);
    for (size_t i = 0; parts[i]; i += 16) {
        char part[17];

        (void)snprintf(part, sizeof(part), "%.16s", parts + i);
        all = all && strstr(parts_now, part) != NULL;
    }
    loading_done(&l);
    loading_done(&now);
    return all;
}

/* If rules were only added, a run that began under the definition BEFORE starts
 * over by itself. */
TEST(rules_that_are_added_leave_the_other_parts)
{
    static const char *const ADDED[] = {
        BEFORE,
        CASCADE(PARENT, BLOGS ", children: [" POSTS "}]}, {table: Tags, "
                              "partition_key: '{c}'}"),
        CASCADE(PARENT, "{table: Tags, partition_key: '{c}'}, " BLOGS
                        ", children: [" POSTS "}]}"),
        CASCADE(PARENT, BLOGS ", children: [" POSTS "}, {table: Tags, "
                              "partition_key: '{RowKey}'}]}"),
        CASCADE(PARENT, BLOGS ", children: [" POSTS ", children: [{table: "
                              "Tags, partition_key: '{RowKey}'}]}]}"),
        CASCADE(PARENT "  settle: 20m\n  refuse_above: 5\n",
            BLOGS ", children: [" POSTS "}]}"),
    };

    for (size_t i = 0; TEST_EACH(i, ADDED); i++)
        assert_true(has_parts_of_before(ADDED[i]));
}

/* After any other change, a run that began under the definition BEFORE is held.
 */
TEST(any_other_change_changes_a_part)
{
    static const char *const CHANGED[] = {
        CASCADE(PARENT, BLOGS "}"),             /* without Posts */
        CASCADE(PARENT, BLOGS "}, " POSTS "}"), /* no longer under Blogs */
        CASCADE(PARENT, BLOGS ", row_key: y, children: [" POSTS "}]}"),
        CASCADE(PARENT, BLOGS ", children: [" POSTS ", row_key: y}]}"),
        CASCADE(PARENT, BLOGS ", store: other, children: [" POSTS "}]}"),
        CASCADE("  parent: {table: Teams, partition_key: '{c}', row_key: x, "
                "tombstone: {Deleted: true}}\n",
            BLOGS ", children: [" POSTS "}]}"),
        CASCADE("  parent: {table: Channels, partition_key: '{c}', row_key: "
                "x, tombstone: {Gone: true}}\n",
            BLOGS ", children: [" POSTS "}]}"),
        /* {PartitionKey} would then be the argument, not the blog's
         * PartitionKey. */
        "purge:\n  kind: cascade-delete\n  args: [c, PartitionKey]\n" PARENT
        "  children: [" BLOGS ", children: [" POSTS "}]}]\n",
    };

    for (size_t i = 0; TEST_EACH(i, CHANGED); i++)
        assert_false(has_parts_of_before(CHANGED[i]));
}

LOADING_TEST(a_kind_without_additions_has_no_parts)
{
    loading_good(l, "purge: {kind: delete, table: Log, all: true}\n");
    assert_null(l->jobs.list[0].parts);
}

#define RETYPE(on_error)                                                       \
    "up: {kind: schema-upgrade, table: Blogs, version: {property: V, "         \
    "absent: 1}, versions: [{to: 2, steps: [{retype: {property: R, to: "       \
    "Edm.Double" on_error "}}]}]}\n"

TEST(nor_to_what_becomes_of_a_value_that_cannot_be_converted)
{
    expect_same_hash(RETYPE(""), RETYPE(", on_error: skip"));
    expect_other_hash(RETYPE(""), RETYPE(", lossy: true"));
}

LOADING_TEST(any_kind_may_have_a_folder_of_failures)
{
    loading_good(l, "purge:\n  failures: failed\n" REST);
    assert_string_equal(l->jobs.list[0].failures, "failed");
    loading_good(l, "purge:\n" REST);
    assert_null(l->jobs.list[0].failures);
}
