/* SPDX-License-Identifier: MIT */
/*
 * Takes over intents of attempts that ended without finishing their loads. An
 * attempt does this first, for intents of any run or job (rule M7):
 *
 *   read all pairs
 *   source as recorded, copy the run's own    confirmed
 *   source as recorded, anything else         the next round decides
 *   source changed, something at the copy's   both stay, named
 *   source gone while `copying`, copy exists  the copy stays, named
 *   store `leaving` with the confirmed pairs, delete their sources, remove
 *   the intent
 *
 * Nothing is inserted, replaced or deleted at the destination (rule M6).
 */
#ifndef TW_JOBS_MOVE_TAKEOVER_H
#define TW_JOBS_MOVE_TAKEOVER_H

#include "jobs/move/mover.h"

/* takeover_all: take over every intent in which a table of this move is source
 * or destination. The move must not have sent anything before. */
TW_MUST_USE enum tw_err takeover_all(struct mover *m, struct err *err);

/* takeover_concerns: is a table of the intent a table of this move? Or is the
 * intent of the same job, with a store that is no longer configured? */
bool takeover_concerns(const struct mover *m, const struct intent *intent);

#endif
