/* SPDX-License-Identifier: MIT */
/*
 * What a schema upgrade does to an entity, said a second time and in other
 * words: tests judge by it what a worker has stored. It knows the steps, the
 * conversions and the texts that the tests use, and no others.
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
        *to; /* to: of rename; of retype to_property or NULL */
    enum edm_type edm;
    const char *value;    /* of add: as JSON */
    const char *on_error; /* of retype: "fail" or "skip" */
};

enum model_phase {
    MODEL_ALL,
    MODEL_EXPAND,
    MODEL_CONTRACT,
};

struct model_upgrade {
    const char *filter_property; /* of an Edm.String */
    const char *filter_value;
    const char *version; /* the property */
    int from, to;
    bool absent_is_at; /* an entity without a version is at `from` */
    enum model_phase phase;
    struct model_step steps[MODEL_STEPS_MAX];
    size_t count;
};

/* What an upgrade makes of an entity. */
enum model_end {
    MODEL_NOT_ITS, /* its filter or the version says no */
    MODEL_CHANGED,
    MODEL_UNCHANGED, /* a contract that finds nothing left */
    MODEL_SKIPPED,
    MODEL_FAILED,
};

/* model_apply: *ret lives in arena. */
enum model_end model_apply(const struct model_upgrade *upgrade,
    const struct entity *entity, struct arena *arena, struct entity *ret);

/* model_same: the same properties with the same types and values, in whichever
 * order. */
bool model_same(const struct entity *a, const struct entity *b);

/* model_set: the property becomes that JSON of that type. */
void model_set(struct entity *entity, struct arena *arena, const char *name,
    enum edm_type type, const char *json);

#endif
