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

/* What a scan returned. */
struct harvest {
    size_t entities, pages;
    char first[64], last[64];
    enum tw_err outcome;
    struct err err;
};

struct scene {
    struct store *inner;
    struct faulty faulty;
    struct request_pool *request_pool;
    struct pool_client *client;
    struct scan_spec spec; /* initially the whole table, keys only */
    struct harvest got;    /* of the last scan */
};

static void scene_init(struct scene *scene)
{
    static const char *const tables[] = {"Blogs", NULL};

    memset(scene, 0, sizeof(*scene));
    scene->inner = table_memory(tables);
    faulty_init(&scene->faulty, scene->inner);
    scene->request_pool = request_pool_new(4, 0);
    scene->client = pool_client_new(scene->request_pool, NULL);
    scene->spec = (struct scan_spec){
        .store = &scene->faulty.outer.store,
        .table = "Blogs",
        .select = keys_only,
    };
}

static void scene_done(struct scene *scene)
{
    pool_client_free(scene->client);
    request_pool_free(scene->request_pool);
    faulty_done(&scene->faulty);
    store_close(scene->inner);
}

static void fill(struct scene *scene, const char *partition_key, size_t count)
{
    table_fill(scene->inner, "Blogs", partition_key, 0, count);
}

/* Makes the next scan continue after this entity. */
static void resume(
    struct scene *scene, const char *partition_key, const char *row_key)
{
    scene->spec.resumed = true;
    scene->spec.after_partition_key = slice_of(partition_key);
    scene->spec.after_row_key = slice_of(row_key);
}

static enum tw_err gather(struct scene *scene)
{
    struct scan *scan = scan_open(scene->client, &scene->spec);
    struct harvest *got = &scene->got;
    const struct page *page = NULL;

