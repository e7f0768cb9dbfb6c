/* SPDX-License-Identifier: MIT */
/* A folder of files of tables. An export of all tables to this folder has a
 * progress file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/store/store.h"
#include "worker/transfer/folder.h"

#define FOLDER "folder"
#define PROGRESS FOLDER "/export-e1.progress"
#define BLOGS FOLDER "/Blogs.jsonl"
#define PART(table, id) FOLDER "/" table ".jsonl." id "-0123456789abcdef.part"

static struct err err;
static struct folder_progress *progress; /* of export e1; NULL: not open */

static int set_up(void **state)
{
    assert_ok(folder_create(FOLDER, &err));
    return 0;
}

static void close_progress(bool complete)
{
    if (progress)
        folder_progress_close(progress, complete);
    progress = NULL;
}

static int tear_down(void **state)
{
    close_progress(false);
    return system("rm -rf " FOLDER);
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* The first line of the progress file of an export of store `main` of account
 * ACCOUNT. It has the first digits of ACCOUNT's SHA-256. */
#define ACCOUNT "a"
#define FIRST_LINE "store main ca978112ca1bbdcafac231b39a23dc4d\n"

static struct folder_progress *open_progress(const char *id,
    const char *account, const char *store, enum tw_err expected)
{
    const struct store of = {
        .name = store, .capabilities = {.identity = account}};
    struct folder_progress *opened = NULL;

    err.text[0] = '\0';
    assert_int_equal(
        folder_progress_open(FOLDER, id, &of, &opened, &err), expected);
    assert_true(expected == TW_OK || strlen(err.text) > 0);
    return opened;
}

static struct folder_progress *begin(const char *store, enum tw_err expected)
{
    return open_progress("e1", ACCOUNT, store, expected);
}

static struct folder_progress *begin_without_id(
    const char *store, enum tw_err expected)
{
    return open_progress(NULL, ACCOUNT, store, expected);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Opens the progress file again, as the next process of the export does. */
static void reopen(void)
{
    close_progress(false);
    progress = begin("main", TW_OK);
}

static void begin_table(const char *table)
{
    assert_ok(folder_progress_begin(progress, table, &err));
}

static bool is_done(const char *table, bool begun)
{
    bool done = !begun;

    assert_int_equal(
        folder_progress_begun(progress, table, BLOGS, &done), begun);
    return done;
}

/* ---- reading ---- */

static void note_other(void *context, const char *path)
{
    strcat(context, path + strlen(FOLDER "/"));
    strcat(context, " ");
}

FIXTURE_TEST(files_of_tables_are_found)
{
    char others[256] = "";
    struct folder folder;

    text_file_write(FOLDER "/b1234.CSV", "");
    text_file_write(BLOGS, "");
    text_file_write(FOLDER "/abc.jsonl", "");
    text_file_write(FOLDER "/Blogs.jsonl.rejected", "");
    text_file_write(FOLDER "/ab.jsonl", "");
    text_file_write(FOLDER "/tables.jsonl", "");
    assert_ok(folder_read(&folder, FOLDER, note_other, others, &err));
    assert_int_equal(folder.count, 3);
    assert_string_equal(folder.files[0].table, "abc");
    assert_string_equal(folder.files[0].path, FOLDER "/abc.jsonl");
    assert_int_equal(folder.files[0].format, RECORDS_JSON_LINES);
    assert_string_equal(folder.files[1].table, "b1234");
    assert_int_equal(folder.files[1].format, RECORDS_CSV);
    assert_string_equal(folder.files[2].table, "Blogs");
    assert_null(folder.unfinished);
    assert_non_null(folder.unknown);
    assert_int_equal(strlen(others), strlen("ab.jsonl tables.jsonl "));
    folder_done(&folder);
}

/* A file is returned as `unknown`, which stops an import, only if its name says
 * that it may have entities. Other files are only noted. */
FIXTURE_TEST(a_file_that_seems_to_hold_entities_is_named)
{
    static const char *const names[] = {FOLDER "/Blogs.jsonl.gz",
        FOLDER "/Blogs.Json", FOLDER "/Blogs.ndjson", FOLDER "/b.CSV"};
    char others[256] = "";
    struct folder folder;

    text_file_write(FOLDER "/Blogs.jsonl.rejected", "");
    text_file_write(FOLDER "/notes.txt", "");
    assert_ok(folder_read(&folder, FOLDER, note_other, others, &err));
    assert_null(folder.unknown);
    assert_string_equal(others, "notes.txt ");
    folder_done(&folder);
    for (size_t i = 0; TEST_EACH(i, names); i++) {
        text_file_write(names[i], "");
        assert_ok(folder_read(&folder, FOLDER, NULL, NULL, &err));
        assert_string_equal(folder.unknown, names[i]);
        folder_done(&folder);
        assert_int_equal(unlink(names[i]), 0);
    }
}

FIXTURE_TEST(an_unfinished_export_is_noticed)
{
    static const char *const names[] = {
        PROGRESS, PART("Blogs", "e1"), FOLDER "/Blogs.csv.01234567.part"};

    for (size_t i = 0; TEST_EACH(i, names); i++) {
        struct folder folder;

        text_file_write(names[i], "");
        assert_ok(folder_read(&folder, FOLDER, NULL, NULL, &err));
        assert_string_equal(folder.unfinished, names[i]);
        folder_done(&folder);
        assert_int_equal(unlink(names[i]), 0);
    }
}

/* ---- progress ---- */

/* Exports Blogs, up to the point before its part is renamed. */
static void complete_blogs(void)
{
    reopen();
    text_file_write(BLOGS ".part", "new");
    begin_table("Blogs");
    assert_ok(folder_progress_complete(progress, "Blogs", BLOGS ".part", &err));
}

FIXTURE_TEST(a_file_is_done_once_its_complete_part_was_renamed)
{
    text_file_write(BLOGS, "former");
    reopen();
    assert_false(is_done("Blogs", false));
    begin_table("Blogs");
    assert_false(is_done("Blogs", true));
    complete_blogs();
    assert_false(is_done("Blogs", true));
    reopen();
    assert_false(is_done("Blogs", true));
    assert_int_equal(rename(BLOGS ".part", BLOGS), 0);
    assert_true(is_done("Blogs", true));
    assert_int_equal(unlink(BLOGS), 0);
    assert_false(is_done("Blogs", true));
    assert_false(is_done("Blog", false));
    close_progress(true);
    assert_false(is_there(PROGRESS));
}

static void write_blogs(const char *text, struct timespec time)
{
    const struct timespec times[2] = {time, time};

    text_file_write(BLOGS, text);
    assert_int_equal(utimensat(AT_FDCWD, BLOGS, times, 0), 0);
}

/* Blogs is not done if somebody else has put the file there or has edited it
 * since. The inode of the file does not matter. */
FIXTURE_TEST(a_file_of_somebody_else_is_not_done)
{
    struct stat is;

    complete_blogs();
    reopen();
    assert_int_equal(stat(BLOGS ".part", &is), 0);
    write_blogs("older", is.st_mtim);
    assert_false(is_done("Blogs", true));
    write_blogs("old", (struct timespec){.tv_sec = 1});
    assert_false(is_done("Blogs", true));
    /* A copy of the folder with the same file times has the same progress. */
    write_blogs("old", is.st_mtim);
    assert_true(is_done("Blogs", true));
}

static char dropped_of[200];

static void note_dropped(const char *table, const char *part)
{
    (void)snprintf(dropped_of + strlen(dropped_of),
        sizeof(dropped_of) - strlen(dropped_of), "%s: %s;", table, part);
}

FIXTURE_TEST(parts_of_deleted_tables_are_removed)
{
    static const char *const NAMES[] = {"Channels"};
    static const char *const KEPT[] = {
        PART("Blogs", "e2"), PART("Channels", "e1"), PART("Other", "e1")};

    dropped_of[0] = '\0';
    reopen();
    begin_table("Blogs");
    begin_table("Channels");
    text_file_write(PART("Blogs", "e1"), "{");
    for (size_t i = 0; TEST_EACH(i, KEPT); i++)
        text_file_write(KEPT[i], "{");
    folder_progress_drop_deleted(progress, NAMES, 1, note_dropped);
    assert_string_equal(dropped_of, "Blogs: " PART("Blogs", "e1") ";");
    assert_false(is_there(PART("Blogs", "e1")));
    for (size_t i = 0; TEST_EACH(i, KEPT); i++)
        assert_true(is_there(KEPT[i]));
}

FIXTURE_TEST(a_part_of_a_line_is_cut_off)
{
    text_file_write(PROGRESS, FIRST_LINE "Blogs\nChan");
    reopen();
    assert_false(is_done("Blogs", true));
    assert_false(is_done("Chan", false));
    begin_table("Channels");
    reopen();
    assert_false(is_done("Channels", true));
}

/* In a former version the second word of a line was the inode of the file that
 * the export replaces. */
FIXTURE_TEST(a_line_of_a_former_version_is_a_file_that_was_begun)
{
    text_file_write(BLOGS, "former");
    text_file_write(PROGRESS, FIRST_LINE "Blogs 6\n");
    reopen();
    assert_false(is_done("Blogs", true));
}

FIXTURE_TEST(progress_of_another_store_is_refused)
{
    text_file_write(PROGRESS, FIRST_LINE "Blogs 0\n");
    (void)begin("other", TW_CONFLICT);
    (void)open_progress("e1", "b", "main", TW_CONFLICT);
    (void)begin("mai", TW_CONFLICT);
    assert_true(is_there(PROGRESS));
}

#define WITHOUT_ID FOLDER "/export-@main.progress"

/* An export without an id leaves its progress file. The next complete export of
 * the same store, with or without an id, removes this file. An export of
 * another store leaves it. */
FIXTURE_TEST(an_export_without_an_id_leaves_its_progress)
{
    for (int i = 0; i < 2; i++) {
        progress = begin_without_id("main", TW_OK);
        (void)begin_without_id("main", TW_STOPPED);
        begin_table("Blogs");
        folder_progress_close(begin("main", TW_OK), true);
        assert_true(is_there(WITHOUT_ID));
        close_progress(false);
        folder_progress_close(begin_without_id("main", TW_OK), false);
        folder_progress_close(begin_without_id("other", TW_OK), true);
        folder_progress_close(begin("other", TW_OK), true);
        assert_true(is_there(WITHOUT_ID));
        folder_progress_close(
            i == 0 ? begin_without_id("main", TW_OK) : begin("main", TW_OK),
            true);
        assert_false(is_there(WITHOUT_ID));
    }
}

FIXTURE_TEST(a_file_is_no_folder)
{
    text_file_write(BLOGS, "");
    assert_int_equal(folder_create(BLOGS, &err), TW_CONFLICT);
    assert_int_equal(folder_create("no/such/folder", &err), TW_INVALID);
}
