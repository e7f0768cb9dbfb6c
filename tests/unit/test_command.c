/* SPDX-License-Identifier: MIT */
/* The table of commands, and how a command line is understood. */
#include <stdio.h>

#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"

#define MAX_WORDS 16

/* Runs a command line in this process; blanks separate its words. */
static int run_line(const char *line)
{
    char words[200], *rest, *argv[MAX_WORDS] = {(char[]){"tableward"}};
    int argc = 1;

    (void)snprintf(words, sizeof(words), "%s", line);
    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    return command_main(argc, argv);
}

TEST(every_command_is_whole)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    assert_int_equal(count, 21);
    for (size_t i = 0; i < count; i++) {
        size_t required = 0;

        assert_non_null(list[i]->name);
        assert_non_null(list[i]->run);
        assert_non_null(list[i]->arguments);
        assert_true(strlen(list[i]->summary) < 66);
        while (list[i]->required && list[i]->required[required])
            required++;
        assert_true(required <= list[i]->max_args);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(list[i]->name, list[k]->name);
    }
}

TEST(every_command_has_help)
{
    static const char *const ways[][2] = {
        {"help ", ""}, {"", " --help"}, {"-h ", ""}};
    size_t count;
    const struct command *const *list = command_list(&count);

    for (size_t way = 0; TEST_EACH(way, ways); way++)
        for (size_t i = 0; i < count; i++) {
            char *line =
                mem_format("%s%s%s", ways[way][0], list[i]->name, ways[way][1]);

            assert_int_equal(run_line(line), EXIT_DONE);
            mem_free(line);
        }
}

TEST(options_may_stand_anywhere_before_two_hyphens)
{
    static const char *const good[] = {"--log-level warn version",
        "version --log-level=warn", "help --log-format json worker",
        "version --log-format=text", "-- version"};

    for (size_t i = 0; TEST_EACH(i, good); i++)
        assert_int_equal(run_line(good[i]), EXIT_DONE);
}

TEST(what_is_wrong_on_the_line_is_64)
{
    static const char *const wrong[] = {"vershun", "-x", "--drain",
        "version --drain", "version now", "version --log-level=loud",
        "version --log-format=xml", "help -- --version", "count --filter",
        "worker --drain=1", "count", "count No_Table", "export T1x a b"};
    char *empty_word[] = {(char[]){"tableward"}, (char[]){""}, NULL};

    for (size_t i = 0; TEST_EACH(i, wrong); i++)
        assert_int_equal(run_line(wrong[i]), 64);
    assert_int_equal(command_main(2, empty_word), 64);
}

/* ---- output and exit codes ---- */

TEST(outcomes_have_their_exit_codes)
{
    assert_int_equal(print_exit(TW_OK), 0);
    assert_int_equal(print_exit(TW_BUSY), 69);
    assert_int_equal(print_exit(TW_REFUSED), 69);
    assert_int_equal(print_exit(TW_UNKNOWN), 69);
    assert_int_equal(print_exit(TW_STOPPED), 75);
    assert_int_equal(print_exit(TW_FULL), 75);
    assert_int_equal(print_exit(TW_NOT_FOUND), 1);
    stop_ask();
    assert_int_equal(print_exit(TW_BUSY), 75);
    assert_int_equal(print_exit(TW_UNKNOWN), 75);
    assert_int_equal(print_exit(TW_REFUSED), 69);
    stop_forget();
}

TEST(numbers_are_grouped)
{
    static const struct {
        int64_t number;
        const char *text;
    } cases[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {-1000, "-1,000"},
        {-100, "-100"}, {1234567, "1,234,567"},
        {INT64_MAX, "9,223,372,036,854,775,807"},
        {INT64_MIN, "-9,223,372,036,854,775,808"}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct buf text;

        buf_init(&text, 64);
        print_count(&text, cases[i].number);
        assert_string_equal(buf_text(&text), cases[i].text);
        buf_done(&text);
    }
}

TEST(a_moment_that_never_was_is_a_hyphen)
{
    char time[TEXT_TIME_MAX];

    assert_string_equal(print_time(0, time), "-");
    assert_string_equal(print_time(TICKS_1970, time), "1970-01-01 00:00:00Z");
}
