/* SPDX-License-Identifier: MIT */
/*
 * The kind delete: its configuration, which entities are deleted and which
 * stay, and attempts that end at any request.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

static const char JOBS[] = "purge:\n"
                           "  kind: delete\n"
                           "  table: Blogs\n"
                           "  filter: \"N eq 1\"\n"
                           "everything:\n"
                           "  kind: delete\n"
                           "  table: Blogs\n"
                           "  all: true\n"
                           "month:\n"
                           "  kind: delete\n"
                           "  args: [month]\n"
                           "  table: Blogs\n"
                           "  partition_key_from: \"{month}\"\n"
                           "  partition_key_below: \"{month}~\"\n"
                           "before:\n"
                           "  kind: delete\n"
                           "  args: [time]\n"
                           "  table: Runs\n"
                           "  filter: \"FinishedAt lt datetime'{time}'\"\n"
                           "prefixed:\n"
                           "  kind: delete\n"
                           "  args: [{prefix: {allow_empty: true}}]\n"
                           "  table: Blogs\n"
                           "  row_key_prefix: \"{prefix}\"\n"
                           "  filter: \"N eq 1\"\n"
                           "rows:\n"
                           "  kind: delete\n"
                           "  args: [below]\n"
                           "  table: Blogs\n"
                           "  row_key_below: \"{below}\"\n"
                           "nowhere:\n"
                           "  kind: delete\n"
                           "  table: Nowhere\n"
                           "  all: true\n";

static struct job_estimate estimate;

HOSTED_FIXTURE(JOBS, "Blogs Runs")

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static void put(const char *partition_key, const char *row_key, int n)
{
    char *properties = mem_format("\"N\":%d", n);

    hosted_put(&h, "Blogs", partition_key, row_key, properties);
    mem_free(properties);
}

static void check_left(const char *wanted)
{
    assert_string_equal(hosted_dump(&h, "Blogs"), wanted);
}

/* ---- the configuration ---- */

#define HEAD "d: {kind: delete, table: Blogs"

TEST(what_is_wrong_in_a_job_is_told)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"d: {kind: delete, all: true}", "table"},
        {HEAD "}", "would delete every entity of its table"},
        {HEAD ", all: false}", "would delete every entity of its table"},
        {HEAD ", all: true, filter: \"N eq 1\"}",
            "contradicts the other selection"},
        {HEAD ", all: yes}", "all"},
        {HEAD ", row_key_form: a}", "row_key_from"},
        {HEAD ", row_key_from: \"{nothing}\"}", "nothing"},
        {HEAD ", filter: \"N eq\"}", "filter"},
        {HEAD ", filter: \"  \"}", "this filter is empty"},
        {HEAD ", filter: \"${HOLDS_NOTHING}\"}", "this filter is empty"},
        {HEAD ", all: true, filter: \"\"}", "this filter is empty"},
        {HEAD ", store: elsewhere, all: true}", "elsewhere"},
        {"d: {kind: delete, table: \"a-b\", all: true}", "a-b"},
    };

    setenv("HOLDS_NOTHING", "", 1);
    for (size_t i = 0; TEST_EACH(i, cases); i++)
        loading_refused(cases[i].text, cases[i].part);
}

FIXTURE_TEST(a_job_says_what_it_deletes)
{
    assert_string_equal(hosted_explained(&h, "month"),
        "delete from Blogs where PartitionKey is not before \"{month}\" and "
        "PartitionKey is before \"{month}~\", each with the ETag it was read "
        "with\n");
    assert_string_equal(hosted_explained(&h, "everything"),
        "delete every entity of Blogs, each with the ETag it was read with\n");
}

static void note_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    assert_int_equal(store, 0);
    *(const char **)ctx = table;
}

FIXTURE_TEST(a_job_names_its_table)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("before"));
    const char *table = NULL;

    job->kind->tables(job, note_table, &table);
    assert_string_equal(table, "Runs");
}

