/* SPDX-License-Identifier: MIT */
/* Writes a partial file beside its target, or continues the partial file of an
 * earlier process. */
#include "worker/transfer/export_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/crypto.h"
#include "worker/base/file.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/transfer/lines.h"

#define PART ".part"
#define HASH_DIGITS 16

/* The number of bytes of an existing partial file that are read at once. */
#define READ_BYTES ((size_t)256 * 1024)

static enum tw_err fail_write(
    const struct export_file *file, int cause, struct err *err)
{
    bool full = cause == ENOSPC || cause == EDQUOT;

    return err_fail(err, full ? TW_FULL : TW_INVALID,
        "%s cannot be written: %s", file->path ? file->path : "standard output",
        strerror(cause));
}

/* Is path a pipe or a device? A pipe or a device is written directly, because a
 * rename would replace it by a regular file. */
static bool is_special(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && !S_ISREG(is.st_mode);
}

/* Returns the path without symbolic links, so that the export replaces the file
 * and not a link to it. Owned. */
static char *target_of(const char *path)
{
    char *real = realpath(path, NULL);
    char *target = mem_text(real ? real : path, strlen(real ? real : path));

    free(real);
    return target;
}

/* Returns the folder of path: "folder/" or "./". Owned. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? mem_text(path, (size_t)(slash - path) + 1)
                 : mem_text("./", 2);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- the partial file of another export with the same id ---- */

bool export_file_is_part(const char *name, const char *of, const char *id)
{
    char *begin = mem_format("%s.%s-", of, id);
    size_t len = strlen(begin);
    bool is_part = strncmp(name, begin, len) == 0 &&
                   strlen(name) == len + HASH_DIGITS + sizeof(PART) - 1 &&
                   strspn(name + len, "0123456789abcdef") == HASH_DIGITS &&
                   strcmp(name + len + HASH_DIGITS, PART) == 0;

    mem_free(begin);
    return is_part;
}

/* Refuse the id if the partial file of a different export with this id exists.
 */
static enum tw_err refuse_other(
    const struct export_file *file, const char *id, struct err *err)
{
    char *folder = folder_of(file->target);
    DIR *list = opendir(folder);
    const struct dirent *entry;
    enum tw_err outcome = TW_OK;

    while (list && outcome == TW_OK && (entry = readdir(list)) != NULL)
        if (export_file_is_part(entry->d_name, name_of(file->target), id) &&
            strcmp(entry->d_name, name_of(file->part)) != 0)
            outcome = err_fail(err, TW_CONFLICT,
                "id %s belongs to another export: %s%s was begun with another "
                "store, account, table, --filter or --select; finish that "
                "export, or remove this partial file",
                id, folder, entry->d_name);
    if (list)
        closedir(list);
    mem_free(folder);
    return outcome;
}

/* ---- opening ---- */

static char *part_with_id(
    const char *path, const struct export_file_options *options)
{
    unsigned char sum[CRYPTO_SHA256_BYTES];
    char hash[HASH_DIGITS + 1];

    crypto_sha256(options->what, sum);
    text_hex(hash, sum, HASH_DIGITS / 2);
    return mem_format("%s.%s-%s" PART, path, options->id, hash);
}

/* Give the partial file the mode of the file that it will replace. */
static void keep_mode(const struct export_file *file, int fd)
{
    const mode_t who = S_IRWXU | S_IRWXG | S_IRWXO;
    struct stat is;

    if (stat(file->target, &is) == 0 && S_ISREG(is.st_mode))
        (void)fchmod(fd, (is.st_mode & who) | S_IRUSR | S_IWUSR);
}

static enum tw_err use_fd(struct export_file *file, int fd, struct err *err)
{
    int cause = errno;

    if (fd < 0) {
        mem_free(file->part);
        file->part = NULL;
        return fail_write(file, cause, err);
    }
    file->file = fdopen(fd, "w");
    if (!file->file)
        mem_exhausted();
    return TW_OK;
}

static enum tw_err open_new(struct export_file *file, struct err *err)
{
    char id[40];
    int fd;

    if (is_special(file->path))
        return use_fd(file, open(file->path, O_WRONLY | O_CLOEXEC), err);
    text_random_id(id);
    file->part = mem_format("%s.%.8s" PART, file->target, id);
    fd = open(file->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    file->ours = fd >= 0;
    keep_mode(file, fd);
    return use_fd(file, fd, err);
}

/* ---- continuing ---- */

/* The whole lines of a partial file, after which an export continues. They end
 * before the first NUL. An export writes no NUL, so a NUL shows that data was
 * lost in a power failure. */
struct whole {
    int64_t lines;
    off_t end, begin_of_last;
};

static void add_block(
    struct whole *whole, off_t at, const char *block, size_t len)
{
    const char *from = block, *newline;

    while ((newline = memchr(from, '\n', len - (size_t)(from - block)))) {
        whole->lines++;
        whole->begin_of_last = whole->end;
        whole->end = at + (newline - block) + 1;
        from = newline + 1;
    }
}

/* Find the whole lines of the partial file. Returns -1 after a failure; errno
 * has the reason. */
static int find_whole(int fd, struct whole *ret)
{
    char *block = mem_alloc(READ_BYTES);
    const char *nul = NULL;
    off_t at = 0;
    ssize_t got;

    *ret = (struct whole){0};
    while (!nul && (got = pread(fd, block, READ_BYTES, at)) > 0) {
        nul = memchr(block, '\0', (size_t)got);
        add_block(ret, at, block, nul ? (size_t)(nul - block) : (size_t)got);
        at += got;
    }
    mem_free(block);
    return nul || got == 0 ? 0 : -1;
}

static int read_last(
    struct export_file *file, int fd, const struct whole *whole)
{
    size_t len = (size_t)(whole->end - whole->begin_of_last);
    char *line;

