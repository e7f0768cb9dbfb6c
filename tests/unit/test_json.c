/* SPDX-License-Identifier: MIT */
/* JSON: what is read and how exactly, what is refused, what is written. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define WHOLE(text) ((struct slice){text, sizeof(text) - 1})

static struct json *parse(struct slice text, unsigned max_depth)
{
    struct json *json = NULL;
    struct err err = {0};

    if (json_parse(text, max_depth, &json, &err) != TW_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return json;
}

static void assert_slice(struct slice slice, const char *text)
{
    if (!slice_is(slice, text))
        fail_msg("'%.*s' is not '%s'", SLICE_ARG(slice), text);
}

static void every_type_is_read_with_its_exact_text(void **state)
{
    struct json *json = parse(
        slice_of(" {\"n\": null, \"t\":true,\"f\" : false, \"i\": -12,\n"
                 "\t\"d\": 1.0E+2, \"s\": \"a\\u0062\", \"a\": [1, [ ]],\r"
                 " \"o\": {\"x\":{}}} "),
        3);
    static const struct {
        const char *name, *raw;
        enum json_type type;
    } wanted[] = {
        {"n", "null", JSON_NULL},
        {"t", "true", JSON_BOOLEAN},
        {"f", "false", JSON_BOOLEAN},
        {"i", "-12", JSON_NUMBER},
        {"d", "1.0E+2", JSON_NUMBER},
        {"s", "\"a\\u0062\"", JSON_STRING},
        {"a", "[1, [ ]]", JSON_ARRAY},
        {"o", "{\"x\":{}}", JSON_OBJECT},
    };

    (void)state;
    assert_int_equal(json_type(json), JSON_OBJECT);
    assert_int_equal(json_count(json), 8);
    for (size_t i = 0; i < 8; i++) {
        const struct json *value = json_value(json, i);

        assert_slice(json_name(json, i), wanted[i].name);
        assert_slice(json_raw(value), wanted[i].raw);
        assert_int_equal(json_type(value), wanted[i].type);
        assert_ptr_equal(json_get(json, wanted[i].name), value);
    }
    assert_true(json_boolean(json_get(json, "t")));
    assert_false(json_boolean(json_get(json, "f")));
    assert_slice(json_string(json_get(json, "s")), "ab");
    assert_null(json_get(json, "none"));
    assert_null(json_get(json_get(json, "a"), "none"));
    assert_slice(json_raw(json_at(json_get(json, "a"), 1)), "[ ]");
    json_free(json);
    json_free(NULL);
}

static void a_value_may_stand_alone(void **state)
{
    static const char *const texts[] = {
        "1", "-0", "0.5", "1e5", "\"x\"", "null", "true", "false", "[]", "{}"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        /* Exactly as many bytes as there are: no NUL to lean on. */
        char *copy = malloc(strlen(texts[i]));
        struct json *json;

        memcpy(copy, texts[i], strlen(texts[i]));
        json = parse((struct slice){copy, strlen(texts[i])}, 1);
        assert_slice(json_raw(json), texts[i]);
        json_free(json);
        free(copy);
    }
}

static void whole_numbers_are_read_to_the_last_bit(void **state)
{
    struct json *json =
        parse(slice_of("[9223372036854775807, -9223372036854775808, 0, -0,"
                       " 9223372036854775808, 1.0, 1e2, \"1\", null]"),
            1);
    const int64_t wanted[] = {INT64_MAX, INT64_MIN, 0, 0};
    int64_t number;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_true(json_int64(json_at(json, i), &number));
        assert_true(number == wanted[i]);
    }
    for (size_t i = 4; i < json_count(json); i++)
        assert_false(json_int64(json_at(json, i), &number));
    json_free(json);
}

static void numbers_that_no_double_holds_keep_their_text(void **state)
{
    static const char *const texts[] = {"1e400", "-1e-400",
        "123456789012345678901234567890", "0.1000000000000", "1E5", "-0.0"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct json *json = parse(slice_of(texts[i]), 1);

        assert_int_equal(json_type(json), JSON_NUMBER);
        assert_slice(json_raw(json), texts[i]);
        json_free(json);
    }
}

