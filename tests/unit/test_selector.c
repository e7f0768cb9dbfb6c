/* SPDX-License-Identifier: MIT */
/* Selectors: the request for the server, and the exact test of each entity. */
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"
#include "config/yaml.h"
#include "jobs/engine/selector.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

struct selector_map {
    struct selector_nodes nodes;
};

static struct arena arena;
static struct problems problems;
static const struct slice arg_names[] = {{"a", 1}, {"b", 1}};
static const struct template_scope scope = {arg_names, 2, true};

static int set_up(void **state)
{
    arena_init(&arena);
    problems_init(&problems);
    return 0;
}

static int tear_down(void **state)
{
    problems_done(&problems);
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* text: the YAML map of a rule. */
static bool load(const char *text, struct selector *ret)
{
    static const struct setting keys[] = {
        SELECTOR_SETTINGS(struct selector_map, nodes),
    };
    struct yaml_node *map =
        yaml_read("t.yaml", slice_of(text), &arena, &problems);
    struct selector_map read = {.nodes.filter = NULL};
    const char *unset = NULL;

    assert_true(settings_load(map, "a rule", keys,
        sizeof(keys) / sizeof(keys[0]), &arena, &read, &problems));
    return selector_load(&read.nodes, &scope, &arena, ret, &unset, &problems);
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

FIXTURE_TEST(every_mistake_of_a_rule_is_told)
{
    struct selector selector;

    assert_false(load("{partition_key: \"{\", partition_key_prefix: \"{\", "
                      "partition_key_from: \"{\", partition_key_below: \"{\", "
                      "row_key: \"{\", row_key_prefix: \"{\", "
                      "row_key_from: \"{\", row_key_below: \"{\", "
                      "filter: \"{\"}",
        &selector));
    assert_int_equal(problems.errors, 9);
}

FIXTURE_TEST(a_key_that_is_too_long_is_told_by_its_name)
{
    struct selection selection;
    struct err err;
    char long_value[2049];

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

/* A prefix that is made of a key and more text may be longer than any key: it
 * selects nothing, and the request has no longer a key than the service
 * accepts. */
FIXTURE_TEST(a_prefix_that_is_longer_than_any_key_begins_none)
{
    char key[513], of_pairs[2049];
    struct selection selection;
    struct scan_spec spec;
    struct entity entity;
    struct err err;

    memset(key, 'x', 512);
    key[512] = '\0';
    assert_ok(bind("{row_key_prefix: \"{a}_\"}", key, "", &selection, &err));
    entity_init(&entity, &arena, slice_of("P"), slice_of(key));
    assert_false(selection_matches(&selection, &entity));
    selection_spec(&selection, true, NULL, 0, &arena, &spec);
    check_text(spec.row_key.from, slice_of(key));
    memset(of_pairs, 0, sizeof(of_pairs));
    for (int i = 0; i < 300; i++)
        memcpy(of_pairs + 4 * i, "\xf0\x9f\x98\x80", 4);
    assert_ok(
        bind("{row_key_prefix: \"x{a}\"}", of_pairs, "", &selection, &err));
    selection_spec(&selection, true, NULL, 0, &arena, &spec);
    assert_int_equal(text_utf16_units(spec.row_key.from), 511);
    assert_int_equal(
        bind("{row_key_prefix: \"{a}#\"}", key, "", &selection, &err),
        TW_INVALID);
}

FIXTURE_TEST(a_key_that_no_entity_can_have_is_told)
{
    struct selection selection;
    struct err err;

    assert_int_equal(bind("{partition_key: \"{a}\", row_key: x}", "a/b", "",
                         &selection, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "partition_key \"{a}\""));
}

FIXTURE_TEST(a_filter_that_cannot_be_made_is_told)
{
    struct selection selection;
    struct err err;

    assert_int_equal(
        bind("{filter: \"N eq {a}\"}", "five", "", &selection, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "filter \"N eq {a}\": a: the value"));
}

static bool matches(const struct selection *selection,
    const char *partition_key, const char *row_key, int32_t n)
{
    struct entity entity;

    entity_init(&entity, &arena, slice_of(partition_key), slice_of(row_key));
    entity_set_int32(&entity, &arena, "N", n);
    return selection_matches(selection, &entity);
}

FIXTURE_TEST(all_that_is_named_must_be_so)
{
    struct selection selection;
    struct err err;

    assert_ok(bind("{partition_key: \"{a}\", row_key_prefix: "
                   "\"{b}_\", filter: \"N gt 5\"}",
        "p", "r", &selection, &err));
    assert_true(matches(&selection, "p", "r_1", 6));
    assert_false(matches(&selection, "P", "r_1", 6));
    assert_false(matches(&selection, "p", "r1", 6));
    assert_false(matches(&selection, "p", "r_1", 5));
    assert_ok(bind("{partition_key_prefix: \"{a}\", row_key: \"{b}\"}", "p",
        "r", &selection, &err));
    assert_true(matches(&selection, "pq", "r", 0));
    assert_false(matches(&selection, "qp", "r", 0));
    assert_false(matches(&selection, "pq", "rr", 0));
}

FIXTURE_TEST(a_range_ends_before_its_bound)
{
    struct selection selection;
    struct err err;

    assert_ok(bind("{partition_key_from: \"{a}\", partition_key_below: "
                   "\"{b}\"}",
        "b", "d", &selection, &err));
    assert_false(matches(&selection, "azz", "", 0));
    assert_true(matches(&selection, "b", "", 0));
    assert_true(matches(&selection, "czz", "", 0));
    assert_false(matches(&selection, "d", "", 0));
    assert_ok(bind("{row_key_from: \"{a}\"}", "5", "", &selection, &err));
    assert_false(matches(&selection, "", "49", 0));
    assert_true(matches(&selection, "", "50", 0));
    assert_ok(bind("{row_key_below: \"{a}\"}", "5", "", &selection, &err));
    assert_true(matches(&selection, "", "49", 0));
    assert_false(matches(&selection, "", "5", 0));
}

/* In the service's order U+10000 is before U+E000, although its code point is
 * greater. */
FIXTURE_TEST(a_range_is_in_the_order_of_the_service)
{
    struct selection selection;
    struct err err;

    assert_ok(
        bind("{row_key_from: \"{a}\"}", "a\xee\x80\x80", "", &selection, &err));
    assert_false(matches(&selection, "", "a\xf0\x90\x80\x80", 0));
    assert_true(matches(&selection, "", "a\xee\x80\x80", 0));
    assert_ok(bind(
        "{row_key_below: \"{a}\"}", "a\xee\x80\x80", "", &selection, &err));
    assert_true(matches(&selection, "", "a\xf0\x90\x80\x80", 0));
}

/* The bounds of the RowKey that a rule requests from the server. */
static struct key_range row_range(const char *rule)
{
    struct selection selection;
    struct scan_spec spec = {.select = NULL};
    struct err err;

    assert_ok(bind(rule, "", "", &selection, &err));
    selection_spec(&selection, true, NULL, 0, &arena, &spec);
    return spec.row_key;
}

static void assert_range(const char *rule, const char *from, const char *below)
{
    struct key_range range = row_range(rule);

    assert_int_equal(range.has_from, from != NULL);
    assert_int_equal(range.has_below, below != NULL);
    if (from)
        assert_true(slice_is(range.from, from));
    if (below)
        assert_true(slice_is(range.below, below));
}

FIXTURE_TEST(the_server_is_asked_for_the_narrowest_range)
{
    assert_true(row_range("{row_key: b, row_key_from: a}").exact);
    assert_range("{row_key_from: a}", "a", NULL);
    assert_range("{row_key_below: a}", NULL, "a");
    assert_range("{row_key_prefix: log_}", "log_", "log`");
    assert_range(
        "{row_key_prefix: log_, row_key_from: log_5}", "log_5", "log`");
    assert_range("{row_key_prefix: log_, row_key_from: a, row_key_below: z}",
        "log_", "log`");
    assert_range(
        "{row_key_prefix: log_, row_key_below: log_5}", "log_", "log_5");
    assert_range(
        "{row_key_prefix: \"\", row_key_from: a, row_key_below: b}", "a", "b");
}

FIXTURE_TEST(a_range_of_partitions_is_no_table_scan)
{
    static const struct {
        const char *rule;
        bool scans;
    } cases[] = {
        {"{filter: \"N gt 5\"}", true},
        {"{row_key: a}", true},
        {"{row_key_below: a}", true},
        {"{partition_key: a}", false},
        {"{partition_key_prefix: a}", false},
        {"{partition_key_from: a}", false},
        {"{partition_key_below: a}", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct selector selector;

        assert_true(load(cases[i].rule, &selector));
        assert_int_equal(selector_scans_table(&selector), cases[i].scans);
    }
}

FIXTURE_TEST(every_part_is_told_to_people)
{
    struct selector selector;
    struct buf text;

    assert_true(load("{partition_key: a, row_key_prefix: b, row_key_from: c, "
                     "row_key_below: d, filter: \"N gt 5\"}",
        &selector));
    buf_init(&text, 1024);
    selector_explain(&selector, &text);
    assert_string_equal(buf_text(&text),
        "PartitionKey is \"a\" and RowKey begins with \"b\" and RowKey is not "
        "before \"c\" and RowKey is before \"d\" and N gt 5");
    buf_done(&text);
}

FIXTURE_TEST(a_prefix_that_renders_empty_is_noticed)
{
    struct selection selection;
    struct err err;

    assert_ok(bind("{row_key_prefix: \"{a}\"}", "", "", &selection, &err));
    assert_string_equal(selection.empty_prefix, "row_key_prefix");
    assert_ok(bind("{row_key_from: \"{a}\"}", "", "", &selection, &err));
    assert_string_equal(selection.empty_prefix, "row_key_from");
    assert_ok(bind("{row_key: \"{a}\", row_key_below: \"{a}\"}", "", "",
        &selection, &err));
    assert_null(selection.empty_prefix);
}

/* To select everything, the filter is left out. An empty environment variable
 * is not enough. */
FIXTURE_TEST(a_filter_that_is_empty_is_refused)
{
    static const char *const rules[] = {
        "{filter: \"\"}",
        "{filter: \" \\t\\r\\n\"}",
        "{filter: \"${HOLDS_NOTHING}\"}",
        "{filter: \" ${HOLDS_NOTHING:-} \"}",
        "{partition_key: \"${NOT_SET_HERE}\", filter: \"${HOLDS_NOTHING}\"}",
    };
    struct selector selector;

    setenv("HOLDS_NOTHING", "", 1);
    unsetenv("NOT_SET_HERE");
    for (size_t i = 0; TEST_EACH(i, rules); i++) {
        assert_false(load(rules[i], &selector));
        assert_int_equal(problems.errors, i + 1);
        assert_string_equal(problems.list[i].text,
            "this filter is empty and would select everything: remove it, or "
            "write a condition");
    }
}

static enum tw_err accept(const char *text, struct err *err)
{
    const struct run_args args = {0, NULL, NULL};
    struct selector selector;

    assert_true(load(text, &selector));
    return selector_accept(&selector, &args, err);
}

/* No command runs a job if a variable of it is not set; if one did, the filter
 * would select nothing. */
FIXTURE_TEST(a_filter_that_renders_empty_is_noticed)
{
    struct selection selection;
    struct err err;

    unsetenv("NOT_SET_HERE");
    assert_ok(bind("{filter: \"${NOT_SET_HERE} \"}", "", "", &selection, &err));
    assert_string_equal(selection.empty_prefix, "filter");
    assert_int_equal(
        accept("{filter: \"${NOT_SET_HERE} \"}", &err), TW_INVALID);
    assert_string_equal(
        err.text, "filter is empty here: it would select everything");
    assert_ok(accept("{filter: \" N eq 1\"}", &err));
}

/* The keys, the properties that the filter reads and the extra names are
 * selected once each. */
FIXTURE_TEST(a_scan_selects_each_name_once)
{
    static const struct slice extra[] = {{"RowKey", 6}, {"M", 1}, {"N", 1}};
    static const char *const wanted[] = {"PartitionKey", "RowKey", "N", "M"};
    struct selection selection;
    struct scan_spec spec = {.select = NULL};
    struct err err;

    assert_ok(bind("{filter: \"N gt 5 and RowKey ne 'x' and N lt 9\"}", "", "",
        &selection, &err));
    selection_spec(&selection, false, extra, 3, &arena, &spec);
    assert_int_equal(spec.select_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(slice_is(spec.select[i], wanted[i]));
    selection_spec(&selection, true, extra, 3, &arena, &spec);
    assert_null(spec.select);
    assert_false(spec.partition_key.exact);
}

/* A filter that stores evaluate differently is not sent to any store. */
FIXTURE_TEST(a_filter_that_stores_read_differently_is_not_sent)
{
    static const struct {
        const char *rule, *sent;
    } cases[] = {
        {"{row_key: r}", ""},
        {"{row_key: r, filter: \"S eq 'x'\"}", "S eq 'x'"},
        {"{row_key: r, filter: \"N gt 5\"}", ""},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct selection selection;
        struct scan_spec spec = {.select_count = 7};
        struct err err;

        assert_ok(bind(cases[i].rule, "", "", &selection, &err));
        selection_spec_sure(&selection, &arena, &spec);
        assert_true(slice_is(spec.filter, cases[i].sent));
        assert_true(spec.row_key.exact);
        assert_null(spec.select);
        assert_int_equal(spec.select_count, 0);
    }
}

/* Rules are disjoint only if literal texts show it, not if they merely happen
 * to find different entities. */
FIXTURE_TEST(rules_are_disjoint_where_their_texts_show_it)
{
    static const struct {
        const char *a, *b;
        bool disjoint;
    } cases[] = {
        {"{partition_key: p}", "{partition_key: q}", true},
        {"{partition_key: p}", "{partition_key: p}", false},
        {"{partition_key: p}", "{partition_key_prefix: p}", false},
        {"{partition_key: p}", "{partition_key_prefix: pq}", true},
        {"{partition_key_prefix: pq}", "{partition_key: p}", true},
        {"{partition_key: pq}", "{partition_key_prefix: p}", false},
        {"{partition_key_prefix: p}", "{partition_key_prefix: pq}", false},
        {"{partition_key_prefix: p}", "{partition_key_prefix: q}", true},
        {"{partition_key: \"p{a}\"}", "{partition_key: pq}", false},
        {"{partition_key: \"p{a}\"}", "{partition_key: q}", true},
        {"{row_key: r}", "{row_key: s}", true},
        {"{row_key_prefix: r}", "{partition_key: r}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq 'b'\"}", true},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq 'a'\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"U eq 'b'\"}", false},
        {"{filter: \"N gt 5 and T eq 'a'\"}",
            "{filter: \"T eq 'b' and N gt 5\"}", true},
        {"{filter: \"T eq 'a and U eq b'\"}", "{filter: \"U eq 'c'\"}", false},
        {"{filter: \"T eq 'a' or N gt 5\"}", "{filter: \"T eq 'b'\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"not (T eq 'b')\"}", false},
        {"{filter: \"(T eq 'a')\"}", "{filter: \"T eq 'b'\"}", true},
        {"{filter: \"T eq 'a'\"}", "{filter: \"N gt 5\\nand\\tT  eq\\n'b'\"}",
            true},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq 'a not b (x or y)'\"}",
            true},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq 'b'\\nor N gt 5\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq 'b'or N gt 5\"}", false},
        {"{filter: \"T eq 'a' and U eq 'c'\"}",
            "{filter: \"U eq 'c'and T eq 'b'or N gt 5\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"not\\n(T eq 'b')\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"N gt 5 and not(T eq 'b')\"}",
            false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq '{a}b'\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T eq '''{a}'\"}", false},
        {"{filter: \"T5 eq 'a'\"}", "{filter: \"T{b} eq 'b'\"}", false},
        {"{filter: \"T eq 'it''s'\"}", "{filter: \"T eq 'it''s'\"}", false},
        {"{filter: \"T eq '{{a}}'\"}", "{filter: \"T eq '{{b}}'\"}", true},
        {"{filter: \"T eq '{{a}}'\"}", "{filter: \"T eq '{{a}}'\"}", false},
        {"{filter: \"T eq '{a}'\"}", "{filter: \"T eq 'b'\"}", false},
        {"{filter: \"T eq 'a'\"}", "{filter: \"T gt 'b'\"}", false},
        {"{filter: \"T eq 'a'\"}", "{row_key: r}", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct selector a, b;

        assert_true(load(cases[i].a, &a));
        assert_true(load(cases[i].b, &b));
        if (selector_disjoint(&a, &b) != cases[i].disjoint ||
            selector_disjoint(&b, &a) != cases[i].disjoint)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
    }
}

FIXTURE_TEST(a_property_is_an_argument_where_it_is_compared_with_it)
{
    static const struct {
        const char *rule, *property;
    } cases[] = {
        {"{filter: \"Channel eq '{a}'\"}", "Channel"},
        {"{filter: \"N gt 5 and Channel eq '{a}'\"}", "Channel"},
        {"{filter: \"Channel eq '{b}'\"}", NULL},
        {"{filter: \"Channel eq 'x{a}'\"}", NULL},
        {"{filter: \"Channel eq '{a}' or N gt 5\"}", NULL},
        {"{filter: \"T eq 'sub'\\nand Channel eq '{a}'\"}", "Channel"},
        {"{filter: \"T eq 'sub' and\\tChannel  eq\\n'{ a }'\"}", "Channel"},
        {"{filter: \"(N gt 5)and(((RowKey eq '{a}')))\"}", "RowKey"},
        {"{filter: \"(N gt 5 or N lt 2) and C eq '{a}'\"}", "C"},
        {"{filter: \"T eq 'x or y' and C eq '{a}'\"}", "C"},
        {"{filter: \"Channel eq '{a}'\\nor N gt 5\"}", NULL},
        {"{filter: \"N gt 5 or\\nT eq 'x' and Channel eq '{a}'\"}", NULL},
        {"{filter: \"not(Channel eq '{a}')\"}", NULL},
        {"{filter: \"N gt 5 and not\\n(Channel eq '{a}')\"}", NULL},
        {"{filter: \"Channel eq '{a}{a}'\"}", NULL},
        {"{filter: \"Channel eq '''{a}'\"}", NULL},
        {"{filter: \"Channel eq '{a}'''\"}", NULL},
        {"{filter: \"Channel eq guid'{a}'\"}", NULL},
        {"{filter: \"Channel ge '{a}'\"}", NULL},
        {"{filter: \"Channel eq '{lower(a)}'\"}", NULL},
        {"{filter: \"Channel eq {a}\"}", NULL},
        {"{filter: \"C{b} eq '{a}'\"}", NULL},
        {"{filter: \"T eq 'x Channel eq ''{a}'\"}", NULL},
        {"{row_key: \"{a}\"}", NULL},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct selector selector;
        struct slice property = {NULL, 0};

        assert_true(load(cases[i].rule, &selector));
        assert_int_equal(
            selector_property_is(&selector, 0, (struct slice){0}, &property),
            cases[i].property != NULL);
        if (cases[i].property)
            assert_true(slice_is(property, cases[i].property));
    }
}

FIXTURE_TEST(what_names_nothing_is_empty)
{
    struct selector selector;

    assert_true(load("{}", &selector));
    assert_true(selector_is_empty(&selector));
    assert_false(selector_reads_entity(&selector));
    assert_true(load("{filter: \"N gt 5\"}", &selector));
    assert_false(selector_is_empty(&selector));
    assert_false(selector_reads_entity(&selector));
    assert_true(load("{row_key: r}", &selector));
    assert_false(selector_is_empty(&selector));
    assert_true(load("{filter: \"T eq '{Title}'\"}", &selector));
    assert_true(selector_reads_entity(&selector));
}
