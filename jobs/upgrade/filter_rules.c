/* SPDX-License-Identifier: MIT */
/* Follows each property that the filter compares through the steps of all
 * versions, and asks the filter whether it can still match. */
#include "jobs/upgrade/filter_rules.h"

#include <inttypes.h>

#include "jobs/engine/template.h"
#include "worker/store/filter.h"

/* A property that the filter compares, after the steps so far. */
struct followed {
    struct filter_known known;       /* valid if `step` is not NULL */
    const struct upgrade_step *step; /* the step that removed, set or retyped
                                        the property; NULL: none has, so that
                                        the filter matches as before */
};

static bool is_put(const struct upgrade_step *step)
{
    return step->type == UPGRADE_ADD || step->type == UPGRADE_SET;
}

static void put(struct followed *followed, const struct upgrade_step *step)
{
    followed->step = step;
    followed->known.what = step->constant ? FILTER_VALUE : FILTER_TYPE;
    followed->known.value = step->constant;
    followed->known.type = step->edm;
}

/* Carry out the step on the property. A rename or retype to the property gives
 * it values of another property, of which nothing is known. */
static void follow(struct followed *followed, const struct upgrade_step *step)
{
    struct slice name = followed->known.name;
    bool is_absent = followed->step && followed->known.what == FILTER_ABSENT;

    if (is_put(step) && slice_equal(step->property, name)) {
        if (step->type == UPGRADE_SET || is_absent)
            put(followed, step);
    } else if (upgrade_step_makes(step, name)) {
        followed->step = NULL;
    } else if (slice_equal(step->property, name)) {
        followed->step = step;
        followed->known.what =
            upgrade_step_ends(step) ? FILTER_ABSENT : FILTER_TYPE;
        followed->known.type = step->edm;
    }
}

/* Can the filter match the property as it is now? With {..} the values of the
 * filter's constants are not known here. */
static bool may_match(
    const struct template *filter, const struct followed *followed)
{
    return !followed->step ||
           (followed->known.what != FILTER_ABSENT &&
               !template_is_constant(filter)) ||
           filter_may_match(template_filter(filter), &followed->known);
}

static void refuse(const struct followed *followed, int64_t version,
    struct mark mark, struct problems *problems)
{
    const struct upgrade_step *step = followed->step;

    problems_add(problems, mark,
        "the filter matches no entity at version %" PRId64
        ", because the %s in line %u %s %.*s: such entities would get no later "
        "version, and `verify` would not compare them. Filter by a property "
        "that no step changes, or let the filter also match what the step "
        "makes (... or NAME eq ...)",
        version, upgrade_step_name(step->type), step->mark.line,
        followed->known.what == FILTER_ABSENT ? "removes" : "changes",
        SLICE_ARG(followed->known.name));
}

static void warn(const struct followed *followed, struct mark mark,
    struct problems *problems)
{
    const struct upgrade_step *step = followed->step;

    problems_warn(problems, mark,
        "the filter compares %.*s, which the %s in line %u changes: entities "
        "that the filter does not match afterwards get no later version, and "
        "`verify` does not compare them",
        SLICE_ARG(followed->known.name), upgrade_step_name(step->type),
        step->mark.line);
}

static bool check_property(const struct upgrade *upgrade, struct slice name,
    struct mark mark, struct problems *problems)
{
    const struct template *filter = upgrade->selector.filter;
    struct followed followed = {.known = {.name = name}};

    for (size_t v = 0; v < upgrade->version_count; v++) {
        const struct upgrade_version *version = &upgrade->versions[v];

        for (size_t i = 0; i < version->step_count; i++)
            follow(&followed, &version->steps[i]);
        if (!may_match(filter, &followed)) {
            refuse(&followed, version->number, mark, problems);
            return false;
        }
    }
    if (followed.step && followed.known.what != FILTER_ABSENT &&
        !(followed.known.what == FILTER_VALUE && template_is_constant(filter)))
        warn(&followed, mark, problems);
    return true;
}

bool upgrade_filter_check(
    const struct upgrade *upgrade, struct mark mark, struct problems *problems)
{
    const struct slice *names;
    size_t count = 0;
    bool good = true;

    if (!upgrade->selector.filter)
        return true;
    names =
        filter_properties(template_filter(upgrade->selector.filter), &count);
    for (size_t i = 0; i < count; i++)
        good = check_property(upgrade, names[i], mark, problems) && good;
    return good;
}
