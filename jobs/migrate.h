/* SPDX-License-Identifier: MIT */
/* The kind migrate: entities get new keys, another table, another account,
 * while the application goes on writing. */
#ifndef TW_JOBS_MIGRATE_H
#define TW_JOBS_MIGRATE_H

#include "jobs/job.h"

extern const struct kind migrate_kind;

#endif
