/* SPDX-License-Identifier: MIT */
/* Strict parsers and writers of small texts. */
#include "worker/base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"

#define REPLACEMENT 0xfffdU
#define S_PER_DAY 86400
#define DAYS_TO_1970 719162 /* number of days from 0001-01-01 */
#define QUOTE_MAX_BYTES 100

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Returns the value of a hex digit, or -1. */
static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Split the first n bytes off text. */
static struct slice take(struct slice *text, size_t n)
{
    struct slice taken = {text->at, n};

    if (n > 0) /* text->at may be NULL if n is 0 */
        text->at += n;
    text->len -= n;
    return taken;
}

/* Take c if text begins with it. */
static bool take_char(struct slice *text, char c)
{
    if (text->len == 0 || text->at[0] != c)
        return false;
    take(text, 1);
    return true;
}

/* Take all digits at the start of text; returns their number. */
static size_t take_digits(struct slice *text)
{
    size_t n = 0;

    while (n < text->len && is_digit(text->at[n]))
        n++;
    take(text, n);
    return n;
}

/* Numbers */

bool text_int64(struct slice text, int64_t min, int64_t max, int64_t *ret)
{
    bool negative = text.len > 0 && text.at[0] == '-';
    int64_t value = 0;

    if (text.len == (negative ? 1 : 0))
        return false;
    for (size_t i = negative; i < text.len; i++) {
        int digit = text.at[i] - '0';

        if (!is_digit(text.at[i]) ||
            __builtin_mul_overflow(value, 10, &value) ||
            (negative ? __builtin_sub_overflow(value, digit, &value)
                      : __builtin_add_overflow(value, digit, &value)))
            return false;
    }
    if (value < min || value > max)
        return false;
    *ret = value;
    return true;
}

/* Is text a JSON number, without blanks around it? */
static bool is_json_number(struct slice text)
{
    take_char(&text, '-');
    if (!take_char(&text, '0') && take_digits(&text) == 0)
        return false;
    if (take_char(&text, '.') && take_digits(&text) == 0)
        return false;
    if (take_char(&text, 'e') || take_char(&text, 'E')) {
        if (!take_char(&text, '+'))
            take_char(&text, '-');
        if (take_digits(&text) == 0)
            return false;
    }
    return text.len == 0;
}

/* Converts text to a double. Copies text, because strtod() needs a NUL after
 * it. The program never sets a locale, so the decimal point is '.'. */
static double to_double(struct slice text)
{
    char few[64], *copy = few;
    double value;

    if (text.len >= sizeof(few))
        copy = mem_text(text.at, text.len);
    else
        *(char *)mempcpy(few, text.at, text.len) = '\0';
    value = strtod(copy, NULL);
    if (copy != few)
        mem_free(copy);
    return value;
}

bool text_double(struct slice text, double *ret)
{
    double value;

    if (!is_json_number(text))
        return false;
    value = to_double(text);
    if (!isfinite(value))
        return false;
    *ret = value;
    return true;
}

struct unit {
    const char *name;
    int64_t factor;
};

/* Parse a whole number and one of `units`, without a blank in between. */
static bool with_unit(
    struct slice text, const struct unit *units, size_t count, int64_t *ret)
{
    struct slice rest = text;
    size_t digits = take_digits(&rest);
    int64_t number;

    if (!text_int64((struct slice){text.at, digits}, 0, INT64_MAX, &number))
        return false;
    for (size_t i = 0; i < count; i++)
        if (slice_is(rest, units[i].name))
            return !__builtin_mul_overflow(number, units[i].factor, ret);
    return false;
}

bool text_duration_ms(struct slice text, int64_t *ret_ms)
{
    static const struct unit units[] = {
        {"ms", 1},
        {"s", 1000},
        {"m", 60000},
        {"h", 3600000},
        {"d", 86400000},
    };
    int64_t ms;

    if (slice_is(text, "0"))
        ms = 0;
    else if (!with_unit(text, units, sizeof(units) / sizeof(units[0]), &ms))
        return false;
    *ret_ms = ms;
    return true;
}

bool text_size_bytes(struct slice text, int64_t *ret_bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"KiB", INT64_C(1) << 10},
        {"MiB", INT64_C(1) << 20},
        {"GiB", INT64_C(1) << 30},
    };
    int64_t bytes;

    if (!with_unit(text, units, sizeof(units) / sizeof(units[0]), &bytes))
        return false;
    *ret_bytes = bytes;
    return true;
}