static enum tw_err accepted(const char *job, const char *argument)
{
    const struct job *found = jobs_find(&h.jobs, slice_of(job));
    const struct slice value = slice_of(argument);
    const struct run_args args = {1, &found->args[0].name, &value};

    return found->kind->accept(found, &args, &h.err);
}

FIXTURE_TEST(an_argument_that_can_select_nothing_right_is_refused)
{
    assert_ok(accepted("month", "2024-05"));
    assert_int_equal(accepted("month", "a/b"), TW_INVALID);
    assert_ok(accepted("before", "2024-01-01T00:00:00Z"));
    assert_int_equal(accepted("before", "yesterday"), TW_INVALID);
    assert_int_equal(accepted("prefixed", ""), TW_INVALID);
    assert_string_equal(
        h.err.text, "row_key_prefix is empty here: it would select everything");
}

/* ---- what goes ---- */

FIXTURE_TEST(what_is_selected_goes_and_nothing_else)
{
    put("p", "1", 1);
    put("p", "2", 2);
    put("q", "1", 1);
    hosted_put(&h, "Blogs", "q", "3", "\"N\":\"1\"");
    hosted_put(&h, "Blogs", "r", "1", NULL);
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("p/2 q/3 r/1 ");
    assert_int_equal(h.deleted, 2);
    assert_int_equal(h.read, 2);
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.passes, 1);
}

FIXTURE_TEST(a_range_is_cut_out_of_the_middle)
{
    put("2024-04_a", "1", 1);
    put("2024-05_a", "1", 1);
    put("2024-05_b", "1", 1);
    put("2024-06_a", "1", 1);
    assert_int_equal(hosted_attempt(&h, "month", "2024-05_"), RUN_SUCCEEDED);
    check_left("2024-04_a/1 2024-06_a/1 ");
}

/* In the service's order U+10000 is before U+E000, although its code point is
 * greater. So the range that is requested from a store may be wider than the
 * selected one. */
FIXTURE_TEST(a_range_is_in_the_order_of_the_service)
{
    put("p", "a", 1);
    put("p", "a\xf0\x90\x80\x80", 1);
    put("p", "a\xee\x80\x80", 1);
    put("p", "az", 1);
    assert_ok(hosted_estimate(&h, "rows", "a\xee\x80\x80", &estimate));
    assert_int_equal(estimate.tables[0].entities, 3);
    arena_done(&estimate.arena);
    assert_int_equal(
        hosted_attempt(&h, "rows", "a\xee\x80\x80"), RUN_SUCCEEDED);
    check_left("p/a\xee\x80\x80 ");
    assert_int_equal(h.deleted, 3);
}

FIXTURE_TEST(a_time_in_an_argument_is_a_time_in_the_filter)
{
    static const char *const at[] = {
        "2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z"};

    hosted_put(&h, "Runs", "job", "open", NULL);
    for (size_t i = 0; i < 2; i++) {
        char *properties = mem_format("\"FinishedAt@odata.type\":"
                                      "\"Edm.DateTime\",\"FinishedAt\":\"%s\"",
            at[i]);

        hosted_put(&h, "Runs", "job", i == 0 ? "old" : "new", properties);
        mem_free(properties);
    }
    assert_int_equal(
        hosted_attempt(&h, "before", "2024-01-01T00:00:00Z"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Runs"), "job/new job/open ");
}

FIXTURE_TEST(an_empty_prefix_ends_the_run_before_anything_goes)
{
    put("p", "1", 1);
    assert_int_equal(hosted_attempt(&h, "prefixed", ""), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "it would select everything"));
    check_left("p/1 ");
}

FIXTURE_TEST(a_missing_table_fails_the_run_by_its_name)
{
    assert_int_equal(hosted_attempt(&h, "nowhere", ""), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "Nowhere"));
}

/* ---- others write meanwhile ---- */

static struct faulty faulty;
static void (*meddle)(void); /* called before the first batch */

