/* SPDX-License-Identifier: MIT */
/*
 * Makes the copy of an entity (the source). Templates that read the source give
 * the keys of the copy. The copy has the properties of the source that the job
 * chooses, some of them renamed, and properties that `set:` adds. Used by the
 * kinds copy and move. These functions make no requests.
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

struct settings_section;
struct job_loader;

#define COPYING_MAX_TARGETS 16
#define COPYING_MAX_PROPERTIES 252

struct copying_rename {
    struct slice from, to;
};

/* An entry `name: value` of `set:`. {type: Edm.Guid, value: "..."} names the
 * type of the property. Otherwise the YAML scalar decides the type: true is a
 * Boolean, 5 an Int32 (Int64 if larger), 1.5 a Double, and quoted or other text
 * a String. */
struct copying_set {
    struct slice name;
    enum edm_type edm;
    const struct template *value;    /* template of the value; reads the
                                        source */
    const struct property *constant; /* the finished property, if `value` is a
                                      * text without {..}; else NULL */
};

/* The map `properties:` of a target. If all members are zero, a copy has all
 * properties of the source, unchanged. */
struct copying_shape {
    struct slice *keep, *drop; /* keep: names of the source properties that a
                                * copy has (empty: all); drop: names of those
                                * that it does not have */
    size_t keep_count, drop_count;
    struct copying_rename *renames; /* new names of kept properties */
    size_t rename_count;
    struct copying_set *sets; /* applied last; a set value overwrites a kept
                               * property of that name */
    size_t set_count;
};

/* An entry of `to:`. Each entry makes one copy of each source. */
struct copying_target {
    struct table_ref table_ref;
    const struct template *partition_key, *row_key; /* NULL: the copy has the
                                                     * source's key */
    struct copying_shape shape;
};

/*
 * copying_load_shape: read node, the value of `properties:`, into *ret. If node
 * is NULL, a copy has all properties. If node is a list, the list has the names
 * to keep. `reserved` is the name of a property that tableward sets itself;
 * empty: there is none. Returns false if it added a problem. These are
 * problems:
 *
 *   - a name that the service forbids, that is a key, or that is reserved
 *   - two properties with the same new name
 *   - a property in both `keep` and `drop`
 *   - a rename of a property that is not kept
 *   - a constant of `set:` whose value is invalid for its type
 */
bool copying_load_shape(const struct yaml_node *node, struct slice reserved,
    struct job_loader *loader, struct copying_shape *ret);

/* Defaults for the map of a target. */
struct copying_defaults {
    const struct copying_shape *shape; /* shape if the map has no
                                        * `properties:` */
    struct slice reserved;             /* property name that the map may not
                                        * use, as in copying_load_shape() */
};

/*
 * copying_load_target: read a target from a map of store, table, partition_key,
 * row_key and properties. False: a problem was added, for example because the
 * literal text of a key's template (outside {..}) makes every key invalid.
 */
bool copying_load_target(const struct yaml_node *map,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copying_target *ret);

/* copying_keeps_keys: does each copy of the target have the keys of its source?
 */
bool copying_keeps_keys(const struct copying_target *target);

/* copying_same_keys: do a copy for target `a` and a copy for target `b`, both
 * of one source, have the same keys in the same table? Compares the texts of
 * the key templates. */
bool copying_same_keys(
    const struct copying_target *a, const struct copying_target *b);

/* copying_explain: append a description of target, such as: PartitionKey
 * "{Blog}", RowKey of the source, without Legacy */
void copying_explain(const struct copying_target *target, struct buf *to);

/* copying_add_templates: append the templates of PartitionKey and RowKey,
 * joined by '/', so that the appended text changes whenever a template does. */
void copying_add_templates(const struct copying_target *target, struct buf *to);

/*
 * copying_make: make the copy of source, in arena, without the property named
 * `without` (empty: no property is left out). err never names the source.
 *
 *   TW_INVALID    - A template reads a property that is missing or of the
 *                   wrong type,
 *                 - a key is too long, or the service forbids it, or
 *                 - the new name of a property is that of another property.
 *   TW_TOO_LARGE  The copy is too large for the service.
 */
TW_MUST_USE enum tw_err copying_make(const struct copying_target *target,
    const struct run_args *args, const struct entity *source,
    struct slice without, struct arena *arena, struct entity *ret,
    struct err *err);

/* The configuration keys of `to:` and of the maps within `to:`. */
extern const struct settings_section copying_target_section;
extern const struct settings_section copying_properties_section;
extern const struct settings_section copying_set_section;

#endif
