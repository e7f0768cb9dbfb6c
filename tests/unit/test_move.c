/* SPDX-License-Identifier: MIT */
/* The kind move: its configuration, what is moved and what stays, and what
 * happens after a crash. Each of the rules M1 to M10 (jobs/GUIDE.md) has a test
 * of its own. */
#include <stdlib.h>
#include <string.h>

#include "jobs/copy/source.h"
#include "jobs/move/intent.h"
#include "tests/support/interpose.h"
#include "tests/support/loading.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/request_pool.h"

static const char JOBS[] =
    "away:\n"
    "  kind: move\n"
    "  from: {table: Blogs, filter: \"N eq 1\"}\n"
    "  to: {table: OldBlogs, partition_key: \"{PartitionKey}_{N}\"}\n"
    "all: {kind: move, from: {table: Blogs}, to: {table: OldBlogs}}\n"
    "onward: {kind: move, from: {table: OldBlogs}, to: {table: Older}}\n"
    "one-key:\n"
    "  kind: move\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs, partition_key: p, row_key: r}\n"
    "one-key-skip:\n"
    "  kind: move\n"
    "  on_conflict: skip\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs, partition_key: p, row_key: r}\n"
    "one-key-accept:\n"
    "  kind: move\n"
    "  on_conflict: accept_equal\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs, partition_key: p, row_key: r}\n"
    "key-of-n: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
    "partition_key: \"{N}\"}}\n"
    "skip: {kind: move, on_conflict: skip, from: {table: Blogs}, to: {table: "
    "OldBlogs}}\n"
    "accept: {kind: move, on_conflict: accept_equal, from: {table: Blogs}, to: "
    "{table: OldBlogs}}\n"
    "cur-to-old:\n"
    "  kind: move\n"
    "  from: {table: Blogs, partition_key: cur}\n"
    "  to: {table: Blogs, partition_key: old}\n"
    "new-to-cur:\n"
    "  kind: move\n"
    "  from: {table: Blogs, partition_key: new}\n"
    "  to: {table: Blogs, partition_key: cur}\n"
    "by-month:\n"
    "  kind: move\n"
    "  args: [month]\n"
    "  from: {table: Blogs, partition_key_prefix: \"{month}\", filter: \"N eq "
    "1\"}\n"
    "  to: {table: OldBlogs, partition_key: \"{month}\", row_key: "
    "\"{PartitionKey}\", properties: {drop: [N], set: {Moved: true}}}\n";

/* ---- a store that fails at a chosen request ---- */

enum act {
    NOTHING,
    LOSE_REQUEST, /* not done, outcome unknown */
    LOSE_ANSWER,  /* done, outcome unknown */
    CRASH_BEFORE, /* not done, the worker is dead */
    CRASH_AFTER,  /* done, the worker is dead */
};

struct watch {
    struct interposed outer;
    const char *table;        /* the fault concerns batches of this table */
    enum operation_type type; /* with this type of operation */
    unsigned at;   /* number of the first such batch, from 1; 0: no fault */
    unsigned last; /* number of the last such batch; 0: only the first */
    enum act act;
    void (*before)(void); /* called before the batch is carried out */
    void (*after)(void);  /* called after it was carried out */
    bool closed;          /* scans of the ledger are refused */

    unsigned seen;
    unsigned writes[4]; /* operations on OldBlogs, by type */
    unsigned requests;  /* requests except those to the ledger's table */
    unsigned pages;     /* of `requests`: pages of the source table */
};

static struct watch w;
static struct store *inner;
static char met_key[64]; /* RowKey of the first operation of the batch that the
                            fault concerned */

static enum tw_err unknown(struct exchange *exchange)
{
    exchange->sent_ms = platform_boot_ms();
    return err_fail(&exchange->err, TW_UNKNOWN, "as the test wants");
}

static enum tw_err act_on(
    struct exchange *exchange, const struct store_request *request)
{
    const struct entity *first = &request->batch->operations[0].entity;
    enum tw_err outcome;

    snprintf(met_key, sizeof(met_key), "%.*s", SLICE_ARG(first->row_key));
    if (w.before) {
        scene_quietly(w.before());
    }
    if (w.act == CRASH_BEFORE)
        deadline_close(h.deadline);
    if (w.act == LOSE_REQUEST)
        return unknown(exchange);
    outcome = request_send(inner, exchange, request);
    if (w.after) {
        scene_quietly(w.after());
    }
    if (w.act == CRASH_AFTER)
        deadline_close(h.deadline);
    return w.act == LOSE_ANSWER || w.act == CRASH_AFTER ? unknown(exchange)
                                                        : outcome;
}

static void count_request(const struct store_request *request)
{
    const char *table = request->batch  ? request->batch->table
                        : request->scan ? request->scan->table
                                        : request->name;

    if (table && strcmp(table, "TablewardRuns") == 0)
        return;
    w.requests++;
    w.pages += request->call == CALL_SCAN && strcmp(table, "Blogs") == 0;
    for (size_t i = 0; request->batch && strcmp(table, "OldBlogs") == 0 &&
                       i < request->batch->count;
         i++)
        w.writes[request->batch->operations[i].type]++;
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    unsigned last = w.last > 0 ? w.last : w.at;

    if (s.quiet)
        return request_send(self->inner, exchange, request);
    count_request(request);
    if (w.closed && request->call == CALL_SCAN &&
        strcmp(request->scan->table, "TablewardRuns") == 0)
        return err_fail(&exchange->err, TW_REFUSED, "as the test wants");
    if (request->call == CALL_BATCH && w.at > 0 &&
        strcmp(request->batch->table, w.table) == 0 &&
        request->batch->operations[0].type == w.type && ++w.seen >= w.at &&
        w.seen <= last)
        return act_on(exchange, request);
    return request_send(self->inner, exchange, request);
}

/* Sets the fault of batch number `at` with this type of operation on this
 * table. */
