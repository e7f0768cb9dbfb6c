/* SPDX-License-Identifier: MIT */
/* A set of keys in constant memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "jobs/engine/bloom_filter.h"

static struct slice number(char room[32], unsigned n)
{
    (void)snprintf(room, 32, "%u", n);
    return slice_of(room);
}

static void what_was_added_is_found_and_nothing_else(void **state)
{
    struct bloom_filter *set = bloom_filter_new();
    char room[32];

    (void)state;
    for (unsigned i = 0; i < BLOOM_FILTER_MAX_KEYS; i++)
        bloom_filter_add(set, 0, slice_of("p"), number(room, i));
    for (unsigned i = 0; i < BLOOM_FILTER_MAX_KEYS; i++)
        assert_true(bloom_filter_has(set, 0, slice_of("p"), number(room, i)));
    for (unsigned i = 0; i < BLOOM_FILTER_MAX_KEYS; i++) {
        assert_false(bloom_filter_has(set, 1, slice_of("p"), number(room, i)));
        assert_false(bloom_filter_has(set, 0, slice_of("q"), number(room, i)));
    }
    bloom_filter_free(set);
}

static void keys_do_not_run_into_each_other(void **state)
{
    struct bloom_filter *set = bloom_filter_new();

    (void)state;
    bloom_filter_add(set, 0, slice_of("ab"), slice_of("c"));
    assert_true(bloom_filter_has(set, 0, slice_of("ab"), slice_of("c")));
    assert_false(bloom_filter_has(set, 0, slice_of("a"), slice_of("bc")));
    assert_false(bloom_filter_has(set, 0, slice_of(""), slice_of("abc")));
    bloom_filter_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found_and_nothing_else),
        cmocka_unit_test(keys_do_not_run_into_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
