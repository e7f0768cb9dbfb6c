/* SPDX-License-Identifier: MIT */
/*
 * Goal: verify reads the rules below other rules backwards too, and finds
 * entities whose entity above does not exist. Where a rule cannot be read
 * backwards, verify says so.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "jobs/jobs.h"
#include "tests/support/script.h"
#include "worker/base/log.h"

#define TABLES "Channels Blogs Comments Likes News TablewardRuns"

/* A job whose only first-level rule has these children. */
#define BLOGS_WITH(rule, children)                                             \
    "del:\n"                                                                   \
    "    kind: cascade-delete\n"                                               \
    "    args: [channel]\n"                                                    \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"\", tombstone: {Deleted: true}}\n"                                      \
    "    settle: 0s\n"                                                         \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        " rule "\n"                                                       \
    "        children:\n" children

#define BLOGS(children) BLOGS_WITH("partition_key: \"{channel}\"", children)

#define BY_KEY "          - {table: Comments, partition_key: \"{RowKey}\"}\n"

static void set_up_tables(struct hosted *h, const char *configuration)
{
    hosted_begin(h, configuration, TABLES);
    hosted_put(h, "Channels", "F", "", NULL);
    hosted_put(h, "Blogs", "F", "b1", NULL);
}

/* Returns the note, in h->arena, or NULL. */
static const char *finds(
    struct hosted *h, const char *channel, int64_t orphans, const char *first)
{
    struct job_verification found;
    const char *note;

    if (hosted_verify(h, "del", channel, &found) != TW_OK)
        fail_msg("%s", h->err.text);
    assert_int_equal(found.differences[1].count, orphans);
    if (first)
        assert_string_equal(found.differences[1].first_keys[0], first);
    note = found.note ? arena_copy(&h->arena, slice_of(found.note)).at : NULL;
    arena_done(&found.arena);
    return note;
}

static void refuses(struct hosted *h, const char *channel, const char *why)
{
    struct job_verification found;

    assert_int_equal(hosted_verify(h, "del", channel, &found), TW_CONFLICT);
    if (!strstr(h->err.text, why))
        fail_msg("%s", h->err.text);
    arena_done(&found.arena);
}

HOSTED_TEST(a_row_key_above_that_does_not_exist_is_found)
{
    set_up_tables(h, BLOGS(BY_KEY));
    hosted_fill(h, "Blogs", "F", 1200);
    hosted_fill(h, "Comments", "b1", 3);
    hosted_fill(h, "Comments", "b00000", 3);
    hosted_fill(h, "Comments", "b01199", 3);
    assert_null(finds(h, NULL, 0, NULL));
    assert_null(finds(h, "F", 0, NULL));
    hosted_put(h, "Comments", "b2", "late", NULL);
    hosted_fill(h, "Comments", "gone", 7);
    assert_null(finds(h, NULL, 8, "Comments b2/late"));
    assert_null(finds(h, "F", 8, "Comments b2/late"));
}

/* Both keys, as in README.md. */
#define BOTH                                                                   \
    "          - {table: Comments, partition_key: \"{PartitionKey}\", "        \
    "row_key_prefix: \"{RowKey}_\", filter: \"Blog eq '{RowKey}'\"}\n"

HOSTED_TEST(both_keys_above_are_told_by_key_and_property)
{
    set_up_tables(h, BLOGS(BOTH));
    hosted_put(h, "Channels", "G", "", NULL);
    hosted_put(h, "Blogs", "G", "b2", NULL);
    hosted_put(h, "Comments", "F", "b1_1", "\"Blog\":\"b1\"");
    hosted_put(h, "Comments", "G", "b2_1", "\"Blog\":\"b2\"");
    hosted_put(h, "Comments", "G", "b3_1", NULL); /* selected by no blog */
    hosted_put(h, "Comments", "G", "x_1", "\"Blog\":\"b3\""); /* neither */
    hosted_put(h, "Comments", "G", "b4_1", "\"Blog\":4");     /* not a text */
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Comments", "F", "b2_1", "\"Blog\":\"b2\"");
    hosted_put(h, "Comments", "G", "b1_1", "\"Blog\":\"b1\"");
    finds(h, NULL, 2, "Comments F/b2_1");
    finds(h, "F", 1, "Comments F/b2_1");
    finds(h, "G", 1, "Comments G/b1_1");
    finds(h, "H", 0, NULL);
}

