/* SPDX-License-Identifier: MIT */
/* A folder of tables, and what an export of all remembers of its progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/transfer/folder.h"

#define FOLDER "folder"
#define PROGRESS FOLDER "/export-e1.progress"
#define BLOGS FOLDER "/Blogs.jsonl"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(folder_create(FOLDER, &err), TW_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return system("rm -rf " FOLDER);
}

static struct folder_progress *begin(const char *store, enum tw_err expected)
{
    struct folder_progress *progress = NULL;
    struct err err = {""};

    assert_int_equal(
        folder_progress_open(FOLDER, "e1", store, &progress, &err), expected);
    assert_true(expected == TW_OK || strlen(err.text) > 0);
    return progress;
}

static bool is_done(
    const struct folder_progress *progress, const char *table, bool begun)
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

static void files_of_tables_are_found(void **state)
{
    char others[256] = "";
    struct folder folder;
    struct err err;

    (void)state;
    write_file(FOLDER "/b1234.CSV", "");
    write_file(BLOGS, "");
    write_file(FOLDER "/abc.jsonl", "");
    write_file(FOLDER "/Blogs.jsonl.rejected", "");
    write_file(FOLDER "/ab.jsonl", "");
    write_file(FOLDER "/tables.jsonl", "");
    assert_int_equal(
        folder_read(&folder, FOLDER, note_other, others, &err), TW_OK);
    assert_int_equal(folder.count, 3);
    assert_string_equal(folder.files[0].table, "abc");
    assert_string_equal(folder.files[0].path, FOLDER "/abc.jsonl");
    assert_int_equal(folder.files[0].format, RECORDS_JSON_LINES);
    assert_string_equal(folder.files[1].table, "b1234");
    assert_int_equal(folder.files[1].format, RECORDS_CSV);
    assert_string_equal(folder.files[2].table, "Blogs");
    assert_null(folder.unfinished);
    assert_int_equal(strlen(others), strlen("ab.jsonl tables.jsonl "));
    folder_done(&folder);
}

static void an_unfinished_export_is_noticed(void **state)
{
    static const char *const names[] = {PROGRESS,
        FOLDER "/Blogs.jsonl.e1-0123456789abcdef.part",
        FOLDER "/Blogs.csv.01234567.part"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct folder folder;
        struct err err;

        write_file(names[i], "");
        assert_int_equal(folder_read(&folder, FOLDER, NULL, NULL, &err), TW_OK);
        assert_string_equal(folder.unfinished, names[i]);
        folder_done(&folder);
        assert_int_equal(unlink(names[i]), 0);
    }
}

/* ---- progress ---- */

static void a_file_that_was_replaced_is_done(void **state)
{
    struct folder_progress *progress;
    struct err err;

    (void)state;
    write_file(BLOGS, "former");
    progress = begin("main", TW_OK);
    assert_false(is_done(progress, "Blogs", false));
    assert_int_equal(
        folder_progress_begin(progress, "Blogs", BLOGS, &err), TW_OK);
    assert_false(is_done(progress, "Blogs", true));
    folder_progress_close(progress, false);
    progress = begin("main", TW_OK);
    assert_false(is_done(progress, "Blogs", true));
    write_file(BLOGS ".part", "new");
    assert_int_equal(rename(BLOGS ".part", BLOGS), 0);
    assert_true(is_done(progress, "Blogs", true));
    assert_int_equal(unlink(BLOGS), 0);
    assert_false(is_done(progress, "Blogs", true));
    assert_false(is_done(progress, "Blog", false));
    folder_progress_close(progress, true);
    assert_int_equal(access(PROGRESS, F_OK), -1);
}

static void a_part_of_a_line_is_cut_off(void **state)
{
    struct folder_progress *progress;
    struct err err;

    (void)state;
    write_file(PROGRESS, "store main\nBlogs 0\nChan");
    progress = begin("main", TW_OK);
    assert_false(is_done(progress, "Blogs", true));
    assert_false(is_done(progress, "Chan", false));
    assert_int_equal(
        folder_progress_begin(progress, "Channels", BLOGS, &err), TW_OK);
    folder_progress_close(progress, false);
    progress = begin("main", TW_OK);
    assert_false(is_done(progress, "Channels", true));
    folder_progress_close(progress, false);
}

static void progress_of_another_store_is_refused(void **state)
{
    (void)state;
    write_file(PROGRESS, "store main\nBlogs 0\n");
    (void)begin("other", TW_CONFLICT);
    (void)begin("mai", TW_CONFLICT);
    assert_int_equal(access(PROGRESS, F_OK), 0);
}

static void one_process_at_a_time_exports_with_an_id(void **state)
{
    struct folder_progress *progress = begin("main", TW_OK);

    (void)state;
    (void)begin("main", TW_STOPPED);
    assert_int_equal(access(PROGRESS, F_OK), 0);
    folder_progress_close(progress, false);
}

/* It would look like an export that was interrupted. */
static void progress_of_nothing_is_removed(void **state)
{
    (void)state;
    folder_progress_close(begin("main", TW_OK), false);
    assert_int_equal(access(PROGRESS, F_OK), -1);
}

static void a_file_is_no_folder(void **state)
{
    struct err err;

    (void)state;
    write_file(BLOGS, "");
    assert_int_equal(folder_create(BLOGS, &err), TW_CONFLICT);
    assert_int_equal(folder_create("no/such/folder", &err), TW_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(files_of_tables_are_found),
        TEST(an_unfinished_export_is_noticed),
        TEST(a_file_that_was_replaced_is_done),
        TEST(a_part_of_a_line_is_cut_off),
        TEST(progress_of_another_store_is_refused),
        TEST(one_process_at_a_time_exports_with_an_id),
        TEST(progress_of_nothing_is_removed),
        TEST(a_file_is_no_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
