/* SPDX-License-Identifier: MIT */
/* The archive: complete lines on disk, in the format that `tableward import`
 * reads. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/engine/archive.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/base/mem.h"

/* Each test has a folder of its own, below the working directory. */
static const char *folder_of(const char *test)
{
    char here[PATH_MAX];

    assert_non_null(getcwd(here, sizeof(here)));
    return arena_format(&scratch, "%s/%s/deep", here, test).at;
}

static const char *path_of(const char *folder, const char *file)
{
    return arena_format(&scratch, "%s/delete-channel/run-1/%s", folder, file)
        .at;
}

static const struct archive_run RUN = {
    .job = "delete-channel", .id = "run-1", .epoch = 3, .requested_ticks = 7};

static struct archive *open_archive_of(
    const char *folder, const struct archive_run *run)
{
    struct archive *archive = NULL;
    struct err err;

    assert_ok(archive_open(folder, run, &archive, &err));
    return archive;
}

static struct archive *open_archive(const char *folder)
{
    return open_archive_of(folder, &RUN);
}

static void add(struct archive *archive, const char *table, const char *row_key)
{
    struct arena arena;
    struct entity entity;
    struct err err;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of("Football"), slice_of(row_key));
    entity_set_int64(&entity, &arena, "Views", 5);
    entity.etag = slice_of("W/\"1\"");
    assert_ok(archive_add(archive, table, &entity, &err));
    arena_done(&arena);
}

#define LINE(key)                                                              \
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"" key                         \
    "\",\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"5\"}\n"

SCRATCH_TEST(writes_a_line_an_entity_and_a_file_a_table)
{
    const char *folder = folder_of("lines");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    const char *comments = path_of(folder, "3-Comments.jsonl");
    struct archive *archive = open_archive(folder);
    struct err err;

    add(archive, "Blogs", "a");
    add(archive, "Comments", "c");
    add(archive, "Blogs", "b");
    assert_ok(archive_sync(archive, &err));
    text_file_check(blogs, LINE("a") LINE("b"));
    text_file_check(comments, LINE("c"));
    archive_close(archive);
}