static void when(const char *table, enum operation_type type, unsigned at,
    enum act act, void (*before)(void))
{
    w.table = table;
    w.type = type;
    w.at = at;
    w.last = 0;
    w.act = act;
    w.before = before;
    w.after = NULL;
    w.seen = 0;
}

static int set_up(void **state)
{
    scene_begin(JOBS, "Blogs");
    inner = s.inner;
    memset(&w, 0, sizeof(w));
    interposed_init(&w.outer, "main", h.store, meet);
    w.outer.store.capabilities = inner->capabilities;
    h.store = &w.outer.store;
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)

/* Makes a new run up to its end. */
static void run(const char *job, enum run_end wanted)
{
    hosted_forget(&h, "r1");
    h.previous_owner_crashed = false;
    reports[0] = '\0';
    scene_run(job, "2024", wanted);
}

/* Makes an attempt that crashes at the request that when() has chosen. */
static void crash(const char *job)
{
    hosted_forget(&h, "r1");
    reports[0] = '\0';
    assert_int_equal(hosted_attempt(&h, job, "2024"), RUN_LEASE_LOST);
    when("", OPERATION_INSERT, 0, NOTHING, NULL);
    h.previous_owner_crashed = true;
    virtual_sleep(20000);
}

/* Makes the next attempt of the same run. */
static void take_over(const char *job, enum run_end wanted)
{
    memset(w.writes, 0, sizeof(w.writes));
    scene_attempt(job, "2024", wanted);
}

static unsigned intents(void)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION))};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    unsigned count;

    page_init(&page);
    (void)!store_scan(inner, &exchange, &request, &page);
    count = (unsigned)page.count;
    page_done(&page);
    return count;
}

/* ---- the configuration ---- */

#define HEAD "m: {kind: move, from: {table: Blogs"

FIXTURE_TEST(what_is_wrong_in_a_job_is_reported)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {HEAD "}}", "to"},
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

FIXTURE_TEST(keys_that_are_provably_others_may_be_in_one_table)
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

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct loading l = {.names = {NULL}};

        loading_good(&l, cases[i]);
        loading_done(&l);
    }
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

/* Rule M9. */
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

/* ---- what goes where ---- */

FIXTURE_TEST(what_is_selected_is_moved)
{
    scene_put("Blogs", "a", "1", "\"N\":1,\"T\":\"x\"");
    scene_put("Blogs", "a", "2", "\"N\":2");
    run("away", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "a/2 ");
    scene_check_keys("OldBlogs", "a_1/1 ");
    scene_check_is("OldBlogs", "a_1", "1", "{\"N\":1,\"T\":\"x\"}");
    assert_int_equal(h.passes, 2);
    assert_int_equal(h.behind, 0);
    assert_true(h.caught_up_ticks > 0);
    assert_int_equal(intents(), 0);
}

FIXTURE_TEST(arguments_select_and_make_keys)
{
    scene_put("Blogs", "2024-1", "x", "\"N\":1,\"T\":\"x\"");
    scene_put("Blogs", "2025-1", "x", "\"N\":1");
    run("by-month", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "2025-1/x ");
    scene_check_is(
        "OldBlogs", "2024", "2024-1", "{\"T\":\"x\",\"Moved\":true}");
}

FIXTURE_TEST(nothing_selected_is_noted)
{
    run("away", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "nothing was selected"));
}

FIXTURE_TEST(a_missing_source_table_fails_the_run)
{
    run("onward", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "OldBlogs"));
}

FIXTURE_TEST(a_copy_that_cannot_be_made_stays_and_is_named)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":1");
    scene_put("Blogs", "2024", "a", "\"M\":1");
    run("key-of-n", RUN_FAILED);
    scene_check_keys("Blogs", "2024/a ");
    scene_check_reported("Blogs 2024/a: partition_key");
    assert_int_equal(h.failed, 1);
}

/* One store under two names of the configuration: the same file, or one account
 * with two host names. */
static struct store *stores[2];
static const char *const store_names[2] = {"main", "other"};
static struct jobs two_jobs;

static void two_stores(struct store *first, struct store *second)
{
    static const char TWO[] =
        "m: {kind: move, from: {store: main, table: Blogs}, to: {store: other, "
        "table: blogs}}\n"
        "apart: {kind: move, from: {store: main, table: Blogs, partition_key: "
        "a}, to: {store: other, table: Blogs, partition_key: b}}\n";
    struct problems problems;

    stores[0] = first;
    stores[1] = second;
    h.stores =
        (struct job_stores){.count = 2, .names = store_names, .stores = stores};
    problems_init(&problems);
    jobs_load(yaml_read("two.yaml", arena_copy(&h.arena, slice_of(TWO)),
                  &h.arena, &problems),
        &h.stores, &h.arena, &two_jobs, &problems);
    assert_int_equal(problems.errors, 0);
    problems_done(&problems);
    h.jobs = two_jobs;
}

/* The stores know their identity, and it is the same. */
FIXTURE_TEST(one_file_under_two_names_loses_nothing)
{
    char *path = mem_format("%s/one.db", h.folder);
    struct store *first, *second;
    struct exchange exchange = {.deadline = NULL};
    struct err err;

    assert_ok(embedded_open("main", path, &first, &err));
    assert_ok(embedded_open("other", path, &second, &err));
    assert_ok(store_create_table(first, &exchange, "Blogs"));
    h.store = first;
    hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
    two_stores(first, second);
    run("m", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "are one account"));
    assert_true(hosted_has(&h, "Blogs", "a", "1"));
    run("apart", RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    store_close(first);
    store_close(second);
    mem_free(path);
    h.store = &w.outer.store;
    h.stores = (struct job_stores){
        .count = 1, .names = &h.store_name, .stores = &h.store};
}

static enum tw_err pass(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    return request_send(self->inner, exchange, request);
}

/* The identities differ: only requests to the service show that both names are
 * one account. */
