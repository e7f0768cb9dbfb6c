/* SPDX-License-Identifier: MIT */
/*
 * Lock files: who counts as dead and who never does, and what the dead leave.
 * Several lock files of one process are as those of several: each lock is its
 * open file's.
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

/* What the file system says it is; 0: what it is. */
static unsigned file_system_type;

int fstatfs(int file, struct statfs *ret)
{
    long result = syscall(SYS_fstatfs, file, ret);

    if (file_system_type != 0)
        ret->f_type = file_system_type;
    return (int)result;
}

/* How many files there are with names of a length (0: any), and the name of
 * one. -1: no folder. */
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

/* How many files had an owner's name when the last owner's lock was taken. */
static int named_when_locked;

int flock(int file, int operation)
{
    if (operation & LOCK_EX)
        named_when_locked = count_files_of(32, NULL);
    return (int)syscall(SYS_flock, file, operation);
}

/* A file of the folder under the name in an Owner. */
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

/* What a process of its own is about to do. */
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

/* Of what lock_file_find_dead() finds. */
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

/* The Owner of one that has died during run job/r. Until the next call. */
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

/* What a test left goes with its directory; the folder must not stay. */
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

/* ---- who is dead ---- */

FIXTURE_TEST(a_killed_process_is_dead)
{
    struct child child = start_child(false);

    assert_false(is_dead(files, child.owner));
    kill_child(&child);
    assert_true(is_dead(files, child.owner));
    assert_true(is_dead(files, child.owner));
}

FIXTURE_TEST(a_suspended_process_is_not_dead)
{
    struct child child = start_child(false);

    assert_int_equal(kill(child.id, SIGSTOP), 0);
    assert_int_equal(waitpid(child.id, NULL, WUNTRACED), child.id);
    assert_false(is_dead(files, child.owner));
    kill_child(&child);
    assert_true(is_dead(files, child.owner));
}

/* A program that it has started does not have its lock. */
FIXTURE_TEST(a_dead_process_s_children_do_not_keep_its_lock)
{
    struct child child = start_child(true);

    for (int i = 0; i < 200 && !is_dead(files, child.owner); i++) {
        if (i == 0)
            kill_child(&child);
        (void)usleep(10000); /* the other is still to be started */
    }
    assert_true(is_dead(files, child.owner));
    (void)kill(-child.id, SIGKILL);
}

FIXTURE_TEST(a_live_process_is_not_dead)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    char owner[LOCK_FILE_OWNER_MAX];

    assert_false(is_dead(files, lock_file_owner(other, owner)));
    assert_false(is_dead(files, lock_file_owner(files, owner)));
    lock_file_close(other);
}

/* Others need not know how many runs it has. */
FIXTURE_TEST(a_process_without_runs_keeps_its_lock)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    size_t place = lock_file_note(other, slice_of("job"), slice_of("r"));
    char owner[LOCK_FILE_OWNER_MAX];

    lock_file_forget(other, place, 0);
    assert_false(is_dead(files, lock_file_owner(other, owner)));
    lock_file_close(other);
}

/* Who tries the lock just now is not its owner. */
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

/* Its file is gone: who found it dead before still knows. */
FIXTURE_TEST(the_dead_stay_dead)
{
    const char *owner = leave_dead();

    assert_true(is_dead(files, owner));
    assert_int_equal(look(files), 1);
    assert_int_equal(unlink(path_of(owner)), 0);
    assert_true(is_dead(files, owner));
}

/* Nothing is known of whose file is gone. */
FIXTURE_TEST(without_its_file_nobody_is_dead)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    char owner[LOCK_FILE_OWNER_MAX];

    (void)lock_file_owner(other, owner);
    lock_file_close(other);
    assert_int_equal(access(path_of(owner), F_OK), -1);
    assert_false(is_dead(files, owner));
}

/* A copy of the folder: the name is the same, its lock is free. */
FIXTURE_TEST(another_file_of_that_name_says_nothing)
{
    struct lock_file *other = lock_file_open(FOLDER, KEEP_MS);
    char owner[LOCK_FILE_OWNER_MAX];

    (void)lock_file_owner(other, owner);
    assert_int_equal(unlink(path_of(owner)), 0);
    (void)close(make_file(path_of(owner)));
    assert_false(is_dead(files, owner));
    assert_int_equal(look(files), 0);
    assert_false(is_dead(files, owner)); /* that file's owner is */
    lock_file_close(other);
}

/* The same file under another name, as a number that is used again has. */
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

/* Nor is anything waited for. */
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

/* ---- other machines ---- */

/* The same device, inode and name, and nobody has the lock; but that says only
 * that nobody on this machine has it. */
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
    /* It is found, as one who died on this machine would be. */
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

/* ---- where there can be none ---- */

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

/* A server, or a cluster, may give the lock to another while its owner lives;
 * nor is a type used that nobody knows. */
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
    /* As one that has just been made: not to be taken for an owner's. */
    file = make_file(before);
    assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(look(files), 0);
    assert_int_equal(access(before, F_OK), 0);
    (void)close(file); /* its process died just then */
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

/* A lease that could not be let go of is free for others all the same; one that
 * is over does not keep the file. */
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

/* Others need them for as long as a lease may last, and no longer. */
FIXTURE_TEST(files_of_the_dead_go_in_time)
{
    struct lock_file *impatient = lock_file_open(FOLDER, 0);
    struct child child = start_child(false);

    assert_int_equal(look(impatient), 0);
    assert_int_equal(count_files(NULL), 3);
    kill_child(&child);
    assert_int_equal(look(files), 1);
    assert_int_equal(count_files(NULL), 3);
    assert_int_equal(look(impatient), 1);
    assert_int_equal(count_files(NULL), 2);
    lock_file_close(impatient);
    assert_true(is_dead(files, child.owner));
}

/* A process that is killed again and again leaves no folder full of files. */
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

FIXTURE_TEST(the_runs_of_a_dead_process_are_found_once)
{
    struct child child = start_child(false);

    assert_int_equal(look(files), 0);
    kill_child(&child);
    assert_int_equal(look(files), 1);
    assert_string_equal(last_found, "job/run-1");
    assert_int_equal(look(files), 0);
}

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

/* The same run again, or one that is over: no file grows for ever. */
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

/* Too many at once, or too long: those are found by other ways. */
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

/* Whatever stands in a dead one's file. */
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
