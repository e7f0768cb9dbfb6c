/* SPDX-License-Identifier: MIT */
/*
 * delete: deletes the entities of one table that a selection finds. These may
 * be index rows that a copy made.
 *
 * One scan over the selection deletes each entity with the ETag that was read.
 * An entity that changed meanwhile is read again, and deleted only if it is
 * still selected. An entity that is inserted at keys which the scan has already
 * passed is not deleted, because the run deletes only entities that existed
 * when the scan read their keys.
 *
 * The checkpoint, {"version":1,"done":["pk","rk"]}, has the keys up to which
 * all selected entities are deleted; the next attempt reads only entities after
 * these keys. The keys in the checkpoint are always before the keys of an
 * entity that could not be deleted, so the next attempt reads that entity again
 * and reports it.
 */
#include "jobs/delete/delete.h"

#include "config/settings.h"
#include "jobs/counting.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/checkpoint_queue.h"
#include "jobs/engine/keys.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/table_ref.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Maximum number of batches of one run in flight. */
#define BATCHES_IN_FLIGHT 16

#define CHECKPOINT_VERSION 1
#define CHECKPOINT_MAX_BYTES (30 * 1024)
#define CHECKPOINT_DEPTH 3

/* The configuration of a delete job. */
struct deletion {
    struct table_ref table_ref;
    struct selector selector; /* empty: every entity, as `all: true` requests */
};

/* ---- the configuration ---- */

/* The keys of the job; the caller has already read `kind` and `args`. */
struct job_map {
    struct yaml_node *kind, *args;
    struct slice store, table;
    struct selector_nodes nodes;
    bool all;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind),
        .help = "delete"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "the arguments of a run"},
    {"store", SETTING_TEXT, SETTING_FIELD(struct job_map, store),
        .help = "a name from `stores:`; default: the default store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct job_map, table),
        .required = true, .help = "the table"},
    SELECTOR_SETTINGS(struct job_map, nodes),
    {"all", SETTING_BOOL, SETTING_FIELD(struct job_map, all),
        .fallback = "false", .help = "true: select every entity of the table"},
};

const struct settings_section delete_job_section =
    SETTINGS_SECTION("a delete job", JOB_KEYS);

/* Check that the job has either a selection or `all: true`. Without this check,
 * a job whose selection was forgotten would delete the whole table. False: a
 * problem was added. */
static bool check_selection(const struct yaml_node *node,
    const struct job_map *map, const struct selector *selector,
    struct problems *problems)
{
    bool is_empty = selector_is_empty(selector);

    if (is_empty && !map->all)
        problems_add(problems, node->mark,
            "this job would delete every entity of its table: restrict it by "
            "partition_key, row_key, a prefix, a range or a filter, or write "
            "`all: true`");
    if (!is_empty && map->all)
        problems_add(problems, table_ref_mark(node, "all"),
            "`all: true` contradicts the other selection of this job: remove "
            "one of the two");
    return is_empty == map->all;
}

static void *delete_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    const struct template_scope scope = {
        .args = loader->args, .arg_count = loader->arg_count};
    struct deletion *deletion = arena_alloc(loader->arena, sizeof(*deletion));
    struct job_map map = {.table.len = 0};
    bool good = settings_load(node, "a delete job", JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    if (map.table.at)
        good = table_ref_load(
                   node, map.store, map.table, loader, &deletion->table_ref) &&
               good;
    good = selector_load(&map.nodes, &scope, loader->arena, &deletion->selector,
               &loader->unset, loader->problems) &&
           good;
    good = good &&
           check_selection(node, &map, &deletion->selector, loader->problems);
    return good ? deletion : NULL;
}

static void delete_explain(const struct job *job, struct buf *to)
{
    const struct deletion *deletion = job->settings;

    buf_add_format(to, "delete %s%s%s",
        selector_is_empty(&deletion->selector) ? "every entity of " : "from ",
        deletion->table_ref.table,
        selector_is_empty(&deletion->selector) ? "" : " where ");
    selector_explain(&deletion->selector, to);
    buf_add_text(to,
        "; an entity that changes after it is read is deleted only if it "
        "is still selected\n");
}

static void delete_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct deletion *deletion = job->settings;

    each(ctx, deletion->table_ref.store, deletion->table_ref.table, JOB_WRITES);
}

static enum tw_err delete_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct deletion *deletion = job->settings;

    return selector_accept(&deletion->selector, args, err);
}

/* ---- reading ---- */

/* Scan the selection, and read only the properties that its filter needs.
 * after: resume after this entity; NULL: begin with the first key. */
