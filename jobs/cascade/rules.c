/* SPDX-License-Identifier: MIT */
/* Reads and checks the configuration of a cascade-delete job. */
#include "jobs/cascade/rules.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "config/settings.h"
#include "jobs/cascade/ends.h"
#include "jobs/cascade/overlap.h"
#include "jobs/job.h"
#include "jobs/table_ref.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

#define SETTLE_MAX_MS                                                          \
    (7 * 24 * INT64_C(3600000)) /* maximum settle time: the queue can hide a   \
                                   message for 7 days */

/* The keys of the job; the caller has already read `kind` and `args`. */
struct job_map {
    struct yaml_node *kind, *args, *parent, *children, *settle;
    int64_t refuse_above;
    struct slice archive;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind),
        .help = "cascade-delete"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "the arguments of a run"},
    {"parent", SETTING_NODE, SETTING_FIELD(struct job_map, parent),
        .required = true, .help = "the entity that is deleted last"},
    {"children", SETTING_NODE, SETTING_FIELD(struct job_map, children),
        .required = true, .help = "rules that find what is under the parent"},
    {"settle", SETTING_NODE, SETTING_FIELD(struct job_map, settle),
        .help = "when to look for late children, counted from the tombstone: "
                "once (5s), or several times ([5s, 20m])"},
    {"refuse_above", SETTING_INT, SETTING_FIELD(struct job_map, refuse_above),
        .fallback = "-1", .min = -1, .max = INT64_MAX,
        .help = "count the entities first, and fail before any write if there "
                "are more than this; -1: no limit"},
    {"archive", SETTING_TEXT, SETTING_FIELD(struct job_map, archive),
        .help = "folder in which each entity is stored before its delete"},
};

const struct settings_section cascade_job_section =
    SETTINGS_SECTION("a cascade-delete job", JOB_KEYS);

struct parent_map {
    struct slice store, table, created;
    struct yaml_node *partition_key, *row_key, *tombstone;
};

static const struct setting PARENT_KEYS[] = {
    {"store", SETTING_TEXT, SETTING_FIELD(struct parent_map, store),
        .help = "a name from `stores:`; default: the default store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct parent_map, table),
        .required = true, .help = "the parent's table"},
    {"partition_key", SETTING_NODE,
        SETTING_FIELD(struct parent_map, partition_key), .required = true,
        .help = "template of the parent's PartitionKey"},
    {"row_key", SETTING_NODE, SETTING_FIELD(struct parent_map, row_key),
        .required = true, .help = "template of the parent's RowKey"},
    {"tombstone", SETTING_NODE, SETTING_FIELD(struct parent_map, tombstone),
        .required = true,
        .help = "properties that mark the parent as being deleted"},
    {"created", SETTING_TEXT, SETTING_FIELD(struct parent_map, created),
        .help =
            "property of the parent with the time of the parent's creation"},
};

const struct settings_section cascade_parent_section =
    SETTINGS_SECTION("parent", PARENT_KEYS);

struct rule_map {
    struct slice store, table;
    struct selector_nodes nodes;
    bool optional;
    struct yaml_node *children;
};

#define RULE_KEY(index)                                                        \
    SETTING_FIELD(struct rule_map, nodes.keys) +                               \
        (index) * sizeof(struct yaml_node *)

static const struct setting RULE_KEYS[] = {
    {"store", SETTING_TEXT, SETTING_FIELD(struct rule_map, store),
        .help = "a name from `stores:`; default: the default store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct rule_map, table),
        .required = true, .help = "the table of the children"},
    {"partition_key", SETTING_NODE, RULE_KEY(SELECTOR_PARTITION_KEY),
        .help = "template; selects entities with this PartitionKey"},
    {"partition_key_prefix", SETTING_NODE,
        RULE_KEY(SELECTOR_PARTITION_KEY_PREFIX),
        .help =
            "template; selects entities whose PartitionKey begins with this"},
    {"row_key", SETTING_NODE, RULE_KEY(SELECTOR_ROW_KEY),
        .help = "template; selects entities with this RowKey"},
    {"row_key_prefix", SETTING_NODE, RULE_KEY(SELECTOR_ROW_KEY_PREFIX),
        .help = "template; selects entities whose RowKey begins with this"},
    {"filter", SETTING_NODE, SETTING_FIELD(struct rule_map, nodes.filter),
        .help = "OData filter; selects entities that match it"},
    {"optional", SETTING_BOOL, SETTING_FIELD(struct rule_map, optional),
        .fallback = "false", .help = "the table may be missing"},
    {"children", SETTING_NODE, SETTING_FIELD(struct rule_map, children),
        .help = "rules that find what is under each selected entity"},
};

