/* SPDX-License-Identifier: MIT */
/* Counting what a cascade would delete, in constant memory. */
#include "jobs/cascade/count.h"

#include "jobs/cascade/rules.h"
#include "jobs/counting.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

/* One table of the estimate while it is counted. */
struct counted {
    size_t store;
    struct counting counting;
};

struct count {
    struct job_estimate *estimate;
    struct counted *tables; /* same order as the estimate's */
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
    return NULL; /* every rule has one */
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
    count->total++;
}

static enum tw_err check_limit(const struct count *count, struct err *err)
{
    if (count->limit < 0 || count->total <= count->limit)
        return TW_OK;
    return err_fail(err, TW_TOO_LARGE,
        "there are more than %lld entities to delete (refuse_above); "
        "nothing was deleted: raise refuse_above, or check the arguments",
        (long long)count->limit);
}

static enum tw_err count_page(void *context, struct match *match,
    const struct entity *const *entities, size_t entity_count, struct err *err)
{
    struct count *count = context;
    const struct rule *rule = match_rule(match);
    enum tw_err outcome;

    for (size_t i = 0; i < entity_count; i++)
        count_entity(count, rule, entities[i]);
    outcome = check_limit(count, err);
    if (outcome != TW_OK)
        shown_of(count, rule)->incomplete = true;
    return outcome;
}

/* Whether it is too many is seen with the next page, or at the end. */
static void count_one(
    void *context, struct match *match, const struct entity *entity)
{
    struct count *count = context;

    count_entity(count, match_rule(match), entity);
}

static void count_pages(
    void *context, const struct rule *rule, size_t pages, size_t scans)
{
    struct count *count = context;

    (void)scans;
    shown_of(count, rule)->pages += (int64_t)pages;
}

/* Reads, deletes, the empty looks, and what the parent itself costs. */
static int64_t transactions(
    const struct cascade *cascade, const struct job_estimate *estimate)
{
    int64_t looks = (int64_t)cascade->settle_count;
    int64_t all = looks * (int64_t)(cascade->rule_count + 1) + 3;

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

    *ret = (struct job_estimate){.table_count = 0};
    arena_init(&ret->arena);
    ret->tables = arena_alloc(&ret->arena, rules * sizeof(*ret->tables));
    count.tables = mem_array(rules, sizeof(*count.tables));
    add_tables(&count, cascade->rules, cascade->rule_count);
    outcome = walk_run(plan, &visitor, &result, err);
    if (outcome == TW_OK)
        outcome = check_limit(&count, err);
    ret->transactions = transactions(cascade, ret);
    mem_free(count.tables);
    return outcome;
}
