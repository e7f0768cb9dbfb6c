/* SPDX-License-Identifier: MIT */
/*
 * Copies are met in the order of their own keys, so their sources are read one
 * by one, several at once. Which copies are worth it is known before: of a
 * mend, those that their source has not just been seen to have there; of a
 * move, those whose source has just been seen to be there.
 */
#include "jobs/copier_sweep.h"

#include "jobs/engine/flow.h"
#include "jobs/engine/keyset.h"
#include "jobs/engine/run.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"

/* Of two keys, in a line of the log. */
#define KEYS_SHOWN_MAX_BYTES 1024

struct sweep {
    struct copier *c;
    struct flow *flow;
    size_t table;           /* of c->tables */
    struct keyset *sources; /* of a move: those that are there; else NULL */

    struct copier_read reads[COPIER_READS_MAX];
    struct page pages[COPIER_READS_MAX];
    const struct entity *copies[COPIER_READS_MAX]; /* they name these */
    struct provenance provenances[COPIER_READS_MAX];
    size_t count;
};

/* ---- which copies ---- */

static bool is_suspect(struct sweep *s, const struct entity *copy,
    struct arena *scratch, struct provenance *ret)
{
    struct copier *c = s->c;
    const struct copier_table *table = &c->tables[s->table];

    if (s->sources)
        return copier_reads_ours(c, table, copy, scratch, ret) &&
               keyset_has(s->sources, 0, ret->partition_key, ret->row_key) &&
               copier_is_mine(c, ret, copy);
    if (tally_agrees_at(c->tally, s->table, copy->partition_key, copy->row_key))
        return false;
    if (!copier_reads_ours(c, table, copy, scratch, ret))
        return false;
    return !keyset_is_sure(c->stands) || !copier_stands_has(c, s->table, copy,
                                             ret->partition_key, ret->row_key);
}

/* ---- what becomes of one ---- */

enum verdict { STAYS, GOES, IS_LEFT_OVER };

/* What was merged into something that was no copy cannot be told from what was
 * not: it stays. */
static bool may_go(struct sweep *s, size_t i)
{
    struct copier *c = s->c;

    if (c->rules->on_conflict == CONFLICT_MERGE)
        return false;
    return c->rules->prune == COPIER_PRUNE_ALL ||
           copier_is_mine(c, &s->provenances[i], s->copies[i]);
}

/* Is it the copy of source, as that is now? Where there can be none, that is
 * told elsewhere, and the former one stays. */
static bool stands_rightly(
    struct sweep *s, const struct entity *source, const struct entity *copy)
{
    struct entity copies[COPYING_MAX_TARGETS];
    struct copier *c = s->c;
    struct arena arena;
    struct err why;
    bool rightly;

    arena_init(&arena);
    rightly = !copier_make(c, source, &arena, copies, &why);
    for (size_t i = 0; i < c->rules->target_count && !rightly; i++)
        rightly = c->table_of[i] == s->table &&
                  slice_equal(copies[i].partition_key, copy->partition_key) &&
                  slice_equal(copies[i].row_key, copy->row_key);
    arena_done(&arena);
    return rightly;
}

/* One whose source is there, but not selected, may be that of a run with other
 * arguments. */
static bool may_be_of_others(struct sweep *s, size_t i)
{
    return s->c->run->args.count > 0 &&
           !slice_is(s->provenances[i].run, s->c->run->id);
}

/*
 * What a move has copied and has not moved goes, where it does not stand
 * rightly, or where the source may change before it is read next: the pass
 * that follows makes it anew. The source is there, so it is not all there is.
 */
static enum verdict judge_moved(struct sweep *s, size_t i)
{
    const struct copier_read *read = &s->reads[i];
    bool rightly = !read->gone && read->source &&
                   stands_rightly(s, read->source, s->copies[i]);

    if (read->gone)
        return STAYS;
    if (may_go(s, i) && (s->c->at.anew || !rightly))
        return GOES;
    return rightly ? STAYS : IS_LEFT_OVER;
}

static enum verdict judge(struct sweep *s, size_t i)
{
    const struct copier_read *read = &s->reads[i];

    if (s->sources)
        return judge_moved(s, i);
    if (read->source) {
        if (!s->sources && stands_rightly(s, read->source, s->copies[i]))
            return STAYS;
    } else if (!read->gone && may_be_of_others(s, i)) {
        return STAYS;
    }
    return may_go(s, i) ? GOES : IS_LEFT_OVER;
}

/* Changed in between: the next round looks at it anew. */
static enum flow_verdict decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    struct sweep *s = context;

    (void)sent;
    (void)now;
    (void)arena;
    (void)ret;
    (void)err;
    s->c->wrote = true;
    return FLOW_KEEP;
}

