/* SPDX-License-Identifier: MIT */
/* Request pool: it is fair, its memory is bounded, and it is the only place
 * where requests are retried. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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
    bool gate_open; /* tasks with holds_on wait until it is open */
    unsigned running, most_running, attempts;
    char
        order[64]; /* the names of the tasks in the order in which they began */
    pthread_t threads[64];
    struct request_pool *pool;
    struct pool_client *client;
    struct pool_client *others[3]; /* see another() */
    struct deadline deadline;      /* for scene_deadline() */
};

struct job {
    struct pool_request task; /* first member: cast to struct job */
    struct scene *scene;
    char name;
    bool holds_on;
    enum tw_err answers[8]; /* one for each try; all further tries get the last
                               one */
    unsigned answer_count;
    int64_t hint_ms;
    int64_t started_ms[8];
    int http_status; /* status of the responses that are not TW_OK */
    bool breaker_open;
    bool hangs;   /* no response: the request ends when it is given up */
    bool unsent;  /* the tries are not sent */
    bool reached; /* the service was reached by another request */
};

static void begin_pool(struct scene *scene, unsigned count, int64_t rate)
{
    scene->pool = request_pool_new(count, rate);
    scene->client = pool_client_new(scene->pool, NULL);
}

static void end_pool(struct scene *scene)
{
    for (size_t i = 0; i < 3; i++)
        if (scene->others[i])
            pool_client_free(scene->others[i]);
    memset(scene->others, 0, sizeof(scene->others));
    pool_client_free(scene->client);
    request_pool_free(scene->pool);
}

static void scene_init(struct scene *scene)
{
    platform_mutex_init(&scene->mutex);
    platform_cond_init(&scene->changed);
    begin_pool(scene, 4, 0);
}

/* Replaces the pool by one that makes `count` requests at a time. */
static void scene_places(struct scene *scene, unsigned count)
{
    end_pool(scene);
    begin_pool(scene, count, 0);
}

/* Replaces the client by one whose requests must start at least `request_ms`
 * before the deadline `at_ms`. */
static void scene_deadline(
    struct scene *scene, int64_t at_ms, int64_t request_ms)
{
    deadline_init(&scene->deadline, at_ms, request_ms);
    pool_client_free(scene->client);
    scene->client = pool_client_new(scene->pool, &scene->deadline);
}

/* Returns a further client of the pool. */
static struct pool_client *another(struct scene *scene)
{
    size_t at = 0;

    while (scene->others[at])
        at++;
    return scene->others[at] = pool_client_new(scene->pool, NULL);
}

