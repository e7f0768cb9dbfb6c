/* SPDX-License-Identifier: MIT */
/* The real platform with faster clocks. */
#include "tests/support/fast_platform.h"

#include "tests/support/real_threads.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

static int64_t ahead_ms;

static int64_t fast_boot_ms(void)
{
    return real_threads_us() * FAST_PLATFORM_SPEED / 1000 + ahead_ms;
}

static const char *fast_boot_id(void)
{
    return "00000000-0000-4000-8000-000000000003";
}

static int64_t fast_wall_ticks(void)
{
    return TICKS_1970 + fast_boot_ms() * TICKS_PER_MS;
}

static _Atomic unsigned late_waits;

unsigned fast_platform_late_waits(void)
{
    return late_waits;
}

static bool fast_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    if (until_ms == PLATFORM_NEVER) {
        (void)pthread_cond_wait(&cond->real, &mutex->real);
        return true;
    }
    if (until_ms <= fast_boot_ms())
        late_waits++;
    real_threads_wait(
        cond, mutex, (until_ms - ahead_ms) * 1000 / FAST_PLATFORM_SPEED + 1);
    return fast_boot_ms() < until_ms;
}

void fast_platform_ahead(int64_t ms)
{
    ahead_ms = ms;
}

void fast_platform_use(void)
{
    static struct platform_ops ops;

    ops = platform_real;
    ops.boot_id = fast_boot_id;
    ops.boot_ms = fast_boot_ms;
    ops.wall_ticks = fast_wall_ticks;
    ops.wait = fast_wait;
    platform_use(&ops);
}
