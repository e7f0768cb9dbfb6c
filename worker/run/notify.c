/* SPDX-License-Identifier: MIT */
/* Datagrams for the service manager, as sd_notify(3) describes them. */
#include "worker/run/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"

struct notify {
    int fd; /* -1: no socket, nothing is sent */
    struct sockaddr_un address;
    socklen_t address_len;
    int64_t watchdog_ms;
};

/* Sets the address of the socket. In the address of an abstract socket,
 * "@name", a NUL byte replaces the @. */
static enum tw_err set_address(
    struct notify *notify, const char *socket_name, struct err *err)
{
    size_t len = strlen(socket_name);

    if (socket_name[0] != '/' && socket_name[0] != '@')
        return err_fail(err, TW_INVALID,
            "NOTIFY_SOCKET is neither a path nor an abstract name");
    if (len >= sizeof(notify->address.sun_path))
        return err_fail(err, TW_INVALID, "NOTIFY_SOCKET is too long");
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, socket_name, len);
    if (socket_name[0] == '@')
        notify->address.sun_path[0] = '\0';
    notify->address_len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return TW_OK;
}

static int64_t watchdog_of(const char *usec, const char *pid)
{
    int64_t limit_us, process;

    if (usec == NULL || !text_int64(slice_of(usec), 1, INT64_MAX, &limit_us))
        return 0;
    if (pid && pid[0] != '\0' &&
        (!text_int64(slice_of(pid), 1, INT64_MAX, &process) ||
            process != getpid()))
        return 0;
    return limit_us / 2000 > 0 ? limit_us / 2000 : 1;
}

struct notify *notify_open(const char *socket_name, const char *watchdog_usec,
    const char *watchdog_pid, struct err *err)
{
    struct notify *notify = mem_alloc(sizeof(*notify));

    notify->fd = -1;
    if (socket_name == NULL || socket_name[0] == '\0')
        return notify;
    if (set_address(notify, socket_name, err) != TW_OK) {
        notify_close(notify);
        return NULL;
    }
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->fd < 0) {
        (void)err_fail(
            err, TW_INVALID, "cannot make a socket: %s", strerror(errno));
        notify_close(notify);
        return NULL;
    }
    notify->watchdog_ms = watchdog_of(watchdog_usec, watchdog_pid);
    return notify;
}

void notify_close(struct notify *notify)
{
    if (notify == NULL)
        return;
    if (notify->fd >= 0)
        (void)close(notify->fd);
    mem_free(notify);
}

static void send_text(struct notify *notify, const char *text)
{
    if (notify == NULL || notify->fd < 0)
        return;
    (void)sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
        (const struct sockaddr *)&notify->address, notify->address_len);
}

void notify_ready(struct notify *notify)
{
    send_text(notify, "READY=1");
}

void notify_stopping(struct notify *notify)
{
    send_text(notify, "STOPPING=1");
}

void notify_reloading(struct notify *notify)
{
    char text[64];
    struct timespec now;

    /* The manager compares this with its own CLOCK_MONOTONIC. Nothing else in
     * this program uses that clock. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
        (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    send_text(notify, text);
}

void notify_watchdog(struct notify *notify)
{
    send_text(notify, "WATCHDOG=1");
}

void notify_status(struct notify *notify, const char *format, ...)
{
    char text[512] = "STATUS=";
    size_t start = strlen(text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + start, sizeof(text) - start, format, args);
    va_end(args);
    for (char *c = text + start; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    send_text(notify, text);
}

int64_t notify_watchdog_ms(const struct notify *notify)
{
    return notify ? notify->watchdog_ms : 0;
}
