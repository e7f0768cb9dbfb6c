/* SPDX-License-Identifier: MIT */
/* A move whose source or copy is written by others after the source was copied
 * and before it is deleted (rules M4 and M5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "jobs/move/intent.h"
#include "tests/support/hosted.h"
#include "tests/support/script.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define TRIES 8 /* maximum tries of a write whose outcome stays unknown */

static const char JOBS[] =
    "all: {kind: move, from: {table: Blogs}, to: {table: OldBlogs}}\n"
    "ones: {kind: move, from: {table: Blogs, filter: \"N eq 1\"}, to: {table: "
    "OldBlogs}}\n"
    "key-of-n: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
    "row_key: \"{N}\"}}\n";

static struct hosted h;
static struct script s;
static char reports[4096];

static void keep_report(
    struct hosted *callbacks, const struct run_failure *failure)
{
    size_t len = strlen(reports);

    (void)callbacks;
    snprintf(reports + len, sizeof(reports) - len, "%s %.*s/%.*s: %s\n",
        failure->table, SLICE_ARG(failure->partition_key),
        SLICE_ARG(failure->row_key), failure->why);
}

static int set_up(void **state)
{
    (void)state;
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    log_set(LOG_ERROR, LOG_TEXT);
    hosted_init(&h, JOBS);
    hosted_table(&h, "Blogs");
    hosted_table(&h, "OldBlogs");
    hosted_table(&h, "TablewardRuns");
    hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
    h.failing = keep_report;
    reports[0] = '\0';
    script_init(&s, &h);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hosted_done(&h);
    virtual_platform_end();
    return 0;
}

/* ---- what others do ---- */

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

/* ---- what is stored ---- */

static void check_is(
    const char *table, const char *row_key, const char *properties)
{
    const char *json;

    s.quiet = true;
    json = hosted_json(&h, table, "a", row_key);
    s.quiet = false;
    assert_string_equal(json ? json : "none", properties);
}

static void check_named(const char *part)
{
    if (!strstr(reports, part))
        fail_msg("'%s' is not in:\n%s", part, reports);
}

static void check_no_intent(void)
{
    s.quiet = true;
    assert_string_equal(hosted_dump(&h, "TablewardRuns"), "");
    s.quiet = false;
}

/* Others change the source before its first delete is carried out. */
static void source_changes(void)
{
    writes = 0;
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = change_source;
}

static void source_goes(void)
{
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = delete_source;
}

/* Sets the outcome of replaces number first to last of the copy. */
static struct script_event *replace_meets(
    unsigned first, unsigned last, enum tw_err answer, bool unsent)
{
    struct script_event *event =
        script_batch(&s, "OldBlogs", OPERATION_REPLACE, first, last);

    event->answer = answer;
    event->unsent = unsent;
    return event;
}

static struct script_event *delete_meets(const char *table, unsigned first,
    unsigned last, enum tw_err answer, bool unsent)
{
    struct script_event *event =
        script_batch(&s, table, OPERATION_DELETE, first, last);

    event->answer = answer;
    event->unsent = unsent;
    return event;
}

static void run(const char *job, enum run_end wanted)
{
    if (hosted_run(&h, job, "") != wanted)
        fail_msg("%s: %d: %s\n%s", job, h.end, h.err.text, reports);
}

/* ---- the source was changed: its copy is replaced ---- */

static void a_replace_that_was_not_carried_out_is_sent_again(void **state)
{
    (void)state;
    source_changes();
    replace_meets(1, 2, TW_UNKNOWN, true);
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "{\"N\":9}");
    check_no_intent();
}

static void a_replace_whose_answer_is_lost_is_recognised(void **state)
{
    struct script_event *event;

    (void)state;
    source_changes();
    event = replace_meets(1, 1, TW_UNKNOWN, false);
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "{\"N\":9}");
    assert_int_equal(event->seen, 1);
}

