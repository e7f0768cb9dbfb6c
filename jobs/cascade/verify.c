/* SPDX-License-Identifier: MIT */
/*
 * Evaluates rules backwards: from a child to the arguments that would select
 * it, and from the arguments to its parent. An entity that seems to differ is
 * read again before the difference counts.
 */
#include "jobs/cascade/verify.h"

#include <string.h>

#include "jobs/cascade/nested.h"
#include "jobs/cascade/rules.h"
#include "jobs/cascade/sources.h"
#include "jobs/engine/call.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/engine/template.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_difference *)0)->first_keys) / sizeof(char *))

/* Number of entries in the cache that remembers which parents exist. A small
 * cache is enough, because the children of one parent are adjacent. */
#define KNOWN_SLOTS 1024
#define KNOWN_DIGEST_BYTES 16

/* Maximum length of the list of rules that are not verified. */
#define NOTE_MAX_BYTES 16384

enum difference { TOMBSTONES, ORPHANS, DIFFERENCES };

struct known {
    unsigned char digest[KNOWN_DIGEST_BYTES];
    bool is_set, exists;
};

struct verifying {
    const struct cascade *cascade;
    const struct job *job;
    const struct job_stores *stores;
    struct run *run;
    struct job_verification *ret;
    struct err *err;
    struct slice *values;   /* values[i]: the value of argument i, given or
                               derived */
    struct run_args args;   /* the job's arguments, whose values are `values` */
    struct source *sources; /* sources[i]: the part of the child that the
                               current rule derives argument i from */
    struct known *known;
    struct page page; /* result of a read of one entity */
};

static void add_difference(struct verifying *v, enum difference which,
    const char *table, const struct entity *entity)
{
    struct job_difference *difference = &v->ret->differences[which];

    if ((size_t)difference->count < FIRST_KEYS)
        difference->first_keys[difference->count] =
            arena_format(&v->ret->arena, "%s %.*s/%.*s", table,
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key))
                .at;
    difference->count++;
}

static bool is_given(const struct verifying *v, size_t arg)
{
    return v->run->args.values[arg].at != NULL;
}

/* Read the entity with these keys into v->page. TW_OK also if it does not
 * exist; v->page is then empty. */
static enum tw_err read_one(struct verifying *v, size_t store,
    const char *table, const struct entity *keys)
{
    enum tw_err outcome =
        call_get(v->run->pool_client, v->stores->stores[store], table,
            keys->partition_key, keys->row_key, &v->page, NULL, v->err);

    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err stopped(struct verifying *v)
{
    return run_stopping(v->run) ? err_fail(v->err, TW_STOPPED, "stopped")
                                : TW_OK;
}

/* ---- parents left with a tombstone ---- */

static enum tw_err is_open(struct verifying *v, struct slice owner, bool *ret)
{
    static const char *const ended[] = {
        "succeeded", "failed", "poisoned", "cancelled"};
    const char *slash = owner.len > 0 ? memchr(owner.at, '/', owner.len) : NULL;
    const struct property *state;
    struct slice text = {NULL, 0};
    enum tw_err outcome;

    *ret = false;
    if (!slash || !v->run->ledger)
        return TW_OK;
    outcome = call_get(v->run->pool_client, v->run->ledger,
        v->run->ledger_table,
        (struct slice){owner.at, (size_t)(slash - owner.at)},
        (struct slice){slash + 1, owner.len - (size_t)(slash + 1 - owner.at)},
        &v->page, NULL, v->err);
    if (outcome != TW_OK)
        return outcome == TW_NOT_FOUND ? TW_OK : outcome;
    state = entity_find(&v->page.entities[0], slice_of("State"));
    if (!state || !property_peek_text(state, &v->page.arena, &text))
        return TW_OK;
    *ret = true;
    for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++)
        if (slice_is(text, ended[i]))
            *ret = false;
    return TW_OK;
}

/* Sets *ret to the owner of parent's tombstone, in arena. False: parent has no
 * tombstone. */
static bool owner_of(const struct verifying *v, const struct entity *parent,
    struct arena *arena, struct slice *ret)
{
    const struct property *owner = entity_find(parent, slice_of(CASCADE_OWNER));

    return entity_has_all(parent, v->cascade->tombstone) && owner &&
           property_text(owner, arena, ret);
}

static enum tw_err check_tombstone(
    struct verifying *v, const struct entity *parent)
{
    const struct cascade *cascade = v->cascade;
    struct slice owner;
    struct arena arena;
    enum tw_err outcome = TW_OK;
    bool open = false;

