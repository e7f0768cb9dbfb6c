/* SPDX-License-Identifier: MIT */
/*
 * Templates: what they render, what they refuse and at which position, and that
 * no value can change the structure of a filter.
 */
#include <string.h>

#include "config/yaml.h"
#include "jobs/engine/run.h"
#include "jobs/engine/template.h"
#include "tests/support/test.h"
#include "worker/store/filter.h"

static struct arena arena;
static struct problems problems;
static struct entity entity;

static const struct slice arg_names[] = {
    {"channel", 7}, {"n", 1}, {"Hidden", 6}};
static struct slice arg_values[] = {
    {"Football", 8}, {"5", 1}, {"the argument", 12}};
static const struct run_args args = {3, arg_names, arg_values};
static const struct template_scope scope = {arg_names, 3, true};
static const struct template_scope args_only = {arg_names, 3, false};

static const char sample[] =
    "{\"PartitionKey\":\"Foot\",\"RowKey\":\"o'brien\","
    "\"Timestamp\":\"2020-07-21T15:27:27.8908975Z\","
    "\"CreatedOn@odata.type\":\"Edm.DateTime\","
    "\"CreatedOn\":\"2008-10-01T10:00:00Z\","
    "\"Last@odata.type\":\"Edm.DateTime\","
    "\"Last\":\"9999-12-31T23:59:59.9999999Z\","
    "\"Half@odata.type\":\"Edm.DateTime\","
    "\"Half\":\"2024-02-29T23:00:00.5000000Z\","
    "\"Size\":7,\"Minus\":-7,\"Title\":\"Caf\xc3\xa9 \\\"Zw\xc3\xb6lf\\\"\","
    "\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"9007199254740993\","
    "\"Max@odata.type\":\"Edm.Int64\",\"Max\":\"9223372036854775807\","
    "\"Rating\":3.5,\"Five@odata.type\":\"Edm.Double\",\"Five\":5,"
    "\"Nan@odata.type\":\"Edm.Double\",\"Nan\":\"NaN\",\"Yes\":true,"
    "\"Guid@odata.type\":\"Edm.Guid\","
    "\"Guid\":\"c9da6455-213d-42c9-9a79-3e9149a57833\","
    "\"Binary@odata.type\":\"Edm.Binary\",\"Binary\":\"AQIy\","
    "\"Empty\":\"\",\"Hidden\":\"the property\","
    "\"Evil\":\"x' or PartitionKey ne '\",\"Number\":\"12\"}";

static int set_up(void **state)
{
    arena_init(&arena);
    problems_init(&problems);
    return entity_parse(slice_of(sample), true, &arena, &entity, NULL, NULL);
}

