/* SPDX-License-Identifier: MIT */
/* Follows the properties that the filter compares through the steps of all
 * versions, and asks the filter after each version whether it still matches. */
#include "jobs/upgrade/filter_rules.h"

#include <inttypes.h>

#include "jobs/engine/template.h"
#include "worker/base/buf.h"
#include "worker/store/filter.h"

#define SENTENCE_MAX (64 * 1024)

/* A property that the filter compares, after the steps so far. */
struct followed {
    struct filter_known known;
    const struct upgrade_step *step; /* the last step that changed the property;
                                        NULL: none did, or this is the version
                                        property */
    bool warned;
};

struct check {
    const struct upgrade *upgrade;
    const struct filter *filter; /* the filter of the upgrade's selector */
    struct followed list[FILTER_MAX_COMPARISONS];
    size_t count;
    struct mark mark;
    struct problems *problems;
};

/* What is known of all followed properties. */
struct knowns {
    struct filter_known list[FILTER_MAX_COMPARISONS];
};

/* ---- the steps ---- */

static bool compares(const struct check *check, struct slice name)
{
    for (size_t i = 0; i < check->count; i++)
        if (slice_equal(check->list[i].known.name, name))
            return true;
    return false;
}

/* Has a step added the property to entities that lacked it, and left the
 * property of other entities unchanged? */
static bool is_added(const struct followed *followed)
{
    return followed->known.was_absent && followed->known.what != FILTER_ABSENT;
}

static bool has_type(const struct filter_known *known)
{
    return known->what == FILTER_TYPE || known->what == FILTER_RETYPED;
}

static void follow_put(
    struct followed *followed, const struct upgrade_step *step)
{
    struct filter_known *known = &followed->known;
    bool was_same = known->what == FILTER_SAME;

    if (step->type == UPGRADE_ADD && !was_same &&
        known->what != FILTER_ABSENT) {
        /* Entities that lack the property, because a retype removed it, get it
         * from this step. */
        if (has_type(known) && known->type != step->edm)
            known->what = FILTER_ANY;
        return;
    }
    followed->step = step;
    known->was_absent = step->type == UPGRADE_ADD && was_same;
    known->what = step->constant ? FILTER_VALUE : FILTER_TYPE;
    known->value = step->constant;
    known->type = step->edm;
}

/* The property gets the values of step->property. If the filter compares both
 * properties, this check assumes that the filter treats both in the same way,
 * as if this property had always had these values. */
static void follow_new_name(const struct check *check,
    struct followed *followed, const struct upgrade_step *step)
{
    struct filter_known *known = &followed->known;

    followed->step = step;
    known->was_absent = known->what == FILTER_SAME;
    known->what = compares(check, step->property) ? FILTER_SAME : FILTER_ANY;
}

static void follow_old_name(const struct check *check,
    struct followed *followed, const struct upgrade_step *step)
{
    struct filter_known *known = &followed->known;
    bool ends = upgrade_step_ends(step);

    if (!ends && known->what == FILTER_ABSENT)
        return; /* another retype of this version, with to_property, removes
                   the property */
    followed->step = step;
    known->was_absent = ends && compares(check, step->to);
    known->what = ends                         ? FILTER_ABSENT
                  : known->what == FILTER_SAME ? FILTER_RETYPED
                                               : FILTER_TYPE;
    known->type = step->edm;
}

static void follow(const struct check *check, struct followed *followed,
    const struct upgrade_step *step)
{
    struct slice name = followed->known.name;

    if (step->type == UPGRADE_ADD || step->type == UPGRADE_SET) {
        if (slice_equal(step->property, name))
            follow_put(followed, step);
    } else if (upgrade_step_makes(step, name)) {
        follow_new_name(check, followed, step);
    } else if (slice_equal(step->property, name)) {
        follow_old_name(check, followed, step);
    }
}

/* The value that the check uses for Timestamp, which is the time of the last
 * write. It is later than any time with which a filter compares Timestamp. */
static const struct property TIMESTAMP = {
    {"Timestamp", 9}, EDM_DATETIME, {"\"9999-12-31T23:59:59.9999999Z\"", 30}};

static void follow_value(
    struct followed *followed, const struct property *value)
{
    if (!slice_equal(followed->known.name, value->name))
        return;
    followed->known.what = FILTER_VALUE;
    followed->known.value = value;
}

/* Follow the properties through the steps of a version. `number` is the version
 * property after these steps. */
static void follow_version(struct check *check,
    const struct upgrade_version *version, const struct property *number)
{
    for (size_t i = 0; i < check->count; i++) {
        struct followed *followed = &check->list[i];

        for (size_t k = 0; k < version->step_count; k++)
            follow(check, followed, &version->steps[k]);
        follow_value(followed, number);
        follow_value(followed, &TIMESTAMP);
    }
}

