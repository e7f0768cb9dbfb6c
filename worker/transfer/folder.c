/* SPDX-License-Identifier: MIT */
/* Reads a folder of files of tables, and keeps the progress of an export of all
 * tables. */
#include "worker/transfer/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/file.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/entity.h"

/* The ends of the names of files, indexed by enum records_format. */
static const char *const ENDS[] = {".jsonl", ".csv"};
#define END_COUNT (sizeof(ENDS) / sizeof(*(ENDS)))

#define PROGRESS_BEGIN "export-"
#define PROGRESS_END ".progress"
#define LINE_MAX_BYTES 256 /* a name of 63 letters and a number */
#define PART ".part"
#define REJECTED ".rejected"

static enum tw_err fail_file(
    const char *path, const char *what, struct err *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT;

    return err_fail(err, full ? TW_FULL : TW_INVALID, "%s cannot be %s: %s",
        path, what, strerror(errno));
}

/* ---- the files of tables ---- */

static bool ends_with(const char *name, size_t len, const char *end)
{
    size_t end_len = strlen(end);

    return len > end_len &&
           strncasecmp(name + len - end_len, end, end_len) == 0;
}

/* Is the beginning of name, of len bytes, TABLE.jsonl or TABLE.csv? */
static bool is_of_table(const char *name, size_t len, struct slice *ret_table,
    enum records_format *ret_format)
{
    struct err ignored;

    for (size_t i = 0; i < END_COUNT; i++) {
        *ret_table = (struct slice){name, len - strlen(ENDS[i])};
        *ret_format = (enum records_format)i;
        if (ends_with(name, len, ENDS[i]) &&
            entity_check_table(*ret_table, &ignored) == TW_OK)
            return true;
    }
    return false;
}

static bool is_rejects_file(const char *name)
{
    size_t len = strlen(name);
    enum records_format format;
    struct slice table;

    return ends_with(name, len, REJECTED) &&
           is_of_table(name, len - strlen(REJECTED), &table, &format);
}

static bool is_unfinished(const char *name)
{
    size_t len = strlen(name);

    return ends_with(name, len, PART) ||
           (strncmp(name, PROGRESS_BEGIN, strlen(PROGRESS_BEGIN)) == 0 &&
               ends_with(name, len, PROGRESS_END));
}

static int compare_files(const void *a, const void *b)
{
    const struct folder_file *one = a, *other = b;
    int order = strcasecmp(one->table, other->table);

    return order != 0 ? order : strcmp(one->path, other->path);
}

struct reading {
    struct folder *folder;
    struct folder_file *files; /* owned; count as in folder */
    const char *path;
    void (*other)(void *context, const char *path);
    void *context;
};

static void take_entry(struct reading *reading, const char *name)
{
    struct folder *folder = reading->folder;
    const char *path =
        arena_format(&folder->arena, "%s/%s", reading->path, name).at;
    enum records_format format;
    struct slice table;

    if (is_of_table(name, strlen(name), &table, &format) &&
        file_is_regular(path)) {
        reading->files = mem_resize(
            reading->files, (folder->count + 1) * sizeof(*reading->files));
        reading->files[folder->count++] = (struct folder_file){
            .table = arena_copy(&folder->arena, table).at,
            .path = path,
            .format = format,
        };
    } else if (is_unfinished(name)) {
        folder->unfinished = path;
    } else if (!is_rejects_file(name) && reading->other) {
        reading->other(reading->context, path);
    }
}

enum tw_err folder_read(struct folder *folder, const char *path,
    void (*other)(void *context, const char *path), void *context,
    struct err *err)
{
    struct reading reading = {
        .folder = folder, .path = path, .other = other, .context = context};
    const struct dirent *entry;
    struct folder_file *kept;
    DIR *list;

