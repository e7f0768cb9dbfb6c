/* SPDX-License-Identifier: MIT */
/* A rate that learns its limit from a service that is simulated by the
 * millisecond, with token buckets like Azure's, random refusals, or both. */
#include "tests/support/test.h"
#include "worker/store/rate.h"

/* ---- a service, and a worker that empties a table ---- */

#define REQUESTS 64
#define LATENCY_MS 8
#define PAGE 1000
#define BATCH 100

struct request {
    bool busy;    /* this entry is in use */
    bool page;    /* true: a page; false: a batch */
    bool refused; /* the last try was refused */
    unsigned entities, tries;
    int64_t sent_ms, answered_ms, again_ms; /* while it waits for a response,
                                               again_ms is 0; while it waits for
                                               its next try, answered_ms is 0 */
};

struct play {
    double limit;   /* entities/s; 0: none */
    double burst;   /* number of entities that the service serves at once */
    double chance;  /* share of requests that the service refuses at random */
    bool unlimited; /* the worker ignores refusals */
    double tokens;
    uint64_t random;

    struct rate rate;
    struct request requests[REQUESTS];
    bool page_under_way;
    int64_t to_delete; /* entities that were read and are not in a batch yet */
    int64_t now_ms, requests_made, refused, deleted;
};

static double draw(struct play *play)
{
    play->random = play->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(play->random >> 11) / 9007199254740992.0;
}

static struct play begin_play(double limit, double chance, uint64_t seed)
{
    struct play play = {.limit = limit,
        .burst = limit,
        .tokens = limit,
        .chance = chance,
        .random = seed * 0x9e3779b97f4a7c15u + 1,
        .now_ms = 1000000};

    rate_init(&play.rate);
    return play;
}

static bool serves(struct play *play, unsigned entities)
{
    if (draw(play) < play->chance)
        return false;
    if (play->limit == 0)
        return true;
    if (play->tokens <= 0)
        return false;
    play->tokens -= entities;
    return true;
}

static void answer(struct play *play, struct request *request)
{
    bool served = serves(play, request->entities);
    int64_t limit_ms = 50;

    request->refused = !served;
    play->requests_made++;
    play->refused += !served;
    rate_answered(
        &play->rate, &(struct rate_answer){.sent_ms = request->sent_ms,
                         .now_ms = play->now_ms,
                         .expected = request->entities,
                         .entities = request->entities,
                         .refused = !served && !play->unlimited,
                         .served = served});
    request->answered_ms = 0;
    if (!served) {
        for (unsigned i = 1; i < request->tries && limit_ms < 6400; i++)
            limit_ms *= 4;
        request->again_ms = play->now_ms + 1 +
                            (play->limit > 0 && draw(play) < 0.5
                                    ? 1000
                                    : (int64_t)(draw(play) * (double)limit_ms));
        return;
    }
    request->busy = false;
    if (request->page) {
        play->page_under_way = false;
        play->to_delete += request->entities;
    } else {
        play->deleted += request->entities;
    }
}

static bool next_request(struct play *play, struct request *ret)
{
    unsigned most = rate_page(&play->rate);

    if (play->to_delete >= BATCH ||
        (play->to_delete > 0 && play->page_under_way)) {
        *ret = (struct request){.entities = play->to_delete < BATCH
                                                ? (unsigned)play->to_delete
                                                : BATCH};
        play->to_delete -= ret->entities;
        return true;
    }
    if (play->page_under_way)
        return false;
    play->page_under_way = true;
    *ret = (struct request){
        .page = true, .entities = most == 0 || most > PAGE ? PAGE : most};
    return true;
}

static void send(struct play *play, struct request *request)
{
    unsigned most = rate_page(&play->rate);

    if (request->page && most != 0 && most < request->entities)
        request->entities = most;
    rate_send(&play->rate, play->now_ms, request->entities);
    request->busy = true;
    request->tries++;
    request->again_ms = 0;
    request->sent_ms = play->now_ms;
    request->answered_ms =
        play->now_ms + LATENCY_MS + (int64_t)(draw(play) * LATENCY_MS);
}

static bool is_free(struct play *play)
{
    return rate_free_ms(&play->rate, play->now_ms) <= play->now_ms;
}

static void play_ms(struct play *play)
{
    play->now_ms++;
    play->tokens += play->limit / 1000;
    if (play->tokens > play->burst)
        play->tokens = play->burst;
    for (int i = 0; i < REQUESTS; i++) {
        struct request *request = &play->requests[i];

        if (request->busy && request->answered_ms == play->now_ms)
            answer(play, request);
        if (request->busy && request->answered_ms == 0 &&
            request->again_ms <= play->now_ms && is_free(play))
            send(play, request);
    }
    for (int i = 0; i < REQUESTS; i++)
        if (!play->requests[i].busy && is_free(play) &&
            next_request(play, &play->requests[i]))
            send(play, &play->requests[i]);
}

