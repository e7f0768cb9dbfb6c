/* SPDX-License-Identifier: MIT */
/* The kind reindex: copies of a table's entities under other keys of the same
 * table, kept in step with their sources. */
#ifndef TW_JOBS_REINDEX_H
#define TW_JOBS_REINDEX_H

#include "jobs/job.h"

extern const struct kind reindex_kind;

#endif