const struct settings_section cascade_rule_section =
    SETTINGS_SECTION("children: each rule", RULE_KEYS);

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ---- the parent ---- */

static const struct template *load_key(
    const struct yaml_node *node, struct job_loader *loader)
{
    const struct template_scope scope = {
        .args = loader->args, .arg_count = loader->arg_count};
    struct slice text;

    if (!settings_text(
            node, true, loader->arena, &text, &loader->unset, loader->problems))
        return NULL;
    /* cppcheck-suppress CastIntegerToAddressAtReturn; template is a C name */
    return template_compile(
        text, node->mark, &scope, loader->arena, loader->problems);
}

static bool tombstone_text(const struct yaml_node *node, const char *name,
    struct job_loader *loader, struct entity *to)
{
    struct slice text;

    if (!settings_text(node, false, loader->arena, &text, &loader->unset,
            loader->problems))
        return false;
    entity_set_string(to, loader->arena, name, text);
    return true;
}

/* Do some YAML readers take text for a boolean? Such a text must be quoted. */
static bool is_like_a_boolean(struct slice text)
{
    static const char *const WORDS[] = {
        "true", "false", "yes", "no", "on", "off"};

    for (size_t i = 0; i < COUNT(WORDS); i++)
        if (text.len == strlen(WORDS[i]) &&
            strncasecmp(text.at, WORDS[i], text.len) == 0)
            return true;
    return false;
}

static bool wrong_boolean(const struct yaml_node *node, const char *name,
    const struct job_loader *loader)
{
    problems_add(loader->problems, node->mark,
        "tombstone property %s: %s must be true or false, or a text in quotes",
        name, node->text.at);
    return false;
}

/* Reads the value of a tombstone property. A plain scalar gets the type that
 * its text looks like; a quoted scalar, or one with an environment variable, is
 * a String. False: problems were added. */
static bool tombstone_value(const struct yaml_node *node, const char *name,
    struct job_loader *loader, struct entity *to)
{
    struct arena *arena = loader->arena;
    int64_t integer;
    double number;

    if (node->quoted)
        return tombstone_text(node, name, loader, to);
    if (slice_is(node->text, "true") || slice_is(node->text, "false"))
        entity_set_boolean(to, arena, name, slice_is(node->text, "true"));
    else if (text_int64(node->text, INT32_MIN, INT32_MAX, &integer))
        entity_set_int32(to, arena, name, (int32_t)integer);
    else if (text_int64(node->text, INT64_MIN, INT64_MAX, &integer))
        entity_set_int64(to, arena, name, integer);
    else if (text_double(node->text, &number))
        entity_set_double(to, arena, name, number);
    else if (is_like_a_boolean(node->text))
        return wrong_boolean(node, name, loader);
    else
        return tombstone_text(node, name, loader, to);
    return true;
}

static bool is_reserved(struct slice name)
{
    return slice_is(name, "PartitionKey") || slice_is(name, "RowKey") ||
           slice_is(name, "Timestamp") || slice_is(name, CASCADE_OWNER);
}

static bool load_tombstone_property(const struct yaml_node *key,
    const struct yaml_node *value, struct job_loader *loader, struct entity *to)
{
    struct err err;

    if (is_reserved(key->text)) {
        problems_add(loader->problems, key->mark,
            "a tombstone cannot set %s: choose another property, such as "
            "Deleted: true",
            key->text.at);
        return false;
    }
    if (entity_check_name(key->text, &err) != TW_OK) {
        problems_add(loader->problems, key->mark, "%s", err.text);
        return false;
    }
    if (value->type != YAML_SCALAR || settings_is_null(value)) {
        problems_add(loader->problems, value->mark,
            "tombstone property %s needs a value: true, a number or a text",
            key->text.at);
        return false;
    }
    return tombstone_value(value, key->text.at, loader, to);
}

