/* SPDX-License-Identifier: MIT */
/*
 * The parent of a cascade: read, marked and deleted, whatever the store says
 * and whoever changes it in between. In a virtual world.
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/interpose.h"
#include "tests/support/text_file.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define PARENT                                                                 \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"{channel}\", tombstone: {Deleted: true}, created: CreatedOn}\n"         \
    "    settle: 0s\n"
#define WAITING                                                                \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"{channel}\", tombstone: {Deleted: true}}\n"                             \
    "    settle: 60s\n"
#define BLOGS                                                                  \
    "    children:\n"                                                          \
    "      - {table: Blogs, partition_key: \"{channel}\"}\n"
#define HEAD                                                                   \
    "job:\n"                                                                   \
    "    kind: cascade-delete\n"                                               \
    "    args: [channel]\n"

/* A run with a store that fails chosen requests, or lets something happen
 * before them. */
struct scene {
    struct interposed outer; /* first member: meet() casts to this struct */
    struct hosted h;
    struct store *front;

    /* The chosen requests: the first-th to the last-th call of this sort for
     * table. seen: number of such calls so far. */
    enum store_call call;
    const char *table;
    unsigned first, last;
    unsigned seen;
    enum tw_err outcome; /* outcome of the chosen requests; TW_OK: they are
                            carried out */
    void (*between)(struct scene *); /* called before them; may be NULL */
};

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct scene *s = (struct scene *)self;
    bool meant = request->call == s->call && s->table && request->name &&
                 strcmp(request->name, s->table) == 0;

    if (!meant || ++s->seen < s->first || s->seen > s->last)
        return request_send(self->inner, exchange, request);
    if (s->between)
        s->between(s);
    if (s->outcome == TW_OK)
        return request_send(self->inner, exchange, request);
    if (request->result)
        request->result->failed = request->batch->count;
    return err_fail(&exchange->err, s->outcome, "as the test wants");
}

static void end(struct scene *s)
{
    hosted_done(&s->h);
    virtual_platform_end();
}

/* Ends the scene before this one, if the test has begun one. */
static void begin(struct scene *s, const char *configuration)
{
    if (s->h.store)
        end(s);
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    memset(s, 0, sizeof(*s));
    hosted_init(&s->h, configuration);
    interposed_init(&s->outer, "front", s->h.store, meet);
    s->front = &s->outer.store;
    s->h.stores.stores = &s->front;
    hosted_table(&s->h, "Channels");
    hosted_table(&s->h, "Blogs");
}

TEST_FIXTURE(scene, struct scene, TEST_NOTHING, end)

/* A test that starts with begin(). */
#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *s)

static void meets(struct scene *s, enum store_call call, const char *table,
    unsigned first, unsigned last, enum tw_err outcome)
{
    s->call = call;
    s->table = table;
    s->first = first;
    s->last = last;
    s->seen = 0;
    s->outcome = outcome;
}

#define ALWAYS 1, UINT_MAX

static enum run_end attempt(struct scene *s)
{
    return hosted_attempt(&s->h, "job", "News");
}

/* The channel News with three blogs; properties may be NULL. */
static void put_channel(struct scene *s, const char *properties)
{
    hosted_put(&s->h, "Channels", "News", "News", properties);
    hosted_fill(&s->h, "Blogs", "News", 3);
}

static void expect_all_gone(struct scene *s)
{
    assert_string_equal(hosted_dump(&s->h, "Channels"), "");
    assert_string_equal(hosted_dump(&s->h, "Blogs"), "");
}

/* ---- reading and marking ---- */

SCENE_TEST(a_parent_that_cannot_be_read_is_an_outage)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    meets(s, CALL_GET, "Channels", ALWAYS, TW_BUSY);
    assert_int_equal(attempt(s), RUN_OUTAGE);
    assert_non_null(strstr(s->h.err.text, "as the test wants"));
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
}

