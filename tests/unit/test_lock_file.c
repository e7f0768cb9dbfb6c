/* SPDX-License-Identifier: MIT */
/*
 * Lock files: which processes count as dead, which never do, and what happens
 * to the files of dead processes. Each lock belongs to its open file, so
 * several lock files of this process act like lock files of several processes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/lock_file.h"

#define FOLDER "locks"
#define KEEP_MS 60000
#define NAME_ROOM 256

/* File system type that fstatfs() reports; 0: the true type. */
static unsigned file_system_type;

int fstatfs(int file, struct statfs *ret)
{
    long result = syscall(SYS_fstatfs, file, ret);

    if (file_system_type != 0)
        ret->f_type = file_system_type;
    return (int)result;
}

/* Returns how many files of FOLDER have names of this length (0: of any
 * length); -1: there is no folder. name: gets one of these names; may be NULL.
 */
static int count_files_of(size_t length, char *name)
{
    DIR *open = opendir(FOLDER);
    const struct dirent *entry;
    int count = 0;

    if (open == NULL)
        return -1;
    while ((entry = readdir(open)) != NULL) {
        if (entry->d_name[0] == '.' ||
            (length > 0 && strlen(entry->d_name) != length))
            continue;
        if (name)
            (void)snprintf(name, NAME_ROOM, "%s", entry->d_name);
        count++;
    }
    (void)closedir(open);
    return count;
}

static int count_files(char *name)
{
    return count_files_of(0, name);
}

/* Number of lock files with their final names when the last exclusive lock was
 * taken. */
static int named_when_locked;

int flock(int file, int operation)
{
    if (operation & LOCK_EX)
        named_when_locked = count_files_of(32, NULL);
    return (int)syscall(SYS_flock, file, operation);
}

/* Returns the path in FOLDER of the lock file that the Owner names. */
static const char *path_of(const char *owner)
{
    static char path[128];

    (void)snprintf(path, sizeof(path), FOLDER "/%s", strrchr(owner, '/') + 1);
    return path;
}

static bool is_dead(struct lock_file *lock_file, const char *owner)
{
    return lock_file_is_dead(lock_file, slice_of(owner));
}

/* A child process that has a lock file. */
struct child {
    pid_t id;
    char owner[LOCK_FILE_OWNER_MAX];
};

static void live(int to, bool starts_another)
{
    struct lock_file *lock_file = lock_file_open(FOLDER, KEEP_MS);
    char owner[LOCK_FILE_OWNER_MAX] = "";

    (void)lock_file_note(lock_file, slice_of("job"), slice_of("run-1"));
    (void)lock_file_owner(lock_file, owner);
    if (starts_another && fork() == 0) {
        (void)execl("/bin/sleep", "sleep", "30", (char *)NULL);
        _exit(1);
    }
    if (write(to, owner, sizeof(owner)) != sizeof(owner))
        _exit(1);
    for (;;)
        (void)pause();
}

static struct child start_child(bool starts_another)
{
    struct child child;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    child.id = fork();
    assert_true(child.id >= 0);
    if (child.id == 0) {
        (void)setpgid(0, 0);
        live(ends[1], starts_another);
    }
    assert_int_equal(
        read(ends[0], child.owner, sizeof(child.owner)), sizeof(child.owner));
    (void)close(ends[0]);
    (void)close(ends[1]);
    return child;
}

static void kill_child(const struct child *child)
{
    assert_int_equal(kill(child->id, SIGKILL), 0);
    assert_int_equal(waitpid(child->id, NULL, 0), child->id);
}

/* Results of lock_file_find_dead(): number of runs that it found, and the last
 * of these runs. */
static unsigned found_count;
static char last_found[128];

static void note_found(void *context, struct slice job, struct slice id)
{
    found_count++;
    (void)snprintf(last_found, sizeof(last_found), "%.*s/%.*s", SLICE_ARG(job),
        SLICE_ARG(id));
}

static unsigned look(struct lock_file *lock_file)
{
    found_count = 0;
    last_found[0] = '\0';
    lock_file_find_dead(lock_file, note_found, NULL);
    return found_count;
}

/* Leaves the lock file of a process that died during run job/r. Returns the
 * Owner of the process, valid until the next call. */
