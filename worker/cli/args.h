/* SPDX-License-Identifier: MIT */
/* Parses a job's arguments and a run's id from the command line. */
#ifndef TW_CLI_ARGS_H
#define TW_CLI_ARGS_H

#include <stddef.h>

#include "jobs/job.h"
#include "worker/base/arena.h"

/*
 * args_read: parse NAME=VALUE words as the arguments of job, in the order of
 * its definition. Exit code 64 for an argument that is missing, unknown,
 * duplicate or invalid; the message has the nearest valid name. *ret lives in
 * arena.
 */
int args_read(const struct job *job, const char *const *words, size_t count,
    struct arena *arena, struct run_args *ret);

/*
 * args_read_some: parse as args_read(), but accept missing arguments; the value
 * of a missing argument has `at` NULL. For `verify`, because the kind of the
 * job reports the arguments that its verification requires.
 */
int args_read_some(const struct job *job, const char *const *words,
    size_t count, struct arena *arena, struct run_args *ret);

/* args_read_id: check the value of --id; exit code 64 for an invalid run id.
 * *ret is borrowed from text. */
int args_read_id(const char *text, struct slice *ret);

#endif
