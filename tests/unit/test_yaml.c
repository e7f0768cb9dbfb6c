/* SPDX-License-Identifier: MIT */
/* YAML: a tree with positions; features that are not needed are refused. */
#include "config/yaml.h"
#include "tests/support/config_text.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"

static struct yaml_node *read_text(struct config_text *c, const char *text)
{
    return config_text_read(c, slice_of(text));
}

CONFIG_TEST(tree_keeps_types_order_and_places)
{
    struct yaml_node *root = read_text(c, "# a comment\n"
                                          "b:\n"
                                          "  - one\n"
                                          "  - 'two'\n"
                                          "a: {x: \"\", y: }\n");
    struct yaml_node *list, *map;

    assert_non_null(root);
    assert_int_equal(c->problems.errors, 0);
    assert_int_equal(root->type, YAML_MAP);
    assert_int_equal(root->count, 2);
    assert_string_equal(root->keys[0]->text.at, "b");
    config_text_check_mark(root->keys[0]->mark, 2, 1);
    list = yaml_get(root, "b");
    assert_int_equal(list->type, YAML_LIST);
    assert_int_equal(list->count, 2);
    assert_string_equal(list->items[0]->text.at, "one");
    assert_false(list->items[0]->quoted);
    assert_true(list->items[1]->quoted);
    config_text_check_mark(list->items[1]->mark, 4, 5);
    assert_null(yaml_get(list, "one"));
    assert_null(yaml_get(root, "one"));
    assert_null(yaml_get(NULL, "b"));
    map = yaml_get(root, "a");
    assert_int_equal(map->type, YAML_MAP);
    config_text_check_mark(map->mark, 5, 4);
    assert_true(map->items[0]->quoted);
    assert_int_equal(map->items[1]->text.len, 0);
    assert_false(map->items[1]->quoted);
}

CONFIG_TEST(an_empty_file_is_an_empty_map)
{
    static const char *const texts[] = {"", "# nothing\n", "---\n", "\n\n"};

    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        struct yaml_node *root = read_text(c, texts[i]);

        assert_non_null(root);
        assert_int_equal(root->type, YAML_MAP);
        assert_int_equal(root->count, 0);
        config_text_check_mark(root->mark, 1, 1);
    }
    assert_non_null(config_text_read(c, (struct slice){0}));
}

CONFIG_TEST(folded_and_literal_texts_are_texts)
{
    struct yaml_node *root = read_text(c, "a: |\n  1\n  2\nb: >-\n  3\n");

    assert_string_equal(yaml_get(root, "a")->text.at, "1\n2\n");
    assert_true(yaml_get(root, "a")->quoted);
    assert_string_equal(yaml_get(root, "b")->text.at, "3");
    assert_true(yaml_get(root, "b")->quoted);
}

CONFIG_TEST(columns_count_characters)
{
    struct yaml_node *root = read_text(c, "{\"\xc3\xa9\xc3\xa9\": x}\n");

    config_text_check_mark(root->items[0]->mark, 1, 8);
}

/* Each of these texts ends the parsing with one problem. */
static const struct {
    const char *name, *text;
    unsigned line, column;
    const char *problem;
} fatal[] = {
    {"a second YAML document", "a: 1\n---\nb: 2\n", 2, 1,
        "a second YAML document begins here; a configuration must be one "
        "document"},
    {"an anchor", "a: &x 1\nb: 2\n", 1, 4,
        "the anchor &x is not supported: write the value itself"},
    {"an anchored map", "a: &x\n  c: 1\n", 1, 4,
        "the anchor &x is not supported: write the value itself"},
    {"an anchored key", "&x a: 1\n", 1, 1,
        "the anchor &x is not supported: write the value itself"},
    {"an alias", "a: 1\nb: *x\n", 2, 4,
        "the alias *x is not supported: write the value itself"},
    {"a map as key", "a: 1\n? {b: 1}\n: 2\n", 2, 3,
        "a key must be a text, not a list or a map (write a text with { in "
        "quotes)"},
    {"a tab", "a:\n\tb: 1\n", 2, 1,
        "found character that cannot start any token, while scanning for the "
        "next token (line 2) (indent with spaces, not with tabs)"},
    {"a tab behind spaces", "a:\n  \tb: 1\n", 2, 3,
        "found character that cannot start any token, while scanning for the "
        "next token (line 2) (indent with spaces, not with tabs)"},
    {"a bare template", "a: {x}_{y}\n", 1, 7,
        "did not find expected key, while parsing a block mapping (line 1) "
        "(write a text with { in quotes)"},
    {"an open list", "a: [1,\n", 2, 1,
        "did not find expected node content, while parsing a flow node "
        "(line 2)"},
    {"an open quote", "a: \"x\n", 2, 1,
        "found unexpected end of stream, while scanning a quoted scalar "
        "(line 1)"},
    {"a control character", "a: 1\nb: \x01\n", 2, 4,
        "control characters are not allowed"},
    {"bytes that are not UTF-8", "a: 1\nb: \xc3\xa9\xff\n", 2, 5,
        "the file is not UTF-8 here: save it as UTF-8"},
    {"a character cut off", "a: \xc3", 1, 4,
        "the file is not UTF-8 here: save it as UTF-8"},
};

