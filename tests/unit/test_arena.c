/* SPDX-License-Identifier: MIT */
/* Arenas: alignment, zeroes, reuse. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"

static void assert_zeroed(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(at[i], 0);
}

SCRATCH_TEST(objects_are_aligned_zeroed_and_apart)
{
    char *at[200];

    for (size_t i = 0; i < 200; i++) {
        at[i] = arena_alloc(&scratch, i);
        assert_int_equal((uintptr_t)at[i] % _Alignof(max_align_t), 0);
        assert_zeroed(at[i], i);
        memset(at[i], (int)i, i);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal((unsigned char)at[i][k], i);
}

SCRATCH_TEST(objects_of_no_bytes_have_places_of_their_own)
{
    assert_ptr_not_equal(arena_alloc(&scratch, 0), arena_alloc(&scratch, 0));
}

SCRATCH_TEST(large_objects_get_a_block)
{
    char *large;

    arena_alloc(&scratch, 1);
    large = arena_alloc(&scratch, 1000000);
    memset(large, 1, 1000000);
    assert_zeroed(arena_alloc(&scratch, 100), 100);
    assert_true(scratch.bytes >= 1000000);
    arena_done(&scratch);
    assert_null(scratch.blocks);
    assert_int_equal(scratch.bytes, 0);
}

SCRATCH_TEST(a_cleared_arena_is_zeroed_and_keeps_one_block)
{
    arena_clear(&scratch);
    for (int i = 0; i < 100; i++)
        memset(arena_alloc(&scratch, 300), 0xff, 300);
    arena_clear(&scratch);
    assert_non_null(scratch.blocks);
    for (size_t kept = scratch.bytes, n = 0; n + 300 <= kept; n += 304)
        assert_zeroed(arena_alloc(&scratch, 300), 300);
    arena_done(&scratch);
    assert_zeroed(arena_alloc(&scratch, 10), 10);
}

SCRATCH_TEST(copies_end_in_nul)
{
    struct slice copy;

    copy = arena_copy(&scratch, (struct slice){"a\0bX", 3});
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.at, "a\0b", 4);
    copy = arena_copy(&scratch, (struct slice){NULL, 0});
    assert_string_equal(copy.at, "");
    copy = arena_format(&scratch, "%s=%d", "n", 12);
    assert_int_equal(copy.len, 4);
    assert_string_equal(copy.at, "n=12");
}
