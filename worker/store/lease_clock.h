/* SPDX-License-Identifier: MIT */
/*
 * What the Date of responses shows about a lease. CLOCK_BOOTTIME does not
 * advance while a hypervisor pauses the virtual machine or moves it to another
 * host, but the clocks of the services do. So no deadline on the local clock
 * notices such a pause; the first response after it does:
 *
 *   over      The ledger's service shows LeaseUntil or later. Another worker
 *             may own the run: no further request starts for it. A service
 *             with a steady clock shows this only after the deadline, however
 *             wrong its clock is.
 *   in doubt  The clock of any store has advanced further than the local one.
 *             It may belong to another account than the ledger's and be wrong
 *             by any amount, so it is compared only with itself. No request
 *             starts until a renewal that was sent afterwards has been
 *             stored: only the ledger shows which worker owns the run.
 *             A store whose clock steps costs one renewal for each step.
 *
 * Two responses of one store have Dates D (whole seconds), their requests were
 * sent at s, they arrived at a, and the clocks of its servers differ by 2 s:
 * the service's clock has advanced by D2 - D1 - 3 s at least, the local one by
 * a2 - s1 at most.
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

/* The clocks of this many stores of a run are compared; the ledger's is one. */
#define LEASE_CLOCK_STORES 4

struct lease_clock {
    const struct store *ledger;  /* borrowed, as all stores below */
    int64_t tolerance_ms;        /* between two clocks of one store */
    _Atomic int64_t until_ticks; /* LeaseUntil as last stored in the ledger */
    _Atomic int64_t date_ticks;  /* the ledger's latest Date; 0: none */
    _Atomic uint32_t jumps;      /* how often a store's clock was ahead */
    _Atomic uint32_t
        jumps_answered; /* jumps before the last renewal was sent */
    struct {
        _Atomic(const struct store *) store;
        _Atomic int64_t ahead_ms; /* see lease_clock.c */
    } stores[LEASE_CLOCK_STORES];
};

/* A response with a Date. Times are platform_boot_ms(). */
struct lease_response {
    int64_t date_ticks, sent_ms, answered_ms;
};

/* lease_clock_init: the lease is neither over nor in doubt. */
void lease_clock_init(struct lease_clock *clock, const struct store *ledger,
    int64_t visibility_timeout_ms);

/* lease_clock_note: record a response of the table service of store. */
void lease_clock_note(struct lease_clock *clock, const struct store *store,
    const struct lease_response *response);

/* lease_clock_ledger_ms: an upper bound of the ledger's clock at boot time
 * at_ms, in milliseconds, by its responses since its last jump; a server may
 * exceed it by the servers' difference of 2 s. 0: no response yet. */
int64_t lease_clock_ledger_ms(const struct lease_clock *clock, int64_t at_ms);

/* lease_clock_take: the lease was acquired; LeaseUntil is stored. */
void lease_clock_take(struct lease_clock *clock, int64_t until_ticks);

/* What is known before a renewal is sent, and confirmed when it is stored. */
struct lease_mark {
    uint32_t jumps;
    int64_t date_ticks;
};

/* lease_clock_mark: call before a renewal is sent. lease_clock_renew: the
 * renewal is stored, with this LeaseUntil. */
struct lease_mark lease_clock_mark(const struct lease_clock *clock);
void lease_clock_renew(struct lease_clock *clock, const struct lease_mark *mark,
    int64_t until_ticks);

bool lease_clock_is_over(const struct lease_clock *clock);
bool lease_clock_in_doubt(const struct lease_clock *clock);

#endif
