/* SPDX-License-Identifier: MIT */
/* The share that a scan reports at each page: the part of all entities that
 * come before this page. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/share.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/store/request_pool.h"

#define MANY 1000
#define PAGE_ENTITIES 40

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct request_pool *request_pool;
    struct pool_client *client;
    struct run run;
    bool stopping;
};

static bool is_stopping(struct run *run)
{
    return ((struct scene *)run->owner)->stopping;
}

static const struct run_callbacks callbacks = {.stopping = is_stopping};

static void scene_init(struct scene *scene)
{
    static const char *const tables[] = {"Blogs", NULL};

    scene->inner = table_memory(tables);
    faulty_init(&scene->faulty, scene->inner);
    scene->request_pool = request_pool_new(4, 0);
    scene->client = pool_client_new(scene->request_pool, NULL);
    scene->run.callbacks = &callbacks;
    scene->run.owner = scene;
    atomic_init(&scene->run.share, -1);
    atomic_init(&scene->run.counts.read, SHARE_AFTER_ENTITIES);
}

static void scene_done(struct scene *scene)
{
    pool_client_free(scene->client);
    request_pool_free(scene->request_pool);
    faulty_done(&scene->faulty);
    store_close(scene->inner);
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

static struct scan_spec whole(struct scene *scene)
{
    static const struct slice keys_only[1];

    return (struct scan_spec){
        .store = &scene->faulty.outer.store,
        .table = "Blogs",
        .select = keys_only,
        .first_top = PAGE_ENTITIES,
        .page_bytes = 1, /* the pages do not become larger */
        .run = &scene->run,
        .tells_share = true,
    };
}

/* Returns the next page; NULL: the scan has ended. */
static const struct page *next_page(struct scan *scan)
{
    const struct page *page;
    struct err err;

    assert_ok(scan_next(scan, &page, &err));
    return page;
}

/* Makes a scan; an earlier attempt has read `before` of all `count` entities.
 * The share at each page must be the part of the entities before the page, with
 * a difference of at most `off` thousandths. Returns the number of requests
 * that were not for pages. */
static size_t scan_all(struct scene *scene, const struct scan_spec *spec,
    size_t before, size_t count, int off)
{
    struct scan *scan = scan_open(scene->client, spec);
    size_t seen = before, requests;
    const struct page *page;
    int last = 0;

    while ((page = next_page(scan))) {
        int share = atomic_load(&scene->run.share);

        assert_in_range(share, last, 999);
        if (abs(share - (int)(seen * 1000 / count)) > off)
            fail_msg("%d at %zu of %zu", share, seen, count);
        last = share;
        seen += page->count;
    }
    assert_int_equal(seen, count);
    requests = scene->faulty.calls[CALL_SCAN] - scan_pages(scan);
    scan_close(scan);
    return requests;
}

static void fill_partitions(
    struct scene *scene, const char *before, const char *after)
{
    char key[64];

    for (int i = 0; i < MANY / 10; i++) {
        (void)snprintf(key, sizeof(key), "%s%04d%s", before, i, after);
        table_fill(scene->inner, "Blogs", key, 0, 10);
    }
}

SCENE_TEST(partitions_are_counted_by_their_digits)
{
    struct scan_spec spec = whole(scene);

    fill_partitions(scene, "blog-", "-x");
    assert_in_range(scan_all(scene, &spec, 0, MANY, 15), 10, 40);
}

SCENE_TEST(a_range_ends_with_its_last_key)
{
    struct scan_spec spec = whole(scene);

    table_fill(scene->inner, "Blogs", "A", 0, 10);
    table_fill(scene->inner, "Blogs", "Football", 0, MANY);
    table_fill(scene->inner, "Blogs", "Z", 0, 10);
    spec.partition_key = key_range_exact(slice_of("Football"));
    spec.row_key.has_below = true;
    spec.row_key.below = slice_of("000500");
    (void)scan_all(scene, &spec, 0, MANY / 2, 15);
}

