/* SPDX-License-Identifier: MIT */
/*
 * A selector says which entities of a table are selected: by PartitionKey,
 * RowKey, a prefix or a range of a key, a filter, or any combination. Bound to
 * arguments (and, for the children of an entity, to that parent) a selector
 * becomes a selection. A selection has the ranges and the filter for the
 * server, which may return more entities, and the exact test of each entity.
 */
#ifndef TW_JOBS_ENGINE_SELECTOR_H
#define TW_JOBS_ENGINE_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/template.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct filter;

/* The ways to select keys. A range is from <= key < below, in the service's
 * order (UTF-16 ordinal) on every store. */
enum selector_key {
    SELECTOR_PARTITION_KEY,
    SELECTOR_PARTITION_KEY_PREFIX,
    SELECTOR_PARTITION_KEY_FROM,
    SELECTOR_PARTITION_KEY_BELOW,
    SELECTOR_ROW_KEY,
    SELECTOR_ROW_KEY_PREFIX,
    SELECTOR_ROW_KEY_FROM,
    SELECTOR_ROW_KEY_BELOW,
    SELECTOR_KEYS,
};

/* The selector of the configuration. Lives in the configuration's arena. */
struct selector {
    const struct template *keys[SELECTOR_KEYS]; /* NULL: not given */
    const struct template *filter;              /* NULL: not given */
};

/* The nodes of the keys partition_key ... filter of a map; NULL if the key is
 * absent. */
struct selector_nodes {
    const struct yaml_node *keys[SELECTOR_KEYS];
    const struct yaml_node *filter;
};

/* The entries of a key table (config/settings.h) for the keys partition_key ...
 * filter. `type` is the struct that the table fills, and `field` is its member
 * of type struct selector_nodes. */
/* clang-format off */
#define SELECTOR_SETTING(name, type, member, text) \
    {name, SETTING_NODE, SETTING_FIELD(type, member), .help = (text)}

#define SELECTOR_SETTINGS(type, field) \
    SELECTOR_SETTING("partition_key", type, field.keys[SELECTOR_PARTITION_KEY], \
        "template; selects entities with this PartitionKey"), \
    SELECTOR_SETTING("partition_key_prefix", type, field.keys[SELECTOR_PARTITION_KEY_PREFIX], \
        "template; selects entities whose PartitionKey begins with this"), \
    SELECTOR_SETTING("partition_key_from", type, field.keys[SELECTOR_PARTITION_KEY_FROM], \
        "template; selects entities with this PartitionKey or a greater one"), \
    SELECTOR_SETTING("partition_key_below", type, field.keys[SELECTOR_PARTITION_KEY_BELOW], \
        "template; selects entities whose PartitionKey is less than this"), \
    SELECTOR_SETTING("row_key", type, field.keys[SELECTOR_ROW_KEY], \
        "template; selects entities with this RowKey"), \
    SELECTOR_SETTING("row_key_prefix", type, field.keys[SELECTOR_ROW_KEY_PREFIX], \
        "template; selects entities whose RowKey begins with this"), \
    SELECTOR_SETTING("row_key_from", type, field.keys[SELECTOR_ROW_KEY_FROM], \
        "template; selects entities with this RowKey or a greater one"), \
    SELECTOR_SETTING("row_key_below", type, field.keys[SELECTOR_ROW_KEY_BELOW], \
        "template; selects entities whose RowKey is less than this"), \
    SELECTOR_SETTING("filter", type, field.filter, \
        "OData filter; selects entities that match it")
/* clang-format on */

/*
 * selector_load: compile the templates of nodes in scope. False: a problem was
 * added. *unset becomes the name of an environment variable that a text needs
 * and that is not set. If all variables are set, an empty filter is a problem:
 * a job without a filter must leave out the key `filter`. Warns about a prefix
 * without a filter, because it also selects other keys that begin the same way.
 */
bool selector_load(const struct selector_nodes *nodes,
    const struct template_scope *scope, struct arena *arena,
    struct selector *ret, const char **unset, struct problems *problems);

/* selector_is_empty: true if selector has no key and no filter, so that it
 * selects every entity of the table. */
bool selector_is_empty(const struct selector *selector);

/*
 * selector_reads_entity: does a template of selector read a key or a property
 * of the parent entity?
 */
bool selector_reads_entity(const struct selector *selector);

/* selector_equal: do both selectors have the same texts? If so, both select the
 * same entities when bound to the same values. */
bool selector_equal(const struct selector *a, const struct selector *b);

