/* SPDX-License-Identifier: MIT */
/*
 * Goal: by evaluating rules backwards, verify finds children without a parent
 * and parents that are left with a tombstone. It writes nothing.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/cascade_job.h"
#include "tests/support/script.h"
#include "worker/base/log.h"
#include "worker/store/request_pool.h"

#define SUBSCRIPTIONS(filter) RULE("Subscriptions", "filter: \"" filter "\"")

static const char ALL[] = CASCADE_JOB("all", "settle: 0s",
    RULES(RULES(RULE("Blogs", BY_CHANNEL),
              RULE("ByMonth", "partition_key_prefix: \"{channel}_\"")),
        RULES(SUBSCRIPTIONS("Active eq true and Channel eq '{channel}'"),
            RULE("Old", BY_CHANNEL ", optional: true"))));

static const char ODD[] = CASCADE_JOB("odd", "settle: 0s",
    RULES(RULE("Blogs", "partition_key: \"{lower(channel)}\""),
        RULE("Owned", "partition_key: \"{Owner}\"")));

static void set_up_tables(struct hosted *h, const char *configuration)
{
    hosted_restart(h, configuration,
        "Channels Blogs ByMonth Subscriptions Owned TablewardRuns");
}

static int asked, stop_at = -1; /* the call of stops() that returns true; -1:
                                   none */

static bool stops(struct run *run)
{
    return asked++ == stop_at;
}

static const struct run_callbacks HOST = {.stopping = stops};

static enum tw_err verify_args(struct hosted *h, const struct run_args *args,
    struct store *ledger, struct job_verification *ret)
{
    const struct job *job = &h->jobs.list[0];
    struct run run = {.job = job->name,
        .args = *args,
        .pool_client = pool_client_new(h->request_pool, NULL),
        .ledger = ledger,
        .ledger_table = "TablewardRuns",
        .callbacks = &HOST,
        .owner = h};
    enum tw_err outcome;

    *ret = (struct job_verification){.count = 0};
    arena_init(&ret->arena);
    outcome = job->kind->verify(job, &h->stores, &run, ret, &h->err);
    pool_client_free(run.pool_client);
    return outcome;
}

/* channel: the argument; NULL: it is not given. */
static enum tw_err verify(
    struct hosted *h, const char *channel, struct job_verification *ret)
{
    struct slice name = slice_of("channel");
    struct slice value = channel ? slice_of(channel) : (struct slice){0};

    return verify_args(h, &(struct run_args){1, &name, &value}, h->store, ret);
}

/* Inserts rows (as of hosted_rows()) and verifies; fails unless this number of
 * tombstones and of orphans is found. first: keys of the first tombstone; if
 * there is none, of the first orphan. */
static void finds(struct hosted *h, const char *rows, const char *channel,
    int64_t tombstones, int64_t orphans, const char *first)
{
    struct job_verification found;

    hosted_rows(h, rows);
    if (verify(h, channel, &found) != TW_OK)
        fail_msg("%s", h->err.text);
    assert_int_equal(found.count, 2);
    assert_string_equal(
        found.differences[0].what, "parents left with a tombstone");
    assert_string_equal(found.differences[1].what, "children without a parent");
    assert_int_equal(found.differences[0].count, tombstones);
    assert_int_equal(found.differences[1].count, orphans);
    if (first)
        assert_string_equal(
            found.differences[tombstones > 0 ? 0 : 1].first_keys[0], first);
    arena_done(&found.arena);
}

static void refuses(struct hosted *h, enum tw_err outcome, const char *why)
{
    struct job_verification found;

    assert_int_equal(verify(h, NULL, &found), outcome);
    hosted_check_why(h, why);
    arena_done(&found.arena);
}

HOSTED_TEST(children_with_a_parent_are_no_difference)
{
    set_up_tables(h, ALL);
    hosted_put(
        h, "Subscriptions", "u", "1", "\"Channel\":\"News\",\"Active\":true");
    finds(h, "Channels News/; Blogs News/1 News/2; ByMonth News_1/x", NULL, 0,
        0, NULL);
    finds(h, "", "News", 0, 0, NULL);
}

