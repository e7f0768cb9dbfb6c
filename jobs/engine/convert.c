/* SPDX-License-Identifier: MIT */
/*
 * Conversion between Edm types: one table of the 64 pairs, and functions that
 * convert a value. Each function finds out what the conversion loses, or why it
 * is impossible, and writes the JSON text of the result.
 */
#include "jobs/engine/convert.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/canonical.h"

/* One value during its conversion. */
struct passage {
    enum edm_type from, to;
    int64_t whole; /* the value of a Boolean (0 or 1), an integer or a DateTime
                    * (ticks) */
    double number; /* the value of a Double */
    struct slice text; /* the value of a String, Guid or Binary */
    struct arena *arena;
    struct slice json; /* the result, as JSON text */
    struct err *err;
};

/* ---- outcomes ---- */

/* Report that the value cannot be converted. `why` continues a message that
 * begins with "an Edm.X ". */
static enum convert_worth refuse(struct passage *on, const char *why)
{
    err_fail(on->err, TW_INVALID, "an %s %s", edm_type_name(on->from), why);
    return CONVERT_IMPOSSIBLE;
}

static enum convert_worth refuse_range(struct passage *on)
{
    err_fail(on->err, TW_INVALID, "an %s beyond the range of an %s",
        edm_type_name(on->from), edm_type_name(on->to));
    return CONVERT_IMPOSSIBLE;
}

static enum convert_worth lose(struct passage *on, const char *what)
{
    err_fail(on->err, TW_INVALID, "%s", what);
    return CONVERT_LOSSY;
}

/* ---- writing the result ---- */

static enum convert_worth put_plain(struct passage *on, const char *json)
{
    on->json = arena_copy(on->arena, slice_of(json));
    return CONVERT_EXACT;
}

/* Write text in quotes. Only for a text that needs no JSON escapes. */
static enum convert_worth put_quoted(struct passage *on, struct slice text)
{
    char *json = arena_alloc(on->arena, text.len + 3);

    json[0] = '"';
    if (text.len > 0)
        memcpy(json + 1, text.at, text.len);
    json[text.len + 1] = '"';
    on->json = (struct slice){json, text.len + 2};
    return CONVERT_EXACT;
}

static enum convert_worth put_boolean(struct passage *on, bool value)
{
    return put_plain(on, value ? "true" : "false");
}

/* Write an integer as the target type, which is Int32, Int64 or String. */
static enum convert_worth put_integer(struct passage *on, int64_t value)
{
    char digits[24];

    if (on->to == EDM_INT32 && (value < INT32_MIN || value > INT32_MAX))
        return refuse_range(on);
    snprintf(digits, sizeof(digits), "%" PRId64, value);
    if (on->to == EDM_INT32)
        return put_plain(on, digits);
    return put_quoted(on, slice_of(digits));
}

/* Write a time as the target type, which is DateTime or String. */
static enum convert_worth put_time(struct passage *on, int64_t ticks)
{
    char time[TEXT_TIME_MAX];

    return put_quoted(on, slice_of(text_from_ticks(ticks, time)));
}

/* ---- to Double ---- */

static enum convert_worth put_double(struct passage *on, double value)
{
    char text[CANONICAL_DOUBLE_MAX], json[CANONICAL_DOUBLE_MAX + 2];

    canonical_double(value, text);
    if (!isfinite(value))
        return put_quoted(on, slice_of(text));
    snprintf(json, sizeof(json), "%s%s", text,
        strpbrk(text, ".e") == NULL ? ".0" : "");
    return put_plain(on, json);
}

/* The first Double above the range of Int64. */
#define INT64_END 9223372036854775808.0

/* ---- from Boolean, Int32, Int64 ---- */

static enum convert_worth boolean_to_text(struct passage *on)
{
    return put_quoted(on, slice_of(on->whole ? "true" : "false"));
}

static enum convert_worth integer_to_boolean(struct passage *on)
{
    if (on->whole != 0 && on->whole != 1)
        return refuse(on, "that is neither 0 nor 1");
    return put_boolean(on, on->whole == 1);
}

static enum convert_worth integer_to_integer(struct passage *on)
{
    return put_integer(on, on->whole);
}

static enum convert_worth integer_to_double(struct passage *on)
{
    double value = (double)on->whole;

    put_double(on, value);
    /* Int64 values close to the maximum become the Double INT64_END, and a cast
     * of INT64_END to int64_t would overflow. */
    if (value >= INT64_END || (int64_t)value != on->whole)
        return lose(on, "its last digits are lost");
    return CONVERT_EXACT;
}

