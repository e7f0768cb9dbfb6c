/* SPDX-License-Identifier: MIT */
/*
 * Conversions: any text to each type and back, and the properties of any entity
 * to each type and back. After an exact conversion the value that comes back
 * must be the same.
 */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "jobs/engine/convert.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"

static struct slice name_of_all(void)
{
    return slice_of("Name");
}

/* The property, written as JSON, must be read back the same. */
static void check_stored(const struct property *property, struct arena *arena)
{
    struct property copy = *property;
    struct entity entity = {.properties = &copy, .property_count = 1};

    fuzz_stored(&entity, arena);
}

/* ---- texts ---- */

static bool same_without_case(struct slice a, struct slice b)
{
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

static bool same_time(struct slice a, struct slice b)
{
    int64_t x, y;

    return text_ticks(a, &x) && text_ticks(b, &y) && x == y;
}

static bool same_number(struct slice a, struct slice b, struct arena *arena)
{
    double x = strtod(arena_copy(arena, a).at, NULL);
    double y = strtod(arena_copy(arena, b).at, NULL);

    return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

/* Returns whether the text that came back has the same value as the first
 * text. */
static bool is_same_value(enum edm_type type, struct slice text,
    struct slice back, struct arena *arena)
{
    switch (type) {
    case EDM_BOOLEAN:
    case EDM_GUID:
        return same_without_case(text, back);
    case EDM_DATETIME:
        return same_time(text, back);
    case EDM_DOUBLE:
        return same_number(text, back, arena);
    case EDM_BINARY:
    case EDM_INT32:
    case EDM_INT64:
    case EDM_STRING:
        break;
    }
    return slice_equal(text, back);
}

static struct slice text_of(
    const struct property *property, struct arena *arena)
{
    struct property string;
    struct slice text;
    struct err err;

    FUZZ_CHECK(convert_property(property, EDM_STRING, arena, &string, &err) ==
               CONVERT_EXACT);
    check_stored(&string, arena);
    FUZZ_CHECK(property_text(&string, arena, &text));
    return text;
}

/* `usual` is the usual text of the property. Read again, it must give the same
 * value and the same text. */
static void check_comes_back(
    const struct property *property, struct slice usual, struct arena *arena)
{
    struct property again;
    struct err err;

    FUZZ_CHECK(convert_text(property->name, usual, property->type, arena,
                   &again, &err) == TW_OK);
    FUZZ_CHECK(property_equal(property, &again));
    FUZZ_SAME(text_of(&again, arena), usual);
}

/* Converts a refused text again, now as the value of a property. This
 * conversion may be lossy, but must not be exact. */
static void try_refused(struct slice text, enum edm_type to,
    const struct err *said, struct arena *arena)
{
    struct entity entity;
    struct property lossy;
    struct err err = {{0}};
    enum convert_worth worth;

    fuzz_said(said);
    if (!text_is_utf8(text))
        return;
    entity_init(&entity, arena, slice_of("p"), slice_of("r"));
    entity_set_string(&entity, arena, "Name", text);
    worth = convert_property(&entity.properties[0], to, arena, &lossy, &err);
    FUZZ_CHECK(worth != CONVERT_EXACT);
    FUZZ_SAME(slice_of(err.text), slice_of(said->text));
    if (worth == CONVERT_LOSSY) {
        check_stored(&lossy, arena);
        FUZZ_CHECK(!slice_equal(text_of(&lossy, arena), text));
    }
}

static void try_text(struct slice text, struct arena *arena)
{
    for (unsigned to = 0; to < CONVERT_TYPES; to++) {
        struct property property;
        struct err err = {{0}};
        struct slice usual;

        if (convert_text(name_of_all(), text, (enum edm_type)to, arena,
                &property, &err) != TW_OK) {
            try_refused(text, (enum edm_type)to, &err, arena);
            continue;
        }
        FUZZ_CHECK(property.type == to);
        check_stored(&property, arena);
        usual = text_of(&property, arena);
        FUZZ_CHECK(is_same_value((enum edm_type)to, text, usual, arena));
        check_comes_back(&property, usual, arena);
    }
}

/* ---- properties ---- */

/* Converts a property. If the conversion is exact, no value may be lost on the
 * way back. */
static void try_way(
    const struct property *from, enum edm_type to, struct arena *arena)
{
    struct property there, back, again;
    struct err err = {{0}};
    enum convert_worth worth = convert_property(from, to, arena, &there, &err);

    if (worth != CONVERT_EXACT)
        fuzz_said(&err);
    if (worth == CONVERT_IMPOSSIBLE)
        return;
    FUZZ_CHECK(worth <= convert_way(from->type, to)->worth);
    check_stored(&there, arena);
    if (worth != CONVERT_EXACT)
        return;
    FUZZ_CHECK(convert_property(&there, from->type, arena, &back, &err) ==
               CONVERT_EXACT);
    FUZZ_CHECK(
        convert_property(&back, to, arena, &again, &err) == CONVERT_EXACT);
    FUZZ_CHECK(property_equal(&there, &again));
    if (from->type != EDM_STRING)
        FUZZ_CHECK(property_equal(from, &back));
}

static void try_entity(const struct entity *entity, struct arena *arena)
{
    for (size_t i = 0; i < entity->property_count; i++)
        for (unsigned to = 0; to < CONVERT_TYPES; to++)
            try_way(&entity->properties[i], (enum edm_type)to, arena);
}

FUZZ_TARGET(convert)
{
    struct entity entity;
    struct err err;

    try_text(text, in->arena);
    if (entity_parse(text, false, in->arena, &entity, NULL, &err) == TW_OK)
        try_entity(&entity, in->arena);
    entity = fuzz_entity(in);
    try_entity(&entity, in->arena);
}
