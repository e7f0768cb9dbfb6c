/* SPDX-License-Identifier: MIT */
/*
 * The real world with clocks that a test bends while the process runs: faster,
 * ahead, and with a thread that stands still. What bends them lies in a file
 * that others map or write too, so that several processes share one time, and
 * each may have its own errors.
 */
#ifndef TW_TESTS_BENT_PLATFORM_H
#define TW_TESTS_BENT_PLATFORM_H

#include <stdint.h>

/*
 * The content of the file: 64-bit integers, in the machine's byte order. Both
 * clocks begin at epoch_ms (milliseconds since 1970) when CLOCK_MONOTONIC is
 * start_us, and run speed times as fast from there.
 */
struct bend {
    int64_t speed;         /* 1: as fast as the real one; 0: they stand
                              still, but for what is added to ..._ahead_ms  */
    int64_t start_us;      /* CLOCK_MONOTONIC                               */
    int64_t epoch_ms;      /* of both clocks at start_us                    */
    int64_t wall_ahead_ms; /* of platform_wall_ticks(); any time, both ways */
    int64_t boot_ahead_ms; /* of platform_boot_ms(); only ever grows */
    int64_t frozen;        /* not 0: threads named frozen_name stand still
                              at their next lock, wait or look at a clock   */
    char frozen_name[16];
};

/* bent_platform_use: from now on, before any thread or lock exists. path: the
 * file (NULL: a plain struct of the real time, in this process alone). Returns
 * what bends the world, to be read and written at any time. */
struct bend *bent_platform_use(const char *path);

/* bent_platform_skip: both clocks of bend are ahead by so much more. */
void bent_platform_skip(struct bend *bend, int64_t ms);

/* bent_platform_us: CLOCK_MONOTONIC in microseconds. */
int64_t bent_platform_us(void);

/* bent_platform_read_us: bent_platform_us() when the calling thread last looked
 * at platform_boot_ms(); 0: never. */
int64_t bent_platform_read_us(void);

#endif
