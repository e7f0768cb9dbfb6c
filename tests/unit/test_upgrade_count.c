/* SPDX-License-Identifier: MIT */
/* The dry run of a schema upgrade: what it counts, what it says of it, and
 * that it writes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/hosted.h"
#include "worker/base/mem.h"

static const char JOBS[] =
    "v2:\n"
    "  kind: schema-upgrade\n"
    "  table: Blogs\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps:\n"
    "    - rename: {property: Text, to: Body}\n"
    "    - retype: {property: Rating, to: Edm.Int32}\n"
    "    - add: {property: Language, type: Edm.String, value: en}\n"
    "    - remove: {property: Legacy}\n"
    "v3:\n"
    "  kind: schema-upgrade\n"
    "  table: Blogs\n"
    "  version: {property: V, from: 2, to: 3}\n"
    "  steps: [{remove: {property: Language}}]\n"
    "skips:\n"
    "  kind: schema-upgrade\n"
    "  table: Posts\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{retype: {property: Rating, to: Edm.Int32, on_error: skip}}]\n"
    "expand:\n"
    "  kind: schema-upgrade\n"
    "  table: Notes\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  phase: expand\n"
    "  steps: [{rename: {property: Text, to: Body}}]\n"
    "contract:\n"
    "  kind: schema-upgrade\n"
    "  table: Notes\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  phase: contract\n"
    "  steps: [{rename: {property: Text, to: Body}}]\n"
    "kinds:\n"
    "  kind: schema-upgrade\n"
    "  args: [is]\n"
    "  table: Mixed\n"
    "  filter: \"Kind eq '{is}'\"\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{set: {property: Seen, type: Edm.Boolean, value: true}}]\n"
    "sized:\n"
    "  kind: schema-upgrade\n"
    "  args: [size]\n"
    "  table: Mixed\n"
    "  filter: \"Size ge {size}\"\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{set: {property: Seen, type: Edm.Boolean, value: true}}]\n";

static struct hosted h;
static struct job_estimate estimate;

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, JOBS);
    hosted_table(&h, "Blogs");
    hosted_table(&h, "Posts");
    hosted_table(&h, "Notes");
    hosted_table(&h, "Mixed");
    estimate = (struct job_estimate){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&estimate.arena);
    hosted_done(&h);
    return 0;
}

static void put(const char *table, const char *row_key, const char *properties)
{
    hosted_put(&h, table, "p", row_key, properties);
}

static const struct job_estimate_table *count(
    const char *job, const char *argument)
{
    if (estimate.tables)
        arena_done(&estimate.arena);
    assert_int_equal(hosted_estimate(&h, job, argument, &estimate), TW_OK);
    assert_int_equal(estimate.table_count, 1);
    assert_true(estimate.tables[0].table_scan);
    assert_false(estimate.tables[0].incomplete);
    return &estimate.tables[0];
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

/* ---- versions and steps ---- */

static void versions_and_steps_are_counted(void **state)
{
    const struct job_estimate_table *table;

    (void)state;
    put("Blogs", "1", "\"Text\":\"t\",\"Rating\":\"5\",\"Legacy\":true");
    put("Blogs", "2", "\"Text\":\"t\",\"Language\":\"de\",\"V\":1");
    put("Blogs", "3", "\"Rating\":5,\"V\":1");
    put("Blogs", "4", "\"Body\":\"t\",\"V\":2");
    put("Blogs", "5", "\"Text\":\"t\",\"V\":7");
    put("Blogs", "6", "\"Text\":\"t\",\"V\":\"seven\"");
    table = count("v2", "");
    assert_string_equal(table->table, "Blogs");
    assert_int_equal(table->entities, 3);
    assert_int_equal(table->batches, 1);
    assert_string_equal(table->first_keys[0], "p/1");
    assert_string_equal(table->first_keys[2], "p/3");
    assert_int_equal(h.read, 0);
    assert_int_equal(estimate.read, 2 * 6);
    assert_string_equal(estimate.details,
        "entities by version (V):\n"
        "1: 2\n2: 1\n7: 1\n'seven': 1\n(absent): 1\n"
        "step 1, rename Text: changes 2\n"
        "step 2, retype Rating: changes 1\n"
        "step 3, add Language: changes 2\n"
        "step 4, remove Legacy: changes 1\n"
        "at other versions, left alone: 2");
}

static void nothing_is_written(void **state)
{
    (void)state;
    put("Blogs", "1", "\"Text\":\"t\"");
    count("v2", "");
    assert_string_equal(hosted_json(&h, "Blogs", "p", "1"), "{\"Text\":\"t\"}");
}

