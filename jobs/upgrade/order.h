/* SPDX-License-Identifier: MIT */
/* Checks the steps of a document against one another. */
#ifndef TW_JOBS_UPGRADE_ORDER_H
#define TW_JOBS_UPGRADE_ORDER_H

#include <stdbool.h>

#include "config/problems.h"
#include "jobs/upgrade/rules.h"

/*
 * upgrade_order_check: check all steps of upgrade, after they are read. False:
 * problems were added, each with its position. The following is refused:
 *
 *   a step or a template that reads what an earlier step removed;
 *   a rename or a to_property onto a property that another step adds, sets
 *   or makes;
 *   a version that makes and removes the same property (rule U6);
 *   a version that retypes a property and then gives it another type, or
 *   renames another property to it;
 *   a conversion that is impossible, or lossy without `lossy: true`, from
 *   the type that an earlier step gave the property.
 */
bool upgrade_order_check(
    const struct upgrade *upgrade, struct problems *problems);

#endif
