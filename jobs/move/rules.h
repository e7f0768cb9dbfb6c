/* SPDX-License-Identifier: MIT */
/*
 * The configuration of a move job: which entities are moved, their destination,
 * and the action if an entity is already at a destination key.
 */
#ifndef TW_JOBS_MOVE_RULES_H
#define TW_JOBS_MOVE_RULES_H

#include <stdbool.h>

#include "config/yaml.h"
#include "jobs/copying.h"
#include "jobs/engine/selector.h"
#include "jobs/table_ref.h"
#include "worker/base/buf.h"

struct settings_section;
struct job_loader;

enum move_conflict {
    MOVE_FAIL,         /* the source remains and is reported */
    MOVE_SKIP,         /* the source remains and is counted as skipped */
    MOVE_ACCEPT_EQUAL, /* an equal entity counts as the copy (rule M9) */
};

struct move_rules {
    struct table_ref from;
    struct selector selector;
    struct copying_target to;
    enum move_conflict on_conflict;
    bool disjoint;       /* no destination key can be a selected key, whatever
                            the properties of the entities are */
    const char *overlap; /* a sentence with both key ranges, for an error
                            message; set if !disjoint */
};

/*
 * move_rules_load: see struct kind, load. Refuses a list in `to`, and a
 * destination in the source table unless selected keys and destination keys are
 * provably disjoint.
 */
struct move_rules *move_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/* move_rules_explain: append a description of what the job reads and writes, in
 * order, one line per step. */
void move_rules_explain(const struct move_rules *rules, struct buf *to);

/* The configuration keys of a move job and of its `from:`. */
extern const struct settings_section move_job_section;
extern const struct settings_section move_from_section;

#endif
