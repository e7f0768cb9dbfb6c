/* SPDX-License-Identifier: MIT */
/*
 * Reads the children of many entities as one key range. The entities of a page
 * are in key order. If the children that a rule finds under them are in the
 * same order, one scan over all these children replaces one scan per entity.
 * The scan may return other entities too, so the caller must test each entity
 * that it returns (match_has()).
 */
#ifndef TW_JOBS_CASCADE_RANGES_H
#define TW_JOBS_CASCADE_RANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/engine/scan.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct pool_client;

enum span_kind {
    SPAN_NONE,       /* the selected keys are not contiguous */
    SPAN_ROWS,       /* a range of RowKeys in one partition */
    SPAN_PARTITIONS, /* a range of whole partitions */
};

/* The keys (RowKeys or PartitionKeys) with `from` <= key < `below`. */
struct span {
    enum span_kind kind;
    struct slice partition_key; /* the partition, for SPAN_ROWS */
    bool ends; /* the span has an upper bound, the member `below` */
    struct slice from, below;
};

/*
 * span_of: returns the key ranges of spec as one span. Returns SPAN_NONE also
 * if a bound contains a character that the stores sort differently (U+E000 and
 * above). Borrows from spec and arena.
 */
struct span span_of(const struct scan_spec *spec, struct arena *arena);

struct range_scan;

/* range_scan_new: returns a range scan, owned by the caller. Sends no request.
 */
struct range_scan *range_scan_new(struct pool_client *pool_client);

/* range_scan_free: ranges may be NULL. */
void range_scan_free(struct range_scan *ranges);

/* range_scan_is_useful: false after two scans that saved no requests, after the
 * scans have read too many pages between the requested spans, or after
 * range_scan_give_up(). */
bool range_scan_is_useful(const struct range_scan *ranges);
void range_scan_give_up(struct range_scan *ranges);

/*
 * range_scan_seek: move the open scan to span. If *ret becomes true, the scan
 * will return all of span: continue with range_scan_next(). If *ret becomes
 * false, use range_scan_open() or a separate scan. Outcomes as scan_next(); a
 * failure is returned again by later calls.
 */
TW_MUST_USE enum tw_err range_scan_seek(struct range_scan *ranges,
    const struct span *span, bool *ret, struct err *err);

/*
 * range_scan_open: begin one scan from the beginning of span to the end of
 * last, which is the span of a later entity's children. The caller fills all of
 * spec but the key ranges, which this function sets. False: span and last are
 * not in one range, or range scans are no longer useful; no scan is open.
 */
bool range_scan_open(struct range_scan *ranges, struct scan_spec *spec,
    const struct span *span, const struct span *last);

/*
 * range_scan_next: return the next entities of span in *ret, borrowed until the
 * next call, and their number in *ret_count (0: the end of span). Outcomes as
 * scan_next().
 */
TW_MUST_USE enum tw_err range_scan_next(struct range_scan *ranges,
    const struct span *span, struct entity **ret, size_t *ret_count,
    struct err *err);

/* range_scan_pages and range_scan_scans return the number of pages received and
 * of scans opened so far. */
size_t range_scan_pages(const struct range_scan *ranges);
size_t range_scan_scans(const struct range_scan *ranges);

#endif
