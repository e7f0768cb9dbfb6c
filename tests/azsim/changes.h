/* SPDX-License-Identifier: MIT */
/*
 * Changes of entities as the service knows them, with upserts and If-Match: *,
 * carried out on a store that takes nothing without an ETag.
 */
#ifndef TW_AZSIM_CHANGES_H
#define TW_AZSIM_CHANGES_H

#include <stddef.h>

#include "tests/azsim/entity_json.h"
#include "tests/azsim/failure.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

struct change_request {
    const char *method; /* POST, PUT, PATCH, MERGE, DELETE              */
    bool keys_in_url;   /* then entity has them; else the body has      */
    struct entity entity;
    struct slice body;     /* JSON                                         */
    struct slice if_match; /* .at NULL: none; "*"; or the service's ETag   */
};

/* changes_read: from the body into entity; everything lives in arena. */
enum failure changes_read(struct change_request *request, struct arena *arena);

/*
 * changes_apply: all or nothing. requests: read, of one table (its name in the
 * store) and one PartitionKey. ret_etags: the service's form, "" after a
 * delete. *ret_failed: the operation that stood in the way. The caller sees to
 * it that nobody else changes the store meanwhile.
 */
enum failure changes_apply(struct store *store, const char *table,
    struct change_request *requests, size_t count, struct arena *arena,
    char (*ret_etags)[ENTITY_ETAG_BYTES], size_t *ret_failed);

#endif
