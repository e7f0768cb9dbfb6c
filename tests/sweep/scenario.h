/* SPDX-License-Identifier: MIT */
/*
 * What is swept: a configuration, tables and messages, and a judge who says
 * whether what is there is allowed. A later kind brings a row of the table in
 * scenarios.c, and a judge where these do not fit.
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
#define SWEEP_CONTRACT_ID "contract" /* of the second run of SWEEP_UPGRADE */
#define SWEEP_CARRY "carry"
#define SWEEP_SOURCE "Sources"
#define SWEEP_COPIES "Copies"
#define SWEEP_ID "r1"
#define SWEEP_VISIBILITY_TIMEOUT_S 60

/* What a person asks of the run, once: see person.h. */
enum sweep_control { SWEEP_NOTHING, SWEEP_PAUSE, SWEEP_CANCEL };

/* One entity as it is at the beginning. */
struct sweep_entity {
    const char *table;
    struct entity entity;
    size_t parent; /* index of what it hangs from; NO_PARENT */
    bool doomed;   /* the run is to delete it */
    bool later;    /* not there before the front end acts */
    bool again;    /* gone when the front end acts, and then made again: spared
                      from there on */
    char *was;     /* as read back: ETag, Timestamp, properties; later: the
                      properties alone */
};
#define NO_PARENT SIZE_MAX

struct model_upgrade;

/* SWEEP_CARRY, from SWEEP_SOURCE to SWEEP_COPIES or within SWEEP_SOURCE. */
struct sweep_carry {
    bool move, within;
};

struct stage {
    struct arena arena;
    struct sweep_entity *list; /* in the order of keys of each table, once
                                  it was stored */
    size_t count, room;
    const char *messages[4];
    size_t message_count;
};

/* What a judge looks at. */
struct scene {
    const struct scenario *scenario;
    const struct stage *stage;
    struct store *store;
    const char *folder; /* the archive is in it */
    bool ended; /* a worker has come to its end; else: one was just killed */
    unsigned killed; /* so many workers on the way */
    bool acted;      /* the front end has, before this life */
    bool stopped;    /* the run was seen paused or cancelled */
};

struct scenario {
    const char *name;
    const char *configuration; /* YAML: the maps `worker` and `jobs` */
    void (*fill)(struct stage *stage);
    /* judge: false: err says what is wrong. */
    bool (*judge)(const struct scene *scene, struct err *err);
    int64_t way_max_ms; /* of a request to the store, and of its answer;
                           slow ones meet renewals and checkpoints */
    /* acts: is it now, after a kill, that the front end puts what comes later,
     * and again? Once. NULL: never. */
    bool (*acts)(const struct scene *scene);
    enum sweep_control control; /* what a person asks at some request; a paused
                                   run is resumed in the next life */
    int64_t effect_ms; /* when the run must have stopped, after it was asked; 0:
                          PERSON_EFFECT_MS */
    const char *job;   /* of the run, where control is set */
    enum ledger_state end;                /* how its run ends */
    const struct model_upgrade *upgrade;  /* SWEEP_UPGRADE, where it has one */
    const struct model_upgrade *contract; /* its second run; NULL: none */
    const struct sweep_carry *carry;      /* SWEEP_CARRY, where it has one */
    bool archived; /* what is deleted is in the archive */
    bool pairs;    /* small enough to be killed twice */
};

/* scenarios: all there are. Static. */
const struct scenario *scenarios(size_t *ret_count);

#endif
