/* SPDX-License-Identifier: MIT */
/*
 * Former names of kinds and keys: `check` says what each is called now. None
 * of them is accepted.
 */
#ifndef TW_JOBS_RETIRED_H
#define TW_JOBS_RETIRED_H

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/arena.h"

/*
 * retired_kind: the name that the kind of the job (a map) has now, after a
 * problem was added at its place; NULL: it is not a former name. Static.
 */
const char *retired_kind(
    const struct yaml_node *job, struct problems *problems);

/*
 * retired_keys: add a problem for each former key or value of a job of `kind`
 * (a present name), at its place. Returns the job without them, so that its
 * kind reports only what else is wrong; the job itself where there are none.
 * Lives in arena.
 */
const struct yaml_node *retired_keys(const struct yaml_node *job,
    const char *kind, struct arena *arena, struct problems *problems);

#endif
