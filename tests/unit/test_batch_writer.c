/* SPDX-License-Identifier: MIT */
/* A batch writer sends full batches. It completes every operation, also after
 * failures. */
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
#include "worker/store/request_pool.h"

/* Maximum number of calls of is_stopping() in one run. If there are more, the
 * run has waited for seconds. */
#define ASKED_MAX 20
#define NEVER (-1)
#define TOLD_MAX 150
#define ALL_LATER 1000000

/* The report of one operation to completed(). */
struct told {
    unsigned times;
    enum batch_writer_end end;
    bool indeterminate;
    char etag[96];
};

/* A store in front of the scene's store: the nth request of type `call` has the
 * outcome `outcome`. */
struct gate {
    struct interposed outer; /* first member: cast to this struct */
    enum store_call call;
    unsigned nth, seen; /* both count requests of type `call` from 1 */
    enum tw_err outcome;
    bool names_first; /* the refusal of a batch names its operation 0 */
    atomic_uint open; /* number of operations that swallow() has answered
                         without passing them on */
};

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct gate gate;
    struct store *outer; /* the store that operations are sent to */
    struct request_pool *request_pool;
    struct run run;
    struct batch_writer *batch_writer;
    struct err err;   /* error of the last call of the batch writer */
    struct page page; /* the page that was read last */
    struct arena arena;
    int64_t stops_at; /* is_stopping() is true after this number of deletes;
                         NEVER: it is false */
    unsigned asked;   /* number of calls of is_stopping() */
    unsigned failed;
    char failed_key[64], failed_why[256];
    struct told told[TOLD_MAX]; /* reports by completed(), by RowKey */

    /* Batch number fault_first (from 0) and the next fault_more batches meet
     * `fault`. */
    enum fault fault;
    unsigned fault_first, fault_more;

    /* meddle() changes or deletes the entity with this RowKey. */
    const char *meddle_key;
    const char *meddle_value; /* its new Value; NULL: the entity is deleted */
    atomic_uint meddle_times;
};

