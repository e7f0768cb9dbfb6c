/* SPDX-License-Identifier: MIT */
/*
 * Status for the service manager: datagrams of a few bytes to the socket that
 * $NOTIFY_SOCKET names (a path, or "@name" for an abstract one).
 *
 * Source: sd_notify(3), systemd.service(5) Type=notify, WatchdogSec=.
 */
#ifndef TW_RUN_NOTIFY_H
#define TW_RUN_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

struct notify;

/*
 * notify_open: prepare to send to the service manager. socket: the value of
 * $NOTIFY_SOCKET (NULL or empty: all functions below do nothing).
 * watchdog_usec: value of $WATCHDOG_USEC (NULL: no watchdog). watchdog_pid:
 * value of $WATCHDOG_PID; the watchdog of another process is ignored. Owned.
 * Returns NULL, with err, if the address is invalid.
 */
struct notify *notify_open(const char *socket, const char *watchdog_usec,
    const char *watchdog_pid, struct err *err);
void notify_close(struct notify *notify); /* does nothing if given NULL */

/* In all functions below notify may be NULL. A datagram that cannot be sent is
 * dropped. */
void notify_ready(struct notify *notify);    /* READY=1 */
void notify_stopping(struct notify *notify); /* STOPPING=1 */
/* RELOADING=1, MONOTONIC_USEC=; notify_ready() ends the reload. */
void notify_reloading(struct notify *notify);
void notify_watchdog(struct notify *notify); /* WATCHDOG=1 */
void notify_status(struct notify *notify, const char *format, ...)
    TW_PRINTF(2, 3); /* STATUS=; control characters become spaces */

/* notify_watchdog_ms: return the longest time between two calls of
 * notify_watchdog(), which is half of the service manager's limit; 0: no
 * watchdog. */
int64_t notify_watchdog_ms(const struct notify *notify);

#endif