static void strings_are_decoded(void **state)
{
    struct json *json = parse(
        slice_of("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u00e9\\u20AC\","
                 " \"\\ud83d\\ude00\", \"a\\u0000b\", \"\xc3\xa9\", \"\"]"),
        1);
    const struct slice wanted[] = {WHOLE("\"\\/\b\f\n\r\t"),
        WHOLE("\xc3\xa9\xe2\x82\xac"), WHOLE("\xf0\x9f\x98\x80"), WHOLE("a\0b"),
        WHOLE("\xc3\xa9"), WHOLE("")};

    (void)state;
    for (size_t i = 0; i < 6; i++)
        assert_true(slice_equal(json_string(json_at(json, i)), wanted[i]));
    json_free(json);
}

/* All texts of up to four of these; json-c and the slicer must agree on each
 * length, else the process would end. */
static void surrogates_in_any_order_are_decoded(void **state)
{
    static const char *const parts[] = {"\\ud83d", "\\ude00", "\\udbff",
        "\\u0041", "x", "\\n", "\\u0000", "\\uFFFF", "\xf0\x9f\x98\x80"};
    const size_t count = sizeof(parts) / sizeof(parts[0]);

    (void)state;
    for (size_t i = 0; i < count * count * count * count; i++) {
        char text[64] = "\"";
        struct json *json;

        for (size_t left = i + count * count * count * count; left >= count;
             left /= count)
            strcat(text, parts[left % count]);
        strcat(text, "\"");
        json = parse(slice_of(text), 1);
        assert_slice(json_raw(json), text);
        json_free(json);
    }
}

/* json-c took U+1D800 and others like it for half a pair; what it made of them
 * had another length, and a message with one ended every worker. */
