/* SPDX-License-Identifier: MIT */
/*
 * One load of a move, from storing its intent to removing it:
 *
 *   intent `copying`     stored before the first insert
 *   inserts              201: the copy is the run's own (rule M2)
 *   read back            content and ETag of each copy are compared
 *   intent `leaving`     stored with confirmed pairs and their ETags (rule M3)
 *   deletes              each source is deleted with the ETag that was copied
 *   intent removed
 *
 * A batch writer sends inserts and deletes. After a refused batch or an unknown
 * outcome the batch writer reads the current entities and calls the callback
 * decide(), which only stores the entity in its pair. The callback completed()
 * then decides the state of the pair, because rules M2 to M5 depend on
 * batch_writer_completed.indeterminate, which decide() does not receive.
 */
#ifndef TW_JOBS_MOVE_CARRY_H
#define TW_JOBS_MOVE_CARRY_H

#include "jobs/move/mover.h"

/*
 * carry_begin: copy the sources gathered in `carried`, finish the previous load
 * (m->leaving), and send the deletes of `carried`, which becomes m->leaving.
 * After an outcome other than TW_OK the intents remain stored, and the next
 * attempt takes them over.
 */
TW_MUST_USE enum tw_err carry_begin(
    struct mover *m, struct carried *carried, struct err *err);

/* carry_finish: wait for the deletes of m->leaving, repair pairs whose source
 * has changed or is absent, remove the intent, and save the checkpoint. Does
 * nothing if m->leaving is NULL. */
TW_MUST_USE enum tw_err carry_finish(struct mover *m, struct err *err);

/* carry_leave: store the intent as `leaving` with the confirmed pairs and send
 * the deletes of their sources. Does nothing if no pair is confirmed. */
TW_MUST_USE enum tw_err carry_leave(
    struct mover *m, struct carried *carried, struct err *err);

/* carry_end: call at the end of a load or an attempt: waits for deletes in
 * flight, and empties the load. */
void carry_end(struct carried *carried);

/* carry_is_recent: is the Timestamp of the found entity later than the intent's
 * Since, or at most 5 s earlier (rule M2)? */
bool carry_is_recent(const struct intent *intent, const struct found *found);

/*
 * carry_make: make the copy of a source as the job defines it, in arena.
 * TW_INVALID, TW_TOO_LARGE: err has the reason why the copy cannot be made.
 */
TW_MUST_USE enum tw_err carry_make(const struct mover *m,
    const struct entity *source, struct arena *arena, struct entity *ret,
    struct err *err);

/* carry_selects: is entity a source? A source is selected and is not an index
 * row (rule M10). */
bool carry_selects(const struct mover *m, const struct entity *entity);

/* carry_complain: report a source that is not moved. Does nothing before the
 * last round, because later rounds find the source again. */
void carry_complain(struct mover *m, const struct keys *keys, struct slice etag,
    const char *why);

#endif
