/* SPDX-License-Identifier: MIT */
/* The intents and checkpoints of a move: written by others meanwhile, damaged,
 * or of another move. */
#include <stdio.h>
#include <string.h>

#include "jobs/move/intent.h"
#include "tests/support/loading.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

static const char JOBS[] =
    "all: {kind: move, from: {table: Blogs}, to: {table: OldBlogs}}\n"
    "onward: {kind: move, from: {table: OldBlogs}, to: {table: Older}}\n"
    "apart: {kind: move, from: {table: Posts}, to: {table: OldPosts}}\n"
    "key-of-n: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
    "row_key: \"{N}\"}}\n"
    "one-key: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
    "partition_key: p, row_key: r}}\n";

static int set_up(void **state)
{
    scene_begin(JOBS, "Blogs OldBlogs TablewardRuns");
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)

static unsigned count(const char *table)
{
    unsigned number;

    scene_quietly(number = hosted_count(&h, table));
    return number;
}

/* Makes an attempt that crashes at the first batch of this type, before or
 * after the batch is carried out. */
static void die_at(
    const char *job, const char *table, enum operation_type type, bool unsent)
{
    struct script_event *event = script_batch(&s, table, type, 1, 1);

    event->dies = true;
    event->unsent = unsent;
    event->answer = TW_UNKNOWN;
    hosted_forget(&h, "r1");
    scene_attempt(job, "", RUN_LEASE_LOST);
    script_clear(&s);
    h.previous_owner_crashed = true;
    reports[0] = '\0';
    virtual_sleep(20000);
}

/* ---- rows of an intent ---- */

static void read_rows(struct page *page)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION))};
    struct exchange exchange = {.deadline = NULL};

    assert_ok(store_scan(s.inner, &exchange, &request, page));
}

static void write_row(enum operation_type type, const struct entity *entity)
{
    struct operation operation = {type, *entity};
    const struct batch batch = {"TablewardRuns", &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;

    if (store_batch(s.inner, &exchange, &batch, &result) != TW_OK)
        fail_msg("%s", exchange.err.text);
}

static void take_away(struct entity *entity, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < entity->property_count; i++)
        if (!slice_is(entity->properties[i].name, name))
            entity->properties[kept++] = entity->properties[i];
    assert_int_equal(kept + 1, entity->property_count);
    entity->property_count = kept;
}

/* Sets a property of row number n to text; or to number, unless that is
 * NO_NUMBER; or removes it. */
#define NO_NUMBER INT32_MIN
static void edit_row(
    size_t n, const char *property, const char *text, int32_t number)
{
    struct entity entity;
    struct page page;

    page_init(&page);
    read_rows(&page);
    assert_true(page.count > n);
    entity_copy(&entity, &page.arena, &page.entities[n]);
    if (text)
        entity_set_string(&entity, &page.arena, property, slice_of(text));
    else if (number != NO_NUMBER)
        entity_set_int32(&entity, &page.arena, property, number);
    else
        take_away(&entity, property);
    write_row(OPERATION_REPLACE, &entity);
    page_done(&page);
}

/* Moves row number n of the intent to another key. */
static void rename_row(size_t n, const char *row_key)
{
    struct entity entity;
    struct page page;

    page_init(&page);
    read_rows(&page);
    assert_true(page.count > n);
    entity_copy(&entity, &page.arena, &page.entities[n]);
    write_row(OPERATION_DELETE, &entity);
    entity.row_key = slice_of(row_key);
    entity.etag = slice_of("");
    write_row(OPERATION_INSERT, &entity);
    page_done(&page);
}

/* Stores this list in the intent, with its digest. */
static void write_list(const char *list)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    char text[33];

    crypto_sha256(slice_of(list), digest);
    text_hex(text, digest, 16);
    edit_row(0, "Text", list, NO_NUMBER);
    edit_row(0, "Digest", text, NO_NUMBER);
}

static void remove_rows(struct hosted *callbacks)
{
    struct page page;

    page_init(&page);
    read_rows(&page);
    for (size_t i = 0; i < page.count; i++)
        write_row(OPERATION_DELETE, &page.entities[i]);
    page_done(&page);
}

