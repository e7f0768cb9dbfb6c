/* SPDX-License-Identifier: MIT */
/*
 * What a copy of an entity is to look like: its keys, from templates over the
 * source, and which of its properties, under which names, with what added. Used
 * by the kinds copy and move. Pure: nothing here asks a store.
 */
#ifndef TW_JOBS_COPYING_H
#define TW_JOBS_COPYING_H

#include <stdbool.h>
#include <stddef.h>

#include "config/yaml.h"
#include "jobs/engine/run.h"
#include "jobs/engine/template.h"
#include "jobs/table_ref.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct job_loader;

#define COPYING_MAX_TARGETS 16
#define COPYING_MAX_PROPERTIES 252

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
    struct table_ref table_ref;
    const struct template *partition_key, *row_key; /* NULL: the source's */
    struct copying_shape shape;
};

/*
 * copying_load_shape: from the node of `properties:` (NULL: everything; a list
 * is short for keep). False: problems has been added to: a name that the
 * service forbids, that of a key or `reserved` (a property of tableward's own;
 * empty: none), one that two of them make, keep and drop of the same, a rename
 * of what is not kept, a value of another type.
 */
bool copying_load_shape(const struct yaml_node *node, struct slice reserved,
    struct job_loader *loader, struct copying_shape *ret);

/* What the map of a target need not say. */
struct copying_defaults {
    const struct table_ref *table_ref; /* where all copies go: then the map has
                                  neither store nor table. NULL: it has */
    const struct copying_shape *shape; /* without `properties:` of its own */
    struct slice reserved;             /* as above */
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

/* copying_add_templates: add the templates of both keys: a text that is another
 * one where they are. */
void copying_add_templates(const struct copying_target *target, struct buf *to);

/*
 * copying_make: the copy of source, in arena, without the property `without`
 * (empty: with all). TW_INVALID: err says, without naming the source, which
 * template found what missing or of the wrong type, which key the service
 * forbids or is too long, or that a rename meets a property that is there.
 * TW_TOO_LARGE: the service would not take it.
 */
TW_MUST_USE enum tw_err copying_make(const struct copying_target *target,
    const struct run_args *args, const struct entity *source,
    struct slice without, struct arena *arena, struct entity *ret,
    struct err *err);

#endif
