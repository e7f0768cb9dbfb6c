/* SPDX-License-Identifier: MIT */
/* The kind move: its configuration, what is moved and what stays, and what
 * happens after a crash. Each of the rules M1 to M10 (jobs/GUIDE.md) has a test
 * here, in test_move_repair.c or in test_move_intent.c. */
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/faulty.h"
#include "tests/support/interpose.h"
#include "tests/support/loading.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/embedded/embedded.h"

#define BLOGS "kind: move, from: {table: Blogs}, to: {table: OldBlogs"
static const char JOBS[] =
    "all: {" BLOGS "}}\n"
    "skip: {on_conflict: skip, " BLOGS "}}\n"
    "accept: {on_conflict: accept_equal, " BLOGS "}}\n"
    "key-of-n: {" BLOGS ", partition_key: \"{N}\"}}\n"
    "one-key: {" BLOGS ", partition_key: p, row_key: r}}\n"
    "one-key-skip: {on_conflict: skip, " BLOGS
    ", partition_key: p, row_key: r}}\n"
    "one-key-accept: {on_conflict: accept_equal, " BLOGS
    ", partition_key: p, row_key: r}}\n"
    "onward: {kind: move, from: {table: OldBlogs}, to: {table: Older}}\n"
    "away:\n"
    "  kind: move\n"
    "  from: {table: Blogs, filter: \"N eq 1\"}\n"
    "  to: {table: OldBlogs, partition_key: \"{PartitionKey}_{N}\"}\n"
    "cur-to-old: {kind: move, from: {table: Blogs, partition_key: cur}, to: "
    "{table: Blogs, partition_key: old}}\n"
    "new-to-cur: {kind: move, from: {table: Blogs, partition_key: new}, to: "
    "{table: Blogs, partition_key: cur}}\n"
    "by-month:\n"
    "  kind: move\n"
    "  args: [month]\n"
    "  from: {table: Blogs, partition_key_prefix: \"{month}\", filter: \"N eq "
    "1\"}\n"
    "  to: {table: OldBlogs, partition_key: \"{month}\", row_key: "
    "\"{PartitionKey}\", properties: {drop: [N], set: {Moved: true}}}\n";

static int set_up(void **state)
{
    scene_begin(JOBS, "Blogs OldBlogs TablewardRuns");
    return 0;
}

static int set_up_source(void **state)
{
    (void)set_up(state);
    scene_put("Blogs", "a", "1", "\"N\":1");
    return 0;
}

/* Creates only Blogs: neither the destination nor the table of the ledger
 * exists. */
static int set_up_new(void **state)
{
    scene_begin(JOBS, "Blogs");
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)
/* SOURCE_TEST: Blogs has the entity a/1. */
#define SOURCE_TEST(name) TEST_IN(name, set_up_source, scene_end)
#define NEW_TEST(name) TEST_IN(name, set_up_new, scene_end)

/* ---- events at the first batch of a type ---- */

static struct script_event *first_batch(
    const char *table, enum operation_type type)
{
    return script_batch(&s, table, type, 1, 1);
}

static struct script_event *lose_request(
    const char *table, enum operation_type type)
{
    return script_unsent(first_batch(table, type), TW_UNKNOWN);
}

static struct script_event *lose_answer(
    const char *table, enum operation_type type)
{
    struct script_event *event = first_batch(table, type);

    event->answer = TW_UNKNOWN;
    return event;
}

/* ---- writes of other programs ---- */

static void delete_source(struct hosted *host)
{
    hosted_remove(host, "Blogs", "a", "1");
}

static void put_equal_copy(struct hosted *host)
{
    hosted_put(host, "OldBlogs", "a", "1", "\"N\":1");
}

static void change_copy(struct hosted *host)
{
    hosted_replace(host, "OldBlogs", "a", "1", "\"N\":7");
}

static void delete_copy(struct hosted *host)
{
    hosted_remove(host, "OldBlogs", "a", "1");
}

/* ---- runs ---- */

/* Makes attempts of a new run until it ends, which must be as `wanted`. Then
 * clears the script. */
static void run(const char *job, enum run_end wanted)
{
    hosted_forget(&h, "r1");
    h.previous_owner_crashed = false;
    reports[0] = '\0';
    scene_run(job, "2024", wanted);
    script_clear(&s);
}

