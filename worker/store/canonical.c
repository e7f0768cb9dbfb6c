/* SPDX-License-Identifier: MIT */
/* Orders properties by name, and spells each type in one way. */
#include "worker/store/canonical.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/text.h"

/* ---- texts ---- */

/* A text whose escapes are being decoded. */
struct unescaping {
    struct slice left;
    struct buf *to;
};

/* Returns the value of four hex digits, which the JSON reader has checked. */
static uint32_t hex4(const char *at)
{
    const char digits[] = {at[0], at[1], at[2], at[3], '\0'};

    return (uint32_t)strtoul(digits, NULL, 16);
}

static uint32_t unit_at(struct slice text, size_t at)
{
    if (text.len < at + 6 || text.at[at] != '\\' || text.at[at + 1] != 'u')
        return 0;
    return hex4(text.at + at + 2);
}

static void skip(struct unescaping *in, size_t len)
{
    in->left.at += len;
    in->left.len -= len;
}

/* Pairs: a character, and the letter that denotes it after a backslash. */
static const char SHORT[] = "\"\"\\\\\nn\rr\tt";

static void add_code_point(struct buf *to, uint32_t code_point)
{
    for (size_t i = 0; i + 1 < sizeof(SHORT); i += 2)
        if (code_point == (unsigned char)SHORT[i]) {
            buf_add_format(to, "\\%c", SHORT[i + 1]);
            return;
        }
    if (code_point < 0x20)
        buf_add_format(to, "\\u%04" PRIx32, code_point);
    else
        text_encode(to, code_point);
}

static void add_unit(struct unescaping *in)
{
    uint32_t high = unit_at(in->left, 0), low = unit_at(in->left, 6);

    skip(in, 6);
    if (high < 0xD800 || high > 0xDFFF) {
        add_code_point(in->to, high);
    } else if (high < 0xDC00 && low >= 0xDC00 && low <= 0xDFFF) {
        skip(in, 6);
        text_encode(in->to, 0x10000 + ((high - 0xD800) << 10) + low - 0xDC00);
    } else {
        buf_add_format(in->to, "\\u%04" PRIx32, high);
    }
}

/* Decodes an escape of one letter. */
static void add_letter(struct unescaping *in)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

    for (size_t i = 0; i + 1 < sizeof(letters); i += 2)
        if (letters[i] == in->left.at[1])
            add_code_point(in->to, (unsigned char)letters[i + 1]);
    skip(in, 2);
}

/* Returns the canonical spelling of a JSON string. The JSON reader has accepted
 * the string, so its escapes are complete. */
static struct slice plain_text(struct slice json, struct arena *arena)
{
    struct unescaping in = {json, NULL};
    const char *escape;
    struct slice ret;
    struct buf text;

    if (!memchr(json.at, '\\', json.len))
        return json;
    buf_init(&text, 3 * json.len); /* the longest growth: \b becomes \u0008 */
    in.to = &text;
    while ((escape = memchr(in.left.at, '\\', in.left.len)) != NULL) {
        size_t before = (size_t)(escape - in.left.at);

        buf_add(&text, in.left.at, before);
        skip(&in, before);
        if (in.left.at[1] == 'u')
            add_unit(&in);
        else
            add_letter(&in);
    }
    buf_add_slice(&text, in.left);
    ret = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return ret;
}

/* ---- other values ---- */

/* Returns the canonical spelling of an Int32. Nearly all values are canonical
 * already. This function and those below return such a value unchanged. */
static struct slice plain_int32(struct slice json)
{
    return slice_is(json, "-0") ? slice_of("0") : json;
}

static struct slice plain_int64(
    const struct property *property, struct arena *arena)
{
    const char *digits = property->json.at + 1;
    int64_t value = 0;

    digits += *digits == '-';
    if (*digits != '0' || slice_is(property->json, "\"0\""))
        return property->json;
    (void)property_int64(property, &value);
    return arena_format(arena, "\"%" PRId64 "\"", value);
}

