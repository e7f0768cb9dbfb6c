/* SPDX-License-Identifier: MIT */
/*
 * Entities as the service writes them: types only where JSON does not tell,
 * everything beyond ASCII escaped, no zeros at the end of a fraction.
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
    const struct slice *select; /* NULL: everything */
    size_t select_count;
    struct slice base;  /* http://host/account, for full metadata */
    struct slice table; /* the same */
};

/* entity_json_write: add it as an object; context: the member that comes
 * first in it, or empty. A selected property that it lacks
 * is null. */
void entity_json_write(const struct entity *entity, const struct view *view,
    struct slice context, struct buf *to);

/* entity_json_add_text: add text as a JSON string in ASCII. */
void entity_json_add_text(struct buf *to, struct slice text);

/* The service's ETag of one that the embedded store gave, W/"7" as
 * W/"datetime'2020-01-01T00%3A00%3A00.0000007Z'", and back; what is none of
 * ours becomes one that nothing has. to holds ENTITY_ETAG_BYTES. */
#define ENTITY_ETAG_BYTES 96
const char *entity_json_etag(struct slice stored, char *to);
const char *entity_json_stored_etag(struct slice etag, char *to);

#endif
