/* SPDX-License-Identifier: MIT */
/*
 * The person: an operator who pauses or cancels the run of a scenario while a
 * worker is working, and resumes a paused run later. struct last_words keeps
 * across a kill what the operator has asked for.
 *
 * The operator asks at one request of the worker. The pause or cancel must take
 * effect within PERSON_EFFECT_MS (or effect_ms of the scenario). From then
 * until `resume`, no worker may send a write to a table of the job, and an
 * owner that was not killed must have stopped the run.
 */
#ifndef TW_TESTS_SWEEP_PERSON_H
#define TW_TESTS_SWEEP_PERSON_H

#include <stdbool.h>

#include "tests/sweep/killer.h"
#include "tests/sweep/scenario.h"

struct definition;

#define PERSON_EFFECT_MS INT64_C(10000)

struct person {
    const struct scenario *scenario;
    struct store *store; /* the store without the killer, so that no request is
                            counted */
    struct killer *killer;
    bool resumes; /* the run is paused: resume it before the worker starts */
    char dead_owner[200]; /* Owner of the run when this process began; "":
                             none */
};

/*
 * person_come: call at the beginning of a process, when the killer is
 * initialized. If the run has not been asked to stop so far, the operator will
 * ask at the worker's request number `request` (0: never).
 */
void person_come(struct person *person, unsigned request);

/* person_resume: resumes the run if person->resumes is set. The store of
 * definition must be person->store. Call it in a virtual thread. */
void person_resume(struct person *person, const struct definition *definition);

/*
 * person_leave: call when the worker has ended. True: the run has ended, or is
 * paused as the operator asked; *ret_over: true if no further process is
 * needed. False: err says what is wrong.
 */
bool person_leave(struct person *person, bool *ret_over, struct err *err);

#endif
