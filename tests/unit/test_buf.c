/* SPDX-License-Identifier: MIT */
/* Buffers: what fits, what does not, and who owns the content. */
#include <stdio.h>

#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

TEST_FIXTURE(buf, struct buf, TEST_NOTHING, buf_done)

/* A test that begins with buf_init(). */
#define BUF_TEST(name)                                                         \
    TEST_WITH(name, buf_set_up, buf_tear_down, struct buf *buf)

BUF_TEST(an_empty_buffer_is_an_empty_text)
{
    char *taken;

    buf_init(buf, 10);
    assert_string_equal(buf_text(buf), "");
    assert_int_equal(buf_slice(buf).len, 0);
    buf_add(buf, NULL, 0);
    assert_false(buf->overflow);
    taken = buf_take(buf);
    assert_string_equal(taken, "");
    mem_free(taken);
}

TEST(additions_follow_each_other)
{
    struct buf buf;

    buf_init(&buf, 1000);
    buf_add_text(&buf, "a");
    buf_add_char(&buf, '\0');
    buf_add_slice(&buf, slice_of("bc"));
    buf_add_format(&buf, "%03d", 7);
    assert_int_equal(buf.len, 7);
    assert_memory_equal(buf_text(&buf), "a\0bc007", 8);
    buf_done(&buf);
    assert_null(buf.at);
}

BUF_TEST(a_buffer_fills_to_its_last_byte)
{
    buf_init(buf, 5);
    buf_add_text(buf, "abc");
    buf_add_format(buf, "%s", "de");
    assert_false(buf->overflow);
    assert_string_equal(buf_text(buf), "abcde");
    assert_true(buf->room <= 6);
}

BUF_TEST(what_does_not_fit_is_dropped_whole_as_is_what_follows)
{
    buf_init(buf, 5);
    buf_add_text(buf, "abc");
    buf_add_text(buf, "def");
    assert_true(buf->overflow);
    buf_add_char(buf, 'g');
    buf_add_format(buf, "%s", "");
    assert_string_equal(buf_text(buf), "abc");
    buf_clear(buf);
    assert_false(buf->overflow);
    assert_string_equal(buf_text(buf), "");
    buf_add_format(buf, "%s", "123456");
    assert_true(buf->overflow);
    assert_int_equal(buf->len, 0);
}

BUF_TEST(what_does_not_fit_can_be_left_out_as_a_whole)
{
    buf_init(buf, 6);
    buf_add_text(buf, "more than fits");
    assert_false(buf_keep(buf, 0, 0));
    assert_string_equal(buf_text(buf), "");
    buf_add_text(buf, "ab");
    assert_true(buf_keep(buf, 0, 4));
    buf_add_text(buf, "cd");
    buf_add_text(buf, "efg");
    assert_false(buf_keep(buf, 2, 1));
    assert_string_equal(buf_text(buf), "ab");
    assert_int_equal(buf->len, 2);
    assert_false(buf->overflow);
}

BUF_TEST(room_is_kept_for_what_is_to_follow)
{
    buf_init(buf, 4);
    buf_add_text(buf, "abcd");
    assert_true(buf_keep(buf, 1, 0));
    assert_false(buf_keep(buf, 1, 1));
    assert_string_equal(buf_text(buf), "a");
    buf_add_text(buf, "xy");
    assert_true(buf_keep(buf, 1, 1));
    assert_string_equal(buf_text(buf), "axy");
}

BUF_TEST(a_length_near_the_largest_does_not_wrap)
{
    buf_init(buf, 100);
    buf_add_char(buf, 'a');
    buf_add(buf, "", SIZE_MAX);
    assert_true(buf->overflow);
    assert_string_equal(buf_text(buf), "a");
}

TEST(a_format_may_end_on_either_side_of_the_room_there_is)
{
    for (int before = 0; before < 140; before++) {
        struct buf buf;
        char expected[300];

        buf_init(&buf, 200);
        for (int i = 0; i < before; i++)
            buf_add_char(&buf, 'x');
        buf_add_format(&buf, "%s%d", "0123456789", 7);
        (void)snprintf(expected, sizeof(expected), "%.*s01234567897", before,
            buf_text(&buf));
        assert_string_equal(buf_text(&buf), expected);
        assert_int_equal(buf.len, before + 11);
        assert_int_equal(strspn(buf_text(&buf), "x"), before);
        buf_done(&buf);
    }
}

BUF_TEST(a_format_that_does_not_fit_leaves_nothing)
{
    buf_init(buf, 5);
    buf_add_text(buf, "abc");
    buf_add_format(buf, "%s", "def");
    assert_true(buf->overflow);
    assert_string_equal(buf_text(buf), "abc");
    assert_int_equal(buf->len, 3);
}

BUF_TEST(reserved_room_is_not_asked_for_again)
{
    const char *at;

    buf_init(buf, 1000);
    buf_reserve(buf, 1001);
    assert_null(buf->at);
    buf_reserve(buf, 900);
    assert_string_equal(buf_text(buf), "");
    at = buf->at;
    for (int i = 0; i < 900; i++)
        buf_add_char(buf, 'x');
    assert_ptr_equal(buf->at, at);
    buf_reserve(buf, 100);
    assert_int_equal(buf->len, 900);
    buf_add_text(buf, "more than fits");
    assert_false(buf->overflow);
}

BUF_TEST(a_buffer_grows_byte_by_byte)
{
    buf_init(buf, SIZE_MAX);
    for (int i = 0; i < 10000; i++) {
        buf_add_char(buf, (char)('a' + i % 26));
        assert_int_equal(buf->at[buf->len], '\0');
    }
    assert_int_equal(buf->len, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf->at[i], 'a' + i % 26);
}

BUF_TEST(what_is_taken_is_the_callers)
{
    char *taken;

    buf_init(buf, 10);
    buf_add_text(buf, "mine");
    taken = buf_take(buf);
    buf_add_text(buf, "next");
    assert_string_equal(taken, "mine");
    assert_string_equal(buf_text(buf), "next");
    mem_free(taken);
}