static int tear_down(void **state)
{
    problems_done(&problems);
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static const struct mark start = {"tableward.yaml", 12, 20};

static const struct template *compile(const char *text, bool is_filter)
{
    const struct template *template =
        is_filter ? template_compile_filter(
                        slice_of(text), start, &scope, &arena, &problems)
                  : template_compile(
                        slice_of(text), start, &scope, &arena, &problems);

    if (template == NULL)
        fail_msg("%s: %s", text, problems.list[0].text);
    assert_int_equal(problems.count, 0);
    return template;
}

/* Renders the template `text`. *ret_text: the result, or the message of the
 * failure; lives in arena. */
static enum tw_err render(const char *text, bool is_filter,
    const struct run_args *run_args, const struct entity *of,
    const char **ret_text)
{
    struct err err = {{0}};
    struct buf to;
    enum tw_err outcome;

    buf_init(&to, 4096);
    outcome =
        template_render(compile(text, is_filter), run_args, of, &to, &err);
    *ret_text = arena_copy(
        &arena, outcome == TW_OK ? buf_slice(&to) : slice_of(err.text))
                    .at;
    buf_done(&to);
    return outcome;
}

struct rendering {
    const char *template;
    const char *text; /* the result; of a failure: a part of the message */
};

static void render_all(const struct rendering *cases, size_t count,
    bool is_filter, enum tw_err wanted)
{
    for (size_t i = 0; i < count; i++) {
        const char *text;

        if (render(cases[i].template, is_filter, &args, &entity, &text) !=
            wanted)
            fail_msg("%s: %s", cases[i].template, text);
        if (wanted == TW_OK ? strcmp(text, cases[i].text) != 0
                            : strstr(text, cases[i].text) == NULL)
            fail_msg(
                "%s: %s is not %s", cases[i].template, text, cases[i].text);
    }
}

#define RENDER_ALL(filter, wanted, ...)                                        \
    do {                                                                       \
        static const struct rendering cases[] = {__VA_ARGS__};                 \
        render_all(cases, sizeof(cases) / sizeof(cases[0]), filter, wanted);   \
    } while (0)
#define RENDERS(filter, ...) RENDER_ALL(filter, TW_OK, __VA_ARGS__)
#define FAILS(filter, ...) RENDER_ALL(filter, TW_INVALID, __VA_ARGS__)

static void refused(struct slice text)
{
    assert_null(template_compile(text, start, &scope, &arena, &problems));
}

FIXTURE_TEST(replaces_arguments_keys_and_properties)
{
    RENDERS(false, {"", ""}, {"plain", "plain"}, {"{channel}", "Football"},
        {"a{n}b{ n }c", "a5b5c"}, {"{PartitionKey}/{RowKey}", "Foot/o'brien"},
        {"{Title}", "Caf\xc3\xa9 \"Zw\xc3\xb6lf\""}, {"{Empty}", ""},
        {"{Hidden}", "the argument"}, /* hides the property of that name */
        {"{Timestamp}", "2020-07-21T15:27:27.8908975Z"});
}

FIXTURE_TEST(writes_doubled_braces_as_braces)
{
    RENDERS(false, {"{{", "{"}, {"}}", "}"}, {"{{{n}}}", "{5}"},
        {"a{{b}}c", "a{b}c"}, {"{'{'}{'}'}", "{}"});
}

FIXTURE_TEST(computes_with_the_precedence_of_c)
{
    RENDERS(false, {"{1 + 2 * 3} {(1 + 2) * 3} {10 - 3 - 2}", "7 9 5"},
        {"{7 / 2} {Minus / 2} {7 % 4} {Minus % 4}", "3 -3 3 -3"},
        {"{-Size + 10} {--5} {2*-3} {1 + 1 == 2}", "3 5 -6 true"},
        {"{Max - 1}", "9223372036854775806"},
        {"{0 - Max - 1}", "-9223372036854775808"});
}

FIXTURE_TEST(fails_where_integers_overflow)
{
    FAILS(false, {"{Max + 1}", "Max + 1 overflows 64 bits"},
        {"{0 - Max - 2}", "overflows"}, {"{Max * 2}", "overflows"},
        {"{(0 - Max - 1) / -1}", "overflows"},
        {"{-(0 - Max - 1)}", "overflows"},
        {"{1 / (Size - 7)}", "divides by zero"},
        {"{1 % (Size - 7)}", "divides by zero"});
    RENDERS(false, {"{(0 - Max - 1) % -1}", "0"},
        {"{(0 - Max - 1) / 2}", "-4611686018427387904"});
}

FIXTURE_TEST(compares_numbers_texts_times_and_booleans)
{
    RENDERS(false,
        {"{Size == 7} {Size <= 7} {Size<=7} {Size >= 7} {Size > 7} {Size != 7}",
            "true true true true false false"},
        {"{Size < 8} {Size != 8} {Size >= 8}", "true true false"},
        {"{Size >= 6} {Size != 6}", "true true"},
        {"{Rating > 3} {Five == 5} {Max > Views}", "true true true"},
        {"{Nan == Nan} {Nan != 5} {Nan < 5} {Size == Nan} {Size != Nan}",
            "false true false false true"},
        {"{channel == 'Football'} {channel <= 'Football'}", "true true"},
        {"{channel >= 'Football'} {channel > 'Foot'}", "true true"},
        {"{channel >= 'Foot'} {channel != 'Foot'}", "true true"},
        {"{channel == 'Foot'} {channel <= 'Foot'} {channel < 'Foot'}",
            "false false false"},
        {"{channel > 'Golf'} {channel != 'Golf'}", "false true"},
        {"{CreatedOn < Half} {Yes == true} {Yes == false} {(1 < 2) == Yes}",
            "true true false true"});
    FAILS(false, {"{Title == Size}", "compares a text with an integer"},
        {"{CreatedOn < Size}", "compares a DateTime with an integer"});
}

FIXTURE_TEST(takes_one_branch_and_looks_at_no_other)
{
    RENDERS(false, {"{if(Size > 5, 'big', 'small')}", "big"},
        {"{if(Yes, 1, 'x')}", "1"}, {"{if(Yes, Size, Missing)}", "7"},
        {"{if(Size == 1, 1 / 0, if(Yes, channel, n))}", "Football"},
        {"{if(Yes, 3, 4):03}", "003"});
    FAILS(false, {"{if(Size, 1, 2)}", "if needs true or false"},
        {"{if(Yes, Missing, 1)}", "property Missing is missing"});
}

FIXTURE_TEST(takes_times_apart_in_utc)
{
    RENDERS(false,
        {"{year(Half)}-{month(Half)}-{day(Half)} {hour(Half)}", "2024-2-29 23"},
        {"{week(CreatedOn)} {week(Half)} {week(Last)}", "1 5 5"},
        {"{ticks(Last)}", "3155378975999999999"},
        {"{3155378975999999999 - ticks(Last):019}", "0000000000000000000"},
        {"{year(Timestamp)}", "2020"});
}

FIXTURE_TEST(pads_integers_with_zeros)
{
    RENDERS(false, {"{Size:1}", "7"}, {"{Size:3}", "007"}, {"{Size:03}", "007"},
        {"{Minus:4}", "-007"}, {"{Views:2}", "9007199254740993"});
    FAILS(false, {"{Title:2}", "only an integer can be padded"},
        {"{Rating:2}", "only an integer can be padded"});
}

FIXTURE_TEST(changes_the_case_of_ascii_letters_only)
{
    RENDERS(false, {"{lower(Title)}", "caf\xc3\xa9 \"zw\xc3\xb6lf\""},
        {"{upper('az@[`{' )}", "AZ@[`{"}, {"{lower('AZ@[`{')}", "az@[`{"},
        {"{upper(lower(channel))}", "FOOTBALL"});
}

/* The expected numbers (first 8 bytes of the SHA-256, big-endian, modulo n)
 * were computed by another tool. */
FIXTURE_TEST(spreads_texts_by_hash)
{
    RENDERS(false, {"{hash(channel, 16)}", "4"}, {"{hash('', 7)}", "1"},
        {"{hash('caf\xc3\xa9', 1000000):07}", "0552649"},
        {"{hash('abc', Max)}", "4213142463398924267"});
    FAILS(false, {"{hash(channel, Size - 7)}", "above 0"},
        {"{hash(channel, Minus)}", "above 0"});
}

/* ---- one value, several spellings ---- */

/* Returns the text of `template` for an entity with a property P, whose JSON
 * value is `json`. */
static const char *text_of_spelling(
    const char *template, const char *type, const char *json)
{
    struct slice line = arena_format(&arena,
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\","
        "\"P@odata.type\":\"Edm.%s\",\"P\":%s}",
        type, json);
    struct entity one;
    const char *text;

    assert_ok(entity_parse(line, true, &arena, &one, NULL, NULL));
    assert_ok(render(template, false, &args, &one, &text));
    return text;
}

FIXTURE_TEST(every_spelling_of_a_value_has_one_text)
{
    static const struct {
        const char *type, *text, *spellings[5];
    } values[] = {
        {"Guid", "c9da6455-213d-42c9-9a79-3e9149a57833",
            {"\"c9da6455-213d-42c9-9a79-3e9149a57833\"",
                "\"C9DA6455-213D-42C9-9A79-3E9149A57833\"",
                "\"C9da6455-213d-42c9-9a79-3e9149a57833\""}},
        {"Double", "1", {"1", "1.0", "1e0", "10.0E-1", "1.000"}},
        {"Double", "0.1", {"0.1", "0.10", "1e-1", "0.1000000000000000055"}},
        {"Double", "-0", {"-0", "-0.0", "-0e5"}},
        {"Double", "1e+300", {"1e300", "1E+300", "1.0e300", "10e299"}},
        {"Double", "5e-324", {"4.9406564584124654E-324", "4.9E-324"}},
        {"Double", "123456789012345680", {"1.2345678901234568E+17"}},
        {"DateTime", "2024-01-01T00:00:00.0000000Z",
            {"\"2024-01-01T00:00:00Z\"", "\"2024-01-01T00:00:00.0Z\"",
                "\"2024-01-01T00:00:00.0000000Z\""}},
        {"DateTime", "2024-01-01T00:00:00.5000000Z",
            {"\"2024-01-01T00:00:00.5Z\"", "\"2024-01-01T00:00:00.50Z\""}},
        {"Int64", "7", {"\"7\"", "\"007\"", "\"\\u0037\""}},
        {"Int64", "0", {"\"0\"", "\"-0\"", "\"00\""}},
        {"Int32", "0", {"0", "-0"}},
        {"Binary", "AQIy", {"\"AQIy\"", "\"\\u0041QIy\""}},
        {"String", "\xc3\xa9/", {"\"\xc3\xa9/\"", "\"\\u00e9\\/\""}},
    };

    for (size_t i = 0; TEST_EACH(i, values); i++) {
        const char *type = values[i].type;
        const char *hash = text_of_spelling(
            "{hash(P, 1000000007)}", type, values[i].spellings[0]);

        for (size_t j = 0; j < 5 && values[i].spellings[j] != NULL; j++) {
            const char *json = values[i].spellings[j];

            assert_string_equal(
                text_of_spelling("{P}", type, json), values[i].text);
            assert_string_equal(
                text_of_spelling("{hash(P, 1000000007)}", type, json), hash);
        }
    }
}

FIXTURE_TEST(trims_blanks_at_both_ends)
{
    RENDERS(false, {"{trim('  a b\t')}", "a b"}, {"{trim('')}", ""},
        {"{trim(' \n ')}", ""}, {"{trim('\xc2\xa0')}", "\xc2\xa0"},
        {"{trim('a')}", "a"});
    FAILS(false, {"{trim(Size)}", "trim needs a text"});
}

FIXTURE_TEST(replaces_each_occurrence_from_left_to_right)
{
    RENDERS(false, {"{replace('a-b-c', '-', '')}", "abc"},
        {"{replace('aaa', 'aa', 'b')}", "ba"}, {"{replace('', 'a', 'b')}", ""},
        {"{replace('ab', 'abc', 'x')}", "ab"},
        {"{replace('\xc3\xa9', '\xc3\xa9', 'e')}", "e"},
        {"{replace('aba', 'a', 'aa')}", "aabaa"});
    FAILS(false, {"{replace('a', Empty, 'b')}", "that is not empty"});
}

/* Each nested replace() makes the text a hundred times as long. */
FIXTURE_TEST(replace_never_makes_a_text_of_any_length)
{
    struct buf text;

    buf_init(&text, 4096);
    for (int i = 0; i < 4; i++)
        buf_add_text(&text, "replace(");
    buf_add_text(&text, "'a'");
    for (int i = 0; i < 4; i++)
        buf_add_format(&text, ", 'a', '%0100d')", 0);
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '0')
            text.at[i] = 'a';
    render_all(
        &(struct rendering){arena_format(&arena, "{%s}", buf_text(&text)).at,
            "more than 1 MiB"},
        1, false, TW_INVALID);
    buf_done(&text);
}

