/* SPDX-License-Identifier: MIT */
/*
 * The thread that waits for signals. SIGUSR1 from ourselves ends it: it is the
 * only one that does not block it but waits for it.
 */
#include "worker/cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/world.h"
#include "worker/cli/command.h"

#define PATIENCE 3

struct signals {
    void (*on)(void *context, int number);
    void *context;
    sigset_t set;
    _Atomic bool stop;
    struct world_thread thread;
};

_Noreturn void signals_exit_now(int code)
{
    for (;;)
        (void)syscall(SYS_exit_group, code);
}

static void wait_for_signals(void *arg)
{
    struct signals *signals = arg;
    unsigned interrupts = 0;
    int number;

    for (;;) {
        if (sigwait(&signals->set, &number) != 0)
            continue;
        if (number == SIGUSR1) {
            if (atomic_load(&signals->stop))
                return;
            continue;
        }
        if (number == SIGINT && ++interrupts == PATIENCE)
            signals_exit_now(EXIT_STOPPED);
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
    signals_block();
    world_start(&signals->thread, "signals", wait_for_signals, signals);
    return signals;
}

void signals_stop(struct signals *signals)
{
    if (!signals)
        return;
    atomic_store(&signals->stop, true);
    kill(getpid(), SIGUSR1);
    world_join(&signals->thread);
    mem_free(signals);
}
