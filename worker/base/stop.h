/* SPDX-License-Identifier: MIT */
/*
 * The request to end the process, by a signal. Work in progress may still
 * finish, and final requests may be sent; but however slow a service is, no
 * request lasts longer than STOP_LAST_MS after the signal. One state for the
 * whole process. Any thread.
 */
#ifndef TW_BASE_STOP_H
#define TW_BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* Time after the signal: when requests that began before it are cut off; when
 * requests that began after it are cut off; when the process ends in any
 * case. */
#define STOP_CUT_MS 1500
#define STOP_LAST_MS 3500
#define STOP_END_MS 4500

/* stop_ask: record the signal. Only the first call has an effect: it calls the
 * hooks. */
void stop_ask(void);

/*
 * A callback for the signal, for code that blocks. stop_hook_add calls it at
 * once if the signal has already come. After stop_hook_remove it is neither
 * running nor called again. The callback may take only locks that the callers
 * of both functions do not hold.
 */
struct stop_hook {
    void (*told)(void *context);
    void *context;
    struct stop_hook *next; /* stop.c's own */
};
void stop_hook_add(struct stop_hook *hook);
void stop_hook_remove(struct stop_hook *hook);

bool stop_is_asked(void);

/* stop_until_ms: when (boot clock) a request that began at begun_ms is cut off;
 * PLATFORM_NEVER: no limit. */
int64_t stop_until_ms(int64_t begun_ms);

/* stop_end_ms: when the process ends; PLATFORM_NEVER: no signal has come. */
int64_t stop_end_ms(void);

/* stop_forget: reset the signal and remove all hooks. For tests that ask more
 * than once, or end a thread anywhere. */
void stop_forget(void);

#endif