HOSTED_TEST(of_a_prefix_any_entity_above_will_do)
{
    set_up_tables(
        h, BLOGS("          - {table: Comments, partition_key: "
                 "\"{PartitionKey}\", row_key_prefix: \"{RowKey}_\"}\n"));
    hosted_put(h, "Comments", "F", "b1_x_1", NULL);
    hosted_put(h, "Comments", "F", "b1", NULL); /* no rest of a key */
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Comments", "F", "b2_x_1", NULL);
    finds(h, NULL, 1, "Comments F/b2_x_1");
    hosted_put(h, "Blogs", "F", "b2_x", NULL);
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Comments", "G", "b2_x_1", NULL);
    finds(h, NULL, 1, "Comments G/b2_x_1");
}

/* A key may be empty; an argument is not. */
HOSTED_TEST(an_empty_key_above_is_a_prefix_too)
{
    set_up_tables(h, BLOGS("          - {table: Comments, partition_key: "
                           "\"{PartitionKey}\", row_key_prefix: "
                           "\"{RowKey}_\"}\n") "      - {table: Comments, "
                                               "partition_key_prefix: "
                                               "\"{channel}_\", "
                                               "filter: \"Of eq "
                                               "'channel'\"}\n");
    hosted_put(h, "Comments", "F", "_1", NULL);
    finds(h, NULL, 1, "Comments F/_1");
    hosted_put(h, "Blogs", "F", "", NULL);
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Comments", "_", "_1", "\"Of\":\"channel\"");
    finds(h, NULL, 1, "Comments _/_1");
}

HOSTED_TEST(a_property_above_is_compared_by_its_text)
{
    set_up_tables(
        h, BLOGS("          - {table: Comments, filter: \"Of eq '{Number}'\"}\n"
                 "          - {table: Likes, row_key: \"{Name}\"}\n"));
    hosted_put(h, "Blogs", "F", "b7", "\"Number\":7,\"Name\":\"seven\"");
    hosted_put(h, "Comments", "a", "1", "\"Of\":\"7\"");
    hosted_put(h, "Comments", "a", "2", "\"Of\":7");
    hosted_put(h, "Likes", "a", "seven", NULL);
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Comments", "a", "3", "\"Of\":\"8\"");
    hosted_put(h, "Likes", "a", "eight", NULL);
    finds(h, NULL, 2, "Comments a/3");
}

HOSTED_TEST(each_level_is_checked)
{
    set_up_tables(
        h, BLOGS("          - table: Comments\n"
                 "            partition_key: \"{RowKey}\"\n"
                 "            children:\n"
                 "              - {table: Likes, partition_key: "
                 "\"{PartitionKey}\", filter: \"Comment eq '{RowKey}'\"}\n"));
    hosted_put(h, "Comments", "b1", "c1", NULL);
    hosted_put(h, "Likes", "b1", "1", "\"Comment\":\"c1\"");
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Likes", "b1", "2", "\"Comment\":\"c2\"");
    finds(h, NULL, 1, "Likes b1/2");
    hosted_remove(h, "Comments", "b1", "c1");
    finds(h, NULL, 2, "Likes b1/1");
}

