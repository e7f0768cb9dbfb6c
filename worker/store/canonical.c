/* SPDX-License-Identifier: MIT */
/* Order by name, and one spelling for each type. */
#include "worker/store/canonical.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/base/text.h"

/* ---- texts ---- */

/* A text whose escapes are being taken out. */
struct unescaping {
    struct slice left;
    struct buf *to;
};

/* Four hex digits, which JSON's reader has looked at. */
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

/* Pairs: a character, and the letter that stands for it behind a backslash. */
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

/* The escapes of one letter, and what they stand for. */
static void add_letter(struct unescaping *in)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

    for (size_t i = 0; i + 1 < sizeof(letters); i += 2)
        if (letters[i] == in->left.at[1])
            add_code_point(in->to, (unsigned char)letters[i + 1]);
    skip(in, 2);
}

/* json is a string that was read before: each of its escapes is whole. */
static struct slice plain_text(struct slice json, struct arena *arena)
{
    struct unescaping in = {json, NULL};
    const char *escape;
    struct slice ret;
    struct buf text;

    if (!memchr(json.at, '\\', json.len))
        return json;
    buf_init(&text, 3 * json.len); /* \b becomes \u0008 */
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

/* Nearly all values are spelled so already: those are not spelled again. */
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

/* "2024-01-01T00:00:00Z", or up to seven digits behind a point. */
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
    len = strlen(text_from_ticks(ticks, time)) - 1; /* without its Z */
    while (time[len - 1] == '0')
        len--;
    len -= time[len - 1] == '.';
    return arena_format(arena, "\"%.*sZ\"", (int)len, time);
}

static bool is_upper_hex(char c)
{
    return c >= 'A' && c <= 'F';
}

static struct slice plain_guid(struct slice json, struct arena *arena)
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
        return plain_guid(property->json, arena);
    case EDM_BINARY:
    case EDM_BOOLEAN:
        break;
    }
    return property->json; /* there is only one */
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