static void a_replace_that_stays_unknown_ends_the_attempt_and_both_stay(
    void **state)
{
    (void)state;
    source_changes();
    replace_meets(1, TRIES, TW_UNKNOWN, true);
    run("all", RUN_OUTAGE);
    assert_non_null(strstr(
        h.err.text, "table OldBlogs: it is unknown whether an entity was "));
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":1}");
    /* The next attempt does not know whether the copy was changed. */
    run("all", RUN_FAILED);
    check_named("Blogs a/1: the source was changed while a move was "
                "interrupted, and an entity is at the destination: both stay");
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":1}");
    check_no_intent();
}

static void a_copy_that_others_change_or_delete_is_not_overwritten(void **state)
{
    static const struct {
        void (*before)(struct hosted *h);
        const char *copy;
    } cases[] = {{change_copy, "{\"N\":7}"}, {delete_copy, "none"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        hosted_forget(&h, "r1");
        script_clear(&s);
        reports[0] = '\0';
        source_changes();
        replace_meets(1, 1, TW_OK, false)->before = cases[i].before;
        run("all", RUN_FAILED);
        check_named("Blogs a/1: the source and its copy were both changed by "
                    "others: both stay; its destination is 'a' / '1' in "
                    "OldBlogs");
        check_is("Blogs", "1", "{\"N\":9}");
        check_is("OldBlogs", "1", cases[i].copy);
        assert_int_equal(h.failed, 1);
        check_no_intent();
        s.quiet = true;
        hosted_replace(&h, "Blogs", "a", "1", "\"N\":1");
        if (i == 0)
            delete_copy(&h);
        s.quiet = false;
    }
}

/* Others have written the copy back unchanged: its ETag is not the run's any
 * more. */
static void a_copy_that_is_not_read_back_as_it_was_replaced_stays(void **state)
{
    static const struct {
        void (*after)(struct hosted *h);
        const char *copy;
    } cases[] = {{change_copy, "{\"N\":7}"}, {delete_copy, "none"},
        {write_copy_as_it_is, "{\"N\":9}"}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hosted_forget(&h, "r1");
        script_clear(&s);
        reports[0] = '\0';
        source_changes();
        replace_meets(1, 1, TW_OK, false)->after = cases[i].after;
        run("all", RUN_FAILED);
        check_named("were both changed by others: both stay");
        check_is("Blogs", "1", "{\"N\":9}");
        check_is("OldBlogs", "1", cases[i].copy);
        s.quiet = true;
        hosted_replace(&h, "Blogs", "a", "1", "\"N\":1");
        if (i != 1)
            delete_copy(&h);
        s.quiet = false;
    }
}

/* A request of the repair is refused: then nothing is decided. */
static void a_refusal_during_a_repair_is_an_outage_and_loses_nothing(
    void **state)
{
    (void)state;
    source_changes();
    replace_meets(1, 1, TW_REFUSED, true);
    run("all", RUN_OUTAGE);
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":1}");
}

static void a_copy_that_cannot_be_read_back_is_an_outage(void **state)
{
    struct script_event *event;

    (void)state;
    source_changes();
    event = script_call(&s, CALL_GET, "OldBlogs", 1, 1);
    event->answer = TW_REFUSED;
    event->unsent = true;
    run("all", RUN_OUTAGE);
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":9}");
}

static void refuse_reads_of_the_source(struct hosted *callbacks)
{
    struct script_event *event = script_call(&s, CALL_GET, "Blogs", 1, 99);

    (void)callbacks;
    event->answer = TW_REFUSED;
    event->unsent = true;
}

static void a_changed_source_that_cannot_be_read_is_an_outage(void **state)
{
    struct script_event *event;

    (void)state;
    source_changes();
    /* The first read is made by the batch writer, after the conflict of the
     * delete. */
    event = script_call(&s, CALL_GET, "Blogs", 1, 1);
    event->after = refuse_reads_of_the_source;
    run("all", RUN_OUTAGE);
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":1}");
}

/* ---- after that the source is deleted ---- */

static void a_delete_that_was_not_carried_out_is_sent_again(void **state)
{
    (void)state;
    source_changes();
    delete_meets("Blogs", 2, 3, TW_UNKNOWN, true);
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "{\"N\":9}");
}

