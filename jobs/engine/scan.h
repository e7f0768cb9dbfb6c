/* SPDX-License-Identifier: MIT */
/*
 * A scan: the pages of a table that a rule selects, one after another, the
 * next one fetched while this one is worked on. The end is "no continuation",
 * never "an empty page" or "fewer than 1,000".
 *
 * It goes on after a key rather than from a continuation token, which ages:
 * first the rest of that partition, then all beyond it, two cheap ranges. On a
 * store whose scans are not in key order it starts over.
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
    const struct slice *select; /* NULL: whole entities, by smaller pages;
                                   the keys and the ETag come always */
    size_t select_count;
    unsigned first_top;  /* of the first page, 1..1000; 0: what suits select */
    size_t entity_bytes; /* what one will take in memory, about; 0: not known */
    size_t page_bytes;   /* what a page should take; 0: SCAN_PAGE_BYTES */
    bool resumed;        /* only entities after this key: */
    struct slice after_partition_key, after_row_key;
    struct run *run; /* borrowed; asked between empty pages whether to stop: a
                        filter may match nothing in a thousand of them. NULL:
                        it goes on to the end */
};

/*
 * scan_open: everything in spec is copied but the store, which is borrowed.
 * The first page is asked for at once. Owned.
 */
struct scan *scan_open(
    struct pool_client *request_pool, const struct scan_spec *spec);

/*
 * scan_next: the next page that holds entities; borrowed until the next call.
 * *ret is NULL at the end. Any other outcome than TW_OK is the request pool's
 * last word; the scan can only be closed then. TW_NOT_FOUND: no such table.
 * TW_STOPPED also: run_stopping(spec->run).
 */
TW_MUST_USE enum tw_err scan_next(
    struct scan *scan, const struct page **ret, struct err *err);

/* scan_drop_page: give back the memory of the page that came last. */
void scan_drop_page(struct scan *scan);

/* scan_wait: until that is so. How the request ended; scan_next() deals with
 * it, and gives what has come. */
TW_MUST_USE enum tw_err scan_wait(struct scan *scan);

/* scan_bytes: what the page under way may take, of what all requests may. */
size_t scan_bytes(const struct scan *scan);

/* scan_has_come: is what was last asked for there, or its failure? */
bool scan_has_come(const struct scan *scan);

/* scan_pages: pages received so far, empty ones too. */
size_t scan_pages(const struct scan *scan);

/* scan_give_up: nothing is asked for again; the scan can only be closed then.
 */
void scan_give_up(struct scan *scan);

/* scan_close: waits for a page under way. NULL: nothing. */
void scan_close(struct scan *scan);

#endif