static const struct entity *load_tombstone(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct entity *tombstone = arena_alloc(loader->arena, sizeof(*tombstone));
    bool good = true;

    if (node->type != YAML_MAP || node->count == 0) {
        problems_add(loader->problems, node->mark,
            "`tombstone:` needs properties, such as {Deleted: true}: they show "
            "readers and writers that the parent is being deleted");
        return NULL;
    }
    entity_init(tombstone, loader->arena, slice_of(""), slice_of(""));
    for (size_t i = 0; i < node->count; i++)
        good = load_tombstone_property(
                   node->keys[i], node->items[i], loader, tombstone) &&
               good;
    return good ? tombstone : NULL;
}

/* Check that `created` can name the property to which the application writes
 * the time of creation. It cannot be a property that the service, or the
 * tombstone, writes. */
static enum tw_err check_created(
    struct slice name, const struct entity *tombstone, struct err *err)
{
    if (entity_check_name(name, err) != TW_OK)
        return TW_INVALID;
    if (is_reserved(name))
        return err_fail(err, TW_INVALID,
            "the application cannot set %.*s when it creates a parent",
            SLICE_ARG(name));
    if (tombstone && entity_find(tombstone, name))
        return err_fail(
            err, TW_INVALID, "%.*s is set by the tombstone", SLICE_ARG(name));
    return TW_OK;
}

/* Reads `created`. Without this key, cascade->created stays empty. */
static bool load_created(struct slice name, const struct yaml_node *map,
    const struct job_loader *loader, struct cascade *cascade)
{
    struct err err;

    if (!name.at)
        return true;
    if (check_created(name, cascade->tombstone, &err) != TW_OK) {
        problems_add(loader->problems, table_ref_mark(map, "created"),
            "`created` must name a property that the application can set: %s",
            err.text);
        return false;
    }
    cascade->created = name;
    return true;
}

static bool load_parent(const struct yaml_node *node, struct job_loader *loader,
    struct cascade *cascade)
{
    struct parent_map map = {.table.len = 0};
    struct table_ref table_ref = {.table = NULL};
    bool good = settings_load(node, "parent", PARENT_KEYS, COUNT(PARENT_KEYS),
        loader->arena, &map, loader->problems);

    if (map.table.at)
        good = table_ref_load(node, map.store, map.table, loader, &table_ref) &&
               good;
    cascade->store = table_ref.store;
    cascade->table = table_ref.table;
    if (map.partition_key)
        cascade->partition_key = load_key(map.partition_key, loader);
    if (map.row_key)
        cascade->row_key = load_key(map.row_key, loader);
    if (map.tombstone)
        cascade->tombstone = load_tombstone(map.tombstone, loader);
    good = load_created(map.created, node, loader, cascade) && good;
    return good && cascade->partition_key && cascade->row_key &&
           cascade->tombstone;
}

/* ---- the rules ---- */

bool cascade_same_table(
    size_t store_a, const char *table_a, size_t store_b, const char *table_b)
{
    return store_a == store_b && strcasecmp(table_a, table_b) == 0;
}

bool cascade_share_table(const struct rule *a, const struct rule *b)
{
    return cascade_same_table(a->store, a->table, b->store, b->table);
}

static bool contest(
    const struct rule *rules, size_t count, const struct rule *rule)
{
    for (size_t i = 0; i < count; i++) {
        const struct rule *other = &rules[i];

        if (other->child_count == 0)
            continue;
        if (cascade_share_table(other, rule) ||
            contest(other->children, other->child_count, rule))
            return true;
    }
    return false;
}

bool cascade_is_contested(
    const struct cascade *cascade, const struct rule *rule)
{
    return contest(cascade->rules, cascade->rule_count, rule);
}

struct names {
    struct slice *list;
    size_t count, room;
    struct arena *arena;
};

