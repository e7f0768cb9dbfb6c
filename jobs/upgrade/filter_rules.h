/* SPDX-License-Identifier: MIT */
/* Checks the filter of a schema-upgrade job against the job's steps. */
#ifndef TW_JOBS_UPGRADE_FILTER_RULES_H
#define TW_JOBS_UPGRADE_FILTER_RULES_H

#include <stdbool.h>

#include "config/problems.h"
#include "jobs/upgrade/rules.h"

/*
 * upgrade_filter_check: refuse a filter that matches no entity once the steps
 * of some version are carried out. This happens if the steps remove properties
 * that the filter compares, or give them another type or value. (Each version
 * gives the version property another value.) After an upgrade with such a
 * filter, no later run would find the entities: a run for a later version would
 * succeed without them, and `verify` would not compare them. Warn if the filter
 * may have matched entities that it does not match once the steps are carried
 * out. A filter that compares both names of a rename or retype is assumed to
 * match under either name. mark: position of the filter. False: a problem was
 * added.
 */
bool upgrade_filter_check(
    const struct upgrade *upgrade, struct mark mark, struct problems *problems);

#endif
