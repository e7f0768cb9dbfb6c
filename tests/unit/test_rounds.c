/* SPDX-License-Identifier: MIT */
/* What each round of a table job reads, and which round is the last one. */
#include "jobs/engine/rounds.h"
#include "jobs/engine/run.h"
#include "tests/support/bent_platform.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/base/json.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/request_pool.h"

#define MINUTE_MS 60000
#define NO_JOBS "{}"

static struct bend *bend;

struct scene {
    struct hosted hosted;
    struct deadline deadline;
    struct run run;
    struct rounds rounds;
};

static int set_up(void **state)
{
    static struct scene scene;

    scene = (struct scene){.rounds = {.number = 0}};
    hosted_begin(&scene.hosted, NO_JOBS, "Blogs");
    deadline_init(&scene.deadline, PLATFORM_NEVER, 1000);
    scene.run = (struct run){.job = "j",
        .request_pool =
            pool_client_new(scene.hosted.request_pool, &scene.deadline),
        .deadline = &scene.deadline};
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    pool_client_free(scene->run.request_pool);
    hosted_done(&scene->hosted);
    return 0;
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, tear_down, struct scene *scene)

static void begin(struct scene *scene)
{
    struct err err;

    assert_ok(rounds_begin(
        &scene->rounds, &scene->run, scene->hosted.store, "Blogs", &err));
}

/* Play one round of `took_ms`; returns what comes next. */
static enum rounds_next play(
    struct scene *scene, int64_t took_ms, int64_t found, int64_t behind)
{
    begin(scene);
    bent_platform_skip(bend, took_ms);
    scene->rounds.found = found;
    return rounds_end(&scene->rounds, &scene->run, behind);
}

static void assert_next(
    struct scene *scene, int64_t took_ms, bool full, enum rounds_next next)
{
    begin(scene);
    assert_int_equal(scene->rounds.full, full);
    bent_platform_skip(bend, took_ms);
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 0), next);
}

/* Write the rounds as a checkpoint, and read them as the next attempt does. */
static void hand_over(struct scene *scene)
{
    struct rounds read = {.follow = scene->rounds.follow};
    struct json *json;
    struct buf text;

    buf_init(&text, 4096);
    rounds_write(&scene->rounds, &text);
    assert_ok(json_parse(buf_slice(&text), 4, &json, NULL));
    assert_true(rounds_read(&read, json));
    json_free(json);
    buf_done(&text);
    scene->rounds = read;
}

FIXTURE_TEST(a_short_run_reads_everything_twice)
{
    assert_next(scene, 1000, true, ROUNDS_AGAIN);
    assert_next(scene, 1000, true, ROUNDS_DONE);
    assert_int_equal(atomic_load(&scene->run.rounds), 2);
}

/* Rule A1: a last round that reads only newer entities would miss a copy that
 * somebody deleted. */
FIXTURE_TEST(a_long_run_catches_up_and_then_reads_everything)
{
    assert_next(scene, 100 * MINUTE_MS, true, ROUNDS_AGAIN);
    assert_next(scene, 40 * MINUTE_MS, false, ROUNDS_AGAIN);
    assert_next(scene, 10 * MINUTE_MS, false, ROUNDS_AGAIN);
    /* More than half as long as the round before. */
    assert_next(scene, 6 * MINUTE_MS, false, ROUNDS_AGAIN);
    assert_next(scene, 100 * MINUTE_MS, true, ROUNDS_DONE);
}

FIXTURE_TEST(a_round_under_a_minute_is_followed_by_the_last)
{
    assert_next(scene, 100 * MINUTE_MS, true, ROUNDS_AGAIN);
    assert_next(scene, MINUTE_MS - 1000, false, ROUNDS_AGAIN);
    assert_next(scene, 100 * MINUTE_MS, true, ROUNDS_DONE);
}

FIXTURE_TEST(a_run_ends_however_much_is_behind)
{
    assert_int_equal(play(scene, 1000, 9, 0), ROUNDS_AGAIN);
    assert_int_equal(play(scene, 1000, 9, 7), ROUNDS_DONE);
    assert_int_equal(atomic_load(&scene->run.behind), 7);
}

/* Rule A3: the Date of a response before the round's first request, less 5
 * s. */
