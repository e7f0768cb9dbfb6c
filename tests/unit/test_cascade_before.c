/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a cascade checks before it writes anything, which properties of
 * the parent its rules may read, and what the run reports if it deleted
 * nothing.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <string.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/embedded/embedded.h"

#define HEAD(name)                                                             \
    name ":\n"                                                                 \
         "    kind: cascade-delete\n"                                          \
         "    args: [channel]\n"                                               \
         "    parent: {table: Channels, partition_key: \"{channel}\", "        \
         "row_key: \"\", tombstone: {Deleted: true}, created: CreatedOn}\n"    \
         "    settle: 0s\n"                                                    \
         "    children:\n"

static const char TWO[] = HEAD("two") "      - {table: Blogs, partition_key: "
                                      "\"{channel}\"}\n"
                                      "      - table: Posts\n"
                                      "        partition_key: \"{channel}\"\n"
                                      "        children:\n"
                                      "          - {table: Likes, "
                                      "partition_key: \"{RowKey}\"}\n";

static const char OPTIONAL[] =
    HEAD("optional") "      - {table: Blogs, partition_key: \"{channel}\"}\n"
                     "      - {table: Old, partition_key: \"{channel}\", "
                     "optional: true}\n"
                     "      - table: Posts\n"
                     "        partition_key: \"{channel}\"\n"
                     "        optional: true\n"
                     "        children:\n"
                     "          - {table: Likes, partition_key: \"{RowKey}\", "
                     "optional: true}\n";

static const char OWNED[] =
    HEAD("owned") "      - {table: Blogs, partition_key: \"{Owner}\", "
                  "row_key_prefix: \"{PartitionKey}_\"}\n"
                  "      - {table: Posts, partition_key: \"{PartitionKey}\"}\n";

/* ---- tables ---- */

TEST(a_missing_table_fails_before_anything_is_touched)
{
    static const char *const tables[] = {"Channels", "Blogs", "Posts", "Likes"};

    for (size_t missing = 1; missing < 4; missing++) {
        struct hosted h;

        hosted_init(&h, TWO);
        for (size_t i = 0; i < 4; i++)
            if (i != missing)
                hosted_table(&h, tables[i]);
        hosted_put(&h, "Channels", "News", "", "\"Name\":\"n\"");
        if (missing != 1)
            hosted_fill(&h, "Blogs", "News", 3);
        assert_int_equal(hosted_run(&h, "two", "News"), RUN_FAILED);
        assert_non_null(strstr(h.err.text, tables[missing]));
        assert_non_null(strstr(h.err.text, "nothing was changed"));
        assert_string_equal(
            hosted_json(&h, "Channels", "News", ""), "{\"Name\":\"n\"}");
        if (missing != 1)
            assert_int_equal(hosted_count(&h, "Blogs"), 3);
        hosted_done(&h);
    }
}

