/* SPDX-License-Identifier: MIT */
/* What the parts of an attempt that copies share: reading, making, telling. */
#include "jobs/copier_work.h"

#include "jobs/engine/keys.h"
#include "jobs/engine/keyset.h"
#include "jobs/job.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/store/lanes.h"

/* How many of them Verification names. */
#define DIFFERENCES_MAX 10

/* ---- what is told ---- */

void copier_tell_failed(
    struct copier *c, const struct entity *source, const char *why)
{
    c->run->host->failed(
        c->run, &(struct run_failure){c->rules->from.table,
                    source->partition_key, source->row_key, NULL, why});
    copier_differs(c, c->rules->from.table, source->partition_key,
        source->row_key, "failed");
}

void copier_forget(struct copier *c)
{
    c->run->host->forget_failed(c->run, 0);
    atomic_store(&c->run->counts.skipped, 0);
    c->findings.surplus = c->findings.changed = c->findings.equal = 0;
    c->findings.equal_sum = (struct digest){0, 0};
    c->findings.count = 0;
    buf_clear(&c->findings.differences);
    c->wrote = false;
    c->changes_before = copier_changes(c);
}

int64_t copier_changes(const struct copier *c)
{
    return atomic_load(&c->run->counts.written) +
           atomic_load(&c->run->counts.deleted);
}

/* One that does not fit as a whole is left out. */
void copier_differs(struct copier *c, const char *table,
    struct slice partition_key, struct slice row_key, const char *is)
{
    struct buf *to = &c->findings.differences;
    size_t before = to->len;

    if (c->findings.count == DIFFERENCES_MAX)
        return;
    buf_add_format(
        to, "%s{\"table\":\"%s\",\"key\":", before > 0 ? "," : "", table);
    keys_write(to, partition_key, row_key);
    buf_add_format(to, ",\"is\":\"%s\"}", is);
    if (buf_keep(to, before, 0))
        c->findings.count++;
}

void copier_save(struct copier *c, bool progress)
{
    char *text = copier_checkpoint_write(&c->at);

    c->run->host->save(c->run, slice_of(text), progress);
    mem_free(text);
}

/* ---- reading ---- */

static enum tw_err read_page(struct copier *c, struct scan *scan,
    const struct copier_reader *reader, struct arena *scratch, bool *ret_more,
    struct err *err)
{
    const struct page *page;
    enum tw_err outcome = run_stopping(c->run)
                              ? err_fail(err, TW_STOPPED, "stopped")
                              : scan_next(scan, &page, err);

    *ret_more = outcome == TW_OK && page;
    if (!*ret_more)
        return outcome;
    atomic_fetch_add(&c->run->counts.read, (int64_t)page->count);
    outcome = reader->page(c, reader->context, page, scratch, err);
    arena_clear(scratch);
    return outcome;
}

enum tw_err copier_scan(struct copier *c, const struct scan_spec *spec,
    const struct copier_reader *reader, struct err *err)
{
    struct scan *scan = scan_open(c->run->lanes, spec);
    struct arena scratch;
    enum tw_err outcome;
    bool more;

    arena_init(&scratch);
    do
        outcome = read_page(c, scan, reader, &scratch, &more, err);
    while (outcome == TW_OK && more);
    scan_close(scan);
    arena_done(&scratch);
    return outcome;
}

static struct scan_spec spec_of_sources(struct copier *c, struct arena *arena)
{
    struct scan_spec spec = {
        .store = c->store, .table = c->rules->from.table, .run = c->run};

    selection_spec_sure(&c->selection, arena, &spec);
    return spec;
}

enum tw_err copier_scan_sources(struct copier *c, bool resumed,
    const struct copier_reader *reader, struct err *err)
{
    struct scan_spec spec;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    spec = spec_of_sources(c, &arena);
    if (resumed) {
        spec.resumed = true;
        spec.after_partition_key = c->at.partition_key;
        spec.after_row_key = c->at.row_key;
    }
    outcome = copier_scan(c, &spec, reader, err);
    arena_done(&arena);
    return outcome;
}

