/* SPDX-License-Identifier: MIT */
/*
 * The network between one worker process and the service: requests take their
 * time, and the deadline is asked in the moment they leave.
 */
#ifndef TW_TESTS_SIMULATE_WIRE_H
#define TW_TESTS_SIMULATE_WIRE_H

#include "tests/simulate/sim.h"

struct wire {
    struct interposed outer; /* first: use &wire->outer.store */
    struct sim *sim;
    const void *process; /* whose; by it the book knows who sends */
    bool data;           /* it leads to the store of the data alone */
    unsigned requests;   /* that left */

    /* unreached: called for each that leaves while nobody is there, where set.
     */
    void (*unreached)(void *ctx, int64_t at_ms, bool queue);
    void *ctx;
};

void wire_init(
    struct wire *wire, struct sim *sim, const void *process, const char *name);

#endif
