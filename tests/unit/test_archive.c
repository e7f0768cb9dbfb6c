/* SPDX-License-Identifier: MIT */
/* The archive: complete lines on disk, in the format that `tableward import`
 * reads. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/engine/archive.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"

/* Each test has an archive in a folder of its own below `parent`. Neither
 * folder exists before the archive is opened. */
static struct {
    const char *parent, *folder, *job, *blogs;
    struct archive *archive; /* NULL: it is closed */
    struct err err;
} s;

static const struct archive_run RUN = {
    .job = "delete-channel", .id = "run-1", .epoch = 3, .requested_ticks = 7};

static const char *path_of(const char *folder, const char *name)
{
    return arena_format(&scratch, "%s/%s", folder, name).at;
}

static const char *path_of_run(const char *name)
{
    return path_of(s.job, arena_format(&scratch, "run-1/%s", name).at);
}

static int set_up(void **state)
{
    char own[FOLDER_BYTES];

    (void)scratch_set_up(state);
    test_folder(own);
    s.parent = path_of(own, "parent");
    s.folder = path_of(s.parent, "deep");
    s.job = path_of(s.folder, "delete-channel");
    s.blogs = path_of_run("3-Blogs.jsonl");
    s.archive = NULL;
    return 0;
}

static void open_archive(const struct archive_run *run)
{
    assert_ok(archive_open(s.folder, run, &s.archive, &s.err));
}

static void close_archive(void)
{
    archive_close(s.archive);
    s.archive = NULL;
}

static int tear_down(void **state)
{
    close_archive();
    return scratch_tear_down(state);
}

#define CLOSED_TEST(name) TEST_IN(name, set_up, tear_down)

static int set_up_open(void **state)
{
    (void)set_up(state);
    open_archive(&RUN);
    return 0;
}

#define OPEN_TEST(name) TEST_IN(name, set_up_open, tear_down)

static void add(const char *table, const char *row_key)
{
    struct entity entity;

    entity_init(&entity, &scratch, slice_of("Football"), slice_of(row_key));
    entity_set_int64(&entity, &scratch, "Views", 5);
    entity.etag = slice_of("W/\"1\"");
    assert_ok(archive_add(s.archive, table, &entity, &s.err));
}

static enum tw_err try_to_add(const char *table, size_t bytes)
{
    char *value = arena_alloc(&scratch, bytes + 1);
    struct entity entity;

    memset(value, 'x', bytes);
    value[bytes] = '\0';
    entity_init(&entity, &scratch, slice_of("Football"), slice_of("a"));
    entity_set_string(&entity, &scratch, "Text", slice_of(value));
    return archive_add(s.archive, table, &entity, &s.err);
}

static void sync_archive(void)
{
    assert_ok(archive_sync(s.archive, &s.err));
}

/* Opens the archive for `run` as an attempt does, archives one entity and
 * closes the archive. */
static void archive_one(const struct archive_run *run, const char *row_key)
{
    open_archive(run);
    add("Blogs", row_key);
    sync_archive();
    close_archive();
}

#define LINE(key)                                                              \
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"" key                         \
    "\",\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"5\"}\n"

static void expect_mode(const char *path, mode_t mode)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, mode);
}

OPEN_TEST(can_be_read_by_its_owner_alone)
{
    add("Blogs", "a");
    close_archive();
    expect_mode(s.blogs, 0600);
    expect_mode(path_of_run(""), 0700);
}

CLOSED_TEST(appends_when_opened_again)
{
    archive_one(&RUN, "a");
    archive_one(&RUN, "b");
    text_file_check(s.blogs, LINE("a") LINE("b"));
}

static void archive_attempt(
    int64_t requested_ticks, int32_t epoch, const char *row_key)
{
    struct archive_run run = RUN;

    run.requested_ticks = requested_ticks;
    run.epoch = epoch;
    archive_one(&run, row_key);
}

CLOSED_TEST(a_run_with_the_id_of_a_former_run_has_a_folder_of_its_own)
{
    archive_attempt(7, 1, "a");
    archive_attempt(8, 1, "b");
    archive_attempt(9, 1, "c");
    archive_attempt(9, 2, "d");
    text_file_check(path_of_run("../run-1~1/1-Blogs.jsonl"), LINE("a"));
    text_file_check(path_of_run("../run-1~2/1-Blogs.jsonl"), LINE("b"));
    text_file_check(path_of_run("1-Blogs.jsonl"), LINE("c"));
    text_file_check(path_of_run("2-Blogs.jsonl"), LINE("d"));
}

/* The former run had two attempts on this machine. The first attempt of the new
 * run was on another machine, its second attempt is on this one. */
