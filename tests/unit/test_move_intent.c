/* SPDX-License-Identifier: MIT */
/* Intents and checkpoints of moves (rules M1, M3, M7 and M8). Other attempts
 * write them meanwhile, or they are damaged. An intent belongs to another move,
 * or its store is no longer configured. */
#include <stdio.h>
#include <string.h>

#include "jobs/move/intent.h"
#include "tests/support/interpose.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

static const char JOBS[] =
    "all: {kind: move, from: {table: Blogs}, to: {table: OldBlogs}}\n"
    "onward: {kind: move, from: {table: OldBlogs}, to: {table: Older}}\n"
    "apart: {kind: move, from: {table: Posts}, to: {table: OldPosts}}\n"
    "key-of-n: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
    "row_key: \"{N}\"}}\n"
    "ones: {kind: move, from: {table: Blogs, filter: \"N eq 1\"}, to: {table: "
    "OldBlogs}}\n";

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

static void check_keys(const char *blogs, const char *old_blogs)
{
    scene_check_keys("Blogs", blogs);
    scene_check_keys("OldBlogs", old_blogs);
}

/* Makes an attempt of `job`, which must end as `wanted` and leave `rows` rows
 * of intents. */
static void attempt_leaves(const char *job, enum run_end wanted, unsigned rows)
{
    scene_attempt(job, "", wanted);
    assert_int_equal(count("TablewardRuns"), rows);
}

/* Makes an attempt that crashes at the first batch of this type, before or
 * after the batch is carried out. */
static void die_at(const char *table, enum operation_type type, bool unsent)
{
    struct script_event *event = script_batch(&s, table, type, 1, 1);

    event->dies = true;
    event->unsent = unsent;
    event->answer = TW_UNKNOWN;
    hosted_forget(&h, "r1");
    scene_attempt("all", "", RUN_LEASE_LOST);
    script_clear(&s);
    h.previous_owner_crashed = true;
    reports[0] = '\0';
    virtual_sleep(20000);
}

/* ---- rows of an intent ---- */

/* Returns a copy of row number n of the intent. */
static struct entity row(size_t n)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION))};
    struct exchange exchange = {.deadline = NULL};
    struct entity entity;
    struct page page;

    page_init(&page);
    assert_ok(store_scan(s.inner, &exchange, &request, &page));
    assert_true(page.count > n);
    entity_copy(&entity, &h.arena, &page.entities[n]);
    page_done(&page);
    return entity;
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

/* edit_row: sets the property of row number n to `text`. If text is NULL, sets
 * it to `number`. If text is NULL and number is NO_NUMBER, removes the
 * property. */
#define NO_NUMBER INT32_MIN
static void edit_row(
    size_t n, const char *property, const char *text, int32_t number)
{
    struct entity entity = row(n);

    if (text)
        entity_set_string(&entity, &h.arena, property, slice_of(text));
    else if (number != NO_NUMBER)
        entity_set_int32(&entity, &h.arena, property, number);
    else
        take_away(&entity, property);
    write_row(OPERATION_REPLACE, &entity);
}

static void edit_intent(const char *property, const char *text)
{
    edit_row(0, property, text, NO_NUMBER);
}

static const char *intent_text(const char *property)
{
    struct entity first = row(0);
    struct slice text;

    assert_true(property_text(
        entity_find(&first, slice_of(property)), &h.arena, &text));
    return arena_copy(&h.arena, text).at;
}

/* Moves row number n of the intent to another key. */
static void rename_row(size_t n, const char *row_key)
{
    struct entity entity = row(n);

    write_row(OPERATION_DELETE, &entity);
    entity.row_key = slice_of(row_key);
    entity.etag = slice_of("");
    write_row(OPERATION_INSERT, &entity);
}

/* Stores `list` in the intent, with its digest. */
static void write_list(const char *list)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    char text[33];

    crypto_sha256(slice_of(list), digest);
    text_hex(text, digest, 16);
    edit_intent("Text", list);
    edit_intent("Digest", text);
}

