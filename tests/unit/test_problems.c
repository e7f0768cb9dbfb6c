/* SPDX-License-Identifier: MIT */
/* Problems: all are printed, in the order of the file. */
#include <stdio.h>
#include <string.h>

#include "config/problems.h"
#include "tests/support/test.h"
#include "worker/base/text.h"

/* Returns what problems_print() writes. */
static const char *printed(const struct problems *problems)
{
    static char text[65536];
    FILE *to = fmemopen(text, sizeof(text), "w");

    assert_non_null(to);
    problems_print(problems, to);
    fclose(to);
    return text;
}

static void assert_prints(const struct problems *problems, const char *wanted)
{
    assert_string_equal(printed(problems), wanted);
}

TEST_FIXTURE(problems, struct problems, problems_init, problems_done)

#define PROBLEMS_TEST(name)                                                    \
    TEST_WITH(                                                                 \
        name, problems_set_up, problems_tear_down, struct problems *problems)

PROBLEMS_TEST(problems_are_printed_by_file_line_and_column)
{
    problems_add(problems, (struct mark){"b.yaml", 1, 1}, "last");
    problems_add(problems, (struct mark){"a.yaml", 10, 1}, "fourth");
    problems_add(problems, (struct mark){"a.yaml", 2, 7}, "second");
    problems_add(problems, (struct mark){"a.yaml", 2, 3}, "first %d", 1);
    problems_add(problems, (struct mark){"a.yaml", 2, 7}, "third");
    assert_prints(problems, "a.yaml:2:3: first 1\n"
                            "a.yaml:2:7: second\n"
                            "a.yaml:2:7: third\n"
                            "a.yaml:10:1: fourth\n"
                            "b.yaml:1:1: last\n");
    assert_int_equal(problems->errors, 5);
}

PROBLEMS_TEST(problems_without_a_place_are_sentences_alone)
{
    problems_add(problems, (struct mark){"a.yaml", 0, 0}, "no such file");
    problems_add(problems, (struct mark){0}, "nothing at all");
    assert_prints(problems, "nothing at all\na.yaml: no such file\n");
}

PROBLEMS_TEST(warnings_are_told_apart)
{
    problems_warn(problems, (struct mark){"a.yaml", 3, 4}, "%s", "hm");
    assert_int_equal(problems->errors, 0);
    assert_int_equal(problems->warnings, 1);
    assert_true(problems->list[0].warning);
    assert_prints(problems, "a.yaml:3:4: warning: hm\n");
}

PROBLEMS_TEST(problems_beyond_the_largest_number_are_counted)
{
    for (unsigned i = 0; i < PROBLEMS_MAX + 7; i++)
        problems_add(problems, (struct mark){"a.yaml", i + 1, 1}, "bad");
    assert_int_equal(problems->count, PROBLEMS_MAX);
    assert_int_equal(problems->errors, PROBLEMS_MAX + 7);
    assert_non_null(
        strstr(printed(problems), "a.yaml:100:1: bad\nand 7 more\n"));
}

PROBLEMS_TEST(problems_keep_the_name_of_the_file)
{
    char name[] = "a.yaml";

    problems_add(problems, (struct mark){name, 1, 2}, "bad");
    name[0] = 'x';
    assert_prints(problems, "a.yaml:1:2: bad\n");
}

PROBLEMS_TEST(a_sentence_is_not_cut_within_a_character)
{
    char text[3 * 1024 + 1];

    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = "\xe2\x98\x83"[i % 3]; /* characters of three bytes */
    text[sizeof(text) - 1] = '\0';
    for (int shift = 0; shift < 3; shift++) {
        const char *kept;

        problems_add(problems, (struct mark){0}, "%.*s%s", shift, "ab", text);
        kept = problems->list[shift].text;
        assert_in_range(strlen(kept), 1000, 1023);
        assert_true(text_is_utf8(slice_of(kept)));
        assert_string_equal(kept + strlen(kept) - 3, "...");
    }
}

PROBLEMS_TEST(what_a_terminal_would_obey_is_printed_visibly)
{
    problems_add(problems, (struct mark){"a\nb.yaml", 1, 2}, "%s",
        "no \x1b[2J, \xff, caf\xc3\xa9 or \xe2\x80\xae");
    assert_prints(problems, "a\\x0ab.yaml:1:2: no \\x1b[2J, \\xff, "
                            "caf\xc3\xa9 or \\u202e\n");
}
