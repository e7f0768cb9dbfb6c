/* SPDX-License-Identifier: MIT */
/*
 * Walks a tree of rules depth first. An entity whose rule has children is
 * visited, which means that the child rules are bound to it and their scans are
 * opened. The scans of the next few visits are opened ahead, so that a thousand
 * small visits do not wait for one another. Visits are still processed in
 * order, so one path describes how far the walk has come.
 */
#include "jobs/cascade/walk.h"

#include <string.h>

#include "jobs/cascade/ranges.h"
#include "jobs/engine/keys.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/job.h"
#include "worker/base/arena.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

/* Number of scans opened ahead at a level. Each may hold one page. */
#define SCANS_AHEAD 8

struct match {
    const struct rule *rule;
    struct selection selection;
    /* The entity that the rule is bound to; at the root the parent. */
    size_t store;
    const char *table;
    struct slice partition_key, row_key;
    struct match *above; /* the match that found this entity, with a reference;
                            NULL: the root */
    unsigned refs;
    struct arena arena;
};

/* One entity whose children are read; at the root the parent. */
struct visit {
    const struct rule *rules;
    size_t rule_count;
    unsigned level;
    size_t first_rule; /* first rule to walk: 0 unless resumed */
    const struct walk_level
        *resumed; /* position in plan->from at which first_rule resumes; NULL:
                     first_rule begins with its first entity */
    bool bound;   /* false: a rule cannot be bound, and failed() was called */
    struct match **matches; /* one match per rule */
    struct scan **scans;    /* one scan per rule; NULL: not open */
    struct visits *visits;  /* the visits of the page that has the visited
                               entity; NULL: at the root */
    size_t index; /* index of the visited entity in visits->entities */
};

/* The entities of a page that are visited, one after another. */
struct visits {
    const struct entity **entities;
    struct match *match; /* the match that found the entities */
    size_t count;
    size_t opened;  /* number of visits opened so far */
    size_t ahead;   /* maximum number of visits open after the current one */
    unsigned level; /* level of the entities */
    const struct walk_level *resumed; /* position of this level in plan->from;
                                         NULL: these visits do not resume */
    struct visit *ring;         /* open visits, by index modulo (ahead + 1) */
    struct range_scan **ranges; /* one range scan per child rule, shared by all
                                   visits */
    const struct entity **emptied;
    size_t emptied_count;
};

struct walk {
    const struct walk_plan *plan;
    const struct walk_visitor *visitor;
    struct walk_path *path; /* current position of the walk */
    const struct visit
        *inside[CASCADE_MAX_DEPTH]; /* current visits, by level */
    struct scan *top; /* scan of the first-level rule that is walked */
    struct walk_result result;
    struct err *err;
};

/* ---- keys and paths ---- */

static struct slice key_partition(const struct walk_key *key)
{
    return (struct slice){key->partition_key, key->partition_key_len};
}

static struct slice key_row(const struct walk_key *key)
{
    return (struct slice){key->row_key, key->row_key_len};
}

static void key_set(
    struct walk_key *key, struct slice partition_key, struct slice row_key)
{
    key->is_set = partition_key.len <= ENTITY_MAX_KEY_BYTES &&
                  row_key.len <= ENTITY_MAX_KEY_BYTES;
    if (!key->is_set)
        return;
    key->partition_key_len = partition_key.len;
    key->row_key_len = row_key.len;
    if (partition_key.len > 0)
        memcpy(key->partition_key, partition_key.at, partition_key.len);
    if (row_key.len > 0)
        memcpy(key->row_key, row_key.at, row_key.len);
}

static bool key_is(const struct walk_key *key, const struct entity *entity)
{
    return key->is_set &&
           slice_equal(key_partition(key), entity->partition_key) &&
           slice_equal(key_row(key), entity->row_key);
}

static void key_write(
    const char *name, const struct walk_key *key, struct buf *to)
{
    if (!key->is_set)
        return;
    buf_add_format(to, ",\"%s\":", name);
    keys_write(to, key_partition(key), key_row(key));
}

struct walk_path *walk_path_new(void)
{
    struct walk_path *path = mem_resize(NULL, sizeof(*path));

    path->depth = 0;
    for (size_t i = 0; i < CASCADE_MAX_DEPTH; i++) {
        struct walk_level *level = &path->levels[i];

        level->rule = 0;
        level->done.is_set = level->inside.is_set = level->found = false;
    }
    return path;
}

