/* SPDX-License-Identifier: MIT */
/* The steps of an upgrade, carried out on a copy of one entity. */
#include "jobs/upgrade/steps.h"

#include "jobs/engine/convert.h"
#include "jobs/engine/template.h"

/* The entity as it becomes. Its list of properties is its own and has room for
 * one more a step; what they point to is shared with the entity as it was. */
struct work {
    const struct upgrade *upgrade;
    const struct run_args *args;
    struct arena *arena;
    struct entity entity;
    struct err *err;
};

/* ---- versions ---- */

enum upgrade_version upgrade_version(const struct upgrade *upgrade,
    const struct entity *entity, size_t *ret_before)
{
    const struct property *is = entity_find(entity, upgrade->version);
    size_t before = 0;

    if (is && upgrade_rules_same_version(is, &upgrade->from))
        return UPGRADE_AT_FROM;
    if (is && upgrade_rules_same_version(is, &upgrade->to))
        return UPGRADE_AT_TO;
    if (!is && !upgrade->absent_is_before)
        return UPGRADE_AT_FROM;
    while (is && before < upgrade->before_count &&
           !upgrade_rules_same_version(is, upgrade->befores[before].from))
        before++;
    if (is && before == upgrade->before_count)
        return upgrade->phase == UPGRADE_CONTRACT &&
                       upgrade_rules_is_below(is, &upgrade->to)
                   ? UPGRADE_BEFORE
                   : UPGRADE_OTHER;
    if (ret_before)
        *ret_before = before;
    return UPGRADE_BEFORE;
}

/* ---- the properties of the work ---- */

static struct property *find(struct work *work, struct slice name)
{
    for (size_t i = 0; i < work->entity.property_count; i++)
        if (slice_equal(work->entity.properties[i].name, name))
            return &work->entity.properties[i];
    return NULL;
}

/* In the place of the one of that name, or behind all others. */
static void put(struct work *work, const struct property *property)
{
    struct property *place = find(work, property->name);

    if (!place)
        place = &work->entity.properties[work->entity.property_count++];
    *place = *property;
}

static void take(struct work *work, struct property *property)
{
    struct entity *entity = &work->entity;
    size_t behind =
        (size_t)(entity->properties + entity->property_count - (property + 1));

    memmove(property, property + 1, behind * sizeof(*property));
    entity->property_count--;
}

static enum upgrade_end fail_there(struct work *work, struct slice name)
{
    err_fail(work->err, TW_INVALID, "the entity has a property %.*s already",
        SLICE_ARG(name));
    return UPGRADE_FAILED;
}

/* ---- what a step does ---- */

/* Each: UPGRADE_UNCHANGED and UPGRADE_CHANGED: done; else err says why the
 * entity stays as it was. */

static enum tw_err render(
    struct work *work, const struct upgrade_step *step, struct slice *ret)
{
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, ENTITY_MAX_BYTES);
    outcome = template_render(
        step->value, work->args, &work->entity, &text, work->err);
    if (outcome == TW_OK && text.overflow)
        outcome =
            err_fail(work->err, TW_TOO_LARGE, "its text is longer than 1 MiB");
    if (outcome == TW_OK)
        *ret = arena_copy(work->arena, buf_slice(&text));
    buf_done(&text);
    return outcome;
}

static enum upgrade_end do_put(
    struct work *work, const struct upgrade_step *step)
{
    const struct property *is = find(work, step->property);
    struct property value;
    struct slice text;

    if (is && step->type == UPGRADE_ADD)
        return UPGRADE_UNCHANGED;
    if (step->constant)
        value = *step->constant;
    else if (render(work, step, &text) != TW_OK ||
             convert_text(step->property, text, step->edm, work->arena, &value,
                 work->err) != TW_OK)
        return UPGRADE_FAILED;
    if (is && property_equal(is, &value))
        return UPGRADE_UNCHANGED;
    put(work, &value);
    return UPGRADE_CHANGED;
}

static enum upgrade_end do_move(
    struct work *work, const struct upgrade_step *step)
{
    struct property *is = find(work, step->property);

