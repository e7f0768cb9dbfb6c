/* SPDX-License-Identifier: MIT */
/* `store:` and `table:` of a job's map: where something is. */
#ifndef TW_JOBS_TABLE_REF_H
#define TW_JOBS_TABLE_REF_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/slice.h"

struct job_loader;

struct table_ref {
    size_t store;      /* index into struct job_stores */
    const char *table; /* lives as long as the texts it was read from;
                        * NULL: it could not be read */
};

/*
 * table_ref_load: store (at is NULL: the default one) and table are the texts
 * of map's keys. False: problems has been added to, at the key's place.
 */
bool table_ref_load(const struct yaml_node *map, struct slice store,
    struct slice table, const struct job_loader *loader, struct table_ref *ret);

/* table_ref_same: the same table (names differ in case only) of the same store.
 * Of tables that could not be read, all are the same and none is one that was.
 */
bool table_ref_same(const struct table_ref *a, const struct table_ref *b);

/* table_ref_mark: where the value of map's key stands; map's own mark where
 * there is none. */
struct mark table_ref_mark(const struct yaml_node *map, const char *key);

#endif