/* ---- the filter ---- */

/* Returns what is known of a property. If the filter has {..}, its constants
 * are not known here. */
static struct filter_known known_of(
    const struct check *check, const struct followed *followed)
{
    struct filter_known known = followed->known;

    if (known.what != FILTER_SAME && known.what != FILTER_ABSENT &&
        !template_is_constant(check->upgrade->selector.filter))
        known.what = FILTER_ANY;
    return known;
}

/* Find what is known of an entity that had all properties which steps add. */
static void find_knowns(const struct check *check, struct knowns *ret)
{
    for (size_t i = 0; i < check->count; i++) {
        ret->list[i] = known_of(check, &check->list[i]);
        if (is_added(&check->list[i]))
            ret->list[i].what = FILTER_SAME;
    }
}

static bool matches(const struct check *check, const struct knowns *knowns)
{
    return filter_effect(check->filter, knowns->list, check->count).matches;
}

/* Can the change of property i be the reason why the filter no longer matches
 * an entity? Yes if the filter stops matching after this change alone, and also
 * after all changes together. The test of the change alone does not miss a loss
 * that needs several changes, because in some entity the other properties may
 * have had their new values before. */
static bool loses(
    const struct check *check, const struct knowns *knowns, size_t i)
{
    struct knowns all = *knowns;

    all.list[i] = known_of(check, &check->list[i]);
    return filter_effect(check->filter, &all.list[i], 1).loses &&
           filter_effect(check->filter, all.list, check->count).loses;
}

/* ---- problems ---- */

static void add_cause(struct buf *text, const struct followed *followed)
{
    if (followed->step)
        buf_add_format(text, "the %s in line %u ",
            upgrade_step_name(followed->step->type), followed->step->mark.line);
    else
        buf_add_text(text, "each version ");
    buf_add_text(text, !followed->step                         ? "sets"
                       : followed->known.what == FILTER_ABSENT ? "removes"
                       : is_added(followed)                    ? "adds"
                                                               : "changes");
}

static void refuse(
    const struct check *check, struct knowns *knowns, int64_t version)
{
    struct buf causes;

    buf_init(&causes, SENTENCE_MAX);
    /* Name only those properties because of which the filter cannot match. */
    for (size_t i = 0; i < check->count; i++) {
        const struct filter_known known = knowns->list[i];

        knowns->list[i].what = FILTER_SAME;
        if (!matches(check, knowns))
            continue;
        knowns->list[i] = known;
        buf_add_text(&causes, causes.len > 0 ? " and " : "");
        add_cause(&causes, &check->list[i]);
        buf_add_format(&causes, " %.*s", SLICE_ARG(known.name));
    }
    problems_add(check->problems, check->mark,
        "the filter matches no entity at version %" PRId64
        ", because %s: entities at this version would get no later version, "
        "and `verify` would not compare them. Filter by a property that no "
        "step changes, or let the filter also match the result of the step "
        "(... or NAME eq ...)",
        version, buf_text(&causes));
    buf_done(&causes);
}

static void warn(const struct check *check, const struct followed *followed)
{
    struct buf cause;

    buf_init(&cause, SENTENCE_MAX);
    add_cause(&cause, followed);
    problems_warn(check->problems, check->mark,
        "the filter compares %.*s, which %s: entities that the filter does not "
        "match afterwards get no later version, and `verify` does not compare "
        "them",
        SLICE_ARG(followed->known.name), buf_text(&cause));
    buf_done(&cause);
}

static bool check_version(struct check *check, int64_t version)
{
    struct knowns knowns;

    find_knowns(check, &knowns);
    if (!matches(check, &knowns)) {
        refuse(check, &knowns, version);
        return false;
    }
    for (size_t i = 0; i < check->count; i++) {
        struct followed *followed = &check->list[i];

        if (followed->warned || !loses(check, &knowns, i))
            continue;
        warn(check, followed);
        followed->warned = true;
    }
    return true;
}

bool upgrade_filter_check(
    const struct upgrade *upgrade, struct mark mark, struct problems *problems)
{
    struct check check = {
        .upgrade = upgrade, .mark = mark, .problems = problems};
    const struct slice *names;
    struct arena arena;
    bool good = true;

    if (!upgrade->selector.filter)
        return true;
    check.filter = template_filter(upgrade->selector.filter);
    names = filter_properties(check.filter, &check.count);
    for (size_t i = 0; i < check.count; i++)
        check.list[i].known.name = names[i];
    arena_init(&arena);
    for (size_t v = 0; good && v < upgrade->version_count; v++) {
        const struct upgrade_version *version = &upgrade->versions[v];
        struct property number =
            upgrade_rules_property(upgrade, version->number, &arena);

        follow_version(&check, version, &number);
        good = check_version(&check, version->number);
    }
    arena_done(&arena);
    return good;
}
