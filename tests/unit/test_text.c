/* SPDX-License-Identifier: MIT */
/* Numbers, times, UTF-8, names: the edge cases of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/text.h"

#define WHOLE(text) ((struct slice){text, sizeof(text) - 1})
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

TEST(whole_numbers_are_read_whole_or_not_at_all)
{
    static const struct {
        struct slice text;
        int64_t value;
    } good[] = {{WHOLE("0"), 0}, {WHOLE("-0"), 0}, {WHOLE("007"), 7},
        {WHOLE("9223372036854775807"), INT64_MAX},
        {WHOLE("-9223372036854775808"), INT64_MIN}};
    static const struct slice bad[] = {WHOLE(""), WHOLE("-"), WHOLE("+1"),
        WHOLE(" 1"), WHOLE("1 "), WHOLE("1.0"), WHOLE("1e3"), WHOLE("0x1"),
        WHOLE("--1"), WHOLE("1\0"), WHOLE("9223372036854775808"),
        WHOLE("-9223372036854775809"), WHOLE("99999999999999999999"),
        {NULL, 0}};
    int64_t value = 42;

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_int64(bad[i], INT64_MIN, INT64_MAX, &value));
    assert_false(text_int64(slice_of("4"), 5, 7, &value));
    assert_false(text_int64(slice_of("8"), 5, 7, &value));
    assert_true(value == 42);
    for (size_t i = 0; TEST_EACH(i, good); i++) {
        assert_true(text_int64(good[i].text, INT64_MIN, INT64_MAX, &value));
        assert_true(value == good[i].value);
    }
    assert_true(text_int64(slice_of("5"), 5, 7, &value));
    assert_true(text_int64(slice_of("7"), 5, 7, &value));
}

TEST(doubles_are_finite_json_numbers)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0}, {"1.5", 1.5}, {"-2e3", -2000}, {"1E-2", 0.01},
        {"1.7976931348623157e+308", 1.7976931348623157e308}, {"5e-324", 5e-324},
        {"1e-400", 0}};
    static const struct slice bad[] = {WHOLE(""), WHOLE("-"), WHOLE("1."),
        WHOLE(".5"), WHOLE("01"), WHOLE("+1"), WHOLE("1e"), WHOLE("1e+"),
        WHOLE("NaN"), WHOLE("Infinity"), WHOLE("-inf"), WHOLE("0x1p3"),
        WHOLE("1e309"), WHOLE(" 1"), WHOLE("1 "), WHOLE("1,5"), WHOLE("1\0")};
    double value = 42;

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_double(bad[i], &value));
    assert_true(value == 42.0);
    for (size_t i = 0; TEST_EACH(i, good); i++) {
        assert_true(text_double(slice_of(good[i].text), &value));
        assert_true(value == good[i].value);
    }
    assert_true(text_double(slice_of("-0"), &value) && signbit(value));
}

/* Reads numbers of all lengths up to 300, because long numbers are copied in a
 * different way. */
TEST(long_doubles_are_read_to_their_last_digit)
{
    char text[302] = "1.";

    for (size_t len = 3; len < sizeof(text) - 1; len++) {
        double value = 0;

        /* The bytes after the number are not part of it. */
        memset(text + 2, '0', sizeof(text) - 2);
        text[len - 1] = '9';
        text[len] = '9';
        assert_true(text_double((struct slice){text, len}, &value));
        text[len] = '\0';
        assert_true(value == strtod(text, NULL));
    }
}

TEST(durations_have_a_unit)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0}, {"0s", 0}, {"500ms", 500}, {"30s", 30000},
        {"5m", 300000}, {"2h", 7200000}, {"90d", INT64_C(7776000000)},
        {"9223372036854775807ms", INT64_MAX}};
    static const char *const bad[] = {"", "s", "5", "00", "-5s", "5 s", " 5s",
        "5S", "1.5s", "5D", "5w", "5sec", "9223372036854775808ms",
        "9223372036854775807s", "2562047788016h", "106751991168d"};
    int64_t ms = 42;

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_duration_ms(slice_of(bad[i]), &ms));
    assert_true(ms == 42);
    for (size_t i = 0; TEST_EACH(i, good); i++) {
        assert_true(text_duration_ms(slice_of(good[i].text), &ms));
        assert_true(ms == good[i].ms);
    }
}

