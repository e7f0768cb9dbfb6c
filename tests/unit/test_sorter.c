/* SPDX-License-Identifier: MIT */
/* A sorter: scattered operations are sent in full batches, and unchanged. */
#include <stdio.h>
#include <string.h>

#include "jobs/engine/batch_writer.h"
#include "jobs/engine/run.h"
#include "jobs/engine/sorter.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"
#include "worker/base/mem.h"
#include "worker/store/request_pool.h"

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct request_pool *request_pool;
    struct run run;
    struct batch_writer *batch_writer;
    struct sorter *sorter;
    struct arena arena; /* of the entity that is added */
    struct page page;
    unsigned descents; /* how often a RowKey was less than the one before it in
                          its batch */
};

static bool never_stopping(struct run *run)
{
    return false;
}

static const struct run_callbacks callbacks = {.stopping = never_stopping};

/* Counts `descents`. Needs no lock, because only one batch at a time is
 * sent. */
static void note_order(void *ctx, const struct batch *batch)
{
    struct scene *scene = ctx;

    for (size_t i = 1; i < batch->count; i++)
        if (slice_compare(batch->operations[i - 1].entity.row_key,
                batch->operations[i].entity.row_key) > 0)
            scene->descents++;
}

static void scene_init(struct scene *scene)
{
    static const char *const tables[] = {"Blogs", "Comments", NULL};

    *scene = (struct scene){0};
    scene->inner = table_memory(tables);
    faulty_init(&scene->faulty, scene->inner);
    scene->faulty.ctx = scene;
    scene->faulty.before = note_order;
    scene->request_pool = request_pool_new(2, 0);
    scene->run.job = "test";
    scene->run.callbacks = &callbacks;
    scene->run.owner = scene;
    scene->run.pool_client = pool_client_new(scene->request_pool, NULL);
    scene->batch_writer = batch_writer_new(&scene->run, 1);
    scene->sorter = sorter_new();
    arena_init(&scene->arena);
    page_init(&scene->page);
}

static void scene_done(struct scene *scene)
{
    sorter_free(scene->sorter);
    batch_writer_free(scene->batch_writer);
    pool_client_free(scene->run.pool_client);
    request_pool_free(scene->request_pool);
    faulty_done(&scene->faulty);
    store_close(scene->inner);
    arena_done(&scene->arena);
    page_done(&scene->page);
}

static enum write_decision leave(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    return WRITE_NO_OP;
}

static void note_completed(
    void *context, const struct batch_writer_completed *how)
{
    enum batch_writer_end *end = context;

    *end = how->end;
}

static struct batch_item item_of(struct scene *scene, const char *table,
    enum operation_type type, const struct entity *entity)
{
    return (struct batch_item){
        .store = &scene->faulty.outer.store,
        .table = table,
        .operation = {type, *entity},
        .decide = leave,
    };
}

static void add(struct scene *scene, const char *table,
    enum operation_type type, const struct entity *entity)
{
    struct batch_item item = item_of(scene, table, type, entity);

    sorter_add(scene->sorter, &item);
}

/* Returns "P000", "P001" ..., valid until the next call. */
static const char *partition_of(unsigned number)
{
    static char key[16];

    (void)snprintf(key, sizeof key, "P%03u", number);
    return key;
}

/* Returns "000000", "000001" ..., valid until the next call. */
static const char *row_of(unsigned number)
{
    static char key[16];

    (void)snprintf(key, sizeof key, "%06u", number);
    return key;
}

/* Returns an entity without properties, valid until the next call. */
static struct entity entity_of(
    struct scene *scene, const char *partition_key, const char *row_key)
{
    struct entity entity;

    arena_clear(&scene->arena);
    entity_init(
        &entity, &scene->arena, slice_of(partition_key), slice_of(row_key));
    return entity;
}

static void add_insert(struct scene *scene, const char *table,
    const char *partition_key, const char *row_key, const char *value)
{
    struct entity entity = entity_of(scene, partition_key, row_key);

    entity_set_string(&entity, &scene->arena, "Value", slice_of(value));
    add(scene, table, OPERATION_INSERT, &entity);
}

static void add_numbered(struct scene *scene, const char *partition_key,
    unsigned from, unsigned below)
{
    for (unsigned i = from; i < below; i++)
        add_insert(scene, "Blogs", partition_key, row_of(i), row_of(i));
}

static size_t stored(struct scene *scene)
{
    return table_count(scene->inner, "Blogs");
}

static void flush(struct scene *scene)
{
    struct err err;

    assert_ok(sorter_flush(scene->sorter, scene->batch_writer, &err));
    assert_int_equal(sorter_count(scene->sorter), 0);
    assert_ok(batch_writer_drain(scene->batch_writer, &err));
}

