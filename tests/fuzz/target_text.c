/* SPDX-License-Identifier: MIT */
/* Numbers, durations, sizes, times, UTF-8, percent-encoding, base64. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/crypto.h"
#include "worker/base/text.h"

static bool all_in(struct slice text, const char *set)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '\0' || !strchr(set, text.at[i]))
            return false;
    return true;
}

/* ---- numbers ---- */

static void try_int64(struct slice text, const char *copy)
{
    struct slice digits = text;
    int64_t value = 0, again;
    char *end;
    bool expected;

    if (digits.len > 0 && digits.at[0] == '-')
        digits = (struct slice){digits.at + 1, digits.len - 1};
    errno = 0;
    expected = digits.len > 0 && all_in(digits, "0123456789") &&
               (again = strtoll(copy, &end, 10), errno == 0);
    FUZZ_CHECK(text_int64(text, INT64_MIN, INT64_MAX, &value) == expected);
    if (expected)
        FUZZ_CHECK(value == again);
    if (text_int64(text, -5, 100, &again))
        FUZZ_CHECK(again == value && again >= -5 && again <= 100);
}

static void try_double(struct slice text, const char *copy)
{
    double value, again;
    char *end;

    if (!text_double(text, &value))
        return;
    FUZZ_CHECK(all_in(text, "0123456789+-.eE"));
    again = strtod(copy, &end);
    FUZZ_CHECK(*end == '\0' && memcmp(&value, &again, sizeof(value)) == 0);
    FUZZ_CHECK(isfinite(value));
}

/* Reads digits and one of the units, as an oracle for durations and sizes. */
static bool counted(const char *copy, size_t len, const char *const *units,
    const int64_t *factors, size_t count, __int128 *ret)
{
    size_t digits = strspn(copy, "0123456789");
    unsigned long long number;

    errno = 0;
    number = strtoull(copy, NULL, 10);
    if (digits == 0 || errno != 0 || strlen(copy) != len)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(copy + digits, units[i]) == 0) {
            *ret = (__int128)number * factors[i];
            return *ret <= INT64_MAX;
        }
    return false;
}

static void try_amounts(struct slice text, const char *copy)
{
    static const char *const times[] = {"ms", "s", "m", "h", "d"};
    static const int64_t ms[] = {1, 1000, 60000, 3600000, 86400000};
    static const char *const sizes[] = {"", "KiB", "MiB", "GiB"};
    static const int64_t bytes[] = {1, 1024, 1048576, 1073741824};
    __int128 expected = 0;
    int64_t value;
    bool good =
        counted(copy, text.len, times, ms, 5, &expected) || slice_is(text, "0");

    FUZZ_CHECK(text_duration_ms(text, &value) == good);
    if (good)
        FUZZ_CHECK(value == expected);
    good = counted(copy, text.len, sizes, bytes, 4, &expected);
    FUZZ_CHECK(text_size_bytes(text, &value) == good);
    if (good)
        FUZZ_CHECK(value == expected);
}

/* ---- times ---- */

static int64_t days_from_1970(int64_t year, int month, int day)
{
    struct tm tm = {
        .tm_year = (int)year - 1900, .tm_mon = month - 1, .tm_mday = day};

    return timegm(&tm) / 86400;
}

static int64_t two(const char *at)
{
    return (at[0] - '0') * 10 + at[1] - '0';
}

/* Returns the seconds of "2024-01-01T00:00:00" at the start of a text, with the
 * C library as the oracle. */
static int64_t seconds_of(const char *at)
{
    return days_from_1970(two(at) * 100 + two(at + 2), (int)two(at + 5),
               (int)two(at + 8)) *
               86400 +
           two(at + 11) * 3600 + two(at + 14) * 60 + two(at + 17);
}

/* A text that is read as a time must have digits wherever a time has digits. */
static void try_ticks(struct slice text)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    char written[TEXT_TIME_MAX];
    int64_t ticks, again, whole;

    if (!text_ticks(text, &ticks))
        return;
    FUZZ_CHECK(text.len > sizeof(shape) - 1);
    for (size_t i = 0; i < sizeof(shape) - 1; i++)
        FUZZ_CHECK(shape[i] == 'd' ? text.at[i] >= '0' && text.at[i] <= '9'
                                   : text.at[i] == shape[i]);
    FUZZ_CHECK(ticks >= 0 && ticks <= TICKS_MAX);
    if (text.at[text.len - 1] == 'Z') {
        whole = ticks - ticks % TICKS_PER_S - TICKS_1970;
        FUZZ_CHECK(whole / TICKS_PER_S == seconds_of(text.at));
        FUZZ_CHECK(
            all_in((struct slice){text.at + 19, text.len - 20}, ".0123456789"));
    } else {
        FUZZ_CHECK(all_in(
            (struct slice){text.at + 19, text.len - 19}, ".0123456789+-:"));
    }
    text_from_ticks(ticks, written);
    FUZZ_CHECK(text_ticks(slice_of(written), &again) && again == ticks);
}

