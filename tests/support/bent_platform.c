/* SPDX-License-Identifier: MIT */
/* Real threads and locks. The settings (struct bend) say what the clocks show
 * and which threads are frozen. */
#include "tests/support/bent_platform.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/real_threads.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* A thread that waits notices a change of the clocks after at most this much
 * real time. */
#define LONGEST_WAIT_US 20000
#define THAW_LOOK_NS 1000000

static struct bend *bend;
static _Thread_local int64_t read_us;

static void must(int error)
{
    if (error != 0)
        abort();
}

int64_t bent_platform_read_us(void)
{
    return read_us;
}

/* Reads a setting. Other processes may write it at the same time. */
static int64_t look(const int64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Returns at once, except in a thread that is frozen: there it returns when the
 * thread is no longer frozen. */
static void stand_still(void)
{
    struct timespec pause = {0, THAW_LOOK_NS};
    char name[REAL_THREADS_NAME_BYTES];

    while (look(&bend->frozen) != 0) {
        real_threads_name(name);
        if (strncmp(name, bend->frozen_name, sizeof(bend->frozen_name)) != 0)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

static int64_t bent_ms(int64_t now_us)
{
    return look(&bend->epoch_ms) +
           (now_us - look(&bend->start_us)) * look(&bend->speed) / 1000;
}

/* The clocks go on when a process ends and another one begins, so the boot id
 * is always the same. */
static const char *bent_boot_id(void)
{
    return "00000000-0000-4000-8000-000000000002";
}

static int64_t bent_boot_ms(void)
{
    stand_still();
    read_us = real_threads_us();
    return bent_ms(read_us) + look(&bend->boot_ahead_ms);
}

static int64_t bent_wall_ticks(void)
{
    stand_still();
    return TICKS_1970 +
           (bent_ms(real_threads_us()) + look(&bend->wall_ahead_ms)) *
               TICKS_PER_MS;
}

static void bent_lock(struct platform_mutex *mutex)
{
    stand_still();
    platform_real.lock(mutex);
}

/* The wait ends after at most LONGEST_WAIT_US, in order to notice changed
 * clocks. Callers expect that a wait may end without a cause. */
static bool bent_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    int64_t now_us = real_threads_us(), wait_us = LONGEST_WAIT_US;

    if (until_ms != PLATFORM_NEVER) {
        int64_t left_ms = until_ms - bent_boot_ms();
        int64_t speed = look(&bend->speed);

        if (left_ms <= 0)
            wait_us = 0;
        else if (speed > 0 && left_ms / speed < LONGEST_WAIT_US / 1000)
            wait_us = left_ms * 1000 / speed + 1;
    }
    real_threads_wait(cond, mutex, now_us + wait_us);
    return until_ms == PLATFORM_NEVER || bent_boot_ms() < until_ms;
}

static struct bend *map_file(const char *path)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *at;

    if (file < 0)
        abort();
    at = mmap(
        NULL, sizeof(struct bend), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        abort();
    must(close(file));
    return at;
}

static struct bend *own_bend(void)
{
    static struct bend own;
    struct timespec now;

    must(clock_gettime(CLOCK_REALTIME, &now));
    own = (struct bend){
        .speed = 1,
        .start_us = real_threads_us(),
        .epoch_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
    };
    return &own;
}

void bent_platform_skip(struct bend *bent, int64_t ms)
{
    bent->boot_ahead_ms += ms;
    bent->wall_ahead_ms += ms;
}

struct bend *bent_platform_use(const char *path)
{
    static struct platform_ops ops;

    ops = platform_real;
    ops.boot_id = bent_boot_id;
    ops.boot_ms = bent_boot_ms;
    ops.wall_ticks = bent_wall_ticks;
    ops.lock = bent_lock;
    ops.wait = bent_wait;
    bend = path ? map_file(path) : own_bend();
    platform_use(&ops);
    return bend;
}
