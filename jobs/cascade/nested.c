/* SPDX-License-Identifier: MIT */
/*
 * A nested rule is checked backwards, from an entity of its table to the entity
 * above. An entity has some values of the entity above, for example the RowKey
 * of that entity, but perhaps not all values that a point read needs. So the
 * check works in blocks:
 *
 * 1. Collect entities of the rule's table, each with a reference: a digest of
 *    the values that it has of the entity above.
 * 2. Read the table of the rule above once. Each entity there whose values have
 *    the digest of a reference is the parent of the referring entity.
 * 3. Read the entities without a parent again, one by one, and do 2. again.
 * 4. Report the entities that still have no parent.
 *
 * If several rules have the same table, an entity has one reference for each
 * rule that may find it, and one parent is enough.
 */
#include "jobs/cascade/nested.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/cascade/sources.h"
#include "jobs/engine/call.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/engine/template.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/store/canonical.h"

#define DIGEST_BYTES 16
/* Limits of a block: its number of children, and the bytes of their keys. With
 * its table of children a block takes about 30 MB. */
#define BLOCK_CHILDREN 100000
#define BLOCK_BYTES ((size_t)16 * 1024 * 1024)
/* Limit of a block: its number of references. One child may have several,
 * because several rules may find it, or because a key begins with a value whose
 * end is not certain ("a_b_1": a, or a_b). */
#define BLOCK_REFERENCES (2 * BLOCK_CHILDREN)

/* Larger than all texts of one entity together. */
#define DIGEST_TEXT_MAX ((size_t)16 * 1024 * 1024)

/* Replaces the index of the rule above if there is none: above a first-level
 * rule there is only the cascade's parent. */
#define ROOT ((size_t)-1)

/* In which keys and properties the entities of a rule have the values that the
 * rule reads. */
struct reading {
    bool is_possible;       /* the entities have each of these values */
    struct source *args;    /* args[i]: where the entities have the value of
                             * argument i. TOLD_BY_NOTHING: the rule does not
                             * read argument i, or the run was given the value
                             * of argument i */
    struct slice *reads;    /* names of the keys and properties that the rule
                             * reads of the entity above */
    struct source *sources; /* sources[i]: where the entities have the value
                             * of reads[i] */
    size_t read_count;
    const struct source *prefix; /* the only source that is TOLD_BY_PREFIX;
                                    NULL: there is none */
    size_t prefix_least;         /* minimum length of the value of that source:
                                    1 for an argument, 0 for a key, which may
                                    be empty */
};

struct level {
    const struct rule *rule;
    size_t above;         /* index of the rule above; ROOT: none */
    struct reading asked; /* for the entities to check: given arguments have
                           * the given values; all other values are taken
                           * from the entities */
    struct reading any;   /* for entities that may be parents, and for other
                           * rules with the same table: like asked, but the
                           * values of given arguments are taken from the
                           * entities too */
    bool leaves_out;      /* an entity was left out, because another rule that
                           * cannot be read backwards may find it */
    bool has_partition;   /* the entities to check have this PartitionKey */
    struct slice partition_key;
};

struct child {
    struct slice partition_key, row_key;
    bool has_parent;
};

struct reference {
    size_t level; /* index of the rule that may find the child */
    unsigned char digest[DIGEST_BYTES];
    size_t child; /* index of the child that refers to an entity above */
};

struct block {
    struct arena arena;
    struct child *children;
    size_t child_count;
    struct reference *references;
    size_t reference_count;
};

struct nested {
    const struct nested_check *check;
    struct level *levels; /* one per rule, first-level rules first, each rule
                             before its child rules */
    size_t level_count, first_count;
    struct slice *values; /* values[i]: the value of argument i, given or
                           * taken from the present entity */
    struct run_args args; /* the job's arguments, whose values are `values` */
    struct arena arena;
    struct page page;
    struct err *err;
};

/* ---- which values a rule's entities have ---- */

static void add_level(struct nested *n, const struct rule *rule, size_t above)
{
    n->levels =
        mem_resize(n->levels, (n->level_count + 1) * sizeof(*n->levels));
    n->levels[n->level_count++] = (struct level){.rule = rule, .above = above};
}

