/* SPDX-License-Identifier: MIT */
/*
 * The designs of keys in config/examples/migrate.yaml: which keys the copies of
 * an entity get.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/yaml.h"
#include "jobs/job.h"
#include "jobs/migrate_rules.h"
#include "tests/support/fixture.h"

#define MAX_FILE_BYTES 65536

struct bench {
    struct arena arena;
    struct problems problems;
    const struct yaml_node *jobs;
};

static struct slice read_example(struct arena *arena)
{
    const char *source = getenv("TABLEWARD_SOURCE");
    char *text = arena_alloc(arena, MAX_FILE_BYTES), path[4096];
    FILE *file;
    size_t len;

    snprintf(path, sizeof(path), "%s/config/examples/migrate.yaml",
        source ? source : ".");
    file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    len = fread(text, 1, MAX_FILE_BYTES - 1, file);
    fclose(file);
    return (struct slice){text, len};
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    arena_init(&b->arena);
    problems_init(&b->problems);
    b->jobs = yaml_get(yaml_read("migrate.yaml", read_example(&b->arena),
                           &b->arena, &b->problems),
        "jobs");
    assert_non_null(b->jobs);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    problems_done(&b->problems);
    arena_done(&b->arena);
    free(b);
    return 0;
}

static const struct copier_rules *job(struct bench *b, const char *name)
{
    static const char *const STORES[] = {"main", "archive"};
    const struct job_stores stores = {.count = 2, .names = STORES};
    static const struct slice ARG = {"before", 6};
    const struct yaml_node *node = yaml_get(b->jobs, name);
    struct job_loader loader = {.job = name,
        .args = &ARG,
        .arg_count = 1,
        .stores = &stores,
        .arena = &b->arena,
        .problems = &b->problems};
    const struct copier_rules *rules;

    assert_non_null(node);
    rules = migrate_rules_load(node, &loader);
    if (!rules) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", name);
    }
    return rules;
}

static struct entity entity_of(struct bench *b, const char *json)
{
    struct entity entity;
    struct err err;

    if (entity_parse(slice_of(json), true, &b->arena, &entity, NULL, &err) !=
        TW_OK)
        fail_msg("%s", err.text);
    return entity;
}

static struct entity copy_of(struct bench *b, const struct copier_rules *rules,
    size_t target, const struct entity *source)
{
    static const struct slice NAME = {"before", 6}, VALUE = {"2015-01-01", 10};
    const struct run_args args = {1, &NAME, &VALUE};
    struct entity copy;
    struct err err;

    if (copying_make(&rules->targets[target], &args, source, rules->provenance,
            &b->arena, &copy, &err) != TW_OK)
        fail_msg("%s", err.text);
    return copy;
}

static void check_keys(
    const struct entity *copy, const char *partition_key, const char *row_key)
{
    check_text(copy->partition_key, slice_of(partition_key));
    check_text(copy->row_key, slice_of(row_key));
}

/* The only copy that the job makes of the entity. */
static void has_keys(struct bench *b, const char *name, const char *json,
    const char *partition_key, const char *row_key)
{
    const struct copier_rules *rules = job(b, name);
    struct entity source = entity_of(b, json), copy;

    assert_int_equal(rules->target_count, 1);
    copy = copy_of(b, rules, 0, &source);
    check_keys(&copy, partition_key, row_key);
}

#define BLOG(time)                                                             \
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"first-goal\","                \
    "\"CreatedOn@odata.type\":\"Edm.DateTime\",\"CreatedOn\":\"" time          \
    "\",\"Rating\":7,\"Title\":\"t\",\"Busy\":"

static void a_partition_a_month_the_newest_first(void **state)
{
    has_keys(*state, "blogs-by-month", BLOG("2008-10-01T10:00:00Z") "true}",
        "Football_7991_03", "2521794455999999999");
    has_keys(*state, "blogs-by-month", BLOG("2008-09-30T23:59:59Z") "true}",
        "Football_7991_04", "2521794816009999999");
    has_keys(*state, "blogs-by-month", BLOG("2017-12-31T00:00:00Z") "true}",
        "Football_7982_01", "2518876223999999999");
    has_keys(*state, "blogs-by-month",
        BLOG("9999-12-31T23:59:59.9999999Z") "true}", "Football_0_01",
        "0000000000000000000");
}

static void a_partition_a_week_in_busy_months(void **state)
{
    static const struct {
        const char *blog, *partition_key;
    } WEEKS[] = {
        {BLOG("2008-10-01T10:00:00Z") "true}", "Football_7991_03_4"},
        {BLOG("2008-10-07T23:59:59Z") "true}", "Football_7991_03_4"},
        {BLOG("2008-10-08T00:00:00Z") "true}", "Football_7991_03_3"},
        {BLOG("2008-10-15T00:00:00Z") "true}", "Football_7991_03_2"},
        {BLOG("2008-10-22T00:00:00Z") "true}", "Football_7991_03_1"},
        {BLOG("2008-10-31T00:00:00Z") "true}", "Football_7991_03_0"},
        {BLOG("2008-10-01T10:00:00Z") "false}", "Football_7991_03"},
        {BLOG("2008-10-31T00:00:00Z") "false}", "Football_7991_03"},
    };
    struct bench *b = *state;
    const struct copier_rules *rules = job(b, "blogs-by-week");

    for (size_t i = 0; i < sizeof(WEEKS) / sizeof(WEEKS[0]); i++) {
        struct entity source = entity_of(b, WEEKS[i].blog),
                      copy = copy_of(b, rules, 0, &source);

        check_text(copy.partition_key, slice_of(WEEKS[i].partition_key));
    }
}

