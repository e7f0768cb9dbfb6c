/* SPDX-License-Identifier: MIT */
/* The real threads, locks and random bytes. */
#include "tests/support/real_threads.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "worker/base/mem.h"

#define US_PER_S 1000000

static _Thread_local const char *thread_name = "";

static void must(int error)
{
    if (error != 0)
        abort();
}

const char *real_threads_name(void)
{
    return thread_name;
}

int64_t real_threads_us(void)
{
    struct timespec now;

    must(clock_gettime(CLOCK_MONOTONIC, &now));
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

void real_threads_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_us)
{
    struct timespec until = {.tv_sec = (time_t)(until_us / US_PER_S),
        .tv_nsec = (long)(until_us % US_PER_S) * 1000};

    (void)pthread_cond_timedwait(&cond->real, &mutex->real, &until);
}

static void real_random(void *to, size_t len)
{
    if (getrandom(to, len, 0) != (ssize_t)len)
        abort();
}

static void real_mutex_init(struct platform_mutex *mutex)
{
    must(pthread_mutex_init(&mutex->real, NULL));
}

static void real_mutex_done(struct platform_mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->real));
}

static void real_lock(struct platform_mutex *mutex)
{
    must(pthread_mutex_lock(&mutex->real));
}

static void real_unlock(struct platform_mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->real));
}

static void real_cond_init(struct platform_cond *cond)
{
    pthread_condattr_t attr;

    must(pthread_condattr_init(&attr));
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    must(pthread_cond_init(&cond->real, &attr));
    must(pthread_condattr_destroy(&attr));
}

static void real_cond_done(struct platform_cond *cond)
{
    must(pthread_cond_destroy(&cond->real));
}

static void real_wake_all(struct platform_cond *cond)
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

static void real_start(struct platform_thread *thread, const char *name,
    void (*run)(void *arg), void *arg)
{
    struct body *body = mem_alloc(sizeof(*body));

    *body = (struct body){name, run, arg};
    must(pthread_create(&thread->real, NULL, run_body, body));
}

static void real_join(struct platform_thread *thread)
{
    must(pthread_join(thread->real, NULL));
}

const struct platform_ops real_threads = {
    .random = real_random,
    .mutex_init = real_mutex_init,
    .mutex_done = real_mutex_done,
    .lock = real_lock,
    .unlock = real_unlock,
    .cond_init = real_cond_init,
    .cond_done = real_cond_done,
    .wake_all = real_wake_all,
    .start = real_start,
    .join = real_join,
};