HOSTED_TEST(children_without_a_parent_are_found_by_each_rule)
{
    set_up_tables(h, ALL);
    hosted_fill(h, "Blogs", "News", 1200);
    /* Sport/x is not the parent Sport, whose RowKey is empty. */
    finds(h, "Channels News/ Sport/x; Blogs Sport/1 Sport/2", NULL, 0, 2,
        "Blogs Sport/1");
    hosted_put(
        h, "Subscriptions", "u", "1", "\"Channel\":\"Gone\",\"Active\":true");
    hosted_put(h, "Subscriptions", "u", "2",
        "\"Channel\":\"Gone\",\"Active\":false"); /* the rule's filter does not
                                                     select it */
    finds(h, "ByMonth Gone_1/x", NULL, 0, 4, "Blogs Sport/1");
    finds(h, "", "Gone", 0, 2, "ByMonth Gone_1/x");
    finds(h, "", "News", 0, 0, NULL);
}

#define FILTERED(filter) CASCADE_JOB("all", "settle: 0s", SUBSCRIPTIONS(filter))

/* Blanks, line breaks and parentheses in the filter do not matter. The rule can
 * be evaluated backwards only if each entity that the filter selects has the
 * channel. */
HOSTED_TEST(children_are_found_however_the_filter_is_written)
{
    static const struct {
        const char *job;
        bool shows_channel;
    } CASES[] = {
        {FILTERED("Type eq 'sub' and Channel eq '{channel}'"), true},
        {FILTERED("Type eq 'sub'\\nand Channel eq '{channel}'"), true},
        {FILTERED("Type eq 'sub'  and  Channel\\teq '{channel}'"), true},
        {FILTERED("(Type eq 'sub')and(Channel eq '{channel}')"), true},
        {FILTERED("(Type eq 'sub' or Type eq 'x') and Channel eq '{channel}'"),
            true},
        {FILTERED("Type eq 'sub'\\nor Channel eq '{channel}'"), false},
        {FILTERED("Type eq 'sub' and not\\n(Channel eq '{channel}')"), false},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        set_up_tables(h, CASES[i].job);
        hosted_rows(h, "Subscriptions u/1(Channel=Gone,Type=sub)");
        if (CASES[i].shows_channel)
            finds(h, "", NULL, 0, 1, NULL);
        else
            refuses(h, TW_CONFLICT, "");
    }
}

/* "Foot_ball_1" belongs to Foot_ball or, if that parent does not exist, to
 * Foot. */
HOSTED_TEST(of_a_prefix_the_longest_parent_that_exists_wins)
{
    set_up_tables(h, ALL);
    finds(h, "ByMonth Foot_ball_1/x", NULL, 0, 1, "ByMonth Foot_ball_1/x");
    finds(h, "Channels Foot/", NULL, 0, 0, NULL);
    hosted_remove(h, "Channels", "Foot", "");
    finds(h, "Channels Foot_ball/", NULL, 0, 0, NULL);
    finds(h, "ByMonth Foot_1/x", NULL, 0, 1, "ByMonth Foot_1/x");
}

HOSTED_TEST(a_tombstone_of_no_open_run_is_found)
{
    set_up_tables(h, ALL);
    hosted_put(h, "Channels", "News", "", MARK("all/r9"));
    /* A tombstone of the application itself, without TablewardRun, is not
     * counted. */
    hosted_put(h, "Channels", "Sport", "", "\"Deleted\":true");
    finds(h, "", NULL, 1, 0, "Channels News/");
    finds(h, "TablewardRuns all/r9(State=waiting)", NULL, 0, 0, NULL);
    hosted_replace(h, "TablewardRuns", "all", "r9", "\"State\":\"failed\"");
    finds(h, "", NULL, 1, 0, "Channels News/");
}

