/* SPDX-License-Identifier: MIT */
/*
 * The real platform: the kernel's clocks and randomness, POSIX threads. The
 * public functions call through one table, so that a simulation can replace the
 * platform.
 */
#include "worker/base/platform.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"

#define EXIT_AGAIN 75
#define NAME_MAX_BYTES 15
#define NS_PER_MS 1000000L
#define NS_PER_S 1000000000L

/* The stack size of a thread. It takes address space only: untouched pages take
 * no memory. */
#define STACK_BYTES ((size_t)1024 * 1024)

/*
 * A condition variable cannot wait on CLOCK_BOOTTIME, and CLOCK_MONOTONIC stops
 * while the machine is suspended. So a single wait is at most this long: after
 * a suspension the end of the whole wait is noticed at most this much later.
 */
#define LONGEST_WAIT_MS 10000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* End the process, because the system refuses a resource without which no run
 * can work. */
static void __attribute__((noreturn)) give_up(const char *what, int error)
{
    char line[160];
    int len = snprintf(
        line, sizeof(line), "tableward: %s: %s\n", what, strerror(error));

    if (len < 0 || write(STDERR_FILENO, line, (size_t)len) < 0)
        _exit(EXIT_AGAIN);
    _exit(EXIT_AGAIN);
}

/* Ends the process if a pthread call has failed, which only a bug can cause. */
static void must(int error)
{
    if (error != 0)
        abort();
}

static struct timespec now_of(clockid_t clock)
{
    struct timespec now = {0};

    if (clock_gettime(clock, &now) != 0)
        abort();
    return now;
}

/* The file has the text of a UUID and a newline. */
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_LEN 36

static char boot_id[BOOT_ID_LEN + 1]; /* written once: see real_boot_id() */

static bool is_boot_id(const char *text)
{
    return strspn(text, "0123456789abcdef-") == BOOT_ID_LEN;
}

static void read_boot_id(void)
{
    char text[BOOT_ID_LEN + 1] = "";
    int file = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return;
    if (read(file, text, BOOT_ID_LEN) == BOOT_ID_LEN && is_boot_id(text))
        memcpy(boot_id, text, sizeof(boot_id));
    (void)close(file);
}

static const char *real_boot_id(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    must(pthread_once(&once, read_boot_id));
    return boot_id;
}

/*
 * A time namespace adds a constant to CLOCK_BOOTTIME, although the boot id is
 * the same in all namespaces of a kernel. The constant is subtracted again, so
 * that all processes of one boot agree. OFFSETS_FILE describes the namespace of
 * child processes, which is also that of this process, because this process
 * never calls unshare(2).
 *
 * Source: time_namespaces(7).
 */
#define OFFSETS_FILE "/proc/self/timens_offsets"
#define OFFSETS_BOOT "\nboottime" /* followed by seconds and nanoseconds */

static int64_t boot_offset_ms; /* written once: see real_boot_ms() */

static void read_boot_offset(void)
{
    char text[256] = "";
    int file = open(OFFSETS_FILE, O_RDONLY | O_CLOEXEC);
    char *at;

    if (file < 0)
        return; /* a kernel without time namespaces */
    if (read(file, text, sizeof(text) - 1) > 0 &&
        (at = strstr(text, OFFSETS_BOOT)) != NULL) {
        at += strlen(OFFSETS_BOOT);
        boot_offset_ms = strtoll(at, &at, 10) * 1000;
        boot_offset_ms += strtoll(at, NULL, 10) / NS_PER_MS;
    }
    (void)close(file);
}

static int64_t real_boot_ms(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct timespec now = now_of(CLOCK_BOOTTIME);

    must(pthread_once(&once, read_boot_offset));
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS -
           boot_offset_ms;
}

static int64_t real_wall_ticks(void)
{
    struct timespec now = now_of(CLOCK_REALTIME);

    return TICKS_1970 + (int64_t)now.tv_sec * TICKS_PER_S + now.tv_nsec / 100;
}

static void real_random(void *to, size_t len)
{
    unsigned char *at = to;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            give_up("no random bytes", errno);
        at += got;
        len -= (size_t)got;
    }
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

/* Returns the time on CLOCK_MONOTONIC that is wait_ms from now. */
static struct timespec monotonic_in(int64_t wait_ms)
{
    struct timespec until = now_of(CLOCK_MONOTONIC);

    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * NS_PER_MS;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_nsec -= NS_PER_S;
        until.tv_sec++;
    }
    return until;
}

static bool real_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    int64_t now_ms = real_boot_ms();
    struct timespec until;
    int error;

    if (until_ms == PLATFORM_NEVER) {
        must(pthread_cond_wait(&cond->real, &mutex->real));
        return true;
    }
    if (until_ms <= now_ms) {
        must(pthread_mutex_unlock(&mutex->real));
        must(pthread_mutex_lock(&mutex->real));
        return false;
    }
    until =
        monotonic_in(until_ms > now_ms + LONGEST_WAIT_MS ? LONGEST_WAIT_MS
                                                         : until_ms - now_ms);
    error = pthread_cond_timedwait(&cond->real, &mutex->real, &until);
    if (error != ETIMEDOUT)
        must(error);
    return error == 0 || real_boot_ms() < until_ms;
}

