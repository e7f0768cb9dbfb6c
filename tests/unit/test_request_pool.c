/* SPDX-License-Identifier: MIT */
/* Request pool: it is fair, its memory is bounded, and it is the only place
 * where requests are retried. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fast_platform.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"

#define MIB ((size_t)1024 * 1024)
#define HOUR_MS (60 * 60 * 1000)

/* State that the tasks of one test share. */
struct scene {
    struct platform_mutex mutex;
    struct platform_cond changed;
    bool gate_open; /* gated tasks wait until it is open */
    unsigned running, most_running, attempts;
    char
        order[64]; /* the names of the tasks in the order in which they began */
    pthread_t threads[64];
    struct request_pool *pool;
    struct pool_client *client;
    struct deadline deadline; /* for scene_deadline() */
};

struct job {
    struct pool_request task; /* first */
    struct scene *scene;
    char name;
    bool holds_on;
    enum tw_err answers[8]; /* one an attempt; the last for all further */
    unsigned answer_count;
    int64_t hint_ms;
    int64_t started_ms[8];
    int http_status; /* status of the responses that are not TW_OK */
    bool breaker_open;
    bool hangs;   /* no response: it ends only when it is given up */
    bool unsent;  /* no try is sent */
    bool reached; /* another request was sent to that service */
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){0};
    platform_mutex_init(&scene->mutex);
    platform_cond_init(&scene->changed);
    scene->pool = request_pool_new(4, 0);
    scene->client = pool_client_new(scene->pool, NULL);
}

/* Another pool in place of that, with so many requests at a time. */
static void scene_places(struct scene *scene, unsigned count)
{
    pool_client_free(scene->client);
    request_pool_free(scene->pool);
    scene->pool = request_pool_new(count, 0);
    scene->client = pool_client_new(scene->pool, NULL);
}

/* Another client in place of that, whose requests start before the deadline. */
static void scene_deadline(struct scene *scene)
{
    pool_client_free(scene->client);
    scene->client = pool_client_new(scene->pool, &scene->deadline);
}

static void scene_done(struct scene *scene)
{
    pool_client_free(scene->client);
    request_pool_free(scene->pool);
    platform_cond_done(&scene->changed);
    platform_mutex_done(&scene->mutex);
}

static void open_gate(struct scene *scene)
{
    platform_lock(&scene->mutex);
    scene->gate_open = true;
    platform_wake_all(&scene->changed);
    platform_unlock(&scene->mutex);
}

static void wait_for_running(struct scene *scene, unsigned count)
{
    platform_lock(&scene->mutex);
    while (scene->running < count)
        platform_wait(&scene->changed, &scene->mutex, PLATFORM_NEVER);
    platform_unlock(&scene->mutex);
}

static void wait_for_exchanges(struct scene *scene, unsigned count)
{
    platform_lock(&scene->mutex);
    while (scene->attempts < count)
        platform_wait(&scene->changed, &scene->mutex, PLATFORM_NEVER);
    platform_unlock(&scene->mutex);
}

static enum tw_err answer(const struct job *job, struct exchange *exchange)
{
    unsigned at = job->task.retry.tries - 1;
    enum tw_err code;

    if (job->answer_count == 0)
        return TW_OK;
    code = job->answers[at < job->answer_count ? at : job->answer_count - 1];
    exchange->retry_after_ms = job->hint_ms;
    if (code != TW_OK)
        exchange->http_status = job->http_status;
    exchange->breaker_open = job->breaker_open;
    return code == TW_OK ? TW_OK
                         : err_fail(&exchange->err, code, "as the test wants");
}