static void try_http_date(struct slice text)
{
    char written[TEXT_TIME_MAX];
    int64_t ticks;

    if (text_parse_http_date(text, &ticks))
        FUZZ_SAME(slice_of(text_http_date(ticks, written)), text);
}

static void any_time_is_read_back(struct fuzz_source *in)
{
    int64_t ticks = fuzz_ticks(in), again;
    struct text_date date = text_date_of(ticks);
    char text[TEXT_TIME_MAX];
    struct tm tm;
    time_t seconds = (ticks - ticks % TICKS_PER_S - TICKS_1970) / TICKS_PER_S;

    FUZZ_CHECK(gmtime_r(&seconds, &tm) != NULL);
    FUZZ_CHECK(date.year == tm.tm_year + 1900 && date.month == tm.tm_mon + 1 &&
               date.day == tm.tm_mday && date.hour == tm.tm_hour &&
               date.minute == tm.tm_min && date.second == tm.tm_sec &&
               date.fraction == ticks % TICKS_PER_S);
    FUZZ_CHECK(text_ticks(slice_of(text_from_ticks(ticks, text)), &again));
    FUZZ_CHECK(again == ticks);
    FUZZ_CHECK(
        text_parse_http_date(slice_of(text_http_date(ticks, text)), &again));
    FUZZ_CHECK(again == ticks - ticks % TICKS_PER_S);
}

/* Returns a good text with one or two characters changed. */
static struct slice damaged(struct fuzz_source *in, const char *good)
{
    static const char liked[] = "-+ .:0Z9";
    struct slice text = arena_copy(in->arena, slice_of(good));
    char *at = arena_alloc(in->arena, text.len + 1);

    memcpy(at, text.at, text.len);
    for (unsigned i = 0; i < 2; i++)
        at[fuzz_below(in, text.len)] = liked[fuzz_below(in, 8)];
    return (struct slice){at, text.len};
}

static void damaged_times_are_no_others(struct fuzz_source *in)
{
    int64_t ticks = fuzz_ticks(in);
    char text[TEXT_TIME_MAX];

    try_ticks(damaged(in, text_from_ticks(ticks, text)));
    try_ticks(damaged(in, "2024-01-01T00:00:00.5+00:00"));
    try_http_date(damaged(in, text_http_date(ticks, text)));
}

/* ---- characters ---- */

/* Returns the length of the UTF-8 sequence, by RFC 3629; 0: it is wrong. It
 * decodes the sequence and checks its value. */