TEST(sizes_are_bytes_or_binary_multiples)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0}, {"100", 100}, {"64KiB", 65536}, {"4MiB", 4 << 20},
        {"3GiB", INT64_C(3) << 30}};
    static const char *const bad[] = {"", "KiB", "-1", "4MB", "4 MiB", "4kib",
        "1.5KiB", "8589934592GiB", "9223372036854775808"};
    int64_t bytes = 42;

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_size_bytes(slice_of(bad[i]), &bytes));
    assert_true(bytes == 42);
    for (size_t i = 0; TEST_EACH(i, good); i++) {
        assert_true(text_size_bytes(slice_of(good[i].text), &bytes));
        assert_true(bytes == good[i].bytes);
    }
}

/* Times and their ticks. .NET documents these ticks, or they follow from
 * documented ones. */
static const struct {
    const char *text;
    int64_t ticks;
} moments[] = {
    {"0001-01-01T00:00:00.0000000Z", 0},
    {"0001-12-31T23:59:59.9999999Z", INT64_C(315359999999999)},
    {"1601-01-01T00:00:00.0000000Z", TICKS_1601},
    {"1900-03-01T00:00:00.0000000Z", INT64_C(599317056000000000)},
    {"1969-12-31T23:59:59.9999999Z", TICKS_1970 - 1},
    {"1970-01-01T00:00:00.0000000Z", TICKS_1970},
    {"2000-02-29T12:00:00.0000001Z", INT64_C(630874224000000001)},
    {"2024-01-01T00:00:00.0000000Z", INT64_C(638396640000000000)},
    {"9999-12-31T23:59:59.9999999Z", TICKS_MAX},
};

TEST(times_and_ticks_are_the_same)
{
    char text[TEXT_TIME_MAX];

    for (size_t i = 0; TEST_EACH(i, moments); i++) {
        int64_t ticks = -1;

        assert_true(text_ticks(slice_of(moments[i].text), &ticks));
        assert_true(ticks == moments[i].ticks);
        assert_string_equal(
            text_from_ticks(moments[i].ticks, text), moments[i].text);
    }
}

TEST(every_day_follows_the_day_before)
{
    const int64_t day_ticks = INT64_C(864000000000);
    struct text_date before = text_date_of(0);
    char text[TEXT_TIME_MAX];

    for (int64_t at = day_ticks; at <= TICKS_MAX; at += day_ticks) {
        struct text_date date = text_date_of(at);
        int64_t back;
        int months = (date.year - before.year) * 12 + date.month - before.month;

        if (months == 0 ? date.day != before.day + 1
                        : months != 1 || date.day != 1 || before.day > 31 ||
                              before.day < (before.month == 12 ? 31 : 28))
            fail_msg("after %d-%d-%d", before.year, before.month, before.day);
        /* Only every 97th day is parsed again, to save time. */
        if (at / day_ticks % 97 == 0) {
            assert_true(text_ticks(slice_of(text_from_ticks(at, text)), &back));
            assert_true(back == at);
        }
        before = date;
    }
    assert_int_equal(before.year, 9999);
}

TEST(fractions_and_offsets_are_read)
{
    static const struct {
        const char *text;
        int64_t after_2024; /* ticks */
    } good[] = {{"2024-01-01T00:00:00Z", 0},
        {"2024-01-01T00:00:00.5Z", 5000000},
        {"2024-01-01T00:00:00.000001Z", 10},
        {"2024-01-01T00:00:00.1234567Z", 1234567},
        {"2024-01-01T01:30:00+01:30", 0},
        {"2023-12-31T19:00:00.1-05:00", 1000000},
        {"2024-01-01T00:00:00+00:00", 0}};
    int64_t ticks;

    for (size_t i = 0; TEST_EACH(i, good); i++) {
        assert_true(text_ticks(slice_of(good[i].text), &ticks));
        assert_true(ticks - INT64_C(638396640000000000) == good[i].after_2024);
    }
}