static void scene_done(struct scene *scene)
{
    end_pool(scene);
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

/* Waits until `*what`, a counter of the scene, is at least `count`. */
static void wait_for(struct scene *scene, const unsigned *what, unsigned count)
{
    platform_lock(&scene->mutex);
    while (*what < count)
        platform_wait(&scene->changed, &scene->mutex, PLATFORM_NEVER);
    platform_unlock(&scene->mutex);
}

static void sleep_until(int64_t at_ms)
{
    while (platform_boot_ms() < at_ms)
        (void)usleep(1000);
}

static enum tw_err answer(const struct job *job, struct exchange *exchange)
{
    unsigned at = job->task.retry.tries - 1;
    enum tw_err outcome;

    if (job->answer_count == 0)
        return TW_OK;
    outcome = job->answers[at < job->answer_count ? at : job->answer_count - 1];
    exchange->retry_after_ms = job->hint_ms;
    if (outcome != TW_OK)
        exchange->http_status = job->http_status;
    exchange->breaker_open = job->breaker_open;
    return outcome == TW_OK
               ? TW_OK
               : err_fail(&exchange->err, outcome, "as the test wants");
}

/* Waits until the request is given up, for 5 s at most. False: the request was
 * not given up. */
static bool hang(struct exchange *exchange)
{
    int64_t until_ms = platform_boot_ms() + 5000;

    while (platform_boot_ms() < until_ms) {
        if (exchange->gives_up && exchange->gives_up(exchange->context, false))
            return true;
        (void)usleep(1000);
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

/* JOB_ANSWERED: the arguments after the name are the answers. */
#define JOB_ANSWERED(scene, name, ...)                                         \
    job_answered((scene), (name), (const enum tw_err[]){__VA_ARGS__},          \
        sizeof((const enum tw_err[]){__VA_ARGS__}) / sizeof(enum tw_err))

/* Returns a task whose first try gets "busy" and a Retry-After of 5 s. */
static struct job job_that_is_tried_twice(struct scene *scene, char name)
{
    struct job job = JOB_ANSWERED(scene, name, TW_BUSY, TW_OK);

    job.hint_ms = 5000;
    return job;
}

/* Returns a task of which every try gets "busy" and a Retry-After of an
 * hour. */
static struct job job_that_waits(struct scene *scene, char name)
{
    struct job job = JOB_ANSWERED(scene, name, TW_BUSY);

    job.hint_ms = HOUR_MS;
    return job;
}

static void submit(struct pool_client *client, struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        request_pool_submit(client, &jobs[i].task);
}

static void wait_for_end(
    struct pool_client *client, struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        request_pool_wait(client, &jobs[i].task);
}

/* Submits the task, and waits until it was tried once. */
static void submit_and_try(struct scene *scene, struct job *job)
{
    unsigned attempts = scene->attempts;

    submit(scene->client, job, 1);
    wait_for(scene, &scene->attempts, attempts + 1);
}

static enum tw_err call(struct scene *scene, struct job *job)
{
    return request_pool_call(scene->client, &job->task);
}

static void expect_end(
    const struct job *job, enum tw_err outcome, unsigned tries)
{
    assert_int_equal(job->task.outcome, outcome);
    assert_int_equal(job->task.retry.tries, tries);
}

/* Makes the call, which must end with `outcome` after `tries` tries. */
static void expect_call(
    struct scene *scene, struct job *job, enum tw_err outcome, unsigned tries)
{
    assert_int_equal(call(scene, job), outcome);
    assert_int_equal(job->task.retry.tries, tries);
}

TEST_FIXTURE(scene, struct scene, scene_init, scene_done)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

SCENE_TEST(a_call_is_tried_so_often)
{
    static const struct {
        const char *name;
        enum tw_err answers[8];
        unsigned count;
        enum tw_err outcome;
        unsigned tries;
        int http_status;
        bool breaker_open, read;
    } cases[] = {
        {"busy: a few times", {TW_BUSY}, 1, .outcome = TW_BUSY,
            .tries = RETRY_TRIES},
        {"busy may pass", {TW_BUSY, TW_BUSY, TW_OK}, 3, .outcome = TW_OK,
            .tries = 3},
        /* Throttling makes a run slower, but never ends a call. */
        {"throttled: no failed try",
            {TW_BUSY, TW_BUSY, TW_BUSY, TW_BUSY, TW_BUSY, TW_BUSY, TW_BUSY,
                TW_OK},
            8, TW_OK, 8, .http_status = 503},
        {"behind an open circuit breaker: once", {TW_BUSY}, 1, TW_BUSY, 1,
            .breaker_open = true},
        {"an unknown write: once", {TW_UNKNOWN, TW_OK}, 2,
            .outcome = TW_UNKNOWN, .tries = 1},
        {"an unknown read: again", {TW_UNKNOWN, TW_OK}, 2, TW_OK, 2,
            .read = true},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct job job =
            job_answered(scene, 'a', cases[i].answers, cases[i].count);

        test_case("%s", cases[i].name);
        scene_places(scene, 4);
        job.http_status = cases[i].http_status;
        job.breaker_open = cases[i].breaker_open;
        job.task.repeatable = cases[i].read;
        expect_call(scene, &job, cases[i].outcome, cases[i].tries);
        assert_int_equal(request_pool_requests(scene->client), cases[i].tries);
        assert_int_equal(request_pool_throttled(scene->client),
            cases[i].http_status == 503 ? 7 : 0);
        assert_string_equal(job.task.last.err.text,
            cases[i].outcome == TW_OK ? "" : "as the test wants");
    }
}

SCENE_TEST(refusals_are_final)
{
    static const enum tw_err final[] = {TW_NOT_FOUND, TW_CONFLICT, TW_REFUSED,
        TW_INVALID, TW_TOO_LARGE, TW_STOPPED, TW_FULL};

    for (size_t i = 0; TEST_EACH(i, final); i++) {
        struct job job = JOB_ANSWERED(scene, 'a', final[i]);

        job.task.repeatable = true;
        expect_call(scene, &job, final[i], 1);
    }
}

/* At first one request may be in flight, then three, then one again, as after
 * two reloads of the configuration. */
SCENE_TEST(the_number_in_flight_may_change)
{
    struct job jobs[8];

    scene_places(scene, 1);
    for (int i = 0; i < 8; i++) {
        jobs[i] = job_of(scene, 'a');
        jobs[i].holds_on = i < 4;
    }
    submit(scene->client, jobs, 4);
    wait_for(scene, &scene->running, 1);
    request_pool_set_count(scene->pool, 3);
    wait_for(scene, &scene->running, 3);
    assert_int_equal(scene->most_running, 3);
    request_pool_set_count(scene->pool, 1);
    open_gate(scene);
    wait_for_end(scene->client, jobs, 4);
    scene->most_running = 0;
    submit(scene->client, jobs + 4, 4);
    wait_for_end(scene->client, jobs + 4, 4);
    assert_int_equal(scene->most_running, 1);
}

/* Makes a call whose tries are never sent, with 0.8 s between them. Returns the
 * number of tries. The client gives up a service that it has not reached within
 * 2 s. reached: another request has reached the service. */
static unsigned tries_of_unsent(struct scene *scene, bool reached)
{
    struct job first = job_of(scene, 'a');
    struct job job = JOB_ANSWERED(scene, 'b', TW_BUSY);

    scene_places(scene, 4);
    request_pool_reach_until(scene->client, platform_boot_ms() + 2000);
    first.reached = true; /* a request to another service */
    assert_ok(call(scene, &first));
    job.reached = reached;
    job.hint_ms = 800;
    job.unsent = true;
    assert_int_equal(call(scene, &job), TW_BUSY);
    return job.task.retry.tries;
}

/* A service that was never reached is given up early, here after 2 s, because
 * its address may be mistyped. A service that was reached once gets all tries.
 * The clocks of these tests are fast: 2 s take 20 ms. So on a busy machine
 * there may be no time for the third try, and the test repeats the call. */
SCENE_TEST(what_was_never_reached_is_soon_given_up)
{
    unsigned tries = 0;

    assert_int_equal(tries_of_unsent(scene, true), RETRY_TRIES);
    for (int i = 0; i < 50 && tries < 3; i++)
        tries = tries_of_unsent(scene, false);
    assert_int_equal(tries, 3);
}

/* The process is stopped while a task waits an hour for its next try: the task
 * ends. A task that is submitted after the stop is tried once, because a
 * process makes final requests, but it is not retried. */
SCENE_TEST(a_stop_of_the_process_ends_what_waits_for_a_try)
{
    struct job waiting = job_that_waits(scene, 'a');
    struct job late = JOB_ANSWERED(scene, 'b', TW_BUSY);
    struct job last = job_of(scene, 'c');

    submit_and_try(scene, &waiting);
    stop_ask();
    request_pool_wait(scene->client, &waiting.task);
    expect_end(&waiting, TW_STOPPED, 1);
    expect_call(scene, &late, TW_STOPPED, 1);
    assert_ok(call(scene, &last));
    stop_forget();
}

/* The client of a run that is to be cancelled hurries. Its task that waits an
 * hour for the next try is tried once more soon, and then ends. A task that it
 * submits later also ends without such a wait. The task of another client
 * continues to wait. */
SCENE_TEST(who_hurries_waits_for_no_try)
{
    struct pool_client *other = another(scene);
    struct job late = JOB_ANSWERED(scene, 'd', TW_BUSY, TW_OK);
    struct job jobs[3];

    for (size_t i = 0; i < 3; i++) {
        jobs[i] = job_that_waits(scene, (char)('a' + i));
        jobs[i].http_status = 503;
    }
    submit(scene->client, &jobs[0], 1);
    submit(other, &jobs[1], 1);
    wait_for(scene, &scene->attempts, 2);
    request_pool_hurry(scene->client, 20);
    request_pool_wait(scene->client, &jobs[0].task);
    expect_end(&jobs[0], TW_STOPPED, 2);
    assert_int_equal(call(scene, &jobs[2]), TW_STOPPED);
    assert_false(request_pool_done(other, &jobs[1].task));
    request_pool_hurry(scene->client, PLATFORM_NEVER);
    late.hint_ms = 1;
    assert_ok(call(scene, &late));
    request_pool_cancel(other, &jobs[1].task);
}

/* The service accepts requests, but does not respond. Requests in flight are
 * given up, and later requests are not sent. */
SCENE_TEST(who_hurries_waits_for_no_response)
{
    struct job write = job_of(scene, 'a'), read = job_of(scene, 'b'),
               late = job_of(scene, 'c');

    write.hangs = read.hangs = true;
    read.task.repeatable = true;
    submit(scene->client, &write, 1);
    submit(scene->client, &read, 1);
    wait_for(scene, &scene->attempts, 2);
    request_pool_hurry(scene->client, 20);
    request_pool_wait(scene->client, &write.task);
    request_pool_wait(scene->client, &read.task);
    assert_int_equal(write.task.outcome, TW_UNKNOWN);
    assert_int_equal(read.task.outcome, TW_STOPPED);
    assert_int_equal(call(scene, &late), TW_STOPPED);
    assert_int_equal(scene->attempts, 2);
    request_pool_hurry(scene->client, PLATFORM_NEVER);
    assert_ok(call(scene, &late));
}

/* The circuit breaker refused the request, so that nothing was sent. The
 * missing response is no silence of the store. */
SCENE_TEST(what_the_circuit_breaker_refuses_makes_no_store_silent)
{
    int64_t now_ms = platform_boot_ms();
    struct store store = {.name = "away",
        .capabilities = {.late_writes = true},
        .silence = {.in_flight = 1,
            .quiet_ms = now_ms - 5000,
            .responded_ms = now_ms - 20000,
            .slowest_ms = 5000}};
    struct store ledger = {.name = "ledger"};
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY);

    request_pool_watch_silence(scene->client, &ledger);
    job.breaker_open = true;
    job.unsent = true;
    job.task.store = &store;
    assert_int_equal(call(scene, &job), TW_BUSY);
    assert_int_equal(store.silence.slowest_ms, 5000);
}

/* Returns how many entities the next page may request after six responses with
 * `http_status`. */
static unsigned page_after(struct scene *scene, int http_status)
{
    struct store store = {
        .name = "busy", .capabilities = {.late_writes = true}};
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY, TW_BUSY, TW_BUSY,
        TW_BUSY, TW_BUSY, TW_BUSY, TW_OK);
    struct job page = job_of(scene, 's');

    scene_places(scene, 4);
    job.http_status = http_status;
    job.task.store = page.task.store = &store;
    assert_ok(call(scene, &job));
    page.task.scans = true;
    assert_ok(call(scene, &page));
    return page.task.most;
}

SCENE_TEST(refusals_limit_the_rate_of_an_account)
{
    assert_in_range(page_after(scene, 409), 1, 1000);
    assert_true(page_after(scene, 503) > 1000);
    assert_true(page_after(scene, 429) > 1000);
    assert_true(page_after(scene, 500) > 1000);
}

/* The next try of task `waits` is due in an hour. When task `meets` reports an
 * open circuit breaker, `waits` is tried at once. */
SCENE_TEST(an_open_circuit_breaker_ends_the_waits_of_others)
{
    struct store store = {.name = "away"};
    struct job waits = JOB_ANSWERED(scene, 'w', TW_BUSY, TW_REFUSED);
    struct job meets = JOB_ANSWERED(scene, 'm', TW_BUSY);

    waits.hint_ms = HOUR_MS;
    waits.task.store = meets.task.store = &store;
    submit_and_try(scene, &waits);
    meets.breaker_open = true;
    while (!request_pool_done(scene->client, &waits.task))
        assert_int_equal(call(scene, &meets), TW_BUSY);
    expect_end(&waits, TW_REFUSED, 2);
}

/* Two clients have a task that waits for its next try. Only the client `run`
 * watches for silence. So only its requests to the silent store are refused,
 * and only its task ends. */
SCENE_TEST(a_silent_store_ends_the_waits_of_runs)
{
    struct store store = {
        .name = "away", .capabilities = {.late_writes = true}};
    struct store ledger = {.name = "ledger"};
    struct job jobs[2], meets = job_of(scene, 'm'), last = job_of(scene, 'l');
    struct pool_client *run;

    scene_places(scene, 1);
    run = another(scene);
    request_pool_watch_silence(run, &ledger);
    for (int i = 0; i < 2; i++) {
        jobs[i] = job_that_waits(scene, 'w');
        jobs[i].http_status = 503;
        jobs[i].task.store = &store;
        submit(i == 0 ? scene->client : run, &jobs[i], 1);
    }
    while (request_pool_throttled(scene->client) == 0 ||
           request_pool_throttled(run) == 0)
        usleep(1000);
    meets.task.store = &store;
    store.silence.refused_until_ms = PLATFORM_NEVER;
    assert_int_equal(request_pool_call(run, &meets.task), TW_BUSY);
    assert_true(request_pool_is_silent(scene->pool, &store));
    request_pool_wait(run, &jobs[1].task);
    assert_true(jobs[1].task.last.breaker_open);
    assert_int_equal(jobs[1].task.last.sent_ms, 0);
    /* If jobs[0] could be tried now, it would be tried before this task. */
    assert_ok(call(scene, &last));
    assert_int_equal(scene->attempts, 3);
    assert_false(request_pool_done(scene->client, &jobs[0].task));
    request_pool_cancel(scene->client, &jobs[0].task);
}

/* Sends a request that takes 20 s, longer than the other task waits for its
 * next try. */
static enum tw_err send_slowly(
    struct pool_request *task, struct exchange *exchange)
{
    exchange->sent_ms = platform_boot_ms();
    sleep_until(exchange->sent_ms + 20000);
    return TW_OK;
}

/* The pool makes one request at a time, and the caller of task `slow` makes it.
 * When the next try of task `busy` is due, an idle thread must sleep until the
 * request has ended. */
SCENE_TEST(a_try_that_is_due_waits_for_a_place)
{
    struct job busy = job_that_is_tried_twice(scene, 'a'),
               slow = job_of(scene, 'b'), quick = job_of(scene, 'c');
    struct pool_client *second;
    unsigned late;

    scene_places(scene, 1);
    second = another(scene);
    slow.task.send = send_slowly;
    submit_and_try(scene, &busy);
    /* when this call returns, the first try of `busy` has ended */
    assert_ok(request_pool_call(second, &quick.task));
    late = fast_platform_late_waits();
    assert_ok(request_pool_call(second, &slow.task));
    assert_true(fast_platform_late_waits() - late < 100);
    request_pool_wait(scene->client, &busy.task);
    assert_ok(busy.task.outcome);
}

SCENE_TEST(clients_take_turns)
{
    struct pool_client *small;
    struct job many[6], few[2];

    scene_places(scene, 1);
    small = another(scene);
    for (size_t i = 0; i < 6; i++) {
        many[i] = job_of(scene, 'L');
        many[i].holds_on = true;
    }
    few[0] = few[1] = job_of(scene, 's');
    submit(scene->client, many, 6);
    wait_for(scene, &scene->running, 1);
    submit(small, few, 2);
    open_gate(scene);
    wait_for_end(scene->client, many, 6);
    wait_for_end(small, few, 2);
    assert_string_equal(scene->order, "LsLsLLLL");
}

SCENE_TEST(one_after_another_needs_one_thread)
{
    scene_places(scene, 32);
    for (size_t i = 0; i < 20; i++) {
        struct job job = job_of(scene, 'a');

        assert_ok(call(scene, &job));
        assert_true(pthread_equal(scene->threads[0], scene->threads[i]));
    }
}

/* Submits 12 tasks of `bytes` bytes each, which wait at the gate. Opens the
 * gate once `expected` tasks are in flight. Returns how many tasks were in
 * flight at once. */
static unsigned most_at_once(
    struct scene *scene, struct store *store, size_t bytes, unsigned expected)
{
    struct job jobs[12];

    scene->gate_open = false;
    scene->most_running = 0;
    for (size_t i = 0; i < 12; i++) {
        jobs[i] = job_of(scene, 'a');
        jobs[i].holds_on = true;
        jobs[i].task.bytes = bytes;
        jobs[i].task.store = store;
    }
    submit(scene->client, jobs, 12);
    wait_for(scene, &scene->running, expected);
    open_gate(scene);
    wait_for_end(scene->client, jobs, 12);
    return scene->most_running;
}

SCENE_TEST(what_is_in_flight_is_bounded)
{
    static struct store service = {.capabilities.late_writes = true}, embedded;
    static const struct {
        const char *name;
        struct store *store;
        size_t bytes;
        unsigned most;
    } cases[] = {
        {"as many as the pool has places", NULL, 0, 12},
        {"some MiB each", NULL, 5 * MIB, 3},
        {"as much as all may have together", NULL, 16 * MIB, 1},
        {"more than that runs alone", NULL, 40 * MIB, 1},
        {"an account is not met with everything at once", &service, 0, 4},
        {"an embedded store is", &embedded, 0, 12},
    };

    scene_places(scene, 12);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        assert_int_equal(
            most_at_once(scene, cases[i].store, cases[i].bytes, cases[i].most),
            cases[i].most);
    }
}