/* Adds inserts to 21 partitions in turn, with falling RowKeys. */
static void add_scattered(struct scene *scene, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add_insert(scene, "Blogs", partition_of(i * 8 % 21), row_of(count - i),
            "first");
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(it_goes_by_table_and_keys)
{
    for (unsigned i = 0; i < 300; i++)
        add_insert(scene, i % 2 ? "Blogs" : "Comments", i % 3 ? "B" : "A",
            row_of(i * 7 % 300), "first");
    flush(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 4);
    assert_int_equal(scene->descents, 0);
    assert_int_equal(stored(scene), 150);
    assert_int_equal(table_count(scene->inner, "Comments"), 150);
}

SCENE_TEST(two_stores_share_no_batch)
{
    struct faulty other;

    faulty_init(&other, scene->inner);
    other.outer.store.name = "other";
    for (unsigned i = 0; i < 40; i++) {
        struct entity entity = entity_of(scene, "A", row_of(i));
        struct batch_item item =
            item_of(scene, "Blogs", OPERATION_INSERT, &entity);

        if (i % 2)
            item.store = &other.outer.store;
        sorter_add(scene->sorter, &item);
    }
    flush(scene);
    assert_int_equal(stored(scene), 40);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 1);
    assert_int_equal(scene->faulty.largest_batch, 20);
    assert_int_equal(other.calls[CALL_BATCH], 1);
    faulty_done(&other);
}

SCENE_TEST(what_has_one_key_goes_in_the_order_it_came)
{
    for (unsigned i = 0; i < 50; i++) {
        add_insert(scene, "Blogs", "A", row_of(i * 7 % 50), "first");
        add_insert(scene, "Blogs", "A", row_of(i * 7 % 50), "second");
    }
    flush(scene);
    for (unsigned i = 0; i < 50; i++)
        assert_true(table_has(scene->inner, "Blogs", "A", row_of(i), "first"));
    assert_int_equal(atomic_load(&scene->run.counts.written), 50);
}

SCENE_TEST(an_entity_goes_as_it_came)
{
    static const char json[] =
        "{\"PartitionKey\":\"A\",\"RowKey\":\"\",\"Text\":\"a\\u0001b\","
        "\"Empty\":\"\",\"Large@odata.type\":\"Edm.Int64\",\"Large\":\"-5\","
        "\"Half@odata.type\":\"Edm.Double\",\"Half\":0.5,\"Yes\":true,"
        "\"When@odata.type\":\"Edm.DateTime\","
        "\"When\":\"2024-01-01T00:00:00Z\",\"Small\":7}";
    struct exchange exchange = {0};
    struct entity entity, *now;
    struct err err;

    assert_ok(
        entity_parse(slice_of(json), true, &scene->arena, &entity, NULL, &err));
    add(scene, "Blogs", OPERATION_INSERT, &entity);
    flush(scene);
    assert_ok(store_get(scene->inner, &exchange, "Blogs", slice_of("A"),
        slice_of(""), &scene->page));
    now = &scene->page.entities[0];
    assert_int_equal(now->property_count, entity.property_count);
    for (size_t i = 0; i < entity.property_count; i++) {
        const struct property *property =
            entity_find(now, entity.properties[i].name);

        assert_non_null(property);
        assert_true(property_equal(property, &entity.properties[i]));
    }
}

SCENE_TEST(a_delete_keeps_its_etag_and_who_asks)
{
    enum batch_writer_end ends[200];
    struct scan_request request = {.table = "Blogs"};
    struct exchange exchange = {0};

    table_fill(scene->inner, "Blogs", "A", 0, 200);
    assert_ok(store_scan(scene->inner, &exchange, &request, &scene->page));
    assert_true(table_write(scene->inner, "Blogs", "A", "000007", "changed"));
    assert_true(table_delete(scene->inner, "Blogs", "A", "000008"));
    for (size_t i = 0; i < scene->page.count; i++) {
        struct batch_item item =
            item_of(scene, "Blogs", OPERATION_DELETE, &scene->page.entities[i]);

        item.context = &ends[i];
        item.completed = note_completed;
        sorter_add(scene->sorter, &item);
    }
    page_clear(&scene->page);
    flush(scene);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(ends[i], i == 7   ? WRITE_WAS_NO_OP
                                  : i == 8 ? WRITE_OF_ABSENT
                                           : WRITTEN);
    assert_int_equal(stored(scene), 1);
}

