/* SPDX-License-Identifier: MIT */
/*
 * What a schema-upgrade job says in the configuration: which entities, which
 * version they come from and go to, and the steps between.
 */
#ifndef TW_JOBS_UPGRADE_RULES_H
#define TW_JOBS_UPGRADE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/engine/selector.h"
#include "jobs/engine/template.h"
#include "jobs/place.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct job;
struct job_loader;
struct jobs;

#define UPGRADE_MAX_STEPS 64
#define UPGRADE_MAX_PASSES 1000

enum upgrade_step_type {
    UPGRADE_ADD,    /* kept where the property is there already */
    UPGRADE_SET,    /* overwrites                               */
    UPGRADE_RENAME, /* onto one that exists: the entity fails   */
    UPGRADE_RETYPE,
    UPGRADE_REMOVE,
};

enum upgrade_on_error {
    UPGRADE_FAIL, /* the entity stays as it is, and the run ends failed   */
    UPGRADE_SKIP, /* the entity stays as it is, and is counted            */
    UPGRADE_NULL, /* the property goes: absent is what null is in a table */
};

/*
 * Which part of the steps is carried out.
 *
 *   step                  all                  expand         contract
 *   add, set              carried out          carried out    -
 *   rename                moved                copied         the old one goes
 *   retype                in place             (refused)      (refused)
 *   retype, to_property   copied, old stays    copied         the old one goes
 *   remove                goes                 -              goes
 *
 * all and expand bring entities from `from` to `to`. contract works on those
 * at `to`, and refuses to begin while any is below.
 */
enum upgrade_phase {
    UPGRADE_ALL,
    UPGRADE_EXPAND,
    UPGRADE_CONTRACT,
};

struct upgrade_step {
    enum upgrade_step_type type;
    struct mark mark;
    struct slice property;
    enum edm_type edm;            /* of add, set and retype                  */
    const struct template *value; /* of add and set                          */
    const struct property *constant; /* of add and set without {..}: its value,
                                      else NULL                               */
    struct slice to;                 /* of rename; of retype its to_property, or
                                        empty: in place                         */
    bool lossy;
    enum upgrade_on_error on_error;
};

/* What a step does in its upgrade's phase: the table above. */
enum upgrade_effect {
    UPGRADE_NOTHING,
    UPGRADE_PUT,     /* add, set                                         */
    UPGRADE_MOVE,    /* from property to `to`                            */
    UPGRADE_COPY,    /* the same; the old one stays. A retype converts   */
    UPGRADE_CONVERT, /* in place                                         */
    UPGRADE_DROP,    /* property goes; where there is a `to`, only where
                        that is there                                    */
};

/* A job of the same table that brings entities to this one's `from`, or to the
 * `from` of one that does. */
struct upgrade_before {
    const char *job;             /* its name */
    const struct property *from; /* the version of entities that wait for it */
};

struct upgrade {
    struct place place;
    struct selector selector; /* nothing but a filter, or empty */
    struct slice version;     /* the property */
    struct property from, to; /* its values: Int32, Int64 or String */
    struct upgrade_step *steps;
    size_t step_count;
    enum upgrade_phase phase;
    int64_t max_passes;

    /* Of the other jobs, by upgrade_rules_link(). */
    struct upgrade_before *befores;
    size_t before_count;
    bool absent_is_before; /* without a version property: an entity at the
                              `from` of befores[0], the first of the chain; else
                              at ours */
};

/*
 * upgrade_rules_load: see struct kind, load. Refused, each at its place: a
 * step that names PartitionKey, RowKey, Timestamp, the version property or a
 * name that the service forbids; a value that is none of its type; a
 * conversion that is impossible, or lossy without `lossy: true`; a rename or a
 * to_property onto a property that another step adds, sets, or makes; a step
 * or a template that reads what a step before it has removed; from and to that
 * are equal; a retype in place in a phase other than all.
 */
struct upgrade *upgrade_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/*
 * upgrade_rules_link: see struct kind, link: the chain of versions. Jobs
 * belong to one chain when table and version property are the same, and their
 * filters are or one has none; contract jobs belong to none. A cycle is a
 * problem; a chain that nothing but its filters part is a warning.
 */
void upgrade_rules_link(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems);

/* upgrade_rules_explain: what it reads and writes, in order, a line each. */
void upgrade_rules_explain(const struct upgrade *upgrade, struct buf *to);

/*
 * upgrade_rules_select: the filter with a run's arguments; ret lives in arena.
 * TW_INVALID: they make no filter, or one that would take everything.
 */
TW_MUST_USE enum tw_err upgrade_rules_select(const struct upgrade *upgrade,
    const struct run_args *args, struct arena *arena, struct selection *ret,
    struct err *err);

/* upgrade_rules_effect: step is one of upgrade's. */
enum upgrade_effect upgrade_rules_effect(
    const struct upgrade *upgrade, const struct upgrade_step *step);

/* upgrade_rules_same_version: integers are equal by value, whichever of Int32,
 * Int64 or a whole Double they are; texts by text. */
bool upgrade_rules_same_version(
    const struct property *a, const struct property *b);

/* upgrade_rules_is_below: both are whole numbers, and a is the lesser. */
bool upgrade_rules_is_below(const struct property *a, const struct property *b);

/* upgrade_step_name: "add", "rename", ... */
const char *upgrade_step_name(enum upgrade_step_type type);

#endif