static bool is_stopping(struct run *run)
{
    struct scene *scene = run->owner;

    scene->asked++;
    return scene->stops_at != NEVER &&
           (atomic_load(&run->counts.deleted) >= scene->stops_at ||
               scene->asked > ASKED_MAX);
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

FAULTY_CHOICE(choose_for_batches)
{
    struct scene *scene = ctx;

    return call == CALL_BATCH && n >= scene->fault_first &&
                   n - scene->fault_first <= scene->fault_more
               ? scene->fault
               : FAULT_NONE;
}

static void scene_init_at(struct scene *scene, unsigned in_flight, int64_t rate)
{
    static const char *const tables[] = {"Blogs", "Comments", NULL};

    *scene = (struct scene){.stops_at = NEVER};
    scene->inner = table_memory(tables);
    faulty_init(&scene->faulty, scene->inner);
    scene->faulty.choose = choose_for_batches;
    scene->faulty.ctx = scene;
    scene->outer = &scene->faulty.outer.store;
    scene->request_pool = request_pool_new(4, rate);
    scene->run.job = "test";
    scene->run.callbacks = &callbacks;
    scene->run.owner = scene;
    scene->run.pool_client = pool_client_new(scene->request_pool, NULL);
    scene->batch_writer = batch_writer_new(&scene->run, in_flight);
    page_init(&scene->page);
    arena_init(&scene->arena);
}

static void scene_init(struct scene *scene, unsigned in_flight)
{
    scene_init_at(scene, in_flight, 0);
}

static void scene_init_two(struct scene *scene)
{
    scene_init(scene, 2);
}

/* Replaces the batch writer by one with another maximum of batches in
 * flight. */
static void scene_in_flight(struct scene *scene, unsigned in_flight)
{
    batch_writer_free(scene->batch_writer);
    scene->batch_writer = batch_writer_new(&scene->run, in_flight);
}

static void scene_done(struct scene *scene)
{
    batch_writer_free(scene->batch_writer);
    pool_client_free(scene->run.pool_client);
    request_pool_free(scene->request_pool);
    faulty_done(&scene->faulty);
    store_close(scene->inner);
    page_done(&scene->page);
    arena_done(&scene->arena);
}

TEST_FIXTURE(scene, struct scene, scene_init_two, scene_done)

/* A test whose scene has at most two batches under way. */
#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

/* ---- what kinds decide ---- */

/* DECISION: a function for the member decide; it need not use its parameters.
 */
#define DECISION(name)                                                         \
    static enum write_decision name(void *context,                             \
        const struct operation *sent, const struct entity *now,                \
        struct arena *arena, struct operation *ret, struct err *err)

DECISION(delete_anyway)
{
    *ret = (struct operation){.type = OPERATION_DELETE, .entity = *now};
    return WRITE_SEND;
}

DECISION(spare)
{
    return WRITE_SKIP;
}

DECISION(keep)
{
    return WRITE_NO_OP;
}

DECISION(take_as_done)
{
    return WRITE_IS_DONE;
}

DECISION(refuse)
{
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

/* Skips an entity that does not exist any more, or whose Value is "spared" now.
 * For other entities: a delete is sent again. Any other write counts as done
 * if Value is "second"; if it is not, a replace that sets it is sent. */
DECISION(insist)
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

/* ---- the table ---- */

static void fill(struct scene *scene, const char *partition_key, size_t count)
{
    table_fill(scene->inner, "Blogs", partition_key, 0, count);
}

static size_t left(struct scene *scene)
{
    return table_count(scene->inner, "Blogs");
}

static bool has(struct scene *scene, const char *row_key, const char *value)
{
    return table_has(scene->inner, "Blogs", "A", row_key, value);
}

static struct slice row_key_of(struct scene *scene, unsigned key)
{
    return arena_format(&scene->arena, "%06u", key);
}

/* Reads the next page of the table; after the last page, the first one. */
static void read_page(struct scene *scene)
{
    struct scan_request request = {.table = "Blogs", .from = scene->page.next};
    struct exchange exchange = {0};

    assert_ok(store_scan(scene->inner, &exchange, &request, &scene->page));
}

static const struct entity *read_entity(
    struct scene *scene, const char *partition_key, unsigned key)
{
    struct exchange exchange = {0};

    assert_ok(store_get(scene->inner, &exchange, "Blogs",
        slice_of(partition_key), row_key_of(scene, key), &scene->page));
    return &scene->page.entities[0];
}

/* ---- operations ---- */

static struct batch_item item_of(
    struct scene *scene, enum operation_type type, decide_fn *decide)
{
    return (struct batch_item){
        .store = scene->outer,
        .table = "Blogs",
        .operation = {.type = type},
        .decide = decide,
    };
}

/* Adds the operation of `item` for an entity that was read. */
static enum tw_err add(
    struct scene *scene, struct batch_item item, const struct entity *entity)
{
    arena_clear(&scene->arena);
    item.operation.entity = *entity;
    if (item.operation.type == OPERATION_REPLACE) {
        entity_copy(&item.operation.entity, &scene->arena, entity);
        entity_set_string(
            &item.operation.entity, &scene->arena, "Value", slice_of("second"));
    }
    return batch_writer_add(scene->batch_writer, &item, &scene->err);
}

/* Adds the operation of `item` for the entity with these keys. If the operation
 * needs an ETag, it gets one that no entity has. */
static enum tw_err add_key(struct scene *scene, struct batch_item item,
    const char *partition_key, unsigned key)
{
    struct entity *entity = &item.operation.entity;

    arena_clear(&scene->arena);
    entity_init(
        entity, &scene->arena, slice_of(partition_key), row_key_of(scene, key));
    if (item.operation.type != OPERATION_INSERT)
        entity->etag = slice_of("W/\"old\"");
    if (item.operation.type != OPERATION_DELETE)
        entity_set_string(entity, &scene->arena, "Value", slice_of("first"));
    return batch_writer_add(scene->batch_writer, &item, &scene->err);
}

/* Adds the operation of `item` for `count` entities from A/000000 on. */
static void add_range(
    struct scene *scene, struct batch_item item, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_ok(add_key(scene, item, "A", i));
}

/* Adds an operation for every step-th entity of the table, in key order. */
static enum tw_err add_each(struct scene *scene, enum operation_type type,
    size_t step, decide_fn *decide)
{
    enum tw_err outcome = TW_OK;
    size_t at = 0;

    scene->page.next = (struct continuation){0};
    do {
        read_page(scene);
        for (size_t i = 0; i < scene->page.count && outcome == TW_OK; i++)
            if (at++ % step == 0)
                outcome = add(scene, item_of(scene, type, decide),
                    &scene->page.entities[i]);
    } while (scene->page.next.more && outcome == TW_OK);
    return outcome;
}

static void add_all(
    struct scene *scene, enum operation_type type, decide_fn *decide)
{
    assert_ok(add_each(scene, type, 1, decide));
}

static enum tw_err drain(struct scene *scene)
{
    return batch_writer_drain(scene->batch_writer, &scene->err);
}

/* Deletes all entities of the table, except those that have changed; stops at
 * the first error. */
static enum tw_err try_to_delete(struct scene *scene)
{
    enum tw_err outcome = add_each(scene, OPERATION_DELETE, 1, spare);

    return outcome == TW_OK ? drain(scene) : outcome;
}

static void seal(struct scene *scene)
{
    assert_ok(batch_writer_seal(scene->batch_writer, &scene->err));
}

static uint64_t low_water(struct scene *scene)
{
    return batch_writer_low_water(scene->batch_writer);
}

static int64_t deleted(struct scene *scene)
{
    return atomic_load(&scene->run.counts.deleted);
}

static int64_t written(struct scene *scene)
{
    return atomic_load(&scene->run.counts.written);
}

static int64_t skipped(struct scene *scene)
{
    return atomic_load(&scene->run.counts.skipped);
}

/* Waits until all operations are completed; fails unless each is counted
 * once. */
static void finish(struct scene *scene)
{
    uint64_t sequence = batch_writer_sequence(scene->batch_writer);

    assert_ok(drain(scene));
    assert_int_equal(low_water(scene), sequence);
    assert_int_equal(deleted(scene) + written(scene) + skipped(scene) +
                         batch_writer_failed(scene->batch_writer),
        sequence);
}

static void delete_table(struct scene *scene, decide_fn *decide)
{
    add_all(scene, OPERATION_DELETE, decide);
    finish(scene);
}

static void expect_requests(
    struct scene *scene, unsigned batches, unsigned scans, unsigned gets)
{
    assert_int_equal(scene->faulty.calls[CALL_BATCH], batches);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], scans);
    assert_int_equal(scene->faulty.calls[CALL_GET], gets);
}

