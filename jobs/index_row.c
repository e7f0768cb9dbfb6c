/* SPDX-License-Identifier: MIT */
/* Recognises index rows. */
#include "jobs/index_row.h"

#include "jobs/copy/source.h"
#include "worker/base/arena.h"

bool is_index_row(const struct entity *entity, const char *table)
{
    const struct source_table here = {.table = slice_of(table)};
    struct source source;
    struct arena arena;
    bool is;

    if (!entity_find(entity, slice_of(INDEX_ROW_PROPERTY)))
        return false;
    arena_init(&arena);
    is = source_read(entity, &arena, &source) &&
         source_is_index_row(&source, entity, &here);
    arena_done(&arena);
    return is;
}
