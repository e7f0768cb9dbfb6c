/* SPDX-License-Identifier: MIT */
/*
 * Finds out if two stores are the same account. Two names of the configuration
 * may lead to one account, by two host names, a proxy or a tunnel. The probe
 * writes an entity into one store and reads it from the other.
 */
#ifndef TW_JOBS_ENGINE_PROBE_H
#define TW_JOBS_ENGINE_PROBE_H

#include <stdbool.h>

#include "worker/base/err.h"

#define PROBE_TABLE "TablewardProbe"

struct run;
struct store;

/*
 * probe_same: *ret becomes true if a and b are the same account. If the
 * identities of the stores do not show this, an entity with a random key is
 * inserted into the table PROBE_TABLE of a (created if missing), read from b,
 * and deleted. Any outcome but TW_OK: it is not known whether a and b are
 * the same account, so the caller may not overwrite or delete any entity.
 */
TW_MUST_USE enum tw_err probe_same(struct run *run, struct store *a,
    struct store *b, bool *ret, struct err *err);

#endif
