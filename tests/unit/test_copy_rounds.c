/* SPDX-License-Identifier: MIT */
/* The rounds of a copy: what they read and write, which sources are behind,
 * late requests, two names of one account, and attempts that end anywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/copy/checkpoint.h"
#include "jobs/copy/source.h"
#include "jobs/copy/work.h"
#include "jobs/engine/late.h"
#include "jobs/engine/rounds.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

static const char JOBS[] = "by-size:\n"
                           "  kind: copy\n"
                           "  from: {table: Shoes}\n"
                           "  to: {table: BySize, partition_key: \"{Size}\"}\n";

static struct hosted h;
static struct faulty faulty;
static struct store *stores[2];

/* The fault of batches number batch_from to batch_below - 1; the first batch is
 * number 0. */
static enum fault batch_fault;
static unsigned batch_from, batch_below;
/* Called before each batch. */
static void (*on_batch)(const struct batch *batch);
/* kills: the attempt is killed at the request that follows the first late
 * request. */
static bool kills;

FAULTY_CHOICE(choose)
{
    if (kills && faulty.met[FAULT_LATE] > 0 && h.deadline)
        deadline_close(h.deadline);
    return call == CALL_BATCH && n >= batch_from && n < batch_below
               ? batch_fault
               : FAULT_NONE;
}

static void before(void *ctx, const struct batch *batch)
{
    if (on_batch)
        on_batch(batch);
}

static int set_up(void **state)
{
    hosted_begin(&h, JOBS, "Shoes BySize");
    faulty_init(&faulty, h.store);
    faulty.choose = choose;
    faulty.before = before;
    faulty.outer.store.capabilities.late_writes = true;
    stores[0] = &faulty.outer.store;
    h.stores.stores = stores;
    batch_below = 0;
    on_batch = NULL;
    kills = false;
    return 0;
}

static const char *shoe_of(int size)
{
    static char properties[64];

    snprintf(
        properties, sizeof(properties), "\"Size\":%d,\"V\":%d", size, size);
    return properties;
}

static void shoe(const char *row_key, int size)
{
    hosted_put(&h, "Shoes", "p", row_key, shoe_of(size));
}

static int tear_down(void **state)
{
    faulty_done(&faulty);
    hosted_done(&h);
    return 0;
}

static int set_up_shoe(void **state)
{
    (void)set_up(state);
    shoe("a", 1);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)
/* A test that begins with one source, shoe a of size 1. */
#define SHOE_TEST(name) TEST_IN(name, set_up_shoe, tear_down)

/* Puts `count` sources k00000, k00001, ... with sizes below `sizes`. */
static void many_shoes(int count, int sizes)
{
    for (int i = 0; i < count; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%05d", i);
        shoe(key, i % sizes);
    }
}

static void check_copies(const char *dump)
{
    assert_string_equal(hosted_dump(&h, "BySize"), dump);
}

static void succeeds(const char *job)
{
    if (hosted_run(&h, job, "") != RUN_SUCCEEDED)
        fail_msg("%s ended %d: %s", job, (int)h.end, h.err.text);
}

static void new_run(const char *id)
{
    hosted_forget(&h, id);
    h.written = h.deleted = 0;
}

/* ---- A1, A2, A3: rounds ---- */

SHOE_TEST(a_run_has_at_least_two_rounds)
{
    int64_t began = platform_wall_ticks();

    succeeds("by-size");
    assert_int_equal(h.passes, 2);
    assert_int_equal(h.behind, 0);
    assert_true(h.caught_up_ticks >= began - 5 * TICKS_PER_S);
    assert_true(h.caught_up_ticks <= platform_wall_ticks() - 5 * TICKS_PER_S);
}

static bool changed;

static bool is_of_copies(const struct batch *batch)
{
    return strcmp(batch->table, "BySize") == 0;
}

static void change_once(const struct batch *batch)
{
    if (is_of_copies(batch) && !changed)
        hosted_replace(&h, "Shoes", "p", "a", shoe_of(2));
    changed |= is_of_copies(batch);
}

/* The copy has the former content of the source; the last round repairs it. */
SHOE_TEST(a_source_that_changes_in_the_first_round_is_repaired)
{
    changed = false;
    on_batch = change_once;
    succeeds("by-size");
    check_copies("2/a ");
    assert_int_equal(h.behind, 0);
}

static void change_each_time(const struct batch *batch)
{
    static int size = 10;

    if (is_of_copies(batch))
        hosted_replace(&h, "Shoes", "p", "a", shoe_of(size++));
}