SCENE_TEST(a_tombstone_that_can_never_be_stored_fails_the_run)
{
    static const enum tw_err NEVER[] = {TW_INVALID, TW_TOO_LARGE};

    for (size_t i = 0; i < 2; i++) {
        begin(s, HEAD PARENT BLOGS);
        put_channel(s, NULL);
        meets(s, CALL_BATCH, "Channels", ALWAYS, NEVER[i]);
        assert_int_equal(attempt(s), RUN_FAILED);
        assert_non_null(strstr(s->h.err.text, "as the test wants"));
        assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
    }
}

SCENE_TEST(a_tombstone_in_an_outage_deletes_nothing)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    meets(s, CALL_BATCH, "Channels", ALWAYS, TW_REFUSED);
    assert_int_equal(attempt(s), RUN_OUTAGE);
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
}

/* There is no parent: the run inserts one that is a tombstone. */
SCENE_TEST(a_parents_table_that_is_dropped_fails_the_run)
{
    begin(s, HEAD PARENT BLOGS);
    hosted_fill(&s->h, "Blogs", "News", 3);
    meets(s, CALL_BATCH, "Channels", ALWAYS, TW_NOT_FOUND);
    assert_int_equal(attempt(s), RUN_FAILED);
    assert_string_equal(s->h.err.text,
        "table Channels does not exist in store front: create it, then retry");
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
}

/* It was there when the run checked its tables. */
SCENE_TEST(a_childs_table_that_is_dropped_later_fails_the_run)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    meets(s, CALL_SCAN, "Blogs", 2, UINT_MAX, TW_NOT_FOUND);
    assert_int_equal(attempt(s), RUN_FAILED);
    assert_string_equal(s->h.err.text,
        "table Blogs does not exist in store main: create it, or remove its "
        "rule from the job, then retry");
    assert_string_equal(hosted_dump(&s->h, "Channels"), "News/News ");
}

static void remove_parent(struct scene *s)
{
    s->between = NULL;
    hosted_remove(&s->h, "Channels", "News", "News");
}

/* The parent is deleted between the read and the tombstone: the tombstone is
 * inserted instead of merged. */
SCENE_TEST(a_parent_that_goes_before_it_is_marked_is_marked_anew)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    s->between = remove_parent;
    meets(s, CALL_BATCH, "Channels", 1, 1, TW_OK);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
}

SCENE_TEST(a_parent_that_changes_all_the_time_is_tried_again_later)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    meets(s, CALL_BATCH, "Channels", ALWAYS, TW_CONFLICT);
    assert_int_equal(attempt(s), RUN_TRY_AGAIN);
    assert_string_equal(s->h.err.text,
        "other writers changed the parent in Channels before "
        "each attempt to write its tombstone");
    assert_int_equal(s->seen, 20);
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
    meets(s, CALL_BATCH, "Channels", 1, 3, TW_CONFLICT);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
}

/* ---- whose is it ---- */

/* A tombstone without a valid owner does not belong to a run: this run writes
 * its own. */
SCENE_TEST(a_tombstone_without_an_owner_is_nobody_s)
{
    static const char *const MARKS[] = {
        "\"TablewardRun\":7,\"Deleted\":true",
        "\"TablewardRun\":\"\",\"Deleted\":true",
        "\"TablewardRun\":\"nobody\",\"Deleted\":true",
    };

    for (size_t i = 0; TEST_EACH(i, MARKS); i++) {
        begin(s, HEAD PARENT BLOGS);
        put_channel(s, MARKS[i]);
        s->h.other_open = true;
        assert_int_equal(attempt(s), RUN_SUCCEEDED);
        expect_all_gone(s);
    }
}

static const char MARKED_BY_OTHER[] = "\"TablewardRun\":\"quick/other\"";

/* Another job may have another tombstone, and so may this job have had. */
SCENE_TEST(a_run_waits_for_another_run_whatever_its_tombstone_is)
{
    static const char *const MARKS[] = {
        MARKED_BY_OTHER,
        "\"TablewardRun\":\"quick/other\",\"State\":\"gone\"",
        "\"TablewardRun\":\"quick/other\",\"Deleted\":false",
        "\"TablewardRun\":\"quick/other\",\"Deleted\":\"true\"",
    };

    for (size_t i = 0; TEST_EACH(i, MARKS); i++) {
        begin(s, HEAD PARENT BLOGS);
        put_channel(s, MARKS[i]);
        s->h.other_open = true;
        assert_int_equal(attempt(s), RUN_WAITING);
        assert_string_equal(s->h.err.text,
            "waits for its turn: run quick/other is deleting this parent");
        assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
        s->h.other_open = false; /* it has failed, or was cancelled */
        assert_int_equal(attempt(s), RUN_SUCCEEDED);
        expect_all_gone(s);
    }
}

