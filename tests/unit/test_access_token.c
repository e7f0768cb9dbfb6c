/* SPDX-License-Identifier: MIT */
/*
 * When an access token is requested, renewed and replaced: callers and a token
 * server on a virtual clock. The threads on that clock assert nothing.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/access_token.h"
#include "worker/store/deadline.h"

#define S INT64_C(1000)
#define HOUR (3600 * S)
#define BEGIN_MS (5 * S)
#define CALLERS 8
#define ASKED_MAX 4096
/* In some tests a request to the server takes at least this long. Without a
 * request, a call takes a few milliseconds at most. */
#define SHORTEST_MS 100

/* A token server, and the requests that it has received. Times count from
 * BEGIN_MS. */
struct server {
    int64_t lifetime_ms;
    int64_t fixed_until_ms; /* all tokens expire at this time; 0: each token is
                               valid for lifetime_ms */
    int64_t takes_ms;
    int64_t down_ms, up_ms; /* between these times it responds with `down` */
    enum tw_err down;       /* 0: TW_BUSY */
    int64_t retry_ms; /* Retry-After of the responses with `down`, in ms; 0:
                         none */
    unsigned asked, at_once, most_at_once;
    int64_t asked_ms[ASKED_MAX];
};

static int64_t now_ms(void)
{
    return platform_boot_ms() - BEGIN_MS;
}

static bool is_down(const struct server *server)
{
    return now_ms() >= server->down_ms && now_ms() < server->up_ms;
}

static enum tw_err serve(void *context, const _Atomic bool *closing,
    struct identity_answer *ret, int64_t *ret_sent_ms, int64_t *ret_retry_ms,
    struct err *err)
{
    struct server *server = context;
    char text[40];

    *ret_sent_ms = platform_boot_ms();
    server->at_once++;
    if (server->at_once > server->most_at_once)
        server->most_at_once = server->at_once;
    if (server->asked < ASKED_MAX)
        server->asked_ms[server->asked] = now_ms();
    server->asked++;
    for (int64_t i = 0; i < server->takes_ms && !atomic_load(closing); i += 100)
        virtual_sleep(100);
    server->at_once--;
    if (is_down(server)) {
        *ret_retry_ms = server->retry_ms != 0 ? server->retry_ms : -1;
        return err_fail(err, server->down != 0 ? server->down : TW_BUSY,
            "the token server is down");
    }
    snprintf(text, sizeof(text), "token-%u", server->asked);
    ret->token = mem_text(text, strlen(text));
    ret->lifetime_ms = server->fixed_until_ms != 0
                           ? server->fixed_until_ms - now_ms()
                           : server->lifetime_ms;
    return TW_OK;
}

/* A caller that calls at regular intervals, and the outcomes of its calls. */
struct caller {
    struct access_token *token;
    int64_t from_ms, every_ms, until_ms;
    uint64_t refused;
    unsigned calls, failed, waited;
    enum tw_err last;
    uint64_t number;
    int64_t longest_ms;
    int64_t failed_from_ms, failed_until_ms; /* times of the first and of the
                                                last failed call */
    struct err err;
    struct buf got;
};

static void call(struct caller *caller)
{
    const struct access_token_wait wait = {.deadline = NULL};
    int64_t begun_ms = now_ms(), took_ms;

    buf_clear(&caller->got);
    caller->last = access_token_add(caller->token, caller->refused, &wait,
        &caller->got, &caller->number, &caller->err);
    took_ms = now_ms() - begun_ms;
    caller->calls++;
    caller->waited += took_ms >= SHORTEST_MS;
    if (took_ms > caller->longest_ms)
        caller->longest_ms = took_ms;
    if (caller->last == TW_OK)
        return;
    if (caller->failed++ == 0)
        caller->failed_from_ms = begun_ms;
    caller->failed_until_ms = begun_ms;
}

static void call_often(void *arg)
{
    struct caller *caller = arg;

    virtual_sleep(caller->from_ms - now_ms());
    do {
        call(caller);
        virtual_sleep(caller->every_ms);
    } while (now_ms() < caller->until_ms);
}

/* One token server and some callers. */
struct scene {
    struct server server;
    struct caller callers[CALLERS];
    size_t count;                      /* 0: one caller */
    void (*then)(struct scene *scene); /* called when the callers have ended */
    uint64_t seed;
};

static void call_all(struct scene *scene)
{
    struct platform_thread threads[CALLERS];

    for (size_t i = 0; i < scene->count; i++)
        platform_start(&threads[i], "caller", call_often, &scene->callers[i]);
    for (size_t i = 0; i < scene->count; i++)
        platform_join(&threads[i]);
}

static void play(void *arg)
{
    struct scene *scene = arg;
    const struct access_token_source source = {
        serve, &scene->server, "store main"};
    struct access_token *token = access_token_new(&source);

    for (size_t i = 0; i < scene->count; i++) {
        scene->callers[i].token = token;
        buf_init(&scene->callers[i].got, 1000);
    }
    call_all(scene);
    if (scene->then)
        scene->then(scene);
    access_token_free(token);
    for (size_t i = 0; i < scene->count; i++)
        buf_done(&scene->callers[i].got);
}

