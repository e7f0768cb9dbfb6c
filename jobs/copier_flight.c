/* SPDX-License-Identifier: MIT */
/*
 * The way of a source:
 *
 *   added (its copies are with the sorter, then with the flow)
 *     -> all copies settled: done; or, of a move,
 *        stored -> leaving (its delete is with the second sorter and flow)
 *     -> again: it has changed, or a copy made of another state stands there
 *     -> orphans: nobody has it any more, what this run wrote of it goes too
 *
 * Callbacks of a flow only note and queue; whoever drives the flight empties
 * the queues (copier_again.c).
 */
#include "jobs/copier_flight.h"

#include "jobs/job.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"

/* ---- queues ---- */

static void queue_push(struct copier_queue *queue, struct copier_source *source)
{
    source->queued = NULL;
    if (queue->last)
        queue->last->queued = source;
    else
        queue->first = source;
    queue->last = source;
    queue->count++;
}

struct copier_source *copier_flight_take(struct copier_queue *queue)
{
    struct copier_source *source = queue->first;

    if (!source)
        return NULL;
    queue->first = source->queued;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    return source;
}

/* ---- sources under way ---- */

static bool moves(const struct copier_flight *flight)
{
    return flight->c->rules->move;
}

static size_t text_bytes(
    const struct copier_flight *flight, const struct copier_sending *sending)
{
    const struct entity *source = sending->source;
    size_t bytes =
        source->partition_key.len + source->row_key.len + source->etag.len;

    for (size_t i = 0; moves(flight) && i < flight->c->rules->target_count; i++)
        bytes += sending->copies[i].partition_key.len +
                 sending->copies[i].row_key.len;
    return bytes;
}

static struct slice put(char **at, struct slice text)
{
    struct slice copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static void set_copy(struct copier_source *source, size_t target,
    const struct entity *copy, char **at)
{
    struct copier_copy *to = &source->copies[target];

    to->source = source;
    to->target = target;
    if (!moves(source->flight))
        return;
    to->partition_key = put(at, copy->partition_key);
    to->row_key = put(at, copy->row_key);
}

static bool same_place(const struct copier_copy *a, const struct copier_copy *b)
{
    return slice_equal(a->partition_key, b->partition_key) &&
           slice_equal(a->row_key, b->row_key);
}

/* What was met then, and may be replaced by what is made now. */
static void follow(
    struct copier_source *source, const struct copier_source *former)
{
    source->unsure = former->unsure;
    source->stands = former->stands;
    source->tries = former->tries + 1;
    for (size_t i = 0; i < source->flight->c->rules->target_count; i++) {
        const struct copier_copy *was = &former->copies[i];

        if (was->looks)
            source->copies[i].met = mem_format("%s", was->met);
        source->copies[i].shared =
            was->shared && same_place(was, &source->copies[i]);
    }
}

/* One piece: there are as many as the sorter holds, and more. */
static struct copier_source *new_source(
    struct copier_flight *flight, const struct copier_sending *sending)
{
    size_t count = flight->c->rules->target_count;
    struct copier_source *source =
        mem_alloc(sizeof(*source) + count * sizeof(source->copies[0]) +
                  text_bytes(flight, sending));
    char *at = (char *)&source->copies[count];

    source->flight = flight;
    source->partition_key = put(&at, sending->source->partition_key);
    source->row_key = put(&at, sending->source->row_key);
    source->etag = put(&at, sending->source->etag);
    for (size_t i = 0; i < count; i++)
        set_copy(source, i, &sending->copies[i], &at);
    if (sending->former)
        follow(source, sending->former);
    source->next = flight->all;
    if (flight->all)
        flight->all->previous = source;
    flight->all = source;
    return source;
}

void copier_flight_drop(
    struct copier_flight *flight, struct copier_source *source)
{
    if (source->previous)
        source->previous->next = source->next;
    else
        flight->all = source->next;
    if (source->next)
        source->next->previous = source->previous;
    for (size_t i = 0; i < flight->c->rules->target_count; i++) {
        mem_free(source->copies[i].etag);
        mem_free(source->copies[i].met);
    }
    mem_free(source);
}

/* ---- a copy ---- */

static const struct copier_table *table_of(const struct copier_copy *copy)
{
    const struct copier *c = copy->source->flight->c;

    return &c->tables[c->table_of[copy->target]];
}

static struct provenance provenance_of(const struct copier_copy *copy)
{
    const struct copier_source *source = copy->source;
    struct provenance is = copier_provenance(source->flight->c, table_of(copy));

