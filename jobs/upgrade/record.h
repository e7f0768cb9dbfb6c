/* SPDX-License-Identifier: MIT */
/*
 * The record (TablewardExpanded) that expand keeps in an entity: the version to
 * which the entity was expanded, the name of the version property, and for each
 * retained property the digests of its old and its new value at that time (rule
 * U1). The digests show later which of the two values was written since.
 *
 *   {"version":3,"in":"V","pairs":[["Text","Body","DIGEST","DIGEST"]]}
 *
 * DIGEST is 32 hex digits, or "absent". A record of a former version of
 * tableward has no "in".
 */
#ifndef TW_JOBS_UPGRADE_RECORD_H
#define TW_JOBS_UPGRADE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/digest.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define RECORD_PROPERTY "TablewardExpanded"

/* Size of the text of a value's digest, or of "absent", with the final NUL. */
#define RECORD_DIGEST_MAX (2 * DIGEST_BYTES + 1)

struct record_pair {
    struct slice old_name, new_name;
    char old_digest[RECORD_DIGEST_MAX], new_digest[RECORD_DIGEST_MAX];
};

struct record {
    int64_t version;
    struct slice in; /* the name of the version property; empty: not known */
    struct record_pair pairs[UPGRADE_MAX_STEPS];
    size_t count;
};

/* record_read: read the record of entity. False: entity has no record, or an
 * invalid one. Names live in arena. */
bool record_read(
    const struct entity *entity, struct arena *arena, struct record *ret);

/* record_property: returns record as a property of an entity, which lives in
 * arena. */
struct property record_property(
    const struct record *record, struct arena *arena);

/* record_find: returns the pair of step, or NULL. */
const struct record_pair *record_find(
    const struct record *record, const struct upgrade_step *step);

/* record_put: store a pair for step, with the digests of old_value and
 * new_value (each NULL if the property is absent). An existing pair of step is
 * replaced. */
void record_put(struct record *record, const struct upgrade_step *step,
    const struct property *old_value, const struct property *new_value);

/* record_is_old, record_is_new: is the digest of value the old (new) digest in
 * pair? */
bool record_is_old(
    const struct record_pair *pair, const struct property *value);
bool record_is_new(
    const struct record_pair *pair, const struct property *value);

#endif
