/* SPDX-License-Identifier: MIT */
/* The table of kinds, and the jobs of a configuration. */
#include "jobs/jobs.h"

#include "config/settings.h"
#include "jobs/cascade/cascade.h"
#include "jobs/copy/copy.h"
#include "jobs/delete/delete.h"
#include "jobs/following.h"
#include "jobs/move/move.h"
#include "jobs/retired.h"
#include "jobs/upgrade/upgrade.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* Every kind has one line here. */
static const struct kind *const KINDS[] = {
    &cascade_delete_kind,
    &schema_upgrade_kind,
    &copy_kind,
    &move_kind,
    &delete_kind,
};

#define KIND_COUNT (sizeof(KINDS) / sizeof(KINDS[0]))
#define JOB_NAME_MAX 64
#define JOB_MAX_ARGS 32
/* Maximum length of `parts` of struct job, which the ledger stores. If it would
 * be longer, `parts` is NULL. */
#define PARTS_MAX_BYTES 16384

const struct kind *const *jobs_kinds(size_t *ret_count)
{
    *ret_count = KIND_COUNT;
    return KINDS;
}

size_t job_arg_index(const struct job *job, struct slice name)
{
    size_t i = 0;

    while (i < job->arg_count && !slice_equal(job->args[i].name, name))
        i++;
    return i;
}

/* ---- names ---- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_name(struct slice text)
{
    if (text.len == 0 || text.len > JOB_NAME_MAX || !is_lower(text.at[0]))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!is_lower(c) && !(c >= '0' && c <= '9') && c != '-')
            return false;
    }
    return true;
}

/* Can text be used as a name in a template? It may have letters, digits and _,
 * and may not begin with a digit. */
static bool is_arg_name(struct slice text)
{
    if (text.len == 0 || text.len > JOB_NAME_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool letter = is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';

        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return true;
}

/* ---- arguments ---- */

struct arg_map {
    bool allow_empty;
};

static const struct setting ARG_KEYS[] = {
    {"allow_empty", SETTING_BOOL, SETTING_FIELD(struct arg_map, allow_empty),
        .fallback = "false", .help = "true: the argument may be empty"},
};

const struct settings_section jobs_arg_section =
    SETTINGS_SECTION("args: an argument with options", ARG_KEYS);

/* Read one item of `args:`: a name, or {name: {allow_empty: true}}. */
static bool load_arg(const struct yaml_node *node, struct job *job,
    struct job_arg *ret, struct arena *arena, struct problems *problems)
{
    const struct yaml_node *name = node;
    struct arg_map map = {.allow_empty = false};

    if (node->type == YAML_MAP && node->count == 1) {
        name = node->keys[0];
        if (!settings_load(node->items[0], "an argument", ARG_KEYS, 1, arena,
                &map, problems))
            return false;
    }
    if (name->type != YAML_SCALAR || !is_arg_name(name->text)) {
        problems_add(problems, node->mark,
            "an argument must be a name of letters, digits and _, such as "
            "channel, or {channel: {allow_empty: true}}");
        return false;
    }
    if (job_arg_index(job, name->text) < job->arg_count) {
        problems_add(
            problems, name->mark, "argument %s is listed twice", name->text.at);
        return false;
    }
    ret->name = name->text;
    ret->allow_empty = map.allow_empty;
    return true;
}

static void load_args(const struct yaml_node *node, struct job *job,
    struct arena *arena, struct problems *problems)
{
    struct job_arg *args;

    if (!node)
        return;
    if (node->type != YAML_LIST || node->count > JOB_MAX_ARGS) {
        problems_add(problems, node->mark,
            "args must be a list of at most %d names, such as [channel]",
            JOB_MAX_ARGS);
        return;
    }
    args = arena_alloc(arena, node->count * sizeof(*args));
    job->args = args;
    for (size_t i = 0; i < node->count; i++) {
        if (load_arg(
                node->items[i], job, &args[job->arg_count], arena, problems))
            job->arg_count++;
    }
}

/* Append the kind's arguments to those that the job declares. The declared
 * arguments must be first, because templates refer to them by index. */
static void add_kind_args(const struct yaml_node *node, struct job *job,
    struct arena *arena, struct problems *problems)
{
    const struct kind *kind = job->kind;
    struct job_arg *args = arena_alloc(
        arena, (job->arg_count + kind->arg_count + 1) * sizeof(*args));

    if (job->arg_count > 0)
        memcpy(args, job->args, job->arg_count * sizeof(*args));
    for (size_t i = 0; i < kind->arg_count; i++) {
        struct slice name = slice_of(kind->args[i].name);

        if (job_arg_index(job, name) < job->arg_count)
            problems_add(problems, yaml_get(node, "args")->mark,
                "every job of kind %s has an argument %s: remove it from "
                "`args:`",
                kind->name, kind->args[i].name);
    }
    for (size_t i = 0; i < kind->arg_count; i++)
        args[job->arg_count++] = (struct job_arg){
            .name = slice_of(kind->args[i].name), .implied = &kind->args[i]};
    job->args = args;
}

size_t job_declared_args(const struct job *job)
{
    size_t count = 0;

    while (count < job->arg_count && !job->args[count].implied)
        count++;
    return count;
}

/* ---- the definition's hash ---- */

/*
 * Keys that are not part of a job's hash. They set limits, the folders of
 * files, or the end of a run. They do not decide which entities a run changes,
 * or how. So a checkpoint remains valid if one of these keys changes.
 */
static const char *const FREE_KEYS[] = {
    "archive",
    "failures",
    "follow",
    "max_entities_per_second",
    "on_error",
    "refuse_above",
};
#define FREE_KEY_COUNT (sizeof(FREE_KEYS) / sizeof(FREE_KEYS[0]))

static bool is_free_key(const struct yaml_node *key)
{
    for (size_t i = 0; i < FREE_KEY_COUNT; i++)
        if (slice_is(key->text, FREE_KEYS[i]))
            return true;
    return false;
}

static void canonical(
    const struct yaml_node *node, bool top, bool step, struct buf *to);

/* Append a map without its free keys: FREE_KEYS at the top level, `on_error` in
 * a `retype` step. */
static void canonical_map(
    const struct yaml_node *node, bool top, bool step, struct buf *to)
{
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *key = node->keys[i];

        if ((top && is_free_key(key)) ||
            (step && slice_is(key->text, "on_error")))
            continue;
        canonical(key, false, false, to);
        canonical(node->items[i], false, slice_is(key->text, "retype"), to);
    }
    buf_add_char(to, ';');
}