    *got = (struct harvest){0};
    while (
        (got->outcome = scan_next(scan, &page, &got->err)) == TW_OK && page) {
        assert_true(page->count > 0);
        for (size_t i = 0; i < page->count; i++) {
            const struct entity *entity = &page->entities[i];
            char key[64];

            (void)snprintf(key, sizeof key, "%.*s/%.*s",
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
            if (got->entities++ == 0)
                memcpy(got->first, key, sizeof key);
            else
                assert_true(strcmp(got->last, key) < 0);
            memcpy(got->last, key, sizeof key);
        }
    }
    got->pages = scan_pages(scan);
    scan_close(scan);
    return got->outcome;
}

/* Makes the scan, which must return `entities` entities, from key `first` to
 * key `last` (NULL: not compared). */
static void expect_gathered(
    struct scene *scene, size_t entities, const char *first, const char *last)
{
    assert_ok(gather(scene));
    assert_int_equal(scene->got.entities, entities);
    if (first)
        assert_string_equal(scene->got.first, first);
    if (last)
        assert_string_equal(scene->got.last, last);
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(an_empty_table_is_one_look)
{
    expect_gathered(scene, 0, NULL, NULL);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 1);
}

SCENE_TEST(goes_on_after_a_key)
{
    fill(scene, "A", 10);
    fill(scene, "B", 10);
    fill(scene, "C", 10);
    resume(scene, "B", "000003");
    expect_gathered(scene, 6 + 10, "B/000004", "C/000009");
}

SCENE_TEST(goes_on_within_the_ranges_of_its_rule)
{
    struct arena arena;

    arena_init(&arena);
    fill(scene, "A", 20);
    fill(scene, "B", 20);
    fill(scene, "C", 20);
    scene->spec.partition_key = key_range_exact(slice_of("B"));
    scene->spec.row_key = key_range_prefix(slice_of("00000"), &arena);
    resume(scene, "B", "000003");
    expect_gathered(scene, 6, "B/000004", "B/000009");
    scene->spec.partition_key = (struct key_range){0};
    scene->spec.row_key = key_range_exact(slice_of("000005"));
    resume(scene, "A", "000005");
    expect_gathered(scene, 2, "B/000005", "C/000005");
    arena_done(&arena);
}

SCENE_TEST(nothing_is_asked_where_nothing_is_left)
{
    fill(scene, "B", 20);
    scene->spec.partition_key = key_range_exact(slice_of("B"));
    scene->spec.row_key = key_range_exact(slice_of("000005"));
    resume(scene, "B", "000005");
    expect_gathered(scene, 0, NULL, NULL);
    assert_int_equal(scene->faulty.calls[CALL_SCAN], 0);
}

SCENE_TEST(an_unordered_store_is_scanned_anew)
{
    scene->faulty.outer.store.capabilities.ordered = false;
    fill(scene, "A", 10);
    resume(scene, "A", "000003");
    expect_gathered(scene, 10, NULL, NULL);
}

SCENE_TEST(an_expired_token_is_replaced_by_the_last_key)
{
    scene->faulty.expire_token = 2;
    fill(scene, "A", 1300);
    fill(scene, "B", 1300);
    expect_gathered(scene, 2600, "A/000000", "B/001299");
}

/* On a store without key order a scan cannot continue after the last key, so it
 * ends when its continuation token has expired. */
SCENE_TEST(an_expired_token_ends_a_scan_that_has_no_order)
{
    scene->faulty.outer.store.capabilities.ordered = false;
    scene->faulty.expire_token = 2;
    fill(scene, "A", 2600);
    assert_int_equal(gather(scene), TW_INVALID);
    assert_int_equal(scene->got.entities, 1000);
}

/* A proxy that caches the first page. It answers some later scans with this
 * page again, and with the continuation token of this page. */
struct keeper {
    struct interposed outer; /* first member: cast to this struct */
    atomic_uint scans;       /* number of scans, counted on several threads */
    unsigned first, last;    /* the first-th to the last-th scan get the cached
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

TEST(a_page_that_came_again_is_not_taken)
{
    static const struct {
        unsigned first, last; /* scans that get the cached page */
        unsigned page_max;
        enum tw_err outcome;
        size_t entities;
        const char *says;
    } cases[] = {
        {2, 3, 0, TW_OK, 2500, ""},
        {2, UINT_MAX, 0, TW_BUSY, 1000, "would never end"},
        /* The scan is in partition B by then. A comparison of RowKeys alone
         * would not show that the page goes back to partition A. */
        {3, UINT_MAX, 0, TW_BUSY, 2000, "does not begin after the end"},
        /* The first entity of the page is the last one that was received. */
        {2, UINT_MAX, 1, TW_BUSY, 1, ""},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct keeper keeper = {.first = cases[i].first, .last = cases[i].last};
        struct scene scene;

        scene_init(&scene);
        scene.faulty.page_max = cases[i].page_max;
        interposed_init(
            &keeper.outer, "keeper", &scene.faulty.outer.store, keeper_meet);
        fill(&scene, "A", 1500);
        fill(&scene, "B", 1000);
        scene.spec.store = &keeper.outer.store;
        assert_int_equal(gather(&scene), cases[i].outcome);
        assert_int_equal(scene.got.entities, cases[i].entities);
        assert_non_null(strstr(scene.got.err.text, cases[i].says));
        scene_done(&scene);
    }
}

SCENE_TEST(pages_shrink_until_they_come_and_grow_again)
{
    scene->faulty.top_max = 20;
    fill(scene, "A", 100);
    scene->spec.select = NULL;
    expect_gathered(scene, 100, NULL, NULL);
    assert_int_equal(scene->faulty.tops[0], 128);
    assert_int_equal(scene->faulty.tops[1], 16);
    assert_int_equal(scene->faulty.tops[2], 32);
}

SCENE_TEST(small_entities_come_by_the_thousand)
{
    fill(scene, "A", 2128);
    scene->spec.select = NULL;
    expect_gathered(scene, 2128, NULL, NULL);
    assert_int_equal(scene->faulty.tops[1], 1000);
    assert_int_equal(scene->got.pages, 3);
}