static void check_keys(const char *blogs, const char *old_blogs)
{
    scene_check_keys("Blogs", blogs);
    scene_check_keys("OldBlogs", old_blogs);
}

/* Fails unless the source a/1 and its copy have these properties. */
static void check_pair(const char *source, const char *copy)
{
    scene_check_is("Blogs", "a", "1", source);
    scene_check_is("OldBlogs", "a", "1", copy);
}

static void check_no_intent(void)
{
    scene_check_keys("TablewardRuns", "");
}

/* Calls run(), after which Blogs and OldBlogs must have these keys. */
static void run_leaves(const char *job, enum run_end wanted, const char *blogs,
    const char *old_blogs)
{
    run(job, wanted);
    check_keys(blogs, old_blogs);
}

enum when { BEFORE, AFTER };

/* Makes an attempt that crashes before or after its first batch of this type is
 * carried out. The next attempt is of the same run. */
static void crash_again(
    const char *table, enum operation_type type, enum when when)
{
    struct script_event *event =
        (when == BEFORE ? lose_request : lose_answer)(table, type);

    event->dies = true;
    scene_attempt("all", "", RUN_LEASE_LOST);
    script_clear(&s);
    reports[0] = '\0';
    h.previous_owner_crashed = true;
    virtual_sleep(20000);
}

static void crash(const char *table, enum operation_type type, enum when when)
{
    hosted_forget(&h, "r1");
    crash_again(table, type, when);
}

/* ---- the configuration ---- */

#define HEAD "m: {kind: move, from: {table: Blogs"

TEST(what_is_wrong_in_a_job_is_reported)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"m: {kind: move, to: {table: B12}}", "from"},
        {"m: {kind: move, from: {store: nowhere, table: Blogs}, to: {table: "
         "B12}}",
            "nowhere"},
        {HEAD ", filter: \"N eq\"}, to: {table: B12}}", "filter"},
        {HEAD ", what: 1}, to: {table: B12}}", "what"},
        {HEAD "}}", "to"},
        {HEAD "}, to: {store: nowhere, table: B12}}", "nowhere"},
        {HEAD "}, to: {table: B12}, properties: {drop: 7}}", "drop"},
        {HEAD "}, to: {table: B12}, unknown: 1}", "unknown"},
        {HEAD "}, to: [{table: A12}, {table: B12}]}", "one destination"},
        {HEAD "}, to: {table: OldBlogs}, on_conflict: merge}", "accept_equal"},
        {HEAD "}, to: {table: OldBlogs}, on_conflict: replace}",
            "accept_equal"},
        {HEAD "}, to: {table: OldBlogs}, mode: move}", "mode"},
        {HEAD "}, to: {table: Blogs}}", "may overlap in table Blogs"},
        {HEAD "}, to: {table: BLOGS, partition_key: x}}", "every entity"},
        {HEAD ", partition_key: a}, to: {table: Blogs, partition_key: a}}",
            "PartitionKey is \"a\""},
        {HEAD ", partition_key: a}, to: {table: Blogs, partition_key: "
              "\"{PartitionKey}\", row_key: \"x{RowKey}\"}}",
            "overlap"},
        {HEAD ", partition_key_prefix: a}, to: {table: Blogs, partition_key: "
              "\"ab{N}\"}}",
            "overlap"},
        {HEAD ", row_key_below: m}, to: {table: Blogs, row_key: \"a{N}\"}}",
            "overlap"},
        {HEAD ", row_key_from: m}, to: {table: Blogs, row_key: \"{N}\"}}",
            "overlap"},
        {HEAD ", filter: \"N eq 1\"}, to: {table: Blogs, row_key: \"a{N}\"}}",
            "overlap"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        loading_refused(cases[i].text, cases[i].part);
}