    arena_init(&arena);
    if (owner_of(v, parent, &arena, &owner)) {
        outcome = is_open(v, owner, &open);
        if (outcome == TW_OK && !open)
            outcome = read_one(v, cascade->store, cascade->table, parent);
        if (outcome == TW_OK && !open && v->page.count > 0 &&
            owner_of(v, &v->page.entities[0], &arena, &owner))
            add_difference(v, TOMBSTONES, cascade->table, parent);
    }
    arena_done(&arena);
    return outcome;
}

static enum tw_err check_parents(struct verifying *v)
{
    const struct entity *tombstone = v->cascade->tombstone;
    struct slice *names =
        mem_array(tombstone->property_count + 1, sizeof(*names));
    struct scan_spec spec = {
        .store = v->stores->stores[v->cascade->store],
        .table = v->cascade->table,
        .select = names,
        .select_count = tombstone->property_count + 1,
        .run = v->run,
    };
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    for (size_t i = 0; i < tombstone->property_count; i++)
        names[i] = tombstone->properties[i].name;
    names[tombstone->property_count] = slice_of(CASCADE_OWNER);
    scan = scan_open(v->run->pool_client, &spec);
    do {
        outcome = stopped(v);
        if (outcome == TW_OK)
            outcome = scan_next(scan, &page, v->err);
        if (outcome != TW_OK || !page)
            break;
        v->ret->read += (int64_t)page->count;
        for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
            outcome = check_tombstone(v, &page->entities[i]);
    } while (outcome == TW_OK);
    scan_close(scan);
    mem_free(names);
    return outcome;
}

/* ---- from a child to the arguments ---- */

static bool is_needed(
    const struct verifying *v, const struct rule *rule, size_t arg)
{
    return rule_reads_arg(rule, arg) ||
           template_reads_arg(v->cascade->partition_key, arg) ||
           template_reads_arg(v->cascade->row_key, arg);
}

static enum tw_err find_sources(struct verifying *v, const struct rule *rule)
{
    bool has_prefix = false;

    for (size_t i = 0; i < v->args.count; i++) {
        struct slice name = v->args.names[i];

        v->sources[i] = (struct source){.by = TOLD_BY_NOTHING};
        if (is_given(v, i) || !is_needed(v, rule, i))
            continue;
        v->sources[i] = source_of_arg(rule, (int)i);
        if (v->sources[i].by == TOLD_BY_NOTHING ||
            (v->sources[i].by == TOLD_BY_PREFIX && has_prefix))
            return err_fail(v->err, TW_CONFLICT,
                "the rule for %s (line %u) does not show which %.*s an entity "
                "belongs to: use `verify %s %.*s=VALUE`",
                rule->table, rule->mark.line, SLICE_ARG(name), v->job->name,
                SLICE_ARG(name));
        has_prefix = has_prefix || v->sources[i].by == TOLD_BY_PREFIX;
    }
    return TW_OK;
}

/* ---- children without a parent ---- */

enum finding { NO_CHILD, HAS_PARENT, HAS_NONE };

static struct known *slot_of(
    struct verifying *v, const struct entity *parent, unsigned char *digest)
{
    struct buf text;
    unsigned slot;

    buf_init(&text, 2 * ENTITY_MAX_KEY_BYTES + 16);
    buf_add_format(&text, "%zu ", parent->partition_key.len);
    buf_add_slice(&text, parent->partition_key);
    buf_add_slice(&text, parent->row_key);
    crypto_sha256(buf_slice(&text), digest);
    buf_done(&text);
    slot = (unsigned)digest[30] << 8 | digest[31];
    return &v->known[slot % KNOWN_SLOTS];
}

static enum tw_err parent_exists(
    struct verifying *v, const struct entity *parent, bool again, bool *ret)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct known *known = slot_of(v, parent, digest);
    enum tw_err outcome;

    if (!again && known->is_set &&
        memcmp(known->digest, digest, KNOWN_DIGEST_BYTES) == 0) {
        *ret = known->exists;
        return TW_OK;
    }
    outcome = read_one(v, v->cascade->store, v->cascade->table, parent);
    if (outcome != TW_OK)
        return outcome;
    *ret = known->exists = v->page.count > 0;
    known->is_set = true;
    memcpy(known->digest, digest, KNOWN_DIGEST_BYTES);
    return TW_OK;
}

/* Find out whether entity is a child by rule with the current values of
 * v->args, and whether its parent exists. If again is true, read the parent
 * even if the cache has it. */
