/* SPDX-License-Identifier: MIT */
/*
 * Changes of entities as the service offers them, with upserts and If-Match: *.
 * They are carried out on a store that needs the ETag for every change of an
 * entity.
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
    bool keys_in_url;   /* true: the keys are in entity; false: they are in the
                           body */
    struct entity entity;
    struct slice body;     /* JSON                                         */
    struct slice if_match; /* .at NULL: no header; "*"; or the service's ETag */
};

/* changes_read: reads the body into request->entity; all of it lives in
 * arena. */
enum failure changes_read(struct change_request *request, struct arena *arena);

/*
 * changes_apply: carries out all requests, or none. The requests were read with
 * changes_read(), and all have the same PartitionKey. table: the table's name
 * in the store. ret_etags: in the service's form; "" after a delete.
 * *ret_failed: the operation that was refused. The caller makes sure that
 * nothing else changes the store meanwhile.
 */
enum failure changes_apply(struct store *store, const char *table,
    struct change_request *requests, size_t count, struct arena *arena,
    char (*ret_etags)[ENTITY_ETAG_BYTES], size_t *ret_failed);

#endif
