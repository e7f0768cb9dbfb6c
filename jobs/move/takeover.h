/* SPDX-License-Identifier: MIT */
/*
 * Intents of attempts that ended without finishing their loads. Whoever begins
 * takes them over first, whichever run or job they are of (rule M7):
 *
 *   read all pairs
 *   source as recorded, copy the run's own    may leave
 *   source as recorded, anything else         the next round decides
 *   source changed, something at the copy's   both stay, named
 *   source gone while `copying`, copy there   the copy stays, named
 *   store `leaving` with those that may leave, delete their sources, remove
 *   the intent
 *
 * Nothing is inserted, replaced or deleted at the destination (rule M6).
 */
#ifndef TW_JOBS_MOVE_TAKEOVER_H
#define TW_JOBS_MOVE_TAKEOVER_H

#include "jobs/move/mover.h"

/* takeover_all: every intent in which a table of this move is source or
 * destination. Nothing of the move itself may have been sent before. */
TW_MUST_USE enum tw_err takeover_all(struct mover *m, struct err *err);

/* takeover_concerns: is one of its tables one of this move's, or is it of the
 * same job and names a store that is no longer configured? */
bool takeover_concerns(const struct mover *m, const struct intent *intent);

#endif
