/* SPDX-License-Identifier: MIT */
/* Lines are read from files of any size. */
#include <stdio.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/base/mem.h"
#include "worker/transfer/lines.h"

#define FILE_NAME "lines.txt"

static struct lines *lines;
static struct slice line; /* line that was read last */
static bool end;
static struct err err;

static void open_text(const char *text, size_t len)
{
    text_file_write_bytes(FILE_NAME, text, len);
    assert_ok(lines_open(FILE_NAME, NULL, &lines, &err));
}

static enum tw_err next_line(void)
{
    return lines_next(lines, &line, &end, &err);
}

static void expect_line(const char *text)
{
    assert_ok(next_line());
    assert_false(end);
    assert_int_equal(line.len, strlen(text));
    assert_memory_equal(line.at, text, line.len);
}

static void expect_end(void)
{
    assert_ok(next_line());
    assert_true(end);
}

TEST(lines_come_one_by_one_and_are_counted)
{
    open_text("one\n\nthree", 10);
    expect_line("one");
    expect_line("");
    assert_int_equal(lines_number(lines), 2);
    assert_int_equal(lines_share(lines), 500);
    expect_line("three");
    assert_int_equal(lines_number(lines), 3);
    assert_int_equal(lines_share(lines), 1000);
    expect_end();
    expect_end();
    lines_close(lines);
}

TEST(an_empty_file_has_no_lines)
{
    open_text("", 0);
    expect_end();
    lines_close(lines);
}

TEST(a_line_that_is_too_long_is_skipped)
{
    const size_t len = 3 * (size_t)LINES_MAX_BYTES;
    char *text = mem_alloc(len + 6);

    memset(text, 'a', len);
    memcpy(text + len, "\nnext", 5);
    open_text(text, len + 5);
    assert_int_equal(next_line(), TW_TOO_LARGE);
    assert_int_equal(lines_number(lines), 0);
    assert_ok(lines_skip_long(lines, NULL, &err));
    assert_int_equal(lines_number(lines), 1);
    expect_line("next");
    assert_int_equal(lines_number(lines), 2);
    expect_end();
    lines_close(lines);
    mem_free(text);
}

/* Each line is longer than one read(), so several reads are needed. */
TEST(the_longest_line_fits)
{
    const size_t len = LINES_MAX_BYTES;
    char *text = mem_alloc(2 * len + 3);

    memset(text, 'a', len);
    text[len] = '\n';
    memset(text + len + 1, 'b', len);
    text[2 * len + 1] = '\n';
    open_text(text, 2 * len + 2);
    text[len] = text[2 * len + 1] = '\0';
    expect_line(text);
    expect_line(text + len + 1);
    expect_end();
    lines_close(lines);
    mem_free(text);
}

TEST(a_file_that_is_not_there_is_said)
{
    assert_fails(lines_open("nowhere/at.all", NULL, &lines, &err), TW_INVALID,
        &err, "nowhere/at.all cannot be read: No such file or directory");
}

TEST(utf_16_is_refused_and_says_what_to_do)
{
    static const char *const FILES[] = {"\xFF\xFE{\0}\0\n", "\xFE\xFF\0{\0}"};

    for (size_t i = 0; TEST_EACH(i, FILES); i++) {
        open_text(FILES[i], 6);
        assert_fails(
            next_line(), TW_INVALID, &err, FILE_NAME " is UTF-16: save it as");
        lines_close(lines);
    }
}

TEST(waiting_for_a_pipe_ends_when_stopped)
{
    _Atomic bool stopped = true;
    char path[64];
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    assert_ok(lines_open(path, &stopped, &lines, &err));
    assert_int_equal(lines_share(lines), -1);
    assert_int_equal(write(ends[1], "one\ntw", 6), 6);
    expect_line("one");
    assert_int_equal(next_line(), TW_STOPPED);
    lines_close(lines);
    close(ends[0]);
    close(ends[1]);
}