static enum convert_worth integer_to_time(struct passage *on)
{
    if (on->whole < TICKS_1601 || on->whole > TICKS_MAX)
        return refuse_range(on);
    return put_time(on, on->whole);
}

/* ---- from Double ---- */

static bool is_minus_zero(double value)
{
    return value == 0 && signbit(value);
}

static enum convert_worth double_to_boolean(struct passage *on)
{
    if (on->number != 0 && on->number != 1)
        return refuse(on, "that is neither 0 nor 1");
    put_boolean(on, on->number == 1);
    if (is_minus_zero(on->number))
        return lose(on, "the sign of its zero is lost");
    return CONVERT_EXACT;
}

static enum convert_worth double_to_integer(struct passage *on)
{
    double whole = trunc(on->number);

    if (isnan(whole))
        return refuse(on, "that is not a number");
    if (whole < -INT64_END || whole >= INT64_END)
        return refuse_range(on);
    if (put_integer(on, (int64_t)whole) == CONVERT_IMPOSSIBLE)
        return CONVERT_IMPOSSIBLE;
    if (whole != on->number)
        return lose(on, "its fraction is lost");
    if (is_minus_zero(whole))
        return lose(on, "the sign of its zero is lost");
    return CONVERT_EXACT;
}

static enum convert_worth double_to_text(struct passage *on)
{
    char text[CANONICAL_DOUBLE_MAX];

    return put_quoted(on, slice_of(canonical_double(on->number, text)));
}

/* ---- from DateTime, Guid, Binary ---- */

static enum convert_worth time_to_text(struct passage *on)
{
    return put_time(on, on->whole);
}

/* Converts a Guid to String, and a String to Guid. */
static enum convert_worth text_to_guid(struct passage *on)
{
    char lower[36];

    if (!text_is_guid(on->text))
        return refuse(on, "that is not a GUID (8-4-4-4-12 hexadecimal digits)");
    for (size_t i = 0; i < sizeof(lower); i++)
        lower[i] = (char)tolower((unsigned char)on->text.at[i]);
    return put_quoted(on, (struct slice){lower, sizeof(lower)});
}

static enum convert_worth binary_to_text(struct passage *on)
{
    if (on->text.len * 2 > ENTITY_MAX_VALUE_BYTES)
        return refuse(on, "whose base64 is longer than an Edm.String may be");
    return put_quoted(on, on->text);
}

/* ---- from String ---- */

static enum convert_worth text_to_binary(struct passage *on)
{
    struct buf bytes;
    bool is_base64;

    buf_init(&bytes, on->text.len);
    is_base64 = crypto_unbase64(&bytes, on->text);
    buf_done(&bytes);
    if (!is_base64)
        return refuse(on, "that is not base64");
    return put_quoted(on, on->text);
}

/* Accepts True and False too, because .NET writes Booleans in this form. */
static enum convert_worth text_to_boolean(struct passage *on)
{
    bool value = slice_is(on->text, "true") || slice_is(on->text, "True");

    if (!value && !slice_is(on->text, "false") && !slice_is(on->text, "False"))
        return refuse(on, "that is neither true nor false");
    return put_boolean(on, value);
}

static bool ends_with(struct slice text, const char *end)
{
    size_t len = strlen(end);

    return text.len >= len && memcmp(text.at + text.len - len, end, len) == 0;
}

static enum convert_worth text_to_time(struct passage *on)
{
    int64_t ticks;

    if (!text_ticks(on->text, &ticks))
        return refuse(on, "that is not a time such as 2024-01-01T00:00:00Z");
    if (ticks < TICKS_1601)
        return refuse_range(on);
    put_time(on, ticks);
    if (!ends_with(on->text, "Z") && !ends_with(on->text, "+00:00"))
        return lose(on, "its offset from UTC is lost");
    return CONVERT_EXACT;
}

static struct slice without_minus(struct slice text)
{
    if (text.len > 0 && text.at[0] == '-')
        return (struct slice){text.at + 1, text.len - 1};
    return text;
}

static bool are_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return text.len > 0;
}

static enum convert_worth text_to_integer(struct passage *on)
{
    struct slice digits = without_minus(on->text);
    int64_t value;