static void every_pair_of_escapes_is_its_character(void **state)
{
    (void)state;
    for (uint32_t first = 0x10000; first < 0x110000; first += 0x1000) {
        struct buf text, expected;
        struct json *json;

        buf_init(&text, 65536);
        buf_init(&expected, 65536);
        buf_add_char(&text, '"');
        for (uint32_t c = first; c < first + 0x1000; c++) {
            buf_add_format(&text, "\\u%04X\\u%04x",
                0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
            text_encode(&expected, c);
        }
        buf_add_char(&text, '"');
        assert_int_equal(json_parse(buf_slice(&text), 1, &json, NULL), TW_OK);
        assert_true(slice_equal(json_string(json), buf_slice(&expected)));
        json_free(json);
        buf_done(&text);
        buf_done(&expected);
    }
}

static void an_escaped_backslash_begins_no_pair(void **state)
{
    struct json *json;

    (void)state;
    assert_int_equal(
        json_parse(slice_of("[\"\\\\ud836\\udc00\",\"\\ud836\\\\udc00\"]"), 1,
            &json, NULL),
        TW_OK);
    assert_true(slice_is(json_string(json_at(json, 0)), "\\ud836\xef\xbf\xbd"));
    assert_true(slice_is(json_string(json_at(json, 1)), "\xef\xbf\xbd\\udc00"));
    json_free(json);
}

static void a_surrogate_alone_becomes_the_replacement_character(void **state)
{
    struct json *json =
        parse(slice_of("[\"a\\ud83d\", \"\\ude00b\", \"\\ud83dx\","
                       " \"\\ud83d\\ud83d\\ude00\"]"),
            1);

    (void)state;
    assert_slice(json_string(json_at(json, 0)), "a\xef\xbf\xbd");
    assert_slice(json_string(json_at(json, 1)), "\xef\xbf\xbd"
                                                "b");
    assert_slice(json_string(json_at(json, 2)), "\xef\xbf\xbdx");
    assert_slice(json_string(json_at(json, 3)), "\xef\xbf\xbd\xf0\x9f\x98\x80");
    assert_slice(json_raw(json_at(json, 0)), "\"a\\ud83d\"");
    json_free(json);
}

struct refusal {
    struct slice text;
    size_t at; /* the byte that the message names */
};

static const struct refusal refusals[] = {
    {WHOLE(""), 0},
    {WHOLE("  "), 2},
    {WHOLE("[1,]"), 3},
    {WHOLE("[,1]"), 1},
    {WHOLE("[1 2]"), 3},
    {WHOLE("[1"), 2},
    {WHOLE("[1}"), 2},
    {WHOLE("{\"a\":1,}"), 7},
    {WHOLE("{\"a\" 1}"), 5},
    {WHOLE("{\"a\":}"), 5},
    {WHOLE("{a:1}"), 1},
    {WHOLE("{'a':1}"), 1},
    {WHOLE("{1:1}"), 1},
    {WHOLE("{\"a\":1"), 6},
    {WHOLE("['a']"), 1},
    {WHOLE("NaN"), 0},
    {WHOLE("[Infinity]"), 1},
    {WHOLE("[-Infinity]"), 2},
    {WHOLE("nul"), 0},
    {WHOLE("nullx"), 4},
    {WHOLE("True"), 0},
    {WHOLE("NULL"), 0},
    {WHOLE("01"), 1},
    {WHOLE("[-01]"), 3},
    {WHOLE("-"), 1},
    {WHOLE("[-]"), 2},
    {WHOLE("+1"), 0},
    {WHOLE("[.5]"), 1},
    {WHOLE("[1.]"), 3},
    {WHOLE("[1.e5]"), 3},
    {WHOLE("[1e]"), 3},
    {WHOLE("[1e+]"), 4},
    {WHOLE("0x10"), 1},
    {WHOLE("[1 /* c */]"), 3},
    {WHOLE("// c\n1"), 0},
    {WHOLE("1 // c"), 2},
    {WHOLE("{} {}"), 3},
    {WHOLE("{}\0"), 2},
    {WHOLE("\0{}"), 0},
    {WHOLE("\xef\xbb\xbf{}"), 0},
    {WHOLE("\v1"), 0},
    {WHOLE("\"a"), 2},
    {WHOLE("\"a\\"), 3},
    {WHOLE("\"\\x41\""), 1},
    {WHOLE("\"\\'\""), 1},
    {WHOLE("\"\\u12g4\""), 1},
    {WHOLE("\"\\u12"), 1},
    {WHOLE("\"\\u00:0\""), 1},
    {WHOLE("\"\\u00/0\""), 1},
    {WHOLE("\"\\u00`0\""), 1},
    {WHOLE("\"\\u00G0\""), 1},
    {WHOLE("\"\\u00@0\""), 1},
    {WHOLE("1\0"), 1},
    {WHOLE("1.5\0"), 3},
    {WHOLE("1e\0"), 2},
    {WHOLE("\"a\nb\""), 2},
    {WHOLE("\"a\0b\""), 2},
    {WHOLE("\"a\x1f\""), 2},
    {WHOLE("\"\xff\""), 1},
    {WHOLE("\"\xc3\""), 1},
    {WHOLE("\"\xc0\x80\""), 1},
    {WHOLE("\"\xed\xa0\x80\""), 1},
    {WHOLE("\"\xf4\x90\x80\x80\""), 1},
    {WHOLE("{\"\xff\":1}"), 2},
    {WHOLE("{\"a\\u0000\":1}"), 1},
    {WHOLE("{\"a\":1,\"b\":2,\"a\":1}"), 13},
    {WHOLE("{\"a\":1,\"b\":2,\"\\u0061\":1}"), 13},
    {WHOLE("{\"a\":1,\"b\":2,\"a\":1,\"c\":3}"), 13},
    {WHOLE("{\"\":1,\"\":2}"), 6},
    {WHOLE("[{\"a\":{\"b\":1,\"b\":2}}]"), 13},
};

static void what_is_not_strict_json_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct slice text = refusals[i].text;
        struct json *json = (struct json *)&json;
        struct err err = {0};
        char place[40];

        snprintf(place, sizeof(place), "at byte %zu:", refusals[i].at);
        if (json_parse(text, 4, &json, &err) != TW_INVALID ||
            !strstr(err.text, place))
            fail_msg("%zu %.*s (%s): %s", i, SLICE_ARG(text), place, err.text);
        assert_ptr_equal(json, &json);
    }
}

/* What is refused whole is refused as a member too, and nothing is put out. */
static void flat_objects_are_read_as_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct slice text = refusals[i].text;
        struct json_member *members = NULL;
        size_t count = 77, end = 77;
        struct arena arena;
        struct buf whole;

        if (slice_begins(text, slice_of("{}")) || text.len < 3)
            continue; /* bytes after the object are not its business */
        arena_init(&arena);
        buf_init(&whole, 100);
        if (text.at[0] == '{') {
            buf_add_slice(&whole, text);
        } else {
            buf_add_text(&whole, "{\"x\":");
            buf_add_slice(&whole, text);
            buf_add_text(&whole, "}");
        }
        assert_int_equal(json_flat_object(buf_slice(&whole), &arena, &arena,
                             &members, &count, &end, NULL),
            TW_INVALID);
        assert_null(members);
        assert_int_equal(count, 77);
        assert_int_equal(end, 77);
        buf_done(&whole);
        arena_done(&arena);
    }
}

