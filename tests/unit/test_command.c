/* SPDX-License-Identifier: MIT */
/* The table of commands, and how a command line is understood. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

static void every_command_is_whole(void **state)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    (void)state;
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

static void a_command_is_found_by_its_name(void **state)
{
    const char *near = NULL;

    (void)state;
    assert_string_equal(command_named("worker", &near)->name, "worker");
    assert_null(command_named("exprt", &near));
    assert_string_equal(near, "export");
    assert_null(command_named("Worker!", &near));
    assert_null(command_named("", &near));
}

static void every_command_has_help(void **state)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        char *name = strdup(list[i]->name);

        assert_int_equal(RUN(WORD("help"), name), EXIT_DONE);
        assert_int_equal(RUN(name, WORD("--help")), EXIT_DONE);
        assert_int_equal(RUN(WORD("-h"), name), EXIT_DONE);
        free(name);
    }
}

static void options_may_stand_anywhere(void **state)
{
    (void)state;
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

static void two_hyphens_end_the_options(void **state)
{
    (void)state;
    assert_int_equal(RUN(WORD("help"), WORD("--"), WORD("--version")), 64);
    assert_int_equal(RUN(WORD("--"), WORD("version")), EXIT_DONE);
}

static void what_is_wrong_on_the_line_is_64(void **state)
{
    (void)state;
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

static void outcomes_have_their_exit_codes(void **state)
{
    (void)state;
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

static void numbers_are_grouped(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text;

        buf_init(&text, 64);
        print_count(&text, cases[i].number);
        assert_string_equal(buf_text(&text), cases[i].text);
        buf_done(&text);
    }
}

static void a_moment_that_never_was_is_a_hyphen(void **state)
{
    char time[TEXT_TIME_MAX];

    (void)state;
    assert_string_equal(print_time(0, time), "-");
    assert_string_equal(print_time(TICKS_1970, time), "1970-01-01 00:00:00Z");
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_command_is_whole),
        TEST(a_command_is_found_by_its_name),
        TEST(every_command_has_help),
        TEST(options_may_stand_anywhere),
        TEST(two_hyphens_end_the_options),
        TEST(what_is_wrong_on_the_line_is_64),
        TEST(outcomes_have_their_exit_codes),
        TEST(numbers_are_grouped),
        TEST(a_moment_that_never_was_is_a_hyphen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
