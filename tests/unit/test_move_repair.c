/* SPDX-License-Identifier: MIT */
/* Other programs write a source or its copy after the source was copied and
 * before it is deleted (rules M4 and M5). */
#include <stdio.h>
#include <string.h>

#include "tests/support/scene.h"
#include "tests/support/test.h"

#define TRIES 8 /* maximum tries of a write whose outcome stays unknown */

static const char JOBS[] =
    "all: {kind: move, from: {table: Blogs}, to: {table: OldBlogs}}\n"
    "ones: {kind: move, from: {table: Blogs, filter: \"N eq 1\"}, to: {table: "
    "OldBlogs}}\n"
    "key-of-n: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
    "partition_key: \"{N}\"}}\n";

/* ---- writes of other programs ---- */

static int writes;

static void change_source(struct hosted *callbacks)
{
    char properties[16];

    snprintf(properties, sizeof(properties), "\"N\":%d", 9 + writes++);
    hosted_replace(callbacks, "Blogs", "a", "1", properties);
}

static void delete_source(struct hosted *callbacks)
{
    hosted_remove(callbacks, "Blogs", "a", "1");
}

static void change_copy(struct hosted *callbacks)
{
    hosted_replace(callbacks, "OldBlogs", "a", "1", "\"N\":7");
}

static void write_copy_as_it_is(struct hosted *callbacks)
{
    hosted_replace(callbacks, "OldBlogs", "a", "1", "\"N\":9");
}

static void delete_copy(struct hosted *callbacks)
{
    hosted_remove(callbacks, "OldBlogs", "a", "1");
}

/* ---- the scene ---- */

static int set_up(void **state)
{
    scene_begin(JOBS, "Blogs OldBlogs TablewardRuns");
    scene_put("Blogs", "a", "1", "\"N\":1");
    writes = 0;
    return 0;
}

/* Sets up a source that another program changes before its first delete is
 * carried out. */
static int set_up_changed(void **state)
{
    (void)set_up(state);
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = change_source;
    return 0;
}

/* Sets up a source that another program deletes before its first delete is
 * carried out. */
static int set_up_gone(void **state)
{
    (void)set_up(state);
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = delete_source;
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)
#define CHANGED_TEST(name) TEST_IN(name, set_up_changed, scene_end)
#define GONE_TEST(name) TEST_IN(name, set_up_gone, scene_end)

/* Answers the batches number `first` to `last` of this type with `answer`; if
 * `unsent`, they are not carried out. */
static struct script_event *batch_meets(const char *table,
    enum operation_type type, unsigned first, unsigned last, enum tw_err answer,
    bool unsent)
{
    struct script_event *event = script_batch(&s, table, type, first, last);

    event->answer = answer;
    event->unsent = unsent;
    return event;
}

static struct script_event *replace_meets(
    unsigned first, unsigned last, enum tw_err answer, bool unsent)
{
    return batch_meets(
        "OldBlogs", OPERATION_REPLACE, first, last, answer, unsent);
}

static struct script_event *delete_meets(const char *table, unsigned first,
    unsigned last, enum tw_err answer, bool unsent)
{
    return batch_meets(table, OPERATION_DELETE, first, last, answer, unsent);
}

static void check_no_intent(void)
{
    scene_check_keys("TablewardRuns", "");
}

/* Makes a run of the job, which must end as `end`. Then the source and its copy
 * must have these properties. */
static void ends(
    const char *job, enum run_end end, const char *source, const char *copy)
{
    scene_run(job, "", end);
    scene_check_is("Blogs", "a", "1", source);
    scene_check_is("OldBlogs", "a", "1", copy);
}

/* ---- the source was changed: its copy is replaced ---- */

CHANGED_TEST(a_changed_source_with_another_key_is_copied_to_that_key)
{
    scene_run("key-of-n", "", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "9/1 ");
    scene_check_is("OldBlogs", "9", "1", "{\"N\":9}");
}

CHANGED_TEST(a_replace_that_was_not_carried_out_is_sent_again)
{
    replace_meets(1, 2, TW_UNKNOWN, true);
    ends("all", RUN_SUCCEEDED, "none", "{\"N\":9}");
    check_no_intent();
}

CHANGED_TEST(a_replace_whose_answer_is_lost_is_recognised)
{
    struct script_event *event = replace_meets(1, 1, TW_UNKNOWN, false);

    ends("all", RUN_SUCCEEDED, "none", "{\"N\":9}");
    assert_int_equal(event->seen, 1);
}

CHANGED_TEST(a_replace_that_stays_unknown_ends_the_attempt_and_both_stay)
{
    replace_meets(1, TRIES, TW_UNKNOWN, true);
    ends("all", RUN_OUTAGE, "{\"N\":9}", "{\"N\":1}");
    assert_non_null(strstr(
        h.err.text, "table OldBlogs: it is unknown whether an entity was "));
    /* The next attempt does not know whether the copy was changed. */
    ends("all", RUN_FAILED, "{\"N\":9}", "{\"N\":1}");
    scene_check_reported(
        "Blogs a/1: the source was changed while a move was "
        "interrupted, and an entity is at the destination: both stay");
    check_no_intent();
}

