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
#include "worker/base/mem.h"

static const char JOBS[] =
    "purge: {kind: delete, table: Blogs, filter: \"N eq 1\"}\n"
    "everything: {kind: delete, table: Blogs, all: true}\n"
    "month: {kind: delete, args: [month], table: Blogs, partition_key_from: "
    "\"{month}\", partition_key_below: \"{month}~\"}\n"
    "before: {kind: delete, args: [time], table: Runs, filter: \"FinishedAt lt "
    "datetime'{time}'\"}\n"
    "prefixed: {kind: delete, args: [{prefix: {allow_empty: true}}], table: "
    "Blogs, row_key_prefix: \"{prefix}\", filter: \"N eq 1\"}\n"
    "rows: {kind: delete, args: [below], table: Blogs, row_key_below: "
    "\"{below}\"}\n"
    "nowhere: {kind: delete, table: Nowhere, all: true}\n";

static struct job_estimate estimate;

static struct hosted h;
static struct faulty faulty; /* wraps the store of h */
static void (*meddle)(void); /* called once, before the next batch */

static void before_batch(void *ctx, const struct batch *batch)
{
    void (*once)(void) = meddle;

    meddle = NULL;
    if (once)
        once();
}

static int set_up(void **state)
{
    hosted_begin(&h, JOBS, "Blogs");
    faulty_init(&faulty, h.store);
    h.store = &faulty.outer.store;
    faulty.before = before_batch;
    return 0;
}

static int tear_down(void **state)
{
    faulty_done(&faulty);
    hosted_done(&h);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* Inserts an entity into Blogs for each key in `keys`, with the Int32 property
 * N = n. A key is PartitionKey/RowKey; blanks separate the keys. */
static void put(const char *keys, int n)
{
    char *properties = mem_format("\"N\":%d", n);
    char *copy = mem_format("%s", keys), *rest = copy, *key;

    while ((key = strtok_r(rest, " ", &rest))) {
        const char *partition_key = strtok_r(key, "/", &key);

        hosted_put(&h, "Blogs", partition_key, key, properties);
    }
    mem_free(copy);
    mem_free(properties);
}

/* Makes one attempt of the job with the argument. Fails unless the attempt ends
 * as `wanted` and Blogs then has exactly the keys in `left`. */
static void attempt_at(const char *job, const char *argument,
    enum run_end wanted, const char *left)
{
    enum run_end end = hosted_attempt(&h, job, argument);

    if (end != wanted)
        fail_msg("%d: %s", (int)end, h.err.text);
    assert_string_equal(hosted_dump(&h, "Blogs"), left);
}

static void purge(enum run_end wanted, const char *left)
{
    attempt_at("purge", "", wanted, left);
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
        "PartitionKey is before \"{month}~\"; an entity that changes after "
        "it is read is deleted only if it is still selected\n");
    assert_string_equal(hosted_explained(&h, "everything"),
        "delete every entity of Blogs; an entity that changes after it is read "
        "is deleted only if it is still selected\n");
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
    static const struct {
        const char *job, *argument;
        enum tw_err outcome;
    } cases[] = {
        {"month", "2024-05", TW_OK},
        {"month", "a/b", TW_INVALID},
        {"before", "2024-01-01T00:00:00Z", TW_OK},
        {"before", "yesterday", TW_INVALID},
        {"prefixed", "", TW_INVALID},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_int_equal(
            accepted(cases[i].job, cases[i].argument), cases[i].outcome);
    assert_string_equal(h.err.text, "row_key_prefix renders as an empty text, "
                                    "which would select everything");
}

/* ---- what is deleted ---- */

FIXTURE_TEST(what_is_selected_goes_and_nothing_else)
{
    put("p/1 q/1", 1);
    put("p/2", 2);
    hosted_rows(&h, "Blogs q/3(N=1) r/1");
    purge(RUN_SUCCEEDED, "p/2 q/3 r/1 ");
    assert_int_equal(h.deleted, 2);
    assert_int_equal(h.read, 2);
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.passes, 1);
}

FIXTURE_TEST(a_range_is_cut_out_of_the_middle)
{
    put("2024-04_a/1 2024-05_a/1 2024-05_b/1 2024-06_a/1", 1);
    attempt_at("month", "2024-05_", RUN_SUCCEEDED, "2024-04_a/1 2024-06_a/1 ");
}

/* The service orders keys by UTF-16 units: U+10000 comes before U+E000,
 * although its code point is greater. Some stores order keys by code points. So
 * the range that the job reads may be wider than the range that it selects. */
FIXTURE_TEST(a_range_is_in_the_order_of_the_service)
{
    put("p/a p/a\xf0\x90\x80\x80 p/a\xee\x80\x80 p/az", 1);
    assert_ok(hosted_estimate(&h, "rows", "a\xee\x80\x80", &estimate));
    assert_int_equal(estimate.tables[0].entities, 3);
    arena_done(&estimate.arena);
    attempt_at("rows", "a\xee\x80\x80", RUN_SUCCEEDED, "p/a\xee\x80\x80 ");
    assert_int_equal(h.deleted, 3);
}