static void depth_counts_arrays_and_objects(void **state)
{
    struct json *json = NULL;
    struct err err = {0};
    char deep[65536];

    (void)state;
    json_free(parse(slice_of("{\"a\":1}"), 1));
    json_free(parse(slice_of("[{\"a\":[]}, {\"a\":[]}]"), 3));
    assert_int_equal(
        json_parse(slice_of("[{\"a\":[]}]"), 2, &json, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "at byte 6: nested too deeply"));
    memset(deep, '[', sizeof(deep));
    assert_int_equal(json_parse((struct slice){deep, sizeof(deep)},
                         JSON_DEPTH_LIMIT, &json, &err),
        TW_INVALID);
    memset(deep + JSON_DEPTH_LIMIT, ']', JSON_DEPTH_LIMIT);
    json_free(
        parse((struct slice){deep, 2 * JSON_DEPTH_LIMIT}, JSON_DEPTH_LIMIT));
    assert_null(json);
}

static void a_flat_object_ends_where_it_ends(void **state)
{
    const char *page = " {\"odata.etag\":\"W/\\\"1\\\"\",\"N\":1.0,\"B\":true,"
                       "\"Z\":null,\"S\":\"a\\u0000\xc3\xa9\"},{\"P\":\"q\"}]";
    struct json_member *members;
    size_t count, end, second;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    assert_int_equal(json_flat_object(slice_of(page), &arena, &arena, &members,
                         &count, &end, NULL),
        TW_OK);
    assert_int_equal(count, 5);
    assert_slice(members[0].name, "odata.etag");
    assert_slice(members[0].text, "W/\"1\"");
    assert_slice(members[0].raw, "\"W/\\\"1\\\"\"");
    assert_int_equal(members[1].type, JSON_NUMBER);
    assert_slice(members[1].text, "1.0");
    assert_slice(members[2].text, "true");
    assert_int_equal(members[3].type, JSON_NULL);
    assert_true(slice_equal(members[4].text, WHOLE("a\0\xc3\xa9")));
    assert_ptr_equal(members[4].raw.at, strstr(page, "\"a\\u0000"));
    assert_int_equal(page[end], ',');
    assert_int_equal(json_flat_object(slice_of(page + end + 1), &arena, &arena,
                         &members, &count, &second, NULL),
        TW_OK);
    assert_slice(members[0].name, "P");
    assert_int_equal(page[end + 1 + second], ']');
    assert_int_equal(json_flat_object(slice_of("{}"), &arena, &arena, &members,
                         &count, &end, NULL),
        TW_OK);
    assert_int_equal(count, 0);
    assert_int_equal(end, 2);
    arena_done(&arena);
}

static void a_flat_object_holds_no_other(void **state)
{
    static const char *const texts[] = {
        "{\"a\":[]}", "{\"a\":{}}", "[]", "[1]", "1", "\"a\"", "", "null"};
    struct json_member *members = NULL;
    size_t count, end;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(json_flat_object(slice_of(texts[i]), &arena, &arena,
                             &members, &count, &end, NULL),
            TW_INVALID);
    assert_null(members);
    arena_done(&arena);
}

static void decoded_texts_outlive_the_bytes_they_came_from(void **state)
{
    char text[] = "{\"name\":\"value\",\"n\":12}";
    struct json_member *members;
    size_t count, end;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    assert_int_equal(json_flat_object(slice_of(text), &arena, &arena, &members,
                         &count, &end, NULL),
        TW_OK);
    memset(text, '?', sizeof(text));
    assert_slice(members[0].name, "name");
    assert_slice(members[0].text, "value");
    assert_slice(members[1].text, "12");
    arena_done(&arena);
}

static void the_last_of_a_repeated_annotation_counts(void **state)
{
    const char *text = "{\"odata.a\":\"1\",\"x\":1,\"odata.a\":2,"
                       "\"odata.b\":null,\"y\":2,\"odata.a\":\"33\"}!";
    struct json_member *members;
    size_t count, end;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    assert_int_equal(json_annotated_object(slice_of(text), "odata.", &arena,
                         &arena, &members, &count, &end, NULL),
        TW_OK);
    assert_int_equal(count, 4);
    assert_slice(members[0].name, "odata.a");
    assert_slice(members[0].text, "33");
    assert_slice(members[1].name, "x");
    assert_slice(members[2].name, "odata.b");
    assert_slice(members[3].name, "y");
    assert_slice(members[3].text, "2");
    assert_int_equal(text[end], '!');
    assert_int_equal(json_flat_object(slice_of(text), &arena, &arena, &members,
                         &count, &end, NULL),
        TW_INVALID);
    arena_done(&arena);
}