static struct scan *open_scan(const struct deletion *deletion,
    const struct selection *selection, struct store *store,
    const struct entity *after, bool tells_share, struct run *run)
{
    struct scan_spec spec = {.store = store,
        .table = deletion->table_ref.table,
        .run = run,
        .tells_share = tells_share};
    struct arena arena;
    struct scan *scan;

    arena_init(&arena);
    selection_spec(selection, false, NULL, 0, &arena, &spec);
    if (after) {
        spec.resumed = true;
        spec.after_partition_key = after->partition_key;
        spec.after_row_key = after->row_key;
    }
    scan = scan_open(run->pool_client, &spec);
    arena_done(&arena);
    return scan;
}

/* ---- the estimate ---- */

static enum tw_err count_all(struct scan *scan,
    const struct selection *selection, struct run *run,
    struct counting *counting, struct err *err)
{
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = scan_next(scan, &page, err);
        if (outcome != TW_OK || !page)
            break;
        atomic_fetch_add(&run->counts.read, (int64_t)page->count);
        for (size_t i = 0; i < page->count; i++)
            if (selection_matches(selection, &page->entities[i]))
                counting_add(counting, &page->entities[i], 0);
    } while (true);
    return outcome;
}

static enum tw_err delete_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    const struct deletion *deletion = job->settings;
    struct counting counting;
    struct selection selection;
    struct scan *scan;
    enum tw_err outcome;

    ret->table_count = 1;
    ret->tables = arena_alloc(&ret->arena, sizeof(*ret->tables));
    ret->tables[0].table = deletion->table_ref.table;
    ret->tables[0].table_scan = selector_scans_table(&deletion->selector);
    outcome = selection_of_run(
        &deletion->selector, &run->args, &ret->arena, &selection, err);
    if (outcome != TW_OK)
        return outcome;
    counting_begin(&counting, ret->tables, &ret->arena, BATCH_MAX_BYTES);
    scan = open_scan(deletion, &selection,
        stores->stores[deletion->table_ref.store], NULL, false, run);
    outcome = count_all(scan, &selection, run, &counting, err);
    ret->tables[0].pages = (int64_t)scan_pages(scan);
    ret->transactions = ret->tables[0].pages + ret->tables[0].batches;
    scan_close(scan);
    return outcome;
}

/* ---- the checkpoint ---- */

static char *write_checkpoint(const struct entity *last)
{
    struct buf text;

    buf_init(&text, CHECKPOINT_MAX_BYTES);
    buf_add_format(&text, "{\"version\":%d", CHECKPOINT_VERSION);
    if (last) {
        buf_add_text(&text, ",\"done\":");
        keys_write(&text, last->partition_key, last->row_key);
    }
    buf_add_char(&text, '}');
    return buf_take(&text);
}

/* Read the keys after which the scan resumes. False: text has no such keys. */
static bool read_checkpoint(
    struct slice text, struct arena *arena, struct entity *ret)
{
    struct slice partition_key = slice_of(""), row_key = slice_of("");
    const struct json *version;
    struct json *json;
    int64_t number;
    bool good = false;

    if (text.len == 0 ||
        json_parse(text, CHECKPOINT_DEPTH, &json, NULL) != TW_OK)
        return false;
    if (json_type(json) == JSON_OBJECT) {
        version = json_get(json, "version");
        good = version && json_int64(version, &number) &&
               number == CHECKPOINT_VERSION &&
               keys_read(json_get(json, "done"), &partition_key, &row_key);
    }
    if (good)
        entity_init(ret, arena, partition_key, row_key);
    json_free(json);
    return good;
}

/* ---- one attempt ---- */

struct delete_run {
    const struct deletion *deletion;
    struct store *store;
    struct run *run;
    struct err *err;
    struct arena arena; /* memory of selection and the checkpoint's keys */
    struct selection selection;
    bool resumes; /* true: the scan resumes after the keys of last */
    struct entity last;
    struct batch_writer *batch_writer;
    struct checkpoint_queue checkpoint_queue;
};

static void save_nothing(struct delete_run *d)
{
    char *text = write_checkpoint(NULL);

    d->run->callbacks->save(d->run, slice_of(text), false);
    mem_free(text);
}

/* Save the newest checkpoint before which everything is deleted, unless an
 * entity could not be deleted. batch_writer_low_water() is called before the
 * failures are counted, because it may add failures. */
static void save(struct delete_run *d)
{
    uint64_t low_water = batch_writer_low_water(d->batch_writer);

    if (batch_writer_failed(d->batch_writer) == 0)
        checkpoint_queue_save(&d->checkpoint_queue, d->run, low_water);
}

/* Decide about an entity that changed since it was read: delete it only if it
 * is still selected. */
