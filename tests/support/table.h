/* SPDX-License-Identifier: MIT */
/* Fills and reads tables of a store without any job. If the store fails, the
 * test fails. */
#ifndef TW_TESTS_TABLE_H
#define TW_TESTS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/store/store.h"

/* table_memory: returns an embedded store in memory with these tables (the list
 * ends with NULL). Owned; release it with store_close(). */
struct store *table_memory(const char *const *tables);

/* table_put: inserts an entity. Its property "Value" is a String with the text
 * `value` or, if value is NULL, with `bytes` times 'x'. After each 30000 bytes
 * the text continues in another property: "Value1", "Value2" and so on. */
void table_put(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value,
    size_t bytes);

/* table_fill: inserts `count` entities; their RowKeys are numbers from `first`
 * on, written with %06zu. */
void table_fill(struct store *store, const char *table,
    const char *partition_key, size_t first, size_t count);

/* table_write: replaces the entity by one with this Value. False: the entity
 * does not exist, or another writer has changed it meanwhile. */
bool table_write(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value);

/* table_delete: deletes the entity. False: as for table_write(). */
bool table_delete(struct store *store, const char *table,
    const char *partition_key, const char *row_key);

/* table_has: returns whether the entity exists and has this Value (NULL: any
 * Value). */
bool table_has(struct store *store, const char *table,
    const char *partition_key, const char *row_key, const char *value);

/* table_count: returns the number of entities in the table. */
size_t table_count(struct store *store, const char *table);

#endif
