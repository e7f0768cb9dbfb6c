/* SPDX-License-Identifier: MIT */
/*
 * move: moves the selected entities of a table to other keys, another table or
 * another account.
 *
 * An attempt first takes over the intents of interrupted moves of its tables
 * (takeover.h). Then the attempt reads the selected entities in rounds
 * (jobs/engine/rounds.h) and moves them in loads of up to 1,000 (carry.h). The
 * scan, the intent and the copies of a load overlap the deletes of the previous
 * load.
 *
 * A source is deleted only after its copy was read back at another location.
 * The copy must be the run's own (rule M2) or accepted (rule M9). If the right
 * result cannot be determined, both entities remain and are reported.
 * jobs/GUIDE.md has the rules M1 to M10.
 *
 * If a source is not moved, because of a conflict or because its copy cannot be
 * made, each round finds the source again, and only the last round reports it.
 * An entity that no later round can find is reported at once, and the
 * checkpoint counts it.
 */
#include "jobs/move/move.h"

#include <strings.h>

#include "jobs/engine/scan.h"
#include "jobs/move/carry.h"
#include "jobs/move/count.h"
#include "jobs/move/mover.h"
#include "jobs/move/takeover.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/request_pool.h"
#include "worker/store/store.h"

/* ---- the configuration ---- */

static void *move_load(const struct yaml_node *node, struct job_loader *loader)
{
    return move_rules_load(node, loader);
}

static void move_explain(const struct job *job, struct buf *to)
{
    move_rules_explain(job->settings, to);
}

static void move_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct move_rules *rules = job->settings;

    each(ctx, rules->from.store, rules->from.table, JOB_WRITES);
    each(ctx, rules->to.table_ref.store, rules->to.table_ref.table, JOB_MAKES);
}

static enum tw_err move_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct move_rules *rules = job->settings;

    return selector_accept(&rules->selector, args, err);
}

/* ---- gathering a load ---- */

static bool is_same(const struct keys *a, const struct keys *b)
{
    return slice_equal(a->partition_key, b->partition_key) &&
           slice_equal(a->row_key, b->row_key);
}

/* Looks for a pair with the keys of copy in the load that is being filled, and
 * in the load whose deletes are in flight. NULL: neither has such a pair. */
static struct pair *find_pair(const struct mover *m, const struct entity *copy)
{
    struct pair *pair =
        move_load_find(&m->gathering->load, copy->partition_key, copy->row_key);

    if (!pair && m->leaving)
        pair = move_load_find(
            &m->leaving->load, copy->partition_key, copy->row_key);
    return pair;
}

/* Reports the second of two sources with one destination key. The second source
 * is not moved (rule M1). */
static void name_second(struct mover *m, const struct keys *source,
    const struct entity *copy, const struct pair *first)
{
    const struct keys *keys = &first->keys[PAIR_SOURCE];
    struct pair pair = {
        .keys = {*source, {copy->partition_key, copy->row_key}}};
    struct buf why;

    if (is_same(source, keys)) /* the scan returned one source twice */
        return;
    buf_init(&why, 8192);
    buf_add_text(&why, "another source, ");
    entity_add_keys(&why, keys->partition_key, keys->row_key);
    buf_add_text(&why, ", has the same destination keys: this source stays");
    pair.why = buf_text(&why);
    mover_name(m, &m->ends, &pair);
    buf_done(&why);
}

static void gather_copy(struct mover *m, const struct entity *source,
    const struct keys *keys, const struct entity *made)
{
    struct load *load = &m->gathering->load;
    const struct keys target = {made->partition_key, made->row_key};
    const struct pair *first = find_pair(m, made);
    struct entity *copy;
    struct pair *pair;

    if (first) {
        name_second(m, keys, made, first);
        return;
    }
    copy = arena_alloc(&load->bodies, sizeof(*copy));
    entity_copy(copy, &load->bodies, made);
    pair = move_load_add(load, keys, source->etag, &target, copy);
    pair->mover = m;
}

static void gather_entity(struct mover *m, const struct entity *source)
{
    const struct keys keys = {source->partition_key, source->row_key};
    struct arena scratch;
    struct entity made;
    struct err why;

    if (!carry_selects(m, source) || mover_knows(m, &keys, slice_of("")))
        return;
    arena_init(&scratch);
    if (carry_make(m, source, &scratch, &made, &why) == TW_OK)
        gather_copy(m, source, &keys, &made);
    else
        carry_complain(m, &keys, source->etag, why.text);
    arena_done(&scratch);
}

/* Moves the gathered load. done is the last source that was read; every source
 * up to it is in this load or in an earlier one. If done is NULL, the round has
 * read all sources. */
