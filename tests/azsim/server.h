/* SPDX-License-Identifier: MIT */
/* The HTTP side: ports, threads, and a request's way through the parts. */
#ifndef TW_AZSIM_SERVER_H
#define TW_AZSIM_SERVER_H

#include <stdint.h>

struct azsim;
struct bend;
struct server;

/* server_start: as many pairs of ports on 127.0.0.1 as workers, of the
 * system's choice. NULL: no port was to be had. azsim and bend are borrowed.
 * Owned. */
struct server *server_start(
    struct azsim *azsim, struct bend *bend, unsigned workers);
void server_stop(struct server *server);

/* server_port: of a worker's table (0) or queue (1) service. */
uint16_t server_port(
    const struct server *server, unsigned worker, unsigned service);

#endif
