/* SPDX-License-Identifier: MIT */
/* Reads small files whole (keys, tokens), and checks which file a path
 * names. */
#ifndef TW_BASE_FILE_H
#define TW_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* file_read_and_close: read at most room bytes of fd into `to`, and close fd.
 * Returns the number of bytes; -1: failed, and errno has the cause. If fd is
 * negative because open() failed, returns -1 and keeps the errno of open(). */
ssize_t file_read_and_close(int fd, char *to, size_t room);

/* file_is_regular: does path name a regular file, perhaps through a symbolic
 * link? */
bool file_is_regular(const char *path);

/* file_has_path: does path still name the open file fd? False after another
 * process has removed, renamed or replaced the file. */
bool file_has_path(int fd, const char *path);

#endif