static void remove_rows(struct hosted *callbacks)
{
    while (count("TablewardRuns") > 0) {
        struct entity first = row(0);

        write_row(OPERATION_DELETE, &first);
    }
}

static void touch_first_row(struct hosted *callbacks)
{
    edit_intent("Change", "00000000000000000000000000000000");
}

/* Leaves an intent with one pair; both entities exist. */
static void leave_an_intent_at(const char *table, enum operation_type type)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    die_at(table, type, false);
    assert_int_equal(count("TablewardRuns"), 1);
}

/* Leaves an intent in state `leaving`, with one pair; both entities exist. */
static void leave_an_intent(void)
{
    leave_an_intent_at("TablewardRuns", OPERATION_REPLACE);
}

static void remove_all(void)
{
    remove_rows(&h);
    scene_remove("Blogs", "a", "1");
    scene_remove("OldBlogs", "a", "1");
}

/* ---- damage ---- */

static void check_damaged(const char *what)
{
    reports[0] = '\0';
    attempt_leaves("all", RUN_FAILED, 1);
    if (!strstr(h.err.text, "is damaged: nothing was changed") ||
        !strstr(h.err.text, INTENTS_PARTITION "/"))
        fail_msg("%s: %s", what, h.err.text);
    check_keys("a/1 ", "a/1 ");
}

#define DIGEST "00000000000000000000000000000000"

/* The last cases remove the property. */
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
        {"Pairs", NULL, 2}, {"Text", NULL, 1}, {"Text", "a\t1\n", 0},
        {"Text", "a\t7\te\ta\t7\te\t" DIGEST "\n", 0}, /* another source */
        {"Digest", DIGEST, 0}, {"State", NULL, NO_NUMBER},
        {"Load", NULL, NO_NUMBER}, {"Digest", NULL, NO_NUMBER},
        {"Job", NULL, NO_NUMBER}, {"Run", NULL, NO_NUMBER},
        {"SourceStore", NULL, NO_NUMBER}, {"SourceAccount", NULL, NO_NUMBER},
        {"SourceTable", NULL, NO_NUMBER}, {"DestinationStore", NULL, NO_NUMBER},
        {"DestinationAccount", NULL, NO_NUMBER},
        {"DestinationTable", NULL, NO_NUMBER}, {"Since", NULL, NO_NUMBER},
        {"Chunks", NULL, NO_NUMBER}, {"Pairs", NULL, NO_NUMBER},
        {"Text", NULL, NO_NUMBER}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        leave_an_intent();
        edit_row(0, cases[i].name, cases[i].text, cases[i].number);
        check_damaged(cases[i].name);
        remove_all();
    }
}

/* In a newer version the pairs may have another meaning: a move that took the
 * intent over could delete sources that it must not delete. */
FIXTURE_TEST(an_intent_of_a_newer_version_is_left_alone)
{
    leave_an_intent();
    edit_row(0, "Format", NULL, INTENT_FORMAT + 1);
    attempt_leaves("all", RUN_FAILED, 1);
    assert_non_null(strstr(h.err.text, "was written by a newer version"));
    check_keys("a/1 ", "a/1 ");
    edit_row(0, "Format", NULL, INTENT_FORMAT);
    attempt_leaves("all", RUN_SUCCEEDED, 0);
    scene_check_keys("Blogs", "");
}

FIXTURE_TEST(an_intent_at_another_key_is_damaged)
{
    static const char *const keys[] = {"x", "0123456789abcdef-0-01"};

    leave_an_intent();
    for (size_t i = 0; TEST_EACH(i, keys); i++) {
        rename_row(0, keys[i]);
        check_damaged(keys[i]);
    }
}

