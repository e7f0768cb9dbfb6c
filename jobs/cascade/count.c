/* SPDX-License-Identifier: MIT */
/* Counts what a cascade would delete, in constant memory. */
#include "jobs/cascade/count.h"

#include <stdint.h>

#include "jobs/cascade/rules.h"
#include "jobs/counting.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

/* One table of the estimate, and the count of its entities. */
struct counted {
    size_t store;
    struct counting counting;
};

/* One rule of the estimate: what the count found and read. */
struct counted_rule {
    const struct rule *rule;
    size_t above; /* index of the parent rule; SIZE_MAX: none */
    int64_t entities, pages, scans;
    int64_t last_pass; /* number of the last pass in which entities of the rule
                          still exist; 0: the rule finds no entities */
};

struct count {
    struct job_estimate *estimate;
    struct counted *tables;     /* counts of the tables, in the order of the
                                   estimate's tables */
    struct counted_rule *rules; /* all rules, each rule before its child
                                   rules */
    size_t rule_count;
    int64_t total, limit;
};

static size_t count_rules(const struct rule *rules, size_t count)
{
    size_t all = count;

    for (size_t i = 0; i < count; i++)
        all += count_rules(rules[i].children, rules[i].child_count);
    return all;
}

static struct counted *counted_of(struct count *count, const struct rule *rule)
{
    for (size_t i = 0; i < count->estimate->table_count; i++)
        if (cascade_same_table(count->tables[i].store,
                count->tables[i].counting.shown->table, rule->store,
                rule->table))
            return &count->tables[i];
    return NULL; /* happens only before add_tables() has added the rule's
                    table */
}

static struct job_estimate_table *shown_of(
    struct count *count, const struct rule *rule)
{
    return counted_of(count, rule)->counting.shown;
}

static void add_table(struct count *count, const struct rule *rule)
{
    struct job_estimate *estimate = count->estimate;
    size_t at = estimate->table_count++;

    count->tables[at].store = rule->store;
    estimate->tables[at].table = rule->table;
    counting_begin(&count->tables[at].counting, &estimate->tables[at],
        &estimate->arena, BATCH_MAX_BYTES);
}

static void add_rules(struct count *count, const struct rule *rules,
    size_t rule_count, size_t above)
{
    for (size_t i = 0; i < rule_count; i++) {
        size_t at = count->rule_count++;

        count->rules[at] =
            (struct counted_rule){.rule = &rules[i], .above = above};
        add_rules(count, rules[i].children, rules[i].child_count, at);
    }
}

static struct counted_rule *rule_of(
    struct count *count, const struct rule *rule)
{
    size_t i = 0;

    while (count->rules[i].rule != rule)
        i++;
    return &count->rules[i];
}

static void add_tables(
    struct count *count, const struct rule *rules, size_t rule_count)
{
    for (size_t i = 0; i < rule_count; i++) {
        if (!counted_of(count, &rules[i]))
            add_table(count, &rules[i]);
        if (selector_scans_table(&rules[i].selector))
            shown_of(count, &rules[i])->table_scan = true;
        add_tables(count, rules[i].children, rules[i].child_count);
    }
}

static void count_entity(
    struct count *count, const struct rule *rule, const struct entity *entity)
{
    counting_add(&counted_of(count, rule)->counting, entity, 0);
    rule_of(count, rule)->entities++;
    count->total++;
}

static enum tw_err check_limit(
    const struct count *count, int64_t limit, struct err *err)
{
    if (limit < 0 || count->total <= limit)
        return TW_OK;
    return err_fail(err, TW_TOO_LARGE,
        "there are more than %lld entities to delete (`refuse_above:`); "
        "nothing was deleted: raise `refuse_above:`, or check the arguments",
        (long long)limit);
}

/* Would a run, which counts up to refuse_above before its first write, be
 * refused? */
static void note_refusal(const struct count *count, int64_t refuse_above)
{
    struct job_estimate *ret = count->estimate;
    struct err why;

    if (check_limit(count, refuse_above, &why) != TW_OK)
        ret->refused = arena_copy(&ret->arena, slice_of(why.text)).at;
}

static enum tw_err count_page(void *context, struct match *match,
    const struct entity *const *entities, size_t entity_count, struct err *err)
{
    struct count *count = context;
    const struct rule *rule = match_rule(match);
    enum tw_err outcome;

    for (size_t i = 0; i < entity_count; i++)
        count_entity(count, rule, entities[i]);
    outcome = check_limit(count, count->limit, err);
    if (outcome != TW_OK)
        shown_of(count, rule)->incomplete = true;
    return outcome;
}

/* Count one entity that has something under it. The limit is checked with the
 * next page, or at the end. */
static void count_one(
    void *context, struct match *match, const struct entity *entity)
{
    struct count *count = context;

    count_entity(count, match_rule(match), entity);
}

static void count_pages(
    void *context, const struct rule *rule, size_t pages, size_t scans)
{
    struct counted_rule *counted = rule_of(context, rule);

    counted->pages += (int64_t)pages;
    counted->scans += (int64_t)scans;
}

