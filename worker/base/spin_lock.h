/* SPDX-License-Identifier: MIT */
/*
 * A spin lock: for data that a thread copies in a few instructions, in a struct
 * that is not initialised by a function: all zero is unlocked. A thread that
 * waits for the lock uses a whole core, so everything else uses struct
 * platform_mutex.
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