static void before_batch(void *ctx, const struct batch *batch)
{
    void (*once)(void) = meddle;

    meddle = NULL;
    if (once)
        once();
}

static void stand_between(void (*what)(void))
{
    faulty_init(&faulty, h.store);
    h.store = &faulty.outer.store;
    faulty.before = before_batch;
    meddle = what;
}

FIXTURE_TEST(a_table_is_emptied_in_full_batches)
{
    hosted_fill(&h, "Blogs", "p", 2500);
    stand_between(NULL);
    assert_int_equal(hosted_attempt(&h, "everything", ""), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    assert_int_equal(h.deleted, 2500);
    assert_int_equal(faulty.calls[CALL_BATCH], 25);
    faulty_done(&faulty);
}

static void change_some(void)
{
    hosted_replace(&h, "Blogs", "p", "1", "\"N\":2");
    hosted_replace(&h, "Blogs", "p", "2", "\"N\":1,\"More\":true");
    hosted_remove(&h, "Blogs", "p", "3");
}

FIXTURE_TEST(what_changed_goes_only_where_it_is_still_selected)
{
    put("p", "1", 1);
    put("p", "2", 1);
    put("p", "3", 1);
    put("p", "4", 1);
    stand_between(change_some);
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("p/1 ");
    assert_string_equal(hosted_json(&h, "Blogs", "p", "1"), "{\"N\":2}");
    assert_int_equal(h.skipped, 1);
    assert_int_equal(h.failed, 0);
    faulty_done(&faulty);
}

FAULTY_CHOICE(lose_first_answer)
{
    return call == CALL_BATCH && n == 0 ? FAULT_LOSE_ANSWER : FAULT_NONE;
}

FIXTURE_TEST(an_answer_that_is_lost_is_read_again)
{
    hosted_fill(&h, "Blogs", "p", 150);
    stand_between(NULL);
    faulty.choose = lose_first_answer;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("");
    assert_int_equal(h.deleted, 150);
    faulty_done(&faulty);
}

FAULTY_CHOICE(refuse_scans)
{
    return call == CALL_SCAN ? FAULT_REFUSED : FAULT_NONE;
}

FIXTURE_TEST(a_store_that_refuses_is_an_outage)
{
    put("p", "1", 1);
    stand_between(NULL);
    faulty.choose = refuse_scans;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_OUTAGE);
    faulty_done(&faulty);
}

FAULTY_CHOICE(refuse_batches)
{
    return call == CALL_BATCH && n > 0 ? FAULT_REFUSED : FAULT_NONE;
}

FIXTURE_TEST(an_outage_within_the_pass_is_one)
{
    hosted_fill(&h, "Blogs", "p", 4000);
    stand_between(NULL);
    faulty.choose = refuse_batches;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_OUTAGE);
    faulty.choose = NULL;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("");
    faulty_done(&faulty);
}

/* ---- what cannot be deleted ---- */

FIXTURE_TEST(what_cannot_go_is_told_and_the_rest_is_gone)
{
    hosted_fill(&h, "Blogs", "p", 300);
    stand_between(NULL);
    faulty.refused_key = "b00007";
    faulty.refusal = TW_INVALID;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_non_null(strstr(h.failed_why, "Blogs p/b00007"));
    assert_non_null(strstr(h.err.text, "1 entity could not be deleted"));
    check_left("p/b00007 ");
    faulty.refused_key = NULL;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("");
    faulty_done(&faulty);
}

FIXTURE_TEST(what_failed_before_a_stop_is_told_after_it)
{
    hosted_fill(&h, "Blogs", "p", 4000);
    stand_between(NULL);
    faulty.refused_key = "b00007";
    faulty.refusal = TW_INVALID;
    h.stop_after = 3;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_STOPPED);
    assert_int_equal(h.failed, 1);
    assert_true(hosted_count(&h, "Blogs") < 4000);
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    check_left("p/b00007 ");
    faulty_done(&faulty);
}

