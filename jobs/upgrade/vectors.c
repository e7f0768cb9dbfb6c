/* SPDX-License-Identifier: MIT */
/*
 * Generates example entities from a document. For each property that the steps
 * read, an example gets a value that the steps can convert. It is unknown which
 * type a template needs. So candidates with several types are tried, and a
 * candidate is dropped if a step fails for it.
 */
#include "jobs/upgrade/convert.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/convert.h"
#include "jobs/engine/template.h"
#include "jobs/upgrade/converter.h"
#include "worker/base/text.h"

/* If this number of candidates for one example was refused, the generation
 * fails. The error says why the last candidate was refused. */
#define TRIES_MAX 512
#define TYPES 8

/* An example entity and its state. */
struct made {
    const struct upgrade_converter *converter;
    const struct upgrade *upgrade;
    struct arena *arena;
    struct entity entity;
    size_t level;    /* number of versions that the entity has reached */
    uint64_t random; /* state of the random numbers of draw() */
};

/* Returns a random number below `below`, by xorshift64, so that the sequence is
 * the same in every release. */
static uint64_t draw(struct made *made, uint64_t below)
{
    made->random ^= made->random << 13;
    made->random ^= made->random >> 7;
    made->random ^= made->random << 17;
    return made->random % below;
}

/* ---- values ---- */

static struct slice sample_json(struct made *made, enum edm_type type)
{
    static const char *const TEXTS[] = {"\"Hello\"", "\"F\\u00fc\\u00dfe\"",
        "\"\"", "\"a b\"", "\"12\"", "\"x/y\""};
    static const char *const DOUBLES[] = {
        "4.5", "0.0", "-0.125", "1000000.0", "1e-07", "3.0"};
    unsigned number = (unsigned)draw(made, 100000);

    switch (type) {
    case EDM_BINARY:
        return arena_format(made->arena, "\"%s\"", number % 2 ? "AAEC" : "");
    case EDM_BOOLEAN:
        return slice_of(number % 2 ? "true" : "false");
    case EDM_DATETIME:
        return arena_format(made->arena,
            "\"20%02u-%02u-%02uT%02u:00:%02u.%07uZ\"", number % 30,
            1 + number % 12, 1 + number % 28, number % 24, number % 60, number);
    case EDM_DOUBLE:
        return slice_of(DOUBLES[number % (sizeof(DOUBLES) / sizeof(*DOUBLES))]);
    case EDM_GUID:
        return arena_format(
            made->arena, "\"%08x-0000-4000-8000-%012x\"", number, number * 7);
    case EDM_INT32:
        return arena_format(made->arena, "%d", (int)number - 50000);
    case EDM_INT64:
        return arena_format(
            made->arena, "\"%" PRId64 "\"", (int64_t)number * 10000000000 - 5);
    case EDM_STRING:
        break;
    }
    return slice_of(TEXTS[number % (sizeof(TEXTS) / sizeof(*TEXTS))]);
}

static struct property sample(
    struct made *made, struct slice name, enum edm_type type)
{
    return (struct property){name, type, sample_json(made, type)};
}

/* Returns a value that can be converted to `type`. Makes a value of `type`, and
 * converts it to a random type. If this conversion is not exact, returns the
 * value of `type` itself. */
static struct property sample_source(
    struct made *made, struct slice name, enum edm_type type)
{
    struct property to = sample(made, name, type), from;
    struct err err;

    if (convert_property(&to, (enum edm_type)draw(made, TYPES), made->arena,
            &from, &err) == CONVERT_EXACT)
        return from;
    return to;
}

/* ---- what the steps read ---- */

static bool has(const struct made *made, struct slice name)
{
    return entity_find(&made->entity, name) != NULL;
}

/* Has a step made the property `name`: a step after the entity's version and
 * before step i of version v? */
static bool is_made_before(
    const struct made *made, size_t v, size_t i, struct slice name)
{
    for (size_t k = made->level; k <= v; k++)
        for (size_t n = 0;
             n < (k == v ? i : made->upgrade->versions[k].step_count); n++)
            if (upgrade_step_makes(&made->upgrade->versions[k].steps[n], name))
                return true;
    return false;
}