SCENE_TEST(it_is_full_by_count)
{
    add_scattered(scene, SORTER_MAX_OPERATIONS - 1);
    assert_false(sorter_is_full(scene->sorter));
    add_insert(scene, "Blogs", "Q", "1", "");
    assert_true(sorter_is_full(scene->sorter));
    flush(scene);
    assert_false(sorter_is_full(scene->sorter));
    assert_int_equal(stored(scene), SORTER_MAX_OPERATIONS);
}

SCENE_TEST(it_is_full_by_bytes)
{
    static char text[30 * 1024 + 1];
    unsigned count = 0;

    memset(text, 'x', sizeof text - 1);
    while (!sorter_is_full(scene->sorter)) {
        add_insert(scene, "Blogs", "A", row_of(count++), text);
        assert_true(count <= SORTER_MAX_BYTES / (sizeof text - 1) + 1);
    }
    assert_true(count >= SORTER_MAX_BYTES / (sizeof text + 8192));
    flush(scene);
    assert_false(sorter_is_full(scene->sorter));
    assert_int_equal(stored(scene), count);
}

static void make_room(struct scene *scene)
{
    struct err err;

    assert_ok(sorter_make_room(scene->sorter, scene->batch_writer, &err));
    assert_ok(batch_writer_drain(scene->batch_writer, &err));
}

/* Returns the value of entity number i: `shared` bytes that all values have in
 * common, then i % 7 digits. */
static struct slice value_of(unsigned i, size_t shared)
{
    static char text[4096];

    memset(text, 'x', shared);
    (void)snprintf(text + shared, sizeof text - shared, "%06u", i);
    return (struct slice){text, shared + i % 7};
}

static void add_sharing(struct scene *scene, unsigned i, size_t shared)
{
    struct entity entity = entity_of(scene, "A", row_of(i));
    char name[16];

    (void)snprintf(name, sizeof name, "Only%u", i % 40);
    entity_set_string(&entity, &scene->arena, "Value", value_of(i, shared));
    if (i % 3 == 0)
        entity_set_int32(&entity, &scene->arena, name, (int32_t)i);
    if (i % 5 == 0)
        entity_set_int64(&entity, &scene->arena, "Number", i);
    else
        entity_set_double(&entity, &scene->arena, "Number", i);
    add(scene, "Blogs", OPERATION_INSERT, &entity);
}

static void check_sharing(struct scene *scene, unsigned i, size_t shared)
{
    struct exchange exchange = {0};
    struct slice text = {0};
    const struct property *value, *number;
    struct entity *entity;
    char name[16];

    (void)snprintf(name, sizeof name, "Only%u", i % 40);
    assert_ok(store_get(scene->inner, &exchange, "Blogs", slice_of("A"),
        slice_of(row_of(i)), &scene->page));
    entity = &scene->page.entities[0];
    value = entity_find(entity, slice_of("Value"));
    number = entity_find(entity, slice_of("Number"));
    assert_true(value && property_peek_text(value, &scene->arena, &text));
    assert_true(slice_equal(text, value_of(i, shared)));
    assert_int_equal(number->type, i % 5 == 0 ? EDM_INT64 : EDM_DOUBLE);
    assert_int_equal(
        entity_find(entity, slice_of(name)) != NULL, i % 3 == 0 ? 1 : 0);
    assert_int_equal(entity->property_count, i % 3 == 0 ? 3 : 2);
}

/* The sorter stores equal beginnings of values once, up to a limit of bytes,
 * and also the property names of similar entities. The entities of this test
 * have more different property names than the sorter compares. */
SCENE_TEST(what_values_have_in_common_is_not_lost)
{
    static const size_t shared[] = {
        0, 1, 7, 8, 9, 500, 505, 506, 507, 2000, 2043, 2044, 3000};

    for (size_t k = 0; k < sizeof shared / sizeof *shared; k++) {
        for (unsigned i = 0; i < 250; i++)
            add_sharing(scene, (unsigned)k * 1000 + i, shared[k]);
        flush(scene);
        for (unsigned i = 0; i < 250; i++)
            check_sharing(scene, (unsigned)k * 1000 + i, shared[k]);
    }
}

SCENE_TEST(what_values_have_in_common_takes_memory_once)
{
    static char text[400];

    memset(text, 'x', sizeof text - 8);
    while (!sorter_is_full(scene->sorter)) {
        size_t i = sorter_count(scene->sorter);

        (void)snprintf(text + sizeof text - 8, 8, "%07zu", i);
        add_insert(scene, "Blogs", "A", text + sizeof text - 8, text);
    }
    assert_true(SORTER_MAX_OPERATIONS * sizeof text > SORTER_MAX_BYTES);
    assert_int_equal(sorter_count(scene->sorter), SORTER_MAX_OPERATIONS);
    flush(scene);
    assert_int_equal(stored(scene), SORTER_MAX_OPERATIONS);
}

