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

#include "worker/base/crypto.h"
#include "worker/base/file.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/entity.h"
#include "worker/store/store.h"
#include "worker/transfer/export_file.h"

/* The ends of the names of files, indexed by enum records_format. */
static const char *const ENDS[] = {".jsonl", ".csv"};
#define END_COUNT (sizeof(ENDS) / sizeof(*(ENDS)))

#define PROGRESS_BEGIN "export-"
#define WITHOUT_ID "@" /* no id contains this character */
#define PROGRESS_END ".progress"
/* Maximum size of a line, which has a name of at most 64 characters, and a
 * hash or two numbers. */
#define LINE_MAX_BYTES 256
#define HASH_DIGITS 32
#define NS_PER_S INT64_C(1000000000)
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

/* Are the first len bytes of name TABLE.jsonl or TABLE.csv? */
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

/* Does the name say that the file holds entities? For instance Blogs.jsonl.gz,
 * or a folder Blogs.csv. */
static bool is_like_table(const char *name)
{
    static const char *const parts[] = {".json", ".ndjson", ".csv"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (strcasestr(name, parts[i]))
            return true;
    return false;
}

static int compare_files(const void *a, const void *b)
{
    const struct folder_file *one = a, *other = b;
    int order = strcasecmp(one->table, other->table);

    return order != 0 ? order : strcmp(one->path, other->path);
}

struct reading {
    struct folder *folder;
    struct folder_file *files; /* owned; their number is folder->count */
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
    } else if (!is_rejects_file(name)) {
        if (is_like_table(name))
            folder->unknown = path;
        if (reading->other)
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
    bool complete; /* the partial file was complete */
    /* If complete: size of the partial file, and time of its last change. */
    int64_t size, changed_ns;
};

struct folder_progress {
    char *folder, *id; /* id NULL: the export has no id */
    char *path;
    char *without_id; /* path of the progress file of an export without an id */
    FILE *file;
    struct arena arena;
    struct begun *list; /* owned */
    size_t count;
    bool ours; /* the file is locked and belongs to this export */
};

static bool read_stat(const char *path, struct begun *ret)
{
    struct stat is;

    if (stat(path, &is) != 0)
        return false;
    ret->size = is.st_size;
    ret->changed_ns =
        (int64_t)is.st_mtim.tv_sec * NS_PER_S + is.st_mtim.tv_nsec;
    return true;
}

static struct begun *find(
    const struct folder_progress *progress, struct slice table)
{
    for (size_t i = 0; i < progress->count; i++)
        if (slice_is(table, progress->list[i].table))
            return &progress->list[i];
    return NULL;
}

/* Stores a copy of *begun for the table, in place of an earlier one.
 * begun->table is not used. */
static void add_begun(struct folder_progress *progress, struct slice table,
    const struct begun *begun)
{
    struct begun *known = find(progress, table);
    const char *name = known ? known->table : NULL;

    if (!known) {
        progress->list = mem_resize(
            progress->list, (progress->count + 1) * sizeof(*progress->list));
        known = &progress->list[progress->count++];
        name = arena_copy(&progress->arena, table).at;
    }
    *known = *begun;
    known->table = name;
}

static bool read_numbers(const char *text, struct begun *ret)
{
    size_t len = strcspn(text, " ");

    return text[len] == ' ' &&
           text_int64((struct slice){text, len}, 0, INT64_MAX, &ret->size) &&
           text_int64(slice_of(text + len + 1), 0, INT64_MAX, &ret->changed_ns);
}

/* Reads a line without its newline. A line of a former version, `TABLE INODE`,
 * means that the table's file was begun. */
static void read_line(struct folder_progress *progress, const char *line)
{
    struct begun begun = {.complete = false};
    size_t len = strcspn(line, " ");

    begun.complete = line[len] == ' ' && read_numbers(line + len + 1, &begun);
    add_begun(progress, (struct slice){line, len}, &begun);
}

/* Reads all whole lines, and sets the position after them, because a process
 * that was killed may have written only a part of its last line. False: the
 * export is of another store. */
static bool read_lines(struct folder_progress *progress, const char *first)
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
            same = strcmp(line, first) == 0;
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

/* Locks the progress file. An export without an id is possible even in a file
 * system without locks, because it is not continued. */
static bool lock_progress(const struct folder_progress *progress, bool with_id)
{
    return flock(fileno(progress->file), LOCK_EX | LOCK_NB) == 0 ||
           (!with_id && errno != EWOULDBLOCK);
}

/* Locks the file, reads it, and cuts a partial line off. */
static enum tw_err begin_progress(struct folder_progress *progress,
    const char *id, const char *first, struct err *err)
{
    char *line;
    enum tw_err outcome;

    if (!lock_progress(progress, id != NULL) ||
        access(progress->path, F_OK) != 0)
        return err_fail(err, TW_STOPPED, "%s: another process is exporting %s",
            progress->path, id ? "with this id" : "this store to this folder");
    if (!read_lines(progress, first))
        return err_fail(err, TW_CONFLICT,
            "%s%s belongs to an export of another store or account: see %s",
            id ? "id " : "", id ? id : "the folder", progress->path);
    if (ftruncate(fileno(progress->file), ftello(progress->file)) != 0)
        return fail_file(progress->path, "written", err);
    if (ftello(progress->file) > 0)
        return TW_OK;
    line = mem_format("%s\n", first);
    outcome = write_line(progress, line, err);
    mem_free(line);
    return outcome;
}

/* Returns the first line of the progress file, which identifies the store. The
 * store's name alone would not identify it, because a changed configuration may
 * use this name for another account. */
static char *first_line(const struct store *store)
{
    unsigned char sum[CRYPTO_SHA256_BYTES];
    char hash[HASH_DIGITS + 1];

    crypto_sha256(slice_of(store_account(store)), sum);
    text_hex(hash, sum, HASH_DIGITS / 2);
    return mem_format("store %s %s", store->name, hash);
}

enum tw_err folder_progress_open(const char *folder, const char *id,
    const struct store *store, struct folder_progress **ret, struct err *err)
{
    struct folder_progress *progress = mem_alloc(sizeof(*progress));
    char *first = first_line(store);
    enum tw_err outcome;
    int fd;

    progress->folder = mem_text(folder, strlen(folder));
    progress->id = id ? mem_text(id, strlen(id)) : NULL;
    progress->without_id = mem_format(
        "%s/" PROGRESS_BEGIN WITHOUT_ID "%s" PROGRESS_END, folder, store->name);
    progress->path =
        id ? mem_format("%s/" PROGRESS_BEGIN "%s" PROGRESS_END, folder, id)
           : mem_text(progress->without_id, strlen(progress->without_id));
    arena_init(&progress->arena);
    fd = open(progress->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        outcome = fail_file(progress->path, "written", err);
    } else {
        progress->file = fdopen(fd, "r+");
        if (!progress->file)
            mem_exhausted();
        outcome = begin_progress(progress, id, first, err);
    }
    mem_free(first);
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
    const struct begun *begun = find(progress, slice_of(table));
    struct begun now;

    *ret_done = begun && begun->complete && read_stat(path, &now) &&
                now.size == begun->size && now.changed_ns == begun->changed_ns;
    return begun != NULL;
}

enum tw_err folder_progress_begin(
    struct folder_progress *progress, const char *table, struct err *err)
{
    char *line;
    enum tw_err outcome;

    if (find(progress, slice_of(table)))
        return TW_OK;
    line = mem_format("%s\n", table);
    outcome = write_line(progress, line, err);
    mem_free(line);
    if (outcome == TW_OK)
        add_begun(progress, slice_of(table), &(struct begun){0});
    return outcome;
}

enum tw_err folder_progress_complete(struct folder_progress *progress,
    const char *table, const char *part, struct err *err)
{
    struct begun begun = {.complete = true};
    char *line;
    enum tw_err outcome;

    if (!read_stat(part, &begun))
        return fail_file(part, "read", err);
    line = mem_format(
        "%s %" PRId64 " %" PRId64 "\n", table, begun.size, begun.changed_ns);
    outcome = write_line(progress, line, err);
    mem_free(line);
    if (outcome == TW_OK)
        add_begun(progress, slice_of(table), &begun);
    return outcome;
}

/* Returns the table for which this export wrote the partial file `name`; NULL:
 * the file is no such partial file. */
static const char *table_of_part(
    const struct folder_progress *progress, const char *name)
{
    for (size_t i = 0; i < progress->count; i++) {
        const char *table = progress->list[i].table;
        char *of = mem_format("%s%s", table, ENDS[RECORDS_JSON_LINES]);
        bool is_part = export_file_is_part(name, of, progress->id);

        mem_free(of);
        if (is_part)
            return table;
    }
    return NULL;
}

static bool is_among(const char *const *names, size_t count, const char *table)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], table) == 0)
            return true;
    return false;
}