HOSTED_TEST(what_cannot_be_read_backwards_wants_the_argument)
{
    struct job_verification found;

    set_up_tables(h, ODD);
    hosted_rows(h, "Blogs news/b");
    refuses(h, TW_CONFLICT,
        "the rule for Blogs (line 6) does not show which channel "
        "an entity belongs to: use `verify odd channel=VALUE`");
    finds(h, "", "News", 0, 1, "Blogs news/b");
    assert_ok(verify(h, "News", &found));
    assert_non_null(strstr(found.note, "read properties of the parent"));
    arena_done(&found.arena);
    finds(h, "Channels News/", "News", 0, 0, NULL);
}

/* A job with two arguments, which are derived from two places of each child. */
#define TWO(partition_key, row_key, rules)                                     \
    "two:\n"                                                                   \
    "    kind: cascade-delete\n"                                               \
    "    args: [a, ab]\n"                                                      \
    "    parent: {table: Channels, partition_key: \"" partition_key            \
    "\", row_key: \"" row_key "\", tombstone: {Deleted: true}}\n"              \
    "    settle: 0s\n"                                                         \
    "    children: [" rules "]\n"

#define BY_AB "partition_key: \"{ab}\""

static enum tw_err verify_two(struct hosted *h, const char *a, const char *ab,
    struct job_verification *ret)
{
    const struct slice names[] = {slice_of("a"), slice_of("ab")};
    const struct slice values[] = {a ? slice_of(a) : (struct slice){0},
        ab ? slice_of(ab) : (struct slice){0}};

    return verify_args(h, &(struct run_args){2, names, values}, NULL, ret);
}

static void two_finds(
    struct hosted *h, const char *a, const char *ab, int64_t orphans)
{
    struct job_verification found;

    if (verify_two(h, a, ab, &found) != TW_OK)
        fail_msg("%s", h->err.text);
    assert_int_equal(found.differences[1].count, orphans);
    arena_done(&found.arena);
}

static void two_refuse(struct hosted *h, const char *why)
{
    struct job_verification found;

    assert_int_equal(verify_two(h, NULL, NULL, &found), TW_CONFLICT);
    hosted_check_why(h, why);
    arena_done(&found.arena);
}

HOSTED_TEST(each_argument_is_told_by_its_own_place)
{
    set_up_tables(
        h, TWO("{ab}", "{a}",
               RULES(RULE("Blogs", BY_AB ", row_key_prefix: \"{a}_\""),
                   RULES(RULE("Owned", BY_AB ", filter: \"Name eq '{a}'\""),
                       RULE("Subscriptions",
                           BY_AB ", filter: \"RowKey eq '{a}'\"")))));
    hosted_rows(h, "Channels P/r; Blogs P/r_1; Owned P/x(Name=r) P/z; "
                   "Subscriptions P/r");
    hosted_put(h, "Owned", "P", "y", "\"Name\":7"); /* not a text */
    two_finds(h, NULL, NULL, 0);
    hosted_rows(h, "Blogs P/s_1; Owned P/w(Name=s); Subscriptions Q/r");
    two_finds(h, NULL, NULL, 3);
    two_finds(h, "r", NULL, 1);
    two_finds(h, NULL, "P", 2);
    two_finds(h, "s", "P", 2);
    two_finds(h, "a/b", "P", 0); /* no parent can have that key */
}

HOSTED_TEST(two_prefixes_do_not_tell_two_arguments)
{
    set_up_tables(h,
        TWO("{ab}", "{a}",
            RULE("Blogs",
                "partition_key_prefix: \"{ab}_\", row_key_prefix: \"{a}_\"")));
    hosted_rows(h, "Blogs P_1/r_1");
    two_refuse(h, "does not show which ab");
    two_finds(h, NULL, "P", 1);
    two_finds(h, "r", NULL, 1);
}

/* An argument that only the parent's template uses cannot be derived from a
 * child. */
