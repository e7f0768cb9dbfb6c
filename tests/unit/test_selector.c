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

/* Loads the selector of a rule from `text`, a YAML map. False: refused. */
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

#define FILTER(text) "{filter: \"" text "\"}"

/* Returns the selection of the rule with arguments `a` and `b`. */
static struct selection bound(const char *text, const char *a, const char *b)
{
    struct selection selection;
    struct err err;

    if (bind(text, a, b, &selection, &err) != TW_OK)
        fail_msg("%s: %s", text, err.text);
    return selection;
}

static void refused(const char *text, const char *a, const char *said)
{
    struct selection selection;
    struct err err;

    assert_int_equal(bind(text, a, "", &selection, &err), TW_INVALID);
    if (!strstr(err.text, said))
        fail_msg("'%s' is not in '%s'", said, err.text);
}

static struct scan_spec spec_of(const struct selection *selection)
{
    struct scan_spec spec = {.select = NULL};

    selection_spec(selection, true, NULL, 0, &arena, &spec);
    return spec;
}

static const char *repeated(const char *text, size_t times)
{
    struct buf all;
    const char *ret;

    buf_init(&all, 65536);
    for (size_t i = 0; i < times; i++)
        buf_add_text(&all, text);
    ret = arena_copy(&arena, buf_slice(&all)).at;
    buf_done(&all);
    return ret;
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

FIXTURE_TEST(what_cannot_be_made_is_told_by_its_name)
{
    refused("{row_key: \"{a}{a}{a}\"}", repeated("x", 2048),
        "row_key \"{a}{a}{a}\": the rendered text is longer than 4096 bytes");
    refused("{row_key: \"{a}\"}", repeated("x", 2048), "512");
    refused(
        "{partition_key: \"{a}\", row_key: x}", "a/b", "partition_key \"{a}\"");
    refused(FILTER("N eq {a}"), "five", "filter \"N eq {a}\": a: the value");
}

/* A rendered prefix may be longer than any key. Then it selects nothing, and
 * the request must not contain a key that is longer than the service
 * accepts. */
FIXTURE_TEST(a_prefix_that_is_longer_than_any_key_begins_none)
{
    const char *key = repeated("x", 512);
    struct selection selection = bound("{row_key_prefix: \"{a}_\"}", key, "");
    struct entity entity;

    entity_init(&entity, &arena, slice_of("P"), slice_of(key));
    assert_false(selection_matches(&selection, &entity));
    check_text(spec_of(&selection).row_key.from, slice_of(key));
    selection = bound(
        "{row_key_prefix: \"x{a}\"}", repeated("\xf0\x9f\x98\x80", 300), "");
    assert_int_equal(text_utf16_units(spec_of(&selection).row_key.from), 511);
    refused("{row_key_prefix: \"{a}#\"}", key, "row_key_prefix");
}

/* ---- which entities match ---- */

struct match {
    const char *partition_key, *row_key;
    int32_t n;
    bool matches;
};

static void check_matches(
    const struct selection *selection, const struct match *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct entity entity;

        entity_init(&entity, &arena, slice_of(list[i].partition_key),
            slice_of(list[i].row_key));
        entity_set_int32(&entity, &arena, "N", list[i].n);
        if (selection_matches(selection, &entity) != list[i].matches)
            fail_msg("%s/%s N %d: should be %d", list[i].partition_key,
                list[i].row_key, list[i].n, list[i].matches);
    }
}

/* MATCHES: fails unless the rule, with the arguments `a` and `b`, matches
 * exactly those entities of the list that have `matches`. */
#define MATCHES(rule, a, b, ...)                                               \
    do {                                                                       \
        static const struct match list[] = {__VA_ARGS__};                      \
        struct selection selection = bound(rule, a, b);                        \
                                                                               \
        check_matches(&selection, list, sizeof(list) / sizeof(list[0]));       \
    } while (0)

FIXTURE_TEST(all_that_is_named_must_be_so)
{
    MATCHES("{partition_key: \"{a}\", row_key_prefix: \"{b}_\", filter: \"N gt "
            "5\"}",
        "p", "r", {"p", "r_1", 6, true}, {"P", "r_1", 6, false},
        {"p", "r1", 6, false}, {"p", "r_1", 5, false});
    MATCHES("{partition_key_prefix: \"{a}\", row_key: \"{b}\"}", "p", "r",
        {"pq", "r", 0, true}, {"qp", "r", 0, false}, {"pq", "rr", 0, false});
}

