/* SPDX-License-Identifier: MIT */
/* The kind copy: keeps copies of entities in sync with their sources. */
#ifndef TW_JOBS_COPY_COPY_H
#define TW_JOBS_COPY_COPY_H

#include "jobs/job.h"

extern const struct kind copy_kind;

#endif