SCENE_TEST(stopping_ends_what_waits)
{
    struct job waits = job_that_waits(scene, 'a'), later = job_of(scene, 'b');

    submit_and_try(scene, &waits);
    request_pool_stop(scene->client);
    request_pool_wait(scene->client, &waits.task);
    expect_end(&waits, TW_STOPPED, 1);
    assert_int_equal(call(scene, &later), TW_STOPPED);
    assert_int_equal(scene->attempts, 1);
}

SCENE_TEST(cancelling_takes_one_task_back)
{
    struct job waits = job_that_waits(scene, 'a'), later = job_of(scene, 'b');

    submit_and_try(scene, &waits);
    request_pool_cancel(scene->client, &waits.task);
    assert_true(request_pool_done(scene->client, &waits.task));
    assert_int_equal(waits.task.outcome, TW_STOPPED);
    assert_ok(call(scene, &later));
}

/* ---- deadlines ---- */

SCENE_TEST(nothing_starts_once_the_deadline_is_over)
{
    struct job job = job_of(scene, 'a');

    scene_deadline(scene, platform_boot_ms() + 200, DEADLINE_REQUEST_MIN_MS);
    assert_int_equal(call(scene, &job), TW_STOPPED);
    assert_int_equal(request_pool_requests(scene->client), 0);
    deadline_move(&scene->deadline, PLATFORM_NEVER);
    assert_ok(call(scene, &job));
    deadline_close(&scene->deadline);
    assert_int_equal(call(scene, &job), TW_STOPPED);
    assert_int_equal(scene->attempts, 1);
    assert_int_equal(request_pool_requests(scene->client), 1);
}