FIXTURE_TEST(a_range_ends_before_its_bound)
{
    MATCHES("{partition_key_from: \"{a}\", partition_key_below: \"{b}\"}", "b",
        "d", {"azz", "", 0, false}, {"b", "", 0, true}, {"czz", "", 0, true},
        {"d", "", 0, false});
    MATCHES("{row_key_from: \"{a}\"}", "5", "", {"", "49", 0, false},
        {"", "50", 0, true});
    MATCHES("{row_key_below: \"{a}\"}", "5", "", {"", "49", 0, true},
        {"", "5", 0, false});
}

/* In the service's order U+10000 is before U+E000, although its code point is
 * greater. */
FIXTURE_TEST(a_range_is_in_the_order_of_the_service)
{
    MATCHES("{row_key_from: \"{a}\"}", "a\xee\x80\x80", "",
        {"", "a\xf0\x90\x80\x80", 0, false}, {"", "a\xee\x80\x80", 0, true});
    MATCHES("{row_key_below: \"{a}\"}", "a\xee\x80\x80", "",
        {"", "a\xf0\x90\x80\x80", 0, true});
}

/* Returns the range of RowKeys that a rule requests from the server. */
static struct key_range row_range(const char *rule)
{
    struct selection selection = bound(rule, "", "");

    return spec_of(&selection).row_key;
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
        {FILTER("N gt 5"), true},
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

FIXTURE_TEST(a_prefix_that_renders_empty_is_noticed)
{
    struct selection selection = bound("{row_key_prefix: \"{a}\"}", "", "");

    assert_string_equal(selection.empty_prefix, "row_key_prefix");
    selection = bound("{row_key_from: \"{a}\"}", "", "");
    assert_string_equal(selection.empty_prefix, "row_key_from");
    selection = bound("{row_key: \"{a}\", row_key_below: \"{a}\"}", "", "");
    assert_null(selection.empty_prefix);
}

/* A job that is to select everything has no filter. An empty filter, for
 * example from an empty environment variable, is refused. */
FIXTURE_TEST(a_filter_that_is_empty_is_refused)
{
    static const char *const rules[] = {
        FILTER(""),
        FILTER(" \\t\\r\\n"),
        FILTER("${HOLDS_NOTHING}"),
        FILTER(" ${HOLDS_NOTHING:-} "),
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

/* A filter becomes empty if its variable is not set. No command runs such a
 * job; if a command did, the filter would select nothing. */
FIXTURE_TEST(a_filter_that_renders_empty_is_noticed)
{
    struct err err;

    unsetenv("NOT_SET_HERE");
    assert_string_equal(
        bound(FILTER("${NOT_SET_HERE} "), "", "").empty_prefix, "filter");
    assert_int_equal(accept(FILTER("${NOT_SET_HERE} "), &err), TW_INVALID);
    assert_string_equal(err.text,
        "filter renders as an empty text, which would select everything");
    assert_ok(accept(FILTER(" N eq 1"), &err));
}

/* The keys, the properties that the filter reads and the extra names are
 * selected once each. */
FIXTURE_TEST(a_scan_selects_each_name_once)
{
    static const struct slice extra[] = {{"RowKey", 6}, {"M", 1}, {"N", 1}};
    static const char *const wanted[] = {"PartitionKey", "RowKey", "N", "M"};
    struct selection selection =
        bound(FILTER("N gt 5 and RowKey ne 'x' and N lt 9"), "", "");
    struct scan_spec spec = {.select = NULL};

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
        struct selection selection = bound(cases[i].rule, "", "");
        struct scan_spec spec = {.select_count = 7};

        selection_spec_sure(&selection, &arena, &spec);
        assert_true(slice_is(spec.filter, cases[i].sent));
        assert_true(spec.row_key.exact);
        assert_null(spec.select);
        assert_int_equal(spec.select_count, 0);
    }
}

static const char *filter_rule(const char *filter)
{
    return arena_format(&arena, "{filter: \"%s\"}", filter).at;
}

static void check_disjoint(const char *rule, const char *other, bool wanted)
{
    struct selector a, b;

    assert_true(load(rule, &a));
    assert_true(load(other, &b));
    if (selector_disjoint(&a, &b) != wanted ||
        selector_disjoint(&b, &a) != wanted)
        fail_msg("%s and %s", rule, other);
}

/* Rules are disjoint only if literal texts show it, not if they merely happen
 * to find different entities. */
FIXTURE_TEST(rules_are_disjoint_where_their_keys_show_it)
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
        {FILTER("T eq 'a'"), "{row_key: r}", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        check_disjoint(cases[i].a, cases[i].b, cases[i].disjoint);
}

FIXTURE_TEST(rules_are_disjoint_where_their_filters_show_it)
{
    static const char *const disjoint[][2] = {{"T eq 'a'", "T eq 'b'"},
        {"N gt 5 and T eq 'a'", "T eq 'b' and N gt 5"},
        {"(T eq 'a')", "T eq 'b'"}, {"T eq 'a'", "N gt 5\\nand\\tT  eq\\n'b'"},
        {"T eq 'a'", "T eq 'a not b (x or y)'"},
        {"T eq '{{a}}'", "T eq '{{b}}'"}};
    static const char *const others[][2] = {{"T eq 'a'", "T eq 'a'"},
        {"T eq 'a'", "U eq 'b'"}, {"T eq 'a and U eq b'", "U eq 'c'"},
        {"T eq 'a' or N gt 5", "T eq 'b'"}, {"T eq 'a'", "not (T eq 'b')"},
        {"T eq 'a'", "T eq 'b'\\nor N gt 5"}, {"T eq 'a'", "T eq 'b'or N gt 5"},
        {"T eq 'a' and U eq 'c'", "U eq 'c'and T eq 'b'or N gt 5"},
        {"T eq 'a'", "not\\n(T eq 'b')"},
        {"T eq 'a'", "N gt 5 and not(T eq 'b')"}, {"T eq 'a'", "T eq '{a}b'"},
        {"T eq 'a'", "T eq '''{a}'"}, {"T5 eq 'a'", "T{b} eq 'b'"},
        {"T eq 'it''s'", "T eq 'it''s'"}, {"T eq '{{a}}'", "T eq '{{a}}'"},
        {"T eq '{a}'", "T eq 'b'"}, {"T eq 'a'", "T gt 'b'"}};

    for (size_t i = 0; TEST_EACH(i, disjoint); i++)
        check_disjoint(
            filter_rule(disjoint[i][0]), filter_rule(disjoint[i][1]), true);
    for (size_t i = 0; TEST_EACH(i, others); i++)
        check_disjoint(
            filter_rule(others[i][0]), filter_rule(others[i][1]), false);
}

/* Fails unless `wanted` is the property that the rule compares with argument 0;
 * NULL: it compares none. */
static void check_property(const char *rule, const char *wanted)
{
    struct selector selector;
    struct slice property = {NULL, 0};

    assert_true(load(rule, &selector));
    assert_int_equal(
        selector_property_is(&selector, 0, (struct slice){0}, &property),
        wanted != NULL);
    if (wanted)
        assert_true(slice_is(property, wanted));
}

FIXTURE_TEST(a_property_is_an_argument_where_it_is_compared_with_it)
{
    static const char *const compared[][2] = {{"Channel eq '{a}'", "Channel"},
        {"N gt 5 and Channel eq '{a}'", "Channel"},
        {"T eq 'sub'\\nand Channel eq '{a}'", "Channel"},
        {"T eq 'sub' and\\tChannel  eq\\n'{ a }'", "Channel"},
        {"(N gt 5)and(((RowKey eq '{a}')))", "RowKey"},
        {"(N gt 5 or N lt 2) and C eq '{a}'", "C"},
        {"T eq 'x or y' and C eq '{a}'", "C"}};
    static const char *const others[] = {"Channel eq '{b}'",
        "Channel eq 'x{a}'", "Channel eq '{a}' or N gt 5",
        "Channel eq '{a}'\\nor N gt 5",
        "N gt 5 or\\nT eq 'x' and Channel eq '{a}'", "not(Channel eq '{a}')",
        "N gt 5 and not\\n(Channel eq '{a}')", "Channel eq '{a}{a}'",
        "Channel eq '''{a}'", "Channel eq '{a}'''", "Channel eq guid'{a}'",
        "Channel ge '{a}'", "Channel eq '{lower(a)}'", "Channel eq {a}",
        "C{b} eq '{a}'", "T eq 'x Channel eq ''{a}'"};

    for (size_t i = 0; TEST_EACH(i, compared); i++)
        check_property(filter_rule(compared[i][0]), compared[i][1]);
    for (size_t i = 0; TEST_EACH(i, others); i++)
        check_property(filter_rule(others[i]), NULL);
    check_property("{row_key: \"{a}\"}", NULL);
}

FIXTURE_TEST(what_names_nothing_is_empty)
{
    static const struct {
        const char *rule;
        bool is_empty, reads_entity;
    } cases[] = {
        {"{}", true, false},
        {FILTER("N gt 5"), false, false},
        {"{row_key: r}", false, false},
        {FILTER("T eq '{Title}'"), false, true},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct selector selector;

        assert_true(load(cases[i].rule, &selector));
        assert_int_equal(selector_is_empty(&selector), cases[i].is_empty);
        assert_int_equal(
            selector_reads_entity(&selector), cases[i].reads_entity);
    }
}
