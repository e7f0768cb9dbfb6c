/* SPDX-License-Identifier: MIT */
/* One attempt of the kinds that copy, as its parts (copier_*.c) share it. */
#ifndef TW_JOBS_COPIER_WORK_H
#define TW_JOBS_COPIER_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/copier.h"
#include "jobs/copier_checkpoint.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/tally.h"
#include "jobs/provenance.h"
#include "worker/base/buf.h"

struct keyset;

/* Batches of one flow under way at once. */
#define COPIER_BATCHES_IN_FLIGHT 10

/* Entities that are read at once, one by one. */
#define COPIER_READS_MAX 16

/* A table that copies go to; each once. */
struct copier_table {
    struct store *store;
    struct place place;
    bool at_home;       /* in the source's own store */
    bool has_partition; /* copies are in this one alone: */
    struct slice partition_key;
    bool empty; /* it was, when the attempt began */
};

/* What of Verification, of 16 KiB, differences may take. */
#define COPIER_DIFFERENCES_MAX_BYTES (12 * 1024)

/* What the newest round has found that is not as it should be. */
struct copier_findings {
    int64_t surplus; /* copies of this job's whose source is gone or has other
                        keys, and that may not go */
    int64_t changed; /* copies that others have changed since */
    int64_t equal;   /* others' entities that are as good as copies, so that
                        none was made; of a mend, one by one */
    struct digest equal_sum; /* of these */
    size_t count;            /* of these: */
    struct buf differences;  /* JSON, for Verification */
};

struct copier {
    const struct copier_rules *rules;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;
    enum run_end end; /* how it ended, once a step returned false */

    struct arena arena; /* the selection, the tables, the checkpoint's keys */
    struct selection selection;
    struct store *store; /* the sources' */
    struct copier_table tables[COPYING_MAX_TARGETS];
    size_t table_count;
    size_t table_of[COPYING_MAX_TARGETS]; /* of each target */
    bool keys_change;                     /* of any target's copies; or whether
                                             there are to be any */
    bool late_writes;                     /* of any store that is written to */

    struct copier_checkpoint at;
    struct tally *tally;   /* of the last look; NULL: there was none */
    struct keyset *stands; /* copies that there should be, and of what; NULL:
                              not asked for */
    struct copier_findings findings;
    bool wrote;             /* the round has */
    int64_t changes_before; /* copier_changes() when it began */
};

/* ---- what is told ---- */

/* copier_tell_failed: a source that cannot be copied. */
void copier_tell_failed(
    struct copier *c, const struct entity *source, const char *why);

/* copier_forget: a round begins: what failed, was left or differed will be met
 * again. */
void copier_forget(struct copier *c);

/* copier_changes: what the run has written and deleted. */
int64_t copier_changes(const struct copier *c);

/* copier_differs: is: "failed", "surplus", ... The first ten are kept. */
void copier_differs(struct copier *c, const char *table,
    struct slice partition_key, struct slice row_key, const char *is);

/* copier_save: hand the checkpoint over. */
void copier_save(struct copier *c, bool progress);

/* ---- reading ---- */

/* Who is given each page; scratch is cleared after it. */
struct copier_reader {
    enum tw_err (*page)(struct copier *c, void *context,
        const struct page *page, struct arena *scratch, struct err *err);
    void *context;
};

/* copier_scan: all pages of spec. Counts what is read; asks between them
 * whether to stop (TW_STOPPED). */
TW_MUST_USE enum tw_err copier_scan(struct copier *c,
    const struct scan_spec *spec, const struct copier_reader *reader,
    struct err *err);

/* copier_scan_sources: what the selection may select, whole; resumed: behind
 * the checkpoint's place. */
TW_MUST_USE enum tw_err copier_scan_sources(struct copier *c, bool resumed,
    const struct copier_reader *reader, struct err *err);

/* copier_scan_places: whatever stands where sources may, selected or not. */
TW_MUST_USE enum tw_err copier_scan_places(
    struct copier *c, const struct copier_reader *reader, struct err *err);

/* copier_scan_table: one of the tables, as far as copies are in it. */
TW_MUST_USE enum tw_err copier_scan_table(struct copier *c,
    const struct copier_table *table, const struct copier_reader *reader,
    struct err *err);

/* One source to be read by its keys. */
struct copier_read {
    struct slice partition_key, row_key;
    const struct entity *source; /* as it is now; NULL: it is gone, or not
                                    one of the sources (any more) */
    bool gone; /* of a move also: a copy has taken its keys since */
};

/* copier_read_sources: at most COPIER_READS_MAX, all at once; pages (so many,
 * init'ed) hold what comes. */
TW_MUST_USE enum tw_err copier_read_sources(struct copier *c,
    struct copier_read *reads, size_t count, struct page *pages,
    struct err *err);

/* ---- sources and copies ---- */

/* copier_is_source: is entity one of them? */
bool copier_is_source(
    struct copier *c, const struct entity *entity, struct arena *arena);

/* copier_make: all copies of a source, without provenance: copies has room for
 * rules->target_count. False: err says why there can be none. */
bool copier_make(struct copier *c, const struct entity *source,
    struct arena *arena, struct entity *copies, struct err *err);

/* copier_provenance: of the run's copies in table, but for keys and ETag of
 * their sources. Borrows what the copier has. */
struct provenance copier_provenance(
    const struct copier *c, const struct copier_table *table);

/* copier_reads_ours: has entity, which stands in table, the provenance of this
 * job, of a source whose keys the run may select? What was moved is no copy of
 * a job that copies. */
bool copier_reads_ours(struct copier *c, const struct copier_table *table,
    const struct entity *entity, struct arena *arena, struct provenance *ret);

/* copier_is_mine: did this run write what stands there, and nobody since? */
bool copier_is_mine(struct copier *c, const struct provenance *provenance,
    const struct entity *copy);

/* copier_stands_add, copier_stands_has: c->stands: of the source at those keys
 * there should be that copy in table number `table`. */
void copier_stands_add(struct copier *c, size_t table,
    const struct entity *copy, struct slice partition_key,
    struct slice row_key);
bool copier_stands_has(struct copier *c, size_t table,
    const struct entity *copy, struct slice partition_key,
    struct slice row_key);

#endif
