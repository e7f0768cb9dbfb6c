/* SPDX-License-Identifier: MIT */
/* Reads both sides of a copy job, for the dry run and for `verify`. Writes
 * nothing. */
#ifndef TW_JOBS_COPY_SCAN_H
#define TW_JOBS_COPY_SCAN_H

#include <stddef.h>

#include "jobs/copy/source.h"
#include "worker/base/err.h"

struct copy_work;
struct entity;

/* Callbacks for each entity. An outcome other than TW_OK ends the scan; the
 * scan returns that outcome. */
struct copy_visitor {
    void *ctx;

    /* source: called with a selected source and its copy for an entry. copy
     * NULL: the copy cannot be made; why has the reason. Used by
     * copy_scan_sources() only. */
    enum tw_err (*source)(void *ctx, const struct entity *source, size_t entry,
        const struct entity *copy, const char *why);

    /* own: called with an own copy in table number `table`. Used by
     * copy_scan_own() only. */
    enum tw_err (*own)(void *ctx, size_t table, const struct entity *copy,
        const struct source *is);
};

/* copy_scan_sources: scan the sources; add the number of pages read to
 * *ret_pages (may be NULL). */
TW_MUST_USE enum tw_err copy_scan_sources(struct copy_work *work,
    const struct copy_visitor *visitor, int64_t *ret_pages);

/* copy_scan_own: scan the own copies. A missing destination counts as
 * empty. */
TW_MUST_USE enum tw_err copy_scan_own(struct copy_work *work,
    const struct copy_visitor *visitor, int64_t *ret_pages);

#endif