    is.partition_key = source->partition_key;
    is.row_key = source->row_key;
    is.etag = source->etag;
    return is;
}

/* What stands there: whose is it? What this run has merged into something
 * cannot be told from what it made. */
static void note_met(struct copier *c, struct copier_copy *copy,
    const struct entity *now, struct arena *arena)
{
    struct provenance is;
    bool made = now && provenance_read(now, c->rules->provenance, arena, &is);
    bool by_us = made && slice_is(is.run, c->run->id);

    copy->mine = by_us &&
                 copier_reads_ours(c, table_of(copy), now, arena, &is) &&
                 copier_is_mine(c, &is, now);
    copy->shared |=
        now && (!copy->mine || c->rules->on_conflict == CONFLICT_MERGE);
}

/* Ids are a job's own: two jobs may have a run of the same one. */
static bool is_this_run(const struct copier *c, const struct provenance *is)
{
    return slice_is(is->run, c->run->id) && slice_is(is->job, c->run->job);
}

/* Will nobody but this run take it back? */
static bool is_safe(const struct copier *c, const struct provenance *is)
{
    return is->moved && (is->run.len == 0 || is_this_run(c, is));
}

/*
 * A copy that stands there already is enough. But of a move, another run that
 * has made it takes it back when it finds the source gone, and it may be this
 * run by which it went: so the copy becomes nobody's first, and its ETag
 * another one. What others have changed since has that already.
 */
static enum flow_verdict settle_for(struct copier_copy *copy,
    const struct entity *now, struct arena *arena, struct operation *ret)
{
    struct copier *c = copy->source->flight->c;
    struct provenance is;

    if (!c->rules->move ||
        !provenance_read(now, c->rules->provenance, arena, &is) ||
        is_safe(c, &is) ||
        !provenance_is_intact(&is, now, c->rules->provenance))
        return FLOW_KEEP;
    is.run = slice_of("");
    is.moved = true;
    ret->type = OPERATION_REPLACE;
    ret->entity = entity_without(now, c->rules->provenance, arena);
    provenance_stamp(&ret->entity, c->rules->provenance, &is, arena);
    return FLOW_SEND;
}

/* The source is to be read again, and may replace this one then. */
static enum flow_verdict look_again(
    struct copier_copy *copy, const struct entity *now)
{
    copy->looks = true;
    mem_free(copy->met);
    copy->met = now ? mem_text(now->etag.at, now->etag.len) : mem_text("", 0);
    return FLOW_KEEP;
}

/* Was the source read after this copy had been met? Another one may have been
 * made of a newer state since. */
static bool is_fresh(const struct copier_copy *copy, const struct entity *now)
{
    return now && copy->met && slice_is(now->etag, copy->met);
}

/* Of what it failed, for people: the message names the copy's keys. */
static void name_source(const struct copier_source *source, struct err *err)
{
    struct buf keys;

    buf_init(&keys, sizeof(err->text));
    entity_add_keys(&keys, source->partition_key, source->row_key);
    err_prefix(err, "the copy of %s", buf_text(&keys));
    buf_done(&keys);
}

/* Is it as it was stored? A merge may hold what others add. A move looks at
 * what it has moved at its end. */
static void note_stored(
    struct copier *c, const struct copier_copy *copy, const struct entity *now)
{
    size_t table = c->table_of[copy->target];
    struct provenance is;
    struct arena arena;

    if (c->rules->move)
        return;
    arena_init(&arena);
    if (!copier_reads_ours(c, table_of(copy), now, &arena, &is)) {
        c->findings.equal++;
        digest_add(&c->findings.equal_sum,
            tally_digest(table, now, c->rules->provenance));
    } else if (c->rules->on_conflict != CONFLICT_MERGE &&
               !provenance_is_intact(&is, now, c->rules->provenance)) {
        c->findings.changed++;
        copier_differs(c, table_of(copy)->place.table, now->partition_key,
            now->row_key, "changed");
    }
    arena_done(&arena);
}

/*
 * Does another source stand there, of which copies can be made? Within one
 * table they may want one another's keys. A copy takes no source's place: what
 * stood there would be in neither.
 */
static bool is_other_source(const struct copier_copy *copy,
    const struct provenance *ours, const struct entity *now,
    struct arena *arena)
{
    struct copier *c = copy->source->flight->c;
    struct entity copies[COPYING_MAX_TARGETS];
    struct provenance is;
    struct err why;

    return place_same(
               &c->rules->targets[copy->target].place, &c->rules->from) &&
           copier_is_source(c, now, arena) &&
           !(provenance_read(now, c->rules->provenance, arena, &is) &&
               provenance_is_of(&is, ours)) &&
           copier_make(c, now, arena, copies, &why);
}

static enum flow_verdict refuse_source(
    struct copier_copy *copy, const struct entity *now, struct err *err)
{
    const struct copier_rules *rules = copy->source->flight->c->rules;
    struct buf keys;