HOSTED_TEST(an_optional_table_may_be_missing)
{
    hosted_begin(h, OPTIONAL, "Channels Blogs");
    hosted_put(h, "Channels", "News", "", NULL);
    hosted_fill(h, "Blogs", "News", 3);
    assert_int_equal(hosted_run(h, "optional", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Blogs"), "");
    assert_string_equal(hosted_dump(h, "Channels"), "");

    /* If the optional table exists, its rule and the rules below are used. */
    hosted_forget(h, "r2");
    hosted_table(h, "Posts");
    hosted_table(h, "Old");
    hosted_put(h, "Channels", "News", "", NULL);
    hosted_put(h, "Posts", "News", "p", NULL);
    hosted_put(h, "Old", "News", "o", NULL);
    assert_int_equal(hosted_run(h, "optional", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Posts"), "");
    assert_string_equal(hosted_dump(h, "Old"), "");
}

HOSTED_TEST(a_dry_run_of_an_optional_table_counts_none)
{
    struct job_estimate estimate;

    hosted_begin(h, OPTIONAL, "Channels Blogs");
    hosted_fill(h, "Blogs", "News", 3);
    assert_ok(hosted_estimate(h, "optional", "News", &estimate));
    assert_int_equal(estimate.tables[0].entities, 3);
    assert_int_equal(estimate.tables[1].entities, 0);
    arena_done(&estimate.arena);
}

/* ---- one table by two stores ---- */

static const char TWICE[] =
    "twice:\n"
    "    kind: cascade-delete\n"
    "    args: [channel]\n"
    "    parent: {table: Channels, store: main, partition_key: "
    "\"{channel}\", row_key: \"\", tombstone: {Deleted: true}}\n"
    "    settle: 0s\n"
    "    children:\n"
    "      - {table: channels, store: second, partition_key: "
    "\"{channel}\"}\n";

static const char BELOW[] =
    "twice:\n"
    "    kind: cascade-delete\n"
    "    args: [channel]\n"
    "    parent: {table: Channels, store: main, partition_key: "
    "\"{channel}\", row_key: \"\", tombstone: {Deleted: true}}\n"
    "    settle: 0s\n"
    "    children:\n"
    "      - table: Blogs\n"
    "        store: main\n"
    "        partition_key: \"{channel}\"\n"
    "        children:\n"
    "          - {table: Blogs, store: second, partition_key: "
    "\"{PartitionKey}\", row_key_prefix: \"{RowKey}_\"}\n";

static struct store *two_stores[2];
static const char *const two_names[] = {"main", "second"};

/* The configuration calls h->store main, and `second` second. */
static void begin_two(
    struct hosted *h, struct store *second, const char *configuration)
{
    two_stores[0] = h->store;
    two_stores[1] = second ? second : h->store;
    h->stores = (struct job_stores){
        .count = 2, .names = two_names, .stores = two_stores};
    hosted_load(h, configuration);
    hosted_put(h, "Channels", "News", "", "\"Name\":\"n\"");
    hosted_put(h, "Channels", "News", "other", NULL);
}

/* The parent was once deleted as its own child, and inserted as a tombstone
 * again, for ever. */
HOSTED_TEST(a_table_may_not_have_two_names)
{
    static const char *const JOBS[] = {TWICE, BELOW};
    struct job_estimate estimate;

    for (size_t i = 0; TEST_EACH(i, JOBS); i++) {
        if (i > 0)
            hosted_done(h);
        hosted_begin(h, TWO, "Channels Blogs");
        begin_two(h, NULL, JOBS[i]);
        assert_int_equal(hosted_run(h, "twice", "News"), RUN_FAILED);
        assert_non_null(
            strstr(h->err.text, "stores main and second are one account"));
        assert_string_equal(
            hosted_json(h, "Channels", "News", ""), "{\"Name\":\"n\"}");
        assert_int_equal(
            hosted_estimate(h, "twice", "News", &estimate), TW_INVALID);
        arena_done(&estimate.arena);
    }
}

/* In another account the entity with the parent's keys is a child. */
HOSTED_TEST(tables_of_one_name_in_two_accounts_are_two_tables)
{
    struct store *second;
    struct exchange exchange = {.deadline = NULL};
    struct store *first;
    struct err err;

    hosted_begin(h, TWO, "Channels");
    assert_ok(embedded_open("second", ":memory:", &second, &err));
    assert_ok(store_create_table(second, &exchange, "Channels"));
    begin_two(h, second, TWICE);
    first = h->store;
    h->store = second;
    hosted_put(h, "Channels", "News", "", NULL);
    h->store = first;
    assert_int_equal(hosted_run(h, "twice", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Channels"), "News/other ");
    h->store = second;
    assert_string_equal(hosted_dump(h, "Channels"), "");
    h->store = first;
    store_close(second);
}

/* ---- the parent's properties ---- */

static void owned_tables(struct hosted *h)
{
    hosted_begin(h, OWNED, "Channels Blogs Posts");
    hosted_put(h, "Blogs", "ann", "News_1", NULL);
    hosted_put(h, "Blogs", "ann", "Sport_1", NULL);
    hosted_put(h, "Blogs", "bob", "News_2", NULL);
    hosted_put(h, "Posts", "News", "p", NULL);
    hosted_put(h, "Posts", "Sport", "p", NULL);
}

HOSTED_TEST(a_first_level_rule_finds_by_the_parents_properties)
{
    owned_tables(h);
    hosted_put(h, "Channels", "News", "", "\"Owner\":\"ann\"");
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Blogs"), "ann/Sport_1 bob/News_2 ");
    assert_string_equal(hosted_dump(h, "Posts"), "Sport/p ");
    assert_string_equal(hosted_dump(h, "Channels"), "");
    assert_int_equal(h->parent_found, 1);
    assert_string_equal(h->note, "");
}

static int64_t stop_at;

/* The tombstone is merged into the parent, so the properties that rules read
 * stay. */
TEST(an_attempt_after_the_tombstone_still_sees_them)
{
    for (stop_at = 0; stop_at < 12; stop_at++) {
        struct hosted h;

        owned_tables(&h);
        hosted_put(&h, "Channels", "News", "", "\"Owner\":\"ann\"");
        h.stop_after = stop_at;
        (void)hosted_attempt(&h, "owned", "News");
        h.stop_after = -1;
        if (stop_at % 2 ==
            1) { /* the attempt crashed before its checkpoint was stored */
            mem_free(h.checkpoint);
            h.checkpoint = NULL;
            h.previous_owner_crashed = true;
        }
        if (h.end != RUN_SUCCEEDED)
            assert_int_equal(hosted_run(&h, "owned", "News"), RUN_SUCCEEDED);
        assert_string_equal(
            hosted_dump(&h, "Blogs"), "ann/Sport_1 bob/News_2 ");
        assert_string_equal(hosted_dump(&h, "Channels"), "");
        hosted_done(&h);
    }
}

HOSTED_TEST(a_property_that_the_parent_lacks_fails_before_anything)
{
    owned_tables(h);
    hosted_put(h, "Channels", "News", "", "\"Name\":\"n\"");
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_FAILED);
    assert_non_null(strstr(h->err.text, "property Owner is missing"));
    assert_string_equal(
        hosted_json(h, "Channels", "News", ""), "{\"Name\":\"n\"}");
    assert_int_equal(hosted_count(h, "Posts"), 2);
}

/* Without the parent, a rule that reads one of its properties cannot be bound:
 * the other rules are used, and the note names the rule that was left out. The
 * run must not fail, because the message may have been delivered twice. */
HOSTED_TEST(without_a_parent_a_rule_that_reads_it_is_left_out)
{
    owned_tables(h);
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(h, "Blogs"), 3);
    assert_string_equal(hosted_dump(h, "Posts"), "Sport/p ");
    assert_string_equal(hosted_dump(h, "Channels"), "");
    assert_int_equal(h->parent_found, 0);
    assert_string_equal(h->note,
        "the parent 'News' / '' in Channels did not exist\n"
        "the rule for Blogs (line 7) was not used, because it reads a property "
        "of the parent\n");
}

HOSTED_TEST(without_a_parent_no_rule_may_be_left)
{
    static const char ONLY[] =
        HEAD("only") "      - {table: Blogs, partition_key: \"{Owner}\"}\n";
    struct job_estimate estimate;

    hosted_begin(h, ONLY, "Channels Blogs");
    hosted_fill(h, "Blogs", "ann", 3);
    assert_ok(hosted_estimate(h, "only", "News", &estimate));
    assert_int_equal(estimate.table_count, 0);
    arena_done(&estimate.arena);
    assert_int_equal(hosted_run(h, "only", "News"), RUN_SUCCEEDED);
    assert_non_null(strstr(h->note, "was not used"));
    assert_non_null(strstr(h->note, "nothing was deleted"));
    assert_int_equal(hosted_count(h, "Blogs"), 3);
    assert_string_equal(hosted_dump(h, "Channels"), "");
}

/* Changes a property of the parent once the first pass has begun. */
static void change_owner(struct hosted *h)
{
    h->saved = NULL;
    hosted_replace(h, "Channels", "News", "",
        "\"Owner\":\"bob\",\"Deleted\":true,\"TablewardRun\":\"owned/r1\"");
}

/* It is unknown whether the children of the old or of the new value are to be
 * deleted: the parent stays, and the run fails with this reason. */
HOSTED_TEST(a_property_that_changes_meanwhile_fails_the_run)
{
    owned_tables(h);
    hosted_put(h, "Channels", "News", "", "\"Owner\":\"ann\"");
    h->saved = change_owner;
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_FAILED);
    assert_non_null(strstr(h->err.text, "Restore the property, then retry"));
    assert_true(hosted_has(h, "Blogs", "bob", "News_2"));
    assert_true(hosted_has(h, "Channels", "News", ""));
    hosted_replace(h, "Channels", "News", "",
        "\"Owner\":\"ann\",\"Deleted\":true,\"TablewardRun\":\"owned/r1\"");
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(h, "Channels"), "");
}

/* Changes the property after the last settle pass, just before the delete of
 * the parent. */
static enum tw_err change_owner_last(struct hosted *h, bool *ret_stored)
{
    h->phasing = NULL;
    change_owner(h);
    *ret_stored = true;
    return TW_OK;
}

HOSTED_TEST(a_property_that_changes_last_keeps_the_parent)
{
    owned_tables(h);
    hosted_put(h, "Channels", "News", "", "\"Owner\":\"ann\"");
    h->phasing = change_owner_last;
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_FAILED);
    assert_non_null(strstr(h->err.text, "Restore the property, then retry"));
    assert_true(hosted_has(h, "Channels", "News", ""));
}

HOSTED_TEST(its_tombstone_gone_it_does_not_guess_the_properties)
{
    owned_tables(h);
    hosted_put(h, "Channels", "News", "", "\"Owner\":\"ann\"");
    h->stop_after = 1;
    assert_int_equal(hosted_attempt(h, "owned", "News"), RUN_STOPPED);
    h->stop_after = -1;
    hosted_remove(h, "Channels", "News", "");
    assert_int_equal(hosted_run(h, "owned", "News"), RUN_FAILED);
    assert_non_null(strstr(h->err.text, "was changed or removed"));
    assert_string_equal(hosted_dump(h, "Channels"), "");
}

/* ---- what is said of a run that did not fail ---- */

static void two_tables(struct hosted *h)
{
    hosted_begin(h, TWO, "Channels Blogs Posts Likes");
}

HOSTED_TEST(an_absent_parent_is_noted)
{
    two_tables(h);
    hosted_fill(h, "Blogs", "News", 3);
    assert_int_equal(hosted_run(h, "two", "News"), RUN_SUCCEEDED);
    assert_int_equal(h->parent_found, 0);
    assert_int_equal(h->deleted, 3); /* the children; the tombstone that the run
                                       inserted is not counted */
    assert_string_equal(
        h->note, "the parent 'News' / '' in Channels did not exist\n");
    hosted_forget(h, "r2");
    assert_int_equal(hosted_run(h, "two", "News"), RUN_SUCCEEDED);
    assert_string_equal(h->note,
        "the parent 'News' / '' in Channels did not exist\n"
        "nothing was deleted: no rule found an entity\n");
}

HOSTED_TEST(a_parent_without_children_is_no_news)
{
    two_tables(h);
    hosted_put(h, "Channels", "News", "", NULL);
    assert_int_equal(hosted_run(h, "two", "News"), RUN_SUCCEEDED);
    assert_int_equal(h->parent_found, 1);
    assert_int_equal(h->deleted, 1);
    assert_string_equal(h->note, "");
}

HOSTED_TEST(a_newer_parent_is_noted)
{
    char time[TEXT_TIME_MAX];
    char *created;

    two_tables(h);
    created = mem_format(
        "\"CreatedOn@odata.type\":\"Edm.DateTime\",\"CreatedOn\":\"%s\"",
        text_from_ticks(h->requested_ticks + TICKS_PER_S, time));
    hosted_put(h, "Channels", "News", "", created);
    hosted_fill(h, "Blogs", "News", 3);
    assert_int_equal(hosted_run(h, "two", "News"), RUN_SUCCEEDED);
    assert_int_equal(h->parent_found, 1);
    assert_non_null(strstr(h->note, "was created after the request"));
    assert_int_equal(hosted_count(h, "Blogs"), 3);
    mem_free(created);
}

/* The same if an ended run has marked the parent: that tombstone does not make
 * it the parent that was to be deleted. */
HOSTED_TEST(a_newer_parent_that_another_run_marked_is_left)
{
    char time[TEXT_TIME_MAX];
    char *created;

    two_tables(h);
    created = mem_format(
        "\"CreatedOn@odata.type\":\"Edm.DateTime\",\"CreatedOn\":\"%s\","
        "\"Deleted\":true,\"TablewardRun\":\"two/r0\"",
        text_from_ticks(h->requested_ticks + TICKS_PER_S, time));
    hosted_put(h, "Channels", "News", "", created);
    assert_int_equal(hosted_run(h, "two", "News"), RUN_SUCCEEDED);
    assert_true(hosted_has(h, "Channels", "News", ""));
    assert_non_null(strstr(h->note, "was created after the request"));
    mem_free(created);
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
