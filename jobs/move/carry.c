/* SPDX-License-Identifier: MIT */
/* The steps of a load. */
#include "jobs/move/carry.h"

#include <strings.h>

#include "jobs/engine/batch_writer.h"
#include "jobs/engine/call.h"
#include "jobs/engine/probe.h"
#include "jobs/index_row.h"
#include "jobs/job.h"
#include "jobs/move/repair.h"
#include "worker/base/text.h"
#include "worker/store/request_pool.h"
#include "worker/store/store.h"

/* Maximum number of batches of one load in flight. */
#define BATCHES_IN_FLIGHT 16

/* Maximum difference between the clocks of the servers of one service. */
#define CLOCK_MARGIN_TICKS (5 * TICKS_PER_S)

/* ---- sources and copies ---- */

bool carry_selects(const struct mover *m, const struct entity *entity)
{
    return selection_matches(&m->selection, entity) &&
           !is_index_row(entity, m->ends.tables[PAIR_SOURCE]);
}

enum tw_err carry_make(const struct mover *m, const struct entity *source,
    struct arena *arena, struct entity *ret, struct err *err)
{
    return copying_make(
        &m->rules->to, &m->run->args, source, slice_of(""), arena, ret, err);
}

void carry_complain(struct mover *m, const struct keys *keys, struct slice etag,
    const char *why)
{
    if (m->rounds.stage < ROUNDS_LAST)
        return;
    mover_know(m, keys, etag);
    m->run->callbacks->failed(
        m->run, &(struct run_failure){.table = m->ends.tables[PAIR_SOURCE],
                    .partition_key = keys->partition_key,
                    .row_key = keys->row_key,
                    .step = "move",
                    .why = why});
}

/* ---- the destination ---- */

/* A request for keys that no entity has. Its response has the service's clock
 * and shows whether the table exists. */
struct clock_task {
    struct pool_request task; /* must be the first member: send_clock() casts a
                                 pointer to it to clock_task */
    const char *table;
    struct page page;
};

static enum tw_err send_clock(
    struct pool_request *task, struct exchange *exchange)
{
    struct clock_task *clock = (struct clock_task *)task;
    const struct scan_request request = {.table = clock->table,
        .partition_key = key_range_exact(slice_of("!")),
        .row_key = key_range_exact(slice_of("!")),
        .top = 1};

    return store_scan(task->store, exchange, &request, &clock->page);
}

static enum tw_err read_clock(
    struct mover *m, int64_t *ret_ticks, struct err *err)
{
    struct clock_task clock = {.task = {.send = send_clock,
                                   .repeatable = true,
                                   .store = m->ends.stores[PAIR_COPY],
                                   .bytes = 4096},
        .table = m->ends.tables[PAIR_COPY]};
    enum tw_err outcome;

    page_init(&clock.page);
    outcome = request_pool_call(m->run->pool_client, &clock.task);
    page_done(&clock.page);
    *ret_ticks = clock.task.last.date_ticks;
    if (outcome == TW_OK && *ret_ticks == 0)
        outcome = TW_BUSY;
    return outcome == TW_OK ? TW_OK
                            : err_fail(err, outcome, "table %s: %s",
                                  clock.table, clock.task.last.err.text);
}

/* Reads the clock of the destination's service. Creates the destination table
 * if missing. */
static enum tw_err open_destination(
    struct mover *m, int64_t *ret_ticks, struct err *err)
{
    enum tw_err outcome = read_clock(m, ret_ticks, err);

    if (outcome != TW_NOT_FOUND)
        return outcome;
    outcome = call_create_table(m->run->pool_client, m->ends.stores[PAIR_COPY],
        m->ends.tables[PAIR_COPY], err);
    return outcome == TW_OK ? read_clock(m, ret_ticks, err) : outcome;
}

/* Fails if source and destination are the same table, under two store names of
 * the configuration, and a destination key may also be a selected key. */
static enum tw_err check_location(struct mover *m, struct err *err)
{
    struct store *source = m->ends.stores[PAIR_SOURCE],
                 *copy = m->ends.stores[PAIR_COPY];
    bool same = false;
    enum tw_err outcome = TW_OK;

