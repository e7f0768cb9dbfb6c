/* SPDX-License-Identifier: MIT */
/* Decides about the entity at the keys of a copy: decide functions of struct
 * batch_item, whose context is a struct copy_work. */
#ifndef TW_JOBS_COPY_DECIDE_H
#define TW_JOBS_COPY_DECIDE_H

#include "jobs/engine/batch_writer.h"

/*
 * copy_decide_write: the insert or replace of a copy was refused, or its
 * outcome is unknown; `now` is the current state.
 *
 *   now                                     decision
 *   nothing                                 insert
 *   has the ETag of the source              fail (rule C5)
 *   own, of this source
 *     current                               no-op
 *     edited, in another table              no-op; `replace`: restore (C3)
 *     stale, or an edited index row         replace
 *   own, of another source or entry (C2)
 *     whose source still has this key       fail: a collision
 *     edited, in another table              on_conflict; `replace`: fail
 *     otherwise                             replace
 *   foreign                                 on_conflict; `replace`:
 *                                           replace, or fail if the job
 *                                           selects it itself (C4)
 */
enum write_decision copy_decide_write(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err);

/* copy_decide_delete: an own copy without a source has changed before its
 * delete. Delete it if it is still such a copy and not an edit to keep. */
enum write_decision copy_decide_delete(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err);

#endif
