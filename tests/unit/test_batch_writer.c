/* SPDX-License-Identifier: MIT */
/* A batch writer sends full batches, and completes every operation whatever
 * fails. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs/engine/batch_writer.h"
#include "jobs/engine/run.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/interpose.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/store/request_pool.h"

/* A run that is asked so often whether it stops has waited for seconds. */
#define ASKED_MAX 20

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct store *outer; /* the store that operations are sent to */
    struct request_pool *request_pool;
    struct run run;
    struct batch_writer *batch_writer;
    bool stopping;
    int64_t stops_at; /* deleted entities; 0: never */
    unsigned asked;   /* how often it was asked whether the run stops */
    unsigned failed;
    char failed_key[64], failed_why[256];

    /* before_batch() changes or deletes the entity with this RowKey. */
    const char *meddle_key;
    const char *meddle_value; /* the new value; NULL: delete the entity */
    atomic_uint meddle_times;
};

static bool is_stopping(struct run *run)
{
    struct scene *scene = run->owner;

    scene->asked++;
    return scene->stopping ||
           (scene->stops_at > 0 &&
               (atomic_load(&run->counts.deleted) == scene->stops_at ||
                   scene->asked > ASKED_MAX));
}

static void note_failed(struct run *run, const struct run_failure *failure)
{
    struct scene *scene = run->owner;

    scene->failed++;
    (void)snprintf(scene->failed_key, sizeof scene->failed_key, "%.*s/%.*s",
        SLICE_ARG(failure->partition_key), SLICE_ARG(failure->row_key));
    (void)snprintf(
        scene->failed_why, sizeof scene->failed_why, "%s", failure->why);
}

static const struct run_callbacks callbacks = {
    .stopping = is_stopping,
    .failed = note_failed,
};

static void scene_init_at(struct scene *scene, unsigned in_flight, int64_t rate)
{
    static const char *const tables[] = {"Blogs", "Comments", NULL};

    *scene = (struct scene){0};
    scene->inner = table_memory(tables);
    faulty_init(&scene->faulty, scene->inner);
    scene->faulty.ctx = scene;
    scene->outer = &scene->faulty.outer.store;
    scene->request_pool = request_pool_new(4, rate);
    scene->run.job = "test";
    scene->run.callbacks = &callbacks;
    scene->run.owner = scene;
    scene->run.request_pool = pool_client_new(scene->request_pool, NULL);
    scene->batch_writer = batch_writer_new(&scene->run, in_flight);
}

static void scene_init(struct scene *scene, unsigned in_flight)
{
    scene_init_at(scene, in_flight, 0);
}

static void scene_init_two(struct scene *scene)
{
    scene_init(scene, 2);
}

/* Another number of batches that may be under way. */
static void scene_in_flight(struct scene *scene, unsigned in_flight)
{
    batch_writer_free(scene->batch_writer);
    scene->batch_writer = batch_writer_new(&scene->run, in_flight);
}

static void scene_done(struct scene *scene)
{
    batch_writer_free(scene->batch_writer);
    pool_client_free(scene->run.request_pool);
    request_pool_free(scene->request_pool);
    faulty_done(&scene->faulty);
    store_close(scene->inner);
}

TEST_FIXTURE(scene, struct scene, scene_init_two, scene_done)

/* A test whose scene has at most two batches under way. */
#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

/* ---- what kinds decide ---- */

static enum write_decision delete_anyway(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    *ret = (struct operation){.type = OPERATION_DELETE, .entity = *now};
    return WRITE_SEND;
}

static enum write_decision spare(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    return WRITE_SKIP;
}

static enum write_decision refuse(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    (void)spare(context, sent, now, arena, ret, err);
    (void)err_fail(err, TW_INVALID, "the kind says no");
    return WRITE_FAIL;
}

static bool has_value(
    const struct entity *entity, struct arena *arena, const char *value)
{
    const struct property *property = entity_find(entity, slice_of("Value"));
    struct slice text;

    return property && property_text(property, arena, &text) &&
           slice_is(text, value);
}

/* The wanted Value is "second", unless the entity was deleted or its Value is
 * "spared" now: then skip it. A delete is skipped only for "spared". */
static enum write_decision insist(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    if (!now || has_value(now, arena, "spared"))
        return WRITE_SKIP;
    *ret = (struct operation){.type = OPERATION_DELETE, .entity = *now};
    if (sent->type == OPERATION_DELETE)
        return WRITE_SEND;
    if (has_value(now, arena, "second"))
        return WRITE_IS_DONE;
    ret->type = OPERATION_REPLACE;
    entity_copy(&ret->entity, arena, now);
    entity_set_string(&ret->entity, arena, "Value", slice_of("second"));
    return WRITE_SEND;
}

typedef enum write_decision decide_fn(void *, const struct operation *,
    const struct entity *, struct arena *, struct operation *, struct err *);

/* ---- operations ---- */

static enum tw_err add(struct scene *scene, const char *table,
    enum operation_type type, const struct entity *entity, decide_fn *decide,
    struct err *err)
{
    struct batch_item item = {
        .store = scene->outer,
        .table = table,
        .operation = {.type = type, .entity = *entity},
        .decide = decide,
    };
    struct arena arena;
    enum tw_err code;

    arena_init(&arena);
    if (type == OPERATION_REPLACE) {
        entity_copy(&item.operation.entity, &arena, entity);
        entity_set_string(
            &item.operation.entity, &arena, "Value", slice_of("second"));
    }
    code = batch_writer_add(scene->batch_writer, &item, err);
    arena_done(&arena);
    return code;
}

/* Add an operation for every step-th entity of the table, in key order. */
static enum tw_err add_table(struct scene *scene, const char *table,
    enum operation_type type, size_t step, decide_fn *decide, struct err *err)
{
    struct scan_request request = {.table = table};
    enum tw_err code = TW_OK;
    struct page page;
    size_t at = 0;

    page_init(&page);
    do {
        struct exchange exchange = {0};

        request.from = page.next;
        assert_ok(store_scan(scene->inner, &exchange, &request, &page));
        for (size_t i = 0; i < page.count && code == TW_OK; i++)
            if (at++ % step == 0)
                code = add(scene, table, type, &page.entities[i], decide, err);
    } while (page.next.more && code == TW_OK);
    page_done(&page);
    return code;
}

static void add_all(
    struct scene *scene, enum operation_type type, decide_fn *decide)
{
    struct err err;

    assert_ok(add_table(scene, "Blogs", type, 1, decide, &err));
}

static void drain(struct scene *scene)
{
    struct err err;

    assert_ok(batch_writer_drain(scene->batch_writer, &err));
    assert_int_equal(batch_writer_low_water(scene->batch_writer),
        batch_writer_sequence(scene->batch_writer));
}

static void delete_table(struct scene *scene, decide_fn *decide)
{
    add_all(scene, OPERATION_DELETE, decide);
    drain(scene);
}

