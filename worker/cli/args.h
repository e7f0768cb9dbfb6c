/* SPDX-License-Identifier: MIT */
/* A job's arguments, and a run's id, from the command line. */
#ifndef TW_CLI_ARGS_H
#define TW_CLI_ARGS_H

#include <stddef.h>

#include "jobs/job.h"
#include "worker/base/arena.h"

/*
 * args_read: parse NAME=VALUE words as the arguments of job, in its order. 64
 * for an argument that is missing, unknown, duplicate or invalid, with the
 * nearest valid name. Lives in arena.
 */
int args_read(const struct job *job, const char *const *words, size_t count,
    struct arena *arena, struct run_args *ret);

/*
 * args_read_some: the same, but arguments may be missing: their value's `at` is
 * NULL. For `verify`, whose kind reports the arguments that it requires.
 */
int args_read_some(const struct job *job, const char *const *words,
    size_t count, struct arena *arena, struct run_args *ret);

/* args_read_id: check the value of --id; 64 for an invalid run id. Borrowed
 * from text. */
int args_read_id(const char *text, struct slice *ret);

#endif