/* The keys are random hexadecimal digits, as applications use them for ids. */
SCENE_TEST(random_ids_are_counted_nearly)
{
    struct scan_spec spec = whole(scene);
    char key[64];

    srandom(7);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "%08lx%04x", random() * 2UL, i);
        table_put(scene->inner, "Blogs", key, "", "x", 0);
    }
    (void)scan_all(scene, &spec, 0, MANY, 60);
}

/* An earlier attempt has read 400 thousandths of the entities. */
SCENE_TEST(a_resumed_scan_counts_the_rest)
{
    struct scan_spec spec = whole(scene);

    fill_partitions(scene, "", "");
    atomic_store(&scene->run.share, 400);
    spec.resumed = true;
    spec.after_partition_key = slice_of("0039");
    spec.after_row_key = slice_of("000009");
    (void)scan_all(scene, &spec, MANY * 4 / 10, MANY, 15);
}

/* Makes a scan whose share must stay unknown. Returns the number of requests
 * that were not for pages. */
static size_t scan_unknown(struct scene *scene)
{
    struct scan_spec spec = whole(scene);
    struct scan *scan = scan_open(scene->client, &spec);
    size_t requests;

    while (next_page(scan))
        continue;
    assert_int_equal(atomic_load(&scene->run.share), -1);
    requests = scene->faulty.calls[CALL_SCAN] - scan_pages(scan);
    scan_close(scan);
    return requests;
}

SCENE_TEST(a_run_that_has_read_little_makes_no_request_for_it)
{
    fill_partitions(scene, "", "");
    atomic_store(&scene->run.counts.read, SHARE_AFTER_ENTITIES - 1);
    assert_int_equal(scan_unknown(scene), 0);
}

/* A run with a low max_entities_per_second reads few entities, but takes
 * long. */
TEST(a_scan_that_lasts_has_a_share)
{
    struct scene scene = {.stopping = false};
    const struct page *page;
    struct scan_spec spec;
    struct scan *scan;
    size_t read = 0;
    int before;

    virtual_platform_use(&(struct virtual_options){.seed = 1});
    scene_init(&scene);
    fill_partitions(&scene, "", "");
    atomic_store(&scene.run.counts.read, 0);
    spec = whole(&scene);
    scan = scan_open(scene.client, &spec);
    virtual_sleep(SHARE_AFTER_MS / 2);
    while (read < MANY / 2 && (page = next_page(scan)))
        read += page->count;
    before = atomic_load(&scene.run.share);
    virtual_sleep(SHARE_AFTER_MS / 2);
    (void)next_page(scan);
    assert_int_equal(before, -1);
    assert_in_range(atomic_load(&scene.run.share), 490, 560);
    scan_close(scan);
    scene_done(&scene);
    virtual_platform_end();
}

/* Other scans of the run have read as many entities as this scan will read. */
SCENE_TEST(what_was_done_before_is_a_part)
{
    struct scan_spec spec = whole(scene);
    size_t seen = MANY, requests = 0;
    const struct page *page;
    struct scan *scan;
    int last = 0;

    fill_partitions(scene, "", "");
    spec.done_before = MANY;
    scan = scan_open(scene->client, &spec);
    while ((page = next_page(scan))) {
        int share = atomic_load(&scene->run.share);

        if (seen == MANY)
            assert_int_equal(share, -1); /* the number of entities to come is
                                            unknown */
        else
            assert_in_range(share, last, 999);
        if (share >= 0 && abs(share - (int)(seen * 500 / MANY)) > 20)
            fail_msg("%d at %zu", share, seen);
        last = share < 0 ? 0 : share;
        seen += page->count;
        atomic_fetch_add(&scene->run.counts.read, (int64_t)page->count);
        requests++;
    }
    assert_true(requests > 20 && last > 900);
    scan_close(scan);
}

/* The share stays that of the earlier attempt until this attempt has read
 * more. */
