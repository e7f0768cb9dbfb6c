/* SPDX-License-Identifier: MIT */
/* Compares a cascade with the moves of the configuration: the cascade's rules
 * for the source of a move must come before its rules for the destination (rule
 * L4 of jobs/GUIDE.md). Warns if a move may carry a parent of the cascade. */
#include "jobs/cascade/order.h"

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "jobs/cascade/rules.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "jobs/move/move.h"
#include "jobs/move/rules.h"

/* One cascade compared with one move. */
struct beside {
    const char *move; /* name of the move job */
    const struct table_ref *from, *to;
    const struct rule *destination; /* first rule for the move's destination
                                       (`to`); NULL: none */
    bool refused;
    struct problems *problems;
};

static bool looks_into(
    const struct rule *rule, const struct table_ref *table_ref)
{
    return table_ref->table && cascade_same_table(rule->store, rule->table,
                                   table_ref->store, table_ref->table);
}

static void refuse(struct beside *beside, const struct rule *source)
{
    problems_add(beside->problems, beside->destination->mark,
        "job %s moves entities from %s to %s, and this rule reads %s before "
        "the rule in line %u reads %s: an entity that is moved meanwhile would "
        "be found in neither table. Put the rule for %s first",
        beside->move, beside->from->table, beside->to->table,
        beside->destination->table, source->mark.line, source->table,
        source->table);
    beside->refused = true;
}

/* Check the rules in the order in which a pass reads: a rule, then its
 * children. */
static void check_rules(
    struct beside *beside, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count && !beside->refused; i++) {
        const struct rule *rule = &rules[i];

        if (beside->destination && looks_into(rule, beside->from))
            refuse(beside, rule);
        if (!beside->destination && looks_into(rule, beside->to))
            beside->destination = rule;
        check_rules(beside, rule->children, rule->child_count);
    }
}

static const struct rule *rule_for(
    const struct rule *rules, size_t count, const struct table_ref *table_ref)
{
    const struct rule *found = NULL;

    for (size_t i = 0; i < count && !found; i++)
        found =
            looks_into(&rules[i], table_ref)
                ? &rules[i]
                : rule_for(rules[i].children, rules[i].child_count, table_ref);
    return found;
}

/* Warn of a move within one table, because a pass may miss a moved entity,
 * depending on the order of its old and new keys, which is unknown here. */
static void warn_of_one_table(
    struct beside *beside, const struct cascade *cascade)
{
    const struct rule *rule =
        rule_for(cascade->rules, cascade->rule_count, beside->to);

    if (rule)
        problems_warn(beside->problems, rule->mark,
            "job %s moves entities within %s: a cascade may miss an entity "
            "that is moved meanwhile to keys that the cascade has already "
            "read; run the two jobs one after the other",
            beside->move, rule->table);
}

static bool is_parents(
    const struct cascade *cascade, const struct table_ref *table_ref)
{
    return cascade_same_table(
        cascade->store, cascade->table, table_ref->store, table_ref->table);
}

/* Warn of a move from or to the table of the parents. While a run deletes a
 * parent, the move may carry the parent, with its tombstone, to where no run
 * deletes it. */
static void warn_of_parents(struct beside *beside, const struct job *job)
{
    const struct cascade *cascade = job->settings;

    if (!is_parents(cascade, beside->from) && !is_parents(cascade, beside->to))
        return;
    problems_warn(beside->problems, job->mark,
        "job %s moves entities from %s to %s, and the parents of job %s are in "
        "%s: a parent that is moved while a run deletes it keeps its "
        "tombstone, and no run deletes it; run the two jobs one after the "
        "other",
        beside->move, beside->from->table, beside->to->table, job->name,
        cascade->table);
}

void cascade_order_check(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems)
{
    const struct cascade *cascade = job->settings;

    (void)arena;
    for (size_t i = 0; i < jobs->count; i++) {
        const struct move_rules *move = jobs->list[i].settings;
        struct beside beside = {
            .move = jobs->list[i].name, .problems = problems};

        if (jobs->list[i].kind != &move_kind)
            continue;
        beside.from = &move->from;
        beside.to = &move->to.table_ref;
        if (beside.from->table && beside.to->table)
            warn_of_parents(&beside, job);
        if (table_ref_same(beside.from, beside.to))
            warn_of_one_table(&beside, cascade);
        else
            check_rules(&beside, cascade->rules, cascade->rule_count);
    }
}