/* The digest is right, but the lines are not valid pairs. */
FIXTURE_TEST(an_intent_whose_list_cannot_be_read_is_damaged)
{
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

/* Inserts entities 0 to `number` - 1. Their keys have 500 characters, so that
 * the list of an intent needs several rows. */
static void fill_with_long_keys(
    const char *table, unsigned number, const char *properties)
{
    for (unsigned i = 0; i < number; i++) {
        char row_key[512];

        memset(row_key, 'x', sizeof(row_key));
        snprintf(row_key + 490, 22, "%u", 1000 + i);
        scene_put(table, "a", row_key, properties);
    }
}

static void check_rows_damaged(void)
{
    scene_attempt("all", "", RUN_FAILED);
    assert_non_null(strstr(h.err.text, "is damaged"));
}

FIXTURE_TEST(an_intent_whose_rows_do_not_belong_together_is_damaged)
{
    fill_with_long_keys("Blogs", 60, "\"N\":1");
    die_at("TablewardRuns", OPERATION_REPLACE, false);
    edit_row(1, "Load", DIGEST, NO_NUMBER);
    check_rows_damaged();
    edit_row(1, "Load", NULL, NO_NUMBER);
    check_rows_damaged();
    rename_row(1, "0123456789abcdef-0-07");
    check_rows_damaged();
    assert_int_equal(count("Blogs"), 60);
    assert_int_equal(count("OldBlogs"), 60);
}

/* Only few pairs of a load are confirmed, so their list needs fewer rows: the
 * write of `leaving` deletes the other rows. */
FIXTURE_TEST(an_intent_shrinks_with_its_list)
{
    fill_with_long_keys("Blogs", 60, "\"N\":1");
    fill_with_long_keys("OldBlogs", 59, "\"N\":2");
    die_at("TablewardRuns", OPERATION_REPLACE, false);
    assert_int_equal(count("TablewardRuns"), 1);
    attempt_leaves("all", RUN_FAILED, 0); /* 59 sources had a conflict */
    assert_int_equal(h.failed, 59);
    assert_int_equal(count("Blogs"), 59);
}

/* ---- what an intent has, and who writes it (rules M1 and M3) ---- */

static const char *intent_key;

static void note_intent_key(struct hosted *callbacks)
{
    intent_key = row(0).row_key.at;
}

/* Moves the source `row_key` with a run of the job, and notes the key of its
 * intent meanwhile. */
static void move_and_note_key(const char *job, const char *row_key)
{
    scene_put("Blogs", "a", row_key, "\"N\":1");
    script_batch(&s, "OldBlogs", OPERATION_INSERT, 1, 1)->before =
        note_intent_key;
    hosted_forget(&h, "r1");
    scene_attempt(job, "", RUN_SUCCEEDED);
    script_clear(&s);
}

FIXTURE_TEST(the_key_of_an_intent_is_fixed)
{
    const char *first_key;

    move_and_note_key("all", "1");
    first_key = intent_key;
    move_and_note_key("ones", "2");
    assert_string_equal(intent_key, first_key);
}

static void store_another_intent(struct hosted *callbacks)
{
    hosted_put(
        callbacks, "TablewardRuns", INTENTS_PARTITION, intent_key, "\"N\":1");
}

/* Two attempts at one source table cannot both store an intent. */
FIXTURE_TEST(a_second_owner_meets_the_intent_of_the_first)
{
    move_and_note_key("all", "1");
    scene_put("Blogs", "a", "2", "\"N\":1");
    script_batch(&s, "TablewardRuns", OPERATION_INSERT, 1, 1)->before =
        store_another_intent;
    scene_attempt("all", "", RUN_TRY_AGAIN);
    assert_non_null(strstr(h.err.text, "another attempt"));
    check_keys("a/2 ", "a/1 ");
}

static const char *state_at_delete, *list_at_delete;

static void note_intent(struct hosted *callbacks)
{
    state_at_delete = intent_text("State");
    list_at_delete = intent_text("Text");
}

FIXTURE_TEST(confirmed_pairs_are_stored_before_a_source_is_deleted)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("Blogs", "a", "2", "\"N\":2");
    scene_put("OldBlogs", "a", "2", "\"N\":3");
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = note_intent;
    scene_attempt("all", "", RUN_FAILED);
    assert_string_equal(state_at_delete, "leaving");
    assert_int_equal(strncmp(list_at_delete, "a\t1\t", 4), 0);
    assert_null(strstr(list_at_delete, "\na\t2"));
    /* The ETag of the copy is the sixth field of the pair. */
    assert_non_null(strstr(list_at_delete, "\ta\t1\tW/"));
}