/* Continuous writers never make a run fail (rule A2). */
SHOE_TEST(a_source_that_changes_after_its_repair_is_behind)
{
    shoe("b", 2);
    on_batch = change_each_time;
    succeeds("by-size");
    assert_int_equal(h.behind, 1);
    on_batch = NULL;
    new_run("r2");
    succeeds("by-size");
    assert_int_equal(h.behind, 0);
}

static unsigned refused_scan, scan_number;

FAULTY_CHOICE(refuse_one_scan)
{
    return call == CALL_SCAN && scan_number++ == refused_scan ? FAULT_REFUSED
                                                              : FAULT_NONE;
}

/* In each attempt another page is refused, from the first page to the last.
 * Some of the pages are read only to count the sources that are behind. */
SHOE_TEST(a_page_that_is_refused_ends_the_attempt)
{
    enum run_end end = RUN_OUTAGE;

    faulty.choose = refuse_one_scan;
    for (refused_scan = 0; end != RUN_SUCCEEDED; refused_scan++) {
        new_run("r");
        hosted_replace(&h, "Shoes", "p", "a", shoe_of(1));
        scan_number = 0;
        on_batch = change_each_time;
        end = hosted_attempt(&h, "by-size", "");
        assert_int_equal(
            end, scan_number > refused_scan ? RUN_OUTAGE : RUN_SUCCEEDED);
        on_batch = NULL;
        scan_number = refused_scan + 1; /* no other is refused */
        succeeds("by-size");
        assert_int_equal(hosted_count(&h, "BySize"), 1);
    }
    assert_true(refused_scan > 3);
}

/* ---- A4: late requests ---- */

/* Makes an attempt that does not succeed, and whose first `batches` batches
 * arrive late. Then deletes the source. */
static void leave_late_inserts(unsigned batches)
{
    batch_fault = FAULT_LATE;
    batch_from = 0;
    batch_below = batches;
    faulty.late_ms = STORE_LATE_REQUEST_MS - 5000;
    assert_int_not_equal(hosted_attempt(&h, "by-size", ""), RUN_SUCCEEDED);
    batch_below = 0;
    hosted_remove(&h, "Shoes", "p", "a");
}

/* An insert of a killed attempt arrives after its source was deleted. */
SHOE_TEST(a_late_insert_of_a_killed_attempt_leaves_no_copy)
{
    kills = true;
    leave_late_inserts(1);
    kills = false;
    mem_free(h.checkpoint);
    h.checkpoint = NULL;
    h.previous_owner_crashed = true;
    succeeds("by-size");
    faulty_land(&faulty, INT64_MAX);
    check_copies("");
    assert_int_equal(faulty.changed_late, 1);
    assert_int_equal(h.deleted, 1);
}

static void stop_at_batch(const struct batch *batch)
{
    if (is_of_copies(batch))
        h.stop_after = h.stopping_calls;
}

/* An insert of a stopped attempt arrives after its source was deleted. The
 * checkpoint of that attempt says that the insert may still arrive. */
SHOE_TEST(a_late_insert_of_a_stopped_attempt_leaves_no_copy)
{
    on_batch = stop_at_batch;
    leave_late_inserts(1000);
    assert_non_null(strstr(h.checkpoint, "\"late\":true"));
    on_batch = NULL;
    h.stop_after = -1;
    succeeds("by-size");
    faulty_land(&faulty, INT64_MAX);
    check_copies("");
}

SHOE_TEST(nothing_is_waited_for_if_every_outcome_is_known)
{
    int64_t took_ms = STORE_LATE_REQUEST_MS;

    /* STORE_LATE_REQUEST_MS lasts 0.3 s in this test. A slow machine may take
     * longer once, but not in each of ten tries. */
    for (int i = 0; i < 10 && took_ms >= STORE_LATE_REQUEST_MS; i++) {
        int64_t began_ms = platform_boot_ms();
        char id[8];

        (void)snprintf(id, sizeof(id), "t%d", i);
        new_run(id);
        if (i > 0)
            hosted_remove(&h, "BySize", "1", "a");
        succeeds("by-size");
        assert_int_equal(h.written, 1);
        took_ms = platform_boot_ms() - began_ms;
    }
    assert_true(took_ms < STORE_LATE_REQUEST_MS);
}

/* ---- attempts that end anywhere ---- */

/* A round keeps its comparison in memory only, so an interrupted round begins
 * again. After several interruptions it runs without a comparison, with
 * checkpoints. */
