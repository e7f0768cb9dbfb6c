/* SPDX-License-Identifier: MIT */
/*
 * Signals as calls on a thread of their own: all threads block SIGINT, SIGTERM
 * and SIGHUP, and one waits for them, so that handlers may take locks. SIGINT
 * and SIGTERM ask the process to end (stop.h), and it ends within 5 s: work
 * that is still in progress is abandoned with exit code 75, which is always
 * safe. A second signal is passed on like the first; a third SIGINT ends the
 * process at once, the same way.
 */
#ifndef TW_CLI_SIGNALS_H
#define TW_CLI_SIGNALS_H

struct signals;

/*
 * signals_block: from now on signals are pending until signals_start(), so that
 * an early one neither is lost nor ends the process. signals_unblock: restores
 * their default effect, to end the process, for the time of a question. Only by
 * the main thread, before signals_start().
 */
void signals_block(void);
void signals_unblock(void);

/*
 * signals_start: from now on call on(context, number) for each signal. The main
 * thread must call it before it starts any other thread. Owned.
 */
struct signals *signals_start(
    void (*on)(void *context, int number), void *context);

/* signals_stop: on() is no longer called; the signals stay blocked. NULL:
 * nothing. */
void signals_stop(struct signals *signals);

/*
 * signals_exit_now: end the process at once, without flushing streams or taking
 * locks. Not _exit(): the sanitizers' version flushes standard output, and a
 * thread that blocks in a write to a pipe holds that stream's lock.
 */
_Noreturn void signals_exit_now(int code);

#endif
