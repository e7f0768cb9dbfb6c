/* SPDX-License-Identifier: MIT */
/* The configuration of a copy job, read and checked. */
#include "jobs/copy/rules.h"

#include "config/settings.h"
#include "jobs/copy/source.h"
#include "jobs/job.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *const CONFLICTS[] = {
    [COPY_CONFLICT_FAIL] = "fail",
    [COPY_CONFLICT_SKIP] = "skip",
    [COPY_CONFLICT_REPLACE] = "replace",
    NULL,
};

/* The map of the job itself. The caller has already read `kind` and `args`. */
struct job_map {
    struct yaml_node *kind, *from, *to, *properties;
    int on_conflict;
    bool follow;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind), .help = "copy"},
    {"from", SETTING_NODE, SETTING_FIELD(struct job_map, from),
        .required = true, .help = "{table: Blogs, filter: \"...\"}"},
    {"to", SETTING_NODE, SETTING_FIELD(struct job_map, to), .required = true,
        .help = "{table: BlogsByMonth, partition_key: \"...\"}, or a list: "
                "several copies of each source"},
    {"properties", SETTING_NODE, SETTING_FIELD(struct job_map, properties),
        .help = "{keep: [], drop: [], rename: {}, set: {}}; default: all"},
    {"on_conflict", SETTING_CHOICE, SETTING_FIELD(struct job_map, on_conflict),
        .fallback = "fail", .choices = CONFLICTS,
        .help = "what to do if an entity that is no copy of this job has the "
                "keys of a copy"},
    {"follow", SETTING_BOOL, SETTING_FIELD(struct job_map, follow),
        .fallback = "false", .help = "repeat rounds until `finish`"},
};

const struct settings_section copy_job_section =
    SETTINGS_SECTION("a copy job", JOB_KEYS);

struct from_map {
    struct slice store, table;
    struct selector_nodes nodes;
};

static const struct setting FROM_KEYS[] = {
    {"store", SETTING_TEXT, SETTING_FIELD(struct from_map, store),
        .help = "a name from `stores:`; default: the default store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct from_map, table),
        .required = true, .help = "the table"},
    SELECTOR_SETTINGS(struct from_map, nodes),
};

const struct settings_section copy_from_section =
    SETTINGS_SECTION("from", FROM_KEYS);

/* ---- the source ---- */

static bool load_from(const struct yaml_node *node, struct job_loader *loader,
    struct copy_rules *rules)
{
    const struct template_scope scope = {
        .args = loader->args, .arg_count = loader->arg_count};
    struct from_map map = {.table.len = 0};
    bool good = settings_load(node, "from", FROM_KEYS, COUNT(FROM_KEYS),
        loader->arena, &map, loader->problems);

    if (map.table.at)
        good =
            table_ref_load(node, map.store, map.table, loader, &rules->from) &&
            good;
    return selector_load(&map.nodes, &scope, loader->arena, &rules->selector,
               &loader->unset, loader->problems) &&
           good;
}

/* ---- the copies ---- */

bool copy_rules_is_index(
    const struct copy_rules *rules, const struct copying_target *target)
{
    return table_ref_same(&target->table_ref, &rules->from);
}

/* Adds a problem and returns false if the newest target has the same keys as
 * another target. */
static bool check_keys(
    const struct copy_rules *rules, struct mark mark, struct problems *problems)
{
    const struct copying_target *newest =
        &rules->targets[rules->target_count - 1];

    for (const struct copying_target *is = rules->targets; is < newest; is++)
        if (copying_same_keys(is, newest)) {
            problems_add(problems, mark,
                "two copies of each source would have the same keys: give this "
                "copy other keys");
            return false;
        }
    return true;
}

static bool load_target(const struct yaml_node *node,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copy_rules *rules)
{
    struct copying_target *target = &rules->targets[rules->target_count];

    if (!copying_load_target(node, defaults, loader, target))
        return false;
    rules->target_count++;
    return check_keys(rules, node->mark, loader->problems);
}

