/* SPDX-License-Identifier: MIT */
/* Compares the rules of a cascade with the move and copy jobs of the
 * configuration. */
#include "jobs/cascade/outlive.h"

#include <stddef.h>

#include "config/problems.h"
#include "jobs/cascade/rules.h"
#include "jobs/copy/copy.h"
#include "jobs/copy/rules.h"
#include "jobs/engine/selector.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "jobs/move/move.h"
#include "jobs/move/rules.h"
#include "jobs/table_ref.h"

/* A job that carries entities from one table to another. */
struct carrier {
    const struct job *job;
    const struct table_ref *from, *to;
    const struct selector
        *selector; /* the entities of `from` that the job carries */
};

/* Returns the first rule for the table that may select an entity which
 * `selector` selects too; NULL: there is none. If selector is NULL, any rule
 * for the table is enough. */
static const struct rule *find_rule(const struct rule *rules, size_t count,
    const struct table_ref *table_ref, const struct selector *selector)
{
    const struct rule *found = NULL;

    for (size_t i = 0; i < count && !found; i++) {
        const struct rule *rule = &rules[i];

        if (cascade_same_table(
                rule->store, rule->table, table_ref->store, table_ref->table) &&
            !(selector && selector_disjoint(&rule->selector, selector)))
            found = rule;
        else
            found = find_rule(
                rule->children, rule->child_count, table_ref, selector);
    }
    return found;
}

static void warn(const struct job *job, const struct rule *rule,
    const struct carrier *carrier, struct problems *problems)
{
    bool is_copy = carrier->job->kind == &copy_kind;
    const char *where =
        carrier->from->store == carrier->to->store ? "" : " in another store";

    problems_warn(problems, rule->mark,
        "job %s %s entities of %s to %s%s, a table that job %s does not list: "
        "%s. Add a rule for %s after this rule, with `optional: true` if the "
        "table may be missing",
        carrier->job->name, is_copy ? "copies" : "moves", carrier->from->table,
        carrier->to->table, where, job->name,
        is_copy ? "copies outlive their parent until another run of the copy "
                  "job deletes them"
                : "they outlive their parent",
        carrier->to->table);
}

static void check_carrier(const struct job *job, const struct carrier *carrier,
    struct problems *problems)
{
    const struct cascade *cascade = job->settings;
    const struct rule *rule;

    if (find_rule(cascade->rules, cascade->rule_count, carrier->to, NULL))
        return;
    rule = find_rule(
        cascade->rules, cascade->rule_count, carrier->from, carrier->selector);
    if (rule)
        warn(job, rule, carrier, problems);
}

static void check_copy(
    const struct job *job, const struct job *copy, struct problems *problems)
{
    const struct copy_rules *rules = copy->settings;

    for (size_t i = 0; i < rules->target_count; i++) {
        const struct carrier carrier = {.job = copy,
            .from = &rules->from,
            .to = &rules->targets[i].table_ref,
            .selector = &rules->selector};

        check_carrier(job, &carrier, problems);
    }
}

static void check_move(
    const struct job *job, const struct job *move, struct problems *problems)
{
    const struct move_rules *rules = move->settings;
    const struct carrier carrier = {.job = move,
        .from = &rules->from,
        .to = &rules->to.table_ref,
        .selector = &rules->selector};

    check_carrier(job, &carrier, problems);
}

void cascade_outlive_check(
    const struct job *job, const struct jobs *jobs, struct problems *problems)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *other = &jobs->list[i];

        if (other->kind == &copy_kind)
            check_copy(job, other, problems);
        else if (other->kind == &move_kind)
            check_move(job, other, problems);
    }
}