CONFIG_TEST(what_ends_the_reading_is_said_once_at_its_place)
{
    for (size_t i = 0; TEST_EACH(i, fatal); i++) {
        test_case("%s", fatal[i].name);
        config_text_renew(c);
        assert_null(read_text(c, fatal[i].text));
        config_text_check_only(
            c, fatal[i].line, fatal[i].column, fatal[i].problem);
    }
}

CONFIG_TEST(duplicate_keys_are_listed_with_the_first)
{
    assert_non_null(
        read_text(c, "a: 1\nb: {x: 1, y: 2, x: 3}\nc: 2\n'a': 3\n"));
    assert_int_equal(c->problems.errors, 2);
    config_text_check(c, 0, 2, 17, "duplicate key 'x': line 2 has it already");
    config_text_check(c, 1, 4, 1, "duplicate key 'a': line 1 has it already");
}

CONFIG_TEST(tags_are_listed)
{
    struct yaml_node *root = read_text(c, "a: !!str 5\nb: !x [1]\nc: ! {}\n");

    assert_non_null(root);
    assert_int_equal(c->problems.errors, 3);
    config_text_check(c, 0, 1, 4,
        "the tag tag:yaml.org,2002:str is not supported: write the value "
        "itself");
    config_text_check(
        c, 1, 2, 4, "the tag !x is not supported: write the value itself");
}

CONFIG_TEST(nul_characters_are_refused)
{
    assert_non_null(read_text(c, "a: \"x\\0y\"\n"));
    config_text_check(
        c, 0, 1, 4, "a text must not contain a NUL character (\\0)");
    assert_null(config_text_read(c, (struct slice){"a: \0\n", 5}));
    config_text_check(c, 1, 1, 4, "control characters are not allowed");
}

/* Parses a text of `open` count times, then `close` count times. */
static struct yaml_node *read_nested(
    struct config_text *c, int count, const char *open, const char *close)
{
    struct yaml_node *root;
    struct buf text;

    buf_init(&text, 1 << 20);
    for (int i = 0; i < count; i++)
        buf_add_text(&text, open);
    for (int i = 0; i < count; i++)
        buf_add_text(&text, close);
    root = config_text_read(c, buf_slice(&text));
    buf_done(&text);
    return root;
}

CONFIG_TEST(nesting_has_an_end)
{
    assert_non_null(read_nested(c, 64, "[", "]"));
    assert_int_equal(c->problems.errors, 0);
    assert_null(read_nested(c, 65, "[", "]"));
    config_text_check(c, 0, 1, 65, "nested deeper than 64 levels");
    assert_null(read_nested(c, 500000, "[", ""));
    assert_null(read_nested(c, 200000, "{a: ", "}"));
    assert_null(read_nested(c, 500000, "- ", ""));
    assert_int_equal(c->problems.errors, 4);
}

CONFIG_TEST(a_file_over_one_mebibyte_is_refused)
{
    size_t len = (1 << 20) + 1;
    char *text = test_malloc(len);

    memset(text, '#', len);
    assert_non_null(config_text_read(c, (struct slice){text, len - 1}));
    assert_null(config_text_read(c, (struct slice){text, len}));
    config_text_check(c, 0, 1, 1,
        "the file has 1048577 bytes; a configuration has at most 1048576");
    test_free(text);
}

CONFIG_TEST(a_map_of_very_many_keys_is_read_in_good_time)
{
    struct yaml_node *root;
    struct buf text;

    buf_init(&text, 1 << 20);
    for (int i = 0; i < 100000; i++)
        buf_add_format(&text, "k%d:\n", i);
    buf_add_text(&text, "k5:\n");
    root = config_text_read(c, buf_slice(&text));
    assert_non_null(root);
    assert_int_equal(root->count, 100001);
    config_text_check_only(
        c, 100001, 1, "duplicate key 'k5': line 6 has it already");
    buf_done(&text);
}

CONFIG_TEST(a_byte_order_mark_is_passed_over)
{
    struct yaml_node *root = read_text(c, "\xef\xbb\xbf"
                                          "a: 1\n");

    assert_non_null(root);
    assert_string_equal(yaml_get(root, "a")->text.at, "1");
}
