/* SPDX-License-Identifier: MIT */
/* Reads the steps of one version from the configuration. */
#include "jobs/upgrade/step_rules.h"

#include "config/settings.h"
#include "jobs/engine/convert.h"
#include "jobs/job.h"
#include "jobs/upgrade/record.h"
#include "worker/base/json.h"
#include "worker/base/text.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define SENTENCE_MAX 2048
#define DIGESTED_MAX_BYTES ((size_t)16 * 1024 * 1024)

/* The keys that steps may have, of all types. */
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
        .required = true, .help = "type of the property, such as Edm.String"},
    {"value", SETTING_NODE, SETTING_FIELD(struct step_map, value),
        .required = true, .help = "a constant, or a template"},
};

const struct settings_section upgrade_put_section =
    SETTINGS_SECTION("steps: add, set", PUT_KEYS);

static const struct setting RENAME_KEYS[] = {
    PROPERTY_KEY,
    {"to", SETTING_TEXT, SETTING_FIELD(struct step_map, to), .required = true,
        .help = "the new name of the property"},
};

const struct settings_section upgrade_rename_section =
    SETTINGS_SECTION("steps: rename", RENAME_KEYS);

static const struct setting RETYPE_KEYS[] = {
    PROPERTY_KEY,
    {"to", SETTING_TEXT, SETTING_FIELD(struct step_map, type), .required = true,
        .help = "new type of the property, such as Edm.Double"},
    {"to_property", SETTING_TEXT, SETTING_FIELD(struct step_map, to_property),
        .help = "the new name of the converted property"},
    {"lossy", SETTING_BOOL, SETTING_FIELD(struct step_map, lossy),
        .fallback = "false",
        .help = "true: also convert if that loses information"},
    {"on_error", SETTING_NODE, SETTING_FIELD(struct step_map, on_error),
        .help = "fail, skip or null; default: fail"},
};

const struct settings_section upgrade_retype_section =
    SETTINGS_SECTION("steps: retype", RETYPE_KEYS);

static const struct setting REMOVE_KEYS[] = {
    PROPERTY_KEY,
};

const struct settings_section upgrade_remove_section =
    SETTINGS_SECTION("steps: remove", REMOVE_KEYS);

/* The context in which a step is read. */
struct step_loader {
    struct job_loader *loader;
    struct slice version;         /* name of the version property, or empty */
    const struct yaml_node *node; /* the step's map */
    struct step_map map;
    struct upgrade_step *step;
};

/* ---- names ---- */

bool step_rules_check_name(
    struct slice name, struct mark mark, const struct job_loader *loader)
{
    static const char *const SYSTEM[] = {"PartitionKey", "RowKey", "Timestamp"};
    struct err err;

    if (slice_is(name, RECORD_PROPERTY)) {
        problems_add(loader->problems, mark,
            RECORD_PROPERTY
            " is reserved for the phase `expand`: choose another name");
        return false;
    }
    for (size_t i = 0; i < COUNT(SYSTEM); i++)
        if (slice_is(name, SYSTEM[i])) {
            problems_add(loader->problems, mark,
                "%s cannot be changed: an upgrade changes properties, but not "
                "keys or Timestamp",
                SYSTEM[i]);
            return false;
        }
    if (entity_check_name(name, &err) != TW_OK) {
        problems_add(loader->problems, mark, "%s", err.text);
        return false;
    }
    return true;
}

/* ---- a step ---- */

/* Read and check the name of a property that the step writes or reads. */
static bool load_name(const struct step_loader *in, const char *key,
    struct slice name, struct slice *ret, struct mark *ret_mark)
{
    *ret_mark = table_ref_mark(in->node, key);
    if (!name.at || !step_rules_check_name(name, *ret_mark, in->loader))
        return false;
    if (slice_equal(name, in->version)) {
        problems_add(in->loader->problems, *ret_mark,
            "%s holds the version: tableward writes it after the steps, and no "
            "step may use it",
            name.at);
        return false;
    }
    *ret = name;
    return true;
}

/* Report an unknown type, with the nearest type as a suggestion, also for a
 * type without "Edm.", such as Int64. */
static void unknown_type(const struct step_loader *in, const char *key)
{
    const char *names[CONVERT_TYPES], *near;
    struct mark mark = table_ref_mark(in->node, key);
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
    in->step->typed = edm_type_named(in->map.type, &in->step->edm);
    if (!in->step->typed)
        unknown_type(in, key);
    return in->step->typed;
}

/* Convert and check the value of a template without {..} once. */
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