TEST(what_is_no_time_is_refused)
{
    static const char *const bad[] = {"", "2024-01-01", "2024-01-01T00:00:00",
        "2024-01-01T00:00Z", "2024-01-01 00:00:00Z", "2024-01-01t00:00:00Z",
        "2024-01-01T00:00:00z", "2024-1-1T00:00:00Z", "24-01-01T00:00:00Z",
        "12024-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "-001-01-01T00:00:00Z",
        "2024-00-01T00:00:00Z", "2024-13-01T00:00:00Z", "2024-01-00T00:00:00Z",
        "2024-01-32T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
        "2024-04-31T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:60Z", "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.12345678Z", "2024-01-01T00:00:00ZZ",
        "2024-01-01T00:00:00+0100", "2024-01-01T00:00:00+01",
        "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+00:60",
        " 2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z ",
        "+024-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01", "2024-01-01T-0:00:00Z",
        "2024-01-01T00:-0:00Z", "2024-01-01T00:00:-0Z",
        "2024-01-01T00:00:00+-0:00", "2024-01-01T00:00:00+00:-0"};
    int64_t ticks = 42;

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_ticks(slice_of(bad[i]), &ticks));
    assert_true(ticks == 42);
}

TEST(http_dates_are_written_and_read)
{
    static const struct {
        const char *text, *moment;
    } dates[] = {
        {"Mon, 01 Jan 2024 00:00:00 GMT", "2024-01-01T00:00:00Z"},
        {"Thu, 29 Feb 2024 23:59:59 GMT", "2024-02-29T23:59:59Z"},
        {"Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"},
        {"Mon, 01 Jan 0001 00:00:00 GMT", "0001-01-01T00:00:00Z"},
        {"Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z"},
    };
    static const char *const bad[] = {"", "Mon", "Mon, 01 Jan 2024 00:00:00",
        "Tue, 01 Jan 2024 00:00:00 GMT", "Mon, 1 Jan 2024 00:00:00 GMT",
        "Mon, 01 jan 2024 00:00:00 GMT", "Mon, 01 Jan 24 00:00:00 GMT",
        "Mon, 01 Jan 2024 00:00:00 UTC", "Mon, 01 Jan 2024 24:00:00 GMT",
        "Mon, 01 Jan 2024 00:00:00 GMT ", "Mon, 01 Jan 2024 -0:00:00 GMT",
        "Monday, 01-Jan-24 00:00:00 GMT", "Mon Jan  1 00:00:00 2024"};
    char text[TEXT_TIME_MAX];
    int64_t ticks, parsed;

    for (size_t i = 0; TEST_EACH(i, dates); i++) {
        assert_true(text_ticks(slice_of(dates[i].moment), &ticks));
        assert_string_equal(text_http_date(ticks, text), dates[i].text);
        assert_string_equal(text_http_date(ticks + 9999999, text), text);
        assert_true(text_parse_http_date(slice_of(dates[i].text), &parsed));
        assert_true(parsed == ticks);
    }
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_parse_http_date(slice_of(bad[i]), &ticks));
}

/* A time is refused if one of its characters is changed, or if it is cut
 * off. */
TEST(a_time_with_any_other_character_is_none)
{
    static const char *const times[] = {"2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00+01:00", "Mon, 01 Jan 2024 00:00:00 GMT"};
    char text[TEXT_TIME_MAX];
    int64_t ticks;

    for (size_t i = 0; TEST_EACH(i, times); i++)
        for (size_t at = 0; at < strlen(times[i]); at++)
            for (int way = 0; way < 2; way++) {
                strcpy(text, times[i]);
                text[at] = way == 0 ? 'x' : '\0'; /* cut off there */
                assert_false(text_ticks(slice_of(text), &ticks));
                assert_false(text_parse_http_date(slice_of(text), &ticks));
            }
}

