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
 * retired_kind: if job (a map) names its kind by a former name, add a problem
 * at that line and return the present name, which is static. Returns NULL if
 * `kind` is missing or has a name that is not a former one.
 */
const char *retired_kind(
    const struct yaml_node *job, struct problems *problems);

/*
 * retired_keys: add a problem for each former key or value in job, at its line.
 * kind is the present name of the job's kind. Returns a copy of the job without
 * the former keys, so that the kind reports only other mistakes. Lives in
 * arena.
 */
const struct yaml_node *retired_keys(const struct yaml_node *job,
    const char *kind, struct arena *arena, struct problems *problems);

#endif
