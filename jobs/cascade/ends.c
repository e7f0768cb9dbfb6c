/* SPDX-License-Identifier: MIT */
/*
 * Can an entity be under itself? The nodes of a graph are the rules. An entity
 * that rule A finds may also be found by another rule B for the same table, so
 * edges lead from A to each child rule of A and of every such B. A cycle of
 * edges that may lead to another partition is refused, unless one of its edges
 * makes a key longer and none of them makes that key shorter.
 */
#include "jobs/cascade/ends.h"

#include <stddef.h>

#include "config/problems.h"
#include "jobs/cascade/rules.h"
#include "jobs/engine/selector.h"
#include "worker/base/mem.h"

struct graph {
    const struct rule **rules; /* all rules, each rule before its child rules */
    size_t count;
    bool *reaches; /* [from * count + to]: a path of one edge or more leads from
                    rule `from` to rule `to` */
};

static size_t count_rules(const struct rule *rules, size_t count)
{
    size_t all = count;

    for (size_t i = 0; i < count; i++)
        all += count_rules(rules[i].children, rules[i].child_count);
    return all;
}

static void add_rules(
    struct graph *graph, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        graph->rules[graph->count++] = &rules[i];
        add_rules(graph, rules[i].children, rules[i].child_count);
    }
}

static size_t index_of(const struct graph *graph, const struct rule *rule)
{
    size_t i = 0;

    while (graph->rules[i] != rule)
        i++;
    return i;
}

/* May the rules `a` and `b` find the same entity? */
static bool may_meet(const struct rule *a, const struct rule *b)
{
    return a == b || (cascade_share_table(a, b) &&
                         !selector_disjoint(&a->selector, &b->selector));
}

/* Mark in row `from` all rules reachable from an entity that rule `at`
 * found. */
static void reach(struct graph *graph, size_t from, size_t at)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct rule *rule = graph->rules[i];

        if (rule->child_count == 0 || !may_meet(graph->rules[at], rule))
            continue;
        for (size_t j = 0; j < rule->child_count; j++) {
            size_t next = index_of(graph, &rule->children[j]);
            bool *reached = &graph->reaches[from * graph->count + next];

            if (*reached)
                continue;
            *reached = true;
            reach(graph, from, next);
        }
    }
}

static bool is_reached(const struct graph *graph, size_t from, size_t to)
{
    return graph->reaches[from * graph->count + to];
}

/* Does the edge to rule `at` make `key` longer, while no edge on any cycle
 * through that rule may make `key` shorter? */
static bool grows(const struct graph *graph, size_t at, enum selector_key key)
{
    if (selector_growth(&graph->rules[at]->selector, key) != SELECTOR_LONGER)
        return false;
    for (size_t i = 0; i < graph->count; i++)
        if (is_reached(graph, at, i) && is_reached(graph, i, at) &&
            selector_growth(&graph->rules[i]->selector, key) == SELECTOR_ANY)
            return false;
    return true;
}

static bool check_rule(
    const struct graph *graph, size_t at, struct problems *problems)
{
    const struct rule *rule = graph->rules[at];

    if (!is_reached(graph, at, at) ||
        selector_same_partition(&rule->selector) ||
        grows(graph, at, SELECTOR_PARTITION_KEY) ||
        grows(graph, at, SELECTOR_ROW_KEY))
        return true;
    problems_add(problems, rule->mark,
        "under an entity of %s this rule can find further entities of that "
        "table, in other partitions: if such entities form a cycle, none can "
        "be deleted first. Either make a key longer at each level "
        "(row_key_prefix: \"{RowKey}_\"), or split the rule into two or more "
        "rules of which no two can find the same entity (by literal prefixes, "
        "or by Type eq '...' in each filter)",
        rule->table);
    return false;
}

bool cascade_ends_check(
    const struct cascade *cascade, struct problems *problems)
{
    size_t count = count_rules(cascade->rules, cascade->rule_count);
    struct graph graph = {
        .rules = mem_array(count, sizeof(struct rule *)),
        .reaches = mem_array(count * count, sizeof(bool)),
    };
    bool good = true;

    add_rules(&graph, cascade->rules, cascade->rule_count);
    for (size_t i = 0; i < count; i++)
        reach(&graph, i, i);
    for (size_t i = 0; i < count; i++)
        good = check_rule(&graph, i, problems) && good;
    mem_free(graph.reaches);
    mem_free(graph.rules);
    return good;
}
