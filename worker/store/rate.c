/* SPDX-License-Identifier: MIT */
/* A token bucket that learns its rate. */
#include "worker/store/rate.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define MS_PER_S 1000.0

/* Maximum of saved tokens: those that the current rate gives in this time.
 * Saved tokens compensate for a thread that woke late. The service itself
 * allows the entities of a whole second at once. */
#define BURST_S 0.25
/* If more tokens are saved than the rate gives in this time, the rate is not
 * what limits the requests. */
#define SPARE_S 0.1
#define LEAST_PER_S 10.0
/* Minimum of a first estimate, which is based on few requests. */
#define FIRST_PER_S 200.0
/* The limit to begin with if nothing was served yet: the published limit of an
 * account. */
#define UNKNOWN_PER_S 20000.0

#define FIRST_IN_FLIGHT 4
/* Maximum size of the first page, in entities. The first pages are small,
 * because a page larger than the service's saved tokens puts the service's
 * bucket into debt for seconds. */
#define FIRST_PAGE 128
#define LARGEST_PAGE 1000

/* An open rate becomes limited when its score (refusals less served requests)
 * reaches this number, which doubles with each limit that was found not to
 * exist. If one request in ten is refused at random, one sequence of responses
 * in 500,000 reaches it. */
#define SCORE_LIMITED 6

/* Growth: at first 5 % a request, because the rate is a guess. Each refusal
 * that confirms the rate divides the growth by 8, down to GROWTH_LEAST. Every
 * CALM served requests without a refusal double it. Once the limit is found,
 * about one request in 150 is refused. */
#define GROWTH_FIRST 0.05
#define GROWTH_LEAST 0.0005
#define GROWTH_CONFIRMED (1.0 / 8)
#define CALM 250
/* A rate that starts at the limit and grows by g with each request is refused
 * after sqrt(2 / g) requests, and later if it starts below the limit, as it
 * does. So a refusal before TOO_SOON times this number of requests does not
 * come from a limit; the growth is then multiplied by GROWTH_TOO_SOON. */
#define TOO_SOON 1.0
#define GROWTH_TOO_SOON 3
/* Factors of growth for a response to a request that was in flight at a
 * refusal. Such responses distinguish a limit from chance: at a limit nearly
 * all are refusals, by chance nearly none. */
#define GROWTH_ALSO_REFUSED (1.0 / 2)
#define GROWTH_STILL_SERVED 1.2

/* A limit is measured only if at least this many times the entities of the
 * largest request were served since the oldest recorded refusal. */
#define MEASURED_REQUESTS 4
/* One measurement lowers the rate to no less than this share of it. */
#define FALL_MOST 0.5
/* Factor of the rate if too little was served to measure a limit, because the
 * service's bucket is still in debt. */
#define FALL_EARLY 0.97

/* If a limit is measured below this share of its first estimate, it is assumed
 * not to exist. */
#define REFUTED (1.0 / 4)
/* Maximum number of refuted limits that raise SCORE_LIMITED. */
#define REFUTED_MOST 3

/* If the service refuses this share of recent requests although they keep to
 * the limit that was measured, its limit has changed. */
#define OVERDONE 0.4
#define OVERDONE_LEAST 16
/* Mask of the last 8 responses. If all 8 were refusals, the service serves
 * nothing, however slowly the requests come. The next request is then sent
 * after 1, 2, 4, 4 ... s. */
#define DEAD 0xff
#define PAUSE_DOUBLED 2

void rate_init(struct rate *rate)
{
    memset(rate, 0, sizeof(*rate));
    rate->reacted_ms = INT64_MIN;
    rate->allowed = FIRST_IN_FLIGHT;
}

/* ---- tokens ---- */

static double tokens_at(const struct rate *rate, int64_t now_ms)
{
    double tokens = rate->tokens +
                    (double)(now_ms - rate->filled_ms) * rate->per_s / MS_PER_S;

    return tokens < rate->per_s * BURST_S ? tokens : rate->per_s * BURST_S;
}

/* Returns for how many milliseconds there were no spare tokens, since tokens
 * was last computed. */
static double busy_ms(const struct rate *rate, int64_t now_ms)
{
    double since_ms = (double)(now_ms - rate->filled_ms);
    double full_ms =
        MS_PER_S *
        (SPARE_S - rate->tokens / rate->per_s); /* until tokens are spare */

    if (full_ms < 0)
        return 0;
    return full_ms < since_ms ? full_ms : since_ms;
}

static void fill(struct rate *rate, int64_t now_ms)
{
    if (now_ms <= rate->filled_ms)
        return;
    if (rate->limited) {
        rate->busy_ms += busy_ms(rate, now_ms);
        rate->tokens = tokens_at(rate, now_ms);
    }
    rate->filled_ms = now_ms;
}

/* Sets the rate from now on; no request starts for pause_s. */
static void set_rate(
    struct rate *rate, double per_s, int64_t now_ms, double pause_s)
{
    rate->per_s = per_s > LEAST_PER_S ? per_s : LEAST_PER_S;
    rate->tokens = -pause_s * rate->per_s;
    rate->filled_ms = now_ms;
    rate->reacted_ms = now_ms;
}

