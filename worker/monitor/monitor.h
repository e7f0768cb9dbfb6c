/* SPDX-License-Identifier: MIT */
/*
 * Everything that a worker serves on `worker.listen`. command_worker.c starts
 * the monitor when the consumer exists, and stops it before the consumer is
 * freed.
 */
#ifndef TW_MONITOR_MONITOR_H
#define TW_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"

struct activity;
struct consumer;
struct definition;
struct monitor;

struct monitor_options {
    const struct definition *definition; /* definition->setup->listen is not
                                            NULL; borrowed until
                                            monitor_stop() */
    struct consumer *consumer;           /* borrowed until monitor_stop() */
    struct activity *activity;           /* borrowed until monitor_stop() */
    int64_t watchdog_ms; /* limit of the service manager's watchdog; 0: none */
};

/*
 * monitor_start: listen and serve. Logs the address, with a warning if other
 * machines can reach it.
 *
 * TW_REFUSED  the address or port cannot be listened on now.
 * TW_INVALID  the address or the file of `admin_token_file` is wrong.
 */
TW_MUST_USE enum tw_err monitor_start(const struct monitor_options *options,
    struct monitor **ret, struct err *err);

/* monitor_port: return the port on which the monitor listens. */
unsigned monitor_port(const struct monitor *monitor);

/* monitor_note_reload: call when the configuration was read again. accepted:
 * false if it was refused. Does nothing if monitor is NULL. Any thread. */
void monitor_note_reload(struct monitor *monitor, bool accepted);

void monitor_stop(struct monitor *monitor); /* does nothing if given NULL */

#endif
