/* SPDX-License-Identifier: MIT */
/*
 * A worker: a sequence of processes. Each runs consumer_run() with its own copy
 * of the configuration; after a crash the next one is started.
 */
#ifndef TW_TESTS_SIMULATE_WORKER_H
#define TW_TESTS_SIMULATE_WORKER_H

#include "tests/simulate/sim.h"

/* worker_new: creates a worker and starts its first process. The worker exists
 * until the end of the simulation. */
struct worker *worker_new(struct sim *sim, unsigned number);

/* worker_befall: makes one random event happen to the worker: a crash, a stall,
 * ... If the worker has no running process, starts the next process. */
void worker_befall(struct worker *worker);

/* worker_pause: stops all clocks of the process for ms, as a hypervisor does.
 * False: it was not paused, because it has no lease or is stalled already. */
bool worker_pause(struct worker *worker, int64_t ms);

/* worker_start: starts the next process; no process of the worker may run. */
void worker_start(struct worker *worker);

/* worker_stop: tells the process to stop, as SIGTERM does. */
void worker_stop(struct worker *worker);

/* worker_is_known_dead: true if the process with the Owner `owner` has ended
 * and ran on the same host as the process of `other`. */
bool worker_is_known_dead(
    struct sim *sim, struct slice owner, struct slice other);

bool worker_alive(const struct worker *worker);

/* worker_requests: number of requests that all its processes have sent. */
unsigned worker_requests(const struct worker *worker);

#endif
