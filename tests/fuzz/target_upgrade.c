/* SPDX-License-Identifier: MIT */
/*
 * Random schema upgrades, on entities from the input and on generated entities.
 * A changed entity has all changes, is at the newest version and can be stored.
 * Properties that no step names keep their bytes. Equal entities give equal
 * results. A second upgrade changes nothing.
 */
#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/job.h"
#include "jobs/upgrade/record.h"
#include "jobs/upgrade/rules.h"
#include "jobs/upgrade/steps.h"
#include "tests/fuzz/fuzz.h"

/* Only a few names, so that several steps use the same property. */
static const char *const NAMES[] = {"A", "B", "C", "D", "E"};
#define NAME_COUNT (sizeof(NAMES) / sizeof(NAMES[0]))
#define MAX_STEPS 4
#define MAX_VERSIONS 3

static const char *some_name(struct fuzz_source *in)
{
    return FUZZ_PICK(in, NAMES);
}

static const char *some_type(struct fuzz_source *in)
{
    return edm_type_name((enum edm_type)fuzz_below(in, 8));
}

static const char *some_value(struct fuzz_source *in)
{
    static const char *const VALUES[] = {"x", "5", "true", "'2.5'", "'{A}'",
        "'{B}{PartitionKey}'", "'{lower(C)}'", "'{D + 1}'", "'{word}'",
        "2024-01-01T00:00:00Z", "AAEC"};

    return FUZZ_PICK(in, VALUES);
}

static void add_put(struct fuzz_source *in, const char *step, struct buf *to)
{
    const char *name = some_name(in), *type = some_type(in);

    buf_add_format(to, "  - %s: {property: %s, type: %s, value: %s}\n", step,
        name, type, some_value(in));
}

static void add_retype(struct fuzz_source *in, struct buf *to)
{
    static const char *const ENDS[] = {"fail", "skip", "null"};
    const char *name = some_name(in), *type = some_type(in);

    buf_add_format(to, "  - retype: {property: %s, to: %s, lossy: %s", name,
        type, fuzz_yes(in) ? "true" : "false");
    if (fuzz_yes(in))
        buf_add_format(to, ", to_property: %s", some_name(in));
    buf_add_format(to, ", on_error: %s}\n", FUZZ_PICK(in, ENDS));
}

static void add_step(struct fuzz_source *in, struct buf *to)
{
    const char *name, *other;

    switch (fuzz_below(in, 5)) {
    case 0:
        add_put(in, "add", to);
        return;
    case 1:
        add_put(in, "set", to);
        return;
    case 2:
        name = some_name(in);
        other = some_name(in);
        buf_add_format(to, "  - rename: {property: %s, to: %s}\n", name, other);
        return;
    case 3:
        add_retype(in, to);
        return;
    default:
        buf_add_format(to, "  - remove: {property: %s}\n", some_name(in));
    }
}

static void add_versions(struct fuzz_source *in, struct buf *to)
{
    uint64_t versions = 1 + fuzz_below(in, MAX_VERSIONS);

    for (uint64_t v = 0; v < versions; v++) {
        buf_add_format(to, "- to: %d\n  steps:\n", (int)v + 2);
        for (uint64_t left = 1 + fuzz_below(in, MAX_STEPS); left > 0; left--)
            add_step(in, to);
    }
}

/* Returns an upgrade with random steps; NULL: the steps cannot be combined. */
static struct upgrade *made_upgrade(struct fuzz_source *in)
{
    static const char *const DIFFERENCES[] = {"fail", "old", "new"};
    static const char *const STORES[] = {"main"};
    const struct job_stores stores = {.count = 1, .names = STORES};
    const struct slice arg = slice_of("word");
    struct problems problems;
    struct job_loader loader = {.job = "up",
        .args = &arg,
        .arg_count = 1,
        .stores = &stores,
        .arena = in->arena,
        .problems = &problems};
    struct upgrade *upgrade;
    struct yaml_node *node;
    struct buf *yaml = fuzz_buf();

    buf_add_format(yaml,
        "table: Blogs\nversion: {property: V, absent: 1}\n"
        "on_difference: %s\nversions:\n",
        FUZZ_PICK(in, DIFFERENCES));
    add_versions(in, yaml);
    problems_init(&problems);
    node = yaml_read(
        "t.yaml", arena_copy(in->arena, buf_slice(yaml)), in->arena, &problems);
    FUZZ_CHECK(node != NULL && problems.errors == 0);
    upgrade = upgrade_rules_load(node, &loader);
    FUZZ_CHECK((upgrade == NULL) == (problems.errors > 0));
    problems_done(&problems);
    return upgrade;
}

/* Adds a record, which may be one that expand writes, or adds none. */
static void add_record(struct fuzz_source *in, struct entity *entity)
{
    static const char *const RECORDS[] = {"{}", "x",
        "{\"version\":2,\"pairs\":[]}", "{\"version\":3,\"pairs\":[]}",
        "{\"version\":9,\"pairs\":[]}",
        "{\"version\":2,\"pairs\":[[\"A\",\"B\",\"absent\",\"absent\"]]}"};

    if (fuzz_yes(in))
        entity_set_string(entity, in->arena, RECORD_PROPERTY,
            slice_of(FUZZ_PICK(in, RECORDS)));
}

