/* SPDX-License-Identifier: MIT */
/* What a dry run says of a job that copies, and that it touches nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/copier.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/base/mem.h"

static const char JOBS[] =
    "month:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  to: {table: ByMonth, partition_key: \"{PartitionKey}_{Month:02}\"}\n"
    "both:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  to:\n"
    "    - {table: ByMonth, partition_key: \"{Month:02}\"}\n"
    "    - {table: ByName, partition_key: names, row_key: \"{Name}\"}\n"
    "move:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs, partition_key: p}\n"
    "  to: {table: ByName, partition_key: names, row_key: \"{Name}\"}\n"
    "  mode: move\n"
    "bare:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  to: {table: ByMonth, partition_key: \"{Month:02}\"}\n"
    "  strip: true\n"
    "prefixed:\n"
    "  kind: migrate\n"
    "  args: [{start: {allow_empty: true}}]\n"
    "  from: {table: Blogs, row_key_prefix: \"{start}\"}\n"
    "  to: {table: ByMonth}\n"
    "keyed:\n"
    "  kind: migrate\n"
    "  args: [key]\n"
    "  from: {table: Blogs}\n"
    "  to: {table: ByMonth, partition_key: \"{key}\"}\n"
    "index:\n"
    "  kind: reindex\n"
    "  table: Blogs\n"
    "  copies:\n"
    "    - {row_key: \"name:{Name}\", properties: [Month]}\n"
    "lost:\n"
    "  kind: migrate\n"
    "  from: {table: Nowhere}\n"
    "  to: {table: ByMonth}\n";

static struct hosted h;
static struct job_estimate estimate;
static struct faulty faulty;

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, JOBS);
    hosted_table(&h, "Blogs");
    memset(&estimate, 0, sizeof(estimate));
    arena_init(&estimate.arena);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&estimate.arena);
    hosted_done(&h);
    return 0;
}

static void put(
    const char *partition_key, const char *row_key, int month, const char *name)
{
    char *properties = mem_format("\"Month\":%d,\"Name\":\"%s\"", month, name);

    hosted_put(&h, "Blogs", partition_key, row_key, properties);
    mem_free(properties);
}

/* count of them, in 12 months and one partition, all with names of their own.
 */
static void fill(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char *key = mem_format("b%05u", i);

        put("p", key, (int)(i % 12) + 1, key);
        mem_free(key);
    }
}

static enum tw_err count(const char *job)
{
    arena_done(&estimate.arena);
    return hosted_estimate(&h, job, "", &estimate);
}

static const struct job_estimate_table *table(size_t i, const char *name)
{
    assert_true(i < estimate.table_count);
    assert_string_equal(estimate.tables[i].table, name);
    return &estimate.tables[i];
}

static void check_says(const char *wanted)
{
    if (!strstr(estimate.details, wanted))
        fail_msg("'%s' does not say '%s'", estimate.details, wanted);
}

static void check_says_nothing_of(const char *unwanted)
{
    if (strstr(estimate.details, unwanted))
        fail_msg("'%s' says '%s'", estimate.details, unwanted);
}

/* ---- what would be written ---- */

static void copies_are_counted_where_they_would_go(void **state)
{
    (void)state;
    fill(1300);
    assert_int_equal(count("month"), TW_OK);
    assert_int_equal(estimate.table_count, 2);
    assert_int_equal(table(0, "Blogs")->entities, 1300);
    assert_int_equal(table(0, "Blogs")->batches, 0);
    assert_true(table(0, "Blogs")->table_scan);
    assert_int_equal(table(1, "ByMonth")->entities, 1300);
    /* 108 or 109 in each of twelve months */
    assert_int_equal(table(1, "ByMonth")->batches, 24);
    assert_string_equal(table(1, "ByMonth")->first_keys[0], "p_01/b00000");
    assert_string_equal(table(1, "ByMonth")->first_keys[4], "p_05/b00004");
    assert_false(table(1, "ByMonth")->table_scan);
    check_says("Blogs is read, and copies are written");
    check_says("table ByMonth does not exist in store main, and would be "
               "created");
    check_says_nothing_of("would fail");
    assert_int_equal(hosted_count(&h, "Blogs"), 1300);
}

static void scattered_copies_are_gathered_as_the_sorter_does(void **state)
{
    (void)state;
    fill(9000);
    assert_int_equal(count("month"), TW_OK);
    /* Of each of twelve months one that is not full, each time it is poured. */
    assert_in_range(table(1, "ByMonth")->batches, 91, 90 + 3 * 12);
}

static void each_destination_is_counted_for_itself(void **state)
{
    (void)state;
    fill(120);
    assert_int_equal(count("both"), TW_OK);
    assert_int_equal(estimate.table_count, 3);
    assert_int_equal(table(0, "Blogs")->entities, 120);
    assert_int_equal(table(1, "ByMonth")->batches, 12);
    assert_int_equal(table(2, "ByName")->batches, 2);
    assert_string_equal(table(2, "ByName")->first_keys[0], "names/b00000");
}