static void names_add(void *ctx, struct slice name)
{
    struct names *names = ctx;

    for (size_t i = 0; i < names->count; i++)
        if (slice_equal(names->list[i], name))
            return;
    if (names->count == names->room) {
        size_t room = names->room ? 2 * names->room : 8;
        struct slice *list = arena_alloc(names->arena, room * sizeof(*list));

        if (names->count > 0)
            memcpy(list, names->list, names->count * sizeof(*list));
        names->list = list;
        names->room = room;
    }
    names->list[names->count++] = name;
}

/* Returns the names of the properties that the templates of rules read of the
 * entity above. */
static const struct slice *collect_needs(const struct rule *rules, size_t count,
    struct arena *arena, size_t *ret_count)
{
    struct names names = {.arena = arena};

    for (size_t i = 0; i < count; i++)
        selector_properties(&rules[i].selector, names_add, &names);
    *ret_count = names.count;
    return names.list;
}

static struct rule *load_rules(const struct yaml_node *node, unsigned depth,
    struct job_loader *loader, size_t *ret_count);

static bool load_rule(const struct yaml_node *node, unsigned depth,
    struct job_loader *loader, struct rule *rule)
{
    const struct template_scope scope = {.args = loader->args,
        .arg_count = loader->arg_count,
        .has_entity = true};
    struct rule_map map = {.table.len = 0};
    struct table_ref table_ref = {.table = NULL};
    bool good = settings_load(node, "a child rule", RULE_KEYS, COUNT(RULE_KEYS),
        loader->arena, &map, loader->problems);

    if (map.table.at)
        good = table_ref_load(node, map.store, map.table, loader, &table_ref) &&
               good;
    rule->store = table_ref.store;
    rule->table = table_ref.table;
    rule->mark = node->mark;
    rule->optional = map.optional;
    good = selector_load(&map.nodes, &scope, loader->arena, &rule->selector,
               &loader->unset, loader->problems) &&
           good;
    if (good && selector_is_empty(&rule->selector)) {
        problems_add(loader->problems, node->mark,
            "this rule would select every entity of %s: restrict it by "
            "partition_key, partition_key_prefix, row_key, row_key_prefix or "
            "filter",
            rule->table);
        good = false;
    }
    if (map.children) {
        rule->children =
            load_rules(map.children, depth + 1, loader, &rule->child_count);
        good = good && rule->children;
        rule->needs = collect_needs(rule->children, rule->child_count,
            loader->arena, &rule->need_count);
    }
    return good;
}

/* Returns the rules in node, which must be a list. NULL: problems were added,
 * and *ret_count is not set. */
static struct rule *load_rules(const struct yaml_node *node, unsigned depth,
    struct job_loader *loader, size_t *ret_count)
{
    struct rule *rules;
    bool good = true;

    if (node->type != YAML_LIST || node->count == 0) {
        problems_add(loader->problems, node->mark,
            "children must be a list of rules: [{table: Blogs, partition_key: "
            "\"{channel}\"}]");
        return NULL;
    }
    if (depth >= CASCADE_MAX_DEPTH) {
        problems_add(loader->problems, node->mark,
            "children are nested more than %d deep", CASCADE_MAX_DEPTH);
        return NULL;
    }
    rules = arena_alloc(loader->arena, node->count * sizeof(*rules));
    for (size_t i = 0; i < node->count; i++)
        good = load_rule(node->items[i], depth, loader, &rules[i]) && good;
    if (!good)
        return NULL;
    *ret_count = node->count;
    return rules;
}

/* ---- what first-level rules read of the parent ---- */

/* Checks that a first-level rule may read the property. Every pass reads the
 * parent again and must bind the rules to the same values, so rules may not
 * read properties that the tombstone itself changes. */
static bool check_need(const struct cascade *cascade, struct slice name,
    struct mark mark, struct problems *problems)
{
    if (!slice_is(name, "Timestamp") && !slice_is(name, CASCADE_OWNER) &&
        !entity_find(cascade->tombstone, name))
        return true;
    problems_add(problems, mark,
        "this rule reads property %.*s of the parent, which the tombstone "
        "changes: use another property",
        SLICE_ARG(name));
    return false;
}

