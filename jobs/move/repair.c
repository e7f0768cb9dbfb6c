/* SPDX-License-Identifier: MIT */
/* Repairs a pair with single requests, so that the copy matches its source
 * again. */
#include "jobs/move/repair.h"

#include "jobs/engine/call.h"
#include "jobs/move/carry.h"
#include "worker/store/store.h"

/* Maximum number of changes of one source after which its copy is written
 * again. After more changes the copy is deleted, and the next round moves the
 * source. */
#define FOLLOW_MAX 5

/* Maximum tries of one write while its outcome is unknown. */
#define TRIES_MAX 8

struct repair {
    struct mover *m;
    const struct ends *ends;
    struct pair *pair;
    struct err *err;
};

static void leave(struct pair *pair, const char *why)
{
    pair_set_state(pair, PAIR_LEFT);
    pair->why = why;
}

/* ---- single requests ---- */

static enum tw_err read_side(
    struct repair *r, enum pair_side side, struct page *page)
{
    const struct keys *keys = &r->pair->keys[side];

    return call_get(r->m->run->pool_client, r->ends->stores[side],
        r->ends->tables[side], keys->partition_key, keys->row_key, page, NULL,
        r->err);
}

/* Reads side into pair->found. */
static enum tw_err find_side(struct repair *r, enum pair_side side)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = read_side(r, side, &page);
    if (outcome == TW_OK || outcome == TW_NOT_FOUND)
        found_set(r->pair, outcome == TW_OK ? &page.entities[0] : NULL);
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static bool found_has(const struct pair *pair, const char *etag)
{
    return pair->found.there && strcmp(pair->found.etag, etag) == 0;
}

/* Makes one write with the known ETag. ret_etag (may be NULL) becomes the new
 * ETag. */
static enum tw_err write_side(struct repair *r, enum pair_side side,
    enum operation_type type, const struct entity *entity, char *ret_etag)
{
    struct operation operation = {.type = type};
    const struct batch batch = {r->ends->tables[side], &operation, 1};
    struct batch_result result;
    enum tw_err outcome;

    if (entity)
        operation.entity = *entity;
    operation.entity.partition_key = r->pair->keys[side].partition_key;
    operation.entity.row_key = r->pair->keys[side].row_key;
    operation.entity.etag = slice_of(r->pair->etags[side]);
    outcome = call_batch(r->m->run->pool_client, r->ends->stores[side], &batch,
        &result, NULL, r->err);
    if (outcome == TW_OK && ret_etag)
        etag_copy(ret_etag, slice_of(result.etags[0]));
    return outcome;
}

/* Deletes the entity of one side; sets *ret to the result. After TW_UNKNOWN a
 * read of that entity decides. */
enum deleted { DELETED, DELETED_INDETERMINATE, WAS_ABSENT, WAS_CHANGED };

static enum tw_err delete_side(
    struct repair *r, enum pair_side side, enum deleted *ret)
{
    bool indeterminate = false;

    for (int i = 0; i < TRIES_MAX; i++) {
        enum tw_err outcome = write_side(r, side, OPERATION_DELETE, NULL, NULL);

        if (outcome == TW_UNKNOWN) {
            indeterminate = true;
            outcome = find_side(r, side);
            if (outcome != TW_OK)
                return outcome;
            if (found_has(r->pair, r->pair->etags[side]))
                continue;
            outcome = r->pair->found.there ? TW_CONFLICT : TW_NOT_FOUND;
        }
        if (outcome == TW_OK)
            *ret = DELETED;
        else if (outcome == TW_NOT_FOUND)
            *ret = indeterminate ? DELETED_INDETERMINATE : WAS_ABSENT;
        else if (outcome == TW_CONFLICT)
            *ret = WAS_CHANGED;
        else
            return outcome;
        r->pair->delete_indeterminate |= indeterminate && side == PAIR_SOURCE;
        return TW_OK;
    }
    return err_fail(r->err, TW_BUSY,
        "table %s: it is unknown whether an entity was deleted: %d requests "
        "had no usable response",
        r->ends->tables[side], TRIES_MAX);
}

/* ---- the copy ---- */

/* Deletes the copy. Call if the source was deleted, or (source_stays) if the
 * source exists and a later round decides about it. */
static enum tw_err delete_copy(struct repair *r, bool source_stays)
{
    enum deleted deleted = DELETED;
    enum tw_err outcome = delete_side(r, PAIR_COPY, &deleted);

    if (outcome != TW_OK)
        return outcome;
    leave(r->pair,
        deleted == WAS_CHANGED && source_stays
            ? "the source and its copy were both changed by others: both stay"
            : NULL);
    return TW_OK;
}

/* Replaces the copy. TW_CONFLICT: another client has changed the copy. */
static enum tw_err replace_copy(struct repair *r, const struct entity *copy)
{
    struct pair *pair = r->pair;

