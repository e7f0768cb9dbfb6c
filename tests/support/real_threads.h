/* SPDX-License-Identifier: MIT */
/* What platforms with other clocks have in common: the real threads, locks and
 * random bytes. */
#ifndef TW_TESTS_REAL_THREADS_H
#define TW_TESTS_REAL_THREADS_H

#include <stdint.h>

#include "worker/base/platform.h"

/* real_threads: all operations but boot_id, boot_ms, wall_ticks and wait. */
extern const struct platform_ops real_threads;

/* real_threads_name: returns the name of the calling thread; "": the platform
 * has not started it. */
const char *real_threads_name(void);

/* real_threads_us: returns CLOCK_MONOTONIC in microseconds.
 * real_threads_wait: waits until cond is woken, or real_threads_us() is
 * until_us. */
int64_t real_threads_us(void);
void real_threads_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_us);

#endif