/* The other run has deleted the parent since, and nobody has asked for the new
 * one to be deleted. */
SCENE_TEST(a_run_that_waited_leaves_a_parent_that_was_created_again)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, MARKED_BY_OTHER);
    s->h.other_open = true;
    assert_int_equal(attempt(s), RUN_WAITING);
    hosted_remove(&s->h, "Channels", "News", "News");
    hosted_put(&s->h, "Channels", "News", "News", NULL);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    assert_non_null(strstr(s->h.note, "created again while this run waited"));
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
    assert_string_equal(hosted_json(&s->h, "Channels", "News", "News"), "{}");
}

/* The rules of the other run may have left children. */
SCENE_TEST(a_run_that_waited_deletes_what_the_other_left)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, MARKED_BY_OTHER);
    s->h.other_open = true;
    assert_int_equal(attempt(s), RUN_WAITING);
    hosted_remove(&s->h, "Channels", "News", "News");
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
}

static void mark_by_other(struct scene *s)
{
    s->between = NULL;
    hosted_remove(&s->h, "Channels", "News", "News");
    hosted_put(&s->h, "Channels", "News", "News", MARKED_BY_OTHER);
}

/* The mark of another run is no sign that the parent was created again. */
SCENE_TEST(a_parent_that_another_run_has_marked_too_is_not_left_as_new)
{
    for (int open = 1; open >= 0; open--) {
        begin(s, HEAD WAITING BLOGS);
        put_channel(s, NULL);
        s->h.other_open = open;
        assert_int_equal(attempt(s), RUN_WAITING);
        mark_by_other(s);
        assert_int_equal(attempt(s), open ? RUN_WAITING : RUN_FAILED);
        assert_non_null(strstr(s->h.err.text, "quick/other"));
        assert_string_equal(hosted_dump(&s->h, "Channels"), "News/News ");
    }
}

/* All children are gone, and the other run deletes the parent: this run had
 * deleted the former one, but has not stored its end. */
SCENE_TEST(a_parent_that_another_run_marks_before_the_delete_is_left_to_it)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    s->h.other_open = true;
    s->between = mark_by_other;
    meets(s, CALL_BATCH, "Channels", 2, 2, TW_OK);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    assert_non_null(strstr(s->h.note,
        "the parent in Channels has the tombstone of run quick/other now"));
    assert_string_equal(hosted_dump(&s->h, "Channels"), "News/News ");
}

static void create_anew(struct scene *s)
{
    s->between = NULL;
    hosted_remove(&s->h, "Channels", "News", "News");
    hosted_put(&s->h, "Channels", "News", "News", NULL);
    virtual_sleep(5000);
}

/* Another run has deleted the parent, as a child of its own parent. */
SCENE_TEST(a_parent_created_again_during_a_pass_ends_the_run)
{
    for (int waiting = 0; waiting < 2; waiting++) {
        begin(s, waiting ? HEAD WAITING BLOGS : HEAD PARENT BLOGS);
        hosted_put(&s->h, "Channels", "News", "News", NULL);
        hosted_fill(&s->h, "Blogs", "News", 6000);
        s->between = create_anew;
        meets(s, CALL_SCAN, "Blogs", 4, 4, TW_OK);
        assert_int_equal(attempt(s), RUN_SUCCEEDED);
        assert_non_null(strstr(s->h.note, "created again"));
        assert_in_range(hosted_count(&s->h, "Blogs"), 1000, 5000);
        assert_string_equal(
            hosted_json(&s->h, "Channels", "News", "News"), "{}");
    }
}