static struct slice plain_double(
    const struct property *property, struct arena *arena)
{
    struct entity one = {0};
    double value = 0;

    (void)property_double(property, &value);
    entity_set_double(&one, arena, "", value);
    return one.properties[0].json;
}

/* Returns the canonical text of a time: "2024-01-01T00:00:00Z", or with up to
 * seven digits after a point. */
static struct slice plain_time(
    const struct property *property, struct arena *arena)
{
    struct slice json = property->json;
    char time[TEXT_TIME_MAX], last = json.at[json.len - 3];
    int64_t ticks = 0;
    size_t len;

    if (!memchr(json.at, '.', json.len) || (last != '0' && last != '.'))
        return json;
    (void)property_ticks(property, &ticks);
    len = strlen(text_from_ticks(ticks, time)) - 1; /* length without the Z */
    while (time[len - 1] == '0')
        len--;
    len -= time[len - 1] == '.';
    return arena_format(arena, "\"%.*sZ\"", (int)len, time);
}

static bool is_upper_hex(char c)
{
    return c >= 'A' && c <= 'F';
}

/* Returns json with the hexadecimal digits A to F in lower case. */
static struct slice lower_hex(struct slice json, struct arena *arena)
{
    size_t i = 0;
    char *at;

    while (i < json.len && !is_upper_hex(json.at[i]))
        i++;
    if (i == json.len)
        return json;
    json = arena_copy(arena, json);
    at = (char *)(uintptr_t)json.at;
    for (; i < json.len; i++)
        if (is_upper_hex(at[i]))
            at[i] = (char)(at[i] - 'A' + 'a');
    return json;
}

static struct slice plain(const struct property *property, struct arena *arena)
{
    switch (property->type) {
    case EDM_STRING:
        return plain_text(property->json, arena);
    case EDM_INT32:
        return plain_int32(property->json);
    case EDM_INT64:
        return plain_int64(property, arena);
    case EDM_DOUBLE:
        return plain_double(property, arena);
    case EDM_DATETIME:
        return plain_time(property, arena);
    case EDM_GUID:
        return lower_hex(property->json, arena);
    case EDM_BINARY:
    case EDM_BOOLEAN:
        break;
    }
    return property->json; /* these types have only one spelling */
}

/* ---- the digits of a Double ---- */

static double value_of(const struct canonical_digits *digits)
{
    char text[CANONICAL_DOUBLE_MAX];

    snprintf(text, sizeof(text), "0.%se%d", digits->at, digits->point);
    return strtod(text, NULL);
}

/* Finds the decimal number of count digits that is nearest to value. */
static void round_to(double value, int count, struct canonical_digits *ret)
{
    char text[CANONICAL_DOUBLE_MAX]; /* 1.2345e+06 */

    snprintf(text, sizeof(text), "%.*e", count - 1, value);
    ret->at[0] = text[0];
    memcpy(ret->at + 1, text + 2, (size_t)(count - 1));
    ret->at[count] = '\0';
    ret->count = count;
    ret->point = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
}

/* Adds 1 to the last digit. Do the digits then read back as value? False also
 * if the last digit is 9, because the sum would be a number with fewer digits.
 */
static bool is_next(double value, struct canonical_digits *digits)
{
    char *last = &digits->at[digits->count - 1];

    if (*last == '9')
        return false;
    ++*last;
    return value_of(digits) == value;
}

/*
 * Finds the shortest digits of a Double. The next Double above a power of two
 * is twice as far away as the next one below. So, of all decimal numbers of one
 * length, the nearest to a power of two may read back as the Double below that
 * power, while the next higher decimal number of that length reads back as the
 * power itself.
 */
void canonical_digits(double value, struct canonical_digits *ret)
{
    *ret = (struct canonical_digits){0};
    for (int count = 1; value > 0 && count <= CANONICAL_DOUBLE_DIGITS;
         count++) {
        round_to(value, count, ret);
        if (value_of(ret) == value || is_next(value, ret))
            return;
    }
}