static enum write_decision decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    const struct delete_run *d = context;

    (void)sent, (void)arena, (void)err;
    if (!selection_matches(&d->selection, now))
        return WRITE_SKIP;
    *ret = (struct operation){.type = OPERATION_DELETE, .entity = *now};
    return WRITE_SEND;
}

static enum tw_err delete_page(
    struct delete_run *d, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;
    struct batch_item item = {
        .store = d->store,
        .table = d->deletion->table_ref.table,
        .operation = {.type = OPERATION_DELETE},
        .decide = decide,
        .context = d,
    };

    atomic_fetch_add(&d->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        item.operation.entity = page->entities[i];
        if (selection_matches(&d->selection, &page->entities[i]))
            outcome = batch_writer_add(d->batch_writer, &item, err);
    }
    if (outcome != TW_OK)
        return outcome;
    save(d);
    checkpoint_queue_add(&d->checkpoint_queue,
        batch_writer_sequence(d->batch_writer),
        write_checkpoint(&page->entities[page->count - 1]));
    return TW_OK;
}

static enum tw_err delete_pages(struct delete_run *d, struct scan *scan)
{
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = run_stopping(d->run) ? err_fail(d->err, TW_STOPPED, "stopped")
                                       : scan_next(scan, &page, d->err);
        if (outcome == TW_OK && page)
            outcome = delete_page(d, page, d->err);
    } while (outcome == TW_OK && page);
    return outcome == TW_OK ? batch_writer_drain(d->batch_writer, d->err)
                            : outcome;
}

/* Deletes the selected entities. Whatever the outcome, the batches in flight
 * are completed and the progress is saved. */
static enum tw_err delete_all(struct delete_run *d)
{
    struct scan *scan;
    enum tw_err outcome;

    d->batch_writer = batch_writer_new(d->run, BATCHES_IN_FLIGHT);
    scan = open_scan(d->deletion, &d->selection, d->store,
        d->resumes ? &d->last : NULL, true, d->run);
    outcome = delete_pages(d, scan);
    batch_writer_finish(d->batch_writer);
    save(d);
    scan_close(scan);
    checkpoint_queue_drop(&d->checkpoint_queue);
    batch_writer_free(d->batch_writer);
    return outcome;
}

/* End the run as failed, and drop its checkpoint. If an operator removes the
 * cause and retries the run, it then begins with the first key again. */
static enum run_end fails(struct delete_run *d)
{
    save_nothing(d);
    return RUN_FAILED;
}

static enum run_end end_of(struct delete_run *d, enum tw_err outcome)
{
    int64_t failed = atomic_load(&d->run->counts.failed);

    if (outcome == TW_NOT_FOUND || outcome == TW_INVALID ||
        outcome == TW_TOO_LARGE)
        return fails(d);
    if (outcome != TW_OK)
        return run_end_of(d->run, outcome);
    if (failed == 0)
        return RUN_SUCCEEDED;
    err_fail(d->err, TW_INVALID,
        "%lld %s could not be deleted (the first are listed); all others were "
        "deleted",
        (long long)failed, failed == 1 ? "entity" : "entities");
    return fails(d);
}

static void begin(struct delete_run *d)
{
    /*
     * In a store without key order a scan cannot resume: the run starts over.
     */
    d->resumes = d->store->capabilities.ordered &&
                 read_checkpoint(d->run->checkpoint, &d->arena, &d->last);
    d->run->callbacks->forget_failed(d->run, 0);
    if (d->resumes)
        return;
    d->run->rounds++;
    atomic_store(&d->run->counts.skipped, 0);
    save_nothing(d);
}

static enum run_end delete_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    const struct deletion *deletion = job->settings;
    struct delete_run d = {.deletion = deletion,
        .store = stores->stores[deletion->table_ref.store],
        .run = run,
        .err = err};
    enum tw_err outcome;

    arena_init(&d.arena);
    outcome = selection_of_run(
        &deletion->selector, &run->args, &d.arena, &d.selection, err);
    if (outcome == TW_OK) {
        begin(&d);
        outcome = delete_all(&d);
    }
    arena_done(&d.arena);
    return end_of(&d, outcome);
}

static const struct settings_section *const SECTIONS[] = {
    &delete_job_section,
    NULL,
};

const struct kind delete_kind = {
    .name = "delete",
    .summary = "deletes the entities of a table that a selection finds",
    .destructive = true,
    .sections = SECTIONS,
    .load = delete_load,
    .explain = delete_explain,
    .accept = delete_accept,
    .tables = delete_tables,
    .estimate = delete_estimate,
    .run = delete_run,
};