/* ---- batches that are filled ---- */

SCENE_TEST(sends_one_batch_a_started_hundred_of_each_partition)
{
    scene_in_flight(scene, 8);
    fill(scene, "A", 1250);
    fill(scene, "B", 100);
    fill(scene, "C", 101);
    delete_table(scene, spare);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 13 + 1 + 2);
    assert_int_equal(scene->faulty.largest_batch, 100);
    assert_int_equal(left(scene), 0);
    assert_int_equal(deleted(scene), 1451);
    assert_int_equal(batch_writer_done(scene->batch_writer), 1451);
}

SCENE_TEST(partitions_that_take_turns_still_fill_their_batches)
{
    scene_in_flight(scene, 8);
    fill(scene, "A", 100);
    fill(scene, "B", 100);
    for (unsigned i = 0; i < 200; i++)
        assert_ok(add(scene, item_of(scene, OPERATION_DELETE, spare),
            read_entity(scene, i % 2 ? "B" : "A", i / 2)));
    finish(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
}

SCENE_TEST(many_partitions_are_cut_when_too_many_gather)
{
    scene_in_flight(scene, 8);
    for (int i = 0; i < 300; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "P%03d", i);
        fill(scene, key, 2);
    }
    add_all(scene, OPERATION_DELETE, spare);
    assert_true(faulty_calls(&scene->faulty, CALL_BATCH) >= 300 - 64 - 8);
    finish(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 300);
}

/* Partition A has one operation only, so its batch never becomes full. */
SCENE_TEST(what_gathers_alone_does_not_hold_back_the_mark)
{
    struct batch_item item = item_of(scene, OPERATION_DELETE, delete_anyway);
    enum { OTHERS = 12000 };

    scene_in_flight(scene, 4);
    for (unsigned i = 0; i <= OTHERS; i++)
        assert_ok(add_key(scene, item, i == 0 ? "A" : "B", i));
    while (low_water(scene) == 0)
        (void)request_pool_wait_any(scene->run.pool_client, 0);
    finish(scene);
}

/* Inserts 20 large entities, each in a partition of its own if `scattered`. */
static void fill_large(struct scene *scene, bool scattered)
{
    for (int i = 0; i < 20; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "%d", 100 + i);
        table_put(scene->inner, "Blogs", scattered ? key : "A",
            scattered ? "b" : key, NULL, 450 * 1024);
    }
}

SCENE_TEST(large_entities_are_cut_by_bytes)
{
    scene_in_flight(scene, 4);
    fill_large(scene, false);
    add_all(scene, OPERATION_REPLACE, insist);
    finish(scene);
    assert_true(scene->faulty.calls[CALL_BATCH] >= 3);
    assert_true(scene->faulty.largest_batch <= 9);
    assert_true(has(scene, "119", "second"));
}

SCENE_TEST(many_large_operations_do_not_gather)
{
    fill_large(scene, true);
    add_all(scene, OPERATION_REPLACE, insist);
    while (faulty_calls(&scene->faulty, CALL_BATCH) < 8)
        (void)low_water(scene);
    finish(scene);
    /* Two batches may be in flight. If this machine is slow, up to 6 requests
     * are refused as busy and sent again. */
    assert_in_range(scene->faulty.calls[CALL_BATCH], 20, 26);
    assert_true(table_has(scene->inner, "Blogs", "119", "b", "second"));
}

