/* SPDX-License-Identifier: MIT */
/*
 * A table with index rows that was exported and imported into another account:
 * the TablewardSource of its rows names the former account (rules C1 and C6).
 *
 * The tests write the rows while the store has another identity. To the store
 * with its own identity they are then rows of another account.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define SOURCES 3

/* No range and no filter keeps the index rows from being read as sources. */
static const char INDEX[] = "c:\n"
                            "  kind: copy\n"
                            "  from: {table: Blogs}\n"
                            "  to: {table: Blogs, row_key: \"i_{K}\"}\n"
                            "  on_conflict: %s\n";

static struct hosted h;

static int set_up(void **state)
{
    hosted_begin(&h,
        "c: {kind: copy, from: {table: Blogs}, to: {table: Blogs, "
        "row_key: \"i_{K}\"}}\n",
        "Blogs Next");
    return 0;
}

static int tear_down(void **state)
{
    hosted_done(&h);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* ---- the job ---- */

static void load(const char *on_conflict)
{
    char *text = mem_format(INDEX, on_conflict);

    hosted_load(&h, text);
    mem_free(text);
}

static enum run_end run_once(void)
{
    static unsigned count;
    static char id[16];

    (void)snprintf(id, sizeof(id), "r%u", ++count);
    hosted_forget(&h, id);
    h.written = h.deleted = 0;
    return hosted_run(&h, "c", "");
}

static void succeeds(void)
{
    if (run_once() != RUN_SUCCEEDED)
        fail_msg(
            "the run ended %d: %s (%s)", (int)h.end, h.err.text, h.failed_why);
}

/* Runs the present job while the store is another account. */
static void run_in_another_account(void)
{
    const char *identity = h.store->capabilities.identity;

    h.store->capabilities.identity = "another-account";
    succeeds();
    h.store->capabilities.identity = identity;
}

/* ---- the table ---- */

static void put_source(int i, int k, const char *text, bool replaces)
{
    char row_key[8], properties[64];

    (void)snprintf(row_key, sizeof(row_key), "%d", i);
    (void)snprintf(
        properties, sizeof(properties), "\"K\":%d,\"T\":\"%s\"", k, text);
    (replaces ? hosted_replace : hosted_put)(
        &h, "Blogs", "a", row_key, properties);
}

static void restore(void)
{
    for (int i = 0; i < SOURCES; i++)
        put_source(i, i, "old", false);
    run_in_another_account();
    assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES);
}

static void remove_all(void)
{
    char row_key[8];

    for (int i = 0; i < SOURCES; i++) {
        (void)snprintf(row_key, sizeof(row_key), "i_%d", i);
        hosted_remove(&h, "Blogs", "a", row_key);
        hosted_remove(&h, "Blogs", "a", row_key + 2);
    }
}

static void check_row(const char *row_key, const char *part)
{
    const char *json = hosted_json(&h, "Blogs", "a", row_key);

    if (!json || !strstr(json, part))
        fail_msg("%s is not in %s", part, json ? json : "(no row)");
}

/* The text `from` of the row becomes `to`; TablewardSource stays as it is. */
static void edit_row(const char *row_key, const char *from, const char *to)
{
    const char *json = hosted_json(&h, "Blogs", "a", row_key),
               *at = strstr(json, from);
    char *text = mem_format("%.*s%s%.*s", (int)(at - json - 1), json + 1, to,
        (int)(strlen(at) - strlen(from) - 1), at + strlen(from));

    hosted_replace(&h, "Blogs", "a", row_key, text);
    mem_free(text);
}

/* ---- tests ---- */