static void large_copies_fill_batches_by_their_size(void **state)
{
    static char text[30001];
    char *properties;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 20; i++) {
        char *key = mem_format("k%02d", i);

        properties = mem_format("\"Month\":1,\"A\":\"%s\",\"B\":\"%s\","
                                "\"C\":\"%s\",\"D\":\"%s\",\"E\":\"%s\","
                                "\"F\":\"%s\",\"G\":\"%s\",\"H\":\"%s\"",
            text, text, text, text, text, text, text, text);
        hosted_put(&h, "Blogs", "p", key, properties);
        mem_free(properties);
        mem_free(key);
    }
    h.store->traits.batch_max_bytes = (size_t)1024 * 1024;
    assert_int_equal(count("month"), TW_OK);
    assert_int_equal(table(1, "ByMonth")->entities, 20);
    /* Four of them in each; the sorter holds twelve or thirteen. */
    assert_in_range(table(1, "ByMonth")->batches, 5, 7);
}

static void a_move_counts_its_deletes(void **state)
{
    (void)state;
    fill(250);
    put("q", "1", 1, "of another partition");
    hosted_put(&h, "Blogs", "p", "nameless", "\"Month\":1");
    assert_int_equal(count("move"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 250);
    assert_int_equal(table(0, "Blogs")->batches, 3);
    assert_false(table(0, "Blogs")->table_scan);
    assert_int_equal(table(1, "ByName")->entities, 250);
    check_says("then 250 are deleted there in 3 batches");
    check_says("would fail: 1\n");
    check_says("'p' / 'nameless': ");
}

/* ---- what would not ---- */

static void what_would_fail_is_told_with_keys_and_reason(void **state)
{
    (void)state;
    put("p", "1", 1, "one");
    hosted_put(&h, "Blogs", "p", "2", "\"Month\":\"May\"");
    hosted_put(&h, "Blogs", "p", "3", NULL);
    assert_int_equal(count("month"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 1);
    assert_int_equal(table(1, "ByMonth")->entities, 1);
    check_says("would fail: 2\n");
    check_says("'p' / '2': ");
    check_says("Month");
}

static void no_more_than_ten_are_listed(void **state)
{
    const char *line;
    int lines = 0;

    (void)state;
    for (int i = 0; i < 30; i++) {
        char *key = mem_format("%02d", i);

        hosted_put(&h, "Blogs", "p", key, NULL);
        mem_free(key);
    }
    assert_int_equal(count("month"), TW_OK);
    check_says("would fail: 30\n");
    for (line = strstr(estimate.details, "\n  "); line;
         line = strstr(line + 1, "\n  "))
        lines++;
    assert_int_equal(lines, 10);
}

static void sources_that_meet_at_the_same_keys_are_told(void **state)
{
    (void)state;
    put("p", "1", 1, "same");
    put("p", "2", 2, "other");
    put("p", "3", 3, "same");
    assert_int_equal(count("both"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 3);
    assert_int_equal(table(2, "ByName")->entities, 2);
    check_says("another's copy has the same keys: at least 1\n");
    check_says("'p' / '3': its copy would have the keys of another's: "
               "'names' / 'same'");
    assert_int_equal(count("move"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 2); /* the third stays */
}

/* ---- destinations ---- */

static void a_table_that_is_there_is_not_to_be_created(void **state)
{
    (void)state;
    put("p", "1", 1, "one");
    hosted_table(&h, "ByMonth");
    assert_int_equal(count("month"), TW_OK);
    check_says_nothing_of("ByMonth does not exist");
    check_says_nothing_of("is not empty");
}

static void a_table_that_holds_something_is_told_of(void **state)
{
    int64_t before;

    (void)state;
    put("p", "1", 1, "one");
    hosted_table(&h, "ByMonth");
    assert_int_equal(count("month"), TW_OK);
    before = estimate.transactions;
    hosted_put(&h, "ByMonth", "somebody", "s", NULL);
    assert_int_equal(count("month"), TW_OK);
    check_says("table ByMonth in store main is not empty");
    assert_true(estimate.transactions > before);
}

/* A table where all copies go to one partition is asked for that alone. */
static void what_stands_in_another_partition_does_not_matter(void **state)
{
    (void)state;
    put("p", "1", 1, "one");
    hosted_table(&h, "ByName");
    hosted_put(&h, "ByName", "elsewhere", "s", NULL);
    assert_int_equal(count("move"), TW_OK);
    check_says_nothing_of("is not empty");
    hosted_put(&h, "ByName", "names", "s", NULL);
    assert_int_equal(count("move"), TW_OK);
    check_says("table ByName in store main is not empty");
}

/* The job names one store; its copies go to another all the same. */
static void a_table_of_another_store_is_told_with_its_store(void **state)
{
    const char *const names[] = {"main", "cloud"};
    struct store *const stores[] = {h.store, h.store};
    const struct job *job = jobs_find(&h.jobs, slice_of("month"));
    struct copier_rules *rules = job->settings;

    (void)state;
    put("p", "1", 1, "one");
    rules->targets[0].place.store = 1;
    h.stores.count = 2;
    h.stores.names = names;
    h.stores.stores = stores;
    assert_int_equal(count("month"), TW_OK);
    assert_int_equal(table(1, "ByMonth in cloud")->entities, 1);
    check_says("table ByMonth does not exist in store cloud");
}

static void to_take_provenance_off_costs_as_much_again(void **state)
{
    int64_t kept;

    (void)state;
    fill(100);
    assert_int_equal(count("both"), TW_OK);
    assert_int_equal(count("month"), TW_OK);
    kept = estimate.transactions;
    assert_int_equal(count("bare"), TW_OK);
    assert_true(estimate.transactions >= kept + 12);
}

/* ---- copies beside their sources ---- */

static void a_reindex_tells_copies_from_sources(void **state)
{
    (void)state;
    fill(5);
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Blogs"), 10);
    put("p", "new", 1, "new");
    assert_int_equal(count("index"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 6);
    assert_int_equal(table(1, "Blogs, copies")->entities, 6);
    check_says("copies that stand already, and stay where they are right: 5");
    hosted_put(&h, "Blogs", "p", "of another",
        "\"TablewardSource\":\"{\\\"store\\\":\\\"main\\\","
        "\\\"table\\\":\\\"Blogs\\\",\\\"key\\\":[\\\"p\\\",\\\"r\\\"],"
        "\\\"etag\\\":\\\"e\\\",\\\"job\\\":\\\"other\\\",\\\"run\\\":"
        "\\\"r\\\",\\\"digest\\\":"
        "\\\"00000000000000000000000000000000\\\"}\"");
    assert_int_equal(count("index"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 6);
    check_says("copies that stand already, and stay where they are right: 5");
    check_says_nothing_of("is not empty");
}

/* ---- what a run could not do either ---- */

static void an_estimate_fails_as_the_run_would(void **state)
{
    (void)state;
    assert_int_equal(count("lost"), TW_NOT_FOUND);
    assert_non_null(strstr(h.err.text, "Nowhere"));
    assert_int_equal(count("prefixed"), TW_INVALID);
    assert_non_null(strstr(h.err.text, "it would select everything"));
    arena_done(&estimate.arena);
    assert_int_equal(
        hosted_estimate(&h, "keyed", "a/b", &estimate), TW_INVALID);
    arena_done(&estimate.arena);
    assert_int_equal(
        hosted_estimate(&h, "prefixed", "a/b", &estimate), TW_INVALID);
}

static enum fault refuse_first_scan(void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    return call == CALL_SCAN && n == 0 ? FAULT_REFUSED : FAULT_NONE;
}

static void a_destination_that_cannot_be_read_ends_it(void **state)
{
    (void)state;
    put("p", "1", 1, "one");
    faulty_init(&faulty, h.store);
    h.store = &faulty.outer.store;
    faulty.choose = refuse_first_scan;
    assert_int_equal(count("both"), TW_REFUSED);
    faulty_done(&faulty);
}

static void nothing_to_copy_is_an_estimate_too(void **state)
{
    (void)state;
    assert_int_equal(count("month"), TW_OK);
    assert_int_equal(table(0, "Blogs")->entities, 0);
    assert_int_equal(table(1, "ByMonth")->batches, 0);
    assert_true(estimate.transactions > 0);
    assert_true(estimate.read >= 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(copies_are_counted_where_they_would_go),
        TEST(scattered_copies_are_gathered_as_the_sorter_does),
        TEST(each_destination_is_counted_for_itself),
        TEST(large_copies_fill_batches_by_their_size),
        TEST(a_move_counts_its_deletes),
        TEST(what_would_fail_is_told_with_keys_and_reason),
        TEST(no_more_than_ten_are_listed),
        TEST(sources_that_meet_at_the_same_keys_are_told),
        TEST(a_table_that_is_there_is_not_to_be_created),
        TEST(a_table_that_holds_something_is_told_of),
        TEST(what_stands_in_another_partition_does_not_matter),
        TEST(a_table_of_another_store_is_told_with_its_store),
        TEST(to_take_provenance_off_costs_as_much_again),
        TEST(a_reindex_tells_copies_from_sources),
        TEST(an_estimate_fails_as_the_run_would),
        TEST(a_destination_that_cannot_be_read_ends_it),
        TEST(nothing_to_copy_is_an_estimate_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