    if (!is)
        return UPGRADE_UNCHANGED;
    if (find(work, step->to))
        return fail_there(work, step->to);
    is->name = step->to;
    return UPGRADE_CHANGED;
}

/* UPGRADE_CHANGED: *ret is it. UPGRADE_UNCHANGED: there is no such value, and
 * the property goes. */
static enum upgrade_end convert(struct work *work,
    const struct upgrade_step *step, const struct property *from,
    struct property *ret)
{
    enum convert_worth worth = CONVERT_EXACT;

    if (from->type == step->edm)
        *ret = *from;
    else
        worth = convert_property(from, step->edm, work->arena, ret, work->err);
    if (worth == CONVERT_EXACT || (worth == CONVERT_LOSSY && step->lossy))
        return UPGRADE_CHANGED;
    if (step->on_error == UPGRADE_NULL)
        return UPGRADE_UNCHANGED;
    return step->on_error == UPGRADE_SKIP ? UPGRADE_SKIPPED : UPGRADE_FAILED;
}

static enum upgrade_end do_convert(
    struct work *work, const struct upgrade_step *step)
{
    struct property *is = find(work, step->property), value;
    enum upgrade_end end;

    if (!is || is->type == step->edm)
        return UPGRADE_UNCHANGED;
    end = convert(work, step, is, &value);
    if (end == UPGRADE_CHANGED)
        *is = value;
    if (end != UPGRADE_UNCHANGED)
        return end;
    take(work, is);
    return UPGRADE_CHANGED;
}

static enum upgrade_end do_copy(
    struct work *work, const struct upgrade_step *step)
{
    const struct property *from = find(work, step->property),
                          *is = find(work, step->to);
    struct property value;
    enum upgrade_end end = UPGRADE_CHANGED;

    if (!from)
        return UPGRADE_UNCHANGED;
    if (step->type == UPGRADE_RETYPE)
        end = convert(work, step, from, &value);
    else
        value = *from;
    if (end == UPGRADE_SKIPPED || end == UPGRADE_FAILED)
        return end;
    value.name = step->to;
    if (is &&
        (end == UPGRADE_UNCHANGED || work->upgrade->phase == UPGRADE_ALL ||
            !property_equal(is, &value)))
        return fail_there(work, step->to);
    if (is || end == UPGRADE_UNCHANGED)
        return UPGRADE_UNCHANGED;
    put(work, &value);
    return UPGRADE_CHANGED;
}

/* Is it right that the entity has no `to`? So where the conversion gave none
 * and that was allowed. */
static bool has_no_copy(struct work *work, const struct upgrade_step *step,
    const struct property *from)
{
    struct property value;

    return step->type == UPGRADE_RETYPE && step->on_error == UPGRADE_NULL &&
           convert(work, step, from, &value) == UPGRADE_UNCHANGED;
}

static enum upgrade_end do_drop(
    struct work *work, const struct upgrade_step *step)
{
    struct property *is = find(work, step->property);

    if (!is)
        return UPGRADE_UNCHANGED;
    if (step->to.len > 0 && !find(work, step->to) &&
        !has_no_copy(work, step, is)) {
        err_fail(work->err, TW_INVALID,
            "the entity has no property %.*s, and what it holds would be lost",
            SLICE_ARG(step->to));
        return UPGRADE_FAILED;
    }
    take(work, is);
    return UPGRADE_CHANGED;
}

static enum upgrade_end do_nothing(
    struct work *work, const struct upgrade_step *step)
{
    (void)work;
    (void)step;
    return UPGRADE_UNCHANGED;
}

/* ---- all steps ---- */

static void begin(struct work *work, const struct entity *entity)
{
    size_t count = entity->property_count;

    work->entity = *entity;
    work->entity.properties = arena_alloc(work->arena,
        (count + work->upgrade->step_count + 1) * sizeof(struct property));
    if (count > 0)
        memcpy(work->entity.properties, entity->properties,
            count * sizeof(struct property));
}