static void what_went_by_month_comes_back_as_it_was(void **state)
{
    struct bench *b = *state;
    const struct copier_rules *there = job(b, "blogs-by-month"),
                              *back = job(b, "blogs-back");
    struct entity blog = entity_of(b, BLOG("2008-10-01T10:00:00Z") "true}"),
                  moved = copy_of(b, there, 0, &blog),
                  again = copy_of(b, back, 0, &moved);

    assert_true(back->move && back->strip && !there->move);
    check_keys(&again, "Football", "first-goal");
    assert_int_equal(again.property_count, blog.property_count);
    for (size_t i = 0; i < blog.property_count; i++)
        assert_true(property_equal(&again.properties[i], &blog.properties[i]));
}

static void an_index_by_rating_the_newest_first(void **state)
{
    struct bench *b = *state;
    const struct copier_rules *rules = job(b, "blogs-by-rating");
    struct entity blog = entity_of(b, BLOG("2008-10-01T10:00:00Z") "true}"),
                  copy = copy_of(b, rules, 0, &blog);

    check_keys(&copy, "Football", "7_2521794455999999999");
    assert_int_equal(copy.property_count, 3);
    assert_non_null(entity_find(&copy, slice_of("Title")));
    assert_non_null(entity_find(&copy, slice_of("Rating")));
    check_text(
        entity_find(&copy, slice_of("Slug"))->json, slice_of("\"first-goal\""));
}

/* SHA-256, by another implementation. */
static void buckets_by_hash(void **state)
{
    has_keys(*state, "events-in-buckets",
        "{\"PartitionKey\":\"all\",\"RowKey\":\"event-1\"}", "09", "event-1");
    has_keys(*state, "events-in-buckets",
        "{\"PartitionKey\":\"all\",\"RowKey\":\"event-2\"}", "14", "event-2");
    has_keys(*state, "events-in-buckets",
        "{\"PartitionKey\":\"all\",\"RowKey\":\"Łódź\"}", "07", "Łódź");
}

static void numbers_with_zeros_before_them(void **state)
{
    has_keys(*state, "orders-by-number",
        "{\"PartitionKey\":\"P\",\"RowKey\":\"R\",\"Number\":42}", "P",
        "00000042");
    has_keys(*state, "orders-by-number",
        "{\"PartitionKey\":\"P\",\"RowKey\":\"R\",\"Number@odata.type\":"
        "\"Edm.Int64\",\"Number\":\"123456789\"}",
        "P", "123456789");
}

static void several_copies_of_one_source(void **state)
{
    struct bench *b = *state;
    const struct copier_rules *rules = job(b, "footwear-index");
    struct entity shoe = entity_of(b,
        "{\"PartitionKey\":\"Shoes\",\"RowKey\":\"1\",\"Size\":9,\"Model\":"
        "\"Runner\",\"Gender\":\"F\",\"Brand\":\"B\",\"Name\":\"N\"}");
    struct entity by_size = copy_of(b, rules, 0, &shoe),
                  by_model = copy_of(b, rules, 1, &shoe);

    assert_int_equal(rules->target_count, 2);
    check_keys(&by_size, "Shoes", "size:09_Runner_F");
    check_keys(&by_model, "Shoes", "model:Runner_09_F");
    assert_int_equal(by_size.property_count, 5);
    assert_int_equal(by_model.property_count, 2);
}

static void the_same_keys_in_another_account(void **state)
{
    struct bench *b = *state;
    const struct copier_rules *rules = job(b, "archive-blogs");

    assert_int_equal(rules->targets[0].place.store, 1);
    assert_true(copying_keeps_keys(&rules->targets[0]));
    assert_false(copying_keys_change(&rules->targets[0]));
    has_keys(b, "archive-blogs", BLOG("2008-10-01T10:00:00Z") "true}",
        "Football", "first-goal");
}

/* None stands there that no test looks at. */
static void all_jobs_are_tested(void **state)
{
    static const char *const NAMES[] = {"blogs-by-month", "blogs-by-week",
        "blogs-back", "blogs-by-rating", "events-in-buckets",
        "orders-by-number", "footwear-index", "archive-blogs"};
    struct bench *b = *state;

    assert_int_equal(b->jobs->count, sizeof(NAMES) / sizeof(NAMES[0]));
    for (size_t i = 0; i < b->jobs->count; i++)
        check_text(b->jobs->keys[i]->text, slice_of(NAMES[i]));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_partition_a_month_the_newest_first),
        TEST(a_partition_a_week_in_busy_months),
        TEST(what_went_by_month_comes_back_as_it_was),
        TEST(an_index_by_rating_the_newest_first),
        TEST(buckets_by_hash),
        TEST(numbers_with_zeros_before_them),
        TEST(several_copies_of_one_source),
        TEST(the_same_keys_in_another_account),
        TEST(all_jobs_are_tested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