/* The sorter has room for 68 operations of each of 120 partitions. At most a
 * tenth more batches are sent than if all operations were sorted at once. */
SCENE_TEST(scattered_operations_make_nearly_full_batches)
{
    const unsigned partitions = 120, batches = 8;

    for (unsigned i = 0; i < partitions * batches * 100; i++) {
        if (sorter_is_full(scene->sorter))
            make_room(scene);
        add_numbered(scene, partition_of(i * 7 % partitions), i, i + 1);
    }
    flush(scene);
    assert_int_equal(stored(scene), partitions * batches * 100);
    assert_true(
        scene->faulty.calls[CALL_BATCH] * 10 <= partitions * batches * 11);
}

/* Each entity has another property name, and so a shape of its own (see
 * sorter.c). A shape is freed only with all of its operations, so all
 * operations must be sent to make room. */
SCENE_TEST(with_many_names_everything_goes)
{
    unsigned count = 0;

    while (!sorter_is_full(scene->sorter)) {
        struct entity entity =
            entity_of(scene, partition_of(count % 50), row_of(count));
        char name[64];

        (void)snprintf(name, sizeof name, "Name%u", count++);
        entity_set_string(&entity, &scene->arena, name, value_of(count, 400));
        add(scene, "Blogs", OPERATION_INSERT, &entity);
    }
    assert_true(count < SORTER_MAX_OPERATIONS);
    make_room(scene);
    assert_false(sorter_is_full(scene->sorter));
    assert_int_equal(sorter_count(scene->sorter), 0);
    assert_int_equal(stored(scene), count);
}

/* Ten partitions with 120 operations each, among forty with 5. */
SCENE_TEST(the_fullest_partitions_make_room_in_whole_batches)
{
    for (unsigned i = 0; i < 50; i++)
        add_numbered(scene, partition_of(i), 0, i % 5 == 0 ? 120 : 5);
    assert_int_equal(sorter_added(scene->sorter), 1400);
    assert_int_equal(sorter_oldest(scene->sorter), 0);
    make_room(scene);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2);
    assert_int_equal(stored(scene), 200);
    assert_int_equal(sorter_count(scene->sorter), 1200);
    assert_int_equal(sorter_oldest(scene->sorter), 100);
    assert_true(table_has(scene->inner, "Blogs", "P000", "000099", "000099"));
    assert_false(table_has(scene->inner, "Blogs", "P000", "000100", "000100"));
    add_numbered(scene, "P000", 120, 200);
    flush(scene);
    assert_int_equal(sorter_oldest(scene->sorter), 1480);
    assert_int_equal(scene->faulty.calls[CALL_BATCH], 2 + 50 + 8);
    assert_int_equal(stored(scene), 1480);
    assert_true(table_has(scene->inner, "Blogs", "P049", "000004", "000004"));
    assert_true(table_has(scene->inner, "Blogs", "P000", "000150", "000150"));
}

SCENE_TEST(one_that_has_waited_long_goes_alone)
{
    add_insert(scene, "Blogs", "alone", "1", "first");
    for (unsigned i = 0; sorter_oldest(scene->sorter) == 0; i++) {
        if (sorter_is_full(scene->sorter))
            make_room(scene);
        add_numbered(scene, partition_of(i % 50), i, i + 1);
        assert_true(sorter_added(scene->sorter) <=
                    SORTER_MAX_AGE + SORTER_MAX_OPERATIONS);
    }
    assert_true(sorter_added(scene->sorter) >= SORTER_MAX_AGE);
    assert_true(table_has(scene->inner, "Blogs", "alone", "1", "first"));
}

/* Large operations are stored outside of the block, where gaps cannot be
 * closed, so all operations must be sent to make room. */
SCENE_TEST(with_large_ones_everything_goes)
{
    static char text[30 * 1024 + 1];

    memset(text, 'x', sizeof text - 1);
    add_insert(scene, "Blogs", "A", "1", text);
    for (unsigned i = 0; i < 50; i++)
        add_numbered(scene, partition_of(i), 0, 2);
    make_room(scene);
    assert_int_equal(sorter_count(scene->sorter), 0);
    assert_int_equal(stored(scene), 101);
}

SCENE_TEST(a_flow_that_takes_no_more_leaves_it_empty)
{
    struct err err;

    scene->faulty.refused_key = "000150";
    scene->faulty.refusal = TW_REFUSED;
    add_numbered(scene, "A", 0, 5000);
    assert_int_equal(
        sorter_flush(scene->sorter, scene->batch_writer, &err), TW_REFUSED);
    assert_int_equal(sorter_count(scene->sorter), 0);
    assert_true(stored(scene) < 5000);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
