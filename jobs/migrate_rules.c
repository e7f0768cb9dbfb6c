/* SPDX-License-Identifier: MIT */
/* The configuration of a migrate job, read and checked. */
#include "jobs/migrate_rules.h"

#include <inttypes.h>

#include "config/settings.h"
#include "jobs/job.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *const MODES[] = {"copy", "move", NULL};
#define MODE_MOVE 1

/* The map of the job itself; `kind` and `args` have been read already. */
struct job_map {
    struct yaml_node *kind, *args, *from, *to, *properties;
    int mode, on_conflict;
    bool verify, strip;
    struct slice provenance;
    int64_t max_passes;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind),
        .help = "migrate"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "the arguments of a run"},
    {"from", SETTING_NODE, SETTING_FIELD(struct job_map, from),
        .required = true, .help = "{table: Blogs, filter: \"...\"}"},
    {"to", SETTING_NODE, SETTING_FIELD(struct job_map, to), .required = true,
        .help = "where a copy goes, or a list: several copies of each source"},
    {"properties", SETTING_NODE, SETTING_FIELD(struct job_map, properties),
        .help = "{keep: [], drop: [], rename: {}, set: {}}; default: all"},
    {"mode", SETTING_CHOICE, SETTING_FIELD(struct job_map, mode),
        .fallback = "copy", .choices = MODES,
        .help = "move: each source goes once its copies are stored"},
    {"on_conflict", SETTING_CHOICE, SETTING_FIELD(struct job_map, on_conflict),
        .fallback = "fail", .choices = CONFLICT_NAMES,
        .help = "where another entity stands at a copy's keys"},
    {"verify", SETTING_BOOL, SETTING_FIELD(struct job_map, verify),
        .fallback = "true", .help = "compare source and destination at last"},
    {"provenance", SETTING_TEXT, SETTING_FIELD(struct job_map, provenance),
        .fallback = PROVENANCE_PROPERTY,
        .help = "the property that says where a copy comes from"},
    {"strip", SETTING_BOOL, SETTING_FIELD(struct job_map, strip),
        .fallback = "false", .help = "take that property off at the end"},
    {"max_passes", SETTING_INT, SETTING_FIELD(struct job_map, max_passes),
        .fallback = "10", .min = 1, .max = MIGRATE_MAX_PASSES,
        .help = "passes that still write before the run fails"},
};

struct from_map {
    struct slice store, table;
    struct selector_nodes nodes;
};

static const struct setting FROM_KEYS[] = {
    {"store", SETTING_TEXT, SETTING_FIELD(struct from_map, store),
        .help = "one of stores; default: default_store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct from_map, table),
        .required = true, .help = "the table"},
    SELECTOR_SETTINGS(struct from_map, nodes),
};

/* ---- the source ---- */

static bool load_from(const struct yaml_node *node, struct job_loader *loader,
    struct copier_rules *rules)
{
    const struct template_scope scope = {
        .args = loader->args, .arg_count = loader->arg_count};
    struct from_map map = {.table.len = 0};
    bool good = settings_load(node, "from", FROM_KEYS, COUNT(FROM_KEYS),
        loader->arena, &map, loader->problems);

    if (map.table.at)
        good = place_load(node, map.store, map.table, loader, &rules->from) &&
               good;
    return selector_load(&map.nodes, &scope, loader->arena, &rules->selector,
               &loader->unset, loader->problems) &&
           good;
}

static bool load_provenance(struct slice name, const struct yaml_node *node,
    struct job_loader *loader, struct copier_rules *rules)
{
    static const char *const SYSTEM[] = {"PartitionKey", "RowKey", "Timestamp"};
    struct mark mark = place_mark(node, "provenance");
    struct err err;

    rules->provenance = slice_of(PROVENANCE_PROPERTY);
    if (!name.at)
        return false;
    for (size_t i = 0; i < COUNT(SYSTEM); i++)
        if (slice_is(name, SYSTEM[i])) {
            problems_add(loader->problems, mark,
                "%s is taken: choose a property of your own", SYSTEM[i]);
            return false;
        }
    if (entity_check_name(name, &err) != TW_OK) {
        problems_add(loader->problems, mark, "%s", err.text);
        return false;
    }
    rules->provenance = name;
    return true;
}

/* ---- the copies ---- */

/* A copy that the same pass would meet again as a source. */
static bool check_apart(const struct copier_rules *rules,
    const struct copying_target *target, struct mark mark,
    struct problems *problems)
{
    if (!place_same(&target->place, &rules->from))
        return true;
    if (copying_keeps_keys(target)) {
        problems_add(problems, mark,
            "the copies would be the sources themselves: same table, same "
            "keys");
        return false;
    }
    if (selector_is_empty(&rules->selector)) {
        problems_add(problems, mark,
            "%s is read and written at once, and each copy would be copied "
            "again: copy into another table, or select in `from` what no copy "
            "is",
            target->place.table);
        return false;
    }
    return true;
}

static bool check_keys(const struct copier_rules *rules, struct mark mark,
    struct problems *problems)
{
    const struct copying_target *last =
        &rules->targets[rules->target_count - 1];