/* Returns an entity. Its first properties have names that steps use, and its
 * version is one of the upgrade's versions, or near, or missing. */
static struct entity made_entity(struct fuzz_source *in)
{
    struct entity made = fuzz_entity(in), entity;

    entity_init(&entity, in->arena, made.partition_key, made.row_key);
    entity.etag = fuzz_etag(in);
    for (size_t i = 0; i < made.property_count; i++) {
        struct property property = made.properties[i];

        if (i < NAME_COUNT)
            property.name = slice_of(NAMES[i]);
        entity_set(&entity, in->arena, &property);
    }
    if (fuzz_yes(in))
        entity_set_int32(&entity, in->arena, "V", (int)fuzz_below(in, 6));
    add_record(in, &entity);
    return entity;
}

static bool is_named(const struct upgrade *upgrade, struct slice name)
{
    if (slice_equal(upgrade->version, name) || slice_is(name, RECORD_PROPERTY))
        return true;
    for (size_t v = 0; v < upgrade->version_count; v++)
        for (size_t i = 0; i < upgrade->versions[v].step_count; i++)
            if (slice_equal(upgrade->versions[v].steps[i].property, name) ||
                slice_equal(upgrade->versions[v].steps[i].to, name))
                return true;
    return false;
}

static void check_untouched(const struct upgrade *upgrade,
    const struct entity *before, const struct entity *after)
{
    for (size_t i = 0; i < before->property_count; i++) {
        const struct property *was = &before->properties[i], *is;

        if (is_named(upgrade, was->name))
            continue;
        is = entity_find(after, was->name);
        FUZZ_CHECK(is != NULL && is->type == was->type);
        FUZZ_SAME(is->json, was->json);
    }
    for (size_t i = 0; i < after->property_count; i++)
        FUZZ_CHECK(entity_find(before, after->properties[i].name) != NULL ||
                   is_named(upgrade, after->properties[i].name));
    FUZZ_SAME(after->partition_key, before->partition_key);
    FUZZ_SAME(after->row_key, before->row_key);
    FUZZ_SAME(after->etag, before->etag);
}

/* Checks a changed entity; another round must find nothing to do. */
static void check_changed(const struct upgrade_how *how,
    const struct entity *before, const struct entity *after,
    struct arena *arena)
{
    struct upgrade_result again;
    const struct property *version;
    struct err err = {{0}};
    int64_t number;

    check_untouched(how->upgrade, before, after);
    FUZZ_CHECK(entity_check(after, NULL) == TW_OK);
    fuzz_stored(after, arena);
    version = entity_find(after, how->upgrade->version);
    FUZZ_CHECK(version && property_integer(version, &number) &&
               number == upgrade_rules_newest(how->upgrade));
    FUZZ_CHECK(how->phase != UPGRADE_CONTRACT ||
               !entity_find(after, slice_of(RECORD_PROPERTY)));
    FUZZ_CHECK(
        upgrade_apply(how, after, arena, &again, &err) == UPGRADE_UNCHANGED);
}

static void try_upgrade(const struct upgrade_how *how,
    const struct entity *before, struct arena *arena)
{
    struct upgrade_result first, second;
    struct entity kept;
    struct err err = {{0}}, again;
    enum upgrade_outcome outcome;

    entity_copy(&kept, arena, before);
    outcome = upgrade_apply(how, before, arena, &first, &err);
    FUZZ_CHECK(fuzz_entities_equal(before, &kept));
    FUZZ_CHECK(upgrade_apply(how, before, arena, &second, &again) == outcome);
    if (outcome == UPGRADE_SKIPPED || outcome == UPGRADE_FAILED)
        fuzz_said(&err);
    if (outcome != UPGRADE_CHANGED)
        return;
    FUZZ_CHECK(fuzz_entities_equal(&first.entity, &second.entity));
    check_changed(how, before, &first.entity, arena);
}

static void try_both(
    struct slice text, struct fuzz_source *in, const struct upgrade *upgrade)
{
    const struct slice name = slice_of("word"), value = fuzz_text(in, 8);
    const struct run_args args = {1, &name, &value};
    struct entity entity = made_entity(in);
    struct err err;

    for (int phase = UPGRADE_ALL; phase <= UPGRADE_CONTRACT; phase++) {
        const struct upgrade_how how = {.upgrade = upgrade,
            .phase = (enum upgrade_phase)phase,
            .args = &args};

        try_upgrade(&how, &entity, in->arena);
        if (entity_parse(text, true, in->arena, &entity, NULL, &err) == TW_OK &&
            entity_check(&entity, &err) == TW_OK)
            try_upgrade(&how, &entity, in->arena);
    }
}

FUZZ_TARGET(upgrade)
{
    const struct upgrade *upgrade;

    upgrade = made_upgrade(in);
    if (upgrade != NULL)
        try_both(text, in, upgrade);
}