/* Adds all rules, breadth first, so that the first-level rules come first. */
static void add_levels(struct nested *n)
{
    const struct cascade *cascade = n->check->cascade;

    for (size_t i = 0; i < cascade->rule_count; i++)
        add_level(n, &cascade->rules[i], ROOT);
    n->first_count = n->level_count;
    for (size_t i = 0; i < n->level_count; i++) {
        const struct rule *rule = n->levels[i].rule;

        for (size_t j = 0; j < rule->child_count; j++)
            add_level(n, &rule->children[j], i);
    }
}

struct names {
    struct arena *arena;
    struct slice *list;
    size_t count;
};

static void add_name(void *ctx, struct slice name)
{
    struct names *names = ctx;
    struct slice *list;

    for (size_t i = 0; i < names->count; i++)
        if (slice_equal(names->list[i], name))
            return;
    list = arena_alloc(names->arena, (names->count + 1) * sizeof(*list));
    if (names->count > 0)
        memcpy(list, names->list, names->count * sizeof(*list));
    list[names->count++] = name;
    names->list = list;
}

static bool reads_key(const struct selector *selector, bool row_key)
{
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (selector->keys[i] && template_reads_key(selector->keys[i], row_key))
            return true;
    return selector->filter && template_reads_key(selector->filter, row_key);
}

static bool reads_properties(const struct template *template)
{
    size_t count = 0;

    if (template)
        (void)template_properties(template, &count);
    return count > 0;
}

/* Is each {..} of the filter all that is between the quotes of a comparison
 * with eq, as in Blog eq '{RowKey}'? */
static bool only_compares(const struct template *filter)
{
    size_t count, alone = 0;
    const struct template_equality *list = template_equalities(filter, &count);

    for (size_t i = 0; i < count; i++)
        alone += list[i].arg >= 0 || list[i].read.len > 0;
    return alone == template_values(filter);
}

/* Does the rule read properties only in ways that do not depend on their type
 * (alone in a key, or alone in quotes)? A child has the property of the entity
 * above as a text, without the type of the property. */
static bool reads_texts_only(const struct selector *selector)
{
    struct slice rest;

    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (reads_properties(selector->keys[i]) &&
            template_lone_property(selector->keys[i]).len == 0 &&
            template_leading_property(selector->keys[i], &rest).len == 0)
            return false;
    return !reads_properties(selector->filter) ||
           only_compares(selector->filter);
}

static bool keep_source(
    struct reading *reading, const struct source *source, size_t least)
{
    if (source->by == TOLD_BY_NOTHING ||
        (source->by == TOLD_BY_PREFIX && reading->prefix))
        return false;
    if (source->by == TOLD_BY_PREFIX) {
        reading->prefix = source;
        reading->prefix_least = least;
    }
    return true;
}

static bool parent_reads_arg(const struct nested *n, size_t arg)
{
    return template_reads_arg(n->check->cascade->partition_key, arg) ||
           template_reads_arg(n->check->cascade->row_key, arg);
}

/* Find out where the entities of the rule have the values of the arguments that
 * the rule needs. False: the entities do not have the value of the argument
 * *ret_missing. */
static bool read_args(struct nested *n, const struct level *level, bool asked,
    struct reading *reading, struct slice *ret_missing)
{
    for (size_t i = 0; i < n->args.count; i++) {
        reading->args[i] = (struct source){.by = TOLD_BY_NOTHING};
        if ((asked && n->check->run->args.values[i].at) ||
            (!rule_reads_arg(level->rule, i) &&
                !(level->above == ROOT && parent_reads_arg(n, i))))
            continue;
        reading->args[i] = source_of_arg(level->rule, (int)i);
        if (!keep_source(reading, &reading->args[i], 1)) {
            *ret_missing = n->args.names[i];
            return false;
        }
    }
    return true;
}

/* Find out where the entities of the rule have the values that the rule reads
 * of the entity above. False: the entities lack one of these values, or the
 * rule reads none. */
static bool read_entity(
    struct nested *n, const struct level *level, struct reading *reading)
{
    const struct selector *selector = &level->rule->selector;
    struct names names = {.arena = &n->arena};

