/* SPDX-License-Identifier: MIT */
/*
 * reindex: an application that reads by size, and by model, keeps a copy of
 * each entity under each of these keys. Written beside their source, in two
 * writes, they fall out of step. A run puts that right: what is missing is
 * built, what others have made of a copy is repaired, and what has no source
 * any more goes.
 *
 * The copies are the run's own, and carry TablewardSource: what has it is a
 * copy, never a source. All else is what the machine of the kinds that copy
 * does (copier.h).
 */
#include "jobs/reindex.h"

#include <inttypes.h>

#include "config/settings.h"
#include "jobs/copier.h"
#include "jobs/provenance.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define MAX_PASSES 1000

/* A merge would leave what it should repair. */
static const char *const CONFLICTS[] = {
    [CONFLICT_FAIL] = "fail",
    [CONFLICT_SKIP] = "skip",
    [CONFLICT_REPLACE] = "replace",
    NULL,
};

/* The map of the job; `kind` and `args` have been read already. */
struct job_map {
    struct yaml_node *kind, *args, *copies;
    struct slice store, table;
    struct selector_nodes nodes;
    int on_conflict;
    int64_t max_passes;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind),
        .help = "reindex"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "the arguments of a run"},
    {"store", SETTING_TEXT, SETTING_FIELD(struct job_map, store),
        .help = "one of stores; default: default_store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct job_map, table),
        .required = true, .help = "the table of sources and copies"},
    SELECTOR_SETTINGS(struct job_map, nodes),
    {"copies", SETTING_NODE, SETTING_FIELD(struct job_map, copies),
        .required = true,
        .help = "a list: {row_key: \"size:{Size:02}_{Model}\", properties: "
                "[Name]}"},
    {"on_conflict", SETTING_CHOICE, SETTING_FIELD(struct job_map, on_conflict),
        .fallback = "fail", .choices = CONFLICTS,
        .help = "where an entity that is no copy stands at a copy's keys"},
    {"max_passes", SETTING_INT, SETTING_FIELD(struct job_map, max_passes),
        .fallback = "10", .min = 1, .max = MAX_PASSES,
        .help = "passes that still write before the run fails"},
};

/* ---- the copies ---- */

/* Does the newest one fall on its source, or on another copy of it? */
static bool has_own_keys(const struct copier_rules *rules, struct mark mark,
    struct problems *problems)
{
    const struct copying_target *newest =
        &rules->targets[rules->target_count - 1];

    if (copying_keeps_keys(newest)) {
        problems_add(problems, mark,
            "this copy would be its source itself: give it a partition_key or "
            "a row_key of its own");
        return false;
    }
    for (const struct copying_target *is = rules->targets; is < newest; is++)
        if (copying_same_keys(is, newest)) {
            problems_add(problems, mark,
                "two copies of each entity would have the same keys: give this "
                "one others");
            return false;
        }
    return true;
}

/* Without the arguments, their names are properties'. */
static bool reads_argument(
    const struct template *key, const struct job_loader *loader)
{
    const struct template_scope alone = {.has_entity = true};
    const struct slice *names = NULL;
    struct problems unsaid;
    size_t count = 0;
    bool is = false;

    if (!key)
        return false;
    problems_init(&unsaid);
    key = template_compile(
        template_source(key), (struct mark){0}, &alone, loader->arena, &unsaid);
    if (key)
        names = template_properties(key, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < loader->arg_count; j++)
            is = is || slice_equal(names[i], loader->args[j]);
    problems_done(&unsaid);
    return is;
}

/* The copies of other arguments would be taken for copies that have other keys
 * now, and go. */
static bool has_keys_of_source(const struct copying_target *target,
    struct mark mark, const struct job_loader *loader)
{
    if (!reads_argument(target->partition_key, loader) &&
        !reads_argument(target->row_key, loader))
        return true;
    problems_add(loader->problems, mark,
        "the keys of a copy are made of its source alone: an argument may "
        "only choose the sources");
    return false;
}

static bool load_copy(const struct yaml_node *node, struct job_loader *loader,
    struct copier_rules *rules)
{
    const struct copying_shape everything = {.keep_count = 0};
    const struct copying_defaults defaults = {.place = &rules->from,
        .shape = &everything,
        .provenance = rules->provenance};