FIXTURE_TEST(substring_counts_characters_not_bytes)
{
    RENDERS(false, {"{substring('abc', 0, 2)}", "ab"},
        {"{substring('abc', 1, 1)}", "b"}, {"{substring('abc', 1, 9)}", "bc"},
        {"{substring('abc', 3, 1)}", ""}, {"{substring('abc', 0, 0)}", ""},
        {"{substring('z\xc3\xb6\xf0\x9f\x98\x80!', 1, 2)}",
            "\xc3\xb6\xf0\x9f\x98\x80"},
        {"{substring('\xf0\x9f\x98\x80', 0, Max)}", "\xf0\x9f\x98\x80"});
    FAILS(false, {"{substring('abc', 4, 1)}", "starts behind the end"},
        {"{substring('abc', Max, 1)}", "starts behind the end"},
        {"{substring('abc', Minus, 1)}", "0 or more"},
        {"{substring('abc', 0, Minus)}", "0 or more"},
        {"{substring(Size, 0, 1)}", "substring needs a text"},
        {"{substring('abc', Title, 1)}", "substring needs an integer"});
}

FIXTURE_TEST(never_renders_what_is_missing_as_empty)
{
    FAILS(false, {"{Missing}", "property Missing is missing"},
        {"x{year(Missing)}", "property Missing is missing"},
        {"{year(Title)}", "Title is a text; year needs a DateTime"},
        {"{lower(Size)}", "Size is an integer; lower needs a text"},
        {"{Title + 1}", "Title is a text; + needs an integer"},
        {"{Rating + 1}", "Rating is a Double; + needs an integer"},
        {"{Missing == 1}", "property Missing is missing"},
        {"{1 == Missing}", "property Missing is missing"},
        {"{Missing}{n}", "property Missing is missing"});
    entity.timestamp = (struct slice){0};
    FAILS(false, {"{Timestamp}", "property Timestamp is missing"});
}

