/* SPDX-License-Identifier: MIT */
/*
 * What an upgrade stores beside the ledger for each table that it works on
 * (rule U8), in the ledger's partition `!steps`:
 *
 *   a digest of the steps of each version, stored before the first entity that
 *   they change: changed steps under an old number are refused, because it is
 *   unknown which entities have which;
 *
 *   how many entities the last expand is behind: `contract` refuses while it
 *   is behind.
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
    char table_digest[33]; /* of account and table: the prefix of RowKeys */
    bool known[UPGRADE_MAX_VERSIONS]; /* this version's digest is stored */
};

/* applied_init: store is the table's; store_name its name in the configuration.
 * All pointers are borrowed. */
void applied_init(struct applied *applied, const struct upgrade *upgrade,
    const struct store *store, const char *store_name, struct run *run);

/*
 * applied_check: TW_INVALID: a version's steps differ from those that were
 * applied under its number; err names the version, when it was applied, and
 * what to do.
 */
TW_MUST_USE enum tw_err applied_check(struct applied *applied, struct err *err);

/* applied_note: store the digests of versions[first] and all later versions,
 * whose steps are about to be carried out. TW_OK: they are stored. TW_INVALID
 * as above. */
TW_MUST_USE enum tw_err applied_note(
    struct applied *applied, size_t first, struct err *err);

/* applied_expand: record that an expand has begun (behind < 0), or that a round
 * of it ended with this many entities behind. */
TW_MUST_USE enum tw_err applied_expand(
    struct applied *applied, int64_t behind, struct err *err);

/* applied_check_expand: TW_INVALID: an expand to the newest version is behind
 * or has not ended. */
TW_MUST_USE enum tw_err applied_check_expand(
    struct applied *applied, struct err *err);

#endif