SCENE_TEST(two_stores_share_no_batch)
{
    struct batch_item item = item_of(scene, OPERATION_INSERT, insist);
    struct faulty other;

    faulty_init(&other, scene->inner);
    for (unsigned i = 0; i < 10; i++) {
        item.store = i % 2 ? &other.outer.store : scene->outer;
        assert_ok(add_key(scene, item, "A", i));
    }
    finish(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_int_equal(other.calls[CALL_BATCH], 1);
    assert_int_equal(left(scene), 10);
    faulty_done(&other);
}

/* ---- changes by others, and faults ---- */

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

#define GONE "" /* value of the member `value`: the entity is deleted */

/* Cases of one batch with A/000000 to A/000099. */
static const struct met {
    const char *name;
    enum operation_type type;
    decide_fn *decide;
    enum fault fault;  /* of the first request with the batch */
    const char *value; /* that A/000050 gets before this request; NULL: none */
    unsigned batches, scans, gets;
    int64_t deleted, written, skipped;
    const char *failed; /* the reason if A/000050 fails */
} all_met[] = {
    {"what has changed is decided again", OPERATION_DELETE, delete_anyway,
        FAULT_NONE, "changed", 2, 0, 1, .deleted = 100},
    {"what has changed may be spared, and the rest is not", OPERATION_DELETE,
        insist, FAULT_NONE, "spared", 2, 0, 1, .deleted = 99, .skipped = 1},
    {"what is gone counts as deleted", OPERATION_DELETE, refuse, FAULT_NONE,
        GONE, 2, 0, 1, .deleted = 100},
    {"what the kind refuses is reported", OPERATION_DELETE, refuse, FAULT_NONE,
        "changed", 2, 0, 1, .deleted = 99, .failed = "the kind says no"},
    {"a lost answer costs one read", OPERATION_DELETE, refuse,
        FAULT_LOSE_ANSWER, NULL, 1, 1, 0, .deleted = 100},
    {"a lost answer to writes costs one read", OPERATION_REPLACE, insist,
        FAULT_LOSE_ANSWER, NULL, 1, 1, 0, .written = 100},
    {"inserts that are all there cost one read", OPERATION_INSERT, insist,
        FAULT_NONE, NULL, 2, 1, 0, .written = 100},
    {"a lost request is sent again", OPERATION_DELETE, refuse,
        FAULT_LOSE_REQUEST, NULL, 2, 1, 0, .deleted = 100},
    {"a refusal that names nothing is found by reading", OPERATION_DELETE,
        insist, FAULT_NO_INDEX, "spared", 2, 1, 1, .deleted = 99, .skipped = 1},
};

TEST(what_a_batch_meets_is_decided_again)
{
    for (size_t i = 0; TEST_EACH(i, all_met); i++) {
        const struct met *met = &all_met[i];
        struct scene scene;

        test_case("%s", met->name);
        scene_init(&scene, 2);
        fill(&scene, "A", 100);
        scene.fault = met->fault;
        if (met->value)
            meddle_with(&scene, "000050", *met->value ? met->value : NULL);
        add_all(&scene, met->type, met->decide);
        finish(&scene);
        expect_requests(&scene, met->batches, met->scans, met->gets);
        assert_int_equal(deleted(&scene), met->deleted);
        assert_int_equal(written(&scene), met->written);
        assert_int_equal(skipped(&scene), met->skipped);
        assert_int_equal(left(&scene), 100 - met->deleted);
        assert_int_equal(scene.failed, met->failed ? 1 : 0);
        assert_string_equal(scene.failed_key, met->failed ? "A/000050" : "");
        assert_string_equal(scene.failed_why, met->failed ? met->failed : "");
        if (met->skipped)
            assert_true(has(&scene, "000050", "spared"));
        scene_done(&scene);
    }
}

SCENE_TEST(what_changes_without_end_is_given_up)
{
    fill(scene, "A", 20);
    meddle_with(scene, "000007", "changed");
    scene->meddle_times = 1000000;
    delete_table(scene, delete_anyway);
    assert_int_equal(scene->failed, 1);
    assert_string_equal(scene->failed_key, "A/000007");
    assert_int_equal(left(scene), 1);
}

/* ---- entities that are read again while batches are sent ---- */

struct beside {
    struct scene scene;     /* first member: before() casts to this struct */
    struct interposed slow; /* a store whose gets wait */
    unsigned batches; /* a get waits until the store has received this number of
                         batches; 0: a get waits for 5 ms */
    unsigned begun, read_again, most_out;
    atomic_uint reading, most_reading;
};

static enum tw_err read_slowly(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct beside *beside =
        (struct beside *)(void *)((char *)self - offsetof(struct beside, slow));
    unsigned reading;

    if (request->call != CALL_GET)
        return request_send(self->inner, exchange, request);
    reading = atomic_fetch_add(&beside->reading, 1) + 1;
    if (reading > atomic_load(&beside->most_reading))
        atomic_store(&beside->most_reading, reading);
    if (beside->batches == 0)
        (void)usleep(5000);
    while (faulty_calls(&beside->scene.faulty, CALL_BATCH) < beside->batches)
        (void)usleep(1000);
    atomic_fetch_sub(&beside->reading, 1);
    return request_send(self->inner, exchange, request);
}

/* Changes one entity of each partition before its delete arrives. */
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
    delete_table(scene, insist);
}

TEST(what_was_met_is_read_while_others_are_sent)
{
    struct beside beside = {.batches = 11};

    scene_init(&beside.scene, 4);
    fill(&beside.scene, "A", 100);
    fill(&beside.scene, "B", 1000);
    meddle_with(&beside.scene, "000050", "spared");
    delete_slowly(&beside);
    assert_int_equal(beside.scene.faulty.calls[CALL_GET], 1);
    assert_int_equal(left(&beside.scene), 1);
    scene_done(&beside.scene);
}

