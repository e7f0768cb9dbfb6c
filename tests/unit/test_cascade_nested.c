/* SPDX-License-Identifier: MIT */
/*
 * Goal: verify evaluates rules backwards, also those below other rules, and
 * finds entities whose entity above does not exist. If a rule cannot be
 * evaluated backwards, verify says so.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/cascade_job.h"
#include "tests/support/script.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"

#define TABLES "Channels Blogs Comments Likes News TablewardRuns"

/* A job with one first-level rule. children: the rules below that rule, each
 * made with CHILD(); the first one is in line 10. */
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

#define BLOGS(children) BLOGS_WITH(BY_CHANNEL, children)
#define CHILD(table, by) "          - " RULE(table, by) "\n"
#define FIRST_LEVEL(table, by) "      - " RULE(table, by) "\n"

#define BY_KEY CHILD("Comments", BY_ROW_KEY)

static void set_up_tables(struct hosted *h, const char *configuration)
{
    hosted_restart(h, configuration, TABLES);
    hosted_rows(h, "Channels F/; Blogs F/b1");
}

/* Inserts rows (as of hosted_rows()) and verifies this channel (NULL: all);
 * fails unless there are `orphans` orphans, of which `first` is the first.
 * Returns the note, in h->arena, or NULL. */
static const char *finds(struct hosted *h, const char *rows,
    const char *channel, int64_t orphans, const char *first)
{
    struct job_verification found;
    const char *note;

    hosted_rows(h, rows);
    if (hosted_verify(h, "del", channel, &found) != TW_OK)
        fail_msg("%s", h->err.text);
    assert_int_equal(found.differences[1].count, orphans);
    if (first)
        assert_string_equal(found.differences[1].first_keys[0], first);
    note = found.note ? arena_copy(&h->arena, slice_of(found.note)).at : NULL;
    arena_done(&found.arena);
    return note;
}

static void refuses(struct hosted *h, enum tw_err outcome, const char *why)
{
    struct job_verification found;

    assert_int_equal(hosted_verify(h, "del", NULL, &found), outcome);
    hosted_check_why(h, why);
    arena_done(&found.arena);
}

HOSTED_TEST(a_row_key_above_that_does_not_exist_is_found)
{
    set_up_tables(h, BLOGS(BY_KEY));
    hosted_fill(h, "Blogs", "F", 1200);
    hosted_fill(h, "Comments", "b00000", 3);
    hosted_fill(h, "Comments", "b01199", 3);
    assert_null(finds(h, "Comments b1/1", NULL, 0, NULL));
    assert_null(finds(h, "", "F", 0, NULL));
    hosted_fill(h, "Comments", "gone", 7);
    assert_null(finds(h, "Comments b2/late", NULL, 8, "Comments b2/late"));
    assert_null(finds(h, "", "F", 8, "Comments b2/late"));
}

/* BOTH: a rule with a prefix and a filter, as in README.md. */
#define OF_BLOG ", filter: \"Blog eq '{RowKey}'\""
#define BOTH CHILD("Comments", BY_PREFIX OF_BLOG)

HOSTED_TEST(both_keys_above_are_told_by_key_and_property)
{
    set_up_tables(h, BLOGS(BOTH));
    hosted_rows(h, "Channels G/; Blogs G/b2; "
                   "Comments F/b1_1(Blog=b1) G/b2_1(Blog=b2)");
    /* The rule selects none of these for any blog: Blog is missing, or is not
     * the b3 of RowKey, or is no text. */
    hosted_rows(h, "Comments G/b3_1 G/x_1(Blog=b3)");
    hosted_put(h, "Comments", "G", "b4_1", "\"Blog\":4");
    finds(h, "", NULL, 0, NULL);
    finds(h, "Comments F/b2_1(Blog=b2) G/b1_1(Blog=b1)", NULL, 2,
        "Comments F/b2_1");
    finds(h, "", "F", 1, "Comments F/b2_1");
    finds(h, "", "G", 1, "Comments G/b1_1");
    finds(h, "", "H", 0, NULL);
}

HOSTED_TEST(of_a_prefix_any_entity_above_will_do)
{
    set_up_tables(h, BLOGS(CHILD("Comments", BY_PREFIX)));
    /* The rule selects F/b1 for no blog, because its RowKey has no "_". */
    finds(h, "Comments F/b1_x_1 F/b1", NULL, 0, NULL);
    finds(h, "Comments F/b2_x_1", NULL, 1, "Comments F/b2_x_1");
    finds(h, "Blogs F/b2_x", NULL, 0, NULL);
    finds(h, "Comments G/b2_x_1", NULL, 1, "Comments G/b2_x_1");
}