/* Append a text in which the value of each environment variable replaces its
 * name, because a run depends on the values. If a variable is not set, append
 * the text as it is written. Mistakes are reported by the loader of the kind.
 */
static void canonical_scalar(const struct yaml_node *node, struct buf *to)
{
    struct slice text = node->text;
    struct problems ignored;
    struct arena arena;
    const char *unset = NULL;

    arena_init(&arena);
    problems_init(&ignored);
    if (!settings_text(node, true, &arena, &text, &unset, &ignored) || unset)
        text = node->text;
    buf_add_format(to, "%d:%zu:", (int)node->type, text.len);
    buf_add_char(to, node->quoted ? 'q' : 'p');
    buf_add_slice(to, text);
    problems_done(&ignored);
    arena_done(&arena);
}

/* Append the canonical text of node. Two nodes have equal texts only if they
 * are equal after all free keys are removed. */
static void canonical(
    const struct yaml_node *node, bool top, bool step, struct buf *to)
{
    if (node->type == YAML_MAP) {
        buf_add_text(to, "m:");
        canonical_map(node, top, step, to);
        return;
    }
    if (node->type == YAML_SCALAR) {
        canonical_scalar(node, to);
        return;
    }
    buf_add_format(to, "%d:%zu:", (int)node->type, node->count);
    for (size_t i = 0; i < node->count; i++)
        canonical(node->items[i], false, false, to);
}

static void hash_text(const struct buf *text, char to[17])
{
    unsigned char digest[CRYPTO_SHA256_BYTES];

    crypto_sha256(buf_slice(text), digest);
    text_hex(to, digest, 8);
}

static void hash_definition(const struct yaml_node *node, char to[17])
{
    struct buf text;

    buf_init(&text, SIZE_MAX / 2);
    canonical(node, true, false, &text);
    hash_text(&text, to);
    buf_done(&text);
}

/* Does this key of a job decide when a run works, and not which entities it
 * changes? If such a key changes, a run with a checkpoint must start over, so
 * the key is part of the job's hash. The run needs no operator's acceptance for
 * this, so the key is not part of any hash in `parts` of struct job. */
static bool is_key_of_time(const struct yaml_node *key)
{
    return slice_is(key->text, "settle");
}

/* Hash a map without its list of rules. The hash also covers `above`, the hash
 * of the map that contains this map. */
