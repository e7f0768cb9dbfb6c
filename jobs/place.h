/* SPDX-License-Identifier: MIT */
/* `store:` and `table:` of a job's map: where something is. */
#ifndef TW_JOBS_PLACE_H
#define TW_JOBS_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/slice.h"

struct job_loader;

struct place {
    size_t store;      /* index into struct job_stores */
    const char *table; /* lives as long as the texts it was read from;
                        * NULL: it could not be read */
};

/*
 * place_load: store (at is NULL: the default one) and table are the texts of
 * map's keys. False: problems has been added to, at the key's place.
 */
bool place_load(const struct yaml_node *map, struct slice store,
    struct slice table, const struct job_loader *loader, struct place *ret);

/* place_same: the same table (names differ in case only) of the same store. Of
 * tables that could not be read, all are the same and none is one that was. */
bool place_same(const struct place *a, const struct place *b);

/* place_mark: where the value of map's key stands; map's own mark where there
 * is none. */
struct mark place_mark(const struct yaml_node *map, const char *key);

#endif