    if (!are_digits(digits))
        return refuse(on, "that is not an integer");
    if (!text_int64(on->text, INT64_MIN, INT64_MAX, &value))
        return refuse_range(on);
    if (put_integer(on, value) == CONVERT_IMPOSSIBLE)
        return CONVERT_IMPOSSIBLE;
    if (digits.len > 1 && digits.at[0] == '0')
        return lose(on, "its leading zeros are lost");
    if (value == 0 && digits.len < on->text.len)
        return lose(on, "the sign of its zero is lost");
    return CONVERT_EXACT;
}

/* Returns the exponent of a JSON number. For an exponent beyond +-INT_MAX / 2
 * the result is INT_MAX / 2, which no Double has. */
static int exponent_of(struct slice text)
{
    int64_t exponent;

    if (text.at[0] == '+')
        text = (struct slice){text.at + 1, text.len - 1};
    if (!text_int64(text, -INT_MAX / 2, INT_MAX / 2, &exponent))
        return INT_MAX / 2;
    return (int)exponent;
}

/* Store the digit number `index`, if there is room for it. digits->count
 * becomes the number of digits up to the last one that is not 0, or
 * CANONICAL_DOUBLE_DIGITS + 1 if there are too many. */
static void add_digit(struct canonical_digits *digits, int index, char digit)
{
    if (index < CANONICAL_DOUBLE_DIGITS)
        digits->at[index] = digit;
    if (digit != '0')
        digits->count = index < CANONICAL_DOUBLE_DIGITS
                            ? index + 1
                            : CANONICAL_DOUBLE_DIGITS + 1;
}

/* *ret becomes the digits of a JSON number, without the zeros before and after
 * them. */
static void digits_of(struct slice text, struct canonical_digits *ret)
{
    bool in_fraction = false;
    int index = 0;
    size_t i = 0;

    *ret = (struct canonical_digits){0};
    for (; i < text.len && text.at[i] != 'e' && text.at[i] != 'E'; i++) {
        char c = text.at[i];

        if (c == '.')
            in_fraction = true;
        if (c == '.' || c == '-')
            continue;
        if (index > 0 || c != '0')
            add_digit(ret, index++, c);
        if (in_fraction)
            ret->point -= index == 0;
        else
            ret->point += index > 0;
    }
    if (i < text.len)
        ret->point +=
            exponent_of((struct slice){text.at + i + 1, text.len - i - 1});
}

/*
 * Does the JSON number in text have the same digits as the shortest text of
 * value?
 */
static bool says(struct slice text, double value)
{
    struct canonical_digits said, kept;

    digits_of(text, &said);
    canonical_digits(fabs(value), &kept);
    return said.count == kept.count &&
           (said.count == 0 ||
               (said.point == kept.point &&
                   memcmp(said.at, kept.at, (size_t)kept.count) == 0));
}

static bool special_of(struct slice text, double *ret)
{
    static const struct {
        const char *text;
        double value;
    } specials[] = {
        {"NaN", (double)NAN},
        {"Infinity", (double)INFINITY},
        {"-Infinity", -(double)INFINITY},
    };

    for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
        if (slice_is(text, specials[i].text)) {
            *ret = specials[i].value;
            return true;
        }
    }
    return false;
}

static enum convert_worth text_to_double(struct passage *on)
{
    double value;

    if (special_of(on->text, &value))
        return put_double(on, value);
    if (!text_double(on->text, &value))
        return refuse(
            on, "that is not a number, or not in the range of an Edm.Double");
    put_double(on, value);
    if (!says(on->text, value))
        return lose(on, "some of its digits are lost");
    return CONVERT_EXACT;
}

/* ---- the table ---- */

#define ORDER "the order of the bytes is not defined"
#define ONE_OR_ZERO "0 is false and 1 is true; other numbers are refused"
#define NUMBER_OF_BOOLEAN "false is 0 and true is 1"
#define DECIMAL "its decimal digits"
#define CUT "the fraction is cut off; NaN and numbers out of range are refused"
#define STRICT                                                                 \
    "only digits, after a minus if negative; leading zeros and the minus of "  \
    "-0 are lost"

/* All conversions, as ways[from][to]. go is NULL if both types are the same, or
 * if the conversion is impossible. */