static void assert_all_settled(struct scene *scene)
{
    struct run_counts *counts = &scene->run.counts;
    int64_t settled = atomic_load(&counts->deleted) +
                      atomic_load(&counts->written) +
                      atomic_load(&counts->skipped) +
                      batch_writer_failed(scene->batch_writer);

    assert_int_equal(settled, batch_writer_sequence(scene->batch_writer));
    assert_int_equal(batch_writer_low_water(scene->batch_writer),
        batch_writer_sequence(scene->batch_writer));
}

/* ---- gathering ---- */

SCENE_TEST(sends_one_batch_a_started_hundred_of_each_partition)
{
    scene_in_flight(scene, 8);
    table_fill(scene->inner, "Blogs", "A", 0, 1250);
    table_fill(scene->inner, "Blogs", "B", 0, 100);
    table_fill(scene->inner, "Blogs", "C", 0, 101);
    delete_table(scene, spare);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 13 + 1 + 2);
    assert_int_equal(scene->faulty.largest_batch, 100);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 1451);
    assert_int_equal(batch_writer_done(scene->batch_writer), 1451);
    assert_all_settled(scene);
}

SCENE_TEST(partitions_that_take_turns_still_fill_their_batches)
{
    struct err err;

    scene_in_flight(scene, 8);
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    table_fill(scene->inner, "Blogs", "B", 0, 100);
    for (size_t i = 0; i < 200; i++) {
        struct exchange exchange = {0};
        struct page page;
        char row_key[8];

        page_init(&page);
        (void)snprintf(row_key, sizeof row_key, "%06u", (unsigned)i / 2);
        assert_ok(store_get(scene->inner, &exchange, "Blogs",
            slice_of(i % 2 ? "B" : "A"), slice_of(row_key), &page));
        assert_ok(add(
            scene, "Blogs", OPERATION_DELETE, &page.entities[0], spare, &err));
        page_done(&page);
    }
    drain(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_all_settled(scene);
}

SCENE_TEST(many_partitions_are_cut_when_too_many_gather)
{
    scene_in_flight(scene, 8);
    for (int i = 0; i < 300; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "P%03d", i);
        table_fill(scene->inner, "Blogs", key, 0, 2);
    }
    add_all(scene, OPERATION_DELETE, spare);
    assert_true(faulty_calls(&scene->faulty, CALL_BATCH) >= 300 - 64 - 8);
    drain(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 300);
    assert_all_settled(scene);
}

/* One operation in a partition of its own, whose batch never fills. */
SCENE_TEST(what_gathers_alone_does_not_hold_back_the_mark)
{
    enum { OTHERS = 12000 };
    struct err err;

    scene_in_flight(scene, 4);
    for (unsigned i = 0; i <= OTHERS; i++) {
        struct batch_item item = {
            .store = &scene->faulty.outer.store,
            .table = "Blogs",
            .operation = {.type = OPERATION_DELETE},
            .decide = delete_anyway,
        };
        char key[16];

        (void)snprintf(key, sizeof key, "%05u", i);
        item.operation.entity.partition_key = slice_of(i == 0 ? "A" : "B");
        item.operation.entity.row_key = slice_of(key);
        item.operation.entity.etag = slice_of("W/\"1\"");
        assert_ok(batch_writer_add(scene->batch_writer, &item, &err));
    }
    while (batch_writer_low_water(scene->batch_writer) == 0)
        (void)request_pool_wait_any(scene->run.request_pool, 0);
    assert_true(batch_writer_low_water(scene->batch_writer) >= 1);
    drain(scene);
}

SCENE_TEST(one_key_twice_goes_into_two_batches)
{
    scene_in_flight(scene, 1);
    table_fill(scene->inner, "Blogs", "A", 0, 3);
    add_all(scene, OPERATION_REPLACE, insist);
    add_all(scene, OPERATION_DELETE, insist);
    drain(scene);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    assert_int_equal(atomic_load(&scene->run.counts.written), 3);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 3);
    assert_all_settled(scene);
}

SCENE_TEST(large_entities_are_cut_by_bytes)
{
    scene_in_flight(scene, 4);
    for (int i = 0; i < 20; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "%d", 100 + i);
        table_put(scene->inner, "Blogs", "A", key, NULL, 450 * 1024);
    }
    add_all(scene, OPERATION_REPLACE, insist);
    drain(scene);
    assert_true(scene->faulty.calls[CALL_BATCH] >= 3);
    assert_true(scene->faulty.largest_batch <= 9);
    assert_true(table_has(scene->inner, "Blogs", "A", "119", "second"));
    assert_all_settled(scene);
}

SCENE_TEST(no_more_batches_are_under_way_than_allowed)
{
    table_fill(scene->inner, "Blogs", "A", 0, 2000);
    delete_table(scene, spare);
    assert_true(scene->faulty.most_running <= 2);
}

SCENE_TEST(a_cut_sends_without_waiting)
{
    struct err err;
    uint64_t seen = 0;

    table_fill(scene->inner, "Blogs", "A", 0, 5);
    add_all(scene, OPERATION_DELETE, spare);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 0);
    assert_int_equal(batch_writer_low_water(scene->batch_writer), 0);
    assert_ok(batch_writer_seal(scene->batch_writer, &err));
    while (seen == 0)
        seen = request_pool_wait_any(scene->run.request_pool, seen);
    assert_int_equal(batch_writer_low_water(scene->batch_writer), 5);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
}

SCENE_TEST(settling_drops_what_was_not_sent)
{
    table_fill(scene->inner, "Blogs", "A", 0, 150);
    add_all(scene, OPERATION_DELETE, spare);
    batch_writer_finish(scene->batch_writer);
    assert_true(table_count(scene->inner, "Blogs") >= 50);
    assert_int_equal(table_count(scene->inner, "Blogs"),
        150 - atomic_load(&scene->run.counts.deleted));
    assert_int_equal(batch_writer_low_water(scene->batch_writer),
        atomic_load(&scene->run.counts.deleted));
}

/* ---- what stands in the way ---- */

static void meddle(void *ctx, const struct batch *batch)
{
    struct scene *scene = ctx;

    if (atomic_load(&scene->meddle_times) == 0)
        return;
    atomic_fetch_sub(&scene->meddle_times, 1);
    if (scene->meddle_value)
        (void)table_write(
            scene->inner, "Blogs", "A", scene->meddle_key, scene->meddle_value);
    else
        (void)table_delete(scene->inner, "Blogs", "A", scene->meddle_key);
}

static void meddle_with(struct scene *scene, const char *key, const char *value)
{
    scene->meddle_key = key;
    scene->meddle_value = value;
    scene->meddle_times = 1;
    scene->faulty.before = meddle;
}

SCENE_TEST(what_has_changed_is_decided_again)
{
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    meddle_with(scene, "000050", "changed");
    delete_table(scene, delete_anyway);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    assert_int_equal(scene->faulty.calls[CALL_GET], 1);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_all_settled(scene);
}

SCENE_TEST(what_has_changed_may_be_spared_and_the_rest_is_not)
{
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    meddle_with(scene, "000050", "spared");
    delete_table(scene, insist);
    assert_int_equal(table_count(scene->inner, "Blogs"), 1);
    assert_true(table_has(scene->inner, "Blogs", "A", "000050", "spared"));
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 99);
    assert_int_equal(atomic_load(&scene->run.counts.skipped), 1);
    assert_all_settled(scene);
}

