/* SPDX-License-Identifier: MIT */
/* Arenas: alignment, zeroes, reuse. */
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/arena.h"

static void assert_zeroed(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(at[i], 0);
}

TEST(objects_are_aligned_zeroed_and_apart)
{
    struct arena arena;
    char *at[200];

    arena_init(&arena);
    for (size_t i = 0; i < 200; i++) {
        at[i] = arena_alloc(&arena, i);
        assert_int_equal((uintptr_t)at[i] % _Alignof(max_align_t), 0);
        assert_zeroed(at[i], i);
        memset(at[i], (int)i, i);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal((unsigned char)at[i][k], i);
    arena_done(&arena);
}

TEST(objects_of_no_bytes_have_places_of_their_own)
{
    struct arena arena;

    arena_init(&arena);
    assert_ptr_not_equal(arena_alloc(&arena, 0), arena_alloc(&arena, 0));
    arena_done(&arena);
}

TEST(large_objects_get_a_block)
{
    struct arena arena;
    char *large;

    arena_init(&arena);
    arena_alloc(&arena, 1);
    large = arena_alloc(&arena, 1000000);
    memset(large, 1, 1000000);
    assert_zeroed(arena_alloc(&arena, 100), 100);
    assert_true(arena.bytes >= 1000000);
    arena_done(&arena);
    assert_null(arena.blocks);
    assert_int_equal(arena.bytes, 0);
}

TEST(a_cleared_arena_is_zeroed_and_keeps_one_block)
{
    struct arena arena;

    arena_init(&arena);
    arena_clear(&arena);
    for (int i = 0; i < 100; i++)
        memset(arena_alloc(&arena, 300), 0xff, 300);
    arena_clear(&arena);
    assert_non_null(arena.blocks);
    for (size_t kept = arena.bytes, n = 0; n + 300 <= kept; n += 304)
        assert_zeroed(arena_alloc(&arena, 300), 300);
    arena_done(&arena);
    assert_zeroed(arena_alloc(&arena, 10), 10);
    arena_done(&arena);
}

TEST(copies_end_in_nul)
{
    struct arena arena;
    struct slice copy;

    arena_init(&arena);
    copy = arena_copy(&arena, (struct slice){"a\0bX", 3});
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.at, "a\0b", 4);
    copy = arena_copy(&arena, (struct slice){NULL, 0});
    assert_string_equal(copy.at, "");
    copy = arena_format(&arena, "%s=%d", "n", 12);
    assert_int_equal(copy.len, 4);
    assert_string_equal(copy.at, "n=12");
    arena_done(&arena);
}
