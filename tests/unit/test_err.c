/* SPDX-License-Identifier: MIT */
/* Outcomes and sentences; and the end that a lack of memory makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/base/err.h"
#include "worker/base/mem.h"
#include "worker/base/slice.h"
#include "worker/base/text.h"

static void every_code_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(err_name(TW_OK), "ok");
    assert_string_equal(err_name(TW_NOT_FOUND), "not found");
    for (int a = TW_OK; a <= TW_FULL; a++)
        for (int b = TW_OK; b < a; b++)
            assert_string_not_equal(
                err_name((enum tw_err)a), err_name((enum tw_err)b));
    assert_string_equal(err_name((enum tw_err)99), "?");
}

static void err_fail_returns_its_code_and_keeps_the_sentence(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(
        err_fail(&err, TW_BUSY, "table %s: %d", "Blogs", 503), TW_BUSY);
    assert_string_equal(err.text, "table Blogs: 503");
    assert_int_equal(err_fail(NULL, TW_FULL, "nobody reads this"), TW_FULL);
}

static void err_fail_may_quote_its_own_err(void **state)
{
    struct err err;

    (void)state;
    (void)err_fail(&err, TW_INVALID, "inner");
    (void)err_fail(&err, TW_INVALID, "outer: %s", err.text);
    assert_string_equal(err.text, "outer: inner");
}

static void a_text_that_does_not_fit_ends_in_dots(void **state)
{
    struct err err;
    char longer[2 * sizeof(err.text)];

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)err_fail(&err, TW_INVALID, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 5, "x...");
    longer[sizeof(err.text) - 1] = '\0';
    (void)err_fail(&err, TW_INVALID, "%s", longer);
    assert_string_equal(err.text, longer);
}

static void a_text_is_not_cut_within_a_character(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        struct err err;
        char longer[2 * sizeof(err.text) + 1] = {0};

        memset(longer, 'x', shift);
        while (strlen(longer) + 4 < sizeof(longer))
            strcat(longer, "\xf0\x9f\x98\x80");
        (void)err_fail(&err, TW_INVALID, "%s", longer);
        assert_true(text_is_utf8(slice_of(err.text)));
        assert_string_equal(err.text + strlen(err.text) - 3, "...");
    }
}

static void err_prefix_says_where(void **state)
{
    struct err err;
    char longer[2 * sizeof(err.text)];

    (void)state;
    (void)err_fail(&err, TW_INVALID, "no such table");
    err_prefix(&err, "job %s", "delete-channel");
    assert_string_equal(err.text, "job delete-channel: no such table");
    err_prefix(NULL, "nobody reads this");
    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    err_prefix(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 5, "y...");
}

/* Run body in a process of its own; its exit code, what it said to said. */
static int end_of(void (*body)(void), char *said, size_t room)
{
    int ends[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    got = read(ends[0], said, room - 1);
    assert_true(got >= 0);
    said[got] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void fail_second(void)
{
    mem_fail_after(2);
    mem_free(mem_alloc(1));
    mem_free(mem_text("abc", 3));
}

static void fail_none(void)
{
    mem_fail_after(2);
    mem_fail_after(0);
    mem_free(mem_alloc(1));
    mem_free(mem_resize(mem_alloc(1), 2));
}

/* As a library's code would, where no compiler may leave them out. */
static char *(*volatile copy)(const char *) = strdup;
static void *(*volatile resize)(void *, size_t) = realloc;

static void fail_in_a_library(void)
{
    mem_fail_after(2);
    free(copy("first"));
    free(copy("second"));
}

static void give_back(void)
{
    if (resize(resize(NULL, 10), 0))
        _exit(1);
}

static void overflow(void)
{
    mem_free(mem_array(SIZE_MAX / 2, 3));
}

static void an_allocation_that_fails_ends_the_process_with_75(void **state)
{
    char said[200];

    (void)state;
    assert_int_equal(end_of(fail_second, said, sizeof(said)), 75);
    assert_non_null(strstr(said, "out of memory"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(end_of(overflow, said, sizeof(said)), 75);
    assert_int_equal(end_of(fail_none, said, sizeof(said)), 0);
    assert_string_equal(said, "");
}

static void a_library_s_allocation_that_fails_ends_the_process_too(void **state)
{
    char said[200];

    (void)state;
#ifndef MEM_HAS_LIBRARIES
    skip();
#endif
    assert_int_equal(end_of(fail_in_a_library, said, sizeof(said)), 75);
    assert_non_null(strstr(said, "out of memory"));
}

static void realloc_to_nothing_is_not_a_lack_of_memory(void **state)
{
    char said[200];

    (void)state;
    assert_int_equal(end_of(give_back, said, sizeof(said)), 0);
}

static void memory_comes_zeroed_and_texts_end_in_nul(void **state)
{
    char *bytes = mem_array(100, 2), *text = mem_text("a\0b", 3);
    char *none = mem_text(NULL, 0), *made = mem_format("%d-%s", 7, "x");

    (void)state;
    for (int i = 0; i < 200; i++)
        assert_int_equal(bytes[i], 0);
    assert_memory_equal(text, "a\0b", 4);
    assert_string_equal(none, "");
    assert_string_equal(made, "7-x");
    mem_free(bytes);
    mem_free(text);
    mem_free(none);
    mem_free(made);
    mem_free(mem_alloc(0));
    mem_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_of_its_own),
        cmocka_unit_test(err_fail_returns_its_code_and_keeps_the_sentence),
        cmocka_unit_test(err_fail_may_quote_its_own_err),
        cmocka_unit_test(a_text_that_does_not_fit_ends_in_dots),
        cmocka_unit_test(a_text_is_not_cut_within_a_character),
        cmocka_unit_test(err_prefix_says_where),
        cmocka_unit_test(an_allocation_that_fails_ends_the_process_with_75),
        cmocka_unit_test(
            a_library_s_allocation_that_fails_ends_the_process_too),
        cmocka_unit_test(realloc_to_nothing_is_not_a_lack_of_memory),
        cmocka_unit_test(memory_comes_zeroed_and_texts_end_in_nul),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