HOSTED_TEST(an_argument_that_only_the_parent_has_is_asked_for)
{
    set_up_tables(h, TWO("{ab}_{a}", "x_{a}", RULE("Blogs", BY_AB)));
    hosted_rows(h, "Blogs P/1");
    two_refuse(h, "does not show which a");
    two_finds(h, "r", NULL, 1);
    hosted_rows(h, "Channels P_r/x_r");
    two_finds(h, "r", NULL, 0);
}

HOSTED_TEST(the_first_five_of_many_are_shown)
{
    struct job_verification found;

    set_up_tables(h, ALL);
    hosted_fill(h, "Blogs", "Gone", 7);
    assert_ok(verify(h, NULL, &found));
    assert_int_equal(found.differences[1].count, 7);
    assert_string_equal(
        found.differences[1].first_keys[4], "Blogs Gone/b00004");
    arena_done(&found.arena);
}

/* If the run is not in the ledger, or its State cannot be read, no run will
 * remove the tombstone. */
HOSTED_TEST(a_tombstone_of_an_unknown_run_is_found)
{
    set_up_tables(h, ALL);
    hosted_put(h, "Channels", "A", "", MARK("x"));
    hosted_put(h, "Channels", "B", "", MARK(""));
    hosted_put(h, "Channels", "C", "", MARK("all/r1"));
    hosted_put(h, "Channels", "D", "", "\"Deleted\":false," OWNED_BY("all/r1"));
    finds(h, "TablewardRuns all/r1", NULL, 3, 0, "Channels A/");
    hosted_replace(h, "TablewardRuns", "all", "r1", "\"State\":7");
    finds(h, "", NULL, 3, 0, "Channels A/");
}

/* ---- what changes during the verification ---- */

static void lift_tombstone(struct hosted *h)
{
    hosted_replace(h, "Channels", "News", "", "\"Name\":\"x\"");
}

static void remove_parent(struct hosted *h)
{
    hosted_remove(h, "Channels", "News", "");
}

static void insert_parent(struct hosted *h)
{
    hosted_rows(h, "Channels Gone/");
}

static void remove_child(struct hosted *h)
{
    hosted_remove(h, "Blogs", "Gone", "1");
}

HOSTED_TEST(what_is_gone_when_it_is_read_again_is_no_difference)
{
    static const struct {
        const char *table;
        void (*what)(struct hosted *h);
    } CASES[] = {{"Channels", lift_tombstone}, {"Channels", remove_parent},
        {"Blogs", insert_parent}, {"Blogs", remove_child}};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        static struct script s;

        set_up_tables(h, ALL);
        if (i < 2)
            hosted_put(h, "Channels", "News", "", MARK("all/r9"));
        else
            hosted_rows(h, "Blogs Gone/1");
        script_init(&s, h);
        finds(h, "", NULL, i < 2, i >= 2, NULL);
        script_call(&s, CALL_GET, CASES[i].table, 1, 1)->before = CASES[i].what;
        finds(h, "", NULL, 0, 0, NULL);
    }
}

HOSTED_TEST(a_stop_ends_a_verification_wherever_it_asks)
{
    enum tw_err outcome = TW_STOPPED;

    set_up_tables(h, ALL);
    hosted_fill(h, "Blogs", "Gone", 3);
    for (stop_at = 0; outcome != TW_OK; stop_at++) {
        struct job_verification found;

        asked = 0;
        outcome = verify(h, NULL, &found);
        if (outcome != TW_OK)
            assert_int_equal(outcome, TW_STOPPED);
        arena_done(&found.arena);
    }
    assert_true(stop_at > 4); /* at least one check for a stop for each table */
    stop_at = -1;
}

HOSTED_TEST(a_table_that_must_be_there_and_is_missing_is_said)
{
    hosted_begin(h, ALL, "Channels TablewardRuns");
    refuses(h, TW_NOT_FOUND, "Blogs");
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
