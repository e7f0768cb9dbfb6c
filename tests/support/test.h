/* SPDX-License-Identifier: MIT */
/*
 * What every test program is made of. A test is a function body under TEST():
 *
 *     TEST(an_empty_buffer_is_an_empty_text)
 *     {
 *         assert_string_equal(...);
 *     }
 *
 * The program runs all tests of its file, in the order of their lines, in a
 * folder of its own that is removed when it exits. It has a
 * main() of its own only if something comes before the first test; that main()
 * ends with `return test_run_all(NULL, NULL);`.
 */
#ifndef TW_TESTS_SUPPORT_TEST_H
#define TW_TESTS_SUPPORT_TEST_H

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "tests/support/folder.h"

struct test {
    const char *name;
    void (*run)(void **state);
    int (*set_up)(void **state); /* NULL: none */
    int (*tear_down)(void **state);
    int line;
    struct test *next; /* test.c's */
};

/* TEST: without a fixture. */
#define TEST(name) TEST_IN(name, NULL, NULL)

/* TEST_IN: before_each and after_each are cmocka's set-up and tear-down; what
 * they make is in variables of the file. */
#define TEST_IN(name, before_each, after_each)                                 \
    static void name(void);                                                    \
    static void test_run_##name(void **state)                                  \
    {                                                                          \
        (void)state;                                                           \
        name();                                                                \
    }                                                                          \
    TEST_ADD(name, before_each, after_each)                                    \
    static void name(void)

/* TEST_WITH: the set-up leaves a fixture in *state, and the test has it as its
 * parameter: TEST_WITH(name, set_up, tear_down, struct fixture *f). A file with
 * several such tests gives this a name: #define FIXTURE_TEST(name) ... */
#define TEST_WITH(name, before_each, after_each, fixture)                      \
    static void name(fixture);                                                 \
    static void test_run_##name(void **state)                                  \
    {                                                                          \
        name(*state);                                                          \
    }                                                                          \
    TEST_ADD(name, before_each, after_each)                                    \
    static void name(fixture)

/*
 * TEST_FIXTURE: name_set_up() and name_tear_down() for TEST_WITH(), of a
 * fixture of that type. It is zero when init gets its address; TEST_NOTHING in
 * place of init: the test itself begins it. done gets it if the test passed;
 * threads of one that failed may still use it.
 */
#define TEST_FIXTURE(name, type, init, done)                                   \
    static int name##_set_up(void **state)                                     \
    {                                                                          \
        static type fixture;                                                   \
                                                                               \
        memset(&fixture, 0, sizeof(fixture));                                  \
        init(&fixture);                                                        \
        *state = &fixture;                                                     \
        return 0;                                                              \
    }                                                                          \
    static int name##_tear_down(void **state)                                  \
    {                                                                          \
        if (test_passed())                                                     \
            done(*state);                                                      \
        return 0;                                                              \
    }

#define TEST_NOTHING(fixture) ((void)(fixture))

#define TEST_ADD(name, before_each, after_each)                                \
    __attribute__((constructor)) static void test_add_##name(void)             \
    {                                                                          \
        static struct test test = {                                            \
            #name, test_run_##name, before_each, after_each, __LINE__, NULL};  \
                                                                               \
        test_add(&test);                                                       \
    }

/* test_add: called before main() by the macros above. test is borrowed for the
 * life of the process. */
void test_add(struct test *test);

/* test_run_all: run what was added; before_all and after_all are cmocka's group
 * fixtures, NULL for none. Returns how many tests failed: the exit code. */
int test_run_all(
    int (*before_all)(void **state), int (*after_all)(void **state));

/* test_passed: in a tear-down: its test came to its end. */
bool test_passed(void);

/* assert_ok: of an enum tw_err. */
#define assert_ok(outcome) assert_int_equal(outcome, TW_OK)

/* assert_contains: the text has that part in it.
 * assert_fails: the call comes out as this enum tw_err, and says so in err,
 * which it fills, with that part. */
#define assert_contains(text, part)                                            \
    test_contains((text), (part), __FILE__, __LINE__)
#define assert_fails(call, code, err, part)                                    \
    test_fails((call), (code), (err)->text, (part), __FILE__, __LINE__)
void test_contains(
    const char *text, const char *part, const char *file, int line);
void test_fails(int outcome, int code, const char *says, const char *part,
    const char *file, int line);

/* test_folder: make an empty folder inside the program's own one. ret: its
 * path, from the root. */
void test_folder(char ret[FOLDER_BYTES]);

/*
 * test_case: from now on the test is at this case of its table. If an assertion
 * fails before the next one, or before the end of the test, the case is printed
 * with the failure.
 */
void test_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * TEST_EACH: the condition of a loop over the array cases, which names the i-th
 * case as test_case() does:
 *
 *     for (size_t i = 0; TEST_EACH(i, cases); i++)
 */
#define TEST_EACH(i, cases)                                                    \
    test_each(#cases, (i), sizeof(cases) / sizeof((cases)[0]))

bool test_each(const char *cases, size_t i, size_t count);

#endif