FIXTURE_TEST(who_lost_its_intent_deletes_nothing)
{
    static void (*const cases[])(struct hosted * h) = {
        remove_rows, touch_first_row};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        scene_put("Blogs", "a", "1", "\"N\":1");
        script_batch(&s, "TablewardRuns", OPERATION_REPLACE, 1, 1)->before =
            cases[i];
        hosted_forget(&h, "r1");
        scene_attempt("all", "", RUN_TRY_AGAIN);
        assert_non_null(strstr(h.err.text, "another attempt has written the "
                                           "intent !intents/"));
        check_keys("a/1 ", "a/1 ");
        script_clear(&s);
        remove_all();
    }
}

/* Loses the requests of write 1 to write `last` of the state `leaving`: they
 * get no response and are not carried out. */
static struct script_event *leaving_is_lost(unsigned last)
{
    return script_unsent(
        script_batch(&s, "TablewardRuns", OPERATION_REPLACE, 1, last),
        TW_UNKNOWN);
}

FIXTURE_TEST(an_intent_that_others_took_during_an_unknown_write_is_lost)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    leaving_is_lost(1)->before = touch_first_row;
    scene_attempt("all", "", RUN_TRY_AGAIN);
    check_keys("a/1 ", "a/1 ");
}

FIXTURE_TEST(an_intent_that_cannot_be_written_ends_the_attempt)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    (void)leaving_is_lost(8);
    scene_attempt("all", "", RUN_OUTAGE);
    assert_non_null(strstr(
        h.err.text, "could not be written: 8 requests had no usable response"));
    scene_check_keys("Blogs", "a/1 ");
    script_clear(&s);
    h.previous_owner_crashed = true;
    scene_attempt("all", "", RUN_SUCCEEDED);
    check_keys("", "a/1 ");
}

/* ---- taking over ---- */

/* The intent is of a move from Blogs to OldBlogs, so its pairs are reported
 * with these tables, not with those of job `onward`. */
FIXTURE_TEST(what_another_move_left_is_named_where_it_is)
{
    scene_quietly(hosted_table(&h, "Older"));
    leave_an_intent();
    scene_replace("Blogs", "a", "1", "\"N\":9");
    hosted_forget(&h, "r2");
    attempt_leaves("onward", RUN_FAILED, 0);
    scene_check_reported(
        "Blogs a/1: the source was changed while a move was "
        "interrupted, and an entity is at the destination: both stay; "
        "its destination is 'a' / '1' in OldBlogs");
    scene_check_keys("Blogs", "a/1 ");
}

/* Rule M2: an equal entity that is older than the intent was not inserted by
 * the run. */
FIXTURE_TEST(an_older_equal_entity_is_not_taken_for_the_copy)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    scene_put("OldBlogs", "a", "1", "\"N\":1");
    virtual_sleep(10000);
    die_at("OldBlogs", OPERATION_INSERT, true);
    scene_attempt("all", "", RUN_FAILED);
    scene_check_reported(
        "Blogs a/1: an equal entity is at 'a' / '1' in OldBlogs");
    check_keys("a/1 ", "a/1 ");
}

/* Rule M2: an entity with the ETag of the source is the source, under another
 * table name. */
FIXTURE_TEST(the_source_itself_is_never_taken_for_its_copy)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    die_at("OldBlogs", OPERATION_INSERT, true);
    edit_intent("DestinationTable", "Blogs");
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_check_keys("OldBlogs", "a/1 ");
}

/* The intent is in state `leaving` and the source is absent: the move of this
 * pair was complete. The application may have deleted the copy since. */
FIXTURE_TEST(a_copy_that_went_on_after_its_pair_was_done_is_not_missed)
{
    scene_put("Blogs", "a", "1", "\"N\":1");
    die_at("Blogs", OPERATION_DELETE, false);
    scene_remove("OldBlogs", "a", "1");
    attempt_leaves("all", RUN_SUCCEEDED, 0);
    assert_string_equal(reports, "");
    scene_check_keys("OldBlogs", "");
}