    *folder = (struct folder){.count = 0};
    arena_init(&folder->arena);
    list = opendir(path);
    if (!list)
        return fail_file(path, "read", err);
    while ((entry = readdir(list)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            take_entry(&reading, entry->d_name);
    closedir(list);
    kept = arena_alloc(&folder->arena, (folder->count + 1) * sizeof(*kept));
    if (folder->count > 0) {
        memcpy(kept, reading.files, folder->count * sizeof(*kept));
        qsort(kept, folder->count, sizeof(*kept), compare_files);
    }
    mem_free(reading.files);
    folder->files = kept;
    return TW_OK;
}

void folder_done(struct folder *folder)
{
    arena_done(&folder->arena);
}

const char *folder_path(const char *folder, const char *table,
    enum records_format format, struct arena *arena)
{
    return arena_format(arena, "%s/%s%s", folder, table, ENDS[format]).at;
}

enum tw_err folder_create(const char *path, struct err *err)
{
    struct stat is;

    if (mkdir(path, 0700) == 0)
        return TW_OK;
    if (errno != EEXIST)
        return fail_file(path, "created", err);
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        return TW_OK;
    return err_fail(err, TW_CONFLICT, "%s is not a folder", path);
}

/* ---- the progress of an export ---- */

struct begun {
    const char *table;
    uint64_t replaced; /* inode of the file that existed; 0: none */
};

struct folder_progress {
    char *path;
    FILE *file;
    struct arena arena;
    struct begun *list; /* owned */
    size_t count;
    bool ours; /* the file is locked and belongs to this export */
};

static uint64_t inode_of(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 ? (uint64_t)is.st_ino : 0;
}

static void add_begun(
    struct folder_progress *progress, struct slice table, uint64_t replaced)
{
    progress->list = mem_resize(
        progress->list, (progress->count + 1) * sizeof(*progress->list));
    progress->list[progress->count++] = (struct begun){
        .table = arena_copy(&progress->arena, table).at, .replaced = replaced};
}

/* A line without its newline. */
static void read_line(struct folder_progress *progress, const char *line)
{
    size_t len = strcspn(line, " ");
    char *end;
    uint64_t replaced;

    if (line[len] == '\0')
        return;
    replaced = strtoull(line + len + 1, &end, 10);
    if (*end == '\0')
        add_begun(progress, (struct slice){line, len}, replaced);
}

static bool is_store_line(const char *line, const char *store)
{
    return strncmp(line, "store ", 6) == 0 && strcmp(line + 6, store) == 0;
}

/* Reads all whole lines, and sets the position after them, because a process
 * that was killed may have written only a part of its last line. False: the
 * export is of another store. */
static bool read_lines(struct folder_progress *progress, const char *store)
{
    char line[LINE_MAX_BYTES];
    size_t number = 0;
    off_t end = 0;
    bool same = true;

    while (same && fgets(line, sizeof(line), progress->file) &&
           strchr(line, '\n')) {
        end += (off_t)strlen(line);
        *strchr(line, '\n') = '\0';
        if (number++ == 0)
            same = is_store_line(line, store);
        else
            read_line(progress, line);
    }
    (void)fseeko(progress->file, end, SEEK_SET);
    return same;
}

static enum tw_err write_line(
    struct folder_progress *progress, const char *line, struct err *err)
{
    if (fputs(line, progress->file) >= 0 && fflush(progress->file) == 0 &&
        fsync(fileno(progress->file)) == 0)
        return TW_OK;
    return fail_file(progress->path, "written", err);
}

/* Locks the file, reads it, and cuts a partial line off. */
static enum tw_err begin_progress(struct folder_progress *progress,
    const char *id, const char *store, struct err *err)
{
    char *line;
    enum tw_err outcome;

    if (flock(fileno(progress->file), LOCK_EX | LOCK_NB) != 0 ||
        access(progress->path, F_OK) != 0)
        return err_fail(err, TW_STOPPED,
            "%s: another process is exporting with this id", progress->path);
    if (!read_lines(progress, store))
        return err_fail(err, TW_CONFLICT,
            "id %s belongs to an export of another store: see %s", id,
            progress->path);
    if (ftruncate(fileno(progress->file), ftello(progress->file)) != 0)
        return fail_file(progress->path, "written", err);
    if (ftello(progress->file) > 0)
        return TW_OK;
    line = mem_format("store %s\n", store);
    outcome = write_line(progress, line, err);
    mem_free(line);
    return outcome;
}

enum tw_err folder_progress_open(const char *folder, const char *id,
    const char *store, struct folder_progress **ret, struct err *err)
{
    struct folder_progress *progress = mem_alloc(sizeof(*progress));
    enum tw_err outcome;
    int fd;

    progress->path =
        mem_format("%s/" PROGRESS_BEGIN "%s" PROGRESS_END, folder, id);
    arena_init(&progress->arena);
    fd = open(progress->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        outcome = fail_file(progress->path, "written", err);
    } else {
        progress->file = fdopen(fd, "r+");
        if (!progress->file)
            mem_exhausted();
        outcome = begin_progress(progress, id, store, err);
    }
    progress->ours = outcome == TW_OK;
    if (outcome == TW_OK)
        *ret = progress;
    else
        folder_progress_close(progress, false);
    return outcome;
}

bool folder_progress_begun(const struct folder_progress *progress,
    const char *table, const char *path, bool *ret_done)
{
    uint64_t inode = inode_of(path);

    for (size_t i = 0; i < progress->count; i++)
        if (strcmp(progress->list[i].table, table) == 0) {
            *ret_done = inode != 0 && inode != progress->list[i].replaced;
            return true;
        }
    *ret_done = false;
    return false;
}

enum tw_err folder_progress_begin(struct folder_progress *progress,
    const char *table, const char *path, struct err *err)
{
    uint64_t replaced = inode_of(path);
    char *line;
    bool done;
    enum tw_err outcome;

    if (folder_progress_begun(progress, table, path, &done))
        return TW_OK;
    line = mem_format("%s %" PRIu64 "\n", table, replaced);
    outcome = write_line(progress, line, err);
    mem_free(line);
    if (outcome == TW_OK)
        add_begun(progress, slice_of(table), replaced);
    return outcome;
}

void folder_progress_close(struct folder_progress *progress, bool complete)
{
    if (!progress)
        return;
    if (progress->ours && (complete || progress->count == 0))
        (void)unlink(progress->path);
    if (progress->file)
        (void)fclose(progress->file);
    mem_free(progress->list);
    mem_free(progress->path);
    arena_done(&progress->arena);
    mem_free(progress);
}