SCENE_TEST(a_retry_behind_the_deadline_ends_with_it)
{
    struct job job = job_that_waits(scene, 'a');

    scene_deadline(scene, platform_boot_ms() + 3000, 1000);
    assert_int_equal(call(scene, &job), TW_STOPPED);
    assert_int_equal(scene->attempts, 1);
    assert_true(platform_boot_ms() >= atomic_load(&scene->deadline.at_ms));
}

/* The service asks for a wait that ends after the deadline, and then the lease
 * is renewed: the task must wait, and not be given up. */
SCENE_TEST(a_retry_waits_behind_a_deadline_that_is_moved)
{
    struct job job = JOB_ANSWERED(scene, 'a', TW_BUSY, TW_OK);
    int64_t begun_ms = platform_boot_ms();

    scene_deadline(scene, begun_ms + 40000, 1000);
    job.hint_ms = 60000;
    submit_and_try(scene, &job);
    deadline_move(&scene->deadline, PLATFORM_NEVER);
    request_pool_wait(scene->client, &job.task);
    expect_end(&job, TW_OK, 2);
    assert_true(platform_boot_ms() - begun_ms >= 60000);
}

static void renew_late(void *arg)
{
    int64_t at_ms = platform_boot_ms() + 300;

    sleep_until(at_ms);
    deadline_move(arg, at_ms + HOUR_MS);
}