    if (level->above == ROOT)
        return !level->rule->reads_parent;
    selector_properties(selector, add_name, &names);
    for (int i = 0; i < 2; i++)
        if (reads_key(selector, i == 1))
            add_name(&names, slice_of(i == 1 ? "RowKey" : "PartitionKey"));
    reading->reads = names.list;
    reading->read_count = names.count;
    reading->sources =
        arena_alloc(&n->arena, (names.count + 1) * sizeof(*reading->sources));
    for (size_t i = 0; i < names.count; i++) {
        reading->sources[i] = source_of_read(level->rule, names.list[i]);
        if (slice_is(names.list[i], "Timestamp") ||
            !keep_source(reading, &reading->sources[i], 0))
            return false;
    }
    return names.count > 0 && reads_texts_only(selector);
}

static bool is_whole(const struct template *key)
{
    bool whole;

    (void)template_beginning(key, &whole);
    return whole;
}

/* Can the template `key` give this text? */
static bool may_be_key(const struct template *key, struct slice text)
{
    bool whole;
    struct slice beginning = template_beginning(key, &whole);

    return whole ? slice_equal(text, beginning) : slice_begins(text, beginning);
}

static bool is_in_parents_table(const struct nested *n, const struct rule *rule)
{
    return cascade_same_table(rule->store, rule->table,
        n->check->cascade->store, n->check->cascade->table);
}

/* May entity be the parent of a cascade? Such an entity is never a child, even
 * if a rule selects it. */
static bool may_be_parent(const struct nested *n, const struct rule *rule,
    const struct entity *entity)
{
    return is_in_parents_table(n, rule) &&
           may_be_key(
               n->check->cascade->partition_key, entity->partition_key) &&
           may_be_key(n->check->cascade->row_key, entity->row_key);
}

/* Can entities of the rule's table be told apart from parents of a cascade? */
static bool tells_parents(const struct nested *n, const struct level *level)
{
    const struct cascade *cascade = n->check->cascade;

    return level->above == ROOT || !is_in_parents_table(n, level->rule) ||
           is_whole(cascade->partition_key) || is_whole(cascade->row_key);
}

static void init_reading(struct nested *n, struct reading *reading)
{
    reading->args =
        arena_alloc(&n->arena, (n->args.count + 1) * sizeof(*reading->args));
}

static enum tw_err read_level(struct nested *n, struct level *level)
{
    struct slice missing = {NULL, 0};

    init_reading(n, &level->asked);
    init_reading(n, &level->any);
    level->any.is_possible = read_entity(n, level, &level->any) &&
                             read_args(n, level, false, &level->any, &missing);
    level->asked.is_possible =
        read_entity(n, level, &level->asked) && tells_parents(n, level);
    if (level->asked.is_possible &&
        !read_args(n, level, true, &level->asked, &missing))
        return err_fail(n->err, TW_CONFLICT,
            "the rule for %s (line %u) does not show which %.*s an entity "
            "belongs to: use `verify %s %.*s=VALUE`",
            level->rule->table, level->rule->mark.line, SLICE_ARG(missing),
            n->check->job->name, SLICE_ARG(missing));
    return TW_OK;
}

/* ---- references ---- */

static void digest_add(struct buf *text, struct slice value)
{
    buf_add_format(text, "%zu ", value.len);
    buf_add_slice(text, value);
}

static void digest_end(struct buf *text, unsigned char *ret)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];

    crypto_sha256(buf_slice(text), digest);
    memcpy(ret, digest, DIGEST_BYTES);
    buf_done(text);
}

/* Finds the value that source reads from entity, and sets *ret to it. If source
 * is TOLD_BY_PREFIX, the value is the first prefix_len bytes of the key. False:
 * entity does not have this value. */
static bool shown(const struct source *source, const struct entity *entity,
    size_t prefix_len, struct arena *arena, struct slice *ret)
{
    if (source->by != TOLD_BY_PREFIX)
        return source_value(source, entity, arena, ret);
    *ret = (struct slice){source_key(source, entity).at, prefix_len};
    return true;
}

