/* SPDX-License-Identifier: MIT */
/*
 * Conversion from one Edm type to another: all 64 pairs, the limits of each,
 * and that an exact conversion can be reversed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/problems.h"
#include "jobs/engine/convert.h"
#include "jobs/engine/template.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/text.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define NAME "Name"

static const enum edm_type all[CONVERT_TYPES] = {EDM_BINARY, EDM_BOOLEAN,
    EDM_DATETIME, EDM_DOUBLE, EDM_GUID, EDM_INT32, EDM_INT64, EDM_STRING};

static const char *const worths[] = {
    [CONVERT_EXACT] = "exact",
    [CONVERT_LOSSY] = "lossy",
    [CONVERT_IMPOSSIBLE] = "impossible",
};

/* ---- single values ---- */

/* expected: the JSON of the result; for an impossible conversion, the reason.
 * loses: for a lossy one, what it loses. */
struct value_case {
    enum edm_type from;
    const char *json;
    enum edm_type to;
    enum convert_worth worth;
    const char *expected, *loses;
};

#define EXACT(from, json, to, expected)                                        \
    {                                                                          \
        EDM_##from, json, EDM_##to, CONVERT_EXACT, expected, NULL              \
    }
#define LOSSY(from, json, to, expected, loses)                                 \
    {                                                                          \
        EDM_##from, json, EDM_##to, CONVERT_LOSSY, expected, loses             \
    }
#define NEVER(from, json, to, why)                                             \
    {                                                                          \
        EDM_##from, json, EDM_##to, CONVERT_IMPOSSIBLE, why, NULL              \
    }

#define FRACTION "its fraction is lost"
#define ZEROS "its leading zeros are lost"
#define SIGN "the sign of its zero is lost"
#define DIGITS "some of its digits are lost"
#define NOT_01 "that is neither 0 nor 1"
#define NO_INTEGER "an Edm.String that is not an integer"
#define NO_NUMBER                                                              \
    "an Edm.String that is not a number, or not in the range of an Edm.Double"
#define NO_TIME "an Edm.String that is not a time such as 2024-01-01T00:00:00Z"
#define NO_GUID                                                                \
    "an Edm.String that is not a GUID (8-4-4-4-12 hexadecimal digits)"
#define BEYOND(from, to) "an Edm." from " beyond the range of an Edm." to

static void check_case(const struct value_case *c)
{
    const struct property before = {slice_of("-"), EDM_BINARY, slice_of("-")};
    struct property from = {slice_of(NAME), c->from, slice_of(c->json)};
    struct property got = before;
    struct err err = {{0}};
    enum convert_worth worth =
        convert_property(&from, c->to, &scratch, &got, &err);

    print_message(
        "%s %s to %s\n", edm_type_name(c->from), c->json, edm_type_name(c->to));
    assert_string_equal(worths[worth], worths[c->worth]);
    if (worth == CONVERT_IMPOSSIBLE) {
        assert_string_equal(err.text, c->expected);
        assert_memory_equal(&got, &before, sizeof(got));
        return;
    }
    assert_true(slice_is(got.name, NAME));
    assert_int_equal(got.type, c->to);
    assert_string_equal(arena_copy(&scratch, got.json).at, c->expected);
    assert_string_equal(err.text, worth == CONVERT_LOSSY ? c->loses : "");
}

#define CHECK_ALL(cases)                                                       \
    do {                                                                       \
        for (size_t i = 0; i < COUNT(cases); i++)                              \
            check_case(&(cases)[i]);                                           \
    } while (0)

