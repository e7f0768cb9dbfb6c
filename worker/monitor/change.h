/* SPDX-License-Identifier: MIT */
/* The changes of a run that an operator can request on the dashboard. They do
 * what the commands of these names do, without waiting for the run's owner. */
#ifndef TW_MONITOR_CHANGE_H
#define TW_MONITOR_CHANGE_H

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct change;
struct definition;

/* change_named: find the change of this name: retry, drop, pause, resume,
 * cancel or finish. NULL: there is no such change. Static. */
const struct change *change_named(struct slice name);

/*
 * change_make: make the change, with the retries of the commands. TW_OK: `done`
 * gets a sentence that says what was done, or what the run's owner was asked to
 * do. TW_NOT_FOUND, TW_CONFLICT: there is no such run, or its state does not
 * allow the change; err says which of the two. Other outcomes are the store's.
 */
TW_MUST_USE enum tw_err change_make(const struct change *change,
    const struct definition *definition, struct slice job, struct slice id,
    struct buf *done, struct err *err);

#endif