void walk_path_write(const struct walk_path *path, struct buf *to)
{
    buf_add_char(to, '[');
    for (size_t i = 0; i < path->depth; i++) {
        const struct walk_level *level = &path->levels[i];

        buf_add_format(to, "%s{\"rule\":%zu,\"found\":%s", i > 0 ? "," : "",
            level->rule, level->found ? "true" : "false");
        key_write("done", &level->done, to);
        key_write("inside", &level->inside, to);
        buf_add_char(to, '}');
    }
    buf_add_char(to, ']');
}

static bool key_read(const struct json *json, struct walk_key *key)
{
    struct slice partition_key, row_key;

    key->is_set = false;
    if (!json)
        return true;
    if (!keys_read(json, &partition_key, &row_key))
        return false;
    key_set(key, partition_key, row_key);
    return key->is_set;
}

static bool level_read(const struct json *json, struct walk_level *level)
{
    const struct json *rule, *found;
    int64_t index;

    if (json_type(json) != JSON_OBJECT)
        return false;
    rule = json_get(json, "rule");
    found = json_get(json, "found");
    if (!rule || !json_int64(rule, &index) || index < 0 || !found ||
        json_type(found) != JSON_BOOLEAN)
        return false;
    level->rule = (size_t)index;
    level->found = json_boolean(found);
    return key_read(json_get(json, "done"), &level->done) &&
           key_read(json_get(json, "inside"), &level->inside);
}

bool walk_path_read(const struct json *json, struct walk_path *path)
{
    path->depth = 0;
    if (json_type(json) != JSON_ARRAY || json_count(json) > CASCADE_MAX_DEPTH)
        return false;
    for (size_t i = 0; i < json_count(json); i++)
        if (!level_read(json_at(json, i), &path->levels[i]))
            return false;
    path->depth = json_count(json);
    return true;
}

/* ---- matches ---- */

const struct rule *match_rule(const struct match *match)
{
    return match->rule;
}

void match_hold(struct match *match)
{
    match->refs++;
}

void match_release(struct match *match)
{
    while (match && --match->refs == 0) {
        struct match *above = match->above;

        arena_done(&match->arena);
        mem_free(match);
        match = above;
    }
}

/* Is entity, found by rule, one of the entities that match is under? */
static bool is_above(const struct match *match, const struct rule *rule,
    const struct entity *entity)
{
    for (const struct match *m = match; m; m = m->above)
        if (cascade_same_table(rule->store, rule->table, m->store, m->table) &&
            slice_equal(m->partition_key, entity->partition_key) &&
            slice_equal(m->row_key, entity->row_key))
            return true;
    return false;
}

bool match_has(const struct match *match, const struct entity *entity)
{
    return selection_matches(&match->selection, entity) &&
           !is_above(match, match->rule, entity);
}

/*
 * Bind rule to entity, which the match `owner` found. At the root, entity and
 * owner are NULL, and rule is bound to the parent.
 */
static enum tw_err match_new(const struct walk_plan *plan,
    const struct rule *rule, const struct entity *entity, struct match *owner,
    struct match **ret, struct err *err)
{
    const struct entity keys = {
        .partition_key = plan->partition_key, .row_key = plan->row_key};
    struct match *match = mem_alloc(sizeof(*match));
    enum tw_err outcome;

    arena_init_small(&match->arena);
    match->refs = 1;
    match->rule = rule;
    match->store = owner ? owner->rule->store : plan->cascade->store;
    match->table = owner ? owner->rule->table : plan->cascade->table;
    match->partition_key = arena_copy(
        &match->arena, entity ? entity->partition_key : plan->partition_key);
    match->row_key =
        arena_copy(&match->arena, entity ? entity->row_key : plan->row_key);
    if (owner)
        match_hold(owner);
    match->above = owner;
    if (!entity)
        entity = plan->parent ? plan->parent : &keys;
    outcome = selection_bind(&rule->selector, &plan->run->args, entity,
        &match->arena, &match->selection, err);
    if (outcome != TW_OK) {
        match_release(match);
        return outcome;
    }
    *ret = match;
    return TW_OK;
}

/* Does the rule of `other` have children, and read the same table as the rule
 * of `match`? */
static bool may_claim(const struct match *other, const struct match *match)
{
    return other->rule->child_count > 0 &&
           cascade_share_table(other->rule, match->rule);
}

