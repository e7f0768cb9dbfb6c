/* SPDX-License-Identifier: MIT */
/*
 * Lock files. A lock of flock(2) belongs to the open file, not to the process,
 * so closing another descriptor of the file does not release the lock. Because
 * of O_CLOEXEC, child programs do not keep the file open. The owner's lock is
 * exclusive. A process that tests whether the owner has died tries a shared
 * lock, so that two processes that test at once do not take each other for the
 * owner.
 */
#include "worker/run/lock_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define OBJECT "lock file"

#define FOLDER_MODE 0700
#define FILE_MODE 0600

#define NAME_LEN 32
#define RANDOM_LEN 32
#define BOOT_ID_LEN 36
/* Name prefix of a file until it is locked. No owner's file has this prefix. */
#define NEW_PREFIX "new-"
/* Maximum number of tries to create a file, because other processes may delete
 * the folder or the new file between two steps. */
#define OPEN_TRIES 5

/* Maximum number of lock files in the folder that a scan reads. */
#define ENTRIES_MAX 4096
/* Maximum number of dead processes that are remembered. The files of
 * other dead processes are deleted. */
#define DEAD_MAX 64

/* NOTE_BYTES: length of one run's note, including the newline at its end. All
 * notes have this length, so each note has a fixed offset. NOTES_MAX: maximum
 * number of notes. */
#define NOTE_BYTES 512
#define NOTES_MAX 1024
#define FOREVER INT64_MAX

/* Room for BOOT/DEVICE/INODE/NAME with its NUL, in bytes. */
#define IDENTITY_MAX (LOCK_FILE_OWNER_MAX - RANDOM_LEN - 1)

struct dead {
    char name[NAME_LEN + 1];
    char identity[IDENTITY_MAX];
    int64_t since_ms;
};

struct note {
    char text[NOTE_BYTES]; /* JOB/ID, spaces, a newline; empty: never used */
    int64_t until_ms;      /* end of validity; FOREVER: this process may own the
                              run */
};

struct lock_file {
    char *folder;
    int file;
    char name[NAME_LEN + 1];
    char identity[IDENTITY_MAX];
    int64_t keep_ms;

    struct platform_mutex lock; /* guards all fields below */
    struct dead dead[DEAD_MAX];
    size_t dead_count;
    struct note *notes;
    size_t note_count;
};

/* ---- files ---- */

/* Is file on a file system whose locks are kept by this kernel alone, for as
 * long as the kernel runs? */
static bool has_lasting_locks(int file)
{
    static const unsigned long TYPES[] = {
        0xEF53,     /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683E, /* btrfs */
        0xF2F52010, /* f2fs */
        0x2FC12FC1, /* zfs */
        0xCA451A4E, /* bcachefs */
        0x3153464A, /* jfs */
        0x52654973, /* reiserfs */
        0x01021994, /* tmpfs */
        0x858458F6, /* ramfs */
        0x794C7630, /* overlayfs */
    };
    struct statfs about;

    if (fstatfs(file, &about) != 0)
        return false;
    for (size_t i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); i++)
        if ((unsigned long)about.f_type == TYPES[i])
            return true;
    return false;
}

static bool is_name(struct slice name)
{
    if (name.len != NAME_LEN)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!((name.at[i] >= '0' && name.at[i] <= '9') ||
                (name.at[i] >= 'a' && name.at[i] <= 'f')))
            return false;
    return true;
}

/* Write the identity of file to `to`. False: not a regular file. */
static bool identify(int file, const char *name, char *to)
{
    struct stat about;

    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        return false;
    (void)snprintf(to, IDENTITY_MAX, "%s/%ju/%ju/%s", platform_boot_id(),
        (uintmax_t)about.st_dev, (uintmax_t)about.st_ino, name);
    return true;
}

