/* SPDX-License-Identifier: MIT */
/* The keys of an entity as a JSON list: what is written can be read. */
#include "jobs/engine/keys.h"
#include "tests/support/test.h"
#include "worker/base/json.h"

#define DEPTH 3

static struct json *parse(struct slice text)
{
    struct json *json;
    struct err err;

    if (json_parse(text, DEPTH, &json, &err) != TW_OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return json;
}

/* Lists of keys are stored in entities, so later versions must be able to read
 * them. */
TEST(keys_are_a_list_of_two_texts)
{
    struct buf text;

    buf_init(&text, 100);
    keys_write(&text, slice_of("a \"b\""), slice_of(""));
    assert_string_equal(buf_text(&text), "[\"a \\\"b\\\"\",\"\"]");
    buf_done(&text);
}

TEST(keys_of_any_kind_are_read_back)
{
    const struct slice keys[] = {slice_of(""), slice_of("\"],[\""),
        slice_of("Łódź 🙂"), slice_of("\\u0041\t"), {"a\0b", 3}};

    for (size_t i = 0; TEST_EACH(i, keys); i++) {
        struct slice partition_key, row_key, other = keys[(i + 1) % 5];
        struct json *json;
        struct buf text;

        buf_init(&text, 100);
        keys_write(&text, keys[i], other);
        json = parse(buf_slice(&text));
        assert_true(keys_read(json, &partition_key, &row_key));
        assert_true(slice_equal(partition_key, keys[i]));
        assert_true(slice_equal(row_key, other));
        json_free(json);
        buf_done(&text);
    }
}

TEST(what_is_no_list_of_two_texts_is_refused)
{
    static const char *const texts[] = {"null", "7", "\"ab\"", "{}", "[]",
        "[\"a\"]", "[\"a\",1]", "[null,\"b\"]", "[\"a\",[\"b\"]]",
        "[\"a\",\"b\",\"c\"]", "{\"a\":\"b\",\"c\":\"d\"}"};
    struct slice partition_key = slice_of("p"), row_key = slice_of("r");

    assert_false(keys_read(NULL, &partition_key, &row_key));
    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        struct json *json = parse(slice_of(texts[i]));

        if (keys_read(json, &partition_key, &row_key))
            fail_msg("%s", texts[i]);
        json_free(json);
    }
    assert_true(slice_is(partition_key, "p"));
    assert_true(slice_is(row_key, "r"));
}
