/* SPDX-License-Identifier: MIT */
/*
 * Behind the callbacks of a flight.
 *
 * A source that has changed is read again, and copied as it is now. Where its
 * copies would have other keys by now, what this run wrote at the old ones goes
 * first: the source is there, so at no instant is it in neither place.
 */
#include "jobs/copier_again.h"

#include "worker/base/log.h"
#include "worker/base/mem.h"

/* Made anew so often in one pass: then it is left to the next one. */
#define TRIES_MAX 20

/* ---- copies that go again ---- */

/* Changed by others since: it is theirs now, and stays beside what is moved. */
static enum flow_verdict decide_back(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    struct copier_copy *copy = context;
    struct copier *c = copy->source->flight->c;
    const struct copier_table *table = &c->tables[c->table_of[copy->target]];

    (void)arena;
    (void)ret;
    (void)err;
    (void)now;
    c->findings.changed++;
    copier_differs(c, table->place.table, sent->entity.partition_key,
        sent->entity.row_key, "changed");
    return FLOW_KEEP;
}

static enum tw_err take_back(
    struct copier_flight *flight, struct copier_copy *copy, struct err *err)
{
    struct copier *c = flight->c;
    const struct copier_table *table = &c->tables[c->table_of[copy->target]];
    const struct flow_item item = {
        .store = table->store,
        .table = table->place.table,
        .operation = {.type = OPERATION_DELETE,
            .entity = {.partition_key = copy->partition_key,
                .row_key = copy->row_key,
                .etag = slice_of(copy->etag)}},
        .decide = decide_back,
        .context = copy,
    };

    return copy->etag ? flow_add(flight->back, &item, err) : TW_OK;
}

static enum tw_err take_all_back(
    struct copier_flight *flight, struct copier_source *source, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < flight->c->rules->target_count && outcome == TW_OK;
         i++)
        outcome = take_back(flight, &source->copies[i], err);
    return outcome;
}

enum tw_err copier_again_orphans(struct copier_flight *flight, struct err *err)
{
    struct copier_queue taken = {0};
    struct copier_source *source;
    enum tw_err outcome = TW_OK;

    if (flight->orphans.count == 0)
        return TW_OK;
    taken = flight->orphans;
    flight->orphans = (struct copier_queue){0};
    for (source = taken.first; source && outcome == TW_OK;
         source = source->queued)
        outcome = take_all_back(flight, source, err);
    if (outcome == TW_OK)
        outcome = flow_drain(flight->back, err);
    if (outcome == TW_OK)
        while ((source = copier_flight_take(&taken)))
            copier_flight_drop(flight, source);
    return outcome;
}

/* ---- sources that are read again ---- */

struct renewal {
    struct copier_source *old;
    struct entity *copies; /* as they are to be now; NULL: none */
};

struct renewing {
    struct copier_flight *flight;
    struct copier_read reads[COPIER_READS_MAX];
    struct page pages[COPIER_READS_MAX];
    struct renewal list[COPIER_READS_MAX];
    size_t count;
    struct arena arena; /* the copies */
};

static bool is_elsewhere(
    const struct copier_copy *copy, const struct entity *made)
{
    return !slice_equal(copy->partition_key, made->partition_key) ||
           !slice_equal(copy->row_key, made->row_key);
}

/* It is no source any more. One that is gone may have been taken by an earlier
 * attempt: then its copy is all there is. */
static void give_up(
    struct copier_flight *flight, struct copier_source *old, bool gone)
{
    bool keep = gone && (old->unsure || flight->c->at.doubt);

    /* What stands of it, a look will find. */
    flight->c->wrote |= !flight->c->rules->move;
    if (!flight->c->rules->move || keep)
        copier_flight_drop(flight, old);
    else
        copier_flight_orphan(flight, old);
}

static bool is_too_often(
    struct copier_flight *flight, struct copier_source *old)
{
    if (old->tries < TRIES_MAX)
        return false;
    flight->c->wrote = true;
    copier_flight_leave_behind(old);
    return true;
}

/* What its copies are to be; those that this run wrote elsewhere go. */
static enum tw_err renew(struct renewing *r, size_t i, struct err *err)
{
    struct copier_flight *flight = r->flight;
    struct copier *c = flight->c;
    struct copier_source *old = r->list[i].old;
    const struct entity *source = r->reads[i].source;
    struct entity *copies =
        arena_alloc(&r->arena, c->rules->target_count * sizeof(*copies));
    enum tw_err outcome = TW_OK;
    struct err why;

