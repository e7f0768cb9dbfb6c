/* SPDX-License-Identifier: MIT */
#include "worker/base/file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t file_read_and_close(int fd, char *to, size_t room)
{
    size_t len = 0;
    ssize_t got = 0;
    int cause;

    if (fd < 0)
        return -1;
    while (len < room) {
        got = read(fd, to + len, room - len);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            break;
        len += got > 0 ? (size_t)got : 0;
    }
    cause = errno;
    (void)close(fd);
    errno = cause;
    return got < 0 ? -1 : (ssize_t)len;
}

bool file_is_regular(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && S_ISREG(is.st_mode);
}

bool file_has_path(int fd, const char *path)
{
    struct stat open_one, named;

    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}
