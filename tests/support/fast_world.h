/* SPDX-License-Identifier: MIT */
/*
 * A world whose clocks run FAST_WORLD_SPEED times as fast, so that back-off
 * and settle times pass in a moment. Threads and locks are the real ones.
 */
#ifndef TW_TESTS_FAST_WORLD_H
#define TW_TESTS_FAST_WORLD_H

#include <stdint.h>

#define FAST_WORLD_SPEED 100

/* fast_world_use: from now on, before any thread or lock exists. */
void fast_world_use(void);

/* fast_world_late_waits: how many waits have begun when their time was over: a
 * thread that does nothing else never rests. */
unsigned fast_world_late_waits(void);

/* fast_world_ahead: its clocks stand so far ahead of another's. Before any
 * thread exists. */
void fast_world_ahead(int64_t ms);

#endif