TEST(a_copy_that_others_change_or_delete_is_not_overwritten)
{
    static const struct {
        void (*before)(struct hosted *h);
        const char *copy;
    } cases[] = {{change_copy, "{\"N\":7}"}, {delete_copy, "none"}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        (void)set_up_changed(NULL);
        replace_meets(1, 1, TW_OK, false)->before = cases[i].before;
        ends("all", RUN_FAILED, "{\"N\":9}", cases[i].copy);
        scene_check_reported(
            "Blogs a/1: the source and its copy were both changed by "
            "others: both stay; its destination is 'a' / '1' in "
            "OldBlogs");
        assert_int_equal(h.failed, 1);
        check_no_intent();
        (void)scene_end(NULL);
    }
}

/* In the third case another program writes the copy back unchanged: its ETag is
 * no longer the one of the run. */
TEST(a_copy_that_is_not_read_back_as_it_was_replaced_stays)
{
    static const struct {
        void (*after)(struct hosted *h);
        const char *copy;
    } cases[] = {{change_copy, "{\"N\":7}"}, {delete_copy, "none"},
        {write_copy_as_it_is, "{\"N\":9}"}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        (void)set_up_changed(NULL);
        replace_meets(1, 1, TW_OK, false)->after = cases[i].after;
        ends("all", RUN_FAILED, "{\"N\":9}", cases[i].copy);
        scene_check_reported("were both changed by others: both stay");
        (void)scene_end(NULL);
    }
}

/* A request of the repair is refused, so the repair decides nothing. */
CHANGED_TEST(a_refusal_during_a_repair_is_an_outage_and_loses_nothing)
{
    replace_meets(1, 1, TW_REFUSED, true);
    ends("all", RUN_OUTAGE, "{\"N\":9}", "{\"N\":1}");
}

CHANGED_TEST(a_copy_that_cannot_be_read_back_is_an_outage)
{
    script_unsent(script_call(&s, CALL_GET, "OldBlogs", 1, 1), TW_REFUSED);
    ends("all", RUN_OUTAGE, "{\"N\":9}", "{\"N\":9}");
}

static void refuse_reads_of_the_source(struct hosted *callbacks)
{
    script_unsent(script_call(&s, CALL_GET, "Blogs", 1, 99), TW_REFUSED);
}

CHANGED_TEST(a_changed_source_that_cannot_be_read_is_an_outage)
{
    /* The first read is made by the batch writer, after the conflict of the
     * delete. */
    script_call(&s, CALL_GET, "Blogs", 1, 1)->after =
        refuse_reads_of_the_source;
    ends("all", RUN_OUTAGE, "{\"N\":9}", "{\"N\":1}");
}

/* ---- the delete of the source ---- */

/* The delete was carried out, so the copy is the only entity left: it stays. */
FIXTURE_TEST(after_an_unknown_delete_an_absent_source_is_done)
{
    delete_meets("Blogs", 1, 1, TW_UNKNOWN, false);
    ends("all", RUN_SUCCEEDED, "none", "{\"N\":1}");
}

FIXTURE_TEST(after_an_unknown_delete_another_etag_leaves_both)
{
    delete_meets("Blogs", 1, 1, TW_UNKNOWN, true)->before = change_source;
    ends("all", RUN_FAILED, "{\"N\":9}", "{\"N\":1}");
    scene_check_reported("Blogs a/1: the source was changed by others");
    check_no_intent();
}

CHANGED_TEST(a_delete_that_was_not_carried_out_is_sent_again)
{
    delete_meets("Blogs", 2, 3, TW_UNKNOWN, true);
    ends("all", RUN_SUCCEEDED, "none", "{\"N\":9}");
}

CHANGED_TEST(a_delete_whose_answer_is_lost_is_recognised)
{
    struct script_event *event = delete_meets("Blogs", 2, 2, TW_UNKNOWN, false);

    ends("all", RUN_SUCCEEDED, "none", "{\"N\":9}");
    assert_int_equal(event->seen, 2);
}

CHANGED_TEST(a_delete_that_stays_unknown_ends_the_attempt)
{
    delete_meets("Blogs", 2, 1 + TRIES, TW_UNKNOWN, true);
    ends("all", RUN_OUTAGE, "{\"N\":9}", "{\"N\":9}");
    assert_non_null(strstr(
        h.err.text, "table Blogs: it is unknown whether an entity was "));
}

CHANGED_TEST(what_an_unknown_delete_met_and_cannot_be_read_is_an_outage)
{
    delete_meets("Blogs", 2, 2, TW_UNKNOWN, true)->before =
        refuse_reads_of_the_source;
    ends("all", RUN_OUTAGE, "{\"N\":9}", "{\"N\":9}");
}

/* The delete may have been carried out before a client wrote the source again.
 * Then only the copy has the deleted value, so the copy stays. */
