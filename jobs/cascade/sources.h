/* SPDX-License-Identifier: MIT */
/*
 * Reads a rule backwards. A rule is bound to values: arguments of the job, and
 * keys and properties of the entity above. An entity that the rule finds has
 * some of these values in its own keys and properties, from which they can be
 * read.
 */
#ifndef TW_JOBS_CASCADE_SOURCES_H
#define TW_JOBS_CASCADE_SOURCES_H

#include <stdbool.h>

#include "jobs/cascade/rules.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* The key or property of an entity from which a value can be read. */
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

/* source_of_arg: returns the source of the value of the argument `arg`: the key
 * or property from which it can be read, in each entity that rule finds. */
struct source source_of_arg(const struct rule *rule, int arg);

/* source_of_read: returns the source of the value of `read`, as
 * source_of_arg() does. read: the name of a key or property of the entity
 * above. */
struct source source_of_read(const struct rule *rule, struct slice read);

/* source_key: returns the key of entity that `source` names. This key is the
 * value, or begins with it. */
struct slice source_key(
    const struct source *source, const struct entity *entity);

/* source_value: *ret becomes the value that source reads from entity. The value
 * lives in arena or in entity. source->by may not be TOLD_BY_PREFIX. False:
 * entity does not have the property, or the type of the property is not String.
 */
bool source_value(const struct source *source, const struct entity *entity,
    struct arena *arena, struct slice *ret);

/* rule_reads_arg: does a template of rule read the argument? */
bool rule_reads_arg(const struct rule *rule, size_t arg);

#endif