    if (!source) {
        give_up(flight, old, r->reads[i].gone);
        return TW_OK;
    }
    if (is_too_often(flight, old))
        return TW_OK;
    if (!copier_make(c, source, &r->arena, copies, &why)) {
        copier_tell_failed(c, source, why.text);
        give_up(flight, old, false);
        return TW_OK;
    }
    r->list[i].copies = copies;
    for (size_t t = 0; c->rules->move && t < c->rules->target_count; t++)
        if (outcome == TW_OK && is_elsewhere(&old->copies[t], &copies[t]))
            outcome = take_back(flight, &old->copies[t], err);
    return outcome;
}

static enum tw_err send_anew(struct renewing *r, size_t i, struct err *err)
{
    struct copier_flight *flight = r->flight;
    struct copier_source *old = r->list[i].old;
    bool wanted[COPYING_MAX_TARGETS];
    const struct copier_sending sending = {
        .source = r->reads[i].source,
        .copies = r->list[i].copies,
        .wanted = wanted,
        .former = old,
    };
    enum tw_err outcome = TW_OK;

    if (!sending.copies)
        return TW_OK;
    for (size_t t = 0; t < flight->c->rules->target_count; t++)
        wanted[t] = flight->c->rules->move || old->copies[t].looks;
    outcome = copier_flight_add(flight, &sending, &r->arena, err);
    copier_flight_drop(flight, old);
    return outcome;
}

static enum tw_err renew_all(struct renewing *r, struct err *err)
{
    struct copier *c = r->flight->c;
    enum tw_err outcome =
        copier_read_sources(c, r->reads, r->count, r->pages, err);

    for (size_t i = 0; i < r->count && outcome == TW_OK; i++)
        outcome = renew(r, i, err);
    if (outcome == TW_OK)
        outcome = flow_drain(r->flight->back, err);
    for (size_t i = 0; i < r->count && outcome == TW_OK; i++)
        outcome = send_anew(r, i, err);
    return outcome;
}

static enum tw_err read_again(struct copier_flight *flight, struct err *err)
{
    struct renewing *r = mem_alloc(sizeof(*r));
    struct copier_source *source;
    enum tw_err outcome;

    r->flight = flight;
    arena_init(&r->arena);
    while (r->count < COPIER_READS_MAX &&
           (source = copier_flight_take(&flight->again))) {
        r->list[r->count].old = source;
        r->reads[r->count] = (struct copier_read){
            .partition_key = source->partition_key, .row_key = source->row_key};
        page_init(&r->pages[r->count]);
        r->count++;
    }
    outcome = renew_all(r, err);
    for (size_t i = 0; i < r->count; i++)
        page_done(&r->pages[i]);
    arena_done(&r->arena);
    mem_free(r);
    return outcome;
}

/* ---- working off ---- */

static enum tw_err let_go(struct copier_flight *flight, struct err *err)
{
    struct copier_source *source;
    enum tw_err outcome = TW_OK;

    while (outcome == TW_OK && (source = copier_flight_take(&flight->stored)))
        outcome = copier_flight_leave(flight, source, err);
    return outcome;
}

enum tw_err copier_again_some(struct copier_flight *flight, struct err *err)
{
    enum tw_err outcome = let_go(flight, err);

    if (outcome == TW_OK)
        outcome = copier_again_orphans(flight, err);
    while (outcome == TW_OK && flight->again.count >= COPIER_READS_MAX)
        outcome = read_again(flight, err);
    return outcome;
}

static enum tw_err pour_copies(struct copier_flight *flight, struct err *err)
{
    enum tw_err outcome = sorter_pour(flight->sorter, flight->copies, err);

    return outcome == TW_OK ? flow_drain(flight->copies, err) : outcome;
}

static enum tw_err pour_leaving(struct copier_flight *flight, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (!flight->leaving)
        return TW_OK;
    outcome = let_go(flight, err);
    if (outcome == TW_OK)
        outcome = sorter_pour(flight->leaving, flight->deletes, err);
    return outcome == TW_OK ? flow_drain(flight->deletes, err) : outcome;
}

enum tw_err copier_again_load(struct copier_flight *flight, struct err *err)
{
    enum tw_err outcome;

    if (!flight->c->rules->move)
        return sorter_pour(flight->sorter, flight->copies, err);
    outcome = pour_copies(flight, err);
    if (outcome == TW_OK)
        outcome = pour_leaving(flight, err);
    return outcome == TW_OK ? copier_again_some(flight, err) : outcome;
}

enum tw_err copier_again_all(struct copier_flight *flight, struct err *err)
{
    enum tw_err outcome;

    do {
        outcome = pour_copies(flight, err);
        if (outcome == TW_OK)
            outcome = pour_leaving(flight, err);
        if (outcome == TW_OK)
            outcome = copier_again_orphans(flight, err);
        while (outcome == TW_OK && flight->again.first)
            outcome = read_again(flight, err);
    } while (outcome == TW_OK && flight->all);
    return outcome;
}