/* ---- filters ---- */

FIXTURE_TEST(quotes_values_in_filters)
{
    RENDERS(true, {"", ""}, {"a eq 5", "a eq 5"},
        {"Blog eq '{RowKey}'", "Blog eq 'o''brien'"},
        {"Blog eq 'a_{RowKey}_b'", "Blog eq 'a_o''brien_b'"},
        {"Blog eq 'it''s {RowKey}'", "Blog eq 'it''s o''brien'"},
        {"Blog eq '{Empty}'", "Blog eq ''"},
        {"Blog eq '{Evil}'", "Blog eq 'x'' or PartitionKey ne '''"},
        {"Blog eq '{Size:03}'", "Blog eq '007'"},
        {"a eq '{{{channel}}}'", "a eq '{Football}'"},
        {"a eq '{if(channel == 'x', '1', '}')}'", "a eq '}'"});
}

FIXTURE_TEST(types_bare_values_in_filters)
{
    RENDERS(true, {"Size eq {Size}", "Size eq 7"},
        {"Views gt {Views}", "Views gt 9007199254740993L"},
        {"Rating le {Rating} and Five eq {Five}",
            "Rating le 3.5 and Five eq 5.0"},
        {"Yes eq {Yes}", "Yes eq true"}, {"a eq {n}", "a eq 5"},
        {"a eq {n}L", "a eq 5L"}, {"a eq {Number}", "a eq 12"},
        {"T lt {ticks(CreatedOn)}", "T lt 633584520000000000L"},
        {"a eq {Views - Views}", "a eq 0L"},
        {"a eq {1000000 * 10000}", "a eq 10000000000L"},
        {"a eq {Size > 5}", "a eq true"},
        {"not (a ge {Minus:03})", "not (a ge -07)"});
    FAILS(true, {"a eq {channel}", "must be a number, true or false"},
        {"a eq {Empty}", "must be a number, true or false"},
        {"a eq {Evil}", "must be a number, true or false"},
        {"a eq {Title}", "must be a number"},
        {"a eq {Nan}", "NaN cannot be written in a filter"},
        {"a eq {CreatedOn}", "datetime'{...}'"}, {"a eq {Views}L", "64-bit"},
        {"a eq {Missing}", "Missing is missing"},
        {"a eq {Title:02}", "only an integer can be padded"},
        {"a eq {Rating:02}", "only an integer can be padded"},
        {"a eq '{Title:02}'", "only an integer can be padded"});
    RENDERS(true, {"a eq {0 - 3000000000}", "a eq -3000000000L"});
}

