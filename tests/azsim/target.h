/* SPDX-License-Identifier: MIT */
/* What the path of a request to the table service names: a table, an entity or
 * another target. */
#ifndef TW_AZSIM_TARGET_H
#define TW_AZSIM_TARGET_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"

struct target {
    enum {
        TARGET_TABLES, /* /Tables or /Tables('table')        */
        TARGET_BATCH,  /* /$batch                            */
        TARGET_TABLE,  /* /table or /table()                 */
        TARGET_ENTITY, /* /table(PartitionKey='',RowKey='')  */
    } what;
    struct slice table; /* .at NULL: the path names no table */
    struct slice partition_key, row_key;
};

/* target_read: reads a path, which is still percent-encoded and has no account.
 * False: it names no target. */
bool target_read(struct slice path, struct arena *arena, struct target *ret);

/* target_is_table: returns whether a table may have this name. */
bool target_is_table(struct slice name);

#endif