    struct copying_target *target = &rules->targets[rules->target_count];

    if (!copying_load_target(node, &defaults, loader, target))
        return false;
    rules->target_count++;
    return has_own_keys(rules, node->mark, loader->problems) &&
           has_keys_of_source(target, node->mark, loader);
}

static bool load_copies(const struct yaml_node *list, struct job_loader *loader,
    struct copier_rules *rules)
{
    bool good = true;

    if (list->type != YAML_LIST || list->count == 0 ||
        list->count > COPYING_MAX_TARGETS) {
        problems_add(loader->problems, list->mark,
            "copies wants a list of 1 to %d copies of each entity: [{row_key: "
            "\"size:{Size:02}_{Model}\", properties: [Name]}]",
            COPYING_MAX_TARGETS);
        return false;
    }
    rules->targets =
        arena_alloc(loader->arena, list->count * sizeof(*rules->targets));
    for (size_t i = 0; i < list->count; i++)
        good = load_copy(list->items[i], loader, rules) && good;
    return good;
}

/* ---- the job ---- */

static bool load_sources(const struct yaml_node *node,
    const struct job_map *map, struct job_loader *loader,
    struct copier_rules *rules)
{
    const struct template_scope scope = {
        .args = loader->args, .arg_count = loader->arg_count};
    bool good = map->table.at &&
                place_load(node, map->store, map->table, loader, &rules->from);

    return selector_load(&map->nodes, &scope, loader->arena, &rules->selector,
               &loader->unset, loader->problems) &&
           good;
}

static void *reindex_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct copier_rules *rules = arena_alloc(loader->arena, sizeof(*rules));
    struct job_map map = {.copies = NULL};
    bool good = settings_load(node, "a reindex job", JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    *rules = (struct copier_rules){
        .provenance = slice_of(PROVENANCE_PROPERTY),
        .on_conflict = (enum on_conflict)map.on_conflict,
        .owns = true,
        .prune = COPIER_PRUNE_ALL,
        .sources_lack_provenance = true,
        .verify = true,
        .max_passes = map.max_passes,
    };
    good = load_sources(node, &map, loader, rules) && good;
    good = map.copies && load_copies(map.copies, loader, rules) && good;
    return good ? rules : NULL;
}

static void reindex_explain(const struct job *job, struct buf *to)
{
    static const char *const ENDS[] = {
        [CONFLICT_FAIL] = "the source fails",
        [CONFLICT_SKIP] = "there is no copy",
        [CONFLICT_REPLACE] = "it is replaced",
    };
    const struct copier_rules *rules = job->settings;

    buf_add_format(to, "read %s", rules->from.table);
    if (!selector_is_empty(&rules->selector)) {
        buf_add_text(to, " where ");
        selector_explain(&rules->selector, to);
    }
    buf_add_format(to, "\nkeep in it, of each that has no %.*s,\n",
        SLICE_ARG(rules->provenance));
    for (size_t i = 0; i < rules->target_count; i++) {
        buf_add_text(to, "  ");
        copying_explain(&rules->targets[i], to);
        buf_add_char(to, '\n');
    }
    buf_add_format(to,
        "where another entity stands that is no copy, %s\n"
        "delete copies of this job whose source is gone or has other keys\n"
        "read again until nothing is left to do, %" PRId64 " passes at most\n",
        ENDS[rules->on_conflict], rules->max_passes);
}

static void reindex_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct copier_rules *rules = job->settings;

    each(ctx, rules->from.store, rules->from.table, JOB_WRITES);
}

static enum tw_err reindex_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    return copier_accept(job->settings, args, err);
}

static enum tw_err reindex_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    return copier_estimate(job->settings, stores, run, ret, err);
}

static enum run_end reindex_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    return copier_run(job->settings, stores, run, err);
}

const struct kind reindex_kind = {
    .name = "reindex",
    .summary = "keeps copies of a table's entities under other keys in step",
    .destructive = true,
    .load = reindex_load,
    .explain = reindex_explain,
    .accept = reindex_accept,
    .tables = reindex_tables,
    .estimate = reindex_estimate,
    .run = reindex_run,
};
