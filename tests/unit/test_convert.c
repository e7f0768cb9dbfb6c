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

#include "jobs/engine/convert.h"
#include "tests/support/quotes.h"
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

static const char FRACTION[] = "its fraction is lost";
static const char ZEROS[] = "its leading zeros are lost";
static const char SIGN[] = "the sign of its zero is lost";
static const char DIGITS[] = "some of its digits are lost";
static const char OFFSET[] = "its offset from UTC is lost";
#define NOT_01 "that is neither 0 nor 1"
static const char NO_INTEGER[] = "an Edm.String that is not an integer";
static const char NO_NUMBER[] =
    "an Edm.String that is not a number, or not in the range of an Edm.Double";
static const char NO_TIME[] =
    "an Edm.String that is not a time such as 2024-01-01T00:00:00Z";
static const char NO_GUID[] =
    "an Edm.String that is not a GUID (8-4-4-4-12 hexadecimal digits)";
static const char NO_BASE64[] = "an Edm.String that is not base64";
static const char NO_WORD[] = "an Edm.String that is neither true nor false";
#define BEYOND(from, to) "an Edm." from " beyond the range of an Edm." to

/* A value and what it becomes, as JSON with single quotes. */
struct value {
    const char *json, *becomes;
};

/* Converts the values; fails unless each becomes its `becomes`. said: what the
 * conversion loses, "" for an exact one. */
static void convert_all(enum edm_type from, enum edm_type to,
    const struct value *values, size_t count, const char *said)
{
    for (size_t i = 0; i < count; i++) {
        struct property property = {slice_of(NAME), from,
                            slice_of(quoted(&scratch, values[i].json))},
                        got;
        struct err err = {{0}};
        enum convert_worth worth =
            convert_property(&property, to, &scratch, &got, &err);

        test_case("%s %s to %s", edm_type_name(from), values[i].json,
            edm_type_name(to));
        assert_string_equal(worths[worth], said[0] ? "lossy" : "exact");
        assert_string_equal(err.text, said);
        assert_true(slice_is(got.name, NAME));
        assert_int_equal(got.type, to);
        assert_string_equal(arena_copy(&scratch, got.json).at,
            quoted(&scratch, values[i].becomes));
    }
}

static void refuse_all(enum edm_type from, enum edm_type to,
    const char *const *values, size_t count, const char *said)
{
    for (size_t i = 0; i < count; i++) {
        const struct property before = {
            slice_of("-"), EDM_BINARY, slice_of("-")};
        struct property property = {
            slice_of(NAME), from, slice_of(quoted(&scratch, values[i]))};
        struct property got = before;
        struct err err = {{0}};

        test_case(
            "%s %s to %s", edm_type_name(from), values[i], edm_type_name(to));
        assert_int_equal(convert_property(&property, to, &scratch, &got, &err),
            CONVERT_IMPOSSIBLE);
        assert_string_equal(err.text, said);
        assert_memory_equal(&got, &before, sizeof(got));
    }
}

/* EXACT: converts values without a loss. LOSSY: said names what is lost. NEVER:
 * said is the reason why such values cannot be converted. */