FIXTURE_TEST(newer_means_since_the_round_before_began_less_five_s)
{
    int64_t began_ticks;

    begin(scene);
    began_ticks = scene->rounds.began_ticks;
    assert_true(began_ticks <= platform_wall_ticks());
    bent_platform_skip(bend, 100 * MINUTE_MS);
    (void)rounds_end(&scene->rounds, &scene->run, 0);
    assert_int_equal(atomic_load(&scene->run.caught_up_ticks),
        began_ticks - 5 * TICKS_PER_S);
    begin(scene);
    assert_false(scene->rounds.full);
    assert_int_equal(scene->rounds.since_ticks, began_ticks - 5 * TICKS_PER_S);
}

FIXTURE_TEST(without_order_every_round_reads_everything)
{
    scene->hosted.store->capabilities.ordered = false;
    assert_next(scene, 100 * MINUTE_MS, true, ROUNDS_AGAIN);
    assert_next(scene, 40 * MINUTE_MS, true, ROUNDS_AGAIN);
    scene->hosted.store->capabilities.ordered = true;
}

/* ---- following ---- */

static void follow(struct scene *scene)
{
    scene->rounds.follow = true;
    assert_int_equal(play(scene, 1000, 0, 0), ROUNDS_AGAIN);
    assert_int_equal(play(scene, 1000, 0, 0), ROUNDS_WAIT);
}

FIXTURE_TEST(a_quiet_following_run_waits_a_minute)
{
    follow(scene);
    assert_int_equal(scene->run.waits_for, RUN_WAITS_FOR_ROUND);
    assert_int_equal(
        scene->run.resumes_ticks, scene->rounds.began_ticks + 60 * TICKS_PER_S);
    assert_next(scene, 1000, false, ROUNDS_WAIT);
}

/* The store of the sources has another clock than the ledger's store. */
FIXTURE_TEST(the_minute_is_the_same_beside_another_ledger)
{
    struct store other = {.name = "other"};
    int64_t began_ms = platform_boot_ms();

    scene->run.ledger = &other;
    follow(scene); /* plays two rounds of a second each */
    assert_in_range(scene->run.resumes_ms - began_ms, 60000, 62000);
    scene->run.ledger = NULL;
}

FIXTURE_TEST(after_differences_a_following_run_goes_on_at_once)
{
    follow(scene);
    assert_int_equal(play(scene, 1000, 3, 0), ROUNDS_AGAIN);
    assert_int_equal(play(scene, 1000, 0, 0), ROUNDS_WAIT);
}

/* A table that changes all the time. */
FIXTURE_TEST(a_following_run_goes_on_in_another_attempt_after_five_minutes)
{
    int64_t now_ticks;

    follow(scene);
    hand_over(scene);
    for (int minute = 1; minute < 5; minute++)
        assert_int_equal(play(scene, MINUTE_MS, 3, 0), ROUNDS_AGAIN);
    assert_int_equal(play(scene, MINUTE_MS, 3, 0), ROUNDS_WAIT);
    assert_int_equal(scene->run.waits_for, RUN_WAITS_FOR_ROUND);
    now_ticks = scene->rounds.began_ticks + MINUTE_MS * TICKS_PER_MS;
    assert_in_range(
        scene->run.resumes_ticks, now_ticks, now_ticks + TICKS_PER_S);
    hand_over(scene);
    assert_int_equal(play(scene, MINUTE_MS, 3, 0), ROUNDS_AGAIN);
}

/* Rule A1. Whatever is behind then does not keep it, as any other run. */
FIXTURE_TEST(a_run_that_does_not_follow_any_more_ends_after_a_last_round)
{
    follow(scene);
    scene->rounds.follow = false;
    begin(scene);
    assert_int_equal(scene->rounds.stage, ROUNDS_LAST);
    assert_true(scene->rounds.full);
    scene->rounds.found = 3;
    assert_true(rounds_counts_behind(&scene->rounds));
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 2), ROUNDS_DONE);
}

/* The round was under way when the former attempt ended. */
FIXTURE_TEST(a_round_without_follow_is_followed_by_the_last)
{
    follow(scene);
    begin(scene);
    assert_false(scene->rounds.full);
    hand_over(scene);
    scene->rounds.follow = false;
    assert_next(scene, 1000, false, ROUNDS_AGAIN);
    assert_next(scene, 1000, true, ROUNDS_DONE);
}

FIXTURE_TEST(a_run_follows_again_if_its_job_does)
{
    follow(scene);
    scene->rounds.follow = false;
    begin(scene);
    scene->rounds.follow = true;
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 0), ROUNDS_WAIT);
    assert_next(scene, 1000, false, ROUNDS_WAIT);
}