CLOSED_TEST(a_later_attempt_knows_the_folder_of_a_former_run)
{
    archive_attempt(7, 2, "a");
    archive_attempt(9, 2, "b");
    text_file_check(path_of_run("../run-1~1/2-Blogs.jsonl"), LINE("a"));
    text_file_check(path_of_run("2-Blogs.jsonl"), LINE("b"));
}

/* Earlier versions did not write the file .requested-at, which has the time of
 * the request. */
CLOSED_TEST(a_folder_without_the_time_of_its_request_is_continued_or_kept)
{
    archive_attempt(7, 1, "a");
    assert_int_equal(unlink(path_of_run(".requested-at")), 0);
    archive_attempt(7, 2, "b");
    text_file_check(path_of_run("1-Blogs.jsonl"), LINE("a"));
    assert_int_equal(unlink(path_of_run(".requested-at")), 0);
    archive_attempt(9, 1, "c");
    text_file_check(path_of_run("../run-1~1/2-Blogs.jsonl"), LINE("b"));
    text_file_check(path_of_run("1-Blogs.jsonl"), LINE("c"));
}

static void tear(const char *path, const char *text, size_t times)
{
    FILE *file = fopen(path, "ae");

    assert_non_null(file);
    while (times-- > 0)
        assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

CLOSED_TEST(a_torn_last_line_is_cut_off)
{
    static const size_t times[] = {1, 400, 3000};

    for (size_t i = 0; TEST_EACH(i, times); i++) {
        (void)unlink(s.blogs);
        archive_one(&RUN, "a");
        tear(s.blogs, "{\"PartitionKey\"", times[i]);
        archive_one(&RUN, "b");
        text_file_check(s.blogs, LINE("a") LINE("b"));
    }
}

OPEN_TEST(a_file_that_is_all_torn_begins_anew)
{
    add("Tags", "t"); /* creates the folder of the run */
    tear(s.blogs, "no newline", 1000);
    add("Blogs", "a");
    sync_archive();
    text_file_check(s.blogs, LINE("a"));
}

/* Limits the size of files: a longer write is cut off, as on a full disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

OPEN_TEST(a_full_disk_is_said_and_loses_no_line)
{
    add("Blogs", "a");
    sync_archive();
    add("Blogs", "b");
    limit_files(strlen(LINE("a")) + 10);
    assert_fails(
        archive_sync(s.archive, &s.err), TW_FULL, &s.err, "3-Blogs.jsonl");
    limit_files(RLIM_INFINITY);
    text_file_check(s.blogs, LINE("a"));
    sync_archive();
    text_file_check(s.blogs, LINE("a") LINE("b"));
}

/* ---- archives that cannot be opened or written ---- */

static void expect_not_opened(
    const char *folder, enum tw_err outcome, const char *says)
{
    assert_fails(
        archive_open(folder, &RUN, &s.archive, &s.err), outcome, &s.err, says);
    assert_null(s.archive);
}

static void expect_not_added(
    const char *table, enum tw_err outcome, const char *says)
{
    assert_fails(try_to_add(table, 1), outcome, &s.err, says);
}

CLOSED_TEST(says_what_cannot_be_made)
{
    tear(s.parent, "a file, not a folder", 1);
    expect_not_opened(s.folder, TW_FORBIDDEN, "parent/deep");
    assert_contains(s.err.text, "Not a directory");
    expect_not_opened(
        "/proc/tableward", TW_FULL, "archive: cannot make /proc/tablewa");
}

/* The archive's parent folder is a link to a path that does not exist. */
CLOSED_TEST(a_link_to_nowhere_is_no_folder)
{
    assert_int_equal(symlink("/nowhere/at/all", s.parent), 0);
    expect_not_opened(s.folder, TW_FULL, "archive: cannot open");
}

/* Where the file should be, there is a folder. */
OPEN_TEST(the_time_of_the_request_must_be_read_and_written)
{
    static const struct {
        const char *name, *says;
    } CASES[] = {
        {".requested-at", "cannot read the file .requested-at in"},
        {".requested-at.new", "cannot write the file .requested-at in"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const char *path = path_of_run(CASES[i].name);

        assert_int_equal(
            system(arena_format(&scratch, "mkdir -p %s", path).at), 0);
        expect_not_added("Blogs", TW_FORBIDDEN, CASES[i].says);
        assert_int_equal(rmdir(path), 0);
        close_archive();
        open_archive(&RUN);
    }
}

/* The name of the folder already has 255 bytes, so ~1 cannot be appended. */
CLOSED_TEST(a_former_run_s_folder_that_cannot_be_renamed_is_named)
{
    struct archive_run run = RUN;
    char id[256] = "";

    memset(id, 'x', sizeof(id) - 1);
    run.id = id;
    archive_one(&run, "a");
    run.requested_ticks = 9;
    open_archive(&run);
    expect_not_added("Blogs", TW_FORBIDDEN, "archive: cannot rename");
}

OPEN_TEST(a_run_that_archives_nothing_leaves_no_folder)
{
    sync_archive();
    close_archive();
    assert_int_equal(access(s.folder, F_OK), 0);
    assert_int_not_equal(access(s.job, F_OK), 0);
}

/* Fails unless the run refuses to archive through this link. A link would let
 * everybody who may write to the folder redirect the entities to any place. */
static void expect_refused_link(const char *link)
{
    const char *elsewhere = path_of(s.parent, "elsewhere");

    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, link), 0);
    expect_not_added("Blogs", TW_FORBIDDEN, "is a symbolic link");
    assert_int_equal(rmdir(elsewhere), 0); /* nothing was written there */
}

