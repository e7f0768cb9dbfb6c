/* SPDX-License-Identifier: MIT */
/* Checks the rules of level 2 and below backwards, for `verify`. */
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

    /* An entity of rule's table was read twice, and no entity that it could be
     * under exists. */
    void (*orphan)(
        void *context, const struct rule *rule, const struct entity *entity);
    void *context;

    struct buf *unread; /* the rules that cannot be checked, for people: "Likes
                         * (line 9), ..." */
};

/*
 * nested_verify: for each rule below another rule, look for entities that the
 * rule would find under an entity of the rule above it, if there were such an
 * entity, and that no other rule for the same table finds.
 *
 * An entity must show each key and property that the rule reads of the entity
 * above: alone in a key or in a comparison with eq; one of them may also be the
 * beginning of a key. A rule whose entities do not show these is added to
 * `unread`. A rule is also added if a rule that cannot be read backwards may
 * find some of its entities. If the rule above cannot be read backwards, each
 * entity of its table counts as selected.
 *
 * Cost: the rule's table is read once. For each 100,000 entities of the rule's
 * table (fewer if their keys are long) the table of the rule above is read
 * once, or twice if one of these entities has no parent. If given arguments
 * determine the PartitionKey of the rule's entities, only that partition is
 * read.
 *
 * TW_CONFLICT: an argument cannot be derived from a rule; err names the rule
 * and the argument.
 */
TW_MUST_USE enum tw_err nested_verify(
    const struct nested_check *check, struct err *err);

#endif
