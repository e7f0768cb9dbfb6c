/* SPDX-License-Identifier: MIT */
#include "tests/support/real_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define US_PER_S 1000000

void real_threads_name(char ret[REAL_THREADS_NAME_BYTES])
{
    if (pthread_getname_np(pthread_self(), ret, REAL_THREADS_NAME_BYTES) != 0)
        abort();
}

int64_t real_threads_us(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort();
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

void real_threads_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_us)
{
    struct timespec until = {.tv_sec = (time_t)(until_us / US_PER_S),
        .tv_nsec = (long)(until_us % US_PER_S) * 1000};

    (void)pthread_cond_timedwait(&cond->real, &mutex->real, &until);
}
