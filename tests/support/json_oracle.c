/* SPDX-License-Identifier: MIT */
/* A simple reader that also writes down what it has read. */
#include "tests/support/json_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/text.h"

struct reader {
    struct slice text;
    size_t at;
    bool too_many; /* an object has more members than ORACLE_MAX_MEMBERS */
    struct arena arena;
    struct buf *to;
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

/* Reads true, false or null. */
static bool literal(struct reader *in, const char *text)
{
    buf_add_text(in->to, text);
    return word(in, text);
}

static bool digits(struct reader *in)
{
    size_t from = in->at;

    while (next(in) >= '0' && next(in) <= '9')
        in->at++;
    return in->at > from;
}

static bool number_text(struct reader *in)
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

static bool number(struct reader *in)
{
    size_t from = in->at;

    if (!number_text(in))
        return false;
    buf_add(in->to, in->text.at + from, in->at - from);
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

/* Reads the characters of a string up to its closing quote. */
static bool characters(struct reader *in, struct buf *to)
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

static void add_string(struct slice text, struct buf *to)
{
    buf_add_format(to, "%zu:", text.len);
    buf_add_slice(to, text);
}

static bool string(struct reader *in, struct slice *ret)
{
    struct buf text;
    bool good;

    buf_init(&text, 4 * in->text.len + 8);
    good = characters(in, &text) && text_is_utf8(buf_slice(&text));
    if (good)
        *ret = arena_copy(&in->arena, buf_slice(&text));
    if (good)
        add_string(*ret, in->to);
    buf_done(&text);
    return good;
}

static bool is_new_name(const struct slice *names, size_t count)
{
    if (names[count].len > 0 && memchr(names[count].at, '\0', names[count].len))
        return false;
    for (size_t i = 0; i < count; i++)
        if (slice_equal(names[i], names[count]))
            return false;
    return true;
}

static bool object(struct reader *in, unsigned depth)
{
    struct slice names[ORACLE_MAX_MEMBERS];
    size_t count = 0;

    in->at++;
    if (one(in, '}'))
        return true;
    do {
        blanks(in);
        in->too_many |= count == ORACLE_MAX_MEMBERS;
        if (in->too_many || next(in) != '"' || !string(in, &names[count]) ||
            !is_new_name(names, count))
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

static bool container(struct reader *in, unsigned depth)
{
    char open = (char)next(in);

    buf_add_char(in->to, open);
    if (depth == 0 || !(open == '{' ? object : array)(in, depth - 1))
        return false;
    buf_add_char(in->to, open == '{' ? '}' : ']');
    return true;
}

/* Reads a value. depth: how many levels of arrays and objects may still
 * begin. */
static bool value(struct reader *in, unsigned depth)
{
    struct slice ignored;

    blanks(in);
    buf_add_char(in->to, ' ');
    switch (next(in)) {
    case '{':
    case '[':
        return container(in, depth);
    case '"':
        return string(in, &ignored);
    case 't':
        return literal(in, "true");
    case 'f':
        return literal(in, "false");
    case 'n':
        return literal(in, "null");
    default:
        return number(in);
    }
}

enum oracle_answer oracle_read(
    struct slice text, unsigned max_depth, struct buf *to)
{
    struct reader in = {.text = text, .to = to};
    bool good;

    arena_init(&in.arena);
    good = value(&in, max_depth);
    blanks(&in);
    arena_done(&in.arena);
    if (in.too_many)
        return ORACLE_CANNOT_SAY;
    return good && in.at == text.len ? ORACLE_TAKES : ORACLE_REFUSES;
}

void oracle_describe(const struct json *json, struct buf *to)
{
    bool object = json_type(json) == JSON_OBJECT;

    buf_add_char(to, ' ');
    if (json_type(json) == JSON_STRING) {
        add_string(json_string(json), to);
        return;
    }
    if (!object && json_type(json) != JSON_ARRAY) {
        buf_add_slice(to, json_raw(json));
        return;
    }
    buf_add_char(to, object ? '{' : '[');
    for (size_t i = 0; i < json_count(json); i++) {
        if (object)
            add_string(json_name(json, i), to);
        oracle_describe(object ? json_value(json, i) : json_at(json, i), to);
    }
    buf_add_char(to, object ? '}' : ']');
}