static char *leave_dead(void)
{
    static char owner[LOCK_FILE_OWNER_MAX];
    struct lock_file *dead = lock_file_open(FOLDER, KEEP_MS);

    (void)lock_file_note(dead, slice_of("job"), slice_of("r"));
    (void)lock_file_owner(dead, owner);
    lock_file_close(dead);
    return owner;
}

static int make_file(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

    assert_true(file >= 0);
    return file;
}

/* Deletes the folder and its files, so that the next test begins without a
 * folder. */
static void clear_folder(void)
{
    DIR *open = opendir(FOLDER);
    const struct dirent *entry;
    char path[300];

    while (open && (entry = readdir(open)) != NULL) {
        (void)snprintf(path, sizeof(path), FOLDER "/%s", entry->d_name);
        (void)unlink(path);
    }
    if (open)
        (void)closedir(open);
    (void)rmdir(FOLDER);
}

static int set_up(void **state)
{
    *state = lock_file_open(FOLDER, KEEP_MS);
    return *state == NULL;
}

static int tear_down(void **state)
{
    lock_file_close(*state);
    clear_folder();
    return 0;
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, tear_down, struct lock_file *files)

/* ---- which processes are dead ---- */

FIXTURE_TEST(a_suspended_process_is_not_dead)
{
    struct child child = start_child(false);

    assert_int_equal(kill(child.id, SIGSTOP), 0);
    assert_int_equal(waitpid(child.id, NULL, WUNTRACED), child.id);
    assert_false(is_dead(files, child.owner));
    kill_child(&child);
    assert_true(is_dead(files, child.owner));
}

/* A program that the dead process has started does not have the process's lock.
 */
FIXTURE_TEST(a_dead_process_s_children_do_not_keep_its_lock)
{
    struct child child = start_child(true);

    for (int i = 0; i < 200 && !is_dead(files, child.owner); i++) {
        if (i == 0)
            kill_child(&child);
        (void)usleep(10000); /* the program may not have started yet */
    }
    assert_true(is_dead(files, child.owner));
    (void)kill(-child.id, SIGKILL);
}

/* The lock shows that a process lives, also while the process has no runs. */
FIXTURE_TEST(a_process_without_runs_keeps_its_lock)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    size_t place = lock_file_note(other, slice_of("job"), slice_of("r"));
    char owner[LOCK_FILE_OWNER_MAX];

    lock_file_forget(other, place, 0);
    assert_false(is_dead(files, lock_file_owner(other, owner)));
    assert_false(is_dead(files, lock_file_owner(files, owner)));
    lock_file_close(other);
}

/* Another process that searches at the same time has a lock on the file for a
 * moment. It must not be taken for the owner. */
FIXTURE_TEST(two_that_search_at_once_both_find_the_dead)
{
    struct child child = start_child(false);
    int file;

    kill_child(&child);
    file = open(path_of(child.owner), O_RDONLY);
    assert_int_equal(flock(file, LOCK_SH | LOCK_NB), 0);
    assert_true(is_dead(files, child.owner));
    (void)close(file);
}

/* Nothing is known of an owner whose file is gone. */
FIXTURE_TEST(without_its_file_nobody_is_dead)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    char owner[LOCK_FILE_OWNER_MAX];

    (void)lock_file_owner(other, owner);
    lock_file_close(other);
    assert_int_equal(access(path_of(owner), F_OK), -1);
    assert_false(is_dead(files, owner));
}

/* Another file has the name of the owner's file, as in a copy of the folder.
 * Nobody has the lock of that file. */
FIXTURE_TEST(another_file_of_that_name_says_nothing)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    char owner[LOCK_FILE_OWNER_MAX];

    (void)lock_file_owner(other, owner);
    assert_int_equal(unlink(path_of(owner)), 0);
    (void)close(make_file(path_of(owner)));
    assert_false(is_dead(files, owner));
    assert_int_equal(look(files), 0);
    /* Only the Owner of the new file is dead now. */
    assert_false(is_dead(files, owner));
    lock_file_close(other);
}

/* The Owner has the inode number of a dead process's file, but another name, as
 * if the inode number had been used again. */
