/* SPDX-License-Identifier: MIT */
/*
 * A store that accepts requests and never responds may occupy only one slot,
 * and only for a part of the time. The test is a model of a worker with four
 * slots and the real request pool. Its runs on such stores are started before
 * its runs on a store that responds.
 */
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/request_pool.h"
#include "worker/store/silence.h"

/* ---- what is known of one store ---- */

static bool refuses(const struct silence *silence, int64_t now_ms)
{
    int64_t quiet_ms;

    return silence_refuses(silence, now_ms, &quiet_ms);
}

TEST_FIXTURE(silence, struct silence, TEST_NOTHING, TEST_NOTHING)

#define SILENCE_TEST(name)                                                     \
    TEST_WITH(name, silence_set_up, silence_tear_down, struct silence *silence)

static void request(struct silence *silence, int64_t began_ms, int64_t ended_ms,
    enum silence_end end)
{
    silence_begin(silence, began_ms);
    silence_end(silence, ended_ms, began_ms, end);
}

SILENCE_TEST(a_first_request_leaves_alone)
{
    assert_int_equal(silence_wait_ms(silence, 5000), 0);
    silence_begin(silence, 5000);
    assert_int_equal(silence_wait_ms(silence, 5000), SILENCE_FIRST_MS);
    assert_int_equal(silence_wait_ms(silence, 5000 + SILENCE_FIRST_MS - 1), 1);
    assert_false(refuses(silence, 5000 + SILENCE_FIRST_MS - 1));
    silence_end(silence, 5100, 5000, SILENCE_RESPONSE);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(silence_wait_ms(silence, 5100), 0);
        assert_false(refuses(silence, 5100));
        silence_begin(silence, 5100);
    }
}

/* A store that has not responded for ten seconds may no longer respond. So
 * again only one request is sent at first. */
SILENCE_TEST(after_ten_seconds_there_is_a_first_request_again)
{
    request(silence, 5000, 5000, SILENCE_RESPONSE);
    silence_begin(silence, 14999);
    assert_int_equal(silence_wait_ms(silence, 14999), 0);
    assert_true(silence_wait_ms(silence, 15000) > 0);
    assert_false(silence_is_silent(silence, 15000));
    assert_true(silence_is_silent(silence, 14999 + SILENCE_FIRST_MS));
}

SILENCE_TEST(a_silent_store_refuses_all_but_one)
{
    int64_t quiet_ms;

    silence_begin(silence, 5000);
    assert_true(silence_refuses(silence, 19999, &quiet_ms));
    assert_int_equal(quiet_ms, 14999);
    assert_int_equal(silence_wait_ms(silence, 19999), 0);
    silence_end(silence, 20000, 5000, SILENCE_NO_RESPONSE);
    assert_true(silence_refuses(silence, 34999, &quiet_ms));
    assert_int_equal(quiet_ms, 15000);
    assert_int_equal(silence_wait_ms(silence, 34999), 0);
    assert_false(refuses(silence, 35000));
    request(silence, 35000, 35001, SILENCE_RESPONSE);
    assert_false(refuses(silence, 35001));
    assert_int_equal(silence_wait_ms(silence, 35001), 0);
}

/* Only the end of the last request in flight ends a silence. Requests that were
 * given up before do not. */
SILENCE_TEST(a_silence_ends_with_its_last_request)
{
    silence_begin(silence, 5000);
    request(silence, 5900, 6900, SILENCE_NO_RESPONSE);
    assert_int_equal(silence->refused_until_ms, 0);
    silence_end(silence, 6900, 5000, SILENCE_NO_RESPONSE);
    assert_int_equal(silence->refused_until_ms, 6900 + SILENCE_PAUSE_MIN_MS);
}

/* Failures to connect are counted by the circuit breaker instead. */
SILENCE_TEST(a_connection_that_is_refused_is_no_silence)
{
    for (int64_t now_ms = 5000; now_ms < 60000; now_ms += 100) {
        request(silence, now_ms, now_ms + 50, SILENCE_NO_RESPONSE);
        assert_false(refuses(silence, now_ms + 50));
    }
}

SILENCE_TEST(a_slow_store_is_not_silent)
{
    request(silence, 5000, 15000, SILENCE_RESPONSE);
    silence_begin(silence, 25000);
    assert_true(silence_wait_ms(silence, 25000) > 0);
    assert_int_equal(silence_wait_ms(silence, 26000), 0);
    assert_false(refuses(silence, 54999));
    assert_true(refuses(silence, 55000));
    /* A request reached its timeout, so the store is not only slow. */
    silence_begin(silence, 26000);
    silence_end(silence, 40000, 25000, SILENCE_NO_RESPONSE);
    assert_true(silence_is_silent(silence, 40000));
}