/* ---- the passes of a run ---- */

/* Returns the number of the last settle pass, which is the first pass that
 * deletes entities with child rules. */
static int64_t last_settle_pass(
    const struct cascade *cascade, const struct count *count)
{
    bool at_once = cascade->settle_ms[0] == 0, deletes = false;
    int64_t waits = (int64_t)cascade->settle_count - at_once;

    for (size_t i = 0; i < count->rule_count; i++)
        deletes = deletes || (count->rules[i].rule->child_count == 0 &&
                                 count->rules[i].entities > 0);
    /* A settle pass that deletes entities is followed by another at once. */
    return 1 + waits + (at_once && waits > 0 && deletes);
}

/* Set the number of the pass that deletes the last entities of a rule. For a
 * leaf rule it is the first pass. For any other rule it is the later of two:
 * the last settle pass, and the pass after the one that deletes the last
 * entities of the child rules. */
static void set_last_pass(
    struct count *count, size_t index, int64_t settle_pass)
{
    struct counted_rule *counted = &count->rules[index];

    if (counted->entities == 0)
        return;
    counted->last_pass = counted->rule->child_count > 0 ? settle_pass : 1;
    for (size_t i = index + 1; i < count->rule_count; i++)
        if (count->rules[i].above == index && count->rules[i].last_pass > 0 &&
            count->rules[i].last_pass >= counted->last_pass)
            counted->last_pass = count->rules[i].last_pass + 1;
}

/* Returns the number of passes of a run without concurrent writers. The last
 * pass finds nothing. */
static int64_t plan_passes(const struct cascade *cascade, struct count *count)
{
    int64_t settle_pass = last_settle_pass(cascade, count);
    int64_t passes = settle_pass;

    for (size_t i = count->rule_count; i > 0; i--) {
        set_last_pass(count, i - 1, settle_pass);
        if (count->rules[i - 1].last_pass >= passes)
            passes = count->rules[i - 1].last_pass + 1;
    }
    return passes;
}

/*
 * Returns the number of pages that a run reads for one rule in a pass:
 *
 * - while entities of the rule exist: all pages of the rule;
 * - after that: one empty page for each scan;
 * - once the entities of the rule above are deleted: none.
 */
static int64_t reads_in(
    const struct count *count, const struct counted_rule *rule, int64_t pass)
{
    if (rule->above != SIZE_MAX && count->rules[rule->above].last_pass < pass)
        return 0;
    return rule->last_pass >= pass ? rule->pages : rule->scans;
}

static void add_reads(struct count *count, int64_t passes, bool counts_first)
{
    for (size_t i = 0; i < count->rule_count; i++) {
        const struct counted_rule *rule = &count->rules[i];
        struct job_estimate_table *shown = shown_of(count, rule->rule);

        if (counts_first)
            shown->pages += rule->pages;
        for (int64_t pass = 1; pass <= passes; pass++)
            shown->pages += reads_in(count, rule, pass);
    }
}

/* Returns the number of requests of a run: reads and deletes of all passes,
 * settle passes included, and the requests for the parent and for the check of
 * the tables. */
static int64_t transactions(const struct cascade *cascade, struct count *count)
{
    const struct job_estimate *estimate = count->estimate;
    int64_t passes = plan_passes(cascade, count);
    /* Each pass reads the parent with one request. Three more requests write
     * the tombstone, read the parent for the last time, and delete it. For each
     * table one request checks that the table exists. */
    int64_t all = passes + 3 + (int64_t)estimate->table_count;

    add_reads(count, passes, cascade->refuse_above >= 0);
    for (size_t i = 0; i < estimate->table_count; i++)
        all += estimate->tables[i].pages + estimate->tables[i].batches;
    return all;
}

enum tw_err cascade_count(const struct walk_plan *plan, int64_t limit,
    struct job_estimate *ret, struct err *err)
{
    const struct cascade *cascade = plan->cascade;
    size_t rules = count_rules(cascade->rules, cascade->rule_count);
    struct count count = {.estimate = ret, .limit = limit};
    const struct walk_visitor visitor = {
        .leaves = count_page,
        .emptied = count_page,
        .met = count_one,
        .pages = count_pages,
        .context = &count,
    };
    struct walk_result result;
    enum tw_err outcome;

    ret->tables = arena_alloc(&ret->arena, rules * sizeof(*ret->tables));
    count.tables = mem_array(rules, sizeof(*count.tables));
    count.rules = mem_array(rules, sizeof(*count.rules));
    add_rules(&count, cascade->rules, cascade->rule_count, SIZE_MAX);
    add_tables(&count, cascade->rules, cascade->rule_count);
    outcome = walk_run(plan, &visitor, &result, err);
    if (outcome == TW_OK)
        outcome = check_limit(&count, limit, err);
    if (outcome == TW_OK)
        note_refusal(&count, cascade->refuse_above);
    ret->transactions = transactions(cascade, &count);
    mem_free(count.rules);
    mem_free(count.tables);
    return outcome;
}
