/* SPDX-License-Identifier: MIT */
/* A part beside its place, which may be gone on with. */
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
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"
#include "worker/transfer/lines.h"

#define PART ".part"
#define HASH_DIGITS 16

/* What is written at once, and read at once of what is there. */
#define WRITE_BYTES ((size_t)256 * 1024)

static int cannot_write(const struct export_file *file, int cause)
{
    say("%s cannot be written: %s", file->path ? file->path : "standard output",
        strerror(cause));
    return cause == ENOSPC || cause == EDQUOT ? EXIT_STOPPED : EXIT_FAILED;
}

/* A pipe or a device is written as it is: nothing can be renamed to it. */
static bool is_special(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && !S_ISREG(is.st_mode);
}

/* Where a link leads: it stays one. Owned. */
static char *place_of(const char *path)
{
    char *real = realpath(path, NULL);
    char *place = mem_text(real ? real : path, strlen(real ? real : path));

    free(real);
    return place;
}

/* "folder/" or "./". Owned. */
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

/* ---- another part of the same id ---- */

static bool is_part_of(const char *name, const char *begin)
{
    size_t len = strlen(begin);

    return strncmp(name, begin, len) == 0 &&
           strlen(name) == len + HASH_DIGITS + sizeof(PART) - 1 &&
           strspn(name + len, "0123456789abcdef") == HASH_DIGITS &&
           strcmp(name + len + HASH_DIGITS, PART) == 0;
}

/* The same id with something else to export is a mistake. */
static int refuse_other(const struct export_file *file, const char *id)
{
    char *folder = folder_of(file->place);
    char *begin = mem_format("%s.%s-", name_of(file->place), id);
    DIR *list = opendir(folder);
    const struct dirent *entry;
    int code = EXIT_DONE;

    while (list && code == EXIT_DONE && (entry = readdir(list)) != NULL)
        if (is_part_of(entry->d_name, begin) &&
            strcmp(entry->d_name, name_of(file->part)) != 0)
            code = say_usage("id %s is known: %s%s is of another store, table, "
                             "--filter or --select; end that export, or remove "
                             "its part",
                id, folder, entry->d_name);
    if (list)
        closedir(list);
    mem_free(begin);
    mem_free(folder);
    return code;
}

/* ---- opening ---- */

static char *part_of_id(const char *path, const struct export_id *id)
{
    unsigned char sum[CRYPTO_SHA256_BYTES];
    char hash[HASH_DIGITS + 1];

    crypto_sha256(id->what, sum);
    text_hex(hash, sum, HASH_DIGITS / 2);
    return mem_format("%s.%s-%s" PART, path, id->id, hash);
}

static char *part_of_nobody(const char *path)
{
    char id[40];

    text_random_id(id);
    return mem_format("%s.%.8s" PART, path, id);
}

/* Whoever may not read the file that is replaced is not to read its part. */
static void keep_mode(const struct export_file *file, int fd)
{
    const mode_t who = S_IRWXU | S_IRWXG | S_IRWXO;
    struct stat is;

    if (stat(file->place, &is) == 0 && S_ISREG(is.st_mode))
        (void)fchmod(fd, (is.st_mode & who) | S_IRUSR | S_IWUSR);
}

static int take_fd(struct export_file *file, int fd)
{
    int cause = errno;

    if (fd < 0) {
        mem_free(file->part);
        file->part = NULL;
        return cannot_write(file, cause);
    }
    file->file = fdopen(fd, "w");
    if (!file->file)
        mem_exhausted();
    return EXIT_DONE;
}