static size_t oracle_utf8(const unsigned char *at, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = at[0] < 0x80             ? 1
               : (at[0] & 0xe0) == 0xc0 ? 2
               : (at[0] & 0xf0) == 0xe0 ? 3
               : (at[0] & 0xf8) == 0xf0 ? 4
                                        : 0;
    uint32_t c = n == 1 ? at[0] : at[0] & (0xffU >> (n + 1));

    if (n == 0 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3f);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static bool oracle_is_utf8(struct slice text, size_t *ret_units)
{
    *ret_units = 0;
    for (size_t i = 0, n; i < text.len; i += n) {
        n = oracle_utf8((const unsigned char *)text.at + i, text.len - i);
        if (n == 0)
            return false;
        *ret_units += n == 4 ? 2 : 1;
    }
    return true;
}

static void try_characters(struct slice text)
{
    size_t units;
    bool good = oracle_is_utf8(text, &units);
    struct slice rest = text;
    struct buf again;

    FUZZ_CHECK(text_is_utf8(text) == good);
    if (!good)
        return;
    FUZZ_CHECK(text_utf16_units(text) == units);
    buf_init(&again, text.len);
    while (rest.len > 0) {
        size_t len;

        text_encode(&again, text_decode(rest, &len));
        rest = (struct slice){rest.at + len, rest.len - len};
    }
    FUZZ_SAME(buf_slice(&again), text);
    buf_done(&again);
}

/* A text that is shown to people must be UTF-8 without control characters,
 * whatever the input is. */
static void try_showing(struct slice text)
{
    struct buf shown;
    size_t units;

    for (int quote = 0; quote < 2; quote++) {
        buf_init(&shown, 16 * text.len + 1024);
        (quote ? text_quote : text_visible)(&shown, text);
        FUZZ_CHECK(
            !shown.overflow && oracle_is_utf8(buf_slice(&shown), &units));
        for (size_t i = 0; i < shown.len; i++)
            FUZZ_CHECK(
                (unsigned char)shown.at[i] >= 0x20 && shown.at[i] != 0x7f);
        buf_done(&shown);
    }
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

/* Compares two texts by the UTF-16 units of the first character in which they
 * differ. */
static int oracle_compare(struct slice a, struct slice b)
{
    for (;;) {
        size_t len_a, len_b;
        uint32_t x, y;

        if (a.len == 0 || b.len == 0)
            return sign((a.len > 0) - (b.len > 0));
        x = text_decode(a, &len_a);
        y = text_decode(b, &len_b);
        if (x != y) {
            uint32_t high_x = x >= 0x10000 ? 0xd800 + ((x - 0x10000) >> 10) : x;
            uint32_t high_y = y >= 0x10000 ? 0xd800 + ((y - 0x10000) >> 10) : y;

            return high_x != high_y ? (high_x < high_y ? -1 : 1)
                                    : (x < y ? -1 : 1);
        }
        a = (struct slice){a.at + len_a, a.len - len_a};
        b = (struct slice){b.at + len_b, b.len - len_b};
    }
}

static void keys_are_ordered_by_units(struct fuzz_source *in)
{
    struct slice a = fuzz_text(in, 6), b = fuzz_text(in, 6);

    FUZZ_CHECK(sign(text_utf16_compare(a, b)) == oracle_compare(a, b));
    FUZZ_CHECK(sign(text_utf16_compare(b, a)) == -oracle_compare(a, b));
    FUZZ_CHECK(text_utf16_compare(a, a) == 0);
}

/* ---- encodings ---- */

static void try_percent(struct slice text)
{
    struct buf coded, plain;

    buf_init(&coded, 3 * text.len);
    buf_init(&plain, text.len);
    text_percent_encode(&coded, text);
    FUZZ_CHECK(!coded.overflow);
    for (size_t i = 0; i < coded.len; i++)
        FUZZ_CHECK((unsigned char)coded.at[i] > 0x20 &&
                   (unsigned char)coded.at[i] < 0x7f);
    FUZZ_CHECK(text_percent_decode(&plain, buf_slice(&coded)));
    FUZZ_SAME(buf_slice(&plain), text);
    buf_clear(&plain);
    if (text_percent_decode(&plain, text))
        FUZZ_CHECK(plain.len <= text.len);
    else
        FUZZ_CHECK(plain.len == 0);
    buf_done(&coded);
    buf_done(&plain);
}

static void try_base64(struct slice text)
{
    struct buf coded, plain;

    buf_init(&coded, text.len * 2 + 8);
    buf_init(&plain, text.len);
    crypto_base64(&coded, text);
    FUZZ_CHECK(!coded.overflow && coded.len == (text.len + 2) / 3 * 4);
    FUZZ_CHECK(crypto_unbase64(&plain, buf_slice(&coded)));
    FUZZ_SAME(buf_slice(&plain), text);
    buf_clear(&plain);
    buf_clear(&coded);
    if (crypto_unbase64(&plain, text)) {
        crypto_base64(&coded, buf_slice(&plain));
        FUZZ_SAME(buf_slice(&coded), text);
    } else {
        FUZZ_CHECK(plain.len == 0);
    }
    buf_done(&coded);
    buf_done(&plain);
}

static void try_names(struct slice text)
{
    static const char *const names[] = {
        "partition_key", "row_key", "table", "filter", "on_error", "x", ""};
    struct err err;

    (void)text_nearest(text, names, sizeof(names) / sizeof(names[0]));
    if (text_is_run_id(text))
        FUZZ_CHECK(text.len > 0 && text.len <= 128 && text.at[0] != '.' &&
                   !memchr(text.at, '/', text.len));
    if (entity_check_key("RowKey", text, &err) != TW_OK)
        fuzz_said(&err);
    if (entity_check_name(text, &err) != TW_OK)
        fuzz_said(&err);
    if (entity_check_table(text, &err) != TW_OK)
        fuzz_said(&err);
    if (store_check_queue(text, &err) != TW_OK)
        fuzz_said(&err);
}

FUZZ_TARGET(text)
{
    const char *copy;

    copy = arena_copy(in->arena, text).at;
    try_int64(text, copy);
    try_double(text, copy);
    try_amounts(text, copy);
    try_ticks(text);
    try_http_date(text);
    try_characters(text);
    try_showing(text);
    try_percent(text);
    try_base64(text);
    try_names(text);
    any_time_is_read_back(in);
    fuzz_again(in);
    damaged_times_are_no_others(in);
    keys_are_ordered_by_units(in);
}
