/* SPDX-License-Identifier: MIT */
/*
 * The network between one worker process and the service: requests take time,
 * and the deadline is checked at the moment they leave.
 */
#ifndef TW_TESTS_SIMULATE_WIRE_H
#define TW_TESTS_SIMULATE_WIRE_H

#include "tests/simulate/sim.h"

struct wire {
    struct interposed outer; /* first: use &wire->outer.store */
    struct sim *sim;
    const void *process; /* identifies the sender for the book */
    bool data; /* this wire leads to the store that has only the tables of the
                  job */
    unsigned requests; /* number of requests that were sent */

    /* unreached (or NULL): called for each request that is sent while the
     * service cannot be reached. */
    void (*unreached)(void *ctx, int64_t at_ms, bool queue);
    void *ctx;
};

void wire_init(
    struct wire *wire, struct sim *sim, const void *process, const char *name);

#endif