FIXTURE_TEST(an_argument_in_a_filter_may_be_any_number)
{
    static const struct {
        const char *argument;
        bool good;
    } cases[] = {{"5", true}, {"-7", true}, {"1.5", true}, {"2e3", true},
        {"3E+2", true}, {"-1.5e-3", true}, {"12L", true}, {"true", true},
        {"TRUE", false}, {"1_000", false}, {"1:5", false}, {"@", false},
        {"[", false}, {"`", false}, {"{", false}, {"/", false}, {"1 ", false},
        {"--5", false}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct slice values[3] = {slice_of(cases[i].argument)};
        struct run_args one = {3, arg_names, values};
        const char *text;

        if (render("a eq {channel}", true, &one, &entity, &text) !=
            (cases[i].good ? TW_OK : TW_INVALID))
            fail_msg("%s: %s", cases[i].argument, text);
        if (cases[i].good)
            assert_string_equal(text + 5, cases[i].argument);
    }
}

FIXTURE_TEST(a_run_without_its_argument_fails)
{
    const struct run_args none = {0, NULL, NULL};
    const char *text;

    assert_int_equal(
        render("{channel}", false, NULL, &entity, &text), TW_INVALID);
    assert_int_equal(
        render("{channel}", false, &none, &entity, &text), TW_INVALID);
    assert_string_equal(text, "argument channel is missing");
}

/* A property whose value is not of its type: the service never sends one, but
 * an imported file may have one. */