static void hash_part(const struct yaml_node *node, bool top, const char *list,
    const char *above, char to[17])
{
    struct buf text;

    buf_init(&text, SIZE_MAX / 2);
    buf_add_format(&text, "%s;", above);
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *key = node->keys[i];

        if (slice_is(key->text, list) ||
            (top && (is_free_key(key) || is_key_of_time(key))))
            continue;
        canonical(key, false, false, &text);
        canonical(node->items[i], false, false, &text);
    }
    hash_text(&text, to);
    buf_done(&text);
}

/* Append the hash of a map, then the hashes of its rules, each followed by the
 * hashes of the rule's own rules. The loader of the kind reports a node that is
 * not a map or not a list. */
static void add_parts(const struct yaml_node *node, bool top, const char *list,
    const char *above, struct buf *to)
{
    const struct yaml_node *rules = yaml_get(node, list);
    char hash[17];

    if (node->type != YAML_MAP)
        return;
    hash_part(node, top, list, above, hash);
    buf_add_text(to, hash);
    if (!rules || rules->type != YAML_LIST)
        return;
    for (size_t i = 0; i < rules->count; i++)
        add_parts(rules->items[i], false, list, hash, to);
}

/* Returns the text of `parts` in struct job, for the job's map. */
static const char *parts_of(
    const struct yaml_node *node, const struct kind *kind, struct arena *arena)
{
    const char *parts = NULL;
    struct buf text;

    if (!kind->additions)
        return NULL;
    buf_init(&text, PARTS_MAX_BYTES);
    add_parts(node, true, kind->additions, "", &text);
    if (!text.overflow)
        parts = arena_copy(arena, buf_slice(&text)).at;
    buf_done(&text);
    return parts;
}

/* ---- jobs ---- */

const struct kind *jobs_kind(struct slice name)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (slice_is(name, KINDS[i]->name))
            return KINDS[i];
    return NULL;
}

/* Find the kind of a job. A former name is reported as a problem. The job is
 * then checked as a job of the present kind, so that all mistakes are reported
 * at once. */
static const struct kind *load_kind(
    const struct yaml_node *node, struct problems *problems)
{
    const struct yaml_node *kind = yaml_get(node, "kind");
    const char *names[KIND_COUNT], *present;
    const struct kind *found = NULL;

    if (kind && kind->type == YAML_SCALAR)
        found = jobs_kind(kind->text);
    if (found)
        return found;
    present = retired_kind(node, problems);
    if (present)
        return jobs_kind(slice_of(present));
    for (size_t i = 0; i < KIND_COUNT; i++)
        names[i] = KINDS[i]->name;
    if (!kind)
        problems_add(problems, node->mark,
            "`kind:` is missing: write the kind of the job, such as `kind: %s`",
            names[0]);
    else
        settings_unknown(problems, kind->mark, "kind",
            kind->type == YAML_SCALAR ? kind->text : slice_of(""), names,
            KIND_COUNT);
    return NULL;
}

/* ---- keys that every kind has ---- */

struct common_map {
    struct slice failures;
    int64_t max_entities_per_second;
};

static const struct setting COMMON_KEYS[] = {
    {"failures", SETTING_TEXT, SETTING_FIELD(struct common_map, failures),
        .help = "a folder for the entities that failed, as JSON Lines"},
    {"max_entities_per_second", SETTING_INT,
        SETTING_FIELD(struct common_map, max_entities_per_second),
        .fallback = "0", .min = 0, .max = 1000000000,
        .help = "maximum rate of all runs of the job together; 0: only the "
                "limit of the worker applies"},
};

const struct settings_section jobs_common_section =
    SETTINGS_SECTION("jobs: of any kind", COMMON_KEYS);
#define COMMON_KEY_COUNT (sizeof(COMMON_KEYS) / sizeof(COMMON_KEYS[0]))

static bool is_common_key(const struct yaml_node *key)
{
    for (size_t i = 0; i < COMMON_KEY_COUNT; i++)
        if (slice_is(key->text, COMMON_KEYS[i].key))
            return true;
    return false;
}

static struct yaml_node *part_of(
    const struct yaml_node *node, struct arena *arena, bool common)
{
    struct yaml_node *part = arena_alloc(arena, sizeof(*part));

    *part = *node;
    part->keys = arena_alloc(arena, (node->count + 1) * sizeof(*part->keys));
    part->items = arena_alloc(arena, (node->count + 1) * sizeof(*part->items));
    part->count = 0;
    for (size_t i = 0; i < node->count; i++) {
        if (is_common_key(node->keys[i]) != common)
            continue;
        part->keys[part->count] = node->keys[i];
        part->items[part->count++] = node->items[i];
    }
    return part;
}

