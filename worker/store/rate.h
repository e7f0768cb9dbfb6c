/* SPDX-License-Identifier: MIT */
/*
 * How many entities a second may be asked of one partition, or of one account:
 * a token bucket that learns its rate from refusals (429, 503). Pure
 * arithmetic; the caller has the clock and the lock.
 *
 * Open: nothing is limited, and the number of requests in flight doubles with
 * each round trip, and halves with each request that has no response. Refusals
 * that come one at a time do not end this: some services refuse by chance,
 * whatever is asked of them, and a slower client would gain nothing. Six
 * refusals more than served requests, in one run of answers, do.
 *
 * Limited: at a refusal the service's own bucket is empty. So what it served
 * between two refusals is what flowed into that bucket meanwhile, and its limit
 * is that, divided by the time. The rate is set to this at each refusal, and
 * rises between refusals, a little with each request that was served. Where
 * refusals come sooner than this explains, they are by chance, and it rises
 * faster.
 * A limit that is measured as far below its first estimate is none: whatever is
 * asked for, the service refuses as much. The rate is open again, and it takes
 * twice as many refusals to end that.
 *
 * Source: Azure's "Scalability and performance targets for Table storage": so
 * many entities a second, for a partition and for an account. That a second's
 * worth may be asked for at once is measured.
 */
#ifndef TW_STORE_RATE_H
#define TW_STORE_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* What was served is remembered by the eighth of a second, for 8 s. */
#define RATE_TICK_MS 125
#define RATE_TICKS 64

/* Between so many refusals the limit is measured. */
#define RATE_REFUSALS 3

struct rate {
    bool limited;
    double per_s;       /* entities; of a limited rate, as all below it */
    double tokens;      /* a request may start while there are any */
    int64_t filled_ms;  /* when they were counted */
    double growth;      /* the share of per_s that one served request adds */
    double first;       /* the first estimate of this limit */
    double measured;    /* the limit as last measured */
    int64_t reacted_ms; /* the last change; what was sent before it was sent at
                           another rate */

    unsigned in_flight;
    unsigned allowed; /* in flight at once, while open */
    double score;     /* refusals less served requests, while open */
    unsigned refuted; /* limits that turned out to be none */
    uint64_t recent;  /* the last 64 answers, a bit each: refused */
    unsigned recent_count;
    unsigned calm;    /* served requests since the last refusal */
    unsigned pauses;  /* of a service that refused everything */
    unsigned largest; /* of the requests that were served, entities */

    uint32_t ticks[RATE_TICKS]; /* entities served; a ring */
    int64_t tick;               /* of the newest one */
    uint64_t total;             /* entities served, ever */
    double busy_ms; /* the time in which the rate was what held requests up */
    struct {
        double busy_ms;
        uint64_t total;
    } refusals[RATE_REFUSALS]; /* the last ones; a ring */
    unsigned refusal_count;
};

/* rate_init: open. */
void rate_init(struct rate *rate);

/* rate_init_like: limited as another one is, of which as much is expected: it
 * rises from there. Open where that one is. */
void rate_init_like(
    struct rate *rate, const struct rate *other, int64_t now_ms);

/* rate_free_ms: when a request may start (boot clock); not later than now_ms:
 * now. INT64_MAX: not before one that is in flight has ended. */
int64_t rate_free_ms(const struct rate *rate, int64_t now_ms);

/* rate_send: a request that is expected to ask for so many entities starts. */
void rate_send(struct rate *rate, int64_t now_ms, unsigned entities);

/* An answer, or the end of a request that has none. */
struct rate_answer {
    int64_t sent_ms, now_ms; /* boot clock */
    unsigned expected;       /* as given to rate_send() */
    unsigned entities;       /* that it read or wrote, as it turned out */
    bool refused;            /* for being too many: they count as expected */
    bool served;             /* neither: it says nothing about the rate */
    bool silent; /* nor was there a response: as many at once may be too many */
};
void rate_answered(struct rate *rate, const struct rate_answer *answer);

/* rate_page: how many entities one page should ask for at most: no more than
 * what one request at a time has shown to be served, and half a second's worth
 * of a limited rate; 0: any number. */
unsigned rate_page(const struct rate *rate);

#endif
