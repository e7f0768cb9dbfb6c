/* SPDX-License-Identifier: MIT */
/* OData filters: what they match, what they refuse, and the position in the
 * text that a refusal names. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "worker/store/filter.h"

static struct arena arena;
static struct entity entity;

/* An entity with a property of every type. The results of filters on this
 * entity were observed on the service. */
static const char sample[] =
    "{\"PartitionKey\":\"p\",\"RowKey\":\"o'brien\","
    "\"Timestamp\":\"2017-01-05T03:25:25.9422152Z\",\"Int\":123,\"Neg\":-5,"
    "\"Double\":123.45,\"Big\":1.5E+300,\"Bool\":false,\"Text\":\"mystring\","
    "\"Emoji\":\"\xf0\x9f\x98\x80\",\"Empty\":\"\","
    "\"Date@odata.type\":\"Edm.DateTime\",\"Date\":\"2012-11-10T03:04:05.2Z\","
    "\"Guid@odata.type\":\"Edm.Guid\","
    "\"Guid\":\"debc44d5-04a9-42ea-ab2f-4e2cb49ff833\","
    "\"Long@odata.type\":\"Edm.Int64\",\"Long\":\"4294967296\","
    "\"Binary@odata.type\":\"Edm.Binary\",\"Binary\":\"AQIy\","
    "\"Nan@odata.type\":\"Edm.Double\",\"Nan\":\"NaN\","
    "\"Inf@odata.type\":\"Edm.Double\",\"Inf\":\"Infinity\"}";

static int set_up(void **state)
{
    arena_init(&arena);
    return entity_parse(slice_of(sample), true, &arena, &entity, NULL, NULL);
}

static int tear_down(void **state)
{
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static const struct filter *parse(const char *text)
{
    const struct filter *filter = NULL;
    struct err err = {{0}};
    size_t offset;

    if (filter_parse(slice_of(text), &arena, &filter, &err) != TW_OK)
        fail_msg("%s: %s", text, err.text);
    assert_ok(filter_check(slice_of(text), &offset, NULL));
    return filter;
}

static void expect(bool matches, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (filter_matches(parse(texts[i]), &entity) != matches)
            fail_msg("%s: should be %s", texts[i], matches ? "true" : "false");
    }
}

#define EXPECT(matches, ...)                                                   \
    do {                                                                       \
        static const char *const texts[] = {__VA_ARGS__};                      \
        expect(matches, texts, sizeof(texts) / sizeof(texts[0]));              \
    } while (0)

FIXTURE_TEST(matches_constants_of_every_type)
{
    EXPECT(true, "Text eq 'mystring'", "Int eq 123", "Neg eq -5",
        "Double eq 123.45", "Double eq 1.2345e2", "Double eq 12345E-2",
        "Big eq 1.5E+300", "Bool eq false", "Long eq 4294967296L",
        "Date eq datetime'2012-11-10T03:04:05.200Z'",
        "Guid eq guid'DEBC44D5-04a9-42ea-ab2f-4e2cb49ff833'",
        "Binary eq X'010232'", "Binary eq binary'010232'",
        "RowKey eq 'o''brien'", "PartitionKey eq 'p'", "Empty eq ''",
        "Timestamp ge datetime'2017-01-05T00:00:00Z'");
    EXPECT(false, "Text eq 'MyString'", "Int eq 124", "Bool eq true",
        "Date eq datetime'2012-11-10T03:04:05.2000001Z'",
        "Guid eq guid'00000000-04a9-42ea-ab2f-4e2cb49ff833'",
        "Binary eq X'0102'", "RowKey eq 'o'", "Empty eq ' '");
}