/* For 5 s at most. False: not given up. */
static bool hang(struct exchange *exchange)
{
    int64_t until_ms = platform_boot_ms() + 5000;
    struct timespec pause = {0, 1000000};

    while (platform_boot_ms() < until_ms) {
        if (exchange->gives_up && exchange->gives_up(exchange->context, false))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static enum tw_err send_job(
    struct pool_request *task, struct exchange *exchange)
{
    struct job *job = (struct job *)task;
    struct scene *scene = job->scene;

    exchange->sent_ms = platform_boot_ms();
    platform_lock(&scene->mutex);
    if (scene->attempts < sizeof scene->order - 1)
        scene->order[scene->attempts] = job->name;
    if (scene->attempts < 64)
        scene->threads[scene->attempts] = pthread_self();
    scene->attempts++;
    if (++scene->running > scene->most_running)
        scene->most_running = scene->running;
    if (task->retry.tries <= 8)
        job->started_ms[task->retry.tries - 1] = exchange->sent_ms;
    platform_wake_all(&scene->changed);
    while (job->holds_on && !scene->gate_open)
        platform_wait(&scene->changed, &scene->mutex, PLATFORM_NEVER);
    scene->running--;
    platform_unlock(&scene->mutex);
    if (job->unsent)
        exchange->sent_ms = 0;
    exchange->reached = job->reached;
    if (job->hangs)
        return hang(exchange) ? err_fail(&exchange->err, TW_UNKNOWN, "given up")
                              : TW_OK;
    return answer(job, exchange);
}

static struct job job_of(struct scene *scene, char name)
{
    return (struct job){
        .task = {.send = send_job},
        .scene = scene,
        .name = name,
        .hint_ms = -1,
    };
}

static struct job job_answered(
    struct scene *scene, char name, const enum tw_err *answers, unsigned count)
{
    struct job job = job_of(scene, name);

    memcpy(job.answers, answers, count * sizeof(*answers));
    job.answer_count = count;
    return job;
}

/* The answers are listed behind the name. */
#define JOB_ANSWERED(scene, name, ...)                                         \
    job_answered((scene), (name), (const enum tw_err[]){__VA_ARGS__},          \
        sizeof((const enum tw_err[]){__VA_ARGS__}) / sizeof(enum tw_err))

/* A task whose first try gets "busy" and a Retry-After of 5 s. */
static struct job job_that_is_tried_twice(struct scene *scene, char name)
{
    struct job job = job_of(scene, name);

    job.answers[0] = TW_BUSY;
    job.answers[1] = TW_OK;
    job.answer_count = 2;
    job.hint_ms = 5000;
    return job;
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(busy_is_tried_a_few_times)
{
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY);

    assert_int_equal(request_pool_call(scene->client, &job.task), TW_BUSY);
    assert_int_equal(job.task.retry.tries, RETRY_TRIES);
    assert_int_equal(request_pool_requests(scene->client), RETRY_TRIES);
    assert_string_equal(job.task.last.err.text, "as the test wants");
}

/* As after reloads: one request at a time, then three, then one again. */
SCENE_TEST(the_number_in_flight_may_change)
{
    struct job jobs[8];

    scene_places(scene, 1);
    for (int i = 0; i < 8; i++) {
        jobs[i] = job_of(scene, 'a');
        jobs[i].holds_on = i < 4;
    }
    for (int i = 0; i < 4; i++)
        request_pool_submit(scene->client, &jobs[i].task);
    wait_for_running(scene, 1);
    request_pool_set_count(scene->pool, 3);
    wait_for_running(scene, 3);
    assert_int_equal(scene->most_running, 3);
    request_pool_set_count(scene->pool, 1);
    open_gate(scene);
    for (int i = 0; i < 4; i++)
        request_pool_wait(scene->client, &jobs[i].task);
    scene->most_running = 0;
    for (int i = 4; i < 8; i++)
        request_pool_submit(scene->client, &jobs[i].task);
    for (int i = 4; i < 8; i++)
        request_pool_wait(scene->client, &jobs[i].task);
    assert_int_equal(scene->most_running, 1);
}

/* Returns how often a call that reaches no service is tried within 2 s, with
 * 0.8 s between the tries. */
static unsigned tries_of_unsent(struct scene *scene, bool reached)
{
    struct request_pool *request_pool = request_pool_new(4, 0);
    struct pool_client *client = pool_client_new(request_pool, NULL);
    struct job first = job_of(scene, 'a'), job = job_of(scene, 'b');

    request_pool_reach_until(client, platform_boot_ms() + 2000);
    first.reached = true; /* a request to another service */
    assert_ok(request_pool_call(client, &first.task));
    job.reached = reached;
    job.answers[0] = TW_BUSY;
    job.answer_count = 1;
    job.hint_ms = 800;
    job.unsent = true;
    assert_int_equal(request_pool_call(client, &job.task), TW_BUSY);
    pool_client_free(client);
    request_pool_free(request_pool);
    return job.task.retry.tries;
}

/* A person who mistyped an address does not wait for seven tries, but a store
 * that was reached once is waited for. The 2 s take 20 ms here, so on a busy
 * machine there may be no time for the third try. */
SCENE_TEST(what_was_never_reached_is_soon_given_up)
{
    unsigned tries = 0;

    assert_int_equal(tries_of_unsent(scene, true), RETRY_TRIES);
    for (int i = 0; i < 50 && tries < 3; i++)
        tries = tries_of_unsent(scene, false);
    assert_int_equal(tries, 3);
}

/* One task waits an hour for its next try, another would be retried after the
 * stop. A task that is submitted after the stop is tried once, for final
 * requests. */
SCENE_TEST(a_stop_of_the_process_ends_what_waits_for_a_try)
{
    struct job waiting, late;

    waiting = JOB_ANSWERED(scene, 'a', TW_BUSY);
    waiting.hint_ms = HOUR_MS;
    request_pool_submit(scene->client, &waiting.task);
    wait_for_exchanges(scene, 1);
    stop_ask();
    request_pool_wait(scene->client, &waiting.task);
    assert_int_equal(waiting.task.outcome, TW_STOPPED);
    assert_int_equal(waiting.task.retry.tries, 1);
    late = JOB_ANSWERED(scene, 'b', TW_BUSY);
    assert_int_equal(request_pool_call(scene->client, &late.task), TW_STOPPED);
    assert_int_equal(late.task.retry.tries, 1);
    late = job_of(scene, 'c');
    assert_ok(request_pool_call(scene->client, &late.task));
    stop_forget();
}

/* A run is to be cancelled: its task that waits an hour for the next try is
 * tried once more soon, and so is a task that is submitted then. The task of
 * another run continues to wait. */
SCENE_TEST(who_hurries_waits_for_no_try)
{
    struct pool_client *other = pool_client_new(scene->pool, NULL);
    struct job jobs[3];

    for (size_t i = 0; i < 3; i++) {
        jobs[i] = JOB_ANSWERED(scene, (char)('a' + i), TW_BUSY);
        jobs[i].http_status = 503;
        jobs[i].hint_ms = HOUR_MS;
    }
    request_pool_submit(scene->client, &jobs[0].task);
    request_pool_submit(other, &jobs[1].task);
    wait_for_exchanges(scene, 2);
    request_pool_hurry(scene->client, 20);
    request_pool_wait(scene->client, &jobs[0].task);
    assert_int_equal(jobs[0].task.outcome, TW_STOPPED);
    assert_int_equal(jobs[0].task.retry.tries, 2);
    assert_int_equal(
        request_pool_call(scene->client, &jobs[2].task), TW_STOPPED);
    assert_false(request_pool_done(other, &jobs[1].task));
    request_pool_hurry(scene->client, PLATFORM_NEVER);
    jobs[2] = JOB_ANSWERED(scene, 'd', TW_BUSY, TW_OK);
    jobs[2].hint_ms = 1;
    assert_ok(request_pool_call(scene->client, &jobs[2].task));
    pool_client_free(other);
}

/* A service that takes requests and responds to none: what is in flight is
 * given up, and what comes then is not sent. */
SCENE_TEST(who_hurries_waits_for_no_response)
{
    struct job write = job_of(scene, 'a'), read = job_of(scene, 'b'),
               late = job_of(scene, 'c');

    write.hangs = read.hangs = true;
    read.task.repeatable = true;
    request_pool_submit(scene->client, &write.task);
    request_pool_submit(scene->client, &read.task);
    wait_for_exchanges(scene, 2);
    request_pool_hurry(scene->client, 20);
    request_pool_wait(scene->client, &write.task);
    request_pool_wait(scene->client, &read.task);
    assert_int_equal(write.task.outcome, TW_UNKNOWN);
    assert_int_equal(read.task.outcome, TW_STOPPED);
    assert_int_equal(request_pool_call(scene->client, &late.task), TW_STOPPED);
    assert_int_equal(scene->attempts, 2);
    request_pool_hurry(scene->client, PLATFORM_NEVER);
    assert_ok(request_pool_call(scene->client, &late.task));
}

/* However often a run is throttled, it continues more slowly. */
SCENE_TEST(throttling_counts_as_no_failed_try)
{
    struct job job = job_of(scene, 'a');

    for (size_t i = 0; i < 7; i++)
        job.answers[i] = TW_BUSY;
    job.answers[7] = TW_OK;
    job.answer_count = 8;
    job.http_status = 503;
    assert_ok(request_pool_call(scene->client, &job.task));
    assert_int_equal(job.task.retry.tries, 8);
    assert_int_equal(request_pool_throttled(scene->client), 7);
}

SCENE_TEST(behind_an_open_circuit_breaker_nothing_is_tried_again)
{
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY);

    job.breaker_open = true;
    assert_int_equal(request_pool_call(scene->client, &job.task), TW_BUSY);
    assert_int_equal(job.task.retry.tries, 1);
}

/* Nothing was sent, so the missing response does not count for the silence of
 * the store. */
SCENE_TEST(what_the_circuit_breaker_refuses_makes_no_store_silent)
{
    int64_t now_ms;
    struct store store = {
        .name = "away", .capabilities = {.late_writes = true}};
    struct store ledger = {.name = "ledger"};
    struct job job;

    request_pool_watch_silence(scene->client, &ledger);
    job = JOB_ANSWERED(scene, 'a', TW_BUSY);
    job.breaker_open = true;
    job.unsent = true;
    job.task.store = &store;
    now_ms = platform_boot_ms();
    store.silence = (struct silence){.in_flight = 1,
        .quiet_ms = now_ms - 5000,
        .responded_ms = now_ms - 20000,
        .slowest_ms = 5000};
    assert_int_equal(request_pool_call(scene->client, &job.task), TW_BUSY);
    assert_true(store.silence.slowest_ms == 5000);
}

/* Returns how many entities the next page may request after six responses with
 * that status. */
static unsigned page_after(int http_status)
{
    struct request_pool *request_pool = request_pool_new(4, 0);
    struct pool_client *client = pool_client_new(request_pool, NULL);
    struct store store = {
        .name = "busy", .capabilities = {.late_writes = true}};
    struct scene scene;
    struct job job;

    scene_init(&scene);
    job = job_of(&scene, 'a');
    for (int i = 0; i < 6; i++)
        job.answers[i] = TW_BUSY;
    job.answers[6] = TW_OK;
    job.answer_count = 7;
    job.http_status = http_status;
    job.task.store = &store;
    assert_ok(request_pool_call(client, &job.task));
    job = job_of(&scene, 's');
    job.task.store = &store;
    job.task.scans = true;
    assert_ok(request_pool_call(client, &job.task));
    pool_client_free(client);
    request_pool_free(request_pool);
    scene_done(&scene);
    return job.task.most;
}

TEST(refusals_limit_the_rate_of_an_account)
{
    assert_in_range(page_after(409), 1, 1000);
    assert_true(page_after(503) > 1000);
    assert_true(page_after(429) > 1000);
    assert_true(page_after(500) > 1000);
}

/* A task whose next try is due in an hour ends at once. */
SCENE_TEST(an_open_circuit_breaker_ends_the_waits_of_others)
{
    struct store store = {.name = "away"};
    struct job waits, meets;

    waits = JOB_ANSWERED(scene, 'w', TW_BUSY, TW_REFUSED);
    waits.hint_ms = HOUR_MS;
    waits.task.store = &store;
    request_pool_submit(scene->client, &waits.task);
    wait_for_exchanges(scene, 1);
    meets = JOB_ANSWERED(scene, 'm', TW_BUSY);
    meets.breaker_open = true;
    meets.task.store = &store;
    while (!request_pool_done(scene->client, &waits.task))
        assert_int_equal(
            request_pool_call(scene->client, &meets.task), TW_BUSY);
    assert_int_equal(waits.task.outcome, TW_REFUSED);
    assert_int_equal(waits.task.retry.tries, 2);
}

/* Only the waits of clients whose requests would be refused too end. */
SCENE_TEST(a_silent_store_ends_the_waits_of_runs)
{
    struct pool_client *person, *run;
    struct store store = {
        .name = "away", .capabilities = {.late_writes = true}};
    struct store ledger = {.name = "ledger"};
    struct job jobs[2], meets, last;

    scene_places(scene, 1);
    person = pool_client_new(scene->pool, NULL);
    run = pool_client_new(scene->pool, NULL);
    request_pool_watch_silence(run, &ledger);
    for (int i = 0; i < 2; i++) {
        jobs[i] = JOB_ANSWERED(scene, 'w', TW_BUSY);
        jobs[i].http_status = 503;
        jobs[i].hint_ms = HOUR_MS;
        jobs[i].task.store = &store;
        request_pool_submit(i == 0 ? person : run, &jobs[i].task);
    }
    while (
        request_pool_throttled(person) == 0 || request_pool_throttled(run) == 0)
        usleep(1000);
    meets = job_of(scene, 'm');
    meets.task.store = &store;
    store.silence.refused_until_ms = PLATFORM_NEVER;
    assert_int_equal(request_pool_call(run, &meets.task), TW_BUSY);
    assert_true(request_pool_is_silent(scene->pool, &store));
    request_pool_wait(run, &jobs[1].task);
    assert_true(jobs[1].task.last.breaker_open);
    assert_int_equal(jobs[1].task.last.sent_ms, 0);
    /* Any other task that may be tried now is tried before this one. */
    last = job_of(scene, 'l');
    assert_ok(request_pool_call(person, &last.task));
    assert_int_equal(scene->attempts, 3);
    assert_false(request_pool_done(person, &jobs[0].task));
    request_pool_cancel(person, &jobs[0].task);
    pool_client_free(person);
    pool_client_free(run);
}

SCENE_TEST(busy_may_pass)
{
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY, TW_BUSY, TW_OK);

    assert_ok(request_pool_call(scene->client, &job.task));
    assert_int_equal(job.task.retry.tries, 3);
}