/* A key may be empty, but an argument may not. */
HOSTED_TEST(an_empty_key_above_is_a_prefix_too)
{
    set_up_tables(
        h, BLOGS(CHILD("Comments", BY_PREFIX)) FIRST_LEVEL("Comments",
               "partition_key_prefix: \"{channel}_\", filter: \"Of eq "
               "'channel'\""));
    finds(h, "Comments F/_1", NULL, 1, "Comments F/_1");
    finds(h, "Blogs F/", NULL, 0, NULL);
    finds(h, "Comments _/_1(Of=channel)", NULL, 1, "Comments _/_1");
}

HOSTED_TEST(a_property_above_is_compared_by_its_text)
{
    set_up_tables(h, BLOGS(CHILD("Comments", "filter: \"Of eq '{Number}'\"")
                             CHILD("Likes", "row_key: \"{Name}\"")));
    hosted_put(h, "Blogs", "F", "b7", "\"Number\":7,\"Name\":\"seven\"");
    hosted_put(h, "Comments", "a", "2", "\"Of\":7");
    finds(h, "Comments a/1(Of=7); Likes a/seven", NULL, 0, NULL);
    finds(h, "Comments a/3(Of=8); Likes a/eight", NULL, 2, "Comments a/3");
}

HOSTED_TEST(each_level_is_checked)
{
    set_up_tables(
        h, BLOGS("          - " RULE_WITH("Comments", BY_ROW_KEY,
               RULE("Likes",
                   "partition_key: \"{PartitionKey}\", filter: \"Comment eq "
                   "'{RowKey}'\"")) "\n"));
    finds(h, "Comments b1/c1; Likes b1/1(Comment=c1)", NULL, 0, NULL);
    finds(h, "Likes b1/2(Comment=c2)", NULL, 1, "Likes b1/2");
    hosted_remove(h, "Comments", "b1", "c1");
    finds(h, "", NULL, 2, "Likes b1/1");
}

/* The entity above must be one that the rule above selects. */
HOSTED_TEST(an_entity_that_the_rule_above_leaves_out_is_no_parent)
{
    set_up_tables(
        h, BLOGS_WITH("filter: \"Type eq 'blog'\\nand Channel eq '{channel}'\"",
               BY_KEY));
    hosted_rows(h, "Channels G/; Blogs F/b2(Type=blog,Channel=F) "
                   "F/b3(Type=poll,Channel=F) G/b4(Type=blog,Channel=G)");
    finds(h, "Comments b2/1 b4/1", NULL, 0, NULL);
    finds(h, "", "F", 0, NULL); /* the comments of G belong to a blog */
    finds(h, "Comments b1/1 b3/1", NULL, 2, "Comments b1/1");
    finds(h, "", "F", 2, "Comments b1/1");
}

HOSTED_TEST(an_argument_in_a_rule_below_is_told_or_asked_for)
{
    set_up_tables(h, BLOGS(CHILD("Comments", BY_CHANNEL OF_BLOG)));
    finds(h, "Comments F/1(Blog=b1) F/2(Blog=b2) G/3(Blog=b2)", NULL, 2,
        "Comments F/2");
    finds(h, "", "G", 1, "Comments G/3");
    hosted_load(h, BLOGS(CHILD("Comments",
                       "partition_key: \"{lower(channel)}\"" OF_BLOG)));
    refuses(h, TW_CONFLICT,
        "the rule for Comments (line 10) does not show which channel an entity "
        "belongs to: use `verify del channel=VALUE`");
    finds(h, "", "f", 0, NULL);
    finds(h, "Comments f/4(Blog=b2)", "F", 1, "Comments f/4");
}