SCENE_TEST(what_is_gone_counts_as_deleted)
{
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    meddle_with(scene, "000050", NULL);
    delete_table(scene, refuse);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    assert_int_equal(scene->faulty.calls[CALL_GET], 1);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 100);
    assert_all_settled(scene);
}

SCENE_TEST(what_the_kind_refuses_is_reported)
{
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    meddle_with(scene, "000050", "changed");
    delete_table(scene, refuse);
    assert_int_equal(scene->failed, 1);
    assert_string_equal(scene->failed_key, "A/000050");
    assert_string_equal(scene->failed_why, "the kind says no");
    assert_int_equal(batch_writer_failed(scene->batch_writer), 1);
    assert_int_equal(table_count(scene->inner, "Blogs"), 1);
    assert_all_settled(scene);
}

SCENE_TEST(what_changes_without_end_is_given_up)
{
    table_fill(scene->inner, "Blogs", "A", 0, 20);
    meddle_with(scene, "000007", "changed");
    scene->meddle_times = 1000000;
    delete_table(scene, delete_anyway);
    assert_int_equal(scene->failed, 1);
    assert_string_equal(scene->failed_key, "A/000007");
    assert_int_equal(table_count(scene->inner, "Blogs"), 1);
    assert_all_settled(scene);
}

/* ---- reading again, beside all else ---- */

struct beside {
    struct scene scene;     /* first member: before() casts to this struct */
    struct interposed slow; /* a store whose gets wait */
    unsigned batches; /* gets wait until so many batches have come; 0: they wait
                         5 ms */
    unsigned begun, read_again, most_out;
    atomic_uint reading, most_reading;
};

static enum tw_err read_slowly(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct beside *beside =
        (struct beside *)(void *)((char *)self - offsetof(struct beside, slow));
    struct faulty *faulty = &beside->scene.faulty;
    unsigned reading;

    if (request->call != CALL_GET)
        return request_send(self->inner, exchange, request);
    reading = atomic_fetch_add(&beside->reading, 1) + 1;
    if (reading > atomic_load(&beside->most_reading))
        atomic_store(&beside->most_reading, reading);
    if (beside->batches == 0)
        (void)usleep(5000);
    while (faulty_calls(faulty, CALL_BATCH) < beside->batches)
        (void)usleep(1000);
    atomic_fetch_sub(&beside->reading, 1);
    return request_send(self->inner, exchange, request);
}

/* Change one entity of each partition before its delete arrives. */
static void meddle_with_each(void *ctx, const struct batch *batch)
{
    struct beside *beside = ctx;
    char key[16];

    if (batch->count < 100) {
        beside->read_again++;
        return;
    }
    (void)snprintf(key, sizeof key, "%.*s",
        SLICE_ARG(batch->operations[0].entity.partition_key));
    (void)table_write(beside->scene.inner, "Blogs", key, "000050", "spared");
    beside->begun++;
    if (beside->begun - beside->read_again > beside->most_out)
        beside->most_out = beside->begun - beside->read_again;
}

static void delete_slowly(struct beside *beside)
{
    struct scene *scene = &beside->scene;

    interposed_init(
        &beside->slow, "slow", &scene->faulty.outer.store, read_slowly);
    scene->outer = &beside->slow.store;
    add_all(scene, OPERATION_DELETE, insist);
    drain(scene);
    assert_all_settled(scene);
}

TEST(what_was_met_is_read_while_others_are_sent)
{
    struct beside beside = {.batches = 11};

    scene_init(&beside.scene, 4);
    table_fill(beside.scene.inner, "Blogs", "A", 0, 100);
    table_fill(beside.scene.inner, "Blogs", "B", 0, 1000);
    meddle_with(&beside.scene, "000050", "spared");
    delete_slowly(&beside);
    assert_int_equal(beside.scene.faulty.calls[CALL_GET], 1);
    assert_int_equal(table_count(beside.scene.inner, "Blogs"), 1);
    scene_done(&beside.scene);
}

static void delete_what_is_changed_in_each(
    struct beside *beside, unsigned in_flight)
{
    char key[2] = "A";

    scene_init(&beside->scene, in_flight);
    for (; key[0] < 'M'; key[0]++)
        table_fill(beside->scene.inner, "Blogs", key, 0, 100);
    beside->scene.faulty.before = meddle_with_each;
    delete_slowly(beside);
    assert_int_equal(beside->read_again, 12);
    assert_int_equal(table_count(beside->scene.inner, "Blogs"), 12);
    scene_done(&beside->scene);
}

TEST(what_is_read_again_is_under_way_still)
{
    struct beside beside = {.batches = 0};

    delete_what_is_changed_in_each(&beside, 2);
    assert_true(beside.most_out <= 2);
}

/* Changed entities are read whole and may be large: more re-reads at a time
 * would take all the memory that requests may use together. */
TEST(what_is_read_again_takes_part_of_the_memory_alone)
{
    struct beside beside = {.batches = 0};

    delete_what_is_changed_in_each(&beside, 8);
    assert_in_range(atomic_load(&beside.most_reading), 2, 3);
}

SCENE_TEST(a_missing_table_holds_nothing_to_delete)
{
    struct page page;
    struct err err;
    struct exchange exchange = {0};
    struct scan_request request = {.table = "Blogs"};

    page_init(&page);
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    assert_ok(store_scan(scene->inner, &exchange, &request, &page));
    for (size_t i = 0; i < page.count; i++)
        assert_ok(add(
            scene, "Gone", OPERATION_DELETE, &page.entities[i], spare, &err));
    drain(scene);
    assert_true(
        scene->faulty.calls[CALL_BATCH] + scene->faulty.calls[CALL_SCAN] < 10);
    assert_all_settled(scene);
    assert_ok(
        add(scene, "Gone", OPERATION_INSERT, &page.entities[0], spare, &err));
    assert_int_equal(
        batch_writer_drain(scene->batch_writer, &err), TW_NOT_FOUND);
    assert_non_null(strstr(err.text, "Gone"));
    page_done(&page);
}

/* ---- lost answers ---- */

static enum fault first_batch_meets(
    enum fault fault, enum store_call call, unsigned n)
{
    return call == CALL_BATCH && n == 0 ? fault : FAULT_NONE;
}

FAULTY_CHOICE(first_answer_lost)
{
    return first_batch_meets(FAULT_LOSE_ANSWER, call, n);
}

FAULTY_CHOICE(first_request_lost)
{
    return first_batch_meets(FAULT_LOSE_REQUEST, call, n);
}

FAULTY_CHOICE(first_index_lost)
{
    return first_batch_meets(FAULT_NO_INDEX, call, n);
}

SCENE_TEST(a_lost_answer_costs_one_read)
{
    scene->faulty.choose = first_answer_lost;
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    delete_table(scene, refuse);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
    assert_int_equal(scene->faulty.calls[CALL_GET], 0);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 100);
    assert_all_settled(scene);
}

