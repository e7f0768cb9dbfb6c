/* SPDX-License-Identifier: MIT */
/*
 * Where a copy comes from, in a property of the copy itself (TablewardSource,
 * or as the job says), a String that holds JSON:
 *
 *   {"store":"main","table":"Blogs","key":["pk","rk"],"etag":"W/\"...\"",
 *    "job":"blogs-by-month","run":"id","digest":"32 hex digits"}
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
    bool moved;            /* it was made by a move */
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

/* provenance_is_from: of that table of that store, and made by that job? */
bool provenance_is_from(const struct provenance *provenance, struct slice store,
    struct slice table, struct slice job);

/* provenance_is_of: does it name the same source: store, table, keys? Table
 * names differ in case only. */
bool provenance_is_of(
    const struct provenance *provenance, const struct provenance *other);

/* provenance_is_intact: is copy still what was stored with it? */
bool provenance_is_intact(const struct provenance *provenance,
    const struct entity *copy, struct slice name);

#endif