/* `match` has found entity. Does `other` find it too, and has the rule of
 * `other` children? entity must have the properties that both rules read. */
static bool claims(const struct match *other, const struct match *match,
    const struct entity *entity)
{
    return may_claim(other, match) && match_has(other, entity);
}

/* Append the names of the properties that the filter of match and the templates
 * of its child rules read. to: an array that already has count names; NULL:
 * only count. Returns the new count. */
static size_t add_reads(
    const struct match *match, struct slice *to, size_t count)
{
    size_t filter_count = 0;
    const struct slice *filter =
        match->selection.filter
            ? filter_properties(match->selection.filter, &filter_count)
            : NULL;

    for (size_t i = 0; i < filter_count; i++, count++)
        if (to)
            to[count] = filter[i];
    for (size_t i = 0; i < match->rule->need_count; i++, count++)
        if (to)
            to[count] = match->rule->needs[i];
    return count;
}

/* ---- visits ---- */

static bool whole(const struct walk *walk)
{
    return walk->plan->whole;
}

/*
 * Count the properties that other rules read of the entities that match finds.
 * Another rule reads such properties only if it has children and may find the
 * same entities. It reads them for its filter, and for the templates of its
 * child rules. to: receives the names; NULL: only count.
 */
static size_t read_by_others(const struct walk *walk, const struct visit *visit,
    const struct match *match, struct slice *to)
{
    size_t count = 0;

    for (unsigned level = 0; level <= visit->level; level++) {
        const struct visit *at =
            level < visit->level ? walk->inside[level] : visit;

        for (size_t i = 0; i < at->rule_count; i++) {
            const struct match *other = at->matches[i];

            if (other != match && may_claim(other, match))
                count = add_reads(other, to, count);
        }
    }
    return count;
}

/* Describe the scan of match. The names of the properties to read are allocated
 * in arena. The scan reads the properties that the rule of match needs. If
 * visit is not NULL, match belongs to it, and the scan also reads the
 * properties that other rules need of the entities. */
static struct scan_spec make_spec(struct walk *walk, const struct visit *visit,
    const struct match *match, struct arena *arena)
{
    const struct rule *rule = match->rule;
    struct scan_spec spec = {
        .store = walk->plan->stores->stores[rule->store],
        .table = rule->table,
        .run = walk->plan->run,
    };
    size_t needs = rule->need_count;
    struct slice *names;

    if (visit)
        needs += read_by_others(walk, visit, match, NULL);
    names = arena_alloc(arena, (needs + 1) * sizeof(*names));
    if (visit)
        (void)read_by_others(walk, visit, match, names + rule->need_count);
    for (size_t i = 0; i < rule->need_count; i++)
        names[i] = rule->needs[i];
    selection_spec(&match->selection, whole(walk), names, needs, arena, &spec);
    return spec;
}

/* Does the scan of match, which belongs to visit, set the share of the run?
 * Only the scan of the last first-level rule does, because it is not known how
 * many entities a later rule will find. */
static bool tells_share(const struct walk *walk, const struct visit *visit,
    const struct match *match)
{
    return walk->plan->share && visit->level == 0 &&
           match == visit->matches[visit->rule_count - 1];
}

static struct scan *open_scan(struct walk *walk, const struct visit *visit,
    const struct match *match, const struct walk_key *after)
{
    struct arena arena;
    struct scan_spec spec;
    struct scan *scan;

    arena_init(&arena);
    spec = make_spec(walk, visit, match, &arena);
    if (visit && tells_share(walk, visit, match)) {
        spec.tells_share = true;
        spec.share = walk->plan->share;
        spec.done_before = atomic_load(&walk->plan->run->counts.deleted);
    }
    if (after && after->is_set) {
        spec.resumed = true;
        spec.after_partition_key = key_partition(after);
        spec.after_row_key = key_row(after);
    }
    scan = scan_open(walk->plan->run->pool_client, &spec);
    arena_done(&arena);
    return scan;
}

static void visit_close(struct visit *visit)
{
    for (size_t i = 0; i < visit->rule_count; i++) {
        scan_close(visit->scans[i]);
        match_release(visit->matches[i]);
    }
    mem_free(visit->scans);
    mem_free(visit->matches);
    *visit = (struct visit){.rule_count = 0};
}

/* Fail the run if a prefix or filter renders empty, because it would select
 * everything. */
static enum tw_err check_empty(const struct match *match, struct err *err)
{
    struct buf keys;