SCENE_TEST(unknown_is_tried_again_for_reads_alone)
{
    struct job job = JOB_ANSWERED(scene, 'a', TW_UNKNOWN, TW_OK);

    assert_int_equal(request_pool_call(scene->client, &job.task), TW_UNKNOWN);
    assert_int_equal(job.task.retry.tries, 1);
    job.task.repeatable = true;
    assert_ok(request_pool_call(scene->client, &job.task));
    assert_int_equal(job.task.retry.tries, 2);
}

SCENE_TEST(refusals_are_final)
{
    static const enum tw_err final[] = {TW_NOT_FOUND, TW_CONFLICT, TW_REFUSED,
        TW_INVALID, TW_TOO_LARGE, TW_STOPPED, TW_FULL};

    for (size_t i = 0; TEST_EACH(i, final); i++) {
        struct job job = job_of(scene, 'a');

        job.task.repeatable = true;
        job.answers[0] = final[i];
        job.answer_count = 1;
        assert_int_equal(request_pool_call(scene->client, &job.task), final[i]);
        assert_int_equal(job.task.retry.tries, 1);
    }
}

SCENE_TEST(waits_as_long_as_the_server_asks)
{
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY, TW_OK);

    job.hint_ms = 9000;
    assert_ok(request_pool_call(scene->client, &job.task));
    assert_true(job.started_ms[1] - job.started_ms[0] >= 9000);
}

