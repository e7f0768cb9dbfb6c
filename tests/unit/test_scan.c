/* SPDX-License-Identifier: MIT */
/* A scan returns every entity once, in bounded pages, up to the last one. */
#include <stdio.h>
#include <string.h>

#include <limits.h>
#include <stdatomic.h>

#include "jobs/engine/scan.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/interpose.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"

static const struct slice keys_only[1];

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct request_pool *request_pool;
    struct pool_client *client;
};

static void scene_init(struct scene *scene)
{
    static const char *const tables[] = {"Blogs", NULL};

    scene->inner = table_memory(tables);
    faulty_init(&scene->faulty, scene->inner);
    scene->request_pool = request_pool_new(4, 0);
    scene->client = pool_client_new(scene->request_pool, NULL);
}

static void scene_done(struct scene *scene)
{
    pool_client_free(scene->client);
    request_pool_free(scene->request_pool);
    faulty_done(&scene->faulty);
    store_close(scene->inner);
}

static struct scan_spec whole(struct scene *scene)
{
    return (struct scan_spec){
        .store = &scene->faulty.outer.store,
        .table = "Blogs",
        .select = keys_only,
    };
}

/* What a scan returned. */
struct harvest {
    size_t entities, pages;
    char first[64], last[64];
    enum tw_err code;
    struct err err;
};

static struct harvest gather(struct scene *scene, const struct scan_spec *spec)
{
    struct scan *scan = scan_open(scene->client, spec);
    struct harvest got = {0};
    const struct page *page = NULL;
    char key[64];

    while ((got.code = scan_next(scan, &page, &got.err)) == TW_OK && page) {
        assert_true(page->count > 0);
        for (size_t i = 0; i < page->count; i++) {
            const struct entity *entity = &page->entities[i];

            (void)snprintf(key, sizeof key, "%.*s/%.*s",
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
            if (got.entities++ == 0)
                memcpy(got.first, key, sizeof key);
            else
                assert_true(strcmp(got.last, key) < 0);
            memcpy(got.last, key, sizeof key);
        }
    }
    got.pages = scan_pages(scan);
    scan_close(scan);
    return got;
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(brings_every_entity_once)
{
    struct scan_spec spec;
    struct harvest got;

    table_fill(scene->inner, "Blogs", "A", 0, 1500);
    table_fill(scene->inner, "Blogs", "B", 0, 1001);
    spec = whole(scene);
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 2501);
    assert_string_equal(got.first, "A/000000");
    assert_string_equal(got.last, "B/001000");
    assert_int_equal(got.pages, 3);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 3);
}

SCENE_TEST(an_empty_table_is_one_look)
{
    struct scan_spec spec;
    struct harvest got;

    spec = whole(scene);
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 0);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
}

SCENE_TEST(a_missing_table_is_said)
{
    struct scan_spec spec;
    struct harvest got;

    spec = whole(scene);
    spec.table = "Nowhere";
    got = gather(scene, &spec);
    assert_int_equal(got.code, TW_NOT_FOUND);
    assert_non_null(strstr(got.err.text, "Nowhere"));
}

SCENE_TEST(goes_on_after_a_key)
{
    struct scan_spec spec;
    struct harvest got;

    for (const char *key = "A\0B\0C\0"; *key; key += 2)
        table_fill(scene->inner, "Blogs", key, 0, 10);
    spec = whole(scene);
    spec.resumed = true;
    spec.after_partition_key = slice_of("B");
    spec.after_row_key = slice_of("000003");
    got = gather(scene, &spec);
    assert_int_equal(got.entities, 6 + 10);
    assert_string_equal(got.first, "B/000004");
    assert_string_equal(got.last, "C/000009");
}

SCENE_TEST(goes_on_within_the_ranges_of_its_rule)
{
    struct scan_spec spec;
    struct harvest got;
    struct arena arena;

    arena_init(&arena);
    for (const char *key = "A\0B\0C\0"; *key; key += 2)
        table_fill(scene->inner, "Blogs", key, 0, 20);
    spec = whole(scene);
    spec.partition_key = key_range_exact(slice_of("B"));
    spec.row_key = key_range_prefix(slice_of("00000"), &arena);
    spec.resumed = true;
    spec.after_partition_key = slice_of("B");
    spec.after_row_key = slice_of("000003");
    got = gather(scene, &spec);
    assert_int_equal(got.entities, 6);
    assert_string_equal(got.first, "B/000004");
    assert_string_equal(got.last, "B/000009");

    spec.partition_key = (struct key_range){0};
    spec.row_key = key_range_exact(slice_of("000005"));
    spec.after_partition_key = slice_of("A");
    spec.after_row_key = slice_of("000005");
    got = gather(scene, &spec);
    assert_int_equal(got.entities, 2);
    assert_string_equal(got.first, "B/000005");
    arena_done(&arena);
}

