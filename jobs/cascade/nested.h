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
 * The keys and properties that the rule reads of the entity above must each be
 * shown by the entity: alone in a key, in a comparison with eq, or one at the
 * beginning of a key. Any other rule is added to `unread`; so is a rule some of
 * whose entities a rule that cannot be read backwards may find too. If the rule
 * above cannot be read backwards, each entity of its table counts as selected.
 *
 * Cost: the rule's table is read once, and the table of the rule above once for
 * each 100,000 entities of it, fewer if their keys are long (twice if one of
 * them has no parent). If given arguments determine the PartitionKey of the
 * rule's entities, only that partition is read.
 *
 * TW_CONFLICT: an argument cannot be derived from a rule; err names the rule
 * and the argument.
 */
TW_MUST_USE enum tw_err nested_verify(
    const struct nested_check *check, struct err *err);

#endif
