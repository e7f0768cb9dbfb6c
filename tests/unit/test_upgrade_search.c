/* SPDX-License-Identifier: MIT */
/*
 * Expand and contract beside two releases: all histories of up to four writes
 * and three rounds, for each of seven ways in which an old release may write an
 * entity, and six groups of ways in which a new one may. Each write has a value
 * of its own. Nothing that was written may be lost: it is there, or it was
 * overwritten by a later write of the same property, or by one of the other
 * release; and after contract it is in the new property, unless the entity was
 * named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/upgrade/record.h"
#include "jobs/upgrade/steps.h"
#include "tests/support/hosted.h"
#include "worker/base/mem.h"

#define NONE (-1)
#define WRITES 4
#define ROUNDS 3

/* ---- a state ---- */

enum side { OLD, NEW };
enum end { OPEN, CONTRACTED, NAMED };

/* An entity, and what its writers were told is stored. */
struct state {
    int t, b, c, v;          /* old property, new one, a set one, version */
    int x;                   /* the record, as an index into texts; NONE */
    int side, value;         /* the last write of the pair */
    int set;                 /* the last write of c, or NONE */
    int writes, rounds, end; /* so far */
    int before;              /* how it came about: for the report */
    const char *what;
};

struct search {
    struct hosted hosted;
    struct upgrade_how how;
    bool lossy;
    struct arena arena; /* of one step */
    struct state *states;
    size_t count, room;
    size_t *table; /* of states by hash: index + 1 */
    size_t table_size;
    char *texts[4096]; /* of records */
    int text_count;
};

/* The members that make a state what it is. */
static bool same(const struct state *a, const struct state *b)
{
    return memcmp(a, b, offsetof(struct state, before)) == 0;
}

static size_t hash_of(const struct state *state)
{
    const unsigned char *at = (const unsigned char *)state;
    size_t hash = 14695981039346656037u;

    for (size_t i = 0; i < offsetof(struct state, before); i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

static void add_to_table(struct search *s, size_t index)
{
    size_t at = hash_of(&s->states[index]) % s->table_size;

    while (s->table[at])
        at = (at + 1) % s->table_size;
    s->table[at] = index + 1;
}

static void grow(struct search *s)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->states = mem_resize(s->states, s->room * sizeof(*s->states));
    }
    if (2 * s->count < s->table_size)
        return;
    mem_free(s->table);
    s->table_size = s->table_size ? 4 * s->table_size : 4096;
    s->table = mem_array(s->table_size, sizeof(*s->table));
    for (size_t i = 0; i < s->count; i++)
        add_to_table(s, i);
}

static void add(
    struct search *s, struct state state, int before, const char *what)
{
    size_t at;

    grow(s);
    at = hash_of(&state) % s->table_size;
    for (; s->table[at]; at = (at + 1) % s->table_size)
        if (same(&s->states[s->table[at] - 1], &state))
            return;
    state.before = before;
    state.what = what;
    s->states[s->count] = state;
    s->table[at] = ++s->count;
}

/* ---- the entity of a state ---- */

/* Of a lossy pair the old one is half of the number, as a Double. */
static void put_old(struct search *s, struct entity *entity, int value)
{
    if (s->lossy)
        entity_set_double(entity, &s->arena, "T", value / 2.0);
    else
        entity_set_int32(entity, &s->arena, "T", value);
}

static int converted(const struct search *s, int value)
{
    return value == NONE || !s->lossy ? value : value / 2;
}

static struct entity entity_of(struct search *s, const struct state *state)
{
    struct entity entity;

    entity_init(&entity, &s->arena, slice_of("p"), slice_of("r"));
    if (state->t != NONE)
        put_old(s, &entity, state->t);
    if (state->b != NONE)
        entity_set_int32(&entity, &s->arena, "B", state->b);
    if (state->c != NONE)
        entity_set_int32(&entity, &s->arena, "C", state->c);
    if (state->v != NONE)
        entity_set_int32(&entity, &s->arena, "V", state->v);
    if (state->x != NONE)
        entity_set_string(
            &entity, &s->arena, RECORD_PROPERTY, slice_of(s->texts[state->x]));
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
    assert_true(property_integer(property, &integer));
    return (int)integer;
}