SCENE_TEST(a_waiting_retry_frees_its_thread)
{
    struct job busy, other;

    scene_places(scene, 1);
    busy = job_that_is_tried_twice(scene, 'a');
    busy.holds_on = true;
    other = job_of(scene, 'b');
    request_pool_submit(scene->client, &busy.task);
    request_pool_submit(scene->client, &other.task);
    open_gate(scene);
    request_pool_wait(scene->client, &busy.task);
    assert_true(request_pool_done(scene->client, &other.task));
    assert_string_equal(scene->order, "aba");
}

/* Takes longer than the other task waits for its next try. */
static enum tw_err send_slowly(
    struct pool_request *task, struct exchange *exchange)
{
    int64_t until_ms = platform_boot_ms() + 20000;
    struct job *job = (struct job *)task;

    exchange->sent_ms = platform_boot_ms();
    platform_lock(&job->scene->mutex);
    while (platform_boot_ms() < until_ms)
        (void)platform_wait(&job->scene->changed, &job->scene->mutex, until_ms);
    platform_unlock(&job->scene->mutex);
    return TW_OK;
}

/* The caller of one task makes the only request that may be in flight. When the
 * next try of the other task is due, an idle thread must keep waiting. */
SCENE_TEST(a_try_that_is_due_waits_for_a_place)
{
    struct pool_client *first, *second;
    struct job busy, quick, slow;
    unsigned late;

    scene_places(scene, 1);
    first = pool_client_new(scene->pool, NULL);
    second = pool_client_new(scene->pool, NULL);
    busy = job_that_is_tried_twice(scene, 'a');
    slow = job_of(scene, 'b');
    slow.task.send = send_slowly;
    quick = job_of(scene, 'c');
    request_pool_submit(first, &busy.task);
    wait_for_exchanges(scene, 1);
    assert_ok(
        request_pool_call(second, &quick.task)); /* first has its turn before */
    late = fast_platform_late_waits();
    assert_ok(request_pool_call(second, &slow.task));
    assert_true(fast_platform_late_waits() - late < 100);
    request_pool_wait(first, &busy.task);
    assert_ok(busy.task.outcome);
    pool_client_free(first);
    pool_client_free(second);
}