CHANGED_TEST(
    a_source_that_is_written_beside_an_unknown_delete_stays_with_its_copy)
{
    delete_meets("Blogs", 2, 2, TW_UNKNOWN, true)->before = change_source;
    ends("all", RUN_FAILED, "{\"N\":10}", "{\"N\":9}");
    scene_check_reported(
        "Blogs a/1: the source was changed after it was copied, and "
        "the outcome of its delete is unknown: source and copy stay");
    check_no_intent();
}

CHANGED_TEST(a_source_that_a_client_deletes_during_the_repair_takes_its_copy)
{
    delete_meets("Blogs", 2, 2, TW_OK, false)->before = delete_source;
    ends("all", RUN_SUCCEEDED, "none", "none");
    assert_int_equal(h.failed, 0);
}

/* The source is deleted after the batch writer has read it, and before the
 * repair reads it. */
CHANGED_TEST(a_source_that_goes_before_it_is_read_takes_its_copy)
{
    script_call(&s, CALL_GET, "Blogs", 1, 1)->after = delete_source;
    ends("all", RUN_SUCCEEDED, "none", "none");
}

/* After five changes during the repair, the repair deletes the copy and leaves
 * the source to the next round. */
CHANGED_TEST(a_source_that_is_written_again_and_again_is_moved_in_a_later_round)
{
    struct script_event *replaced = replace_meets(99, 99, TW_OK, false);

    s.events[0].last = 6;
    ends("all", RUN_SUCCEEDED, "none", "{\"N\":14}");
    assert_int_equal(replaced->seen, 5);
    assert_int_equal(h.failed, 0);
}

/* ---- the copy is deleted ---- */

CHANGED_TEST(a_source_that_is_not_selected_any_more_stays_without_a_copy)
{
    ends("ones", RUN_SUCCEEDED, "{\"N\":9}", "none");
    assert_int_equal(h.failed, 0);
}

CHANGED_TEST(a_copy_that_others_changed_is_not_deleted_and_both_are_named)
{
    delete_meets("OldBlogs", 1, 1, TW_OK, false)->before = change_copy;
    ends("ones", RUN_FAILED, "{\"N\":9}", "{\"N\":7}");
    scene_check_reported(
        "Blogs a/1: the source and its copy were both changed by "
        "others: both stay");
}

/* The source is deleted: an entity that others have written at the destination
 * stays. */
GONE_TEST(a_copy_that_others_changed_outlives_its_source)
{
    delete_meets("OldBlogs", 1, 1, TW_OK, false)->before = change_copy;
    ends("all", RUN_SUCCEEDED, "none", "{\"N\":7}");
}

GONE_TEST(a_copy_that_others_deleted_is_not_missed)
{
    delete_meets("OldBlogs", 1, 1, TW_OK, false)->before = delete_copy;
    ends("all", RUN_SUCCEEDED, "none", "none");
}

GONE_TEST(a_source_that_a_client_deleted_takes_its_copy_along)
{
    scene_put("Blogs", "a", "2", "\"N\":1");
    ends("all", RUN_SUCCEEDED, "none", "none");
    scene_check_keys("OldBlogs", "a/2 ");
}

GONE_TEST(the_delete_of_a_copy_is_repeated_until_it_is_known)
{
    delete_meets("OldBlogs", 1, 2, TW_UNKNOWN, true);
    ends("all", RUN_SUCCEEDED, "none", "none");
}

GONE_TEST(a_delete_of_a_copy_whose_answer_is_lost_is_recognised)
{
    delete_meets("OldBlogs", 1, 1, TW_UNKNOWN, false);
    ends("all", RUN_SUCCEEDED, "none", "none");
}

GONE_TEST(the_delete_of_a_copy_that_is_refused_is_an_outage)
{
    delete_meets("OldBlogs", 1, 1, TW_REFUSED, true);
    ends("all", RUN_OUTAGE, "none", "{\"N\":1}");
    /* The intent is in state `leaving`: the pair was confirmed, and the run
     * itself may have deleted the source. So the next attempt keeps the copy.
     */
    ends("all", RUN_SUCCEEDED, "none", "{\"N\":1}");
}

/* ---- copies that are not provably the run's own ---- */

/* After one unknown outcome the copy is never provably the run's own: another
 * program may have inserted it. */
GONE_TEST(after_an_unknown_insert_a_copy_outlives_its_source)
{
    batch_meets("OldBlogs", OPERATION_INSERT, 1, 1, TW_UNKNOWN, false);
    ends("all", RUN_FAILED, "none", "{\"N\":1}");
    scene_check_reported("the copy is not provably this run's: the copy stays");
}

CHANGED_TEST(after_an_unknown_insert_a_changed_source_and_its_copy_both_stay)
{
    batch_meets("OldBlogs", OPERATION_INSERT, 1, 1, TW_UNKNOWN, false);
    ends("all", RUN_FAILED, "{\"N\":9}", "{\"N\":1}");
    scene_check_reported(
        "Blogs a/1: the source was changed by others, and the copy is "
        "not provably this run's: both stay");
}
