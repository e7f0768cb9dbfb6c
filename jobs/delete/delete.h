/* SPDX-License-Identifier: MIT */
/* The kind delete: deletes the entities of one table that a selection finds. */
#ifndef TW_JOBS_DELETE_H
#define TW_JOBS_DELETE_H

#include "jobs/job.h"

extern const struct kind delete_kind;

#endif