/* Read the value of a step. is_whole says whether the step's property name and
 * type are valid. */
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
    in->step->value_mark = template_mark(node);
    in->step->value = template_compile(
        text, in->step->value_mark, &scope, loader->arena, loader->problems);
    if (!in->step->value)
        return false;
    return !is_whole || unset || !template_is_constant(in->step->value) ||
           load_constant(in);
}

static bool load_put(const struct step_loader *in)
{
    bool good = load_name(in, "property", in->map.property, &in->step->property,
        &in->step->property_mark);

    good = load_type(in, "type") && good;
    return load_value(in, good) && good;
}

static bool load_new_name(
    const struct step_loader *in, const char *key, struct slice name)
{
    if (!load_name(in, key, name, &in->step->to, &in->step->to_mark))
        return false;
    if (!slice_equal(name, in->map.property))
        return true;
    problems_add(in->loader->problems, in->step->to_mark,
        "%s is the name that the property already has: choose another name",
        name.at);
    in->step->to = (struct slice){NULL, 0};
    return false;
}

static bool load_rename(const struct step_loader *in)
{
    bool good = load_name(in, "property", in->map.property, &in->step->property,
        &in->step->property_mark);

    return load_new_name(in, "to", in->map.to) && good;
}

/* Read on_error. Here an unquoted `null` is the choice null, not an absent
 * value. */
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
        &in->step->property_mark);

    good = load_type(in, "to") && good;
    if (in->map.to_property.at)
        good = load_new_name(in, "to_property", in->map.to_property) && good;
    in->step->lossy = in->map.lossy;
    return load_on_error(in) && good;
}

static bool load_remove(const struct step_loader *in)
{
    return load_name(in, "property", in->map.property, &in->step->property,
        &in->step->property_mark);
}

/* Indexed by enum upgrade_step_type. */
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

/* Read one step, such as {add: {...}}. */
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
            "a step has only one key: begin the next step with a '-' of its "
            "own");
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

/* ---- properties of a step ---- */

bool upgrade_step_retains(const struct upgrade_step *step)
{
    return step->to.len > 0;
}

bool upgrade_step_ends(const struct upgrade_step *step)
{
    return step->type == UPGRADE_REMOVE || upgrade_step_retains(step);
}

bool upgrade_step_makes(const struct upgrade_step *step, struct slice name)
{
    struct slice makes = step->type == UPGRADE_ADD || step->type == UPGRADE_SET
                             ? step->property
                             : step->to;

    return makes.len > 0 && slice_equal(makes, name);
}

/* ---- the whole ---- */

/* Set version->digest to the digest of one line per step, which says what the
 * step does to an entity, but not what happens to a value that cannot be
 * converted (rule U8). */
static void digest_steps(struct upgrade_version *version)
{
    struct digest digest;
    struct buf text;

    buf_init(&text, DIGESTED_MAX_BYTES);
    for (size_t i = 0; i < version->step_count; i++) {
        const struct upgrade_step *step = &version->steps[i];
        bool typed =
            step->type != UPGRADE_RENAME && step->type != UPGRADE_REMOVE;

        json_add_string(&text, slice_of(upgrade_step_name(step->type)));
        json_add_string(&text, step->property);
        json_add_string(&text, step->to);
        json_add_string(&text, slice_of(typed ? edm_type_name(step->edm) : ""));
        json_add_string(
            &text, step->value ? template_source(step->value) : slice_of(""));
        buf_add_char(&text, '\n');
    }
    digest = digest_of(buf_slice(&text));
    digest_text(&digest, version->digest);
    buf_done(&text);
}

bool step_rules_load(const struct yaml_node *node, struct slice version,
    struct job_loader *loader, struct upgrade_version *ret)
{
    bool good = true;

    if (node->type != YAML_LIST || node->count == 0 ||
        node->count > UPGRADE_MAX_STEPS) {
        problems_add(loader->problems, node->mark,
            "steps must be a list of 1 to %d steps, such as - add: {property: "
            "Language, type: Edm.String, value: en}",
            UPGRADE_MAX_STEPS);
        return false;
    }
    ret->steps = arena_alloc(loader->arena, node->count * sizeof(*ret->steps));
    ret->step_count = node->count;
    for (size_t i = 0; i < node->count; i++) {
        struct step_loader in = {
            .loader = loader, .version = version, .step = &ret->steps[i]};

        good = load_step(node->items[i], &in) && good;
    }
    if (good)
        digest_steps(ret);
    return good;
}