SHOE_TEST(a_comparison_that_never_completes_is_done_without)
{
    shoe("b", 2);
    succeeds("by-size");
    new_run("r2");
    hosted_replace(&h, "Shoes", "p", "a", shoe_of(5));
    hosted_remove(&h, "Shoes", "p", "b");
    h.previous_owner_crashed = false;
    for (int i = 0; i < 3; i++) {
        h.stop_after = 0;
        assert_int_equal(hosted_attempt(&h, "by-size", ""), RUN_STOPPED);
    }
    assert_non_null(strstr(h.checkpoint, "\"mode\":2"));
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "by-size", ""), RUN_STOPPED);
    assert_non_null(strstr(h.checkpoint, "\"mode\":3"));
    h.stop_after = -1;
    succeeds("by-size");
    check_copies("5/a ");
}

/* Returns the number in the key after which the checkpoint resumes; -1: the
 * checkpoint has no key. */
static int resumes_at(const char *checkpoint)
{
    struct rounds rounds;
    struct copy_progress at;
    struct arena arena;
    int reached;

    arena_init(&arena);
    assert_true(
        copy_checkpoint_read(slice_of(checkpoint), &arena, &rounds, &at));
    reached = at.resumes ? atoi(at.row_key.at + 1) : -1;
    arena_done(&arena);
    return reached;
}

static void stop_after_1000(struct hosted *host)
{
    if (resumes_at(host->checkpoint) >= 1000)
        host->stop_after = 0;
}

/* The copies have so many partitions that most of them wait in the sorter. */
FIXTURE_TEST(what_lies_before_the_checkpoint_is_copied)
{
    enum { COUNT = 20000, PARTITIONS = 50 };
    char key[16], size[16];
    int reached;

    many_shoes(COUNT, PARTITIONS);
    h.saved = stop_after_1000;
    assert_int_equal(hosted_attempt(&h, "by-size", ""), RUN_STOPPED);
    h.saved = NULL;
    reached = resumes_at(h.checkpoint);
    assert_in_range(reached, 1000, COUNT - 2);
    for (int i = 0; i <= reached; i++) {
        snprintf(key, sizeof(key), "k%05d", i);
        snprintf(size, sizeof(size), "%d", i % PARTITIONS);
        assert_true(hosted_has(&h, "BySize", size, key));
    }
    assert_true((int)hosted_count(&h, "BySize") < COUNT);
    h.stop_after = -1;
    succeeds("by-size");
    assert_int_equal(hosted_count(&h, "BySize"), COUNT);
}

/* ---- C5: two names of one account ---- */

struct alias {
    struct interposed outer;
    bool hides_probe;
};

static enum tw_err meet_alias(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct alias *alias = (struct alias *)self;

    if (alias->hides_probe && request->call == CALL_GET &&
        strcmp(request->name, "TablewardProbe") == 0) {
        exchange->date_ticks = platform_wall_ticks();
        return err_fail(&exchange->err, TW_NOT_FOUND, "no such entity");
    }
    return request_send(self->inner, exchange, request);
}

static const char *const NAMES[] = {"main", "other"};

static const char ALIASES[] = "away:\n"
                              "  kind: copy\n"
                              "  from: {store: main, table: Shoes}\n"
                              "  to: {store: other, table: Shoes}\n"
                              "  on_conflict: replace\n";

static void use_alias(struct alias *alias, bool hides_probe)
{
    interposed_init(&alias->outer, "other", h.store, meet_alias);
    alias->hides_probe = hides_probe;
    faulty.outer.store.capabilities.kind = "azure";
    faulty.outer.store.capabilities.identity = "127.0.0.1:10002/account";
    alias->outer.store.capabilities.kind = "azure";
    alias->outer.store.capabilities.identity = "localhost:10002/account";
    alias->outer.store.capabilities.endpoint = NULL;
    stores[1] = &alias->outer.store;
    h.stores = (struct job_stores){
        .count = 2, .names = NAMES, .stores = stores, .by_default = 0};
    hosted_load(&h, ALIASES);
}

/* Makes an attempt in which two stores are one account. The attempt must fail,
 * and the source, which would be its own copy, must stay as it is. */
static void fails_by_alias(bool hides_probe)
{
    const char *was = hosted_json(&h, "Shoes", "p", "a");
    struct alias alias;

    use_alias(&alias, hides_probe);
    assert_int_equal(hosted_attempt(&h, "away", ""), RUN_FAILED);
    assert_string_equal(hosted_json(&h, "Shoes", "p", "a"), was);
}

SHOE_TEST(one_account_under_two_names_is_refused)
{
    fails_by_alias(false);
    assert_non_null(strstr(h.err.text, "one account"));
}

