/* SPDX-License-Identifier: MIT */
/*
 * Where a copy comes from, in a property of the copy itself (TablewardSource,
 * or as the job says), a String that holds JSON:
 *
 *   {"store":"main","table":"Blogs","key":["pk","rk"],"etag":"W/\"...\"",
 *    "job":"blogs-by-month","run":"id","digest":"32 hex digits",
 *    "identity":"myaccount.table.core.windows.net"}
 *
 * store is the name that the configuration gives it, and one name may stand
 * for many stores: identity is which one it was (see struct store_traits). It
 * is left out where it is not known, and copies of former releases have none:
 * then the name decides.
 *
 * and with it "mode":"move" where the source was to go: then the copy may be
 * all there is, and is no other job's to prune.
 *
 * digest is that of the copy as it was stored, without this property: so a copy
 * that somebody has changed since can be told from one that nobody has.
 */
#ifndef TW_JOBS_PROVENANCE_H
#define TW_JOBS_PROVENANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define PROVENANCE_PROPERTY "TablewardSource"

struct provenance {
    struct slice store, table; /* of the source */
    struct slice partition_key, row_key, etag;
    struct slice job, run; /* that wrote the copy */
    struct slice digest;   /* set by provenance_stamp() */
    struct slice identity; /* of that store; empty: not known */
    bool moved;            /* it was made by a move */
    bool at_home; /* the copy's place is in that very store; not written */
};

/*
 * provenance_stamp: copy gets the property `name` with what provenance says
 * and the digest of copy as it is now; made in arena.
 */
void provenance_stamp(struct entity *copy, struct slice name,
    const struct provenance *provenance, struct arena *arena);

/* provenance_read: false: copy has no such property, or it is not one of ours.
 * What ret refers to lives in arena or in copy. */
bool provenance_read(const struct entity *copy, struct slice name,
    struct arena *arena, struct provenance *ret);

/*
 * provenance_same_store: does it name the store that wanted names? That is the
 * one of the same identity, whatever its name; without one, of the same name.
 * A copy that is at home came there together with its source, where the tables
 * were restored or imported: then the name is enough, as before.
 */
bool provenance_same_store(
    const struct provenance *provenance, const struct provenance *wanted);

/* provenance_is_from: of the table of the store that wanted names, and made by
 * its job? */
bool provenance_is_from(
    const struct provenance *provenance, const struct provenance *wanted);

/* provenance_is_of: does it name the source that wanted names: store, table,
 * keys? Table names differ in case only. */
bool provenance_is_of(
    const struct provenance *provenance, const struct provenance *wanted);

/* provenance_is_intact: is copy still what was stored with it? */
bool provenance_is_intact(const struct provenance *provenance,
    const struct entity *copy, struct slice name);

#endif
