/* SPDX-License-Identifier: MIT */
/* A whole configuration file: what is read, what is required, and the line that
 * each problem names. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/cli/load.h"
#include "worker/store/store.h"

#define FILE_NAME "t.yaml"

#define JOBS                                                                   \
    "jobs:\n"                                                                  \
    "  here: {kind: delete, table: Blogs, all: true}\n"                        \
    "  there: {kind: delete, store: cloud, table: Blogs, all: true}\n"

#define MAIN_ALONE "stores: {main: {embedded: t.db}}\n"
#define STORES                                                                 \
    "default_store: main\n"                                                    \
    "stores:\n"                                                                \
    "  main: {embedded: t.db}\n"                                               \
    "  cloud: {azure: {connection_string: '${NOT_SET_HERE}'}}\n"

struct fixture {
    struct load *load;
    struct problems problems;
    struct err err;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    unsetenv("STATE_DIRECTORY");
    unsetenv("NOT_SET_HERE");
    unsetenv("TABLEWARD_CONFIG");
    problems_init(&fixture->problems);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    load_free(fixture->load);
    problems_done(&fixture->problems);
    free(fixture);
    (void)unlink(FILE_NAME);
    (void)unlink("tableward.yaml");
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, set_up, tear_down, struct fixture *f)

static enum tw_err read_text(
    struct fixture *fixture, enum load_use use, const char *text)
{
    text_file_write(FILE_NAME, text);
    return load_read(
        FILE_NAME, use, &fixture->load, &fixture->problems, &fixture->err);
}

/* Fails unless one of the problems is at `line` and contains `text`. */
static void expect_problem(
    const struct fixture *fixture, unsigned line, const char *text)
{
    for (size_t i = 0; i < fixture->problems.count; i++)
        if (fixture->problems.list[i].mark.line == line &&
            strstr(fixture->problems.list[i].text, text))
            return;
    problems_print(&fixture->problems, stderr);
    fail_msg("no problem in line %u says '%s'", line, text);
}

static void expect_refused(struct fixture *fixture, enum load_use use,
    const char *text, unsigned line, const char *says)
{
    problems_done(&fixture->problems);
    problems_init(&fixture->problems);
    assert_int_equal(read_text(fixture, use, text), TW_INVALID);
    assert_null(fixture->load);
    expect_problem(fixture, line, says);
}

static void close_store(struct fixture *fixture, size_t store)
{
    store_close(fixture->load->open[store]);
    fixture->load->open[store] = NULL;
}

/* ---- the file ---- */

FIXTURE_TEST(the_named_file_comes_before_all_others)
{
    text_file_write("tableward.yaml", "");
    assert_string_equal(load_find(NULL), "tableward.yaml");
    setenv("TABLEWARD_CONFIG", "other.yaml", 1);
    assert_string_equal(load_find(NULL), "other.yaml");
    assert_string_equal(load_find("named.yaml"), "named.yaml");
    setenv("TABLEWARD_CONFIG", "", 1);
    assert_string_equal(load_find(NULL), "tableward.yaml");
}

FIXTURE_TEST(a_file_that_cannot_be_read_is_one_sentence)
{
    assert_fails(
        load_read("nowhere.yaml", LOAD_SOME, &f->load, &f->problems, &f->err),
        TW_INVALID, &f->err,
        "the configuration nowhere.yaml cannot be read: No such file or "
        "directory");
    assert_int_equal(f->problems.errors, 0);
    assert_fails(load_read("/", LOAD_SOME, &f->load, &f->problems, &f->err),
        TW_INVALID, &f->err, "Is a directory");
}

FIXTURE_TEST(a_file_larger_than_a_configuration_is_refused)
{
    text_file_write(FILE_NAME, "# large\n");
    assert_int_equal(truncate(FILE_NAME, 64 * 1024 * 1024), 0);
    assert_fails(
        load_read(FILE_NAME, LOAD_SOME, &f->load, &f->problems, &f->err),
        TW_INVALID, &f->err, "larger than 1 MiB");
}

FIXTURE_TEST(relative_paths_start_at_the_state_directory)
{
    setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two", 1);
    assert_ok(read_text(f, LOAD_SOME, MAIN_ALONE));
    assert_string_equal(f->load->configs[0]->path.at, "/var/lib/one/t.db");
}

/* ---- all parts of the file ---- */

FIXTURE_TEST(every_mistake_is_told_in_one_go)
{
    expect_refused(f, LOAD_ALL,
        "default_store: man\n"
        "stores:\n"
        "  main: {embedded: t.db, colour: red}\n"
        "  cloud: {azure: {connection_string: '${NOT_SET_HERE}'}}\n"
        "  'a b': {embedded: x}\n"
        "worker: {slts: 4}\n"
        "jobs: {a: {kind: cascade-delte}}\n"
        "wat: 1\n",
        1, "'main'");
    expect_problem(f, 3, "colour");
    expect_problem(f, 4, "NOT_SET_HERE");
    expect_problem(f, 5, "store's name");
    expect_problem(f, 6, "'slots'");
    expect_problem(f, 7, "'cascade-delete'");
    expect_problem(f, 8, "wat");
}

FIXTURE_TEST(several_stores_want_a_default)
{
    expect_refused(f, LOAD_SOME,
        "stores:\n  a: {embedded: a.db}\n  b: {embedded: b.db}\n", 1,
        "`default_store:` is missing");
}