LOADING_TEST(keys_that_are_provably_others_may_be_in_one_table)
{
    static const char *const cases[] = {
        HEAD ", partition_key: a}, to: {table: Blogs, partition_key: b}}",
        HEAD ", partition_key: a}, to: {table: Blogs, partition_key: aa}}",
        HEAD ", partition_key_prefix: a}, to: {table: Blogs, partition_key: "
             "\"b{N}\"}}",
        HEAD ", row_key_below: a}, to: {table: Blogs, row_key: \"a{N}\"}}",
        HEAD ", row_key_from: m}, to: {table: Blogs, row_key: \"a{N}\"}}",
        HEAD ", row_key_prefix: \"a{{\"}, to: {table: Blogs, row_key: "
             "\"a}}{N}\"}}",
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        loading_good(l, cases[i]);
}

FIXTURE_TEST(a_job_says_what_it_does)
{
    assert_string_equal(hosted_explained(&h, "away"),
        "read Blogs where N eq 1\nstore an intent beside the ledger\ninsert "
        "each into OldBlogs: PartitionKey \"{PartitionKey}_{N}\", RowKey of "
        "the source; if an entity is there already, the source stays and is "
        "reported as failed\nread the copies back, then delete each from Blogs "
        "with the ETag that was copied\n");
}

/* Rule M9: with `accept_equal` the explanation says that writers must be
 * stopped. */
FIXTURE_TEST(a_job_that_accepts_says_what_it_asks_of_writers)
{
    assert_string_equal(hosted_explained(&h, "accept"),
        "read every entity of Blogs\n(accept_equal: stop the writers of "
        "source and destination first; a source and an equal entity at the "
        "destination become one)\nstore an intent beside the ledger\n"
        "insert each into OldBlogs: "
        "PartitionKey of the source, RowKey of the source; if an entity is "
        "there already, an equal entity is accepted as the copy; else the "
        "source stays and is reported as failed\nread the copies back, then "
        "delete each from Blogs with the ETag that was copied\n");
}

static void note_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    assert_int_equal(store, 0);
    assert_int_not_equal(access, JOB_READS);
    strcat(ctx, table);
}

FIXTURE_TEST(a_job_writes_both_tables)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("away"));
    char names[64] = "";

    assert_true(job->kind->table_job);
    job->kind->tables(job, note_table, names);
    assert_string_equal(names, "BlogsOldBlogs");
}

/* ---- which entities are moved ---- */

NEW_TEST(what_is_selected_is_moved)
{
    scene_put("Blogs", "a", "1", "\"N\":1,\"T\":\"x\"");
    scene_put("Blogs", "a", "2", "\"N\":2");
    run_leaves("away", RUN_SUCCEEDED, "a/2 ", "a_1/1 ");
    scene_check_is("OldBlogs", "a_1", "1", "{\"N\":1,\"T\":\"x\"}");
    assert_int_equal(h.passes, 2);
    assert_int_equal(h.behind, 0);
    assert_true(h.caught_up_ticks > 0);
    check_no_intent();
}

FIXTURE_TEST(arguments_select_and_make_keys)
{
    scene_put("Blogs", "2024-1", "x", "\"N\":1,\"T\":\"x\"");
    scene_put("Blogs", "2025-1", "x", "\"N\":1");
    run_leaves("by-month", RUN_SUCCEEDED, "2025-1/x ", "2024/2024-1 ");
    scene_check_is(
        "OldBlogs", "2024", "2024-1", "{\"T\":\"x\",\"Moved\":true}");
}

FIXTURE_TEST(nothing_selected_is_noted)
{
    run("away", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "nothing was selected"));
}

NEW_TEST(a_missing_source_table_fails_the_run)
{
    run("onward", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "OldBlogs"));
}

SOURCE_TEST(a_copy_that_cannot_be_made_stays_and_is_named)
{
    scene_put("Blogs", "a", "2", "\"N\":1");
    scene_put("Blogs", "2024", "a", "\"M\":1");
    run_leaves("key-of-n", RUN_FAILED, "2024/a ", "1/1 1/2 ");
    scene_check_reported("Blogs 2024/a: partition_key");
    assert_int_equal(h.failed, 1);
}

/* Loads jobs with two stores that are one store under two names: the same file,
 * or one account with two host names. */
static void load_two_stores(struct store *first, struct store *second)
{
    static const char *const names[] = {"main", "other"};
    static struct store *stores[2];

    stores[0] = first;
    stores[1] = second;
    h.stores =
        (struct job_stores){.count = 2, .names = names, .stores = stores};
    hosted_load(&h,
        "m: {kind: move, from: {store: main, table: Blogs}, to: {store: other, "
        "table: blogs}}\n"
        "apart: {kind: move, from: {store: main, table: Blogs, partition_key: "
        "a}, to: {store: other, table: Blogs, partition_key: b}}\n");
}