FIXTURE_TEST(one_account_under_two_hosts_loses_nothing)
{
    struct interposed first, second;

    interposed_init(&first, "main", inner, pass);
    interposed_init(&second, "other", inner, pass);
    first.store.capabilities = second.store.capabilities = inner->capabilities;
    first.store.capabilities.kind = second.store.capabilities.kind = "azure";
    first.store.capabilities.endpoint = second.store.capabilities.endpoint =
        NULL;
    first.store.capabilities.identity = "127.0.0.1/a";
    second.store.capabilities.identity = "localhost/a";
    scene_put("Blogs", "a", "1", "\"N\":1");
    two_stores(&first.store, &second.store);
    run("m", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "are one account"));
    scene_check_keys("Blogs", "a/1 ");
    assert_int_equal(intents(), 0);
    h.stores = (struct job_stores){
        .count = 1, .names = &h.store_name, .stores = &h.store};
}

/* Each source would be moved onto the keys of another source. */
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

/* After the table was copied, one source was deleted, one got another key, and
 * one copy was edited. */
FIXTURE_TEST(a_move_after_a_copy_leaves_what_it_cannot_decide)
{
    hosted_table(&h, "OldBlogs");
    scene_put(
        "OldBlogs", "p", "gone", "\"N\":1,\"TablewardSource\":\"a copy\"");
    scene_put("Blogs", "p", "edited", "\"N\":3");
    scene_put(
        "OldBlogs", "p", "edited", "\"N\":4,\"TablewardSource\":\"a copy\"");
    scene_put("Blogs", "p", "same", "\"N\":5");
    scene_put("OldBlogs", "p", "same", "\"N\":5");
    run("all", RUN_FAILED);
    scene_check_keys("Blogs", "p/edited p/same ");
    scene_check_is("Blogs", "p", "edited", "{\"N\":3}");
    scene_check_is(
        "OldBlogs", "p", "edited", "{\"N\":4,\"TablewardSource\":\"a copy\"}");
    scene_check_reported("Blogs p/edited: another entity is at");
    scene_check_reported("Blogs p/same: an equal entity is at");
    assert_int_equal(h.failed, 2);
    assert_int_equal(w.writes[OPERATION_REPLACE], 0);
    assert_int_equal(w.writes[OPERATION_DELETE], 0);
}

/* The destination key of two sources has an entity already, equal to both
 * copies. */
FIXTURE_TEST(two_sources_with_one_key_and_an_equal_entity_there_both_stay)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "p", "r", "\"N\":1");
    run("one-key", RUN_FAILED);
    scene_check_keys("Blogs", "a/1 a/2 ");
    scene_check_is("OldBlogs", "p", "r", "{\"N\":1}");
    scene_check_reported("Blogs a/1");
    scene_check_reported("Blogs a/2");
}

FIXTURE_TEST(a_conflict_is_skipped_if_the_job_says_so)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    run("skip", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 a/2 ");
    assert_int_equal(h.skipped, 1);
}

/* ---- M1 ---- */

FIXTURE_TEST(of_two_sources_with_one_key_the_second_stays)
{
    static const char *const jobs[] = {
        "one-key", "one-key-skip", "one-key-accept"};

    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":1"); /* all properties are equal */
    for (size_t i = 0; i < 3; i++) {
        s.quiet = true;
        if (i > 0) {
            hosted_remove(&h, "OldBlogs", "p", "r");
            hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
        }
        s.quiet = false;
        run(jobs[i], RUN_FAILED);
        scene_check_keys("Blogs", "a/2 ");
        scene_check_reported(
            "Blogs a/2: another source, 'a' / '1', has the same "
            "destination key");
        assert_int_equal(h.failed, 1);
    }
}

/* Each source fills a load. The load of the first is still open when the second
 * is read: otherwise the copy of the first would be accepted as that of the
 * second, and of two equal sources only one entity would remain. */
FIXTURE_TEST(a_source_waits_for_the_open_load_that_has_its_key)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    buf_add_text(&text, "\"N\":1");
    for (int i = 0; i < 12; i++)
        buf_add_format(&text, ",\"P%d\":\"%030000d\"", i, i);
    scene_put("Blogs", "a", "1", buf_text(&text));
    scene_put("Blogs", "a", "2", buf_text(&text));
    buf_done(&text);
    run("one-key-accept", RUN_FAILED);
    scene_check_keys("Blogs", "a/2 ");
    scene_check_keys("OldBlogs", "p/r ");
    scene_check_reported("Blogs a/2: another source, 'a' / '1', has the same "
                         "destination key");
}

static void store_another_intent(void)
{
    hosted_table(&h, "TablewardRuns");
    hosted_put(&h, "TablewardRuns", INTENTS_PARTITION, met_key, "\"N\":1");
}

/* The key of an intent is fixed, so two attempts at one source table cannot
 * both store one. */
FIXTURE_TEST(a_second_owner_meets_the_intent_of_the_first)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_INSERT, 1, NOTHING, store_another_intent);
    hosted_forget(&h, "r1");
    assert_int_equal(hosted_attempt(&h, "all", "x"), RUN_TRY_AGAIN);
    assert_non_null(strstr(h.err.text, "another attempt"));
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "");
}

FIXTURE_TEST(the_key_of_an_intent_is_fixed)
{
    char first_key[sizeof(met_key)];

    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_INSERT, 1, NOTHING, NULL);
    w.last = 9; /* the table does not exist at the first insert */
    run("all", RUN_SUCCEEDED);
    memcpy(first_key, met_key, sizeof(first_key));
    met_key[0] = '\0';
    scene_put("Blogs", "b", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_INSERT, 1, NOTHING, NULL);
    run("away", RUN_SUCCEEDED);
    assert_string_equal(met_key, first_key);
}

/* ---- M2 ---- */

static void put_equal(void)
{
    hosted_put(&h, "OldBlogs", "a", "1", "\"N\":1");
}

