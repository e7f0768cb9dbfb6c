/* SPDX-License-Identifier: MIT */
/* Small files of a test: see text_file.h. */
#include "tests/support/text_file.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/mem.h"

void text_file_write_bytes(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    if (!file)
        fail_msg("%s cannot be written", path);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

void text_file_write(const char *path, const char *text)
{
    text_file_write_bytes(path, text, strlen(text));
}

char *text_file_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text;
    long len;

    if (!file)
        fail_msg("%s cannot be read", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    len = ftell(file);
    rewind(file);
    text = mem_alloc((size_t)len + 1);
    assert_int_equal(fread(text, 1, (size_t)len, file), len);
    assert_int_equal(fclose(file), 0);
    return text;
}

void text_file_check_at(
    const char *path, const char *wanted, const char *file, int line)
{
    char *text = text_file_read(path);

    _assert_string_equal(text, wanted, file, line);
    mem_free(text);
}