TEST(utf8_is_well_formed_or_refused)
{
    static const struct slice good[] = {WHOLE(""), WHOLE("a\0b"), WHOLE("\x7f"),
        WHOLE("\xc2\x80"), WHOLE("\xdf\xbf"), WHOLE("\xe0\xa0\x80"),
        WHOLE("\xed\x9f\xbf"), WHOLE("\xee\x80\x80"), WHOLE("\xef\xbf\xbf"),
        WHOLE("\xf0\x90\x80\x80"), WHOLE("\xf4\x8f\xbf\xbf"),
        WHOLE("twelve bytes\xc3\xa9 and more text"), {NULL, 0}};
    static const struct slice bad[] = {WHOLE("\x80"), WHOLE("\xbf"),
        WHOLE("\xc0\x80"), WHOLE("\xc1\xbf"), WHOLE("\xc2"), WHOLE("\xc2\x41"),
        WHOLE("\xc2\xc0"), WHOLE("\xe0\x9f\xbf"), WHOLE("\xe2\x82"),
        WHOLE("\xe2\x82\x41"), WHOLE("\xed\xa0\x80"), WHOLE("\xed\xbf\xbf"),
        WHOLE("\xf0\x8f\xbf\xbf"), WHOLE("\xf0\x9f\x98"),
        WHOLE("\xf4\x90\x80\x80"), WHOLE("\xf5\x80\x80\x80"), WHOLE("\xff"),
        WHOLE("\xfe"), WHOLE("twelve bytes\xe9 and more"),
        WHOLE("seven..\xe9")};

    for (size_t i = 0; TEST_EACH(i, good); i++)
        assert_true(text_is_utf8(good[i]));
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_is_utf8(bad[i]));
}

TEST(every_code_point_is_encoded_and_decoded)
{
    struct buf buf;

    buf_init(&buf, 4);
    for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x1000 ? 1 : 37) {
        size_t len;

        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        buf_clear(&buf);
        text_encode(&buf, c);
        if (!text_is_utf8(buf_slice(&buf)) ||
            text_decode(buf_slice(&buf), &len) != c || len != buf.len)
            fail_msg("U+%04X", c);
        assert_int_equal(
            text_utf16_units(buf_slice(&buf)), c < 0x10000 ? 1 : 2);
    }
    buf_done(&buf);
    assert_int_equal(text_utf16_units(WHOLE("a\xc3\xa9\xf0\x9f\x98\x80")), 4);
}

TEST(keys_compare_as_utf16_units)
{
    /* In ascending order. */
    static const struct slice keys[] = {WHOLE(""), WHOLE("\0"), WHOLE("!"),
        WHOLE("A"), WHOLE("A\0"), WHOLE("AA"), WHOLE("a"), WHOLE("\x7f"),
        WHOLE("\xc2\x80"), WHOLE("\xc3\xa9"), WHOLE("\xe2\x82\xac"),
        WHOLE("\xed\x9f\xbf") /* U+D7FF */,
        WHOLE("\xf0\x90\x80\x80") /* U+10000 = D800 DC00 */,
        WHOLE("\xf0\x9f\x98\x80") /* U+1F600 */, WHOLE("\xf0\x9f\x98\x81"),
        WHOLE("\xf4\x8f\xbf\xbf") /* U+10FFFF */,
        WHOLE("\xee\x80\x80") /* U+E000 */, WHOLE("\xef\xbf\xbd") /* U+FFFD */,
        WHOLE("\xef\xbf\xbd!"), WHOLE("\xef\xbf\xbf")};

    for (size_t a = 0; TEST_EACH(a, keys); a++)
        for (size_t b = 0; TEST_EACH(b, keys); b++) {
            int order = text_utf16_compare(keys[a], keys[b]);
            int wanted = a < b ? -1 : a > b;

            if ((order > 0) - (order < 0) != wanted)
                fail_msg("%zu and %zu: %d", a, b, order);
        }
}

