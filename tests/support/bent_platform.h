/* SPDX-License-Identifier: MIT */
/*
 * The real platform, with clocks that a test can change while the process runs:
 * it can make them run faster, put them ahead, and make a thread stand still.
 * The settings (struct bend) are in a file, which other processes may also map
 * or write. If the files of several processes begin with the same settings, the
 * processes have the same time; afterwards the clocks of each can be changed
 * alone.
 */
#ifndef TW_TESTS_BENT_PLATFORM_H
#define TW_TESTS_BENT_PLATFORM_H

#include <stdint.h>

/*
 * The content of the file: 64-bit integers, in the machine's byte order. Both
 * clocks show epoch_ms (milliseconds since 1970) when CLOCK_MONOTONIC is
 * start_us. From then on they run `speed` times as fast as CLOCK_MONOTONIC.
 */
struct bend {
    int64_t speed; /* 1: as fast as the real clock; 0: the clocks move only when
                      ..._ahead_ms grows */
    int64_t start_us;      /* CLOCK_MONOTONIC                               */
    int64_t epoch_ms;      /* what both clocks show at start_us */
    int64_t wall_ahead_ms; /* added to platform_wall_ticks(); may be negative,
                              and may change at any time */
    int64_t boot_ahead_ms; /* added to platform_boot_ms(); only ever grows */
    int64_t frozen; /* not 0: threads with the name frozen_name stop when they
                       next take a lock, wait or read a clock */
    char frozen_name[16];
};

/* bent_platform_use: installs these clocks for the rest of the process. Call it
 * before any thread or lock exists. path: the file; NULL: the settings belong
 * to this process alone, and the clocks show the real time at first. Returns
 * the settings, which may be read and written at any time. */
struct bend *bent_platform_use(const char *path);

/* bent_platform_skip: puts both clocks of bend ahead by ms more. */
void bent_platform_skip(struct bend *bend, int64_t ms);

/* bent_platform_read_us: returns what real_threads_us() was when the calling
 * thread last read platform_boot_ms(); 0: it has never read it. */
int64_t bent_platform_read_us(void);

#endif