static const struct {
    struct convert_way way;
    enum convert_worth (*go)(struct passage *on);
} ways[CONVERT_TYPES][CONVERT_TYPES] = {
#define SAME                                                                   \
    {                                                                          \
        {CONVERT_EXACT, "the same"}, NULL                                      \
    }
#define EXACT(how, go)                                                         \
    {                                                                          \
        {CONVERT_EXACT, how}, go                                               \
    }
#define LOSSY(how, go)                                                         \
    {                                                                          \
        {CONVERT_LOSSY, how}, go                                               \
    }
#define NEVER(why)                                                             \
    {                                                                          \
        {CONVERT_IMPOSSIBLE, why}, NULL                                        \
    }
    [EDM_BINARY] =
        {
            [EDM_BINARY] = SAME,
            [EDM_BOOLEAN] = NEVER("bytes are not a truth value"),
            [EDM_DATETIME] = NEVER("bytes are not a time"),
            [EDM_DOUBLE] = NEVER(ORDER),
            [EDM_GUID] = NEVER(ORDER),
            [EDM_INT32] = NEVER(ORDER),
            [EDM_INT64] = NEVER(ORDER),
            [EDM_STRING] =
                EXACT("its base64, of at most 24,576 bytes", binary_to_text),
        },
    [EDM_BOOLEAN] =
        {
            [EDM_BINARY] = NEVER("a truth value has no bytes"),
            [EDM_BOOLEAN] = SAME,
            [EDM_DATETIME] = NEVER("a truth value is not a time"),
            [EDM_DOUBLE] = EXACT(NUMBER_OF_BOOLEAN, integer_to_double),
            [EDM_GUID] = NEVER("a truth value is not a Guid"),
            [EDM_INT32] = EXACT(NUMBER_OF_BOOLEAN, integer_to_integer),
            [EDM_INT64] = EXACT(NUMBER_OF_BOOLEAN, integer_to_integer),
            [EDM_STRING] = EXACT("true or false", boolean_to_text),
        },
    [EDM_DATETIME] =
        {
            [EDM_BINARY] = NEVER(ORDER),
            [EDM_BOOLEAN] = NEVER("a time is not a truth value"),
            [EDM_DATETIME] = SAME,
            [EDM_DOUBLE] = NEVER("ticks have more digits than a Double"),
            [EDM_GUID] = NEVER("a time is not a Guid"),
            [EDM_INT32] = NEVER("ticks need 64 bits"),
            [EDM_INT64] = EXACT(
                "ticks since 0001-01-01, as .NET has them", integer_to_integer),
            [EDM_STRING] =
                EXACT("2024-01-01T00:00:00.0000000Z, always seven digits",
                    time_to_text),
        },
    [EDM_DOUBLE] =
        {
            [EDM_BINARY] = NEVER(ORDER),
            [EDM_BOOLEAN] =
                LOSSY(ONE_OR_ZERO "; -0 loses its sign", double_to_boolean),
            [EDM_DATETIME] = NEVER("ticks have more digits than a Double"),
            [EDM_DOUBLE] = SAME,
            [EDM_GUID] = NEVER("a number is not a Guid"),
            [EDM_INT32] = LOSSY(CUT, double_to_integer),
            [EDM_INT64] = LOSSY(CUT, double_to_integer),
            [EDM_STRING] =
                EXACT("the fewest digits that read back the same, or NaN, "
                      "Infinity, -Infinity",
                    double_to_text),
        },
    [EDM_GUID] =
        {
            [EDM_BINARY] = NEVER(ORDER),
            [EDM_BOOLEAN] = NEVER("a Guid is not a truth value"),
            [EDM_DATETIME] = NEVER("a Guid is not a time"),
            [EDM_DOUBLE] = NEVER("a Guid is not a number"),
            [EDM_GUID] = SAME,
            [EDM_INT32] = NEVER("a Guid is not a number"),
            [EDM_INT64] = NEVER("a Guid is not a number"),
            [EDM_STRING] = EXACT(
                "8-4-4-4-12 hexadecimal digits in lower case", text_to_guid),
        },
    [EDM_INT32] =
        {
            [EDM_BINARY] = NEVER(ORDER),
            [EDM_BOOLEAN] = EXACT(ONE_OR_ZERO, integer_to_boolean),
            [EDM_DATETIME] = NEVER("ticks need 64 bits"),
            [EDM_DOUBLE] = EXACT("the same number", integer_to_double),
            [EDM_GUID] = NEVER("a number is not a Guid"),
            [EDM_INT32] = SAME,
            [EDM_INT64] = EXACT("the same number", integer_to_integer),
            [EDM_STRING] = EXACT(DECIMAL, integer_to_integer),
        },
    [EDM_INT64] =
        {
            [EDM_BINARY] = NEVER(ORDER),
            [EDM_BOOLEAN] = EXACT(ONE_OR_ZERO, integer_to_boolean),
            [EDM_DATETIME] =
                EXACT("ticks since 0001-01-01, of the years 1601 to 9999",
                    integer_to_time),
            [EDM_DOUBLE] =
                LOSSY("the nearest Double; beyond 2^53 some integers have no "
                      "exact Double",
                    integer_to_double),
            [EDM_GUID] = NEVER("a number is not a Guid"),
            [EDM_INT32] =
                EXACT("the same number; a number out of range is refused",
                    integer_to_integer),
            [EDM_INT64] = SAME,
            [EDM_STRING] = EXACT(DECIMAL, integer_to_integer),
        },
    [EDM_STRING] =
        {
            [EDM_BINARY] =
                EXACT("strict base64, with its padding", text_to_binary),
            [EDM_BOOLEAN] =
                EXACT("true, false, True or False", text_to_boolean),
            [EDM_DATETIME] = LOSSY(
                "2024-01-01T00:00:00Z with up to seven fractional digits; a "
                "time with an offset is converted to UTC, and the offset is "
                "lost",
                text_to_time),
            [EDM_DOUBLE] =
                LOSSY("a JSON number, NaN, Infinity or -Infinity; digits that "
                      "a Double has no room for are lost",
                    text_to_double),
            [EDM_GUID] = EXACT(
                "8-4-4-4-12 hexadecimal digits of either case", text_to_guid),
            [EDM_INT32] = LOSSY(STRICT, text_to_integer),
            [EDM_INT64] = LOSSY(STRICT, text_to_integer),
            [EDM_STRING] = SAME,
        },
};