TEST(percent_encoding_goes_both_ways)
{
    static const char *const bad[] = {"a%", "a%2", "a%2g", "a%%20", "%zz"};
    struct slice text = WHOLE("aZ09-._~ /?#%+&='\0\xc3\xa9");
    struct buf to, back;

    buf_init(&to, 1000);
    buf_init(&back, 1000);
    text_percent_encode(&to, text);
    assert_string_equal(
        buf_text(&to), "aZ09-._~%20%2F%3F%23%25%2B%26%3D%27%00%C3%A9");
    assert_true(text_percent_decode(&back, buf_slice(&to)));
    assert_true(slice_equal(buf_slice(&back), text));
    buf_clear(&back);
    assert_true(text_percent_decode(&back, slice_of("+%c3%A9%2b")));
    assert_string_equal(buf_text(&back), "+\xc3\xa9+");
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_percent_decode(&back, slice_of(bad[i])));
    assert_string_equal(buf_text(&back), "+\xc3\xa9+");
    buf_done(&to);
    buf_done(&back);
}

static void assert_quoted(struct slice text, const char *wanted)
{
    struct buf to;

    buf_init(&to, 2000);
    text_quote(&to, text);
    assert_string_equal(buf_text(&to), wanted);
    buf_done(&to);
}

TEST(quoted_texts_hide_nothing)
{
    assert_quoted(WHOLE(""), "''");
    assert_quoted(WHOLE("Caf\xc3\xa9 \xf0\x9f\x98\x80"),
        "'Caf\xc3\xa9 \xf0\x9f\x98\x80'");
    assert_quoted(WHOLE("a\nb\0c\x1b[31m"), "'a\\x0ab\\x00c\\x1b[31m'");
    assert_quoted(WHOLE("\xff\xc3"), "'\\xff\\xc3'");
    assert_quoted(WHOLE("\xc2\x9b"
                        "x\xe2\x80\xae"
                        "y"),
        "'\\u009bx\\u202ey'");
    assert_quoted(WHOLE("\xe2\x80\x8b|\xe2\x80\x8f|\xe2\x81\xa6|\xe2\x81\xa9|"
                        "\xef\xbb\xbf|\xe2\x80\x90"),
        "'\\u200b|\\u200f|\\u2066|\\u2069|\\ufeff|\xe2\x80\x90'");
    assert_quoted(
        WHOLE("\xe2\x81\xaa|\xef\xbc\x80"), "'\xe2\x81\xaa|\xef\xbc\x80'");
}

TEST(quoted_texts_are_cut_between_characters)
{
    char text[200], wanted[200];

    memset(text, 'a', sizeof(text));
    memset(wanted, 0, sizeof(wanted));
    wanted[0] = '\'';
    memset(wanted + 1, 'a', 100);
    strcat(wanted, "'");
    assert_quoted((struct slice){text, 100}, wanted);
    strcpy(wanted + 101, "...'");
    assert_quoted((struct slice){text, 101}, wanted);
    memcpy(text + 98, "\xf0\x9f\x98\x80", 4);
    strcpy(wanted + 99, "...'");
    assert_quoted((struct slice){text, 150}, wanted);
}

TEST(the_nearest_name_is_offered)
{
    static const char *const names[] = {
        "partition_key", "row_key", "table", "filter", "on"};
    static const struct {
        const char *word, *meant;
    } words[] = {{"parition_key", "partition_key"},
        {"partitionkey", "partition_key"}, {"rwo_key", "row_key"},
        {"tabel", "table"}, {"tables", "table"}, {"table", "table"},
        {"no", "on"}, {"x", NULL}, {"", NULL}, {"settle", NULL},
        {"completely-different", NULL}};
    char longest[500];

    for (size_t i = 0; TEST_EACH(i, words); i++) {
        const char *near =
            text_nearest(slice_of(words[i].word), names, COUNT(names));

        if (!words[i].meant ? near != NULL
                            : !near || strcmp(near, words[i].meant) != 0)
            fail_msg("%s: %s", words[i].word, near ? near : "none");
    }
    memset(longest, 'a', sizeof(longest));
    assert_null(text_nearest(
        (struct slice){longest, sizeof(longest)}, names, COUNT(names)));
    assert_null(text_nearest(slice_of("table"), NULL, 0));
    longest[sizeof(longest) - 1] = '\0';
    assert_null(text_nearest(
        slice_of("aaaaaaaaaaaaaaaaaa"), (const char *const[]){longest, ""}, 2));
    assert_null(
        text_nearest(slice_of("ab"), (const char *const[]){"x", "y"}, 2));
}

