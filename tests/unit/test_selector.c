/* SPDX-License-Identifier: MIT */
/* Selectors: what is asked of the server, and the exact test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/yaml.h"
#include "jobs/engine/selector.h"
#include "worker/base/mem.h"

static struct arena arena;
static struct problems problems;
static const struct slice arg_names[] = {{"a", 1}, {"b", 1}};
static const struct template_scope scope = {arg_names, 2, true};

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena);
    problems_init(&problems);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    problems_done(&problems);
    arena_done(&arena);
    return 0;
}

/* text: the map of a rule. */
static bool load(const char *text, struct selector *ret)
{
    static const char *const keys[SELECTOR_KEYS] = {
        "partition_key", "partition_key_prefix", "row_key", "row_key_prefix"};
    struct yaml_node *map =
        yaml_read("t.yaml", slice_of(text), &arena, &problems);
    struct selector_nodes nodes = {.filter = yaml_get(map, "filter")};
    const char *unset = NULL;

    for (int i = 0; i < SELECTOR_KEYS; i++)
        nodes.keys[i] = yaml_get(map, keys[i]);
    return selector_load(&nodes, &scope, &arena, ret, &unset, &problems);
}

static enum tw_err bind(const char *text, const char *a, const char *b,
    struct selection *ret, struct err *err)
{
    struct slice values[2] = {slice_of(a), slice_of(b)};
    const struct run_args args = {2, arg_names, values};
    struct entity parent;
    struct selector selector;

    assert_true(load(text, &selector));
    entity_init(&parent, &arena, slice_of("P"), slice_of("R"));
    return selection_bind(&selector, &args, &parent, &arena, ret, err);
}

static void every_mistake_of_a_rule_is_told(void **state)
{
    struct selector selector;

    (void)state;
    assert_false(load("{partition_key: \"{\", partition_key_prefix: \"{\", "
                      "row_key: \"{\", row_key_prefix: \"{\", filter: \"{\"}",
        &selector));
    assert_int_equal(problems.errors, 5);
}

static void a_key_that_is_too_long_is_told_by_its_name(void **state)
{
    struct selection selection;
    struct err err;
    char long_value[2049];

    (void)state;
    memset(long_value, 'x', 2048);
    long_value[2048] = '\0';
    assert_int_equal(
        bind("{row_key: \"{a}{a}{a}\"}", long_value, "", &selection, &err),
        TW_INVALID);
    assert_string_equal(
        err.text, "row_key \"{a}{a}{a}\": it is longer than 4096 bytes");
    assert_int_equal(
        bind("{row_key: \"{a}\"}", long_value, "", &selection, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "512"));
}

static void a_key_that_no_entity_can_have_is_told(void **state)
{
    struct selection selection;
    struct err err;

    (void)state;
    assert_int_equal(bind("{partition_key: \"{a}\", row_key: x}", "a/b", "",
                         &selection, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "partition_key \"{a}\""));
}

static void a_filter_that_cannot_be_made_is_told(void **state)
{
    struct selection selection;
    struct err err;

    (void)state;
    assert_int_equal(
        bind("{filter: \"N eq {a}\"}", "five", "", &selection, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "filter \"N eq {a}\": a: its value"));
}

static bool matches(const struct selection *selection,
    const char *partition_key, const char *row_key, int32_t n)
{
    struct entity entity;

    entity_init(&entity, &arena, slice_of(partition_key), slice_of(row_key));
    entity_set_int32(&entity, &arena, "N", n);
    return selection_matches(selection, &entity);
}

static void all_that_is_named_must_be_so(void **state)
{
    struct selection selection;
    struct err err;

    (void)state;
    assert_int_equal(bind("{partition_key: \"{a}\", row_key_prefix: "
                          "\"{b}_\", filter: \"N gt 5\"}",
                         "p", "r", &selection, &err),
        TW_OK);
    assert_true(matches(&selection, "p", "r_1", 6));
    assert_false(matches(&selection, "P", "r_1", 6));
    assert_false(matches(&selection, "p", "r1", 6));
    assert_false(matches(&selection, "p", "r_1", 5));
    assert_int_equal(bind("{partition_key_prefix: \"{a}\", row_key: \"{b}\"}",
                         "p", "r", &selection, &err),
        TW_OK);
    assert_true(matches(&selection, "pq", "r", 0));
    assert_false(matches(&selection, "qp", "r", 0));
    assert_false(matches(&selection, "pq", "rr", 0));
}

static void a_prefix_that_renders_empty_is_noticed(void **state)
{
    struct selection selection;
    struct err err;

    (void)state;
    assert_int_equal(
        bind("{row_key_prefix: \"{a}\"}", "", "", &selection, &err), TW_OK);
    assert_string_equal(selection.empty_prefix, "row_key_prefix");
    assert_int_equal(
        bind("{row_key: \"{a}\"}", "", "", &selection, &err), TW_OK);
    assert_null(selection.empty_prefix);
}

/* Keys, what the filter reads, what is asked for besides: each once. */
static void a_scan_selects_each_name_once(void **state)
{
    static const struct slice extra[] = {{"RowKey", 6}, {"M", 1}, {"N", 1}};
    static const char *const wanted[] = {"PartitionKey", "RowKey", "N", "M"};
    struct selection selection;
    struct scan_spec spec = {.select = NULL};
    struct err err;

    (void)state;
    assert_int_equal(bind("{filter: \"N gt 5 and RowKey ne 'x' and N lt 9\"}",
                         "", "", &selection, &err),
        TW_OK);
    selection_spec(&selection, false, extra, 3, &arena, &spec);
    assert_int_equal(spec.select_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(slice_is(spec.select[i], wanted[i]));
    selection_spec(&selection, true, extra, 3, &arena, &spec);
    assert_null(spec.select);
    assert_false(spec.partition_key.exact);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_mistake_of_a_rule_is_told),
        TEST(a_key_that_is_too_long_is_told_by_its_name),
        TEST(a_key_that_no_entity_can_have_is_told),
        TEST(a_filter_that_cannot_be_made_is_told),
        TEST(all_that_is_named_must_be_so),
        TEST(a_prefix_that_renders_empty_is_noticed),
        TEST(a_scan_selects_each_name_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
