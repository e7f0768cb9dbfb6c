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
static struct hosted hosted;
static struct deadline deadline;
static struct run run;
static struct rounds rounds;
static int64_t found; /* differences that each round repairs */

static int set_up(void **state)
{
    rounds = (struct rounds){.number = 0};
    found = 0;
    hosted_begin(&hosted, NO_JOBS, "Blogs");
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    run = (struct run){.job = "j",
        .pool_client = pool_client_new(hosted.request_pool, &deadline),
        .deadline = &deadline};
    return 0;
}

static int tear_down(void **state)
{
    pool_client_free(run.pool_client);
    hosted_done(&hosted);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* Begins a round, which must read everything (`full`) or only newer
 * entities. */
static void begin(bool full)
{
    struct err err;

    assert_ok(rounds_begin(&rounds, &run, hosted.store, "Blogs", &err));
    assert_int_equal(rounds.full, full);
    rounds.found = found;
}

/* Ends a round that took `took_ms` and left `behind` entities behind;
 * rounds_end() must return `next`. */
static void end(int64_t took_ms, int64_t behind, enum rounds_next next)
{
    bent_platform_skip(bend, took_ms);
    assert_int_equal(rounds_end(&rounds, &run, behind), next);
}

/* Makes one round, which leaves no entity behind. */
static void play(int64_t took_ms, bool full, enum rounds_next next)
{
    begin(full);
    end(took_ms, 0, next);
}

/* Writes the rounds as a checkpoint, and reads them as the next attempt
 * does. */
static void hand_over(void)
{
    struct rounds read = {.follow = rounds.follow};
    struct json *json;
    struct buf text;

    buf_init(&text, 4096);
    rounds_write(&rounds, &text);
    assert_ok(json_parse(buf_slice(&text), 4, &json, NULL));
    assert_true(rounds_read(&read, json));
    json_free(json);
    buf_done(&text);
    rounds = read;
}

/* Rule A1: a last round that reads only newer entities would miss a copy that
 * somebody deleted. */
FIXTURE_TEST(a_long_run_catches_up_and_then_reads_everything)
{
    play(100 * MINUTE_MS, true, ROUNDS_AGAIN);
    play(40 * MINUTE_MS, false, ROUNDS_AGAIN);
    play(10 * MINUTE_MS, false, ROUNDS_AGAIN);
    /* This round takes more than half as long as the round before it. */
    play(6 * MINUTE_MS, false, ROUNDS_AGAIN);
    play(100 * MINUTE_MS, true, ROUNDS_DONE);
}

FIXTURE_TEST(a_round_under_a_minute_is_followed_by_the_last)
{
    play(100 * MINUTE_MS, true, ROUNDS_AGAIN);
    play(MINUTE_MS - 1000, false, ROUNDS_AGAIN);
    play(100 * MINUTE_MS, true, ROUNDS_DONE);
}

FIXTURE_TEST(a_run_ends_however_much_is_behind)
{
    found = 9;
    play(1000, true, ROUNDS_AGAIN);
    begin(true);
    end(1000, 7, ROUNDS_DONE);
    assert_int_equal(atomic_load(&run.behind), 7);
    assert_int_equal(atomic_load(&run.rounds), 2);
}

/* Rule A3: an entity is "newer" if it was written after T - 5 s. T is the Date
 * of a response that came before the first request of the previous round. */
FIXTURE_TEST(newer_means_since_the_round_before_began_less_five_s)
{
    int64_t began_ticks;

    begin(true);
    began_ticks = rounds.began_ticks;
    assert_true(began_ticks <= platform_wall_ticks());
    end(100 * MINUTE_MS, 0, ROUNDS_AGAIN);
    assert_int_equal(
        atomic_load(&run.caught_up_ticks), began_ticks - 5 * TICKS_PER_S);
    begin(false);
    assert_int_equal(rounds.since_ticks, began_ticks - 5 * TICKS_PER_S);
}

FIXTURE_TEST(without_order_every_round_reads_everything)
{
    hosted.store->capabilities.ordered = false;
    play(100 * MINUTE_MS, true, ROUNDS_AGAIN);
    play(40 * MINUTE_MS, true, ROUNDS_AGAIN);
    hosted.store->capabilities.ordered = true;
}

/* ---- following ---- */

static void follow(void)
{
    rounds.follow = true;
    play(1000, true, ROUNDS_AGAIN);
    play(1000, true, ROUNDS_WAIT);
}

FIXTURE_TEST(a_quiet_following_run_waits_a_minute)
{
    follow();
    assert_int_equal(run.waits_for, RUN_WAITS_FOR_ROUND);
    assert_int_equal(run.resumes_ticks, rounds.began_ticks + 60 * TICKS_PER_S);
    play(1000, false, ROUNDS_WAIT);
}

/* The store of the sources has another clock than the ledger's store. */
FIXTURE_TEST(the_minute_is_the_same_beside_another_ledger)
{
    struct store other = {.name = "other"};
    int64_t began_ms = platform_boot_ms();

    run.ledger = &other;
    follow(); /* makes two rounds of a second each */
    assert_in_range(run.resumes_ms - began_ms, 60000, 62000);
    run.ledger = NULL;
}

/* The table changes all the time, so every round repairs differences. */
FIXTURE_TEST(a_following_run_goes_on_in_another_attempt_after_five_minutes)
{
    int64_t now_ticks;

    follow();
    hand_over();
    found = 3;
    for (int minute = 1; minute < 5; minute++)
        play(MINUTE_MS, false, ROUNDS_AGAIN);
    play(MINUTE_MS, false, ROUNDS_WAIT);
    assert_int_equal(run.waits_for, RUN_WAITS_FOR_ROUND);
    now_ticks = rounds.began_ticks + MINUTE_MS * TICKS_PER_MS;
    assert_in_range(run.resumes_ticks, now_ticks, now_ticks + TICKS_PER_S);
    hand_over();
    play(MINUTE_MS, false, ROUNDS_AGAIN);
}

/* The former attempt ended during a round, and the job does not follow any
 * more. Rule A1: like any other run, the run ends after its last round, even if
 * entities are behind. */
FIXTURE_TEST(a_round_without_follow_is_followed_by_the_last)
{
    follow();
    begin(false);
    hand_over();
    rounds.follow = false;
    play(1000, false, ROUNDS_AGAIN);
    found = 3;
    begin(true);
    assert_int_equal(rounds.stage, ROUNDS_LAST);
    assert_true(rounds_counts_behind(&rounds));
    end(1000, 2, ROUNDS_DONE);
}

FIXTURE_TEST(a_run_follows_again_if_its_job_does)
{
    follow();
    rounds.follow = false;
    begin(true);
    rounds.follow = true;
    end(0, 0, ROUNDS_WAIT);
    play(1000, false, ROUNDS_WAIT);
}

FIXTURE_TEST(a_following_run_reads_everything_once_an_hour)
{
    unsigned full = 0;

    follow();
    for (int minute = 0; minute < 180; minute++) {
        struct err err;

        bent_platform_skip(bend, MINUTE_MS);
        assert_ok(rounds_begin(&rounds, &run, hosted.store, "Blogs", &err));
        full += rounds.full;
        (void)rounds_end(&rounds, &run, 0);
    }
    assert_in_range(full, 2, 3);
}

FIXTURE_TEST(finish_reads_everything_until_nothing_is_behind)
{
    follow();
    atomic_store(&run.finish, RUN_FINISHING);
    begin(true);
    end(0, 2, ROUNDS_AGAIN);
    play(1000, true, ROUNDS_DONE);
}

FIXTURE_TEST(finish_now_is_one_more_round)
{
    follow();
    atomic_store(&run.finish, RUN_FINISHING_NOW);
    begin(true);
    end(0, 2, ROUNDS_DONE);
}

/* A `finish` during a round needs another round: this round may have read
 * entities before they were changed. By rule A5 this also holds if the job does
 * not follow any more. */
FIXTURE_TEST(finish_during_a_round_asks_for_another)
{
    static const bool FOLLOW[] = {true, false};

    for (size_t i = 0; TEST_EACH(i, FOLLOW); i++) {
        rounds = (struct rounds){.follow = FOLLOW[i]};
        atomic_store(&run.finish, RUN_NOT_FINISHING);
        play(1000, true, ROUNDS_AGAIN);
        begin(true);
        atomic_store(&run.finish, RUN_FINISHING);
        end(0, 0, ROUNDS_AGAIN);
        play(1000, true, ROUNDS_DONE);
    }
}

/* ---- what is behind ---- */

FIXTURE_TEST(only_ends_ask_what_is_behind)
{
    found = 5;
    begin(true);
    assert_false(rounds_counts_behind(&rounds)); /* in the first round */
    end(0, 0, ROUNDS_AGAIN);
    found = 0;
    begin(true);
    assert_false(rounds_counts_behind(&rounds));
    rounds.found = 5;
    assert_true(rounds_counts_behind(&rounds));
}

/* ---- the checkpoint ---- */

FIXTURE_TEST(a_round_is_resumed_where_it_was)
{
    struct err err;
    int64_t began_ticks;

    found = 4;
    begin(true);
    began_ticks = rounds.began_ticks;
    bent_platform_skip(bend, 50 * MINUTE_MS);
    hand_over();
    bent_platform_skip(bend, 500 * MINUTE_MS); /* time without an attempt */
    assert_ok(rounds_begin(&rounds, &run, hosted.store, "Blogs", &err));
    assert_int_equal(rounds.number, 1);
    assert_int_equal(rounds.began_ticks, began_ticks);
    assert_int_equal(rounds.found, 4);
    end(50 * MINUTE_MS, 0, ROUNDS_AGAIN);
    assert_in_range(rounds.took_ms, 100 * MINUTE_MS, 101 * MINUTE_MS);
    hand_over();
    begin(false);
    assert_int_equal(rounds.number, 2);
    assert_int_equal(rounds.since_ticks, began_ticks - 5 * TICKS_PER_S);
}

FIXTURE_TEST(what_is_not_ours_is_not_read)
{
    static const char *const texts[] = {"{}", "[]", "7", "{\"stage\":9}",
        "{\"stage\":0,\"underWay\":true,\"full\":true}",
        "{\"stage\":-1,\"underWay\":true,\"full\":true}", "{\"stage\":0}",
        "{\"stage\":0,\"underWay\":1}",
        "{\"stage\":0,\"underWay\":true,\"full\":\"yes\"}",
        "{\"stage\":\"first\",\"underWay\":true,\"full\":true}"};

    rounds.number = 3;
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