static void delete_what_is_changed_in_each(
    struct beside *beside, unsigned in_flight)
{
    char key[2] = "A";

    scene_init(&beside->scene, in_flight);
    for (; key[0] < 'M'; key[0]++)
        fill(&beside->scene, key, 100);
    beside->scene.faulty.before = meddle_with_each;
    delete_slowly(beside);
    assert_int_equal(beside->read_again, 12);
    assert_int_equal(left(&beside->scene), 12);
    scene_done(&beside->scene);
}

TEST(what_is_read_again_is_under_way_still)
{
    struct beside beside = {.batches = 0};

    delete_what_is_changed_in_each(&beside, 2);
    assert_true(beside.most_out <= 2);
}

/* Changed entities are read whole and may be large, so only a few are read at a
 * time: more would take all the memory of the requests. */
TEST(what_is_read_again_takes_part_of_the_memory_alone)
{
    struct beside beside = {.batches = 0};

    delete_what_is_changed_in_each(&beside, 8);
    assert_in_range(atomic_load(&beside.most_reading), 2, 3);
}

SCENE_TEST(a_missing_table_holds_nothing_to_delete)
{
    struct batch_item item = item_of(scene, OPERATION_DELETE, spare);

    item.table = "Gone";
    fill(scene, "A", 100);
    read_page(scene);
    for (size_t i = 0; i < scene->page.count; i++)
        assert_ok(add(scene, item, &scene->page.entities[i]));
    finish(scene);
    assert_true(
        scene->faulty.calls[CALL_BATCH] + scene->faulty.calls[CALL_SCAN] < 10);
    item.operation.type = OPERATION_INSERT;
    assert_ok(add(scene, item, &scene->page.entities[0]));
    assert_int_equal(drain(scene), TW_NOT_FOUND);
    assert_non_null(strstr(scene->err.text, "Gone"));
}

/* ---- lost responses ---- */

SCENE_TEST(a_sparse_range_is_not_read_whole)
{
    scene->fault = FAULT_LOSE_ANSWER;
    fill(scene, "A", 8000);
    assert_ok(add_each(scene, OPERATION_DELETE, 800, refuse));
    finish(scene);
    assert_true(scene->faulty.calls[CALL_SCAN] <= 5);
    assert_true(scene->faulty.calls[CALL_GET] <= 10);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_int_equal(left(scene), 7990);
    assert_int_equal(deleted(scene), 10);
}

SCENE_TEST(keys_beyond_the_first_plane_are_found_again)
{
    static const char *const keys[] = {
        "a", "\xee\x80\x80", "\xf0\x9f\x98\x80", "\xef\xbf\xbd"};

    scene->fault = FAULT_LOSE_ANSWER;
    for (size_t i = 0; i < 4; i++)
        table_put(scene->inner, "Blogs", "A", keys[i], "first", 0);
    delete_table(scene, refuse);
    assert_int_equal(deleted(scene), 4);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
}

/* ---- operations that can never succeed; outcomes that end a run ---- */

TEST(only_the_invalid_entity_fails)
{
    static const enum tw_err refusals[] = {TW_INVALID, TW_TOO_LARGE};

    for (size_t i = 0; i < 4; i++) {
        struct scene scene;

        scene_init(&scene, 2);
        fill(&scene, "A", 250);
        scene.faulty.refused_key = "000142";
        scene.faulty.refusal = refusals[i % 2];
        scene.faulty.refusal_unnamed = i >= 2;
        delete_table(&scene, spare);
        assert_int_equal(scene.failed, 1);
        assert_string_equal(scene.failed_key, "A/000142");
        assert_string_equal(scene.failed_why, "refused as the test wants");
        assert_int_equal(left(&scene), 1);
        assert_int_equal(deleted(&scene), 249);
        scene_done(&scene);
    }
}

TEST(an_outage_ends_the_flow_and_claims_nothing)
{
    static const struct {
        enum fault fault;
        unsigned done; /* batches that succeed before the fault */
        enum tw_err outcome;
    } cases[] = {
        {FAULT_UNSENT, 2, TW_BUSY},
        {FAULT_REFUSED, 2, TW_REFUSED},
        {FAULT_LOSE_REQUEST, 0, TW_UNKNOWN},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        unsigned done = 100 * cases[i].done;
        struct scene scene;
        uint64_t sequence;

        scene_init(&scene, 1);
        fill(&scene, "A", 550);
        scene.fault = cases[i].fault;
        scene.fault_first = cases[i].done;
        scene.fault_more = ALL_LATER;
        assert_int_equal(try_to_delete(&scene), cases[i].outcome);
        sequence = batch_writer_sequence(scene.batch_writer);
        assert_int_equal(
            add_key(&scene, item_of(&scene, OPERATION_INSERT, insist), "A", 1),
            cases[i].outcome);
        assert_int_equal(batch_writer_sequence(scene.batch_writer), sequence);
        assert_non_null(strstr(scene.err.text, "Blogs"));
        assert_non_null(strstr(scene.err.text, "as the test wants"));
        batch_writer_finish(scene.batch_writer);
        assert_int_equal(low_water(&scene), done);
        assert_int_equal(deleted(&scene), done);
        assert_int_equal(left(&scene), 550 - done);
        assert_int_equal(drain(&scene), cases[i].outcome);
        scene_done(&scene);
    }
}