SCENE_TEST(clients_take_turns)
{
    struct pool_client *large, *small;
    struct job many[6], few[2];

    scene_places(scene, 1);
    large = pool_client_new(scene->pool, NULL);
    small = pool_client_new(scene->pool, NULL);
    for (size_t i = 0; i < 6; i++) {
        many[i] = job_of(scene, 'L');
        many[i].holds_on = true;
        request_pool_submit(large, &many[i].task);
    }
    wait_for_running(scene, 1);
    for (size_t i = 0; i < 2; i++) {
        few[i] = job_of(scene, 's');
        request_pool_submit(small, &few[i].task);
    }
    open_gate(scene);
    for (size_t i = 0; i < 6; i++)
        request_pool_wait(large, &many[i].task);
    for (size_t i = 0; i < 2; i++)
        request_pool_wait(small, &few[i].task);
    assert_string_equal(scene->order, "LsLsLLLL");
    pool_client_free(large);
    pool_client_free(small);
}

SCENE_TEST(one_after_another_needs_one_thread)
{
    scene_places(scene, 32);
    for (size_t i = 0; i < 20; i++) {
        struct job job = job_of(scene, 'a');

        assert_ok(request_pool_call(scene->client, &job.task));
        assert_true(pthread_equal(scene->threads[0], scene->threads[i]));
    }
}