/* Writes the digits as JavaScript does: with an exponent if the number is below
 * 1e-6, or is 1e21 or more. */
static void lay_out(
    const struct canonical_digits *digits, char *to, size_t room)
{
    static const char zeros[] = "00000000000000000000";
    int point = digits->point, count = digits->count;

    if (point > 21 || point < -5)
        snprintf(to, room, "%c%s%se%+d", digits->at[0], count > 1 ? "." : "",
            digits->at + 1, point - 1);
    else if (point <= 0)
        snprintf(to, room, "0.%.*s%s", -point, zeros, digits->at);
    else if (point >= count)
        snprintf(to, room, "%s%.*s", digits->at, point - count, zeros);
    else
        snprintf(to, room, "%.*s.%s", point, digits->at, digits->at + point);
}

const char *canonical_double(double value, char *to)
{
    struct canonical_digits digits;
    const char *sign = signbit(value) ? "-" : "";
    char body[CANONICAL_DOUBLE_MAX - 1];

    if (isnan(value)) {
        snprintf(to, CANONICAL_DOUBLE_MAX, "NaN");
    } else if (isinf(value)) {
        snprintf(to, CANONICAL_DOUBLE_MAX, "%sInfinity", sign);
    } else if (value == 0) {
        snprintf(to, CANONICAL_DOUBLE_MAX, "%s0", sign);
    } else {
        canonical_digits(fabs(value), &digits);
        lay_out(&digits, body, sizeof(body));
        snprintf(to, CANONICAL_DOUBLE_MAX, "%s%s", sign, body);
    }
    return to;
}

/* ---- the text of a value ---- */

static bool double_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    char text[CANONICAL_DOUBLE_MAX];
    double value;

    if (!property_double(property, &value))
        return false;
    *ret = arena_copy(arena, slice_of(canonical_double(value, text)));
    return true;
}

static bool time_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    char text[TEXT_TIME_MAX];
    int64_t ticks;

    if (!property_ticks(property, &ticks))
        return false;
    *ret = arena_copy(arena, slice_of(text_from_ticks(ticks, text)));
    return true;
}

static bool integer_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    int64_t value;

    if (!property_integer(property, &value))
        return false;
    *ret = arena_format(arena, "%" PRId64, value);
    return true;
}

static bool guid_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    struct slice text;

    if (!property_peek_text(property, arena, &text) || !text_is_guid(text))
        return false;
    *ret = lower_hex(text, arena);
    return true;
}

bool canonical_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    switch (property->type) {
    case EDM_DOUBLE:
        return double_text(property, arena, ret);
    case EDM_DATETIME:
        return time_text(property, arena, ret);
    case EDM_INT32:
    case EDM_INT64:
        return integer_text(property, arena, ret);
    case EDM_GUID:
        return guid_text(property, arena, ret);
    case EDM_BOOLEAN:
        *ret = property->json;
        return true;
    case EDM_BINARY: /* base64 is parsed strictly: there is only one spelling */
    case EDM_STRING:
        return property_peek_text(property, arena, ret);
    }
    return false;
}

/* ---- the whole ---- */

static int compare_names(const void *a, const void *b)
{
    const struct property *one = a, *other = b;

    return slice_compare(one->name, other->name);
}

static bool is_ordered(const struct entity *entity)
{
    for (size_t i = 1; i < entity->property_count; i++)
        if (compare_names(&entity->properties[i - 1], &entity->properties[i]) >
            0)
            return false;
    return true;
}

void canonical_entity(
    const struct entity *from, struct arena *arena, struct entity *ret)
{
    size_t count = from->property_count;
    struct property *list = arena_alloc(arena, (count + 1) * sizeof(*list));

    for (size_t i = 0; i < count; i++)
        list[i] = (struct property){from->properties[i].name,
            from->properties[i].type, plain(&from->properties[i], arena)};
    *ret = *from;
    ret->properties = list;
    if (!is_ordered(ret))
        qsort(list, count, sizeof(*list), compare_names);
}
