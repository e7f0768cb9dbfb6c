/* SPDX-License-Identifier: MIT */
/*
 * Two releases of an application that write one entity between expand and
 * contract: the old one knows the property T, the new one B, which T becomes;
 * both know C, which the upgrade sets. Seven ways in which an old release may
 * write, nine of a new one; and what must hold of what they were told is
 * stored.
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
/* The same job twice: T becomes B as it is, or at half of its value. */
#define RELEASE_RENAME "up:\n" RELEASE_VERSION                                 \
    "    - rename: {property: T, to: B}\n"
#define RELEASE_LOSSY "up:\n" RELEASE_VERSION                                  \
    "    - retype: {property: T, to: Edm.Int32, to_property: B, lossy: true}\n"
/* clang-format on */

enum release_side { RELEASE_OLD, RELEASE_NEW };

/* What became of the entity. */
enum release_end { RELEASE_OPEN, RELEASE_CONTRACTED, RELEASE_NAMED };

enum release_way {
    OLD_MERGE,
    OLD_MERGE_V,      /* and its version */
    OLD_TYPED,        /* replaces by what it knows: without a version */
    OLD_TYPED_V1,     /* with its own version */
    OLD_TYPED_V_READ, /* with the version that it has read */
    OLD_DYNAMIC,      /* replaces with all that it has read */
    OLD_DYNAMIC_V1,
    NEW_MERGE,
    NEW_MERGE_NO_V,
    NEW_DUAL, /* both properties */
    NEW_BODY, /* replaces by what it knows */
    NEW_REPLACE_DUAL,
    NEW_DROPS_OLD, /* a dictionary, from which it removes the old one */
    NEW_CLEARS,    /* removes the new one */
    NEW_SETS_C,
    NEW_KEEPS_B_DROPS_OLD,
    RELEASE_WAYS,
};

const char *release_way_name(enum release_way way);

/* Ways that one new release has. RELEASE_WAYS fills up. */
#define RELEASE_GROUP_MAX 4
#define RELEASE_GROUPS 6
extern const enum release_way RELEASE_GROUP[RELEASE_GROUPS][RELEASE_GROUP_MAX];

/* The entity (RELEASE_NONE: absent), and what its writers were told. */
struct release_state {
    int t, b, c, v;
    int x;           /* the record, as an index into texts */
    int side, value; /* the last write of the pair */
    int set;         /* the last write of C */
};

#define RELEASE_TEXTS_MAX 65536

struct releases {
    bool lossy;
    struct arena arena;             /* of one call */
    char *texts[RELEASE_TEXTS_MAX]; /* of records */
    int text_count;
};

/* releases_new: owned. releases_free: NULL: nothing. */
struct releases *releases_new(bool lossy);
void releases_free(struct releases *releases);

/* releases_begin: an entity of the old release. */
struct release_state releases_begin(const struct releases *releases, int value);

/* releases_entity: its properties live in the arena of releases, which
 * releases_clear() empties. releases_read: the other way. */
struct entity releases_entity(
    struct releases *releases, const struct release_state *state);
void releases_read(struct releases *releases, const struct entity *entity,
    struct release_state *state);
void releases_clear(struct releases *releases);

/* releases_write: false: a release would not write so now. Rule U7: nobody
 * removes a property while the record is missing, or where it was absent at
 * conversion. */
bool releases_write(struct releases *releases, struct release_state *state,
    enum release_way way, int value);

/* releases_remove_old: the old release removes its property; converted: a round
 * has been there. False as above. */
bool releases_remove_old(
    struct releases *releases, struct release_state *state, bool converted);

/* releases_lost: what is lost; NULL: nothing. */
const char *releases_lost(const struct releases *releases,
    const struct release_state *state, enum release_end end);

#endif