/* Times: the proleptic Gregorian calendar, as in .NET's DateTime */

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Returns the number of days from 0001-01-01 to the first of January of
 * year. */
static int64_t days_before_year(int year)
{
    int64_t past = year - 1;

    return past * 365 + past / 4 - past / 100 + past / 400;
}

static int64_t days_of(const struct text_date *date)
{
    int64_t days = days_before_year(date->year) + date->day - 1;

    for (int month = 1; month < date->month; month++)
        days += days_in_month(date->year, month);
    return days;
}

/* Convert date to ticks; false: a part is out of range. */
static bool ticks_of(const struct text_date *date, int64_t *ret_ticks)
{
    int64_t seconds;

    if (date->year < 1 || date->year > 9999 || date->month < 1 ||
        date->month > 12 || date->day < 1 ||
        date->day > days_in_month(date->year, date->month) || date->hour > 23 ||
        date->minute > 59 || date->second > 59)
        return false;
    seconds = days_of(date) * S_PER_DAY + date->hour * 3600 +
              date->minute * 60 + date->second;
    *ret_ticks = seconds * TICKS_PER_S + date->fraction;
    return true;
}

/* Take exactly width digits as a number. */
static bool take_number(struct slice *text, size_t width, int *ret)
{
    struct slice digits = *text;
    int64_t number;

    if (take_digits(&digits) < width || /* text_int64() would accept "-0" */
        !text_int64((struct slice){text->at, width}, 0, 9999999, &number))
        return false;
    take(text, width);
    *ret = (int)number;
    return true;
}

/* Take nothing, or a point and one to seven digits. */
static bool take_fraction(struct slice *text, int *ret_ticks)
{
    struct slice digits;
    size_t count;

    *ret_ticks = 0;
    if (!take_char(text, '.'))
        return true;
    digits = *text;
    count = take_digits(text);
    if (count < 1 || count > 7)
        return false;
    for (size_t i = 0; i < 7; i++)
        *ret_ticks = *ret_ticks * 10 + (i < count ? digits.at[i] - '0' : 0);
    return true;
}

