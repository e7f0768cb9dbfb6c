/* SPDX-License-Identifier: MIT */
/*
 * Clocks, randomness, threads, locks and waits: all that is not deterministic.
 * All other code calls these functions, so that a simulation can substitute a
 * virtual platform with platform_use().
 */
#ifndef TW_BASE_PLATFORM_H
#define TW_BASE_PLATFORM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A time that never comes: an unlimited wait. */
#define PLATFORM_NEVER INT64_MAX

struct platform_mutex {
    pthread_mutex_t real;
    void *virtual;
};

struct platform_cond {
    pthread_cond_t real;
    void *virtual;
};

struct platform_thread {
    pthread_t real;
    void *virtual;
};

/* The operations of a platform. The real one is used until platform_use() is
 * called. */
struct platform_ops {
    const char *(*boot_id)(void);
    int64_t (*boot_ms)(void);
    int64_t (*wall_ticks)(void);
    void (*random)(void *to, size_t len);
    void (*mutex_init)(struct platform_mutex *mutex);
    void (*mutex_done)(struct platform_mutex *mutex);
    void (*lock)(struct platform_mutex *mutex);
    void (*unlock)(struct platform_mutex *mutex);
    void (*cond_init)(struct platform_cond *cond);
    void (*cond_done)(struct platform_cond *cond);
    bool (*wait)(struct platform_cond *cond, struct platform_mutex *mutex,
        int64_t until_ms);
    void (*wake_all)(struct platform_cond *cond);
    void (*start)(struct platform_thread *thread, const char *name,
        void (*body)(void *arg), void *arg);
    void (*join)(struct platform_thread *thread);
};

/* platform_use: replace the platform, before any thread or lock exists.
 * Borrowed for the life of the process. NULL: the real platform. */
void platform_use(const struct platform_ops *ops);

/* platform_real: the operations of the real platform. A platform that differs
 * in a few of them copies the others. */
extern const struct platform_ops platform_real;

/* platform_boot_id: return the id of the boot of the kernel from which
 * platform_boot_ms() counts, as 36 hexadecimal digits and '-'. The id is equal
 * in all containers, and different after each boot. "": unknown. Static. */
const char *platform_boot_id(void);

/* platform_boot_ms: milliseconds since boot, on CLOCK_BOOTTIME, which advances
 * also while the machine is suspended and never steps. For deadlines and
 * durations. */
int64_t platform_boot_ms(void);

/* platform_wall_ticks: UTC now, in ticks of 100 ns since 0001-01-01. May step.
 */
int64_t platform_wall_ticks(void);

/* platform_random: len unpredictable bytes. */
void platform_random(void *to, size_t len);

/* platform_random_below: uniform in 0 .. limit-1; limit > 0. */
uint64_t platform_random_below(uint64_t limit);

void platform_mutex_init(struct platform_mutex *mutex);
void platform_mutex_done(struct platform_mutex *mutex);
void platform_lock(struct platform_mutex *mutex);
void platform_unlock(struct platform_mutex *mutex);

void platform_cond_init(struct platform_cond *cond);
void platform_cond_done(struct platform_cond *cond);

/*
 * platform_wait: with mutex held, wait for platform_wake_all() or until
 * platform_boot_ms() is until_ms (PLATFORM_NEVER: no limit). False: until_ms is
 * reached. Spurious wakeups occur, so callers check their condition in a loop.
 * mutex is released and acquired again even if until_ms has already passed.
 */
bool platform_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms);
void platform_wake_all(struct platform_cond *cond);

/*
 * platform_start: run body(arg) on a thread of its own, named for debuggers (15
 * bytes), with all signals blocked. The caller must join it. If the thread
 * cannot be started, the process ends with exit code 75.
 */
void platform_start(struct platform_thread *thread, const char *name,
    void (*body)(void *arg), void *arg);
void platform_join(struct platform_thread *thread);

/*
 * platform_block_pipe: block SIGPIPE in this thread, for a library that writes
 * to sockets with write(2). True: SIGPIPE was not blocked before, and the
 * caller must call platform_let_pipe(), which discards a pending SIGPIPE and
 * unblocks it. Not part of platform_ops, because a virtual platform uses this
 * code too.
 */
bool platform_block_pipe(void);
void platform_let_pipe(void);

#endif
