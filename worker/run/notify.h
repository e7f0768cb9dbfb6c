/* SPDX-License-Identifier: MIT */
/*
 * What the service manager is told: datagrams of a few bytes to the socket
 * that $NOTIFY_SOCKET names (a path, or "@name" for an abstract one).
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
 * notify_open: socket is $NOTIFY_SOCKET's value (NULL or empty: everything
 * below does nothing), watchdog_usec that of $WATCHDOG_USEC (NULL: none).
 * watchdog_pid that of $WATCHDOG_PID: another process's watchdog is not ours.
 * Owned; NULL with err when the address is of no use.
 */
struct notify *notify_open(const char *socket, const char *watchdog_usec,
    const char *watchdog_pid, struct err *err);
void notify_close(struct notify *notify); /* NULL: nothing */

/* For each, notify may be NULL; a datagram that cannot be sent is dropped. */
void notify_ready(struct notify *notify);     /* READY=1 */
void notify_stopping(struct notify *notify);  /* STOPPING=1 */
void notify_reloading(struct notify *notify); /* RELOADING=1, MONOTONIC_USEC=
                                                 notify_ready() ends it */
void notify_watchdog(struct notify *notify);  /* WATCHDOG=1 */
void notify_status(struct notify *notify, const char *format, ...)
    TW_PRINTF(2, 3); /* STATUS=, control characters taken out */

/* notify_watchdog_ms: how often notify_watchdog() must come at least (half of
 * the limit); 0: nobody waits for it. */
int64_t notify_watchdog_ms(const struct notify *notify);

#endif