SCENE_TEST(stopping_the_client_ends_the_flow)
{
    fill(scene, "A", 50);
    add_all(scene, OPERATION_DELETE, spare);
    request_pool_stop(scene->run.pool_client);
    assert_int_equal(drain(scene), TW_STOPPED);
    assert_int_equal(left(scene), 50);
}

/* Begins to delete 250 entities in three batches. The ceiling of one entity a
 * second makes the second batch wait. The run stops after stops_at deletes. */
static void stop_at(struct scene *scene, int64_t stops_at)
{
    scene_init_at(scene, 2, 1);
    scene->stops_at = stops_at;
    fill(scene, "A", 250);
    assert_int_equal(try_to_delete(scene), TW_STOPPED);
}

TEST(a_run_that_stops_does_not_wait_for_the_ceiling)
{
    struct scene scene;

    stop_at(&scene, 0);
    batch_writer_finish(scene.batch_writer);
    assert_int_equal(low_water(&scene), 100);
    assert_int_equal(left(&scene), 150);
    scene_done(&scene);
}

/* If deletes were counted only after all of a page is sent, a slow run would
 * show no progress. */
TEST(what_is_done_is_counted_while_others_wait_for_the_ceiling)
{
    struct scene scene;

    stop_at(&scene, 100);
    assert_int_equal(deleted(&scene), 100);
    batch_writer_finish(scene.batch_writer);
    assert_int_equal(left(&scene), 150);
    scene_done(&scene);
}

/* ---- a store with chosen outcomes ---- */

static enum tw_err gate_meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct gate *gate = (struct gate *)self;

    if (request->call != gate->call || ++gate->seen != gate->nth)
        return request_send(self->inner, exchange, request);
    if (request->result)
        request->result->failed = gate->names_first ? 0 : request->batch->count;
    return err_fail(&exchange->err, gate->outcome, "the gate is shut");
}

static void shut_gate(struct scene *scene, enum store_call call, unsigned nth,
    enum tw_err outcome)
{
    scene->gate = (struct gate){.call = call, .nth = nth, .outcome = outcome};
    interposed_init(&scene->gate.outer, "gate", scene->outer, gate_meet);
    scene->outer = &scene->gate.outer.store;
}

SCENE_TEST(a_missing_table_holds_nothing_to_replace)
{
    struct batch_item item;

    shut_gate(scene, CALL_BATCH, 1, TW_NOT_FOUND);
    item = item_of(scene, OPERATION_REPLACE, insist);
    item.table = "Gone";
    add_range(scene, item, 2);
    assert_int_equal(drain(scene), TW_NOT_FOUND);
    assert_string_equal(scene->err.text, "table Gone does not exist");
}

/* The index of the failed operation in the response may be wrong, so an entity
 * that still exists is not done. */
SCENE_TEST(what_is_said_to_be_gone_is_looked_for)
{
    fill(scene, "A", 2);
    shut_gate(scene, CALL_BATCH, 1, TW_NOT_FOUND);
    scene->gate.names_first = true;
    add_range(scene, item_of(scene, OPERATION_DELETE, insist), 2);
    finish(scene);
    assert_int_equal(left(scene), 0);
}

SCENE_TEST(what_cannot_be_read_again_ends_the_flow)
{
    fill(scene, "A", 20);
    shut_gate(scene, CALL_GET, 3, TW_REFUSED);
    scene->fault = FAULT_NO_INDEX;
    /* each of these entities has changed */
    add_range(scene, item_of(scene, OPERATION_DELETE, insist), 20);
    assert_int_equal(drain(scene), TW_REFUSED);
    assert_string_equal(scene->err.text, "table Blogs: the gate is shut");
    assert_int_equal(scene->gate.seen, 3);
    assert_int_equal(left(scene), 20);
}

/* batch_writer_finish() reads the entities of a batch whose outcome is unknown,
 * but it sends no batch any more. */
TEST(finishing_sends_nothing_again)
{
    static const struct {
        enum fault fault;
        bool stale; /* the entities have changed, so the batch is refused */
        size_t left;
    } cases[] = {{FAULT_NO_INDEX, true, 10}, {FAULT_LOSE_REQUEST, false, 10},
        {FAULT_LOSE_ANSWER, false, 0}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct scene scene;

        scene_init(&scene, 2);
        fill(&scene, "A", 10);
        scene.fault = cases[i].fault;
        if (cases[i].stale)
            add_range(&scene, item_of(&scene, OPERATION_DELETE, insist), 10);
        else
            add_all(&scene, OPERATION_DELETE, spare);
        seal(&scene);
        while (faulty_calls(&scene.faulty, CALL_BATCH) == 0)
            continue;
        batch_writer_finish(scene.batch_writer);
        assert_int_equal(faulty_calls(&scene.faulty, CALL_BATCH), 1);
        assert_int_equal(left(&scene), cases[i].left);
        assert_int_equal(low_water(&scene), 10 - cases[i].left);
        scene_done(&scene);
    }
}