static enum tw_err judge(struct verifying *v, const struct rule *rule,
    const struct entity *entity, bool again, enum finding *ret)
{
    struct entity parent = {0};
    struct selection selection;
    struct arena arena;
    struct err none;
    enum tw_err outcome = TW_OK;
    bool exists = false, is_child;

    *ret = NO_CHILD;
    arena_init(&arena);
    is_child =
        template_render_key(v->cascade->partition_key, &v->args, "PartitionKey",
            &arena, &parent.partition_key, &none) == TW_OK &&
        template_render_key(v->cascade->row_key, &v->args, "RowKey", &arena,
            &parent.row_key, &none) == TW_OK &&
        selection_bind(&rule->selector, &v->args, &parent, &arena, &selection,
            &none) == TW_OK &&
        !selection.empty_prefix && selection_matches(&selection, entity) &&
        !(cascade_same_table(
              rule->store, rule->table, v->cascade->store, v->cascade->table) &&
            slice_equal(parent.partition_key, entity->partition_key) &&
            slice_equal(parent.row_key, entity->row_key));
    if (is_child)
        outcome = parent_exists(v, &parent, again, &exists);
    if (is_child)
        *ret = exists ? HAS_PARENT : HAS_NONE;
    arena_done(&arena);
    return outcome;
}

/* Does what judge() does, for an argument `arg` that is derived from the
 * beginning of a key. Tries values from the longest to the shortest, and uses
 * the first value whose parent exists. */
static enum tw_err judge_prefixes(struct verifying *v, const struct rule *rule,
    const struct entity *entity, size_t arg, bool again, enum finding *ret)
{
    struct slice key = source_key(&v->sources[arg], entity);
    struct slice rest = v->sources[arg].rest;
    enum finding all = NO_CHILD;
    enum tw_err outcome = TW_OK;

    for (size_t len = key.len; len > 0 && outcome == TW_OK; len--) {
        enum finding one;

        if (key.len - len < rest.len ||
            memcmp(key.at + len, rest.at, rest.len) != 0)
            continue;
        v->values[arg] = (struct slice){key.at, len};
        outcome = judge(v, rule, entity, again, &one);
        if (outcome == TW_OK && one != NO_CHILD)
            all = one;
        if (one == HAS_PARENT)
            break;
    }
    *ret = all;
    return outcome;
}

static enum tw_err judge_child(struct verifying *v, const struct rule *rule,
    const struct entity *entity, bool again, enum finding *ret)
{
    size_t prefixed = v->args.count;
    struct arena arena;
    enum tw_err outcome = TW_OK;
    bool told = true;

    *ret = NO_CHILD;
    arena_init(&arena);
    for (size_t i = 0; i < v->args.count && told; i++) {
        const struct source *source = &v->sources[i];

        if (source->by == TOLD_BY_PREFIX)
            prefixed = i;
        else if (source->by != TOLD_BY_NOTHING)
            told = source_value(source, entity, &arena, &v->values[i]);
    }
    if (told && prefixed < v->args.count)
        outcome = judge_prefixes(v, rule, entity, prefixed, again, ret);
    else if (told)
        outcome = judge(v, rule, entity, again, ret);
    arena_done(&arena);
    return outcome;
}

/* Count a difference only after the entity and its parent were read again. */
static enum tw_err check_child(
    struct verifying *v, const struct rule *rule, const struct entity *entity)
{
    enum finding finding;
    enum tw_err outcome = judge_child(v, rule, entity, false, &finding);
    struct entity now;
    struct arena arena;

    if (outcome != TW_OK || finding != HAS_NONE)
        return outcome;
    outcome = read_one(v, rule->store, rule->table, entity);
    if (outcome != TW_OK || v->page.count == 0)
        return outcome;
    arena_init(&arena);
    entity_copy(&now, &arena, &v->page.entities[0]);
    outcome = judge_child(v, rule, &now, true, &finding);
    if (outcome == TW_OK && finding == HAS_NONE)
        add_difference(v, ORPHANS, rule->table, entity);
    arena_done(&arena);
    return outcome;
}

/* Scan everything that may be a child: the rule's selection if all arguments
 * are given, else the whole table. */
static struct scan *open_children(struct verifying *v, const struct rule *rule)
{
    struct scan_spec spec = {
        .store = v->stores->stores[rule->store],
        .table = rule->table,
        .run = v->run,
    };
    struct entity parent = {.partition_key = slice_of("")};
    struct selection selection;
    struct arena arena;
    struct scan *scan;
    struct err none;
    bool all_given = true;