static enum tw_err remove_copy(
    struct sweep *s, const struct entity *copy, struct err *err)
{
    const struct copier_table *table = &s->c->tables[s->table];
    const struct flow_item item = {
        .store = table->store,
        .table = table->place.table,
        .operation = {.type = OPERATION_DELETE, .entity = *copy},
        .decide = decide,
        .context = s,
    };

    return flow_add(s->flow, &item, err);
}

/* Of a move, whose last round knows only how many there were. */
static void tell_left_over(struct sweep *s, const struct entity *copy)
{
    struct buf keys;

    buf_init(&keys, KEYS_SHOWN_MAX_BYTES);
    entity_add_keys(&keys, copy->partition_key, copy->row_key);
    log_warn(run_object(s->c->run),
        "%s of %s is a copy of what has other keys now, and stays: it may hold "
        "what others keep there",
        buf_text(&keys), s->c->tables[s->table].place.table);
    buf_done(&keys);
}

static enum tw_err settle(struct sweep *s, size_t i, struct err *err)
{
    struct copier *c = s->c;
    const struct entity *copy = s->copies[i];

    switch (judge(s, i)) {
    case STAYS:
        break;
    case GOES:
        return remove_copy(s, copy, err);
    case IS_LEFT_OVER:
        if (s->sources)
            tell_left_over(s, copy);
        c->findings.surplus++;
        copier_differs(c, c->tables[s->table].place.table, copy->partition_key,
            copy->row_key, "surplus");
        break;
    }
    return TW_OK;
}

static enum tw_err settle_all(struct sweep *s, struct err *err)
{
    enum tw_err outcome =
        copier_read_sources(s->c, s->reads, s->count, s->pages, err);

    for (size_t i = 0; i < s->count && outcome == TW_OK; i++)
        outcome = settle(s, i, err);
    s->count = 0;
    return outcome;
}

/* ---- the tables ---- */

static void note(struct sweep *s, const struct entity *copy,
    const struct provenance *provenance)
{
    s->copies[s->count] = copy;
    s->provenances[s->count] = *provenance;
    s->reads[s->count] =
        (struct copier_read){.partition_key = provenance->partition_key,
            .row_key = provenance->row_key};
    s->count++;
}

static enum tw_err sweep_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    struct sweep *s = context;
    enum tw_err outcome = TW_OK;

    (void)c;
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        struct provenance provenance;

        if (is_suspect(s, &page->entities[i], scratch, &provenance))
            note(s, &page->entities[i], &provenance);
        if (s->count == COPIER_READS_MAX || i + 1 == page->count)
            outcome = settle_all(s, err);
        if (s->count == 0)
            arena_clear(scratch);
    }
    return outcome;
}

static enum tw_err sweep_tables(struct sweep *s, struct err *err)
{
    const struct copier_reader reader = {sweep_page, s};
    struct copier *c = s->c;
    enum tw_err outcome = TW_OK;

    for (s->table = 0; s->table < c->table_count && outcome == TW_OK;
         s->table++) {
        outcome = copier_scan_table(c, &c->tables[s->table], &reader, err);
        if (outcome == TW_OK)
            outcome = flow_drain(s->flow, err);
    }
    return outcome;
}

static enum tw_err sweep(
    struct copier *c, struct keyset *sources, struct err *err)
{
    struct sweep *s = mem_alloc(sizeof(*s));
    enum tw_err outcome;

    s->c = c;
    s->sources = sources;
    s->flow = flow_new(c->run, COPIER_BATCHES_IN_FLIGHT);
    for (size_t i = 0; i < COPIER_READS_MAX; i++)
        page_init(&s->pages[i]);
    outcome = sweep_tables(s, err);
    flow_settle(s->flow);
    c->wrote |= flow_done(s->flow) > 0 || flow_unsure(s->flow);
    flow_free(s->flow);
    for (size_t i = 0; i < COPIER_READS_MAX; i++)
        page_done(&s->pages[i]);
    mem_free(s);
    return outcome;
}

enum tw_err copier_sweep_mend(struct copier *c, struct err *err)
{
    if (tally_count(c->tally, TALLY_OURS) == 0)
        return TW_OK;
    return sweep(c, NULL, err);
}

/* ---- of a move ---- */

static enum tw_err note_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    struct keyset *sources = context;

    (void)c;
    (void)scratch;
    (void)err;
    for (size_t i = 0; i < page->count; i++)
        keyset_add(sources, 0, page->entities[i].partition_key,
            page->entities[i].row_key);
    return TW_OK;
}

enum tw_err copier_sweep_moved(struct copier *c, struct err *err)
{
    struct keyset *sources = keyset_new();
    const struct copier_reader reader = {note_page, sources};
    enum tw_err outcome = copier_scan_places(c, &reader, err);

    if (outcome == TW_OK)
        outcome = sweep(c, sources, err);
    keyset_free(sources);
    return outcome;
}
