/* SPDX-License-Identifier: MIT */
/* The configuration of a copy job, read and checked. */
#ifndef TW_JOBS_COPY_RULES_H
#define TW_JOBS_COPY_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/copying.h"
#include "jobs/engine/selector.h"
#include "jobs/table_ref.h"

struct settings_section;
struct buf;
struct job_loader;
struct yaml_node;

/* The action if a foreign entity (one that is no copy of this job) has the keys
 * of a copy. */
enum copy_conflict {
    COPY_CONFLICT_FAIL, /* the source is reported; the run fails at its end */
    COPY_CONFLICT_SKIP, /* no copy is written */
    COPY_CONFLICT_REPLACE, /* the foreign entity is replaced; edited copies are
                              restored */
};

struct copy_rules {
    struct table_ref from;
    struct selector selector; /* empty: the whole table */
    struct copying_target targets[COPYING_MAX_TARGETS];
    size_t target_count;
    enum copy_conflict on_conflict;
    bool follow;
};

/* copy_rules_load: read the job from node. Returns NULL if problems were added
 * to loader->problems. */
struct copy_rules *copy_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/* copy_rules_explain: append a description of what the job reads and writes, in
 * order. */
void copy_rules_explain(const struct copy_rules *rules, struct buf *to);

/* copy_rules_is_index: is the table of this target the source table? Compares
 * the names of stores and tables in the configuration. */
bool copy_rules_is_index(
    const struct copy_rules *rules, const struct copying_target *target);

/* The configuration keys of a copy job and of its `from:`. */
extern const struct settings_section copy_job_section;
extern const struct settings_section copy_from_section;

#endif
