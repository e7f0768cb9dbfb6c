/* SPDX-License-Identifier: MIT */
/* JSON: what is taken is what RFC 8259 allows, and every text is kept. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/text.h"

#define DEPTH 12
#define OBJECT_MAX 64 /* members whose names the oracle compares */

/* ---- another reader, to compare with ---- */

struct reader {
    struct slice text;
    size_t at;
    bool flat;     /* nested values are refused */
    bool too_many; /* more members than it compares: it cannot say */
    struct arena *arena;
};

static bool value(struct reader *in, unsigned depth);

static int next(const struct reader *in)
{
    return in->at < in->text.len ? (unsigned char)in->text.at[in->at] : -1;
}

static void blanks(struct reader *in)
{
    while (next(in) == ' ' || next(in) == '\t' || next(in) == '\r' ||
           next(in) == '\n')
        in->at++;
}

static bool one(struct reader *in, char c)
{
    blanks(in);
    if (next(in) != c)
        return false;
    in->at++;
    return true;
}

static bool word(struct reader *in, const char *text)
{
    struct slice rest = {in->text.at + in->at, in->text.len - in->at};

    if (!slice_begins(rest, slice_of(text)))
        return false;
    in->at += strlen(text);
    return true;
}

static bool digits(struct reader *in)
{
    size_t from = in->at;

    while (next(in) >= '0' && next(in) <= '9')
        in->at++;
    return in->at > from;
}

static bool number(struct reader *in)
{
    (void)word(in, "-");
    if (!word(in, "0") && !digits(in))
        return false;
    if (word(in, ".") && !digits(in))
        return false;
    if (word(in, "e") || word(in, "E")) {
        if (!word(in, "+"))
            (void)word(in, "-");
        return digits(in);
    }
    return true;
}

static bool unit(struct reader *in, uint32_t *ret)
{
    char hex[5] = "";
    char *end;

    for (size_t i = 0; i < 4; i++) {
        if (next(in) < 0)
            return false;
        hex[i] = (char)next(in);
        in->at++;
    }
    if (strspn(hex, "0123456789abcdefABCDEF") != 4)
        return false;
    *ret = (uint32_t)strtoul(hex, &end, 16);
    return true;
}