static void only_annotations_may_be_repeated(void **state)
{
    static const char *const texts[] = {
        "{\"odata.a\":1,\"x\":1,\"odata.a\":2,\"x\":1}",
        "{\"x\":1,\"odata.a\":1,\"odata.a\":2,\"\\u0078\":1}",
        "{\"odata\":1,\"odata\":1}",
        "{\"x@odata.type\":\"Edm.Int64\",\"x@odata.type\":\"Edm.Guid\"}",
        "{\"odata.a\":1,\"odat\\u0061.a\":1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct json_member *members;
        size_t count, end;
        struct arena arena;

        arena_init(&arena);
        if (json_annotated_object(slice_of(texts[i]), "odata.", &arena, &arena,
                &members, &count, &end, NULL) != TW_INVALID)
            fail_msg("taken: %s", texts[i]);
        arena_done(&arena);
    }
}

static void annotations_beyond_a_number_may_not_be_repeated(void **state)
{
    struct json_member *members;
    size_t count, end;

    (void)state;
    for (int last = JSON_MAX_ANNOTATIONS - 1; last <= JSON_MAX_ANNOTATIONS;
         last++) {
        struct arena arena;
        struct buf text;

        arena_init(&arena);
        buf_init(&text, 100000);
        buf_add_char(&text, '{');
        for (int i = 0; i < 3 * JSON_MAX_ANNOTATIONS; i++)
            buf_add_format(&text, "\"odata.%d\":1,", i);
        buf_add_format(&text, "\"odata.%d\":2}", last);
        assert_int_equal(json_annotated_object(buf_slice(&text), "odata.",
                             &arena, &arena, &members, &count, &end, NULL),
            last < JSON_MAX_ANNOTATIONS ? TW_OK : TW_INVALID);
        buf_done(&text);
        arena_done(&arena);
    }
}

static void large_strings_and_many_members_are_read_whole(void **state)
{
    struct json_member *members;
    size_t count, end;
    struct arena arena;
    struct buf text;

    (void)state;
    buf_init(&text, 2000000);
    buf_add_text(&text, "{\"big\":\"");
    for (int i = 0; i < 300000; i++)
        buf_add_text(&text, "\xe2\x82\xac");
    buf_add_text(&text, "\"");
    for (int i = 0; i < 1000; i++)
        buf_add_format(&text, ",\"p%d\":%d", i, i);
    buf_add_text(&text, "}");
    arena_init(&arena);
    assert_int_equal(json_flat_object(buf_slice(&text), &arena, &arena,
                         &members, &count, &end, NULL),
        TW_OK);
    assert_int_equal(count, 1001);
    assert_int_equal(members[0].text.len, 900000);
    assert_slice(members[1000].name, "p999");
    assert_slice(members[1000].text, "999");
    assert_int_equal(end, text.len);
    arena_done(&arena);
    buf_done(&text);
}

static void strings_are_written_so_that_they_read_back(void **state)
{
    struct slice text =
        WHOLE("a\"\\\n\r\t\b\0\x1f/\x7f\xc3\xa9\xf0\x9f\x98\x80");
    struct buf to;
    struct json *json;

    (void)state;
    buf_init(&to, 1000);
    json_add_string(&to, text);
    assert_string_equal(buf_text(&to), "\"a\\\"\\\\\\n\\r\\t\\u0008\\u0000"
                                       "\\u001f/\\u007f\xc3\xa9"
                                       "\xf0\x9f\x98\x80\"");
    json = parse(buf_slice(&to), 1);
    assert_true(slice_equal(json_string(json), text));
    json_free(json);
    buf_clear(&to);
    json_add_string(&to, (struct slice){NULL, 0});
    assert_string_equal(buf_text(&to), "\"\"");
    buf_done(&to);
}

/* A terminal would obey the first, and show the second the wrong way round. */
static void what_a_terminal_obeys_is_escaped(void **state)
{
    struct slice text = slice_of("\xc2\x9b"
                                 "2J\xe2\x80\xae"
                                 "fdp.exe"
                                 "\xe2\x81\xa6\xd8\x9c\xef\xbb\xbf\xc2\xa0");
    struct buf to;
    struct json *json;

    (void)state;
    buf_init(&to, 1000);
    json_add_string(&to, text);
    assert_string_equal(buf_text(&to),
        "\"\\u009b2J\\u202efdp.exe\\u2066\\u061c\\ufeff\xc2\xa0\"");
    json = parse(buf_slice(&to), 1);
    assert_true(slice_equal(json_string(json), text));
    json_free(json);
    buf_done(&to);
}