SCENE_TEST(another_run_of_which_nothing_is_known_is_an_outage)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, "\"TablewardRun\":\"job/other\",\"Deleted\":true");
    s->h.open_outcome = TW_BUSY;
    assert_int_equal(attempt(s), RUN_OUTAGE);
    assert_string_equal(s->h.err.text, "as the test wants");
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
}

/* Make an attempt that ends before the settle pass is due, after the tombstone
 * is written; then drop the checkpoint, as a new definition of the job does. */
static void begin_with_new_definition(struct scene *s)
{
    begin(s, HEAD WAITING BLOGS);
    put_channel(s, NULL);
    assert_int_equal(attempt(s), RUN_WAITING);
    mem_free(s->h.checkpoint);
    s->h.checkpoint = NULL;
}

/* The new parent was once marked, and deleted with everything under it. */
SCENE_TEST(a_parent_made_anew_while_the_definition_changes_is_left)
{
    begin_with_new_definition(s);
    hosted_remove(&s->h, "Channels", "News", "News");
    put_channel(s, NULL);
    assert_int_equal(attempt(s), RUN_FAILED);
    assert_string_equal(s->h.err.text,
        "this run wrote its tombstone before the job's definition changed, and "
        "the parent in Channels no longer has it: the parent may have been "
        "created again. If it is to be deleted, enqueue a new run");
    assert_string_equal(hosted_json(&s->h, "Channels", "News", "News"), "{}");
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
}

SCENE_TEST(a_marked_parent_goes_whatever_definition_marked_it)
{
    begin_with_new_definition(s);
    hosted_put(&s->h, "Blogs", "News", "late", NULL);
    assert_int_equal(attempt(s), RUN_WAITING);
    assert_int_equal(hosted_count(&s->h, "Blogs"), 0);
}

SCENE_TEST(a_time_of_creation_that_is_no_time_fails_the_run)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, "\"CreatedOn\":\"yesterday\"");
    assert_int_equal(attempt(s), RUN_FAILED);
    assert_non_null(strstr(s->h.err.text,
        "property CreatedOn of the parent in Channels is not an Edm.DateTime"));
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
}

/* ---- the last delete ---- */

SCENE_TEST(a_parent_that_is_gone_at_the_end_is_deleted)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    s->between = remove_parent;
    /* The first batch is the tombstone, the second one the delete. */
    meets(s, CALL_BATCH, "Channels", 2, 2, TW_OK);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
    assert_non_null(strstr(s->h.note, "was removed by another writer"));
}

/* If the delete had no response, it is not known who deleted the parent. */
SCENE_TEST(a_parent_that_this_run_may_have_deleted_is_not_noted)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    s->between = remove_parent;
    meets(s, CALL_BATCH, "Channels", 2, 2, TW_UNKNOWN);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
    assert_string_equal(s->h.note, "");
}

SCENE_TEST(a_parent_that_changed_at_the_end_is_read_again)
{
    static const enum tw_err AGAIN[] = {TW_CONFLICT, TW_UNKNOWN};

    for (size_t i = 0; i < 2; i++) {
        begin(s, HEAD PARENT BLOGS);
        put_channel(s, NULL);
        meets(s, CALL_BATCH, "Channels", 2, 4, AGAIN[i]);
        assert_int_equal(attempt(s), RUN_SUCCEEDED);
        assert_int_equal(s->seen, 5);
        expect_all_gone(s);
    }
}

SCENE_TEST(a_parent_that_cannot_be_deleted_stays_for_the_next_attempt)
{
    static const struct {
        enum tw_err outcome;
        enum run_end end;
        const char *says;
    } CASES[] = {
        {TW_CONFLICT, RUN_TRY_AGAIN,
            "other writers changed the parent in Channels before each attempt "
            "to delete it"},
        {TW_REFUSED, RUN_OUTAGE, "as the test wants"},
    };

    for (size_t i = 0; i < 2; i++) {
        begin(s, HEAD PARENT BLOGS);
        put_channel(s, NULL);
        meets(s, CALL_BATCH, "Channels", 2, UINT_MAX, CASES[i].outcome);
        assert_int_equal(attempt(s), CASES[i].end);
        assert_non_null(strstr(s->h.err.text, CASES[i].says));
        assert_string_equal(hosted_dump(&s->h, "Channels"), "News/News ");
        assert_string_equal(s->h.phase, "parent");
        meets(s, CALL_BATCH, NULL, ALWAYS, TW_OK);
        assert_int_equal(attempt(s), RUN_SUCCEEDED);
        expect_all_gone(s);
    }
}

