/* SPDX-License-Identifier: MIT */
/*
 * What a schema upgrade does to an entity, said a second time and in other
 * words: tests judge by it what a worker has stored. It knows the conversions
 * and the texts that the tests use, and no others.
 */
#ifndef TW_TESTS_SUPPORT_UPGRADE_MODEL_H
#define TW_TESTS_SUPPORT_UPGRADE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/store/entity.h"

#define MODEL_STEPS_MAX 16

enum model_step_type {
    MODEL_ADD,
    MODEL_ADD_LOWER, /* value: the property whose text is made lower */
    MODEL_SET,
    MODEL_RENAME,
    MODEL_RETYPE,
    MODEL_REMOVE,
};

struct model_step {
    enum model_step_type type;
    const char *property,
        *to; /* to: of rename; of retype to_property or NULL */
    enum edm_type edm;
    const char *value;    /* of add and set: as JSON */
    bool lossy;           /* of retype */
    const char *on_error; /* of retype: "fail", "skip", "null"; else NULL */
};

enum model_phase {
    MODEL_ALL,
    MODEL_EXPAND,
    MODEL_CONTRACT,
};

struct model_upgrade {
    const char *filter_property; /* of an Edm.String; NULL: every entity */
    const char *filter_value;
    const char *version; /* the property */
    int from, to;
    bool texts;        /* versions are of Edm.String */
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

/* model_matches: does its filter name the entity? */
bool model_matches(
    const struct model_upgrade *upgrade, const struct entity *entity);

/* model_is_at: is the entity at that version, by value? Absent: no. */
bool model_is_at(const struct model_upgrade *upgrade,
    const struct entity *entity, int version);

/* model_apply: *ret lives in arena. */
enum model_end model_apply(const struct model_upgrade *upgrade,
    const struct entity *entity, struct arena *arena, struct entity *ret);

/* model_same: the same properties with the same types and values, in whichever
 * order. */
bool model_same(const struct entity *a, const struct entity *b);

/* model_add_steps: the steps as the configuration has them, below `steps:`. */
void model_add_steps(const struct model_upgrade *upgrade, struct buf *to);

/* model_set: the property becomes that JSON of that type. */
void model_set(struct entity *entity, struct arena *arena, const char *name,
    enum edm_type type, const char *json);

/* model_text: the n-th of the texts whose conversion it knows, as JSON. */
const char *model_text(size_t n);
size_t model_texts(void);

#endif