    arena_init(&arena);
    for (size_t i = 0; i < v->args.count; i++)
        all_given = all_given && v->sources[i].by == TOLD_BY_NOTHING;
    if (all_given &&
        template_render_key(v->cascade->partition_key, &v->args, "PartitionKey",
            &arena, &parent.partition_key, &none) == TW_OK &&
        template_render_key(v->cascade->row_key, &v->args, "RowKey", &arena,
            &parent.row_key, &none) == TW_OK &&
        selection_bind(&rule->selector, &v->args, &parent, &arena, &selection,
            &none) == TW_OK)
        selection_spec(&selection, true, NULL, 0, &arena, &spec);
    scan = scan_open(v->run->pool_client, &spec);
    arena_done(&arena);
    return scan;
}

static enum tw_err check_rule(struct verifying *v, const struct rule *rule)
{
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome = find_sources(v, rule);

    if (outcome != TW_OK)
        return outcome;
    scan = open_children(v, rule);
    do {
        outcome = stopped(v);
        if (outcome == TW_OK)
            outcome = scan_next(scan, &page, v->err);
        if (outcome != TW_OK || !page)
            break;
        v->ret->read += (int64_t)page->count;
        atomic_fetch_add(&v->run->counts.read, (int64_t)page->count);
        for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
            outcome = check_child(v, rule, &page->entities[i]);
    } while (outcome == TW_OK);
    scan_close(scan);
    return outcome == TW_NOT_FOUND && rule->optional ? TW_OK : outcome;
}

/* ---- rules of level 2 and below ---- */

static void add_orphan(
    void *context, const struct rule *rule, const struct entity *entity)
{
    add_difference(context, ORPHANS, rule->table, entity);
}

static enum tw_err check_nested(struct verifying *v)
{
    struct buf unread;
    const struct nested_check check = {
        .cascade = v->cascade,
        .job = v->job,
        .stores = v->stores,
        .run = v->run,
        .read = &v->ret->read,
        .orphan = add_orphan,
        .context = v,
        .unread = &unread,
    };
    enum tw_err outcome;

    buf_init(&unread, NOTE_MAX_BYTES);
    outcome = nested_verify(&check, v->err);
    if (unread.len > 0)
        v->ret->note = arena_format(&v->ret->arena,
            "%s%sthese rules are not verified, because their entities do not "
            "show which entity is above them: %s",
            v->ret->note ? v->ret->note : "", v->ret->note ? "; " : "",
            buf_text(&unread))
                           .at;
    buf_done(&unread);
    return outcome;
}

static enum tw_err check_rules(struct verifying *v)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < v->cascade->rule_count && outcome == TW_OK; i++) {
        const struct rule *rule = &v->cascade->rules[i];

        if (rule->reads_parent)
            v->ret->note = "rules that read properties of the parent are not "
                           "verified, because the parent is missing";
        else
            outcome = check_rule(v, rule);
    }
    return outcome == TW_OK ? check_nested(v) : outcome;
}

static void begin(struct verifying *v)
{
    static const char *const what[DIFFERENCES] = {
        [TOMBSTONES] = "parents left with a tombstone",
        [ORPHANS] = "children without a parent",
    };
    size_t count = v->run->args.count;

    v->ret->differences =
        arena_alloc(&v->ret->arena, DIFFERENCES * sizeof(*v->ret->differences));
    v->ret->count = DIFFERENCES;
    for (size_t i = 0; i < DIFFERENCES; i++)
        v->ret->differences[i].what = what[i];
    v->values = mem_array(count + 1, sizeof(*v->values));
    v->sources = mem_array(count + 1, sizeof(*v->sources));
    v->known = mem_array(KNOWN_SLOTS, sizeof(*v->known));
    for (size_t i = 0; i < count; i++)
        v->values[i] =
            v->run->args.values[i].at ? v->run->args.values[i] : slice_of("");
    v->args = (struct run_args){count, v->run->args.names, v->values};
    page_init(&v->page);
}

enum tw_err cascade_verify(const struct job *job,
    const struct job_stores *stores, struct run *run,
    struct job_verification *ret, struct err *err)
{
    struct verifying v = {.cascade = job->settings,
        .job = job,
        .stores = stores,
        .run = run,
        .ret = ret,
        .err = err};
    enum tw_err outcome;

    begin(&v);
    outcome = check_rules(&v);
    if (outcome == TW_OK)
        outcome = check_parents(&v);
    page_done(&v.page);
    mem_free(v.known);
    mem_free(v.sources);
    mem_free(v.values);
    return outcome;
}
