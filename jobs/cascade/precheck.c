/* SPDX-License-Identifier: MIT */
#include "jobs/cascade/precheck.h"

#include "jobs/cascade/count.h"
#include "jobs/cascade/order.h"
#include "jobs/engine/scan.h"

/* Does a rule before `rule` require the same table? *ret_met: the search has
 * reached `rule`. */
static bool is_checked(const struct rule *rules, size_t count,
    const struct rule *rule, bool *ret_met)
{
    for (size_t i = 0; i < count && !*ret_met; i++) {
        const struct rule *other = &rules[i];

        if (other == rule)
            *ret_met = true;
        else if ((!other->optional && cascade_share_table(other, rule)) ||
                 is_checked(other->children, other->child_count, rule, ret_met))
            return true;
    }
    return false;
}

/* Check that the table exists, by reading an empty range. TW_NOT_FOUND: it does
 * not exist. */
static enum tw_err check_table(struct cascade_attempt *c, size_t store,
    const char *table, const char *advice)
{
    static const struct slice none = {"", 0};
    struct scan_spec spec = {
        .store = c->stores->stores[store],
        .table = table,
        .partition_key = key_range_exact(none),
        .row_key = key_range_exact(none),
        .select = &none,
        .run = c->run,
    };
    struct scan *scan = scan_open(c->run->request_pool, &spec);
    const struct page *page;
    enum tw_err outcome = scan_next(scan, &page, c->err);

    scan_close(scan);
    if (outcome != TW_NOT_FOUND)
        return outcome;
    return err_fail(c->err, TW_NOT_FOUND,
        "table %s does not exist in store %s; nothing was changed: create "
        "it%s, "
        "then retry",
        table, c->stores->names[store], advice);
}

/* Check that the tables of the rules and of all rules below them exist, each
 * table once. No request is sent for the table of the job's first rule if that
 * rule's first page was read ahead successfully. */
static enum tw_err check_tables(
    struct cascade_attempt *c, const struct rule *rules, size_t count)
{
    const struct cascade *cascade = c->cascade;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        const struct rule *rule = &rules[i];
        bool met = false;

        if (!rule->optional &&
            !is_checked(cascade->rules, cascade->rule_count, rule, &met) &&
            !(c->ahead && rule == cascade->rules &&
                scan_wait(c->ahead) == TW_OK))
            outcome = check_table(c, rule->store, rule->table,
                ", or write optional: true in its rule");
        if (outcome == TW_OK)
            outcome = check_tables(c, rule->children, rule->child_count);
    }
    return outcome;
}

enum run_end cascade_check_first(struct cascade_attempt *c)
{
    struct walk_plan plan;
    enum tw_err outcome;

    if (c->state.tombstone_ticks > 0)
        return RUN_CONTINUES;
    plan = cascade_walk_plan(c, false);
    outcome = walk_check(&plan, c->err);
    if (outcome == TW_OK && !c->checked && !cascade_parent(c))
        outcome = check_table(c, c->cascade->store, c->cascade->table, "");
    if (outcome == TW_OK && !c->checked)
        outcome = check_tables(c, c->cascade->rules, c->cascade->rule_count);
    c->checked = outcome == TW_OK;
    return cascade_end_of(c, outcome);
}

enum run_end cascade_count_first(struct cascade_attempt *c)
{
    struct walk_plan plan = cascade_walk_plan(c, false);
    struct job_estimate estimate = {.table_count = 0};
    enum tw_err outcome;

    if (c->cascade->refuse_above < 0 || c->counted ||
        c->state.tombstone_ticks > 0)
        return RUN_CONTINUES;
    arena_init(&estimate.arena);
    outcome = cascade_count(&plan, c->cascade->refuse_above, &estimate, c->err);
    arena_done(&estimate.arena);
    c->counted = outcome == TW_OK;
    return cascade_end_of(c, outcome);
}
