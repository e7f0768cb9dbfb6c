/* SPDX-License-Identifier: MIT */
/* Checks, for `verify`, each rule that has a rule above it. The check goes
 * backwards: from a child to the entity above it. */
#ifndef TW_JOBS_CASCADE_NESTED_H
#define TW_JOBS_CASCADE_NESTED_H

#include "jobs/cascade/rules.h"
#include "jobs/job.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/store/entity.h"

struct nested_check {
    const struct cascade *cascade;
    const struct job *job;
    const struct job_stores *stores;
    struct run *run; /* an argument without a value is derived from entities */
    int64_t *read;   /* is increased by the number of entities compared */

    /* orphan: called for an entity of rule's table if no entity exists that
     * could be its parent. The entity was read twice. */
    void (*orphan)(
        void *context, const struct rule *rule, const struct entity *entity);
    void *context;

    struct buf *unread; /* receives the rules that cannot be checked, for
                         * people: "Likes (line 9), ..." */
};

/*
 * nested_verify: look for orphans of each rule that has a rule above it. An
 * entity of the rule's table is an orphan if the rule would find it only under
 * parents that do not exist, and no other rule for the same table finds the
 * entity.
 *
 * A rule can be read backwards if each value that it reads of the entity above
 * is also in the entities that it finds: as a whole key, or as a property that
 * the filter compares with this value by eq. One of these values may be only
 * the beginning of a key. A rule that cannot be read backwards is added to
 * `unread`. A rule is also added if some of its entities may be found by
 * another rule that cannot be read backwards. If the rule above cannot be read
 * backwards, the rule above is assumed to find each entity of its table.
 *
 * Cost: the rule's table is read once. The table of the rule above is read once
 * for each 100,000 entities of the rule's table (for fewer if their keys are
 * long), and once more if one of these entities has no parent. If given
 * arguments determine the PartitionKey of the rule's entities, only that
 * partition is read.
 *
 * TW_CONFLICT: the value of an argument cannot be derived from the entities of
 * a rule; err names the rule and the argument.
 */
TW_MUST_USE enum tw_err nested_verify(
    const struct nested_check *check, struct err *err);

#endif