const struct convert_way *convert_way(enum edm_type from, enum edm_type to)
{
    return &ways[from][to].way;
}

/* ---- converting a value ---- */

static enum convert_worth go(struct passage *on)
{
    const struct convert_way *way = convert_way(on->from, on->to);

    if (ways[on->from][on->to].go != NULL)
        return ways[on->from][on->to].go(on);
    err_fail(on->err, TW_INVALID, "an %s cannot become an %s: %s",
        edm_type_name(on->from), edm_type_name(on->to), way->how);
    return CONVERT_IMPOSSIBLE;
}

static bool read_value(const struct property *from, struct passage *on)
{
    bool value;

    switch (from->type) {
    case EDM_BOOLEAN:
        on->whole = property_boolean(from, &value) && value;
        return true;
    case EDM_INT32:
    case EDM_INT64:
        return property_integer(from, &on->whole);
    case EDM_DATETIME:
        return property_ticks(from, &on->whole);
    case EDM_DOUBLE:
        return property_double(from, &on->number);
    case EDM_BINARY:
    case EDM_GUID:
    case EDM_STRING:
        return property_peek_text(from, on->arena, &on->text);
    }
    return false;
}

enum convert_worth convert_property(const struct property *from,
    enum edm_type to, struct arena *arena, struct property *ret,
    struct err *err)
{
    struct passage on = {
        .from = from->type, .to = to, .arena = arena, .err = err};
    enum convert_worth worth;

    if (from->type == to) {
        *ret = *from;
        return CONVERT_EXACT;
    }
    if (!read_value(from, &on))
        return refuse(&on, "whose value cannot be read");
    worth = go(&on);
    if (worth != CONVERT_IMPOSSIBLE)
        *ret = (struct property){from->name, to, on.json};
    return worth;
}

static enum convert_worth text_to_text(struct passage *on)
{
    struct buf json;

    if (!text_is_utf8(on->text))
        return refuse(on, "that is not UTF-8");
    buf_init(&json, on->text.len * 6 + 2);
    json_add_string(&json, on->text);
    on->json = arena_copy(on->arena, buf_slice(&json));
    buf_done(&json);
    return CONVERT_EXACT;
}

enum tw_err convert_text(struct slice name, struct slice text, enum edm_type to,
    struct arena *arena, struct property *ret, struct err *err)
{
    struct passage on = {
        .from = EDM_STRING, .to = to, .text = text, .arena = arena, .err = err};
    enum convert_worth worth = to == EDM_STRING ? text_to_text(&on) : go(&on);

    if (worth != CONVERT_EXACT)
        return TW_INVALID;
    *ret = (struct property){name, to, on.json};
    return TW_OK;
}