static enum tw_err move_gathered(
    struct mover *m, const struct entity *done, struct err *err)
{
    struct carried *carried = m->gathering;
    struct arena *arena = &carried->load.arena;
    enum tw_err outcome;

    if (done) {
        carried->done.partition_key = arena_copy(arena, done->partition_key);
        carried->done.row_key = arena_copy(arena, done->row_key);
    }
    carried->ends = m->ends;
    m->run->in_load = true;
    outcome = carry_begin(m, carried, err);
    m->run->in_load = false;
    if (outcome == TW_OK)
        m->gathering = &m->carried[carried == &m->carried[0]];
    return outcome;
}

static enum tw_err gather_page(
    struct mover *m, const struct page *page, struct err *err)
{
    size_t limit = move_load_limit(pool_client_ceiling(m->run->pool_client));
    enum tw_err outcome = TW_OK;

    atomic_fetch_add(&m->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        gather_entity(m, &page->entities[i]);
        if (!move_load_is_full(&m->gathering->load, limit))
            continue;
        outcome = move_gathered(m, &page->entities[i], err);
        if (outcome == TW_OK && run_stopping(m->run))
            outcome = err_fail(err, TW_STOPPED, "stopped");
    }
    if (outcome == TW_OK && !m->leaving && m->gathering->load.count == 0) {
        const struct entity *last = &page->entities[page->count - 1];

        mover_save(m, &(struct keys){last->partition_key, last->row_key});
    }
    return outcome;
}

/* ---- rounds ---- */

/* Opens a scan of the sources written since since_ticks, or of all sources if
 * since_ticks is 0. */
static struct scan *open_scan(struct mover *m, int64_t since_ticks)
{
    struct scan_spec spec = {.store = m->ends.stores[PAIR_SOURCE],
        .table = m->ends.tables[PAIR_SOURCE],
        .run = m->run,
        .tells_share = since_ticks == 0 && m->rounds.number == 1};
    char since[TEXT_TIME_MAX];
    struct arena arena;
    struct scan *scan;

    arena_init(&arena);
    selection_spec(&m->selection, true, NULL, 0, &arena, &spec);
    /* The service allows 15 comparisons in a filter. So the Timestamp replaces
     * the job's own filter, which is applied here to the entities returned. */
    if (since_ticks > 0)
        spec.filter = arena_format(&arena, "Timestamp ge datetime'%s'",
            text_from_ticks(since_ticks, since));
    if (m->resumes) {
        spec.resumed = true;
        spec.after_partition_key = m->done.partition_key;
        spec.after_row_key = m->done.row_key;
    }
    scan = scan_open(m->run->pool_client, &spec);
    arena_done(&arena);
    return scan;
}

static enum tw_err read_pages(struct mover *m, struct scan *scan)
{
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = run_stopping(m->run) ? err_fail(m->err, TW_STOPPED, "stopped")
                                       : scan_next(scan, &page, m->err);
        if (outcome == TW_OK && page)
            outcome = gather_page(m, page, m->err);
    } while (outcome == TW_OK && page);
    if (outcome == TW_OK && m->gathering->load.count > 0)
        outcome = move_gathered(m, NULL, m->err);
    return outcome;
}

/* Makes one round. A stopping run finishes the load whose deletes are in
 * flight; the next attempt moves the sources that were only gathered (rule
 * M8). */
static enum tw_err read_round(struct mover *m)
{
    struct scan *scan =
        open_scan(m, m->rounds.full ? 0 : m->rounds.since_ticks);
    enum tw_err outcome = read_pages(m, scan);

    scan_close(scan);
    if (outcome == TW_OK || outcome == TW_STOPPED) {
        enum tw_err finished;

        m->run->in_load = true;
        finished = carry_finish(m, m->err);
        m->run->in_load = false;
        outcome = finished == TW_OK ? outcome : finished;
    }
    carry_end(&m->carried[0]);
    carry_end(&m->carried[1]);
    m->gathering = &m->carried[0];
    m->leaving = NULL;
    return outcome;
}

static int64_t count_newer(const struct mover *m, const struct page *page)
{
    int64_t count = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct entity *entity = &page->entities[i];
        const struct keys keys = {entity->partition_key, entity->row_key};

        count += carry_selects(m, entity) &&
                 !mover_knows(m, &keys, slice_of("")) &&
                 !mover_knows(m, &keys, entity->etag);
    }
    return count;
}

/* Counts sources that were written since the last round began and are not
 * reported (rule A2). */
static enum tw_err count_behind(struct mover *m, int64_t *ret)
{
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    *ret = 0;
    if (!rounds_counts_behind(&m->rounds))
        return TW_OK;
    mover_forget_position(m);
    scan = open_scan(m, rounds_margin(m->rounds.began_ticks));
    do {
        outcome = scan_next(scan, &page, m->err);
        if (outcome == TW_OK && page)
            *ret += count_newer(m, page);
    } while (outcome == TW_OK && page);
    scan_close(scan);
    return outcome;
}

