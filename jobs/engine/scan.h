/* SPDX-License-Identifier: MIT */
/*
 * A scan reads the pages of a selected part of a table, one after another. The
 * scan requests the next page while the caller works on the present one. The
 * scan ends when there is no continuation token, never because a page is empty
 * or has fewer than 1,000 entities.
 *
 * A resumed scan continues after a key and not from a continuation token, which
 * expires. The scan then reads the rest of that key's partition, then all
 * partitions after it, as two cheap ranges. On a store whose scans are not in
 * key order, a resumed scan starts at the beginning.
 */
#ifndef TW_JOBS_ENGINE_SCAN_H
#define TW_JOBS_ENGINE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

struct pool_client;
struct run;
struct scan;

#define SCAN_PAGE_BYTES ((size_t)2 * 1024 * 1024)

struct scan_spec {
    struct store *store;
    const char *table;
    struct key_range partition_key, row_key;
    struct slice filter;        /* OData, or empty */
    const struct slice *select; /* names of the properties to read, besides keys
                                 * and ETag. NULL: whole entities are read; the
                                 * first page then has fewer of them */
    size_t select_count;
    unsigned first_top;  /* largest number of entities in the first page,
                          * 1..1000; 0: 1000, or fewer if select is NULL */
    size_t entity_bytes; /* estimated memory of one entity; 0: not known */
    size_t page_bytes;   /* target memory of a page; 0: SCAN_PAGE_BYTES */
    bool resumed;        /* true: read only entities after after_partition_key,
                          * after_row_key */
    struct slice after_partition_key, after_row_key;
    struct run *run;  /* borrowed. The scan calls run_stopping() between empty
                       * pages, because a filter may match nothing in a thousand
                       * pages. NULL: the scan is never stopped */
    bool tells_share; /* true: scan_next() sets run->share (share.h), the
                       * completed share of all entities. These are the entities
                       * in the range of this scan, and done_before more */
    int *share;       /* if tells_share is true: scan_next() sets *share
                       * instead of run->share; NULL: it sets run->share.
                       * Borrowed until scan_close() */
    int64_t done_before; /* used if tells_share is true: number of entities
                          * that the run handled before this scan began, and
                          * that this scan does not read */
};

/*
 * scan_open: begin a scan and request its first page at once. Copies everything
 * in spec except the store, which is borrowed. The caller owns the scan.
 */
struct scan *scan_open(
    struct pool_client *pool_client, const struct scan_spec *spec);

/*
 * scan_next: *ret becomes the next page that has entities, borrowed until the
 * next call, or NULL at the end of the scan. Any outcome but TW_OK is the final
 * outcome of the request pool; then the scan can only be closed. TW_NOT_FOUND:
 * the table does not exist. TW_STOPPED also if run_stopping(spec->run) is true.
 */
TW_MUST_USE enum tw_err scan_next(
    struct scan *scan, const struct page **ret, struct err *err);

/*
 * scan_drop_page: free the memory of the page that scan_next() returned last.
 */
void scan_drop_page(struct scan *scan);

/* scan_wait: wait until scan_has_come() is true. Returns the outcome of the
 * request for the next page; scan_next() then handles that outcome and returns
 * the page. */
TW_MUST_USE enum tw_err scan_wait(struct scan *scan);

/* scan_bytes: returns how many bytes of memory the requested page may take, as
 * part of the budget of all requests, or 0 if no page is requested. */
size_t scan_bytes(const struct scan *scan);

/* scan_has_come: has the request for the next page ended? True also if no page
 * is requested. */
bool scan_has_come(const struct scan *scan);

/* scan_note_share: record that the caller has worked on entity, which belongs
 * to the page that scan_next() returned last, and on all entities before it. If
 * spec.tells_share is true, sets the share as scan_next() does. */
void scan_note_share(struct scan *scan, const struct entity *entity);

/* scan_pages: returns the number of pages received so far, empty ones included.
 */
size_t scan_pages(const struct scan *scan);

/* scan_give_up: give up the requests in flight; the scan can then only be
 * closed. */
void scan_give_up(struct scan *scan);

/* scan_close: wait for the requests in flight, and free the scan. Does nothing
 * if given NULL. */
void scan_close(struct scan *scan);

#endif
