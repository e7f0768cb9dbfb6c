/* SPDX-License-Identifier: MIT */
/* Makes one copy of one entity. */
#include "jobs/copying.h"

#include "jobs/engine/convert.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* Maximum bytes of a rendered key. A key has at most 512 UTF-16 units, which
 * are at most 1,536 bytes; entity_check() refuses a longer one. */
#define KEY_MAX_BYTES 4096

/* ---- the properties of a copy ---- */

/* A copy in progress. copy.properties has room for all properties. */
struct work {
    const struct copying_target *target;
    const struct run_args *args;
    const struct entity *source;
    struct slice without;
    struct arena *arena;
    struct entity copy;
    struct err *err;
};

static bool is_among(const struct slice *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equal(names[i], name))
            return true;
    return false;
}

static bool is_kept(const struct copying_shape *shape, struct slice name)
{
    if (is_among(shape->drop, shape->drop_count, name))
        return false;
    return shape->keep_count == 0 ||
           is_among(shape->keep, shape->keep_count, name);
}

static struct slice new_name(
    const struct copying_shape *shape, struct slice name)
{
    for (size_t i = 0; i < shape->rename_count; i++)
        if (slice_equal(shape->renames[i].from, name))
            return shape->renames[i].to;
    return name;
}

static struct property *find(struct entity *entity, struct slice name)
{
    for (size_t i = 0; i < entity->property_count; i++)
        if (slice_equal(entity->properties[i].name, name))
            return &entity->properties[i];
    return NULL;
}

static void keep_properties(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    const struct entity *source = work->source;
    struct entity *copy = &work->copy;

    copy->properties = arena_alloc(
        work->arena, (source->property_count + shape->set_count + 1) *
                         sizeof(struct property));
    for (size_t i = 0; i < source->property_count; i++) {
        const struct property *property = &source->properties[i];

        if (!slice_equal(property->name, work->without) &&
            is_kept(shape, property->name))
            copy->properties[copy->property_count++] = *property;
    }
}

/* Apply all renames at the same time, so that {A: B, B: A} exchanges two names.
 */
static enum tw_err rename_properties(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    struct entity *copy = &work->copy;

    if (shape->rename_count == 0)
        return TW_OK;
    for (size_t i = 0; i < copy->property_count; i++)
        copy->properties[i].name = new_name(shape, copy->properties[i].name);
    for (size_t i = 0; i < copy->property_count; i++)
        if (find(copy, copy->properties[i].name) != &copy->properties[i])
            return err_fail(work->err, TW_INVALID,
                "rename: the entity already has a property %.*s",
                SLICE_ARG(copy->properties[i].name));
    return TW_OK;
}

static enum tw_err render(struct work *work, const struct template *template,
    size_t max_bytes, struct slice *ret)
{
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, max_bytes);
    outcome =
        template_render(template, work->args, work->source, &text, work->err);
    if (outcome == TW_OK && text.overflow)
        outcome = err_fail(work->err, TW_INVALID,
            "the rendered text is longer than %zu bytes", max_bytes);
    if (outcome == TW_OK)
        *ret = arena_copy(work->arena, buf_slice(&text));
    buf_done(&text);
    return outcome;
}

static enum tw_err set_property(
    struct work *work, const struct copying_set *set)
{
    struct property *existing = find(&work->copy, set->name), value;
    enum tw_err outcome = TW_OK;
    struct slice text;

    if (set->constant) {
        value = *set->constant;
    } else {
        outcome = render(work, set->value, ENTITY_MAX_BYTES, &text);
        if (outcome == TW_OK)
            outcome = convert_text(
                set->name, text, set->edm, work->arena, &value, work->err);
    }
    if (outcome != TW_OK) {
        err_prefix(work->err, "set %.*s", SLICE_ARG(set->name));
        return outcome;
    }
    if (!existing)
        existing = &work->copy.properties[work->copy.property_count++];
    *existing = value;
    return TW_OK;
}

static enum tw_err set_properties(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < shape->set_count && outcome == TW_OK; i++)
        outcome = set_property(work, &shape->sets[i]);
    return outcome;
}

/* ---- the keys of a copy ---- */

static enum tw_err make_key(struct work *work, const char *key,
    const struct template *template, struct slice of_source, struct slice *ret)
{
    enum tw_err outcome = TW_OK;

    if (template)
        outcome = render(work, template, KEY_MAX_BYTES, ret);
    else
        *ret = of_source;
    if (outcome != TW_OK)
        err_prefix(work->err, "%s", key);
    return outcome;
}

static enum tw_err make_keys(struct work *work)
{
    const struct copying_target *target = work->target;
    enum tw_err outcome = make_key(work, "partition_key", target->partition_key,
        work->source->partition_key, &work->copy.partition_key);

    if (outcome == TW_OK)
        outcome = make_key(work, "row_key", target->row_key,
            work->source->row_key, &work->copy.row_key);
    return outcome;
}

/* ---- the copy ---- */

enum tw_err copying_make(const struct copying_target *target,
    const struct run_args *args, const struct entity *source,
    struct slice without, struct arena *arena, struct entity *ret,
    struct err *err)
{
    struct work work = {.target = target,
        .args = args,
        .source = source,
        .without = without,
        .arena = arena,
        .err = err};
    enum tw_err outcome = make_keys(&work);

    if (outcome == TW_OK) {
        keep_properties(&work);
        outcome = rename_properties(&work);
    }
    if (outcome == TW_OK)
        outcome = set_properties(&work);
    if (outcome != TW_OK)
        return outcome;
    outcome = entity_check(&work.copy, err);
    if (outcome == TW_OK)
        *ret = work.copy;
    else
        err_prefix(err, "the copy");
    return outcome;
}

/* ---- explaining a target ---- */

static void explain_key(
    const char *name, const struct template *template, struct buf *to)
{
    if (template)
        buf_add_format(
            to, "%s \"%.*s\"", name, SLICE_ARG(template_source(template)));
    else
        buf_add_format(to, "%s of the source", name);
}

static void explain_names(
    const char *word, const struct slice *names, size_t count, struct buf *to)
{
    for (size_t i = 0; i < count; i++)
        buf_add_format(to, "%s%.*s", i == 0 ? word : ", ", SLICE_ARG(names[i]));
}

void copying_explain(const struct copying_target *target, struct buf *to)
{
    const struct copying_shape *shape = &target->shape;

    explain_key("PartitionKey", target->partition_key, to);
    buf_add_text(to, ", ");
    explain_key("RowKey", target->row_key, to);
    explain_names(", only ", shape->keep, shape->keep_count, to);
    explain_names(", without ", shape->drop, shape->drop_count, to);
    for (size_t i = 0; i < shape->rename_count; i++)
        buf_add_format(to, ", %.*s as %.*s", SLICE_ARG(shape->renames[i].from),
            SLICE_ARG(shape->renames[i].to));
    for (size_t i = 0; i < shape->set_count; i++)
        buf_add_format(to, ", %.*s (%s) \"%.*s\"",
            SLICE_ARG(shape->sets[i].name), edm_type_name(shape->sets[i].edm),
            SLICE_ARG(template_source(shape->sets[i].value)));
}