static enum tw_err begin_round(struct mover *m)
{
    bool continues = m->rounds.under_way;
    enum tw_err outcome = rounds_begin(&m->rounds, m->run,
        m->ends.stores[PAIR_SOURCE], m->ends.tables[PAIR_SOURCE], m->err);

    if (outcome == TW_OK && !continues) {
        mover_forget_position(m);
        atomic_store(&m->run->counts.skipped, 0);
        mover_save(m, NULL);
    }
    return outcome;
}

static enum tw_err do_rounds(struct mover *m)
{
    enum rounds_next next = ROUNDS_AGAIN;

    while (next == ROUNDS_AGAIN) {
        int64_t behind = 0;
        enum tw_err outcome = begin_round(m);

        if (outcome == TW_OK)
            outcome = read_round(m);
        if (outcome == TW_OK)
            outcome = count_behind(m, &behind);
        if (outcome != TW_OK)
            return outcome;
        next = rounds_end(&m->rounds, m->run, behind);
        mover_forget_position(m);
        mover_save(m, NULL);
    }
    return TW_OK;
}

/* ---- an attempt ---- */

static void begin(struct mover *m)
{
    arena_init(&m->arena);
    mover_set_ends(m);
    m->known = mem_array((size_t)2 * KNOWN_MAX, sizeof(*m->known));
    m->filled = mem_array(FILLED_SLOTS, sizeof(*m->filled));
    m->gathering = &m->carried[0];
    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++)
        move_load_init(&m->carried[side].load);
    if (!mover_read_checkpoint(m))
        m->run->callbacks->forget_failed(m->run, 0);
}

static void end(struct mover *m)
{
    for (int i = 0; i < 2; i++) {
        carry_end(&m->carried[i]);
        move_load_done(&m->carried[i].load);
    }
    mover_forget_position(m);
    mem_free(m->known);
    mem_free(m->filled);
    arena_done(&m->arena);
}

/* Resets the checkpoint, so that the run reads everything again after `retry`.
 */
static enum run_end fail(struct mover *m)
{
    mover_forget(m);
    return RUN_FAILED;
}

static enum run_end end_of(struct mover *m, enum tw_err outcome)
{
    struct run_counts *counts = &m->run->counts;
    long long failed = (long long)atomic_load(&counts->failed);

    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID ||
        outcome == TW_TOO_LARGE)
        return fail(m);
    if (outcome != TW_OK) {
        mover_save(m, NULL); /* also saves that a request may arrive late */
        return run_end_of(m->run, outcome);
    }
    if (failed > 0) {
        err_fail(m->err, TW_INVALID,
            "%lld %s of %s could not be moved (the first are listed with the "
            "reason); all others were moved",
            failed, failed == 1 ? "entity" : "entities",
            m->ends.tables[PAIR_SOURCE]);
        return fail(m);
    }
    if (atomic_load(&counts->written) == 0 &&
        atomic_load(&counts->deleted) == 0 &&
        atomic_load(&counts->skipped) == 0)
        m->run->callbacks->note(m->run, "nothing was selected");
    return RUN_SUCCEEDED;
}

static enum run_end move_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    struct mover *m = mem_alloc(sizeof(*m));
    enum tw_err outcome;
    enum run_end ended;

    *m = (struct mover){
        .rules = job->settings, .stores = stores, .run = run, .err = err};
    begin(m);
    outcome = selection_of_run(
        &m->rules->selector, &run->args, &m->arena, &m->selection, err);
    if (outcome == TW_OK)
        outcome = takeover_all(m, err);
    if (outcome == TW_OK && run_stopping(run))
        outcome = err_fail(err, TW_STOPPED, "stopped");
    if (outcome == TW_OK)
        outcome = do_rounds(m);
    ended = end_of(m, outcome);
    end(m);
    mem_free(m);
    return ended;
}

static const struct settings_section *const SECTIONS[] = {
    &move_job_section,
    &move_from_section,
    &copying_target_section,
    &copying_properties_section,
    &copying_set_section,
    NULL,
};

const struct kind move_kind = {
    .name = "move",
    .summary = "moves entities to other keys, another table or another account",
    .destructive = true,
    .table_job = true,
    .ends_load = true,
    .open_load = intent_is_open,
    .sections = SECTIONS,
    .load = move_load,
    .explain = move_explain,
    .accept = move_accept,
    .tables = move_tables,
    .verify = move_verify,
    .estimate = move_estimate,
    .run = move_run,
};
