/* SPDX-License-Identifier: MIT */
/* Provenance is taken off: each copy is written once more, without it, with the
 * ETag that was read. */
#include "jobs/copier_strip.h"

#include "jobs/engine/flow.h"

struct strip {
    struct copier *c;
    struct flow *flow;
    const struct copier_table *table;
};

/* Changed in between: as it is now, if it still is one. */
static enum flow_verdict decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    const struct strip *s = context;
    struct copier *c = s->c;
    struct provenance provenance;

    (void)sent;
    (void)err;
    if (!now || !copier_reads_ours(c, s->table, now, arena, &provenance))
        return FLOW_KEEP;
    ret->type = OPERATION_REPLACE;
    ret->entity = entity_without(now, c->rules->provenance, arena);
    return FLOW_SEND;
}

static enum tw_err strip_one(struct strip *s, const struct entity *copy,
    struct arena *scratch, struct err *err)
{
    const struct flow_item item = {
        .store = s->table->store,
        .table = s->table->place.table,
        .operation = {.type = OPERATION_REPLACE,
            .entity = entity_without(copy, s->c->rules->provenance, scratch)},
        .decide = decide,
        .context = s,
    };

    return flow_add(s->flow, &item, err);
}

static enum tw_err strip_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    struct strip *s = context;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        const struct entity *copy = &page->entities[i];
        struct provenance provenance;

        if (copier_reads_ours(c, s->table, copy, scratch, &provenance))
            outcome = strip_one(s, copy, scratch, err);
        arena_clear(scratch);
    }
    return outcome;
}

enum tw_err copier_strip_run(struct copier *c, struct err *err)
{
    struct strip s = {
        .c = c, .flow = flow_new(c->run, COPIER_BATCHES_IN_FLIGHT)};
    const struct copier_reader reader = {strip_page, &s};
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < c->table_count && outcome == TW_OK; i++) {
        s.table = &c->tables[i];
        outcome = copier_scan_table(c, s.table, &reader, err);
        if (outcome == TW_OK) /* before s.table is another one */
            outcome = flow_drain(s.flow, err);
    }
    flow_free(s.flow);
    return outcome;
}
