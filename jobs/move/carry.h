/* SPDX-License-Identifier: MIT */
/*
 * One load of a move, from its intent to the removal of its intent:
 *
 *   intent `copying`     stored before the first insert
 *   inserts              201: the copy is the run's own (rule M2)
 *   read back            each copy is compared, with its ETag
 *   intent `leaving`     confirmed pairs only, with both ETags (rule M3)
 *   deletes              each source with the ETag that was copied
 *   intent removed
 *
 * Inserts and deletes go through a batch writer. It reads what a refused or
 * unknown batch met and asks; what it reads is kept in the pair, and only once
 * it says whether an outcome was unknown (batch_writer_settled.indeterminate)
 * the pair is decided: so nothing that rules M2 to M5 depend on is hidden.
 */
#ifndef TW_JOBS_MOVE_CARRY_H
#define TW_JOBS_MOVE_CARRY_H

#include "jobs/move/mover.h"

/*
 * carry_begin: move the sources that have been gathered in `carried`, until
 * their deletes are under way; the load before (m->leaving) is finished on the
 * way, and carried becomes m->leaving. Any outcome but TW_OK: the intents stay,
 * the next attempt takes them over.
 */
TW_MUST_USE enum tw_err carry_begin(
    struct mover *m, struct carried *carried, struct err *err);

/* carry_finish: wait for the deletes of m->leaving (NULL: nothing), settle what
 * they met, remove the intent and save how far the move is. */
TW_MUST_USE enum tw_err carry_finish(struct mover *m, struct err *err);

/* carry_leave: store the intent as `leaving` with the confirmed pairs and send
 * their deletes; without any such pair nothing. */
TW_MUST_USE enum tw_err carry_leave(
    struct mover *m, struct carried *carried, struct err *err);

/* carry_end: an attempt ends: deletes in flight are waited for, and the load is
 * empty. */
void carry_end(struct carried *carried);

/* carry_is_recent: is what was found not more than 5 s older than the
 * intent (rule M2)? */
bool carry_is_recent(const struct intent *intent, const struct found *found);

/*
 * carry_make: the copy of a source as the job defines it, in arena. TW_INVALID,
 * TW_TOO_LARGE: err says why it cannot be made.
 */
TW_MUST_USE enum tw_err carry_make(const struct mover *m,
    const struct entity *source, struct arena *arena, struct entity *ret,
    struct err *err);

/* carry_selects: is it a source: selected, and not an index row (rule M10)? */
bool carry_selects(const struct mover *m, const struct entity *entity);

/* carry_complain: report a source that stays and is met again in each round:
 * only the last round reports it. */
void carry_complain(struct mover *m, const struct keys *keys, struct slice etag,
    const char *why);

#endif