SHOE_TEST(an_entity_with_its_sources_etag_is_never_overwritten)
{
    fails_by_alias(true);
    assert_non_null(strstr(h.failed_why, "the ETag of the source"));
}

/* The table was copied from another account together with this job's copies.
 * Now both store names lead to this account, and the job selects none of the
 * sources. */
FIXTURE_TEST(an_entity_with_its_sources_etag_is_never_deleted)
{
    struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {"Shoes", &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;
    struct source source = {.job = slice_of("away"),
        .by = slice_of("00000000"),
        .partition_key = slice_of("p"),
        .row_key = slice_of("a"),
        .etag = slice_of("e")};
    struct alias alias;

    use_alias(&alias, true);
    hosted_load(&h, "away:\n"
                    "  kind: copy\n"
                    "  from: {store: main, table: Shoes, filter: \"V eq 1\"}\n"
                    "  to: {store: other, table: Shoes}\n");
    source.from = source_table_of(stores[0], "Shoes");
    source.at = source_table_of(stores[1], "Shoes");
    entity_init(&operation.entity, &h.arena, slice_of("p"), slice_of("a"));
    source_stamp(&operation.entity, &source, &h.arena);
    assert_ok(store_batch(h.store, &exchange, &batch, &result));
    h.accept_deletes = true;
    assert_int_equal(hosted_attempt(&h, "away", ""), RUN_FAILED);
    assert_non_null(strstr(h.failed_why, "the ETag of its source"));
    assert_true(hosted_has(&h, "Shoes", "p", "a"));
}

/* ---- C7: the table of the sources is deleted ---- */

struct vanishing {
    struct interposed outer;
    /* While the table Shoes is being deleted: first `passed` scans succeed,
     * then `empties` scans return an empty page. */
    unsigned passed, empties;
};

static enum tw_err meet_vanishing(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct vanishing *vanishing = (struct vanishing *)self;
    bool scans = request->call == CALL_SCAN;

    if ((!scans && request->call != CALL_GET) ||
        strcmp(request->name, "Shoes") != 0)
        return request_send(self->inner, exchange, request);
    if (vanishing->passed > 0) {
        vanishing->passed -= scans;
        return request_send(self->inner, exchange, request);
    }
    exchange->date_ticks = platform_wall_ticks();
    if (!scans || vanishing->empties == 0)
        return err_fail(&exchange->err, TW_NOT_FOUND, "no such table");
    vanishing->empties--;
    request->page->count = 0;
    request->page->next = (struct continuation){.more = false};
    return TW_OK;
}

SHOE_TEST(a_table_that_vanishes_deletes_no_copy)
{
    struct vanishing vanishing;

    shoe("b", 2);
    interposed_init(&vanishing.outer, "main", h.store, meet_vanishing);
    stores[0] = &vanishing.outer.store;
    vanishing.passed = 1000;
    succeeds("by-size");
    h.accept_deletes = true;
    for (unsigned empties = 0; empties < 3; empties++) {
        new_run("r2");
        vanishing.passed = 1; /* the read before the first round */
        vanishing.empties = empties;
        assert_int_equal(hosted_attempt(&h, "by-size", ""), RUN_FAILED);
        assert_non_null(strstr(h.err.text, "Shoes"));
        assert_int_equal(h.deleted, 0);
        check_copies("1/a 2/b ");
    }
}

/* ---- number of requests ---- */

/* Makes a run that must succeed; returns how many calls of this type it
 * made. */
static unsigned calls_of_run(const char *id, enum store_call call)
{
    unsigned before = faulty_calls(&faulty, call);

    new_run(id);
    succeeds("by-size");
    return faulty_calls(&faulty, call) - before;
}

FIXTURE_TEST(ten_entities_into_a_large_table_take_few_pages)
{
    unsigned scans;

    for (int i = 0; i < 20; i++) {
        char partition[8];

        snprintf(partition, sizeof(partition), "f%02d", i);
        hosted_fill(&h, "BySize", partition, 10000);
    }
    many_shoes(10, 10);
    scans = calls_of_run("r1", CALL_SCAN);
    if (scans > 20)
        fail_msg("%u pages", scans);
    assert_int_equal(h.written, 10);
}

FIXTURE_TEST(keys_that_scatter_fill_batches)
{
    unsigned batches;

    many_shoes(8000, 40);
    usleep(100000); /* 10 s on the fast clock of this test */
    batches = calls_of_run("r1", CALL_BATCH);
    if (batches > 200)
        fail_msg("%u batches", batches);
    assert_int_equal(h.written, 8000);
    assert_int_equal(calls_of_run("r2", CALL_BATCH), 0);
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
