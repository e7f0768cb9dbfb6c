/* SPDX-License-Identifier: MIT */
/* Former names of kinds and keys, each with the advice that `check` prints. */
#include "jobs/retired.h"

#include <stdbool.h>
#include <string.h>

#include "worker/base/slice.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- kinds ---- */

static const struct former_kind {
    const char *name, *now, *instead;
} FORMER_KINDS[] = {
    {"migrate", "copy",
        "write `kind: copy`, or `kind: move` if the job had `mode: move`"},
    {"reindex", "copy",
        "write `kind: copy`, and the same table in `from:` and in `to:`"},
};

static bool has_value(
    const struct yaml_node *map, const char *key, const char *value)
{
    const struct yaml_node *node = yaml_get(map, key);

    return node && node->type == YAML_SCALAR && slice_is(node->text, value);
}

const char *retired_kind(const struct yaml_node *job, struct problems *problems)
{
    const struct yaml_node *kind = yaml_get(job, "kind");

    for (size_t i = 0; i < COUNT(FORMER_KINDS); i++) {
        const struct former_kind *former = &FORMER_KINDS[i];

        if (!has_value(job, "kind", former->name))
            continue;
        problems_add(problems, kind->mark, "kind '%s' is a former name: %s",
            former->name, former->instead);
        return has_value(job, "mode", "move") ? "move" : former->now;
    }
    return NULL;
}

/* ---- keys ---- */

enum job_kinds { OF_COPY = 1, OF_MOVE = 2, OF_UPGRADE = 4 };

#define OF_COPIES (OF_COPY | OF_MOVE)
#define IN_FROM "write it in `from: {table: ..., filter: ...}`"

static const struct former_key {
    const char *key;
    const char *value; /* the key is a former one only with this value; NULL:
                        * with any value */
    int kinds;         /* bits of enum job_kinds */
    const char *instead;
} FORMER_KEYS[] = {
    {"mode", NULL, OF_COPIES, "write `kind: copy` or `kind: move` instead"},
    {"on_conflict", "merge", OF_COPY, "choose fail, skip or replace"},
    {"on_conflict", "merge", OF_MOVE, "choose fail, skip or accept_equal"},
    {"on_conflict", "replace", OF_MOVE, "choose fail, skip or accept_equal"},
    {"strip", NULL, OF_COPY,
        "every copy has TablewardSource, which identifies its source; remove "
        "this key"},
    {"strip", NULL, OF_MOVE, "a move adds no property; remove this key"},
    {"provenance", NULL, OF_COPY,
        "the property is always TablewardSource; remove this key"},
    {"provenance", NULL, OF_MOVE, "a move adds no property; remove this key"},
    {"verify", NULL, OF_COPIES,
        "`tableward verify JOB` compares both sides; remove this key"},
    {"max_passes", NULL, OF_COPIES | OF_UPGRADE,
        "a run decides by itself how many rounds it makes; remove this key"},
    {"steps", NULL, OF_UPGRADE,
        "write the steps of each version in `versions: [{to: 2, steps: "
        "[...]}]`"},
    {"phase", NULL, OF_UPGRADE,
        "the phase is an argument of a run (`run JOB phase=expand`); remove "
        "this key"},
    {"copies", NULL, OF_COPIES,
        "write `to:` with the same list, and `table:` in each entry"},
    {"args", NULL, OF_COPY,
        "a copy takes no arguments: write what it selects into `from:`"},
    {"store", NULL, OF_COPIES, IN_FROM},
    {"table", NULL, OF_COPIES, IN_FROM},
    {"filter", NULL, OF_COPIES, IN_FROM},
    {"partition_key", NULL, OF_COPIES, IN_FROM},
    {"partition_key_prefix", NULL, OF_COPIES, IN_FROM},
    {"partition_key_from", NULL, OF_COPIES, IN_FROM},
    {"partition_key_below", NULL, OF_COPIES, IN_FROM},
    {"row_key", NULL, OF_COPIES, IN_FROM},
    {"row_key_prefix", NULL, OF_COPIES, IN_FROM},
    {"row_key_from", NULL, OF_COPIES, IN_FROM},
    {"row_key_below", NULL, OF_COPIES, IN_FROM},
};

static int bit_of(const char *kind)
{
    static const struct {
        const char *name;
        int bit;
    } BITS[] = {
        {"copy", OF_COPY}, {"move", OF_MOVE}, {"schema-upgrade", OF_UPGRADE}};

    for (size_t i = 0; i < COUNT(BITS); i++)
        if (strcmp(BITS[i].name, kind) == 0)
            return BITS[i].bit;
    return 0;
}

