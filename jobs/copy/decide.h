/* SPDX-License-Identifier: MIT */
/* Decides about the entity at the keys of a copy: decide functions of struct
 * batch_item. */
#ifndef TW_JOBS_COPY_DECIDE_H
#define TW_JOBS_COPY_DECIDE_H

#include "jobs/engine/batch_writer.h"

/*
 * copy_decide_write: decides about a copy. context is the struct copy_work.
 * Called when the insert or replace of a copy was refused or had an unknown
 * outcome. `now` is the entity at the keys of the copy.
 *
 *   now                                     decision
 *   nothing                                 insert
 *   has the ETag of the source, in a
 *   table with copy_table.may_be_index      fail (rule C5)
 *   own copy of this source; former copies
 *   (COPY_FORMER) of it included
 *     current                               no-op
 *     edited, no index row                  no-op; on_conflict `replace`:
 *                                           replace (C3)
 *     stale, or an edited or restored
 *     index row                             replace
 *   own copy of another source or entry (C2)
 *     other source still makes this copy    fail: a collision
 *     edited, no index row                  on_conflict `skip`: skip; else fail
 *     former copy or restored index row,
 *     run does not accept deletes           fail (rule C6)
 *     otherwise                             replace
 *   foreign entity                          as on_conflict; `replace`: fail if
 *                                           the job selects the entity (C4)
 */
enum write_decision copy_decide_write(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err);

/* copy_decide_delete: decides about a delete. context is the struct copy_table.
 * Called when an own copy without a source was changed before its delete. Sends
 * the delete again only if `now` is still an own copy without a source, was not
 * edited (C3; index rows may be edited), and cannot be the source itself
 * (C5). */
enum write_decision copy_decide_delete(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err);

#endif
