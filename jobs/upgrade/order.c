/* SPDX-License-Identifier: MIT */
/* Checks the steps of a document against one another. */
#include "jobs/upgrade/order.h"

#include "jobs/engine/convert.h"
#include "jobs/engine/expression.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* All steps of all versions, in order. */
struct order {
    const struct ordered_step {
        const struct upgrade_step *step;
        size_t version; /* index of the step's version */
    } * list;
    size_t count;
    struct problems *problems;
    bool good;
};

static bool is_same(struct slice a, struct slice b)
{
    return a.len > 0 && slice_equal(a, b);
}

static bool is_in_place(const struct upgrade_step *step)
{
    return step->type == UPGRADE_RETYPE && step->to.len == 0;
}

static bool is_put(const struct upgrade_step *step)
{
    return step->type == UPGRADE_ADD || step->type == UPGRADE_SET;
}

/* Does step remove the property `name`? */
static bool takes(const struct upgrade_step *step, struct slice name)
{
    return (step->type == UPGRADE_RENAME || step->type == UPGRADE_REMOVE) &&
           is_same(step->property, name);
}

/* Is the property `name` absent after all steps of the step's version, because
 * this step ends it? (Until then, a retype with to_property keeps the old
 * property.) */
static bool ends(const struct upgrade_step *step, struct slice name)
{
    return upgrade_step_ends(step) && is_same(step->property, name);
}

/* Has step k removed `name` before step i? */
static bool has_taken(
    const struct order *order, size_t k, size_t i, struct slice name)
{
    const struct upgrade_step *step = order->list[k].step;

    return order->list[k].version == order->list[i].version ? takes(step, name)
                                                            : ends(step, name);
}

/* ---- reads of removed properties ---- */

#define GONE "%.*s no longer exists here: the %s in line %u removes it"

/* Returns the last step before step i that removed `name`. NULL: there is none,
 * or a step between it and step i made `name` again. */
static const struct upgrade_step *taken_before(
    const struct order *order, size_t i, struct slice name)
{
    for (size_t k = i; k-- > 0;) {
        if (upgrade_step_makes(order->list[k].step, name))
            return NULL;
        if (has_taken(order, k, i, name))
            return order->list[k].step;
    }
    return NULL;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_word_at(struct slice text, size_t at, struct slice word)
{
    size_t end = at + word.len;

    return end <= text.len && memcmp(text.at + at, word.at, word.len) == 0 &&
           (at == 0 || !is_name_byte(text.at[at - 1])) &&
           (end == text.len || !is_name_byte(text.at[end]));
}

/* Returns the position at which a template first reads `name`, in braces and
 * outside quotes. */
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
    struct expression_reader reader = {.text = template_source(template),
        .mark = order->list[i].step->value_mark,
        .problems = order->problems};
    size_t count;
    const struct slice *read = template_properties(template, &count);

    for (size_t k = 0; k < count; k++) {
        const struct upgrade_step *taker = taken_before(order, i, read[k]);

        if (!taker)
            continue;
        expression_problem(&reader, read_at(reader.text, read[k]), GONE,
            SLICE_ARG(read[k]), upgrade_step_name(taker->type),
            taker->mark.line);
        order->good = false;
    }
}

static void check_reads(struct order *order, size_t i)
{
    const struct upgrade_step *step = order->list[i].step, *taker;

    if (step->value)
        check_template(order, i, step->value);
    if (is_put(step))
        return;
    taker = taken_before(order, i, step->property);
    if (!taker)
        return;
    problems_add(order->problems, step->property_mark, GONE,
        SLICE_ARG(step->property), upgrade_step_name(taker->type),
        taker->mark.line);
    order->good = false;
}

/* ---- properties that exist already ---- */

/* Returns another step that makes the property `name`, which step i makes: a
 * step of the same version, or a step of an older version if no step in between
 * removed the property. Returns NULL if there is none. */
static const struct upgrade_step *maker_of(
    const struct order *order, size_t i, struct slice name)
{
    size_t version = order->list[i].version;

    /* Of two renames in one version only the second is reported. */
    for (size_t k = 0; k < order->count; k++)
        if (k != i && order->list[k].version == version &&
            (is_put(order->list[k].step) || k < i) &&
            upgrade_step_makes(order->list[k].step, name))
            return order->list[k].step;
    for (size_t k = i; k-- > 0;) {
        if (order->list[k].version == version)
            continue;
        if (upgrade_step_makes(order->list[k].step, name))
            return order->list[k].step;
        if (ends(order->list[k].step, name))
            return NULL;
    }
    return NULL;
}

/* Refuse a rename or a to_property onto a property that another step makes. */
static void check_onto(struct order *order, size_t i)
{
    const struct upgrade_step *step = order->list[i].step, *other;

    if (!upgrade_step_retains(step))
        return;
    other = maker_of(order, i, step->to);
    if (!other)
        return;
    problems_add(order->problems, step->to_mark,
        "the %s in line %u already gives entities the property %.*s, so this "
        "%s to it would fail",
        upgrade_step_name(other->type), other->mark.line, SLICE_ARG(step->to),
        upgrade_step_name(step->type));
    order->good = false;
}

/* Refuse a property that one version both makes and removes (rule U6), because
 * between expand and contract it would be an old and a new property at once. */
