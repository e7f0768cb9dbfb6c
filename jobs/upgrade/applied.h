/* SPDX-License-Identifier: MIT */
/*
 * What an upgrade stores beside the ledger for each table that it works on
 * (rule U8), in the ledger's partition `!steps`:
 *
 * - A row for each version, stored before the steps of the version change the
 *   first entity. It has a digest of these steps, the name of the version
 *   property, and `absent`. If the digest differs, the run is refused, because
 *   it is unknown which entities have the old steps and which the new. The run
 *   is also refused if the name or `absent` differs, or if the document does
 *   not contain a version that was applied.
 *
 * - The number of entities that were written during the last round of the last
 *   expand and are not converted (Behind, rule A2). `contract` is refused until
 *   this number is 0 at the end of an expand.
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
    const char *account;   /* identity of the table's store */
    char table_digest[33]; /* digest of account and table: the prefix of
                              RowKeys */
    bool known[UPGRADE_MAX_VERSIONS]; /* known[i]: the digest of versions[i] is
                                         known to be stored */
};

/* applied_init: prepare *applied for the job's table, in store. All pointers
 * are borrowed. */
void applied_init(struct applied *applied, const struct upgrade *upgrade,
    const struct store *store, struct run *run);

/*
 * applied_check: may a run of this phase begin? Compares the steps of all
 * versions with the stored digests; reads only. TW_INVALID: a version's steps
 * differ from the steps applied under its number; the document does not contain
 * a version that was applied; the version property or `absent` differs; or the
 * phase is contract, and the last expand to the newest version left entities
 * behind or has not ended. err says what to do.
 */
TW_MUST_USE enum tw_err applied_check(
    struct applied *applied, enum upgrade_phase phase, struct err *err);

/* applied_note: store the digests of versions[first] and all later versions.
 * Call before their steps are carried out. TW_OK: the digests are stored.
 * TW_INVALID as for applied_check(). */
TW_MUST_USE enum tw_err applied_note(
    struct applied *applied, size_t first, struct err *err);

/* applied_note_expand: record that an expand has begun (if behind < 0), or that
 * a round of the expand has ended and left `behind` entities behind. */
TW_MUST_USE enum tw_err applied_note_expand(
    struct applied *applied, int64_t behind, struct err *err);

#endif
