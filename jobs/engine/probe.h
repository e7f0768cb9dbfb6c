/* SPDX-License-Identifier: MIT */
/*
 * Are two stores one? Two names of the configuration may lead to one account,
 * by two host names, a proxy or a tunnel. What is written into one of them is
 * looked for in the other.
 */
#ifndef TW_JOBS_ENGINE_PROBE_H
#define TW_JOBS_ENGINE_PROBE_H

#include <stdbool.h>

#include "worker/base/err.h"

#define PROBE_TABLE "TablewardProbe"

struct run;
struct store;

/*
 * probe_same: *ret: does what is stored in a stand in b? Asked of the stores
 * themselves where what is known of them does not answer it: an entity with a
 * random key is inserted into the table PROBE_TABLE of a (created if missing),
 * read from b, and deleted. Any other outcome than TW_OK: not known; nothing
 * may be overwritten or deleted.
 */
TW_MUST_USE enum tw_err probe_same(struct run *run, struct store *a,
    struct store *b, bool *ret, struct err *err);

#endif