static int text_in(struct search *s, const struct entity *entity)
{
    const struct property *property =
        entity_find(entity, slice_of(RECORD_PROPERTY));
    struct slice text;

    if (!property)
        return NONE;
    assert_true(property_text(property, &s->arena, &text));
    for (int i = 0; i < s->text_count; i++)
        if (slice_is(text, s->texts[i]))
            return i;
    assert_in_range(s->text_count, 0, 4095);
    s->texts[s->text_count] = mem_text(text.at, text.len);
    return s->text_count++;
}

/* ---- what the upgrade does ---- */

static bool is_upgraded(
    struct search *s, struct state *state, enum upgrade_phase phase)
{
    struct entity entity = entity_of(s, state);
    struct upgrade_result result;
    enum upgrade_outcome outcome;
    struct err err;

    s->how.phase = phase;
    outcome = upgrade_apply(&s->how, &entity, &s->arena, &result, &err);
    assert_true(outcome == UPGRADE_CHANGED || outcome == UPGRADE_UNCHANGED ||
                outcome == UPGRADE_FAILED);
    if (outcome == UPGRADE_CHANGED) {
        state->t = number_in(&result.entity, "T");
        state->b = number_in(&result.entity, "B");
        state->c = number_in(&result.entity, "C");
        state->v = number_in(&result.entity, "V");
        state->x = text_in(s, &result.entity);
    }
    arena_clear(&s->arena);
    return outcome != UPGRADE_FAILED;
}

/* ---- what the releases write ---- */

enum way {
    OLD_MERGE,
    OLD_MERGE_V,      /* and its version */
    OLD_TYPED,        /* replaces by what it knows: without a version */
    OLD_TYPED_V1,     /* with its own version */
    OLD_TYPED_V_READ, /* with the version that it has read */
    OLD_DYNAMIC,      /* replaces with all that it has read */
    OLD_DYNAMIC_V1,
    NEW_MERGE,
    NEW_MERGE_NO_V,
    NEW_DUAL, /* both properties */
    NEW_BODY, /* replaces by what it knows */
    NEW_REPLACE_DUAL,
    NEW_DROPS_OLD, /* a dictionary, from which it removes the old one */
    NEW_CLEARS,    /* removes the new one */
    NEW_SETS_C,
    NEW_KEEPS_B_DROPS_OLD,
    WAYS,
};

static const char *const NAMES[] = {"old merges", "old merges with version",
    "old replaces, typed", "old replaces, typed, version 1",
    "old replaces, typed, version as read", "old replaces, dynamic",
    "old replaces, dynamic, version 1", "new merges",
    "new merges without version", "new merges both", "new replaces",
    "new replaces with both", "new replaces without the old one",
    "new removes the new one", "new sets C", "new removes the old one"};

static void write_old(struct state *s, enum way way, int value)
{
    bool typed =
        way == OLD_TYPED || way == OLD_TYPED_V1 || way == OLD_TYPED_V_READ;

    s->t = value;
    if (typed)
        s->b = s->c = s->x = NONE;
    if (way == OLD_TYPED)
        s->v = NONE;
    else if (way == OLD_MERGE_V || way == OLD_TYPED_V1 || way == OLD_DYNAMIC_V1)
        s->v = 1;
    if (typed)
        s->set = NONE;
    s->side = OLD;
    s->value = value;
}