FIXTURE_TEST(the_name_counts_too)
{
    char *owner = leave_dead();
    char *last = &owner[strlen(owner) - 1];

    *last = *last == '0' ? '1' : '0';
    assert_false(is_dead(files, owner));
}

FIXTURE_TEST(a_symbolic_link_is_not_followed)
{
    const char *owner = leave_dead(), *path = path_of(owner);

    assert_int_equal(rename(path, "elsewhere"), 0);
    assert_int_equal(symlink("../elsewhere", path), 0);
    assert_false(is_dead(files, owner));
    assert_int_equal(unlink("elsewhere"), 0);
}

/* Opening the FIFO must not block. */
FIXTURE_TEST(a_fifo_is_no_lock_file)
{
    assert_int_equal(
        mkfifo(FOLDER "/00000000000000000000000000000000", 0600), 0);
    assert_int_equal(look(files), 0);
}

FIXTURE_TEST(an_owner_of_any_text_is_not_dead)
{
    static const char *const OWNERS[] = {"", "somebody", "@",
        "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef@",
        "0123456789abcdef0123456789abcdef@/",
        "0123456789abcdef0123456789abcdef@b/1/2/",
        "0123456789abcdef0123456789abcdef@b/1/2/../../../../../etc/passwd",
        "0123456789abcdef0123456789abcdef@b/1/2/"
        "0123456789ABCDEF0123456789ABCDEF",
        "0123456789abcdef0123456789abcdef@b/1/2/"
        "0123456789abcdef0123456789abcdef"};
    char longest[5000];

    for (size_t i = 0; TEST_EACH(i, OWNERS); i++)
        assert_false(is_dead(files, OWNERS[i]));
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    longest[32] = '@';
    assert_false(is_dead(files, longest));
    assert_false(lock_file_is_dead(files, (struct slice){0}));
    assert_false(lock_file_is_dead(NULL, slice_of(longest)));
}

/* ---- other boots ---- */

/* The file has the same device, inode and name as in the Owner, and its lock is
 * free. But this only shows that no process on this machine has the lock. */
TEST(an_owner_of_another_boot_is_not_dead)
{
    struct lock_file *here;
    const char *owner;
    char after[LOCK_FILE_OWNER_MAX];

    virtual_platform_use(&(struct virtual_options){.seed = 1, .boot_ms = 5000});
    owner = leave_dead();
    virtual_set_boot_id(0, "00000000-0000-4000-8000-00000000000a");
    here = lock_file_open(FOLDER, KEEP_MS);
    assert_false(is_dead(here, owner));
    /* The run of the dead process is found, as if the process had died on this
     * machine. */
    assert_int_equal(look(here), 1);
    assert_false(is_dead(here, owner));
    assert_non_null(strstr(lock_file_owner(here, after), "00000000000a/"));
    lock_file_close(here);
    clear_folder();
    virtual_platform_end();
}

TEST(without_a_boot_id_there_is_no_lock_file)
{
    char owner[LOCK_FILE_OWNER_MAX];

    virtual_platform_use(&(struct virtual_options){.seed = 1, .boot_ms = 5000});
    virtual_set_boot_id(0, "");
    assert_null(lock_file_open(FOLDER, KEEP_MS));
    assert_int_equal(strlen(lock_file_owner(NULL, owner)), 32);
    virtual_platform_end();
}

/* ---- where no lock file can be made ---- */

TEST(where_no_file_can_be_made_there_is_none)
{
    (void)close(make_file("a-file"));
    assert_null(lock_file_open(NULL, KEEP_MS));
    assert_null(lock_file_open("a-file/locks", KEEP_MS));
    assert_null(lock_file_open("missing/locks", KEEP_MS));
    assert_null(lock_file_open("/proc/locks-of-tableward", KEEP_MS));
    assert_int_equal(look(NULL), 0);
    assert_true(lock_file_note(NULL, slice_of("job"), slice_of("r")) ==
                LOCK_FILE_NOWHERE);
    lock_file_forget(NULL, 0, 0);
    lock_file_close(NULL);
}

TEST(a_folder_behind_a_symbolic_link_is_not_used)
{
    assert_int_equal(mkdir("real", 0700), 0);
    assert_int_equal(symlink("real", "link"), 0);
    assert_null(lock_file_open("link", KEEP_MS));
    assert_int_equal(rmdir("real"), 0); /* it is empty */
    assert_int_equal(unlink("link"), 0);
}