FIXTURE_TEST(an_equal_entity_is_a_conflict_after_a_definite_answer)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, NOTHING, put_equal);
    run("all", RUN_FAILED);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_reported(
        "Blogs a/1: an equal entity is at 'a' / '1' in OldBlogs");
}

FIXTURE_TEST(after_an_unknown_insert_the_runs_own_copy_is_recognised)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, LOSE_ANSWER, NULL);
    hosted_table(&h, "OldBlogs");
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "a/1 ");
}

FIXTURE_TEST(after_an_unknown_insert_an_older_equal_entity_is_a_conflict)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    virtual_sleep(10000);
    when("OldBlogs", OPERATION_INSERT, 1, LOSE_REQUEST, NULL);
    run("all", RUN_FAILED);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_reported("it is unknown whether this run inserted it");
}

/* Of two equal sources the first was moved in an earlier load. The insert of
 * the second has an unknown outcome: the equal entity at its keys is the copy
 * of the first. */
FIXTURE_TEST(a_copy_of_an_equal_source_is_not_taken_for_the_runs_own)
{
    struct buf text;

    hosted_table(&h, "OldBlogs");
    for (int name = 'a'; name <= 'c'; name++) {
        buf_init(&text, 1024 * 1024);
        buf_add_format(&text, "\"N\":%d", name == 'b' ? 2 : 1);
        for (int i = 0; i < 12; i++) /* a load of its own */
            buf_add_format(&text, ",\"P%d\":\"%030000d\"", i, i);
        scene_put("Blogs", (char[]){(char)name, '\0'}, "1", buf_text(&text));
        buf_done(&text);
    }
    when("OldBlogs", OPERATION_INSERT, 3, LOSE_REQUEST, NULL);
    run("key-of-n", RUN_FAILED);
    scene_check_keys("Blogs", "c/1 ");
    scene_check_keys("OldBlogs", "1/1 2/1 ");
    scene_check_reported("it is unknown whether this run inserted it");
}

static void change_copy(void)
{
    hosted_replace(&h, "OldBlogs", "a", "1", "\"N\":7");
}

static void delete_copy(void)
{
    hosted_remove(&h, "OldBlogs", "a", "1");
}

FIXTURE_TEST(a_copy_that_is_not_read_back_as_it_was_sent_keeps_its_source)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, NOTHING, NULL);
    w.after = change_copy;
    run("all", RUN_FAILED);
    scene_check_is("Blogs", "a", "1", "{\"N\":1}");
    scene_check_is("OldBlogs", "a", "1", "{\"N\":7}");
    scene_check_reported(
        "its copy was changed by others before it was read back");
    scene_quietly(delete_copy());
    when("OldBlogs", OPERATION_INSERT, 1, NOTHING, NULL);
    w.after = delete_copy;
    run("all", RUN_FAILED);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_reported("its copy was deleted by others");
}

/* ---- M3 ---- */

static char state_at_delete[16];
static char list_at_delete[1024];

static void read_intent(void)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION))};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    struct slice text;

    page_init(&page);
    assert_ok(store_scan(inner, &exchange, &request, &page));
    assert_int_equal(page.count, 1);
    assert_true(property_text(
        entity_find(&page.entities[0], slice_of("State")), &page.arena, &text));
    snprintf(state_at_delete, sizeof(state_at_delete), "%.*s", SLICE_ARG(text));
    assert_true(property_text(
        entity_find(&page.entities[0], slice_of("Text")), &page.arena, &text));
    snprintf(list_at_delete, sizeof(list_at_delete), "%.*s", SLICE_ARG(text));
    page_done(&page);
}

FIXTURE_TEST(confirmed_pairs_are_stored_before_a_source_is_deleted)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "a", "2", "\"N\":3");
    when("Blogs", OPERATION_DELETE, 1, NOTHING, read_intent);
    run("all", RUN_FAILED);
    assert_string_equal(state_at_delete, "leaving");
    assert_int_equal(strncmp(list_at_delete, "a\t1\t", 4), 0);
    assert_null(strstr(list_at_delete, "\na\t2"));
    /* The ETag of the copy is the sixth field of the pair. */
    assert_non_null(strstr(list_at_delete, "\ta\t1\tW/"));
}

/* ---- M4, M5 ---- */

static void delete_source(void)
{
    hosted_remove(&h, "Blogs", "a", "1");
}

static void change_source(void)
{
    hosted_replace(&h, "Blogs", "a", "1", "\"N\":9");
}

FIXTURE_TEST(a_source_that_a_client_deleted_takes_its_copy_along)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 1, NOTHING, delete_source);
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "a/2 ");
}

FIXTURE_TEST(a_source_that_a_client_changed_is_copied_again)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 1, NOTHING, change_source);
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_is("OldBlogs", "a", "1", "{\"N\":9}");
}

FIXTURE_TEST(a_changed_source_with_another_key_is_copied_to_that_key)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 1, NOTHING, change_source);
    run("key-of-n", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "9/1 ");
}

static void delete_source_first(void)
{
    w.act = NOTHING;
    delete_source();
}

static void meet_the_delete(void)
{
    w.table = "Blogs";
    w.type = OPERATION_DELETE;
    w.seen = 0;
    w.before = delete_source_first;
    w.after = NULL;
}

/* After one unknown outcome the copy is never provably the run's own: another
 * program may have inserted it. */
FIXTURE_TEST(after_an_unknown_insert_a_copy_outlives_its_source)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, LOSE_ANSWER, NULL);
    w.after = meet_the_delete;
    run("all", RUN_FAILED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "a/1 ");
    scene_check_reported("the copy is not provably this run's: the copy stays");
}

/* The delete was carried out, so the copy is the only entity left: it stays. */
FIXTURE_TEST(after_an_unknown_delete_an_absent_source_is_done)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 1, LOSE_ANSWER, NULL);
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "a/1 ");
}