static bool load_list(const struct yaml_node *list,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copy_rules *rules)
{
    bool good = true;

    if (list->count == 0 || list->count > COPYING_MAX_TARGETS) {
        problems_add(loader->problems, list->mark,
            "`to` lists %zu copies of each source: 1 to %d are allowed",
            list->count, COPYING_MAX_TARGETS);
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        good = load_target(list->items[i], defaults, loader, rules) && good;
    return good;
}

static bool load_to(const struct yaml_node *node,
    const struct copying_shape *shape, struct job_loader *loader,
    struct copy_rules *rules)
{
    const struct copying_defaults defaults = {
        .shape = shape, .reserved = slice_of(SOURCE_PROPERTY)};

    if (node->type == YAML_LIST)
        return load_list(node, &defaults, loader, rules);
    return load_target(node, &defaults, loader, rules);
}

/* Refuses each target that has both the table and the keys of the source (rule
 * C4). */
static bool check_locations(const struct yaml_node *to,
    const struct copy_rules *rules, struct problems *problems)
{
    bool good = true;

    for (size_t i = 0; i < rules->target_count; i++) {
        const struct yaml_node *node =
            to->type == YAML_LIST ? to->items[i] : to;

        if (!copy_rules_is_index(rules, &rules->targets[i]) ||
            !copying_keeps_keys(&rules->targets[i]))
            continue;
        problems_add(problems, node->mark,
            "the copies would have the table and keys of their sources: give "
            "them another partition_key or row_key");
        good = false;
    }
    return good;
}

/* ---- the whole ---- */

static bool load_parts(const struct job_map *map, struct job_loader *loader,
    struct copy_rules *rules)
{
    struct copying_shape shape = {.keep_count = 0};
    bool good = true, from;

    if (map->properties)
        good = copying_load_shape(
            map->properties, slice_of(SOURCE_PROPERTY), loader, &shape);
    from = map->from && load_from(map->from, loader, rules);
    if (!map->to || !load_to(map->to, &shape, loader, rules) || !from)
        return false;
    return check_locations(map->to, rules, loader->problems) && good;
}

struct copy_rules *copy_rules_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct copy_rules *rules = arena_alloc(loader->arena, sizeof(*rules));
    struct job_map map = {.from = NULL};
    bool good = settings_load(node, "a copy job", JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    good = load_parts(&map, loader, rules) && good;
    rules->on_conflict = (enum copy_conflict)map.on_conflict;
    rules->follow = map.follow;
    return good ? rules : NULL;
}

/* ---- explain ---- */

void copy_rules_explain(const struct copy_rules *rules, struct buf *to)
{
    static const char *const CONFLICT[] = {
        [COPY_CONFLICT_FAIL] =
            "the source is reported as failed, and the run fails at its end",
        [COPY_CONFLICT_SKIP] = "the source is skipped",
        [COPY_CONFLICT_REPLACE] = "that entity is replaced by the copy",
    };

    buf_add_format(to, "read %s%s",
        selector_is_empty(&rules->selector) ? "all of " : "",
        rules->from.table);
    if (!selector_is_empty(&rules->selector)) {
        buf_add_text(to, " where ");
        selector_explain(&rules->selector, to);
    }
    buf_add_text(to, "\nkeep a copy of each, with " SOURCE_PROPERTY ", in\n");
    for (size_t i = 0; i < rules->target_count; i++) {
        buf_add_format(to, "  %s: ", rules->targets[i].table_ref.table);
        copying_explain(&rules->targets[i], to);
        buf_add_char(to, '\n');
    }
    buf_add_format(to,
        "if an entity that is no copy of this job has the keys of a copy, %s\n"
        "delete copies of this job whose source does not exist, is no longer "
        "selected, or makes a copy with other keys\n"
        "repeat %s\n",
        CONFLICT[rules->on_conflict],
        rules->follow ? "rounds until `finish`"
                      : "rounds until a round takes under a minute, or more "
                        "than half as long as the one before; then compare "
                        "both sides once more");
}