FIXTURE_TEST(an_empty_prefix_ends_the_run_before_anything_goes)
{
    put("p/1", 1);
    attempt_at("prefixed", "", RUN_FAILED, "p/1 ");
    hosted_check_why(&h, "which would select everything");
}

FIXTURE_TEST(a_missing_table_fails_the_run_by_its_name)
{
    attempt_at("nowhere", "", RUN_FAILED, "");
    hosted_check_why(&h, "Nowhere");
}

FIXTURE_TEST(a_table_is_emptied_in_full_batches)
{
    hosted_fill(&h, "Blogs", "p", 2500);
    faulty.calls[CALL_BATCH] = 0;
    attempt_at("everything", "", RUN_SUCCEEDED, "");
    assert_int_equal(h.deleted, 2500);
    assert_int_equal(faulty.calls[CALL_BATCH], 25);
}

/* ---- other writers change entities meanwhile ---- */

static void change_some(void)
{
    hosted_replace(&h, "Blogs", "p", "1", "\"N\":2");
    hosted_replace(&h, "Blogs", "p", "2", "\"N\":1,\"More\":true");
    hosted_remove(&h, "Blogs", "p", "3");
}

FIXTURE_TEST(what_changed_goes_only_where_it_is_still_selected)
{
    put("p/1 p/2 p/3 p/4", 1);
    meddle = change_some;
    purge(RUN_SUCCEEDED, "p/1 ");
    assert_string_equal(hosted_json(&h, "Blogs", "p", "1"), "{\"N\":2}");
    assert_int_equal(h.skipped, 1);
    assert_int_equal(h.failed, 0);
}

/* ---- what fails ---- */

/* Fills partition p with `count` entities b00000, b00001, ... The store refuses
 * each delete of the entity with this RowKey. */
static void fill_with_refused(unsigned count, const char *row_key)
{
    hosted_fill(&h, "Blogs", "p", count);
    faulty.refused_key = row_key;
    faulty.refusal = TW_INVALID;
}

FIXTURE_TEST(what_cannot_go_is_told_and_the_rest_is_gone)
{
    fill_with_refused(300, "b00007");
    purge(RUN_FAILED, "p/b00007 ");
    assert_int_equal(h.failed, 1);
    assert_non_null(strstr(h.failed_why, "Blogs p/b00007"));
    hosted_check_why(&h, "1 entity could not be deleted");
    faulty.refused_key = NULL;
    purge(RUN_SUCCEEDED, "");
}

FIXTURE_TEST(what_failed_before_a_stop_is_told_after_it)
{
    fill_with_refused(4000, "b00007");
    h.stop_after = 3;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_STOPPED);
    assert_int_equal(h.failed, 1);
    assert_true(hosted_count(&h, "Blogs") < 4000);
    h.stop_after = -1;
    purge(RUN_FAILED, "p/b00007 ");
    assert_int_equal(h.failed, 1);
}

/* The first page was deleted and saved in the checkpoint before an entity of a
 * later page failed. */
FIXTURE_TEST(a_run_that_failed_begins_with_the_first_key_when_retried)
{
    fill_with_refused(5000, "b04500");
    purge(RUN_FAILED, "p/b04500 ");
    faulty.refused_key = NULL;
    put("a/1", 1);
    purge(RUN_SUCCEEDED, "");
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.passes, 2);
}

/* ---- attempts that end at any request ---- */

FIXTURE_TEST(whoever_goes_on_does_not_read_what_is_gone)
{
    hosted_fill(&h, "Blogs", "p", 5000);
    h.stop_after = 3;
    assert_int_equal(hosted_attempt(&h, "purge", ""), RUN_STOPPED);
    assert_non_null(strstr(h.checkpoint, "\"done\":[\"p\","));
    put("a/1", 1); /* written behind the position of the scan: this run does not
                      delete it */
    h.stop_after = -1;
    purge(RUN_SUCCEEDED, "a/1 ");
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
        put("p/1", 1);
        hosted_lose_checkpoint(&h);
        h.checkpoint = mem_format("%s", texts[i]);
        purge(RUN_SUCCEEDED, "");
    }
}

FIXTURE_TEST(a_store_without_order_is_read_from_the_beginning)
{
    put("a/1", 1);
    h.checkpoint = mem_format("{\"version\":1,\"done\":[\"z\",\"z\"]}");
    purge(RUN_SUCCEEDED, "a/1 ");
    h.store->capabilities.ordered = false;
    purge(RUN_SUCCEEDED, "");
}

/* ---- the estimate ---- */

FIXTURE_TEST(an_estimate_counts_and_touches_nothing)
{
    const struct job_estimate_table *table;

    hosted_fill(&h, "Blogs", "p", 150);
    put("q/1", 1);
    put("q/2", 2);
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
    put("2024-05_a/1 2024-06_a/1", 1);
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
