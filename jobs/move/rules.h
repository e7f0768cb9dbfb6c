/* SPDX-License-Identifier: MIT */
/*
 * What a move job says in the configuration: which entities, where they go,
 * and what happens if an entity is at a destination key already.
 */
#ifndef TW_JOBS_MOVE_RULES_H
#define TW_JOBS_MOVE_RULES_H

#include <stdbool.h>

#include "config/yaml.h"
#include "jobs/copying.h"
#include "jobs/engine/selector.h"
#include "jobs/table_ref.h"
#include "worker/base/buf.h"

struct job_loader;

enum move_conflict {
    MOVE_FAIL,         /* the source stays and is named                   */
    MOVE_SKIP,         /* the source stays and is counted                 */
    MOVE_ACCEPT_EQUAL, /* an equal entity counts as the copy (rule M9)    */
};

struct move_rules {
    struct table_ref from;
    struct selector selector;
    struct copying_target to;
    enum move_conflict on_conflict;
    bool disjoint;       /* no destination key is among the selected keys,
                            whatever the entities hold */
    const char *overlap; /* a sentence with both ranges, for !disjoint */
};

/*
 * move_rules_load: see struct kind, load. Refused: a list in `to`; a
 * destination in the table of the source unless the selected keys and the
 * destination keys are provably disjoint.
 */
struct move_rules *move_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/* move_rules_explain: what it reads and writes, in order, a line each. */
void move_rules_explain(const struct move_rules *rules, struct buf *to);

#endif