FIXTURE_TEST(after_an_unknown_delete_another_etag_leaves_both)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 1, LOSE_REQUEST, change_source);
    run("all", RUN_FAILED);
    scene_check_is("Blogs", "a", "1", "{\"N\":9}");
    scene_check_is("OldBlogs", "a", "1", "{\"N\":1}");
    scene_check_reported("Blogs a/1: the source was changed by others");
    assert_int_equal(intents(), 0);
}

/* ---- M6 ---- */

FIXTURE_TEST(an_interrupted_load_is_finished)
{
    static const struct {
        const char *table;
        enum operation_type type;
        enum act act;
    } cases[] = {
        {"OldBlogs", OPERATION_INSERT, CRASH_BEFORE},
        {"OldBlogs", OPERATION_INSERT, CRASH_AFTER},
        {"TablewardRuns", OPERATION_INSERT, CRASH_AFTER},
        {"TablewardRuns", OPERATION_REPLACE, CRASH_BEFORE},
        {"TablewardRuns", OPERATION_REPLACE, CRASH_AFTER},
        {"Blogs", OPERATION_DELETE, CRASH_BEFORE},
        {"Blogs", OPERATION_DELETE, CRASH_AFTER},
        {"TablewardRuns", OPERATION_DELETE, CRASH_BEFORE},
        {"TablewardRuns", OPERATION_DELETE, CRASH_AFTER},
    };

    hosted_table(&h, "OldBlogs");
    hosted_table(&h, "TablewardRuns");
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char row_key[8];

        snprintf(row_key, sizeof(row_key), "%zu", i);
        scene_put("Blogs", "a", row_key, "\"N\":1");
        when(cases[i].table, cases[i].type, 1, cases[i].act, NULL);
        crash("all");
        take_over("all", RUN_SUCCEEDED);
        scene_check_keys("Blogs", "");
        scene_check_is("OldBlogs", "a", row_key, "{\"N\":1}");
        assert_int_equal(intents(), 0);
    }
}

FIXTURE_TEST(after_a_crash_a_copy_without_its_source_stays_and_is_named)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_BEFORE, NULL);
    crash("all");
    scene_quietly(delete_source());
    take_over("all", RUN_FAILED);
    scene_check_keys("OldBlogs", "a/1 ");
    scene_check_reported(
        "Blogs a/1: the source was deleted while a move was "
        "interrupted: its copy stays; its destination is 'a' / '1' in "
        "OldBlogs");
    assert_int_equal(h.failed, 1);
    assert_int_equal(intents(), 0);
}

FIXTURE_TEST(after_a_crash_a_changed_source_and_its_copy_both_stay)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_BEFORE, NULL);
    crash("all");
    scene_quietly(change_source());
    take_over("all", RUN_FAILED);
    scene_check_is("Blogs", "a", "1", "{\"N\":9}");
    scene_check_is("OldBlogs", "a", "1", "{\"N\":1}");
    scene_check_reported("both stay");
    assert_int_equal(h.failed, 1);
    for (int type = 0; type < 4; type++)
        assert_int_equal(w.writes[type], 0);
}

FIXTURE_TEST(what_was_named_is_not_forgotten_by_the_next_attempt)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_BEFORE, NULL);
    crash("all");
    scene_quietly(delete_source());
    when("TablewardRuns", OPERATION_DELETE, 1, CRASH_AFTER, NULL);
    assert_int_equal(hosted_attempt(&h, "all", "x"), RUN_LEASE_LOST);
    assert_non_null(strstr(h.checkpoint, "\"named\":1"));
    assert_string_equal(h.phase, "move");
}

/* ---- M7, M8 ---- */

FIXTURE_TEST(intents_are_taken_over_by_their_destination_too)
{
    hosted_table(&h, "Older");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_AFTER, NULL);
    crash("all");
    run("onward", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "");
    scene_check_keys("Older", "a/1 ");
    assert_int_equal(intents(), 0);
}

/* Changes one property of the stored intent. */
static void edit_intent(const char *property, const char *value)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION))};
    struct operation operation = {.type = OPERATION_REPLACE};
    const struct batch batch = {"TablewardRuns", &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;
    struct page page;

    page_init(&page);
    assert_ok(store_scan(inner, &exchange, &request, &page));
    assert_int_equal(page.count, 1);
    entity_copy(&operation.entity, &page.arena, &page.entities[0]);
    entity_set_string(
        &operation.entity, &page.arena, property, slice_of(value));
    assert_ok(store_batch(inner, &exchange, &batch, &result));
    page_done(&page);
}

FIXTURE_TEST(an_intent_of_a_store_that_is_gone_is_removed_and_named)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, CRASH_AFTER, NULL);
    hosted_table(&h, "OldBlogs");
    crash("all");
    edit_intent("DestinationAccount", "another");
    take_over("all", RUN_FAILED);
    scene_check_reported(
        "Blogs a/1: a move of this entity was interrupted, and a store "
        "of that move is no longer configured");
    assert_int_equal(intents(), 0);
}

FIXTURE_TEST(an_intent_that_nothing_but_the_job_knows_is_removed_and_named)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, CRASH_AFTER, NULL);
    crash("all");
    edit_intent("SourceAccount", "another");
    edit_intent("DestinationAccount", "another");
    edit_intent("Run", "an-earlier-run");
    take_over("all", RUN_FAILED);
    scene_check_reported("no longer configured");
    assert_int_equal(intents(), 0);
}

/* The run that stored the intent is held until the former configuration is
 * restored. */
FIXTURE_TEST(an_intent_of_another_open_run_stays_without_its_stores)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, CRASH_AFTER, NULL);
    crash("all");
    edit_intent("SourceAccount", "another");
    edit_intent("DestinationAccount", "another");
    edit_intent("Run", "a-held-run");
    scene_remove("OldBlogs", "a", "1");
    scene_remove("Blogs", "a", "1"); /* else its load has the intent's RowKey */
    h.other_open = true;
    take_over("all", RUN_SUCCEEDED);
    assert_int_equal(intents(), 1);
    h.other_open = false;
    take_over("all", RUN_FAILED);
    scene_check_reported("no longer configured");
    assert_int_equal(intents(), 0);
}

