/* SPDX-License-Identifier: MIT */
/*
 * Signals as calls on a thread of their own: SIGINT, SIGTERM and SIGHUP are
 * blocked everywhere and waited for there, so that what they ask for may take
 * locks. SIGINT and SIGTERM ask the process to end (stop.h), and it does within
 * 5 s: whatever is then still under way is left as it is, with exit code 75,
 * which is always safe. A second one of an impatient person is passed on like
 * the first; a third SIGINT ends the process at once, the same way.
 */
#ifndef TW_CLI_SIGNALS_H
#define TW_CLI_SIGNALS_H

struct signals;

/*
 * signals_block: from now on they wait for signals_start(), so that one that
 * comes early is not lost, nor the end of the process. signals_unblock: they
 * end it again, as where a person is asked. By the main thread alone, before
 * signals_start().
 */
void signals_block(void);
void signals_unblock(void);

/*
 * signals_start: from now on call on(context, number) for each signal. To be
 * called by the main thread before it starts any other. Owned.
 */
struct signals *signals_start(
    void (*on)(void *context, int number), void *context);

/* signals_stop: on() is not called any more; the signals stay blocked. NULL:
 * nothing. */
void signals_stop(struct signals *signals);

/*
 * signals_exit_now: end the process at once; no stream is flushed and no lock
 * is taken. Not _exit(): the sanitizers' one flushes standard output, and a
 * write that waits for the reader of a pipe holds its lock.
 */
_Noreturn void signals_exit_now(int code);

#endif