/* changed[i]: step i did something. */
static enum upgrade_end run_steps(struct work *work, bool *changed)
{
    static enum upgrade_end (*const DO[])(
        struct work * work, const struct upgrade_step *step) = {
        [UPGRADE_NOTHING] = do_nothing,
        [UPGRADE_PUT] = do_put,
        [UPGRADE_MOVE] = do_move,
        [UPGRADE_COPY] = do_copy,
        [UPGRADE_CONVERT] = do_convert,
        [UPGRADE_DROP] = do_drop,
    };
    const struct upgrade *upgrade = work->upgrade;
    enum upgrade_end all = UPGRADE_UNCHANGED;

    for (size_t i = 0; i < upgrade->step_count; i++) {
        const struct upgrade_step *step = &upgrade->steps[i];
        enum upgrade_end end =
            DO[upgrade_rules_effect(upgrade, step)](work, step);

        if (end == UPGRADE_SKIPPED || end == UPGRADE_FAILED) {
            err_prefix(work->err, "step %zu, %s %.*s", i + 1,
                upgrade_step_name(step->type), SLICE_ARG(step->property));
            return end;
        }
        changed[i] = end == UPGRADE_CHANGED;
        if (changed[i])
            all = UPGRADE_CHANGED;
    }
    return all;
}

static void add_tally(
    struct upgrade_tally *tally, const bool *changed, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tally->carried_out[i] += changed[i];
}

enum upgrade_end upgrade_apply(const struct upgrade *upgrade,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct entity *ret, struct upgrade_tally *tally,
    struct err *err)
{
    struct work work = {
        .upgrade = upgrade, .args = args, .arena = arena, .err = err};
    bool changed[UPGRADE_MAX_STEPS] = {false};
    enum upgrade_end end;

    begin(&work, entity);
    end = run_steps(&work, changed);
    if (end == UPGRADE_SKIPPED || end == UPGRADE_FAILED)
        return end;
    if (upgrade->phase != UPGRADE_CONTRACT)
        put(&work, &upgrade->to);
    else if (end == UPGRADE_UNCHANGED)
        return UPGRADE_UNCHANGED;
    if (entity_check(&work.entity, err) != TW_OK) {
        err_prefix(err, "after the steps");
        return UPGRADE_FAILED;
    }
    if (tally)
        add_tally(tally, changed, upgrade->step_count);
    *ret = work.entity;
    return UPGRADE_CHANGED;
}

/* ---- what should not be there any more ---- */

/* Then that step decides what becomes of it. */
static bool named_later(
    const struct upgrade *upgrade, size_t i, struct slice name)
{
    while (++i < upgrade->step_count)
        if (slice_equal(upgrade->steps[i].property, name) ||
            slice_equal(upgrade->steps[i].to, name))
            return true;
    return false;
}

static bool lacks_copy(const struct upgrade *upgrade,
    const struct upgrade_step *step, const struct entity *entity,
    const struct property *from)
{
    struct arena arena;
    struct work work = {.upgrade = upgrade, .arena = &arena};
    bool lacks;

    if (entity_find(entity, step->to))
        return false;
    arena_init(&arena);
    lacks = !has_no_copy(&work, step, from);
    arena_done(&arena);
    return lacks;
}

static bool step_holds(
    const struct upgrade *upgrade, size_t i, const struct entity *entity)
{
    const struct upgrade_step *step = &upgrade->steps[i];
    const struct property *is = entity_find(entity, step->property);

    if (!is)
        return false;
    switch (upgrade_rules_effect(upgrade, step)) {
    case UPGRADE_NOTHING:
    case UPGRADE_PUT:
        return false;
    case UPGRADE_MOVE:
    case UPGRADE_DROP:
        return !named_later(upgrade, i, step->property);
    case UPGRADE_CONVERT:
        return is->type != step->edm &&
               !named_later(upgrade, i, step->property);
    case UPGRADE_COPY:
        return !named_later(upgrade, i, step->property) &&
               !named_later(upgrade, i, step->to) &&
               lacks_copy(upgrade, step, entity, is);
    }
    return false;
}

int upgrade_holds(const struct upgrade *upgrade, const struct entity *entity)
{
    for (size_t i = 0; i < upgrade->step_count; i++)
        if (step_holds(upgrade, i, entity))
            return (int)i;
    return -1;
}
