/* SPDX-License-Identifier: MIT */
/*
 * How many entities a second may be requested from one partition or one
 * account: a token bucket that learns its rate from refusals (429, 503). Pure
 * arithmetic; the caller has the clock and the lock.
 *
 * Open: no limit. The allowed number of requests in flight doubles with each
 * round trip, and halves with each request without a response. Single refusals
 * do not limit the rate, because some services refuse at random at any rate, so
 * that a slower client would gain nothing. The rate becomes limited when a
 * sequence of responses has six more refusals than served requests.
 *
 * Limited: at a refusal the service's own bucket is empty. So what the service
 * served between two refusals flowed into that bucket meanwhile, and the limit
 * is that amount divided by the time. Each refusal sets the rate to this limit;
 * between refusals each served request raises it a little. A refusal that comes
 * too early for a limit of this size counts as random, and the rate then rises
 * faster. If the measured limit is far below the first estimate, the service
 * has no limit, but refuses the same share of the requests at any rate. The
 * rate then becomes open again, and it takes twice as many refusals to limit
 * it.
 *
 * Source: Azure's "Scalability and performance targets for Table storage":
 * entities a second for a partition and for an account. Our measurements: a
 * second's worth of entities may be requested at once.
 */
#ifndef TW_STORE_RATE_H
#define TW_STORE_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Served entities are counted per eighth of a second, for 8 s. */
#define RATE_TICK_MS 125
#define RATE_TICKS 64

/* Number of last refusals over which the limit is measured. */
#define RATE_REFUSALS 3

struct rate {
    bool limited;
    double per_s;       /* the limit, entities a second; used while limited */
    double tokens;      /* a request may start while this is not negative */
    int64_t filled_ms;  /* when tokens was last computed */
    double growth;      /* share of per_s added by each served request */
    double first;       /* the first estimate of the limit */
    double measured;    /* the limit as last measured */
    int64_t reacted_ms; /* time of the last change of the rate; requests sent
                           before it were sent at another rate */

    unsigned in_flight;
    unsigned allowed; /* maximum number of requests in flight while the rate is
                         open */
    double score;     /* refusals minus served requests, while the rate is
                         open */
    unsigned refuted; /* number of limits found not to exist */
    uint64_t recent;  /* one bit for each of the last 64 responses: set if it
                         was a refusal */
    unsigned recent_count;
    unsigned calm;    /* number of served requests since the last refusal */
    unsigned pauses;  /* number of pauses while the service refused
                         everything */
    unsigned largest; /* size of the largest served request, in entities */

    uint32_t ticks[RATE_TICKS]; /* entities served per tick; a ring */
    int64_t tick;               /* number of the newest tick */
    uint64_t total;             /* entities served so far */
    double busy_ms; /* time during which the rate delayed requests */
    struct {
        double busy_ms;
        uint64_t total;
    } refusals[RATE_REFUSALS]; /* busy_ms and total at the last refusals; a
                                  ring */
    unsigned refusal_count;
};

/* rate_init: begin with an open rate. */
void rate_init(struct rate *rate);

/* rate_init_like: begin with the limit of `other`, because rate is expected to
 * have the same limit; the rate rises from there. If `other` is open, rate is
 * open. */
void rate_init_like(
    struct rate *rate, const struct rate *other, int64_t now_ms);

/* rate_free_ms: return when a request may start (boot clock); now_ms: at once;
 * INT64_MAX: only after a request in flight has ended. */
int64_t rate_free_ms(const struct rate *rate, int64_t now_ms);

/* rate_send: count a request that starts; entities: the expected number. */
void rate_send(struct rate *rate, int64_t now_ms, unsigned entities);

/* A response, or the end of a request without one. */
struct rate_answer {
    int64_t sent_ms, now_ms; /* boot clock */
    unsigned expected;       /* number of entities, as given to rate_send() */
    unsigned entities;       /* number actually read or written */
    bool refused; /* throttled; the expected entities count as sent */
    bool served;  /* if neither refused nor served is set, the rate does not
                     change */
    bool silent;  /* no response: too many may be in flight */
};
void rate_answered(struct rate *rate, const struct rate_answer *answer);

/* rate_page: return how many entities one page should request at most; 0: no
 * limit. While the rate is limited, the result is half of the entities that the
 * rate allows in a second. While the rate is open, the result is 128 plus the
 * number of entities served so far; once this sum reaches 1,000, 0. */
unsigned rate_page(const struct rate *rate);

#endif
