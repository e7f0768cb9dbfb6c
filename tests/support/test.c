/* SPDX-License-Identifier: MIT */
/* The tests of one program, and its main(): see test.h. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct test *tests;   /* in the order of their lines */
static struct test *running; /* NULL: no test runs */
static bool passed;          /* the running test has ended without a failure */
static char at_case[256];    /* empty: the running test has named no case */
static char folder[FOLDER_BYTES];
static pid_t folder_owner; /* only this process removes the folder; children of
                              a test do not */

/* Makes a folder for the program and enters it. Called before main(), because
 * main() may open files. A program without tests does not call this. */
static void enter_folder(void)
{
    folder_make(folder, "unit");
    folder_owner = getpid();
    if (chdir(folder) != 0)
        abort();
}

__attribute__((destructor)) static void leave_folder(void)
{
    if (folder_owner == getpid())
        folder_remove(folder);
}

void test_folder(char ret[FOLDER_BYTES])
{
    static unsigned count;

    (void)snprintf(ret, FOLDER_BYTES, "%.100s/%u", folder, ++count);
    assert_int_equal(mkdir(ret, 0700), 0);
}

void test_add(struct test *test)
{
    struct test **at = &tests;

    if (!tests)
        enter_folder();
    while (*at && (*at)->line <= test->line)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

void test_case(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(at_case, sizeof(at_case), format, args);
    va_end(args);
}

bool test_each(const char *cases, size_t i, size_t count)
{
    if (i < count)
        test_case("%s[%zu]", cases, i);
    else
        at_case[0] = '\0';
    return i < count;
}

static int begin(void **state)
{
    running = *state;
    passed = false;
    at_case[0] = '\0';
    *state = NULL;
    return running->set_up ? running->set_up(state) : 0;
}

static void run(void **state)
{
    running->run(state); /* a failed assertion does not return */
    passed = true;
}

void test_contains(
    const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("'%s' is not in:\n%s\n", part, text);
    _fail(file, line);
}

void test_fails(int outcome, int code, const char *says, const char *part,
    const char *file, int line)
{
    if (outcome != code) {
        print_error("the outcome is %d, not %d: %s\n", outcome, code, says);
        _fail(file, line);
    }
    test_contains(says, part, file, line);
}

bool test_passed(void)
{
    return passed;
}

static int end(void **state)
{
    if (!passed && at_case[0] != '\0')
        print_error("%s: failed in case: %s\n", running->name, at_case);
    return running->tear_down ? running->tear_down(state) : 0;
}

int test_run_all(
    int (*before_all)(void **state), int (*after_all)(void **state))
{
    struct CMUnitTest *list;
    size_t count = 0;
    int failed;

    for (struct test *test = tests; test; test = test->next)
        count++;
    if (count == 0) {
        print_error("this program has no tests\n");
        return 1;
    }
    list = calloc(count, sizeof(*list));
    if (!list)
        return 1;
    count = 0;
    for (struct test *test = tests; test; test = test->next)
        list[count++] = (struct CMUnitTest){test->name, run, begin, end, test};
    failed =
        _cmocka_run_group_tests("tests", list, count, before_all, after_all);
    free(list);
    return failed;
}

/* A test file with a main() of its own replaces this one. */
__attribute__((weak)) int main(void);
int main(void)
{
    return test_run_all(NULL, NULL);
}