SCRATCH_TEST(boolean_is_0_or_1_or_a_word)
{
    static const struct value_case cases[] = {
        EXACT(BOOLEAN, "true", INT32, "1"),
        EXACT(BOOLEAN, "false", INT32, "0"),
        EXACT(BOOLEAN, "true", INT64, "\"1\""),
        EXACT(BOOLEAN, "false", INT64, "\"0\""),
        EXACT(BOOLEAN, "true", DOUBLE, "1.0"),
        EXACT(BOOLEAN, "false", DOUBLE, "0.0"),
        EXACT(BOOLEAN, "true", STRING, "\"true\""),
        EXACT(BOOLEAN, "false", STRING, "\"false\""),
        EXACT(BOOLEAN, "false", BOOLEAN, "false"),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(integers_keep_every_digit_or_say_so)
{
    static const struct value_case cases[] = {
        EXACT(INT32, "0", BOOLEAN, "false"),
        EXACT(INT32, "1", BOOLEAN, "true"),
        NEVER(INT32, "2", BOOLEAN, "an Edm.Int32 " NOT_01),
        NEVER(INT32, "-1", BOOLEAN, "an Edm.Int32 " NOT_01),
        EXACT(INT32, "-2147483648", INT64, "\"-2147483648\""),
        EXACT(INT32, "2147483647", DOUBLE, "2147483647.0"),
        EXACT(INT32, "-7", STRING, "\"-7\""),
        EXACT(INT32, "-0", STRING, "\"0\""),
        EXACT(INT32, "5", INT32, "5"),
        EXACT(INT64, "\"1\"", BOOLEAN, "true"),
        EXACT(INT64, "\"0\"", BOOLEAN, "false"),
        NEVER(INT64, "\"256\"", BOOLEAN, "an Edm.Int64 " NOT_01),
        NEVER(INT64, "\"4294967296\"", BOOLEAN, "an Edm.Int64 " NOT_01),
        EXACT(INT64, "\"2147483647\"", INT32, "2147483647"),
        EXACT(INT64, "\"-2147483648\"", INT32, "-2147483648"),
        NEVER(INT64, "\"2147483648\"", INT32, BEYOND("Int64", "Int32")),
        NEVER(INT64, "\"-2147483649\"", INT32, BEYOND("Int64", "Int32")),
        NEVER(INT64, "\"4294967297\"", INT32, BEYOND("Int64", "Int32")),
        EXACT(INT64, "\"-9223372036854775808\"", STRING,
            "\"-9223372036854775808\""),
        EXACT(INT64, "\"007\"", STRING, "\"7\""),
        EXACT(
            INT64, "\"9223372036854775807\"", INT64, "\"9223372036854775807\""),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(integers_beyond_a_double_are_lossy)
{
    static const char lost[] = "its last digits are lost";
    static const struct value_case cases[] = {
        EXACT(INT64, "\"9007199254740992\"", DOUBLE, "9007199254740992.0"),
        LOSSY(
            INT64, "\"9007199254740993\"", DOUBLE, "9007199254740992.0", lost),
        EXACT(INT64, "\"9007199254740994\"", DOUBLE, "9007199254740994.0"),
        LOSSY(INT64, "\"-9007199254740993\"", DOUBLE, "-9007199254740992.0",
            lost),
        EXACT(INT64, "\"-9223372036854775808\"", DOUBLE,
            "-9223372036854776000.0"),
        LOSSY(INT64, "\"-9223372036854775807\"", DOUBLE,
            "-9223372036854776000.0", lost),
        LOSSY(INT64, "\"9223372036854775807\"", DOUBLE, "9223372036854776000.0",
            lost),
        EXACT(
            INT64, "\"9223372036854774784\"", DOUBLE, "9223372036854775000.0"),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(doubles_become_integers_where_they_are)
{
    static const struct value_case cases[] = {
        EXACT(DOUBLE, "0.0", BOOLEAN, "false"),
        EXACT(DOUBLE, "1.0", BOOLEAN, "true"),
        LOSSY(DOUBLE, "-0.0", BOOLEAN, "false", SIGN),
        NEVER(DOUBLE, "0.5", BOOLEAN, "an Edm.Double " NOT_01),
        NEVER(DOUBLE, "\"NaN\"", BOOLEAN, "an Edm.Double " NOT_01),
        EXACT(DOUBLE, "5.0", INT32, "5"),
        EXACT(DOUBLE, "5", INT32, "5"),
        EXACT(DOUBLE, "1e3", INT64, "\"1000\""),
        LOSSY(DOUBLE, "4.9", INT32, "4", FRACTION),
        LOSSY(DOUBLE, "-4.9", INT64, "\"-4\"", FRACTION),
        LOSSY(DOUBLE, "-0.5", INT32, "0", FRACTION),
        LOSSY(DOUBLE, "5e-324", INT64, "\"0\"", FRACTION),
        LOSSY(DOUBLE, "-0.0", INT32, "0", SIGN),
        LOSSY(DOUBLE, "-0.0", INT64, "\"0\"", SIGN),
        EXACT(DOUBLE, "2147483647.0", INT32, "2147483647"),
        LOSSY(DOUBLE, "2147483647.5", INT32, "2147483647", FRACTION),
        LOSSY(DOUBLE, "-2147483648.5", INT32, "-2147483648", FRACTION),
        NEVER(DOUBLE, "2147483648.0", INT32, BEYOND("Double", "Int32")),
        NEVER(DOUBLE, "-2147483649.0", INT32, BEYOND("Double", "Int32")),
        NEVER(DOUBLE, "1e300", INT32, BEYOND("Double", "Int32")),
        EXACT(DOUBLE, "-9223372036854775808.0", INT64,
            "\"-9223372036854775808\""),
        NEVER(
            DOUBLE, "9223372036854775808.0", INT64, BEYOND("Double", "Int64")),
        EXACT(
            DOUBLE, "9223372036854774784.0", INT64, "\"9223372036854774784\""),
        NEVER(
            DOUBLE, "-9223372036854777856.0", INT64, BEYOND("Double", "Int64")),
        NEVER(DOUBLE, "\"NaN\"", INT32, "an Edm.Double that is not a number"),
        NEVER(DOUBLE, "\"NaN\"", INT64, "an Edm.Double that is not a number"),
        NEVER(DOUBLE, "\"Infinity\"", INT64, BEYOND("Double", "Int64")),
        NEVER(DOUBLE, "\"-Infinity\"", INT32, BEYOND("Double", "Int32")),
    };

    CHECK_ALL(cases);
}

/* As JavaScript's String(value), except for -0. */
SCRATCH_TEST(doubles_are_written_in_the_fewest_digits)
{
    static const struct value_case cases[] = {
        EXACT(DOUBLE, "0.1", STRING, "\"0.1\""),
        EXACT(DOUBLE, "0.0", STRING, "\"0\""),
        EXACT(DOUBLE, "-0.0", STRING, "\"-0\""),
        EXACT(DOUBLE, "5.0", STRING, "\"5\""),
        EXACT(DOUBLE, "-2.50", STRING, "\"-2.5\""),
        EXACT(DOUBLE, "0.30000000000000004", STRING, "\"0.30000000000000004\""),
        EXACT(DOUBLE, "123456.789", STRING, "\"123456.789\""),
        EXACT(DOUBLE, "0.000001", STRING, "\"0.000001\""),
        EXACT(DOUBLE, "0.0000001", STRING, "\"1e-7\""),
        EXACT(DOUBLE, "-0.00000123", STRING, "\"-0.00000123\""),
        EXACT(DOUBLE, "123456789012345680000.0", STRING,
            "\"123456789012345680000\""),
        EXACT(DOUBLE, "1e21", STRING, "\"1e+21\""),
        EXACT(DOUBLE, "1.5e300", STRING, "\"1.5e+300\""),
        EXACT(DOUBLE, "1e23", STRING, "\"1e+23\""),
        EXACT(DOUBLE, "9.999999999999997e22", STRING,
            "\"9.999999999999997e+22\""),
        EXACT(DOUBLE, "5e-324", STRING, "\"5e-324\""),
        EXACT(DOUBLE, "2.2250738585072014e-308", STRING,
            "\"2.2250738585072014e-308\""),
        EXACT(DOUBLE, "1.7976931348623157e308", STRING,
            "\"1.7976931348623157e+308\""),
        /* 2^-44 and 2^89: the nearest decimal with 16 digits does not read back
         * as the same Double. */
        EXACT(DOUBLE, "5.684341886080801486968994140625e-14", STRING,
            "\"5.684341886080802e-14\""),
        EXACT(DOUBLE, "618970019642690137449562112", STRING,
            "\"6.189700196426902e+26\""),
        EXACT(DOUBLE, "\"NaN\"", STRING, "\"NaN\""),
        EXACT(DOUBLE, "\"Infinity\"", STRING, "\"Infinity\""),
        EXACT(DOUBLE, "\"-Infinity\"", STRING, "\"-Infinity\""),
        EXACT(DOUBLE, "1.0", DOUBLE, "1.0"),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(times_keep_their_ticks)
{
    static const struct value_case cases[] = {
        EXACT(DATETIME, "\"2024-02-29T12:34:56.1234567Z\"", STRING,
            "\"2024-02-29T12:34:56.1234567Z\""),
        EXACT(DATETIME, "\"2024-02-29T12:34:56Z\"", STRING,
            "\"2024-02-29T12:34:56.0000000Z\""),
        EXACT(DATETIME, "\"1970-01-01T00:00:00.0000001Z\"", INT64,
            "\"621355968000000001\""),
        EXACT(DATETIME, "\"1601-01-01T00:00:00Z\"", INT64,
            "\"504911232000000000\""),
        EXACT(DATETIME, "\"9999-12-31T23:59:59.9999999Z\"", INT64,
            "\"3155378975999999999\""),
        EXACT(DATETIME, "\"2024-01-01T00:00:00Z\"", DATETIME,
            "\"2024-01-01T00:00:00Z\""),
        EXACT(INT64, "\"621355968000000001\"", DATETIME,
            "\"1970-01-01T00:00:00.0000001Z\""),
        EXACT(INT64, "\"504911232000000000\"", DATETIME,
            "\"1601-01-01T00:00:00.0000000Z\""),
        NEVER(INT64, "\"504911231999999999\"", DATETIME,
            BEYOND("Int64", "DateTime")),
        EXACT(INT64, "\"3155378975999999999\"", DATETIME,
            "\"9999-12-31T23:59:59.9999999Z\""),
        NEVER(INT64, "\"3155378976000000000\"", DATETIME,
            BEYOND("Int64", "DateTime")),
        NEVER(INT64, "\"0\"", DATETIME, BEYOND("Int64", "DateTime")),
        NEVER(INT64, "\"-1\"", DATETIME, BEYOND("Int64", "DateTime")),
        EXACT(STRING, "\"2024-01-01T00:00:00Z\"", DATETIME,
            "\"2024-01-01T00:00:00.0000000Z\""),
        EXACT(STRING, "\"2024-01-01T00:00:00.5Z\"", DATETIME,
            "\"2024-01-01T00:00:00.5000000Z\""),
        EXACT(STRING, "\"2024-01-01T00:00:00+00:00\"", DATETIME,
            "\"2024-01-01T00:00:00.0000000Z\""),
        LOSSY(STRING, "\"2024-01-01T02:00:00.0000001+02:00\"", DATETIME,
            "\"2024-01-01T00:00:00.0000001Z\"", "its offset from UTC is lost"),
        NEVER(STRING, "\"1600-12-31T23:59:59.9999999Z\"", DATETIME,
            BEYOND("String", "DateTime")),
        NEVER(STRING, "\"2024-01-01T00:00:00.12345678Z\"", DATETIME, NO_TIME),
        NEVER(STRING, "\"2023-02-29T00:00:00Z\"", DATETIME, NO_TIME),
        NEVER(STRING, "\"2024-01-01\"", DATETIME, NO_TIME),
        NEVER(STRING, "\"2024-01-01T00:00:00\"", DATETIME, NO_TIME),
        NEVER(STRING, "\" 2024-01-01T00:00:00Z\"", DATETIME, NO_TIME),
        NEVER(STRING, "\"1704067200\"", DATETIME, NO_TIME),
        NEVER(STRING, "\"\"", DATETIME, NO_TIME),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(guids_are_lower_case)
{
    static const struct value_case cases[] = {
        EXACT(GUID, "\"00112233-4455-6677-8899-AABBCCDDEEFF\"", STRING,
            "\"00112233-4455-6677-8899-aabbccddeeff\""),
        EXACT(GUID, "\"00112233-4455-6677-8899-AABBCCDDEEFF\"", GUID,
            "\"00112233-4455-6677-8899-AABBCCDDEEFF\""),
        EXACT(STRING, "\"00112233-4455-6677-8899-AabbccddeefF\"", GUID,
            "\"00112233-4455-6677-8899-aabbccddeeff\""),
        NEVER(STRING, "\"00112233445566778899aabbccddeeff\"", GUID, NO_GUID),
        NEVER(STRING, "\"{00112233-4455-6677-8899-aabbccddeeff}\"", GUID,
            NO_GUID),
        NEVER(
            STRING, "\"00112233-4455-6677-8899-aabbccddeefg\"", GUID, NO_GUID),
        NEVER(
            STRING, "\"00112233-4455-6677-8899-aabbccddeeff \"", GUID, NO_GUID),
        NEVER(STRING, "\"\"", GUID, NO_GUID),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(binary_is_base64)
{
    static const char no_base64[] = "an Edm.String that is not base64";
    static const struct value_case cases[] = {
        EXACT(BINARY, "\"\"", STRING, "\"\""),
        EXACT(BINARY, "\"AAH/\"", STRING, "\"AAH/\""),
        EXACT(BINARY, "\"AAH\\/\"", STRING, "\"AAH/\""),
        EXACT(BINARY, "\"AA==\"", BINARY, "\"AA==\""),
        EXACT(STRING, "\"\"", BINARY, "\"\""),
        EXACT(STRING, "\"AA==\"", BINARY, "\"AA==\""),
        EXACT(STRING, "\"AAH\\/\"", BINARY, "\"AAH/\""),
        NEVER(STRING, "\"AA\"", BINARY, no_base64),
        NEVER(STRING, "\"AB==\"", BINARY, no_base64),
        NEVER(STRING, "\"AA==\\n\"", BINARY, no_base64),
        NEVER(STRING, "\"AA-_\"", BINARY, no_base64),
        NEVER(STRING, "\"\\ud83d\\ude00\"", BINARY, no_base64),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(only_the_words_are_booleans)
{
    static const char neither[] =
        "an Edm.String that is neither true nor false";
    static const struct value_case cases[] = {
        EXACT(STRING, "\"true\"", BOOLEAN, "true"),
        EXACT(STRING, "\"false\"", BOOLEAN, "false"),
        EXACT(STRING, "\"True\"", BOOLEAN, "true"),
        EXACT(STRING, "\"False\"", BOOLEAN, "false"),
        EXACT(STRING, "\"\\u0074rue\"", BOOLEAN, "true"),
        NEVER(STRING, "\"TRUE\"", BOOLEAN, neither),
        NEVER(STRING, "\"1\"", BOOLEAN, neither),
        NEVER(STRING, "\"yes\"", BOOLEAN, neither),
        NEVER(STRING, "\"true \"", BOOLEAN, neither),
        NEVER(STRING, "\"true\\u0000\"", BOOLEAN, neither),
        NEVER(STRING, "\"\"", BOOLEAN, neither),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(text_to_integer_is_strict)
{
    static const struct value_case cases[] = {
        EXACT(STRING, "\"0\"", INT32, "0"),
        EXACT(STRING, "\"-5\"", INT32, "-5"),
        EXACT(STRING, "\"2147483647\"", INT32, "2147483647"),
        EXACT(STRING, "\"-2147483648\"", INT32, "-2147483648"),
        EXACT(STRING, "\"\\u0035\"", INT32, "5"),
        NEVER(STRING, "\"2147483648\"", INT32, BEYOND("String", "Int32")),
        NEVER(STRING, "\"-2147483649\"", INT32, BEYOND("String", "Int32")),
        NEVER(STRING, "\"99999999999999999999\"", INT32,
            BEYOND("String", "Int32")),
        EXACT(STRING, "\"2147483648\"", INT64, "\"2147483648\""),
        EXACT(STRING, "\"9223372036854775807\"", INT64,
            "\"9223372036854775807\""),
        EXACT(STRING, "\"-9223372036854775808\"", INT64,
            "\"-9223372036854775808\""),
        NEVER(STRING, "\"9223372036854775808\"", INT64,
            BEYOND("String", "Int64")),
        NEVER(STRING, "\"-9223372036854775809\"", INT64,
            BEYOND("String", "Int64")),
        LOSSY(STRING, "\"007\"", INT32, "7", ZEROS),
        LOSSY(STRING, "\"-007\"", INT64, "\"-7\"", ZEROS),
        LOSSY(STRING, "\"00\"", INT32, "0", ZEROS),
        LOSSY(STRING, "\"-0\"", INT32, "0", SIGN),
        LOSSY(STRING, "\"-0\"", INT64, "\"0\"", SIGN),
        NEVER(STRING, "\"\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"-\"", INT64, NO_INTEGER),
        NEVER(STRING, "\"--5\"", INT64, NO_INTEGER),
        NEVER(STRING, "\"+5\"", INT32, NO_INTEGER),
        NEVER(STRING, "\" 5\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"5 \"", INT64, NO_INTEGER),
        NEVER(STRING, "\"5\\n\"", INT64, NO_INTEGER),
        NEVER(STRING, "\"5\\u0000\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"5.0\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"1e3\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"0x10\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"1_000\"", INT64, NO_INTEGER),
        NEVER(STRING, "\"1,000\"", INT64, NO_INTEGER),
        NEVER(STRING, "\"\xd9\xa3\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"\xef\xbc\x95\"", INT64, NO_INTEGER),
        NEVER(STRING, "\"\\ud83d\\ude00\"", INT32, NO_INTEGER),
        NEVER(STRING, "\"five\"", INT32, NO_INTEGER),
    };

    CHECK_ALL(cases);
}

SCRATCH_TEST(text_to_double_is_a_json_number)
{
    static const struct value_case cases[] = {
        EXACT(STRING, "\"0\"", DOUBLE, "0.0"),
        EXACT(STRING, "\"-0\"", DOUBLE, "-0.0"),
        EXACT(STRING, "\"-0.0\"", DOUBLE, "-0.0"),
        EXACT(STRING, "\"0e5\"", DOUBLE, "0.0"),
        EXACT(STRING, "\"0.000e-99999999999999999999\"", DOUBLE, "0.0"),
        EXACT(STRING, "\"5\"", DOUBLE, "5.0"),
        EXACT(STRING, "\"4.50\"", DOUBLE, "4.5"),
        EXACT(STRING, "\"1e3\"", DOUBLE, "1000.0"),
        EXACT(STRING, "\"1E+3\"", DOUBLE, "1000.0"),
        EXACT(STRING, "\"120e-2\"", DOUBLE, "1.2"),
        EXACT(STRING, "\"0.05\"", DOUBLE, "0.05"),
        EXACT(STRING, "\"0.1\"", DOUBLE, "0.1"),
        EXACT(STRING, "\"1e23\"", DOUBLE, "1e+23"),
        EXACT(STRING, "\"5e-324\"", DOUBLE, "5e-324"),
        EXACT(STRING, "\"100000000000000000000000\"", DOUBLE, "1e+23"),
        EXACT(STRING, "\"NaN\"", DOUBLE, "\"NaN\""),
        EXACT(STRING, "\"Infinity\"", DOUBLE, "\"Infinity\""),
        EXACT(STRING, "\"-Infinity\"", DOUBLE, "\"-Infinity\""),
        LOSSY(STRING, "\"9007199254740993\"", DOUBLE, "9007199254740992.0",
            DIGITS),
        LOSSY(STRING, "\"0.10000000000000001\"", DOUBLE, "0.1", DIGITS),
        LOSSY(STRING, "\"4.9e-324\"", DOUBLE, "5e-324", DIGITS),
        LOSSY(STRING, "\"1e-400\"", DOUBLE, "0.0", DIGITS),
        LOSSY(STRING, "\"-1e-99999999999999999999\"", DOUBLE, "-0.0", DIGITS),
        LOSSY(STRING, "\"1.00000000000000000000000000001\"", DOUBLE, "1.0",
            DIGITS),
        NEVER(STRING, "\"1e400\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"-1e400\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"1e99999999999999999999\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"+5\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\" 5\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"5 \"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"5.\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\".5\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"007\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"0x10\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"1_000\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"1,5\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"1.5f\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"nan\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"inf\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"+Infinity\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"5\\u0000\"", DOUBLE, NO_NUMBER),
        NEVER(STRING, "\"\xd9\xa3\"", DOUBLE, NO_NUMBER),
        EXACT(STRING, "\"\\u0035.\\u0035\"", DOUBLE, "5.5"),
        EXACT(STRING, "\"\\ud800\"", STRING, "\"\\ud800\""),
    };

    CHECK_ALL(cases);
}

/* One value of each type, indexed by enum edm_type. */
static const char *const samples[CONVERT_TYPES] = {
    [EDM_BINARY] = "\"AAAA\"",
    [EDM_BOOLEAN] = "true",
    [EDM_DATETIME] = "\"2024-01-01T00:00:00Z\"",
    [EDM_DOUBLE] = "1.0",
    [EDM_GUID] = "\"00112233-4455-6677-8899-aabbccddeeff\"",
    [EDM_INT32] = "1",
    [EDM_INT64] = "\"1\"",
    [EDM_STRING] = "\"1\"",
};

SCRATCH_TEST(what_is_impossible_says_both_types_and_why)
{
    size_t count = 0;

    for (size_t f = 0; f < CONVERT_TYPES; f++)
        for (size_t t = 0; t < CONVERT_TYPES; t++) {
            const struct convert_way *way = convert_way(all[f], all[t]);
            struct property got,
                from = {slice_of(NAME), all[f], slice_of(samples[all[f]])};
            struct err err = {{0}};
            char expected[256];

            assert_true(way->how[0] != '\0');
            if (way->worth != CONVERT_IMPOSSIBLE)
                continue;
            snprintf(expected, sizeof(expected),
                "an %s cannot become an %s: %s", edm_type_name(all[f]),
                edm_type_name(all[t]), way->how);
            assert_int_equal(
                convert_property(&from, all[t], &scratch, &got, &err),
                CONVERT_IMPOSSIBLE);
            assert_string_equal(err.text, expected);
            count++;
        }
    assert_int_equal(count, 28);
}

SCRATCH_TEST(an_err_is_not_needed)
{
    struct property got, from = {slice_of(NAME), EDM_STRING, slice_of("\"x\"")};

    assert_int_equal(convert_property(&from, EDM_INT32, &scratch, &got, NULL),
        CONVERT_IMPOSSIBLE);
}

/* No store returns such a property, but other code may make one: it is
 * refused. */
SCRATCH_TEST(a_malformed_property_is_refused)
{
    static const struct value_case cases[] = {
        NEVER(INT32, "x", STRING, "an Edm.Int32 whose value cannot be read"),
        NEVER(DOUBLE, "x", STRING, "an Edm.Double whose value cannot be read"),
        NEVER(DATETIME, "\"now\"", STRING,
            "an Edm.DateTime whose value cannot be read"),
        NEVER(GUID, "\"7\"", STRING,
            "an Edm.Guid that is not a GUID (8-4-4-4-12 hexadecimal digits)"),
    };

    CHECK_ALL(cases);
}

/* ---- long ones ---- */

static struct property string_of(char c, size_t len)
{
    char *json = arena_alloc(&scratch, len + 3);

    memset(json, c, len + 2);
    json[0] = json[len + 1] = '"';
    return (struct property){slice_of(NAME), EDM_STRING, {json, len + 2}};
}

SCRATCH_TEST(long_texts_are_read_whole)
{
    struct property got, zeros = string_of('0', 64 * 1024),
                         nines = string_of('9', 64 * 1024);
    char *json = arena_alloc(&scratch, 70000);
    int64_t value;
    struct err err;

    assert_int_equal(convert_property(&zeros, EDM_INT64, &scratch, &got, &err),
        CONVERT_LOSSY);
    assert_true(property_int64(&got, &value) && value == 0);
    assert_int_equal(convert_property(&nines, EDM_INT64, &scratch, &got, &err),
        CONVERT_IMPOSSIBLE);
    assert_int_equal(convert_property(&nines, EDM_DOUBLE, &scratch, &got, &err),
        CONVERT_IMPOSSIBLE);
    snprintf(json, 70000, "\"0.%060000d15e60001\"", 0);
    zeros.json = slice_of(json);
    assert_int_equal(convert_property(&zeros, EDM_DOUBLE, &scratch, &got, &err),
        CONVERT_EXACT);
    assert_string_equal(got.json.at, "1.5");
}

SCRATCH_TEST(base64_longer_than_a_string_is_refused)
{
    struct property got, text = string_of('A', 32768), binary = text;
    struct err err = {{0}};

    binary.type = EDM_BINARY;
    assert_int_equal(
        convert_property(&binary, EDM_STRING, &scratch, &got, &err),
        CONVERT_EXACT);
    assert_int_equal(convert_property(&text, EDM_BINARY, &scratch, &got, &err),
        CONVERT_EXACT);
    binary = string_of('A', 32772);
    binary.type = EDM_BINARY;
    assert_int_equal(
        convert_property(&binary, EDM_STRING, &scratch, &got, &err),
        CONVERT_IMPOSSIBLE);
    assert_string_equal(err.text,
        "an Edm.Binary whose base64 is longer than an Edm.String may be");
}

/* ---- texts of the configuration ---- */

SCRATCH_TEST(a_text_becomes_a_property)
{
    static const struct {
        const char *text;
        enum edm_type to;
        const char *json; /* expected JSON; NULL: the text is refused */
        const char *said;
    } cases[] = {
        {"5", EDM_INT32, "5", NULL},
        {"5", EDM_INT64, "\"5\"", NULL},
        {"5", EDM_DOUBLE, "5.0", NULL},
        {"5", EDM_STRING, "\"5\"", NULL},
        {"", EDM_STRING, "\"\"", NULL},
        {"a \"b\"\n", EDM_STRING, "\"a \\\"b\\\"\\n\"", NULL},
        {"caf\xc3\xa9", EDM_STRING, "\"caf\xc3\xa9\"", NULL},
        {"True", EDM_BOOLEAN, "true", NULL},
        {"2024-01-01T00:00:00Z", EDM_DATETIME,
            "\"2024-01-01T00:00:00.0000000Z\"", NULL},
        {"AA==", EDM_BINARY, "\"AA==\"", NULL},
        {"00112233-4455-6677-8899-AABBCCDDEEFF", EDM_GUID,
            "\"00112233-4455-6677-8899-aabbccddeeff\"", NULL},
        {"007", EDM_INT32, NULL, ZEROS},
        {"9007199254740993", EDM_DOUBLE, NULL, DIGITS},
        {"2024-01-01T00:00:00+01:00", EDM_DATETIME, NULL,
            "its offset from UTC is lost"},
        {"x", EDM_INT64, NULL, NO_INTEGER},
        {"\xff", EDM_STRING, NULL, "an Edm.String that is not UTF-8"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct property got = {slice_of("old"), EDM_GUID, slice_of("old")};
        struct err err = {{0}};
        enum tw_err code = convert_text(slice_of(NAME), slice_of(cases[i].text),
            cases[i].to, &scratch, &got, &err);

        print_message("%s\n", cases[i].text);
        if (cases[i].json == NULL) {
            assert_int_equal(code, TW_INVALID);
            assert_string_equal(err.text, cases[i].said);
            assert_true(slice_is(got.json, "old"));
            continue;
        }
        assert_ok(code);
        assert_true(slice_is(got.name, NAME));
        assert_int_equal(got.type, cases[i].to);
        assert_true(slice_is(got.json, cases[i].json));
    }
}

/* ---- any value ---- */

#define ROUNDS 20000

static uint64_t seed;

/* Marsaglia's xorshift64. */
static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t below(uint64_t n)
{
    return draw() % n;
}

/* Integers of any length in bits, many near powers of two. */
static int64_t draw_integer(unsigned bits)
{
    uint64_t value = draw() >> (64 - 1 - below(bits));

    if (below(4) == 0)
        value = (UINT64_C(1) << below(bits)) + below(5) - 2;
    return (int64_t)(below(2) ? value : -value);
}

/* A double of random bits, or with few digits, or a whole number, or a power of
 * two. */
static double draw_double(void)
{
    uint64_t bits = draw();
    double value;

    switch (below(4)) {
    case 0:
        return (double)draw_integer(63);
    case 1:
        return (double)draw_integer(20) / pow(10, (double)below(8));
    case 2:
        return ldexp(1, (int)below(2098) - 1074);
    default:
        memcpy(&value, &bits, sizeof(value));
        return value;
    }
}

static struct slice draw_base64(void)
{
    char bytes[64];
    struct slice some = {bytes, (size_t)below(sizeof(bytes))}, text;
    struct buf to;

    for (size_t i = 0; i < some.len; i++)
        bytes[i] = (char)draw();
    buf_init(&to, 128);
    crypto_base64(&to, some);
    text = arena_copy(&scratch, buf_slice(&to));
    buf_done(&to);
    return text;
}

static struct slice draw_guid(void)
{
    uint64_t high = draw(), low = draw();

    return arena_format(&scratch, "%08x-%04x-%04x-%04X-%012llx",
        (unsigned)(high >> 32), (unsigned)(high >> 16 & 0xffff),
        (unsigned)(high & 0xffff), (unsigned)(low >> 48),
        (unsigned long long)(low & 0xffffffffffff));
}

static int64_t draw_ticks(void)
{
    return TICKS_1601 + (int64_t)below((uint64_t)(TICKS_MAX - TICKS_1601) + 1);
}

static struct property draw_property(enum edm_type type);

/* The text of a value of another type, sometimes with a small mistake. */
static struct slice draw_text(void)
{
    static const char odd[] = "0123456789+-. eExXTZ:_aftrue";
    struct property other = draw_property(all[below(CONVERT_TYPES - 1)]);
    struct slice text = other.json;
    char *changed;

    if (text.len > 1 && text.at[0] == '"')
        text = (struct slice){text.at + 1, text.len - 2};
    text = arena_copy(&scratch, text);
    if (text.len == 0 || below(2) == 0)
        return text;
    changed = arena_alloc(&scratch, text.len + 1);
    memcpy(changed, text.at, text.len);
    changed[below(text.len)] = odd[below(sizeof(odd) - 1)];
    return (struct slice){changed, text.len};
}

static struct property draw_property(enum edm_type type)
{
    struct entity entity;

    entity_init(&entity, &scratch, slice_of("p"), slice_of("r"));
    switch (type) {
    case EDM_BOOLEAN:
        entity_set_boolean(&entity, &scratch, NAME, below(2));
        break;
    case EDM_DATETIME:
        entity_set_datetime(&entity, &scratch, NAME, draw_ticks());
        break;
    case EDM_DOUBLE:
        entity_set_double(&entity, &scratch, NAME, draw_double());
        break;
    case EDM_INT32:
        entity_set_int32(&entity, &scratch, NAME, (int32_t)draw_integer(31));
        break;
    case EDM_INT64:
        entity_set_int64(&entity, &scratch, NAME,
            below(2) ? draw_integer(63) : draw_ticks());
        break;
    case EDM_BINARY:
    case EDM_GUID:
    case EDM_STRING:
        entity_set_string(&entity, &scratch, NAME,
            type == EDM_STRING ? draw_text()
            : type == EDM_GUID ? draw_guid()
                               : draw_base64());
        entity.properties[0].type = type;
        break;
    }
    return entity.properties[0];
}

/* The store must read the same value from the JSON of property. */
static void assert_stored(const struct property *property)
{
    struct entity entity = {.property_count = 1}, read;
    struct property copy = *property;
    struct buf json;
    struct err err;

    entity.properties = &copy;
    buf_init(&json, 100000);
    entity_write_properties(&entity, &json);
    if (entity_parse(buf_slice(&json), false, &scratch, &read, NULL, &err) !=
        TW_OK)
        fail_msg("%s: %s", buf_text(&json), err.text);
    assert_int_equal(read.property_count, 1);
    assert_true(property_equal(&read.properties[0], property));
    buf_done(&json);
}

/* A text may come back in another spelling with the same meaning. */
static void assert_comes_back(
    const struct property *from, const struct property *there)
{
    struct property back, again;
    struct err err;

    assert_int_equal(convert_property(there, from->type, &scratch, &back, &err),
        CONVERT_EXACT);
    if (from->type == EDM_STRING) {
        assert_int_equal(
            convert_property(&back, there->type, &scratch, &again, &err),
            CONVERT_EXACT);
        assert_true(property_equal(there, &again));
    } else {
        assert_true(property_equal(from, &back));
    }
}

/* After a lossy conversion another value comes back. */
static void assert_is_lost(
    const struct property *from, const struct property *there)
{
    struct property back;
    struct err err;

    if (convert_property(there, from->type, &scratch, &back, &err) ==
        CONVERT_EXACT)
        assert_false(property_equal(from, &back));
}

/* *ret: the worth of the conversion. */
static enum convert_worth go_there_and_back(
    const struct property *from, enum edm_type to)
{
    struct property there;
    struct err err = {{0}};
    enum convert_worth worth =
        convert_property(from, to, &scratch, &there, &err);

    assert_int_equal(worth == CONVERT_EXACT, err.text[0] == '\0');
    if (worth == CONVERT_IMPOSSIBLE)
        return worth;
    assert_int_equal(there.type, to);
    assert_stored(&there);
    if (worth == CONVERT_EXACT)
        assert_comes_back(from, &there);
    else
        assert_is_lost(from, &there);
    return worth;
}

/* The table is right: a conversion marked as exact loses nothing, one marked as
 * lossy loses something of some values. */
SCRATCH_TEST(what_is_exact_comes_back_the_same)
{
    const char *wanted = getenv("CONVERT_SEED");
    size_t seen[CONVERT_TYPES][CONVERT_TYPES][3] = {0};

    seed = wanted ? strtoull(wanted, NULL, 10) : (uint64_t)time(NULL);
    print_message("CONVERT_SEED=%llu\n", (unsigned long long)seed);
    seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (size_t round = 0; round < ROUNDS; round++) {
        enum edm_type f = all[round % CONVERT_TYPES];
        struct property from = draw_property(f);

        for (size_t t = 0; t < CONVERT_TYPES; t++)
            seen[f][t][go_there_and_back(&from, all[t])]++;
        arena_clear(&scratch);
    }
    for (size_t f = 0; f < CONVERT_TYPES; f++)
        for (size_t t = 0; t < CONVERT_TYPES; t++) {
            enum convert_worth worth = convert_way(all[f], all[t])->worth;

            assert_int_equal(
                seen[f][t][CONVERT_EXACT] > 0, worth != CONVERT_IMPOSSIBLE);
            if (worth != CONVERT_LOSSY)
                assert_int_equal(seen[f][t][CONVERT_LOSSY], 0);
        }
}

/* The number of digits without leading and trailing zeros. */
static int significant_digits(struct slice text)
{
    int count = 0, last = 0;

    for (size_t i = 0; i < text.len && text.at[i] != 'e'; i++) {
        char c = text.at[i];

        if (c < '0' || c > '9' || (count == 0 && c == '0'))
            continue;
        count++;
        if (c != '0')
            last = count;
    }
    return last;
}

SCRATCH_TEST(no_double_has_a_digit_too_many)
{
    seed = 20;
    for (size_t round = 0; round < ROUNDS; round++) {
        struct property got, from = draw_property(EDM_DOUBLE);
        struct err err;
        char fewer[40];
        double value;
        int digits;

        assert_true(property_double(&from, &value));
        assert_int_equal(
            convert_property(&from, EDM_STRING, &scratch, &got, &err),
            CONVERT_EXACT);
        digits = significant_digits(got.json);
        if (isfinite(value) && digits > 1) {
            snprintf(fewer, sizeof(fewer), "%.*e", digits - 2, value);
            assert_true(strtod(fewer, NULL) != value);
        }
        arena_clear(&scratch);
    }
}

/* ---- one value, one text ---- */

SCRATCH_TEST(every_spelling_becomes_the_same_text)
{
    static const struct value_case cases[] = {
        EXACT(DOUBLE, "1", STRING, "\"1\""),
        EXACT(DOUBLE, "1.0", STRING, "\"1\""),
        EXACT(DOUBLE, "1e0", STRING, "\"1\""),
        EXACT(DOUBLE, "10E-1", STRING, "\"1\""),
        EXACT(DOUBLE, "-0", STRING, "\"-0\""),
        EXACT(DOUBLE, "-0.0", STRING, "\"-0\""),
        EXACT(DATETIME, "\"2024-01-01T00:00:00Z\"", STRING,
            "\"2024-01-01T00:00:00.0000000Z\""),
        EXACT(DATETIME, "\"2024-01-01T00:00:00.000Z\"", STRING,
            "\"2024-01-01T00:00:00.0000000Z\""),
        EXACT(STRING, "\"2024-01-01T00:00:00+00:00\"", DATETIME,
            "\"2024-01-01T00:00:00.0000000Z\""),
        EXACT(GUID, "\"C9DA6455-213D-42C9-9A79-3E9149A57833\"", STRING,
            "\"c9da6455-213d-42c9-9a79-3e9149a57833\""),
        EXACT(GUID, "\"c9da6455-213d-42c9-9a79-3e9149a57833\"", STRING,
            "\"c9da6455-213d-42c9-9a79-3e9149a57833\""),
        EXACT(INT64, "\"007\"", STRING, "\"7\""),
        EXACT(INT64, "\"-0\"", STRING, "\"0\""),
    };

    CHECK_ALL(cases);
}

/* As the steps add and set do: a template renders the Double, and the text is
 * converted to a Double. */
SCRATCH_TEST(a_double_by_way_of_a_template_keeps_all_its_bits)
{
    static const char *const doubles[] = {"1", "1.0", "-0.0", "-0", "0", "5e-1",
        "0.1000000000000000055511151231257827", "1.7976931348623157E+308",
        "4.9E-324", "2.2250738585072014E-308", "9007199254740993",
        "123456789012345678", "0.30000000000000004", "-1.2345678901234567",
        "\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    static const struct template_scope scope = {.has_entity = true};
    struct problems problems;
    const struct template *template;

    problems_init(&problems);
    template = template_compile(slice_of("{D}"),
        (struct mark){"tableward.yaml", 1, 1}, &scope, &scratch, &problems);
    assert_non_null(template);
    for (size_t i = 0; TEST_EACH(i, doubles); i++) {
        struct property from = {slice_of("D"), EDM_DOUBLE,
                            slice_of(doubles[i])},
                        got;
        struct entity entity = {.properties = &from, .property_count = 1};
        struct err err = {{0}};
        struct buf text;

        buf_init(&text, 64);
        assert_ok(template_render(template, NULL, &entity, &text, &err));
        if (convert_text(slice_of("D"), buf_slice(&text), EDM_DOUBLE, &scratch,
                &got, &err) != TW_OK)
            fail_msg("%s: %s", doubles[i], err.text);
        if (!property_equal(&from, &got))
            fail_msg("%s became %.*s", doubles[i], SLICE_ARG(got.json));
        buf_done(&text);
    }
    problems_done(&problems);
}

/* ---- the table for people ---- */

/* The text of jobs/conversions.md, in scratch. */
static const char *read_document(void)
{
    const char *source = getenv("TABLEWARD_SOURCE");
    char *text = arena_alloc(&scratch, 64 * 1024);
    struct slice path =
        arena_format(&scratch, "%s/jobs/conversions.md", source ? source : ".");
    FILE *file = fopen(path.at, "re");
    size_t len;

    if (file == NULL)
        fail_msg("%s cannot be read", path.at);
    len = fread(text, 1, 64 * 1024 - 1, file);
    assert_true(len > 0 && len < 64 * 1024 - 1);
    fclose(file);
    return text;
}

/* "Int64" of "Edm.Int64". */
static const char *short_name(enum edm_type type)
{
    return edm_type_name(type) + strlen("Edm.");
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

/* The table has a row and a column for each type, in the order of enum
 * edm_type. */
SCRATCH_TEST(the_document_has_the_table_of_the_code)
{
    const char *document = read_document();
    struct buf table;

    buf_init(&table, 4096);
    buf_add_text(&table, "\n| from \\ to |");
    for (size_t t = 0; t < CONVERT_TYPES; t++)
        buf_add_format(&table, " %s |", short_name(all[t]));
    buf_add_text(&table, "\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t f = 0; f < CONVERT_TYPES; f++) {
        buf_add_format(&table, "| %s |", short_name(all[f]));
        for (size_t t = 0; t < CONVERT_TYPES; t++)
            buf_add_format(
                &table, " %s |", worths[convert_way(all[f], all[t])->worth]);
        buf_add_char(&table, '\n');
    }
    if (strstr(document, buf_text(&table)) == NULL)
        fail_msg(
            "jobs/conversions.md must have this table:%s", buf_text(&table));
    buf_done(&table);
}

/* Each conversion is listed under the heading of its worth, and nowhere
 * else. */
SCRATCH_TEST(the_document_says_of_every_way_how_or_why_not)
{
    const char *document = read_document();
    const char *never =
        strstr(document, "\n## The conversions that do not exist\n");

    assert_non_null(never);
    for (size_t f = 0; f < CONVERT_TYPES; f++)
        for (size_t t = 0; t < CONVERT_TYPES; t++) {
            const struct convert_way *way = convert_way(all[f], all[t]);
            struct slice begin = arena_format(&scratch, "\n| %s | %s | ",
                             short_name(all[f]), short_name(all[t])),
                         line = arena_format(
                             &scratch, "%s%s |\n", begin.at, way->how);
            const char *at = strstr(document, line.at);

            if (f == t) {
                assert_int_equal(count_of(document, begin.at), 0);
                continue;
            }
            if (at == NULL)
                fail_msg("jobs/conversions.md must say:%s", line.at);
            assert_int_equal(count_of(document, begin.at), 1);
            assert_int_equal(at > never, way->worth == CONVERT_IMPOSSIBLE);
        }
}
