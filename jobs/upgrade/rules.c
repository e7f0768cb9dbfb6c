/* SPDX-License-Identifier: MIT */
/* Reads and checks the configuration of a schema-upgrade job. */
#include "jobs/upgrade/rules.h"

#include <inttypes.h>
#include <string.h>

#include "config/settings.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "jobs/upgrade/filter_rules.h"
#include "jobs/upgrade/order.h"
#include "jobs/upgrade/step_rules.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *const DIFFERENCES[] = {
    [UPGRADE_DIFFERENCE_FAILS] = "fail",
    [UPGRADE_DIFFERENCE_OLD] = "old",
    [UPGRADE_DIFFERENCE_NEW] = "new",
    NULL,
};

/* The keys of the job; kind, args and failures are read elsewhere. */
struct job_map {
    struct yaml_node *kind, *args, *failures, *filter, *version, *versions;
    struct slice store, table;
    int on_difference;
    bool follow;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind),
        .help = "schema-upgrade"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "arguments of a run, besides phase"},
    {"store", SETTING_TEXT, SETTING_FIELD(struct job_map, store),
        .help = "a name from `stores:`; default: the default store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct job_map, table),
        .required = true, .help = "the table"},
    {"filter", SETTING_NODE, SETTING_FIELD(struct job_map, filter),
        .help = "OData filter that selects the entities; default: all"},
    {"version", SETTING_NODE, SETTING_FIELD(struct job_map, version),
        .required = true, .help = "{property: SchemaVersion, absent: 1}"},
    {"versions", SETTING_NODE, SETTING_FIELD(struct job_map, versions),
        .required = true,
        .help = "every version, oldest first, with the steps that lead to it"},
    {"on_difference", SETTING_CHOICE,
        SETTING_FIELD(struct job_map, on_difference), .fallback = "fail",
        .choices = DIFFERENCES,
        .help = "what to do if old and new property were both written since "
                "expand"},
    {"follow", SETTING_BOOL, SETTING_FIELD(struct job_map, follow),
        .fallback = "false", .help = "repeat rounds until `finish`"},
    {"failures", SETTING_NODE, SETTING_FIELD(struct job_map, failures),
        .help = "a folder for JSON Lines of failed entities"},
};

const struct settings_section upgrade_job_section =
    SETTINGS_SECTION("a schema-upgrade job", JOB_KEYS);

struct version_map {
    struct slice property;
    int64_t absent;
};

static const struct setting VERSION_KEYS[] = {
    {"property", SETTING_TEXT, SETTING_FIELD(struct version_map, property),
        .required = true, .help = "the property that holds the version"},
    {"absent", SETTING_INT, SETTING_FIELD(struct version_map, absent),
        .required = true, .min = INT64_MIN, .max = INT64_MAX,
        .help = "the version of an entity without the property"},
};

const struct settings_section upgrade_version_section =
    SETTINGS_SECTION("version", VERSION_KEYS);

/* An entry of versions. */
struct entry_map {
    int64_t to;
    struct yaml_node *steps;
};

static const struct setting ENTRY_KEYS[] = {
    {"to", SETTING_INT, SETTING_FIELD(struct entry_map, to), .required = true,
        .min = INT64_MIN, .max = INT64_MAX,
        .help = "the number of the version"},
    {"steps", SETTING_NODE, SETTING_FIELD(struct entry_map, steps),
        .required = true, .help = "what is done to each entity, in order"},
};

const struct settings_section upgrade_entry_section =
    SETTINGS_SECTION("versions: each entry", ENTRY_KEYS);

/* ---- the version property ---- */

static bool load_version(const struct yaml_node *node,
    struct job_loader *loader, struct upgrade *upgrade)
{
    struct version_map map = {.absent = 0};
    bool good = settings_load(node, "version", VERSION_KEYS,
        COUNT(VERSION_KEYS), loader->arena, &map, loader->problems);

    upgrade->absent = map.absent;
    if (map.property.at && step_rules_check_name(map.property,
                               table_ref_mark(node, "property"), loader))
        upgrade->version = map.property;
    return good && upgrade->version.len > 0;
}

/* ---- the document ---- */

static bool load_entry(const struct yaml_node *node, struct slice version,
    struct job_loader *loader, struct upgrade_version *ret)
{
    struct entry_map map = {.steps = NULL};
    bool good = settings_load(node, "a version", ENTRY_KEYS, COUNT(ENTRY_KEYS),
        loader->arena, &map, loader->problems);

    ret->number = map.to;
    ret->mark = node->mark;
    if (map.steps)
        good = step_rules_load(map.steps, version, loader, ret) && good;
    return good;
}

static bool check_numbers(
    const struct upgrade *upgrade, struct problems *problems)
{
    const struct upgrade_version *list = upgrade->versions;

    for (size_t i = 1; i < upgrade->version_count; i++)
        if (list[i].number <= list[i - 1].number) {
            problems_add(problems, list[i].mark,
                "list the versions oldest first, and each once: %" PRId64
                " is not above %" PRId64,
                list[i].number, list[i - 1].number);
            return false;
        }
    return true;
}

static bool load_versions(const struct yaml_node *node,
    struct job_loader *loader, struct upgrade *upgrade)
{
    bool good = true;

