/* SPDX-License-Identifier: MIT */
/* Entities from outside, and the steps of an upgrade on them. */
#include <string.h>

#include "config/problems.h"
#include "jobs/engine/convert.h"
#include "jobs/engine/template.h"
#include "jobs/upgrade_steps.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/buf.h"

#define JSON_MAX_BYTES (256 * 1024)
#define STEPS_MAX 6

/* Few, so that steps meet. */
static const char *const NAMES[] = {"A", "B", "C", "D", "E"};
#define NAME_COUNT (sizeof(NAMES) / sizeof(NAMES[0]))

static struct slice pick_name(struct fuzz_source *in)
{
    return slice_of(NAMES[fuzz_below(in, NAME_COUNT)]);
}

static const struct template *pick_template(struct fuzz_source *in)
{
    static const char *const TEXTS[] = {
        "{A}", "{lower(B)}-{C}", "{ticks(D) + 1}", "{E:05}"};
    const struct template_scope scope = {.has_entity = true};
    const struct template *template;
    struct problems problems;

    problems_init(&problems);
    template = template_compile(slice_of(TEXTS[fuzz_below(in, 4)]),
        (struct mark){.file = "fuzz", .line = 1, .column = 1}, &scope,
        in->arena, &problems);
    FUZZ_CHECK(template != NULL);
    problems_done(&problems);
    return template;
}

/* A constant, where the text is one of that type; else a template. */
static void pick_value(struct fuzz_source *in, struct upgrade_step *step)
{
    struct property *constant = arena_alloc(in->arena, sizeof(*constant));
    struct slice text = fuzz_text(in, 8);
    struct err err;

    step->value = pick_template(in);
    if (convert_text(step->property, text, step->edm, in->arena, constant,
            &err) == TW_OK)
        step->constant = constant;
    else
        fuzz_said(&err);
}

static void pick_step(
    struct fuzz_source *in, enum upgrade_phase phase, struct upgrade_step *step)
{
    *step = (struct upgrade_step){
        .type = (enum upgrade_step_type)fuzz_below(in, 5),
        .property = pick_name(in),
        .edm = (enum edm_type)fuzz_below(in, CONVERT_TYPES),
        .lossy = fuzz_yes(in),
        .on_error = (enum upgrade_on_error)fuzz_below(in, 3),
    };
    if (step->type == UPGRADE_ADD || step->type == UPGRADE_SET)
        pick_value(in, step);
    if (step->type == UPGRADE_RENAME ||
        (step->type == UPGRADE_RETYPE &&
            (phase != UPGRADE_ALL || fuzz_yes(in))))
        do
            step->to = pick_name(in);
        while (slice_equal(step->to, step->property) && in->left > 0);
    if (slice_equal(step->to, step->property))
        step->to = slice_of("F");
}

static struct upgrade pick_upgrade(struct fuzz_source *in)
{
    struct upgrade upgrade = {.version = slice_of("V"),
        .from = {slice_of("V"), EDM_INT32, slice_of("1")},
        .to = {slice_of("V"), EDM_INT32, slice_of("2")},
        .phase = (enum upgrade_phase)fuzz_below(in, 3)};

    upgrade.step_count = 1 + fuzz_below(in, STEPS_MAX);
    upgrade.steps =
        arena_alloc(in->arena, upgrade.step_count * sizeof(*upgrade.steps));
    for (size_t i = 0; i < upgrade.step_count; i++)
        pick_step(in, upgrade.phase, &upgrade.steps[i]);
    return upgrade;
}

/* Named by a step, or the version. */
static bool is_touched(const struct upgrade *upgrade, struct slice name)
{
    for (size_t i = 0; i < upgrade->step_count; i++)
        if (slice_equal(upgrade->steps[i].property, name) ||
            slice_equal(upgrade->steps[i].to, name))
            return true;
    return slice_equal(upgrade->version, name);
}

/* What no step names keeps its bytes, and nothing else is new. */
static void check_untouched(const struct upgrade *upgrade,
    const struct entity *before, const struct entity *after)
{
    for (size_t i = 0; i < before->property_count; i++) {
        const struct property *was = &before->properties[i];
        const struct property *is = entity_find(after, was->name);

        if (is_touched(upgrade, was->name))
            continue;
        FUZZ_CHECK(is != NULL && is->type == was->type);
        FUZZ_SAME(is->json, was->json);
    }
    for (size_t i = 0; i < after->property_count; i++)
        FUZZ_CHECK(entity_find(before, after->properties[i].name) != NULL ||
                   is_touched(upgrade, after->properties[i].name));
    FUZZ_SAME(after->partition_key, before->partition_key);
    FUZZ_SAME(after->row_key, before->row_key);
    FUZZ_SAME(after->etag, before->etag);
}

static void check_stored(const struct entity *entity, struct arena *arena)
{
    struct entity again;
    struct buf json;
    struct err err;

    FUZZ_CHECK(entity_check(entity, &err) == TW_OK);
    buf_init(&json, JSON_MAX_BYTES);
    entity_write(entity, &json);
    FUZZ_CHECK(!json.overflow);
    if (entity_parse(buf_slice(&json), true, arena, &again, NULL, &err) !=
        TW_OK)
        fuzz_fail(__FILE__, __LINE__, err.text, buf_slice(&json));
    FUZZ_CHECK(fuzz_entities_equal(entity, &again));
    buf_done(&json);
}

static void check_applied(const struct upgrade *upgrade,
    const struct entity *entity, struct arena *arena)
{
    const struct run_args args = {.count = 0};
    struct entity kept, first, second;
    struct err err = {""};
    enum upgrade_end end;

    entity_copy(&kept, arena, entity);
    end = upgrade_apply(upgrade, &args, entity, arena, &first, NULL, &err);
    FUZZ_CHECK(fuzz_entities_equal(&kept, entity));
    if (end == UPGRADE_FAILED || end == UPGRADE_SKIPPED)
        fuzz_said(&err);
    FUZZ_CHECK(upgrade_apply(
                   upgrade, &args, &kept, arena, &second, NULL, &err) == end);
    if (end != UPGRADE_CHANGED)
        return;
    FUZZ_CHECK(fuzz_entities_equal(&first, &second));
    check_untouched(upgrade, entity, &first);
    check_stored(&first, arena);
    if (upgrade->phase != UPGRADE_CONTRACT)
        FUZZ_CHECK(upgrade_version(upgrade, &first, NULL) == UPGRADE_AT_TO);
    (void)upgrade_holds(upgrade, &first);
}

FUZZ_TARGET(upgrade)
{
    struct slice text = fuzz_input(at, len);
    struct fuzz_source source = {.at = at, .left = len};
    struct upgrade upgrade;
    struct entity entity;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    source.arena = &arena;
    upgrade = pick_upgrade(&source);
    if (entity_parse(text, true, &arena, &entity, NULL, &err) == TW_OK &&
        entity_check(&entity, &err) == TW_OK)
        check_applied(&upgrade, &entity, &arena);
    entity = fuzz_entity(&source);
    for (size_t i = 0; i < entity.property_count && i < NAME_COUNT; i++)
        if (entity_find(&entity, slice_of(NAMES[i])) == NULL)
            entity.properties[i].name = slice_of(NAMES[i]);
    check_applied(&upgrade, &entity, &arena);
    arena_done(&arena);
    return 0;
}