static void touch_first_row(struct hosted *callbacks)
{
    edit_row(0, "Change", "00000000000000000000000000000000", NO_NUMBER);
}

/* ---- damage ---- */

static void check_damaged(const char *what)
{
    reports[0] = '\0';
    scene_attempt("all", "", RUN_FAILED);
    if (!strstr(h.err.text, "is damaged: nothing was changed") ||
        !strstr(h.err.text, INTENTS_PARTITION "/"))
        fail_msg("%s: %s", what, h.err.text);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* Leaves an intent with one pair in state `leaving`; both entities exist. */
static void leave_an_intent(void)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    die_at("all", "TablewardRuns", OPERATION_REPLACE, false);
    assert_int_equal(count("TablewardRuns"), 1);
}

FIXTURE_TEST(an_intent_without_one_of_its_properties_is_damaged)
{
    static const char *const names[] = {"State", "Load", "Digest", "Job", "Run",
        "SourceStore", "SourceAccount", "SourceTable", "DestinationStore",
        "DestinationAccount", "DestinationTable", "Since", "Chunks", "Pairs",
        "Text"};

    for (size_t i = 0; TEST_EACH(i, names); i++) {
        leave_an_intent();
        edit_row(0, names[i], NULL, NO_NUMBER);
        check_damaged(names[i]);
        remove_rows(&h);
        scene_remove("Blogs", "a", "1");
        scene_remove("OldBlogs", "a", "1");
    }
}

FIXTURE_TEST(an_intent_with_a_property_of_another_kind_is_damaged)
{
    static const struct {
        const char *name, *text;
        int32_t number;
    } cases[] = {{"State", "gone", 0}, {"State", NULL, 1}, {"Load", "short", 0},
        {"Digest", "short", 0}, {"Since", "yesterday", 0}, {"Chunks", "one", 0},
        {"Chunks", NULL, 0}, {"Chunks", NULL, -1},
        {"Chunks", NULL, INTENT_MAX_CHUNKS + 1}, {"Chunks", NULL, 2},
        {"Pairs", NULL, -1}, {"Pairs", NULL, LOAD_MAX_PAIRS + 1},
        {"Pairs", NULL, 2}, {"Text", NULL, 1},
        {"Digest", "00000000000000000000000000000000", 0}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        leave_an_intent();
        edit_row(0, cases[i].name, cases[i].text, cases[i].number);
        check_damaged(cases[i].name);
        remove_rows(&h);
        scene_remove("Blogs", "a", "1");
        scene_remove("OldBlogs", "a", "1");
    }
}

/* The pairs may have another meaning in a newer version. A takeover would
 * delete their sources. */
FIXTURE_TEST(an_intent_of_a_newer_version_is_left_alone)
{
    leave_an_intent();
    edit_row(0, "Format", NULL, INTENT_FORMAT + 1);
    scene_attempt("all", "", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "was written by a newer version"));
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
    assert_int_equal(count("TablewardRuns"), 1);
    edit_row(0, "Format", NULL, INTENT_FORMAT);
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    assert_int_equal(count("TablewardRuns"), 0);
}

FIXTURE_TEST(an_intent_at_another_key_is_damaged)
{
    static const char *const keys[] = {"x", "0123456789abcdef-0-01"};

    leave_an_intent();
    for (size_t i = 0; i < 2; i++) {
        rename_row(0, keys[i]);
        check_damaged(keys[i]);
    }
}

/* The digest is right, but the lines are no pairs. */
FIXTURE_TEST(an_intent_whose_list_cannot_be_read_is_damaged)
{
#define DIGEST "00000000000000000000000000000000"
    static const char long_etag[] =
        "a\t1\te\ta\t1\t0123456789012345678901234567890123456789012345678901"
        "23456789012345678901234567890123456789012345678901234567890\t" DIGEST
        "\n";
    static const char *const lists[] = {"a", "a\t1\n", "a\t1\te\ta\t1\te\t",
        "a\t1\te\ta\t1\te\tno digest\n",
        "a\t1\te\ta\t1\te\t" DIGEST "\na\t2\te\ta\t1\te\t" DIGEST "\n",
        long_etag, "a\t1\te\ta\t1\te\t" DIGEST "\na"};

    leave_an_intent();
    for (size_t i = 0; TEST_EACH(i, lists); i++) {
        write_list(lists[i]);
        check_damaged(lists[i]);
    }
}

