/* SPDX-License-Identifier: MIT */
/*
 * A spin lock, for data that is copied in a few instructions. A lock that is
 * all zero is unlocked, so it needs no initialisation. A thread that waits for
 * a spin lock keeps a core busy, so everything else uses struct platform_mutex.
 */
#ifndef TW_BASE_SPIN_LOCK_H
#define TW_BASE_SPIN_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct spin_lock {
    _Atomic bool locked;
};

static inline void spin_lock_acquire(struct spin_lock *lock)
{
    while (atomic_exchange(&lock->locked, true))
        continue;
}

static inline void spin_lock_release(struct spin_lock *lock)
{
    atomic_store(&lock->locked, false);
}

#endif