SCENE_TEST(nothing_is_asked_where_nothing_is_left)
{
    struct scan_spec spec;
    struct harvest got;

    table_fill(scene->inner, "Blogs", "B", 0, 20);
    spec = whole(scene);
    spec.partition_key = key_range_exact(slice_of("B"));
    spec.row_key = key_range_exact(slice_of("000005"));
    spec.resumed = true;
    spec.after_partition_key = slice_of("B");
    spec.after_row_key = slice_of("000005");
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 0);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 0);
}

SCENE_TEST(an_unordered_store_is_scanned_anew)
{
    struct scan_spec spec;
    struct harvest got;

    scene->faulty.outer.store.capabilities.ordered = false;
    table_fill(scene->inner, "Blogs", "A", 0, 10);
    spec = whole(scene);
    spec.resumed = true;
    spec.after_partition_key = slice_of("A");
    spec.after_row_key = slice_of("000003");
    got = gather(scene, &spec);
    assert_int_equal(got.entities, 10);
}

SCENE_TEST(an_expired_token_is_replaced_by_the_last_key)
{
    struct scan_spec spec;
    struct harvest got;

    scene->faulty.expire_token = 2;
    table_fill(scene->inner, "Blogs", "A", 0, 1300);
    table_fill(scene->inner, "Blogs", "B", 0, 1300);
    spec = whole(scene);
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 2600);
    assert_string_equal(got.last, "B/001299");
}

/* On a store without key order a scan cannot continue after the last key. */
SCENE_TEST(an_expired_token_ends_a_scan_that_has_no_order)
{
    struct scan_spec spec;
    struct harvest got;

    scene->faulty.outer.store.capabilities.ordered = false;
    scene->faulty.expire_token = 2;
    table_fill(scene->inner, "Blogs", "A", 0, 2600);
    spec = whole(scene);
    got = gather(scene, &spec);
    assert_int_equal(got.code, TW_INVALID);
    assert_int_equal(got.entities, 1000);
}

/* A proxy that caches a page: it returns the page again, with its continuation
 * token. */
struct keeper {
    struct interposed outer; /* first member: cast to this struct */
    atomic_uint scans;    /* so far; counted on threads of the request pool */
    unsigned first, last; /* the first-th to the last-th scan get the cached
                             page */
};

static enum tw_err keeper_meet(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct keeper *keeper = (struct keeper *)self;
    struct store_request again = *request;
    struct scan_request scan;
    unsigned number = request->call == CALL_SCAN ? ++keeper->scans : 0;

    if (number > 0 && number >= keeper->first && number <= keeper->last) {
        scan = *request->scan;
        scan.from = (struct continuation){.more = false};
        again.scan = &scan;
    }
    return request_send(self->inner, exchange, &again);
}

/* Scan a table in pages of at most page_max entities, while the requests first
 * to last get the first page. */
static struct harvest gather_kept(
    unsigned first, unsigned last, unsigned page_max)
{
    struct scene scene;
    struct scan_spec spec;
    struct harvest got;
    struct keeper keeper = {.first = first, .last = last};

    scene_init(&scene);
    scene.faulty.page_max = page_max;
    interposed_init(
        &keeper.outer, "keeper", &scene.faulty.outer.store, keeper_meet);
    table_fill(scene.inner, "Blogs", "A", 0, 1500);
    table_fill(scene.inner, "Blogs", "B", 0, 1000);
    spec = whole(&scene);
    spec.store = &keeper.outer.store;
    got = gather(&scene, &spec);
    scene_done(&scene);
    return got;
}