void folder_progress_drop_deleted(const struct folder_progress *progress,
    const char *const *names, size_t count,
    void (*dropped)(const char *table, const char *part))
{
    DIR *list = opendir(progress->folder);
    const struct dirent *entry;

    while (list && (entry = readdir(list)) != NULL) {
        const char *table = table_of_part(progress, entry->d_name);
        char *path;

        if (!table || is_among(names, count, table))
            continue;
        path = mem_format("%s/%s", progress->folder, entry->d_name);
        dropped(table, path);
        (void)unlink(path);
        mem_free(path);
    }
    if (list)
        closedir(list);
}

/* Removes the progress file of an interrupted export without an id. Call after
 * a complete export with an id: it has written the files of all tables of the
 * store, and so also those that the interrupted export did not write. If the
 * export without an id is still in progress, its progress file is locked, and
 * stays. */
static void remove_without_id(const struct folder_progress *progress)
{
    int fd = open(progress->without_id, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlink(progress->without_id);
    close(fd);
}

void folder_progress_close(struct folder_progress *progress, bool complete)
{
    if (!progress)
        return;
    if (progress->ours && (complete || progress->count == 0))
        (void)unlink(progress->path);
    if (progress->ours && complete && progress->id)
        remove_without_id(progress);
    if (progress->file)
        (void)fclose(progress->file);
    mem_free(progress->list);
    mem_free(progress->path);
    mem_free(progress->without_id);
    mem_free(progress->folder);
    mem_free(progress->id);
    arena_done(&progress->arena);
    mem_free(progress);
}
