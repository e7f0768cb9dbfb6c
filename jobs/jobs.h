/* SPDX-License-Identifier: MIT */
/* The table of kinds, and the jobs of a configuration. */
#ifndef TW_JOBS_JOBS_H
#define TW_JOBS_JOBS_H

#include <stddef.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/job.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"

struct settings_section;

struct jobs {
    struct job *list; /* the jobs without a mistake, in the order of the file */
    size_t count;
    /* Names of the jobs with a mistake. These jobs are not in `list`. */
    const char **broken;
    size_t broken_count;
};

/*
 * jobs_load: read node, the value of `jobs:` (NULL: there are no jobs), into
 * *ret, which lives in arena. Every mistake is added to problems; every job
 * without a mistake is added to ret->list.
 */
void jobs_load(const struct yaml_node *node, const struct job_stores *stores,
    struct arena *arena, struct jobs *ret, struct problems *problems);

/* jobs_find: returns the job of that name, or NULL if there is none. */
const struct job *jobs_find(const struct jobs *jobs, struct slice name);

/* jobs_nearest: returns the name of the job that is most similar to `name`.
 * NULL: no name is similar. */
const char *jobs_nearest(const struct jobs *jobs, struct slice name);

/* jobs_kinds: returns the static list of all kinds, with *ret_count entries. */
const struct kind *const *jobs_kinds(size_t *ret_count);

/* jobs_kind: returns the kind of that name, which is static, or NULL. */
const struct kind *jobs_kind(struct slice name);

/* The configuration keys that jobs of any kind may have. */
extern const struct settings_section jobs_arg_section;
extern const struct settings_section jobs_common_section;

#endif
