/* SPDX-License-Identifier: MIT */
/* A job's arguments from the command line. */
#ifndef TW_CLI_ARGS_H
#define TW_CLI_ARGS_H

#include <stddef.h>

#include "jobs/job.h"
#include "worker/base/arena.h"

/*
 * args_read: NAME=VALUE words as the arguments of job, in its order. 64 for
 * what is missing, superfluous, twice or not good, with the nearest right
 * name. Lives in arena.
 */
int args_read(const struct job *job, const char *const *words, size_t count,
    struct arena *arena, struct run_args *ret);

#endif