/* Submits count gated tasks of that many bytes each. Returns how many of them
 * were in flight at once. */
static unsigned most_at_once(struct request_pool *request_pool,
    struct store *store, size_t bytes, unsigned expected)
{
    struct pool_client *client = pool_client_new(request_pool, NULL);
    struct job jobs[12];
    struct scene scene;
    unsigned most;

    scene_init(&scene);
    for (size_t i = 0; i < 12; i++) {
        jobs[i] = job_of(&scene, 'a');
        jobs[i].holds_on = true;
        jobs[i].task.bytes = bytes;
        jobs[i].task.store = store;
        request_pool_submit(client, &jobs[i].task);
    }
    wait_for_running(&scene, expected);
    open_gate(&scene);
    for (size_t i = 0; i < 12; i++)
        request_pool_wait(client, &jobs[i].task);
    most = scene.most_running;
    pool_client_free(client);
    scene_done(&scene);
    return most;
}

TEST(bytes_under_way_are_bounded)
{
    struct request_pool *request_pool = request_pool_new(12, 0);

    assert_int_equal(most_at_once(request_pool, NULL, 0, 12), 12);
    assert_int_equal(most_at_once(request_pool, NULL, 5 * MIB, 3), 3);
    assert_int_equal(most_at_once(request_pool, NULL, 16 * MIB, 1), 1);
    request_pool_free(request_pool);
}

TEST(what_is_larger_than_the_budget_runs_alone)
{
    struct request_pool *request_pool = request_pool_new(12, 0);

    assert_int_equal(most_at_once(request_pool, NULL, 40 * MIB, 1), 1);
    request_pool_free(request_pool);
}

TEST(an_account_is_not_met_with_everything_at_once)
{
    struct request_pool *request_pool = request_pool_new(12, 0);
    struct store service = {.capabilities.late_writes = true}, embedded = {0};

    assert_int_equal(most_at_once(request_pool, &service, 0, 4), 4);
    assert_int_equal(most_at_once(request_pool, &embedded, 0, 12), 12);
    request_pool_free(request_pool);
}

/* After a reload the account has another struct store, perhaps at the same
 * address in memory as the old one. */
TEST(what_is_known_of_an_account_outlives_its_store)
{
    struct request_pool *request_pool = request_pool_new(12, 0);
    struct store store = {.capabilities = {.late_writes = true,
                              .identity = "https://one.example"}};
    struct store again = store;

    (void)most_at_once(request_pool, &store, 0, 4);
    assert_in_range(most_at_once(request_pool, &again, 0, 6), 6, 12);
    store.capabilities.identity = "https://two.example";
    assert_int_equal(most_at_once(request_pool, &store, 0, 4), 4);
    request_pool_free(request_pool);
}