    if (rules->on_conflict == CONFLICT_SKIP)
        return FLOW_SPARE;
    buf_init(&keys, sizeof(err->text));
    entity_add_keys(&keys, now->partition_key, now->row_key);
    err_fail(err, TW_CONFLICT,
        "at %s stands another entity that is to be %s itself", buf_text(&keys),
        rules->move ? "moved" : "copied");
    buf_done(&keys);
    name_source(copy->source, err);
    return FLOW_FAIL;
}

/*
 * Something stands there. A merge that was refused a second time is not merged
 * once more: what was sent holds what others have meanwhile changed.
 */
static enum flow_verdict decide_copy(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    struct copier_copy *copy = context;
    struct copier *c = copy->source->flight->c;
    /* What was sent, as it was made. */
    struct entity bare =
        entity_without(&sent->entity, c->rules->provenance, arena);
    struct provenance provenance = provenance_of(copy);
    const struct copying_want want = {
        .copy = &bare,
        .provenance = &provenance,
        .name = c->rules->provenance,
        .on_conflict = c->rules->on_conflict,
        .owns = c->rules->owns,
        .fresh = is_fresh(copy, now),
    };

    note_met(c, copy, now, arena);
    if (now && is_other_source(copy, &provenance, now, arena))
        return refuse_source(copy, now, err);
    switch (copying_decide(&want, now, arena, ret, err)) {
    case COPYING_STORED:
        note_stored(c, copy, now);
        return settle_for(copy, now, arena, ret);
    case COPYING_WRITE:
        if (c->rules->on_conflict == CONFLICT_MERGE &&
            sent->type != OPERATION_INSERT)
            return look_again(copy, now);
        return FLOW_SEND;
    case COPYING_LOOK:
        return look_again(copy, now);
    case COPYING_LEFT:
        return FLOW_SPARE;
    case COPYING_FAILED:
        break;
    }
    name_source(copy->source, err);
    return FLOW_FAIL;
}

static void keep_etag(struct copier_copy *copy, struct slice etag)
{
    mem_free(copy->etag);
    copy->etag =
        etag.len > 0 && !copy->shared ? mem_text(etag.at, etag.len) : NULL;
}

/* ---- a source whose copies are settled ---- */

static void note_refused(struct copier_source *source, const char *is)
{
    struct copier *c = source->flight->c;

    source->stays = true;
    copier_differs(
        c, c->rules->from.table, source->partition_key, source->row_key, is);
}

/* Where copies of it stand, its keys may be others when it is met again. */
void copier_flight_leave_behind(struct copier_source *source)
{
    struct copier *c = source->flight->c;

    c->at.sweep |= c->rules->move && c->keys_change && source->stands;
    c->at.anew |= c->at.sweep && !source->stays;
    copier_flight_drop(source->flight, source);
}

void copier_flight_orphan(
    struct copier_flight *flight, struct copier_source *source)
{
    queue_push(&flight->orphans, source);
}

/* Where one copy of several was refused, the others are made all the same. */
static void all_settled(struct copier_source *source)
{
    struct copier_flight *flight = source->flight;

    if (source->again && !(source->stays && moves(flight))) {
        queue_push(&flight->again, source);
    } else if (source->stays) {
        copier_flight_leave_behind(source);
    } else if (!moves(flight)) {
        copier_flight_drop(flight, source);
    } else if (source->unsure) {
        flight->c->wrote = true;
        copier_flight_leave_behind(source);
    } else {
        queue_push(&flight->stored, source);
    }
}

static void copy_settled(void *context, const struct flow_settled *how)
{
    struct copier_copy *copy = context;
    struct copier_source *source = copy->source;

    source->unsure |= how->unsure;
    source->stands |= how->unsure || (how->end != FLOW_ENDED_SPARED &&
                                         how->end != FLOW_ENDED_FAILED);
    source->again |= copy->looks;
    if (how->end == FLOW_ENDED_SPARED)
        note_refused(source, "skipped");
    if (how->end == FLOW_ENDED_FAILED)
        note_refused(source, "failed");
    if (moves(source->flight) &&
        (how->end == FLOW_ENDED_DONE ||
            (how->end == FLOW_ENDED_KEPT && copy->mine)))
        keep_etag(copy, how->etag);
    if (--source->pending == 0)
        all_settled(source);
}

static enum tw_err add_copy(struct copier_flight *flight,
    struct copier_copy *copy, const struct entity *made, struct arena *scratch,
    struct err *err)
{
    struct copier *c = flight->c;
    struct provenance provenance = provenance_of(copy);
    const struct copier_table *table = table_of(copy);
    struct flow_item item = {
        .store = table->store,
        .table = table->place.table,
        .operation = {.type = OPERATION_INSERT, .entity = *made},
        .decide = decide_copy,
        .context = copy,
        .settled = copy_settled,
    };
    enum tw_err outcome = TW_OK;