FIXTURE_TEST(a_property_that_is_not_what_it_says_fails)
{
    struct property odd = {slice_of("Odd"), EDM_INT32, slice_of("\"seven\"")};
    struct entity other = entity;
    const char *text;

    other.properties = &odd;
    other.property_count = 1;
    assert_int_equal(render("{Odd}", false, &args, &other, &text), TW_INVALID);
    assert_string_equal(
        text, "the value of property Odd is not a valid Edm.Int32");
}

FIXTURE_TEST(a_template_may_have_several_lines)
{
    RENDERS(false, {"{1 +\n\t2}", "3"});
    refused(slice_of("a\n{yaer(x)}"));
    assert_int_equal(problems.count, 1);
    assert_int_equal(problems.list[0].mark.line, 12);
    assert_int_equal(problems.list[0].mark.column, 20);
}

FIXTURE_TEST(checks_typed_constants_in_filters)
{
    RENDERS(true,
        {"D ge datetime'{CreatedOn}'",
            "D ge datetime'2008-10-01T10:00:00.0000000Z'"},
        {"D ge datetime'{year(Half)}-01-01T00:00:00Z'",
            "D ge datetime'2024-01-01T00:00:00Z'"},
        {"G eq guid'{Guid}' or(B eq X'{n}0')",
            "G eq guid'c9da6455-213d-42c9-9a79-3e9149a57833' or(B eq X'50')"});
    FAILS(true,
        {"D ge datetime'{channel}'",
            "at \"datetime'Football'\": a datetime is written"},
        {"G eq guid'{Evil}'", "a guid is written"},
        {"B eq binary'{n}'", "two digits a byte"});
}

FIXTURE_TEST(a_mistake_in_a_filter_shows_no_property)
{
    const char *text;

    assert_int_equal(
        render("D ge datetime'{Title}'", true, &args, &entity, &text),
        TW_INVALID);
    assert_ptr_equal(strstr(text, "a datetime is written"), text);
}

/* Any value becomes exactly one constant of the filter, and the comparison
 * stays the same. */
FIXTURE_TEST(keeps_any_value_inside_its_literal)
{
    static const char *const values[] = {"'", "''", "' or 1 eq 1", "a'b'c",
        "') or (RowKey ne '", "\\'", "%27", "'{x}'", "x' and 'y",
        "\xc3\xa9\xf0\x9f\x98\x80'", "datetime'2024-01-01T00:00:00Z'", "\n'\t"};

    for (size_t i = 0; TEST_EACH(i, values); i++) {
        struct slice value[3] = {
            slice_of(values[i]), arg_values[1], arg_values[2]};
        struct run_args one = {3, arg_names, value};
        struct entity other = entity;
        const struct filter *filter;
        const char *text;
        size_t count;

        assert_ok(render("RowKey eq '{channel}'", true, &one, &entity, &text));
        assert_ok(filter_parse(slice_of(text), &arena, &filter, NULL));
        filter_properties(filter, &count);
        assert_int_equal(count, 1);
        other.row_key = value[0];
        assert_true(filter_matches(filter, &other));
        assert_false(filter_matches(filter, &entity));
    }
}

/* ---- problems ---- */

enum setting { TEXT, ARGS, FILTER };

struct mistake {
    enum setting setting; /* ARGS: a template without an entity */
    const char *template;
    unsigned column; /* within the template, from 1 */
    const char *what;
};