enum tw_err copier_scan_places(
    struct copier *c, const struct copier_reader *reader, struct err *err)
{
    struct scan_spec spec;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    spec = spec_of_sources(c, &arena);
    spec.filter = slice_of("");
    outcome = copier_scan(c, &spec, reader, err);
    arena_done(&arena);
    return outcome;
}

enum tw_err copier_scan_table(struct copier *c,
    const struct copier_table *table, const struct copier_reader *reader,
    struct err *err)
{
    struct scan_spec spec = {
        .store = table->store, .table = table->place.table, .run = c->run};

    if (table->has_partition)
        spec.partition_key = key_range_exact(table->partition_key);
    return copier_scan(c, &spec, reader, err);
}

struct get {
    struct lanes_task task; /* first: the lanes hand it back */
    const char *table;
    struct copier_read *read;
    struct page *page;
};

static enum tw_err attempt_get(struct lanes_task *task, struct attempt *attempt)
{
    struct get *get = (struct get *)task;

    return store_get(task->store, attempt, get->table, get->read->partition_key,
        get->read->row_key, get->page);
}

/* Within one table a copy may take the keys of a source that was moved before.
 * What was there is gone then, as where nothing stands. */
static bool has_taken_keys(
    struct copier *c, const struct entity *entity, struct arena *arena)
{
    const struct copier_table home = {.at_home = true};
    struct provenance provenance;

    return c->rules->move &&
           copier_reads_ours(c, &home, entity, arena, &provenance);
}

/* What came of one; it is waited for whatever the others' outcome was. */
static enum tw_err take(struct copier *c, struct get *get, struct err *err)
{
    struct page *page = get->page;

    lanes_wait(c->run->lanes, &get->task);
    get->read->source = NULL;
    get->read->gone = get->task.outcome == TW_NOT_FOUND;
    if (get->read->gone)
        return TW_OK;
    if (get->task.outcome != TW_OK)
        return err_fail(err, get->task.outcome, "table %s: %s", get->table,
            get->task.last.err.text);
    atomic_fetch_add(&c->run->counts.read, 1);
    if (copier_is_source(c, &page->entities[0], &page->arena))
        get->read->source = &page->entities[0];
    else
        get->read->gone = has_taken_keys(c, &page->entities[0], &page->arena);
    return TW_OK;
}

enum tw_err copier_read_sources(struct copier *c, struct copier_read *reads,
    size_t count, struct page *pages, struct err *err)
{
    struct get *gets = mem_array(COPIER_READS_MAX, sizeof(*gets));
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count; i++) {
        gets[i] = (struct get){
            .task = {.attempt = attempt_get,
                .repeatable = true,
                .store = c->store,
                .bytes = ENTITY_MAX_BYTES},
            .table = c->rules->from.table,
            .read = &reads[i],
            .page = &pages[i],
        };
        lanes_submit(c->run->lanes, &gets[i].task);
    }
    for (size_t i = 0; i < count; i++) {
        enum tw_err taken = take(c, &gets[i], err);

        if (outcome == TW_OK)
            outcome = taken;
    }
    mem_free(gets);
    return outcome;
}

/* ---- sources and copies ---- */

bool copier_is_source(
    struct copier *c, const struct entity *entity, struct arena *arena)
{
    struct provenance provenance;

    if (!selection_matches(&c->selection, entity))
        return false;
    return !c->rules->sources_lack_provenance ||
           !provenance_read(entity, c->rules->provenance, arena, &provenance);
}

static bool same_keys(const struct entity *a, const struct entity *b)
{
    return slice_equal(a->partition_key, b->partition_key) &&
           slice_equal(a->row_key, b->row_key);
}

/* A copy that stands among the sources must not become one, nor take the place
 * of its own. */
static bool may_stand_there(struct copier *c, const struct entity *source,
    const struct copying_target *target, const struct entity *copy,
    struct err *err)
{
    struct entity stored = *copy;
    char now[TEXT_TIME_MAX];

