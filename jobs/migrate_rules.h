/* SPDX-License-Identifier: MIT */
/*
 * What a migrate job says in the configuration: which entities, where their
 * copies go, and what becomes of what stands there already.
 */
#ifndef TW_JOBS_MIGRATE_RULES_H
#define TW_JOBS_MIGRATE_RULES_H

#include "config/yaml.h"
#include "jobs/copier.h"
#include "worker/base/buf.h"

struct job_loader;

#define MIGRATE_MAX_PASSES 1000

/*
 * migrate_rules_load: see struct kind, load. Refused, each at its place: a
 * destination in the source's own table where all of it is selected, or where
 * the copies would be the sources themselves; two copies at the same keys; more
 * than COPYING_MAX_TARGETS; what copying.h refuses.
 */
struct copier_rules *migrate_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/* migrate_rules_explain: what it reads and writes, in order, a line each. */
void migrate_rules_explain(const struct copier_rules *rules, struct buf *to);

#endif
