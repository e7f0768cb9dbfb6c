/* SPDX-License-Identifier: MIT */
/* The state of a store's file and of the files beside it, as stat() shows it.
 */
#include "worker/store/embedded/file_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/mem.h"

#define NS_PER_S INT64_C(1000000000)

static struct file_stamp stamp_of(const char *path, const char *end)
{
    struct file_stamp stamp = {.exists = false};
    char *name = mem_format("%s%s", path, end);
    struct stat is;

    if (stat(name, &is) == 0)
        stamp = (struct file_stamp){
            .exists = true,
            .device = (uint64_t)is.st_dev,
            .inode = (uint64_t)is.st_ino,
            .size = (int64_t)is.st_size,
            .changed_ns =
                (int64_t)is.st_ctim.tv_sec * NS_PER_S + is.st_ctim.tv_nsec,
        };
    else if (errno != ENOENT)
        stamp.unreadable = errno;
    if (stamp.size > 0 && faccessat(AT_FDCWD, name, R_OK, AT_EACCESS) != 0)
        stamp.unreadable = errno;
    mem_free(name);
    return stamp;
}

void file_state_read(const char *path, struct file_state *ret)
{
    /* SQLite resolves symbolic links before it names the other files. */
    char *real = realpath(path, NULL);
    const char *target = real ? real : path;

    *ret = (struct file_state){
        .file = stamp_of(target, ""),
        .log = stamp_of(target, "-wal"),
        .journal = stamp_of(target, "-journal"),
    };
    ret->is_shared = ret->log.exists && stamp_of(target, "-shm").exists;
    free(real);
}

static bool stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->exists == b->exists && a->device == b->device &&
           a->inode == b->inode && a->size == b->size &&
           a->changed_ns == b->changed_ns;
}

bool file_state_equal(const struct file_state *a, const struct file_state *b)
{
    return a->is_shared == b->is_shared && stamp_equal(&a->file, &b->file) &&
           stamp_equal(&a->log, &b->log) &&
           stamp_equal(&a->journal, &b->journal);
}
