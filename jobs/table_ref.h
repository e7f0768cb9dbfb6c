/* SPDX-License-Identifier: MIT */
/* A table that a job's map names by `store:` and `table:`. */
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
    const char *table; /* name of the table; lives as long as the text it was
                        * read from; NULL: the name was invalid */
};

/*
 * table_ref_load: find the table that `map` names. The parameters `store` and
 * `table` are the values of these two keys in `map`. If the key `store` is
 * absent, store.at is NULL, and the table is in the default store. False: a
 * problem was added at the line of the wrong key.
 */
bool table_ref_load(const struct yaml_node *map, struct slice store,
    struct slice table, const struct job_loader *loader, struct table_ref *ret);

/* table_ref_same: do a and b name the same table (regardless of case) of the
 * same store? Two invalid tables of one store count as the same table; an
 * invalid and a valid table never count as the same. */
bool table_ref_same(const struct table_ref *a, const struct table_ref *b);

/* table_ref_mark: returns the position of the value of `key` in map or, if the
 * key is absent, the position of map. */
struct mark table_ref_mark(const struct yaml_node *map, const char *key);

#endif