SCENE_TEST(what_was_done_before_is_no_more_than_it_was)
{
    struct scan_spec spec = whole(scene);
    const struct page *page;
    struct scan *scan;

    fill_partitions(scene, "", "");
    spec.done_before = MANY;
    atomic_store(&scene->run.share, 700);
    scan = scan_open(scene->client, &spec);
    do {
        page = next_page(scan);
        assert_in_range(atomic_load(&scene->run.share), 700, 999);
        if (page)
            atomic_fetch_add(&scene->run.counts.read, (int64_t)page->count);
    } while (page);
    assert_in_range(atomic_load(&scene->run.share), 900, 999);
    scan_close(scan);
}

SCENE_TEST(a_store_without_key_order_has_no_share)
{
    fill_partitions(scene, "", "");
    scene->faulty.outer.store.capabilities.ordered = false;
    assert_int_equal(scan_unknown(scene), 0);
}

SCENE_TEST(a_run_that_stops_makes_no_more_requests_for_it)
{
    fill_partitions(scene, "", "");
    scene->stopping = true;
    assert_int_equal(scan_unknown(scene), 0);
}

static pthread_t searching; /* the thread of the run, which searches the last
                             * key; pages are requested by other threads */
static unsigned searches;

static enum fault refuse_third_search(
    void *ctx, enum store_call call, unsigned n)
{
    if (call != CALL_SCAN || !pthread_equal(pthread_self(), searching))
        return FAULT_NONE;
    return ++searches == 3 ? FAULT_REFUSED : FAULT_NONE;
}

/* If the search for the last key fails, only the share is lost. */
SCENE_TEST(a_request_that_fails_ends_the_search)
{
    fill_partitions(scene, "", "");
    searching = pthread_self();
    searches = 0;
    scene->faulty.choose = refuse_third_search;
    assert_in_range(scan_unknown(scene), 1, 4);
    assert_int_equal(searches, 3);
}

static const struct {
    const char *first, *last, *key;
    int share;
} CASES[] = {
    {"a", "a", "a", -1},
    {"", "", "", -1},
    {"b", "a", "a", -1},
    {"000", "100", "050", 500},
    {"x000", "x100", "x050", 500},
    {"x000", "x100", "y050", -1},
    {"x000", "x100", "x200", 999},
    {"x100", "x200", "x000", 0},
    {"0", "f", "8", 533},
    {"2024-01", "2024-11", "2024-06", 500},
    {"A", "C", "b", 500},
    {"a", "\xc3\xa9", "z", 926},
};

TEST(a_share_is_between_two_keys)
{
    for (size_t i = 0; TEST_EACH(i, CASES); i++)
        assert_int_equal(share_between(slice_of(CASES[i].first),
                             slice_of(CASES[i].last), slice_of(CASES[i].key)),
            CASES[i].share);
}

/* Each kind of job that reads one table; a cascade (test_cascade_share.c) reads
 * many. */
static const char JOBS[] =
    "copy: {kind: copy, from: {table: Blogs}, to: {table: Copies}}\n"
    "upgrade: {kind: schema-upgrade, table: Blogs,\n"
    "  version: {property: V, absent: 1}, versions: [{to: 2, steps: [\n"
    "    {add: {property: L, type: Edm.String, value: en}}]}]}\n"
    "move: {kind: move, from: {table: Blogs}, to: {table: There}}\n"
    "purge: {kind: delete, table: There, all: true}\n";

TEST(a_run_that_reads_much_has_a_share)
{
    static const char *const jobs[] = {"copy", "upgrade", "move", "purge"};
    struct hosted h;

    hosted_begin(&h, JOBS, "Blogs TablewardRuns");
    hosted_fill(&h, "Blogs", "p", SHARE_AFTER_ENTITIES + 4000);
    for (size_t i = 0; TEST_EACH(i, jobs); i++) {
        hosted_forget(&h, jobs[i]);
        if (hosted_run(&h, jobs[i], "") != RUN_SUCCEEDED)
            fail_msg("%s", h.err.text);
        assert_in_range(h.share, 800, 999);
    }
    hosted_done(&h);
}
