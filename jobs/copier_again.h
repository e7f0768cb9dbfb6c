/* SPDX-License-Identifier: MIT */
/* What a flight has queued is worked off: sources that may go, those that are
 * to be read again, and copies that nobody is the source of any more. */
#ifndef TW_JOBS_COPIER_AGAIN_H
#define TW_JOBS_COPIER_AGAIN_H

#include "jobs/copier_flight.h"
#include "worker/base/err.h"

/* copier_again_some: what is worth it by now; between pages. */
TW_MUST_USE enum tw_err copier_again_some(
    struct copier_flight *flight, struct err *err);

/* copier_again_load: the sorter is full: its copies are sent. Of a move, their
 * sources go before more are read, so that memory holds no more than one load
 * of them. */
TW_MUST_USE enum tw_err copier_again_load(
    struct copier_flight *flight, struct err *err);

/* copier_again_all: until everything under way has come to its end. */
TW_MUST_USE enum tw_err copier_again_all(
    struct copier_flight *flight, struct err *err);

/* copier_again_orphans: those alone; also where the run is to stop. */
TW_MUST_USE enum tw_err copier_again_orphans(
    struct copier_flight *flight, struct err *err);

#endif
