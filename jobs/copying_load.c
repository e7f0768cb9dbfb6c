/* SPDX-License-Identifier: MIT */
/* Reads and checks the maps of a job that describe a copy: where it is written,
 * and which properties it has. */
#include "config/settings.h"
#include "jobs/copying.h"
#include "jobs/engine/convert.h"
#include "jobs/job.h"
#include "worker/base/text.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct shape_map {
    struct yaml_node *keep, *drop, *rename, *set;
};

static const struct setting SHAPE_KEYS[] = {
    {"keep", SETTING_NODE, SETTING_FIELD(struct shape_map, keep),
        .help = "the only properties to keep; default: all"},
    {"drop", SETTING_NODE, SETTING_FIELD(struct shape_map, drop),
        .help = "properties to leave out"},
    {"rename", SETTING_NODE, SETTING_FIELD(struct shape_map, rename),
        .help = "new names: {Old: New}"},
    {"set", SETTING_NODE, SETTING_FIELD(struct shape_map, set),
        .help = "values to add: {Name: value}, or {Name: {type: Edm.Guid, "
                "value: ...}}"},
};

const struct settings_section copying_properties_section =
    SETTINGS_SECTION("properties", SHAPE_KEYS);

struct typed_map {
    struct slice type;
    struct yaml_node *value;
};

static const struct setting TYPED_KEYS[] = {
    {"type", SETTING_TEXT, SETTING_FIELD(struct typed_map, type),
        .required = true, .help = "type of the property, such as Edm.Int64"},
    {"value", SETTING_NODE, SETTING_FIELD(struct typed_map, value),
        .required = true, .help = "a constant, or a template"},
};

const struct settings_section copying_set_section =
    SETTINGS_SECTION("set: with a type", TYPED_KEYS);

/* The state of reading a shape. */
struct shape_loader {
    struct job_loader *loader;
    struct slice reserved;
    struct copying_shape *shape;
    bool good;
};

static void refuse(struct shape_loader *in, struct mark mark,
    const char *before, struct slice name, const char *after)
{
    problems_add(
        in->loader->problems, mark, "%s%.*s%s", before, SLICE_ARG(name), after);
    in->good = false;
}

static void refuse_kind(struct shape_loader *in, const struct yaml_node *node,
    const char *key, const char *wants)
{
    settings_wrong(in->loader->problems, node, key, wants);
    in->good = false;
}

/* ---- names ---- */

static bool check_name(
    struct shape_loader *in, struct slice name, struct mark mark)
{
    static const char *const KEYS[] = {"PartitionKey", "RowKey"};
    struct err err;

    for (size_t i = 0; i < COUNT(KEYS); i++)
        if (slice_is(name, KEYS[i])) {
            refuse(in, mark, "", name,
                " is a key: define it by partition_key or row_key");
            return false;
        }
    if (slice_is(name, "Timestamp")) {
        refuse(
            in, mark, "", name, " is set by the service: a copy cannot set it");
        return false;
    }
    if (slice_equal(name, in->reserved)) {
        refuse(in, mark, "", name,
            " is reserved: tableward stores the source of a copy in it");
        return false;
    }
    if (entity_check_name(name, &err) != TW_OK) {
        refuse(in, mark, err.text, slice_of(""), "");
        return false;
    }
    return true;
}

static bool load_name(struct shape_loader *in, const struct yaml_node *node,
    const char *key, struct slice *ret)
{
    if (node->type != YAML_SCALAR || settings_is_null(node)) {
        refuse_kind(in, node, key, "names of properties");
        return false;
    }
    *ret = node->text;
    return check_name(in, node->text, node->mark);
}

/* If node has more entries than an entity can have properties, add a problem
 * and return false. */
static bool check_count(
    struct shape_loader *in, const struct yaml_node *node, const char *key)
{
    if (node->count <= COPYING_MAX_PROPERTIES)
        return true;
    problems_add(in->loader->problems, node->mark,
        "%s has %zu properties; an entity has at most %d", key, node->count,
        COPYING_MAX_PROPERTIES);
    in->good = false;
    return false;
}

static void load_names(struct shape_loader *in, const struct yaml_node *node,
    const char *key, struct slice **ret, size_t *ret_count)
{
    if (!node)
        return;
    if (node->type != YAML_LIST) {
        refuse_kind(in, node, key, "a list, such as [Title, Text]");
        return;
    }
    if (!check_count(in, node, key))
        return;
    *ret = arena_alloc(in->loader->arena, (node->count + 1) * sizeof(**ret));
    for (size_t i = 0; i < node->count; i++)
        if (load_name(in, node->items[i], key, &(*ret)[*ret_count]))
            ++*ret_count;
}

