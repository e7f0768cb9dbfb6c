/* SPDX-License-Identifier: MIT */
/* The parent of a cascade: its tombstone, and its delete. */
#ifndef TW_JOBS_CASCADE_PARENT_H
#define TW_JOBS_CASCADE_PARENT_H

#include "jobs/cascade/attempt.h"

/*
 * cascade_hold_parent: the first step of every pass. Reads the parent. If the
 * parent does not carry this run's tombstone, makes all checks that come before
 * the tombstone, and writes the tombstone. RUN_CONTINUES: the parent carries
 * this run's tombstone, c->parent is what was read, and c->state.began_ticks is
 * the service's clock at the read (at the write, if this call wrote the
 * tombstone).
 */
enum run_end cascade_hold_parent(struct cascade_attempt *c);

/*
 * cascade_watch_parent: call before deletes of a pass. Reads the parent at
 * intervals of some seconds. Sets c->parent_lost if the parent exists and its
 * TablewardRun does not name this run any more. Then this pass must not send
 * further deletes, and cascade_hold_parent() decides how the run continues.
 */
void cascade_watch_parent(struct cascade_attempt *c);

/* cascade_delete_parent: makes the last step of a run; after a crash an attempt
 * may begin with it. Deletes the parent if it carries this run's tombstone; a
 * parent that was deleted or created again is left as it is. Returns
 * RUN_SUCCEEDED in all these cases, and never RUN_CONTINUES. */
enum run_end cascade_delete_parent(struct cascade_attempt *c);

/* cascade_read_parent: reads the parent with one get. TW_OK: c->parent is the
 * current state, possibly absent; *ret_ticks: the service's clock at the
 * read. */
enum tw_err cascade_read_parent(struct cascade_attempt *c, int64_t *ret_ticks);

/* cascade_read_values: stores two things in c->state: `found`, which says
 * whether the parent existed before any tombstone, and a digest of the values
 * that this run's rules read of the parent. Then calls cascade_choose_rules().
 * Call before the tombstone is written. */
void cascade_read_values(struct cascade_attempt *c, bool found);

/* cascade_choose_rules: sets c->usable to all rules or, if
 * c->state.parent_found is 0, to the rules that read no properties of the
 * parent. */
void cascade_choose_rules(struct cascade_attempt *c);

#endif