static void upgraded_table_needs_one_look(void **state)
{
    const struct job_estimate_table *table;

    (void)state;
    put("Blogs", "1", "\"Text\":\"t\"");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    table = count("v2", "");
    assert_int_equal(table->entities, 0);
    assert_int_equal(table->batches, 0);
    assert_int_equal(estimate.transactions, table->pages);
    assert_int_equal(estimate.read, 1);
    check_says("2: 1\nstep 1, rename Text: changes 0\n");
}

static void empty_table_is_said_to_be_empty(void **state)
{
    (void)state;
    assert_int_equal(count("v2", "")->entities, 0);
    check_says("entities by version (V):\nstep 1,");
    assert_int_equal(estimate.read, 0);
}

static void only_what_the_filter_takes_is_counted(void **state)
{
    (void)state;
    put("Mixed", "1", "\"Size\":5");
    put("Mixed", "2", "\"Size\":4");
    put("Mixed", "3", "\"Other\":5");
    assert_int_equal(count("sized", "5")->entities, 1);
    check_says("(absent): 1\nstep 1, set Seen: changes 1");
}

/* As the run itself asks for no more. */
static void what_no_store_takes_for_chosen_is_not_read(void **state)
{
    (void)state;
    put("Mixed", "1", "\"Kind\":\"a\"");
    put("Mixed", "2", "\"Kind\":\"b\"");
    put("Mixed", "3", "\"Other\":\"a\"");
    assert_int_equal(count("kinds", "a")->entities, 1);
    assert_int_equal(estimate.read, 2 * 1);
}

/* ---- what would not be upgraded ---- */

static void first_ten_that_would_fail_are_told(void **state)
{
    char row_key[16];

    (void)state;
    put("Blogs", "a b", "\"Text\":\"t\",\"Body\":\"t\"");
    for (int i = 0; i < 11; i++) {
        snprintf(row_key, sizeof(row_key), "b%02d", i);
        put("Blogs", row_key, "\"Rating\":\"five\"");
    }
    put("Blogs", "c", "\"Rating\":\"5\"");
    assert_int_equal(count("v2", "")->entities, 1);
    assert_string_equal(estimate.tables[0].first_keys[0], "p/c");
    check_says("would fail: 12\n"
               "  'p' / 'a b': step 1, rename Text: the entity has a property "
               "Body already\n"
               "  'p' / 'b00': step 2, retype Rating: an Edm.String that is "
               "no integer\n");
    check_says("  'p' / 'b08': ");
    check_says_nothing_of("'b09'");
    check_says("step 2, retype Rating: changes 1\n");
}

static void entity_that_has_no_room_would_fail(void **state)
{
    char *properties = mem_text("\"P0\":1", 6);

    (void)state;
    for (int i = 1; i < 251; i++) {
        char *more = mem_format("%s,\"P%d\":1", properties, i);

        mem_free(properties);
        properties = more;
    }
    put("Blogs", "1", properties); /* Language and V are two more */
    mem_free(properties);
    assert_int_equal(count("v2", "")->entities, 0);
    check_says("would fail: 1\n  'p' / '1': after the steps: ");
}

static void what_would_be_skipped_is_counted(void **state)
{
    (void)state;
    put("Posts", "1", "\"Rating\":\"five\"");
    put("Posts", "2", "\"Rating\":\"5\"");
    assert_int_equal(count("skips", "")->entities, 1);
    check_says("would be skipped: 1");
    check_says_nothing_of("would fail");
}

static void new_version_with_an_old_property_is_told(void **state)
{
    (void)state;
    put("Blogs", "1", "\"Legacy\":true,\"V\":2");
    put("Blogs", "2", "\"Body\":\"t\",\"V\":2");
    assert_int_equal(count("v2", "")->entities, 0);
    check_says("at the new version, and yet with what a step takes away: 1");
}

static void what_waits_for_an_earlier_job_is_told(void **state)
{
    (void)state;
    put("Blogs", "1", "\"Text\":\"t\"");
    put("Blogs", "2", "\"Text\":\"t\",\"V\":1");
    put("Blogs", "3", "\"Language\":\"en\",\"V\":2");
    assert_int_equal(count("v3", "")->entities, 1);
    check_says("waiting for an earlier upgrade: 2");
}

/* ---- phases ---- */

