/* SPDX-License-Identifier: MIT */
/*
 * Index rows: copies that a copy job keeps in the table of their sources. Index
 * rows belong to that job, and no other job moves, upgrades or copies them.
 */
#ifndef TW_JOBS_INDEX_ROW_H
#define TW_JOBS_INDEX_ROW_H

#include <stdbool.h>

#include "worker/store/entity.h"

/* The property that is_index_row() reads. A scan that selects properties must
 * also select this one. */
#define INDEX_ROW_PROPERTY "TablewardSource"

/*
 * is_index_row: is entity, as read from the table `table`, an index row of that
 * table? True if three conditions hold:
 *
 *   - TablewardSource of entity names the same table for the source and for
 *     the copy;
 *   - this table is `table`;
 *   - the copy's keys in TablewardSource are the keys of entity.
 *
 * The account in TablewardSource does not matter, because after an import into
 * another account or store TablewardSource still names the former account. A
 * copy of an index row under other keys, or in a table of another name, is an
 * ordinary entity. Fast for an entity without TablewardSource.
 */
bool is_index_row(const struct entity *entity, const char *table);

#endif
