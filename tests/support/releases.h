/* SPDX-License-Identifier: MIT */
/*
 * Two releases of an application that write the same entity while a schema
 * upgrade goes from expand to contract. The old release knows the property T;
 * the new release knows B, which the upgrade makes of T. Both know C, which the
 * upgrade sets. There are seven ways in which the old release may write, and
 * nine of the new release. releases_lost() checks that a write which succeeded
 * is not lost.
 */
#ifndef TW_TESTS_SUPPORT_RELEASES_H
#define TW_TESTS_SUPPORT_RELEASES_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/store/entity.h"

#define RELEASE_NONE (-1)

/* clang-format off */
#define RELEASE_VERSION                                                        \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"                                                         \
    "  version: {property: V, absent: 1}\n"                                    \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - set: {property: C, type: Edm.Int32, value: 0}\n"
/* Two jobs that differ only in how they make B of T. RENAME: B has the value of
 * T. LOSSY: T is a Double and B an Int32, which loses the fraction of T. */
#define RELEASE_RENAME "up:\n" RELEASE_VERSION                                 \
    "    - rename: {property: T, to: B}\n"
#define RELEASE_LOSSY "up:\n" RELEASE_VERSION                                  \
    "    - retype: {property: T, to: Edm.Int32, to_property: B, lossy: true}\n"
/* clang-format on */

enum release_side { RELEASE_OLD, RELEASE_NEW };

/* What the upgrade has done with the entity. RELEASE_NAMED: contract has left
 * the entity unchanged and named it in the report. */
enum release_end { RELEASE_OPEN, RELEASE_CONTRACTED, RELEASE_NAMED };

enum release_way {
    OLD_MERGE,
    OLD_MERGE_V, /* merges T and the release's own version */
    OLD_TYPED, /* replaces the entity by the properties that it knows, without a
                  version */
    OLD_TYPED_V1,     /* the same with the release's own version */
    OLD_TYPED_V_READ, /* the same with the version that the release has read */
    OLD_DYNAMIC, /* replaces the entity by all properties that it has read */
    OLD_DYNAMIC_V1,
    NEW_MERGE,
    NEW_MERGE_NO_V,
    NEW_DUAL, /* writes both properties */
    NEW_BODY, /* replaces the entity by the properties that it knows */
    NEW_REPLACE_DUAL,
    NEW_DROPS_OLD, /* replaces all that it has read, without the old property */
    NEW_CLEARS,    /* removes the new property */
    NEW_SETS_C,
    NEW_KEEPS_B_DROPS_OLD,
    RELEASE_WAYS,
};

const char *release_way_name(enum release_way way);

/* Each row has the ways in which one new release writes; unused elements are
 * RELEASE_WAYS. */
#define RELEASE_GROUP_MAX 4
#define RELEASE_GROUPS 6
extern const enum release_way RELEASE_GROUP[RELEASE_GROUPS][RELEASE_GROUP_MAX];

/* The entity (RELEASE_NONE: a property is absent), and the last writes that
 * succeeded. */
struct release_state {
    int t, b, c, v;
    int x;           /* the record TablewardExpanded, as an index into texts */
    int side, value; /* last write of T or B: a release_side, and the value that
                        it wrote */
    int set;         /* value of the last write of C */
};

#define RELEASE_TEXTS_MAX 65536

struct releases {
    bool lossy;
    struct arena arena;             /* emptied by releases_clear() */
    char *texts[RELEASE_TEXTS_MAX]; /* of records */
    int text_count;
};

/* releases_new: returns an empty struct, owned by the caller.
 * releases_free: releases it; NULL: does nothing. */
struct releases *releases_new(bool lossy);
void releases_free(struct releases *releases);

/* releases_begin: returns the state of an entity that the old release has
 * written with this value. */
struct release_state releases_begin(const struct releases *releases, int value);

/* releases_entity: returns the entity of a state. Its properties live in the
 * arena of releases.
 * releases_read: sets the state from an entity.
 * releases_clear: empties the arena. */
struct entity releases_entity(
    struct releases *releases, const struct release_state *state);
void releases_read(struct releases *releases, const struct entity *entity,
    struct release_state *state);
void releases_clear(struct releases *releases);

/* releases_write: changes `state` as a release does that writes `value` in this
 * way. False: a release would not write so now. Rule U7: a release does not
 * remove a property if the record is missing, or if the property was absent
 * when the entity was converted. */
bool releases_write(struct releases *releases, struct release_state *state,
    enum release_way way, int value);

/* releases_remove_old: changes state as an old release that removes its
 * property. converted: a round has converted the entity. False: a release would
 * not do this now (rule U7). */
bool releases_remove_old(
    struct releases *releases, struct release_state *state, bool converted);

/* releases_lost: returns a sentence that says which write is lost; NULL: no
 * write is lost. */
const char *releases_lost(const struct releases *releases,
    const struct release_state *state, enum release_end end);

#endif