/* Keys have 500 characters, so that the list needs several rows. */
static void fill_with_long_keys(unsigned number)
{
    for (unsigned i = 0; i < number; i++) {
        char row_key[512];

        memset(row_key, 'x', sizeof(row_key));
        snprintf(row_key + 490, 22, "%u", 1000 + i);
        scene_put("Blogs", "a", row_key, "\"N\":1");
    }
}

FIXTURE_TEST(an_intent_of_several_rows_is_taken_over)
{
    fill_with_long_keys(60);
    die_at("all", "TablewardRuns", OPERATION_REPLACE, false);
    assert_true(count("TablewardRuns") > 1);
    scene_attempt("all", "", RUN_SUCCEEDED);
    assert_int_equal(count("Blogs"), 0);
    assert_int_equal(count("OldBlogs"), 60);
    assert_int_equal(count("TablewardRuns"), 0);
}

FIXTURE_TEST(an_intent_whose_rows_do_not_belong_together_is_damaged)
{
    fill_with_long_keys(60);
    die_at("all", "TablewardRuns", OPERATION_REPLACE, false);
    edit_row(1, "Load", "00000000000000000000000000000000", NO_NUMBER);
    scene_attempt("all", "", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "is damaged"));
    edit_row(1, "Load", NULL, NO_NUMBER);
    scene_attempt("all", "", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "is damaged"));
    rename_row(1, "0123456789abcdef-0-07");
    scene_attempt("all", "", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "is damaged"));
    assert_int_equal(count("Blogs"), 60);
    assert_int_equal(count("OldBlogs"), 60);
}

/* Only few pairs of a load are confirmed, so their list needs fewer rows: the
 * write of `leaving` deletes the other rows. */
FIXTURE_TEST(an_intent_shrinks_with_its_list)
{
    fill_with_long_keys(60);
    for (unsigned i = 0; i < 59; i++) {
        char row_key[512];

        memset(row_key, 'x', sizeof(row_key));
        snprintf(row_key + 490, 22, "%u", 1000 + i);
        scene_put("OldBlogs", "a", row_key, "\"N\":2");
    }
    die_at("all", "TablewardRuns", OPERATION_REPLACE, false);
    assert_int_equal(count("TablewardRuns"), 1);
    scene_attempt("all", "", RUN_FAILED); /* 59 sources had a conflict */
    assert_int_equal(h.failed, 59);
    assert_int_equal(count("Blogs"), 59);
    assert_int_equal(count("TablewardRuns"), 0);
}

/* ---- an intent that others write meanwhile (rule M3) ---- */

FIXTURE_TEST(who_lost_its_intent_deletes_nothing)
{
    static void (*const cases[])(struct hosted * h) = {
        remove_rows, touch_first_row};

    scene_put("Blogs", "a", "1", "\"N\":1");
    for (size_t i = 0; i < 2; i++) {
        script_batch(&s, "TablewardRuns", OPERATION_REPLACE, 1, 1)->before =
            cases[i];
        hosted_forget(&h, "r1");
        scene_attempt("all", "", RUN_TRY_AGAIN);
        assert_non_null(strstr(h.err.text, "another attempt has written the "
                                           "intent !intents/"));
        scene_check_keys("Blogs", "a/1 ");
        scene_check_keys("OldBlogs", "a/1 ");
        script_clear(&s);
        remove_rows(&h);
        scene_remove("OldBlogs", "a", "1");
    }
}

/* As above, after a write with an unknown outcome. */
FIXTURE_TEST(an_intent_that_others_took_during_an_unknown_write_is_lost)
{
    struct script_event *event;

    scene_put("Blogs", "a", "1", "\"N\":1");
    event = script_batch(&s, "TablewardRuns", OPERATION_REPLACE, 1, 1);
    event->answer = TW_UNKNOWN;
    event->unsent = true;
    event->before = touch_first_row;
    scene_attempt("all", "", RUN_TRY_AGAIN);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
}

