/* SPDX-License-Identifier: MIT */
/* JSON: the reader accepts exactly what RFC 8259 allows, and every text is
 * kept. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/json_oracle.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define DEPTH 12

static void check_value(const struct json *json, unsigned depth);

/* The text of a value, read alone, must be the same value. */
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

/* Writes a decoded text as a JSON string and reads it back. */
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

/* The same with every character escaped, as some writers do. */
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

static void check_name(const struct json *object, size_t index)
{
    struct slice name = json_name(object, index);
    char *text = mem_text(name.at, name.len);

    FUZZ_CHECK(json_get(object, text) == json_value(object, index));
    mem_free(text);
}

static void check_value(const struct json *json, unsigned depth)
{
    for (size_t i = 0; json_type(json) == JSON_OBJECT && i < json_count(json);
         i++) {
        struct slice name = json_name(json, i);

        check_name(json, i);
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

/* The worker's reader and the oracle must accept the same texts, and read the
 * same from them. */
static void try_document(struct slice text)
{
    struct buf expected, described;
    enum oracle_answer answer;
    struct json *json;
    struct err err = {{0}};
    bool good = json_parse(text, DEPTH, &json, &err) == TW_OK;

    /* a name of one byte becomes longer, as its length is written before it */
    buf_init(&expected, 8 * text.len + 64);
    buf_init(&described, 8 * text.len + 64);
    answer = oracle_read(text, DEPTH, &expected);
    if (answer != ORACLE_CANNOT_SAY)
        FUZZ_CHECK(good == (answer == ORACLE_TAKES));
    if (good) {
        oracle_describe(json, &described);
        FUZZ_CHECK(!described.overflow);
        if (answer == ORACLE_TAKES)
            FUZZ_SAME(buf_slice(&described), buf_slice(&expected));
        check_value(json, 0);
        json_free(json);
    } else {
        fuzz_said(&err);
    }
    buf_done(&expected);
    buf_done(&described);
}

static void check_member(const struct json_member *member, struct slice text,
    const struct json *child, struct arena *arena)
{
    struct slice unquoted;

    FUZZ_SAME(member->raw, json_raw(child));
    FUZZ_CHECK(member->raw.at > text.at && member->name_at >= text.at);
    FUZZ_CHECK(*member->name_at == '"');
    FUZZ_CHECK(member->type == json_type(child));
    FUZZ_CHECK(json_unquote(member->raw, arena, &unquoted) ==
               (member->type == JSON_STRING));
    if (member->type != JSON_STRING)
        return;
    FUZZ_SAME(json_member_text(member, arena), json_string(child));
    FUZZ_SAME(unquoted, json_string(child));
}

/* Reads the object at the start of the text with the flat reader: its members
 * must be those of the same object read as a tree. */
static void try_flat(struct slice text, struct arena *arena)
{
    struct json_members members;
    size_t end;
    struct json *json;
    struct err err = {{0}};

    json_members_init(&members);
    if (json_flat_object(text, NULL, arena, &members, &end, &err) != TW_OK) {
        FUZZ_CHECK(members.count == 0);
        json_members_done(&members);
        fuzz_said(&err);
        return;
    }
    FUZZ_CHECK(end <= text.len);
    FUZZ_CHECK(
        json_parse((struct slice){text.at, end}, 1, &json, &err) == TW_OK);
    FUZZ_CHECK(json_count(json) == members.count);
    for (size_t i = 0; i < members.count; i++) {
        FUZZ_SAME(members.list[i].name, json_name(json, i));
        FUZZ_CHECK(json_members_find(&members, json_name(json, i)) == i);
        check_member(&members.list[i], text, json_value(json, i), arena);
    }
    json_free(json);
    json_members_done(&members);
}

/* Reads an object in which names that begin with "od" may be repeated. No other
 * name may be there twice. */
static void try_annotated(struct slice text, struct arena *arena)
{
    struct json_members members;
    struct err err = {{0}};
    size_t end;

    json_members_init(&members);
    if (json_flat_object(text, "od", arena, &members, &end, &err) == TW_OK)
        for (size_t i = 0; i < members.count; i++)
            FUZZ_CHECK(json_members_find(&members, members.list[i].name) == i);
    else
        fuzz_said(&err);
    json_members_done(&members);
}

FUZZ_TARGET(json)
{
    try_document(text);
    try_flat(text, in->arena);
    try_annotated(text, in->arena);
    check_string(fuzz_text(in, 200));
    fuzz_again(in);
    check_escaped(fuzz_text(in, 200));
}
