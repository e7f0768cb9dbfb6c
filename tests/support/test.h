/* SPDX-License-Identifier: MIT */
/*
 * The frame of every test program. A test is a function body under TEST():
 *
 *     TEST(an_empty_buffer_is_an_empty_text)
 *     {
 *         assert_string_equal(...);
 *     }
 *
 * The program runs all tests of its file, in the order of their lines. It does
 * so in a folder of its own, which is removed when it exits. A file has a
 * main() of its own only if something must happen before the first test; that
 * main() ends with `return test_run_all(NULL, NULL);`.
 */
#ifndef TW_TESTS_SUPPORT_TEST_H
#define TW_TESTS_SUPPORT_TEST_H

/* cmocka.h needs these headers before it. */
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
    int (*set_up)(void **state); /* NULL: there is none */
    int (*tear_down)(void **state);
    int line;
    struct test *next; /* used by test.c only */
};

/* TEST: defines a test without a fixture. */
#define TEST(name) TEST_IN(name, NULL, NULL)

/* TEST_IN: defines a test with a set-up and a tear-down of cmocka, before_each
 * and after_each. They keep what they make in variables of the file. */
#define TEST_IN(name, before_each, after_each)                                 \
    static void name(void);                                                    \
    static void test_run_##name(void **state)                                  \
    {                                                                          \
        (void)state;                                                           \
        name();                                                                \
    }                                                                          \
    TEST_ADD(name, before_each, after_each)                                    \
    static void name(void)

/* TEST_WITH: defines a test whose set-up leaves a fixture in *state, which the
 * test gets as its parameter: TEST_WITH(name, set_up, tear_down, struct fixture
 * *f). A file with several such tests gives them a macro: #define
 * FIXTURE_TEST(name) ... */
#define TEST_WITH(name, before_each, after_each, fixture)                      \
    static void name(fixture);                                                 \
    static void test_run_##name(void **state)                                  \
    {                                                                          \
        name(*state);                                                          \
    }                                                                          \
    TEST_ADD(name, before_each, after_each)                                    \
    static void name(fixture)

/*
 * TEST_FIXTURE: defines name_set_up() and name_tear_down() for TEST_WITH(),
 * with a fixture of this type. The set-up zeroes the fixture and calls init
 * with its address; with TEST_NOTHING as init, the test itself begins the
 * fixture. The tear-down calls done, but only if the test passed: threads of a
 * failed test may still use the fixture.
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

/* test_add: adds a test. The macros above call it before main(). test is
 * borrowed for the life of the process. */
void test_add(struct test *test);

/* test_run_all: runs all tests. before_all and after_all are group fixtures of
 * cmocka, or NULL. Returns the number of failed tests, which is the exit
 * code. */
int test_run_all(
    int (*before_all)(void **state), int (*after_all)(void **state));

/* test_passed: for tear-downs: returns whether the test has passed. */
bool test_passed(void);

/* assert_ok: fails unless this enum tw_err is TW_OK. */
#define assert_ok(outcome) assert_int_equal(outcome, TW_OK)

/* assert_contains: fails unless part is in the text.
 * assert_fails: fails unless the call returns this enum tw_err, with part in
 * the text of err, which the call sets. */
#define assert_contains(text, part)                                            \
    test_contains((text), (part), __FILE__, __LINE__)
#define assert_fails(call, code, err, part)                                    \
    test_fails((call), (code), (err)->text, (part), __FILE__, __LINE__)
void test_contains(
    const char *text, const char *part, const char *file, int line);
void test_fails(int outcome, int code, const char *says, const char *part,
    const char *file, int line);

/* test_folder: makes an empty folder inside the folder of the program. ret: its
 * absolute path. */
void test_folder(char ret[FOLDER_BYTES]);

/*
 * test_case: tells which case of a table of cases the test has reached. If an
 * assertion fails before the next call, or before the end of the test, the case
 * is printed with the failure.
 */
void test_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * TEST_EACH: the condition of a loop over the array `cases`. It calls
 * test_case() with the name of the i-th case:
 *
 *     for (size_t i = 0; TEST_EACH(i, cases); i++)
 */
#define TEST_EACH(i, cases)                                                    \
    test_each(#cases, (i), sizeof(cases) / sizeof((cases)[0]))

bool test_each(const char *cases, size_t i, size_t count);

#endif
