/* SPDX-License-Identifier: MIT */
/* Repair of a pair whose source was changed or deleted by another client after
 * the source was copied and before the move deleted the source (rule M5). */
#ifndef TW_JOBS_MOVE_REPAIR_H
#define TW_JOBS_MOVE_REPAIR_H

#include "jobs/move/mover.h"

/*
 * repair_pair: repair a pair that is PAIR_CHANGED or PAIR_ABSENT. If the source
 * was changed, the copy is replaced and the source deleted. If the source is
 * absent, the copy is deleted. Each write carries the known ETag. The writes
 * are made only if the copy is provably the run's own and no delete of the
 * source had an unknown outcome. Otherwise pair->why has the reason.
 */
TW_MUST_USE enum tw_err repair_pair(struct mover *m, struct carried *carried,
    struct pair *pair, struct err *err);

#endif