/* ---- the stores of an intent ---- */

/* Two stores: main has an account of its own, other is the store in which the
 * intent's entities are. No job uses other, so that it is opened by open(). */
static struct store *apart[2];
static enum tw_err opens;

static enum tw_err open_other(
    void *owner, size_t index, struct store **ret, struct err *err)
{
    assert_ptr_equal(owner, apart);
    assert_int_equal(index, 1);
    if (opens != TW_OK)
        return err_fail(err, opens, "other: it cannot be opened");
    *ret = &w.outer.store;
    return TW_OK;
}

/* The run's job now moves the tables of another store. */
static void leave_in_another_store(
    struct interposed *elsewhere, const char *named)
{
    static const char *const names[] = {"main", "other"};

    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_AFTER, NULL);
    crash("all");
    edit_intent("SourceStore", named);
    edit_intent("DestinationStore", named);
    interposed_init(elsewhere, "main", inner, pass);
    elsewhere->store.capabilities.identity = "elsewhere";
    elsewhere->store.capabilities.endpoint = "elsewhere";
    apart[0] = &elsewhere->store;
    apart[1] = NULL;
    h.stores = (struct job_stores){.count = 2,
        .names = names,
        .stores = apart,
        .open = open_other,
        .owner = apart};
    h.ledger = &w.outer.store;
    opens = TW_OK;
}

static void end_apart(void)
{
    h.ledger = NULL;
    h.stores = (struct job_stores){
        .count = 1, .names = &h.store_name, .stores = &h.store};
}

FIXTURE_TEST(a_store_that_no_job_uses_is_opened_for_its_intent)
{
    static const char *const named[] = {"other", "former-name"};
    struct interposed elsewhere;

    for (size_t i = 0; TEST_EACH(i, named); i++) {
        leave_in_another_store(&elsewhere, named[i]);
        take_over("all", RUN_SUCCEEDED);
        end_apart();
        assert_int_equal(intents(), 0);
        scene_check_keys("Blogs", "");
        scene_check_keys("OldBlogs", "a/1 ");
        scene_remove("OldBlogs", "a", "1");
    }
}

/* Its file may be on a disk that is not mounted. */
FIXTURE_TEST(an_intent_waits_for_a_store_that_cannot_be_opened)
{
    static const struct {
        const char *named;
        enum tw_err opens;
        enum run_end end;
        unsigned intents;
    } cases[] = {
        {"other", TW_INVALID, RUN_OUTAGE, 1},
        {"other", TW_NOT_FOUND, RUN_OUTAGE, 1},
        {"former-name", TW_FULL, RUN_OUTAGE, 1},
        {"former-name", TW_NOT_FOUND, RUN_FAILED, 0},
    };
    struct interposed elsewhere;

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        leave_in_another_store(&elsewhere, cases[i].named);
        opens = cases[i].opens;
        take_over("all", cases[i].end);
        if (cases[i].intents > 0)
            assert_non_null(strstr(h.err.text, "it cannot be opened"));
        end_apart();
        assert_int_equal(intents(), cases[i].intents);
        scene_check_keys("Blogs", "a/1 ");
        scene_check_keys("OldBlogs", "a/1 ");
        take_over("all", cases[i].intents > 0 ? RUN_SUCCEEDED : RUN_FAILED);
        scene_remove("OldBlogs", "a", "1");
        if (cases[i].intents == 0)
            scene_remove("Blogs", "a", "1");
    }
}

/* Rule M7: the intent of another job is that of the same tables, if its account
 * is this one's under another host. */
FIXTURE_TEST(an_intent_under_another_host_of_the_account_is_taken_over)
{
    static const struct {
        const char *wrote, *runs;
        unsigned left;
    } cases[] = {{"acct", "ACCT", 0}, {"acct", "other", 1}, {NULL, "acct", 1}};
    struct interposed elsewhere;

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        w.outer.store.capabilities.account_name = cases[i].wrote;
        leave_in_another_store(&elsewhere, "other");
        elsewhere.store.capabilities.account_name = cases[i].runs;
        edit_intent("Job", "former");
        take_over("all", cases[i].left > 0 ? RUN_FAILED : RUN_SUCCEEDED);
        end_apart();
        w.outer.store.capabilities.account_name = NULL;
        assert_int_equal(intents(), cases[i].left);
        if (cases[i].left > 0) {
            scene_check_reported("an equal entity is at");
            edit_intent("Job", "all");
            take_over("all", RUN_SUCCEEDED);
        }
        scene_check_keys("Blogs", "");
        scene_check_keys("OldBlogs", "a/1 ");
        scene_remove("OldBlogs", "a", "1");
    }
}

FIXTURE_TEST(an_intent_of_a_former_endpoint_of_the_account_stays)
{
    w.outer.store.capabilities.account_name = "acct";
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_AFTER, NULL);
    crash("all");
    edit_intent("SourceAccount", "acct.private.example");
    take_over("all", RUN_FAILED);
    assert_non_null(strstr(h.err.text,
        "at endpoint acct.private.example. No store has this endpoint now"));
    assert_string_equal(reports, "");
    assert_int_equal(intents(), 1);
    w.outer.store.capabilities.account_name = NULL;
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* A file and its copy have one identity. The name in the intent decides; if no
 * store has this name, nothing does. */
FIXTURE_TEST(of_two_stores_with_one_identity_the_named_one_is_meant)
{
    struct interposed elsewhere, twin;

    leave_in_another_store(&elsewhere, "former-name");
    interposed_init(&twin, "other", inner, pass);
    elsewhere.store.capabilities.identity = twin.store.capabilities.identity =
        "twin";
    twin.store.capabilities.endpoint = "its copy";
    apart[1] = &twin.store;
    edit_intent("SourceAccount", "twin");
    edit_intent("DestinationAccount", "twin");
    take_over("all", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "different files or endpoints"));
    assert_non_null(strstr(h.err.text, "the stores main and other"));
    assert_int_equal(intents(), 1);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
    edit_intent("SourceStore", "other");
    edit_intent("DestinationStore", "other");
    take_over("all", RUN_SUCCEEDED);
    end_apart();
    assert_int_equal(intents(), 0);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* An entity with the ETag of the source is the source, under another table
 * name. */