TEST(guids_have_their_hyphens_and_no_braces)
{
    static const struct slice bad[] = {WHOLE(""),
        WHOLE("00112233445566778899aabbccddeeff"),
        WHOLE("{00112233-4455-6677-8899-aabbccddeeff}"),
        WHOLE("00112233-4455-6677-8899-aabbccddeefg"),
        WHOLE("00112233-4455-6677-8899-aabbccddeef"),
        WHOLE("001122334-455-6677-8899-aabbccddeeff"),
        WHOLE("00112233-4455-6677-8899-aabbccddeef\0")};

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_is_guid(bad[i]));
    assert_true(text_is_guid(slice_of("00112233-4455-6677-8899-aabbCCddEEFF")));
}

TEST(run_ids_are_no_paths)
{
    static const struct slice bad[] = {WHOLE(""), WHOLE("."), WHOLE(".."),
        WHOLE(".a"), WHOLE("a/b"), WHOLE("a\\b"), WHOLE("a b"), WHOLE("a\0"),
        WHOLE("\xc3\xa9"), WHOLE("a%b"), WHOLE("!a")};
    char longest[129];

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(text_is_run_id(bad[i]));
    assert_true(text_is_run_id(slice_of("a")));
    assert_true(text_is_run_id(slice_of("-A.b_c-9..")));
    memset(longest, 'a', sizeof(longest));
    assert_true(text_is_run_id((struct slice){longest, 128}));
    assert_false(text_is_run_id((struct slice){longest, 129}));
}

TEST(random_ids_have_their_form_and_differ)
{
    char a[33], b[33], uuid[37];

    text_random_id(a);
    text_random_id(b);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
    for (int i = 0; i < 100; i++) {
        text_random_uuid(uuid);
        assert_int_equal(strlen(uuid), 36);
        assert_int_equal(strspn(uuid, "0123456789abcdef-"), 36);
        assert_int_equal(uuid[8], '-');
        assert_int_equal(uuid[13], '-');
        assert_int_equal(uuid[14], '4');
        assert_int_equal(uuid[18], '-');
        assert_non_null(strchr("89ab", uuid[19]));
        assert_int_equal(uuid[23], '-');
    }
}

TEST(a_text_is_cut_between_characters)
{
    /* One character of each length: 1, 2, 3 and 4 bytes. */
    static const char text[] = "a\xd0\x96\xe2\x82\xac\xf0\x9f\x98\x80z";

    for (size_t max = 0; max <= sizeof(text); max++) {
        struct slice cut = text_cut(slice_of(text), max);

        assert_true(cut.len <= max);
        assert_true(max - cut.len < 4 || cut.len == strlen(text));
        assert_true(text_is_utf8(cut));
    }
    /* A text that has only invalid bytes does not become empty. */
    assert_int_equal(
        text_cut(slice_of("\x80\x80\x80\x80\x80\x80\x80\x80"), 6).len, 3);
}

TEST(values_of_keys_and_signatures_are_masked)
{
    static const struct {
        const char *text, *masked;
    } cases[] = {
        {"AccountName=a;AccountKey=b2s=;EndpointSuffix=c",
            "AccountName=a;AccountKey=****;EndpointSuffix=c"},
        {"not the text 'x;accountkey=abc'", "not the text 'x;accountkey=***'"},
        {"SharedAccessSignature=sv=1&sig=a%2b&se=2",
            "SharedAccessSignature=****&sig=****&se=2"},
        {"/data/sig=1/a.db", NULL},
        {"AccountKey=", NULL},
        {"", NULL},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const char *masked = cases[i].masked;
        char text[80];

        (void)snprintf(text, sizeof(text), "%s", cases[i].text);
        assert_int_equal(text_mask_secrets(text), masked != NULL);
        assert_string_equal(text, masked ? masked : cases[i].text);
    }
}
