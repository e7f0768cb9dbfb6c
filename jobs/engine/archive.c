/* SPDX-License-Identifier: MIT */
/*
 * Writes entities to disk before they are deleted. Lines are gathered in
 * memory; archive_sync() writes them and makes them durable, once for many
 * entities.
 *
 * A line is appended only to a file that ends with a complete line. After a
 * crash, the last line may be incomplete; it is cut off when the file is opened
 * again. After a failed write (the disk is full), an incomplete line is cut off
 * at once.
 */
#include "jobs/engine/archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/file.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define FOLDER_MODE 0700
#define FILE_MODE 0600

/* GATHER_BYTES: when the lines gathered in memory have this size, they are
 * written to the file. LINE_MAX_BYTES: limit of one line; an entity in JSON may
 * have a few MiB. */
#define GATHER_BYTES (256 * 1024)
#define LINE_MAX_BYTES (16 * 1024 * 1024)

/* Bytes per read while searching for the last whole line. */
#define LOOK_BYTES 4096

#define EXIT_TAKE_UP_AGAIN 75

/* REQUESTED_AT: name of the file that holds the run's RequestedAt, in the run's
 * folder. FORMER_MAX: number of names to try when the folder of a former run is
 * renamed. */
#define REQUESTED_AT ".requested-at"
#define FORMER_MAX 10000

struct file {
    char *table, *path;
    int at;
    off_t size;       /* size of the whole lines in the file, in bytes */
    struct buf lines; /* gathered lines, not yet written */
    bool dirty;       /* the file has lines that are not yet durable */
    struct file *next;
};

struct archive {
    char *job, *id;
    char *folder; /* path of the run's folder */
    int top;      /* descriptor of the folder of all runs */
    int at;       /* descriptor of the run's folder; -1: not yet opened */
    int32_t epoch;
    int64_t requested_ticks;
    bool dirty; /* the run's folder has new files whose names are not yet
                 * durable */
    struct file *files;
};

/* Is `number` an errno that every retry would get again? After any other errno
 * (of a full disk, for example) a retry may succeed, once an operator has
 * removed the cause. */
static bool is_forbidden(int number)
{
    return number == EACCES || number == EPERM || number == ENOTDIR ||
           number == ELOOP || number == ENAMETOOLONG || number == EISDIR;
}

static enum tw_err fail(struct err *err, const char *did, const char *path)
{
    enum tw_err outcome = is_forbidden(errno) ? TW_FORBIDDEN : TW_FULL;

    return err_fail(
        err, outcome, "archive: cannot %s %s: %s", did, path, strerror(errno));
}

/* Make the file or folder durable, or end the process: after a failed fsync it
 * is unknown which data is lost, and a second fsync may wrongly succeed. */
static void sync_or_end(int at, const char *path)
{
    if (fsync(at) == 0)
        return;
    log_error("archive",
        "cannot sync %s to the disk: %s. It is unknown which data is stored, "
        "so the process ends. Its runs can be continued",
        path, strerror(errno));
    _exit(EXIT_TAKE_UP_AGAIN);
}

/* Write len bytes. False: errno has the reason, and some of the bytes may have
 * been written. */
static bool write_all(int at, const char *from, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(at, from, len);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        from += wrote;
        len -= (size_t)wrote;
    }
    return true;
}

/* ---- folders ---- */

static enum tw_err open_folder(const char *path, int *ret, struct err *err);

/* Create path and all missing folders above path, and make them durable. */
static enum tw_err make_folder(const char *path, struct err *err)
{
    const char *name = strrchr(path, '/');
    char *parent = mem_text(path, name > path ? (size_t)(name - path) : 1);
    int at;
    enum tw_err outcome = open_folder(parent, &at, err);

    if (outcome == TW_OK) {
        if (mkdir(path, FOLDER_MODE) == 0)
            sync_or_end(at, parent);
        else if (errno != EEXIST)
            outcome = fail(err, "make", path);
        (void)close(at);
    }
    mem_free(parent);
    return outcome;
}

/* Open a folder, and create it if missing. Folders above are opened only if
 * path is missing, because they may be searchable but not readable. */