FIXTURE_TEST(an_intent_that_cannot_be_written_ends_the_attempt)
{
    struct script_event *event;

    scene_put("Blogs", "a", "1", "\"N\":1");
    event = script_batch(&s, "TablewardRuns", OPERATION_REPLACE, 1, 8);
    event->answer = TW_UNKNOWN;
    event->unsent = true;
    scene_attempt("all", "", RUN_OUTAGE);
    assert_non_null(strstr(
        h.err.text, "could not be written: 8 requests had no usable response"));
    scene_check_keys("Blogs", "a/1 ");
    script_clear(&s);
    h.previous_owner_crashed = true;
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* ---- taking over ---- */

/* Rule M7: neither table of the intent is a table of this move. */
FIXTURE_TEST(an_intent_of_other_tables_stays)
{
    scene_quietly(hosted_table(&h, "Posts"));
    leave_an_intent();
    hosted_forget(&h, "r2");
    scene_attempt("apart", "", RUN_SUCCEEDED);
    assert_int_equal(count("TablewardRuns"), 1);
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* The pairs are reported with the tables of their own move. */
FIXTURE_TEST(what_another_move_left_is_named_where_it_is)
{
    scene_quietly(hosted_table(&h, "Older"));
    leave_an_intent();
    scene_replace("Blogs", "a", "1", "\"N\":9");
    hosted_forget(&h, "r2");
    scene_attempt("onward", "", RUN_FAILED);
    scene_check_reported(
        "Blogs a/1: the source was changed while a move was "
        "interrupted, and an entity is at the destination: both stay; "
        "its destination is 'a' / '1' in OldBlogs");
    assert_int_equal(count("TablewardRuns"), 0);
    scene_check_keys("Blogs", "a/1 ");
}

/* Rule M2: an equal entity that is older than the intent was not inserted by
 * the run. */
FIXTURE_TEST(an_older_equal_entity_is_not_taken_for_the_copy)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    virtual_sleep(10000);
    die_at("all", "OldBlogs", OPERATION_INSERT, true);
    scene_attempt("all", "", RUN_FAILED);
    scene_check_reported(
        "Blogs a/1: an equal entity is at 'a' / '1' in OldBlogs");
    scene_check_keys("Blogs", "a/1 ");
    scene_check_keys("OldBlogs", "a/1 ");
}

/* The intent is `leaving`, and the source is absent: the pair was done. The
 * application may have changed the copy since. */
FIXTURE_TEST(a_copy_that_went_on_after_its_pair_was_done_is_not_missed)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    die_at("all", "Blogs", OPERATION_DELETE, false);
    scene_remove("OldBlogs", "a", "1");
    scene_attempt("all", "", RUN_SUCCEEDED);
    assert_string_equal(reports, "");
    scene_check_keys("OldBlogs", "");
    assert_int_equal(count("TablewardRuns"), 0);
}

/* Rule M8, if only the store of the source is no longer configured. */
FIXTURE_TEST(an_intent_whose_source_is_gone_is_removed_and_named)
{
    leave_an_intent();
    edit_row(0, "SourceAccount", "another", NO_NUMBER);
    scene_attempt("all", "", RUN_FAILED);
    scene_check_reported(
        "Blogs a/1: a move of this entity was interrupted, and a store "
        "of that move is no longer configured");
    assert_int_equal(count("TablewardRuns"), 0);
}

/* The job moved other tables before its definition changed. A move of those
 * tables takes the intent over, unless one of their stores is no longer
 * configured. */
FIXTURE_TEST(an_intent_of_former_tables_stays_while_both_stores_are_there)
{
    leave_an_intent();
    edit_row(0, "SourceTable", "Others", NO_NUMBER);
    edit_row(0, "DestinationTable", "Elsewhere", NO_NUMBER);
    rename_row(0, "0123456789abcdef-0-00");
    scene_remove("Blogs", "a", "1");
    hosted_forget(&h, "r2");
    scene_attempt("all", "", RUN_SUCCEEDED);
    assert_int_equal(count("TablewardRuns"), 1);
    edit_row(0, "DestinationAccount", "another", NO_NUMBER);
    hosted_forget(&h, "r3");
    scene_attempt("all", "", RUN_FAILED);
    scene_check_reported(
        "Others a/1: a move of this entity was interrupted, and a "
        "store of that move is no longer configured");
    assert_int_equal(count("TablewardRuns"), 0);
}