/* Is node a valid map? If not, add a problem, which says what node should be
 * (`wants`). */
static bool check_map(struct shape_loader *in, const struct yaml_node *node,
    const char *key, const char *wants)
{
    if (node->type == YAML_MAP)
        return check_count(in, node, key);
    refuse_kind(in, node, key, wants);
    return false;
}

/* ---- rename ---- */

static bool has_name(const struct slice *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equal(names[i], name))
            return true;
    return false;
}

/* Check a rename. Call after `keep` and `drop` have been read. */
static void check_rename(struct shape_loader *in,
    const struct copying_rename *rename, const struct yaml_node *from,
    const struct yaml_node *to)
{
    const struct copying_shape *shape = in->shape;

    if (slice_equal(rename->from, rename->to))
        refuse(in, to->mark, "", rename->to,
            " is the name that the property already has: choose another name");
    if (has_name(shape->drop, shape->drop_count, rename->from))
        refuse(in, from->mark, "", rename->from,
            " is dropped, so there is nothing to rename: remove it from `drop` "
            "or from `rename`");
    else if (shape->keep_count > 0 &&
             !has_name(shape->keep, shape->keep_count, rename->from))
        refuse(in, from->mark, "", rename->from,
            " is not kept, so there is nothing to rename: put it into `keep`");
    for (size_t i = 0; i < shape->rename_count; i++)
        if (slice_equal(shape->renames[i].to, rename->to)) {
            refuse(
                in, to->mark, "two properties are renamed to ", rename->to, "");
            return;
        }
}

static void load_renames(struct shape_loader *in, const struct yaml_node *node)
{
    struct copying_shape *shape = in->shape;

    if (!node || !check_map(in, node, "rename", "a map, such as {Text: Body}"))
        return;
    shape->renames = arena_alloc(
        in->loader->arena, (node->count + 1) * sizeof(*shape->renames));
    for (size_t i = 0; i < node->count; i++) {
        struct copying_rename rename;
        bool good = load_name(in, node->keys[i], "rename", &rename.from);

        if (!load_name(in, node->items[i], "rename", &rename.to) || !good)
            continue;
        check_rename(in, &rename, node->keys[i], node->items[i]);
        shape->renames[shape->rename_count++] = rename;
    }
}

/* ---- set ---- */

/* Returns the type of a scalar. A quoted scalar is a String; the text of a
 * plain scalar decides its type. */
static enum edm_type type_of(const struct yaml_node *scalar)
{
    int64_t integer;
    double number;

    if (scalar->quoted)
        return EDM_STRING;
    if (slice_is(scalar->text, "true") || slice_is(scalar->text, "false"))
        return EDM_BOOLEAN;
    if (text_int64(scalar->text, INT32_MIN, INT32_MAX, &integer))
        return EDM_INT32;
    if (text_int64(scalar->text, INT64_MIN, INT64_MAX, &integer))
        return EDM_INT64;
    return text_double(scalar->text, &number) ? EDM_DOUBLE : EDM_STRING;
}

/* Convert and check the value of a template without {..} here, once for all
 * entities. */
static void load_constant(struct shape_loader *in, struct copying_set *set,
    const struct yaml_node *node)
{
    const struct run_args args = {.count = 0};
    struct property value, *constant;
    struct entity alone = {.properties = &value, .property_count = 1};
    struct buf text;
    struct err err;
    enum tw_err outcome;

    buf_init(&text, SIZE_MAX / 2);
    outcome = template_render(set->value, &args, NULL, &text, &err);
    if (outcome == TW_OK)
        outcome = convert_text(set->name, buf_slice(&text), set->edm,
            in->loader->arena, &value, &err);
    if (outcome == TW_OK)
        outcome = entity_check(&alone, &err);
    buf_done(&text);
    if (outcome != TW_OK) {
        problems_add(in->loader->problems, node->mark,
            "this value cannot be %s: %s", edm_type_name(set->edm), err.text);
        in->good = false;
        return;
    }
    constant = arena_alloc(in->loader->arena, sizeof(*constant));
    *constant = value;
    set->constant = constant;
}

