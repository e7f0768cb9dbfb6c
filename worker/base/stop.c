/* SPDX-License-Identifier: MIT */
/* When the process was asked to end. */
#include "worker/base/stop.h"

#include <stdatomic.h>

#include "worker/base/world.h"

static _Atomic int64_t asked_ms = WORLD_NEVER;

void stop_ask(void)
{
    int64_t never = WORLD_NEVER;

    atomic_compare_exchange_strong(&asked_ms, &never, world_boot_ms());
}

bool stop_is_asked(void)
{
    return atomic_load(&asked_ms) != WORLD_NEVER;
}

int64_t stop_until_ms(int64_t begun_ms)
{
    int64_t asked = atomic_load(&asked_ms);

    if (asked == WORLD_NEVER)
        return WORLD_NEVER;
    return asked + (begun_ms < asked ? STOP_CUT_MS : STOP_LAST_MS);
}

int64_t stop_end_ms(void)
{
    int64_t asked = atomic_load(&asked_ms);

    return asked == WORLD_NEVER ? WORLD_NEVER : asked + STOP_END_MS;
}

void stop_forget(void)
{
    atomic_store(&asked_ms, WORLD_NEVER);
}
