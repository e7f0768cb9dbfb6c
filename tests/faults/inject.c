/* SPDX-License-Identifier: MIT */
/* The VFS in front of SQLite's own, and the write() and fsync() of archives. */
#include "tests/faults/inject.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct io_plan *the_plan;
static struct io_report *the_report;

static const char *const NAMES[IO_CALLS] = {
    [IO_OPEN] = "open",
    [IO_READ] = "read",
    [IO_WRITE] = "write",
    [IO_TRUNCATE] = "truncate",
    [IO_SYNC] = "sync",
    [IO_SIZE] = "size",
    [IO_LOCK] = "lock",
    [IO_UNLOCK] = "unlock",
    [IO_DELETE] = "delete",
    [IO_ACCESS] = "access",
    [IO_SHM_MAP] = "shared memory",
    [IO_SHM_LOCK] = "lock of shared memory",
    [IO_ARCHIVE_WRITE] = "write of the archive",
    [IO_ARCHIVE_SYNC] = "sync of the archive",
};

const char *io_report_text(struct io_report *report)
{
    static char text[80];

    (void)snprintf(text, sizeof text, "%s; %lu failed, %lu of them fsyncs",
        NAMES[atomic_load(&report->last)], atomic_load(&report->failed),
        atomic_load(&report->syncs_failed));
    return text;
}

/* Counts the call, and returns whether it must fail. */
static bool fails(enum io_call call)
{
    unsigned long n;

    if (!the_plan || !(the_plan->calls & IO_SET(call)))
        return false;
    n = atomic_fetch_add(&the_report->calls, 1) + 1;
    if (the_plan->first == 0 || n < the_plan->first ||
        (the_plan->count > 0 && n >= the_plan->first + the_plan->count))
        return false;
    atomic_fetch_add(&the_report->failed, 1);
    if (call == IO_SYNC || call == IO_ARCHIVE_SYNC)
        atomic_fetch_add(&the_report->syncs_failed, 1);
    if (call == IO_ARCHIVE_WRITE)
        atomic_fetch_add(&the_report->archive_failed, 1);
    atomic_store(&the_report->last, (int)call);
    return true;
}

/* ---- SQLite's files ---- */

struct shim_file {
    sqlite3_file base; /* first member */
    sqlite3_file *inner;
};

static sqlite3_file *inner_of(sqlite3_file *file)
{
    return ((struct shim_file *)file)->inner;
}

static int shim_close(sqlite3_file *file)
{
    return inner_of(file)->pMethods->xClose(inner_of(file));
}

static int shim_read(sqlite3_file *file, void *to, int len, sqlite3_int64 at)
{
    if (fails(IO_READ))
        return SQLITE_IOERR_READ;
    return inner_of(file)->pMethods->xRead(inner_of(file), to, len, at);
}

/* A write that fails has written the first half. */
static int shim_write(
    sqlite3_file *file, const void *from, int len, sqlite3_int64 at)
{
    sqlite3_file *inner = inner_of(file);

    if (!fails(IO_WRITE))
        return inner->pMethods->xWrite(inner, from, len, at);
    if (len > 1)
        (void)inner->pMethods->xWrite(inner, from, len / 2, at);
    return the_plan->full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (fails(IO_TRUNCATE))
        return SQLITE_IOERR_TRUNCATE;
    return inner_of(file)->pMethods->xTruncate(inner_of(file), size);
}

static int shim_sync(sqlite3_file *file, int flags)
{
    if (fails(IO_SYNC))
        return SQLITE_IOERR_FSYNC;
    return inner_of(file)->pMethods->xSync(inner_of(file), flags);
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    if (fails(IO_SIZE))
        return SQLITE_IOERR_FSTAT;
    return inner_of(file)->pMethods->xFileSize(inner_of(file), ret);
}

static int shim_lock(sqlite3_file *file, int level)
{
    if (fails(IO_LOCK))
        return SQLITE_IOERR_LOCK;
    return inner_of(file)->pMethods->xLock(inner_of(file), level);
}

/* Unlocks even if the call fails, as when fcntl() of the kernel fails late. */
static int shim_unlock(sqlite3_file *file, int level)
{
    int result = inner_of(file)->pMethods->xUnlock(inner_of(file), level);

    return fails(IO_UNLOCK) ? SQLITE_IOERR_UNLOCK : result;
}

