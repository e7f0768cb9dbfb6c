/* SPDX-License-Identifier: MIT */
/* Reads and writes small files of a test. If a call fails, the test fails. */
#ifndef TW_TESTS_SUPPORT_TEXT_FILE_H
#define TW_TESTS_SUPPORT_TEXT_FILE_H

#include <stddef.h>

/* text_file_write: writes text to the file, in place of what the file may
 * contain.
 * text_file_write_bytes: the same with any bytes. */
void text_file_write(const char *path, const char *text);
void text_file_write_bytes(const char *path, const void *bytes, size_t len);

/* text_file_read: returns the content of the file with a zero byte after it.
 * Owned by the caller, who releases it with mem_free(). */
char *text_file_read(const char *path);

/* text_file_check: fails unless the file contains exactly this text. */
#define text_file_check(path, wanted)                                          \
    text_file_check_at(path, wanted, __FILE__, __LINE__)
void text_file_check_at(
    const char *path, const char *wanted, const char *file, int line);

#endif
