/* SPDX-License-Identifier: MIT */
/*
 * The folder is watched, not the file, because a write-ahead log is created and
 * deleted. SQLite writes a transaction to the log, waits for the disk, and then
 * makes the transaction visible by a write to shared memory that inotify does
 * not report. So changed() is called at once after an event, and again a few
 * times (AGAIN_MS).
 */
#include "worker/store/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"

#define LOG_SUFFIX "-wal"

/* Delays of the repeated calls of changed() after one event; each is counted
 * from the call before. */
static const int AGAIN_MS[] = {10, 20, 40, 80, 160};

#define AGAIN_COUNT (sizeof(AGAIN_MS) / sizeof(AGAIN_MS[0]))

/* Minimum time between calls of changed(). */
#define REST_MS 10

struct watch {
    int events, stop; /* descriptors of inotify and eventfd */
    char *name;       /* name of the file, without its folder */
    void (*changed)(void *context);
    void *context;
    struct platform_thread thread;
};

static bool is_wanted(
    const struct watch *watch, const struct inotify_event *event)
{
    size_t len = strlen(watch->name);

    if (event->mask & IN_Q_OVERFLOW)
        return true;
    return event->len > 0 && strncmp(event->name, watch->name, len) == 0 &&
           (event->name[len] == '\0' ||
               strcmp(event->name + len, LOG_SUFFIX) == 0);
}

/* Reads the pending events. True: one of them concerns the file or its log. */
static bool take_events(const struct watch *watch)
{
    _Alignas(struct inotify_event) char
        buffer[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
    ssize_t len = read(watch->events, buffer, sizeof(buffer));
    bool wanted = false;

    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *event =
            (const struct inotify_event *)(const void *)(buffer + at);

        wanted |= is_wanted(watch, event);
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return wanted;
}

static int left_ms(int64_t due_ms)
{
    int64_t now_ms = platform_boot_ms();

    if (due_ms == PLATFORM_NEVER)
        return -1;
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

/* Waits until due_ms or, if events is true, for an inotify event. False: the
 * watch ends. */
static bool wait_for(const struct watch *watch, bool events, int64_t due_ms)
{
    struct pollfd files[] = {
        {.fd = watch->stop, .events = POLLIN},
        {.fd = watch->events, .events = POLLIN},
    };

    while (poll(files, events ? 2 : 1, left_ms(due_ms)) < 0)
        if (errno != EINTR)
            return false;
    return files[0].revents == 0;
}

static void watch_file(void *context)
{
    struct watch *watch = context;
    int64_t due_ms =
        PLATFORM_NEVER; /* time of the next call if no event comes */
    size_t again = 0;

    while (wait_for(watch, true, due_ms)) {
        bool written = take_events(watch);

        if (written || platform_boot_ms() >= due_ms) {
            watch->changed(watch->context);
            again = written ? 0 : again;
            due_ms = again < AGAIN_COUNT ? platform_boot_ms() + AGAIN_MS[again]
                                         : PLATFORM_NEVER;
            again++;
        }
        if (!wait_for(watch, false, platform_boot_ms() + REST_MS))
            return;
    }
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return mem_text(".", 1);
    return mem_text(path, slash == path ? 1 : (size_t)(slash - path));
}

static bool add_folder(const struct watch *watch, const char *path)
{
    char *folder = folder_of(path);
    bool added =
        inotify_add_watch(watch->events, folder, IN_MODIFY | IN_ONLYDIR) >= 0;

    mem_free(folder);
    return added;
}

static void free_watch(struct watch *watch)
{
    if (watch->events >= 0)
        (void)close(watch->events);
    if (watch->stop >= 0)
        (void)close(watch->stop);
    mem_free(watch->name);
    mem_free(watch);
}

struct watch *watch_begin(
    const char *path, void (*changed)(void *context), void *context)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    struct watch *watch = mem_alloc(sizeof(*watch));

    watch->events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->stop = eventfd(0, EFD_CLOEXEC);
    watch->name = mem_text(name, strlen(name));
    watch->changed = changed;
    watch->context = context;
    if (watch->events < 0 || watch->stop < 0 || !add_folder(watch, path)) {
        free_watch(watch);
        return NULL;
    }
    platform_start(&watch->thread, "watch", watch_file, watch);
    return watch;
}

void watch_end(struct watch *watch)
{
    const uint64_t one = 1;

    if (watch == NULL)
        return;
    while (write(watch->stop, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    platform_join(&watch->thread);
    free_watch(watch);
}