    if (whole->lines == 0)
        return 0;
    if (len > LINES_MAX_BYTES) {
        errno = EFBIG;
        return -1;
    }
    line = mem_alloc(len);
    if (pread(fd, line, len, whole->begin_of_last) != (ssize_t)len) {
        mem_free(line);
        return -1;
    }
    buf_add(&file->last, line, len - 1);
    mem_free(line);
    file->lines = whole->lines;
    return 0;
}

static enum tw_err continue_part(
    struct export_file *file, int fd, bool continues, struct err *err)
{
    struct whole whole = {0};

    /* Another process may have renamed the partial file after this process has
     * opened it. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !file_has_path(fd, file->part))
        return err_fail(err, TW_STOPPED,
            "%s: another process is writing this file", file->part);
    file->ours = true;
    keep_mode(file, fd);
    if ((continues && find_whole(fd, &whole) != 0) ||
        ftruncate(fd, whole.end) != 0 || lseek(fd, whole.end, SEEK_SET) < 0 ||
        read_last(file, fd, &whole) != 0)
        return fail_write(file, errno, err);
    return TW_OK;
}

static enum tw_err open_with_id(struct export_file *file,
    const struct export_file_options *options, struct err *err)
{
    enum tw_err outcome;
    int fd;

    if (is_special(file->path))
        return err_fail(err, TW_CONFLICT,
            "--id needs a regular FILE, which can be continued");
    file->with_id = true;
    file->part = part_with_id(file->target, options);
    outcome = refuse_other(file, options->id, err);
    if (outcome != TW_OK)
        return outcome;
    fd = open(file->part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    outcome = use_fd(file, fd, err);
    return outcome == TW_OK ? continue_part(file, fd, options->continues, err)
                            : outcome;
}

static enum tw_err refuse_existing(
    const struct export_file *file, struct err *err)
{
    return err_fail(
        err, TW_CONFLICT, "%s exists: --force replaces it", file->path);
}

static bool exists(const struct export_file *file)
{
    struct stat is;

    return lstat(file->path, &is) == 0 && !is_special(file->path);
}

enum tw_err export_file_open(struct export_file *file,
    const struct export_file_options *options, struct err *err)
{
    const char *path = options->path;

    *file = (struct export_file){.file = stdout,
        .force = options->force,
        .completes = options->completes,
        .context = options->context};
    buf_init(&file->last, LINES_MAX_BYTES);
    if (!path || strcmp(path, "-") == 0)
        return options->id ? err_fail(err, TW_CONFLICT, "--id needs a FILE")
                           : TW_OK;
    file->file = NULL;
    file->path = path;
    if (!options->force && exists(file))
        return refuse_existing(file, err);
    file->target = target_of(path);
    return options->id ? open_with_id(file, options, err) : open_new(file, err);
}

/* ---- writing ---- */

enum tw_err export_file_write(
    struct export_file *file, struct slice text, struct err *err)
{
    if (fwrite(text.at, 1, text.len, file->file) == text.len)
        return TW_OK;
    return fail_write(file, errno, err);
}

/* Sync the folder, so that the file's name survives a power failure. */
static void sync_folder(const char *path)
{
    char *folder = folder_of(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    mem_free(folder);
}

/* Rename the partial file. Without force, a file that was created meanwhile is
 * not replaced (EEXIST), except on a file system without RENAME_NOREPLACE. */
static int rename_part(const struct export_file *file)
{
    unsigned flags = file->force ? 0 : RENAME_NOREPLACE;
    int failed = renameat2(AT_FDCWD, file->part, AT_FDCWD, file->target, flags);

    if (failed && flags && (errno == EINVAL || errno == ENOSYS))
        failed = rename(file->part, file->target);
    return failed;
}

/* Replace the file by the partial file, before the partial file is closed,
 * because closing releases the lock. */
static enum tw_err replace_file(struct export_file *file, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (file->completes)
        outcome = file->completes(file->context, file->part, err);
    if (outcome != TW_OK)
        return outcome;
    if (rename_part(file) != 0)
        return errno == EEXIST ? refuse_existing(file, err)
                               : fail_write(file, errno, err);
    sync_folder(file->target);
    return TW_OK;
}

enum tw_err export_file_finish(struct export_file *file, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (!file->path)
        return TW_OK; /* the end of the program flushes standard output */
    if (fflush(file->file) != 0 ||
        (file->part && fsync(fileno(file->file)) != 0))
        return fail_write(file, errno, err);
    if (file->part)
        outcome = replace_file(file, err);
    if (outcome != TW_OK)
        return outcome;
    mem_free(file->part);
    file->part = NULL;
    return TW_OK;
}

static bool is_empty(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && is.st_size == 0;
}

bool export_file_close(struct export_file *file)
{
    bool stays;

    if (file->part && file->file)
        (void)fflush(file->file);
    stays = file->ours && file->part && file->with_id && !is_empty(file->part);
    if (file->ours && file->part && !stays)
        (void)unlink(file->part);
    if (file->path && file->file)
        (void)fclose(file->file);
    mem_free(file->part);
    mem_free(file->target);
    buf_done(&file->last);
    return stays;
}
