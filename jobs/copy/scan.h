/* SPDX-License-Identifier: MIT */
/* Reads both sides of a copy job: the sources, and the job's own copies. Writes
 * nothing. Used by the step COPY_OWN, by the dry run and by `verify`. */
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

    /* source: called by copy_scan_sources() for each selected source, once for
     * each entry of `to:`. entry is the index of the entry. copy is the copy
     * that the entry makes of source. If none can be made, copy is NULL, and
     * why has the reason. */
    enum tw_err (*source)(void *ctx, const struct entity *source, size_t entry,
        const struct entity *copy, const char *why);

    /* own: called by copy_scan_own() for each own copy. table is an index into
     * struct copy_work.tables; `is` is TablewardSource of copy. */
    enum tw_err (*own)(void *ctx, size_t table, const struct entity *copy,
        const struct source *is);
};

/* copy_scan_sources: scan the sources; add the number of pages read to
 * *ret_pages (may be NULL). */
TW_MUST_USE enum tw_err copy_scan_sources(struct copy_work *work,
    const struct copy_visitor *visitor, int64_t *ret_pages);

/* copy_scan_own: scan the own copies; ret_pages as for copy_scan_sources(). A
 * missing destination table counts as empty. */
TW_MUST_USE enum tw_err copy_scan_own(struct copy_work *work,
    const struct copy_visitor *visitor, int64_t *ret_pages);

#endif