    if (m->prepared || m->rules->disjoint ||
        strcasecmp(m->ends.tables[PAIR_SOURCE], m->ends.tables[PAIR_COPY]) != 0)
        return TW_OK;
    outcome = probe_same(m->run, source, copy, &same, err);
    if (outcome == TW_OK && same)
        return err_fail(err, TW_INVALID, "stores %s and %s are one account: %s",
            source->name, copy->name, m->rules->overlap);
    m->prepared = outcome == TW_OK;
    return outcome;
}

/* ---- inserts ---- */

bool carry_is_recent(const struct intent *intent, const struct found *found)
{
    return found->ticks > 0 &&
           found->ticks + CLOCK_MARGIN_TICKS >= intent->since_ticks;
}

/* The callback decide() of the batch writer: stores the current entity in the
 * pair. Then the callback completed() decides the state of the pair, because
 * only completed() knows whether an outcome was unknown. */
static enum write_decision keep_found(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    (void)sent, (void)arena, (void)ret, (void)err;
    found_set(context, now);
    return WRITE_NO_OP;
}

/* Returns the load in progress to which a pair belongs. */
static struct carried *carried_of(const struct pair *pair)
{
    struct mover *m = pair->mover;
    const struct load *first = &m->carried[0].load;

    return pair >= first->pairs && pair < first->pairs + LOAD_MAX_PAIRS
               ? &m->carried[0]
               : &m->carried[1];
}

static bool is_accepted(const struct pair *pair, const struct intent *intent)
{
    const struct found *found = &pair->found;

    if (!found->equal || strcmp(found->etag, pair->etags[PAIR_SOURCE]) == 0)
        return false; /* the read found another entity, or the source itself
                         (rule M2) */
    if (pair->indeterminate && carry_is_recent(intent, found) &&
        !mover_has_filled(pair->mover, &pair->keys[PAIR_COPY]))
        return true;
    return pair->mover->rules->on_conflict == MOVE_ACCEPT_EQUAL;
}

static void complete_found(struct pair *pair)
{
    if (is_accepted(pair, &carried_of(pair)->intent)) {
        pair_set_state(pair, PAIR_COPIED);
        memcpy(pair->etags[PAIR_COPY], pair->found.etag, ETAG_MAX);
        pair->indeterminate = true; /* it is not certain that the run inserted
                                       the copy (rule M9) */
        mover_fill(pair->mover, &pair->keys[PAIR_COPY]);
        return;
    }
    pair_set_state(pair, PAIR_LEFT);
    pair->conflict = true;
    if (pair->indeterminate)
        pair->why = "an entity is at the destination, and it is unknown "
                    "whether this run inserted it: the source and that entity "
                    "stay";
}

static void complete_insert(
    void *context, const struct batch_writer_completed *how)
{
    struct pair *pair = context;

    if (how->indeterminate) {
        pair->indeterminate = true; /* never reset: rule M4 */
        late_note(&pair->mover->late, pair->mover->ends.stores[PAIR_COPY]);
    }
    switch (how->end) {
    case WRITTEN:
        pair_set_state(pair, PAIR_COPIED);
        etag_copy(pair->etags[PAIR_COPY], how->etag);
        mover_fill(pair->mover, &pair->keys[PAIR_COPY]);
        break;
    case WRITE_WAS_NO_OP:
        complete_found(pair);
        break;
    case WRITE_FAILED: /* the batch writer has reported the failure */
    case WRITE_OF_ABSENT:
    case WRITE_WAS_SKIPPED:
        pair_set_state(pair, PAIR_LEFT);
        mover_know(pair->mover, &pair->keys[PAIR_SOURCE], slice_of(""));
        pair->mover->named++;
        break;
    }
}

static enum tw_err insert_copies(
    struct mover *m, struct carried *carried, struct err *err)
{
    struct load *load = &carried->load;
    struct batch_writer *batch_writer =
        batch_writer_new(m->run, BATCHES_IN_FLIGHT);
    size_t count = move_load_sort(load, PAIR_READ, PAIR_COPY);
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        const struct batch_item item = {
            .store = carried->ends.stores[PAIR_COPY],
            .table = carried->ends.tables[PAIR_COPY],
            .operation = {OPERATION_INSERT, *load->order[i]->copy},
            .decide = keep_found,
            .context = load->order[i],
            .completed = complete_insert};

