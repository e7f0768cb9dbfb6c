/* SPDX-License-Identifier: MIT */
/* Counting what a cascade would delete, in constant memory. */
#include "jobs/cascade_count.h"

#include <strings.h>

#include "jobs/cascade_rules.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define FIRST_KEYS 5

/* One table of the estimate while it is counted. */
struct tally {
    size_t store;
    struct job_estimate_table *shown;
    struct slice partition_key; /* of the batches that are counted now */
    int64_t in_partition;
    char partition_key_room[WALK_KEY_MAX];
};

struct count {
    struct job_estimate *estimate;
    struct tally *tallies; /* one a table, same order as the estimate's */
    int64_t total, limit;
};

static size_t count_rules(const struct rule *rules, size_t count)
{
    size_t all = count;

    for (size_t i = 0; i < count; i++)
        all += count_rules(rules[i].children, rules[i].child_count);
    return all;
}

static struct tally *tally_of(struct count *count, const struct rule *rule)
{
    for (size_t i = 0; i < count->estimate->table_count; i++)
        if (count->tallies[i].store == rule->store &&
            strcasecmp(count->tallies[i].shown->table, rule->table) == 0)
            return &count->tallies[i];
    return NULL; /* every rule has one */
}

/* A table is scanned whole where nothing says in which partitions to look. */
static bool scans_table(const struct rule *rule)
{
    return !rule->selector.keys[SELECTOR_PARTITION_KEY] &&
           !rule->selector.keys[SELECTOR_PARTITION_KEY_PREFIX];
}

static void add_tallies(
    struct count *count, const struct rule *rules, size_t rule_count)
{
    struct job_estimate *estimate = count->estimate;

    for (size_t i = 0; i < rule_count; i++) {
        struct tally *tally = tally_of(count, &rules[i]);

        if (!tally) {
            size_t at = estimate->table_count++;

            tally = &count->tallies[at];
            tally->store = rules[i].store;
            tally->shown = &estimate->tables[at];
            tally->shown->table = rules[i].table;
        }
        if (scans_table(&rules[i]))
            tally->shown->table_scan = true;
        add_tallies(count, rules[i].children, rules[i].child_count);
    }
}

static void close_partition(struct tally *tally)
{
    tally->shown->batches +=
        (tally->in_partition + BATCH_MAX_OPERATIONS - 1) / BATCH_MAX_OPERATIONS;
    tally->in_partition = 0;
}

static void tally_entity(
    struct count *count, struct tally *tally, const struct entity *entity)
{
    struct job_estimate_table *shown = tally->shown;

    if (!slice_equal(tally->partition_key, entity->partition_key)) {
        close_partition(tally);
        tally->partition_key = (struct slice){tally->partition_key_room, 0};
        if (entity->partition_key.len <= WALK_KEY_MAX) {
            tally->partition_key.len = entity->partition_key.len;
            memcpy(tally->partition_key_room, entity->partition_key.at,
                entity->partition_key.len);
        }
    }
    tally->in_partition++;
    if (shown->entities < FIRST_KEYS)
        shown->first_keys[shown->entities] =
            arena_format(&count->estimate->arena, "%.*s/%.*s",
                SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key))
                .at;
    shown->entities++;
    count->total++;
}

static enum tw_err count_page(void *context, struct match *match,
    const struct entity *const *entities, size_t entity_count, struct err *err)
{
    struct count *count = context;
    struct tally *tally = tally_of(count, match_rule(match));

    for (size_t i = 0; i < entity_count; i++)
        tally_entity(count, tally, entities[i]);
    if (count->limit >= 0 && count->total > count->limit) {
        tally->shown->incomplete = true;
        return err_fail(err, TW_TOO_LARGE,
            "there are more than %lld entities to delete (refuse_above); "
            "nothing was deleted: raise refuse_above, or check the arguments",
            (long long)count->limit);
    }
    return TW_OK;
}

static void count_one(
    void *context, struct match *match, const struct entity *entity)
{
    struct count *count = context;

    tally_entity(count, tally_of(count, match_rule(match)), entity);
}

static void count_pages(void *context, struct match *match, size_t pages)
{
    struct count *count = context;

    tally_of(count, match_rule(match))->shown->pages += (int64_t)pages;
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
    count.tallies = mem_array(rules, sizeof(*count.tallies));
    add_tallies(&count, cascade->rules, cascade->rule_count);
    outcome = walk_run(plan, &visitor, &result, err);
    for (size_t i = 0; i < ret->table_count; i++)
        close_partition(&count.tallies[i]);
    ret->transactions = transactions(cascade, ret);
    mem_free(count.tallies);
    return outcome;
}
