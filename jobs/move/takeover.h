/* SPDX-License-Identifier: MIT */
/*
 * Takes over intents of attempts that ended without finishing their loads. An
 * attempt begins with this takeover, for intents of any run or job (rule M7):
 *
 * 1. Read both entities of each pair:
 *
 *    the source is as recorded, and the copy   the pair is confirmed
 *    is the run's own
 *    the source is as recorded, and the copy   the next round decides
 *    is missing or not the run's own
 *    the source was changed, and an entity     both entities remain and are
 *    is at the keys of the copy                reported
 *    the source is gone, the intent is         the copy remains and is
 *    `copying`, and the copy is the run's own  reported
 *
 * 2. Store the intent as `leaving` with the confirmed pairs.
 * 3. Delete the sources of these pairs.
 * 4. Remove the intent.
 *
 * Nothing is inserted, replaced or deleted at the destination (rule M6).
 *
 * The stores of an intent are looked for among all stores of the configuration,
 * by the account that the intent names. If a store that may have the account
 * cannot be opened, the intent stays and the run is held. If a store has the
 * AccountName of the intent and another endpoint, the intent stays and the run
 * fails. Only if no store has the account, the pairs are reported and the
 * intent is removed (rule M8).
 */
#ifndef TW_JOBS_MOVE_TAKEOVER_H
#define TW_JOBS_MOVE_TAKEOVER_H

#include "jobs/move/mover.h"

/*
 * takeover_all: take over every intent that this run has stored or for which
 * takeover_concerns() is true. Call before the move writes any entity. A
 * requested pause or cancel waits until the takeover is complete
 * (run->in_load). On TW_OK run->load_open is false.
 */
TW_MUST_USE enum tw_err takeover_all(struct mover *m, struct err *err);

/*
 * takeover_concerns: must this move take over the intent? Yes if a table of the
 * intent is a table of this move. Yes also if the intent belongs to the same
 * job, the run that stored the intent has ended, and one of the intent's stores
 * is no longer configured. To find out, stores that no job uses are opened too.
 * TW_BUSY: one of these stores cannot be opened (run->store_closed).
 * TW_INVALID: two stores have the identity of the intent's store, or no store
 * has this identity but one has the AccountName of the intent's store.
 */
TW_MUST_USE enum tw_err takeover_concerns(const struct mover *m,
    const struct intent *intent, bool *ret, struct err *err);

#endif