/* Returns the former key that matches the member of the job's map at index
 * `member`, or NULL. */
static const struct former_key *find_key(
    const struct yaml_node *job, size_t member, int kind)
{
    const struct yaml_node *value = job->items[member];

    for (size_t i = 0; i < COUNT(FORMER_KEYS); i++) {
        const struct former_key *former = &FORMER_KEYS[i];

        if ((former->kinds & kind) &&
            slice_is(job->keys[member]->text, former->key) &&
            (!former->value || (value->type == YAML_SCALAR &&
                                   slice_is(value->text, former->value))))
            return former;
    }
    return NULL;
}

static void report_key(const struct former_key *former, struct mark mark,
    struct problems *problems)
{
    problems_add(problems, mark, "'%s%s%s' is a former key: %s", former->key,
        former->value ? ": " : "", former->value ? former->value : "",
        former->instead);
}

/* Returns a copy of map whose lists of keys and items may be changed. */
static struct yaml_node *copy_map(
    const struct yaml_node *map, struct arena *arena)
{
    size_t bytes = map->count * sizeof(struct yaml_node *);
    struct yaml_node *copy = arena_alloc(arena, sizeof(*copy));

    *copy = *map;
    copy->keys = arena_alloc(arena, bytes);
    copy->items = arena_alloc(arena, bytes);
    if (bytes > 0) {
        memcpy(copy->keys, map->keys, bytes);
        memcpy(copy->items, map->items, bytes);
    }
    return copy;
}

static void drop_member(struct yaml_node *map, size_t index)
{
    size_t after = (map->count - index - 1) * sizeof(struct yaml_node *);

    memmove(map->keys + index, map->keys + index + 1, after);
    memmove(map->items + index, map->items + index + 1, after);
    map->count--;
}

/* A move has one destination. If `to:` of a move is a list, report a problem,
 * and replace the list by its first entry. */
static void check_destinations(struct yaml_node *job, struct problems *problems)
{
    for (size_t i = 0; i < job->count; i++) {
        struct yaml_node *to = job->items[i];

        if (!slice_is(job->keys[i]->text, "to") || to->type != YAML_LIST)
            continue;
        problems_add(problems, to->mark,
            "`to:` is a list, which a move no longer takes: write one "
            "destination, `to: {table: ...}`; a job of kind copy may have "
            "several destinations");
        if (to->count > 0)
            job->items[i] = to->items[0];
    }
}

/* Report and remove the former keys of `version:` in an upgrade: from and
 * to. */
static void check_version(
    struct yaml_node *job, struct arena *arena, struct problems *problems)
{
    static const struct {
        const char *key, *instead;
    } FORMER[] = {
        {"from",
            "write `absent: 1` (absent is the version of an entity without "
            "the property)"},
        {"to", "write it in `versions: [{to: 2, steps: [...]}]`"},
    };

    for (size_t i = 0; i < job->count; i++) {
        struct yaml_node *version = job->items[i];

        if (!slice_is(job->keys[i]->text, "version") ||
            version->type != YAML_MAP)
            continue;
        job->items[i] = version = copy_map(version, arena);
        for (size_t k = 0; k < version->count;) {
            bool from = slice_is(version->keys[k]->text, FORMER[0].key);

            if (!from && !slice_is(version->keys[k]->text, FORMER[1].key)) {
                k++;
                continue;
            }
            problems_add(problems, version->keys[k]->mark,
                "'%s' is a former key of `version:`: %s", FORMER[!from].key,
                FORMER[!from].instead);
            drop_member(version, k);
        }
    }
}

const struct yaml_node *retired_keys(const struct yaml_node *job,
    const char *kind, struct arena *arena, struct problems *problems)
{
    struct yaml_node *copy = copy_map(job, arena);
    int bit = bit_of(kind);

    for (size_t i = 0; i < copy->count;) {
        const struct former_key *former = find_key(copy, i, bit);

        if (!former) {
            i++;
            continue;
        }
        report_key(former, copy->keys[i]->mark, problems);
        drop_member(copy, i);
    }
    if (bit == OF_MOVE)
        check_destinations(copy, problems);
    if (bit == OF_UPGRADE)
        check_version(copy, arena, problems);
    return copy;
}