SCENE_TEST(in_the_last_phase_an_outage_deletes_nothing)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    meets(s, CALL_GET, "Channels", 2, UINT_MAX, TW_BUSY);
    assert_int_equal(attempt(s), RUN_OUTAGE);
    assert_string_equal(hosted_dump(&s->h, "Channels"), "News/News ");
}

static enum tw_err never_phases(struct hosted *h, bool *ret_stored)
{
    *ret_stored = false;
    return TW_STOPPED;
}

SCENE_TEST(without_the_last_phase_the_parent_stays)
{
    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    s->h.phasing = never_phases;
    assert_int_equal(attempt(s), RUN_STOPPED);
    assert_string_equal(hosted_dump(&s->h, "Channels"), "News/News ");
    assert_int_equal(hosted_count(&s->h, "Blogs"), 0);
}

/* ---- counting first ---- */

SCENE_TEST(what_cannot_be_counted_is_not_deleted)
{
    static const struct {
        const char *children;
        enum tw_err outcome;
        enum run_end end;
        const char *says;
    } CASES[] = {
        {"{table: Blogs, partition_key: \"{channel}\"}", TW_BUSY, RUN_OUTAGE,
            "as the test wants"},
        {"{table: Nowhere, partition_key: \"{channel}\"}", TW_OK, RUN_FAILED,
            "Nowhere"},
        {"{table: Blogs, filter: \"A eq {channel}\"}", TW_OK, RUN_FAILED,
            "filter"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        char *configuration = mem_format(HEAD PARENT
            "    refuse_above: 10\n    children:\n      - %s\n",
            CASES[i].children);
        begin(s, configuration);
        put_channel(s, NULL);
        if (CASES[i].outcome != TW_OK)
            meets(s, CALL_SCAN, "Blogs", ALWAYS, CASES[i].outcome);
        assert_int_equal(attempt(s), CASES[i].end);
        assert_non_null(strstr(s->h.err.text, CASES[i].says));
        assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
        /* The parent still exists: hosted_remove() asserts that. */
        hosted_remove(&s->h, "Channels", "News", "News");
        mem_free(configuration);
    }
}

/* ---- what stands under it ---- */

SCENE_TEST(a_page_that_can_never_be_read_fails_the_run)
{
    static const enum tw_err NEVER[] = {TW_INVALID, TW_TOO_LARGE};

    for (size_t i = 0; i < 2; i++) {
        begin(s, HEAD PARENT BLOGS);
        put_channel(s, NULL);
        meets(s, CALL_SCAN, "Blogs", ALWAYS, NEVER[i]);
        assert_int_equal(attempt(s), RUN_FAILED);
        assert_non_null(strstr(s->h.err.text, "Blogs"));
        assert_true(hosted_has(&s->h, "Channels", "News", "News"));
    }
}

SCENE_TEST(deletes_that_are_refused_end_the_pass)
{
    begin(s, HEAD PARENT BLOGS);
    hosted_put(&s->h, "Channels", "News", "News", NULL);
    hosted_fill(&s->h, "Blogs", "News", 1500);
    meets(s, CALL_BATCH, "Blogs", ALWAYS, TW_REFUSED);
    assert_int_equal(attempt(s), RUN_OUTAGE);
    assert_int_equal(hosted_count(&s->h, "Blogs"), 1500);
    assert_true(hosted_has(&s->h, "Channels", "News", "News"));
    meets(s, CALL_BATCH, NULL, ALWAYS, TW_OK);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
}

#define NESTED                                                                 \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        partition_key: \"{channel}\"\n"                                   \
    "        children:\n"                                                      \
    "          - {table: Likes, partition_key: \"{RowKey}\"}\n"

static void change_blog(struct scene *s)
{
    s->between = NULL;
    hosted_remove(&s->h, "Blogs", "News", "b00001");
    hosted_put(&s->h, "Blogs", "News", "b00001", "\"N\":2");
    hosted_put(&s->h, "Likes", "b00001", "late", NULL);
}

/* between: what somebody does before the first batch of blogs. */
static void expect_all_gone_despite(struct scene *s, const char *configuration,
    void (*between)(struct scene *s))
{
    begin(s, configuration);
    hosted_table(&s->h, "Likes");
    put_channel(s, NULL);
    s->between = between;
    meets(s, CALL_BATCH, "Blogs", 1, 1, TW_OK);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
    assert_string_equal(hosted_dump(&s->h, "Likes"), "");
}

/* The blog changes between its visit and its delete: it may have new
 * children. */
SCENE_TEST(a_blog_that_changed_is_visited_anew)
{
    expect_all_gone_despite(s, HEAD PARENT NESTED, change_blog);
}

#define THREADS                                                                \
    "    children:\n"                                                          \
    "      - {table: Blogs, partition_key: \"{channel}\"}\n"                   \
    "      - table: Blogs\n"                                                   \
    "        filter: \"Thread eq '{channel}'\"\n"                              \
    "        children:\n"                                                      \
    "          - {table: Likes, partition_key: \"{RowKey}\"}\n"

static void make_thread(struct scene *s)
{
    s->between = NULL;
    hosted_remove(&s->h, "Blogs", "News", "b00001");
    hosted_put(&s->h, "Blogs", "News", "b00001", "\"Thread\":\"News\"");
    hosted_put(&s->h, "Likes", "b00001", "late", NULL);
}

/* Between its read and its delete the blog becomes one that another rule, with
 * children, finds. It was once deleted as a leaf, and its likes stayed for
 * ever. */
SCENE_TEST(a_leaf_that_becomes_another_rules_is_left_to_that)
{
    expect_all_gone_despite(s, HEAD PARENT THREADS, make_thread);
}

#define BY_PREFIX                                                              \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        partition_key: \"{channel}\"\n"                                   \
    "        children:\n"                                                      \
    "          - {table: Likes, row_key_prefix: \"{Thread}\"}\n"

/* With an empty prefix the rule would delete all likes. */
SCENE_TEST(a_prefix_that_is_empty_for_one_blog_fails_the_run)
{
    begin(s, HEAD PARENT BY_PREFIX);
    hosted_table(&s->h, "Likes");
    hosted_put(&s->h, "Channels", "News", "News", NULL);
    hosted_put(&s->h, "Blogs", "News", "b", "\"Thread\":\"\"");
    hosted_fill(&s->h, "Likes", "x", 3);
    assert_int_equal(attempt(s), RUN_FAILED);
    assert_string_equal(s->h.err.text,
        "under 'News' / 'b' of Blogs: the row_key_prefix of the rule for Likes "
        "is empty here: it would select everything");
    assert_int_equal(hosted_count(&s->h, "Likes"), 3);
    assert_true(hosted_has(&s->h, "Channels", "News", "News"));
}

/* Two rules with children find the same blog. The children of the second rule
 * can be found only as long as the blog exists. */
#define CROSSED(second)                                                        \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        partition_key: \"{channel}\"\n"                                   \
    "        children:\n"                                                      \
    "          - {table: Comments, partition_key: \"{RowKey}\"}\n"             \
    "      - table: Blogs\n"                                                   \
    "        filter: \"Channel eq '{channel}'\"\n"                             \
    "        children:\n"                                                      \
    "          - {table: Likes, " second "}\n"

static void begin_crossed(struct scene *s, const char *configuration)
{
    begin(s, configuration);
    hosted_table(&s->h, "Comments");
    hosted_table(&s->h, "Likes");
    hosted_put(&s->h, "Channels", "News", "News", NULL);
}

SCENE_TEST(a_rule_that_another_rule_cannot_read_now_is_an_outage)
{
    begin_crossed(s, HEAD PARENT CROSSED("partition_key: \"{Thread}\""));
    hosted_put(
        &s->h, "Blogs", "News", "b", "\"Channel\":\"News\",\"Thread\":\"t\"");
    hosted_put(&s->h, "Likes", "t", "l", NULL);
    meets(s, CALL_SCAN, "Likes", 1, UINT_MAX, TW_REFUSED);
    assert_int_equal(attempt(s), RUN_OUTAGE);
    assert_non_null(strstr(s->h.err.text, "as the test wants"));
    assert_true(hosted_has(&s->h, "Blogs", "News", "b"));
    meets(s, CALL_SCAN, NULL, 1, UINT_MAX, TW_OK);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&s->h, "Likes"), "");
    expect_all_gone(s);
}