/* The first page was deleted and saved in the checkpoint before an entity of a
 * later page failed. */
FIXTURE_TEST(a_run_that_failed_begins_with_the_first_key_when_retried)
{
    hosted_fill(&h, "Blogs", "p", 5000);
    stand_between(NULL);
    faulty.refused_key = "b04500";
    faulty.refusal = TW_INVALID;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_FAILED);
    check_left("p/b04500 ");
    faulty.refused_key = NULL;
    put("a", "1", 1);
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("");
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.passes, 2);
    faulty_done(&faulty);
}

/* ---- attempts end anywhere ---- */

FIXTURE_TEST(whoever_goes_on_does_not_read_what_is_gone)
{
    hosted_fill(&h, "Blogs", "p", 5000);
    h.stop_after = 3;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_STOPPED);
    assert_non_null(strstr(h.checkpoint, "\"done\":[\"p\","));
    put("a", "1", 1); /* written behind the position of the scan: this run does
                         not delete it */
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("a/1 ");
    assert_int_equal(h.deleted, 5000);
    assert_int_equal(h.passes, 1);
}

FIXTURE_TEST(a_checkpoint_that_is_none_begins_anew)
{
    static const char *const texts[] = {
        "",
        "nonsense",
        "[]",
        "{}",
        "{\"version\":1}",
        "{\"version\":2,\"done\":[\"z\",\"z\"]}",
        "{\"version\":\"1\",\"done\":[\"z\",\"z\"]}",
        "{\"version\":1,\"done\":7}",
        "{\"version\":1,\"done\":[\"z\"]}",
        "{\"version\":1,\"done\":[1,\"z\"]}",
        "{\"version\":1,\"done\":[\"z\",1]}",
    };

    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        put("p", "1", 1);
        mem_free(h.checkpoint);
        h.checkpoint = mem_format("%s", texts[i]);
        assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
        check_left("");
    }
}

FIXTURE_TEST(a_store_without_order_is_read_from_the_beginning)
{
    put("a", "1", 1);
    h.checkpoint = mem_format("{\"version\":1,\"done\":[\"z\",\"z\"]}");
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("a/1 ");
    h.store->capabilities.ordered = false;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_SUCCEEDED);
    check_left("");
}

/* ---- the estimate ---- */

FIXTURE_TEST(an_estimate_counts_and_touches_nothing)
{
    const struct job_estimate_table *table;

    hosted_fill(&h, "Blogs", "p", 150);
    put("q", "1", 1);
    put("q", "2", 2);
    assert_ok(hosted_estimate(&h, "purge", "", &estimate));
    table = &estimate.tables[0];
    assert_int_equal(estimate.table_count, 1);
    assert_string_equal(table->table, "Blogs");
    assert_true(table->table_scan);
    assert_int_equal(table->entities, 151);
    assert_int_equal(table->batches, 3);
    assert_true(table->pages > 0);
    assert_int_equal(estimate.transactions, table->pages + 3);
    assert_string_equal(table->first_keys[0], "p/b00000");
    assert_int_equal(hosted_count(&h, "Blogs"), 152);
    arena_done(&estimate.arena);
}

FIXTURE_TEST(an_estimate_says_where_a_range_spares_the_table)
{
    put("2024-05_a", "1", 1);
    put("2024-06_a", "1", 1);
    assert_ok(hosted_estimate(&h, "month", "2024-05_", &estimate));
    assert_false(estimate.tables[0].table_scan);
    assert_int_equal(estimate.tables[0].entities, 1);
    arena_done(&estimate.arena);
}

FIXTURE_TEST(an_estimate_fails_as_the_run_would)
{
    assert_int_equal(
        hosted_estimate(&h, "month", "a/b", &estimate), TW_INVALID);
    arena_done(&estimate.arena);
    assert_int_equal(
        hosted_estimate(&h, "nowhere", "", &estimate), TW_NOT_FOUND);
    arena_done(&estimate.arena);
}