static enum tw_err open_folder(const char *path, int *ret, struct err *err)
{
    int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (at < 0 && errno == ENOENT && strcmp(path, "/") != 0) {
        enum tw_err outcome = make_folder(path, err);

        if (outcome != TW_OK)
            return outcome;
        at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (at < 0)
        return fail(err, "open", path);
    *ret = at;
    return TW_OK;
}

/* Refuse path as a symbolic link: through a link, entities would be written to
 * another location. */
static enum tw_err refuse_link(const char *path, struct err *err)
{
    return err_fail(err, TW_FORBIDDEN,
        "archive: %s is a symbolic link, which is not allowed below the folder "
        "that `archive:` names: replace it by a folder",
        path);
}

/* Open the folder `name` in the folder with descriptor `at`; create `name` if
 * missing. path is the path of `name`, for messages. */
static enum tw_err open_below(
    int at, const char *name, const char *path, int *ret, struct err *err)
{
    const int how = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    struct stat info;
    int below = openat(at, name, how);

    if (below < 0 && errno == ENOENT) {
        if (mkdirat(at, name, FOLDER_MODE) == 0)
            sync_or_end(at, path);
        else if (errno != EEXIST)
            return fail(err, "make", path);
        below = openat(at, name, how);
    }
    if (below >= 0) {
        *ret = below;
        return TW_OK;
    }
    if ((errno == ENOTDIR || errno == ELOOP) &&
        fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(info.st_mode))
        return refuse_link(path, err);
    return fail(err, "open", path);
}

/* ---- the run's own folder ---- */

/* Does the folder have a file with archived lines? If the folder cannot be
 * listed, the answer is true, and the folder is renamed. A needless rename does
 * little harm. But if the lines of two runs were in one folder, it would be
 * unknown which line belongs to which run. */
static bool may_have_lines(int folder)
{
    int at = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = at < 0 ? NULL : fdopendir(at);
    bool found = !listing;

    if (!listing && at >= 0)
        (void)close(at);
    if (!listing)
        return found;
    for (struct dirent *file = readdir(listing); file && !found;
         file = readdir(listing))
        found = file->d_name[0] != '.' && file->d_type != DT_DIR;
    (void)closedir(listing);
    return found;
}

/* Read the folder's file REQUESTED_AT into `to`, which has room for
 * TEXT_TIME_MAX bytes. If there is no such file, `to` becomes empty. */
static enum tw_err read_requested_at(
    const struct archive *archive, char *to, struct err *err)
{
    ssize_t got = file_read_and_close(
        openat(archive->at, REQUESTED_AT, O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
        to, TEXT_TIME_MAX - 1);
    enum tw_err outcome = TW_OK;

    if (got < 0 && errno != ENOENT)
        outcome =
            fail(err, "read the file " REQUESTED_AT " in", archive->folder);
    to[got < 0 ? 0 : got] = '\0';
    return outcome;
}

/* Write the run's RequestedAt to a new file, and rename this file to
 * REQUESTED_AT. A crash then cannot leave half of a time, which would look like
 * the RequestedAt of another run. */
static enum tw_err write_requested_at(
    const struct archive *archive, const char *text, struct err *err)
{
    enum tw_err outcome = TW_OK;
    bool written = false;
    int at = openat(archive->at, REQUESTED_AT ".new",
        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);

    if (at >= 0) {
        written = write_all(at, text, strlen(text));
        if (written)
            sync_or_end(at, archive->folder);
        written = written && renameat(archive->at, REQUESTED_AT ".new",
                                 archive->at, REQUESTED_AT) == 0;
    }
    if (!written)
        outcome =
            fail(err, "write the file " REQUESTED_AT " in", archive->folder);
    if (at >= 0)
        (void)close(at);
    return outcome;
}

/* Rename the folder with the run's id, which belongs to a former run, to ID~1,
 * or to the next free name. (No run id has a '~'.) of_job is the descriptor of
 * the job's folder. */
static enum tw_err put_former_aside(
    const struct archive *archive, int of_job, struct err *err)
{
    for (int i = 1; i <= FORMER_MAX; i++) {
        char *name = mem_format("%s~%d", archive->id, i);
        bool renamed = renameat(of_job, archive->id, of_job, name) == 0;
        int cause = errno;

        if (renamed)
            log_info("archive",
                "folder %s has the archive of a former run with this id, so "
                "the folder is renamed to %s",
                archive->folder, name);
        mem_free(name);
        if (renamed) {
            sync_or_end(of_job, archive->folder);
            return TW_OK;
        }
        errno = cause;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            break;
    }
    return fail(err, "rename", archive->folder);
}

/*
 * Open the run's folder below the folder of its job, of_job. If the folder
 * belongs to a former run with the same id, rename that folder, and create a
 * new one. (An id may be used again once the ledger has forgotten the former
 * run: keep_runs.)
 *
 * The two runs differ in RequestedAt, which the file REQUESTED_AT holds. A
 * folder without this file was written by an older version of this program; it
 * belongs to a former run if this is the first attempt of the present run.
 */
static enum tw_err open_run_folder(
    struct archive *archive, int of_job, struct err *err)
{
    char own[TEXT_TIME_MAX], stored[TEXT_TIME_MAX] = "";
    enum tw_err outcome =
        open_below(of_job, archive->id, archive->folder, &archive->at, err);

    (void)text_from_ticks(archive->requested_ticks, own);
    if (outcome == TW_OK)
        outcome = read_requested_at(archive, stored, err);
    if (outcome != TW_OK || strcmp(own, stored) == 0)
        return outcome;
    if ((stored[0] || archive->epoch == 1) && may_have_lines(archive->at)) {
        (void)close(archive->at);
        archive->at = -1;
        outcome = put_former_aside(archive, of_job, err);
        if (outcome == TW_OK)
            outcome = open_below(
                of_job, archive->id, archive->folder, &archive->at, err);
    }
    return outcome == TW_OK ? write_requested_at(archive, own, err) : outcome;
}

/* Open the run's own folder. Called when the first entity is archived. */
static enum tw_err open_own_folder(struct archive *archive, struct err *err)
{
    char *of_job = mem_format("%.*s",
        (int)(strlen(archive->folder) - strlen(archive->id) - 1),
        archive->folder);
    int at = -1;
    enum tw_err outcome =
        open_below(archive->top, archive->job, of_job, &at, err);

    if (outcome == TW_OK) {
        outcome = open_run_folder(archive, at, err);
        (void)close(at);
    }
    if (outcome != TW_OK && archive->at >= 0) {
        (void)close(archive->at);
        archive->at = -1;
    }
    mem_free(of_job);
    return outcome;
}

/* ---- files ---- */

/* Returns the length of all complete lines of the file, or -1; errno then has
 * the reason. */
static off_t whole_lines(int at, off_t size)
{
    char block[LOOK_BYTES];

    while (size > 0) {
        off_t from = size > LOOK_BYTES ? size - LOOK_BYTES : 0;
        ssize_t got = pread(at, block, (size_t)(size - from), from);
        const char *newline;

        if (got < 0 && errno == EINTR)
            continue;
        if (got != size - from)
            return -1;
        newline = memrchr(block, '\n', (size_t)got);
        if (newline)
            return from + (newline - block) + 1;
        size = from;
    }
    return 0;
}

/* Cut off an incomplete last line, which a crash has left. */
static bool cut_torn_line(int at, off_t *ret_size)
{
    struct stat info;
    off_t whole;

    if (fstat(at, &info) != 0)
        return false;
    whole = whole_lines(at, info.st_size);
    if (whole < 0 || (whole < info.st_size && ftruncate(at, whole) != 0))
        return false;
    *ret_size = whole;
    return true;
}

static enum tw_err open_file(struct archive *archive, const char *table,
    struct file **ret, struct err *err)
{
    struct file *file = mem_alloc(sizeof *file);
    char *name = mem_format("%d-%s.jsonl", archive->epoch, table);
    enum tw_err outcome = TW_OK;

    file->path = mem_format("%s/%s", archive->folder, name);
    file->at = openat(archive->at, name,
        O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (file->at < 0 || !cut_torn_line(file->at, &file->size))
        outcome = fail(err, "open", file->path);
    mem_free(name);
    if (outcome != TW_OK) {
        if (file->at >= 0)
            (void)close(file->at);
        mem_free(file->path);
        mem_free(file);
        return outcome;
    }
    file->table = mem_text(table, strlen(table));
    buf_init(&file->lines, GATHER_BYTES + LINE_MAX_BYTES);
    file->next = archive->files;
    archive->files = file;
    archive->dirty = true;
    *ret = file;
    return TW_OK;
}

static enum tw_err find_file(struct archive *archive, const char *table,
    struct file **ret, struct err *err)
{
    for (struct file *file = archive->files; file; file = file->next) {
        if (strcmp(file->table, table) == 0) {
            *ret = file;
            return TW_OK;
        }
    }
    if (archive->at < 0) {
        enum tw_err outcome = open_own_folder(archive, err);

        if (outcome != TW_OK)
            return outcome;
    }
    return open_file(archive, table, ret, err);
}

/* Write the gathered lines. After a failure the lines stay in memory, and the
 * next call writes them again. */
static enum tw_err write_lines(struct file *file, struct err *err)
{
    if (file->lines.len == 0)
        return TW_OK;
    if (!write_all(file->at, file->lines.at, file->lines.len)) {
        enum tw_err outcome = fail(err, "write", file->path);

        /* A failed ftruncate() does no harm, because the incomplete line is
         * also cut off when the file is opened again. */
        if (ftruncate(file->at, file->size) != 0)
            err_prefix(err, "the last line of the file is incomplete");
        return outcome;
    }
    file->size += (off_t)file->lines.len;
    file->dirty = true;
    /* The buffer is freed, because after one large entity it would keep its
     * size until the run ends. */
    buf_done(&file->lines);
    buf_init(&file->lines, GATHER_BYTES + LINE_MAX_BYTES);
    return TW_OK;
}

/* ---- public functions ---- */

enum tw_err archive_open(const char *folder, const struct archive_run *run,
    struct archive **ret, struct err *err)
{
    struct archive *archive = mem_alloc(sizeof *archive);
    enum tw_err outcome;

    archive->epoch = run->epoch;
    archive->requested_ticks = run->requested_ticks;
    archive->at = archive->top = -1;
    archive->job = mem_text(run->job, strlen(run->job));
    archive->id = mem_text(run->id, strlen(run->id));
    archive->folder = mem_format("%s/%s/%s", folder, run->job, run->id);
    outcome = open_folder(folder, &archive->top, err);
    if (outcome == TW_OK && faccessat(archive->top, ".", W_OK | X_OK, 0) != 0)
        outcome = fail(err, "write to", folder);
    if (outcome != TW_OK) {
        archive_close(archive);
        return outcome;
    }
    *ret = archive;
    return TW_OK;
}

enum tw_err archive_add(struct archive *archive, const char *table,
    const struct entity *entity, struct err *err)
{
    struct file *file = NULL;
    enum tw_err outcome = find_file(archive, table, &file, err);

    if (outcome != TW_OK)
        return outcome;
    if (file->lines.len >= GATHER_BYTES)
        outcome = write_lines(file, err);
    if (outcome != TW_OK)
        return outcome;
    entity_write(entity, &file->lines);
    buf_add_char(&file->lines, '\n');
    if (!file->lines.overflow)
        return TW_OK;
    return err_fail(err, TW_TOO_LARGE,
        "archive: an entity of table %s is more than %d bytes as a line", table,
        LINE_MAX_BYTES);
}

enum tw_err archive_sync(struct archive *archive, struct err *err)
{
    for (struct file *file = archive->files; file; file = file->next) {
        enum tw_err outcome = write_lines(file, err);

        if (outcome != TW_OK)
            return outcome;
        if (file->dirty)
            sync_or_end(file->at, file->path);
        file->dirty = false;
    }
    if (archive->dirty)
        sync_or_end(archive->at, archive->folder);
    archive->dirty = false;
    return TW_OK;
}

void archive_close(struct archive *archive)
{
    if (!archive)
        return;
    while (archive->files) {
        struct file *file = archive->files;

        archive->files = file->next;
        (void)close(file->at);
        buf_done(&file->lines);
        mem_free(file->table);
        mem_free(file->path);
        mem_free(file);
    }
    if (archive->at >= 0)
        (void)close(archive->at);
    if (archive->top >= 0)
        (void)close(archive->top);
    mem_free(archive->job);
    mem_free(archive->id);
    mem_free(archive->folder);
    mem_free(archive);
}
