/* SPDX-License-Identifier: MIT */
/*
 * Forward over the sources. The sorter holds thousands of copies, so a place
 * in the pass is reached once all that it held is settled.
 */
#include "jobs/copier_pass.h"

#include "jobs/copier_again.h"
#include "jobs/copier_flight.h"
#include "worker/base/log.h"

struct pass {
    struct copier_flight flight;
    bool saves; /* its place is worth keeping */

    /* A place up to which all copies are with the flow. */
    bool waits;
    uint64_t ticket;
    struct slice partition_key, row_key;
    struct arena waiting; /* these keys */
    struct arena saved;   /* those that the checkpoint has */
};

/* ---- the place ---- */

/* All up to the place that waited is settled: the pass may go on there. */
static void save_reached(struct copier *c, struct pass *pass)
{
    if (!pass->waits || flow_low_water(pass->flight.copies) < pass->ticket)
        return;
    pass->waits = false;
    c->at.in_pass = true;
    c->at.partition_key = pass->partition_key;
    c->at.row_key = pass->row_key;
    arena_done(&pass->saved);
    pass->saved = pass->waiting;
    arena_init(&pass->waiting);
    copier_save(c, true);
}

static void reached(
    struct copier *c, struct pass *pass, const struct entity *last)
{
    save_reached(c, pass);
    if (!pass->saves || pass->waits)
        return;
    pass->waits = true;
    pass->ticket = flow_ticket(pass->flight.copies);
    pass->partition_key = arena_copy(&pass->waiting, last->partition_key);
    pass->row_key = arena_copy(&pass->waiting, last->row_key);
}

/* The checkpoint's place outlives the pass. */
static void places_done(struct copier *c, struct pass *pass)
{
    c->at.partition_key = arena_copy(&c->arena, c->at.partition_key);
    c->at.row_key = arena_copy(&c->arena, c->at.row_key);
    arena_done(&pass->waiting);
    arena_done(&pass->saved);
}

/* ---- one source ---- */

/* Of a mend: those that lie where the sides do not agree. */
static void choose(struct copier *c, const struct entity *source,
    const struct entity *copies, bool wanted[])
{
    for (size_t i = 0; i < c->rules->target_count; i++) {
        size_t table = c->table_of[i];

        wanted[i] =
            !c->tally || !tally_agrees_at(c->tally, table,
                             copies[i].partition_key, copies[i].row_key);
        if (c->tally && wanted[i])
            copier_stands_add(
                c, table, &copies[i], source->partition_key, source->row_key);
    }
}

static enum tw_err copy_one(struct copier *c, struct pass *pass,
    const struct entity *source, struct arena *scratch, struct err *err)
{
    struct entity copies[COPYING_MAX_TARGETS];
    bool wanted[COPYING_MAX_TARGETS];
    const struct copier_sending sending = {
        .source = source, .copies = copies, .wanted = wanted};
    struct err why;

    if (!copier_is_source(c, source, scratch))
        return TW_OK;
    if (!copier_make(c, source, scratch, copies, &why)) {
        copier_tell_failed(c, source, why.text);
        return TW_OK;
    }
    choose(c, source, copies, wanted);
    return copier_flight_add(&pass->flight, &sending, scratch, err);
}

static enum tw_err copy_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    struct pass *pass = context;
    struct copier_flight *flight = &pass->flight;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        if (i > 0 && sorter_is_full(flight->sorter)) {
            outcome = copier_again_load(flight, err);
            if (outcome == TW_OK)
                reached(c, pass, &page->entities[i - 1]);
        }
        if (outcome == TW_OK)
            outcome = copy_one(c, pass, &page->entities[i], scratch, err);
        arena_clear(scratch);
    }
    if (outcome == TW_OK)
        outcome = copier_again_some(flight, err);
    save_reached(c, pass);
    return outcome;
}

/* ---- the pass ---- */

/* What somebody has deleted at its source does not stay at its destination
 * because the run is to stop just now. */
static void settle_early(struct copier *c, struct pass *pass)
{
    struct err err;

    copier_flight_settle(&pass->flight);
    if (pass->flight.orphans.count > 0 &&
        copier_again_orphans(&pass->flight, &err) != TW_OK)
        log_warn(run_object(c->run),
            "copies of entities that are deleted by now may stay: %s",
            err.text);
    save_reached(c, pass);
}

enum tw_err copier_pass_run(struct copier *c, struct err *err)
{
    struct pass pass = {.saves = !c->tally && c->store->traits.ordered};
    const struct copier_reader reader = {copy_page, &pass};
    bool resumed = c->at.in_pass;
    enum tw_err outcome;

    arena_init(&pass.waiting);
    arena_init(&pass.saved);
    c->wrote |= resumed;
    copier_flight_begin(&pass.flight, c);
    outcome = copier_scan_sources(c, resumed, &reader, err);
    if (outcome == TW_OK)
        outcome = copier_again_all(&pass.flight, err);
    if (outcome != TW_OK)
        settle_early(c, &pass);
    copier_flight_end(&pass.flight, outcome);
    places_done(c, &pass);
    if (outcome == TW_OK)
        c->at.in_pass = false;
    return outcome;
}