/* False: a release would not write so now. */
static bool write_new(
    const struct search *search, struct state *s, enum way way, int value)
{
    bool dual = way == NEW_DUAL || way == NEW_REPLACE_DUAL;

    if ((way == NEW_CLEARS || way == NEW_KEEPS_B_DROPS_OLD) && s->b == NONE)
        return false;
    if (way == NEW_KEEPS_B_DROPS_OLD && s->x == NONE)
        return false;
    if (way != NEW_MERGE_NO_V)
        s->v = 2;
    if (way == NEW_SETS_C) {
        s->c = s->set = 1;
        return true;
    }
    if (dual)
        s->t = search->lossy ? 2 * value : value;
    else if (way == NEW_BODY || way == NEW_DROPS_OLD ||
             way == NEW_KEEPS_B_DROPS_OLD)
        s->t = NONE;
    if (way == NEW_CLEARS)
        s->b = NONE;
    else if (way != NEW_KEEPS_B_DROPS_OLD)
        s->b = value;
    if (way == NEW_BODY || way == NEW_REPLACE_DUAL)
        s->x = NONE;
    s->side = NEW;
    s->value = s->b;
    return true;
}

/* It keeps what it read: only where that is what the last one wrote. */
static bool knows_last(struct search *s, const struct state *state)
{
    struct entity entity = entity_of(s, state);
    struct record record;
    bool knows = record_read(&entity, &s->arena, &record) && record.count == 1;

    if (knows)
        knows = !record_is_new(
                    &record.pairs[0], entity_find(&entity, slice_of("B"))) ||
                record_is_old(
                    &record.pairs[0], entity_find(&entity, slice_of("T")));
    arena_clear(&s->arena);
    return knows;
}

/*
 * Rule U7: a removal while the record is missing is not seen, and an absence
 * that was there at conversion counts as not written. Before the first round
 * there is nothing to compare it with.
 */
static bool may_remove(
    struct search *s, const struct state *state, enum side side)
{
    struct entity entity = entity_of(s, state);
    struct record record;
    bool may = state->rounds == 0;

    if (record_read(&entity, &s->arena, &record) && record.count == 1)
        may = strcmp(side == OLD ? record.pairs[0].old_digest
                                 : record.pairs[0].new_digest,
                  "absent") != 0;
    arena_clear(&s->arena);
    return may;
}

static void add_writes(
    struct search *s, int index, const enum way *ways, size_t count)
{
    struct state from = s->states[index];
    int value = 110 + 2 * from.writes;

    for (size_t i = 0; i < count; i++) {
        struct state to = from;

        to.writes++;
        if (ways[i] <= OLD_DYNAMIC_V1)
            write_old(&to, ways[i], value);
        else if (from.rounds == 0 ||
                 (ways[i] == NEW_CLEARS && !may_remove(s, &from, NEW)) ||
                 (ways[i] == NEW_KEEPS_B_DROPS_OLD && !knows_last(s, &from)) ||
                 !write_new(s, &to, ways[i], value))
            continue;
        add(s, to, index, NAMES[ways[i]]);
        if (ways[i] != OLD_DYNAMIC || from.t == NONE ||
            !may_remove(s, &from, OLD))
            continue;
        to = from;
        to.writes++;
        to.t = NONE;
        to.side = OLD;
        to.value = NONE;
        add(s, to, index, "old removes the old one");
    }
}

/* ---- what must hold ---- */

static const char *lost(const struct search *s, const struct state *state)
{
    bool there = state->side == OLD ? state->t == state->value ||
                                          state->b == converted(s, state->value)
                                    : state->b == state->value;

    if (!there)
        return "the last write is lost";
    if (state->end != NAMED && state->set != NONE && state->c != state->set)
        return "the write of C is lost";
    if (state->end != CONTRACTED)
        return NULL;
    if (state->t != NONE || state->x != NONE)
        return "contract has left something";
    if (state->side == OLD && state->b != converted(s, state->value))
        return "the last write is lost at contract";
    return NULL;
}

static void report(const struct search *s, int index, const char *why)
{
    for (; index >= 0; index = s->states[index].before) {
        const struct state *is = &s->states[index];

        fprintf(stderr, "  T %d B %d C %d V %d X %s  <- %s\n", is->t, is->b,
            is->c, is->v, is->x == NONE ? "-" : s->texts[is->x],
            is->what ? is->what : "the beginning");
    }
    fail_msg("%s", why);
}

static void step(
    struct search *s, int index, const enum way *ways, size_t count)
{
    struct state from = s->states[index], to = from;
    const char *why = lost(s, &from);