/* Plays `plan` with the next seed; returns false if there are no more seeds. */
static bool run_next(struct scene *scene, const struct scene *plan)
{
    uint64_t seed = scene->seed + 1;
    enum virtual_end how;

    if (seed > 10)
        return false;
    *scene = *plan;
    scene->seed = seed;
    scene->count = plan->count > 0 ? plan->count : 1;
    log_set(LOG_ERROR, LOG_TEXT);
    virtual_platform_use(&(struct virtual_options){.seed = seed,
        .boot_ms = BEGIN_MS,
        .wall_ticks = TICKS_1970 + 1000 * TICKS_PER_S});
    virtual_start(virtual_process("worker"), "main", play, scene);
    how = virtual_run();
    virtual_platform_end();
    log_set(LOG_INFO, LOG_TEXT);
    assert_int_equal(how, VIRTUAL_DONE);
    assert_int_equal(scene->server.at_once, 0);
    assert_true(scene->server.most_at_once <= 1);
    return true;
}

/* EACH_SEED: plays `plan` with each seed; the body then checks `scene`. */
#define EACH_SEED(scene, plan)                                                 \
    for (struct scene scene = {.seed = 0}; run_next(&(scene), &(plan));)

/* Fails unless the last call of each caller returned token number `number`. */
static void expect_number(const struct scene *scene, uint64_t number)
{
    for (size_t i = 0; i < scene->count; i++) {
        assert_ok(scene->callers[i].last);
        assert_int_equal(scene->callers[i].number, number);
    }
}

/* No call fails, and only the first call waits for the server. */
TEST(a_caller_has_a_valid_token_at_any_time)
{
    static const struct {
        const char *name;
        struct scene plan;
        unsigned waited;      /* number of calls that waited */
        unsigned least, most; /* limits of the number of requests */
    } cases[] = {
        {"a token of an hour",
            {.server = {.lifetime_ms = HOUR, .takes_ms = 2 * S},
                .callers = {{.every_ms = 7 * S,
                    .until_ms = 2 * HOUR - 60 * S}}},
            1, 3, 3},
        {"a token of seconds",
            {.server = {.lifetime_ms = 3 * S, .takes_ms = 200},
                .callers = {{.every_ms = 50, .until_ms = 60 * S}}},
            1, 20, UINT_MAX},
        {"a server that returns one token until it has nearly expired, as IMDS",
            {.server = {.fixed_until_ms = 8 * HOUR},
                .callers = {{.every_ms = 60 * S,
                    .until_ms = 8 * HOUR - 5 * S}}},
            0, 1, 15},
        /* While the server is down, it gets about twenty requests; the last
         * ones are a minute apart. */
        {"a server that is down while the token is valid",
            {.server = {.lifetime_ms = HOUR,
                 .takes_ms = 2 * S,
                 .down_ms = 1000 * S,
                 .up_ms = 3500 * S},
                .callers = {{.every_ms = 1 * S, .until_ms = HOUR + 1000 * S}}},
            1, 16, 59},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        test_case("%s", cases[i].name);
        EACH_SEED(scene, cases[i].plan)
        {
            assert_int_equal(scene.callers[0].failed, 0);
            assert_int_equal(scene.callers[0].waited, cases[i].waited);
            assert_in_range(scene.server.asked, cases[i].least, cases[i].most);
        }
    }
}

/* A token lasts an hour, so a new one is requested every 40 minutes. */
TEST(a_token_is_renewed_when_a_third_of_its_lifetime_is_left)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .takes_ms = 2 * S},
        .callers = {{.every_ms = 7 * S, .until_ms = 2 * HOUR - 60 * S}}};

    EACH_SEED(scene, plan)
    {
        for (int i = 1; i < 3; i++)
            assert_in_range(
                scene.server.asked_ms[i] - i * 40 * 60 * S, 0, 10 * S - 1);
    }
}

TEST(without_a_valid_token_calls_fail_soon_until_one_comes_again)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .down_ms = 1000 * S, .up_ms = 5000 * S},
        .callers = {{.every_ms = 1 * S, .until_ms = 6000 * S}}};

    EACH_SEED(scene, plan)
    {
        const struct caller *caller = &scene.callers[0];

        assert_true(caller->failed > 0);
        assert_in_range(caller->failed_from_ms, HOUR, HOUR + 2 * S - 1);
        assert_true(caller->failed_until_ms <
                    5000 * S + ACCESS_TOKEN_BACKOFF_MAX_MS + 2 * S);
        assert_string_equal(caller->err.text, "the token server is down");
        assert_true(caller->longest_ms <= 3 * S);
        assert_ok(caller->last);
    }
}

/* The first request fails. The server may respond again soon, so the callers
 * wait for the second request. */
TEST(a_first_failure_is_waited_out)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .up_ms = 300}, .count = CALLERS};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.server.asked, 2);
        expect_number(&scene, 1);
    }
}