static void check_made_and_taken(struct order *order, size_t i)
{
    const struct upgrade_step *step = order->list[i].step;
    struct slice name = is_put(step) ? step->property : step->to;

    for (size_t k = 0; k < order->count; k++) {
        const struct ordered_step *other = &order->list[k];

        if (k == i || other->version != order->list[i].version ||
            !ends(other->step, name))
            continue;
        problems_add(order->problems,
            is_put(step) ? step->property_mark : step->to_mark,
            "one version creates and removes %.*s (the %s in line %u): between "
            "expand and contract it would be an old and a new property at "
            "once; put one of the two steps into the next version",
            SLICE_ARG(name), upgrade_step_name(other->step->type),
            other->step->mark.line);
        order->good = false;
        return;
    }
}

/* ---- types ---- */

/* Sets *ret to the type that the steps before step i gave `name`. False: the
 * type is unknown. */
static bool known_type(
    const struct order *order, size_t i, struct slice name, enum edm_type *ret)
{
    for (size_t k = i; k-- > 0;) {
        const struct upgrade_step *step = order->list[k].step;
        bool in_place = is_in_place(step) && is_same(step->property, name);

        if (has_taken(order, k, i, name))
            return false;
        if (upgrade_step_makes(step, name) && step->type == UPGRADE_RENAME) {
            name = step->property;
        } else if (upgrade_step_makes(step, name) || in_place) {
            *ret = step->edm;
            return step->typed;
        }
    }
    return false;
}

static void check_way(struct order *order, size_t i)
{
    const struct upgrade_step *step = order->list[i].step;
    enum edm_type from;
    const struct convert_way *way;

    if (step->type != UPGRADE_RETYPE || !step->typed ||
        !known_type(order, i, step->property, &from))
        return;
    way = convert_way(from, step->edm);
    if (way->worth == CONVERT_EXACT ||
        (way->worth == CONVERT_LOSSY && step->lossy))
        return;
    order->good = false;
    if (way->worth == CONVERT_LOSSY)
        problems_add(order->problems, step->mark,
            "a conversion from %s to %s loses something (%s): write `lossy: "
            "true` to accept the loss",
            edm_type_name(from), edm_type_name(step->edm), way->how);
    else
        problems_add(order->problems, step->mark,
            "an %s cannot become an %s (%s): remove the property and add "
            "another",
            edm_type_name(from), edm_type_name(step->edm), way->how);
}

/* Check that one version gives a property only one type. On an entity that has
 * reached the version, a run repeats the version's retypes in place. So the
 * type of a retype must be the type that the property has after the version's
 * last step. */
static void check_one_type(struct order *order, size_t i)
{
    const struct upgrade_step *step = order->list[i].step;

    if (!step->typed || (!is_in_place(step) && !is_put(step)))
        return;
    for (size_t k = 0; k < i; k++) {
        const struct upgrade_step *other = order->list[k].step;

        if (order->list[k].version != order->list[i].version ||
            !is_in_place(other) || !is_same(other->property, step->property) ||
            (is_put(step) && step->edm == other->edm))
            continue;
        problems_add(order->problems, step->property_mark,
            "one version gives %.*s two types (the retype in line %u): write "
            "only the last type, or put one of the two steps into the next "
            "version",
            SLICE_ARG(step->property), other->mark.line);
        order->good = false;
        return;
    }
}

/* Check the same (see check_one_type()) for the type that a rename or a
 * to_property gives the new property. */
static void check_type_brought(struct order *order, size_t i)
{
    const struct upgrade_step *step = order->list[i].step;

    if (!upgrade_step_retains(step))
        return;
    for (size_t k = 0; k < i; k++) {
        const struct upgrade_step *other = order->list[k].step;

        if (order->list[k].version != order->list[i].version ||
            !is_in_place(other) || !is_same(other->property, step->to) ||
            (step->type == UPGRADE_RETYPE && step->edm == other->edm))
            continue;
        problems_add(order->problems, step->to_mark,
            "the retype in line %u comes before the %s that creates %.*s: put "
            "the retype after the %s, or into another version",
            other->mark.line, upgrade_step_name(step->type),
            SLICE_ARG(step->to), upgrade_step_name(step->type));
        order->good = false;
        return;
    }
}

/* ---- the whole ---- */

bool upgrade_order_check(
    const struct upgrade *upgrade, struct problems *problems)
{
    struct order order = {.problems = problems, .good = true};
    struct ordered_step *list;
    size_t room = 0;

    for (size_t v = 0; v < upgrade->version_count; v++)
        room += upgrade->versions[v].step_count;
    order.list = list = mem_array(room + 1, sizeof(*list));
    for (size_t v = 0; v < upgrade->version_count; v++)
        for (size_t i = 0; i < upgrade->versions[v].step_count; i++)
            list[order.count++] =
                (struct ordered_step){&upgrade->versions[v].steps[i], v};
    for (size_t i = 0; i < order.count; i++) {
        check_reads(&order, i);
        check_onto(&order, i);
        check_made_and_taken(&order, i);
        check_way(&order, i);
        check_one_type(&order, i);
        check_type_brought(&order, i);
    }
    mem_free(list);
    return order.good;
}