/* Set n->values, and the keys and properties of `above`, to the values that can
 * be read from entity. False: one of them cannot be determined. */
static bool fill(struct nested *n, const struct level *level,
    const struct reading *reading, const struct entity *entity,
    size_t prefix_len, struct arena *arena, struct entity *above)
{
    struct err none;

    entity_init(above, arena, slice_of(""), slice_of(""));
    for (size_t i = 0; i < n->args.count; i++) {
        struct slice given = n->check->run->args.values[i];

        n->values[i] = given.at ? given : slice_of("");
        if (reading->args[i].by != TOLD_BY_NOTHING &&
            !shown(&reading->args[i], entity, prefix_len, arena, &n->values[i]))
            return false;
    }
    if (level->above == ROOT)
        return template_render_key(n->check->cascade->partition_key, &n->args,
                   "PartitionKey", arena, &above->partition_key,
                   &none) == TW_OK &&
               template_render_key(n->check->cascade->row_key, &n->args,
                   "RowKey", arena, &above->row_key, &none) == TW_OK;
    for (size_t i = 0; i < reading->read_count; i++) {
        struct slice value, name = reading->reads[i];

        if (!shown(&reading->sources[i], entity, prefix_len, arena, &value))
            return false;
        if (slice_is(name, "PartitionKey"))
            above->partition_key = value;
        else if (slice_is(name, "RowKey"))
            above->row_key = value;
        else
            entity_set_string(above, arena, arena_copy(arena, name).at, value);
    }
    return true;
}

/* Compute the digest of the values that the rule reads of `above`. False: above
 * lacks one of these properties. */
static bool digest_of(const struct reading *reading, const struct entity *above,
    unsigned char *ret)
{
    struct arena arena;
    struct buf text;
    bool good = true;

    arena_init_small(&arena);
    buf_init(&text, DIGEST_TEXT_MAX);
    for (size_t i = 0; i < reading->read_count && good; i++) {
        struct slice name = reading->reads[i], value = above->row_key;
        const struct property *property = entity_find(above, name);

        if (slice_is(name, "PartitionKey"))
            value = above->partition_key;
        else if (!slice_is(name, "RowKey"))
            good = property && canonical_text(property, &arena, &value);
        if (good)
            digest_add(&text, value);
    }
    digest_end(&text, ret);
    arena_done(&arena);
    return good;
}

/* Would the rule find entity under an entity above that has the values which
 * fill() derives from entity? *ret: digest of the values that the rule reads of
 * the entity above. */
static bool is_found(struct nested *n, const struct level *level,
    const struct reading *reading, const struct entity *entity,
    size_t prefix_len, unsigned char *ret)
{
    struct selection selection;
    struct entity above;
    struct arena arena;
    struct err none;
    bool found;

    arena_init_small(&arena);
    found = fill(n, level, reading, entity, prefix_len, &arena, &above) &&
            selection_bind(&level->rule->selector, &n->args, &above, &arena,
                &selection, &none) == TW_OK &&
            !selection.empty_prefix && selection_matches(&selection, entity) &&
            digest_of(reading, &above, ret);
    arena_done(&arena);
    return found;
}

/* May the value that source names be the first len bytes of the key? Only if
 * the text that the rule's template has after the value follows in the key. */
static bool is_prefix(
    const struct source *source, const struct entity *entity, size_t len)
{
    struct slice key = source_key(source, entity), rest = source->rest;

    return key.len - len >= rest.len &&
           memcmp(key.at + len, rest.at, rest.len) == 0;
}

/* Calls each() with the digest of an entity above under which the rule would
 * find entity. If the digest depends on where a prefix ends, calls each() for
 * every possible end, until a call returns true. Returns true if a call did. */
static bool each_found(struct nested *n, size_t at,
    const struct reading *reading, const struct entity *entity,
    bool (*each)(void *ctx, size_t level, const unsigned char *digest),
    void *ctx)
{
    const struct level *level = &n->levels[at];
    unsigned char digest[DIGEST_BYTES];

    if (!reading->prefix)
        return is_found(n, level, reading, entity, 0, digest) &&
               each(ctx, at, digest);
    for (size_t len = source_key(reading->prefix, entity).len + 1;
         len-- > reading->prefix_least;)
        if (is_prefix(reading->prefix, entity, len) &&
            is_found(n, level, reading, entity, len, digest) &&
            each(ctx, at, digest))
            return true;
    return false;
}

