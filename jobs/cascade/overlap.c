/* SPDX-License-Identifier: MIT */
/* Detects two rules that may find the same entity, if one of them lacks child
 * rules that the other has. The rule without these child rules would delete the
 * entity before the children that only the other rule finds. */
#include "jobs/cascade/overlap.h"

#include <stddef.h>

#include "config/problems.h"
#include "jobs/cascade/rules.h"
#include "jobs/engine/selector.h"
#include "worker/base/buf.h"

/* Maximum length of a selector in a message; the rest is cut off. */
#define SAID_MAX_BYTES 512

/* Sibling rules, linked to the siblings of the rule above them. */
struct family {
    const struct rule *rules;
    size_t count;
    const struct family *above; /* NULL at the root */
};

/*
 * Returns a rule below `b` that finds children which no rule below `a` finds;
 * NULL: there is none. If a child rule of `a` equals a child rule of `b`, the
 * rules below these two are compared in the same way.
 */
static const struct rule *unseen(const struct rule *a, const struct rule *b);

static const struct rule *unseen_child(
    const struct rule *a, const struct rule *child)
{
    const struct rule *missing = child;

    for (size_t i = 0; i < a->child_count && missing; i++)
        if (cascade_share_table(&a->children[i], child) &&
            selector_equal(&a->children[i].selector, &child->selector))
            missing = unseen(&a->children[i], child);
    return missing;
}

static const struct rule *unseen(const struct rule *a, const struct rule *b)
{
    const struct rule *missing = NULL;

    for (size_t i = 0; i < b->child_count && !missing; i++)
        missing = unseen_child(a, &b->children[i]);
    return missing;
}

static bool has_rule(const struct family *family, const struct rule *other)
{
    for (size_t i = 0; i < family->count; i++)
        if (&family->rules[i] == other)
            return true;
    return false;
}

/*
 * Suppose `rule` (of family) and `other` find the same entity, perhaps under
 * different parents. Does the walk always evaluate `other` before it deletes
 * the entity for `rule`? It depends on where `other` is:
 *
 * - At the root: yes, because the walk binds `other` only once.
 * - A sibling of `rule` below the root: the walk binds `other` again under
 *   each entity above, so this function compares the selectors.
 * - Between the root and `rule` (such as a rule for comments, above a rule
 *   for replies to them): assumed to be yes. The templates of `other` and of
 *   `rule` read different entities, so the selectors cannot be compared.
 */
static bool is_asked(const struct family *family, const struct rule *rule,
    const struct rule *other)
{
    if (family->above && has_rule(family, other))
        return selector_stays_with(&other->selector, &rule->selector);
    for (; family; family = family->above)
        if (has_rule(family, other))
            return true;
    return false;
}

static void say(const struct rule *rule, const struct rule *other,
    const struct rule *missing, struct problems *problems)
{
    struct buf where;

    buf_init(&where, SAID_MAX_BYTES);
    selector_explain(&missing->selector, &where);
    problems_add(problems, rule->mark,
        "this rule and the rule in line %u both find entities of %s, but only "
        "the other rule has the children in %s where %s: this rule would "
        "delete an entity and leave these children. Give this rule the same "
        "children",
        other->mark.line, rule->table, missing->table, buf_text(&where));
    buf_done(&where);
}

/*
 * Compare one rule of family with `others` and with all rules below `others`.
 */
static bool check_against(const struct family *family, const struct rule *rule,
    const struct rule *others, size_t count, struct problems *problems)
{
    bool good = true;

    for (size_t i = 0; i < count; i++) {
        const struct rule *other = &others[i];
        const struct rule *missing = NULL;

        if (cascade_share_table(rule, other) && !is_asked(family, rule, other))
            missing = unseen(rule, other);
        if (missing)
            say(rule, other, missing, problems);
        good = check_against(family, rule, other->children, other->child_count,
                   problems) &&
               good && !missing;
    }
    return good;
}

static bool check_family(const struct cascade *cascade,
    const struct family *family, struct problems *problems)
{
    bool good = true;

    for (size_t i = 0; i < family->count; i++) {
        const struct rule *rule = &family->rules[i];
        const struct family below = {
            .rules = rule->children,
            .count = rule->child_count,
            .above = family,
        };

        good = check_against(family, rule, cascade->rules, cascade->rule_count,
                   problems) &&
               good;
        good = check_family(cascade, &below, problems) && good;
    }
    return good;
}

bool cascade_overlap_check(
    const struct cascade *cascade, struct problems *problems)
{
    const struct family root = {
        .rules = cascade->rules, .count = cascade->rule_count};

    return check_family(cascade, &root, problems);
}