    item.operation.entity.etag = slice_of("");
    provenance_stamp(
        &item.operation.entity, c->rules->provenance, &provenance, scratch);
    if (sorter_is_full(flight->sorter))
        outcome = sorter_pour(flight->sorter, flight->copies, err);
    if (outcome == TW_OK)
        sorter_add(flight->sorter, &item);
    return outcome;
}

enum tw_err copier_flight_add(struct copier_flight *flight,
    const struct copier_sending *sending, struct arena *scratch,
    struct err *err)
{
    struct copier_source *source = new_source(flight, sending);
    size_t count = flight->c->rules->target_count;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count; i++)
        source->pending += !sending->wanted || sending->wanted[i];
    if (source->pending == 0) {
        copier_flight_drop(flight, source);
        return TW_OK;
    }
    for (size_t i = 0; i < count && outcome == TW_OK; i++)
        if (!sending->wanted || sending->wanted[i])
            outcome = add_copy(
                flight, &source->copies[i], &sending->copies[i], scratch, err);
    return outcome;
}

/* ---- a source that may go ---- */

/* It has changed since it was copied. */
static enum flow_verdict decide_leaving(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    struct copier_source *source = context;

    (void)sent;
    (void)now;
    (void)arena;
    (void)ret;
    (void)err;
    source->again = true;
    return FLOW_KEEP;
}

/*
 * Gone, and not by what was sent for it: somebody has deleted it, so what this
 * run wrote of it is to go too. Where an earlier attempt may have taken it,
 * nobody can tell, and the copy is all there is.
 */
static void leaving_settled(void *context, const struct flow_settled *how)
{
    struct copier_source *source = context;
    struct copier_flight *flight = source->flight;

    source->unsure |= how->unsure;
    if (how->end == FLOW_ENDED_GONE && !source->unsure && !flight->c->at.doubt)
        copier_flight_orphan(flight, source);
    else if (source->again)
        queue_push(&flight->again, source);
    else if (how->end == FLOW_ENDED_FAILED)
        copier_flight_leave_behind(source);
    else
        copier_flight_drop(flight, source);
}

enum tw_err copier_flight_leave(
    struct copier_flight *flight, struct copier_source *source, struct err *err)
{
    const struct flow_item item = {
        .store = flight->c->store,
        .table = flight->c->rules->from.table,
        .operation = {.type = OPERATION_DELETE,
            .entity = {.partition_key = source->partition_key,
                .row_key = source->row_key,
                .etag = source->etag}},
        .decide = decide_leaving,
        .context = source,
        .settled = leaving_settled,
    };
    enum tw_err outcome = TW_OK;

    if (sorter_is_full(flight->leaving))
        outcome = sorter_pour(flight->leaving, flight->deletes, err);
    if (outcome == TW_OK)
        sorter_add(flight->leaving, &item);
    return outcome;
}

/* ---- the flight ---- */

void copier_flight_begin(struct copier_flight *flight, struct copier *c)
{
    *flight = (struct copier_flight){.c = c};
    flight->sorter = sorter_new();
    flight->copies = flow_new(c->run, COPIER_BATCHES_IN_FLIGHT);
    flight->back = flow_new(c->run, COPIER_BATCHES_IN_FLIGHT);
    if (!c->rules->move)
        return;
    flight->leaving = sorter_new();
    flight->deletes = flow_new(c->run, COPIER_BATCHES_IN_FLIGHT);
}

/* What nobody could mend, and what was stopped with outcomes unknown. */
static void note_doubt(struct copier_flight *flight, enum tw_err outcome)
{
    struct copier *c = flight->c;
    struct flow *flow = c->rules->move ? flight->deletes : flight->copies;
    bool broken = outcome != TW_OK && outcome != TW_STOPPED;
    bool open = outcome != TW_OK || flow_unsure(flight->copies);

    c->wrote |= flow_unsure(flow) || flow_done(flow) > 0;
    c->at.late |= broken || flow_unsure(flight->copies) || flow_unsure(flow);
    if (!c->rules->move)
        return;
    c->wrote |= flow_unsure(flight->copies);
    c->at.doubt |= broken || flow_unsure(flow);
    c->at.sweep |= open && c->keys_change;
    c->at.anew |= open && c->at.sweep;
}

void copier_flight_settle(struct copier_flight *flight)
{
    flow_settle(flight->copies);
    if (flight->deletes)
        flow_settle(flight->deletes);
}

void copier_flight_end(struct copier_flight *flight, enum tw_err outcome)
{
    note_doubt(flight, outcome);
    while (flight->all)
        copier_flight_drop(flight, flight->all);
    flow_free(flight->copies);
    flow_free(flight->deletes);
    flow_free(flight->back);
    sorter_free(flight->sorter);
    sorter_free(flight->leaving);
    mem_give_back();
}
