/* SPDX-License-Identifier: MIT */
/*
 * The process is asked to end. What is under way may still come to its end,
 * and last words may be said; but however slowly a service answers, no request
 * outlasts the signal by more than STOP_LAST_MS. The state is one for the
 * process, as a signal is. Any thread.
 */
#ifndef TW_BASE_STOP_H
#define TW_BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* After the signal: until when requests may go on that had begun before it,
 * those that begin after it, and when the process ends whatever it does. */
#define STOP_CUT_MS 1500
#define STOP_LAST_MS 3500
#define STOP_END_MS 4500

/* stop_ask: the signal has come. The first call counts; it calls the hooks. */
void stop_ask(void);

/*
 * What is told when it comes: whoever keeps something waiting. stop_hook_add
 * calls it at once where the signal has come already. After stop_hook_remove
 * it is not called, nor under way. It may take locks that are not held during
 * either.
 */
struct stop_hook {
    void (*told)(void *context);
    void *context;
    struct stop_hook *next; /* stop.c's own */
};
void stop_hook_add(struct stop_hook *hook);
void stop_hook_remove(struct stop_hook *hook);

bool stop_is_asked(void);

/* stop_until_ms: until when (boot clock) a request may go on that began at
 * begun_ms; PLATFORM_NEVER: as long as it likes. */
int64_t stop_until_ms(int64_t begun_ms);

/* stop_end_ms: when the process ends; PLATFORM_NEVER: nobody asked. */
int64_t stop_end_ms(void);

/* stop_forget: for tests that ask more than once, or end a thread anywhere: the
 * signal, and who is told of it. */
void stop_forget(void);

#endif