HOSTED_TEST(a_rule_that_cannot_be_read_backwards_is_named)
{
    static const char *const RULES[] = {
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

    for (size_t i = 0; TEST_EACH(i, RULES); i++) {
        char *configuration =
            mem_format("%s          - {table: Comments, %s}\n%s", BLOGS(""),
                RULES[i], CHILD("Likes", BY_ROW_KEY));
        const char *note;

        set_up_tables(h, configuration);
        note = finds(
            h, "Comments x/c9_1(A=b9); Likes b9/1", NULL, 1, "Likes b9/1");
        assert_non_null(note);
        assert_string_equal(note,
            "these rules are not verified, because their entities do not "
            "show which entity is above them: Comments (line 10)");
        mem_free(configuration);
    }
}

HOSTED_TEST(a_parent_by_another_rule_is_a_parent)
{
    /* Comments of blogs and of news, in one table. */
    set_up_tables(h, BLOGS(BY_KEY) "      - " RULE_WITH("News", BY_CHANNEL,
                         RULE("Comments", BY_ROW_KEY)) "\n");
    finds(h, "News F/n1; Comments b1/1 n1/1", NULL, 0, NULL);
    /* Comment x1/1 is counted once, and not for each rule. */
    finds(h, "Comments x1/1", NULL, 1, "Comments x1/1");
    hosted_load(h, BLOGS(BY_KEY) FIRST_LEVEL("Comments", BY_CHANNEL));
    /* Comment F/1 is counted once, by the first-level rule. */
    finds(h, "Comments F/1", NULL, 3, "Comments b1/1");
}

/* It may be unknown whether another rule has a parent for an entity. Then the
 * entity is not counted, and the result says so. */
HOSTED_TEST(an_entity_that_an_unread_rule_may_find_is_left_out)
{
    const char *note;

    set_up_tables(h, BLOGS(BY_KEY) FIRST_LEVEL(
                         "Comments", "partition_key: \"{lower(channel)}\""));
    assert_null(finds(h, "", "F", 0, NULL));
    note = finds(h, "Comments x1/1", "F", 0, NULL);
    assert_non_null(note);
    assert_non_null(strstr(note, "entity is above them: Comments (line 10)"));
}

/* A property of the children may have the same name as an argument. */
HOSTED_TEST(a_word_in_a_filter_is_no_argument)
{
    set_up_tables(
        h, BLOGS(CHILD("Comments",
               "filter: \"channel eq '{RowKey}' and Kind eq 'channel'\"")));
    finds(h, "Comments x/1(channel=b1,Kind=channel)", NULL, 0, NULL);
    finds(h, "Comments x/2(channel=b2,Kind=channel)", NULL, 1, "Comments x/2");
}

/* One rule finds entities of a table under other entities of the same
 * table. */
HOSTED_TEST(a_family_of_one_table_is_checked)
{
    set_up_tables(h,
        BLOGS_WITH("filter: \"Kind eq 'root' and Channel eq '{channel}'\"",
            CHILD("Blogs",
                "partition_key: \"{PartitionKey}\", filter: \"Up eq '{RowKey}' "
                "and Kind eq 'node'\"")));
    finds(
        h, "Blogs F/r(Kind=root,Channel=F) F/n(Kind=node,Up=r)", NULL, 0, NULL);
    /* F/n2 is under itself, and F/n3 under an entity that is no root. */
    finds(h, "Blogs F/n2(Kind=node,Up=n2) F/n3(Kind=node,Up=n)", NULL, 2,
        "Blogs F/n2");
    hosted_load(h, BLOGS(CHILD("Blogs", BY_PREFIX)));
    finds(h, "Blogs F/x_1", NULL, 0, NULL); /* a blog of the channel */
}

HOSTED_TEST(a_parent_is_under_no_entity)
{
    set_up_tables(h, BLOGS(CHILD("Channels", BY_ROW_KEY)));
    assert_null(finds(h, "Channels b1/x G/", NULL, 0, NULL));
    assert_null(finds(h, "Channels b2/x", NULL, 1, "Channels b2/x"));
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
        "        children:\n" CHILD("Channels", BY_ROW_KEY));
    note = finds(h, "Channels b1/b1", NULL, 0, NULL);
    assert_non_null(note);
    assert_non_null(strstr(note, "entity is above them: Channels (line 10)"));
}

HOSTED_TEST(a_missing_optional_table_is_empty)
{
    hosted_begin(h,
        BLOGS_WITH(BY_CHANNEL "\n        optional: true",
            BY_KEY CHILD("Likes", BY_ROW_KEY ", optional: true")),
        "Channels Comments");
    finds(h, "Comments b1/1", NULL, 1, "Comments b1/1");
    hosted_load(h, BLOGS(CHILD("Likes", BY_ROW_KEY)));
    hosted_table(h, "Blogs");
    refuses(h, TW_NOT_FOUND, "Likes");
}

HOSTED_TEST(of_a_given_channel_only_its_partition_is_read)
{
    struct job_verification found;

    set_up_tables(h, BLOGS(BOTH));
    hosted_fill(h, "Blogs", "G", 30);
    hosted_fill(h, "Comments", "G", 40);
    hosted_rows(h, "Comments F/b1_1(Blog=b1)");
    assert_ok(hosted_verify(h, "del", "F", &found));
    assert_int_equal(found.read, 3); /* channel, blog and comment */
    arena_done(&found.arena);
}

/* ---- what changes during the verification ---- */

static void insert_blog(struct hosted *h)
{
    hosted_rows(h, "Blogs F/b2");
}

static void remove_comment(struct hosted *h)
{
    hosted_remove(h, "Comments", "b2", "1");
}

HOSTED_TEST(what_is_gone_when_it_is_read_again_is_no_difference)
{
    static void (*const CHANGES[])(struct hosted * h) = {
        insert_blog, remove_comment};

    for (size_t i = 0; TEST_EACH(i, CHANGES); i++) {
        static struct script s;

        set_up_tables(h, BLOGS(BY_KEY));
        hosted_rows(h, "Comments b2/1");
        script_init(&s, h);
        finds(h, "", NULL, 1, "Comments b2/1");
        script_call(&s, CALL_GET, "Comments", 1, 1)->before = CHANGES[i];
        finds(h, "", NULL, 0, NULL);
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
    assert_true(h->stop_after > 8); /* at least one check for a stop for each
                                       read */
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