    if (!match->selection.empty_prefix)
        return TW_OK;
    err_fail(err, TW_INVALID,
        "the %s of the rule for %s renders as an empty text, which would "
        "select "
        "everything",
        match->selection.empty_prefix, match->rule->table);
    if (match->above) {
        buf_init(&keys, sizeof(err->text));
        entity_add_keys(&keys, match->partition_key, match->row_key);
        err_prefix(err, "under %s of %s", buf_text(&keys), match->table);
        buf_done(&keys);
    }
    return TW_INVALID;
}

/* Returns entry `level` of plan->from, or NULL if plan->from has none. */
static const struct walk_level *resumed_level(
    const struct walk *walk, unsigned level)
{
    const struct walk_path *from = walk->plan->from;

    return from && level < from->depth ? &from->levels[level] : NULL;
}

/*
 * Make the visit of the entity that has the number `index` in visits, and bind
 * the child rules to that entity. If visits is NULL, make the visit of the
 * cascade's parent, with the first-level rules. resumed: as in struct visit. If
 * a rule cannot be bound to the entity, failed() is called, and visit->bound
 * stays false; at the root the run fails instead. Whatever the outcome, the
 * caller must close visit.
 */
static enum tw_err visit_open(struct walk *walk, struct visit *visit,
    struct visits *visits, size_t index, const struct walk_level *resumed)
{
    const struct cascade *cascade = walk->plan->cascade;
    struct match *owner = visits ? visits->match : NULL;
    const struct entity *entity = visits ? visits->entities[index] : NULL;
    size_t rule_count = owner ? owner->rule->child_count : cascade->rule_count;

    if (resumed && resumed->rule >= rule_count)
        resumed = NULL;
    *visit =
        (struct visit){.rules = owner ? owner->rule->children : cascade->rules,
            .rule_count = rule_count,
            .level = visits ? visits->level + 1 : 0,
            .first_rule = resumed ? resumed->rule : 0,
            .resumed = resumed,
            .matches = mem_array(rule_count, sizeof(struct match *)),
            .scans = mem_array(rule_count, sizeof(struct scan *)),
            .visits = visits,
            .index = index};
    for (size_t i = 0; i < rule_count; i++) {
        enum tw_err outcome = match_new(walk->plan, &visit->rules[i], entity,
            owner, &visit->matches[i], walk->err);

        if (outcome != TW_OK && entity) {
            walk->plan->run->callbacks->failed(walk->plan->run,
                &(struct run_failure){owner->rule->table, entity->partition_key,
                    entity->row_key, NULL, walk->err->text});
            walk->result.failed++;
            return TW_OK;
        }
        if (outcome == TW_OK)
            outcome = check_empty(visit->matches[i], walk->err);
        if (outcome != TW_OK)
            return outcome;
    }
    visit->bound = true;
    return TW_OK;
}

/* Request the first page of every rule now, except of rules for which one range
 * scan may read the children of many entities. */
static void visit_read_ahead(struct walk *walk, struct visit *visit)
{
    for (size_t i = 0; visit->bound && i < visit->rule_count; i++)
        if (!range_scan_is_useful(visit->visits->ranges[i]))
            visit->scans[i] = open_scan(walk, visit, visit->matches[i], NULL);
}

/* ---- children of many entities, read as one range ---- */

/* Returns the last entity of the page whose children may be read in the same
 * range scan as the children of entity `index`. */
static const struct entity *last_beside(
    const struct visits *visits, size_t index, const struct span *span)
{
    size_t last = visits->count - 1;

    if (span->kind == SPAN_ROWS)
        for (last = index; last + 1 < visits->count; last++)
            if (!slice_equal(visits->entities[last + 1]->partition_key,
                    visits->entities[index]->partition_key))
                break;
    return visits->entities[last];
}

/* Open one range scan for the children of the visited entity and of the
 * entities after it on the page. If the rule's filter reads the visited entity,
 * each entity has a different filter. In this case the request has no filter,
 * and match_has() tests the children. False: no range scan is open. */