static enum tw_err call_before_a_renewal(struct scene *scene)
{
    struct job job = job_of(scene, 'a');
    struct platform_thread keeper;
    enum tw_err outcome;

    scene_deadline(
        scene, platform_boot_ms() + HOUR_MS, DEADLINE_REQUEST_MAX_MS);
    deadline_move(
        &scene->deadline, platform_boot_ms() + DEADLINE_REQUEST_MAX_MS - 1);
    platform_start(&keeper, "keeper", renew_late, &scene->deadline);
    outcome = call(scene, &job);
    if (outcome == TW_OK)
        assert_int_equal(job.task.retry.tries, 1);
    platform_join(&keeper);
    return outcome;
}

/* A slow renewal leaves less time than a request may take. While the lease is
 * valid, the call must wait for the renewal and not end. The lease lasts 0.35 s
 * here; if the machine pauses this test for longer, the test is repeated. */
SCENE_TEST(waits_for_a_renewal_while_the_lease_stands)
{
    enum tw_err outcome = TW_STOPPED;

    for (int i = 0; i < 10 && outcome == TW_STOPPED; i++)
        outcome = call_before_a_renewal(scene);
    assert_ok(outcome);
}

/* ---- waiting ---- */

SCENE_TEST(a_task_may_be_put_off)
{
    struct job job = job_of(scene, 'a');
    int64_t at_ms = platform_boot_ms() + 5000;

    job.task.from_ms = at_ms;
    submit(scene->client, &job, 1);
    request_pool_wait(scene->client, &job.task);
    assert_true(job.started_ms[0] >= at_ms);
    /* No task is left, so there is nothing to wait for. */
    assert_int_equal(request_pool_wait_any(scene->client, 1), 1);
}

/* ---- ceilings ---- */

static void spend(struct pool_client *client, unsigned count)
{
    while (!request_pool_spend(client, count))
        continue;
}

SCENE_TEST(the_ceiling_holds_entities_back)
{
    int64_t from_ms = platform_boot_ms();

    end_pool(scene);
    begin_pool(scene, 4, 100);
    for (int i = 0; i < 5; i++)
        spend(scene->client, 100);
    assert_true(platform_boot_ms() - from_ms >= 4000);
    request_pool_stop(scene->client);
    spend(scene->client, 1000000);
    spend(scene->client, 1000000);
}

/* The runs of a job share one ceiling, which a reload changes while they are in
 * progress. */
SCENE_TEST(a_jobs_runs_share_its_ceiling)
{
    struct pool_client *one = another(scene), *two = another(scene),
                       *other = another(scene);
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
    request_pool_set_ceiling(scene->pool, "purge", 0);
    assert_true(request_pool_spend(one, 1000000));
    assert_true(request_pool_spend(two, 1000000));
    request_pool_set_ceiling(scene->pool, NULL, 100);
    assert_true(request_pool_spend(one, 1000));
    assert_false(request_pool_spend(other, 1));
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
