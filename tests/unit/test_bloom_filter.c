/* SPDX-License-Identifier: MIT */
/* A set of keys in constant memory. */
#include <stdio.h>

#include "jobs/engine/bloom_filter.h"
#include "tests/support/test.h"

static struct slice number(char room[32], unsigned n)
{
    (void)snprintf(room, 32, "%u", n);
    return slice_of(room);
}

TEST(what_was_added_is_found_and_nothing_else)
{
    struct bloom_filter *set = bloom_filter_new();
    char room[32];

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

TEST(keys_do_not_run_into_each_other)
{
    struct bloom_filter *set = bloom_filter_new();

    bloom_filter_add(set, 0, slice_of("ab"), slice_of("c"));
    assert_true(bloom_filter_has(set, 0, slice_of("ab"), slice_of("c")));
    assert_false(bloom_filter_has(set, 0, slice_of("a"), slice_of("bc")));
    assert_false(bloom_filter_has(set, 0, slice_of(""), slice_of("abc")));
    bloom_filter_free(set);
}
