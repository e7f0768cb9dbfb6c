/* SPDX-License-Identifier: MIT */
/* The kind delete: what a selection of one table holds goes. */
#ifndef TW_JOBS_DELETE_H
#define TW_JOBS_DELETE_H

#include "jobs/job.h"

extern const struct kind delete_kind;

#endif