FIXTURE_TEST(orders_values_of_every_type)
{
    EXPECT(true, "Int gt 122", "Int ge 123", "Int le 123", "Int lt 124",
        "Int ne 5", "Neg lt 0", "Long gt -1L", "Double lt 123.46",
        "Inf gt 1e308", "Text gt 'mystrin'", "Text lt 'mystringa'",
        "Bool lt true", "Date lt datetime'2012-11-10T03:04:05.3Z'",
        "Binary gt X'0102'", "Binary lt X'010233'",
        "Timestamp ne datetime'2000-01-01T00:00:00Z'",
        "Guid gt guid'00000000-0000-0000-0000-000000000000'",
        /* In UTF-16, U+1F600 begins with D83D, which is less than FF21. */
        "Emoji lt '\xef\xbc\xa1'", "Emoji gt '\xed\x9f\xbf'", "Nan ne 1.0");
    EXPECT(false, "Int gt 123", "Int lt 123", "Int ge 124", "Int le 122",
        "Int ne 123", "Text ge 'n'", "Bool gt false", "Nan eq 1.0",
        "Nan lt 1.0", "Nan ge 1.0");
}

FIXTURE_TEST(never_matches_another_type)
{
    EXPECT(false, "Long eq 5", "Long ne 5", "Int eq 123L", "Int ne 5L",
        "Int eq 123.0", "Double eq 123", "Text eq 5", "Text ne 5",
        "Bool eq 'false'", "Bool ne 0", "Guid eq 'x'", "Guid ne 'x'",
        "PartitionKey ne 5", "Timestamp ne 'x'",
        "Date eq '2012-11-10T03:04:05.2Z'", "Binary eq 'AQIy'");
    EXPECT(true, "not (Int eq 123L)", "not (PartitionKey eq 5)");
}

FIXTURE_TEST(never_matches_what_is_missing)
{
    EXPECT(false, "Gone eq 5", "Gone ne 5", "Gone lt 5", "Gone ge ''");
    EXPECT(
        true, "not (Gone ge 5)", "not (Gone ne 5)", "Gone eq 5 or Int eq 123");
    entity.timestamp = (struct slice){0};
    EXPECT(false, "Timestamp ge datetime'1601-01-01T00:00:00Z'");
}

/* Malformed values, which no store sends: they match nothing, not even with ne.
 */
