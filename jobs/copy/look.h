/* SPDX-License-Identifier: MIT */
/* Both sides of a copy job, read without writing: for the dry run and for
 * `verify`. */
#ifndef TW_JOBS_COPY_LOOK_H
#define TW_JOBS_COPY_LOOK_H

#include <stddef.h>

#include "jobs/copy/source.h"
#include "worker/base/err.h"

struct copy_work;
struct entity;

/* What is called for each entity. Anything but TW_OK ends the scan with it. */
struct copy_look {
    void *ctx;

    /* source: a selected source, and its copy for an entry; copy is NULL if
     * there can be none: then why says why. NULL: nobody asks. */
    enum tw_err (*source)(void *ctx, const struct entity *source, size_t entry,
        const struct entity *copy, const char *why);

    /* own: an own copy in table number `table`. */
    enum tw_err (*own)(void *ctx, size_t table, const struct entity *copy,
        const struct source *is);
};

/* copy_look_at_sources: *ret_pages (may be NULL): pages that were read. */
TW_MUST_USE enum tw_err copy_look_at_sources(
    struct copy_work *work, const struct copy_look *look, int64_t *ret_pages);

/* copy_look_at_own: a destination that does not exist holds none. */
TW_MUST_USE enum tw_err copy_look_at_own(
    struct copy_work *work, const struct copy_look *look, int64_t *ret_pages);

#endif
