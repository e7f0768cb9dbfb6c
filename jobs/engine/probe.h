/* SPDX-License-Identifier: MIT */
/*
 * Finds out if two stores are the same account. Two stores of the configuration
 * may lead to one account under different host names, or through a proxy or a
 * tunnel. The probe writes an entity into one store and reads it from the
 * other.
 */
#ifndef TW_JOBS_ENGINE_PROBE_H
#define TW_JOBS_ENGINE_PROBE_H

#include <stdbool.h>

#include "worker/base/err.h"

#define PROBE_TABLE "TablewardProbe"

struct run;
struct store;

/*
 * probe_same: *ret becomes true if the stores `a` and `b` are the same account.
 * If their identities do not show this, an entity with a random key is inserted
 * into the table PROBE_TABLE of store `a`, read from store `b`, and deleted.
 * The table is created if it is missing. Any outcome but TW_OK: it is not known
 * whether the two stores are the same account, so the caller may not overwrite
 * or delete any entity.
 */
TW_MUST_USE enum tw_err probe_same(struct run *run, struct store *a,
    struct store *b, bool *ret, struct err *err);

#endif