/* Warns if the name of a property is similar to an argument. Any name may be
 * that of a property, so a misspelled argument is read as a property. */
static void warn_of_argument(
    struct slice name, struct mark mark, struct job_loader *loader)
{
    const char **args =
        arena_alloc(loader->arena, (loader->arg_count + 1) * sizeof(*args));
    const char *near;

    for (size_t i = 0; i < loader->arg_count; i++)
        args[i] = arena_copy(loader->arena, loader->args[i]).at;
    near = text_nearest(name, args, loader->arg_count);
    if (near)
        problems_warn(loader->problems, mark,
            "this rule reads property '%.*s' of the parent: did you mean the "
            "argument '%s'?",
            SLICE_ARG(name), near);
}

static bool check_reads(
    const struct cascade *cascade, struct rule *rule, struct job_loader *loader)
{
    size_t count;
    const struct slice *names = collect_needs(rule, 1, loader->arena, &count);
    bool good = true;

    rule->reads_parent = count > 0;
    for (size_t i = 0; i < count; i++) {
        good =
            check_need(cascade, names[i], rule->mark, loader->problems) && good;
        warn_of_argument(names[i], rule->mark, loader);
    }
    return good;
}

static bool check_first_level(
    struct cascade *cascade, struct job_loader *loader)
{
    bool good = true;

    for (size_t i = 0; i < cascade->rule_count && cascade->tombstone; i++)
        good = check_reads(cascade, &cascade->rules[i], loader) && good;
    cascade->needs = collect_needs(cascade->rules, cascade->rule_count,
        loader->arena, &cascade->need_count);
    return good;
}

/* ---- settle and the job ---- */

static bool wrong_settle(
    const struct yaml_node *node, struct problems *problems)
{
    problems_add(problems, node->mark,
        "settle must be a duration of at most 7 days (168h), such as 5s, or a "
        "rising list of up to %d, such as [5s, 20m]",
        CASCADE_MAX_SETTLES);
    return false;
}

/* Adds one settle time. node is the value of `settle`. item is one element of
 * node if node is a list, else node itself. */
static bool add_settle(const struct yaml_node *node,
    const struct yaml_node *item, struct job_loader *loader,
    struct cascade *cascade)
{
    size_t count = cascade->settle_count;
    struct slice text;
    int64_t ms;

    if (item->type != YAML_SCALAR || settings_is_null(item))
        return wrong_settle(node, loader->problems);
    if (!settings_text(
            item, false, loader->arena, &text, NULL, loader->problems))
        return false;
    if (!text_duration_ms(text, &ms) || ms > SETTLE_MAX_MS ||
        (count > 0 && ms <= cascade->settle_ms[count - 1]))
        return wrong_settle(node, loader->problems);
    cascade->settle_ms[cascade->settle_count++] = ms;
    return true;
}

static bool load_settle(const struct yaml_node *node, struct job_loader *loader,
    struct cascade *cascade)
{
    if (node->type != YAML_LIST)
        return add_settle(node, node, loader, cascade);
    if (node->count == 0 || node->count > CASCADE_MAX_SETTLES)
        return wrong_settle(node, loader->problems);
    for (size_t i = 0; i < node->count; i++)
        if (!add_settle(node, node->items[i], loader, cascade))
            return false;
    return true;
}

/* Returns a rule for a table of this name in another store, or NULL. */
static const struct rule *namesake(
    const struct rule *rules, size_t count, size_t store, const char *table)
{
    const struct rule *found = NULL;

    for (size_t i = 0; i < count && !found; i++)
        if (rules[i].store != store && strcasecmp(rules[i].table, table) == 0)
            found = &rules[i];
        else
            found =
                namesake(rules[i].children, rules[i].child_count, store, table);
    return found;
}

/* Calls namesake() for the table of each rule in `rules` and of each rule below
 * them. Returns the first rule that a call finds, or NULL. */