SILENCE_TEST(a_store_that_was_slow_once_is_not_slow_for_ever)
{
    request(silence, 5000, 25000, SILENCE_RESPONSE);
    for (int i = 1; i <= 100; i++) {
        request(silence, 25000 + i, 25000 + i, SILENCE_RESPONSE);
    }
    assert_in_range(silence->slowest_ms, 0, 100);
}

/* For example, a large page comes in parts over a slow connection. */
SILENCE_TEST(while_parts_of_a_response_come_a_store_is_not_silent)
{
    silence_begin(silence, 5000);
    silence_move(silence, 6000);
    assert_int_equal(silence_wait_ms(silence, 6000), 0);
    assert_false(silence_is_silent(silence, 15999));
    assert_true(silence_is_silent(silence, 16000));
}

/* The clock advances while the machine is suspended or the process is stopped,
 * so the duration of a request then shows nothing about the store. */
SILENCE_TEST(a_night_in_suspend_is_no_silence_of_a_night)
{
    const int64_t night_ms = INT64_C(8) * 3600 * 1000;
    request(silence, 5000, 5000 + night_ms, SILENCE_NO_RESPONSE);
    assert_true(refuses(silence, 5000 + night_ms));
    assert_false(refuses(silence, 5000 + night_ms + SILENCE_TOOK_MAX_MS));
    /* A store whose response has waited in the socket is not slow either. */
    request(
        silence, 5000 + 2 * night_ms, 5000 + 3 * night_ms, SILENCE_RESPONSE);
    assert_in_range(silence->slowest_ms, 0, SILENCE_TOOK_MAX_MS);
}

SILENCE_TEST(a_store_that_serves_nothing_is_useless_until_it_does)
{
    for (int i = 1; i < SILENCE_USELESS; i++)
        silence_note_served(silence, 5000, false);
    assert_false(silence_is_useless(silence, 60000));
    silence_note_served(silence, 14999, false);
    assert_false(silence_is_useless(silence, 14999));
    assert_false(refuses(silence, 14999));
    silence_note_served(silence, 15000, false);
    assert_true(silence_is_useless(silence, 15000));
    assert_true(refuses(silence, 19999));
    assert_false(refuses(silence, 20000)); /* one request may be sent */
    silence_note_served(silence, 20000, false);
    assert_true(refuses(silence, 24999));
    silence_note_served(silence, 25000, true);
    assert_false(refuses(silence, 25000));
    silence_note_served(silence, 90000, false);
    assert_false(silence_is_useless(silence, 90000));
}

/* ---- slots ---- */

#define SLOTS 4
#define BAD 12
#define GOOD 150
#define GOOD_MS 100
#define TIMEOUT_MS 15000 /* a quarter of a visibility timeout of a minute */
#define ASK_MS 1000
#define HOUR_MS 3600000
/* Shortest and longest time after which a held run is tried again. */
#define HELD_MIN_MS 5000
#define HELD_MAX_MS 300000

struct service {
    struct store store; /* first member: cast to struct service */
    int64_t takes_ms;   /* how long a response takes */
    int64_t silent_from_ms, silent_until_ms;
    bool unsent; /* while silent: no connection can be made */
    bool head;   /* while silent: the head of a response arrives */
    int useless; /* while silent: a response with this status arrives */
    unsigned in_flight, most, responses;
};

struct one_run {
    struct service *at;
    int64_t due_ms, wait_ms;
    bool taken;
};

struct scene {
    struct request_pool *request_pool;
    struct deadline deadline;
    struct store ledger;
    struct service good, bad[SLOTS];
    struct one_run runs[BAD + GOOD];
    size_t count, left, good_left;
    int64_t lost_ms;     /* total time of the attempts after which the run was
                            held */
    bool ends_with_good; /* the model ends when all runs on the responding store
                            have ended */
    int64_t until_ms;    /* no run is started later */
    int64_t began_ms,
        good_ms; /* good_ms: when the last run on the responding store ended */
};

/* Waits for the response of a request, and checks once a second whether the
 * request must be given up. False: no response came. */
static bool wait_for_response(
    const struct service *service, struct exchange *exchange, bool silent)
{
    int64_t now_ms = platform_boot_ms();
    int64_t until_ms = now_ms + deadline_timeout_ms(exchange->deadline);

    if (!silent && now_ms + service->takes_ms < until_ms)
        until_ms = now_ms + service->takes_ms;
    else
        silent = true;
    while (now_ms < until_ms) {
        virtual_sleep(until_ms - now_ms < ASK_MS ? until_ms - now_ms : ASK_MS);
        now_ms = platform_boot_ms();
        if (now_ms < until_ms && exchange->gives_up &&
            exchange->gives_up(exchange->context, false))
            return false;
    }
    return !silent;
}