        outcome = batch_writer_add(batch_writer, &item, err);
    }
    move_load_drop_bodies(load);
    if (outcome == TW_OK)
        outcome = batch_writer_drain(batch_writer, err);
    batch_writer_free(batch_writer);
    return outcome;
}

/* ---- conflicts ---- */

static void report_conflicts(struct mover *m, struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        struct pair *pair = &load->pairs[i];
        const struct keys *keys = &pair->keys[PAIR_COPY];
        struct buf why;

        if (!pair->conflict || pair->why)
            continue;
        if (m->rules->on_conflict == MOVE_SKIP) {
            if (m->rounds.stage >= ROUNDS_LAST) {
                mover_know(m, &pair->keys[PAIR_SOURCE],
                    slice_of(pair->etags[PAIR_SOURCE]));
                atomic_fetch_add(&m->run->counts.skipped, 1);
            }
            continue;
        }
        buf_init(&why, 8192);
        buf_add_format(&why, "%s is at ",
            pair->found.equal ? "an equal entity" : "another entity");
        entity_add_keys(&why, keys->partition_key, keys->row_key);
        buf_add_format(
            &why, " in %s: the source stays", m->ends.tables[PAIR_COPY]);
        carry_complain(m, &pair->keys[PAIR_SOURCE],
            slice_of(pair->etags[PAIR_SOURCE]), buf_text(&why));
        buf_done(&why);
    }
}

/* ---- reading back ---- */

static void judge_copy(struct pair *pair)
{
    const struct found *found = &pair->found;

    if (found->there && found->equal &&
        strcmp(found->etag, pair->etags[PAIR_COPY]) == 0)
        return;
    pair_set_state(pair, PAIR_LEFT);
    if (!found->there)
        pair->why = "its copy was deleted by others before it was read back: "
                    "the source stays";
    else if (strcmp(found->etag, pair->etags[PAIR_COPY]) == 0)
        pair->why = "the copy that the service returns differs from what was "
                    "sent: source and copy stay";
    else
        pair->why = "its copy was changed by others before it was read back: "
                    "source and copy stay";
}

static enum tw_err read_back(
    struct mover *m, struct carried *carried, struct err *err)
{
    struct load *load = &carried->load;
    size_t count = move_load_sort(load, PAIR_COPIED, PAIR_COPY);
    enum tw_err outcome = move_load_read(load, count, PAIR_COPY, m->run,
        carried->ends.stores[PAIR_COPY], carried->ends.tables[PAIR_COPY], err);

    for (size_t i = 0; i < count && outcome == TW_OK; i++)
        judge_copy(load->order[i]);
    return outcome;
}

/* ---- deletes ---- */

static void complete_delete(
    void *context, const struct batch_writer_completed *how)
{
    struct pair *pair = context;

    pair->delete_indeterminate |= how->indeterminate; /* never reset: rule M4 */
    switch (how->end) {
    case WRITTEN:
        pair_set_state(pair, PAIR_DONE);
        break;
    case WRITE_OF_ABSENT:
        pair_set_state(
            pair, pair->delete_indeterminate ? PAIR_DONE : PAIR_ABSENT);
        break;
    case WRITE_WAS_NO_OP:
        pair_set_state(pair, PAIR_CHANGED);
        break;
    case WRITE_FAILED: /* the batch writer has reported the failure */
    case WRITE_WAS_SKIPPED:
        pair_set_state(pair, PAIR_LEFT);
        pair->mover->named++;
        break;
    }
}

static enum tw_err send_deletes(
    struct mover *m, struct carried *carried, struct err *err)
{
    struct load *load = &carried->load;
    size_t count = move_load_sort(load, PAIR_COPIED, PAIR_SOURCE);
    enum tw_err outcome = TW_OK;

    carried->deletes = batch_writer_new(m->run, BATCHES_IN_FLIGHT);
    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        struct pair *pair = load->order[i];
        const struct keys *keys = &pair->keys[PAIR_SOURCE];
        const struct batch_item item = {
            .store = carried->ends.stores[PAIR_SOURCE],
            .table = carried->ends.tables[PAIR_SOURCE],
            .operation = {OPERATION_DELETE,
                {.partition_key = keys->partition_key,
                    .row_key = keys->row_key,
                    .etag = slice_of(pair->etags[PAIR_SOURCE])}},
            .decide = keep_found,
            .context = pair,
            .completed = complete_delete};

