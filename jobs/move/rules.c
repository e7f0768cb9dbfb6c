/* SPDX-License-Identifier: MIT */
/* The configuration of a move job, read and checked. */
#include "jobs/move/rules.h"

#include <string.h>

#include "config/settings.h"
#include "jobs/job.h"
#include "worker/base/text.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *const CONFLICTS[] = {"fail", "skip", "accept_equal", NULL};

/* The map of the job itself. The caller has already read `kind` and `args`. */
struct job_map {
    struct yaml_node *kind, *args, *from, *to, *properties, *failures;
    int on_conflict;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind), .help = "move"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "the arguments of a run"},
    {"from", SETTING_NODE, SETTING_FIELD(struct job_map, from),
        .required = true, .help = "{table: Blogs, filter: \"...\"}"},
    {"to", SETTING_NODE, SETTING_FIELD(struct job_map, to), .required = true,
        .help = "{table: OldBlogs, partition_key: \"...\", row_key: \"...\"}"},
    {"properties", SETTING_NODE, SETTING_FIELD(struct job_map, properties),
        .help = "{keep: [], drop: [], rename: {}, set: {}}; default: all"},
    {"on_conflict", SETTING_CHOICE, SETTING_FIELD(struct job_map, on_conflict),
        .fallback = "fail", .choices = CONFLICTS,
        .help =
            "what to do if an entity with the destination keys exists already"},
    {"failures", SETTING_NODE, SETTING_FIELD(struct job_map, failures),
        .help = "a folder for JSON Lines of failed entities"},
};

const struct settings_section move_job_section =
    SETTINGS_SECTION("a move job", JOB_KEYS);

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

const struct settings_section move_from_section =
    SETTINGS_SECTION("from", FROM_KEYS);

/* ---- ranges of keys ---- */

/* A range of keys relative to a text, in UTF-16 order. */
struct range {
    enum { ONLY, PREFIX, FROM, BELOW } relation;
    struct slice text;
};

/* The intersection of several ranges: the keys that are in each of them. */
struct ranges {
    struct range list[4];
    size_t count;
};

/* Returns the text of a template before its first {..}, with {{ and }}
 * unescaped. */
static struct slice literal_of(
    const struct template *template, struct arena *arena)
{
    struct slice source = template_source(template), literal;
    struct buf text;

    buf_init(&text, source.len + 1);
    for (size_t i = 0; i < source.len; i++) {
        bool doubled = i + 1 < source.len && source.at[i + 1] == source.at[i];

        if (source.at[i] == '{' && !doubled)
            break;
        buf_add_char(&text, source.at[i]);
        i += source.at[i] == '{' || source.at[i] == '}';
    }
    literal = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return literal;
}

static void add_range(struct ranges *ranges, int relation, struct slice text)
{
    ranges->list[ranges->count].relation = relation;
    ranges->list[ranges->count++].text = text;
}

/* Returns ranges that contain every selected PartitionKey (first is
 * SELECTOR_PARTITION_KEY) or every selected RowKey (first is SELECTOR_ROW_KEY),
 * whatever the arguments of a run are. */
static struct ranges selected_ranges(const struct selector *selector,
    enum selector_key first, struct arena *arena)
{
    struct ranges ranges = {.count = 0};

    for (int i = 0; i < SELECTOR_ROW_KEY; i++) {
        const struct template *template = selector->keys[(int)first + i];
        struct slice literal;

        if (!template)
            continue;
        literal = literal_of(template, arena);
        if (template_is_constant(template))
            add_range(&ranges, i, literal);
        else if (i == ONLY || i == PREFIX)
            add_range(&ranges, PREFIX, literal);
        else if (i == FROM)
            add_range(&ranges, FROM, literal);
    }
    return ranges;
}

static struct ranges made_ranges(
    const struct template *template, struct arena *arena)
{
    struct ranges ranges = {.count = 0};

    add_range(&ranges, template_is_constant(template) ? ONLY : PREFIX,
        literal_of(template, arena));
    return ranges;
}

/* Is every key in range `a` before every key in range `b`? Both ranges must
 * have keys. */
static bool is_before(const struct range *a, const struct range *b)
{
    int order = text_utf16_compare(a->text, b->text);

    if (b->relation == BELOW || a->relation == FROM)
        return false;
    if (a->relation == BELOW)
        return order <= 0;
    return order < 0 &&
           !(a->relation == PREFIX && slice_begins(b->text, a->text));
}

static bool are_disjoint(const struct ranges *a, const struct ranges *b)
{
    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; j < b->count; j++)
            if (is_before(&a->list[i], &b->list[j]) ||
                is_before(&b->list[j], &a->list[i]))
                return true;
    return false;
}