/* The stores know their identities, which are equal. */
FIXTURE_TEST(one_file_under_two_names_loses_nothing)
{
    char *path = mem_format("%s/one.db", h.folder);
    struct store *scripted = h.store, *second;
    struct err err;

    assert_ok(embedded_open("main", path, &h.store, &err));
    assert_ok(embedded_open("other", path, &second, &err));
    hosted_table(&h, "Blogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    load_two_stores(h.store, second);
    run("m", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "are one account"));
    scene_check_keys("Blogs", "a/1 ");
    run("apart", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "b/1 ");
    store_close(h.store);
    store_close(second);
    mem_free(path);
    h.store = scripted;
}

static enum tw_err pass(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    return request_send(self->inner, exchange, request);
}

/* The identities differ: only requests to the service show that both names are
 * one account. */
SOURCE_TEST(one_account_under_two_hosts_loses_nothing)
{
    static const char *const identities[] = {"127.0.0.1/a", "localhost/a"};
    struct interposed stores[2];

    for (size_t i = 0; i < 2; i++) {
        interposed_init(&stores[i], "main", s.inner, pass);
        stores[i].store.capabilities = s.inner->capabilities;
        stores[i].store.capabilities.kind = "azure";
        stores[i].store.capabilities.endpoint = NULL;
        stores[i].store.capabilities.identity = identities[i];
    }
    load_two_stores(&stores[0].store, &stores[1].store);
    run("m", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "are one account"));
    scene_check_keys("Blogs", "a/1 ");
    check_no_intent();
}

/* The last run would move each source onto the keys of an entity that the first
 * run has moved. */
FIXTURE_TEST(keys_that_are_used_again_are_not_overwritten)
{
    scene_put("Blogs", "cur", "1", "\"N\":1");
    scene_put("Blogs", "cur", "2", "\"N\":2");
    scene_put("Blogs", "new", "1", "\"N\":11");
    scene_put("Blogs", "new", "2", "\"N\":12");
    run("cur-to-old", RUN_SUCCEEDED);
    run("new-to-cur", RUN_SUCCEEDED);
    run("cur-to-old", RUN_FAILED);
    scene_check_keys("Blogs", "cur/1 cur/2 old/1 old/2 ");
    scene_check_is("Blogs", "old", "1", "{\"N\":1}");
    scene_check_is("Blogs", "cur", "1", "{\"N\":11}");
    scene_check_reported(
        "Blogs cur/1: another entity is at 'old' / '1' in Blogs");
    scene_check_reported("Blogs cur/2: ");
}

/* A copy job has copied the table. Then a source was deleted, and a copy was
 * edited. A third source has an equal entity at its destination. */
FIXTURE_TEST(a_move_after_a_copy_leaves_what_it_cannot_decide)
{
    struct script_event *replaces =
        script_batch(&s, "OldBlogs", OPERATION_REPLACE, 99, 99);
    struct script_event *deletes =
        script_batch(&s, "OldBlogs", OPERATION_DELETE, 99, 99);

    scene_put(
        "OldBlogs", "p", "gone", "\"N\":1,\"TablewardSource\":\"a copy\"");
    scene_put("Blogs", "p", "edited", "\"N\":3");
    scene_put(
        "OldBlogs", "p", "edited", "\"N\":4,\"TablewardSource\":\"a copy\"");
    scene_put("Blogs", "p", "same", "\"N\":5");
    scene_put("OldBlogs", "p", "same", "\"N\":5");
    run_leaves(
        "all", RUN_FAILED, "p/edited p/same ", "p/edited p/gone p/same ");
    scene_check_is("Blogs", "p", "edited", "{\"N\":3}");
    scene_check_is(
        "OldBlogs", "p", "edited", "{\"N\":4,\"TablewardSource\":\"a copy\"}");
    scene_check_reported("Blogs p/edited: another entity is at");
    scene_check_reported("Blogs p/same: an equal entity is at");
    assert_int_equal(h.failed, 2);
    assert_int_equal(replaces->seen + deletes->seen, 0);
}