FIXTURE_TEST(the_source_itself_is_never_taken_for_its_copy)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, CRASH_BEFORE, NULL);
    crash("all");
    edit_intent("DestinationTable", "Blogs");
    take_over("all", RUN_SUCCEEDED);
    scene_check_keys("OldBlogs", "a/1 ");
}

FIXTURE_TEST(a_run_that_stops_finishes_its_load)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    for (int64_t at = 0; at < 6; at++) {
        hosted_forget(&h, "r1");
        h.stop_after = at;
        (void)hosted_attempt(&h, "all", "x");
        assert_int_equal(intents(), 0);
    }
    run("all", RUN_SUCCEEDED);
    scene_check_keys("OldBlogs", "a/1 ");
}

FIXTURE_TEST(a_damaged_intent_fails_the_run_and_nothing_is_touched)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_AFTER, NULL);
    crash("all");
    edit_intent("Text", "a\t1\n");
    take_over("all", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "is damaged: nothing was changed"));
    assert_non_null(strstr(h.err.text, "!intents/"));
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
    assert_int_equal(intents(), 1);
}

FIXTURE_TEST(a_list_that_was_edited_is_a_damaged_intent)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, CRASH_BEFORE, NULL);
    hosted_table(&h, "OldBlogs");
    crash("all");
    read_intent();
    assert_int_equal(strncmp(list_at_delete, "a\t1\t", 4), 0);
    list_at_delete[2] = '7'; /* another source */
    edit_intent("Text", list_at_delete);
    take_over("all", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "is damaged"));
    scene_check_keys("OldBlogs", "");
}

/* An intent in state `leaving` has the ETag of the copy: an entity with another
 * ETag is not the run's copy any more. */
FIXTURE_TEST(a_copy_that_was_edited_after_a_crash_keeps_its_source)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_AFTER, NULL);
    crash("all");
    scene_quietly(change_copy());
    take_over("all", RUN_FAILED);
    scene_check_is("Blogs", "a", "1", "{\"N\":1}");
    scene_check_is("OldBlogs", "a", "1", "{\"N\":7}");
    scene_check_reported(
        "Blogs a/1: another entity is at 'a' / '1' in OldBlogs");
}

/* ---- M9 ---- */

FIXTURE_TEST(an_equal_entity_is_accepted_if_the_job_says_so)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    scene_put("OldBlogs", "a", "2", "\"N\":3");
    run("accept", RUN_FAILED);
    scene_check_keys("Blogs", "a/2 ");
    scene_check_is("OldBlogs", "a", "1", "{\"N\":1}");
    scene_check_is("OldBlogs", "a", "2", "{\"N\":3}");
    scene_check_reported("Blogs a/2: another entity is at");
    assert_int_equal(h.failed, 1);
}

FIXTURE_TEST(what_was_accepted_is_not_deleted_with_its_source)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 1, NOTHING, delete_source);
    run("accept", RUN_FAILED);
    scene_check_keys("OldBlogs", "a/1 ");
    scene_check_reported("the copy stays");
}

/* ---- M10 ---- */

FIXTURE_TEST(index_rows_are_passed_by)
{
    struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {"Blogs", &operation, 1};
    struct source source = {.job = slice_of("by-size"),
        .by = slice_of("00000000"),
        .from = source_table_of(inner, "Blogs"),
        .at = source_table_of(inner, "Blogs"),
        .partition_key = slice_of("a"),
        .row_key = slice_of("1"),
        .etag = slice_of("e")};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;

    scene_put("Blogs", "a", "1", "\"N\":1");
    entity_init(&operation.entity, &h.arena, slice_of("a"), slice_of("size:1"));
    source_stamp(&operation.entity, &source, &h.arena);
    assert_ok(store_batch(inner, &exchange, &batch, &result));
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "a/size:1 ");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* ---- A4 ---- */

FIXTURE_TEST(what_may_arrive_late_is_waited_for_before_leaving)
{
    int64_t began_ms;

    hosted_table(&h, "OldBlogs");
    h.store->capabilities.late_writes = true;
    scene_put("Blogs", "a", "1", "\"N\":1");
    began_ms = platform_boot_ms();
    run("all", RUN_SUCCEEDED);
    assert_true(platform_boot_ms() - began_ms < 1000);
    scene_put("Blogs", "a", "2", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, LOSE_ANSWER, NULL);
    began_ms = platform_boot_ms();
    run("all", RUN_SUCCEEDED);
    assert_true(platform_boot_ms() - began_ms >= 30000);
    scene_check_keys("OldBlogs", "a/1 a/2 ");
}

static int64_t met_ms;

static void note_time(void)
{
    met_ms = platform_boot_ms();
}

/* Otherwise an insert of the previous attempt could arrive after its pair was
 * decided. */
FIXTURE_TEST(a_take_over_waits_for_what_may_arrive_late)
{
    int64_t began_ms;

    hosted_table(&h, "OldBlogs");
    h.store->capabilities.late_writes = true;
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, CRASH_AFTER, NULL);
    crash("all");
    began_ms = platform_boot_ms();
    when("TablewardRuns", OPERATION_REPLACE, 1, NOTHING, note_time);
    take_over("all", RUN_SUCCEEDED);
    assert_true(met_ms - began_ms >= 30000);
    scene_check_keys("OldBlogs", "a/1 ");
}

/* The intent of the crashed attempt is under way, and the ledger cannot be read
 * once. */
