/* SPDX-License-Identifier: MIT */
/* Two releases of an application: see releases.h. */
#include "tests/support/releases.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/upgrade/record.h"
#include "worker/base/mem.h"

#define NONE RELEASE_NONE

const enum release_way RELEASE_GROUP[RELEASE_GROUPS][RELEASE_GROUP_MAX] = {
    {NEW_MERGE, NEW_MERGE_NO_V, NEW_SETS_C, RELEASE_WAYS},
    {NEW_MERGE, NEW_DUAL, NEW_SETS_C, RELEASE_WAYS},
    {NEW_BODY, NEW_SETS_C, RELEASE_WAYS, RELEASE_WAYS},
    {NEW_REPLACE_DUAL, NEW_SETS_C, RELEASE_WAYS, RELEASE_WAYS},
    {NEW_DROPS_OLD, NEW_CLEARS, NEW_SETS_C, NEW_KEEPS_B_DROPS_OLD},
    {NEW_MERGE, NEW_DUAL, NEW_CLEARS, NEW_SETS_C},
};

const char *release_way_name(enum release_way way)
{
    static const char *const NAMES[] = {"old merges", "old merges with version",
        "old replaces, typed", "old replaces, typed, version 1",
        "old replaces, typed, version as read", "old replaces, dynamic",
        "old replaces, dynamic, version 1", "new merges",
        "new merges without version", "new merges both", "new replaces",
        "new replaces with both", "new replaces without the old one",
        "new removes the new one", "new sets C", "new removes the old one"};

    return NAMES[way];
}

struct releases *releases_new(bool lossy)
{
    struct releases *releases = mem_alloc(sizeof(*releases));

    releases->lossy = lossy;
    arena_init(&releases->arena);
    return releases;
}

void releases_free(struct releases *releases)
{
    if (!releases)
        return;
    for (int i = 0; i < releases->text_count; i++)
        mem_free(releases->texts[i]);
    arena_done(&releases->arena);
    mem_free(releases);
}

void releases_clear(struct releases *releases)
{
    arena_clear(&releases->arena);
}

struct release_state releases_begin(const struct releases *releases, int value)
{
    return (struct release_state){.t = value,
        .b = NONE,
        .c = NONE,
        .v = 1,
        .x = NONE,
        .side = RELEASE_OLD,
        .value = value,
        .set = NONE};
}

/* ---- from the state to the entity, and back ---- */

/* Sets T. In a lossy pair T is half of the number, as a Double. */
static void put_old(struct releases *releases, struct entity *entity, int value)
{
    if (releases->lossy)
        entity_set_double(entity, &releases->arena, "T", value / 2.0);
    else
        entity_set_int32(entity, &releases->arena, "T", value);
}

static int converted_value(const struct releases *releases, int value)
{
    return value == NONE || !releases->lossy ? value : value / 2;
}

struct entity releases_entity(
    struct releases *releases, const struct release_state *state)
{
    struct arena *arena = &releases->arena;
    struct entity entity;

    entity_init(&entity, arena, slice_of("p"), slice_of("r"));
    if (state->t != NONE)
        put_old(releases, &entity, state->t);
    if (state->b != NONE)
        entity_set_int32(&entity, arena, "B", state->b);
    if (state->c != NONE)
        entity_set_int32(&entity, arena, "C", state->c);
    if (state->v != NONE)
        entity_set_int32(&entity, arena, "V", state->v);
    if (state->x != NONE)
        entity_set_string(&entity, arena, RECORD_PROPERTY,
            slice_of(releases->texts[state->x]));
    return entity;
}

static int number_in(const struct entity *entity, const char *name)
{
    const struct property *property = entity_find(entity, slice_of(name));
    int64_t integer;
    double number;

    if (!property)
        return NONE;
    if (property_double(property, &number))
        return (int)(2 * number);
    if (!property_integer(property, &integer))
        abort();
    return (int)integer;
}

static int text_in(struct releases *releases, const struct entity *entity)
{
    const struct property *property =
        entity_find(entity, slice_of(RECORD_PROPERTY));
    struct slice text;

    if (!property)
        return NONE;
    if (!property_text(property, &releases->arena, &text))
        abort();
    for (int i = 0; i < releases->text_count; i++)
        if (slice_is(text, releases->texts[i]))
            return i;
    if (releases->text_count == RELEASE_TEXTS_MAX)
        abort();
    releases->texts[releases->text_count] = mem_text(text.at, text.len);
    return releases->text_count++;
}