#define FAR 70000
/* Number of operations that can be added after the first one while the first
 * one is not completed. */
#define FAR_AHEAD (65536 - 1)

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

/* The response to the first batch comes last. Meanwhile no operation is added
 * whose sequence number is too far above the low-water mark. */
SCENE_TEST(one_slow_batch_holds_back_who_is_far_ahead)
{
    struct batch_item item;

    scene_in_flight(scene, 4);
    shut_gate(scene, CALL_BATCH, 1, TW_OK);
    scene->gate.outer.meet = swallow;
    item = item_of(scene, OPERATION_DELETE, insist);
    assert_ok(add_key(scene, item, "slow", 0));
    seal(scene);
    for (unsigned i = 1; i <= FAR; i++) {
        assert_ok(add_key(scene, item, "A", i));
        assert_true(
            batch_writer_sequence(scene->batch_writer) - low_water(scene) <=
            65536);
    }
    finish(scene);
    assert_int_equal(low_water(scene), FAR + 1);
}

/* ---- outcomes that are reported to completed() ---- */

static void note_completed(
    void *context, const struct batch_writer_completed *how)
{
    struct told *told = context;

    told->times++;
    told->end = how->end;
    told->indeterminate = how->indeterminate;
    (void)snprintf(told->etag, sizeof told->etag, "%.*s", SLICE_ARG(how->etag));
}

static struct batch_item told_item(struct scene *scene,
    enum operation_type type, decide_fn *decide, unsigned key)
{
    struct batch_item item = item_of(scene, type, decide);

    item.context = &scene->told[key];
    item.completed = note_completed;
    return item;
}

/* Adds operations for A/first to A/(before - 1). */
static void add_told(struct scene *scene, enum operation_type type,
    decide_fn *decide, unsigned first, unsigned before)
{
    for (unsigned i = first; i < before; i++)
        assert_ok(add_key(scene, told_item(scene, type, decide, i), "A", i));
}

/* The outcome that completed() reports for `count` operations with successive
 * keys. */
struct ending {
    unsigned count; /* 0 ends the list */
    enum batch_writer_end end;
    bool indeterminate;
    bool etag; /* true: the ETag of the stored entity is reported; false: no
                  ETag is */
};

static void expect_told(struct scene *scene, const struct ending *endings)
{
    int64_t of_end[WRITE_FAILED + 1] = {0};
    unsigned at = 0;

    for (const struct ending *ending = endings; ending->count > 0; ending++) {
        of_end[ending->end] += ending->count;
        for (unsigned until = at + ending->count; at < until; at++) {
            const struct told *told = &scene->told[at];
            struct slice etag = {"", 0};

            assert_int_equal(told->times, 1);
            assert_int_equal(told->end, ending->end);
            assert_int_equal(told->indeterminate, ending->indeterminate);
            if (ending->etag)
                etag = read_entity(scene, "A", at)->etag;
            assert_true(slice_is(etag, told->etag));
        }
    }
    assert_int_equal(batch_writer_done(scene->batch_writer),
        of_end[WRITTEN] + of_end[WRITE_OF_ABSENT]);
    assert_int_equal(deleted(scene) + written(scene),
        of_end[WRITTEN] + of_end[WRITE_OF_ABSENT]);
    assert_int_equal(skipped(scene), of_end[WRITE_WAS_SKIPPED]);
    assert_int_equal(scene->failed, of_end[WRITE_FAILED]);
}

TEST(each_operation_is_told_once)
{
    static const struct {
        const char *name;
        unsigned stored; /* number of entities in the table before, from
                            A/000000 on */
        enum fault fault;
        enum operation_type type;
        decide_fn *decide;
        struct ending endings[3];
    } cases[] = {
        {"written, with the ETag that is stored", 0, FAULT_NONE,
            OPERATION_INSERT, refuse, {{150, WRITTEN, false, true}}},
        {"what was so before is kept, and counts as nothing", 20, FAULT_NONE,
            OPERATION_INSERT, keep, {{20, WRITE_WAS_NO_OP, false, true}}},
        {"what is taken as done, with the ETag met", 1, FAULT_NONE,
            OPERATION_INSERT, take_as_done, {{1, WRITTEN, false, true}}},
        {"a replace of nothing can be taken as done", 0, FAULT_NONE,
            OPERATION_REPLACE, take_as_done, {{1, WRITTEN, false, false}}},
        {"what was gone is gone, and counts as deleted", 10, FAULT_NONE,
            OPERATION_DELETE, delete_anyway,
            {{10, WRITTEN, false, false}, {20, WRITE_OF_ABSENT, false, false}}},
        {"met after a lost answer: indeterminate", 0, FAULT_LOSE_ANSWER,
            OPERATION_INSERT, keep,
            {{100, WRITE_WAS_NO_OP, true, true}, {50, WRITTEN, false, true}}},
        {"a delete whose answer was lost: indeterminate", 0, FAULT_LOSE_ANSWER,
            OPERATION_DELETE, refuse, {{5, WRITE_OF_ABSENT, true, false}}},
        /* The second request of the operation got a response, but the first
         * request may still arrive. */
        {"sent again: indeterminate still", 0, FAULT_LOSE_REQUEST,
            OPERATION_INSERT, refuse, {{100, WRITTEN, true, true}}},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const struct ending *endings = cases[i].endings;
        struct scene scene;

        test_case("%s", cases[i].name);
        scene_init(&scene, cases[i].fault == FAULT_NONE ? 2 : 1);
        fill(&scene, "A", cases[i].stored);
        scene.fault = cases[i].fault;
        add_told(&scene, cases[i].type, cases[i].decide, 0,
            endings[0].count + endings[1].count);
        assert_ok(drain(&scene));
        expect_told(&scene, endings);
        if (cases[i].type == OPERATION_DELETE)
            assert_int_equal(left(&scene), 0);
        scene_done(&scene);
    }
}