static enum tw_err refuse_phase(struct hosted *callbacks, bool *ret_stored)
{
    return TW_BUSY;
}

/* The number of reported entities is stored in the ledger before the intent is
 * removed. */
FIXTURE_TEST(a_name_that_the_ledger_does_not_take_keeps_the_intent)
{
    leave_an_intent();
    scene_replace("Blogs", "a", "1", "\"N\":9");
    h.phasing = refuse_phase;
    scene_attempt("all", "", RUN_OUTAGE);
    assert_int_equal(count("TablewardRuns"), 1);
    h.phasing = NULL;
    reports[0] = '\0';
    scene_attempt("all", "", RUN_FAILED);
    scene_check_reported("Blogs a/1: the source was changed");
    assert_int_equal(count("TablewardRuns"), 0);
}

/* ---- the checkpoint ---- */

FIXTURE_TEST(a_checkpoint_that_cannot_be_read_begins_the_move_anew)
{
    static const char *const texts[] = {"", "no JSON", "[]", "{}",
        "{\"version\":\"1\"}", "{\"version\":2,\"named\":0}", "{\"version\":1}",
        "{\"version\":1,\"named\":\"x\"}",
        "{\"version\":1,\"named\":0,\"rounds\":7}",
        "{\"version\":1,\"named\":0,\"late\":7,\"rounds\":{}}"};

    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        char row_key[8];

        hosted_forget(&h, "r1");
        h.checkpoint = mem_text(texts[i], strlen(texts[i]));
        snprintf(row_key, sizeof(row_key), "%zu", i);
        scene_put("Blogs", "a", row_key, "\"N\":1");
        scene_attempt("all", "", RUN_SUCCEEDED);
        scene_check_keys("Blogs", "");
        assert_int_equal(h.passes, 2);
    }
    assert_int_equal(count("OldBlogs"), sizeof(texts) / sizeof(texts[0]));
}

/* A store without key order has no position to continue from: the round starts
 * over. */
FIXTURE_TEST(a_store_without_order_is_read_from_its_beginning)
{
    h.store->capabilities.ordered = false;
    scene_quietly(hosted_fill(&h, "Blogs", "a", 2500));
    h.stop_after = 3;
    scene_attempt("all", "", RUN_STOPPED);
    assert_null(strstr(h.checkpoint, "\"done\""));
    h.stop_after = -1;
    scene_attempt("all", "", RUN_SUCCEEDED);
    assert_int_equal(count("Blogs"), 0);
    assert_int_equal(count("OldBlogs"), 2500);
}

/* ---- loads ---- */

/* The embedded store orders such keys as bytes, Azure as UTF-16. */
FIXTURE_TEST(keys_beyond_the_basic_plane_are_moved)
{
    scene_put("Blogs", "a", "x", "\"N\":1");
    scene_put("Blogs", "a", "\xef\xbd\x9e", "\"N\":1");
    scene_put("Blogs", "a", "\xf0\x9f\x90\x9f", "\"N\":1");
    scene_put("Blogs", "a", "\xf0\x9f\x90\xa0", "\"N\":1");
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    assert_int_equal(count("OldBlogs"), 4);
}

/* Between two copies are more pages of other entities than are read for one
 * copy: the second copy is read by its keys. */
FIXTURE_TEST(copies_far_apart_in_their_partition_are_read_back)
{
    struct script_event *asked;

    scene_quietly(hosted_fill(&h, "OldBlogs", "a", 4500));
    scene_put("Blogs", "a", "a", "\"N\":1");
    scene_put("Blogs", "a", "c", "\"N\":1");
    asked = script_call(&s, CALL_GET, "OldBlogs", 99, 99);
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    assert_int_equal(count("OldBlogs"), 4502);
    assert_int_equal(asked->seen, 1);
}

