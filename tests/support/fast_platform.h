/* SPDX-License-Identifier: MIT */
/*
 * A world whose clocks run FAST_PLATFORM_SPEED times as fast, so that back-off
 * and settle times pass in a moment. Threads and locks are the real ones.
 */
#ifndef TW_TESTS_FAST_PLATFORM_H
#define TW_TESTS_FAST_PLATFORM_H

#include <stdint.h>

#define FAST_PLATFORM_SPEED 100

/* fast_platform_use: from now on, before any thread or lock exists. */
void fast_platform_use(void);

/* fast_platform_late_waits: how many waits have begun when their time was over:
 * a thread that does nothing else never rests. */
unsigned fast_platform_late_waits(void);

/* fast_platform_ahead: its clocks stand so far ahead of another's. Before any
 * thread exists. */
void fast_platform_ahead(int64_t ms);

#endif
