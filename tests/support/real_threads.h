/* SPDX-License-Identifier: MIT */
/* What platforms with other clocks need of the real threads (platform_real in
 * worker/base/platform.h). */
#ifndef TW_TESTS_SUPPORT_REAL_THREADS_H
#define TW_TESTS_SUPPORT_REAL_THREADS_H

#include <stdint.h>

#include "worker/base/platform.h"

#define REAL_THREADS_NAME_BYTES 16 /* the limit of Linux, with the NUL */

/* real_threads_name: ret: the name of the calling thread. A name that was given
 * to platform_start() is cut to this length. */
void real_threads_name(char ret[REAL_THREADS_NAME_BYTES]);

/* real_threads_us: returns CLOCK_MONOTONIC in microseconds.
 * real_threads_wait: waits until cond is woken, or real_threads_us() is
 * until_us. */
int64_t real_threads_us(void);
void real_threads_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_us);

#endif