static bool open_range(struct walk *walk, const struct visit *visit,
    size_t index, struct scan_spec *spec, const struct span *span)
{
    const struct visits *visits = visit->visits;
    const struct entity *last = last_beside(visits, visit->index, span);
    struct range_scan *ranges = visits->ranges[index];
    const struct template *filter = visit->rules[index].selector.filter;
    struct match *match;
    struct scan_spec other;
    struct arena arena;
    struct span end;
    struct err err;
    bool opened;

    if (match_new(walk->plan, &visit->rules[index], last, visits->match, &match,
            &err) != TW_OK) {
        range_scan_give_up(ranges);
        return false;
    }
    arena_init(&arena);
    other = make_spec(walk, NULL, match, &arena);
    end = span_of(&other, &arena);
    if (filter && template_reads_entity(filter))
        spec->filter = slice_of("");
    opened = range_scan_open(ranges, spec, span, &end);
    arena_done(&arena);
    match_release(match);
    return opened;
}

/* Move the range scan of rule `index` to the children of the visited entity.
 * *ret becomes true if the children are to be read from the range scan. They
 * are then the entities in *span, which borrows from arena. */
static enum tw_err seek_range(struct walk *walk, const struct visit *visit,
    size_t index, struct arena *arena, struct span *span, bool *ret)
{
    struct range_scan *ranges = visit->visits->ranges[index];
    struct scan_spec spec;
    enum tw_err outcome;

    *ret = false;
    if (!range_scan_is_useful(ranges))
        return TW_OK;
    spec = make_spec(walk, visit, visit->matches[index], arena);
    *span = span_of(&spec, arena);
    if (span->kind == SPAN_NONE) {
        range_scan_give_up(ranges);
        return TW_OK;
    }
    outcome = range_scan_seek(ranges, span, ret, walk->err);
    if (outcome == TW_OK && !*ret)
        *ret = open_range(walk, visit, index, &spec, span);
    return outcome;
}

static enum tw_err visit_walk(struct walk *walk, struct visit *visit);

/* ---- a page of entities that have child rules ---- */

/* Returns the level in plan->from (the path to resume at) directly below
 * entity, or NULL if the path does not lead through entity, or ends at it. */
static const struct walk_level *resumed_below(const struct walk *walk,
    const struct visits *visits, const struct entity *entity)
{
    if (!visits->resumed || !key_is(&visits->resumed->inside, entity))
        return NULL;
    return resumed_level(walk, visits->level + 1);
}

/*
 * Open the visits that are not open yet, up to position index + visits->ahead.
 * A visit that resumes at plan->from opens its own scans later.
 */
static enum tw_err open_ahead(
    struct walk *walk, struct visits *visits, size_t index)
{
    while (visits->opened < visits->count &&
           visits->opened <= index + visits->ahead) {
        size_t next = visits->opened++;
        struct visit *visit = &visits->ring[next % (visits->ahead + 1)];
        enum tw_err outcome = visit_open(walk, visit, visits, next,
            resumed_below(walk, visits, visits->entities[next]));

        if (outcome != TW_OK)
            return outcome;
        if (!visit->resumed)
            visit_read_ahead(walk, visit);
    }
    return TW_OK;
}

/* ---- entities that several rules with children find ---- */

/* Does match find an entity of page? An entity above the match `path`
 * (is_above()) does not count, because it is deleted after the entities that
 * `path` finds. */
static bool page_finds(const struct match *match, const struct match *path,
    const struct page *page)
{
    for (size_t i = 0; i < page->count; i++)
        if (match_has(match, &page->entities[i]) &&
            !is_above(path, match->rule, &page->entities[i]))
            return true;
    return false;
}

/* Set *ret to whether rule finds an entity under entity. True also if rule
 * cannot be bound, which the visit of rule reports. */