    for (const struct copying_target *is = rules->targets; is < last; is++)
        if (copying_same_keys(is, last)) {
            problems_add(problems, mark,
                "two copies of each source would have the same keys: give this "
                "one others");
            return false;
        }
    return true;
}

static bool load_target(const struct yaml_node *node,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copier_rules *rules)
{
    struct copying_target *target = &rules->targets[rules->target_count];

    if (!copying_load_target(node, defaults, loader, target))
        return false;
    rules->target_count++;
    return check_keys(rules, node->mark, loader->problems);
}

static bool load_list(const struct yaml_node *list,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copier_rules *rules)
{
    bool good = true;

    if (list->count == 0 || list->count > COPYING_MAX_TARGETS) {
        problems_add(loader->problems, list->mark,
            "to wants 1 to %d copies of each source, not %zu",
            COPYING_MAX_TARGETS, list->count);
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        good = load_target(list->items[i], defaults, loader, rules) && good;
    return good;
}

static bool load_to(const struct yaml_node *node,
    const struct copying_shape *shape, struct job_loader *loader,
    struct copier_rules *rules)
{
    const struct copying_defaults defaults = {
        .shape = shape, .provenance = rules->provenance};

    rules->targets = arena_alloc(
        loader->arena, COPYING_MAX_TARGETS * sizeof(*rules->targets));
    if (node->type == YAML_LIST)
        return load_list(node, &defaults, loader, rules);
    return load_target(node, &defaults, loader, rules);
}

/* Once source and copies are known. */
static bool check_places(const struct yaml_node *to,
    const struct copier_rules *rules, struct problems *problems)
{
    bool good = true;

    for (size_t i = 0; i < rules->target_count; i++)
        good = check_apart(rules, &rules->targets[i],
                   to->type == YAML_LIST ? to->items[i]->mark : to->mark,
                   problems) &&
               good;
    return good;
}

/* ---- the whole ---- */

static bool load_parts(const struct job_map *map, const struct yaml_node *node,
    struct job_loader *loader, struct copier_rules *rules)
{
    struct copying_shape shape = {.keep_count = 0};
    bool good = load_provenance(map->provenance, node, loader, rules), from;

    if (map->properties)
        good = copying_load_shape(
                   map->properties, rules->provenance, loader, &shape) &&
               good;
    from = map->from && load_from(map->from, loader, rules);
    if (!map->to || !load_to(map->to, &shape, loader, rules) || !from)
        return false;
    return check_places(map->to, rules, loader->problems) && good;
}

struct copier_rules *migrate_rules_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct copier_rules *rules = arena_alloc(loader->arena, sizeof(*rules));
    struct job_map map = {.from = NULL};
    bool good = settings_load(node, "migrate", JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    good = load_parts(&map, node, loader, rules) && good;
    rules->on_conflict = (enum on_conflict)map.on_conflict;
    rules->move = map.mode == MODE_MOVE;
    rules->prune = COPIER_PRUNE_RUN;
    rules->verify = map.verify;
    rules->strip = map.strip;
    rules->max_passes = map.max_passes;
    return good ? rules : NULL;
}

/* ---- explain ---- */

static void explain_conflict(const struct copier_rules *rules, struct buf *to)
{
    static const char *const ENDS[] = {
        [CONFLICT_FAIL] = "the source fails, and stays",
        [CONFLICT_SKIP] = "the source is skipped, and stays",
        [CONFLICT_REPLACE] = "it is replaced, with the ETag read",
        [CONFLICT_MERGE] = "the copy is merged into it, with the ETag read",
    };

    buf_add_format(to,
        "insert each; where another entity stands that is no copy, %s\n",
        ENDS[rules->on_conflict]);
}

static void explain_end(const struct copier_rules *rules, struct buf *to)
{
    const char *table = rules->from.table;

    if (rules->move)
        buf_add_format(to,
            "delete each from %s once its copies are stored, with the ETag "
            "that was copied\n"
            "read again until nothing is left to move, %" PRId64
            " passes at most\n",
            table, rules->max_passes);
    else
        buf_add_format(to,
            "compare both sides, and mend what differs, until they agree, "
            "%" PRId64 " times at most;\n"
            "  a copy that this run wrote goes when its source is gone\n",
            rules->max_passes);
    if (rules->verify)
        buf_add_text(to, rules->move ? "read the copies once more\n"
                                     : "fail where a copy is left over\n");
    if (rules->strip)
        buf_add_format(
            to, "take %.*s off the copies\n", SLICE_ARG(rules->provenance));
}

void migrate_rules_explain(const struct copier_rules *rules, struct buf *to)
{
    buf_add_format(
        to, "read %s", selector_is_empty(&rules->selector) ? "all of " : "");
    buf_add_text(to, rules->from.table);
    if (!selector_is_empty(&rules->selector)) {
        buf_add_text(to, " where ");
        selector_explain(&rules->selector, to);
    }
    buf_add_format(
        to, "\ncopy each, with %.*s, to\n", SLICE_ARG(rules->provenance));
    for (size_t i = 0; i < rules->target_count; i++) {
        buf_add_format(to, "  %s: ", rules->targets[i].place.table);
        copying_explain(&rules->targets[i], to);
        buf_add_char(to, '\n');
    }
    explain_conflict(rules, to);
    explain_end(rules, to);
}
