/* SPDX-License-Identifier: MIT */
/* The table of commands, and how a command line is understood. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"

#define MAX_WORDS 16

/* Run a command line in this process; both outputs go into files. */
static int run_line(char *const *words)
{
    char *argv[MAX_WORDS] = {(char[]){"tableward"}};
    int argc = 1;

    while (words[argc - 1]) {
        argv[argc] = words[argc - 1];
        argc++;
    }
    return command_main(argc, argv);
}

#define RUN(...) run_line((char *const[]){__VA_ARGS__, NULL})

#define WORD(text) ((char[]){text})

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

TEST(a_command_is_found_by_its_name)
{
    const char *near = NULL;

    assert_string_equal(command_named("worker", &near)->name, "worker");
    assert_null(command_named("exprt", &near));
    assert_string_equal(near, "export");
    assert_null(command_named("Worker!", &near));
    assert_null(command_named("", &near));
}

TEST(every_command_has_help)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    for (size_t i = 0; i < count; i++) {
        char *name = strdup(list[i]->name);

        assert_int_equal(RUN(WORD("help"), name), EXIT_DONE);
        assert_int_equal(RUN(name, WORD("--help")), EXIT_DONE);
        assert_int_equal(RUN(WORD("-h"), name), EXIT_DONE);
        free(name);
    }
}

TEST(options_may_stand_anywhere)
{
    assert_int_equal(
        RUN(WORD("--log-level"), WORD("warn"), WORD("version")), EXIT_DONE);
    assert_int_equal(RUN(WORD("version"), WORD("--log-level=warn")), EXIT_DONE);
    assert_int_equal(
        RUN(WORD("help"), WORD("--log-format"), WORD("json"), WORD("worker")),
        EXIT_DONE);
    assert_int_equal(RUN(WORD("version"), WORD("--log-level=loud")), 64);
    assert_int_equal(RUN(WORD("version"), WORD("--log-format=xml")), 64);
    assert_int_equal(RUN(WORD("version"), WORD("--log-format=text")), 0);
}

TEST(two_hyphens_end_the_options)
{
    assert_int_equal(RUN(WORD("help"), WORD("--"), WORD("--version")), 64);
    assert_int_equal(RUN(WORD("--"), WORD("version")), EXIT_DONE);
}

TEST(what_is_wrong_on_the_line_is_64)
{
    assert_int_equal(RUN(WORD("vershun")), 64);
    assert_int_equal(RUN(WORD("")), 64);
    assert_int_equal(RUN(WORD("-x")), 64);
    assert_int_equal(RUN(WORD("--drain")), 64);
    assert_int_equal(RUN(WORD("version"), WORD("--drain")), 64);
    assert_int_equal(RUN(WORD("version"), WORD("now")), 64);
    assert_int_equal(RUN(WORD("count"), WORD("--filter")), 64);
    assert_int_equal(RUN(WORD("worker"), WORD("--drain=1")), 64);
    assert_int_equal(RUN(WORD("count")), 64);
    assert_int_equal(RUN(WORD("count"), WORD("No_Table")), 64);
    assert_int_equal(
        RUN(WORD("export"), WORD("T1x"), WORD("a"), WORD("b")), 64);
}

/* ---- what is said ---- */

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
    } cases[] = {
        {0, "0"},
        {999, "999"},
        {1000, "1,000"},
        {-1000, "-1,000"},
        {-100, "-100"},
        {1234567, "1,234,567"},
        {INT64_MAX, "9,223,372,036,854,775,807"},
        {INT64_MIN, "-9,223,372,036,854,775,808"},
    };

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