static bool keys_disjoint(const struct selector *selector,
    enum selector_key first, const struct template *made, struct arena *arena)
{
    struct ranges selected = selected_ranges(selector, first, arena), keys;
    const char *same =
        first == SELECTOR_ROW_KEY ? "{RowKey}" : "{PartitionKey}";

    if (!made || slice_is(template_source(made), same))
        return false; /* each copy keeps this key of its source */
    keys = made_ranges(made, arena);
    return are_disjoint(&selected, &keys);
}

static const char *describe_overlap(
    const struct move_rules *rules, struct arena *arena)
{
    struct buf text;
    const char *sentence;

    buf_init(&text, 4096);
    buf_add_format(&text, "the selection (%s",
        selector_is_empty(&rules->selector) ? "every entity" : "");
    selector_explain(&rules->selector, &text);
    buf_add_text(&text, ") and the destination keys (");
    copying_explain(&rules->to, &text);
    buf_add_format(&text,
        ") may overlap in table %s, so an entity could be moved onto a source: "
        "give the copies a literal PartitionKey, a prefix or a range that "
        "`from:` does not select, or another table",
        rules->from.table);
    sentence = arena_copy(arena, buf_slice(&text)).at;
    buf_done(&text);
    return sentence;
}

static void check_disjoint(struct move_rules *rules, struct arena *arena)
{
    rules->disjoint = keys_disjoint(&rules->selector, SELECTOR_PARTITION_KEY,
                          rules->to.partition_key, arena) ||
                      keys_disjoint(&rules->selector, SELECTOR_ROW_KEY,
                          rules->to.row_key, arena);
    if (!rules->disjoint)
        rules->overlap = describe_overlap(rules, arena);
}

/* ---- source and destination ---- */

static bool load_from(const struct yaml_node *node, struct job_loader *loader,
    struct move_rules *rules)
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

static bool load_to(const struct job_map *map, struct job_loader *loader,
    struct move_rules *rules)
{
    struct copying_shape shape = {.keep_count = 0};
    const struct copying_defaults defaults = {
        .shape = &shape, .reserved = slice_of("")};

    if (map->properties &&
        !copying_load_shape(map->properties, defaults.reserved, loader, &shape))
        return false;
    if (map->to->type == YAML_LIST) {
        problems_add(loader->problems, map->to->mark,
            "`to` is a list, but a move has one destination: write one map, or "
            "use kind: copy for several copies of each source");
        return false;
    }
    return copying_load_target(map->to, &defaults, loader, &rules->to);
}

struct move_rules *move_rules_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    struct move_rules *rules = arena_alloc(loader->arena, sizeof(*rules));
    struct job_map map = {.from = NULL};
    bool good = settings_load(node, "a move job", JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    rules->on_conflict = (enum move_conflict)map.on_conflict;
    good = map.from && load_from(map.from, loader, rules) && good;
    good = map.to && load_to(&map, loader, rules) && good;
    if (!good)
        return NULL;
    check_disjoint(rules, loader->arena);
    if (!rules->disjoint && !loader->unset &&
        table_ref_same(&rules->from, &rules->to.table_ref)) {
        problems_add(loader->problems, map.to->mark, "%s", rules->overlap);
        return NULL;
    }
    return rules;
}

/* ---- explain ---- */

void move_rules_explain(const struct move_rules *rules, struct buf *to)
{
    static const char *const ENDS[] = {
        [MOVE_FAIL] = "the source stays and is reported as failed",
        [MOVE_SKIP] = "the source stays and is counted as skipped",
        [MOVE_ACCEPT_EQUAL] = ("an equal entity is accepted as the copy; else "
                               "the source stays and is reported as failed"),
    };
    const char *table = rules->from.table;
    bool all = selector_is_empty(&rules->selector);

    buf_add_format(to, "read %s%s%s", all ? "every entity of " : "", table,
        all ? "" : " where ");
    selector_explain(&rules->selector, to);
    buf_add_char(to, '\n');
    if (rules->on_conflict == MOVE_ACCEPT_EQUAL)
        buf_add_text(to,
            "(accept_equal: stop the writers of source and destination first; "
            "a source and an equal entity at the destination become one)\n");
    buf_add_text(to, "store an intent beside the ledger\n");
    buf_add_format(to, "insert each into %s: ", rules->to.table_ref.table);
    copying_explain(&rules->to, to);
    buf_add_format(
        to, "; if an entity is there already, %s\n", ENDS[rules->on_conflict]);
    buf_add_format(to,
        "read the copies back, then delete each from %s with the ETag that was "
        "copied\n",
        table);
}
