/* SPDX-License-Identifier: MIT */
/*
 * The clock of an embedded store. The wall clock may be stepped by hours, and
 * then a lease would expire at once, or a message be hidden for as long. So the
 * store's clock counts on CLOCK_BOOTTIME from a moment that is in the file, one
 * for all processes that share it, and follows the wall clock only as slowly as
 * harms no lease. It never goes back:
 *
 * - In one boot it runs with CLOCK_BOOTTIME, which NTP slews as it does the
 *   wall clock. Where the two differ all the same, one was stepped.
 * - Ahead of the wall clock: it runs an eighth slower. A wait is longer by so
 *   much, and two days too many are gone after sixteen.
 * - Behind: it runs a 4096th faster, which takes less from a lease of an hour
 *   than the 3 s that each is longer than its owner knows (run/lease.h). After
 *   an hour in which nothing was written an eighth faster: an owner writes its
 *   lease every few seconds, so none is alive but one that is suspended, with a
 *   visibility timeout above an hour.
 * - After a reboot, and on another machine: at the wall clock, or where the
 *   file was left, and up to an hour of what has passed since, if that is
 *   later. So it also is where a boot has no id, or where two containers on one
 *   kernel have an id each: there a step ahead of the wall clock ends leases.
 */
#ifndef TW_STORE_EMBEDDED_CLOCK_H
#define TW_STORE_EMBEDDED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_BOOT_ID_MAX 36

/* What it showed at one moment; zeros: it is to begin. */
struct clock {
    char boot_id[CLOCK_BOOT_ID_MAX + 1];
    int64_t boot_ms;
    int64_t ticks;       /* what it showed                */
    int64_t ahead_ticks; /* of it: the wall clock, then   */
};

/* clock_counts: is the moment of this boot? */
bool clock_counts(const struct clock *clock);

/* clock_ticks: what it shows now. The moment was read before the call. */
int64_t clock_ticks(const struct clock *clock);

/* clock_set: make now the moment. */
void clock_set(struct clock *clock);

#endif