static int shim_reserved(sqlite3_file *file, int *ret)
{
    if (fails(IO_LOCK))
        return SQLITE_IOERR_CHECKRESERVEDLOCK;
    return inner_of(file)->pMethods->xCheckReservedLock(inner_of(file), ret);
}

static int shim_control(sqlite3_file *file, int what, void *arg)
{
    return inner_of(file)->pMethods->xFileControl(inner_of(file), what, arg);
}

static int shim_sector(sqlite3_file *file)
{
    return inner_of(file)->pMethods->xSectorSize(inner_of(file));
}

static int shim_capabilities(sqlite3_file *file)
{
    return inner_of(file)->pMethods->xDeviceCharacteristics(inner_of(file));
}

static int shim_shm_map(
    sqlite3_file *file, int region, int size, int extend, void volatile **ret)
{
    if (fails(IO_SHM_MAP))
        return SQLITE_IOERR_SHMMAP;
    return inner_of(file)->pMethods->xShmMap(
        inner_of(file), region, size, extend, ret);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    if ((flags & SQLITE_SHM_LOCK) && fails(IO_SHM_LOCK))
        return SQLITE_IOERR_SHMLOCK;
    return inner_of(file)->pMethods->xShmLock(inner_of(file), offset, n, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
    inner_of(file)->pMethods->xShmBarrier(inner_of(file));
}

static int shim_shm_unmap(sqlite3_file *file, int remove)
{
    return inner_of(file)->pMethods->xShmUnmap(inner_of(file), remove);
}

/* Version 2: without memory-mapped pages. */
static const sqlite3_io_methods METHODS = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_reserved,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_capabilities,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

/* ---- SQLite's file system ---- */

static sqlite3_vfs *inner_vfs(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file,
    int flags, int *ret_flags)
{
    struct shim_file *shim = (struct shim_file *)file;
    int result;

    file->pMethods = NULL;
    if (fails(IO_OPEN))
        return SQLITE_CANTOPEN;
    shim->inner = (sqlite3_file *)(shim + 1);
    result = inner_vfs(vfs)->xOpen(
        inner_vfs(vfs), name, shim->inner, flags, ret_flags);
    if (shim->inner->pMethods)
        file->pMethods = &METHODS;
    return result;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    if (fails(IO_DELETE))
        return SQLITE_IOERR_DELETE;
    return inner_vfs(vfs)->xDelete(inner_vfs(vfs), name, sync);
}

static int shim_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    if (fails(IO_ACCESS))
        return SQLITE_IOERR_ACCESS;
    return inner_vfs(vfs)->xAccess(inner_vfs(vfs), name, flags, ret);
}

void io_begin(const struct io_plan *plan, struct io_report *report)
{
    static sqlite3_vfs shim;
    sqlite3_vfs *inner = sqlite3_vfs_find(NULL);

    if (!inner)
        abort();
    /* The methods that are not replaced use only pAppData of the VFS that they
     * get. It is the same for all VFS objects of the unix VFS. */
    shim = *inner;
    shim.zName = "shim";
    shim.pNext = NULL;
    shim.szOsFile = (int)sizeof(struct shim_file) + inner->szOsFile;
    shim.pAppData = inner;
    shim.xOpen = shim_open;
    shim.xDelete = shim_delete;
    shim.xAccess = shim_access;
    if (sqlite3_vfs_register(&shim, 1) != SQLITE_OK)
        abort();
    the_report = report;
    the_plan = plan;
}

/* ---- the archive's files ---- */

static bool is_of_archive(int fd)
{
    char link[40], path[4096];
    ssize_t len;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return false;
    path[len] = '\0';
    return strstr(path, "/archive") != NULL;
}

/* These functions replace those of the C library. */
ssize_t write(int fd, const void *from, size_t len)
{
    if (the_plan && is_of_archive(fd) && fails(IO_ARCHIVE_WRITE)) {
        if (len > 1)
            (void)syscall(SYS_write, fd, from, len / 2);
        errno = the_plan->full ? ENOSPC : EIO;
        return -1;
    }
    return syscall(SYS_write, fd, from, len);
}

int fsync(int fd)
{
    if (the_plan && is_of_archive(fd) && fails(IO_ARCHIVE_SYNC)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}
