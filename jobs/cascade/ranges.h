/* SPDX-License-Identifier: MIT */
/*
 * Children of many entities that lie together, read as one range. The entities
 * of a page come in the order of their keys; where a rule finds their children
 * in the same order, one scan over all of them replaces a scan for each. It
 * brings a superset: the exact test is the caller's, as of every scan.
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
    SPAN_NONE,       /* not one stretch of the table's order */
    SPAN_ROWS,       /* RowKeys of one partition */
    SPAN_PARTITIONS, /* whole partitions */
};

/* from <= key < below, of RowKeys or of PartitionKeys. */
struct span {
    enum span_kind kind;
    struct slice partition_key; /* SPAN_ROWS */
    bool ends;                  /* below is a bound */
    struct slice from, below;
};

/*
 * span_of: what spec's ranges are. SPAN_NONE also where a bound holds a
 * character whose place differs between the orders of the stores (U+E000 and
 * above). Borrows from spec and arena.
 */
struct span span_of(const struct scan_spec *spec, struct arena *arena);

struct range_scan;

/* range_scan_new: nothing is asked for. Owned. */
struct range_scan *range_scan_new(struct pool_client *request_pool);

/* range_scan_free: NULL: nothing. */
void range_scan_free(struct range_scan *ranges);

/* range_scan_is_useful: false once it has not saved requests twice, or after
 * range_scan_give_up(). */
bool range_scan_is_useful(const struct range_scan *ranges);
void range_scan_give_up(struct range_scan *ranges);

/*
 * range_scan_seek: does the open scan still bring all of span? *ret: true: go
 * on with range_scan_next(). False: range_scan_open(), or a scan of its own.
 * Any outcome but TW_OK as scan_next(), also that of an earlier call.
 */
TW_MUST_USE enum tw_err range_scan_seek(struct range_scan *ranges,
    const struct span *span, bool *ret, struct err *err);

/*
 * range_scan_open: begin one scan from span to the end of last, another
 * entity's children further on. spec has everything but the ranges. False: they
 * are not one stretch; nothing is open.
 */
bool range_scan_open(struct range_scan *ranges, struct scan_spec *spec,
    const struct span *span, const struct span *last);

/*
 * range_scan_next: the next entities of span, in *ret and *ret_count (0: that
 * was all of it), borrowed until the next call. Outcomes as scan_next().
 */
TW_MUST_USE enum tw_err range_scan_next(struct range_scan *ranges,
    const struct span *span, struct entity **ret, size_t *ret_count,
    struct err *err);

/* range_scan_pages, range_scan_scans: received and opened so far. */
size_t range_scan_pages(const struct range_scan *ranges);
size_t range_scan_scans(const struct range_scan *ranges);

#endif