static const struct rule *any_namesake(
    const struct cascade *cascade, const struct rule *rules, size_t count)
{
    const struct rule *found = NULL;

    for (size_t i = 0; i < count && !found; i++) {
        found = namesake(cascade->rules, cascade->rule_count, rules[i].store,
            rules[i].table);
        if (!found)
            found =
                any_namesake(cascade, rules[i].children, rules[i].child_count);
    }
    return found;
}

/* Refuse an archive if two tables have the same name, because an archive
 * identifies a table by its name only. */
static bool check_archived(
    const struct cascade *cascade, struct problems *problems)
{
    const struct rule *same;

    if (!cascade->archive)
        return true;
    same = namesake(
        cascade->rules, cascade->rule_count, cascade->store, cascade->table);
    if (!same)
        same = any_namesake(cascade, cascade->rules, cascade->rule_count);
    if (!same)
        return true;
    problems_add(problems, same->mark,
        "this job has a table %s in two stores, and `archive:` would write "
        "both to one file: remove `archive:`, or use a separate job for one of "
        "them",
        same->table);
    return false;
}

static bool load_archive(struct slice folder, const struct yaml_node *map,
    const struct job_loader *loader, struct cascade *cascade)
{
    if (folder.at && folder.len == 0) {
        problems_add(loader->problems, table_ref_mark(map, "archive"),
            "`archive:` is empty: name a folder, or remove the key");
        return false;
    }
    cascade->archive = folder.at;
    return true;
}

struct cascade *cascade_rules_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct cascade *cascade = arena_alloc(loader->arena, sizeof(*cascade));
    struct job_map map = {.refuse_above = -1};
    char *what = mem_format("job %s", loader->job);
    bool good = settings_load(node, what, JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    if (map.parent)
        good = load_parent(map.parent, loader, cascade) && good;
    if (map.children) {
        cascade->rules =
            load_rules(map.children, 0, loader, &cascade->rule_count);
        good = cascade->rules && check_first_level(cascade, loader) &&
               cascade_overlap_check(cascade, loader->problems) &&
               cascade_ends_check(cascade, loader->problems) && good;
    }
    if (map.settle)
        good = load_settle(map.settle, loader, cascade) && good;
    else
        cascade->settle_ms[cascade->settle_count++] = 5000;
    cascade->refuse_above = map.refuse_above;
    good = load_archive(map.archive, node, loader, cascade) && good;
    mem_free(what);
    good = good && check_archived(cascade, loader->problems);
    return good ? cascade : NULL;
}

/* ---- explain ---- */

static void explain_rules(
    const struct rule *rules, size_t count, unsigned depth, struct buf *to)
{
    for (size_t i = 0; i < count; i++) {
        const struct rule *rule = &rules[i];

        explain_rules(rule->children, rule->child_count, depth + 1, to);
        buf_add_format(
            to, "%*sdelete from %s where ", (int)(2 * depth), "", rule->table);
        selector_explain(&rule->selector, to);
        if (rule->child_count > 0)
            buf_add_text(to, ", each once nothing is left under it");
        if (rule->optional)
            buf_add_text(to, " (the table may be missing)");
        buf_add_char(to, '\n');
    }
}

void cascade_rules_explain(const struct cascade *cascade, struct buf *to)
{
    buf_add_format(to,
        "merge the tombstone into %s (PartitionKey \"%.*s\", RowKey "
        "\"%.*s\")\n",
        cascade->table, SLICE_ARG(template_source(cascade->partition_key)),
        SLICE_ARG(template_source(cascade->row_key)));
    explain_rules(cascade->rules, cascade->rule_count, 0, to);
    buf_add_text(to, "search again for late children after");
    for (size_t i = 0; i < cascade->settle_count; i++)
        buf_add_format(to, "%s %lld ms", i > 0 ? "," : "",
            (long long)cascade->settle_ms[i]);
    buf_add_format(
        to, "\ndelete the parent in %s, last of all\n", cascade->table);
    if (cascade->refuse_above >= 0)
        buf_add_format(to,
            "fail before any write if there are more than %lld entities\n",
            (long long)cascade->refuse_above);
    if (cascade->archive)
        buf_add_format(to,
            "store each entity in the folder %s before its delete\n",
            cascade->archive);
}
