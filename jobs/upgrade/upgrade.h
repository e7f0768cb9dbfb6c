/* SPDX-License-Identifier: MIT */
/* The kind schema-upgrade: every entity of a table from one version to the
 * next, while old and new releases of an application go on using it. */
#ifndef TW_JOBS_SCHEMA_UPGRADE_H
#define TW_JOBS_SCHEMA_UPGRADE_H

#include "jobs/job.h"

extern const struct kind schema_upgrade_kind;

#endif
