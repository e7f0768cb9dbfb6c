/* SPDX-License-Identifier: MIT */
/* Backward: copies whose source is gone, is none any more, or has other keys
 * now. */
#ifndef TW_JOBS_COPIER_SWEEP_H
#define TW_JOBS_COPIER_SWEEP_H

#include "jobs/copier_work.h"
#include "worker/base/err.h"

/*
 * copier_sweep_mend: of the copies where the last look does not agree, those
 * that no source has (any more) go, where they may; the others are
 * c->findings.surplus. c->stands: those that there should be there.
 */
TW_MUST_USE enum tw_err copier_sweep_mend(struct copier *c, struct err *err);

/*
 * copier_sweep_moved: of a move: copies that this run wrote, and whose source
 * is still there, go: so that no source ends in two places. Those with the
 * right keys too: they may be others when the source is met again. No delete
 * of a source may be on its way.
 */
TW_MUST_USE enum tw_err copier_sweep_moved(struct copier *c, struct err *err);

#endif