/* The server of a network file system, or a cluster, may give the lock to
 * another process while its owner lives. File systems of unknown types are not
 * used either. */
TEST(a_file_system_that_may_lose_locks_is_not_used)
{
    static const unsigned TYPES[] = {0x6969 /* NFS */, 0xFF534D42 /* CIFS */,
        0x65735546 /* FUSE */, 0x01021997 /* 9p */, 0x01161970 /* GFS2 */, 1};

    for (size_t i = 0; TEST_EACH(i, TYPES); i++) {
        file_system_type = TYPES[i];
        assert_null(lock_file_open(FOLDER, KEEP_MS));
        assert_int_equal(count_files(NULL), 0);
    }
    file_system_type = 0;
    clear_folder();
}

/* ---- files ---- */

FIXTURE_TEST(a_file_is_locked_before_it_has_its_name)
{
    static const char before[] = FOLDER "/new-00000000000000000000000000000001";
    int file;

    assert_int_equal(named_when_locked, 0);
    assert_int_equal(count_files_of(32, NULL), 1);
    /* This file is being made: it is not yet the lock file of an Owner. */
    file = make_file(before);
    assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(look(files), 0);
    assert_int_equal(access(before, F_OK), 0);
    (void)close(file); /* as when its process dies */
    assert_int_equal(look(files), 0);
    assert_int_equal(access(before, F_OK), -1);
}

FIXTURE_TEST(files_are_for_their_owner_alone)
{
    char name[NAME_ROOM], path[300];
    struct stat about;

    assert_int_equal(count_files(name), 1);
    (void)snprintf(path, sizeof(path), FOLDER "/%s", name);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(stat(FOLDER, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);
}

TEST(an_end_in_order_leaves_nothing)
{
    struct lock_file *first = lock_file_open(FOLDER, KEEP_MS);
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    size_t place = lock_file_note(other, slice_of("job"), slice_of("r"));

    lock_file_forget(other, place, 0);
    assert_int_equal(count_files(NULL), 2);
    lock_file_close(other);
    assert_int_equal(count_files(NULL), 1);
    lock_file_close(first);
    assert_int_equal(count_files(NULL), -1);
}

/* If a lease could not be released, the file stays. So others see that its
 * owner is dead, and need not wait for the end of the lease. A lease that is
 * over does not keep the file. */
FIXTURE_TEST(a_run_that_was_not_let_go_of_keeps_the_file)
{
    static const struct {
        int64_t left_ms;
        unsigned found;
    } leases[] = {{0, 0}, {10000, 1}};

    for (size_t i = 0; TEST_EACH(i, leases); i++) {
        struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
        size_t place = lock_file_note(other, slice_of("job"), slice_of("r"));
        char owner[LOCK_FILE_OWNER_MAX];

        lock_file_forget(other, place, platform_boot_ms() + leases[i].left_ms);
        (void)lock_file_owner(other, owner);
        lock_file_close(other);
        assert_int_equal(count_files(NULL), 1 + leases[i].found);
        assert_int_equal(is_dead(files, owner), leases[i].found);
        assert_int_equal(look(files), leases[i].found);
    }
    assert_string_equal(last_found, "job/r");
}

/* Files of dead processes are kept as long as a lease may last, and no longer.
 */
FIXTURE_TEST(files_of_the_dead_go_in_time)
{
    struct lock_file *impatient = lock_file_open(FOLDER, 0);
    struct child child = start_child(false);

    assert_int_equal(look(impatient), 0);
    assert_int_equal(count_files(NULL), 3);
    kill_child(&child);
    assert_int_equal(look(files), 1);
    assert_int_equal(look(files), 0); /* its run is found once */
    assert_int_equal(count_files(NULL), 3);
    assert_int_equal(look(impatient), 1);
    assert_int_equal(count_files(NULL), 2);
    lock_file_close(impatient);
    /* A process that found the owner dead remembers it after the owner's file
     * is gone. */
    assert_true(is_dead(files, child.owner));
}

/* A process that is killed again and again must not fill the folder with files.
 */
FIXTURE_TEST(no_more_than_64_files_of_the_dead_stay)
{
    for (int i = 0; i < 100; i++)
        (void)leave_dead();
    assert_int_equal(count_files(NULL), 101);
    assert_int_equal(look(files), 100);
    assert_int_equal(count_files(NULL), 65);
}

FIXTURE_TEST(what_is_not_ours_is_left_alone)
{
    static const char *const NAMES[] = {FOLDER "/README", FOLDER "/new-",
        FOLDER "/new-0000000000000000000000000000000",
        FOLDER "/0000000000000000000000000000000",
        FOLDER "/000000000000000000000000000000000",
        FOLDER "/0000000000000000000000000000000G"};
    struct lock_file *impatient = lock_file_open(FOLDER, 0);

    for (size_t i = 0; TEST_EACH(i, NAMES); i++)
        (void)close(make_file(NAMES[i]));
    assert_int_equal(look(impatient), 0);
    for (size_t i = 0; TEST_EACH(i, NAMES); i++)
        assert_int_equal(access(NAMES[i], F_OK), 0);
    lock_file_close(impatient);
}

/* ---- runs ---- */

FIXTURE_TEST(forgotten_runs_are_not_found)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    size_t first = lock_file_note(other, slice_of("job"), slice_of("a"));

    (void)lock_file_note(other, slice_of("job"), slice_of("b"));
    lock_file_forget(other, first, 0);
    lock_file_close(other);
    assert_int_equal(look(files), 1);
    assert_string_equal(last_found, "job/b");
}