    pair->digest = entity_digest(copy, slice_of(""));
    for (int i = 0; i < TRIES_MAX; i++) {
        enum tw_err outcome = write_side(
            r, PAIR_COPY, OPERATION_REPLACE, copy, pair->etags[PAIR_COPY]);
        bool unknown = outcome == TW_UNKNOWN;

        if (outcome != TW_OK && !unknown)
            return outcome == TW_NOT_FOUND ? TW_CONFLICT : outcome;
        outcome = find_side(r, PAIR_COPY); /* this call also compares the
                                              digests */
        if (outcome != TW_OK)
            return outcome;
        if (unknown && found_has(pair, pair->etags[PAIR_COPY]))
            continue;
        if (!pair->found.equal ||
            (!unknown && !found_has(pair, pair->etags[PAIR_COPY])))
            return TW_CONFLICT;
        memcpy(pair->etags[PAIR_COPY], pair->found.etag, ETAG_MAX);
        return TW_OK;
    }
    return err_fail(r->err, TW_BUSY,
        "table %s: it is unknown whether an entity was written: %d requests "
        "had no usable response",
        r->ends->tables[PAIR_COPY], TRIES_MAX);
}

/* ---- the source ---- */

/* Makes the copy of the current source. False: the source no longer has a copy
 * with these keys, and a later round decides. */
static bool make_copy(struct repair *r, const struct entity *source,
    struct arena *arena, struct entity *ret)
{
    const struct keys *keys = &r->pair->keys[PAIR_COPY];
    struct err ignored;

    return carry_selects(r->m, source) &&
           carry_make(r->m, source, arena, ret, &ignored) == TW_OK &&
           slice_equal(ret->partition_key, keys->partition_key) &&
           slice_equal(ret->row_key, keys->row_key);
}

/* Replaces the copy by a copy of the current source. *ret: true: the source may
 * now be deleted; false: the pair needs no further write. */
static enum tw_err copy_again(
    struct repair *r, const struct entity *source, bool *ret)
{
    struct arena arena;
    struct entity copy;
    enum tw_err outcome;

    *ret = false;
    arena_init(&arena);
    if (!make_copy(r, source, &arena, &copy)) {
        arena_done(&arena);
        return delete_copy(r, true);
    }
    etag_copy(r->pair->etags[PAIR_SOURCE], source->etag);
    outcome = replace_copy(r, &copy);
    arena_done(&arena);
    if (outcome == TW_CONFLICT) {
        leave(r->pair,
            "the source and its copy were both changed by others: both stay");
        return TW_OK;
    }
    *ret = outcome == TW_OK;
    return outcome;
}

/* Deletes the source. Sets *ret to true if the source was changed once more. */
static enum tw_err delete_source(struct repair *r, bool *ret)
{
    enum deleted deleted = DELETED;
    enum tw_err outcome = delete_side(r, PAIR_SOURCE, &deleted);

    *ret = false;
    if (outcome != TW_OK)
        return outcome;
    switch (deleted) {
    case DELETED:
    case DELETED_INDETERMINATE:
        pair_set_state(r->pair, PAIR_DONE);
        atomic_fetch_add(&r->m->run->counts.deleted, 1);
        break;
    case WAS_ABSENT:
        return delete_copy(r, false);
    case WAS_CHANGED:
        if (!r->pair->delete_indeterminate) {
            *ret = true;
            break;
        }
        leave(r->pair, "the source was changed after it was copied, and the "
                       "outcome of its delete is unknown: source and copy "
                       "stay");
        break;
    }
    return TW_OK;
}

static enum tw_err follow_source(struct repair *r)
{
    bool again = true;

    for (int i = 0; i < FOLLOW_MAX && again; i++) {
        struct page page;
        enum tw_err outcome;

        page_init(&page);
        outcome = read_side(r, PAIR_SOURCE, &page);
        if (outcome == TW_OK)
            outcome = copy_again(r, &page.entities[0], &again);
        else if (outcome == TW_NOT_FOUND) {
            again = false;
            outcome = delete_copy(r, false);
        }
        page_done(&page);
        if (outcome == TW_OK && again)
            outcome = delete_source(r, &again);
        if (outcome != TW_OK)
            return outcome;
    }
    return again ? delete_copy(r, true) : TW_OK;
}

/* Repairs the pair. A copy may be written again only if its insert got the
 * response 201 and never had an unknown outcome. After a delete with an unknown
 * outcome, only an absent source is a certain result (rules M4, M5). */
enum tw_err repair_pair(struct mover *m, struct carried *carried,
    struct pair *pair, struct err *err)
{
    struct repair repair = {m, &carried->ends, pair, err};
    bool changed = pair->state == PAIR_CHANGED;

    if (!pair->indeterminate && !pair->delete_indeterminate)
        return changed ? follow_source(&repair) : delete_copy(&repair, false);
    leave(pair, changed
                    ? "the source was changed by others, and the copy is not "
                      "provably this run's: both stay"
                    : "the source was deleted by others, and the copy is not "
                      "provably this run's: the copy stays");
    return TW_OK;
}
