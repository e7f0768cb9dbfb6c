/* SPDX-License-Identifier: MIT */
/* The real platform with faster clocks. */
#include "tests/support/fast_platform.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define US_PER_S 1000000

static int64_t ahead_ms;

static int64_t monotonic_us(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort();
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

static int64_t fast_boot_ms(void)
{
    return monotonic_us() * FAST_PLATFORM_SPEED / 1000 + ahead_ms;
}

static const char *fast_boot_id(void)
{
    return "00000000-0000-4000-8000-000000000003";
}

static int64_t fast_wall_ticks(void)
{
    return TICKS_1970 + fast_boot_ms() * TICKS_PER_MS;
}

static void must(int error)
{
    if (error != 0)
        abort();
}

static void fast_random(void *to, size_t len)
{
    if (getrandom(to, len, 0) != (ssize_t)len)
        abort();
}

static void fast_mutex_init(struct platform_mutex *mutex)
{
    must(pthread_mutex_init(&mutex->real, NULL));
}

static void fast_mutex_done(struct platform_mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->real));
}

static void fast_lock(struct platform_mutex *mutex)
{
    must(pthread_mutex_lock(&mutex->real));
}

static void fast_unlock(struct platform_mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->real));
}

static void fast_cond_init(struct platform_cond *cond)
{
    pthread_condattr_t attr;

    must(pthread_condattr_init(&attr));
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    must(pthread_cond_init(&cond->real, &attr));
    must(pthread_condattr_destroy(&attr));
}

static void fast_cond_done(struct platform_cond *cond)
{
    must(pthread_cond_destroy(&cond->real));
}

static _Atomic unsigned late_waits;

unsigned fast_platform_late_waits(void)
{
    return late_waits;
}

static bool fast_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    int64_t until_us;
    struct timespec until;

    if (until_ms == PLATFORM_NEVER) {
        must(pthread_cond_wait(&cond->real, &mutex->real));
        return true;
    }
    if (until_ms <= fast_boot_ms())
        late_waits++;
    until_us = (until_ms - ahead_ms) * 1000 / FAST_PLATFORM_SPEED + 1;
    until.tv_sec = (time_t)(until_us / US_PER_S);
    until.tv_nsec = (long)(until_us % US_PER_S) * 1000;
    (void)pthread_cond_timedwait(&cond->real, &mutex->real, &until);
    return fast_boot_ms() < until_ms;
}

static void fast_wake_all(struct platform_cond *cond)
{
    must(pthread_cond_broadcast(&cond->real));
}

struct body {
    void (*run)(void *arg);
    void *arg;
};

static void *run_body(void *arg)
{
    struct body body = *(struct body *)arg;

    mem_free(arg);
    body.run(body.arg);
    return NULL;
}

static void fast_start(struct platform_thread *thread, const char *name,
    void (*run)(void *arg), void *arg)
{
    struct body *body = mem_alloc(sizeof *body);

    *body = (struct body){run, arg};
    must(pthread_create(&thread->real, NULL, run_body, body));
}

static void fast_join(struct platform_thread *thread)
{
    must(pthread_join(thread->real, NULL));
}

void fast_platform_ahead(int64_t ms)
{
    ahead_ms = ms;
}

void fast_platform_use(void)
{
    static const struct platform_ops ops = {
        .boot_id = fast_boot_id,
        .boot_ms = fast_boot_ms,
        .wall_ticks = fast_wall_ticks,
        .random = fast_random,
        .mutex_init = fast_mutex_init,
        .mutex_done = fast_mutex_done,
        .lock = fast_lock,
        .unlock = fast_unlock,
        .cond_init = fast_cond_init,
        .cond_done = fast_cond_done,
        .wait = fast_wait,
        .wake_all = fast_wake_all,
        .start = fast_start,
        .join = fast_join,
    };

    platform_use(&ops);
}