/* What is above must be an entity that the rule above selects. */
HOSTED_TEST(an_entity_that_the_rule_above_leaves_out_is_no_parent)
{
    set_up_tables(
        h, BLOGS_WITH("filter: \"Type eq 'blog'\\nand Channel eq '{channel}'\"",
               BY_KEY));
    hosted_put(h, "Blogs", "F", "b2", "\"Type\":\"blog\",\"Channel\":\"F\"");
    hosted_put(h, "Blogs", "F", "b3", "\"Type\":\"poll\",\"Channel\":\"F\"");
    hosted_put(h, "Channels", "G", "", NULL);
    hosted_put(h, "Blogs", "G", "b4", "\"Type\":\"blog\",\"Channel\":\"G\"");
    hosted_put(h, "Comments", "b2", "1", NULL);
    hosted_put(h, "Comments", "b4", "1", NULL);
    finds(h, NULL, 0, NULL);
    finds(h, "F", 0, NULL); /* G's comments are those of a blog */
    hosted_put(h, "Comments", "b1", "1", NULL);
    hosted_put(h, "Comments", "b3", "1", NULL);
    finds(h, NULL, 2, "Comments b1/1");
    finds(h, "F", 2, "Comments b1/1");
}

HOSTED_TEST(an_argument_in_a_rule_below_is_told_or_asked_for)
{
    set_up_tables(
        h, BLOGS("          - {table: Comments, partition_key: \"{channel}\", "
                 "filter: \"Blog eq '{RowKey}'\"}\n"));
    hosted_put(h, "Comments", "F", "1", "\"Blog\":\"b1\"");
    hosted_put(h, "Comments", "F", "2", "\"Blog\":\"b2\"");
    hosted_put(h, "Comments", "G", "3", "\"Blog\":\"b2\"");
    finds(h, NULL, 2, "Comments F/2");
    finds(h, "G", 1, "Comments G/3");
    hosted_load(
        h, BLOGS("          - {table: Comments, partition_key: "
                 "\"{lower(channel)}\", filter: \"Blog eq '{RowKey}'\"}\n"));
    refuses(h, NULL,
        "the rule for Comments (line 10) does not show which channel an entity "
        "belongs to: use `verify del channel=VALUE`");
    finds(h, "f", 0, NULL);
    hosted_put(h, "Comments", "f", "4", "\"Blog\":\"b2\"");
    finds(h, "F", 1, "Comments f/4");
}

TEST(a_rule_that_cannot_be_read_backwards_is_named)
{
    static const char *const rules[] = {
        "partition_key: \"{lower(RowKey)}\"",
        "partition_key: \"x\"",
        "row_key_prefix: \"c{RowKey}_\"",
        "partition_key: \"{PartitionKey}\", filter: \"A eq '{RowKey}' or B eq "
        "'x'\"",
        "partition_key_prefix: \"{PartitionKey}_\", row_key_prefix: "
        "\"{RowKey}_\"",
        "filter: \"A eq '{Number}' and B gt {Number}\"",
        "row_key: \"{Number}\", partition_key: \"{Number:03}\"",
        "filter: \"A eq '{Timestamp}'\"",
    };

    for (size_t i = 0; TEST_EACH(i, rules); i++) {
        char configuration[2000], line[300];
        const char *note;
        struct hosted h;

        (void)snprintf(
            line, sizeof(line), "          - {table: Comments, %s}", rules[i]);
        (void)snprintf(configuration, sizeof(configuration), "%s%s\n%s",
            BLOGS(""), line,
            "          - {table: Likes, partition_key: \"{RowKey}\"}\n");
        set_up_tables(&h, configuration);
        hosted_put(&h, "Comments", "x", "c9_1", "\"A\":\"b9\"");
        hosted_put(&h, "Likes", "b9", "1", NULL);
        note = finds(&h, NULL, 1, "Likes b9/1");
        if (!note ||
            strcmp(note,
                "rules whose entities do not show which entity they are under "
                "are not verified: Comments (line 10)") != 0)
            fail_msg("%s: %s", rules[i], note ? note : "no note");
        hosted_done(&h);
    }
}

/* Comments of blogs and of news, in one table. */
#define NEWS                                                                   \
    "      - table: News\n"                                                    \
    "        partition_key: \"{channel}\"\n"                                   \
    "        children:\n"                                                      \
    "          - {table: Comments, partition_key: \"{RowKey}\"}\n"