/* If the other rule cannot be bound to the blog, the blog stays and is
 * reported. */
SCENE_TEST(a_rule_that_can_never_be_read_keeps_the_blog)
{
    static const struct {
        const char *configuration, *properties;
    } CASES[] = {
        {HEAD PARENT CROSSED("partition_key: \"{Thread}\""),
            "\"Channel\":\"News\""},
        {HEAD PARENT CROSSED("row_key_prefix: \"{Thread}\""),
            "\"Channel\":\"News\",\"Thread\":\"\""},
    };

    for (size_t i = 0; i < 2; i++) {
        begin_crossed(s, CASES[i].configuration);
        hosted_put(&s->h, "Blogs", "News", "b", CASES[i].properties);
        hosted_put(&s->h, "Likes", "t", "l", NULL);
        assert_int_equal(attempt(s), RUN_FAILED);
        assert_true(hosted_has(&s->h, "Blogs", "News", "b"));
        assert_true(hosted_has(&s->h, "Likes", "t", "l"));
        assert_true(hosted_has(&s->h, "Channels", "News", "News"));
    }
}

/* ---- the archive ---- */

#define KEPT "    archive: kept\n"

/* Expect that the run fails, because a retry would meet the same obstacle. */
static void expect_archive_in_the_way(struct scene *s)
{
    assert_int_equal(attempt(s), RUN_FAILED);
    assert_non_null(strstr(s->h.err.text, "archive: cannot"));
    assert_int_equal(hosted_count(&s->h, "Blogs"), 3);
    assert_true(hosted_has(&s->h, "Channels", "News", "News"));
}