FIXTURE_TEST(a_following_run_reads_everything_once_an_hour)
{
    unsigned full = 0;

    follow(scene);
    for (int minute = 0; minute < 180; minute++) {
        bent_platform_skip(bend, MINUTE_MS);
        begin(scene);
        full += scene->rounds.full;
        (void)rounds_end(&scene->rounds, &scene->run, 0);
    }
    assert_in_range(full, 2, 3);
}

FIXTURE_TEST(finish_reads_everything_until_nothing_is_behind)
{
    follow(scene);
    atomic_store(&scene->run.finish, RUN_FINISHING);
    begin(scene);
    assert_true(scene->rounds.full);
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 2), ROUNDS_AGAIN);
    assert_next(scene, 1000, true, ROUNDS_DONE);
}

FIXTURE_TEST(finish_now_is_one_more_round)
{
    follow(scene);
    atomic_store(&scene->run.finish, RUN_FINISHING_NOW);
    begin(scene);
    assert_true(scene->rounds.full);
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 2), ROUNDS_DONE);
}

/* A `finish` during a round needs another round: this round may have read
 * entities before they were changed. */
FIXTURE_TEST(finish_during_a_round_asks_for_another)
{
    scene->rounds.follow = true;
    (void)play(scene, 1000, 0, 0);
    begin(scene);
    atomic_store(&scene->run.finish, RUN_FINISHING);
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 0), ROUNDS_AGAIN);
    assert_next(scene, 1000, true, ROUNDS_DONE);
}

/* Rule A5: who asked for `finish` was promised that, although the job does not
 * follow any more. */
FIXTURE_TEST(finish_asks_for_another_round_without_follow)
{
    (void)play(scene, 1000, 0, 0);
    begin(scene);
    atomic_store(&scene->run.finish, RUN_FINISHING);
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 0), ROUNDS_AGAIN);
    assert_next(scene, 1000, true, ROUNDS_DONE);
}

/* ---- what is behind ---- */

FIXTURE_TEST(only_ends_ask_what_is_behind)
{
    begin(scene);
    scene->rounds.found = 5;
    assert_false(rounds_counts_behind(&scene->rounds)); /* in the first round */
    (void)rounds_end(&scene->rounds, &scene->run, 0);
    begin(scene);
    assert_false(rounds_counts_behind(&scene->rounds)); /* found is 0 */
    scene->rounds.found = 5;
    assert_true(rounds_counts_behind(&scene->rounds));
}

/* ---- the checkpoint ---- */

FIXTURE_TEST(a_round_is_resumed_where_it_was)
{
    int64_t began_ticks;

    begin(scene);
    began_ticks = scene->rounds.began_ticks;
    scene->rounds.found = 4;
    bent_platform_skip(bend, 50 * MINUTE_MS);
    hand_over(scene);
    bent_platform_skip(bend, 500 * MINUTE_MS); /* time without an attempt */
    begin(scene);
    assert_int_equal(scene->rounds.number, 1);
    assert_int_equal(scene->rounds.began_ticks, began_ticks);
    assert_int_equal(scene->rounds.found, 4);
    bent_platform_skip(bend, 50 * MINUTE_MS);
    assert_int_equal(rounds_end(&scene->rounds, &scene->run, 0), ROUNDS_AGAIN);
    assert_in_range(scene->rounds.took_ms, 100 * MINUTE_MS, 101 * MINUTE_MS);
    hand_over(scene);
    begin(scene);
    assert_int_equal(scene->rounds.number, 2);
    assert_false(scene->rounds.full);
    assert_int_equal(scene->rounds.since_ticks, began_ticks - 5 * TICKS_PER_S);
}

FIXTURE_TEST(what_is_not_ours_is_not_read)
{
    static const char *const texts[] = {"{}", "[]", "7", "{\"stage\":9}",
        "{\"stage\":0,\"underWay\":true,\"full\":true}",
        "{\"stage\":-1,\"underWay\":true,\"full\":true}", "{\"stage\":0}",
        "{\"stage\":0,\"underWay\":1}",
        "{\"stage\":0,\"underWay\":true,\"full\":\"yes\"}",
        "{\"stage\":\"first\",\"underWay\":true,\"full\":true}"};
    struct rounds rounds = {.number = 3};

    assert_false(rounds_read(&rounds, NULL));
    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        struct json *json;

        assert_ok(json_parse(slice_of(texts[i]), 4, &json, NULL));
        assert_false(rounds_read(&rounds, json));
        json_free(json);
    }
    assert_int_equal(rounds.number, 3);
}

int main(void)
{
    bend = bent_platform_use(NULL);
    return test_run_all(NULL, NULL);
}
