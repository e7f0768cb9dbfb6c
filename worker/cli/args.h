/* SPDX-License-Identifier: MIT */
/* A job's arguments, and a run's id, from the command line. */
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

/*
 * args_read_some: the same, but an argument may be missing: its value's `at` is
 * NULL then. For `verify`, whose kind says which ones it cannot do without.
 */
int args_read_some(const struct job *job, const char *const *words,
    size_t count, struct arena *arena, struct run_args *ret);

/* args_read_id: the value of --id; 64 for what can be no run's id. Borrowed
 * from text. */
int args_read_id(const char *text, struct slice *ret);

#endif
