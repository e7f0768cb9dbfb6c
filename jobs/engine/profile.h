/* SPDX-License-Identifier: MIT */
/*
 * What a table holds: per property the types met and how often, per version
 * how many entities, the largest entity. Exact, in one pass, in memory that
 * grows with the number of property names and of versions, not of entities.
 */
#ifndef TW_JOBS_ENGINE_PROFILE_H
#define TW_JOBS_ENGINE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* Beyond these the table has no schema that could be counted. */
#define PROFILE_MAX_PROPERTIES 100000
#define PROFILE_MAX_VERSIONS 1000

struct profile;

/* profile_new: version is the property that holds an entity's version, copied;
 * empty: none is asked for. Owned. */
struct profile *profile_new(struct slice version);
void profile_free(struct profile *profile); /* NULL: nothing */

/* profile_add: TW_TOO_LARGE: more property names, or more versions, than the
 * limits above; err says which, and the census is of no more use. */
TW_MUST_USE enum tw_err profile_add(
    struct profile *profile, const struct entity *entity, struct err *err);

/* profile_add_versions: "1: 12000\n'one': 5\n(Edm.Guid): 1\n(absent): 3\n",
 * integers by value first (Int32, Int64 or a whole Double: the same version),
 * then texts, then other types, then the absent ones. */
void profile_add_versions(const struct profile *profile, struct buf *to);

/*
 * profile_add_text, profile_add_json: the whole, for people and for programs;
 * properties by name, in the order of bytes. JSON is one object and a newline:
 *
 *   {"Table":"Blogs","Entities":3,
 *    "Largest":{"PartitionKey":"a","RowKey":"b","Bytes":120},
 *    "Properties":[{"Name":"Views","Edm.Int32":1,"Edm.Int64":2}],
 *    "Versions":[{"Version":1,"Entities":1},{"Type":"Edm.Guid","Entities":1},
 *     {"Version":null,"Entities":1}]}
 *
 * Largest is null in an empty table; Versions is there where they were asked
 * for. A version is a number, a text, or null where the property is absent;
 * one that is neither number nor text goes by its type.
 */
void profile_add_text(const struct profile *profile, struct buf *to);
void profile_add_json(
    const struct profile *profile, const char *table, struct buf *to);

#endif