static void play_s(struct play *play, int64_t seconds)
{
    for (int64_t ms = 0; ms < seconds * 1000; ms++)
        play_ms(play);
}

/* ---- what a service with this rate achieves ---- */

/* Simulates `seconds` seconds. Returns the number of entities that were deleted
 * per second; each was read before. */
static double deleted_in(struct play *play, int64_t seconds)
{
    int64_t before = play->deleted;

    play_s(play, seconds);
    return (double)(play->deleted - before) / (double)seconds;
}

TEST(a_limit_is_found_and_used)
{
    static const double limits[] = {300, 2000, 20000};

    for (size_t i = 0; TEST_EACH(i, limits); i++) {
        double used = 0, refused = 0, made = 0;

        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct play play = begin_play(limits[i], 0, seed);
            int64_t before_made, before_refused;

            used += 2 * deleted_in(&play, 20) / limits[i] / 24;
            before_made = play.requests_made;
            before_refused = play.refused;
            used += 2 * 2 * deleted_in(&play, 40) / limits[i] / 24;
            made += (double)(play.requests_made - before_made);
            refused += (double)(play.refused - before_refused);
        }
        print_message("%g/s: %.0f %%, and once it is found %.1f %% refused\n",
            limits[i], 100 * used, 100 * refused / made);
        assert_true(used > 0.95);
        assert_true(refused < made / 50);
    }
}

/* The service responds 503 at random, whatever the rate of requests is. */
TEST(chance_is_no_limit)
{
    static const double chances[] = {0.02, 0.05, 0.1};

    for (size_t i = 0; TEST_EACH(i, chances); i++) {
        double limited = 0, unlimited = 0;

        for (uint64_t seed = 1; seed <= 16; seed++) {
            struct play play = begin_play(0, chances[i], seed);
            struct play other = begin_play(0, chances[i], seed + 100);

            other.unlimited = true;
            limited += deleted_in(&play, 20);
            unlimited += deleted_in(&other, 20);
        }
        print_message("%g refused by chance: %.0f %%\n", chances[i],
            100 * limited / unlimited);
        assert_true(limited > (chances[i] < 0.05 ? 0.6 : 0.8) * unlimited);
    }
}

TEST(a_limit_beside_chance_is_not_lost)
{
    double used = 0;

    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct play play = begin_play(2000, 0.02, seed);

        used += 2 * deleted_in(&play, 60) / 2000 / 8;
        assert_true(play.refused < play.requests_made / 8);
    }
    print_message("%.0f %%\n", 100 * used);
    assert_true(used > 0.5);
}

TEST(a_limit_that_changes_is_followed)
{
    struct play play = begin_play(2000, 0, 1);

    play_s(&play, 30);
    play.limit = play.burst = 500;
    play_s(&play, 30);
    assert_true(2 * deleted_in(&play, 30) > 0.9 * 500);
    play.limit = play.burst = 4000;
    play_s(&play, 240);
    assert_true(2 * deleted_in(&play, 30) > 0.9 * 4000);
}

TEST(a_service_that_serves_nothing_is_hardly_asked)
{
    struct play play = begin_play(0, 0, 1);
    int64_t made;

    play_s(&play, 5);
    play.chance = 1;
    play_s(&play, 10);
    made = play.requests_made;
    play_s(&play, 60);
    assert_true(play.requests_made - made < 180);
    assert_true(play.requests_made - made >= 10);
    play.chance = 0;
    play_s(&play, 15);
    assert_true(deleted_in(&play, 10) > 10000);
}

/* ---- one request after the other ---- */

enum how { SERVED, REFUSED, NEITHER, SILENT };

static void answered(struct rate *rate, int64_t sent_ms, int64_t now_ms,
    unsigned expected, unsigned entities, enum how how)
{
    rate_answered(rate, &(struct rate_answer){.sent_ms = sent_ms,
                            .now_ms = now_ms,
                            .expected = expected,
                            .entities = entities,
                            .refused = how == REFUSED,
                            .served = how == SERVED,
                            .silent = how == SILENT});
}

/* Sends one request and receives its response in the same millisecond. */
static void ask(
    struct rate *rate, int64_t now_ms, unsigned entities, bool refused)
{
    rate_send(rate, now_ms, entities);
    answered(
        rate, now_ms, now_ms, entities, entities, refused ? REFUSED : SERVED);
}