static enum tw_err rule_finds(struct walk *walk, const struct rule *rule,
    const struct entity *entity, struct match *owner, const struct match *path,
    bool *ret)
{
    const struct page *page;
    struct match *match;
    struct scan *scan;
    enum tw_err outcome;

    *ret = true;
    if (match_new(walk->plan, rule, entity, owner, &match, walk->err) != TW_OK)
        return TW_OK;
    if (match->selection.empty_prefix) {
        match_release(match);
        return TW_OK;
    }
    scan = open_scan(walk, NULL, match, NULL);
    do {
        outcome = scan_next(scan, &page, walk->err);
        *ret = outcome != TW_OK || (page && page_finds(match, path, page));
    } while (outcome == TW_OK && page && !*ret);
    scan_close(scan);
    match_release(match);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

/*
 * Set *ret to whether another rule that also finds entity, at this level or
 * above, finds children under entity. If so, entity must not be deleted,
 * because without entity that rule could no longer find these children.
 */
static enum tw_err others_find(struct walk *walk, const struct visits *visits,
    const struct entity *entity, bool *ret)
{
    const struct match *path = visits->match;
    enum tw_err outcome = TW_OK;

    *ret = false;
    for (unsigned level = 0; level <= visits->level; level++) {
        const struct visit *visit = walk->inside[level];

        for (size_t i = 0; i < visit->rule_count; i++) {
            struct match *other = visit->matches[i];

            if (other == path || !claims(other, path, entity))
                continue;
            for (size_t j = 0; j < other->rule->child_count && !*ret; j++) {
                outcome = rule_finds(
                    walk, &other->rule->children[j], entity, other, path, ret);
                if (outcome != TW_OK)
                    return outcome;
            }
        }
    }
    return outcome;
}

/* Record that the walk has handled all entities of a level up to entity. */
static void reach(
    struct walk *walk, unsigned level, const struct entity *entity)
{
    key_set(&walk->path->levels[level].done, entity->partition_key,
        entity->row_key);
    if (level == 0)
        scan_note_share(walk->top, entity);
    if (walk->visitor->reached)
        walk->visitor->reached(walk->visitor->context, walk->path);
}

static enum tw_err visit_one(
    struct walk *walk, struct visits *visits, size_t index)
{
    const struct entity *entity = visits->entities[index];
    struct visit *visit = &visits->ring[index % (visits->ahead + 1)];
    struct walk_level *here = &walk->path->levels[visits->level];
    struct walk_level *below = &walk->path->levels[visits->level + 1];
    enum tw_err outcome = TW_OK;
    bool found;

    key_set(&here->inside, entity->partition_key, entity->row_key);
    below->found = visit->resumed && visit->resumed->found;
    walk->path->depth = visits->level + 2;
    if (visit->bound)
        outcome = visit_walk(walk, visit);
    if (outcome != TW_OK)
        return outcome;
    /* If the walk resumed inside this entity, the rules before the path may
     * have been bound to an older state of the entity. Only a complete pass
     * shows that nothing is left under the entity. */
    found = !visit->bound || below->found || visit->resumed;
    if (!found)
        outcome = others_find(walk, visits, entity, &found);
    if (outcome != TW_OK)
        return outcome;
    if (!found)
        visits->emptied[visits->emptied_count++] = entity;
    else if (walk->visitor->met)
        walk->visitor->met(walk->visitor->context, visits->match, entity);
    walk->path->depth = visits->level + 1;
    here->inside.is_set = false;
    reach(walk, visits->level, entity);
    return TW_OK;
}

static enum tw_err visit_all(struct walk *walk, struct visits *visits)
{
    enum tw_err outcome = TW_OK;
    size_t i;

    for (i = 0; i < visits->count && outcome == TW_OK; i++) {
        outcome = open_ahead(walk, visits, i);
        if (outcome == TW_OK && run_stopping(walk->plan->run))
            outcome = err_fail(walk->err, TW_STOPPED, "stopped");
        if (outcome == TW_OK)
            outcome = visit_one(walk, visits, i);
        visit_close(&visits->ring[i % (visits->ahead + 1)]);
    }
    for (; i < visits->opened; i++)
        visit_close(&visits->ring[i % (visits->ahead + 1)]);
    if (outcome == TW_OK && visits->emptied_count > 0)
        outcome = walk->visitor->emptied(walk->visitor->context, visits->match,
            visits->emptied, visits->emptied_count, walk->err);
    return outcome;
}

/* Make one range scan per child rule of visits->match. */
static void open_ranges(struct walk *walk, struct visits *visits)
{
    const struct rule *rule = visits->match->rule;

    visits->ranges = mem_array(rule->child_count, sizeof(struct range_scan *));
    for (size_t i = 0; i < rule->child_count; i++) {
        const struct store *store =
            walk->plan->stores->stores[rule->children[i].store];

        visits->ranges[i] = range_scan_new(walk->plan->run->pool_client);
        if (visits->count == 1 || !store->capabilities.ordered)
            range_scan_give_up(visits->ranges[i]);
    }
}

static void close_ranges(struct walk *walk, struct visits *visits)
{
    const struct rule *rule = visits->match->rule;

    for (size_t i = 0; i < rule->child_count; i++) {
        struct range_scan *ranges = visits->ranges[i];

        if (walk->visitor->pages)
            walk->visitor->pages(walk->visitor->context, &rule->children[i],
                range_scan_pages(ranges), range_scan_scans(ranges));
        range_scan_free(ranges);
    }
    mem_free(visits->ranges);
}

static enum tw_err visit_page(struct walk *walk, struct match *match,
    unsigned level, const struct walk_level *resumed,
    const struct entity **entities, size_t count)
{
    struct visits visits = {
        .entities = entities,
        .match = match,
        .count = count,
        .level = level,
        .resumed = resumed,
        /* Open only the current visit if whole entities are read, because they
           need much memory. */
        .ahead = whole(walk) ? 0 : SCANS_AHEAD / match->rule->child_count,
    };
    enum tw_err outcome;

    visits.ring = mem_array(visits.ahead + 1, sizeof(struct visit));
    visits.emptied = mem_array(count, sizeof(struct entity *));
    open_ranges(walk, &visits);
    outcome = visit_all(walk, &visits);
    close_ranges(walk, &visits);
    mem_free(visits.emptied);
    mem_free(visits.ring);
    return outcome;
}

/* ---- one rule, page by page ---- */

/*
 * The leaf rule of match has found entity. Does a rule with children, at this
 * level or above, find entity too? If so, that rule must delete entity. The
 * leaf rule would delete entity at once, and its children could no longer be
 * found.
 */
static bool is_acquired(const struct walk *walk, unsigned level,
    const struct match *match, const struct entity *entity)
{
    if (match->rule->child_count > 0)
        return false;
    for (unsigned i = 0; i <= level; i++)
        for (size_t j = 0; j < walk->inside[i]->rule_count; j++)
            if (claims(walk->inside[i]->matches[j], match, entity))
                return true;
    return false;
}

static enum tw_err walk_page(struct walk *walk, struct match *match,
    unsigned level, const struct walk_level *resumed, const struct page *page)
{
    struct walk_level *here = &walk->path->levels[level];
    const struct entity **mine =
        mem_array(page->count, sizeof(struct entity *));
    const struct entity *last = &page->entities[page->count - 1];
    enum tw_err outcome = TW_OK;
    size_t count = 0;

    walk->plan->run->counts.read += (int64_t)page->count;
    for (size_t i = 0; i < page->count; i++)
        if (match_has(match, &page->entities[i]) &&
            !is_acquired(walk, level, match, &page->entities[i]))
            mine[count++] = &page->entities[i];
    if (count > 0)
        here->found = true;
    if (count > 0 && match->rule->child_count > 0)
        outcome = visit_page(walk, match, level, resumed, mine, count);
    else if (count > 0)
        outcome = walk->visitor->leaves(
            walk->visitor->context, match, mine, count, walk->err);
    mem_free(mine);
    if (outcome != TW_OK)
        return outcome;
    reach(walk, level, last);
    return TW_OK;
}

/* Returns the outcome of a rule's scan. If an optional table is missing,
 * returns TW_OK instead of TW_NOT_FOUND, because there are no children then. */
static enum tw_err scan_ended(
    struct walk *walk, const struct match *match, enum tw_err outcome)
{
    if (outcome != TW_NOT_FOUND || match->rule->optional)
        return outcome == TW_NOT_FOUND ? TW_OK : outcome;
    return err_fail(walk->err, TW_NOT_FOUND,
        "table %s does not exist in store %s: create it, or remove its rule "
        "from the job, then retry",
        match->rule->table, walk->plan->stores->names[match->rule->store]);
}

/* Walk the children of one entity, which are those in `span`. Reads them from
 * `ranges`, whose scan returns the children of many entities. */
static enum tw_err walk_range(struct walk *walk, struct match *match,
    unsigned level, struct range_scan *ranges, const struct span *span)
{
    for (;;) {
        struct page part = {.count = 0};
        enum tw_err outcome = range_scan_next(
            ranges, span, &part.entities, &part.count, walk->err);

        if (outcome != TW_OK || part.count == 0)
            return scan_ended(walk, match, outcome);
        if (run_stopping(walk->plan->run))
            return err_fail(walk->err, TW_STOPPED, "stopped");
        outcome = walk_page(walk, match, level, NULL, &part);
        if (outcome != TW_OK)
            return outcome;
    }
}

/* Walk the children of one entity by a scan of their own, page by page. Opens
 * the scan unless it was opened ahead, and closes it. */
static enum tw_err visit_scan(struct walk *walk, struct visit *visit,
    size_t index, const struct walk_level *resumed)
{
    struct match *match = visit->matches[index];
    struct scan *scan = visit->scans[index];
    const struct page *page;
    enum tw_err outcome;

    if (!scan)
        scan = open_scan(walk, visit, match, resumed ? &resumed->done : NULL);
    if (visit->level == 0)
        walk->top = scan;
    do {
        page = NULL;
        outcome = scan_next(scan, &page, walk->err);
        if (!page)
            outcome = scan_ended(walk, match, outcome);
        else if (run_stopping(walk->plan->run))
            outcome = err_fail(walk->err, TW_STOPPED, "stopped");
        else
            outcome = walk_page(walk, match, visit->level, resumed, page);
    } while (outcome == TW_OK && page);
    if (walk->visitor->pages)
        walk->visitor->pages(
            walk->visitor->context, match->rule, scan_pages(scan), 1);
    scan_close(scan);
    visit->scans[index] = NULL;
    if (visit->level == 0)
        walk->top = NULL;
    return outcome;
}

/* Walk the children that rule `index` finds under the visited entity. They are
 * read by the range scan that the entities of its page share, if that is
 * possible, else by a scan of their own. */
static enum tw_err visit_range_or_scan(
    struct walk *walk, struct visit *visit, size_t index)
{
    struct match *match = visit->matches[index];
    bool in_range = false;
    struct arena arena;
    struct span span;
    enum tw_err outcome;

    arena_init(&arena);
    outcome = seek_range(walk, visit, index, &arena, &span, &in_range);
    if (outcome != TW_OK)
        outcome = scan_ended(walk, match, outcome);
    else if (in_range)
        outcome = walk_range(
            walk, match, visit->level, visit->visits->ranges[index], &span);
    else
        outcome = visit_scan(walk, visit, index, NULL);
    arena_done(&arena);
    return outcome;
}

/* Walk what each rule finds under the visited entity, rule by rule. */
static enum tw_err visit_walk(struct walk *walk, struct visit *visit)
{
    struct walk_level *here = &walk->path->levels[visit->level];
    enum tw_err outcome = TW_OK;

    walk->inside[visit->level] = visit;
    for (size_t i = visit->first_rule;
         i < visit->rule_count && outcome == TW_OK; i++) {
        const struct walk_level *resumed =
            i == visit->first_rule ? visit->resumed : NULL;

        here->rule = i;
        here->done.is_set = here->inside.is_set = false;
        if (resumed)
            here->done = resumed->done;
        if (visit->visits && !visit->scans[i] && !resumed)
            outcome = visit_range_or_scan(walk, visit, i);
        else
            outcome = visit_scan(walk, visit, i, resumed);
    }
    return outcome;
}

enum tw_err walk_check(const struct walk_plan *plan, struct err *err)
{
    struct walk walk = {.plan = plan, .err = err};
    struct visit root;
    enum tw_err outcome = visit_open(&walk, &root, NULL, 0, NULL);

    visit_close(&root);
    return outcome;
}

struct scan *walk_read_ahead(const struct walk_plan *plan)
{
    struct err err;
    struct walk walk = {.plan = plan, .err = &err};
    struct scan *scan = NULL;
    struct visit root;

    if (plan->cascade->need_count > 0 || plan->cascade->rule_count == 0)
        return NULL;
    if (visit_open(&walk, &root, NULL, 0, NULL) == TW_OK)
        scan = open_scan(&walk, &root, root.matches[0], NULL);
    visit_close(&root);
    return scan;
}

enum tw_err walk_run(const struct walk_plan *plan,
    const struct walk_visitor *visitor, struct walk_result *ret,
    struct err *err)
{
    struct walk walk = {.plan = plan, .visitor = visitor, .err = err};
    const struct walk_level *resumed = resumed_level(&walk, 0);
    struct visit root;
    enum tw_err outcome;

    walk.path = walk_path_new();
    walk.path->depth = 1;
    walk.path->levels[0].found = (resumed && resumed->found) || plan->too_early;
    outcome = visit_open(&walk, &root, NULL, 0, resumed);
    if (plan->first)
        root.scans[0] = plan->first;
    if (outcome == TW_OK)
        outcome = visit_walk(&walk, &root);
    visit_close(&root);
    walk.result.found = walk.path->levels[0].found;
    mem_free(walk.path);
    if (outcome == TW_OK)
        *ret = walk.result;
    return outcome;
}