static void contract_says_what_it_would_refuse_for(void **state)
{
    (void)state;
    put("Notes", "1", "\"Text\":\"t\",\"Body\":\"t\",\"V\":2");
    put("Notes", "2", "\"Body\":\"t\",\"V\":2");
    put("Notes", "3", "\"Text\":\"t\"");
    put("Notes", "4", "\"Text\":\"t\",\"V\":0");
    assert_int_equal(count("contract", "")->entities, 1);
    check_says("step 1, rename Text: changes 1\n");
    check_says("below the version to be contracted, so it would refuse: 2");
}

static void expand_counts_what_it_copies(void **state)
{
    (void)state;
    put("Notes", "1", "\"Text\":\"t\"");
    put("Notes", "2", "\"Text\":\"t\",\"V\":2");
    assert_int_equal(count("expand", "")->entities, 1);
    check_says("step 1, rename Text: changes 1\n");
    check_says("at the new version, and yet with what a step takes away: 1");
}

/* ---- batches ---- */

static void batches_are_of_a_hundred_and_of_one_partition(void **state)
{
    const struct job_estimate_table *table;

    (void)state;
    hosted_fill(&h, "Blogs", "p", 250);
    hosted_fill(&h, "Blogs", "q", 1);
    table = count("v2", "");
    assert_int_equal(table->entities, 251);
    assert_int_equal(table->batches, 4);
    assert_true(table->pages > 0);
    assert_int_equal(estimate.transactions, 2 * table->pages + table->batches);
    assert_int_equal(estimate.read, 2 * 251);
}

/* 15 properties of 60 KiB. */
static void put_large(const char *row_key)
{
    struct buf properties;

    buf_init(&properties, ENTITY_MAX_BYTES);
    for (int i = 0; i < 15; i++) {
        buf_add_format(&properties, "%s\"T%d\":\"", i > 0 ? "," : "", i);
        for (int j = 0; j < 30 * 1024; j++)
            buf_add_text(&properties, "\xc3\xa9");
        buf_add_char(&properties, '"');
    }
    put("Blogs", row_key, buf_text(&properties));
    buf_done(&properties);
}

static void batches_are_of_4_mib(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++)
        put_large(
            (const char *[]){"1", "2", "3", "4", "5", "6", "7", "8", "9"}[i]);
    assert_int_equal(count("v2", "")->batches, 3);
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 9);
}

/* ---- what cannot be counted ---- */

static void missing_table_is_named(void **state)
{
    (void)state;
    hosted_done(&h);
    hosted_init(&h, JOBS);
    assert_int_equal(hosted_estimate(&h, "v2", "", &estimate), TW_NOT_FOUND);
    if (!strstr(h.err.text, "Blogs"))
        fail_msg("%s", h.err.text);
}

static void argument_that_makes_no_filter_is_refused(void **state)
{
    (void)state;
    assert_int_equal(hosted_estimate(&h, "sized", "'", &estimate), TW_INVALID);
    assert_true(h.err.text[0]);
}

static void property_with_too_many_values_is_no_version(void **state)
{
    char row_key[16], properties[32];

    (void)state;
    for (int i = 0; i < 1001; i++) {
        snprintf(row_key, sizeof(row_key), "%04d", i);
        snprintf(properties, sizeof(properties), "\"V\":%d", i);
        put("Blogs", row_key, properties);
    }
    assert_int_equal(hosted_estimate(&h, "v2", "", &estimate), TW_TOO_LARGE);
    if (!strstr(h.err.text, "holds no version"))
        fail_msg("%s", h.err.text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(versions_and_steps_are_counted),
        TEST(nothing_is_written),
        TEST(upgraded_table_needs_one_look),
        TEST(empty_table_is_said_to_be_empty),
        TEST(only_what_the_filter_takes_is_counted),
        TEST(what_no_store_takes_for_chosen_is_not_read),
        TEST(first_ten_that_would_fail_are_told),
        TEST(entity_that_has_no_room_would_fail),
        TEST(what_would_be_skipped_is_counted),
        TEST(new_version_with_an_old_property_is_told),
        TEST(what_waits_for_an_earlier_job_is_told),
        TEST(contract_says_what_it_would_refuse_for),
        TEST(expand_counts_what_it_copies),
        TEST(batches_are_of_a_hundred_and_of_one_partition),
        TEST(batches_are_of_4_mib),
        TEST(missing_table_is_named),
        TEST(argument_that_makes_no_filter_is_refused),
        TEST(property_with_too_many_values_is_no_version),
    };

    return cmocka_run_group_tests_name("upgrade count", tests, NULL, NULL);
}