static void load_value(struct shape_loader *in, struct copying_set *set,
    const struct yaml_node *node)
{
    struct job_loader *loader = in->loader;
    const struct template_scope scope = {.args = loader->args,
        .arg_count = loader->arg_count,
        .has_entity = true};
    const char *unset = NULL;
    struct slice text;

    if (!settings_text(
            node, true, loader->arena, &text, &unset, loader->problems)) {
        in->good = false;
        return;
    }
    if (unset && !loader->unset)
        loader->unset = unset;
    set->value = template_compile(
        text, template_mark(node), &scope, loader->arena, loader->problems);
    if (!set->value)
        in->good = false;
    else if (!unset && template_is_constant(set->value))
        load_constant(in, set, node);
}

/* Read a value with a type: {type: Edm.Guid, value: "..."}. */
static void load_typed(struct shape_loader *in, struct copying_set *set,
    const struct yaml_node *node)
{
    const char *names[CONVERT_TYPES];
    struct typed_map map = {.value = NULL};
    struct job_loader *loader = in->loader;

    in->good = settings_load(node, "a value of `set`", TYPED_KEYS,
                   COUNT(TYPED_KEYS), loader->arena, &map, loader->problems) &&
               in->good;
    if (!map.type.at || !map.value)
        return;
    if (edm_type_named(map.type, &set->edm)) {
        load_value(in, set, map.value);
        return;
    }
    for (int i = 0; i < CONVERT_TYPES; i++)
        names[i] = edm_type_name((enum edm_type)i);
    settings_unknown(loader->problems, yaml_get(node, "type")->mark, "type",
        map.type, names, COUNT(names));
    in->good = false;
}

static void check_set(
    struct shape_loader *in, struct slice name, struct mark mark)
{
    const struct copying_shape *shape = in->shape;

    for (size_t i = 0; i < shape->rename_count; i++)
        if (slice_equal(shape->renames[i].to, name))
            refuse(in, mark, "", name,
                " is also the new name of a rename: `set:` would overwrite the "
                "renamed value");
}

static void load_sets(struct shape_loader *in, const struct yaml_node *node)
{
    struct copying_shape *shape = in->shape;

    if (!node || !check_map(in, node, "set", "a map, such as {Moved: true}"))
        return;
    shape->sets = arena_alloc(
        in->loader->arena, (node->count + 1) * sizeof(*shape->sets));
    for (size_t i = 0; i < node->count; i++) {
        struct copying_set *set = &shape->sets[shape->set_count];
        const struct yaml_node *value = node->items[i];

        if (!load_name(in, node->keys[i], "set", &set->name))
            continue;
        check_set(in, set->name, node->keys[i]->mark);
        if (value->type == YAML_MAP) {
            load_typed(in, set, value);
        } else if (value->type == YAML_LIST || settings_is_null(value)) {
            refuse_kind(in, value, set->name.at,
                "a value: true, a number, a text, or {type: Edm.Int64, value: "
                "\"...\"}");
        } else {
            set->edm = type_of(value);
            load_value(in, set, value);
        }
        shape->set_count++;
    }
}

/* ---- the map `properties:` ---- */

static void check_kept(struct shape_loader *in, const struct yaml_node *drop)
{
    const struct copying_shape *shape = in->shape;

    for (size_t i = 0; i < shape->drop_count; i++)
        if (has_name(shape->keep, shape->keep_count, shape->drop[i]))
            refuse(in, drop->mark, "", shape->drop[i],
                " is both kept and dropped: remove it from `keep:` or from "
                "`drop:`");
}

bool copying_load_shape(const struct yaml_node *node, struct slice reserved,
    struct job_loader *loader, struct copying_shape *ret)
{
    struct copying_shape shape = {.keep_count = 0};
    struct shape_loader in = {
        .loader = loader, .reserved = reserved, .shape = &shape, .good = true};
    struct shape_map map = {.keep = NULL};

    if (node && node->type == YAML_LIST)
        load_names(&in, node, "properties", &shape.keep, &shape.keep_count);
    else
        in.good = settings_load(node, "properties", SHAPE_KEYS,
            COUNT(SHAPE_KEYS), loader->arena, &map, loader->problems);
    load_names(&in, map.keep, "keep", &shape.keep, &shape.keep_count);
    load_names(&in, map.drop, "drop", &shape.drop, &shape.drop_count);
    check_kept(&in, map.drop);
    load_renames(&in, map.rename);
    load_sets(&in, map.set);
    if (in.good)
        *ret = shape;
    return in.good;
}

/* ---- a target ---- */

struct target_map {
    struct slice store, table;
    struct yaml_node *partition_key, *row_key, *properties;
};

