/* SPDX-License-Identifier: MIT */
/* The HTTP server: ports, threads, and the steps of a request. */
#ifndef TW_AZSIM_SERVER_H
#define TW_AZSIM_SERVER_H

#include <stdint.h>

struct azsim;
struct bend;
struct server;

/* server_start: opens a pair of ports on 127.0.0.1 for each worker; the system
 * chooses the ports. NULL: no port is free. azsim and bend are borrowed. Owned
 * by the caller. */
struct server *server_start(
    struct azsim *azsim, struct bend *bend, unsigned workers);
void server_stop(struct server *server);

/* server_port: returns the port of a worker's table service (0) or queue
 * service (1). */
uint16_t server_port(
    const struct server *server, unsigned worker, unsigned service);

#endif