static enum tw_err read_ones(size_t count, bool flat, struct err *err)
{
    struct json_member *members;
    struct json *json = NULL;
    size_t end, members_count;
    struct arena arena;
    struct buf text;
    enum tw_err code;

    arena_init(&arena);
    buf_init(&text, 4 * 1024 * 1024);
    buf_add_char(&text, flat ? '{' : '[');
    for (size_t i = 0; i < count; i++)
        if (flat)
            buf_add_format(&text, "%s\"%zu\":1", i == 0 ? "" : ",", i);
        else
            buf_add_text(&text, i == 0 ? "1" : ",1");
    buf_add_char(&text, flat ? '}' : ']');
    code = flat ? json_flat_object(buf_slice(&text), &arena, &arena, &members,
                      &members_count, &end, err)
                : json_parse(buf_slice(&text), 1, &json, err);
    json_free(json);
    buf_done(&text);
    arena_done(&arena);
    return code;
}

static void number_of_values_is_bounded(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(read_ones(JSON_MAX_VALUES - 1, false, &err), TW_OK);
    assert_int_equal(read_ones(JSON_MAX_VALUES, false, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "more than 32768 values"));
    assert_int_equal(read_ones(JSON_MAX_MEMBERS, true, &err), TW_OK);
    assert_int_equal(read_ones(JSON_MAX_MEMBERS + 1, true, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "more than 1025 values"));
}

/* In a child: read with the n-th allocation failing. Exit 0: read, and right,
 * for there is no n-th; 1: wrong. */
static void read_without_memory(unsigned long n)
{
    const char *text = "{\"a\":\"some text that is \\u20ac long enough to grow "
                       "a buffer of json-c\",\"b\":1.5,\"c\":[1,2],\"d\":true}";
    struct json *json = NULL;

    mem_fail_after(n);
    if (json_parse(slice_of(text), 2, &json, NULL) != TW_OK ||
        json_count(json) != 4 || json_string(json_get(json, "a")).len != 60 ||
        json_count(json_get(json, "c")) != 2)
        _exit(1);
    _exit(mem_fail_after(0) == 0 ? 1 : 0);
}

/* json-c itself may crash for lack of memory, or lose a piece. */
static void an_allocation_that_fails_while_reading_ends_the_process(
    void **state)
{
    int status = -1;
    unsigned long ended = 0;

    (void)state;
    for (unsigned long n = 1; n < 1000 && status != 0; n++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* cmocka would go on in the child */
            signal(SIGABRT, SIG_DFL);
            close(STDERR_FILENO);
            read_without_memory(n);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (status != 0) {
            assert_int_equal(WEXITSTATUS(status), 75);
            ended++;
        }
    }
    assert_int_equal(status, 0);
#ifdef MEM_HAS_LIBRARIES
    assert_true(ended > 20);
#else
    assert_true(ended > 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read_with_its_exact_text),
        cmocka_unit_test(a_value_may_stand_alone),
        cmocka_unit_test(whole_numbers_are_read_to_the_last_bit),
        cmocka_unit_test(numbers_that_no_double_holds_keep_their_text),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(surrogates_in_any_order_are_decoded),
        cmocka_unit_test(every_pair_of_escapes_is_its_character),
        cmocka_unit_test(an_escaped_backslash_begins_no_pair),
        cmocka_unit_test(a_surrogate_alone_becomes_the_replacement_character),
        cmocka_unit_test(what_is_not_strict_json_is_refused_with_its_place),
        cmocka_unit_test(flat_objects_are_read_as_strictly),
        cmocka_unit_test(depth_counts_arrays_and_objects),
        cmocka_unit_test(a_flat_object_ends_where_it_ends),
        cmocka_unit_test(a_flat_object_holds_no_other),
        cmocka_unit_test(decoded_texts_outlive_the_bytes_they_came_from),
        cmocka_unit_test(the_last_of_a_repeated_annotation_counts),
        cmocka_unit_test(only_annotations_may_be_repeated),
        cmocka_unit_test(annotations_beyond_a_number_may_not_be_repeated),
        cmocka_unit_test(large_strings_and_many_members_are_read_whole),
        cmocka_unit_test(strings_are_written_so_that_they_read_back),
        cmocka_unit_test(what_a_terminal_obeys_is_escaped),
        cmocka_unit_test(number_of_values_is_bounded),
        cmocka_unit_test(
            an_allocation_that_fails_while_reading_ends_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
