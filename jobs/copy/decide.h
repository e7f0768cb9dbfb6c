/* SPDX-License-Identifier: MIT */
/* What is done about an entity that has the keys of a copy: struct batch_item's
 * decide functions, whose context is a struct copy_work. */
#ifndef TW_JOBS_COPY_DECIDE_H
#define TW_JOBS_COPY_DECIDE_H

#include "jobs/engine/batch_writer.h"

/*
 * copy_decide_write: a copy was to be inserted or replaced, and `now` is there.
 *
 *   now                                     verdict
 *   nothing                                 insert
 *   has the ETag of the source              failed (rule C5)
 *   own, of this source
 *     current                               kept
 *     edited, in another table              kept; `replace`: restored (C3)
 *     stale, or an edited index row         replaced
 *   own, of another source or entry (C2)
 *     which still has this key              failed: a collision
 *     edited, in another table              by on_conflict; `replace`: failed
 *     else                                  replaced
 *   foreign                                 by on_conflict; `replace`:
 * replaced, but nothing that the job selects itself (C4)
 */
enum write_decision copy_decide_write(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err);

/* copy_decide_delete: an own copy without a source was to be deleted, and has
 * changed: it is deleted if all of that is still so. */
enum write_decision copy_decide_delete(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err);

#endif
