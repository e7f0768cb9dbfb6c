/* SPDX-License-Identifier: MIT */
/*
 * A second implementation of what a schema upgrade does to an entity: tests
 * compare with it what a worker has stored. It knows only the steps,
 * conversions and texts that the tests use.
 */
#ifndef TW_TESTS_SUPPORT_UPGRADE_MODEL_H
#define TW_TESTS_SUPPORT_UPGRADE_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/store/entity.h"

#define MODEL_STEPS_MAX 16

enum model_step_type {
    MODEL_ADD,
    MODEL_RENAME,
    MODEL_RETYPE,
    MODEL_REMOVE,
};

struct model_step {
    enum model_step_type type;
    const char *property,
        *to; /* rename: the new name; retype: `to_property`, or NULL */
    enum edm_type edm;
    const char *value;    /* add: the value as JSON */
    const char *on_error; /* retype: "fail" or "skip" */
};

enum model_phase {
    MODEL_ALL,
    MODEL_EXPAND,
    MODEL_CONTRACT,
};

struct model_upgrade {
    const char *filter_property; /* the name of an Edm.String */
    const char *filter_value;
    const char *version; /* name of the version property */
    int from, to;
    bool absent_is_at; /* an entity without a version counts as `from` */
    enum model_phase phase;
    struct model_step steps[MODEL_STEPS_MAX];
    size_t count;
};

/* What an upgrade makes of an entity. */
enum model_end {
    MODEL_NOT_ITS, /* excluded by the filter or by the version */
    MODEL_CHANGED,
    MODEL_UNCHANGED, /* a contract that has nothing to remove */
    MODEL_SKIPPED,
    MODEL_FAILED,
};

/* model_apply: returns what the upgrade makes of entity, and the changed entity
 * in *ret, which lives in arena. */
enum model_end model_apply(const struct model_upgrade *upgrade,
    const struct entity *entity, struct arena *arena, struct entity *ret);

/* model_same: returns whether both entities have the same keys and the same
 * properties with the same types and values, in any order. */
bool model_same(const struct entity *a, const struct entity *b);

/* model_set: sets the property to this value, JSON of this type. */
void model_set(struct entity *entity, struct arena *arena, const char *name,
    enum edm_type type, const char *json);

#endif
