/* SPDX-License-Identifier: MIT */
/*
 * What the Date of responses shows about a lease.
 *
 * For each store one number is kept: an upper bound of how far the store's
 * clock is ahead of the boot clock. Each response gives an upper bound (the end
 * of Date's second less the time of sending) and a lower bound (Date less the
 * time of arrival). The number is the least upper bound so far. If a lower
 * bound exceeds the number by more than the clocks of the store's servers may
 * differ, the machine was paused: this counts as a jump, and the number starts
 * over.
 *
 * Clocks also drift, those with a quartz by less than 1 in 1,000. So a bound
 * grows by 1 in 1,024 of the time since its response. A bound is stored as its
 * value at boot time 0, so that bounds of different times can be compared.
 */
#include "worker/store/lease_clock.h"

#include "worker/base/text.h"

/* Accepted difference between the clocks of one store's servers: a sixth of the
 * visibility timeout, but at least 2 s and at most 20 s. A pause of that length
 * is always covered by the time which the deadline keeps free for a request
 * (deadline.h). worker/DESIGN.md lists the effects of a pause that is too short
 * to be detected. */
#define DIFFER_MS 2000
#define DIFFER_SHARE 6
#define DIFFER_MOST_MS 20000
#define DATE_MS 1000 /* Date has whole seconds, rounded down */
#define DRIFT_SHARE 1024
#define UNKNOWN INT64_MAX

void lease_clock_init(struct lease_clock *clock, const struct store *ledger,
    int64_t visibility_timeout_ms)
{
    int64_t share_ms = visibility_timeout_ms / DIFFER_SHARE;

    clock->ledger = ledger;
    if (share_ms > DIFFER_MOST_MS)
        share_ms = DIFFER_MOST_MS;
    clock->tolerance_ms = share_ms > DIFFER_MS ? share_ms : DIFFER_MS;
    atomic_init(&clock->until_ticks, INT64_MAX);
    atomic_init(&clock->date_ticks, 0);
    atomic_init(&clock->jumps, 0);
    atomic_init(&clock->jumps_answered, 0);
    for (size_t i = 0; i < LEASE_CLOCK_STORES; i++) {
        atomic_init(&clock->stores[i].store, NULL);
        atomic_init(&clock->stores[i].ahead_ms, UNKNOWN);
    }
}

/* Returns the number that is kept for store. The first call for a store gives
 * it an unused entry. NULL: all entries are used by other stores. */
static _Atomic int64_t *ahead_of(
    struct lease_clock *clock, const struct store *store)
{
    for (size_t i = 0; i < LEASE_CLOCK_STORES; i++) {
        const struct store *is = NULL;

        if (atomic_compare_exchange_strong(
                &clock->stores[i].store, &is, store) ||
            is == store)
            return &clock->stores[i].ahead_ms;
    }
    return NULL;
}

static void keep_least(_Atomic int64_t *to, int64_t value)
{
    int64_t is = atomic_load(to);

    while (value < is && !atomic_compare_exchange_weak(to, &is, value))
        continue;
}

static void keep_latest(_Atomic int64_t *to, int64_t value)
{
    int64_t is = atomic_load(to);

    while (value > is && !atomic_compare_exchange_weak(to, &is, value))
        continue;
}

/* Counts a jump if the store's clock has advanced further than the local one.
 */
static void compare(struct lease_clock *clock, _Atomic int64_t *ahead_ms,
    const struct lease_response *response)
{
    int64_t date_ms = response->date_ticks / TICKS_PER_MS;
    int64_t most_ms =
        date_ms + DATE_MS - response->sent_ms - response->sent_ms / DRIFT_SHARE;
    int64_t least_ms = date_ms - response->answered_ms;
    int64_t known_ms = atomic_load(ahead_ms);

    if (known_ms == UNKNOWN ||
        least_ms <= known_ms + response->answered_ms / DRIFT_SHARE +
                        clock->tolerance_ms) {
        keep_least(ahead_ms, most_ms);
        return;
    }
    atomic_fetch_add(&clock->jumps, 1);
    atomic_store(ahead_ms, most_ms);
}

void lease_clock_note(struct lease_clock *clock, const struct store *store,
    const struct lease_response *response)
{
    _Atomic int64_t *ahead_ms = ahead_of(clock, store);

    if (store == clock->ledger)
        keep_latest(&clock->date_ticks, response->date_ticks);
    if (ahead_ms)
        compare(clock, ahead_ms, response);
}

int64_t lease_clock_ledger_ms(const struct lease_clock *clock, int64_t at_ms)
{
    for (size_t i = 0; i < LEASE_CLOCK_STORES; i++) {
        int64_t ahead_ms = atomic_load(&clock->stores[i].ahead_ms);

        if (atomic_load(&clock->stores[i].store) == clock->ledger &&
            ahead_ms != UNKNOWN)
            return ahead_ms + at_ms + at_ms / DRIFT_SHARE;
    }
    return 0;
}

void lease_clock_take(struct lease_clock *clock, int64_t until_ticks)
{
    atomic_store(&clock->until_ticks, until_ticks);
}

struct lease_mark lease_clock_mark(const struct lease_clock *clock)
{
    return (struct lease_mark){.jumps = atomic_load(&clock->jumps),
        .date_ticks = atomic_load(&clock->date_ticks)};
}

/* Forgets a Date from before the renewal, because it may be later than the
 * renewed LeaseUntil if the ledger's clock has been set back. */
void lease_clock_renew(struct lease_clock *clock, const struct lease_mark *mark,
    int64_t until_ticks)
{
    int64_t before = mark->date_ticks;

    atomic_store(&clock->until_ticks, until_ticks);
    (void)atomic_compare_exchange_strong(&clock->date_ticks, &before, 0);
    atomic_store(&clock->jumps_answered, mark->jumps);
}

bool lease_clock_is_over(const struct lease_clock *clock)
{
    return atomic_load(&clock->date_ticks) >= atomic_load(&clock->until_ticks);
}

bool lease_clock_in_doubt(const struct lease_clock *clock)
{
    return atomic_load(&clock->jumps) != atomic_load(&clock->jumps_answered);
}