SCENE_TEST(what_is_spared_or_refused_is_told_so)
{
    fill(scene, "A", 20);
    add_told(scene, OPERATION_DELETE, spare, 0, 10);
    add_told(scene, OPERATION_DELETE, refuse, 10, 20);
    finish(scene);
    expect_told(
        scene, (const struct ending[]){{10, WRITE_WAS_SKIPPED, false, false},
                   {10, WRITE_FAILED, false, false}, {0}});
}

/* The response is lost, so the range from the least to the greatest key is
 * read, although the operations came in falling order. A second operation for
 * the same key goes into another batch. */
SCENE_TEST(operations_may_come_in_any_order)
{
    scene_in_flight(scene, 1);
    scene->fault = FAULT_LOSE_ANSWER;
    for (unsigned key = 90; key-- > 0;)
        add_told(scene, OPERATION_INSERT, keep, key, key + 1);
    assert_ok(
        add_key(scene, told_item(scene, OPERATION_INSERT, keep, 90), "A", 50));
    assert_ok(drain(scene));
    expect_told(
        scene, (const struct ending[]){{90, WRITE_WAS_NO_OP, true, true}, {0}});
    assert_int_equal(scene->told[90].times, 1);
    assert_int_equal(scene->told[90].end, WRITE_WAS_NO_OP);
    assert_false(scene->told[90].indeterminate);
    expect_requests(scene, 2, 1, 1);
}

SCENE_TEST(doubt_is_kept_where_a_batch_is_halved)
{
    scene_in_flight(scene, 1);
    scene->fault = FAULT_LOSE_REQUEST;
    scene->faulty.refused_key = "000037";
    scene->faulty.refusal = TW_INVALID;
    scene->faulty.refusal_unnamed = true;
    add_told(scene, OPERATION_INSERT, refuse, 0, 100);
    finish(scene);
    expect_told(scene,
        (const struct ending[]){{37, WRITTEN, true, true},
            {1, WRITE_FAILED, true, false}, {62, WRITTEN, true, true}, {0}});
}

SCENE_TEST(what_is_dropped_is_never_told)
{
    scene_in_flight(scene, 1);
    add_told(scene, OPERATION_INSERT, refuse, 0, 50);
    batch_writer_finish(scene->batch_writer);
    assert_int_equal(left(scene), 0); /* no operation was sent */
    scene_in_flight(scene, 1);
    scene->faulty.refused_key = "000007";
    scene->faulty.refusal = TW_REFUSED;
    add_told(scene, OPERATION_INSERT, refuse, 0, 50);
    assert_int_equal(drain(scene), TW_REFUSED);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(scene->told[i].times, 0);
}

/* A second batch writer, which deletes each entity that the first one has
 * written. */
struct relay {
    struct scene *scene;
    struct batch_writer *second;
};

static void delete_what_was_written(
    void *context, const struct batch_writer_completed *how)
{
    struct relay *relay = context;
    struct batch_item item =
        told_item(relay->scene, OPERATION_DELETE, refuse, 0);
    struct err err;

    item.operation.entity = (struct entity){.partition_key = slice_of("A"),
        .row_key = slice_of("000000"),
        .etag = how->etag};
    assert_ok(batch_writer_add(relay->second, &item, &err));
}

SCENE_TEST(what_is_told_may_go_into_another_flow)
{
    struct relay relay = {scene, batch_writer_new(&scene->run, 2)};
    struct batch_item item = item_of(scene, OPERATION_INSERT, refuse);

    item.context = &relay;
    item.completed = delete_what_was_written;
    add_range(scene, item, 1);
    assert_ok(drain(scene));
    assert_ok(batch_writer_drain(relay.second, &scene->err));
    assert_int_equal(scene->told[0].times, 1);
    assert_int_equal(scene->told[0].end, WRITTEN);
    assert_false(scene->told[0].indeterminate);
    assert_int_equal(left(scene), 0);
    batch_writer_free(relay.second);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
