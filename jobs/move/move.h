/* SPDX-License-Identifier: MIT */
/* The kind move: see move.c. */
#ifndef TW_JOBS_MOVE_MOVE_H
#define TW_JOBS_MOVE_MOVE_H

#include "jobs/job.h"

extern const struct kind move_kind;

#endif