/* Take Z or an offset from UTC. */
static bool take_zone(struct slice *text, int *ret_minutes)
{
    int hours, minutes;
    bool west;

    *ret_minutes = 0;
    if (take_char(text, 'Z'))
        return true;
    west = take_char(text, '-');
    if (!west && !take_char(text, '+'))
        return false;
    if (!take_number(text, 2, &hours) || !take_char(text, ':') ||
        !take_number(text, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

bool text_ticks(struct slice text, int64_t *ret_ticks)
{
    struct text_date date = {0};
    int64_t ticks;
    int offset_minutes;

    if (!take_number(&text, 4, &date.year) || !take_char(&text, '-') ||
        !take_number(&text, 2, &date.month) || !take_char(&text, '-') ||
        !take_number(&text, 2, &date.day) || !take_char(&text, 'T') ||
        !take_number(&text, 2, &date.hour) || !take_char(&text, ':') ||
        !take_number(&text, 2, &date.minute) || !take_char(&text, ':') ||
        !take_number(&text, 2, &date.second) ||
        !take_fraction(&text, &date.fraction) ||
        !take_zone(&text, &offset_minutes) || text.len > 0 ||
        !ticks_of(&date, &ticks))
        return false;
    ticks -= offset_minutes * 60 * TICKS_PER_S;
    if (ticks < 0 || ticks > TICKS_MAX)
        return false;
    *ret_ticks = ticks;
    return true;
}

/* Returns the year that contains the day *days; *days becomes the day in that
 * year. */
static int year_of(int64_t *days)
{
    /* A lower bound, because a year has at most 366 days. */
    int year = (int)(*days / 366) + 1;

    while (days_before_year(year + 1) <= *days)
        year++;
    *days -= days_before_year(year);
    return year;
}

struct text_date text_date_of(int64_t ticks)
{
    struct text_date date = {.month = 1};
    int64_t seconds, days;
    int second_of_day;

    assert(ticks >= 0 && ticks <= TICKS_MAX);
    seconds = ticks / TICKS_PER_S;
    days = seconds / S_PER_DAY;
    second_of_day = (int)(seconds % S_PER_DAY);
    date.year = year_of(&days);
    while (days >= days_in_month(date.year, date.month))
        days -= days_in_month(date.year, date.month++);
    date.day = (int)days + 1;
    date.hour = second_of_day / 3600;
    date.minute = second_of_day / 60 % 60;
    date.second = second_of_day % 60;
    date.fraction = (int)(ticks % TICKS_PER_S);
    return date;
}

const char *text_from_ticks(int64_t ticks, char *to)
{
    struct text_date date = text_date_of(ticks);

    snprintf(to, TEXT_TIME_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%07dZ",
        date.year, date.month, date.day, date.hour, date.minute, date.second,
        date.fraction);
    return to;
}

static const char *const month_names[] = {
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
};

/* Returns the name of the weekday of ticks; 0001-01-01 was a Monday. */
static const char *weekday(int64_t ticks)
{
    static const char *const names[] = {
        "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

    return names[ticks / (TICKS_PER_S * S_PER_DAY) % 7];
}

const char *text_http_date(int64_t ticks, char *to)
{
    struct text_date date = text_date_of(ticks);

    snprintf(to, TEXT_TIME_MAX, "%s, %02d %s %04d %02d:%02d:%02d GMT",
        weekday(ticks), date.day, month_names[date.month - 1], date.year,
        date.hour, date.minute, date.second);
    return to;
}

/* Take the name of a month and the blank after it. */
static bool take_month(struct slice *text, int *ret)
{
    for (int i = 0; i < 12; i++)
        if (slice_begins(*text, slice_of(month_names[i]))) {
            take(text, 3);
            *ret = i + 1;
            return take_char(text, ' ');
        }
    return false;
}

/* Take the name of a day, a comma and a blank. */
static bool take_weekday(struct slice *text, struct slice *ret)
{
    if (text->len < 3)
        return false;
    *ret = take(text, 3);
    return take_char(text, ',') && take_char(text, ' ');
}

bool text_parse_http_date(struct slice text, int64_t *ret_ticks)
{
    struct text_date date = {0};
    struct slice day_name;
    int64_t ticks;

    if (!take_weekday(&text, &day_name) || !take_number(&text, 2, &date.day) ||
        !take_char(&text, ' ') || !take_month(&text, &date.month) ||
        !take_number(&text, 4, &date.year) || !take_char(&text, ' ') ||
        !take_number(&text, 2, &date.hour) || !take_char(&text, ':') ||
        !take_number(&text, 2, &date.minute) || !take_char(&text, ':') ||
        !take_number(&text, 2, &date.second) || !slice_is(text, " GMT") ||
        !ticks_of(&date, &ticks) || !slice_is(day_name, weekday(ticks)))
        return false;
    *ret_ticks = ticks;
    return true;
}

/* UTF-8 */

/* Returns the length of the well-formed character at the start of text, or
 * 0. */
static size_t utf8_length(struct slice text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    unsigned char low = 0x80, high = 0xbf; /* range of a valid second byte */
    size_t len;

    if (text.len == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    len = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[0] == 0xe0)
        low = 0xa0; /* a lower byte: overlong */
    else if (at[0] == 0xed)
        high = 0x9f; /* a higher byte: surrogate */
    else if (at[0] == 0xf0)
        low = 0x90; /* a lower byte: overlong */
    else if (at[0] == 0xf4)
        high = 0x8f; /* a higher byte: beyond U+10FFFF */
    if (text.len < len || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Returns the number of ASCII bytes at the start of text, in units of eight
 * bytes. */
static size_t ascii_run(struct slice text)
{
    size_t run = 0;
    uint64_t eight;

    while (text.len - run >= sizeof(eight)) {
        memcpy(&eight, text.at + run, sizeof(eight));
        if (eight & UINT64_C(0x8080808080808080))
            break;
        run += sizeof(eight);
    }
    return run;
}

/* Move past all ASCII bytes. */
static const char *skip_ascii(const char *at, const char *end)
{
    at += ascii_run((struct slice){at, (size_t)(end - at)});
    while (at < end && (unsigned char)*at < 0x80)
        at++;
    return at;
}

bool text_is_utf8(struct slice text)
{
    const char *at = text.at, *end = text.len ? at + text.len : at;

    while (at < end) {
        const unsigned char *bytes = (const unsigned char *)at;
        size_t len;

        if (bytes[0] < 0x80) {
            at = skip_ascii(at, end);
            continue;
        }
        /* Most letters beyond ASCII have two bytes. */
        len = bytes[0] >= 0xc2 && bytes[0] < 0xe0 && end - at > 1 &&
                      (bytes[1] & 0xc0) == 0x80
                  ? 2
                  : utf8_length((struct slice){at, (size_t)(end - at)});
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

size_t text_utf16_units(struct slice text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t units = 0, i = 0;

    /* One unit for each character, two for a character of four bytes. */
    for (; text.len - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        uint64_t eight, inner, wide;

        memcpy(&eight, text.at + i, sizeof(eight));
        units += sizeof(eight);
        if ((eight & ones << 7) == 0)
            continue;
        inner = (eight >> 7) & (~eight >> 6) & ones;
        wide = (eight >> 7) & (eight >> 6) & (eight >> 5) & (eight >> 4) & ones;
        units += (size_t)__builtin_popcountll(wide);
        units -= (size_t)__builtin_popcountll(inner);
    }
    for (; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];

        units += (size_t)((c & 0xc0) != 0x80) + (size_t)(c >= 0xf0);
    }
    return units;
}

/* Returns the rank of a byte in UTF-16 order. Characters of four bytes (F0 to
 * F4) are surrogate pairs in UTF-16, which sort before U+E000 to U+FFFF (lead
 * bytes EE and EF). */
static int utf16_rank(unsigned char c)
{
    if (c >= 0xf0)
        return 0x100 + c;
    return c >= 0xee ? 0x200 + c : c;
}

int text_utf16_compare(struct slice a, struct slice b)
{
    size_t shared = a.len < b.len ? a.len : b.len, i = 0;

    while (i < shared && a.at[i] == b.at[i])
        i++;
    if (i == shared)
        return a.len < b.len ? -1 : a.len > b.len;
    /* Two different bytes after a common prefix are either both lead bytes or
     * both continuation bytes, whose order utf16_rank() does not change. */
    return utf16_rank((unsigned char)a.at[i]) <
                   utf16_rank((unsigned char)b.at[i])
               ? -1
               : 1;
}

uint32_t text_decode(struct slice text, size_t *ret_len)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t len = utf8_length(text);
    uint32_t code_point;

    if (len == 0) { /* only for an invalid text, which callers exclude */
        *ret_len = 1;
        return REPLACEMENT;
    }
    code_point = (unsigned char)text.at[0] & lead_bits[len];
    for (size_t i = 1; i < len; i++)
        code_point = code_point << 6 | ((unsigned char)text.at[i] & 0x3f);
    *ret_len = len;
    return code_point;
}

size_t text_put(uint32_t code_point, char *to)
{
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = code_point < 0x80      ? 1
                 : code_point < 0x800   ? 2
                 : code_point < 0x10000 ? 3
                                        : 4;

    assert(
        code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff));
    for (size_t i = len; i-- > 1; code_point >>= 6)
        to[i] = (char)(0x80 | (code_point & 0x3f));
    to[0] = (char)(leads[len] | code_point);
    return len;
}

void text_encode(struct buf *to, uint32_t code_point)
{
    char bytes[TEXT_CHARACTER_MAX];

    buf_add(to, bytes, text_put(code_point, bytes));
}

/* URLs */

/* Is c unreserved in RFC 3986, section 2.3? */
static bool is_unreserved(char c)
{
    return is_word(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

void text_percent_encode(struct buf *to, struct slice text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t from = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};

        if (is_unreserved((char)c))
            continue;
        buf_add(to, text.at + from, i - from);
        buf_add(to, escaped, sizeof(escaped));
        from = i + 1;
    }
    if (from < text.len)
        buf_add(to, text.at + from, text.len - from);
}

/* Is each % followed by two hex digits? */
static bool is_percent_encoded(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '%' &&
            (text.len - i < 3 || hex_value(text.at[i + 1]) < 0 ||
                hex_value(text.at[i + 2]) < 0))
            return false;
    return true;
}

bool text_percent_decode(struct buf *to, struct slice text)
{
    if (!is_percent_encoded(text))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != '%') {
            buf_add_char(to, text.at[i]);
            continue;
        }
        buf_add_char(to,
            (char)(hex_value(text.at[i + 1]) << 4 | hex_value(text.at[i + 2])));
        i += 2;
    }
    return true;
}

/* For people */

bool text_is_hidden(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           code_point == 0x061c ||
           (code_point >= 0x200b && code_point <= 0x200f) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069) ||
           code_point == 0xfeff;
}

void text_visible(struct buf *to, struct slice text)
{
    while (text.len > 0) {
        size_t len = utf8_length(text);
        uint32_t code_point = len ? text_decode(text, &len) : 0;

        if (len == 0)
            buf_add_format(to, "\\x%02x", (unsigned char)text.at[0]);
        else if (!text_is_hidden(code_point))
            buf_add(to, text.at, len);
        else if (code_point < 0x80)
            buf_add_format(to, "\\x%02x", (unsigned)code_point);
        else
            buf_add_format(to, "\\u%04x", (unsigned)code_point);
        take(&text, len ? len : 1);
    }
}

/* The maximum number of continuation bytes of one character. */
#define CONTINUATION_MAX 3

bool text_mask_secrets(char *text)
{
    static const char *const names[] = {
        "AccountKey=", "SharedAccessSignature=", "?sig=", "&sig="};
    bool found = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (char *at = text; (at = strcasestr(at, names[i])) != NULL;)
            for (at += strlen(names[i]); *at && !strchr(";&'\" ", *at); at++) {
                *at = '*';
                found = true;
            }
    return found;
}

struct slice text_cut(struct slice text, size_t max_bytes)
{
    size_t len = max_bytes;

    if (text.len <= max_bytes)
        return text;
    while (len > 0 && max_bytes - len < CONTINUATION_MAX &&
           ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    return (struct slice){text.at, len};
}

void text_end_cut(char *text, size_t size)
{
    struct slice kept =
        text_cut((struct slice){text, size - 1}, size - sizeof("..."));

    memcpy(text + kept.len, "...", sizeof("..."));
}

void text_repair(struct buf *to, struct slice text)
{
    while (text.len > 0) {
        size_t len = utf8_length(text);

        if (len == 0)
            text_encode(to, 0xfffd);
        else
            buf_add(to, text.at, len);
        take(&text, len ? len : 1);
    }
}

void text_quote(struct buf *to, struct slice text)
{
    struct slice shown = text_cut(text, QUOTE_MAX_BYTES);

    buf_add_char(to, '\'');
    text_visible(to, shown);
    buf_add_text(to, shown.len < text.len ? "...'" : "'");
}

/* The maximum length of names that are compared, and so the number of columns
 * of the table in distance(). */
#define NEAREST_MAX 64

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Returns the edit distance (insert, delete, change, swap two neighbours) of
 * texts of at most NEAREST_MAX bytes. Only three rows of the table of the
 * standard algorithm are in memory.
 */
static size_t distance(struct slice a, struct slice b)
{
    size_t rows[3][NEAREST_MAX + 1];
    size_t *older = rows[0], *last = rows[1], *now = rows[2];

    for (size_t j = 0; j <= b.len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *next = older;

        now[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            bool same = a.at[i - 1] == b.at[j - 1];

            now[j] = least(last[j - 1] + !same, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a.at[i - 1] == b.at[j - 2] &&
                a.at[i - 2] == b.at[j - 1])
                now[j] = least(now[j], older[j - 2] + 1);
        }
        older = last;
        last = now;
        now = next;
    }
    return last[b.len];
}

const char *text_nearest(
    struct slice word, const char *const *names, size_t count)
{
    size_t allowed = word.len / 3 > 1 ? word.len / 3 : 1;
    const char *nearest = NULL;

    if (word.len == 0 || word.len > NEAREST_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct slice name = slice_of(names[i]);
        size_t edits;

        if (name.len == 0 || name.len > NEAREST_MAX)
            continue;
        edits = distance(word, name);
        if (edits > allowed || edits >= name.len)
            continue;
        nearest = names[i];
        if (edits == 0)
            break;
        allowed = edits - 1; /* a later name must be nearer than the name just
                                found */
    }
    return nearest;
}

/* Ids */

void text_hex(char *to, const unsigned char *bytes, size_t count)
{
    static const char DIGITS[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        to[2 * i] = DIGITS[bytes[i] >> 4];
        to[2 * i + 1] = DIGITS[bytes[i] & 0xf];
    }
    to[2 * count] = '\0';
}

bool text_is_guid(struct slice text)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

    if (text.len != sizeof(shape) - 1)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (shape[i] == '-' ? text.at[i] != '-' : hex_value(text.at[i]) < 0)
            return false;
    return true;
}

bool text_is_run_id(struct slice text)
{
    if (text.len < 1 || text.len > 128 || text.at[0] == '.')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!is_word(c) && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* Makes 16 random bytes with the version and variant bits of a random UUID. */
static void random_uuid(unsigned char to[16])
{
    platform_random(to, 16);
    to[6] = (unsigned char)((to[6] & 0x0f) | 0x40);
    to[8] = (unsigned char)((to[8] & 0x3f) | 0x80);
}

void text_random_id(char *to)
{
    unsigned char uuid[16];

    random_uuid(uuid);
    text_hex(to, uuid, sizeof(uuid));
}

void text_random_uuid(char *to)
{
    char id[33];

    text_random_id(id);
    snprintf(to, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16,
        id + 20);
}