static const char GONE[] =
    "a/1: a move of this entity was interrupted, and a store of that move is "
    "no longer configured";

/* Rule M8: an intent whose store is no longer configured is removed, and its
 * pair is reported. */
FIXTURE_TEST(an_intent_of_a_store_that_is_gone_is_removed_and_named)
{
    static const struct {
        /* SourceAccount and DestinationAccount of the intent: an account that
         * is no longer configured; NULL: the account of the store. */
        const char *source, *destination;
        /* Run of the intent: the id of a run that is not open; NULL: the id of
         * the run under test. */
        const char *run;
    } cases[] = {{"another", NULL, NULL}, {NULL, "another", NULL},
        {"another", "another", "an-earlier-run"}};

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        for (int leaving = 0; leaving < 2; leaving++) {
            leave_an_intent_at(leaving ? "TablewardRuns" : "OldBlogs",
                leaving ? OPERATION_REPLACE : OPERATION_INSERT);
            if (cases[i].source)
                edit_intent("SourceAccount", cases[i].source);
            if (cases[i].destination)
                edit_intent("DestinationAccount", cases[i].destination);
            if (cases[i].run)
                edit_intent("Run", cases[i].run);
            attempt_leaves("all", RUN_FAILED, 0);
            scene_check_reported("Blogs a/1: ");
            scene_check_reported(GONE);
            remove_all();
        }
}

/* Another run stored the intent, and is held until the former configuration is
 * restored. */
FIXTURE_TEST(an_intent_of_another_open_run_stays_without_its_stores)
{
    leave_an_intent_at("OldBlogs", OPERATION_INSERT);
    edit_intent("SourceAccount", "another");
    edit_intent("DestinationAccount", "another");
    edit_intent("Run", "a-held-run");
    scene_remove("OldBlogs", "a", "1");
    scene_remove("Blogs", "a", "1"); /* otherwise the run under test would store
                                        an intent with the same RowKey */
    h.other_open = true;
    attempt_leaves("all", RUN_SUCCEEDED, 1);
    h.other_open = false;
    attempt_leaves("all", RUN_FAILED, 0);
    scene_check_reported(GONE);
}

/* The job moved other tables before its definition changed. A move of those
 * tables takes the intent over, unless one of their stores is no longer
 * configured. */
FIXTURE_TEST(an_intent_of_former_tables_stays_while_both_stores_are_there)
{
    leave_an_intent();
    edit_intent("SourceTable", "Others");
    edit_intent("DestinationTable", "Elsewhere");
    rename_row(0, "0123456789abcdef-0-00");
    scene_remove("Blogs", "a", "1");
    hosted_forget(&h, "r2");
    attempt_leaves("all", RUN_SUCCEEDED, 1);
    edit_intent("DestinationAccount", "another");
    hosted_forget(&h, "r3");
    attempt_leaves("all", RUN_FAILED, 0);
    scene_check_reported("Others a/1: ");
    scene_check_reported(GONE);
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
    attempt_leaves("all", RUN_OUTAGE, 1);
    h.phasing = NULL;
    reports[0] = '\0';
    attempt_leaves("all", RUN_FAILED, 0);
    scene_check_reported("Blogs a/1: the source was changed");
}

/* ---- the stores of an intent ---- */

/* Two stores: `main` is another account; `other` has the entities of the
 * intent. No job uses `other`, so open_other() opens it. */
static struct interposed elsewhere;
static struct store *stores[2];
static enum tw_err opens;

static enum tw_err open_other(
    void *owner, size_t index, struct store **ret, struct err *err)
{
    assert_ptr_equal(owner, stores);
    assert_int_equal(index, 1);
    if (opens != TW_OK)
        return err_fail(err, opens, "other: it cannot be opened");
    *ret = &s.outer.store;
    return TW_OK;
}

static enum tw_err pass(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    return request_send(self->inner, exchange, request);
}

/* Leaves an intent whose store is called `named`. Afterwards the job uses
 * another store than the intent. */