FIXTURE_TEST(the_next_run_writes_restored_index_rows_again)
{
    static const char *const ON_CONFLICT[] = {"fail", "skip", "replace"};

    for (size_t i = 0; TEST_EACH(i, ON_CONFLICT); i++) {
        load(ON_CONFLICT[i]);
        restore();
        put_source(1, 1, "new", true);
        assert_true(hosted_differences(&h, "c", "differ") >= SOURCES);
        succeeds();
        assert_int_equal(h.written, SOURCES);
        assert_int_equal(h.deleted, 0);
        assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES);
        check_row("i_0", "\"T\":\"old\"");
        check_row("i_1", "\"T\":\"new\"");
        assert_null(
            strstr(hosted_json(&h, "Blogs", "a", "i_0"), "another-account"));
        assert_int_equal(hosted_differences(&h, "c", ""), 0);
        succeeds();
        assert_int_equal(h.written, 0);
        remove_all();
    }
}

/* The ETag of a restored source may be the one that its row has: the row is
 * written again nevertheless, because it names another account. */
FIXTURE_TEST(a_restored_index_row_is_never_current)
{
    load("fail");
    restore();
    assert_int_equal(hosted_differences(&h, "c", "differ"), SOURCES);
    succeeds();
    assert_int_equal(h.written, SOURCES);
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
}

FIXTURE_TEST(an_edited_restored_index_row_is_written_again)
{
    load("fail");
    restore();
    edit_row("i_0", "old", "mine");
    succeeds();
    check_row("i_0", "\"T\":\"old\"");
}

/* Perhaps the source is in a file that was not imported. */
FIXTURE_TEST(a_restored_index_row_without_its_source_needs_consent)
{
    load("replace");
    restore();
    hosted_remove(&h, "Blogs", "a", "2");
    assert_int_equal(run_once(), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "1 copy made by"));
    assert_non_null(strstr(h.err.text, "in another account"));
    assert_int_equal(h.deleted, 0);
    check_row("i_2", "\"T\":\"old\"");
    check_row("i_0", "\"T\":\"old\"");
    h.accept_deletes = true;
    succeeds();
    assert_int_equal(h.deleted, 1);
    assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES - 2);
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
}

FIXTURE_TEST(a_restored_index_row_is_not_replaced_by_anothers_without_consent)
{
    load("replace");
    restore();
    put_source(0, 1, "old", true);
    put_source(1, 0, "old", true);
    assert_int_equal(run_once(), RUN_FAILED);
    assert_non_null(strstr(h.failed_why, "--accept-deletes"));
    check_row("i_0", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
    check_row("i_1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    h.accept_deletes = true;
    succeeds();
    check_row("i_0", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    check_row("i_1", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
}

/* Rule C1: rows of another job are no sources, but this job does not touch
 * them. */
FIXTURE_TEST(restored_index_rows_of_another_job_stay)
{
    load("fail");
    restore();
    hosted_load(&h, "c: {kind: copy, from: {table: Blogs}, to: {table: Next}}\n"
                    "d: {kind: copy, from: {table: Blogs}, to: {table: Blogs, "
                    "row_key: \"d_{K}\"}}\n");
    succeeds();
    assert_int_equal(hosted_count(&h, "Next"), SOURCES);
    assert_int_equal(hosted_run(&h, "d", ""), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Blogs"), 3 * SOURCES);
    check_row("i_0", "another-account");
}

/* A job that copies A.Blogs to this Blogs: its copies name the table Blogs
 * twice, of two accounts. They are sources of the jobs of this account. */
FIXTURE_TEST(copies_from_a_table_of_that_name_are_sources)
{
    struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {"Blogs", &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;
    struct source source = {.job = slice_of("c"),
        .by = slice_of("00000000"),
        .from = {slice_of("another-account"), slice_of("Blogs")},
        .partition_key = slice_of("a"),
        .row_key = slice_of("0"),
        .etag = slice_of("e")};

    source.at = source_table_of(h.store, "Blogs");
    load("fail");
    entity_init(&operation.entity, &h.arena, slice_of("a"), slice_of("0"));
    entity_set_int32(&operation.entity, &h.arena, "K", 5);
    source_stamp(&operation.entity, &source, &h.arena);
    assert_ok(store_batch(h.store, &exchange, &batch, &result));
    succeeds();
    assert_int_equal(h.deleted, 0);
    check_row("i_5", "\"K\":5");
    assert_true(hosted_has(&h, "Blogs", "a", "0"));
}
