/* SPDX-License-Identifier: MIT */
/* Small files that are read whole: keys, tokens. */
#ifndef TW_BASE_FILE_H
#define TW_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* file_read_and_close: read at most room bytes of fd into `to`, and close fd.
 * Returns the number of bytes, or -1 and errno; fd < 0: -1, errno unchanged. */
ssize_t file_read_and_close(int fd, char *to, size_t room);

#endif