HOSTED_TEST(a_parent_by_another_rule_is_a_parent)
{
    set_up_tables(h, BLOGS(BY_KEY) NEWS);
    hosted_put(h, "News", "F", "n1", NULL);
    hosted_put(h, "Comments", "b1", "1", NULL);
    hosted_put(h, "Comments", "n1", "1", NULL);
    finds(h, NULL, 0, NULL);
    hosted_put(h, "Comments", "x1", "1", NULL);
    finds(h, NULL, 1, "Comments x1/1"); /* not once for each rule */
    hosted_load(h,
        BLOGS(BY_KEY) "      - {table: Comments, partition_key: \"{channel}\"}"
                      "\n");
    hosted_put(h, "Comments", "F", "1", NULL);
    finds(h, NULL, 3, "Comments b1/1"); /* once, by the first-level rule */
}

/* Whether another rule has a parent for an entity may be unknown: then the
 * result says so. */
HOSTED_TEST(an_entity_that_an_unread_rule_may_find_is_left_out)
{
    const char *note;

    set_up_tables(h, BLOGS(BY_KEY) "      - {table: Comments, partition_key: "
                                   "\"{lower(channel)}\"}\n");
    assert_null(finds(h, "F", 0, NULL));
    hosted_put(h, "Comments", "x1", "1", NULL);
    note = finds(h, "F", 0, NULL);
    assert_non_null(note);
    assert_non_null(strstr(note, "are not verified: Comments (line 10)"));
}

/* A property of the children may have the name of an argument. */
HOSTED_TEST(a_word_in_a_filter_is_no_argument)
{
    set_up_tables(h, BLOGS("          - {table: Comments, filter: \"channel eq "
                           "'{RowKey}' and Kind eq 'a channel'\"}\n"));
    hosted_put(
        h, "Comments", "x", "1", "\"channel\":\"b1\",\"Kind\":\"a channel\"");
    finds(h, NULL, 0, NULL);
    hosted_put(
        h, "Comments", "x", "2", "\"channel\":\"b2\",\"Kind\":\"a channel\"");
    finds(h, NULL, 1, "Comments x/2");
}

/* A table whose entities are under one another. */
HOSTED_TEST(a_family_of_one_table_is_checked)
{
    set_up_tables(h,
        BLOGS_WITH("filter: \"Kind eq 'root' and Channel eq '{channel}'\"",
            "          - table: Blogs\n"
            "            partition_key: \"{PartitionKey}\"\n"
            "            filter: \"Up eq '{RowKey}' and Kind eq 'node'\"\n"));
    hosted_put(h, "Blogs", "F", "r", "\"Kind\":\"root\",\"Channel\":\"F\"");
    hosted_put(h, "Blogs", "F", "n", "\"Kind\":\"node\",\"Up\":\"r\"");
    finds(h, NULL, 0, NULL);
    /* Under itself, and under an entity that is no root. */
    hosted_put(h, "Blogs", "F", "n2", "\"Kind\":\"node\",\"Up\":\"n2\"");
    hosted_put(h, "Blogs", "F", "n3", "\"Kind\":\"node\",\"Up\":\"n\"");
    finds(h, NULL, 2, "Blogs F/n2");
    hosted_load(h, BLOGS("          - table: Blogs\n"
                         "            partition_key: \"{PartitionKey}\"\n"
                         "            row_key_prefix: \"{RowKey}_\"\n"));
    hosted_put(h, "Blogs", "F", "x_1", NULL); /* a blog of the channel */
    finds(h, NULL, 0, NULL);
}

HOSTED_TEST(a_parent_is_under_no_entity)
{
    set_up_tables(h,
        BLOGS("          - {table: Channels, partition_key: \"{RowKey}\"}\n"));
    hosted_put(h, "Channels", "b1", "x", NULL);
    hosted_put(h, "Channels", "G", "", NULL);
    assert_null(finds(h, NULL, 0, NULL));
    hosted_put(h, "Channels", "b2", "x", NULL);
    assert_null(finds(h, NULL, 1, "Channels b2/x"));
}

