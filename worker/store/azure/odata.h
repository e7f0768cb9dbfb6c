/* SPDX-License-Identifier: MIT */
/*
 * The table service's URLs, queries, pages and errors. Pure.
 *
 * Source: Table service REST, "Querying tables and entities", "Query timeout
 * and pagination", "Payload format for table service operations".
 */
#ifndef TW_STORE_AZURE_ODATA_H
#define TW_STORE_AZURE_ODATA_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

/* odata_add_entity_path: add /T(PartitionKey='o%27%27brien',RowKey='1'). The
 * same in three parts: odata_add_entity_path_head(), odata_add_url_key() with
 * the RowKey, and ODATA_ENTITY_PATH_TAIL. */
void odata_add_entity_path(struct buf *to, const char *table,
    struct slice partition_key, struct slice row_key);
void odata_add_entity_path_head(
    struct buf *to, const char *table, struct slice partition_key);
void odata_add_url_key(struct buf *to, struct slice key);
#define ODATA_ENTITY_PATH_TAIL "')"

/* odata_add_filter: add the filter of a scan, not yet percent-encoded: the
 * ranges of both keys, and request->filter in parentheses. */
void odata_add_filter(struct buf *to, const struct scan_request *request);

/*
 * odata_add_scan_query: add the query string of a scan, percent-encoded. If
 * request->select is NULL, there is no $select; otherwise $select always has
 * both keys. Only the continuation differs between pages.
 */
void odata_add_scan_query(struct buf *to, const struct scan_request *request);

/* odata_add_tables_query: add the query string of a list of tables; nothing for
 * the first page. */
void odata_add_tables_query(struct buf *to, const struct continuation *from);

/*
 * odata_page: read {"value":[...]} into page, which must be empty. The entities
 * point into body, so body must live as long as page. need_keys: as in
 * entity_parse().
 *
 * TW_UNKNOWN  the body is truncated, or is not a page, or has an entity without
 *             a required key, or has more than PAGE_MAX_ENTITIES entities.
 * TW_INVALID  the page is complete, but an entity in it is not valid.
 */
TW_MUST_USE enum tw_err odata_page(
    struct slice body, bool need_keys, struct page *page, struct err *err);

/* odata_tables: like odata_page(), for a list of tables; each name becomes the
 * partition_key of an entity without properties. */
TW_MUST_USE enum tw_err odata_tables(
    struct slice body, struct page *page, struct err *err);

/* odata_entity: like odata_page(), for a body with one entity, the response to
 * a Get. */
TW_MUST_USE enum tw_err odata_entity(
    struct slice body, bool need_keys, struct page *page, struct err *err);

/*
 * odata_error: copy code and message of {"odata.error":{"code":...,"message":
 * {"value":...}}} into arena. False: the body has another form.
 */
bool odata_error(struct slice body, struct arena *arena, struct slice *ret_code,
    struct slice *ret_message);

#endif
