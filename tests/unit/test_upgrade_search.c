/* SPDX-License-Identifier: MIT */
/* Expand and contract beside two releases: all histories of up to four writes
 * and three rounds. The old release writes in one of seven ways, and the new
 * release in one of six groups of ways (tests/support/releases.h). Each write
 * has a value of its own. No written value may be lost: it is stored, or a
 * later write overwrote it. After contract it is in the new property, unless
 * the entity was reported. */
#include <stdio.h>
#include <string.h>

#include "jobs/upgrade/steps.h"
#include "tests/support/hosted.h"
#include "tests/support/releases.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define WRITES 4
#define ROUNDS 3

struct state {
    struct release_state is;
    int writes, rounds, end; /* numbers so far; a release_end */
    int before;              /* index of the previous state, for the report */
    const char *what;
};

struct search {
    struct hosted hosted;
    struct upgrade_how how;
    struct releases *releases;
    struct state *states;
    size_t count, room;
    size_t *table; /* of states by hash: index + 1 */
    size_t table_size;
};

static const struct run_args NO_ARGS = {.count = 0};

/* ---- states that were reached ---- */

/* Two states are equal if the bytes before `before` are equal: all of them are
 * integers. */
#define KEY_BYTES offsetof(struct state, before)

static size_t hash_of(const struct state *state)
{
    const unsigned char *at = (const unsigned char *)state;
    size_t hash = 14695981039346656037u;

    for (size_t i = 0; i < KEY_BYTES; i++)
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
        if (memcmp(&s->states[s->table[at] - 1], &state, KEY_BYTES) == 0)
            return;
    state.before = before;
    state.what = what;
    s->states[s->count] = state;
    s->table[at] = ++s->count;
}

/* ---- a step ---- */

static bool is_upgraded(
    struct search *s, struct state *state, enum upgrade_phase phase)
{
    struct entity entity = releases_entity(s->releases, &state->is);
    struct upgrade_result result;
    enum upgrade_outcome outcome;
    struct err err;

    s->how.phase = phase;
    outcome =
        upgrade_apply(&s->how, &entity, &s->releases->arena, &result, &err);
    assert_true(outcome == UPGRADE_CHANGED || outcome == UPGRADE_UNCHANGED ||
                outcome == UPGRADE_FAILED);
    if (outcome == UPGRADE_CHANGED)
        releases_read(s->releases, &result.entity, &state->is);
    releases_clear(s->releases);
    return outcome != UPGRADE_FAILED;
}

static void add_writes(
    struct search *s, int index, const enum release_way *ways, size_t count)
{
    struct state from = s->states[index];

    for (size_t i = 0; i < count; i++) {
        struct state to = from;
        int value = 110 + 2 * from.writes;

        to.writes++;
        if ((ways[i] <= OLD_DYNAMIC_V1 || from.rounds > 0) &&
            releases_write(s->releases, &to.is, ways[i], value))
            add(s, to, index, release_way_name(ways[i]));
        to.is = from.is;
        if (ways[i] == OLD_DYNAMIC &&
            releases_remove_old(s->releases, &to.is, from.rounds > 0))
            add(s, to, index, "old removes the old one");
        releases_clear(s->releases);
    }
}

static void report(const struct search *s, int index, const char *why)
{
    for (; index >= 0; index = s->states[index].before) {
        const struct release_state *is = &s->states[index].is;

        fprintf(stderr, "  T %d B %d C %d V %d X %s  <- %s\n", is->t, is->b,
            is->c, is->v,
            is->x == RELEASE_NONE ? "-" : s->releases->texts[is->x],
            s->states[index].what ? s->states[index].what : "the beginning");
    }
    fail_msg("%s", why);
}

static void step(
    struct search *s, int index, const enum release_way *ways, size_t count)
{
    struct state from = s->states[index], to = from;
    const char *why =
        releases_lost(s->releases, &from.is, (enum release_end)from.end);

    if (why)
        report(s, index, why);
    if (from.end != RELEASE_OPEN)
        return;
    if (from.writes < WRITES)
        add_writes(s, index, ways, count);
    if (from.rounds < ROUNDS) {
        (void)is_upgraded(s, &to, UPGRADE_EXPAND);
        to.rounds++;
        add(s, to, index, "a round of expand");
    }
    to = from;
    to.end = is_upgraded(s, &to, UPGRADE_CONTRACT) ? RELEASE_CONTRACTED
                                                   : RELEASE_NAMED;
    add(s, to, index, "contract");
}

static size_t search(
    struct search *s, const enum release_way *ways, size_t count)
{
    struct state first;

    memset(&first, 0, sizeof(first));
    first.is = releases_begin(s->releases, 7);
    s->count = s->table_size = 0;
    mem_free(s->table);
    s->table = NULL;
    add(s, first, -1, NULL);
    for (size_t i = 0; i < s->count; i++)
        step(s, (int)i, ways, count);
    return s->count;
}

/* ---- the searches ---- */

static void begin(struct search *s, const char *job, bool lossy)
{
    memset(s, 0, sizeof(*s));
    hosted_init(&s->hosted, job);
    s->releases = releases_new(lossy);
    s->how.upgrade = s->hosted.jobs.list[0].settings;
    s->how.args = &NO_ARGS;
}

static void done(struct search *s)
{
    mem_free(s->states);
    mem_free(s->table);
    releases_free(s->releases);
    hosted_done(&s->hosted);
}

/* Searches with each way of the old release and each group of ways of the new
 * one. */
static void search_all(const char *job, bool lossy)
{
    struct search s;
    size_t states = 0;

    begin(&s, job, lossy);
    for (int old = OLD_MERGE; old <= OLD_DYNAMIC_V1; old++)
        for (size_t g = 0; g < RELEASE_GROUPS; g++) {
            enum release_way ways[1 + RELEASE_GROUP_MAX] = {
                (enum release_way)old};
            size_t count = 1;

            while (count <= RELEASE_GROUP_MAX &&
                   RELEASE_GROUP[g][count - 1] != RELEASE_WAYS) {
                ways[count] = RELEASE_GROUP[g][count - 1];
                count++;
            }
            states += search(&s, ways, count);
        }
    print_message("%zu states\n", states);
    assert_in_range(states, 10000, 1000000);
    done(&s);
}

TEST(no_write_beside_a_rename_is_lost)
{
    search_all(RELEASE_RENAME, false);
}

TEST(no_write_beside_a_lossy_retype_is_lost)
{
    search_all(RELEASE_LOSSY, true);
}
