/* SPDX-License-Identifier: MIT */
/* What the path of a request to the table service names. */
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
    struct slice table; /* .at NULL: none is named */
    struct slice partition_key, row_key;
};

/* target_read: path is still percent-encoded and has no account. False: it
 * names nothing. */
bool target_read(struct slice path, struct arena *arena, struct target *ret);

/* target_is_table: a table may have that name. */
bool target_is_table(struct slice name);

#endif
