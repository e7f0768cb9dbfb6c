/* SPDX-License-Identifier: MIT */
/* Real threads and locks. The settings (struct bend) say what the clocks show
 * and which threads are frozen. */
#include "tests/support/bent_platform.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define US_PER_S 1000000
/* A thread that waits notices a change of the clocks after at most this much
 * real time. */
#define LONGEST_WAIT_US 20000
#define THAW_LOOK_NS 1000000

static struct bend *bend;
static _Thread_local const char *thread_name = "";
static _Thread_local int64_t read_us;

static void must(int error)
{
    if (error != 0)
        abort();
}

int64_t bent_platform_us(void)
{
    struct timespec now;

    must(clock_gettime(CLOCK_MONOTONIC, &now));
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
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

    while (look(&bend->frozen) != 0 && strncmp(thread_name, bend->frozen_name,
                                           sizeof(bend->frozen_name)) == 0)
        (void)nanosleep(&pause, NULL);
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
    read_us = bent_platform_us();
    return bent_ms(read_us) + look(&bend->boot_ahead_ms);
}

static int64_t bent_wall_ticks(void)
{
    stand_still();
    return TICKS_1970 +
           (bent_ms(bent_platform_us()) + look(&bend->wall_ahead_ms)) *
               TICKS_PER_MS;
}

static void bent_random(void *to, size_t len)
{
    if (getrandom(to, len, 0) != (ssize_t)len)
        abort();
}

static void bent_mutex_init(struct platform_mutex *mutex)
{
    must(pthread_mutex_init(&mutex->real, NULL));
}

static void bent_mutex_done(struct platform_mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->real));
}

static void bent_lock(struct platform_mutex *mutex)
{
    stand_still();
    must(pthread_mutex_lock(&mutex->real));
}

static void bent_unlock(struct platform_mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->real));
}

static void bent_cond_init(struct platform_cond *cond)
{
    pthread_condattr_t attr;

    must(pthread_condattr_init(&attr));
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    must(pthread_cond_init(&cond->real, &attr));
    must(pthread_condattr_destroy(&attr));
}

static void bent_cond_done(struct platform_cond *cond)
{
    must(pthread_cond_destroy(&cond->real));
}

/* The wait ends after at most LONGEST_WAIT_US, in order to notice changed
 * clocks. Callers expect that a wait may end without a cause. */
static bool bent_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    int64_t now_us = bent_platform_us(), wait_us = LONGEST_WAIT_US;
    struct timespec until;

    if (until_ms != PLATFORM_NEVER) {
        int64_t left_ms = until_ms - bent_boot_ms();
        int64_t speed = look(&bend->speed);

        if (left_ms <= 0)
            wait_us = 0;
        else if (speed > 0 && left_ms / speed < LONGEST_WAIT_US / 1000)
            wait_us = left_ms * 1000 / speed + 1;
    }
    until.tv_sec = (time_t)((now_us + wait_us) / US_PER_S);
    until.tv_nsec = (long)((now_us + wait_us) % US_PER_S) * 1000;
    (void)pthread_cond_timedwait(&cond->real, &mutex->real, &until);
    return until_ms == PLATFORM_NEVER || bent_boot_ms() < until_ms;
}

static void bent_wake_all(struct platform_cond *cond)
{
    must(pthread_cond_broadcast(&cond->real));
}

struct body {
    const char *name;
    void (*run)(void *arg);
    void *arg;
};

static void *run_body(void *arg)
{
    struct body body = *(struct body *)arg;

    mem_free(arg);
    thread_name = body.name;
    body.run(body.arg);
    return NULL;
}

static void bent_start(struct platform_thread *thread, const char *name,
    void (*run)(void *arg), void *arg)
{
    struct body *body = mem_alloc(sizeof(*body));

    *body = (struct body){name, run, arg};
    must(pthread_create(&thread->real, NULL, run_body, body));
}

static void bent_join(struct platform_thread *thread)
{
    must(pthread_join(thread->real, NULL));
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
        .start_us = bent_platform_us(),
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
    static const struct platform_ops ops = {
        .boot_id = bent_boot_id,
        .boot_ms = bent_boot_ms,
        .wall_ticks = bent_wall_ticks,
        .random = bent_random,
        .mutex_init = bent_mutex_init,
        .mutex_done = bent_mutex_done,
        .lock = bent_lock,
        .unlock = bent_unlock,
        .cond_init = bent_cond_init,
        .cond_done = bent_cond_done,
        .wait = bent_wait,
        .wake_all = bent_wake_all,
        .start = bent_start,
        .join = bent_join,
    };

    bend = path ? map_file(path) : own_bend();
    platform_use(&ops);
    return bend;
}
