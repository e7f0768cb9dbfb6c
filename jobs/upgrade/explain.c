/* SPDX-License-Identifier: MIT */
/* Describes an upgrade: which entities it selects, and what each step does. */
#include "jobs/upgrade/explain.h"

#include <inttypes.h>

static void explain_put(const struct upgrade_step *step, struct buf *to)
{
    buf_add_format(to, "%s %.*s (%s) \"%.*s\"%s", upgrade_step_name(step->type),
        SLICE_ARG(step->property), edm_type_name(step->edm),
        SLICE_ARG(template_source(step->value)),
        step->type == UPGRADE_ADD ? " if it is absent" : "");
}

static void explain_retype(const struct upgrade_step *step, struct buf *to)
{
    static const char *const ENDS[] = {
        [UPGRADE_FAIL] = "fails",
        [UPGRADE_SKIP] = "is unchanged",
        [UPGRADE_NULL] = "loses the property",
    };

    buf_add_format(to, "retype %.*s", SLICE_ARG(step->property));
    if (step->to.len > 0)
        buf_add_format(to, " to %.*s", SLICE_ARG(step->to));
    buf_add_format(to, " as %s%s; an entity whose value cannot be converted %s",
        edm_type_name(step->edm), step->lossy ? ", with losses" : "",
        ENDS[step->on_error]);
}

static void explain_step(const struct upgrade_step *step, struct buf *to)
{
    switch (step->type) {
    case UPGRADE_ADD:
    case UPGRADE_SET:
        explain_put(step, to);
        break;
    case UPGRADE_RENAME:
        buf_add_format(to, "rename %.*s to %.*s", SLICE_ARG(step->property),
            SLICE_ARG(step->to));
        break;
    case UPGRADE_RETYPE:
        explain_retype(step, to);
        break;
    case UPGRADE_REMOVE:
        buf_add_format(to, "remove %.*s", SLICE_ARG(step->property));
        break;
    }
    if (upgrade_step_ends(step))
        buf_add_format(to, " (expand keeps %.*s until contract)",
            SLICE_ARG(step->property));
    buf_add_char(to, '\n');
}

/* Explain a step of an older version, without a note about expand, because the
 * phases expand and contract divide the steps of the newest version only. */
static void explain_old_step(const struct upgrade_step *step, struct buf *to)
{
    struct upgrade_step plain = *step;

    if (!upgrade_step_ends(step)) {
        explain_step(step, to);
        return;
    }
    if (plain.type == UPGRADE_RETYPE) {
        explain_retype(step, to);
        buf_add_char(to, '\n');
    } else {
        buf_add_format(to, "%s %.*s%s%.*s\n", upgrade_step_name(step->type),
            SLICE_ARG(step->property), step->to.len > 0 ? " to " : "",
            SLICE_ARG(step->to));
    }
}

static void explain_entities(const struct upgrade *upgrade, struct buf *to)
{
    buf_add_format(to, "read all of %s", upgrade->table_ref.table);
    if (upgrade->selector.filter) {
        buf_add_text(to, " and take entities where ");
        selector_explain(&upgrade->selector, to);
    }
    buf_add_format(to,
        "; their version is %.*s, or %" PRId64 " if that is absent\n",
        SLICE_ARG(upgrade->version), upgrade->absent);
}

static void explain_differences(const struct upgrade *upgrade, struct buf *to)
{
    static const char *const ENDS[] = {
        [UPGRADE_DIFFERENCE_FAILS] =
            "the entity is unchanged and reported as failed",
        [UPGRADE_DIFFERENCE_OLD] = "the old property is converted again",
        [UPGRADE_DIFFERENCE_NEW] = "the new property stays",
    };

    buf_add_format(to,
        "if old and new property were both written since expand: %s\n",
        ENDS[upgrade->on_difference]);
}

void upgrade_explain(const struct upgrade *upgrade, struct buf *to)
{
    explain_entities(upgrade, to);
    for (size_t v = 0; v < upgrade->version_count; v++) {
        const struct upgrade_version *version = &upgrade->versions[v];
        bool is_newest = v + 1 == upgrade->version_count;

        buf_add_format(
            to, "entities below version %" PRId64 ":\n", version->number);
        for (size_t i = 0; i < version->step_count; i++) {
            buf_add_format(to, "  %zu. ", i + 1);
            if (is_newest)
                explain_step(&version->steps[i], to);
            else
                explain_old_step(&version->steps[i], to);
        }
    }
    explain_differences(upgrade, to);
    buf_add_format(to,
        "replace each entity as a whole, with all steps that it lacks and the "
        "ETag that was read; its %.*s is then %" PRId64 "\n",
        SLICE_ARG(upgrade->version), upgrade_rules_newest(upgrade));
    buf_add_text(to,
        upgrade->follow
            ? "read again, in rounds, until `finish`\n"
            : "read again, in rounds, until a round takes under a minute, or "
              "more than half as long as the one before; then read everything "
              "once more\n");
}
