/* SPDX-License-Identifier: MIT */
/* A table that is read in parts: every entity is returned once, wherever the
 * parts begin. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/parts.h"
#include "tests/support/fast_platform.h"
#include "tests/support/interpose.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/store/request_pool.h"

/* PartitionKeys in ascending order. The last two are in the opposite order in
 * stores that compare code points, not UTF-16 units. */
static const char *const keys[] = {"", "!", "A", "B", "a", "b", "c", "\xc3\xa9",
    "\xe6\xbc\xa2", "\xed\x9f\xbf", "\xef\xbd\xa1", "\xf0\x9f\x98\x80"};

#define KEYS (sizeof(keys) / sizeof(keys[0]))
#define EACH 70

/* A store that records the ranges of its requests. */
struct scene {
    struct interposed outer; /* first member: cast to this struct */
    struct store *inner;
    struct request_pool *request_pool;
    struct pool_client *client;
    struct parts_sample sample;
    atomic_uint first_pages; /* requests for the first page of a scan */
    unsigned came[KEYS];     /* entities of each partition, see read_all() */
    bool by_code_point; /* true: compare keys by code points; false: by UTF-16
                           units */
};

/* The inner store compares keys by code points, Azure by UTF-16 units. Unless
 * by_code_point is set, a scan is sent to the inner store without its range of
 * PartitionKeys, and the range is applied here, by UTF-16 units. */
static enum tw_err send_in_order(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct scene *scene = (struct scene *)self;
    struct store_request whole = *request;
    struct scan_request scan;
    struct page *page = request->page;
    enum tw_err outcome;
    size_t count = 0;

    if (request->call != CALL_SCAN || scene->by_code_point)
        return request_send(self->inner, exchange, request);
    scan = *request->scan;
    scan.partition_key = (struct key_range){.exact = false};
    whole.scan = &scan;
    outcome = request_send(self->inner, exchange, &whole);
    for (size_t i = 0; i < page->count; i++)
        if (key_range_has(
                &request->scan->partition_key, page->entities[i].partition_key))
            page->entities[count++] = page->entities[i];
    page->count = count;
    return outcome;
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct scene *scene = (struct scene *)self;

    if (request->call == CALL_SCAN && !request->scan->from.more)
        atomic_fetch_add(&scene->first_pages, 1);
    return send_in_order(self, exchange, request);
}

static void scene_init(struct scene *scene)
{
    static const char *const tables[] = {"Blogs", NULL};

    *scene = (struct scene){.inner = table_memory(tables)};
    interposed_init(&scene->outer, "noting", scene->inner, meet);
    for (size_t i = 0; i < KEYS; i++)
        table_fill(scene->inner, "Blogs", keys[i], 0, EACH);
    scene->request_pool = request_pool_new(4, 0);
    scene->client = pool_client_new(scene->request_pool, NULL);
}

static void scene_done(struct scene *scene)
{
    parts_sample_clear(&scene->sample);
    pool_client_free(scene->client);
    request_pool_free(scene->request_pool);
    store_close(scene->inner);
}

static void meet_again(struct scene *scene, const char *key, size_t times)
{
    const struct entity entity = {.partition_key = slice_of(key)};

    for (size_t i = 0; i < times; i++)
        parts_sample_add(&scene->sample, &entity);
}

static void meet_all(struct scene *scene)
{
    for (size_t k = 0; k < KEYS; k++)
        meet_again(scene, keys[k], 640);
}

/* Reads the table in parts. Counts in `came` the returned entities of each
 * partition. */
static void read_all(struct scene *scene, struct scan_spec spec)
{
    struct parts *parts;
    const struct page *page;
    struct err err;

    spec.store = &scene->outer.store;
    spec.table = "Blogs";
    spec.first_top = 100;
    memset(scene->came, 0, sizeof(scene->came));
    scene->first_pages = 0;
    parts = parts_open(scene->client, &spec, &scene->sample);
    for (;;) {
        assert_ok(parts_next(parts, &page, &err));
        if (!page)
            break;
        for (size_t i = 0; i < page->count; i++)
            for (size_t k = 0; k < KEYS; k++)
                scene->came[k] +=
                    slice_is(page->entities[i].partition_key, keys[k]);
    }
    assert_true(parts_pages(parts) > 0);
    parts_close(parts);
}

/* Fails unless exactly the partitions number `from` to `below` - 1 were
 * returned, each with all its entities. */
static void assert_came(const struct scene *scene, size_t from, size_t below)
{
    for (size_t k = 0; k < KEYS; k++)
        if (scene->came[k] != (k >= from && k < below ? EACH : 0))
            fail_msg("'%s' came %u times", keys[k], scene->came[k]);
}