static enum tw_err get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    struct service *service = (struct service *)store;
    int64_t began_ms = platform_boot_ms();
    bool silent = began_ms >= service->silent_from_ms &&
                  began_ms < service->silent_until_ms;

    if (!silent || !service->unsent)
        exchange->sent_ms = began_ms;
    if (++service->in_flight > service->most)
        service->most = service->in_flight;
    if (silent && service->useless) {
        (void)wait_for_response(service, exchange, false);
        service->in_flight--;
        exchange->http_status = service->useless;
        return err_fail(&exchange->err, TW_BUSY, "no use");
    }
    silent = !wait_for_response(service, exchange, silent);
    service->in_flight--;
    service->responses += !silent;
    if (silent) {
        exchange->http_status = service->head ? 200 : 0;
        return err_fail(&exchange->err, service->unsent ? TW_BUSY : TW_UNKNOWN,
            "no response");
    }
    exchange->http_status = 404;
    return err_fail(&exchange->err, TW_NOT_FOUND, "no such entity");
}

static const struct store_ops OPS = {.get = get};

static void service_init(struct service *service, const char *name)
{
    *service = (struct service){.store = {.ops = &OPS,
                                    .capabilities = {.late_writes = true},
                                    .name = name},
        .takes_ms = GOOD_MS,
        .silent_from_ms = PLATFORM_NEVER,
        .silent_until_ms = PLATFORM_NEVER};
}

static enum tw_err send_get(
    struct pool_request *task, struct exchange *exchange)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_get(
        task->store, exchange, "Blogs", slice_of("a"), slice_of("b"), &page);
    page_done(&page);
    return outcome;
}

static struct one_run *take(struct scene *scene)
{
    while (scene->left > 0 && platform_boot_ms() < scene->until_ms &&
           (scene->good_left > 0 || !scene->ends_with_good)) {
        struct one_run *first = NULL;

        for (size_t i = 0; i < scene->count; i++) {
            struct one_run *run = &scene->runs[i];

            if (!run->at || run->taken || run->due_ms > platform_boot_ms())
                continue;
            if (!first || run->due_ms < first->due_ms)
                first = run;
        }
        if (first) {
            first->taken = true;
            return first;
        }
        virtual_sleep(GOOD_MS);
    }
    return NULL;
}

static void end_run(struct scene *scene, struct one_run *run)
{
    if (run->at == &scene->good && --scene->good_left == 0)
        scene->good_ms = platform_boot_ms() - scene->began_ms;
    run->at = NULL;
    scene->left--;
}

/* Holds a run until its next attempt. If the circuit breaker or the silence of
 * the store refused its request (`away`), the wait is twice as long as the last
 * one; otherwise it is the shortest wait. */
static void hold_run(
    struct scene *scene, struct one_run *run, int64_t from_ms, bool away)
{
    scene->lost_ms += platform_boot_ms() - from_ms;
    run->taken = false;
    run->wait_ms = run->wait_ms == 0 || !away ? HELD_MIN_MS : 2 * run->wait_ms;
    if (run->wait_ms > HELD_MAX_MS)
        run->wait_ms = HELD_MAX_MS;
    run->due_ms = platform_boot_ms() + run->wait_ms;
}

static void slot(void *arg)
{
    struct scene *scene = arg;
    struct one_run *run;

    while ((run = take(scene)) != NULL) {
        struct pool_client *client =
            pool_client_new(scene->request_pool, &scene->deadline);
        struct pool_request task = {.send = send_get,
            .repeatable = (run - scene->runs) % 2 == 0,
            .store = &run->at->store,
            .entities = 1};

        int64_t from_ms = platform_boot_ms();

        request_pool_watch_silence(client, &scene->ledger);
        if (request_pool_call(client, &task) == TW_NOT_FOUND)
            end_run(scene, run);
        else
            hold_run(scene, run, from_ms, task.last.breaker_open);
        if (task.outcome == TW_BUSY && task.last.http_status == 0)
            assert_int_equal(task.last.sent_ms, 0);
        if (task.outcome == TW_UNKNOWN)
            assert_int_equal(
                request_pool_is_indeterminate(client), !task.repeatable);
        pool_client_free(client);
    }
}

static void worker(void *arg)
{
    struct scene *scene = arg;
    struct platform_thread threads[SLOTS];

    for (size_t i = 0; i < SLOTS; i++)
        platform_start(&threads[i], "slot", slot, scene);
    for (size_t i = 0; i < SLOTS; i++)
        platform_join(&threads[i]);
    request_pool_free(scene->request_pool);
}

static void begin(struct scene *scene)
{
    static const char *const names[SLOTS] = {"one", "two", "three", "four"};

    virtual_platform_use(&(struct virtual_options){
        .seed = 1, .boot_ms = 5000, .wall_ticks = TICKS_1970});
    *scene = (struct scene){.began_ms = platform_boot_ms(),
        .ends_with_good = true,
        .until_ms = PLATFORM_NEVER};
    scene->request_pool = request_pool_new(16, 0);
    deadline_init(&scene->deadline, PLATFORM_NEVER, TIMEOUT_MS);
    service_init(&scene->good, "good");
    for (size_t i = 0; i < SLOTS; i++) {
        service_init(&scene->bad[i], names[i]);
        scene->bad[i].silent_from_ms = 0;
    }
}