static bool any_will_do(void *ctx, size_t level, const unsigned char *digest)
{
    (void)ctx, (void)level, (void)digest;
    return true;
}

/* Would the rule find entity under some entity? True also if that cannot be
 * known. */
static bool may_find(
    struct nested *n, size_t level, const struct entity *entity)
{
    const struct reading *any = &n->levels[level].any;

    return !any->is_possible ||
           each_found(n, level, any, entity, any_will_do, NULL);
}

/* ---- blocks ---- */

static void block_init(struct block *block)
{
    *block = (struct block){.child_count = 0};
    arena_init(&block->arena);
}

static void block_done(struct block *block)
{
    mem_free(block->children);
    mem_free(block->references);
    arena_done(&block->arena);
}

/* Make room for one more element in an array that has count elements. The array
 * is doubled whenever count is a power of two. */
static void *grown(void *list, size_t count, size_t bytes)
{
    return count & (count - 1)
               ? list
               : mem_resize(list, (count ? 2 * count : 1) * bytes);
}

static bool add_reference(void *ctx, size_t level, const unsigned char *digest)
{
    struct block *block = ctx;
    struct reference *reference;

    block->references = grown(
        block->references, block->reference_count, sizeof(*block->references));
    reference = &block->references[block->reference_count++];
    reference->level = level;
    reference->child = block->child_count;
    memcpy(reference->digest, digest, DIGEST_BYTES);
    return false;
}

/* Add entity, whose references were added before. An entity without a reference
 * is left out. */
static void add_child(struct block *block, const struct entity *entity)
{
    if (block->reference_count == 0 ||
        block->references[block->reference_count - 1].child !=
            block->child_count)
        return;
    block->children =
        grown(block->children, block->child_count, sizeof(*block->children));
    block->children[block->child_count++] = (struct child){
        .partition_key = arena_copy(&block->arena, entity->partition_key),
        .row_key = arena_copy(&block->arena, entity->row_key),
    };
}

static bool is_full(const struct block *block)
{
    return block->child_count >= BLOCK_CHILDREN ||
           block->reference_count >= BLOCK_REFERENCES ||
           block->arena.bytes >= BLOCK_BYTES;
}

static int compare_references(const void *a, const void *b)
{
    const struct reference *x = a, *y = b;

    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return memcmp(x->digest, y->digest, DIGEST_BYTES);
}

