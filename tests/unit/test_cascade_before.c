/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a cascade checks before it writes anything, which properties of
 * the parent its rules may read, and what the run reports if it deleted
 * nothing.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include "tests/support/cascade_job.h"
#include "worker/base/log.h"
#include "worker/store/embedded/embedded.h"

static const char TWO[] = CASCADE_JOB("two", "settle: 0s",
    RULES(RULE("Blogs", BY_CHANNEL),
        RULE_WITH("Posts", BY_CHANNEL, RULE("Likes", BY_ROW_KEY))));

#define OR_NONE ", optional: true"

static const char OPTIONAL[] = CASCADE_JOB("optional", "settle: 0s",
    RULES(RULE("Blogs", BY_CHANNEL),
        RULES(RULE("Old", BY_CHANNEL OR_NONE),
            RULE_WITH("Posts", BY_CHANNEL OR_NONE,
                RULE("Likes", BY_ROW_KEY OR_NONE)))));

static const char OWNED[] = CASCADE_JOB("owned", "settle: 0s",
    RULES(
        RULE("Blogs",
            "partition_key: \"{Owner}\", row_key_prefix: \"{PartitionKey}_\""),
        RULE("Posts", IN_PARTITION)));

/* ---- tables ---- */

HOSTED_TEST(a_missing_table_fails_before_anything_is_touched)
{
    static const struct {
        const char *missing, *tables, *rows;
    } CASES[] = {
        {"Blogs", "Channels Posts Likes", ""},
        {"Posts", "Channels Blogs Likes", "Blogs News/1 News/2"},
        {"Likes", "Channels Blogs Posts", "Blogs News/1 News/2"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        hosted_restart(h, TWO, CASES[i].tables);
        hosted_rows(h, "Channels News/(Name=n)");
        hosted_rows(h, CASES[i].rows);
        hosted_fails(h, "two", "News", CASES[i].missing, CASES[i].rows);
        hosted_check_why(h, "nothing was changed");
        assert_string_equal(
            hosted_json(h, "Channels", "News", ""), "{\"Name\":\"n\"}");
    }
}

HOSTED_TEST(the_parents_table_may_not_be_missing)
{
    hosted_begin(h, TWO, "Blogs Posts Likes");
    hosted_fails(h, "two", "News", "Channels", "");
}

HOSTED_TEST(an_optional_table_may_be_missing)
{
    struct job_estimate estimate;

    hosted_begin(h, OPTIONAL, "Channels Blogs");
    hosted_rows(h, "Channels News/; Blogs News/1 News/2");
    assert_ok(hosted_estimate(h, "optional", "News", &estimate));
    assert_int_equal(estimate.tables[0].entities, 2);
    assert_int_equal(estimate.tables[1].entities, 0);
    arena_done(&estimate.arena);
    hosted_succeeds(h, "optional", "News", "Channels; Blogs");

    /* If the optional table exists, its rule and the rules below are used. */
    hosted_forget(h, "r2");
    hosted_table(h, "Posts");
    hosted_table(h, "Old");
    hosted_rows(h, "Channels News/; Posts News/p; Old News/o");
    hosted_succeeds(h, "optional", "News", "Posts; Old");
}

/* ---- one table by two stores ---- */

#define TWICE_HEAD                                                             \
    "twice:\n"                                                                 \
    "    kind: cascade-delete\n"                                               \
    "    args: [channel]\n"                                                    \
    "    parent: {table: Channels, store: main, partition_key: "               \
    "\"{channel}\", row_key: \"\", tombstone: {Deleted: true}}\n"              \
    "    settle: 0s\n"

static const char TWICE[] = TWICE_HEAD
    "    children: [" RULE("channels", "store: second, " BY_CHANNEL) "]\n";

static const char BELOW[] =
    TWICE_HEAD "    children: [" RULE_WITH("Blogs", "store: main, " BY_CHANNEL,
        RULE("Blogs", "store: second, " BY_PREFIX)) "]\n";

static struct store *two_stores[2];
static const char *const two_names[] = {"main", "second"};

/* Loads a job whose stores are h->store, called main, and `second` (NULL:
 * h->store), called second. */
static void begin_two(
    struct hosted *h, struct store *second, const char *configuration)
{
    two_stores[0] = h->store;
    two_stores[1] = second ? second : h->store;
    h->stores = (struct job_stores){
        .count = 2, .names = two_names, .stores = two_stores};
    hosted_load(h, configuration);
    hosted_rows(h, "Channels News/(Name=n) News/other");
}

/* The parent used to be deleted as its own child, and inserted as a tombstone
 * again, for ever. */
HOSTED_TEST(a_table_may_not_have_two_names)
{
    static const char *const JOBS[] = {TWICE, BELOW};
    struct job_estimate estimate;

    for (size_t i = 0; TEST_EACH(i, JOBS); i++) {
        hosted_restart(h, TWO, "Channels Blogs");
        begin_two(h, NULL, JOBS[i]);
        hosted_fails(
            h, "twice", "News", "stores main and second are one account", "");
        assert_string_equal(
            hosted_json(h, "Channels", "News", ""), "{\"Name\":\"n\"}");
        assert_int_equal(
            hosted_estimate(h, "twice", "News", &estimate), TW_INVALID);
        arena_done(&estimate.arena);
    }
}

/* An entity with the parent's keys in another account is not the parent, but a
 * child. */
HOSTED_TEST(tables_of_one_name_in_two_accounts_are_two_tables)
{
    struct exchange exchange = {.deadline = NULL};
    struct store *first, *second;
    struct err err;

    hosted_begin(h, TWO, "Channels");
    assert_ok(embedded_open("second", ":memory:", &second, &err));
    assert_ok(store_create_table(second, &exchange, "Channels"));
    begin_two(h, second, TWICE);
    first = h->store;
    h->store = second;
    hosted_rows(h, "Channels News/");
    h->store = first;
    hosted_succeeds(h, "twice", "News", "Channels News/other");
    h->store = second;
    hosted_check(h, "Channels");
    h->store = first;
    store_close(second);
}

/* ---- the parent's properties ---- */

#define ANN "\"Owner\":\"ann\""
#define DONE_BY_ANN "Blogs ann/Sport_1 bob/News_2; Posts Sport/p; Channels"

/* Creates the tables of job owned, with blogs and posts. parent: the properties
 * of the cascade's parent, the channel News; NULL: the parent does not exist.
 */
static void owned_tables(struct hosted *h, const char *parent)
{
    hosted_restart(h, OWNED, "Channels Blogs Posts");
    hosted_rows(h, "Blogs ann/News_1 ann/Sport_1 bob/News_2; "
                   "Posts News/p Sport/p");
    if (parent)
        hosted_put(h, "Channels", "News", "", parent);
}

/* The tombstone is merged into the parent, so the parent keeps the properties
 * that rules read. */
HOSTED_TEST(an_attempt_after_the_tombstone_still_sees_them)
{
    for (int stop = 0; stop < 12; stop++) {
        owned_tables(h, ANN);
        h->stop_after = stop;
        (void)hosted_attempt(h, "owned", "News");
        h->stop_after = -1;
        if (stop % 2 ==
            1) { /* the attempt crashed before its checkpoint was stored */
            hosted_lose_checkpoint(h);
            h->previous_owner_crashed = true;
        }
        if (h->end != RUN_SUCCEEDED)
            hosted_succeeds(h, "owned", "News", "");
        hosted_check(h, DONE_BY_ANN);
    }
}

HOSTED_TEST(a_property_that_the_parent_lacks_fails_before_anything)
{
    owned_tables(h, "\"Name\":\"n\"");
    hosted_fails(h, "owned", "News", "property Owner is missing", "Posts 2");
    assert_string_equal(
        hosted_json(h, "Channels", "News", ""), "{\"Name\":\"n\"}");
}

/* If the parent does not exist, a rule that reads a property of the parent
 * cannot be bound. The other rules are used, and the note names the rule that
 * was left out. The run must not fail, because the message may have been
 * delivered twice. */
HOSTED_TEST(without_a_parent_a_rule_that_reads_it_is_left_out)
{
    owned_tables(h, NULL);
    hosted_succeeds(h, "owned", "News", "Blogs 3; Posts Sport/p; Channels");
    assert_int_equal(h->parent_found, 0);
    assert_int_equal(h->deleted, 1); /* the post; the tombstone that the run
                                        inserted is not counted */
    assert_string_equal(h->note,
        "the parent 'News' / '' in Channels did not exist\n"
        "the rule for Blogs (line 6) was not used, because it reads a property "
        "of the parent\n");
}

HOSTED_TEST(without_a_parent_no_rule_may_be_left)
{
    struct job_estimate estimate;

    hosted_begin(h,
        CASCADE_JOB(
            "only", "settle: 0s", RULE("Blogs", "partition_key: \"{Owner}\"")),
        "Channels Blogs");
    hosted_fill(h, "Blogs", "ann", 3);
    assert_ok(hosted_estimate(h, "only", "News", &estimate));
    assert_int_equal(estimate.table_count, 0);
    arena_done(&estimate.arena);
    hosted_succeeds(h, "only", "News", "Blogs 3; Channels");
    hosted_check_note(h, "was not used");
    hosted_check_note(h, "nothing was deleted: no rule found an entity");
}

/* Changes a property of the parent after the first pass has begun. */
static void change_owner(struct hosted *h)
{
    h->saved = NULL;
    hosted_replace(
        h, "Channels", "News", "", "\"Owner\":\"bob\"," MARK("owned/r1"));
}

/* It is unknown whether the children of the old or of the new value are to be
 * deleted: the parent stays, and the run fails with this reason. */
HOSTED_TEST(a_property_that_changes_meanwhile_fails_the_run)
{
    owned_tables(h, ANN);
    h->saved = change_owner;
    hosted_fails(h, "owned", "News", "Restore the property, then retry",
        "Channels News/");
    assert_true(hosted_has(h, "Blogs", "bob", "News_2"));
    hosted_replace(h, "Channels", "News", "", ANN "," MARK("owned/r1"));
    hosted_succeeds(h, "owned", "News", "Channels");
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
    owned_tables(h, ANN);
    h->phasing = change_owner_last;
    hosted_fails(h, "owned", "News", "Restore the property, then retry",
        "Channels News/");
}

HOSTED_TEST(its_tombstone_gone_it_does_not_guess_the_properties)
{
    owned_tables(h, ANN);
    h->stop_after = 1;
    assert_int_equal(hosted_attempt(h, "owned", "News"), RUN_STOPPED);
    h->stop_after = -1;
    hosted_remove(h, "Channels", "News", "");
    hosted_fails(
        h, "owned", "News", "has another value or is gone", "Channels");
}

/* ---- notes of runs that did not fail ---- */

static void two_tables(struct hosted *h)
{
    hosted_restart(h, TWO, "Channels Blogs Posts Likes");
}

HOSTED_TEST(a_parent_without_children_is_no_news)
{
    two_tables(h);
    hosted_rows(h, "Channels News/");
    hosted_succeeds(h, "two", "News", "");
    assert_int_equal(h->parent_found, 1);
    assert_int_equal(h->deleted, 1);
    assert_string_equal(h->note, "");
}

/* A parent that is newer than the request is not deleted, and the note says so.
 * The tombstone of a run that has ended does not make it the parent that was to
 * be deleted. */
HOSTED_TEST(a_newer_parent_is_noted)
{
    static const char *const MARKS[] = {NULL, MARK("two/r0")};

    for (size_t i = 0; TEST_EACH(i, MARKS); i++) {
        two_tables(h);
        cascade_put_created(h, 1, MARKS[i]);
        hosted_fill(h, "Blogs", "News", 3);
        hosted_succeeds(h, "two", "News", "Channels News/; Blogs 3");
        assert_int_equal(h->parent_found, 1);
        hosted_check_note(h, "was created after the request");
    }
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