static void add(struct scene *scene, struct service *at)
{
    scene->runs[scene->count++].at = at;
    scene->left++;
    scene->good_left += at == &scene->good;
}

/* Runs the model: the runs on `services` silent stores are in the queue before
 * the runs on the responding store. */
static int64_t play(struct scene *scene, size_t services)
{
    int process = virtual_process("worker");

    for (size_t i = 0; services > 0 && i < BAD; i++)
        add(scene, &scene->bad[i % services]);
    for (size_t i = 0; i < GOOD; i++)
        add(scene, &scene->good);
    virtual_start(process, "worker", worker, scene);
    assert_int_equal(virtual_run(), VIRTUAL_DONE);
    virtual_platform_end();
    return scene->good_ms;
}

/* Runs the model. The runs on the responding store must end as if they had one
 * slot less, and at most `late_ms` later. */
static void check_beside(struct scene *scene, size_t services, int64_t late_ms)
{
    int64_t beside_ms = play(scene, services);

    assert_in_range(
        beside_ms, 1, GOOD_MS * GOOD / (SLOTS - 1) + late_ms + 2 * GOOD_MS);
}

TEST_FIXTURE(scene, struct scene, begin, TEST_NOTHING)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(a_silent_store_occupies_one_slot)
{
    check_beside(scene, 1, SILENCE_FIRST_MS);
    assert_int_equal(scene->bad[0].most, 1);
}

SCENE_TEST(one_that_drops_connections_is_silent)
{
    scene->bad[0].unsent = true;
    check_beside(scene, 1, SILENCE_FIRST_MS);
    assert_int_equal(scene->bad[0].most, 1);
}

/* All requests to the silent stores are given up, except one. */
SCENE_TEST(four_silent_stores_occupy_one_slot)
{
    check_beside(scene, SLOTS, 2 * ASK_MS + SILENCE_FIRST_MS);
}

/* A store that responds only with "busy", errors, or a proxy's page is as
 * useless to runs as a silent one. */
TEST(one_that_serves_nothing_occupies_no_slot_for_long)
{
    static const int STATUSES[] = {503, 429, 500, 502, 200};
    struct scene scene;

    for (size_t i = 0; TEST_EACH(i, STATUSES); i++) {
        begin(&scene);
        scene.bad[0].useless = STATUSES[i];
        check_beside(&scene, 1, 2 * SILENCE_LATELY_MS);
    }
}

/* The store responded a moment ago, so it may occupy all slots for ten seconds.
 */
SCENE_TEST(one_that_becomes_silent_occupies_all_slots_for_seconds)
{
    scene->bad[0].silent_from_ms = scene->began_ms + 2 * GOOD_MS;
    check_beside(scene, 1, SILENCE_LATELY_MS + ASK_MS);
    assert_int_equal(scene->bad[0].most, SLOTS);
}

/* A silent store may cost a twentieth of the time that all slots have in an
 * hour. */
TEST(a_silent_store_costs_a_twentieth_at_most)
{
    struct scene scene;

    for (int i = 0; i < 3; i++) {
        begin(&scene);
        scene.ends_with_good = false;
        scene.until_ms = scene.began_ms + HOUR_MS;
        scene.bad[0].unsent = i == 1;
        scene.bad[0].head = i == 2;
        (void)play(&scene, 1);
        assert_in_range(scene.lost_ms, TIMEOUT_MS, SLOTS * HOUR_MS / 20);
    }
}

/* When the store responds again, each held run succeeds at its next attempt.
 * Besides the waits for these attempts there is only the pause of silence.h. */
TEST(a_store_that_responds_again_is_served)
{
    struct scene scene;
    int64_t back_ms;

    for (int64_t i = 0; i < 20; i++) {
        begin(&scene);
        scene.ends_with_good = false;
        back_ms = scene.began_ms + 50000 * i;
        scene.bad[0].silent_until_ms = back_ms;
        scene.until_ms = back_ms + 2 * TIMEOUT_MS + HELD_MAX_MS;
        (void)play(&scene, 1);
        assert_int_equal(scene.left, 0);
    }
}

/* No slot can work without the ledger, so all slots may wait for its store. */
SCENE_TEST(requests_to_the_store_of_the_ledger_are_never_refused)
{
    scene->ledger.capabilities.endpoint =
        scene->bad[0].store.capabilities.endpoint = "place";
    (void)play(scene, 1);
    assert_int_equal(scene->bad[0].most, SLOTS);
}
