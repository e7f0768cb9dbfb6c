/* SPDX-License-Identifier: MIT */
/* Outcomes and error texts; and how the process ends when memory is exhausted.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/err.h"
#include "worker/base/mem.h"
#include "worker/base/slice.h"
#include "worker/base/text.h"

TEST(every_code_has_a_name_of_its_own)
{
    assert_string_equal(err_name(TW_OK), "ok");
    assert_string_equal(err_name(TW_NOT_FOUND), "not found");
    for (int a = TW_OK; a <= TW_FULL; a++)
        for (int b = TW_OK; b < a; b++)
            assert_string_not_equal(
                err_name((enum tw_err)a), err_name((enum tw_err)b));
    assert_string_equal(err_name((enum tw_err)99), "?");
}

TEST(err_fail_may_quote_its_own_err)
{
    struct err err;

    (void)err_fail(&err, TW_INVALID, "inner");
    (void)err_fail(&err, TW_INVALID, "outer: %s", err.text);
    assert_string_equal(err.text, "outer: inner");
}

TEST(a_text_that_does_not_fit_ends_in_dots)
{
    struct err err;
    char longer[2 * sizeof(err.text)];

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)err_fail(&err, TW_INVALID, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 5, "x...");
    longer[sizeof(err.text) - 1] = '\0';
    (void)err_fail(&err, TW_INVALID, "%s", longer);
    assert_string_equal(err.text, longer);
}

TEST(a_text_is_not_cut_within_a_character)
{
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

TEST(err_prefix_says_where)
{
    struct err err;
    char longer[2 * sizeof(err.text)];

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

static char said[200];

/* Runs body in a child process. Returns the exit code of the child. `said` gets
 * what the child wrote to standard error. */
static int end_of(void (*body)(void))
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
    got = read(ends[0], said, sizeof(said) - 1);
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

/* Calls through these pointers are like calls in a library: the compiler cannot
 * remove them. */
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

TEST(an_allocation_that_fails_ends_the_process_with_75)
{
    assert_int_equal(end_of(fail_second), 75);
    assert_contains(said, "out of memory");
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(end_of(overflow), 75);
    assert_int_equal(end_of(fail_none), 0);
    assert_string_equal(said, "");
}

TEST(a_library_s_allocation_that_fails_ends_the_process_too)
{
#ifndef MEM_HAS_LIBRARIES
    skip();
#endif
    assert_int_equal(end_of(fail_in_a_library), 75);
    assert_contains(said, "out of memory");
}

TEST(realloc_to_nothing_is_not_a_lack_of_memory)
{
    assert_int_equal(end_of(give_back), 0);
}

TEST(memory_comes_zeroed_and_texts_end_in_nul)
{
    char *bytes = mem_array(100, 2), *text = mem_text("a\0b", 3);
    char *none = mem_text(NULL, 0), *made = mem_format("%d-%s", 7, "x");

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