/* Returns the job's map without the keys that every kind has, for the loader of
 * the kind. */
static const struct yaml_node *without_common(
    const struct yaml_node *node, struct arena *arena)
{
    return part_of(node, arena, false);
}

static bool load_common(const struct yaml_node *node, struct job *job,
    struct arena *arena, struct problems *problems)
{
    struct common_map map = {.max_entities_per_second = 0};

    if (!settings_load(part_of(node, arena, true), "job", COMMON_KEYS,
            COMMON_KEY_COUNT, arena, &map, problems))
        return false;
    job->max_entities_per_second = map.max_entities_per_second;
    if (map.failures.len > 0)
        job->failures = arena_copy(arena, map.failures).at;
    return true;
}

static bool load_job(const struct yaml_node *name, const struct yaml_node *node,
    const struct job_stores *stores, struct arena *arena, struct job *job,
    struct problems *problems)
{
    struct job_loader loader = {
        .stores = stores, .arena = arena, .problems = problems};
    size_t errors = problems->errors;
    struct slice *args;

    *job = (struct job){.name = name->text.at, .mark = name->mark};
    if (!is_name(name->text)) {
        problems_add(problems, name->mark,
            "a job's name must be at most %d characters (a-z, 0-9, -) and "
            "begin with a letter, such as delete-channel",
            JOB_NAME_MAX);
        return false;
    }
    if (node->type != YAML_MAP) {
        problems_add(problems, node->mark,
            "job %s must be a map, beginning with `kind:`", job->name);
        return false;
    }
    load_args(yaml_get(node, "args"), job, arena, problems);
    job->kind = load_kind(node, problems);
    if (!job->kind)
        return false;
    args = arena_alloc(arena, (job->arg_count + 1) * sizeof(*args));
    for (size_t i = 0; i < job->arg_count; i++)
        args[i] = job->args[i].name;
    loader.job = job->name;
    loader.args = args;
    loader.arg_count = job->arg_count;
    (void)load_common(node, job, arena, problems);
    job->settings = job->kind->load(retired_keys(without_common(node, arena),
                                        job->kind->name, arena, problems),
        &loader);
    add_kind_args(node, job, arena, problems);
    job->unset = loader.unset;
    hash_definition(node, job->hash);
    job->parts = parts_of(node, job->kind, arena);
    return problems->errors == errors && job->settings;
}

/* Call kind->link() for each job, then check the jobs with `follow: true`. */
static void link_jobs(
    const struct jobs *jobs, struct arena *arena, struct problems *problems)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->list[i].kind->link)
            jobs->list[i].kind->link(&jobs->list[i], jobs, arena, problems);
    following_check(jobs, problems);
}

void jobs_load(const struct yaml_node *node, const struct job_stores *stores,
    struct arena *arena, struct jobs *ret, struct problems *problems)
{
    *ret = (struct jobs){.count = 0};
    if (!node)
        return;
    if (node->type != YAML_MAP) {
        problems_add(problems, node->mark,
            "jobs must be a map of names, such as delete-channel: {kind: "
            "cascade-delete, ...}");
        return;
    }
    ret->list = arena_alloc(arena, (node->count + 1) * sizeof(*ret->list));
    ret->broken = arena_alloc(arena, (node->count + 1) * sizeof(*ret->broken));
    for (size_t i = 0; i < node->count; i++)
        if (load_job(node->keys[i], node->items[i], stores, arena,
                &ret->list[ret->count], problems))
            ret->count++;
        else
            ret->broken[ret->broken_count++] = node->keys[i]->text.at;
    link_jobs(ret, arena, problems);
}

const struct job *jobs_find(const struct jobs *jobs, struct slice name)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (slice_is(name, jobs->list[i].name))
            return &jobs->list[i];
    return NULL;
}

const char *jobs_nearest(const struct jobs *jobs, struct slice name)
{
    const char **names = mem_array(jobs->count + 1, sizeof(*names));
    const char *nearest;

    for (size_t i = 0; i < jobs->count; i++)
        names[i] = jobs->list[i].name;
    nearest = text_nearest(name, names, jobs->count);
    mem_free(names);
    return nearest;
}