static void a_delete_whose_answer_is_lost_is_recognised(void **state)
{
    struct script_event *event;

    (void)state;
    source_changes();
    event = delete_meets("Blogs", 2, 2, TW_UNKNOWN, false);
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "{\"N\":9}");
    assert_int_equal(event->seen, 2);
}

static void a_delete_that_stays_unknown_ends_the_attempt(void **state)
{
    (void)state;
    source_changes();
    delete_meets("Blogs", 2, 1 + TRIES, TW_UNKNOWN, true);
    run("all", RUN_OUTAGE);
    assert_non_null(strstr(
        h.err.text, "table Blogs: it is unknown whether an entity was "));
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":9}");
}

static void a_delete_that_is_refused_ends_the_attempt(void **state)
{
    (void)state;
    source_changes();
    delete_meets("Blogs", 2, 2, TW_REFUSED, true);
    run("all", RUN_OUTAGE);
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":9}");
}

static void what_an_unknown_delete_met_and_cannot_be_read_is_an_outage(
    void **state)
{
    (void)state;
    source_changes();
    delete_meets("Blogs", 2, 2, TW_UNKNOWN, true)->before =
        refuse_reads_of_the_source;
    run("all", RUN_OUTAGE);
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":9}");
}

/* A client may have written the source again after the delete: if its copy were
 * deleted, the older value would be lost. */
static void
a_source_that_is_written_beside_an_unknown_delete_stays_with_its_copy(
    void **state)
{
    (void)state;
    source_changes();
    delete_meets("Blogs", 2, 2, TW_UNKNOWN, true)->before = change_source;
    run("all", RUN_FAILED);
    check_named("Blogs a/1: the source was changed after it was copied, and "
                "the outcome of its delete is unknown: source and copy stay");
    check_is("Blogs", "1", "{\"N\":10}");
    check_is("OldBlogs", "1", "{\"N\":9}");
    check_no_intent();
}

static void a_source_that_a_client_deletes_during_the_repair_takes_its_copy(
    void **state)
{
    (void)state;
    source_changes();
    delete_meets("Blogs", 2, 2, TW_OK, false)->before = delete_source;
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "none");
    assert_int_equal(h.failed, 0);
}

/* The source is deleted after the batch writer has read it, and before the
 * repair reads it. */
static void a_source_that_goes_before_it_is_read_takes_its_copy(void **state)
{
    (void)state;
    source_changes();
    script_call(&s, CALL_GET, "Blogs", 1, 1)->after = delete_source;
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "none");
}

/* After five changes during the repair the source is left to the next round;
 * meanwhile it has no copy. */
static void a_source_that_is_written_again_and_again_is_moved_in_a_later_round(
    void **state)
{
    struct script_event *replaced;

    (void)state;
    writes = 0;
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 6)->before = change_source;
    replaced = replace_meets(99, 99, TW_OK, false);
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "{\"N\":14}");
    assert_int_equal(replaced->seen, 5);
    assert_int_equal(h.failed, 0);
}

/* ---- the copy is deleted ---- */

static void a_source_that_is_not_selected_any_more_stays_without_a_copy(
    void **state)
{
    (void)state;
    source_changes();
    run("ones", RUN_SUCCEEDED);
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "none");
    assert_int_equal(h.failed, 0);
}

static void a_copy_that_others_changed_is_not_deleted_and_both_are_named(
    void **state)
{
    (void)state;
    source_changes();
    delete_meets("OldBlogs", 1, 1, TW_OK, false)->before = change_copy;
    run("ones", RUN_FAILED);
    check_named("Blogs a/1: the source and its copy were both changed by "
                "others: both stay");
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":7}");
}

/* The source is deleted: an entity that others have written at the destination
 * stays. */
static void a_copy_that_others_changed_outlives_its_source(void **state)
{
    (void)state;
    source_goes();
    delete_meets("OldBlogs", 1, 1, TW_OK, false)->before = change_copy;
    run("all", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "{\"N\":7}");
}

static void a_copy_that_others_deleted_is_not_missed(void **state)
{
    (void)state;
    source_goes();
    delete_meets("OldBlogs", 1, 1, TW_OK, false)->before = delete_copy;
    run("all", RUN_SUCCEEDED);
    check_is("OldBlogs", "1", "none");
}