static bool escape(struct reader *in, struct buf *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *found;
    uint32_t c, low;
    size_t back;

    if (next(in) <= 0)
        return false;
    found = strchr(from, next(in));
    if (found) {
        in->at++;
        buf_add_char(to, into[found - from]);
        return true;
    }
    if (!word(in, "u") || !unit(in, &c))
        return false;
    back = in->at;
    if (c >= 0xd800 && c < 0xdc00 && word(in, "\\u") && unit(in, &low) &&
        low >= 0xdc00 && low < 0xe000)
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    else
        in->at = back;
    text_encode(to, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return true;
}

/* The quote is next. */
static bool string(struct reader *in, struct buf *to)
{
    in->at++;
    while (next(in) != '"') {
        if (next(in) < 0x20)
            return false;
        if (word(in, "\\")) {
            if (!escape(in, to))
                return false;
        } else {
            buf_add_char(to, (char)next(in));
            in->at++;
        }
    }
    in->at++;
    return true;
}

static bool decoded(struct reader *in, struct slice *ret)
{
    struct buf text;
    bool good;

    buf_init(&text, 4 * in->text.len + 8);
    good = string(in, &text) && text_is_utf8(buf_slice(&text));
    *ret = arena_copy(in->arena, buf_slice(&text));
    buf_done(&text);
    return good;
}

static bool object(struct reader *in, unsigned depth)
{
    struct slice names[OBJECT_MAX];
    size_t count = 0;

    in->at++;
    if (one(in, '}'))
        return true;
    do {
        blanks(in);
        if (count == OBJECT_MAX) {
            in->too_many = true;
            return false;
        }
        if (next(in) != '"' || !decoded(in, &names[count]) ||
            (names[count].len > 0 &&
                memchr(names[count].at, '\0', names[count].len)))
            return false;
        for (size_t i = 0; i < count; i++)
            if (slice_equal(names[i], names[count]))
                return false;
        count++;
        if (!one(in, ':') || !value(in, depth))
            return false;
    } while (one(in, ','));
    return one(in, '}');
}

static bool array(struct reader *in, unsigned depth)
{
    in->at++;
    if (one(in, ']'))
        return true;
    do
        if (!value(in, depth))
            return false;
    while (one(in, ','));
    return one(in, ']');
}

/* depth: of containers that may still be opened. */
static bool value(struct reader *in, unsigned depth)
{
    struct slice ignored;

    blanks(in);
    switch (next(in)) {
    case '{':
        return depth > 0 && object(in, depth - 1);
    case '[':
        return depth > 0 && array(in, depth - 1);
    case '"':
        return decoded(in, &ignored);
    case 't':
        return word(in, "true");
    case 'f':
        return word(in, "false");
    case 'n':
        return word(in, "null");
    default:
        return number(in);
    }
}

static bool oracle(struct reader *in)
{
    if (!value(in, DEPTH))
        return false;
    blanks(in);
    return in->at == in->text.len;
}

/* ---- what is compared ---- */

static void check_value(const struct json *json, unsigned depth);

/* A value's own text is the same value. */
static void check_raw(const struct json *json, unsigned depth)
{
    struct json *again;

    FUZZ_CHECK(json_parse(json_raw(json), DEPTH, &again, NULL) == TW_OK);
    FUZZ_CHECK(json_type(again) == json_type(json));
    if (json_type(json) == JSON_STRING)
        FUZZ_SAME(json_string(again), json_string(json));
    if (json_type(json) == JSON_OBJECT || json_type(json) == JSON_ARRAY)
        FUZZ_CHECK(json_count(again) == json_count(json));
    if (depth < 2)
        check_value(again, depth);
    json_free(again);
}

/* A decoded text, written and read. */
static void check_string(struct slice text)
{
    struct json *json;
    struct buf written;

    buf_init(&written, 6 * text.len + 2);
    json_add_string(&written, text);
    FUZZ_CHECK(!written.overflow);
    FUZZ_CHECK(json_parse(buf_slice(&written), 1, &json, NULL) == TW_OK);
    FUZZ_CHECK(json_type(json) == JSON_STRING);
    FUZZ_SAME(json_string(json), text);
    FUZZ_SAME(json_raw(json), buf_slice(&written));
    json_free(json);
    buf_done(&written);
}

/* The same with nothing but escapes, as writers that keep to ASCII do. */
static void check_escaped(struct slice text)
{
    struct slice rest = text;
    struct json *json;
    struct buf written;

    buf_init(&written, 12 * text.len + 2);
    buf_add_char(&written, '"');
    while (rest.len > 0) {
        size_t len;
        uint32_t c = text_decode(rest, &len);

        if (c >= 0x10000) {
            buf_add_format(&written, "\\u%04x", 0xd800 + ((c - 0x10000) >> 10));
            c = 0xdc00 + (c & 0x3ff);
        }
        buf_add_format(&written, "\\u%04X", c);
        rest = (struct slice){rest.at + len, rest.len - len};
    }
    buf_add_char(&written, '"');
    FUZZ_CHECK(json_parse(buf_slice(&written), 1, &json, NULL) == TW_OK);
    FUZZ_SAME(json_string(json), text);
    json_free(json);
    buf_done(&written);
}

static void check_number(const struct json *json)
{
    struct slice raw = json_raw(json);
    int64_t number, again;
    bool whole = text_int64(raw, INT64_MIN, INT64_MAX, &again);

    FUZZ_CHECK(json_int64(json, &number) == whole);
    if (whole)
        FUZZ_CHECK(number == again);
}

static void check_value(const struct json *json, unsigned depth)
{
    for (size_t i = 0; json_type(json) == JSON_OBJECT && i < json_count(json);
         i++) {
        struct slice name = json_name(json, i);

        FUZZ_CHECK(json_get(json, name.at) == json_value(json, i));
        check_string(name);
        check_value(json_value(json, i), depth + 1);
    }
    for (size_t i = 0; json_type(json) == JSON_ARRAY && i < json_count(json);
         i++)
        check_value(json_at(json, i), depth + 1);
    if (json_type(json) == JSON_STRING)
        check_string(json_string(json));
    if (json_type(json) == JSON_NUMBER)
        check_number(json);
    if (depth < 2)
        check_raw(json, depth + 1);
}

static void try_document(struct slice text, struct arena *arena)
{
    struct reader reader = {.text = text, .arena = arena};
    bool expected = oracle(&reader);
    struct json *json;
    struct err err = {{0}};
    bool good = json_parse(text, DEPTH, &json, &err) == TW_OK;

    if (!reader.too_many)
        FUZZ_CHECK(good == expected);
    if (good)
        check_value(json, 0);
    else
        fuzz_said(&err);
    if (good)
        json_free(json);
}

/* The one object at the start: the same members as a tree of it has. */
static void try_flat(struct slice text, struct arena *arena)
{
    struct json_member *members;
    size_t count, end;
    struct json *json;
    struct err err = {{0}};

    if (json_flat_object(text, arena, arena, &members, &count, &end, &err) !=
        TW_OK) {
        fuzz_said(&err);
        return;
    }
    FUZZ_CHECK(end <= text.len);
    FUZZ_CHECK(
        json_parse((struct slice){text.at, end}, 1, &json, &err) == TW_OK);
    FUZZ_CHECK(json_count(json) == count);
    for (size_t i = 0; i < count; i++) {
        const struct json *child = json_value(json, i);

        FUZZ_SAME(members[i].name, json_name(json, i));
        FUZZ_SAME(members[i].raw, json_raw(child));
        FUZZ_CHECK(members[i].type == json_type(child));
        if (members[i].type == JSON_STRING)
            FUZZ_SAME(members[i].text, json_string(child));
    }
    json_free(json);
}

FUZZ_TARGET(json)
{
    struct slice text = fuzz_input(at, len);
    struct arena arena;
    struct fuzz_source in = {at, len, &arena};

    arena_init(&arena);
    try_document(text, &arena);
    try_flat(text, &arena);
    check_string(fuzz_text(&in, 200));
    in = (struct fuzz_source){at, len, &arena};
    check_escaped(fuzz_text(&in, 200));
    arena_done(&arena);
    return 0;
}