SCENE_TEST(stopping_ends_what_waits)
{
    struct job waits, later;

    waits = JOB_ANSWERED(scene, 'a', TW_BUSY);
    waits.hint_ms = HOUR_MS;
    request_pool_submit(scene->client, &waits.task);
    wait_for_exchanges(scene, 1);
    request_pool_stop(scene->client);
    request_pool_wait(scene->client, &waits.task);
    assert_int_equal(waits.task.outcome, TW_STOPPED);
    assert_int_equal(waits.task.retry.tries, 1);
    later = job_of(scene, 'b');
    assert_int_equal(request_pool_call(scene->client, &later.task), TW_STOPPED);
    assert_int_equal(scene->attempts, 1);
}

SCENE_TEST(cancelling_takes_one_task_back)
{
    struct job waits, later;

    waits = JOB_ANSWERED(scene, 'a', TW_BUSY);
    waits.hint_ms = HOUR_MS;
    request_pool_submit(scene->client, &waits.task);
    wait_for_exchanges(scene, 1);
    request_pool_cancel(scene->client, &waits.task);
    assert_true(request_pool_done(scene->client, &waits.task));
    assert_int_equal(waits.task.outcome, TW_STOPPED);
    later = job_of(scene, 'b');
    assert_ok(request_pool_call(scene->client, &later.task));
}

SCENE_TEST(nothing_starts_after_the_deadline)
{
    struct job job;

    deadline_init(&scene->deadline, PLATFORM_NEVER, 1000);
    scene_deadline(scene);
    job = job_of(scene, 'a');
    assert_ok(request_pool_call(scene->client, &job.task));
    deadline_close(&scene->deadline);
    assert_int_equal(request_pool_call(scene->client, &job.task), TW_STOPPED);
    assert_int_equal(scene->attempts, 1);
    assert_int_equal(request_pool_requests(scene->client), 1);
}

SCENE_TEST(a_retry_behind_the_deadline_ends_with_it)
{
    struct job job;

    deadline_init(&scene->deadline, platform_boot_ms() + 3000, 1000);
    scene_deadline(scene);
    job = JOB_ANSWERED(scene, 'a', TW_BUSY);
    job.hint_ms = HOUR_MS;
    assert_int_equal(request_pool_call(scene->client, &job.task), TW_STOPPED);
    assert_int_equal(scene->attempts, 1);
    assert_true(platform_boot_ms() >= atomic_load(&scene->deadline.at_ms));
}

/* The service asks for a longer wait than until the deadline, and then the
 * lease is renewed. Once such a run was given up and begun again. */
SCENE_TEST(a_retry_waits_behind_a_deadline_that_is_moved)
{
    struct job job;
    int64_t begun_ms = platform_boot_ms();

    deadline_init(&scene->deadline, begun_ms + 40000, 1000);
    scene_deadline(scene);
    job = JOB_ANSWERED(scene, 'a', TW_BUSY, TW_OK);
    job.hint_ms = 60000;
    request_pool_submit(scene->client, &job.task);
    wait_for_exchanges(scene, 1);
    deadline_move(&scene->deadline, PLATFORM_NEVER);
    request_pool_wait(scene->client, &job.task);
    assert_ok(job.task.outcome);
    assert_int_equal(scene->attempts, 2);
    assert_true(platform_boot_ms() - begun_ms >= 60000);
}

static void renew_late(void *arg)
{
    struct deadline *deadline = arg;
    int64_t at_ms = platform_boot_ms() + 300;
    struct platform_mutex mutex;
    struct platform_cond cond;

    platform_mutex_init(&mutex);
    platform_cond_init(&cond);
    platform_lock(&mutex);
    while (platform_wait(&cond, &mutex, at_ms))
        continue;
    platform_unlock(&mutex);
    platform_cond_done(&cond);
    platform_mutex_done(&mutex);
    deadline_move(deadline, at_ms + HOUR_MS);
}

static enum tw_err call_before_a_renewal(void)
{
    struct request_pool *request_pool = request_pool_new(2, 0);
    struct platform_thread keeper;
    struct pool_client *client;
    struct deadline deadline;
    struct scene scene;
    enum tw_err code;
    struct job job;