SCENE_TEST(a_lost_answer_to_writes_costs_one_read)
{
    scene->faulty.choose = first_answer_lost;
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    add_all(scene, OPERATION_REPLACE, insist);
    drain(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
    assert_int_equal(scene->faulty.calls[CALL_GET], 0);
    assert_int_equal(atomic_load(&scene->run.counts.written), 100);
    assert_all_settled(scene);
}

SCENE_TEST(a_lost_request_is_sent_again)
{
    scene->faulty.choose = first_request_lost;
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    delete_table(scene, refuse);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    assert_all_settled(scene);
}

SCENE_TEST(a_refusal_that_names_nothing_is_found_by_reading)
{
    scene->faulty.choose = first_index_lost;
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    meddle_with(scene, "000050", "spared");
    delete_table(scene, insist);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
    assert_int_equal(scene->faulty.calls[CALL_GET], 1);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(table_count(scene->inner, "Blogs"), 1);
    assert_all_settled(scene);
}

SCENE_TEST(a_sparse_range_is_not_read_whole)
{
    struct err err;

    scene->faulty.choose = first_answer_lost;
    table_fill(scene->inner, "Blogs", "A", 0, 8000);
    assert_ok(add_table(scene, "Blogs", OPERATION_DELETE, 800, refuse, &err));
    drain(scene);
    assert_true(scene->faulty.calls[CALL_SCAN] <= 5);
    assert_true(scene->faulty.calls[CALL_GET] <= 10);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_int_equal(table_count(scene->inner, "Blogs"), 7990);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 10);
    assert_all_settled(scene);
}

SCENE_TEST(keys_beyond_the_first_plane_are_found_again)
{
    static const char *const keys[] = {
        "a", "\xee\x80\x80", "\xf0\x9f\x98\x80", "\xef\xbf\xbd"};

    scene->faulty.choose = first_answer_lost;
    for (size_t i = 0; i < 4; i++)
        table_put(scene->inner, "Blogs", "A", keys[i], "first", 0);
    delete_table(scene, refuse);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 4);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_all_settled(scene);
}

/* ---- what can never succeed, and what no retry can repair ---- */

TEST(only_the_invalid_entity_fails)
{
    static const enum tw_err refusals[] = {TW_INVALID, TW_TOO_LARGE};

    for (size_t i = 0; i < 4; i++) {
        struct scene scene;

        scene_init(&scene, 2);
        table_fill(scene.inner, "Blogs", "A", 0, 250);
        scene.faulty.refused_key = "000142";
        scene.faulty.refusal = refusals[i % 2];
        scene.faulty.refusal_unnamed = i >= 2;
        delete_table(&scene, spare);
        assert_int_equal(scene.failed, 1);
        assert_string_equal(scene.failed_key, "A/000142");
        assert_string_equal(scene.failed_why, "refused as the test wants");
        assert_int_equal(table_count(scene.inner, "Blogs"), 1);
        assert_int_equal(atomic_load(&scene.run.counts.deleted), 249);
        assert_all_settled(&scene);
        scene_done(&scene);
    }
}

FAULTY_CHOICE(unsent_from_the_third)
{
    return call == CALL_BATCH && n >= 2 ? FAULT_UNSENT : FAULT_NONE;
}

FAULTY_CHOICE(always_lost)
{
    return call == CALL_BATCH ? FAULT_LOSE_REQUEST : FAULT_NONE;
}

FAULTY_CHOICE(refused_from_the_third)
{
    return unsent_from_the_third(ctx, call, n) == FAULT_UNSENT ? FAULT_REFUSED
                                                               : FAULT_NONE;
}

TEST(an_outage_ends_the_flow_and_claims_nothing)
{
    static const struct {
        enum fault (*choose)(void *, enum store_call, unsigned);
        enum tw_err code;
        size_t done;
    } cases[] = {
        {unsent_from_the_third, TW_BUSY, 200},
        {refused_from_the_third, TW_REFUSED, 200},
        {always_lost, TW_UNKNOWN, 0},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct scene scene;
        struct err err;
        enum tw_err code;

        scene_init(&scene, 1);
        table_fill(scene.inner, "Blogs", "A", 0, 550);
        scene.faulty.choose = cases[i].choose;
        code = add_table(&scene, "Blogs", OPERATION_DELETE, 1, spare, &err);
        if (code == TW_OK)
            code = batch_writer_drain(scene.batch_writer, &err);
        assert_int_equal(code, cases[i].code);
        assert_non_null(strstr(err.text, "Blogs"));
        assert_non_null(strstr(err.text, "as the test wants"));
        batch_writer_finish(scene.batch_writer);
        assert_int_equal(
            batch_writer_low_water(scene.batch_writer), cases[i].done);
        assert_int_equal(atomic_load(&scene.run.counts.deleted), cases[i].done);
        assert_int_equal(
            table_count(scene.inner, "Blogs"), 550 - cases[i].done);
        assert_int_equal(
            batch_writer_drain(scene.batch_writer, &err), cases[i].code);
        scene_done(&scene);
    }
}

SCENE_TEST(stopping_the_client_ends_the_flow)
{
    struct err err;

    table_fill(scene->inner, "Blogs", "A", 0, 50);
    add_all(scene, OPERATION_DELETE, spare);
    request_pool_stop(scene->run.request_pool);
    assert_int_equal(batch_writer_drain(scene->batch_writer, &err), TW_STOPPED);
    assert_int_equal(table_count(scene->inner, "Blogs"), 50);
}

TEST(a_run_that_stops_does_not_wait_for_the_ceiling)
{
    struct scene scene;
    struct err err;

    scene_init_at(&scene, 2, 1);
    scene.stopping = true;
    table_fill(scene.inner, "Blogs", "A", 0, 250);
    if (add_table(&scene, "Blogs", OPERATION_DELETE, 1, spare, &err) == TW_OK)
        assert_int_equal(
            batch_writer_drain(scene.batch_writer, &err), TW_STOPPED);
    batch_writer_finish(scene.batch_writer);
    assert_int_equal(batch_writer_low_water(scene.batch_writer), 100);
    assert_int_equal(table_count(scene.inner, "Blogs"), 150);
    scene_done(&scene);
}

/* Otherwise a slow run shows no progress before all of a page is sent. */
TEST(what_is_done_is_counted_while_others_wait_for_the_ceiling)
{
    struct scene scene;
    struct err err;

    scene_init_at(&scene, 2, 1);
    scene.stops_at = 100;
    table_fill(scene.inner, "Blogs", "A", 0, 250);
    if (add_table(&scene, "Blogs", OPERATION_DELETE, 1, spare, &err) == TW_OK)
        assert_int_equal(
            batch_writer_drain(scene.batch_writer, &err), TW_STOPPED);
    assert_int_equal(atomic_load(&scene.run.counts.deleted), 100);
    batch_writer_finish(scene.batch_writer);
    assert_int_equal(table_count(scene.inner, "Blogs"), 150);
    scene_done(&scene);
}

/* ---- a store in the way ---- */

/* A store in front of the scene's: chosen requests of one sort get a chosen
 * outcome. */
struct gate {
    struct interposed outer; /* first member: cast to this struct */
    enum store_call call;
    unsigned first, last, seen; /* counted from 1 */
    enum tw_err outcome;
    bool names_first; /* refusals name operation 0 */
    atomic_uint open; /* operations that were counted but not passed on */
};