TEST(a_page_that_came_again_is_not_taken)
{
    struct harvest got = gather_kept(2, 3, 0);

    assert_ok(got.code);
    assert_int_equal(got.entities, 2500);
    got = gather_kept(2, UINT_MAX, 0);
    assert_int_equal(got.code, TW_BUSY);
    assert_int_equal(got.entities, 1000);
    assert_non_null(strstr(got.err.text, "would never end"));
    /* The scan is in another partition by then: compared by RowKey alone, the
     * page would not go back. */
    got = gather_kept(3, UINT_MAX, 0);
    assert_int_equal(got.code, TW_BUSY);
    assert_int_equal(got.entities, 2000);
    assert_non_null(strstr(got.err.text, "does not continue where"));
    /* The first entity of the page is the last one that was received. */
    got = gather_kept(2, UINT_MAX, 1);
    assert_int_equal(got.code, TW_BUSY);
    assert_int_equal(got.entities, 1);
}

FAULTY_CHOICE(often_busy)
{
    return n % 3 == 0   ? FAULT_BUSY
           : n % 3 == 1 ? FAULT_LOSE_ANSWER
                        : FAULT_NONE;
}

SCENE_TEST(faults_lose_and_double_nothing)
{
    struct scan_spec spec;
    struct harvest got;

    scene->faulty.choose = often_busy;
    table_fill(scene->inner, "Blogs", "A", 0, 3000);
    spec = whole(scene);
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 3000);
}

SCENE_TEST(pages_shrink_until_they_come_and_grow_again)
{
    struct scan_spec spec;
    struct harvest got;

    scene->faulty.top_max = 20;
    table_fill(scene->inner, "Blogs", "A", 0, 100);
    spec = whole(scene);
    spec.select = NULL;
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 100);
    assert_int_equal(scene->faulty.tops[0], 128);
    assert_int_equal(scene->faulty.tops[1], 16);
    assert_int_equal(scene->faulty.tops[2], 32);
}

SCENE_TEST(small_entities_come_by_the_thousand)
{
    struct scan_spec spec;
    struct harvest got;

    table_fill(scene->inner, "Blogs", "A", 0, 2128);
    spec = whole(scene);
    spec.select = NULL;
    got = gather(scene, &spec);
    assert_int_equal(got.entities, 2128);
    assert_int_equal(scene->faulty.tops[1], 1000);
    assert_int_equal(got.pages, 3);
}

SCENE_TEST(large_entities_come_a_few_at_a_time)
{
    struct scan_spec spec;
    struct harvest got;

    for (int i = 0; i < 12; i++) {
        char row_key[8];

        (void)snprintf(row_key, sizeof row_key, "%d", 100 + i);
        table_put(scene->inner, "Blogs", "A", row_key, NULL, 450 * 1024);
    }
    spec = whole(scene);
    spec.select = NULL;
    got = gather(scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 12);
    assert_true(got.pages >= 2);
    assert_true(scene->faulty.tops[1] <= 5);
}

SCENE_TEST(an_entity_too_large_alone_names_its_table)
{
    struct scan_spec spec;
    struct harvest got;

    scene->faulty.top_max = 0;
    table_fill(scene->inner, "Blogs", "A", 0, 10);
    spec = whole(scene);
    scene->faulty.refuse_scans = true;
    got = gather(scene, &spec);
    assert_int_equal(got.code, TW_TOO_LARGE);
    assert_non_null(strstr(got.err.text, "Blogs"));
}

SCENE_TEST(a_page_under_way_is_given_up_at_close)
{
    struct scan_spec spec;
    struct scan *scan;
    const struct page *page = NULL;
    struct err err;

    table_fill(scene->inner, "Blogs", "A", 0, 2500);
    spec = whole(scene);
    scan = scan_open(scene->client, &spec);
    scan_close(scan);
    scan = scan_open(scene->client, &spec);
    assert_ok(scan_next(scan, &page, &err));
    assert_int_equal(page->count, 1000);
    scan_close(scan);
    scan_close(NULL);
}

/* A service that sends the header of the first page, and its body only after it
 * has seen which request comes meanwhile. */
struct slow_body {
    struct interposed outer; /* first member: cast to this struct */
    struct platform_mutex mutex;
    struct platform_cond came;
    unsigned scans;
    bool repeats; /* the second request gets the first page again */
    bool breaks;  /* the first response with the first page breaks off */
    bool shrinks; /* all other responses have fewer entities */
    bool seen;    /* a second request came before the first one was answered */
    unsigned refusals; /* number of requests for later pages that are refused */
};

