/* SPDX-License-Identifier: MIT */
/* Sockets of the servers that tests start on 127.0.0.1. */
#ifndef TW_TESTS_SUPPORT_LOOPBACK_H
#define TW_TESTS_SUPPORT_LOOPBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/slice.h"

/* loopback_listen: returns a socket that listens on a free port. If this fails,
 * the process ends. */
int loopback_listen(uint16_t *ret_port);

/* loopback_send: sends all bytes. False: the other side has closed. */
bool loopback_send(int socket, struct slice bytes);

/* loopback_reset: close() will reset the connection. */
void loopback_reset(int socket);

#endif