OPEN_TEST(a_link_in_place_of_the_job_s_folder_is_refused)
{
    expect_refused_link(s.job);
}

OPEN_TEST(a_link_in_place_of_the_run_s_folder_is_refused)
{
    assert_int_equal(mkdir(s.job, 0700), 0);
    expect_refused_link(path_of(s.job, "run-1"));
}

/* An operator uses such a link to put the archive on another disk. */
CLOSED_TEST(the_folder_itself_may_be_a_link)
{
    const char *elsewhere = path_of(s.parent, "elsewhere");

    assert_int_equal(mkdir(s.parent, 0700), 0);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, s.folder), 0);
    archive_one(&RUN, "a");
    text_file_check(s.blogs, LINE("a"));
}

/* Checked as another user, because root may write to every folder. */
OPEN_TEST(a_folder_that_may_not_be_written_to_is_said)
{
    const uid_t nobody = 65534, self = getuid();
    enum tw_err outcome;

    close_archive();
    assert_int_equal(chmod(s.folder, 0500), 0);
    if (self == 0)
        assert_int_equal(setreuid(nobody, 0), 0);
    outcome = archive_open(s.folder, &RUN, &s.archive, &s.err);
    if (self == 0)
        assert_int_equal(setreuid(self, 0), 0);
    assert_fails(outcome, TW_FORBIDDEN, &s.err, "archive: cannot write to");
    assert_null(s.archive);
}

OPEN_TEST(a_folder_that_is_removed_meanwhile_is_said)
{
    assert_int_equal(rmdir(s.folder), 0);
    expect_not_added("Blogs", TW_FULL, "archive: cannot make");
}

OPEN_TEST(a_file_in_place_of_a_folder_is_said)
{
    assert_int_equal(mknod(s.job, S_IFREG | 0600, 0), 0);
    expect_not_added("Blogs", TW_FORBIDDEN, "archive: cannot open");
}

OPEN_TEST(a_file_that_is_none_is_said)
{
    add("Tags", "t");
    assert_int_equal(mkdir(s.blogs, 0700), 0);
    expect_not_added("Blogs", TW_FORBIDDEN, "archive: cannot open");
    assert_contains(s.err.text, "3-Blogs.jsonl");
    assert_int_equal(symlink("elsewhere", path_of_run("3-Likes.jsonl")), 0);
    expect_not_added("Likes", TW_FORBIDDEN, "");
    add("Comments", "c");
    sync_archive();
}

OPEN_TEST(a_line_that_is_too_long_is_refused)
{
    assert_fails(try_to_add("Blogs", 17 * 1024 * 1024), TW_TOO_LARGE, &s.err,
        "an entity of table Blogs is more than");
}

/* When the buffer of lines is full, the lines are written. This write can fail
 * too, not only the write of archive_sync(). */
OPEN_TEST(a_full_disk_is_met_while_lines_gather)
{
    enum tw_err outcome = TW_OK;
    struct stat info;

    limit_files(100000);
    for (int i = 0; i < 10 && outcome == TW_OK; i++)
        outcome = try_to_add("Blogs", 60000);
    limit_files(RLIM_INFINITY);
    assert_fails(outcome, TW_FULL, &s.err, "archive: cannot write");
    sync_archive();
    assert_int_equal(stat(s.blogs, &info), 0);
    assert_true(info.st_size > 256 * 1024);
}

/* A pipe accepts lines, but fsync() of a pipe fails. */
OPEN_TEST(what_cannot_be_made_durable_ends_the_process)
{
    int status;
    pid_t pid;

    add("Tags", "t");
    assert_int_equal(mkfifo(s.blogs, 0600), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (try_to_add("Blogs", 1) == TW_OK)
            (void)!archive_sync(s.archive, &s.err);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 75);
}
