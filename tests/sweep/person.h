/* SPDX-License-Identifier: MIT */
/*
 * A person who pauses or cancels the run of a scenario while a worker is at
 * work, and resumes a paused run later. What the person asked for survives a
 * kill in struct last_words.
 *
 * The person asks at one request of the worker. From PERSON_EFFECT_MS (or
 * effect_ms of the scenario) after that on, and until `resume`, no worker may
 * send a write to a table of the job; and an owner that lives has stopped the
 * run by then.
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
    struct store *store; /* not the killer's: no request is counted */
    struct killer *killer;
    bool resumes; /* the run is paused: resume it before the worker starts */
    char dead_owner[200]; /* of the run at the beginning of this life; "": none
                           */
};

/*
 * person_come: call at the beginning of a life, when the killer is ready. If
 * the run has not been asked to stop so far, the person will ask at the
 * worker's request number `request` (0: never).
 */
void person_come(struct person *person, unsigned request);

/* person_resume: put the run's message again, if person->resumes. definition:
 * with person->store as its store. In a virtual thread. */
void person_resume(struct person *person, const struct definition *definition);

/*
 * person_leave: call when the worker has ended. True: the run has ended, or is
 * paused as the person asked; *ret_over: no further life is needed. False: err
 * says what is wrong.
 */
bool person_leave(struct person *person, bool *ret_over, struct err *err);

#endif