int64_t rate_free_ms(const struct rate *rate, int64_t now_ms)
{
    double tokens;

    if (!rate->limited)
        return rate->in_flight < rate->allowed ? now_ms : INT64_MAX;
    tokens = tokens_at(rate, now_ms);
    if (tokens >= 0)
        return now_ms;
    return now_ms + 1 + (int64_t)(-tokens * MS_PER_S / rate->per_s);
}

void rate_send(struct rate *rate, int64_t now_ms, unsigned entities)
{
    rate->in_flight++;
    fill(rate, now_ms);
    rate->tokens -= entities;
}

unsigned rate_page(const struct rate *rate)
{
    if (rate->limited)
        return rate->per_s < 2 ? 1 : (unsigned)(rate->per_s / 2);
    if (rate->total < LARGEST_PAGE - FIRST_PAGE)
        return FIRST_PAGE + (unsigned)rate->total;
    return 0;
}

/* ---- what was served ---- */

static void move_ticks(struct rate *rate, int64_t now_ms)
{
    int64_t tick = now_ms / RATE_TICK_MS;

    if (tick - rate->tick >= RATE_TICKS) {
        memset(rate->ticks, 0, sizeof(rate->ticks));
        rate->tick = tick;
    }
    while (rate->tick < tick)
        rate->ticks[++rate->tick % RATE_TICKS] = 0;
}

static void note_served(struct rate *rate, const struct rate_answer *answer)
{
    move_ticks(rate, answer->now_ms);
    rate->ticks[rate->tick % RATE_TICKS] += answer->entities;
    rate->total += answer->entities;
    if (answer->entities > rate->largest)
        rate->largest = answer->entities;
    else
        rate->largest -= (rate->largest - answer->entities) / 16;
    if (rate->allowed < UINT_MAX / 2)
        rate->allowed++;
}

/*
 * Estimates the limit at the first refusals, when the service's token bucket is
 * empty. Since the bucket was last full, the service has served a full bucket
 * (one second at the limit) and what flowed in since. So for each recorded
 * tick, the number of entities served since that tick is divided by the time
 * since that tick plus one second. The greatest result is that of the tick at
 * which the bucket was full; if there was no such tick, the limit is higher
 * than the result. Half of the largest request is subtracted, because the last
 * request may have exceeded what was left in the bucket.
 */
static double first_limit(struct rate *rate, int64_t now_ms)
{
    double sum = -(double)rate->largest / 2, most = 0;

    move_ticks(rate, now_ms);
    /* The boot clock may have started less than RATE_TICKS ticks ago. */
    for (int64_t back = 0; back < RATE_TICKS && back <= rate->tick; back++) {
        int64_t tick = rate->tick - back;
        double since_s = (double)(now_ms - tick * RATE_TICK_MS) / MS_PER_S;

        sum += rate->ticks[tick % RATE_TICKS];
        if (sum / (since_s + 1) > most)
            most = sum / (since_s + 1);
    }
    return most;
}

static void note_refusal(struct rate *rate)
{
    unsigned at = rate->refusal_count++ % RATE_REFUSALS;

    rate->refusals[at].busy_ms = rate->busy_ms;
    rate->refusals[at].total = rate->total;
}

/* Measures the limit by what was served since the oldest recorded refusal.
 * False: too little was served. */
static bool measure_limit(const struct rate *rate, double *ret)
{
    unsigned oldest = rate->refusal_count < RATE_REFUSALS
                          ? 0
                          : rate->refusal_count % RATE_REFUSALS;
    double since_ms = rate->busy_ms - rate->refusals[oldest].busy_ms;
    double served = (double)(rate->total - rate->refusals[oldest].total);

    if (since_ms <= 0 || served < MEASURED_REQUESTS * (double)rate->largest)
        return false;
    *ret = served * MS_PER_S / since_ms;
    return true;
}

/* ---- refusals ---- */

static void grow(struct rate *rate, double by)
{
    rate->growth *= by;
    if (rate->growth > GROWTH_FIRST)
        rate->growth = GROWTH_FIRST;
    if (rate->growth < GROWTH_LEAST)
        rate->growth = GROWTH_LEAST;
}

/* Returns for how many seconds the service's bucket may be in debt: the time in
 * which the limit allows the entities of the largest request. */
static double debt_s(const struct rate *rate, double per_s)
{
    return rate->largest / per_s;
}

/* Limits the rate from now on, to about per_s, which is a first estimate. */
static void begin(
    struct rate *rate, double per_s, int64_t now_ms, double pause_s)
{
    set_rate(rate, per_s, now_ms, pause_s);
    rate->limited = true;
    rate->growth = GROWTH_FIRST;
    rate->first = rate->measured = rate->per_s;
    rate->recent = 0;
    rate->recent_count = 0;
    rate->refusal_count = 0;
}