void releases_read(struct releases *releases, const struct entity *entity,
    struct release_state *state)
{
    state->t = number_in(entity, "T");
    state->b = number_in(entity, "B");
    state->c = number_in(entity, "C");
    state->v = number_in(entity, "V");
    state->x = text_in(releases, entity);
}

/* ---- what the record says ---- */

static bool read_pair(struct releases *releases,
    const struct release_state *state, struct entity *entity,
    struct record *record)
{
    *entity = releases_entity(releases, state);
    return record_read(entity, &releases->arena, record) && record->count == 1;
}

/* Rule U7: returns whether a release may remove its property. If the record is
 * missing, a removal is not noticed; if the property was absent at conversion,
 * its absence does not count as a write. */
static bool may_remove(struct releases *releases,
    const struct release_state *state, enum release_side side)
{
    struct entity entity;
    struct record record;

    return read_pair(releases, state, &entity, &record) &&
           strcmp(side == RELEASE_OLD ? record.pairs[0].old_digest
                                      : record.pairs[0].new_digest,
               "absent") != 0;
}

/* Returns whether B has the value of the last write, so that a new release
 * which keeps B loses no write. */
static bool knows_last(
    struct releases *releases, const struct release_state *state)
{
    struct entity entity;
    struct record record;

    return read_pair(releases, state, &entity, &record) &&
           (!record_is_new(
                &record.pairs[0], entity_find(&entity, slice_of("B"))) ||
               record_is_old(
                   &record.pairs[0], entity_find(&entity, slice_of("T"))));
}

/* ---- what the releases write ---- */

static void write_old(struct release_state *s, enum release_way way, int value)
{
    bool typed =
        way == OLD_TYPED || way == OLD_TYPED_V1 || way == OLD_TYPED_V_READ;

    s->t = value;
    if (typed)
        s->b = s->c = s->x = s->set = NONE;
    if (way == OLD_TYPED)
        s->v = NONE;
    else if (way == OLD_MERGE_V || way == OLD_TYPED_V1 || way == OLD_DYNAMIC_V1)
        s->v = 1;
    s->side = RELEASE_OLD;
    s->value = value;
}

static void write_new(const struct releases *releases, struct release_state *s,
    enum release_way way, int value)
{
    if (way != NEW_MERGE_NO_V)
        s->v = 2;
    if (way == NEW_SETS_C) {
        s->c = s->set = value;
        return;
    }
    if (way == NEW_DUAL || way == NEW_REPLACE_DUAL)
        s->t = releases->lossy ? 2 * value : value;
    else if (way == NEW_BODY || way == NEW_DROPS_OLD ||
             way == NEW_KEEPS_B_DROPS_OLD)
        s->t = NONE;
    if (way == NEW_CLEARS)
        s->b = NONE;
    else if (way != NEW_KEEPS_B_DROPS_OLD)
        s->b = value;
    if (way == NEW_BODY || way == NEW_REPLACE_DUAL)
        s->x = NONE;
    s->side = RELEASE_NEW;
    s->value = s->b;
}

bool releases_write(struct releases *releases, struct release_state *state,
    enum release_way way, int value)
{
    if (way <= OLD_DYNAMIC_V1) {
        write_old(state, way, value);
        return true;
    }
    if (way == NEW_CLEARS &&
        (state->b == NONE || !may_remove(releases, state, RELEASE_NEW)))
        return false;
    if (way == NEW_KEEPS_B_DROPS_OLD &&
        (state->b == NONE || !knows_last(releases, state)))
        return false;
    write_new(releases, state, way, value);
    return true;
}

bool releases_remove_old(
    struct releases *releases, struct release_state *state, bool converted)
{
    if (state->t == NONE ||
        (converted && !may_remove(releases, state, RELEASE_OLD)))
        return false;
    state->t = NONE;
    state->side = RELEASE_OLD;
    state->value = NONE;
    return true;
}

/* ---- the check of a state ---- */

const char *releases_lost(const struct releases *releases,
    const struct release_state *state, enum release_end end)
{
    int becomes = converted_value(releases, state->value);
    bool there = state->side == RELEASE_OLD
                     ? state->t == state->value || state->b == becomes
                     : state->b == state->value;

    if (!there)
        return "the last write is lost";
    if (end != RELEASE_NAMED && state->set != NONE && state->c != state->set)
        return "the write of C is lost";
    if (end != RELEASE_CONTRACTED)
        return NULL;
    if (state->t != NONE || state->x != NONE)
        return "contract has left something";
    if (state->side == RELEASE_OLD && state->b != becomes)
        return "the last write is lost at contract";
    return NULL;
}