static const struct setting TARGET_KEYS[] = {
    {"store", SETTING_TEXT, SETTING_FIELD(struct target_map, store),
        .help = "a name from `stores:`; default: the default store"},
    {"table", SETTING_TEXT, SETTING_FIELD(struct target_map, table),
        .required = true, .help = "the table; created when missing"},
    {"partition_key", SETTING_NODE,
        SETTING_FIELD(struct target_map, partition_key),
        .help = "template of the copy's PartitionKey; default: the source's"},
    {"row_key", SETTING_NODE, SETTING_FIELD(struct target_map, row_key),
        .help = "template of the copy's RowKey; default: the source's"},
    {"properties", SETTING_NODE, SETTING_FIELD(struct target_map, properties),
        .help = "{keep: [], drop: [], rename: {}, set: {}}; default: all "
                "properties"},
};

const struct settings_section copying_target_section =
    SETTINGS_SECTION("to", TARGET_KEYS);

/* Appends the literal text of a template, which is everything outside {..}. */
static void add_literals(struct slice source, struct buf *to)
{
    bool inside = false, quoted = false;

    for (size_t i = 0; i < source.len; i++) {
        char c = source.at[i];

        if (inside) {
            quoted ^= c == '\'';
            inside = quoted || c != '}';
        } else if (c == '{' && source.at[i + 1] != '{') {
            inside = true;
        } else {
            buf_add_char(to, c);
            i += c == '{' || c == '}';
        }
    }
}

/* Check a key's literal text, because a character that the service forbids
 * would make every copy fail. */
static bool check_literals(const struct template *template, const char *name,
    struct mark mark, struct problems *problems)
{
    struct buf text;
    struct err err;
    bool good;

    buf_init(&text, SIZE_MAX / 2);
    add_literals(template_source(template), &text);
    good = entity_check_key(name, buf_slice(&text), &err) == TW_OK;
    buf_done(&text);
    if (!good)
        problems_add(problems, mark, "%s", err.text);
    return good;
}

static bool load_key(const struct yaml_node *node, const char *name,
    struct job_loader *loader, const struct template **ret)
{
    const struct template_scope scope = {.args = loader->args,
        .arg_count = loader->arg_count,
        .has_entity = true};
    struct slice text;

    if (!node)
        return true;
    if (!settings_text(
            node, true, loader->arena, &text, &loader->unset, loader->problems))
        return false;
    *ret = template_compile(
        text, template_mark(node), &scope, loader->arena, loader->problems);
    return *ret && check_literals(*ret, name, node->mark, loader->problems);
}

bool copying_load_target(const struct yaml_node *map,
    const struct copying_defaults *defaults, struct job_loader *loader,
    struct copying_target *ret)
{
    struct copying_target target = {.shape = *defaults->shape};
    struct target_map is = {.properties = NULL};
    bool good = settings_load(map, "a copy", TARGET_KEYS, COUNT(TARGET_KEYS),
        loader->arena, &is, loader->problems);

    if (is.table.at)
        good = table_ref_load(
                   map, is.store, is.table, loader, &target.table_ref) &&
               good;
    good = load_key(is.partition_key, "PartitionKey", loader,
               &target.partition_key) &&
           good;
    good = load_key(is.row_key, "RowKey", loader, &target.row_key) && good;
    if (is.properties)
        good = copying_load_shape(
                   is.properties, defaults->reserved, loader, &target.shape) &&
               good;
    if (good)
        *ret = target;
    return good;
}

/* ---- the keys of targets ---- */

static struct slice key_source(const struct template *template, const char *own)
{
    return template ? template_source(template) : slice_of(own);
}

static struct slice partition_key_source(const struct copying_target *target)
{
    return key_source(target->partition_key, "{PartitionKey}");
}

static struct slice row_key_source(const struct copying_target *target)
{
    return key_source(target->row_key, "{RowKey}");
}

bool copying_keeps_keys(const struct copying_target *target)
{
    return slice_is(partition_key_source(target), "{PartitionKey}") &&
           slice_is(row_key_source(target), "{RowKey}");
}

bool copying_same_keys(
    const struct copying_target *a, const struct copying_target *b)
{
    return table_ref_same(&a->table_ref, &b->table_ref) &&
           slice_equal(partition_key_source(a), partition_key_source(b)) &&
           slice_equal(row_key_source(a), row_key_source(b));
}

void copying_add_templates(const struct copying_target *target, struct buf *to)
{
    buf_add_slice(to, partition_key_source(target));
    buf_add_char(to, '/');
    buf_add_slice(to, row_key_source(target));
}