/* A place in the file is used again for the same run. It is used again for
 * another run if the lease of the former run is over. So the file does not grow
 * for ever. */
FIXTURE_TEST(places_are_used_again)
{
    struct slice job = slice_of("job");
    size_t first = lock_file_note(files, job, slice_of("a"));

    lock_file_forget(files, first, 0);
    assert_int_equal(lock_file_note(files, job, slice_of("b")), first);
    assert_int_not_equal(lock_file_note(files, job, slice_of("b")), first);
    lock_file_forget(files, first, platform_boot_ms() + 100000);
    assert_int_not_equal(lock_file_note(files, job, slice_of("c")), first);
    assert_int_equal(lock_file_note(files, job, slice_of("b")), first);
    lock_file_forget(files, first, platform_boot_ms() - 1);
    assert_int_equal(lock_file_note(files, job, slice_of("d")), first);
    for (size_t i = 0; i < 3; i++)
        lock_file_forget(files, i, 0);
}

/* A run is not noted if there are too many notes or if its note is too long.
 * Such runs are found in other ways. */
FIXTURE_TEST(notes_have_a_limit)
{
    char text[600];
    struct slice job = {text, 500};
    size_t place = 0;

    memset(text, 'j', sizeof(text));
    assert_true(lock_file_note(files, job, slice_of("0123456789")) !=
                LOCK_FILE_NOWHERE);
    assert_true(lock_file_note(files, job, slice_of("0123456789a")) ==
                LOCK_FILE_NOWHERE);
    for (int i = 0; i < 1024 && place != LOCK_FILE_NOWHERE; i++) {
        (void)snprintf(text, sizeof(text), "r%d", i);
        place = lock_file_note(files, slice_of("job"), slice_of(text));
    }
    assert_true(place == LOCK_FILE_NOWHERE);
    for (size_t i = 0; i < 1024; i++)
        lock_file_forget(files, i, 0);
}

/* The file of a dead process may contain anything. */
FIXTURE_TEST(notes_that_make_no_sense_are_passed_over)
{
    int file = open(path_of(leave_dead()), O_RDWR | O_TRUNC);
    char text[512 * 6 + 7];

    memset(text, ' ', sizeof(text));
    memset(text, '\xff', 512);
    memcpy(text + 512, "/r ", 3);
    memcpy(text + 1024, "job/ ", 5);
    memcpy(text + 1536, "job/../x ", 9);
    memset(text + 2048, 0, 512);
    memcpy(text + 2560, "job/fine", 8);
    memcpy(text + 3072, "job/cut", 7);
    assert_int_equal(write(file, text, sizeof(text)), sizeof(text));
    (void)close(file);
    assert_int_equal(look(files), 1);
    assert_string_equal(last_found, "job/fine");
}
