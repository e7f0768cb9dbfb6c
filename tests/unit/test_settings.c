/* SPDX-License-Identifier: MIT */
/* Settings: tables of keys, and the errors of files that do not match them. */
#include <stdlib.h>

#include "config/settings.h"
#include "tests/support/config_text.h"
#include "tests/support/test.h"

/* ---- tables ---- */

struct sample {
    struct slice name;
    int64_t slots;
    double price;
    bool verify;
    int64_t timeout_ms, settle_ms;
    int64_t size_bytes;
    int mode;
    const struct yaml_node *args;
};

static const char *const modes[] = {"copy", "move", NULL};

#define KEY(name, of_type, field, default_text, least, most)                   \
    {                                                                          \
        .key = name, .type = SETTING_##of_type,                                \
        .offset = SETTING_FIELD(struct sample, field),                         \
        .fallback = default_text, .min = least, .max = most                    \
    }

static const struct setting table[] = {
    KEY("name", TEXT, name, "a ${B} 7", 0, 0),
    KEY("slots", INT, slots, "4", 1, 64),
    KEY("price", DOUBLE, price, "0.00036", 0, 100),
    KEY("verify", BOOL, verify, "true", 0, 0),
    KEY("visibility_timeout", DURATION_MS, timeout_ms, "60s", 2000, INT64_MAX),
    KEY("settle", DURATION_MS, settle_ms, NULL, 0, 7200000),
    KEY("size", SIZE_BYTES, size_bytes, "64KiB", 1024, 4 << 20),
    {.key = "mode",
        .type = SETTING_CHOICE,
        .offset = SETTING_FIELD(struct sample, mode),
        .fallback = "move",
        .choices = modes},
    KEY("args", NODE, args, NULL, 0, 0),
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

static bool load(struct config_text *c, const char *text, struct sample *sample)
{
    return settings_load(text ? config_text_read_good(c, text) : NULL, "worker",
        table, COUNT(table), &c->arena, sample, &c->problems);
}

CONFIG_TEST(absent_keys_have_their_fallback)
{
    for (int i = 0; i < 2; i++) {
        struct sample sample = {.settle_ms = -7};

        setenv("B", "b", 1);
        assert_true(load(c, i == 0 ? NULL : "", &sample));
        assert_string_equal(sample.name.at, "a b 7");
        assert_int_equal(sample.slots, 4);
        assert_true(sample.verify);
        assert_int_equal(sample.timeout_ms, 60000);
        assert_int_equal(sample.settle_ms, -7);
        assert_int_equal(sample.size_bytes, 65536);
        assert_int_equal(sample.mode, 1);
        assert_null(sample.args);
    }
}

#define BAD_SLOTS "slots must be a whole number such as 4, from 1 to 64, not "
#define BAD_PRICE "price must be a number such as 0.00036, from 0 to 100, not "
#define BAD_TIMEOUT                                                            \
    "visibility_timeout must be a duration such as 60s, at least 2s, not "

static const struct {
    const char *text;
    unsigned line, column;
    const char *problem;
} wrong[] = {
    {"slot: 3\n", 1, 1, "unknown key 'slot' in worker, did you mean 'slots'?"},
    {"# x\n\n  colour: 3\n", 3, 3,
        "unknown key 'colour' in worker: expected name, slots, price, verify, "
        "visibility_timeout, settle, size, mode or args"},
    {"slots: \"4\"\n", 1, 8, BAD_SLOTS "the text '4'"},
    {"slots: four\n", 1, 8, BAD_SLOTS "'four'"},
    {"slots: 65\n", 1, 8, BAD_SLOTS "'65'"},
    {"slots: 0x10\n", 1, 8, BAD_SLOTS "'0x10'"},
    {"slots: 1.0\n", 1, 8, BAD_SLOTS "'1.0'"},
    {"slots: 99999999999999999999\n", 1, 8, BAD_SLOTS "'99999999999999999999'"},
    {"slots:\n", 1, 7, BAD_SLOTS "nothing"},
    {"price: -1\n", 1, 8, BAD_PRICE "'-1'"},
    {"price: .nan\n", 1, 8, BAD_PRICE "'.nan'"},
    {"verify: yes\n", 1, 9, "verify must be true or false, not 'yes'"},
    {"verify: 'true'\n", 1, 9,
        "verify must be true or false, not the text 'true'"},
    {"verify: [true]\n", 1, 9, "verify must be true or false, not a list"},
    {"visibility_timeout: 30\n", 1, 21, BAD_TIMEOUT "'30'"},
    {"visibility_timeout: 1999ms\n", 1, 21, BAD_TIMEOUT "'1999ms'"},
    {"settle: 3h\n", 1, 9,
        "settle must be a duration such as 30s, from 0s to 2h, not '3h'"},
    {"size: 64KB\n", 1, 7,
        "size must be a size such as 64KiB, from 1KiB to 4MiB, not '64KB'"},
    {"name: 5\n", 1, 7, "name must be a text, not '5'"},
    {"name: true\n", 1, 7, "name must be a text, not 'true'"},
    {"name: ~\n", 1, 7, "name must be a text, not nothing"},
    {"name: {channel}\n", 1, 7,
        "name must be a text, not a map: write it in quotes, \"{channel}\""},
    {"name: ${NOT_SET_HERE}\n", 1, 7,
        "the environment variable NOT_SET_HERE is not set"},
    {"mode: mov\n", 1, 7, "unknown mode 'mov', did you mean 'move'?"},
    {"mode: sideways\n", 1, 7,
        "unknown mode 'sideways': expected copy or move"},
    {"mode: 5\n", 1, 7, "mode must be one of copy or move, not '5'"},
};

CONFIG_TEST(what_does_not_fit_is_said_with_what_would)
{
    unsetenv("NOT_SET_HERE");
    for (size_t i = 0; TEST_EACH(i, wrong); i++) {
        struct sample sample = {0};

        config_text_renew(c);
        assert_false(load(c, wrong[i].text, &sample));
        config_text_check_only(
            c, wrong[i].line, wrong[i].column, wrong[i].problem);
    }
}

CONFIG_TEST(all_mistakes_are_listed_and_what_is_right_is_kept)
{
    struct sample sample = {0};

    assert_false(load(c,
        "slots: x\nnope: 1\nverify: 2\nsettle: 7s\nvisibility_timeout: 1\n",
        &sample));
    assert_int_equal(c->problems.errors, 4);
    assert_int_equal(sample.settle_ms, 7000);
}

CONFIG_TEST(a_required_key_is_missed)
{
    static const struct setting required[] = {
        {.key = "kind",
            .type = SETTING_TEXT,
            .offset = SETTING_FIELD(struct sample, name),
            .required = true,
            .help = "what the job does"},
    };
    struct sample sample = {0};

    assert_false(settings_load(config_text_read_good(c, "\n{}\n"), "job x",
        required, 1, &c->arena, &sample, &c->problems));
    config_text_check(
        c, 0, 2, 1, "job x lacks the key 'kind': what the job does");
}

CONFIG_TEST(texts_and_measures_take_variables)
{
    struct sample sample = {0};

    setenv("TIMEOUT", "7s", 1);
    setenv("MODE", "copy", 1);
    assert_true(load(c,
        "visibility_timeout: ${TIMEOUT}\nmode: \"${MODE}\"\n"
        "size: ${NO_SIZE:-2KiB}\n",
        &sample));
    assert_int_equal(sample.timeout_ms, 7000);
    assert_int_equal(sample.mode, 0);
    assert_int_equal(sample.size_bytes, 2048);
}

/* ---- texts ---- */

static const struct {
    const char *text; /* the value, which is in single quotes in the file */
    bool is_template;
    const char *wanted; /* NULL: refused */
} texts[] = {
    {"plain", false, "plain"},
    {"", false, ""},
    {"${ONE}", false, "one"},
    {"a${ONE}b${ONE}c", false, "aonebonec"},
    {"${EMPTY}", false, ""},
    {"${EMPTY:-x}", false, "x"},
    {"${NOT_SET_HERE:-x y}", false, "x y"},
    {"${NOT_SET_HERE:-}", false, ""},
    {"${ONE:-x}", false, "one"},
    {"${NOT_SET_HERE:-a:-b}", false, "a:-b"},
    {"cost: $5, $ and $$ and $x", false, "cost: $5, $ and $$ and $x"},
    {"$${ONE}", false, "$one"},
    {"{a}${BRACES}{b}", true, "{a}{{x}} ${{ONE}}{b}"},
    {"{a}${BRACES}{b}", false, "{a}{x} ${ONE}{b}"},
    {"${NOT_SET_HERE:-{x}", true, "{{x"},
    {"${", false, NULL},
    {"${}", false, NULL},
    {"${ONE", false, NULL},
    {"${ONE:x}", false, NULL},
    {"${ONE:", false, NULL},
    {"${ONE-x}", false, NULL},
    {"${1}", false, NULL},
    {"${O NE}", false, NULL},
    {"x ${:-y}", false, NULL},
    {"${NOT_SET_HERE}", false, NULL},
    {"${NOT_UTF8}", false, NULL},
};

static void set_variables(void)
{
    setenv("ONE", "one", 1);
    setenv("EMPTY", "", 1);
    setenv("BRACES", "{x} ${ONE}", 1);
    setenv("NOT_UTF8", "a\xff", 1);
    unsetenv("NOT_SET_HERE");
}

CONFIG_TEST(variables_are_replaced_and_never_read_again)
{
    set_variables();
    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        struct slice ret = {0};
        struct yaml_node node = {.type = YAML_SCALAR, .quoted = true};
        bool good;

        config_text_renew(c);
        node.text = slice_of(texts[i].text);
        good = settings_text(
            &node, texts[i].is_template, &c->arena, &ret, NULL, &c->problems);
        if (texts[i].wanted == NULL) {
            assert_false(good);
            assert_int_equal(c->problems.errors, 1);
            assert_null(ret.at);
        } else {
            assert_true(good);
            assert_string_equal(ret.at, texts[i].wanted);
        }
    }
}

CONFIG_TEST(a_strange_word_is_shown_safely)
{
    static const char *const names[] = {"cascade-delete"};

    settings_unknown(&c->problems, (struct mark){"t.yaml", 1, 1}, "kind",
        slice_of("a\nb\x1b[31m"), names, 1);
    assert_null(strpbrk(c->problems.list[0].text, "\n\x1b"));
    settings_unknown(&c->problems, (struct mark){"t.yaml", 1, 1}, "kind",
        slice_of("x"), names, 0);
    config_text_check(c, 1, 1, 1, "unknown kind 'x': none is configured");
}
