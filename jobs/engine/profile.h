/* SPDX-License-Identifier: MIT */
/*
 * The profile of a table: the types of each property and how often each was
 * found, the number of entities of each version, the largest entity. The counts
 * are exact and need one scan; the memory grows with the number of property
 * names and versions, not with the number of entities.
 */
#ifndef TW_JOBS_ENGINE_PROFILE_H
#define TW_JOBS_ENGINE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* Limits of a profile: its number of property names, and its number of
 * versions. A table that exceeds one of them has no schema that could be
 * reported. */
#define PROFILE_MAX_PROPERTIES 100000
#define PROFILE_MAX_VERSIONS 1000

struct profile;

/* profile_new: returns an empty profile, owned by the caller. version (copied)
 * is the name of the property that holds an entity's version; if it is empty,
 * versions are not counted. */
struct profile *profile_new(struct slice version);
void profile_free(struct profile *profile); /* NULL is allowed */

/* profile_add: count entity. TW_TOO_LARGE: there are more than
 * PROFILE_MAX_PROPERTIES property names or PROFILE_MAX_VERSIONS versions; err
 * says which of the two, and the profile is unusable. */
TW_MUST_USE enum tw_err profile_add(
    struct profile *profile, const struct entity *entity, struct err *err);

/* profile_add_versions: append one line per version, with the number of its
 * entities. Integers are first, by value (an Int32, an Int64 and a whole Double
 * of one value are one version), then texts, then other types, then entities
 * without the property: "1: 12000\n'one': 5\n(Edm.Guid): 1\n(absent): 3\n". */
void profile_add_versions(const struct profile *profile, struct buf *to);

/*
 * profile_add_text, profile_add_json: append the whole profile, for people and
 * for programs; properties by name, in byte order. JSON is one object and a
 * newline:
 *
 *   {"Table":"Blogs","Entities":3,
 *    "Largest":{"PartitionKey":"a","RowKey":"b","Bytes":120},
 *    "Properties":[{"Name":"Views","Edm.Int32":1,"Edm.Int64":2}],
 *    "Versions":[{"Version":1,"Entities":1},{"Type":"Edm.Guid","Entities":1},
 *     {"Version":null,"Entities":1}]}
 *
 * Largest is null for an empty table. Versions is present only if profile_new()
 * was given the name of a version property. A version is a number, a text, or
 * null where the property is absent; a version of another type is reported by
 * its type.
 */
void profile_add_text(const struct profile *profile, struct buf *to);
void profile_add_json(
    const struct profile *profile, const char *table, struct buf *to);

#endif