FIXTURE_TEST(a_copy_far_apart_that_was_deleted_keeps_its_source)
{
    static const struct {
        enum tw_err answer;
        enum run_end end;
    } cases[] = {{TW_NOT_FOUND, RUN_FAILED}, {TW_REFUSED, RUN_OUTAGE}};

    scene_quietly(hosted_fill(&h, "OldBlogs", "a", 4500));
    scene_put("Blogs", "a", "a", "\"N\":1");
    scene_put("Blogs", "a", "c", "\"N\":1");
    for (size_t i = 0; i < 2; i++) {
        struct script_event *event =
            script_call(&s, CALL_GET, "OldBlogs", 1, 1);

        event->answer = cases[i].answer;
        event->unsent = true;
        scene_attempt("all", "", cases[i].end);
        scene_check_keys("Blogs", i == 0 ? "a/c " : "a/a a/c ");
        script_clear(&s);
        if (i == 0) {
            scene_check_reported("Blogs a/c: its copy was deleted by others");
            scene_remove("OldBlogs", "a", "a");
            scene_remove("OldBlogs", "a", "c");
            scene_put("Blogs", "a", "a", "\"N\":1");
            hosted_forget(&h, "r2");
        }
    }
}

/* ---- the dry run and the verification ---- */

FIXTURE_TEST(a_dry_run_counts_what_cannot_be_moved)
{
    struct job_estimate estimate = {.table_count = 0};

    s.quiet = true;
    hosted_fill(&h, "Blogs", "b", 1100); /* more sources than a load has */
    s.quiet = false;
    scene_put("Blogs", "a", "1", "\"T\":1");
    scene_put("Blogs", "a", "2", "\"T\":1");
    assert_ok(hosted_estimate(&h, "key-of-n", "", &estimate));
    assert_int_equal(estimate.tables[PAIR_COPY].entities, 1100);
    assert_non_null(strstr(estimate.details, "2 entities cannot be moved"));
    arena_done(&estimate.arena);
}

static void put_a_new_one(struct hosted *callbacks)
{
    hosted_put(callbacks, "Blogs", "new", "1", "\"N\":1");
}

/* The source exists in the second pass only. */
FIXTURE_TEST(a_source_written_during_a_verification_is_no_difference)
{
    struct job_verification found = {.count = 0};

    scene_quietly(hosted_fill(&h, "Blogs", "a", 7));
    virtual_sleep(10000);
    script_call(&s, CALL_SCAN, "Blogs", 1, 1)->after = put_a_new_one;
    assert_ok(hosted_verify(&h, "all", "", &found));
    assert_int_equal(found.differences[0].count, 7);
    assert_string_equal(found.differences[0].first_keys[4], "Blogs a/b00004");
    arena_done(&found.arena);
}

FIXTURE_TEST(a_verification_counts_the_intents_of_its_tables)
{
    struct job_verification found = {.count = 0};

    scene_quietly(hosted_table(&h, "Posts"));
    leave_an_intent();
    assert_ok(hosted_verify(&h, "apart", "", &found));
    assert_int_equal(found.differences[1].count, 0);
    arena_done(&found.arena);
    scene_remove("Blogs", "a", "1");
    assert_ok(hosted_verify(&h, "all", "", &found));
    assert_int_equal(found.differences[0].count, 0);
    assert_int_equal(found.differences[1].count, 1);
    arena_done(&found.arena);
}

/* ---- the configuration ---- */

FIXTURE_TEST(what_is_missing_in_a_job_is_reported)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"m: {kind: move, to: {table: B12}}", "from"},
        {"m: {kind: move, from: {table: Blogs, filter: \"N eq\"}, to: {table: "
         "B12}}",
            "filter"},
        {"m: {kind: move, from: {store: nowhere, table: Blogs}, to: {table: "
         "B12}}",
            "nowhere"},
        {"m: {kind: move, from: {table: Blogs, what: 1}, to: {table: B12}}",
            "what"},
        {"m: {kind: move, from: {table: Blogs}, to: {store: nowhere, table: "
         "B12}}",
            "nowhere"},
        {"m: {kind: move, from: {table: Blogs}, to: {table: B12}, properties: "
         "{drop: 7}}",
            "drop"},
        {"m: {kind: move, from: {table: Blogs}, to: {table: B12}, unknown: 1}",
            "unknown"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        loading_refused(cases[i].text, cases[i].part);
}

FIXTURE_TEST(properties_may_be_said_for_the_whole_job)
{
    struct loading l = {.names = {NULL}};

    loading_good(&l, "m: {kind: move, from: {table: Blogs}, to: {table: B12}, "
                     "properties: {drop: [A]}}");
    loading_done(&l);
}
