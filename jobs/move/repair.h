/* SPDX-License-Identifier: MIT */
/* A source that somebody else changed or deleted between its copy and its
 * delete (rule M5). */
#ifndef TW_JOBS_MOVE_REPAIR_H
#define TW_JOBS_MOVE_REPAIR_H

#include "jobs/move/mover.h"

/*
 * repair_pair: of a pair that is PAIR_CHANGED or PAIR_ABSENT. If the copy is
 * provably the run's own, and the answer about the source was definite, the
 * copy follows: it is replaced, and the source deleted, or the copy is deleted,
 * each with the ETag that is known. Otherwise nothing is written, and pair->why
 * says why both stay.
 */
TW_MUST_USE enum tw_err repair_pair(struct mover *m, struct carried *carried,
    struct pair *pair, struct err *err);

#endif
