/* SPDX-License-Identifier: MIT */
/*
 * What a copy of an entity is to look like: its keys, from templates over the
 * source, and which of its properties, under which names, with what added. Used
 * by the kinds that copy (migrate, reindex). Pure: nothing here asks a store.
 */
#ifndef TW_JOBS_COPYING_H
#define TW_JOBS_COPYING_H

#include <stdbool.h>
#include <stddef.h>

#include "config/yaml.h"
#include "jobs/engine/flow.h"
#include "jobs/engine/run.h"
#include "jobs/engine/template.h"
#include "jobs/place.h"
#include "jobs/provenance.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct job_loader;

#define COPYING_MAX_TARGETS 16
#define COPYING_MAX_PROPERTIES 252

/* What another entity at a copy's keys means, that is none of this source. */
enum on_conflict {
    CONFLICT_FAIL, /* the source is told and stays      */
    CONFLICT_SKIP, /* the source stays                  */
    CONFLICT_REPLACE,
    CONFLICT_MERGE, /* the copy's properties over those that are there */
};

/* How people write them, by enum on_conflict; behind the last is a NULL. */
extern const char *const CONFLICT_NAMES[];

struct copying_rename {
    struct slice from, to;
};

/* name: value, over the source. Constants keep their YAML type: true is a
 * Boolean, 5 an Int32 (Int64 beyond), quoted text a String; or {type: Edm.Guid,
 * value: "..."}. */
struct copying_set {
    struct slice name;
    enum edm_type edm;
    const struct template *value;
    const struct property *constant; /* where value has no {..}, else NULL */
};

/* `properties:`. With nothing in it: all, as they are. */
struct copying_shape {
    struct slice *keep, *drop; /* of the source; keep empty: all */
    size_t keep_count, drop_count;
    struct copying_rename *renames; /* of what is kept */
    size_t rename_count;
    struct copying_set *sets; /* last; overwrite */
    size_t set_count;
};

/* One copy of each source. */
struct copying_target {
    struct place place;
    const struct template *partition_key, *row_key; /* NULL: the source's */
    struct copying_shape shape;
};

/*
 * copying_load_shape: from the node of `properties:` (NULL: everything; a list
 * is short for keep). False: problems has been added to: a name that the
 * service forbids, that of a key or of provenance, one that two of them make,
 * keep and drop of the same, a rename of what is not kept, a value that is none
 * of its type.
 */
bool copying_load_shape(const struct yaml_node *node, struct slice provenance,
    struct job_loader *loader, struct copying_shape *ret);

/* What the map of a target need not say. */
struct copying_defaults {
    const struct place *place; /* where all copies go: then the map has neither
                                  store nor table. NULL: it has */
    const struct copying_shape *shape; /* without `properties:` of its own */
    struct slice provenance;
};

/*
 * copying_load_target: one copy of each source, from the map of store, table,
 * partition_key, row_key and properties. False: problems has been added to; so
 * where a key can never be right, because of the text beside its {..}.
 */
bool copying_load_target(const struct yaml_node *map,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copying_target *ret);

/* copying_keeps_keys: has each copy the keys of its source? */
bool copying_keeps_keys(const struct copying_target *target);

/* copying_same_keys: have two copies of one source the same keys in the same
 * table, by the same templates? */
bool copying_same_keys(
    const struct copying_target *a, const struct copying_target *b);

/* copying_explain: PartitionKey "...", RowKey of the source, without Legacy */
void copying_explain(const struct copying_target *target, struct buf *to);

/* copying_keys_change: do the keys of a copy depend on more of its source than
 * its keys, which never change? */
bool copying_keys_change(const struct copying_target *target);

/*
 * copying_make: the copy of source, without provenance, in arena. The
 * property named provenance is never copied. TW_INVALID: err says, without
 * naming the source, which template found what missing or of the wrong type,
 * which key the service forbids or is too long, or that a rename meets a
 * property that is there. TW_TOO_LARGE: with its provenance (some 3 KiB and
 * one property) the service would not take it.
 */
TW_MUST_USE enum tw_err copying_make(const struct copying_target *target,
    const struct run_args *args, const struct entity *source,
    struct slice provenance, struct arena *arena, struct entity *ret,
    struct err *err);

/* ---- what stands where a copy is to be ---- */

struct copying_want {
    const struct entity *copy;           /* without provenance */
    const struct provenance *provenance; /* that it is to carry */
    struct slice name;                   /* of the property */
    enum on_conflict on_conflict;
    bool owns;  /* reindex: a copy is the job's own, what others did to it is
                   repaired, and an equal entity without provenance gets one */
    bool fresh; /* the source was read after `now` had been met: the copy may
                   replace one made of another state of it */
};

enum copying_verdict {
    COPYING_STORED, /* it is there, of this source and state; or equal, and
                       another job's or nobody's */
    COPYING_WRITE,  /* *ret is what to send: with provenance, with now's ETag */
    COPYING_LOOK,   /* a copy of this source in another state: read the source
                       again, then ask with `fresh` */
    COPYING_LEFT,   /* something else stands there, and stays (skip) */
    COPYING_FAILED, /* err says why: a collision with another source's copy
                       (which is named), or on_conflict: fail */
};

/*
 * copying_decide: now is what stands at the copy's keys, whole; NULL: nothing.
 *
 *   now                                   verdict
 *   nothing                               WRITE, an insert
 *   of this source, by this job, same ETag
 *     as copied                           STORED; WRITE where the copy would be
 *                                         another today (the job changed)
 *     changed since                       STORED; owns: WRITE
 *   of this source, other ETag
 *     not fresh                           LOOK
 *   of this source, other ETag, by this job; by any unless owns
 *     fresh, as copied                    WRITE
 *     fresh, changed since                equal: WRITE; else by on_conflict;
 *                                         owns: WRITE
 *   of this source, by another job, same ETag; owns: or fresh
 *     equal                               STORED
 *     different                           by on_conflict
 *   of another source                     FAILED
 *   without provenance, equal             STORED; owns: WRITE
 *   without provenance, different         by on_conflict
 *
 * merge writes (a replace with now's ETag) what is there with the copy over
 * it; stored is then what has all that the copy has.
 */
enum copying_verdict copying_decide(const struct copying_want *want,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err);

#endif