static void add_template(
    struct made *made, size_t v, size_t i, const struct template *template)
{
    size_t count;
    const struct slice *names = template_properties(template, &count);

    for (size_t n = 0; n < count; n++) {
        struct property property;

        if (has(made, names[n]) || is_made_before(made, v, i, names[n]))
            continue;
        property = sample(made, names[n],
            draw(made, 2) ? EDM_STRING : (enum edm_type)draw(made, TYPES));
        entity_set(&made->entity, made->arena, &property);
    }
}

/* Adds the properties that the step reads. Leaves some of them out by chance.
 */
static void add_for_step(struct made *made, size_t v, size_t i)
{
    const struct upgrade_step *step = &made->upgrade->versions[v].steps[i];
    struct property property;

    if (step->value)
        add_template(made, v, i, step->value);
    if (has(made, step->property) ||
        is_made_before(made, v, i, step->property) ||
        (step->value ? draw(made, 4) > 0 : draw(made, 8) == 0))
        return;
    if (step->type == UPGRADE_RETYPE)
        property = sample_source(made, step->property, step->edm);
    else
        property = sample(made, step->property,
            step->value ? step->edm : (enum edm_type)draw(made, TYPES));
    entity_set(&made->entity, made->arena, &property);
}

/* ---- what the job selects ---- */

static bool is_name_byte(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9') || c == '_';
}

/* Returns the length in bytes of the literal at the beginning of text. */
static size_t literal_bytes(struct slice text)
{
    bool quoted = false;
    size_t bytes = 0;

    for (; bytes < text.len; bytes++) {
        if (text.at[bytes] == '\'')
            quoted = !quoted;
        else if (!quoted && (text.at[bytes] == ' ' || text.at[bytes] == ')'))
            break;
    }
    return bytes;
}

/* Set the property or key `name` to the value of a quoted literal, such as
 * 'it''s'. */
static void set_text(struct made *made, const char *name, struct slice literal)
{
    struct buf text;

    buf_init(&text, SIZE_MAX / 2);
    for (size_t i = 1; i + 1 < literal.len; i++) {
        buf_add_char(&text, literal.at[i]);
        i += literal.at[i] == '\'';
    }
    if (strcmp(name, "PartitionKey") == 0)
        made->entity.partition_key = arena_copy(made->arena, buf_slice(&text));
    else if (strcmp(name, "RowKey") == 0)
        made->entity.row_key = arena_copy(made->arena, buf_slice(&text));
    else
        entity_set_string(&made->entity, made->arena, name, buf_slice(&text));
    buf_done(&text);
}

/* Set the property or key `name` to the value of a literal. A literal of a type
 * other than String, Boolean and Int32 is ignored, and the filter then selects
 * no example. */
static void set_literal(
    struct made *made, const char *name, struct slice literal)
{
    int64_t number;

    if (literal.at[0] == '\'')
        set_text(made, name, literal);
    else if (slice_is(literal, "true") || slice_is(literal, "false"))
        entity_set_boolean(
            &made->entity, made->arena, name, slice_is(literal, "true"));
    else if (text_int64(literal, INT32_MIN, INT32_MAX, &number))
        entity_set_int32(&made->entity, made->arena, name, (int32_t)number);
}

/* Give each property that the filter compares by eq, ge or le the first value
 * that the filter compares it with. */
static void add_for_filter(struct made *made)
{
    static const char *const WORDS[] = {" eq ", " ge ", " le "};
    struct slice rest = made->converter->selection.filter_text;
    size_t name = 0; /* length of the name right before rest */

    while (rest.len > 4) {
        struct slice literal = {rest.at + 4, rest.len - 4};
        size_t bytes = 1;

        for (size_t i = 0; i < sizeof(WORDS) / sizeof(*WORDS); i++) {
            struct slice is = {rest.at - name, name};

            if (name == 0 || !slice_begins(rest, slice_of(WORDS[i])))
                continue;
            literal.len = literal_bytes(literal);
            if (literal.len > 0 && !has(made, is))
                set_literal(made, arena_copy(made->arena, is).at, literal);
            bytes = 4 + literal.len;
            break;
        }
        name = bytes == 1 && is_name_byte(*rest.at) ? name + 1 : 0;
        rest.at += bytes;
        rest.len -= bytes;
    }
}