    deadline_init(
        &deadline, platform_boot_ms() + HOUR_MS, DEADLINE_REQUEST_MAX_MS);
    deadline_move(&deadline, platform_boot_ms() + DEADLINE_REQUEST_MAX_MS - 1);
    client = pool_client_new(request_pool, &deadline);
    scene_init(&scene);
    job = job_of(&scene, 'a');
    platform_start(&keeper, "keeper", renew_late, &deadline);
    code = request_pool_call(client, &job.task);
    if (code == TW_OK)
        assert_int_equal(job.task.retry.tries, 1);
    platform_join(&keeper);
    pool_client_free(client);
    request_pool_free(request_pool);
    scene_done(&scene);
    return code;
}

/* A slow renewal leaves less time than a request may take. The run must not end
 * for that as long as its lease is valid. If the machine of this test was
 * paused for longer than the lease, which takes 0.35 s here, the test is
 * repeated. */
TEST(waits_for_a_renewal_while_the_lease_stands)
{
    enum tw_err code = TW_STOPPED;

    for (int i = 0; i < 10 && code == TW_STOPPED; i++)
        code = call_before_a_renewal();
    assert_ok(code);
}

SCENE_TEST(nothing_starts_once_the_deadline_is_over)
{
    struct job job;

    deadline_init(
        &scene->deadline, platform_boot_ms() + 200, DEADLINE_REQUEST_MIN_MS);
    scene_deadline(scene);
    job = job_of(scene, 'a');
    assert_int_equal(request_pool_call(scene->client, &job.task), TW_STOPPED);
    assert_int_equal(request_pool_requests(scene->client), 0);
}

SCENE_TEST(a_task_may_be_put_off)
{
    int64_t at_ms;
    struct job job = job_of(scene, 'a');

    at_ms = job.task.from_ms = platform_boot_ms() + 5000;
    request_pool_submit(scene->client, &job.task);
    request_pool_wait(scene->client, &job.task);
    assert_true(job.started_ms[0] >= at_ms);
}

SCENE_TEST(waiting_for_any_misses_none)
{
    struct job jobs[30];
    uint64_t seen = 0;

    for (size_t i = 0; i < 30; i++) {
        jobs[i] = job_of(scene, 'a');
        request_pool_submit(scene->client, &jobs[i].task);
    }
    while (seen < 30) {
        uint64_t now = request_pool_wait_any(scene->client, seen);

        assert_true(now > seen);
        seen = now;
    }
    for (size_t i = 0; i < 30; i++)
        assert_true(request_pool_done(scene->client, &jobs[i].task));
    assert_int_equal(request_pool_wait_any(scene->client, seen), 30);
}

static void spend(struct pool_client *client, unsigned count)
{
    while (!request_pool_spend(client, count))
        continue;
}

TEST(the_ceiling_holds_entities_back)
{
    struct request_pool *request_pool = request_pool_new(4, 100);
    struct pool_client *client = pool_client_new(request_pool, NULL);
    int64_t from_ms = platform_boot_ms();

    for (int i = 0; i < 5; i++)
        spend(client, 100);
    assert_true(platform_boot_ms() - from_ms >= 4000);
    request_pool_stop(client);
    spend(client, 1000000);
    spend(client, 1000000);
    pool_client_free(client);
    request_pool_free(request_pool);
}

/* The runs of a job share one ceiling, which a reload changes while they are in
 * progress. */
TEST(a_jobs_runs_share_its_ceiling)
{
    struct request_pool *request_pool = request_pool_new(4, 0);
    struct pool_client *one = pool_client_new(request_pool, NULL);
    struct pool_client *two = pool_client_new(request_pool, NULL);
    struct pool_client *other = pool_client_new(request_pool, NULL);
    int64_t from_ms = platform_boot_ms();

    pool_client_of(one, "purge", 100);
    pool_client_of(two, "purge", 100);
    pool_client_of(other, "index", 0);
    for (int i = 0; i < 3; i++) {
        spend(one, 100);
        spend(two, 100);
    }
    assert_true(platform_boot_ms() - from_ms >= 5000);
    spend(other, 1000000);
    assert_true(request_pool_spend(other, 1000000));
    assert_false(request_pool_spend(one, 1));
    request_pool_set_ceiling(request_pool, "purge", 0);
    assert_true(request_pool_spend(one, 1000000));
    assert_true(request_pool_spend(two, 1000000));
    request_pool_set_ceiling(request_pool, NULL, 100);
    assert_true(request_pool_spend(one, 1000));
    assert_false(request_pool_spend(other, 1));
    pool_client_free(one);
    pool_client_free(two);
    pool_client_free(other);
    request_pool_free(request_pool);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
