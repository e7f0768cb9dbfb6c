/* SPDX-License-Identifier: MIT */
/* The configuration of a schema-upgrade job, read, checked and linked. */
#include "jobs/upgrade/rules.h"

#include <inttypes.h>
#include <math.h>

#include "config/settings.h"
#include "jobs/engine/convert.h"
#include "jobs/engine/expression.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define SENTENCE_MAX 2048

static const char *const PHASES[] = {
    [UPGRADE_ALL] = "all",
    [UPGRADE_EXPAND] = "expand",
    [UPGRADE_CONTRACT] = "contract",
    NULL,
};

/* The map of the job itself; `kind` and `args` have been read already. */
struct job_map {
    struct yaml_node *kind, *args, *filter, *version, *steps;
    struct slice store, table;
    int phase;
    int64_t max_passes;
};

static const struct setting JOB_KEYS[] = {
    {"kind", SETTING_NODE, SETTING_FIELD(struct job_map, kind),
        .help = "schema-upgrade"},
    {"args", SETTING_NODE, SETTING_FIELD(struct job_map, args),
        .help = "the arguments of a run"},
    {"store", SETTING_TEXT, SETTING_FIELD(struct job_map, store),
        .help = "one of stores; default: default_store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct job_map, table),
        .required = true, .help = "the table"},
    {"filter", SETTING_NODE, SETTING_FIELD(struct job_map, filter),
        .help = "OData filter of the entities that are meant; default: all"},
    {"version", SETTING_NODE, SETTING_FIELD(struct job_map, version),
        .required = true, .help = "{property: SchemaVersion, from: 1, to: 2}"},
    {"steps", SETTING_NODE, SETTING_FIELD(struct job_map, steps),
        .required = true, .help = "what is done to each entity, in order"},
    {"phase", SETTING_CHOICE, SETTING_FIELD(struct job_map, phase),
        .fallback = "all", .choices = PHASES,
        .help = "which part of the steps"},
    {"max_passes", SETTING_INT, SETTING_FIELD(struct job_map, max_passes),
        .fallback = "10", .min = 1, .max = UPGRADE_MAX_PASSES,
        .help = "passes over the table before the run fails"},
};

struct version_map {
    struct slice property;
    struct yaml_node *from, *to;
};

static const struct setting VERSION_KEYS[] = {
    {"property", SETTING_TEXT, SETTING_FIELD(struct version_map, property),
        .required = true, .help = "the property that holds the version"},
    {"from", SETTING_NODE, SETTING_FIELD(struct version_map, from),
        .required = true, .help = "the version of entities to be upgraded"},
    {"to", SETTING_NODE, SETTING_FIELD(struct version_map, to),
        .required = true, .help = "the version they get"},
};

/* The map of any step. */
struct step_map {
    struct slice property, type, to, to_property;
    struct yaml_node *value, *on_error;
    bool lossy;
};

#define PROPERTY_KEY                                                           \
    {                                                                          \
        "property", SETTING_TEXT, SETTING_FIELD(struct step_map, property),    \
            .required = true, .help = "the property"                           \
    }

static const struct setting PUT_KEYS[] = {
    PROPERTY_KEY,
    {"type", SETTING_TEXT, SETTING_FIELD(struct step_map, type),
        .required = true, .help = "its type, such as Edm.String"},
    {"value", SETTING_NODE, SETTING_FIELD(struct step_map, value),
        .required = true, .help = "a constant, or a template"},
};

static const struct setting RENAME_KEYS[] = {
    PROPERTY_KEY,
    {"to", SETTING_TEXT, SETTING_FIELD(struct step_map, to), .required = true,
        .help = "its new name"},
};

static const struct setting RETYPE_KEYS[] = {
    PROPERTY_KEY,
    {"to", SETTING_TEXT, SETTING_FIELD(struct step_map, type), .required = true,
        .help = "its new type, such as Edm.Double"},
    {"to_property", SETTING_TEXT, SETTING_FIELD(struct step_map, to_property),
        .help = "a new property that gets the value; the old one stays"},
    {"lossy", SETTING_BOOL, SETTING_FIELD(struct step_map, lossy),
        .fallback = "false", .help = "convert what loses something too"},
    {"on_error", SETTING_NODE, SETTING_FIELD(struct step_map, on_error),
        .help = "fail, skip or null; default: fail"},
};

static const struct setting REMOVE_KEYS[] = {
    PROPERTY_KEY,
};

/* Where the parts of a step stand. */
struct step_marks {
    struct mark property, to, value;
    bool typed; /* the step's type is right */
};

/* What a step is read with. */
struct step_loader {
    struct job_loader *loader;
    struct slice version;         /* the property; empty: it is wrong itself */
    const struct yaml_node *node; /* the step's map */
    struct step_map map;
    struct upgrade_step *step;
    struct step_marks *marks;
};

/* ---- the version ---- */