/* Two sources have the same destination key. An entity that equals the copy of
 * the first source already exists there. */
SOURCE_TEST(two_sources_with_one_key_and_an_equal_entity_there_both_stay)
{
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "p", "r", "\"N\":1");
    run_leaves("one-key", RUN_FAILED, "a/1 a/2 ", "p/r ");
    scene_check_is("OldBlogs", "p", "r", "{\"N\":1}");
    scene_check_reported("Blogs a/1");
    scene_check_reported("Blogs a/2");
}

SOURCE_TEST(a_conflict_is_skipped_if_the_job_says_so)
{
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    run_leaves("skip", RUN_SUCCEEDED, "a/1 ", "a/1 a/2 ");
    assert_int_equal(h.skipped, 1);
}

/* ---- M1: one source for each destination key ---- */

static const char SAME_KEY[] =
    "Blogs a/2: another source, 'a' / '1', has the same destination key";

FIXTURE_TEST(of_two_sources_with_one_key_the_second_stays)
{
    static const char *const jobs[] = {
        "one-key", "one-key-skip", "one-key-accept"};

    scene_put("Blogs", "a", "2", "\"N\":1");
    for (size_t i = 0; TEST_EACH(i, jobs); i++) {
        scene_put("Blogs", "a", "1", "\"N\":1"); /* equal to source a/2 */
        run_leaves(jobs[i], RUN_FAILED, "a/2 ", "p/r ");
        scene_check_reported(SAME_KEY);
        assert_int_equal(h.failed, 1);
        scene_remove("OldBlogs", "p", "r");
    }
}

/* Inserts a source that is so large that it fills a load of its own. */
static void put_large(const char *partition_key, const char *row_key, int n)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    buf_add_format(&text, "\"N\":%d", n);
    for (int i = 0; i < 12; i++)
        buf_add_format(&text, ",\"P%d\":\"%030000d\"", i, i);
    scene_put("Blogs", partition_key, row_key, buf_text(&text));
    buf_done(&text);
}

/* Two equal sources have the same destination key. The second source is read
 * while the load of the first is open. If it did not wait, the copy of the
 * first source would be accepted as that of the second, and of two equal
 * sources only one entity would remain. */
FIXTURE_TEST(a_source_waits_for_the_open_load_that_has_its_key)
{
    put_large("a", "1", 1);
    put_large("a", "2", 1);
    run_leaves("one-key-accept", RUN_FAILED, "a/2 ", "p/r ");
    scene_check_reported(SAME_KEY);
}

/* ---- M2: which copies are the run's own ---- */

SOURCE_TEST(an_equal_entity_is_a_conflict_after_a_definite_answer)
{
    first_batch("OldBlogs", OPERATION_INSERT)->before = put_equal_copy;
    run_leaves("all", RUN_FAILED, "a/1 ", "a/1 ");
    scene_check_reported(
        "Blogs a/1: an equal entity is at 'a' / '1' in OldBlogs");
}

SOURCE_TEST(after_an_unknown_insert_an_older_equal_entity_is_a_conflict)
{
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    virtual_sleep(10000);
    lose_request("OldBlogs", OPERATION_INSERT);
    run_leaves("all", RUN_FAILED, "a/1 ", "a/1 ");
    scene_check_reported("it is unknown whether this run inserted it");
}

/* Of two equal sources the first was moved in an earlier load. The insert of
 * the second has an unknown outcome: the equal entity at its keys is the copy
 * of the first. */
FIXTURE_TEST(a_copy_of_an_equal_source_is_not_taken_for_the_runs_own)
{
    script_unsent(
        script_batch(&s, "OldBlogs", OPERATION_INSERT, 3, 3), TW_UNKNOWN);
    put_large("a", "1", 1);
    put_large("b", "1", 2);
    put_large("c", "1", 1);
    run_leaves("key-of-n", RUN_FAILED, "c/1 ", "1/1 2/1 ");
    scene_check_reported("it is unknown whether this run inserted it");
}

SOURCE_TEST(a_copy_that_others_change_before_it_is_read_back_keeps_its_source)
{
    first_batch("OldBlogs", OPERATION_INSERT)->after = change_copy;
    run("all", RUN_FAILED);
    check_pair("{\"N\":1}", "{\"N\":7}");
    scene_check_reported(
        "its copy was changed by others before it was read back");
}

