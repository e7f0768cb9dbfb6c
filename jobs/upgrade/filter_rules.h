/* SPDX-License-Identifier: MIT */
/* Checks the filter of a schema-upgrade job against the job's steps. */
#ifndef TW_JOBS_UPGRADE_FILTER_RULES_H
#define TW_JOBS_UPGRADE_FILTER_RULES_H

#include <stdbool.h>

#include "config/problems.h"
#include "jobs/upgrade/rules.h"

/*
 * upgrade_filter_check: refuse a filter that matches no entity once the steps
 * of some version are carried out, because steps removed properties that the
 * filter compares, or gave them another type or value, as each version does
 * with the version property. When a later version is added, a run would not
 * find the entities that an earlier run has brought to that version, would
 * succeed, and `verify` would not compare them. Warn if the filter may have
 * matched entities that it does not match once the steps are carried out. If it
 * compares both names of a rename or retype, it is taken to match both alike.
 * mark: position of the filter. False: a problem was added.
 */
bool upgrade_filter_check(
    const struct upgrade *upgrade, struct mark mark, struct problems *problems);

#endif
