/* SPDX-License-Identifier: MIT */
/* JSON: what is read and how exactly, what is refused, what is written. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/json_oracle.h"
#include "tests/support/quotes.h"
#include "tests/support/test.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define WHOLE(text) ((struct slice){text, sizeof(text) - 1})
#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

static struct json *parse(struct slice text, unsigned max_depth)
{
    struct json *json = NULL;
    struct err err = {0};

    if (json_parse(text, max_depth, &json, &err) != TW_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return json;
}

/* Result of read_flat(): the members of a flat object, and the offset of the
 * text after it. */
static struct json_members flat;
static struct arena arena;
static size_t flat_end;

static int set_up(void **state)
{
    json_members_init(&flat);
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    json_members_done(&flat);
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static enum tw_err read_flat(
    struct slice text, const char *annotation, struct err *err)
{
    return json_flat_object(text, annotation, &arena, &flat, &flat_end, err);
}

/* Returns text with double quotes in place of its single quotes. */
static struct slice json_of(const char *text)
{
    return slice_of(quoted(&arena, text));
}

static void assert_slice(struct slice slice, const char *text)
{
    if (!slice_is(slice, text))
        fail_msg("'%.*s' is not '%s'", SLICE_ARG(slice), text);
}

static void assert_says(const struct err *err, const char *part)
{
    if (!strstr(err->text, part))
        fail_msg("'%s' is not in '%s'", part, err->text);
}

FIXTURE_TEST(every_type_is_read_with_its_exact_text)
{
    struct json *json =
        parse(json_of(" {'n': null, 't':true,'f' : false, 'i': -12,\n"
                      "\t'd': 1.0E+2, 's': 'a\\u0062', 'a': [1, [ ]],\r"
                      " 'o': {'x':{}}} "),
            3);
    static const struct {
        const char *name, *raw;
        enum json_type type;
    } wanted[] = {{"n", "null", JSON_NULL}, {"t", "true", JSON_BOOLEAN},
        {"f", "false", JSON_BOOLEAN}, {"i", "-12", JSON_NUMBER},
        {"d", "1.0E+2", JSON_NUMBER}, {"s", "'a\\u0062'", JSON_STRING},
        {"a", "[1, [ ]]", JSON_ARRAY}, {"o", "{'x':{}}", JSON_OBJECT}};

    assert_int_equal(json_type(json), JSON_OBJECT);
    assert_int_equal(json_count(json), COUNT_OF(wanted));
    for (size_t i = 0; TEST_EACH(i, wanted); i++) {
        const struct json *value = json_value(json, i);

        assert_slice(json_name(json, i), wanted[i].name);
        assert_slice(json_raw(value), quoted(&arena, wanted[i].raw));
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

FIXTURE_TEST(whole_numbers_are_read_to_the_last_bit)
{
    struct json *json =
        parse(slice_of("[9223372036854775807, -9223372036854775808, 0, -0,"
                       " 9223372036854775808, 1.0, 1e2, \"1\", null]"),
            1);
    const int64_t wanted[] = {INT64_MAX, INT64_MIN, 0, 0};
    int64_t number;

    for (size_t i = 0; i < 4; i++) {
        assert_true(json_int64(json_at(json, i), &number));
        assert_true(number == wanted[i]);
    }
    for (size_t i = 4; i < json_count(json); i++)
        assert_false(json_int64(json_at(json, i), &number));
    json_free(json);
}

/* Tries all strings of up to four of these parts. */
FIXTURE_TEST(surrogates_in_any_order_are_decoded)
{
    static const struct {
        /* text: the part as JSON; alone: the part decoded, if its other half
         * is not beside it. */
        const char *text, *alone;
        int half; /* 1: the first half of a pair, 2: the second half; 0: none */
    } parts[] = {
        {"\\ud83d", "\xef\xbf\xbd", 1},
        {"\\ude00", "\xef\xbf\xbd", 2},
        {"\\uDBFF", "\xef\xbf\xbd", 1},
        {"\\u0041", "A", 0},
        {"x", "x", 0},
        {"\\n", "\n", 0},
        {"\\\\", "\\", 0},
        {"ud836", "ud836", 0},
        {"ude00", "ude00", 0},
        {"\\uFFFF", "\xef\xbf\xbf", 0},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 0},
    };
    static const char *const pairs[] = {
        "\xf0\x9f\x98\x80", NULL, "\xf4\x8f\xb8\x80"};
    const size_t count = COUNT_OF(parts);

    for (size_t i = 1; i < count * count * count * count; i++) {
        char text[64] = "\"", expected[64] = "";
        /* The character of the pair whose first half was added last; NULL: the
         * last part is no first half. */
        const char *high = NULL;
        struct json *json;

        for (size_t left = i; left > 0; left /= count) {
            size_t part = left % count;

            strcat(text, parts[part].text);
            if (high && parts[part].half == 2) {
                expected[strlen(expected) - 3] = '\0'; /* U+FFFD */
                strcat(expected, high);
                high = NULL;
                continue;
            }
            strcat(expected, parts[part].alone);
            high = parts[part].half == 1 ? pairs[part] : NULL;
        }
        strcat(text, "\"");
        json = parse(slice_of(text), 1);
        assert_slice(json_raw(json), text);
        assert_slice(json_string(json), expected);
        json_free(json);
    }
}

/* Earlier, the character of a pair was computed from the lower bits only. So
 * U+1D800 counted as half a pair, and a message that contained U+1D800 ended
 * every worker. */
FIXTURE_TEST(every_pair_of_escapes_is_its_character)
{
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
        assert_ok(json_parse(buf_slice(&text), 1, &json, NULL));
        assert_true(slice_equal(json_string(json), buf_slice(&expected)));
        json_free(json);
        buf_done(&text);
        buf_done(&expected);
    }
}

struct refusal {
    struct slice text;
    size_t at; /* the byte offset in the error text */
};

static const struct refusal refusals[] = {{WHOLE(""), 0}, {WHOLE("  "), 2},
    {WHOLE("[1,]"), 3}, {WHOLE("[,1]"), 1}, {WHOLE("[1 2]"), 3},
    {WHOLE("[1"), 2}, {WHOLE("[1}"), 2}, {WHOLE("{\"a\":1,}"), 7},
    {WHOLE("{\"a\" 1}"), 5}, {WHOLE("{\"a\":}"), 5}, {WHOLE("{a:1}"), 1},
    {WHOLE("{'a':1}"), 1}, {WHOLE("{1:1}"), 1}, {WHOLE("{\"a\":1"), 6},
    {WHOLE("['a']"), 1}, {WHOLE("NaN"), 0}, {WHOLE("[Infinity]"), 1},
    {WHOLE("[-Infinity]"), 2}, {WHOLE("nul"), 0}, {WHOLE("nullx"), 4},
    {WHOLE("True"), 0}, {WHOLE("NULL"), 0}, {WHOLE("01"), 1},
    {WHOLE("[-01]"), 3}, {WHOLE("-"), 1}, {WHOLE("[-]"), 2}, {WHOLE("+1"), 0},
    {WHOLE("[.5]"), 1}, {WHOLE("[1.]"), 3}, {WHOLE("[1.e5]"), 3},
    {WHOLE("[1e]"), 3}, {WHOLE("[1e+]"), 4}, {WHOLE("0x10"), 1},
    {WHOLE("[1 /* c */]"), 3}, {WHOLE("// c\n1"), 0}, {WHOLE("1 // c"), 2},
    {WHOLE("{} {}"), 3}, {WHOLE("{}\0"), 2}, {WHOLE("\0{}"), 0},
    {WHOLE("\xef\xbb\xbf{}"), 0}, {WHOLE("\v1"), 0}, {WHOLE("\"a"), 2},
    {WHOLE("\"a\\"), 3}, {WHOLE("\"\\x41\""), 1}, {WHOLE("\"\\'\""), 1},
    {WHOLE("\"\\u12g4\""), 1}, {WHOLE("\"\\u12"), 1}, {WHOLE("\"\\u00:0\""), 1},
    {WHOLE("\"\\u00/0\""), 1}, {WHOLE("\"\\u00`0\""), 1},
    {WHOLE("\"\\u00G0\""), 1}, {WHOLE("\"\\u00@0\""), 1}, {WHOLE("1\0"), 1},
    {WHOLE("1.5\0"), 3}, {WHOLE("1e\0"), 2}, {WHOLE("\"a\nb\""), 2},
    {WHOLE("\"a\0b\""), 2}, {WHOLE("\"a\x1f\""), 2}, {WHOLE("\"\xff\""), 1},
    {WHOLE("\"\xc3\""), 1}, {WHOLE("\"\xc0\x80\""), 1},
    {WHOLE("\"\xed\xa0\x80\""), 1}, {WHOLE("\"\xf4\x90\x80\x80\""), 1},
    {WHOLE("{\"\xff\":1}"), 2}, {WHOLE("{\"a\\u0000\":1}"), 1},
    {WHOLE("{\"a\":1,\"b\":2,\"a\":1}"), 13},
    {WHOLE("{\"a\":1,\"b\":2,\"\\u0061\":1}"), 13},
    {WHOLE("{\"a\":1,\"b\":2,\"a\":1,\"c\":3}"), 13},
    {WHOLE("{\"\":1,\"\":2}"), 6}, {WHOLE("[{\"a\":{\"b\":1,\"b\":2}}]"), 13}};

FIXTURE_TEST(what_is_not_strict_json_is_refused_with_its_place)
{
    for (size_t i = 0; TEST_EACH(i, refusals); i++) {
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

/* A text that json_parse() refuses is also refused as a member of a flat
 * object. No members are returned then. */
FIXTURE_TEST(flat_objects_are_read_as_strictly)
{
    for (size_t i = 0; TEST_EACH(i, refusals); i++) {
        struct slice text = refusals[i].text;
        struct buf whole;

        if (slice_begins(text, slice_of("{}")) || text.len < 3)
            continue; /* the flat reader stops after the object */
        buf_init(&whole, 100);
        if (text.at[0] == '{') {
            buf_add_slice(&whole, text);
        } else {
            buf_add_text(&whole, "{\"x\":");
            buf_add_slice(&whole, text);
            buf_add_text(&whole, "}");
        }
        assert_ok(read_flat(slice_of("{\"a\":1}"), NULL, NULL));
        flat_end = 77;
        assert_int_equal(read_flat(buf_slice(&whole), NULL, NULL), TW_INVALID);
        assert_int_equal(flat.count, 0);
        assert_int_equal(flat_end, 77);
        buf_done(&whole);
    }
}

FIXTURE_TEST(depth_counts_arrays_and_objects)
{
    struct json *json = NULL;
    struct err err = {0};
    char deep[65536];

    json_free(parse(slice_of("{\"a\":1}"), 1));
    json_free(parse(slice_of("[{\"a\":[]}, {\"a\":[]}]"), 3));
    assert_int_equal(
        json_parse(slice_of("[{\"a\":[]}]"), 2, &json, &err), TW_INVALID);
    assert_says(&err, "at byte 6: nested too deeply");
    memset(deep, '[', sizeof(deep));
    assert_int_equal(json_parse((struct slice){deep, sizeof(deep)},
                         JSON_DEPTH_LIMIT, &json, &err),
        TW_INVALID);
    memset(deep + JSON_DEPTH_LIMIT, ']', JSON_DEPTH_LIMIT);
    json_free(
        parse((struct slice){deep, 2 * JSON_DEPTH_LIMIT}, JSON_DEPTH_LIMIT));
    assert_null(json);
}

FIXTURE_TEST(a_flat_object_ends_where_it_ends)
{
    const char *page =
        quoted(&arena, " {'odata.etag':'W/\\'1\\'','N':1.0,'B':true,'Z':null,"
                       "'S':'a\\u0000\xc3\xa9'},{'P':'q'}]");
    static const struct {
        const char *name, *raw;
        enum json_type type;
    } wanted[] = {{"odata.etag", "'W/\\'1\\''", JSON_STRING},
        {"N", "1.0", JSON_NUMBER}, {"B", "true", JSON_BOOLEAN},
        {"Z", "null", JSON_NULL}, {"S", "'a\\u0000\xc3\xa9'", JSON_STRING}};
    size_t end;

    assert_ok(read_flat(slice_of(page), NULL, NULL));
    assert_int_equal(flat.count, COUNT_OF(wanted));
    for (size_t i = 0; TEST_EACH(i, wanted); i++) {
        assert_slice(flat.list[i].name, wanted[i].name);
        assert_slice(flat.list[i].raw, quoted(&arena, wanted[i].raw));
        assert_int_equal(flat.list[i].type, wanted[i].type);
    }
    assert_ptr_equal(flat.list[0].name_at, page + 2);
    assert_slice(json_member_text(&flat.list[0], &arena), "W/\"1\"");
    assert_true(slice_equal(
        json_member_text(&flat.list[4], &arena), WHOLE("a\0\xc3\xa9")));
    assert_ptr_equal(flat.list[4].raw.at, strstr(page, "\"a\\u0000"));
    end = flat_end;
    assert_int_equal(page[end], ',');
    assert_ok(read_flat(slice_of(page + end + 1), NULL, NULL));
    assert_int_equal(flat.count, 1);
    assert_slice(flat.list[0].name, "P");
    assert_int_equal(page[end + 1 + flat_end], ']');
    assert_ok(read_flat(slice_of("{}"), NULL, NULL));
    assert_int_equal(flat.count, 0);
    assert_int_equal(flat_end, 2);
}

FIXTURE_TEST(a_flat_object_holds_no_other)
{
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"{'a':[]}", "at byte 5: nested too deeply"},
        {"{'a': {}}", "at byte 6: nested too deeply"},
        {"[]", "at byte 0: an object is needed here"},
        {" [1]", "at byte 1: an object is needed here"},
        {"1", "at byte 0: an object is needed here"},
        {"'a'", "at byte 0: an object is needed here"},
        {"", "at byte 0: it ends too early"},
        {"null", "at byte 0: an object is needed here"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct err err;

        assert_int_equal(
            read_flat(json_of(cases[i].text), NULL, &err), TW_INVALID);
        assert_says(&err, cases[i].place);
    }
}

FIXTURE_TEST(only_what_has_escapes_is_copied)
{
    char text[] = "{\"name\":\"value\",\"\\u006eame2\":\"\\u0076\",\"\":\"\"}";
    struct slice value;
    struct json *json;

    assert_ok(read_flat(WHOLE(text), NULL, NULL));
    assert_ptr_equal(flat.list[0].name.at, text + 2);
    assert_ptr_equal(
        json_member_text(&flat.list[0], &arena).at, strstr(text, "value"));
    value = json_member_text(&flat.list[1], &arena);
    json = parse(WHOLE(text), 1);
    assert_ptr_equal(json_name(json, 0).at, text + 2);
    assert_ptr_equal(json_string(json_get(json, "name")).at, text + 9);
    assert_slice(json_string(json_get(json, "")), "");
    memset(text, '?', sizeof(text));
    assert_slice(flat.list[1].name, "name2");
    assert_slice(value, "v");
    assert_slice(json_name(json, 1), "name2");
    assert_slice(json_string(json_value(json, 1)), "v");
    json_free(json);
}

FIXTURE_TEST(a_string_by_itself_is_decoded_or_refused)
{
    static const struct {
        const char *raw, *text; /* text NULL: refused */
    } cases[] = {{"''", ""}, {"'plain'", "plain"},
        {"'\\u20ac\\u00e9'", "\xe2\x82\xac\xc3\xa9"},
        {"'\\'\\\\\\/\\b\\f\\n\\r\\t'", "\"\\/\b\f\n\r\t"}, {"", NULL},
        {"'", NULL}, {"'a", NULL}, {"a'", NULL}, {"'a'b", NULL}, {"'a' ", NULL},
        {" 'a'", NULL}, {"'a\\x'", NULL}, {"'a\xff'", NULL}, {"12", NULL}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct slice text = {NULL, 77};
        bool good = json_unquote(json_of(cases[i].raw), &arena, &text);

        assert_int_equal(good, cases[i].text != NULL);
        if (good)
            assert_slice(text, cases[i].text);
        else
            assert_int_equal(text.len, 77);
    }
}

FIXTURE_TEST(the_last_of_a_repeated_annotation_counts)
{
    static const struct {
        const char *name, *raw;
    } wanted[] = {
        {"odata.a", "'33'"}, {"x", "1"}, {"odata.b", "null"}, {"y", "2"}};
    struct slice text = json_of("{'odata.a':'1','x':1,'odata.a':2,"
                                "'odata.b':null,'y':2,'odat\\u0061.a':'33'}!");

    assert_ok(read_flat(text, "odata.", NULL));
    assert_int_equal(flat.count, COUNT_OF(wanted));
    for (size_t i = 0; TEST_EACH(i, wanted); i++) {
        assert_slice(flat.list[i].name, wanted[i].name);
        assert_slice(flat.list[i].raw, quoted(&arena, wanted[i].raw));
    }
    assert_int_equal(text.at[flat_end], '!');
    assert_int_equal(read_flat(text, NULL, NULL), TW_INVALID);
}

FIXTURE_TEST(annotations_beyond_a_number_may_not_be_repeated)
{
    for (int last = JSON_MAX_ANNOTATIONS - 1; last <= JSON_MAX_ANNOTATIONS;
         last++) {
        struct buf text;

        buf_init(&text, 100000);
        buf_add_char(&text, '{');
        for (int i = 0; i < 3 * JSON_MAX_ANNOTATIONS; i++)
            buf_add_format(&text, "\"odata.%d\":1,", i);
        buf_add_format(&text, "\"odata.%d\":2}", last);
        assert_int_equal(read_flat(buf_slice(&text), "odata.", NULL),
            last < JSON_MAX_ANNOTATIONS ? TW_OK : TW_INVALID);
        buf_done(&text);
    }
}

/* Adds an object of count members. The last member has the same name as member
 * number `same`, but written with an escape. If same == count, all names are
 * different. */
static void add_members(struct buf *to, size_t count, size_t same)
{
    for (size_t i = 0; i < count; i++) {
        bool again = i + 1 == count && same < count;
        size_t number = again ? same : i;

        buf_add_text(to, i == 0 ? "{" : ",");
        /* Names of different lengths, which are not in order. */
        buf_add_format(to, "\"%s%zu%.*s\":%zu", again ? "\\u006e" : "n",
            number * 7919 % 1000, (int)(number % 3), "xx", i);
    }
    buf_add_char(to, '}');
}

/* Fails unless the text is refused at byte `at`, both as a flat object and as
 * any JSON. */
static void refused_at(const struct buf *text, size_t at)
{
    struct err err;
    struct json *json;
    char place[60];

    snprintf(place, sizeof(place),
        "at byte %zu: a name that this object already has", at);
    assert_int_equal(read_flat(buf_slice(text), NULL, &err), TW_INVALID);
    assert_says(&err, place);
    assert_int_equal(json_parse(buf_slice(text), 1, &json, &err), TW_INVALID);
    assert_says(&err, place);
}

FIXTURE_TEST(a_name_that_comes_again_is_found_among_few_and_many)
{
    for (size_t count = 2; count < 70; count++)
        for (size_t same = 0; same < count; same++) {
            struct buf text;

            buf_init(&text, 10000);
            if (same < count - 1) {
                add_members(&text, count, same);
                refused_at(&text, (size_t)(strstr(buf_text(&text), "\\u006e") -
                                           buf_text(&text)) -
                                      1);
            } else {
                add_members(&text, count, count);
                assert_ok(read_flat(buf_slice(&text), NULL, NULL));
                json_free(parse(buf_slice(&text), 1));
            }
            buf_done(&text);
        }
}

/* Of several repeated names, the one that is repeated first in the text is
 * reported, in whatever order the reader finds them. */
FIXTURE_TEST(the_first_name_that_comes_again_is_named)
{
    for (size_t more = 0; more < 60; more += 30) {
        struct buf text;
        size_t at;

        buf_init(&text, 10000);
        buf_add_text(&text, "{\"zz\":1,\"a\":2,\"mmm\":3");
        for (size_t i = 0; i < more; i++)
            buf_add_format(&text, ",\"n%zu\":4", i);
        at = text.len + 1;
        buf_add_text(&text, ",\"mmm\":5,\"a\":6,\"zz\":7,\"mmm\":8}");
        refused_at(&text, at);
        buf_done(&text);
    }
}

FIXTURE_TEST(members_are_found_by_name)
{
    for (size_t count = 1; count < 70; count++) {
        struct buf text;

        buf_init(&text, 10000);
        add_members(&text, count, count);
        assert_ok(read_flat(buf_slice(&text), NULL, NULL));
        for (size_t i = 0; i < count; i++)
            assert_int_equal(json_members_find(&flat, flat.list[i].name), i);
        assert_int_equal(json_members_find(&flat, slice_of("n")), count);
        assert_int_equal(json_members_find(&flat, slice_of("")), count);
        assert_int_equal(json_members_find(&flat, slice_of("nzzzz")), count);
        buf_done(&text);
    }
}

/* ---- compared with another reader ---- */

static void assert_read_as_by_the_oracle(struct slice text)
{
    struct buf expected, described;
    struct json *json;
    struct err err = {{0}};
    bool good;

    buf_init(&expected, 100000);
    buf_init(&described, 100000);
    good = oracle_read(text, 3, &expected) == ORACLE_TAKES;
    if ((json_parse(text, 3, &json, &err) == TW_OK) != good)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    if (good) {
        oracle_describe(json, &described);
        if (!slice_equal(buf_slice(&expected), buf_slice(&described)))
            fail_msg("%.*s: %s is not %s", SLICE_ARG(text),
                buf_text(&described), buf_text(&expected));
        json_free(json);
    }
    buf_done(&expected);
    buf_done(&described);
}

/* Tries all texts of up to six of these parts, except texts that end with "{".
 */
FIXTURE_TEST(short_texts_are_read_as_by_another_reader)
{
    static const char *const parts[] = {
        "{", "}", "[", "]", "\"", ":", ",", "0", "1", "-", ".5", "e", " "};
    const size_t count = COUNT_OF(parts);
    size_t all = 1;

    for (int i = 0; i < 6; i++)
        all *= count;
    for (size_t i = 1; i < all; i++) {
        char text[16] = "", *end = text;

        for (size_t left = i; left > 0; left /= count)
            end = stpcpy(end, parts[left % count]);
        /* Nearly all other texts are refused at their first byte. */
        if (strchr("{[\"01-", text[0]))
            assert_read_as_by_the_oracle(slice_of(text));
    }
}

/* The reader scans strings eight bytes at a time. So each byte is put at each
 * position of strings of each length, and each string ends where the readable
 * memory ends. */
FIXTURE_TEST(each_byte_is_read_at_each_place_of_a_string)
{
    for (size_t len = 1; len < 19; len++)
        for (size_t place = 0; place < len; place++)
            for (int c = 0; c < 256; c++) {
                char *text = malloc(len + 2);

                memset(text, 'a', len + 2);
                text[0] = text[len + 1] = '"';
                text[1 + place] = (char)c;
                assert_read_as_by_the_oracle((struct slice){text, len + 2});
                free(text);
            }
}

/* The first of two special bytes among eight must be found, whatever the second
 * special byte is. */
FIXTURE_TEST(two_bytes_that_need_a_look_are_both_seen)
{
    static const unsigned char bytes[] = {0, 1, 0x1f, 0x20, 0x21, '"', '#', '[',
        '\\', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff};

    for (size_t i = 0; TEST_EACH(i, bytes); i++)
        for (size_t j = 0; TEST_EACH(j, bytes); j++)
            for (size_t first = 1; first < 9; first++)
                for (size_t second = first + 1; second < 18; second++) {
                    char text[] = "\"aaaaaaaaaaaaaaaaaa\"";

                    text[first] = (char)bytes[i];
                    text[second] = (char)bytes[j];
                    assert_read_as_by_the_oracle(WHOLE(text));
                }
}

FIXTURE_TEST(each_escape_is_read_at_each_place)
{
    for (size_t before = 0; before < 10; before++)
        for (int c = 0; c < 256; c++) {
            char text[32];
            int len = snprintf(text, sizeof(text), "\"%.*s\\?1234b\"",
                (int)before, "aaaaaaaaaaaa");

            *strchr(text, '?') = (char)c;
            assert_read_as_by_the_oracle((struct slice){text, (size_t)len});
        }
}

static void assert_written(struct slice text, const char *wanted)
{
    struct buf to;
    struct json *json;

    buf_init(&to, 1000);
    json_add_string(&to, text);
    assert_string_equal(buf_text(&to), wanted);
    json = parse(buf_slice(&to), 1);
    assert_true(slice_equal(json_string(json), text));
    json_free(json);
    buf_done(&to);
}

FIXTURE_TEST(strings_are_written_so_that_they_read_back)
{
    assert_written(WHOLE("a\"\\\n\r\t\b\0\x1f/\x7f\xc3\xa9\xf0\x9f\x98\x80"),
        "\"a\\\"\\\\\\n\\r\\t\\u0008\\u0000\\u001f/\\u007f\xc3\xa9"
        "\xf0\x9f\x98\x80\"");
    assert_written((struct slice){NULL, 0}, "\"\"");
    /* A terminal would obey the control sequence, and show the file name in the
     * wrong direction. */
    assert_written(slice_of("\xc2\x9b"
                            "2J\xe2\x80\xae"
                            "fdp.exe"
                            "\xe2\x81\xa6\xd8\x9c\xef\xbb\xbf\xc2\xa0"),
        "\"\\u009b2J\\u202efdp.exe\\u2066\\u061c\\ufeff\xc2\xa0\"");
}

static enum tw_err read_ones(size_t count, bool in_object, struct err *err)
{
    struct json *json = NULL;
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, 4 * 1024 * 1024);
    buf_add_char(&text, in_object ? '{' : '[');
    for (size_t i = 0; i < count; i++)
        if (in_object)
            buf_add_format(&text, "%s\"%zu\":1", i == 0 ? "" : ",", i);
        else
            buf_add_text(&text, i == 0 ? "1" : ",1");
    buf_add_char(&text, in_object ? '}' : ']');
    outcome = in_object ? read_flat(buf_slice(&text), NULL, err)
                        : json_parse(buf_slice(&text), 1, &json, err);
    json_free(json);
    buf_done(&text);
    return outcome;
}

FIXTURE_TEST(number_of_values_is_bounded)
{
    struct err err;

    assert_ok(read_ones(JSON_MAX_VALUES - 1, false, &err));
    assert_int_equal(read_ones(JSON_MAX_VALUES, false, &err), TW_INVALID);
    assert_says(&err, "more than 32768 values");
    assert_ok(read_ones(JSON_MAX_MEMBERS, true, &err));
    assert_int_equal(read_ones(JSON_MAX_MEMBERS + 1, true, &err), TW_INVALID);
    assert_says(&err, "more than 1025 values");
}

/* Parses a text in this child process, and ends the process. If the n-th
 * allocation is reached, it fails and the process ends with 75. Otherwise the
 * process ends with 0 if the result is right, and with 1 if not. */
static void read_without_memory(unsigned long n)
{
    struct json *json = NULL;
    struct buf text;

    buf_init(&text, 10000);
    buf_add_text(&text, "{\"a\":[\"\\u20ac\"],\"b\":");
    add_members(&text, 40, 40);
    buf_add_char(&text, '}');
    mem_fail_after(n);
    if (json_parse(buf_slice(&text), 2, &json, NULL) != TW_OK ||
        json_count(json) != 2 || json_count(json_get(json, "b")) != 40)
        _exit(1);
    _exit(mem_fail_after(0) == 0 ? 1 : 0);
}

FIXTURE_TEST(an_allocation_that_fails_while_reading_ends_the_process)
{
    int status = -1;
    unsigned long ended = 0;

    for (unsigned long n = 1; n < 1000 && status != 0; n++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* otherwise cmocka would continue in the
                                         child process */
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
    assert_true(ended > 4);
}