static struct rate new_rate(void)
{
    struct rate rate;

    rate_init(&rate);
    return rate;
}

/* Returns a rate that has been limited to 1,000 entities a second for 10 s. */
static struct rate limited_rate(void)
{
    struct rate rate = new_rate();

    rate.limited = true;
    rate.per_s = rate.measured = 1000;
    rate.growth = 0.001;
    rate.filled_ms = 1000;
    rate.largest = 100;
    rate.total = 10000;
    rate.busy_ms = 10000;
    rate.refusal_count = 1;
    return rate;
}

TEST(silence_halves_what_may_be_in_flight)
{
    struct rate rate = new_rate();

    for (int i = 0; i < 100; i++)
        ask(&rate, 1000, 1, false);
    for (int i = 0; i < 20; i++)
        rate_send(&rate, 1000, 1);
    assert_true(rate_free_ms(&rate, 1000) == 1000);
    answered(&rate, 1000, 1001, 1, 0, SILENT);
    assert_true(rate_free_ms(&rate, 1001) == INT64_MAX);
    for (int i = 0; i < 10; i++)
        answered(&rate, 1000, 1001, 1, 0, NEITHER);
    assert_true(rate_free_ms(&rate, 1001) == 1001);
    for (int i = 0; i < 9; i++)
        answered(&rate, 1000, 1001, 1, 0, SILENT);
    for (int i = 0; i < 4; i++) {
        assert_true(rate_free_ms(&rate, 1001) == 1001);
        rate_send(&rate, 1001, 1);
    }
    assert_true(rate_free_ms(&rate, 1001) == INT64_MAX);
}

/* The service refuses three requests in ten, whatever the rate of requests
 * is. */
TEST(a_limit_that_is_none_is_given_up)
{
    struct rate rate = limited_rate();

    rate.first = 5000;
    ask(&rate, 1000, 100, true);
    assert_false(rate.limited);
    for (int i = 0; i < 11; i++)
        ask(&rate, 2000 + i, 100, true);
    assert_false(rate.limited);
    ask(&rate, 2011, 100, true);
    assert_true(rate.limited);
}

TEST(the_first_pages_are_small)
{
    struct rate rate = new_rate();

    assert_int_equal(rate_page(&rate), 128);
    ask(&rate, 1000, 128, false);
    assert_int_equal(rate_page(&rate), 256);
    ask(&rate, 1000, 256, false);
    ask(&rate, 1000, 512, false);
    assert_int_equal(rate_page(&rate), 0);
}

TEST(refusals_between_served_requests_limit_nothing)
{
    struct rate rate = new_rate();

    for (int i = 0; i < 100; i++) {
        ask(&rate, 1000 + i, 100, true);
        ask(&rate, 1000 + i, 100, false);
    }
    assert_false(rate.limited);
    for (int i = 0; i < 5; i++)
        ask(&rate, 1100, 100, true);
    assert_false(rate.limited);
    ask(&rate, 1100, 100, true);
    assert_true(rate.limited);
}

/* 2,100 entities were served in 0.05 s. A limit of 2,000 a second explains
 * this, if the full bucket of the service holds as much as is served in a
 * second. */
TEST(the_first_limit_is_what_a_full_bucket_explains)
{
    struct rate rate = new_rate();

    for (int i = 0; i < 21; i++)
        ask(&rate, 10000, 100, false);
    for (int i = 0; i < 6; i++)
        ask(&rate, 10050, 100, true);
    assert_true(rate.limited);
    assert_true(rate.per_s > 1900 && rate.per_s < 2000);
    assert_true(rate.first == rate.per_s && rate.measured == rate.per_s);
    assert_true(rate_free_ms(&rate, 10050) > 10060);
}

TEST(a_service_that_never_served_is_taken_for_an_account)
{
    struct rate rate = new_rate();

    for (int i = 0; i < 6; i++)
        ask(&rate, 10000, 100, true);
    assert_true(rate.per_s == 20000);
    assert_true(rate_free_ms(&rate, 10000) == 11001);
}

TEST(a_request_waits_for_what_the_ones_before_it_took)
{
    struct rate rate = limited_rate();

    assert_true(rate_free_ms(&rate, 1000) == 1000);
    rate_send(&rate, 1000, 100);
    assert_true(rate_free_ms(&rate, 1000) == 1101);
    assert_true(rate_free_ms(&rate, 1101) == 1101);
    assert_int_equal(rate_page(&rate), 500);
}

