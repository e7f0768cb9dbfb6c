/* SPDX-License-Identifier: MIT */
/* Checks the filter of a schema-upgrade job against the job's steps. */
#ifndef TW_JOBS_UPGRADE_FILTER_RULES_H
#define TW_JOBS_UPGRADE_FILTER_RULES_H

#include <stdbool.h>

#include "config/problems.h"
#include "jobs/upgrade/rules.h"

/*
 * upgrade_filter_check: refuse a filter that matches no entity once the steps
 * of some version are carried out, because a step removed a property that the
 * filter compares, or gave it another type or value. When a later version is
 * added, a run would not find the entities that an earlier run has brought to
 * that version, would succeed, and `verify` would not compare them. Warn if a
 * step sets or retypes such a property, and what the filter matches afterwards
 * depends on the values. mark: position of the filter. False: a problem was
 * added.
 */
bool upgrade_filter_check(
    const struct upgrade *upgrade, struct mark mark, struct problems *problems);

#endif
