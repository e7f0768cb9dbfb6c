/* SPDX-License-Identifier: MIT */
/* The kind schema-upgrade: brings every entity of a table to the newest
 * version, while old and new releases of an application keep using the
 * table. */
#ifndef TW_JOBS_SCHEMA_UPGRADE_H
#define TW_JOBS_SCHEMA_UPGRADE_H

#include "jobs/job.h"

extern const struct kind schema_upgrade_kind;

#endif
