/* SPDX-License-Identifier: MIT */
/* Small files of a test. What cannot be read or written fails the test. */
#ifndef TW_TESTS_SUPPORT_TEXT_FILE_H
#define TW_TESTS_SUPPORT_TEXT_FILE_H

#include <stddef.h>

/* text_file_write: the file, which may exist, has this content and no other.
 * text_file_write_bytes: the same with bytes that need not be a text. */
void text_file_write(const char *path, const char *text);
void text_file_write_bytes(const char *path, const void *bytes, size_t len);

/* text_file_read: its content with a zero byte behind it; owned by the caller,
 * who releases it with mem_free(). */
char *text_file_read(const char *path);

/* text_file_check: its content is this text. */
#define text_file_check(path, wanted)                                          \
    text_file_check_at(path, wanted, __FILE__, __LINE__)
void text_file_check_at(
    const char *path, const char *wanted, const char *file, int line);

#endif
