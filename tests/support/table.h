/* SPDX-License-Identifier: MIT */
/* Tables of a store, filled and looked at without any engine. Each fails the
 * test where the store does. */
#ifndef TW_TESTS_TABLE_H
#define TW_TESTS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/store/store.h"

/* table_memory: an embedded store in memory with these tables (NULL ends the
 * list). Owned; store_close(). */
struct store *table_memory(const char *const *tables);

/* table_put: insert one entity with property "Value" as a String of that
 * text, or of bytes times 'x' where value is NULL. */
void table_put(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value,
    size_t bytes);

/* table_fill: count entities with RowKeys from first on, as %06zu. */
void table_fill(struct store *store, const char *table,
    const char *partition_key, size_t first, size_t count);

/* table_write: replace the entity by one with that Value; false: there is
 * none, or somebody was faster. */
bool table_write(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value);

/* table_delete: false as above. */
bool table_delete(struct store *store, const char *table,
    const char *partition_key, const char *row_key);

/* table_has: is it there, with that Value (NULL: any)? */
bool table_has(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value);

/* table_count: entities in the table. */
size_t table_count(struct store *store, const char *table);

#endif
