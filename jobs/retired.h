/* SPDX-License-Identifier: MIT */
/*
 * Former names of kinds and keys. `check` reports a former name together with
 * the present one. No former name is accepted.
 */
#ifndef TW_JOBS_RETIRED_H
#define TW_JOBS_RETIRED_H

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/arena.h"

/*
 * retired_kind: the present name of the kind, if job (a map) names its kind by
 * a former name; a problem is then added at that line. NULL: `kind` is missing
 * or no former name. Static.
 */
const char *retired_kind(
    const struct yaml_node *job, struct problems *problems);

/*
 * retired_keys: add a problem for each former key or value in job, at its line.
 * kind: the job's kind, by its present name. Returns a copy of the job without
 * the former keys, so that the kind reports only other mistakes. Lives in
 * arena.
 */
const struct yaml_node *retired_keys(const struct yaml_node *job,
    const char *kind, struct arena *arena, struct problems *problems);

#endif