SCENE_TEST(an_archive_that_cannot_be_made_stops_before_anything)
{
    begin(s, HEAD PARENT KEPT BLOGS);
    char *path = mem_format("%s/kept", s->h.folder);

    text_file_write(path, ""); /* a file where a folder should be */
    put_channel(s, NULL);
    expect_archive_in_the_way(s);
    mem_free(path);
}

SCENE_TEST(an_archive_may_be_anywhere)
{
    char folder[FOLDER_BYTES], *configuration, *path;

    test_folder(folder);
    configuration = mem_format(HEAD PARENT "    archive: %s\n" BLOGS, folder);
    begin(s, configuration);
    put_channel(s, NULL);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    path = mem_format("%s/job/r1/1-Blogs.jsonl", folder);
    assert_int_equal(access(path, R_OK), 0);
    mem_free(path);
    mem_free(configuration);
}

/* Make a folder at the path of the archive's file for table. */
static void block_table(struct scene *s, const char *table)
{
    char *command =
        mem_format("mkdir -p %s/kept/job/r1/1-%s.jsonl", s->h.folder, table);

    assert_int_equal(system(command), 0);
    mem_free(command);
}

SCENE_TEST(a_parent_that_cannot_be_archived_is_not_marked)
{
    begin(s, HEAD PARENT KEPT BLOGS);
    put_channel(s, NULL);
    block_table(s, "Channels");
    expect_archive_in_the_way(s);
}

SCENE_TEST(what_cannot_be_archived_is_not_deleted)
{
    begin(s, HEAD PARENT KEPT BLOGS);
    put_channel(s, NULL);
    block_table(s, "Blogs");
    expect_archive_in_the_way(s);
}

/* The tombstone is written, but the response is lost: the parent is not
 * archived a second time, with the tombstone. */
