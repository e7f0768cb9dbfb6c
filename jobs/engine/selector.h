/* SPDX-License-Identifier: MIT */
/*
 * A selector says which entities of a table are meant: by PartitionKey, RowKey,
 * a prefix or a range of either, a filter, or any of them together. Bound to
 * arguments
 * (and, for a child, to its parent) it is a selection: what to ask the server
 * for, which is a superset, and the exact test made on each entity.
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

/* The ways to name keys. A range is from <= key < below, in the service's order
 * (UTF-16 ordinal) whichever the store. */
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

/* What a configuration says. Lives in the configuration's arena. */
struct selector {
    const struct template *keys[SELECTOR_KEYS]; /* NULL: not asked for */
    const struct template *filter;              /* NULL: none */
};

/* The nodes that the keys partition_key ... filter of a map hold; NULL where
 * one is absent. */
struct selector_nodes {
    const struct yaml_node *keys[SELECTOR_KEYS];
    const struct yaml_node *filter;
};

/* The entries of a key table (config/settings.h) for all of them: `field` of
 * `type` is a struct selector_nodes. */
/* clang-format off */
#define SELECTOR_SETTING(name, type, member, text) \
    {name, SETTING_NODE, SETTING_FIELD(type, member), .help = (text)}

#define SELECTOR_SETTINGS(type, field) \
    SELECTOR_SETTING("partition_key", type, field.keys[SELECTOR_PARTITION_KEY], \
        "template of their PartitionKey"), \
    SELECTOR_SETTING("partition_key_prefix", type, field.keys[SELECTOR_PARTITION_KEY_PREFIX], \
        "template of how their PartitionKey begins"), \
    SELECTOR_SETTING("partition_key_from", type, field.keys[SELECTOR_PARTITION_KEY_FROM], \
        "template of the first PartitionKey"), \
    SELECTOR_SETTING("partition_key_below", type, field.keys[SELECTOR_PARTITION_KEY_BELOW], \
        "template of the PartitionKey they end before"), \
    SELECTOR_SETTING("row_key", type, field.keys[SELECTOR_ROW_KEY], \
        "template of their RowKey"), \
    SELECTOR_SETTING("row_key_prefix", type, field.keys[SELECTOR_ROW_KEY_PREFIX], \
        "template of how their RowKey begins"), \
    SELECTOR_SETTING("row_key_from", type, field.keys[SELECTOR_ROW_KEY_FROM], \
        "template of the first RowKey"), \
    SELECTOR_SETTING("row_key_below", type, field.keys[SELECTOR_ROW_KEY_BELOW], \
        "template of the RowKey they end before"), \
    SELECTOR_SETTING("filter", type, field.filter, \
        "OData filter that they match")
/* clang-format on */

/*
 * selector_load: compile the templates of nodes in scope. False: problems has
 * been added to. *unset becomes the name of an environment variable that is
 * needed and not set. A filter that is empty with all variables set is a
 * problem: whoever means everything writes none. Warns where a prefix stands
 * without a filter: what begins like it is selected too.
 */
bool selector_load(const struct selector_nodes *nodes,
    const struct template_scope *scope, struct arena *arena,
    struct selector *ret, const char **unset, struct problems *problems);

/* selector_is_empty: it names nothing: every entity of the table. */
bool selector_is_empty(const struct selector *selector);

/* selector_reads_entity: a key or a property of the entity above is in it. */
bool selector_reads_entity(const struct selector *selector);

/* selector_equal: the same texts: bound to the same, they find the same. */
bool selector_equal(const struct selector *a, const struct selector *b);

/*
 * selector_stays_with: of what `one` finds under a parent, and selector under
 * any parent, does selector find all under that of `one`? So it is where each
 * of its templates is the same as in `one`, or reads nothing of the parent.
 */
bool selector_stays_with(
    const struct selector *selector, const struct selector *one);

/* selector_same_partition: everything it finds lies in the partition of the
 * entity above: partition_key: "{PartitionKey}". */
bool selector_same_partition(const struct selector *selector);

enum selector_growth {
    SELECTOR_ANY,     /* nothing is known */
    SELECTOR_AS_LONG, /* at least as long as the key of the entity above */
    SELECTOR_LONGER,  /* longer */
};

/* selector_growth: how long is the PartitionKey (first is
 * SELECTOR_PARTITION_KEY) or the RowKey (SELECTOR_ROW_KEY) of what it finds? */
enum selector_growth selector_growth(
    const struct selector *selector, enum selector_key first);

/* selector_disjoint: can both never find the same entity of a table, whatever
 * they are bound to? True only where their literal keys, prefixes or
 * comparisons (Type eq 'a' and Type eq 'b') show it. */
bool selector_disjoint(const struct selector *a, const struct selector *b);

/* selector_property_is: the property that the filter compares with the argument
 * alone, as in Channel eq '{channel}', in a filter that is nothing but
 * comparisons joined by and. */
bool selector_property_is(const struct selector *selector, struct slice arg,
    struct slice *ret_property);

/* selector_explain: add "PartitionKey = ..., filter ..." for people. */
void selector_explain(const struct selector *selector, struct buf *to);

/* selector_properties: calls each(ctx, name) for the properties of the parent
 * that its templates read. */
void selector_properties(const struct selector *selector,
    void (*each)(void *ctx, struct slice name), void *ctx);

/* A selector with its values; lives in the arena it was bound in. */
struct selection {
    bool has[SELECTOR_KEYS];
    struct slice keys[SELECTOR_KEYS];
    struct slice filter_text;
    const struct filter *filter;
    const char *empty_prefix; /* the key of a prefix, of a range's `from` or of
                                 a filter that rendered empty, so that it
                                 would select everything; or NULL */
};

/*
 * selection_bind: render. entity is the parent, or NULL. TW_INVALID: err says
 * which key cannot be made, or is one that no entity can have.
 */
TW_MUST_USE enum tw_err selection_bind(const struct selector *selector,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct selection *ret, struct err *err);

/* selection_of_run: the selector of a whole job. TW_INVALID also where a
 * prefix, the beginning of a range or a filter rendered empty, and would select
 * everything. */
TW_MUST_USE enum tw_err selection_of_run(const struct selector *selector,
    const struct run_args *args, struct arena *arena, struct selection *ret,
    struct err *err);

/* selector_accept: would selection_of_run() be good? */
TW_MUST_USE enum tw_err selector_accept(const struct selector *selector,
    const struct run_args *args, struct err *err);

/* selection_matches: the exact test. entity has at least the properties that
 * the filter reads. */
bool selection_matches(
    const struct selection *selection, const struct entity *entity);

/* selector_scans_table: nothing says in which partitions to look. */
bool selector_scans_table(const struct selector *selector);

/*
 * selection_spec: fill the ranges and the filter of spec; and, unless whole,
 * its select: what the filter reads and extra[0..count-1], made in arena.
 */
void selection_spec(const struct selection *selection, bool whole,
    const struct slice *extra, size_t extra_count, struct arena *arena,
    struct scan_spec *spec);

/*
 * selection_spec_sure: the same, whole, and with a filter only that every store
 * reads alike (filter_is_plain): nothing that selection_matches() takes is left
 * out.
 */
void selection_spec_sure(const struct selection *selection, struct arena *arena,
    struct scan_spec *spec);

#endif