/* Returns the index of the first reference that is not less than `wanted`. */
static size_t first_reference(
    const struct block *block, const struct reference *wanted)
{
    size_t low = 0, high = block->reference_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_references(&block->references[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- reading tables ---- */

static enum tw_err stopped(struct nested *n)
{
    return run_stopping(n->check->run) ? err_fail(n->err, TW_STOPPED, "stopped")
                                       : TW_OK;
}

/* Call each() for every entity of the rule's table or, if of_partition is true,
 * only for those of the partition to be checked. If an optional table is
 * missing, it counts as empty. */
static enum tw_err read_table(struct nested *n, const struct level *level,
    bool of_partition,
    enum tw_err (*each)(void *ctx, const struct entity *entity), void *ctx)
{
    const struct rule *rule = level->rule;
    struct scan_spec spec = {
        .store = n->check->stores->stores[rule->store],
        .table = rule->table,
        .run = n->check->run,
    };
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    if (of_partition)
        spec.partition_key = key_range_exact(level->partition_key);
    scan = scan_open(n->check->run->pool_client, &spec);
    do {
        outcome = stopped(n);
        if (outcome == TW_OK)
            outcome = scan_next(scan, &page, n->err);
        if (outcome != TW_OK || !page)
            break;
        for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
            outcome = each(ctx, &page->entities[i]);
    } while (outcome == TW_OK);
    scan_close(scan);
    return outcome == TW_NOT_FOUND && rule->optional ? TW_OK : outcome;
}

/* ---- who has a parent ---- */

struct marking {
    struct nested *n;
    struct block *block;
    size_t level;
};

/* Mark the children of `above`, an entity of the table of the rule above, as
 * children with a parent. (No entity becomes its own parent, because
 * add_entity() leaves out entities that the rule above may find.) */
static enum tw_err mark_children(void *ctx, const struct entity *above)
{
    struct marking *marking = ctx;
    const struct level *level = &marking->n->levels[marking->level];
    struct reference wanted = {.level = marking->level};
    bool selected = false;

    if (!digest_of(&level->any, above, wanted.digest))
        return TW_OK;
    for (size_t i = first_reference(marking->block, &wanted);
         i < marking->block->reference_count &&
         compare_references(&marking->block->references[i], &wanted) == 0;
         i++) {
        struct child *child =
            &marking->block->children[marking->block->references[i].child];

        if (child->has_parent)
            continue;
        selected = selected || may_find(marking->n, level->above, above);
        if (!selected)
            break;
        child->has_parent = true;
    }
    return TW_OK;
}

/* Do the entities of the rule lie in the partition of the entity above, and is
 * only one partition of the rule above to be checked? */
static bool is_of_partition(const struct nested *n, const struct level *level)
{
    const struct template *key =
        level->rule->selector.keys[SELECTOR_PARTITION_KEY];

    return level->above != ROOT && n->levels[level->above].has_partition &&
           key && slice_is(template_lone_property(key), "PartitionKey");
}

/* Mark the children that have a parent: for each rule that has references in
 * block, read the table of the rule above. (First-level rules have no
 * references: add_entity() is called for a nested rule, and adds references for
 * this rule and for rules after it.) verified: index of the rule that is being
 * checked. For the references of this rule only one partition of the table of
 * the rule above is read, if is_of_partition() allows it. */
static enum tw_err resolve(
    struct nested *n, size_t verified, struct block *block)
{
    enum tw_err outcome = TW_OK;

    if (block->reference_count == 0)
        return TW_OK;
    qsort(block->references, block->reference_count, sizeof(*block->references),
        compare_references);
    for (size_t i = 0; i < n->level_count && outcome == TW_OK; i++) {
        const struct level *level = &n->levels[i];
        struct marking marking = {.n = n, .block = block, .level = i};
        size_t at = first_reference(block, &(struct reference){.level = i});

        if (at == block->reference_count || block->references[at].level != i)
            continue;
        outcome = read_table(n, &n->levels[level->above],
            i == verified && is_of_partition(n, level), mark_children,
            &marking);
    }
    return outcome;
}

/*
 * Add entity to block, with its references, if the rule `at` may find it. Leave
 * the entity out if an earlier rule may find it too, because the check of that
 * rule reports it. Leave it out also if a rule that cannot be read backwards
 * may find it, because it may have a parent by that rule.
 */
static void add_entity(struct nested *n, size_t at, const struct entity *entity,
    struct block *block)
{
    if (may_be_parent(n, n->levels[at].rule, entity) ||
        !each_found(n, at, &n->levels[at].asked, entity, any_will_do, NULL))
        return;
    for (size_t i = 0; i < n->level_count; i++)
        if (i != at &&
            cascade_share_table(n->levels[i].rule, n->levels[at].rule) &&
            (i < at || !n->levels[i].any.is_possible) &&
            may_find(n, i, entity)) {
            n->levels[at].leaves_out |= !n->levels[i].any.is_possible;
            return;
        }
    for (size_t i = at; i < n->level_count; i++)
        if (cascade_share_table(n->levels[i].rule, n->levels[at].rule))
            (void)each_found(n, i,
                i == at ? &n->levels[i].asked : &n->levels[i].any, entity,
                add_reference, block);
    add_child(block, entity);
}

static enum tw_err read_again(
    struct nested *n, size_t at, const struct child *child, struct block *again)
{
    const struct rule *rule = n->levels[at].rule;
    enum tw_err outcome = stopped(n);

    if (outcome == TW_OK)
        outcome = call_get(n->check->run->pool_client,
            n->check->stores->stores[rule->store], rule->table,
            child->partition_key, child->row_key, &n->page, NULL, n->err);
    if (outcome != TW_OK)
        return outcome == TW_NOT_FOUND ? TW_OK : outcome;
    add_entity(n, at, &n->page.entities[0], again);
    return TW_OK;
}

/* Read again the entities of block that have no parent, report those that still
 * have none, and empty the block. */
static enum tw_err flush(struct nested *n, size_t at, struct block *block)
{
    struct block again;
    enum tw_err outcome = resolve(n, at, block);

    block_init(&again);
    for (size_t i = 0; i < block->child_count && outcome == TW_OK; i++)
        if (!block->children[i].has_parent)
            outcome = read_again(n, at, &block->children[i], &again);
    if (outcome == TW_OK)
        outcome = resolve(n, at, &again);
    for (size_t i = 0; i < again.child_count && outcome == TW_OK; i++) {
        const struct entity entity = {
            .partition_key = again.children[i].partition_key,
            .row_key = again.children[i].row_key};

        if (!again.children[i].has_parent)
            n->check->orphan(n->check->context, n->levels[at].rule, &entity);
    }
    block_done(&again);
    block_done(block);
    block_init(block);
    return outcome;
}

static enum tw_err collect(void *ctx, const struct entity *entity)
{
    struct marking *marking = ctx;

    (*marking->n->check->read)++;
    atomic_fetch_add(&marking->n->check->run->counts.read, 1);
    add_entity(marking->n, marking->level, entity, marking->block);
    return is_full(marking->block)
               ? flush(marking->n, marking->level, marking->block)
               : TW_OK;
}

/* ---- which partitions ---- */

/* Set level->has_partition if the given arguments determine the PartitionKey of
 * the rule's entities. Then only this partition is checked. */
static void find_partition(struct nested *n, struct level *level)
{
    const struct template *key =
        level->rule->selector.keys[SELECTOR_PARTITION_KEY];
    struct err none;

    if (is_of_partition(n, level)) {
        level->has_partition = true;
        level->partition_key = n->levels[level->above].partition_key;
        return;
    }
    if (!key || template_reads_entity(key))
        return;
    for (size_t i = 0; i < n->args.count; i++) {
        n->values[i] = n->check->run->args.values[i];
        if (!n->values[i].at && template_reads_arg(key, i))
            return;
        if (!n->values[i].at)
            n->values[i] = slice_of("");
    }
    level->has_partition =
        template_render_key(key, &n->args, "PartitionKey", &n->arena,
            &level->partition_key, &none) == TW_OK;
}

static enum tw_err verify_level(struct nested *n, size_t at)
{
    const struct level *level = &n->levels[at];
    struct block block;
    struct marking marking = {.n = n, .block = &block, .level = at};
    enum tw_err outcome = TW_OK;

    block_init(&block);
    if (level->asked.is_possible)
        outcome = read_table(n, level, level->has_partition, collect, &marking);
    if (outcome == TW_OK)
        outcome = flush(n, at, &block);
    block_done(&block);
    if (!level->asked.is_possible || level->leaves_out)
        buf_add_format(n->check->unread, "%s%s (line %u)",
            n->check->unread->len > 0 ? ", " : "", level->rule->table,
            level->rule->mark.line);
    return outcome;
}

enum tw_err nested_verify(const struct nested_check *check, struct err *err)
{
    const struct run_args *args = &check->run->args;
    struct nested n = {.check = check, .err = err};
    enum tw_err outcome = TW_OK;

    arena_init(&n.arena);
    page_init(&n.page);
    n.values = mem_array(args->count + 1, sizeof(*n.values));
    n.args = (struct run_args){args->count, args->names, n.values};
    add_levels(&n);
    for (size_t i = 0; i < n.level_count && outcome == TW_OK; i++) {
        find_partition(&n, &n.levels[i]);
        outcome = read_level(&n, &n.levels[i]);
    }
    for (size_t i = n.first_count; i < n.level_count && outcome == TW_OK; i++)
        outcome = verify_level(&n, i);
    mem_free(n.levels);
    mem_free(n.values);
    page_done(&n.page);
    arena_done(&n.arena);
    return outcome;
}