    if (!place_same(&target->place, &c->rules->from))
        return true;
    /* The service gives it a Timestamp, which the filter may ask for. */
    stored.timestamp = slice_of(text_from_ticks(world_wall_ticks(), now));
    if (same_keys(source, copy)) {
        err_fail(err, TW_INVALID, "its copy would have its own keys");
        return false;
    }
    if (c->rules->sources_lack_provenance ||
        !selection_matches(&c->selection, &stored))
        return true;
    err_fail(err, TW_INVALID,
        "its copy would be among the entities that are to be copied, and be "
        "copied again");
    return false;
}

/* Two copies of one source at the same place would take turns. */
static bool is_alone(
    struct copier *c, const struct entity *copies, size_t i, struct err *err)
{
    for (size_t j = 0; j < i; j++)
        if (c->table_of[j] == c->table_of[i] &&
            same_keys(&copies[j], &copies[i])) {
            err_fail(
                err, TW_INVALID, "two of its copies would have the same keys");
            return false;
        }
    return true;
}

bool copier_make(struct copier *c, const struct entity *source,
    struct arena *arena, struct entity *copies, struct err *err)
{
    const struct copier_rules *rules = c->rules;

    for (size_t i = 0; i < rules->target_count; i++) {
        const struct copying_target *target = &rules->targets[i];

        if (copying_make(target, &c->run->args, source, rules->provenance,
                arena, &copies[i], err) != TW_OK ||
            !may_stand_there(c, source, target, &copies[i], err) ||
            !is_alone(c, copies, i, err))
            return false;
    }
    return true;
}

/* Could a run with these arguments be meant by it? What the filter says cannot
 * be told of keys alone. */
static bool keys_match(struct copier *c, const struct provenance *provenance)
{
    const struct entity source = {.partition_key = provenance->partition_key,
        .row_key = provenance->row_key};
    struct selection keys = c->selection;

    keys.filter = NULL;
    return selection_matches(&keys, &source);
}

struct provenance copier_provenance(
    const struct copier *c, const struct copier_table *table)
{
    const char *identity = c->store->traits.identity;

    return (struct provenance){
        .store = slice_of(c->store->name),
        .identity = slice_of(identity ? identity : ""),
        .table = slice_of(c->rules->from.table),
        .job = slice_of(c->run->job),
        .run = slice_of(c->run->id),
        .moved = c->rules->move,
        .at_home = table->at_home,
    };
}

bool copier_reads_ours(struct copier *c, const struct copier_table *table,
    const struct entity *entity, struct arena *arena, struct provenance *ret)
{
    const struct provenance wanted = copier_provenance(c, table);

    return provenance_read(entity, c->rules->provenance, arena, ret) &&
           (!ret->moved || c->rules->move) &&
           provenance_is_from(ret, &wanted) && keys_match(c, ret);
}

bool copier_is_mine(struct copier *c, const struct provenance *provenance,
    const struct entity *copy)
{
    return slice_is(provenance->run, c->run->id) &&
           provenance->moved == c->rules->move &&
           provenance_is_intact(provenance, copy, c->rules->provenance);
}

/* ---- copies that there should be ---- */

/* A set knows two texts: of the copy, and of its source. */
static struct slice both_keys(
    struct slice partition_key, struct slice row_key, struct arena *arena)
{
    return arena_format(arena, "%zu:%.*s%.*s", partition_key.len,
        SLICE_ARG(partition_key), SLICE_ARG(row_key));
}

void copier_stands_add(struct copier *c, size_t table,
    const struct entity *copy, struct slice partition_key, struct slice row_key)
{
    struct arena arena;

    arena_init(&arena);
    keyset_add(c->stands, table,
        both_keys(copy->partition_key, copy->row_key, &arena),
        both_keys(partition_key, row_key, &arena));
    arena_done(&arena);
}

bool copier_stands_has(struct copier *c, size_t table,
    const struct entity *copy, struct slice partition_key, struct slice row_key)
{
    struct arena arena;
    bool has;

    arena_init(&arena);
    has = keyset_has(c->stands, table,
        both_keys(copy->partition_key, copy->row_key, &arena),
        both_keys(partition_key, row_key, &arena));
    arena_done(&arena);
    return has;
}
