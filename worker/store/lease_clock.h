/* SPDX-License-Identifier: MIT */
/*
 * What the Date of responses shows about a lease. CLOCK_BOOTTIME does not
 * advance while a hypervisor pauses the virtual machine or moves it to another
 * host, but the clocks of the services do. So no deadline on the local clock
 * notices such a pause; the first response after it does:
 *
 *   over      The ledger's service shows LeaseUntil or later. Another worker
 *             may own the run, so no further request starts for it. A service
 *             with a steady clock shows this only after the deadline, however
 *             wrong its clock is.
 *   in doubt  The clock of any store has advanced further than the local one.
 *             That store may belong to another account than the ledger's, and
 *             its clock may be wrong by any amount, so each clock is compared
 *             only with itself. No request starts until a renewal that was sent
 *             after the jump has been stored, because only the ledger shows
 *             which worker owns the run. Each step of a store's clock costs one
 *             renewal.
 *
 * Two responses of one store have Dates D1 and D2 (whole seconds), their
 * requests were sent at s1 and s2, the responses arrived at a1 and a2. If the
 * clocks of the store's servers differ by 2 s at most, the service's clock has
 * advanced by D2 - D1 - 3 s at least, the local one by a2 - s1 at most.
 *
 * No lock: any thread may call any function, but only the one thread that
 * renews the lease calls lease_clock_take() and lease_clock_renew().
 */
#ifndef TW_STORE_LEASE_CLOCK_H
#define TW_STORE_LEASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct store;

/* Maximum number of stores of a run whose clocks are compared, the ledger's
 * included. */
#define LEASE_CLOCK_STORES 4

struct lease_clock {
    const struct store *ledger; /* borrowed, like stores[].store */
    int64_t tolerance_ms;       /* accepted difference between the clocks of one
                                   store's servers */
    _Atomic int64_t until_ticks; /* LeaseUntil as last stored in the ledger */
    _Atomic int64_t date_ticks;  /* the ledger's latest Date; 0: none */
    _Atomic uint32_t jumps; /* how often a store's clock advanced further than
                               the local clock */
    _Atomic uint32_t jumps_answered; /* value of jumps just before the last
                                        stored renewal was sent */
    struct {
        _Atomic(const struct store *) store;
        _Atomic int64_t
            ahead_ms; /* upper bound of how far the store's clock is ahead of
                         the boot clock: see lease_clock.c */
    } stores[LEASE_CLOCK_STORES];
};

/* A response with a Date. Times are platform_boot_ms(). */
struct lease_response {
    int64_t date_ticks, sent_ms, answered_ms;
};

/* lease_clock_init: begin with a lease that is neither over nor in doubt. */
void lease_clock_init(struct lease_clock *clock, const struct store *ledger,
    int64_t visibility_timeout_ms);

/* lease_clock_note: record a response of the table service of store. */
void lease_clock_note(struct lease_clock *clock, const struct store *store,
    const struct lease_response *response);

/* lease_clock_ledger_ms: return an upper bound of the ledger's clock at boot
 * time at_ms, in milliseconds; 0: the ledger has not responded yet. The bound
 * is computed from the ledger's responses since the last jump of its clock.
 * Servers of the ledger may differ by 2 s, so the clock of one server may
 * exceed the bound by 2 s. */
int64_t lease_clock_ledger_ms(const struct lease_clock *clock, int64_t at_ms);

/* lease_clock_take: call when the lease is acquired and LeaseUntil is stored.
 */
void lease_clock_take(struct lease_clock *clock, int64_t until_ticks);

/* State of the clock before a renewal is sent; the stored renewal confirms that
 * the lease was valid in this state. */
struct lease_mark {
    uint32_t jumps;
    int64_t date_ticks;
};

/* lease_clock_mark: call before a renewal is sent. lease_clock_renew: call with
 * that mark when the renewal is stored; until_ticks: its LeaseUntil. */
struct lease_mark lease_clock_mark(const struct lease_clock *clock);
void lease_clock_renew(struct lease_clock *clock, const struct lease_mark *mark,
    int64_t until_ticks);

bool lease_clock_is_over(const struct lease_clock *clock);
bool lease_clock_in_doubt(const struct lease_clock *clock);

#endif
