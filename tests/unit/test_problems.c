/* SPDX-License-Identifier: MIT */
/* Problems: all of them, in the order of the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/problems.h"
#include "worker/base/text.h"

/* What problems_print() writes. Owned, for free(). */
static char *printed(const struct problems *problems)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);

    assert_non_null(to);
    problems_print(problems, to);
    fclose(to);
    return text;
}

static void assert_prints(const struct problems *problems, const char *wanted)
{
    char *text = printed(problems);

    assert_string_equal(text, wanted);
    free(text);
}

static void problems_are_printed_by_file_line_and_column(void **state)
{
    struct problems problems;

    (void)state;
    problems_init(&problems);
    problems_add(&problems, (struct mark){"b.yaml", 1, 1}, "last");
    problems_add(&problems, (struct mark){"a.yaml", 10, 1}, "fourth");
    problems_add(&problems, (struct mark){"a.yaml", 2, 7}, "second");
    problems_add(&problems, (struct mark){"a.yaml", 2, 3}, "first %d", 1);
    problems_add(&problems, (struct mark){"a.yaml", 2, 7}, "third");
    assert_prints(&problems, "a.yaml:2:3: first 1\n"
                             "a.yaml:2:7: second\n"
                             "a.yaml:2:7: third\n"
                             "a.yaml:10:1: fourth\n"
                             "b.yaml:1:1: last\n");
    assert_int_equal(problems.errors, 5);
    problems_done(&problems);
}

static void problems_without_a_place_are_sentences_alone(void **state)
{
    struct problems problems;

    (void)state;
    problems_init(&problems);
    problems_add(&problems, (struct mark){"a.yaml", 0, 0}, "no such file");
    problems_add(&problems, (struct mark){0}, "nothing at all");
    assert_prints(&problems, "nothing at all\na.yaml: no such file\n");
    problems_done(&problems);
}

static void warnings_are_told_apart(void **state)
{
    struct problems problems;

    (void)state;
    problems_init(&problems);
    problems_warn(&problems, (struct mark){"a.yaml", 3, 4}, "%s", "hm");
    assert_int_equal(problems.errors, 0);
    assert_int_equal(problems.warnings, 1);
    assert_true(problems.list[0].warning);
    assert_prints(&problems, "a.yaml:3:4: warning: hm\n");
    problems_done(&problems);
}

static void problems_beyond_the_largest_number_are_counted(void **state)
{
    struct problems problems;
    char *text;

    (void)state;
    problems_init(&problems);
    for (unsigned i = 0; i < PROBLEMS_MAX + 7; i++)
        problems_add(&problems, (struct mark){"a.yaml", i + 1, 1}, "bad");
    assert_int_equal(problems.count, PROBLEMS_MAX);
    assert_int_equal(problems.errors, PROBLEMS_MAX + 7);
    text = printed(&problems);
    assert_non_null(strstr(text, "a.yaml:100:1: bad\nand 7 more\n"));
    free(text);
    problems_done(&problems);
}

static void problems_keep_the_name_of_the_file(void **state)
{
    struct problems problems;
    char name[] = "a.yaml";

    (void)state;
    problems_init(&problems);
    problems_add(&problems, (struct mark){name, 1, 2}, "bad");
    name[0] = 'x';
    assert_prints(&problems, "a.yaml:1:2: bad\n");
    problems_done(&problems);
}

static void a_sentence_of_any_length_is_cut(void **state)
{
    struct problems problems;
    char text[5000];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    problems_init(&problems);
    problems_add(&problems, (struct mark){"a.yaml", 1, 2}, "%s", text);
    assert_in_range(strlen(problems.list[0].text), 1000, 1023);
    problems_done(&problems);
}

static void a_sentence_is_not_cut_within_a_character(void **state)
{
    struct problems problems;
    char text[3 * 1024 + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = "\xe2\x98\x83"[i % 3]; /* snowmen */
    text[sizeof(text) - 1] = '\0';
    problems_init(&problems);
    for (int shift = 0; shift < 3; shift++) {
        const char *kept;

        problems_add(&problems, (struct mark){0}, "%.*s%s", shift, "ab", text);
        kept = problems.list[shift].text;
        assert_true(text_is_utf8(slice_of(kept)));
        assert_string_equal(kept + strlen(kept) - 3, "...");
    }
    problems_done(&problems);
}

static void what_a_terminal_would_obey_is_printed_visibly(void **state)
{
    struct problems problems;

    (void)state;
    problems_init(&problems);
    problems_add(&problems, (struct mark){"a\nb.yaml", 1, 2}, "%s",
        "no \x1b[2J, \xff, caf\xc3\xa9 or \xe2\x80\xae");
    assert_prints(&problems, "a\\x0ab.yaml:1:2: no \\x1b[2J, \\xff, "
                             "caf\xc3\xa9 or \\u202e\n");
    problems_done(&problems);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(problems_are_printed_by_file_line_and_column),
        cmocka_unit_test(problems_without_a_place_are_sentences_alone),
        cmocka_unit_test(warnings_are_told_apart),
        cmocka_unit_test(problems_beyond_the_largest_number_are_counted),
        cmocka_unit_test(problems_keep_the_name_of_the_file),
        cmocka_unit_test(a_sentence_of_any_length_is_cut),
        cmocka_unit_test(a_sentence_is_not_cut_within_a_character),
        cmocka_unit_test(what_a_terminal_would_obey_is_printed_visibly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
