/* SPDX-License-Identifier: MIT */
/* The stop signal and its hooks. */
#include "worker/base/stop.h"

#include <stdatomic.h>
#include <stddef.h>

#include "worker/base/platform.h"
#include "worker/base/spin_lock.h"

static _Atomic int64_t asked_ms = PLATFORM_NEVER;

/* Guards the list of hooks. stop_ask() and stop_hook_add() hold the lock while
 * they call hooks. */
static struct spin_lock hooks_lock;
static struct stop_hook *hooks;

void stop_ask(void)
{
    int64_t never = PLATFORM_NEVER;

    spin_lock_acquire(&hooks_lock);
    if (atomic_compare_exchange_strong(&asked_ms, &never, platform_boot_ms()))
        for (struct stop_hook *hook = hooks; hook != NULL; hook = hook->next)
            hook->told(hook->context);
    spin_lock_release(&hooks_lock);
}

void stop_hook_add(struct stop_hook *hook)
{
    spin_lock_acquire(&hooks_lock);
    hook->next = hooks;
    hooks = hook;
    if (stop_is_asked())
        hook->told(hook->context);
    spin_lock_release(&hooks_lock);
}

void stop_hook_remove(struct stop_hook *hook)
{
    struct stop_hook **at = &hooks;

    spin_lock_acquire(&hooks_lock);
    while (*at != NULL && *at != hook)
        at = &(*at)->next;
    if (*at != NULL)
        *at = hook->next;
    spin_lock_release(&hooks_lock);
}

bool stop_is_asked(void)
{
    return atomic_load(&asked_ms) != PLATFORM_NEVER;
}

int64_t stop_until_ms(int64_t begun_ms)
{
    int64_t asked = atomic_load(&asked_ms);

    if (asked == PLATFORM_NEVER)
        return PLATFORM_NEVER;
    return asked + (begun_ms < asked ? STOP_CUT_MS : STOP_LAST_MS);
}

int64_t stop_end_ms(void)
{
    int64_t asked = atomic_load(&asked_ms);

    return asked == PLATFORM_NEVER ? PLATFORM_NEVER : asked + STOP_END_MS;
}

void stop_forget(void)
{
    spin_lock_acquire(&hooks_lock);
    hooks = NULL;
    atomic_store(&asked_ms, PLATFORM_NEVER);
    spin_lock_release(&hooks_lock);
}