SCENE_TEST(large_entities_come_a_few_at_a_time)
{
    for (int i = 0; i < 12; i++) {
        char row_key[8];

        (void)snprintf(row_key, sizeof row_key, "%d", 100 + i);
        table_put(scene->inner, "Blogs", "A", row_key, NULL, 450 * 1024);
    }
    scene->spec.select = NULL;
    expect_gathered(scene, 12, NULL, NULL);
    assert_true(scene->got.pages >= 2);
    assert_true(scene->faulty.tops[1] <= 5);
}

SCENE_TEST(an_entity_too_large_alone_names_its_table)
{
    fill(scene, "A", 10);
    scene->faulty.refuse_scans = true;
    assert_int_equal(gather(scene), TW_TOO_LARGE);
    assert_non_null(strstr(scene->got.err.text, "Blogs"));
}

/* A service that sends the header of the first page at once, and the body only
 * after it has received the next request. */
struct slow_body {
    struct interposed outer; /* first member: cast to this struct */
    struct platform_mutex mutex;
    struct platform_cond came;
    unsigned scans;
    bool repeats; /* the second request gets the first page again */
    bool breaks;  /* the first response breaks off after its header */
    bool shrinks; /* the responses after the first one have fewer entities */
    bool seen;    /* a second request came before the first one was answered */
    unsigned refusals; /* how many requests for later pages are refused */
};

/* Returns 700 entities of the requested page or, if `first`, of the first page.
 * The page ends at another entity than a whole page, and so has another
 * continuation token. */
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

/* Sends the header again and again until a second request comes. One header is
 * not enough: if it arrives before the scan's owner waits for the page, it
 * causes no request for the next page. */
static enum tw_err send_until_a_second_comes(struct slow_body *slow,
    struct exchange *exchange, const struct store_request *request)
{
    int64_t until_ms = platform_boot_ms() + 500000;
    enum tw_err outcome;

    do {
        outcome = request_send(slow->outer.inner, exchange, request);
        platform_lock(&slow->mutex);
        if (slow->scans < 2)
            (void)platform_wait(
                &slow->came, &slow->mutex, platform_boot_ms() + 100);
        slow->seen = slow->scans >= 2;
        platform_unlock(&slow->mutex);
    } while (outcome == TW_OK && !slow->seen && platform_boot_ms() < until_ms);
    if (slow->breaks)
        outcome = err_fail(&exchange->err, TW_UNKNOWN, "it broke off");
    return outcome;
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

/* Reads a table of 2,600 entities through `slow`. Returns the number of
 * requests for pages. */
static unsigned read_slowly(struct slow_body *slow)
{
    struct scene scene;

    scene_init(&scene);
    interposed_init(
        &slow->outer, "slow", &scene.faulty.outer.store, slow_body_meet);
    platform_mutex_init(&slow->mutex);
    platform_cond_init(&slow->came);
    fill(&scene, "A", 2600);
    scene.spec.store = &slow->outer.store;
    expect_gathered(&scene, 2600, NULL, NULL);
    assert_true(slow->seen);
    platform_cond_done(&slow->came);
    platform_mutex_done(&slow->mutex);
    scene_done(&scene);
    return slow->scans;
}

TEST(the_next_page_is_asked_for_with_the_head_of_this_one)
{
    assert_int_equal(read_slowly(&(struct slow_body){.breaks = false}), 3);
}

TEST(a_page_asked_for_early_that_came_before_is_not_taken)
{
    (void)read_slowly(&(struct slow_body){.repeats = true});
}

TEST(a_page_asked_for_early_is_asked_for_again_when_it_is_its_turn)
{
    struct slow_body slow = {.refusals = RETRY_TRIES};

    (void)read_slowly(&slow);
    assert_int_equal(slow.refusals, 0);
}

TEST(a_page_that_ends_elsewhere_the_second_time_loses_nothing)
{
    (void)read_slowly(&(struct slow_body){.breaks = true, .shrinks = true});
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
