/* SPDX-License-Identifier: MIT */
/*
 * Entities as the service writes them:
 * - a property has a type only if its JSON value does not show it;
 * - all characters that are not ASCII are escaped;
 * - a fraction has no zeros at its end.
 *
 * Source: Table service REST, "Payload format"; recorded answers.
 */
#ifndef TW_AZSIM_ENTITY_JSON_H
#define TW_AZSIM_ENTITY_JSON_H

#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

struct entity;

enum metadata { METADATA_NONE, METADATA_MINIMAL, METADATA_FULL };

/* What an answer shows of an entity. */
struct view {
    enum metadata metadata;
    const struct slice *select; /* NULL: all properties */
    size_t select_count;
    struct slice base;  /* http://host/account, for full metadata */
    struct slice table; /* for full metadata, too */
};

/* entity_json_write: adds the entity as an object. context: the first member of
 * the object; empty: it has none. A property that is selected but missing is
 * written as null. */
void entity_json_write(const struct entity *entity, const struct view *view,
    struct slice context, struct buf *to);

/* entity_json_etag: returns the service's form of an ETag of the embedded
 * store: W/"7" becomes W/"datetime'2020-01-01T00%3A00%3A00.0000007Z'".
 * entity_json_stored_etag() goes the other way; from any other text it makes an
 * ETag that no entity has. `to` has room for ENTITY_ETAG_BYTES. */
#define ENTITY_ETAG_BYTES 96
const char *entity_json_etag(struct slice stored, char *to);
const char *entity_json_stored_etag(struct slice etag, char *to);

#endif