static enum tw_err gate_meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct gate *gate = (struct gate *)self;

    if (request->call != gate->call || ++gate->seen < gate->first ||
        gate->seen > gate->last)
        return request_send(self->inner, exchange, request);
    if (request->result)
        request->result->failed = gate->names_first ? 0 : request->batch->count;
    return err_fail(&exchange->err, gate->outcome, "the gate is shut");
}

static void gate_init(struct gate *gate, struct scene *scene,
    enum store_call call, unsigned first, unsigned last, enum tw_err outcome)
{
    *gate = (struct gate){
        .call = call, .first = first, .last = last, .outcome = outcome};
    interposed_init(
        &gate->outer, "gate", &scene->faulty.outer.store, gate_meet);
}

static enum tw_err add_at(struct scene *scene, struct store *store,
    const char *table, enum operation_type type, const char *partition_key,
    unsigned key, struct err *err)
{
    struct batch_item item = {
        .store = store,
        .table = table,
        .operation = {.type = type},
        .decide = insist,
    };
    struct arena arena;
    char row_key[16];
    enum tw_err code;

    arena_init(&arena);
    (void)snprintf(row_key, sizeof row_key, "%06u", key);
    entity_init(&item.operation.entity, &arena, slice_of(partition_key),
        slice_of(row_key));
    if (type != OPERATION_INSERT)
        item.operation.entity.etag = slice_of("W/\"old\"");
    if (type != OPERATION_DELETE)
        entity_set_string(
            &item.operation.entity, &arena, "Value", slice_of("first"));
    code = batch_writer_add(scene->batch_writer, &item, err);
    arena_done(&arena);
    return code;
}

/* Operations for A/000000 and those that follow, all of which are taken. */
static void add_range(struct scene *scene, struct store *store,
    const char *table, enum operation_type type, unsigned count)
{
    struct err err;

    for (unsigned i = 0; i < count; i++)
        assert_ok(add_at(scene, store, table, type, "A", i, &err));
}

static void insert_ten(struct scene *scene)
{
    add_range(scene, &scene->faulty.outer.store, "Blogs", OPERATION_INSERT, 10);
}

SCENE_TEST(two_stores_share_no_batch)
{
    struct gate other;
    struct err err;

    gate_init(&other, scene, CALL_QUEUE_PEEK, 1, 1, TW_OK);
    for (unsigned i = 0; i < 10; i++)
        assert_ok(add_at(scene,
            i % 2 ? &other.outer.store : &scene->faulty.outer.store, "Blogs",
            OPERATION_INSERT, "A", i, &err));
    drain(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(table_count(scene->inner, "Blogs"), 10);
    assert_all_settled(scene);
}

TEST(a_broken_flow_takes_nothing_more)
{
    static const enum tw_err last_words[] = {TW_FULL, TW_REFUSED};

    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        struct gate gate;
        struct err err;

        scene_init(&scene, 2);
        gate_init(&gate, &scene, CALL_BATCH, 1, 1, last_words[i]);
        assert_ok(add_at(&scene, &gate.outer.store, "Blogs", OPERATION_INSERT,
            "A", 1, &err));
        assert_int_equal(
            batch_writer_drain(scene.batch_writer, &err), last_words[i]);
        assert_int_equal(add_at(&scene, &gate.outer.store, "Blogs",
                             OPERATION_INSERT, "A", 2, &err),
            last_words[i]);
        assert_non_null(strstr(err.text, "the gate is shut"));
        assert_int_equal(batch_writer_sequence(scene.batch_writer), 1);
        assert_int_equal(table_count(scene.inner, "Blogs"), 0);
        scene_done(&scene);
    }
    batch_writer_free(NULL);
}

SCENE_TEST(inserts_whose_request_was_lost_are_sent_again)
{
    scene->faulty.choose = first_request_lost;
    insert_ten(scene);
    drain(scene);
    assert_int_equal(table_count(scene->inner, "Blogs"), 10);
    assert_int_equal(atomic_load(&scene->run.counts.written), 10);
    assert_all_settled(scene);
}

SCENE_TEST(a_batch_of_inserts_that_are_all_there_costs_one_read)
{
    table_fill(scene->inner, "Blogs", "A", 0, 10);
    insert_ten(scene);
    drain(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
    assert_int_equal(scene->faulty.calls[CALL_GET], 0);
    assert_int_equal(atomic_load(&scene->run.counts.written), 10);
    assert_all_settled(scene);
}

SCENE_TEST(an_insert_of_what_is_there_is_decided)
{
    table_put(scene->inner, "Blogs", "A", "000003", "there", 0);
    table_put(scene->inner, "Blogs", "A", "000005", "spared", 0);
    insert_ten(scene);
    drain(scene);
    assert_int_equal(table_count(scene->inner, "Blogs"), 10);
    assert_true(table_has(scene->inner, "Blogs", "A", "000003", "second"));
    assert_true(table_has(scene->inner, "Blogs", "A", "000005", "spared"));
    assert_all_settled(scene);
}

SCENE_TEST(a_missing_table_holds_nothing_to_replace)
{
    struct gate gate;
    struct err err;

    gate_init(&gate, scene, CALL_BATCH, 1, 1, TW_NOT_FOUND);
    add_range(scene, &gate.outer.store, "Gone", OPERATION_REPLACE, 2);
    assert_int_equal(
        batch_writer_drain(scene->batch_writer, &err), TW_NOT_FOUND);
    assert_string_equal(err.text, "table Gone does not exist");
}

/* The index in the response may be wrong: an entity that still exists is not
 * done. */
SCENE_TEST(what_is_said_to_be_gone_is_looked_for)
{
    struct gate gate;

    table_fill(scene->inner, "Blogs", "A", 0, 2);
    gate_init(&gate, scene, CALL_BATCH, 1, 1, TW_NOT_FOUND);
    gate.names_first = true;
    add_range(scene, &gate.outer.store, "Blogs", OPERATION_DELETE, 2);
    drain(scene);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    assert_all_settled(scene);
}

SCENE_TEST(what_cannot_be_read_again_ends_the_flow)
{
    struct gate gate;
    struct err err;

    table_fill(scene->inner, "Blogs", "A", 0, 20);
    gate_init(&gate, scene, CALL_GET, 3, 3, TW_REFUSED);
    scene->faulty.choose = first_index_lost;
    for (unsigned i = 0; i < 20; i++) /* each of these entities has changed */
        assert_ok(add_at(
            scene, &gate.outer.store, "Blogs", OPERATION_DELETE, "A", i, &err));
    assert_int_equal(batch_writer_drain(scene->batch_writer, &err), TW_REFUSED);
    assert_string_equal(err.text, "table Blogs: the gate is shut");
    assert_int_equal(gate.seen, 3);
    assert_int_equal(table_count(scene->inner, "Blogs"), 20);
}

SCENE_TEST(many_large_operations_do_not_gather)
{
    for (int i = 0; i < 20; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "P%d", 100 + i);
        table_put(scene->inner, "Blogs", key, "b", NULL, 450 * 1024);
    }
    add_all(scene, OPERATION_REPLACE, insist);
    while (faulty_calls(&scene->faulty, CALL_BATCH) < 8)
        (void)batch_writer_low_water(scene->batch_writer);
    drain(scene);
    /* Two batches at a time: if this machine is slow, that many are refused as
     * busy and sent again. */
    assert_in_range(scene->faulty.calls[CALL_BATCH], 20, 26);
    assert_true(table_has(scene->inner, "Blogs", "P119", "b", "second"));
    assert_all_settled(scene);
}