static void leave_in_another_store(const char *named)
{
    static const char *const names[] = {"main", "other"};

    leave_an_intent();
    edit_intent("SourceStore", named);
    edit_intent("DestinationStore", named);
    interposed_init(&elsewhere, "main", s.inner, pass);
    elsewhere.store.capabilities.identity = "elsewhere";
    elsewhere.store.capabilities.endpoint = "elsewhere";
    stores[0] = &elsewhere.store;
    stores[1] = NULL;
    h.stores = (struct job_stores){.count = 2,
        .names = names,
        .stores = stores,
        .open = open_other,
        .owner = stores};
    h.ledger = h.store;
    opens = TW_OK;
}

static void use_one_store(void)
{
    h.ledger = NULL;
    h.stores = (struct job_stores){
        .count = 1, .names = &h.store_name, .stores = &h.store};
}

FIXTURE_TEST(a_store_that_no_job_uses_is_opened_for_its_intent)
{
    static const char *const named[] = {"other", "former-name"};

    for (size_t i = 0; TEST_EACH(i, named); i++) {
        leave_in_another_store(named[i]);
        attempt_leaves("all", RUN_SUCCEEDED, 0);
        use_one_store();
        check_keys("", "a/1 ");
        scene_remove("OldBlogs", "a", "1");
    }
}

/* A store cannot be opened, for example, if its file is on a disk that is not
 * mounted. */
FIXTURE_TEST(an_intent_waits_for_a_store_that_cannot_be_opened)
{
    static const struct {
        const char *named;
        enum tw_err opens;
        enum run_end end, then;
        unsigned intents;
    } cases[] = {
        {"other", TW_INVALID, RUN_OUTAGE, RUN_SUCCEEDED, 1},
        {"other", TW_NOT_FOUND, RUN_OUTAGE, RUN_SUCCEEDED, 1},
        {"former-name", TW_FULL, RUN_OUTAGE, RUN_SUCCEEDED, 1},
        {"former-name", TW_NOT_FOUND, RUN_FAILED, RUN_FAILED, 0},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        leave_in_another_store(cases[i].named);
        opens = cases[i].opens;
        attempt_leaves("all", cases[i].end, cases[i].intents);
        if (cases[i].intents > 0)
            assert_non_null(strstr(h.err.text, "it cannot be opened"));
        use_one_store();
        check_keys("a/1 ", "a/1 ");
        scene_attempt("all", "", cases[i].then);
        scene_remove("OldBlogs", "a", "1");
    }
}

/* Rule M7: an intent of another job is taken over if it is of the same tables.
 * A table of the same account is the same table under any host name. */
FIXTURE_TEST(an_intent_under_another_host_of_the_account_is_taken_over)
{
    static const struct {
        const char *wrote, *runs;
        unsigned left;
    } cases[] = {{"acct", "ACCT", 0}, {"acct", "other", 1}, {NULL, "acct", 1}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        h.store->capabilities.account_name = cases[i].wrote;
        leave_in_another_store("other");
        elsewhere.store.capabilities.account_name = cases[i].runs;
        edit_intent("Job", "former");
        scene_attempt(
            "all", "", cases[i].left > 0 ? RUN_FAILED : RUN_SUCCEEDED);
        use_one_store();
        h.store->capabilities.account_name = NULL;
        assert_int_equal(count("TablewardRuns"), cases[i].left);
        if (cases[i].left > 0) {
            scene_check_reported("an equal entity is at");
            edit_intent("Job", "all");
            scene_attempt("all", "", RUN_SUCCEEDED);
        }
        check_keys("", "a/1 ");
        scene_remove("OldBlogs", "a", "1");
    }
}

FIXTURE_TEST(an_intent_of_a_former_endpoint_of_the_account_stays)
{
    h.store->capabilities.account_name = "acct";
    leave_an_intent();
    edit_intent("SourceAccount", "acct.private.example");
    attempt_leaves("all", RUN_FAILED, 1);
    assert_non_null(strstr(h.err.text,
        "at endpoint acct.private.example. No store has this endpoint now"));
    assert_string_equal(reports, "");
    check_keys("a/1 ", "a/1 ");
}

