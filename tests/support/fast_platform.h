/* SPDX-License-Identifier: MIT */
/*
 * A platform whose clocks run FAST_PLATFORM_SPEED times as fast as the real
 * ones, so that back-off and settle times pass quickly. Threads and locks are
 * the real ones.
 */
#ifndef TW_TESTS_FAST_PLATFORM_H
#define TW_TESTS_FAST_PLATFORM_H

#include <stdint.h>

#define FAST_PLATFORM_SPEED 100

/* fast_platform_use: installs these clocks for the rest of the process. Call it
 * before any thread or lock exists. */
void fast_platform_use(void);

/* fast_platform_late_waits: returns the number of waits that began after their
 * time was over. A thread whose waits are all late never rests. */
unsigned fast_platform_late_waits(void);

/* fast_platform_ahead: advances the clocks, so that they are `ms` ahead of
 * those of another process. Call it before any thread exists. */
void fast_platform_ahead(int64_t ms);

#endif
