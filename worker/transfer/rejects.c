/* SPDX-License-Identifier: MIT */
/* The file only grows, except that rejects_begin() truncates the file to the
 * size in the ledger. The file is locked while it is open. Otherwise another
 * import could find the file empty, because the content is not flushed yet, and
 * remove the file. */
#include "worker/transfer/rejects.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/file.h"
#include "worker/base/hash.h"
#include "worker/base/mem.h"

#define READ_BYTES ((size_t)64 * 1024)

struct rejects {
    const char *path;
    struct slice header;
    FILE *file;
    bool regular; /* a regular file; others cannot be locked, truncated, synced
                     or removed */
    bool ours;    /* the file was created by this import */

    uint64_t hash; /* hash of the first `hashed` bytes */
    off_t hashed;
};

static enum tw_err cannot_write(
    const struct rejects *rejects, int cause, struct err *err)
{
    bool full = cause == ENOSPC || cause == EDQUOT;

    return err_fail(err, full ? TW_FULL : TW_INVALID,
        "%s cannot be written: %s", rejects->path, strerror(cause));
}

/* Truncate the file to `bytes` bytes, which an earlier process wrote. If the
 * file is then empty, write the header. Returns -1 after a failure; errno has
 * the reason. */
static int truncate_to(struct rejects *rejects, int64_t bytes)
{
    struct stat is;
    int fd = fileno(rejects->file);

    if (fstat(fd, &is) != 0)
        return -1;
    if (rejects->regular && is.st_size > bytes && ftruncate(fd, bytes) != 0)
        return -1;
    if ((bytes > 0 && is.st_size > 0) || rejects->header.len == 0)
        return 0;
    return fwrite(rejects->header.at, 1, rejects->header.len, rejects->file) ==
                   rejects->header.len
               ? 0
               : -1;
}

/* Returns the access mode for open(): O_WRONLY for a FIFO, because O_RDWR would
 * not wait for a reader. */
static int access_mode(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && !S_ISREG(is.st_mode) ? O_WRONLY : O_RDWR;
}

/* Opens or creates the file. Returns -1 after a failure; errno has the
 * reason. */
static int open_file(struct rejects *rejects)
{
    const int flags =
        access_mode(rejects->path) | O_CREAT | O_APPEND | O_CLOEXEC;
    int fd = open(rejects->path, flags | O_EXCL, 0600);
    struct stat is;

    rejects->ours = fd >= 0;
    if (fd < 0 && errno == EEXIST)
        fd = open(rejects->path, flags, 0600);
    rejects->file = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (fd >= 0 && !rejects->file)
        mem_exhausted();
    rejects->regular = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
    return fd;
}

static enum tw_err lock(const struct rejects *rejects, struct err *err)
{
    bool locked;

    if (!rejects->regular)
        return TW_OK;
    locked = flock(fileno(rejects->file), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK)
        return cannot_write(rejects, errno, err);
    /* Another import may have removed the file after this process opened it. */
    if (locked && file_has_path(fileno(rejects->file), rejects->path))
        return TW_OK;
    return err_fail(err, TW_STOPPED,
        "%s: another process is writing this file: wait until it ends, or "
        "name another file with --rejected",
        rejects->path);
}

static void reset_hash(struct rejects *rejects)
{
    rejects->hash = HASH_BEGIN;
    rejects->hashed = 0;
}

enum tw_err rejects_open(
    const char *path, struct rejects **ret, struct err *err)
{
    struct rejects *rejects = mem_alloc(sizeof(*rejects));
    enum tw_err outcome;

    rejects->path = path;
    reset_hash(rejects);
    outcome = open_file(rejects) < 0 ? cannot_write(rejects, errno, err)
                                     : lock(rejects, err);
    if (outcome == TW_OK) {
        *ret = rejects;
        return TW_OK;
    }
    if (rejects->file)
        (void)fclose(rejects->file);
    mem_free(rejects);
    return outcome;
}

static off_t size_of(const struct rejects *rejects)
{
    struct stat is;

    return rejects->regular && fstat(fileno(rejects->file), &is) == 0
               ? is.st_size
               : 0;
}

int64_t rejects_digest(struct rejects *rejects, int64_t bytes)
{
    char *block;

    if (!rejects->regular)
        return 0;
    if (rejects->hashed > bytes)
        reset_hash(rejects);
    block = mem_alloc(READ_BYTES);
    while (rejects->hashed < bytes) {
        size_t left = (size_t)(bytes - rejects->hashed);
        ssize_t got = pread(fileno(rejects->file), block,
            left < READ_BYTES ? left : READ_BYTES, rejects->hashed);

        if (got <= 0)
            break;
        rejects->hash = hash_bytes(rejects->hash, block, (size_t)got);
        rejects->hashed += got;
    }
    mem_free(block);
    return rejects->hashed == bytes
               ? (int64_t)(hash_mix(rejects->hash) >> 1 | 1)
               : 0;
}

bool rejects_is_edited(struct rejects *rejects, int64_t bytes, int64_t digest)
{
    return digest != 0 && size_of(rejects) > 0 &&
           rejects_digest(rejects, bytes) != digest;
}

enum tw_err rejects_begin(struct rejects *rejects, struct slice header,
    int64_t bytes, struct err *err)
{
    bool fresh = bytes == REJECTS_NEW;

    if (fresh && !rejects->ours && size_of(rejects) > 0)
        return err_fail(err, TW_INVALID,
            "%s exists and is not empty: first import its corrected lines, or "
            "remove it",
            rejects->path);
    rejects->header = header;
    rejects->ours = rejects->ours || !fresh;
    reset_hash(rejects);
    return truncate_to(rejects, fresh ? 0 : bytes) == 0
               ? TW_OK
               : cannot_write(rejects, errno, err);
}

void rejects_add(struct rejects *rejects, struct slice raw)
{
    (void)fwrite(raw.at, 1, raw.len, rejects->file);
    (void)putc('\n', rejects->file);
}

FILE *rejects_file(struct rejects *rejects)
{
    return rejects->file;
}

enum tw_err rejects_sync(
    struct rejects *rejects, int64_t *ret_bytes, struct err *err)
{
    int fd = fileno(rejects->file);
    struct stat is;

    errno = 0;
    if (fflush(rejects->file) != 0 || ferror(rejects->file) ||
        (rejects->regular && (fdatasync(fd) != 0 || fstat(fd, &is) != 0)))
        return cannot_write(rejects, errno ? errno : EIO, err);
    *ret_bytes = rejects->regular ? (int64_t)is.st_size : 0;
    return TW_OK;
}

/* Does the file hold at most the header? */
static bool is_empty(const struct rejects *rejects)
{
    struct stat is;

    return rejects->regular && fstat(fileno(rejects->file), &is) == 0 &&
           is.st_size <= (off_t)rejects->header.len;
}

/* Closes the file. A file without rejected lines is removed before it is
 * closed, because closing releases the lock. */
void rejects_close(struct rejects *rejects)
{
    if (!rejects)
        return;
    (void)fflush(rejects->file);
    if (rejects->ours && is_empty(rejects))
        (void)unlink(rejects->path);
    (void)fclose(rejects->file);
    mem_free(rejects);
}
