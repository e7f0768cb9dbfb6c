/* SPDX-License-Identifier: MIT */
/* Decides about the entity at the keys of a copy. */
#include "jobs/copy/decide.h"

#include <assert.h>

#include "jobs/copy/work.h"
#include "jobs/engine/difference.h"

struct decision {
    struct copy_work *work;
    const struct operation *sent;
    struct source mine; /* TablewardSource of `sent` */
    size_t table;
    const struct entity *now;
    struct source is; /* TablewardSource of `now`, if `now` is an own copy */
    struct arena *arena;
    struct operation *ret;
    struct err *err;
};

/* ---- decisions ---- */

static enum write_decision write_copy(struct decision *d)
{
    *d->ret = *d->sent;
    d->ret->type = d->now ? OPERATION_REPLACE : OPERATION_INSERT;
    d->ret->entity.etag = d->now ? d->now->etag : slice_of("");
    return WRITE_SEND;
}

/* Decides that nothing is written. The source then does not count as repaired
 * by this round. */
static enum write_decision keep(struct decision *d)
{
    repaired_drop(&d->work->repaired, d->mine.partition_key, d->mine.row_key);
    return WRITE_NO_OP;
}

/* Call if no copy will be written. The copy is then absent, but the comparison
 * must not count that as a difference. */
static void expect_no_more(struct decision *d)
{
    const struct entity *copy = &d->sent->entity;

    (void)keep(d);
    if (d->work->difference && d->work->at.step == COPY_FORWARD)
        difference_found(d->work->difference, copy->partition_key,
            copy->row_key, copy_digest(copy, false));
}

static enum write_decision fail(struct decision *d, const char *why)
{
    struct buf keys;

    expect_no_more(d);
    buf_init(&keys, sizeof(d->err->text));
    entity_add_keys(&keys, d->mine.partition_key, d->mine.row_key);
    err_fail(d->err, TW_CONFLICT, "%s in table %.*s was not copied: %s",
        buf_text(&keys), SLICE_ARG(d->mine.from.table), why);
    buf_done(&keys);
    return WRITE_FAIL;
}

static enum write_decision skip(struct decision *d)
{
    expect_no_more(d);
    return WRITE_SKIP;
}

/* Call when a request that the decision needs has failed. copy_end_step() then
 * returns the outcome of that request, which ends the attempt, and no further
 * checkpoint is saved. */
static enum write_decision break_off(
    struct copy_work *work, enum tw_err outcome, const struct err *why)
{
    if (work->broken == TW_OK) {
        work->broken = outcome;
        work->why = *why;
    }
    return WRITE_NO_OP;
}

/* ---- own copies ---- */

static bool is_current(const struct source *is, const struct source *mine)
{
    return !is->restored && slice_equal(is->etag, mine->etag) &&
           slice_equal(is->by, mine->by) &&
           slice_equal(is->digest, mine->digest);
}

static enum write_decision decide_same(struct decision *d)
{
    if (!source_is_intact(&d->is, d->now))
        return copy_keeps_edits(d->work, d->table) ? keep(d) : write_copy(d);
    return is_current(&d->is, &d->mine) ? keep(d) : write_copy(d);
}

static enum write_decision fail_collision(struct decision *d)
{
    enum write_decision failed;
    struct buf text;

    buf_init(&text, sizeof(d->err->text));
    buf_add_text(&text, "its copy and the copy of ");
    entity_add_keys(&text, d->is.partition_key, d->is.row_key);
    buf_add_text(&text, " have the same keys: each copy needs different keys");
    failed = fail(d, buf_text(&text));
    buf_done(&text);
    return failed;
}

/* Decides about an edited copy whose source no longer makes a copy with this
 * key. No copy overwrites the edited copy, not even the copy of another source
 * that has this key now (rule C3). */
static enum write_decision decide_edited(struct decision *d)
{
    if (d->work->rules->on_conflict == COPY_CONFLICT_SKIP)
        return skip(d);
    return fail(d,
        "the keys of its copy are taken by an edited copy of another source");
}

static enum write_decision decide_other(struct decision *d)
{
    enum copy_source_state state_of_source;
    struct slice etag;
    struct err why;
    enum tw_err outcome = copy_read_source(
        d->work, &d->is, &state_of_source, &etag, d->arena, &why);

    if (outcome != TW_OK)
        return break_off(d->work, outcome, &why);
    if (state_of_source == COPY_HAS_KEY || state_of_source == COPY_UNCLEAR)
        return fail_collision(d);
    if (!d->work->tables[d->table].is_index &&
        !source_is_intact(&d->is, d->now))
        return decide_edited(d);
    if (copy_needs_consent(&d->is) && !d->work->accepts)
        return fail(d,
            "the keys of its copy are taken by a copy of another source. That "
            "copy was made by earlier key templates, by an entry since removed "
            "from `to:`, or in another account: run the job with "
            "--accept-deletes");
    return write_copy(d);
}

/* ---- foreign entities ---- */

/* Is the foreign entity a source of the job? A copy never overwrites a source
 * (rule C4). */
static bool is_source(const struct decision *d)
{
    return d->work->tables[d->table].is_index &&
           copy_is_selected(d->work, d->now);
}

static enum write_decision decide_foreign(struct decision *d)
{
    switch (d->work->rules->on_conflict) {
    case COPY_CONFLICT_FAIL:
        return fail(d,
            "the keys of its copy are taken by an entity that is no copy of "
            "this job (`on_conflict: fail`)");
    case COPY_CONFLICT_SKIP:
        return skip(d);
    case COPY_CONFLICT_REPLACE:
        break;
    }
    if (is_source(d))
        return fail(
            d, "the keys of its copy are taken by another source of this job");
    return write_copy(d);
}

enum write_decision copy_decide_write(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    struct copy_work *work = context;
    struct decision d = {.work = work,
        .sent = sent,
        .now = now,
        .arena = arena,
        .ret = ret,
        .err = err};
    bool stamped;

    stamped = source_read(&sent->entity, arena, &d.mine);
    assert(stamped); /* copy_make() has added TablewardSource */
    (void)stamped;
    d.table = work->entries[d.mine.entry].table;
    if (!now)
        return write_copy(&d);
    if (work->tables[d.table].may_be_index &&
        slice_equal(now->etag, d.mine.etag))
        return fail(&d,
            "the entity that the copy would replace has the ETag of the "
            "source: it may be the source itself, in the same account under "
            "another address");
    if (!copy_is_own(work, d.table, now, arena, &d.is))
        return decide_foreign(&d);
    return copy_is_of_same(&d.is, &d.mine) ? decide_same(&d) : decide_other(&d);
}

/* ---- deletes ---- */

enum write_decision copy_decide_delete(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    const struct copy_table *table = context;
    struct copy_work *work = table->work;
    enum copy_source_state state_of_source;
    struct source is;
    struct slice etag;
    struct err why;
    enum tw_err outcome;

    (void)sent, (void)err;
    if (!copy_is_own(work, (size_t)(table - work->tables), now, arena, &is))
        return WRITE_NO_OP;
    outcome = copy_read_source(work, &is, &state_of_source, &etag, arena, &why);
    if (outcome != TW_OK)
        return break_off(work, outcome, &why);
    if (state_of_source == COPY_HAS_KEY || state_of_source == COPY_UNCLEAR ||
        (table->may_be_index && slice_equal(etag, now->etag)) ||
        (!table->is_index && !source_is_intact(&is, now)))
        return WRITE_NO_OP;
    *ret = (struct operation){.type = OPERATION_DELETE, .entity = *now};
    return WRITE_SEND;
}