TEST(a_quarter_of_a_second_is_saved_up)
{
    struct rate rate = limited_rate();

    rate_send(&rate, 1500, 300);
    assert_true(rate_free_ms(&rate, 1500) == 1551);
}

TEST(a_refusal_is_paid_for_once)
{
    struct rate rate = limited_rate();

    rate.per_s = 1100;
    rate.tokens = 200; /* the bucket is not in debt */
    ask(&rate, 1000, 100, true);
    assert_true(rate_free_ms(&rate, 1000) == 1051);
}

TEST(a_rate_that_is_refused_half_the_time_is_learned_again)
{
    struct rate rate = limited_rate();

    rate.recent = 0x5555;
    rate.recent_count = 16;
    ask(&rate, 1000, 10, true);
    assert_true(rate.per_s == 500);
    assert_true(rate.growth == 0.05);
}

TEST(what_was_not_sent_takes_nothing)
{
    struct rate rate = limited_rate();

    rate_send(&rate, 1000, 1000);
    answered(&rate, 1000, 1001, 1000, 0, NEITHER);
    assert_true(rate_free_ms(&rate, 1001) == 1001);
    rate_send(&rate, 1001, 1000);
    answered(&rate, 1001, 1002, 1000, 10, SERVED);
    assert_true(rate_free_ms(&rate, 1002) < 1020);
}

/* 10,000 entities were served in the 10 s since the previous refusal. */
TEST(a_refusal_sets_the_rate_to_what_was_served_since_the_last)
{
    struct rate rate = limited_rate();

    rate.per_s = 1100;
    ask(&rate, 1000, 100, true);
    assert_true(rate.per_s == 1000);
    /* A measured limit above the rate does not raise the rate. */
    rate = limited_rate();
    rate.per_s = 900;
    ask(&rate, 1000, 100, true);
    assert_true(rate.per_s == 900);
    /* One measurement lowers the rate to no less than half. */
    rate = limited_rate();
    rate.per_s = 4000;
    ask(&rate, 1000, 100, true);
    assert_true(rate.per_s == 2000);
}

/* Refusals of requests that were sent before the rate fell do not lower it
 * again, because they were sent at the former rate. */
TEST(a_rate_falls_once_for_all_that_were_in_flight)
{
    struct rate rate = limited_rate();

    rate.per_s = 1100;
    for (int i = 0; i < 4; i++)
        rate_send(&rate, 1000, 10);
    for (int i = 0; i < 4; i++) {
        answered(&rate, 1000, 1010, 10, 10, REFUSED);
        assert_true(rate.per_s > 999 && rate.per_s < 1001);
    }
}

TEST(too_little_served_lowers_the_rate_by_little)
{
    struct rate rate = limited_rate();

    rate.refusals[0].total = rate.total - 399;
    ask(&rate, 1000, 100, true);
    assert_true(rate.per_s == 970);
    assert_true(rate_free_ms(&rate, 1000) > 1100);
}

/* Requests below the rate do not show that the limit is higher. */
TEST(a_limited_rate_rises_only_where_it_limits)
{
    struct rate rate = limited_rate();

    ask(&rate, 2000, 10, false);
    assert_true(rate.per_s == 1000);
    ask(&rate, 2010, 1000, false);
    assert_true(rate.per_s > 1000.5 && rate.per_s < 1002);
}

TEST(a_limit_that_is_confirmed_is_tried_less_often)
{
    struct rate rate = limited_rate();

    rate.growth = 0.02; /* a refusal is expected after ten requests */
    rate.calm = 10;
    ask(&rate, 1000, 100, true);
    assert_true(rate.growth == 0.0025);
    for (int i = 0; i < 250; i++)
        ask(&rate, 2000, 1, false);
    assert_true(rate.growth == 0.005);
}

TEST(a_refusal_before_its_time_is_chance)
{
    struct rate rate = limited_rate();

    rate.growth = 0.01;
    rate.calm = 14;
    ask(&rate, 1000, 100, true);
    assert_true(rate.growth == 0.03);
    rate = limited_rate();
    rate.growth = 0.03; /* growth never exceeds its first value */
    ask(&rate, 1000, 100, true);
    assert_true(rate.growth == 0.05);
}

TEST(another_partition_begins_with_what_one_has_taught)
{
    struct rate one = limited_rate(), rate;

    rate_init_like(&rate, &one, 5000);
    assert_true(rate.limited);
    assert_true(rate.per_s == 1000);
    assert_true(rate_free_ms(&rate, 5000) == 5000);
    one.limited = false;
    rate_init_like(&rate, &one, 5000);
    assert_false(rate.limited);
}