SCRATCH_TEST(can_be_read_by_its_owner_alone)
{
    const char *folder = folder_of("modes");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    const char *run = path_of(folder, "");
    struct archive *archive = open_archive(folder);
    struct stat info;

    add(archive, "Blogs", "a");
    archive_close(archive);
    assert_int_equal(stat(blogs, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(stat(run, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
}

SCRATCH_TEST(appends_when_opened_again)
{
    const char *folder = folder_of("again");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct err err;

    for (int i = 0; i < 2; i++) {
        struct archive *archive = open_archive(folder);

        add(archive, "Blogs", i == 0 ? "a" : "b");
        assert_ok(archive_sync(archive, &err));
        archive_close(archive);
    }
    text_file_check(blogs, LINE("a") LINE("b"));
}

/* One attempt of `run` archives one entity. */
static void archive_one(
    const char *folder, const struct archive_run *run, const char *row_key)
{
    struct archive *archive = open_archive_of(folder, run);
    struct err err;

    add(archive, "Blogs", row_key);
    assert_ok(archive_sync(archive, &err));
    archive_close(archive);
}

static struct archive_run attempt(int64_t requested_ticks, int32_t epoch)
{
    struct archive_run run = RUN;

    run.requested_ticks = requested_ticks;
    run.epoch = epoch;
    return run;
}

SCRATCH_TEST(a_run_with_the_id_of_a_former_run_has_a_folder_of_its_own)
{
    const char *folder = folder_of("former");
    struct archive_run spring = attempt(7, 1), summer = attempt(8, 1),
                       autumn = attempt(9, 1), again = attempt(9, 2);

    archive_one(folder, &spring, "a");
    archive_one(folder, &summer, "b");
    archive_one(folder, &autumn, "c");
    archive_one(folder, &again, "d");
    text_file_check(path_of(folder, "../run-1~1/1-Blogs.jsonl"), LINE("a"));
    text_file_check(path_of(folder, "../run-1~2/1-Blogs.jsonl"), LINE("b"));
    text_file_check(path_of(folder, "1-Blogs.jsonl"), LINE("c"));
    text_file_check(path_of(folder, "2-Blogs.jsonl"), LINE("d"));
}

/* On this machine the former run had two attempts, and the new run has its
 * second: the first one was another machine's. */
SCRATCH_TEST(a_later_attempt_knows_the_folder_of_a_former_run)
{
    const char *folder = folder_of("elsewhere");
    struct archive_run spring = attempt(7, 2), autumn = attempt(9, 2);

    archive_one(folder, &spring, "a");
    archive_one(folder, &autumn, "b");
    text_file_check(path_of(folder, "../run-1~1/2-Blogs.jsonl"), LINE("a"));
    text_file_check(path_of(folder, "2-Blogs.jsonl"), LINE("b"));
}

/* Versions before this one did not write the time of the request. */
SCRATCH_TEST(a_folder_without_the_time_of_its_request_is_continued_or_kept)
{
    const char *folder = folder_of("old");
    const char *time = path_of(folder, ".requested-at");
    struct archive_run first = attempt(7, 1), second = attempt(7, 2),
                       other = attempt(9, 1);

    archive_one(folder, &first, "a");
    assert_int_equal(unlink(time), 0);
    archive_one(folder, &second, "b");
    text_file_check(path_of(folder, "1-Blogs.jsonl"), LINE("a"));
    assert_int_equal(unlink(time), 0);
    archive_one(folder, &other, "c");
    text_file_check(path_of(folder, "../run-1~1/2-Blogs.jsonl"), LINE("b"));
    text_file_check(path_of(folder, "1-Blogs.jsonl"), LINE("c"));
}

static void tear(const char *path, const char *text, size_t times)
{
    FILE *file = fopen(path, "ae");

    assert_non_null(file);
    while (times-- > 0)
        assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

SCRATCH_TEST(a_torn_last_line_is_cut_off)
{
    static const size_t times[] = {1, 400, 3000};
    const char *folder = folder_of("torn");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct err err;

    for (size_t i = 0; TEST_EACH(i, times); i++) {
        struct archive *archive = open_archive(folder);

        (void)unlink(blogs);
        add(archive, "Blogs", "a");
        assert_ok(archive_sync(archive, &err));
        archive_close(archive);
        tear(blogs, "{\"PartitionKey\"", times[i]);
        archive = open_archive(folder);
        add(archive, "Blogs", "b");
        assert_ok(archive_sync(archive, &err));
        archive_close(archive);
        text_file_check(blogs, LINE("a") LINE("b"));
    }
}

SCRATCH_TEST(a_file_that_is_all_torn_begins_anew)
{
    const char *folder = folder_of("alltorn");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct archive *archive = open_archive(folder);
    struct err err;

    add(archive, "Tags", "t"); /* creates the folder of the run */
    tear(blogs, "no newline", 1000);
    add(archive, "Blogs", "a");
    assert_ok(archive_sync(archive, &err));
    archive_close(archive);
    text_file_check(blogs, LINE("a"));
}

SCRATCH_TEST(says_what_cannot_be_made)
{
    const char *folder = folder_of("file");
    const char *parent =
        arena_format(&scratch, "%.*s", (int)(strlen(folder) - 5), folder).at;
    struct archive *archive = NULL;
    struct err err;

    tear(parent, "a file, not a folder", 1);
    assert_int_equal(archive_open(folder, &RUN, &archive, &err), TW_FORBIDDEN);
    assert_null(archive);
    assert_non_null(strstr(err.text, "file/deep"));
    assert_non_null(strstr(err.text, "Not a directory"));
}

/* Limit the size of files: a write is then cut in the middle, as by a full
 * disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

SCRATCH_TEST(a_full_disk_is_said_and_loses_no_line)
{
    const char *folder = folder_of("full");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct archive *archive = open_archive(folder);
    struct err err;

    (void)signal(SIGXFSZ, SIG_IGN);
    add(archive, "Blogs", "a");
    assert_ok(archive_sync(archive, &err));
    add(archive, "Blogs", "b");
    limit_files(strlen(LINE("a")) + 10);
    assert_int_equal(archive_sync(archive, &err), TW_FULL);
    assert_non_null(strstr(err.text, "3-Blogs.jsonl"));
    limit_files(RLIM_INFINITY);
    text_file_check(blogs, LINE("a"));
    assert_ok(archive_sync(archive, &err));
    text_file_check(blogs, LINE("a") LINE("b"));
    archive_close(archive);
}

/* ---- what stands in the way ---- */

static void expect_not_opened(const char *folder, const char *says)
{
    struct archive *archive = NULL;
    struct err err;

    assert_int_equal(archive_open(folder, &RUN, &archive, &err), TW_FULL);
    assert_null(archive);
    if (!strstr(err.text, says))
        fail_msg("%s", err.text);
}

TEST(a_folder_that_cannot_be_made_is_said)
{
    expect_not_opened("/proc/tableward", "archive: cannot make /proc/tablewa");
}

/* The name was created meanwhile, but as a link that cannot be opened. */
SCRATCH_TEST(a_link_to_nowhere_is_no_folder)
{
    const char *folder = folder_of("link");
    const char *parent =
        arena_format(&scratch, "%.*s", (int)(strlen(folder) - 5), folder).at;

    assert_int_equal(symlink("/nowhere/at/all", parent), 0);
    expect_not_opened(folder, "archive: cannot open");
}

static enum tw_err try_to_add(
    struct archive *archive, const char *table, size_t bytes, struct err *err);

/* A folder is where a file should be. */
SCRATCH_TEST(the_time_of_the_request_must_be_read_and_written)
{
    static const char *const NAMES[] = {".requested-at", ".requested-at.new"};
    static const char *const SAYS[] = {"cannot read the file .requested-at in",
        "cannot write the file .requested-at in"};
    const char *folder = folder_of("time");
    struct err err;

    for (size_t i = 0; i < 2; i++) {
        const char *path = path_of(folder, NAMES[i]);
        struct archive *archive = open_archive(folder);

        assert_int_equal(
            system(arena_format(&scratch, "mkdir -p %s", path).at), 0);
        assert_int_equal(try_to_add(archive, "Blogs", 1, &err), TW_FORBIDDEN);
        if (!strstr(err.text, SAYS[i]))
            fail_msg("%s", err.text);
        assert_int_equal(rmdir(path), 0);
        archive_close(archive);
    }
}

/* A name of 255 bytes has no room for ~1. */
SCRATCH_TEST(a_former_run_s_folder_that_cannot_be_renamed_is_named)
{
    const char *folder = folder_of("long");
    struct archive_run spring = attempt(7, 1), autumn = attempt(9, 1);
    struct archive *archive;
    char id[256];
    struct err err;

    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    spring.id = autumn.id = id;
    archive_one(folder, &spring, "a");
    archive = open_archive_of(folder, &autumn);
    assert_int_equal(try_to_add(archive, "Blogs", 1, &err), TW_FORBIDDEN);
    assert_non_null(strstr(err.text, "archive: cannot rename"));
    archive_close(archive);
}

static bool is_there(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0;
}

SCRATCH_TEST(a_run_that_archives_nothing_leaves_no_folder)
{
    const char *folder = folder_of("nothing");
    const char *job = arena_format(&scratch, "%s/delete-channel", folder).at;
    struct archive *archive = open_archive(folder);
    struct err err;

    assert_ok(archive_sync(archive, &err));
    archive_close(archive);
    assert_true(is_there(folder));
    assert_false(is_there(job));
}

/* A link would let everybody who may write to the folder redirect the entities
 * to any place. */
SCRATCH_TEST(a_link_below_the_folder_is_refused)
{
    static const char *const LINKS[] = {
        "delete-channel", "delete-channel/run-1"};
    struct err err;

    for (size_t i = 0; i < 2; i++) {
        char name[] = {'b', 'e', 'l', 'o', 'w', (char)('0' + i), '\0'};
        const char *folder = folder_of(name);
        const char *elsewhere =
            arena_format(&scratch, "%s-elsewhere", folder).at;
        const char *link = arena_format(&scratch, "%s/%s", folder, LINKS[i]).at;
        const char *job =
            arena_format(&scratch, "%s/delete-channel", folder).at;
        struct archive *archive = open_archive(folder);

        assert_int_equal(mkdir(elsewhere, 0700), 0);
        if (i == 1)
            assert_int_equal(mkdir(job, 0700), 0);
        assert_int_equal(symlink(elsewhere, link), 0);
        assert_int_equal(try_to_add(archive, "Blogs", 1, &err), TW_FORBIDDEN);
        assert_non_null(strstr(err.text, "is a symbolic link"));
        archive_close(archive);
        assert_int_equal(rmdir(elsewhere), 0); /* nothing was written there */
    }
}

/* With such a link an operator puts the archive on another disk. */
SCRATCH_TEST(the_folder_itself_may_be_a_link)
{
    const char *folder = folder_of("linked");
    const char *parent =
        arena_format(&scratch, "%.*s", (int)(strlen(folder) - 5), folder).at;
    const char *elsewhere = arena_format(&scratch, "%s-elsewhere", parent).at;
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct archive *archive;
    struct err err;

    assert_int_equal(mkdir(parent, 0700), 0);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, folder), 0);
    archive = open_archive(folder);
    add(archive, "Blogs", "a");
    assert_ok(archive_sync(archive, &err));
    archive_close(archive);
    text_file_check(blogs, LINE("a"));
}

static enum tw_err try_to_add(
    struct archive *archive, const char *table, size_t bytes, struct err *err)
{
    char *value = mem_alloc(bytes + 1);
    struct arena arena;
    struct entity entity;
    enum tw_err outcome;

    memset(value, 'x', bytes);
    arena_init(&arena);
    entity_init(&entity, &arena, slice_of("Football"), slice_of("a"));
    entity_set_string(&entity, &arena, "Text", slice_of(value));
    outcome = archive_add(archive, table, &entity, err);
    arena_done(&arena);
    mem_free(value);
    return outcome;
}

/* Checked as another user, because root may write to every folder. */
SCRATCH_TEST(a_folder_that_may_not_be_written_to_is_said)
{
    const uid_t nobody = 65534;
    const uid_t self = getuid();
    const char *folder = folder_of("readonly");
    struct archive *archive = open_archive(folder);
    struct err err;
    enum tw_err code;

    archive_close(archive);
    archive = NULL;
    assert_int_equal(chmod(folder, 0500), 0);
    if (self == 0)
        assert_int_equal(setreuid(nobody, 0), 0);
    code = archive_open(folder, &RUN, &archive, &err);
    if (self == 0)
        assert_int_equal(setreuid(self, 0), 0);
    assert_int_equal(code, TW_FORBIDDEN);
    assert_null(archive);
    assert_non_null(strstr(err.text, "archive: cannot write to"));
}

SCRATCH_TEST(a_folder_that_is_removed_meanwhile_is_said)
{
    const char *folder = folder_of("removed");
    struct archive *archive = open_archive(folder);
    struct err err;

    assert_int_equal(rmdir(folder), 0);
    assert_int_not_equal(try_to_add(archive, "Blogs", 1, &err), TW_OK);
    assert_non_null(strstr(err.text, "archive: cannot make"));
    archive_close(archive);
}

SCRATCH_TEST(a_file_in_place_of_a_folder_is_said)
{
    const char *folder = folder_of("nofolder");
    const char *job = arena_format(&scratch, "%s/delete-channel", folder).at;
    struct archive *archive = open_archive(folder);
    struct err err;

    assert_int_equal(mknod(job, S_IFREG | 0600, 0), 0);
    assert_int_not_equal(try_to_add(archive, "Blogs", 1, &err), TW_OK);
    assert_non_null(strstr(err.text, "archive: cannot open"));
    archive_close(archive);
}

SCRATCH_TEST(a_file_that_is_none_is_said)
{
    const char *folder = folder_of("nofile");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    const char *likes = path_of(folder, "3-Likes.jsonl");
    struct archive *archive = open_archive(folder);
    struct err err;

    add(archive, "Tags", "t");
    assert_int_equal(mkdir(blogs, 0700), 0);
    assert_int_equal(try_to_add(archive, "Blogs", 1, &err), TW_FORBIDDEN);
    assert_non_null(strstr(err.text, "archive: cannot open"));
    assert_non_null(strstr(err.text, "3-Blogs.jsonl"));
    assert_int_equal(symlink("elsewhere", likes), 0);
    assert_int_equal(try_to_add(archive, "Likes", 1, &err), TW_FORBIDDEN);
    add(archive, "Comments", "c");
    assert_ok(archive_sync(archive, &err));
    archive_close(archive);
}

SCRATCH_TEST(a_line_that_is_too_long_is_refused)
{
    const char *folder = folder_of("long");
    struct archive *archive = open_archive(folder);
    struct err err;

    assert_int_equal(
        try_to_add(archive, "Blogs", 17 * 1024 * 1024, &err), TW_TOO_LARGE);
    assert_non_null(strstr(err.text, "an entity of table Blogs is more than"));
    archive_close(archive);
}

/* Gathered lines are written when they exceed a size; this write may fail
 * too. */
SCRATCH_TEST(a_full_disk_is_met_while_lines_gather)
{
    const char *folder = folder_of("gather");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct archive *archive = open_archive(folder);
    enum tw_err outcome = TW_OK;
    struct err err;
    struct stat info;

    (void)signal(SIGXFSZ, SIG_IGN);
    limit_files(100000);
    for (int i = 0; i < 10 && outcome == TW_OK; i++)
        outcome = try_to_add(archive, "Blogs", 60000, &err);
    limit_files(RLIM_INFINITY);
    assert_int_equal(outcome, TW_FULL);
    assert_non_null(strstr(err.text, "archive: cannot write"));
    assert_ok(archive_sync(archive, &err));
    assert_int_equal(stat(blogs, &info), 0);
    assert_true(info.st_size > 256 * 1024);
    archive_close(archive);
}

/* A pipe accepts lines, but fsync() of a pipe fails. */
SCRATCH_TEST(what_cannot_be_made_durable_ends_the_process)
{
    const char *folder = folder_of("pipe");
    const char *blogs = path_of(folder, "3-Blogs.jsonl");
    struct archive *archive = open_archive(folder);
    struct err err;
    int status;
    pid_t pid;

    add(archive, "Tags", "t");
    assert_int_equal(mkfifo(blogs, 0600), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (try_to_add(archive, "Blogs", 1, &err) == TW_OK)
            (void)!archive_sync(archive, &err);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 75);
    archive_close(archive);
    archive_close(NULL);
}