void rate_init_like(struct rate *rate, const struct rate *other, int64_t now_ms)
{
    rate_init(rate);
    if (!other->limited)
        return;
    begin(rate, other->measured, now_ms, 0);
    rate->growth = other->growth;
    rate->largest = other->largest;
    note_refusal(rate);
}

static void refuse_open(struct rate *rate, int64_t now_ms)
{
    double limit;

    rate->score += 1;
    if (rate->score < SCORE_LIMITED << rate->refuted)
        return;
    rate->score = 0;
    limit = first_limit(rate, now_ms);
    if (limit == 0)
        begin(rate, UNKNOWN_PER_S, now_ms, 1);
    else
        begin(rate, limit > FIRST_PER_S ? limit : FIRST_PER_S, now_ms,
            debt_s(rate, limit) / 2);
    note_refusal(rate);
}

static bool is_overdone(const struct rate *rate)
{
    unsigned refused = (unsigned)__builtin_popcountll(rate->recent);
    unsigned count = rate->recent_count < 64 ? rate->recent_count : 64;

    return count >= OVERDONE_LEAST && refused > OVERDONE * count;
}

static void refuse_overdone(struct rate *rate, int64_t now_ms)
{
    if ((rate->recent & DEAD) == DEAD) {
        unsigned doubled =
            rate->pauses < PAUSE_DOUBLED ? rate->pauses : PAUSE_DOUBLED;

        rate->pauses++;
        set_rate(rate, rate->per_s, now_ms, 1 << doubled);
    } else {
        memset(rate->ticks, 0, sizeof(rate->ticks));
        begin(rate, rate->per_s / 2, now_ms, BURST_S * 2);
    }
}

static void reopen(struct rate *rate, int64_t now_ms)
{
    rate->limited = false;
    rate->score = 0;
    rate->reacted_ms = now_ms;
    if (rate->refuted < REFUTED_MOST)
        rate->refuted++;
}

static bool is_too_soon(const struct rate *rate)
{
    return rate->calm < TOO_SOON * sqrt(2 / rate->growth);
}

static void refuse_limited(struct rate *rate, int64_t now_ms)
{
    double limit, owed_s;

    if (!measure_limit(rate, &limit)) {
        grow(rate, GROWTH_ALSO_REFUSED);
        rate->calm = 0;
        set_rate(
            rate, rate->per_s * FALL_EARLY, now_ms, debt_s(rate, rate->per_s));
        return;
    }
    grow(rate, is_too_soon(rate) ? GROWTH_TOO_SOON : GROWTH_CONFIRMED);
    rate->calm = 0;
    if (limit < rate->first * REFUTED) {
        reopen(rate, now_ms);
        return;
    }
    if (limit < rate->per_s * FALL_MOST)
        limit = rate->per_s * FALL_MOST;
    if (limit > rate->per_s)
        limit = rate->per_s;
    rate->measured = limit;
    owed_s = rate->tokens < 0 ? -rate->tokens / rate->per_s : 0;
    set_rate(rate, limit, now_ms, owed_s + debt_s(rate, limit) / 2);
    note_refusal(rate);
}

static void take_refusal(struct rate *rate, int64_t now_ms)
{
    fill(rate, now_ms);
    if (!rate->limited) {
        refuse_open(rate, now_ms);
    } else if (is_overdone(rate)) {
        refuse_overdone(rate, now_ms);
        note_refusal(rate);
    } else {
        refuse_limited(rate, now_ms);
    }
}

static void take_served(struct rate *rate, const struct rate_answer *answer)
{
    note_served(rate, answer);
    rate->pauses = 0;
    if (!rate->limited) {
        rate->score = rate->score < 1 ? 0 : rate->score - 1;
        return;
    }
    if (++rate->calm % CALM == 0)
        grow(rate, 2);
    if (rate->tokens <= rate->per_s * SPARE_S)
        rate->per_s *= 1 + rate->growth;
}

static void allow_half(struct rate *rate)
{
    if (rate->allowed > rate->in_flight)
        rate->allowed = rate->in_flight;
    rate->allowed /= 2;
    if (rate->allowed < FIRST_IN_FLIGHT)
        rate->allowed = FIRST_IN_FLIGHT;
}

void rate_answered(struct rate *rate, const struct rate_answer *answer)
{
    bool is_news = answer->sent_ms > rate->reacted_ms;

    if (answer->silent)
        allow_half(rate);
    rate->in_flight--;
    fill(rate, answer->now_ms);
    if (rate->limited && !answer->refused)
        rate->tokens += (double)answer->expected - (double)answer->entities;
    if (!answer->refused && !answer->served)
        return;
    if (is_news) {
        rate->recent = rate->recent << 1 | answer->refused;
        rate->recent_count++;
    } else {
        grow(rate, answer->refused ? GROWTH_ALSO_REFUSED : GROWTH_STILL_SERVED);
    }
    if (answer->served)
        take_served(rate, answer);
    else if (is_news)
        take_refusal(rate, answer->now_ms);
}