TEST(a_refusal_is_told_at_once_and_not_asked_for_again_and_again)
{
    static const struct scene plan = {
        .server = {.up_ms = HOUR, .down = TW_REFUSED},
        .callers = {{.every_ms = 100, .until_ms = 60 * S}}};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.callers[0].failed, scene.callers[0].calls);
        assert_int_equal(scene.callers[0].last, TW_REFUSED);
        assert_true(scene.callers[0].longest_ms <= S);
        assert_in_range(scene.server.asked, 5, 14);
    }
}

TEST(what_the_server_asks_for_is_waited)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .up_ms = 10 * S, .retry_ms = 30 * S},
        .callers = {{.every_ms = 1 * S, .until_ms = 60 * S}}};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.server.asked, 2);
        assert_true(scene.server.asked_ms[1] >= 30 * S);
        assert_ok(scene.callers[0].last);
    }
}

/* ---- a token that the service refuses ---- */

static void replace(struct scene *scene)
{
    for (size_t i = 0; i < CALLERS; i++) {
        scene->callers[i].refused = 1;
        scene->callers[i].from_ms = now_ms();
    }
    call_all(scene);
}

TEST(a_refused_token_is_replaced_once_for_all_callers)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .takes_ms = 500},
        .count = CALLERS,
        .then = replace};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.server.asked, 2);
        for (size_t i = 0; i < CALLERS; i++)
            assert_int_equal(scene.callers[i].failed, 0);
        expect_number(&scene, 2);
    }
}

static void call_with_refused(struct caller *caller)
{
    caller->refused = caller->number;
    call(caller);
}

static void replace_again(struct scene *scene)
{
    struct caller *caller = &scene->callers[0];

    call_with_refused(caller); /* returns token number 2 */
    call_with_refused(caller); /* TW_CONFLICT: too early for a new token */
    virtual_sleep(ACCESS_TOKEN_REPLACE_MS);
    call(caller);
}

TEST(a_new_token_that_is_refused_too_is_not_replaced_at_once)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR}, .then = replace_again};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.callers[0].failed, 1);
        assert_int_equal(scene.callers[0].number, 3);
        assert_int_equal(scene.server.asked, 3);
    }
}

static void replace_twice(struct scene *scene)
{
    virtual_sleep(10 * S);
    call_with_refused(&scene->callers[0]);
    call(&scene->callers[0]);
}

/* The server is down, so no new token can be requested. The credentials may
 * still be valid, so the call ends with TW_BUSY and not with TW_REFUSED. */
TEST(a_refused_token_without_a_server_is_an_outage)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .down_ms = 5 * S, .up_ms = HOUR},
        .then = replace_twice};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.callers[0].failed, 2);
        assert_fails(scene.callers[0].last, TW_BUSY, &scene.callers[0].err,
            "the token server is down");
        assert_true(scene.server.asked < 6);
    }
}

/* ---- callers that stop waiting ---- */

static bool gives_up(void *context, bool comes)
{
    return true;
}

static enum tw_err wait_outcomes[2];

static void wait_within(
    struct caller *caller, const struct access_token_wait *limits, size_t i)
{
    wait_outcomes[i] = access_token_add(
        caller->token, 0, limits, &caller->got, &caller->number, &caller->err);
}

/* Calls with a deadline that allows one second for a request. The call fails
 * earlier than a call without such a deadline, and reports the token server's
 * error. */
static void wait_a_second(struct scene *scene)
{
    struct deadline deadline;
    const struct access_token_wait limits = {.deadline = &deadline};

    deadline_init(&deadline, PLATFORM_NEVER, 1 * S);
    virtual_sleep(HOUR);
    wait_within(&scene->callers[0], &limits, 0);
}

TEST(a_caller_with_little_time_is_told_the_cause)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = 10 * S, .down_ms = 5 * S, .up_ms = 2 * HOUR},
        .then = wait_a_second};

    EACH_SEED(scene, plan)
    {
        assert_fails(wait_outcomes[0], TW_BUSY, &scene.callers[0].err,
            "the token server is down");
    }
}

static void wait_with_limits(struct scene *scene)
{
    struct deadline closed;
    const struct access_token_wait limits[2] = {
        {.deadline = &closed}, {.gives_up = gives_up}};

    deadline_init(&closed, PLATFORM_NEVER, 0);
    deadline_close(&closed);
    for (size_t i = 0; i < 2; i++)
        wait_within(&scene->callers[0], &limits[i], i);
}

/* The request to the server takes an hour. The calls end earlier, and
 * access_token_free() does not wait for the request. */
TEST(no_caller_waits_longer_than_its_limits)
{
    static const struct scene plan = {
        .server = {.lifetime_ms = HOUR, .takes_ms = HOUR},
        .then = wait_with_limits};

    EACH_SEED(scene, plan)
    {
        assert_int_equal(scene.callers[0].last, TW_BUSY);
        assert_true(
            scene.callers[0].longest_ms < DEADLINE_REQUEST_MAX_MS + 2 * S);
        assert_int_equal(wait_outcomes[0], TW_STOPPED);
        assert_fails(wait_outcomes[1], TW_BUSY, &scene.callers[0].err,
            "cancelled while waiting");
    }
}