FIXTURE_TEST(never_matches_a_value_that_is_none)
{
    static const struct {
        enum edm_type type;
        const char *json, *constant;
    } cases[] = {
        {EDM_INT32, "x", "5"},
        {EDM_INT64, "\"x\"", "5L"},
        {EDM_DOUBLE, "x", "5.0"},
        {EDM_BINARY, "\"%\"", "X'00'"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct property odd = {
            slice_of("Odd"), cases[i].type, slice_of(cases[i].json)};
        struct entity other = {.properties = &odd, .property_count = 1};
        char text[64];

        snprintf(text, sizeof(text), "Odd eq %s", cases[i].constant);
        assert_false(filter_matches(parse(text), &other));
        snprintf(text, sizeof(text), "Odd ne %s", cases[i].constant);
        assert_false(filter_matches(parse(text), &other));
    }
}

/* A Guid that is too short is ordered before all Guids that begin with it. */
FIXTURE_TEST(orders_a_guid_that_is_too_short)
{
    struct property odd = {slice_of("Odd"), EDM_GUID, slice_of("\"debc\"")};
    struct entity other = {.properties = &odd, .property_count = 1};

    assert_true(filter_matches(
        parse("Odd lt guid'debc44d5-04a9-42ea-ab2f-4e2cb49ff833'"), &other));
    assert_false(filter_matches(
        parse("Odd eq guid'debc44d5-04a9-42ea-ab2f-4e2cb49ff833'"), &other));
}

FIXTURE_TEST(takes_names_as_the_service_does)
{
    parse("_a eq 5");
    parse("caf\xc3\xa9 eq 5");
    parse("Az09_ eq 5");
    parse("a eq -0.5e+3");
}

FIXTURE_TEST(binds_not_then_and_then_or)
{
    EXPECT(true, "Int eq 123 or Int eq 1 and Int eq 2",
        "Int eq 1 and Int eq 2 or Int eq 123", "not (Int eq 1) and Int eq 123",
        "not(not(Int eq 123))", " ( Int eq 123 ) ",
        "Int eq 123 and(Text eq 'x' or Bool eq false)",
        "Int eq 1 or Int eq 2 or Int eq 123", "", "  ");
    EXPECT(false, "(Int eq 123 or Int eq 1) and Int eq 2",
        "not (Int eq 123) or Int eq 1", "not (Int eq 1 or Int eq 123)",
        "Int eq 123 and Int eq 123 and Int eq 5");
    assert_true(filter_matches(NULL, &entity));
}

static void refused_at(const char *text, unsigned column, const char *what)
{
    const struct filter *filter = NULL;
    struct err err = {{0}};
    char place[32];
    size_t offset = 9999;

    if (filter_parse(slice_of(text), &arena, &filter, &err) != TW_INVALID)
        fail_msg("not refused: %s", text);
    assert_null(filter);
    snprintf(place, sizeof(place), "column %u:", column);
    if (strstr(err.text, place) == NULL || strstr(err.text, what) == NULL)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(filter_check(slice_of(text), &offset, &err), TW_INVALID);
    assert_true(offset <= strlen(text));
    assert_null(strstr(err.text, "column"));
}

FIXTURE_TEST(says_in_which_column_it_is_wrong)
{
    static const struct {
        unsigned column;
        const char *what, *texts[8];
    } cases[] = {
        {5, "expected eq, ne", {"aaa bbb ccc"}},
        {4, "expected eq, ne", {"foo"}},
        {3, "expected eq", {"a EQ 5", "a add 1 eq 5"}},
        {2, "expected eq", {"a{ eq 5", "a[ eq 5", "a` eq 5", "a.b eq 5"}},
        {11, "expected eq", {"startswith(a,'x')"}},
        {5, "expected a constant", {"a eq"}},
        {6, "expected a constant", {"a eq b", "a eq null"}},
        {9, "expected a constant", {"caf\xc3\xa9 eq x"}},
        {6, "invalid constant", {"a eq time'x'"}},
        {1, "name of a property", {"5 eq a", "and eq 5"}},
        {11, "name of a property", {"a eq 5 and"}},
        {8, "expected `and`, `or` or the end of the filter", {"a eq 5 b eq 6"}},
        {7, "or the end", {"a eq 5)", "a eq 5+3"}},
        {10, "or the end", {"a eq 'x' \x01"}},
        {8, "expected `and`, `or` or a )", {"(a eq 5"}},
        {5, "expected ( after `not`", {"not a eq 5"}},
        {6, "never closed", {"a eq 'x"}},
        {10, "never closed", {"a eq guid'debc44d5"}},
        {6, "append L", {"a eq 4294967296"}},
        {6, "64-bit", {"a eq 9223372036854775808L", "a eq 5LL"}},
        {6, "not a number",
            {"a eq 99999999999999999999", "a eq 5x", "a eq -", "a eq 1.2.3",
                "a eq ."}},
        {6, "datetime'2024",
            {"a eq datetime'2024-01-01'", "a eq datetime''",
                "a eq datetime'2024-01-01T00:00:00+01:00'",
                "a eq datetime'yesterdaZ'"}},
        {6, "guid",
            {"a eq guid'1'", "a eq guid'debc44d5-04a9-42ea-ab2f-4e2cb49ff83g'",
                "a eq guid'debc44d5x04a9-42ea-ab2f-4e2cb49ff833'"}},
        {6, "two digits",
            {"a eq X'0'", "a eq X'0g'", "a eq X'0G'", "a eq X'G0'",
                "a eq X'0`'", "a eq X'0@'", "a eq X'0['", "a eq X'0/'"}},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        for (size_t j = 0; j < 8 && cases[i].texts[j]; j++)
            refused_at(cases[i].texts[j], cases[i].column, cases[i].what);
}

static void refused(struct slice text, const char *said)
{
    const struct filter *filter;
    struct err err;

    assert_int_equal(filter_parse(text, &arena, &filter, &err), TW_INVALID);
    assert_non_null(strstr(err.text, said));
}

FIXTURE_TEST(takes_a_nul_for_no_blank)
{
    const struct filter *filter;

    refused((struct slice){"a eq 5\0", 7}, "");
    assert_ok(
        filter_parse((struct slice){"a eq '\0'", 8}, &arena, &filter, NULL));
    assert_int_equal(
        filter_parse(slice_of("a eq '\xff'"), &arena, &filter, NULL),
        TW_INVALID);
}

FIXTURE_TEST(takes_at_most_fifteen_comparisons)
{
    char text[512] = "a eq 0";

    for (int i = 1; i < 15; i++) {
        char more[32];

        snprintf(more, sizeof(more), " or n%d eq %d", i, i);
        strcat(text, more);
    }
    parse(text);
    strcat(text, " or x eq 9");
    refused(slice_of(text), "16th");
}

FIXTURE_TEST(bounds_its_depth)
{
    static char deep[100000];

    memset(deep, '(', sizeof(deep) - 1);
    refused(slice_of(deep), "the parentheses are nested too deeply");
    for (size_t i = 0; i + 4 < sizeof(deep); i += 4)
        memcpy(deep + i, "not(", 4);
    refused(slice_of(deep), "");
    EXPECT(true, "((((((((((((((((Int eq 123))))))))))))))))");
}

FIXTURE_TEST(quotes_literals_so_that_they_stay_texts)
{
    struct buf text;

    buf_init(&text, 1000);
    buf_add_text(&text, "RowKey eq ");
    filter_add_literal(&text, slice_of("o'brien"));
    assert_string_equal(buf_text(&text), "RowKey eq 'o''brien'");
    assert_true(filter_matches(parse(buf_text(&text)), &entity));
    buf_clear(&text);
    buf_add_text(&text, "RowKey eq ");
    filter_add_literal(&text, slice_of("x' or RowKey ne '"));
    assert_false(filter_matches(parse(buf_text(&text)), &entity));
    buf_done(&text);
}

/* A comparison within `or` or `not` may be false for an entity that matches the
 * filter, so the filter does not demand it. */
FIXTURE_TEST(tells_which_texts_a_filter_demands)
{
    static const struct {
        const char *filter, *equalities;
    } cases[] = {
        {"", ""},
        {"A eq 'x'", "A=x "},
        {"A eq 'x' and N gt 5\nand\tB  eq\n'it''s'", "A=x B=it's "},
        {"((A eq 'x')and(N gt 5)and(B eq ''))", "A=x B= "},
        {"A eq 'x' or B eq 'y'", ""},
        {"A eq 'x' and (B eq 'y' or C eq 'z')", "A=x "},
        {"A eq 'x' or B eq 'y' and C eq 'z'", ""},
        {"A eq 'x' and not(B eq 'y')", "A=x "},
        {"not (not (A eq 'x'))", ""},
        {"A ne 'x' and B ge 'y' and C eq 5 and D eq X'00'", ""},
        {"A eq datetime'2012-11-10T03:04:05Z' and B eq 'or'", "B=or "},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct filter_equality list[FILTER_MAX_COMPARISONS];
        size_t count = filter_equalities(parse(cases[i].filter), list);
        const char *text = cases[i].filter;
        struct buf said;

        buf_init(&said, 1000);
        for (size_t j = 0; j < count; j++) {
            buf_add_format(&said, "%.*s=%.*s ", SLICE_ARG(list[j].name),
                SLICE_ARG(list[j].text));
            assert_memory_equal(
                text + list[j].name_at, list[j].name.at, list[j].name.len);
            assert_int_equal(text[list[j].begin], '\'');
            assert_int_equal(text[list[j].end - 1], '\'');
        }
        assert_string_equal(buf_text(&said), cases[i].equalities);
        buf_done(&said);
    }
}

FIXTURE_TEST(tells_filters_that_no_two_stores_read_differently)
{
    static const char *const plain[] = {"", "A eq 'x'", "A eq true",
        "A eq guid'debc44d5-04a9-42ea-ab2f-4e2cb49ff833'",
        "A eq 'x' and (B eq 'y' or C eq false)"};
    static const char *const other[] = {"A ne 'x'", "A eq 5", "A ge 'x'",
        "A eq 5L", "A eq 1.5", "not (A eq 'x')", "A eq 'x' and B eq 5",
        "A eq 5 or B eq 'y'", "A eq datetime'2012-11-10T03:04:05Z'",
        "A eq X'00'"};

    for (size_t i = 0; TEST_EACH(i, plain); i++)
        assert_true(filter_is_plain(parse(plain[i])));
    for (size_t i = 0; TEST_EACH(i, other); i++)
        assert_false(filter_is_plain(parse(other[i])));
}

static bool may_match(
    const struct filter *filter, const struct filter_known *known)
{
    return filter_effect(filter, known, 1).matches;
}

/* One property is known, and all others are unknown. So the result is false
 * only if no entity with the known property can match. */
FIXTURE_TEST(tells_whether_it_may_match_a_known_property)
{
    struct property five = {
        .name = {"Other", 5}, .type = EDM_INT32, .json = {"5", 1}};
    const struct filter_known
        absent = {.what = FILTER_ABSENT, .name = {"A", 1}},
        text = {.what = FILTER_TYPE, .name = {"A", 1}, .type = EDM_STRING},
        is_five = {.what = FILTER_VALUE, .name = {"A", 1}, .value = &five};
    static const struct {
        const char *filter;
        bool absent, text, five;
    } CASES[] = {
        {"", true, true, true},
        {"B eq 1", true, true, true},
        {"A eq 'x'", false, true, false},
        {"A ne 'x'", false, true, false},
        {"A ge 5", false, false, true},
        {"A gt 5", false, false, false},
        {"not (A gt 5)", true, true, true},
        {"not (A le 5)", true, true, false},
        {"A gt 4 and B eq 1", false, false, true},
        {"A gt 5 or B eq 1", true, true, true},
        {"A gt 5 or A eq 'x'", false, true, false},
        {"not (A eq 5 or B eq 1)", true, true, false},
        {"not (A eq 5 and B eq 1)", true, true, true},
        {"not (not (A eq 'x'))", false, true, false},
        {"B eq 1 and (A eq 5 or A eq 'x')", false, true, true},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const struct filter *filter = parse(CASES[i].filter);

        assert_int_equal(may_match(filter, &absent), CASES[i].absent);
        assert_int_equal(may_match(filter, &text), CASES[i].text);
        assert_int_equal(may_match(filter, &is_five), CASES[i].five);
    }
}

static void check_effect(struct filter_effect is, struct filter_effect wanted)
{
    assert_int_equal(is.matches, wanted.matches);
    assert_int_equal(is.loses, wanted.loses);
}

/* Whether a changed entity may match, and whether an entity may match before
 * the change and not afterwards. Some of these effects are impossible only
 * because two properties are known together, or because the property was absent
 * before the change. */
FIXTURE_TEST(tells_what_a_change_does_to_it)
{
    struct property five = {
        .name = {"Other", 5}, .type = EDM_INT32, .json = {"5", 1}};
    const struct filter_known both[] = {
        {.what = FILTER_ABSENT, .name = {"A", 1}},
        {.what = FILTER_VALUE, .name = {"B", 1}, .value = &five}};
    const struct filter_known added = {.what = FILTER_VALUE,
        .was_absent = true,
        .name = {"A", 1},
        .value = &five};
    const struct filter_known any = {.what = FILTER_ANY, .name = {"A", 1}};
    static const struct {
        const char *filter;
        struct filter_effect both, added, any;
    } CASES[] = {
        {"", {true, false}, {true, false}, {true, false}},
        {"C eq 1", {true, false}, {true, false}, {true, false}},
        {"A eq 1 or B eq 2", {false, true}, {true, false}, {true, true}},
        {"A eq 1 or B eq 5", {true, false}, {true, false}, {true, true}},
        {"A eq 1 or C eq 5", {true, true}, {true, false}, {true, true}},
        {"A eq 1 and C eq 5", {false, true}, {false, false}, {true, true}},
        {"not (A ge 0)", {true, false}, {false, true}, {true, true}},
        {"not (A ge 0) or A eq 5", {true, false}, {true, false}, {true, true}},
        {"not (A ge 0) and B gt 5", {false, true}, {false, true}, {true, true}},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const struct filter *filter = parse(CASES[i].filter);

        check_effect(filter_effect(filter, both, 2), CASES[i].both);
        check_effect(filter_effect(filter, &added, 1), CASES[i].added);
        check_effect(filter_effect(filter, &any, 1), CASES[i].any);
    }
}