TEST(a_ceiling_is_waited_for)
{
    struct scene scene;

    scene_init_at(&scene, 2, 50);
    table_fill(scene.inner, "Blogs", "A", 0, 350);
    delete_table(&scene, spare);
    assert_int_equal(table_count(scene.inner, "Blogs"), 0);
    assert_all_settled(&scene);
    scene_done(&scene);
}

/* When a batch writer is finished, a batch with an unknown outcome is re-read,
 * but no batch is sent any more. */
TEST(settling_sends_nothing_again)
{
    static const struct {
        enum fault (*choose)(void *, enum store_call, unsigned);
        bool stale; /* the entities have changed, so the batch is refused */
        size_t left;
    } cases[] = {{first_index_lost, true, 10}, {first_request_lost, false, 10},
        {first_answer_lost, false, 0}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct scene scene;
        struct err err;

        scene_init(&scene, 2);
        table_fill(scene.inner, "Blogs", "A", 0, 10);
        scene.faulty.choose = cases[i].choose;
        for (unsigned j = 0; cases[i].stale && j < 10; j++)
            assert_ok(add_at(&scene, &scene.faulty.outer.store, "Blogs",
                OPERATION_DELETE, "A", j, &err));
        if (!cases[i].stale)
            assert_ok(
                add_table(&scene, "Blogs", OPERATION_DELETE, 1, spare, &err));
        assert_ok(batch_writer_seal(scene.batch_writer, &err));
        while (faulty_calls(&scene.faulty, CALL_BATCH) == 0)
            continue;
        batch_writer_finish(scene.batch_writer);
        assert_int_equal(faulty_calls(&scene.faulty, CALL_BATCH), 1);
        assert_int_equal(table_count(scene.inner, "Blogs"), cases[i].left);
        assert_int_equal(
            batch_writer_low_water(scene.batch_writer), 10 - cases[i].left);
        scene_done(&scene);
    }
}

#define FAR 70000
#define FAR_AHEAD (65536 - 1) /* beyond the first sequence number */

static enum tw_err swallow(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct gate *gate = (struct gate *)self;
    int64_t until_ms = platform_boot_ms() + 600000;

    if (!slice_is(request->partition_key, "slow")) {
        atomic_fetch_add(&gate->open, (unsigned)request->batch->count);
        return TW_OK;
    }
    while (
        atomic_load(&gate->open) < FAR_AHEAD && platform_boot_ms() < until_ms)
        usleep(1000);
    return TW_OK;
}

/* The response to the first batch comes last: no operation is added beyond the
 * largest distance from the low-water mark. */
SCENE_TEST(one_slow_batch_holds_back_who_is_far_ahead)
{
    struct gate gate;
    struct err err;

    scene_in_flight(scene, 4);
    gate_init(&gate, scene, CALL_BATCH, 1, 1, TW_OK);
    gate.outer.meet = swallow;
    assert_ok(add_at(
        scene, &gate.outer.store, "Blogs", OPERATION_DELETE, "slow", 0, &err));
    assert_ok(batch_writer_seal(scene->batch_writer, &err));
    for (unsigned i = 1; i <= FAR; i++) {
        assert_ok(add_at(
            scene, &gate.outer.store, "Blogs", OPERATION_DELETE, "A", i, &err));
        assert_true(batch_writer_sequence(scene->batch_writer) -
                        batch_writer_low_water(scene->batch_writer) <=
                    65536);
    }
    drain(scene);
    assert_int_equal(batch_writer_low_water(scene->batch_writer), FAR + 1);
    assert_all_settled(scene);
}

/* ---- anything at any time ---- */

#define SEEDS 40
#define PARTITIONS 3
#define ENTITIES 240
#define ATTEMPTS 20

struct chaos {
    struct scene scene; /* first member: cast to this struct */
    uint64_t seed;
    atomic_uint draws;
    atomic_uint meddled;
};