static int open_folder(const char *folder)
{
    return open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- a new file ---- */

/* Create a file in an open folder, lock it, then name it. Returns its
 * descriptor, or -1; errno then has the reason. */
static int make_file(int folder, const char *name)
{
    char before[sizeof(NEW_PREFIX) + NAME_LEN];
    int file;

    (void)snprintf(before, sizeof(before), NEW_PREFIX "%s", name);
    file = openat(folder, before,
        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (file < 0)
        return -1;
    if (has_lasting_locks(file) && flock(file, LOCK_EX | LOCK_NB) == 0 &&
        renameat(folder, before, folder, name) == 0)
        return file;
    if (!has_lasting_locks(file))
        errno = ENOLCK;
    (void)unlinkat(folder, before, 0);
    (void)close(file);
    return -1;
}

/* Create the folder if it is missing, then the file. */
static int make_both(const char *folder, const char *name)
{
    int at, file;

    if (mkdir(folder, FOLDER_MODE) != 0 && errno != EEXIST)
        return -1;
    at = open_folder(folder);
    if (at < 0)
        return -1;
    file = make_file(at, name);
    (void)close(at);
    return file;
}

/* Another process may delete the empty folder when it ends. Or
 * lock_file_find_dead() of another process may delete the new file before this
 * process has locked it. So up to OPEN_TRIES tries are made. */
static int make(const char *folder, const char *name)
{
    int file = -1;

    for (int i = 0; i < OPEN_TRIES && file < 0; i++) {
        file = make_both(folder, name);
        if (file < 0 && errno != ENOENT && errno != EWOULDBLOCK)
            break;
    }
    return file;
}

static void remove_file(const char *in, const char *name)
{
    int folder = open_folder(in);

    if (folder < 0)
        return;
    (void)unlinkat(folder, name, 0);
    (void)close(folder);
}

struct lock_file *lock_file_open(const char *folder, int64_t keep_ms)
{
    struct lock_file *lock_file;
    char name[NAME_LEN + 1], identity[IDENTITY_MAX];
    int file;

    if (folder == NULL)
        return NULL;
    if (strlen(platform_boot_id()) != BOOT_ID_LEN) {
        log_debug(OBJECT, "not used: the boot id of this machine is unknown");
        return NULL;
    }
    text_random_id(name);
    file = make(folder, name);
    if (file < 0 || !identify(file, name, identity)) {
        log_debug(OBJECT, "cannot be used in %s: %s", folder,
            errno == ENOLCK ? "the file system may lose locks, or shares them "
                              "with other hosts"
                            : strerror(errno));
        if (file >= 0) {
            remove_file(folder, name);
            (void)close(file);
        }
        return NULL;
    }
    lock_file = mem_alloc(sizeof(*lock_file));
    lock_file->folder = mem_text(folder, strlen(folder));
    lock_file->file = file;
    lock_file->keep_ms = keep_ms;
    memcpy(lock_file->name, name, sizeof(name));
    memcpy(lock_file->identity, identity, sizeof(identity));
    platform_mutex_init(&lock_file->lock);
    return lock_file;
}

/* ---- dead processes ---- (lock held) */

static struct dead *find_dead(struct lock_file *lock_file, struct slice name)
{
    for (size_t i = 0; i < lock_file->dead_count; i++)
        if (slice_is(name, lock_file->dead[i].name))
            return &lock_file->dead[i];
    return NULL;
}

/* Forget a dead process and delete its file. No other process needs the file,
 * because names are not reused. */
static void bury(struct lock_file *lock_file, size_t index)
{
    remove_file(lock_file->folder, lock_file->dead[index].name);
    lock_file->dead_count--;
    memmove(&lock_file->dead[index], &lock_file->dead[index + 1],
        (lock_file->dead_count - index) * sizeof(struct dead));
}

static void remember(
    struct lock_file *lock_file, const char *name, const char *identity)
{
    struct dead *dead;

    if (lock_file->dead_count == DEAD_MAX)
        bury(lock_file, 0);
    dead = &lock_file->dead[lock_file->dead_count++];
    memcpy(dead->name, name, sizeof(dead->name));
    memcpy(dead->identity, identity, sizeof(dead->identity));
    dead->since_ms = platform_boot_ms();
}

static void bury_old(struct lock_file *lock_file)
{
    int64_t now_ms = platform_boot_ms();

    while (lock_file->dead_count > 0 &&
           now_ms - lock_file->dead[0].since_ms >= lock_file->keep_ms)
        bury(lock_file, 0);
}

/* Open the file and try its lock. Returns the file's descriptor if the lock was
 * free, which means that the owner is dead; else -1. */
static int try_file(int folder, const char *name, char *identity)
{
    /* O_NONBLOCK: an open of a FIFO of that name must not wait. */
    int file =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (file < 0)
        return -1;
    if (identify(file, name, identity) && flock(file, LOCK_SH | LOCK_NB) == 0)
        return file;
    (void)close(file);
    return -1;
}

/* Returns BOOT/DEVICE/INODE/NAME of an Owner; empty: the Owner names no file.
 */
static struct slice identity_of(struct slice owner)
{
    if (owner.len <= RANDOM_LEN + 1 || owner.len >= LOCK_FILE_OWNER_MAX ||
        owner.at[RANDOM_LEN] != '@')
        return (struct slice){0};
    return (struct slice){
        owner.at + RANDOM_LEN + 1, owner.len - RANDOM_LEN - 1};
}

static struct slice name_of(struct slice identity)
{
    struct slice name = {0};

    if (identity.len > NAME_LEN)
        name = (struct slice){identity.at + identity.len - NAME_LEN, NAME_LEN};
    return is_name(name) ? name : (struct slice){0};
}

/* Call with the lock held. Has the process of this Owner died? Tries the lock
 * of the file that the Owner names. */
static bool try_owner(
    struct lock_file *lock_file, struct slice identity, struct slice named)
{
    char name[NAME_LEN + 1], found[IDENTITY_MAX];
    int folder, file;

    (void)snprintf(name, sizeof(name), "%.*s", SLICE_ARG(named));
    folder = open_folder(lock_file->folder);
    if (folder < 0)
        return false;
    file = try_file(folder, name, found);
    (void)close(folder);
    if (file < 0)
        return false;
    (void)close(file);
    return slice_is(identity, found);
}

bool lock_file_is_dead(struct lock_file *lock_file, struct slice owner)
{
    struct slice identity = identity_of(owner), name = name_of(identity);
    const struct dead *known;
    bool is_dead;

    if (lock_file == NULL || name.len == 0)
        return false;
    platform_lock(&lock_file->lock);
    known = find_dead(lock_file, name);
    is_dead = known ? slice_is(identity, known->identity)
                    : try_owner(lock_file, identity, name);
    platform_unlock(&lock_file->lock);
    return is_dead;
}

const char *lock_file_owner(const struct lock_file *lock_file, char *to)
{
    char random[RANDOM_LEN + 1];

    text_random_id(random);
    (void)snprintf(to, LOCK_FILE_OWNER_MAX, "%s%s%s", random,
        lock_file ? "@" : "", lock_file ? lock_file->identity : "");
    return to;
}

/* ---- notes ---- */

static void write_no_note(char *to)
{
    memset(to, ' ', NOTE_BYTES);
    to[NOTE_BYTES - 1] = '\n';
}

/* Writes the note of a run. False: job and id are too long. */
static bool write_note(struct slice job, struct slice id, char *to)
{
    write_no_note(to);
    if (job.len + 1 + id.len > NOTE_BYTES - 1)
        return false;
    memcpy(to, job.at, job.len);
    to[job.len] = '/';
    memcpy(to + job.len + 1, id.at, id.len);
    return true;
}

/* Call with the lock held. Writes the note to the file. No fsync is needed,
 * because the page cache outlives the process. If a note cannot be written,
 * other workers wait until the lease expires. */
static void store_note(const struct lock_file *lock_file, size_t place)
{
    const struct note *note = &lock_file->notes[place];

    if (pwrite(lock_file->file, note->text, NOTE_BYTES,
            (off_t)(place * NOTE_BYTES)) != NOTE_BYTES)
        log_debug(OBJECT, "%s/%s: the note of a run cannot be written: %s",
            lock_file->folder, lock_file->name, strerror(errno));
}

/* Call with the lock held. Returns the index at which to write a run's note:
 * that of an earlier note of the same run, unless this note's until_ms is
 * FOREVER; else that of an expired note; else a new index. */
static size_t find_place(struct lock_file *lock_file, const char *text)
{
    int64_t now_ms = platform_boot_ms();
    size_t free = lock_file->note_count;

    for (size_t i = 0; i < lock_file->note_count; i++) {
        const struct note *note = &lock_file->notes[i];

        if (note->until_ms != FOREVER &&
            memcmp(note->text, text, NOTE_BYTES) == 0)
            return i;
        if (note->until_ms <= now_ms && free == lock_file->note_count)
            free = i;
    }
    return free;
}

static size_t add_note(struct lock_file *lock_file, const char *text)
{
    size_t place = find_place(lock_file, text);

    if (place == NOTES_MAX)
        return LOCK_FILE_NOWHERE;
    if (place == lock_file->note_count)
        lock_file->notes = mem_resize(
            lock_file->notes, ++lock_file->note_count * sizeof(struct note));
    memcpy(lock_file->notes[place].text, text, NOTE_BYTES);
    lock_file->notes[place].until_ms = FOREVER;
    store_note(lock_file, place);
    return place;
}

size_t lock_file_note(
    struct lock_file *lock_file, struct slice job, struct slice id)
{
    char text[NOTE_BYTES];
    size_t place;

    if (lock_file == NULL || !write_note(job, id, text))
        return LOCK_FILE_NOWHERE;
    platform_lock(&lock_file->lock);
    place = add_note(lock_file, text);
    platform_unlock(&lock_file->lock);
    return place;
}

void lock_file_forget(
    struct lock_file *lock_file, size_t place, int64_t until_ms)
{
    struct note *note;

    if (lock_file == NULL || place == LOCK_FILE_NOWHERE)
        return;
    platform_lock(&lock_file->lock);
    assert(place < lock_file->note_count);
    note = &lock_file->notes[place];
    note->until_ms = until_ms;
    if (until_ms == 0) {
        write_no_note(note->text);
        store_note(lock_file, place);
    }
    platform_unlock(&lock_file->lock);
}

/* ---- scanning the other files ---- */

struct finder {
    void (*found)(void *context, struct slice job, struct slice id);
    void *context;
};

static void read_note(const struct finder *finder, const char *text)
{
    struct slice job = {text, 0}, id;
    size_t len = 0;

    while (len < NOTE_BYTES - 1 && text[len] != ' ' && text[len] != '\0')
        len++;
    while (job.len < len && text[job.len] != '/')
        job.len++;
    if (job.len == 0 || job.len + 1 >= len)
        return;
    id = (struct slice){text + job.len + 1, len - job.len - 1};
    if (text_is_run_id(id))
        finder->found(finder->context, job, id);
}

static void read_notes(const struct finder *finder, int file)
{
    char text[NOTE_BYTES];

    for (off_t i = 0; i < NOTES_MAX; i++) {
        if (pread(file, text, NOTE_BYTES, i * NOTE_BYTES) != NOTE_BYTES)
            return;
        read_note(finder, text);
    }
}

/* Call with the lock held. Checks whether the process of one file has died. */
static void check_file(struct lock_file *lock_file, const struct finder *finder,
    int folder, const char *name)
{
    char identity[IDENTITY_MAX];
    int file;

    if (strcmp(name, lock_file->name) == 0 ||
        find_dead(lock_file, slice_of(name)))
        return;
    file = try_file(folder, name, identity);
    if (file < 0)
        return;
    if (is_name(slice_of(name))) {
        remember(lock_file, name, identity);
        read_notes(finder, file);
    } else {
        /* Either the process died before it locked the file, or the process is
         * alive: then it will find that the file is deleted, and create
         * another. */
        (void)unlinkat(folder, name, 0);
    }
    (void)close(file);
}

static bool is_ours(const char *name)
{
    size_t prefix = strlen(NEW_PREFIX);

    return is_name(slice_of(name)) || (strncmp(name, NEW_PREFIX, prefix) == 0 &&
                                          is_name(slice_of(name + prefix)));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **list;
    size_t count;
};

/* Sorts the names, so that the order of calls depends only on what the folder
 * contains. */
static void list_names(int folder, struct names *ret)
{
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *open = again < 0 ? NULL : fdopendir(again);
    const struct dirent *entry;

    *ret = (struct names){NULL, 0};
    if (open == NULL) {
        if (again >= 0)
            (void)close(again);
        return;
    }
    while (ret->count < ENTRIES_MAX && (entry = readdir(open)) != NULL) {
        if (!is_ours(entry->d_name))
            continue;
        ret->list =
            mem_resize(ret->list, (ret->count + 1) * sizeof(*ret->list));
        ret->list[ret->count++] =
            mem_text(entry->d_name, strlen(entry->d_name));
    }
    (void)closedir(open);
    if (ret->count > 0)
        qsort(ret->list, ret->count, sizeof(*ret->list), by_name);
}

/* Call with the lock held. Checks all files of the folder. */
static void check_files(
    struct lock_file *lock_file, const struct finder *finder, int folder)
{
    struct names names;

    list_names(folder, &names);
    for (size_t i = 0; i < names.count; i++) {
        check_file(lock_file, finder, folder, names.list[i]);
        mem_free(names.list[i]);
    }
    mem_free(names.list);
}

void lock_file_find_dead(struct lock_file *lock_file,
    void (*found)(void *context, struct slice job, struct slice id),
    void *context)
{
    const struct finder finder = {found, context};
    int folder;

    if (lock_file == NULL)
        return;
    folder = open_folder(lock_file->folder);
    if (folder < 0)
        return;
    platform_lock(&lock_file->lock);
    check_files(lock_file, &finder, folder);
    bury_old(lock_file);
    platform_unlock(&lock_file->lock);
    (void)close(folder);
}

/* ---- the end ---- */

static bool notes_runs(const struct lock_file *lock_file)
{
    int64_t now_ms = platform_boot_ms();

    for (size_t i = 0; i < lock_file->note_count; i++)
        if (lock_file->notes[i].until_ms > now_ms)
            return true;
    return false;
}

void lock_file_close(struct lock_file *lock_file)
{
    if (lock_file == NULL)
        return;
    if (!notes_runs(lock_file)) {
        remove_file(lock_file->folder, lock_file->name);
        (void)rmdir(lock_file->folder); /* fails unless empty */
    }
    (void)close(lock_file->file);
    platform_mutex_done(&lock_file->lock);
    mem_free(lock_file->notes);
    mem_free(lock_file->folder);
    mem_free(lock_file);
}