/*
 * selector_stays_with: suppose that `one` selects an entity under parent P.
 * Does `selector`, if it selects this entity under any parent at all, certainly
 * select it under P? True if each template of `selector` is the same as in
 * `one`, or reads nothing of the parent.
 */
bool selector_stays_with(
    const struct selector *selector, const struct selector *one);

/* selector_same_partition: do all selected entities lie in the partition of the
 * parent entity (partition_key: "{PartitionKey}")? */
bool selector_same_partition(const struct selector *selector);

enum selector_growth {
    SELECTOR_ANY,     /* nothing is known about the length of the key */
    SELECTOR_AS_LONG, /* the key is at least as long as the parent's key */
    SELECTOR_LONGER,  /* the key is longer than the parent's key */
};

/* selector_growth: returns what is known about the length of a key of every
 * selected entity, compared with the same key of the parent. `first` is
 * SELECTOR_PARTITION_KEY or SELECTOR_ROW_KEY. */
enum selector_growth selector_growth(
    const struct selector *selector, enum selector_key first);

/* selector_disjoint: is it certain that no entity is selected by both `a` and
 * `b`, whatever values the two are bound to? True only if literal keys, literal
 * prefixes or comparisons (Type eq 'a' and Type eq 'b') show it. */
bool selector_disjoint(const struct selector *a, const struct selector *b);

/*
 * selector_property_is: does the filter require, outside `or` and `not`, that a
 * property or key of each selected entity equals a certain value?
 *
 *   arg >= 0  the argument with this index: Channel eq '{channel}'
 *   arg = -1  the property or key `read` of the parent: Channel eq '{Name}'
 *             for Name
 *
 * If so, *ret_property becomes the name of the property, or PartitionKey or
 * RowKey.
 */
bool selector_property_is(const struct selector *selector, int arg,
    struct slice read, struct slice *ret_property);

/* selector_explain: append, for people, the texts of the templates and the
 * filter (as it is written), joined by "and": `PartitionKey is "x" and N eq 1`.
 * Adds nothing for an empty selector. */
void selector_explain(const struct selector *selector, struct buf *to);

/* selector_properties: call each(ctx, name) for each property of the parent
 * that the templates read. */
void selector_properties(const struct selector *selector,
    void (*each)(void *ctx, struct slice name), void *ctx);

/* A selector bound to values; lives in the arena it was bound in. */
struct selection {
    bool has[SELECTOR_KEYS];
    struct slice keys[SELECTOR_KEYS];
    struct slice filter_text;
    const struct filter *filter;
    const char *empty_prefix; /* configuration key of a prefix, `from` or filter
                               * that rendered as an empty text, and so would
                               * select everything; NULL: there is none */
};

/*
 * selection_bind: render the templates. entity is the parent, or NULL.
 * TW_INVALID: err says which key or filter cannot be rendered, or is forbidden
 * by the service.
 */
TW_MUST_USE enum tw_err selection_bind(const struct selector *selector,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct selection *ret, struct err *err);

/* selection_of_run: bind the selector of a whole job. TW_INVALID also if a
 * prefix, a `from` or a filter renders as an empty text, which would select
 * everything. */
TW_MUST_USE enum tw_err selection_of_run(const struct selector *selector,
    const struct run_args *args, struct arena *arena, struct selection *ret,
    struct err *err);

/* selector_accept: check the arguments of a run as selection_of_run() would do,
 * and return the same outcome. */
TW_MUST_USE enum tw_err selector_accept(const struct selector *selector,
    const struct run_args *args, struct err *err);

/* selection_matches: is entity selected? entity must have at least the
 * properties that the filter reads. */
bool selection_matches(
    const struct selection *selection, const struct entity *entity);

/* selector_scans_table: true if selector has no key for the PartitionKey, so
 * that all partitions are read. */
bool selector_scans_table(const struct selector *selector);

/*
 * selection_spec: fill the ranges and the filter of spec. If whole is false,
 * also fill spec->select, allocated in arena: the keys, the properties that the
 * filter reads, and extra[0..extra_count-1].
 */
void selection_spec(const struct selection *selection, bool whole,
    const struct slice *extra, size_t extra_count, struct arena *arena,
    struct scan_spec *spec);

/*
 * selection_spec_sure: fill spec as selection_spec() does for whole entities,
 * but set the filter only if all stores evaluate it alike (filter_is_plain). So
 * the scan leaves out no entity that selection_matches() accepts.
 */
void selection_spec_sure(const struct selection *selection, struct arena *arena,
    struct scan_spec *spec);

#endif
