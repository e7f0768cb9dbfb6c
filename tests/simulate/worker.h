/* SPDX-License-Identifier: MIT */
/*
 * A worker: one process after another, each running consumer_run() with a
 * definition of its own, until it is told to go home for good.
 */
#ifndef TW_TESTS_SIMULATE_WORKER_H
#define TW_TESTS_SIMULATE_WORKER_H

#include "tests/simulate/sim.h"

/* worker_new: started at once. Lives as long as the world. */
struct worker *worker_new(struct sim *sim, unsigned number);

/* worker_befall: something happens to it: a crash, a stall, ... */
void worker_befall(struct worker *worker);

/* worker_pause: as a hypervisor does; false: it has no lease, or is stalled
 * already.
 */
bool worker_pause(struct worker *worker, int64_t ms);

/* worker_start: where no process of it is alive. */
void worker_start(struct worker *worker);

/* worker_stop: as SIGTERM does. */
void worker_stop(struct worker *worker);

/* worker_is_known_dead: has the process of this Owner ended on the host of the
 * process of the other one? */
bool worker_is_known_dead(
    struct sim *sim, struct slice owner, struct slice other);

bool worker_alive(const struct worker *worker);

/* worker_requests: of all its processes. */
unsigned worker_requests(const struct worker *worker);

#endif
