/* SPDX-License-Identifier: MIT */
/*
 * The one seam to what cannot be repeated: clocks, randomness, threads, locks
 * and waits. Everything else goes through here, so that a simulation can put
 * a virtual world in its place with world_use().
 */
#ifndef TW_BASE_WORLD_H
#define TW_BASE_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No moment: waits for ever, never comes. */
#define WORLD_NEVER INT64_MAX

struct world_mutex {
    pthread_mutex_t real;
    void *virtual;
};

struct world_cond {
    pthread_cond_t real;
    void *virtual;
};

struct world_thread {
    pthread_t real;
    void *virtual;
};

/* What a world can do. The real one is used until world_use() is called. */
struct world_ops {
    const char *(*boot_id)(void);
    int64_t (*boot_ms)(void);
    int64_t (*wall_ticks)(void);
    void (*random)(void *to, size_t len);
    void (*mutex_init)(struct world_mutex *mutex);
    void (*mutex_done)(struct world_mutex *mutex);
    void (*lock)(struct world_mutex *mutex);
    void (*unlock)(struct world_mutex *mutex);
    void (*cond_init)(struct world_cond *cond);
    void (*cond_done)(struct world_cond *cond);
    bool (*wait)(
        struct world_cond *cond, struct world_mutex *mutex, int64_t until_ms);
    void (*wake_all)(struct world_cond *cond);
    void (*start)(struct world_thread *thread, const char *name,
        void (*body)(void *arg), void *arg);
    void (*join)(struct world_thread *thread);
};

/* world_use: replace the world, before any thread or lock exists. Borrowed
 * for the life of the process; NULL: the real one again. */
void world_use(const struct world_ops *ops);

/* world_boot_id: which run of the kernel world_boot_ms() counts in, the same
 * for all containers on it: 36 characters of hexadecimal digits and '-', other
 * ones after each boot. "": not known. Static. */
const char *world_boot_id(void);

/* world_boot_ms: milliseconds since boot, CLOCK_BOOTTIME: counts on while the
 * machine sleeps, never steps. For deadlines and durations. */
int64_t world_boot_ms(void);

/* world_wall_ticks: UTC now in ticks: 100 ns since 0001-01-01. May step. */
int64_t world_wall_ticks(void);

/* world_random: len unpredictable bytes. */
void world_random(void *to, size_t len);

/* world_random_below: uniform in 0 .. limit-1; limit > 0. */
uint64_t world_random_below(uint64_t limit);

void world_mutex_init(struct world_mutex *mutex);
void world_mutex_done(struct world_mutex *mutex);
void world_lock(struct world_mutex *mutex);
void world_unlock(struct world_mutex *mutex);

void world_cond_init(struct world_cond *cond);
void world_cond_done(struct world_cond *cond);

/*
 * world_wait: with mutex held, wait for a wake or until world_boot_ms() is
 * until_ms (WORLD_NEVER: no limit). False: the time has come. May wake without
 * cause; callers look at their condition in a loop. mutex is let go of even
 * where the time has come before.
 */
bool world_wait(
    struct world_cond *cond, struct world_mutex *mutex, int64_t until_ms);
void world_wake_all(struct world_cond *cond);

/*
 * world_start: run body(arg) on a thread of its own, named for debuggers (15
 * bytes), with all signals blocked. To be joined. Failing to start one ends
 * the process with exit code 75.
 */
void world_start(struct world_thread *thread, const char *name,
    void (*body)(void *arg), void *arg);
void world_join(struct world_thread *thread);

/*
 * world_block_pipe: keep SIGPIPE away from this thread, for a library that
 * writes to sockets with write(2). True: it was let in before, and
 * world_let_pipe() must let it in again; one that came meanwhile is forgotten.
 * The same in every world.
 */
bool world_block_pipe(void);
void world_let_pipe(void);

#endif
