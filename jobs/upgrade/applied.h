/* SPDX-License-Identifier: MIT */
/*
 * What an upgrade keeps beside the ledger for each table that it works on
 * (rule U8), in the ledger's partition `!steps`:
 *
 *   a digest of the steps of each version, stored before the first entity that
 *   they change: steps that change under an old number are refused, since
 *   nobody could say which entities have which;
 *
 *   how far the last expand is behind: `contract` refuses while it is.
 */
#ifndef TW_JOBS_UPGRADE_APPLIED_H
#define TW_JOBS_UPGRADE_APPLIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/upgrade/rules.h"
#include "worker/base/err.h"

#define APPLIED_PARTITION "!steps"

struct run;
struct store;

struct applied {
    const struct upgrade *upgrade;
    struct run *run;
    const char *account;   /* of the table */
    char table_digest[33]; /* of account and table: how RowKeys begin */
    bool known[UPGRADE_MAX_VERSIONS]; /* is stored */
};

/* applied_init: store is the table's, store_name what the configuration calls
 * it. All are borrowed. */
void applied_init(struct applied *applied, const struct upgrade *upgrade,
    const struct store *store, const char *store_name, struct run *run);

/*
 * applied_check: TW_INVALID: a version's steps are not those that were applied
 * under its number; err says which, since when, and what to do.
 */
TW_MUST_USE enum tw_err applied_check(struct applied *applied, struct err *err);

/* applied_note: the steps of versions[first] and of all behind it are about to
 * be carried out: their digests are stored once this returns TW_OK. TW_INVALID
 * as above. */
TW_MUST_USE enum tw_err applied_note(
    struct applied *applied, size_t first, struct err *err);

/* applied_expand: an expand is under way (behind < 0), or a round of it has
 * ended so far behind. */
TW_MUST_USE enum tw_err applied_expand(
    struct applied *applied, int64_t behind, struct err *err);

/* applied_check_expand: TW_INVALID: an expand to the newest version is behind,
 * or has not ended. */
TW_MUST_USE enum tw_err applied_check_expand(
    struct applied *applied, struct err *err);

#endif