/* ---- one pair ---- */

/* Adds the version property. May leave it out if an entity without it has the
 * same version (upgrade->absent). */
static void add_version(struct made *made)
{
    const struct upgrade *upgrade = made->upgrade;
    size_t level;
    int64_t number = made->level > 0 ? upgrade->versions[made->level - 1].number
                                     : upgrade->absent;

    if (upgrade_rules_level(upgrade, upgrade->absent, &level) &&
        level == made->level && (number != upgrade->absent || draw(made, 2)))
        return;
    if (number >= INT32_MIN && number <= INT32_MAX)
        entity_set_int32(
            &made->entity, made->arena, upgrade->version.at, (int32_t)number);
    else
        entity_set_int64(
            &made->entity, made->arena, upgrade->version.at, number);
}

static void make_up(struct made *made, size_t n)
{
    const struct upgrade *upgrade = made->upgrade;

    entity_init(&made->entity, made->arena, slice_of("vectors"),
        arena_format(made->arena, "v%06zu", n + 1));
    add_for_filter(made);
    for (size_t v = made->level; v < upgrade->version_count; v++)
        for (size_t i = 0; i < upgrade->versions[v].step_count; i++)
            add_for_step(made, v, i);
    add_version(made);
}

/* Returns the lowest level (upgrade_rules_level()) of a generated entity. It is
 * 0 only if upgrade->absent, the version of an entity without a version
 * property, is below all versions. */
static size_t lowest_level(const struct upgrade *upgrade)
{
    size_t level = 0;

    (void)upgrade_rules_level(upgrade, upgrade->absent, &level);
    return level > 0 ? 1 : 0;
}

static enum tw_err make_pair(const struct upgrade_converter *converter,
    size_t n, struct arena *arena, struct made *made,
    struct upgrade_result *ret, struct err *err)
{
    const struct upgrade *upgrade = converter->how.upgrade;
    size_t lowest = lowest_level(upgrade);
    size_t levels =
        upgrade->version_count > lowest ? upgrade->version_count - lowest : 1;

    *made = (struct made){.converter = converter,
        .upgrade = upgrade,
        .arena = arena,
        .level = lowest + n % levels};
    for (uint64_t i = 0; i < TRIES_MAX; i++) {
        arena_clear(arena);
        made->random = (n * TRIES_MAX + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        make_up(made, n);
        if (!selection_matches(&converter->selection, &made->entity))
            err_fail(err, TW_INVALID,
                "no made-up example entity matches the filter");
        else if (upgrade_apply(&converter->how, &made->entity, arena, ret,
                     err) == UPGRADE_CHANGED)
            return TW_OK;
    }
    err_prefix(err, "no example of version %" PRId64 " passes its steps",
        made->level > 0 ? upgrade->versions[made->level - 1].number
                        : upgrade->absent);
    return TW_INVALID;
}

enum tw_err upgrade_convert_vectors(const struct upgrade_converter *converter,
    size_t count,
    enum tw_err (*each)(void *ctx, const struct entity *before,
        const struct entity *after, struct err *err),
    void *ctx, struct err *err)
{
    struct upgrade_result result;
    struct arena arena;
    struct made made;
    enum tw_err outcome = TW_OK;

    arena_init(&arena);
    for (size_t n = 0; outcome == TW_OK && n < count; n++) {
        outcome = make_pair(converter, n, &arena, &made, &result, err);
        if (outcome == TW_OK)
            outcome = each(ctx, &made.entity, &result.entity, err);
    }
    arena_done(&arena);
    return outcome;
}