/* The problem is added at mark. */
static bool check_name(
    struct slice name, struct mark mark, const struct job_loader *loader)
{
    static const char *const SYSTEM[] = {"PartitionKey", "RowKey", "Timestamp"};
    struct err err;

    for (size_t i = 0; i < COUNT(SYSTEM); i++)
        if (slice_is(name, SYSTEM[i])) {
            problems_add(loader->problems, mark,
                "%s stays as it is: an upgrade changes properties, neither "
                "keys nor Timestamp",
                SYSTEM[i]);
            return false;
        }
    if (entity_check_name(name, &err) != TW_OK) {
        problems_add(loader->problems, mark, "%s", err.text);
        return false;
    }
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_bare_text(const struct yaml_node *node)
{
    return node->text.len > 0 && is_letter(node->text.at[0]) &&
           !settings_is_null(node) && !slice_is(node->text, "true") &&
           !slice_is(node->text, "false");
}

/* An integer or a text, under the name of the version's property. */
static bool load_version_value(const struct yaml_node *node, const char *key,
    struct slice name, struct job_loader *loader, struct property *ret)
{
    struct arena *arena = loader->arena;
    struct entity holder = {.property_count = 0};
    struct slice text;
    int64_t integer;

    if (node->type == YAML_SCALAR && !node->quoted &&
        text_int64(node->text, INT64_MIN, INT64_MAX, &integer)) {
        if (integer >= INT32_MIN && integer <= INT32_MAX)
            entity_set_int32(&holder, arena, name.at, (int32_t)integer);
        else
            entity_set_int64(&holder, arena, name.at, integer);
    } else if (node->type == YAML_SCALAR &&
               (node->quoted || is_bare_text(node))) {
        if (!settings_text(node, false, arena, &text, NULL, loader->problems))
            return false;
        entity_set_string(&holder, arena, name.at, text);
    } else {
        settings_wrong(loader->problems, node, key,
            "a whole number such as 2, or a text in quotes");
        return false;
    }
    *ret = holder.properties[0];
    return true;
}

static bool load_version(const struct yaml_node *node,
    struct job_loader *loader, struct upgrade *upgrade)
{
    struct version_map map = {.from = NULL};
    bool good = settings_load(node, "version", VERSION_KEYS,
             COUNT(VERSION_KEYS), loader->arena, &map, loader->problems),
         both = map.from && map.to;

