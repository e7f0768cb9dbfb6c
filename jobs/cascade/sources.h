/* SPDX-License-Identifier: MIT */
/*
 * Reads a rule backwards: what an entity that the rule finds shows of the
 * values that the rule was bound to. These values are arguments of the job, and
 * keys and properties of the entity above.
 */
#ifndef TW_JOBS_CASCADE_SOURCES_H
#define TW_JOBS_CASCADE_SOURCES_H

#include <stdbool.h>

#include "jobs/cascade/rules.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* The part of an entity that a value is derived from. */
struct source {
    enum {
        TOLD_BY_NOTHING,
        TOLD_BY_KEY,     /* the key is the value */
        TOLD_BY_PREFIX,  /* the key begins with the value and `rest` */
        TOLD_BY_PROPERTY /* `property`, or a key of that name, is the value */
    } by;
    bool row_key; /* the key is the RowKey, not the PartitionKey */
    struct slice rest;
    struct slice property;
};

/* source_of_arg: the source of argument `arg` in the entities of rule. */
struct source source_of_arg(const struct rule *rule, int arg);

/* source_of_read: the source of `read`, a key or property of the entity above,
 * in the entities of rule. */
struct source source_of_read(const struct rule *rule, struct slice read);

/* source_key: the key that is or begins with the value. */
struct slice source_key(
    const struct source *source, const struct entity *entity);

/* source_value: the value that entity shows, in arena or in entity; not for
 * TOLD_BY_PREFIX. False: entity has no such property, or not as a String. */
bool source_value(const struct source *source, const struct entity *entity,
    struct arena *arena, struct slice *ret);

/* rule_reads_arg: does a template of rule read the argument? */
bool rule_reads_arg(const struct rule *rule, size_t arg);

#endif