#define LOSSY(said, from, to, ...)                                             \
    do {                                                                       \
        static const struct value values[] = {__VA_ARGS__};                    \
        convert_all(EDM_##from, EDM_##to, values, COUNT(values), said);        \
    } while (0)
#define EXACT(from, to, ...) LOSSY("", from, to, __VA_ARGS__)
#define NEVER(said, from, to, ...)                                             \
    do {                                                                       \
        static const char *const values[] = {__VA_ARGS__};                     \
        refuse_all(EDM_##from, EDM_##to, values, COUNT(values), said);         \
    } while (0)

SCRATCH_TEST(integers_keep_every_digit_or_say_so)
{
    EXACT(INT32, BOOLEAN, {"0", "false"}, {"1", "true"});
    NEVER("an Edm.Int32 " NOT_01, INT32, BOOLEAN, "2", "-1");
    EXACT(INT32, INT64, {"-2147483648", "'-2147483648'"});
    EXACT(INT32, DOUBLE, {"2147483647", "2147483647.0"});
    EXACT(INT32, STRING, {"-7", "'-7'"}, {"-0", "'0'"});
    EXACT(INT32, INT32, {"5", "5"});
    EXACT(INT64, BOOLEAN, {"'1'", "true"}, {"'0'", "false"});
    NEVER("an Edm.Int64 " NOT_01, INT64, BOOLEAN, "'256'", "'4294967296'");
    EXACT(INT64, INT32, {"'2147483647'", "2147483647"},
        {"'-2147483648'", "-2147483648"});
    NEVER(BEYOND("Int64", "Int32"), INT64, INT32, "'2147483648'",
        "'-2147483649'", "'4294967297'");
    EXACT(INT64, STRING, {"'-9223372036854775808'", "'-9223372036854775808'"},
        {"'007'", "'7'"}, {"'-0'", "'0'"});
    EXACT(INT64, INT64, {"'9223372036854775807'", "'9223372036854775807'"});
}

SCRATCH_TEST(integers_beyond_a_double_are_lossy)
{
    EXACT(INT64, DOUBLE, {"'9007199254740992'", "9007199254740992.0"},
        {"'9007199254740994'", "9007199254740994.0"},
        {"'-9223372036854775808'", "-9223372036854776000.0"},
        {"'9223372036854774784'", "9223372036854775000.0"});
    LOSSY("its last digits are lost", INT64, DOUBLE,
        {"'9007199254740993'", "9007199254740992.0"},
        {"'-9007199254740993'", "-9007199254740992.0"},
        {"'-9223372036854775807'", "-9223372036854776000.0"},
        {"'9223372036854775807'", "9223372036854776000.0"});
}

SCRATCH_TEST(doubles_become_integers_where_they_are)
{
    EXACT(DOUBLE, BOOLEAN, {"0.0", "false"}, {"1.0", "true"});
    LOSSY(SIGN, DOUBLE, BOOLEAN, {"-0.0", "false"});
    NEVER("an Edm.Double " NOT_01, DOUBLE, BOOLEAN, "0.5", "'NaN'");
    EXACT(DOUBLE, INT32, {"5.0", "5"}, {"5", "5"},
        {"2147483647.0", "2147483647"});
    LOSSY(FRACTION, DOUBLE, INT32, {"4.9", "4"}, {"-0.5", "0"},
        {"2147483647.5", "2147483647"}, {"-2147483648.5", "-2147483648"});
    LOSSY(SIGN, DOUBLE, INT32, {"-0.0", "0"});
    NEVER(BEYOND("Double", "Int32"), DOUBLE, INT32, "2147483648.0",
        "-2147483649.0", "1e300", "'-Infinity'");
    EXACT(DOUBLE, INT64, {"1e3", "'1000'"},
        {"-9223372036854775808.0", "'-9223372036854775808'"},
        {"9223372036854774784.0", "'9223372036854774784'"});
    LOSSY(FRACTION, DOUBLE, INT64, {"-4.9", "'-4'"}, {"5e-324", "'0'"});
    LOSSY(SIGN, DOUBLE, INT64, {"-0.0", "'0'"});
    NEVER(BEYOND("Double", "Int64"), DOUBLE, INT64, "9223372036854775808.0",
        "-9223372036854777856.0", "'Infinity'");
    NEVER("an Edm.Double that is not a number", DOUBLE, INT32, "'NaN'");
    NEVER("an Edm.Double that is not a number", DOUBLE, INT64, "'NaN'");
}

/* Doubles are written as by JavaScript's String(value), except for -0. Every
 * spelling of a Double becomes the same text. */
SCRATCH_TEST(doubles_are_written_in_the_fewest_digits)
{
    EXACT(DOUBLE, STRING, {"0.1", "'0.1'"}, {"0.0", "'0'"}, {"-0", "'-0'"},
        {"-0.0", "'-0'"}, {"1", "'1'"}, {"1.0", "'1'"}, {"1e0", "'1'"},
        {"10E-1", "'1'"}, {"5.0", "'5'"}, {"-2.50", "'-2.5'"},
        {"0.30000000000000004", "'0.30000000000000004'"},
        {"123456.789", "'123456.789'"}, {"0.000001", "'0.000001'"},
        {"0.0000001", "'1e-7'"}, {"-0.00000123", "'-0.00000123'"},
        {"123456789012345680000.0", "'123456789012345680000'"},
        {"1e21", "'1e+21'"}, {"1.5e300", "'1.5e+300'"}, {"1e23", "'1e+23'"},
        {"9.999999999999997e22", "'9.999999999999997e+22'"},
        {"5e-324", "'5e-324'"},
        {"2.2250738585072014e-308", "'2.2250738585072014e-308'"},
        {"1.7976931348623157e308", "'1.7976931348623157e+308'"},
        /* 2^-44 and 2^89: the nearest decimal with 16 digits does not read back
         * as the same Double. */
        {"5.684341886080801486968994140625e-14", "'5.684341886080802e-14'"},
        {"618970019642690137449562112", "'6.189700196426902e+26'"},
        {"'NaN'", "'NaN'"}, {"'Infinity'", "'Infinity'"},
        {"'-Infinity'", "'-Infinity'"});
    EXACT(DOUBLE, DOUBLE, {"1.0", "1.0"});
}

SCRATCH_TEST(times_keep_their_ticks)
{
    EXACT(DATETIME, STRING,
        {"'2024-02-29T12:34:56.1234567Z'", "'2024-02-29T12:34:56.1234567Z'"},
        {"'2024-02-29T12:34:56Z'", "'2024-02-29T12:34:56.0000000Z'"},
        {"'2024-01-01T00:00:00.000Z'", "'2024-01-01T00:00:00.0000000Z'"});
    EXACT(DATETIME, INT64,
        {"'1970-01-01T00:00:00.0000001Z'", "'621355968000000001'"},
        {"'1601-01-01T00:00:00Z'", "'504911232000000000'"},
        {"'9999-12-31T23:59:59.9999999Z'", "'3155378975999999999'"});
    EXACT(DATETIME, DATETIME,
        {"'2024-01-01T00:00:00Z'", "'2024-01-01T00:00:00Z'"});
    EXACT(INT64, DATETIME,
        {"'621355968000000001'", "'1970-01-01T00:00:00.0000001Z'"},
        {"'504911232000000000'", "'1601-01-01T00:00:00.0000000Z'"},
        {"'3155378975999999999'", "'9999-12-31T23:59:59.9999999Z'"});
    NEVER(BEYOND("Int64", "DateTime"), INT64, DATETIME, "'504911231999999999'",
        "'3155378976000000000'", "'0'", "'-1'");
    EXACT(STRING, DATETIME,
        {"'2024-01-01T00:00:00Z'", "'2024-01-01T00:00:00.0000000Z'"},
        {"'2024-01-01T00:00:00.5Z'", "'2024-01-01T00:00:00.5000000Z'"},
        {"'2024-01-01T00:00:00+00:00'", "'2024-01-01T00:00:00.0000000Z'"});
    LOSSY(OFFSET, STRING, DATETIME,
        {"'2024-01-01T02:00:00.0000001+02:00'",
            "'2024-01-01T00:00:00.0000001Z'"});
    NEVER(BEYOND("String", "DateTime"), STRING, DATETIME,
        "'1600-12-31T23:59:59.9999999Z'");
    NEVER(NO_TIME, STRING, DATETIME, "'2024-01-01T00:00:00.12345678Z'",
        "'2023-02-29T00:00:00Z'", "'2024-01-01'", "'2024-01-01T00:00:00'",
        "' 2024-01-01T00:00:00Z'", "'1704067200'", "''");
}

SCRATCH_TEST(guids_are_lower_case)
{
    EXACT(GUID, STRING,
        {"'00112233-4455-6677-8899-AABBCCDDEEFF'",
            "'00112233-4455-6677-8899-aabbccddeeff'"},
        {"'c9da6455-213d-42c9-9a79-3e9149a57833'",
            "'c9da6455-213d-42c9-9a79-3e9149a57833'"});
    EXACT(GUID, GUID,
        {"'00112233-4455-6677-8899-AABBCCDDEEFF'",
            "'00112233-4455-6677-8899-AABBCCDDEEFF'"});
    EXACT(STRING, GUID,
        {"'00112233-4455-6677-8899-AabbccddeefF'",
            "'00112233-4455-6677-8899-aabbccddeeff'"});
    NEVER(NO_GUID, STRING, GUID, "'00112233445566778899aabbccddeeff'",
        "'{00112233-4455-6677-8899-aabbccddeeff}'",
        "'00112233-4455-6677-8899-aabbccddeefg'",
        "'00112233-4455-6677-8899-aabbccddeeff '", "''");
}

SCRATCH_TEST(binary_is_base64)
{
    EXACT(BINARY, STRING, {"''", "''"}, {"'AAH/'", "'AAH/'"},
        {"'AAH\\/'", "'AAH/'"});
    EXACT(BINARY, BINARY, {"'AA=='", "'AA=='"});
    EXACT(STRING, BINARY, {"''", "''"}, {"'AA=='", "'AA=='"},
        {"'AAH\\/'", "'AAH/'"});
    NEVER(NO_BASE64, STRING, BINARY, "'AA'", "'AB=='", "'AA==\\n'", "'AA-_'",
        "'\\ud83d\\ude00'");
}

SCRATCH_TEST(only_the_words_are_booleans)
{
    EXACT(BOOLEAN, STRING, {"true", "'true'"}, {"false", "'false'"});
    EXACT(BOOLEAN, BOOLEAN, {"false", "false"});
    EXACT(STRING, BOOLEAN, {"'true'", "true"}, {"'false'", "false"},
        {"'True'", "true"}, {"'False'", "false"}, {"'\\u0074rue'", "true"});
    NEVER(NO_WORD, STRING, BOOLEAN, "'TRUE'", "'1'", "'yes'", "'true '",
        "'true\\u0000'", "''");
}

SCRATCH_TEST(text_to_integer_is_strict)
{
    EXACT(STRING, INT32, {"'0'", "0"}, {"'-5'", "-5"},
        {"'2147483647'", "2147483647"}, {"'-2147483648'", "-2147483648"},
        {"'\\u0035'", "5"});
    NEVER(BEYOND("String", "Int32"), STRING, INT32, "'2147483648'",
        "'-2147483649'", "'99999999999999999999'");
    EXACT(STRING, INT64, {"'2147483648'", "'2147483648'"},
        {"'9223372036854775807'", "'9223372036854775807'"},
        {"'-9223372036854775808'", "'-9223372036854775808'"});
    NEVER(BEYOND("String", "Int64"), STRING, INT64, "'9223372036854775808'",
        "'-9223372036854775809'");
    LOSSY(ZEROS, STRING, INT32, {"'007'", "7"}, {"'00'", "0"});
    LOSSY(ZEROS, STRING, INT64, {"'-007'", "'-7'"});
    LOSSY(SIGN, STRING, INT32, {"'-0'", "0"});
    LOSSY(SIGN, STRING, INT64, {"'-0'", "'0'"});
    NEVER(NO_INTEGER, STRING, INT32, "''", "'+5'", "' 5'", "'5\\u0000'",
        "'5.0'", "'1e3'", "'0x10'", "'\xd9\xa3'", "'\\ud83d\\ude00'", "'five'");
    NEVER(NO_INTEGER, STRING, INT64, "'-'", "'--5'", "'5 '", "'5\\n'",
        "'1_000'", "'1,000'", "'\xef\xbc\x95'");
}

SCRATCH_TEST(text_to_double_is_a_json_number)
{
    EXACT(STRING, DOUBLE, {"'0'", "0.0"}, {"'-0'", "-0.0"}, {"'-0.0'", "-0.0"},
        {"'0e5'", "0.0"}, {"'0.000e-99999999999999999999'", "0.0"},
        {"'5'", "5.0"}, {"'4.50'", "4.5"}, {"'1e3'", "1000.0"},
        {"'1E+3'", "1000.0"}, {"'120e-2'", "1.2"}, {"'0.05'", "0.05"},
        {"'0.1'", "0.1"}, {"'1e23'", "1e+23"}, {"'5e-324'", "5e-324"},
        {"'100000000000000000000000'", "1e+23"}, {"'NaN'", "'NaN'"},
        {"'Infinity'", "'Infinity'"}, {"'-Infinity'", "'-Infinity'"},
        {"'\\u0035.\\u0035'", "5.5"});
    LOSSY(DIGITS, STRING, DOUBLE, {"'9007199254740993'", "9007199254740992.0"},
        {"'0.10000000000000001'", "0.1"}, {"'4.9e-324'", "5e-324"},
        {"'1e-400'", "0.0"}, {"'-1e-99999999999999999999'", "-0.0"},
        {"'1.00000000000000000000000000001'", "1.0"});
    NEVER(NO_NUMBER, STRING, DOUBLE, "'1e400'", "'-1e400'",
        "'1e99999999999999999999'", "''", "'+5'", "' 5'", "'5 '", "'5.'",
        "'.5'", "'007'", "'0x10'", "'1_000'", "'1,5'", "'1.5f'", "'nan'",
        "'inf'", "'+Infinity'", "'5\\u0000'", "'\xd9\xa3'");
    EXACT(STRING, STRING, {"'\\ud800'", "'\\ud800'"});
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
            struct slice expected =
                arena_format(&scratch, "an %s cannot become an %s: %s",
                    edm_type_name(all[f]), edm_type_name(all[t]), way->how);

            assert_true(way->how[0] != '\0');
            if (way->worth != CONVERT_IMPOSSIBLE)
                continue;
            refuse_all(all[f], all[t], &samples[all[f]], 1, expected.at);
            count++;
        }
    assert_int_equal(count, 28);
}

/* No store returns such a property. If other code makes one, it is refused. */
SCRATCH_TEST(a_malformed_property_is_refused)
{
    NEVER("an Edm.Int32 whose value cannot be read", INT32, STRING, "x");
    NEVER("an Edm.Double whose value cannot be read", DOUBLE, STRING, "x");
    NEVER("an Edm.DateTime whose value cannot be read", DATETIME, STRING,
        "'now'");
    NEVER("an Edm.Guid that is not a GUID (8-4-4-4-12 hexadecimal digits)",
        GUID, STRING, "'7'");
}

/* ---- long values ---- */

static struct property long_one(enum edm_type type, char c, size_t len)
{
    char *json = arena_alloc(&scratch, len + 3);

    memset(json, c, len + 2);
    json[0] = json[len + 1] = '"';
    return (struct property){slice_of(NAME), type, {json, len + 2}};
}

/* Converts `from` to *ret; fails unless the worth of the conversion is
 * `worth`. */
static void converts(const struct property *from, enum edm_type to,
    enum convert_worth worth, struct property *ret)
{
    struct err err;

    assert_int_equal(convert_property(from, to, &scratch, ret, &err), worth);
}

SCRATCH_TEST(long_texts_are_read_whole)
{
    struct property got, zeros = long_one(EDM_STRING, '0', 64 * 1024),
                         nines = long_one(EDM_STRING, '9', 64 * 1024);
    int64_t value;

    converts(&zeros, EDM_INT64, CONVERT_LOSSY, &got);
    assert_true(property_int64(&got, &value) && value == 0);
    converts(&nines, EDM_INT64, CONVERT_IMPOSSIBLE, &got);
    converts(&nines, EDM_DOUBLE, CONVERT_IMPOSSIBLE, &got);
    zeros.json = arena_format(&scratch, "\"0.%060000d15e60001\"", 0);
    converts(&zeros, EDM_DOUBLE, CONVERT_EXACT, &got);
    assert_string_equal(got.json.at, "1.5");
}

SCRATCH_TEST(base64_longer_than_a_string_is_refused)
{
    struct property got, text = long_one(EDM_STRING, 'A', 32768),
                         binary = long_one(EDM_BINARY, 'A', 32768),
                         longer = long_one(EDM_BINARY, 'A', 32772);
    struct err err;

    converts(&binary, EDM_STRING, CONVERT_EXACT, &got);
    converts(&text, EDM_BINARY, CONVERT_EXACT, &got);
    assert_int_equal(
        convert_property(&longer, EDM_STRING, &scratch, &got, &err),
        CONVERT_IMPOSSIBLE);
    assert_string_equal(err.text,
        "an Edm.Binary whose base64 is longer than an Edm.String may be");
}

/* ---- texts of the configuration ---- */

SCRATCH_TEST(a_text_becomes_a_property_without_any_loss)
{
    static const struct {
        const char *text;
        enum edm_type to;
        const char *json, *refused;
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
        {"2024-01-01T00:00:00+01:00", EDM_DATETIME, NULL, OFFSET},
        {"x", EDM_INT64, NULL, NO_INTEGER},
        {"\xff", EDM_STRING, NULL, "an Edm.String that is not UTF-8"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const char *refused = cases[i].refused;
        struct property got = {slice_of("old"), EDM_GUID, slice_of("old")};
        struct err err = {{0}};

        assert_int_equal(convert_text(slice_of(NAME), slice_of(cases[i].text),
                             cases[i].to, &scratch, &got, &err),
            refused ? TW_INVALID : TW_OK);
        assert_string_equal(err.text, refused ? refused : "");
        assert_true(slice_is(got.json, refused ? "old" : cases[i].json));
        assert_true(slice_is(got.name, refused ? "old" : NAME));
        assert_int_equal(got.type, refused ? EDM_GUID : cases[i].to);
    }
}

/* ---- any value ---- */

#define ROUNDS 20000

static uint64_t seed;

/* Returns a random number, by Marsaglia's xorshift64. */
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

/* Returns a random integer of any length in bits; many are near powers of
 * two. */
static int64_t draw_integer(unsigned bits)
{
    uint64_t value = draw() >> (64 - 1 - below(bits));

    if (below(4) == 0)
        value = (UINT64_C(1) << below(bits)) + below(5) - 2;
    return (int64_t)(below(2) ? value : -value);
}

/* Returns a random double: one of random bits, one with few digits, a whole
 * number, or a power of two. */
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

/* Returns the text of a random value of another type, sometimes with a small
 * mistake. */
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

/* Fails unless the store reads the same value from the JSON of `property`. */
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

/* Fails unless `there`, the exact conversion of `from`, is converted back to
 * `from`. A text may come back in another spelling with the same meaning. */
static void assert_comes_back(
    const struct property *from, const struct property *there)
{
    struct property back, again;

    converts(there, from->type, CONVERT_EXACT, &back);
    if (from->type == EDM_STRING) {
        converts(&back, there->type, CONVERT_EXACT, &again);
        assert_true(property_equal(there, &again));
    } else {
        assert_true(property_equal(from, &back));
    }
}

/* Fails if `there`, a lossy conversion of `from`, is converted back to `from`
 * exactly. */
static void assert_is_lost(
    const struct property *from, const struct property *there)
{
    struct property back;
    struct err err;

    if (convert_property(there, from->type, &scratch, &back, &err) ==
        CONVERT_EXACT)
        assert_false(property_equal(from, &back));
}

/* Converts a value and checks whether it can be converted back. Returns the
 * worth of the first conversion. */
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

/* The table in the code is right: a conversion that it calls exact loses
 * nothing, and one that it calls lossy loses something of some values. */
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

/* ---- the table in the documentation ---- */

/* Returns "Int64" for "Edm.Int64". */
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
    const char *document = scratch_source("jobs/conversions.md");
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
    const char *document = scratch_source("jobs/conversions.md");
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