SOURCE_TEST(a_copy_that_others_delete_before_it_is_read_back_keeps_its_source)
{
    first_batch("OldBlogs", OPERATION_INSERT)->after = delete_copy;
    run_leaves("all", RUN_FAILED, "a/1 ", "");
    scene_check_reported("its copy was deleted by others");
}

/* ---- M6: taking over an interrupted load ---- */

FIXTURE_TEST(an_interrupted_load_is_finished)
{
    static const struct {
        const char *table;
        enum operation_type type;
        enum when when;
    } cases[] = {
        {"OldBlogs", OPERATION_INSERT, BEFORE},
        {"OldBlogs", OPERATION_INSERT, AFTER},
        {"TablewardRuns", OPERATION_INSERT, AFTER},
        {"TablewardRuns", OPERATION_REPLACE, BEFORE},
        {"TablewardRuns", OPERATION_REPLACE, AFTER},
        {"Blogs", OPERATION_DELETE, BEFORE},
        {"Blogs", OPERATION_DELETE, AFTER},
        {"TablewardRuns", OPERATION_DELETE, BEFORE},
        {"TablewardRuns", OPERATION_DELETE, AFTER},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        scene_put("Blogs", "a", "1", "\"N\":1");
        crash(cases[i].table, cases[i].type, cases[i].when);
        scene_attempt("all", "", RUN_SUCCEEDED);
        check_pair("none", "{\"N\":1}");
        check_no_intent();
        scene_remove("OldBlogs", "a", "1");
    }
}

SOURCE_TEST(after_a_crash_a_copy_without_its_source_stays_and_is_named)
{
    crash("TablewardRuns", OPERATION_REPLACE, BEFORE);
    scene_remove("Blogs", "a", "1");
    scene_attempt("all", "", RUN_FAILED);
    check_keys("", "a/1 ");
    scene_check_reported(
        "Blogs a/1: the source was deleted while a move was "
        "interrupted: its copy stays; its destination is 'a' / '1' in "
        "OldBlogs");
    assert_int_equal(h.failed, 1);
    check_no_intent();
}

SOURCE_TEST(after_a_crash_a_changed_source_and_its_copy_both_stay)
{
    struct script_event *writes[3];

    crash("TablewardRuns", OPERATION_REPLACE, BEFORE);
    scene_replace("Blogs", "a", "1", "\"N\":9");
    writes[0] = script_batch(&s, "OldBlogs", OPERATION_INSERT, 99, 99);
    writes[1] = script_batch(&s, "OldBlogs", OPERATION_REPLACE, 99, 99);
    writes[2] = script_batch(&s, "OldBlogs", OPERATION_DELETE, 99, 99);
    scene_attempt("all", "", RUN_FAILED);
    check_pair("{\"N\":9}", "{\"N\":1}");
    scene_check_reported("both stay");
    assert_int_equal(h.failed, 1);
    assert_int_equal(writes[0]->seen + writes[1]->seen + writes[2]->seen, 0);
}

/* An intent in state `leaving` has the ETag of the copy: an entity with another
 * ETag is not the run's copy any more. */
SOURCE_TEST(a_copy_that_was_edited_after_a_crash_keeps_its_source)
{
    crash("TablewardRuns", OPERATION_REPLACE, AFTER);
    scene_replace("OldBlogs", "a", "1", "\"N\":7");
    scene_attempt("all", "", RUN_FAILED);
    check_pair("{\"N\":1}", "{\"N\":7}");
    scene_check_reported(
        "Blogs a/1: another entity is at 'a' / '1' in OldBlogs");
}

SOURCE_TEST(what_was_named_is_not_forgotten_by_the_next_attempt)
{
    crash("TablewardRuns", OPERATION_REPLACE, BEFORE);
    scene_remove("Blogs", "a", "1");
    crash_again("TablewardRuns", OPERATION_DELETE, AFTER);
    assert_non_null(strstr(h.checkpoint, "\"named\":1"));
    assert_string_equal(h.phase, "move");
}

/* ---- M7: intents of other moves ---- */