FIXTURE_TEST(says_where_a_template_is_wrong)
{
    static const struct mistake mistakes[] = {
        {TEXT, "{", 2, "expected a name"},
        {TEXT, "a{channel", 2, "never closed"},
        {TEXT, "a}", 2, "a } without {"},
        {TEXT, "{}", 2, "expected a name"},
        {ARGS, "{chanel}", 2, "did you mean 'channel'"},
        {ARGS, "{PartitionKey}", 2, "PartitionKey"},
        {TEXT, "ab{yaer(CreatedOn)}", 4, "did you mean 'year'"},
        {TEXT, "\xc3\xa9{yaer(CreatedOn)}", 3, "function"},
        {TEXT, "{year(channel)}", 7,
            "channel is a text; year needs a DateTime"},
        {TEXT, "{year(a, b)}", 8, "year takes 1 argument: expected )"},
        {TEXT, "{hash(a)}", 8, "hash takes 2 arguments: expected a comma"},
        {TEXT, "{1 + 'x'}", 6, "'x' is a text; + needs an integer"},
        {TEXT, "{PartitionKey * 2}", 2, "PartitionKey is a text; * needs"},
        {TEXT, "{-channel}", 3, "channel is a text; - needs"},
        {TEXT, "{1 == 'x'}", 2, "cannot be compared"},
        {TEXT, "{if(1, 2, 3)}", 5, "1 is an integer; if needs true or false"},
        {TEXT, "{'abc}", 2, "never closed"},
        {TEXT, "{1 2}", 4, "expected an operator or }"},
        {TEXT, "{(1}", 4, "expected )"},
        {TEXT, "{9223372036854775808}", 2, "64 bits"},
        {TEXT, "{12x}", 2, "not an integer of 64 bits"},
        {TEXT, "{n:}", 4, "width"},
        {TEXT, "{Size:65}", 7, "width"},
        {TEXT, "{Size:0x}", 7, "width"},
        {TEXT, "{channel:02}", 1, "only an integer can be padded"},
        {TEXT, "{a = 1}", 4, "expected an operator or }"},
        {TEXT, "{a & b}", 4, "expected an operator or }"},
        {TEXT, "a \xff", 1, "UTF-8"},
        {FILTER, "a eq '{channel}", 6, "never closed"},
        {FILTER, "a eq", 5, "expected a constant"},
        {FILTER, "'{channel}' eq a", 1, "name of a property"},
        {FILTER, "{channel} eq 5", 1, "name of a property"},
        {FILTER, "a eq '{{' and b EQ '{channel}'", 17, "expected eq"},
        {FILTER, "a eq datetime'{Half}' und b eq 5", 23, "expected `and`"},
        {FILTER, "a eq {Timestamp}", 6, "datetime'{...}'"},
        {FILTER, "a eq 'it''s {channel}' x", 24, "or the end"},
        {FILTER, "a eq datetime'x'", 6, "a datetime is written"},
        {FILTER, "X'{n}' eq a", 2, "expected eq"},
        {TEXT, "{year()}", 7, "expected a name"},
        {TEXT, "{hash(channel, 1, 2)}", 17,
            "hash takes 2 arguments: expected )"},
        {TEXT, "{Size:3", 1, "never closed"},
        {TEXT, "{1 + + 2}", 6, "expected a name"},
        {TEXT, "{1 == ,}", 7, "expected a name"},
        {ARGS, "{\xc3\xa9t\xc3\xa9}", 2, "unknown argument"},
        {ARGS, "{_a}", 2, "unknown argument"},
    };

    for (size_t i = 0; TEST_EACH(i, mistakes); i++) {
        const struct mistake *mistake = &mistakes[i];
        const struct template *template = (mistake->setting == FILTER
                                               ? template_compile_filter
                                               : template_compile)(
            slice_of(mistake->template), start,
            mistake->setting == ARGS ? &args_only : &scope, &arena, &problems);

        if (template != NULL)
            fail_msg("taken: %s", mistake->template);
        if (problems.count != 1 ||
            strstr(problems.list[0].text, mistake->what) == NULL ||
            problems.list[0].mark.line != 12 ||
            problems.list[0].mark.column != 20 + mistake->column - 1)
            fail_msg("%s: %zu problems, column %u: %s", mistake->template,
                problems.count, problems.list[0].mark.column - 19,
                problems.list[0].text);
        problems_done(&problems);
        problems_init(&problems);
    }
}

FIXTURE_TEST(tells_every_mistake_of_a_template)
{
    refused(slice_of("{yaer(x)} {channel} {1 +} } {''x}"));
    assert_int_equal(problems.count, 4);
    assert_int_equal(problems.list[1].mark.column, 20 + 24);
}

FIXTURE_TEST(says_that_a_job_has_no_arguments)
{
    const struct template_scope none = {NULL, 0, false};

    assert_null(template_compile(
        slice_of("{channel}"), start, &none, &arena, &problems));
    assert_non_null(strstr(problems.list[0].text, "no arguments"));
}

FIXTURE_TEST(bounds_what_it_reads)
{
    static char text[100000];

    memset(text, '(', sizeof(text) - 1);
    text[0] = '{';
    refused(slice_of(text));
    memset(text + 1, '-', sizeof(text) - 2);
    refused(slice_of(text));
    for (size_t i = 1; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "1+", 2);
    refused(slice_of(text));
    assert_int_equal(problems.count, 3);
}