/* splitmix64 */
static uint64_t draw(struct chaos *chaos, uint64_t below)
{
    uint64_t z = chaos->seed * UINT64_C(1000003) +
                 (uint64_t)atomic_fetch_add(&chaos->draws, 1) *
                     UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

FAULTY_CHOICE(choose_at_random)
{
    static const enum fault faults[] = {FAULT_BUSY, FAULT_LOSE_REQUEST,
        FAULT_LOSE_ANSWER, FAULT_LOSE_ANSWER, FAULT_NO_INDEX};
    struct chaos *chaos = ctx;
    uint64_t drawn = draw(chaos, 20);

    return drawn < 5 ? faults[drawn] : FAULT_NONE;
}

/* A front end that, just before the batch arrives, writes an entity of the
 * batch, marks it as spared or deletes it, or inserts one that the batch will
 * insert. */
static void meddle_at_random(void *ctx, const struct batch *batch)
{
    struct chaos *chaos = ctx;
    struct store *inner = chaos->scene.inner;
    const struct operation *operation =
        &batch->operations[draw(chaos, batch->count)];
    char partition_key[8], row_key[16];

    if (draw(chaos, 2) != 0)
        return;
    atomic_fetch_add(&chaos->meddled, 1);
    (void)snprintf(partition_key, sizeof partition_key, "%.*s",
        SLICE_ARG(operation->entity.partition_key));
    (void)snprintf(
        row_key, sizeof row_key, "%.*s", SLICE_ARG(operation->entity.row_key));
    switch (draw(chaos, 3)) {
    case 0:
        (void)table_write(inner, "Blogs", partition_key, row_key, "changed");
        break;
    case 1:
        (void)table_write(inner, "Blogs", partition_key, row_key, "spared");
        break;
    default:
        (void)table_delete(inner, "Blogs", partition_key, row_key);
        break;
    }
}

/* The state that the run wants for an entity depends on the RowKey only. */
static unsigned wish_of(struct slice row_key)
{
    return (unsigned)(row_key.at[row_key.len - 1] - '0') % 3;
}

enum wish { WISH_DELETE, WISH_WRITE, WISH_LEAVE };

/* One pass over the table: add an operation for each entity that is not in the
 * wanted state. */
static enum tw_err chaos_pass(struct scene *scene, struct err *err)
{
    static const char leave[] = "spared";
    struct scan_request request = {.table = "Blogs"};
    struct exchange exchange = {0};
    enum tw_err code = TW_OK;
    struct arena arena;
    struct page page;

    page_init(&page);
    arena_init(&arena);
    assert_ok(store_scan(scene->inner, &exchange, &request, &page));
    assert_false(page.next.more);
    for (size_t i = 0; i < page.count && code == TW_OK; i++) {
        const struct entity *entity = &page.entities[i];
        unsigned wish = wish_of(entity->row_key);

        if (wish == WISH_LEAVE || has_value(entity, &arena, leave) ||
            has_value(entity, &arena, "second"))
            continue;
        code = add(scene, "Blogs",
            wish == WISH_DELETE ? OPERATION_DELETE : OPERATION_REPLACE, entity,
            insist, err);
    }
    if (code == TW_OK)
        code = batch_writer_drain(scene->batch_writer, err);
    arena_done(&arena);
    page_done(&page);
    return code;
}

/* As a worker does, follow an attempt that ends in an outage by another
 * attempt, which reads the current state. */
static void run_through_chaos(struct scene *scene)
{
    enum tw_err code = TW_BUSY;
    struct err err;

    for (int attempt = 0; code != TW_OK; attempt++) {
        assert_true(attempt < ATTEMPTS);
        code = chaos_pass(scene, &err);
        if (code == TW_OK)
            assert_int_equal(batch_writer_low_water(scene->batch_writer),
                batch_writer_sequence(scene->batch_writer));
        else
            assert_true(code == TW_BUSY || code == TW_UNKNOWN);
        batch_writer_free(scene->batch_writer);
        scene->batch_writer = batch_writer_new(&scene->run, 3);
    }
}

static void check_wishes(struct scene *scene)
{
    struct scan_request request = {.table = "Blogs"};
    struct exchange exchange = {0};
    struct arena arena;
    struct page page;
    size_t left = 0;

    page_init(&page);
    arena_init(&arena);
    assert_ok(store_scan(scene->inner, &exchange, &request, &page));
    for (size_t i = 0; i < page.count; i++) {
        const struct entity *entity = &page.entities[i];
        unsigned wish = wish_of(entity->row_key);

        if (wish == WISH_LEAVE) {
            assert_true(has_value(entity, &arena, "first"));
            left++;
        } else if (wish == WISH_WRITE) {
            assert_true(has_value(entity, &arena, "second") ||
                        has_value(entity, &arena, "spared"));
        } else {
            assert_true(has_value(entity, &arena, "spared"));
        }
    }
    assert_int_equal(left, PARTITIONS * ENTITIES / 10 * 3);
    arena_done(&arena);
    page_done(&page);
}

TEST(ends_as_the_model_says_whatever_fails)
{
    unsigned meddled = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct chaos chaos = {.seed = seed};

        scene_init(&chaos.scene, 3);
        for (unsigned i = 0; i < PARTITIONS; i++)
            table_fill(chaos.scene.inner, "Blogs", (char[]){(char)('A' + i), 0},
                0, ENTITIES);
        chaos.scene.faulty.choose = choose_at_random;
        chaos.scene.faulty.before = meddle_at_random;
        chaos.scene.faulty.ctx = &chaos;
        run_through_chaos(&chaos.scene);
        assert_int_equal(chaos.scene.failed, 0);
        check_wishes(&chaos.scene);
        meddled += atomic_load(&chaos.meddled);
        scene_done(&chaos.scene);
    }
    assert_true(meddled > SEEDS);
}

/* ---- what is told ---- */

/* What settled() reported of the operation with this RowKey. */
struct told {
    unsigned times;
    enum batch_writer_end end;
    bool indeterminate;
    char etag[96];
};

enum { TOLD_MAX = 150 };

static void note_settled(void *context, const struct batch_writer_settled *how)
{
    struct told *told = context;

    told->times++;
    told->end = how->end;
    told->indeterminate = how->indeterminate;
    (void)snprintf(told->etag, sizeof told->etag, "%.*s", SLICE_ARG(how->etag));
}

static enum write_decision keep(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    (void)spare(context, sent, now, arena, ret, err);
    return WRITE_NO_OP;
}

static enum write_decision take_as_done(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    (void)spare(context, sent, now, arena, ret, err);
    return WRITE_IS_DONE;
}

/* Add an operation for A/KEY; if it needs an ETag, with one that no entity
 * has. */
static void add_one_told(struct scene *scene, enum operation_type type,
    decide_fn *decide, unsigned key, struct told *told)
{
    struct batch_item item = {
        .store = &scene->faulty.outer.store,
        .table = "Blogs",
        .operation = {.type = type},
        .decide = decide,
        .context = told,
        .settled = note_settled,
    };
    char row_key[16];
    struct err err;

    (void)snprintf(row_key, sizeof row_key, "%06u", key);
    item.operation.entity.partition_key = slice_of("A");
    item.operation.entity.row_key = slice_of(row_key);
    if (type != OPERATION_INSERT)
        item.operation.entity.etag = slice_of("W/\"old\"");
    assert_ok(batch_writer_add(scene->batch_writer, &item, &err));
}

static void add_told(struct scene *scene, enum operation_type type,
    decide_fn *decide, struct told *told, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add_one_told(scene, type, decide, i, &told[i]);
}

static void read_etag(struct scene *scene, unsigned key, char to[96])
{
    struct exchange exchange = {0};
    struct page page;
    char row_key[16];

    (void)snprintf(row_key, sizeof row_key, "%06u", key);
    page_init(&page);
    assert_ok(store_get(scene->inner, &exchange, "Blogs", slice_of("A"),
        slice_of(row_key), &page));
    (void)snprintf(to, 96, "%.*s", SLICE_ARG(page.entities[0].etag));
    page_done(&page);
}

static void assert_told(struct told *told, unsigned count,
    enum batch_writer_end end, bool indeterminate)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(told[i].times, 1);
        assert_int_equal(told[i].end, end);
        assert_int_equal(told[i].indeterminate, indeterminate);
    }
}

static void assert_told_the_stored_etag(
    struct scene *scene, struct told *told, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char etag[96];

        read_etag(scene, i, etag);
        assert_string_equal(told[i].etag, etag);
    }
}

static void assert_told_no_etag(struct told *told, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(told[i].etag, "");
}

SCENE_TEST(each_operation_is_told_once_with_the_etag_stored)
{
    struct told told[TOLD_MAX] = {{0}};

    add_told(scene, OPERATION_INSERT, refuse, told, TOLD_MAX);
    drain(scene);
    assert_told(told, TOLD_MAX, WRITTEN, false);
    assert_told_the_stored_etag(scene, told, TOLD_MAX);
}

SCENE_TEST(what_was_so_before_is_told_as_kept_and_counts_as_nothing)
{
    struct told told[TOLD_MAX] = {{0}};

    table_fill(scene->inner, "Blogs", "A", 0, 20);
    add_told(scene, OPERATION_INSERT, keep, told, 20);
    drain(scene);
    assert_told(told, 20, WRITE_WAS_NO_OP, false);
    assert_told_the_stored_etag(scene, told, 20);
    assert_int_equal(atomic_load(&scene->run.counts.written), 0);
    assert_int_equal(atomic_load(&scene->run.counts.skipped), 0);
    assert_int_equal(batch_writer_done(scene->batch_writer), 0);
    assert_int_equal(scene->failed, 0);
}