FIXTURE_TEST(what_may_arrive_late_is_known_until_it_was_waited_for)
{
    int64_t began_ms;

    hosted_table(&h, "OldBlogs");
    h.store->capabilities.late_writes = true;
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_INSERT, 1, CRASH_BEFORE, NULL);
    crash("all");
    w.closed = true;
    take_over("all", RUN_OUTAGE);
    w.closed = false;
    h.previous_owner_crashed = false;
    began_ms = platform_boot_ms();
    take_over("all", RUN_SUCCEEDED);
    assert_true(platform_boot_ms() - began_ms >= 30000);
    assert_non_null(strstr(h.checkpoint, "\"late\":false"));
    scene_check_keys("OldBlogs", "a/1 ");
}

/* ---- loads ---- */

static void put_many(const char *partition_key, unsigned count)
{
    scene_quietly(hosted_fill(&h, "Blogs", partition_key, count));
}

/* Beside those to the ledger, a move needs at most these requests: its pages;
 * for each load 4; for each started hundred of a destination partition 2; for
 * each started hundred of a source partition 1. */
FIXTURE_TEST(a_move_needs_few_requests)
{
    unsigned budget;

    hosted_table(&h, "OldBlogs");
    put_many("a", 1250);
    put_many("b", 850);
    put_many("c", 1);
    run("all", RUN_SUCCEEDED);
    assert_int_equal(w.writes[OPERATION_INSERT], 2101);
    budget = w.pages + 3 * 4 + 3 * (13 + 9 + 1 + 2);
    /* A round makes up to two requests more, such as for the clock. */
    if (w.requests > budget + 2 * h.passes)
        fail_msg("%u requests, %u of them pages; at most %u", w.requests,
            w.pages, budget);
    s.quiet = true;
    assert_int_equal(hosted_count(&h, "OldBlogs"), 2101);
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    s.quiet = false;
}

FIXTURE_TEST(the_largest_entities_are_moved)
{
    struct buf properties;

    buf_init(&properties, 8 * 1024 * 1024);
    for (int i = 0; i < 252; i++)
        buf_add_format(
            &properties, "%s\"P%03d\":\"%01500d\"", i > 0 ? "," : "", i, i);
    for (int name = '1'; name <= '9'; name++)
        scene_put("Blogs", "large", (char[]){(char)name, '\0'},
            buf_text(&properties));
    buf_done(&properties);
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs",
        "large/1 large/2 large/3 large/4 large/5 large/6 large/7 "
        "large/8 large/9 ");
}

FIXTURE_TEST(an_attempt_continues_where_the_last_one_stopped)
{
    put_many("a", 2500);
    hosted_forget(&h, "r1");
    h.stop_after = 3;
    assert_int_equal(hosted_attempt(&h, "all", "x"), RUN_STOPPED);
    assert_non_null(strstr(h.checkpoint, "\"done\":[\"a\",\"b0"));
    assert_int_equal(intents(), 0);
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "all", "x"), RUN_SUCCEEDED);
    scene_quietly(assert_int_equal(hosted_count(&h, "OldBlogs"), 2500));
}

static void put_third(void)
{
    hosted_put(&h, "Blogs", "c", "1", "\"N\":1");
}

static void put_second(void)
{
    hosted_put(&h, "Blogs", "b", "1", "\"N\":1");
    when("Blogs", OPERATION_DELETE, 2, NOTHING, put_third);
}

FIXTURE_TEST(sources_written_during_the_last_round_are_behind)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    when("OldBlogs", OPERATION_INSERT, 1, NOTHING, put_second);
    run("all", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "c/1 ");
    assert_int_equal(h.behind, 1);
}

static void put_another(void)
{
    hosted_put(&h, "Blogs", "b", "1", "\"N\":1");
}

/* Rule A2: the last round has moved a source, and reports another one. */
FIXTURE_TEST(sources_that_are_named_are_not_behind)
{
    hosted_table(&h, "OldBlogs");
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("OldBlogs", "a", "1", "\"N\":2");
    when("OldBlogs", OPERATION_INSERT, 1, NOTHING, put_another);
    run("all", RUN_FAILED);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 b/1 ");
    assert_int_equal(h.failed, 1);
    assert_int_equal(h.behind, 0);
}

/* ---- dry run and verification ---- */

FIXTURE_TEST(a_dry_run_counts_and_writes_nothing)
{
    struct job_estimate estimate;

    put_many("a", 150);
    scene_put("Blogs", "b", "x", "\"T\":1");
    assert_ok(hosted_estimate(&h, "key-of-n", "x", &estimate));
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
    assert_int_equal(w.writes[OPERATION_INSERT], 0);
}

static struct job_verification verify(const char *name)
{
    const struct job *job = jobs_find(&h.jobs, slice_of(name));
    struct job_verification found = {.count = 0};
    struct err err;
    struct run run = {.job = name,
        .request_pool = pool_client_new(h.request_pool, NULL),
        .ledger = h.store,
        .ledger_table = "TablewardRuns"};

    arena_init(&found.arena);
    assert_ok(job->kind->verify(job, &h.stores, &run, &found, &err));
    pool_client_free(run.request_pool);
    return found;
}

FIXTURE_TEST(verification_finds_sources_and_intents_that_are_left)
{
    struct job_verification found;

    scene_put("Blogs", "a", "1", "\"N\":1");
    when("TablewardRuns", OPERATION_REPLACE, 1, CRASH_AFTER, NULL);
    crash("all");
    found = verify("all");
    assert_int_equal(found.count, 2);
    assert_int_equal(found.differences[0].count, 1);
    assert_string_equal(found.differences[0].first_keys[0], "Blogs a/1");
    assert_int_equal(found.differences[1].count, 1);
    arena_done(&found.arena);
    take_over("all", RUN_SUCCEEDED);
    found = verify("all");
    assert_int_equal(found.differences[0].count, 0);
    assert_int_equal(found.differences[1].count, 0);
    arena_done(&found.arena);
}