static int open_fresh(struct export_file *file)
{
    int fd;

    if (is_special(file->path))
        return take_fd(file, open(file->path, O_WRONLY | O_CLOEXEC));
    file->part = part_of_nobody(file->place);
    fd = open(file->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file->ours = fd >= 0;
    keep_mode(file, fd);
    return take_fd(file, fd);
}

/* ---- going on ---- */

/* What of a part can be gone on with: its whole lines. None of them has a NUL:
 * those stand where a power cut has taken what was written. */
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

/* -1: errno. */
static int look_for_whole(int fd, struct whole *ret)
{
    char *block = mem_alloc(WRITE_BYTES);
    const char *nul = NULL;
    off_t at = 0;
    ssize_t got;

    *ret = (struct whole){0};
    while (!nul && (got = pread(fd, block, WRITE_BYTES, at)) > 0) {
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

/* False: another process is at it, or was until just now, and what is open is
 * not a part any more. */
static bool lock_part(const struct export_file *file, int fd)
{
    struct stat open_one, named;

    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &open_one) == 0 &&
           stat(file->part, &named) == 0 && open_one.st_ino == named.st_ino &&
           open_one.st_dev == named.st_dev;
}

static int go_on(struct export_file *file, int fd, bool goes_on)
{
    struct whole whole = {0};

    if (!lock_part(file, fd)) {
        say("%s: another process is writing it", file->part);
        return EXIT_STOPPED;
    }
    file->ours = true;
    keep_mode(file, fd);
    if ((goes_on && look_for_whole(fd, &whole) != 0) ||
        ftruncate(fd, whole.end) != 0 || lseek(fd, whole.end, SEEK_SET) < 0 ||
        read_last(file, fd, &whole) != 0)
        return cannot_write(file, errno);
    return EXIT_DONE;
}

static int open_with_id(struct export_file *file, const struct export_id *id)
{
    int code, fd;

    if (is_special(file->path))
        return say_usage("--id wants a FILE that can be gone on with");
    file->with_id = true;
    file->part = part_of_id(file->place, id);
    code = refuse_other(file, id->id);
    if (code != EXIT_DONE)
        return code;
    fd = open(file->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    code = take_fd(file, fd);
    return code == EXIT_DONE ? go_on(file, fd, id->goes_on) : code;
}

int export_file_open(
    struct export_file *file, const char *path, const struct export_id *id)
{
    *file = (struct export_file){.file = stdout};
    buf_init(&file->last, LINES_MAX_BYTES);
    if (!path || strcmp(path, "-") == 0)
        return id ? say_usage("--id wants a FILE") : EXIT_DONE;
    file->file = NULL;
    file->path = path;
    file->place = place_of(path);
    return id ? open_with_id(file, id) : open_fresh(file);
}

/* ---- writing ---- */

int export_file_write(struct export_file *file, struct slice text)
{
    if (fwrite(text.at, 1, text.len, file->file) == text.len)
        return EXIT_DONE;
    return cannot_write(file, errno);
}

/* The name of the file, too, must outlive a power cut. */
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

/* Renamed before it is closed: the lock ends with the name. */
static int finish(struct export_file *file)
{
    if (fflush(file->file) != 0)
        return errno;
    if (file->part && fsync(fileno(file->file)) != 0)
        return errno;
    if (file->part && rename(file->part, file->place) != 0)
        return errno;
    return 0;
}

int export_file_keep(struct export_file *file)
{
    int cause;

    if (!file->path)
        return EXIT_DONE; /* standard output is looked at last of all */
    cause = finish(file);
    if (cause != 0)
        return cannot_write(file, cause);
    if (file->part)
        sync_folder(file->place);
    mem_free(file->part);
    file->part = NULL;
    return EXIT_DONE;
}

/* A part that holds nothing is of no use to anybody. */
static bool is_empty(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && is.st_size == 0;
}

void export_file_close(struct export_file *file)
{
    if (file->part && file->file)
        (void)fflush(file->file);
    if (file->ours && file->part && file->with_id && !is_empty(file->part))
        say("what is written stays in %s: the same --id goes on", file->part);
    else if (file->ours && file->part)
        (void)unlink(file->part);
    if (file->path && file->file)
        (void)fclose(file->file);
    mem_free(file->part);
    mem_free(file->place);
    buf_done(&file->last);
}
