/* SPDX-License-Identifier: MIT */
/*
 * The machine of the kinds that copy (migrate, reindex): sources of one table,
 * copies of each in one or several places.
 *
 *   copy    a pass over the sources. The copies go through a sorter into the
 *           flow: inserted where nothing stands, else by copying_decide(). Of a
 *           move, each source goes, with the ETag that was copied, once all its
 *           copies are stored.
 *   look    both sides are read once and summed (tally.h). Where all agrees,
 *           nothing is left to do.
 *   mend    the sources and copies in buckets that do not agree: sources are
 *           copied as above; copies whose source is gone, or has other keys
 *           now, go.
 *   ...     until a look agrees, or a mend has nothing to write
 *   strip   the provenance is taken off
 *
 * A move needs no look: what is left in the source is what is left to do. It
 * passes again until a pass finds nothing to move.
 */
#ifndef TW_JOBS_COPIER_H
#define TW_JOBS_COPIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/copying.h"
#include "jobs/engine/run.h"
#include "jobs/engine/selector.h"
#include "jobs/place.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct job_estimate;
struct job_stores;

/* Which copies go when their source is gone or has other keys. */
enum copier_prune {
    COPIER_PRUNE_RUN, /* those that this run wrote, and nobody changed */
    COPIER_PRUNE_ALL, /* all of this job's */
};

struct copier_rules {
    struct place from;
    struct selector selector;
    struct copying_target *targets;
    size_t target_count;
    struct slice provenance; /* the property's name */
    enum on_conflict on_conflict;
    bool move;
    bool owns; /* see struct copying_want */
    enum copier_prune prune;
    bool sources_lack_provenance; /* what has it is a copy, never a source */
    bool verify;                  /* what is left over fails the run, and the
                                     comparison goes to the ledger */
    bool strip;
    int64_t max_passes;
};

/* copier_run: see struct kind, run. job is its name. */
enum run_end copier_run(const struct copier_rules *rules,
    const struct job_stores *stores, struct run *run, struct err *err);

/* copier_estimate: see struct kind, estimate. */
TW_MUST_USE enum tw_err copier_estimate(const struct copier_rules *rules,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err);

/* copier_accept: can these arguments make a selection, and keys where they
 * stand alone in one? */
TW_MUST_USE enum tw_err copier_accept(const struct copier_rules *rules,
    const struct run_args *args, struct err *err);

#endif
