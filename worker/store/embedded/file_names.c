/* SPDX-License-Identifier: MIT */
/* Refuses a store's file that has more than one name. */
#include "worker/store/embedded/file_names.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Since Linux 5.8; older headers lack it. */
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

/* Is path a mount point? False also if the kernel does not tell. */
static bool is_mount_point(const char *path)
{
    struct statx is;

    return statx(AT_FDCWD, path, 0, 0, &is) == 0 &&
           (is.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
           (is.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

enum tw_err file_names_check(const char *path, struct err *err)
{
    struct stat is;

    /* The check is only for regular files: a folder has several links, and
     * SQLite refuses a folder itself. */
    if (stat(path, &is) != 0 || !S_ISREG(is.st_mode))
        return TW_OK;
    if (is_mount_point(path))
        return err_fail(err, TW_INVALID,
            "%s: the file alone is mounted here (a bind mount, such as "
            "`docker run -v FILE:FILE`), so its log would not be in the folder "
            "where other processes look for it, and the store would be "
            "damaged: mount the folder of the file instead",
            path);
    if (is.st_nlink > 1)
        return err_fail(err, TW_INVALID,
            "%s: the file has %ju hard links, and processes that open it by "
            "different names would damage it, because each name has a log of "
            "its own: stop all processes that use the file, then remove the "
            "other links, which `find FOLDER -samefile FILE` lists, or use a "
            "copy of the file",
            path, (uintmax_t)is.st_nlink);
    return TW_OK;
}