/* A file and a copy of the file have the same identity. The name in the intent
 * decides which store is meant. If no store has this name, the attempt fails.
 */
FIXTURE_TEST(of_two_stores_with_one_identity_the_named_one_is_meant)
{
    struct interposed twin;

    leave_in_another_store("former-name");
    interposed_init(&twin, "other", s.inner, pass);
    elsewhere.store.capabilities.identity = twin.store.capabilities.identity =
        "twin";
    twin.store.capabilities.endpoint = "its copy";
    stores[1] = &twin.store;
    edit_intent("SourceAccount", "twin");
    edit_intent("DestinationAccount", "twin");
    attempt_leaves("all", RUN_FAILED, 1);
    assert_non_null(strstr(h.err.text, "different files or endpoints"));
    assert_non_null(strstr(h.err.text, "two stores, main and other"));
    check_keys("a/1 ", "a/1 ");
    edit_intent("SourceStore", "other");
    edit_intent("DestinationStore", "other");
    attempt_leaves("all", RUN_SUCCEEDED, 0);
    use_one_store();
    check_keys("", "a/1 ");
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

/* The order of keys is that of their UTF-16 units: keys beyond U+FFFF come
 * before U+FF5E, although their code points are greater. */
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

/* Inserts two sources, and 4,500 entities between the places of their copies.
 * So the second copy is not reached by reading pages, and is read by its
 * keys. */
static void put_far_apart(void)
{
    scene_quietly(hosted_fill(&h, "OldBlogs", "a", 4500));
    scene_put("Blogs", "a", "a", "\"N\":1");
    scene_put("Blogs", "a", "c", "\"N\":1");
}

FIXTURE_TEST(copies_far_apart_in_their_partition_are_read_back)
{
    struct script_event *asked = script_call(&s, CALL_GET, "OldBlogs", 99, 99);

    put_far_apart();
    scene_attempt("all", "", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "");
    assert_int_equal(count("OldBlogs"), 4502);
    assert_int_equal(asked->seen, 1);
}

static void read_of_the_second_meets(
    enum tw_err answer, enum run_end end, const char *left)
{
    script_unsent(script_call(&s, CALL_GET, "OldBlogs", 1, 1), answer);
    put_far_apart();
    scene_attempt("all", "", end);
    scene_check_keys("Blogs", left);
}

FIXTURE_TEST(a_copy_far_apart_that_was_deleted_keeps_its_source)
{
    read_of_the_second_meets(TW_NOT_FOUND, RUN_FAILED, "a/c ");
    scene_check_reported("Blogs a/c: its copy was deleted by others");
}

FIXTURE_TEST(a_copy_far_apart_that_cannot_be_read_is_an_outage)
{
    read_of_the_second_meets(TW_REFUSED, RUN_OUTAGE, "a/a a/c ");
}

/* ---- the dry run and the verification ---- */

FIXTURE_TEST(a_dry_run_counts_what_cannot_be_moved)
{
    struct job_estimate estimate = {.table_count = 0};

    /* More sources than one load takes. */
    scene_quietly(hosted_fill(&h, "Blogs", "b", 1100));
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

static void verify_finds(const char *job, int64_t sources, int64_t intents)
{
    struct job_verification found = {.count = 0};

    assert_ok(hosted_verify(&h, job, "", &found));
    assert_int_equal(found.count, 2);
    assert_int_equal(found.differences[0].count, sources);
    assert_int_equal(found.differences[1].count, intents);
    arena_done(&found.arena);
}

FIXTURE_TEST(a_verification_counts_the_sources_and_intents_of_its_tables)
{
    scene_quietly(hosted_table(&h, "Posts"));
    leave_an_intent();
    verify_finds("apart", 0, 0);
    verify_finds("all", 1, 1);
    scene_remove("Blogs", "a", "1");
    verify_finds("all", 0, 1);
    scene_attempt("all", "", RUN_SUCCEEDED);
    verify_finds("all", 0, 0);
}