    if (why)
        report(s, index, why);
    if (from.end != OPEN)
        return;
    if (from.writes < WRITES)
        add_writes(s, index, ways, count);
    if (from.rounds < ROUNDS) {
        (void)is_upgraded(s, &to, UPGRADE_EXPAND);
        to.rounds++;
        add(s, to, index, "a round of expand");
    }
    to = from;
    to.end = is_upgraded(s, &to, UPGRADE_CONTRACT) ? CONTRACTED : NAMED;
    add(s, to, index, "contract");
}

static size_t search(struct search *s, const enum way *ways, size_t count)
{
    struct state first;

    memset(&first, 0, sizeof(first));
    first.t = first.value = s->lossy ? 7 : 1;
    first.b = first.c = first.x = first.set = NONE;
    first.v = 1;
    first.side = OLD;
    s->count = s->table_size = 0;
    mem_free(s->table);
    s->table = NULL;
    add(s, first, -1, NULL);
    for (size_t i = 0; i < s->count; i++)
        step(s, (int)i, ways, count);
    return s->count;
}

/* ---- the searches ---- */

#define VERSION                                                                \
    "up:\n"                                                                    \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"                                                         \
    "  version: {property: V, absent: 1}\n"                                    \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - set: {property: C, type: Edm.Int32, value: 0}\n"
#define RENAME VERSION "    - rename: {property: T, to: B}\n"
#define LOSSY                                                                  \
    VERSION "    - retype: {property: T, to: Edm.Int32, to_property: B, "      \
            "lossy: true}\n"

static const struct run_args NO_ARGS = {.count = 0};

static void begin(struct search *s, const char *job, bool lossy)
{
    memset(s, 0, sizeof(*s));
    hosted_init(&s->hosted, job);
    arena_init(&s->arena);
    s->lossy = lossy;
    s->how.upgrade = s->hosted.jobs.list[0].settings;
    s->how.args = &NO_ARGS;
}

static void done(struct search *s)
{
    for (int i = 0; i < s->text_count; i++)
        mem_free(s->texts[i]);
    mem_free(s->states);
    mem_free(s->table);
    arena_done(&s->arena);
    hosted_done(&s->hosted);
}

/* One way of an old release, and a group of a new one's. */
#define GROUP_MAX 4
static const enum way GROUPS[][GROUP_MAX] = {
    {NEW_MERGE, NEW_MERGE_NO_V, NEW_SETS_C, WAYS},
    {NEW_MERGE, NEW_DUAL, NEW_SETS_C, WAYS},
    {NEW_BODY, NEW_SETS_C, WAYS, WAYS},
    {NEW_REPLACE_DUAL, NEW_SETS_C, WAYS, WAYS},
    {NEW_DROPS_OLD, NEW_CLEARS, NEW_SETS_C, NEW_KEEPS_B_DROPS_OLD},
    {NEW_MERGE, NEW_DUAL, NEW_CLEARS, NEW_SETS_C},
};

static void search_all(const char *job, bool lossy)
{
    struct search s;
    size_t states = 0;

    begin(&s, job, lossy);
    for (int old = OLD_MERGE; old <= OLD_DYNAMIC_V1; old++)
        for (size_t g = 0; g < sizeof(GROUPS) / sizeof(GROUPS[0]); g++) {
            enum way ways[1 + GROUP_MAX] = {(enum way)old};
            size_t count = 1;

            while (count <= GROUP_MAX && GROUPS[g][count - 1] != WAYS) {
                ways[count] = GROUPS[g][count - 1];
                count++;
            }
            states += search(&s, ways, count);
        }
    print_message("%zu states\n", states);
    assert_in_range(states, 10000, 1000000);
    done(&s);
}

static void no_write_beside_a_rename_is_lost(void **state)
{
    (void)state;
    search_all(RENAME, false);
}

static void no_write_beside_a_lossy_retype_is_lost(void **state)
{
    (void)state;
    search_all(LOSSY, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_write_beside_a_rename_is_lost),
        cmocka_unit_test(no_write_beside_a_lossy_retype_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