/* Every entity of the table may be a parent. */
HOSTED_TEST(a_rule_that_cannot_tell_children_from_parents_is_named)
{
    const char *note;

    set_up_tables(h,
        "del:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n"
        "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "
        "\"{channel}\", tombstone: {Deleted: true}}\n"
        "    settle: 0s\n"
        "    children:\n"
        "      - table: Blogs\n"
        "        row_key: \"{channel}\"\n"
        "        children:\n"
        "          - {table: Channels, partition_key: \"{RowKey}\"}\n");
    hosted_put(h, "Channels", "b1", "b1", NULL);
    note = finds(h, NULL, 0, NULL);
    assert_non_null(note);
    assert_non_null(strstr(note, "are not verified: Channels (line 10)"));
}

HOSTED_TEST(a_missing_optional_table_is_empty)
{
    struct job_verification found;

    hosted_begin(h,
        BLOGS_WITH("partition_key: \"{channel}\"\n        optional: true",
            "          - {table: Comments, partition_key: \"{RowKey}\"}\n"
            "          - {table: Likes, partition_key: \"{RowKey}\", optional: "
            "true}\n"),
        "Channels Comments");
    hosted_put(h, "Comments", "b1", "1", NULL);
    finds(h, NULL, 1, "Comments b1/1");
    hosted_load(
        h, BLOGS("          - {table: Likes, partition_key: \"{RowKey}\"}\n"));
    hosted_table(h, "Blogs");
    assert_int_equal(hosted_verify(h, "del", NULL, &found), TW_NOT_FOUND);
    assert_non_null(strstr(h->err.text, "Likes"));
    arena_done(&found.arena);
}

HOSTED_TEST(of_a_given_channel_only_its_partition_is_read)
{
    struct job_verification found;

    set_up_tables(h, BLOGS(BOTH));
    hosted_fill(h, "Blogs", "G", 30);
    hosted_fill(h, "Comments", "G", 40);
    hosted_put(h, "Comments", "F", "b1_1", "\"Blog\":\"b1\"");
    assert_ok(hosted_verify(h, "del", "F", &found));
    assert_int_equal(found.read, 3); /* channel, blog and comment */
    arena_done(&found.arena);
}

/* ---- what changes during the verification ---- */

static void insert_blog(struct hosted *h)
{
    hosted_put(h, "Blogs", "F", "b2", NULL);
}

static void remove_comment(struct hosted *h)
{
    hosted_remove(h, "Comments", "b2", "1");
}

TEST(what_is_gone_when_it_is_read_again_is_no_difference)
{
    static void (*const changes[])(struct hosted * h) = {
        insert_blog, remove_comment};

    for (size_t i = 0; TEST_EACH(i, changes); i++) {
        struct hosted h;
        struct script s;

        hosted_begin(&h, BLOGS(BY_KEY), TABLES);
        hosted_put(&h, "Channels", "F", "", NULL);
        hosted_put(&h, "Comments", "b2", "1", NULL);
        script_init(&s, &h);
        finds(&h, NULL, 1, "Comments b2/1");
        script_call(&s, CALL_GET, "Comments", 1, 1)->before = changes[i];
        finds(&h, NULL, 0, NULL);
        hosted_done(&h);
    }
}

HOSTED_TEST(a_stop_ends_it_wherever_it_asks)
{
    enum tw_err outcome = TW_STOPPED;

    set_up_tables(h, BLOGS(BY_KEY));
    hosted_fill(h, "Comments", "gone", 3);
    for (h->stop_after = 0; outcome != TW_OK; h->stop_after++) {
        struct job_verification found;

        h->stopping_calls = 0;
        outcome = hosted_verify(h, "del", NULL, &found);
        if (outcome != TW_OK)
            assert_int_equal(outcome, TW_STOPPED);
        arena_done(&found.arena);
    }
    assert_true(h->stop_after > 8); /* at least one call for each reading */
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