SOURCE_TEST(intents_are_taken_over_by_their_destination_too)
{
    scene_quietly(hosted_table(&h, "Older"));
    crash("TablewardRuns", OPERATION_REPLACE, AFTER);
    run_leaves("onward", RUN_SUCCEEDED, "", "");
    scene_check_keys("Older", "a/1 ");
    check_no_intent();
}

/* ---- M9: accept_equal ---- */

SOURCE_TEST(an_equal_entity_is_accepted_if_the_job_says_so)
{
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "a", "2", "\"N\":3");
    run("accept", RUN_FAILED);
    check_pair("none", "{\"N\":1}");
    scene_check_is("Blogs", "a", "2", "{\"N\":2}");
    scene_check_is("OldBlogs", "a", "2", "{\"N\":3}");
    scene_check_reported("Blogs a/2: another entity is at");
    assert_int_equal(h.failed, 1);
}

SOURCE_TEST(what_was_accepted_is_not_deleted_with_its_source)
{
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    first_batch("Blogs", OPERATION_DELETE)->before = delete_source;
    run_leaves("accept", RUN_FAILED, "", "a/1 ");
    scene_check_reported("the copy stays");
}

/* ---- M10: rows of an index ---- */

SOURCE_TEST(index_rows_are_passed_by)
{
    const struct source source = {.job = slice_of("by-size"),
        .by = slice_of("00000000"),
        .from = source_table_of(s.inner, "Blogs"),
        .at = source_table_of(s.inner, "Blogs"),
        .partition_key = slice_of("a"),
        .row_key = slice_of("1"),
        .etag = slice_of("e")};
    struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {"Blogs", &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;

    entity_init(&operation.entity, &h.arena, slice_of("a"), slice_of("size:1"));
    source_stamp(&operation.entity, &source, &h.arena);
    assert_ok(store_batch(s.inner, &exchange, &batch, &result));
    run_leaves("all", RUN_SUCCEEDED, "a/size:1 ", "a/1 ");
}

/* ---- A4: requests that arrive late ---- */

SOURCE_TEST(what_may_arrive_late_is_waited_for_before_leaving)
{
    int64_t began_ms = platform_boot_ms();

    h.store->capabilities.late_writes = true;
    run("all", RUN_SUCCEEDED);
    assert_true(platform_boot_ms() - began_ms < 1000);
    scene_put("Blogs", "a", "2", "\"N\":1");
    lose_answer("OldBlogs", OPERATION_INSERT);
    began_ms = platform_boot_ms();
    run_leaves("all", RUN_SUCCEEDED, "", "a/1 a/2 ");
    assert_true(platform_boot_ms() - began_ms >= 30000);
}

static int64_t met_ms;

static void note_time(struct hosted *host)
{
    met_ms = platform_boot_ms();
}

/* The new attempt waits before it decides on the pair. Otherwise an insert of
 * the crashed attempt could arrive after the decision. */
SOURCE_TEST(a_take_over_waits_for_what_may_arrive_late)
{
    int64_t began_ms;

    h.store->capabilities.late_writes = true;
    crash("OldBlogs", OPERATION_INSERT, AFTER);
    began_ms = platform_boot_ms();
    first_batch("TablewardRuns", OPERATION_REPLACE)->before = note_time;
    scene_attempt("all", "", RUN_SUCCEEDED);
    assert_true(met_ms - began_ms >= 30000);
    scene_check_keys("OldBlogs", "a/1 ");
}

/* The insert of the crashed attempt's intent may still arrive. The next attempt
 * cannot read the ledger; the one after it must still wait. */
SOURCE_TEST(what_may_arrive_late_is_known_until_it_was_waited_for)
{
    int64_t began_ms;

    h.store->capabilities.late_writes = true;
    crash("TablewardRuns", OPERATION_INSERT, BEFORE);
    script_unsent(
        script_call(&s, CALL_SCAN, "TablewardRuns", 1, 999), TW_REFUSED);
    scene_attempt("all", "", RUN_OUTAGE);
    script_clear(&s);
    h.previous_owner_crashed = false;
    began_ms = platform_boot_ms();
    scene_attempt("all", "", RUN_SUCCEEDED);
    assert_true(platform_boot_ms() - began_ms >= 30000);
    assert_non_null(strstr(h.checkpoint, "\"late\":false"));
    scene_check_keys("OldBlogs", "a/1 ");
}

/* ---- loads ---- */

static void put_many(const char *partition_key, unsigned count)
{
    scene_quietly(hosted_fill(&h, "Blogs", partition_key, count));
}

/* A move needs no more requests than these, besides those to the ledger:
 * - its pages;
 * - 4 for each load;
 * - 2 for each started hundred entities of a destination partition;
 * - 1 for each started hundred entities of a source partition. */
FIXTURE_TEST(a_move_needs_few_requests)
{
    static struct faulty counter; /* counts no requests to the ledger */
    struct script_event *pages = script_call(&s, CALL_SCAN, "Blogs", 9999, 0);
    unsigned budget;

    put_many("a", 1250);
    put_many("b", 850);
    put_many("c", 1);
    faulty_init(&counter, h.store);
    h.ledger = h.store;
    h.store = &counter.outer.store;
    run("all", RUN_SUCCEEDED);
    assert_int_equal(counter.operations, 2 * 2101);
    budget = pages->seen + 3 * 4 + 3 * (13 + 9 + 1 + 2);
    /* Each round may make two further requests, for example to read the
     * clock. */
    if (counter.requests > budget + (unsigned)(2 * h.passes))
        fail_msg("%u requests, %u of them pages; at most %u", counter.requests,
            pages->seen, budget);
    assert_int_equal(hosted_count(&h, "OldBlogs"), 2101);
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&counter);
}