        outcome = batch_writer_add(carried->deletes, &item, err);
    }
    return outcome == TW_OK ? batch_writer_seal(carried->deletes, err)
                            : outcome;
}

/* Stores the intent as `leaving` before the deletes, also after a takeover. If
 * another attempt has changed the intent, this write fails, and no source is
 * deleted (rule M3). */
enum tw_err carry_leave(
    struct mover *m, struct carried *carried, struct err *err)
{
    enum tw_err outcome;

    if (move_load_count(&carried->load, PAIR_COPIED) == 0)
        return TW_OK;
    outcome =
        intent_leave(&carried->intent, m->run, &m->late, &carried->load, err);
    return outcome == TW_OK ? send_deletes(m, carried, err) : outcome;
}

static enum tw_err complete_deletes(
    struct mover *m, struct carried *carried, struct err *err)
{
    struct load *load = &carried->load;
    enum tw_err outcome =
        carried->deletes ? batch_writer_drain(carried->deletes, err) : TW_OK;

    for (size_t i = 0; i < load->count && outcome == TW_OK; i++)
        if (load->pairs[i].state == PAIR_CHANGED ||
            load->pairs[i].state == PAIR_ABSENT)
            outcome = repair_pair(m, carried, &load->pairs[i], err);
    if (outcome == TW_OK)
        m->rounds.found += (int64_t)move_load_count(load, PAIR_DONE);
    return outcome;
}

enum tw_err carry_finish(struct mover *m, struct err *err)
{
    struct carried *carried = m->leaving;
    enum tw_err outcome;

    if (!carried)
        return TW_OK;
    outcome = complete_deletes(m, carried, err);
    if (outcome == TW_OK)
        outcome = mover_name_all(m, &carried->ends, &carried->load, err);
    if (outcome == TW_OK)
        outcome = intent_remove(&carried->intent, m->run, &m->late, err);
    if (outcome != TW_OK)
        return outcome;
    if (carried->open) {
        carried->open = false;
        m->run->load_open = m->carried[0].open || m->carried[1].open;
    }
    if (carried->done.partition_key.at)
        mover_save(m, &carried->done);
    m->leaving = NULL;
    carry_end(carried);
    return TW_OK;
}

void carry_end(struct carried *carried)
{
    batch_writer_free(carried->deletes);
    carried->deletes = NULL;
    carried->done = (struct keys){.row_key.len = 0};
    move_load_clear(&carried->load);
}

/* ---- the whole ---- */

static enum tw_err store_intent(
    struct mover *m, struct carried *carried, struct err *err)
{
    struct intent *intent = &carried->intent;
    enum tw_err outcome;

    *intent = (struct intent){.job = slice_of(m->run->job),
        .run = slice_of(m->run->id),
        .locations = {m->locations[PAIR_SOURCE], m->locations[PAIR_COPY]}};
    intent_name(intent, carried == &m->carried[1]);
    outcome = open_destination(m, &intent->since_ticks, err);
    if (outcome != TW_OK)
        return outcome;
    carried->open = m->run->load_open = true;
    return intent_store(intent, m->run, &m->late, &carried->load, err);
}

/* Makes the steps of a load up to reading back the copies. late_wait() ensures
 * that no insert can arrive after the copies were read back (rule A4). */
static enum tw_err copy_all(
    struct mover *m, struct carried *carried, struct err *err)
{
    enum tw_err outcome = check_location(m, err);

    if (outcome == TW_OK)
        outcome = store_intent(m, carried, err);
    if (outcome == TW_OK)
        outcome = insert_copies(m, carried, err);
    if (outcome == TW_OK)
        outcome = late_wait(&m->late, m->run, err);
    if (outcome == TW_OK)
        outcome = read_back(m, carried, err);
    if (outcome == TW_OK)
        report_conflicts(m, &carried->load);
    return outcome;
}

enum tw_err carry_begin(
    struct mover *m, struct carried *carried, struct err *err)
{
    enum tw_err outcome = copy_all(m, carried, err);

    if (outcome == TW_OK)
        outcome = carry_finish(m, err);
    if (outcome == TW_OK)
        outcome = carry_leave(m, carried, err);
    if (outcome == TW_OK)
        m->leaving = carried;
    return outcome;
}