SCENE_TEST(what_is_taken_as_done_is_told_with_the_etag_met)
{
    struct told told[TOLD_MAX] = {{0}};

    table_fill(scene->inner, "Blogs", "A", 0, 1);
    add_told(scene, OPERATION_INSERT, take_as_done, told, 1);
    drain(scene);
    assert_told(told, 1, WRITTEN, false);
    assert_told_the_stored_etag(scene, told, 1);
    assert_int_equal(batch_writer_done(scene->batch_writer), 1);
}

SCENE_TEST(a_replace_of_nothing_can_be_taken_as_done)
{
    struct told told[1] = {{0}};

    add_told(scene, OPERATION_REPLACE, take_as_done, told, 1);
    drain(scene);
    assert_told(told, 1, WRITTEN, false);
    assert_told_no_etag(told, 1);
}

SCENE_TEST(what_was_gone_is_told_as_gone_and_counts_as_deleted)
{
    struct told told[TOLD_MAX] = {{0}};

    table_fill(scene->inner, "Blogs", "A", 0, 10);
    add_told(scene, OPERATION_DELETE, delete_anyway, told, 30);
    drain(scene);
    assert_told(told, 10, WRITTEN, false);
    assert_told(told + 10, 20, WRITE_OF_ABSENT, false);
    assert_told_no_etag(told, 30);
    assert_int_equal(atomic_load(&scene->run.counts.deleted), 30);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
}

SCENE_TEST(what_is_spared_or_refused_is_told_so)
{
    struct told told[TOLD_MAX] = {{0}};

    table_fill(scene->inner, "Blogs", "A", 0, 20);
    add_told(scene, OPERATION_DELETE, spare, told, 10);
    add_told(scene, OPERATION_DELETE, refuse, told + 10, 10);
    drain(scene);
    assert_told(told, 10, WRITE_WAS_SKIPPED, false);
    assert_told(told + 10, 10, WRITE_FAILED, false);
    assert_told_no_etag(told, 20);
    assert_int_equal(scene->failed, 10);
}

SCENE_TEST(one_that_was_met_after_a_lost_answer_is_indeterminate)
{
    struct told told[TOLD_MAX] = {{0}};

    scene_in_flight(scene, 1);
    scene->faulty.choose = first_answer_lost;
    add_told(scene, OPERATION_INSERT, keep, told, TOLD_MAX);
    drain(scene);
    assert_told(told, 100, WRITE_WAS_NO_OP, true);
    assert_told(told + 100, 50, WRITTEN, false);
    assert_told_the_stored_etag(scene, told, TOLD_MAX);
}

SCENE_TEST(a_delete_whose_answer_was_lost_is_indeterminate)
{
    struct told told[TOLD_MAX] = {{0}};

    scene_in_flight(scene, 1);
    scene->faulty.choose = first_answer_lost;
    add_told(scene, OPERATION_DELETE, refuse, told, 5);
    drain(scene);
    assert_told(told, 5, WRITE_OF_ABSENT, true);
}

/* The second request of the operation got a response, but the first request may
 * still arrive. */
SCENE_TEST(one_that_was_sent_again_stays_indeterminate)
{
    struct told told[TOLD_MAX] = {{0}};

    scene_in_flight(scene, 1);
    scene->faulty.choose = first_request_lost;
    add_told(scene, OPERATION_INSERT, refuse, told, 100);
    drain(scene);
    assert_told(told, 100, WRITTEN, true);
    assert_told_the_stored_etag(scene, told, 100);
}

/* After the lost response the range from the least to the greatest key is read,
 * although operations came in falling order. A second operation for one key
 * goes into another batch. */
SCENE_TEST(operations_may_come_in_any_order)
{
    struct told told[TOLD_MAX] = {{0}};

    scene_in_flight(scene, 1);
    scene->faulty.choose = first_answer_lost;
    for (unsigned i = 0; i < 90; i++)
        add_one_told(scene, OPERATION_INSERT, keep, 89 - i, &told[89 - i]);
    add_one_told(scene, OPERATION_INSERT, keep, 50, &told[90]);
    drain(scene);
    assert_told(told, 90, WRITE_WAS_NO_OP, true);
    assert_told(told + 90, 1, WRITE_WAS_NO_OP, false);
    assert_told_the_stored_etag(scene, told, 90);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
}

SCENE_TEST(doubt_is_kept_where_a_batch_is_halved)
{
    struct told told[TOLD_MAX] = {{0}};

    scene_in_flight(scene, 1);
    scene->faulty.choose = first_request_lost;
    scene->faulty.refused_key = "000037";
    scene->faulty.refusal = TW_INVALID;
    scene->faulty.refusal_unnamed = true;
    add_told(scene, OPERATION_INSERT, refuse, told, 100);
    drain(scene);
    assert_told(told, 37, WRITTEN, true);
    assert_told(told + 37, 1, WRITE_FAILED, true);
    assert_told(told + 38, 62, WRITTEN, true);
    assert_told_no_etag(told + 37, 1);
}

SCENE_TEST(what_is_dropped_is_never_told)
{
    struct told told[TOLD_MAX] = {{0}};
    struct err err;

    scene_in_flight(scene, 1);
    add_told(scene, OPERATION_INSERT, refuse, told, 50);
    batch_writer_finish(scene->batch_writer);
    batch_writer_free(scene->batch_writer);
    scene->batch_writer = batch_writer_new(&scene->run, 1);
    scene->faulty.refused_key = "000007";
    scene->faulty.refusal = TW_REFUSED;
    add_told(scene, OPERATION_INSERT, refuse, told, 50);
    assert_int_equal(batch_writer_drain(scene->batch_writer, &err), TW_REFUSED);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(told[i].times, 0);
}

/* Deletes what was copied, by a second batch writer. */
struct relay {
    struct scene *scene;
    struct batch_writer *second;
    struct told *told;
};

static void delete_what_was_written(
    void *context, const struct batch_writer_settled *how)
{
    struct relay *relay = context;
    struct batch_item item = {
        .store = &relay->scene->faulty.outer.store,
        .table = "Blogs",
        .operation =
            {
                .type = OPERATION_DELETE,
                .entity = {.partition_key = slice_of("A"),
                    .row_key = slice_of("000000"),
                    .etag = how->etag},
            },
        .decide = refuse,
        .context = relay->told,
        .settled = note_settled,
    };
    struct err err;

    assert_ok(batch_writer_add(relay->second, &item, &err));
}

SCENE_TEST(what_is_told_may_go_into_another_flow)
{
    struct told told = {0};
    struct relay relay = {.scene = scene, .told = &told};
    struct batch_item item = {
        .table = "Blogs",
        .operation = {.type = OPERATION_INSERT,
            .entity = {.partition_key = slice_of("A"),
                .row_key = slice_of("000000")}},
        .decide = refuse,
        .context = &relay,
        .settled = delete_what_was_written,
    };
    struct err err;

    relay.second = batch_writer_new(&scene->run, 2);
    item.store = &scene->faulty.outer.store;
    assert_ok(batch_writer_add(scene->batch_writer, &item, &err));
    drain(scene);
    assert_ok(batch_writer_drain(relay.second, &err));
    assert_told(&told, 1, WRITTEN, false);
    assert_int_equal(table_count(scene->inner, "Blogs"), 0);
    batch_writer_free(relay.second);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
