/* SPDX-License-Identifier: MIT */
/* Converts single entities to the newest version. */
#include "jobs/upgrade/convert.h"

#include "jobs/engine/selector.h"
#include "jobs/index_row.h"
#include "jobs/job.h"
#include "jobs/upgrade/converter.h"
#include "jobs/upgrade/rules.h"
#include "jobs/upgrade/steps.h"
#include "worker/base/mem.h"

enum tw_err upgrade_convert_open(const struct job *job,
    const struct run_args *args, struct upgrade_converter **ret,
    struct err *err)
{
    const struct upgrade *upgrade = job->settings;
    struct upgrade_converter *converter = mem_alloc(sizeof(*converter));
    enum tw_err outcome;

    arena_init(&converter->arena);
    converter->how = (struct upgrade_how){
        .upgrade = upgrade, .phase = upgrade_rules_phase(args), .args = args};
    outcome = selection_of_run(&upgrade->selector, args, &converter->arena,
        &converter->selection, err);
    if (outcome == TW_OK)
        *ret = converter;
    else
        upgrade_convert_close(converter);
    return outcome;
}

void upgrade_convert_close(struct upgrade_converter *converter)
{
    if (!converter)
        return;
    arena_done(&converter->arena);
    mem_free(converter);
}

enum upgrade_converted upgrade_convert(
    const struct upgrade_converter *converter, const struct entity *entity,
    struct arena *arena, struct entity *ret, struct err *err)
{
    struct upgrade_result result;

    *ret = *entity;
    if (!selection_matches(&converter->selection, entity) ||
        is_index_row(entity, converter->how.upgrade->table_ref.table))
        return UPGRADE_PASSED;
    switch (upgrade_apply(&converter->how, entity, arena, &result, err)) {
    case UPGRADE_CHANGED:
        *ret = result.entity;
        return UPGRADE_CONVERTED;
    case UPGRADE_UNCHANGED:
        return UPGRADE_CONVERTED;
    case UPGRADE_OUTSIDE:
        return UPGRADE_PASSED;
    case UPGRADE_SKIPPED:
    case UPGRADE_FAILED:
        break;
    }
    return UPGRADE_REFUSED;
}