    if (map.property.at &&
        check_name(map.property, place_mark(node, "property"), loader))
        upgrade->version = map.property;
    else
        map.property = slice_of("Version");
    if (map.from)
        both = load_version_value(
                   map.from, "from", map.property, loader, &upgrade->from) &&
               both;
    if (map.to)
        both = load_version_value(
                   map.to, "to", map.property, loader, &upgrade->to) &&
               both;
    if (both && upgrade_rules_same_version(&upgrade->from, &upgrade->to)) {
        problems_add(loader->problems, map.to->mark,
            "from and to are the same version: an upgrade leads to another");
        return false;
    }
    return good && both && upgrade->version.len > 0;
}

/* ---- a step ---- */

/* One that this step writes or reads. */
static bool load_name(const struct step_loader *in, const char *key,
    struct slice name, struct slice *ret, struct mark *ret_mark)
{
    *ret_mark = place_mark(in->node, key);
    if (!name.at || !check_name(name, *ret_mark, in->loader))
        return false;
    if (slice_equal(name, in->version)) {
        problems_add(in->loader->problems, *ret_mark,
            "%s holds the version: it is written when the steps are done, and "
            "no step may touch it",
            name.at);
        return false;
    }
    *ret = name;
    return true;
}

/* "Int64" is near to Edm.Int64 too. */
static void unknown_type(const struct step_loader *in, const char *key)
{
    const char *names[CONVERT_TYPES], *near;
    struct mark mark = place_mark(in->node, key);
    struct slice word = in->map.type;
    struct buf text;

    for (int i = 0; i < CONVERT_TYPES; i++)
        names[i] = edm_type_name((enum edm_type)i);
    near = text_nearest(
        arena_format(in->loader->arena, "Edm.%.*s", SLICE_ARG(word)), names,
        CONVERT_TYPES);
    if (text_nearest(word, names, CONVERT_TYPES) || !near) {
        settings_unknown(
            in->loader->problems, mark, "type", word, names, CONVERT_TYPES);
        return;
    }
    buf_init(&text, SENTENCE_MAX);
    text_quote(&text, word);
    problems_add(in->loader->problems, mark,
        "unknown type %s, did you mean "
        "'%s'?",
        buf_text(&text), near);
    buf_done(&text);
}

static bool load_type(const struct step_loader *in, const char *key)
{
    if (!in->map.type.at)
        return false;
    in->marks->typed = edm_type_named(in->map.type, &in->step->edm);
    if (!in->marks->typed)
        unknown_type(in, key);
    return in->marks->typed;
}

/* The value of a template without {..}: converted once, and checked here. */
static bool load_constant(const struct step_loader *in)
{
    const struct run_args args = {.count = 0};
    struct upgrade_step *step = in->step;
    struct property value;
    struct entity alone = {.partition_key = slice_of(""),
        .row_key = slice_of(""),
        .properties = &value,
        .property_count = 1};
    struct buf text;
    struct err err;
    enum tw_err outcome;

    buf_init(&text, SIZE_MAX / 2);
    outcome = template_render(step->value, &args, NULL, &text, &err);
    if (outcome == TW_OK)
        outcome = convert_text(step->property, buf_slice(&text), step->edm,
            in->loader->arena, &value, &err);
    if (outcome == TW_OK)
        outcome = entity_check(&alone, &err);
    buf_done(&text);
    if (outcome != TW_OK) {
        problems_add(in->loader->problems, in->map.value->mark,
            "this value cannot be %s: %s", edm_type_name(step->edm), err.text);
        return false;
    }
    step->constant = memcpy(
        arena_alloc(in->loader->arena, sizeof(value)), &value, sizeof(value));
    return true;
}

/* is_whole: name and type are right. */
static bool load_value(const struct step_loader *in, bool is_whole)
{
    struct job_loader *loader = in->loader;
    const struct template_scope scope = {.args = loader->args,
        .arg_count = loader->arg_count,
        .has_entity = true};
    const struct yaml_node *node = in->map.value;
    const char *unset = NULL;
    struct slice text;

    if (!node || !settings_text(node, true, loader->arena, &text, &unset,
                     loader->problems))
        return false;
    if (unset && !loader->unset)
        loader->unset = unset;
    in->marks->value = template_mark(node);
    in->step->value = template_compile(
        text, in->marks->value, &scope, loader->arena, loader->problems);
    if (!in->step->value)
        return false;
    return !is_whole || unset || !template_is_constant(in->step->value) ||
           load_constant(in);
}

static bool load_put(const struct step_loader *in)
{
    bool good = load_name(in, "property", in->map.property, &in->step->property,
        &in->marks->property);

    good = load_type(in, "type") && good;
    return load_value(in, good) && good;
}

static bool load_new_name(
    const struct step_loader *in, const char *key, struct slice name)
{
    if (!load_name(in, key, name, &in->step->to, &in->marks->to))
        return false;
    if (!slice_equal(name, in->map.property))
        return true;
    problems_add(in->loader->problems, in->marks->to,
        "%s is the property itself: give it another name", name.at);
    in->step->to = (struct slice){NULL, 0};
    return false;
}

static bool load_rename(const struct step_loader *in)
{
    bool good = load_name(in, "property", in->map.property, &in->step->property,
        &in->marks->property);

    return load_new_name(in, "to", in->map.to) && good;
}

/* `null` is written bare, and means itself. */
static bool load_on_error(const struct step_loader *in)
{
    static const char *const WORDS[] = {[UPGRADE_FAIL] = "fail",
        [UPGRADE_SKIP] = "skip",
        [UPGRADE_NULL] = "null"};
    const struct yaml_node *node = in->map.on_error;
    struct slice text = slice_of("");

    if (!node)
        return true;
    if (node->type == YAML_SCALAR && slice_is(node->text, "null"))
        text = node->text;
    else if (!settings_text(node, false, in->loader->arena, &text, NULL,
                 in->loader->problems))
        return false;
    for (size_t i = 0; i < COUNT(WORDS); i++)
        if (slice_is(text, WORDS[i])) {
            in->step->on_error = (enum upgrade_on_error)i;
            return true;
        }
    settings_unknown(in->loader->problems, node->mark, "on_error", text, WORDS,
        COUNT(WORDS));
    return false;
}

static bool load_retype(const struct step_loader *in)
{
    bool good = load_name(in, "property", in->map.property, &in->step->property,
        &in->marks->property);

    good = load_type(in, "to") && good;
    if (in->map.to_property.at)
        good = load_new_name(in, "to_property", in->map.to_property) && good;
    in->step->lossy = in->map.lossy;
    return load_on_error(in) && good;
}

static bool load_remove(const struct step_loader *in)
{
    return load_name(in, "property", in->map.property, &in->step->property,
        &in->marks->property);
}

/* By enum upgrade_step_type. */
static const struct {
    const char *name, *what;
    const struct setting *keys;
    size_t key_count;
    bool (*load)(const struct step_loader *in);
} STEPS[] = {
    [UPGRADE_ADD] = {"add", "the step add", PUT_KEYS, COUNT(PUT_KEYS),
        load_put},
    [UPGRADE_SET] = {"set", "the step set", PUT_KEYS, COUNT(PUT_KEYS),
        load_put},
    [UPGRADE_RENAME] = {"rename", "the step rename", RENAME_KEYS,
        COUNT(RENAME_KEYS), load_rename},
    [UPGRADE_RETYPE] = {"retype", "the step retype", RETYPE_KEYS,
        COUNT(RETYPE_KEYS), load_retype},
    [UPGRADE_REMOVE] = {"remove", "the step remove", REMOVE_KEYS,
        COUNT(REMOVE_KEYS), load_remove},
};

const char *upgrade_step_name(enum upgrade_step_type type)
{
    return STEPS[type].name;
}

static bool find_step_type(const struct yaml_node *word,
    const struct job_loader *loader, enum upgrade_step_type *ret)
{
    const char *names[COUNT(STEPS)];

    for (size_t i = 0; i < COUNT(STEPS); i++) {
        names[i] = STEPS[i].name;
        if (slice_is(word->text, names[i])) {
            *ret = (enum upgrade_step_type)i;
            return true;
        }
    }
    settings_unknown(
        loader->problems, word->mark, "step", word->text, names, COUNT(STEPS));
    return false;
}

/* {add: {...}} */
static bool load_step(const struct yaml_node *node, struct step_loader *in)
{
    struct upgrade_step *step = in->step;
    struct problems *problems = in->loader->problems;
    bool good;

    if (node->type != YAML_MAP || node->count == 0) {
        settings_wrong(problems, node, "a step",
            "add, set, rename, retype or remove, such as - remove: "
            "{property: Legacy}");
        return false;
    }
    if (node->count > 1) {
        problems_add(problems, node->keys[1]->mark,
            "a step is one key: begin the next step with a - of its own");
        return false;
    }
    step->mark = node->keys[0]->mark;
    if (!find_step_type(node->keys[0], in->loader, &step->type))
        return false;
    in->node = node->items[0];
    in->map = (struct step_map){.lossy = false};
    good =
        settings_load(in->node, STEPS[step->type].what, STEPS[step->type].keys,
            STEPS[step->type].key_count, in->loader->arena, &in->map, problems);
    return in->node->type == YAML_MAP && STEPS[step->type].load(in) && good;
}

/* ---- the order of the steps ---- */

/* What the steps are checked against one another with. */
struct order {
    const struct upgrade *upgrade;
    const struct step_marks *marks;
    struct problems *problems;
    bool good;
};

static bool names(struct slice a, struct slice b)
{
    return a.len > 0 && slice_equal(a, b);
}

/* Does step give the entity a property of that name? */
static bool makes(const struct upgrade_step *step, struct slice name)
{
    if (step->type == UPGRADE_ADD || step->type == UPGRADE_SET)
        return names(step->property, name);
    return names(step->to, name);
}

/* Is it gone once step is done? */
static bool takes(const struct upgrade_step *step, struct slice name)
{
    return (step->type == UPGRADE_RENAME || step->type == UPGRADE_REMOVE) &&
           names(step->property, name);
}

/* The same once contract is done too. */
static bool takes_at_last(const struct upgrade_step *step, struct slice name)
{
    return takes(step, name) ||
           (step->type == UPGRADE_RETYPE && step->to.len > 0 &&
               names(step->property, name));
}

#define GONE "%.*s is no longer there: the %s in line %u takes it away"

/* The step before step i that took name away, if none has made it since. */
static const struct upgrade_step *taken_before(
    const struct upgrade *upgrade, size_t i, struct slice name)
{
    while (i-- > 0) {
        const struct upgrade_step *step = &upgrade->steps[i];

        if (makes(step, name))
            return NULL;
        if (takes(step, name))
            return step;
    }
    return NULL;
}

static bool is_name_byte(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_word_at(struct slice text, size_t at, struct slice word)
{
    size_t end = at + word.len;

    return end <= text.len && memcmp(text.at + at, word.at, word.len) == 0 &&
           (at == 0 || !is_name_byte(text.at[at - 1])) &&
           (end == text.len || !is_name_byte(text.at[end]));
}

/* Where a template first reads name: within braces, and not in quotes. */
static size_t read_at(struct slice template, struct slice name)
{
    bool inside = false, quoted = false;

    for (size_t i = 0; i < template.len; i++) {
        struct slice rest = {template.at + i, template.len - i};

        if (!inside && *rest.at == '{') {
            inside = !slice_begins(rest, slice_of("{{"));
            i += !inside;
        } else if (inside && *rest.at == '\'') {
            quoted = !quoted;
        } else if (inside && !quoted && *rest.at == '}') {
            inside = false;
        } else if (inside && !quoted && is_word_at(template, i, name)) {
            return i;
        }
    }
    return 0;
}

static void check_template(
    struct order *order, size_t i, const struct template *template)
{
    struct expression_reader place = {.text = template_source(template),
        .mark = order->marks[i].value,
        .problems = order->problems};
    size_t count;
    const struct slice *read = template_properties(template, &count);

    for (size_t k = 0; k < count; k++) {
        const struct upgrade_step *taker =
            taken_before(order->upgrade, i, read[k]);

        if (!taker)
            continue;
        expression_problem(&place, read_at(place.text, read[k]), GONE,
            SLICE_ARG(read[k]), upgrade_step_name(taker->type),
            taker->mark.line);
        order->good = false;
    }
}

static void check_reads(struct order *order, size_t i)
{
    const struct upgrade_step *step = &order->upgrade->steps[i], *taker;

    if (step->value)
        check_template(order, i, step->value);
    if (step->type == UPGRADE_ADD || step->type == UPGRADE_SET)
        return;
    taker = taken_before(order->upgrade, i, step->property);
    if (!taker)
        return;
    problems_add(order->problems, order->marks[i].property, GONE,
        SLICE_ARG(step->property), upgrade_step_name(taker->type),
        taker->mark.line);
    order->good = false;
}

/* A rename or a to_property onto what another step gives. */
static void check_onto(struct order *order, size_t i)
{
    const struct upgrade *upgrade = order->upgrade;
    struct slice to = upgrade->steps[i].to;

    for (size_t k = 0; k < upgrade->step_count; k++) {
        const struct upgrade_step *other = &upgrade->steps[k];
        bool puts = other->type == UPGRADE_ADD || other->type == UPGRADE_SET;

        /* Of two renames the second is the wrong one. */
        if (k == i || (!puts && k > i) || !makes(other, to))
            continue;
        problems_add(order->problems, order->marks[i].to,
            "%.*s is what the %s in line %u gives an entity: onto a property "
            "that is there the %s would fail",
            SLICE_ARG(to), upgrade_step_name(other->type), other->mark.line,
            upgrade_step_name(upgrade->steps[i].type));
        order->good = false;
        return;
    }
}

/* contract would take away what expand has made under an old name. */
static void check_made_again(struct order *order, size_t i)
{
    const struct upgrade *upgrade = order->upgrade;
    const struct upgrade_step *step = &upgrade->steps[i];
    bool puts = step->type == UPGRADE_ADD || step->type == UPGRADE_SET;
    struct slice name = puts ? step->property : step->to;

    for (size_t k = 0; k < i; k++) {
        if (!takes_at_last(&upgrade->steps[k], name))
            continue;
        problems_add(order->problems,
            puts ? order->marks[i].property : order->marks[i].to,
            "%.*s is what the %s in line %u takes away in the end: between "
            "expand and contract it cannot be old and new at once",
            SLICE_ARG(name), upgrade_step_name(upgrade->steps[k].type),
            upgrade->steps[k].mark.line);
        order->good = false;
        return;
    }
}

static void check_phase(struct order *order, size_t i)
{
    const struct upgrade_step *step = &order->upgrade->steps[i];

    if (order->upgrade->phase == UPGRADE_ALL)
        return;
    if (step->type == UPGRADE_RETYPE && step->to.len == 0) {
        problems_add(order->problems, step->mark,
            "a retype in place cannot be parted into expand and contract: "
            "give it a to_property");
        order->good = false;
    }
    check_made_again(order, i);
}

/* The type that the steps before step i have given name; false: any. */
static bool known_type(
    const struct order *order, size_t i, struct slice name, enum edm_type *ret)
{
    while (i-- > 0) {
        const struct upgrade_step *step = &order->upgrade->steps[i];
        bool in_place = step->type == UPGRADE_RETYPE && step->to.len == 0 &&
                        names(step->property, name);

        if (takes(step, name))
            return false;
        if (makes(step, name) && step->type == UPGRADE_RENAME) {
            name = step->property;
        } else if (makes(step, name) || in_place) {
            *ret = step->edm;
            return order->marks[i].typed;
        }
    }
    return false;
}

static void check_way(struct order *order, size_t i)
{
    const struct upgrade_step *step = &order->upgrade->steps[i];
    enum edm_type from;
    const struct convert_way *way;

    if (step->type != UPGRADE_RETYPE || !order->marks[i].typed ||
        !known_type(order, i, step->property, &from))
        return;
    way = convert_way(from, step->edm);
    if (way->worth == CONVERT_EXACT ||
        (way->worth == CONVERT_LOSSY && step->lossy))
        return;
    order->good = false;
    if (way->worth == CONVERT_LOSSY)
        problems_add(order->problems, step->mark,
            "from %s to %s something is lost (%s): say lossy: true if that is "
            "meant",
            edm_type_name(from), edm_type_name(step->edm), way->how);
    else
        problems_add(order->problems, step->mark,
            "no %s can become %s (%s): remove it and add another",
            edm_type_name(from), edm_type_name(step->edm), way->how);
}

static bool check_order(const struct upgrade *upgrade,
    const struct step_marks *marks, struct problems *problems)
{
    struct order order = {upgrade, marks, problems, true};

    for (size_t i = 0; i < upgrade->step_count; i++) {
        check_reads(&order, i);
        check_onto(&order, i);
        check_phase(&order, i);
        check_way(&order, i);
    }
    return order.good;
}

static bool load_steps(const struct yaml_node *node, struct job_loader *loader,
    struct upgrade *upgrade)
{
    struct step_marks *marks;
    bool good = true;

    if (node->type != YAML_LIST || node->count == 0 ||
        node->count > UPGRADE_MAX_STEPS) {
        problems_add(loader->problems, node->mark,
            "steps wants a list of 1 to %d steps, such as - add: {property: "
            "Language, type: Edm.String, value: en}",
            UPGRADE_MAX_STEPS);
        return false;
    }
    upgrade->steps =
        arena_alloc(loader->arena, node->count * sizeof(*upgrade->steps));
    upgrade->step_count = node->count;
    marks = arena_alloc(loader->arena, node->count * sizeof(*marks));
    for (size_t i = 0; i < node->count; i++) {
        struct step_loader in = {.loader = loader,
            .version = upgrade->version,
            .step = &upgrade->steps[i],
            .marks = &marks[i]};

        good = load_step(node->items[i], &in) && good;
    }
    return check_order(upgrade, marks, loader->problems) && good;
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
    struct job_map map = {.phase = UPGRADE_ALL};
    char *what = mem_format("job %s", loader->job);
    bool good = settings_load(node, what, JOB_KEYS, COUNT(JOB_KEYS),
        loader->arena, &map, loader->problems);

    upgrade->phase = (enum upgrade_phase)map.phase;
    upgrade->max_passes = map.max_passes;
    if (map.table.at)
        good =
            place_load(node, map.store, map.table, loader, &upgrade->place) &&
            good;
    good = load_filter(map.filter, loader, upgrade) && good;
    if (map.version)
        good = load_version(map.version, loader, upgrade) && good;
    if (map.steps)
        good = load_steps(map.steps, loader, upgrade) && good;
    mem_free(what);
    return good ? upgrade : NULL;
}

enum tw_err upgrade_rules_select(const struct upgrade *upgrade,
    const struct run_args *args, struct arena *arena, struct selection *ret,
    struct err *err)
{
    enum tw_err outcome =
        selection_bind(&upgrade->selector, args, NULL, arena, ret, err);

    return outcome == TW_OK ? selection_check(ret, err) : outcome;
}

enum upgrade_effect upgrade_rules_effect(
    const struct upgrade *upgrade, const struct upgrade_step *step)
{
    /* By type and phase: all, expand, contract. */
    static const enum upgrade_effect EFFECTS[][3] = {
        [UPGRADE_ADD] = {UPGRADE_PUT, UPGRADE_PUT, UPGRADE_NOTHING},
        [UPGRADE_SET] = {UPGRADE_PUT, UPGRADE_PUT, UPGRADE_NOTHING},
        [UPGRADE_RENAME] = {UPGRADE_MOVE, UPGRADE_COPY, UPGRADE_DROP},
        [UPGRADE_RETYPE] = {UPGRADE_COPY, UPGRADE_COPY, UPGRADE_DROP},
        [UPGRADE_REMOVE] = {UPGRADE_DROP, UPGRADE_NOTHING, UPGRADE_DROP},
    };

    if (step->type == UPGRADE_RETYPE && step->to.len == 0)
        return UPGRADE_CONVERT;
    return EFFECTS[step->type][upgrade->phase];
}

/* ---- versions ---- */

/* Of an Int32, an Int64 or a whole Double. */
static bool whole_number(const struct property *property, int64_t *ret)
{
    double number;

    if (property_integer(property, ret))
        return true;
    if (!property_double(property, &number) || trunc(number) != number ||
        number < (double)INT64_MIN || number >= -(double)INT64_MIN)
        return false;
    *ret = (int64_t)number;
    return true;
}

bool upgrade_rules_same_version(
    const struct property *a, const struct property *b)
{
    int64_t x, y;

    if (whole_number(a, &x) && whole_number(b, &y))
        return x == y;
    return property_equal(a, b);
}

bool upgrade_rules_is_below(const struct property *a, const struct property *b)
{
    int64_t x, y;

    return whole_number(a, &x) && whole_number(b, &y) && x < y;
}

/* 2, or 'two' */
static void add_version(const struct property *version, struct buf *to)
{
    struct arena arena;
    struct slice text;
    int64_t integer;

    arena_init(&arena);
    if (property_integer(version, &integer))
        buf_add_format(to, "%" PRId64, integer);
    else if (property_text(version, &arena, &text))
        text_quote(to, text);
    arena_done(&arena);
}

/* ---- the chain of versions ---- */

/* All jobs that lead to self's `from`, the nearest first. */
struct chain {
    const struct job *self;
    const struct jobs *jobs;
    struct link {
        const struct job *job;
        size_t towards;  /* the one that it leads to; of self: 0 */
        size_t distance; /* of self: 0 */
    } * links;           /* links[0] is self */
    size_t count;
};

static bool filters_meet(const struct upgrade *a, const struct upgrade *b)
{
    return !a->selector.filter || !b->selector.filter ||
           slice_equal(template_source(a->selector.filter),
               template_source(b->selector.filter));
}

static bool one_chain(const struct upgrade *a, const struct upgrade *b)
{
    return place_same(&a->place, &b->place) &&
           slice_equal(a->version, b->version) && filters_meet(a, b);
}

/* Does `from` bring entities to where `to` takes them up? */
static bool leads_to(const struct job *from, const struct job *to)
{
    const struct upgrade *a = from->settings, *b = to->settings;

    return from->kind == to->kind && a->phase != UPGRADE_CONTRACT &&
           one_chain(a, b) && upgrade_rules_same_version(&a->to, &b->from);
}

static bool is_linked(const struct chain *chain, const struct job *job)
{
    for (size_t i = 0; i < chain->count; i++)
        if (chain->links[i].job == job)
            return true;
    return false;
}

static void link_before(struct chain *chain, size_t at)
{
    const struct jobs *jobs = chain->jobs;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = &jobs->list[i];

        if (leads_to(job, chain->links[at].job) &&
            one_chain(job->settings, chain->self->settings) &&
            !is_linked(chain, job))
            chain->links[chain->count++] =
                (struct link){job, at, chain->links[at].distance + 1};
    }
}

static void keep_befores(
    const struct chain *chain, struct upgrade *upgrade, struct arena *arena)
{
    size_t distance = chain->links[chain->count - 1].distance;

    upgrade->befores =
        arena_alloc(arena, chain->count * sizeof(*upgrade->befores));
    upgrade->before_count = 0;
    for (; distance > 0; distance--)
        for (size_t i = 1; i < chain->count; i++) {
            const struct link *link = &chain->links[i];
            const struct upgrade *before = link->job->settings;

            if (link->distance == distance)
                upgrade->befores[upgrade->before_count++] =
                    (struct upgrade_before){link->job->name, &before->from};
        }
    upgrade->absent_is_before = upgrade->before_count > 0;
}

static void add_member(const struct job *job, struct buf *to)
{
    const struct upgrade *upgrade = job->settings;

    buf_add_format(to, "%s%s (", to->len > 0 ? ", " : "", job->name);
    add_version(&upgrade->from, to);
    buf_add_text(to, " to ");
    add_version(&upgrade->to, to);
    buf_add_char(to, ')');
}

/* Told once: at the cycle's first job in the file. */
static void tell_cycle(
    const struct chain *chain, size_t at, struct problems *problems)
{
    struct buf text;
    bool first = true;

    buf_init(&text, SENTENCE_MAX);
    add_member(chain->self, &text);
    for (; at != 0; at = chain->links[at].towards) {
        first = first && chain->self < chain->links[at].job;
        add_member(chain->links[at].job, &text);
    }
    if (first)
        problems_add(problems, chain->self->mark,
            "these upgrades lead in a circle, and no entity would ever be "
            "done: %s",
            buf_text(&text));
    buf_done(&text);
}

static void check_cycle(const struct chain *chain, struct problems *problems)
{
    for (size_t i = 1; i < chain->count; i++)
        if (leads_to(chain->self, chain->links[i].job)) {
            tell_cycle(chain, i, problems);
            return;
        }
}

/* A job that begins a chain where another one ends, but for its filter. */
static void check_filters(const struct chain *chain, struct problems *problems)
{
    const struct upgrade *self = chain->self->settings;
    struct buf from;

    if (chain->count > 1 || self->phase == UPGRADE_CONTRACT)
        return;
    buf_init(&from, SENTENCE_MAX);
    add_version(&self->from, &from);
    for (size_t i = 0; i < chain->jobs->count; i++) {
        const struct job *job = &chain->jobs->list[i];
        const struct upgrade *other = job->settings;

        if (job->kind != chain->self->kind ||
            other->phase == UPGRADE_CONTRACT ||
            !place_same(&other->place, &self->place) ||
            !slice_equal(other->version, self->version) ||
            !upgrade_rules_same_version(&other->to, &self->from))
            continue;
        problems_warn(problems, chain->self->mark,
            "%s leads to %s under another filter, so nothing is waited for, "
            "and an entity without %.*s counts as %s: where they are one "
            "chain, give both the same filter",
            job->name, buf_text(&from), SLICE_ARG(self->version),
            buf_text(&from));
        break;
    }
    buf_done(&from);
}

void upgrade_rules_link(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems)
{
    struct chain chain = {.self = job, .jobs = jobs, .count = 1};

    chain.links = mem_array(jobs->count + 1, sizeof(*chain.links));
    chain.links[0].job = job;
    for (size_t at = 0; at < chain.count; at++)
        link_before(&chain, at);
    keep_befores(&chain, job->settings, arena);
    check_cycle(&chain, problems);
    check_filters(&chain, problems);
    mem_free(chain.links);
}

/* ---- explain ---- */

static void explain_put(const struct upgrade_step *step, struct buf *to)
{
    buf_add_format(to, "%s %.*s (%s) \"%.*s\"%s", upgrade_step_name(step->type),
        SLICE_ARG(step->property), edm_type_name(step->edm),
        SLICE_ARG(template_source(step->value)),
        step->type == UPGRADE_ADD ? " where it is not there yet" : "");
}

static void explain_errors(const struct upgrade_step *step, struct buf *to)
{
    static const char *const ENDS[] = {
        [UPGRADE_FAIL] = "fails",
        [UPGRADE_SKIP] = "is left as it is",
        [UPGRADE_NULL] = "loses it",
    };

    buf_add_format(to, " as %s%s; an entity whose value cannot be ",
        edm_type_name(step->edm), step->lossy ? ", with losses" : "");
    if (step->on_error == UPGRADE_NULL && step->to.len > 0)
        buf_add_format(to, "has no %.*s, and keeps %.*s", SLICE_ARG(step->to),
            SLICE_ARG(step->property));
    else
        buf_add_text(to, ENDS[step->on_error]);
}

static void explain_drop(const struct upgrade_step *step, struct buf *to)
{
    buf_add_format(to, "remove %.*s", SLICE_ARG(step->property));
    if (step->type == UPGRADE_RETYPE && step->on_error == UPGRADE_NULL)
        buf_add_format(to,
            ", also where it could not become %.*s: that value is lost",
            SLICE_ARG(step->to));
    else if (step->to.len > 0)
        buf_add_format(
            to, "; an entity without %.*s fails", SLICE_ARG(step->to));
}

static void explain_step(const struct upgrade *upgrade,
    const struct upgrade_step *step, struct buf *to)
{
    switch (upgrade_rules_effect(upgrade, step)) {
    case UPGRADE_NOTHING:
        buf_add_format(to, "%s %.*s: not in this phase",
            upgrade_step_name(step->type), SLICE_ARG(step->property));
        break;
    case UPGRADE_PUT:
        explain_put(step, to);
        break;
    case UPGRADE_MOVE:
        buf_add_format(to, "rename %.*s to %.*s", SLICE_ARG(step->property),
            SLICE_ARG(step->to));
        break;
    case UPGRADE_COPY:
        buf_add_format(to, "copy %.*s to %.*s", SLICE_ARG(step->property),
            SLICE_ARG(step->to));
        if (step->type == UPGRADE_RETYPE)
            explain_errors(step, to);
        break;
    case UPGRADE_CONVERT:
        buf_add_format(to, "retype %.*s", SLICE_ARG(step->property));
        explain_errors(step, to);
        break;
    case UPGRADE_DROP:
        explain_drop(step, to);
        break;
    }
    buf_add_char(to, '\n');
}

static void explain_entities(const struct upgrade *upgrade, struct buf *to)
{
    bool contract = upgrade->phase == UPGRADE_CONTRACT;

    buf_add_format(
        to, "read all of %s and take entities ", upgrade->place.table);
    if (upgrade->selector.filter) {
        buf_add_text(to, "where ");
        selector_explain(&upgrade->selector, to);
        buf_add_text(to, " ");
    }
    buf_add_format(to, "whose %.*s is ", SLICE_ARG(upgrade->version));
    add_version(contract ? &upgrade->to : &upgrade->from, to);
    if (!contract && !upgrade->absent_is_before)
        buf_add_text(to, " or absent");
    buf_add_char(to, '\n');
}

static void explain_befores(const struct upgrade *upgrade, struct buf *to)
{
    bool contract = upgrade->phase == UPGRADE_CONTRACT;

    if (contract) {
        buf_add_format(to, "fails first if any has not come to ");
        add_version(&upgrade->to, to);
        buf_add_char(to, '\n');
        return;
    }
    for (size_t i = 0; i < upgrade->before_count; i++) {
        buf_add_format(to, "wait for %s while there are any whose %.*s is ",
            upgrade->befores[i].job, SLICE_ARG(upgrade->version));
        add_version(upgrade->befores[i].from, to);
        buf_add_text(to, i == 0 ? " or absent\n" : "\n");
    }
}

static void explain_end(const struct upgrade *upgrade, struct buf *to)
{
    buf_add_text(to, "replace each whole, with the ETag it was read with");
    if (upgrade->phase != UPGRADE_CONTRACT) {
        buf_add_format(to, ", and its %.*s is ", SLICE_ARG(upgrade->version));
        add_version(&upgrade->to, to);
    }
    buf_add_format(to,
        "\nread again until nothing is left to do, %" PRId64
        " passes at most\n",
        upgrade->max_passes);
}

void upgrade_rules_explain(const struct upgrade *upgrade, struct buf *to)
{
    explain_entities(upgrade, to);
    explain_befores(upgrade, to);
    for (size_t i = 0; i < upgrade->step_count; i++) {
        buf_add_format(to, "  %zu. ", i + 1);
        explain_step(upgrade, &upgrade->steps[i], to);
    }
    explain_end(upgrade, to);
}