    if (node->type != YAML_LIST || node->count == 0 ||
        node->count > UPGRADE_MAX_VERSIONS) {
        problems_add(loader->problems, node->mark,
            "versions must be a list of 1 to %d versions, such as - {to: 2, "
            "steps: [...]}",
            UPGRADE_MAX_VERSIONS);
        return false;
    }
    upgrade->versions =
        arena_alloc(loader->arena, node->count * sizeof(*upgrade->versions));
    upgrade->version_count = node->count;
    for (size_t i = 0; i < node->count; i++)
        good = load_entry(node->items[i], upgrade->version, loader,
                   &upgrade->versions[i]) &&
               good;
    if (good)
        good = check_numbers(upgrade, loader->problems);
    return upgrade_order_check(upgrade, loader->problems) && good;
}

/* Check that `absent` is not above the newest version: no step would then be
 * carried out on entities without a version property. */
static bool check_absent(const struct upgrade *upgrade,
    const struct yaml_node *node, struct problems *problems)
{
    if (upgrade->absent <= upgrade_rules_newest(upgrade))
        return true;
    problems_add(problems, table_ref_mark(node, "absent"),
        "`absent:` is above the newest version, %" PRId64
        ": no step would apply to an entity without a version",
        upgrade_rules_newest(upgrade));
    return false;
}

/* ---- the whole ---- */

static bool load_filter(const struct yaml_node *node, struct job_loader *loader,
    struct upgrade *upgrade)
{
    const struct template_scope scope = {
        .args = loader->args, .arg_count = loader->arg_count};
    const struct selector_nodes nodes = {.filter = node};

    return selector_load(&nodes, &scope, loader->arena, &upgrade->selector,
        &loader->unset, loader->problems);
}

struct upgrade *upgrade_rules_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct upgrade *upgrade = arena_alloc(loader->arena, sizeof(*upgrade));
    struct job_map map = {.kind = NULL};
    char *what = mem_format("job %s", loader->job);
    bool good = settings_load(node, what, JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    upgrade->on_difference = (enum upgrade_on_difference)map.on_difference;
    upgrade->follow = map.follow;
    if (map.table.at)
        good = table_ref_load(
                   node, map.store, map.table, loader, &upgrade->table_ref) &&
               good;
    good = load_filter(map.filter, loader, upgrade) && good;
    if (map.version)
        good = load_version(map.version, loader, upgrade) && good;
    if (map.versions)
        good = load_versions(map.versions, loader, upgrade) && good;
    if (good)
        good = check_absent(upgrade, map.version, loader->problems);
    /* The value of a variable that is not set here is not known. */
    if (good && map.filter && !loader->unset)
        good =
            upgrade_filter_check(upgrade, map.filter->mark, loader->problems);
    mem_free(what);
    return good ? upgrade : NULL;
}

/* ---- one document per table ---- */

static bool same_document(const struct upgrade *a, const struct upgrade *b)
{
    if (!slice_equal(a->version, b->version) || a->absent != b->absent ||
        a->version_count != b->version_count)
        return false;
    for (size_t i = 0; i < a->version_count; i++)
        if (a->versions[i].number != b->versions[i].number ||
            strcmp(a->versions[i].digest, b->versions[i].digest) != 0)
            return false;
    return true;
}

void upgrade_rules_link(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems)
{
    const struct upgrade *upgrade = job->settings;

    (void)arena;
    for (size_t i = 0; i < jobs->count && &jobs->list[i] != job; i++) {
        const struct job *other = &jobs->list[i];
        const struct upgrade *before = other->settings;

        if (other->kind != job->kind ||
            !table_ref_same(&before->table_ref, &upgrade->table_ref) ||
            same_document(before, upgrade))
            continue;
        problems_add(problems, job->mark,
            "job %s has other `versions:` for table %s: a table has one list "
            "of versions; put all its versions into one job",
            other->name, upgrade->table_ref.table);
        return;
    }
}

/* ---- a run ---- */

static const char *const PHASES[] = {
    [UPGRADE_ALL] = "all",
    [UPGRADE_EXPAND] = "expand",
    [UPGRADE_CONTRACT] = "contract",
};

const char *upgrade_phase_name(enum upgrade_phase phase)
{
    return PHASES[phase];
}

enum upgrade_phase upgrade_rules_phase(const struct run_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        if (slice_is(args->names[i], UPGRADE_PHASE_ARG))
            for (size_t k = 0; k < COUNT(PHASES); k++)
                if (slice_is(args->values[i], PHASES[k]))
                    return (enum upgrade_phase)k;
    return UPGRADE_ALL;
}

int64_t upgrade_rules_newest(const struct upgrade *upgrade)
{
    return upgrade->versions[upgrade->version_count - 1].number;
}

struct property upgrade_rules_property(
    const struct upgrade *upgrade, int64_t number, struct arena *arena)
{
    struct entity scratch = {.property_count = 0};
    const char *name = upgrade->version.at;

    if (number < INT32_MIN || number > INT32_MAX)
        entity_set_int64(&scratch, arena, name, number);
    else
        entity_set_int32(&scratch, arena, name, (int32_t)number);
    return scratch.properties[0];
}

bool upgrade_rules_level(
    const struct upgrade *upgrade, int64_t number, size_t *ret)
{
    size_t level = 0;

    while (level < upgrade->version_count &&
           upgrade->versions[level].number <= number)
        level++;
    if (number != upgrade->absent &&
        (level == 0 || upgrade->versions[level - 1].number != number))
        return false;
    *ret = level;
    return true;
}
