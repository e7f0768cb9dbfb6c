/* SPDX-License-Identifier: MIT */
/*
 * The clock of an embedded store. If it were the wall clock, which may be
 * stepped by hours, a lease could expire at once, or a message be hidden for
 * hours. So the store's clock counts on CLOCK_BOOTTIME from a moment stored in
 * the file, the same for all processes that share it, and follows the wall
 * clock so slowly that no lease is affected. The store's clock never goes back:
 *
 * - During one boot the store's clock runs with CLOCK_BOOTTIME, which NTP slews
 *   like the wall clock. If the store's clock and the wall clock differ
 *   nevertheless, the wall clock was stepped.
 * - While the store's clock is ahead of the wall clock, it runs an eighth
 *   slower. A wait takes an eighth longer, and a difference of two days is gone
 *   after sixteen days.
 * - While the store's clock is behind the wall clock, it runs a 4096th faster.
 *   This shortens a lease of an hour by less than the 3 s by which each lease
 *   outlasts its owner's deadline (run/lease.h). After an hour without a write
 *   the clock runs an eighth faster. An owner writes its lease every few
 *   seconds, so no owner is alive then, except a suspended one with a
 *   visibility timeout above an hour.
 * - After a reboot, or on another machine, the store's clock begins with the
 *   later of two times: the time of the wall clock; and the file's last time
 *   plus the time that has passed since then, of which at most an hour counts.
 *   A boot without an id, and two containers on one kernel that have different
 *   ids, are treated in the same way. In both of these cases a forward step of
 *   the wall clock ends leases.
 */
#ifndef TW_STORE_EMBEDDED_CLOCK_H
#define TW_STORE_EMBEDDED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_BOOT_ID_MAX 36

/* The stored moment of the clock; zeros: not started. */
struct clock {
    char boot_id[CLOCK_BOOT_ID_MAX + 1];
    int64_t boot_ms;
    int64_t ticks;       /* the store's clock at the stored moment */
    int64_t ahead_ticks; /* wall clock minus ticks, at the stored moment */
};

/* clock_counts: was the stored moment set during this boot? */
bool clock_counts(const struct clock *clock);

/* clock_ticks: return the clock's current time. Call after the stored moment
 * was read from the file. */
int64_t clock_ticks(const struct clock *clock);

/* clock_set: set the stored moment to the current time. */
void clock_set(struct clock *clock);

#endif