FIXTURE_TEST(an_attempt_continues_where_the_last_one_stopped)
{
    put_many("a", 2500);
    h.stop_after = 3;
    scene_attempt("all", "", RUN_STOPPED);
    assert_non_null(strstr(h.checkpoint, "\"done\":[\"a\",\"b0"));
    check_no_intent();
    h.stop_after = -1;
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_quietly(assert_int_equal(hosted_count(&h, "OldBlogs"), 2500));
}

static void put_third(struct hosted *host)
{
    hosted_put(host, "Blogs", "c", "1", "\"N\":1");
}

static void put_second(struct hosted *host)
{
    hosted_put(host, "Blogs", "b", "1", "\"N\":1");
}

static void put_second_and_third(struct hosted *host)
{
    put_second(host);
    script_batch(&s, "Blogs", OPERATION_DELETE, 2, 2)->before = put_third;
}

SOURCE_TEST(sources_written_during_the_last_round_are_behind)
{
    first_batch("OldBlogs", OPERATION_INSERT)->before = put_second_and_third;
    run_leaves("all", RUN_SUCCEEDED, "c/1 ", "a/1 b/1 ");
    assert_int_equal(h.behind, 1);
}

/* Rule A2: the last round moves one source and reports another one. A reported
 * source does not count as behind. */
SOURCE_TEST(sources_that_are_named_are_not_behind)
{
    scene_put("OldBlogs", "a", "1", "\"N\":2");
    first_batch("OldBlogs", OPERATION_INSERT)->before = put_second;
    run_leaves("all", RUN_FAILED, "a/1 ", "a/1 b/1 ");
    assert_int_equal(h.failed, 1);
    assert_int_equal(h.behind, 0);
}

/* ---- dry run and verification ---- */

FIXTURE_TEST(a_dry_run_counts_and_writes_nothing)
{
    struct job_estimate estimate;

    put_many("a", 150);
    scene_put("Blogs", "b", "x", "\"T\":1");
    assert_ok(hosted_estimate(&h, "key-of-n", "", &estimate));
    assert_int_equal(estimate.table_count, 2);
    assert_string_equal(estimate.tables[0].table, "Blogs");
    assert_int_equal(estimate.tables[0].entities, 150);
    assert_int_equal(estimate.tables[0].batches, 2);
    assert_string_equal(estimate.tables[1].table, "OldBlogs");
    assert_int_equal(estimate.tables[1].entities, 150);
    assert_int_equal(estimate.tables[1].batches, 2);
    assert_string_equal(estimate.tables[1].first_keys[0], "1/b00000");
    assert_int_equal(
        estimate.transactions, estimate.tables[0].pages + 2 + 4 + 4);
    assert_non_null(strstr(estimate.details, "1 entity cannot be moved"));
    arena_done(&estimate.arena);
    scene_check_keys("OldBlogs", "");
    check_no_intent();
}