/* Return only some entities of the requested page, or of the first one: the
 * page ends elsewhere, so its continuation token is another one. */
static enum tw_err send_fewer(struct interposed *self,
    struct exchange *exchange, const struct store_request *request, bool first)
{
    struct store_request again = *request;
    struct scan_request scan = *request->scan;

    if (first)
        scan.from = (struct continuation){.more = false};
    scan.top = 700;
    again.scan = &scan;
    return request_send(self->inner, exchange, &again);
}

/* Send the header again and again until the scan's owner waits for the page: a
 * header that arrives earlier does not cause a request for the next page. */
static enum tw_err send_until_a_second_comes(struct slow_body *slow,
    struct exchange *exchange, const struct store_request *request)
{
    int64_t until_ms = platform_boot_ms() + 500000;
    enum tw_err code;

    do {
        code = request_send(slow->outer.inner, exchange, request);
        platform_lock(&slow->mutex);
        if (slow->scans < 2)
            (void)platform_wait(
                &slow->came, &slow->mutex, platform_boot_ms() + 100);
        slow->seen = slow->scans >= 2;
        platform_unlock(&slow->mutex);
    } while (code == TW_OK && !slow->seen && platform_boot_ms() < until_ms);
    if (slow->breaks)
        code = err_fail(&exchange->err, TW_UNKNOWN, "it broke off");
    return code;
}

static enum tw_err slow_body_meet(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    struct slow_body *slow = (struct slow_body *)self;
    unsigned number;
    bool refuses;

    if (request->call != CALL_SCAN)
        return request_send(self->inner, exchange, request);
    platform_lock(&slow->mutex);
    number = ++slow->scans;
    refuses = number > 1 && slow->refusals > 0;
    slow->refusals -= refuses;
    platform_wake_all(&slow->came);
    platform_unlock(&slow->mutex);
    if (number == 2 && slow->repeats)
        return send_fewer(self, exchange, request, true);
    if (number == 1)
        return send_until_a_second_comes(slow, exchange, request);
    if (slow->shrinks)
        return send_fewer(self, exchange, request, false);
    if (refuses) {
        exchange->http_status = 500;
        return err_fail(&exchange->err, TW_BUSY, "500");
    }
    return request_send(self->inner, exchange, request);
}

static void read_slowly(struct slow_body *slow)
{
    struct scene scene;
    struct scan_spec spec;
    struct harvest got;

    scene_init(&scene);
    interposed_init(
        &slow->outer, "slow", &scene.faulty.outer.store, slow_body_meet);
    platform_mutex_init(&slow->mutex);
    platform_cond_init(&slow->came);
    table_fill(scene.inner, "Blogs", "A", 0, 2600);
    spec = whole(&scene);
    spec.store = &slow->outer.store;
    got = gather(&scene, &spec);
    assert_ok(got.code);
    assert_int_equal(got.entities, 2600);
    platform_cond_done(&slow->came);
    platform_mutex_done(&slow->mutex);
    scene_done(&scene);
}

TEST(the_next_page_is_asked_for_with_the_head_of_this_one)
{
    struct slow_body slow = {.breaks = false};

    read_slowly(&slow);
    assert_true(slow.seen);
    assert_int_equal(slow.scans, 3);
}

TEST(a_page_asked_for_early_that_came_before_is_not_taken)
{
    struct slow_body slow = {.repeats = true};

    read_slowly(&slow);
    assert_true(slow.seen);
}

TEST(a_page_that_breaks_off_is_read_again_and_none_is_lost)
{
    struct slow_body slow = {.breaks = true};

    read_slowly(&slow);
    assert_true(slow.seen);
    assert_int_equal(slow.scans, 4);
}

TEST(a_page_asked_for_early_is_asked_for_again_when_it_is_its_turn)
{
    struct slow_body slow = {.refusals = RETRY_TRIES};

    read_slowly(&slow);
    assert_true(slow.seen);
    assert_int_equal(slow.refusals, 0);
}

TEST(a_page_that_ends_elsewhere_the_second_time_loses_nothing)
{
    struct slow_body slow = {.breaks = true, .shrinks = true};

    read_slowly(&slow);
    assert_true(slow.seen);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