static void the_delete_of_a_copy_is_repeated_until_it_is_known(void **state)
{
    (void)state;
    source_goes();
    delete_meets("OldBlogs", 1, 2, TW_UNKNOWN, true);
    run("all", RUN_SUCCEEDED);
    check_is("OldBlogs", "1", "none");
    hosted_forget(&h, "r2");
    script_clear(&s);
    hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
    source_goes();
    delete_meets("OldBlogs", 1, 1, TW_UNKNOWN, false);
    run("all", RUN_SUCCEEDED);
    check_is("OldBlogs", "1", "none");
}

static void the_delete_of_a_copy_that_is_refused_is_an_outage(void **state)
{
    (void)state;
    source_goes();
    delete_meets("OldBlogs", 1, 1, TW_REFUSED, true);
    run("all", RUN_OUTAGE);
    check_is("OldBlogs", "1", "{\"N\":1}");
    /* `leaving` is stored: the pair was confirmed, and the run itself may have
     * deleted the source. */
    run("all", RUN_SUCCEEDED);
    check_is("OldBlogs", "1", "{\"N\":1}");
}

/* ---- copies that are not provably the run's own ---- */

static void after_an_unknown_insert_a_changed_source_and_its_copy_both_stay(
    void **state)
{
    struct script_event *event =
        script_batch(&s, "OldBlogs", OPERATION_INSERT, 1, 1);

    (void)state;
    event->answer = TW_UNKNOWN;
    source_changes();
    run("all", RUN_FAILED);
    check_named("Blogs a/1: the source was changed by others, and the copy is "
                "not provably this run's: both stay");
    check_is("Blogs", "1", "{\"N\":9}");
    check_is("OldBlogs", "1", "{\"N\":1}");
}

static void a_changed_source_with_another_key_leaves_no_copy_at_the_old_one(
    void **state)
{
    (void)state;
    source_changes();
    run("key-of-n", RUN_SUCCEEDED);
    check_is("Blogs", "1", "none");
    check_is("OldBlogs", "1", "none");
    check_is("OldBlogs", "9", "{\"N\":9}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_replace_that_was_not_carried_out_is_sent_again),
        TEST(a_replace_whose_answer_is_lost_is_recognised),
        TEST(a_replace_that_stays_unknown_ends_the_attempt_and_both_stay),
        TEST(a_copy_that_others_change_or_delete_is_not_overwritten),
        TEST(a_copy_that_is_not_read_back_as_it_was_replaced_stays),
        TEST(a_refusal_during_a_repair_is_an_outage_and_loses_nothing),
        TEST(a_copy_that_cannot_be_read_back_is_an_outage),
        TEST(a_changed_source_that_cannot_be_read_is_an_outage),
        TEST(a_delete_that_was_not_carried_out_is_sent_again),
        TEST(a_delete_whose_answer_is_lost_is_recognised),
        TEST(a_delete_that_stays_unknown_ends_the_attempt),
        TEST(a_delete_that_is_refused_ends_the_attempt),
        TEST(what_an_unknown_delete_met_and_cannot_be_read_is_an_outage),
        TEST(
            a_source_that_is_written_beside_an_unknown_delete_stays_with_its_copy),
        TEST(a_source_that_a_client_deletes_during_the_repair_takes_its_copy),
        TEST(a_source_that_goes_before_it_is_read_takes_its_copy),
        TEST(
            a_source_that_is_written_again_and_again_is_moved_in_a_later_round),
        TEST(a_source_that_is_not_selected_any_more_stays_without_a_copy),
        TEST(a_copy_that_others_changed_is_not_deleted_and_both_are_named),
        TEST(a_copy_that_others_changed_outlives_its_source),
        TEST(a_copy_that_others_deleted_is_not_missed),
        TEST(the_delete_of_a_copy_is_repeated_until_it_is_known),
        TEST(the_delete_of_a_copy_that_is_refused_is_an_outage),
        TEST(after_an_unknown_insert_a_changed_source_and_its_copy_both_stay),
        TEST(a_changed_source_with_another_key_leaves_no_copy_at_the_old_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
