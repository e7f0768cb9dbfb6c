/* SPDX-License-Identifier: MIT */
/*
 * The thread that waits for signals. signals_stop() ends the thread with
 * SIGUSR1, which all threads block, so that only the wait of this thread
 * receives the signal.
 *
 * After a stop signal a second thread, the guard, ends the process if the first
 * thread has not done so. The first thread calls on() and logs, and both may
 * block, for instance if standard error is a full pipe that no process reads.
 * The guard neither logs nor takes a lock that is held while something is
 * logged.
 */
#include "worker/cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/cli/command.h"

#define PATIENCE 3
/* Time from the stop signal until the guard ends the process. It is a little
 * longer than STOP_END_MS, so that the first thread, if it does not block, can
 * log that the process ends. */
#define GUARD_MS (STOP_END_MS + 150)

struct signals {
    void (*on)(void *context, int number);
    void *context;
    sigset_t set;
    _Atomic bool stop;
    struct platform_thread thread;

    struct platform_thread guard;
    bool guarded; /* the guard runs; set by thread */
    struct platform_mutex lock;
    struct platform_cond changed;
    bool ended; /* the guard thread must end without ending the process;
                   protected by lock */
};

_Noreturn void signals_exit_now(int code)
{
    for (;;)
        (void)syscall(SYS_exit_group, code);
}

/* Wait for the next signal. Returns 0 at stop_end_ms(), when the process must
 * end. */
static int next_signal(const sigset_t *set)
{
    int64_t end_ms = stop_end_ms(), left_ms;
    struct timespec left;
    int number;

    if (end_ms == PLATFORM_NEVER)
        return sigwait(set, &number) == 0 ? number : SIGUSR1;
    left_ms = end_ms - platform_boot_ms();
    if (left_ms <= 0)
        return 0;
    left = (struct timespec){left_ms / 1000, left_ms % 1000 * 1000000};
    number = sigtimedwait(set, NULL, &left);
    return number > 0 ? number : SIGUSR1;
}

static void guard(void *arg)
{
    struct signals *signals = arg;
    int64_t end_ms = platform_boot_ms() + GUARD_MS;
    bool ended;

    platform_lock(&signals->lock);
    while (!signals->ended &&
           platform_wait(&signals->changed, &signals->lock, end_ms))
        ;
    ended = signals->ended;
    platform_unlock(&signals->lock);
    if (!ended)
        signals_exit_now(EXIT_STOPPED);
}

static void start_guard(struct signals *signals)
{
    if (signals->guarded)
        return;
    signals->guarded = true;
    platform_start(&signals->guard, "guard", guard, signals);
}

static void end_guard(struct signals *signals)
{
    platform_lock(&signals->lock);
    signals->ended = true;
    platform_wake_all(&signals->changed);
    platform_unlock(&signals->lock);
    if (signals->guarded)
        platform_join(&signals->guard);
}

static void wait_for_signals(void *arg)
{
    struct signals *signals = arg;
    unsigned interrupts = 0;

    for (;;) {
        int number = next_signal(&signals->set);

        if (number == SIGUSR1) {
            if (atomic_load(&signals->stop))
                return;
            continue;
        }
        if (number == 0)
            log_warn("process", "stopping took too long: the process exits "
                                "now, and the next worker continues its runs");
        if (number == 0 || (number == SIGINT && ++interrupts == PATIENCE))
            signals_exit_now(EXIT_STOPPED);
        if (number != SIGHUP) {
            start_guard(signals);
            stop_ask();
        }
        signals->on(signals->context, number);
    }
}

static sigset_t those_meant(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    return set;
}

void signals_block(void)
{
    const sigset_t set = those_meant();

    sigprocmask(SIG_BLOCK, &set, NULL);
}

void signals_unblock(void)
{
    const sigset_t set = those_meant();

    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

struct signals *signals_start(
    void (*on)(void *context, int number), void *context)
{
    struct signals *signals = mem_alloc(sizeof(*signals));

    signals->on = on;
    signals->context = context;
    signals->set = those_meant();
    platform_mutex_init(&signals->lock);
    platform_cond_init(&signals->changed);
    signals_block();
    platform_start(&signals->thread, "signals", wait_for_signals, signals);
    return signals;
}

void signals_stop(struct signals *signals)
{
    if (!signals)
        return;
    atomic_store(&signals->stop, true);
    kill(getpid(), SIGUSR1);
    platform_join(&signals->thread);
    end_guard(signals);
    platform_cond_done(&signals->changed);
    platform_mutex_done(&signals->lock);
    mem_free(signals);
}