FIXTURE_TEST(a_configuration_without_stores_is_wrong)
{
    expect_refused(f, LOAD_SOME, "", 1, "stores");
    expect_refused(f, LOAD_SOME, "stores: {}\n", 1, "stores");
}

/* ---- stores and jobs that a command needs ---- */

FIXTURE_TEST(a_variable_counts_where_it_is_wanted)
{
    assert_ok(read_text(f, LOAD_SOME, STORES JOBS));
    load_want_store(f->load, 0, &f->problems);
    load_want_job(f->load, &f->load->jobs.list[0], &f->problems);
    assert_int_equal(f->problems.errors, 0);
    load_want_job(f->load, &f->load->jobs.list[1], &f->problems);
    assert_int_equal(f->problems.errors, 1);
    expect_problem(f, 4,
        "store cloud needs the environment variable "
        "NOT_SET_HERE");
    load_want_store(f->load, 1, &f->problems);
    assert_int_equal(f->problems.errors, 1);
}

FIXTURE_TEST(a_worker_wants_the_stores_of_all_jobs)
{
    assert_ok(read_text(f, LOAD_WORKER, STORES));
    load_free(f->load);
    f->load = NULL;
    expect_refused(f, LOAD_WORKER, STORES JOBS, 4, "NOT_SET_HERE");
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1024 * 1024];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    size_t len;

    assert_non_null(in);
    assert_non_null(out);
    len = fread(bytes, 1, sizeof(bytes), in);
    assert_true(len > 0 && len < sizeof(bytes));
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(fclose(in), 0);
}

/* An embedded file and a copy of it can each be opened alone, but not together.
 * A second path of the same file is the same store. */
FIXTURE_TEST(a_copy_of_an_embedded_file_is_refused_beside_it)
{
    const char *const files[] = {"t.db", "copy.db", "path.db"};

    for (size_t i = 0; i < 3; i++)
        (void)unlink(files[i]);
    assert_ok(read_text(f, LOAD_SOME,
        "default_store: main\n"
        "stores: {main: {embedded: t.db}, copy: {embedded: copy.db}, "
        "path: {embedded: path.db}}\n"));
    assert_ok(load_store(f->load, 0, true, &f->err));
    close_store(f, 0); /* moves the log into the file */
    copy_file("t.db", "copy.db");
    assert_int_equal(symlink("t.db", "path.db"), 0);
    assert_ok(load_store(f->load, 1, false, &f->err));
    assert_fails(load_store(f->load, 0, false, &f->err), TW_INVALID, &f->err,
        "/t.db and ");
    assert_contains(f->err.text, "/copy.db (store copy) have the same "
                                 "identity");
    assert_null(f->load->open[0]);
    close_store(f, 1);
    assert_ok(load_store(f->load, 0, false, &f->err));
    assert_ok(load_store(f->load, 2, false, &f->err));
    assert_int_equal(load_store(f->load, 1, false, &f->err), TW_INVALID);
    for (size_t i = 0; i < 3; i++)
        (void)unlink(files[i]);
}

/* A move that takes over the intent of another move may open a store that no
 * job uses. Meanwhile runs read the list of open stores. */
FIXTURE_TEST(a_store_that_no_job_uses_is_opened_when_it_is_asked_for)
{
    struct store *first = NULL, *again = NULL;
    const struct job_stores *all;

    (void)unlink("t.db");
    (void)unlink("copy.db");
    assert_ok(read_text(f, LOAD_SOME,
        "default_store: main\n"
        "stores: {main: {embedded: t.db}, copy: {embedded: "
        "copy.db}}\n"));
    all = &f->load->stores;
    assert_int_equal(all->open(all->owner, 0, &first, &f->err), TW_NOT_FOUND);
    assert_int_equal(load_store(f->load, 0, false, &f->err), TW_NOT_FOUND);
    assert_int_equal(access("t.db", F_OK), -1);
    assert_ok(load_store(f->load, 0, true, &f->err));
    assert_ok(load_store(f->load, 0, false, &f->err));
    assert_ok(all->open(all->owner, 0, &first, &f->err));
    assert_ptr_equal(first, f->load->open[0]);
    store_close(first); /* moves the log into the file */
    f->load->open[0] = NULL;
    copy_file("t.db", "copy.db");
    assert_ok(all->open(all->owner, 0, &first, &f->err));
    assert_ok(all->open(all->owner, 0, &again, &f->err));
    assert_ptr_equal(first, again);
    assert_null(f->load->open[0]);
    assert_fails(all->open(all->owner, 1, &again, &f->err), TW_INVALID, &f->err,
        "have the same identity");
    (void)unlink("copy.db");
}

FIXTURE_TEST(a_connection_string_is_a_configuration)
{
    f->load = load_environment("UseDevelopmentStorage=true");
    assert_int_equal(f->load->stores.count, 1);
    assert_int_equal(f->load->stores.by_default, 0);
    assert_ok(load_store(f->load, 0, false, &f->err));
    assert_string_equal(f->load->open[0]->capabilities.kind, "azure");
}

FIXTURE_TEST(the_last_reference_frees_everything)
{
    struct definition *definition;

    assert_ok(read_text(f, LOAD_WORKER, STORES));
    assert_ok(load_store(f->load, 0, true, &f->err));
    definition = load_definition(f->load);
    f->load = NULL;
    assert_non_null(definition_store(definition));
    definition_hold(definition);
    definition_drop(definition);
    assert_string_equal(definition_store(definition)->name, "main");
    definition_drop(definition); /* the sanitizer reports anything that is not
                                    freed as a leak */
}
