/* SPDX-License-Identifier: MIT */
/*
 * Turns signals into calls on a thread of their own, so that the code that
 * handles a signal may take locks. All threads block SIGINT, SIGTERM and
 * SIGHUP, and that thread waits for them. After SIGINT or SIGTERM the process
 * ends within 5 s (stop.h). If work is still in progress then, the process ends
 * with exit code 75, which is always safe. A second signal is passed on like
 * the first; a third SIGINT ends the process at once with exit code 75.
 */
#ifndef TW_CLI_SIGNALS_H
#define TW_CLI_SIGNALS_H

struct signals;

/*
 * signals_block: keep signals pending until signals_start(), so that an early
 * signal neither is lost nor ends the process. signals_unblock: let signals end
 * the process, while a command waits for the answer to a question. Call both
 * only on the main thread, before signals_start().
 */
void signals_block(void);
void signals_unblock(void);

/*
 * signals_start: start a thread that calls on(context, number) for each signal.
 * The main thread must call it before it starts any other thread. Owned.
 */
struct signals *signals_start(
    void (*on)(void *context, int number), void *context);

/* signals_stop: end the thread that calls on(); the signals remain blocked.
 * Does nothing if given NULL. */
void signals_stop(struct signals *signals);

/*
 * signals_exit_now: end the process at once, without flushing streams or taking
 * locks. Does not call _exit(), because the sanitizers' version flushes
 * standard output, and a thread that blocks in a write to a pipe holds that
 * stream's lock.
 */
_Noreturn void signals_exit_now(int code);

#endif
