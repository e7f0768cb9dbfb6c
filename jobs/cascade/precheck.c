/* SPDX-License-Identifier: MIT */
#include "jobs/cascade/precheck.h"

#include <string.h>
#include <strings.h>

#include "jobs/cascade/count.h"
#include "jobs/engine/probe.h"
#include "jobs/engine/scan.h"
#include "worker/base/mem.h"

/* ---- one table by two stores ---- */

struct store_check {
    const struct cascade_attempt *c;
    bool may_write;
    bool *done; /* [i * count + k]: stores number i and number k have been
                   compared */
};

/* Do the stores themselves show that they are one account? */
static bool shows_same(const struct store *a, const struct store *b)
{
    const char *one = a->capabilities.identity;
    const char *other = b->capabilities.identity;

    return store_same(a, b) || (one && other && strcmp(one, other) == 0);
}

/* Do the stores have different AccountNames? Then they are two accounts. */
static bool names_differ(const struct store *a, const struct store *b)
{
    const char *one = a->capabilities.account_name;
    const char *other = b->capabilities.account_name;

    return one && other && strcmp(one, other) != 0;
}

/* Compares table_a in store number `a` with table_b in store number `b`, if the
 * tables have the same name. TW_INVALID: they are one table. */
static enum tw_err compare(struct store_check *check, size_t a,
    const char *table_a, size_t b, const char *table_b)
{
    const struct job_stores *stores = check->c->stores;
    struct store *one = stores->stores[a], *other = stores->stores[b];
    bool *done = &check->done[a * stores->count + b];
    enum tw_err outcome = TW_OK;
    bool same;

    if (a == b || *done || strcasecmp(table_a, table_b) != 0)
        return TW_OK;
    *done = check->done[b * stores->count + a] = true;
    same = shows_same(one, other);
    if (!same && check->may_write && !names_differ(one, other))
        outcome = probe_same(check->c->run, one, other, &same, check->c->err);
    if (outcome != TW_OK) {
        err_prefix(check->c->err,
            "it is not known whether two stores of the job are one account");
        return outcome;
    }
    if (!same)
        return TW_OK;
    return err_fail(check->c->err, TW_INVALID,
        "stores %s and %s are one account, and the job names its table %s by "
        "both, so the parent could be deleted as its own child: name the table "
        "by one store everywhere in the job, then retry",
        stores->names[a], stores->names[b], table_a);
}

static enum tw_err compare_with(struct store_check *check, size_t store,
    const char *table, const struct rule *rules, size_t count)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        const struct rule *rule = &rules[i];

        outcome = compare(check, store, table, rule->store, rule->table);
        if (outcome == TW_OK)
            outcome = compare_with(
                check, store, table, rule->children, rule->child_count);
    }
    return outcome;
}

static enum tw_err compare_all(
    struct store_check *check, const struct rule *rules, size_t count)
{
    const struct cascade *cascade = check->c->cascade;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        outcome = compare_with(check, rules[i].store, rules[i].table,
            cascade->rules, cascade->rule_count);
        if (outcome == TW_OK)
            outcome =
                compare_all(check, rules[i].children, rules[i].child_count);
    }
    return outcome;
}

enum tw_err cascade_check_stores(
    const struct cascade_attempt *c, bool may_write)
{
    const struct cascade *cascade = c->cascade;
    size_t count = c->stores->count;
    struct store_check check = {.c = c,
        .may_write = may_write,
        .done = mem_array(count * count, sizeof(bool))};
    enum tw_err outcome = compare_with(&check, cascade->store, cascade->table,
        cascade->rules, cascade->rule_count);

    if (outcome == TW_OK)
        outcome = compare_all(&check, cascade->rules, cascade->rule_count);
    mem_free(check.done);
    return outcome;
}

/* ---- rules, tables and the number of entities ---- */

/* Does a rule before `rule` require the table of `rule` to exist? *ret_met
 * becomes true when the search has reached `rule`. */
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
    struct scan *scan = scan_open(c->run->pool_client, &spec);
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
                ", or write `optional: true` in its rule");
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
