/* SPDX-License-Identifier: MIT */
/* Finds out if two stores are the same account. */
#include "jobs/engine/probe.h"

#include <stdio.h>
#include <string.h>

#include "jobs/engine/call.h"
#include "jobs/engine/run.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* Maximum number of inserts. After an unknown outcome, another key is inserted.
 */
#define TRIES 5

#define PARTITION "probe"

static enum tw_err insert(struct run *run, struct store *store,
    const char *row_key, char *ret_etag, size_t room, struct err *err)
{
    struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {PROBE_TABLE, &operation, 1};
    struct batch_result result;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    entity_init(
        &operation.entity, &arena, slice_of(PARTITION), slice_of(row_key));
    outcome = call_batch(run->pool_client, store, &batch, &result, NULL, err);
    if (outcome == TW_NOT_FOUND) {
        outcome = call_create_table(run->pool_client, store, PROBE_TABLE, err);
        if (outcome == TW_OK)
            outcome =
                call_batch(run->pool_client, store, &batch, &result, NULL, err);
    }
    if (outcome == TW_OK)
        (void)snprintf(ret_etag, room, "%s", result.etags[0]);
    arena_done(&arena);
    return outcome;
}

static enum tw_err find(struct run *run, struct store *store,
    const char *row_key, bool *ret, struct err *err)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(run->pool_client, store, PROBE_TABLE,
        slice_of(PARTITION), slice_of(row_key), &page, NULL, err);
    *ret = outcome == TW_OK;
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/* Deletes the probe's entity. If the delete fails, the entity, which has no
 * properties, remains. */
static void take_away(
    struct run *run, struct store *store, const char *row_key, const char *etag)
{
    struct operation operation = {.type = OPERATION_DELETE};
    const struct batch batch = {PROBE_TABLE, &operation, 1};
    struct batch_result result;
    struct arena arena;
    struct err ignored;

    arena_init(&arena);
    entity_init(
        &operation.entity, &arena, slice_of(PARTITION), slice_of(row_key));
    operation.entity.etag = slice_of(etag);
    (void)!call_batch(run->pool_client, store, &batch, &result, NULL, &ignored);
    arena_done(&arena);
}

static enum tw_err ask(struct run *run, struct store *a, struct store *b,
    bool *ret, struct err *err)
{
    enum tw_err outcome = TW_UNKNOWN;
    char row_key[33], etag[96];

    for (int i = 0; i < TRIES && outcome == TW_UNKNOWN; i++) {
        text_random_id(row_key);
        outcome = insert(run, a, row_key, etag, sizeof(etag), err);
    }
    if (outcome != TW_OK)
        return outcome;
    outcome = find(run, b, row_key, ret, err);
    take_away(run, a, row_key, etag);
    return outcome;
}

enum tw_err probe_same(struct run *run, struct store *a, struct store *b,
    bool *ret, struct err *err)
{
    bool kinds_differ = strcmp(a->capabilities.kind, b->capabilities.kind) != 0;
    bool embedded = strcmp(a->capabilities.kind, "embedded") == 0;

    if (a == b || store_same(a, b)) {
        *ret = true;
        return TW_OK;
    }
    /* Embedded stores are the same only if their random identities are
     * equal. */
    if (kinds_differ ||
        (embedded && a->capabilities.identity && b->capabilities.identity)) {
        *ret = !kinds_differ &&
               strcmp(a->capabilities.identity, b->capabilities.identity) == 0;
        return TW_OK;
    }
    return ask(run, a, b, ret, err);
}