static void real_wake_all(struct platform_cond *cond)
{
    must(pthread_cond_broadcast(&cond->real));
}

/* Arguments of a new thread. The thread frees them. */
struct beginning {
    void (*body)(void *arg);
    void *arg;
    char name[NAME_MAX_BYTES + 1];
};

static void *begin(void *at)
{
    struct beginning beginning = *(struct beginning *)at;

    mem_free(at);
    pthread_setname_np(pthread_self(), beginning.name);
    beginning.body(beginning.arg);
    return NULL;
}

/* Start a thread that inherits a mask in which every signal is blocked. */
static int start_masked(
    pthread_t *thread, const pthread_attr_t *attr, struct beginning *beginning)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before));
    error = pthread_create(thread, attr, begin, beginning);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    return error;
}

static void real_start(struct platform_thread *thread, const char *name,
    void (*body)(void *arg), void *arg)
{
    struct beginning *beginning = mem_alloc(sizeof(*beginning));
    pthread_attr_t attr;
    int error;

    beginning->body = body;
    beginning->arg = arg;
    snprintf(
        beginning->name, sizeof(beginning->name), "%.*s", NAME_MAX_BYTES, name);
    must(pthread_attr_init(&attr));
#ifndef SANITIZED
    must(pthread_attr_setstacksize(&attr, STACK_BYTES));
#endif
    error = start_masked(&thread->real, &attr, beginning);
    if (error != 0)
        give_up("cannot start a thread", error);
    must(pthread_attr_destroy(&attr));
}

static void real_join(struct platform_thread *thread)
{
    must(pthread_join(thread->real, NULL));
}

const struct platform_ops platform_real = {
    .boot_id = real_boot_id,
    .boot_ms = real_boot_ms,
    .wall_ticks = real_wall_ticks,
    .random = real_random,
    .mutex_init = real_mutex_init,
    .mutex_done = real_mutex_done,
    .lock = real_lock,
    .unlock = real_unlock,
    .cond_init = real_cond_init,
    .cond_done = real_cond_done,
    .wait = real_wait,
    .wake_all = real_wake_all,
    .start = real_start,
    .join = real_join,
};

/* Set before any thread exists; read-only afterwards. */
static const struct platform_ops *platform = &platform_real;

void platform_use(const struct platform_ops *ops)
{
    platform = ops ? ops : &platform_real;
}

const char *platform_boot_id(void)
{
    return platform->boot_id();
}

int64_t platform_boot_ms(void)
{
    return platform->boot_ms();
}

int64_t platform_wall_ticks(void)
{
    return platform->wall_ticks();
}

void platform_random(void *to, size_t len)
{
    platform->random(to, len);
}

uint64_t platform_random_below(uint64_t limit)
{
    uint64_t drawn, unfair;

    assert(limit > 0);
    /* `unfair` is 2^64 modulo limit. A random number below `unfair` is drawn
     * again, so that the result is uniform. */
    unfair = (UINT64_MAX % limit + 1) % limit;
    do
        platform_random(&drawn, sizeof(drawn));
    while (drawn < unfair);
    return drawn % limit;
}

void platform_mutex_init(struct platform_mutex *mutex)
{
    platform->mutex_init(mutex);
}

void platform_mutex_done(struct platform_mutex *mutex)
{
    platform->mutex_done(mutex);
}

void platform_lock(struct platform_mutex *mutex)
{
    platform->lock(mutex);
}

void platform_unlock(struct platform_mutex *mutex)
{
    platform->unlock(mutex);
}

void platform_cond_init(struct platform_cond *cond)
{
    platform->cond_init(cond);
}

void platform_cond_done(struct platform_cond *cond)
{
    platform->cond_done(cond);
}

bool platform_wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    return platform->wait(cond, mutex, until_ms);
}

void platform_wake_all(struct platform_cond *cond)
{
    platform->wake_all(cond);
}

void platform_start(struct platform_thread *thread, const char *name,
    void (*body)(void *arg), void *arg)
{
    platform->start(thread, name, body, arg);
}

void platform_join(struct platform_thread *thread)
{
    platform->join(thread);
}

/* ---- SIGPIPE ---- */

static sigset_t pipe_alone(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

bool platform_block_pipe(void)
{
    sigset_t set = pipe_alone(), former;

    pthread_sigmask(SIG_BLOCK, &set, &former);
    return !sigismember(&former, SIGPIPE);
}

void platform_let_pipe(void)
{
    const struct timespec now = {0, 0};
    sigset_t set = pipe_alone();

    while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
