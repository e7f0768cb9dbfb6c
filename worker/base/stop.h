/* SPDX-License-Identifier: MIT */
/*
 * The request to end the process, by a signal. Work in progress may still
 * finish, and final requests may be sent; but however slow a service is, no
 * request lasts longer than STOP_LAST_MS after the signal. There is one request
 * for the whole process. Any thread may call any function.
 */
#ifndef TW_BASE_STOP_H
#define TW_BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds from the signal until requests that began before the signal are
 * cut off. */
#define STOP_CUT_MS 1500
/* Milliseconds from the signal until requests that began after the signal are
 * cut off. */
#define STOP_LAST_MS 3500
/* Milliseconds from the signal until the process ends in any case. */
#define STOP_END_MS 4500

/* stop_ask: record the signal. The first call calls the hooks; later calls have
 * no effect. */
void stop_ask(void);

/*
 * A callback that is called when the signal comes. Code that blocks uses it to
 * stop blocking. stop_hook_add calls the callback at once if the signal has
 * already come. After stop_hook_remove the callback is neither running nor
 * called again. The callers of both functions must not hold a lock that the
 * callback takes.
 */
struct stop_hook {
    void (*told)(void *context);
    void *context;
    struct stop_hook *next; /* list of hooks, used by stop.c only */
};
void stop_hook_add(struct stop_hook *hook);
void stop_hook_remove(struct stop_hook *hook);

bool stop_is_asked(void);

/* stop_until_ms: return the time (platform_boot_ms()) at which a request that
 * began at begun_ms is cut off; PLATFORM_NEVER: no signal has come. */
int64_t stop_until_ms(int64_t begun_ms);

/* stop_end_ms: return the time (platform_boot_ms()) at which the process ends;
 * PLATFORM_NEVER: no signal has come. */
int64_t stop_end_ms(void);

/* stop_forget: reset the signal and remove all hooks. For tests that call
 * stop_ask() more than once, or end threads without stop_hook_remove(). */
void stop_forget(void);

#endif