/* In any expression the first node beyond the limit is refused. */
FIXTURE_TEST(no_expression_is_longer_than_a_thousand_parts)
{
    static const char *const parts[] = {"Size + ", "-1 + ", "hash('a', 1) + ",
        "if(1 == 1, 1, 1) + ", "(Size) + ", "year(Last) + "};

    for (size_t i = 0; TEST_EACH(i, parts); i++)
        for (int shift = 0; shift < 8; shift++) {
            struct buf text;

            buf_init(&text, 100000);
            buf_add_char(&text, '{');
            for (int j = 0; j < shift; j++)
                buf_add_text(&text, "if(1 == 1, 1, 1) + ");
            for (int j = 0; j < 600; j++)
                buf_add_text(&text, parts[i]);
            buf_add_text(&text, "1}");
            refused(buf_slice(&text));
            assert_int_equal(problems.count, 1);
            assert_string_equal(
                problems.list[0].text, "this expression is too long");
            problems_done(&problems);
            problems_init(&problems);
            buf_done(&text);
        }
}

/* Messages are written to logs and terminals, so they may have no control
 * characters. */
FIXTURE_TEST(shows_every_character_of_an_expression_that_fails)
{
    const char *text;

    assert_int_equal(
        render("A eq {if(Yes, '\x1b[2J', 5)}", true, &args, &entity, &text),
        TW_INVALID);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "\\x1b[2J"));
}

FIXTURE_TEST(marks_where_the_text_of_a_scalar_begins)
{
    struct yaml_node *map = yaml_read("f.yaml",
        slice_of("a: \"{yaer(x)}\"\nb: {c: x}\nd: plain{yaer(x)}\n"), &arena,
        &problems);
    const struct yaml_node *a = yaml_get(map, "a"), *d = yaml_get(map, "d");

    assert_null(
        template_compile(a->text, template_mark(a), &scope, &arena, &problems));
    assert_null(
        template_compile(d->text, template_mark(d), &scope, &arena, &problems));
    assert_int_equal(problems.list[0].mark.column, 6);
    assert_int_equal(problems.list[1].mark.line, 3);
    assert_int_equal(problems.list[1].mark.column, 10);
}

/* ---- what is known of a template ---- */

FIXTURE_TEST(names_the_properties_it_reads)
{
    size_t count;
    const struct slice *names = template_properties(
        compile("{PartitionKey}{channel}{year(A)}{if(B == A, Hidden, RowKey)}",
            false),
        &count);

    assert_int_equal(count, 2);
    assert_true(slice_is(names[0], "A"));
    assert_true(slice_is(names[1], "B"));
}

FIXTURE_TEST(knows_what_stands_alone)
{
    static const struct {
        const char *template, *property; /* if the template is just a property:
                                            its name; else "" */
        int arg;                         /* if it is just an argument: its
                                            index; else -1 */
        bool is_constant;
    } cases[] = {
        {"{Title}", "Title", -1, false},
        {"{ PartitionKey }", "PartitionKey", -1, false},
        {"{n}", "", 1, false},
        {"{ channel }", "", 0, false},
        {"{channel}_", "", -1, false},
        {"{Size:3}", "", -1, false},
        {"{lower(Title)}", "", -1, false},
        {"{'a'}", "", -1, false},
        {"Title", "", -1, true},
        {"a{{b}}", "", -1, true},
        {"", "", -1, true},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const struct template *template = compile(cases[i].template, false);

        assert_true(
            slice_is(template_lone_property(template), cases[i].property));
        assert_int_equal(template_lone_arg(template), cases[i].arg);
        assert_int_equal(template_is_constant(template), cases[i].is_constant);
        assert_true(slice_is(template_source(template), cases[i].template));
    }
}

FIXTURE_TEST(knows_what_is_read)
{
    struct slice rest;
    const struct template *both = compile("{RowKey}_{n}{n}", false);

    assert_true(
        slice_is(template_leading_property(compile("{RowKey}_", false), &rest),
            "RowKey"));
    assert_true(slice_is(rest, "_"));
    assert_int_equal(
        template_leading_property(compile("{RowKey}", false), &rest).len, 0);
    assert_true(template_reads_key(both, true));
    assert_false(template_reads_key(both, false));
    assert_true(template_reads_arg(both, 1));
    assert_false(template_reads_arg(both, 0));
    assert_true(template_reads_arg(compile("{lower(channel)}", false), 0));
    assert_false(template_reads_arg(compile("channel", false), 0));
    assert_int_equal(template_values(both), 3);
    assert_int_equal(template_values(compile("x{{}}", false)), 0);
}
