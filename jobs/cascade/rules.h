/* SPDX-License-Identifier: MIT */
/*
 * The configuration of a cascade-delete job: its parent, its tombstone, and the
 * tree of rules that find what is under the parent.
 */
#ifndef TW_JOBS_CASCADE_RULES_H
#define TW_JOBS_CASCADE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/engine/selector.h"
#include "jobs/engine/template.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct settings_section;
struct job_loader;

/* Maximum nesting of children; small enough for fixed arrays. */
#define CASCADE_MAX_DEPTH 8
#define CASCADE_MAX_SETTLES 16

/* The property that is written with the tombstone and names the run that owns
 * the tombstone: JOB/ID. */
#define CASCADE_OWNER "TablewardRun"

/* One rule: selects entities of a table that belong under a parent. */
struct rule {
    size_t store; /* index into struct job_stores */
    const char *table;
    struct mark mark; /* position of the rule in the configuration */
    bool optional;    /* the rule's table may be missing */
    struct selector selector;
    bool reads_parent; /* this is a first-level rule, and it reads a property of
                          the parent, not only the parent's keys */
    struct rule *children; /* rules that find the children of each entity that
                              this rule finds; the children are deleted first */
    size_t child_count;    /* 0: the rule is a leaf */
    const struct slice *needs; /* properties of this rule's entities that the
                                  children's templates read */
    size_t need_count;
};

struct cascade {
    size_t store; /* store of the parent, an index into struct job_stores */
    const char *table;
    const struct template *partition_key, *row_key;
    const struct entity *tombstone; /* entity with the tombstone's properties;
                                       its keys are unused */
    struct slice created; /* name of the parent's property with the time of
                             creation, or empty */
    struct rule *rules;
    size_t rule_count;
    const struct slice
        *needs; /* parent properties that first-level rules read */
    size_t need_count;
    int64_t settle_ms[CASCADE_MAX_SETTLES]; /* times of the settle passes after
                                               the tombstone, ascending */
    size_t settle_count;
    int64_t refuse_above; /* maximum number of deletes; -1: no limit */
    const char *archive;  /* folder of the archive; NULL: no archive */
};

/* cascade_same_table: are table_a in store_a and table_b in store_b the same
 * table? Ignores the case of table names, as the service does. */
bool cascade_same_table(
    size_t store_a, const char *table_a, size_t store_b, const char *table_b);

/* cascade_share_table: do the rules `a` and `b` find children in the same
 * table? */
bool cascade_share_table(const struct rule *a, const struct rule *b);

/* cascade_is_contested: does a rule with children read the table of `rule`?
 * Such a rule may find the same entities as `rule`. */
bool cascade_is_contested(
    const struct cascade *cascade, const struct rule *rule);

/* cascade_rules_load: see struct kind, load. */
struct cascade *cascade_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/* cascade_rules_explain: append a description of what the job reads and writes,
 * in order, one line per step. */
void cascade_rules_explain(const struct cascade *cascade, struct buf *to);

/* The configuration keys of a cascade-delete job. */
extern const struct settings_section cascade_job_section;
extern const struct settings_section cascade_parent_section;
extern const struct settings_section cascade_rule_section;

#endif