static void read_whole(struct scene *scene, struct scan_spec spec)
{
    read_all(scene, spec);
    assert_came(scene, 0, KEYS);
}

static const struct scan_spec all = {.table = NULL};

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(a_table_that_nobody_has_read_is_one_part)
{
    read_whole(scene, all);
    assert_int_equal(scene->first_pages, 1);
}

SCENE_TEST(a_table_that_was_read_comes_in_parts)
{
    meet_all(scene);
    read_whole(scene, all);
    assert_int_equal(scene->first_pages, PARTS_MAX);
}

/* The bounds of the parts come from a sample. It may have keys in any order,
 * keys that no longer exist, or keys of one partition only. */
TEST(every_entity_comes_once_wherever_it_is_parted)
{
    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct scene scene;
        uint32_t random = seed * 2654435761u;
        size_t most = 1 + random % KEYS;

        scene_init(&scene);
        scene.by_code_point = seed % 2 == 0;
        for (unsigned i = 0; i < 10; i++) {
            char key[16];

            random = random * 1664525u + 1013904223u;
            (void)snprintf(key, sizeof(key), "%s%s",
                keys[(random >> 16) % most], random % 5 == 0 ? "x" : "");
            meet_again(&scene, key, (random >> 8) % 3000);
        }
        read_whole(&scene, all);
        scene_done(&scene);
    }
}

TEST(a_table_is_parted_only_where_stores_agree_on_the_order)
{
    for (int by_code_point = 0; by_code_point < 2; by_code_point++) {
        struct scene scene;

        scene_init(&scene);
        scene.by_code_point = by_code_point;
        meet_again(&scene, keys[KEYS - 2], 1280);
        meet_again(&scene, keys[KEYS - 1], 1280);
        read_whole(&scene, all);
        assert_int_equal(scene.first_pages, 1);
        scene_done(&scene);
    }
}

SCENE_TEST(a_range_is_parted_within_its_bounds)
{
    const struct scan_spec some = {.partition_key = {.has_from = true,
                                       .from_exclusive = true,
                                       .from = {"A", 1},
                                       .has_below = true,
                                       .below = {"c", 1}}};
    const struct scan_spec one = {
        .partition_key = key_range_exact(slice_of("b"))};

    meet_all(scene);
    read_all(scene, some);
    assert_came(scene, 3, 6);
    read_all(scene, one);
    assert_came(scene, 5, 6);
    assert_int_equal(scene->first_pages, 1);
}

/* The service accepts 15 comparisons; the bounds of a part need two. */
TEST(a_filter_without_room_for_bounds_is_read_in_one_part)
{
    static const struct {
        unsigned comparisons, parts;
    } CASES[] = {{13, PARTS_MAX}, {14, 1}, {15, 1}};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct scan_spec spec = {.table = NULL};
        struct scene scene;
        struct buf filter;

        buf_init(&filter, 4096);
        buf_add_text(&filter, "RowKey ne 'x'");
        for (unsigned more = 1; more < CASES[i].comparisons; more++)
            buf_add_text(&filter, " and RowKey ne 'x'");
        spec.filter = buf_slice(&filter);
        scene_init(&scene);
        meet_all(&scene);
        read_whole(&scene, spec);
        assert_int_equal(scene.first_pages, CASES[i].parts);
        scene_done(&scene);
        buf_done(&filter);
    }
}

SCENE_TEST(what_goes_on_after_a_key_is_one_part)
{
    const struct scan_spec rest = {.resumed = true,
        .after_partition_key = {"b", 1},
        .after_row_key = {"000009", 6}};

    meet_all(scene);
    read_all(scene, rest);
    assert_int_equal(scene->came[5], EACH - 10);
    scene->came[5] = EACH;
    assert_came(scene, 5, KEYS);
    /* One scan reads the rest of the partition, another one reads the
     * partitions after it. */
    assert_int_equal(scene->first_pages, 2);
}

SCENE_TEST(a_failure_is_said_and_the_rest_can_be_closed)
{
    struct scan_spec spec = {.table = "Nowhere"};
    const struct page *page;
    struct parts *parts;
    struct err err;

    meet_all(scene);
    spec.store = &scene->outer.store;
    parts = parts_open(scene->client, &spec, &scene->sample);
    assert_int_equal(parts_next(parts, &page, &err), TW_NOT_FOUND);
    assert_null(page);
    parts_close(parts);
    parts_close(NULL);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
