/* SPDX-License-Identifier: MIT */
/*
 * Index rows: copies that a copy job keeps in the table of their sources. They
 * belong to that job: no other job moves, upgrades or copies them.
 */
#ifndef TW_JOBS_INDEX_ROW_H
#define TW_JOBS_INDEX_ROW_H

#include <stdbool.h>

#include "worker/store/entity.h"

struct store;

/* The property that is_index_row() reads: a scan that selects properties must
 * select this one too. */
#define INDEX_ROW_PROPERTY "TablewardSource"

/*
 * is_index_row: is entity, as read from table of store, an index row of that
 * table? So it is where its TablewardSource names this very table as that of
 * its source and as its own, and its own keys: a copy of an index row under
 * other keys, or in another table, is an ordinary entity. Cheap for an entity
 * without that property.
 */
bool is_index_row(
    const struct entity *entity, const struct store *store, const char *table);

#endif