static void mark_parent(struct scene *s)
{
    hosted_replace(&s->h, "Channels", "News", "News",
        "\"Z\":1,\"Deleted\":true,\"TablewardRun\":\"job/r1\"");
}

SCENE_TEST(a_tombstone_without_a_response_is_known_by_its_name)
{
    char text[256], *path;
    FILE *file;

    begin(s, HEAD PARENT KEPT BLOGS);
    put_channel(s, "\"Z\":1");
    s->between = mark_parent;
    meets(s, CALL_BATCH, "Channels", 1, 1, TW_UNKNOWN);
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
    path = mem_format("%s/kept/job/r1/1-Channels.jsonl", s->h.folder);
    file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(
        text, "{\"PartitionKey\":\"News\",\"RowKey\":\"News\",\"Z\":1}\n");
    mem_free(path);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

static void change_blog_without_room(struct scene *s)
{
    s->between = NULL;
    hosted_remove(&s->h, "Blogs", "News", "b00001");
    hosted_put(&s->h, "Blogs", "News", "b00001", "\"N\":2");
    limit_files(64); /* the file of the archive is larger than this already */
}

/* If the current state of a changed blog cannot be archived, the blog is not
 * deleted. */
SCENE_TEST(what_changed_and_cannot_be_archived_again_stays)
{
    begin(s, HEAD PARENT KEPT BLOGS);
    put_channel(s, NULL);
    s->between = change_blog_without_room;
    meets(s, CALL_BATCH, "Blogs", 1, 1, TW_OK);
    assert_int_equal(attempt(s), RUN_OUTAGE);
    limit_files(RLIM_INFINITY);
    assert_true(hosted_has(&s->h, "Blogs", "News", "b00001"));
    assert_true(hosted_has(&s->h, "Channels", "News", "News"));
    assert_int_equal(attempt(s), RUN_SUCCEEDED);
    expect_all_gone(s);
}

/* ---- accept and estimate ---- */

SCENE_TEST(keys_that_no_parent_can_have_are_told)
{
    static const char ROW_KEY[] =
        "job:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n"
        "    parent: {table: Channels, partition_key: all, row_key: "
        "\"{channel}\", tombstone: {Deleted: true}}\n" BLOGS;
    static const char *const CONFIGURATIONS[] = {HEAD PARENT BLOGS, ROW_KEY};
    /* A value that is longer than any key is refused, not cut. */
    char long_text[ENTITY_MAX_KEY_BYTES + 2] = "";
    const char *const bad[] = {"a/b", long_text};

    memset(long_text, 'a', sizeof(long_text) - 1);
    for (size_t i = 0; i < 4; i++) {
        begin(s, CONFIGURATIONS[i / 2]);
        struct slice name = slice_of("channel"), value = slice_of(bad[i % 2]);
        const struct run_args args = {1, &name, &value};
        const struct job *job = &s->h.jobs.list[0];
        struct job_estimate estimate;

        assert_int_equal(job->kind->accept(job, &args, &s->h.err), TW_INVALID);
        assert_non_null(strstr(s->h.err.text, "parent"));
        assert_int_equal(
            hosted_estimate(&s->h, "job", bad[i % 2], &estimate), TW_INVALID);
        arena_done(&estimate.arena);
        assert_int_equal(hosted_attempt(&s->h, "job", bad[i % 2]), RUN_FAILED);
    }
}

SCENE_TEST(an_estimate_of_what_cannot_be_read_says_why)
{
    struct job_estimate estimate;

    begin(s, HEAD PARENT BLOGS);
    put_channel(s, NULL);
    meets(s, CALL_SCAN, "Blogs", ALWAYS, TW_REFUSED);
    assert_int_equal(
        hosted_estimate(&s->h, "job", "News", &estimate), TW_REFUSED);
    arena_done(&estimate.arena);
    meets(s, CALL_GET, "Channels", ALWAYS, TW_REFUSED);
    assert_int_equal(
        hosted_estimate(&s->h, "job", "News", &estimate), TW_REFUSED);
    arena_done(&estimate.arena);
}
