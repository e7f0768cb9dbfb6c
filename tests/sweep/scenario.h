/* SPDX-License-Identifier: MIT */
/*
 * A scenario of the crash sweep: a configuration, tables and messages, and a
 * judge that decides whether the state of the store is allowed. For a new kind
 * of job, add a row to the table in scenarios.c, and a judge if none of these
 * fits.
 */
#ifndef TW_TESTS_SWEEP_SCENARIO_H
#define TW_TESTS_SWEEP_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/run/ledger.h"
#include "worker/store/entity.h"
#include "worker/store/store.h"

#define SWEEP_STORE "main"
#define SWEEP_QUEUE "work"
#define SWEEP_JOB "delete-channel"
#define SWEEP_UPGRADE "upgrade"
#define SWEEP_CONTRACT_ID                                                      \
    "contract" /* id of the second run of SWEEP_UPGRADE                        \
                */
#define SWEEP_CARRY "carry"
#define SWEEP_SOURCE "Sources"
#define SWEEP_COPIES "Copies"
#define SWEEP_ID "r1"
#define SWEEP_VISIBILITY_TIMEOUT_S 60

/* What an operator asks of the run, once (person.h). */
enum sweep_control { SWEEP_NOTHING, SWEEP_PAUSE, SWEEP_CANCEL };

/* One entity of the initial state. */
struct sweep_entity {
    const char *table;
    struct entity entity;
    size_t parent; /* index of its parent, or NO_PARENT */
    bool doomed;   /* the run must delete it */
    bool later;    /* the front end inserts it when it acts */
    bool again;    /* the front end inserts it again when it acts; from then on
                      the run must not delete it */
    char *was;     /* the entity as read back: ETag, Timestamp, properties; for
                      an entity that is inserted later, its properties alone */
};
#define NO_PARENT SIZE_MAX

struct model_upgrade;

/* What the job SWEEP_CARRY does with the entities of SWEEP_SOURCE. It moves
 * (move) or copies them: to other keys of SWEEP_SOURCE (within), or to
 * SWEEP_COPIES. */
struct sweep_carry {
    bool move, within;
};

struct stage {
    struct arena arena;
    struct sweep_entity *list; /* once stored, sorted by table and keys */
    size_t count, room;
    const char *messages[4];
    size_t message_count;
};

/* The state that a judge examines. */
struct scene {
    const struct scenario *scenario;
    const struct stage *stage;
    struct store *store;
    const char *folder; /* folder of the store and the archive */
    bool ended; /* true: a worker has ended by itself; false: a worker was just
                   killed */
    unsigned killed; /* number of workers that were killed */
    bool acted;      /* the front end has acted */
    bool stopped;    /* an operator's pause or cancel took effect */
};

struct scenario {
    const char *name;
    const char *configuration; /* YAML: the maps `worker` and `jobs` */
    void (*fill)(struct stage *stage);
    /* judge: true if the state is allowed; false: err says what is wrong. */
    bool (*judge)(const struct scene *scene, struct err *err);
    int64_t way_max_ms; /* a request takes less than this to reach the store,
                           and so does its response. It is long in scenarios in
                           which the lease must be renewed and checkpoints
                           stored during the run */
    /* acts: after a kill, true if the front end must now insert the entities
     * marked `later` and `again`. It acts once. NULL: never. */
    bool (*acts)(const struct scene *scene);
    enum sweep_control control; /* what an operator asks at some request; a
                                   paused run is resumed by the next process */
    int64_t effect_ms;     /* how long after the request of the operator the run
                              must have stopped; 0: PERSON_EFFECT_MS */
    const char *job;       /* job of the run, if control is set */
    enum ledger_state end; /* the state in which the run must end */
    const struct model_upgrade *upgrade;  /* model of SWEEP_UPGRADE, if the
                                             scenario has this job */
    const struct model_upgrade *contract; /* model of the job's second run;
                                             NULL: there is none */
    const struct sweep_carry *carry;      /* model of SWEEP_CARRY, if the
                                             scenario has this job */
    bool archived; /* the job has an archive: each deleted entity must be in
                      it */
    bool pairs;    /* small enough for cases in which two workers are killed */
};

/* scenarios: returns the array of all scenarios, which is static. */
const struct scenario *scenarios(size_t *ret_count);

#endif
